"""Cholesky factors that survive near-singular covariances, with the jitter made explicit."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

__all__ = [
    "RELATIVE_NOISE_FLOOR",
    "FloatArray",
    "cholesky_inverse",
    "cholesky_solve",
    "jittered_cholesky",
]

FloatArray = npt.NDArray[np.float64]

#: Smallest noise variance of an observation, as a share of the largest prior variance. Rounding
#: errors of size 1e-16 in a covariance are multiplied by at most its inverse, so the posterior
#: keeps about six digits however close two points are. It is scikit-learn's default `alpha`.
RELATIVE_NOISE_FLOOR = 1e-10

_LARGEST_JITTER = 1e-4


def jittered_cholesky(A: FloatArray) -> tuple[FloatArray, float]:
    """Lower Cholesky factor of a symmetric positive semi-definite matrix.

    The matrix is factored as it is where every squared pivot is at least 5e-11 times the largest
    diagonal entry. Otherwise the smallest of 1e-10, 1e-9, ..., 1e-4 times that entry which gives
    such a factor is added to the diagonal.

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
    if not (math.isfinite(float(A.sum())) and scale > 0.0):
        raise np.linalg.LinAlgError("a covariance matrix must be finite with a positive diagonal.")
    floor = RELATIVE_NOISE_FLOOR * scale
    jitter = 0.0
    while jitter <= _LARGEST_JITTER * scale:
        shifted = A if jitter == 0.0 else A + jitter * np.eye(len(A))
        L, info = dpotrf(shifted, lower=1, clean=1)
        # LAPACK can succeed on a singular matrix by luck of rounding: judge the pivots instead.
        if info == 0 and L.diagonal().min() ** 2 >= 0.5 * floor:
            return L, jitter
        jitter = 10.0 * jitter if jitter else floor
    raise np.linalg.LinAlgError("the covariance matrix is not positive semi-definite.")


def cholesky_solve(L: FloatArray, b: FloatArray) -> FloatArray:
    """Solve ``L @ L.T @ x = b`` for a lower factor L of shape (n, n) and b of shape (n,)."""
    x, _ = dpotrs(L, b, lower=1)
    return np.asarray(x)


def cholesky_inverse(L: FloatArray) -> FloatArray:
    """Inverse of ``L @ L.T``, shape (n, n), full and exactly symmetric."""
    lower, _ = dpotri(L, lower=1)  # clean below, zero above the diagonal
    inverse = lower + lower.T
    inverse.flat[:: len(L) + 1] *= 0.5
    return np.asarray(inverse)
