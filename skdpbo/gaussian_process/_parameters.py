"""Checks of the estimator's parameters; nothing here sees a record."""

import numbers
import warnings

import numpy as np

from skdpbo.exceptions import DefaultBoundsWarning, SeededNoiseWarning
from skdpbo.gaussian_process._inducing import check_bounds

__all__ = [
    "bounds_or_default",
    "check_choice",
    "check_chunk_size",
    "check_flag",
    "positive_values",
    "warn_if_seeded",
]

DEFAULT_BOUNDS = (-3.0, 3.0)


def check_choice(value, name, choices):
    """Refuse a value that is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {list(choices)}, got {value!r}.")


def check_flag(value, name):
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")


def check_chunk_size(size):
    """Refuse what is not a positive integer."""
    if isinstance(size, bool) or not isinstance(size, numbers.Integral):
        raise TypeError("chunk_size must be an integer.")
    if size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {size}.")


def bounds_or_default(bounds, size, name, stacklevel):
    """Return bounds as two vectors; where None, the default with a `DefaultBoundsWarning`.

    Parameters
    ----------
    bounds : tuple (low, high) or None
    size : int
        Number of columns.
    name : str
    stacklevel : int
        Of the caller of ``fit``, as seen from the caller of this function.
    """
    if bounds is None:
        bounds = DEFAULT_BOUNDS
        warnings.warn(
            f"{name} was not given: {bounds} is used, whatever the data are. Give public bounds.",
            DefaultBoundsWarning,
            stacklevel=stacklevel + 1,
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


def warn_if_seeded(random_state, stacklevel):
    """Say that the guarantee is void."""
    if random_state is not None:
        warnings.warn(
            "random_state makes the noise reproducible: the result carries no privacy guarantee. "
            "Leave random_state=None for anything that is published.",
            SeededNoiseWarning,
            stacklevel=stacklevel + 1,
        )
