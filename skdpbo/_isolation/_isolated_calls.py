"""Isolation of fits and predictions on protected rows: nothing but their result leaves."""

import os
import platform
import random
import warnings
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from operator import getitem

import numpy as np
from numpy.random import seed as seed_numpy  # bound here: some projects let that name raise

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


# Held by a thread that trains or predicts: the global generators belong to the process. Threads
# that used them at once would pass on to one model how often another has drawn. Re-entrant: a
# training may score, and an estimator train others in this thread.
ONE_AT_A_TIME = ReentrantLock()
ONE_AT_A_TIME.free_in_forks()


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
