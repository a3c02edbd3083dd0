"""What every trial costs and what the whole costs: decided before any protected row is seen.

The budget is calibrated from the total: how much one trial may cost under the selection rule; then
every candidate's private steps share that and are asked again what they promise. Training and
validation rows are disjoint, so that the score of a trial may cost as much as its training.
"""

from dataclasses import dataclass, replace

from sklearn.base import clone

from skdpbo.model_selection._dp_estimators import check_discretion
from skdpbo.model_selection._private_selection import (
    BestOfTrials,
    PublishedScores,
    largest_trial_epsilon,
    selection_rule,
)
from skdpbo.model_selection._trial_costs import (
    HAIRCUTS,
    DeclaredCosts,
    StatedCosts,
    gaussian_budget,
)
from skdpbo.privacy import PrivacyGuarantee, check_delta, check_epsilon

__all__ = ["TrialPlan", "plan_trials", "prefers_composition"]

_ASSUMPTIONS = (
    "the stated guarantee of the estimator covers the whole fitted model and whether training "
    "fails",
    "every step of the estimator transforms and predicts each row from that row alone",
    "the numbers of rows and of columns, the column names and the types (with the categories of "
    "categorical columns) are public",
)
_UNSEEN_TRIALS = "the number of trials, the running time and the use of memory are not observed"
_OF_SELECTION = "the number of trials stays secret"
_UNWATCHED = "running time and memory use are not observed"


@dataclass(frozen=True)
class TrialPlan:
    """Public plan of a fit.

    Attributes
    ----------
    models : list of estimator
        One for each candidate, not fitted, with its budget set.
    rule : BestOfTrials or PublishedScores
    budget : PrivacyGuarantee
        Of the training, and of the score, of one trial.
    guarantee : PrivacyGuarantee
        Of the whole, with secret noise.
    """

    models: list
    rule: BestOfTrials | PublishedScores
    budget: PrivacyGuarantee
    guarantee: PrivacyGuarantee

    @property
    def own_assumptions(self):
        """Assumptions that not every plan rests on; of a void guarantee, with the reason."""
        usual = (*_ASSUMPTIONS, _UNSEEN_TRIALS, _UNWATCHED)
        return [text for text in self.guarantee.assumptions if text not in usual]


def plan_trials(searcher, candidates, n_samples):
    """Calibrate the trials of a searcher from its epsilon and delta.

    Parameters
    ----------
    searcher : BasePrivateSearchCV
        `estimator`, `selection`, `estimator_guarantee`, `epsilon` and `delta` are read.
    candidates : list of dict
    n_samples : int or None
        Number of training rows, for estimators whose cost depends on it.

    Returns
    -------
    plan : TrialPlan

    Raises
    ------
    ValueError, TypeError
        If the estimator is not private, or its cost does not fit.
    """
    rule = selection_rule(searcher.selection, len(candidates))
    total = check_epsilon(searcher.epsilon, "epsilon"), check_delta(searcher.delta, "delta")
    models = [
        clone(searcher.estimator).set_params(**clone(params, safe=False)) for params in candidates
    ]
    for model in models:
        check_discretion(model)
    if searcher.estimator_guarantee is None:
        costs = StatedCosts(models, candidates, total[1], n_samples)
    else:
        costs = DeclaredCosts(models, candidates, searcher.estimator_guarantee, n_samples)
    return _calibrated(rule, costs, models, *total)


def _calibrated(rule, costs, models, epsilon, delta):
    for haircut in HAIRCUTS:
        budget = trial_budget(rule, costs, epsilon, delta, haircut)
        trial = costs.trial(budget)
        try:
            whole = rule.total(trial, delta)
        except ValueError:  # no epsilon holds at this delta: less noise-free mass is needed
            continue
        if whole.epsilon <= epsilon:
            return TrialPlan(models, rule, budget, _statement(rule, trial, whole, epsilon))
    raise ValueError(
        f"The estimator does not fit a total of epsilon={float(epsilon):.6g}, delta={delta:.6g}."
    )


def trial_budget(rule, costs, epsilon, delta, haircut=0.0):
    """What the training or the score of one trial may cost, of the kind that `costs` has."""
    if costs.kind == "gaussian":
        if not delta > 0:
            raise ValueError("delta must be positive: the training is not pure, or not stated so.")
        return gaussian_budget(rule.trial_mu(epsilon, delta) * (1 - haircut), delta)
    if costs.kind == "pure":
        return PrivacyGuarantee(epsilon=largest_trial_epsilon(rule, epsilon, delta) * (1 - haircut))
    if not delta > 0:
        raise ValueError("delta must be positive: the training has a positive delta.")
    trial_delta = costs.delta or rule.trial_delta(delta)
    trial_epsilon = largest_trial_epsilon(rule, epsilon, delta, trial_delta) * (1 - haircut)
    return PrivacyGuarantee(epsilon=trial_epsilon, delta=trial_delta)


def prefers_composition(plan, epsilon, delta):
    """Whether publishing every score is the better choice, from public numbers alone.

    It is where it leaves each trial at least as large a budget, and for two candidates: there the
    budgets are about equal (within 12 %), and no candidate is missed.
    """
    if plan.rule.publishes_scores:
        return False
    published = PublishedScores(len(plan.models))
    if len(plan.models) <= 2:
        return True
    if plan.budget.mu is not None:
        return published.trial_mu(epsilon, delta) >= plan.budget.mu
    try:
        trial_epsilon = largest_trial_epsilon(published, epsilon, delta, plan.budget.delta)
    except ValueError:
        return False
    return trial_epsilon >= plan.budget.epsilon


def _statement(rule, trial, whole, epsilon):
    if rule.publishes_scores:
        how = f"composition of {rule.n_candidates} trainings and scores, all of them published"
    else:
        how = f"best of a secret number of trials ({rule.expected_trials:.4g} expected)"
    own = (_UNWATCHED if rule.publishes_scores else _UNSEEN_TRIALS,)
    said = (_UNWATCHED, _OF_SELECTION) if not rule.publishes_scores else ()
    theirs = (text for text in whole.assumptions if text not in said)
    return replace(
        whole,
        epsilon=epsilon,
        protects="training and validation records",
        mechanism=f"{how}, each {trial.mechanism}",
        assumptions=tuple(dict.fromkeys([*_ASSUMPTIONS, *own, *theirs])),
    )
