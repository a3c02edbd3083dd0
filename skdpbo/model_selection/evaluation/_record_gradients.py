"""Losses of every protected record at the points tried so far, and gradients from them.

Everything here is protected. Row i of a gradient block depends on the losses of record i alone,
and on public or released weights.
"""

import numpy as np

from skdpbo.model_selection.rows._protected import NotPickled

_CHUNK = 2**22  # losses that are converted to floats at once: 32 MiB


class RecordLosses(NotPickled):
    """A growing table of losses, one row per point and one column per record.

    Parameters
    ----------
    bound : int, float or None
        Largest loss g*; losses are clipped to [0, bound], and NaN counts as `bound`. With an int,
        losses are integers, stored in the smallest type that holds them. None: real losses without
        clipping. That is private too, because gradients are clipped; but a record with an infinite
        loss contributes a gradient of zero.
    scale : float, default=1.0
        Factor from stored losses to those of the gradients.

    Attributes
    ----------
    n_records : int or None
        Number of columns; None before the first row. Public.
    """

    def __init__(self, bound=None, scale=1.0):
        self._bound = bound
        self._is_integer = isinstance(bound, int)
        self._dtype = np.min_scalar_type(bound) if self._is_integer else np.float64
        self._scale = float(scale)
        self._rows = []
        self.n_records = None

    def add(self, losses, n_kept=None):
        """Append one row per point, and forget all but the last points.

        Parameters
        ----------
        losses : sequence of (array-like of shape (n_records,), or None)
            None for a point that could not be evaluated for a public reason: every record gets the
            worst loss there.
        n_kept : int, default=None
            Number of last points that are kept; None: all.
        """
        for row in losses:
            if row is not None:
                row = np.asarray(row)
                if row.ndim != 1 or len(row) != (self.n_records or len(row)):
                    raise ValueError("each row of losses must have one entry for each record")
                self.n_records = len(row)
        if self.n_records is None:
            raise ValueError("no point could be evaluated")
        for row in losses:
            if row is None:
                if self._bound is None:
                    raise ValueError("a point without losses needs a bound, the worst loss")
                bounded = np.full(self.n_records, self._bound, dtype=self._dtype)
            elif self._is_integer:
                if np.asarray(row).dtype.kind not in "iu":
                    raise TypeError("losses must be integers")
                bounded = np.clip(row, 0, self._bound).astype(self._dtype)
            else:
                bounded = np.asarray(row).astype(np.float64)  # a copy of the caller's row
                if self._bound is not None:
                    worst = np.where(np.isnan(bounded), self._bound, bounded)
                    bounded = np.clip(worst, 0.0, self._bound)
            self._rows.append(bounded)
        # The surrogate keeps the same points.
        if n_kept is not None:
            del self._rows[: len(self._rows) - n_kept]

    def gradients(self, weights):
        """Yield ``(weights @ losses).T`` in blocks of records.

        Parameters
        ----------
        weights : ndarray of shape (d, n_points)
            Public: posterior-mean gradient weights of the kept points.

        Yields
        ------
        ndarray of shape (any, d)
        """
        if weights.shape[1] != len(self._rows):
            raise ValueError("weights must have one column for each kept point")
        weights = self._scale * np.asarray(weights, dtype=np.float64)
        # In blocks, as all losses in double precision would take several times their memory.
        width = max(1, _CHUNK // len(self._rows))
        for start in range(0, self.n_records, width):
            # Silent: a warning about an infinite loss could reveal a record.
            with np.errstate(all="ignore"):
                chunk = np.stack([row[start : start + width] for row in self._rows])
                block = (weights @ chunk.astype(np.float64)).T
            yield block
