"""Accounting values: published ones and ones computed independently in high precision."""

import math

import pytest

from _support.internals import delta_from_mu, gaussian_sigma, log_gaussian_delta, rho_from_epsilon
from skdpbo.privacy import (
    PrivacyGuarantee,
    compose,
    epsilon_from_mu,
    mu_from_epsilon,
)

EPSILONS = [0.1, 0.5, 1, 2, 3, 5, 8, 10]


@pytest.mark.parametrize(
    ("delta", "mus"),
    [
        (1e-5, [0.032521, 0.142211, 0.268051, 0.501552, 0.719117, 1.121242, 1.666031, 2.000446]),
        (1e-4, [0.040803, 0.169670, 0.313902, 0.576585, 0.817556, 1.256376, 1.841366, 2.196522]),
        (1e-6, [0.027545, 0.124106, 0.236704, 0.448335, 0.647727, 1.020357, 1.531545, 1.848132]),
    ],
)
def test_mu_of_epsilon_and_delta(delta, mus):
    assert [mu_from_epsilon(e, delta) for e in EPSILONS] == pytest.approx(mus, abs=5.1e-7)


@pytest.mark.parametrize(
    ("mu", "epsilons"),
    [
        (0.2, [0.4539, 0.7255, 0.8341]),
        (0.5, [1.3523, 1.9931, 2.2541]),
        (1.0, [3.1387, 4.3772, 4.8866]),
        (2.0, [7.5813, 9.9973, 10.9972]),
    ],
)
def test_epsilon_of_mu(mu, epsilons):
    ours = [epsilon_from_mu(mu, delta) for delta in (1e-3, 1e-5, 1e-6)]
    assert ours == pytest.approx(epsilons, abs=5.1e-5)


def test_more_epsilons_of_mu():
    assert epsilon_from_mu(0.1, 1e-5) == pytest.approx(0.3407, abs=5.1e-5)
    assert epsilon_from_mu(5.0, 1e-5) == pytest.approx(33.1037, abs=5.1e-5)


@pytest.mark.parametrize(
    ("epsilon", "mu", "delta"),
    [(1, 0.2681, 1.00303e-5), (1, 0.05, 1.12903e-91), (900, 40, 0.00579746), (0, 0.1, 0.0398776)],
)
def test_delta_of_mu(epsilon, mu, delta):
    assert delta_from_mu(mu, epsilon) == pytest.approx(delta, rel=1e-5)
    assert log_gaussian_delta(mu, epsilon) == pytest.approx(math.log(delta), abs=1e-5)


def test_gaussian_noise():
    assert gaussian_sigma(1.0, epsilon=1.0, delta=1e-6) == pytest.approx(4.224679, abs=5.1e-7)


def test_fifty_gaussians_of_multiplier_ten():
    release = PrivacyGuarantee(epsilon=epsilon_from_mu(0.1, 1e-6), delta=1e-6, mu=0.1)
    assert compose(*[release] * 50, delta=1e-6).epsilon == pytest.approx(3.30760, abs=5.1e-6)


def test_zero_concentrated():
    assert rho_from_epsilon(2.419093, 1e-6) == pytest.approx(1 / 8, abs=5e-8)


@pytest.mark.parametrize(
    ("epsilon", "extra_noise"), [(0.1, 0.087), (1, 0.072), (3, 0.065), (8, 0.056)]
)
def test_noise_lost_by_zero_concentrated_accounting(epsilon, extra_noise):
    exact = mu_from_epsilon(epsilon, 1e-6)
    detour = math.sqrt(2 * rho_from_epsilon(epsilon, 1e-6))
    assert exact / detour - 1 == pytest.approx(extra_noise, abs=6e-4)


@pytest.mark.parametrize(("count", "epsilon"), [(1, 1.059), (20, 2.009)])
def test_pure_releases_with_a_gaussian_one(count, epsilon):
    """Mu .268 is not exactly epsilon 1, so the third decimal is allowed to move."""
    mu = mu_from_epsilon(1.0, 1e-5)
    gaussian = PrivacyGuarantee(epsilon=1.0, delta=1e-5, mu=mu)
    together = compose(*[PrivacyGuarantee(epsilon=0.1)] * count, gaussian)
    assert together.epsilon == pytest.approx(epsilon, abs=6e-4)
    assert together.epsilon < 1.0 + 0.1 * count
