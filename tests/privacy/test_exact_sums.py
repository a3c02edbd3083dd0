"""Sums of privacy parameters are exact, whatever their sizes, and quick for many charges."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _support.internals import (
    PrivacyGuarantee,
    added_epsilon,
    composed_epsilon,
    exact_sum,
)

AMOUNTS = st.lists(
    st.one_of(st.floats(0, 1e308), st.sampled_from([0.1, 1e-5, 5e-324, 2.0**52 + 1, 1.0, -0.25])),
    max_size=30,
)


@given(AMOUNTS)
def test_sums_are_those_of_fractions(values):
    assert exact_sum(values) == sum(map(Fraction, values), Fraction(0))
    assert exact_sum(values, power=2) == sum((Fraction(v) ** 2 for v in values), Fraction(0))


def test_an_infinite_amount_is_refused():
    with pytest.raises(OverflowError):
        exact_sum([1.0, math.inf])


def test_nothing_is_lost_below_the_largest_amount():
    charged = [PrivacyGuarantee(epsilon=e) for e in (2.0**60, *[2.0**-60] * 3)]
    assert added_epsilon(charged, 0.0) == math.nextafter(2.0**60, math.inf)


def test_deltas_that_exceed_the_budget_by_one_bit_do_not_add():
    charged = [PrivacyGuarantee(epsilon=1.0, delta=1e-6)] * 10
    exact = sum((Fraction(1e-6) for _ in charged), Fraction(0))
    below = float(exact) if Fraction(float(exact)) < exact else math.nextafter(float(exact), 0)
    assert added_epsilon(charged, below) == math.inf
    assert added_epsilon(charged, math.nextafter(below, 1.0)) == 10.0


def test_gaussian_releases_of_many_sizes_compose_like_one():
    mus = [0.01 * (1 + k / 7) for k in range(50)]
    total = math.sqrt(math.fsum(mu * mu for mu in mus))
    many = [PrivacyGuarantee(epsilon=5.0, delta=1e-6, mu=mu) for mu in mus]
    one = [PrivacyGuarantee(epsilon=5.0, delta=1e-6, mu=total)]
    assert composed_epsilon(many, 1e-5) == pytest.approx(composed_epsilon(one, 1e-5), rel=1e-9)
