"""One private score of one trained model, for private selection among models that are private.

Private: the scored rows, for data sets that differ in one of them. The total of m integer losses in
{0, ..., B} moves by at most B when one row is replaced, and noise is made for that. The model is
taken as it is: what its training costs is the caller's account.
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

    One for each record, or for each group of records where there are groups. A row that cannot be
    scored has the loss B by itself, and so have all rows of a model that is None (its training
    failed) or that cannot be copied.
    """
    X, y, groups = rows
    # A copy: a foreign estimator may keep what it predicts, and may be released afterwards.
    shown, _ = attempt(separate_copy, model)
    if shown is None:
        return np.full(number_of_units(X, groups), scorer.units, dtype=np.int64)
    # None is unreadable: with no public schema, a model decides what it can read.
    return isolated_outcomes(shown, scorer, X, y, groups=groups)


def gaussian_mu(budget):
    """The Gaussian budget, or None where Laplace noise is to be used: where the budget is pure.

    Of an (epsilon, delta) without mu, either noise stays within the budget; the one of smaller
    variance is taken.
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
        Fitted, without sight of `rows`; a copy of it is scored. None: the worst score, with the
        same noise.
    rows : tuple (X, y, groups)
        Rows that the model was not trained on. Their number, or that of their groups, m is public.
    scorer : PerRecordScorer
    budget : PrivacyGuarantee
        What the score may cost; see `gaussian_mu` for its noise.
    source : RandomSource
        Of the noise.

    Returns
    -------
    ReleasedScore
        Greater is better, on the scorer's scale: in [offset - bound, offset]. With the standard
        deviation of the noise.
    """
    X, y, groups = rows
    n_losses, mu = number_of_units(X, groups), gaussian_mu(budget)
    # A metric needs the classes of the model, and noise on its counts: no total of losses.
    if isinstance(scorer, TrialMetric):
        shown, _ = attempt(separate_copy, model)
        own, _ = attempt(scorer.of, shown)
        if own is None:  # the worst score: the model alone decides, and it is private
            return ReleasedScore(scorer.lower, 0.0)
        # Sensitivity: that of `sum_groups`, in l1 for Laplace and in l2 for Gaussian noise.
        sums = own.exact_sums(isolated_outcomes(shown, own, X, y))
        return own.release_score(sums, budget.epsilon, n_losses, source, mu=mu)
    losses = losses_of(model, rows, scorer)
    if isinstance(scorer, LogDensityScorer):
        private_mean = scorer.private_mean(budget, mu)
        if private_mean is not None:
            # Every row's score is in the public range, whatever the model, so that the private mean
            # of one candidate can be compared with another's; so is the answer, by clipping.
            mean = private_mean.release(scorer.score_from_units(losses, 1), source)
            clipped = float(min(max(mean, scorer.offset - scorer.bound), scorer.offset))
            # Of the noise alone: what a tight clipping takes from the mean is not in it.
            return ReleasedScore(clipped, float(private_mean.noise_sd(n_losses)))
    # Sensitivity B: one loss moves between 0 and B.
    return scorer.release_score(scorer.exact_sums(losses), budget.epsilon, n_losses, source, mu=mu)
