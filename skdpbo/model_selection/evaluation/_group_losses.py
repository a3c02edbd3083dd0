"""One loss for each group of protected records: the mean of those of its records.

Everything here is protected. The loss of a group depends on the records of that group alone, and
lies in {0, ..., ``scorer.units``} as that of one record does: a group that is replaced moves a
total by at most ``units``, however many records it has (``docs/theory/groups.md``).
"""

import numpy as np

from skdpbo._record_groups import place_batches
from skdpbo.model_selection._sklearn import take_rows
from skdpbo.model_selection.evaluation._evaluator import isolated_losses, isolated_outcomes

__all__ = ["group_losses", "mean_losses"]


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
        # Empty places hold some record of the batch, so that all batches are equally long.
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
    return (2 * totals + sizes) // (2 * sizes)  # floor(total / size + 1/2), in integers
