"""DPSparseGPRegressor with public rows: the base, the bounds, the gate, scikit-learn's contract.

Noise of fits is seeded.
"""

import pickle
import sys
import warnings
from unittest.mock import Mock

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeRegressor

from _support.internals import (
    GatedPredictor,
    PublicModel,
    ResidualRows,
    default_bases,
    public_model,
)
from skdpbo.exceptions import SkdpboWarning
from skdpbo.gaussian_process import DPSparseGPRegressor
from skdpbo.privacy import PrivacyLedger

RNG = np.random.default_rng(0)
X, X_PUBLIC, T = (RNG.uniform(-3, 3, (n, 1)) for n in (2000, 60, 200))


def observed(X, bend):
    """A line, and a bend that public rows of another place do not have."""
    return X[:, 0] + bend * np.sin(2 * X[:, 0]) + 0.2 * RNG.normal(size=len(X))


Y, Y_PUBLIC = observed(X, 1.0), observed(X_PUBLIC, 0.0)
Y_SAME = observed(X, 0.0)


def fitted(y=Y, seed=0, y_public=Y_PUBLIC, X=X, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkdpboWarning)
        gp = DPSparseGPRegressor(random_state=seed, **parameters)
        return gp.fit(X, y, X_public=X_PUBLIC, y_public=y_public)


def error(gp, bend):
    return np.sqrt(np.mean((gp.predict(T) - T[:, 0] - bend * np.sin(2 * T[:, 0])) ** 2))


@pytest.mark.slow
def test_a_signal_in_the_residuals_is_learnt():
    gp = fitted(epsilon=3.0)
    assert gp.signal_probability_ > 0.99
    assert error(gp, 1.0) < 0.3 < 0.6 < np.sqrt(np.mean(np.sin(2 * T[:, 0]) ** 2))
    assert gp.privacy_.epsilon == 3.0


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("epsilon", [0.03, 0.3, 3.0])
def test_without_a_signal_predictions_are_those_of_the_base(epsilon):
    for seed in range(3):
        gp = fitted(Y_SAME, seed, epsilon=epsilon, base=LinearRegression())
        alone = np.sqrt(np.mean((gp.base_.predict(X) - Y_SAME) ** 2))
        together = np.sqrt(np.mean((gp.predict(X) - Y_SAME) ** 2))
        assert together < 1.02 * alone


@pytest.mark.slow
def test_bounds_come_from_cross_validated_public_rows():
    base = LinearRegression()
    gp = fitted(base=base)
    folds = KFold(5, shuffle=True, random_state=0)
    left = Y_PUBLIC - cross_val_predict(base, X_PUBLIC, Y_PUBLIC, cv=folds)
    assert gp.residual_bound_ == pytest.approx(3 * np.sqrt(np.mean(left**2)), rel=1e-12)
    Z = gp.inducing_points_
    assert (Z.min(), Z.max()) == pytest.approx((X_PUBLIC.min(), X_PUBLIC.max()))
    assert fitted(base=base, y_bounds=(-0.1, 0.3)).residual_bound_ == pytest.approx(0.2)
    assert fitted(base=base, X_bounds=(-2, 2)).inducing_points_.max() == 2
    # residuals that vanish bound nothing: the range of the public targets does
    exact = fitted(base=base, y_public=X_PUBLIC[:, 0] * 0 + 5.0)
    assert exact.residual_bound_ == pytest.approx(0.5)


@pytest.mark.slow
def test_given_bounds_are_not_announced_as_missing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DPSparseGPRegressor().fit(X, Y, X_public=X_PUBLIC, y_public=Y_PUBLIC)


@pytest.mark.slow
def test_the_default_base_is_the_best_of_several():
    targets = np.stack([X_PUBLIC[:, 0], np.sin(3 * X_PUBLIC[:, 0])], axis=1)
    line, wave = (public_model(None, X_PUBLIC, targets[:, [j]], np.ones(1)) for j in (0, 1))
    assert np.abs(line(T) - T).max() < 1e-2
    assert np.abs(wave(T) - np.sin(3 * T)).max() < 0.2
    both = public_model(None, X_PUBLIC, targets, np.ones(2))
    assert both(T).shape == (len(T), 2)


