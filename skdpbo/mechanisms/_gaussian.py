"""Gaussian mechanism on a public lattice and discrete Gaussian mechanism on integers."""

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
    check_step,
    default_step,
    from_lattice,
    integers_from,
    integers_to,
    to_lattice,
)
from skdpbo.mechanisms._normal_sampler import NormalSampler
from skdpbo.mechanisms._opendp import ENGINES, Engine, opendp_noise
from skdpbo.mechanisms._sampling import ExactSampler
from skdpbo.mechanisms._source import RandomSource
from skdpbo.privacy import PrivacyGuarantee, epsilon_from_mu, mu_from_epsilon
from skdpbo.privacy._checks import (
    check_choice,
    check_count,
    check_delta,
    check_mu,
    check_positive,
    check_positive_delta,
    set_fields,
)
from skdpbo.privacy._conversions import gaussian_sigma, rho_from_epsilon
from skdpbo.privacy._rounding import one_plus_exp, round_down, round_up, round_up_root

# Noise is drawn on a lattice of at least 2^40 steps per standard deviation, then rounded to `step`.
_DRAW_BITS = 40
_MIN_RATIO, _MAX_RATIO = Fraction(1, 2**20), 2**49  # sigma / step

DEFAULT_DELTA = 1e-5
_REFERENCE = "Dong, Roth & Su 2022, Theorem 2.7; sampler: Karney 2016"


