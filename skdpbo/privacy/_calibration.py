"""Noise scales that give a wanted guarantee, rounded up so that they are never too small."""

from __future__ import annotations

from fractions import Fraction

from skdpbo.privacy._checks import check_positive
from skdpbo.privacy._conversions import mu_from_epsilon
from skdpbo.privacy._rounding import round_down, round_up_finite


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
    Balle and Wang (2018), Algorithm 1. Dong, Roth and Su (2022), Theorem 1.

    Examples
    --------
    >>> from skdpbo.privacy._calibration import gaussian_sigma
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
        Largest l2 change (for metric privacy: displacement) to be hidden, positive.
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
    # The exact quotient: a scale rounded down would promise more than its noise keeps.
    ratio = Fraction(check_positive(sensitivity, "sensitivity")) / Fraction(divisor)
    return round_up_finite(ratio, "The noise scale")
