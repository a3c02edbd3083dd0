"""Checks of the types and shapes of protected tables; no error depends on their values."""

import re
import warnings
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from numbers import Number

import numpy as np
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.validation import _num_samples

from skdpbo._attempt import attempt, refuse_masked

_IMPUTE = (
    "DPSimpleImputer of skdpbo.preprocessing, as an earlier step of a pipeline, fills in missing "
    "values, at a share of the budget."
)
_SPARSE = "Sparse data was passed for {}, but dense data is required."
# Kinds of polars types, by the Python type of their cells.
_KINDS: dict[type, str] = {
    **dict.fromkeys((bool, int, float), "numbers"),
    **dict.fromkeys((object, type(None)), "objects"),
    str: "texts",
    Decimal: "decimals",
}
# Kinds of Arrow types, by their names without digits.
_KINDS_OF_ARROW = {
    **dict.fromkeys(("bool", "int", "uint", "halffloat", "float", "double"), "numbers"),
    **dict.fromkeys(("string", "large_string", "string_view"), "texts"),
    "decimal": "decimals",
}
_COMPLEX = "Complex data not supported: {} must be real."
_NOT_NUMERIC = "{} must be numeric: every argument must be a string or a real number."
_NO_ROWS = "{} must have one entry for each record, got {}."
_DATES = "Give dates as numbers, such as days since a fixed date."
_BY_ROW = "__array__", "__array_interface__", "__array_struct__", "__getitem__"
_SCALAR = -1  # stands for the length of what is one cell, such as a number or a text
_SCALAR_TYPES = float, int, str, dict, bytes, np.generic, complex, Decimal, Number


def has_numeric_type(values):
    """Whether values are a numeric array or frame, whose shape and types need no read of values.

    Not arrays in files (h5py, zarr), of which numpy would read the values.
    """
    dtypes = getattr(values, "dtypes", None)  # of a data frame
    dtypes = [getattr(values, "dtype", None)] if dtypes is None else np.ravel(dtypes)
    numeric = (isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in dtypes)
    is_known_type = isinstance(values, np.ndarray) or is_dask(values) or hasattr(values, "iloc")
    return is_known_type and all(numeric)


def checked_table(values, name, *, ensure_2d, estimator, accept_sparse=False):
    """Return protected values as an array of real numbers; Dask arrays and memory maps stay.

    scikit-learn's own errors print what cannot be converted, and whole arrays where the number of
    dimensions or the type is wrong. Here an error depends on the shape and the types alone.

    Parameters
    ----------
    values : array-like or Dask array
        Protected.
    name : str
        Parameter's name, for messages.
    ensure_2d : bool
        Whether one-dimensional values are refused.
    estimator : object
        Named in messages.
    accept_sparse : bool, default=False
        Whether sparse matrices are accepted; they are returned as CSR.

    Returns
    -------
    ndarray, Dask array or CSR matrix
        May contain NaN and infinity.

    Raises
    ------
    ValueError, TypeError
    """

    def check(table):
        # Cells of lists and objects are converted one by one: a warning could reveal one of them.
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            found = check_array(
                table,
                accept_sparse="csr" if accept_sparse else False,
                dtype="numeric",
                ensure_all_finite=False,
                ensure_2d=ensure_2d,
                input_name=name,
                estimator=estimator,
            )
            # A list with one long integer or decimal becomes an array of objects.
            return found.astype(np.float64) if found.dtype.kind == "O" else found

    table = values if is_dask(values) else attempt(check, values)[0]
    if table is None:  # outside of a handler: its error, which quotes values, would be the context
        raise _refusal(values, name, ensure_2d, check)
    if table.dtype.kind not in "biuf":
        advice = _advice_on_columns(values, name)
        raise TypeError(f"{name} must be numeric, got type {table.dtype}.{advice}")
    if table.ndim > 2 or table.ndim < 1 + ensure_2d:  # of a Dask array, unseen by scikit-learn
        raise ValueError(f"{name} must have {'two' if ensure_2d else 'one or two'} dimensions.")
    return table


def refuse_types(values, name, *, texts=False):
    """Refuse types other than real numbers, or texts if `texts`; no value is read."""
    _refuse_containers(values, name)
    refuse_equal_names(values, name)
    taken = {"numbers", "objects", *(("texts", "mixed") if texts else ())}
    if taken.issuperset(map(kind_of_type, declared_types(values))):
        return
    if texts:
        raise TypeError(
            f"{name} must hold numbers or texts: other types, as dates, are neither. {_DATES}"
        )
    raise TypeError(_NOT_NUMERIC.format(name) + _advice_on_columns(values, name))


