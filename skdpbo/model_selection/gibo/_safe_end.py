"""Choice of the end of a descent among released points, on the protected records.

The protected totals are sums of the records' losses, each relative to the middle of the record's
losses at all points, and clipped. Theorem: ``docs/theory/dp_gibo.md``. The public part of the
choice: ``docs/theory/gibo_public_rows.md``.
"""

import math
from dataclasses import dataclass

import numpy as np

from skdpbo.model_selection.gibo._public_gradient import squared_error

_BETWEEN = (0.25, 0.5, 0.75)  # intermediate candidates, after these shares of the steps


def end_positions(n_points, n_iter):
    """Return the positions of candidates among released points: start, intermediate, last ones.

    Parameters
    ----------
    n_points : int
        theta_0 to theta_T, and their average if there is one.
    n_iter : int
        T.

    Returns
    -------
    positions : list of int
        Increasing, from 0 to ``n_points - 1``.
    """
    between = [round(share * n_iter) for share in _BETWEEN]
    # A set, as some coincide after few steps.
    return sorted({0, *between, *range(n_iter, n_points)})


def around_middles(rows):
    """Return losses minus the midrange of each record's losses. Protected if `rows` are.

    Only differences between points matter for the choice, and subtracting the midrange minimises
    a record's largest deviation, so that less is clipped at the same sensitivity.

    Parameters
    ----------
    rows : ndarray of int of shape (n_points, n_records)

    Returns
    -------
    differences : ndarray of int of shape (n_points, n_records)
    """
    # By columns: the midrange of a record depends on its own losses alone.
    return rows - (rows.min(axis=0) + rows.max(axis=0)) // 2


def end_sensitivity(limit, units):
    """Return the largest change of any clipped total when one record is replaced.

    A record contributes its loss at a point minus its midrange, clipped to [-limit, limit], so that
    replacing it moves the total by at most ``2 * limit``. If that is not below `units`, the losses
    themselves are added up, and replacing one moves a total by at most `units`.
    """
    return min(2 * limit, units)


@dataclass(frozen=True)
class SafeEnd:
    """Permute-and-flip among points of a trajectory.

    Parameters
    ----------
    choice : PrivateChoice
    units : int
        Largest loss of a record.
    clip : float
        Largest clipping norm of the descent, in units of the largest loss. Released.
    """

    choice: object
    units: int
    clip: float

    def limit(self, points):
        """Return the clipping bound of deviations of a loss, in {1, ..., units}; released.

        The change of the loss of a record, whose gradient has the clipping norm, on the way from
        the start to the farthest point.
        """
        farthest = np.linalg.norm(points - points[0], axis=1).max()
        return max(1, min(math.ceil(self.clip * farthest * self.units), self.units))

    def relative(self, losses, limit):
        """Return losses of records at points, relative to their midrange and clipped. Protected.

        Parameters
        ----------
        losses : list of (ndarray of int, or None)
            One for each point. None for a point that fails for a public reason; the midranges leave
            it out.
        limit : int

        Returns
        -------
        relative : list of (ndarray of int, or None)
        """
        # Clipping would not reduce the sensitivity.
        if end_sensitivity(limit, self.units) == self.units:
            return losses
        # Failing points, with worst losses, would widen the range of every record.
        kept = around_middles(np.array([row for row in losses if row is not None]))
        clipped = iter(np.clip(kept, -limit, limit))
        return [None if row is None else next(clipped) for row in losses]

    def release(self, losses, points, source, offsets=None, limit=None):
        """Release the position of the chosen point; of the last if none can be trained.

        Parameters
        ----------
        losses : list of (ndarray of int, or None)
            Of the protected records.
        points : ndarray of shape (n_points, d)
            Released; the start first.
        source : RandomSource
        offsets : list of int, default=None
            Public integers that are added to the totals.
        limit : int, default=None
            Public, replaces that of the method `limit`.

        Returns
        -------
        position : int
        """
        if all(row is None for row in losses):
            # Public: whether a point can be trained depends on public rows.
            return len(losses) - 1
        limit = self.limit(points) if limit is None else limit
        rows = self.relative(losses, limit)
        # Protected: passed to the release alone.
        totals = [None if row is None else int(row.sum()) for row in rows]
        position, _ = self.choice.release(
            totals,
            [0] * len(totals) if offsets is None else offsets,
            sensitivity=end_sensitivity(limit, self.units),
            score=None,
            source=source,
        )
        return position


_QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0)
# Ratio of squared public to squared protected error from which on candidates without public losses
# are considered: only precise protected totals guard against choosing a bad one.
_PRECISE = 4.0


