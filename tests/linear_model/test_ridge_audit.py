"""Audit of the releases of a private linear regression, and planted bugs that it must find."""

from importlib import import_module

import numpy as np
import pytest

from _support.internals import (
    BoxedRows,
    ColumnScales,
    JoinedRows,
    StandardisedRecords,
    WhitenedRelease,
    second_moment_sensitivity,
)
from _support.transcripts import spent
from skdpbo.linear_model import DPRidge
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.privacy import mu_from_epsilon

RIDGE = import_module("skdpbo.linear_model._ridge")
RECORDS = import_module("skdpbo.linear_model._record_rows")
GRAM = import_module("skdpbo._gram_release")
BUDGET = mu_from_epsilon(1.0, 1e-5) ** 2


def fit(X, y):
    DPRidge(X_bounds=(-1, 1), y_bounds=(-1, 1), random_state=0).fit(X, y)


def neighbours():
    """Two small records for a large one: each release moves by a good part of its sensitivity."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.2, 0.2, (2000, 3))
    y = 0.2 * X[:, 0] + rng.uniform(-0.02, 0.02, 2000)
    other, other_y = X.copy(), y.copy()
    X[0], y[0] = [1.0, 1.0, 1.0], 1.0
    other[0], other_y[0] = [-1.0, 1.0, -1.0], 1.0
    return (X, y), (other, other_y)


def halved(sensitivity, **others):
    return {"sensitivity": sensitivity / 2, **others}


def audit(monkeypatch):
    total = spent(monkeypatch, fit, *neighbours())
    assert BUDGET / 3 < total <= BUDGET


def test_all_releases_together_spend_the_budget(monkeypatch):
    audit(monkeypatch)


@pytest.mark.parametrize("intercept", [True, False])
def test_budget_holds_in_a_box_that_starts_at_zero(monkeypatch, intercept):
    def fit_from_zero(X, y):
        bounds = {"X_bounds": (0, 2), "y_bounds": (0, 2)}
        DPRidge(**bounds, fit_intercept=intercept, random_state=0).fit(X + 1, y + 1)

    assert BUDGET / 8 < spent(monkeypatch, fit_from_zero, *neighbours()) <= BUDGET


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [
        (RIDGE, "split_budget", lambda mu, share: (2 * mu, mu)),
        (GRAM, "GaussianMechanism", lambda **k: GaussianMechanism(**halved(**k))),
        (RECORDS, "rows_on_lattice", lambda rows, step, radius: np.trunc(2 * rows / step)),
    ],
    ids=["moments take twice the budget", "half the noise", "rows are not shortened"],
)
def test_planted_bug_is_found(monkeypatch, module, name, wrong):
    monkeypatch.setattr(module, name, wrong)
    with pytest.raises(AssertionError):
        audit(monkeypatch)


def records(X, Y, t_mean=0.0):
    d, q = X.shape[1], Y.shape[1]
    box = [BoxedRows(a, np.full(a.shape[1], -1.0), np.full(a.shape[1], 1.0)) for a in (X, Y)]
    z = ColumnScales(1.0, np.full(d, 0.1), np.full(d, 2.0), 1.3, 0.4, float(d))
    t = ColumnScales(1.0, np.full(q, t_mean), np.full(q, 3.0), 1.0, 0.0, float(q))
    return StandardisedRecords(JoinedRows(*box), z, t)


def worst_change():
    """Largest Frobenius change over replaced records, in units of the sensitivity."""
    rng = np.random.default_rng(1)
    release = WhitenedRelease(0.2, (0.7, 0.7), 1)
    limit = second_moment_sensitivity(release.radius**2)
    largest = 0.0
    grams = []
    for _ in range(60):
        X = rng.choice([-1.0, 0.0, 1.0, 50.0], (1, 3)) * 10.0 ** rng.integers(-2, 3)
        Y = rng.choice([-1.0, 1.0, 0.3], (1, 2)) * 10.0 ** rng.integers(-1, 6)
        grams.append(records(X, Y).exact_gram(release, 0.7).astype(float))
    for i, one in enumerate(grams):
        for other in grams[:i]:
            largest = max(largest, float(np.linalg.norm(one - other)) / limit)
    return largest


def test_second_moments_of_any_two_records_differ_by_the_sensitivity_at_most():
    assert 0.9 < worst_change() <= 1.0


def test_targets_that_are_not_cut_are_shortened_with_their_row(monkeypatch):
    """The bound is that of the integers, whatever the floats before them were."""
    monkeypatch.setattr(RECORDS.np, "clip", lambda values, low, high: values)
    assert worst_change() <= 1.0


def test_a_long_row_shortens_its_target():
    X, Y = np.array([[1.0, 1.0, 1.0], [0.01, 0.0, 0.0]]), np.array([[0.5], [0.5]])
    ((_, z, t),) = records(X, Y).blocks()
    assert np.linalg.norm(z[0]) == pytest.approx(1.0)
    raw = ColumnScales(1.0, np.full(3, 0.1), np.full(3, 2.0), 1.3, 0.4, 3.0).columns(X)
    assert t[0, 0] == pytest.approx(1.5 / np.linalg.norm(raw[0]))
    assert t[1, 0] == pytest.approx(1.5)


def test_a_target_beyond_the_half_width_counts_as_one_at_it():
    release, X = WhitenedRelease(0.2, (0.75,), 1), np.full((1, 3), 0.1)
    at_it, beyond = (records(X, np.array([[y]])).exact_gram(release, 0.75) for y in (0.25, 0.9))
    np.testing.assert_array_equal(beyond, at_it)


@pytest.mark.parametrize("mean", [-0.2, 0.0, 0.2])
def test_the_largest_target_is_that_of_the_farther_end_of_the_box(mean):
    short = np.full((2, 3), 0.1)
    table = records(short, np.array([[-1.0], [1.0]]), mean)
    ((_, _, t),) = table.blocks()
    assert table.largest_target == pytest.approx(np.abs(t).max())
