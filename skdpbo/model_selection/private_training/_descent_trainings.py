"""Private trainings of a descent: their budget, from public numbers alone, and their losses.

Theorem (docs/theory/private_descent.md): b T trainings of mu_a and one of mu_z cost
training records mu with b T mu_a^2 + mu_z^2 = mu^2; validation records pay for gradients and score
alone. A record is in one part, so that both may cost the whole.

Nothing leaves a training but the losses, which go into a gradient with noise, and of the last one
the model.
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

# Share of the released model in the squared budget of the training records.
_LAST_SHARE = 0.5


@dataclass(frozen=True, kw_only=True)
class TrainingsPlan(TrialPlan):
    """Public plan of a descent with private trainings; ``budget`` is that of one in a step.

    Attributes
    ----------
    last : PrivacyGuarantee or None
        Budget of the training of the released model; None where there is none.
    stated : tuple of PrivacyGuarantee
        What one training states with the parameters of the start: in a step, and the last one.
    n_trainings : int
        Largest number of trainings of the steps.
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
        """Return a model with its budget set, None where its cost is not what has been stated.

        Parameters
        ----------
        params : dict
            Released.
        budget : PrivacyGuarantee
            `budget` or `last`.
        groups : bool, default=False
            Whether it is trained with groups, whose cost has been stated, too.
        """
        # An error would end the fit after the charge; the parameters are released.
        found, _ = attempt(_priced, self.estimator, params, budget, self.n_samples)
        if found is None:
            return None
        (model, cost), number = found, [self.budget, self.last].index(budget)
        known = _covered(cost, self.stated[number])
        if known and groups:
            # Beside the model of the plan, whose cost for a group is in the guarantee.
            both = [model, self.models[number]]
            costs, _ = attempt(costs_of_groups, both, self.n_samples)
            known = costs is not None and _covered(*(of_group for _, of_group in costs))
        return model if known else None


def _covered(cost, stated):
    """Whether a cost rests on no more than what has been stated."""
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
        Of the steps.
    releases_model : bool
        Whether one more model is trained in the end.
    release : PrivacyGuarantee
        Of gradients and score, for the validation records: with the epsilon and delta of the whole.
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
        # Equal parts of mu^2, as all steps need gradients of one precision.
        budget = gaussian_budget(float(step_budgets(mu, n_trainings)[0]), delta)
        budgets = [budget] if last is None else [budget, last]
        models, costs = zip(
            *(_priced(estimator, start, each, n_samples) for each in budgets), strict=True
        )
        try:
            trainings = compose(*[costs[0]] * n_trainings, *costs[1:], delta=delta)
        except ValueError:  # no epsilon holds at this delta: less noise-free mass is needed
            continue
        if trainings.epsilon <= epsilon:
            return TrainingsPlan(
                models=list(models),
                rule=PublishedScores(n_trainings),
                budget=budget,
                guarantee=_joined(trainings, release, costs, n_trainings),
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


def _priced(estimator, params, budget, n_samples):
    """Return a model whose steps have a budget, and what one training of it states."""
    model = with_params(estimator, params)
    costs = StatedCosts([model], [params], budget.delta, n_samples)
    if costs.kind == "approximate":
        raise ValueError(
            f"{type(estimator).__name__} states an (epsilon, delta) without a mu, of which many "
            "trainings cost too much: a descent needs trainings that are mu-GDP or pure. Use "
            "DPRandomizedSearchCV."
        )
    return model, costs.trial(budget)


def _joined(trainings, release, costs, n_trainings):
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
        # What the release assumes of public rows has no meaning here; the rest is in ASSUMPTIONS.
        # That no record, or group, is in both parts is stated where the rows are not cut here.
        assumptions=tuple(dict.fromkeys([*ASSUMPTIONS, UNWATCHED, *trainings.assumptions])),
    )


class DescentTrainings(NotPickled):
    """Evaluator of a descent: every model is trained anew, with noise of its own.

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
            Not used: why a training failed is protected, and every record then has the worst loss.
        """
        # Counted before anything is trained: a training that fails has been paid for, too.
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
        (params,) = candidates  # the end, whose model is released: no other has a score
        losses = in_isolation(losses_of, self.last_model(params), self.data.rows, self.scorer)
        return [int(losses.sum())]

    def can_end(self, params):
        """Whether the model that is released may have these released parameters.

        Not where its cost is not what has been stated. That of the start is.
        """
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
            # The number after those of all trials: no stream of randomness is used twice.
            (own,) = self._randomness.of([plan.n_trainings])
            model = self._model(params, plan.last)
            self._last = (in_isolation(attempted_model, model, self.data, *own),)
        return self._last[0]

    def _model(self, params, budget):
        """Return what is trained, None where its cost is not known: a function of `params`."""
        return self._plan.model(params, budget, groups=self.data.rows[2] is not None)


def _losses_of_training(model, data, seeded, sequence):
    """Protected: return the losses of the validation rows by a model trained now."""
    model = attempted_model(model, data, seeded, sequence)
    return losses_of(model, data.rows, data.scorer)
