"""Columns of the default family by their joint effects; noise is seeded."""

import math
from itertools import combinations

import numpy as np
import pytest

from _support.internals import JointEffects, default_family, kernel_shares
from _support.many_columns import error, fitted, records
from _support.planted import original, plant, put
from _support.record_sums import (
    assert_sums_have_no_order,
    largest_change,
    listen_to_budgets,
    listen_to_noise,
    sums_of,
)
from skdpbo.privacy import mu_from_epsilon

STEPS = 2**16


def effects_of(p=2, n=60, q=2, mu=0.5):
    box = np.zeros(p), np.full(p, 3.0)
    return JointEffects(box, mu=mu, mean=np.zeros(q), sd=np.ones(q), n_records=n)


# The release


@pytest.mark.parametrize("p", [2, 3, 5])
def test_effects_are_those_of_the_definition(p, monkeypatch):
    heard = listen_to_noise(monkeypatch, "column effects")
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-3.5, 3.5, (500, p)), rng.uniform(-1, 1, 500)
    effects = effects_of(p, 500, 1)
    effects.release(sums_of(effects, X, y[:, None]), None)
    values = np.trunc(np.clip(y / 0.5, -1, 1) * STEPS)
    lower = X < 0

    def size(columns, weights, halves=False):
        bins = 4 if len(columns) == 3 else 8
        cell = lower if halves else np.clip(np.floor((X + 3) / 6 * bins), 0, bins - 1)
        cells = {}
        for key, value in zip(map(tuple, cell[:, columns]), weights, strict=True):
            cells[key] = cells.get(key, 0) + value
        return sum(map(abs, cells.values()))

    most = p if p <= 3 else 2
    sets = [list(A) for size in range(most + 1) for A in combinations(range(p), size)]
    halves = [np.where(lower[:, j], values, -values) for j in range(p)]
    others = [[k for k in range(p) if k != j] for j in range(p)]
    expected = [size(A, values) for A in sets]
    if p <= 3:
        expected += [size(others[j], halves[j], halves=True) for j in range(p)]
        expected += [abs(lower[:, j].sum() * 2 - 500) * STEPS for j in range(p)]
    # Half of the weight for the empty set, a quarter for numbers of records.
    weights = np.r_[2, np.full(len(expected) - 1, 4)]
    weights[len(sets) + p :] = 1
    ((found, bound),) = heard
    np.testing.assert_array_equal(found, weights * expected)
    assert len(found) == {2: 8, 3: 14, 5: 16}[p]
    n_effects = {2: 5.375, 3: 10.4375, 5: 15.25}[p]
    assert JointEffects.n_effects(p) == n_effects
    assert bound == pytest.approx(8 * STEPS * math.sqrt(n_effects), rel=1e-12)
    assert bound >= 8 * STEPS * math.sqrt(n_effects)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_the_sums_depend_neither_on_chunks_nor_on_threads_nor_on_order(p):
    assert_sums_have_no_order(effects_of(p), p)


def change_of_effects(monkeypatch, p=2, groups=None):
    heard = listen_to_noise(monkeypatch, "column effects")
    return largest_change(effects_of(p), heard, p, groups)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("p", [2, 3, 5])
