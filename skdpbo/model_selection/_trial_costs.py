"""What the training of every candidate costs: stated by its private steps, or declared by the user.

Both kinds are asked for their ``kind`` first, then given the budget of one trial: stated costs are
set to it and asked again what they promise; declared ones are compared with it.
"""

import math
from dataclasses import replace

from scipy.special import log_ndtr
from sklearn.base import clone
from sklearn.compose import ColumnTransformer

from skdpbo.model_selection._dp_estimators import (
    declared_guarantee,
    private_steps,
    stated_guarantee,
    voided_by_seeds,
)
from skdpbo.model_selection._finite_steps import finiteness_assumption, risky_steps
from skdpbo.privacy import PrivacyGuarantee, epsilon_from_mu, mu_from_pure_epsilon

__all__ = ["HAIRCUTS", "DeclaredCosts", "StatedCosts", "gaussian_budget"]

# How much of the budget is left unused, in turn, when a cost comes out above what was asked for.
HAIRCUTS = (0.0, *(2.0**-k for k in (50, 40, 30, 20, 10, 5, 2)))
_STATUSES = ("proved", "conditional", "void")
_DECLARED = "one fit of the estimator costs what estimator_guarantee says, whatever the records are"


def gaussian_budget(mu, delta):
    """The mu-GDP guarantee at `delta`, or at a smaller one if no positive epsilon is there."""
    epsilon = epsilon_from_mu(mu, delta)
    while not epsilon > 0:
        delta /= 2
        epsilon = epsilon_from_mu(mu, delta)
    return PrivacyGuarantee(epsilon=epsilon, delta=delta, mu=mu)


def kind_of(guarantees):
    """How costs are counted: "gaussian", "pure" or "approximate"."""
    kinds = {
        "pure" if g.delta == 0 else "approximate" if g.mu is None else "gaussian"
        for g in guarantees
    }
    for kind in ("approximate", "gaussian"):
        if kind in kinds:
            return kind
    return "pure"


def within(cost, budget):
    """Whether a cost is at most a budget."""
    if budget.mu is None:
        return cost.epsilon <= budget.epsilon and cost.delta <= budget.delta
    return as_mu(cost) <= budget.mu


def as_mu(cost):
    """Mu of a Gaussian or of a pure guarantee."""
    return cost.mu if cost.delta > 0 else mu_from_pure_epsilon(cost.epsilon)


def merged_trial(budget, candidates, mechanism):
    """Statement of one trial: the budget, on all that the candidates' costs rest on.

    Parameters
    ----------
    budget : PrivacyGuarantee
    candidates : list of list of PrivacyGuarantee
        Costs of the steps of each candidate.
    mechanism : str
    """
    costs = [cost for steps in candidates for cost in steps]
    distance = max(math.fsum(cost.statistical_distance for cost in steps) for steps in candidates)
    # Delta states the distance as well; the curve itself is that of mu.
    extra = (1 + math.exp(min(budget.epsilon, 700.0))) * distance
    return replace(
        budget,
        delta=budget.delta + extra * (1 + 1e-9) if budget.mu is not None else budget.delta,
        statistical_distance=distance if budget.mu is not None else 0.0,
        protects="training and validation records",
        mechanism=mechanism,
        assumptions=tuple(dict.fromkeys(text for g in costs for text in g.assumptions)),
        status=max((g.status for g in costs), key=_STATUSES.index),
        reference="; ".join(dict.fromkeys(g.reference for g in costs if g.reference)),
    )


