"""Public rows in the choice of a descent's end: which changes of a loss count, and what they say.

Nothing here reads a protected value. Theory: ``docs/theory/gibo_public_rows.md``.
"""

import math

import numpy as np

from skdpbo.model_selection.gibo._public_gradient import squared_error
from skdpbo.model_selection.gibo._safe_end import centred, end_sensitivity

__all__ = ["end_offsets", "guess_offsets", "public_limit"]

_QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0)
# Squared public over squared protected error from which on candidates without public rows are worth
# their trainings: nothing else guards against what the noise makes of them.
_PRECISE = 4.0


def _noise(limit, *, units, epsilon):
    """Standard deviation of the difference of two noisy totals.

    Permute-and-flip is report-noisy-max with exponential noise of scale 2 Delta / epsilon.
    """
    return math.sqrt(8) * end_sensitivity(limit, units) / float(epsilon)


def public_limit(changes, *, units, epsilon, n_protected):
    """Largest deviation from a record's middle that counts: least bias and noise together.

    Parameters
    ----------
    changes : ndarray of shape (n_points, n_records)
        Losses of public records at points minus those at the start.
    units : int
        Largest loss.
    epsilon : float
        Of the choice.
    n_protected : int

    Returns
    -------
    limit : int
        In {1, ..., units}.
    """
    rows = centred(changes)
    sizes = np.abs(rows)
    # Quantiles: between two of them the bias of clipping changes little.
    limits = {max(1, math.ceil(np.quantile(sizes, share))) for share in _QUANTILES}

    def error(limit):
        bias = (np.clip(rows, -limit, limit) - rows).mean(axis=1)
        noise = _noise(limit, units=units, epsilon=epsilon) / n_protected
        # Differences from the first point decide: a bias that all points share does no harm.
        return np.square(bias - bias[0]).max() + noise**2

    return min(sorted(limits), key=error)


class _Errors:
    """Squared errors of mean changes: of public rows, unclipped and clipped, and of protected ones.

    Attributes
    ----------
    clipped : ndarray of shape (n_points, n_records)
        Changes after clipping around the middles, as the protected totals have them.
    unclipped : float
        Of the public means.
    ratio : float
        Of the protected clipped means, the noise of the choice included, over that of the public.
    """

    def __init__(self, changes, folds, limit, *, units, epsilon, n_protected):
        rows = np.clip(centred(changes), -limit, limit).astype(np.float64)
        self.clipped = rows - rows[0]
        public = squared_error(self.clipped[1:].T, folds).mean()
        noise = _noise(limit, units=units, epsilon=epsilon) / n_protected
        # The protected records are a sample, too.
        private = self.clipped[1:].var(axis=1).mean() / n_protected + noise**2
        self.ratio = private / public if public > 0 else None
        self.unclipped = squared_error(changes[1:].T.astype(np.float64), folds).mean()

    def margin(self, size, public):
        """Return `size` standard errors of both measurements, in units of 1 / (1 + ratio).

        `public` is the squared error of the public one.
        """
        private = self.unclipped * self.ratio
        return size * (1 + self.ratio) * math.sqrt(private * public / (private + public))


def end_offsets(
    changes, folds, limit, optimism=0.0, *, margin=0.0, reused=1.0, units, epsilon, n_protected
):
    """Public integers to add to the protected totals: the mean of both measurements decides.

    With squared errors e (public) and p (protected, noise included) the mean clipped changes are
    weighted by 1/e and 1/p, up to a common factor: protected total + n (p / e) public mean. What
    clipping does to a mean is seen on the public rows, and undone. What cannot be told from the
    first point by `margin` standard errors of all this is left to the first point.

    Parameters
    ----------
    changes : ndarray of shape (n_points, n_records)
        As in `public_limit`; the start first, whose changes are 0.
    folds : ndarray of shape (n_records,)
    limit : int
    optimism : float or ndarray of shape (n_points,), default=0.0
        By how much the public means are too low in expectation.
    margin : float, default=0.0
    reused : float, default=1.0
        By how much public standard errors count for more in the margin, as the steps have followed
        the same rows.
    units : int
    epsilon : float
    n_protected : int

    Returns
    -------
    offsets : list of int
    """
    of = _Errors(changes, folds, limit, units=units, epsilon=epsilon, n_protected=n_protected)
    if of.ratio is None:
        return [0] * len(changes)
    means = changes.mean(axis=1)
    # (p / e) times the public mean, and what clipping takes from the protected one.
    values = of.ratio * (means + optimism) + means - of.clipped.mean(axis=1)
    # The smallest total wins: all but the first point are handicapped.
    values[1:] += of.margin(margin, reused**2 * of.unclipped)
    return [round(value) for value in values * n_protected]


def guess_offsets(changes, folds, limit, means, variances, *, margin, units, epsilon, n_protected):
    """Public integers to add to the protected totals of candidates without public losses.

    As `end_offsets`, with the change that a surrogate expects and its uncertainty. What clipping
    does to their means is taken to be what it does to the others'.

    Parameters
    ----------
    changes, folds, limit, margin, units, epsilon, n_protected
        As in `end_offsets`.
    means, variances : ndarray
        Expected mean change of the loss of each candidate, and its variance.

    Returns
    -------
    offsets : list of int
        None where the protected rows do not know changes twice as well as the public ones.
    """
    of = _Errors(changes, folds, limit, units=units, epsilon=epsilon, n_protected=n_protected)
    if of.ratio is None or of.ratio * _PRECISE > 1:
        return []
    values = of.ratio * means + (changes - of.clipped)[1:].mean()
    values += [of.margin(margin, of.unclipped + variance) for variance in variances]
    return [round(value) for value in values * n_protected]
