"""Mean of records clipped to a public interval, with Gaussian noise."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Complex, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdpbo._attempt import attempt, refuse_masked
from skdpbo._record_groups import group_codes
from skdpbo.mechanisms._clipping import ClippedMean, cache_blocks
from skdpbo.mechanisms._gaussian import GaussianMechanism
from skdpbo.mechanisms._schedule import step_budgets
from skdpbo.mechanisms._source import RandomSource
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import check_count, check_real
from skdpbo.privacy._guarantee import about_groups
from skdpbo.privacy._rounding import round_up

FloatArray = NDArray[np.float64]
Labels = Sequence[Hashable] | NDArray[Any]

HUGE = 2.0**500  # bound on offsets from the centre, which keeps arithmetic finite


def interval_mean_sensitivity(low: float, high: float, n_records: int) -> float:
    """Return the sensitivity of the mean of numbers in [low, high]: (high - low) / n, rounded up.

    Attained by a record that moves from one end to the other.
    """
    return round_up((Fraction(high) - Fraction(low)) / n_records)


class GaussianMean:
    """Base class of means whose noise has one Gaussian budget, `mu` or `epsilon` and `delta`."""

    mu: float | None
    epsilon: float | Fraction | None
    delta: float | None
    _description: ClassVar[str]
    scale: float

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Gaussian differential privacy of one release."""
        gaussian = GaussianMechanism(
            mu=self.mu, epsilon=self.epsilon, delta=self.delta, sensitivity=1.0
        )
        return replace(
            gaussian.guarantee,
            protects="averaged records",
            mechanism=self._description,
            assumptions=(),
        )

    @property
    def group_guarantee(self) -> PrivacyGuarantee:
        """Gaussian differential privacy of one release with groups, for one group."""
        return about_groups(self.guarantee, protects="groups of averaged records")

    def noise_sd(self, n_records: int, n_features: int = 1) -> float:
        """Standard deviation of the noise in each coordinate of the mean. Public.

        Parameters
        ----------
        n_records : int
            Number of records, or of groups, at least 1; public.
        n_features : int, default=1
            Number of columns, at least 1; public.

        Returns
        -------
        float
            In the units of the records.
        """
        sizes = check_count(n_records, "n_records"), check_count(n_features, "n_features")
        return self._steps(*sizes)[-1].sigma * self.scale

    @abstractmethod
    def _steps(self, n_records: int, n_features: int) -> list[ClippedMean]:
        """Return the steps of a release, from public numbers; the last has the result's noise."""


@dataclass(frozen=True, kw_only=True)
class BoundedMean(GaussianMean):
    r"""Mean of records clipped to a public interval, with Gaussian noise.

    Private: the averaged records, for data sets that differ in one of them. One record changes a
    coordinate of the mean by at most (high - low) / n, so that noise of standard deviation
    :math:`\sqrt d\,(high - low) / (n\mu)` makes the release exactly mu-Gaussian differentially
    private.

    Parameters
    ----------
    mu : float, optional
        Gaussian privacy parameter, > 0. Either `mu`, or `epsilon` and `delta`.
    epsilon : float, optional
        Privacy loss bound, > 0.
    delta : float, optional
        In (0, 1). With `mu`, the delta at which the guarantee states epsilon (default 1e-5).
    low, high : float
        Public ends of the interval, the same for every coordinate; low < high.

    Attributes
    ----------
    guarantee, group_guarantee : PrivacyGuarantee
        Guarantee of one release, for one record and, with groups, for one group.

    See Also
    --------
    CoinPressMean : Preferable when the standard deviation, but no narrow interval, is known.
    ClippedMean : Mean of vectors clipped to a ball, on which both are built.

    Notes
    -----
    The only bias is that of clipping: none when the records lie in the interval. A record with a
    value that is not finite counts as the middle of the interval, without a warning.
    Truncation to the lattice moves the mean by at most 2^-30 interval lengths towards the middle.

    References
    ----------
    J. Dong, A. Roth, W. J. Su, Gaussian differential privacy, JRSS B 2022, Theorem 2.7.

    Examples
    --------
    >>> from skdpbo.mechanisms import BoundedMean
    >>> mean = BoundedMean(mu=1.0, low=0.0, high=10.0)
    >>> round(mean.noise_sd(1000), 6)
    0.01
    >>> abs(mean.release([3.0] * 1000) - 3.0) < 0.1
    True
    """

    mu: float | None = None
    epsilon: float | Fraction | None = None
    delta: float | None = None
    low: float
    high: float

    scale: ClassVar[float] = 1.0  # type: ignore[misc]
    _description = "mean of values clipped to an interval"

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, float(check_real(getattr(self, name), name)))
        if not self.low < self.high:
            raise ValueError("low must be below high.")
        if not 1 / HUGE < self.high - self.low < HUGE:
            raise ValueError("low and high must be 2^-500 to 2^500 apart.")
        self._steps(1, 1)  # raises for an invalid budget

    def release(
        self,
        values: ArrayLike,
        source: RandomSource | None = None,
        groups: Labels | None = None,
    ) -> float | FloatArray:
        """Return the private mean of the records, or of the means within groups of them.

        It may lie outside the interval. Clipping it is post-processing, and biases it.

        Parameters
        ----------
        values : array-like of float, shape (n,) or (n, d)
            The records. Their number is public. They are not modified.
        source : RandomSource, default=None
            None reads the operating system's generator.
        groups : sequence of hashable, shape (n,), default=None
            Label of the group of each record; None and NaN are groups of their own. The number of
            groups is public, their sizes and n are not. Each group counts as one record, the mean
            of its own, and the guarantee is `group_guarantee`.

        Returns
        -------
        float or ndarray of shape (d,)
            The noisy mean, in the units of the records.

        Raises
        ------
        TypeError, ValueError
            For an invalid shape or dtype, or a list of records of several lengths; never for a
            value. In a list, a value that is not a number counts as not finite.
        """
        records = as_records(values, groups)
        # Rounding may clip a record at one end by an ulp, which costs accuracy alone.
        middle = self.low / 2 + self.high / 2  # the sum of both may overflow
        finite = np.asarray(np.isfinite(records).all(axis=1))
        means = []
        for j, mean in enumerate(self._steps(*records.shape)):
            # A record with one value that is not finite counts as the middle in every column.
            column = np.where(finite, records[:, j], np.nan)[:, None]
            blocks = centred_blocks(column, np.asarray(middle), 1.0)
            means.append(mean.release(blocks, source)[0])
        return as_given(middle + np.array(means), values)

    def _steps(self, n_records: int, n_features: int) -> list[ClippedMean]:
        """Return a release for each coordinate, with equal budgets: an interval is a ball in R."""
        half = interval_mean_sensitivity(self.low, self.high, 2)  # half the length, rounded up
        # By coordinates: one ball around the whole box would need the same noise, but clip less.
        budgets = step_budgets(float(self.guarantee.mu), n_features)  # type: ignore[arg-type]
        return [ClippedMean(clip=half, n_records=n_records, mu=float(mu)) for mu in budgets]


