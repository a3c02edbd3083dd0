"""Records at one end of their bounds, told from released moments: bounds in other units."""

import numpy as np

from skdpbo._parameters import warn_caller
from skdpbo.exceptions import OutsideBoundsWarning

__all__ = ["at_one_end", "warn_of_ends"]

_CLEAR, _FAR = 0.15, 3.0  # of the half-width; standard deviations of the noise
_SQUARE, _MEAN = 0.95, 0.8  # of records at one end; rows that are shortened have less than 1


def at_one_end(mean, square, noise):
    """Return the columns whose records are nearly all at one end of their bounds, or beyond.

    Post-processing of released moments. Of a column whose noise is not small nothing is known.

    Parameters
    ----------
    mean, square : ndarray of shape (q,)
        Released, about the centre of the bounds, in units of half their width.
    noise : float or ndarray of shape (q,)
        Standard deviation of the noise of the square.

    Returns
    -------
    ndarray of int
    """
    clear, outer = _FAR * noise < _CLEAR, square + _FAR * noise >= _SQUARE
    return np.flatnonzero(clear & outer & (np.abs(mean) > _MEAN))


def warn_of_ends(bounds, columns=None):
    """Warn that nearly all records are at one end of some bounds, in columns if there are some."""
    which = "" if columns is None else f" (column {', '.join(map(str, columns.tolist()))})"
    warn_caller(
        f"By what was released, nearly all records are at one end of {bounds} or beyond "
        f"it{which}, where they are clipped: they may be in other units.",
        OutsideBoundsWarning,
    )
