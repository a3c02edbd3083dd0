"""Traversal of all objects reachable from an object."""

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from skdpbo._attempt import attempt

_SINGLE = (int, float, complex, str, bytes, np.generic)
# Types whose contents are all visited without their pickled state.
_OPEN = (list, tuple, set, frozenset, Mapping, np.ndarray, types.FunctionType, BaseException)
_CLOSED = (types.ModuleType, type, types.BuiltinFunctionType, types.CodeType)


def reachable(
    thing: Any, *, skip: Callable[[Any], bool] | None = None
) -> Iterator[tuple[str, Any]]:
    """Visit an object and all objects that it holds, once each.

    Covers attributes, slots, items of containers, arrays and their bases, closures and defaults of
    functions, partial functions, exceptions with their chain and notes, and the pickled state of
    other objects, such as those of pandas. Modules, types, code and tracebacks are not entered: the
    frames of a traceback stay in the process that holds the data and are neither pickled nor
    printed.

    Parameters
    ----------
    thing : object
        Root of the traversal.
    skip : callable, default=None
        The items of an array for which it returns True are not visited.

    Yields
    ------
    path : str
        Path from the root, such as ``".best_estimator_.coef_[0]"``.
    value : object
        The object at this path.

    Examples
    --------
    >>> from skdpbo.audit import reachable
    >>> dict(reachable([1, {"a": 2}]))["[1]['a']"]
    2
    """
    # Iterative, as a chain of objects may be longer than Python's stack.
    seen, pending = {}, [("", thing)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, _CLOSED):
            continue
        if not isinstance(value, _SINGLE):
            if id(value) in seen:
                continue
            seen[id(value)] = value  # kept alive, so that its id is not reused
        yield path or "object", value
        pending += ((path + step, part) for step, part in parts(value, skip))


def parts(thing, skip=None):
    """Return (step, part) for each object held directly."""
    if isinstance(thing, _SINGLE) or thing is None:
        return []
    found = [*_contents(thing, skip)]
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            found.append((f".{slot}", _attribute(thing, slot)))
    attributes = _attribute(thing, "__dict__")
    if isinstance(attributes, dict):
        found += [(f".{name}", value) for name, value in attributes.items()]
    kind = type(thing)
    compiled = not found or kind.__reduce__ is not object.__reduce__
    if compiled and not isinstance(thing, _OPEN):  # its state may not be in attributes
        state, _ = attempt(_pickled, thing)
        # Put first, as the last ones are visited first: paths by attributes are preferred.
        found[:0] = [(f".state[{i}]", part) for i, part in enumerate(state or ())]
    return found


def _pickled(thing):
    """Return the parts of the pickle protocol: arguments, state, items and setter of the state."""
    state = list(thing.__reduce_ex__(2)[1:])
    state[2:4] = [part if part is None else list(part) for part in state[2:4]]
    return state


def as_array(values):
    """Return a frame or series as an array, and anything else unchanged."""
    return values.to_numpy() if hasattr(values, "to_numpy") else values


def _attribute(thing, name):
    try:
        return getattr(thing, name, None)
    except Exception:  # a property of a foreign object
        return None


def _contents(thing, skip):
    """Yield items, and what functions, generators and exceptions hold apart from attributes."""
    if isinstance(thing, np.ndarray):
        if skip is None or not skip(thing):
            yield from ((f"[{i}]", v) for i, v in enumerate(np.ma.getdata(thing).ravel().tolist()))
        yield ".base", thing.base  # a view holds the whole array
    elif isinstance(thing, Mapping):
        for i, (key, value) in enumerate(thing.items()):
            yield f".key[{i}]", key
            yield f"[{key!r}]" if isinstance(key, str | int) else f".value[{i}]", value
    elif isinstance(thing, list | tuple | set | frozenset):
        yield from ((f"[{i}]", value) for i, value in enumerate(thing))
    elif isinstance(thing, memoryview):
        yield ".obj", thing.obj
    if isinstance(thing, types.FunctionType):
        # A lambda holds the variables of the scope that it was made in.
        for i, cell in enumerate(thing.__closure__ or ()):
            yield f".closure[{i}]", _attribute(cell, "cell_contents")
        yield ".defaults", (thing.__defaults__, thing.__kwdefaults__)
    elif isinstance(thing, types.MethodType):
        yield ".self", thing.__self__
        yield ".func", thing.__func__
    elif isinstance(thing, types.GeneratorType) and thing.gi_frame is not None:
        yield ".locals", dict(thing.gi_frame.f_locals)
    elif hasattr(thing, "func") and hasattr(thing, "keywords"):  # functools.partial
        yield ".partial", (thing.func, _attribute(thing, "args"), thing.keywords)
    if isinstance(thing, BaseException):
        yield ".args", thing.args
        yield ".str", str(thing)
        # Not the traceback, whose frames belong to the caller.
        yield ".cause", thing.__cause__
        yield ".context", thing.__context__
        yield ".notes", getattr(thing, "__notes__", ())
