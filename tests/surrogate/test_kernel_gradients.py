"""Input derivatives of scikit-learn's kernels, against scikit-learn and finite differences."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    WhiteKernel,
)

from _support.internals import differentiable, prior_gradient_covariance

D = 3
KERNELS = {
    "rbf": RBF(0.7),
    "rbf-ard": RBF([0.3, 0.9, 2.0]),
    "matern52": Matern(0.6, nu=2.5),
    "matern52-ard": Matern([0.4, 0.8, 1.5], nu=2.5),
    "matern-inf": Matern(0.5, nu=np.inf),
    "constant": ConstantKernel(2.0),
    "dot": DotProduct(0.8),
    "polynomial": DotProduct(1.0) ** 2,
    "cubic": DotProduct(0.5) ** 3,
    "power-1": RBF(0.7) ** 1,
    "power-1001": RBF(30.0) ** 1001,
    "scaled": ConstantKernel(2.5) * RBF(0.6),
    "sum": ConstantKernel(0.4) + 0.7 * RBF(0.3) + Matern(1.0, nu=2.5),
    "product": RBF(0.9) * Matern([0.7, 1.1, 0.5], nu=2.5) * (DotProduct(1.0) ** 2),
    "power of a sum": (RBF(0.8) + DotProduct(0.3)) ** 2,
}


@pytest.fixture
def points():
    rng = np.random.RandomState(0)
    return rng.rand(D), rng.rand(4, D), rng.rand(5, D)


def differences(f, x, step=1e-5):
    """Central differences of f at x; the last axis runs over the coordinates of x."""
    steps = step * np.eye(len(x))
    return np.stack([(f(x + e) - f(x - e)) / (2 * step) for e in steps], axis=-1)


@pytest.mark.parametrize("name", KERNELS)
def test_values_are_scikit_learns(points, name):
    x, X, Y = points
    kernel = KERNELS[name]
    term = differentiable(kernel)
    np.testing.assert_allclose(term.values(X, Y).value, kernel(X, Y), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(term.gradients(x, Y).value, kernel(x[None], Y)[0], rtol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_contracted_derivative_of_values(points, name):
    _, X, Y = points
    kernel = KERNELS[name]
    W = np.random.RandomState(1).randn(len(X), len(Y))
    expected = [
        W[:, j] @ differences(lambda y: kernel(X, y[None])[:, 0], Y[j]) for j in range(len(Y))
    ]
    actual = differentiable(kernel).values(X, Y).contract(W)
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_at_a_point(points, name):
    x, _, Y = points
    kernel = KERNELS[name]
    at_x = differentiable(kernel).gradients(x, Y)
    dx = differences(lambda x: kernel(x[None], Y)[0], x).T
    dy = np.array([differences(lambda y: kernel(x[None], y[None])[0, 0], y) for y in Y])
    np.testing.assert_allclose(at_x.dx, dx, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(at_x.dy, dy, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_contracted_mixed_derivative(points, name):
    x, _, Y = points
    term = differentiable(KERNELS[name])
    V = np.random.RandomState(2).randn(D, len(Y))
    expected = [
        V[:, j] @ differences(lambda y: term.gradients(x, y[None]).dx[:, 0], Y[j])
        for j in range(len(Y))
    ]
    np.testing.assert_allclose(term.gradients(x, Y).contract(V), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_where_points_coincide(name):
    # Half of the second differences of var(f(x + h) - f(x)) is the covariance of the gradient.
    kernel, x = KERNELS[name], np.array([0.2, 0.5, 0.9])
    covariance = prior_gradient_covariance(differentiable(kernel), x)
    np.testing.assert_allclose(covariance, covariance.T, rtol=0, atol=1e-12)
    h = 1e-3 * np.random.RandomState(3).randn(D)
    K = kernel(np.stack([x + h, x - h]))
    expected = (K[0, 0] + K[1, 1] - 2 * K[0, 1]) / 4
    assert h @ covariance @ h == pytest.approx(expected, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (2.0 * RBF(0.5), 8.0 * np.eye(2)),  # variance / l^2
        (3.0 * Matern(0.5, nu=2.5), 20.0 * np.eye(2)),  # 5 variance / (3 l^2)
        (RBF([0.5, 2.0]), np.diag([4.0, 0.25])),
        (DotProduct(1.0) ** 2, 2 * (1 + 5) * np.eye(2) + 2 * np.outer([1, 2], [1, 2])),
    ],
)
def test_prior_covariance_in_closed_form(kernel, expected):
    actual = prior_gradient_covariance(differentiable(kernel), np.array([1.0, 2.0]))
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


class Halved(RBF):
    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X, Y, eval_gradient) / 2


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (Matern(nu=1.5), "nu=1.5"),
        (1.0 * Matern(nu=0.5) + RBF(), "nu=0.5"),
        (ExpSineSquared(), "ExpSineSquared"),
        (RBF() + WhiteKernel(), "noise_variance"),
        (Halved(), "Halved"),
        (RBF() ** 0.5, "exponent 0.5"),
        (DotProduct() ** 0, "exponent 0"),
        ("rbf", "must be a scikit-learn kernel"),
    ],
)
def test_other_kernels_are_refused(kernel, words):
    with pytest.raises(TypeError, match=words):
        differentiable(kernel)
