"""Private means: sensitivities by brute force, budgets, plan, hostile records, and the trap."""

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from _support.internals import (
    clipped_mean_sensitivity,
    default_shares,
    interval_mean_sensitivity,
    share_of_budget,
)
from skdpbo.mechanisms import BoundedMean, CoinPressMean, GaussianMechanism, noise_source

ALARM = 1e-6
NOISELESS = 1e12  # a budget so large that nothing but rounding is left of the noise
NASTY = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 1e9]


def one_step(threshold_of=2.0, **kwargs):
    return CoinPressMean(mu=NOISELESS, center=0.0, radius=threshold_of, n_steps=1, **kwargs)


class TestSensitivity:
    """Largest change over neighbours: every record that the mechanism could tell apart."""

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("d", [1, 2, 3])
    @pytest.mark.parametrize("n", [1, 4])
    def test_step_of_coinpress(self, d, n):
        mechanism = one_step()
        (step,) = mechanism._steps(n, d)
        others = np.random.RandomState(d).normal(size=(n - 1, d)) * 3
        grid = itertools.product([*np.linspace(-9, 9, 3), *NASTY[:4]], repeat=d)
        means = [mechanism.release(np.vstack([others, row])) for row in grid]
        changes = np.linalg.norm(np.subtract.outer(means, means).diagonal(axis1=1, axis2=3), axis=2)
        bound = clipped_mean_sensitivity(step.clip, n)
        assert 0.999 * bound < changes.max() <= bound * (1 + 1e-9)

    @pytest.mark.parametrize("n", [1, 5])
    @pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.0, 0.5), (1e6, 1e6 + 1), (-7, -2)])
    def test_interval(self, low, high, n):
        mechanism = BoundedMean(mu=NOISELESS, low=low, high=high)
        others = np.linspace(low - 1, high + 1, n - 1)
        grid = [*np.linspace(low, high, 7), *NASTY]
        means = np.array([mechanism.release(np.append(others, x)) for x in grid])
        bound = interval_mean_sensitivity(low, high, n)
        assert np.ptp(means) == pytest.approx(bound, rel=1e-7, abs=1e-9)

    def test_interval_in_several_dimensions(self):
        mechanism = BoundedMean(mu=NOISELESS, low=-1.0, high=2.0)
        corners = [mechanism.release([row]) for row in itertools.product([-9.0, 9.0], repeat=3)]
        changes = [np.linalg.norm(a - b) for a, b in itertools.combinations(corners, 2)]
        bound = interval_mean_sensitivity(-1.0, 2.0, 1) * math.sqrt(3)
        assert max(changes) == pytest.approx(bound, rel=1e-9)
        noisy = BoundedMean(mu=0.5, low=-1.0, high=2.0)
        assert noisy.noise_sd(1, 3) * 0.5 >= bound
        assert noisy.noise_sd(1, 3) * 0.5 == pytest.approx(bound, rel=1e-6)

    def test_interval_sensitivity_is_rounded_up(self):
        assert (
            Fraction(interval_mean_sensitivity(0.1, 0.7, 3)) >= (Fraction(0.7) - Fraction(0.1)) / 3
        )

    @pytest.mark.parametrize("n", [1, 7, 1000])
    def test_noise_is_sensitivity_over_mu(self, n):
        mean = BoundedMean(mu=0.4, low=-1.0, high=4.0)
        assert mean.noise_sd(n) == pytest.approx(interval_mean_sensitivity(-1, 4, n) / 0.4)
        coin = CoinPressMean(mu=0.4, center=0.0, radius=5.0, n_steps=1)
        (step,) = coin._steps(n, 1)
        assert coin.noise_sd(n) == pytest.approx(clipped_mean_sensitivity(step.clip, n) / 0.4)


