"""Extent of the records and reach of the targets from a first release; noise is seeded."""

import math
import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from _support.internals import RecordSpread, spread_features
from _support.many_columns import HUGE, fitted, records
from _support.planted import original, put
from skdpbo.exceptions import WideBoundsWarning
from skdpbo.gaussian_process import DPSparseGPRegressor

BOX = np.zeros(5), np.full(5, 3.0)


# The release


def test_features_are_a_constant_and_the_mean_wave_of_norm_at_most_one():
    X = np.random.default_rng(0).choice(HUGE, (500, 5))
    phi = spread_features(X, *BOX)
    assert np.sum(phi**2, axis=1).max() == pytest.approx(1.0)  # a corner of the box
    t = np.clip(X / 3, -1, 1) / 2 + 0.5
    np.testing.assert_allclose(phi[:, 0], math.sqrt(0.5))
    np.testing.assert_allclose(phi[:, 1], math.sqrt(0.5) * np.cos(2 * np.pi * t).mean(axis=1))


def largest_change(p=5):
    """Largest change of the integer moments by a pair of records, over its bound."""
    rng = np.random.default_rng(1)
    box, half_width = (np.zeros(p), np.full(p, 3.0)), np.array([2.0, 1.0])
    rows = RecordSpread(box, mu=0.5, half_width=half_width, n_records=100).rows(np.zeros(2))
    Y = rng.choice([-1e9, -2.0, 0.0, 1.0, 5.0], (300, 2))
    Q = rows(rng.choice(HUGE, (300, p)), Y, rows.workspace(300))
    np.testing.assert_array_equal(Q, np.rint(Q))
    squares = (Q @ Q.T) ** 2
    norms = np.diag(squares)
    change = np.sqrt(np.maximum(norms[:, None] + norms - 2 * squares, 0.0)).max()
    return change / (math.sqrt(2) * rows.radius**2)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_neighbours_differ_by_at_most_the_sensitivity(p):
    assert 0.9 < largest_change(p) <= 1


def test_rows_that_are_not_shortened_are_caught(monkeypatch):
    honest = original("record spread: spread_features")
    put(monkeypatch, "record spread: spread_features", lambda *args: math.sqrt(5) * honest(*args))
    assert largest_change() <= 1  # the lattice shortens them
    put(monkeypatch, "record spread: rows_on_lattice", lambda rows, step, radius: rows // step)
    assert largest_change() > 1.01


# The box


def extent_of(X, y, **parameters):
    """Half-width of the box of the inducing points, in units of X_bounds."""
    Z = fitted(X, y, **parameters).inducing_points_
    widths = np.ptp(Z, axis=0) / np.ptp(fitted(X[:, :3], y).inducing_points_, axis=0).max()
    return widths.mean()


@pytest.mark.slow
def test_points_fill_the_part_of_the_box_where_the_records_are():
    X, _ = records(4000)
    y = np.random.default_rng(2).normal(size=4000)  # no column stands out
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


@pytest.mark.slow
def test_with_all_noise_the_box_does_not_depend_on_the_records():
    X, y = records(400)
    assert extent_of(X, y, epsilon=1e-3) == extent_of(X / 5, y, epsilon=1e-3)


@pytest.mark.slow
def test_a_box_of_exact_sums_is_caught(monkeypatch):
    def exact(screen, gram, source):
        return screen.statistics._in_units(gram.astype(float), 0.0)

    put(monkeypatch, "record spread: RecordSpread.release", exact)
    X, y = records(400)
    assert extent_of(X, y, epsilon=1e-3) > 1.5 * extent_of(X / 5, y, epsilon=1e-3)


@pytest.mark.parametrize(("p", "sd"), [(5, 0.2), (30, 0.4)])
def test_extent_is_found_in_noisy_moments(p, sd):
    rng, n = np.random.default_rng(0), 4000
    screen = RecordSpread((np.zeros(p), np.ones(p)), mu=0.1, half_width=np.ones(1), n_records=n)
    Q = screen.rows(np.zeros(1))(sd * rng.normal(size=(n, p)), rng.normal(size=(n, 1)), None)
    gram = (Q.T @ Q).astype(np.int64)
    found = [screen.extent(screen.release(gram, None)) for _ in range(30)]
    assert np.mean(found) == pytest.approx(3**0.5 * sd, rel=0.1)


def is_announced(X, y, **parameters):
    given = {"X_bounds": (-3, 3), "y_bounds": (-3, 3), **parameters}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DPSparseGPRegressor(**given).fit(X, y)
    return WideBoundsWarning in [w.category for w in caught]


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2, 6])
def test_a_far_too_wide_box_is_announced(p):
    X, y = records(3000, p)
    assert is_announced(X / 30, y, epsilon=3.0)
    assert not is_announced(X, y, epsilon=3.0)
    assert not is_announced(X / 30, y, epsilon=3.0, kernel=RBF(1.0))  # without that release


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize("p", [1, 2, 3])
def test_points_move_to_records_far_within_their_box(p):
    # Seeded. With points in all of the box R2 was below .6 in two and three columns.
    X, y = records(5000, p)
    box = {"X_bounds": (-100, 100), "y_bounds": (-3, 3), "epsilon": 3.0, "random_state": 0}
    with pytest.warns(WideBoundsWarning):
        model = DPSparseGPRegressor(**box).fit(X, y)
    assert np.abs(model.inducing_points_).max() < 20  # at least an eighth
    assert model.score(X, y) > 0.85
    points = np.linspace(-90, 90, 20)[:, None] * np.ones(p)
    with pytest.warns(WideBoundsWarning):
        own = DPSparseGPRegressor(**box, inducing_points=points).fit(X, y)
    np.testing.assert_array_equal(own.inducing_points_, points)


