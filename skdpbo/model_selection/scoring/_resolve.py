"""Resolution of `scoring` into scorers; refusals with their reasons."""

import math
from collections.abc import Iterable
from functools import partial
from numbers import Real

from sklearn import get_config
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import (
    brier_score_loss,
    get_scorer,
    get_scorer_names,
    log_loss,
    root_mean_squared_error,
    root_mean_squared_log_error,
)
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

from skdpbo._attempt import attempt
from skdpbo._parameters import warn_caller
from skdpbo._schema import declared_types, kind_of_type, public_shape
from skdpbo.exceptions import DefaultBoundsWarning, UnboundedSensitivityError
from skdpbo.model_selection._sklearn import final_step
from skdpbo.model_selection.scoring import _losses, _unsupported
from skdpbo.model_selection.scoring._scorer import FINE_UNITS, PerRecordScorer
from skdpbo.model_selection.scoring._user_loss import BOUNDS
from skdpbo.model_selection.scoring.metrics._protected_metrics import (
    TrialMetric,
    chunk_metric,
    chunk_scorer,
)
from skdpbo.model_selection.scoring.metrics._sklearn_metrics import (
    accuracy_scorer,
    is_of_accuracy,
    metric_of,
    own_function,
)
from skdpbo.privacy._checks import check_positive, check_within

# The default clips probabilities at 1e-3; it does not depend on any data.
DEFAULT_LOG_LOSS_BOUND = -math.log(1e-3)


_DEFAULT_ERROR_BOUND = 1.0
# Losses that are a power of the distance between target and prediction, with the power.
_POWERS = {"neg_mean_squared_error": 2, "neg_mean_absolute_error": 1}


def _default_error_bound(error, name, estimator):
    """Return the largest loss of predicting the middle of public `y_bounds`, else 1.0 and warn.

    `name`: the requested score.
    """
    bounds = getattr(final_step(estimator), "y_bounds", None)
    is_pair = isinstance(bounds, tuple | list) and len(bounds) == 2
    is_pair = is_pair and all(isinstance(bound, Real) for bound in bounds)
    # Python's floats, as narrow numpy types overflow; huge integers raise, and have no bound.
    ends, _ = attempt(lambda: [*map(float, bounds)]) if is_pair else (None, None)
    length = ends[1] - ends[0] if ends else math.nan
    if 1e-49 < length < 1e50 and error in _POWERS:
        return (length / 2) ** _POWERS[error]
    kind = error.removeprefix("neg_mean_").replace("_", " ")
    warn_caller(
        f"loss_bound is not given: each loss ({kind}) of {name!r} is clipped at "
        f"{_DEFAULT_ERROR_BOUND}, whatever the scale of y. Give the largest loss that should "
        "count.",
        DefaultBoundsWarning,
    )
    return _DEFAULT_ERROR_BOUND


_MEANS = ("accuracy", "neg_log_loss", "neg_brier_score", *_losses.ERRORS)


def _mean_scorer(score, estimator, loss_bound, n_classes, name):
    """Return the scorer of a mean of losses, `name` of `_MEANS`, for a `score` made of it."""
    if name == "accuracy":
        if loss_bound is not None and loss_bound != 1:
            raise ValueError("the loss of 'accuracy' is 0 or 1: leave loss_bound out")
        return accuracy_scorer(name)
    response_method = "predict_proba"
    if name in _losses.ERRORS:
        response_method, loss = "predict", _losses.Elementwise(name)
        bound = loss_bound
        if bound is None:
            bound = _default_error_bound(name, score, estimator)
    elif name == "neg_log_loss":
        loss, bound = _losses.log_loss, loss_bound or DEFAULT_LOG_LOSS_BOUND
    else:
        # With two classes scikit-learn halves the Brier score; half the range halves the noise.
        halved = None if n_classes is None else n_classes <= 2
        largest = 1.0 if halved else 2.0
        loss, bound = _losses.Brier(halved), min(largest, loss_bound or largest)
    options = {"units": FINE_UNITS, "response_method": response_method}
    return PerRecordScorer(loss, name=name, bound=bound, **options)


