"""Derivatives of scikit-learn's covariance functions with respect to their inputs.

scikit-learn differentiates a kernel with respect to its parameters only. A Gaussian process on
gradients also needs, for points x, y in R^d,

- dk(x, y)/dx and dk(x, y)/dy: covariances of a gradient and a value;
- d2k(x, y)/dx dy: the covariance of two gradients;

and the design of new points needs the last two contracted with weights. `differentiable` walks a
kernel once and returns a term with these derivatives. Only kernels with a continuous mixed
derivative are accepted: constants, RBF, Matern with nu = 2.5 or infinity, DotProduct, their sums,
products and whole powers. Kernel parameters are read once and are not modified.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Kernel,
    Matern,
    Product,
    Sum,
    WhiteKernel,
)

from skdpbo.surrogate._linalg import FloatArray

Contraction = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class ValueCovariance:
    """Covariance of f(X) and f(Y).

    Attributes
    ----------
    value : ndarray of shape (n, m)
        k(x_i, y_j).
    contract : callable
        W of shape (n, m) -> sum_i W_ij dk(x_i, y_j)/dy_j, shape (m, d).
    """

    value: FloatArray
    contract: Contraction


@dataclass(frozen=True)
class GradientCovariance:
    """Covariance of grad f(x) and f(Y), at one point x.

    Attributes
    ----------
    value : ndarray of shape (m,)
        k(x, y_j).
    dx : ndarray of shape (d, m)
        dk(x, y_j)/dx.
    dy : ndarray of shape (m, d)
        dk(x, y_j)/dy_j.
    contract : callable
        V of shape (d, m) -> sum_c V_cj d2k(x, y_j)/dx_c dy_j, shape (m, d).
    """

    value: FloatArray
    dx: FloatArray
    dy: FloatArray
    contract: Contraction


def differentiable(kernel: Any) -> DifferentiableKernel:
    """Return a kernel's derivatives with respect to its inputs.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Constants, RBF, Matern with nu = 2.5 or infinity, DotProduct, and their sums, products and
        powers with a whole, positive exponent. Length-scales may differ between features.

    Raises
    ------
    TypeError
        If some part of the kernel is of another type, or its sample paths are too rough.
    """
    # By exact type: a subclass (Matern is one of RBF) may define another covariance.
    kind = type(kernel)
    if kind is ConstantKernel:
        return _Constant(float(kernel.constant_value))
    if kind is DotProduct:
        return _DotProduct(float(kernel.sigma_0) ** 2)
    if kind is RBF or (kind is Matern and math.isinf(kernel.nu)):
        return _Stationary(np.asarray(kernel.length_scale, dtype=np.float64), rbf_profile)
    if kind is Matern and kernel.nu == 2.5:
        return _Stationary(np.asarray(kernel.length_scale, dtype=np.float64), matern52_profile)
    if kind is Sum or kind is Product:
        a, b = differentiable(kernel.k1), differentiable(kernel.k2)
        # The constant part of (c + a)(d + b) is c d.
        return _Sum(a, b, a.level + b.level) if kind is Sum else _Product(a, b, a.level * b.level)
    if kind is Exponentiation and kernel.exponent == int(kernel.exponent) >= 1:
        if kernel.exponent == 1:
            return differentiable(kernel.kernel)
        root = differentiable(kernel.kernel ** (kernel.exponent // 2))
        power = _Product(root, root, root.level**2)
        if kernel.exponent % 2 == 0:
            return power
        base = differentiable(kernel.kernel)
        return _Product(power, base, power.level * base.level)
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a scikit-learn kernel, got {kind.__name__}.")
    why = "its input derivatives are not known here"
    if kind is Matern:
        why = f"with nu={kernel.nu:g} it is not one of the smooth cases"
    elif kind is WhiteKernel:
        why = "noise is not differentiable, give it as noise_variance"
    elif kind is Exponentiation:
        why = f"the exponent {kernel.exponent:g} is not a whole, positive number"
    raise TypeError(
        f"no gradients of a Gaussian process with kernel {kind.__name__}: {why}. "
        "Use RBF, Matern(nu=2.5) or DotProduct, their sums, products or whole powers."
    )


def prior_gradient_covariance(kernel: DifferentiableKernel, x: FloatArray) -> FloatArray:
    """Prior covariance of grad f(x), shape (d, d): d2k(x, y)/dx dy at y = x."""
    d = len(x)
    # V = I picks row j of d2k at the j-th of d copies of x.
    return kernel.gradients(x, np.tile(x, (d, 1))).contract(np.eye(d))


def varying_variance(kernel: DifferentiableKernel, x: FloatArray) -> float:
    """Prior variance of f(x) without the constant part: the unit of small noise variances."""
    variance = float(kernel.gradients(x, x[None]).value[0])
    # A kernel that is constant would have the unit 0, and so no jitter.
    return variance - kernel.level if variance > kernel.level else variance


@dataclass(frozen=True)
class _Constant:
    level: float  # value of the kernel

    def values(self, X: FloatArray, Y: FloatArray) -> ValueCovariance:
        value = np.full((len(X), len(Y)), self.level)
        return ValueCovariance(value, lambda W: np.zeros(Y.shape))

    def gradients(self, x: FloatArray, Y: FloatArray) -> GradientCovariance:
        value = np.full(len(Y), self.level)
        return GradientCovariance(
            value, np.zeros(Y.T.shape), np.zeros(Y.shape), lambda V: np.zeros(Y.shape)
        )


@dataclass(frozen=True)
class _DotProduct:
    """k(x, y) = sigma_0^2 + x'y."""

    offset: float

    level = 0.0

    def values(self, X: FloatArray, Y: FloatArray) -> ValueCovariance:
        return ValueCovariance(self.offset + X @ Y.T, lambda W: W.T @ X)

    def gradients(self, x: FloatArray, Y: FloatArray) -> GradientCovariance:
        dy = np.tile(x, (len(Y), 1))
        return GradientCovariance(self.offset + Y @ x, Y.T, dy, lambda V: V.T)


