"""l2-Laplace (planar Laplace) mechanism for rows, on a public lattice."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdpbo.mechanisms._lattice import (
    add_integers,
    as_fraction,
    default_step,
    from_lattice,
    to_lattice,
)
from skdpbo.mechanisms._normal_sampler import NormalSampler
from skdpbo.mechanisms._sampling import ExactSampler
from skdpbo.mechanisms._source import RandomSource
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import check_count, check_positive, set_fields
from skdpbo.privacy._conversions import l2_laplace_scale
from skdpbo.privacy._rounding import round_up, text_below

_DIGITS = 50  # binary digits of a normal deviate before its 64-bit words
_MAX_EPSILON = 10_000.0
MAX_DIMENSION = 2**16
_LARGEST_DISTANCE = 1e-12  # statistical distance, charged to delta


@dataclass(frozen=True)
class L2Laplace:
    r"""Rows plus noise of density proportional to :math:`\exp(-\epsilon\|z\|_2/D)`.

    Private: the position of each row, for data sets that differ in one row, which is moved by at
    most the `displacement` D in l2 norm. A row moved by t D, t >= 1, has privacy loss t epsilon
    (metric privacy); to hide a whole row, let D be the diameter of its domain. By the triangle
    inequality the density of a row's release changes by at most a factor :math:`e^\epsilon`.

    Parameters
    ----------
    epsilon : float
        Privacy loss of the release of all rows, > 0, at most 10 000.
    displacement : float
        D, the largest hidden move of one row, > 0, in the units of the rows.
    dimension : int
        d, the number of coordinates of a row, at least 1.

    Attributes
    ----------
    step : float
        Step of the public lattice on which the released rows lie, at most 2^-30 scales. Public.
    scale : float
        Scale of the Gamma(d) law of the norm of the noise, D / epsilon and a little more, which
        hides the rounding of the rows. Public.
    guarantee : PrivacyGuarantee
        Guarantee of the release of all rows.

    Notes
    -----
    The noise is R u rounded to the lattice: R a sum of d exponential deviates, u a normalised
    vector of d normal deviates, each drawn exactly to 242 or more binary digits and combined
    in integers. Such noise on a lattice is post-processing of the ideal mechanism. The remaining
    statistical distance, below 1e-40 for epsilon <= 40, is charged to delta. Noise standard
    deviation per coordinate: :math:`D\sqrt{d+1}/\epsilon`.

    References
    ----------
    M. E. Andres et al., Geo-indistinguishability, CCS 2013, Section 4. K. Chaudhuri, C. Monteleoni,
    A. D. Sarwate, Differentially private empirical risk minimization, JMLR 2011, Algorithm 1.

    Examples
    --------
    >>> from skdpbo.mechanisms import L2Laplace
    >>> mechanism = L2Laplace(epsilon=2.0, displacement=1.0, dimension=2)
    >>> round(mechanism.scale, 6)
    0.5
    >>> mechanism.release([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]).shape
    (3, 2)
    """

    epsilon: float
    displacement: float
    dimension: int
    step: float = field(init=False, repr=False)
    scale: float = field(init=False, repr=False)
    _units: int = field(init=False, repr=False)  # scale in steps
    _n_words: int = field(init=False, repr=False)  # of 64 digits per normal deviate
    _log_distance: float = field(init=False, repr=False)  # bound on that of one row's noise

    def __post_init__(self) -> None:
        if float(check_positive(self.epsilon, "epsilon")) > _MAX_EPSILON:
            raise ValueError("epsilon must be at most 10000.")
        check_count(self.dimension, "dimension", most=MAX_DIMENSION)
        displacement = as_fraction(check_positive(self.displacement, "displacement"))
        bound = round_up(displacement)
        step = default_step(l2_laplace_scale(bound, self.epsilon), bound, "displacement")
        # Rounding toward zero lengthens a move by less than sqrt(d) steps.
        rounding = (math.isqrt(int(self.dimension) - 1) + 1) * Fraction(step)
        exact = (displacement + rounding) / as_fraction(self.epsilon)
        # Rounded up to whole steps: more noise, never less.
        units = math.ceil(exact / Fraction(step))
        # The distance shrinks faster than e^-epsilon.
        n_words = 2 + math.ceil(float(self.epsilon) / (64 * math.log(2)))
        # With r binary digits the coordinates of the noise are known to a = 2 sqrt(d) 2^-r / ||g||
        # of their range M R, M = scale / step, g the normal deviates, E[1/||g||] < 1.26 for
        # d > 1 (d = 1 has no error of direction), and R to d 2^-r. A coordinate so close to a
        # half-integer that this matters has probability at most 8 E[a] M d + 8 M d 2^-r; summed
        # over d coordinates, below 2^5 M d^2.5 2^-r.
        spare = (5 - _DIGITS - 64 * n_words) * math.log(2)
        log_distance = spare + math.log(units) + 2.5 * math.log(self.dimension)
        values = {
            "step": step,
            "scale": round_up(units * Fraction(step)),
            "_units": units,
            "_n_words": n_words,
            "_log_distance": log_distance,
        }
        set_fields(self, **values)
        if log_distance > math.log(_LARGEST_DISTANCE):
            raise ValueError("epsilon is too small: its noise needs more digits than are drawn.")
        # A norm of the law Gamma(d) above 2 d + 100, and a coordinate above 20 / sqrt(d) of it,
        # have probability below e^-80 each.
        d = int(self.dimension)
        if units * (2 * d + 100) * min(1.0, 20 / math.sqrt(d)) >= 2**63:
            raise ValueError("epsilon is too small: its noise needs more than 64 bits.")

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Differential privacy of the release of all rows."""
        epsilon = round_up(as_fraction(self.epsilon))
        # (1 + e^epsilon) distance, in logarithms. One row differs, so one row's distance counts.
        delta = math.exp(self._log_distance + epsilon + math.log1p(math.exp(-epsilon)))
        distance = math.exp(self._log_distance)
        moved = text_below(as_fraction(self.displacement))  # a longer move costs more
        return PrivacyGuarantee(
            epsilon=epsilon,
            delta=delta,
            neighbours=f"one row moved by at most {moved} (l2 norm)",
            protects="position of each row",
            mechanism="l2-Laplace",
            assumptions=(
                f"the noise of a row is within statistical distance {distance:.2g} of its ideal "
                "law, charged to delta",
            ),
            reference="Andres et al. 2013; Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 1",
        )

    def release(self, rows: ArrayLike, source: RandomSource | None = None) -> NDArray[np.float64]:
        """Return `rows` plus noise, each row independently.

        Parameters
        ----------
        rows : array-like of float, shape (n, dimension)
            Finite.
        source : RandomSource, default=None
            None reads the operating system's generator.

        Returns
        -------
        ndarray of float64, shape (n, dimension)
            Multiples of `step` (rounded to a float where they need more than 53 bits).
        """
        units: Any = to_lattice(rows, self.step)
        if np.ndim(units) != 2 or np.shape(units)[1] != self.dimension:
            raise ValueError("rows must have shape (n, dimension).")
        noisy = add_integers(units, self._noise(len(units), source).ravel())
        return np.asarray(from_lattice(noisy, self.step))

    def _noise(self, n_rows: int, source: RandomSource | None) -> NDArray[np.int64]:
        """Return round(R u / step), shape (n_rows, dimension)."""
        d, n_words = int(self.dimension), self._n_words
        normals, words, negative = NormalSampler(source).expanded(n_rows * d, 2**_DIGITS, n_words)
        # Big-endian, most significant word first: the bytes of one deviate are one integer.
        tails = words.astype(">u8").tobytes()
        width = 8 * n_words
        g = [
            (high << (64 * n_words)) + int.from_bytes(tails[i * width : (i + 1) * width], "big")
            for i, high in enumerate(normals.tolist())
        ]
        g = [-value if minus else value for value, minus in zip(g, negative.tolist(), strict=True)]
        sampler, digits, noise = ExactSampler(source), _DIGITS + 64 * n_words, []
        for row in (g[i : i + d] for i in range(0, n_rows * d, d)):
            # A Gamma(d) norm is a sum of d exponentials, and a normal vector has a uniform
            # direction (Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1).
            radius = self._units * sum(sampler.geometric(1 << digits) for _ in row)
            # The norm is 0 only if all deviates are below 2^-r: less likely than the charged
            # statistical distance.
            divisor = max(1, math.isqrt(sum(value * value for value in row))) << digits
            # radius * value / divisor, rounded to the nearest integer in exact arithmetic.
            noise += [(2 * radius * value + divisor) // (2 * divisor) for value in row]
        return np.array(noise, dtype=np.int64).reshape(n_rows, d)
