"""GP-UCB on public cross-validation scores, and the best of them. No protected value is read."""

import numpy as np

from skdpbo.model_selection.bayes._gp_ucb import UpperConfidenceProposer
from skdpbo.model_selection.bayes._visits import VisitingSearch

__all__ = ["PublicBest"]


class PublicBest(VisitingSearch):
    """Search by public scores alone.

    Parameters
    ----------
    design : dict
        Parameters of the `UpperConfidenceProposer`.
    """

    guided = (True,)

    def __init__(self, design):
        self._design = design

    def start(self, problem, guided):
        """Make ready."""
        super().start(problem, guided)
        X = problem.space.encode(problem.candidates)
        self._proposer = UpperConfidenceProposer(X, **self._design)
        self.n_proposals = self._proposer.n_iter

    def ask(self, scores):
        """Return the next indices; none when all are visited."""
        if scores is not None:
            self._proposer.tell(scores.mean)
        return self._proposer.ask()

    def release_choice(self, scores):
        """Return (index of the best public score, None); the first visited without a score."""
        means = np.where(scores.listed & np.isfinite(scores.mean), scores.mean, -np.inf)
        best = means.argmax() if scores.listed[means.argmax()] else scores.listed.argmax()
        return self._proposer.visited[best], None

    def search_unguided(self):
        """Not supported: candidates are proposed from public scores."""
        raise NotImplementedError
