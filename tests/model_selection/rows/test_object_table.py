"""Lists of protected rows become tables in which no cell changes another."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from _support.internals import as_objects, list_width, refuse_shared_rows

NAN = float("nan")


def cells(table):
    return [[(type(cell), str(cell)) for cell in row] for row in table]


@pytest.mark.parametrize("container", [list, tuple, np.array])
def test_cells_keep_their_types(container):
    table = as_objects([container([1, 0]), container([3, 4]), [0.5, "a"]])
    assert table.dtype == object
    assert table.shape == (3, 2)
    assert [str(cell) for cell in table.ravel()] == ["1", "0", "3", "4", "0.5", "a"]


@pytest.mark.parametrize("bad", [None, [1], [1, 2, 3], "text", {"a": 1}, np.zeros((2, 2)), 7])
def test_a_row_of_another_length_is_missing(bad):
    table = as_objects([[1, 2], bad, [3, 4], [5, 6]])
    assert cells(table[[0, 2, 3]]) == cells([[1, 2], [3, 4], [5, 6]])
    assert np.isnan(table[1].astype(float)).all()


class Short(list):
    """A row that has fewer cells than it says, or raises where they are read."""

    def __init__(self, error=None):
        super().__init__([1, 2])
        self.error = error

    def __iter__(self):
        if self.error is not None:
            raise self.error
        return iter([1])


@pytest.mark.parametrize(
    "bad", [Short(), Short(RuntimeError("secret")), SimpleNamespace(shape=(2,))]
)
def test_a_row_that_cannot_be_read_is_missing(bad):
    table = as_objects([[1, 2], bad, [3, 4]])
    assert cells(table[[0, 2]]) == cells([[1, 2], [3, 4]])
    assert np.isnan(table[1].astype(float)).all()


@pytest.mark.parametrize("rows", [["a b", "c", None], [{"a": 1}, {}], [np.zeros((2, 2))] * 3])
def test_single_objects_stay(rows):
    table = as_objects(rows)
    assert table.shape == (len(rows),)
    assert all(cell is row for cell, row in zip(table, rows, strict=True))


def test_the_width_may_be_given():
    assert list_width([[1, 2], [1]]) == 2  # the longer of two that are as frequent
    assert list_width(np.zeros((3, 2))) is list_width(None) is list_width([]) is None
    assert as_objects([[1.0], [2.0]], width=2).shape == (2, 2)


def test_cells_that_cannot_be_hashed_are_missing():
    table = np.array([["a", 1], [None, 2]], dtype=object)
    assert as_objects(table) is table
    table[0, 1] = [1]
    mended = as_objects(table)
    assert np.isnan(mended[0, 1])
    assert (mended[0, 0], mended[1, 0], mended[1, 1]) == ("a", None, 2)
    assert table[0, 1] == [1]
    frame = pd.DataFrame({"number": [1.0, 2.0], "text": pd.Series(["a", "b"], dtype=object)})
    assert as_objects(frame) is frame
    frame.iat[1, 1] = {}
    mended = as_objects(frame)
    assert mended["text"].isna().tolist() == [False, True]
    assert frame.iat[1, 1] == {}
    two = as_objects(frame.assign(other=pd.Series([[1], "c"], dtype=object)))
    assert two[["text", "other"]].isna().to_numpy().tolist() == [[False, True], [True, False]]


def test_shared_rows():
    X = np.zeros((40, 3))
    rows = X.tolist()
    for pair in [(X, X), (X, X[10:]), (X[:20], X[19:]), (X[::2], X[::4]), (rows, rows)]:
        with pytest.raises(ValueError, match="share rows"):
            refuse_shared_rows(*pair)
    F = np.asfortranarray(X)
    for pair in [(X, None), (X[:20], X[20:]), (X[::2], X[1::2]), (F[:20], F[20:]), (X, X.copy())]:
        refuse_shared_rows(*pair)
    refuse_shared_rows(rows[:5], rows[5:])
