"""A tiny private trainer with two continuous parameters, which notes what it is given."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from skdpbo.mechanisms import GaussianMechanism, noise_source
from skdpbo.privacy import PrivacyGuarantee, charge_active_ledger, mu_from_epsilon

__all__ = ["PREDICTED", "SEEN", "PrivateMean"]

UNITS = 2**20
PREDICTED = []  # X of each prediction
SEEN = []  # of each training: (mu, X, y); the trainings of a test run in its process


class PrivateMean(RegressorMixin, BaseEstimator):
    """Noisy mean of targets in [-1, 1], times a factor, plus a shift."""

    def __init__(self, factor=0.5, shift=0.0, epsilon=1.0, delta=1e-5, random_state=None):
        self.factor = factor
        self.shift = shift
        self.epsilon = epsilon
        self.delta = delta
        self.random_state = random_state

    def privacy_guarantee(self, n_samples=None, *, groups=False):
        """Return the guarantee of one fit."""
        return PrivacyGuarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            mu=mu_from_epsilon(self.epsilon, self.delta),
            neighbours="one group replaced" if groups else "replace-one",
            protects="training records",
            mechanism="noisy mean",
        )

    def fit(self, X, y, groups=None):
        """Release the mean; of groups the first record counts."""
        guarantee = self.privacy_guarantee(groups=groups is not None)
        charge_active_ledger(guarantee, "PrivateMean")
        SEEN.append((guarantee.mu, np.array(X, dtype=float), np.array(y, dtype=float)))
        y = np.nan_to_num(np.clip(np.asarray(y, dtype=float), -1, 1))
        if groups is not None:
            y = y[np.unique(groups, return_index=True)[1]]
        noise = GaussianMechanism(mu=guarantee.mu, sensitivity=2 * UNITS, lattice=1.0, n_draws=1)
        total = int(np.rint(y * UNITS).sum())
        noisy = int(noise.release(total, source=noise_source(self.random_state)))
        self.mean_ = self.shift + self.factor * noisy / UNITS / len(y)
        self.n_features_in_, self.privacy_ = np.shape(X)[1], guarantee
        return self

    def predict(self, X):
        """Return the mean for every row."""
        PREDICTED.append(np.array(X, dtype=float))
        return np.full(len(X), self.mean_)
