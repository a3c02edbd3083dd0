"""Batches of public rows keep some rows and move each statistic of the others, in every type."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from _support.internals import probe_batches

# The extremes are among the kept rows, the first four.
NUMBERS = np.array([[9, 3], [1, 7], [4, 4], [5, 9], *[[3, 5]] * 20])
WORDS = np.array([["w", "b"], ["b", "w"], ["m", "c"], ["c", "m"], *[["d", "e"]] * 20])
ROWS = {
    "float64": NUMBERS / 1.0,
    "float16": NUMBERS.astype(np.float16),
    "int64": NUMBERS,
    "uint8": NUMBERS.astype(np.uint8),
    "bool": NUMBERS > 4,
    "objects": NUMBERS.astype(object),
    "texts": WORDS,
    "bytes": WORDS.astype(bytes),
    "object texts": WORDS.astype(object),
    "sparse": sparse.csr_array(NUMBERS / 1.0),
    "list": NUMBERS.tolist(),
    "tuples": [tuple(row) for row in (NUMBERS / 1.0).tolist()],
    "list of truth values": (NUMBERS > 4).tolist(),
    "list of texts": WORDS[:, 0].tolist(),
    "frame": pd.DataFrame(NUMBERS),
    "frame of floats": pd.DataFrame(NUMBERS / 1.0),
    "frame of truth values": pd.DataFrame(NUMBERS > 4),
    "frame of nullable integers": pd.DataFrame(NUMBERS, dtype="Int64"),
    "frame of texts": pd.DataFrame(WORDS, dtype="string"),
    "series": pd.Series(NUMBERS[:, 0] / 1.0, index=np.arange(24) + 7),
}
# Types that hold no missing value.
WITHOUT_MISSING = "int64", "uint8", "bool", "frame", "frame of truth values"


def cells(rows):
    """Return the cells as a table of Python objects, None in place of missing ones."""
    rows = rows.toarray() if sparse.issparse(rows) else rows
    table = np.array(rows.astype(object) if hasattr(rows, "iloc") else rows, dtype=object)
    table = table.reshape(len(table), -1)
    return np.where(pd.isna(table), None, table)


def types(rows):
    """Return the types of the container, its columns and its rows."""
    inner = {type(row) for row in rows if isinstance(row, list | tuple)}
    return type(rows), *inner, *np.ravel(getattr(rows, "dtypes", getattr(rows, "dtype", None)))


def widened(kind):
    """Return the type with any length of its texts."""
    return np.dtype(kind.kind) if isinstance(kind, np.dtype) and kind.kind in "US" else kind


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_kept_rows_stay_and_the_types_too(rows):
    whole = cells(rows)
    plain, changed = probe_batches(rows)
    for probe in [*plain, *changed]:
        assert [*map(widened, types(probe.rows))] == [*map(widened, types(rows))]
        n = len(cells(probe.rows))
        in_place = n == 12 and [*probe.kept] == [*probe.which]
        assert probe.in_place == in_place
    for probe in plain:
        np.testing.assert_array_equal(cells(probe.rows)[probe.kept], whole[probe.which])
    first = cells(changed[0].rows)
    for probe in changed:
        np.testing.assert_array_equal(cells(probe.rows)[probe.kept], first[probe.which])
    lengths = [len(cells(probe.rows)) for probe in plain if not probe.in_place]
    assert lengths == [12, 4, 4, 1, 1]  # in another order and number
    assert [[*probe.which] for probe in plain if len(probe.which) == 2] == [[0, 2], [1, 3]]


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_every_column_of_the_other_rows_moves_up_and_down(rows, few):
    whole = cells(rows)[:4]
    family = probe_batches(rows, few=few)[0]
    tables = [cells(probe.rows) for probe in family if probe.in_place]
    high, low = np.max(whole, axis=0), np.min(whole, axis=0)
    strict = not isinstance(whole[0, 0], bool)  # truth values have no others

    def above(others):
        return all(np.greater(others, high).ravel()) if strict else others.all()

    def below(others):
        return all(np.less(others, low).ravel()) if strict else not others.any()

    present = [t[4:] for t in tables if {type(c) for c in t.flat} == {type(whole[0, 0])}]
    assert any(map(above, present))
    assert any(map(below, present))
    if few:
        assert len(family) == 5
        np.testing.assert_array_equal(cells(family[-1].rows), whole)
        return
    for probe in family:
        if probe.in_place and len(probe.kept) == 2:
            table = cells(probe.rows)
            assert above(np.delete(table[:4], probe.kept, axis=0)) or not strict
    np.testing.assert_array_equal(tables[0][4:], cells(rows)[4:12])
    np.testing.assert_array_equal(tables[1][4:], [*whole[:1]] * 8)


@pytest.mark.parametrize("name", [n for n in ROWS if n not in WITHOUT_MISSING])
def test_cells_go_missing(name):
    """Among the other rows; in the second family in the first and last cell of two kept ones."""
    plain, changed = probe_batches(ROWS[name])
    empty = "" if name == "texts" else b"" if name == "bytes" else None
    gaps = [[cell is None or cell == empty for cell in cells(p.rows).flat] for p in plain]
    assert any(map(any, gaps))
    first = cells(changed[0].rows)[:4]
    assert (first[0, 0], first[1, -1]) == (empty, empty)


def test_numbers_among_texts():
    few = probe_batches(ROWS["object texts"], few=True)[0]
    for family in (few, probe_batches(ROWS["object texts"])[0]):
        numbers = [{type(cell) for cell in cells(p.rows)[4:].flat} == {int} for p in family]
        assert numbers.count(True) == 1


@pytest.mark.parametrize("kind", [object, float])
def test_two_rows_with_missing_objects_come_first(kind):
    rows = np.arange(60.0).reshape(30, 2).astype(kind)
    rows[[25, 27, 29], 1] = np.nan
    probe = probe_batches(rows)[0][0]
    first = [50.0, 54.0, 0.0, 2.0] if kind is object else [0.0, 2.0, 4.0, 6.0]
    assert [*probe.rows[:4, 0]] == first


def test_rows_of_other_lengths_are_only_taken():
    ragged = [[1.0] * (1 + i % 3) for i in range(20)]
    (family,) = probe_batches(ragged)
    assert all(row in ragged[:3] for probe in family for row in probe.rows)
