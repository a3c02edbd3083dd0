"""Conversion of protected rows to the types of the public ones, record by record.

Readers of files type a column by all of its values: a text turns numbers into texts, and a missing
value integers into floats. A cell that the public type cannot hold marks its own record as bad.
"""

import numbers
import warnings
from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
from scipy import sparse

from skdpbo._attempt import attempt, real_if_exact
from skdpbo._class_labels import exact_labels
from skdpbo._schema import declared_types, kind_of_type
from skdpbo.model_selection._sklearn import n_rows
from skdpbo.model_selection.rows._object_table import (
    as_objects,
    in_canonical_form,
    list_width,
    of_objects,
    with_stored,
    without_signals,
)
from skdpbo.model_selection.rows._settled_types import (
    below_2_53,
    is_single_column,
)

_NUMBERS = (numbers.Real, np.bool_, Decimal, type(None))
# Words that readers take for truth values, unless the column has another text.
_TRUTH = {f(str(value)): value for value in (True, False) for f in (str, str.lower, str.upper)}


def sizes(data):
    """Return the numbers of dimensions and of columns; 1 column for a vector, None if unknown."""
    shape = getattr(data, "shape", None) or ()
    if not shape:
        return None, None
    return len(shape), shape[1] if len(shape) > 1 else 1


def as_public_schema(X_val, X_public):
    """Return (X, unreadable): `X_val` in the types of `X_public`, and marks of bad records."""
    fine = np.zeros(n_rows(X_val), dtype=bool)
    if is_single_column(X_val) and is_single_column(X_public):
        frame, unreadable = _frame_as_public(X_val.to_frame(), X_public.to_frame(), fine)
        return frame.iloc[:, 0].rename(X_val.name), unreadable
    if hasattr(X_val, "iloc") and hasattr(X_public, "dtypes") and hasattr(X_val, "dtypes"):
        return _frame_as_public(X_val, X_public, fine)
    dtype, width = _type_of_table(X_public)
    if sparse.issparse(X_val):
        X = in_canonical_form(X_val)
        values, fits = _cast(X.data.real, X.data.real.dtype if dtype is None else dtype)
        fits &= X.data.imag == 0  # one complex number makes all of them complex
        fine[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[~fits]] = True
        return with_stored(X, values), fine
    if hasattr(X_val, "iloc"):  # columns typed by all of their values
        objects = dtype is None
        X_val = np.asarray(X_val, dtype=object) if objects else _cells_of(without_signals(X_val))
    if dtype is None:
        dims, columns = sizes(X_public)
        is_table = (dims or 1) > 1  # else a vector of single objects, such as texts
        width = list_width(X_public) or (columns if is_table else None)
        single = isinstance(X_val, list) and width is None
        return X_val if single else as_objects(X_val, width), fine
    kind, dates = getattr(getattr(X_val, "dtype", None), "kind", "O"), dtype.kind in "Mm"
    if kind in "biufc" and not dates:  # one complex number makes all of them complex
        values, bad = X_val.real, (X_val.imag != 0).any(axis=1)
    elif dates and kind == dtype.kind:
        values, bad = X_val, fine
    else:
        values, bad = _rows_as_numbers(X_val, width, dtype if dates else float)
    values, fits = _cast(values, dtype)
    return values, bad | ~fits.all(axis=1)


def _cast(values, dtype):
    """Return numbers in a public type, 0 for those that do not fit, and whether each one does."""
    if values.dtype == dtype and dtype.kind in "bf":
        return values, np.ones(values.shape, dtype=bool)
    if dtype.kind == "f":
        # A number that is too large becomes infinite.
        return values.astype(dtype), np.ones(values.shape, dtype=bool)
    if dtype.kind in "Mm":  # the date with the finest unit decides that of all
        cast = values.astype(dtype)
        fits = (cast.astype(values.dtype) == values) | np.isnat(values)
        return np.where(fits, cast, np.array("NaT", dtype=dtype)), fits
    # To integers or truth values. A number that does not fit is marked: the model never gets its 0.
    fits = _fits(values, dtype)
    return np.where(fits, values, 0).astype(dtype), fits


def as_public_targets(y_val, y_public):
    """Return protected targets as numbers of the public kind, each converted by itself.

    A single target may turn all others into floats (a missing one), texts, unsigned integers (2^63)
    or long doubles. A loss that uses labels as positions would then fail for every record. Targets
    that cannot be read become NaN.
    """
    # Categories have the kind of the values that they stand for.
    y_public = getattr(getattr(y_public, "dtype", None), "categories", y_public)
    if not hasattr(y_public, "shape"):  # a list: numpy may give its public values one type
        y_public = attempt(np.asarray, y_public)[0]
    kinds = {{"u": "i", "g": "f"}.get(kind, kind) for kind in _kinds(y_public)}
    if not kinds <= {"b", "i", "f"} or y_val is None:
        return y_val
    kind = "f" if "f" in kinds else min(kinds, key="ib".index)
    if _kinds(y_val) == {kind}:
        return y_val
    if not hasattr(y_val, "shape"):
        return [_target(record, kind) for record in y_val]
    exact = y_val.toarray() if sparse.issparse(y_val) else exact_labels(y_val)
    cells = np.asarray(exact, dtype=object)
    values = np.empty(cells.size, dtype=float if kind == "f" else object)  # integers beside NaN
    read = [_target(cell, kind) for cell in cells.flat]
    values[:] = [np.nan if isinstance(value, list) else value for value in read]
    return values.reshape(cells.shape)


