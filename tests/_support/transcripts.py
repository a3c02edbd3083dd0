"""Budget that a fit spends on a pair of neighbours, from the transcript of its releases.

The second fit is given the noisy values of the first. Each of its releases then has the same
earlier outputs, and the sum of (change / standard deviation)^2 over all releases is the squared
Gaussian budget spent on this pair: at most mu^2 for any pair if the fit is mu-GDP.
"""

import warnings

import numpy as np

from skdpbo.exceptions import DefaultBoundsWarning, SeededNoiseWarning
from skdpbo.mechanisms import GaussianMechanism

__all__ = ["spent"]


def spent(monkeypatch, fit, one, other):
    """Return the squared budget spent on neighbours; ``fit(*one)`` runs a fit."""
    honest, noisy, exact = GaussianMechanism.release, [], []
    changes = []

    def record(self, values, source=None):
        noisy.append(honest(self, values, source))
        exact.append(np.asarray(values, dtype=object).ravel())
        return noisy[-1]

    def replay(self, values, source=None):
        k = len(changes)
        change = (np.asarray(values, dtype=object).ravel() - exact[k]).astype(float)
        changes.append(np.linalg.norm(change) / (self.sigma / self.step))
        return noisy[k]

    for release, records in ((record, one), (replay, other)):
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore", (SeededNoiseWarning, DefaultBoundsWarning))
            patch.setattr(GaussianMechanism, "release", release)
            fit(*records)
    assert len(changes) == len(exact) > 0
    return float(np.sum(np.square(changes)))