class TestBudget:
    @given(
        st.floats(1e-4, 100.0),
        st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=20),
        st.integers(1, 10**6),
        st.integers(1, 60),
    )
    @settings(max_examples=60, deadline=None)
    def test_steps_spend_at_most_the_total_exactly(self, mu, weights, n, d):
        shares = [w / sum(weights) for w in weights]
        mean = CoinPressMean(mu=mu, center=0.0, radius=7.0, n_steps=len(shares), shares=shares)
        steps = mean._steps(n, d)
        spent = sum((Fraction(step.mu) ** 2 for step in steps), Fraction(0))
        total = Fraction(mean.guarantee.mu) ** 2
        assert total * Fraction(1 - 1e-9) < spent <= total
        # and every release spends what its step says
        assert all(step.sigma * step.mu >= 2 * step.clip / n * (1 - 1e-15) for step in steps)

    def test_default_shares(self):
        assert default_shares(12) == pytest.approx([1 / 44] * 11 + [3 / 4])
        assert default_shares(1) == (1.0,)
        assert default_shares(2) == (0.25, 0.75)

    @pytest.mark.parametrize(
        "shares", [[0.5, 0.6], [0.5, 0.4], [1.5, -0.5], [1.0, 0.0], [1.0], [math.nan, 1.0]]
    )
    def test_shares_that_do_not_add_up_are_refused(self, shares):
        with pytest.raises(ValueError, match="share"):
            CoinPressMean(mu=1.0, center=0.0, radius=1.0, n_steps=2, shares=shares)

    def test_share_of_budget(self):
        assert share_of_budget(3.0, 0.25) == pytest.approx(1.5)
        assert share_of_budget(3.0, 0.25) < 1.5

    @pytest.mark.parametrize("make", [
        lambda **budget: CoinPressMean(center=0.0, radius=3.0, **budget),
        lambda **budget: BoundedMean(low=0.0, high=3.0, **budget),
    ])  # fmt: skip
    def test_guarantee_is_that_of_one_gaussian(self, make):
        for budget in ({"mu": 0.3}, {"epsilon": 1.0, "delta": 1e-5}, {"mu": 1.0, "delta": 1e-6}):
            ours, gaussian = make(**budget).guarantee, GaussianMechanism(**budget, sensitivity=1.0)
            theirs = gaussian.guarantee
            assert (ours.mu, ours.epsilon, ours.delta) == (theirs.mu, theirs.epsilon, theirs.delta)
            assert ours.status == "proved"
        for wrong in ({}, {"mu": 1.0, "epsilon": 1.0}, {"epsilon": 1.0}, {"mu": -1.0}):
            with pytest.raises((ValueError, TypeError)):
                make(**wrong)


class TestPlan:
    """Theory: everything but the centres is a function of public numbers."""

    def test_the_formulas(self):
        mean = CoinPressMean(mu=1.0, center=0.0, radius=1000.0, n_steps=3)
        radius, log_b = 1000.0, math.log(100)
        gamma = math.sqrt(1 + 2 * math.sqrt(log_b) + 2 * log_b)
        assert gamma == pytest.approx(3.808, abs=5e-4)
        for step, share in zip(mean._steps(1000, 1), [1 / 8, 1 / 8, 3 / 4], strict=True):
            corner = math.sqrt(radius**2 + 2 * radius * math.sqrt(math.log(200)) + gamma**2)
            assert step.clip == pytest.approx(min(corner, radius + gamma))
            assert step.mu == pytest.approx(math.sqrt(share))
            assert step.sigma == pytest.approx(2 * step.clip / (1000 * step.mu))
            radius = gamma * math.sqrt(1 / 1000 + step.sigma**2)

    @pytest.mark.parametrize("d", [1, 3, 50])
    @pytest.mark.parametrize("beta", [0.01, 0.1])
    def test_a_normal_record_exceeds_the_first_radius_rarely(self, d, beta):
        for radius in (0.0, 1.0, 30.0, 1e4):
            mean = CoinPressMean(mu=1.0, center=0.0, radius=max(radius, 1e-9), beta=beta)
            clip = mean._steps(10**6, d)[0].clip
            # the mean at the edge of the ball is the worst; the radius is a union of two tails
            assert stats.ncx2.sf(clip**2, d, radius**2) < 2 * beta

    def test_more_steps_serve_a_wide_ball(self):
        noise = [
            CoinPressMean(mu=1.0, center=0.0, radius=1e4, n_steps=t).noise_sd(1000)
            for t in (1, 2, 4, 12)
        ]
        assert noise == sorted(noise, reverse=True)
        assert noise[-1] < 0.01 < 20 < noise[0]

    def test_steps_that_do_not_help_are_left_out_and_lend_their_share(self):
        mean = CoinPressMean(mu=0.03, center=0.0, radius=100.0)
        (step,) = mean._steps(1024, 1)  # without the rule the last noise has sd 1900
        assert step.mu == pytest.approx(0.03)
        five = CoinPressMean(mu=1.0, center=0.0, radius=1000.0)._steps(1000, 1)
        assert len(five) == 5
        assert five[-1].mu == pytest.approx(math.sqrt(3 / 4 + 7 / 44))

    @pytest.mark.parametrize("mu", [0.03, 0.05, 0.3, 1.0])
    def test_auto_is_never_worse(self, mu):
        def noise(n_steps):
            mean = CoinPressMean(mu=mu, center=0.0, radius=100.0, n_steps=n_steps)
            return mean.noise_sd(1024)

        assert noise("auto") <= min(noise(t) for t in (1, 2, 3, 4, 12))
        if mu == 0.05:  # figures of the docs
            assert noise("auto") == pytest.approx(0.83, abs=0.02)
            assert noise(12) == pytest.approx(4.0, abs=0.01)

    def test_scale_is_a_unit(self):
        values = np.random.RandomState(0).normal(size=(500, 2))
        budget = {"mu": 1.0, "n_steps": 3}
        one = CoinPressMean(**budget, center=[1.0, 2.0], radius=8.0)
        four = CoinPressMean(**budget, center=[4.0, 8.0], radius=32.0, scale=4.0)
        first = one.release(values, noise_source(3))
        second = four.release(4 * values, noise_source(3))
        np.testing.assert_array_equal(second, 4 * first)
        assert four.noise_sd(500, 2) == 4 * one.noise_sd(500, 2)

    def test_frozen_hashable_picklable(self):
        mean = CoinPressMean(mu=1.0, center=np.array([1.0, 2.0]), radius=8)
        assert mean == pickle.loads(pickle.dumps(mean))
        assert hash(mean) == hash(pickle.loads(pickle.dumps(mean)))
        with pytest.raises(AttributeError):
            mean.mu = 2.0


