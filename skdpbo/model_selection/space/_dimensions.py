"""One parameter of a search space: categories, a range, or a distribution of scipy or skopt.

Every dimension has ``size`` (number of values, ``math.inf`` if continuous), ``uniform`` (whether
draws are equally likely), ``width`` (columns of its encoding) and works with *tokens*: hashable
stand-ins for its values, so that unhashable values and estimators can be compared by position.
Those of a finite dimension are integers from ``first`` on.
"""

import math
import numbers
import operator
from collections.abc import Sequence

import numpy as np
from scipy import stats

_SCALES = ("uniform", "log-uniform")


def plain_values(values, name):
    """Return a dimension of scikit-optimize as a list or a range; anything else as it is.

    ``Categorical`` has ``categories``; ``Real`` and ``Integer`` have ``low``, ``high``, ``prior``
    and, in newer versions, ``dtype``. All of them have a method ``rvs``.

    Parameters
    ----------
    values : object
        As in `make_dimension`.
    name : str
        Name of the parameter, for errors.
    """
    if not hasattr(values, "rvs"):
        return values
    if hasattr(values, "categories"):
        weights = getattr(values, "prior", None)
        if weights is not None and len(set(weights)) > 1:
            raise ValueError(
                f"{name} has prior probabilities that differ, which are not supported: leave prior "
                "out, or give a list."
            )
        return list(values.categories)
    if not (hasattr(values, "low") and hasattr(values, "high")):
        return values  # a distribution of scipy
    # Older versions of scikit-optimize have no dtype, but different classes.
    usual = int if type(values).__name__ == "Integer" else float
    kind = int if np.dtype(getattr(values, "dtype", usual)).kind in "iu" else float
    return kind(values.low), kind(values.high), getattr(values, "prior", None) or "uniform"


def make_dimension(values, name, bounded=False):
    """Build the dimension that a user's value describes.

    Parameters
    ----------
    values : list, ndarray of shape (k,), tuple, frozen scipy distribution or skopt dimension
        The description.
    name : str
        Name of the parameter, for errors.
    bounded : bool, default=False
        Whether a distribution of infinite support is an error.

    Returns
    -------
    Categories, Range or Distribution
        The dimension.
    """
    values = plain_values(values, name)
    if hasattr(values, "rvs"):
        return Distribution(values, name, bounded)
    if isinstance(values, tuple):
        return Range(values, name)
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise ValueError(f"{name} must be one-dimensional, got {values.ndim} dimensions")
        values = values.tolist()  # NumPy scalars become Python ones
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise TypeError(
            f"{name} must be a list, a tuple (low, high[, 'log-uniform']) or a frozen scipy "
            f"distribution, got {type(values).__name__}; write one fixed value as a list of one"
        )
    if len(values) == 0:
        raise ValueError(f"{name} is empty: give at least one value")
    return Categories(list(values))


class Categories:
    """List of values of any type; tokens are positions, with a column for each value."""

    uniform = True
    first = 0

    def __init__(self, values):
        self.values = values
        self.size = self.width = len(values)

    def token(self, u):
        """Return the position of the draw at ``u`` in [0, 1]."""
        return min(int(u * self.size), self.size - 1)  # u = 1 belongs to the last

    def find(self, value):
        """Return the position of a value, or None: the same object first, then equal ones."""
        # A value of the same type is preferred, as 1, 1.0 and True are equal.
        for same in (operator.is_, lambda a, b: type(a) is type(b) and _is_equal(a, b), _is_equal):
            for position, candidate in enumerate(self.values):
                if same(candidate, value):
                    return position
        return None

    def features(self, token):
        """Return the one-hot row of a position."""
        row = np.zeros(self.size)
        row[token] = 1.0
        return row


class _Number:
    """Base class of numeric dimensions: a number is its own token; one column.

    A sub-class has `_support`, the ends, and `_is_integer`.
    """

    width = 1
    values = None

    def find(self, value):
        """Return the value as a Python number if it belongs to the dimension, else None."""
        if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
            return None
        low, high = self._support
        if not low <= value <= high or (self._is_integer and value != int(value)):
            return None
        return int(value) if self._is_integer else float(value)


