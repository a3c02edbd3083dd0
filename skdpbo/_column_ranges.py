"""Ranges of columns from noisy histograms: signed powers of two, then parts of what these show."""

import math
from functools import partial

import numpy as np

from skdpbo._column_moments import release_counts
from skdpbo._parameters import DEFAULT_BOUNDS, warn_caller
from skdpbo._record_groups import n_units, record_sizes, shared_counts
from skdpbo._row_blocks import row_blocks
from skdpbo.exceptions import DefaultBoundsWarning
from skdpbo.mechanisms import split_budget

_LOWEST, _HIGHEST = -20, 40  # exponents of the bins
_POWERS = 2.0 ** np.arange(_LOWEST, _HIGHEST + 1)
_EDGES = np.concatenate([-_POWERS[::-1], _POWERS])  # of the bins of a column
LARGEST_END = float(_POWERS[-1])  # of a released range, in size
_FALSE_BINS = 1e-3  # expected number of empty bins that are taken for full ones
_SHARE_OF_PARTS = 0.3  # of mu^2, in halves for two releases, each of parts of the range before it
_N_PARTS = 32
_MOST = 0.5  # of the records, in the powers of two that are released
_INSIDE = 0.95  # of the records, in the parts that a range is narrowed to
_ABOVE = 2.0  # standard deviations of the noisy number of present values
_CLEAR = 5.0  # standard deviations of a count of parts, at most n: noise alone does not look like n


def column_counts(blocks, edges, sizes=None):
    """Protected: count the values of each column between its edges, (n_features, n_bins).

    Parameters
    ----------
    blocks : iterable of ndarray of shape (n_rows, n_features)
        Protected.
    edges : ndarray of shape (n_features, n_bins + 1)
        Ascending. Values beyond the outer ones are counted in the outer bins, missing ones nowhere.
    sizes : ndarray or None
        Number of records in the group of each row, which counts as a part of one.
    """
    n_bins = edges.shape[1] - 1
    counts = np.zeros((len(edges), n_bins), dtype=np.int64)
    start = 0
    for block in blocks:
        part = slice(start, start := start + len(block))
        for column, inner in enumerate(edges[:, 1:-1]):
            values = block[:, column]
            # The outer bins are open: every value is in one bin, or in that of missing ones.
            bins = np.searchsorted(inner, values, side="right") + np.isnan(values)
            counts[column] += shared_counts(bins, n_bins + 1, sizes, part)[:-1]
    return counts


def counts_sensitivity(n_histograms):
    """Largest l2 change of the counts of all histograms when one record is replaced.

    In each of them at most one count falls by 1 and one grows by 1: sqrt(2 h), rounded up.
    """
    return math.nextafter(math.sqrt(2 * n_histograms), math.inf)


def may_show_ranges(n_records, n_columns, mu):
    """Whether the bins can stand out of the noise: if all records are in one. A public rule."""
    sigma = counts_sensitivity(n_columns) / mu
    return n_records > _largest_of_empty_bins(sigma, n_columns * (len(_EDGES) - 1))


def warn_of_no_range(estimator, names, n_rows=None):
    """Warn of bounds that the counts, or so few rows at its epsilon, do not show."""
    reason = "some released counts show no range"
    if n_rows is not None:
        reason = f"{n_rows} rows can show no range at this epsilon"
    for name in names:
        warn_caller(
            f"{name} of {type(estimator).__name__}: {reason}; (-3, 3) is used, whatever the units "
            "are. Give public bounds, a larger epsilon or more rows.",
            DefaultBoundsWarning,
        )


