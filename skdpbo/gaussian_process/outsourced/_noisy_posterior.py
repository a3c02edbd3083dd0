"""Posterior of a Gaussian process given noisy rows and public targets, at exact rows."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from sklearn.base import clone
from sklearn.gaussian_process.kernels import ConstantKernel

from skdpbo.gaussian_process.outsourced._noisy_covariance import noisy_inputs
from skdpbo.surrogate import fit_hyperparameters

_NOISE_FLOOR = 1e-10  # relative to the prior variance
_CHUNK = 4096  # rows at a time
# Number of rows from which the starts of a fit use a subset, and the largest subset.
_MANY, _MOST_OF_PART = 900, 1000


@dataclass(frozen=True, eq=False)
class TargetPosterior:
    """f ~ GP(c, k) given y at noisy rows: everything in it is public or released.

    Attributes
    ----------
    kernel : sklearn kernel
        k on exact rows, in squared units of y.
    noise_variance, prior_mean : float
    cross : sklearn kernel
        Covariance of exact with released rows.
    L : ndarray of shape (n, n)
        Cholesky factor of the covariance of y.
    weights : ndarray of shape (n,)
        Inverse covariance of y, times y - c.
    log_marginal_likelihood : float
        Of y.
    """

    kernel: object
    noise_variance: float
    prior_mean: float
    cross: object
    L: np.ndarray
    weights: np.ndarray
    log_marginal_likelihood: float

    def at(self, rows, Z, second=None):
        """Posterior mean at exact rows, shape (m,), and the `second` moment, if one is named.

        "variance" is of shape (m,), "covariance" of shape (m, m).
        """
        K = self.cross(rows, Z)
        mean = self.prior_mean + K @ self.weights
        if second is None:
            return mean
        V = solve_triangular(self.L, K.T, lower=True, check_finite=False)
        if second == "covariance":
            return mean, self.kernel(rows) - V.T @ V
        variance = self.kernel.diag(rows) - np.einsum("ij,ij->j", V, V)
        return mean, np.maximum(variance, 0.0)  # rounding


def fixed_target(kernel, Z, y, *, noise_std, noise_variance, prior_mean=None):
    """Posterior of one target for given parameters.

    Parameters
    ----------
    kernel : sklearn kernel
        On exact rows, in squared units of y.
    Z : ndarray of shape (n, r)
        Released rows, or their posterior means (`BelievedRows`).
    y : ndarray of shape (n,)
        Public.
    noise_std : float or ndarray of shape (r,)
        Standard deviation of the noise of the rows.
    noise_variance : float
        Variance of the noise of y.
    prior_mean : float or None, default=None
        None for the mean of y.

    Returns
    -------
    TargetPosterior
    """
    prior_mean = float(y.mean()) if prior_mean is None else prior_mean
    # Two noisy rows between training rows, one between a training row and an exact one.
    K = noisy_inputs(kernel, noise_std, n_noisy=2)(Z)
    floor = _NOISE_FLOOR * float(np.max(np.diagonal(K)))  # equal rows would make K singular
    K.flat[:: len(K) + 1] += max(noise_variance, floor)
    L = cholesky(K, lower=True, check_finite=False)
    weights = cho_solve((L, True), y - prior_mean, check_finite=False)
    # Rasmussen & Williams 2006, Eq. 2.30
    log_density = -0.5 * (y - prior_mean) @ weights - np.log(np.diagonal(L)).sum()
    log_density -= 0.5 * len(y) * np.log(2 * np.pi)
    cross = noisy_inputs(kernel, noise_std, n_noisy=1)
    return TargetPosterior(
        kernel, float(noise_variance), prior_mean, cross, L, weights, float(log_density)
    )


def fitted_target(kernel, Z, y, *, noise_std, noise_variance, n_starts):
    """Posterior of one target, its parameters fitted by maximum marginal likelihood.

    Parameters
    ----------
    kernel : sklearn kernel
        Template for standardised targets.
    Z, y, noise_std
        As for `fixed_target`.
    noise_variance : float or None
        None: fitted, too.
    n_starts : int

    Returns
    -------
    TargetPosterior
    """
    # If the noise variance is given, none is fitted.
    known = {} if noise_variance is None else {"noise_variance_bounds": "fixed"}
    fit = partial(
        fit_hyperparameters,
        noisy_inputs(kernel, noise_std, n_noisy=2),
        noise_variance=0.0 if noise_variance is None else noise_variance,
        **known,
    )
    if len(y) < _MANY:
        found = fit(Z, y, n_starts=n_starts)
    else:  # the starts use a subset of the rows, the final fit all of them
        part = np.random.RandomState(0).permutation(len(y))[: min(len(y) // 3, _MOST_OF_PART)]
        found = fit(Z, y, n_starts=1, previous=fit(Z[part], y[part], n_starts=n_starts))
    # The fitted parameters are those of the kernel on exact rows: `noisy_inputs` keeps theta.
    unit = clone(kernel).clone_with_theta(found.unit_kernel.theta)
    return fixed_target(
        ConstantKernel(found.y_scale**2, "fixed") * unit,
        Z,
        y,
        noise_std=noise_std,
        noise_variance=found.noise_variance if noise_variance is None else noise_variance,
        prior_mean=found.prior_mean,
    )


@dataclass(frozen=True, eq=False)
class ProjectedPredictor:
    """Predictions at rows of X, which are mapped without noise first.

    Attributes
    ----------
    exact : callable
        Maps rows of X, shape (m, d), to exact rows, shape (m, r).
    believed : BelievedRows
        Of the release.
    targets : list of TargetPosterior
    """

    exact: object
    believed: object
    targets: list

    @property
    def log_marginal_likelihood(self):
        """Sum over the targets."""
        return sum(target.log_marginal_likelihood for target in self.targets)

    def mean(self, X):
        """Posterior mean, shape (m, q)."""
        return self._by_chunks(X, None)

    def moments(self, X):
        """Posterior mean and variance, each of shape (m, q)."""
        both = self._by_chunks(X, "variance")  # columns: mean and variance of each target in turn
        return both[:, ::2], both[:, 1::2]

    def joint(self, X):
        """Posterior mean, shape (m, q), and covariance, shape (m, m, q)."""
        rows = self.believed.place(self.exact(X))
        parts = [target.at(rows, self.believed.rows, "covariance") for target in self.targets]
        means, covariances = zip(*parts, strict=True)
        return np.stack(means, axis=-1), np.stack(covariances, axis=-1)

    def _by_chunks(self, X, second):
        parts = []
        for start in range(0, len(X), _CHUNK):
            rows = self.believed.place(self.exact(X[start : start + _CHUNK]))
            columns = [t.at(rows, self.believed.rows, second) for t in self.targets]
            parts.append(np.concatenate([*map(np.atleast_2d, columns)]).T)
        return np.concatenate(parts)