def _noise(limit, *, units, epsilon):
    """Return the standard deviation of the difference of two noisy totals.

    Permute-and-flip is report-noisy-max with exponential noise of scale 2 Delta / epsilon.
    """
    return math.sqrt(8) * end_sensitivity(limit, units) / float(epsilon)


def public_limit(changes, *, units, epsilon, n_protected):
    """Return the clipping bound of deviations with the least squared bias plus noise variance.

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
    rows = around_middles(changes)
    sizes = np.abs(rows)
    # A grid of quantiles suffices, as the bias changes little between them.
    limits = {max(1, math.ceil(np.quantile(sizes, share))) for share in _QUANTILES}

    def error(limit):
        bias = (np.clip(rows, -limit, limit) - rows).mean(axis=1)
        noise = _noise(limit, units=units, epsilon=epsilon) / n_protected
        # A bias that is the same for all points does not affect the choice.
        return np.square(bias - bias[0]).max() + noise**2

    return min(sorted(limits), key=error)  # the smallest of equals, for less noise


class PublicChanges:
    """Changes of public losses between the start and other points, as offsets of a private choice.

    Public and protected mean changes are combined with weights 1/e and 1/p for their squared
    errors e and p (noise included), up to a common factor: protected total + n (p / e) public mean.
    The bias of clipping is estimated on the public rows, and corrected. A point must be better than
    the first one by `margin` standard errors to be preferred.

    Parameters
    ----------
    changes : ndarray of shape (n_points, n_records)
        The start first, whose changes are 0.
    folds : ndarray of shape (n_records,)
    units : int
        Largest loss of a record.
    epsilon : float
        Of the choice.
    n_protected : int

    Attributes
    ----------
    changes
    limit : int
        From `public_limit`.
    """

    def __init__(self, changes, folds, *, units, epsilon, n_protected):
        sizes = {"units": units, "epsilon": epsilon}
        limit = public_limit(changes, n_protected=n_protected, **sizes)
        self.changes, self.limit, self._n_protected = changes, limit, n_protected
        # Clipped around the midranges, like the protected losses.
        rows = np.clip(around_middles(changes), -limit, limit).astype(np.float64)
        self._clipped = rows - rows[0]
        public = squared_error(self._clipped[1:].T, folds).mean()
        noise = _noise(limit, **sizes) / n_protected
        # Sampling variance of the protected records, and noise.
        private = self._clipped[1:].var(axis=1).mean() / n_protected + noise**2
        # p / e of the clipped means, and e of the unclipped means.
        self._ratio = private / public if public > 0 else None
        self._unclipped = squared_error(changes[1:].T.astype(np.float64), folds).mean()

    def _margin(self, size, public):
        """Return `size` standard errors of the weighted mean, times (1 + ratio).

        `public` is the squared error of the public measurement.
        """
        private = self._unclipped * self._ratio
        return size * (1 + self._ratio) * math.sqrt(private * public / (private + public))

    def end_offsets(self, optimism=0.0, *, margin=0.0, reused=1.0):
        """Return public integers to add to the protected totals, to combine both measurements.

        Parameters
        ----------
        optimism : float or ndarray of shape (n_points,), default=0.0
            Expected downward bias of the public means.
        margin : float, default=0.0
            In standard errors, see the class.
        reused : float, default=1.0
            Factor of the public standard errors in the margin, as the steps have used the same
            rows.

        Returns
        -------
        offsets : list of int
        """
        if self._ratio is None:
            return [0] * len(self.changes)
        means = self.changes.mean(axis=1)
        # (p / e) times the public mean, plus the correction of the bias of clipping.
        values = self._ratio * (means + optimism) + means - self._clipped.mean(axis=1)
        # The smallest total wins: the margin is added to all but the first point.
        values[1:] += self._margin(margin, reused**2 * self._unclipped)
        return [round(value) for value in values * self._n_protected]

    def guess_offsets(self, means, variances, *, margin):
        """Return public integers to add to the totals of candidates without public losses.

        As `end_offsets`, with the changes predicted by a surrogate. The bias of clipping is assumed
        to be that of the other candidates, on average.

        Parameters
        ----------
        means, variances : ndarray
            Predicted mean change of the loss of each candidate, and its variance.
        margin : float
            In standard errors.

        Returns
        -------
        offsets : list of int
            Empty unless the protected errors are at most half the public ones.
        """
        if self._ratio is None or self._ratio * _PRECISE > 1:
            return []
        values = self._ratio * means + (self.changes - self._clipped)[1:].mean()
        values += [self._margin(margin, self._unclipped + variance) for variance in variances]
        return [round(value) for value in values * self._n_protected]
