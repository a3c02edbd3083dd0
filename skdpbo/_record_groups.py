"""Groups of records, all of whose records are protected together.

In a released sum of integers, each record of a group of n_g records contributes its integers
divided by n_g and truncated toward zero. A group then contributes at most the mean of its records'
contributions, so replacing a group moves the sum by no more than replacing a single record would,
whatever the sizes of groups (``docs/theory/groups.md``).
"""

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdpbo._attempt import attempt

_WIDTH = 256  # smallest batch: a random byte is a place in it
_MOST, _CELLS = 2**12, 2**15  # largest batch: in records, and in numbers of a table
_EMPTY_SIZE = 2**60  # group size of an empty place: integers divided by it are 0
_COUNT_BITS = 20  # histograms count in steps of 2^-20 records


def check_group_labels(groups, n_records, *, name="groups_val", rows="X_val"):
    """Raise a ValueError unless there is one label for each row; no label is read.

    Parameters
    ----------
    groups : sequence of hashable
        Labels.
    n_records : int
        Number of rows.
    name, rows : str
        Of `groups` and of the rows, for the messages.
    """
    shape = groups.shape if hasattr(groups, "shape") else (len(groups),)
    if len(shape) != 1:
        raise ValueError(f"{name} must have one dimension: one label for each row of {rows}.")
    if shape[0] != n_records:
        raise ValueError(f"{name} must have one label for each row of {rows}.")


def group_codes(
    groups: Any, n_records: int, name: str = "groups_val", rows: str = "X_val"
) -> NDArray[np.intp]:
    """Number the groups in the order in which they first appear. Call in isolation.

    Labels are compared as keys of a dict are. A label that is missing, unequal to itself (NaN) or
    unhashable forms a group of its own: an error would reveal it.

    Parameters
    ----------
    groups : sequence of hashable
        Labels; protected, but for the number of the groups.
    n_records, name, rows
        As in `check_group_labels`, which is called.

    Returns
    -------
    codes : ndarray of shape (n_records,), dtype intp
        In {0, ..., n_groups - 1}, each of them present.
    """
    check_group_labels(groups, n_records, name=name, rows=rows)
    labels = getattr(groups, "values", groups)  # of a series
    if type(labels) is np.ndarray and labels.dtype.kind in "biuf":
        first, codes = np.unique(labels, True, True, equal_nan=False)[1:]
        return np.argsort(np.argsort(first))[codes]
    known: dict[Any, int] = {}
    n_groups, codes = 0, np.empty(n_records, dtype=np.intp)
    with warnings.catch_warnings(action="ignore"):  # sparse labels warn where they are compared
        for row, label in enumerate(_cells(groups)):
            # The hash or equality of a label may raise: an error that quotes a protected value.
            code, _ = attempt(_code_of, known, label, n_groups)
            codes[row] = n_groups if code is None else code
            n_groups += codes[row] == n_groups
    return codes


def _cells(groups):
    """Protected: return the labels; None for a date of Arrow that Python cannot represent."""
    if not hasattr(groups, "to_pylist") and not hasattr(groups, "dtype"):
        return groups
    cells, error = attempt(_listed, groups)
    if error is None:
        return cells
    groups = getattr(groups, "array", groups)  # of pandas; labels of its index are no places
    cells = (attempt(_listed, groups[row : row + 1])[0] for row in range(len(groups)))
    return [None if cell is None else cell[0] for cell in cells]


def _listed(labels):
    return labels.to_pylist() if hasattr(labels, "to_pylist") else list(labels)  # of Arrow


def _code_of(known, label, new):
    """Return the number of a label; a new one for a label that is missing."""
    return known.setdefault(label, new) if label is not None and label == label else new


