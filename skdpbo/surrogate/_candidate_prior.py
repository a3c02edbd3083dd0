"""Prior of a process at finitely many candidates: a kernel with their rows, or a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import WhiteKernel

from skdpbo.surrogate._linalg import FloatArray

__all__ = ["check_candidates", "prior_rows", "prior_variance"]


def check_candidates(X: npt.ArrayLike) -> FloatArray:
    """Return the encoded candidates as a finite array of at least one row."""
    array = np.asarray(X, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] == 0:
        raise ValueError("X_candidates must have shape (n_candidates, n_features) with rows.")
    if not np.isfinite(array).all():
        raise ValueError("X_candidates must be finite.")
    return array


def prior_variance(kernel: Any, X: FloatArray) -> FloatArray:
    """Prior variances of the candidates, shape (n,); ValueError for a kernel with noise."""
    if isinstance(kernel, np.ndarray):
        if kernel.shape != (X.shape[0], X.shape[0]):
            raise ValueError("a kernel array must have shape (n_candidates, n_candidates).")
        variance = np.diagonal(kernel).astype(np.float64)
    else:
        if any(isinstance(part, WhiteKernel) for part in (kernel, *kernel.get_params().values())):
            raise ValueError("kernel must not contain a WhiteKernel: use noise_variance.")
        variance = np.asarray(kernel.diag(X), dtype=np.float64)
    if not (np.isfinite(variance).all() and variance.max() > 0.0):
        raise ValueError("kernel must have finite prior variances, not all zero.")
    return variance


def prior_rows(kernel: Any, X: FloatArray, idx: npt.NDArray[np.intp]) -> FloatArray:
    """Prior covariance of some candidates with all, shape (len(idx), n)."""
    if isinstance(kernel, np.ndarray):
        return np.asarray(kernel[idx], dtype=np.float64)
    return np.asarray(kernel(X[idx], X))
