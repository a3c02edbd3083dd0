"""Budget of each trial, of the final training and of the whole, before any protected row is read.

From the total, the selection rule gives the budget of one trial. The private steps of every
candidate share it and state their guarantees again. Training and validation rows are disjoint, so
that the score of a trial may cost as much as its training.

The winner may be trained again with the whole budget, on rows that took no part in the choice:
tuning and final training read disjoint rows, so that each may cost the whole budget (parallel
composition; docs: private selection, "Tune on a part").
"""

from dataclasses import dataclass, replace

from skdpbo.model_selection._sklearn import with_params
from skdpbo.model_selection.private_training._costs import (
    UNUSED_SHARES,
    StatedCosts,
    gaussian_budget,
)
from skdpbo.model_selection.private_training._declared_costs import declared_costs
from skdpbo.model_selection.private_training._selection_rules import (
    BestOfTrials,
    PrivateSelection,
    PublishedScores,
    largest_trial_epsilon,
)
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import check_delta, check_positive
from skdpbo.privacy._guarantee import joint_terms

ASSUMPTIONS = (
    "the stated guarantee of the estimator covers the whole fitted model and whether training "
    "fails",
    "every step of the estimator transforms and predicts each row from that row alone",
    "the numbers of rows and of columns, the column names and the types (with the categories of "
    "categorical columns) are public",
)
_UNSEEN_TRIALS = "the number of trials is not observed"
_OF_SELECTION = "the number of trials stays secret"
UNWATCHED = "running time and memory use are not observed"


@dataclass(frozen=True)
class TrialPlan:
    """Public plan of a fit.

    Attributes
    ----------
    models : list of estimator
        One for each candidate, not fitted, with its budget set.
    rule : BestOfTrials or PublishedScores
    budget : PrivacyGuarantee
        Of the training of one trial, and again of its score.
    guarantee : PrivacyGuarantee
        Of the whole, if the noise is secret.
    composes : bool
        Whether ``accounting="composition"`` is possible, too.
    releases_model : bool
    """

    models: list
    rule: BestOfTrials | PublishedScores
    budget: PrivacyGuarantee
    guarantee: PrivacyGuarantee
    composes: bool = True
    releases_model: bool = True

    @property
    def own_assumptions(self):
        """Assumptions beyond those of every plan; the reason, too, if the guarantee is void."""
        usual = (*ASSUMPTIONS, _UNSEEN_TRIALS, UNWATCHED)
        return [text for text in self.guarantee.assumptions if text not in usual]


def plan_trials(estimator, candidates, selection, *, epsilon, delta, n_samples):
    """Calibrate trials to the epsilon and delta of the whole.

    Parameters
    ----------
    estimator : estimator
    candidates : list of dict
    selection : PrivateSelection
    epsilon, delta : float
    n_samples : int or None
        Number of training rows, for estimators whose cost depends on it.

    Returns
    -------
    plan : TrialPlan

    Raises
    ------
    ValueError, TypeError
        If the estimator is not private, or its cost exceeds the budget.
    """
    # Parameters are checked before the charge: afterwards errors would cost the budget.
    selection.check()
    n = len(candidates)
    composes = selection.accounting == "composition"
    rule = PublishedScores(n) if composes else BestOfTrials(selection, n)
    total = check_positive(epsilon, "epsilon"), check_delta(delta, "delta")
    # with_params clones: candidates that shared a nested estimator would share its budget.
    models = [with_params(estimator, params) for params in candidates]
    if selection.estimator_guarantee is None:
        costs = StatedCosts(models, candidates, total[1], n_samples)
    else:
        costs = declared_costs(models, candidates, selection.estimator_guarantee, n_samples)
    return _calibrated(rule, costs, models, *total)


def _calibrated(rule, costs, models, epsilon, delta):
    if rule.publishes_scores:
        name = f"composition of {rule.n_candidates} trainings and scores, all of them published"
    else:
        name = f"best of a secret number of trials ({rule.expected_trials:.4g} expected)"
    own = (UNWATCHED,) if rule.publishes_scores else (_UNSEEN_TRIALS, UNWATCHED)
    for unused in UNUSED_SHARES:
        budget = trial_budget(rule, costs, epsilon, delta, unused)
        trial = costs.trial(budget)
        try:
            whole = rule.total(trial, delta)
        except ValueError:  # no epsilon holds at this delta: try a smaller budget
            continue
        # The total is computed again from the statements, as the calibration may round.
        if whole.epsilon <= epsilon:
            # `_OF_SELECTION` is the same assumption as `_UNSEEN_TRIALS`.
            theirs = (text for text in whole.assumptions if text != _OF_SELECTION)
            statement = replace(
                whole,
                epsilon=epsilon,  # as requested, and at least that of `whole`
                protects="training and validation records",
                mechanism=f"{name}, each {trial.mechanism}",
                assumptions=tuple(dict.fromkeys([*ASSUMPTIONS, *own, *theirs])),
            )
            return TrialPlan(models, rule, budget, statement, costs.kind != "profile")
    raise ValueError(
        f"The estimator does not fit a total of epsilon={float(epsilon):.6g}, "
        f"delta={delta:.6g}: raise epsilon or delta."
    )


