"""Releases and transforms of the papers, kept as baselines."""
