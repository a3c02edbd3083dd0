"""Mechanisms of Kusner et al. (2015), kept as baselines."""
