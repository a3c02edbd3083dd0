"""The whitened release: what one record can change, in exact integers, and the noise on it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from _support.internals import (
    SQUARED_NORM,
    KernelFamily,
    LatticeRows,
    WhitenedFeatures,
    WhitenedMethod,
    WhitenedRelease,
    check_kernels,
    kernel_chunks,
    rows_on_lattice,
    second_moment_sensitivity,
    shorten_rows,
    streamed_sums,
)
from _support.record_sums import exact_gram

GRID = np.linspace(-3, 3, 9)[:, None]
KERNELS = [
    RBF(1.0),
    4.0 * RBF(0.7),
    ConstantKernel(0.5) + RBF(2.0),
    Matern(1.0, nu=1.5),
    RationalQuadratic(1.0, 0.5),
    ExpSineSquared(1.0, 2.0),
    RBF(1.0) + WhiteKernel(0.1),
]


def scaled_norm(matrix):
    """l2 norm of the upper triangle, entries off the diagonal times sqrt 2."""
    rows, columns = np.triu_indices(len(matrix), 1)
    off = matrix[rows, columns].astype(float)
    return math.sqrt(float((np.diag(matrix).astype(float) ** 2).sum() + 2 * (off**2).sum()))


def make_rows(kernel=None, Z=GRID, half_width=(1.0,), mu=0.3, n=1000, single=True):
    features = WhitenedFeatures(kernel or RBF(1.0), Z)
    release = WhitenedRelease(mu, tuple(half_width), n)
    rows = LatticeRows(
        features,
        centre=np.zeros(len(half_width)),
        half_width=np.asarray(half_width),
        beta=release.beta,
        step=release.step,
        radius=release.radius,
        dtype=np.float32 if single else np.float64,
    )
    return release, rows


vectors = arrays(float, 4, elements=st.floats(-1, 1))


@given(vectors, vectors, st.floats(0.1, 100))
def test_sensitivity_bounds_every_pair(w, v, squared_norm):
    w, v = (x * math.sqrt(squared_norm) / max(np.linalg.norm(x), 1e-9) for x in (w, v))
    change = scaled_norm(np.outer(w, w) - np.outer(v, v))
    assert change <= second_moment_sensitivity(Fraction(squared_norm)) * (1 + 1e-12)


def test_sensitivity_is_attained_and_rounded_up():
    w, v = np.eye(3)[0] * 2.0, np.eye(3)[1] * 2.0
    assert scaled_norm(np.outer(w, w) - np.outer(v, v)) == pytest.approx(math.sqrt(2) * 4)
    for squared_norm in (4, 2**40, Fraction(3, 2)):
        sensitivity = second_moment_sensitivity(squared_norm)
        assert Fraction(sensitivity) ** 2 >= 2 * Fraction(squared_norm) ** 2
        assert Fraction(math.nextafter(sensitivity, 0)) ** 2 < 2 * Fraction(squared_norm) ** 2


@pytest.mark.parametrize("kernel", KERNELS)
def test_features_have_norm_at_most_one(kernel):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.uniform(-4, 4, (200, 1)), GRID, [[0.0], [1e3], [-1e9]]])
    duplicated = np.concatenate([GRID, GRID, GRID + 1e-9])
    for Z in (GRID, duplicated):
        phi = WhitenedFeatures(kernel, Z)(X)
        assert np.linalg.norm(phi, axis=1).max() <= 1 + 1e-9


def test_features_are_whitened():
    features = WhitenedFeatures(2.0 * RBF(1.0), GRID)
    K = features.kernel(GRID)
    phi = features(GRID)
    np.testing.assert_allclose(phi @ phi.T, K / 2.0, atol=3e-6)


def test_what_is_no_kernel_on_vectors_is_refused():
    for kernel in ("rbf", 3, [RBF(1.0), None]):
        with pytest.raises(TypeError, match="kernel"):
            check_kernels(kernel, [])
    with pytest.raises(ValueError, match="vectors"):
        check_kernels(PairwiseOnText(), [])


class PairwiseOnText(RBF):
    """A kernel on something else than vectors."""

    requires_vector_input = False


@pytest.mark.parametrize(
    "kernel",
    [DotProduct(), DotProduct() ** 3, DotProduct() + RBF(0.3), DotProduct() * Matern(1.0)],
    ids=["linear", "cubic", "sum", "product"],
)
def test_rows_of_kernels_without_a_constant_variance_are_shortened(kernel):
    # Features of far records are longer than 1; the release bounds them on the integers.
    method = WhitenedMethod(
        KernelFamily.of([kernel]), GRID, mu=1.0, half_width=np.ones(1), n_records=100
    )
    far = np.array([[-40.0], [-3.0], [0.0], [1.0], [3.0], [9.0], [1e5]])
    Y = np.linspace(-9, 9, 7)[:, None]
    assert np.linalg.norm(method.features(far), axis=1).max() > 1.25  # W is 1.22
    rows = method.rows(np.zeros(1))
    Q = rows(far, Y, rows.workspace(7))
    assert (np.sum(Q**2, axis=1) <= rows.radius**2).all()
    grams = [np.outer(q, q) for q in Q]
    worst = max(np.linalg.norm(g - h) for g in grams for h in grams)
    assert worst <= second_moment_sensitivity(rows.radius**2)
    # A shortened row keeps its direction, target included: it is the record with less weight.
    exact = np.hstack([method.features(far[5:6]), np.clip(Y[5:6], -1, 1) * method.statistics.beta])
    cosine = Q[5] @ exact[0] / np.linalg.norm(Q[5]) / np.linalg.norm(exact)
    assert cosine == pytest.approx(1.0, abs=1e-7)


worst = st.sampled_from([0.0, 1.0, -1.0, 3.0, 1e-300, 1e9, -1e154, 1e200, 1.7e308, -1.7e308])


@settings(deadline=None)
@given(arrays(float, (5, 2), elements=worst), arrays(float, (5, 1), elements=worst), st.booleans())
def test_no_record_is_longer_than_the_radius(X, Y, single):
    Z = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    for kernel in (RBF(1.0), 1e-6 * RBF([0.1, 50.0]), Matern(0.01, nu=2.5)):
        release, rows = make_rows(kernel, Z, single=single)
        Q = rows(X, Y, rows.workspace(5))
        np.testing.assert_array_equal(Q, np.rint(Q))
        assert ((Q.astype(object) ** 2).sum(axis=1) <= release.radius**2).all()


def test_rows_are_the_features_and_clipped_targets():
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(50, 1)), rng.normal(size=(50, 2)) * [1.0, 5.0]
    for single, accuracy in ((False, 2e-6), (True, 3e-4)):
        release, rows = make_rows(2.0 * RBF(0.8), half_width=(1.0, 4.0), single=single)
        Q = rows(X, Y, rows.workspace(50)) * release.step
        np.testing.assert_allclose(Q[:, :9], rows_features(X), atol=accuracy)
        clipped = np.clip(Y, [-1.0, -4.0], [1.0, 4.0])
        np.testing.assert_allclose(Q[:, 9:] / release.beta, clipped, atol=2e-5)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF([0.5, 2.0]),
        3.0 * (RBF(1.0) * ConstantKernel(2.0)),
        RBF([2.0, 3.0]),  # near enough for distances in single precision
        *[Matern([1.5, 0.8], nu=nu) for nu in (0.5, 1.5, 2.5, 0.7, np.inf)],
        RBF(1.0) * Matern(2.0, nu=1.5),
        ConstantKernel(2.0),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fast_kernels_are_scikit_learns(kernel, dtype):
    rng = np.random.default_rng(4)
    Z, X = rng.uniform([2, -5], [8, 1], (20, 2)), rng.uniform([-1, -8], [11, 4], (300, 2))
    X[:20] = Z
    chunks, scale = kernel_chunks(WhitenedFeatures(kernel, Z), np.dtype(dtype))
    result = scale * chunks(X, chunks.workspace(300))
    accuracy = 1e-6 if dtype == np.float32 else 2e-7  # 1e-8 is the root of the rounding error
    np.testing.assert_allclose(result, kernel(X, Z), atol=accuracy * kernel.diag(Z)[0])


@pytest.mark.parametrize("kernel", [RBF(0.7), Matern(1.0, nu=0.5)])
def test_more_inducing_points_inform_at_least_as_well(kernel):
    rng = np.random.default_rng(6)
    X = rng.normal(1.0, 0.5, (60, 1))
    Z = np.linspace(-3, 3, 13)[:, None]
    private = Z[[7, 8, 9]]  # where the records are
    information = []
    for points in (private, Z):
        phi = WhitenedFeatures(kernel, points)(X)
        inner = 0.04 * phi.T @ phi + 3.0 * np.eye(len(points))
        information.append(phi @ np.linalg.solve(inner, phi.T))
    few, many = information
    assert np.linalg.eigvalsh(many - few).min() > -1e-5  # the jitter
    assert np.linalg.eigvalsh(few - many).min() < -0.1


def test_rows_far_away_have_features_of_zero_in_single_precision():
    Z = np.linspace(-3, 3, 9)[:, None]
    far = np.array([[1e3], [-1e6], [1e15], [1e25], [1e300], [-1e308]])
    for dtype in (np.float32, np.float64):
        chunks, _ = kernel_chunks(WhitenedFeatures(RBF(2.0), Z), np.dtype(dtype))
        with np.errstate(all="ignore"):
            values = chunks(far, chunks.workspace(6))
        assert not np.nan_to_num(values).any()


def rows_features(X):
    return WhitenedFeatures(2.0 * RBF(0.8), GRID)(X)


@settings(deadline=None, max_examples=50)
@given(
    arrays(float, (2, 1), elements=st.floats(-5, 5)),
    arrays(float, (2, 1), elements=st.floats(-3, 3)),
)
def test_neighbours_differ_by_at_most_the_sensitivity(x, y):
    rng = np.random.default_rng(2)
    X, Y = rng.uniform(-4, 4, (30, 1)), rng.normal(size=(30, 1))
    release, rows = make_rows(n=30)
    grams = []
    for i in range(2):
        X[7], Y[7] = x[i], y[i]
        grams.append(streamed_sums(rows, X, Y, release.radius, chunk_size=16))
    assert scaled_norm(grams[0] - grams[1]) <= second_moment_sensitivity(release.radius**2)


def test_worst_neighbours_come_close_to_the_sensitivity():
    # Far inputs have no features, so the change is that of phi against the target alone, and of
    # a record against the one with the opposite target.
    release, rows = make_rows()
    changes = []
    for pair in ([(0.0, 1.0), (0.0, -1.0)], [(0.0, 1.0), (9e9, 1.0)], [(-3.0, 1.0), (3.0, -1.0)]):
        Q = rows(
            np.array([[x] for x, _ in pair]), np.array([[y] for _, y in pair]), rows.workspace(2)
        )
        changes.append(scaled_norm(np.outer(Q[0], Q[0]) - np.outer(Q[1], Q[1])))
    # (1, b), (1, -b), b^2 = 1/2: 4 b^2 of 2 W^2 = 4.5; orthogonal features: 4 of 4.5
    assert 0.9 < max(changes) / second_moment_sensitivity(release.radius**2) <= 1


def test_sums_are_exact_and_do_not_depend_on_chunks_threads_or_order():
    rng = np.random.default_rng(3)
    X, Y = rng.uniform(-4, 4, (3001, 1)), rng.normal(size=(3001, 1))
    release, rows = make_rows(n=3001, single=False)
    Q = rows(X, Y, rows.workspace(3001)).copy()
    expected = exact_gram(Q, release.radius)
    brute = np.zeros_like(expected)
    for row in Q.astype(np.int64):
        brute += np.outer(row, row)
    np.testing.assert_array_equal(expected, brute)
    for chunk_size, n_jobs in ((1, None), (100, None), (1024, 2), (10**6, 3)):
        if chunk_size == 1:
            X_, Y_, exact = X[:50], Y[:50], exact_gram(Q[:50], release.radius)
        else:
            X_, Y_, exact = X, Y, expected
        result = streamed_sums(rows, X_, Y_, release.radius, chunk_size=chunk_size, n_jobs=n_jobs)
        assert result.dtype == np.int64
        np.testing.assert_array_equal(result, exact)
    order = rng.permutation(3001)
    again = streamed_sums(rows, X[order], Y[order], release.radius, chunk_size=512)
    np.testing.assert_array_equal(again, expected)


def test_long_rows_are_shortened_exactly_and_broken_ones_dropped():
    Q = np.array([[3.0, 4.0], [1e300, 1e300], [np.nan, 1.0], [np.inf, 1.0], [2.0**20, 1.0]])
    shorten_rows(Q, 2**20)
    assert Q[0].tolist() == [3.0, 4.0]
    assert ((Q.astype(object) ** 2).sum(axis=1) <= 2**40).all()
    assert Q[2].tolist() == Q[3].tolist() == [0.0, 0.0]
    assert Q[1, 0] == Q[1, 1] > 2**20 / math.sqrt(2) - 3
    assert rows_on_lattice(np.array([[np.nan, 1.0]]), 0.5, 8).tolist() == [[0.0, 0.0]]


def test_too_many_rows_for_the_lattice_are_refused():
    class Endless:
        def __len__(self):
            return 2**40

    with pytest.raises(ValueError, match="too many rows"):
        streamed_sums(None, Endless(), Endless(), 2**20, chunk_size=10)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("n_targets", [1, 3])
def test_noise_has_the_stated_standard_deviations(n_targets):
    # chi-square tests of 40 releases with 50 features; false alarms: 1e-6 in all
    release = WhitenedRelease(0.5, (2.0,) * n_targets, 100)
    p = 50 + n_targets
    draws = [release.release(np.zeros((p, p), np.int64)) for _ in range(40)]
    first, W2, s = draws[0], float(SQUARED_NORM), math.sqrt(2 * n_targets)
    assert first.sb == pytest.approx(math.sqrt(2) * W2 / 0.5, rel=1e-3)
    assert first.sa == pytest.approx(np.full(n_targets, W2 * 2.0 * s / 0.5), rel=1e-3)
    assert first.syy == pytest.approx(np.full(n_targets, first.sb * 4.0 * s**2), rel=1e-3)
    B = np.array([m.B for m in draws])
    np.testing.assert_array_equal(B, B.transpose(0, 2, 1))
    samples = [
        np.diagonal(B, axis1=1, axis2=2) / first.sb,
        B[(slice(None), *np.triu_indices(50, 1))] / first.sb * math.sqrt(2),
        np.array([m.A / m.sa for m in draws]),
        np.array([m.yy.diagonal() / m.syy for m in draws]),
    ]
    for sample in samples:
        low, high = stats.chi2.ppf([1.25e-7, 1 - 1.25e-7], sample.size)
        assert low < (sample**2).sum() < high


@pytest.mark.parametrize(("mu", "n"), [(1e-6, 10), (1e-3, 10**9), (0.3, 100), (1e4, 100)])
def test_release_works_for_every_budget_and_size(mu, n):
    release = WhitenedRelease(mu, (1.0,), n)
    moments = release.release(np.zeros((3, 3), np.int64))
    assert np.isfinite(moments.B).all()
    assert n * release.radius**2 <= 2**62


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf])
def test_budgets_that_promise_nothing_are_refused(mu):
    with pytest.raises(ValueError, match="mu"):
        WhitenedRelease(mu, (1.0,), 10)
    with pytest.raises(ValueError, match="half_width"):
        WhitenedRelease(1.0, (0.0,), 10)


def test_single_precision_only_where_the_noise_hides_it():
    half_width = np.ones(1)
    smooth, rough = np.linspace(-3, 3, 100)[:, None], np.linspace(-30, 30, 20)[:, None]
    chosen = []
    for Z, mu, n in ((rough, 0.3, 10**6), (smooth, 0.3, 10**3), (smooth, 0.3, 10**6),
                     (rough, 1e4, 10**6)):  # fmt: skip
        method = WhitenedMethod(
            KernelFamily.of([RBF(3.0)]), Z, mu=mu, half_width=half_width, n_records=n
        )
        chosen.append(method.rows(np.zeros(1)).dtype)
    assert chosen == [np.float32, np.float32, np.float64, np.float64]
