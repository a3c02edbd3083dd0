"""Scores that are means of bounded losses of single records.

The mean of n losses in [0, g*] moves by at most g*/n when one record is replaced. On protected
rows the losses are integers in [0, B], so that their sum is exact and has sensitivity B.
"""

import math
import numbers
import warnings
from collections.abc import Iterable

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import get_scorer, get_scorer_names

from skdpbo.exceptions import DefaultBoundsWarning, UnboundedSensitivityError
from skdpbo.model_selection import _losses, _refusals

# Units of a real-valued loss: rounding moves a score by at most bound / 2^21.
_REAL_UNITS = 2**20
# The default clips probabilities at 1e-3; it does not depend on any data.
DEFAULT_LOG_LOSS_BOUND = -math.log(1e-3)


class PerRecordScorer:
    """A score that is the mean of a bounded loss of each record; greater is better.

    Built by `make_per_record_scorer` or from a scikit-learn name by the searchers.

    Parameters
    ----------
    loss : callable
        ``loss(estimator, y, prediction)`` returning one float for each record.
    name : str
        Name of the score.
    bound : float
        The bound g* of the loss, positive; losses are clipped to [0, g*].
    units : int
        The bound B of the integer losses; one record moves their sum by at most B.
    response_method : str, list of str, or callable
        How predictions are made.
    offset : float, default=0.0
        The score is ``offset`` minus the mean loss.

    Attributes
    ----------
    name, bound, units, response_method, offset
        As given; all public.
    """

    def __init__(self, loss, *, name, bound, units, response_method="predict", offset=0.0):
        self._loss = loss
        self.name = name
        self.bound = bound
        self.units = units
        self.response_method = response_method
        self.offset = offset

    def __repr__(self):
        """Return the name and the bound."""
        return f"PerRecordScorer({self.name!r}, bound={self.bound:.6g})"

    def __call__(self, estimator, X, y=None, sample_weight=None):
        """Score *public* rows.

        Parameters
        ----------
        estimator : estimator
            A fitted estimator.
        X : array-like of n rows
            Public rows.
        y : array-like of n targets or None
            Public targets.
        sample_weight : array-like of shape (n,), default=None
            Weights of the mean.

        Returns
        -------
        float
            ``offset`` minus the mean loss, in [offset - bound, offset].
        """
        prediction = self._predict(estimator, X, y)
        losses = self._loss(estimator, y, prediction)
        if np.isnan(losses).any():
            raise ValueError("a target or a prediction is missing, not finite or malformed")
        losses = np.clip(losses, 0.0, self.bound)
        return float(np.average(self.offset - losses, weights=_weights(sample_weight, len(losses))))

    def record_losses(self, estimator, X, y=None):
        """Return the integer loss of each *protected* row.

        Entry i depends on target i and prediction i only. A target or a prediction that is
        missing, not finite, malformed, or a label that the estimator does not know costs
        ``units``. An exception of the estimator, or a prediction of another length, is not
        caught: the caller scores the rows apart.

        Parameters
        ----------
        estimator : estimator
            A fitted estimator, public.
        X : array-like of n rows
            Protected rows.
        y : array-like of n targets or None
            Protected targets, of any types.

        Returns
        -------
        ndarray of shape (n,)
            int64 in [0, units].
        """
        prediction = self._predict(estimator, X, y)
        if isinstance(self._loss, _losses.UserLoss):
            losses = self._loss.isolated(y, prediction)
        else:
            losses = self._loss(estimator, y, prediction)
        worst = np.where(np.isnan(losses), self.bound, losses)
        fractions = np.clip(worst, 0.0, self.bound) / self.bound
        return np.rint(fractions * self.units).astype(np.int64)

    def score_from_units(self, total_units, n):
        """Return the score of a sum of integer losses, on the scale of `__call__`.

        Parameters
        ----------
        total_units : int, float or ndarray
            Sum of ``n`` integer losses, possibly with noise.
        n : int
            Number of records.

        Returns
        -------
        float or ndarray
            ``offset - bound * total_units / (n * units)``; one rounding for integer bounds.
        """
        if isinstance(total_units, numbers.Integral):
            total_units = int(total_units)
        if self.offset == self.bound and float(self.bound).is_integer():
            return int(self.bound) * (n * self.units - total_units) / (n * self.units)
        return self.offset - self.bound * (total_units / (n * self.units))

    def _predict(self, estimator, X, y):
        prediction = _response(estimator, X, self.response_method)
        if y is not None and _losses.n_records(prediction) != _losses.n_records(y):
            raise ValueError("the estimator must return one prediction for each record")
        return prediction


