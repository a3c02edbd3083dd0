"""Checks of the estimator's parameters, and warnings about them; nothing here sees a record."""

import inspect
import reprlib
import warnings

import numpy as np

from skdpbo.exceptions import DefaultBoundsWarning, OutsideBoundsWarning, SeededNoiseWarning

DEFAULT_BOUNDS = (-3.0, 3.0)
_NARROWEST = 1e-250  # smallest width of a range: its reciprocal does not overflow
_INSIDE = ("skdpbo.", "sklearn.", "joblib.")  # pipelines call their steps through joblib
_ALTERNATIVES = {
    "X_bounds": ", or put a DPMinMaxScaler first, which releases them, and give (0, 1)"
}
# An assumption of every estimator that is fitted to protected rows.
OWN_RECORD = "each input row was computed from its own record and from public or released values"
OWN_GROUP = OWN_RECORD.replace("record", "group")
ORDER_OF_GROUPS = "the order in which the groups first appear in X is public"


def warn_caller(message, category):
    """Warn in the name of the first caller outside of skdpbo, scikit-learn and joblib."""
    level, frame = 2, inspect.currentframe().f_back
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def conditional_if_subclassed(estimator, guarantee):
    """Make the guarantee of a user's sub-class conditional: it may release more than its base."""
    kind = type(estimator)
    base = next(cls for cls in kind.__mro__ if cls.__module__.startswith("skdpbo."))
    if kind is base:
        return guarantee
    text = f"{kind.__name__} releases nothing of the records beyond what {base.__name__} does"
    return guarantee.assuming(text, status="conditional")


def warn_of_ends(bounds, columns=None):
    """Warn that nearly all records are near or beyond one end of bounds, in columns if given."""
    which = "" if columns is None else f" (column {', '.join(map(str, columns.tolist()))})"
    warn_caller(
        f"By what was released, nearly all records are near one end of {bounds} or clipped beyond "
        f"it{which}: they may be in other units.",
        OutsideBoundsWarning,
    )


def bounds_or_default(bounds, size, name, owner, alternative=""):
    """Return bounds of `size` columns as two vectors; None: the default, with a warning.

    The `DefaultBoundsWarning` names the class of `owner`, as there may be several steps, and what
    may be given instead of bounds.
    """
    if bounds is None:
        bounds = DEFAULT_BOUNDS
        warn_caller(
            f"{name} of {type(owner).__name__} is not given: {bounds} is used, whatever the units "
            f"are. Give public bounds, the range that values may have"
            f"{alternative or _ALTERNATIVES.get(name, '')}.",
            DefaultBoundsWarning,
        )
    return check_bounds(bounds, size, name)


def positive_values(values, size, name):
    """Return `size` floats from 1e-300 to 1e300, one for each target; a number serves all."""
    try:
        array = np.broadcast_to(_as_floats(values), size)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number, or {size} numbers; got {values!r}.") from None
    if not ((array >= 1e-300) & (array <= 1e300)).all():
        raise ValueError(f"{name} must be positive and finite, from 1e-300 to 1e300.")
    return array


def half_widths(bounds, name):
    """Return half the width of each column's bounds; refuse one whose square is no float."""
    half = bounds[1] / 2 - bounds[0] / 2
    if not ((half > 1e-150) & (half < 1e150)).all():
        raise ValueError(
            f"{name} must be more than 2e-150 and less than 2e150 apart: their distance is squared."
        )
    return half


def warn_if_seeded(random_state):
    """Warn that a seeded run has no privacy guarantee."""
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
        Each a finite number, or one number for each of `size` columns; low < high, by 1e-250 at
        least.
    size : int
        Number of columns.
    name : str
        Parameter's name, for messages.

    Returns
    -------
    low, high : ndarray of shape (size,)

    Raises
    ------
    ValueError
        For anything else.
    """
    if isinstance(bounds, str):
        raise ValueError(
            f"{name} must be a public pair (low, high) here; got {_shown(bounds)}. "
            'DPSparseGPRegressor takes "private", and DPMinMaxScaler(X_bounds=None) releases '
            "ranges of columns."
        )
    if isinstance(bounds, list) and all(isinstance(bound, tuple) for bound in bounds):
        # Other libraries take a list of one pair per column: for two columns the same shape.
        raise ValueError(
            f"{name} is (lows, highs) and not one pair for each column: write "
            f"{_shown(tuple(map(list, zip(*bounds, strict=False))))}, which is "
            f"tuple(zip(*pairs)), instead of {_shown(bounds)}."
        )
    try:
        low, high = map(_as_floats, bounds)
        low, high = np.broadcast_to(low, size), np.broadcast_to(high, size)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be a pair (low, high) of numbers, or of vectors with {size} values; "
            f"got {_shown(bounds)}."
        ) from None
    # Halved first: the difference of both ends may overflow.
    wide = np.isfinite(low) & np.isfinite(high)
    wide[wide] = high[wide] / 2 - low[wide] / 2 >= _NARROWEST / 2
    if not wide.all():
        where = f", not so in column {', '.join(map(str, np.flatnonzero(~wide)[:6]))}" * bool(
            wide.any()
        )
        raise ValueError(
            f"{name} must be (lows, highs), finite, each low below its high by {_NARROWEST} or "
            f"more; got {_shown(bounds)}{where}."
        )
    # Broadcast arrays are read-only, and may be views of the caller's.
    return low.copy(), high.copy()


def _as_floats(values):
    """Return an array of floats; refuse texts and truth values, which numpy would convert."""
    if np.asarray(values).dtype.kind in "bSU":
        raise TypeError
    return np.asarray(values, dtype=np.float64)


def _shown(bounds):
    """Return bounds as text for a message: plain numbers, at most six of a vector."""
    return reprlib.repr(_plain(bounds))


def _plain(value):
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        parts = [_plain(part) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    return value
