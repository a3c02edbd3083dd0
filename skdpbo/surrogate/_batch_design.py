"""Batch design that minimises the uncertainty of the gradient at a point.

The acquisition function of Sopa et al. (2025, Section 3.1) is the trace of the posterior covariance
of grad f(theta) after b more evaluations. `GradientTrace` computes it with its derivative in closed
form; `minimise_trace` descends from a few symmetric designs with L-BFGS-B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dtrtri
from scipy.optimize import minimize
from sklearn.utils import check_random_state

from skdpbo.surrogate._kernels import (
    DifferentiableKernel,
    prior_gradient_covariance,
    varying_variance,
)
from skdpbo.surrogate._linalg import FloatArray, cholesky_solve, jittered_cholesky

BoolArray = npt.NDArray[np.bool_]

#: Half-width of the box around theta that is searched, in length-scales. Values further away carry
#: little information about the gradient of a stationary process; for a polynomial kernel, whose
#: variance is unbounded, the box keeps the points from diverging.
_REACH = 3.0

# Multiples, to be tried, of the radius that is optimal without earlier points.
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
            # The same D serves many designs: products with the inverse are cheaper than solves.
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
        # docs/theory/gradient_design.md, The trace and its derivative.
        A = slopes.dx - self.H @ V
        L, _ = jittered_cholesky(S)
        X = cholesky_solve(L, A.T).T
        Q = X.T @ X
        weights = np.empty((N + b, b))
        weights[:N] = 2.0 * (self.L_inverse.T @ (self.H.T @ X - V @ Q))
        weights[N:] = 2.0 * Q  # k(Z, Z) is symmetric: each argument gives one half
        # The three inner products of d alpha, contracted without ever forming the derivatives.
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
        """Reflect points outside of the box at its faces, shape (b, d)."""
        # Clipping alone would move several points of a design onto one face.
        Z = self.low + np.abs(Z - self.low)
        Z = self.high - np.abs(self.high - Z)
        # Clipped where a further reflection would be needed.
        return np.clip(Z, self.low, self.high)


def search_box(
    kernel: DifferentiableKernel,
    theta: FloatArray,
    bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None,
) -> Box:
    """Part of a box within reach of theta, in units of the kernel's length-scales at theta."""
    low, high = (
        np.broadcast_to(np.asarray(bound, dtype=np.float64), theta.shape)
        for bound in ((-np.inf, np.inf) if bounds is None else bounds)
    )
    if not (low < high).all():
        raise ValueError("every lower bound must be below its upper bound.")
    variance = varying_variance(kernel, theta)
    slopes = prior_gradient_covariance(kernel, theta).diagonal()
    # For an RBF kernel the variance of a slope is v / l^2, so that this is the length-scale; 1 for
    # a coordinate on which the kernel does not depend.
    scale = np.sqrt(variance / np.where(slopes > 0.0, slopes, variance))
    near = np.clip(theta, low, high)  # theta itself may lie outside
    return Box(
        np.maximum(low, near - _REACH * scale), np.minimum(high, near + _REACH * scale), scale
    )


