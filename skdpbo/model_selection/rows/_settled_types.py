"""Types of rows and targets that no single record decides.

numpy and pandas type an array or a column by all of its values: one missing value turns integers
into floats and truth values into objects, one long text widens an array, one new label adds a
category. The rule, where protected rows share a container with others:

- integers of 64 bits become floats in rows, and labels of whole floats become integers;
- truth values become objects in frames, and floats in arrays;
- texts become objects, or as wide as the longest public one, and categories are those of public
  rows, where there are any; whole floats among these are integers.

Smaller integers, single precision, nullable integers and, with no public rows, categories are never
inferred from files: they are the user's declaration, and public.
"""

from numbers import Real

import numpy as np
from scipy import sparse

__all__ = [
    "declared_kind",
    "from_public_values",
    "is_single_column",
    "of_single_column",
    "public_kind",
    "settled_rows",
    "settled_targets",
]

_N_READ = 1000  # public values from which the kind of a column of objects is taken
_INFERRED = {
    **{"int64": "float64", "uint64": "float64", "Int64": "Float64", "UInt64": "Float64"},
    **{"int64[pyarrow]": "double[pyarrow]", "uint64[pyarrow]": "double[pyarrow]"},
}
_NO_LABEL = np.iinfo(np.int64).min  # a label that no model knows


def settled_rows(X):
    """Return rows in types that neither a missing value nor a fraction can turn into others.

    No value decides. Call it after the charge, or on synthetic or public rows.
    """
    if is_single_column(X):
        return of_single_column(settled_rows(X.to_frame()), X)
    if hasattr(X, "isetitem"):
        # Objects hold truth values beside missing ones.
        changes = [(j, _settled(dtype, object)) for j, dtype in enumerate(X.dtypes)]
        changes = [(j, dtype) for j, dtype in changes if dtype is not None]
        X = X.copy() if changes else X
        for j, dtype in changes:
            X.isetitem(j, X.iloc[:, j].astype(dtype))
        return X
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        dtype = _settled(X.dtype, "float64")
        return X if dtype is None else X.astype(dtype)
    return X


def is_single_column(X):
    """Whether rows are a pandas series, such as texts."""
    return hasattr(X, "iloc") and hasattr(X, "to_frame") and not hasattr(X, "columns")


def of_single_column(frame, X):
    """Return the one column of a frame, under the name of the series it was made of."""
    return frame.iloc[:, 0].rename(X.name)


def _settled(dtype, of_truth_values):
    """Return the type to take in place of one that readers infer, or None."""
    return of_truth_values if dtype == np.bool_ else _INFERRED.get(str(dtype))


def settled_targets(y, labels):
    """Return targets in types that one record cannot change; see `settled_rows`.

    Parameters
    ----------
    y : targets or None
        Protected or public.
    labels : bool
        Whether they are labels of classes: whole floats are integers then, each by itself, and any
        other number is a label that no model knows.
    """
    # Nullable and Arrow numbers have a type of their own for each width: as doubles they have one.
    dtypes = list(y.dtypes) if hasattr(y, "columns") else [getattr(y, "dtype", None)]
    numbers = all(getattr(dtype, "kind", "") in ("i", "u", "f") for dtype in dtypes)
    if numbers and not all(isinstance(dtype, np.dtype) for dtype in dtypes):
        y = y.astype("float64")
    dtype = np.asarray(y).dtype if hasattr(y, "columns") else getattr(y, "dtype", None)
    if isinstance(y, np.ndarray) and dtype.kind in "US":
        return y.astype(object)  # the width of a text array shows its longest text
    if not labels:
        settled = _INFERRED.get(str(dtype))
        return y if settled is None else y.astype(settled)
    if str(dtype) != "float64":
        return y
    with np.errstate(invalid="ignore"):  # a NaN has no integer: it differs below
        integers = np.asarray(y).astype(np.int64)
    values = np.where(integers == np.asarray(y), integers, _NO_LABEL)
    if hasattr(y, "iloc"):
        names = {"columns": y.columns} if hasattr(y, "columns") else {"name": y.name}
        return type(y)(values, index=y.index, **names)
    return values


