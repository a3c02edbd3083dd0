"""Parallel work that ends with a result, whatever becomes of a worker, and its progress.

The lines about its progress depend on public numbers alone.
"""

import sys
import threading
from contextlib import suppress

from joblib import parallel_config
from joblib.parallel import get_active_backend
from sklearn.utils.parallel import Parallel, delayed

from skdpbo._attempt import attempt

_ATTEMPTS = 2  # with workers, before the work is done in this process


def run_tasks(function, tasks, *, n_jobs, pre_dispatch, progress=None):
    """Return ``[function(*task) for task in tasks]``, computed where joblib's backend is.

    Protected: pass only to a mechanism. A record that cannot be sent to a worker, or that ends it,
    may not decide whether a fit fails, and no error of joblib may quote it. So what fails there is
    tried there once more, as a worker may have died for other reasons, and then done in this
    process.

    Parameters
    ----------
    function : callable
        It should return its own errors: one that it raises comes out of the last attempt.
    tasks : list of tuple
    n_jobs, pre_dispatch
        As in joblib.
    progress : Progress, default=None
        Of the tasks, where their number is public.

    Returns
    -------
    results : list
    """
    for _ in range(_ATTEMPTS):
        # A loop closes the pool of its backend when it ends. In a block of ``parallel_config`` all
        # loops have one object, and this one would close the pool of scikit-learn's around it: an
        # own one without a pool, as outside of such a block.
        active, _ = get_active_backend()
        backend = object.__new__(type(active))  # not copy: the copy of a Dask backend has no client
        vars(backend).update({key: part for key, part in vars(active).items() if key != "_pool"})
        # max_nbytes=None: joblib would otherwise write large protected arrays to files.
        how = {"backend": backend, "pre_dispatch": pre_dispatch, "max_nbytes": None}
        parallel = Parallel(n_jobs=n_jobs, **how)
        if progress is not None:  # joblib calls this in its own process when tasks are done
            parallel.print_progress = lambda p=parallel: progress.at(p.n_completed_tasks)
        # The error is dropped: joblib quotes the tasks in it.
        results, error = attempt(parallel, (delayed(undivided)(function, task) for task in tasks))
        if error is None:
            break
    else:
        results = _done_here(function, tasks)
    if progress is not None:  # missing lines would tell that a record has ended a worker
        progress.at(len(tasks))
    return results


def _done_here(function, tasks):
    """Return the results, computed in this process."""
    return [undivided(function, task) for task in tasks]


def undivided(function, task):
    """Do a task in this process alone; its own parallel loops run one after another.

    Nothing silences the processes that such a loop would start, and its threads could wait for the
    lock of the one that waits for them. It would also close the pool of the loop around it, or a
    Dask worker send it on, where nobody knows that it has been paid for.
    """
    with parallel_config(backend="sequential"):
        return function(*task)


_PARTS = 4  # lines with verbose=1


class Progress:
    """Lines about tasks whose number is public; estimators' own output stays suppressed.

    The lines are the same whichever task ends first and however many end at once: joblib forms
    batches by the time that tasks take, which depends on protected rows. No time is shown.

    Parameters
    ----------
    verbose : int
        0: no line; 1: a heading and quarters; more: a line for each task.
    heading : str
    total : int, default=0
        Public number of tasks; below 2: there is a heading only.
    unit : str, default="tasks"
    """

    def __init__(self, verbose, heading, total=0, unit="tasks"):
        # Kept: while the tasks run, the name stands for a stream that drops everything.
        self._stream = sys.stdout if verbose else None
        # Rounded up: a quarter is announced when it is full.
        every = [-(-total * part // _PARTS) for part in range(1, _PARTS + 1)]
        self._due = sorted(set(every) if verbose == 1 else range(1, total + 1))
        if total < 2:  # the heading is enough
            self._due = []
        self._last = f"of {total} {unit}"
        self._lock = threading.Lock()
        self._say(heading)

    def at(self, n_done):
        """Print the lines that are due when `n_done` tasks are done."""
        with self._lock:
            while self._due and self._due[0] <= n_done:  # all of them, if several end at once
                self._say(f"  {self._due.pop(0)} {self._last}")

    def _say(self, text):
        # A stream that is closed may not end a fit that has been charged.
        with suppress(Exception):
            if self._stream is not None:
                print(text, file=self._stream, flush=True)
