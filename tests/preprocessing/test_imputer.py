"""Private imputer: what it releases, its sensitivity, audits and scikit-learn's checks."""

import warnings
from importlib import import_module

import numpy as np
import pytest

from _support.internals import (
    LEVELS,
    BoxedRows,
    counts_sensitivity,
    dyadic_counts,
    quantile_of_counts,
    value_or_missing,
)
from _support.sklearn_checks import failed_checks
from _support.transcripts import spent
from skdpbo.exceptions import DefaultBoundsWarning, SeededNoiseWarning
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.preprocessing import DPSimpleImputer
from skdpbo.privacy import PrivacyLedger, mu_from_epsilon

IMPUTER = import_module("skdpbo.preprocessing._imputer")
CLIPPING = import_module("skdpbo.mechanisms._clipping")
MOMENTS = import_module("skdpbo._column_moments")
STRATEGIES = ("mean", "median")
BUDGET = mu_from_epsilon(1.0, 1e-5) ** 2


def table(n=10000):
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, 1.0, (n, 3))
    X[rng.random(X.shape) < 0.3] = np.nan
    return X


def fitted(X, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return DPSimpleImputer(**({"X_bounds": (0, 20), "random_state": 0} | parameters)).fit(X)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_check_estimator_has_no_failure_at_its_defaults(strategy):
    assert failed_checks(DPSimpleImputer(strategy=strategy)) == {}


@pytest.mark.parametrize(
    ("strategy", "exact"), [("mean", np.nanmean), ("median", np.nanmedian)], ids=STRATEGIES
)
def test_statistics_are_near_those_of_the_present_values(strategy, exact):
    X = table()
    near = fitted(X, strategy=strategy)
    np.testing.assert_allclose(near.statistics_, exact(X, axis=0), atol=0.2)
    much = fitted(X, strategy=strategy, epsilon=1000.0)
    np.testing.assert_allclose(much.statistics_, exact(X, axis=0), atol=0.02)
    filled = near.transform(X)
    np.testing.assert_array_equal(filled, np.where(np.isnan(X), near.statistics_, X))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_column_without_values_gets_the_middle_of_the_box(strategy):
    X = table(2000)
    X[:, 1] = np.nan
    centred = fitted(X - 3, strategy=strategy, X_bounds=(-2, 6))
    assert centred.statistics_[1] == 2.0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_interval_that_starts_at_zero_is_that_around_zero_moved(strategy):
    X = np.round(table(300) * 64) / 64
    X[:, 1] = np.nan
    around = fitted(X - 8, strategy=strategy, X_bounds=(-8, 8)).statistics_
    from_zero = fitted(X, strategy=strategy, X_bounds=(0, 16)).statistics_
    np.testing.assert_allclose(from_zero, around + 8, rtol=1e-12)
    assert from_zero[1] == 8.0


def test_indicators_of_all_features():
    X = table(500)
    imputer = fitted(X, add_indicator=True)
    out = imputer.transform(X)
    np.testing.assert_array_equal(out[:, 3:], np.isnan(X))
    assert imputer.get_feature_names_out().tolist() == [
        *("x0", "x1", "x2"),
        *(f"missingindicator_x{j}" for j in range(3)),
    ]


def test_quantiles_of_counts_without_noise():
    values = np.linspace(-1, 1, 10001)[:-1, None]
    counts = dyadic_counts([values], 1)[0].astype(float)
    for quantile in (0.1, 0.5, 0.83):
        assert quantile_of_counts(counts, quantile, 0.0) == pytest.approx(
            2 * quantile - 1, abs=2.0 ** (1 - LEVELS)
        )
    assert quantile_of_counts(counts, 0.9, 1e5) == 0.0


def test_values_at_the_ends_are_counted_and_blocks_are_those_of_one_table():
    values = np.array([[1.0], [-1.0], [np.nan], [1.0]])
    whole = dyadic_counts([values], 1)[0]
    assert (whole[0], whole[1], whole[-1]) == (1, 2, 2)
    sizes = np.array([1, 2, 4, 8])  # of groups, by which the counts are divided
    for divided in (None, sizes):
        blocks = dyadic_counts([values[:3], values[3:]], 1, divided)
        np.testing.assert_array_equal(blocks, dyadic_counts([values], 1, divided))


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.83])
def test_a_part_that_noise_leaves_without_records_is_taken_as_uniform(quantile):
    counts = np.full(2 ** (LEVELS + 1) - 2, -1.0)
    counts[1] = 100.0  # all records are above 0
    assert quantile_of_counts(counts, quantile, 0.0) == pytest.approx(quantile)


