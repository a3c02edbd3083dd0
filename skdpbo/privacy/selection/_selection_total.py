"""Totals of private selection by three accountings, with caps and statistical distances.

Results are rounded to the private side: an epsilon up, a mu down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Literal

import numpy as np

from skdpbo.privacy._conversions import mu_from_epsilon
from skdpbo.privacy._profile import log_zcdp_delta, private_root, with_error
from skdpbo.privacy.selection._liu_talwar import liu_talwar_epsilon, liu_talwar_parts
from skdpbo.privacy.selection._selection_profile import (
    Array,
    CandidateProfile,
    ComposedProfile,
    GaussianProfile,
    StaircaseProfile,
    selection_log_delta,
)
from skdpbo.privacy.selection._trial_law import TrialLaw

Method = Literal["profile", "papernot_steinke", "liu_talwar"]
# Largest relative error of the survival functions of a law, with room to spare.
_TAIL_MARGIN = 1e-6
# lambda - 1 for the orders lambda that are tried for pure candidates; every order gives a bound.
_ORDERS_ABOVE_ONE = np.logspace(-4, 8, 6001)


def prices_of_a_cap(law: TrialLaw, max_trials: int | None) -> list[tuple[float, float, float]]:
    """Two ways to pay for the cap; the cheaper one may be taken (Theorem 3).

    Each is (shift of epsilon, addition to delta, statistical distance).
    """
    if max_trials is None:
        return [(0.0, 0.0, 0.0)]
    tail = law.survival(max_trials) * (1 + _TAIL_MARGIN)
    share = law.size_biased_survival(max_trials) * (1 + _TAIL_MARGIN)
    prices = [(0.0, 0.0, tail)]
    if share < 1:
        prices.append((-math.log1p(-share), tail, 0.0))
    return prices


def distance_cost(epsilon: float, distance: float) -> float:
    """(1 + e^epsilon) times a statistical distance, rounded up."""
    if distance == 0:
        return 0.0
    return math.inf if epsilon > 700 else (1 + math.exp(epsilon)) * distance * (1 + 1e-13)


def total_epsilon(
    profile: CandidateProfile,
    statistical_distance: float,
    law: TrialLaw,
    delta: float,
    method: Method,
    max_trials: int | None,
) -> float:
    """Smallest epsilon of the selection at delta, rounded up; inf if there is none.

    The statistical distance of one candidate from what `profile` describes is charged for each of
    the E[K] expected trials.
    """
    best = math.inf
    if isinstance(profile, StaircaseProfile | ComposedProfile) and method != "liu_talwar":
        sure, failure = profile.without_failure()
        if failure > 0:
            # docs/theory/private_selection.md, Statistical distance.
            distance = statistical_distance + failure
            best = total_epsilon(sure, distance, law, delta, method, max_trials)
            if method == "papernot_steinke":  # Renyi divergences of a failure are infinite
                return best
    distance_of_trials = law.mean * statistical_distance
    for shift, added_delta, distance in prices_of_a_cap(
        law, None if method == "liu_talwar" else max_trials
    ):
        core = partial(core_epsilon, method, profile, law, max_trials=max_trials)
        # 1e-15 covers the rounding of the difference.
        left = delta * (1 - 1e-15) - added_delta
        best = min(best, _with_distance(core, left, distance + distance_of_trials, shift))
    return best


def _with_distance(
    core: Callable[[float], float], delta: float, distance: float, shift: float
) -> float:
    """Smallest epsilon with core(delta - (1 + e^epsilon) distance) + shift <= epsilon."""
    if delta < 0 or (distance > 0 and delta == 0):
        return math.inf
    epsilon = core(delta) + shift
    # The cost grows with epsilon, so the iteration approaches the fixed point from below.
    for _ in range(200):
        if distance == 0 or not math.isfinite(epsilon):
            return epsilon
        bound = epsilon * (1 + 1e-12)
        rest = delta - distance_cost(bound, distance)
        epsilon = core(rest) + shift if rest > 0 else math.inf
        if epsilon <= bound:
            return bound
    return math.inf


def core_epsilon(
    method: Method, profile: CandidateProfile, law: TrialLaw, delta: float, max_trials: int | None
) -> float:
    """Total epsilon of the ideal selection at delta, rounded up; inf if there is none."""
    if isinstance(profile, ComposedProfile) and method != "profile":
        return math.inf  # the staircase profile of the same candidate gives a bound
    if method == "liu_talwar":
        return liu_talwar_epsilon(profile, law, delta, max_trials)
    limit = math.inf
    if isinstance(profile, StaircaseProfile) and profile.delta == 0:
        limit = _pure_total(profile.epsilon, law, method)
    if delta <= 0:
        return limit
    log_delta = selection_log_delta if method == "profile" else renyi_log_delta
    target = math.log(delta)
    if log_delta(profile, law, 0.0) <= target:
        return math.ulp(0.0)  # epsilon 0 would do, but PrivacyGuarantee needs a positive one
    # A profile that stays above delta has no root.
    if math.isinf(limit) and log_delta(profile, law, 1e6) > target:
        return math.inf
    epsilon = private_root(
        lambda x: max(log_delta(profile, law, x), -1e9), target, guess=1.0, safe_side=1, slack=1e-10
    )
    return min(epsilon, limit)


def _pure_total(epsilon: float, law: TrialLaw, method: Method) -> float:
    """Pure epsilon of the best of K pure candidates, rounded up (Corollary of Theorem 2)."""
    rank = epsilon
    if method == "profile":
        # log of (e^epsilon + gamma) / (1 + gamma e^epsilon)
        gain = law.gamma * math.exp(-epsilon)
        # At most e^700, which is a float; a smaller last term errs on the high side.
        rank = epsilon + math.log1p(gain) - math.log1p(law.gamma * math.exp(min(epsilon, 700.0)))
        rank = min(epsilon, max(rank, 0.0))
    return (epsilon + (1 + law.eta) * rank) * (1 + 1e-14)


def core_mu(
    method: Method, law: TrialLaw, epsilon: float, delta: float, max_trials: int | None
) -> float:
    """Largest mu of a candidate whose ideal selection is (epsilon, delta)-DP; 0 if none.

    Raises a ValueError if epsilon and delta are too small for any mu to meet the rounded bounds.
    """
    if method == "liu_talwar":
        root, delta_1 = liu_talwar_parts(law, delta, max_trials)
        epsilon_1 = (epsilon / 3 - root) * (1 - 1e-14)
        return mu_from_epsilon(epsilon_1, delta_1) if delta_1 > 0 and epsilon_1 > 0 else 0.0
    log_delta = selection_log_delta if method == "profile" else renyi_log_delta
    guess, target = mu_from_epsilon(epsilon, delta) / 2, math.log(delta)
    # Without a root, the search for one would take a minute.
    if log_delta(GaussianProfile(guess * 2.0**-64), law, epsilon) > target:
        raise ValueError(
            "epsilon and delta are too small together for the bounds on a private selection: raise "
            "one of them."
        )
    return private_root(
        lambda mu: log_delta(GaussianProfile(mu), law, epsilon),
        target,
        guess=guess,
        safe_side=-1,
        slack=1e-9,
    )


def renyi_log_delta(profile: CandidateProfile, law: TrialLaw, epsilon: float) -> float:
    """Upper bound on the log delta of the best of K at epsilon (Papernot and Steinke 2022).

    Their Theorem 2 gives order lambda the divergence R(lambda) + c + log E[K] / (lambda - 1) with
    c = (eta + 1) min over lambda_hat >= 1 of (1 - 1 / lambda_hat) R(lambda_hat) + log(1 / gamma) /
    lambda_hat. The conversion of Canonne, Kamath and Steinke (2020) turns it into
    E[K] times the delta of one candidate at epsilon - c.
    """
    if isinstance(profile, GaussianProfile):
        # R(lambda) = lambda mu^2 / 2
        log_rank = -math.log(law.gamma)
        order = math.sqrt(2 * log_rank) / profile.mu
        rank = profile.mu * math.sqrt(2 * log_rank) - profile.mu**2 / 2 if order >= 1 else log_rank
        log_one = log_zcdp_delta(
            profile.mu**2 / 2 * (1 + 1e-14), epsilon - (law.eta + 1) * rank * (1 + 1e-14)
        )
    elif isinstance(profile, StaircaseProfile) and profile.delta == 0:
        # R(lambda) of randomised response, which dominates every pure candidate.
        b, divergence = _ORDERS_ABOVE_ONE, _response_divergence(profile.epsilon)
        rank = float(np.min((b * divergence - math.log(law.gamma)) / (b + 1)))
        rank = min(rank, profile.epsilon, -math.log(law.gamma))  # lambda_hat infinite, and 1
        rest = epsilon - (law.eta + 1) * rank
        log_one = float(np.min(b * (divergence - rest) - b * np.log1p(1 / b) - np.log1p(b)))
        if rest >= profile.epsilon * (1 + 1e-14):
            log_one = -math.inf  # pure: lambda infinite
    else:
        raise ValueError("Renyi accounting needs a pure or a Gaussian-DP candidate.")
    return min(0.0, with_error(math.log(law.mean) + log_one))


@lru_cache(maxsize=16)
def _response_divergence(epsilon0: float) -> Array:
    """Renyi divergence of randomised response, of order 1 + b for each b of `_ORDERS_ABOVE_ONE`."""
    b = _ORDERS_ABOVE_ONE
    # Probabilities of the likelier answer and of the other one.
    log_p, log_q = -math.log1p(math.exp(-epsilon0)), -epsilon0 - math.log1p(math.exp(-epsilon0))
    terms = np.logaddexp((b + 1) * log_p - b * log_q, (b + 1) * log_q - b * log_p)
    return np.asarray(terms / b)
