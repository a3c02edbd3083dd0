"""Public cross-validation: its folds, and its rounds where candidates depend on scores so far.

scikit-learn makes its whole results table anew after every round, which takes time of order T^2 in
all. Between the rounds only the scores are needed; the table is made once, after the last.
"""

import math
import numbers
import time

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import PredefinedSplit, check_cv
from sklearn.utils.multiclass import type_of_target

from skdpbo.model_selection._sklearn import all_fits_failed, begin_task, end_task, n_rows

__all__ = [
    "PublicProgress",
    "ScoresSoFar",
    "cross_validate_in_rounds",
    "public_cv",
]

_SOON = 10  # seconds of which nothing is said
# scikit-learn's default, and fewer for a rare class: stratified folds need a row of it each.
_MOST_FOLDS, _FEWEST_FOLDS = 5, 2


class ScoresSoFar:
    """Stands in for the results table between the rounds.

    Parameters
    ----------
    metric : str
        Name of the metric that proposals follow, as in ``cv_results_``.

    Attributes
    ----------
    results : dict
        Of the candidates so far ``params``, ``mean_test_<metric>`` and the scores of the folds;
        after `finish` the whole table. One object for the whole search, as scikit-learn keeps what
        it was given last.
    """

    def __init__(self, metric):
        self._metric = metric
        self._scores = []  # of all folds of one candidate after the other
        self._make_table = None
        self.results = {}

    def take(self, candidates, n_splits, out, make_table):
        """Add what is new in `out` and return the scores so far.

        Parameters
        ----------
        candidates : list of dict
            All candidates so far; scikit-learn extends it.
        n_splits : int
        out : list of dict
            Outcomes of all fits so far, fold by fold within candidate.
        make_table : callable
            Without arguments; returns the table of all this.
        """
        self._make_table = make_table
        for outcome in out[len(self._scores) :]:
            scores = outcome["test_scores"]
            self._scores.append(scores[self._metric] if isinstance(scores, dict) else scores)
        folds = np.array(self._scores, dtype=np.float64).reshape(len(candidates), n_splits)
        self.results["params"] = candidates
        # The mean that scikit-learn's table has, to the bit: proposals are the same with either.
        self.results[f"mean_test_{self._metric}"] = np.average(folds, axis=1)
        for k in range(n_splits):
            self.results[f"split{k}_test_{self._metric}"] = folds[:, k]
        return self.results

    def finish(self):
        """Make the table."""
        table = self._make_table()
        self.results.clear()
        self.results.update(table)


def cross_validate_in_rounds(searcher, scores, evaluate, propose, callback_ctx):
    """Cross-validate publicly what ``propose(results)`` asks for, until it asks for nothing.

    Parameters
    ----------
    searcher : BasePrivateSearchCV
    scores : ScoresSoFar
    evaluate : callable
        ``evaluate(candidates, search_ctx)`` returns the results of all candidates so far.
    propose : callable
        Called with None first.
    callback_ctx : object
        Of scikit-learn's callback protocol; None before 1.9.
    """
    search_ctx = begin_task(callback_ctx, searcher, task_name="search", max_subtasks=None)
    results, batch = None, propose(None)
    while batch:
        try:
            results = evaluate(batch, search_ctx)
        except ValueError as error:
            # One candidate that fails must not end a search that asks for one at a time.
            if results is None or not all_fits_failed(error):
                raise
        batch = propose(results)
    scores.finish()
    end_task(search_ctx, searcher)


class PublicProgress:
    """One line for each candidate of a public search in rounds, in the place of a heading a round.

    Parameters
    ----------
    total : int or None
        Number of candidates in all, None where it is not known.
    metric : str
        As in ``cv_results_``.
    """

    def __init__(self, total, metric):
        self._total, self._column = total, f"mean_test_{metric}"
        self._n_said = 0
        self._seconds = 0.0  # of public folds: what protected rows take is never timed

    def timed(self, evaluate, *args):
        """Return ``evaluate(*args)``, the results of all candidates so far, and say so."""
        start = time.perf_counter()
        results = evaluate(*args)
        self._seconds += time.perf_counter() - start
        scores = np.asarray(results[self._column])
        new = range(self._n_said + 1, len(scores) + 1)
        self._n_said = n = len(scores)
        left = 0 if self._total is None else (self._total - n) * self._seconds / n
        rounded = f"{left:.0f} s" if left < 100 else f"{left / 60:.0f} min"
        end = "\n" if left < _SOON else f", about {rounded} of public folds left\n"
        print(*(self._line(scores[:k]) for k in new), sep="\n", end=end)
        return results

    def _line(self, scores):
        known = scores[np.isfinite(scores)]
        last, best = scores[-1], known.max() if len(known) else math.nan
        of = "" if self._total is None else f" of {self._total}"
        return f"Candidate {len(scores)}{of}: public score {last:.4g}, best so far {best:.4g}"


def public_cv(searcher, X, y, positions, grouped=False):
    """Return the splitter of the public rows.

    Parameters
    ----------
    searcher : BasePrivateSearchCV
        Its `cv` and `estimator` are read.
    X, y : public rows and targets
    positions : ndarray or None
        Of the public rows among all rows that ``fit`` was given, None if it was given `X_val`.
    grouped : bool, default=False
        Whether `positions` depend on the sizes of protected groups, which are secret.

    Returns
    -------
    cv : int, cross-validation generator or iterable
        With ``cv=None`` five folds, or as many as the smallest class has rows, at least two.
        Splits of all rows are restricted to the public ones.
    """
    cv = searcher.cv
    if cv is None:
        fewest = n_rows(X)
        if (
            is_classifier(searcher.estimator)
            and y is not None
            and type_of_target(y) in ("binary", "multiclass")
        ):
            fewest = np.unique(np.asarray(y), return_counts=True)[1].min()
        return int(min(max(fewest, _FEWEST_FOLDS), _MOST_FOLDS))
    if positions is None or isinstance(cv, numbers.Integral):  # cv is of the public rows already
        return cv
    if hasattr(cv, "split") and not isinstance(cv, PredefinedSplit):
        return cv
    if grouped:
        raise ValueError(
            "cv must be a number or a splitter, such as GroupKFold(5), where groups are set apart: "
            "positions of rows depend on the sizes of the protected groups."
        )
    splits = check_cv(cv)
    folds = [tuple(map(np.asarray, fold)) for fold in splits.split()]
    if max((part.max() for fold in folds for part in fold if part.size), default=0) < n_rows(X):
        return splits  # of the public rows alone
    # Places among the public rows, for those of the rows that are public.
    public = [
        tuple(np.searchsorted(positions, part[np.isin(part, positions)]) for part in fold)
        for fold in folds
    ]
    return [fold for fold in public if all(part.size for part in fold)]
