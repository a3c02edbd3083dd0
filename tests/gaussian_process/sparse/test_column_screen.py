"""Columns of the default family from a first release; noise is seeded."""

import math
import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LinearRegression

from _support.internals import (
    AdditiveRows,
    ColumnScreen,
    WhitenedRelease,
    additive_features,
    average_kernel,
    default_kernels,
    kernel_shares,
)
from _support.planted import original, plant, put
from skdpbo.exceptions import SkdpboWarning
from skdpbo.gaussian_process import DPSparseGPRegressor
from skdpbo.privacy import mu_from_epsilon

BOX = np.zeros(5), np.full(5, 3.0)
HUGE = np.array([0.0, 1.0, -3.0, 3.0, 2.5, 1e300, -1e300, 7.0])


def records(n=3000, p=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, p))
    return X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)


def fitted(X, y, **parameters):
    public = {"X_bounds": (-3, 3), "y_bounds": (-3, 3), "random_state": 0}
    rows = {key: parameters.pop(key) for key in list(parameters) if key.endswith("_public")}
    rows |= {"groups": parameters.pop("groups")} if "groups" in parameters else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkdpboWarning)
        return DPSparseGPRegressor(**{**public, **parameters}).fit(X, y, **rows)


def error(gp, n_columns, seed=9):
    X = np.random.default_rng(seed).uniform(-3, 3, (500, n_columns))
    return np.sqrt(np.mean((gp.predict(X) - np.sin(X[:, 0])) ** 2))


# The release


def test_features_are_waves_of_norm_at_most_one():
    X = np.random.default_rng(0).choice(HUGE, (500, 5))
    phi = additive_features(X, *BOX)
    assert np.sum(phi**2, axis=1).max() == pytest.approx(1.0)  # a corner of the box
    t = np.clip(X / 3, -1, 1) / 2 + 0.5
    weights = np.sqrt(0.9 / 5 / (1 + 1 / 2 + 1 / 3 + 1 / 4) / np.arange(1, 5))
    waves = weights * np.cos(np.pi * np.arange(1, 5) * t[:, :, None])
    np.testing.assert_allclose(phi[:, 1:], waves.reshape(500, 20), atol=1e-12)
    np.testing.assert_allclose(phi[:, 0], math.sqrt(0.1))


def largest_change():
    """Largest change of the integer moments by a pair of records, over its bound."""
    rng = np.random.default_rng(1)
    release = WhitenedRelease(0.5, (2.0, 1.0), 100)
    rows = AdditiveRows(BOX, np.zeros(2), release)
    Y = rng.choice([-1e9, -2.0, 0.0, 1.0, 5.0], (300, 2))
    Q = rows(rng.choice(HUGE, (300, 5)), Y, rows.workspace(300))
    np.testing.assert_array_equal(Q, np.rint(Q))
    squares = (Q @ Q.T) ** 2
    norms = np.diag(squares)
    change = np.sqrt(np.maximum(norms[:, None] + norms - 2 * squares, 0.0)).max()
    return change / (math.sqrt(2) * release.radius**2)


def test_neighbours_differ_by_at_most_the_sensitivity():
    assert 0.9 < largest_change() <= 1


