"""The mean of clipped vectors, one per record, with Gaussian noise.

Each vector is clipped and truncated to a public lattice by itself; from there on everything is
exact integer arithmetic, so that no rounding error adds to the sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdpbo.privacy import PrivacyGuarantee, check_mu, check_sensitivity

from ._gaussian import GaussianMechanism
from ._lattice import as_fraction, check_step, float_at_least, float_at_most, power_of_two_below
from ._schedule import check_count
from ._source import RandomSource

FloatArray = NDArray[np.float64]

_STEP_BITS = 30  # lattice steps per clipping norm: at least 2^30
_DRAW_BITS = 48  # lattice steps per standard deviation of the noise: at most 2^48
_MAX_TOTAL = 2**62
_BLOCK = 2**16  # coordinates handled at once: some copies of them fit in a processor's cache


def clipped_sum_sensitivity(clip: float) -> float:
    """Largest l2 change, under one substitution, of a sum of vectors of l2 norm at most `clip`.

    Both vectors of the replaced record lie in the ball: 2 B, attained by v and -v.
    """
    return 2.0 * clip


def clipped_mean_sensitivity(clip: float, n_records: int) -> float:
    """Largest l2 change of the mean of `n_records` such vectors: 2 B / n, rounded up."""
    return float_at_least(2 * Fraction(clip) / n_records)


def clip_to_lattice(
    vectors: FloatArray, clip: float, step: float
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Clip rows to l2 norm `clip` and truncate them toward zero to multiples of `step`.

    Row i of the result depends on row i alone. A row with a value that is not finite becomes
    zero, without a message.

    Parameters
    ----------
    vectors : ndarray of shape (n, d)
    clip : float
        B, positive and finite, below 2^31 steps.
    step : float
        Lattice step h, a power of two.

    Returns
    -------
    units : ndarray of shape (n, d)
        int64, with sum_j units_ij^2 <= (B / h)^2 exactly.
    inside : ndarray of shape (n,)
        bool: rows that were within the ball before clipping, up to rounding.
    """
    with np.errstate(all="ignore"):
        finite = np.asarray(np.isfinite(vectors).all(axis=1))
        rows = np.where(finite[:, None], vectors, 0.0)
        # Divided by the largest entry first: squares can neither overflow nor all underflow.
        largest = np.abs(rows).max(axis=1, initial=0.0)
        shape = rows / np.where(largest > 0, largest, 1.0)[:, None]
        norm = np.sqrt(np.einsum("ij,ij->i", shape, shape))
        inside = np.asarray(largest * norm <= clip)
        scale = clip / np.where(norm > 0, norm, 1.0)
        clipped = np.where(inside[:, None], rows, shape * scale[:, None])
        units = np.trunc(clipped / step).astype(np.int64)
    limit = math.floor((Fraction(clip) / Fraction(step)) ** 2)
    # A float clip may overshoot by its rounding error: one step less in every coordinate.
    while (over := np.flatnonzero(np.einsum("ij,ij->i", units, units) > limit)).size:
        units[over] -= np.sign(units[over])
    return units, inside


def clipped_sum(
    blocks: Iterable[FloatArray], clip: float, step: float
) -> tuple[NDArray[np.int64], int, int]:
    """Add up clipped rows, exactly; every block is of shape (any, d).

    Returns
    -------
    total : ndarray of shape (d,)
        int64, in lattice steps. Protected.
    n_inside : int
        Number of rows that needed no clipping. Protected.
    n_rows : int
        Number of rows.
    """
    total: Any = 0
    n_inside = n_rows = 0
    for block in blocks:
        units, inside = clip_to_lattice(block, clip, step)
        total = total + units.sum(axis=0)
        n_inside += int(np.count_nonzero(inside))
        n_rows += len(units)
    return np.asarray(total, dtype=np.int64), n_inside, n_rows