class Range(_Number):
    """Integers or reals in [low, high], uniform or log-uniform; one column.

    u = (f(x) - a) / (b - a) with f the identity or the logarithm. An integer stands for the
    interval of half a unit on both sides.
    """

    def __init__(self, values, name):
        if len(values) not in (2, 3):
            raise ValueError(
                f"{name} is a tuple and must be (low, high) or (low, high, 'log-uniform'); "
                "write categories as a list"
            )
        low, high, scale = (*values, "uniform")[:3]
        if not isinstance(scale, str) or scale not in _SCALES:
            raise ValueError(
                f"the scale of {name} must be one of {_SCALES}; write categories as a list"
            )
        for end in (low, high):
            if isinstance(end, bool | np.bool_) or not isinstance(end, numbers.Real):
                raise TypeError(
                    f"the ends of {name} must be numbers, got {type(end).__name__}; "
                    "write categories as a list"
                )
        is_integer = isinstance(low, numbers.Integral) and isinstance(high, numbers.Integral)
        low, high = (int(low), int(high)) if is_integer else (float(low), float(high))
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(f"the ends of {name} must be finite, got ({low}, {high})")
        if low == high:
            raise ValueError(f"{name} is empty, its ends are equal: write a fixed value as a list")
        if low > high:
            raise ValueError(f"the ends of {name} are reversed: got ({low}, {high})")
        if scale == "log-uniform" and low <= 0:
            raise ValueError(f"a log-uniform range needs 0 < low: {name} has low={low}")
        is_log = scale == "log-uniform"
        self.first, self._support = low, (low, high)
        self._is_integer, self._is_log = is_integer, is_log
        self._forward = math.log if is_log else float
        self.size = high - low + 1 if is_integer else math.inf
        self.uniform = not is_log
        half = 0.5 if is_integer else 0.0
        self._ends = (self._forward(low - half), self._forward(high + half))

    def token(self, u):
        """Return the value at ``u`` in [0, 1]."""
        x = self._ends[0] * (1.0 - u) + self._ends[1] * u  # no overflow for wide ranges
        x = math.exp(x) if self._is_log else x
        low, high = self._support
        return min(max(round(x) if self._is_integer else x, low), high)

    def features(self, token):
        """Return the position in the unit interval."""
        a, b = self._ends
        scale = max(abs(a), abs(b), 1.0)  # divided first: b - a may overflow
        u = (self._forward(token) / scale - a / scale) / (b / scale - a / scale)
        return np.array([min(max(u, 0.0), 1.0)])


class Distribution(_Number):
    """Frozen scipy distribution, encoded by its distribution function."""

    def __init__(self, distribution, name, bounded):
        family = getattr(distribution, "dist", distribution)
        if family is distribution and getattr(distribution, "numargs", 0):
            raise ValueError(f"{name} is a family of distributions: give it its parameters first")
        if not all(hasattr(distribution, method) for method in ("ppf", "cdf", "support")):
            raise TypeError(f"{name} must be a frozen scipy distribution with ppf, cdf and support")
        low, high = self._support = distribution.support()
        if not float(low) <= float(high):  # also NaN, which scipy returns for invalid parameters
            raise ValueError(f"{name} is an empty distribution: its parameters are invalid")
        is_bounded = math.isfinite(low) and math.isfinite(high)
        if bounded and not is_bounded:
            raise ValueError(f"{name} has infinite support: give a range (low, high) instead")
        self._distribution = distribution
        # rv_discrete(values=(xk, pk)) may have real values, `xk`.
        self._is_integer = isinstance(family, stats.rv_discrete) and not hasattr(family, "xk")
        finite = self._is_integer and is_bounded
        self.first = int(low) if finite else None
        self.size = int(high) - int(low) + 1 if finite else math.inf
        self.uniform = False  # positions are not equally likely

    def token(self, u):
        """Return the quantile at ``u``, kept away from 0 and 1, where it may be infinite."""
        x = float(self._distribution.ppf(min(max(u, 2.0**-30), 1.0 - 2.0**-30)))
        return int(x) if self._is_integer else x

    def features(self, token):
        """Return the distribution function, in the middle of its jump for integers."""
        u = float(self._distribution.cdf(token))
        if self._is_integer:
            u = 0.5 * (u + float(self._distribution.cdf(token - 1)))
        return np.array([min(max(u, 0.0), 1.0)])


def _is_equal(a, b):
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    try:
        return bool(a == b)
    except Exception:  # comparisons of user types may raise: found by identity alone
        return False