def _response(estimator, X, response_method):
    """Return the predictions of the first method that the estimator has."""
    if callable(response_method):
        return response_method(estimator, X)
    names = [response_method] if isinstance(response_method, str) else list(response_method)
    for name in names:
        if hasattr(estimator, name):
            return getattr(estimator, name)(X)
    raise AttributeError(f"{type(estimator).__name__} has none of the methods {names}")


def _weights(sample_weight, n):
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError("sample_weight must have one weight for each record")
    return weights


def make_per_record_scorer(loss, *, bound, response_method="predict", name=None):
    """Make a score with bounded sensitivity from a loss of single records.

    Parameters
    ----------
    loss : callable
        ``loss(y_true, y_pred)`` returning an array of shape (n,), row i from row i of its
        arguments; smaller is better. ``y_true`` is None without targets. Values are clipped to
        ``[0, bound]``. On protected rows it is called with one record at a time, so that it
        cannot mix records; one where it raises, or answers NaN, costs ``bound``. Define it at
        the top level of a module if the scorer must be pickled.
    bound : float
        Largest loss of a record, positive and finite; chosen without looking at protected data.
    response_method : str, list of str, or callable, default="predict"
        Method of the estimator whose answer is ``y_pred``, the first that exists of several, or
        ``response_method(estimator, X)``. It must treat each row by itself.
    name : str, default=None
        Name of the score; the function's name by default.

    Returns
    -------
    PerRecordScorer
        Minus the mean of the clipped loss, as ``scoring`` of the searchers.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyRegressor
    >>> from skdpbo.model_selection._scores import make_per_record_scorer
    >>> def pinball(y_true, y_pred, alpha=0.9):
    ...     return np.maximum(alpha * (y_true - y_pred), (alpha - 1) * (y_true - y_pred))
    >>> scorer = make_per_record_scorer(pinball, bound=5.0)
    >>> model = DummyRegressor().fit([[0], [1]], [0.0, 2.0])
    >>> scorer(model, [[0], [1]], [1.0, 2.0])
    -0.45
    """
    if not callable(loss):
        raise TypeError("loss must be a callable loss(y_true, y_pred)")
    _check_response_method(response_method)
    return PerRecordScorer(
        _losses.UserLoss(loss),
        name=getattr(loss, "__name__", type(loss).__name__) if name is None else str(name),
        bound=_check_bound(bound, "bound"),
        units=_REAL_UNITS,
        response_method=response_method,
    )


def _check_response_method(response_method):
    if isinstance(response_method, str) or callable(response_method):
        return
    names = list(response_method) if isinstance(response_method, list | tuple) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError("response_method must be a method name, a list of names or a callable")


def _check_bound(bound, name):
    """Return a positive finite float."""
    if isinstance(bound, bool | np.bool_) or not isinstance(bound, numbers.Real):
        raise TypeError(f"{name} must be a number, got {type(bound).__name__}")
    if not (math.isfinite(bound) and bound > 0):
        raise ValueError(f"{name} must be positive and finite, got {bound}")
    return float(bound)


def _accuracy(name, loss_bound):
    if loss_bound is not None and loss_bound != 1:
        raise ValueError("the loss of 'accuracy' is 0 or 1: leave loss_bound out")
    return PerRecordScorer(_losses.zero_one, name=name, bound=1.0, units=1, offset=1.0)


def _log_loss(name, loss_bound):
    bound = DEFAULT_LOG_LOSS_BOUND if loss_bound is None else loss_bound
    return _probability_scorer(_losses.log_loss, name, bound)