@dataclass(frozen=True, kw_only=True)
class ClippedMean:
    r"""Mean of one vector per record, clipped to l2 norm B, plus Gaussian noise.

    Released: :math:`\frac1n \left(\sum_i v_i \min(1, B / \lVert v_i \rVert) + \frac{2B}{\mu}
    Z\right)`, Z standard normal, on a lattice of 2^30 or more steps per B. Truncation toward zero
    keeps each vector within the ball and the sum is exact, so that replacing one record moves it
    by at most 2B; the noise is rounded to the same lattice. Hence exactly mu-Gaussian DP.

    Private: the records behind the vectors, one each, when every vector is a function of its own
    record and of public or released values. The number of records is public.

    Parameters
    ----------
    clip : float
        B, positive and finite, in the units of the vectors. Public or released.
    n_records : int
        n, at least 1.
    mu : float
        Gaussian privacy parameter of one release, > 0.

    Attributes
    ----------
    step : float
        Lattice step, in the units of the vectors. Public.
    sigma : float
        Standard deviation of the noise in each coordinate of the mean, 2 B / (n mu). Public.
    guarantee : PrivacyGuarantee
        What one release promises.

    References
    ----------
    G. Sopa, J. Marusic, M. Avella-Medina, J. P. Cunningham, Scalable differentially private
    Bayesian optimization, arXiv:2502.06044, 2025, Lemma 3.1.
    J. Dong, A. Roth, W. J. Su, Gaussian differential privacy, JRSS B 2022, Theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.mechanisms import ClippedMean
    >>> mechanism = ClippedMean(clip=1.0, n_records=1000, mu=0.2)
    >>> round(mechanism.sigma, 6)
    0.01
    >>> mechanism.release(np.ones((1000, 3))).shape
    (3,)
    """

    clip: float
    n_records: int
    mu: float
    step: float = field(init=False, repr=False)
    _noise: GaussianMechanism = field(init=False, repr=False)

    def __post_init__(self) -> None:
        clip = float_at_most(as_fraction(check_sensitivity(self.clip, "clip")))
        n_records = check_count(self.n_records, "n_records")
        sigma = clipped_sum_sensitivity(clip) / check_mu(self.mu)
        fine = math.ldexp(power_of_two_below(clip), -_STEP_BITS)
        coarse = math.ldexp(power_of_two_below(sigma), -_DRAW_BITS)
        step = check_step(max(fine, coarse), "clip")
        if n_records * math.ceil(Fraction(clip) / Fraction(step)) >= _MAX_TOTAL:
            raise ValueError("n_records is too large for 64-bit sums")
        noise = GaussianMechanism(
            mu=self.mu, sensitivity=clipped_sum_sensitivity(clip), lattice=step
        )
        for name, value in {"clip": clip, "step": step, "_noise": noise}.items():
            object.__setattr__(self, name, value)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in each coordinate of the mean."""
        return self._noise.sigma / self.n_records

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Gaussian differential privacy of one release."""
        gaussian = self._noise.guarantee
        return PrivacyGuarantee(
            epsilon=gaussian.epsilon,
            delta=gaussian.delta,
            mu=gaussian.mu,
            protects="records behind the vectors",
            mechanism="clipped mean with Gaussian noise",
            assumptions=("each vector is computed from its own record and from public values",),
            reference="Sopa et al. 2025, Lemma 3.1; Dong, Roth & Su 2022, Theorem 1",
        )

    def release(
        self, vectors: FloatArray | Iterable[FloatArray], source: RandomSource | None = None
    ) -> FloatArray:
        """Return the noisy mean.

        Parameters
        ----------
        vectors : ndarray of shape (n_records, d), or iterable of ndarrays of shape (any, d)
            Blocks of rows, n_records in all; only one block is held at a time.
        source : RandomSource, default=None
            None reads the operating system's generator.

        Returns
        -------
        ndarray of shape (d,)
            The noisy mean, in the units of the vectors.
        """
        return self.noisy_mean(self.exact_total(vectors)[0], source)

    def exact_total(
        self, vectors: FloatArray | Iterable[FloatArray]
    ) -> tuple[NDArray[np.int64], int]:
        """Return the sum of the clipped vectors and the number of unclipped ones: both protected.

        Parameters
        ----------
        vectors : ndarray of shape (n_records, d), or iterable of ndarrays of shape (any, d)
            As in `release`.

        Returns
        -------
        total : ndarray of shape (d,)
            int64, in steps of the lattice. Give it to `noisy_mean` and drop it.
        n_inside : int
            Give it to :class:`ClipQuantile` and drop it.
        """
        total, n_inside, n_rows = clipped_sum(_blocks(vectors), self.clip, self.step)
        if n_rows != self.n_records:
            raise ValueError(f"expected {self.n_records} vectors, one per record, got {n_rows}")
        return total, n_inside

    def noisy_mean(
        self, total: NDArray[np.int64], source: RandomSource | None = None
    ) -> FloatArray:
        """Return the noisy mean that belongs to a sum made by `exact_total`.

        Parameters
        ----------
        total : ndarray of int64, shape (d,)
            Sum of the clipped vectors, in steps of the lattice; protected.
        source : RandomSource, default=None
            None reads the operating system's generator.

        Returns
        -------
        ndarray of shape (d,)
            The noisy mean, in the units of the vectors.
        """
        noisy = np.asarray(self._noise.release(total, source), dtype=np.float64)
        return np.asarray(noisy * (self.step / self.n_records))


def _blocks(vectors: FloatArray | Iterable[FloatArray]) -> Iterator[FloatArray]:
    if not isinstance(vectors, np.ndarray):
        yield from vectors
        return
    if vectors.ndim != 2:
        raise ValueError("vectors must be two-dimensional, one row per record")
    yield from row_blocks(vectors)


def row_blocks(vectors: FloatArray) -> Iterator[FloatArray]:
    """Yield the rows of a matrix, as many at a time as are handled at once."""
    rows = max(1, _BLOCK // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), rows):
        yield vectors[start : start + rows]