@pytest.mark.parametrize("groups", [None, np.arange(60) // 3], ids=["records", "groups"])
def test_neighbours_differ_by_at_most_the_sensitivity(p, groups, monkeypatch):
    assert 0.4 < change_of_effects(monkeypatch, p, groups) <= 1


@pytest.mark.parametrize("p", [2, 3, 5])
def test_the_sensitivity_is_attained(p, monkeypatch):
    a, b, bound = largest_step(p, monkeypatch)
    assert np.linalg.norm(a - b) == pytest.approx(bound, rel=1e-12)


def largest_step(p, monkeypatch):
    """Effects before and after a record moves to the other half of all columns, and their bound."""
    heard = listen_to_noise(monkeypatch, "column effects")
    # Three records are where it was, two where it goes, all with 1; it has -1 first.
    effects, X = effects_of(p, 6, 1), np.repeat([-2.0, 2.0, -2.0], [3, 2, 1])
    for place, y in [(-2.0, -1.0), (2.0, 1.0)]:
        X[-1] = place
        Y = np.r_[np.ones(5), y][:, None]
        effects.release(sums_of(effects, np.tile(X[:, None], p), Y), None)
    (a, bound), (b, _) = heard
    return a, b, bound


def test_a_sensitivity_of_the_sets_alone_is_caught(monkeypatch):
    put(monkeypatch, "column effects: round_up_root", lambda square: math.sqrt(square * 4 / 8))
    a, b, bound = largest_step(2, monkeypatch)
    assert np.linalg.norm(a - b) > 1.4 * bound


@pytest.mark.slow
def test_groups_whose_members_count_alike_are_caught(monkeypatch):
    put(monkeypatch, "joint effects: divide_by_group_size", lambda units, sizes, part: units)
    assert change_of_effects(monkeypatch, groups=np.arange(60) // 3) > 1.01


def test_effects_have_the_noise_of_their_sensitivity():
    # 2100 normal deviates: their deviation is off by a tenth, 6.5 of its own, in 1e-10 of cases,
    # and that of the 150 of the empty set by a third, 5.7 of its own, in 1e-8.
    effects, sums = effects_of(3, q=1, mu=0.1), np.full((2, 4, 64), 100 * STEPS)
    noisy = np.array([effects.release(sums, None)[0] for _ in range(150)])
    exact = effects._effects(sums)[0] / STEPS
    # Twice the noise for the empty set, four times for numbers of records.
    noise = (noisy - exact) / np.repeat([2, 1, 4], [1, 10, 3])
    expected = 2 * math.sqrt(10.4375) / 0.1
    assert np.std(noise) == pytest.approx(expected, rel=0.1)
    for part in np.split(noise, [1, 11], axis=1):
        assert np.std(part) == pytest.approx(expected, rel=1 / 3)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("n", "epsilon", "parameters", "shares"),
    [
        (3000, 1.0, {}, [0.04, 0.067, 0.893]),
        (300, 1.0, {}, [0.04, 0.96]),  # noise hides a strong effect
        (3000, 20.0, {}, [0.04, 0.002242, 0.957758]),  # as little noise as error of sampling
        (3000, 1.0, {"inducing_points": np.zeros((1, 2))}, [0.04, 0.96]),
    ],
)
def test_all_releases_together_cost_the_budget(n, epsilon, parameters, shares, monkeypatch):
    spent = listen_to_budgets(monkeypatch)
    gp = fitted(*records(n, 2), epsilon=epsilon, **parameters)
    mu = gp.privacy_.mu
    assert mu == mu_from_epsilon(epsilon, 1e-5)
    np.testing.assert_allclose(np.square(spent) / mu**2, shares, rtol=1e-3)
    assert math.sqrt(math.fsum(np.square(spent))) <= mu
    assert hasattr(gp, "columns_") == ("inducing_points" not in parameters)


def test_the_rules_depend_on_public_values():
    sizes = {"n_columns": 2, "n_targets": 1}
    assert JointEffects.shows(0.03, n_records=2000, **sizes)
    assert not JointEffects.shows(0.028, n_records=2000, **sizes)
    assert JointEffects.most_mu(n_records=2000, **sizes) == pytest.approx(
        2 * math.sqrt(5.375) / math.sqrt((1 - 2 / math.pi) * 0.74 * 2000)
    )
    # Of more columns 14 deviations of 2 sqrt(21.25) / mu, in place of five.
    sizes["n_columns"] = 6
    assert JointEffects.shows(0.17, n_records=2000, **sizes)
    assert not JointEffects.shows(0.16, n_records=2000, **sizes)
    assert JointEffects.shows(9.0, n_records=2000, n_columns=10, n_targets=1)
    assert not JointEffects.shows(9.0, n_records=2000, n_columns=11, n_targets=1)


def columns_of(X, y):
    return fitted(X, y, epsilon=0.02, random_state=1).columns_


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("p", [2, 5])
def test_with_all_noise_the_columns_do_not_depend_on_the_records(p, monkeypatch):
    put(monkeypatch, "joint effects: JointEffects.shows", staticmethod(lambda mu, **sizes: True))
    X, y = records(400, p)
    assert columns_of(X, y) == columns_of(X[:, ::-1] * 0.5, -y)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("p", [2, 5])
def test_columns_of_exact_sums_are_caught(p, monkeypatch):
    plant(monkeypatch, "sparse: columns of exact sums")
    X, y = records(400, p)
    assert columns_of(X, y) != columns_of(X[:, ::-1] * 0.5, -y)


# The choice


@pytest.mark.slow
@pytest.mark.parametrize("p", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_columns_without_use_cost_next_to_nothing(p, monkeypatch):
    (X, y), seeds = records(4000, p), range(3)
    among = [fitted(X, y, epsilon=3.0, random_state=seed) for seed in seeds]
    assert all(gp.columns_ == [0] for gp in among)
    points = among[0].inducing_points_
    assert points.shape == (30, p)
    np.testing.assert_allclose(np.diff(points[:, 0]), np.ptp(points[:, 0]) / 29)
    assert np.ptp(points[:, 1:], axis=0).min() > 5  # for the linear kernel
    np.testing.assert_array_equal(among[0].kernels_[0].k2.length_scale[1:], np.inf)
    alone = [fitted(X[:, :1], y, epsilon=3.0, random_state=seed) for seed in seeds]
    put(monkeypatch, "joint effects: JointEffects.shows", staticmethod(lambda mu, **sizes: False))
    before = [fitted(X, y, epsilon=3.0, random_state=seed) for seed in seeds]
    sizes = [(alone, 1), (among, p), (before, p)]
    errors = [np.mean([error(gp, k) for gp in gps]) for gps, k in sizes]
    assert errors[1] < 1.3 * errors[0]
    assert errors[1] < 0.8 * errors[2]


def function_of(kind, X):
    a, b = X.T[:2]
    return {
        "product": 2 * np.sin(a) * np.cos(b),  # neither has an effect of its own
        "interaction": np.sin(a) * (1 + 0.3 * np.sign(b)),  # which changes no sign
        "weak": np.sin(a) + 0.15 * b,
        "one": np.sin(a),
    }[kind]


def chosen(kind, X, seed, **parameters):
    y = function_of(kind, X) + 0.3 * np.random.default_rng(seed).normal(size=len(X))
    return fitted(X, y, epsilon=3.0, random_state=seed, **parameters).columns_


@pytest.mark.slow
@pytest.mark.parametrize("p", [2, 3, 6])
def test_columns_that_act_together_stay(p):
    X = np.random.default_rng(0).uniform(-3, 3, (4000, p))
    # Pairs do not see an interaction that changes no sign.
    for kind in ["product", "weak", "interaction"][: 2 if p > 3 else 3]:
        assert {0, 1} <= set(chosen(kind, X, 0)), kind


@pytest.mark.slow
def test_an_uneven_column_without_effect_is_left_out(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-3, 3, 4000), rng.choice([-2.0, 2.0], 4000, p=[0.2, 0.8])])
    assert chosen("one", X, 0) == [0]
    # Planted: halves of different numbers of records differ by the other column's effect.
    honest = original("joint effects: JointEffects._above")

    def even(effects, found, j):
        return honest(effects, np.r_[found[:-2], 0.0, 0.0], j)

    put(monkeypatch, "joint effects: JointEffects._above", even)
    assert chosen("one", X, 0) == [0, 1]


@pytest.mark.slow
def test_a_column_whose_box_shows_nothing_stays():
    X = np.random.default_rng(0).uniform([-3, 3], [3, 9], (4000, 2))
    assert chosen("one", X, 0) == [0, 1]


@pytest.mark.slow
def test_a_column_that_depends_on_another_stays():
    # Which of them acts is not known: as before the choice.
    X = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], 4000)
    assert chosen("one", X, 0) == [0, 1]


