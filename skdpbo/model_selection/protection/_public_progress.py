"""Progress of a public search in rounds: scores and times of public folds, which are public."""

import math
import time

import numpy as np

__all__ = ["PublicProgress"]

_SOON = 10  # seconds of which nothing is said


class PublicProgress:
    """One line for each round of public cross-validation, in the place of scikit-learn's.

    Parameters
    ----------
    verbose : int
        0: no lines.
    total : int or None
        Number of candidates in all, None where it is not known.
    metric : str
        As in ``cv_results_``.
    """

    def __init__(self, verbose, total, metric):
        self._verbose, self._total, self._column = verbose, total, f"mean_test_{metric}"
        self._seconds = 0.0  # of public folds: what protected rows take is never timed

    def timed(self, evaluate, *args):
        """Return ``evaluate(*args)``, the results of all candidates so far, and say so."""
        start = time.perf_counter()
        results = evaluate(*args)
        self._seconds += time.perf_counter() - start
        if self._verbose:
            print(self._line(np.asarray(results[self._column])))
        return results

    def _line(self, scores):
        n, known = len(scores), scores[np.isfinite(scores)]
        last, best = scores[-1], known.max() if len(known) else math.nan
        of = "" if self._total is None else f" of {self._total}"
        line = f"Candidate {n}{of}: public score {last:.4g}, best so far {best:.4g}"
        left = 0 if self._total is None else (self._total - n) * self._seconds / n
        return line if left < _SOON else f"{line}, about {_rounded(left)} of public folds left"


def _rounded(seconds):
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
