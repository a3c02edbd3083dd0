"""Two correlated tasks on the same candidates: public scores and private ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel

from skdpbo.privacy._checks import check_positive
from skdpbo.surrogate._linalg import FloatArray
from skdpbo.surrogate._posterior import CandidatePosterior, check_candidates, prior_variance


def two_task_posterior(
    kernel: Any,
    X_candidates: npt.ArrayLike,
    *,
    disagreement: float,
    noise_variance: float = 0.0,
    prior_mean: float | npt.ArrayLike = 0.0,
) -> CandidatePosterior:
    r"""Return the posterior of a public and a private objective over n candidates.

    The model is :math:`f_{private} = f_{public} + g` with independent

    .. math:: f_{public} \sim GP(m, k), \qquad g \sim GP(0, \tau^2 k / k(0)).

    This is Kusner et al.'s prior k1 (x) k2 over data sets and hyper-parameters (2015, Section 3),
    with two data sets, used as a model: no guarantee depends on it. Another value of either
    objective costs O(T n) time.

    Values must be public or already released; the posterior is then post-processing.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance k of the public objective, without a `WhiteKernel`; it is cloned.
    X_candidates : array-like of shape (n, n_features)
        Encoded candidates.
    disagreement : float
        tau, the prior standard deviation of the difference of the objectives where that of the
        kernel is largest, > 0, in the units of the values.
    noise_variance : float, default=0.0
        Variance of the noise of a public value, >= 0, in squared units of the values.
    prior_mean : float or array-like of shape (n,), default=0.0
        Prior mean m of both.

    Returns
    -------
    posterior : CandidatePosterior
        Over 2 n candidates: first the n candidates for the public objective, then the same ones for
        the private objective.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> tasks = two_task_posterior(RBF(0.5), [[0.0], [0.5], [1.0]], disagreement=0.5)
    >>> tasks.extend([0], [1.0])
    >>> tasks.extend([3 + 0], [2.0], 0.25)
    >>> tasks.mean[3:].round(3)
    array([1.5  , 0.91 , 0.203])
    """
    X = check_candidates(X_candidates)
    # The candidates twice, with the task (0: public, 1: private) as one more feature.
    tasks = np.vstack([np.column_stack([X, np.full(len(X), task)]) for task in (0.0, 1.0)])
    m = np.broadcast_to(np.asarray(prior_mean, dtype=np.float64), len(X))
    largest = float(prior_variance(kernel, X).max())  # k(0); refuses a WhiteKernel
    tau = float(check_positive(disagreement, "disagreement"))
    return CandidatePosterior(
        _TwoTaskKernel(kernel, ConstantKernel(tau**2 / largest, "fixed") * kernel),
        tasks,
        noise_variance=noise_variance,
        prior_mean=np.concatenate([m, m]),
    )


class _TwoTaskKernel(Kernel):  # type: ignore[misc]
    """k((x, s), (x', t)) = k_public(x, x') + s t k_difference(x, x'), tasks in the last column."""

    def __init__(self, public: Any, difference: Any) -> None:
        self.public = public
        self.difference = difference

    def __call__(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        Y = X if Y is None else Y
        both_private = np.outer(X[:, -1], Y[:, -1])
        public, difference = (k(X[:, :-1], Y[:, :-1]) for k in (self.public, self.difference))
        return np.asarray(public + both_private * difference)

    def diag(self, X: FloatArray) -> FloatArray:
        """Prior variances, shape (len(X),)."""
        return np.asarray(
            self.public.diag(X[:, :-1]) + X[:, -1] ** 2 * self.difference.diag(X[:, :-1])
        )

    def is_stationary(self) -> bool:
        """Return False: the variance depends on the task."""
        return False