def test_several_targets():
    both = np.stack([Y, -2 * Y], axis=1)
    gp = fitted(both, y_public=np.stack([Y_PUBLIC, -2 * Y_PUBLIC], axis=1), base=LinearRegression())
    assert gp.residual_bound_.shape == (2,)
    assert gp.mean_.shape == (30, 2)
    mean, std = gp.predict(T, return_std=True)
    assert mean.shape == std.shape == (len(T), 2)
    assert gp.sample_y(T[:4], 3).shape == (4, 2, 3)


class OneCurve:
    """A process of mean 2x, variance 9 and correlation 1."""

    def mean(self, X):
        return 2 * X

    def moments(self, X):
        return self.mean(X), np.full((len(X), 1), 9.0)

    def joint(self, X):
        return self.mean(X), np.full((len(X), len(X), 1), 9.0)


def test_the_band_of_a_gate_is_the_error_of_its_mean():
    public = PublicModel(LinearRegression().fit(T, T[:, 0] + 1), np.zeros(1), np.ones(1))
    gate = GatedPredictor(public, OneCurve(), 0.25)
    points = T[:5]
    draws = (
        points[:, 0]
        + 1
        + 2 * points[:, 0]
        + 3 * np.random.default_rng(1).normal(size=10**5)[:, None]
    )
    mean, variance = gate.moments(points)
    np.testing.assert_allclose(mean, gate.mean(points), rtol=1e-14)
    expected = np.mean((draws - mean[:, 0]) ** 2, axis=0)
    np.testing.assert_allclose(variance[:, 0], expected, rtol=0.02)
    joint_mean, joint = gate.joint(points)
    np.testing.assert_allclose(joint_mean, mean, rtol=1e-14)
    np.testing.assert_allclose(np.einsum("iij->ij", joint), variance, rtol=1e-12)


def test_targets_in_a_tuple_are_a_vector():
    # Its shape is not known before the charge, and that of public rows is compared with it.
    few = {"X": X[:99], "kernel": RBF(1.0), "inducing_points": 3, "base": LinearRegression()}
    as_tuple, as_array = fitted(tuple(Y[:99]), **few), fitted(Y[:99], **few)
    assert as_tuple.predict(T).tolist() == as_array.predict(T).tolist()


@pytest.mark.slow
def test_public_rows_are_forgotten_by_the_next_fit():
    gp = fitted(y_bounds=(-4, 4), X_bounds=(-3, 3), base=LinearRegression())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkdpboWarning)
        gp.fit(X, Y)
    assert not {"base_", "signal_probability_", "residual_bound_"} & set(vars(gp))


@pytest.mark.slow
def test_clones_copies_and_threads():
    gp = DPSparseGPRegressor(base=DecisionTreeRegressor(max_depth=2))
    assert clone(gp).get_params()["base__max_depth"] == 2
    first = fitted(base=LinearRegression(), chunk_size=100)
    threads = fitted(base=LinearRegression(), chunk_size=100, n_jobs=2)
    np.testing.assert_array_equal(first.predict(T), threads.predict(T))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict(T), first.predict(T))


@pytest.mark.slow
def test_pipelines_transform_the_public_rows():
    gp = DPSparseGPRegressor(epsilon=3.0, random_state=0)
    with config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", SkdpboWarning)
        gp.set_fit_request(X_public=True, y_public=True)
        steps = [("scale", StandardScaler()), ("gp", gp)]
        model = Pipeline(steps, transform_input=["X_public"])
        model.fit(X, Y, X_public=X_PUBLIC, y_public=Y_PUBLIC)
    assert error(model, 1.0) < 0.3
    assert np.abs(model["gp"].inducing_points_).max() < 2


@pytest.mark.slow
def test_dask_blocks_give_the_same_sums():
    da = pytest.importorskip("dask.array")
    blocks = da.from_array(X, chunks=(700, 1)), da.from_array(Y, chunks=700)
    here = fitted(base=LinearRegression())
    there = fitted(blocks[1], X=blocks[0], base=LinearRegression())
    np.testing.assert_allclose(there.predict(T), here.predict(T), rtol=1e-6)


class Narrow(LinearRegression):
    """Predicts public rows only."""

    def predict(self, X):
        if not np.isin(X, X_PUBLIC).all():
            raise ValueError("no prediction")
        return super().predict(X)


class Batch(LinearRegression):
    """Standardises the rows that it predicts by themselves."""

    def predict(self, X):
        return super().predict((X - X.mean(axis=0)) / (X.std(axis=0) + 1))


