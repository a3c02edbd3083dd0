"""Private trainings of a descent: their budget, from public numbers alone, and their losses.

Theorem (docs/theory/private_descent.md): b T trainings of mu_a and one of mu_z cost training
records mu with b T mu_a^2 + mu_z^2 = mu^2. Validation records pay for gradients and the score
alone. A record is in one part only, so that each part may cost the whole budget.

Only the losses of a training are used, in gradients with noise; of the last training, the model is
released.
"""

from dataclasses import dataclass, replace

from skdpbo._attempt import attempt
from skdpbo._isolation._isolated_calls import in_isolation, run_isolated
from skdpbo.mechanisms import split_budget, step_budgets
from skdpbo.model_selection._sklearn import with_params
from skdpbo.model_selection.private_training._costs import (
    UNUSED_SHARES,
    StatedCosts,
    costs_of_groups,
    gaussian_budget,
)
from skdpbo.model_selection.private_training._plan import ASSUMPTIONS, UNWATCHED, TrialPlan
from skdpbo.model_selection.private_training._selection_rules import PublishedScores
from skdpbo.model_selection.private_training._trial_score import losses_of
from skdpbo.model_selection.private_training._trials import TrialRandomness, attempted_model
from skdpbo.model_selection.rows._protected import NotPickled
from skdpbo.privacy import PrivacyGuarantee, compose, compose_parallel, mu_from_epsilon

# Share of mu^2 of the training records that the released model gets.
_LAST_SHARE = 0.5


@dataclass(frozen=True, kw_only=True)
class TrainingsPlan(TrialPlan):
    """Public plan of a descent with private trainings; ``budget`` is that of one training.

    Attributes
    ----------
    last : PrivacyGuarantee or None
        Budget of the training of the released model; None if no model is released.
    stated : tuple of PrivacyGuarantee
        Cost with the parameters of the start: of a training in a step, and of the last training.
    n_trainings : int
        Largest number of trainings in all steps.
    estimator : estimator
    n_samples : int or None
        Number of training rows.
    """

    last: PrivacyGuarantee | None
    stated: tuple
    n_trainings: int
    estimator: object
    n_samples: int | None

    def model(self, params, budget, *, groups=False):
        """Return a model with its budget set, None if its cost exceeds the stated one.

        Parameters
        ----------
        params : dict
            Released.
        budget : PrivacyGuarantee
            `budget` or `last`.
        groups : bool, default=False
            Whether it is trained with groups, whose cost has been stated as well.
        """
        # An error is not raised: it would end the fit after the charge.
        found, _ = attempt(_budgeted_model, self.estimator, params, budget, self.n_samples)
        if found is None:
            return None
        (model, cost), number = found, [self.budget, self.last].index(budget)
        is_stated = _assumes_no_more(cost, self.stated[number])
        if is_stated and groups:
            # Compared with the model of the plan, whose cost for a group is in the guarantee.
            both = [model, self.models[number]]
            costs, _ = attempt(costs_of_groups, both, self.n_samples)
            is_stated = costs is not None and _assumes_no_more(*(group for _, group in costs))
        return model if is_stated else None


def _assumes_no_more(cost, stated):
    """Whether a cost has no further assumption, the stated status and no larger distance."""
    return (
        set(cost.assumptions) <= set(stated.assumptions)
        and cost.status == stated.status
        and cost.statistical_distance <= stated.statistical_distance
    )


def plan_descent(estimator, start, *, n_trainings, releases_model, release, n_samples):
    """Calibrate the trainings from the epsilon and delta of the whole.

    Parameters
    ----------
    estimator : estimator
    start : dict
        Parameters of the first point.
    n_trainings : int
        In all steps.
    releases_model : bool
        Whether one more model is trained at the end.
    release : PrivacyGuarantee
        Of gradients and score, for the validation records, with the epsilon and delta of the whole.
    n_samples : int or None
        Number of training rows, for estimators whose cost depends on it.

    Returns
    -------
    plan : TrainingsPlan

    Raises
    ------
    ValueError, TypeError
        If the estimator is not private, or its cost is neither mu-GDP nor pure, or does not fit.
    """
    epsilon, delta = float(release.epsilon), release.delta
    for unused in UNUSED_SHARES:
        mu, last = mu_from_epsilon(epsilon, delta) * (1 - unused), None
        if releases_model:
            mu, mu_last = split_budget(mu, _LAST_SHARE)
            last = gaussian_budget(mu_last, delta)
        # Equal parts of mu^2, as all gradients need the same precision.
        budget = gaussian_budget(float(step_budgets(mu, n_trainings)[0]), delta)
        budgets = [budget] if last is None else [budget, last]
        models, costs = zip(
            *(_budgeted_model(estimator, start, each, n_samples) for each in budgets), strict=True
        )
        try:
            trainings = compose(*[costs[0]] * n_trainings, *costs[1:], delta=delta)
        except ValueError:  # no epsilon holds at this delta: try a smaller budget
            continue
        if trainings.epsilon <= epsilon:
            return TrainingsPlan(
                models=list(models),
                rule=PublishedScores(n_trainings),
                budget=budget,
                guarantee=_joint_guarantee(trainings, release, costs, n_trainings),
                releases_model=releases_model,
                last=last,
                stated=costs,
                n_trainings=n_trainings,
                estimator=estimator,
                n_samples=n_samples,
            )
    raise ValueError(
        f"The estimator does not fit a total of epsilon={epsilon:.6g}, delta={delta:.6g}: raise "
        "epsilon or delta, or take fewer steps."
    )


