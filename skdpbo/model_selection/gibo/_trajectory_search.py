"""Search mechanism of `DPGIBOSearchCV`: a noisy descent, the choice of its end and its score."""

from dataclasses import replace

import numpy as np

from skdpbo._parameters import warn_caller
from skdpbo.exceptions import NoisyGradientWarning
from skdpbo.model_selection._search_mechanism import Chosen, SearchMechanism
from skdpbo.model_selection.gibo._descent import noise_to_clip
from skdpbo.model_selection.gibo._public_end import end_offsets, public_limit
from skdpbo.model_selection.gibo._public_gradient import PublicGradient
from skdpbo.model_selection.gibo._public_scales import RememberedLosses, public_scales
from skdpbo.model_selection.gibo._safe_end import SafeEnd, end_positions

__all__ = ["NOISE_LIMIT", "TrajectorySearch"]

# The largest noise norm, as a share of the clipping norm, that goes without a warning.
NOISE_LIMIT = 0.1
# Public candidates among which the protected rows choose the start.
_N_STARTS = 8
# Standard errors by which an end must be better than the start.
_MARGIN = 0.5


class TrajectorySearch(SearchMechanism):
    """Release a trajectory, the choice of one of its points and the score of that point.

    Parameters
    ----------
    release : TrajectoryRelease
    descent : callable
        ``descent(units)`` returns the `PrivateDescent`.
    surrogate : callable
        ``surrogate(space)`` returns the `SurrogateRecipe`.
    automatic : list of str
        Which of "clip" and "learning_rate" public rows decide.
    start : callable
        ``start(space)`` returns the point where the descent begins without a public search.
    public_search : PublicBest or None
        Search of the start by public scores.
    averaging : float
        Whether the mean of the last points is published as well.
    verbose : int
    """

    guided = (True, False)
    chosen_early = True

    def __init__(
        self, release, *, descent, surrogate, automatic, start, public_search, averaging, verbose
    ):
        self.release = release
        self.guarantee = release.guarantee
        self._descent = descent
        self._surrogate = surrogate
        self._automatic = automatic
        self._start = start
        self._public_search = public_search
        self._averaging = averaging
        self._verbose = verbose

    def score_noise(self, *, sensitivity, largest):
        """Return the standard deviation of the noise of the released score."""
        return sensitivity / (self.release.mu_score * largest) if self.release.mu_score else 0.0

    def start(self, problem, guided):
        """Warn, from public numbers, of gradients that are mostly noise."""
        self._problem, self._chosen, self._n_public = problem, None, 0
        if self._public_search is not None and guided:
            self._public_search.start(problem, guided)
        self._steps = self._descent(int(problem.scorer.units))
        n_iter, n_dims, noise = self._steps.n_iter, problem.space.n_dims, self._noise()
        if noise > NOISE_LIMIT:
            warn_caller(
                f"The noise of a gradient has {noise:.2g} times the clipping norm: "
                f"{problem.n_losses} protected records or groups are few for n_iter={n_iter} and "
                f"{n_dims} parameters at this budget. Use fewer steps, a larger epsilon, fewer "
                "parameters, or DPBayesSearchCV.",
                NoisyGradientWarning,
            )

    def propose(self, public):
        """Return the next candidates of the public search; then release the trajectory."""
        if self._chosen is not None:
            return []
        space = self._problem.space
        start, best = self._start(space), None
        if self._public_search is not None:
            batch = self._public_search.propose(public)
            if batch:
                return batch
            self._best = best = self._public_search.choose(public)
            self._n_public = len(best.candidates)
            start = space.encode([best.candidates[best.index]])[0]
        informed = self._informed(start, self._problem.folds)  # public: before the charge
        if best is not None and self.release.choice is not None:
            start = space.encode([self._private_start(best.candidates, public)])[0]
        self._chosen = self._search(start, self._problem.folds, informed)
        return self._chosen.candidates

    def choose(self, public):
        """Return the end, which has been released."""
        if len(public["params"]) == self._n_public:  # no fold could train the trajectory
            return replace(self._chosen, index=self._best.index)
        return replace(self._chosen, index=self._n_public + self._chosen.index)

    def search_unguided(self):
        """Release the trajectory, its end and the score."""
        return self._search(self._start(self._problem.space))

    def _search(self, start, folds=None, informed=None):
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
        steps, public = (self._steps, None) if informed is None else informed
        descent = losses, start, recipe.posterior(), problem.source, recipe.refitted
        found = steps.run(*descent, public)
        points = np.vstack([found.trajectory, found.final]) if self._averaging else found.trajectory
        settings = space.settings(points)
        index = self._end(found, points, settings, folds, public)
        score = self._score(settings[index])
        return Chosen(settings, index, score, attributes={"descent_": found})

    def _informed(self, start, folds):
        """Return the steps and the public gradient, from public rows."""
        problem, space = self._problem, self._problem.space
        folds.warn_of_low_bound(space.settings([start])[0])
        losses = RememberedLosses(lambda points: folds.losses(space.settings(points)))
        sizes = {"units": folds.units, "n_protected": problem.n_losses}
        gradient = PublicGradient(losses, folds.folds, **sizes)
        recipe, noise = self._surrogate(space), self._noise()
        found = self._automatic, recipe, start, losses, gradient, noise
        return public_scales(self._steps, *found), gradient

    def _noise(self):
        sizes = self._steps.n_iter, self._problem.space.n_dims, self._problem.n_losses
        return noise_to_clip(self.release.mu_trajectory, *sizes)

    def _private_start(self, candidates, public):
        """Release which of the best public candidates the descent begins from."""
        scores = public[f"mean_test_{self._problem.metric}"]
        order = np.argsort(-np.where(np.isfinite(scores), scores, -np.inf), kind="stable")
        best = [candidates[k] for k in order[:_N_STARTS]]
        points = self._problem.space.encode(best)
        return best[self._picked(best, points, self._steps.clip, self._problem.folds)]

    def _end(self, found, points, settings, folds, public):
        """Release the position of the end; without a share for it, that of the last point."""
        if self.release.choice is None:
            return len(points) - 1
        positions = end_positions(len(points), self._steps.n_iter)
        candidates, informed = [settings[k] for k in positions], {}
        if public is not None:
            averages = len(points) - len(found.trajectory)
            optimism = np.array(public.optimism + public.optimism[-1:] * averages)[positions]
            informed = {"optimism": optimism * folds.units, "margin": _MARGIN}
        clip = float(found.clips.max())
        return positions[self._picked(candidates, points[positions], clip, folds, **informed)]

    def _picked(self, candidates, points, clip, folds, **informed):
        """Release the position of one of a few public or released candidates."""
        problem, choice = self._problem, self.release.choice
        units = int(problem.scorer.units)
        if folds is not None:
            informed = self._informed_choice(candidates, folds, choice.epsilon, informed)
        losses = problem.evaluator.losses(candidates, none_may_be_left=True)
        end = SafeEnd(choice, units, clip)
        return end.release(losses, points, problem.source, **informed)

    def _informed_choice(self, candidates, folds, epsilon, how):
        """Return what public rows say of the points: which changes count, and which are likely."""
        rows = folds.losses(candidates)
        rows = np.array([np.full(len(folds.folds), folds.units) if r is None else r for r in rows])
        changes = rows - rows[0]
        sizes = {"units": folds.units, "n_protected": self._problem.n_losses, "epsilon": epsilon}
        limit = public_limit(changes, **sizes)
        return {"limit": limit, "offsets": end_offsets(changes, folds.folds, limit, **how, **sizes)}

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
