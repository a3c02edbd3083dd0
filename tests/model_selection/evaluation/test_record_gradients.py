"""Per-record gradients: one matrix product, of which each row belongs to one record."""

import copy
import math
import pickle

import numpy as np
import pytest

from _support.internals import RecordLosses
from _support.planted import put

RNG = np.random.RandomState(0)
W = RNG.normal(size=(3, 5))
UNITS = RNG.randint(0, 101, size=(5, 40))


def gradients(table, weights=W):
    return np.concatenate(list(table.gradients(weights)))


def filled(losses=UNITS, bound=100, **how):
    table = RecordLosses(bound, **how)
    table.add(losses)
    return table


class TestGradients:
    def test_is_a_product(self):
        np.testing.assert_allclose(gradients(filled(scale=0.01)), (W @ UNITS).T / 100)

    @pytest.mark.parametrize("chunk", [1, 5, 35, 10**6])
    def test_in_any_blocks(self, chunk, monkeypatch):
        put(monkeypatch, "record gradients: _CHUNK", chunk)
        table = filled()
        widths = {len(block) for block in table.gradients(W)}
        assert max(widths) == min(max(1, chunk // 5), 40)
        np.testing.assert_allclose(gradients(table), (W @ UNITS).T)

    def test_batches_and_a_cache(self):
        table = RecordLosses(100)
        table.add(UNITS[:3])
        table.add(list(UNITS[3:]))
        np.testing.assert_allclose(gradients(table), (W @ UNITS).T)
        table.add([], 2)
        np.testing.assert_allclose(gradients(table, W[:, 3:]), (W[:, 3:] @ UNITS[3:]).T)
        table.add([], 9)
        assert gradients(table, W[:, 3:]).shape == (40, 3)

    @pytest.mark.parametrize(("bound", "bytes_"), [(1, 1), (255, 1), (256, 2), (2**20, 4)])
    def test_small_integers_are_kept_small(self, bound, bytes_):
        table = filled(np.full((2, 10), bound), bound)
        assert table._rows[0].itemsize == bytes_
        np.testing.assert_allclose(gradients(table, np.ones((1, 2))), 2.0 * bound)


class TestBounds:
    def test_losses_are_clipped_first(self):
        wild = UNITS.copy()
        wild[2, 7], wild[3, 8] = 10**15, -5
        tame = UNITS.copy()
        tame[2, 7], tame[3, 8] = 100, 0
        np.testing.assert_array_equal(gradients(filled(wild)), gradients(filled(tame)))

    @pytest.mark.parametrize("bad", [math.nan, math.inf, 1e300])
    def test_what_is_not_a_number_costs_the_bound(self, bad):
        wild, worst = UNITS.astype(float), UNITS.astype(float)
        wild[1, 4], worst[1, 4] = bad, 100.0
        np.testing.assert_array_equal(
            gradients(filled(wild, 100.0)), gradients(filled(worst, 100.0))
        )

    def test_a_failed_point_costs_everyone_the_bound(self):
        rows = [*UNITS[:4], None]
        worst = [*UNITS[:4], np.full(40, 100)]
        np.testing.assert_array_equal(gradients(filled(rows)), gradients(filled(worst)))

    def test_a_bound_of_real_losses_is_not_rounded(self):
        assert np.all(gradients(filled([np.ones(3), None], 0.1), np.array([[0.0, 1.0]])) == 0.1)

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e308])
    @pytest.mark.parametrize("bound", [None, 100.0])
    def test_one_record_moves_its_own_row_only(self, bad, bound):
        # Silently: warnings are errors in these tests.
        wild = UNITS.astype(float)
        before = gradients(filled(wild, bound))
        wild[:, 4] = bad
        after = gradients(filled(wild, bound))
        np.testing.assert_array_equal(np.delete(after, 4, 0), np.delete(before, 4, 0))


class TestRefusals:
    def test_shapes(self):
        with pytest.raises(ValueError, match="one entry for each record"):
            filled([np.zeros(3, int), np.zeros(4, int)])
        with pytest.raises(ValueError, match="one entry for each record"):
            filled([np.zeros((3, 1), int)])
        with pytest.raises(ValueError, match="no point"):
            filled([None, None])
        with pytest.raises(ValueError, match="one column"):
            gradients(filled(), W[:, 1:])
        with pytest.raises(TypeError, match="integers"):
            filled(UNITS + 0.5)
        with pytest.raises(ValueError, match="bound"):
            filled([UNITS[0], None], None)

    @pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
    def test_nothing_is_copied(self, copied):
        with pytest.raises(TypeError, match="not pickled"):
            copied(filled())
