"""Likelihood-ratio audits: the privacy loss that repeated releases on a worst pair can prove.

A lower confidence bound on the loss (false-alarm rate 1e-6) must stay below the claim, must come
close to it (so that the audit has power), and must exceed it for a planted mistake. The two latter
limits lie 4.75 standard errors below what the true law gives, so they fail once in a million too.
"""

import math

import numpy as np
import pytest
from scipy import stats

from _support.internals import rho_from_epsilon
from skdpbo.audit import normal_mu_bound
from skdpbo.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    GaussianMechanism,
    L2Laplace,
    PermuteAndFlip,
)

ALARM = 1e-6


def epsilon_lower_bound(hits, hits_neighbour, n, delta=0.0):
    """Return a bound below log((P - delta) / P'), from Clopper-Pearson intervals."""
    low = stats.beta.ppf(ALARM / 2, hits, n - hits + 1)
    high = stats.beta.ppf(1 - ALARM / 2, hits_neighbour + 1, n - hits_neighbour)
    return math.log(max(low - delta, 1e-300) / high)


# One record moves every loss, the first one against all others: 50 candidates, B = 1.
LOSSES = np.array([1] + [0] * 49)
NEIGHBOUR = 1 - LOSSES


@pytest.mark.parametrize(("make", "loss"), [(PermuteAndFlip, 1.0), (ExponentialMechanism, 0.9792)])
def test_selection_loss_by_the_exact_law(make, loss):
    ratios = np.log(make(1.0, 1).probabilities(LOSSES) / make(1.0, 1).probabilities(NEIGHBOUR))
    assert np.abs(ratios).max() == pytest.approx(loss, abs=1e-4)
    assert np.abs(ratios).max() <= 1.0 + 1e-12
    forgotten = make(2.0, 1)  # B instead of 2 B in the exponent
    ratios = np.log(forgotten.probabilities(LOSSES) / forgotten.probabilities(NEIGHBOUR))
    assert np.abs(ratios).max() > 1.8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "k", "n"), [(PermuteAndFlip, 10, 22_000), (ExponentialMechanism, 20, 55_000)]
)
@pytest.mark.parametrize(("epsilon", "low", "high"), [(1.0, 0.59, 1.0), (2.0, 1.5, 2.0)])
def test_selection_loss_by_draws(make, k, n, epsilon, low, high):
    # At claim 1 the second row is the planted mistake: a bound above 1.5 refutes the claim.
    # k candidates: of 50 the first is taken so rarely that as much takes 100 000 draws.
    mechanism = make(epsilon, 1)
    hits, hits_neighbour = (
        sum(mechanism.select(losses) == 0 for _ in range(n))
        for losses in (NEIGHBOUR[:k].tolist(), LOSSES[:k].tolist())
    )
    assert low < epsilon_lower_bound(hits, hits_neighbour, n) <= high


def laplace_loss(mechanism, moved, n=40_000):
    zero, one = (np.asarray(mechanism.release(np.full(n, x))) for x in (0, moved))
    return epsilon_lower_bound(np.count_nonzero(zero <= 0), np.count_nonzero(one <= 0), n)


@pytest.mark.slow
@pytest.mark.parametrize("sensitivity", [1, 5])
def test_discrete_laplace_loss(sensitivity):
    assert 0.88 < laplace_loss(DiscreteLaplace(1.0, sensitivity), sensitivity) <= 1.0


def test_discrete_laplace_with_half_the_sensitivity_is_caught():
    assert laplace_loss(DiscreteLaplace(1.0, 1), 2) > 1.5


def gaussian_loss(mechanism, moved, coordinates=20, n=20_000):
    """Linear likelihood ratio of a vector whose coordinates all move by the same amount."""
    values = np.zeros((n, coordinates))
    first = np.concatenate([mechanism.release(part).sum(axis=1) for part in np.split(values, 10)])
    values += moved
    second = np.concatenate([mechanism.release(part).sum(axis=1) for part in np.split(values, 10)])
    return normal_mu_bound(first, second)


def test_gaussian_loss():
    mechanism = GaussianMechanism(epsilon=1.0, delta=1e-5, sensitivity=math.sqrt(20.0))
    assert 0.17 < gaussian_loss(mechanism, 1.0) <= mechanism.guarantee.mu


@pytest.mark.slow
def test_gaussian_with_the_square_root_forgotten_is_caught():
    mechanism = GaussianMechanism(epsilon=1.0, delta=1e-5, sensitivity=1.0)
    assert gaussian_loss(mechanism, 1.0) > 1.0 > mechanism.guarantee.mu


@pytest.mark.slow
def test_gaussian_short_by_the_square_root_of_two_is_caught():
    mechanism = GaussianMechanism(mu=0.268, sensitivity=math.sqrt(10.0))
    assert gaussian_loss(mechanism, 1.0) > 0.268


def discrete_gaussian_loss(mechanism, moved, n=20_000):
    first, second = (np.asarray(mechanism.release(np.full(n, x))) for x in (0, moved))
    return normal_mu_bound(first, second)


@pytest.mark.slow
def test_discrete_gaussian_loss():
    claimed = math.sqrt(2 * rho_from_epsilon(3.0, 1e-5))
    mechanism = DiscreteGaussian(3.0, 1e-5, 4)
    assert 0.8 * claimed < discrete_gaussian_loss(mechanism, 4) <= claimed
    assert discrete_gaussian_loss(mechanism, 6) > claimed  # planted: 4 claimed, 6 true


def l2_loss(mechanism, moved, n=20_000, threshold=0.8):
    """Event: the log-likelihood ratio of a row at 0 against the row moved is above threshold."""

    def hits(start):
        z = mechanism.release(np.tile([start, 0.0], (n, 1)))
        ratio = np.linalg.norm(z - [moved, 0.0], axis=1) - np.linalg.norm(z, axis=1)
        return int(np.count_nonzero(ratio > threshold * moved))

    return epsilon_lower_bound(hits(0.0), hits(moved), n)


@pytest.mark.slow
def test_l2_laplace_loss():
    assert 0.66 < l2_loss(L2Laplace(1.0, 2.0, 2), 2.0) <= 1.0


@pytest.mark.slow
def test_l2_laplace_with_half_the_displacement_is_caught():
    assert l2_loss(L2Laplace(1.0, 1.0, 2), 2.0) > 1.3
