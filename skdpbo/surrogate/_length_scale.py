"""Length-scale of the surrogate from noisy gradients, as a search releases them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from skdpbo.privacy._checks import check_choice, check_positive
from skdpbo.surrogate._kernels import matern52_profile, rbf_profile
from skdpbo.surrogate._linalg import FloatArray, cholesky_solve, jittered_cholesky

# On the default bounds, neighbours differ by a factor of 1.8.
_GRID_SIZE = 9


@dataclass(frozen=True, kw_only=True)
class FittedLengthScale:
    """Result of `fit_length_scale_to_gradients`.

    Parameters
    ----------
    length_scale : float
        In the units of the points.
    variance : float
        Prior variance of the function, in its squared units.
    log_marginal_likelihood : float
        Of the gradients, without the prior on the length-scale.
    """

    length_scale: float
    variance: float
    log_marginal_likelihood: float


def fit_length_scale_to_gradients(
    thetas: npt.ArrayLike,
    gradients: npt.ArrayLike,
    noise_variance: float | npt.ArrayLike,
    *,
    kernel: Literal["rbf", "matern52"] = "rbf",
    prior_length_scale: float = 0.5,
    prior_log_std: float = 1.0,
    length_scale_bounds: tuple[float, float] = (0.05, 5.0),
) -> FittedLengthScale:
    r"""Most probable length-scale given noisy gradients at some points.

    The gradients g_t = grad f(theta_t) + noise of f ~ GP(0, v k(r / l)) have covariance

    .. math:: \frac{v}{l^2} \left(g(r) I - h(r) u u'\right) + s_t^2 [t = t'] I, \qquad
        u = (\theta_t - \theta_{t'}) / l, \quad r = |u|,

    with g = h = k for the squared exponential. Their marginal likelihood, times a log-normal
    prior for l, is maximised over l and v. Without gradients, or where noise hides them, l is the
    centre of the prior.

    Gradients must be public or already released; clipped or rounded ones are taken as they are.

    Parameters
    ----------
    thetas : array-like of shape (T, d)
        T = 0 is allowed.
    gradients : array-like of shape (T, d)
        Noisy gradient at each point; public or released.
    noise_variance : float or array-like of shape (T,)
        Variances s_t^2 of the noise in each coordinate of a gradient; positive.
    kernel : {"rbf", "matern52"}, default="rbf"
        Form of k, isotropic.
    prior_length_scale : float, default=0.5
        Median of the prior for l, in the units of theta.
    prior_log_std : float, default=1.0
        Standard deviation of log l in the prior.
    length_scale_bounds : (float, float), default=(0.05, 5.0)
        Range of l.

    Returns
    -------
    FittedLengthScale
        The length-scale, and the prior variance v that goes with it.

    Notes
    -----
    Every u lies in the span of the T - 1 differences of the points. In an orthonormal basis of
    that span, of dimension q, the gradients have a (T q, T q) covariance; along each of the d - q
    other directions the same (T, T) one. The cost of one evaluation is O((T q)^3).

    Examples
    --------
    >>> fit_length_scale_to_gradients([[0.0, 0.0]], [[0.3, -0.1]], 1e-4).length_scale
    0.5
    """
    X, G, noise = _check_gradients(thetas, gradients, noise_variance)
    low, high = length_scale_bounds
    if not 0.0 < low < high < math.inf:
        raise ValueError("length_scale_bounds must be (low, high) with 0 < low < high.")
    check_positive(prior_length_scale, "prior_length_scale")
    check_positive(prior_log_std, "prior_log_std")
    check_choice(kernel, "kernel", sorted(_PROFILES))
    centre = min(max(prior_length_scale, low), high)
    # v / l^2 by moments, a share of it where noise is as large: slopes have variance g(0) v / l^2.
    power = float(np.mean(G**2)) if G.size else 0.0
    left = max(power - float(np.mean(noise)), 0.05 * power) if len(G) else 0.0
    start = left / float(_PROFILES[kernel](np.zeros(()))[1])
    if len(X) < 2 or start == 0.0:  # one gradient determines v / l^2 only
        return FittedLengthScale(
            length_scale=centre, variance=start * centre**2, log_marginal_likelihood=math.nan
        )
    likelihood = _GradientLikelihood(X, G, noise, kernel)

    # Minus the log posterior density of log l, up to a constant; log(v / l^2) has a flat prior.
    def objective(log_l: float, log_slope: float) -> float:
        penalty = 0.5 * ((log_l - math.log(prior_length_scale)) / prior_log_std) ** 2
        return penalty - likelihood(math.exp(log_l), math.exp(log_slope))

    length_scale, w = _minimised(objective, (low, high), centre, start)
    return FittedLengthScale(
        # exp(log(high)) may exceed high by a rounding error.
        length_scale=min(max(length_scale, low), high),
        variance=w * length_scale**2,
        log_marginal_likelihood=likelihood(length_scale, w),
    )


def _minimised(
    objective: Callable[[float, float], float],
    bounds: tuple[float, float],
    centre: float,
    start: float,
) -> tuple[float, float]:
    """Return (l, v / l^2) that minimise an objective of their logarithms.

    In log l and log(v / l^2) the likelihood is nearly separable. Along log l it may have several
    optima, so that a grid comes first.
    """
    low, high, log_slope = math.log(bounds[0]), math.log(bounds[1]), math.log(start)
    grid = [math.log(centre), *np.linspace(low, high, _GRID_SIZE)]
    log_l = min(grid, key=lambda log_l: objective(log_l, log_slope))
    # Four decades either way: without bounds on the slope, noise that hides all gradients would
    # let it run to 0.
    found = minimize(
        lambda x: objective(float(x[0]), float(x[1])),
        [log_l, log_slope],
        method="L-BFGS-B",
        bounds=[(low, high), (log_slope - 10.0, log_slope + 10.0)],
    )
    length_scale, w = (float(value) for value in np.exp(found.x))
    return length_scale, w


class _GradientLikelihood:
    """Log marginal likelihood of gradients as a function of l and the slope variance v / l^2."""

    def __init__(self, X: FloatArray, G: FloatArray, noise: FloatArray, kernel: str) -> None:
        self.profile, self.noise = _PROFILES[kernel], noise
        differences = X - X[0]
        # The full basis: its rows beyond q are the directions in which no two points differ.
        _, singular, basis = np.linalg.svd(differences, full_matrices=True)
        # Directions of rounding error would make the covariance along them singular.
        q = int(np.sum(singular > 1e-10 * max(singular[0], np.finfo(np.float64).tiny)))
        self.inside = G @ basis[:q].T  # (T, q)
        self.outside = G @ basis[q:].T  # (T, d - q)
        coordinates = differences @ basis[:q].T
        self.U = coordinates[:, None] - coordinates  # (T, T, q)
        self.r2 = np.einsum("stq,stq->st", self.U, self.U)

    def __call__(self, length_scale: float, slope_variance: float) -> float:
        T, q = self.inside.shape
        _, g, h = self.profile(self.r2 / length_scale**2)
        across = slope_variance * g + np.diag(self.noise)
        # Perpendicular to all differences u u' vanishes: such a direction has the covariance g.
        total = _log_density(across, self.outside)
        if q:
            scaled = self.U / length_scale
            along = np.einsum("st,sti,stj->sitj", -slope_variance * h, scaled, scaled)
            for i in range(q):  # g I - h u u', and the noise
                along[:, i, :, i] += across
            total += _log_density(along.reshape(T * q, T * q), self.inside.reshape(T * q, 1))
        return total


def _log_density(covariance: FloatArray, Y: FloatArray) -> float:
    """Sum of the Gaussian log densities of the columns of Y, shape (n, m)."""
    # No direction is perpendicular where the points span all of R^d.
    if not Y.shape[1]:
        return 0.0
    L, _ = jittered_cholesky(covariance)
    fit = float(np.vdot(Y, cholesky_solve(L, Y)))
    log_determinant = 2.0 * float(np.log(L.diagonal()).sum())
    n, m = int(Y.shape[0]), int(Y.shape[1])
    return -0.5 * (fit + m * log_determinant + n * m * math.log(2.0 * math.pi))


_PROFILES = {"rbf": rbf_profile, "matern52": matern52_profile}


def _check_gradients(
    thetas: npt.ArrayLike, gradients: npt.ArrayLike, noise_variance: float | npt.ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    X = np.asarray(thetas, dtype=np.float64)
    G = np.asarray(gradients, dtype=np.float64)
    # [] has shape (0,), from which no d can be read.
    if not X.size and not G.size:
        X = G = np.empty((0, 1))
    if X.ndim != 2 or X.shape != G.shape:
        raise ValueError("thetas and gradients must have the same shape (T, d).")
    noise = np.broadcast_to(np.asarray(noise_variance, dtype=np.float64), (len(X),))
    if not (np.isfinite(X).all() and np.isfinite(G).all() and np.isfinite(noise).all()):
        raise ValueError("thetas, gradients and noise_variance must be finite.")
    if not (noise > 0.0).all():
        raise ValueError("noise_variance must be positive.")
    return X, G, noise