def test_all_columns_stay_where_none_clearly_matters():
    X, _ = records(2000, 2)
    y = np.random.default_rng(1).normal(size=2000)
    assert [fitted(X, y, random_state=seed).columns_ for seed in range(2)] == [[0, 1]] * 2


@pytest.mark.parametrize(("excess", "expected"), [
    ([2.9, 0.0], [0, 1]),
    ([3.1, 2.1], [0]),
    ([3.1, 2.3], [0, 1]),
    ([5.1, 2.1, 0.0], [0]),
    ([5.1, 2.3, 0.0], [0, 1]),
    ([4.9, 2.3, 0.0], [0, 1, 2]),
    ([4.1, 2.9, 0.0, 0.0, 0.0], [0]),
    ([4.1, 3.1, 0.0, 0.0, 0.0], [0, 1]),
    ([3.9, 3.1, 0.0, 0.0, 0.0], [0, 1, 2, 3, 4]),
])  # fmt: skip
def test_columns_stay_by_how_far_they_stand_out(excess, expected, monkeypatch):
    put(monkeypatch, "joint effects: JointEffects._above", lambda effects, noisy, j: excess[j])
    effects = effects_of(len(excess), 2000)
    assert effects.columns(np.zeros((1, len(effects.weights(len(excess)))))) == expected


