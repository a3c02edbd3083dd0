"""Parts of estimators: search, and copies that may keep protected rows."""

import copy
import functools
import sys
from collections import deque
from enum import Enum
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType

import numpy as np
from joblib.memory import MemorizedFunc
from sklearn.base import BaseEstimator


def unshared(model):
    """Return an estimator without shared parts, and pairs of its frozen parts and their originals.

    Cloning passes on frozen parts (``__sklearn_clone__`` returns the part itself) uncopied. A
    frozen part may store the rows that it predicts, or advance its random generator: the caller's
    object would then hold protected rows.

    Parameters
    ----------
    model : estimator
        Not fitted; a clone.

    Returns
    -------
    model : estimator
    frozen : list of tuple (estimator, estimator)
        Copy and original of each frozen part.

    Raises
    ------
    TypeError
        If copying a frozen part returns the part itself.
    """
    originals = {id(part): part for part in parts_inside(model) if _is_frozen(part)}
    if not originals:
        return model, []
    copies = {}  # deepcopy's memo: by the id of an original, its copy
    model = copy.deepcopy(model, copies)
    for key, part in originals.items():
        if key not in copies:  # it is its own copy
            raise TypeError(
                f"{type(part).__name__} can be neither cloned nor copied, and would keep protected "
                "rows: take its __sklearn_clone__ or its __deepcopy__ away."
            )
    return model, [(copies[key], original) for key, original in originals.items()]


def parts_inside(value):
    """Yield an object and, recursively, parameters of estimators and items of containers, once.

    Without numbers and texts, and without parts of frozen estimators, which are not trained.
    """
    seen, pending = {}, [value]  # parts are kept alive, so that no id is reused
    while pending:
        part = pending.pop()
        if id(part) in seen:  # parts may contain each other
            continue
        seen[id(part)] = part
        yield part
        if _is_frozen(part):
            continue
        if isinstance(part, np.ndarray):
            inner = part.ravel().tolist() if part.dtype.hasobject else ()
        elif isinstance(part, list | tuple | set | frozenset | deque | dict):
            inner = part.values() if isinstance(part, dict) else part
        else:
            inner = own_params(part).values()
        # Plain values are skipped here, since vocabularies are long. Reversed, as `pop` is last-in.
        pending += [held for held in inner if type(held) not in _PLAIN][::-1]


_PLAIN = {type(None), bool, int, float, complex, str, bytes, np.float64, np.int64, np.str_}


def is_estimator(value):
    """Whether a value is an estimator or a kernel; classes of them are not."""
    return hasattr(value, "get_params") and not isinstance(value, type)


def own_params(value):
    """Return the parameters of an estimator itself, by name; none of anything else."""
    return value.get_params(deep=False) if is_estimator(value) else {}


def _is_frozen(part):
    usual = BaseEstimator.__sklearn_clone__
    own = getattr(type(part), "__sklearn_clone__", usual)
    return own is not usual and part.__sklearn_clone__() is part


def separate_copy(model):
    """Return a copy of a fitted model that predicts in its place, and may keep rows.

    Raises
    ------
    TypeError
        If the copy and the model share a mutable part.
    """
    copied = copy.deepcopy(model)
    own, copies = _mutable_parts(model), _mutable_parts(copied)
    for key, part in own.items():  # outer parts come before inner ones
        if key in copies:
            raise TypeError(
                f"{type(part).__name__} in a fitted {type(model).__name__} is its own copy, and "
                "would keep protected rows: take its __deepcopy__ away, and hold none of its "
                "built-in methods."
            )
    return copied


def _mutable_parts(value):
    """Return the objects with attributes, and the containers, within an object, by id."""
    found, seen, pending = {}, {}, [value]
    while pending:
        part = pending.pop()
        if id(part) in seen or isinstance(part, _GLOBAL):
            continue
        # Functions of compiled code, and other attributes of modules, are global as well.
        name, module = (getattr(part, key, None) for key in ("__qualname__", "__module__"))
        is_named = isinstance(name, str) and isinstance(module, str)
        if is_named and getattr(sys.modules.get(module), name, None) is part:
            continue
        seen[id(part)] = part
        slots = (name for kind in type(part).__mro__ for name in vars(kind).get("__slots__", ()))
        pending += [getattr(part, name) for name in slots if hasattr(part, name)]
        if hasattr(part, "__dict__"):
            pending += vars(part).values()
        if isinstance(part, dict):
            pending += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset | deque):
            pending += part
        elif isinstance(part, np.ndarray) and part.dtype.hasobject:
            pending += part.ravel().tolist()
        elif isinstance(part, functools.partial):
            pending += [part.func, part.args, part.keywords]
        elif isinstance(part, MethodType | BuiltinMethodType):  # no copy has another list's append
            pending.append(part.__self__)
        if hasattr(part, "__dict__") or isinstance(part, _MUTABLE):
            found[id(part)] = part
    return found


_MUTABLE = (dict, list, set, deque, bytearray, np.ndarray)
# Their state belongs to the process, not to the model.
_GLOBAL = (type, ModuleType, FunctionType, Enum, np.ufunc)


def refuse_cached_functions(estimator, candidates=(), scoring=None):
    """Raise for functions that ``joblib.Memory`` caches: they would write protected rows to disk.

    Parameters
    ----------
    estimator : estimator
    candidates : sequence of dict, default=()
    scoring : object, default=None
        As given to the searcher.

    Raises
    ------
    ValueError
    """
    scorers = [*scoring.values()] if isinstance(scoring, dict) else [scoring]
    losses = (getattr(getattr(scorer, "_loss", None), "function", None) for scorer in scorers)
    responses = (getattr(scorer, "response_method", None) for scorer in scorers)
    functions = ({"scoring": function} for function in (*losses, *responses))
    for params in [estimator.get_params(deep=True), *functions, *candidates]:
        for name, value in params.items():
            parts = [value]  # with the parameters of a candidate that is an estimator
            if is_estimator(value):
                parts += value.get_params(deep=True).values()
            for part in parts:
                while isinstance(part, functools.partial):
                    part = part.func
                if isinstance(getattr(part, "__self__", part), MemorizedFunc):  # or its method
                    raise ValueError(
                        f"{name} is cached by joblib.Memory, which would write protected rows to "
                        "disk: give the function itself."
                    )