def refuse_sparse_and_complex(values, name, *, sparse=False):
    """Refuse complex values, and sparse ones unless `sparse`, by their declared types.

    Of frames of sparse columns, scikit-learn converts those with fill value 0 alone.
    """
    refuse_array_kinds(values, name)
    declared = declared_types(values)
    fills = [getattr(dtype, "fill_value", None) for dtype in declared]
    is_frame = hasattr(values, "columns") and bool(fills) and None not in fills
    supported = sparse and (issparse(values) or is_frame)
    accepted = supported and all(fill is None or fill == 0 for fill in fills)
    if (hasattr(values, "todense") or is_frame) and not accepted:  # also of other libraries
        raise TypeError(_SPARSE.format(name))
    if any(getattr(dtype, "kind", "O") == "c" for dtype in declared):
        raise ValueError(_COMPLEX.format(name))


def kind_of_type(dtype):
    """Return "numbers", "texts", "decimals", "mixed", "objects" or "others" (such as dates).

    "mixed" are categories of which only some are texts; "objects" may hold numbers and texts.
    """
    categories = getattr(dtype, "categories", None)
    if hasattr(categories, "dtype"):  # not of polars, which lists the categories of all columns
        texts = {issubclass(type(category), str) for category in categories}  # a proxy may raise
        if texts == {True, False}:
            return "mixed"
        return "texts" if texts == {True} else kind_of_type(categories.dtype)
    arrow = getattr(dtype, "pyarrow_dtype", dtype)
    if hasattr(arrow, "index_type"):  # a dictionary: categories of Arrow
        return kind_of_type(arrow.value_type)
    if hasattr(arrow, "to_pandas_dtype"):
        return _KINDS_OF_ARROW.get(re.match("[a-z_]*", str(arrow))[0], "others")
    if hasattr(dtype, "to_python"):  # of polars
        return _KINDS.get(dtype.to_python(), "others")
    kind, scalar = getattr(dtype, "kind", "O"), getattr(dtype, "type", np.object_)
    if scalar is np.object_:
        return "objects"
    if isinstance(scalar, type) and issubclass(scalar, str):
        return "texts"
    # Periods, intervals and decimals have the kind of objects, too.
    return "decimals" if scalar is Decimal else "numbers" if kind in "biuf" else "others"


def declared_types(values):
    """Return the column types of a frame or table, else a list of the one type of the values."""
    if hasattr(values, "columns") and hasattr(values, "dtypes"):
        return list(values.dtypes)
    if hasattr(values, "schema") and hasattr(values.schema, "types"):  # a table of Arrow
        return values.schema.types
    return [getattr(values, "dtype", getattr(values, "type", None))]  # of Arrow's arrays


def in_doubles(values):
    """Protected: return floats in double precision, other real numbers as they are; no warning.

    Of a list, one cell may decide the precision and so the rounding of the other records.
    """
    if values.dtype.kind != "f" or values.dtype == np.float64:
        return values
    with np.errstate(all="ignore"):  # large ones are infinite
        return values.astype(np.float64)


def refuse_not_finite(values, name, *, allow_nan=False):
    """Raise scikit-learn's error if a value is infinite, or NaN unless `allow_nan`.

    Also with ``sklearn.set_config(assume_finite=True)``, since sensitivities rely on this check.

    Parameters
    ----------
    values : ndarray
        Of real numbers. Protected; the error quotes none.
    name : str
        Parameter's name, for the message.
    allow_nan : bool, default=False
        Whether NaN is accepted.
    """
    if (np.isinf(values) if allow_nan else ~np.isfinite(values)).any():
        with config_context(assume_finite=False), np.errstate(all="ignore"):
            try:
                assert_all_finite(values, allow_nan=allow_nan, input_name=name)
            except ValueError as error:
                if name == "X" and "NaN" in str(error):
                    error.add_note(_IMPUTE)
                raise


def _refusal(values, name, ensure_2d, check):
    """Return the error for values that scikit-learn refused; it depends on shape and type alone."""
    with warnings.catch_warnings(action="ignore"):  # as in the check
        array, _ = attempt(np.asarray, values)
    if array is None:
        return ValueError(f"{name} must be a rectangular array.")
    if array.dtype.kind == "c":
        return ValueError(_COMPLEX.format(name))
    if ensure_2d and array.ndim < 2:
        return ValueError(
            f"Expected 2D array for {name}, got {array.ndim}D array instead. Reshape your data."
        )
    try:
        check(np.zeros(array.shape))  # raises if the shape is the reason
    except Exception as error:  # of zeros: it quotes no value
        return error
    return TypeError(_NOT_NUMERIC.format(name) + _advice_on_columns(values, name))


def _advice_on_columns(values, name):
    """Return advice on the columns of a frame X without a numeric type; no value is read."""
    if name != "X" or not hasattr(values, "columns"):
        return ""
    names = getattr(values, "column_names", values.columns)
    columns = zip(map(str, names), declared_types(values), strict=True)
    others = [n for n, t in columns if kind_of_type(t) != "numbers" or hasattr(t, "categories")]
    return bool(others) * (
        f" These columns are of other types: {', '.join(others)}. Leave them out, or encode them, "
        f"as with DPOneHotEncoder of skdpbo.preprocessing in a ColumnTransformer. {_DATES}"
    )


