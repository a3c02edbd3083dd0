"""Totals of private selection against their formulas, in exact or 50-digit arithmetic."""

import math
from fractions import Fraction

import pytest

from _support.internals import (
    GaussianProfile,
    StaircaseProfile,
    core_epsilon,
    distance_cost,
    prices_of_a_cap,
    total_epsilon,
)
from skdpbo.privacy import TrialLaw

mp = pytest.importorskip("mpmath").mp


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 5.0, 30.0, 600.0])
def test_a_distance_costs_one_plus_exp_epsilon_times_itself(epsilon):
    with mp.workdps(50):
        exact = (1 + mp.exp(mp.mpf(epsilon))) * mp.mpf(1e-9)
        assert exact <= distance_cost(epsilon, 1e-9) <= exact * (1 + mp.mpf(1e-11))
    assert distance_cost(epsilon, 0.0) == 0.0
    assert distance_cost(800.0, 1e-9) == math.inf


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("profile", [GaussianProfile(0.2), StaircaseProfile(0.3, 1e-8)])
@pytest.mark.parametrize("distance", [1e-9, 1e-8])
def test_the_distance_of_every_expected_trial_is_charged(profile, distance):
    law, delta = TrialLaw(30), 1e-5

    def core(rest):
        return core_epsilon("profile", profile, law, rest, None)

    def rest(epsilon):
        return delta - (1 + math.exp(epsilon)) * 30 * distance

    total = total_epsilon(profile, distance, law, delta, "profile", None)
    assert core(rest(total)) <= total * (1 + 1e-9)
    assert core(rest(total * (1 - 1e-6))) > total * (1 - 1e-6)


@pytest.mark.parametrize("mean", [2, 30, 1000])
@pytest.mark.parametrize("times", [1, 5, 20])
def test_tails_of_a_cap_lie_above_the_exact_ones(mean, times):
    cut, keep = mean * times, 1 - Fraction(1, mean)
    tail = keep**cut
    # a size-biased geometric K is the sum of two, minus one
    share = keep**cut * (1 + Fraction(cut, mean))
    (*nothing, distance), (shift, addition, none) = prices_of_a_cap(TrialLaw(mean), cut)
    assert [*nothing, none] == [0.0, 0.0, 0.0]
    for value in (distance, addition):
        assert tail * (1 + Fraction(1, 10**7)) < value < tail * (1 + Fraction(1, 10**5))
    found = -math.expm1(-shift)
    assert share * (1 + Fraction(1, 10**7)) < found < share * (1 + Fraction(1, 10**5))


def test_no_cap_costs_nothing():
    assert prices_of_a_cap(TrialLaw(30), None) == [(0.0, 0.0, 0.0)]
