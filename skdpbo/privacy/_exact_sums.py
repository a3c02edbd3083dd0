"""Exact sums of many floats, as ledgers and compositions need them at every charge.

A float is an integer over a power of two, so a sum is one of integers; equal values, of which a
ledger has many, are added once. Sums of Fractions would look for a common divisor at each step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction


def exact_sum(values: Iterable[float]) -> Fraction:
    """Sum of finite floats, without rounding."""
    return _sum(
        (count * numerator, denominator)
        for (numerator, denominator), count in _ratios(values).items()
    )


def exact_sum_of_squares(values: Iterable[float]) -> Fraction:
    """Sum of the squares of finite floats, without rounding."""
    return _sum(
        (count * numerator * numerator, denominator * denominator)
        for (numerator, denominator), count in _ratios(values).items()
    )


def _ratios(values: Iterable[float]) -> dict[tuple[int, int], int]:
    """Count equal values, as numerator and denominator, a power of two."""
    return {value.as_integer_ratio(): count for value, count in Counter(values).items()}


def _sum(terms: Iterable[tuple[int, int]]) -> Fraction:
    """Sum of ratios whose denominators are powers of two."""
    pairs = list(terms)
    common = max((denominator for _, denominator in pairs), default=1)
    bits = common.bit_length()
    total = sum(numerator << (bits - denominator.bit_length()) for numerator, denominator in pairs)
    return Fraction(total, common)
