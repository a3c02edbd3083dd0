"""One private score of one trained model, for private selection among models that are private.

Private: the scored rows, for data sets that differ in one of them. The total of m integer losses in
{0, ..., B} moves by at most B when one row is replaced, and noise is made for that. The model is
taken as it is: what its training costs is the caller's account.
"""

import copy
import math
import warnings
from dataclasses import dataclass

import numpy as np

from skdpbo.mechanisms import DiscreteLaplace, GaussianMechanism
from skdpbo.model_selection._evaluation import _isolated_losses
from skdpbo.model_selection._log_density import LogDensityScorer
from skdpbo.model_selection._per_record import total_loss_sensitivity
from skdpbo.privacy import PrivacyGuarantee, mu_from_epsilon

__all__ = ["TotalRelease", "total_loss", "total_loss_sensitivity", "trial_score"]


def losses_of(model, rows, scorer):
    """Integer losses of the rows, shape (m,), in {0, ..., B}; protected.

    A row that cannot be scored has the loss B by itself, and so have all rows of a model that is
    None (its training failed) or that cannot be copied.
    """
    model = _copied(model)
    if model is None:
        return np.full(rows.n_records, scorer.units, dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning would tell of a record
        return _isolated_losses(model, scorer, rows.X, rows.y, rows.unreadable)


def _copied(model):
    """A copy that may be shown protected rows: the model itself may be released afterwards.

    A foreign estimator may keep what it predicts.
    """
    try:
        return copy.deepcopy(model)
    except Exception:  # its text may quote anything
        return None


def total_loss(model, rows, scorer):
    """Sum of the losses of the rows, in {0, ..., m B}; protected."""
    return int(losses_of(model, rows, scorer).sum())


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
    """

    budget: PrivacyGuarantee
    units: int
    n_records: int

    @property
    def mechanism(self):
        """The noise: a `GaussianMechanism` on integers or a `DiscreteLaplace`."""
        sensitivity = total_loss_sensitivity(self.units)
        if gaussian_mu(self.budget) is None:
            return DiscreteLaplace(self.budget.epsilon, sensitivity)
        mu = gaussian_mu(self.budget)
        return GaussianMechanism(mu=mu, sensitivity=sensitivity, lattice=1.0, n_draws=1)

    def release(self, total, source=None):
        """Return the noisy total, an int in {0, ..., m B}; clipping is post-processing."""
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
    return mu if math.sqrt(2) * mu > budget.epsilon else None


def trial_score(model, rows, scorer, *, budget, source):
    """Score a trained model once, privately.

    Parameters
    ----------
    model : estimator or None
        Fitted, without sight of `rows`; None if its training failed: the worst score, with the
        same noise. A copy is scored, so that the model has not seen `rows` afterwards.
    rows : ProtectedRows
        Rows that the model was not trained on. Their number m is public.
    scorer : PerRecordScorer
    budget : PrivacyGuarantee
        What the score may cost, see :class:`TotalRelease`.
    source : RandomSource
        Of the noise.

    Returns
    -------
    float
        Greater is better, on the scorer's scale: in [offset - bound, offset].
    """
    private_mean = _private_mean(scorer, budget)
    if private_mean is not None:
        return _mean_score(model, rows, scorer, private_mean, source)
    total = total_loss(model, rows, scorer)
    release = TotalRelease(budget, scorer.units, rows.n_records)
    return float(scorer.score_from_units(release.release(total, source), rows.n_records))


def _private_mean(scorer, budget):
    """The scorer's own private mean of single rows' scores, or None."""
    if not isinstance(scorer, LogDensityScorer):
        return None
    return scorer.private_mean(budget, gaussian_mu(budget))


def _mean_score(model, rows, scorer, private_mean, source):
    """Mean of the rows' scores by a mechanism that clips around a centre of its own.

    Every row's score is in the public range, whatever the model, so that the private mean of one
    candidate can be compared with another's; so is the answer, by clipping.
    """
    scores = scorer.score_from_units(losses_of(model, rows, scorer), 1)
    mean = private_mean.release(scores, source)
    return float(min(max(mean, scorer.offset - scorer.bound), scorer.offset))
