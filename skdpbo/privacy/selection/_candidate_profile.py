"""Upper bound on the privacy profile of one candidate, for private selection.

A profile says, for every real x, how much more than e^x times as likely any event can be under
one of two neighbouring data sets than under the other: delta(x) = sup Q(S) - e^x Q'(S).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, logsumexp

from skdpbo.privacy._composed_losses import composed_losses
from skdpbo.privacy._guarantee import PrivacyGuarantee
from skdpbo.privacy._privacy_profile import PrivacyProfile
from skdpbo.privacy._profile import upper_log_gaussian_delta
from skdpbo.privacy._profile_table import ProfileTable

Array = NDArray[np.float64]

_N_LINES = 768
# Largest support of the pure releases of a composed candidate that is looked at value by value.
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

    With probability delta anything may happen, otherwise randomised response
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
        # Upward, by more than the error of the logarithms.
        rounding = 1e-14 * (1 + np.abs(np.nan_to_num(total, neginf=0.0)))
        bound: Array = np.minimum(total + rounding, 0.0)
        return bound

    def knots(self, smallest: float, log_gamma: float) -> Array:
        """The corner of the staircase."""
        return np.array([self.epsilon])[: int(self.epsilon > smallest)]


@dataclass(frozen=True)
class ComposedProfile:
    """Profile of pure, approximate and GDP releases composed.

    With probability `failure` anything may happen; otherwise the privacy loss is that of mu-GDP
    plus an independent one that is `values[i]` with probability exp(`log_weights[i]`).
    """

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
        return np.linspace(largest, smallest, _N_LINES // 2, endpoint=False)


@dataclass(frozen=True, eq=False)
class StatedProfile:
    """Profile that the user or another library states, by a table of its points."""

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
    """Profiles that hold for a candidate, each with its statistical distance from the truth.

    The best of the bounds that follow may be taken.
    """
    if isinstance(candidate, PrivacyProfile):
        return [(StatedProfile(candidate.table), 0.0)]
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