def _brier(name, loss_bound):
    return _probability_scorer(_losses.brier, name, min(2.0, loss_bound or 2.0))


def _probability_scorer(loss, name, bound):
    return PerRecordScorer(
        loss, name=name, bound=bound, units=_REAL_UNITS, response_method="predict_proba"
    )


_ERRORS = {
    "neg_mean_squared_error": _losses.squared_error,
    "neg_mean_absolute_error": _losses.absolute_error,
    "neg_mean_absolute_percentage_error": _losses.absolute_percentage_error,
    "neg_mean_squared_log_error": _losses.squared_log_error,
    "neg_mean_poisson_deviance": _losses.poisson_deviance,
    "neg_mean_gamma_deviance": _losses.gamma_deviance,
}


def _error(name, loss_bound):
    if loss_bound is None:
        warnings.warn(
            f"loss_bound is not given: each loss of {name!r} is clipped at 1.0, whatever the scale "
            "of y. Give the largest loss that should count.",
            DefaultBoundsWarning,
            stacklevel=4,
        )
        loss_bound = 1.0
    loss = _losses.Elementwise(_ERRORS[name])
    return PerRecordScorer(loss, name=name, bound=loss_bound, units=_REAL_UNITS)


_BUILDERS = {
    "accuracy": _accuracy,
    "neg_log_loss": _log_loss,
    "neg_brier_score": _brier,
    **dict.fromkeys(_ERRORS, _error),
}


def resolve_scorer(scoring, estimator, loss_bound=None):
    """Return the per-record scorer that ``scoring`` stands for, or refuse with the reason.

    Parameters
    ----------
    scoring : str, PerRecordScorer, scikit-learn scorer or None
        A name of `sklearn.metrics.get_scorer_names`, or the very scorer that a name stands for.
        None is "accuracy" for classifiers and "neg_mean_squared_error" for regressors.
    estimator : estimator
        Decides what None means; it is not fitted.
    loss_bound : float, default=None
        Bound g* at which losses are clipped. Errors of regressors default to 1.0 with a
        `DefaultBoundsWarning`; log losses to ``-log(1e-3)``.

    Returns
    -------
    PerRecordScorer
        The scorer.

    Raises
    ------
    UnboundedSensitivityError
        If no bound is known on what one record can change.
    """
    loss_bound = None if loss_bound is None else _check_bound(loss_bound, "loss_bound")
    if isinstance(scoring, PerRecordScorer):
        if loss_bound not in (None, scoring.bound):
            raise ValueError("loss_bound differs from the bound of the per-record scorer")
        return scoring
    name = _scoring_name(scoring, estimator)
    if name in _BUILDERS:
        return _BUILDERS[name](name, loss_bound)
    if name not in get_scorer_names():
        raise ValueError(f"scoring must be one of {sorted(_BUILDERS)} or a per-record scorer")
    raise UnboundedSensitivityError(_refusals.refusal(name))


def _scoring_name(scoring, estimator):
    """Return the scikit-learn name of ``scoring``."""
    if scoring is None:
        if is_classifier(estimator):
            return "accuracy"
        if is_regressor(estimator):
            return "neg_mean_squared_error"
        raise UnboundedSensitivityError(_refusals.refusal_without_default())
    if isinstance(scoring, str):
        return scoring
    if callable(scoring):
        return _name_of_scorer(scoring)
    if isinstance(scoring, Iterable):
        raise UnboundedSensitivityError(_refusals.refusal_of_several())
    raise TypeError(f"scoring must be a name or a per-record scorer, got {type(scoring).__name__}")


def _name_of_scorer(scorer):
    """Return the name whose scikit-learn scorer is the same in every respect."""
    for name in get_scorer_names():
        known = get_scorer(name)
        try:
            if type(scorer) is type(known) and bool(vars(scorer) == vars(known)):
                return name
        except Exception:  # foreign keyword arguments may refuse to be compared  # noqa: S112
            continue
    raise UnboundedSensitivityError(_refusals.refusal_of_callable())
