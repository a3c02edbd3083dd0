"""Gaussian process regression on protected records, and on rows that a curator released."""

from skdpbo.gaussian_process._projection_release import Ball, Box, ProjectionRelease
from skdpbo.gaussian_process._sparse import DPSparseGPRegressor

__all__ = ["Ball", "Box", "DPSparseGPRegressor", "ProjectionRelease"]
