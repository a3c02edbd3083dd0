"""One private score of one trained model, for private selection among models that are private.

The score protects the scored rows: replacing one of them moves the total of m integer losses in
{0, ..., B} by at most B, for which noise is calibrated. The caller accounts for the cost of the
model's training.
"""

import math

import numpy as np

from skdpbo._attempt import attempt
from skdpbo._isolation._estimator_parts import separate_copy
from skdpbo.model_selection.evaluation._train_and_score import isolated_outcomes
from skdpbo.model_selection.rows._protected import number_of_units
from skdpbo.model_selection.scoring._log_density import LogDensityScorer
from skdpbo.model_selection.scoring._score_release import ReleasedScore
from skdpbo.model_selection.scoring.metrics._protected_metrics import TrialMetric
from skdpbo.privacy import mu_from_epsilon


def losses_of(model, rows, scorer):
    """Return integer losses, shape (m,), in {0, ..., B}. Protected: pass only to a mechanism.

    One for each record, or for each group of records if there are groups. A row that cannot be
    scored has the loss B, and so have all rows if the model is None (its training failed) or
    cannot be copied.
    """
    X, y, groups = rows
    # A copy: a foreign estimator may store its inputs, and may be released afterwards.
    copied, _ = attempt(separate_copy, model)
    if copied is None:
        return np.full(number_of_units(X, groups), scorer.units, dtype=np.int64)
    # No row is marked unreadable: without a public schema, the model decides what it can read.
    return isolated_outcomes(copied, scorer, X, y, groups=groups)


def gaussian_mu(budget):
    """Return mu of Gaussian noise, or None for Laplace noise, which a pure budget needs.

    For an (epsilon, delta) without mu, the noise of smaller variance is taken.
    """
    if not budget.delta > 0:
        return None
    if budget.mu is not None:
        return budget.mu
    mu = mu_from_epsilon(budget.epsilon, budget.delta)
    # Standard deviations: B / mu of Gaussian and about sqrt 2 B / epsilon of Laplace noise.
    return mu if math.sqrt(2) * mu > budget.epsilon else None


def trial_score(model, rows, scorer, *, budget, source):
    """Score a trained model once, privately. Call in isolation.

    Parameters
    ----------
    model : estimator or None
        Fitted without `rows`; a copy of it is scored. None: the worst score, with the same noise.
    rows : tuple (X, y, groups)
        Rows that the model was not trained on. Their number m, or that of their groups, is public.
    scorer : PerRecordScorer
    budget : PrivacyGuarantee
        Of the score; `gaussian_mu` selects the noise.
    source : RandomSource
        Of the noise.

    Returns
    -------
    ReleasedScore
        Greater is better, in [offset - bound, offset], with the standard deviation of the noise.
    """
    X, y, groups = rows
    n_losses, mu = number_of_units(X, groups), gaussian_mu(budget)
    # A metric is not a total of losses: it needs the classes of the model, and noise on counts.
    if isinstance(scorer, TrialMetric):
        copied, _ = attempt(separate_copy, model)
        own, _ = attempt(scorer.of, copied)
        if own is None:  # the worst score, a function of the model alone, which is private
            return ReleasedScore(scorer.lower, 0.0)
        # Sensitivity: that of `sum_groups`, in l1 for Laplace and in l2 for Gaussian noise.
        sums = own.exact_sums(isolated_outcomes(copied, own, X, y))
        return own.release_score(sums, budget.epsilon, n_losses, source, mu=mu)
    losses = losses_of(model, rows, scorer)
    if isinstance(scorer, LogDensityScorer):
        private_mean = scorer.private_mean(budget, mu)
        if private_mean is not None:
            # The scores of all rows are in a public range that does not depend on the model, so
            # that private means of candidates are comparable; the release is clipped to it.
            mean = private_mean.release(scorer.score_from_units(losses, 1), source)
            clipped = float(min(max(mean, scorer.offset - scorer.bound), scorer.offset))
            # Standard deviation of the noise alone, without the bias of clipping.
            return ReleasedScore(clipped, float(private_mean.noise_sd(n_losses)))
    # Sensitivity B: one loss moves between 0 and B.
    return scorer.release_score(scorer.exact_sums(losses), budget.epsilon, n_losses, source, mu=mu)
