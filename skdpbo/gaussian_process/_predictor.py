"""Predictions of a Gaussian process given the posterior of its whitened weights."""

from dataclasses import dataclass

import numpy as np

__all__ = ["WeightPredictor"]

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
    covariances : ndarray of shape (q, d, d)
    """

    features: object
    prior_mean: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    def mean(self, X):
        """Posterior mean, shape (n, q)."""
        return self.prior_mean + self._by_chunks(X, lambda phi, rows: phi @ self.means)

    def moments(self, X):
        """Posterior mean and variance, each of shape (n, q)."""
        q = len(self.covariances)
        both = self._by_chunks(X, self._moments_of_chunk)
        return self.prior_mean + both[:, :q], both[:, q:]

    def _moments_of_chunk(self, phi, rows):
        kernel, sf2 = self.features.kernel, self.features.signal_variance
        residual = kernel.diag(rows) - sf2 * np.einsum("ij,ij->i", phi, phi)
        explained = np.stack(
            [np.einsum("ij,ij->i", phi @ P, phi) for P in self.covariances], axis=1
        )
        return np.hstack([phi @ self.means, np.maximum(residual, 0.0)[:, None] + explained])

    def joint(self, X):
        """Posterior mean, shape (n, q), and covariance, shape (n, n, q)."""
        phi = self.features(X)
        residual = self.features.kernel(X) - self.features.signal_variance * phi @ phi.T
        covariances = [residual + phi @ P @ phi.T for P in self.covariances]
        return self.prior_mean + phi @ self.means, np.stack(covariances, axis=-1)

    def at_inducing_points(self):
        """Posterior mean (d, q) and covariance (d, d, q) of f(Z): m = L v / sf, S = L P L' / sf^2.

        In these units of v, phi(Z) is L / sf up to the jitter.
        """
        phi = self.features(self.features.Z)
        covariances = [phi @ P @ phi.T for P in self.covariances]
        return self.prior_mean + phi @ self.means, np.stack(covariances, axis=-1)

    def _by_chunks(self, X, compute):
        parts = []
        for start in range(0, len(X), _CHUNK):
            rows = X[start : start + _CHUNK]
            parts.append(compute(self.features(rows), rows))
        return np.concatenate(parts)
