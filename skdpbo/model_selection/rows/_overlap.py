"""Training and validation rows that are the same: one record would be in both, and count twice."""

import numbers

import numpy as np
from scipy.sparse import issparse

from skdpbo._parameters import warn_caller
from skdpbo._schema import share_memory
from skdpbo.exceptions import PublicTrainingWarning

# Entries of `fit` are looked into so deep, and lists up to so long: eval_set=[(X, y)] has depth 2.
_DEPTH, _LONGEST_LIST = 3, 100
_SINGLE = (numbers.Number, str, bytes, np.generic, type(None))  # entries that hold no rows
# Attributes of containers with types: those of frames, and of what Arrow holds.
_TYPED = ("dtype", "dtypes", "columns", "__arrow_c_array__", "__arrow_c_stream__")


def refuse_shared_rows(X, X_val):
    """Raise if the validation rows are the training rows, or a part of them; no value is read.

    Copies are not found: that there are none is an assumption of the guarantee.
    """
    if share_memory(X, X_val):
        raise ValueError(
            "X and X_val share rows: a record that is trained on and scored counts twice, which "
            'the guarantee does not cover. With protect="all" give rows that are not in X, or no '
            "X_val: a part of X is then set apart."
        )


def warn_of_shared_rows(X, X_val):
    """Warn if protected rows are known to be public ones, too; no value is read."""
    if share_memory(X, X_val):
        warn_caller(
            "X and X_val share rows: what is given as X is public and trains the models, so that "
            "these rows are not protected, whatever the guarantee of X_val is. Give other rows, or "
            'X alone with protect="all". (In a rehearsal on public rows this is as it should be.)',
            PublicTrainingWarning,
        )


def refuse_rows_among_entries(params, protected, lengths, n_public=None, counted=True):
    """Raise if an entry of ``fit`` holds protected rows, as ``eval_set=[(X_val, y_val)]`` does.

    Every training would be given them. No value is read: equality with the protected rows would
    itself be a fact about them. What is as long as these is taken for a copy, for some columns or
    for another order of them; what is shorter is left to `entries_assumption`.

    Parameters
    ----------
    params : dict
        Entries of ``fit`` other than the rows.
    protected : list
        Containers of protected rows and targets; None is skipped.
    lengths : container of int
        An entry that is itself so long is cut with the rows; what is so long inside of one is
        not, and is refused.
    n_public : int, default=None
        An entry that is itself as long as the public rows goes with them.
    counted : bool, default=True
        Whether the number of protected rows is public. Otherwise no length is compared with it:
        the refusal would show it.
    """
    own_lengths = (entry_length(rows) for rows in protected if rows is not None)
    # Lengths alone: contents are not compared.
    all_lengths = {*lengths, *own_lengths} if counted else ()
    for name, entry in params.items():
        # A cell of an entry that is cut is protected, and goes with its own row: not looked into.
        is_cut = entry_length(entry) in lengths
        if is_cut:
            refuse_foreign_types(entry, name)
        for depth, part in [(0, entry)] if is_cut else _with_parts(entry):
            if isinstance(part, _SINGLE):
                continue
            length = entry_length(part)
            is_protected = any(share_memory(part, rows) for rows in protected)
            # Only an entry itself is cut by row; what is inside of one goes to every training.
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
    """Refuse types that a library other than numpy, scipy and pandas may take from one record."""
    typed = any(hasattr(values, kind) for kind in _TYPED)
    home = type(values).__module__.partition(".")[0]
    known = isinstance(values, np.ndarray) or issparse(values) or hasattr(values, "iloc")
    if typed and not known and home not in ("dask", "pandas"):
        raise TypeError(
            f"{name} is neither a numpy array, a pandas frame, a sparse matrix nor a list, and "
            f"one record may decide its types. Give {name}.to_pandas() or {name}.to_numpy()."
        )


def entries_assumption(params, n_cut, n_protected):
    """Return the assumption that entries of ``fit`` hold no protected record, or None.

    Parameters
    ----------
    params : dict
        Entries of ``fit`` other than the rows.
    n_cut : int
        Number of rows given to ``fit``: an entry that is as long is cut with them.
    n_protected : int
        Number of protected records.
    """
    names = [
        name
        for name, entry in params.items()
        # Where both parts are as long, an entry of that length may be of either.
        if not isinstance(entry, _SINGLE) and (entry_length(entry) != n_cut or n_cut == n_protected)
    ]
    if not names:
        return None
    return f"no protected record is among what fit is given as {', '.join(names)}"


def _with_parts(entry, depth=0):
    """Yield (depth, part): the entry and what is in its lists, tuples and dicts."""
    yield depth, entry
    if depth == _DEPTH or not isinstance(entry, list | tuple | dict):
        return
    if len(entry) <= _LONGEST_LIST:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from _with_parts(part, depth + 1)


def entry_length(value):
    """Return the number of rows of what holds several, else None."""
    if isinstance(value, str | bytes | dict) or value is None:
        return None  # they have a length, and no rows
    shape = getattr(value, "shape", None)
    if shape is not None:
        return shape[0] if shape else None  # () is one number
    return len(value) if hasattr(value, "__len__") else None