def trial_budget(rule, costs, epsilon, delta, unused=0.0):
    """Return the budget of the training, and of the score, of one trial, by the kind of `costs`."""
    if costs.kind == "profile":
        budget = costs.score_budget(rule, epsilon, delta)
        return gaussian_budget(budget.mu * (1 - unused), budget.delta)
    if costs.kind == "gaussian":
        if not delta > 0:
            raise ValueError("delta must be positive: the training is not pure, or not stated so.")
        return gaussian_budget(rule.trial_mu(epsilon, delta) * (1 - unused), delta)
    if costs.kind == "pure":
        return PrivacyGuarantee(epsilon=largest_trial_epsilon(rule, epsilon, delta) * (1 - unused))
    if not delta > 0:
        raise ValueError("delta must be positive: the training has a positive delta.")
    # A declared delta is fixed. A stated one is set, to use half of the total delta, or all of it
    # if there is nothing to compose.
    is_single = rule.publishes_scores and rule.n_candidates == 1
    trial_delta = costs.delta or (delta if is_single else delta / (2 * rule.expected_trials))
    trial_epsilon = largest_trial_epsilon(rule, epsilon, delta, trial_delta) * (1 - unused)
    return PrivacyGuarantee(epsilon=trial_epsilon, delta=trial_delta)


def prefers_composition(plan, epsilon, delta):
    """Whether publishing every score is the better choice, from public numbers alone.

    True if it gives each trial at least as large a budget, and for two candidates: their budgets
    are about equal (within 12 % at epsilon .05 to 10, delta 1e-5), and no candidate is missed.
    """
    if plan.rule.publishes_scores or not plan.composes:
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


SCORED_SHARE = 0.4  # share of the tuning rows that scores; the others train
_AUTO_SHARE = 0.25
_LEAST_ROWS, _LEAST_ROWS_TIMES_EPSILON = 1000, 12_000  # measured: see the theory page


def tuning_share(selection, n_samples, n_candidates, epsilon):
    """Return the share of the rows that is used for tuning, from public values; None if all are.

    Parameters
    ----------
    selection : PrivateSelection
    n_samples : int or None
    n_candidates : int
    epsilon : float
    """
    selection.check()
    fraction = selection.tuning_fraction
    if not isinstance(fraction, str):
        return None if fraction is None else float(fraction)
    declared = selection.estimator_guarantee is not None  # its cost cannot be raised
    published = selection.accounting == "composition"
    if declared or published or n_samples is None or n_candidates < 2 or n_samples < _LEAST_ROWS:
        return None
    return _AUTO_SHARE if n_samples * epsilon >= _LEAST_ROWS_TIMES_EPSILON else None


def largest_cost(guarantees):
    """Return the first guarantee with the largest cost and the joint assumptions of all."""
    mus = [g.mu for g in guarantees]
    largest = {
        name: max(getattr(g, name) for g in guarantees)
        for name in ("epsilon", "delta", "statistical_distance")
    }
    largest |= joint_terms(guarantees) | {"reference": guarantees[0].reference}
    return replace(guarantees[0], mu=None if None in mus else max(mus), **largest)


def plan_final(estimator, candidates, *, epsilon, delta, n_samples):
    """Return the plan of one training with the whole budget; as `plan_trials`."""
    budget = {"epsilon": epsilon, "delta": delta, "n_samples": n_samples}
    once = PrivateSelection(accounting="composition")  # with one candidate: a single training
    plans = [plan_trials(estimator, [params], once, **budget) for params in candidates]
    # One guarantee for all candidates, as the winner's own could reveal the winner before it is
    # released; all have the same epsilon.
    guarantee = largest_cost([plan.guarantee for plan in plans])
    return replace(plans[0], models=[plan.models[0] for plan in plans], guarantee=guarantee)
