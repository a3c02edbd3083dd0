"""The mechanisms of `DPBayesSearchCV`, by name or by object.

Each states its guarantee before it sees anything (``guarantee``), says whether public scores guide
it (``guided``), proposes candidates for public cross-validation (``propose``) and at last releases
the winner (``choose``); without guide ``search_unguided`` does all. Protected totals are asked for
through `RunningSearch.totals` and go into a release within the same function.
"""

from fractions import Fraction

from skdpbo.model_selection._choice import PrivateChoice
from skdpbo.model_selection._gaussian_trajectory import GaussianTrajectory, PrivateScores
from skdpbo.model_selection._kusner import Kusner2015
from skdpbo.model_selection._kusner_lipschitz import Kusner2015Lipschitz
from skdpbo.model_selection._visited_choice import LipschitzChoice, VisitedChoice

__all__ = ["bayes_mechanism"]


class HiddenTrajectory:
    """Algorithms 1 and 2 of Kusner et al. 2015: nothing of the trajectory is published."""

    guided = (False,)

    def __init__(self, mechanism, epsilon, delta, score_fraction):
        mechanism.check()
        self._mechanism = mechanism
        self._budget = {"epsilon": epsilon, "delta": delta, "score_fraction": score_fraction}
        self.guarantee = mechanism.guarantee(**self._budget)

    def start(self, search, guided=False):
        """Make ready; no protected value is read."""
        self._search = search

    def _observe(self, index):
        """Exact gain in [0, 1] of a candidate; None if it cannot be trained on public rows."""
        # An error would tell which candidate was visited, which depends on protected records.
        (total,) = self._search.totals(
            [index], raise_public_errors=False, none_may_be_left=True, order_is_secret=True
        )
        if total is None:
            return None
        return float(1 - Fraction(total, self._search.n_records * self._search.scorer.units))

    def search_unguided(self):
        """Return (all indices, index of the choice, score or None)."""
        search = self._search
        try:
            best, gain = self._mechanism.search(
                search.X,
                self._observe,
                n_iter=search.design["n_iter"],
                source=search.source,
                **self._budget,
            )
        except ValueError:
            search.totals([0])  # if no candidate can be trained, this says why
            raise
        score = None
        if gain is not None:
            worst = search.n_records * search.scorer.units
            score = search.score((1 - min(max(gain, 0.0), 1.0)) * worst)
        return list(range(len(search.candidates))), best, score


def bayes_mechanism(mechanism, *, epsilon, delta, score_fraction, prior_weight):
    """Mechanism of a name or of an object with parameters of its own; checks them."""
    if isinstance(mechanism, str) and mechanism == "gaussian":
        mechanism = GaussianTrajectory()
    if isinstance(mechanism, GaussianTrajectory):
        return PrivateScores(mechanism, epsilon, delta)
    if isinstance(mechanism, Kusner2015):
        return HiddenTrajectory(mechanism, epsilon, delta, score_fraction)
    if isinstance(mechanism, Kusner2015Lipschitz):
        return LipschitzChoice(mechanism, epsilon, score_fraction, prior_weight)
    return VisitedChoice(PrivateChoice(mechanism, epsilon, score_fraction), prior_weight)
