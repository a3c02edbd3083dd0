"""Which metric decides on the protected records, and which are computed on public rows only."""

import numpy as np
from sklearn.base import is_classifier

from skdpbo.exceptions import UnboundedSensitivityError
from skdpbo.model_selection._scores import resolve_scorer
from skdpbo.model_selection._sklearn import MultimetricScorer

__all__ = ["assign_metrics"]


def assign_metrics(searcher, y, scikit_learn_scorers):
    """Resolve `scoring` of a searcher.

    Parameters
    ----------
    searcher : BasePrivateSearchCV
        Its `scoring`, `refit`, `loss_bound`, `error_score` and `estimator` are read.
    y : array-like or None
        Public targets.
    scikit_learn_scorers : callable
        ``BaseSearchCV._get_scorers`` of the searcher, which checks names and `refit` when several
        metrics are given.

    Returns
    -------
    scorer : PerRecordScorer
        For the protected records.
    scorers : PerRecordScorer or MultimetricScorer
        For the public folds.
    metric : str
        Name of the deciding metric in ``cv_results_``.
    """
    bounds = searcher.loss_bound, _n_public_classes(searcher.estimator, y)
    scoring, decides = searcher.scoring, searcher.refit
    if not isinstance(scoring, (list, tuple, set, dict)):
        scorer = _bounded_scorer(scoring, searcher.estimator, bounds)
        return scorer, scorer, "score"
    if not scoring:
        raise ValueError("scoring is empty: give at least one metric.")
    known = scikit_learn_scorers()[0]._scorers
    if decides is False:
        raise ValueError(
            "refit must name the metric that decides when scoring holds several, got False."
        )
    scorers = {}
    for name in known:
        asked = scoring[name] if isinstance(scoring, dict) else name
        try:
            scorers[name] = _bounded_scorer(asked, searcher.estimator, bounds)
        except UnboundedSensitivityError:
            if name == decides:
                raise
            scorers[name] = known[name]  # without a bound it may be public, but not decide
    public = MultimetricScorer(scorers=scorers, raise_exc=searcher.error_score == "raise")
    return scorers[decides], public, decides


def _bounded_scorer(scoring, estimator, bounds):
    loss_bound, n_classes = bounds
    return resolve_scorer(scoring, estimator, loss_bound, n_classes=n_classes)


def _n_public_classes(estimator, y):
    """Number of classes of the public targets; None for anything but a vector of labels."""
    if y is None or not is_classifier(estimator) or np.ndim(y) != 1:
        return None
    return len(np.unique(np.asarray(y).astype(str)))
