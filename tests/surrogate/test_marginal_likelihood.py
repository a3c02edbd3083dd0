"""Likelihood and gradient against scikit-learn and against finite differences."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from _support.internals import compile_covariance, negative_log_marginal_likelihood

KERNELS = [
    RBF(0.3),
    RBF([0.2, 0.9, 0.5]),
    RBF(0.3, "fixed"),
    Matern(0.4, nu=0.5),
    Matern([0.4, 0.2, 1.0], nu=1.5),
    Matern(0.7, nu=2.5),
    Matern([0.4, 0.2, 1.0], nu=2.5),
    Matern(0.7, nu=np.inf),
    Matern(0.7, nu=1.7),
    ConstantKernel(2.0) * RBF([0.2, 0.9, 0.5]),
    ConstantKernel(2.0, "fixed") * Matern([0.4, 0.2, 1.0], nu=2.5),
    ConstantKernel(2.0) * RBF(0.3, "fixed") + ConstantKernel(0.5) * Matern(0.4, nu=1.5),
    RBF(0.3) * Matern(0.4, nu=2.5) * ConstantKernel(3.0) + ConstantKernel(0.1),
    RationalQuadratic(0.5, 1.2) + DotProduct(0.4) * RBF(1.0),
    ExpSineSquared(0.5, 1.5) + WhiteKernel(0.1),
    RBF([0.2, 0.9, 0.5]) ** 2,
]


class OtherKernel(RBF):
    """A subclass with another covariance: must not be taken for an RBF."""

    def __call__(self, X, Y=None, eval_gradient=False):
        if eval_gradient:
            K, dK = super().__call__(X, eval_gradient=True)
            return K**2, 2 * K[..., None] * dK
        return super().__call__(X, Y) ** 2


@pytest.mark.parametrize("kernel", [*KERNELS, OtherKernel(0.4)], ids=str)
def test_compiled_kernel_is_the_kernel(kernel):
    rng = np.random.RandomState(0)
    X = rng.rand(25, 3)
    X[7] = X[3]
    W = rng.randn(25, 25)
    W = W + W.T
    term = compile_covariance(kernel, X)
    assert term.p == kernel.n_dims
    for shift in (0.0, 0.3):
        theta = kernel.theta + shift
        K, dK = kernel.clone_with_theta(theta)(X, eval_gradient=True)
        np.testing.assert_allclose(np.zeros((25, 25)) + term.value(theta), K, rtol=0, atol=1e-12)
        expected = np.einsum("ij,ijm->m", W, dK)
        np.testing.assert_allclose(term.contract(W), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_value_and_gradient(kernel):
    rng = np.random.RandomState(1)
    X, y, noise = rng.rand(20, 3), rng.randn(20), rng.uniform(0.01, 0.1, 20)
    theta = np.asarray(kernel.theta)
    objective = negative_log_marginal_likelihood(kernel, X, y, noise)
    value, gradient = objective(np.append(theta, np.log(0.05)))
    oracle = GaussianProcessRegressor(kernel, alpha=noise + 0.05, optimizer=None).fit(X, y)
    assert -value == pytest.approx(oracle.log_marginal_likelihood_value_, abs=1e-8)
    if len(theta):
        expected = oracle.log_marginal_likelihood(kernel.theta, eval_gradient=True)[1]
        np.testing.assert_allclose(-gradient[:-1], expected, rtol=1e-7, atol=1e-7)
    by_difference = approx_fprime(np.log([0.05]), lambda s: objective(np.append(theta, s))[0], 1e-6)
    assert gradient[-1] == pytest.approx(by_difference[0], rel=1e-3, abs=1e-4)


def test_the_kernel_is_not_modified():
    kernel = RBF(0.3)
    negative_log_marginal_likelihood(kernel, np.eye(3), np.ones(3), np.ones(3))(np.array([1.0]))
    assert kernel.length_scale == 0.3
