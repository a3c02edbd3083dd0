"""Kernel values of a chunk of rows and the inducing points, in single or double precision."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, Product, Sum

from skdpbo._exact_gram import RowMap
from skdpbo.gaussian_process._foreign_kernels import IsolatedKernel, foreign_kernels

_NEAR = 10.0  # largest squared norm of a point for distances in single precision


def kernel_chunks(features, dtype):
    """Return the fastest way to k_Z(X) / scale, in rows that may be overwritten, and the scale."""
    # A constant factor is returned, not applied: in the whitener it costs nothing.
    parts = [(c, _chunks(k, features.Z, dtype)) for c, k in _terms(features.kernel, 1.0)]
    if len(parts) == 1:
        return parts[0][1], parts[0][0]
    return _SumChunks(parts, len(features.Z), dtype), 1.0


def _terms(kernel, scale):
    """Return the kernel as a sum: a list of factors and kernels."""
    if type(kernel) is Sum:
        return _terms(kernel.k1, scale) + _terms(kernel.k2, scale)
    if type(kernel) is Product:
        for constant, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if type(constant) is ConstantKernel:
                return _terms(other, scale * constant.constant_value)
    return [(scale, kernel)]


def _chunks(kernel, Z, dtype):
    # Of these exact types: Matern is a sub-class of RBF.
    known = {RBF: (math.inf,), Matern: (0.5, 1.5, 2.5)}.get(type(kernel), ())
    nu = getattr(kernel, "nu", math.inf)
    if nu not in known:
        return _AnyKernelChunks(kernel, Z, dtype)
    return _DistanceChunks(Z, kernel.length_scale, nu, dtype)


@dataclass(frozen=True)
class _SumChunks:
    """Weighted sum of kernels."""

    parts: list
    n_inducing: int
    dtype: np.dtype

    def workspace(self, n_rows):
        buffers = [part.workspace(n_rows) for _, part in self.parts]
        return buffers, np.empty((n_rows, self.n_inducing), self.dtype)

    def __call__(self, X, workspace):
        """Protected: return the sum for a chunk of rows, in the workspace."""
        buffers, total = workspace
        total = total[: len(X)]
        total[...] = 0.0
        for (scale, part), buffer in zip(self.parts, buffers, strict=True):
            values = part(X, buffer)
            total += np.multiply(values, self.dtype.type(scale), out=values)
        return total


class _AnyKernelChunks(RowMap):
    """k_Z(X) by scikit-learn, or by the user's own kernel."""

    def __init__(self, kernel, Z, dtype):
        self.dtype = dtype
        self.kernel = IsolatedKernel(kernel, Z) if foreign_kernels(kernel) else partial(kernel, Y=Z)

    def __call__(self, X, workspace):
        """Protected: return the kernel's values for a chunk of rows."""
        values = self.kernel(np.asarray(X, dtype=np.float64))
        return np.array(values, self.dtype, order="C")  # a copy: the caller overwrites it


# Kernels as functions of -r^2 / 2, r the scaled distance; the argument is overwritten.


def _at_distances(nu, exponent):
    """Return the Matern kernel of `nu`, inf for RBF."""
    if nu == math.inf:
        return np.exp(exponent, out=exponent)
    exponent *= -4.0 * nu
    np.maximum(exponent, 0.0, out=exponent)  # rounding may have made it negative
    r = np.sqrt(exponent, out=exponent)  # times sqrt(2 nu)
    factor = None if nu == 0.5 else 1.0 + r
    if nu == 2.5:
        factor = r / 3.0 + 1.0  # 1 + r + r^2 / 3, by Horner's rule
        factor *= r
        factor += 1.0
    np.exp(np.negative(r, out=r), out=r)
    return r if factor is None else np.multiply(r, factor, out=r)


class _DistanceChunks:
    """A function of the scaled distance; distances by one matrix product.

    (x, 1, -||x||^2/2) (z, -||z||^2/2, 1)' = -||x - z||^2/2, x and z scaled and centred. The product
    is in single precision for values in single precision where it loses no more than they do.
    """

    def __init__(self, Z, length_scale, nu, dtype):
        self.nu = nu
        self.inverse_scale = 1.0 / np.asarray(length_scale, dtype=np.float64)
        # Distances do not depend on the origin, and near it their squares lose the fewest digits.
        self.shift = Z.mean(axis=0) * self.inverse_scale
        scaled = Z * self.inverse_scale - self.shift
        squares = np.einsum("ij,ij->i", scaled, scaled)
        # A Matern kernel takes the root of a distance, which near 0 would lose half of the digits.
        near = nu == math.inf and squares.max() <= _NEAR
        self.Z = np.vstack([scaled.T, -squares / 2, np.ones(len(Z))])
        self.Z = self.Z.astype(dtype if near else np.float64)
        self.dtype = dtype

    def workspace(self, n_rows):
        width, d = self.Z.shape
        buffers = {"scaled": np.empty((n_rows, width - 2))}
        # Column d of the augmented rows is 1 and never written.
        buffers["X"] = np.ones((n_rows, width), self.Z.dtype)
        buffers["exponent"] = np.empty((n_rows, d), self.Z.dtype)
        if self.dtype != self.Z.dtype:
            buffers["kernel"] = np.empty((n_rows, d), self.dtype)
        return buffers

    def __call__(self, X, workspace):
        """Protected: return the profile at the distances of a chunk of rows, in the workspace."""
        n, d = X.shape
        augmented, exponent, scaled = (workspace[name][:n] for name in ("X", "exponent", "scaled"))
        np.multiply(X, self.inverse_scale, out=scaled)
        scaled -= self.shift
        augmented[:, :d] = scaled
        augmented[:, d + 1] = np.einsum("ij,ij->i", scaled, scaled)
        augmented[:, d + 1] *= -0.5
        np.matmul(augmented, self.Z, out=exponent)
        if "kernel" not in workspace:
            return _at_distances(self.nu, exponent)
        kernel = workspace["kernel"][:n]
        kernel[...] = exponent
        return _at_distances(self.nu, kernel)
