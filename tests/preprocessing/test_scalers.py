"""Private scalers: what they release, its sensitivity, and scikit-learn's checks."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from _support.internals import column_counts, counts_sensitivity, narrowest_run
from _support.planted import original, put
from _support.sklearn_checks import failed_checks
from skdpbo.exceptions import DefaultBoundsWarning, SeededNoiseWarning
from skdpbo.preprocessing import (
    DPMinMaxScaler,
    DPOneHotEncoder,
    DPSimpleImputer,
    DPStandardScaler,
)
from skdpbo.privacy import PrivacyLedger

RNG = np.random.default_rng(0)


def fitted(scaler, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return scaler.set_params(random_state=0).fit(X)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("private", "exact"),
    [
        (DPStandardScaler(epsilon=50.0, X_bounds=(-10, 10)), StandardScaler()),
        (DPMinMaxScaler(epsilon=50.0), MinMaxScaler()),
    ],
    ids=["standard", "min-max"],
)
def test_check_estimator_has_no_failure_of_its_own(private, exact):
    own, known = failed_checks(private), failed_checks(exact)
    assert {k: v for k, v in own.items() if k not in known} == {}


def test_moments_are_near_those_of_the_rows():
    X = RNG.normal([1.0, -2.0, 0.0], [1.0, 0.5, 2.0], (20000, 3))
    scaler = fitted(DPStandardScaler(X_bounds=(-30, 30)), X)
    np.testing.assert_allclose(scaler.mean_, X.mean(axis=0), atol=0.1)
    np.testing.assert_allclose(scaler.scale_, X.std(axis=0), rtol=0.15)
    np.testing.assert_allclose(scaler.var_, scaler.scale_**2)
    np.testing.assert_allclose(scaler.transform(X), (X - scaler.mean_) / scaler.scale_)


@pytest.mark.parametrize(
    "scaler", [DPStandardScaler(X_bounds=(-30, 30)), DPMinMaxScaler(clip=False)]
)
def test_what_is_transformed_comes_back(scaler):
    X = RNG.normal([1.0, -2.0, 0.0], [1.0, 0.5, 2.0], (2000, 3))
    scaler = fitted(clone(scaler), X)
    Z = scaler.transform(X)
    np.testing.assert_allclose(scaler.inverse_transform(Z), X, atol=1e-12)
    with pytest.raises(NotFittedError):
        clone(scaler).inverse_transform(Z)


def test_the_scale_of_a_range_is_that_of_scikit_learn():
    X = RNG.uniform(0, 900, (5000, 2))
    exact = MinMaxScaler().fit([[0.0, 0.0], [1024.0, 1024.0]])
    scaler = fitted(DPMinMaxScaler(), X)
    for name in ("data_min_", "data_max_", "data_range_", "scale_"):
        np.testing.assert_array_equal(getattr(scaler, name), getattr(exact, name))


def test_interval_that_starts_at_zero_is_that_around_zero_moved():
    X = RNG.integers(-100, 100, (500, 2)) / 64.0
    around = fitted(DPStandardScaler(epsilon=0.5, X_bounds=(-2, 2)), X)
    from_zero = fitted(DPStandardScaler(epsilon=0.5, X_bounds=([0, 0], 4)), X + 2)
    to_zero = fitted(DPStandardScaler(epsilon=0.5, X_bounds=(-4, 0)), X - 2)
    for scaler, shift in ((from_zero, 2.0), (to_zero, -2.0)):
        np.testing.assert_allclose(scaler.mean_, around.mean_ + shift, rtol=1e-12)
        np.testing.assert_array_equal(scaler.scale_, around.scale_)


def test_means_that_are_noise_stay_in_their_box():
    X, box = np.zeros((3, 1)), (-2, 6)
    scalers = [DPStandardScaler(epsilon=0.1, X_bounds=box, random_state=k) for k in range(20)]
    with warnings.catch_warnings(action="ignore"):
        means = [scaler.fit(X).mean_[0] for scaler in scalers]
    assert max(means) <= 6
    assert min(means) >= -2


def test_constant_column_has_a_positive_scale():
    X = np.column_stack([RNG.normal(size=2000), np.ones(2000)])
    scaler = fitted(DPStandardScaler(X_bounds=(-5, 5)), X)
    assert np.all(scaler.scale_ > 0)
    assert np.all(np.abs(scaler.transform(X)[:, 1]) < 5)


def test_without_mean_and_deviation():
    X = RNG.normal(1, 2, (1000, 2))
    np.testing.assert_array_equal(
        fitted(DPStandardScaler(with_mean=False, with_std=False, X_bounds=(-9, 9)), X).transform(X),
        X,
    )


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 900, (0, 1024)), (-5, 3, (-8, 4)), (20, 30, (16, 32)), (-0.4, -0.1, (-0.5, -0.0625))],
)
def test_range_is_that_of_the_powers_of_two(low, high, expected):
    scaler = fitted(DPMinMaxScaler(epsilon=5.0), RNG.uniform(low, high, (20000, 1)))
    assert (scaler.data_min_[0], scaler.data_max_[0]) == expected
    assert np.all(scaler.transform([[low], [high]]) >= 0)


def test_a_range_far_from_zero_is_at_most_that_of_the_powers_of_two():
    scaler = fitted(DPMinMaxScaler(epsilon=5.0), RNG.uniform(-0.3, -0.1, (20000, 1)))
    assert -0.5 < scaler.data_min_[0] <= -0.3
    assert -0.1 <= scaler.data_max_[0] <= -0.0625
    assert np.all(scaler.transform([[-0.3], [-0.1]]) >= 0)


def test_public_range_reads_nothing():
    scaler = fitted(DPMinMaxScaler(X_bounds=(0, 4)), np.array([[1.0], [2.0]]))
    np.testing.assert_array_equal(scaler.transform([[1.0], [8.0]]), [[0.25], [1.0]])


# Powers of two, and parts of a range of each column.
POWERS = 2.0 ** np.arange(-20, 41)
EDGES = {
    "powers": np.tile([*-POWERS[::-1], *POWERS], (3, 1)),
    "parts": np.linspace([256.0, -1024.0, 1.0], [512.0, -512.0, 2.0], 33, axis=1),
}


@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
def test_replaced_record_moves_the_counts_by_their_sensitivity(edges):
    X = RNG.normal(size=(20, 3)) * 2.0 ** RNG.integers(-30, 50, (20, 3))
    base, largest = column_counts([X], edges), 0.0
    assert base.sum(axis=1).tolist() == [20, 20, 20]
    for i in range(20):
        for value in (0.0, -1.0, 1e-9, 300.0, 1e30, -1e30, np.nan):
            other = X.copy()
            other[i] = value
            changed = np.linalg.norm(column_counts([other], edges) - base)
            largest = max(largest, float(changed))
    assert 0.999 * counts_sensitivity(3) < largest <= counts_sensitivity(3)
    assert all(Fraction(counts_sensitivity(n)) ** 2 >= 2 * n for n in range(1, 50))


FAR = {
    "years": lambda rng, n: rng.integers(1990, 2021, n),
    "kelvin": lambda rng, n: rng.normal(290, 8, n),
    "pascal": lambda rng, n: rng.normal(101_325, 800, n),
    "around a power of two": lambda rng, n: rng.normal(512, 10, n),
    "degrees west": lambda rng, n: rng.normal(-73.97, 0.4, n),
}


def far_columns(kinds=FAR, n_rows=5000):
    """Return a table; the same in every process, whichever tests ran before."""
    rng = np.random.default_rng(7)
    return np.stack([kinds[kind](rng, n_rows) for kind in kinds], axis=1)


# Seeded: no chance.
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_ranges_far_from_zero_are_narrow_and_hold_the_records(epsilon):
    X = far_columns()
    scaler = fitted(DPMinMaxScaler(epsilon=epsilon), X)
    low, high = np.quantile(X, [0.01, 0.99], axis=0)
    assert np.all(scaler.data_min_ <= low)
    assert np.all(scaler.data_max_ >= high)
    # Powers of two alone have 5 to 34 times the width.
    assert np.all(scaler.data_range_ < 3 * (high - low))


def test_few_bins_that_stand_out_by_chance_are_no_range(monkeypatch):
    """Of 600 normal values each of many bins is near the threshold. Seeded: no chance."""
    X = np.random.default_rng(9).normal(size=(600, 30))
    with pytest.warns(DefaultBoundsWarning, match="some released counts"):
        scaler = fitted(DPMinMaxScaler(epsilon=1.5), X)
    inside = (scaler.data_min_ <= X) & (scaler.data_max_ >= X)
    assert inside.mean(axis=0).min() > 0.8
    put(monkeypatch, "column ranges: _MOST", 0.0)
    with pytest.warns(DefaultBoundsWarning, match="some released counts"):
        scaler = fitted(DPMinMaxScaler(epsilon=1.5), X)
    inside = (scaler.data_min_ <= X) & (scaler.data_max_ >= X)
    assert inside.mean(axis=0).min() < 0.2


def test_what_fills_its_range_or_holds_zero_is_not_narrowed():
    rng = np.random.default_rng(10)
    X = np.stack([rng.uniform(200, 1000, 5000), rng.normal(0, 3, 5000)], axis=1)
    scaler = fitted(DPMinMaxScaler(epsilon=5.0), X)
    np.testing.assert_array_equal(scaler.data_min_, [128, -16])
    np.testing.assert_array_equal(scaler.data_max_, [1024, 16])


@pytest.mark.parametrize(
    ("n_rows", "epsilon", "kinds", "n_releases"),
    [
        (4000, 1.0, ["years", "kelvin"], 3),
        (4000, 1.0, ["near zero"], 1),
        (100, 0.5, ["years", "kelvin"], 1),
    ],
)
def test_releases_of_ranges_share_the_budget(n_rows, epsilon, kinds, n_releases, monkeypatch):
    spent = []

    def heard(counts, mu, *args, **how):
        spent.append(mu)
        return release_counts(counts, mu, *args, **how)

    release_counts = original("column ranges: release_counts")
    put(monkeypatch, "column ranges: release_counts", heard)
    columns = FAR | {"near zero": lambda rng, n: rng.normal(size=n)}
    X = far_columns({kind: columns[kind] for kind in kinds}, n_rows)
    scaler = fitted(DPMinMaxScaler(epsilon=epsilon), X)
    assert len(spent) == n_releases
    used = math.sqrt(sum(mu**2 for mu in spent)) / scaler.privacy_.mu
    # Of columns near zero the share of the parts is left.
    assert used <= 1
    assert used > (1 - 1e-12 if "years" in kinds else 0.8)


def test_noise_alone_narrows_no_range():
    """Seeded: no chance. A run needs 4.75 deviations of the noise of its count."""
    rng = np.random.default_rng(3)
    for n_records in (50, 200, 1000):
        sigma = n_records / 8
        empty = sigma * rng.standard_normal((2000, 32))
        assert {narrowest_run(counts, sigma, n_records) for counts in empty} == {(0, 32)}


@pytest.mark.parametrize(
    "scaler", [DPStandardScaler(X_bounds=(-3, 3)), DPMinMaxScaler()], ids=["standard", "min-max"]
)
def test_order_of_rows_and_ledger(scaler):
    X = RNG.normal(size=(3000, 2)).clip(0, 3)
    scale = fitted(scaler, X).scale_.copy()
    np.testing.assert_array_equal(fitted(scaler, X[::-1]).scale_, scale)
    assert scaler.privacy_.status == "void"
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        scaler.set_params(random_state=None).fit(X)
    assert len(ledger.entries) == 1
    assert scaler.privacy_.status == "proved"
    assert scaler.privacy_.n_protected == 3000


def test_missing_bounds_warn_and_values_that_are_no_numbers_are_refused():
    X = RNG.normal(size=(100, 2))
    with pytest.warns(DefaultBoundsWarning, match="X_bounds of DPStandardScaler.*DPMinMaxScaler"):
        DPStandardScaler().fit(X)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        DPStandardScaler(X_bounds=(-3, 3)).fit(X)
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        DPMinMaxScaler().fit(X)


def test_missing_values_are_counted_nowhere_and_stay_missing():
    X = far_columns()
    X[np.random.default_rng(8).random(X.shape) < 0.4] = np.nan
    X[:, 3] = np.nan  # of all records
    with pytest.warns(DefaultBoundsWarning, match="some released counts"):
        scaler = fitted(DPMinMaxScaler(epsilon=10.0), X)
    assert scaler.data_range_[3] == 6  # no bin stands out
    low, high = np.nanquantile(np.delete(X, 3, axis=1), [0.01, 0.99], axis=0)
    assert np.all(np.delete(scaler.data_min_, 3) <= low)
    assert np.all(np.delete(scaler.data_max_, 3) >= high)
    assert np.all(np.delete(scaler.data_range_, 3) < 3 * (high - low))
    Z = scaler.transform(X)
    np.testing.assert_array_equal(np.isnan(Z), np.isnan(X))
    np.testing.assert_array_equal(np.isnan(scaler.inverse_transform(Z)), np.isnan(X))
    filled = fitted(DPSimpleImputer(X_bounds=(0, 1)), Z).transform(Z)
    assert 0 <= filled.min() <= filled.max() <= 1


@pytest.mark.slow
def test_many_columns_are_released():
    X = np.zeros((2, 9000))
    with pytest.warns(DefaultBoundsWarning, match="2 rows can show no range"):
        assert DPMinMaxScaler().fit(X).scale_.shape == (9000,)


@pytest.mark.parametrize(
    ("step", "methods"),
    [
        (DPStandardScaler(), ["transform", "inverse_transform"]),
        (DPMinMaxScaler(), ["transform", "inverse_transform"]),
        (DPOneHotEncoder(), ["transform", "inverse_transform", "get_feature_names_out"]),
        (DPSimpleImputer(), ["transform", "get_feature_names_out"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_before_a_fit_it_says_so(step, methods):
    for method in methods:
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(step, method)(*[np.zeros((2, 1))] * ("transform" in method))


@pytest.mark.parametrize(
    ("name", "value"), [("clip", 1), ("epsilon", -1.0), ("delta", 1.0), ("X_bounds", 3)]
)
def test_bad_parameters_are_named_also_where_nothing_is_spent(name, value):
    scaler = DPMinMaxScaler(**({"X_bounds": (0, 1)} | {name: value}))
    with pytest.raises((TypeError, ValueError), match=name):
        scaler.fit(np.zeros((9, 1)))


def test_ranges_that_are_not_shown_are_reported():
    rng = np.random.default_rng(0)
    few, wide = rng.normal(size=(20, 2)), rng.normal(size=(1000, 2))
    wide[:, 1] = 2.0 ** rng.integers(-19, 39, 1000)  # of many powers of two, none has half
    with PrivacyLedger(epsilon=4.0, delta=1e-3) as ledger:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DefaultBoundsWarning)
            with pytest.raises(DefaultBoundsWarning, match="20 rows can show no range"):
                DPMinMaxScaler().fit(few)
            assert not ledger.entries
            scaler = DPMinMaxScaler().fit(wide[:, :1])
            with pytest.raises(DefaultBoundsWarning, match="some released counts"):
                scaler.fit(wide)
        assert len(ledger.entries) == 2
        with pytest.warns(DefaultBoundsWarning) as caught:
            DPMinMaxScaler().fit(few)
    assert sum(w.category is DefaultBoundsWarning for w in caught) == 1
    assert scaler.data_min_[1] == -3
    assert scaler.n_records_ == 1000


@pytest.mark.parametrize("name", ["DPStandardScaler", "DPMinMaxScaler", "DPSimpleImputer"])
def test_float32_is_kept_as_in_scikit_learn(name):
    cls = {"DPStandardScaler": DPStandardScaler, "DPMinMaxScaler": DPMinMaxScaler}
    scaler = fitted(cls.get(name, DPSimpleImputer)(X_bounds=(-1e3, 1e3)), RNG.normal(size=(99, 3)))
    X = RNG.normal(20.0, 9.0, (50, 3)).astype(np.float32)
    if name == "DPSimpleImputer":
        X[::3, 1] = np.nan
    single, double = scaler.transform(X), scaler.transform(X.astype(np.float64))
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(single, double, rtol=1e-6)
    if name == "DPSimpleImputer":  # beyond the type: finite for a step after it
        wide = fitted(DPSimpleImputer(X_bounds=(1e200, 1e201)), np.full((99, 3), 5e200))
        assert np.isfinite(wide.transform(X)).all()
    else:
        assert scaler.inverse_transform(single).dtype == np.float32


@pytest.mark.parametrize("missing", [0.5, None])
def test_one_missing_value_of_a_frame_ends_no_transform(missing):
    # scikit-learn returns a view of such a column that cannot be written to.
    X = pd.DataFrame({"a": pd.Series([0.25, 0.75, missing], dtype="Float64")})
    scaler = DPMinMaxScaler(X_bounds=(0, 1)).fit(X)
    for scaled in (scaler.transform(X), scaler.inverse_transform(X)):
        np.testing.assert_array_equal(scaled[:, 0], [0.25, 0.75, missing or np.nan])


@pytest.mark.parametrize("cls", [DPStandardScaler, DPMinMaxScaler, DPSimpleImputer])
def test_frames_as_output_and_rows_that_stay_as_they_are(cls):
    X = RNG.normal(size=(50, 2))
    scaler, before = fitted(cls(X_bounds=(-1, 2)), X), X.copy()
    plain = scaler.transform(X)
    frame = scaler.set_output(transform="pandas").transform(X)
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    np.testing.assert_array_equal(X, before)
