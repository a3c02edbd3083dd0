"""Search mechanism of `DPGIBOSearchCV`: a noisy descent, the choice of its end and its score."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from skdpbo._parameters import warn_caller
from skdpbo.exceptions import NoisyGradientWarning
from skdpbo.model_selection._search_mechanism import Chosen, SearchMechanism
from skdpbo.model_selection.gibo._descent import PrivateDescent, noise_to_clip
from skdpbo.model_selection.gibo._public_gradient import (
    AUTOMATIC,
    PublicGradient,
    RememberedLosses,
    public_scales,
)
from skdpbo.model_selection.gibo._safe_end import PublicChanges, SafeEnd, end_positions

# Warn if the norm of the noise exceeds this share of the clipping norm.
NOISE_LIMIT = 0.1
# Number of publicly best candidates from which the start is chosen.
_N_STARTS = 8
# Largest number of unvisited candidates among them, with good scores predicted by the surrogate.
_N_GUESSES = 40
# Standard errors by which a start must be better than the best public candidate, and an end than
# the start. More for the start, as the best public candidate is not compared again.
_START_MARGIN, _END_MARGIN = 1.0, 0.5
# Factor of public errors in the margin of the end: the same rows have chosen start and steps.
_REUSED = 2.0
# Share of the squared budget that adaptive clipping spends on counts.
_CLIP_SHARE = 0.1


@dataclass(eq=False, kw_only=True)
class TrajectorySearch(SearchMechanism):
    """Release a trajectory, the choice of one of its points and the score of that point.

    Parameters
    ----------
    release : TrajectoryRelease
    descent : Descent
    largest_batch : float
        Largest default batch size.
    n_iter : int
    random_state : int or RandomState
        Of the designs; public.
    surrogate : GradientSurrogate
    given_start : callable
        ``given_start(space)`` returns the starting point without a public search.
    public_search : PublicBest or None
        Search for the start by public scores.
    verbose : int
    """

    reads_early = True

    release: Any
    descent: Any
    largest_batch: float
    n_iter: int
    random_state: Any
    surrogate: Any
    given_start: Callable
    public_search: Any
    verbose: int

    def __post_init__(self):
        self.guarantee = self.release.guarantee
        # Scales that are estimated on public rows.
        self._automatic = [name for name in AUTOMATIC if getattr(self.descent, name) == "auto"]

    def score_noise(self, *, sensitivity, largest):
        """Return the standard deviation of the noise of the released score."""
        return sensitivity / (self.release.mu_score * largest) if self.release.mu_score else 0.0

    def n_models(self, n_dims):
        """Return the largest number of models of all steps."""
        # The number of models does not depend on units and seed.
        algorithm = self._private_descent(n_dims, units=1, seed=0)
        return algorithm.n_iter * algorithm.largest_batch(n_dims)

    def _private_descent(self, n_dims, units, seed):
        descent = self.descent._filled(batch_size=min(n_dims + 1, self.largest_batch))
        options = descent.get_params() | {n: AUTOMATIC[n] for n in self._automatic}
        options |= {name: float(options[name]) for name in ("clip", "learning_rate")}
        adaptive = options.pop("adaptive_clip")
        return PrivateDescent(
            n_iter=self.n_iter,
            mu=self.release.mu_trajectory,
            **options,
            bounds=(0.0, 1.0),
            clip_share=_CLIP_SHARE if adaptive else 0.0,
            loss_bound=units,
            loss_scale=1.0 / units,
            random_state=seed,
        )

    def start(self, problem, guided):
        """Refuse too noisy a score, and warn of too noisy gradients: from public numbers."""
        self.release.of_total(int(problem.scorer.units))
        self._problem, self._chosen, self._n_public = problem, None, 0
        if self.public_search is not None and guided:
            self.public_search.start(problem, guided)
        # Each step adds its number to the seed of the designs.
        seed = check_random_state(self.random_state).randint(2**31 - 1 - self.n_iter)
        n_dims = problem.space.n_dims
        self._algorithm = self._private_descent(n_dims, int(problem.scorer.units), seed)
        self._algorithm.check_noise(problem.n_losses)
        if self.public_search is None or not guided:
            self._checked_start(self.given_start(problem.space))
        n_iter = self._algorithm.n_iter
        mu = self.release.mu_trajectory
        self._noise = noise_to_clip(mu, n_iter, n_dims, problem.n_losses)
        if self._noise > NOISE_LIMIT:
            warn_caller(
                f"The noise of a gradient has {self._noise:.2g} times the clipping norm: "
                f"{problem.n_losses} protected records or groups are few for n_iter={n_iter} and "
                f"{n_dims} parameters at this budget. Use fewer steps, a larger epsilon, fewer "
                "parameters, or DPBayesSearchCV.",
                NoisyGradientWarning,
            )

    def _checked_start(self, start):
        """Return the start; refuse a tolerance that is met there without any evaluation."""
        tol, trace = self._algorithm.tol, self.surrogate._posterior().trace(start)
        if tol is not None and tol >= trace:
            raise ValueError(f"tol must be below {trace:.4g}, the trace without any model.")
        return start

    def propose(self, public):
        """Return the next candidates of the public search; then release the trajectory."""
        if self._chosen is not None:
            return []
        space, best = self._problem.space, None
        if self.public_search is None:
            start = self.given_start(space)
        else:
            batch = self.public_search.propose(public)
            if batch:
                return batch
            self._best = best = self.public_search.choose(public)
            self._n_public = len(best.candidates)
            start = self._checked_start(space.encode([best.candidates[best.index]])[0])
        # Before the charge: the scales and the public gradient, from public rows.
        problem, folds = self._problem, self._problem.folds
        folds.warn(space.decode([start])[0], self.unwarned_noise(problem.n_losses))
        losses = RememberedLosses(lambda points: folds.losses(space.decode(points)))
        sizes = {"units": folds.units, "n_protected": problem.n_losses}
        gradient = PublicGradient(losses, folds.folds, **sizes)
        given = self._automatic, self.surrogate, start, losses, gradient, self._noise
        algorithm = public_scales(self._algorithm, *given)
        # The scales were estimated at the best public candidate; the start may be another.
        if best is not None and self.release.start_choice is not None:
            start = space.encode([self._private_start(best.candidates, public)])[0]
        # Run here, and not in `choose`, so that scikit-learn cross-validates the released points.
        self._chosen = self._search(start, algorithm, gradient)
        return self._chosen.candidates

    def choose(self, public):
        """Return the end, which has been released."""
        if len(public["params"]) == self._n_public:  # no fold could train the trajectory
            return replace(self._chosen, index=self._best.index)
        return replace(self._chosen, index=self._n_public + self._chosen.index)

    def search_unguided(self, can_end=None):
        """Release the trajectory, its end and the score.

        Parameters
        ----------
        can_end : callable, default=None
            ``can_end(params)``: whether released parameters may be the end, true for those of the
            start. None: all may.
        """
        start = self.given_start(self._problem.space)
        return self._search(start, self._algorithm, can_end=can_end)

    def _search(self, start, algorithm, public=None, can_end=None):
        problem, space = self._problem, self._problem.space
        batches = []

        def losses(points):
            """Protected: return the losses of every record at the points."""
            if self.verbose:  # public: the design of a step depends on released values alone
                print(f"step {len(batches) + 1} of {algorithm.n_iter}: {len(points)} models")
            batches.append(len(points))
            # If no model of the first batch can be trained, that is a public error.
            settings = space.decode(points)
            return problem.evaluator.losses(settings, none_may_be_left=len(batches) > 1)

        surrogate, refit = self.surrogate._posterior(), self.surrogate._refitted
        result = algorithm.run(losses, start, surrogate, problem.source, refit, public)
        points = result.trajectory
        if self.descent.averaging:
            points = np.vstack([points, result.final])
        settings = space.decode(points)
        if self.release.choice is not None:
            index = self._end(result, points, settings, public)
        else:  # without budget: the last admissible point
            backwards = reversed(range(len(points)))
            index = next((k for k in backwards if can_end is None or can_end(settings[k])), 0)
        score = self._score(settings[index])
        return Chosen(settings, index, score, attributes={"descent_": result})

    def _private_start(self, candidates, public):
        """Release the start of the descent, chosen among visited and promising candidates."""
        scores = public[f"mean_test_{self._problem.metric}"]
        order = np.argsort(-np.where(np.isfinite(scores), scores, -np.inf), kind="stable")
        best = [candidates[k] for k in order[:_N_STARTS]]
        folds, choice = self._problem.folds, self.release.start_choice
        changes = self._public_changes(best, choice)
        offsets = changes.end_offsets(margin=_START_MARGIN)
        guesses, means, variances = self.public_search.promising(_N_GUESSES)
        # From scores to losses.
        scorer = self._problem.scorer
        per_score = folds.units / (
            scorer.score_from_units(0, 1) - scorer.score_from_units(folds.units, 1)
        )
        expected = (scores[order[0]] - means) * per_score, variances * per_score**2
        guess_offsets = []
        if np.isfinite(expected[0]).all():
            guess_offsets = changes.guess_offsets(*expected, margin=_START_MARGIN)
        best += guesses[: len(guess_offsets)]
        points = self._problem.space.encode(best)
        public_part = {"limit": changes.limit, "offsets": offsets + guess_offsets}
        return best[self._picked(choice, best, points, self._algorithm.clip, **public_part)]

    def _end(self, result, points, settings, public):
        """Release the position of the end."""
        choice = self.release.choice
        positions = end_positions(len(points), len(result.gradients))
        candidates, public_part = [settings[k] for k in positions], {}
        if public is not None:
            n_means = len(points) - len(result.trajectory)
            optimism = np.array(public.optimism + public.optimism[-1:] * n_means)[positions]
            changes = self._public_changes(candidates, choice)
            options = {"margin": _END_MARGIN, "reused": _REUSED}
            offsets = changes.end_offsets(optimism * self._problem.folds.units, **options)
            public_part = {"limit": changes.limit, "offsets": offsets}
        clip = float(result.clips.max())  # adaptive norms differ by step; released
        return positions[self._picked(choice, candidates, points[positions], clip, **public_part)]

    def _public_changes(self, candidates, choice):
        """Return the `PublicChanges` of candidates, the first of which is the start."""
        folds = self._problem.folds
        # A candidate that fails in a fold has the worst losses, as on protected rows.
        worst = np.full(len(folds.folds), folds.units)
        rows = np.array([worst if row is None else row for row in folds.losses(candidates)])
        sizes = {"units": folds.units, "n_protected": self._problem.n_losses}
        return PublicChanges(rows - rows[0], folds.folds, epsilon=choice.epsilon, **sizes)

    def _picked(self, choice, candidates, points, clip, **public_part):
        """Release the position of the chosen one of some public or released candidates."""
        problem = self._problem
        losses = problem.evaluator.losses(candidates, none_may_be_left=True)
        end = SafeEnd(choice, int(problem.scorer.units), clip)
        return end.release(losses, points, problem.source, **public_part)

    def _score(self, params):
        """Release the score of the final point, or None."""
        problem = self._problem
        mechanism = self.release.of_total(problem.scorer.units)
        if mechanism is None:
            return None
        (total,) = problem.evaluator.totals([params], none_may_be_left=True)
        total = problem.largest if total is None else total  # None: cannot be trained; public
        # Clipping to the public range of the total is post-processing.
        total = min(max(round(mechanism.release(total, problem.source)), 0), problem.largest)
        noise = problem.scorer.units / self.release.mu_score
        return problem.scorer.score_with_std(total, problem.n_losses, noise)
