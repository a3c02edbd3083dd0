"""Noise and releases: exact samplers and the mechanisms built on them, without scikit-learn."""

from ._laplace import DiscreteLaplace
from ._sampling import RandomSource, noise_source
from ._selection import ExponentialMechanism, PermuteAndFlip

__all__ = [
    "DiscreteLaplace",
    "ExponentialMechanism",
    "PermuteAndFlip",
    "RandomSource",
    "noise_source",
]