def centred_blocks(records: FloatArray, center: FloatArray, scale: float) -> Iterator[FloatArray]:
    """Yield records / scale - center by blocks, zero for a record that is not finite. Protected."""
    for block in cache_blocks(records):
        with np.errstate(all="ignore"):
            offsets: FloatArray = np.clip(block / scale - center, -HUGE, HUGE)
        # Of the block, not of the offsets: a finite record that overflows is clipped above.
        offsets[~np.isfinite(block).all(axis=1)] = 0.0
        yield offsets


def as_given(mean: FloatArray, values: ArrayLike) -> float | FloatArray:
    """Return a float where the records were numbers, else the vector."""
    with warnings.catch_warnings(action="ignore"):  # numpy warns of a masked cell in a list
        return float(mean[0]) if np.ndim(values) == 1 else mean


def as_records(values: ArrayLike, groups: Labels | None = None) -> FloatArray:
    """Return real values as a float matrix, one row per record or mean of a group. Protected.

    Errors depend on shape and dtype, never on a value.
    """
    refuse_masked(values, "values")
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        array, error = attempt(np.asarray, values)  # type: ignore[no-untyped-call]
        # One record may decide the type of all, in lists and in nullable series of pandas 2.
        nullable = getattr(getattr(values, "dtype", None), "numpy_dtype", np.dtype(object))
        by_cell = isinstance(values, list | tuple) or nullable.kind in "fiu"
        if by_cell and error is None and array.dtype.kind not in "fiu":
            cells = np.array(values, dtype=object)
            array = np.reshape([_as_float(cell) for cell in cells.flat], cells.shape)
    if error is not None:
        raise ValueError("values must be an array, or a list of records of one length.")
    if array.dtype.kind not in "fiu":
        raise TypeError("values must be an array of real numbers.")
    if array.ndim not in (1, 2):
        raise ValueError("values must have shape (n,) or (n, d).")
    if array.ndim == 2 and not array.shape[1]:
        raise ValueError("values must have at least one column.")
    n = check_count(len(array), "n_records")
    with np.errstate(all="ignore"):  # a warning of overflow could reveal a record
        records = array.astype(np.float64, copy=False).reshape(n, -1)
    return records if groups is None else _group_means(records, groups)


def _as_float(cell: Any) -> float:
    """Return a number as a float, NaN for what is none. Protected."""
    # numpy's complex numbers convert to their real part, with a warning.
    number, _ = attempt(  # type: ignore[no-untyped-call]
        lambda: None if isinstance(cell, Complex) and not isinstance(cell, Real) else float(cell)
    )
    return math.nan if number is None else number


def _group_means(records: FloatArray, groups: Labels) -> FloatArray:
    """Return the mean of each group, a function of the records of that group alone. Protected.

    Not isolated, as that is a floor above: code of a label's own class may print.
    """
    # Labels are compared one by one: a common type (float, with one NaN) would merge large
    # integers.
    codes = group_codes(groups, len(records), "groups", "values")
    sizes = np.bincount(codes)
    totals = np.zeros((len(sizes), records.shape[1]))
    with np.errstate(all="ignore"):
        # In the order of the rows, so that rounding depends on the group's own rows alone.
        np.add.at(totals, codes, records)
        means: FloatArray = totals / sizes[:, None]
    return means