def _budgeted_model(estimator, params, budget, n_samples):
    """Return a model with the budget of its steps set, and the stated cost of its training."""
    model = with_params(estimator, params)
    costs = StatedCosts([model], [params], budget.delta, n_samples)
    if costs.kind == "approximate":
        raise ValueError(
            f"{type(estimator).__name__} states an (epsilon, delta) without a mu, of which many "
            "trainings cost too much: a descent needs trainings that are mu-GDP or pure. Use "
            "DPRandomizedSearchCV."
        )
    return model, costs.trial(budget)


def _joint_guarantee(trainings, release, costs, n_trainings):
    """Return the guarantee of a record of either part."""
    both = compose_parallel(trainings, release, delta=release.delta)
    last = f", one of the released model (mu {costs[1].mu:.4g})" if costs[1:] else ""
    return replace(
        both,
        epsilon=float(release.epsilon),
        protects="training and validation records",
        mechanism=(
            f"{n_trainings} trainings (mu {costs[0].mu:.4g} each){last}, each "
            f"{costs[0].mechanism}; on other rows {release.mechanism}"
        ),
        # The assumptions of `release` on public rows do not apply here; the rest are ASSUMPTIONS.
        # If the user split the rows, the caller adds that no record or group is in both parts.
        assumptions=tuple(dict.fromkeys([*ASSUMPTIONS, UNWATCHED, *trainings.assumptions])),
    )


class DescentTrainings(NotPickled):
    """Evaluator of a descent: every model is trained anew, with its own noise.

    Parameters
    ----------
    plan : TrainingsPlan
    scorer : PerRecordScorer
    n_losses : int
        Number of the rows, or groups, that score; public.
    source : RandomSource
    **parallel
        `n_jobs` and `pre_dispatch`, as in joblib.
    """

    def __init__(self, plan, scorer, n_losses, source, **parallel):
        self.scorer, self.n_losses = scorer, n_losses
        self._plan, self._parallel = plan, parallel
        self._randomness = TrialRandomness(source)
        self._n_trained, self._last = 0, ()  # a tuple: the last model may be None
        self.data = None  # `TrialData`, given after the charge

    def losses(self, candidates, *, none_may_be_left):
        """Train a model for each candidate; return rows of losses. Protected.

        Parameters
        ----------
        candidates : list of dict
            Released.
        none_may_be_left : bool
            Not used: errors of trainings are protected, and a failed one has the worst losses.
        """
        # Counted before anything is trained: a failed training is paid for, too.
        self._n_trained += len(candidates)
        if self._n_trained > self._plan.n_trainings:
            raise RuntimeError("more trainings were requested than have been paid for.")
        models = [self._model(params, self._plan.budget) for params in candidates]
        numbers = range(self._n_trained - len(models), self._n_trained)
        randomness = self._randomness.of(numbers)
        tasks = [(model, self.data, *own) for model, own in zip(models, randomness, strict=True)]
        return run_isolated(_losses_of_training, tasks, **self._parallel)

    def totals(self, candidates, *, none_may_be_left):
        """Return the total loss of the last model, in a list. Protected."""
        (params,) = candidates  # the end point, the only one with a released score
        losses = in_isolation(losses_of, self.last_model(params), self.data.rows, self.scorer)
        return [int(losses.sum())]

    def can_end(self, params):
        """Whether the released model may have these parameters: its cost is the stated one."""
        return self._plan.last is None or self._model(params, self._plan.last) is not None

    def last_model(self, params):
        """Return the model that is released, None if its training failed; trained once.

        Parameters
        ----------
        params : dict
            Released.
        """
        if not self._last:
            plan = self._plan
            # A number above those of all trainings: no stream of randomness is used twice.
            (own,) = self._randomness.of([plan.n_trainings])
            model = self._model(params, plan.last)
            self._last = (in_isolation(attempted_model, model, self.data, *own),)
        return self._last[0]

    def _model(self, params, budget):
        """Return the model to train, None if its cost is not the stated one."""
        return self._plan.model(params, budget, groups=self.data.rows[2] is not None)


def _losses_of_training(model, data, seeded, sequence):
    """Protected: return the losses of the validation rows by a model trained now."""
    model = attempted_model(model, data, seeded, sequence)
    return losses_of(model, data.rows, data.scorer)
