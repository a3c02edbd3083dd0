"""The rivals of the benchmark `equal_privacy` spend the epsilon that is requested, and no less."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from skdpbo.mechanisms import ExponentialMechanism, PermuteAndFlip
from skdpbo.privacy import epsilon_from_mu, mu_from_epsilon

BENCHMARKS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
MODULES = ("quality.equal_privacy_choice", "quality.equal_privacy_gp")
SUMS = np.array([0, 1, 3, 4])
DRAWS = 4000


@pytest.fixture(scope="module")
def modules():
    pytest.importorskip("pandas")
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield [pytest.importorskip(name) for name in MODULES]
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def choice(modules):
    return modules[0]


@pytest.fixture
def gp(modules):
    return modules[1]


def deviation(choose, law, rng):
    """Largest difference between observed and expected counts, in standard errors."""
    drawn = np.bincount([choose(SUMS, 1.0, rng) for _ in range(DRAWS)], minlength=len(SUMS))
    return np.max(np.abs(drawn - DRAWS * law) / np.sqrt(DRAWS * law * (1 - law)))


@pytest.mark.parametrize(
    ("name", "law"), [("exponential", ExponentialMechanism), ("permute_and_flip", PermuteAndFlip)]
)
def test_choices_have_the_law_of_the_library(choice, name, law):
    expected = law(epsilon=1.0, sensitivity=1).probabilities(SUMS)
    assert deviation(getattr(choice, name), expected, np.random.RandomState(0)) < 5.5


@pytest.mark.slow
def test_noisy_max_of_opendp_has_the_law_of_permute_and_flip(choice):
    pytest.importorskip("opendp")
    expected = PermuteAndFlip(epsilon=1.0, sensitivity=1).probabilities(SUMS)
    assert deviation(choice.opendp_noisy_max, expected, None) < 5.5  # false alarm below 1e-6


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_opendp_composes_to_epsilon(choice, epsilon):
    pytest.importorskip("opendp")
    n = 32
    scale = n / choice.opendp_release("laplace", n, epsilon).map(1.0)
    assert scale == pytest.approx(n * n / epsilon, rel=1e-6)
    rho = n * choice.opendp_release("gaussian", n, epsilon).map(1.0)
    mu = math.sqrt(2.0 * rho)  # of the same Gaussians
    assert 0.8 * epsilon < epsilon_from_mu(mu, choice.DELTA) <= epsilon


def test_features_have_norm_at_most_one(gp):
    rng = np.random.default_rng(0)
    X = rng.normal(scale=3.0, size=(200, 2))
    zeros, ones = np.zeros(2), np.ones(2)
    task = gp.RegressionTask(
        (X, X[:, 0]), (X, X[:, 0]), (X, X[:, 0]), 4.0 * RBF(1.0), 0.1, X[:9], 3.0, 2.0,
        zeros, ones, 1.0,
    )  # fmt: skip
    for features in (gp.kernel_features, gp.linear_features):
        norms = np.linalg.norm(features(task, X), axis=1)
        assert norms.max() <= 1.0 + 1e-12
        assert norms.max() > 0.9


def test_a_record_moves_each_part_of_the_statistics_by_at_most_one(gp):
    rng = np.random.default_rng(0)
    largest = np.zeros(3)
    for n in (1, 2, 20):
        for _ in range(300):
            F = rng.normal(size=(n + 1, 3))
            F /= np.linalg.norm(F, axis=1, keepdims=True)
            y = rng.choice([-1.0, 1.0], size=n + 1)
            first, second = (gp.statistics_of(F[r], y[r]) for r in neighbours(n))
            moved = [np.linalg.norm(a - b) for a, b in zip(first, second, strict=True)]
            largest = np.maximum(largest, moved)
    assert largest.max() <= 1.0 + 1e-12
    assert largest[:2].min() > 0.9


def neighbours(n):
    return np.arange(n), np.arange(1, n + 1)


def test_a_record_moves_the_ridge_weights_by_less_than_the_noise_is_made_for(gp):
    rng = np.random.default_rng(0)
    largest = 0.0
    for n, penalty in ((5, 0.5), (5, 5.0), (50, 20.0)):
        for _ in range(200):
            F = rng.normal(size=(n + 1, 2))
            F /= np.linalg.norm(F, axis=1, keepdims=True)
            y = rng.choice([-1.0, 1.0], size=n + 1)
            first, second = (
                np.linalg.solve(F[r].T @ F[r] + penalty * np.eye(2), F[r].T @ y[r])
                for r in neighbours(n)
            )
            moved = np.linalg.norm(first - second) / gp.movement_of_weights(n, penalty)
            largest = max(largest, moved)
    assert 0.1 < largest <= 1.0


def test_gaussian_noise_on_all_scores_composes_to_epsilon(choice):
    n, epsilon = 27, 1.0
    scale = math.sqrt(n) / mu_from_epsilon(epsilon, choice.DELTA)
    assert epsilon_from_mu(math.sqrt(n) / scale, choice.DELTA) == pytest.approx(epsilon, rel=1e-6)
