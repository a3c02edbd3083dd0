"""Accounting of Liu and Talwar (2019, Theorem 3.4), as Honkela and Melkas (2021) use it.

After each trial the search stops with probability gamma, and at the latest after T trials, with
T >= log(1 / delta_2) / gamma. If a candidate is (epsilon_1, delta_1)-DP, the best one costs

    epsilon = 3 epsilon_1 + 3 sqrt(2 delta_1),   delta = T sqrt(2 delta_1) + delta_2.

Eq. (23) of Honkela and Melkas prints sqrt(2 delta_1 T); their (36) and (37) need the form above.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq

from skdpbo.privacy._checks import check_positive_delta
from skdpbo.privacy._conversions import epsilon_from_mu
from skdpbo.privacy.selection._selection_profile import (
    CandidateProfile,
    GaussianProfile,
    StaircaseProfile,
)
from skdpbo.privacy.selection._trial_law import TrialLaw


def liu_talwar_max_trials(law: TrialLaw, delta: float) -> int:
    """Cap T on the number of trials that leaves a candidate the largest delta_1.

    Parameters
    ----------
    law : TrialLaw
        Geometric (eta = 1), with mean above 1.
    delta : float
        Total delta, in (0, 1).

    Returns
    -------
    int
        Eq. (36) and (37) of Honkela and Melkas (2021) for a whole number T.
    """
    _check_geometric(law)
    delta = check_positive_delta(delta)
    # Maximise (delta - e^(-gamma T)) / T: t (1 - log t) = delta for t = e^(-gamma T).
    # t (1 - log t) rises from 0 to 1 on (0, 1); sought is s = log t, as t may be tiny.
    log_t = float(brentq(lambda s: s + math.log1p(-s) - math.log(delta), -800.0, -1e-12))
    # T is an integer: the better neighbour of the continuous optimum.
    below: int = max(1, math.floor(-log_t / law.gamma))
    return max((below, below + 1), key=lambda cap: _root_of_delta(law, delta, cap))


def liu_talwar_parts(law: TrialLaw, delta: float, max_trials: int | None) -> tuple[float, float]:
    """sqrt(2 delta_1) and delta_1 for a total delta, rounded down; 0 if the cap costs all of it."""
    _check_geometric(law)
    cap = liu_talwar_max_trials(law, delta) if max_trials is None else max_trials
    # Down: with a smaller delta_1 the candidate's epsilon_1 is larger, and delta is not exceeded.
    root = _root_of_delta(law, delta, cap) * (1 - 1e-12)
    return (root, root**2 / 2 * (1 - 1e-12)) if root > 0 else (0.0, 0.0)


def liu_talwar_epsilon(
    profile: CandidateProfile, law: TrialLaw, delta: float, max_trials: int | None
) -> float:
    """Total epsilon at a total delta, rounded up; inf if the delta does not suffice."""
    if isinstance(profile, StaircaseProfile) and profile.delta == 0 and max_trials is None:
        _check_geometric(law)
        # delta_1 = 0 and T infinite: nothing is spent of delta.
        return 3 * profile.epsilon * (1 + 1e-15)
    if delta <= 0:
        return math.inf
    root, delta_1 = liu_talwar_parts(law, delta, max_trials)
    if isinstance(profile, GaussianProfile):
        epsilon_1 = epsilon_from_mu(profile.mu, delta_1) if delta_1 > 0 else math.inf
    elif isinstance(profile, StaircaseProfile):
        # The delta of a stated pair must be within delta_1; otherwise there is no bound.
        usable = root > 0 and profile.delta <= delta_1
        epsilon_1, root = (
            (profile.epsilon, math.sqrt(2 * profile.delta)) if usable else (math.inf, 0)
        )
    else:
        raise ValueError(
            "Liu and Talwar's accounting needs an (epsilon, delta) or Gaussian candidate."
        )
    # 1e-15 covers the rounding of these four operations.
    return (3 * epsilon_1 + 3 * root) * (1 + 1e-15)


def _root_of_delta(law: TrialLaw, delta: float, cap: int) -> float:
    """sqrt(2 delta_1) = (delta - delta_2) / T; negative if the cap alone costs more than delta."""
    return (delta - math.exp(-law.gamma * cap)) / cap


def _check_geometric(law: TrialLaw) -> None:
    if law.eta != 1 or law.gamma == 1:
        raise ValueError("Liu and Talwar's accounting is for a geometric law: eta 1, mean above 1.")