def released_ranges(table, mu, source, name="X", *, missing=False):
    """Protected: release the range of each column (docs: Private linear models, Ranges).

    Parameters
    ----------
    table : array-like or Dask array of shape (n, n_features)
        Protected.
    mu : float
        The releases together are mu-GDP.
    source : RandomSource
    name : str, default="X"
        Of the table, in errors.
    missing : bool, default=False
        Whether values may be missing; infinite ones are errors.

    Returns
    -------
    bounds : tuple (low, high) of ndarray of shape (n_features,)
        (-3, 3) where the bins that stand out of the noise hold less than half of the values.
    found : ndarray of shape (n_features,)
        Whether they hold more.
    """
    n, d = n_units(table), table.shape[1]
    rest, of_parts = split_budget(mu, _SHARE_OF_PARTS)
    parts = split_budget(of_parts, 0.5)
    # A public rule: where the noise would hide parts, the powers of two have the whole budget.
    if n < _CLEAR * counts_sensitivity(d) / min(parts):
        rest, parts = mu, ()
    release = partial(_released_counts, table, source, name, "allow-nan" if missing else True)
    noisy, sigma = release(np.arange(d), np.tile(_EDGES, (d, 1)), rest)
    low, high, found = _powers_that_stand_out(noisy, sigma, n)
    for part in parts:
        # Others have values near zero, and are at most twice as wide as these on either side.
        columns = np.flatnonzero((low > 0) | (high < 0))
        if not len(columns):
            break
        edges = np.linspace(low[columns], high[columns], _N_PARTS + 1, axis=1)
        noisy, sigma = release(columns, edges, part)
        for column, ends, counts in zip(columns, edges, noisy, strict=True):
            first, last = narrowest_run(counts, sigma, n)
            low[column], high[column] = ends[first], ends[last]
    return (low, high), found


def _released_counts(table, source, name, check, columns, edges, mu):
    """Protected: release the counts of some columns; return them and the deviation of the noise."""
    sizes = record_sizes(table)
    blocks = (block[:, columns] for block in row_blocks(table, check, name))
    counts = column_counts(blocks, edges, sizes)
    sensitivity = counts_sensitivity(len(columns))
    return release_counts(counts, mu, sensitivity, source, sizes)


def _powers_that_stand_out(noisy, sigma, n_records):
    """Return the ends of each column, and whether most values are between. Post-processing."""
    full = noisy > _largest_of_empty_bins(sigma, noisy.size)
    first = np.argmax(full, axis=1)
    last = full.shape[1] - np.argmax(full[:, ::-1], axis=1)
    found = full.any(axis=1)
    for column in np.flatnonzero(found):  # one of many bins may stand out by chance
        inside = noisy[column, first[column] : last[column]].sum()
        found[column] = inside >= _MOST * _n_present(noisy[column], sigma, n_records)
    low = np.where(found, _EDGES[first], DEFAULT_BOUNDS[0])
    high = np.where(found, _EDGES[last], DEFAULT_BOUNDS[1])
    # An end much nearer to zero than the other one is taken as zero, as is the middle bin.
    low = np.where((low > 0) & (low < high / 8) | (low == -(2.0**_LOWEST)), 0.0, low)
    high = np.where((high < 0) & (high > low / 8) | (high == 2.0**_LOWEST), 0.0, high)
    # Both ends are zero for a column of zeros: any width will do.
    return low, np.where(low < high, high, 1.0), found


def _largest_of_empty_bins(sigma, n_bins):
    """Return what the noisy counts of 10^-3 of these bins, if all were empty, are above."""
    # P(noise > t) <= exp(-t^2 / (2 sigma^2)).
    return sigma * math.sqrt(2 * math.log(n_bins / _FALSE_BINS))


def _n_present(counts, sigma, n_records):
    """Return the number of records with a value, by noisy counts, or more. Post-processing."""
    return min(n_records, counts.sum() + _ABOVE * sigma * math.sqrt(len(counts)))


def narrowest_run(counts, sigma, n_records):
    """Return the ends of the narrowest run of parts that holds nearly all records, with a margin.

    Post-processing. All parts where none does, by counts of which noise alone explains none.
    """
    below = np.concatenate([[0.0], np.cumsum(counts)])
    present = _n_present(counts, sigma, n_records)
    for width in range(1, min(_N_PARTS, int((max(present, 0.0) / (_CLEAR * sigma)) ** 2)) + 1):
        inside = below[width:] - below[:-width]
        first = int(np.argmax(inside))
        if inside[first] >= _INSIDE * present:
            # Half of the width on either side, for what is beyond the run.
            margin = -(-width // 2)
            return max(0, first - margin), min(_N_PARTS, first + width + margin)
    return 0, _N_PARTS
