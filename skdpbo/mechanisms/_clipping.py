"""Mean of clipped vectors, one per record, with Gaussian noise.

Each vector is clipped and truncated to a public lattice independently of the others. All later
arithmetic is on integers and exact, so that no rounding error adds to the sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdpbo._record_groups import divide_by_group_size
from skdpbo.mechanisms._gaussian import GaussianMechanism
from skdpbo.mechanisms._lattice import (
    as_fraction,
    check_step,
    power_of_two_below,
)
from skdpbo.mechanisms._source import RandomSource
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import check_count, check_mu, check_positive, set_fields
from skdpbo.privacy._rounding import round_down, round_up

FloatArray = NDArray[np.float64]

_STEP_BITS = 30  # lattice steps per clipping norm: at least 2^30
_DRAW_BITS = 48  # lattice steps per standard deviation of the noise: at most 2^48
_MAX_TOTAL = 2**62
_N_DRAWS = 2**40  # no limit: the sampler is exact
_BLOCK = 2**16  # coordinates per block; several copies fit in a processor's cache


def clipped_sum_sensitivity(clip: float) -> float:
    """Return the l2 sensitivity of a sum of vectors of l2 norm at most `clip`: 2 B.

    The old and the new vector of the replaced record lie in the ball; v and -v attain it.
    """
    return 2.0 * clip


def clipped_mean_sensitivity(clip: float, n_records: int) -> float:
    """Return the l2 sensitivity of the mean of `n_records` such vectors: 2 B / n, rounded up."""
    return round_up(2 * Fraction(clip) / n_records)


def clip_to_lattice(
    vectors: FloatArray, clip: float, step: float
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Clip rows to l2 norm `clip` and truncate them to multiples of `step`. Protected.

    Row i of the result depends on row i alone. Truncation is toward zero. A row with a value that
    is not finite in float64 becomes zero, without a message.

    Parameters
    ----------
    vectors : ndarray of shape (n, d)
        Of any real type; computed with in float64.
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
    # An integer, with which squared norms are compared exactly.
    limit = math.floor((Fraction(clip) / Fraction(step)) ** 2)
    if limit >= _MAX_TOTAL:
        raise ValueError("clip must be below 2^31 steps.")
    with np.errstate(all="ignore"):
        values = np.asarray(vectors)
        if values.dtype.kind not in "fiub":
            raise TypeError("vectors must be arrays of real numbers.")
        if values.ndim != 2:
            raise ValueError("vectors must be two-dimensional, one row per record.")
        values = values.astype(np.float64, copy=False)
        finite = np.asarray(np.isfinite(values).all(axis=1))
        # No error or warning: it would reveal that some record is not finite.
        rows = np.where(finite[:, None], values, 0.0)
        # Division by the largest entry: the squares neither overflow nor all underflow.
        largest = np.abs(rows).max(axis=1, initial=0.0)
        shape = rows / np.where(largest > 0, largest, 1.0)[:, None]
        norm = np.sqrt(np.einsum("ij,ij->i", shape, shape))
        # A row of norm at most B passes unchanged; a longer one is scaled onto the sphere.
        inside = np.asarray(largest * norm <= clip)
        scale = clip / np.where(norm > 0, norm, 1.0)
        clipped = np.where(inside[:, None], rows, shape * scale[:, None])
        units = np.trunc(clipped / step).astype(np.int64)
    # Rounding may leave a row outside of the ball: shrink its coordinates by one step. That depends
    # on the row alone, and ends since nonzero entries approach zero in each round.
    while (over := np.flatnonzero(np.einsum("ij,ij->i", units, units) > limit)).size:
        units[over] -= np.sign(units[over])
    return units, inside


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
        Guarantee of one release.

    References
    ----------
    G. Sopa, J. Marusic, M. Avella-Medina, J. P. Cunningham, Scalable differentially private
    Bayesian optimization, arXiv:2502.06044, 2025, Lemma 3.1.
    J. Dong, A. Roth, W. J. Su, Gaussian differential privacy, JRSS B 2022, Theorem 2.7.

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
    sigma: float = field(init=False, repr=False)
    _noise: GaussianMechanism = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Down, so that the clipping norm, a float, does not exceed the stated one.
        clip = round_down(as_fraction(check_positive(self.clip, "clip")))
        n_records = check_count(self.n_records, "n_records")
        sigma = clipped_sum_sensitivity(clip) / check_mu(self.mu)
        # Fine enough for the vectors, coarse enough for 64-bit noise.
        fine = math.ldexp(power_of_two_below(clip), -_STEP_BITS)
        coarse = math.ldexp(power_of_two_below(sigma), -_DRAW_BITS)
        step = check_step(max(fine, coarse), "clip")
        # The exact sum must not overflow: a wrapped sum has another sensitivity.
        if n_records * math.ceil(Fraction(clip) / Fraction(step)) >= _MAX_TOTAL:
            raise ValueError("n_records is too large for 64-bit sums.")
        noise = GaussianMechanism(
            mu=self.mu, sensitivity=clipped_sum_sensitivity(clip), lattice=step, n_draws=_N_DRAWS
        )
        set_fields(self, clip=clip, step=step, sigma=noise.sigma / self.n_records, _noise=noise)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Gaussian differential privacy of one release."""
        return replace(
            self._noise.guarantee,
            protects="records behind the vectors",
            mechanism="clipped mean with Gaussian noise",
            assumptions=("each vector is computed from its own record and from public values",),
            reference="Sopa et al. 2025, Lemma 3.1; Dong, Roth & Su 2022, Theorem 2.7",
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
        self,
        vectors: FloatArray | Iterable[FloatArray],
        sizes: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.int64], int]:
        """Return the sum of the clipped vectors and the count of unclipped ones.

        Protected: pass only to a mechanism.

        Parameters
        ----------
        vectors : ndarray of shape (n_records, d), or iterable of ndarrays of shape (any, d)
            As in `release`.
        sizes : ndarray of int64, shape (number of vectors,), default=None
            Number of records in the group of each vector, by which its contribution is divided;
            `n_records` is then the number of groups.

        Returns
        -------
        total : ndarray of shape (d,)
            int64, in lattice steps, for `noisy_mean`.
        n_inside : int
            Number of vectors that need no clipping, for :class:`ClipQuantile`.
        """
        if isinstance(vectors, np.ndarray):
            if vectors.ndim != 2:
                raise ValueError("vectors must be two-dimensional, one row per record.")
            vectors = cache_blocks(vectors)
        total: Any = 0
        n_inside = n_rows = 0
        for block in vectors:
            units, inside = clip_to_lattice(block, self.clip, self.step)
            rows = slice(n_rows, n_rows + len(units))
            total = total + divide_by_group_size(units, sizes, rows).sum(axis=0)
            n_inside += int(np.count_nonzero(inside))
            n_rows += len(units)
        # With groups the number of rows is protected, and no error may depend on it.
        if sizes is None and n_rows != self.n_records:
            raise ValueError(f"expected {self.n_records} vectors, one per record, got {n_rows}.")
        return np.asarray(total, dtype=np.int64), n_inside

    def noisy_mean(
        self, total: NDArray[np.int64], source: RandomSource | None = None
    ) -> FloatArray:
        """Release the noisy mean of a sum computed by `exact_total`.

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


def cache_blocks(vectors: FloatArray) -> Iterator[FloatArray]:
    """Yield the rows of a matrix in blocks that fit in a processor's cache."""
    rows = max(1, _BLOCK // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), rows):
        yield vectors[start : start + rows]
