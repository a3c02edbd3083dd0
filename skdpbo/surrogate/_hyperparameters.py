"""Kernel hyper-parameters by maximum marginal likelihood, and the schedule of fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skdpbo.privacy._checks import check_count
from skdpbo.surrogate._covariance import compile_covariance
from skdpbo.surrogate._linalg import (
    RELATIVE_NOISE_FLOOR,
    FloatArray,
    cholesky_inverse,
    cholesky_solve,
    jittered_cholesky,
)

_NOISE_START = 0.01  # as a share of the variance of y
_LEAST_SCALE = 1e-150  # of y; squares of smaller values underflow
Objective = Callable[[FloatArray], tuple[float, FloatArray]]


@dataclass(frozen=True, kw_only=True)
class FittedHyperparameters:
    """Result of `fit_hyperparameters`.

    `kernel`, `noise_variance` and `prior_mean` are in the units of y and go straight into
    `CandidatePosterior`. `unit_kernel` and `unit_noise_variance` are the same for standardised
    values; the whole object may be given to the next fit as `previous`.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        ``ConstantKernel(y_scale**2) * unit_kernel``.
    noise_variance : float
        Fitted noise variance, in squared units of y; the known noise is not included.
    prior_mean : float
        Mean of y.
    y_scale : float
        Standard deviation of y; 1.0 if y is constant or the deviation below 1e-150.
    unit_kernel : sklearn.gaussian_process.kernels.Kernel
        Fitted kernel of the standardised values.
    unit_noise_variance : float
        Fitted noise variance of the standardised values.
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


def default_kernel(n_features: int) -> Any:
    """Matern 5/2 with amplitude, for standardised values and features in [0, 1].

    Parameters
    ----------
    n_features : int
        At least 1.

    Returns
    -------
    sklearn.gaussian_process.kernels.Kernel
        One length-scale per feature, with the bounds within which it may be fitted.
    """
    length_scale = np.full(n_features, 0.5) if n_features > 1 else 0.5
    return ConstantKernel(1.0, (0.05, 20.0)) * Matern(length_scale, (0.05, 5.0), nu=2.5)


def fit_hyperparameters(
    kernel: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    noise_variance: float | npt.ArrayLike = 0.0,
    noise_variance_bounds: tuple[float, float] | Literal["fixed"] = (1e-6, 1.0),
    previous: FittedHyperparameters | None = None,
    n_starts: int = 3,
) -> FittedHyperparameters:
    """Fit kernel parameters and a noise variance by maximum marginal likelihood.

    The values y must be public or already released. They are standardised first. The marginal
    likelihood is maximised over ``kernel.theta`` and the logarithm of the noise variance by
    L-BFGS-B with the analytic gradient (Rasmussen & Williams 2006, Eq. 5.9), from ``kernel.theta``
    and from points of a fixed low-discrepancy sequence: the same input gives the same result.

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
    previous : FittedHyperparameters or None, default=None
        Result of an earlier fit with this template: one more start, the first. With it,
        ``n_starts=2`` is plenty.
    n_starts : int, default=3
        Number of starts: `previous` if given, the template's own parameters, then further ones.

    Returns
    -------
    FittedHyperparameters
        Kernel, noise variance and prior mean, in the units of y and standardised.
    """
    X, y, known = _checked(X, y, noise_variance)
    check_count(n_starts, "n_starts")
    # Standardised, so that one template and its bounds fit values in any units.
    y_mean, y_scale = float(y.mean()), float(y.std())
    if y_scale <= max(1e-12 * float(np.abs(y).max()), _LEAST_SCALE):  # only rounding error
        y_scale = 1.0
    objective = negative_log_marginal_likelihood(
        kernel, X, (y - y_mean) / y_scale, np.broadcast_to(known / y_scale**2, y.shape)
    )
    # Of theta and, where it is fitted, of the log noise variance.
    bounds = np.asarray(kernel.bounds, dtype=np.float64).reshape(-1, 2)
    if noise_variance_bounds != "fixed":
        low, high = noise_variance_bounds
        if not 0.0 < low <= high < math.inf:
            raise ValueError("noise_variance_bounds must satisfy 0 < low <= high < inf.")
        bounds = np.vstack([bounds, np.log([[low, high]])])
    starts = _starts(kernel, bounds, previous, n_starts)
    theta, best = _minimise(objective, starts, bounds)
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


