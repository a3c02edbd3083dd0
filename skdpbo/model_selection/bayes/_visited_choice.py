"""Mechanisms of `DPBayesSearchCV`, by name or by object: private choices among candidates.

They include Algorithms 1 to 3 of Kusner et al., with secret trajectories.
"""

from fractions import Fraction
from functools import partial

import numpy as np

from skdpbo.mechanisms._laplace import laplace_std
from skdpbo.model_selection._private_choice import (
    ADD_REMOVE,
    SELECTION_NAMES,
    PrivateChoice,
)
from skdpbo.model_selection._search_mechanism import Chosen, SearchMechanism, best_public_score
from skdpbo.model_selection.bayes._gaussian_trajectory import GaussianTrajectory, PrivateScores
from skdpbo.model_selection.bayes._gp_ucb import PublicBest
from skdpbo.model_selection.bayes._public_prior import automatic_prior, public_offsets
from skdpbo.model_selection.papers._kusner2015 import Kusner2015
from skdpbo.model_selection.papers._kusner_lipschitz import Kusner2015Lipschitz


class VisitedChoice(PublicBest):
    """GP-UCB on the public scores, then one private choice among the visited candidates.

    Parameters
    ----------
    choice : PrivateChoice
    prior_weight : float or "auto"
        Weight of the public scores in the choice.
    design : dict
        Parameters of the `UpperConfidenceProposer`.
    """

    of_means = False

    def __init__(self, choice, prior_weight, design):
        if choice.counts and not choice.epsilon_score and prior_weight != 0:
            raise ValueError(
                'With neighbours="add-remove" and score_fraction=0 no count of the records is '
                "released, which weighing public scores needs: set prior_weight=0, or a "
                "score_fraction."
            )
        self._choice, self.epsilon_score = choice, choice.epsilon_score
        self._prior_weight = prior_weight
        super().__init__(design)
        self.guarantee = choice.guarantee

    def release_choice(self, scores):
        """Release (index of the winner, score or None)."""
        # Candidates that scikit-learn does not list failed in all folds, and cannot win.
        listed = np.flatnonzero(scores.listed)
        visited = [self._proposer.visited[i] for i in listed]
        offsets = self._offsets(visited, scores.mean[listed], scores.splits[:, listed])
        best, score = self._release(visited, offsets, best_public_score(scores.mean[listed]))
        return visited[best], score

    def _release(self, visited, offsets, public_score):
        """Release (position of the winner, score or None)."""
        problem = self._problem
        return problem.evaluator.release(
            self._choice,
            [problem.candidates[k] for k in visited],
            offsets=offsets,
            source=problem.source,
            public_score=public_score,
        )

    def _offsets(self, visited, scores, splits):
        if self._prior_weight == 0:  # no count of the records is needed either
            return [0] * len(visited)
        problem = self._problem
        n_records = problem.evaluator.count(self._choice, problem.source)
        # As in the choice, whose cost weights determine the units of the totals.
        scorer = problem.scorer.informed_by(best_public_score(scores))
        per_score = scorer.units_per_score(n_records)
        weight = self._prior_weight
        if weight == "auto":
            weight = 1.0  # automatic_prior returns a weighted sum
            scores = automatic_prior(
                self._proposer.X[visited],
                scores,
                splits,
                kernel=self._proposer.kernel,
                epsilon=float(self._choice.rate * self._choice.epsilon_choice),
                bound=scorer.bound,
                sensitivity=scorer.choice_sensitivity(n_records) / per_score,
            )
        return public_offsets(scores, weight, units_per_score=per_score)


class LipschitzChoice(VisitedChoice):
    """A `VisitedChoice`, and the largest score by Algorithm 3 of Kusner et al. 2015."""

    of_means = True
    of_groups = False

    def __init__(self, mechanism, epsilon, score_fraction, prior_weight, design):
        # The choice releases no score; Algorithm 3 does, with the score's share of epsilon.
        shares = PrivateChoice("permute_and_flip", epsilon, score_fraction)
        choice = PrivateChoice("permute_and_flip", shares.epsilon_choice, 0)
        super().__init__(choice, prior_weight, design)
        self._mechanism = mechanism
        self._epsilon_score = shares.epsilon_score
        self.guarantee = mechanism.guarantee(
            epsilon=shares.epsilon, score_fraction=shares.score_fraction
        )

    def _release(self, visited, offsets, public_score):
        """Release (position of the winner, score or None)."""
        totals = self._problem.totals(visited)
        return self._released(totals, offsets, lambda: min(t for t in totals if t is not None))

    def _released(self, totals, offsets, smallest):
        """Release (position of the winner, score or None); `smallest` returns the score's total."""
        problem, scorer = self._problem, self._problem.scorer
        best, _ = self._choice.release(
            totals, offsets, sensitivity=scorer.units, score=None, source=problem.source
        )
        if not self._epsilon_score:
            return best, None
        # For all candidates: with a secret trajectory the visited ones are protected.
        lambdas = self._mechanism.lambdas(problem.candidates)
        sizes = {"units": scorer.units, "bound": scorer.bound, "n_records": problem.n_losses}
        # A second release, with its own budget: the choice has spent `epsilon_choice`.
        total = self._mechanism.release_score(
            smallest(), lambdas=lambdas, epsilon=self._epsilon_score, source=problem.source, **sizes
        )
        sensitivity = self._mechanism.integer_sensitivity(lambdas, **sizes)
        std = laplace_std(self._epsilon_score, sensitivity)
        return best, scorer.score_with_std(total, problem.n_losses, std)


