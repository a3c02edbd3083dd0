"""Records on a lattice and exact sums of their products."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from _support.internals import exact_chunk, lattice_radius, rows_on_lattice
from _support.record_sums import exact_gram

ANY = st.floats(allow_nan=True, allow_infinity=True, width=64)


def python_gram(Q):
    rows = [[int(v) for v in row] for row in Q]
    p = Q.shape[1]
    return [[sum(r[a] * r[b] for r in rows) for b in range(p)] for a in range(p)]


class TestRowsOnLattice:
    @given(arrays(np.float64, st.tuples(st.integers(0, 5), st.integers(1, 6)), elements=ANY))
    @settings(max_examples=200, deadline=None)
    def test_norm_is_bounded_whatever_the_rows(self, rows):
        Q = rows_on_lattice(rows, 2.0**-20, 2**20)
        assert Q.flags.c_contiguous
        assert Q.dtype == np.float64
        for row in Q:
            assert sum(int(v) ** 2 for v in row) <= 4**20

    @given(arrays(np.float64, (3, 4), elements=st.floats(-0.5, 0.5)), st.integers(4, 20))
    @settings(max_examples=100, deadline=None)
    def test_short_rows_are_truncated_toward_zero(self, rows, bits):
        Q = rows_on_lattice(rows, 2.0**-bits, 2**bits)
        np.testing.assert_array_equal(Q, np.trunc(rows * 2.0**bits))

    @pytest.mark.parametrize("scale", [1.0 + 1e-15, 1.5, 1e10, 1e200])
    def test_long_rows_keep_direction_and_nearly_the_norm(self, scale):
        rows = np.random.default_rng(0).normal(size=(50, 7))
        rows *= scale / np.linalg.norm(rows, axis=1, keepdims=True)
        Q = rows_on_lattice(rows, 2.0**-20, 2**20)
        np.testing.assert_allclose(Q * 2.0**-20, rows / scale, atol=2.0**-19)
        assert np.linalg.norm(Q, axis=1).max() <= 2**20

    def test_rows_that_are_not_finite_become_zero_silently(self):
        rows = np.array([[np.nan, 1.0], [np.inf, 0.0], [-np.inf, np.inf], [0.25, 0.5]])
        Q = rows_on_lattice(rows, 0.25, 4)
        np.testing.assert_array_equal(Q, [[0, 0], [0, 0], [0, 0], [1, 2]])

    def test_the_input_is_not_modified(self):
        rows = np.full((2, 2), 3.3)
        rows_on_lattice(rows, 0.5, 4)
        assert (rows == 3.3).all()


class TestExactGram:
    @pytest.mark.parametrize("order", [1, -1])
    def test_largest_entries_over_several_chunks(self, order):
        radius = 2**20
        rng = np.random.default_rng(1)
        Q = rng.integers(-radius, radius + 1, size=(3 * exact_chunk(radius) + 17, 3)).astype(float)
        Q[:, 0] = radius  # the largest sum there is
        assert exact_gram(np.ascontiguousarray(Q[::order]), radius).tolist() == python_gram(Q)

    def test_one_record_changes_the_sum_by_its_own_term_exactly(self):
        radius, rng = 2**20, np.random.default_rng(2)
        Q = rng.integers(-(2**19), 2**19, size=(20_000, 4)).astype(float)
        neighbour = Q.copy()
        neighbour[123] = [radius, -radius, 1, 0]
        change = exact_gram(neighbour, radius) - exact_gram(Q, radius)
        old, new = Q[123].astype(int), neighbour[123].astype(int)
        np.testing.assert_array_equal(change, np.outer(new, new) - np.outer(old, old))

    def test_a_float_sum_would_not_pass(self):
        """Planted bug: one product over all rows loses the last bits."""
        radius = 2**20
        rows = 2 * exact_chunk(radius) + 1
        Q = np.full((rows, 1), float(radius))
        Q[::2] -= 1.0
        floats = Q.T @ Q
        exact = exact_gram(Q, radius)
        assert int(exact[0, 0]) == python_gram(Q)[0][0]
        assert int(floats[0, 0]) != int(exact[0, 0])

    def test_too_many_rows_for_64_bits_are_refused(self):
        Q = np.broadcast_to(np.zeros((1, 1)), (2**23, 1))
        with pytest.raises(ValueError, match="too many rows"):
            exact_gram(Q, 2**20)


class TestLatticeRadius:
    @given(st.integers(1, 2**40), st.floats(1e-3, 1e9))
    def test_sums_and_noise_fit(self, n_records, noise_ratio):
        radius = lattice_radius(n_records, noise_ratio)
        assert radius & (radius - 1) == 0
        assert n_records * radius**2 <= 2**62
        assert noise_ratio * radius**2 <= 2**48
        larger = 2 * radius
        if radius < 2**20:
            assert n_records * larger**2 > 2**62 or noise_ratio * larger**2 > 2**48

    @pytest.mark.parametrize(("n_records", "noise_ratio"), [(2**60, 1.0), (10, 2.0**45)])
    def test_beyond_64_bits_is_refused(self, n_records, noise_ratio):
        with pytest.raises(ValueError, match="too many records or too much noise"):
            lattice_radius(n_records, noise_ratio)
