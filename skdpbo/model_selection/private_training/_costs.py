"""Cost of training each candidate, as stated by its private steps.

The ``kind`` of the costs is determined first. Then the budget of one trial is given to the private
steps, and their costs are computed again.

A private step states its cost for finite rows: if an earlier step overflows on one record, that
record decides whether there is a model, and no noise hides that.
"""

import math
import numbers
from dataclasses import replace

import numpy as np
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
)

from skdpbo.model_selection.evaluation._row_wise import step_name
from skdpbo.model_selection.private_training._estimators import (
    always,
    is_private,
    nodes,
    private_steps,
)
from skdpbo.model_selection.private_training._statements import (
    stated_guarantee,
    voided_by_seeds,
)
from skdpbo.privacy import PrivacyGuarantee, epsilon_from_mu
from skdpbo.privacy._conversions import mu_from_pure_epsilon, pure_epsilon_from_mu
from skdpbo.privacy._guarantee import joint_terms
from skdpbo.privacy.selection._selection_total import distance_cost

# Shares of the budget left unused, tried in turn until the cost is at most the request.
UNUSED_SHARES = (0.0, *(2.0**-k for k in (50, 40, 30, 20, 10, 5, 2)))


def gaussian_budget(mu, delta):
    """Return the mu-GDP guarantee at `delta`, or at a smaller one until epsilon is positive."""
    # A tiny mu is (0, delta)-DP already at this delta.
    epsilon = epsilon_from_mu(mu, delta)
    while not epsilon > 0:
        delta /= 2
        epsilon = epsilon_from_mu(mu, delta)
    return PrivacyGuarantee(epsilon=epsilon, delta=delta, mu=mu)


def kind_of(guarantees):
    """Return the kind of the costs: "gaussian", "pure" or "approximate"."""
    kinds = {
        "pure" if g.delta == 0 else "approximate" if g.mu is None else "gaussian"
        for g in guarantees
    }
    # The weakest kind: a pure cost is also mu-GDP, and every cost is an (epsilon, delta).
    for kind in ("approximate", "gaussian"):
        if kind in kinds:
            return kind
    return "pure"


def within(cost, budget):
    """Whether a cost is at most a budget."""
    if budget.mu is None:
        return cost.epsilon <= budget.epsilon and cost.delta <= budget.delta
    # A pure cost need not state a mu: use that of its epsilon.
    mu = cost.mu if cost.delta > 0 else mu_from_pure_epsilon(cost.epsilon)
    return mu <= budget.mu


def costs_of_groups(models, n_samples):
    """Return the costs (of a record, of a group) of one fit of each model.

    Parameters
    ----------
    models : list of estimator
        Their budgets are set.
    n_samples : int or None

    Raises
    ------
    ValueError
        If a fit costs a group more than a record.
    """
    costs = [
        tuple(stated_guarantee(model, n_samples, groups=groups) for groups in (False, True))
        for model in models
    ]
    for model, (of_record, of_group) in zip(models, costs, strict=True):
        # Budgets are calibrated on one record; a group that cost more would exceed the total.
        if any(np.greater(_sizes(of_group), _sizes(of_record))):
            raise ValueError(
                f"groups are not supported with {type(model).__name__}, whose "
                "privacy_guarantee(groups=True) is larger than its privacy_guarantee()."
            )
    return costs


def _sizes(cost):
    """Return the numbers of a cost, each of which grows with the privacy loss."""
    mu = math.inf if cost.mu is None else cost.mu
    return cost.epsilon, cost.delta, mu, cost.statistical_distance


def merged_trial(budget, candidates, mechanism):
    """Return the guarantee of one trial: the budget, with the assumptions of all candidates.

    Parameters
    ----------
    budget : PrivacyGuarantee
    candidates : list of list of PrivacyGuarantee
        Costs of the steps of each candidate.
    mechanism : str
    """
    costs = [cost for steps in candidates for cost in steps]
    distance = max(math.fsum(cost.statistical_distance for cost in steps) for steps in candidates)
    # Delta includes the statistical distance; the privacy profile itself is that of mu.
    extra = distance_cost(budget.epsilon, distance)
    return replace(
        budget,
        delta=budget.delta + extra * (1 + 1e-9) if budget.mu is not None else budget.delta,
        statistical_distance=distance if budget.mu is not None else 0.0,
        protects="training and validation records",
        mechanism=mechanism,
        **joint_terms(costs),
    )


