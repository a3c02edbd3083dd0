"""Gaussian-process posterior over a finite candidate set, updated one observation at a time."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from sklearn.base import clone
from sklearn.gaussian_process.kernels import WhiteKernel

from skdpbo.privacy._checks import check_real, check_within
from skdpbo.surrogate._linalg import RELATIVE_NOISE_FLOOR, FloatArray

_INITIAL_CAPACITY = 16


class CandidatePosterior:
    r"""Posterior of f ~ GP(m, k) at n fixed candidates, given noisy values at some of them.

    With observed indices i_1, ..., i_T, K the (T, T) prior covariance of the observed candidates,
    N the diagonal matrix of the noise variances and v the (T,) observed values, it holds

    .. math::
        \mu(\lambda) = m + k_T(\lambda)^\top (K + N)^{-1} (v - m), \qquad
        \sigma^2(\lambda) = k(\lambda, \lambda) - k_T(\lambda)^\top (K + N)^{-1} k_T(\lambda)

    (Kusner et al. 2015, Eq. 2), as the rows of :math:`V = L^{-1} K(X_T, \Lambda)` with
    :math:`L L^\top = K + N`. As every observed point is a candidate, a new row of L is a column
    of V, and one more observation costs O(T n) time: no factorisation, no triangular solve.

    The posterior is as public or protected as the values.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or ndarray of shape (n, n)
        Prior covariance k, without a `WhiteKernel` (noise is `noise_variance`); it is cloned. An
        array is taken as the covariance matrix of the candidates itself, and is not copied.
    X_candidates : array-like of shape (n, n_features)
        Encoded candidates. Near or exact duplicates are allowed. With an array `kernel`, only
        the number of rows is used.
    noise_variance : float
        Variance of the noise of an observation, in squared units of the values; >= 0 (see Notes
        for 0).
    prior_mean : float or array-like of shape (n,), default=0.0
        Prior mean m, in the units of the values.

    Attributes
    ----------
    n_candidates : int
        Number n of candidates.
    mean, std : ndarray of shape (n,)
        Posterior mean and standard deviation of f (not of a noisy value), read-only snapshots.
    observed : ndarray of shape (T,)
        Indices of the observed candidates, in order, repeats included.
    values : ndarray of shape (T,)
        Observed values, in the same order.

    Notes
    -----
    K + N is factored with the noise variances raised, where they are smaller, to 1e-10 times the
    largest prior variance: the noise-free posterior is that of a noise 1e-5 prior standard
    deviations strong, in whatever order the values come. Every pivot of L is then above that
    floor, so repeats, near duplicates and numerically singular kernels are harmless. Contradictory
    values at one noise-free point are averaged.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> surrogate = CandidatePosterior(RBF(0.5), [[0.0], [0.5], [1.0]], noise_variance=0.0)
    >>> surrogate.append(0, 1.0)
    >>> surrogate.mean.round(3)
    array([1.   , 0.607, 0.135])
    """

    def __init__(
        self,
        kernel: Any,
        X_candidates: npt.ArrayLike,
        *,
        noise_variance: float,
        prior_mean: float | npt.ArrayLike = 0.0,
    ) -> None:
        self.kernel = kernel if isinstance(kernel, np.ndarray) else clone(kernel)
        self.X_candidates = check_candidates(X_candidates)
        self.noise_variance = check_within(noise_variance, "noise_variance", "[0, inf)")
        self.prior_mean = prior_mean
        self.n_candidates = n = len(self.X_candidates)
        self._prior_variance = prior_variance(kernel, self.X_candidates)
        self._prior_mean = np.broadcast_to(np.asarray(prior_mean, dtype=np.float64), (n,))
        if not np.isfinite(self._prior_mean).all():
            raise ValueError("prior_mean must be finite.")
        self._floor = RELATIVE_NOISE_FLOOR * float(self._prior_variance.max())
        self._T = 0
        # Not np.empty: pickles would contain earlier contents of the memory.
        self._V: FloatArray = np.zeros((_INITIAL_CAPACITY, n))
        self._observed: list[int] = []
        self._values: list[float] = []
        self.mean = _frozen(self._prior_mean)
        self._variance = self._prior_variance

    def __len__(self) -> int:
        """Return the number T of observations."""
        return self._T

    @property
    def std(self) -> FloatArray:
        """Posterior standard deviation of f, shape (n,)."""
        return _frozen(np.sqrt(np.maximum(self._variance, 0.0)))

    @property
    def observed(self) -> npt.NDArray[np.intp]:
        """Observed indices in order, shape (T,)."""
        return np.array(self._observed, dtype=np.intp)

    @property
    def values(self) -> FloatArray:
        """Observed values in order, shape (T,)."""
        return np.array(self._values)

    def append(self, index: int, value: float, noise_variance: float | None = None) -> None:
        """Condition on one more value, in O(T n).

        Parameters
        ----------
        index : int
            Candidate that was observed, in [0, n); may have been observed before.
        value : float
            Its public or released value, finite.
        noise_variance : float or None, default=None
            Variance of this value's noise; None takes that of the constructor.
        """
        i, v, s2 = self._check_observation(index, value, noise_variance)
        t = self._T
        column = self._V[:t, i].copy()  # L^{-1} k(X_T, x_i): the new row of L
        # One more row of the Cholesky factor of K + N: l = V[:, i], l_tt^2 = sigma^2(i) + s^2.
        pivot = math.sqrt(max(float(self._variance[i]), 0.0) + max(s2, self._floor))
        prior = prior_rows(self.kernel, self.X_candidates, np.array([i]))[0]
        row = (prior - column @ self._V[:t]) / pivot
        # The current mean at i is m_i + column @ z, so this is the new entry of L^{-1} (v - m).
        z = (v - float(self.mean[i])) / pivot
        self.mean = _frozen(self.mean + z * row)
        self._variance = self._variance - row * row  # Kusner et al. (2015), Eq. 2, one term
        self._record(row[None], [i], [v])

    def extend(
        self,
        indices: Sequence[int] | npt.NDArray[np.integer[Any]],
        values: npt.ArrayLike,
        noise_variances: npt.ArrayLike | None = None,
    ) -> None:
        """Condition on several values at once: the same posterior as `append` on each, faster.

        Parameters
        ----------
        indices : sequence of int of length b
            Candidates that were observed, in [0, n); repeats allowed.
        values : array-like of shape (b,)
            Their public or released values, finite.
        noise_variances : array-like of shape (b,) or (), default=None
            None takes the constructor's noise variance for all.
        """
        vs = np.atleast_1d(np.asarray(values, dtype=np.float64))
        default = self.noise_variance if noise_variances is None else noise_variances
        s2s = np.broadcast_to(np.asarray(default, dtype=np.float64), vs.shape)
        if len(indices) != len(vs):
            raise ValueError("indices and values must have the same length.")
        rows = [self._check_observation(*row) for row in zip(indices, vs, s2s, strict=True)]
        # `append` is faster for one value, and needs no positive definite block.
        if len(rows) < 2 or not self._extend_by_block(rows):
            for row in rows:
                self.append(*row)

    def copy(self) -> CandidatePosterior:
        """Return an independent posterior, for values that are imagined (batch designs).

        Returns
        -------
        CandidatePosterior
            With the same observations.
        """
        # Mean and variance may be shared, as they are never modified in place.
        new = copy.copy(self)
        new._V = self._V[: self._T].copy()
        new._observed, new._values = [*self._observed], [*self._values]
        return new

    def _extend_by_block(self, rows: list[tuple[int, float, float]]) -> bool:
        """Block version of append; False, and nothing changed, if rounding defeats Cholesky."""
        idx = np.array([row[0] for row in rows])
        v, s2 = (np.array([row[c] for row in rows]) for c in (1, 2))
        old = self._V[: self._T]
        L21 = old[:, idx].T  # (b, t)
        prior = prior_rows(self.kernel, self.X_candidates, idx)
        C = prior - L21 @ old  # posterior covariance of the new points with all candidates
        try:
            L = np.linalg.cholesky(C[:, idx] + np.diag(np.maximum(s2, self._floor)))
        except np.linalg.LinAlgError:
            return False
        V = solve_triangular(L, C, lower=True, check_finite=False)
        z = solve_triangular(L, v - self.mean[idx], lower=True, check_finite=False)
        # New rows of V add to both terms of Eq. 2; none of the old ones changes.
        self.mean = _frozen(self.mean + z @ V)
        self._variance = self._variance - np.einsum("ij,ij->j", V, V)
        self._record(V, idx.tolist(), v.tolist())
        return True

    def _record(self, rows: FloatArray, i: list[int], v: list[float]) -> None:
        """Store new rows of V, and the observations."""
        end = self._T + len(i)
        if end > len(self._V):
            # Doubled, so that T appends copy O(T n) numbers in total.
            grown = np.zeros((max(end, 2 * len(self._V)), self.n_candidates))
            grown[: self._T] = self._V[: self._T]
            self._V = grown
        self._V[self._T : end] = rows
        self._observed += i
        self._values += v
        self._T = end

    def _check_observation(
        self, index: int, value: float, noise_variance: float | None
    ) -> tuple[int, float, float]:
        i = operator.index(index)
        if not 0 <= i < self.n_candidates:
            raise IndexError("index must be in [0, n_candidates).")
        noise = self.noise_variance if noise_variance is None else noise_variance
        s2 = check_within(noise, "noise_variance", "[0, inf)")
        return i, float(check_real(value, "value")), s2


def _frozen(array: FloatArray) -> FloatArray:
    # Results are returned without a copy, hence read-only. A read-only input is a view of the
    # caller's prior mean, which may change later: it is copied.
    out = np.array(array) if array.flags.writeable is False else array
    out.flags.writeable = False
    return out


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
        # get_params is deep: the parts of sums and products are among its values.
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
