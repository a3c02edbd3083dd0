"""Parts of estimators: finding them, and copies for what they keep of protected rows."""

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
    """Return an estimator that shares no part with others, and its frozen parts with originals.

    Cloning hands on frozen parts as they are, and others whose ``__sklearn_clone__`` does. One may
    keep what it is shown, or the state of its generator moves: the caller's own object would then
    hold protected rows.

    Parameters
    ----------
    model : estimator
        Not fitted, a clone.

    Returns
    -------
    model : estimator
    frozen : list of tuple (estimator, estimator)
        Copy and original.

    Raises
    ------
    TypeError
        If a part is its own clone and its own copy.
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
    """Yield an object, the parameters of estimators in it, and what containers of it hold, once.

    Not numbers and texts, nor what a frozen estimator is made of, which is not trained.
    """
    seen, pending = {}, [value]  # all are kept, so that no id is that of a later part
    while pending:
        part = pending.pop()
        if id(part) in seen:  # they may hold themselves
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
        # Vocabularies have many texts. In their order, the first at the end.
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
    """Return a copy of a fitted model, for what it keeps of the rows that it predicts.

    Raises
    ------
    TypeError
        If the copy and the model share a part that may keep rows.
    """
    copied = copy.deepcopy(model)
    own, others = _changeable_parts(model), _changeable_parts(copied)
    for key, part in own.items():  # in order: a part before what it holds
        if key in others:
            raise TypeError(
                f"{type(part).__name__} in a fitted {type(model).__name__} is its own copy, and "
                "would keep protected rows: take its __deepcopy__ away."
            )
    return copied


def _changeable_parts(value):
    """Return the objects with attributes, and the containers, in an object, by their ids."""
    found, seen, pending = {}, {}, [value]
    while pending:
        part = pending.pop()
        if id(part) in seen or isinstance(part, _GLOBAL):
            continue
        # What a module has by its own name, as functions of compiled code, is global, too.
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
        if hasattr(part, "__dict__") or isinstance(part, _CHANGEABLE):
            found[id(part)] = part
    return found


_CHANGEABLE = (dict, list, set, deque, bytearray, np.ndarray)
# State of these is that of the process, whatever the model is.
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
            parts = [value]  # of a candidate that is an estimator, its own functions as well
            if is_estimator(value):
                parts += value.get_params(deep=True).values()
            for part in parts:
                while isinstance(part, functools.partial):  # also around a cached function
                    part = part.func
                if isinstance(getattr(part, "__self__", part), MemorizedFunc):  # or its method
                    raise ValueError(
                        f"{name} is cached by joblib.Memory, which would write protected rows to "
                        "disk: give the function itself."
                    )