MEANS = [
    CoinPressMean(mu=NOISELESS, center=0.5, radius=20.0, scale=2.0, n_steps=2),
    BoundedMean(mu=NOISELESS, low=-30.0, high=31.0),
]


@pytest.mark.parametrize("mean", MEANS)
class TestRelease:
    def test_without_noise_it_is_the_mean(self, mean):
        values = np.random.RandomState(0).normal(3.0, 2.0, size=(400, 3))
        expected = values.mean(axis=0)
        # COINPRESS: normal records are clipped with probability 1e-2 beta
        np.testing.assert_allclose(mean.release(values), expected, rtol=0, atol=2e-3)
        assert mean.release(values[:, 0]) == pytest.approx(expected[0], abs=2e-3)
        assert isinstance(mean.release(values[:, 0]), float)
        assert mean.release(values[:, :1]).shape == (1,)

    def test_records_are_left_alone(self, mean):
        values = np.array([1e9, -1e9, 2.0, np.nan])
        copy = values.copy()
        mean.release(values)
        np.testing.assert_array_equal(values, copy)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_a_record_that_is_not_finite_counts_as_the_centre(self, mean, value):
        # 99 records at 7: the last centre is drawn towards the start, the middle, by 1/100 at most
        values = np.full((100, 2), 7.0)
        values[0, 1] = value
        released = mean.release(values)
        low = 7 - (7 - 0.5) / 100
        assert low - 1e-6 <= released[0] <= 7 + 1e-6
        assert released[0] == pytest.approx(released[1], abs=1e-6)

    @pytest.mark.parametrize("value", NASTY)
    def test_hostile_records_are_silent_and_bounded(self, mean, value):
        values = np.full(100, 7.0)
        values[:2] = value  # warnings are errors
        assert abs(mean.release(values) - 7) < 2 * 62 / 100

    def test_errors_depend_on_shape_and_dtype_alone(self, mean):
        for wrong in (3.0, np.zeros((2, 2, 2)), np.zeros((3, 0)), []):
            with pytest.raises(ValueError, match=r"values|n_records"):
                mean.release(wrong)
        for wrong in (["secret"], [1.0, None], [True], [1j]):
            with pytest.raises(TypeError, match=r"^values must be an array of real numbers\.$"):
                mean.release(np.array(wrong))

    @pytest.mark.parametrize(
        "value",
        ["secret", None, 1j, np.complex128(1j), np.ma.masked, 10**400, object()],
        ids=lambda value: type(value).__name__,
    )
    def test_a_cell_of_a_list_that_is_no_number_counts_as_the_centre(self, mean, value):
        rest = [[7.0, 7]] * 99
        expected = mean.release([[math.nan, 7.0], *rest])
        np.testing.assert_allclose(mean.release([[value, 7.0], *rest]), expected)
        numbers = [[2**70, 7], [True, np.float32(3)], ["3", 4], *rest]
        np.testing.assert_allclose(mean.release(numbers), mean.release(np.array(numbers, float)))
        with pytest.raises(ValueError, match=r"^values must be .* of one length"):
            mean.release([[value, 7.0, 7.0], *rest])

    def test_kinds_of_real_numbers(self, mean):
        expected = mean.release(np.array([1.0, 2.0, 3.0]))
        for kind in (np.int8, np.uint64, np.float16, np.float32, np.longdouble):
            assert mean.release(np.array([1, 2, 3], dtype=kind)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"center": math.nan}, ValueError),
        ({"center": "a"}, TypeError),
        ({"center": [[1.0]]}, TypeError),
        ({"center": []}, ValueError),
        ({"radius": 0.0}, ValueError),
        ({"radius": math.inf}, ValueError),
        ({"radius": 1e90}, ValueError),
        ({"scale": 0.0}, ValueError),
        ({"scale": "1"}, TypeError),
        ({"beta": 1.0}, ValueError),
        ({"beta": 0.0}, ValueError),
        ({"n_steps": 0}, ValueError),
        ({"n_steps": 2.0}, TypeError),
        ({"n_steps": "many"}, TypeError),
        ({"n_steps": "auto", "shares": [1.0]}, ValueError),
    ],
)
def test_wrong_parameters_of_coinpress(wrong, error):
    with pytest.raises(error):
        CoinPressMean(**{"mu": 1.0, "center": 0.0, "radius": 1.0, **wrong})


