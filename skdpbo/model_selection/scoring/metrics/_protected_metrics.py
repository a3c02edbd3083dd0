"""Metrics without public rows: of one private trial, and of one chunk of the rows.

*Trials.* Noisy counts of the validation rows are released, and a ratio or ROC AUC is computed from
them. The classes are those of the trial's model, which is private itself.

*Chunks.* A record enters the score of a single model, so that score may be any function of the
records with a public range. Proof: Theorem 5 of ``docs/theory/metrics_of_trials_and_chunks.md``.
"""

import math
import warnings
from inspect import signature

import numpy as np
from sklearn.metrics import get_scorer, get_scorer_names

from skdpbo._parameters import warn_caller
from skdpbo.exceptions import DefaultBoundsWarning
from skdpbo.model_selection._sklearn import InvalidParameterError
from skdpbo.model_selection.scoring import _losses
from skdpbo.model_selection.scoring._parsing import as_labels, as_numbers, n_outputs
from skdpbo.model_selection.scoring._scorer import FINE_UNITS, PerRecordScorer, SklearnMetric
from skdpbo.model_selection.scoring.metrics._sklearn_metrics import (
    SUPPORTED,
    PublicTargets,
    is_accuracy,
    own_function,
)


class ChunkMetric(SklearnMetric):
    """Metric of the rows that score the model of one chunk; greater is better.

    Parameters
    ----------
    public_scorer : callable
        scikit-learn's scorer.
    name : str
    response_method : str or tuple of str
    lower, upper : float
        Public range, to which values are clipped; a value that is not finite counts as `lower`.
    """

    def value(self, estimator, X, y):
        """Return the clipped metric, or raise. Protected: pass only to a mechanism."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # a warning could reveal a record
            score = float(self.public_scorer(estimator, X, y))
        if not np.isfinite(score):
            raise ValueError("the metric is not defined.")
        return float(np.clip(score, self.lower, self.upper))

    @property
    def pos_label(self):
        """Label of the positive class; None for a metric that treats all classes alike."""
        scorer = self.public_scorer
        parameters = signature(scorer._score_func).parameters
        options = {name: given.default for name, given in parameters.items()} | scorer._kwargs
        binary = options.get("average") == "binary" or self.is_curve
        return options.get("pos_label") if binary else None

    @property
    def is_curve(self):
        """Whether with three or more classes each has its own curve, without a positive label."""
        return self.public_scorer._score_func.__name__ == "average_precision_score"

    def loss_of(self, value):
        """Return the integer loss in {0, ..., units} of a value, `units` for None."""
        return int(self.integer_losses(np.nan if value is None else self.upper - value))

    @property
    def readable(self):
        """Scorer whose loss is 1 for a record that cannot be part of the metric."""
        return PerRecordScorer(
            _unreadable,
            name="unreadable",
            bound=1.0,
            units=1,
            response_method=self.response_method,
        )


def _unreadable(estimator, y, prediction):
    """Return 0 for a record with a target and a prediction that can be read, else NaN."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        known = np.isfinite(as_numbers(y, 1)[:, 0])
    else:
        known = _losses.codes_among(classes, y) >= 0
    numeric = getattr(prediction, "dtype", np.dtype(object)).kind in "fiub"
    if numeric:
        answered = np.isfinite(as_numbers(prediction, n_outputs(prediction))).all(axis=1)
    else:
        answered = [label is not None for label in as_labels(prediction, n_outputs(prediction))]
    return np.where(known & answered, 0.0, np.nan)


def chunk_metric(scoring, loss_bound=None):
    """Return the metric of chunks that a scikit-learn name or scorer stands for, or None.

    Parameters
    ----------
    scoring : str or scorer
        With any keyword arguments, as the value is clipped to the range.
    loss_bound : float, default=None
        Upper end of the range of errors that have none.

    Returns
    -------
    ChunkMetric or None
        None for other metrics; averages that are means of losses are left to `resolve_scorer`.
    """
    scorer = chunk_scorer(scoring)
    if scorer is None:
        return None
    function = scorer._score_func.__name__
    name = scoring if isinstance(scoring, str) else function
    lower, upper = SUPPORTED[function].range
    if math.isinf(upper) and loss_bound is None:
        loss_bound = 1.0
        warn_caller(
            f"loss_bound is not given: {name!r} is clipped at 1.0, whatever the scale of y.",
            DefaultBoundsWarning,
        )
    if math.isinf(upper):
        upper = loss_bound
    if scorer._kwargs.get("adjusted"):
        lower = -1.0  # below chance
    if scorer._sign < 0:
        lower, upper = -upper, 0.0 - lower  # not -lower, which is -0.0 for errors
    return ChunkMetric(
        scorer,
        name=name,
        response_method=scorer._response_method,
        lower=lower,
        upper=upper,
        units=FINE_UNITS,
    )


def chunk_scorer(scoring):
    """Return scikit-learn's scorer if a name or scorer stands for a `ChunkMetric`, else None."""
    known = isinstance(scoring, str) and scoring in get_scorer_names()
    scorer = get_scorer(scoring) if known else scoring
    # A user's function, which may store its arguments, is refused.
    name = getattr(own_function(scorer), "__name__", None)
    if name not in SUPPORTED or SUPPORTED[name].range is None:
        return None
    # `resolve_scorer` handles accuracy, and refuses average="samples".
    is_other = is_accuracy(name, scorer._kwargs) or scorer._kwargs.get("average") == "samples"
    return None if is_other else scorer


class TrialMetric(SklearnMetric):
    """A ratio of counts, or ROC AUC, of the rows that score a trial; greater is better.

    Parameters
    ----------
    metric : Metric
    """

    is_mean = False
    nearest_mean = "'accuracy' or 'neg_log_loss'"

    def __init__(self, metric):
        lower, upper = metric.support.range
        super().__init__(
            metric.scorer,
            name=metric.name,
            lower=-1.0 if metric.options.get("adjusted") else lower,
            upper=upper,
            units=1,
            response_method=metric.response_method,
        )
        self.metric = metric
        self.of_chance = 0.5 if metric.function == "roc_auc_score" else 0.0

    def try_on(self, estimator, X, y):
        """Try the scorer with the classes of a model; its errors are raised."""
        try:
            own = self.of(estimator)
        except ValueError as error:
            # If the classes are a parameter of the model or of a step, the error is public.
            params = estimator.get_params() if hasattr(estimator, "get_params") else {}
            if any(k.split("__")[-1] == "classes" and v is not None for k, v in params.items()):
                raise InvalidParameterError(str(error)) from None
            raise
        own.try_on(estimator, X, y)

    def of(self, model):
        """Return the `MetricScorer` with the classes of a trained model, or raise."""
        classes = np.asarray(model.classes_)
        if classes.ndim != 1 or len(classes) < 2:
            raise ValueError(f"scoring={self.name!r} needs a model of at least two classes.")
        # Equal frequencies, as no row is public; privacy holds for any costs.
        return self.metric.support.build(self.metric, PublicTargets(classes), None)
