"""Isolation of fits and predictions on protected rows: nothing but their result leaves."""

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

from skdpbo._isolation._parallel import run_tasks
from skdpbo.privacy.ledger._charging import covered_by_fit

__all__ = [
    "in_isolation",
    "refuse_cached_functions",
    "restore_frozen",
    "run_isolated",
    "seeded_generators",
    "unshared",
]


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
    n_jobs = 1 if ONE_AT_A_TIME.depth else n_jobs
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
    return _isolated_task(None, False, function, args)


def _isolated_task(parent, secretly_often, function, args):
    with ExitStack() as stack:
        if this_process() != parent:  # threads share the silence of the parent
            stack.enter_context(nothing_leaves())
        paid = covered_by_fit("given rows, secretly often" if secretly_often else "given rows")
        contexts = ONE_AT_A_TIME, paid, warnings.catch_warnings()
        for context in (*contexts, np.errstate(all="ignore")):
            stack.enter_context(context)
        warnings.simplefilter("ignore")
        return function(*args)


class _OneAtATime:
    """Lock of a thread that trains or predicts: the global generators belong to the process.

    Threads that used them at once would pass on to one model how often another has drawn.
    """

    def __init__(self):
        self.reset()

    def reset(self):
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
        """Number of times that this thread holds it."""
        return getattr(self._mine, "depth", 0)


ONE_AT_A_TIME = _OneAtATime()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ONE_AT_A_TIME.reset)


def this_process():
    """Return the name of the process; two machines may have processes of one number."""
    return platform.node(), os.getpid()


@contextmanager
def nothing_leaves():
    """Drop what estimators print, log and warn of, and write no file of parallel work.

    Output could reveal records or the number of trials. The global generators, which estimators
    may use, are put back and not seeded: other threads may draw noise from them. What compiled
    code writes to the terminal by itself is not held back.
    """
    # Parallel work inside would otherwise write large arrays to disk for its workers.
    with _QUIET, parallel_config(max_nbytes=None):
        yield


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
    random.seed(seed if isinstance(seed, int) else seed.tobytes())
    np.random.set_bit_generator(spare)
    try:
        np.random.seed(seed)  # noqa: NPY002
        yield
    finally:
        random.setstate(state)
        np.random.set_bit_generator(source)
        _SPARE_SOURCES.append(spare)


# Never freed: another thread may be drawing while the source is exchanged.
_SPARE_SOURCES: list = []


class _Quiet:
    """Silence, re-entrant and shared by threads: the first enters it, the last restores."""

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
    """Return the stack that undoes it."""
    with ExitStack() as undo:  # also of an error half-way
        nowhere = undo.enter_context(open(os.devnull, "w", encoding="utf-8"))
        undo.enter_context(redirect_stdout(nowhere))
        undo.enter_context(redirect_stderr(nowhere))
        undo.callback(logging.disable, logging.root.manager.disable)
        undo.callback(random.setstate, random.getstate())
        # A dict: the tuple is for MT19937 alone, and asking for it warns with another source.
        undo.callback(np.random.set_state, np.random.get_state(legacy=False))  # noqa: NPY002
        logging.disable(logging.CRITICAL)
        # Recorded, that is not shown: threads that reset the filters let some warnings through.
        undo.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("ignore")
        return undo.pop_all()


_QUIET = _Quiet()


def unshared(model):
    """Return an estimator that shares no part with others, and its frozen parts with originals.

    Cloning hands on frozen parts as they are. One may keep what it is shown, or the state of its
    generator moves: the caller's own object would then hold protected rows.

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


def restore_frozen(frozen):
    """Put the frozen originals back: copies that were shown rows may not be released.

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
            parts = [value]
            if hasattr(value, "get_params") and not isinstance(value, type):
                parts += value.get_params(deep=True).values()
            for part in parts:
                while isinstance(part, functools.partial):
                    part = part.func
                if isinstance(part, MemorizedFunc):
                    raise ValueError(
                        f"{name} is cached by joblib.Memory, which would write protected rows to "
                        "disk: give the function itself."
                    )
