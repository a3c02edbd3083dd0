"""Fits that leave no trace: no warning, output, log record, file or state of a global generator."""

import copy
import functools
import logging
import os
import platform
import random
import threading
import warnings
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout

import numpy as np
from joblib import parallel_config
from joblib.memory import MemorizedFunc
from sklearn.frozen import FrozenEstimator

__all__ = [
    "ONE_AT_A_TIME",
    "jobs_here",
    "nothing_leaves",
    "public_generators",
    "quiet",
    "refuse_cached_functions",
    "thawed",
    "this_process",
    "unshared",
]


class _OneAtATime:
    """Held by a thread that trains or predicts: the global generators belong to the process.

    Threads that used them at once would pass on to one model how often another has drawn.
    """

    def __init__(self):
        self.renew()

    def renew(self):
        """Hold nothing: a thread that is not in a forked child may have held it."""
        self._lock, self._mine = threading.RLock(), threading.local()

    def __enter__(self):
        self._lock.acquire()
        self._mine.depth = self.depth + 1

    def __exit__(self, *exc_info):
        self._mine.depth = self.depth - 1
        self._lock.release()

    @property
    def depth(self):
        """How often this thread holds it."""
        return getattr(self._mine, "depth", 0)


ONE_AT_A_TIME = _OneAtATime()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ONE_AT_A_TIME.renew)


def jobs_here(n_jobs):
    """Number of jobs; 1 inside `ONE_AT_A_TIME`: threads would wait for the one that waits for them.

    Parameters
    ----------
    n_jobs : int or None
        Outside.
    """
    return 1 if ONE_AT_A_TIME.depth else n_jobs


def this_process():
    """Name of the process; two machines may have processes of one number."""
    return platform.node(), os.getpid()


@contextmanager
def nothing_leaves():
    """`quiet`, and no file of parallel work.

    The generators are put back and not seeded: other threads may draw noise from them. What
    compiled code writes to the terminal by itself is not held back.
    """
    # Parallel work inside would otherwise write large arrays to disk for its workers.
    with quiet(), parallel_config(max_nbytes=None):
        yield


@contextmanager
def public_generators(seed):
    """Seed the global generators of Python and numpy publicly, and put their states back.

    Only inside `ONE_AT_A_TIME`: a private training in another thread may take its noise from them.
    What the caller has numpy do about overflow (``np.seterr``) does not happen meanwhile.
    """
    states = random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002
    random.seed(seed)  # public randomness
    np.random.seed(seed)  # public randomness  # noqa: NPY002
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


class _Quiet:
    """Drops what estimators print, log and warn of.

    It would tell of records, and one line of it for each trial how many trials there were.
    Re-entrant and shared by threads: the first to come in silences, the last to leave restores.
    The global generators, which estimators may use, are put back as well: their state would tell
    how often they were used.
    """

    def __init__(self):
        self._lock, self._depth, self._restore = threading.Lock(), 0, None

    def __enter__(self):
        with self._lock:
            if self._depth == 0:
                self._restore = _silence()
            self._depth += 1

    def __exit__(self, *exc_info):
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._restore.close()


def _silence():
    """Return what undoes it."""
    undo = ExitStack()
    nowhere = undo.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    undo.enter_context(redirect_stdout(nowhere))
    undo.enter_context(redirect_stderr(nowhere))
    undo.callback(logging.disable, logging.root.manager.disable)
    undo.callback(random.setstate, random.getstate())
    undo.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
    logging.disable(logging.CRITICAL)
    # Recorded, that is not shown: threads that reset the filters let some warnings through.
    undo.enter_context(warnings.catch_warnings(record=True))
    warnings.simplefilter("ignore")
    return undo


_QUIET = _Quiet()


@contextmanager
def quiet():
    """Context in which nothing is said, and after which the global generators are as before."""
    with _QUIET:
        yield


def unshared(model):
    """An estimator that shares no part with others, and its frozen parts with their originals.

    Cloning hands on frozen parts as they are. One may keep what it is shown, or its generator's
    state moves: the caller's own object would then tell of protected rows.

    Parameters
    ----------
    model : estimator
        Not fitted, a clone.

    Returns
    -------
    model : estimator
    frozen : list of tuple (FrozenEstimator, FrozenEstimator)
        Copy and original.
    """
    parts = [model, *model.get_params(deep=True).values()]
    originals = {id(part): part for part in _frozen_among(parts)}
    if not originals:
        return model, []
    copies = {}
    model = copy.deepcopy(model, copies)
    return model, [(copies[key], original) for key, original in originals.items()]


def _frozen_among(parts, depth=3):
    """Yield the frozen estimators among objects, and in lists and dicts among them."""
    for part in parts:
        if isinstance(part, FrozenEstimator):
            yield part
        elif depth and isinstance(part, list | tuple | dict):
            inner = part.values() if isinstance(part, dict) else part
            yield from _frozen_among(inner, depth - 1)


def thawed(frozen):
    """Put what was frozen back in its place: what has been shown rows may not be released.

    Parameters
    ----------
    frozen : list
        From `unshared`.
    """
    for twin, original in frozen:
        twin.estimator = original.estimator


def refuse_cached_functions(estimator, candidates, scoring):
    """Raise for functions that ``joblib.Memory`` caches: they would write protected rows to disk.

    Parameters
    ----------
    estimator : estimator
    candidates : list of dict
    scoring : object
        As given to the searcher.

    Raises
    ------
    ValueError
    """
    loss = getattr(getattr(scoring, "_loss", None), "function", None)
    for params in [estimator.get_params(deep=True), {"scoring": loss}, *candidates]:
        for name, value in params.items():
            parts = {name: value}
            if hasattr(value, "get_params") and not isinstance(value, type):
                parts |= value.get_params(deep=True)
            if any(isinstance(_called(part), MemorizedFunc) for part in parts.values()):
                raise ValueError(
                    f"{name} is cached by joblib.Memory, which would write protected rows to disk: "
                    "give the function itself."
                )


def _called(function):
    """The function inside of `functools.partial`."""
    while isinstance(function, functools.partial):
        function = function.func
    return function
