"""Sparse processes in raw units: released bounds, and the warning of rows out of reach.

Noise is seeded.
"""

import math
import pickle
import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct, ExpSineSquared
from sklearn.linear_model import LinearRegression

from _support.internals import may_show_ranges, released_ranges, share_in_reach
from _support.planted import original, plant, put
from _support.record_sums import listen_to_budgets
from skdpbo.exceptions import (
    DefaultBoundsWarning,
    KernelUnitsWarning,
    SeededNoiseWarning,
    SkdpboWarning,
    UnreachedRowsWarning,
)
from skdpbo.gaussian_process import DPSparseGPClassifier, DPSparseGPRegressor
from skdpbo.preprocessing import DPMinMaxScaler
from skdpbo.privacy import PrivacyLedger, mu_from_epsilon

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 90, (3000, 2))
F = 100 + 20 * np.sin(X[:, 0] / 15)
Y = F + 5 * RNG.normal(size=3000)
RNG_OF_PERIODS = np.random.default_rng(1)
BOTH = {"X_bounds": "private", "y_bounds": "private"}
# Of many powers of two, of which none holds half.
SPREAD = np.tile(2.0 ** np.linspace(-18, 38, 150)[:, None], 2)


def fitted(X=X, y=Y, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkdpboWarning)
        return DPSparseGPRegressor(**{"random_state": 0, **parameters}).fit(X, y)