def _target(cell, kind, several=True):
    """Return a target, or with `several` a list of them, as numbers of a kind; NaN for others."""
    number, error = attempt(_number_of_kind, cell, kind, several)
    return number if error is None else np.nan


def _number_of_kind(cell, kind, several):
    if several and isinstance(cell, list | tuple | np.ndarray):  # one level, as lists may be cyclic
        return [_target(part, kind, several=False) for part in cell]
    value = _truth(cell)
    # Integers may be too long for a float.
    number = int(value) if isinstance(value, numbers.Integral) else float(value)
    if kind == "b" and number in (0, 1):
        return bool(number)
    whole = isinstance(number, int) or number.is_integer()
    return int(number) if kind != "f" and whole else float(number)


def _kinds(y):
    """Return the kinds of the types of targets, "O" for those of lists and of pandas' texts."""
    types = ((getattr(d, "char", ""), getattr(d, "kind", "O")) for d in declared_types(y))
    return {"g" if char == "g" else kind for char, kind in types}


def _type_of_table(X_public):
    """Return type and width of public rows if they are a table of numbers or dates, else Nones."""
    if hasattr(X_public, "iloc"):
        return None, None
    try:
        public = X_public if sparse.issparse(X_public) else np.asarray(X_public)
        if public.dtype.kind == "O":
            # Texts of digits count as texts, as models get them.
            if not all(isinstance(cell, _NUMBERS) for cell in public.flat):
                return None, None
            public = public.astype(float)
    except (TypeError, ValueError):
        return None, None
    is_table = public.dtype.kind in "biufMm" and public.ndim == 2
    return (public.dtype, public.shape[1]) if is_table else (None, None)


def _rows_as_numbers(rows, width, dtype=float):
    """Read each row by itself, so that an unreadable value does not affect other rows."""
    X = np.zeros((n_rows(rows), width), dtype=dtype)
    unreadable = np.zeros(len(X), dtype=bool)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning could reveal a record
        for i, row in enumerate(rows):
            values, error = attempt(np.asarray, row, dtype=dtype)
            if error is not None:
                values, _ = attempt(_with_truth_values, row, dtype)
            unreadable[i] = getattr(values, "shape", None) != (width,)
            if not unreadable[i]:
                X[i] = values
    return X, unreadable


def _cells_of(data):
    """Return the cells of a pandas container as objects, NaN for missing ones of any type."""
    cells = np.array(data, dtype=object)
    cells[np.asarray(data.isna())] = np.nan
    return cells


def _with_truth_values(row, dtype):
    """Read a row in which truth values may have become texts."""
    cells = np.asarray(row, dtype=object)
    return np.array([_truth(cell) for cell in cells], dtype=dtype)


def _truth(cell):
    """Return the truth value of a text such as "True", the real part of a real complex number."""
    cell = real_if_exact(cell)
    text = cell.decode() if isinstance(cell, bytes) else cell
    return _TRUTH.get(text, cell) if isinstance(text, str) else cell


def _date(cell):
    if isinstance(cell, datetime):
        return cell.date() if cell == datetime.combine(cell.date(), time()) else cell
    return date.fromisoformat(cell)


# Conversions of cells to the type of public objects.
_READERS = {bool: _truth, date: _date, time: time.fromisoformat}


def _frame_as_public(X_val, X_public, unreadable):
    """Cast each column to its public type, since readers type columns by all of their values."""
    X = without_signals(X_val)
    for position, dtype in enumerate(X_public.dtypes):
        column = X.iloc[:, position]
        if getattr(dtype, "kind", "O") not in "biuf":
            named = getattr(getattr(dtype, "categories", None), "dtype", None)
            if getattr(named, "kind", "O") in "biuf":  # numbers or truth values
                X.isetitem(position, _with_public_numbers(column, dtype))
            elif dtype == np.object_:
                X.isetitem(position, _as_public_objects(column, X_public.iloc[:, position]))
            elif hasattr(dtype, "categories") or dtype != column.dtype:  # equal in any order
                cells, bad = _cells_as(column, dtype, X_public.iloc[0, position])
                X.isetitem(position, cells)
                unreadable |= bad
            continue
        if column.dtype == dtype and dtype.kind in "bf":
            continue
        values, bad = _as_numbers(column, dtype)
        unreadable |= bad
        if column.dtype != dtype:
            # In the public type: one value must not turn the integers of others into floats.
            cells = type(column)(np.where(bad, 0, values), index=X.index)
            X.isetitem(position, cells.astype(dtype))
    return X, unreadable