def from_public_values(values):
    """Return public rows or targets; an array of texts is as wide as its longest one.

    Where both come from one table, the longest one may be protected.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "US":
        size = max(int(np.char.str_len(values).max(initial=0)), 1)
        return values.astype(f"{values.dtype.kind}{size}")
    return values


def settled_public_rows(X):
    """Return public rows, cut from a table with protected ones, typed by public values alone."""
    if is_single_column(X):
        return of_single_column(settled_public_rows(X.to_frame()), X)
    X = settled_rows(from_public_values(_with_own_index(X)))
    if isinstance(X, np.ndarray) and X.dtype == np.object_:
        numbers = all(isinstance(cell, Real) for cell in X.flat)  # a protected text is among them
        return X.astype("float64") if numbers else X
    if not hasattr(X, "isetitem"):
        return X
    X = X.copy()
    for j, dtype in enumerate(X.dtypes):
        column = X.iloc[:, j]
        if getattr(dtype, "categories", None) is not None:
            X.isetitem(j, _with_own_categories(column))
        elif dtype == np.object_:
            inferred = column.infer_objects()
            if inferred.dtype.kind != "b":
                numbers = inferred.dtype.kind in "iuf"
                X.isetitem(j, column.astype("float64") if numbers else inferred)
    return X.copy()  # in the layout of its types: which columns were replaced does not show


def _with_own_categories(column):
    """Return public values with the categories that occur, typed by these alone."""
    # Those that no public row has may be known from protected rows alone.
    column = column.cat.remove_unused_categories()
    given = column.cat.categories
    known = given.infer_objects()  # a protected text has made them objects
    if known.dtype != given.dtype and not column.cat.ordered:
        known = known.sort_values()  # as pandas does where all are of one type
    if known.dtype == np.float64:  # for a protected fraction or missing value
        with np.errstate(invalid="ignore"):  # an infinite one differs below
            whole = known.to_numpy().astype(np.int64)
        known = known if (whole != known).any() else type(known)(whole)
    return column if known.dtype == given.dtype else column.cat.set_categories(known)


def _with_own_index(values):
    """Return public rows or targets without what a pandas index keeps of the others."""
    for name in ("remove_unused_levels", "remove_unused_categories"):
        own = getattr(getattr(values, "index", None), name, None)
        values = values if own is None else values.set_axis(own())
    return values


def settled_public_targets(y, labels):
    """Return public targets, cut from a table with protected ones, typed by public values alone.

    Parameters
    ----------
    y : targets or None
    labels : bool
        As for `settled_targets`; public labels that are not whole stay as they are.
    """
    y = _with_own_index(y)
    if hasattr(y, "infer_objects"):  # a protected text has made them objects
        y = y.infer_objects()
    dtype = getattr(y, "dtype", None)
    if dtype == np.object_ and all(isinstance(label, Real) for label in np.asarray(y).flat):
        y = np.array(y.tolist())
        dtype = y.dtype
    if getattr(dtype, "kind", "") in ("U", "S"):
        return from_public_values(y)
    if getattr(dtype, "categories", None) is not None and hasattr(y, "cat"):
        return _with_own_categories(y)
    settled = settled_targets(y, labels)
    return y if settled is not y and np.any(np.asarray(settled) == _NO_LABEL) else settled


def declared_kind(values):
    """Return "texts" or "numbers" by the declared type, which is public; None for others."""
    dtype = getattr(values, "dtype", None)
    # Categories have a declared type of their own: that of what they name.
    dtype = getattr(getattr(dtype, "categories", None), "dtype", dtype)
    kind = getattr(dtype, "kind", None)
    if kind in ("U", "S", "T") or getattr(dtype, "name", "") in ("str", "string"):
        return "texts"
    return "numbers" if kind in ("b", "i", "u", "f") else None


def public_kind(values):
    """Return "texts" or "numbers" for public values; those of objects are looked at."""
    declared = declared_kind(values)
    if declared is not None or isinstance(values, dict) or not hasattr(values, "__len__"):
        return declared
    if getattr(getattr(values, "dtype", None), "categories", None) is not None:
        values = values.dtype.categories
    if not isinstance(values, list):
        values = np.asarray(values, dtype=object).ravel()[:_N_READ].tolist()
    rows = (row if isinstance(row, list | tuple) else [row] for row in values[:_N_READ])
    kinds = {isinstance(cell, str | bytes) for row in rows for cell in row}
    return "texts" if kinds == {True} else None  # of mixed cells nothing is claimed
