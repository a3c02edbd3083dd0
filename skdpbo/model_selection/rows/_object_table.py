"""Protected rows as tables of objects, in which no cell affects another cell or a type.

Sparse rows get a canonical form. To be used after the charge, since cells are read here.
"""

import sys
from collections import Counter
from functools import partial
from numbers import Complex, Real

import numpy as np

from skdpbo._attempt import attempt, is_known
from skdpbo._class_labels import NO_LABEL, exact_labels
from skdpbo._schema import declared_types, kind_of_type


def as_objects(rows, width=None):
    """Convert a list to an array of objects, which keeps every cell as it is.

    numpy would give all rows one type: a text in one record would turn every number into a text,
    and 0.5 every integer into a float, and a fitted step reveals that type.

    Parameters
    ----------
    rows : list of n rows, or anything with a shape, or None
        Protected. Rows are lists, tuples or vectors, or single objects such as texts. Containers
        with a shape are returned as they are, except arrays of texts, whose type reveals the length
        of the longest text, and object tables with unhashable cells.
    width : int or None, default=None
        Public number of columns; None: the most common length of a row.

    Returns
    -------
    table : ndarray of shape (n, width) or (n,), dtype object; or `rows`
        A row of another length becomes one of missing values (NaN), and an unhashable cell, on
        which an encoder would raise for all records, becomes NaN.
    """
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "US":
        return rows.astype(object)
    if rows is None or hasattr(rows, "shape"):
        if isinstance(rows, np.ndarray) and rows.dtype == object and rows.ndim == 2:
            return _hashable_cells(rows)
        if hasattr(rows, "dtypes") and hasattr(rows, "isetitem"):
            result = rows
            for position, dtype in enumerate(rows.dtypes):
                if getattr(dtype, "kind", "") == "O":
                    column = rows.iloc[:, position].to_numpy()
                    cells = _hashable_cells(column)
                    if cells is not column:  # the caller's frame is never changed
                        result = rows.copy() if result is rows else result
                        result.isetitem(position, cells)
            return result
        return rows
    width = list_width(rows) if width is None else width
    if width is None:
        table = np.empty(len(rows), dtype=object)
        for i, row in enumerate(rows):  # `table[:] = rows` would inspect the rows' lengths
            table[i] = row
        return table
    table = np.full((len(rows), width), np.nan, dtype=object)
    for i, row in enumerate(rows):
        # A user's row may raise, or have another length than it states.
        cells = attempt(list, row)[0] if attempt(_vector_length, row)[0] == width else None
        if cells is not None and len(cells) == width:
            # Cell by cell: numpy would inspect the cells of a row, and quote them in errors.
            for j, cell in enumerate(cells):
                if attempt(hash, cell)[1] is None:
                    table[i, j] = cell
    return table


def as_plain_array(values):
    """Return an array without its sub-class, which not all types would keep."""
    return np.asarray(values) if isinstance(values, np.ndarray) else values


def in_native_types(values):
    """Return numbers in native byte order and no longer than doubles, as arrays of objects are.

    One long double gives its type to a whole array.
    """
    dtype = getattr(values, "dtype", None)
    if not isinstance(dtype, np.dtype):
        return values
    native = dtype.newbyteorder("=")
    native = {"g": np.dtype(float), "G": np.dtype(complex)}.get(native.char, native)
    with np.errstate(over="ignore"):
        return values if native == dtype else values.astype(native)


def as_series(rows):
    """Return rows in a container that can be indexed by row: a pandas index or array as a series.

    A text among the numbers of an array decides its type; series get the types of public rows.
    """
    pandas = sys.modules.get("pandas")  # not required, and not imported
    if pandas is not None and isinstance(rows, pandas.api.extensions.ExtensionArray):
        return pandas.Series(rows, index=np.arange(len(rows)))
    return by_row(rows)


def by_row(values, typed=True):
    """Return targets, or another entry, in a container that can be indexed by row.

    An index or array of pandas with texts of Arrow cannot, and a number among them would change
    its type. Unless `typed`, no array of pandas keeps its type.
    """
    if hasattr(values, "iloc") or not hasattr(values, "isna"):
        return values
    if hasattr(values, "to_series"):
        return values.to_series(index=np.arange(len(values)))
    stays = typed and kind_of_type(values.dtype) not in ("texts", "objects")
    return values if stays else np.asarray(values, dtype=object)


def list_width(rows):
    """Most common length of the rows of a list; None for single objects and containers with shape.

    The number of columns is part of the public schema.
    """
    if rows is None or hasattr(rows, "shape"):
        return None
    # By majority, so that a single record does not decide; ties by the largest length, so that the
    # order of the records does not matter.
    counts = Counter(attempt(_vector_length, row)[0] for row in rows)
    return max(counts, key=lambda width: (counts[width], width or 0)) if counts else None


def _vector_length(row):
    """Return the length of a vector, None for anything else; may raise for a user's row."""
    if isinstance(row, list | tuple):
        return len(row)
    shape = getattr(row, "shape", ())
    return shape[0] if isinstance(shape, tuple) and len(shape) == 1 else None


