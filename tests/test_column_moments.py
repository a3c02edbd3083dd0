"""The released radius of rows: a quantile of counts that noise does not bias."""

import numpy as np
import pytest

from _support.internals import (
    BoxedRows,
    PlacedRows,
    histogram_step,
    nearest_counts,
    norm_counts,
    norm_edges,
    release_radius,
)


@pytest.mark.parametrize("spread", [0.0, 5.0, 200.0, 1e20])
def test_counts_are_the_nearest_that_are_positive_and_add_up(spread):
    """A point is the nearest one where no admissible direction leads nearer to the noisy one."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        exact = rng.multinomial(100, np.full(8, 0.125))
        noisy = exact + spread * rng.normal(size=8)
        found = nearest_counts(noisy, 100)
        assert np.all(found >= 0)
        scale = max(100.0, spread)
        assert found.sum() == pytest.approx(100, abs=1e-14 * scale + 1e-9)
        for other in 100 * np.eye(8):  # the corners span the admissible counts
            assert (noisy - found) @ (other - found) <= 1e-12 * scale**2
    np.testing.assert_allclose(nearest_counts(exact.astype(float), 100), exact)


@pytest.mark.slow
def test_radius_is_not_short_where_the_noise_of_a_count_is_a_fifth_of_the_records():
    """With sums of noisy counts a third of the radii are below half of the norm of all rows."""
    rows = [(slice(0, 330), np.full((330, 1), 0.9))]
    radii = [
        release_radius(rows, norm_edges(1), 330, np.sqrt(2) / 66, 0.6, None) for _ in range(400)
    ]
    assert np.mean(np.array(radii) == 1.0) > 0.9


def test_radius_without_noise_is_the_quantile():
    block = np.repeat([0.1, 0.3, 0.9], [5, 3, 2])[:, None]
    found = [
        release_radius([(slice(0, 10), block)], norm_edges(1), 10, 1e6, q, None)
        for q in (0.4, 0.6, 0.9, 1.0)
    ]
    np.testing.assert_allclose(found, 2.0 ** np.array([-3, -1.5, 0, 0]))


def test_counts_of_groups_add_up_to_their_public_number():
    groups = np.repeat(np.arange(40), np.arange(1, 41))
    table = PlacedRows(np.random.default_rng(0).uniform(-1, 1, (len(groups), 2)), groups)
    rows = BoxedRows(table, np.full(2, -1.0), np.full(2, 1.0))
    counts = norm_counts(rows, norm_edges(2), rows.sizes) * histogram_step(rows.sizes)
    assert counts.sum() == pytest.approx(rows.shape[0], rel=1e-4)
    assert rows.shape[0] == 40
