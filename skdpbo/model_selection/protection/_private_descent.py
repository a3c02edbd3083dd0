"""``DPGIBOSearchCV(protect="all")``: a descent whose models are all trained privately.

Training rows and scoring rows are disjoint. The releases are the trajectory, from noisy gradients
of the scoring rows, and one private model with its noisy score.
"""

import numpy as np

from skdpbo._isolation._parallel import Progress
from skdpbo._parameters import warn_caller
from skdpbo.exceptions import NoisyGradientWarning
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection._search_mechanism import SearchProblem
from skdpbo.model_selection.private_training._descent_trainings import (
    DescentTrainings,
    plan_descent,
)
from skdpbo.model_selection.private_training._estimators import has_private_part
from skdpbo.model_selection.private_training._selection_rules import PrivateSelection
from skdpbo.model_selection.protection._private_models import PrivateModelsProtection
from skdpbo.model_selection.protection._setup import refuse_revealing_parts

# Warn if the number of rows times mu of one training is smaller, as the descent is then likely to
# go in a wrong direction: a rule of thumb, see docs/theory/private_descent.md.
_FEWEST_ROWS_TIMES_MU = 160


class PrivateDescentProtection(PrivateModelsProtection):
    """Every record is protected; the models of a descent are differentially private.

    Parameters
    ----------
    searcher, space, candidates
        Of `Protection`.
    """

    best_of_several = False  # a single score, with a warning of its noise before the charge

    def __init__(self, searcher, space, candidates):
        # All rows are used for tuning, and the budget covers every training.
        once = PrivateSelection(accounting="composition")
        super().__init__(searcher, space, candidates, once)
        self.mechanism = searcher._mechanism()  # before the plan, which needs its number of steps

    def check(self):
        """Refuse options that would be further releases, or need public rows."""
        estimator = self.searcher.estimator
        if not has_private_part(estimator, self.candidates):
            raise ValueError(
                f"{type(estimator).__name__} states no privacy guarantee: trained on protected "
                'rows, it would show them. protect="all" of a descent needs an estimator that is '
                "differentially private, such as DPRidge; for any other, and for one whose cost is "
                "declared, use DPRandomizedSearchCV."
            )
        super().check()
        # Two corners of the cube represent all of its points, which cannot be listed.
        corners = np.repeat([[0.0], [1.0]], self.space.n_dims, axis=1)
        refuse_revealing_parts(estimator, self.space.decode(corners))

    def _plan(self, n_samples, *, trained_again=False):
        searcher, mechanism = self.searcher, self.mechanism
        plan = plan_descent(
            searcher.estimator,
            self.candidates[0],
            n_trainings=mechanism.n_models(self.space.n_dims),
            releases_model=bool(searcher.refit or searcher.score_fraction),
            release=mechanism.guarantee,
            n_samples=n_samples,
        )
        self._budgeted.append((plan.models, n_samples))
        return plan

    def try_publicly(self):
        """Warn of too few rows and of failures on synthetic rows; refuse too large noise."""
        searcher, mechanism, plan = self.searcher, self.mechanism, self.plan
        scored, parts = self.positions[1], self.parts
        n_losses = parts.n_validation if scored is None else len(scored)
        mechanism.refuse_scorer(self.scorer)
        mechanism.warn_if_score_is_noisy(sensitivity=1, largest=n_losses)
        if plan.n_samples * plan.budget.mu < _FEWEST_ROWS_TIMES_MU:
            warn_caller(
                f"{plan.n_samples} training rows or groups are few for {plan.n_trainings} private "
                f"trainings of mu={plan.budget.mu:.2g} each: the models may be too noisy to show a "
                'direction. Use DPRandomizedSearchCV(protect="all"), a larger epsilon, or fewer or '
                "smaller steps (n_iter, batch_size).",
                NoisyGradientWarning,
            )
        # One source for trainings and releases: two with one seed would repeat their noise.
        source = noise_source(searcher.random_state)
        options = {"n_jobs": searcher.n_jobs, "pre_dispatch": searcher.pre_dispatch}
        self._trainings = DescentTrainings(plan, self.scorer, n_losses, source, **options)
        problem = SearchProblem(self.candidates, self._trainings, source, self.space)
        mechanism.start(problem, False)  # reads sizes alone; too much noise is refused here
        super().try_publicly()

    def _run(self, data):
        self._trainings.data = data  # made before the charge, from sizes alone
        chosen = self.mechanism.search_unguided(self._trainings.can_end)
        model = None
        if self.plan.releases_model:
            Progress(self.searcher.verbose, "The model of the end is trained")
            model = self._trainings.last_model(chosen.candidates[chosen.index])
        return chosen, model
