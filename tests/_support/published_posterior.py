"""Mean, covariance and predictions of the published posterior, Eq. (12), (18) and (20)."""

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from _support.internals import JITTER


def at_inducing_points(posterior, K_ZZ):
    """Mean m, Eq. (12), and covariance S, Eq. (18), of u = f(Z)."""
    return K_ZZ @ posterior.mean, K_ZZ @ posterior.covariance @ K_ZZ


def predicted(posterior, K_ZZ, K_vZ, K_vv):
    """Mean and covariance at new points, Eq. (20), or variances where `K_vv` holds variances."""
    # K_vZ K_ZZ^-1 (K_ZZ - S) K_ZZ^-1 K_Zv with S = K_ZZ cov(w) K_ZZ
    jitter = JITTER * K_ZZ.diagonal().max() * np.eye(len(K_ZZ))
    a = solve_triangular(cholesky(K_ZZ + jitter, lower=True), K_vZ.T, lower=True)  # (d, n)
    spread = K_vZ @ posterior.covariance  # (n, d)
    if K_vv.ndim == 1:
        gained = np.einsum("in,in->n", a, a)
        return K_vZ @ posterior.mean, K_vv - gained + np.einsum("nd,nd->n", spread, K_vZ)
    return K_vZ @ posterior.mean, K_vv - a.T @ a + spread @ K_vZ.T
