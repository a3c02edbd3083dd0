"""Bounds in other units than the records are announced from released values; those that fit not."""

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from _support.internals import at_one_end
from skdpbo.exceptions import (
    HiddenColumnsWarning,
    OutsideBoundsWarning,
    SkdpboWarning,
    WideBoundsWarning,
)
from skdpbo.gaussian_process import DPSparseGPRegressor, PrivateProjection, ProjectedGP
from skdpbo.linear_model import DPRidge

N = 3000
X = np.random.default_rng(0).uniform(-2, 2, (N, 1))
F = np.sin(1.5 * X[:, 0])  # in [-1, 1]
MODELS = {
    "gp": lambda **given: DPSparseGPRegressor(inducing_points=12, **given),
    "gp of one kernel": lambda **given: DPSparseGPRegressor(RBF(1.0), inducing_points=12, **given),
    "ridge": DPRidge,
}


def given_by(model, *data, **public):
    """Return the messages of the warnings of a fit, by class."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SkdpboWarning)
        model.fit(*data, **public)
    return {w.category: str(w.message) for w in caught}


def given_for(kind, y, y_bounds, **parameters):
    return given_by(MODELS[kind](X_bounds=(-2, 2), y_bounds=y_bounds, **parameters), X, y)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("y", "bounds"), [(150 + 50 * F, (0, 1)), (-9 + F, (-3, 3))])
def test_targets_beyond_their_bounds_are_announced(kind, y, bounds):
    given = given_for(kind, y, bounds)
    assert "near one end of y_bounds or clipped beyond it (column 0)" in given[OutsideBoundsWarning]
    assert HiddenColumnsWarning not in given


def test_the_target_that_is_beyond_is_named():
    model = DPSparseGPRegressor(inducing_points=9, X_bounds=(-2, 2), y_bounds=(-2, 2))
    assert "(column 1)" in given_by(model, X, np.column_stack([F, F + 9]))[OutsideBoundsWarning]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("y", [F, F + 150])
def test_targets_in_a_small_part_of_their_bounds_are_announced(y):
    assert "less than a tenth of y_bounds" in given_for("gp", y, (-300, 300))[WideBoundsWarning]


def fitting():
    rng = np.random.default_rng(1)
    noise = rng.normal(size=N)
    skewed = rng.exponential(size=N)
    return {
        "three deviations": (F + 0.3 * noise, (-2.5, 2.5)),
        "tight": (F, (-1, 1)),
        "skewed": (skewed, (0, 10)),
        "signs": (np.sign(F), (-1, 1)),
        "four of five": (np.where(noise > -0.84, 1.0, -1.0), (-1, 1)),
    }


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("y", "bounds"), fitting().values(), ids=fitting())
def test_targets_in_bounds_that_fit_are_not(kind, y, bounds):
    assert given_for(kind, y, bounds) == {}


def test_where_the_noise_prevails_nothing_is_reported():
    # As at an end: 3 standard deviations of the noise are more than .15 half-widths.
    assert at_one_end(np.ones(1), np.ones(1), 0.051).size == 0
    assert at_one_end(np.ones(1), np.ones(1), 0.049).tolist() == [0]
    for kind in MODELS:
        assert given_for(kind, F + 9, (-1, 1), epsilon=0.01) == {}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("kind", "bounds", "named"),
    [
        (PrivateProjection, {"X_bounds": (-25, 25)}, "X_bounds"),
        (PrivateProjection, {"data_norm": 25.0}, "the ball of data_norm"),
        (ProjectedGP, {"X_bounds": (-25, 25)}, "X_bounds"),
    ],
)
def test_rows_beyond_their_domain_are_announced(kind, bounds, named):
    rows, y = X[:60], F[:60]
    given = given_by(kind(**bounds), 150 + 25 * rows, y)
    assert f"near one end of {named} or clipped beyond it" in given[OutsideBoundsWarning]
    for fit in (12 * rows, 24 * np.abs(rows) / 2):
        assert given_by(kind(**bounds), fit, y) == {}


@pytest.mark.parametrize("mechanism", ["l2_laplace", "gaussian"])
def test_rows_on_a_sphere_or_with_a_rare_indicator_are_not(mechanism):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3))
    ball = PrivateProjection(mechanism=mechanism, data_norm=9.0)
    assert given_by(ball, 9 * rows / np.linalg.norm(rows, axis=1, keepdims=True)) == {}
    box = PrivateProjection(mechanism=mechanism, X_bounds=([-9, -9, 0], [9, 9, 90]))
    rows[:, 2] = 90 * (rng.uniform(size=400) < 0.01)
    assert given_by(box, rows) == {}


def test_a_warning_that_is_an_error_leaves_a_fitted_model():
    for model in (MODELS["gp"](X_bounds=(-2, 2), y_bounds=(0, 1)), DPRidge(y_bounds=(0, 1))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", OutsideBoundsWarning)
            with pytest.raises(OutsideBoundsWarning):
                model.fit(X, F + 9)
        assert model.predict(X).shape == (N,)
        assert model.privacy_.n_protected == N


def records(p):
    rng = np.random.default_rng(2)
    rows = rng.uniform(-2, 2, (N, p))
    return rows, np.sin(rows[:, 0]) + 0.1 * rng.normal(size=N)


@pytest.mark.slow
def test_boxes_of_public_rows_are_named():
    rows, y = records(5)
    public = {"X_public": 40 * rows[:60], "y_public": y[:60].copy()}
    model = DPSparseGPRegressor(epsilon=3.0)
    assert "a sixth of the box of X_public" in given_by(model, rows, y, **public)[WideBoundsWarning]
    model.set_params(X_bounds=(-80, 80))
    assert "a sixth of X_bounds" in given_by(model, rows, y, **public)[WideBoundsWarning]


@pytest.mark.slow
def test_targets_that_public_rows_say_nothing_of_are_announced():
    rows, y = records(1)
    public = {"X_public": rows[:60].copy(), "y_public": y[:60].copy()}
    given = given_by(DPSparseGPRegressor(), rows[60:], y[60:] + 50, **public)
    assert "near one end of residual_bound_" in given[OutsideBoundsWarning]
    given = given_by(DPSparseGPRegressor(), rows[60:], y[60:], **public)
    assert given == {}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("units", "kernel"),
    [
        ([1, 500], None),
        ([500, 1, 2], RBF(300.0)),
        ([3, 500, 1, 2], None),
        ([500, 500, 500, 1], None),
    ],
    ids=str,
)
def test_one_interval_for_columns_in_other_units_is_announced(units, kernel):
    # Half of the columns, at least, are at one end; one of four alone may be a rare indicator.
    rows = np.random.default_rng(3).uniform(size=(N, len(units)))
    y = np.sin(4 * rows[:, 0])
    model = DPSparseGPRegressor(kernel, X_bounds=(0, 500), y_bounds=(-1, 1), epsilon=3.0)
    given = given_by(model, rows * units, y)
    small = [j for j, unit in enumerate(units) if unit < 500]
    if len(small) == 1 and len(units) > 2:
        assert OutsideBoundsWarning not in given
    else:
        columns = ", ".join(map(str, small))
        assert (
            f"near one end of X_bounds or clipped beyond it (column {columns})"
            in given[OutsideBoundsWarning]
        )
    model.set_params(X_bounds=(np.zeros(len(units)), units))
    assert OutsideBoundsWarning not in given_by(model, rows * units, y)


def test_rare_indicators_and_skewed_columns_are_not():
    rng = np.random.default_rng(4)
    rare, skewed = (rng.uniform(size=N) < 0.02).astype(float), rng.exponential(size=N)
    for column, high in ((rare, 1), (skewed, 10)):
        model = DPSparseGPRegressor(X_bounds=(0, high), y_bounds=(-1, 1), epsilon=3.0)
        assert given_by(model, column[:, None], np.tanh(column - 1)) == {}


def test_a_released_box_that_is_far_too_wide_is_announced():
    rows, y = records(1)
    far = rows / 4
    far[::100] = 60.0 * np.sign(rows[::100])
    model = DPSparseGPRegressor(epsilon=30.0, X_bounds="private", y_bounds=(-2, 2))
    given = given_by(model, far, y)
    assert set(given) == {WideBoundsWarning}
    # It depends on what was released, which the fitted model shows.
    assert model.X_bounds_[1][0] >= 32
