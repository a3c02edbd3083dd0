"""Private linear regression as scikit-learn's users meet it."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline

from _support.sklearn_checks import failed_checks
from skdpbo.exceptions import (
    BudgetExceededError,
    DefaultBoundsWarning,
    HiddenColumnsWarning,
    SeededNoiseWarning,
)
from skdpbo.linear_model import DPRidge
from skdpbo.pipeline import pipeline_guarantee
from skdpbo.preprocessing import DPMinMaxScaler
from skdpbo.privacy import PrivacyLedger

BOX = {"X_bounds": (-3.0, 3.0), "y_bounds": (-12.0, 12.0)}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 4)).clip(-3, 3)
    return X, X @ [2.0, -1.0, 0.0, 0.5] + 1.5 + rng.normal(size=5000)


def fitted(X, y, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return DPRidge(**(BOX | {"random_state": 0} | parameters)).fit(X, y)


def test_check_estimator_has_no_failure_at_its_defaults():
    assert failed_checks(DPRidge()) == {}


def test_much_budget_gives_the_unprotected_coefficients(table):
    X, y = table
    exact, private = LinearRegression().fit(X, y), fitted(X, y, epsilon=1000.0)
    np.testing.assert_allclose(private.coef_, exact.coef_, atol=0.02)
    assert private.intercept_ == pytest.approx(exact.intercept_, abs=0.02)


def test_default_budget_is_near_in_a_box_of_any_width(table):
    X, y = table
    best = LinearRegression().fit(X, y).score(X, y)
    assert fitted(X, y).score(X, y) > best - 0.03
    assert fitted(X, y, X_bounds=(-30, 30), y_bounds=(-120, 120)).score(X, y) > best - 0.05


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("epsilon", "n_fits"), [(0.01, 15), (0.1, 101)])
def test_little_budget_falls_back_to_the_middle_of_the_box(table, epsilon, n_fits):
    """The middle has an R2 of -.38; at .1 a private mean of 300 targets has -.97, by its noise."""
    X, y = table
    few = {"epsilon": epsilon, "X": X[:300], "y": y[:300]}
    scores = [fitted(**few, random_state=seed).score(X, y) for seed in range(n_fits)]
    assert np.median(scores) > -0.5


def test_several_targets(table):
    X, y = table
    Y = np.column_stack([y, -2 * y, X[:, 0]])
    model = fitted(X, Y, y_bounds=([-12, -24, -3], [12, 24, 3]), epsilon=3.0)
    assert model.coef_.shape == (3, 4)
    assert model.intercept_.shape == (3,)
    assert model.score(X, Y) > 0.8
    np.testing.assert_array_equal(fitted(X, y[:, None]).predict(X)[:, 0], fitted(X, y).predict(X))


def test_sparse_memory_map_dask_and_order_give_the_same(table, tmp_path):
    X, y = table
    X = np.where(X > 1, X, 0.0)
    expected = fitted(X, y).coef_
    np.testing.assert_array_equal(fitted(csr_matrix(X), y).coef_, expected)
    np.testing.assert_array_equal(fitted(X[::-1], y[::-1]).coef_, expected)
    mapped = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=X.shape)
    mapped[:] = X
    np.testing.assert_array_equal(fitted(mapped, y).coef_, expected)
    model = fitted(X, y)
    np.testing.assert_allclose(model.predict(csr_matrix(X)), model.predict(X))
    dask_array = pytest.importorskip("dask.array")
    distributed = dask_array.from_array(X, chunks=(700, 4))
    np.testing.assert_array_equal(
        fitted(distributed, dask_array.from_array(y, chunks=700)).coef_, expected
    )


def test_alpha_shrinks_as_that_of_ridge(table):
    """Long rows count less: a penalty for full weights shrank by a fourth too much."""
    X, y = table
    exact = Ridge(alpha=5000.0).fit(X / X.std(axis=0), y).coef_ / X.std(axis=0)
    private = fitted(X, y, alpha=5000.0, epsilon=100.0).coef_
    np.testing.assert_allclose(private, exact, atol=0.03)


def test_alpha_is_no_larger_penalty_where_there_is_more_noise(table):
    """As a prior of noisy moments it left 1.0 to 1.3 of 1.67 at epsilon 1."""
    X, y = table
    exact = Ridge(alpha=1000.0).fit(X / X.std(axis=0), y).coef_ / X.std(axis=0)
    for epsilon in (1.0, 3.0):
        private = fitted(X, y, alpha=1000.0, epsilon=epsilon).coef_
        np.testing.assert_allclose(private[:2], exact[:2], rtol=0.25)


@pytest.mark.parametrize("alpha", [1e-300, 1e300])
def test_extreme_penalties_stay_finite(table, alpha):
    X, y = table
    assert np.isfinite(fitted(X[:500], y[:500], alpha=alpha).coef_).all()


def test_without_intercept(table):
    X, y = table
    model = fitted(X, y - 1.5, fit_intercept=False)
    assert model.intercept_ == 0.0
    assert model.score(X, y - 1.5) > 0.75


def test_targets_from_zero_are_those_around_zero_moved(table):
    X, y = table[0], np.round(table[1] * 64) / 64
    around = fitted(X, y, y_bounds=(-16, 16))
    from_zero = fitted(X, y + 16, y_bounds=(0, 32))
    np.testing.assert_array_equal(from_zero.coef_, around.coef_)
    assert from_zero.intercept_ == pytest.approx(around.intercept_ + 16)


def test_zero_stays_zero_without_intercept(table):
    X, y = table
    model = fitted(X, np.abs(y), y_bounds=(0, 12), fit_intercept=False)
    assert model.intercept_ == 0.0


def test_rows_outside_of_the_box_are_clipped_by_predict(table):
    model = fitted(*table)
    np.testing.assert_allclose(
        model.predict([[90.0, 0, 0, -7.0]]), model.predict([[3.0, 0, 0, -3.0]])
    )


def test_predictions_are_within_the_bounds_of_the_targets(table):
    """A few long rows weigh little in the fit, so that its line runs far beyond their targets."""
    X = np.abs(table[0])
    X[:30, 0] = 40.0
    y = (X[:, 0] > 1).astype(float)
    box = [0, 0, 0, 0], [40, 3, 3, 3]
    model = fitted(X, y, X_bounds=box, y_bounds=(0, 1))
    line = X @ model.coef_ + model.intercept_
    assert np.mean((line - y) ** 2) > 3 * np.mean((model.predict(X) - y) ** 2)
    both = fitted(X, np.column_stack([y, 3 - y]), X_bounds=box, y_bounds=([0, 2], [1, 3]))
    np.testing.assert_array_equal(both.predict(X).clip([0, 2], [1, 3]), both.predict(X))


def test_outliers_of_the_targets_are_clipped(table):
    X, y = table
    wild = y.copy()
    wild[:20] = 1e9
    with pytest.warns(HiddenColumnsWarning, match="spread of y is within"):
        wide = fitted(X, wild, y_bounds=(-100, 100), epsilon=3.0)
    assert wide.score(X[20:], y[20:]) > 0.75


@pytest.mark.parametrize("constant", ["column", "target", "all"])
def test_constants_are_harmless(table, constant):
    X, y = table
    if constant == "column":
        X = np.hstack([X, np.full((len(X), 1), 1.5)])
    else:
        y = np.full(len(y), 2.0)
        X = X if constant == "target" else np.ones_like(X)
    model = fitted(X, y)
    assert np.mean((model.predict(X) - y) ** 2) < 1.5


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_and_infinite_values_are_refused(table, value):
    X, y = table
    bad_X, bad_y = X.copy(), y.copy()
    bad_X[5, 1] = bad_y[7] = value
    for args in ((bad_X, y), (X, bad_y)):
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            fitted(*args)


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SeededNoiseWarning")
def test_bounds_of_no_column_are_needed():
    """As the warnings of missing bounds propose; R2 with given bounds is .92."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(5000, 2))
    X = [290, 101_325] + [8, 800] * u
    y = 250_000 + 40_000 * (u.sum(axis=1) + rng.normal(size=5000) / 2)
    ranges = DPMinMaxScaler(random_state=0)
    ridge = DPRidge(X_bounds=(0, 1), y_bounds=(0, 1), random_state=0)
    model = TransformedTargetRegressor(
        make_pipeline(ranges, ridge), transformer=ranges, check_inverse=False
    )
    assert model.fit(X[:4000], y[:4000]).score(X[4000:], y[4000:]) > 0.85


