"""Sparse Gaussian process regression that protects every training record."""
