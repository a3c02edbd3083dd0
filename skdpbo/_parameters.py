"""Checks of the estimator's parameters, and warnings about them; nothing here sees a record."""

import inspect
import warnings

import numpy as np

from skdpbo.exceptions import DefaultBoundsWarning, SeededNoiseWarning

__all__ = [
    "OWN_GROUP",
    "OWN_RECORD",
    "bounds_or_default",
    "check_bounds",
    "positive_values",
    "warn_caller",
    "warn_if_seeded",
]

DEFAULT_BOUNDS = (-3.0, 3.0)
_INSIDE = ("skdpbo.", "sklearn.")
# An assumption of every estimator that is fitted to protected rows.
OWN_RECORD = "each input row was computed from its own record and from public or released values"
OWN_GROUP = OWN_RECORD.replace("record", "group")


def warn_caller(message, category):
    """Warn in the name of the first caller outside of skdpbo and scikit-learn."""
    level, frame = 2, inspect.currentframe().f_back
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def bounds_or_default(bounds, size, name):
    """Return bounds of `size` columns as two vectors; a `DefaultBoundsWarning` where None."""
    if bounds is None:
        bounds = DEFAULT_BOUNDS
        warn_caller(
            f"{name} was not given: {bounds} is used, whatever the data are. Give public bounds.",
            DefaultBoundsWarning,
        )
    return check_bounds(bounds, size, name)


def positive_values(values, size, name):
    """Return `size` positive finite floats, one for each target; a number serves all."""
    try:
        array = np.broadcast_to(np.asarray(values, dtype=np.float64), size)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, or {size} numbers; got {values!r}.") from None
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(f"{name} must be positive and finite.")
    return array


def warn_if_seeded(random_state):
    """Say that the guarantee is void."""
    if random_state is not None:
        warn_caller(
            "random_state makes the noise reproducible: the result carries no privacy guarantee. "
            "Leave random_state=None for anything that is published.",
            SeededNoiseWarning,
        )


def check_bounds(bounds, size, name):
    """Return public bounds as two vectors.

    Parameters
    ----------
    bounds : tuple (low, high)
        Each a finite number, or one number for each of `size` columns; low < high.
    size : int
        Number of columns.
    name : str
        What to call them in a message.

    Returns
    -------
    low, high : ndarray of shape (size,)

    Raises
    ------
    ValueError
        When they are not such a pair.
    """
    if isinstance(bounds, list) and all(isinstance(bound, tuple) for bound in bounds):
        # Other libraries take a list with one pair for each column, which looks alike for two.
        raise ValueError(
            f"{name} is (lows, highs) and not one pair for each column: write "
            f"{tuple(map(list, zip(*bounds, strict=False)))} instead of {bounds!r}."
        )
    try:
        low, high = (np.asarray(bound, dtype=np.float64) for bound in bounds)
        low, high = np.broadcast_to(low, size), np.broadcast_to(high, size)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be a pair (low, high) of numbers, or of vectors with {size} values; "
            f"got {bounds!r}."
        ) from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ValueError(
            f"{name} must be (lows, highs), finite, each low below its high; got {bounds!r}."
        )
    # Broadcast arrays are read-only, and may be views of the caller's.
    return low.copy(), high.copy()
