"""Several metrics: one is computed on the protected records and decides, the others are public."""

import numpy as np
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator

from skdpbo.exceptions import UnboundedSensitivityError
from skdpbo.model_selection._sklearn import MultimetricScorer, readable_errors, with_params
from skdpbo.model_selection.scoring._resolve import resolve_scorer
from skdpbo.model_selection.scoring.metrics._sklearn_metrics import PublicTargets


def assign_metrics(searcher, y, scikit_learn_scorers, candidates=()):
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
    candidates : sequence of dict, default=()

    Returns
    -------
    scorer : PerRecordScorer
        For the protected records.
    scorers : PerRecordScorer or MultimetricScorer
        For the public folds.
    metric : str
        Name of the deciding metric in ``cv_results_``.
    """
    scoring, decides, estimator = searcher.scoring, searcher.refit, searcher.estimator
    options = {"n_classes": _n_classes(y, estimator, candidates), "public": PublicTargets(y)}
    if not isinstance(scoring, (list, tuple, set, dict)):
        scorer = resolve_scorer(scoring, estimator, searcher.loss_bound, **options)
        return scorer, scorer, "score"
    if not scoring:
        raise ValueError("scoring is empty: give at least one metric.")
    if isinstance(decides, bool):
        raise ValueError(  # it begins in scikit-learn's words
            "For multi-metric scoring, the parameter refit must be set to a scorer key, that of "
            f"the metric that decides: one of {sorted(scoring)}; got {decides}. Its choice is what "
            "protected records are for: the other metrics are computed on public rows alone. For a "
            "choice by each, fit once for each metric, with a part of epsilon."
        )
    # scikit-learn refuses unknown names, and a `refit` that is not among them.
    with readable_errors():
        known = scikit_learn_scorers()[0]._scorers
    bounds = searcher.loss_bound
    if not isinstance(bounds, dict):
        bounds = dict.fromkeys(known, bounds)
    if not set(bounds) <= set(known):
        raise ValueError(f"loss_bound must have metrics as keys, which are {sorted(known)}.")
    scorers = {}
    for name in known:
        metric = scoring[name] if isinstance(scoring, dict) else name
        try:
            scorers[name] = resolve_scorer(metric, estimator, bounds.get(name), **options)
        except UnboundedSensitivityError:
            if name == decides:
                raise
            scorers[name] = known[name]  # without a bound it is for public rows alone
    # scikit-learn's, which calls each scorer once per fold, and handles `error_score`.
    public = MultimetricScorer(scorers=scorers, raise_exc=searcher.error_score == "raise")
    return scorers[decides], public, decides


def _n_classes(y, estimator, candidates):
    """Return the number of classes of public targets; None unless there is one label per row."""
    labels = np.asarray(y if is_classifier(estimator) else None)  # of a sparse y, 0-dimensional
    if labels.ndim == 0 or labels.shape[1:] not in ((), (1,)):
        return None
    # As texts, since `unique` sorts, and labels of several types cannot be compared.
    n_classes = len(np.unique(labels.astype(str)))
    if n_classes == 1 < len(labels):
        # A frozen classifier, in the estimator or a candidate, may have more classes.
        models = (with_params(estimator, params) for params in ({}, *candidates))
        parts = (part for model in models for part in (model, *model.get_params().values()))
        if not any(isinstance(part, FrozenEstimator) and is_classifier(part) for part in parts):
            raise ValueError(
                "y must hold at least two classes among the public rows, found 1: a model that is "
                "trained on them knows no other."
            )
    return n_classes
