"""Honkela & Melkas 2021, Section 5.3, by private selection and by one release for all kernels.

The figures of `docs/theory/private_kernel_choice.md`, whose functions these are
(`docs/benchmarks/quality/private_kernel_choice.py`), at 4 standard errors of the difference.
"""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

BENCHMARKS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
FIRST_SEED = 5000  # neither those of the choices nor those of the table


@pytest.fixture(scope="module")
def choice():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        return importlib.import_module("quality.private_kernel_choice")


def row(choice, method, epsilon, setting, runs, repeats=1):
    """Return the means over seeds of the data, each with fresh noise `repeats` times."""
    seeds = [*range(FIRST_SEED, FIRST_SEED + runs)] * repeats
    return choice.measured(method, epsilon, choice.SETTINGS[setting], seeds)


def assert_at_most(row, goal):
    assert row["rmse"] < goal + 4 * row["standard_error"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "rmse", "error", "repeats", "right"),
    [
        (1, 0.0797, 0.0072, 10, 90),
        (3, 0.0364, 0.0028, 4, 31),
        (10, 0.0177, 0.0010, 4, 31),
    ],
)
def test_one_release_for_all_kernels(choice, epsilon, rmse, error, repeats, right):
    """Means of 360 fits, and the standard deviation of a mean of 12; false alarms 1e-8."""
    got = row(choice, "average", epsilon, "paper", 12, repeats)
    spread = math.hypot(math.sqrt(1 / repeats), math.sqrt(1 / 30))
    assert abs(got["rmse"] - rmse) < 6 * error * spread
    # Of 48, 45 are usual at epsilon 1; 31, and 90 of 120, are missed in 1e-6 if nine of ten are
    assert got["length_1.00"] >= right
    assert got["coverage"] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "goal", "repeats"), [(1, 0.106, 5), (3, 0.053, 2), (10, 0.035, 2)]
)
def test_one_release_is_better_than_one_for_each_kernel(choice, epsilon, goal, repeats):
    # The goal is what a release for each length-scale reaches, chosen by residuals. The tolerance
    # is that of 12 fits, with which one run in 250 failed; means of 60 and 24 are 6 of their
    # deviations inside.
    together = row(choice, "average", epsilon, "wide", 12, repeats)
    apart = row(choice, "residual_each", epsilon, "paper", 12, repeats)
    error_of_12 = math.sqrt(repeats) * apart["standard_error"]
    assert abs(apart["rmse"] - goal) < 4 * math.hypot(error_of_12, 0.006)
    assert together["rmse"] + 2 * together["standard_error"] < min(goal, apart["rmse"])


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "goal"), [(1, 0.125), (10, 0.045)])
def test_private_selection_by_the_library(choice, epsilon, goal):
    assert_at_most(row(choice, "profile", epsilon, "paper", 8), goal)


@pytest.mark.slow
def test_private_selection_is_better_than_the_paper(choice):
    selected = row(choice, "profile", 3, "paper", 10)
    assert_at_most(selected, 0.070)
    # .049 and .214: 4 standard errors and more of 10 runs.
    assert selected["rmse"] < row(choice, "paper", 3, "paper", 10)["rmse"]


@pytest.mark.slow
def test_the_average_is_better_than_selection_with_the_gp_of_the_paper(choice):
    # .039 and .108: 4 standard errors and more of 10 runs.
    errors = [
        row(choice, method, 3, "paper", 10)["rmse"] for method in ("average", "profile_paper_gp")
    ]
    assert errors[0] < errors[1]


def test_one_range_for_all_candidates_bounds_the_mean(choice):
    # The printed test compares a sum of n log densities with the bound of one record. With one
    # public range for every candidate there is nothing to test: means are compared with means.
    lower, upper = choice.LOG_DENSITY["lower"], choice.LOG_DENSITY["upper"]
    best = norm.logpdf(0, scale=choice.SIGMAS[0])
    nothing_known = -math.log(2 * choice.Y_BOUND)
    assert lower < nothing_known < best < upper
    mean = np.mean(norm.logpdf(norm.ppf((np.arange(1000) + 0.5) / 1000) * 0.1, scale=0.1))
    assert lower < mean < upper < 1000 * mean
