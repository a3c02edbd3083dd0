"""Where to evaluate next, so that the gradient at a point becomes as certain as possible.

The acquisition function of Sopa et al. (2025, Section 3.1) is the trace of the posterior covariance
of grad f(theta) after b more evaluations. `GradientTrace` computes it with its derivative in closed
form; `minimise_trace` descends from a few symmetric designs with L-BFGS-B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrs, dtrtri
from scipy.optimize import minimize
from sklearn.utils import check_random_state

from skdpbo.surrogate._kernels import DifferentiableKernel, prior_gradient_covariance
from skdpbo.surrogate._linalg import FloatArray, jittered_cholesky

#: Half-width of the box around theta that is searched, in length-scales. A value further away says
#: next to nothing about the gradient of a stationary process; with a polynomial kernel, whose
#: variance grows without limit, it keeps the points from running away.
_REACH = 3.0

_RADII = (0.5, 1.0, 2.0)
_SYMMETRY_BREAKING = 1e-2


class GradientTrace:
    r"""Trace of the posterior gradient covariance as a function of b new points.

    With D the N earlier points, M = k(D, D) + nugget I = L L', G = dk(theta, D) and
    H = G L^{-T} (d, N), the covariance given D is C = d2k - H H'. For new points Z, with
    V = L^{-1} k(D, Z) (N, b), A = dk(theta, Z) - H V (d, b) and
    S = k(Z, Z) + nugget I - V' V (b, b),

    .. math:: \alpha(Z) = \mathrm{tr}\, C - \mathrm{tr}(A S^{-1} A').

    With X = A S^{-1} and Q = X' X its differential is

    .. math::
        d\alpha = -2 \langle X, d\,\partial k(\theta, Z) \rangle + \langle Q, dk(Z, Z) \rangle
        + 2 \langle L^{-T} (H' X - V Q), dk(D, Z) \rangle .

    Parameters
    ----------
    kernel : DifferentiableKernel
    theta : ndarray of shape (d,)
    D : ndarray of shape (N, d)
        Earlier points; N = 0 is allowed.
    nugget : float
        Variance that is added to each value, earlier or new; positive.
    """

    def __init__(
        self, kernel: DifferentiableKernel, theta: FloatArray, D: FloatArray, nugget: float
    ) -> None:
        self.kernel, self.theta, self.D, self.nugget = kernel, theta, D, nugget
        N, d = D.shape
        self.H = np.zeros((d, N))
        self.L_inverse = np.zeros((N, N))
        if N:
            M = kernel.values(D, D).value
            M.flat[:: N + 1] += nugget
            L, _ = jittered_cholesky(M)
            self.L_inverse, _ = dtrtri(L, lower=1)
            self.H = kernel.gradients(theta, D).dx @ self.L_inverse.T
        self.covariance = prior_gradient_covariance(kernel, theta) - self.H @ self.H.T
        self.trace = float(self.covariance.trace())

    def __call__(self, Z: FloatArray) -> tuple[float, FloatArray]:
        """Return alpha(Z) and its gradient, shape (b, d), for Z of shape (b, d)."""
        N, b = len(self.D), len(Z)
        values = self.kernel.values(np.concatenate([self.D, Z]), Z)
        slopes = self.kernel.gradients(self.theta, Z)
        V = self.L_inverse @ values.value[:N]
        S = values.value[N:] - V.T @ V
        S.flat[:: b + 1] += self.nugget
        A = slopes.dx - self.H @ V
        L, _ = jittered_cholesky(S)
        X = dpotrs(L, A.T, lower=1)[0].T
        Q = X.T @ X
        weights = np.empty((N + b, b))
        weights[:N] = 2.0 * (self.L_inverse.T @ (self.H.T @ X - V @ Q))
        weights[N:] = 2.0 * Q  # k(Z, Z) is symmetric: each argument gives one half
        gradient = values.contract(weights) - 2.0 * slopes.contract(X)
        return self.trace - float(np.vdot(X, A)), gradient


@dataclass(frozen=True)
class Box:
    """Points z with low <= z <= high, and the scale of each coordinate.

    Attributes
    ----------
    low, high : ndarray of shape (d,)
    scale : ndarray of shape (d,)
        Length over which f is expected to change, per coordinate.
    """

    low: FloatArray
    high: FloatArray
    scale: FloatArray

    def fold(self, Z: FloatArray) -> FloatArray:
        """Mirror at the faces what lies outside, shape (b, d)."""
        Z = self.low + np.abs(Z - self.low)
        Z = self.high - np.abs(self.high - Z)
        return np.clip(Z, self.low, self.high)


def search_box(
    kernel: DifferentiableKernel, theta: FloatArray, low: FloatArray, high: FloatArray
) -> Box:
    """Part of a box within reach of theta, in units of the kernel's length-scales at theta."""
    variance = float(kernel.gradients(theta, theta[None]).value[0])
    slopes = prior_gradient_covariance(kernel, theta).diagonal()
    # A coordinate on which the kernel does not depend has no scale of its own.
    scale = np.sqrt(variance / np.where(slopes > 0.0, slopes, variance))
    near = np.clip(theta, low, high)
    return Box(
        np.maximum(low, near - _REACH * scale), np.minimum(high, near + _REACH * scale), scale
    )


def minimise_trace(
    objective: GradientTrace,
    box: Box,
    batch_size: int,
    *,
    n_starts: int,
    random_state: int | np.random.RandomState | None,
    tol: float,
    max_iter: int,
) -> tuple[FloatArray, float]:
    """Minimise alpha over b points of a box.

    Parameters
    ----------
    objective : GradientTrace
    box : Box
    batch_size : int
        Number b of points, at least 1.
    n_starts : int
        Number of descents, from the best of the starting designs.
    random_state : int, RandomState or None
        Orientation of the starting designs.
    tol : float
        A descent stops where an iteration lowers the trace by less than this share.
    max_iter : int
        Largest number of iterations of a descent.

    Returns
    -------
    Z : ndarray of shape (b, d)
    trace : float
        alpha(Z).
    """
    rng = check_random_state(random_state)
    starts = []
    for design in _starting_designs(objective, box, batch_size, n_starts, rng):
        scored = [(objective(Z)[0], Z) for Z in _at_radii(objective, box, design)]
        starts.append(min(scored, key=lambda pair: pair[0]))
    starts.sort(key=lambda pair: pair[0])
    descents = [_descend(objective, box, Z, tol, max_iter) for _, Z in starts[:n_starts]]
    return min(descents, key=lambda pair: pair[1])


def _starting_designs(
    objective: GradientTrace, box: Box, b: int, n_starts: int, rng: np.random.RandomState
) -> list[FloatArray]:
    """Designs of radius 1 around the origin, each of shape (b, d), in length-scales."""
    d = len(objective.theta)
    # Most uncertain directions first.
    _, E = np.linalg.eigh(objective.covariance * np.outer(box.scale, box.scale))
    E = E[:, ::-1].T
    designs = [_simplex_shells(b, E)]
    if b <= d:
        designs.append(E[:b])
    inward = np.where(box.high - objective.theta >= objective.theta - box.low, 1.0, -1.0)
    steepest = np.argsort(-objective.covariance.diagonal() * box.scale**2, kind="stable")
    designs.append(_simplex_corner(b, np.diag(inward)[steepest]))
    if len(objective.D) >= b:
        # Mirror image of the latest design: what is of second order cancels.
        latest = (objective.D[-b:] - objective.D[-b:].mean(axis=0)) / box.scale
        radius = np.sqrt(np.mean(np.sum(latest**2, axis=1)))
        if radius > 0.0:
            designs.append(-latest / radius)
    designs = [_perturbed(Z, rng) for Z in designs]
    for _ in range(n_starts - 1):
        rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
        designs.append(_perturbed(_simplex_shells(b, rotation), rng))
    return designs


def _perturbed(Z: FloatArray, rng: np.random.RandomState) -> FloatArray:
    """Leave exact symmetry, in which a descent could be caught."""
    return Z + _SYMMETRY_BREAKING / np.sqrt(Z.shape[1]) * rng.standard_normal(Z.shape)


def _simplex_shells(b: int, E: FloatArray) -> FloatArray:
    """Regular simplices in the span of the first rows of E (d, d): b points around the origin.

    Of min(b, d + 1) vertices; further points go to mirrored and to wider copies.
    """
    vertices = min(b, len(E) + 1)
    centred = np.eye(vertices) - 1.0 / vertices
    coordinates = np.linalg.svd(centred)[0][:, : vertices - 1]
    simplex = coordinates @ E[: vertices - 1]
    if vertices == 1:
        return E[:1] if b == 1 else np.concatenate([E[:1]] * b)
    simplex /= np.linalg.norm(simplex, axis=1, keepdims=True)
    shells = [(-1.0) ** s * (1.0 + 0.5 * (s // 2)) * simplex for s in range(-(-b // vertices))]
    return np.concatenate(shells)[:b]


def _simplex_corner(b: int, axes: FloatArray) -> FloatArray:
    """The origin and steps along axes (rows, (d, d)), with further points at longer steps."""
    d = len(axes)
    if b <= d:
        return axes[:b]
    steps = [(1.0 + 0.5 * s) * axes for s in range(-(-(b - 1) // d))]
    return np.concatenate([np.zeros((1, d)), *steps])[:b]


def _at_radii(objective: GradientTrace, box: Box, design: FloatArray) -> list[FloatArray]:
    """A design of radius 1 at a few radii around the best one of a simplex without history."""
    variance = float(objective.kernel.gradients(objective.theta, objective.theta[None]).value[0])
    # The error per direction of a small simplex is r^2 / 2 + nugget / (variance r^2).
    radius = (2.0 * objective.nugget / variance) ** 0.25
    return [box.fold(objective.theta + radius * r * box.scale * design) for r in _RADII]


def _descend(
    objective: GradientTrace, box: Box, Z: FloatArray, tol: float, max_iter: int
) -> tuple[FloatArray, float]:
    """Quasi-Newton descent in units of the length-scales."""
    b, d = Z.shape
    start = objective(Z)[0]
    unit = max(start, np.finfo(np.float64).tiny)

    def scaled(u: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = objective(objective.theta + box.scale * u.reshape(b, d))
        return value / unit, (gradient * box.scale).ravel() / unit

    low, high = (box.low - objective.theta) / box.scale, (box.high - objective.theta) / box.scale
    found = minimize(
        scaled,
        ((Z - objective.theta) / box.scale).ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(np.tile(low, b), np.tile(high, b), strict=True)),
        options={"maxiter": max_iter, "ftol": tol, "gtol": 1e-9},
    )
    # Back in the units of theta a point may leave the box by a rounding error.
    best = np.clip(objective.theta + box.scale * found.x.reshape(b, d), box.low, box.high)
    return best, float(found.fun) * unit
