"""COINPRESS: published results of Biswas et al. 2020, and its use by Honkela & Melkas 2021.

Reference: the results stored beside the authors' code, means over 100 runs of the l2 error of
standard normal records, 10 % of the runs trimmed at each end, rho = .5 (mu = 1). The tests run
the mechanism as often, with fixed seeds, and compare at four standard errors of the difference.
"""

import math

import numpy as np
import pytest
from scipy import stats

from _support.internals import clipping_radius
from skdpbo.mechanisms import CoinPressMean, noise_source
from skdpbo.privacy import mu_from_epsilon

ROOT_50 = math.sqrt(50)


def l2_errors(n, d, radius, n_steps, *, mu=1.0, mean=0.0, n_runs=100):
    mechanism = CoinPressMean(mu=mu, center=0.0, radius=radius, n_steps=n_steps)
    rng = np.random.RandomState(n_steps)
    errors = []
    for run in range(n_runs):
        values = rng.normal(mean, size=(n, d))
        errors.append(np.linalg.norm(mechanism.release(values, noise_source(run)) - mean))
    return np.array(errors)


def agrees(errors, reference, n_reference, trim=0.1):
    difference = stats.trim_mean(errors, trim) - reference
    error = errors.std(ddof=1) * math.sqrt(1 / len(errors) + 1 / n_reference)
    return abs(difference) <= 4 * error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_steps", "stored", "rerun"),
    [(1, 1.0664, 1.0486), (2, 0.2806, 0.2830), (3, 0.2717, 0.2755), (4, 0.2707, 0.2733)],
)
def test_headline(n_steps, stored, rerun):
    """Stored results, and 40 further runs of the same code."""
    errors = l2_errors(1000, 50, 10 * ROOT_50, n_steps)
    assert agrees(errors, stored, 100)
    assert agrees(errors, rerun, 40, trim=0.0)


@pytest.mark.slow
@pytest.mark.parametrize(("n_steps", "stored", "rerun"), [(1, 0.1250, 0.1263), (2, 0.0732, 0.0716)])
def test_ten_thousand_records(n_steps, stored, rerun):
    errors = l2_errors(10_000, 50, 10 * ROOT_50, n_steps, n_runs=40)
    assert agrees(errors, stored, 100)
    assert agrees(errors, rerun, 40, trim=0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_steps", "stored"), [(1, 1.0773), (2, 0.2826), (3, 0.2754), (4, 0.2733)]
)
def test_mean_at_the_edge_of_the_ball(n_steps, stored):
    assert agrees(l2_errors(1000, 50, 10 * ROOT_50, n_steps, mean=10.0), stored, 100)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_steps", "stored"), [(1, 994.8068), (2, 43.1674), (3, 3.3406), (4, 0.4714), (10, 0.2742)]
)
def test_a_very_wide_ball(n_steps, stored):
    assert agrees(l2_errors(1000, 50, 1e4 * ROOT_50, n_steps), stored, 100)


@pytest.mark.slow
@pytest.mark.parametrize(("n_steps", "stored"), [(1, 5.1694), (2, 1.5708), (4, 0.9858)])
def test_a_small_budget(n_steps, stored):
    errors = l2_errors(2000, 50, 10 * ROOT_50, n_steps, mu=0.1)
    assert agrees(errors, stored, 100)


@pytest.mark.slow
def test_a_small_budget_in_three_steps():
    """The stored figure, 1.095, is five standard errors above ours: 1.035 in 400 other runs.

    Its cause is not known. Bounds are 5 standard errors of a mean of 100 runs away.
    """
    errors = l2_errors(2000, 50, 10 * ROOT_50, 3, mu=0.1)
    assert 0.98 < stats.trim_mean(errors, 0.1) < 1.095


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_steps", "stored"), [(1, 0.0573), (2, 0.0410), (3, 0.0411), (4, 0.0416)]
)
def test_two_dimensions(n_steps, stored):
    """1000 untrimmed runs behind the stored figures."""
    errors = l2_errors(1000, 2, 10 * math.sqrt(2), n_steps, n_runs=300)
    assert agrees(errors, stored, 1000, trim=0.0)


