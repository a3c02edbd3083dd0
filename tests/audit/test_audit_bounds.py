"""The machinery of the audits: bounds that hold, and come close."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

from _support.bounds import gaussian_delta
from skdpbo.audit import (
    AuditResult,
    audit_samples,
    event_bounds,
    likelihood_ratio_audit,
    normal_mu_bound,
)
from skdpbo.privacy import PrivacyGuarantee

RNG = np.random.default_rng


class TestEventBounds:
    @pytest.mark.parametrize(("p", "q", "n"), [(0.5, 0.5, 40), (0.9, 0.1, 25), (0.02, 0.97, 60)])
    def test_each_bound_fails_with_at_most_half_the_false_alarm_rate(self, p, q, n):
        # Exact: all counts with their probabilities, no simulation.
        alarm, counts = 0.1, np.arange(n + 1)
        low, high = event_bounds(counts, counts, n, n, alarm)
        assert binom.pmf(counts, n, p)[low > p].sum() <= alarm / 2
        assert binom.pmf(counts, n, q)[high < q].sum() <= alarm / 2

    def test_nothing_and_everything(self):
        low, high = event_bounds(0, 10, 10, 10, 1e-6)
        assert (low, high) == (0, 1)
        low, high = event_bounds(10, 0, 10, 10, 1e-6)
        assert 0 < float(low) == pytest.approx((5e-7) ** 0.1)
        assert float(high) == pytest.approx(1 - (5e-7) ** 0.1)

    def test_one_hit_and_one_miss(self):
        low, high = event_bounds(1, 9, 10, 10, 1e-6)
        assert float(low) == pytest.approx(1 - (1 - 5e-7) ** 0.1)
        assert float(high) == pytest.approx((1 - 5e-7) ** 0.1)


class TestResult:
    def test_the_complement_counts_too(self):
        # The event proves nothing, its complement is four times as probable.
        result = AuditResult(low=0.9, high=0.6)
        assert result.epsilon == pytest.approx(math.log(4))

    def test_delta_is_subtracted(self):
        assert AuditResult(low=0.3, high=0.1, delta=0.1).epsilon == pytest.approx(math.log(2))
        assert AuditResult(low=0.05, high=0.01, delta=0.1).epsilon == 0

    def test_certain_events(self):
        assert AuditResult(low=1.0, high=0.0).epsilon == math.inf
        assert AuditResult(low=0.0, high=1.0).epsilon == AuditResult(low=0.0, high=1.0).mu == 0

    @pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
    def test_the_curve_of_gaussian_privacy_is_met_and_not_passed(self, mu):
        high = 0.2
        guarantee = PrivacyGuarantee(epsilon=2.0, delta=gaussian_delta(mu, 2.0) * 1.0001, mu=mu)
        on_the_curve = norm.cdf(norm.ppf(high) + mu)
        assert not AuditResult(low=on_the_curve - 1e-6, high=high).violates(guarantee)
        assert AuditResult(low=on_the_curve + 1e-6, high=high).violates(guarantee)

    def test_a_statistical_distance_is_granted(self):
        mu, t = 1.0, 1e-3
        delta = gaussian_delta(mu, 2.0) + (1 + math.exp(2.0)) * t
        guarantee = PrivacyGuarantee(
            epsilon=2.0, delta=delta * 1.0001, mu=mu, statistical_distance=t
        )
        low = norm.cdf(norm.ppf(0.2 + t) + mu) + t
        assert not AuditResult(low=low - 1e-6, high=0.2).violates(guarantee)
        assert AuditResult(low=low + 1e-6, high=0.2).violates(guarantee)

    def test_a_void_guarantee_is_compared_by_its_numbers(self):
        void = PrivacyGuarantee(epsilon=1.0).voided("for a test")
        assert AuditResult(low=0.9, high=0.1).violates(void)

    def test_it_is_described_in_words(self):
        text = str(AuditResult(low=0.5, high=0.1, event="a value of at least 2", n_runs=7))
        assert "epsilon >= 1.61" in text
        assert "a value of at least 2" in text


class TestAuditSamples:
    @pytest.mark.slow
    def test_false_alarms_are_as_rare_as_stated(self):
        # 400 audits of equal laws at a rate of 0.05: P(more than 45) is below 1e-6.
        rng = RNG(0)
        alarms = sum(
            audit_samples(rng.normal(size=40), rng.normal(size=40), false_alarm=0.05).epsilon > 0
            for _ in range(400)
        )
        assert alarms <= 45

    def test_power_is_that_of_the_best_threshold(self):
        rng, n = RNG(0), 20_000
        result = audit_samples(rng.normal(size=n), rng.normal(1, size=n), target="mu")
        assert 0.8 < result.mu <= 1.0
        assert result.n_runs == n // 2

    def test_direction_is_found(self):
        rng = RNG(0)
        a, b = rng.exponential(size=2000), 3 * rng.exponential(size=2000)
        assert audit_samples(a, b).epsilon == pytest.approx(audit_samples(b, a).epsilon, abs=0.2)

    def test_vectors(self):
        # Ten coordinates that move by .5 each: mu is sqrt(10) / 2 along the diagonal.
        rng = RNG(0)
        a, b = rng.normal(size=(4000, 10)), rng.normal(0.5, size=(4000, 10))
        assert 1.2 < audit_samples(a, b, target="mu").mu <= 0.5 * math.sqrt(10)

    def test_constant_coordinates_and_strange_numbers(self):
        rng = RNG(0)
        a, b = rng.normal(size=(500, 3)), rng.normal(size=(500, 3))
        a[:, 1] = b[:, 1] = 7.0
        assert audit_samples(a, b).epsilon == 0
        b[:, 2] = np.nan
        assert audit_samples(a, b).epsilon > 2
        a[rng.random(500) < 0.5, 0] = np.inf
        assert audit_samples(a, b).epsilon > 2

    @pytest.mark.parametrize(
        ("one", "other"),
        [(2**60, 2**60 + 1), (np.uint64(2**63), np.uint64(2**63 + 1)), (math.nan, -math.inf)],
        ids=["long integers", "unsigned", "NaN and infinity"],
    )
    def test_numbers_that_differ_are_distinguished(self, one, other):
        assert audit_samples([one] * 500, [other] * 500).epsilon > 2
        assert audit_samples([one] * 500, [one] * 500).epsilon == 0

    def test_categories(self):
        rng = RNG(0)
        a = rng.choice(["x", "y", "z"], 4000, p=[0.2, 0.6, 0.2]).tolist()
        b = rng.choice(["x", "y", "z"], 4000, p=[0.45, 0.1, 0.45]).tolist()
        assert 1.2 < audit_samples(a, b).epsilon < math.log(6)

    @pytest.mark.parametrize(
        "wrong",
        [{"target": "rho"}, {"false_alarm": 0.0}, {"delta": 1.0}, {"first": [1.0] * 3}],
    )
    def test_wrong_arguments(self, wrong):
        arguments = {"first": [0.0] * 8, "second": [1.0] * 8, **wrong}
        with pytest.raises(ValueError):
            audit_samples(arguments.pop("first"), arguments.pop("second"), **arguments)


def test_a_release_is_run_on_both_and_its_statistic_taken():
    seen = []

    def release(data):
        seen.append(data)
        return {"value": data}

    result = likelihood_ratio_audit(
        release, 0, 1, n_runs=200, statistic=lambda out: out["value"], target="mu"
    )
    assert sorted(seen) == [0] * 200 + [1] * 200
    assert result.epsilon > 1


class TestNormalBound:
    @pytest.mark.slow
    @pytest.mark.parametrize("mu", [0.0, 0.5, 2.0])
    def test_false_alarms_are_as_rare_as_stated(self, mu):
        # 2000 bounds at a rate of 0.05: P(more than 155) is below 1e-6. At mu = 0 both signs of a
        # difference count, so that each has half of the rate.
        rng, alarms = RNG(0), 0
        for _ in range(2000):
            samples = rng.normal(size=200), rng.normal(mu, size=200)
            alarms += normal_mu_bound(*samples, false_alarm=0.05) > mu
        assert alarms <= 155

    def test_it_is_sharper_than_an_event(self):
        rng = RNG(0)
        samples = rng.normal(size=1000), rng.normal(1, size=1000)
        assert 0.7 < normal_mu_bound(*samples) < 1
        assert normal_mu_bound(*samples) > audit_samples(*samples, target="mu").mu

    def test_wrong_samples(self):
        with pytest.raises(ValueError, match="one length"):
            normal_mu_bound([0.0, 1.0], [0.0])

    def test_constants_are_distinguished(self):
        assert normal_mu_bound([0.0] * 500, [1.0] * 500) > 1e6


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, value) for name in ("low", "high") for value in (-0.1, 1.1, math.nan, "1")),
        *((name, value) for name in ("delta", "false_alarm") for value in (1, -1, math.nan, None)),
        ("n_runs", -1),
        ("n_runs", 1.5),
    ],
)
def test_a_result_holds_probabilities(name, value):
    with pytest.raises((TypeError, ValueError), match=name):
        AuditResult(**{"low": 0.2, "high": 0.1, name: value})


@pytest.mark.parametrize("false_alarm", [0, 1, -1.0, math.nan, "1"])
def test_a_rate_of_false_alarms_is_a_probability(false_alarm):
    samples = np.arange(9.0), np.arange(9.0)
    for audit in (audit_samples, normal_mu_bound):
        with pytest.raises((TypeError, ValueError), match="false_alarm"):
            audit(*samples, false_alarm=false_alarm)


def test_a_number_of_runs_is_refused_before_any_run():
    with pytest.raises(ValueError, match="n_runs must be at least 4"):
        likelihood_ratio_audit(None, 0, 1, n_runs=3)


@pytest.mark.parametrize(
    ("output", "parameters", "message"),
    [
        ({"C": 1.0}, {}, "got dict .*give a statistic"),
        ((1.0, [2.0]), {}, "got tuple .*give a statistic"),
        (["a", "b"], {}, "got list .*give a statistic"),
        (object(), {}, "got object .*itself alone.*give a statistic"),
        ("a", {"statistic": float}, "could not convert"),
    ],
)
def test_an_output_that_cannot_be_compared_is_refused_at_once(output, parameters, message):
    runs = []
    with pytest.raises((TypeError, ValueError), match=message):
        likelihood_ratio_audit(lambda data: runs.append(data) or output, 0, 1, **parameters)
    assert runs == [0]


def test_outputs_of_which_none_occurs_twice_are_reported():
    tuples = [(k, 0.5) for k in range(20)]
    with pytest.warns(UserWarning, match="No output occurred twice.*give a statistic") as caught:
        audit_samples(tuples[:10], tuples[10:])
    assert caught[0].filename == __file__


def test_options_are_refused_before_any_run():
    for wrong in ({"target": "rho"}, {"delta": 1.0}, {"false_alarm": 0.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            likelihood_ratio_audit(lambda data: pytest.fail("run"), 0, 1, **wrong)


def test_rows_of_a_frame_are_releases():
    first, second = RNG(0).normal(size=(400, 2)), RNG(1).normal(3, size=(400, 2))
    expected = audit_samples(first, second)
    assert audit_samples(pd.DataFrame(first), pd.DataFrame(second)) == expected
    assert expected.epsilon > 1


def test_an_output_that_is_no_number_is_below_all_numbers():
    found = audit_samples([1.0, 1.0, 2.0, 2.0] * 50, [1.0, 1.0, None, None] * 50)
    assert found.mu > 0
