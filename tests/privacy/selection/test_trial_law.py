"""Law of the number of trials against its definition in high precision."""

import math
import pickle

import mpmath
import numpy as np
import pytest

from skdpbo.privacy import TrialLaw

LAWS = [(30, -0.5), (30, 0.0), (30, 1.0), (12, 2.5), (5, -0.9), (100, 0.3), (1.01, 0.0), (1e5, 0.0)]


def exact(law, digits=60):
    """Probability generating function and probabilities by their definitions."""
    mpmath.mp.dps = digits
    gamma, eta = mpmath.mpf(law.gamma), mpmath.mpf(law.eta)

    def pgf(x):
        t = 1 - (1 - gamma) * mpmath.mpf(x)
        if eta == 0:
            return mpmath.log(t) / mpmath.log(gamma)
        return (t**-eta - 1) / (gamma**-eta - 1)

    def pmf(k):
        if eta == 0:
            return (1 - gamma) ** k / (k * mpmath.log(1 / gamma))
        rising = mpmath.rf(eta, k) / mpmath.factorial(k)
        return rising * (1 - gamma) ** k / (gamma**-eta - 1)

    def tail(k):
        return pmf(k + 1) * mpmath.hyp2f1(k + 1 + eta, 1, k + 2, 1 - gamma)

    return pgf, pmf, tail


@pytest.mark.parametrize(("mean", "eta"), LAWS)
class TestAgainstDefinition:
    def test_mean(self, mean, eta):
        pgf, _, _ = exact(TrialLaw(mean, eta))
        assert float(mpmath.diff(pgf, 1, h=mpmath.mpf(10) ** -25)) == pytest.approx(mean, rel=1e-12)

    def test_generating_function(self, mean, eta):
        law = TrialLaw(mean, eta)
        pgf, _, _ = exact(law)
        for x in (1e-3, 0.3, 0.5, 0.9, 1 - 1e-9):
            assert law.pgf(x) == pytest.approx(float(pgf(x)), rel=1e-12)
            assert law.hit_probability(1 - x) == pytest.approx(float(1 - pgf(x)), abs=1e-12)
        assert law.pgf(0) == 0
        assert law.pgf(1) == pytest.approx(1, rel=1e-14)

    def test_probabilities(self, mean, eta):
        law = TrialLaw(mean, eta)
        _, pmf, tail = exact(law)
        for k in (1, 2, 5, 50, 1000):
            assert law.pmf(k) == pytest.approx(float(pmf(k)), rel=1e-9, abs=1e-300)
            rare = tail(k)
            if rare > 1e-40:
                assert law.survival(k) == pytest.approx(float(rare), rel=1e-9)
        assert law.pmf(0) == 0
        assert law.survival(0) == 1

    def test_share_of_long_runs(self, mean, eta):
        law = TrialLaw(mean, eta)
        k = 3 if mean < 2 else math.ceil(2 * mean)
        short = math.fsum(j * law.pmf(j) for j in range(1, min(k, 20_000) + 1))
        if k <= 20_000:
            assert law.size_biased_survival(k) == pytest.approx(1 - short / mean, abs=1e-10)
        assert law.size_biased_survival(0) == 1


@pytest.mark.parametrize("eta", [-0.5, 0.0, 1.0, 3.0])
def test_mean_one_is_one_trial(eta):
    law = TrialLaw(1, eta)
    assert law.gamma == 1
    assert (law.pmf(1), law.pmf(2), law.survival(1), law.size_biased_survival(1)) == (1, 0, 0, 0)
    assert law.pgf(0.25) == 0.25


def test_rare_shape_never_meets_a_good_candidate_more_often():
    # For eta < 0 the hit probability is below share^-eta, whatever the mean.
    limit = math.sqrt(0.1)
    assert TrialLaw(1e8, -0.5).hit_probability(0.1) < limit
    assert TrialLaw(1e8, -0.5).hit_probability(0.1) == pytest.approx(limit, abs=1e-3)
    assert TrialLaw(1e4, 0.0).hit_probability(0.1) > 0.8


@pytest.mark.parametrize("mean", [0.5, -3, math.nan, math.inf])
def test_bad_means_are_refused(mean):
    with pytest.raises(ValueError, match="mean"):
        TrialLaw(mean)


@pytest.mark.parametrize("eta", [-1, -2.0, math.nan, math.inf, 1e4])
def test_bad_shapes_are_refused(eta):
    with pytest.raises(ValueError, match="eta"):
        TrialLaw(30, eta)


def test_mean_out_of_reach_is_refused():
    with pytest.raises(ValueError, match="too large"):
        TrialLaw(1e9, -0.99)


@pytest.mark.parametrize("bad", ["30", None, True])
def test_other_types_are_refused(bad):
    with pytest.raises(TypeError, match="mean"):
        TrialLaw(bad)


@pytest.mark.parametrize(
    "call",
    [
        lambda law: law.pgf(1.5),
        lambda law: law.hit_probability(-0.1),
        lambda law: law.survival(-1),
        lambda law: law.pmf(-1),
    ],
)
def test_arguments_outside_their_range_are_refused(call):
    with pytest.raises(ValueError, match="must"):
        call(TrialLaw(5))


def test_numbers_of_trials_are_integers():
    with pytest.raises(TypeError, match="k must be an integer"):
        TrialLaw(5).survival(2.5)


def test_is_a_value():
    law = TrialLaw(np.int64(30), 0)
    assert law == TrialLaw(30.0, 0.0)
    assert hash(law) == hash(TrialLaw(30.0, 0.0))
    assert pickle.loads(pickle.dumps(law)) == law
    assert law != TrialLaw(30.0, 1.0)
    with pytest.raises(AttributeError):
        law.mean = 3


def test_the_smallest_and_largest_numbers_have_a_law():
    assert TrialLaw(3.0, 5e-324).pmf(2) == pytest.approx(TrialLaw(3.0, 0.0).pmf(2))
    assert TrialLaw(3.0).pmf(10**30) == 0
