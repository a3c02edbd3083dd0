"""Guarantee of private selection: the best of a secret, random number of private trials."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from skdpbo.privacy._checks import (
    check_count,
    check_delta,
    check_positive,
    check_positive_delta,
    check_within,
)
from skdpbo.privacy._guarantee import PrivacyGuarantee
from skdpbo.privacy._privacy_profile import PrivacyProfile, as_profile
from skdpbo.privacy._rounding import round_down
from skdpbo.privacy.selection._liu_talwar import liu_talwar_max_trials
from skdpbo.privacy.selection._selection_profile import candidate_profiles
from skdpbo.privacy.selection._selection_total import (
    Method,
    core_mu,
    distance_cost,
    prices_of_a_cap,
    total_epsilon,
)
from skdpbo.privacy.selection._trial_law import TrialLaw

METHODS: tuple[Method, ...] = ("profile", "papernot_steinke", "liu_talwar")
_REFERENCES = {
    "profile": "docs/theory/private_selection.md, Theorems 1 and 2",
    "papernot_steinke": "Papernot and Steinke 2022, Theorem 2",
    "liu_talwar": "Liu and Talwar 2019, Theorem 3.4",
}


def selection_guarantee(
    candidate: PrivacyGuarantee | PrivacyProfile | Any,
    law: TrialLaw,
    *,
    delta: float,
    method: Method = "profile",
    max_trials: int | None = None,
) -> PrivacyGuarantee:
    """Guarantee of the best of K trials of a private candidate, K random and secret.

    A trial draws a candidate from a law that does not depend on the protected records, trains it
    and scores it; trials are independent; the trial with the best score is released, and nothing
    else: no other trial, no score of another, and not K.

    Parameters
    ----------
    candidate : PrivacyGuarantee, PrivacyProfile or what a `PrivacyProfile` is made of
        Guarantee of one trial: model and score together. The accounting uses the whole Gaussian
        curve if there is a `mu`, the whole profile, or else the pair (epsilon, delta).
    law : TrialLaw
        Law of K.
    delta : float
        Delta at which to state the total, in [0, 1); 0 is for pure candidates without `max_trials`.
    method : {"profile", "papernot_steinke", "liu_talwar"}, default="profile"
        "profile": by privacy profiles, the tightest. The others are published accountings, kept
        for comparison; "liu_talwar" is for geometric laws.
    max_trials : int, default=None
        Cap on K, at least 1; the cost of capping is included. None: no cap, except that
        "liu_talwar" caps K at :func:`liu_talwar_max_trials` unless the candidate is pure.

    Returns
    -------
    PrivacyGuarantee
        With the status of the candidate: "conditional" for a stated profile.

    Raises
    ------
    ValueError
        If no epsilon holds at `delta`, or the method does not apply.

    References
    ----------
    Koskela, Redberg and Wang (2024); Papernot and Steinke (2022); Liu and Talwar (2019).

    Examples
    --------
    >>> from skdpbo.privacy import PrivacyGuarantee, TrialLaw, epsilon_from_mu
    >>> from skdpbo.privacy import selection_guarantee
    >>> trial = PrivacyGuarantee(epsilon=epsilon_from_mu(0.15, 1e-9), delta=1e-9, mu=0.15)
    >>> round(selection_guarantee(trial, TrialLaw(30), delta=1e-5).epsilon, 2)
    0.97
    """
    max_trials, delta = _checked(law, method, max_trials), check_delta(delta)
    if not isinstance(candidate, PrivacyGuarantee):
        candidate = as_profile(candidate)
        if method != "profile":
            raise ValueError(f'A privacy profile needs method="profile", got {method!r}.')
    epsilon = min(
        total_epsilon(profile, distance, law, delta, method, max_trials)
        for profile, distance in candidate_profiles(candidate)
    )
    if not math.isfinite(epsilon):
        raise ValueError(f"No epsilon holds for this selection at delta={delta}.")
    # Unless the candidate is pure, this accounting caps K by itself: the cap has to be stated.
    if method == "liu_talwar" and max_trials is None and candidate.delta != 0:
        max_trials = liu_talwar_max_trials(law, delta)
    limit = "" if max_trials is None else f", at most {max_trials}"
    return PrivacyGuarantee(
        epsilon=epsilon,
        delta=delta,
        neighbours=candidate.neighbours,
        protects=candidate.protects,
        mechanism=(
            f"best of K trials (K negative binomial, mean {law.mean:g}, eta {law.eta:g}{limit}) "
            f"of {candidate.mechanism or 'a private candidate'}"
        ),
        # docs/theory/private_selection.md, K must stay secret.
        assumptions=(*candidate.assumptions, "the number of trials stays secret"),
        status=candidate.status,
        reference="; ".join(r for r in (_REFERENCES[method], candidate.reference) if r),
    )


@lru_cache(maxsize=1024)
def candidate_mu(
    epsilon: float,
    delta: float,
    law: TrialLaw,
    *,
    method: Method = "profile",
    max_trials: int | None = None,
    statistical_distance: float = 0.0,
) -> float:
    """Largest mu of one Gaussian-DP candidate whose best of K is (epsilon, delta)-DP, rounded down.

    Parameters
    ----------
    epsilon : float
        Epsilon of the selection, in (0, 1e9].
    delta : float
        Delta of the selection, in (0, 1).
    law : TrialLaw
        Law of K.
    method : {"profile", "papernot_steinke", "liu_talwar"}, default="profile"
        Accounting, as in :func:`selection_guarantee`.
    max_trials : int, default=None
        Cap on K, at least 1, as in :func:`selection_guarantee`.
    statistical_distance : float, default=0.0
        Distance of one candidate from a mu-GDP mechanism, in [0, 1); paid from delta.

    Returns
    -------
    float
        Mu, positive. A candidate then needs noise of standard deviation sensitivity / mu.

    Raises
    ------
    ValueError
        If the cap or the statistical distance alone cost more than delta.

    Examples
    --------
    >>> from skdpbo.privacy import TrialLaw, candidate_mu
    >>> round(1 / candidate_mu(1.0, 1e-5, TrialLaw(30)), 2)
    6.48
    """
    max_trials = _checked(law, method, max_trials)
    check_within(epsilon, "epsilon", "(0, 1e9]")  # the time of the search grows with its root
    bound, target = round_down(check_positive(epsilon, "epsilon")), check_positive_delta(delta)
    # Union bound over the K trials: E[K] times the distance of one.
    distance_of_trials = law.mean * check_delta(statistical_distance, "statistical_distance")
    best = 0.0
    # Each way to pay for the cap is a valid bound, so the best may be taken.
    for shift, added_delta, distance in prices_of_a_cap(
        law, None if method == "liu_talwar" else max_trials
    ):
        total_distance = distance + distance_of_trials
        left = target * (1 - 1e-15) - added_delta - distance_cost(bound, total_distance)
        if left > 0 and bound > shift:
            best = max(best, core_mu(method, law, bound - shift, left, max_trials))
    if best == 0:
        costs = [f"a cap of max_trials={max_trials}"] * (max_trials is not None)
        costs += [f"statistical_distance={statistical_distance:g}"] * (distance_of_trials > 0)
        what = " or ".join(costs) or "the selection"
        advice = "; a larger cap costs less" * (max_trials is not None)
        raise ValueError(f"{what} costs more than delta={delta:g}{advice}.")
    return best


def _checked(law: TrialLaw, method: Method, max_trials: int | None) -> int | None:
    """Check the parameters of the accounting; return the cap as an int."""
    if not isinstance(law, TrialLaw):
        raise TypeError(f"law must be a TrialLaw, got {type(law).__name__}.")
    if method not in METHODS:
        raise ValueError(f"method must be one of {METHODS}, got {method!r}.")
    return None if max_trials is None else check_count(max_trials, "max_trials")
