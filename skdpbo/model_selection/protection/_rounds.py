"""Public cross-validation in rounds, for searches whose next candidates depend on scores so far.

scikit-learn makes its whole results table anew after every round, which takes time of order T^2 in
all. Between the rounds only the scores are needed; the table is made once, after the last.
"""

import numpy as np

from skdpbo.model_selection._callbacks import begin_task, end_task
from skdpbo.model_selection._sklearn import all_fits_failed

__all__ = ["ScoresSoFar", "cross_validate_in_rounds"]


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
