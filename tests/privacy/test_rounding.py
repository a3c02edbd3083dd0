"""Directed rounding against exact fractions."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _support.internals import l2_laplace_scale, round_down, round_up, round_up_root, text_below

positive = st.fractions(min_value=Fraction(1, 10**30), max_value=10**30)


@given(positive)
def test_the_two_neighbours_of_an_exact_value(value):
    low, high = round_down(value), round_up(value)
    assert Fraction(low) <= value <= Fraction(high)
    assert high in (low, math.nextafter(low, math.inf))
    assert (low == high) == (Fraction(high) == value)


@given(positive)
def test_a_text_is_not_above_its_value(value):
    assert float(text_below(value)) == round_down(value)


def test_texts_are_short():
    assert [text_below(x) for x in (1.0, 2, 0.1, 1e300)] == ["1", "2", "0.1", "1e+300"]
    assert text_below(0.9999995) == "0.9999995"


@given(positive)
def test_the_root_lies_above_and_close(square):
    root = round_up_root(square)
    assert Fraction(root) ** 2 >= square
    assert Fraction(math.nextafter(math.nextafter(root, 0.0), 0.0)) ** 2 < square


@given(st.integers(-3000, 3000), st.integers(1, 2**80))
def test_roots_of_tiny_and_huge_squares(exponent, mantissa):
    """A square below the floats: from 0 on, steps of the smallest float would never end."""
    square = Fraction(mantissa) * Fraction(2) ** exponent
    root = round_up_root(square)
    assert root == math.inf or Fraction(root) ** 2 >= square
    below = Fraction(math.nextafter(math.nextafter(root, 0.0), 0.0))
    assert below**2 < square


def test_floats_are_their_own_neighbours():
    for value in (0.1, 1.0, 5e-324, 1.7e308):
        assert round_up(value) == round_down(value) == value
    assert round_up_root(9) == 3.0


def test_a_nearest_root_lies_below():
    """A plain square root fails the first assertion above for many squares."""
    below = [n for n in range(2, 200) if Fraction(math.sqrt(n)) ** 2 < n]
    assert len(below) > 50
    assert all(round_up_root(n) > math.sqrt(n) for n in below)


def test_beyond_the_largest_float():
    assert round_up(Fraction(10) ** 400) == math.inf
    assert round_up(math.inf) == math.inf
    assert round_up_root(Fraction(10) ** 800) == math.inf
    assert round_up_root(0) == 0.0
    with pytest.raises(ValueError, match="noise scale is too large"):
        l2_laplace_scale(1.0, Fraction(1, 10**400))
