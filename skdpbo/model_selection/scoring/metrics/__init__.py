"""Metrics of whole data sets: cells, ranks, moments, and metrics of chunks and of trials."""