def _checked(
    X: npt.ArrayLike, y: npt.ArrayLike, noise_variance: float | npt.ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if X.ndim != 2 or y.shape != (len(X),) or len(X) == 0:
        raise ValueError("X must have shape (T, n_features) and y (T,), T > 0.")
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise ValueError("X and y must be finite.")
    known = np.asarray(noise_variance, dtype=np.float64)
    if not (np.isfinite(known).all() and (known >= 0.0).all()):
        raise ValueError("noise_variance must be finite and non-negative.")
    return X, y, known


def refit_due(t: int, *, first: int = 5) -> bool:
    """Whether hyper-parameters should be fitted after the t-th observation.

    True on the geometric schedule first, ceil(1.5 first), ...: a number of fits that grows
    as log t, so that their share of the cost of an evaluation stays bounded. The schedule
    depends on t alone.

    Parameters
    ----------
    t : int
        Number of observations so far.
    first : int, default=5
        Number of observations at the first fit, at least 1.

    Returns
    -------
    bool
        True if a fit is due.

    Examples
    --------
    >>> [t for t in range(60) if refit_due(t)]
    [5, 8, 12, 18, 27, 41]
    """
    check_count(first, "first")
    due = first
    while due < t:
        due = math.ceil(1.5 * due)
    return due == t


def _starts(
    kernel: Any, bounds: FloatArray, previous: FittedHyperparameters | None, n_starts: int
) -> FloatArray:
    """Starts in the bounds, shape (n_starts, p): previous, template, a Kronecker sequence."""
    known = [(kernel.theta, _NOISE_START)]
    if previous is not None:
        # It is 0 if none was fitted.
        noise = max(previous.unit_noise_variance, np.finfo(np.float64).tiny)
        known.insert(0, (previous.unit_kernel.theta, noise))
    p = len(bounds)
    points = np.array([np.append(theta, math.log(noise))[:p] for theta, noise in known])
    # The generalised golden ratio: the root of x^(p+1) = x + 1 gives evenly spread points.
    root = 2.0
    for _ in range(64):  # the error shrinks by a factor p + 1 or more each time
        root = (1.0 + root) ** (1.0 / (p + 1))
    steps = np.outer(np.arange(1, n_starts), root ** -np.arange(1.0, p + 1.0))
    low, high = bounds.T
    # The middle half of the bounds: at their ends the likelihood is often flat.
    spread = low + (0.25 + 0.5 * ((0.5 + steps) % 1.0)) * (high - low)
    return np.asarray(np.clip(np.vstack([points, spread])[:n_starts], low, high))


def _minimise(
    objective: Objective, starts: FloatArray, bounds: FloatArray
) -> tuple[FloatArray, float]:
    """Best local minimum over the starts, and its value."""
    if starts.shape[1] == 0:  # nothing is free
        return starts[0], objective(starts[0])[0]
    # Looser than SciPy's defaults: smaller differences of the likelihood do not matter.
    options = {"maxiter": 100, "ftol": 1e-7, "gtol": 1e-4}
    results = [
        minimize(objective, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        for x in starts
    ]
    best = min(results, key=lambda result: float(result.fun))
    return np.asarray(best.x), float(best.fun)


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
        # A copy: `value` may be one number, or an array that `contract` still needs without noise.
        K = np.empty((T, T))
        K[...] = covariance.value(x[:p])
        K.flat[:: T + 1] += np.maximum(known_noise + noise, RELATIVE_NOISE_FLOOR)
        L, _ = jittered_cholesky(K)
        alpha = cholesky_solve(L, y)  # (K + N)^{-1} y
        # Eq. 5.8, with log |K| = 2 sum log L_ii.
        value = 0.5 * float(y @ alpha) + float(np.log(L.diagonal()).sum())
        # Eq. 5.9: dlog p / dtheta = tr((alpha alpha' - K^-1) dK / dtheta) / 2.
        W = alpha[:, None] * alpha - cholesky_inverse(L)
        gradient = np.empty(len(x))
        gradient[:p] = -0.5 * covariance.contract(W)
        if len(x) > p:
            # The derivative of K by the logarithm of the noise is noise I.
            gradient[p] = -0.5 * noise * float(W.trace())
        return value + constant, gradient

    return objective