class OwnCopy(LinearRegression):
    def __deepcopy__(self, memo):
        return self


@pytest.mark.parametrize(
    ("given", "parameters", "message"),
    [
        ({"X_public": X_PUBLIC}, {}, "together"),
        ({"y_public": Y_PUBLIC}, {}, "together"),
        ({"X_public": X, "y_public": Y}, {}, "share rows"),
        ({"X_public": X[:9], "y_public": list(Y[:9])}, {}, "share rows"),
        ({"X_public": X[:9].copy(), "y_public": Y[:9]}, {}, "share rows"),
        ({"X_public": X_PUBLIC, "y_public": Y_PUBLIC}, {"base": Narrow()}, "no prediction"),
        ({"X_public": X_PUBLIC[:4], "y_public": Y_PUBLIC[:4]}, {}, "minimum of 5"),
        ({"X_public": X_PUBLIC, "y_public": Y_PUBLIC[:, None]}, {}, "targets of y"),
        ({"X_public": np.c_[X_PUBLIC, X_PUBLIC], "y_public": Y_PUBLIC}, {}, "2 features"),
        (
            {"X_public": X_PUBLIC, "y_public": Y_PUBLIC},
            {"release": "kernel", "kernel": RBF(1.0), "noise_variance": 0.1},
            "whitened",
        ),
        ({"X_public": X_PUBLIC, "y_public": Y_PUBLIC}, {"prior_mean": "private"}, "prior_mean"),
        ({"X_public": X_PUBLIC, "y_public": Y_PUBLIC}, {"base": "tree"}, "base must be"),
        ({"X_public": X_PUBLIC, "y_public": Y_PUBLIC}, {"base": Batch()}, "several rows at once"),
        ({"X_public": X_PUBLIC, "y_public": Y_PUBLIC}, {"base": OwnCopy()}, "cannot be copied"),
        (
            {"X_public": X_PUBLIC, "y_public": Y_PUBLIC},
            {"base": make_pipeline(StandardScaler(), OwnCopy())},
            "cannot be copied",
        ),
        ({"X_public": X_PUBLIC, "y_public": Y_PUBLIC}, {"y_bounds": (2, 1)}, "y_bounds"),
    ],
)
def test_bad_public_rows_cost_nothing(given, parameters, message):
    gp = DPSparseGPRegressor(**{"X_bounds": (-3, 3), "y_bounds": (-3, 3), **parameters})
    with PrivacyLedger(epsilon=5.0) as ledger:
        with pytest.raises((ValueError, TypeError), match=message):
            gp.fit(X, Y, **given)
        assert not ledger.entries


@pytest.mark.parametrize("name", ["X_public", "y_public"])
@pytest.mark.parametrize(
    "container", [np.ma.asarray, lambda a: a.astype("M8[s]"), lambda a: dict(enumerate(a)), iter]
)
def test_containers_of_public_rows_that_are_read_otherwise_are_refused_by_name(name, container):
    rows = {"X_public": X_PUBLIC, "y_public": Y_PUBLIC}
    with PrivacyLedger(1.0) as ledger, pytest.raises(TypeError, match=f"^{name} "):
        DPSparseGPRegressor().fit(X, Y, **rows | {name: container(rows[name])})
    assert not ledger.entries


class Ranks(Batch):
    def predict(self, X):
        return 2000 + 0.1 * np.argsort(np.argsort(X[:, 0])) / len(X)


def test_mixed_rows_are_found_where_targets_are_far_from_0():
    gp = DPSparseGPRegressor(base=Ranks(), X_bounds=(-3, 3), y_bounds=(1990, 2010))
    with pytest.raises(ValueError, match="several rows at once"):
        gp.fit(X, Y + 2000, X_public=X_PUBLIC, y_public=Y_PUBLIC + 2000)


def test_cached_functions_are_refused(tmp_path):
    cached = joblib.Memory(tmp_path, verbose=0).cache(np.abs)
    base = make_pipeline(FunctionTransformer(cached), LinearRegression())
    gp = DPSparseGPRegressor(base=base, X_bounds=(-3, 3), y_bounds=(-3, 3))
    with pytest.raises(ValueError, match=r"base__.* is cached by joblib\.Memory"):
        gp.fit(X, Y, X_public=X_PUBLIC, y_public=Y_PUBLIC)