def test_guarantee_ledger_seed_and_warning(table):
    X, y = table
    with pytest.warns(DefaultBoundsWarning, match="y_bounds .*TransformedTargetRegressor"):
        DPRidge(X_bounds=(-3, 3)).fit(X, y)
    assert fitted(X, y).privacy_.status == "void"
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        model = DPRidge(**BOX, epsilon=0.6).fit(X, y)
        assert len(ledger.entries) == 1
        with pytest.raises(BudgetExceededError):
            DPRidge(**BOX, epsilon=0.9).fit(X, y)
        # Lists are read to learn their shape, after the charge: a seed is announced before.
        with pytest.raises(SeededNoiseWarning), warnings.catch_warnings(action="error"):
            DPRidge(**BOX, epsilon=0.1, random_state=0).fit(X.tolist(), y.tolist())
        assert len(ledger.entries) == 1
    privacy = model.privacy_
    assert (privacy.status, privacy.epsilon, privacy.n_protected) == ("proved", 0.6, 5000)
    assert pipeline_guarantee(model).mu == privacy.mu


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"epsilon": 0.0}, ValueError),
        ({"alpha": 0.0}, ValueError),
        ({"alpha": True}, TypeError),
        ({"alpha": 5e-324}, ValueError),
        ({"y_bounds": (1, 0)}, ValueError),
        ({"y_bounds": ([0, 0], [1, 1])}, ValueError),
        ({"y_bounds": (0, 1e308)}, ValueError),  # coefficients would be infinite
        (
            {"X_bounds": ([-1, -1e-150, -1, -1], [1, 1e-150, 1, 1]), "y_bounds": (0, 1e60)},
            ValueError,
        ),
        ({"fit_intercept": 3}, TypeError),
    ],
    ids=["epsilon", "alpha", "flag", "tiny", "order", "length", "wide", "steep", "intercept"],
)
def test_bad_parameters_cost_nothing(table, parameters, error):
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        with pytest.raises(error):
            DPRidge(**(BOX | parameters)).fit(*table)
        assert not ledger.entries


def test_coefficients_between_the_steepest_bounds_are_finite():
    X = np.linspace(0, 1e-150, 40)[:, None]
    model = DPRidge(X_bounds=(0, 1e-150), y_bounds=(0, 1e49))
    with np.errstate(all="raise"), warnings.catch_warnings(action="error"):
        model.fit(X, X[:, 0] * 1e199)
    assert np.isfinite(model.predict(X)).all()
