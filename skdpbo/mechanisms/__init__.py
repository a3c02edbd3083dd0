"""Noise and releases: exact samplers and the mechanisms built on them, without scikit-learn."""

from ._clip_quantile import ClipQuantile
from ._clipping import ClippedMean
from ._coinpress import CoinPressMean
from ._gaussian import DiscreteGaussian, GaussianMechanism
from ._l2_laplace import L2Laplace
from ._laplace import DiscreteLaplace
from ._lattice import from_lattice, to_lattice
from ._mean import BoundedMean
from ._schedule import split_budget, step_budgets
from ._selection import ExponentialMechanism, PermuteAndFlip
from ._source import RandomSource, noise_source
from ._trials import draw_trials

__all__ = [
    "BoundedMean",
    "ClipQuantile",
    "ClippedMean",
    "CoinPressMean",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExponentialMechanism",
    "GaussianMechanism",
    "L2Laplace",
    "PermuteAndFlip",
    "RandomSource",
    "draw_trials",
    "from_lattice",
    "noise_source",
    "split_budget",
    "step_budgets",
    "to_lattice",
]