def test_points_of_ones_own_that_are_far_too_wide_are_named():
    X, y = records(3000, 1)
    points = np.linspace(-90, 90, 20)[:, None]
    model = DPSparseGPRegressor(epsilon=3.0, y_bounds=(-3, 3), inducing_points=points)
    with pytest.warns(WideBoundsWarning, match="the box of inducing_points"):
        model.fit(X, y)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("mu", [0.01, 1.0])
def test_bounds_that_fit_are_not_announced(mu):
    n = 4000
    screen = RecordSpread((np.zeros(1), np.ones(1)), mu=mu, half_width=np.ones(1), n_records=n)

    def share(sd):
        X = np.random.default_rng(0).normal(size=(n, 1)) * sd
        Q = screen.rows(np.zeros(1))(X, X, None)
        gram = (Q.T @ Q).astype(np.int64)
        return np.mean([screen.is_wide(screen.release(gram, None)) for _ in range(60)])

    assert share(1 / 3) == 0  # three standard deviations; expected below .001
    assert share(1 / 6) == 0
    assert share(1 / 90) > (0.99 if mu == 1.0 else -1)


# The targets' range


def screen_of(X, y, half_width=3.0, mu=0.1):
    n = len(X)
    box = np.zeros(X.shape[1]), np.full(X.shape[1], 3.0)
    screen = RecordSpread(box, mu=mu, half_width=np.array([half_width]), n_records=n)
    Q = screen.rows(np.zeros(1))(X, y[:, None], None)
    return screen, (Q.T @ Q).astype(np.int64)


def reach_of(screen, gram):
    return screen.location(screen.release(gram, None), screen.statistics.mu)[2]


@pytest.mark.parametrize(
    ("mu", "factor"), [(0.3, np.sqrt(2 * np.log(60))), (1.0, np.sqrt(2 * np.log(200)))]
)
def test_targets_reach_some_root_mean_squares(mu, factor):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 5)), rng.normal(size=4000)
    screen, gram = screen_of(X, y, 6.0, mu)
    found = np.array([reach_of(screen, gram)[0] for _ in range(30)])
    noise = screen.statistics.noise / screen.statistics.beta[0] ** 2 / 4000  # of the mean square
    assert np.mean(found**2) / factor**2 == pytest.approx(1 + noise, abs=4 * noise / np.sqrt(30))
    screen, gram = screen_of(X, np.where(X[:, 0] > 0, 6.0, -6.0), 6.0, mu)
    assert reach_of(screen, gram) == [6.0]


def test_with_all_noise_the_range_is_that_of_the_bounds():
    rng = np.random.default_rng(0)
    screen, gram = screen_of(rng.normal(size=(400, 5)), rng.normal(size=400) / 10, mu=1e-3)
    reached = [reach_of(screen, gram)[0] for _ in range(50)]
    assert np.mean(np.array(reached) == 3.0) == 1.0


