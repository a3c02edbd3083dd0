"""Gaussian process regression on protected records, and on rows that a curator released."""

from skdpbo.gaussian_process._modeler import GPUCBModeler
from skdpbo.gaussian_process._projected import ProjectedGP
from skdpbo.gaussian_process._projection import PrivateProjection
from skdpbo.gaussian_process._projection_release import ProjectionRelease
from skdpbo.gaussian_process._protocol import optimize, run_queries, serve_answers
from skdpbo.gaussian_process._protocol_messages import Answer, ProtocolError, Query, Refusal
from skdpbo.gaussian_process._row_domains import Ball, Box
from skdpbo.gaussian_process._sparse import DPSparseGPRegressor
from skdpbo.gaussian_process._sparse_cv import DPSparseGPRegressorCV

__all__ = [
    "Answer",
    "Ball",
    "Box",
    "DPSparseGPRegressor",
    "DPSparseGPRegressorCV",
    "GPUCBModeler",
    "PrivateProjection",
    "ProjectedGP",
    "ProjectionRelease",
    "ProtocolError",
    "Query",
    "Refusal",
    "optimize",
    "run_queries",
    "serve_answers",
]
