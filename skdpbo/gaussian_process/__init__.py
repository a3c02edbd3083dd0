"""Gaussian process regression that protects every training record."""

from skdpbo.gaussian_process._sparse import DPSparseGPRegressor

__all__ = ["DPSparseGPRegressor"]
