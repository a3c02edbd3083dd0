"""Sensitivity of several histograms of the same records."""

import math

__all__ = ["counts_sensitivity"]


def counts_sensitivity(n_histograms):
    """Largest l2 change of the counts of all histograms when one record is replaced.

    In each of them at most one count falls by 1 and one grows by 1: sqrt(2 h), rounded up.
    """
    return math.nextafter(math.sqrt(2 * n_histograms), math.inf)
