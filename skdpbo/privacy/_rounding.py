"""Directed rounding: floats that lie on a known side of an exact value."""

from __future__ import annotations

import math
from fractions import Fraction


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


def round_up_root(square: Fraction | float) -> float:
    """Return a float at or above the square root of `square`, by one ulp at most; inf beyond."""
    exact = Fraction(square)
    # Scaled near 1 by a power of 4, so that the float neither underflows nor overflows.
    shift = (exact.numerator.bit_length() - exact.denominator.bit_length()) // 2
    scaled = exact / Fraction(4) ** shift
    root = math.sqrt(float(scaled))
    # Rounding the square and its root may each have lowered the result.
    while Fraction(root) ** 2 < scaled:
        root = math.nextafter(root, math.inf)
    return round_up(Fraction(root) * Fraction(2) ** shift)


def text_below(value: Fraction | float) -> str:
    """Return the shortest text of the largest float that is not above `value` > 0."""
    return repr(round_down(value)).removesuffix(".0")


def one_plus_exp(epsilon: float) -> float:
    """Return 1 + e^epsilon; inf from epsilon = 709 on, where it nears the largest float."""
    return 1 + math.exp(epsilon) if epsilon < 709 else math.inf
