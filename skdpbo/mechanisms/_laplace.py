"""Discrete Laplace mechanism on integers, sampled exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from numpy.typing import ArrayLike, NDArray

from skdpbo.mechanisms._lattice import (
    as_fraction,
    integers_from,
    integers_to,
)
from skdpbo.mechanisms._opendp import ENGINES, Engine, opendp_noise
from skdpbo.mechanisms._sampling import ExactSampler
from skdpbo.mechanisms._source import RandomSource
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import check_choice, check_count, check_positive
from skdpbo.privacy._rounding import round_up


@dataclass(frozen=True)
class DiscreteLaplace:
    r"""Integers plus integer noise z with P(z) proportional to :math:`\exp(-|z|\epsilon/B)`.

    Private: the records behind the values, for data sets that differ in one record, when that
    record changes the values by at most B in l1 norm (all released coordinates together). The
    ratio of the output probabilities is then at most :math:`e^\epsilon`, by the triangle
    inequality.

    Parameters
    ----------
    epsilon : float, int or fractions.Fraction
        Privacy loss of one release, > 0. A float is read as its exact binary value.
    sensitivity : int
        B, the l1 sensitivity of the released integers, at least 1.
    engine : {"skdpbo", "opendp"}, default="skdpbo"
        Sampler of the noise; OpenDP's is exact too.

    Notes
    -----
    Exact: random integers only. Input and output are integers, so no floating-point bit depends on
    the values. The running time depends on the noise and is not protected.

    References
    ----------
    C. L. Canonne, G. Kamath, T. Steinke, The discrete Gaussian for differential privacy, 2020,
    Algorithm 2. A. Ghosh, T. Roughgarden, M. Sundararajan, Universally utility-maximizing privacy
    mechanisms, STOC 2009.

    Examples
    --------
    >>> from skdpbo.mechanisms import DiscreteLaplace
    >>> mechanism = DiscreteLaplace(epsilon=0.5, sensitivity=3)
    >>> mechanism.scale
    6.0
    >>> type(mechanism.release(10)).__name__
    'int'
    """

    epsilon: float | Fraction
    sensitivity: int
    engine: Engine = "skdpbo"
    _exact_scale: Fraction = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_positive(self.epsilon, "epsilon")
        check_count(self.sensitivity, "sensitivity")
        check_choice(self.engine, "engine", ENGINES)
        # A ratio of integers, for which the sampler is exact.
        exact_scale = int(self.sensitivity) / as_fraction(self.epsilon)
        object.__setattr__(self, "_exact_scale", exact_scale)
        # OpenDP's 64-bit integers then hold noise of up to 2^13 scales.
        if self.engine == "opendp" and exact_scale > 2**50:
            raise ValueError("the noise is too large for OpenDP's 64-bit integers.")

    @property
    def scale(self) -> float:
        """Scale B / epsilon of the noise, in units of the values."""
        return round_up(self._exact_scale)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Pure differential privacy of one release."""
        return PrivacyGuarantee(
            epsilon=round_up(as_fraction(self.epsilon)),
            protects="records behind the released integers",
            mechanism="discrete Laplace",
            assumptions=(
                "replacing one record changes the released integers by at most "
                f"{int(self.sensitivity)} in l1 norm",
            ),
            reference="Canonne, Kamath & Steinke 2020, Algorithm 2",
        )

    def release(self, values: ArrayLike, source: RandomSource | None = None) -> int | NDArray[Any]:
        """Return `values` plus noise.

        Parameters
        ----------
        values : int or array-like of int
            Values to release, of joint l1 sensitivity at most `sensitivity`.
        source : RandomSource, default=None
            None reads the operating system's generator.

        Returns
        -------
        int or ndarray of the shape of `values`
            int64, or Python ints (dtype object) when a released value does not fit.
        """
        integers, shape = integers_from(values, "values")
        if self.engine == "opendp":
            # OpenDP takes a float; rounded up, as a larger scale has a smaller privacy loss.
            noise = opendp_noise("laplace", len(integers), self.scale, source).tolist()
        else:
            scale, sampler = self._exact_scale, ExactSampler(source)
            draw = sampler.discrete_laplace
            noise = [draw(scale.numerator, scale.denominator) for _ in integers]
        return integers_to([v + n for v, n in zip(integers, noise, strict=True)], shape)


def laplace_std(epsilon: float | Fraction, sensitivity: int) -> float:
    """Standard deviation of discrete Laplace noise of scale sensitivity / epsilon."""
    # P(k) ~ exp(-a |k|) has the variance 1 / (2 sinh(a / 2)^2), negligible where sinh overflows.
    half = float(epsilon) / (2 * sensitivity)
    return 1 / (math.sqrt(2) * math.sinh(half)) if half < 300 else 0.0
