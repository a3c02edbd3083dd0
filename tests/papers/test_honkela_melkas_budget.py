"""Honkela & Melkas 2021, Section 5.3: the budget of Algorithm 2 (exact) and its acceptance test.

The experiment and its functions: `docs/benchmarks/papers/honkela_melkas_tuning.py`.
"""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from skdpbo.privacy import mu_from_epsilon

BENCHMARKS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"


@pytest.fixture(scope="module")
def tuning():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        return importlib.import_module("papers.honkela_melkas_tuning")


@pytest.mark.parametrize(
    ("epsilon_total", "delta_total", "delta_2", "delta", "epsilon", "max_trials", "rho"),
    [
        (3, 1e-4, 7.839e-6, 3.073e-15, 1.000000, 1175.6, 0.007372),
        (30, 1e-4, 7.839e-6, 3.073e-15, 10.000000, 1175.6, 0.6535),
        (10, 1e-3, 9.772e-5, 4.775e-13, 3.333332, 923.3, 0.09255),
        (3, 1e-5, 6.563e-7, 2.154e-17, 1.000000, 1423.7, 0.006431),
    ],
)
def test_budget(tuning, epsilon_total, delta_total, delta_2, delta, epsilon, max_trials, rho):
    budget = tuning.budget_of_a_trial(epsilon_total, delta_total, gamma=0.01)
    assert budget.delta_2 == pytest.approx(delta_2, rel=7e-5)
    assert budget.delta == pytest.approx(delta, rel=2e-4)
    assert budget.epsilon == pytest.approx(epsilon, abs=5.1e-7)
    assert budget.max_trials == pytest.approx(max_trials, abs=0.051)
    assert budget.rho == pytest.approx(rho, rel=1e-4)


@pytest.mark.parametrize("gamma", [0.01, 0.02, 0.2])
@pytest.mark.parametrize("total", [(1, 1e-5), (3, 1e-4), (30, 1e-3)])
def test_shares_add_up_to_the_total(tuning, total, gamma):
    # Liu & Talwar 2019, Theorem 3.4, with T not rounded up.
    budget = tuning.budget_of_a_trial(*total, gamma)
    root = math.sqrt(2 * budget.delta)
    assert 3 * budget.epsilon + 3 * root == pytest.approx(total[0], rel=1e-12)
    assert budget.max_trials * root + budget.delta_2 == pytest.approx(total[1], rel=1e-9)


def test_printed_form_of_the_delta_does_not_add_up(tuning):
    # sqrt(2 delta T), as in Eq. (23), where T sqrt(2 delta) is what Eq. (36) and (37) solve.
    budget = tuning.budget_of_a_trial(3, 1e-4, gamma=0.01)
    printed = math.sqrt(2 * budget.delta * budget.max_trials) + budget.delta_2
    assert printed == pytest.approx(1.05e-5, rel=5e-3)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 10.0])
def test_concentrated_budget_is_within_the_gaussian_one(tuning, epsilon):
    # Eq. (22) is a valid conversion, so its mu = sqrt(2 rho) is at most the exact one.
    for delta in (1e-14, 1e-5):
        rho = tuning.concentrated_budget(epsilon, delta)
        assert epsilon == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1 / delta)))
        assert math.sqrt(2 * rho) < mu_from_epsilon(epsilon, delta)


@pytest.mark.parametrize("sigma", [0.1 / 3, 0.1, 0.3])
def test_range_of_likelihoods(tuning, sigma):
    center, radius = tuning.likelihood_range(sigma, 1.5)
    ends = norm.logpdf([0, 2 * 1.5], scale=sigma)  # a perfect mean, and one off by 2 R_y
    assert [center + radius, center - radius] == pytest.approx(ends)


def test_printed_test_rejects_what_a_good_model_scores(tuning):
    # The true noise level's own mean log-likelihood: possible for a record, not for their sum.
    mean = float(np.mean(norm.logpdf(np.random.default_rng(0).normal(size=1024) / 10, scale=0.1)))
    assert tuning.is_possible(mean, 1024, 0.1, 1.5, "corrected")
    assert not tuning.is_possible(mean, 1024, 0.1, 1.5, "printed")
    # Where log-likelihoods are negative both accept; what no record can have, both reject.
    assert tuning.is_possible(-2.0, 1024, 0.1, 1.5, "printed")
    assert not tuning.is_possible(5.0, 1024, 0.1, 1.5, "corrected")


def test_a_selection_returns_its_best_possible_trial(tuning):
    rng = np.random.default_rng(0)
    X, y = tuning.observations(rng, 256)
    best, rejected, n_trials = tuning.select(X, y, 300.0, "published", 0.2, rng)
    assert set(best) == set(rejected) == {"printed", "corrected"}
    mean, pair, gp = best["corrected"]
    assert pair in tuning.PAIRS
    assert gp.noise_variance_ == pytest.approx(pair[0] ** 2)
    assert best["printed"][0] <= mean
    assert max(rejected.values()) <= n_trials


@pytest.mark.slow
def test_the_true_noise_scores_best_and_the_printed_test_rejects_it(tuning):
    # Means of 8 scores: .48 for the true pair with a standard deviation of .04 (15 runs), .11 and
    # -.9 for the other noise levels: a false alarm takes 9 standard deviations.
    rng = np.random.default_rng(0)
    budget = tuning.budget_of_a_trial(30, 1e-4, gamma=0.02)
    scores = {sigma: [] for sigma in tuning.SIGMAS}
    for _ in range(8):
        X, y = tuning.observations(rng, 2048)
        halves = (X[:1024], y[:1024]), (X[1024:], y[1024:])
        for sigma, found in scores.items():
            found.append(tuning.trial(*halves, (sigma, 1.0), budget, "published")[1])
    means = {sigma: float(np.mean(found)) for sigma, found in scores.items()}
    assert max(means, key=means.get) == 0.1
    assert tuning.is_possible(means[0.1], 1024, 0.1, 1.5, "corrected")
    assert not tuning.is_possible(means[0.1], 1024, 0.1, 1.5, "printed")
