"""User code on protected rows: its answers, and what stands for those of rows where it raises."""

import warnings

import numpy as np
import pytest

from _support.internals import isolated_answers

X = np.arange(12.0).reshape(6, 2)
MISSING = np.array([-1.0, -2.0, -3.0])


def answers(rows):
    return rows[:, :1] + [0.0, 1.0, 2.0]


def refusing(bad, least=0):
    """User code that raises, and shows a row, for bad rows and for small batches."""

    def function(rows):
        if np.isin(rows[:, 0], list(bad)).any() or 1 < len(rows) < least:
            print(rows)
            warnings.warn(str(rows), UserWarning, stacklevel=1)
            raise RuntimeError(str(rows))
        return answers(rows)

    return function


@pytest.mark.parametrize("bad", [set(), {4.0}, {0.0, 10.0}, set(X[:, 0])])
@pytest.mark.parametrize("least", [0, 7])
def test_a_row_that_raises_is_missing_and_no_other(bad, least, capfd, recwarn):
    """Batches below `least` rows raise, too: all rows are then tried one by one."""
    found = isolated_answers(refusing(bad, least), X, MISSING)
    expected = np.where(np.isin(X[:, :1], list(bad)), MISSING, answers(X))
    np.testing.assert_array_equal(found, expected)
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list


@pytest.mark.parametrize("bad", range(len(X)))
def test_a_row_that_raises_moves_no_rounding_where_large_batches_raise(bad):
    """A model may take a few rows at once, and round by the size of a batch and the place in it."""

    def function(rows, *bad):
        if len(rows) > 4 or np.isin(rows[:, 0], bad).any():
            raise MemoryError
        return answers(rows) + 2.0**-40 * (8 * len(rows) + np.arange(len(rows)))[:, None]

    usual = isolated_answers(function, X, MISSING)
    found = isolated_answers(lambda rows: function(rows, X[bad, 0]), X, MISSING)
    np.testing.assert_array_equal(np.delete(found, bad, axis=0), np.delete(usual, bad, axis=0))
    np.testing.assert_array_equal(found[bad], MISSING)


def test_what_it_is_given_is_a_copy():
    def spoiling(rows):
        found = answers(rows)
        rows[:] = np.nan
        if len(rows) > 1:
            raise RuntimeError
        return found

    before = X.copy()
    np.testing.assert_array_equal(isolated_answers(spoiling, X, MISSING), answers(X))
    np.testing.assert_array_equal(X, before)


def test_answers_that_are_kept_or_read_only_are_not_written_to():
    kept = np.ones((len(X), 3))
    kept.setflags(write=False)

    def keeping(rows):
        if (rows == X[1]).all(axis=1).any():
            raise ValueError
        return kept[: len(rows)]

    found = isolated_answers(keeping, X, MISSING)
    assert np.array_equal(found[1], MISSING, equal_nan=True)
    assert (np.delete(found, 1, axis=0) == 1).all()
    np.testing.assert_array_equal(isolated_answers(lambda rows: kept, X, MISSING), kept)
