"""Models and data that cost next to nothing, so that what is measured is the searcher around them.

Kept in a file of its own: joblib's workers import the models by name.
"""

from functools import cache

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from skdpbo.mechanisms import GaussianMechanism, noise_source
from skdpbo.privacy import PrivacyGuarantee, charge_active_ledger, mu_from_epsilon

UNITS = 2**20


class Majority(ClassifierMixin, BaseEstimator):
    """Always the first class. Its parameters change nothing."""

    def __init__(self, a=0.5, b=0.5):
        self.a = a
        self.b = b

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=np.int64)


class Bowl(RegressorMixin, BaseEstimator):
    """A constant whose squared error falls towards the middle of the space of d parameters."""

    def __init__(self, **point):
        self.__dict__.update(point)

    def get_params(self, deep=True):
        return dict(vars(self)) if not hasattr(self, "n_features_in_") else self._point()

    def set_params(self, **point):
        self.__dict__.update(point)
        return self

    def _point(self):
        return {name: value for name, value in vars(self).items() if not name.endswith("_")}

    def fit(self, X, y):
        self.n_features_in_ = np.shape(X)[1]
        self.constant_ = sum((value - 0.5) ** 2 for value in self._point().values())
        return self

    def predict(self, X):
        return np.full(len(X), self.constant_)


class NoisyMean(RegressorMixin, BaseEstimator):
    """Mean of targets in [-1, 1] with Gaussian noise: the least private model there is."""

    def __init__(self, factor=1.0, epsilon=1.0, delta=1e-5):
        self.factor = factor
        self.epsilon = epsilon
        self.delta = delta

    def privacy_guarantee(self, n_samples=None):
        return PrivacyGuarantee(
            epsilon=self.epsilon, delta=self.delta, mu=mu_from_epsilon(self.epsilon, self.delta)
        )

    def fit(self, X, y):
        guarantee = self.privacy_guarantee()
        charge_active_ledger(guarantee, "NoisyMean")
        total = int(np.rint(np.clip(y, -1, 1) * UNITS).sum())
        noise = GaussianMechanism(mu=guarantee.mu, sensitivity=2 * UNITS, lattice=1.0, n_draws=1)
        self.mean_ = self.factor * int(noise.release(total, source=noise_source())) / UNITS / len(X)
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@cache
def labelled(n, d=2):
    """Rows and labels in {0, 1}; made up, and the same in every run."""
    random = np.random.default_rng(0)
    return random.uniform(-1, 1, (n, d)), random.integers(0, 2, n)


@cache
def targets(n, d=2):
    """Rows in [-1, 1] and targets in [-1, 1] that follow the first column."""
    random = np.random.default_rng(1)
    X = random.uniform(-1, 1, (n, d))
    return X, np.clip(np.sin(3 * X[:, 0]) + 0.1 * random.normal(size=n), -1, 1)
