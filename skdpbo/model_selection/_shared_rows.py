"""Training and validation rows that are the same: one record would be in both, and count twice."""

from dataclasses import replace

import numpy as np

__all__ = ["entry_length", "refuse_rows_among_entries", "refuse_shared_rows", "with_disjoint_parts"]

_DISJOINT = "no record is both in X and in X_val"
# Work at which the search for common memory is given up; it is a few steps for rows of one table.
_MAX_WORK = 10_000
# Entries of `fit` are looked into so deep, and lists up to so long: eval_set=[(X, y)] has depth 2.
_DEPTH, _LONGEST_LIST = 3, 100


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


def refuse_rows_among_entries(params, protected, lengths):
    """Raise if an entry of ``fit`` holds protected rows, as ``eval_set=[(X, y)]`` does.

    Every training would be given them. No value is read.

    Parameters
    ----------
    params : dict
        What ``fit`` was given besides the rows. An entry that is itself as long as X goes with its
        rows and is cut as they are; one inside another is not.
    protected : list
        Containers of protected rows and targets; None is skipped.
    lengths : container of int
        What is so long, inside an entry, is taken for rows.
    """
    for name, entry in params.items():
        for depth, part in _parts(entry):
            cut = depth == 0 and entry_length(part) in lengths
            inside = depth > 0 and entry_length(part) in lengths
            if inside or (not cut and any(_is_part_of(part, rows) for rows in protected)):
                raise ValueError(
                    f"{name} holds protected rows, or as many values as there are: every training "
                    "would be given them, which no guarantee covers. Give public rows only, such "
                    "as those of an early stopping."
                )


def _parts(entry, depth=0):
    """Yield (depth, part): the entry and what is in its lists, tuples and dicts."""
    yield depth, entry
    if depth == _DEPTH or not isinstance(entry, list | tuple | dict):
        return
    if len(entry) <= _LONGEST_LIST:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from _parts(part, depth + 1)


def _is_part_of(part, rows):
    return rows is not None and (part is rows or _share_memory(part, rows))


def entry_length(value):
    """Number of rows of what holds several, else None."""
    if isinstance(value, str | bytes | dict) or value is None:
        return None
    shape = getattr(value, "shape", None)
    if shape is not None:
        return shape[0] if shape else None
    return len(value) if hasattr(value, "__len__") else None


def with_disjoint_parts(guarantee, X_val):
    """The guarantee with the assumption that validation rows of their own call for."""
    if X_val is None:
        return guarantee
    return replace(guarantee, assumptions=(*guarantee.assumptions, _DISJOINT))
