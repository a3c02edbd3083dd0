"""Sums of clipped gradients: exact, bounded for every record, and audited."""

import numpy as np
import pytest

from _support.internals import (
    BoxedRows,
    ColumnScales,
    GradientRelease,
    class_counts,
    gradient_sensitivity,
    histogram_sensitivity,
    moment_blocks,
    norm_counts,
    norm_edges,
    release_moments,
    residuals_on_lattice,
    rows_on_grid,
)

RNG = np.random.default_rng(0)


def release(X, codes, n_classes=2, clip=0.5, mu=0.1, weights=None):
    d = X.shape[1]
    weights = np.ones(n_classes) if weights is None else weights
    rows = BoxedRows(X, np.full(d, -1.0), np.full(d, 1.0))
    scales = ColumnScales(1.0, np.zeros(d), np.full(d, 2.0), 1.3, 0.4, float(d))
    return GradientRelease(rows, codes, scales, weights, mu, clip, len(X))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_gradient_of_any_record_is_within_the_bound(n_classes):
    """In exact integers, also for rows far outside and for extreme weights."""
    outputs = 1 if n_classes == 2 else n_classes
    for _ in range(300):
        x = RNG.normal(size=(1, 3)) * 10.0 ** RNG.integers(-4, 4)
        weights = RNG.uniform(0, 1, n_classes) if RNG.integers(2) else None
        one = release(x, RNG.integers(-1, n_classes, 1), n_classes, weights=weights)
        w = RNG.normal(size=(4, outputs)) * 10.0 ** RNG.integers(-3, 4)
        total = [int(v) for v in one.exact_total(w).ravel()]
        assert sum(v * v for v in total) <= one.bound**2


def test_bound_is_attained_and_so_is_the_sensitivity():
    w = np.array([[50.0], [0.0], [0.0], [0.0]])
    x = np.array([[1.0, 0.0, 0.0]])
    plus, minus = (release(x, np.array([c])) for c in (0, 1))
    gone = plus.exact_total(w) - minus.exact_total(-w)
    reached = float(np.linalg.norm(gone.astype(float)))
    assert gradient_sensitivity(plus.bound) * 0.999 < reached <= gradient_sensitivity(plus.bound)


def test_weights_shorten_the_bound_in_proportion():
    w, x, one = np.array([[50.0], [0.0], [0.0], [0.0]]), np.array([[1.0, 0.0, 0.0]]), np.array([0])
    whole = release(x, one).exact_total(w).astype(float)
    light = release(x, one, weights=np.array([0.125, 1.0])).exact_total(w).astype(float)
    np.testing.assert_allclose(light, whole / 8, rtol=1e-4)


@pytest.mark.parametrize("weight", [0.0, 5e-324, 1e-310])
def test_a_class_of_next_to_no_weight_adds_nothing(weight):
    """Ratios of weights underflow: 0 / 0 in one record would be the sum of all."""
    X, codes, w = RNG.uniform(-1, 1, (20, 3)), np.zeros(20, dtype=int), RNG.normal(size=(4, 1))
    weights, without = np.array([1.0, weight]), codes.copy()
    codes[7], without[7] = 1, -1
    totals = [release(X, c, weights=weights).exact_total(w) for c in (codes, without)]
    np.testing.assert_array_equal(*totals)


def test_a_score_beyond_the_floats_adds_nothing():
    """Zero times infinity in one record would be the sum of all."""
    X, codes = np.full((20, 3), 0.5), np.zeros(20, dtype=int)
    X[7], w = [0.0, 0.5, 0.5], np.array([[np.inf], [1.0], [1.0], [1.0]])
    whole, others = release(X, codes), release(np.delete(X, 7, axis=0), codes[:19])
    with np.errstate(all="ignore"):  # as in a fit
        np.testing.assert_array_equal(whole.exact_total(w), others.exact_total(w))


def test_replacing_a_record_changes_the_sum_by_its_own_terms_alone():
    X, codes = RNG.uniform(-1, 1, (20000, 3)), RNG.integers(0, 2, 20000)
    other, other_codes = X.copy(), codes.copy()
    other[7], other_codes[7] = [1.0, -1.0, 1.0], 1 - codes[7]
    w = RNG.normal(size=(4, 1))
    difference = release(X, codes).exact_total(w) - release(other, other_codes).exact_total(w)
    # One record alone is rounded on the lattice of one record: compare within the whole table.
    rest = np.full(20000, -1)
    before, after = rest.copy(), rest.copy()
    before[7], after[7] = codes[7], other_codes[7]
    alone = release(X, before).exact_total(w) - release(other, after).exact_total(w)
    np.testing.assert_array_equal(difference, alone)


