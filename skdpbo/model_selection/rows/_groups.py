"""Groups of records, all of whose records are protected together."""

import numpy as np

from skdpbo.model_selection._attempt import attempt
from skdpbo.model_selection._sklearn import n_rows

__all__ = ["group_codes"]


def group_codes(groups, n_records, *, name="groups_val", rows="X_val"):
    """Number the groups in the order in which they first appear.

    Only which labels are equal matters, as keys of a dict are. A label that is missing, or that
    is not equal to itself or cannot be a key, is a group of its own: an error would tell of it.

    Parameters
    ----------
    groups : sequence of hashable, of length n_records
        Labels; protected, but for their number and that of the groups.
    n_records : int
        Number of rows, secret.
    name, rows : str
        Of `groups` and of the rows, for the messages.

    Returns
    -------
    codes : ndarray of shape (n_records,), dtype intp
        In {0, ..., n_groups - 1}, each of them present.

    Raises
    ------
    ValueError
        Without one label for each row.
    """
    if len(getattr(groups, "shape", (0,))) != 1:
        raise ValueError(f"{name} must have one dimension: one label for each row of {rows}.")
    if n_rows(groups) != n_records:
        raise ValueError(f"{name} must have one label for each row of {rows}.")
    known, codes, n_groups = {}, np.empty(n_records, dtype=np.intp), 0
    for row, label in enumerate(groups):
        code, _ = attempt(_code_of, known, label, n_groups)
        codes[row] = n_groups if code is None else code
        n_groups += codes[row] == n_groups
    return codes


def _code_of(known, label, new):
    """Return the number of a label; a new one for a label that is missing."""
    return known.setdefault(label, new) if label is not None and label == label else new
