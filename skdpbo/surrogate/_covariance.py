"""Covariance matrices and contracted gradients as functions of theta, compiled from a kernel.

A scikit-learn kernel is slow to evaluate at many theta: setting theta inspects signatures, and
``eval_gradient=True`` builds a (T, T, p) array. `compile_covariance` walks the kernel once and
returns a term with

- ``p``: number of free parameters;
- ``value(theta)``: covariance, shape (T, T), or a number where it is the same everywhere;
- ``contract(W)``: sum_ij W_ij dk(x_i, x_j)/dtheta_m at the last theta, shape (p,), W symmetric.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, Product, Sum

from skdpbo.surrogate._linalg import FloatArray


def compile_covariance(kernel: Any, X: FloatArray) -> CovarianceTerm:
    """Compile a kernel on fixed points.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Constants, RBF, Matern 3/2 and 5/2, their sums and products are compiled; any other
        kernel is evaluated by scikit-learn. Not modified.
    X : ndarray of shape (T, n_features)
    """
    # By exact type: a subclass (Matern is one of RBF) may define another covariance.
    kind = type(kernel)
    if kind is ConstantKernel:
        free = not kernel.hyperparameter_constant_value.fixed
        return _Constant(float(kernel.constant_value), int(free))
    if kind is Sum or kind is Product:
        a, b = compile_covariance(kernel.k1, X), compile_covariance(kernel.k2, X)
        return _Pair(a, b, kind is Product, a.p + b.p)
    if kind is RBF or (kind is Matern and kernel.nu in (1.5, 2.5)):
        return _Stationary(kernel, X)
    return _Other(clone(kernel), X, kernel.n_dims)


@dataclass
class _Constant:
    constant: float
    p: int

    def value(self, theta: FloatArray) -> float:
        if self.p:
            self.constant = math.exp(theta[0])
        return self.constant

    def contract(self, W: FloatArray) -> FloatArray:
        # Empty where the constant is fixed.
        return np.array([self.constant * W.sum()][: self.p])  # dk / d log c = c


@dataclass
class _Pair:
    """Sum of two terms, or their product."""

    a: CovarianceTerm
    b: CovarianceTerm
    is_product: bool
    p: int

    def value(self, theta: FloatArray) -> Any:
        a, b = self.a.value(theta[: self.a.p]), self.b.value(theta[self.a.p :])
        self.values = a, b
        return a * b if self.is_product else a + b

    def contract(self, W: FloatArray) -> FloatArray:
        of_a = of_b = W
        if self.is_product:
            # Product rule, with the values that `value` has kept.
            of_a, of_b = W * self.values[1], W * self.values[0]
        return np.concatenate([self.a.contract(of_a), self.b.contract(of_b)])


class _Stationary:
    """k(r), r the distance scaled by length-scales l: dk/dlog(l_d) = g(r) (x_d - x'_d)^2 / l_d^2.

    An RBF kernel, or Matern 3/2 or 5/2.
    """

    def __init__(self, kernel: Any, X: FloatArray) -> None:
        parameter = kernel.hyperparameter_length_scale
        self.anisotropic = bool(kernel.anisotropic)
        self.p = 0 if parameter.fixed else parameter.n_elements
        self.length_scale = np.asarray(kernel.length_scale, dtype=np.float64)
        self.X = X - X.mean(axis=0)  # distances keep more digits near the origin
        # With one length-scale, distances are computed once for all theta.
        self.distances = None if self.anisotropic else cdist(self.X, self.X)
        self.nu = kernel.nu if type(kernel) is Matern else math.inf

    def value(self, theta: FloatArray) -> Any:
        if self.p:
            self.length_scale = np.exp(theta)
        if self.distances is not None:
            self.r = self.distances / self.length_scale
        else:
            self.A = self.X / self.length_scale
            self.r = cdist(self.A, self.A)
        # The slope is g(r) = -k'(r) / r, in which r cancels: no division by 0.
        if self.nu == math.inf:  # the squared exponential
            self.slope = np.exp(-0.5 * self.r * self.r)
            return self.slope
        s = math.sqrt(2 * self.nu) * self.r
        e = np.exp(-s)
        if self.nu == 1.5:
            self.slope = 3.0 * e
            return (1.0 + s) * e
        self.slope = 5.0 / 3.0 * (1.0 + s) * e
        return (1.0 + s + s * s / 3.0) * e

    def contract(self, W: FloatArray) -> FloatArray:
        if not self.p:
            return np.empty(0)
        M = W * self.slope
        if self.distances is not None:  # one l: the squares of all columns add up to r^2
            return np.array([np.vdot(M, self.r * self.r)])
        # sum_ij M_ij (a_i - a_j)^2 = 2 (sum_i a_i^2 sum_j M_ij - a' M a), each column a of A
        A = self.A
        return np.asarray(2.0 * (M.sum(axis=1) @ (A * A) - np.einsum("id,id->d", A, M @ A)))


@dataclass
class _Other:
    """Any kernel, by scikit-learn."""

    kernel: Any
    X: FloatArray
    p: int

    def value(self, theta: FloatArray) -> Any:
        if not self.p:
            return self.kernel(self.X)
        self.kernel.theta = theta
        K, self.dK = self.kernel(self.X, eval_gradient=True)
        return K

    def contract(self, W: FloatArray) -> FloatArray:
        if not self.p:
            return np.empty(0)
        return np.asarray(W.ravel() @ self.dK.reshape(W.size, self.p))


CovarianceTerm = _Constant | _Pair | _Stationary | _Other
