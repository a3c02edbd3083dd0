"""Privacy profile of "the best of K": docs/theory/private_selection.md, Theorems 1 and 2.

Notation. p = eta + 1, t(u) = gamma + (1 - gamma) u, W(u) = E[K] (gamma / t(u))^p: the density of
the best of K at an output that a candidate beats with probability u. A candidate's profile delta
gives u' <= e^x u + delta(x) under the neighbouring data set, for every x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp

from skdpbo.privacy._profile import private_root
from skdpbo.privacy.selection._candidate_profile import Array, CandidateProfile
from skdpbo.privacy.selection._trial_law import TrialLaw

# Relative amount by which every piece of the bound is moved to the unsafe side of the truth; the
# accumulated rounding error of a piece is below 1e-12 of it.
_MARGIN = 1e-10
# Beyond it e^x leaves the floats, and Theorem 1 has to do.
_MAX_LOSS = 600.0


@dataclass(frozen=True, eq=False)
class SelectionBound:
    """Upper bound sum_i weight_i delta(epsilon + shift_i) on the profile of the best of K."""

    profile: CandidateProfile
    log_weights: Array
    shifts: Array

    def log_delta(self, epsilon: float) -> float:
        """Upper bound on the log delta of the best of K at epsilon >= 0."""
        with np.errstate(invalid="ignore"):
            terms = self.log_weights + self.profile.log_delta(epsilon + self.shifts)
        return min(0.0, float(logsumexp(terms)) + _MARGIN)


@lru_cache(maxsize=64)
def selection_bounds(profile: CandidateProfile, law: TrialLaw) -> tuple[SelectionBound, ...]:
    """Theorem 1, and Theorem 2 where it says more."""
    e1 = loss_of_rank(profile, law)
    simple = SelectionBound(
        profile, np.array([math.log(law.mean) + _MARGIN]), np.array([-(law.eta + 1) * e1 - _MARGIN])
    )
    knots = profile.knots(e1, math.log(law.gamma))
    if law.gamma == 1 or not knots.size or knots[0] > _MAX_LOSS:
        return (simple,)
    return simple, _refined(profile, law, e1, knots)


def selection_log_delta(profile: CandidateProfile, law: TrialLaw, epsilon: float) -> float:
    """Smaller of the two bounds on the log delta of the best of K."""
    return min(bound.log_delta(epsilon) for bound in selection_bounds(profile, law))


def loss_of_rank(profile: CandidateProfile, law: TrialLaw) -> float:
    """e1 = smallest x >= 0 with delta(x) <= gamma / (1 - gamma) (e^x - 1), rounded up.

    Then t(u') <= e^e1 t(u): the rank of an output changes by a factor e^e1 at most.
    """
    if law.gamma == 1:
        return 0.0
    log_odds = math.log(law.gamma) - math.log1p(-law.gamma)

    def excess(x: float) -> float:
        log_expm1 = x + math.log(-math.expm1(-x))
        return float(profile.log_delta(np.array(x))) - log_expm1

    return private_root(excess, log_odds, guess=0.1, safe_side=1, slack=1e-12)


def _refined(profile: CandidateProfile, law: TrialLaw, e1: float, knots: Array) -> SelectionBound:
    """Theorem 2 for the lines u' <= e^x u + delta(x) at the knots x and at e1.

    Between the crossings of neighbouring lines the curve (W(u), C(u)), C = E[K] (gamma / t')^p, is
    convex, so its tangents at both ends stay below it: two pieces of a chain from the origin.
    """
    gamma, power = law.gamma, law.eta + 1
    x = np.append(knots, e1)
    delta = np.exp(profile.log_delta(x))
    # expm1: the knots of a tiny mu differ by less than floats near 1 do.
    u = np.append(0.0, np.diff(delta) / (-np.exp(x[:-1]) * np.expm1(np.diff(x))))
    u = np.clip(np.maximum.accumulate(u), 0.0, 1.0)
    # One row per knot: the ends of its interval, the smaller u first; its own line at both ends.
    ends = np.stack([u[:-1], u[1:]])
    t = gamma + (1 - gamma) * ends
    t_prime = gamma + (1 - gamma) * (np.exp(knots) * ends + delta[:-1])
    W = law.mean * (gamma / t) ** power
    C = law.mean * (gamma / t_prime) ** power
    log_slope = knots + (power + 1) * (np.log(t) - np.log(t_prime))  # log dC / dW
    steep = _steep_part(W, C, np.exp(log_slope), power)
    weights = np.concatenate([W[1, -1:], W[0] - W[1] - steep, steep])
    shifts = np.concatenate([[-power * e1], log_slope[1], log_slope[0]])
    kept = weights > 0
    return SelectionBound(profile, np.log(weights[kept]) + _MARGIN, shifts[kept] - _MARGIN)


def _steep_part(W: Array, C: Array, slope: Array, power: float) -> Array:
    """Length in W of the steeper of the two tangents, from below; shape (n_knots,)."""
    length, rise = W[0] - W[1], C[0] - C[1]
    rounding = 4e-15 * (power + 2) * (C[0] + slope[0] * W[0])
    bend = slope[0] - slope[1]
    straight = bend <= 1e-9 * slope[0]
    steep = (rise - slope[1] * length - rounding) / np.where(straight, 1.0, bend)
    return np.where(straight, 0.0, np.clip(steep, 0.0, length))
