"""Mechanisms of `DPBayesSearchCV`, by name or by object."""

from fractions import Fraction

from skdpbo.model_selection._private_choice import ADD_REMOVE, PrivateChoice
from skdpbo.model_selection._search_mechanism import VisitingSearch
from skdpbo.model_selection.bayes._gaussian_trajectory import GaussianTrajectory, PrivateScores
from skdpbo.model_selection.bayes._visited_choice import (
    HiddenLipschitz,
    LipschitzChoice,
    VisitedChoice,
)
from skdpbo.model_selection.papers._kusner2015 import Kusner2015
from skdpbo.model_selection.papers._kusner_lipschitz import Kusner2015Lipschitz

__all__ = ["bayes_mechanism"]


class HiddenTrajectory(VisitingSearch):
    """Algorithms 1 and 2 of Kusner et al. 2015: nothing of the trajectory is published."""

    guided = (False,)
    of_groups = False

    def __init__(self, mechanism, n_iter, **budget):
        mechanism.check()
        self._mechanism = mechanism
        self._n_iter = n_iter
        self._budget = budget
        self.guarantee = mechanism.guarantee(**budget)

    def ask(self, scores):
        """Not supported: the trajectory is secret."""
        raise NotImplementedError

    release_choice = ask

    def _gain(self, index):
        """Exact gain in [0, 1] of a candidate. Protected: pass only to a mechanism.

        None if it cannot be trained on public rows.
        """
        (total,) = self._problem.totals([index], none_may_be_left=True, order_is_secret=True)
        return None if total is None else float(1 - Fraction(total, self._problem.largest))

    def search_unguided(self):
        """Release the winner among all candidates."""
        problem = self._problem
        # Charged here: the search takes an error of a candidate for its worst score.
        _ = problem.evaluator.records
        X = problem.space.encode(problem.candidates)
        how = {"n_iter": self._n_iter, **self._budget}
        best, gain = self._mechanism.search(X, self._gain, source=problem.source, **how)
        score = None
        if gain is not None:
            # Noise may take a gain out of [0, 1]; clipping is post-processing.
            total = (1 - min(max(gain, 0.0), 1.0)) * problem.largest
            std = self._mechanism.score_std(X, **how) * problem.largest
            score = problem.scorer.score_with_std(total, problem.n_losses, std)
        return self._chosen(range(len(problem.candidates)), best, score)


def bayes_mechanism(mechanism, *, epsilon, delta, score_fraction, prior_weight, neighbours, design):
    """Return the mechanism of a name or of an object with parameters of its own; checks them."""
    named = isinstance(mechanism, str) and mechanism != "gaussian"
    if neighbours == ADD_REMOVE and not named:
        raise ValueError(
            'neighbours="add-remove" needs mechanism "permute_and_flip" or "exponential": the '
            "others divide by the number of records before they add noise."
        )
    if isinstance(mechanism, str) and mechanism == "gaussian":
        mechanism = GaussianTrajectory()
    if isinstance(mechanism, GaussianTrajectory | Kusner2015) and design["acquisition"] != "ucb":
        raise ValueError(
            'acquisition="ei" needs a mechanism that follows public scores: "permute_and_flip", '
            '"exponential" or Kusner2015Lipschitz.'
        )
    if isinstance(mechanism, GaussianTrajectory):
        # Its proposer knows upper confidence bounds only.
        rounds = {name: value for name, value in design.items() if name != "acquisition"}
        return PrivateScores(mechanism, epsilon, delta, rounds)
    if isinstance(mechanism, Kusner2015):
        budget = {"epsilon": epsilon, "delta": delta, "score_fraction": score_fraction}
        return HiddenTrajectory(mechanism, design["n_iter"], **budget)
    if isinstance(mechanism, Kusner2015Lipschitz):
        kind = HiddenLipschitz if mechanism.trajectory == "secret" else LipschitzChoice
        return kind(mechanism, epsilon, score_fraction, prior_weight, design)
    choice = PrivateChoice(mechanism, epsilon, score_fraction, neighbours)
    return VisitedChoice(choice, prior_weight, design)
