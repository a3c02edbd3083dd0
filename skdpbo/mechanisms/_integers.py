"""Checks and conversions of the integers and fractions that the exact mechanisms work on.

Messages are constant: they never contain a value, which may be protected.
"""

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_INT64_MAX = 2**63 - 1


def as_fraction(value: Any) -> Fraction:
    """Return a validated real number as the exact fraction that it is."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, numbers.Integral):
        return Fraction(int(value))
    return Fraction(float(value))


def float_at_least(value: Fraction) -> float:
    """Return the smallest float that is not below `value` (inf beyond the largest)."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def check_integer_sensitivity(sensitivity: Any) -> int:
    """Return a positive integer sensitivity, or raise."""
    if isinstance(sensitivity, bool) or not isinstance(sensitivity, numbers.Integral):
        raise TypeError("sensitivity must be an integer")
    if sensitivity <= 0:
        raise ValueError("sensitivity must be positive")
    return int(sensitivity)


def integers_from(values: ArrayLike, name: str) -> tuple[list[int], tuple[int, ...]]:
    """Return array-like integers as Python ints (no overflow) and their shape.

    Raises
    ------
    ValueError
        When a floating-point input is not finite.
    TypeError
        When the values are not integers; booleans are refused.
    """
    array = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    if array.dtype.kind in "iu":
        return array.ravel().tolist(), array.shape
    flat = array.ravel().tolist()
    if any(isinstance(value, float | np.floating) and not math.isfinite(value) for value in flat):
        raise ValueError(f"{name} must be finite")
    if any(isinstance(v, bool) or not isinstance(v, numbers.Integral) for v in flat):
        raise TypeError(f"{name} must be integers")
    return [int(value) for value in flat], array.shape


def integers_to(values: list[int], shape: tuple[int, ...]) -> int | NDArray[Any]:
    """Return Python ints as an int (shape ``()``) or an array of the given shape.

    The array is int64 when every value fits and holds Python ints (dtype object) otherwise;
    nothing wraps around.
    """
    if shape == ():
        return values[0]
    fits = all(-_INT64_MAX <= value <= _INT64_MAX for value in values)
    array = np.empty(len(values), dtype=np.int64 if fits else object)
    array[:] = values
    return array.reshape(shape)
