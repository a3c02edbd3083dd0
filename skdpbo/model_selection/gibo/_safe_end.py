"""Choice of the end of a descent among released points, on the protected records.

The protected totals are sums of the records' losses, relative to the middle of what the record has
at all of the points, and clipped. Theorem:
``docs/theory/dp_gibo.md``.
"""

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["SafeEnd", "centred", "end_positions", "end_sensitivity"]

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


def centred(rows):
    """Return losses minus the middle of each record's least and largest; of one record alone.

    Protected, if `rows` are. Only differences between points decide, and the middle makes the
    largest of a record as small as it can be: less is clipped at the same sensitivity.

    Parameters
    ----------
    rows : ndarray of int of shape (n_points, n_records)

    Returns
    -------
    centred : ndarray of int of shape (n_points, n_records)
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
        kept = centred(np.array([row for row in losses if row is not None]))
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
