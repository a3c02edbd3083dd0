"""Noise and releases: exact samplers and the mechanisms built on them, without scikit-learn."""

from skdpbo.mechanisms._clip_quantile import ClipQuantile
from skdpbo.mechanisms._clipping import ClippedMean
from skdpbo.mechanisms._coinpress import CoinPressMean
from skdpbo.mechanisms._gaussian import DiscreteGaussian, GaussianMechanism
from skdpbo.mechanisms._l2_laplace import L2Laplace
from skdpbo.mechanisms._laplace import DiscreteLaplace
from skdpbo.mechanisms._lattice import from_lattice, to_lattice
from skdpbo.mechanisms._mean import BoundedMean
from skdpbo.mechanisms._noisy_max import ExponentialMechanism, PermuteAndFlip
from skdpbo.mechanisms._schedule import split_budget, step_budgets
from skdpbo.mechanisms._source import RandomSource, noise_source
from skdpbo.mechanisms._trial_count import draw_trials

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
