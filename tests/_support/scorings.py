"""Metrics by name, whether or not the installed scikit-learn has a scorer of that name."""

from sklearn import metrics
from sklearn.metrics import get_scorer_names, make_scorer

__all__ = ["installed", "scoring_of"]


def installed(names):
    """Return the metrics that the installed scikit-learn has, by a scorer or a function."""
    return [name for name in names if name in get_scorer_names() or hasattr(metrics, name)]


def scoring_of(name):
    """Return the name, or a scorer of the function of probabilities with that name."""
    if name in get_scorer_names():
        return name
    return make_scorer(getattr(metrics, name), response_method="predict_proba")
