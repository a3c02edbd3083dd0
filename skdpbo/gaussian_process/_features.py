r"""Whitened features of a chunk of rows, on the lattice: where the time of a fit is spent.

:math:`\phi(x) = L^{-1} k_Z(x) / \sigma_f`, :math:`LL' = K_{ZZ} + j\sigma_f^2 I`, has norm at most 1
for every x, every Z and every positive semi-definite kernel with :math:`k(x, x) \le \sigma_f^2`,
because the conditional variance :math:`k(x,x) - k_Z' K_{ZZ}^{-1} k_Z` is not negative.
"""

import math

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Kernel,
    Matern,
    Product,
    WhiteKernel,
)

from skdpbo.gaussian_process._statistics import shorten_rows

__all__ = ["LatticeRows", "WhitenedFeatures", "check_kernel", "largest_difference"]

JITTER = 1e-6  # j, relative to the prior variance


def check_kernel(kernel, n_features):
    """Return a kernel, or the default for None; it must be stationary, hence bounded.

    The default is RBF with length-scale sqrt(n_features), which grows like the distances.

    Raises
    ------
    TypeError
        When it is no scikit-learn kernel.
    ValueError
        When it is not stationary, does not work on vectors, or contains white noise.
    """
    if kernel is None:
        return RBF(math.sqrt(n_features))
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a scikit-learn kernel, got {type(kernel).__name__}.")
    if not kernel.is_stationary() or not kernel.requires_vector_input:
        raise ValueError(
            "kernel must be a stationary kernel on vectors, such as RBF or Matern: one record's "
            "influence is bounded by the constant prior variance."
        )
    if any(isinstance(part, WhiteKernel) for part in kernel.get_params().values()):
        raise ValueError(
            "kernel must not contain a WhiteKernel: the noise of the observations is the parameter "
            "noise_variance."
        )
    return kernel


class WhitenedFeatures:
    """The map x -> phi(x) for a kernel and inducing points; public, picklable.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Stationary.
    Z : ndarray of shape (d, n_features)

    Attributes
    ----------
    signal_variance : float
        sigma_f^2, the kernel at distance zero.
    whitener : ndarray of shape (d, d)
        Upper triangular; phi(x)' = k_Z(x)' whitener.
    """

    def __init__(self, kernel, Z):
        self.kernel, self.Z = kernel, Z
        K = np.asarray(kernel(Z), dtype=np.float64)
        if K.shape != (len(Z), len(Z)) or not np.isfinite(K).all():
            raise ValueError("kernel must give a finite matrix of shape (n_inducing, n_inducing).")
        self.signal_variance = float(kernel.diag(Z[:1])[0])
        if not self.signal_variance > 0:
            raise ValueError("kernel must have a positive variance.")
        L = cholesky(K + JITTER * self.signal_variance * np.eye(len(Z)), lower=True)
        inverse = solve_triangular(L, np.eye(len(Z)), lower=True)
        self.whitener = np.ascontiguousarray(inverse.T) / np.sqrt(self.signal_variance)

    def __call__(self, X):
        """Phi of rows, double precision, shape (n, d)."""
        return np.asarray(self.kernel(X, self.Z), dtype=np.float64) @ self.whitener


class LatticeRows:
    r"""Rows :math:`w = (\phi(x), \beta_1 y_1, \dots)` as lattice integers of norm at most `radius`.

    A call is one worker's pass over one chunk. Kernel values and whitening are computed in single
    or double precision; the norm bound is checked on the integers in either case.

    Parameters
    ----------
    features : WhitenedFeatures
    centre : ndarray of shape (q,)
        Public, subtracted from the targets.
    half_width : ndarray of shape (q,)
        R_y: targets are clipped to this distance from the centre.
    beta : ndarray of shape (q,)
    step : float
        Lattice step of w.
    radius : int
        Largest norm of a row in steps, at most 2^20.
    dtype : type
        numpy.float32 or numpy.float64.
    """

    def __init__(self, features, *, centre, half_width, beta, step, radius, dtype):
        self.centre, self.half_width = centre, half_width
        self.target_scale = beta / step
        self.radius, self.n_targets = radius, len(beta)
        self.width = len(features.Z) + self.n_targets
        self.dtype = np.dtype(dtype)
        self.kernel, scale = _kernel_chunks(features, self.dtype)
        self.whitener = (features.whitener * (scale / step)).astype(self.dtype)

    def workspace(self, n_rows):
        """Buffers for chunks of at most `n_rows` rows; one for each worker."""
        d = self.width - self.n_targets
        return {
            "kernel": self.kernel.workspace(n_rows),
            "phi": np.empty((n_rows, d), self.dtype),
            "rows": np.empty((n_rows, self.width)),
            "targets": np.empty((n_rows, self.n_targets)),
        }

    def __call__(self, X, Y, workspace):
        """Rows of a chunk, shape (n, width): float64 that hold integers, in a shared buffer."""
        n, d = len(X), self.width - self.n_targets
        rows, phi, T = (workspace[name][:n] for name in ("rows", "phi", "targets"))
        with np.errstate(all="ignore"):  # a warning would depend on the values
            np.matmul(self.kernel(X, workspace["kernel"]), self.whitener, out=phi)
            rows[:, :d] = np.rint(phi, out=phi)
            np.subtract(Y, self.centre, out=T)
            np.clip(T, -self.half_width, self.half_width, out=T)
            np.multiply(T, self.target_scale, out=T)
            np.rint(T, out=rows[:, d:])
            return shorten_rows(rows, self.radius)