def place_batches(groups, most=_MOST):
    """Return batches of records in which the records of each group have places of their own.

    The rounding of a prediction may depend on the size of its batch and on its place there. All
    batches have one size, a function of the number of groups, which is public. The place of a
    record is a function of its group's number and of its rank in the group. So the size of one
    group does not affect the rounding in another.

    Parameters
    ----------
    groups : ndarray of shape (m,), dtype int
    most : int, default=4096
        Largest size of a batch, at least 256; public.

    Returns
    -------
    batches : ndarray of shape (n_batches, width), dtype intp
        Each record once; -1 in an empty place.
    """
    n_groups = int(groups.max()) + 1
    # First records of all groups fill whole batches of equal size, of 256 records at least.
    width = max(_WIDTH, -(-n_groups // -(-n_groups // most)))
    # Consecutive groups start far apart, so that long groups overlap little and batches are few.
    stride = next(k for k in range(5 * width // 8, width) if math.gcd(k, width) == 1)
    return _batches((groups * stride + _ranks(groups)) % width, width)


def random_batches(n_records, source):
    """Return batches in which each record has a random place, for a secret number of records.

    Adding or removing a record does not change the law of the other records' places, and the size
    of a batch is constant: given the places, it does not affect the rounding of other records
    (Lemma of ``docs/theory/permute_and_flip.md``, "The number stays secret").

    Parameters
    ----------
    n_records : int
        Protected.
    source : RandomSource

    Returns
    -------
    batches : ndarray of shape (n_batches, 256), dtype intp
        As of `place_batches`. Protected.
    """
    return _batches(np.frombuffer(source.bytes(n_records), np.uint8), _WIDTH)


def _batches(places, width):
    """Protected: return the fewest batches with each record in its place; -1 in empty places."""
    # Records of one place follow each other in the batches.
    ranks = _ranks(places)
    batches = np.full((ranks.max(initial=-1) + 1, width), -1, dtype=np.intp)
    batches[ranks, places] = np.arange(len(places))
    return batches


def _ranks(keys):
    """Protected: return the number of earlier entries that are equal to each, shape (n,)."""
    order, counts = np.argsort(keys, kind="stable"), np.bincount(keys)
    ranks = np.empty(len(keys), dtype=np.intp)
    ranks[order] = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks


class PlacedRows:
    """Rows of a table in batches in which each group has places of its own; see `place_batches`.

    Parameters
    ----------
    table : ndarray, memory map or CSR matrix of shape (m, ...)
        Protected; read by batches.
    codes : ndarray of shape (m,), dtype intp
        Group of each row, from 0.

    Attributes
    ----------
    codes : ndarray of shape (m,)
        As given. Protected.
    n_groups : int
        Public.
    width : int
        Rows in a batch. Public.
    sizes : ndarray of shape (n_places,), dtype int64
        Number of records in the group of each row. An empty place has a copy of another row, and a
        group size so large that its contribution is truncated to 0.
    shape : tuple
        (n_places, ...).
    """

    def __init__(self, table, codes):
        most = min(_MOST, max(_WIDTH, _CELLS // math.prod(table.shape[1:])))
        batches = place_batches(codes, most)
        empty = batches < 0
        self._table = table
        self._order = np.where(empty, batches.max(axis=1, keepdims=True), batches).ravel()
        numbers = np.bincount(codes)
        self.codes = codes
        self.n_groups, self.width = len(numbers), batches.shape[1]
        self.sizes = np.where(empty.ravel(), _EMPTY_SIZE, numbers[codes[self._order]])
        self.shape = (len(self._order), *table.shape[1:])

    def __len__(self):
        return len(self._order)

    def __getitem__(self, rows):
        """Protected: return a slice of the rows."""
        chosen = self._order[rows]
        if isinstance(self._table, np.ndarray):  # six times as fast as an index
            return self._table.take(chosen, axis=0)
        return self._table[chosen]


def n_units(table):
    """Return the number of groups, or of records where there are none. Public."""
    return table.n_groups if isinstance(table, PlacedRows) else table.shape[0]


def group_sizes(table):
    """Return the number of records in the group of each row, None where there are no groups."""
    return table.sizes if isinstance(table, PlacedRows) else None


def record_codes(table):
    """Return the group of each record, None where there are no groups. Protected."""
    return table.codes if isinstance(table, PlacedRows) else None


def placed(table, values):
    """Protected: reorder an array of one entry per record to the order of a table's rows."""
    return values[table._order] if isinstance(table, PlacedRows) else values


def divide_by_group_size(
    units: NDArray[Any], sizes: NDArray[np.int64] | None, rows: slice
) -> NDArray[Any]:
    """Divide the integers that each record adds to a sum by the size of its group, toward zero.

    Parameters
    ----------
    units : ndarray of shape (n, k)
        Integers below 2^52, of any type. Protected. A float quotient of such integers has the exact
        integer part, since its error is below 1 / divisor.
    sizes : ndarray of dtype int64, or None
        As in `PlacedRows`. None: there are no groups.
    rows : slice
        Of the records.

    Returns
    -------
    ndarray of shape (n, k)
        Of the type of `units`.
    """
    if sizes is None:
        return units
    parts: NDArray[Any] = np.trunc(units / sizes[rows, None])
    return parts.astype(units.dtype, copy=False)


def divide_by_root_of_group_size(Q, sizes, rows):
    """Divide integers whose outer products are summed by the root of the size, toward zero.

    Parameters
    ----------
    Q : ndarray of shape (n, p)
        float64 that hold integers of at most 2^26, so that squares and the integer parts of their
        quotients and roots are exact. Protected.
    sizes, rows
        As in `divide_by_group_size`.

    Returns
    -------
    ndarray of shape (n, p)
        float64 that hold integers q with q^2 at most the square in `Q` divided by the size.
    """
    if sizes is None:
        return Q
    return np.copysign(np.floor(np.sqrt(np.floor(Q**2 / sizes[rows, None]))), Q)


def histogram_step(sizes):
    """Return the unit of a histogram's counts, in records: 1 without groups. Public."""
    return 1.0 if sizes is None else 2.0**-_COUNT_BITS


def count_by_groups(bins, n_bins, sizes, rows):
    """Protected: count records per bin, in units of `histogram_step`; a group counts as one record.

    Parameters
    ----------
    bins : ndarray of shape (n,), dtype int
    n_bins : int
    sizes, rows
        As in `divide_by_group_size`.

    Returns
    -------
    ndarray of shape (n_bins,), dtype int64
    """
    if sizes is None:
        return np.bincount(bins, minlength=n_bins)
    # Exact: sums of integers below 2^53.
    return np.bincount(bins, 2**_COUNT_BITS // sizes[rows], n_bins).astype(np.int64)
