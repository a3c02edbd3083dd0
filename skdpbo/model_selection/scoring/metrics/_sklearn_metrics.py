"""Metrics of scikit-learn that are not means of losses: table of their support, and scorers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn import metrics
from sklearn.metrics import get_scorer, get_scorer_names

from skdpbo.exceptions import UnboundedSensitivityError
from skdpbo.model_selection.scoring import _losses
from skdpbo.model_selection.scoring._scorer import PerRecordScorer
from skdpbo.model_selection.scoring.metrics._confusion import Matthews, Ratio
from skdpbo.model_selection.scoring.metrics._confusion_scorer import ConfusionScorer
from skdpbo.model_selection.scoring.metrics._ranking_scorer import RankingScorer
from skdpbo.model_selection.scoring.metrics._regression_scorer import (
    AgainstConstant,
    AgainstFrequencies,
    OfMeanScorer,
    jaccard_of_accuracy,
    minus_root,
)

_SCORER = type(get_scorer("accuracy"))


@dataclass(frozen=True)
class PublicTargets:
    """Public targets of a search, for class frequencies and scales of metrics.

    Attributes
    ----------
    y : array-like
    """

    y: object

    def classes(self, name):
        """Return the sorted classes and their numbers of rows; refuse targets without classes."""
        instead = "'accuracy', the share of rows of which all are right, or make_per_record_scorer"
        classes, counts = np.unique(self.vector(name, instead), return_counts=True)
        if len(classes) < 2:
            raise ValueError(
                f"scoring={name!r} needs at least two classes among the public rows, found 1."
            )
        return classes, counts

    def vector(self, name, instead):
        shape = np.shape(self.y)
        if shape[1:] not in ((), (1,)):
            raise ValueError(
                f"scoring={name!r} needs one target for each row; y has the shape {shape}. For "
                f"several use {instead}."
            )
        return np.asarray(self.y).ravel()


@dataclass(frozen=True)
class MetricSupport:
    """Support of a metric: validation records, chunks of the rows, and private trials.

    Attributes
    ----------
    range : tuple (lower, upper) or None
        Public range of the metric of a chunk, to which values are clipped; an infinite end is
        replaced by the loss bound. None: chunks use the mean loss that the metric is made of.
    build : callable, default=None
        ``build(metric, public, error_scorer)`` returns the scorer of validation records; `public`
        are the `PublicTargets`, or None if no row is public, and ``error_scorer(name)`` is the
        scorer of a mean loss. None: refused for validation records, see `_unsupported`.
    options : tuple of str, default=()
        Keyword arguments that this scorer supports; chunks accept any.
    of_trials : bool, default=False
        Whether private trials are scored by this scorer, with equal class frequencies.
    mean_loss : str, default=""
        Name of the mean loss that the scorer is made of, which has a bound.
    """

    range: tuple | None
    build: Callable | None = None
    options: tuple = ()
    of_trials: bool = False
    mean_loss: str = ""


@dataclass(frozen=True)
class Metric:
    """A scikit-learn metric: its row of `SUPPORTED`, and the keyword arguments that matter."""

    scorer: object
    name: str
    function: str
    support: MetricSupport
    response_method: object
    options: dict


def own_function(scorer):
    """Return the metric's function of a scorer if both are scikit-learn's own, else None.

    By identity: `functools.wraps` and `joblib.Memory` give a user's function the name and module of
    the wrapped one, and it may store its arguments or write them to disk.
    """
    function = getattr(scorer, "_score_func", None)
    name = getattr(function, "__name__", "")
    is_own = type(scorer) is _SCORER and getattr(metrics, name, None) is function
    return function if is_own else None


def metric_of(scoring):
    """Return the `Metric` that a scikit-learn name or scorer stands for, or None if it is another.

    Parameters
    ----------
    scoring : str or scorer
        Also with keyword arguments, as ``make_scorer(fbeta_score, beta=2)``.

    Raises
    ------
    UnboundedSensitivityError
        If a keyword argument of the metric is not supported.
    """
    if isinstance(scoring, str):
        scorer = get_scorer(scoring) if scoring in get_scorer_names() else None
    else:
        scorer = scoring
    function = own_function(scorer)
    support = SUPPORTED.get(getattr(function, "__name__", None))
    if support is None or support.build is None:
        return None
    name = scoring if isinstance(scoring, str) else function.__name__
    if scorer._sign != (-1 if function.__name__ in _SMALLER_IS_BETTER else 1):
        raise UnboundedSensitivityError(f"{name!r} must be a score of which greater is better.")
    options = dict(scorer._kwargs)
    # Both give 0 for an empty denominator, as the scorers here do.
    if options.get("zero_division", 0) in (0, "warn"):
        options.pop("zero_division", None)
    unknown = sorted(set(options) - set(support.options))
    if unknown:
        raise UnboundedSensitivityError(
            f"{unknown[0]} of {name!r} is not supported under differential privacy. "
            f"Supported are {list(support.options)}."
        )
    return Metric(scorer, name, function.__name__, support, scorer._response_method, options)


def _needs_public(metric, public, instead):
    if public is None:
        raise UnboundedSensitivityError(
            f"scoring={metric.name!r} needs public rows, whose class frequencies or mean set its "
            f"scale, and with every record protected there are none. Use {instead}, or "
            'protect="validation".'
        )


def is_of_accuracy(function, options):
    """Whether a metric of single labels is a function of accuracy."""
    average = options.get("average")
    return average == "micro" or (function, average) == ("recall_score", "weighted")


def is_accuracy(function, options):
    """Whether a metric equals accuracy, a mean of losses."""
    return function != "jaccard_score" and is_of_accuracy(function, options)


def accuracy_scorer(name):
    """Return the scorer of accuracy under a given name."""
    return PerRecordScorer(_losses.zero_one, name=name, bound=1.0, units=1, offset=1.0)


def _confusion(of_counts, default_average, metric, public, error_scorer):
    average = metric.options.get("average", default_average)
    if is_accuracy(metric.function, metric.options):
        return accuracy_scorer(metric.name)
    if average == "micro":
        scorer = accuracy_scorer("accuracy")
        return OfMeanScorer(scorer, name=metric.name, function=jaccard_of_accuracy)
    if average not in ("binary", "macro", "weighted"):
        _refuse_average(metric, average)
    _needs_public(metric, public, "'accuracy' or make_per_record_scorer with class_weight")
    classes, counts = public.classes(metric.name)
    if "beta" in metric.options:
        of_counts = Ratio("fbeta", float(metric.options["beta"]) ** 2)
    positive = None
    if average == "binary":
        if len(classes) != 2:
            raise ValueError(
                f"scoring={metric.name!r} is for two classes, and the public targets have "
                f"{len(classes)}. Use average='macro' or 'weighted', such as 'f1_macro'."
            )
        label = metric.options.get("pos_label", 1)
        places = np.flatnonzero(classes == label)
        if len(places) != 1:
            raise ValueError(
                f"pos_label={label!r} is not a class of the public targets or the model, which are "
                f"{classes.tolist()}. Use make_scorer({metric.function}, pos_label=...)."
            )
        positive = int(places[0])
    return ConfusionScorer(
        metric.scorer,
        name=metric.name,
        metric=of_counts,
        average=average,
        classes=classes,
        counts=counts,
        positive=positive,
        adjusted=bool(metric.options.get("adjusted", False)),
    )


def _refuse_average(metric, average):
    instead = "'macro' or 'weighted', or make_per_record_scorer with a loss of single records"
    if average == "samples":  # of several labels a row, for which the others are refused, too
        instead = (
            "make_per_record_scorer(loss, bound=1) with the loss of each row, one minus its value, "
            "or 'accuracy', the share of rows of which all labels are right"
        )
    raise UnboundedSensitivityError(
        f"scoring={metric.name!r}: average={average!r} is not supported. Use {instead}."
    )


def _ranking(metric, public, error_scorer):
    _needs_public(metric, public, "'neg_log_loss' or 'neg_brier_score'")
    classes, counts = public.classes(metric.name)
    multi_class = metric.options.get("multi_class", "raise")
    average = metric.options.get("average", "macro")
    if average not in ("macro", "weighted"):
        _refuse_average(metric, average)
    if len(classes) > 2 and multi_class == "raise":
        raise ValueError(
            f"scoring={metric.name!r} is for two classes, and the public targets have "
            f"{len(classes)}. Use 'roc_auc_ovr' or 'roc_auc_ovo'."
        )
    return RankingScorer(
        metric.scorer,
        name=metric.name,
        response_method=metric.response_method,
        multi_class=multi_class,
        weighted=average == "weighted" and len(classes) > 2,
        classes=classes,
        counts=counts,
    )


def _root(metric, public, error_scorer):
    scorer = error_scorer(metric.support.mean_loss)
    return OfMeanScorer(scorer, name=metric.name, function=minus_root)


def _against_constant(metric, public, error_scorer):
    mean_loss = metric.support.mean_loss
    squared = mean_loss == "neg_mean_squared_error"
    root = " or 'neg_root_mean_squared_error'" if squared else ""
    instead = f"'{mean_loss}'{root}"
    _needs_public(metric, public, instead)
    # The constant of least squared error is the mean, that of least absolute error the median.
    targets = public.vector(metric.name, f"'{mean_loss}', over all of them").astype(np.float64)
    center = float((np.mean if squared else np.median)(targets))
    scorer = error_scorer(mean_loss)
    return AgainstConstant(metric.scorer, scorer, name=metric.name, center=center, squared=squared)


def _d2_frequencies(metric, public, error_scorer):
    mean_loss = metric.support.mean_loss
    _needs_public(metric, public, f"'{mean_loss}'")
    classes, counts = public.classes(metric.name)
    return AgainstFrequencies(
        metric.scorer,
        error_scorer(mean_loss),
        name=metric.name,
        classes=classes,
        counts=counts,
        logarithmic=mean_loss == "neg_log_loss",
    )


def _top_k(metric, public, error_scorer):
    # 2 is scikit-learn's default.
    k = metric.options.get("k", 2)
    if public is not None and len(public.classes(metric.name)[0]) == 2:
        raise ValueError(f"scoring={metric.name!r} is for three or more classes. Use 'accuracy'.")
    return PerRecordScorer(
        _losses.TopK(int(k)),
        name=metric.name,
        bound=1.0,
        units=1,
        offset=1.0,
        response_method=metric.response_method,
    )


_UNIT, _SIGNED, _ERROR = (0.0, 1.0), (-1.0, 1.0), (0.0, math.inf)
_OF_LABELS = ("average", "pos_label")
_FBETA, _PRECISION, _RECALL, _JACCARD = (
    partial(_confusion, Ratio(kind), "binary")
    for kind in ("fbeta", "precision", "recall", "jaccard")
)
_BALANCED = partial(_confusion, Ratio("recall"), "macro")  # the mean of the classes' recalls
_SMALLER_IS_BETTER = {"root_mean_squared_error", "root_mean_squared_log_error"}
# By the name of the metric's function.
SUPPORTED = {
    "f1_score": MetricSupport(_UNIT, _FBETA, _OF_LABELS, True),
    "fbeta_score": MetricSupport(_UNIT, _FBETA, (*_OF_LABELS, "beta"), True),
    "precision_score": MetricSupport(_UNIT, _PRECISION, _OF_LABELS, True),
    "recall_score": MetricSupport(_UNIT, _RECALL, _OF_LABELS, True),
    "jaccard_score": MetricSupport(_UNIT, _JACCARD, _OF_LABELS, True),
    "balanced_accuracy_score": MetricSupport(_UNIT, _BALANCED, ("adjusted",), True),
    "matthews_corrcoef": MetricSupport(_SIGNED, partial(_confusion, Matthews(), "macro"), (), True),
    "roc_auc_score": MetricSupport(_UNIT, _ranking, ("average", "multi_class"), True),
    "root_mean_squared_error": MetricSupport(None, _root, mean_loss="neg_mean_squared_error"),
    "root_mean_squared_log_error": MetricSupport(
        None, _root, mean_loss="neg_mean_squared_log_error"
    ),
    "r2_score": MetricSupport(_SIGNED, _against_constant, mean_loss="neg_mean_squared_error"),
    "d2_absolute_error_score": MetricSupport(
        _SIGNED, _against_constant, mean_loss="neg_mean_absolute_error"
    ),
    "d2_log_loss_score": MetricSupport(_SIGNED, _d2_frequencies, mean_loss="neg_log_loss"),
    "d2_brier_score": MetricSupport(_SIGNED, _d2_frequencies, mean_loss="neg_brier_score"),
    "top_k_accuracy_score": MetricSupport(None, _top_k, ("k",)),
    # For chunks alone, whose metrics may be any functions of their rows.
    "average_precision_score": MetricSupport(_UNIT),
    "cohen_kappa_score": MetricSupport(_SIGNED),
    "d2_pinball_score": MetricSupport(_SIGNED),
    "d2_tweedie_score": MetricSupport(_SIGNED),
    "explained_variance_score": MetricSupport(_SIGNED),
    "max_error": MetricSupport(_ERROR),
    "median_absolute_error": MetricSupport(_ERROR),
}
