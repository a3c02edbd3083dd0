"""Units of protection: records, or groups of records, which no part of the rows divides."""

import numpy as np

from skdpbo.model_selection._sklearn import n_rows, take_rows

__all__ = ["TwoParts", "number_of_units", "rows_of_units", "take_units"]


def number_of_units(X, groups):
    """Return the number of groups, or of rows where there are none. Public."""
    # -1, not an error, of no rows: they may be none where their number is secret.
    return n_rows(X) if groups is None else int(groups.max(initial=-1)) + 1


class TwoParts:
    """Rows `X` and `X_val`, or None, with the numbers of their groups: how many units they are."""

    @property
    def n_samples(self):
        """Number of units of the rows that train."""
        return number_of_units(self.X, self.groups)

    @property
    def n_validation(self):
        """Number of units of `X_val`, or None."""
        return None if self.X_val is None else number_of_units(self.X_val, self.groups_val)


def rows_of_units(groups, units):
    """Protected: return the positions of the rows of units, which are rows without groups."""
    return units if groups is None else np.flatnonzero(np.isin(groups, units))


def take_units(X, y, groups, units=None):
    """Protected: return the rows of some units; without a copy where these are all.

    Parameters
    ----------
    X : indexable of shape (n, ...)
    y : indexable of shape (n, ...), or None
    groups : ndarray of shape (n,), dtype intp, or None
        Number of the group of each row, from 0.
    units : ndarray of int, default=None
        Numbers of groups, or positions of rows where there are none. None: all.

    Returns
    -------
    X, y, groups
        Of these units; the groups are numbered from 0 anew.
    """
    if units is None or len(units) == number_of_units(X, groups):
        return X, y, groups
    rows = rows_of_units(groups, units)
    # Numbers from 0 anew: the place of each group among those that are taken.
    inside = None if groups is None else np.searchsorted(np.sort(units), groups[rows])
    return take_rows(X, rows), None if y is None else take_rows(y, rows), inside
