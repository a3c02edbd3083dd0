"""Categorical columns: keys of values, which are equal if and only if the categories are."""

import math
from collections import Counter

import numpy as np
from scipy.sparse import issparse

from skdpbo._attempt import attempt
from skdpbo._schema import is_dask

_MISSING = ("missing", None)
# For these exact types equal values have equal keys, and comparisons run no user code. By id, since
# a metaclass may define ``==`` and ``hash``.
_PLAIN = frozenset(map(id, (str, bool, int, float, type(None))))


def columns_of(X, estimator):
    """Protected: return the columns as a list of vectors; errors depend on shape and type alone."""
    if issparse(X):
        raise TypeError("Sparse data was passed for X, but dense data is required.")
    if hasattr(X, "iloc"):  # each column of a frame has its own type
        return [_cells(X.iloc[:, j]) for j in range(_checked_shape(X.shape, estimator)[1])]
    if not (hasattr(X, "dtype") or is_dask(X)):
        table, _ = attempt(np.asarray, X, dtype=object)
        if table is None:  # numpy inspects cells, which may raise
            table, _ = attempt(
                lambda: np.stack([np.fromiter(row, dtype=object, count=len(row)) for row in X])
            )
        if table is None:
            raise ValueError("X must be a rectangular array.")
        X = table
    elif not is_dask(X):  # whose columns are computed one by one
        X = np.asarray(X)
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must be real or strings.")
    return [X[:, j] for j in range(_checked_shape(X.shape, estimator)[1])]


def _cells(column):
    """Protected: return a vector whose type depends on the declared type of a column alone.

    By default pandas chooses the type of a nullable column by whether values are missing.
    """
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy()
    return column.to_numpy(dtype=object, na_value=None)


def _checked_shape(shape, estimator):
    if len(shape) != 2:
        raise ValueError(
            f"Expected 2D array for X, got {len(shape)}D array instead. Reshape your data."
        )
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count < 1:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required "
                f"by {type(estimator).__name__}."
            )
    return shape


def category_key(value):
    """Protected: return the key of a value, a pair; None for a value of another type.

    Equal keys print alike, so that a category's name does not depend on its records: numbers
    become floats, and None and NaN are one category.
    """
    kind = type(value)  # the attribute __class__ of a proxy may raise
    # As Python's types, so that equal values of an array and of a list have equal keys.
    if issubclass(kind, np.generic):
        value = np.generic.item(value)  # a sub-class may override it
        value = float(value) if type(value) is np.longdouble else value  # has no Python type
        kind = type(value)
    if kind is str:
        return ("str", value)
    if value is None:
        return _MISSING
    # Exact types: a sub-class may define how it prints and compares.
    if not (kind is bool or kind is int or kind is float):
        return None
    try:
        number = float(value) + 0.0  # -0.0 is 0.0
    except OverflowError:  # an error could reveal the record
        return None
    return _number_key(number)


def _number_key(number):
    return _MISSING if math.isnan(number) else ("number", number)


def category_counts(column):
    """Protected: number of records of each key that occurs."""
    column = np.asarray(column)
    if column.dtype.kind in "biuf":
        # Several values may have one key: NaNs, and integers that are the same float.
        values, sizes = np.unique(_as_floats(column), return_counts=True)
        keys = map(_number_key, values.tolist())
        return Counter(dict(zip(keys, sizes.tolist(), strict=True)))
    plain, others = _by_type(column.tolist())
    counts = Counter(map(category_key, others))
    for value, size in Counter(plain).items():
        counts[category_key(value)] += size
    counts.pop(None, None)  # values of other types have no name to be released
    return counts


def _by_type(cells):
    """Protected: return the cells of plain types, and the others."""
    if _PLAIN.issuperset(map(id, map(type, cells))):  # the common case
        return cells, []
    plain = [cell for cell in cells if id(type(cell)) in _PLAIN]
    return plain, [cell for cell in cells if id(type(cell)) not in _PLAIN]


def _as_floats(column):
    """Protected: return a column of numbers in double precision, without -0.0."""
    with np.errstate(all="ignore"):  # a warning would depend on the values
        return column.astype(np.float64) + 0.0


def key_positions(column, keys):
    """Protected: return for each value the position of its key; ``len(keys)`` if not listed."""
    column, none = np.asarray(column), len(keys)
    table = {key: k for k, key in enumerate(keys)}
    if column.dtype.kind in "biuf":
        values, inverse = np.unique(_as_floats(column), return_inverse=True)
        found = [table.get(_number_key(value), none) for value in values.tolist()]
        return np.array(found, dtype=np.intp)[inverse]
    cells = column.tolist()
    plain, others = _by_type(cells)
    known = {cell: table.get(category_key(cell), none) for cell in set(plain)}
    if not others:
        return np.fromiter(map(known.get, cells), dtype=np.intp, count=len(cells))
    found = [
        known[cell] if id(type(cell)) in _PLAIN else table.get(category_key(cell), none)
        for cell in cells
    ]
    return np.array(found, dtype=np.intp)


def representatives(column, codes):
    """Protected: return for each group one of its rows that holds its most frequent category.

    A function of the group's own values; ties are broken by the text of the key.

    Parameters
    ----------
    column : ndarray of shape (n,)
    codes : ndarray of shape (n,), dtype intp
        Group of each row.

    Returns
    -------
    ndarray of shape (n_groups,), dtype intp
    """
    tallies = [{} for _ in range(int(codes.max()) + 1)]
    for row, (code, value) in enumerate(zip(codes.tolist(), column.tolist(), strict=True)):
        key = category_key(value) or ()  # (): a value of another type, taken only if alone
        count, first = tallies[code].get(key, (0, row))
        tallies[code][key] = count + 1, first
    # Ties by text, so that the order of the group's rows does not matter.
    best = [max(tally, key=lambda k: (k != (), tally[k][0], str(k))) for tally in tallies]
    return np.array([tally[key][1] for tally, key in zip(tallies, best, strict=True)])
