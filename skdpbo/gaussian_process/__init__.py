"""Gaussian processes on protected records, and on rows that a curator released."""

from skdpbo.gaussian_process.outsourced._curator import PrivateProjection
from skdpbo.gaussian_process.outsourced._modeler import GPUCBModeler
from skdpbo.gaussian_process.outsourced._projected_gp import ProjectedGP
from skdpbo.gaussian_process.outsourced._protocol import optimize
from skdpbo.gaussian_process.outsourced._row_release import ProjectionRelease
from skdpbo.gaussian_process.sparse._classifier import DPSparseGPClassifier
from skdpbo.gaussian_process.sparse._regressor import DPSparseGPRegressor

__all__ = [
    "DPSparseGPClassifier",
    "DPSparseGPRegressor",
    "GPUCBModeler",
    "PrivateProjection",
    "ProjectedGP",
    "ProjectionRelease",
    "optimize",
]
