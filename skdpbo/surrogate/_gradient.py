"""Posterior of the gradient of a Gaussian process, and designs that minimise its variance."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from skdpbo.privacy._checks import check_count, check_positive, check_within
from skdpbo.surrogate._batch_design import (
    Box,
    GradientTrace,
    minimise_trace,
    search_box,
    smallest_sufficient,
)
from skdpbo.surrogate._kernels import differentiable, prior_gradient_covariance, varying_variance
from skdpbo.surrogate._linalg import FloatArray, GrowingSystem, one_blas_thread

#: Largest number of earlier points in a design; 4 (d + 1) if that is more.
_LARGEST_HISTORY = 256


class GradientPosterior:
    r"""Posterior of grad f(theta) for f ~ GP(0, k), given values of f at N points.

    With D the points and M = k(D, D) + noise_variance I, the posterior mean of the gradient of
    values L(D) is a product with weights that do not depend on the values,

    .. math:: W L(D), \qquad W = \partial_\theta k(\theta, D) M^{-1} \quad (d \times N)

    (Sopa et al. 2025, Algorithm 1, line 6; Section 3.4 with noise), so that the gradients of many
    functions known at the same points are one matrix product. Its covariance is that of the
    gradient itself minus :math:`W \partial k(\theta, D)'`.

    This class holds points, never values. Kernel and noise variance must be public or already
    released, or the weights reveal their origin.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance k: constants, RBF, Matern 5/2, DotProduct, their sums, products and whole
        powers; TypeError for others. It is cloned. The prior mean is zero: a constant in a sum,
        as in ``ConstantKernel(1.0) + RBF(0.5)``, leaves the level of f open.
    noise_variance : float, default=0.0
        Variance of the noise in an observed value, in squared units of the values.
    jitter : float, default=1e-9
        Share of the prior variance (without its constant part) that is added to the diagonal to
        factor a nearly singular M. Refinement removes its effect on the weights.
    design_jitter : float, default=1e-4
        Noise variance that a design assumes in each value besides `noise_variance`, as a share of
        the prior variance. It keeps the points apart: without earlier points, d + 1 points are
        placed at about ``(2 * design_jitter) ** 0.25`` length-scales from `theta`. Smaller values
        suit losses that are smooth to more digits.
    cache_size : int or None, default=None
        Number of points kept, the latest ones; None keeps all.

    Attributes
    ----------
    points : ndarray of shape (N, d)
        Points that are kept, in the order in which they were added.

    Notes
    -----
    M is nearly singular where many points lie within a length-scale and exactly singular where
    the kernel's space is finite-dimensional, as for polynomials: M + jitter I is factored, and the
    weights are refined.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> posterior = GradientPosterior(RBF(1.0), design_jitter=1e-8)
    >>> theta = np.array([0.2, 0.4])
    >>> points = posterior.design(theta, batch_size=3)
    >>> posterior.add(points)
    >>> values = np.sin(points[:, 0]) + points[:, 1] ** 2 / 2
    >>> (posterior.weights(theta) @ values).round(2)  # cos(0.2) = 0.98, 0.4
    array([0.98, 0.4 ])
    """

    def __init__(
        self,
        kernel: Any,
        *,
        noise_variance: float = 0.0,
        jitter: float = 1e-9,
        design_jitter: float = 1e-4,
        cache_size: int | None = None,
    ) -> None:
        self.kernel = clone(kernel)
        self.noise_variance = check_within(noise_variance, "noise_variance", "[0, inf)")
        self.jitter = check_within(jitter, "jitter", "[0, inf)")
        self.design_jitter = check_within(design_jitter, "design_jitter", "[0, inf)")
        # A descent may let two points coincide: without noise their covariance is singular.
        if not self.design_jitter + self.noise_variance > 0.0:
            raise ValueError("design_jitter or noise_variance must be positive.")
        self.cache_size = None if cache_size is None else check_count(cache_size, "cache_size")
        self._derivatives = differentiable(kernel)
        self._points: FloatArray | None = None
        self._system = GrowingSystem(self.jitter)

    @property
    def points(self) -> FloatArray:
        """Kept points, shape (N, d); a copy."""
        return np.empty((0, 0)) if self._points is None else self._points.copy()

    def __len__(self) -> int:
        """Return the number N of points."""
        return 0 if self._points is None else len(self._points)

    def add(self, points: npt.ArrayLike) -> None:
        """Add evaluated points; the oldest beyond `cache_size` are dropped.

        Parameters
        ----------
        points : array-like of shape (b, d)
            Finite; repeats are allowed, and so is b = 0.
        """
        Z = np.array(points, dtype=np.float64)
        if Z.ndim != 2 or not np.isfinite(Z).all():
            raise ValueError("points must be a finite array of shape (b, d).")
        if self._points is not None and Z.shape[1] != self._points.shape[1]:
            raise ValueError(f"points have {Z.shape[1]} features, not {self._points.shape[1]}.")
        if not len(Z):
            return
        if self._points is None:  # the variance at the first point is the unit of the jitter
            unit = varying_variance(self._derivatives, Z[0])
            self._system = GrowingSystem(self.jitter * unit)
        # Covariances with the new points alone: the factor of the others is extended.
        points = Z if self._points is None else np.concatenate([self._points, Z])
        cross = self._derivatives.values(points, Z).value
        cross[-len(Z) :].flat[:: len(Z) + 1] += self.noise_variance
        self._system = self._system.extended(cross)
        if self.cache_size is not None and len(points) > self.cache_size:
            points = points[-self.cache_size :]
            # Without its first rows, the matrix has to be factored again. A copy: a view would keep
            # the dropped rows in memory.
            kept = self._system.matrix[-self.cache_size :, -self.cache_size :].copy()
            self._system = self._system.factored(kept)
        self._points = points

    def weights(self, theta: npt.ArrayLike) -> FloatArray:
        """Weights W: ``W @ L`` is the posterior-mean gradient at theta.

        Parameters
        ----------
        theta : array-like of shape (d,)
            Point at which the gradient is wanted, finite.

        Returns
        -------
        ndarray of shape (d, N)
            One row for each coordinate of the gradient.
        """
        theta = self._check_theta(theta)
        if self._points is None:
            return np.zeros((len(theta), 0))
        # Sopa et al. (2025), Algorithm 1, line 6, without the jitter.
        return self._system.solutions(self._derivatives.gradients(theta, self._points).dx)

    def gradient_covariance(self, theta: npt.ArrayLike) -> FloatArray:
        """Posterior covariance of grad f(theta).

        The covariance of the error of the gradient estimated with `weights`; jitter included,
        it is never below the exact one.

        Parameters
        ----------
        theta : array-like of shape (d,)
            Point at which the gradient is wanted, finite.

        Returns
        -------
        ndarray of shape (d, d)
            Symmetric, in squared units of the gradient.
        """
        theta = self._check_theta(theta)
        prior = prior_gradient_covariance(self._derivatives, theta)
        if self._points is None:
            return prior
        G = self._derivatives.gradients(theta, self._points).dx
        W = self._system.solutions(G)
        # (prior - G W') + (W M - G) W': the second term is zero where W is exact.
        covariance = prior + ((W @ self._system.matrix - G) - G) @ W.T
        return np.asarray((covariance + covariance.T) / 2.0)

    def trace(self, theta: npt.ArrayLike) -> float:
        """Trace of `gradient_covariance`.

        Parameters
        ----------
        theta : array-like of shape (d,)
            Point at which the gradient is wanted, finite.

        Returns
        -------
        float
            At least 0, in squared units of the gradient.
        """
        # Where the gradient is known, rounding may leave less than 0.
        return max(0.0, float(self.gradient_covariance(theta).trace()))

    def design(
        self,
        theta: npt.ArrayLike,
        batch_size: int,
        *,
        bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        n_starts: int = 1,
        # public randomness
        random_state: int | np.random.RandomState | None = 0,
        max_iter: int = 60,
    ) -> FloatArray:
        """Points that minimise the uncertainty of the gradient at theta (Algorithm 1, line 4).

        Minimises the trace of the posterior gradient covariance given the points so far and the
        new ones, with `noise_variance` and `design_jitter`, by L-BFGS-B with analytic
        derivatives. Of the points so far, only the ``max(256, 4 * (d + 1))`` nearest to theta are
        used, which gives an upper bound of the trace.

        Parameters
        ----------
        theta : array-like of shape (d,)
            Point at which the gradient is wanted, finite.
        batch_size : int
            Number b of new points, at least 1. d + 1 points determine a gradient.
        bounds : (low, high) or None, default=None
            Arrays of shape (d,) or numbers; every new point lies between them. theta may lie on
            the boundary.
        n_starts : int, default=1
            Number of descents. The first starts from the best of a few symmetric designs, the
            others from further ones and from random rotations. More than one is rarely worth it.
        random_state : int, RandomState or None, default=0
            Public randomness of the starting designs.
        max_iter : int, default=60
            Largest number of iterations of a descent.

        Returns
        -------
        Z : ndarray of shape (b, d)
            The new points; `add` takes them once they are evaluated.
        """
        check_count(batch_size, "batch_size")
        check_count(n_starts, "n_starts")
        check_count(max_iter, "max_iter", least=0)
        with one_blas_thread():
            objective, box = self._problem(theta, bounds)
            return minimise_trace(
                objective,
                box,
                batch_size,
                random_state=random_state,
                n_starts=n_starts,
                max_iter=max_iter,
            )[0]

    def design_to_tolerance(
        self,
        theta: npt.ArrayLike,
        tol: float,
        max_batch_size: int | None = None,
        *,
        bounds: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
        # public randomness
        random_state: int | np.random.RandomState | None = 0,
    ) -> FloatArray:
        """Fewest points that bring the trace down to a tolerance (Algorithm 2).

        The trace is the one that `design` minimises, `design_jitter` included. The smallest batch
        size is found by bisection, as the minimal trace falls with the batch size. b points lower
        the rank of the covariance by at most b: sizes for which the d - b smallest eigenvalues
        alone exceed the tolerance are not tried.

        Parameters
        ----------
        theta : array-like of shape (d,)
            Point at which the gradient is wanted, finite.
        tol : float
            Largest trace, in squared units of the gradient; positive.
        max_batch_size : int or None, default=None
            Largest number of points, d + 1 if None.
        bounds : (low, high) or None, default=None
            Arrays of shape (d,) or numbers; every new point lies between them.
        random_state : int, RandomState or None, default=0
            Public randomness of the starting designs.

        Returns
        -------
        Z : ndarray of shape (b, d)
            b = 0 if the points so far suffice; b = max_batch_size if even that many do not.
        """
        check_positive(tol, "tol")
        if max_batch_size is not None:
            check_count(max_batch_size, "max_batch_size")
        with one_blas_thread():
            objective, box = self._problem(theta, bounds)
            d = len(objective.theta)
            if objective.trace <= tol:
                return np.empty((0, d))
            best = partial(minimise_trace, objective, box, random_state=random_state)
            # Lower bound on the trace after b points: the sum of the d - b smallest eigenvalues, by
            # Weyl's inequality (docs/theory/gradient_design.md, Algorithm 2).
            remaining = np.cumsum(np.linalg.eigvalsh(objective.covariance))
            low = d - int(np.searchsorted(remaining, tol, side="right"))  # fewer are not enough
            high = d + 1 if max_batch_size is None else max_batch_size
            return smallest_sufficient(best, max(1, min(low, high)), high, tol)

    def _check_theta(self, theta: npt.ArrayLike) -> FloatArray:
        x = np.array(theta, dtype=np.float64)
        d = x.size if self._points is None else self._points.shape[1]
        if x.shape != (d,) or not np.isfinite(x).all():
            raise ValueError(f"theta must be a finite array of shape ({d},).")
        return x

    def _problem(self, theta: npt.ArrayLike, bounds: Any) -> tuple[GradientTrace, Box]:
        """Return the objective of a design, and the box of its points."""
        theta = self._check_theta(theta)
        box = search_box(self._derivatives, theta, bounds)
        D = np.empty((0, len(theta))) if self._points is None else self._points
        limit = max(_LARGEST_HISTORY, 4 * (len(theta) + 1))
        if len(D) > limit:  # fewer points give an upper bound of the trace
            distance = np.sum(((D - theta) / box.scale) ** 2, axis=1)
            # In chronological order: the starting designs mirror the latest points.
            D = D[np.sort(np.argsort(distance, kind="stable")[:limit])]
        nugget = self.noise_variance + self.design_jitter * varying_variance(
            self._derivatives, theta
        )
        return GradientTrace(self._derivatives, theta, D, nugget), box
