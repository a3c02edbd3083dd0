"""Gradients of public losses: a second measurement of the gradients of a descent, and its scales.

No protected value is read here. Theory: ``docs/theory/gibo_public_rows.md``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from skdpbo._parameters import warn_caller
from skdpbo.exceptions import FlatLossWarning
from skdpbo.model_selection.evaluation._record_gradients import RecordLosses

AUTOMATIC = {"clip": 0.3, "learning_rate": 0.2}  # defaults without public rows
RATES = (0.2, 0.1, 0.05)
_SMOOTH = 0.75  # exponent between those of step functions, 1/2, and of smooth losses, 1
_N_NEAR = 8  # number of points for the estimate of roughness
_QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
_SLIGHT = 1e-6  # smaller gradients are due to rounding of losses
_TINY = 1e-150  # avoids division by zero


def squared_error(rows, folds):
    """Return the squared standard error of the mean of rows, for each column.

    That of independent rows, increased if the means of the folds differ by more than it explains;
    by one factor for all columns, as there are few folds.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    folds : ndarray of shape (n,)

    Returns
    -------
    error : ndarray of shape (d,)
    """
    within = rows.var(axis=0) / len(rows)
    means = np.array([rows[folds == k].mean(axis=0) for k in np.unique(folds)])
    if len(means) < 2 or not within.any():
        return within
    between = means.var(axis=0, ddof=1) / len(means)
    return within * max(1.0, between.sum() / within.sum())


def clipped_rows(rows, clip):
    """Return the rows clipped to norm `clip`, like the gradients of the protected records."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * (clip / np.maximum(norms, clip))


def precise_clip(rows, noise):
    """Return the clipping norm with the smallest error of the direction of the noisy mean.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Gradients of public records.
    noise : float
        Norm of the noise over the clipping norm.

    Returns
    -------
    clip : float or None
        None without a gradient.
    """
    norms, mean = np.linalg.norm(rows, axis=1), rows.mean(axis=0)
    if not np.linalg.norm(mean) > _SLIGHT:
        return None
    best = None, math.inf
    for clip in np.unique(np.quantile(norms[norms > _SLIGHT], _QUANTILES)):
        clipped = clipped_rows(rows, clip).mean(axis=0)
        size = np.linalg.norm(clipped)
        if not size > 0:
            continue
        bias = np.linalg.norm(clipped / size - mean / np.linalg.norm(mean))
        error = bias**2 + (noise * clip / size) ** 2
        best = min(best, (float(clip), error), key=lambda pair: pair[1])
    return best[0]


def roughness(start, near, far):
    """Return the exponent H of the change of a loss with the distance: |change| ~ distance^H.

    1 for smooth losses, 1/2 for step functions, 0 for noise; 0 also for constant losses.

    Parameters
    ----------
    start : ndarray of shape (n_records,)
        Losses at a point.
    near, far : ndarray of shape (n_points, n_records)
        Losses at points near it, and at twice the distance in the same directions.

    Returns
    -------
    exponent : float
    """
    here = np.asarray(start, dtype=np.float64)
    far, near = (np.sqrt(np.mean(np.square(rows - here))) for rows in (far, near))
    # The distance doubles: |change| grows by 2^H.
    return math.log2(far / near) if near > 0 and far > 0 else 0.0


