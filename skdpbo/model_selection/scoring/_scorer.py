"""Scorers of means of bounded losses of single records.

The mean of n losses in [0, g*] changes by at most g*/n when one record is replaced. On protected
rows the losses are integers in [0, B], so that their sum is exact and has sensitivity B.
"""

import copy
import math
import numbers
import warnings
from fractions import Fraction
from typing import Any, Self

import numpy as np
from sklearn.utils.metadata_routing import MetadataRequest

from skdpbo.exceptions import UnboundedSensitivityError
from skdpbo.mechanisms._laplace import laplace_std
from skdpbo.model_selection._sklearn import n_rows
from skdpbo.model_selection.scoring import _losses
from skdpbo.model_selection.scoring._score_release import ReleasedScore, SumGroup, SumNoise
from skdpbo.privacy._checks import check_count, check_real, check_text, check_within

# B for real-valued losses and for means of losses; the rounding error is 2^-21 of the bound.
FINE_UNITS = 2**20


def total_loss_sensitivity(units):
    """Largest change, under one substitution, of a sum of integer losses in {0, ..., units}."""
    return int(units)


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
        The bound g* of the loss, positive and finite; losses are clipped to [0, g*].
    units : int
        The bound B >= 1 of the integer losses; replacing a record changes their sum by at most B.
    response_method : str, list of str, or callable
        Method of the estimator that predicts, or the first that exists of several, or a function.
    offset : float, default=0.0
        The score is ``offset``, finite, minus the mean loss.

    Attributes
    ----------
    name, bound, units, response_method, offset
        As given; all public.
    """

    def __init__(self, loss, *, name, bound, units, response_method="predict", offset=0.0) -> None:
        self._loss = loss
        self.name = check_text(name, "name")
        self.bound = check_within(bound, "bound", "(0, inf)")
        self.units = check_count(units, "units")
        self.worst_outcome = units  # for a record that cannot be predicted
        self.response_method = response_method
        self.offset = float(check_real(offset, "offset"))
        self._weight_request: bool | str | None = None
        self._request_owner = type(self).__name__

    def bias_of_bound(self, losses: Any, y: Any) -> tuple[float, float]:
        """Return the bias of a ratio of *public* losses due to the bound, and a better bound."""
        return 0.0, 0.0

    @property
    def clipped(self) -> Any:
        """Scorer of the clipped losses of the choice; None if clipping cannot change them."""
        largest = getattr(self._loss, "largest", math.inf)
        return self if self.units > 1 and largest > self.bound else None

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
        losses = self._loss(estimator, y, self._predict(estimator, X, y))
        # An error for public rows; a protected record would get the worst loss.
        if np.isnan(losses).any():
            raise ValueError("a target or a prediction is missing, not finite or malformed")
        losses = np.clip(losses, 0.0, self.bound)
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight, dtype=np.float64)
            if sample_weight.shape != (len(losses),):
                raise ValueError("sample_weight must have one weight for each record")
        return float(np.average(self.offset - losses, weights=sample_weight))

    def record_losses(self, estimator: Any, X: Any, y: Any = None) -> np.ndarray:
        """Return the integer loss of each *protected* row.

        Entry i depends on target i and prediction i alone. A missing, non-finite or malformed
        target or prediction, or an unseen label, costs ``units``. Errors of the estimator, and of a
        prediction of another length, are not caught: the caller then scores rows separately.

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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning could reveal a record
            if isinstance(self._loss, _losses.UserLoss):
                losses = self._loss.isolated(y, prediction)
            else:
                losses = self._loss(estimator, y, prediction)
        return self.integer_losses(losses)

    def integer_losses(self, losses: Any) -> np.ndarray:
        """Return float losses as integers in {0, ..., units}; NaN is the worst."""
        worst = np.where(np.isnan(losses), self.bound, losses)
        # Clipped before rounding: the integers must lie in {0, ..., B}.
        fractions = np.clip(worst, 0.0, self.bound) / self.bound
        return np.rint(fractions * self.units).astype(np.int64)

    def for_groups(self) -> Self:
        """Return a copy with fine units, for rounded means of losses over groups.

        Returns
        -------
        PerRecordScorer
            With `units` of at least 2^20.
        """
        finer = copy.copy(self)  # the scorer of the public folds does not change
        finer.units = finer.worst_outcome = max(self.units, FINE_UNITS)
        return finer

    # Interface for evaluators and mechanisms, which `MetricScorer` overrides.
    is_mean = True  # whether the score is a mean of losses
    nearest_mean = "make_per_record_scorer"  # suggestion for searches that need a mean
    bound_name = "a scorer with bound"  # where the user sets the bound; or `loss_bound`

    def record_outcomes(self, estimator: Any, X: Any, y: Any) -> np.ndarray:
        """Return the integer loss of each *protected* row; see `record_losses`."""
        return self.record_losses(estimator, X, y)

    def checked_outcomes(self, outcomes: Any, n_records: int) -> np.ndarray:
        """Return the outcomes of `n_records` records; refuse anything but one integer for each."""
        losses = np.asarray(outcomes)
        if losses.shape != (n_records,) or losses.dtype.kind not in "iu":
            raise TypeError("record_losses must return one integer for each record.")
        # Clipped, as a user's sub-class may return losses larger than the sensitivity.
        return np.clip(losses.astype(np.int64), 0, self.units)

    def try_on(self, estimator: Any, X: Any, y: Any) -> None:
        """Try the scorer on a few *public* rows, and let its errors through."""
        self(estimator, X, y)

    def exact_sums(self, outcomes: Any) -> tuple[int, ...]:
        """Return (total loss,). Protected: pass only to a mechanism."""
        return (int(outcomes.sum()),)

    def choice_sensitivity(self, n_records: int) -> int:
        """Largest change of the total when one record is replaced."""
        return total_loss_sensitivity(self.units)

    def units_per_score(self, n_records: int) -> float:
        """Change of the total for one unit of the score; public."""
        return n_records * self.units / self.bound

    def informed_by(self, public_score, noise=None, public_counts=()) -> Self:
        """Return the scorer of a choice, given the best public score and the noise: itself."""
        return self

    def release_score(
        self, sums, epsilon, n_records, source, *, sensitivity=None, mu=None
    ) -> ReleasedScore:
        """Release the score of one candidate.

        Parameters
        ----------
        sums : tuple of int
            Result of `exact_sums`; protected.
        epsilon : Fraction
            Budget of discrete Laplace noise.
        n_records : int
            Number of losses in the total.
        source : RandomSource
        sensitivity : int, default=None
            Sensitivity of the total; None: `units`.
        mu : float, default=None
            Budget of Gaussian noise, instead of Laplace noise.

        Returns
        -------
        ReleasedScore
            The noisy mean, clipped to its range, and the standard deviation of its noise.
        """
        sensitivity = total_loss_sensitivity(self.units) if sensitivity is None else sensitivity
        mechanism, std = SumNoise(epsilon, mu).mechanism(SumGroup(1, sensitivity, Fraction(1)))
        noisy = int(mechanism.release(sums[0], source=source))
        # Clipped to the public range after the noise, which is post-processing.
        return self.score_with_std(min(max(noisy, 0), n_records * self.units), n_records, std)

    def expected_noise(self, epsilon: float, n_records: int) -> float:
        """Return the standard deviation of a score's noise as a share of its range; public."""
        return laplace_std(epsilon, self.units) / (n_records * self.units)

    def score_with_std(self, total: int, n_records: int, std: float) -> ReleasedScore:
        """Return a `ReleasedScore` of a released total with noise of standard deviation `std`."""
        return ReleasedScore(
            float(self.score_from_units(total, n_records)),
            self.bound * std / (n_records * self.units),
        )

    def score_from_units(self, total_units: Any, n: int) -> Any:
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
            total_units = int(total_units)  # Python's do not overflow below
        # A share of correct labels: rounded once, as in scikit-learn.
        if self.offset == self.bound and float(self.bound).is_integer():
            return int(self.bound) * (n * self.units - total_units) / (n * self.units)
        return self.offset - self.bound * (total_units / (n * self.units))

    def set_score_request(self, *, sample_weight: bool | str | None = None) -> Self:
        """Request (True) or refuse (False) weights for public scores, with metadata routing.

        Parameters
        ----------
        sample_weight : bool, str or None
            As in scikit-learn's scorers: a str is the name under which the weights are passed.

        Returns
        -------
        PerRecordScorer
            This scorer.
        """
        self._weight_request = sample_weight
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata that the score takes.

        Returns
        -------
        MetadataRequest
            The request of ``sample_weight``.
        """
        request = MetadataRequest(owner=self._request_owner)
        request.score.add_request(param="sample_weight", alias=self._weight_request)
        return request

    def _predict(self, estimator, X, y):
        prediction = _response(estimator, X, self.response_method)
        # A loss would broadcast different lengths, and mix records.
        lengths = map(n_rows, [X] if y is None else [X, y])
        if {*lengths} != {_losses.n_predictions(prediction)}:
            raise ValueError("X, y and the predictions must have the same number of records")
        return prediction


class SklearnMetric(PerRecordScorer):
    """Base class of metrics that are no means of losses; scikit-learn scores public rows.

    Parameters
    ----------
    public_scorer : callable
        scikit-learn's scorer.
    lower, upper : float
        Public range.
    units : int, default=1
        Largest integer loss of a record.
    bound : float, default=None
        Bound of the loss used for the choice; None: the length of the range.
    **options : str or int
        `name` and `response_method` of `PerRecordScorer`.
    """

    def __init__(self, public_scorer, *, lower, upper, units=1, bound=None, **options):
        bound = upper - lower if bound is None else bound
        super().__init__(None, bound=bound, units=units, offset=upper, **options)
        self.public_scorer = public_scorer
        self.lower, self.upper = lower, upper

    def record_losses(self, estimator, X, y=None):
        """Refuse: no record has a loss of its own."""
        raise UnboundedSensitivityError(f"{self.name!r} is no mean of losses of records.")

    def __call__(self, estimator, X, y=None, sample_weight=None):
        """Score *public* rows by scikit-learn's metric."""
        # Not every scorer of scikit-learn takes weights.
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(self.public_scorer(estimator, X, y, **weights))


class MissingResponseError(AttributeError):
    """An estimator lacks the method that a score needs."""


def _response(estimator, X, response_method):
    """Return the predictions of the first method that the estimator has."""
    if callable(response_method):
        return response_method(estimator, X)
    names = [response_method] if isinstance(response_method, str) else list(response_method)
    for name in names:
        if hasattr(estimator, name):
            return getattr(estimator, name)(X)
    raise MissingResponseError(
        f"scoring needs {' or '.join(names)}, which {type(estimator).__name__} does not have."
    )
