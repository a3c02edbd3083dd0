"""Shared by the tests: private names, strategies, estimators, statistics and planted bugs."""
