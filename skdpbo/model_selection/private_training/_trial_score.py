"""One private score of one trained model, for private selection among models that are private.

Private: the scored rows, for data sets that differ in one of them. The total of m integer losses in
{0, ..., B} moves by at most B when one row is replaced, and noise is made for that. The model is
taken as it is: what its training costs is the caller's account.
"""

import math
from dataclasses import dataclass

import numpy as np

from skdpbo._attempt import attempt
from skdpbo._isolation._isolated_calls import separate_copy
from skdpbo.mechanisms import DiscreteLaplace, GaussianMechanism
from skdpbo.mechanisms._laplace import laplace_std
from skdpbo.model_selection.evaluation._train_and_score import isolated_outcomes
from skdpbo.model_selection.rows._protected import number_of_units
from skdpbo.model_selection.scoring._log_density import LogDensityScorer
from skdpbo.model_selection.scoring._score_release import ReleasedScore
from skdpbo.model_selection.scoring._scorer import total_loss_sensitivity
from skdpbo.model_selection.scoring.metrics._protected_metrics import TrialMetric
from skdpbo.privacy import PrivacyGuarantee, mu_from_epsilon
from skdpbo.privacy._checks import set_fields


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


@dataclass(frozen=True)
class TotalRelease:
    """A total loss with integer noise, clipped to its public range.

    Private: the scored rows. Theorem: the total has sensitivity B, so a normal deviate of standard
    deviation B / mu, rounded to an integer, makes it mu-Gaussian differentially private, and a
    discrete Laplace variable of scale B / epsilon makes it epsilon-differentially private.

    Parameters
    ----------
    budget : PrivacyGuarantee
        What the release may cost. Pure (delta 0): discrete Laplace noise. With mu: Gaussian noise.
        An (epsilon, delta) without mu: whichever of the two is smaller.
    units : int
        B, largest loss of a row.
    n_records : int
        m, number of rows; public.

    Attributes
    ----------
    mechanism : GaussianMechanism or DiscreteLaplace
        The noise, on integers.
    std : float
        Its standard deviation; public.
    """

    budget: PrivacyGuarantee
    units: int
    n_records: int

    def __post_init__(self):
        sensitivity = total_loss_sensitivity(self.units)  # B: one loss moves between 0 and B
        mu = gaussian_mu(self.budget)
        if mu is None:
            mechanism = DiscreteLaplace(self.budget.epsilon, sensitivity)
            std = laplace_std(self.budget.epsilon, sensitivity)
        else:
            mechanism = GaussianMechanism(mu=mu, sensitivity=sensitivity, lattice=1.0, n_draws=1)
            std = mechanism.sigma
        set_fields(self, mechanism=mechanism, std=std)

    def release(self, total, source=None):
        """Return the noisy total, an int in {0, ..., m B}; clipping is post-processing."""
        # In integers throughout: the low bits of a float could reveal the total.
        noisy = int(self.mechanism.release(int(total), source=source))
        return min(max(noisy, 0), self.n_records * self.units)


def gaussian_mu(budget):
    """The Gaussian budget, or None where Laplace noise is to be used.

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
        What the score may cost, see :class:`TotalRelease`.
    source : RandomSource
        Of the noise.

    Returns
    -------
    ReleasedScore
        Greater is better, on the scorer's scale: in [offset - bound, offset]. With the standard
        deviation of the noise.
    """
    X, y, groups = rows
    n_losses = number_of_units(X, groups)
    # A metric needs the classes of the model, and noise on its counts: no total of losses.
    if isinstance(scorer, TrialMetric):
        shown, _ = attempt(separate_copy, model)
        own, _ = attempt(scorer.of, shown)
        if own is None:  # the worst score: the model alone decides, and it is private
            return ReleasedScore(scorer.lower, 0.0)
        outcomes = isolated_outcomes(shown, own, X, y)
        # Sensitivity: that of `sum_groups`, in l1 for Laplace and in l2 for Gaussian noise.
        sums, epsilon = own.exact_sums(outcomes), budget.epsilon
        return own.release_score(sums, epsilon, n_losses, source, mu=gaussian_mu(budget))
    if isinstance(scorer, LogDensityScorer):
        private_mean = scorer.private_mean(budget, gaussian_mu(budget))
        if private_mean is not None:
            # Every row's score is in the public range, whatever the model, so that the private mean
            # of one candidate can be compared with another's; so is the answer, by clipping.
            scores = scorer.score_from_units(losses_of(model, rows, scorer), 1)
            mean = private_mean.release(scores, source)
            clipped = float(min(max(mean, scorer.offset - scorer.bound), scorer.offset))
            # Of the noise alone: what a tight clipping takes from the mean is not in it.
            return ReleasedScore(clipped, float(private_mean.noise_sd(n_losses)))
    release = TotalRelease(budget, scorer.units, n_losses)
    total = release.release(int(losses_of(model, rows, scorer).sum()), source)
    return scorer.score_with_std(total, n_losses, release.std)
