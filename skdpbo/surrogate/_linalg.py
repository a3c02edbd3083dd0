"""Cholesky factors of nearly singular covariances, with explicit jitter, and growing systems."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from threadpoolctl import ThreadpoolController

FloatArray = npt.NDArray[np.float64]
#: Smallest noise variance of an observation, as a share of the largest prior variance. Rounding
#: errors of size 1e-16 in a covariance are multiplied by at most its inverse, so the posterior
#: keeps about six digits however close two points are. It is scikit-learn's default `alpha`.
RELATIVE_NOISE_FLOOR = 1e-10
# More would hide that a matrix is not positive semi-definite.
_LARGEST_JITTER = 1e-4
# Cached: searching the loaded libraries takes milliseconds.
_controller = cache(ThreadpoolController)
#: Refinements of a solution, which reduce the effect of the jitter on an eigenvector of eigenvalue
#: e from jitter / e to (jitter / e)^3.
_REFINEMENTS = 2


def jittered_cholesky(A: FloatArray) -> tuple[FloatArray, float]:
    """Lower Cholesky factor of a symmetric positive semi-definite matrix.

    Without jitter if every squared pivot is at least 5e-11 times the largest diagonal entry.
    Otherwise the smallest of 1e-10, 1e-9, ..., 1e-4 times that entry for which this holds is added
    to the diagonal.

    Parameters
    ----------
    A : ndarray of shape (n, n), n >= 1
        Symmetric; only the lower triangle is read.

    Returns
    -------
    L : ndarray of shape (n, n)
        Lower triangular, ``L @ L.T = A + jitter * I``; zero above the diagonal.
    jitter : float
        The amount added to the diagonal, 0.0 where none was needed.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrix is not finite, or not positive definite with the largest jitter.
    """
    scale = float(A.diagonal().max())
    # The sum is finite only if all entries are; unlike isfinite(A) it needs no array.
    if not (math.isfinite(float(A.sum())) and scale > 0.0):
        raise np.linalg.LinAlgError("a covariance matrix must be finite with a positive diagonal.")
    floor = RELATIVE_NOISE_FLOOR * scale
    jitter = 0.0
    while jitter <= _LARGEST_JITTER * scale:
        shifted = A if jitter == 0.0 else A + jitter * np.eye(len(A))
        L, info = dpotrf(shifted, lower=1, clean=1)
        # Pivots are checked, as rounding may let LAPACK succeed on a singular matrix.
        if info == 0 and L.diagonal().min() ** 2 >= 0.5 * floor:
            return L, jitter
        jitter = 10.0 * jitter if jitter else floor
    raise np.linalg.LinAlgError("the covariance matrix is not positive semi-definite.")


def cholesky_solve(L: FloatArray, b: FloatArray) -> FloatArray:
    """Solve ``L @ L.T @ x = b``, L of shape (n, n) and lower triangular, b (n,) or (n, m)."""
    # Faster than cho_solve on small systems.
    x, _ = dpotrs(L, b, lower=1)
    return np.asarray(x)


def cholesky_inverse(L: FloatArray) -> FloatArray:
    """Inverse of ``L @ L.T``, shape (n, n), full and exactly symmetric."""
    lower, _ = dpotri(L, lower=1)  # the lower triangle of the inverse, zero above the diagonal
    inverse = lower + lower.T
    inverse.flat[:: len(L) + 1] *= 0.5  # the diagonal was counted twice
    return np.asarray(inverse)


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which the BLAS uses one thread.

    For many products of small matrices, where threads gain little and, on a busy machine, wait for
    each other at each product.
    """
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited


@dataclass(frozen=True)
class GrowingSystem:
    """Positive semi-definite M with a factor of M + jitter I, and solutions without the jitter.

    Solutions W of W M = G start from G (M + jitter I)^{-1} and are corrected twice by
    W + (G - W M)(M + jitter I)^{-1}: for eigenvalues well above the jitter this is M^{-1}, and
    directions in which M is zero within rounding errors are left out, as a pseudo-inverse does.

    Attributes
    ----------
    jitter : float
        At least 0; the factor takes a larger one where this does not suffice.
    matrix : ndarray of shape (N, N)
    root : ndarray of shape (N, N)
        Lower factor of M + jitter I.
    """

    jitter: float
    matrix: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    root: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    def extended(self, cross: FloatArray) -> GrowingSystem:
        """Return the system with b more rows, by extending the factor.

        Parameters
        ----------
        cross : ndarray of shape (N + b, b)
            The new columns of M.
        """
        N, b = len(self.matrix), cross.shape[1]
        M = np.empty((N + b, N + b))
        M[:N, :N], M[:, N:], M[N:, :N] = self.matrix, cross, cross[:N].T
        if N:
            # SciPy 1.11 refuses a system without rows.
            V = solve_triangular(self.root, cross[:N], lower=True, check_finite=False)
        else:
            V = np.empty((0, b))
        # Schur complement of the new rows: [M, C; C', D] has the factor [L, 0; V', chol(S)].
        S = cross[N:] - V.T @ V
        S.flat[:: b + 1] += self.jitter
        block, info = dpotrf(S, lower=1, clean=1)
        # A pivot below the added jitter is rounding error: factor the whole matrix again.
        if info or block.diagonal().min() ** 2 < 0.5 * self.jitter:
            return self.factored(M)
        L = np.zeros((N + b, N + b))
        L[:N, :N], L[N:, :N], L[N:, N:] = self.root, V.T, block
        return GrowingSystem(self.jitter, M, L)

    def solutions(self, G: FloatArray) -> FloatArray:
        """Return G M^{-1}, shape (d, N), for G of shape (d, N)."""
        W = cholesky_solve(self.root, G.T).T
        for _ in range(_REFINEMENTS):
            # docs/theory/gradient_design.md, Weights.
            W = W + cholesky_solve(self.root, (G - W @ self.matrix).T).T
        return np.ascontiguousarray(W)

    def factored(self, M: FloatArray) -> GrowingSystem:
        """Return the system of M, from a new factor of M + jitter I (a larger jitter if needed)."""
        shifted = M.copy()
        shifted.flat[:: len(M) + 1] += self.jitter
        return GrowingSystem(self.jitter, M, jittered_cholesky(shifted)[0])
