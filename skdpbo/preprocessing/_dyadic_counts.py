"""Quantiles of columns from noisy counts in halves, quarters, ... of a public interval."""

import numpy as np

from skdpbo._record_groups import shared_counts

__all__ = ["LEVELS", "dyadic_counts", "quantile_of_counts"]

LEVELS = 10  # 1024 bins


def dyadic_counts(blocks, n_features, sizes=None):
    """Protected: count the values of each column in 2, 4, ..., 2^LEVELS parts of [-1, 1].

    A record is counted once a level, or nowhere where its value is missing.

    Parameters
    ----------
    blocks : iterable of ndarray of shape (any, n_features)
        In [-1, 1] or NaN. Protected.
    n_features : int
    sizes : ndarray or None
        Number of records in the group of each row: the parts of one record are then counted.

    Returns
    -------
    ndarray of shape (n_features, 2**(LEVELS + 1) - 2)
        Counts of the levels, from coarse to fine.
    """
    n_bins = 2**LEVELS
    counts = np.zeros((n_features, n_bins + 1), dtype=np.int64)  # the last one for missing values
    start = 0
    for block in blocks:
        part = slice(start, start := start + len(block))
        missing = np.isnan(block)
        bins = np.where(missing, n_bins, np.floor((block + 1) * (n_bins / 2)))
        bins = np.where(missing, bins, np.clip(bins, 0, n_bins - 1)).astype(np.int64)
        for column in range(n_features):
            counts[column] += shared_counts(bins[:, column], n_bins + 1, sizes, part)
    finest = counts[:, :-1]
    parts = [finest.reshape(n_features, 2**k, -1).sum(axis=2) for k in range(1, LEVELS + 1)]
    return np.hstack(parts)


def quantile_of_counts(noisy, quantile, fewest):
    """Return the quantile of one column in [-1, 1], by descent from halves to the finest part.

    Parameters
    ----------
    noisy : ndarray of shape (2**(LEVELS + 1) - 2,)
        Released counts.
    quantile : float
        In (0, 1).
    fewest : float
        With no more noisy records than this the middle of the interval is returned.
    """
    if noisy[0] + noisy[1] <= fewest:
        return 0.0
    part, offset, share = 0, 0, quantile  # the share of the part's records below the quantile
    for level in range(1, LEVELS + 1):
        left, right = np.maximum(noisy[offset + 2 * part : offset + 2 * part + 2], 0.0)
        rank = share * (left + right)
        goes_right = bool(rank > left)
        size, rank = (right, rank - left) if goes_right else (left, rank)
        share = min(rank / size, 1.0) if size > 0 else 0.5
        part, offset = 2 * part + goes_right, offset + 2**level
    return (part + share) * 2.0 ** (1 - LEVELS) - 1
