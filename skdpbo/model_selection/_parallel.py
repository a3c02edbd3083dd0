"""Work for joblib's workers that ends with a result, whatever becomes of a worker."""

from joblib import parallel_config
from sklearn.utils.parallel import Parallel, delayed

__all__ = ["run_tasks"]

_ATTEMPTS = 2


def run_tasks(function, tasks, *, n_jobs, pre_dispatch):
    """Return ``[function(*task) for task in tasks]``, computed where joblib's backend is.

    A protected record that cannot be sent to a worker, or that ends it, may not decide whether a
    fit fails, and no error of joblib may tell of it. So what fails there is tried there once more,
    as a worker may have died for other reasons, and then done in this process.

    Parameters
    ----------
    function : callable
        It should return its own errors: one that it raises comes out of the last attempt.
    tasks : list of tuple
    n_jobs, pre_dispatch
        As in joblib.

    Returns
    -------
    results : list
    """
    for _ in range(_ATTEMPTS):
        try:
            # max_nbytes=None: joblib would otherwise write large protected arrays to files.
            parallel = Parallel(n_jobs=n_jobs, pre_dispatch=pre_dispatch, max_nbytes=None)
            return parallel(delayed(function)(*task) for task in tasks)
        except Exception:  # noqa: S112
            continue  # nothing of it may be shown
    # n_jobs=None would be the workers again, where the caller has set a backend for the block.
    with parallel_config(backend="sequential"):
        return [function(*task) for task in tasks]
