"""Renyi accounting of "the best of K" (Papernot and Steinke 2022, Theorem 2)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from skdpbo.privacy._profile import log_zcdp_delta, with_error
from skdpbo.privacy.selection._candidate_profile import (
    Array,
    CandidateProfile,
    GaussianProfile,
    StaircaseProfile,
)
from skdpbo.privacy.selection._trial_law import TrialLaw

# lambda - 1 of the orders tried for pure candidates; each of them is valid.
_ORDERS_ABOVE_ONE = np.logspace(-4, 8, 6001)


def renyi_log_delta(profile: CandidateProfile, law: TrialLaw, epsilon: float) -> float:
    """Upper bound on the log delta of the best of K at epsilon.

    Theorem 2 gives order lambda the divergence R(lambda) + c + log E[K] / (lambda - 1) with
    c = (eta + 1) min over lambda_hat >= 1 of (1 - 1 / lambda_hat) R(lambda_hat) + log(1 / gamma) /
    lambda_hat. The conversion of Canonne, Kamath and Steinke (2020) turns it into
    E[K] times the delta of one candidate at epsilon - c.
    """
    if isinstance(profile, GaussianProfile):
        log_one = _gaussian_log_delta(profile.mu, law, epsilon)
    elif isinstance(profile, StaircaseProfile) and profile.delta == 0:
        log_one = _pure_log_delta(profile.epsilon, law, epsilon)
    else:
        raise ValueError("Renyi accounting needs a pure or a Gaussian-DP candidate.")
    return min(0.0, with_error(math.log(law.mean) + log_one))


def _gaussian_log_delta(mu: float, law: TrialLaw, epsilon: float) -> float:
    """R(lambda) = lambda mu^2 / 2."""
    log_rank = -math.log(law.gamma)
    order = math.sqrt(2 * log_rank) / mu
    rank = mu * math.sqrt(2 * log_rank) - mu**2 / 2 if order >= 1 else log_rank
    return log_zcdp_delta(mu**2 / 2 * (1 + 1e-14), epsilon - (law.eta + 1) * rank * (1 + 1e-14))


def _pure_log_delta(epsilon0: float, law: TrialLaw, epsilon: float) -> float:
    """R(lambda) of randomised response, which dominates every pure candidate."""
    b, divergence = _ORDERS_ABOVE_ONE, _response_divergence(epsilon0)
    rank = float(np.min((b * divergence - math.log(law.gamma)) / (b + 1)))
    rank = min(rank, epsilon0, -math.log(law.gamma))  # lambda_hat infinite, and 1
    rest = epsilon - (law.eta + 1) * rank
    if rest >= epsilon0 * (1 + 1e-14):
        return -math.inf  # pure: lambda infinite
    return float(np.min(b * (divergence - rest) - b * np.log1p(1 / b) - np.log1p(b)))


@lru_cache(maxsize=16)
def _response_divergence(epsilon0: float) -> Array:
    """Renyi divergence of randomised response, of order 1 + b for each b tried."""
    b = _ORDERS_ABOVE_ONE
    log_p, log_q = -math.log1p(math.exp(-epsilon0)), -epsilon0 - math.log1p(math.exp(-epsilon0))
    terms = np.logaddexp((b + 1) * log_p - b * log_q, (b + 1) * log_q - b * log_p)
    return np.asarray(terms / b)