def _hashable_cells(cells):
    """Return the cells, or a copy with NaN for unhashable ones."""
    bad = np.array([attempt(hash, cell)[1] is not None for cell in cells.flat], dtype=bool)
    if not bad.any():
        return cells
    cells = cells.copy()
    cells[bad.reshape(cells.shape)] = np.nan
    return cells


def in_container_of(y, values):
    """Return values in a container of the kind of y."""
    if not hasattr(y, "iloc"):
        return values
    names = {"columns": y.columns} if hasattr(y, "columns") else {"name": y.name}
    return type(y)(values, index=y.index, **names)


def as_plain_numbers(y, labels=False):
    """Return numbers, truth values and categories of numbers as floats, missing ones as NaN.

    With `labels` as integers, each converted by itself, since as floats those beyond 2^53 would be
    rounded. Unchanged if there is a text or another object.
    """
    y, types = in_native_types(y), declared_types(y)
    if set(map(str, types)) == {"bool"}:
        return in_container_of(y, np.asarray(y, dtype=np.float64))
    if not all(str(t) in ("bool", "object") or _hides_numbers(t, labels) for t in types):
        return y
    cells = np.asarray(exact_labels(y), dtype=object)
    numeric = [bool(attempt(isinstance, cell, Real | np.bool_)[0]) for cell in cells.flat]
    others = (cell for cell, number in zip(cells.flat, numeric, strict=True) if not number)
    if not any(numeric) or any(map(is_known, others)):
        return y
    read, missing = (_whole, NO_LABEL) if labels else (float, np.nan)  # also None
    found = map(partial(attempt, read), cells.flat)
    values = [missing if error else value for value, error in found]
    return in_container_of(y, np.array(values, dtype=type(missing)).reshape(cells.shape))


def _hides_numbers(dtype, labels):
    """Whether a type that numpy lacks holds numbers: categories or, with `labels`, integers."""
    integers = (
        labels and not isinstance(dtype, np.dtype) and getattr(dtype, "kind", "") in ("i", "u")
    )
    return (integers or hasattr(dtype, "categories")) and kind_of_type(dtype) == "numbers"


def _whole(cell):
    """Return a number as a 64-bit integer; raise if it is none."""
    number = int(cell)
    if number != cell or abs(number) > np.iinfo(np.int64).max:
        raise ValueError
    return number


def of_one_kind(y):
    """Return targets of type object as numbers, or as texts, if all of them are."""
    # By `type`, as reading a label's ``__class__`` may raise.
    kinds = {type(label) for label in np.asarray(y).flat}
    wanted = [Complex, *((str, bytes) if isinstance(y, np.ndarray) else ())]
    if not any(all(issubclass(kind, known) for kind in kinds) for known in wanted):
        return y
    typed, error = attempt(np.array, y.tolist())  # a label of a sub-class may raise
    # numpy's durations are integers, and would make all labels durations.
    return y if error is not None or typed.dtype.kind == "m" else typed


def without_signals(X_val):
    """Return a copy of a protected frame, in which cells that make pandas raise are missing.

    One signalling NaN makes the test for missing values of its column fail.
    """
    X = X_val.copy()
    for j in range(X.shape[1]):
        column = X.iloc[:, j]
        if attempt(column.isna)[1] is not None:
            tested = [(cell, attempt(type(column)([cell], dtype=object).isna)) for cell in column]
            cells = [np.nan if error else cell for cell, (_, error) in tested]
            X.isetitem(j, of_objects(column, cells))
        elif _has_far_dates(column):
            read = (attempt(list, column.iloc[[k]]) for k in range(len(column)))
            X.isetitem(j, column.mask([error is not None for _, error in read]))
    return X


def _has_far_dates(column):
    """Whether a column of Arrow has dates beyond Python's, one of which makes reading it fail."""
    is_other = hasattr(column.dtype, "pyarrow_dtype") and kind_of_type(column.dtype) == "others"
    return is_other and attempt(list, column)[1] is not None


def of_objects(column, cells):
    """Return a column of objects; given a list, pandas would inspect the cells."""
    cells = np.fromiter(cells, dtype=object, count=len(cells))
    return type(column)(cells, index=column.index, dtype=object)


def in_canonical_form(X):
    """Return CSR rows with sorted indices, no duplicates, and 32-bit indices if possible.

    One record with 64-bit indices would give them to all, and many estimators refuse them.
    """
    X = X.tocsr(copy=True)
    X.sum_duplicates()  # and sorts
    # A public choice, except for more than 2^31 stored numbers.
    dtype = np.int32 if max(*X.shape, X.nnz) <= np.iinfo(np.int32).max else np.int64
    indices = X.indices.astype(dtype), X.indptr.astype(dtype)
    return type(X)((X.data, *indices), shape=X.shape)


def with_stored(X, data):
    """Return CSR rows with other stored numbers."""
    return type(X)((data, X.indices, X.indptr), shape=X.shape)
