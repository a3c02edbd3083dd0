"""Settled types of rows and targets: types that no single record decides.

numpy and pandas type an array or a column by all of its values: one missing value turns integers
into floats and truth values into objects, one long text widens an array, one new label adds a
category. The conversions, for containers with protected rows:

- integers of 64 bits become floats in rows, also those of intervals and of sparse columns, labels
  of whole floats become integers, and long doubles become doubles;
- truth values become objects in frames, and floats in arrays, where labels become integers;
- texts become objects, or labels as wide as the longest public one;
- categories are those of public rows, if there are any; whole floats among them become integers,
  and categories of several types have the order of public rows, unless an order is declared;
- nanoseconds become the unit that pandas gives to dates of Python, unless public dates need them,
  and so does any unit of an array, which numpy takes from the finest date;
- complex numbers without imaginary parts become real, in public rows;
- a column of which all public cells are missing holds floats;
- in public rows, numbers, truth values and texts of nullable and Arrow types become plain, as
  `convert_dtypes` leaves them in a column with a protected cell of another kind.

Smaller integers, single precision, other nullable integers and, without public rows, categories are
never inferred from files: they are declared by the user, and public.
"""

from datetime import timedelta
from numbers import Complex, Real

import numpy as np
from scipy import sparse

from skdpbo._attempt import attempt
from skdpbo._class_labels import NO_LABEL
from skdpbo._schema import declared_types, kind_of_type
from skdpbo.model_selection.rows._object_table import (
    as_plain_array,
    as_plain_numbers,
    by_row,
    in_canonical_form,
    in_container_of,
    in_native_types,
    of_one_kind,
    with_stored,
)

_INFERRED = {
    **{"int64": "float64", "uint64": "float64", "Int64": "Float64", "UInt64": "Float64"},
    **{"int64[pyarrow]": "double[pyarrow]", "uint64[pyarrow]": "double[pyarrow]"},
    **{
        f"interval[{kind}, {closed}]": f"interval[float64, {closed}]"
        for kind in ("int64", "uint64")
        for closed in ("right", "left", "both", "neither")
    },
}
_CONVERTED = (  # by convert_dtypes of pandas
    *("Int64", "UInt64", "Float64", "boolean", "string"),
    *(f"{kind}[pyarrow]" for kind in ("int64", "uint64", "double", "bool", "string")),
)
_DATES = ("M", "m")  # kinds of types: dates and durations
_ARROW = {"M": "timestamp", "m": "duration"}
_UNIT = "us"  # of arrays of dates; as in pandas


def settled_rows(X, which=None):
    """Return rows in types that neither a missing value nor a fraction can change.

    Types do not depend on values. Call it after the charge, or on synthetic or public rows.
    `which`, for *public* rows: whether to settle a column of a frame; None: all columns.
    """
    if is_single_column(X):
        return settled_rows(X.to_frame(), which).iloc[:, 0].rename(X.name)
    if hasattr(X, "isetitem"):
        columns = [X.iloc[:, j] for j in range(X.shape[1])]
        settled = [_settled_column(c) if which is None or which(c) else c for c in columns]
        # The caller's frame is not changed, and copied only if a column changes.
        changes = [j for j, column in enumerate(columns) if settled[j] is not column]
        X = X.copy() if changes else X
        for j in changes:
            X.isetitem(j, settled[j])
        return X
    X = in_native_types(in_canonical_form(X) if sparse.issparse(X) else X)
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        in_unit = f"{X.dtype.kind}8[{_UNIT}]" if X.dtype.kind in _DATES else None
        dtype = in_unit or _settled_type(X.dtype, "float64")
        return X if dtype is None else X.astype(dtype)
    return X


def is_single_column(X):
    """Whether rows are a pandas series, such as texts."""
    # By its attributes, here and below, as pandas is not imported.
    return hasattr(X, "iloc") and hasattr(X, "to_frame") and not hasattr(X, "columns")


def _settled_column(column):
    if getattr(column.dtype, "kind", "") not in _DATES:
        dtype = _settled_type(column.dtype, object)  # objects can hold truth and missing values
        if str(dtype) == "double[pyarrow]":  # pandas' own cast quotes an integer beyond 2^53
            cells = column.array.__arrow_array__().cast("double", safe=False)
            return type(column)(type(column.array)(cells), index=column.index, name=column.name)
        return column if dtype is None else column.astype(dtype)
    # Dates and durations without nanoseconds, which readers use if one value needs them. Coarser
    # units are declared by the user.
    usual = getattr(type(column)([timedelta(1)]).dt, "unit", "ns")  # pandas 1 has no other
    arrow = getattr(column.dtype, "pyarrow_dtype", None)
    if arrow is not None:  # not cast by Arrow, whose errors quote a date
        kind = column.dtype.kind
        days = str(arrow).startswith("date")  # which numpy would convert to objects
        column = column.astype("timestamp[ms][pyarrow]") if days else column
        cells = type(column)(column.to_numpy(f"{kind}8[{usual}]"), index=column.index)
        zone = f", tz={arrow.tz}" if getattr(arrow, "tz", None) else ""
        return cells.astype(f"{_ARROW[kind]}[{usual}{zone}][pyarrow]")
    return column if usual == "ns" or column.dt.unit != "ns" else column.dt.as_unit(usual)


