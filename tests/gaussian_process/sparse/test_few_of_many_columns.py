"""A design of inducing points for the few of many columns that matter; noise is seeded."""

import math

import numpy as np
import pytest

from _support.internals import ColumnEffects, default_family, design_for_columns, kernel_shares
from _support.many_columns import fitted, records
from _support.planted import original, put
from _support.record_sums import listen_to_budgets
from skdpbo.privacy import mu_from_epsilon

NEVER = staticmethod(lambda *public, **sizes: False)
HIDES = "column effects: ColumnEffects.hides_others"


def table(f, seed=0, n=4300, p=6):
    """Return records, their targets, points and the function there."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, p))
    values = f(X)
    y = values[:-300] + 0.2 * rng.normal(size=n - 300)
    return X[:-300], y, X[-300:], values[-300:]


def two(X):
    return np.sin(2 * X[:, 0]) + X[:, 1] / 2


def error(f, seeds=range(3), **parameters):
    X, y, points, expected = table(f)
    fits = [fitted(X, y, random_state=seed, **parameters) for seed in seeds]
    return np.mean([np.sqrt(np.mean((gp.predict(points) - expected) ** 2)) for gp in fits])


# The design


@pytest.mark.slow
@pytest.mark.slow
def test_two_of_six_columns_err_less_in_a_design_of_their_own(monkeypatch):
    own = error(two, epsilon=3.0)
    put(monkeypatch, "joint effects: JointEffects.hides_others", NEVER)
    assert own < 0.75 * error(two, epsilon=3.0)


@pytest.mark.slow
@pytest.mark.slow
def test_products_are_learnt(monkeypatch):
    def product(X):
        return X[:, 0] / 2 + np.sin(X[:, 1]) * np.cos(X[:, 2])

    by_pairs = error(product, epsilon=3.0)
    put(monkeypatch, "joint effects: JointEffects.shows", NEVER)
    assert by_pairs < 0.6 * error(product, epsilon=3.0)  # of standard deviation .5


def test_points_are_a_design_in_the_columns_that_matter():
    X, y = records(4000)
    gp = fitted(X, y, epsilon=3.0)
    points = gp.inducing_points_
    assert gp.columns_ == [0]
    assert points.shape == (30 + 12, 6)  # two for each column, for the linear kernel
    np.testing.assert_allclose(np.diff(points[:30, 0]), np.ptp(points[:, 0]) / 29)
    assert np.ptp(points[30:], axis=0).min() > 5
    assert fitted(X, y, epsilon=3.0, inducing_points=35).inducing_points_.shape == (35, 6)
    box = np.vstack([np.zeros(40), np.ones(40)])
    assert design_for_columns(None, box, [3]).shape == (30 + 50, 40)
    assert design_for_columns(None, box[:, :3], [1, 2]).shape == (49, 3)


def test_points_that_are_given_stay():
    X, y = records(4000)
    Z = np.random.default_rng(0).uniform(-3, 3, (40, 6))
    gp = fitted(X, y, epsilon=3.0, inducing_points=Z)
    assert gp.columns_ == [0]
    np.testing.assert_array_equal(gp.inducing_points_, Z)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("p", "f"), [
    (12, lambda X: np.sin(X[:, 0]) + 0.15 * X[:, 1]),  # too weak to be chosen
    (6, lambda X: np.sin(X[:, :4]).sum(axis=1) / 2),  # too many
])  # fmt: skip
def test_no_design_where_other_columns_show_an_effect(p, f):
    X, y, _, _ = table(f, p=p)
    assert fitted(X, y, epsilon=10.0).inducing_points_.shape == (50, p)


@pytest.mark.slow
def test_weak_linear_effects_are_learnt():
    def weak(X):
        return np.sin(X[:, 0]) + 0.1 * X[:, 1] - 0.05 * X[:, 3]

    # Without the linear kernel of all columns .2, of standard deviation .19.
    assert error(weak, epsilon=3.0) < 0.1


# The choice


@pytest.mark.parametrize("epsilon", [3.0, 30.0])
def test_all_releases_together_cost_the_budget(epsilon, monkeypatch):
    spent = listen_to_budgets(monkeypatch)
    gp = fitted(*records(4000), epsilon=epsilon)
    mu = gp.privacy_.mu
    assert mu == mu_from_epsilon(epsilon, 1e-5)
    assert gp.inducing_points_.shape == (42, 6)
    # At 30 as little noise as error of sampling.
    least = 4 * 21.25 / ((1 - 2 / np.pi) * 0.74 * 4000) / mu**2
    share = {3.0: 0.1, 30.0: least}[epsilon]
    np.testing.assert_allclose(np.square(spent) / mu**2, [0.04, share, 0.96 - share], rtol=1e-9)
    assert math.sqrt(math.fsum(np.square(spent))) <= mu


def with_effects(p, mu=0.5, n=4000):
    box = np.zeros(p), np.full(p, 3.0)
    return ColumnEffects(box, mu=mu, mean=np.zeros(2), sd=np.ones(2), n_records=n)


def test_others_are_hidden_within_the_largest_of_normal_deviates():
    effects, largest = with_effects(5), np.sqrt(2 * np.log(5))
    none, unit = effects._without_effect(0.0), effects._deviation()
    noisy = np.full((2, 6), none)
    noisy[:, 5] = 0.0
    noisy[0, 2] += 30 * unit
    for height, hidden in [(largest - 0.1, True), (largest + 0.1, False)]:
        noisy[1, 4] = none + height * unit
        assert effects.hides_others([2], noisy) is hidden
        assert effects.hides_others([2, 4], noisy)
    noise = 2 * np.sqrt(6 * 2) / 0.5
    assert unit == pytest.approx(np.hypot(noise, np.sqrt((1 - 2 / np.pi) * 0.74 * 4000)))
    np.testing.assert_allclose(
        effects.smallest_visible_effect(), (none + largest * unit) / 4000 * 0.5 / 0.383
    )


def test_no_design_where_noise_may_hide_much_in_many_columns():
    for p, hidden in [(5, True), (60, False)]:
        effects = with_effects(p, mu=0.1)
        assert effects.hides_others([0], np.full((2, p + 1), 0.0)) is hidden


def design_of(X, y, monkeypatch):
    put(monkeypatch, "column effects: ColumnEffects.columns", lambda effects, noisy: [0])
    put(monkeypatch, "column effects: ColumnEffects.shows", staticmethod(lambda mu, **sizes: True))
    put(monkeypatch, "column effects: _MOST_HIDDEN", np.inf)
    return len(fitted(X, y, epsilon=0.02, random_state=3).inducing_points_)


def test_with_all_noise_the_design_does_not_depend_on_the_records(monkeypatch):
    X, y = records(400)
    found = [design_of(*data, monkeypatch) for data in [(X, y), (X[:, ::-1] * 0.5, -y)]]
    assert found == [42, 42]


@pytest.mark.slow
def test_a_design_by_exact_effects_is_caught(monkeypatch):
    honest, release = original(HIDES), original("column effects: ColumnEffects.release")

    def keeps(effects, sums, source):
        effects.exact = effects._effects(sums) / 2**16
        return release(effects, sums, source)

    def hides(effects, columns, noisy):
        effects._deviation = lambda: 10.0
        return honest(effects, columns, effects.exact)

    put(monkeypatch, "column effects: ColumnEffects.release", keeps)
    put(monkeypatch, HIDES, hides)
    X, y = records(400)
    found = [design_of(*data, monkeypatch) for data in [(X, y), (X[:, ::-1] * 0.5, -y)]]
    assert found == [42, 50]


# The family


def test_the_family_is_that_of_few_columns_and_kernels_of_all():
    Z = design_for_columns(None, np.vstack([-np.ones(6), np.ones(6)]), [1, 4])
    family = default_family(Z, np.ones(1), [1, 4], few=True)
    kernels, shares = family.kernels, kernel_shares(family, Z)
    assert (shares[:9] > 0).all()
    np.testing.assert_array_equal(shares[9:], 0)
    P = np.random.default_rng(0).uniform(-1, 1, (20, 6))
    moved = [P + 0.3 * np.eye(6)[j] for j in range(6)]
    sets = [{j for j in range(6) if np.abs(k(moved[j], P) - k(P)).max() > 1e-9} for k in kernels]
    pair, every, alone = {1, 4}, set(range(6)), [{1}, {4}]
    assert sets[:9] == [pair] * 8 + [every]  # linear effects are not left out
    assert sets[9:12] == [pair, every, every]
    assert sets[12:] == [*alone, *alone, pair, every, *alone, pair, every, *[every] * 4]
    np.testing.assert_array_equal(
        family.log_priors, [0.0] * 8 + [-3.0, 0.0] + [-3.0] * 12 + [0.0] * 4
    )


@pytest.mark.parametrize(("p", "columns", "over"), [(2, [0], 4), (3, [1], 4), (6, [1, 4], 16)])
def test_slopes_of_columns_that_were_left_out_are_smaller(p, columns, over):
    Z = design_for_columns(None, np.vstack([-np.ones(p), np.ones(p)]), columns)
    kernels = default_family(Z, np.ones(1), columns, few=True).kernels
    every, chosen = kernels[8].k2.parts, kernels[9].k2.parts
    others = [j for j in range(p) if j not in columns]
    assert every.sum() == pytest.approx(1)
    np.testing.assert_allclose(every[columns], over * every[others[0]])
    np.testing.assert_allclose(every[others], every[others[0]])
    np.testing.assert_allclose(chosen[columns], 1 / len(columns))
    np.testing.assert_array_equal(chosen[others], 0)


@pytest.mark.slow
def test_bands_hold_what_the_columns_that_were_left_out_may_add(monkeypatch):
    def coverage():
        covered = []
        for seed in range(4):
            X, y, points, f = table(lambda X: np.sin(X[:, 0]) + 0.1 * np.cos(2 * X[:, 1]), seed)
            gp = fitted(X, y, epsilon=3.0, random_state=seed)
            mean, std = gp.predict(points, return_std=True)
            if len(gp.inducing_points_) == 42:
                covered.append(np.mean(np.abs(mean - f) < 1.96 * std))
        assert len(covered) >= 2
        return np.mean(covered)

    assert coverage() > 0.9
    put(
        monkeypatch,
        "joint effects: JointEffects.smallest_visible_effect",
        lambda effects: np.zeros(1),
    )
    assert coverage() < 0.8