def test_center_must_fit():
    mean = CoinPressMean(mu=1.0, center=[0.0, 1.0], radius=1.0)
    with pytest.raises(ValueError, match="center"):
        mean.release(np.zeros((5, 3)))
    with pytest.raises(ValueError, match="center"):
        mean.release(np.zeros(5))


@pytest.mark.parametrize(
    ("low", "high", "error"),
    [
        (1.0, 1.0, ValueError),
        (2.0, 1.0, ValueError),
        (-math.inf, 0.0, ValueError),
        (math.nan, 1.0, ValueError),
        (-1e308, 1e308, ValueError),
        (0.0, 5e-324, ValueError),
        (0.0, 1e-160, ValueError),
        ("0", 1.0, TypeError),
        (None, 1.0, TypeError),
    ],
)
def test_wrong_intervals(low, high, error):
    with pytest.raises(error, match="low"):
        BoundedMean(mu=1.0, low=low, high=high)


def test_noise_has_its_standard_deviation():
    """Chi-square of 4000 coordinates, false alarms 1e-6."""
    mean = CoinPressMean(mu=0.7, center=0.0, radius=3.0, n_steps=1)
    released = mean.release(np.zeros((9, 4000)))
    ratio = (released**2).sum() / mean.noise_sd(9, 4000) ** 2
    assert stats.chi2.ppf(ALARM / 2, 4000) < ratio < stats.chi2.isf(ALARM / 2, 4000)


def test_released_values_lie_on_a_public_lattice():
    """Bits below the lattice of the sum would betray the records."""
    mean = BoundedMean(mu=0.7, low=-1.0, high=1.0)
    (step,) = mean._steps(8, 1)
    values = np.random.RandomState(0).uniform(-1, 1, size=8) / 3
    for _ in range(50):
        units = mean.release(values) * 8 / step.step
        assert units == round(units)


class TestTrap:
    """Records of standard deviation above `scale`: a biased mean without a sign of it."""

    N_RUNS = 40

    def errors(self, make, sd, n=1024):
        rng = np.random.RandomState(sd)
        truth = -sd * math.sqrt(2 / math.pi)
        errors = [
            make.release(-sd * np.abs(rng.normal(size=n)), noise_source(run)) - truth
            for run in range(self.N_RUNS)
        ]
        return np.mean(errors), np.std(errors) / math.sqrt(self.N_RUNS)

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(("sd", "least"), [(5, 0.15), (20, 1.2)])
    def test_unit_scale_is_biased_upwards(self, sd, least):
        mean = CoinPressMean(mu=1.0, center=-98.6, radius=100.0)
        bias, error = self.errors(mean, sd)
        assert bias - 4.75 * error > least
        assert bias > 5 * mean.noise_sd(1024)  # which the noise does not cover

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("sd", [5, 20])
    def test_the_right_scale_and_the_interval_are_not(self, sd):
        coinpress = CoinPressMean(mu=1.0, center=-98.6, radius=100.0, scale=float(sd))
        # .04 sd: what clipping half-normal records at 3.8 sd from their mean can take away
        for mean in (coinpress, BoundedMean(mu=1.0, low=-198.6, high=1.4)):
            bias, error = self.errors(mean, sd)
            assert abs(bias) < 4.9 * error + 0.04 * sd / 20