def resolve_scorer(scoring, estimator, loss_bound=None, *, n_classes=None, public=None):
    """Return the scorer that ``scoring`` stands for, or refuse with the reason.

    Parameters
    ----------
    scoring : str, PerRecordScorer, scikit-learn scorer or None
        A name of `sklearn.metrics.get_scorer_names`, or the very scorer that a name stands for.
        None is "accuracy" for classifiers and "neg_mean_squared_error" for regressors.
    estimator : estimator
        Not fitted; for the default of `scoring`.
    loss_bound : float or dict, default=None
        Bound g* at which losses are clipped, or a dict by names of metrics. The default for squared
        and absolute errors is the largest loss of predicting the middle of `y_bounds` of a private
        regressor, for other errors 1.0 with a `DefaultBoundsWarning`, for log losses
        ``-log(1e-3)``.
    n_classes : int, default=None
        Number of classes, if it is public. With 2, Brier losses are bounded by 1 instead of 2,
        which halves the noise.
    public : PublicTargets, default=None
        Public targets; None where no row is public.

    Returns
    -------
    PerRecordScorer
        The scorer; a `MetricScorer` for ratios and pairs.

    Raises
    ------
    UnboundedSensitivityError
        If no bound is known on what one record can change.
    """
    loss_bound = _bound_of(loss_bound, scoring)
    if isinstance(scoring, PerRecordScorer):  # with its own request of weights
        if loss_bound not in (None, scoring.bound):
            raise ValueError("loss_bound must be None, or the bound of the scorer: change that.")
        return scoring
    metric = metric_of(scoring)
    name = _scoring_name(scoring, estimator) if metric is None else metric.name
    mean_scorer = partial(_mean_scorer, name, estimator, loss_bound, n_classes)
    if metric is not None:
        scorer = metric.support.build(metric, public, mean_scorer)
        if not metric.support.mean_loss:  # metrics of a mean loss alone have a bound
            _unsupported.refuse_bound(loss_bound, scorer.name)
    elif name in _MEANS:
        scorer = mean_scorer(name)
    else:
        if name in get_scorer_names():
            of_chunks = chunk_scorer(name) is not None
            raise UnboundedSensitivityError(_unsupported.refusal(name, of_chunks))
        raise ValueError(
            f"scoring must be a name of scikit-learn's or a per-record scorer, got {name!r}."
        )
    scorer.bound_name = "loss_bound"
    if scoring is None:  # routing errors should name the object whose request the user can set
        scorer._request_owner = type(final_step(estimator)).__name__
    return scorer.set_score_request(sample_weight=_weight_request(scoring, estimator))


def resolve_chunk_scorer(scoring, estimator, loss_bound=None):
    """Return the scorer of a search among chunks: a `ChunkMetric`, or that of `resolve_scorer`."""
    metric = chunk_metric(scoring, _bound_of(loss_bound, scoring))
    if metric is None:
        return resolve_scorer(scoring, estimator, loss_bound)
    return metric.set_score_request(sample_weight=_weight_request(scoring, estimator))


def resolve_trial_scorer(scoring, estimator, loss_bound=None, n_classes=None):
    """Return the scorer of private trials: a `TrialMetric`, or that of `resolve_scorer`."""
    metric = metric_of(scoring)
    of_trials = metric is not None and metric.support.of_trials
    if not of_trials or is_of_accuracy(metric.function, metric.options):
        return resolve_scorer(scoring, estimator, loss_bound, n_classes=n_classes)
    average = metric.options.get("average")
    of_labels = "pos_label" in metric.support.options
    if of_labels and average not in (None, "binary", "macro", "weighted"):
        raise UnboundedSensitivityError(
            f"scoring={metric.name!r}: average={average!r} is not supported. Use 'f1_macro'."
        )
    _unsupported.refuse_bound(_bound_of(loss_bound, scoring), metric.name)
    request = _weight_request(scoring, estimator)
    return TrialMetric(metric).set_score_request(sample_weight=request)