@pytest.mark.slow
@pytest.mark.slow
def test_bounds_wider_than_the_targets_cost_little(monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(2, 4000, 6))
    y = X @ [0.5, -0.5, 0.4, 0.3, -0.3, 0.2] + 0.3 * y[:, 0]
    X_new = np.random.default_rng(1).normal(size=(500, 6))

    def error_with(bound):
        public = {"epsilon": 1.0, "y_bounds": (-bound, bound)}
        gps = [fitted(X, y, random_state=seed, **public) for seed in range(3)]
        truth = X_new @ [0.5, -0.5, 0.4, 0.3, -0.3, 0.2]
        return np.mean([np.sqrt(np.mean((gp.predict(X_new) - truth) ** 2)) for gp in gps])

    wide = error_with(9)
    assert wide < 1.5 * error_with(3)
    plant_location(monkeypatch, lambda mean, sd, reach: (mean, sd, np.full(1, 9.0)))
    assert error_with(9) > 1.3 * wide


def plant_location(monkeypatch, change):
    honest = original("record spread: RecordSpread.location")
    put(monkeypatch, "record spread: RecordSpread.location", lambda *a: change(*honest(*a)))


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, *(pytest.param(p, marks=pytest.mark.slow) for p in (2, 5))])
def test_a_centre_far_from_the_targets_costs_little(p, monkeypatch):
    X = np.random.default_rng(0).uniform(-3, 3, (4000, p))
    X_new = np.random.default_rng(1).uniform(-3, 3, (500, p))
    # The ratio below is 2.2 in several columns: of three fits it is above 2.5 at times.
    seeds = range(3) if p == 1 else range(100, 112)

    def error_with(high):
        y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(2).normal(size=4000)
        fits = [fitted(X, y, y_bounds=(-3, high), random_state=seed) for seed in seeds]
        errors = [gp.predict(X_new) - np.sin(X_new[:, 0]) for gp in fits]
        return np.sqrt(np.mean(np.square(errors)))

    far = error_with(15)
    assert far < 2.5 * error_with(3)
    plant_location(monkeypatch, lambda mean, sd, reach: (0 * mean, sd, np.full(1, 9.0)))
    assert error_with(15) > 1.5 * far


def test_the_mean_is_found_and_vanishes_in_noise():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 5)), rng.normal(size=4000)

    def location(y, **how):
        screen, gram = screen_of(X, y, 6.0, 0.3)
        return screen.location(screen.release(gram, None), 0.3, **how)

    found = np.array([location(y + 2.0) for _ in range(20)])[..., 0].mean(axis=0)
    np.testing.assert_allclose(found[:2], [2.0, 1.0], rtol=0.1)
    about = np.array([location(y)[0][0] for _ in range(50)])
    assert np.mean(about == 0) > 0.5  # .84 expected
    mean, sd, _ = location(y + 2.0, centred=True)
    assert mean == 0
    assert sd == pytest.approx(np.sqrt(5), rel=0.1)
    screen, gram = screen_of(X, np.zeros(4000), 6.0, 0.3)
    assert np.all(np.isfinite(screen.location(screen.release(gram, None), 0.3)))


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 6])
def test_residuals_of_a_public_model_lie_about_zero(p):
    X, y = records(300)
    public = {"X_public": X[:50, :p].copy(), "y_public": y[:50] + 2}
    assert fitted(X[50:, :p], y[50:] + 9, epsilon=9.0, **public).prior_mean_ == 0


def prior_means(shift):
    """Return prior means of fits whose noise hides all records."""
    X, y = records(400)
    fits = [fitted(X[:, :1], y / 10 + shift, epsilon=1e-3, random_state=s) for s in range(20)]
    return np.array([gp.prior_mean_ for gp in fits])


@pytest.mark.slow
def test_with_all_noise_the_mean_does_not_depend_on_the_records(monkeypatch):
    np.testing.assert_allclose(prior_means(0.0), prior_means(1.5), atol=0.1)
    put(
        monkeypatch,
        "record spread: RecordSpread.release",
        lambda screen, gram, source: screen.statistics._in_units(gram.astype(float), 0.0),
    )
    assert np.abs(prior_means(1.5) - prior_means(0.0)).min() > 1


@pytest.mark.slow
def test_of_few_records_the_mean_is_near_the_centre():
    """The noise of their mean is nearly half the range: what it shows is hardly ever true."""
    rng = np.random.default_rng(0)
    screen, gram = screen_of(rng.normal(size=(60, 5)), rng.normal(size=60), mu=0.054)
    found = [screen.location(screen.release(gram, None), 0.27)[0][0] / 3 for _ in range(300)]
    assert np.sqrt(np.mean(np.square(found))) < 0.13