class StatedCosts:
    """Costs of candidates whose private steps state them and can be set to a budget.

    Parameters
    ----------
    models : list of estimator
        One for each candidate; their budgets are set.
    candidates : list of dict
    delta : float
        Of the whole.
    n_samples : int or None
        Number of training rows.

    Attributes
    ----------
    delta : float
        Smallest delta of a trial: 0, as it can be set.
    kind : {"gaussian", "pure", "approximate"}
    """

    delta = 0.0

    def __init__(self, models, candidates, delta, n_samples):
        self._n_samples = n_samples
        self._models = models
        self._steps = [private_steps(model) for model in models]
        # A candidate that set its own epsilon would be trained at another cost than the charge.
        for steps, params in zip(self._steps, candidates, strict=True):
            budgets = {prefix + name for prefix in steps for name in ("epsilon", "delta")}
            taken = sorted(budgets & set(params))
            if taken:
                raise ValueError(
                    f"{taken[0]!r} cannot be tuned: the search sets the budget of every private "
                    "step from its own epsilon and delta."
                )
        for model in models:
            # Else the type of the output would depend on the share of zeros in protected values.
            for value in (model, *model.get_params(deep=True).values()):
                if isinstance(value, ColumnTransformer):
                    value.set_params(sparse_threshold=0)
        # At epsilon 1, as no budget is known yet: the kind is assumed not to depend on epsilon.
        self.kind = kind_of(
            self._stated(step, 1.0, delta) for steps in self._steps for step in steps.values()
        )

    def trial(self, budget):
        """Set the budget of every step; return the guarantee of one trial."""
        # Each of k steps gets 1 / k of the (squared) budget, and states its guarantee again.
        candidates = [
            [self._fitting(step, _share(budget, len(steps))) for step in steps.values()]
            for steps in self._steps
        ]
        of_steps = (filter(None, (cost.mechanism for cost in steps)) for steps in candidates)
        names = dict.fromkeys(" + ".join(dict.fromkeys(steps)) for steps in of_steps)
        mechanism = " or ".join(filter(None, names)) or "a private training"
        trial = merged_trial(budget, candidates, mechanism)
        for model in self._models:
            if trial.status != "void":
                trial = voided_by_seeds(trial, model)
        risky = dict.fromkeys(name for model in self._models for name in risky_steps(model))
        return trial.assuming(finite_assumption(risky), status="conditional") if risky else trial

    def _fitting(self, step, share):
        epsilon = share.epsilon
        for unused in UNUSED_SHARES:
            cost = self._stated(step, epsilon * (1 - unused), share.delta)
            # A pure step that is mu-GDP has a smaller epsilon than the share has at its delta.
            if unused == 0 and share.mu is not None and cost.delta == 0:
                epsilon = pure_epsilon_from_mu(share.mu)
                cost = self._stated(step, epsilon, share.delta)
            if within(cost, share):
                return cost
        raise ValueError(
            f"{type(step).__name__} states epsilon={cost.epsilon:.6g}, delta={cost.delta:.6g} "
            f"where at most epsilon={share.epsilon:.6g}, delta={share.delta:.6g} was requested: "
            "declare what one fit costs with PrivateSelection(estimator_guarantee=...)."
        )

    def _stated(self, step, epsilon, delta):
        """Set the budget of a step and return its stated guarantee."""
        names = step.get_params(deep=False)
        if "epsilon" not in names:
            raise ValueError(
                f"{type(step).__name__} has no parameter epsilon to set its budget with: declare "
                "what one fit costs with estimator_guarantee."
            )
        step.set_params(epsilon=epsilon, **({"delta": delta} if "delta" in names else {}))
        return stated_guarantee(step, self._n_samples)


def _share(budget, n_steps):
    """Return the budget of each private step of a trial, by composition."""
    if n_steps == 1:
        return budget
    if budget.mu is not None:
        # mu^2 adds up (Dong, Roth & Su 2022, Corollary 3.3); the last factor covers rounding.
        return gaussian_budget(budget.mu / math.sqrt(n_steps) * (1 - 1e-12), budget.delta)
    part = (1 - 1e-12) / n_steps
    return PrivacyGuarantee(epsilon=budget.epsilon * part, delta=budget.delta * part)


def _codes_are_finite(step):
    # A missing value that is a category is encoded by `encoded_missing_value`, NaN by default.
    missing = any(
        category is None or category != category
        for of_column in step.categories
        for category in of_column
    )
    codes = [step.unknown_value] + [step.encoded_missing_value] * missing
    return all(isinstance(code, numbers.Real) and np.isfinite(code) for code in codes)


# Checked with the largest and smallest numbers and with any hashable object. All other steps
# multiply or call a function, and overflow or raise for some finite row.
_KEEP_FINITE = {
    Binarizer: always,
    FunctionTransformer: lambda step: step.func is None,
    Normalizer: always,
    OneHotEncoder: always,
    OrdinalEncoder: _codes_are_finite,
}


def risky_steps(estimator):
    """Return the names of the steps, not private, that may not keep a finite row finite.

    Parameters
    ----------
    estimator : estimator
        Accepted by `private_steps`; not fitted.

    Returns
    -------
    names : list of str
    """
    names = []
    for prefix, step, inner in nodes(estimator):
        if type(step) is TransformedTargetRegressor:
            # Its fit also inverts some targets, as a check.
            functions = [f for f in ("func", "inverse_func") if getattr(step, f) is not None]
            names += [f"{function} of {step_name(step, prefix)}" for function in functions]
        keeps = is_private(step) or inner is not None
        if not keeps and not _KEEP_FINITE.get(type(step), lambda step: False)(step):
            names.append(step_name(step, prefix))
    return names


def finite_assumption(names):
    """Return the text of the assumption that a guarantee makes on `risky_steps`."""
    return f"every record stays finite, and raises no error or warning, in {', '.join(names)}"