def warnings_of(X=X, y=Y, **parameters):
    """Return the messages of a fit by category."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DPSparseGPRegressor(**{"random_state": 0, **parameters}).fit(X, y)
    return {warning.category: str(warning.message) for warning in caught}


def test_raw_units_with_released_bounds():
    gp = fitted(**BOTH)
    assert np.std(gp.predict(X) - F) < 5 < 14 < np.std(F)
    np.testing.assert_array_equal(gp.X_bounds_, [[0, 0], [128, 128]])
    np.testing.assert_array_equal(gp.y_bounds_, [[64], [128]])
    assert gp.inducing_points_.max() == 128
    assert 96 < gp.prior_mean_ < 104  # the centre is 96
    assert "ranges from noisy histograms" in gp.privacy_guarantee().mechanism


def test_a_fit_in_another_thread_does_not_end_a_fit_that_has_paid(monkeypatch):
    gp = DPSparseGPRegressor(random_state=0, **BOTH)
    released = original("sparse process: released_ranges")

    def meanwhile(table, mu, source, name):
        vars(gp).pop("X_bounds_", None)  # as a fit does that begins
        return released(table, mu, source, name)

    put(monkeypatch, "sparse process: released_ranges", meanwhile)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkdpboWarning)
        assert gp.fit(X, Y).inducing_points_.max() == 128


def test_bounds_that_are_not_given_are_released():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SeededNoiseWarning)
        gp = DPSparseGPRegressor(random_state=0).fit(X, Y)
    same = fitted(**BOTH)
    for name in ("X_bounds_", "y_bounds_", "mean_", "covariance_"):
        np.testing.assert_array_equal(getattr(gp, name), getattr(same, name))
    ranges = "ranges from noisy histograms where no public rows give them"
    assert ranges in gp.privacy_guarantee().mechanism


@pytest.mark.parametrize("given", ["public rows", "points"])
def test_bounds_that_are_known_are_not_released(given, monkeypatch):
    requested, released = [], original("sparse process: released_ranges")
    put(
        monkeypatch,
        "sparse process: released_ranges",
        lambda *args: requested.append(args[3]) or released(*args),
    )
    gp = DPSparseGPRegressor(random_state=0)
    rows = {"X_public": X[:20].copy(), "y_public": Y[:20].copy()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkdpboWarning)
        if given == "points":
            gp.set_params(inducing_points=X[:9].copy()).fit(X[20:], Y[20:])
        else:
            gp.fit(X[20:], Y[20:], **rows)
    assert requested == (["y"] if given == "points" else [])
    assert not hasattr(gp, "X_bounds_")
    assert hasattr(gp, "y_bounds_") == (given == "points")


@pytest.mark.parametrize(
    ("kernel", "scale", "warned"),
    [
        (RBF(1.0), 1.0, False),
        (RBF(1.0), 1000.0, True),  # hardly any record counts
        (1e-12 * RBF(1e-6), 1e-6, False),  # far from the units of the default bounds
    ],
)
def test_units_of_a_kernel_are_compared_with_released_bounds(kernel, scale, warned):
    rng = np.random.default_rng(0)
    rows = scale * rng.uniform(1, 4, (2000, 1))
    given = warnings_of(rows, scale * np.sin(rows[:, 0] / scale), kernel=kernel, epsilon=3.0)
    assert (KernelUnitsWarning in given) == warned
    assert DefaultBoundsWarning not in given


def test_what_warns_in_released_bounds_alone_does_not_end_the_fit(monkeypatch):
    design = original("sparse process: inducing_design")

    def warning(points, box, n_features):
        if box[1][0] != 3:  # not those that stand there until they are released
            warnings.warn("of a kernel, say", RuntimeWarning, stacklevel=2)
        return design(points, box, n_features)

    put(monkeypatch, "sparse process: inducing_design", warning)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert fitted().X_bounds_[1][0] == 128


def test_columns_far_from_zero_have_narrow_ranges():
    """With powers of two alone the error is 3.7 of 7.0."""
    rng = np.random.default_rng(0)
    rows = np.stack([rng.normal(290, 8, 3000), rng.normal(101_325, 800, 3000)], axis=1)
    u = (rows - [290, 101_325]) / [8, 800]
    f = 1000 + 10 * np.sin(u[:, 0]) - 5 * np.cos(u[:, 1])
    gp = fitted(rows, f + 2 * rng.normal(size=3000), epsilon=3.0, **BOTH)
    assert np.std(gp.predict(rows) - f) < 1.5 < 6 < np.std(f)
    assert np.all(gp.X_bounds_[1] - gp.X_bounds_[0] < 12 * np.array([8, 800]))
    assert gp.y_bounds_[1] - gp.y_bounds_[0] < 100


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
def test_a_second_fit_does_not_show_the_bounds_of_the_first():
    gp = fitted(**BOTH)
    gp.set_params(y_bounds=(0, 200)).fit(X, Y)
    assert hasattr(gp, "X_bounds_")
    assert not hasattr(gp, "y_bounds_")


def test_bounds_are_released_only_on_request():
    gp = fitted(X_bounds=(0, 90), y_bounds="private", prior_mean="private")
    assert not hasattr(gp, "X_bounds_")
    assert gp.inducing_points_.max() == 90
    assert 96 < gp.prior_mean_ < 104
    targets = fitted(y=np.stack([Y, Y / 64], axis=1), **BOTH)
    np.testing.assert_array_equal(targets.y_bounds_, [[64, 1], [128, 2]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkdpboWarning)
        gp.set_params(y_bounds=(50, 150)).fit(X, Y)
    assert not hasattr(gp, "y_bounds_")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("requested", [{}, BOTH, {"y_bounds": "private", "X_bounds": (0, 90)}])
@pytest.mark.parametrize("prior_mean", ["none", "private"])
def test_all_releases_together_cost_the_budget(requested, prior_mean, monkeypatch):
    spent = []

    def listening(place, mu_of):
        honest = original(place)

        def heard(*args, **how):
            spent.append(mu_of(*args, **how))
            return honest(*args, **how)

        put(monkeypatch, place, heard)

    listening("sparse process: released_ranges", lambda table, mu, source, name: mu)
    listening("sparse regressor: private_prior_mean", lambda *args, mu, **how: mu)
    listening("record spread: RecordSpread.release", lambda method, *a: method.statistics.mu)
    listening("column effects: ColumnEffects.release", lambda effects, *a: effects.mu)
    listening("release methods: WhitenedMethod.release", lambda method, *a: method.statistics.mu)
    gp = fitted(prior_mean=prior_mean, **requested)
    n_ranges = 1 if requested.get("X_bounds") == (0, 90) else 2
    assert len(spent) == n_ranges + (prior_mean == "private") + 3
    mu = gp.privacy_.mu
    assert mu == mu_from_epsilon(1.0, 1e-5)
    assert (1 - 1e-12) * mu < math.sqrt(sum(part**2 for part in spent)) <= mu
    shares = np.square(spent[: len(spent) - 3 - (prior_mean == "private")]) / mu**2
    assert shares.sum() == pytest.approx(0.1)


def bounds_of(X, y):
    gp = fitted(X, y, epsilon=1e-7, **BOTH)
    return np.concatenate([*gp.X_bounds_, *gp.y_bounds_])


@pytest.fixture
def released_at_any_epsilon(monkeypatch):
    put(monkeypatch, "sparse process: may_show_ranges", lambda *sizes: True)


@pytest.mark.usefixtures("released_at_any_epsilon")
def test_with_all_noise_the_bounds_do_not_depend_on_the_records():
    np.testing.assert_array_equal(bounds_of(X, Y), bounds_of(X * 0 + 5.0, Y * 0 - 900.0))


@pytest.mark.slow
@pytest.mark.usefixtures("released_at_any_epsilon")
def test_bounds_of_exact_ranges_are_caught(monkeypatch):
    plant(monkeypatch, "sparse: bounds are exact ranges")
    assert np.abs(bounds_of(X, Y) - bounds_of(X * 0 + 5.0, Y * 0 - 900.0)).max() > 1


CLASSES = {"classes": [0, 1]}


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (DPSparseGPRegressor(), ["X_bounds", "y_bounds"]),
        (DPSparseGPRegressor(**BOTH), ["X_bounds", "y_bounds"]),
        (DPSparseGPClassifier(**CLASSES), ["X_bounds"]),
        (DPSparseGPClassifier(X_bounds="private", **CLASSES), ["X_bounds"]),
    ],
)
def test_too_few_records_for_ranges_are_reported_before_the_charge_and_cost_nothing(
    model, names, monkeypatch
):
    rows = X[:60] / 30
    targets = (rows[:, 0] > 1.5).astype(int)
    spent = listen_to_budgets(monkeypatch)
    put(monkeypatch, "sparse process: released_ranges", None)  # a call would be an error
    with PrivacyLedger(epsilon=4.0, delta=1e-3) as ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore", SkdpboWarning)
        with pytest.warns(DefaultBoundsWarning, match="60 rows can show no range") as caught:
            model.fit(rows, targets)
        warned = [str(w.message) for w in caught if w.category is DefaultBoundsWarning]
        assert [text.split(" of ")[0] for text in warned] == names
        assert len(ledger.entries) == 1
        warnings.simplefilter("error", DefaultBoundsWarning)
        with pytest.raises(DefaultBoundsWarning):
            model.fit(rows, targets)
        assert len(ledger.entries) == 1
    mu = model.privacy_.mu
    assert (1 - 1e-12) * mu < math.sqrt(sum(part**2 for part in spent)) <= mu


@pytest.mark.parametrize(
    "model",
    [DPSparseGPRegressor(), DPSparseGPClassifier(**CLASSES), DPMinMaxScaler()],
    ids=lambda model: type(model).__name__,
)
def test_the_number_of_rows_of_groups_decides_nothing(model, monkeypatch):
    """Twenty groups of one row, and one of them of a thousand: the number of rows is protected."""
    calls, place = [], "sparse process: released_ranges"
    if isinstance(model, DPMinMaxScaler):
        place = "min-max scaler: released_ranges"
    honest = original(place)
    put(monkeypatch, place, lambda *args, **how: calls.append(args[3:]) or honest(*args, **how))
    heard = []
    for more in (0, 999):
        groups = np.append(np.arange(20), np.full(more, 7))
        rows = 2.0 ** np.linspace(-19, 39, len(groups))[:, None]  # of which none shows a range
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(rows, (rows[:, 0] > 2).astype(int), groups=groups)
        warned = [str(w.message) for w in caught if w.category is DefaultBoundsWarning]
        heard.append((warned, len(calls)))
        calls.clear()
    assert heard[0] == heard[1]
    assert heard[0][0]  # afterwards
    assert heard[0][1]


@pytest.mark.parametrize("n_columns", [1, 3, 10])
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_a_range_may_be_shown_from_a_public_number_of_records_on(n_columns, epsilon, monkeypatch):
    """The share of the records in one bin that is released is compared, without its noise."""
    mu = mu_from_epsilon(epsilon, 1e-5)
    least = next(n for n in range(10_000) if may_show_ranges(n, n_columns, mu))
    put(monkeypatch, "column moments: GaussianMechanism.release", lambda mech, counts, *a: counts)
    for n, shown in ((least - 1, False), (least + 1, True)):
        _, found = released_ranges(np.full((n, n_columns), 5.0), mu, None)
        assert found.tolist() == [shown] * n_columns


@pytest.mark.parametrize("scale", [1e-6, 1e12])
def test_the_published_release_takes_targets_of_any_range(scale):
    """At the ratio 1 the noise would not fit the lattice; the budget would be lost."""
    kernel = 1e12 * RBF(30.0) if scale < 1 else RBF(30.0)
    public = {"release": "kernel", "noise_variance": (0.1 * scale) ** 2, "epsilon": 10.0}
    gp = fitted(y=(Y - 100) / 20 * scale, kernel=kernel, X_bounds=(0, 90), **public)
    assert scale / 8 < gp.y_bounds_[1] < 8 * scale
    assert np.isfinite(gp.predict(X[:5], return_std=True)).all()
    with PrivacyLedger(epsilon=20.0, delta=0.1) as ledger:
        with pytest.raises(ValueError, match="too much noise"):  # in given ones, before the charge
            fitted(kernel=kernel, X_bounds=(0, 90), y_bounds=(-scale, scale), **public)
        assert not ledger.entries


def test_the_published_release_takes_rows_of_any_range():
    """In the wide box k_Z(x) is so short that the noise at this ratio would not fit the lattice."""
    public = {"release": "kernel", "noise_variance": 0.1, "ratio": 1e-21, "inducing_points": 50}
    rows = np.linspace(-200, 200, 3000)[:, None]
    gp = fitted(rows, np.sin(rows[:, 0]), kernel=RBF(1.0), y_bounds=(-1, 1), **public)
    assert gp.X_bounds_[1] == 256
    with PrivacyLedger(epsilon=20.0, delta=0.1) as ledger:
        with pytest.raises(ValueError, match="too much noise"):  # before the charge
            fitted(
                rows, rows[:, 0], X_bounds=(-256, 256), y_bounds=(-1, 1), kernel=RBF(1.0), **public
            )
        assert not ledger.entries


class OfOnesOwn(DotProduct):
    """Not verified; rounded in units of all points, as squared distances that are expanded."""

    def __call__(self, X, Y=None, eval_gradient=False):
        largest = [np.abs(points).max() for points in (X, X if Y is None else Y)]
        return super().__call__(X, Y) + 2.0**-60 * math.prod(largest)


def test_rounding_in_a_wide_box_is_no_kernel_that_mixes_rows():
    rows = X[:, :1] * 1e6
    gp = fitted(rows, kernel=OfOnesOwn(), y_bounds=(50, 150))
    assert gp.X_bounds_[1] > 1e7


@pytest.mark.parametrize("classes", [None, [0, 1]])
def test_a_kernel_that_rounding_spoils_in_a_released_box_is_reported_and_no_error(classes):
    rows, kernel = RNG_OF_PERIODS.normal(size=(3000, 1)) * 1e9, ExpSineSquared(1.0, 1e-3)
    targets = (rows[:, 0] > 0).astype(int)
    model = DPSparseGPRegressor(kernel, y_bounds=(-1, 1), epsilon=10.0)
    if classes:
        model = DPSparseGPClassifier(kernel, classes=classes, epsilon=10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreachedRowsWarning)
        with pytest.warns(KernelUnitsWarning, match="not positive semi-definite"):
            model.fit(rows, targets)
    assert model.X_bounds_[1] > 1e9
    assert np.isfinite(model.predict(rows[:5])).all()
    model.set_params(X_bounds=(-4e9, 4e9))  # public: before the charge
    with PrivacyLedger(epsilon=20.0, delta=0.1) as ledger:
        with pytest.raises(ValueError, match="positive semi-definite"):
            model.fit(rows, targets)
        assert not ledger.entries


def test_a_kernel_that_overflows_in_the_widest_box_that_may_be_released_costs_nothing():
    gp = DPSparseGPRegressor(DotProduct() ** 20, y_bounds=(50, 150))
    with PrivacyLedger(epsilon=20.0, delta=0.1) as ledger:
        with pytest.raises(ValueError, match=r"may be released.*: give X_bounds"):
            gp.fit(X, Y)
        assert not ledger.entries
        fitted(kernel=gp.kernel, X_bounds=(-1, 1), y_bounds=(50, 150))
        assert len(ledger.entries) == 1


@pytest.mark.slow
def test_counts_that_show_nothing_are_announced():
    given = warnings_of(SPREAD, Y[:150], X_bounds="private", y_bounds=(50, 150))
    assert "some released counts show no range" in given[DefaultBoundsWarning]
    assert DefaultBoundsWarning not in warnings_of(**BOTH)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"y_bounds": "public"}, "y_bounds"),
        ({"X_bounds": "auto"}, "X_bounds"),
        ({**BOTH, "inducing_points": [[1.0, 2.0]]}, "no use where inducing_points"),
    ],
)
def test_bad_words_cost_nothing(parameters, message):
    gp = DPSparseGPRegressor(**{"X_bounds": (0, 90), "y_bounds": (0, 200), **parameters})
    with PrivacyLedger(epsilon=5.0) as ledger:
        with pytest.raises(ValueError, match=message):
            gp.fit(X, Y)
        assert not ledger.entries


def test_public_rows_and_released_bounds_exclude_each_other():
    gp = DPSparseGPRegressor(base=LinearRegression(), y_bounds="private")
    with pytest.raises(ValueError, match="no use with public rows"):
        gp.fit(X, Y, X_public=X[:20].copy(), y_public=Y[:20].copy())


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.DefaultBoundsWarning")
@pytest.mark.parametrize("name", ["X", "y"])
def test_the_table_with_a_missing_value_is_named(name):
    table = {"X": X[:20].copy(), "y": Y[:20].copy()}
    table[name][3] = np.nan
    with pytest.raises(ValueError, match=f"Input {name} contains NaN"):
        DPSparseGPRegressor(**BOTH).fit(**table)


# Rows out of reach


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("bounds", [{"X_bounds": (-3, 3)}, {"X_bounds": ([0, -3], [90, 3])}])
def test_rows_in_other_units_are_announced(bounds, epsilon):
    given = warnings_of(y_bounds=(0, 200), epsilon=epsilon, **bounds)
    assert "X_bounds may be in other units than X" in given[UnreachedRowsWarning]
    assert "public rows" in given[UnreachedRowsWarning]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("category", "n", "X_bounds"),
    [(DefaultBoundsWarning, 150, "private"), (UnreachedRowsWarning, 3000, (500, 900))],
)
def test_a_warning_that_is_an_error_leaves_a_fitted_process(category, n, X_bounds):
    rows = SPREAD if n == 150 else X
    gp = DPSparseGPRegressor(X_bounds=X_bounds, y_bounds=(50, 150), random_state=0)
    with PrivacyLedger(1.0, 1e-5) as ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore", SkdpboWarning)
        warnings.simplefilter("error", category)
        with pytest.raises(category):
            gp.fit(rows[:n], Y[:n])
        assert len(ledger.entries) == 1
    again = pickle.loads(pickle.dumps(gp))
    assert (again.privacy_.n_protected, again.n_records_) == (n, n)
    assert again.predict(X[:2]).shape == (2,)


INSIDE = {
    "uniform": lambda n, d: RNG.uniform(-3, 3, (n, d)),
    "normal": lambda n, d: RNG.normal(size=(n, d)).clip(-4, 4),
    "one point": lambda n, d: np.tile(RNG.uniform(-3, 3, d), (n, 1)),
    "a diagonal": lambda n, d: RNG.uniform(-3, 3, (n, 1)) * np.ones(d),
}


# Every kind in three columns, and every number of columns; the other combinations are slow.
@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("kind", "d"),
    [
        (kind, d)
        if d == 3 or (kind, d) in {("uniform", 1), ("one point", 20)}
        else pytest.param(kind, d, marks=pytest.mark.slow)
        for kind in INSIDE
        for d in (1, 3, 20)
    ],
)
def test_rows_in_the_box_are_not(kind, d):
    rows = INSIDE[kind](1000, d)
    bounds = {"X_bounds": (-3, 3), "y_bounds": (-3, 3)}
    for epsilon in (0.3, 10.0):
        given = warnings_of(rows, rows[:, 0], epsilon=epsilon, **bounds)
        assert UnreachedRowsWarning not in given


@pytest.mark.parametrize("points", [[[0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
def test_without_a_box_nothing_is_reported_of_a_column(points):
    given = warnings_of(inducing_points=points, y_bounds=(50, 150), kernel=RBF(1.0))
    assert (UnreachedRowsWarning in given) == (len(points) > 1)


@pytest.mark.slow
def test_rows_in_released_ranges_are_not_reported_as_far(monkeypatch):
    put(monkeypatch, "fit warnings: _FAR", -1e6)  # whatever the share seems to be
    assert UnreachedRowsWarning in warnings_of(X_bounds=(0, 90), y_bounds=(50, 150))
    assert UnreachedRowsWarning not in warnings_of(**BOTH)
    for rows in (X[:20], SPREAD):  # no range is shown
        assert UnreachedRowsWarning in warnings_of(rows, Y[: len(rows)], **BOTH)


@pytest.mark.slow
def test_the_share_in_reach_and_its_noise():
    rng = np.random.default_rng(0)
    near, far = np.eye(8)[:4], np.eye(8)[4:]
    rows = np.vstack([near[rng.integers(4, size=700)], far[rng.integers(4, size=300)]])
    B = rows.T @ rows
    share, sd = share_in_reach(B, near, far, sb=1e-6, n_records=1000)
    assert share == pytest.approx(0.7, abs=1e-3)
    assert sd < 1e-6
    sb, found = 40.0, []
    for _ in range(4000):
        E = sb * rng.normal(size=(8, 8))
        E = (E + E.T) / 2
        E[np.diag_indices(8)] = sb * rng.normal(size=8)
        found.append(share_in_reach(B + E, near, far, sb=sb, n_records=1000))
    shares, sds = np.array(found).T
    assert shares.std() == pytest.approx(sds[0], rel=0.05)
    # no difference in sight, no statement
    assert share_in_reach(B, near, near, sb=1.0, n_records=1000) == (1.0, np.inf)


def test_groups_release_bounds_of_groups():
    people = np.repeat(np.arange(1500), 2)
    rows, targets = np.repeat(X[:1500], 2, axis=0), np.repeat(Y[:1500], 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkdpboWarning)
        gp = DPSparseGPRegressor(random_state=0, epsilon=3.0, **BOTH)
        gp.fit(rows, targets, groups=people)
    np.testing.assert_array_equal(gp.y_bounds_, [[64], [128]])
    np.testing.assert_array_equal(gp.X_bounds_[1], [128, 128])
    assert gp.n_records_ == 1500


def test_a_fit_that_stops_half_way_leaves_the_earlier_one():
    gp = DPSparseGPRegressor(RBF(), X_bounds="private", y_bounds=(-1, 1), epsilon=40.0)
    X, y = np.random.default_rng(0).uniform(-2, 2, (60, 1)), np.zeros(60)
    before = gp.fit(X, y).X_bounds_
    y[7] = np.nan
    with pytest.raises(ValueError, match="NaN"):  # after the release of X_bounds_
        gp.set_params(epsilon=50.0).fit(X, y)
    assert gp.X_bounds_ is before
    assert gp.privacy_.epsilon == 40.0
