import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor

from _support.internals import (
    automatic_prior,
    automatic_prior_weight,
    public_disagreement,
    public_error,
    public_noise_variance,
    public_offsets,
    smoothed_public_scores,
)
from skdpbo.surrogate import default_kernel

KERNEL = default_kernel(2)


def test_weight_is_the_ratio_of_variances():
    sizes = (100, 1000, 10_000)
    weights = [automatic_prior_weight(0.02, sensitivity=1 / m, epsilon=1.0) for m in sizes]
    np.testing.assert_allclose(weights, [(1.28 * 2 / m / 0.02) ** 2 for m in sizes])
    assert automatic_prior_weight(0.2, sensitivity=0.01, epsilon=1.0) == pytest.approx(
        weights[0] / 100
    )
    assert 1e200 < automatic_prior_weight(0.2, sensitivity=0.01, epsilon=1e-300) < np.inf


def test_error_is_that_of_the_mean_scores():
    rng = np.random.RandomState(0)
    tables = 0.8 + 0.1 * rng.normal(size=(400, 1, 30)) + 0.02 * rng.normal(size=(400, 5, 30))
    squares = [public_error(table) ** 2 for table in tables]
    # mean of 400 chi-square variates of 116 degrees of freedom: relative sd 0.0066, 6 sd allowed
    assert np.mean(squares) == pytest.approx(0.02**2 / 5, rel=0.04)


def test_easier_folds_and_better_candidates_are_no_error():
    table = np.linspace(0.6, 0.9, 30)[None, :] + np.array([[0.3], [0.0], [-0.2]])
    assert public_error(table) == pytest.approx(0.0, abs=1e-12)
    assert public_disagreement(table, bound=3.0) == pytest.approx(0.03)


@pytest.mark.parametrize("table", [None, np.full((5, 4), np.nan), np.ones((1, 4)), np.ones((5, 1))])
def test_error_without_a_table_of_scores(table):
    assert public_error(table) == 0.0
    assert public_disagreement(table, bound=2.0) == pytest.approx(0.02)


def scores_on_a_hill(noise, n=60):
    rng = np.random.RandomState(3)
    X = rng.uniform(size=(n, 2))
    truth = 0.9 - 0.3 * np.sum((X - 0.4) ** 2, axis=1)
    splits = truth + noise * rng.normal(size=(5, n))
    return X, truth, splits.mean(axis=0), splits


def test_smoothing_removes_luck():
    X, truth, scores, splits = scores_on_a_hill(0.05)
    smoothed, error = smoothed_public_scores(X, scores, splits, kernel=KERNEL, bound=1.0)
    assert np.std(smoothed - truth) < np.std(scores - truth) / 1.2
    # 0.05 / sqrt 5 = 0.022 without smoothing
    assert 0.005 < error < 0.015


def test_scores_without_error_stay_as_they_are():
    X, _, scores, _ = scores_on_a_hill(0.05)
    splits = np.tile(scores, (3, 1))
    smoothed, error = smoothed_public_scores(X, scores, splits, kernel=KERNEL, bound=2.0)
    np.testing.assert_allclose(smoothed, scores, atol=1e-4)
    assert error == pytest.approx(0.006, rel=0.01)


def test_smoothing_equals_scikit_learn_with_the_noise_of_the_folds():
    X, _, scores, splits = scores_on_a_hill(0.05)
    smoothed, _ = smoothed_public_scores(X, scores, splits, kernel=KERNEL, bound=1.0)
    scale = scores.std()
    regressor = GaussianProcessRegressor(
        KERNEL,
        alpha=public_noise_variance(splits) / scale**2,
        n_restarts_optimizer=3,
        random_state=0,
    )
    expected = regressor.fit(X, (scores - scores.mean()) / scale).predict(X)
    np.testing.assert_allclose(smoothed, scores.mean() + scale * expected, atol=1e-4)


def test_failed_candidates_stay_failed():
    X, _, scores, splits = scores_on_a_hill(0.05)
    scores[[3, 8]] = np.nan
    splits[:, [3, 8]] = np.nan
    smoothed, error = smoothed_public_scores(X, scores, splits, kernel=KERNEL, bound=1.0)
    assert np.array_equal(np.isnan(smoothed), np.isnan(scores))
    assert np.isfinite(error)
    none, error = smoothed_public_scores(X, scores * np.nan, splits, kernel=KERNEL, bound=1.0)
    assert np.isnan(none).all()
    assert error > 0


@pytest.mark.parametrize("n", [1, 2])
def test_very_few_candidates(n):
    X, _, scores, splits = scores_on_a_hill(0.01)
    smoothed, error = smoothed_public_scores(
        X[:n], scores[:n], splits[:, :n], kernel=KERNEL, bound=1.0
    )
    assert np.isfinite(smoothed).all()
    assert error >= 0.003


def test_equal_scores():
    X = scores_on_a_hill(0.01)[0]
    smoothed, error = smoothed_public_scores(
        X, np.full(60, 0.5), np.full((5, 60), 0.5), kernel=KERNEL, bound=1.0
    )
    np.testing.assert_allclose(smoothed, 0.5, atol=1e-6)
    assert error >= 0.003


def test_offsets_are_the_weighted_gaps_in_units():
    offsets = public_offsets([0.5, np.nan, 0.75, 0.25], 0.5, units_per_score=200)
    assert offsets == [25, 50, 0, 50]
    assert public_offsets([np.nan, np.nan], 0.5, units_per_score=9) == [0, 0]
    assert public_offsets([0.1, 0.2], 0, units_per_score=9) == [0, 0]


def prior_on_a_hill(m, noise=0.05):
    X, truth, scores, splits = scores_on_a_hill(noise)
    budget = {"sensitivity": 1 / m, "epsilon": 1.0}
    prior = automatic_prior(X, scores, splits, kernel=KERNEL, bound=1.0, **budget)
    smoothed, error = smoothed_public_scores(X, scores, splits, kernel=KERNEL, bound=1.0)
    return prior, smoothed, automatic_prior_weight(error, **budget), truth


def test_prior_fades_where_protected_records_abound():
    spreads = [np.ptp(prior_on_a_hill(m)[0]) for m in (100, 10_000, 1_000_000)]
    assert spreads[1] < spreads[0] / 50
    assert spreads[2] < spreads[1] / 50


def test_prior_adds_less_than_the_difference_of_two_smoothings():
    for m in (100, 1000, 10_000):
        prior, smoothed, weight, _ = prior_on_a_hill(m)
        added = prior - weight * smoothed
        assert np.abs(added - added.mean()).max() <= 0.05 * min(1.0, weight**0.5)


def test_prior_without_error_is_the_weighted_score():
    prior, smoothed, weight, truth = prior_on_a_hill(100, noise=0.0)
    np.testing.assert_allclose(smoothed, truth, atol=1e-3)
    np.testing.assert_allclose(prior, weight * smoothed, atol=1e-9)


def test_prior_of_failed_candidates_is_missing():
    X, _, scores, splits = scores_on_a_hill(0.05)
    scores, splits = scores.copy(), splits.copy()
    scores[7] = splits[2, 7] = np.nan
    budget = {"sensitivity": 0.01, "epsilon": 1.0, "bound": 1.0}
    prior = automatic_prior(X, scores, splits, kernel=KERNEL, **budget)
    assert np.flatnonzero(np.isnan(prior)).tolist() == [7]
