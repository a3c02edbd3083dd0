"""Ranges of columns from noisy histograms over signed powers of two."""

import math

import numpy as np

from skdpbo._column_moments import release_counts
from skdpbo._record_groups import record_sizes, shared_counts
from skdpbo._row_blocks import row_blocks

_LOWEST, _HIGHEST = -20, 40  # exponents of the bins
_POWERS = 2.0 ** np.arange(_LOWEST, _HIGHEST + 1)
_EDGES = np.concatenate([-_POWERS[::-1], _POWERS])  # of the bins of a column
_N_BINS = len(_EDGES) - 1
_FALSE_BINS = 1e-3  # expected number of empty bins that are taken for full ones


def magnitude_counts(blocks, n_features, sizes=None):
    """Protected: count the values of each column by sign and magnitude, (n_features, n_bins).

    Values beyond the last edges are counted in the last bins; with the `sizes` of their groups, in
    parts of one record.
    """
    # The outer bins are open: every value is in one bin.
    inner = _EDGES[1:-1]
    counts = np.zeros((n_features, _N_BINS), dtype=np.int64)
    start = 0
    for block in blocks:
        part = slice(start, start := start + len(block))
        bins = np.searchsorted(inner, block, side="right")
        for column in range(n_features):
            counts[column] += shared_counts(bins[:, column], _N_BINS, sizes, part)
    return counts


def counts_sensitivity(n_histograms):
    """Largest l2 change of the counts of all histograms when one record is replaced.

    In each of them at most one count falls by 1 and one grows by 1: sqrt(2 h), rounded up.
    """
    return math.nextafter(math.sqrt(2 * n_histograms), math.inf)


def released_ranges(table, mu, source, name="X"):
    """Protected: release the range of each column, between signed powers of two.

    Parameters
    ----------
    table : array-like or Dask array of shape (n, n_features)
        Protected.
    mu : float
        The release is mu-GDP.
    source : RandomSource
    name : str, default="X"
        Of the table, in errors.

    Returns
    -------
    bounds : tuple (low, high) of ndarray of shape (n_features,)
        (-1, 1) where no bin stands out of the noise.
    found : ndarray of shape (n_features,)
        Whether one does.
    """
    n_features, sizes = table.shape[1], record_sizes(table)
    counts = magnitude_counts(row_blocks(table, name=name), n_features, sizes)
    sensitivity = counts_sensitivity(n_features)
    noisy, sigma = release_counts(counts, mu, sensitivity, source, sizes, n_draws=counts.size)
    # P(noise > t) <= exp(-t^2 / (2 sigma^2)): 10^-3 empty bins are expected above it.
    full = noisy > sigma * math.sqrt(2 * math.log(counts.size / _FALSE_BINS))
    first = np.argmax(full, axis=1)
    last = _N_BINS - np.argmax(full[:, ::-1], axis=1)
    found = full.any(axis=1)
    low, high = np.where(found, _EDGES[first], -1.0), np.where(found, _EDGES[last], 1.0)
    # An end much nearer to zero than the other one is taken as zero, as is the middle bin.
    low = np.where((low > 0) & (low < high / 8) | (low == -(2.0**_LOWEST)), 0.0, low)
    high = np.where((high < 0) & (high > low / 8) | (high == 2.0**_LOWEST), 0.0, high)
    # Both ends are zero for a column of zeros: any width will do.
    high = np.where(low < high, high, 1.0)
    return (low, high), found
