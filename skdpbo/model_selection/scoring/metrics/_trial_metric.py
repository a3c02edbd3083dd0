"""Metrics of ratios and pairs as the score of one private trial, where no row is public.

The noisy counts of the validation rows are the release, and the metric is computed from them. The
classes are those of the trial's model, which is private itself.
"""

from dataclasses import dataclass

import numpy as np

from skdpbo.exceptions import UnboundedSensitivityError
from skdpbo.model_selection.scoring._scorer import SklearnMetric
from skdpbo.model_selection.scoring.metrics._sklearn_metrics import metric_of, metric_scorer

__all__ = ["TrialMetric", "trial_metric"]

_OF_LABELS = ("f1_score", "fbeta_score", "precision_score", "recall_score", "jaccard_score")
_COUNTED = (*_OF_LABELS, "balanced_accuracy_score", "matthews_corrcoef", "roc_auc_score")


@dataclass(frozen=True)
class _ModelClasses:
    """Stands in for the public targets: classes of a private model, none rarer than another."""

    classes_: np.ndarray

    def classes(self, name):
        """Return the classes and their weights."""
        if np.ndim(self.classes_) != 1 or len(self.classes_) < 2:
            raise ValueError(f"scoring={name!r} needs a model of at least two classes.")
        # Alike, as no row is public; the costs made of them are private whatever they are.
        return np.sort(self.classes_), np.ones(len(self.classes_))


class TrialMetric(SklearnMetric):
    """A ratio of counts, or ROC AUC, of the rows that score a trial; greater is better.

    Parameters
    ----------
    metric : Metric
    """

    is_mean = False
    nearest_mean = "'accuracy' or 'neg_log_loss'"

    def __init__(self, metric):
        below = metric.function == "matthews_corrcoef" or metric.options.get("adjusted", False)
        super().__init__(
            metric.scorer,
            name=metric.name,
            lower=-1.0 if below else 0.0,
            upper=1.0,
            units=1,
            response_method=metric.response_method,
        )
        self.metric = metric

    def try_on(self, estimator, X, y):
        """Raise what is wrong with the scorer for the classes of a model, whatever y are."""
        self.of(estimator).try_on(estimator, X, y)

    def of(self, model):
        """Return the `MetricScorer` with the classes of a trained model, or raise."""
        return metric_scorer(self.metric, _ModelClasses(np.asarray(model.classes_)), None)


def trial_metric(scoring):
    """Return the metric of trials that a scikit-learn name or scorer stands for, or None.

    None: a mean of losses, left to `resolve_scorer`. Metrics without a release are refused there
    or here, with the nearest one that has it.
    """
    metric = metric_of(scoring)
    if metric is None or metric.function not in _COUNTED:
        return None
    average = metric.options.get("average")
    of_labels = metric.function in _OF_LABELS
    # The share of right labels under other names.
    if average == "micro" or (average, metric.function) == ("weighted", "recall_score"):
        return None
    if of_labels and average not in (None, "binary", "macro", "weighted"):
        raise UnboundedSensitivityError(
            f"scoring={metric.name!r}: average={average!r} is not supported. Use 'f1_macro'."
        )
    return TrialMetric(metric)
