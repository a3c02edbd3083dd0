"""One loss for each group of protected records: the mean of those of its records.

Everything here is protected. The loss of a group depends on the records of that group alone, and
lies in {0, ..., ``scorer.units``} as that of one record does: a group that is replaced moves a
total by at most ``units``, however many records it has (``docs/theory/groups.md``).
"""

import numpy as np

from skdpbo.model_selection._sklearn import take_rows
from skdpbo.model_selection.evaluation._evaluator import isolated_losses, isolated_outcomes

__all__ = ["group_losses", "mean_losses", "place_batches"]

_WIDTH = 256  # records that are predicted together, at most


def group_losses(model, scorer, X, y, unreadable, one_by_one, groups):
    """Return integer losses, one for each group. Protected: pass only to a mechanism.

    Parameters
    ----------
    model, scorer, X, y, unreadable, one_by_one
        As in `isolated_outcomes`.
    groups : ndarray of shape (m,), dtype int
        Number of the group of each record, from 0.

    Returns
    -------
    losses : ndarray of shape (n_groups,), dtype int64
        In {0, ..., ``scorer.units``}.
    """
    if one_by_one:
        of_records = isolated_outcomes(model, scorer, X, y, unreadable, one_by_one)
        return mean_losses(scorer.losses_of(of_records), groups)
    of_records = np.empty(len(groups), dtype=np.int64)
    for batch in place_batches(groups):
        filled = np.where(batch < 0, batch.max(), batch)
        targets = None if y is None else take_rows(y, filled)
        losses = isolated_losses(model, scorer, take_rows(X, filled), targets, unreadable[filled])
        of_records[batch[batch >= 0]] = losses[batch >= 0]
    return mean_losses(of_records, groups)


def mean_losses(losses, groups):
    """Return the mean integer loss of each group, rounded to the next integer.

    Parameters
    ----------
    losses : ndarray of shape (m,), dtype int64
        In {0, ..., units}; so is the mean. Rounding moves it by at most 1/2.
    groups : ndarray of shape (m,), dtype int

    Returns
    -------
    means : ndarray of shape (n_groups,), dtype int64
    """
    sizes = np.bincount(groups)
    totals = np.zeros(len(sizes), dtype=np.int64)
    np.add.at(totals, groups, losses)
    return (2 * totals + sizes) // (2 * sizes)


def place_batches(groups):
    """Return batches of records in which each group has a place of its own.

    The rounding of a prediction may depend on the size of its batch and on its place there. The
    size is the same for all batches and depends on the number of groups, which is public; the
    place of a record depends on the number of its group alone. So the size of one group does not
    move the rounding of another.

    Parameters
    ----------
    groups : ndarray of shape (m,), dtype int

    Returns
    -------
    batches : ndarray of shape (n_batches, width), dtype intp
        Each record once; -1 where a batch has a place left.
    """
    width = min(int(groups.max()) + 1, _WIDTH)
    places = groups % width
    order = np.argsort(places, kind="stable")
    counts = np.bincount(places, minlength=width)
    ranks = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    batches = np.full((counts.max(), width), -1, dtype=np.intp)
    batches[ranks, places[order]] = order
    return batches
