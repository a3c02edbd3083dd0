"""Public and protected rows: who is who, decided without looking at a value.

Public rows train, cross-validate and fit the preprocessing. Protected rows are only ever predicted
and scored. The schema (numbers of rows and columns, column names, types) is public; the values of
protected rows are not, so that a protected value that does not fit the schema marks its own record
as bad and changes nothing else.
"""

import numbers
import warnings
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from scipy import sparse

from skdpbo._attempt import attempt
from skdpbo.model_selection._sklearn import n_rows
from skdpbo.model_selection.rows._object_table import as_objects, list_width
from skdpbo.model_selection.rows._settled_types import (
    declared_kind,
    is_single_column,
    of_single_column,
    public_kind,
)

__all__ = ["ProtectedRows", "check_protected", "check_schema", "protected_positions"]

# Chosen once and for all; any constant would do. It is public: the split must not depend on the
# data.
_SPLIT_SEED = 20150717
_NUMBERS = (numbers.Real, np.bool_, Decimal, type(None))


@dataclass(repr=False)
class ProtectedRows:
    """Rows that the guarantee covers, with the records that cannot be read marked.

    Attributes
    ----------
    X : indexable of shape (m, ...)
        Inputs in the schema of the public rows.
    y : indexable of shape (m,) or (m, n_outputs), or None
    unreadable : ndarray of shape (m,), dtype bool
        Records whose inputs do not fit the public schema. They get the worst loss and are never
        shown to a model.
    groups : ndarray of shape (m,), dtype intp, or None
        Number of the group of each record, from 0.
    """

    X: object
    y: object
    unreadable: np.ndarray
    groups: np.ndarray | None = None

    def __reduce__(self):
        raise TypeError("protected rows are not pickled with the searcher")

    @property
    def n_records(self):
        return len(self.unreadable)

    @property
    def n_losses(self):
        """Number of groups, or of records where there are none."""
        groups = self.groups
        return self.n_records if groups is None else int(groups.max(initial=-1)) + 1


def protected_positions(n_samples, fraction):
    """Positions of the protected rows when the user names none.

    A fixed pseudo-random choice that depends on `n_samples` and `fraction` alone; row 0 is always
    public. Data sorted by class or by time is therefore spread over both parts.

    Parameters
    ----------
    n_samples : int
        Number of rows, at least 2.
    fraction : float in (0, 1)
        Share of the rows that becomes protected; at least one row, and at least one stays public.

    Returns
    -------
    protected : ndarray of shape (n_protected,), dtype intp
        Sorted positions.
    """
    n_protected = min(max(round(float(fraction) * n_samples), 1), n_samples - 1)
    # RandomState is frozen by numpy's compatibility policy: the split is the same in every version.
    order = 1 + np.random.RandomState(_SPLIT_SEED).permutation(n_samples - 1)  # public randomness
    return np.sort(order[:n_protected])


def check_protected(X_val, y_val, X_public, y_public, *, counted=True, groups=None):
    """Bring protected rows into the schema of the public ones, record by record.

    Unless `counted`, their number is secret: there may be none, and no message states it.

    Returns
    -------
    rows : ProtectedRows

    Raises
    ------
    ValueError
        If the *schema* does not fit: different numbers of rows, columns or outputs, other column
        names. Never because of a value.
    """
    check_schema(X_val, y_val, X_public, y_public, counted=counted)
    with np.errstate(all="ignore"):  # a warning of a cast would depend on the values
        X, unreadable = _as_public_schema(X_val, X_public)
    return ProtectedRows(X, _real_targets(y_val), unreadable, groups)


def _real_targets(y_val):
    """Return targets of a complex type, as one gives it to all, as floats: others have no loss."""
    dtypes = y_val.dtypes if hasattr(y_val, "columns") else [getattr(y_val, "dtype", None)]
    if "c" not in {getattr(dtype, "kind", "O") for dtype in dtypes}:
        return y_val
    values = np.asarray(y_val)
    return np.where(values.imag == 0, values.real, np.nan)