def test_replaced_record_moves_the_counts_by_their_sensitivity():
    values = [-1.0, -0.3, 0.0, 1.0, np.nan]
    sizes = [
        np.linalg.norm(
            dyadic_counts([np.full((1, 2), a)], 2) - dyadic_counts([np.full((1, 2), b)], 2)
        )
        for a in values
        for b in values
    ]
    assert max(sizes) == pytest.approx(np.sqrt(4 * LEVELS))
    assert max(sizes) <= counts_sensitivity(2 * LEVELS)


def test_values_and_missing_ones_of_a_record_have_norm_sqrt_d_at_most():
    rows = BoxedRows(table(2000) * 100, np.zeros(3), np.full(3, 5.0), keep_zero=False)
    norms = [np.linalg.norm(v, axis=1).max() for v in value_or_missing(rows)]
    assert 0.99 * np.sqrt(3) < max(norms) <= np.sqrt(3)


def audit(monkeypatch, strategy):
    X = table(500)
    other = X.copy()
    X[0], other[0] = 20.0, 0.0
    fit = lambda X: fitted(X, strategy=strategy, X_bounds=(-5, 20))  # noqa: E731
    missing = X.copy()
    missing[0] = np.nan
    totals = [spent(monkeypatch, fit, (X,), (changed,)) for changed in (other, missing)]
    assert BUDGET / 8 < max(totals) <= BUDGET


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_releases_spend_the_budget(monkeypatch, strategy):
    audit(monkeypatch, strategy)


def with_less_noise(factor):
    return lambda **given: GaussianMechanism(
        **{**given, "sensitivity": given["sensitivity"] / factor}
    )


@pytest.mark.parametrize(
    ("strategy", "module", "name", "wrong"),
    [
        ("mean", CLIPPING, "GaussianMechanism", with_less_noise(4)),
        ("median", MOMENTS, "GaussianMechanism", with_less_noise(2)),
        ("median", IMPUTER, "counts_sensitivity", lambda n: np.sqrt(2 * n / LEVELS)),
    ],
    ids=["mean: little noise", "median: half the noise", "levels are not composed"],
)
def test_planted_bug_is_found(monkeypatch, strategy, module, name, wrong):
    monkeypatch.setattr(module, name, wrong)
    with pytest.raises(AssertionError):
        audit(monkeypatch, strategy)


def test_infinite_values_bad_parameters_and_missing_bounds():
    X = table(100)
    bad = {"strategy": "most_frequent", "X_bounds": (3, 2), "epsilon": -1.0, "add_indicator": "no"}
    for parameters in ({name: value} for name, value in bad.items()):
        with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
            error = TypeError if "add_indicator" in parameters else ValueError
            with pytest.raises(error):
                DPSimpleImputer(**({"X_bounds": (0, 20)} | parameters)).fit(X)
            assert not ledger.entries
    with pytest.warns(DefaultBoundsWarning):
        DPSimpleImputer().fit(X)
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        fitted(X)


def test_guarantee_and_ledger():
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        imputer = DPSimpleImputer(X_bounds=(0, 20)).fit(table(100))
    assert len(ledger.entries) == 1
    assert (imputer.privacy_.status, imputer.privacy_.n_protected) == ("proved", 100)
    assert fitted(table(100)).privacy_.status == "void"


@pytest.mark.slow
@pytest.mark.slow
def test_many_columns_are_released():
    X = np.zeros((2, 2**20 // (2 ** (LEVELS + 1) - 2) + 1))
    imputer = DPSimpleImputer(X_bounds=(-1, 1), strategy="median").fit(X)
    assert imputer.statistics_.shape == X.shape[1:]