@pytest.mark.slow
@pytest.mark.parametrize(("n_steps", "rerun"), [(1, 1.35), (2, 0.044), (4, 0.022), (12, 0.030)])
def test_one_dimension(n_steps, rerun):
    """Radius 1000; 40 runs of the reference code."""
    errors = l2_errors(1000, 1, 1000.0, n_steps, n_runs=200)
    assert agrees(errors, rerun, 40, trim=0.0)


# t = 1, d = 50: the error is that of one Gaussian, so that the law of each figure is known.
RECORDS = np.linspace(1000, 10_000, 12).astype(int)
STORED_BY_RECORDS = [
    1.0664, 0.6040, 0.4121, 0.3275, 0.2656, 0.2262, 0.1973, 0.1760, 0.1604, 0.1489, 0.1351, 0.1250
]  # fmt: skip
BUDGETS = np.geomspace(0.005, 0.5, 10)
STORED_BY_BUDGET = [
    5.1694, 3.9348, 3.1295, 2.4266, 1.8708, 1.4466, 1.1215, 0.8820, 0.6848, 0.5420
]  # fmt: skip


def expected_error(n, rho, threshold, d=50):
    """Trimmed mean of the norm of a normal vector: sampling error plus noise."""
    sd = math.sqrt(1 / n + (2 * threshold / (n * math.sqrt(2 * rho))) ** 2)
    low, high = stats.chi.ppf([0.1, 0.9], d)
    return sd * stats.chi.expect(args=(d,), lb=low, ub=high, conditional=True)


def pooled_ratio(threshold):
    """Mean of stored / expected over 22 figures of 100 runs, and its standard error."""
    expected = [expected_error(n, 0.5, threshold) for n in RECORDS]
    expected += [expected_error(2000, rho, threshold) for rho in BUDGETS]
    ratios = np.divide(STORED_BY_RECORDS + STORED_BY_BUDGET, expected)
    one_figure = stats.chi.std(50) / stats.chi.mean(50) / math.sqrt(100)
    return ratios.mean(), one_figure / math.sqrt(len(ratios))


@pytest.mark.slow
def test_which_clipping_radius_the_stored_results_have():
    """With sqrt(log(2 / beta)), rather than the 3 that stands for it in the authors' code."""
    radius, log_b = 10 * ROOT_50, math.log(100)
    gamma = math.sqrt(50 + 2 * math.sqrt(50 * log_b) + 2 * log_b)
    ours, error = pooled_ratio(clipping_radius(radius, gamma, 0.01))
    assert abs(ours - 1) < 2 * error
    three, error = pooled_ratio(math.sqrt(radius**2 + 2 * radius * 3 + gamma**2))
    assert abs(three - 1) > 2 * error
    plain, error = pooled_ratio(radius + gamma)
    assert abs(plain - 1) > 20 * error


class TestHonkelaMelkas:
    """Section 4.1: the mean log-likelihood of validation records."""

    @pytest.mark.parametrize(("epsilon", "less_noise"), [(1, 1.31), (3, 1.22)])
    def test_equation_22_is_loose(self, epsilon, less_noise):
        log_d = math.log(1e5)
        rho = (math.sqrt(epsilon + log_d) - math.sqrt(log_d)) ** 2  # Equation (22)
        exact = mu_from_epsilon(epsilon, 1e-5)
        assert exact / math.sqrt(2 * rho) == pytest.approx(less_noise, abs=6e-3)

    def test_centre_and_radius_of_log_likelihoods(self):
        """Equations (34)-(35), sigma .1, R_y 1; residuals of a good model have sd .7."""
        sigma, r_y = 0.1, 1.0
        radius = r_y**2 / sigma**2
        center = -0.5 * math.log(2 * math.pi) - math.log(sigma) - radius
        z = np.random.RandomState(0).normal(size=1024)
        values = center + radius - z**2 / 2
        mechanism = CoinPressMean(epsilon=1.0, delta=1e-5, center=center, radius=radius)
        released = [mechanism.release(values, noise_source(run)) for run in range(20)]
        sd = mechanism.noise_sd(1024)
        assert sd < 0.04
        # both tails are light enough for unit variance: within 4.9 standard errors and .01
        assert abs(np.mean(released) - values.mean()) < 4.9 * sd / math.sqrt(20) + 0.01
