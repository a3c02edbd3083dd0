"""Cost of training each candidate, as declared by the user: a guarantee or a privacy profile.

Declared guarantees are compared with the budget of one trial. With a profile, the score gets the
largest budget with which the total is within epsilon and delta: a trial costs the larger of its
training and its score.
"""

from sklearn.base import clone

from skdpbo.model_selection.private_training._costs import (
    gaussian_budget,
    kind_of,
    merged_trial,
    within,
)
from skdpbo.model_selection.private_training._selection_rules import largest_affordable
from skdpbo.model_selection.private_training._statements import (
    declared_cost,
    noise_seeds,
    voided_by_seeds,
)
from skdpbo.privacy import PrivacyGuarantee, PrivacyProfile
from skdpbo.privacy._privacy_profile import as_profile, largest_profile, takes_epsilon_alone

_DECLARED = "one fit of the estimator costs what estimator_guarantee says, whatever the records are"
_STATEMENT = {
    "protects": "training and validation records",
    "mechanism": "a training whose cost was declared",
}


def declared_costs(models, candidates, declaration, n_samples):
    """Return the costs of the candidates declared by `estimator_guarantee`.

    Parameters
    ----------
    models, candidates, n_samples
        As for `StatedCosts`.
    declaration : PrivacyGuarantee, privacy profile or callable

    Returns
    -------
    costs : DeclaredCosts or ProfileCosts
    """
    known = isinstance(declaration, PrivacyGuarantee | PrivacyProfile)
    if callable(declaration) and not known and not takes_epsilon_alone(declaration):
        # A clone: the user's function may change or store its argument.
        stated = [declared_cost(declaration(clone(model), n_samples)) for model in models]
    else:
        for key in {key for params in candidates for key in params}:
            if key.split("__")[-1] in ("epsilon", "delta"):
                raise ValueError(
                    f"{key!r} cannot be tuned while estimator_guarantee is one guarantee for all "
                    "candidates: give a callable, which is called for each of them."
                )
        stated = [declared_cost(declaration)] * len(models)
    costs = [
        cost.voided("the estimator has a random_state, so its noise can be removed")
        if any(value is not None for value in noise_seeds(model).values())
        else voided_by_seeds(cost, model)
        for cost, model in zip(stated, models, strict=True)
    ]
    whole = any(isinstance(cost, PrivacyProfile) for cost in costs)
    return ProfileCosts(costs) if whole else DeclaredCosts(costs)


class DeclaredCosts:
    """Costs that are guarantees.

    Parameters
    ----------
    costs : list of PrivacyGuarantee
        One for each candidate.
    """

    def __init__(self, costs):
        self._costs = costs
        self.kind = kind_of(costs)
        self.delta = max(cost.delta for cost in costs)

    def trial(self, budget):
        """Check that no candidate costs more than a budget; return the guarantee of one trial."""
        for cost in self._costs:
            if not within(cost, budget):
                at_most = f"epsilon={budget.epsilon:.6g}, delta={budget.delta:.6g}"
                if budget.mu is not None:
                    at_most = f"mu={budget.mu:.6g} ({at_most})"
                raise ValueError(
                    f"One fit of the estimator costs epsilon={cost.epsilon:.6g}, "
                    f"delta={cost.delta:.6g}{'' if cost.mu is None else f', mu={cost.mu:.6g}'} by "
                    f"estimator_guarantee, and at most {at_most} fits the total: train with less, "
                    "or raise epsilon."
                )
        trial = merged_trial(budget, [[c] for c in self._costs], _STATEMENT["mechanism"])
        return trial.assuming(_DECLARED, status="conditional")


class ProfileCosts:
    """Costs of which at least one is a privacy profile.

    Parameters
    ----------
    costs : list of PrivacyGuarantee or PrivacyProfile
        One for each candidate.
    """

    kind = "profile"

    def __init__(self, costs):
        # Without repetitions: often one profile is declared for all candidates.
        profiles = [as_profile(cost) for cost in dict.fromkeys(costs)]
        self._training = largest_profile(profiles, **_STATEMENT).assuming(_DECLARED)

    def score_budget(self, rule, epsilon, delta):
        """Return the largest Gaussian budget of a score with a total within epsilon and delta.

        Raises
        ------
        ValueError
            If the training alone costs more; the error names its cost.
        """
        if not delta > 0:
            raise ValueError(
                "delta must be positive: the training is declared by a privacy profile."
            )
        if rule.publishes_scores or rule.selection.accounting != "profile":
            raise ValueError(
                'A privacy profile as estimator_guarantee needs accounting="profile": the others '
                "are for a PrivacyGuarantee."
            )
        alone = rule.total(self._training, delta).epsilon
        if alone > epsilon:
            raise ValueError(
                f"{rule.expected_trials:.4g} expected trials of the declared profile cost "
                f"epsilon={alone:.6g} at delta={delta:.6g}: train with less, or raise epsilon."
            )

        mu = largest_affordable(
            rule.trial_mu(epsilon, delta),
            lambda mu: rule.total(self.trial(gaussian_budget(mu, delta)), delta).epsilon <= epsilon,
            precision=1e-6,
        )
        if mu is None:
            raise ValueError(
                f"The declared profile leaves no budget for scores at epsilon={epsilon:.6g}, "
                f"delta={delta:.6g}: train with less, or raise epsilon."
            )
        return gaussian_budget(mu, delta)

    def trial(self, budget):
        """Return the profile of one trial: at each epsilon the larger of training and score."""
        return largest_profile([self._training, PrivacyProfile(budget)])
