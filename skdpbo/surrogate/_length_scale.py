"""Length-scale of the surrogate from noisy gradients, as a search releases them."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from skdpbo.surrogate._kernels import matern52_profile, rbf_profile
from skdpbo.surrogate._linalg import FloatArray, cholesky_solve, jittered_cholesky

_BOUNDS = 0.05, 5.0  # of the length-scale
_GRID_SIZE = 9  # length-scales by factors of 1.8
_PROFILES = {"rbf": rbf_profile, "matern52": matern52_profile}


def fit_length_scale_to_gradients(
    thetas: npt.ArrayLike,
    gradients: npt.ArrayLike,
    noise_variance: float | npt.ArrayLike,
    *,
    kernel: Literal["rbf", "matern52"] = "rbf",
    prior_length_scale: float = 0.5,
) -> float:
    r"""Most probable length-scale given noisy gradients at some points, in [0.05, 5].

    The gradients g_t = grad f(theta_t) + noise of f ~ GP(0, v k(r / l)) have covariance

    .. math:: \frac{v}{l^2} \left(g(r) I - h(r) u u'\right) + s_t^2 [t = t'] I, \qquad
        u = (\theta_t - \theta_{t'}) / l, \quad r = |u|,

    with g = h = k for the squared exponential. Their marginal likelihood, times a log-normal
    prior for l of standard deviation 1, is maximised over l and v. With fewer than two gradients,
    or only zero ones, l is the centre of the prior. Clipping and rounding of gradients are ignored.

    Parameters
    ----------
    thetas : array-like of shape (T, d)
        T >= 1.
    gradients : array-like of shape (T, d)
        Noisy gradient at each point; public or released.
    noise_variance : float or array-like of shape (T,)
        Variances s_t^2 of the noise in each coordinate of a gradient; positive.
    kernel : {"rbf", "matern52"}, default="rbf"
        Form of k, isotropic.
    prior_length_scale : float, default=0.5
        Median of the prior for l, in the units of theta.

    Returns
    -------
    float

    Notes
    -----
    Every u lies in the span of the T - 1 differences of the points. In an orthonormal basis of
    that span, of dimension q, the gradients have a (T q, T q) covariance; along each of the d - q
    other directions the same (T, T) one. The cost of one evaluation is O((T q)^3).

    Examples
    --------
    >>> fit_length_scale_to_gradients([[0.0, 0.0]], [[0.3, -0.1]], 1e-4)
    0.5
    """
    X, G = np.asarray(thetas, dtype=np.float64), np.asarray(gradients, dtype=np.float64)
    noise = np.broadcast_to(np.asarray(noise_variance, dtype=np.float64), (len(X),))
    low, high = _BOUNDS
    centre = min(max(prior_length_scale, low), high)
    # Estimate of v / l^2 by moments, since slopes have variance g(0) v / l^2; at least 5 % of the
    # mean square where noise prevails.
    power = float(np.mean(G**2))
    signal = max(power - float(np.mean(noise)), 0.05 * power)
    start = signal / float(_PROFILES[kernel](np.zeros(()))[1])
    if len(X) < 2 or start == 0.0:  # one gradient determines v / l^2 only
        return centre
    likelihood = _GradientLikelihood(X, G, noise, kernel)

    # Minus the log posterior density of log l, up to a constant; log(v / l^2) has a flat prior.
    def objective(x: FloatArray) -> float:
        log_l, log_slope = map(float, x)
        penalty = 0.5 * (log_l - math.log(prior_length_scale)) ** 2
        return penalty - likelihood(math.exp(log_l), math.exp(log_slope))

    # The likelihood is nearly separable in the two logarithms. It may have several optima along
    # log l: start from the best point of a grid.
    ends, log_slope = (math.log(low), math.log(high)), math.log(start)
    grid = [math.log(centre), *np.linspace(*ends, _GRID_SIZE)]
    starts = [np.array([log_l, log_slope]) for log_l in grid]
    # Four decades either way: if noise hides all gradients, the slope variance would tend to 0.
    bounds = [ends, (log_slope - 10.0, log_slope + 10.0)]
    found = minimize(objective, min(starts, key=objective), method="L-BFGS-B", bounds=bounds)
    # exp(log(high)) may exceed high by a rounding error.
    return min(max(float(np.exp(found.x[0])), low), high)


class _GradientLikelihood:
    """Log marginal likelihood of gradients as a function of l and the slope variance v / l^2."""

    def __init__(self, X: FloatArray, G: FloatArray, noise: FloatArray, kernel: str) -> None:
        self.profile, self.noise = _PROFILES[kernel], noise
        differences = X - X[0]
        # The full basis: its rows from q on are the directions in which no two points differ.
        _, singular, basis = np.linalg.svd(differences, full_matrices=True)
        # Directions of mere rounding errors would make the covariance singular.
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
        # Perpendicular to all differences u u' vanishes: the covariance is that of g alone.
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
    if not Y.shape[1]:  # the points span all of R^d: no perpendicular direction
        return 0.0
    L, _ = jittered_cholesky(covariance)
    fit = float(np.vdot(Y, cholesky_solve(L, Y)))
    log_determinant = 2.0 * float(np.log(L.diagonal()).sum())
    n, m = int(Y.shape[0]), int(Y.shape[1])
    return -0.5 * (fit + m * log_determinant + n * m * math.log(2.0 * math.pi))
