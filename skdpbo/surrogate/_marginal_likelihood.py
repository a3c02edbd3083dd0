"""Log marginal likelihood of a Gaussian process and its gradient, fast for the usual kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, Product, Sum

from skdpbo.surrogate._linalg import (
    RELATIVE_NOISE_FLOOR,
    FloatArray,
    cholesky_inverse,
    cholesky_solve,
    jittered_cholesky,
)

Objective = Callable[[FloatArray], tuple[float, FloatArray]]


def negative_log_marginal_likelihood(
    kernel: Any, X: FloatArray, y: FloatArray, known_noise: FloatArray
) -> Objective:
    """Return the function x -> (-log p(y), its gradient).

    Rasmussen & Williams (2006), Eq. 5.8 and 5.9. x is ``kernel.theta``, of length p, followed
    or not by the logarithm of a noise variance that is added to `known_noise`.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Not modified.
    X : ndarray of shape (T, n_features)
    y : ndarray of shape (T,)
        Of variance about 1: the noise is never below 1e-10.
    known_noise : ndarray of shape (T,)
        Noise variances, in squared units of y.
    """
    kernel = clone(kernel)  # a private copy, whose theta is set at each call
    T, p = len(y), kernel.n_dims
    diagonal = np.arange(T)

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        kernel.theta = x[:p]
        noise = math.exp(x[p]) if len(x) > p else 0.0
        K = kernel(X)
        K[diagonal, diagonal] += np.maximum(known_noise + noise, RELATIVE_NOISE_FLOOR)
        L, _ = jittered_cholesky(K)
        alpha = cholesky_solve(L, y)  # (K + N)^{-1} y
        value = 0.5 * float(y @ alpha) + float(np.log(np.diagonal(L)).sum())
        inverse = cholesky_inverse(L)  # lower triangle
        W = np.outer(alpha, alpha) - inverse - np.tril(inverse, -1).T
        gradient = np.empty(len(x))
        gradient[:p] = -0.5 * contract_gradient(kernel, X, W)
        if len(x) > p:
            gradient[p] = -0.5 * noise * float(np.trace(W))
        return value + 0.5 * T * math.log(2.0 * math.pi), gradient

    return objective


def contract_gradient(kernel: Any, X: FloatArray, W: FloatArray) -> FloatArray:
    r"""Return :math:`\sum_{ij} W_{ij} \, \partial k(x_i, x_j) / \partial \theta_m` for each m.

    ``kernel(X, eval_gradient=True)`` builds a (T, T, p) array only for it to be summed. For
    constants, RBF, Matern 3/2 and 5/2, their sums and products, the sum is a few matrix
    products; any other kernel goes through scikit-learn's gradient.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : ndarray of shape (T, n_features)
    W : ndarray of shape (T, T)
        Symmetric weights.

    Returns
    -------
    ndarray of shape (p,)
        In the order of ``kernel.theta``.
    """
    # By exact type: a subclass (Matern is one of RBF) may define another covariance.
    return _CONTRACTIONS.get(type(kernel), _contract_any)(kernel, X, W)


def _contract_any(kernel: Any, X: FloatArray, W: FloatArray) -> FloatArray:
    dK = kernel(X, eval_gradient=True)[1]
    return np.asarray(W.ravel() @ dK.reshape(W.size, dK.shape[2]))


def _contract_constant(kernel: Any, X: FloatArray, W: FloatArray) -> FloatArray:
    if kernel.hyperparameter_constant_value.fixed:
        return np.empty(0)
    return np.array([kernel.constant_value * W.sum()])


def _contract_sum(kernel: Any, X: FloatArray, W: FloatArray) -> FloatArray:
    parts = [contract_gradient(kernel.k1, X, W), contract_gradient(kernel.k2, X, W)]
    return np.concatenate(parts)


def _contract_product(kernel: Any, X: FloatArray, W: FloatArray) -> FloatArray:
    parts = [
        contract_gradient(kernel.k1, X, W * _factor(kernel.k2, X)),
        contract_gradient(kernel.k2, X, W * _factor(kernel.k1, X)),
    ]
    return np.concatenate(parts)


def _factor(kernel: Any, X: FloatArray) -> Any:
    """Covariance as a factor of the weights: a number where it is constant."""
    return kernel.constant_value if type(kernel) is ConstantKernel else kernel(X)


def _contract_stationary(kernel: Any, X: FloatArray, W: FloatArray) -> FloatArray:
    """RBF and Matern: dk/dlog(l_d) = g(r) (x_d - x'_d)^2 / l_d^2, r the scaled distance."""
    if kernel.hyperparameter_length_scale.fixed:
        return np.empty(0)
    slope = _slope(kernel)
    if slope is None:
        return _contract_any(kernel, X, W)
    A = (X - X.mean(axis=0)) / kernel.length_scale
    M = W * slope(cdist(A, A))
    # sum_ij M_ij (a_i - a_j)^2 = 2 (sum_i a_i^2 sum_j M_ij - a' M a), each column of A
    per_feature = 2.0 * (M.sum(axis=1) @ A**2 - np.einsum("id,id->d", A, M @ A))
    return np.asarray(per_feature if kernel.anisotropic else per_feature.sum(keepdims=True))


def _slope(kernel: Any) -> Callable[[FloatArray], Any] | None:
    """Return g of `_contract_stationary`, None where it has no bounded closed form here."""
    if type(kernel) is RBF:
        return lambda r: np.exp(-0.5 * r * r)
    if kernel.nu == 1.5:
        return lambda r: 3.0 * np.exp(-math.sqrt(3.0) * r)
    if kernel.nu == 2.5:
        root = math.sqrt(5.0)
        return lambda r: 5.0 / 3.0 * (1.0 + root * r) * np.exp(-root * r)
    return None


_CONTRACTIONS: dict[type, Callable[[Any, FloatArray, FloatArray], FloatArray]] = {
    ConstantKernel: _contract_constant,
    Sum: _contract_sum,
    Product: _contract_product,
    RBF: _contract_stationary,
    Matern: _contract_stationary,
}