def test_targets_have_their_columns_together():
    X, y = records(4000, 3)
    both = np.stack([y, np.sin(2 * X[:, 2])], axis=1)
    assert fitted(X, both, epsilon=10.0).columns_ == [0, 2]


def test_groups_count_as_one_record():
    X, y = records(4000, 2)
    assert fitted(X, y, groups=np.arange(4000) // 2, epsilon=3.0).columns_ == [0]


@pytest.mark.slow
@pytest.mark.parametrize("total", [0.0, 20.0, 150.0])
def test_a_column_without_effect_adds_what_is_expected(total):
    # 640 records in 64 cells, the sizes of their means even between 0 and twice their average.
    rng = np.random.default_rng(0)
    means = np.linspace(0, 2 * total / 64, 2001)
    sizes = np.abs(rng.normal(means, math.sqrt(10), (4000, 2001)))
    assert effects_of(2, 640)._unmoved(64, total) == pytest.approx(64 * sizes.mean(), rel=2e-3)


# The family


def test_kernels_depend_on_the_columns_that_matter():
    Z = np.zeros((30, 3))
    Z[:, [0, 2]] = np.random.default_rng(1).uniform(-1, 1, (30, 2))
    family = default_family(Z, np.ones(1), [0, 2])
    P = np.random.default_rng(0).uniform(-1, 1, (20, 3))
    kernels, shares = family.kernels, kernel_shares(family, Z)
    assert (shares[:9] > 0).all()
    np.testing.assert_array_equal(shares[9:], 0)
    moved = [P + 0.3 * np.eye(3)[j] for j in range(3)]
    sets = [{j for j in range(3) if np.abs(k(moved[j], P) - k(P)).max() > 1e-9} for k in kernels]
    alone = [{0}, {2}]
    every = {0, 1, 2}
    assert sets[:11] == [{0, 2}] * 8 + [every] * 3  # linear effects are not left out
    assert sets[11:] == alone + 2 * [*alone, {0, 2}]


@pytest.mark.parametrize("columns", [[0], [1], [0, 1]])
def test_all_columns_have_the_family_of_before(columns):
    Z = np.random.default_rng(1).uniform(-1, 1, (20, len(columns)))
    given, default = (
        default_family(Z, np.ones(1), list(range(Z.shape[1]))).kernels,
        default_family(Z, np.ones(1)).kernels,
    )
    for one, other in zip(given, default, strict=True):
        np.testing.assert_array_equal(one(Z), other(Z))


@pytest.mark.slow
@pytest.mark.slow
def test_bands_hold_what_the_column_that_was_left_out_may_add(monkeypatch):
    # An effect of .05 at 10, which hardly stands out.
    def coverage():
        covered, rng = [], np.random.default_rng(0)
        for seed in range(4):
            X = rng.uniform(-3, 3, (2300, 2))
            f = np.sin(X[:, 0]) + 0.07 * np.cos(2 * X[:, 1])
            y = f[:2000] + 0.2 * rng.normal(size=2000)
            gp = fitted(X[:2000], y, epsilon=10.0, random_state=seed)
            mean, std = gp.predict(X[2000:], return_std=True)
            if gp.columns_ == [0]:
                covered.append(np.mean(np.abs(mean - f[2000:]) < 1.96 * std))
        assert len(covered) >= 2
        return np.mean(covered)

    assert coverage() > 0.9
    put(
        monkeypatch,
        "joint effects: JointEffects.smallest_visible_effect",
        lambda effects: np.zeros(1),
    )
    assert coverage() < 0.6


def test_moments_draws_and_covariance_have_the_same_variance():
    X, y = records(3000, 2)
    gp, P = fitted(X, np.stack([y, 3 * y], axis=1), y_bounds=(-9, 9), epsilon=10.0), X[:40]
    assert gp.columns_ == [0]
    _, std = gp.predict(P, return_std=True)
    _, covariance = gp.predict(P, return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.einsum("iij->ij", covariance)), std, rtol=1e-6)
    far = np.array([[0.0, -3.0], [0.0, 3.0]])  # the same in the column that matters
    _, joint = gp.predict(far, return_cov=True)
    assert (joint[0, 1] < joint[0, 0]).all()
    # The posterior at the inducing points has what was left out, too.
    _, at_points = gp.predict(gp.inducing_points_, return_cov=True)
    np.testing.assert_allclose(gp.covariance_, at_points, rtol=1e-2, atol=1e-4)