def refuse_other_task(scoring, estimator, y):
    """Raise if a metric does not suit the kind of the estimator, or the type and shape of y."""
    several = scoring.values() if isinstance(scoring, dict) else scoring
    for metric in several if isinstance(scoring, dict | list | tuple | set) else [scoring]:
        known = isinstance(metric, str) and metric in get_scorer_names()
        scorer = get_scorer(metric) if known else metric
        function = own_function(scorer)
        kind = getattr(function, "__module__", "").rpartition(".")[2]  # the file of the metric
        name = f"scoring={metric if known else getattr(function, '__name__', '')!r}"
        if y is None and function is not None:
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        if kind in ("_classification", "_ranking") and is_regressor(estimator):
            raise ValueError(
                f"{name} needs a classifier, got {type(final_step(estimator)).__name__}."
            )
        if kind == "_regression" and "texts" in map(kind_of_type, declared_types(y)):
            raise ValueError(f"{name} needs targets that are numbers, and y holds texts.")
        shape = public_shape(y) or ()
        if len(shape) == 2 and shape[1] > 1 and (instead := _instead_for_several(scorer)):
            raise ValueError(
                f"{name} needs one target for each row; y has {shape[1]} columns. For several use "
                f"{instead}."
            )


def _instead_for_several(scorer):
    """Return the suggestion for several targets, for which scikit-learn defines another metric."""
    function = own_function(scorer)
    if function in (root_mean_squared_error, root_mean_squared_log_error):
        return f"'neg_{function.__name__.removeprefix('root_')}', over all of them"
    averages = function is not None and is_of_accuracy(function.__name__, scorer._kwargs)
    if averages or function in (log_loss, brier_score_loss):
        return "'accuracy', the share of rows of which all are right, or make_per_record_scorer"
    return None


def _bound_of(loss_bound, scoring):
    """Return the bound of one metric, given a number or a dict by names."""
    if isinstance(loss_bound, dict):
        if not set(loss_bound) <= ({scoring} if isinstance(scoring, str) else set()):
            raise ValueError(
                "loss_bound must have metrics as keys, which are names in scoring="
                f"{scoring!r}; got {list(loss_bound)}."
            )
        loss_bound = loss_bound[scoring] if loss_bound else None
    if loss_bound is None:
        return None
    return check_within(check_positive(loss_bound, "loss_bound"), "loss_bound", BOUNDS)


def _scoring_name(scoring, estimator):
    """Return the scikit-learn name of ``scoring``."""
    if scoring is None:
        if is_classifier(estimator):
            return "accuracy"
        if is_regressor(estimator):
            return "neg_mean_squared_error"
        raise UnboundedSensitivityError(_unsupported.WITHOUT_DEFAULT)
    if isinstance(scoring, str):
        return scoring
    if callable(scoring):
        # A named scorer of scikit-learn that is equal except for its request of weights.
        for name in get_scorer_names():
            known = get_scorer(name)
            try:
                own, other = (vars(s) | {"_metadata_request": None} for s in (scoring, known))
                if type(scoring) is type(known) and bool(own == other):
                    return name
            except Exception:  # foreign keyword arguments may refuse to be compared  # noqa: S112
                continue
        if chunk_scorer(scoring) is not None:  # also of metrics without a name in scikit-learn
            name = scoring._score_func.__name__
            raise UnboundedSensitivityError(_unsupported.refusal(name, True))
        raise UnboundedSensitivityError(_unsupported.CALLABLE)
    if isinstance(scoring, Iterable):
        raise UnboundedSensitivityError(_unsupported.SEVERAL)
    raise TypeError(f"scoring must be a name or a per-record scorer, got {type(scoring).__name__}")


def _weight_request(scoring, estimator):
    """Return the request of sample weights of ``scoring``, for public scores."""
    is_routed = get_config()["enable_metadata_routing"]
    # Without routing, an estimator may not support requests.
    if scoring is None and not is_routed:
        return None
    owner = estimator if scoring is None else get_scorer(scoring)
    routing = get_routing_for_object(owner)
    if isinstance(routing, MetadataRequest):
        return routing.score.requests.get("sample_weight", False)
    # A meta-estimator: scikit-learn raises if the request of a part is not set.
    try:
        routing.route_params(caller="score", params={"sample_weight": True})
    except UnsetMetadataPassedError:
        return None
    return bool(routing.consumes("score", {"sample_weight"}))
