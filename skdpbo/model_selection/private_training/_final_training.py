"""Training of the winner with the whole budget, on rows that took no part in the choice.

Tuning and final training read disjoint rows, so that each may cost the whole (parallel
composition; docs: private selection, "Tune on a part").
"""

from dataclasses import dataclass, replace

from skdpbo._attempt import attempt
from skdpbo._isolation._isolated_calls import run_isolated
from skdpbo.model_selection.private_training._plan import plan_trials
from skdpbo.model_selection.private_training._selection_rules import PrivateSelection
from skdpbo.model_selection.private_training._trials import TrialRandomness, trained_model
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._guarantee import weakest_status

__all__ = ["SCORED_SHARE", "FinalPlan", "plan_final", "train_final", "tuning_share"]

SCORED_SHARE = 0.4  # of the tuning rows: the noise of a score falls with their number
_AUTO_SHARE = 0.25
_LEAST_ROWS, _LEAST_ROWS_TIMES_EPSILON = 1000, 12_000  # measured: see the theory page


def tuning_share(selection, n_samples, n_candidates, epsilon):
    """Return the share of the rows that tunes, from public values; None where all rows do.

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


@dataclass(frozen=True)
class FinalPlan:
    """Models with the whole budget, one for each candidate, and the guarantee of one training.

    Attributes
    ----------
    models : list of estimator
        Not fitted.
    guarantee : PrivacyGuarantee
    """

    models: list
    guarantee: PrivacyGuarantee

    def joined(self, tuning):
        """Return the guarantee of tuning and final training: the larger of the two costs."""
        final = self.guarantee
        return replace(
            tuning,
            epsilon=max(tuning.epsilon, final.epsilon),
            delta=max(tuning.delta, final.delta),
            mu=None if None in (tuning.mu, final.mu) else max(tuning.mu, final.mu),
            statistical_distance=max(tuning.statistical_distance, final.statistical_distance),
            mechanism=f"{tuning.mechanism}; then one training of the winner on other rows",
            assumptions=tuple(dict.fromkeys((*tuning.assumptions, *final.assumptions))),
            status=weakest_status(tuning.status, final.status),
        )


def plan_final(estimator, candidates, *, epsilon, delta, n_samples):
    """Return the `FinalPlan` of candidates at a budget; as `plan_trials`."""
    budget = {"epsilon": epsilon, "delta": delta, "n_samples": n_samples}
    once = PrivateSelection(accounting="composition")  # of one candidate: one training
    plans = [plan_trials(estimator, [params], once, **budget) for params in candidates]
    # One guarantee for all candidates, since the winner's own would tell which it is; all have
    # the same epsilon.
    guarantees = [plan.guarantee for plan in plans]
    first = guarantees[0]
    mus = [g.mu for g in guarantees]
    return FinalPlan(
        [plan.models[0] for plan in plans],
        replace(
            first,
            delta=max(g.delta for g in guarantees),
            mu=None if None in mus else max(mus),
            statistical_distance=max(g.statistical_distance for g in guarantees),
            assumptions=tuple(dict.fromkeys(text for g in guarantees for text in g.assumptions)),
            status=weakest_status(*(g.status for g in guarantees)),
        ),
    )


def train_final(model, data, source):
    """Train the winner on `data`, in isolation.

    Parameters
    ----------
    model : estimator
        Of a `FinalPlan`.
    data : TrialData
        Of the rows that took no part in the tuning. Protected.
    source : RandomSource

    Returns
    -------
    estimator or None
        None if the training failed.
    """
    ((seeded, sequence),) = TrialRandomness(source).of([0])
    tasks = [(model, data, seeded, sequence)]
    (trained,) = run_isolated(_attempted, tasks, n_jobs=1, pre_dispatch="all")
    return trained


def _attempted(*task):
    return attempt(trained_model, *task)[0]  # why it failed may quote a record
