"""Conversion of targets and predictions, one record at a time.

A container is never converted as a whole: ``np.asarray([0, 1, "x"])`` would turn every label into
a text because of one record. A record that cannot be read becomes NaN (numbers) or None (labels)
and does not affect the others.
"""

import math
import numbers
from decimal import Decimal
from functools import partial

import numpy as np
from scipy.sparse import issparse

from skdpbo._attempt import attempt, is_known, real_if_exact
from skdpbo._schema import declared_types

_NUMERIC = "biuf"
_PLAIN = bool, int, float, str, bytes  # types of labels that need no conversion


def record_objects(values):
    """Return one Python object per record.

    Parameters
    ----------
    values : ndarray, sparse matrix, pandas object or sequence of n records
        Targets or predictions.

    Returns
    -------
    list of length n
        Scalars, or sequences for several outputs.
    """
    if issparse(values):
        values = values.toarray()
    if isinstance(values, np.ndarray):
        plain = values.dtype != object and values.dtype.names is None
        return values.tolist() if plain else list(values)
    if hasattr(values, "iloc"):
        to_numpy = getattr(values, "to_numpy", partial(np.asarray, values))
        return list(to_numpy(dtype=object))
    return list(values)


def of_numpy(values):
    """Return pandas data of a single numeric numpy type as an array, other values unchanged."""
    types = declared_types(values) if hasattr(values, "to_numpy") else []
    plain = all(isinstance(dtype, np.dtype) and dtype.kind in _NUMERIC for dtype in types)
    return values.to_numpy() if plain and len({*types}) == 1 else values


def n_outputs(prediction):
    """Return the number of outputs of a prediction: its columns, or 1."""
    shape = getattr(prediction, "shape", ())
    return int(shape[1]) if len(shape) == 2 else 1


def as_numbers(values, width):
    """Read ``width`` real numbers from each record.

    Parameters
    ----------
    values : array-like of n records
        Targets or predictions.
    width : int
        Numbers in a record.

    Returns
    -------
    ndarray of shape (n, width)
        float64; a record that is not ``width`` finite real numbers is NaN in every column.
    """
    values = of_numpy(values)
    if type(values) is np.ndarray and values.dtype.kind in _NUMERIC and values.ndim in (1, 2):
        if n_outputs(values) != width:
            return np.full((len(values), width), np.nan)
        with np.errstate(all="ignore"):
            table = values.astype(np.float64).reshape(len(values), width)
    else:
        records = record_objects(values)
        if width > 1 or {*map(type, records)} != {float}:  # floats need no conversion
            records = [_items(record, width) or [None] * width for record in records]
            records = [[_number(item) for item in items] for items in records]  # NaN for None
        table = np.array(records, np.float64).reshape(-1, width)
    return np.where(np.isfinite(table).all(axis=1, keepdims=True), table, np.nan)


def as_labels(values, width):
    """Read ``width`` labels from each record.

    Parameters
    ----------
    values : array-like of n records
        Targets or predictions.
    width : int
        Labels in a record.

    Returns
    -------
    list of length n
        Tuples of ``width`` Python scalars, or None for a record that cannot be read (missing,
        nested, of another width).
    """
    labels = []
    for record in record_objects(values):
        if width == 1 and type(record) in _PLAIN and record == record:  # as below, and faster
            labels.append((record,))
            continue
        items = _items(record, width)
        if items is not None:
            items = tuple(item.item() if isinstance(item, np.generic) else item for item in items)
            # Labels other than texts that have a length are nested.
            flat = (isinstance(x, str | bytes) or not hasattr(x, "__len__") for x in items)
            items = items if all(flat) and all(map(is_known, items)) else None
        labels.append(items)
    return labels


def _items(record, width):
    """Return the items of a record, or None if there are not ``width`` of them."""
    if isinstance(record, np.ndarray):
        record = record.tolist() if record.ndim < 2 else None
    if isinstance(record, list | tuple):
        return record if len(record) == width else None
    return [record] if width == 1 else None


def _number(item):
    item = real_if_exact(item)
    # By types, as float would also accept texts, or warn of arrays.
    if not isinstance(item, numbers.Real | np.bool_ | Decimal):
        return math.nan
    number, error = attempt(float, item)
    return number if error is None else math.nan  # too large, signalling NaN, of a foreign type
