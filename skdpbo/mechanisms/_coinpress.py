"""COINPRESS: private mean under weak prior knowledge."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from skdpbo.mechanisms._clipping import ClippedMean, clipped_mean_sensitivity
from skdpbo.mechanisms._mean import (
    HUGE,
    FloatArray,
    GaussianMean,
    Labels,
    as_given,
    as_records,
    centred_blocks,
)
from skdpbo.mechanisms._source import RandomSource
from skdpbo.privacy._checks import check_count, check_positive

_LEAST_GAIN = 0.99  # a step must shrink the radius to this share or less
_MAX_AUTO = 20  # largest number of steps with n_steps="auto"
_ROUNDING = 2.0**-50  # relative; bound on the rounding error of splitting a budget


@dataclass(frozen=True, kw_only=True)
class CoinPressMean(GaussianMean):
    r"""Private mean under weak prior knowledge, by iterated clipping (COINPRESS).

    Each of the `n_steps` steps clips the records to a ball around the previously released mean and
    releases their mean with Gaussian noise. The balls' radii depend on the number
    of records, the dimension and the parameters alone, and shrink from step to step.

    Private: the averaged records, for data sets that differ in one of them. A step whose ball has
    radius t has l2 sensitivity 2 t / n whatever its centre, and the shares of the budget add up:
    all steps together are exactly mu-Gaussian differentially private (adaptive composition).

    Parameters
    ----------
    mu : float, optional
        Gaussian privacy parameter of all steps together, > 0. Either `mu`, or `epsilon` and
        `delta`.
    epsilon : float, optional
        Privacy loss bound, > 0.
    delta : float, optional
        In (0, 1). With `mu`, the delta at which the guarantee states epsilon (default 1e-5).
    center : float or array-like of float, shape (d,)
        Public guess of the mean, in the units of the records. A float serves every coordinate.
    radius : float
        Public bound on the distance of the mean to `center`, > 0, in the units of the records. A
        generous bound costs little.
    scale : float, default=1.0
        Public standard deviation of a coordinate of the records, > 0. See the warning in Notes.
    n_steps : int or "auto", default=12
        Largest number of steps, in [1, 10000]. "auto": the number, up to 20, that gives the least
        noise; found from public numbers, and much better than 12 when n mu is below about 100.
    shares : sequence of float, default=None
        Share of mu^2 of each of the `n_steps` steps, positive, of sum 1. None: the last step has
        3/4, the others share 1/4 equally (Honkela & Melkas).
    beta : float, default=0.01
        In (0, 1). Approximate probability that a normal record is clipped; smaller values give
        larger balls.

    Attributes
    ----------
    guarantee, group_guarantee : PrivacyGuarantee
        Guarantee of one release, for one record and, with groups, for one group.

    See Also
    --------
    BoundedMean : Preferable when a narrow interval is known.

    Notes
    -----
    **The standard deviation matters.** The balls are made for records of standard deviation at
    most `scale`. When it is larger, the last balls cut both tails, and the mean of a skewed
    distribution is biased without notice: half-normal records of scale 5 and 20, with
    ``scale=1``, by about .3 and 2. Privacy does not depend on it. Give `scale` on the high side
    (the noise is proportional to it), or use :class:`BoundedMean`.

    A record with a value that is not finite counts as the centre, without an error or a warning.

    Step i, in units of `scale` (Biswas et al. 2020, multivariate mean, with the clipping radius
    of the authors' code): :math:`\gamma^2 = d + 2\sqrt{d \log(1/\beta)} + 2\log(1/\beta)`,
    :math:`t_i^2 = \min\{r_i^2 + 2 r_i \sqrt{\log(2/\beta)} + \gamma^2, (r_i + \gamma)^2\}`,
    :math:`c_{i+1} = \mathrm{mean}(\mathrm{clip}(x, c_i, t_i)) + N(0, \sigma_i^2 I)` with
    :math:`\sigma_i = 2 t_i / (n \mu_i)`, and :math:`r_{i+1} = \gamma\sqrt{1/n + \sigma_i^2}`.
    A step that would not shrink the radius by 1 % (nothing is left to gain; or few records and a
    small budget, where the radius would grow) is left out, and its share goes to the last step.
    The original records are clipped at every step.

    Every step is a :class:`ClippedMean`: records are truncated to a public lattice around the
    centre, their norms checked, summed and noised in integers.

    References
    ----------
    S. Biswas, Y. Dong, G. Kamath, J. Ullman, CoinPress: practical private mean and covariance
    estimation, NeurIPS 2020. A. Honkela, L. Melkas, Gaussian processes with differential privacy,
    2021, Section 4.1.

    Examples
    --------
    >>> from skdpbo.mechanisms import CoinPressMean
    >>> heights = [150.0 + 0.01 * i for i in range(3000)]  # in cm, mean 164.995
    >>> mean = CoinPressMean(epsilon=1.0, delta=1e-5, center=100.0, radius=100.0, scale=10.0)
    >>> round(mean.noise_sd(3000), 3)
    0.102
    >>> abs(mean.release(heights) - 164.995) < 2
    True
    """

    mu: float | None = None
    epsilon: float | Fraction | None = None
    delta: float | None = None
    center: Any
    radius: float
    scale: float = 1.0
    n_steps: int | Literal["auto"] = 12
    shares: Any = None
    beta: float = 0.01

    _description = "COINPRESS mean"

    def __post_init__(self) -> None:
        array = np.asarray(self.center)
        if array.dtype.kind not in "fiu" or array.ndim > 1:
            raise TypeError("center must be a real number or a vector of them.")
        if not array.size or not np.isfinite(array).all():
            raise ValueError("center must be finite and not empty.")
        object.__setattr__(self, "center", tuple(map(float, array)) if array.ndim else float(array))
        for name in ("radius", "scale", "beta"):
            object.__setattr__(self, name, float(check_positive(getattr(self, name), name)))
        if not 1e-300 < self.beta < 1:
            raise ValueError("beta must lie in (1e-300, 1).")
        extent = np.append(np.abs(self.center), self.radius)
        # The plan squares radii, and squares below HUGE stay finite.
        if not extent.max() / self.scale < math.sqrt(HUGE):
            raise ValueError("center and radius must be smaller than 2^250 times scale.")
        if self.n_steps != "auto":
            check_count(self.n_steps, "n_steps", most=10_000)
        if self.shares is not None:
            if not np.iterable(self.shares):
                raise TypeError(f"shares must be numbers, got {self.shares!r}.")
            checked = tuple(float(check_positive(share, "each of shares")) for share in self.shares)
            if len(checked) != self.n_steps:
                raise ValueError("shares must have one value for each of the n_steps steps.")
            total = math.fsum(checked)
            if abs(total - 1) > 1e-9:
                raise ValueError("shares must add up to 1.")
            # Normalised: a sum above 1 would exceed the budget.
            object.__setattr__(self, "shares", tuple(min(share / total, 1.0) for share in checked))
        _ = self.guarantee  # raises for an invalid budget

    def release(
        self,
        values: ArrayLike,
        source: RandomSource | None = None,
        groups: Labels | None = None,
    ) -> float | FloatArray:
        """Return the private mean of the records, or of the means within groups of them.

        Parameters
        ----------
        values : array-like of float, shape (n,) or (n, d)
            The records. Their number is public. They are not modified.
        source : RandomSource, default=None
            None reads the operating system's generator.
        groups : sequence of hashable, shape (n,), default=None
            Label of the group of each record, as in :class:`BoundedMean`.

        Returns
        -------
        float or ndarray of shape (d,)
            It may lie outside the ball of `radius` around `center`.

        Raises
        ------
        TypeError, ValueError
            For an invalid shape or dtype; never for a value, as in :class:`BoundedMean`.
        """
        records = as_records(values, groups)
        *_, mean = self._path(records, source)
        return as_given(mean * self.scale, values)

    def _path(self, records: FloatArray, source: RandomSource | None) -> Iterator[FloatArray]:
        """Yield the mean after each step, in units of `scale`. The guarantee covers them all."""
        center = np.asarray(self.center) / self.scale
        if center.ndim and len(center) != records.shape[1]:
            raise ValueError("center must have one value for each column of the records.")
        for step in self._steps(*records.shape):
            # Each step clips the original records around the released centre.
            center = center + step.release(centred_blocks(records, center, self.scale), source)
            yield center

    def _steps(self, n_records: int, n_features: int) -> list[ClippedMean]:
        """Return the release of each step, from public numbers alone."""
        if self.shares is not None:
            choices = [self.shares]
        elif self.n_steps == "auto":
            choices = [default_shares(t) for t in range(1, _MAX_AUTO + 1)]
        else:
            choices = [default_shares(self.n_steps)]
        mu = float(self.guarantee.mu)  # type: ignore[arg-type]
        radius = self.radius / self.scale
        plans = [
            coinpress_plan(mu, radius, shares, self.beta, n_records, n_features)
            for shares in choices
        ]
        # The least noise of the last step, by public numbers alone: the choice costs no budget.
        best = min(plans, key=lambda plan: plan[-1][0] / plan[-1][1])
        return [ClippedMean(clip=t, n_records=n_records, mu=mu_i) for t, mu_i in best]


def coinpress_plan(
    mu: float,
    radius: float,
    shares: tuple[float, ...],
    beta: float,
    n_records: int,
    n_features: int,
) -> list[tuple[float, float]]:
    """Return clipping radius and budget of each step, from public numbers, at unit scale.

    Biswas et al. 2020, multivariate mean, with the clipping radius of the authors' code.
    """
    n, d, log_b = n_records, n_features, math.log(1 / beta)
    # The norm of d unit normals exceeds gamma with probability beta at most.
    gamma = math.sqrt(d + 2 * math.sqrt(d * log_b) + 2 * log_b)
    left, plan = [shares[-1]], []
    for share in shares[:-1]:
        threshold, mu_i = clipping_radius(radius, gamma, beta), share_of_budget(mu, share)
        noise = clipped_mean_sensitivity(threshold, n) / mu_i
        # With probability about 1 - beta, the noisy mean of n clipped unit normals lies this near
        # to the true mean (Biswas, Dong, Kamath and Ullman 2020, Algorithm 1).
        next_radius = gamma * math.sqrt(1 / n + noise**2)
        # With few records and a small budget the radius would grow (docs/theory/coinpress.md).
        if next_radius < _LEAST_GAIN * radius:
            plan.append((threshold, mu_i))
            radius = next_radius
        else:
            left.append(share)
    # The last step gets the budget of the steps that are left out.
    last = share_of_budget(mu, min(math.fsum(left), 1.0))
    return [*plan, (clipping_radius(radius, gamma, beta), last)]


def clipping_radius(radius: float, gamma: float, beta: float) -> float:
    """Return the norm that a normal record rarely exceeds when its mean has norm <= `radius`."""
    s = math.sqrt(math.log(2 / beta))
    return min(math.sqrt(radius**2 + 2 * radius * s + gamma**2), radius + gamma)


def default_shares(n_steps: int) -> tuple[float, ...]:
    """Return the shares of the squared budget of Honkela & Melkas 2021, Section 4.1."""
    return (0.25 / max(n_steps - 1, 1),) * (n_steps - 1) + (0.75 if n_steps > 1 else 1.0,)


def share_of_budget(mu: float, share: float) -> float:
    """Return mu_i with mu_i^2 = share mu^2, rounded down so that shares of sum 1 stay in mu^2."""
    return math.sqrt(share) * mu * (1 - _ROUNDING)
