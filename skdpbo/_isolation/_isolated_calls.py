"""Isolation of fits and predictions on protected rows: nothing but their result leaves."""

import copy
import functools
import os
import platform
import random
import sys
import warnings
from collections import deque
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from enum import Enum
from operator import getitem
from types import FunctionType, MethodType, ModuleType

import numpy as np
from joblib.memory import MemorizedFunc
from numpy.random import seed as seed_numpy  # bound here: some projects let that name raise
from sklearn.base import BaseEstimator

from skdpbo._isolation._parallel import run_tasks, undivided
from skdpbo._isolation._silence import nothing_leaves
from skdpbo._reentrant_lock import ReentrantLock
from skdpbo.privacy.ledger._charging import covered_by_fit


def run_isolated(function, tasks, *, n_jobs, pre_dispatch, secretly_often=False, progress=None):
    """Return ``[function(*task) for task in tasks]``, each computed by `in_isolation`.

    Protected: pass only to a mechanism.

    Parameters
    ----------
    function : callable
        At the top level of a module, so that workers can import it.
    tasks : list of tuple
    n_jobs, pre_dispatch
        As in joblib.
    secretly_often : bool, default=False
        Whether the number of tasks is secret.
    progress : Progress, default=None
        Of the tasks, where their number is public.

    Returns
    -------
    results : list
    """
    if secretly_often and progress is not None:
        raise ValueError("progress would tell the secret number of tasks.")
    tasks = [(this_process(), secretly_often, function, task) for task in tasks]
    # One job inside `ONE_AT_A_TIME`: threads would wait for the one that waits for them.
    n_jobs = 1 if ONE_AT_A_TIME.is_held() else n_jobs
    # The filters are also set here: with threads, each worker restores those of the one before.
    # What slips through while a worker resets them is recorded, that is not shown, and dropped.
    with nothing_leaves(), covered_by_fit(), warnings.catch_warnings(record=True):
        warnings.simplefilter("ignore")
        how = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch, "progress": progress}
        return run_tasks(_isolated_task, tasks, **how)


def in_isolation(function, *args):
    """Return ``function(*args)``, computed in this process; nothing else of it leaves.

    Protected: pass only to a mechanism.
    """
    return undivided(_isolated_task, (None, False, function, args))


def apart(function, *args):
    """Return ``function(*args)``, apart from the others of a task: it shares no context with them.

    Call in isolation.
    """
    return _isolated_task(this_process(), False, function, args)


def _isolated_task(parent, secretly_often, function, args):
    """Protected: call a function where nothing else of it leaves; in workers, too."""
    # Streams and logging belong to a process: one that joblib has started is silenced here, and
    # threads share the silence of the parent.
    silence = nullcontext() if this_process() == parent else nothing_leaves()
    # The fit has paid: an estimator inside that is private itself charges no ledger again.
    paid = covered_by_fit("given rows, secretly often" if secretly_often else "given rows")
    # Recorded, and dropped: a caller who records hears all that code in its own context lets pass.
    filters, floats = warnings.catch_warnings(record=True), np.errstate(all="ignore")
    with silence, ONE_AT_A_TIME, paid, filters, floats:
        warnings.simplefilter("ignore")
        generator = np.random.get_bit_generator()
        try:
            # What code binds to its context, as for logs, is not that of the caller.
            result = copy_context().run(function, *args)
        finally:
            _put_back(generator)
        return result if parent in (None, this_process()) else _SentResult(result)


def _put_back(generator):
    """Put numpy's generator back where an interrupt has kept `seeded_generators` from it.

    Python's own gets a new state: numbers of a public seed are known, those of before may repeat.
    """
    if np.random.get_bit_generator() is not generator:
        random.seed()
        np.random.set_bit_generator(generator)


class _SentResult:
    """Result of a worker, which the caller gets as such; the worker's own ends in silence."""

    def __init__(self, result):
        self._result = result

    def __reduce__(self):
        return getitem, ([self._result], 0)  # which returns the result

    def __del__(self):
        with nothing_leaves(), warnings.catch_warnings(record=True, action="ignore"):
            del self._result


class OneAtATime(ReentrantLock):
    """Lock of a thread that trains or predicts: the global generators belong to the process.

    Threads that used them at once would pass on to one model how often another has drawn.
    """

    # Re-entrant: a training may score, and an estimator train others in this thread.
    def __init__(self):
        super().__init__()
        self.free_in_forks()


ONE_AT_A_TIME = OneAtATime()


def this_process():
    """Return the name of the process; two machines may have processes of one number."""
    return platform.node(), os.getpid()


@contextmanager
def seeded_generators(seed):
    """Seed the global generators of Python and numpy, and put them back as they were.

    Only inside isolation: a private training in another thread may take its noise from them. A
    normal deviate that ``np.random`` holds in reserve comes back where isolation ends.

    Parameters
    ----------
    seed : int or ndarray of 32-bit words
    """
    state, source = random.getstate(), np.random.get_bit_generator()
    # Another source in its place: numpy copies a state word by word, slower than most predictions.
    spare = _SPARE_SOURCES.pop() if _SPARE_SOURCES else np.random.MT19937()
    _SEEDED.append(spare)
    np.random.set_bit_generator(spare)  # first: it shows that the seed has to be put back
    try:
        random.seed(seed if isinstance(seed, int) else seed.tobytes())  # of an array all words
        seed_numpy(seed)  # noqa: NPY002
        yield
    finally:
        # Late, with the traceback of an interrupt, others are at work, or noise has been drawn.
        if np.random.get_bit_generator() is spare:
            random.setstate(state)
            np.random.set_bit_generator(source)
        _SEEDED.remove(spare)
        _SPARE_SOURCES.append(spare)


# Never freed: another thread may be drawing while the source is exchanged.
_SPARE_SOURCES: list = []
_SEEDED: list = []  # those in use


def _renew_generator():
    """Give a process that another thread has forked meanwhile a generator of numpy of its own.

    All such processes would draw the same numbers, of a public seed, as long as they run. Python
    renews its own generator.
    """
    if np.random.get_bit_generator() in _SEEDED and not ONE_AT_A_TIME.is_held():
        np.random.set_bit_generator(np.random.MT19937())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_generator)


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


def parts_inside(value, around=()):
    """Yield an object, the parameters of estimators in it, and what containers of it hold.

    Not numbers and texts, nor what a frozen estimator is made of, which is not trained. `around` is
    what holds the object.
    """
    yield value
    if _is_frozen(value) or any(value is outer for outer in around):  # they may hold themselves
        return
    if isinstance(value, np.ndarray):
        inner = value.ravel().tolist() if value.dtype.hasobject else ()
    elif isinstance(value, list | tuple | set | frozenset | deque | dict):
        inner = value.values() if isinstance(value, dict) else value
    else:
        inner = own_params(value).values()
    for part in inner:
        if type(part) not in _PLAIN:  # of which vocabularies have many
            yield from parts_inside(part, (*around, value))


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
        elif isinstance(part, MethodType):
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