def minimise_trace(
    objective: GradientTrace,
    box: Box,
    batch_size: int,
    *,
    # public randomness
    random_state: int | np.random.RandomState | None,
    n_starts: int = 1,
    max_iter: int = 60,
) -> tuple[FloatArray, float]:
    """Minimise alpha over b points of a box.

    Parameters
    ----------
    objective : GradientTrace
    box : Box
    batch_size : int
        Number b of points, at least 1.
    random_state : int, RandomState or None
        Orientation of the starting designs.
    n_starts : int, default=1
        Number of descents, from the best of the starting designs.
    max_iter : int, default=60
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
        # Narrower and wider copies of a design, folded into the box.
        copies = [box.fold(objective.theta + r * box.scale * design) for r in _RADII]
        scored = [(objective(Z)[0], Z) for Z in copies]
        starts.append(min(scored, key=lambda pair: pair[0]))
    starts.sort(key=lambda pair: pair[0])
    descents = [_descend(objective, box, Z, max_iter) for _, Z in starts[:n_starts]]
    return min(descents, key=lambda pair: pair[1])


def smallest_sufficient(
    best: Callable[[int], tuple[FloatArray, float]], low: int, high: int, tol: float
) -> FloatArray:
    """Smallest design whose trace is at most tol; if there is none, that of `high` points.

    Parameters
    ----------
    best : callable
        b -> a design of b points and its trace, which decreases with b.
    low, high : int
        Range of b, ends included.
    tol : float
    """
    Z, trace = best(low)
    if trace <= tol or low == high:
        return np.asarray(Z)
    enough = None
    step = 1
    while low < high and enough is None:  # most often low or low + 1 is the answer
        b = min(high, low + step)
        Z, trace = best(b)
        if trace <= tol:
            enough, high = Z, b
        else:
            low, step = b, 2 * step
    # Bisection: `low` points are too few, `high` are enough.
    while enough is not None and high - low > 1:
        b = (low + high) // 2
        candidate, trace = best(b)
        if trace <= tol:
            enough, high = candidate, b
        else:
            low = b
    return np.asarray(Z if enough is None else enough)


def _starting_designs(
    objective: GradientTrace,
    box: Box,
    b: int,
    n_starts: int,
    # public randomness: designs see points, never a loss
    rng: np.random.RandomState,
) -> list[FloatArray]:
    """Designs around the origin, each of shape (b, d), in length-scales."""
    theta, d = objective.theta, len(objective.theta)
    # Most uncertain directions first.
    _, E = np.linalg.eigh(objective.covariance * np.outer(box.scale, box.scale))
    E = E[:, ::-1].T
    # Optimal radius of a simplex of d + 1 points without earlier points. Its error per direction,
    # as a share of the prior variance, is r^2 / 2 + nugget / (k r^2)
    # (docs/theory/gradient_design.md, Optimum without history).
    variance = varying_variance(objective.kernel, theta)
    radius = float(min((2.0 * objective.nugget / variance) ** 0.25, 1.0))
    designs = [_simplex_shells(b, E)]
    # If earlier points determine f(theta), b steps determine b directions, a simplex b - 1.
    if b <= d:
        designs.append(E[:b])
    room = np.minimum(theta - box.low, box.high - theta) / box.scale
    if (room < radius).any():
        inward = np.where(box.high - theta >= theta - box.low, 1.0, -1.0)
        steepest = np.argsort(-objective.covariance.diagonal() * box.scale**2, kind="stable")
        designs.append(_boundary_design(b, np.diag(inward)[steepest], (room < radius)[steepest]))
    designs = [radius * Z for Z in designs]
    if len(objective.D) >= b:
        # Mirror image of the latest design: second-order errors cancel.
        designs.append((objective.D[-b:].mean(axis=0) - objective.D[-b:]) / box.scale)
    designs = [_perturbed(Z, radius, rng) for Z in designs]
    for _ in range(n_starts - 1):
        rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
        designs.append(_perturbed(radius * _simplex_shells(b, rotation), radius, rng))
    return designs


# public randomness
def _perturbed(Z: FloatArray, radius: float, rng: np.random.RandomState) -> FloatArray:
    """Perturb a symmetric design, which may be a saddle point of the descent."""
    # A point moves by about 1 % of the radius in any dimension.
    size = _SYMMETRY_BREAKING * radius / np.sqrt(Z.shape[1])
    return np.asarray(Z + size * rng.standard_normal(Z.shape))


def _simplex_shells(b: int, E: FloatArray) -> FloatArray:
    """Regular simplex in the span of the first rows of E (d, d): b points around the origin.

    It has min(b, d + 1) vertices at distance 1; further points are those of mirrored and wider
    copies.
    """
    vertices = min(b, len(E) + 1)
    if vertices == 1:
        return E[:1]
    centred = np.eye(vertices) - 1.0 / vertices
    # Centred unit vectors are the vertices; an orthonormal basis of their span drops a dimension.
    coordinates = np.linalg.svd(centred)[0][:, : vertices - 1]
    simplex = coordinates @ E[: vertices - 1]
    simplex /= np.linalg.norm(simplex, axis=1, keepdims=True)
    return _shells(b, simplex, mirrored=True)


def _boundary_design(b: int, axes: FloatArray, tight: BoolArray) -> FloatArray:
    """One step inwards along each `tight` axis (row of `axes`, (d, d)), a simplex in the others.

    In a corner the remaining point lies on the diagonal, which from three dimensions on is better
    than the corner itself: differences to the corner have twice the noise.
    """
    steps, free = axes[tight], axes[~tight]
    if len(free):
        rest = _simplex_shells(len(free) + 1, free)
    else:
        rest = steps.sum(axis=0, keepdims=True) / np.sqrt(len(steps))
    return _shells(b, np.concatenate([rest, steps]), mirrored=False)


def _shells(b: int, design: FloatArray, *, mirrored: bool) -> FloatArray:
    """First b points of a design and of wider copies; if `mirrored`, every other copy is."""
    n_copies = -(-b // len(design))
    if mirrored:
        factors = [(-1.0) ** s * (1.0 + 0.5 * (s // 2)) for s in range(n_copies)]
    else:
        factors = [1.0 + 0.5 * s for s in range(n_copies)]
    return np.concatenate([factor * design for factor in factors])[:b]


def _descend(
    objective: GradientTrace, box: Box, Z: FloatArray, max_iter: int
) -> tuple[FloatArray, float]:
    """Quasi-Newton descent in units of the length-scales."""
    b, d = Z.shape
    start = objective(Z)[0]
    # The trace is divided by its initial value: tolerances are relative, whatever the units of f.
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
        # ftol ends the descent in practice; gtol only at an exact optimum.
        options={"maxiter": max_iter, "ftol": 1e-5, "gtol": 1e-9},
    )
    # Back in the units of theta a point may leave the box by a rounding error.
    best = np.clip(objective.theta + box.scale * found.x.reshape(b, d), box.low, box.high)
    return best, float(found.fun) * unit