def test_rows_that_are_not_shortened_are_caught(monkeypatch):
    honest = original("column screen: additive_features")
    put(monkeypatch, "column screen: additive_features", lambda *args: math.sqrt(5) * honest(*args))
    assert largest_change() <= 1  # the lattice shortens them
    put(monkeypatch, "column screen: rows_on_lattice", lambda rows, step, radius: rows // step)
    assert largest_change() > 1.01


@pytest.mark.parametrize("prior_mean", ["none", "private"])
def test_both_releases_together_cost_the_budget(prior_mean, monkeypatch):
    spent = []

    def listening(place):
        honest = original(place)

        def heard(method, *args):
            spent.append(method.statistics.mu)
            return honest(method, *args)

        put(monkeypatch, place, heard)

    listening("column screen: ColumnScreen.release")
    listening("release methods: WhitenedMethod.release")
    gp = fitted(*records(100), prior_mean=prior_mean)
    mu = math.sqrt(0.95 if prior_mean == "private" else 1.0) * mu_from_epsilon(1.0, 1e-5)
    assert gp.privacy_.mu == mu_from_epsilon(1.0, 1e-5)
    np.testing.assert_allclose(np.square(spent) / mu**2, [0.1, 0.9])
    assert math.hypot(*spent) <= mu
    assert "a first release shows" in gp.privacy_guarantee().mechanism


def columns_of(X, y):
    return fitted(X, y, epsilon=1e-7).columns_


def test_with_all_noise_the_columns_do_not_depend_on_the_records():
    X, y = records(400)
    assert columns_of(X, y) == columns_of(X[:, ::-1] * 0.5, -y)


def test_columns_of_exact_sums_are_caught(monkeypatch):
    plant(monkeypatch, "sparse: columns of exact sums")
    X, y = records(400)
    assert columns_of(X, y) != columns_of(X[:, ::-1] * 0.5, -y)


# The choice


def test_columns_without_use_cost_next_to_nothing():
    X, y = records(4000)
    alone, among = fitted(X[:, :1], y), fitted(X, y)
    assert among.columns_ == [0]
    assert not hasattr(alone, "columns_")
    assert error(among, 6) < 1.25 * error(alone, 1) < 0.1  # of .4 with the kernels of all columns
    np.testing.assert_array_equal(among.kernels_[0].k2.length_scale[1:], np.inf)


def test_choice_is_made_for_the_default_of_4_to_100_columns():
    X, y = records(300)
    gp = fitted(X, y)
    assert gp.columns_ == sorted(gp.columns_)
    wide = np.tile(X, 17)[:, :101]
    assert len(fitted(wide[:, :100], y).columns_) > 0
    own = [(X, {"kernel": RBF(2.0)}), (X, {"kernel": [RBF()]})]
    for table, parameters in [(X[:, :3], {}), (wide, {}), *own]:
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
        kernels = default_kernels(Z, np.ones(1), [1, 2])
        assert len(kernels) == 12
        shares = kernel_shares(kernels, Z)
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


def test_evidence_finds_what_was_planted_in_noisy_moments():
    rng, (X, y) = np.random.default_rng(0), records(4000)
    screen = ColumnScreen((np.zeros(6), np.full(6, 3.0)), mu=0.2, half_width=np.full(1, 3.0),
                          n_records=4000)  # fmt: skip
    rows = screen.rows(np.zeros(1))
    found = []
    for _ in range(20):
        y = y[order := rng.permutation(4000)]
        X = X[order]
        Q = rows(X, y[:, None], None)
        found.append(screen.columns(screen.release((Q.T @ Q).astype(np.int64), None)))
    assert sum(0 in columns and len(columns) <= 2 for columns in found) >= 12  # 20 are usual


# The box


def extent_of(X, y, **parameters):
    """Half-width of the box of the inducing points, in units of X_bounds."""
    Z = fitted(X, y, **parameters).inducing_points_
    widths = np.ptp(Z, axis=0) / np.ptp(fitted(X[:, :3], y).inducing_points_, axis=0).max()
    return widths.mean()


def test_points_fill_the_part_of_the_box_where_the_records_are():
    X, y = records(4000)
    full = extent_of(X, y, epsilon=3.0)
    normal = np.random.default_rng(1).normal(size=X.shape)
    for sd, expected in [(1.0, 1 / 3), (0.75, 1 / 4), (0.5, 1 / 6)]:
        assert extent_of(sd * normal, y, epsilon=3.0) == pytest.approx(
            3**0.5 * expected * full, rel=0.12
        )
    shifted = np.abs(X) / 3 - 3  # in a corner of the box: it stays as it is
    assert extent_of(shifted, y, epsilon=3.0) == full


def test_given_points_stay():
    X, y = records(2000)
    Z = np.random.default_rng(0).uniform(-3, 3, (40, 6))
    np.testing.assert_array_equal(fitted(0.3 * X, y, inducing_points=Z).inducing_points_, Z)


def test_with_all_noise_the_box_does_not_depend_on_the_records():
    X, y = records(400)
    assert extent_of(X, y, epsilon=1e-3) == extent_of(X / 5, y, epsilon=1e-3)


def test_a_box_of_exact_sums_is_caught(monkeypatch):
    def exact(screen, gram, source):
        return screen.statistics._in_units(gram.astype(float), 0.0)

    put(monkeypatch, "column screen: ColumnScreen.release", exact)
    X, y = records(400)
    assert extent_of(X, y, epsilon=1e-3) > 1.5 * extent_of(X / 5, y, epsilon=1e-3)


@pytest.mark.parametrize(("p", "sd"), [(5, 0.2), (30, 0.4)])
def test_extent_is_found_in_noisy_moments(p, sd):
    rng, n = np.random.default_rng(0), 4000
    screen = ColumnScreen((np.zeros(p), np.ones(p)), mu=0.1, half_width=np.ones(1), n_records=n)
    Q = screen.rows(np.zeros(1))(sd * rng.normal(size=(n, p)), rng.normal(size=(n, 1)), None)
    gram = (Q.T @ Q).astype(np.int64)
    found = [screen.extent(screen.release(gram, None)) for _ in range(30)]
    assert np.mean(found) == pytest.approx(3**0.5 * sd, rel=0.1)


# The targets' range


def screen_of(X, y, half_width=3.0, mu=0.1):
    n = len(X)
    box = np.zeros(X.shape[1]), np.full(X.shape[1], 3.0)
    screen = ColumnScreen(box, mu=mu, half_width=np.array([half_width]), n_records=n)
    Q = screen.rows(np.zeros(1))(X, y[:, None], None)
    return screen, (Q.T @ Q).astype(np.int64)


@pytest.mark.parametrize(
    ("mu", "factor"), [(0.3, np.sqrt(2 * np.log(60))), (1.0, np.sqrt(2 * np.log(200)))]
)
def test_targets_reach_some_root_mean_squares(mu, factor):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 5)), rng.normal(size=4000)
    screen, gram = screen_of(X, y, 6.0, mu)
    found = np.array([screen.reach(screen.release(gram, None))[0] for _ in range(30)])
    noise = screen.statistics.noise / screen.statistics.beta[0] ** 2 / 4000  # of the mean square
    assert np.mean(found**2) / factor**2 == pytest.approx(1 + noise, abs=4 * noise / np.sqrt(30))
    screen, gram = screen_of(X, np.full(4000, 6.0), 6.0, mu)
    assert screen.reach(screen.release(gram, None)) == [6.0]


def test_with_all_noise_the_range_is_that_of_the_bounds():
    rng = np.random.default_rng(0)
    screen, gram = screen_of(rng.normal(size=(400, 5)), rng.normal(size=400) / 10, mu=1e-3)
    reached = [screen.reach(screen.release(gram, None))[0] for _ in range(50)]
    assert np.mean(np.array(reached) == 3.0) == 1.0


def test_bounds_wider_than_the_targets_cost_little(monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(2, 4000, 6))
    y = X @ [0.5, -0.5, 0.4, 0.3, -0.3, 0.2] + 0.3 * y[:, 0]
    X_new = np.random.default_rng(1).normal(size=(500, 6))

    def error_with(bound):
        gp = fitted(X, y, epsilon=1.0, y_bounds=(-bound, bound))
        truth = X_new @ [0.5, -0.5, 0.4, 0.3, -0.3, 0.2]
        return np.sqrt(np.mean((gp.predict(X_new) - truth) ** 2))

    wide = error_with(9)
    assert wide < 1.5 * error_with(3)
    put(monkeypatch, "column screen: ColumnScreen.reach", lambda *_: np.full(1, 9.0))
    assert error_with(9) > 1.3 * wide
