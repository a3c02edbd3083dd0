"""Conversions against 60-digit arithmetic, at the ends of their ranges too."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _support.internals import (
    delta_from_mu,
    log_gaussian_delta,
    log_sum_exp,
    log_zcdp_delta,
    mu_from_pure_epsilon,
    pure_epsilon_from_mu,
    rho_from_epsilon,
    with_error,
)
from skdpbo.privacy import epsilon_from_mu, mu_from_epsilon

mp = pytest.importorskip("mpmath").mp
mp.dps = 60

MUS = [float(m) for m in np.geomspace(1e-3, 40, 9)]
DELTAS = [float(d) for d in np.geomspace(1e-15, 0.5, 6)]
EPSILONS = [float(e) for e in np.geomspace(1e-3, 50, 9)]
mus, deltas, epsilons = (
    st.floats(math.log(low), math.log(high)).map(math.exp)
    for low, high in [(1e-3, 40), (1e-15, 0.5), (1e-3, 50)]
)


def exact_delta(mu, epsilon):
    """Delta of mu-GDP, by its definition, in 60 digits."""
    mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
    return mp.ncdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2)


def exact_zcdp_delta(rho, epsilon):
    """Delta of rho-zCDP by Canonne, Kamath and Steinke (2020), minimised over alpha."""
    rho, epsilon = mp.mpf(rho), mp.mpf(epsilon)

    def log_delta(alpha):
        return (
            (alpha - 1) * (alpha * rho - epsilon)
            + alpha * mp.log(1 - 1 / alpha)
            - mp.log(alpha - 1)
        )

    low, high = mp.mpf(-60), mp.mpf(60)  # golden section in log(alpha - 1)
    golden = (mp.sqrt(5) - 1) / 2
    for _ in range(160):
        a, b = high - golden * (high - low), low + golden * (high - low)
        if log_delta(1 + mp.exp(a)) < log_delta(1 + mp.exp(b)):
            high = b
        else:
            low = a
    return mp.exp(log_delta(1 + mp.exp(low)))


@pytest.mark.parametrize("mu", [1e-6, *MUS, 0.7, 0.71, 300.0])
def test_log_delta_against_60_digits(mu):
    around = [mu * mu / 2 + z * mu for z in (-8, -1, 0, 1, 5, 11, 12, 40)]
    for epsilon in [*EPSILONS, 0.0, -1e-6, -0.3, -20.0, 900.0, *around]:
        exact = exact_delta(mu, epsilon)
        log_exact = float(mp.log(exact))
        error = abs(log_gaussian_delta(mu, epsilon) - log_exact)
        assert error <= 2e-13 + 8e-15 * abs(log_exact), (mu, epsilon)
        assert delta_from_mu(mu, epsilon) >= exact
        assert delta_from_mu(mu, epsilon) <= exact * (1 + mp.mpf(1e-9)) + mp.mpf("1e-320")


def test_extremes_that_break_the_textbook_formula():
    assert math.isfinite(log_gaussian_delta(1e-3, 50.0))  # about -1.25e9
    assert delta_from_mu(1e-3, 50.0) > 0
    assert delta_from_mu(40, 1e-3) == pytest.approx(1.0)
    assert log_gaussian_delta(0.3, 1e308) == -math.inf
    assert log_gaussian_delta(1.0, -800.0) == pytest.approx(0.0)


@pytest.mark.parametrize("delta", DELTAS)
def test_roots_lie_on_the_private_side_and_are_tight(delta):
    for mu in MUS:
        epsilon = epsilon_from_mu(mu, delta)
        assert exact_delta(mu, epsilon) <= mp.mpf(delta)
        assert epsilon == 0 or exact_delta(mu, epsilon * (1 - 1e-8)) > mp.mpf(delta)
    for epsilon in EPSILONS:
        mu = mu_from_epsilon(epsilon, delta)
        assert exact_delta(mu, epsilon) <= mp.mpf(delta)
        assert exact_delta(mu * (1 + 1e-8), epsilon) > mp.mpf(delta)


@given(mus, deltas)
@settings(max_examples=150, deadline=None)
def test_round_trip_from_mu_never_gains_privacy(mu, delta):
    epsilon = epsilon_from_mu(mu, delta)
    if epsilon > 0:
        back = mu_from_epsilon(epsilon, delta)
        assert back <= mu
        assert back >= mu * (1 - 1e-7)


@pytest.mark.slow
@given(epsilons, deltas)
@settings(max_examples=150, deadline=None)
def test_round_trip_from_epsilon_never_gains_privacy(epsilon, delta):
    assert epsilon_from_mu(mu_from_epsilon(epsilon, delta), delta) <= epsilon


@given(mus, mus, deltas)
@settings(max_examples=60, deadline=None)
def test_monotone_in_mu(first, second, delta):
    low, high = sorted((first, second))
    assert epsilon_from_mu(low, delta) <= epsilon_from_mu(high, delta) * (1 + 1e-9)


def test_gaussian_conversions_against_dp_accounting():
    mechanisms = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    for mu in (0.05, 0.5, 2.0, 10.0):
        oracle = mechanisms.GaussianPrivacyLoss(1 / mu)
        for epsilon in (0.01, 0.5, 3.0, 40.0):
            expected = oracle.get_delta_for_epsilon(epsilon)
            assert delta_from_mu(mu, epsilon) == pytest.approx(expected, rel=1e-6, abs=1e-15)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.125, 2.0, 50.0, 800.0])
def test_zcdp_against_60_digits(rho):
    # Each delta with two of the factors.
    for factor, some in zip((0.5, 1.0, 3.0, 10.0), (DELTAS[::2], DELTAS[1::2]) * 2, strict=True):
        epsilon = rho + factor * math.sqrt(rho)
        exact = exact_zcdp_delta(rho, epsilon)
        upper = mp.exp(with_error(log_zcdp_delta(rho, epsilon)))
        assert exact <= upper <= exact * (1 + mp.mpf(1e-10))
        for delta in some:
            admissible = rho_from_epsilon(epsilon, delta)
            assert exact_zcdp_delta(admissible, epsilon) <= mp.mpf(delta)
            assert exact_zcdp_delta(admissible * (1 + 1e-7), epsilon) > mp.mpf(delta)


@given(mus, deltas)
@settings(max_examples=60, deadline=None)
def test_zcdp_never_promises_more_than_the_exact_gaussian_curve(mu, delta):
    epsilon = epsilon_from_mu(mu, delta)
    if epsilon > 0:
        assert rho_from_epsilon(epsilon, delta) <= mu**2 / 2 * (1 + 1e-9)


def test_very_large_and_very_small_zcdp():
    assert log_zcdp_delta(1e7, 1.0) == pytest.approx(0.0)
    assert rho_from_epsilon(1e7, 1e-6) == pytest.approx(1e7, rel=1e-2)
    assert 1e-12 < rho_from_epsilon(1e-4, 1e-9) < 1e-8


@pytest.mark.parametrize("epsilon", [1e-8, 1e-3, 0.1, 0.999, 1.0, 1.001, 5.0, 30.0, 50.0, 700.0])
def test_pure_to_gaussian(epsilon):
    with mp.workdps(700):
        tail = 1 / (1 + mp.exp(mp.mpf(epsilon)))
    mu = mu_from_pure_epsilon(epsilon)
    # mu = -2 Phi^{-1}(tail), rounded up: Phi(-mu / 2) is below the tail, hardly so.
    assert mp.ncdf(-mp.mpf(mu) / 2) <= tail
    assert mp.ncdf(-mp.mpf(mu) * (1 - mp.mpf(1e-12)) / 2) > tail


@pytest.mark.parametrize("mu", [1e-9, 1e-3, 0.1, 1.0, 1.999, 2.0, 2.001, 5.0, 20.0])
def test_gaussian_to_pure(mu):
    epsilon = pure_epsilon_from_mu(mu)
    with mp.workdps(200):
        exact = mp.log(mp.ncdf(mp.mpf(mu) / 2)) - mp.log(mp.ncdf(-mp.mpf(mu) / 2))
        assert exact * (1 - mp.mpf(1e-11)) < epsilon <= exact
    assert mu_from_pure_epsilon(epsilon) <= mu


def test_planted_bug_a_nearest_root_is_caught():
    """The check of the private side has teeth: a bare root finder fails it."""
    from scipy.optimize import brentq

    failures = 0
    for mu in MUS:
        for delta in DELTAS:
            if epsilon_from_mu(mu, delta) == 0:
                continue

            def excess(epsilon, mu=mu, delta=delta):
                return log_gaussian_delta(mu, epsilon) - math.log(delta)

            failures += exact_delta(mu, brentq(excess, 0, 1e4, rtol=1e-14)) > mp.mpf(delta)
    assert failures > 5


@pytest.mark.parametrize("bad", [True, "1", None, 1j, np.array(1.0), np.bool_(True)])
def test_non_numbers_are_refused(bad):
    for function in (epsilon_from_mu, mu_from_epsilon, rho_from_epsilon):
        with pytest.raises(TypeError):
            function(bad, 1e-5)
        with pytest.raises(TypeError, match="delta"):
            function(1.0, bad)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, 10**400])
def test_values_out_of_range_are_refused(bad):
    for function in (epsilon_from_mu, mu_from_epsilon, rho_from_epsilon):
        with pytest.raises(ValueError, match="must be"):
            function(bad, 1e-5)
    with pytest.raises(ValueError, match="must be"):
        mu_from_pure_epsilon(bad)
    with pytest.raises(ValueError, match="must be"):
        pure_epsilon_from_mu(bad)


@pytest.mark.parametrize(
    ("epsilon", "delta", "beyond"), [(1.0, 1e-5, 1.61e-4), (3.0, 1e-8, 1.10e-7)]
)
def test_odds_beyond_epsilon_are_likelier_than_delta(epsilon, delta, beyond):
    """Of Gaussian noise; delta is the mean of 1 - e^(epsilon - loss) where that is positive.

    So twice the odds that epsilon allows, 1 - e^(-log 2) = 1/2, have a probability of 2 delta.
    """
    mu = mp.mpf(mu_from_epsilon(epsilon, delta))
    probabilities = [mp.ncdf(mu / 2 - loss / mu) for loss in (epsilon, epsilon + mp.log(2))]
    assert float(probabilities[0]) == pytest.approx(beyond, rel=0.01)
    assert probabilities[0] > delta
    assert probabilities[1] <= 2 * delta


@pytest.mark.parametrize("bad", [0, 0.0, 1, 1.0, -1e-9, math.nan, 2])
def test_deltas_out_of_range_are_refused(bad):
    for function in (epsilon_from_mu, mu_from_epsilon, rho_from_epsilon):
        with pytest.raises(ValueError, match="delta"):
            function(1.0, bad)


def test_results_beyond_floats_are_refused_by_name():
    for mu in (1e16, 1e200):
        with pytest.raises(ValueError, match="mu must be at most 1e15"):
            epsilon_from_mu(mu, 1e-5)


def test_numpy_scalars_and_fractions_are_numbers():
    expected = epsilon_from_mu(0.5, 1e-5)
    assert epsilon_from_mu(np.float32(0.5), 1e-5) == expected
    assert epsilon_from_mu(Fraction(1, 2), np.float64(1e-5)) == expected
    assert type(epsilon_from_mu(np.int64(1), 1e-5)) is float


def test_what_was_computed_before_is_checked_again():
    # The values are remembered; the checks of the arguments are not skipped for that.
    assert mu_from_epsilon(1, 1e-5) == mu_from_epsilon(1.0, 1e-5) == mu_from_epsilon(1.0, 1e-5)
    assert epsilon_from_mu(1, 1e-5) == epsilon_from_mu(1.0, 1e-5)
    for wrong in (True, "1", [1.0]):
        with pytest.raises((TypeError, ValueError)):
            mu_from_epsilon(wrong, 1e-5)
        with pytest.raises((TypeError, ValueError)):
            epsilon_from_mu(wrong, 1e-5)


def test_log_of_a_sum_against_60_digits():
    rng = np.random.RandomState(0)
    cases = [rng.uniform(-900, 0, n) for n in (1, 2, 300)] + [np.zeros(7), np.full(5, -800.0)]
    cases += [np.array([-np.inf, -3.0, -3.0]), -1e-9 * np.arange(1.0, 400.0)]
    with mp.workdps(60):
        for terms in cases:
            exact = mp.log(mp.fsum(mp.exp(mp.mpf(float(term))) for term in terms))
            assert abs(log_sum_exp(terms) - exact) <= 1e-13 + 1e-15 * abs(exact)
    assert log_sum_exp(np.full(3, -np.inf)) == -np.inf
    assert np.isnan(log_sum_exp(np.array([np.nan, 0.0])))
