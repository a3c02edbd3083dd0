"""Parallel tasks with a result even if workers die, and progress lines of public numbers."""

import sys
import threading
from contextlib import suppress

from joblib import parallel_config
from joblib.parallel import get_active_backend
from sklearn.utils.parallel import Parallel, delayed

from skdpbo._attempt import attempt

_ATTEMPTS = 2  # with workers; then the tasks run in this process


def run_tasks(function, tasks, *, n_jobs, pre_dispatch, progress=None):
    """Return ``[function(*task) for task in tasks]``, computed by joblib's active backend.

    Protected: pass only to a mechanism. A record that cannot be pickled, or that kills a worker,
    must not make a fit fail, and no error of joblib may quote it. If the workers fail they are
    tried once more, as they may have died for other reasons; then the tasks run in this process.

    Parameters
    ----------
    function : callable
        It should return its errors: in this process, an error that it raises is not caught.
    tasks : list of tuple
    n_jobs, pre_dispatch
        As in joblib.
    progress : Progress, default=None
        Progress of the tasks, if their number is public.

    Returns
    -------
    results : list
    """
    for _ in range(_ATTEMPTS):
        # A parallel loop closes the pool of its backend at its end. Inside ``parallel_config`` all
        # loops share one backend, so this loop would close the pool of an enclosing one: it gets a
        # backend of its own, without a pool.
        active, _ = get_active_backend()
        backend = object.__new__(type(active))  # not copy.copy, by which Dask's loses its client
        vars(backend).update({key: part for key, part in vars(active).items() if key != "_pool"})
        # max_nbytes=None: joblib would otherwise write large protected arrays to files.
        options = {"backend": backend, "pre_dispatch": pre_dispatch, "max_nbytes": None}
        parallel = Parallel(n_jobs=n_jobs, **options)
        if progress is not None:  # joblib calls this in its own process when tasks are done
            parallel.print_progress = lambda p=parallel: progress.at(p.n_completed_tasks)
        # The error is dropped, as joblib quotes the tasks in it.
        results, error = attempt(parallel, (delayed(undivided)(function, task) for task in tasks))
        if error is None:
            break
    else:
        results = _done_here(function, tasks)
    if progress is not None:  # missing lines would reveal that a record has killed a worker
        progress.at(len(tasks))
    return results


def _done_here(function, tasks):
    """Return the results, computed in this process."""
    return [undivided(function, task) for task in tasks]


def undivided(function, task):
    """Run a task in this process; parallel loops inside it run sequentially.

    Processes that such a loop started would not be silenced, and its threads could deadlock on
    `ONE_AT_A_TIME`. It would also close the pool of the enclosing loop, or run on another Dask
    worker, where the receipt of the charge is unknown.
    """
    with parallel_config(backend="sequential"):
        return function(*task)


_PARTS = 4  # lines with verbose=1


class Progress:
    """Progress lines of tasks whose number is public.

    The lines do not depend on the order in which tasks end, or on how many end at once: joblib
    forms batches by running times, which depend on protected rows. No time is shown.

    Parameters
    ----------
    verbose : int
        0: no line; 1: a heading and quarters; more: a line for each task.
    heading : str
    total : int, default=0
        Public number of tasks; below 2 there is only a heading.
    unit : str, default="tasks"
    """

    def __init__(self, verbose, heading, total=0, unit="tasks"):
        # Kept, since sys.stdout drops everything while the tasks run.
        self._stream = sys.stdout if verbose else None
        # Rounded up: a quarter is announced when it is complete.
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
        # A closed stream must not end a fit that has been charged.
        with suppress(Exception):
            if self._stream is not None:
                print(text, file=self._stream, flush=True)