def _settled_type(dtype, of_truth_values):
    """Return the settled type for one that readers infer, or None."""
    if str(dtype) in ("Sparse[int64, 0]", "Sparse[uint64, 0]"):
        return type(dtype)(np.float64, 0.0)
    return of_truth_values if dtype == np.bool_ else _INFERRED.get(str(dtype))


def settled_targets(y, labels):
    """Return targets in types that one record cannot change; see `settled_rows`.

    Parameters
    ----------
    y : targets or None
        Protected or public.
    labels : bool
        Whether they are labels of classes: whole floats become integers, each by itself, and any
        other number a label of no class.
    """
    if sparse.issparse(y):
        y = in_canonical_form(y)
        return with_stored(y, settled_targets(y.data, labels))
    y = as_plain_numbers(y, labels)
    # Nullable and Arrow numbers, which have several types, become doubles.
    dtypes = declared_types(y)
    numbers = all(getattr(dtype, "kind", "") in ("i", "u", "f") for dtype in dtypes)
    if numbers and not all(isinstance(dtype, np.dtype) for dtype in dtypes):
        y = y.astype("float64")
    dtype = np.asarray(y).dtype if hasattr(y, "columns") else getattr(y, "dtype", None)
    if isinstance(y, np.ndarray) and dtype.kind in "US":
        return y.astype(object)  # the type of a text array reveals its longest text
    if not labels or str(dtype).startswith("interval"):
        if hasattr(y, "columns"):  # a missing value changes the type of its own column
            return y.apply(lambda t: t.astype(_INFERRED.get(str(t.dtype), t.dtype)))
        settled = _INFERRED.get(str(dtype))
        return y if settled is None else y.astype(settled)
    if str(dtype) not in ("float64", "uint64"):  # to which one label may turn integers
        return y
    with np.errstate(invalid="ignore"):  # NaN is converted to some integer, which differs below
        integers = np.asarray(y).astype(np.int64)
    return in_container_of(y, np.where(integers == np.asarray(y), integers, NO_LABEL))