def _as_public_objects(column, public):
    """Return cells as objects, converted to truth values, dates or times if public ones are.

    Missing cells become the public missing value, which depends on the type of a column.
    """
    known, missing = public[public.notna()], public[public.isna()]
    kinds = {type(cell) for cell in known}
    read = _READERS.get(kinds.pop()) if len(kinds) == 1 else None
    cells = column.astype(object)
    if read is not None:
        own = [cell if error else value for cell in cells for value, error in [attempt(read, cell)]]
        cells = of_objects(column, own)
    if len({type(cell) for cell in missing}) < 2:
        cells[column.isna()] = missing.iloc[0] if len(missing) else np.nan
    return cells


def _cells_as(column, dtype, public):
    """Return (column, bad): dates, texts or categories of a public type, each cell by itself.

    A cell that is no date turns a column of dates into objects, and a new category shifts the codes
    of others: categories that are not public become missing. Cells that do not fit are replaced by
    the cell `public`, as intervals of integers have no missing value.
    """
    series = type(column)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning could reveal a record
        whole, error = None, True
        if hasattr(column.dtype, "categories") and hasattr(dtype, "categories"):
            whole, error = attempt(_with_public_categories, column, dtype)
        # A cast of dates fails only by overflow in a finer unit.
        elif column.dtype.kind in "Mm":
            whole, error = attempt(column.astype, dtype)
        if error is None:
            return whole, False
        texts = {cell for cell in column if type(cell) is str}
        # Each distinct text once, or all at once if they stay texts, as a cast of a cell is slow.
        fit = kind_of_type(dtype) == "texts" and not hasattr(dtype, "categories")
        fit = fit and attempt(series, [*texts], dtype=dtype)[1] is None
        read = {t: (t, None) if fit else attempt(_in_type, series, t, dtype) for t in texts}
        typed = [
            read[cell] if type(cell) is str else attempt(_in_type, series, cell, dtype)
            for cell in column
        ]
        bad = np.array([error is not None for _, error in typed], dtype=bool)
        cells = [public if error else cell for cell, error in typed]
        return series(cells, index=column.index, dtype=dtype), bad


def _with_public_categories(column, dtype):
    """Return a column of categories in the public type and order.

    Types with the same categories in another order compare equal, so that a cast keeps the order.
    """
    return column.cat.set_categories(dtype.categories, ordered=dtype.ordered)


def _in_type(series, cell, dtype):
    """Return one cell converted by a column of a type; raise if it becomes a list."""
    typed = series([cell], dtype=dtype)
    if typed.dtype != dtype or (np.ndim(typed[0]) and getattr(dtype, "type", None) is not list):
        raise TypeError
    return typed[0]


def _with_public_numbers(column, dtype):
    """Return a column in a public type of numeric categories, each cell by itself.

    Categories that are not public become missing.
    """
    # As floats, to which a missing cell may have turned the protected ones.
    positions = {float(value): code for code, value in enumerate(dtype.categories)}
    own = getattr(column.dtype, "categories", column)  # each category is read once
    values, bad = _as_numbers(own, dtype.categories.dtype)
    codes = [-1 if b else positions.get(v, -1) for v, b in zip(values, bad, strict=True)]
    if own is not column:
        codes = np.array([*codes, -1])[column.cat.codes]  # the code of a missing cell is -1
    cells = dtype.construct_array_type().from_codes(codes, dtype=dtype)
    return type(column)(cells, index=column.index)


def _as_numbers(column, dtype):
    """Return (values, bad): each cell as a float, and whether a public type cannot hold it."""
    kind = getattr(column.dtype, "kind", "O")
    if kind in "biuf":
        values, bad = column.to_numpy(dtype=float, na_value=np.nan), False
    elif kind == "c":  # one complex cell makes all of them complex
        values = column.to_numpy()
        values, bad = values.real, values.imag != 0
    else:
        values, bad = _rows_as_numbers(_cells_of(column).reshape(-1, 1), 1)
        values = values[:, 0]
    return values, bad | ~_fits(values, dtype)


def _fits(values, dtype):
    """Whether the type of a public column can hold each number."""
    if dtype.kind == "f":  # NaN and infinity, too
        return np.ones(len(values), dtype=bool)
    missing = np.isnan(values)
    nullable = hasattr(dtype, "numpy_dtype")
    numpy_dtype = getattr(dtype, "numpy_dtype" if nullable else "subtype", dtype)  # or sparse
    exact = np.where(missing, 0, values).astype(numpy_dtype).astype(float) == values
    if numpy_dtype.kind in "iu":
        exact &= below_2_53(values)  # larger ones are rounded if a missing value makes them floats
    return exact | (missing & nullable)  # nullable types have missing values
