"""Kernel hyper-parameters by maximum marginal likelihood, and when to fit them again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skdpbo.surrogate._linalg import (
    FloatArray,
    cholesky_inverse,
    cholesky_solve,
    jittered_cholesky,
)


@dataclass(frozen=True, kw_only=True)
class FittedHyperparameters:
    """What `fit_hyperparameters` found.

    `kernel`, `noise_variance` and `prior_mean` are in the units of y and go straight into
    `CandidatePosterior`. `unit_kernel` and `unit_noise_variance` are the same for standardised
    values: give them to the next fit as its kernel and its start.

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        ``ConstantKernel(y_scale**2) * unit_kernel``.
    noise_variance : float
        Fitted noise variance, in squared units of y; the known noise is not included.
    prior_mean, y_scale : float
        Mean and standard deviation of y (1.0 where y is constant).
    unit_kernel : sklearn.gaussian_process.kernels.Kernel
    unit_noise_variance : float
    log_marginal_likelihood : float
        Of the standardised values.
    """

    kernel: Any
    noise_variance: float
    prior_mean: float
    y_scale: float
    unit_kernel: Any
    unit_noise_variance: float
    log_marginal_likelihood: float


def default_kernel(n_features: int, *, anisotropic: bool = True) -> Any:
    """Matern 5/2 with amplitude, for standardised values and features in [0, 1].

    Parameters
    ----------
    n_features : int
        At least 1.
    anisotropic : bool, default=True
        One length-scale per feature, or one for all.
    """
    length_scale = np.full(n_features, 0.5) if anisotropic and n_features > 1 else 0.5
    return ConstantKernel(1.0, (0.05, 20.0)) * Matern(length_scale, (0.05, 5.0), nu=2.5)


def fit_hyperparameters(
    kernel: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    noise_variance: float | npt.ArrayLike = 0.0,
    noise_variance_bounds: tuple[float, float] | Literal["fixed"] = (1e-6, 1.0),
    noise_variance_start: float | None = None,
    n_starts: int = 3,
    max_iter: int = 100,
) -> FittedHyperparameters:
    """Fit kernel parameters and a noise variance by maximum marginal likelihood.

    The values y must be public or already released: the result is a function of them, and
    nothing here protects them.

    y is standardised first. The marginal likelihood is maximised over ``kernel.theta`` and the
    logarithm of the noise variance by L-BFGS-B with the analytic gradient (Rasmussen & Williams
    2006, Eq. 5.9), from `kernel.theta` and from further points of a fixed low-discrepancy
    sequence: the same input always gives the same result.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Template, for standardised values; its bounds are respected and it is not modified.
    X : array-like of shape (T, n_features)
        Evaluated points; repeats allowed. T at least 1.
    y : array-like of shape (T,)
        Public or released values, finite.
    noise_variance : float or array-like of shape (T,), default=0.0
        Known variances of the noise in y, in squared units of y.
    noise_variance_bounds : (float, float) or "fixed", default=(1e-6, 1.0)
        Range, as a share of the variance of y, of a further noise variance that is fitted.
        "fixed": none is fitted, the noise is as given.
    noise_variance_start : float or None, default=None
        Start of the further noise variance, as a share of the variance of y; None takes 0.01.
    n_starts : int, default=3
        Number of starts, the first being the template's own parameters. 1 is enough where the
        template is the result of an earlier fit.
    max_iter : int, default=100
        Largest number of L-BFGS-B iterations from a start.

    Returns
    -------
    FittedHyperparameters
    """
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if X.ndim != 2 or y.shape != (len(X),) or len(X) == 0:
        raise ValueError("X must have shape (T, n_features) and y (T,), T > 0")
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise ValueError("X and y must be finite")
    if n_starts < 1:
        raise ValueError("n_starts must be at least 1")
    y_mean, y_scale = _location_and_scale(y)
    known = np.asarray(noise_variance, dtype=np.float64)
    if not (np.isfinite(known).all() and (known >= 0.0).all()):
        raise ValueError("noise_variance must be finite and non-negative")
    objective = _negative_log_marginal_likelihood(
        kernel, X, (y - y_mean) / y_scale, np.broadcast_to(known / y_scale**2, y.shape)
    )
    theta, best = _minimise(
        objective,
        _first_start(kernel, noise_variance_bounds, noise_variance_start),
        _log_bounds(kernel, noise_variance_bounds),
        n_starts,
        max_iter,
    )
    p = kernel.n_dims
    unit_kernel = kernel.clone_with_theta(theta[:p])
    unit_noise = float(np.exp(theta[p])) if len(theta) > p else 0.0
    return FittedHyperparameters(
        kernel=ConstantKernel(y_scale**2, "fixed") * unit_kernel,
        noise_variance=unit_noise * y_scale**2,
        prior_mean=y_mean,
        y_scale=y_scale,
        unit_kernel=unit_kernel,
        unit_noise_variance=unit_noise,
        log_marginal_likelihood=-best,
    )


def refit_due(t: int, *, first: int = 5, ratio: float = 1.5) -> bool:
    """Whether hyper-parameters should be fitted after the t-th observation.

    True on the geometric schedule first, ceil(first * ratio), ...: a number of fits that grows
    as log t, so that their share of the cost of an evaluation stays bounded. The schedule
    depends on t alone.

    Examples
    --------
    >>> [t for t in range(60) if refit_due(t)]
    [5, 8, 12, 18, 27, 41]
    """
    if first < 1 or not ratio > 1.0:
        raise ValueError("first must be at least 1 and ratio above 1")
    due = first
    while due < t:
        due = max(due + 1, math.ceil(due * ratio))
    return due == t


def _location_and_scale(y: FloatArray) -> tuple[float, float]:
    """Mean and standard deviation, 1.0 in place of a spread that is only rounding error."""
    mean, scale = float(y.mean()), float(y.std())
    return mean, scale if scale > 1e-12 * max(1.0, float(np.abs(y).max())) else 1.0


def _log_bounds(kernel: Any, noise_bounds: tuple[float, float] | Literal["fixed"]) -> FloatArray:
    """Bounds of theta and, where it is fitted, of the log noise variance: shape (p, 2)."""
    bounds = np.asarray(kernel.bounds, dtype=np.float64).reshape(-1, 2)
    if noise_bounds == "fixed":
        return bounds
    low, high = noise_bounds
    if not 0.0 < low <= high < math.inf:
        raise ValueError("noise_variance_bounds must satisfy 0 < low <= high < inf")
    return np.vstack([bounds, np.log([[low, high]])])


def _first_start(
    kernel: Any, noise_bounds: tuple[float, float] | Literal["fixed"], noise_start: float | None
) -> FloatArray:
    theta = np.asarray(kernel.theta, dtype=np.float64)
    if noise_bounds == "fixed":
        return theta
    return np.append(theta, math.log(max(0.01 if noise_start is None else noise_start, 1e-300)))


def _starts(first: FloatArray, bounds: FloatArray, n_starts: int) -> FloatArray:
    """First start, clipped, then a Kronecker sequence in the middle half of the log-bounds."""
    p = len(first)
    # The generalised golden ratio: the root of x^(p+1) = x + 1 gives evenly spread points.
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (p + 1))
    steps = np.outer(np.arange(1, n_starts), root ** -np.arange(1.0, p + 1.0))
    unit = 0.25 + 0.5 * ((0.5 + steps) % 1.0)
    low, high = bounds.T
    return np.clip(np.vstack([first, low + unit * (high - low)]), low, high)


def _minimise(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    first: FloatArray,
    bounds: FloatArray,
    n_starts: int,
    max_iter: int,
) -> tuple[FloatArray, float]:
    """Best local minimum over the starts, and its value."""
    if len(first) == 0:
        return first, objective(first)[0]
    best_x, best = first, math.inf
    for start in _starts(first, bounds, n_starts):
        result = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": max_iter, "ftol": 1e-9, "gtol": 1e-5},
        )
        if result.fun < best:
            best_x, best = np.asarray(result.x), float(result.fun)
    return best_x, best


def _negative_log_marginal_likelihood(
    kernel: Any, X: FloatArray, y: FloatArray, known_noise: FloatArray
) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """Return x -> (-log p(y), gradient), x being theta and perhaps the log noise variance."""
    T, p = len(y), kernel.n_dims
    diagonal = np.arange(T)

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        noise = math.exp(x[p]) if len(x) > p else 0.0
        K, dK = kernel.clone_with_theta(x[:p])(X, eval_gradient=True)
        K[diagonal, diagonal] += known_noise + noise
        L, _ = jittered_cholesky(K)
        alpha = cholesky_solve(L, y)
        value = 0.5 * float(y @ alpha) + float(np.log(np.diagonal(L)).sum())
        # tr((alpha alpha' - K^{-1}) dK), from the lower triangle of the inverse alone.
        inner = cholesky_inverse(L)
        trace_inner = float(alpha @ alpha) - float(np.trace(inner))
        inner = np.outer(alpha, alpha) - inner - np.tril(inner, -1).T
        gradient = np.empty(len(x))
        gradient[:p] = -0.5 * (inner.ravel() @ dK.reshape(T * T, p))
        if len(x) > p:
            gradient[p] = -0.5 * noise * trace_inner
        return value + 0.5 * T * math.log(2.0 * math.pi), gradient

    return objective
