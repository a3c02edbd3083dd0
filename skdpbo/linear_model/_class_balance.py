"""Weights that balance the classes, from one noisy histogram of the labels."""

import numpy as np

from skdpbo._column_moments import histogram_sensitivity, release_counts
from skdpbo._record_groups import count_by_groups

_HIDDEN = 3.0  # least count, in standard deviations of a noisy count


def class_counts(codes, n_classes, sizes=None):
    """Protected: count the records of each class, without those of other labels (code -1)."""
    # Other labels have a bin of their own, which is dropped: an error would reveal them.
    bins = np.where(codes < 0, n_classes, codes)
    return count_by_groups(bins, n_classes + 1, sizes, slice(None))[:-1]


def release_balance(codes, n_classes, mu, source, sizes=None):
    """Release the weights of the classes, and their mean over the records.

    A replaced record leaves one count and enters another, so the counts have sensitivity sqrt 2.
    Counts below three standard deviations of the noise are raised to that: a smaller count would
    give a weight that is mostly noise.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Protected.
    n_classes : int
    mu : float
        Gaussian budget.
    source : RandomSource
    sizes : ndarray or None
        Number of records in the group of each record.

    Returns
    -------
    weights : ndarray of shape (n_classes,)
        Inverse to the counts, the largest 1.
    mean : float
        Mean weight of a record by the released counts, in (0, 1].
    """
    counts = class_counts(codes, n_classes, sizes)
    # docs/theory/private_classifiers.md, Balanced classes.
    noisy, sigma = release_counts(counts, mu, histogram_sensitivity(), source, sizes)
    counts = np.maximum(noisy, _HIDDEN * sigma)
    weights = counts.min() / counts
    return weights, float(weights @ counts / counts.sum())
