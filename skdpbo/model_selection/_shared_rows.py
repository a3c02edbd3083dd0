"""Training and validation rows that are the same: one record would be in both, and count twice."""

from dataclasses import replace

import numpy as np

__all__ = ["refuse_shared_rows", "with_disjoint_parts"]

_DISJOINT = "no record is both in X and in X_val"
# Work at which the search for common memory is given up; it is a few steps for rows of one table.
_MAX_WORK = 10_000


def refuse_shared_rows(X, X_val):
    """Raise if the validation rows are the training rows, or a part of them; no value is read.

    Copies are not found: that there are none is an assumption of the guarantee.
    """
    if X_val is None:
        return
    if X_val is X or _share_memory(X, X_val):
        raise ValueError(
            "X and X_val share rows: a record that is trained on and scored counts twice, which "
            'the guarantee does not cover. With protect="all" give rows that are not in X, or no '
            "X_val: a part of X is then set apart."
        )


def _share_memory(X, X_val):
    if not (isinstance(X, np.ndarray) and isinstance(X_val, np.ndarray)):
        return False
    if not np.may_share_memory(X, X_val):
        return False
    try:
        return np.shares_memory(X, X_val, max_work=_MAX_WORK)
    except np.exceptions.TooHardError:
        return False


def with_disjoint_parts(guarantee, X_val):
    """The guarantee with the assumption that validation rows of their own call for."""
    if X_val is None:
        return guarantee
    return replace(guarantee, assumptions=(*guarantee.assumptions, _DISJOINT))
