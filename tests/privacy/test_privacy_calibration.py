"""Noise scales are never too small, not even by rounding."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _support.internals import gaussian_sigma, l2_laplace_scale

mp = pytest.importorskip("mpmath").mp
mp.dps = 60

sensitivities = st.floats(1e-12, 1e12)
epsilons, deltas = (
    st.floats(math.log(low), math.log(high)).map(math.exp)
    for low, high in [(1e-3, 50), (1e-15, 0.5)]
)


def exact_delta(sensitivity, sigma, epsilon):
    mu, epsilon = mp.mpf(sensitivity) / mp.mpf(sigma), mp.mpf(epsilon)
    return mp.ncdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2)


@given(sensitivities, epsilons, deltas)
@settings(max_examples=150, deadline=None)
def test_gaussian_sigma_is_private_and_tight(sensitivity, epsilon, delta):
    sigma = gaussian_sigma(sensitivity, epsilon=epsilon, delta=delta)
    assert exact_delta(sensitivity, sigma, epsilon) <= mp.mpf(delta)
    assert exact_delta(sensitivity, sigma * (1 - 1e-8), epsilon) > mp.mpf(delta)


@given(sensitivities, st.floats(1e-3, 50))
@settings(max_examples=200, deadline=None)
def test_scales_are_the_smallest_floats_not_below_the_ratio(sensitivity, epsilon):
    exact = Fraction(sensitivity) / Fraction(epsilon)
    for scale in (
        l2_laplace_scale(sensitivity, epsilon),
        gaussian_sigma(sensitivity, mu=epsilon),
    ):
        assert Fraction(scale) >= exact
        assert Fraction(math.nextafter(scale, 0)) < exact


def test_planted_bug_plain_division_is_too_small_at_times():
    pairs = [(s / 7, e / 10) for s in range(1, 20) for e in range(1, 20)]
    assert any(Fraction(s / e) < Fraction(s) / Fraction(e) for s, e in pairs)
    assert all(Fraction(l2_laplace_scale(s, e)) >= Fraction(s) / Fraction(e) for s, e in pairs)


def test_exact_inputs_are_not_rounded_first():
    third = Fraction(1, 3)
    assert Fraction(l2_laplace_scale(third, 1)) >= third
    assert l2_laplace_scale(1, third) == 3.0
    big = 2**60 + 1  # no float is equal to it
    assert Fraction(l2_laplace_scale(big, 1)) >= big
    assert Fraction(gaussian_sigma(1, mu=third)) >= 3
    assert l2_laplace_scale(np.float32(0.5), np.int64(2)) == 0.25


def test_gaussian_sigma_needs_one_of_two_targets():
    for wanted in (
        {},
        {"epsilon": 1.0},
        {"delta": 1e-5},
        {"epsilon": 1.0, "delta": 1e-5, "mu": 1.0},
    ):
        with pytest.raises(ValueError, match="either epsilon and delta, or mu"):
            gaussian_sigma(1.0, **wanted)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, -math.inf])
def test_ranges(bad):
    for call in (
        lambda: gaussian_sigma(bad, mu=1.0),
        lambda: l2_laplace_scale(bad, 1.0),
    ):
        with pytest.raises(ValueError, match="sensitivity"):
            call()
    with pytest.raises(ValueError, match="epsilon"):
        l2_laplace_scale(1.0, bad)
    with pytest.raises(ValueError, match="mu"):
        gaussian_sigma(1.0, mu=bad)


def test_overflow_and_types():
    with pytest.raises(ValueError, match="too large"):
        l2_laplace_scale(1e300, 1e-300)
    with pytest.raises(TypeError, match="sensitivity"):
        l2_laplace_scale(True, 1.0)
    with pytest.raises(TypeError, match="epsilon"):
        l2_laplace_scale(1.0, "1")
