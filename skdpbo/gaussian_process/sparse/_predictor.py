"""Predictions of a Gaussian process given the posterior of its whitened weights.

Predictions under several kernels are averaged by the kernels' posterior probabilities.
"""

from dataclasses import dataclass

import numpy as np

_CHUNK = 4096  # rows at a time


@dataclass(frozen=True)
class WeightPredictor:
    r"""f(x) = c + phi(x)'v + residual, v ~ N(m_j, P_j) for target j; public and released values.

    Attributes
    ----------
    features : WhitenedFeatures
    prior_mean : ndarray of shape (q,)
        c.
    means : ndarray of shape (d, q)
    covariances : ndarray of shape (q, d, d), default=None
        None where the mean alone is needed.
    """

    features: object
    prior_mean: np.ndarray
    means: np.ndarray
    covariances: np.ndarray | None = None

    def mean(self, X):
        """Posterior mean, shape (n, q)."""
        return self.prior_mean + np.concatenate([phi @ self.means for phi, _ in self._chunks(X)])

    def moments(self, X):
        """Posterior mean and variance, each of shape (n, q)."""
        kernel, sf2 = self.features.kernel, self.features.signal_variance
        means, variances = [], []
        for phi, rows in self._chunks(X):
            # Prior variance given f(Z), k(x, x) - k_Z'(K_ZZ + jI)^-1 k_Z, >= 0 up to rounding.
            residual = kernel.diag(rows) - sf2 * np.einsum("ij,ij->i", phi, phi)
            explained = [np.einsum("ij,ij->i", phi @ P, phi) for P in self.covariances]
            variances.append(np.maximum(residual, 0.0)[:, None] + np.stack(explained, axis=1))
            means.append(phi @ self.means)
        return self.prior_mean + np.concatenate(means), np.concatenate(variances)

    def joint(self, X=None):
        """Posterior mean, shape (n, q), and covariance, shape (n, n, q); None: of f(Z) itself.

        At Z the mean is L v / sf and the covariance L P L' / sf^2: in these units of v, phi(Z) is
        L / sf up to the jitter.
        """
        phi = self.features(self.features.Z if X is None else X)
        residual = 0.0
        if X is not None:  # the prior covariance given f(Z), independent of the records
            residual = self.features.kernel(X) - self.features.signal_variance * phi @ phi.T
        covariances = [residual + phi @ P @ phi.T for P in self.covariances]
        return self.prior_mean + phi @ self.means, np.stack(covariances, axis=-1)

    def _chunks(self, X):
        """Yield the features of a few rows at a time, and the rows."""
        for start in range(0, len(X), _CHUNK):
            rows = X[start : start + _CHUNK]
            yield self.features(rows), rows


@dataclass(frozen=True)
class MixturePredictor:
    """Mean and covariance of a mixture of predictors; public and released values.

    Attributes
    ----------
    parts : list of WeightPredictor
    shares : ndarray of shape (n_parts,)
        Probabilities, of sum 1.
    fitted : WeightPredictor or None
        Predictor of the mean in the features of the release; moments are then about its mean.
    mean_shares : ndarray of shape (n_parts,) or None
        Shares of the parts in the predicted mean without `fitted`, of sum 1. None: `shares`.
    left_out : tuple (variances, kernel) or None
        Independent process that is added to all parts: variances of shape (q,), and a kernel of
        variance 1. None: there is none.
    """

    parts: list
    shares: np.ndarray
    fitted: WeightPredictor | None = None
    mean_shares: np.ndarray | None = None
    left_out: tuple | None = None

    def mean(self, X):
        """Mean, shape (n, q)."""
        # With `fitted` the means of the parts are not needed.
        return self._mean([] if self.fitted else [part.mean(X) for part in self.parts], X)

    def moments(self, X):
        """Mean and variance, each of shape (n, q); the spread of the means counts."""
        means, variances = zip(*(part.moments(X) for part in self.parts), strict=True)
        mean = self._mean(means, X)
        # Second moments about the predicted mean, which may differ from the average.
        spreads = [variance + (m - mean) ** 2 for m, variance in zip(means, variances, strict=True)]
        variance = self._average(spreads)
        return mean, variance if self.left_out is None else variance + self.left_out[0]

    def joint(self, X=None):
        """Mean, shape (n, q), and covariance, shape (n, n, q); None: of f(Z) itself."""
        pairs = [part.joint(X) for part in self.parts]
        X = self.parts[0].features.Z if X is None else X
        mean = self._mean([m for m, _ in pairs], X)
        covariance = self._average([S + (m - mean)[:, None] * (m - mean)[None] for m, S in pairs])
        if self.left_out is not None:
            variances, kernel = self.left_out
            covariance = covariance + kernel(X)[:, :, None] * variances
        return mean, covariance

    def _mean(self, means, X):
        """Return the predicted mean, from those of the parts or from the features at X."""
        if self.fitted is not None:
            return self.fitted.mean(X)
        return self._average(means, self.mean_shares)

    def _average(self, values, shares=None):
        return np.tensordot(self.shares if shares is None else shares, np.stack(values), axes=1)
