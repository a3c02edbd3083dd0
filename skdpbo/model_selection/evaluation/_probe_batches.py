"""Batches of public rows that share some rows, the kept ones, and differ in the others.

The output of a step that treats each row by itself is the same for a kept row in all batches. The
other rows become huge, tiny, missing, repeated or fewer, so that the mean, median, minimum,
maximum, ranks and number of rows all change. Numbers among texts change the type of a column.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skdpbo._attempt import attempt, is_known
from skdpbo.model_selection._sklearn import n_rows, take_rows

_N_KEPT, _N_OTHERS, _N_LOOKED_AT = 4, 8, 100
_SEED = 20070617
_HIGH, _LOW, _MISSING, _NUMBER = 1, 2, 3, 4  # modes of a change; 0: unchanged
_HUGE, _TEXTS = 1e6, {_HIGH: "zzzz", _LOW: ""}


@dataclass(frozen=True)
class Probe:
    """A batch, and the positions of its kept rows.

    Attributes
    ----------
    rows : container like the one given
    kept : ndarray of int
        Positions of the kept rows in the batch.
    which : ndarray of int, same shape as `kept`
        Number of each of them among the kept rows of the family.
    in_place : bool
        Whether the batch is as long as the first one of its family, with the kept rows in the
        same places.
    """

    rows: object
    kept: np.ndarray
    which: np.ndarray
    in_place: bool


def probe_batches(rows, n_families=None, few=False):
    """Return families of batches; the kept rows are equal within a family.

    Parameters
    ----------
    rows : indexable of shape (n, ...)
        Public; n >= 1. Values are changed in arrays, frames, sparse matrices and lists; rows of
        other containers are only taken in other numbers and orders.
    n_families : int, default=None
        1 leaves out the second family.
    few : bool, default=False
        One family of five batches: other rows unchanged, huge, very low, with numbers in place of
        texts, and without other rows.

    Returns
    -------
    families : list of list of Probe
        First with unchanged kept rows, then with missing and huge values in them.
    """
    order = np.arange(min(n_rows(rows), _N_LOOKED_AT))
    cells = _as_table(take_rows(rows, order))
    if cells is not None and cells.dtype.kind == "O":  # first two rows with missing objects
        gaps = [i for i, row in enumerate(cells) if not all(map(is_known, row))][:2]
        order = np.array(gaps + [i for i in order if i not in gaps])
    # Repeated from the first if there are fewer.
    picked = take_rows(rows, np.resize(order, _N_KEPT + _N_OTHERS))
    cells = _as_table(picked)
    width = 0 if cells is None else cells.shape[1]
    plain = np.zeros((_N_KEPT, width), dtype=int)
    bad = plain.copy()
    if width:
        bad[0, 0] = bad[1, -1] = _MISSING
        bad[2], bad[3] = _HIGH, _LOW
    changes = [plain, bad] if width and not few else [plain]
    return [_family(picked, cells, kept, few) for kept in changes[:n_families]]


def _family(picked, cells, kept_modes, few):
    """Return the batches with the given changes of the kept rows."""
    rng = np.random.RandomState(_SEED)  # public randomness
    stay, others = np.arange(_N_KEPT), _N_KEPT + np.arange(_N_OTHERS)
    again = np.resize(stay, _N_OTHERS)
    shape = (_N_OTHERS, kept_modes.shape[1])
    usual = np.zeros(shape, dtype=int)
    missing, mixed = _MISSING * rng.randint(2, size=shape), rng.randint(4, size=shape)
    # The others unchanged, one row in all places, and in reverse; then with other values.
    changes = [(others, usual), (0 * others, usual), (others[::-1], usual)]
    if shape[1]:
        changes += [(others, usual + mode) for mode in (_HIGH, _LOW, _NUMBER)]
        changes += [(others, missing), (again, mixed)]
    batches = [
        (np.concatenate([stay, rows]), np.concatenate([kept_modes, modes]), stay, stay)
        for rows, modes in changes
    ]
    # Every second kept row is exchanged as well, then the order and the number change.
    for start in (0, 1):
        positions, modes = batches[0][0].copy(), batches[0][1].copy()
        positions[1 - start : _N_KEPT : 2], modes[1 - start : _N_KEPT : 2] = others[:2], _HIGH
        batches.append((positions, modes, stay[start::2], stay[start::2]))
    positions, modes = batches[0][:2]
    last = len(positions) - 1 - stay
    batches.append((positions[::-1], modes[::-1], last, stay))
    fewer = [stay, stay[::-1], stay[:1], stay[1:2]]
    batches += [(which, kept_modes[which], np.arange(len(which)), which) for which in fewer]
    if few:
        batches = [batches[0], *batches[3:6], batches[-4]] if shape[1] else batches
    probes = []
    for positions, modes, kept, which in batches:
        rows = take_rows(picked, positions)
        if cells is not None:
            rows, _ = attempt(_altered, rows, cells[positions], modes)
        if rows is not None:  # None: the type cannot hold the values
            in_place = len(positions) > _N_KEPT and np.array_equal(kept, which)
            probes.append(Probe(rows, kept, which, in_place))
    return probes


def _as_table(rows):
    """Return the values of rows as a table, or None for an unknown container."""
    if sparse.issparse(rows):
        return rows.toarray()
    if hasattr(rows, "iloc"):
        framed = hasattr(rows, "columns")
        columns = [rows.iloc[:, j] for j in range(rows.shape[1])] if framed else [rows]
        table = np.empty((n_rows(rows), len(columns)), dtype=object)
        for j, column in enumerate(columns):
            table[:, j] = column.to_numpy(dtype=object)
        return table
    if isinstance(rows, list):
        nested = all(isinstance(row, list | tuple) for row in rows)
        if nested and len({len(row) for row in rows}) != 1:
            return None
        table = np.empty((len(rows), len(rows[0]) if nested else 1), dtype=object)
        for i, row in enumerate(rows):
            table[i, :] = row if nested else [row]
        return table
    return rows.reshape(len(rows), -1) if type(rows) is np.ndarray and rows.ndim else None


def _altered(rows, cells, modes):
    """Return rows of the same container, whose cells are given, with values changed."""
    table = _changed(cells, modes)
    if sparse.issparse(rows):
        return type(rows)(sparse.csr_matrix(table))
    if hasattr(rows, "columns"):
        frame = rows.copy()
        for j in np.flatnonzero(modes.any(axis=0)):
            frame.isetitem(j, _column_like(rows.iloc[:, j], table[:, [j]], modes[:, [j]]))
        return frame
    if hasattr(rows, "iloc"):
        return _column_like(rows, table[:, :1], modes)
    if isinstance(rows, list):
        if isinstance(rows[0], list | tuple):
            return [type(row)(values) for row, values in zip(rows, table, strict=True)]
        return table[:, 0].tolist()
    return table.reshape(rows.shape)


def _column_like(column, values, modes):
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
        values = _changed(column.to_numpy()[:, None], modes)
    return type(column)(values[:, 0], index=column.index, dtype=column.dtype)


def _changed(table, modes):
    """Return a copy of a table with its values changed by the modes."""
    table = table.copy()
    kind = table.dtype.kind
    if kind in "OUS":
        for i, j in np.argwhere(modes):
            table[i, j] = _changed_cell(table[i, j], modes[i, j], kind)
        return table
    if kind == "f":
        high = min(_HUGE, float(np.finfo(table.dtype).max) / 4)  # float16 holds less than _HUGE
        low, missing = -high, np.nan
    elif kind in "iu":
        high, low = np.iinfo(table.dtype).max // 4, np.iinfo(table.dtype).min // 4
        missing = 0
    elif kind == "b":
        high, low, missing = True, False, False
    else:
        return table
    for mode, value in ((_HIGH, high), (_LOW, low), (_MISSING, missing)):
        table[modes == mode] = value
    return table


def _changed_cell(cell, mode, kind):
    if mode == _NUMBER:
        return len(cell) if isinstance(cell, str | bytes) and kind == "O" else cell
    if isinstance(cell, str | bytes):
        if mode == _MISSING:
            return None if kind == "O" else type(cell)()
        text = _TEXTS[mode]
        return text if isinstance(cell, str) else text.encode()
    if isinstance(cell, bool | np.bool_):
        cell = type(cell)(mode == _HIGH)
    elif isinstance(cell, int | float | np.integer | np.floating):
        value = {_HIGH: _HUGE, _LOW: -_HUGE, _MISSING: np.nan}[mode]
        return int(value) if isinstance(cell, int | np.integer) and value == value else value
    return None if mode == _MISSING else cell
