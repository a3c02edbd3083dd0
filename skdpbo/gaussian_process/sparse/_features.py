r"""Whitened features of chunks of rows, on the lattice; most of the time of a fit is spent here.

:math:`\phi(x) = L^{-1} k_Z(x) / \sigma_f`, :math:`LL' = K_{ZZ} + j\sigma_f^2 I`, has norm at most 1
for every x, every Z and every positive semi-definite kernel with :math:`k(x, x) \le \sigma_f^2`,
because the conditional variance :math:`k(x,x) - k_Z' K_{ZZ}^{-1} k_Z` is not negative.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.blas import dtrmm, strmm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, Product, Sum

from skdpbo._exact_gram import RowMap, shorten_rows
from skdpbo.gaussian_process._foreign_kernels import IsolatedKernel, foreign_kernels
from skdpbo.gaussian_process.sparse._kernel_family import reference_variance

_TRIANGULAR_PRODUCT = {np.dtype(np.float32): strmm, np.dtype(np.float64): dtrmm}
JITTER = 1e-6  # j, relative to the prior variance; it makes phi shorter, never longer


class WhitenedFeatures:
    """Map x -> phi(x) for a kernel and inducing points; public, picklable.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    Z : ndarray of shape (d, n_features)

    Attributes
    ----------
    signal_variance : float
        sigma_f^2, k(x, x) where that is constant, otherwise its mean over the inducing points.
    root : ndarray of shape (d, d)
        Lower triangular, L / sigma_f: rows are phi(Z) up to the jitter.
    whitener : ndarray of shape (d, d)
        Upper triangular; phi(x)' = k_Z(x)' whitener.
    jitter : float
        `JITTER`, or more if the kernel matrix is numerically indefinite.
    """

    def __init__(self, kernel, Z):
        self.kernel, self.Z = kernel, Z
        K = np.asarray(kernel(Z), dtype=np.float64)
        if K.shape != (len(Z), len(Z)) or not np.isfinite(K).all():
            raise ValueError("kernel must give a finite matrix of shape (n_inducing, n_inducing).")
        self.signal_variance = reference_variance(kernel, Z)
        if not self.signal_variance > 0:
            raise ValueError("kernel must have a positive variance.")
        # The norm of phi is at most 1 if k(x, x) <= sigma_f^2; with a kernel such as DotProduct,
        # longer rows are shortened on the lattice.
        self.jitter = JITTER
        while True:
            try:
                raised = self.jitter * self.signal_variance * np.eye(len(Z))
                L = cholesky(K + raised, lower=True)
                break
            except np.linalg.LinAlgError:
                self.jitter *= 10.0
        # In units of sigma_f, phi has norm at most 1 (docs/theory/sparse_gp.md, Lemma).
        self.root = L / np.sqrt(self.signal_variance)
        inverse = solve_triangular(L, np.eye(len(Z)), lower=True)
        self.whitener = np.ascontiguousarray(inverse.T) / np.sqrt(self.signal_variance)

    def __call__(self, X):
        """Phi of rows, double precision, shape (n, d)."""
        return np.asarray(self.kernel(X, self.Z), dtype=np.float64) @ self.whitener


def refuse_indefinite(kernel, Z):
    """Raise if the matrix of a kernel at public inducing points is not positive semi-definite.

    Not called for points of a released box, where an error would come after the charge.
    """
    if WhitenedFeatures(kernel, Z).jitter > JITTER:
        raise ValueError(f"kernel must be positive semi-definite, got {kernel}.")


class LatticeRows:
    r"""Rows :math:`w = (\phi(x), \beta_1 y_1, \dots)` as lattice integers of norm at most `radius`.

    Kernel values and whitening are computed in single or double precision; the norm bound is
    enforced on the integers in either case.

    Parameters
    ----------
    features : WhitenedFeatures
    centre : ndarray of shape (q,)
        Public, subtracted from the targets.
    half_width : ndarray of shape (q,)
        R_y: targets are clipped to this distance from the centre.
    beta : ndarray of shape (q,)
        Weights of the targets.
    codes : ndarray of shape (n_classes + 1, q), default=None
        Codes of the classes, if targets are positions of classes; not shifted or clipped. The last
        one, for position -1, is NaN: such a record becomes a row of zeros.
    step : float
        Lattice step of w.
    radius : int
        Largest norm of a row in steps, at most 2^20.
    dtype : type
        numpy.float32 or numpy.float64.
    """

    def __init__(self, features, *, centre, half_width, beta, step, radius, dtype, codes=None):
        self.centre, self.half_width, self.codes = centre, half_width, codes
        self.target_scale = beta / step
        self.radius, self.n_targets = radius, len(beta)
        self.width = len(features.Z) + self.n_targets
        self.dtype = np.dtype(dtype)
        self.kernel, scale = kernel_chunks(features, self.dtype)
        # With the constant factor of the kernel and the lattice step.
        self.whitener = (features.whitener * (scale / step)).astype(self.dtype)

    def workspace(self, n_rows):
        """Buffers of one worker, for chunks of at most `n_rows` rows."""
        return {
            "kernel": self.kernel.workspace(n_rows),
            "rows": np.empty((n_rows, self.width)),
            "targets": np.empty((n_rows, self.n_targets)),
        }

    def __call__(self, X, Y, workspace):
        """Protected: return a chunk's rows, shape (n, width): integers in a shared float buffer."""
        n, d = len(X), self.width - self.n_targets
        rows, T = workspace["rows"][:n], workspace["targets"][:n]
        with np.errstate(all="ignore"):  # a warning would depend on the values
            kernel = self.kernel(X, workspace["kernel"])
            product = _TRIANGULAR_PRODUCT[self.dtype]  # in place, with half the operations
            # Transposed, as BLAS stores by columns: no copy is made.
            phi = product(1.0, self.whitener.T, kernel.T, lower=1, overwrite_b=1).T
            # To nearest, without bias; rows that become too long are shortened below.
            rows[:, :d] = np.rint(phi, out=phi)
            if self.codes is None:
                np.subtract(Y, self.centre, out=T)
                np.clip(T, -self.half_width, self.half_width, out=T)
            else:  # position -1, of an unknown label, gives the last code: NaN
                T[...] = self.codes[Y[:, 0].astype(np.intp)]
            np.multiply(T, self.target_scale, out=T)
            np.rint(T, out=rows[:, d:])
            # Exact: rounding errors above do not affect the sensitivity.
            return shorten_rows(rows, self.radius)


