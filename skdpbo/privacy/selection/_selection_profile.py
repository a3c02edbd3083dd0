"""Privacy profiles of one candidate, and of the best of K.

A profile is delta(x) = sup over events S of Q(S) - e^x Q'(S), for every real x and the laws Q, Q'
of a release from two neighbouring data sets.

Notation (docs/theory/private_selection.md, Theorems 1 and 2): p = eta + 1,
t(u) = gamma + (1 - gamma) u, W(u) = E[K] (gamma / t(u))^p: the density of the best of K at an
output that a candidate beats with probability u. A candidate's profile delta gives
u' <= e^x u + delta(x) under the neighbouring data set, for every x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, logsumexp

from skdpbo.privacy._composed_losses import composed_losses
from skdpbo.privacy._guarantee import PrivacyGuarantee
from skdpbo.privacy._privacy_profile import PrivacyProfile
from skdpbo.privacy._profile import log_sum_exp, private_root, upper_log_gaussian_delta
from skdpbo.privacy._profile_table import ProfileTable
from skdpbo.privacy.selection._trial_law import TrialLaw

Array = NDArray[np.float64]

_N_LINES = 768
# Largest support of the pure releases of a composed candidate for which `ComposedProfile` is used.
_MAX_VALUES = 64


@dataclass(frozen=True)
class GaussianProfile:
    """Profile of a mu-GDP candidate."""

    mu: float

    def log_delta(self, x: Array) -> Array:
        """Upper bound on log delta (Balle and Wang 2018, Theorem 8)."""
        return upper_log_gaussian_delta(self.mu, x)

    def knots(self, smallest: float, log_gamma: float) -> Array:
        """An even grid, up to where delta is negligible beside gamma."""
        largest = smallest + self.mu
        while self.log_delta(np.array(largest)) > log_gamma - 20:
            largest += self.mu
        return np.linspace(largest, smallest, _N_LINES, endpoint=False)


@dataclass(frozen=True)
class StaircaseProfile:
    """Profile of any (epsilon, delta)-DP candidate; pure if delta is 0.

    With probability delta the privacy loss is infinite, otherwise that of randomised response
    (Kairouz, Oh and Viswanath 2015, Theorem 8).
    """

    epsilon: float
    delta: float = 0.0

    def log_delta(self, x: Array) -> Array:
        """Upper bound on log delta."""
        with np.errstate(divide="ignore"):
            # e^x below -epsilon; in between (e^epsilon - e^x) / (e^epsilon + 1).
            between = np.log(-np.expm1(np.minimum(x - self.epsilon, 0.0))) + log_expit(self.epsilon)
            below = np.log(-np.expm1(np.minimum(x, 0.0)))
            inside = np.where(x >= -self.epsilon, between, below)
            log_delta = np.log(self.delta) + np.zeros_like(inside) if self.delta else -np.inf
            # delta + (1 - delta) times the curve of randomised response.
            total = np.logaddexp(log_delta, np.log1p(-self.delta) + inside)
        # Rounded up by more than the error of the logarithms.
        rounding = 1e-14 * (1 + np.abs(np.nan_to_num(total, neginf=0.0)))
        bound: Array = np.minimum(total + rounding, 0.0)
        return bound

    def knots(self, smallest: float, log_gamma: float) -> Array:
        """The corner of the staircase."""
        return np.array([self.epsilon])[: int(self.epsilon > smallest)]

    def without_failure(self) -> tuple[StaircaseProfile, float]:
        """Profile of a candidate that answers a constant where this one fails; its distance."""
        return StaircaseProfile(self.epsilon), self.delta


@dataclass(frozen=True)
class ComposedProfile:
    """Profile of pure, approximate and GDP releases composed; fields as in `ComposedLosses`."""

    mu: float
    values: tuple[float, ...]
    log_weights: tuple[float, ...]
    failure: float

    def log_delta(self, x: Array) -> Array:
        """Upper bound on log delta."""
        failure = math.log(self.failure) if self.failure else -math.inf
        total = np.logaddexp(failure, math.log1p(-self.failure) + self._without_failure(x))
        bound: Array = np.minimum(total + 1e-14 * (1 + np.abs(total)), 0.0)
        return bound

    def _without_failure(self, x: Array) -> Array:
        # A mixture: sum of w_i delta_mu(x - v_i) over the values v_i.
        shifted = np.asarray(x)[..., None] - np.array(self.values)
        terms = GaussianProfile(self.mu).log_delta(shifted) + np.array(self.log_weights)
        total: Array = logsumexp(terms, axis=-1)
        return total

    def knots(self, smallest: float, log_gamma: float) -> Array:
        """An even grid, up to where only the failure is left."""
        largest = smallest + self.mu
        while self._without_failure(np.array(largest)) > log_gamma - 20:
            largest += self.mu
        # Without `smallest`, which `_refined` adds.
        return np.linspace(largest, smallest, _N_LINES // 2, endpoint=False)

    def without_failure(self) -> tuple[ComposedProfile, float]:
        """Profile of a candidate that answers a constant where this one fails; its distance."""
        return replace(self, failure=0.0), self.failure


@dataclass(frozen=True, eq=False)
class StatedProfile:
    """Profile that the user or another library states, as a convex table of points."""

    table: ProfileTable

    def log_delta(self, x: Array) -> Array:
        """Upper bound on log delta."""
        return self.table.log_delta(x)

    def knots(self, smallest: float, log_gamma: float) -> Array:
        """An even grid, up to where delta is negligible beside gamma or the table ends."""
        negligible = self.table.log_delta(self.table.epsilons) <= log_gamma - 20
        last = int(np.argmax(negligible)) if negligible.any() else -1
        largest = float(self.table.epsilons[last])
        if largest <= smallest:
            return np.empty(0)
        return np.linspace(largest, smallest, _N_LINES, endpoint=False)


CandidateProfile = GaussianProfile | StaircaseProfile | ComposedProfile | StatedProfile


def candidate_profiles(
    candidate: PrivacyGuarantee | PrivacyProfile,
) -> list[tuple[CandidateProfile, float]]:
    """Profiles of a candidate, each with the candidate's statistical distance from it.

    Each gives a valid bound, so the smallest may be taken.
    """
    if isinstance(candidate, PrivacyProfile):
        return [(StatedProfile(candidate.table.convex()), 0.0)]
    profiles: list[tuple[CandidateProfile, float]] = []
    if candidate.mu is not None:
        profiles.append((GaussianProfile(candidate.mu), candidate.statistical_distance))
    # With a delta the pair is one point of the Gaussian curve and adds nothing.
    if candidate.mu is None or candidate.delta == 0:
        profiles.append((StaircaseProfile(candidate.epsilon, candidate.delta), 0.0))
    if candidate.mu is None and candidate.parts:
        losses = composed_losses(candidate.parts)
        if losses.mu > 0 and losses.values.size <= _MAX_VALUES:
            values, log_weights = tuple(losses.values.tolist()), tuple(losses.log_weights.tolist())
            composed = ComposedProfile(losses.mu, values, log_weights, losses.failure)
            profiles.append((composed, losses.statistical_distance))
    return profiles


# Relative amount by which every piece of the bound is moved to the unsafe side of the truth; the
# accumulated rounding error of a piece is below 1e-12 of it.
_MARGIN = 1e-10
_MAX_LOSS = 600.0  # beyond it e^x nears the largest float, and only Theorem 1 is used


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
        return min(0.0, log_sum_exp(terms) + _MARGIN)


@lru_cache(maxsize=64)
def selection_bounds(profile: CandidateProfile, law: TrialLaw) -> tuple[SelectionBound, ...]:
    """Bounds of Theorem 1 and, where it applies, of Theorem 2."""
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

    The profile must be convex in e^x; otherwise neighbouring lines do not cross in order, and
    pieces of the chain would lie above the curve. Between the crossings the curve (W(u), C(u)),
    C = E[K] (gamma / t')^p, is convex, so its tangents at both ends stay below it: two pieces of a
    chain from the origin.
    """
    gamma, power = law.gamma, law.eta + 1
    x = np.append(knots, e1)
    delta = np.exp(profile.log_delta(x))
    # expm1: for a tiny mu, differences of knots are below the spacing of floats near 1.
    u = np.append(0.0, np.diff(delta) / (-np.exp(x[:-1]) * np.expm1(np.diff(x))))
    u = np.clip(np.maximum.accumulate(u), 0.0, 1.0)
    # One row per knot: the ends of its interval, the smaller u first; its own line at both ends.
    ends = np.stack([u[:-1], u[1:]])
    t = gamma + (1 - gamma) * ends
    t_prime = gamma + (1 - gamma) * (np.exp(knots) * ends + delta[:-1])
    W = law.mean * (gamma / t) ** power
    C = law.mean * (gamma / t_prime) ** power
    log_slope = knots + (power + 1) * (np.log(t) - np.log(t_prime))  # log dC / dW
    # Lower bound on the length in W of the steeper of the two tangents; shape (n_knots,).
    slope, length, rise = np.exp(log_slope), W[0] - W[1], C[0] - C[1]
    rounding = 4e-15 * (power + 2) * (C[0] + slope[0] * W[0])
    bend = slope[0] - slope[1]
    straight = bend <= 1e-9 * slope[0]
    # A shorter steep piece errs on the safe side: delta is larger at its smaller shift.
    steep = (rise - slope[1] * length - rounding) / np.where(straight, 1.0, bend)
    steep = np.where(straight, 0.0, np.clip(steep, 0.0, length))
    weights = np.concatenate([W[1, -1:], length - steep, steep])
    shifts = np.concatenate([[-power * e1], log_slope[1], log_slope[0]])
    kept = weights > 0
    return SelectionBound(profile, np.log(weights[kept]) + _MARGIN, shifts[kept] - _MARGIN)
