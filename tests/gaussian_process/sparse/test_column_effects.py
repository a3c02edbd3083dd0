"""Columns of the default family from a release of their effects; noise is seeded."""

import math
import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LinearRegression

from _support.internals import (
    ColumnEffects,
    average_kernel,
    default_family,
    kernel_shares,
)
from _support.many_columns import error, fitted, records
from _support.planted import original, plant, put
from _support.record_sums import (
    assert_sums_have_no_order,
    largest_change,
    listen_to_budgets,
    listen_to_noise,
    sums_of,
)
from skdpbo.exceptions import SkdpboWarning
from skdpbo.privacy import mu_from_epsilon

BOX = np.zeros(5), np.full(5, 3.0)
STEPS = 2**16


def effects_of(n=300, q=2, **given):
    how = {"mu": 0.5, "mean": np.zeros(q), "sd": np.ones(q), "n_records": n}
    return ColumnEffects(BOX, **{**how, **given})


# The release


def test_sums_are_those_of_clipped_targets_in_16_bins():
    X, y = np.random.default_rng(0).uniform(-3.5, 3.5, (400, 5)), np.linspace(-2, 2, 400)
    sums = sums_of(effects_of(mean=np.array([0.5]), sd=np.array([2.0])), X, y[:, None])
    values = np.trunc(np.clip((y - 0.5) / 1.0, -1, 1) * STEPS)
    edges = np.linspace(-3, 3, 17)[1:-1]
    for column in range(5):
        bins = np.searchsorted(edges, X[:, column], side="right")
        expected = [values[bins == b].sum() for b in range(16)]
        np.testing.assert_array_equal(sums[0, column], expected)
    np.testing.assert_array_equal(sums[0, 5], [values.sum()] + [0] * 15)


def test_the_sum_depends_neither_on_chunks_nor_on_threads_nor_on_order():
    assert_sums_have_no_order(effects_of(), p=5)


def test_sums_of_billions_of_records_fit():
    # As those of the other releases: an error of their number would come after the charge.
    radius = effects_of().rows(np.zeros(2)).radius
    assert STEPS <= radius**2 <= 2**62 / 2**40


def change_of_effects(monkeypatch, groups=None):
    heard = listen_to_noise(monkeypatch, "column effects")
    return largest_change(effects_of(60), heard, 5, groups)


