"""GP-UCB on public scores, then one private choice among the visited candidates."""

import numpy as np

from skdpbo.model_selection._choice import PrivateChoice
from skdpbo.model_selection._prior import automatic_prior, public_offsets
from skdpbo.model_selection._proposals import UpperConfidenceProposer

__all__ = ["LipschitzChoice", "VisitedChoice"]


class VisitedChoice:
    """GP-UCB on the public scores, then one private choice among the visited candidates."""

    guided = (True,)

    def __init__(self, choice, prior_weight):
        self._choice = choice
        self._prior_weight = prior_weight
        self.guarantee = choice.guarantee

    def start(self, search, guided=True):
        """Make ready; no protected value is read."""
        self._search = search
        self._proposer = UpperConfidenceProposer(search.X, **search.design)

    def propose(self, public):
        """Next candidates for public cross-validation, by index; none when all are visited."""
        if public is not None:
            self._proposer.tell(public.mean)
        return self._proposer.ask()

    def choose(self, public):
        """Release (index of the winner, score or None)."""
        search = self._search
        listed = np.flatnonzero(public.listed)
        visited = [self._proposer.visited[i] for i in listed]
        offsets = self._offsets(visited, public.mean[listed], public.splits[:, listed])
        best, total = self._release(search.totals(visited), offsets)
        return visited[best], None if total is None else search.score(total)

    def _release(self, totals, offsets):
        return self._choice.release(
            totals,
            offsets,
            sensitivity=self._search.sensitivity,
            largest=self._search.n_records * self._search.scorer.units,
            source=self._search.source,
        )

    def _offsets(self, visited, scores, splits):
        scorer, n_records = self._search.scorer, self._search.n_records
        weight = self._prior_weight
        if weight == "auto":
            weight = 1.0
            scores = automatic_prior(
                self._search.X[visited],
                scores,
                splits,
                kernel=self._proposer.kernel,
                n_records=n_records,
                epsilon=float(self._choice.epsilon_choice),
                bound=scorer.bound,
            )
        return public_offsets(
            scores, weight, n_records=n_records, units=scorer.units, bound=scorer.bound
        )


class LipschitzChoice(VisitedChoice):
    """The same choice, and the largest score by Algorithm 3 of Kusner et al. 2015."""

    def __init__(self, mechanism, epsilon, score_fraction, prior_weight):
        mechanism.check()
        shares = PrivateChoice("permute_and_flip", epsilon, score_fraction)
        super().__init__(PrivateChoice("permute_and_flip", shares.epsilon_choice, 0), prior_weight)
        self._mechanism = mechanism
        self._epsilon_score = shares.epsilon_score
        self.guarantee = mechanism.guarantee(
            epsilon=shares.epsilon, score_fraction=shares.score_fraction
        )

    def _release(self, totals, offsets):
        best, _ = super()._release(totals, offsets)
        if not self._epsilon_score:
            return best, None
        search = self._search
        total = self._mechanism.release_score(
            min(total for total in totals if total is not None),
            lambdas=self._mechanism.lambdas(search.candidates),
            units=search.scorer.units,
            bound=search.scorer.bound,
            n_records=search.n_records,
            epsilon=self._epsilon_score,
            source=search.source,
        )
        return best, total
