"""Exact numbers of Sopa et al. (2025), Algorithm 1 and Section 4."""

import math

import numpy as np
import pytest

from _support.internals import noise_to_clip
from skdpbo.mechanisms import ClippedMean, split_budget, step_budgets
from skdpbo.privacy import TrialLaw, candidate_mu, epsilon_from_mu, mu_from_epsilon


@pytest.mark.parametrize(
    ("example", "clip", "n_records", "n_steps", "mu", "sd"),
    [
        ("4.1", 1.0, 50, 150, 0.5, 0.979796),
        ("4.1", 1.0, 50, 150, 2.0, 0.244949),
        ("4.2", 1.0, 100, 100, 1.0, 0.2),
        ("4.3", 1.0, 4500, 25, 1.0, 0.0022222),
        ("4.4, authors' code", 0.5, 9000, 30, 0.2, 0.0030429),
    ],
)
def test_noise_per_coordinate(example, clip, n_records, n_steps, mu, sd):
    """2 B sqrt(T) / (n mu) (Algorithm 1, line 7)."""
    (step,) = set(step_budgets(mu, n_steps))
    mechanism = ClippedMean(clip=clip, n_records=n_records, mu=step)
    assert mechanism.sigma == pytest.approx(sd, rel=2e-5)
    assert mechanism.sigma == pytest.approx(2 * clip * math.sqrt(n_steps) / (n_records * mu))


def test_private_trainings():
    """Section 3.4, corrected: b T trainings at mu / sqrt(b T) each; mu / (b sqrt T) is printed."""
    assert step_budgets(1.0, 11 * 25)[0] == pytest.approx(0.060302, abs=1e-6)
    assert 1 / (11 * math.sqrt(25)) == pytest.approx(0.018182, abs=1e-6)
    # a trial of private selection, 30 of them expected, gets ten times as much of the same total
    trial = candidate_mu(epsilon_from_mu(1.0, 1e-5), 1e-5, TrialLaw(mean=30))
    assert trial == pytest.approx(0.618, abs=1e-3)
    # the benchmark: half of the square for the last model, b T = 60 trainings for the steps
    steps, last = split_budget(1.0, 0.5)
    each = step_budgets(steps, 60)
    assert each[0] == pytest.approx(0.0913, abs=1e-4)
    assert np.sum(each**2) + last**2 == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("n_records", "mu", "ratio"),
    [(4500, 1.0, 0.007), (1000, mu_from_epsilon(1.0, 1e-5), 0.118), (100, 0.268051, 1.18)],
)
def test_noise_beside_the_clipping_norm(n_records, mu, ratio):
    assert noise_to_clip(mu, 25, 10, n_records) == pytest.approx(ratio, rel=0.02)
    # the warning's limit, a tenth: n < 20 sqrt(T d) / mu
    enough = 20 * math.sqrt(250) / mu
    assert noise_to_clip(mu, 25, 10, enough) == pytest.approx(0.1)


def test_one_gdp_in_epsilon():
    """Example 4.3 and 4.4 use mu = 1, which is epsilon 4.38 at delta 1e-5."""
    assert epsilon_from_mu(1.0, 1e-5) == pytest.approx(4.3772, abs=1e-4)


def test_true_clipping_norm_of_example_4_2():
    """The weighted Huber loss has gradients up to sqrt 2, not 1: sup ||x|| min(1, 2 / ||x||^2)."""
    norms = np.linspace(0, 10, 100_001)[1:]
    assert (norms * np.minimum(1, 2 / norms**2)).max() == pytest.approx(math.sqrt(2), abs=1e-4)
