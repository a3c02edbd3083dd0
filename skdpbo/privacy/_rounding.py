"""Directed rounding: floats that lie on a known side of an exact value."""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["one_plus_exp", "round_down", "round_up", "round_up_finite", "round_up_root"]


def round_up(value: Fraction | float) -> float:
    """Return the smallest float that is not below `value`; inf beyond the largest."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    if math.isinf(nearest):
        return nearest
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def round_down(value: Fraction | float) -> float:
    """Return the largest float that is not above `value`, which is positive."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, 0.0)


def round_up_finite(value: Fraction | float, name: str) -> float:
    """Round up, or refuse a value that no float reaches.

    Raises
    ------
    ValueError
        If `value` is above the largest float.
    """
    rounded = round_up(value)
    if math.isinf(rounded):
        raise ValueError(f"{name} is too large for a float.")
    return rounded


def round_up_root(square: Fraction | float) -> float:
    """Return a float that is not below the square root of `square`; at most one ulp above."""
    root = math.sqrt(float(square))
    # The square was rounded to a float, and its root again: either may fall short.
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def one_plus_exp(epsilon: float) -> float:
    """Return 1 + e^epsilon; inf beyond the largest float, so that no delta is understated."""
    return 1 + math.exp(epsilon) if epsilon < 709 else math.inf
