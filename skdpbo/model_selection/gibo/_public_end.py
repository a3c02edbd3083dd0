"""Public rows in the choice of a descent's end: which changes of a loss count, and what they say.

Nothing here reads a protected value. Theory: ``docs/theory/dp_gibo.md``.
"""

import math

import numpy as np

from skdpbo.model_selection.gibo._public_gradient import squared_error
from skdpbo.model_selection.gibo._safe_end import end_sensitivity

__all__ = ["end_offsets", "public_limit"]

_QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0)


def _noise(limit, *, units, epsilon):
    """Standard deviation of the difference of two noisy totals.

    Permute-and-flip is report-noisy-max with exponential noise of scale 2 Delta / epsilon.
    """
    return math.sqrt(8) * end_sensitivity(limit, units) / float(epsilon)


def public_limit(changes, *, units, epsilon, n_protected):
    """Largest change of a record's loss that counts: least bias and noise together.

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
    sizes = np.abs(changes)
    limits = {max(1, math.ceil(np.quantile(sizes, share))) for share in _QUANTILES}

    def error(limit):
        bias = (np.clip(changes, -limit, limit) - changes).mean(axis=1)
        noise = _noise(limit, units=units, epsilon=epsilon) / n_protected
        return np.square(bias).max() + noise**2

    return min(sorted(limits), key=error)


def end_offsets(changes, folds, limit, optimism=0.0, *, margin=0.0, units, epsilon, n_protected):
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
    units : int
    epsilon : float
    n_protected : int

    Returns
    -------
    offsets : list of int
    """
    clipped = np.clip(changes, -limit, limit).astype(np.float64)
    public = squared_error(clipped[1:].T, folds).mean()
    if not public > 0:
        return [0] * len(clipped)
    noise = _noise(limit, units=units, epsilon=epsilon)
    private = clipped[1:].var(axis=1).mean() / n_protected + (noise / n_protected) ** 2
    ratio = private / public
    means = changes.mean(axis=1)
    values = ratio * (means + optimism) + means - clipped.mean(axis=1)
    unclipped = squared_error(changes[1:].T.astype(np.float64), folds).mean()
    # Of their weighted mean, in units of 1 / (1 + p / e)
    values[1:] += margin * (1 + ratio) * math.sqrt(unclipped * ratio / (1 + ratio))
    return [round(value) for value in values * n_protected]