def largest_difference(rows, others, Z):
    """Largest distance of two versions of the rows of Z and of points between them, in steps."""
    points = np.concatenate([Z, (Z + np.roll(Z, 1, axis=0)) / 2])
    Y = np.zeros((len(points), rows.n_targets))
    Q, R = (version(points, Y, version.workspace(len(points))) for version in (rows, others))
    return float(np.linalg.norm(Q - R, axis=1).max())


def _kernel_chunks(features, dtype):
    """Return the fastest way to k_Z(X) / scale, and the scale."""
    kernel, scale = features.kernel, 1.0
    while type(kernel) is Product:
        if type(kernel.k1) is ConstantKernel:
            kernel, scale = kernel.k2, scale * kernel.k1.constant_value
        elif type(kernel.k2) is ConstantKernel:
            kernel, scale = kernel.k1, scale * kernel.k2.constant_value
        else:
            break
    profile = _profile(kernel)
    if profile is not None:
        return _DistanceChunks(features.Z, kernel.length_scale, profile, dtype), scale
    return _AnyKernelChunks(features.kernel, features.Z, dtype), 1.0


class _AnyKernelChunks:
    """k_Z(X) by scikit-learn."""

    def __init__(self, kernel, Z, dtype):
        self.kernel, self.Z, self.dtype = kernel, Z, dtype

    def workspace(self, n_rows):
        return None

    def __call__(self, X, workspace):
        return self.kernel(np.asarray(X, dtype=np.float64), self.Z).astype(self.dtype, copy=False)


def _profile(kernel):
    """Kernel as a function of -r^2 / 2, in place, r the scaled distance; None for most kernels."""
    if type(kernel) is RBF:  # exactly: Matern is a sub-class
        return _exponential
    return _MATERN.get(kernel.nu) if type(kernel) is Matern else None


def _exponential(exponent):
    return np.exp(exponent, out=exponent)


def _scaled_distance(exponent, factor):
    """sqrt(factor) r, in place."""
    exponent *= -2.0 * factor
    np.maximum(exponent, 0.0, out=exponent)  # rounding may have made it negative
    return np.sqrt(exponent, out=exponent)


def _matern12(exponent):
    r = _scaled_distance(exponent, 1.0)
    return np.exp(np.negative(r, out=r), out=r)


def _matern32(exponent):
    r = _scaled_distance(exponent, 3.0)
    factor = 1.0 + r
    return np.multiply(np.exp(np.negative(r, out=r), out=r), factor, out=r)


def _matern52(exponent):
    r = _scaled_distance(exponent, 5.0)
    factor = r / 3.0 + 1.0
    factor *= r
    factor += 1.0
    return np.multiply(np.exp(np.negative(r, out=r), out=r), factor, out=r)


_MATERN = {0.5: _matern12, 1.5: _matern32, 2.5: _matern52}


class _DistanceChunks:
    """A function of the scaled distance; distances by one matrix product in double precision.

    (x, 1, -||x||^2/2) (z, -||z||^2/2, 1)' = -||x - z||^2/2, x and z scaled and centred.
    """

    def __init__(self, Z, length_scale, profile, dtype):
        self.profile = profile
        self.inverse_scale = 1.0 / np.asarray(length_scale, dtype=np.float64)
        self.shift = Z.mean(axis=0) * self.inverse_scale
        scaled = Z * self.inverse_scale - self.shift
        squares = np.einsum("ij,ij->i", scaled, scaled)
        self.Z = np.vstack([scaled.T, -squares / 2, np.ones(len(Z))])
        self.dtype = dtype

    def workspace(self, n_rows):
        d = self.Z.shape[1]
        buffers = {"X": np.ones((n_rows, len(self.Z))), "exponent": np.empty((n_rows, d))}
        if self.dtype == np.float32:
            buffers["kernel"] = np.empty((n_rows, d), np.float32)
        return buffers

    def __call__(self, X, workspace):
        n, d = X.shape
        augmented, exponent = workspace["X"][:n], workspace["exponent"][:n]
        scaled = augmented[:, :d]
        np.multiply(X, self.inverse_scale, out=scaled)
        scaled -= self.shift
        np.einsum("ij,ij->i", scaled, scaled, out=augmented[:, d + 1])
        augmented[:, d + 1] *= -0.5
        np.matmul(augmented, self.Z, out=exponent)
        if self.dtype == np.float64:
            return self.profile(exponent)
        kernel = workspace["kernel"][:n]
        kernel[...] = exponent
        return self.profile(kernel)
