"""Attacks on DPSparseGPRegressor with public rows: what leaves a fit, and what a record moves.

Nothing here depends on chance: noise is seeded, and the same for both data sets.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LinearRegression

from _support.internals import (
    KernelFamily,
    PublicModel,
    ResidualRows,
    WhitenedMethod,
    second_moment_sensitivity,
    streamed_sums,
)
from skdpbo.gaussian_process import DPSparseGPRegressor

RNG = np.random.default_rng(0)
X_PUBLIC = RNG.uniform(-1, 1, (20, 2))
Y_PUBLIC = X_PUBLIC[:, 0] + 0.1 * RNG.normal(size=20)
X = RNG.uniform(-1, 1, (30, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=30)
OTHER = np.full_like(X, 0.7), np.full_like(Y, -50.0)


def fit(rows, kind=DPSparseGPRegressor, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = kind(random_state=0, base=LinearRegression(), **parameters)
        return gp.fit(*rows, X_public=X_PUBLIC, y_public=Y_PUBLIC)


def public_values(gp):
    bases = gp.base_.predict(X_PUBLIC), gp.residual_bound_, gp.inducing_points_
    return np.concatenate([np.ravel(part) for part in (*bases, gp.kernels_[0].theta)])


class BaseOfAllRows(DPSparseGPRegressor):
    """Fits the base to protected rows as well."""

    def _planned(self, mu, counted, X_public, y_public, found, X, y):
        rows = np.concatenate([X_public, X]), np.concatenate([y_public, y])
        return super()._planned(mu, counted, *rows, found, X, y)


class BoundOfProtectedResiduals(DPSparseGPRegressor):
    """Clips at the largest protected target."""

    def _fitted_public(self, X_public, y_public, y):
        public, box = super()._fitted_public(X_public, y_public, y)
        return replace(public, bound=np.abs(y).max(keepdims=True)), box


class GateOfExactResiduals(DPSparseGPRegressor):
    """Opens the gate by the exact mean of the residuals."""

    def _release(self, method, rows, X, targets, source):
        self.exact_ = float(np.tanh(np.abs(targets.mean())))
        return super()._release(method, rows, X, targets, source)

    def _publish_gate(self, public, probability):
        super()._publish_gate(public, vars(self).pop("exact_"))


def largest_change(kind, read, **parameters):
    first, second = (read(fit(rows, kind, **parameters)) for rows in ((X, Y), OTHER))
    return np.abs(first - second).max()


def test_base_and_bounds_do_not_depend_on_protected_rows():
    assert largest_change(DPSparseGPRegressor, public_values) == 0


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("mistake", [BaseOfAllRows, BoundOfProtectedResiduals])
def test_a_base_or_a_bound_of_protected_rows_is_caught(mistake):
    assert largest_change(mistake, public_values) > 0.01


def gate(gp):
    return logit(np.array([gp.signal_probability_]))


def test_with_all_noise_the_gate_does_not_depend_on_the_records():
    assert largest_change(DPSparseGPRegressor, gate, epsilon=1e-7) < 1e-2


@pytest.mark.slow
def test_a_gate_that_sees_exact_residuals_is_caught():
    assert largest_change(GateOfExactResiduals, gate, epsilon=1e-7) > 1


# What one record moves

POINTS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


class Wild:
    """Predictions of every size, each from its own row."""

    def predict(self, X):
        with np.errstate(all="ignore"):
            return np.where(X[:, 0] > 0.5, np.inf, 10 ** (10 * X[:, 1]) - 3)


class Batch:
    """Predictions from the mean of all rows."""

    def predict(self, X):
        return np.full(len(X), 3 * X.mean())


def largest_move(model):
    """Brute force: the largest move of the sums when one record is replaced, over its bound."""
    method = WhitenedMethod(
        KernelFamily.of([RBF(1.0)]), POINTS, mu=1.0, half_width=np.ones(1), n_records=9
    )
    public = PublicModel(model, np.zeros(1), np.ones(1))
    rows = ResidualRows(method.rows(np.zeros(1)), public)
    bound = second_moment_sensitivity(rows.radius**2)
    others = RNG.uniform(-1, 1, (8, 2)), RNG.normal(size=(8, 1))
    grams = []
    for x in (*POINTS, [-3.0, 1.0], [9.0, -9.0], [0.6, 0.6]):
        for y in (-1e9, -2.0, 0.0, 2.0, 1e9):
            X, Y = np.vstack([others[0], x]), np.vstack([others[1], [[y]]])
            grams.append(streamed_sums(rows, X, Y, rows.radius, chunk_size=100).astype(float))
    return max(np.linalg.norm(a - b) for a in grams for b in grams) / bound


def test_a_record_moves_the_sums_by_no_more_than_the_bound():
    assert 0.7 < largest_move(Wild()) <= 1


def test_a_base_that_looks_at_other_rows_is_caught():
    assert largest_move(Batch()) > 1