class HiddenLipschitz(LipschitzChoice):
    """Algorithm 3 as published: the search follows exact scores, and stays secret."""

    guided = (False,)

    start = SearchMechanism.start  # `PublicBest` has a proposer, for public scores

    def search_unguided(self):
        """Release the winner among all candidates, and the best score of the secret search."""
        problem = self._problem
        # All candidates, in public order: the visits must not decide what is trained, nor when.
        totals = problem.totals(range(len(problem.candidates)))
        options = {name: self._design[name] for name in ("n_iter", "acquisition", "sqrt_beta")}
        options["source"] = problem.source
        X = problem.space.encode(problem.candidates)
        smallest = partial(self._mechanism.smallest_visited, X, totals, problem.largest, **options)
        best, score = self._released(totals, [0] * len(totals), smallest)
        return Chosen(problem.candidates, best, score)


class HiddenTrajectory(SearchMechanism):
    """Algorithms 1 and 2 of Kusner et al. 2015: nothing of the trajectory is published."""

    guided = (False,)
    of_groups = False

    def __init__(self, mechanism, n_iter, **budget):
        self._mechanism = mechanism
        self._n_iter = n_iter
        self._budget = budget
        self.guarantee = mechanism.guarantee(**budget)

    def _gain(self, index):
        """Return the exact gain in [0, 1] of a candidate. Protected: pass only to a mechanism.

        None if it cannot be trained on public rows.
        """
        # The sequence of candidates depends on protected rows: neither an error nor a cache file
        # may reveal it.
        (total,) = self._problem.totals([index], none_may_be_left=True, order_is_secret=True)
        return None if total is None else float(1 - Fraction(total, self._problem.largest))

    def search_unguided(self):
        """Release the winner among all candidates."""
        problem = self._problem
        X = problem.space.encode(problem.candidates)
        options = {"n_iter": self._n_iter, **self._budget}
        # Both depend on public values alone: their errors are raised before the charge.
        self._mechanism._posterior(X)
        std = self._mechanism.score_std(X, **options) if self._budget["score_fraction"] else 0.0
        # Charged here, as the search would take an error of the charge for a failed candidate.
        _ = problem.evaluator.records
        best, gain = self._mechanism.search(X, self._gain, source=problem.source, **options)
        score = None
        if gain is not None:
            # With noise a gain may be outside [0, 1]; clipping is post-processing.
            total = (1 - min(max(gain, 0.0), 1.0)) * problem.largest
            std *= problem.largest
            score = problem.scorer.score_with_std(total, problem.n_losses, std)
        return Chosen(problem.candidates, best, score)


def chooses_once(mechanism):
    """Whether a mechanism reads protected records once, at the end, for one choice."""
    return isinstance(mechanism, str) and mechanism in PrivateChoice.SELECTIONS


def bayes_mechanism(mechanism, *, epsilon, delta, score_fraction, prior_weight, neighbours, design):
    """Return the search mechanism for a name or an object with parameters; checks them."""
    if neighbours == ADD_REMOVE and not chooses_once(mechanism):
        raise ValueError(
            f'neighbours="add-remove" needs a mechanism of {SELECTION_NAMES}: the others divide by '
            "the number of records before they add noise."
        )
    if isinstance(mechanism, str) and mechanism == "gaussian":
        mechanism = GaussianTrajectory()
    if isinstance(mechanism, GaussianTrajectory | Kusner2015) and design["acquisition"] != "ucb":
        raise ValueError(
            f'acquisition="ei" needs a mechanism that follows public scores: {SELECTION_NAMES} or '
            "Kusner2015Lipschitz."
        )
    if isinstance(mechanism, GaussianTrajectory):
        return PrivateScores(mechanism, epsilon, delta, design)
    if isinstance(mechanism, Kusner2015):
        budget = {"epsilon": epsilon, "delta": delta, "score_fraction": score_fraction}
        return HiddenTrajectory(mechanism, design["n_iter"], **budget)
    if isinstance(mechanism, Kusner2015Lipschitz):
        kind = HiddenLipschitz if mechanism.trajectory == "secret" else LipschitzChoice
        return kind(mechanism, epsilon, score_fraction, prior_weight, design)
    choice = PrivateChoice(mechanism, epsilon, score_fraction, neighbours)
    return VisitedChoice(choice, prior_weight, design)
