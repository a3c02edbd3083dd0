"""Weights that balance the classes, from one noisy histogram of the labels."""

import numpy as np

from skdpbo._column_moments import histogram_sensitivity, release_counts
from skdpbo._record_groups import count_by_groups

_HIDDEN = 3.0  # standard deviations of a noisy count


def class_counts(codes, n_classes, sizes=None):
    """Protected: count the records of each class; one of another label (code -1) counts nowhere."""
    # A bin of its own, dropped: an error would reveal that there is another label.
    bins = np.where(codes < 0, n_classes, codes)
    return count_by_groups(bins, n_classes + 1, sizes, slice(None))[:-1]


def release_balance(codes, n_classes, mu, source, sizes=None):
    """Release the weights of the classes, and their mean over the records.

    A replaced record leaves one count and enters another, so the counts have sensitivity sqrt 2.
    A class of fewer records than the noise hides is taken as one of three standard deviations.

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
        In (0, 1].
    """
    counts = class_counts(codes, n_classes, sizes)
    # docs/theory/private_classifiers.md, Balanced classes.
    noisy, sigma = release_counts(counts, mu, histogram_sensitivity(), source, sizes)
    # A class that the noise hides would get a weight made of noise.
    counts = np.maximum(noisy, _HIDDEN * sigma)
    weights = counts.min() / counts
    # The mean weight of a record, by the released counts.
    return weights, float(weights @ counts / counts.sum())