class PublicGradient:
    """Gradient of the mean clipped loss, measured on public folds.

    Parameters
    ----------
    losses : callable
        ``losses(points)`` returns rows of losses of the public records, None where a fold fails.
    folds : ndarray of shape (n_records,)
    units : int
        Largest loss.
    n_protected : int

    Attributes
    ----------
    weights : list of float
        Mean weight of the public gradient in each step so far.
    gradients, errors : list
        Means of both measurements in each step so far, and their standard errors.
    optimism : list of float
        Expected downward bias of the public loss at theta_0, theta_1, ..., as the same records
        have guided the steps.
    trust : ndarray of shape (d,)
        Factors in [0, 1] of the coordinates of the last gradient, smaller for larger errors; the
        square roots of those of a Wiener filter.
    """

    def __init__(self, losses, folds, *, units, n_protected):
        self._losses = losses
        self._folds = folds
        self._n_protected = n_protected
        self._units = units
        self._table = RecordLosses(self._units, 1.0 / self._units)
        self.weights = []
        self.optimism = [0.0]
        self.gradients, self.errors = [], []

    def add(self, points, n_kept):
        """Evaluate points and keep the last `n_kept`."""
        rows = self._losses(points)
        if self._table.n_records is None and all(row is None for row in rows):
            # The table needs a first row; equal losses have gradient 0.
            rows = [np.zeros(len(self._folds), dtype=np.int64)] * len(rows)
        self._table.add(rows, n_kept)

    def of(self, losses, weights):
        """Return the gradients of the public records from rows of losses, (n_records, d)."""
        table = RecordLosses(self._units, 1.0 / self._units)
        table.add(losses)
        return np.concatenate(list(table.gradients(weights)))

    def combined(self, weights, released, noise_scale, clip):
        """Return the mean of both measurements, weighted by their precision.

        Parameters
        ----------
        weights : ndarray of shape (d, n_points)
            Of the surrogate at the present point.
        released : ndarray of shape (d,)
            Noisy mean gradient of the protected records.
        noise_scale : float
            Standard deviation of its noise per coordinate.
        clip : float
            Clipping norm of the records' gradients.

        Returns
        -------
        gradient : ndarray of shape (d,)
        """
        rows = np.concatenate(list(self._table.gradients(weights)))
        # The bias of clipping is estimated on the public rows, and corrected.
        clipped = clipped_rows(rows, clip)
        released = released + rows.mean(axis=0) - clipped.mean(axis=0)
        public = squared_error(rows, self._folds)
        # Variance of the noise and of the sample of protected records.
        private = noise_scale**2 + clipped.var(axis=0) / self._n_protected
        share = private / np.maximum(private + public, _TINY)
        self.weights.append(float(share.mean()))
        gradient = released + share * (rows.mean(axis=0) - released)
        error = share * public  # of the mean: 1 / (1 / private + 1 / public)
        self.gradients.append(gradient)
        self.errors.append(math.sqrt(error.mean()))
        squares = np.maximum(np.square(gradient), _TINY)
        self.trust = np.sqrt(squares / (squares + error))
        # Covariance of a step with the public gradient, for each unit of the step. Half of it, as
        # later gradients counteract the error the more, the closer a descent is to convergence.
        self._chance = error / np.sqrt(squares) / 2
        return gradient

    def moved(self, step):
        """Add the bias of the public loss due to a step: Cov(step, public gradient).

        Parameters
        ----------
        step : ndarray of shape (d,)
            The step that used the last gradient.
        """
        self.optimism.append(self.optimism[-1] + float(np.abs(step) @ self._chance))


@dataclass
class RememberedLosses:
    """Losses of public records at points; those from before the descent are cached for its start.

    Parameters
    ----------
    losses : callable
        ``losses(points)`` returns rows of losses, None where a fold fails.
    """

    losses: Callable
    _known: dict = field(default_factory=dict)

    def remember(self, points):
        """Evaluate points and cache their losses."""
        rows = self.losses(points)
        self._known |= {point.tobytes(): row for point, row in zip(points, rows, strict=True)}
        return rows

    def __call__(self, points):
        """Return the losses, and empty the cache."""
        known, self._known = self._known, {}
        new = [point for point in points if point.tobytes() not in known]
        rows = self.losses(np.array(new)) if new else []
        known |= {point.tobytes(): row for point, row in zip(new, rows, strict=True)}
        return [known[point.tobytes()] for point in points]


def public_scales(descent, automatic, surrogate, start, remembered, gradient, noise):
    """Return the descent with scales estimated from public rows.

    Parameters
    ----------
    descent : PrivateDescent
    automatic : list of str
        Those of "clip" and "learning_rate" that are estimated.
    surrogate : GradientSurrogate
    start : ndarray of shape (d,)
    remembered : RememberedLosses
    gradient : PublicGradient
    noise : float
        Norm of the noise of a gradient over the clipping norm.

    Returns
    -------
    descent : PrivateDescent
    """
    # The design of the first step itself, for which its public losses are cached.
    posterior = surrogate._posterior()
    points = descent.design(posterior, start, 0)
    posterior.add(points)
    far = remembered.remember(points)
    half = (start + points[:_N_NEAR]) / 2  # so that the ratio of the distances is 2
    here, *near = remembered.remember(np.vstack([start, half]))
    if here is None or any(row is None for row in [*far, *near]):
        return descent  # keep the defaults
    exponent = roughness(here, np.array(near), np.array(far[:_N_NEAR]))
    if exponent < _SMOOTH:
        warn_caller(
            "On the public rows the loss has no gradient to follow: it is flat, discontinuous or "
            "noisy in these parameters around the start (its changes grow with the distance to "
            f"the power {exponent:.2f}; 1 is smooth, 0.5 is in steps, 0 is flat or noise). Use "
            'DPBayesSearchCV, or a smooth loss such as "neg_log_loss" where errors are counted; '
            "an estimator that stops before it converges makes any loss noisy.",
            FlatLossWarning,
        )
    rows = gradient.of(far, posterior.weights(start))
    clip = precise_clip(rows, noise)
    if clip is None:
        return descent
    found = {"clip": clip, "learning_rate": descent.learning_rate}
    if "learning_rate" in automatic and descent.optimizer != "sgd":
        # AdaGrad's and Adam's first step has the same length in every coordinate.
        direction = np.sign(clipped_rows(rows, clip).mean(axis=0))
        # The largest rate whose first step lowers the public loss; else the smallest.
        trials = np.array([np.clip(start - rate * direction, 0.0, 1.0) for rate in RATES])
        losses = zip(RATES, remembered.remember(trials), strict=True)
        lower = (rate for rate, row in losses if row is not None and row.mean() < here.mean())
        found["learning_rate"] = next(lower, RATES[-1])
    return replace(descent, **{name: found[name] for name in automatic})