@pytest.mark.slow
def test_objects_are_checked_under_their_own_names():
    public = pd.DataFrame(X_PUBLIC, columns=["b"])
    gp = DPSparseGPRegressor().fit(X, Y, X_public=X_PUBLIC, y_public=Y_PUBLIC)
    rows = pd.DataFrame(X, columns=["b"]).astype(object)  # typed as it is read
    assert gp.fit(rows, Y, X_public=public, y_public=Y_PUBLIC).feature_names_in_ == ["b"]


FAILURES = {"raises": ValueError, "leaves": SystemExit}


class OddBase(RegressorMixin, BaseEstimator):
    """Does what a base should not do, at inputs above 2.9: there are no such public rows."""

    def __init__(self, deed):
        self.deed = deed

    def fit(self, X, y):
        return self

    def predict(self, X):
        self.seen_ = X
        far = X[:, 0] > 2.9
        if far.any():
            print(f"odd {X[far]}")
            print(f"odd {X[far]}", file=sys.stderr)
            warnings.warn(f"odd {X[far]}", stacklevel=1)
            if self.deed in FAILURES:
                raise FAILURES[self.deed](f"odd {X[far]}")
        return np.where(far, np.nan if self.deed == "is not finite" else 0.0, X[:, 0])


NEAR = np.linspace(-2.5, 2.5, 20)[:, None]


def odd(deed):
    gp = DPSparseGPRegressor(base=OddBase(deed))
    return gp.fit(X, Y, X_public=NEAR, y_public=NEAR[:, 0])


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("deed", ["warns", "is not finite", *FAILURES])
def test_a_base_tells_nothing(deed, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp = odd(deed)
    assert capsys.readouterr() == ("", "")
    assert len(gp.base_.seen_) == len(gp.inducing_points_)  # public
    assert np.isfinite(gp.mean_).all()
    assert gp.privacy_.status == "conditional"


@pytest.mark.parametrize("deed", FAILURES)
def test_a_record_on_which_the_base_fails_has_the_mean_as_prediction(deed):
    public = PublicModel(OddBase(deed), np.array([0.25]), np.array([3.0]))
    rows = np.array([[1.0], [3.0], [-2.0]])
    records = Mock(radius=1, width=1, side_effect=lambda X, residuals, workspace: residuals)
    residuals = ResidualRows(records, public)(rows, np.zeros((3, 1)), None)
    assert residuals.ravel().tolist() == [-1.0, -0.25, 2.0]


def test_residuals_that_overflow_give_no_warning():
    class Large(OddBase):
        def predict(self, X):
            return np.full(len(X), 1e308)

    public = PublicModel(Large(None), np.array([0.0]), np.array([3.0]))
    inner = Residuals()
    rows = ResidualRows(inner, public)
    with np.errstate(over="raise"):
        rows(NEAR, np.full((20, 1), -1.7e308), None)
    assert np.isneginf(inner.seen).all()


class Residuals:
    radius, width, workspace, seen = 1, 1, None, None

    def __call__(self, X, Y, workspace):
        self.seen = Y


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "base", [b for n in (60, 3000) for b in default_bases(n, X_PUBLIC.shape[1], 1)]
)
def test_the_default_bases_predict_every_finite_row(base):
    public = public_model(base, X_PUBLIC, Y_PUBLIC[:, None], np.array([3.0]))
    rows = np.full((4, X_PUBLIC.shape[1]), 0.5)
    rows[:3, 0] = 1e39, -1e308, 1.7e308
    with np.errstate(all="ignore"):
        assert np.isfinite(public(rows)).all()


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize("public", [{}, {"X_public": X_PUBLIC, "y_public": np.sin(X_PUBLIC[:, 0])}])
def test_the_precision_of_one_cell_decides_no_rounding_of_others(public):
    rows = [[cell] for cell in X[:, 0].astype(np.float32)]
    base = Pipeline([("scale", StandardScaler()), ("line", LinearRegression())])
    gp = DPSparseGPRegressor(
        RBF(0.7), base=base, X_bounds=(-3, 3), y_bounds=(-3, 3), random_state=0
    )
    single = gp.fit(rows, np.sin(X[:, 0]), **public).mean_
    other = [[float(rows[0][0])], *rows[1:]]  # the same number
    np.testing.assert_array_equal(gp.fit(other, np.sin(X[:, 0]), **public).mean_, single)