def check_schema(X_val, y_val, X, y, *, public=True, counted=True):
    """Check numbers of rows, columns and outputs, column names and types.

    No protected value is read; of columns of objects the public ones are, unless `X` and `y` are
    not public.
    """
    kind = public_kind if public else declared_kind
    if counted and n_rows(X_val) < 1:  # a secret number may be 0
        raise ValueError("X_val must hold at least one protected row, got 0.")
    _check_pairing(X_val, y_val, y, kind, counted)
    names, names_val = getattr(X, "columns", None), getattr(X_val, "columns", None)
    if names is not None and names_val is None:
        raise ValueError("X_val must be a data frame with the columns of X, as X is one.")
    if names is not None and list(names) != list(names_val):
        only, only_val = _beside(names, names_val), _beside(names_val, names)
        raise ValueError(
            "X_val must have the columns of X, with the same names in the same order"
            f"{f'; X alone has {only}' * bool(only)}"
            f"{f'; X_val alone has {only_val}' * bool(only_val)}."
        )
    (dims, columns), (dims_val, columns_val) = _sizes(X), _sizes(X_val)
    if public and isinstance(X, list) and list_width(X) is None:
        dims = 1  # texts or other single objects
    if None not in (dims, dims_val) and dims != dims_val:
        raise ValueError(f"X_val must have as many dimensions as X, got {dims_val} and {dims}.")
    if None not in (columns, columns_val) and columns != columns_val:
        raise ValueError(f"X_val must have as many columns as X, got {columns_val} and {columns}.")
    _check_kinds(X_val, X, kind)


def _check_pairing(X_val, y_val, y_public, kind, counted):
    if (y_val is None) != (y_public is None):
        given, missing = ("y", "y_val") if y_val is None else ("y_val", "y")
        raise ValueError(
            f"{missing} is missing: give both y and y_val, or neither (got {given} alone)."
        )
    if y_val is None:
        return
    if n_rows(y_val) != n_rows(X_val):
        numbers_of_rows = f", got {n_rows(X_val)} and {n_rows(y_val)}" if counted else ""
        raise ValueError(f"X_val and y_val must have the same number of rows{numbers_of_rows}.")
    (_, outputs), (dims_val, outputs_val) = _sizes(y_public), _sizes(y_val)
    if (dims_val or 1) > 2:
        raise ValueError(f"y_val must have one or two dimensions, got {dims_val}.")
    if None not in (outputs, outputs_val) and outputs != outputs_val:
        raise ValueError(f"y_val must have as many outputs as y, got {outputs_val} and {outputs}.")
    kinds = kind(y_public), declared_kind(y_val)
    if None not in kinds and kinds[0] != kinds[1]:
        raise ValueError(
            f"y_val must have the type of y, got {kinds[1]} and {kinds[0]}: no prediction could be "
            "right. Encode both alike."
        )


def _beside(names, others):
    """Return the names that are not among others, which are public, as a text."""
    others = list(others)
    return ", ".join(str(name) for name in names if name not in others)


def _check_kinds(X_val, X_public, kind):
    """Refuse declared types that no value can match: numbers where the public values are texts."""
    pairs = []
    if hasattr(X_val, "iloc") and hasattr(X_public, "columns"):
        pairs = [
            (f"column {name!r} of X_val", X_val.iloc[:, j], X_public.iloc[:, j])
            for j, name in enumerate(X_public.columns)
        ]
    for name, values, public in pairs or [("X_val", X_val, X_public)]:
        kinds = kind(public), declared_kind(values)
        if None not in kinds and kinds[0] != kinds[1] and kinds[1] == "numbers":
            raise ValueError(
                f"{name} has the type of numbers where the public rows hold texts: no value could "
                "match. Read both with the same types, for instance dtype=str."
            )


def _sizes(data):
    """Numbers of dimensions and of columns; 1 column for a vector, None for other containers."""
    shape = getattr(data, "shape", None) or ()
    if not shape:
        return None, None
    return len(shape), shape[1] if len(shape) > 1 else 1


def _as_public_schema(X_val, X_public):
    """Return (X, unreadable): `X_val` typed as `X_public`; what does not fit is marked."""
    fine = np.zeros(n_rows(X_val), dtype=bool)
    if sparse.issparse(X_val):
        X, X_val = X_val.tocsr(), X_val.tocoo()
        fine[X_val.row[X_val.data.imag != 0]] = True  # other stored numbers can be read
        return X.real, fine
    if is_single_column(X_val) and is_single_column(X_public):
        frame, unreadable = _frame_as_public(X_val.to_frame(), X_public.to_frame(), fine)
        return of_single_column(frame, X_val), unreadable
    if hasattr(X_val, "iloc") and hasattr(X_public, "dtypes") and hasattr(X_val, "dtypes"):
        return _frame_as_public(X_val, X_public, fine)
    public = None if hasattr(X_val, "iloc") else _numeric_table(X_public)
    if public is None:
        dims, columns = _sizes(X_public)
        is_table = (dims or 1) > 1  # else of single objects, as texts
        width = list_width(X_public) or (columns if is_table else None)
        single = isinstance(X_val, list) and width is None
        # Arrays of texts: the longest value shows in their type.
        return X_val if single else as_objects(X_val, width), fine
    kind = getattr(getattr(X_val, "dtype", None), "kind", "O")
    if kind in "biufc":  # one complex number has typed all of them
        values, bad = X_val.real, (X_val.imag != 0).any(axis=1) if kind == "c" else fine
    else:
        values, bad = _rows_as_numbers(X_val, public.shape[1])
    if values.dtype == public.dtype:
        return values, bad
    if public.dtype.kind == "f":
        with np.errstate(over="ignore"):  # a number that is too large becomes infinite: its loss
            return values.astype(public.dtype), bad
    # As one missing or broken number turns an array of integers into one of floats.
    # What does not fit is marked, so that the 0 in its place is never shown to a model.
    fits = _fits(values, public.dtype).all(axis=1)
    return np.where(fits[:, None], values, 0).astype(public.dtype), bad | ~fits


