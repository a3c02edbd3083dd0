"""Choice of the end of a descent among released points, on the protected records.

The protected totals are sums of the records' losses, relative to the middle of what the record has
at all of the points, and clipped. Theorem: ``docs/theory/dp_gibo.md``. The public part of the
choice: ``docs/theory/gibo_public_rows.md``.
"""

import math
from dataclasses import dataclass

import numpy as np

from skdpbo.model_selection.gibo._public_gradient import squared_error

_BETWEEN = (0.25, 0.5, 0.75)  # shares of the steps after which a point is a candidate, too


def end_positions(n_points, n_iter):
    """Positions of the candidates among the released points: the start, some, the last ones.

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
    # a set: after few steps some of them coincide
    return sorted({0, *between, *range(n_iter, n_points)})


def around_middles(rows):
    """Return losses minus the middle of each record's least and largest; of one record alone.

    Protected, if `rows` are. Only differences between points decide, and the middle makes the
    largest of a record as small as it can be: less is clipped at the same sensitivity.

    Parameters
    ----------
    rows : ndarray of int of shape (n_points, n_records)

    Returns
    -------
    differences : ndarray of int of shape (n_points, n_records)
    """
    # Each column by itself: one record's losses move no other's middle.
    return rows - (rows.min(axis=0) + rows.max(axis=0)) // 2


def end_sensitivity(limit, units):
    """Largest change of any clipped total when one record is replaced.

    A record's part of a total is its loss at a point minus the middle of its losses at all points,
    clipped to [-limit, limit]: replaced, it moves the total by at most ``2 * limit``. Where that is
    no less than `units`, losses are compared as they are: one that is replaced moves a total by
    `units`.
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
        Largest norm of a record's gradient that the descent has counted, in units of the largest
        loss. Released.
    """

    choice: object
    units: int
    clip: float

    def limit(self, points):
        """Return the largest deviation of a loss that counts, in {1, ..., units}; released.

        A record whose gradient has the clipping norm loses no more on the way to the farthest point
        from the start, and its losses at two points are no more than twice that apart.
        """
        farthest = np.linalg.norm(points - points[0], axis=1).max()
        return max(1, min(math.ceil(self.clip * farthest * self.units), self.units))

    def relative(self, losses, limit):
        """Return losses of records at points, relative to their middle and clipped. Protected.

        Parameters
        ----------
        losses : list of (ndarray of int, or None)
            One for each point. None for a point that fails for a public reason: no record's middle
            depends on it, as every record has the worst loss there.
        limit : int

        Returns
        -------
        relative : list of (ndarray of int, or None)
        """
        # Clipping would lower no sensitivity.
        if end_sensitivity(limit, self.units) == self.units:
            return losses
        # The others would widen every record's range by its worst loss.
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
            Public, in the place of that of `limit`.

        Returns
        -------
        position : int
        """
        if all(row is None for row in losses):
            # Public: whether a point can be trained depends on public rows.
            return len(losses) - 1
        limit = self.limit(points) if limit is None else limit
        rows = self.relative(losses, limit)
        # Protected from here to the release.
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
    rows = around_middles(changes)
    sizes = np.abs(rows)
    # Quantiles: between two of them the bias of clipping changes little.
    limits = {max(1, math.ceil(np.quantile(sizes, share))) for share in _QUANTILES}

    def error(limit):
        bias = (np.clip(rows, -limit, limit) - rows).mean(axis=1)
        noise = _noise(limit, units=units, epsilon=epsilon) / n_protected
        # Differences from the first point decide: a bias that all points share does no harm.
        return np.square(bias - bias[0]).max() + noise**2

    return min(sorted(limits), key=error)  # of equal ones the smallest: less noise


class PublicChanges:
    """Losses of public records at points minus those at the start, and what they say of a choice.

    With squared errors e (public) and p (protected, noise included) the mean clipped changes are
    weighted by 1/e and 1/p, up to a common factor: protected total + n (p / e) public mean. What
    clipping does to a mean is seen on the public rows, and undone. What
    differs from the first point by less than `margin` standard errors is left to the first point.

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
        # As the protected totals have them: clipped around the middles.
        rows = np.clip(around_middles(changes), -limit, limit).astype(np.float64)
        self._clipped = rows - rows[0]
        public = squared_error(self._clipped[1:].T, folds).mean()
        noise = _noise(limit, **sizes) / n_protected
        # The protected records are a sample, too.
        private = self._clipped[1:].var(axis=1).mean() / n_protected + noise**2
        # Squared errors: protected clipped means over public ones, and public unclipped means.
        self._ratio = private / public if public > 0 else None
        self._unclipped = squared_error(changes[1:].T.astype(np.float64), folds).mean()

    def _margin(self, size, public):
        """Return `size` standard errors of both measurements, in units of 1 / (1 + ratio).

        `public` is the squared error of the public one.
        """
        private = self._unclipped * self._ratio
        return size * (1 + self._ratio) * math.sqrt(private * public / (private + public))

    def end_offsets(self, optimism=0.0, *, margin=0.0, reused=1.0):
        """Public integers to add to the protected totals: the mean of both measurements decides.

        Parameters
        ----------
        optimism : float or ndarray of shape (n_points,), default=0.0
            By how much the public means are too low in expectation.
        margin : float, default=0.0
        reused : float, default=1.0
            By how much public standard errors count for more in the margin, as the steps have
            followed the same rows.

        Returns
        -------
        offsets : list of int
        """
        if self._ratio is None:
            return [0] * len(self.changes)
        means = self.changes.mean(axis=1)
        # (p / e) times the public mean, and what clipping takes from the protected one.
        values = self._ratio * (means + optimism) + means - self._clipped.mean(axis=1)
        # The smallest total wins: all but the first point are handicapped.
        values[1:] += self._margin(margin, reused**2 * self._unclipped)
        return [round(value) for value in values * self._n_protected]

    def guess_offsets(self, means, variances, *, margin):
        """Public integers to add to the protected totals of candidates without public losses.

        As `end_offsets`, with the change that a surrogate expects and its uncertainty. What
        clipping does to their means is taken to be what it does to the others'.

        Parameters
        ----------
        means, variances : ndarray
            Expected mean change of the loss of each candidate, and its variance.
        margin : float

        Returns
        -------
        offsets : list of int
            Empty where the protected rows do not know changes twice as well as the public ones.
        """
        if self._ratio is None or self._ratio * _PRECISE > 1:
            return []
        values = self._ratio * means + (self.changes - self._clipped)[1:].mean()
        values += [self._margin(margin, self._unclipped + variance) for variance in variances]
        return [round(value) for value in values * self._n_protected]
