"""Search mechanism of `DPGIBOSearchCV`: a noisy descent, the choice of its end and its score."""

import numpy as np

from skdpbo._parameters import warn_caller
from skdpbo.exceptions import NoisyGradientWarning
from skdpbo.model_selection._search_mechanism import Chosen, SearchMechanism
from skdpbo.model_selection.gibo._descent import noise_to_clip
from skdpbo.model_selection.gibo._safe_end import SafeEnd, end_positions

__all__ = ["NOISE_LIMIT", "TrajectorySearch"]

# The largest noise norm, as a share of the clipping norm, that goes without a warning.
NOISE_LIMIT = 0.1


class TrajectorySearch(SearchMechanism):
    """Release a trajectory, the choice of one of its points and the score of that point.

    Parameters
    ----------
    release : TrajectoryRelease
    descent : callable
        ``descent(units)`` returns the `PrivateDescent`.
    surrogate : callable
        ``surrogate(space)`` returns the `SurrogateRecipe`.
    init : None, dict or array-like
        Starting point.
    averaging : float
        Whether the mean of the last points is published as well.
    verbose : int
    """

    in_rounds = False

    def __init__(self, release, *, descent, surrogate, init, averaging, verbose):
        self.release = release
        self.guarantee = release.guarantee
        self._descent = descent
        self._surrogate = surrogate
        self._init = init
        self._averaging = averaging
        self._verbose = verbose

    def score_noise(self, *, sensitivity, largest):
        """Return the standard deviation of the noise of the released score."""
        return sensitivity / (self.release.mu_score * largest) if self.release.mu_score else 0.0

    def start(self, problem, guided):
        """Warn, from public numbers, of gradients that are mostly noise."""
        self._problem = problem
        self._steps = self._descent(int(problem.scorer.units))
        n_iter, n_dims = self._steps.n_iter, problem.space.n_dims
        noise = noise_to_clip(self.release.mu_trajectory, n_iter, n_dims, problem.n_losses)
        if noise > NOISE_LIMIT:
            warn_caller(
                f"The noise of a gradient has {noise:.2g} times the clipping norm: "
                f"{problem.n_losses} protected records or groups are few for n_iter={n_iter} and "
                f"{n_dims} parameters at this budget. Use fewer steps, a larger epsilon, fewer "
                "parameters, or DPBayesSearchCV.",
                NoisyGradientWarning,
            )

    def propose(self, public):
        """Release the trajectory; return its points, which are then cross-validated."""
        self._chosen = self.search_unguided()
        return self._chosen.candidates

    def choose(self, public):
        """Return the final point, which has been released."""
        return self._chosen

    def search_unguided(self):
        """Release the trajectory and the score of its final point."""
        problem, space = self._problem, self._problem.space
        batches = []

        def losses(points):
            """Protected: losses of every record at the points."""
            if self._verbose:
                print(f"step {len(batches) + 1} of {self._steps.n_iter}: {len(points)} models")
            batches.append(len(points))
            # In the first batch it is a public error that no model can be trained.
            settings = space.settings(points)
            return problem.evaluator.losses(settings, none_may_be_left=len(batches) > 1)

        recipe = self._surrogate(space)
        start = space.start(self._init)
        found = self._steps.run(losses, start, recipe.posterior(), problem.source, recipe.refitted)
        points = np.vstack([found.trajectory, found.final]) if self._averaging else found.trajectory
        settings = space.settings(points)
        index = self._end(found, points, settings)
        score = self._score(settings[index])
        return Chosen(settings, index, score, attributes={"descent_": found})

    def _end(self, found, points, settings):
        """Release the position of the end; without a share for it, that of the last point."""
        if self.release.choice is None:
            return len(points) - 1
        problem = self._problem
        positions = end_positions(len(points), self._steps.n_iter)
        end = SafeEnd(self.release.choice, int(problem.scorer.units), float(found.clips.max()))
        candidates = [settings[k] for k in positions]
        losses = problem.evaluator.losses(candidates, none_may_be_left=True)
        return positions[end.release(losses, points[positions], problem.source)]

    def _score(self, params):
        """Release the score of the final point, or None."""
        problem = self._problem
        if not self.release.mu_score:
            return None
        (total,) = problem.evaluator.totals([params], none_may_be_left=True)
        total = self.release.release_total(
            problem.largest if total is None else total,  # it cannot be trained on public rows
            units=problem.scorer.units,
            n_records=problem.n_losses,
            source=problem.source,
        )
        noise = problem.scorer.units / self.release.mu_score
        return problem.scorer.score_with_std(total, problem.n_losses, noise)