#: q = r^2 -> k, g and h, where dk/dx = -g u and d2k/dx dy = g I - h u u', with u = x - y and
#: r = |u|, all in units of the length-scales.
Profile = Callable[[FloatArray], tuple[FloatArray, FloatArray, FloatArray]]


def rbf_profile(q: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Squared exponential; q of any shape."""
    k = np.exp(-0.5 * q)
    return k, k, k


def matern52_profile(q: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Matern 5/2; q of any shape."""
    s = np.sqrt(5.0 * q)
    e = np.exp(-s)
    # g = -k'(r) / r and h = -g'(r) / r, in which r cancels: no division by 0.
    return (1.0 + s + q * (5.0 / 3.0)) * e, (5.0 / 3.0) * (1.0 + s) * e, (25.0 / 3.0) * e


@dataclass(frozen=True)
class _Stationary:
    """k(r), r the distance scaled by length-scales l."""

    length_scale: FloatArray
    profile: Profile

    level = 0.0

    def values(self, X: FloatArray, Y: FloatArray) -> ValueCovariance:
        # Centred among the points, so that differences of nearby points keep their digits.
        centre = Y.mean(axis=0)
        A, B = (X - centre) / self.length_scale, (Y - centre) / self.length_scale
        q = A @ (-2.0 * B.T)  # |a - b|^2 by one matrix product
        q += np.einsum("id,id->i", A, A)[:, None]
        q += np.einsum("jd,jd->j", B, B)
        np.maximum(q, 0.0, out=q)  # rounding may have made it negative
        k, g, _ = self.profile(q)

        def contract(W: FloatArray) -> FloatArray:
            # dk / dy = g u, in units of the length-scales: sum_i W_ij g_ij (a_i - b_j).
            M = W * g
            return np.asarray((M.T @ A - M.sum(axis=0)[:, None] * B) / self.length_scale)

        return ValueCovariance(k, contract)

    def gradients(self, x: FloatArray, Y: FloatArray) -> GradientCovariance:
        # Differences, not the product form of `values`: cheap for one point, and exact near x.
        U = (x - Y) / self.length_scale
        k, g, h = self.profile(np.einsum("jd,jd->j", U, U))
        dy = g[:, None] * U / self.length_scale

        def contract(V: FloatArray) -> FloatArray:
            # V'(g I - h u u'), each side divided by the length-scales.
            S = V.T / self.length_scale
            along = h * np.einsum("jd,jd->j", S, U)
            return np.asarray((g[:, None] * S - along[:, None] * U) / self.length_scale)

        return GradientCovariance(k, -dy.T, dy, contract)


@dataclass(frozen=True)
class _Sum:
    a: DifferentiableKernel
    b: DifferentiableKernel
    level: float

    def values(self, X: FloatArray, Y: FloatArray) -> ValueCovariance:
        a, b = self.a.values(X, Y), self.b.values(X, Y)
        return ValueCovariance(a.value + b.value, lambda W: a.contract(W) + b.contract(W))

    def gradients(self, x: FloatArray, Y: FloatArray) -> GradientCovariance:
        a, b = self.a.gradients(x, Y), self.b.gradients(x, Y)
        return GradientCovariance(
            a.value + b.value, a.dx + b.dx, a.dy + b.dy, lambda V: a.contract(V) + b.contract(V)
        )


@dataclass(frozen=True)
class _Product:
    """Product rule: (ab)' = a'b + ab', and the mixed derivative has four terms."""

    a: DifferentiableKernel
    b: DifferentiableKernel
    level: float

    def values(self, X: FloatArray, Y: FloatArray) -> ValueCovariance:
        a = self.a.values(X, Y)
        if self.b is self.a:  # evaluated once: nested squares would take 2^n evaluations
            return ValueCovariance(a.value**2, lambda W: a.contract(2 * W * a.value))
        b = self.b.values(X, Y)
        return ValueCovariance(
            a.value * b.value, lambda W: a.contract(W * b.value) + b.contract(W * a.value)
        )

    def gradients(self, x: FloatArray, Y: FloatArray) -> GradientCovariance:
        a = self.a.gradients(x, Y)
        if self.b is self.a:
            return GradientCovariance(
                a.value**2,
                2 * a.dx * a.value,
                2 * a.dy * a.value[:, None],
                lambda V: 2 * (a.contract(V * a.value) + _along(V, a.dx) * a.dy),
            )
        b = self.b.gradients(x, Y)
        return GradientCovariance(
            a.value * b.value,
            a.dx * b.value + b.dx * a.value,
            a.dy * b.value[:, None] + b.dy * a.value[:, None],
            lambda V: (
                a.contract(V * b.value)
                + b.contract(V * a.value)
                + (_along(V, a.dx) * b.dy + _along(V, b.dx) * a.dy)
            ),
        )


#: Covariance function with derivatives: ``values(X, Y)``, the covariance of f(X) and f(Y),
#: ``gradients(x, Y)``, that of grad f(x) and f(Y), and `level`, the constant part of the variance
#: (of a constant in a sum).
DifferentiableKernel = _Constant | _DotProduct | _Stationary | _Sum | _Product


def _along(V: FloatArray, dx: FloatArray) -> FloatArray:
    """Sums over c of V_cj dx_cj, shape (m, 1)."""
    return np.asarray(np.einsum("cj,cj->j", V, dx)[:, None])
