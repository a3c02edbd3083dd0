"""Columns whose released spread its noise hides are named; those in bounds that fit are not."""

import warnings

import numpy as np
import pandas as pd
import pytest

from _support.internals import hidden_columns, is_box_wide, moment_blocks
from _support.planted import put
from skdpbo.exceptions import (
    HiddenColumnsWarning,
    SeededNoiseWarning,
    SkdpboWarning,
    WideBoundsWarning,
)
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.preprocessing import DPStandardScaler

N = 5000
Y = np.random.default_rng(1).uniform(-3, 3, N)
MODELS = {
    "ridge": lambda **bounds: DPRidge(y_bounds=(-3, 3), **bounds),
    "logistic": lambda **bounds: DPLogisticRegression(classes=[0, 1], **bounds),
    "scaler": DPStandardScaler,
}


def named(kind, X, high, y=Y, epsilon=10.0, category=HiddenColumnsWarning, **bounds):
    """Return the message of the warning, or None; one of another class is an error."""
    bounds = {"X_bounds": (-np.asarray(high), high), **bounds}
    model = MODELS[kind](epsilon=epsilon, random_state=0, **bounds)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SkdpboWarning)
        model.fit(X, (y > 0).astype(int) if kind == "logistic" else y)
    found = [str(w.message) for w in caught if w.category is not SeededNoiseWarning]
    assert {w.category for w in caught} <= {category, SeededNoiseWarning}
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


@pytest.mark.quick_cases(1)
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


def test_nothing_is_reported_where_most_columns_are_in_the_noise():
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


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", MODELS)
def test_a_box_that_is_far_too_wide_for_all_columns_is_announced(kind):
    X = np.random.default_rng(0).normal(size=(N, 5))
    warned = named(kind, X, 4000.0, epsilon=1.0, category=WideBoundsWarning)
    # Y is of no column.
    hidden = {"ridge": "predictions hardly depend on X"}
    hidden = hidden.get(kind, "far below those of rows that fill half of X_bounds")
    assert hidden in warned
    assert named(kind, X, 12.0, epsilon=1.0) is None
    # Where the noise prevails nothing is known.
    assert named(kind, X, 4000.0, epsilon=0.03) is None
    if kind == "ridge":  # few records spend more on the moments
        assert hidden in named(kind, X, 4000.0, epsilon=0.1, category=WideBoundsWarning)
    else:
        assert named(kind, X, 4000.0, epsilon=0.1) is None


def test_a_box_that_hides_a_thousand_records_is_announced_where_no_effect_shows(monkeypatch):
    X = np.random.default_rng(0).normal(size=(1000, 1))
    how = {"y": X[:, 0], "epsilon": 1.0, "category": WideBoundsWarning}
    assert "predictions hardly depend on X" in named("ridge", X, 4000.0, **how)
    assert named("ridge", X, 4.0, **how) is None
    assert named("ridge", X, 40.0, **how) is None  # hidden, too, but R2 is .9
    # Planted bug: any slope is an effect.
    put(monkeypatch, "ridge: _UNEXPLAINED", -1.0)
    assert named("ridge", X, 4000.0, **how) is None


def rows_that_reach_half(rng, d, others):
    """Return rows of which every second one reaches half of the box in d columns."""
    X = rng.choice([0.0, 0.5, 1.0], (40, d + others)) * rng.choice([-1.0, 1.0], (40, d + others))
    X[::2, :d] = rng.choice([-0.5, 0.5], (20, d))
    X[1::2, :d] *= rng.choice([0.0, 1.0])
    return X


def reported(X, d, radius, deviations, part=6.0):
    """Whether rows are reported to hide, with squares too low by some `deviations` of the noise.

    The noise is a `part` of the least squares of such rows; 6 is where a warning begins.
    """
    (both,) = moment_blocks([(slice(None), X)], radius)
    squares = np.split(both.mean(axis=0), 2)[1] / max(1.0, radius)
    least = d / 4 / max(d / 4 + X.shape[1] - d, radius**2) / 2
    assert squares[:d].sum() >= least - 1e-12
    sd = least / part / (1 + 1e-9)
    squares[0] += least - squares[:d].sum() - deviations * sd
    moments = np.concatenate([np.zeros_like(squares), squares])
    return is_box_wide(radius, moments, (0.0, sd / np.sqrt(d)), np.full(d, -1.0), np.ones(d))


def test_rows_that_reach_half_of_their_box_hide_by_chance_alone(monkeypatch):
    """Four standard deviations of the noise, or more: 3.2e-5."""
    rng = np.random.default_rng(0)
    cases = [
        (rows_that_reach_half(rng, d, others), d, radius)
        for d in (1, 3, 8)
        for others in (0, 1, 4)
        for radius in (0.1, 0.7, 2.0)
    ]
    for case in cases:
        assert [reported(*case, deviations) for deviations in (0.0, 3.99, 4.01)] == [0, 0, 1]
        assert not reported(*case, 4.01, part=5.9)
    # Planted bug: twice as much noise is taken for small enough.
    put(monkeypatch, "column moments: _FAR_ABOVE", 3.0)
    assert reported(*cases[0], 1.01, part=3.0)
