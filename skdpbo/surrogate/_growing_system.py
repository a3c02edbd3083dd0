"""Linear systems whose symmetric matrix grows by rows and may be singular within rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotrs

from skdpbo.surrogate._linalg import FloatArray, jittered_cholesky

__all__ = ["GrowingSystem"]

#: Corrections of a solution for the jitter: its effect on an eigenvector of eigenvalue e falls
#: from jitter / e to (jitter / e)^3.
_REFINEMENTS = 2


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
    matrix: FloatArray
    root: FloatArray

    @classmethod
    def empty(cls, jitter: float) -> GrowingSystem:
        """Return the system with N = 0."""
        return cls(jitter, np.empty((0, 0)), np.empty((0, 0)))

    def extended(self, cross: FloatArray) -> GrowingSystem:
        """Return the system with b more rows; the factor is extended, not computed anew.

        Parameters
        ----------
        cross : ndarray of shape (N + b, b)
            The new columns of M.
        """
        N, b = len(self.matrix), cross.shape[1]
        M = np.empty((N + b, N + b))
        M[:N, :N], M[:, N:], M[N:, :N] = self.matrix, cross, cross[:N].T
        if N:
            V = solve_triangular(self.root, cross[:N], lower=True, check_finite=False)
        else:
            V = np.empty((0, b))
        S = cross[N:] - V.T @ V
        S.flat[:: b + 1] += self.jitter
        block, info = dpotrf(S, lower=1, clean=1)
        if info or block.diagonal().min() ** 2 < 0.5 * self.jitter:
            return self._factored(M)
        L = np.zeros((N + b, N + b))
        L[:N, :N], L[N:, :N], L[N:, N:] = self.root, V.T, block
        return GrowingSystem(self.jitter, M, L)

    def latest(self, n: int) -> GrowingSystem:
        """Return the system of the last n rows."""
        return self._factored(self.matrix[-n:, -n:].copy())

    def solutions(self, G: FloatArray) -> FloatArray:
        """Return G M^{-1}, shape (d, N), for G of shape (d, N)."""
        W = dpotrs(self.root, G.T, lower=1)[0].T
        for _ in range(_REFINEMENTS):
            W = W + dpotrs(self.root, (G - W @ self.matrix).T, lower=1)[0].T
        return np.ascontiguousarray(W)

    def _factored(self, M: FloatArray) -> GrowingSystem:
        """Factor M + jitter I, with a larger jitter if need be."""
        shifted = M.copy()
        shifted.flat[:: len(M) + 1] += self.jitter
        return GrowingSystem(self.jitter, M, jittered_cholesky(shifted)[0])