_NEAR = 10.0  # largest squared norm of a point for distances in single precision


def kernel_chunks(features, dtype):
    """Return a fast map of chunks X to k_Z(X) / scale, and the scale.

    Constant factors are returned as the scale, since multiplying the whitener costs nothing.
    """
    Z, parts = features.Z, []
    for scale, kernel in _terms(features.kernel, 1.0):
        # Exact types, as Matern is a sub-class of RBF.
        known = {RBF: (math.inf,), Matern: (0.5, 1.5, 2.5)}.get(type(kernel), ())
        nu = getattr(kernel, "nu", math.inf)
        if nu in known:
            parts.append((scale, _DistanceChunks(Z, kernel.length_scale, nu, dtype)))
        else:
            parts.append((scale, _AnyKernelChunks(kernel, Z, dtype)))
    if len(parts) == 1:
        return parts[0][1], parts[0][0]
    return _SumChunks(parts, len(Z), dtype), 1.0


def _terms(kernel, scale):
    """Return the kernel as a sum: a list of factors and kernels."""
    if type(kernel) is Sum:
        return _terms(kernel.k1, scale) + _terms(kernel.k2, scale)
    if type(kernel) is Product:
        for constant, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if type(constant) is ConstantKernel:
                return _terms(other, scale * constant.constant_value)
    return [(scale, kernel)]


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


def _at_distances(nu, exponent):
    """Return the Matern kernel of `nu`, inf for RBF, at `exponent` = -r^2 / 2, in place.

    r is the scaled distance.
    """
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
    """RBF and Matern kernels, with distances by one matrix product.

    (x, 1, -||x||^2/2) (z, -||z||^2/2, 1)' = -||x - z||^2/2, x and z scaled and centred. For kernel
    values in single precision, the product is too, if it does not lose more digits.
    """

    def __init__(self, Z, length_scale, nu, dtype):
        self.nu = nu
        self.inverse_scale = 1.0 / np.asarray(length_scale, dtype=np.float64)
        # Centred, as squares near the origin lose the fewest digits.
        self.shift = Z.mean(axis=0) * self.inverse_scale
        scaled = Z * self.inverse_scale - self.shift
        squares = np.einsum("ij,ij->i", scaled, scaled)
        # Matern kernels take a root, which near 0 would lose half of the digits.
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
