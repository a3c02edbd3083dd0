"""Mechanisms and proposals of `DPBayesSearchCV`."""
