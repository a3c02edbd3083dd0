"""Two correlated tasks at the same candidates: public scores, and private ones near them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel

from skdpbo.privacy._checks import check_positive
from skdpbo.surrogate._linalg import FloatArray
from skdpbo.surrogate._posterior import CandidatePosterior, check_candidates, prior_variance

Indices = Sequence[int] | npt.NDArray[np.integer[Any]]


class TwoTaskPosterior:
    r"""Posterior of a public and a private objective over n candidates, given values of both.

    The model is :math:`f_{private} = f_{public} + g` with independent

    .. math:: f_{public} \sim GP(m, k), \qquad g \sim GP(0, \tau^2 k / k(0)).

    It is Kusner et al.'s prior k1 (x) k2 over data sets and hyper-parameters (2015, Section 3),
    with two data sets, as a model: no guarantee rests on it. One more value of either task costs
    O(T n) time.

    Values must be public or already released; the posterior is then post-processing.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance k of the public task, without a `WhiteKernel`; it is cloned.
    X_candidates : array-like of shape (n, n_features)
        Encoded candidates.
    disagreement : float or Kernel
        tau, the prior standard deviation of the difference of the tasks, > 0, in the units of the
        values; or the covariance of the difference. A kernel with a constant in it allows for a
        shift that all candidates share.
    noise_variance : float, default=0.0
        Variance of the noise of a public value, >= 0, in squared units of the values.
    prior_mean : float or array-like of shape (n,), default=0.0
        Prior mean m of both tasks.

    Attributes
    ----------
    n_candidates : int
        Number n of candidates.
    mean, std : ndarray of shape (n,)
        Posterior mean and standard deviation of the private task (not of a noisy value),
        read-only.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> tasks = TwoTaskPosterior(RBF(0.5), [[0.0], [0.5], [1.0]], disagreement=0.5)
    >>> tasks.extend_public([0], [1.0])
    >>> tasks.extend_private([0], [2.0], 0.25)
    >>> tasks.mean.round(3)
    array([1.5  , 0.91 , 0.203])
    """

    def __init__(
        self,
        kernel: Any,
        X_candidates: npt.ArrayLike,
        *,
        disagreement: float | Any,
        noise_variance: float = 0.0,
        prior_mean: float | npt.ArrayLike = 0.0,
    ) -> None:
        X = check_candidates(X_candidates)
        self.n_candidates = n = len(X)
        self.disagreement = disagreement
        # The candidates twice, with the task (0: public, 1: private) as one more feature.
        tasks = np.vstack([np.column_stack([X, np.full(n, task)]) for task in (0.0, 1.0)])
        m = np.broadcast_to(np.asarray(prior_mean, dtype=np.float64), (n,))
        largest = float(prior_variance(kernel, X).max())  # k(0); refuses a WhiteKernel
        difference = disagreement
        if not isinstance(disagreement, Kernel):
            tau = float(check_positive(disagreement, "disagreement"))
            # tau where the variance of the kernel is largest, and less elsewhere.
            difference = ConstantKernel(tau**2 / largest, "fixed") * kernel
        self._posterior = CandidatePosterior(
            _TwoTaskKernel(kernel, difference),
            tasks,
            noise_variance=noise_variance,
            prior_mean=np.concatenate([m, m]),
        )

    def __len__(self) -> int:
        """Return the number of values of both tasks."""
        return len(self._posterior)

    @property
    def mean(self) -> FloatArray:
        """Posterior mean of the private task, shape (n,)."""
        return self._posterior.mean[self.n_candidates :]

    @property
    def std(self) -> FloatArray:
        """Posterior standard deviation of the private task, shape (n,)."""
        return self._posterior.std[self.n_candidates :]

    def extend_public(
        self,
        indices: Indices,
        values: npt.ArrayLike,
        noise_variances: npt.ArrayLike | None = None,
    ) -> None:
        """Condition on several public values, in one block.

        Parameters
        ----------
        indices : sequence of int of length b
            Candidates, in [0, n).
        values : array-like of shape (b,)
            Finite.
        noise_variances : array-like of shape (b,) or (), default=None
            None takes the constructor's noise variance for all.
        """
        self._extend(0, indices, values, noise_variances)

    def extend_private(
        self, indices: Indices, values: npt.ArrayLike, noise_variances: npt.ArrayLike
    ) -> None:
        """Condition on several private values, in one block.

        Parameters
        ----------
        indices : sequence of int of length b
            Candidates, in [0, n).
        values : array-like of shape (b,)
            Released, finite.
        noise_variances : array-like of shape (b,) or ()
            Variances of the noise that was added, >= 0.
        """
        self._extend(self.n_candidates, indices, values, noise_variances)

    def copy(self) -> TwoTaskPosterior:
        """Return an independent posterior, for values that are imagined (batch designs).

        Returns
        -------
        TwoTaskPosterior
            With the same values of both tasks.
        """
        new = copy.copy(self)
        new._posterior = self._posterior.copy()
        return new

    def log_marginal_likelihood(self) -> float:
        """Log density of the values of both tasks under the prior.

        Returns
        -------
        float
            In nats; 0 without values.
        """
        return self._posterior.log_marginal_likelihood()

    def _extend(
        self,
        start: int,
        indices: Indices,
        values: npt.ArrayLike,
        noise_variances: npt.ArrayLike | None,
    ) -> None:
        """Condition on values of the task whose candidates begin at `start`."""
        idx = np.asarray(indices)
        if idx.size and not np.issubdtype(idx.dtype, np.integer):
            raise TypeError("indices must be integers.")
        # An index of n or more would be one of the other task.
        if ((idx < 0) | (idx >= self.n_candidates)).any():
            raise IndexError("index must be in [0, n_candidates).")
        idx = start + idx.astype(np.intp)
        # Rank one: no factorisation of a block.
        if len(idx) == 1 == np.size(values):
            s2 = None if noise_variances is None else float(np.ravel(noise_variances)[0])
            self._posterior.append(int(idx[0]), float(np.ravel(values)[0]), s2)
        else:
            self._posterior.extend(idx, values, noise_variances)


class _TwoTaskKernel(Kernel):  # type: ignore[misc]
    """k((x, s), (x', t)) = k_public(x, x') + s t k_difference(x, x'), tasks in the last column."""

    def __init__(self, public: Any, difference: Any) -> None:
        self.public = public
        self.difference = difference

    def __call__(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        Y = X if Y is None else Y
        both = np.outer(X[:, -1], Y[:, -1])  # 1 where both values are private: g counts there alone
        return np.asarray(
            self.public(X[:, :-1], Y[:, :-1]) + both * self.difference(X[:, :-1], Y[:, :-1])
        )

    def diag(self, X: FloatArray) -> FloatArray:
        """Prior variances, shape (len(X),)."""
        return np.asarray(
            self.public.diag(X[:, :-1]) + X[:, -1] ** 2 * self.difference.diag(X[:, :-1])
        )

    def is_stationary(self) -> bool:
        """Return False: the variance depends on the task."""
        return False
