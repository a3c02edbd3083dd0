"""Checks for rows that are both training and validation rows, whose records would count twice."""

import numbers

import numpy as np
from scipy.sparse import issparse

from skdpbo._parameters import warn_caller
from skdpbo._schema import share_memory
from skdpbo.exceptions import PublicTrainingWarning

# Depth to which entries of `fit` are searched, and longest list; eval_set=[(X, y)] has depth 2.
_DEPTH, _LONGEST_LIST = 3, 100
_SCALAR_TYPES = (numbers.Number, str, bytes, np.generic, type(None))  # entries without rows
# Attributes of containers with declared types: frames and Arrow containers.
_TYPED = ("dtype", "dtypes", "columns", "__arrow_c_array__", "__arrow_c_stream__")


def refuse_shared_rows(X, X_val):
    """Raise if training and validation rows share memory; no value is read.

    Copies are not detected: that there are none is an assumption of the guarantee.
    """
    if share_memory(X, X_val):
        raise ValueError(
            "X and X_val share rows: a record that is trained on and scored counts twice, which "
            'the guarantee does not cover. With protect="all" give rows that are not in X, or no '
            "X_val: a part of X is then set apart."
        )


def warn_of_shared_rows(X, X_val):
    """Warn if protected and public rows share memory; no value is read."""
    if share_memory(X, X_val):
        warn_caller(
            "X and X_val share rows: what is given as X is public and trains the models, so that "
            "these rows are not protected, whatever the guarantee of X_val is. Give other rows, or "
            'X alone with protect="all". (In a rehearsal on public rows this is as it should be.)',
            PublicTrainingWarning,
        )


def refuse_rows_among_entries(params, protected, lengths, n_public=None, counted=True):
    """Raise if an entry of ``fit`` holds protected rows, as ``eval_set=[(X_val, y_val)]`` does.

    Every training would get them. No value is read, since equality with protected rows is a fact
    about these. Anything as long as the protected rows is taken for a copy, a part of the columns
    or a permutation; shorter entries are left to `entries_assumption`.

    Parameters
    ----------
    params : dict
        Entries of ``fit`` other than the rows.
    protected : list
        Containers of protected rows and targets; None is skipped.
    lengths : container of int
        Numbers of rows. An entry of such a length is split like the rows; parts inside of an entry
        are not, and are refused.
    n_public : int, default=None
        Number of public rows; an entry of this length belongs to them.
    counted : bool, default=True
        Whether the number of protected rows is public. Otherwise lengths are not compared with it,
        as a refusal would reveal it.
    """
    own_lengths = (entry_length(rows) for rows in protected if rows is not None)
    all_lengths = {*lengths, *own_lengths} if counted else ()
    for name, entry in params.items():
        # Cells of an entry that is split are protected, and not inspected.
        is_split = entry_length(entry) in lengths
        if is_split:
            refuse_foreign_types(entry, name)
        for depth, part in [(0, entry)] if is_split else _with_parts(entry):
            if isinstance(part, _SCALAR_TYPES):
                continue
            length = entry_length(part)
            is_protected = any(share_memory(part, rows) for rows in protected)
            # Entries are split by row; parts inside of one go to every training.
            if depth == 0 and (length in lengths or (length == n_public and not is_protected)):
                continue
            if length in all_lengths or is_protected:
                own = "The groups of X_val are groups_val. " if name == "groups" else ""
                raise ValueError(
                    f"{name} holds protected rows, or as many values as there are: every training "
                    f"would be given them, which no guarantee covers. {own}Give public rows only, "
                    "such as those of an early stopping, in another number."
                )


def refuse_foreign_types(values, name):
    """Refuse typed containers of other libraries, whose types one record may decide."""
    typed = any(hasattr(values, kind) for kind in _TYPED)
    home = type(values).__module__.partition(".")[0]
    known = isinstance(values, np.ndarray) or issparse(values) or hasattr(values, "iloc")
    if typed and not known and home not in ("dask", "pandas"):
        raise TypeError(
            f"{name} is neither a numpy array, a pandas frame, a sparse matrix nor a list, and "
            f"one record may decide its types. Give {name}.to_pandas() or {name}.to_numpy()."
        )


def entries_assumption(params, n_split, n_protected):
    """Return the assumption that entries of ``fit`` hold no protected record, or None.

    Parameters
    ----------
    params : dict
        Entries of ``fit`` other than the rows.
    n_split : int
        Number of rows given to ``fit``: an entry of this length is split like them.
    n_protected : int
        Number of protected records.
    """
    names = [
        name
        for name, entry in params.items()
        # If both numbers are equal, an entry of that length may belong to either.
        if not isinstance(entry, _SCALAR_TYPES)
        and (entry_length(entry) != n_split or n_split == n_protected)
    ]
    if not names:
        return None
    return f"no protected record is among what fit is given as {', '.join(names)}"


def _with_parts(entry, depth=0):
    """Yield (depth, part): the entry, and items of its lists, tuples and dicts."""
    yield depth, entry
    if depth == _DEPTH or not isinstance(entry, list | tuple | dict):
        return
    if len(entry) <= _LONGEST_LIST:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from _with_parts(part, depth + 1)


def entry_length(value):
    """Return the number of rows of a container, None for anything else."""
    if isinstance(value, str | bytes | dict) or value is None:
        return None
    shape = getattr(value, "shape", None)
    if shape is not None:
        return shape[0] if shape else None  # () is one number
    return len(value) if hasattr(value, "__len__") else None