def _numeric_table(X_public):
    """Return the public rows if they are a numeric table (array or list), else None."""
    if sparse.issparse(X_public) or hasattr(X_public, "iloc"):
        return None
    try:
        public = np.asarray(X_public)
        if public.dtype.kind == "O":
            # Texts of digits are texts: the public rows are given to the models as such.
            if not all(isinstance(cell, _NUMBERS) for cell in public.flat):
                return None
            public = public.astype(float)
    except (TypeError, ValueError):
        return None
    return public if public.dtype.kind in "biuf" and public.ndim == 2 else None


def _rows_as_numbers(rows, width):
    """Read each row by itself: one unreadable value must not change how the other rows are read."""
    X = np.zeros((n_rows(rows), width))
    unreadable = np.zeros(len(X), dtype=bool)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning would tell of a record
        for i, row in enumerate(rows):
            values, _ = attempt(np.asarray, row, dtype=float)
            unreadable[i] = getattr(values, "shape", None) != (width,)
            if not unreadable[i]:
                X[i] = values
    return X, unreadable


def _frame_as_public(X_val, X_public, unreadable):
    """Cast each column to its public type: files type whole columns by all of their values."""
    X = X_val.copy()
    for position, dtype in enumerate(X_public.dtypes):
        column = X.iloc[:, position]
        if getattr(dtype, "kind", "O") not in "biuf":
            if getattr(column.dtype, "categories", None) is not None:
                X.isetitem(position, _with_public_categories(column, dtype))
            elif dtype == np.object_ != column.dtype:
                X.isetitem(position, column.astype(object))
            elif dtype != column.dtype:
                cells, bad = _cells_as(column, dtype, X_public.iloc[0, position])
                X.isetitem(position, cells)
                unreadable |= bad
            continue
        if column.dtype == dtype:
            continue
        if getattr(column.dtype, "kind", "O") in "biuf":
            values, bad = column.to_numpy(dtype=float, na_value=np.nan), False
        elif getattr(column.dtype, "kind", "O") == "c":  # one complex cell has typed all of them
            values = column.to_numpy()
            values, bad = values.real, values.imag != 0
        else:
            values, bad = _rows_as_numbers([[value] for value in column], 1)
            values = values[:, 0]
        fits = _fits(values, dtype)
        # In the public type again: one value must not turn the other records' integers to floats.
        cells = type(column)(np.where(fits, values, 0), index=X.index)
        X.isetitem(position, cells.astype(dtype))
        unreadable |= bad | ~fits
    return X, unreadable


def _cells_as(column, dtype, public):
    """Return (column, bad): dates, texts or categories of a public type, each cell by itself.

    One cell that fits no date makes a column one of objects. The `public` one takes the place of
    what does not fit: intervals of integers have no missing value.
    """
    series = type(column)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning would tell of a record
        if column.dtype.kind in "Mm":  # overflows in finer units alone, which are exact for others
            whole, error = attempt(column.astype, dtype)
            if error is None:
                return whole, False
        typed = [attempt(series, [cell], dtype=dtype)[0] for cell in column]
        bad = np.array([cell is None for cell in typed], dtype=bool)
        cells = [public if cell is None else cell[0] for cell in typed]
        return series(cells, index=column.index, dtype=dtype), bad


def _with_public_categories(column, dtype):
    """A column of categories in the public type: its own may have been collected from its values.

    One record that adds a category would move the codes of all others. A category that is not
    public is missing.
    """
    known = getattr(dtype, "categories", None)
    if known is None:
        return column.astype(object)
    return column.cat.set_categories(known, ordered=dtype.ordered)


def _fits(values, dtype):
    """Whether the type of a public column can hold each number."""
    if dtype.kind == "f":  # NaN and infinity, too
        return np.ones(len(values), dtype=bool)
    missing = np.isnan(values)
    nullable = hasattr(dtype, "numpy_dtype")
    numpy_dtype = getattr(dtype, "numpy_dtype" if nullable else "subtype", dtype)  # or sparse
    with np.errstate(all="ignore"):
        exact = np.where(missing, 0, values).astype(numpy_dtype).astype(float) == values
    return exact | (missing & nullable)  # nullable types have missing values
