"""Largest move of a computed row, against brute force over neighbours, in exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest

from _support.internals import (
    AnswerNoise,
    NoisyRows,
    answer_sensitivity,
    operator_norm_bound,
    random_projection,
    round_up,
    row_sensitivity,
)
from _support.planted import put
from skdpbo.gaussian_process.outsourced import Ball, Box
from skdpbo.mechanisms import GaussianMechanism


def rows_of(domain, projection=None, displacement=1.0, d=3):
    return NoisyRows(
        mechanism="l2_laplace",
        epsilon=1.0,
        delta=0.0,
        displacement=displacement,
        domain=domain,
        n_features=d,
        projection=projection,
    )


def exact_distance_squared(a, b):
    return sum(
        (Fraction(x) - Fraction(y)) ** 2 for x, y in zip(a.tolist(), b.tolist(), strict=True)
    )


def neighbours(rng, d, n, scale, displacement):
    """Pairs of rows at most `displacement` apart, exactly: inside, on and outside of a ball."""
    X = rng.normal(size=(n, d))
    X *= (scale * rng.choice([0.2, 1.0, 1.0, 3.0, 1e6], size=(n, 1))) / np.linalg.norm(
        X, axis=1, keepdims=True
    )
    X[::3] *= np.nextafter(1.0, rng.choice([0.0, 2.0], size=(len(X[::3]), 1)))
    steps = rng.normal(size=(n, d))
    steps[1::2] = X[1::2] * rng.choice([-1.0, 1.0], size=(len(X[1::2]), 1))  # along the radius
    steps *= displacement / np.linalg.norm(steps, axis=1, keepdims=True)
    others = X + steps
    limit = Fraction(displacement) ** 2
    close = [exact_distance_squared(a, b) <= limit for a, b in zip(X, others, strict=True)]
    return X[close], others[close]


def squared(values):
    return sum(Fraction(value) ** 2 for value in values)


@pytest.mark.parametrize("size", [1e-320, 2.6e-162, 1e-158, 1.0, 0.1, 1e150, 1e300])
@pytest.mark.parametrize("d", [1, 3, 400])
def test_norm_and_diameter_of_a_box_are_rounded_up(size, d):
    """Squares of numbers below 1e-154 are below the floats, or have few digits."""
    rng = np.random.default_rng(0)  # public randomness
    low, high = -rng.uniform(0, size, d), rng.uniform(0.5, 1, d) * size
    box = Box(low, high)
    widths = [Fraction(b) - Fraction(a) for a, b in zip(box.low, box.high, strict=True)]
    ends = [max(abs(a), abs(b)) for a, b in zip(box.low, box.high, strict=True)]
    for stated, exact in ((box.diameter, squared(widths)), (box.norm, squared(ends))):
        assert Fraction(stated) ** 2 >= exact
        assert Fraction(math.nextafter(math.nextafter(stated, 0.0), 0.0)) ** 2 < exact


def test_planted_bug_squares_below_the_floats_are_caught(monkeypatch):
    def squared_floats(values, power):
        return Fraction(sum(float(value) ** power for value in values))

    put(monkeypatch, "domains: exact_sum", squared_floats)
    assert Box((0.0,), (2.6e-162,)).diameter < 2.6e-162


def test_a_tiny_box_has_the_noise_of_its_diameter():
    noisy = rows_of(Box((0.0,), (2.6e-162,)), displacement=1e-161, d=1)
    assert noisy.mechanism_for(1)[0].scale >= 2.6e-162


DOMAINS = {
    "ball": Ball(5.0),
    "box": Box((-3.0, -1.0, 0.1), (3.0, 0.7, 2.0)),
}


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("projection", [None, random_projection(3, 2), random_projection(3, 1)])
@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
@pytest.mark.parametrize("displacement", [1.0, 1e-9])
def test_no_pair_of_neighbours_moves_further(domain, projection, displacement):
    rng = np.random.default_rng(3)  # public randomness
    rows = rows_of(domain, projection, displacement)
    X, others = neighbours(rng, 3, 800, domain.norm, displacement)
    limit = Fraction(rows.sensitivity) ** 2
    moves = [
        exact_distance_squared(a, b) for a, b in zip(rows.exact(X), rows.exact(others), strict=True)
    ]
    assert max(moves) <= limit
    assert max(moves) >= Fraction(0.9) * limit  # and it is not too large


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_no_pair_of_rows_is_further_apart_than_the_diameter(domain):
    rng = np.random.default_rng(4)  # public randomness
    rows = rows_of(domain, displacement=1e3)
    X = rng.normal(size=(200, 3)) * 10
    X[::2] = -X[1::2]
    exact = rows.exact(X)
    found = max(exact_distance_squared(a, b) for a in exact for b in exact[:40])
    assert found <= Fraction(rows.sensitivity) ** 2
    assert rows.sensitivity == pytest.approx(domain.diameter, rel=1e-9)


def test_the_worst_pair_for_a_projection_lies_along_its_first_singular_vector():
    P = np.random.default_rng(0).normal(size=(6, 3))  # public randomness
    U, s, _ = np.linalg.svd(P)
    a, b = np.zeros(6), U[:, 0] * 0.999999
    moved = np.linalg.norm((b - a) @ P)
    bound = row_sensitivity(1.0, data_norm=2.0, n_features=6, projection=P)
    assert 0.999 * s[0] < moved <= bound


@pytest.mark.parametrize("shape", [(5, 5), (40, 3), (300, 20), (1, 1)])
def test_operator_norm_bound(shape):
    rng = np.random.default_rng(1)  # public randomness
    for P in (rng.normal(size=shape), random_projection(*shape)):
        norm = np.linalg.norm(P, 2)
        assert norm <= operator_norm_bound(P) * (1 + 1e-14)
    assert operator_norm_bound(P) == pytest.approx(math.sqrt(shape[0] / shape[1]), rel=1e-11)


def test_operator_norm_bound_in_exact_arithmetic():
    """Rank one: the squared norm is the product of two sums of squares."""
    a, b = [1, 2**-20, 3, 2**-30], [1.0, 2.0**-26]
    P = np.outer(a, b)
    squared = sum(Fraction(x) ** 2 for x in a) * sum(Fraction(x) ** 2 for x in b)
    assert Fraction(operator_norm_bound(P)) ** 2 >= squared


def test_random_projections_keep_distances_in_the_mean():
    P = random_projection(50, 10)
    np.testing.assert_array_equal(P, random_projection(50, 10))
    X = np.random.default_rng(2).normal(size=(4000, 50))  # public randomness
    ratio = np.sum((X @ P) ** 2, axis=1) / np.sum(X**2, axis=1)
    assert ratio.mean() == pytest.approx(1.0, abs=0.03)
    np.testing.assert_allclose(P.T @ P, 5 * np.eye(10), atol=1e-12)


def test_shortening_is_the_projection_onto_the_ball():
    rng = np.random.default_rng(5)  # public randomness
    X = rng.normal(size=(200, 4)) * 10 ** rng.uniform(-200, 200, (200, 1))
    X[0], X[1], X[2] = 0.0, [1e308] * 4, [5e-324] * 4
    S = Ball(2.0).project(X)
    lengths = [math.hypot(*row) for row in X]
    for row, short, length in zip(X, S, lengths, strict=True):
        if length <= 2.0:
            np.testing.assert_array_equal(short, row)
        else:
            assert math.hypot(*short) == pytest.approx(2.0, rel=1e-14)
            unit = row / np.abs(row).max()
            np.testing.assert_allclose(short / 2.0, unit / math.hypot(*unit))


def test_the_image_of_the_domain_holds_the_rows():
    rng = np.random.default_rng(6)  # public randomness
    X = rng.normal(size=(2000, 3)) * 5
    for domain in DOMAINS.values():
        for projection in (None, random_projection(3, 2)):
            rows = rows_of(domain, projection)
            exact = rows.exact(X)
            np.testing.assert_allclose(rows.image.project(exact), exact, rtol=1e-12, atol=1e-12)


def answered(values, low, high, queries):
    return np.array([np.clip(values[i], low, high) for i in queries])


def test_answer_sensitivity_is_the_worst_over_neighbours_and_queries():
    low, high, k = -1.0, 2.0, 3
    rng = np.random.default_rng(7)  # public randomness
    worst = 0.0
    for _ in range(300):
        y = rng.uniform(-4, 4, 5)
        other = y.copy()
        other[rng.integers(5)] = rng.choice([-9.0, 9.0, 0.3])
        queries = [i for i in range(5) for _ in range(k)]
        change = answered(y, low, high, queries) - answered(other, low, high, queries)
        worst = max(worst, float(np.linalg.norm(change)))
    assert worst <= answer_sensitivity(low, high, k)
    assert worst == pytest.approx(answer_sensitivity(low, high, k), rel=1e-9)


@pytest.mark.parametrize("k", [2, 9, 1000])
def test_noise_of_answers_covers_the_rounding_of_each(k):
    noise = AnswerNoise(epsilon=1.0, delta=1e-5, y_bounds=(-1.0, 2.0), answers_per_row=k)
    step = noise._mechanism.step

    def sigma(roundings):
        # k coordinates change, each by less than one step more than exact values
        moved = Fraction(answer_sensitivity(-1.0, 2.0, k)) + roundings * Fraction(step)
        return GaussianMechanism(
            epsilon=1.0, delta=1e-5, sensitivity=round_up(moved), lattice=step
        ).sigma

    assert noise.std >= sigma(math.isqrt(k - 1) + 1)
    assert noise.std > sigma(1)  # one rounding for all would be too little


@pytest.mark.parametrize("r", [1, 3, 4])
@pytest.mark.parametrize("move", [1.0, 1e-9])
def test_row_sensitivity_is_the_formula_of_the_docstring(r, move):
    d, N, u = 8, 1e6, Fraction(1, 2**53)
    P = random_projection(d, r)
    norm, gamma = Fraction(operator_norm_bound(P)), d * u / (1 - d * u)
    shortening = (d + 16) * u * Fraction(N)
    frobenius = norm * (math.isqrt(r - 1) + 1)
    product = gamma * (1 + (d + 16) * u) * Fraction(N) * frobenius
    expected = norm * (Fraction(move) + 2 * shortening) + 2 * product
    got = Fraction(row_sensitivity(move, data_norm=N, n_features=d, projection=P))
    assert expected <= got <= expected * (1 + 4 * u)
    assert got > expected - product  # neither rounding of the product may be left out
    assert frobenius**2 >= sum(Fraction(x) ** 2 for x in P.ravel().tolist())
