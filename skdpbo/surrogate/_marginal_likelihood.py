"""Log marginal likelihood of a Gaussian process and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from skdpbo.surrogate._covariance import compile_covariance
from skdpbo.surrogate._linalg import (
    RELATIVE_NOISE_FLOOR,
    FloatArray,
    cholesky_inverse,
    cholesky_solve,
    jittered_cholesky,
)

__all__ = ["Objective", "negative_log_marginal_likelihood"]

Objective = Callable[[FloatArray], tuple[float, FloatArray]]


def negative_log_marginal_likelihood(
    kernel: Any, X: FloatArray, y: FloatArray, known_noise: FloatArray
) -> Objective:
    """Return the function x -> (-log p(y), its gradient).

    Rasmussen & Williams (2006), Eq. 5.8 and 5.9. x is ``kernel.theta``, of length p, followed
    or not by the logarithm of a noise variance that is added to `known_noise`.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Not modified.
    X : ndarray of shape (T, n_features)
    y : ndarray of shape (T,)
        Of variance about 1: the noise is never below 1e-10.
    known_noise : ndarray of shape (T,)
        Noise variances, in squared units of y.
    """
    covariance = compile_covariance(kernel, X)
    T, p = len(y), covariance.p
    constant = 0.5 * T * math.log(2.0 * math.pi)

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        noise = math.exp(x[p]) if len(x) > p else 0.0
        K = np.empty((T, T))
        K[...] = covariance.value(x[:p])
        K.flat[:: T + 1] += np.maximum(known_noise + noise, RELATIVE_NOISE_FLOOR)
        L, _ = jittered_cholesky(K)
        alpha = cholesky_solve(L, y)  # (K + N)^{-1} y
        value = 0.5 * float(y @ alpha) + float(np.log(L.diagonal()).sum())
        W = alpha[:, None] * alpha - cholesky_inverse(L)
        gradient = np.empty(len(x))
        gradient[:p] = -0.5 * covariance.contract(W)
        if len(x) > p:
            gradient[p] = -0.5 * noise * float(W.trace())
        return value + constant, gradient

    return objective
