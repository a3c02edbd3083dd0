"""Conversions between pure, approximate, zero-concentrated and Gaussian privacy, and noise scales.

All take and return scalars. Results are rounded to the private side: an epsilon, a delta, a noise
scale or an implied mu or rho is never below its true value, an admissible mu or rho never above.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import erfinv, log_expit, log_ndtr, ndtri_exp

from skdpbo.privacy._checks import check_mu, check_positive, check_positive_delta, check_real
from skdpbo.privacy._profile import log_gaussian_delta, log_zcdp_delta, private_root, with_error
from skdpbo.privacy._rounding import round_down, round_up

# The inverse conversions move by different amounts, so that a round trip never gains privacy.
_EPSILON_SLACK = 1e-10
_MU_SLACK = 1e-9


def delta_from_mu(mu: float, epsilon: float) -> float:
    """Delta with which mu-GDP is (epsilon, delta)-DP, in (0, 1] and never below its true value.

    Where delta is below the smallest float, that float is returned, since a delta of 0 would
    promise more.

    Parameters
    ----------
    mu : float
        Gaussian privacy parameter, positive.
    epsilon : float
        Any finite real number.

    Returns
    -------
    float
        Delta, in (0, 1], rounded up.

    References
    ----------
    Balle and Wang (2018), Theorem 8. Dong, Roth and Su (2022), Corollary 2.13.

    Examples
    --------
    >>> from skdpbo.privacy._conversions import delta_from_mu
    >>> round(delta_from_mu(40, 900), 8)
    0.00579746
    """
    mu, epsilon = check_mu(mu), float(check_real(epsilon, "epsilon"))
    # exp is correct to less than one ulp, so the next float is an upper bound; it is above 0.
    return min(1.0, math.nextafter(math.exp(min(0.0, _upper_log_delta(mu, epsilon))), math.inf))


def _upper_log_delta(mu: float, epsilon: float) -> float:
    """Log of the delta with which mu-GDP is (epsilon, delta)-DP, plus its error bound."""
    return with_error(float(log_gaussian_delta(mu, np.float64(epsilon))), mu)


def epsilon_from_mu(mu: float, delta: float) -> float:
    """Smallest epsilon >= 0 with which mu-GDP is (epsilon, delta)-DP, rounded up.

    Parameters
    ----------
    mu : float
        Gaussian privacy parameter, in (0, 1e15].
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Epsilon, at least 0, rounded up.

    Examples
    --------
    >>> from skdpbo.privacy import epsilon_from_mu
    >>> round(epsilon_from_mu(1.0, 1e-5), 4)
    4.3772
    """
    if check_mu(mu) > 1e15:
        raise ValueError(f"mu must be at most 1e15, got {mu}.")
    return _epsilon_from_mu(check_mu(mu), check_positive_delta(delta))


@lru_cache(maxsize=1024)  # trials of a search and charges repeat the same arguments
def _epsilon_from_mu(mu: float, delta: float) -> float:
    if _upper_log_delta(mu, 0.0) <= math.log(delta):
        return 0.0
    return private_root(
        lambda epsilon: _upper_log_delta(mu, epsilon),
        math.log(delta),
        guess=mu * (mu / 2 + 1),
        safe_side=1,
        slack=_EPSILON_SLACK,
    )


def mu_from_epsilon(epsilon: float, delta: float) -> float:
    """Largest mu for which mu-GDP implies (epsilon, delta)-DP, rounded down.

    This is the analytic Gaussian mechanism: noise of standard deviation sensitivity / mu.

    Parameters
    ----------
    epsilon : float
        Positive.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Mu, positive, rounded down.

    Examples
    --------
    >>> from skdpbo.privacy import mu_from_epsilon
    >>> round(mu_from_epsilon(1.0, 1e-5), 6)
    0.268051
    """
    # Both rounded down: a guarantee with smaller ones implies these.
    return _mu_from_epsilon(
        round_down(check_positive(epsilon, "epsilon")), check_positive_delta(delta)
    )


@lru_cache(maxsize=1024)
def _mu_from_epsilon(bound: float, delta: float) -> float:
    return private_root(
        lambda mu: _upper_log_delta(mu, bound),
        math.log(delta),
        guess=bound,
        safe_side=-1,
        slack=_MU_SLACK,
    )


def mu_from_pure_epsilon(epsilon: float) -> float:
    """Smallest mu such that every pure epsilon-DP mechanism is mu-GDP, rounded up.

    The GDP curve that touches the trade-off curve of randomised response at its kink:
    mu = -2 Phi^{-1}(1 / (1 + e^epsilon)) (Dong, Roth and Su 2022, Section 2).

    Parameters
    ----------
    epsilon : float
        Pure privacy loss bound, positive.

    Returns
    -------
    float
        Mu, positive, rounded up.

    Examples
    --------
    >>> from skdpbo.privacy._conversions import mu_from_pure_epsilon
    >>> round(mu_from_pure_epsilon(1.0), 6)
    1.232035
    """
    bound = float(check_positive(epsilon, "epsilon"))
    if bound < 1:  # erf(mu / sqrt 8) = tanh(epsilon / 2), which does not cancel
        mu = math.sqrt(8) * float(erfinv(math.tanh(bound / 2)))
    else:
        mu = -2 * float(ndtri_exp(log_expit(-bound)))
    return mu * (1 + 1e-13)  # up, by more than the error of the special functions


def pure_epsilon_from_mu(mu: float) -> float:
    """Largest epsilon such that every pure epsilon-DP mechanism is mu-GDP, rounded down.

    The inverse of `mu_from_pure_epsilon`: epsilon = logit Phi(mu / 2).

    Parameters
    ----------
    mu : float
        Gaussian privacy parameter, positive.

    Returns
    -------
    float
        Epsilon, positive, rounded down.

    Examples
    --------
    >>> from skdpbo.privacy._conversions import pure_epsilon_from_mu
    >>> round(pure_epsilon_from_mu(1.232035), 5)
    1.0
    """
    half = float(check_positive(mu, "mu")) / 2
    if half < 1:  # Phi(x) - Phi(-x) = erf(x / sqrt 2), which does not cancel
        epsilon = 2 * math.atanh(math.erf(half / math.sqrt(2)))
    else:
        epsilon = float(log_ndtr(half)) - float(log_ndtr(-half))
    return epsilon * (1 - 1e-12)  # down, by more than `mu_from_pure_epsilon` goes up


def rho_from_epsilon(epsilon: float, delta: float) -> float:
    """Largest rho with which rho-zCDP implies (epsilon, delta)-DP, rounded down.

    Parameters
    ----------
    epsilon : float
        Positive.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Rho, positive, rounded down.

    References
    ----------
    Canonne, Kamath and Steinke (2020), Corollary 13.
    """
    bound = round_down(check_positive(epsilon, "epsilon"))
    return private_root(
        lambda rho: with_error(log_zcdp_delta(rho, bound)),
        math.log(check_positive_delta(delta)),
        guess=bound,
        safe_side=-1,
        slack=_MU_SLACK,
    )


def gaussian_sigma(
    sensitivity: float,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
) -> float:
    """Standard deviation of Gaussian noise, per coordinate (the analytic Gaussian mechanism).

    Give either `epsilon` and `delta`, or `mu`.

    Parameters
    ----------
    sensitivity : float
        Largest l2 change under one replaced record, positive, in the units of the result.
    epsilon : float, optional
        Positive.
    delta : float, optional
        In (0, 1).
    mu : float, optional
        Gaussian privacy parameter, positive.

    Returns
    -------
    float
        Smallest float that is not below sensitivity / mu, with mu itself rounded down.

    References
    ----------
    Balle and Wang (2018), Algorithm 1. Dong, Roth and Su (2022), Theorem 2.7.

    Examples
    --------
    >>> from skdpbo.privacy._conversions import gaussian_sigma
    >>> round(gaussian_sigma(1.0, epsilon=1.0, delta=1e-6), 5)
    4.22468
    """
    if mu is None:
        if epsilon is None or delta is None:
            raise ValueError("Give either epsilon and delta, or mu.")
        mu = mu_from_epsilon(epsilon, delta)
    elif epsilon is not None or delta is not None:
        raise ValueError("Give either epsilon and delta, or mu, not both.")
    else:
        # A smaller mu is more noise.
        mu = round_down(check_positive(mu, "mu"))
    return _ratio_up(sensitivity, mu)


def l2_laplace_scale(sensitivity: float, epsilon: float) -> float:
    """Scale of l2-Laplace noise, density proportional to exp(-||x||_2 / scale), for pure DP.

    The norm of the noise has a Gamma law of shape d (the dimension) and this scale.

    Parameters
    ----------
    sensitivity : float
        Largest l2 change to be hidden (for metric privacy: the displacement), positive.
    epsilon : float
        Positive.

    Returns
    -------
    float
        Smallest float that is not below sensitivity / epsilon.

    References
    ----------
    Chaudhuri, Monteleoni and Sarwate (2011), Algorithm 1.
    """
    return _ratio_up(sensitivity, check_positive(epsilon, "epsilon"))


def _ratio_up(sensitivity: float, divisor: float | Fraction) -> float:
    # The exact quotient, rounded up: too small a scale would not keep the guarantee.
    ratio = Fraction(check_positive(sensitivity, "sensitivity")) / Fraction(divisor)
    scale = round_up(ratio)
    if math.isinf(scale):
        raise ValueError("The noise scale is too large for a float.")
    return scale