def test_sum_is_that_of_python_integers():
    X, codes = RNG.uniform(-1, 1, (200, 3)), RNG.integers(0, 2, 200)
    whole = release(X, codes)
    w = RNG.normal(size=(4, 1))
    exact = [0] * 4
    for i in range(200):
        single = np.full(200, -1)
        single[i] = codes[i]
        exact = [
            a + int(b) for a, b in zip(exact, release(X, single).exact_total(w)[:, 0], strict=True)
        ]
    assert exact == whole.exact_total(w)[:, 0].tolist()


def test_residuals_keep_their_direction_and_shrink():
    residuals = RNG.normal(size=(500, 3))
    norms = RNG.uniform(1, 2.0**20, 500)
    units = residuals_on_lattice(residuals, norms, 2**35, 20)
    assert np.all(np.linalg.norm(units, axis=1) * norms <= 2**35)
    assert np.all(units * residuals >= 0)
    assert np.all(np.abs(units) <= np.abs(residuals) * 2**20)


def test_grid_truncates_toward_zero():
    z = np.array([[2.0, -0.9999999, -1e300]])
    assert rows_on_grid(z.copy(), 1e300).tolist() == [[2.0, 0.0, -(2.0**30)]]
    assert rows_on_grid(z[:, :2], 2.0).tolist() == [[2.0, 0.0]]


def test_noise_is_that_of_the_sensitivity():
    one = release(np.zeros((1000, 3)), np.zeros(1000, dtype=int), mu=0.25)
    assert one.sigma == pytest.approx(2 * 0.5 / (0.25 * 1000), rel=1e-6)


def test_a_record_moves_between_two_bins_at_most():
    X = RNG.normal(size=(50, 4)) * 10.0 ** RNG.integers(-4, 2, (50, 1))
    edges = norm_edges(4)

    def counts(table):
        return norm_counts(BoxedRows(table, np.full(4, -1.0), np.full(4, 1.0)), edges)

    largest = 0.0
    for i in range(50):
        for value in (0.0, 1e-9, 0.01, 1.0, 1e9):
            other = X.copy()
            other[i] = value
            largest = max(largest, float(np.linalg.norm(counts(X) - counts(other))))
    assert largest <= histogram_sensitivity()
    assert counts(X).sum() == 50


def test_class_counts_change_by_their_sensitivity():
    """Attained by a record that changes its class; a label of no class is counted nowhere."""
    changes = []
    for before in range(-1, 3):
        for after in range(-1, 3):
            codes = np.array([0, 1, 2, 2, before])
            other = np.array([0, 1, 2, 2, after])
            changes.append(np.linalg.norm(class_counts(codes, 3) - class_counts(other, 3)))
    assert max(changes) == pytest.approx(histogram_sensitivity(), rel=1e-15)
    assert class_counts(np.array([0, 2, 2, -1]), 3).tolist() == [1, 0, 2]


@pytest.mark.parametrize("radius", [0.25, 1.0, 2.0])
def test_moments_of_a_record_have_norm_sqrt_2_at_most(radius):
    """Attained by a row along an axis in a small radius, and by equal entries of 1 in radius 2."""
    X = RNG.normal(size=(500, 4)) * 10.0 ** RNG.integers(-4, 4, (500, 1))
    X[0], X[1] = [1.0, 0.0, 0.0, 0.0], 1.0
    rows = BoxedRows(X, np.full(4, -1.0), np.full(4, 1.0))
    norms = [np.linalg.norm(block, axis=1) for block in moment_blocks(rows, radius)]
    largest = np.concatenate(norms).max()
    assert largest == pytest.approx(np.sqrt(2.0), rel=1e-12)


def test_moments_are_unbiased_and_their_noise_is_as_stated():
    """Without noise to speak of the moments are exact; the noise is 2 sqrt(2) / (n mu)."""
    X = RNG.choice([-1.0, 0.0, 1.0], (1000, 6), p=[0.1, 0.2, 0.7])
    rows = BoxedRows(X, np.full(6, -1.0), np.full(6, 1.0))
    radius, moments, noise = release_moments(rows, 1e6, 1.0, None)
    assert radius > 1
    np.testing.assert_allclose(moments[:6] * radius, X.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(moments[6:] * radius**2, (X**2).mean(axis=0), atol=1e-6)
    mu_moments = 1e6 * np.sqrt(1 - 0.0625)
    assert noise[0] == pytest.approx(2 * np.sqrt(2.0) / (1000 * mu_moments))
    assert noise[1] == pytest.approx(noise[0] / radius)
