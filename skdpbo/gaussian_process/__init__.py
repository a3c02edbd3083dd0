"""Gaussian process regression on protected records, and on rows that a curator released."""

from skdpbo.gaussian_process._modeler import GPUCBModeler
from skdpbo.gaussian_process._projection_release import Ball, Box, ProjectionRelease
from skdpbo.gaussian_process._protocol import (
    Answer,
    ProtocolError,
    Query,
    Refusal,
    optimize,
    run_queries,
    serve_answers,
)
from skdpbo.gaussian_process._sparse import DPSparseGPRegressor

__all__ = [
    "Answer",
    "Ball",
    "Box",
    "DPSparseGPRegressor",
    "GPUCBModeler",
    "ProjectionRelease",
    "ProtocolError",
    "Query",
    "Refusal",
    "optimize",
    "run_queries",
    "serve_answers",
]