def refuse_missing_target(y, estimator):
    """Raise scikit-learn's error for a supervised estimator that got no targets."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None."
        )


def check_same_length(X, y, groups):
    """Raise a ValueError if X and y differ in length; with groups the lengths are not quoted."""
    lengths = [length_of(X, "X"), length_of(X if y is None else y, "y")]
    if lengths[0] != lengths[1]:
        found = f", got {lengths[1]} for {lengths[0]}" if groups is None else ""
        raise ValueError(f"y must have one entry for each row of X{found}.")


def length_of(values, name):
    """Return the number of rows. scikit-learn's own error quotes a scalar."""
    _refuse_containers(values, name)
    if is_dask(values):  # its own error is about blocks of unknown length
        return _num_samples(values)
    length, error = attempt(_num_samples, values)
    if error is not None:
        raise TypeError(_NO_ROWS.format(name, type(values).__name__))
    return length


def public_shape(values):
    """Return the shape; None if it cannot be known without reading values.

    Of a list the number of columns is the most common length of a row; there are three dimensions
    if the first and last cells of most rows are rows, too.
    """
    if type(values) is not list or not values:
        return getattr(values, "shape", None)
    width = Counter(map(_length_of_row, values)).most_common(1)[0][0]
    if width in (None, _SCALAR):
        return width and (len(values),)
    rows = (row for row in values if width and _length_of_row(row) == width)
    ends = Counter((_length_of_row(row[0]), _length_of_row(row[-1])) for row in rows)
    depths = set(max(ends, key=ends.get, default=()))
    return (len(values), width, *(depths - {None, _SCALAR} if len(depths) == 1 else ()))


def _length_of_row(row):
    kind = type(row)  # the attribute __class__ of a proxy may raise
    if kind is list or kind is tuple:
        return len(row)
    if kind is float or kind is int or kind is str:  # most are
        return _SCALAR
    # By identity: the class of a class may define `==`, `hash` and `__mro__`.
    bases = vars(type)["__mro__"].__get__(kind)
    return _SCALAR if any(base is known for base in bases for known in _SCALAR_TYPES) else None


def refuse_equal_names(values, name):
    """Refuse a frame of which several columns have one name, as scikit-learn does since 1.9."""
    columns = getattr(values, "columns", None)
    if not getattr(columns, "is_unique", True):
        several = ", ".join(map(repr, columns[columns.duplicated()].unique().tolist()))
        raise ValueError(f"{name} must have columns of different names, got several of: {several}.")


def refuse_array_kinds(values, name):
    """Refuse masked arrays and, as scikit-learn does, np.matrix."""
    refuse_masked(values, name)
    if isinstance(values, np.matrix):
        raise TypeError(f"{name} is a np.matrix, which is not supported: give np.asarray(...).")


def _refuse_containers(values, name):
    """Refuse what cannot be read by row, or whose length or types need a read of the values."""
    if hasattr(values, "__dask_graph__") and not is_dask(values):
        raise TypeError(
            f"{name} is a Dask collection, and not an array: give "
            f"{name}.to_dask_array(lengths=True) or {name}.compute()."
        )
    by_row = any(hasattr(values, kind) for kind in _BY_ROW) and not isinstance(values, Mapping)
    if not (by_row or issparse(values) or values is None):  # None: no targets
        raise TypeError(_NO_ROWS.format(name, type(values).__name__))
    if hasattr(values, "columns") and any(t is None for t in declared_types(values)):
        raise TypeError(f"{name} is a table of unknown types: give a pandas frame or an array.")
    # Tried on no row. It fails for tensors of types that numpy lacks, or with gradients.
    is_tensor = hasattr(values, "dtype") and not is_dask(values)
    empty = attempt(lambda: values[:0])[0] if is_tensor else None
    if empty is not None and attempt(np.asarray, empty)[1] is not None:
        raise TypeError(f"{name} cannot be read as a numpy array: give one, or a list of rows.")


def share_memory(A, B):
    """Whether two arrays certainly share memory; no value is read."""
    if A is B:
        return A is not None
    if not all(isinstance(each, np.ndarray) for each in (A, B)) or not np.may_share_memory(A, B):
        return False
    try:
        return np.shares_memory(A, B, max_work=10_000)  # two slices of a table take a few steps
    except np.exceptions.TooHardError:
        return False


def is_dask(X):
    """Whether X is a Dask array, by its attributes: Dask is not imported."""
    return hasattr(X, "to_delayed") and hasattr(X, "rechunk") and hasattr(X, "dask")
