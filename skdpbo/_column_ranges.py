"""Ranges of columns from noisy histograms: over signed powers of two, then over finer parts."""

import math
from functools import partial

import numpy as np

from skdpbo._column_moments import release_counts
from skdpbo._parameters import DEFAULT_BOUNDS, warn_caller
from skdpbo._record_groups import count_by_groups, group_sizes, n_units
from skdpbo._row_blocks import row_blocks
from skdpbo.exceptions import DefaultBoundsWarning
from skdpbo.mechanisms import split_budget

_LOWEST, _HIGHEST = -20, 40  # exponents of the bins
_POWERS = 2.0 ** np.arange(_LOWEST, _HIGHEST + 1)
_EDGES = np.concatenate([-_POWERS[::-1], _POWERS])  # of the bins of a column
LARGEST_END = float(_POWERS[-1])  # largest absolute end of a released range
_FALSE_BINS = 1e-3  # expected number of empty bins that stand out of the noise
_SHARE_OF_PARTS = 0.3  # of mu^2, for two releases, each over parts of the previous range
_N_PARTS = 32
_MOST = 0.5  # least share of the records within a released range
_INSIDE = 0.95  # least share of the records in the parts to which a range is narrowed
_ABOVE = 2.0  # standard deviations by which the number of present values is overestimated
_CLEAR = 5.0  # least number of records, in standard deviations of the counts of parts


def column_counts(blocks, edges, sizes=None):
    """Protected: count the values of each column between its edges, (n_features, n_bins).

    Parameters
    ----------
    blocks : iterable of ndarray of shape (n_rows, n_features)
        Protected.
    edges : ndarray of shape (n_features, n_bins + 1)
        Ascending. Values beyond the outer edges are counted in the outer bins, missing values in
        none.
    sizes : ndarray or None
        Number of records in the group of each row, by which its count is divided.
    """
    n_bins = edges.shape[1] - 1
    counts = np.zeros((len(edges), n_bins), dtype=np.int64)
    start = 0
    for block in blocks:
        part = slice(start, start := start + len(block))
        for column, inner in enumerate(edges[:, 1:-1]):
            values = block[:, column]
            # The outer bins are open, and missing values have a bin of their own, which is dropped.
            bins = np.searchsorted(inner, values, side="right") + np.isnan(values)
            counts[column] += count_by_groups(bins, n_bins + 1, sizes, part)[:-1]
    return counts


def counts_sensitivity(n_histograms):
    """Largest l2 change of the counts of all histograms when one record is replaced.

    In each of them at most one count falls by 1 and one grows by 1: sqrt(2 h), rounded up.
    """
    return math.nextafter(math.sqrt(2 * n_histograms), math.inf)


def may_show_ranges(n_records, n_columns, mu):
    """Whether a bin that holds all records would stand out of the noise; of public values."""
    sigma = counts_sensitivity(n_columns) / mu
    return n_records > _largest_of_empty_bins(sigma, n_columns * (len(_EDGES) - 1))


def warn_of_no_range(estimator, names, n_rows=None):
    """Warn of default bounds where no range was found, or none can be from so few rows."""
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
        Name of the table in errors.
    missing : bool, default=False
        Whether NaN is allowed; infinity is an error.

    Returns
    -------
    bounds : tuple (low, high) of ndarray of shape (n_features,)
        (-3, 3) if the bins that stand out of the noise hold less than half of the values.
    found : ndarray of shape (n_features,)
        Whether they hold at least half.
    """
    n, d = n_units(table), table.shape[1]
    rest, of_parts = split_budget(mu, _SHARE_OF_PARTS)
    parts = split_budget(of_parts, 0.5)
    # A public rule: if noise would hide the parts, the powers of two get the whole budget.
    if n < _CLEAR * counts_sensitivity(d) / min(parts):
        rest, parts = mu, ()
    release = partial(_released_counts, table, source, name, "allow-nan" if missing else True)
    noisy, sigma = release(np.arange(d), np.tile(_EDGES, (d, 1)), rest)
    low, high, found = _powers_that_stand_out(noisy, sigma, n)
    for part in parts:
        # Ranges around zero end within a factor of two of the values, and are not narrowed.
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
    """Protected: release the counts of some columns; return them and their noise deviation."""
    sizes = group_sizes(table)
    blocks = (block[:, columns] for block in row_blocks(table, check, name))
    counts = column_counts(blocks, edges, sizes)
    sensitivity = counts_sensitivity(len(columns))
    return release_counts(counts, mu, sensitivity, source, sizes)


def _powers_that_stand_out(noisy, sigma, n_records):
    """Return the ends of each column, and whether most values lie between. Post-processing."""
    full = noisy > _largest_of_empty_bins(sigma, noisy.size)
    first = np.argmax(full, axis=1)
    last = full.shape[1] - np.argmax(full[:, ::-1], axis=1)
    found = full.any(axis=1)
    for column in np.flatnonzero(found):  # an empty bin may stand out of the noise by chance
        inside = noisy[column, first[column] : last[column]].sum()
        found[column] = inside >= _MOST * _n_present(noisy[column], sigma, n_records)
    low = np.where(found, _EDGES[first], DEFAULT_BOUNDS[0])
    high = np.where(found, _EDGES[last], DEFAULT_BOUNDS[1])
    # Ends of the middle bin become zero, and so does an end much nearer to zero than the other.
    low = np.where((low > 0) & (low < high / 8) | (low == -(2.0**_LOWEST)), 0.0, low)
    high = np.where((high < 0) & (high > low / 8) | (high == 2.0**_LOWEST), 0.0, high)
    # Both ends are zero for a column of zeros, which gets an arbitrary width.
    return low, np.where(low < high, high, 1.0), found


def _largest_of_empty_bins(sigma, n_bins):
    """Return a threshold that `_FALSE_BINS` of `n_bins` empty bins exceed in expectation."""
    # P(noise > t) <= exp(-t^2 / (2 sigma^2)).
    return sigma * math.sqrt(2 * math.log(n_bins / _FALSE_BINS))


def _n_present(counts, sigma, n_records):
    """Return an upper estimate of the number of records with a value. Post-processing."""
    return min(n_records, counts.sum() + _ABOVE * sigma * math.sqrt(len(counts)))


def narrowest_run(counts, sigma, n_records):
    """Return the ends of the narrowest run of parts that holds nearly all records, with a margin.

    Post-processing. All parts if there is no such run that clearly stands out of the noise.
    """
    below = np.concatenate([[0.0], np.cumsum(counts)])
    present = _n_present(counts, sigma, n_records)
    for width in range(1, min(_N_PARTS, int((max(present, 0.0) / (_CLEAR * sigma)) ** 2)) + 1):
        inside = below[width:] - below[:-width]
        first = int(np.argmax(inside))
        if inside[first] >= _INSIDE * present:
            # Half of the width on either side, for records outside of the run.
            margin = -(-width // 2)
            return max(0, first - margin), min(_N_PARTS, first + width + margin)
    return 0, _N_PARTS
