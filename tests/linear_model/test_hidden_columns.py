"""Columns whose released spread its noise hides are named; those in bounds that fit are not."""

import warnings

import numpy as np
import pandas as pd
import pytest

from _support.internals import hidden_columns
from skdpbo.exceptions import HiddenColumnsWarning, SkdpboWarning
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.preprocessing import DPStandardScaler

N = 5000
Y = np.random.default_rng(1).uniform(-3, 3, N)
MODELS = {
    "ridge": lambda **bounds: DPRidge(y_bounds=(-3, 3), **bounds),
    "logistic": lambda **bounds: DPLogisticRegression(classes=[0, 1], **bounds),
    "scaler": DPStandardScaler,
}


def named(kind, X, high, y=Y, epsilon=10.0, **bounds):
    """Return the message of the warning, or None."""
    bounds = {"X_bounds": (-np.asarray(high), high), **bounds}
    model = MODELS[kind](epsilon=epsilon, random_state=0, **bounds)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SkdpboWarning)
        model.fit(X, (y > 0).astype(int) if kind == "logistic" else y)
    found = [str(w.message) for w in caught if w.category is HiddenColumnsWarning]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.mark.parametrize("kind", MODELS)
def test_a_column_in_a_far_too_wide_box_is_named(kind):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 5)), columns=list("abcde"))
    high = np.array([4.0, 4.0, 400.0, 4.0, 4.0])
    assert "The released spread of c is within its own noise" in named(kind, X, high)
    assert "spread of 2 is" in named(kind, X.to_numpy(), high)


def test_a_target_in_a_far_too_wide_interval_is_named():
    X = np.random.default_rng(0).normal(size=(N, 4))
    model = DPRidge(epsilon=10.0, X_bounds=(-4, 4), y_bounds=(-900, 900))
    with pytest.warns(HiddenColumnsWarning, match="spread of y is"):
        model.fit(X, Y)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("kind", MODELS)
def test_columns_in_bounds_that_fit_are_not(kind, epsilon):
    rng = np.random.default_rng(0)
    X = np.hstack([rng.normal(size=(N, 3)), rng.exponential(size=(N, 3)) - 1])
    assert named(kind, X, [4.0] * 3 + [8.0] * 3, epsilon=epsilon) is None
    # Rare indicators spread as little, in bounds that are right.
    rare = np.hstack([X[:, :3], rng.uniform(size=(N, 1)) < 1e-3])
    bounds = [-4.0, -4.0, -4.0, 0.0], [4.0, 4.0, 4.0, 1.0]
    assert named(kind, rare, 4.0, epsilon=epsilon, X_bounds=bounds) is None


def test_nothing_is_said_where_most_columns_are_in_the_noise():
    moments, box = np.array([0.0, 0.0, 0.0, 0.3, 0.3, 0.0]), (np.zeros(3), np.full(3, 2.0))
    np.testing.assert_array_equal(hidden_columns(moments, (0.005, 0.005), *box), [2])
    assert hidden_columns(moments, (0.05, 0.05), *box).size == 0
    assert hidden_columns(moments, (0.005, 0.005), box[0], np.ones(3)).size == 0


def test_a_warning_that_is_an_error_leaves_a_fitted_model():
    X = np.random.default_rng(0).normal(size=(N, 5))
    scaler = DPStandardScaler(epsilon=10.0, X_bounds=([-4.0] * 4 + [-400.0], [4.0] * 4 + [400.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", HiddenColumnsWarning)
        with pytest.raises(HiddenColumnsWarning):
            scaler.fit(X)
    assert scaler.transform(X).shape == X.shape
    assert scaler.privacy_.n_protected == N