def from_public_values(values):
    """Return public rows or targets, an array of texts with the width of its longest text.

    Cut from a common table, its type may reveal the longest protected text.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "US":
        size = max(int(np.char.str_len(values).max(initial=0)), 1)
        return values.astype(f"{values.dtype.kind}{size}")
    return values


def below_2_53(values):
    """Whether integers are exact as floats, to which one missing value turns them."""
    return (values > -(2**53)) & (values < 2**53)


def without_long_integers(X):
    """Return public rows with floats in columns of 64-bit integers that are not all below 2^53.

    In such a column, one missing protected value makes pandas round the others.
    """
    if sparse.issparse(X) or (isinstance(X, np.ndarray) and not _holds_long_integers(X)):
        return X
    return settled_rows(X, _holds_long_integers)


def _holds_long_integers(values):
    integers = getattr(values.dtype, "kind", "O") in "iu" and str(values.dtype) in _INFERRED
    return integers and not below_2_53(values).all()


def settled_public_rows(X):
    """Return public rows, taken from a table with protected ones, typed by public values alone."""
    if is_single_column(X):
        return settled_public_rows(X.to_frame()).iloc[:, 0].rename(X.name)
    X = _real_if_exact(_with_own_index(X))
    if isinstance(X, np.ndarray) and X.dtype.kind in "US":
        X = X.astype(object)  # as with a missing value
    if isinstance(X, np.ndarray) and X.dtype.kind in _DATES:
        settled = settled_rows(X)
        return settled if ((settled == X) | np.isnat(X)).all() else X  # nanoseconds in public rows
    X = X if hasattr(X, "isetitem") else settled_rows(X)
    if isinstance(X, np.ndarray) and X.dtype == np.object_:
        for kind, dtype in ((Real, "float64"), (Complex, "complex128")):
            if all(isinstance(cell, kind) for cell in X.flat):  # objects by a protected text
                return _real_if_exact(X.astype(dtype))
        return X
    if not hasattr(X, "isetitem"):
        return X
    return _by_column(X, _own_column)


def _by_column(frame, settle):
    frame = frame.copy()
    for j in range(frame.shape[1]):
        frame.isetitem(j, settle(frame.iloc[:, j]))
    return frame.copy()  # consolidated: the memory layout does not show the replaced columns


def _own_column(column):
    """Return a public column of a frame, typed by its own values."""
    if column.isna().all():
        return column.astype(object).where(column.notna(), np.nan).astype("float64")
    if getattr(column.dtype, "categories", None) is not None:
        return _with_own_categories(column)
    inferred = _real_if_exact(_inferred(column))
    settled = _settled_column(inferred)
    if getattr(settled.dtype, "kind", "") in _DATES:
        exact = settled.astype(inferred.dtype) == inferred
        settled = settled if exact[inferred.notna()].all() else inferred
    return _made_anew(settled)


def _inferred(column):
    """Return a column with the type of its values, instead of objects due to another record."""
    if str(column.dtype) in _CONVERTED:
        column = column.astype(object).where(column.notna(), np.nan)
    inferred, error = attempt(column.infer_objects)  # a cell may raise
    return column if error is not None else inferred


def _made_anew(column):
    """Rebuild a nullable, Arrow or text column, so that its pickle does not reveal other cells.

    Values stored under missing cells, dictionaries, and traces of conversions would be in it.
    """
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in _DATES:
        cells = column.to_numpy().astype(np.int64).astype(str(column.dtype))
        return type(column)(cells, index=column.index, name=column.name)
    if not hasattr(column.dtype, "numpy_dtype") and kind_of_type(column.dtype) != "texts":
        return column
    return type(column)(column.astype(object), dtype=column.dtype)


def _real_if_exact(values):
    """Return complex numbers as real ones, unless a public one has an imaginary part."""
    if getattr(getattr(values, "dtype", None), "kind", "") != "c":
        return values
    if np.imag(values.data if sparse.issparse(values) else values).any():
        return values
    if hasattr(values, "map"):
        return values.map(np.real)
    # A contiguous copy: the real part is a strided view.
    return values.real.copy(order="K") if isinstance(values, np.ndarray) else values.real.copy()


def _with_own_categories(column):
    """Return public values with the categories that occur among them, typed and ordered by these.

    pandas sorts categories that can be compared. With a protected cell that cannot, their order is
    that of all rows, and must be restored, unless an order is declared.
    """
    declared = column.cat.ordered or attempt(column.cat.categories.sort_values)[1] is None
    # Categories that no public row has may come from protected rows.
    column = column.cat.remove_unused_categories()
    given = column.cat.categories.to_series()
    known = type(given)(_own_targets(given, True))
    column = column.cat.rename_categories(known.array)
    if declared:
        return column
    if known.dtype == np.object_:
        return column.astype(object).astype("category")
    return column.cat.reorder_categories(known.sort_values().array)


def _with_own_index(values):
    """Return rows or targets with an index typed by its own labels, without unused ones."""
    index = getattr(values, "index", None)
    if not hasattr(values, "set_axis"):
        return values
    if index.dtype == np.object_ and index.nlevels == 1:
        index = type(index)(index.tolist())  # tuples become levels if all labels are tuples
    levels = [index.get_level_values(k).to_series() for k in range(index.nlevels)]
    levels = [_own_targets(labels, True) for labels in levels]
    if len(levels) == 1:
        return values.set_axis(levels[0], axis=0)
    return values.set_axis(type(index).from_arrays(levels, names=index.names), axis=0)


def settled_public_targets(y, labels):
    """Return public targets, taken from a table with protected ones, typed by public values alone.

    Parameters
    ----------
    y : targets or None
    labels : bool
        As for `settled_targets`; public labels that are not whole stay as they are.
    """
    if sparse.issparse(y):
        y = in_canonical_form(y)
        return with_stored(y, settled_public_targets(y.data, labels))
    # Without the sub-class of an array, which not all types would keep.
    y = in_native_types(by_row(as_plain_array(y), typed=False))
    if hasattr(y, "columns"):
        return _by_column(_with_own_index(y), lambda column: settled_public_targets(column, labels))
    y = _own_targets(_with_own_index(y), labels)
    # Complex labels match no class: as objects, those without imaginary parts do.
    is_complex = labels and getattr(getattr(y, "dtype", None), "kind", "") == "c"
    return y.astype(object) if is_complex else y


def _own_targets(y, labels):
    if fields := getattr(getattr(y, "dtype", None), "names", None):
        own = {name: _own_targets(y[name].copy(), labels) for name in fields}
        typed = np.empty(len(y), [(name, f.dtype, f.shape[1:]) for name, f in own.items()])
        for name in fields:
            typed[name] = own[name]
        return typed
    if hasattr(y, "infer_objects"):
        y = _inferred(y)
    if getattr(getattr(y, "dtype", None), "kind", "") in _DATES:  # copied, to have an empty cache
        return (_own_column(y) if hasattr(y, "dt") else settled_public_rows(y)).copy()
    y = _real_if_exact(y)
    if getattr(y, "dtype", None) == np.object_:
        y = _real_if_exact(of_one_kind(y))
    dtype = getattr(y, "dtype", None)
    if getattr(dtype, "kind", "") in ("U", "S"):
        return from_public_values(y)
    if getattr(dtype, "categories", None) is not None and hasattr(y, "cat"):
        return _with_own_categories(y)
    if dtype == np.bool_ and hasattr(y, "infer_objects"):
        return y
    y = _made_anew(y) if hasattr(y, "infer_objects") else y
    settled = settled_targets(y, labels)
    return y if settled is not y and np.any(np.asarray(settled) == NO_LABEL) else settled
