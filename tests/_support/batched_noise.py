"""Noise of many small releases, drawn at once: an audit of tiny releases in a third of the time."""

import numpy as np
import pytest

from skdpbo.mechanisms import GaussianMechanism

__all__ = ["batched"]


@pytest.fixture
def batched(monkeypatch):
    """Let Gaussian mechanisms of one scale share batches of 2000 deviates, each used once."""
    honest, drawn = GaussianMechanism._noise, {}

    def noise(self, size, source):
        batch = drawn.get((self.sigma, self.step), ())
        if len(batch) < size:
            batch = honest(self, 2000, source)
        own, drawn[self.sigma, self.step] = np.split(batch, [size])
        return own

    monkeypatch.setattr(GaussianMechanism, "_noise", noise)
