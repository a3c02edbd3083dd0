"""Totals of private selection: caps, statistical distances, and the roots of the three accountings.

Results are rounded to the private side: an epsilon up, a mu down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from skdpbo.privacy._conversions import mu_from_epsilon
from skdpbo.privacy._profile import private_root
from skdpbo.privacy.selection._candidate_profile import (
    CandidateProfile,
    ComposedProfile,
    GaussianProfile,
    StaircaseProfile,
)
from skdpbo.privacy.selection._liu_talwar import liu_talwar_epsilon, liu_talwar_parts
from skdpbo.privacy.selection._selection_profile import selection_log_delta
from skdpbo.privacy.selection._selection_renyi import renyi_log_delta
from skdpbo.privacy.selection._trial_law import TrialLaw

Method = Literal["profile", "papernot_steinke", "liu_talwar"]
# Largest relative error of the survival functions of a law, with room to spare.
_TAIL_MARGIN = 1e-6


def prices_of_a_cap(law: TrialLaw, cut: int | None) -> list[tuple[float, float, float]]:
    """Two ways to pay for the cap; the cheaper one may be taken (Theorem 3).

    Each is (shift of epsilon, addition to delta, statistical distance).
    """
    if cut is None:
        return [(0.0, 0.0, 0.0)]
    tail = law.survival(cut) * (1 + _TAIL_MARGIN)
    share = law.size_biased_survival(cut) * (1 + _TAIL_MARGIN)
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
    cut: int | None,
) -> float:
    """Smallest epsilon of the selection at delta, rounded up; inf if there is none.

    The statistical distance of one candidate from what `profile` describes is charged for each of
    the E[K] expected trials.
    """
    if method == "papernot_steinke" and isinstance(profile, StaircaseProfile):
        # Pure but for a probability delta (Kairouz, Oh and Viswanath 2015, Theorem 8).
        statistical_distance += profile.delta
        profile = StaircaseProfile(profile.epsilon)
    loss = law.mean * statistical_distance
    best = math.inf
    for shift, flat, distance in prices_of_a_cap(law, None if method == "liu_talwar" else cut):

        def core(rest: float, shift: float = shift) -> float:
            return core_epsilon(method, profile, law, rest, cut) + shift

        best = min(best, _with_distance(core, delta * (1 - 1e-15) - flat, distance + loss))
    return best


def _with_distance(core: Callable[[float], float], delta: float, distance: float) -> float:
    """Smallest epsilon with core(delta - (1 + e^epsilon) distance) <= epsilon."""
    if delta < 0 or (distance > 0 and delta == 0):
        return math.inf
    epsilon = core(delta)
    for _ in range(200):
        if distance == 0 or not math.isfinite(epsilon):
            return epsilon
        bound = epsilon * (1 + 1e-12)
        rest = delta - distance_cost(bound, distance)
        epsilon = core(rest) if rest > 0 else math.inf
        if epsilon <= bound:
            return bound
    return math.inf


def core_epsilon(
    method: Method, profile: CandidateProfile, law: TrialLaw, delta: float, cut: int | None
) -> float:
    """Total epsilon of the ideal selection at delta, rounded up; inf if there is none."""
    if isinstance(profile, ComposedProfile) and method != "profile":
        return math.inf  # the staircase of the same candidate has to do
    if method == "liu_talwar":
        return liu_talwar_epsilon(profile, law, delta, cut)
    limit = math.inf
    if isinstance(profile, StaircaseProfile) and profile.delta == 0:
        limit = _pure_total(profile.epsilon, law, method)
    if delta <= 0:
        return limit
    log_delta = selection_log_delta if method == "profile" else renyi_log_delta
    target = math.log(delta)
    if log_delta(profile, law, 0.0) <= target:
        return math.ulp(0.0)
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
        rank = epsilon + math.log1p(gain) - math.log1p(law.gamma * math.exp(min(epsilon, 700.0)))
        rank = min(epsilon, max(rank, 0.0))
    return (epsilon + (1 + law.eta) * rank) * (1 + 1e-14)


def core_mu(method: Method, law: TrialLaw, epsilon: float, delta: float, cut: int | None) -> float:
    """Largest mu of a candidate whose ideal selection is (epsilon, delta)-DP; 0 if none."""
    if method == "liu_talwar":
        root, delta_1 = liu_talwar_parts(law, delta, cut)
        epsilon_1 = (epsilon / 3 - root) * (1 - 1e-14)
        return mu_from_epsilon(epsilon_1, delta_1) if delta_1 > 0 and epsilon_1 > 0 else 0.0
    log_delta = selection_log_delta if method == "profile" else renyi_log_delta
    return private_root(
        lambda mu: log_delta(GaussianProfile(mu), law, epsilon),
        math.log(delta),
        guess=mu_from_epsilon(epsilon, delta) / 2,
        safe_side=-1,
        slack=1e-9,
    )