class StatedCosts:
    """Candidates whose private steps state what they cost, and are set to a budget.

    Parameters
    ----------
    models : list of estimator
        One for each candidate; their budgets are set.
    candidates : list of dict
    delta : float
        Of the whole.
    n_samples : int or None
    """

    delta = 0.0

    def __init__(self, models, candidates, delta, n_samples):
        self._n_samples = n_samples
        self._models = models
        self._steps = [private_steps(model) for model in models]
        for steps, params in zip(self._steps, candidates, strict=True):
            _check_budgets_are_free(steps, params)
        for model in models:
            _set_sparse_thresholds(model)
        self.kind = kind_of(
            self._stated(step, 1.0, delta) for steps in self._steps for step in steps.values()
        )

    def trial(self, budget):
        """Set the budget of every step; return the statement of one trial."""
        candidates = [self._set(steps, budget) for steps in self._steps]
        names = dict.fromkeys(cost.mechanism for steps in candidates for cost in steps)
        mechanism = " or ".join(filter(None, names)) or "a private training"
        trial = merged_trial(budget, candidates, mechanism)
        for model in self._models:
            if trial.status != "void":
                trial = voided_by_seeds(trial, model)
        risky = dict.fromkeys(name for model in self._models for name in risky_steps(model))
        return _conditional(trial, finiteness_assumption(risky)) if risky else trial

    def _set(self, steps, budget):
        """Give each of k steps 1 / k of the (squared) budget, and ask again what it promises."""
        share = _share(budget, len(steps))
        return [self._fitting(step, share) for step in steps.values()]

    def _fitting(self, step, share):
        epsilon = share.epsilon
        for haircut in HAIRCUTS:
            cost = self._stated(step, epsilon * (1 - haircut), share.delta)
            if haircut == 0 and share.mu is not None and cost.delta == 0:
                # A pure step: randomised response of that mu (see mu_from_pure_epsilon) inverted.
                epsilon = float(log_ndtr(share.mu / 2) - log_ndtr(-share.mu / 2))
                cost = self._stated(step, epsilon, share.delta)
            if within(cost, share):
                return cost
        raise ValueError(
            f"{type(step).__name__} states epsilon={cost.epsilon:.6g}, delta={cost.delta:.6g} "
            f"where at most epsilon={share.epsilon:.6g}, delta={share.delta:.6g} was asked for: "
            "declare what one fit costs with estimator_guarantee."
        )

    def _stated(self, step, epsilon, delta):
        """Set the budget of a step and ask what it promises."""
        names = step.get_params(deep=False)
        if "epsilon" not in names:
            raise ValueError(
                f"{type(step).__name__} has no parameter epsilon to set its budget with: declare "
                "what one fit costs with estimator_guarantee."
            )
        step.set_params(epsilon=epsilon, **({"delta": delta} if "delta" in names else {}))
        return stated_guarantee(step, self._n_samples)


class DeclaredCosts:
    """Candidates whose cost the user declares; it is taken as it is.

    Parameters
    ----------
    models, candidates, n_samples
        As for `StatedCosts`.
    declaration : PrivacyGuarantee or callable
    """

    def __init__(self, models, candidates, declaration, n_samples):
        if not callable(declaration) and not isinstance(declaration, PrivacyGuarantee):
            raise TypeError(
                "estimator_guarantee must be a PrivacyGuarantee or a callable, got "
                f"{type(declaration).__name__}."
            )
        if not callable(declaration):
            _check_fixed_costs(candidates)
        self._costs = [declared_guarantee(declaration, clone(m), n_samples) for m in models]
        self.kind = kind_of(self._costs)
        self.delta = max(cost.delta for cost in self._costs)

    def trial(self, budget):
        """Check that every candidate fits; return the statement of one trial."""
        for cost in self._costs:
            if not within(cost, budget):
                raise ValueError(_does_not_fit(cost, budget))
        trial = merged_trial(
            budget, [[c] for c in self._costs], "a training whose cost was declared"
        )
        return _conditional(trial, _DECLARED)


def _conditional(trial, assumption):
    """The statement of a trial that rests on a further assumption, which nobody has checked."""
    status = max(trial.status, "conditional", key=_STATUSES.index)
    return replace(trial, status=status, assumptions=(assumption, *trial.assumptions))


def _does_not_fit(cost, budget):
    at_most = f"epsilon={budget.epsilon:.6g}, delta={budget.delta:.6g}"
    if budget.mu is not None:
        at_most = f"mu={budget.mu:.6g} ({at_most})"
    return (
        f"One fit of the estimator costs epsilon={cost.epsilon:.6g}, delta={cost.delta:.6g}"
        f"{'' if cost.mu is None else f', mu={cost.mu:.6g}'} by estimator_guarantee, and at most "
        f"{at_most} fits the total: train with less, or raise epsilon."
    )


def _check_budgets_are_free(steps, params):
    budgets = {prefix + name for prefix in steps for name in ("epsilon", "delta")}
    taken = sorted(budgets & set(params))
    if taken:
        raise ValueError(
            f"{taken[0]!r} cannot be tuned: the search sets the budget of every private step from "
            "its own epsilon and delta."
        )


def _check_fixed_costs(candidates):
    for key in {key for params in candidates for key in params}:
        if key.split("__")[-1] in ("epsilon", "delta"):
            raise ValueError(
                f"{key!r} cannot be tuned while estimator_guarantee is one guarantee for all "
                "candidates: give a callable, which is asked for each of them."
            )


def _set_sparse_thresholds(model):
    """Without it, the share of zeros among protected values would decide on the output's type."""
    if isinstance(model, ColumnTransformer):
        model.set_params(sparse_threshold=0)
    for value in model.get_params(deep=True).values():
        if isinstance(value, ColumnTransformer):
            value.set_params(sparse_threshold=0)


def _share(budget, n_steps):
    """Part of a trial's budget for each of its private steps, by composition."""
    if n_steps == 1:
        return budget
    if budget.mu is not None:
        return gaussian_budget(budget.mu / math.sqrt(n_steps) * (1 - 1e-12), budget.delta)
    part = (1 - 1e-12) / n_steps
    return PrivacyGuarantee(epsilon=budget.epsilon * part, delta=budget.delta * part)
