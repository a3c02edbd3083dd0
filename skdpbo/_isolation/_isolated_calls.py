"""Isolation of fits and predictions on protected rows: only their result leaves."""

import os
import platform
import random
import warnings
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from decimal import localcontext
from operator import getitem

import numpy as np
from numpy.random import seed as seed_numpy  # bound here: some projects let that name raise

from skdpbo._isolation._parallel import run_tasks, undivided
from skdpbo._isolation._silence import nothing_leaves
from skdpbo._reentrant_lock import ReentrantLock
from skdpbo.privacy.ledger._charging import covered_by_fit


def run_isolated(function, tasks, *, n_jobs, pre_dispatch, secretly_often=False, progress=None):
    """Return ``[function(*task) for task in tasks]``, each task isolated.

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
        Progress of the tasks, if their number is public.

    Returns
    -------
    results : list
    """
    if secretly_often and progress is not None:
        raise ValueError("progress would reveal the secret number of tasks.")
    tasks = [(this_process(), secretly_often, function, task) for task in tasks]
    # One job inside `ONE_AT_A_TIME`: threads that wait for the lock of this one would deadlock.
    n_jobs = 1 if ONE_AT_A_TIME.is_held() else n_jobs
    # Filters are set here as well, since worker threads reset each other's. Warnings that pass
    # while a worker resets them are recorded, that is, not shown, and dropped.
    with nothing_leaves(), covered_by_fit(), warnings.catch_warnings(record=True):
        warnings.simplefilter("ignore")
        options = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch, "progress": progress}
        return run_tasks(_isolated_task, tasks, **options)


def in_isolation(function, *args):
    """Return ``function(*args)``, computed in this process; only the result leaves.

    Protected: pass only to a mechanism.
    """
    return undivided(_isolated_task, (None, False, function, args))


def in_own_context(function, *args):
    """Return ``function(*args)``, isolated from other calls of the same task. Call in isolation."""
    return _isolated_task(this_process(), False, function, args)


def _isolated_task(parent, secretly_often, function, args):
    """Protected: call a function in isolation, in this process or in a worker."""
    # Streams and logging belong to a process: a worker process is silenced here, while threads
    # share the silence of the parent.
    silence = nullcontext() if this_process() == parent else nothing_leaves()
    # The fit has paid: private estimators inside charge no ledger again.
    paid = covered_by_fit("given rows, secretly often" if secretly_often else "given rows")
    # Recorded, that is, not shown, and dropped.
    filters, floats = warnings.catch_warnings(record=True), np.errstate(all="ignore")
    # All contexts share one object with the flags and the precision of decimal numbers.
    with silence, ONE_AT_A_TIME, paid, filters, floats, localcontext():
        warnings.simplefilter("ignore")
        generator = np.random.get_bit_generator()
        try:
            # A copy of the context: what user code sets there, as for logs, stays there.
            result = copy_context().run(function, *args)
        finally:
            _put_back(generator)
        return result if parent in (None, this_process()) else _SentResult(result)


def _put_back(generator):
    """Restore numpy's generator if an interrupt kept `seeded_generators` from restoring it.

    Python's generator is seeded afresh: its state is that of a public seed, and the state from
    before could repeat noise.
    """
    if np.random.get_bit_generator() is not generator:
        random.seed()
        np.random.set_bit_generator(generator)


class _SentResult:
    """Result in a worker process: it is unpickled as itself, and deleted in silence here."""

    def __init__(self, result):
        self._result = result

    def __reduce__(self):
        return getitem, ([self._result], 0)  # unpickles as `_result`

    def __del__(self):
        with nothing_leaves(), warnings.catch_warnings(record=True, action="ignore"):
            del self._result


# Held by a thread that trains or predicts: with the process-wide random generators, the draws of
# one model would otherwise depend on those of another. Re-entrant: a training may score, and an
# estimator train others, in the same thread.
ONE_AT_A_TIME = ReentrantLock()
ONE_AT_A_TIME.free_in_forks()


def this_process():
    """Return host name and process id, as workers may be on several machines."""
    return platform.node(), os.getpid()


@contextmanager
def seeded_generators(seed):
    """Seed the global generators of Python and numpy, and restore their states afterwards.

    Only inside isolation: a private training in another thread may draw its noise from them. The
    cached normal deviate of ``np.random`` is restored where isolation ends.

    Parameters
    ----------
    seed : int or ndarray of 32-bit words
    """
    state, source = random.getstate(), np.random.get_bit_generator()
    # The generator is exchanged: copying its state takes longer than most predictions.
    spare = _SPARE_SOURCES.pop() if _SPARE_SOURCES else np.random.MT19937()
    _SEEDED.append(spare)
    np.random.set_bit_generator(spare)  # first: it marks that the state has to be restored
    try:
        random.seed(seed if isinstance(seed, int) else seed.tobytes())  # all words of an array
        seed_numpy(seed)  # noqa: NPY002
        yield
    finally:
        # Not if this runs late, when the traceback of an interrupt is freed: noise may have been
        # drawn since, which restored states would repeat.
        if np.random.get_bit_generator() is spare:
            random.setstate(state)
            np.random.set_bit_generator(source)
        _SEEDED.remove(spare)
        _SPARE_SOURCES.append(spare)


# Never freed: another thread may be drawing from one while it is exchanged.
_SPARE_SOURCES: list = []
_SEEDED: list = []  # in use


def _renew_generator():
    """Renew numpy's generator in a process that another thread forks while it is seeded.

    All such processes would draw the same numbers of a public seed. Python reseeds its own
    generator after a fork.
    """
    if np.random.get_bit_generator() in _SEEDED and not ONE_AT_A_TIME.is_held():
        np.random.set_bit_generator(np.random.MT19937())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_generator)