@pytest.mark.parametrize("groups", [None, np.arange(60) // 3], ids=["records", "groups"])
def test_neighbours_differ_by_at_most_the_sensitivity(groups, monkeypatch):
    assert 0.4 < change_of_effects(monkeypatch, groups) <= 1


def test_the_sensitivity_is_attained(monkeypatch):
    heard = listen_to_noise(monkeypatch, "column effects")
    X, effects = np.zeros((6, 5)), effects_of(6, 1)
    for sign in (1.0, -1.0):  # of a record that was -1 where the others are 1
        Y = np.ones((6, 1))
        Y[0] = sign
        effects.release(sums_of(effects, X, Y), None)
    (a, bound), (b, _) = heard
    assert np.linalg.norm(a - b) == pytest.approx(bound, rel=1e-12)


def test_targets_that_are_not_clipped_are_caught(monkeypatch):
    honest = np.clip
    put(monkeypatch, "column effects: np", Unclipped(honest))
    assert change_of_effects(monkeypatch) > 1.01


class Unclipped:
    """numpy whose `clip` lets targets grow to twice their bound."""

    def __init__(self, honest):
        self.honest = honest

    def clip(self, values, low, high):
        return (
            self.honest(values, 2 * low, 2 * high) if low == -1 else self.honest(values, low, high)
        )

    def __getattr__(self, name):
        return getattr(np, name)


@pytest.mark.slow
def test_groups_whose_members_count_alike_are_caught(monkeypatch):
    put(monkeypatch, "column effects: divide_by_group_size", lambda units, sizes, part: units)
    assert change_of_effects(monkeypatch, np.arange(60) // 3) > 1.01


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("prior_mean", ["none", "private"])
@pytest.mark.parametrize(("n", "shares"), [(3000, [0.04, 0.1, 0.86]), (100, [0.04, 0.96])])
def test_all_releases_together_cost_the_budget(n, shares, prior_mean, monkeypatch):
    spent = listen_to_budgets(monkeypatch)
    gp = fitted(*records(n), prior_mean=prior_mean)
    mu = math.sqrt(0.95 if prior_mean == "private" else 1.0) * mu_from_epsilon(1.0, 1e-5)
    assert gp.privacy_.mu == mu_from_epsilon(1.0, 1e-5)
    np.testing.assert_allclose(np.square(spent) / mu**2, shares)
    assert math.sqrt(math.fsum(np.square(spent))) <= mu
    assert "which of 2 or more matter" in gp.privacy_guarantee().mechanism


def test_nothing_is_released_where_noise_hides_a_strong_effect():
    sizes = {"n_columns": 20, "n_targets": 1}
    assert ColumnEffects.shows(0.1, n_records=4000, **sizes)
    assert not ColumnEffects.shows(0.015, n_records=4000, **sizes)
    assert ColumnEffects.shows(0.015, n_records=8000, **sizes)
    X, y = records(400)
    assert fitted(X, y, epsilon=1e-3).columns_ == list(range(6))


def columns_of(X, y):
    return fitted(X, y, epsilon=0.02, random_state=3).columns_


def test_with_all_noise_the_columns_do_not_depend_on_the_records(monkeypatch):
    shows = staticmethod(lambda mu, **sizes: True)
    put(monkeypatch, "column effects: ColumnEffects.shows", shows)
    X, y = records(400)
    assert columns_of(X, y) == columns_of(X[:, ::-1] * 0.5, -y)


@pytest.mark.slow
def test_columns_of_exact_sums_are_caught(monkeypatch):
    plant(monkeypatch, "sparse: columns of exact sums")
    X, y = records(400)
    assert columns_of(X, y) != columns_of(X[:, ::-1] * 0.5, -y)


# The choice


@pytest.mark.slow
def test_columns_without_use_cost_next_to_nothing():
    X, y = records(4000)
    alone, among = fitted(X[:, :1], y), fitted(X, y)
    assert among.columns_ == [0]
    assert not hasattr(alone, "columns_")
    assert error(alone, 1) < 0.06
    assert error(among, 6) < 0.1  # of .4 with the kernels of all columns
    np.testing.assert_array_equal(among.kernels_[0].k2.length_scale[1:], np.inf)


@pytest.mark.slow
def test_choice_is_made_for_the_default_of_2_to_100_columns():
    X, y = records(300)
    gp = fitted(X, y)
    assert gp.columns_ == sorted(gp.columns_)
    wide = np.tile(X, 17)[:, :101]
    assert len(fitted(wide[:, :100], y).columns_) > 0
    own = [(X, {"kernel": RBF(2.0)}), (X, {"kernel": [RBF()]})]
    for table, parameters in [(X[:, :1], {}), (wide, {}), *own]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkdpboWarning)
            gp.set_params(**{"kernel": None, **parameters}).fit(table, y)
        assert not hasattr(gp, "columns_")


def test_all_columns_stay_where_none_stands_out():
    X, _ = records(500)
    y = np.random.default_rng(1).normal(size=500)
    assert fitted(X, y, epsilon=0.1).columns_ == list(range(6))


def test_targets_have_their_columns_together():
    X, y = records(4000, p=4)
    both = fitted(X, np.stack([y, np.abs(X[:, 2]) - 1.5], axis=1), epsilon=3.0)
    assert both.columns_ == [0, 2]


def test_a_constant_alone_is_no_column():
    X, _ = records(2000)
    assert fitted(X, np.full(2000, 2.0), epsilon=10.0).columns_ == list(range(6))


@pytest.mark.slow
def test_residuals_of_a_public_model_have_their_own_columns():
    X, y = records(4000)
    y = y + X[:, 3] / 2
    public = {"X_public": X[:100].copy(), "y_public": X[:100, 3] / 2}
    public["y_public"] = public["y_public"] + np.random.default_rng(0).normal(size=100)
    gp = fitted(X, y, base=LinearRegression(), epsilon=3.0, y_bounds=(-4, 4), **public)
    assert 0 in gp.columns_
    assert len(gp.columns_) < 4


def test_groups_count_as_one_record():
    X, y = records(4000)
    assert fitted(X, y, groups=np.arange(4000) // 2, epsilon=3.0).columns_ == [0]


# The family


def test_the_linear_kernel_keeps_its_share_of_many_columns():
    for p, least in [(4, 0.2), (8, 0.4), (30, 0.5)]:
        Z = np.random.default_rng(0).uniform(-1, 1, (50, p))
        family = default_family(Z, np.ones(1), [1, 2])
        kernels, shares = family.kernels, kernel_shares(family, Z)
        assert len(kernels) == 15
        assert shares.sum() == pytest.approx(1.0)
        assert shares[8] >= least
        assert (shares[:8] > 0).all()
        np.testing.assert_array_equal(shares[9:], 0)
        served = average_kernel(kernels, Z, shares)(Z)
        for share, kernel in zip(shares[:9], kernels[:9], strict=True):
            rest = served - share * kernel(Z) / np.mean(kernel.diag(Z))
            assert np.linalg.eigvalsh(rest).min() > -1e-9


@pytest.mark.slow
def test_bands_cover_where_other_columns_matter_too():
    # Planted in the family: without the kernel of all columns the coverage was .26.
    covered, rng = [], np.random.default_rng(0)
    for seed in range(3):
        X = rng.uniform(-3, 3, (2300, 5))
        waves = rng.normal(size=(5, 500)) / np.sqrt(5)
        f = np.cos(X @ waves + rng.uniform(0, 2 * np.pi, 500)) @ rng.normal(size=500) / np.sqrt(250)
        y = f + 0.2 * rng.normal(size=2300)
        gp = fitted(X[:2000], y[:2000], epsilon=3.0, random_state=seed)
        mean, std = gp.predict(X[2000:], return_std=True)
        covered.append(np.mean(np.abs(mean - f[2000:]) < 1.96 * std))
    assert np.mean(covered) > 0.75, covered


def test_a_rough_effect_is_found_where_waves_are_not():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (4000, 20))
    levels = rng.choice([-1.0, 1.0], 16)  # no low wave
    y = levels[np.floor((X[:, 4] + 3) / 6 * 16).astype(int)] + 0.5 * rng.normal(size=4000)
    assert fitted(X, y).columns_ == [4]


def test_strong_effects_are_found_in_the_noise():
    X, y = records(4000)
    mu = math.sqrt(0.1) * mu_from_epsilon(1.0, 1e-5)
    effects = ColumnEffects((np.zeros(6), np.full(6, 3.0)), mu=mu, mean=np.zeros(1),
                            sd=np.full(1, 0.8), n_records=4000)  # fmt: skip
    sums = sums_of(effects, X, y[:, None])
    found = [effects.columns(effects.release(sums, None)) for _ in range(30)]
    # The effect is 12 standard deviations of the noise; two false columns at 2.9 of them each.
    assert all(0 in columns for columns in found)
    assert sum(columns == [0] for columns in found) >= 20  # 29 are usual


@pytest.mark.slow
def test_an_effect_of_targets_that_are_off_the_centre_is_no_other(monkeypatch):
    X, y = records(4000)
    assert fitted(X, y + 2.0, epsilon=1.0).columns_ == [0]
    # Planted: the mean that was released is not subtracted, and all columns look alike.
    honest = original("column effects: ColumnEffects.__init__")

    def about_the_centre(self, box, *, mean, **how):
        honest(self, box, mean=0 * mean, **how)

    put(monkeypatch, "column effects: ColumnEffects.__init__", about_the_centre)
    assert fitted(X, y + 2.0, epsilon=1.0).columns_ != [0]