@dataclass(frozen=True, kw_only=True)
class GaussianMechanism:
    r"""Gaussian noise, rounded to a public lattice: exactly mu-Gaussian differentially private.

    The values are integers on the lattice and the noise is a normal deviate rounded to it. Since
    rounding commutes with shifts by whole steps, the release is a function of value + normal
    deviate: post-processing of the ideal mechanism, with neither an approximation of its privacy
    curve nor a floating-point bit that depends on the value.

    Private: the records behind the values, for data sets that differ in one record, when that
    record changes the values by at most `sensitivity` in l2 norm, all coordinates of a release
    (or of several, adaptively chosen, with the sensitivity of their concatenation) together.

    Parameters
    ----------
    mu : float, optional
        Gaussian privacy parameter, > 0. Either `mu`, or `epsilon` and `delta`.
    epsilon : float, optional
        Privacy loss bound, > 0.
    delta : float, optional
        In (0, 1). With `mu`, the delta at which the guarantee states epsilon (default 1e-5).
    sensitivity : float
        Largest l2 change of the values under one substitution, > 0, in the units of the values.
    lattice : float, optional
        None: `release` takes real numbers and rounds them toward zero to a lattice of 2^30 or more
        steps per standard deviation and, for mu above 2^-18, per sensitivity; the noise covers the
        rounding of n_draws coordinates, sqrt(n_draws) steps. Otherwise the public lattice step, >
        0, to which the caller has already rounded the values (see :func:`to_lattice`); `release`
        then takes and returns integers, counted in steps, and `sensitivity` is that of the values
        on the lattice.
    n_draws : int, default=2**20
        Largest number of coordinates released in total, at least 1.
    engine : {"skdpbo", "opendp"}, default="skdpbo"
        Sampler of the noise. OpenDP draws a discrete Gaussian on the finer lattice; its
        statistical distance to the normal deviate is charged to delta.

    Attributes
    ----------
    step : float
        The lattice step, in the units of the values. Public.
    sigma : float
        Standard deviation of the normal deviate, in the units of the values. Public.
    guarantee : PrivacyGuarantee
        Guarantee of one release.

    Notes
    -----
    Exact: random integers only, statistical distance zero (engine "skdpbo"). The running time
    depends on the noise and, for values beyond int64, on the values; it is not protected.

    References
    ----------
    J. Dong, A. Roth, W. J. Su, Gaussian differential privacy, JRSS B 2022, Theorem 2.7.
    B. Balle, Y.-X. Wang, Improving the Gaussian mechanism for differential privacy, ICML 2018.
    C. F. F. Karney, Sampling exactly from the normal distribution, ACM TOMS 42(1), 2016.

    Examples
    --------
    >>> from skdpbo.mechanisms import GaussianMechanism
    >>> mechanism = GaussianMechanism(epsilon=1.0, delta=1e-5, sensitivity=2.0)
    >>> round(mechanism.sigma, 4)
    7.4613
    >>> mechanism.release([1.0, 2.0]).shape
    (2,)
    """

    mu: float | None = None
    epsilon: float | Fraction | None = None
    delta: float | None = None
    sensitivity: float
    lattice: float | None = None
    n_draws: int = 2**20
    engine: Engine = "skdpbo"
    step: float = field(init=False, repr=False)
    sigma: float = field(init=False, repr=False)
    _scale: int = field(init=False, repr=False)  # standard deviation in steps of 2^-shift
    _shift: int = field(init=False, repr=False)
    _stated_delta: float = field(init=False, repr=False)
    _distance: float = field(init=False, repr=False)  # of all draws to rounded normal deviates

    def __post_init__(self) -> None:
        if (self.mu is None) == (self.epsilon is None):
            raise ValueError("give either mu, or epsilon and delta.")
        check_count(self.n_draws, "n_draws")
        check_choice(self.engine, "engine", ENGINES)
        # log(r/p) >= -1 / (24 s^2) for the probabilities r of the rounded normal deviate and p
        # of the discrete Gaussian of s lattice steps (Jensen); so TV <= 1 / (24 s^2) a draw.
        distance = 0.0 if self.engine == "skdpbo" else self.n_draws / (24 * 4.0**_DRAW_BITS)
        stated = DEFAULT_DELTA if self.delta is None else self.delta
        set_fields(self, _stated_delta=stated, _distance=distance)
        sensitivity = as_fraction(check_positive(self.sensitivity, "sensitivity"))
        sigma = self._calibrated(sensitivity)
        if self.lattice is not None:
            step = check_step(self.lattice, "lattice")
        else:
            step = default_step(sigma, round_up(sensitivity), "sensitivity")
            # Rounding toward zero changes the difference of two values by less than one step, in
            # l2 norm by less than sqrt(n_draws) steps, which are rounded up.
            rounding = (math.isqrt(int(self.n_draws) - 1) + 1) * Fraction(step)
            # The step is kept: a larger one for this sigma would need a further round.
            sigma = self._calibrated(sensitivity + rounding)
        ratio = Fraction(sigma) / Fraction(step)
        if ratio < _MIN_RATIO:
            raise ValueError("lattice is too coarse for the noise: more than 2^20 sigma.")
        if ratio > _MAX_RATIO:
            raise ValueError(
                "lattice is too fine for the noise: less than 2^-49 sigma, which needs more than "
                "64 bits. Raise epsilon or delta (mu)."
            )
        shift = max(0, _DRAW_BITS + 1 - math.frexp(ratio)[1])
        # Rounded up to whole steps, which the sampler needs: more noise, never less.
        scale = math.ceil(ratio * 2**shift)
        values = {"step": step, "_shift": shift, "_scale": scale}
        values["sigma"] = round_up(Fraction(scale, 2**shift) * Fraction(step))
        set_fields(self, **values)

    def _calibrated(self, sensitivity: Fraction) -> float:
        """Return sigma for an l2 sensitivity, rounded up."""
        bound = round_up(sensitivity)
        if self.mu is not None:
            # With mu, delta only says where epsilon is stated; at delta 0 there is none.
            check_positive_delta(self._stated_delta)
            # sigma = sensitivity / mu (Dong, Roth and Su 2022, Theorem 2.7).
            return gaussian_sigma(bound, mu=check_mu(self.mu))
        if self.delta is None:
            raise ValueError("delta must be given with epsilon.")
        epsilon = round_down(as_fraction(check_positive(self.epsilon, "epsilon")))
        # The analytic Gaussian mechanism (Balle and Wang 2018, Theorem 8), at delta minus the cost
        # of the sampler's distance.
        rest = check_delta(self.delta) - self._charge(epsilon)
        return gaussian_sigma(bound, epsilon=epsilon, delta=rest)

    def _charge(self, epsilon: float) -> float:
        """Return the delta that the sampler's statistical distance costs: (1 + e^epsilon) t."""
        # From epsilon = 709 on `one_plus_exp` is inf, and inf times 0 is NaN.
        return one_plus_exp(epsilon) * self._distance if self._distance else 0.0

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Gaussian differential privacy of all releases together, as (epsilon, delta) and mu."""
        if self.mu is not None:
            mu = check_mu(self.mu)
            # PrivacyGuarantee needs a positive epsilon; (0, delta)-DP implies it.
            epsilon = max(epsilon_from_mu(mu, self._stated_delta), 1e-12)
            delta = self._stated_delta + self._charge(epsilon)
        else:
            epsilon, delta = round_up(as_fraction(self.epsilon)), self._stated_delta
            mu = mu_from_epsilon(epsilon, delta - self._charge(epsilon))
        assumptions = [
            "replacing one record changes the released values by at most "
            f"{float(self.sensitivity):.6g} in l2 norm"
        ]
        if self.engine == "opendp":
            assumptions.append(
                f"the noise is within statistical distance {self._distance:.2g} of normal deviates "
                "rounded to the lattice (OpenDP), charged to delta"
            )
        return PrivacyGuarantee(
            epsilon=epsilon,
            delta=delta,
            mu=mu,
            statistical_distance=self._distance,
            protects="records behind the released values",
            mechanism="Gaussian",
            assumptions=tuple(assumptions),
            reference=_REFERENCE,
        )

    def release(self, values: ArrayLike, source: RandomSource | None = None) -> Any:
        """Return `values` plus noise, on the lattice.

        Parameters
        ----------
        values : float or array-like of float; int or array-like of int when `lattice` is given
            At most `n_draws` coordinates.
        source : RandomSource, default=None
            None reads the operating system's generator.

        Returns
        -------
        float or ndarray of float64; int or ndarray of int64 when `lattice` is given
            The shape of `values`. Floats are multiples of `step`; integers that do not fit int64
            come as Python ints (dtype object).
        """
        if self.lattice is None:
            units = to_lattice(values, self.step)
        elif type(values) is np.ndarray and values.dtype == np.int64:
            # The common case, without a slow conversion to Python's integers.
            units = values
        else:
            units = integers_to(*integers_from(values, "values"))
        size = int(np.size(units))
        # The noise was calibrated for the rounding errors of n_draws coordinates.
        if size > self.n_draws:
            raise ValueError("values has more than n_draws coordinates.")
        noisy = add_integers(units, self._noise(size, source))
        # Rounding to floats comes after the noise, so it is post-processing.
        return noisy if self.lattice is not None else from_lattice(noisy, self.step)

    def _noise(self, size: int, source: RandomSource | None) -> NDArray[np.int64]:
        """Return rounded normal deviates, in lattice steps."""
        if self.engine == "opendp":
            fine = opendp_noise("gaussian", size, float(self._scale), source)
        else:
            fine = NormalSampler(source).rounded(size, self._scale)
        # Rounding the fine lattice to the coarse one commutes with shifts by whole steps.
        return fine if self._shift == 0 else (fine + (1 << (self._shift - 1))) >> self._shift


@dataclass(frozen=True)
class DiscreteGaussian:
    r"""Integers plus integer noise z with P(z) proportional to :math:`\exp(-z^2/(2\sigma^2))`.

    Private: the records behind the values, for data sets that differ in one record, when that
    record changes the values by at most `sensitivity` in l2 norm. The mechanism is
    :math:`\rho`-zCDP with :math:`\rho = \mathrm{sensitivity}^2/(2\sigma^2)`, hence
    (epsilon, delta)-DP. It is not exactly Gaussian-DP, needs 4 to 11 % more noise than
    :class:`GaussianMechanism` (epsilon .1 to 10, delta 1e-8 to 1e-5; at a delta of .01 up to 27 %)
    and is slower: draws are made one at a time.

    Parameters
    ----------
    epsilon : float
        Privacy loss bound, > 0.
    delta : float
        In (0, 1).
    sensitivity : float
        The l2 sensitivity of the released integers, > 0.

    Notes
    -----
    Exact: random integers only. The running time depends on the noise and is not protected.

    References
    ----------
    C. L. Canonne, G. Kamath, T. Steinke, The discrete Gaussian for differential privacy, 2020,
    Theorem 4, Corollary 13 and Algorithm 3.

    Examples
    --------
    >>> from skdpbo.mechanisms import DiscreteGaussian
    >>> round(DiscreteGaussian(epsilon=1.0, delta=1e-6, sensitivity=1).sigma, 2)
    4.53
    """

    epsilon: float
    delta: float
    sensitivity: float
    _variance: Fraction = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sensitivity = as_fraction(check_positive(self.sensitivity, "sensitivity"))
        rho = Fraction(rho_from_epsilon(self.epsilon, self.delta))
        # rho = sensitivity^2 / (2 sigma^2) (Canonne, Kamath and Steinke 2020, Theorem 4).
        set_fields(self, _variance=sensitivity**2 / (2 * rho))

    @property
    def sigma(self) -> float:
        """Parameter sigma of the noise (close to its standard deviation), rounded up."""
        return round_up_root(self._variance)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Approximate differential privacy of one release."""
        return PrivacyGuarantee(
            epsilon=round_up(as_fraction(self.epsilon)),
            delta=float(self.delta),
            protects="records behind the released integers",
            mechanism="discrete Gaussian",
            assumptions=(
                "replacing one record changes the released integers by at most "
                f"{float(self.sensitivity):.6g} in l2 norm",
            ),
            reference="Canonne, Kamath & Steinke 2020, Theorem 4 and Corollary 13",
        )

    def release(self, values: ArrayLike, source: RandomSource | None = None) -> int | NDArray[Any]:
        """Return `values` plus noise.

        Parameters
        ----------
        values : int or array-like of int
            Values to release, of joint l2 sensitivity at most `sensitivity`.
        source : RandomSource, default=None
            None reads the operating system's generator.

        Returns
        -------
        int or ndarray of the shape of `values`
            int64, or Python ints (dtype object) when a released value does not fit.
        """
        integers, shape = integers_from(values, "values")
        variance, sampler = self._variance, ExactSampler(source)
        return integers_to([n + sampler.discrete_gaussian(variance) for n in integers], shape)
