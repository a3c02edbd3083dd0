"""DPSparseGPRegressor as an estimator: scikit-learn's contract, the budget, what is stored."""

import copy
import pickle
import warnings
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, DotProduct, ExpSineSquared, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_info, threadpool_limits

from _support.internals import inducing_design, lifted
from _support.noted import NotingRows
from _support.planted import original, put
from skdpbo.exceptions import (
    BudgetExceededError,
    DefaultBoundsWarning,
    KernelUnitsWarning,
    SeededNoiseWarning,
)
from skdpbo.gaussian_process import DPSparseGPClassifier, DPSparseGPRegressor
from skdpbo.linear_model import DPRidge
from skdpbo.privacy import PrivacyLedger, mu_from_epsilon

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, (300, 1))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=300)
T = np.linspace(-3, 3, 50)[:, None]
BOUNDS = {"X_bounds": (-3, 3), "y_bounds": (-2, 2)}
NO_NOISE = {"epsilon": 1e8, "delta": 1e-5, **BOUNDS}


def fitted(X=X, y=Y, **parameters):
    return DPSparseGPRegressor(**{"kernel": RBF(1.0), **BOUNDS, **parameters}).fit(X, y)


def quiet(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


@pytest.mark.parametrize(
    "parameters", [{"kernel": RBF()}, pytest.param({}, marks=pytest.mark.slow)], ids=str
)
def test_check_estimator(parameters):
    model = DPSparseGPRegressor(**parameters)
    results = quiet(lambda: check_estimator(model, on_skip=None, on_fail=None))
    assert len(results) > 40
    failed = {r["check_name"]: repr(r["exception"]) for r in results if r["status"] == "failed"}
    assert not failed


def exact_sparse_posterior(Z, X, y, T, kernel, noise):
    """Titsias' posterior in the textbook's form (Honkela & Melkas, Eq. 2), by dense algebra."""
    Kzz, Kzx, Ktz = kernel(Z), kernel(Z, X), kernel(T, Z)
    S = np.linalg.inv(Kzz + Kzx @ Kzx.T / noise)
    mean = Ktz @ S @ Kzx @ y / noise
    cov = kernel(T) - Ktz @ np.linalg.solve(Kzz, Ktz.T) + Ktz @ S @ Ktz.T
    return mean, cov


@pytest.mark.parametrize("kernel", [RBF(1.0), 2.0 * RBF(0.8), Matern(1.5, nu=2.5)])
def test_equals_the_exact_sparse_gp_as_epsilon_grows(kernel):
    Z = np.linspace(-3, 3, 8)[:, None]
    gp = fitted(kernel=kernel, inducing_points=Z, noise_variance=0.01, **NO_NOISE)
    mean, cov = gp.predict(T, return_cov=True)
    exact_mean, exact_cov = exact_sparse_posterior(Z, X, Y, T, kernel, 0.01)
    np.testing.assert_allclose(mean, exact_mean, atol=2e-3)
    np.testing.assert_allclose(cov, exact_cov, atol=2e-4)


def test_equals_scikit_learn_when_the_inducing_points_are_the_records():
    grid = np.linspace(-3, 3, 13)[:, None]
    X, y = np.repeat(grid, 40, axis=0), np.sin(np.repeat(grid[:, 0], 40))
    y = y + 0.1 * np.random.default_rng(1).normal(size=len(y))
    kernel = RBF(0.6)
    reference = GaussianProcessRegressor(kernel, alpha=0.04, optimizer=None).fit(X, y)
    gp = fitted(X, y, kernel=kernel, inducing_points=grid, noise_variance=0.04, **NO_NOISE)
    mean, std = gp.predict(T, return_std=True)
    expected_mean, expected_std = reference.predict(T, return_std=True)
    np.testing.assert_allclose(mean, expected_mean, atol=2e-3)
    np.testing.assert_allclose(std, expected_std, atol=2e-3)


@pytest.mark.parametrize("model", [DPSparseGPRegressor, DPSparseGPClassifier])
def test_what_underflows_is_0_in_predictions_where_numpy_raises_errors(model):
    gp, far = quiet(lambda: model(X_bounds=(-3, 3)).fit(X, np.where(Y > 0, 1, 0))), 1000 * X[:9]
    usual = gp.predict(far)
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(gp.predict(far), usual)
        if model is DPSparseGPRegressor:
            both = {"return_std": True}, {"return_cov": True}
            assert all(np.isfinite(gp.predict(far, **kind)[1]).all() for kind in both)
            assert gp.sample_y(far).shape == (9, 1)


def test_predictions_agree_with_each_other():
    gp = fitted()
    mean, std = gp.predict(T, return_std=True)
    again, cov = gp.predict(T, return_cov=True)
    np.testing.assert_allclose(mean, again)
    np.testing.assert_allclose(mean, gp.predict(T))
    np.testing.assert_allclose(std, np.sqrt(np.diag(cov)), atol=1e-6)
    Z = gp.inducing_points_
    np.testing.assert_allclose(gp.mean_, gp.predict(Z), atol=1e-9)
    density = gp.log_predictive_density(T, np.sin(T[:, 0]))
    variance = std**2 + gp.noise_variance_
    expected = -0.5 * (np.log(2 * np.pi * variance) + (mean - np.sin(T[:, 0])) ** 2 / variance)
    np.testing.assert_allclose(density, expected)
    draws = gp.sample_y(T, 2000)
    assert draws.shape == (50, 2000)
    assert np.abs(draws.mean(axis=1) - mean).max() < 6 * std.max() / np.sqrt(2000)
    with pytest.raises(RuntimeError, match="At most one"):
        gp.predict(T, return_std=True, return_cov=True)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "posterior", ["noise_aware", "linearised", "linearised_published", "naive"]
)
@pytest.mark.parametrize("release", ["whitened", "kernel"])
def test_every_release_and_posterior_finds_the_function(release, posterior):
    parameters = {"release": release, "posterior": posterior, "noise_variance": 0.01}
    gp = fitted(inducing_points=9, **parameters, **{**NO_NOISE, "epsilon": 1e9})
    np.testing.assert_allclose(gp.predict(T), np.sin(T[:, 0]), atol=0.15)
    assert gp.privacy_.status == "proved"
    assert gp.predict(T, return_std=True)[1].max() < 0.3
    assert hasattr(gp, "elbo_") == (release == "whitened")
    noisy = fitted(inducing_points=9, **parameters)
    assert np.isfinite(noisy.predict(T)).all()
    refitted = noisy.set_params(release="kernel", noise_variance=0.1).fit(X, Y)
    assert not hasattr(refitted, "elbo_")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("scale", [0.05, 1.0, 20.0])
def test_amplitude_from_the_release(scale):
    bounds = {"X_bounds": (-3, 3), "y_bounds": (-2 * scale, 2 * scale)}
    parameters = {"signal_variance": "released", "epsilon": 1e8, **bounds}
    gp = fitted(y=scale * Y, **parameters)
    # one draw of the process of 2 to 4 wavelengths tells its variance within a factor of 10
    assert 0.05 < gp.kernel_(np.zeros((1, 1)))[0, 0] / scale**2 < 20
    np.testing.assert_allclose(gp.predict(T), scale * np.sin(T[:, 0]), atol=0.15 * scale)
    given = fitted(y=scale * Y, kernel=gp.kernel_, **{**parameters, "signal_variance": "kernel"})
    np.testing.assert_allclose(gp.covariance_, given.covariance_, rtol=0.05, atol=1e-3 * scale**2)


@pytest.mark.parametrize("sensitivity", ["certified", "tight", "generic", "trivial"])
@pytest.mark.parametrize("ratio", [1.0, "optimal"])
def test_settings_of_the_kernel_release(sensitivity, ratio):
    gp = fitted(
        release="kernel",
        sensitivity=sensitivity,
        ratio=ratio,
        noise_variance=0.01,
        inducing_points=9,
        **NO_NOISE,
    )
    np.testing.assert_allclose(gp.predict(T), np.sin(T[:, 0]), atol=0.15)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("y_scale", [None, 0.5])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_private_prior_mean(y_scale, n_targets):
    # far outside the inducing points the prediction is the released mean
    targets = np.column_stack([Y + 1.0, 2 * Y - 1.0])[:, :n_targets]
    targets = targets[:, 0] if n_targets == 1 else targets
    gp = fitted(y=targets, prior_mean="private", y_scale=y_scale, **NO_NOISE)
    means = np.clip(targets, -2, 2).mean(axis=0)
    # COINPRESS clips what is many standard deviations away, and nothing here
    np.testing.assert_allclose(gp.prior_mean_, means, atol=1e-3)
    np.testing.assert_allclose(gp.predict([[1e6]])[0], means, atol=1e-3)
    assert gp.privacy_.mu == mu_from_epsilon(1e8, 1e-5)
    assert "mean" in gp.privacy_.mechanism


class TestBudgetOfThePrivateMean:
    """The mean and the moments share the budget, and both come after the charge."""

    @pytest.fixture
    def spent(self, monkeypatch):
        """List of mu of each part of a fit."""
        budgets = []
        mean = original("sparse regressor: private_prior_mean")
        release = original("sparse regressor: DPSparseGPRegressor._release")

        def listened_mean(*args, **known):
            budgets.append(known["mu"])
            return mean(*args, **known)

        def listened_release(gp, method, *args):
            budgets.append(method.statistics.mu)
            return release(gp, method, *args)

        put(monkeypatch, "sparse regressor: private_prior_mean", listened_mean)
        put(monkeypatch, "sparse regressor: DPSparseGPRegressor._release", listened_release)
        return budgets

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(
        "options",
        [{}, {"kernel": [RBF(0.5), RBF(2.0)]}, {"release": "kernel", "noise_variance": 0.1}],
        ids=["one kernel", "several kernels", "kernel release"],
    )
    @pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
    def test_parts_add_up_to_the_claim(self, options, epsilon, spent):
        gp = fitted(epsilon=epsilon, prior_mean="private", **options)
        assert len(spent) == 2
        claim = gp.privacy_.mu**2
        assert 0.999 * claim < sum(mu**2 for mu in spent) <= claim * (1 + 1e-12)

    def test_without_it_the_moments_have_all(self, spent):
        gp = fitted(epsilon=1.0)
        assert spent == [gp.privacy_.mu]

    @pytest.mark.parametrize("rows", [X, X.tolist()], ids=["array", "list"])
    def test_nothing_is_released_that_is_not_paid(self, rows, spent):
        with PrivacyLedger(epsilon=0.5, delta=1e-4) as ledger, pytest.raises(BudgetExceededError):
            fitted(X=rows, prior_mean="private", epsilon=1.0)
        assert spent == []
        assert not ledger.entries


def test_several_targets_are_one_release():
    targets = np.column_stack([Y, 10 * np.cos(X[:, 0])])
    bounds = {"X_bounds": (-3, 3), "y_bounds": ([-2, -12], [2, 8])}
    gp = DPSparseGPRegressor(RBF(1.0), epsilon=1e8, noise_variance=[0.01, 0.01], **bounds)
    gp.fit(X, targets)
    mean, std = gp.predict(T, return_std=True)
    assert mean.shape == std.shape == (50, 2)
    assert gp.predict(T, return_cov=True)[1].shape == (50, 50, 2)
    assert gp.sample_y(T, 3).shape == (50, 2, 3)
    assert gp.mean_.shape == (30, 2)
    assert gp.covariance_.shape == (30, 30, 2)
    assert gp.prior_mean_.tolist() == [0.0, -2.0]
    np.testing.assert_allclose(mean[:, 0], np.sin(T[:, 0]), atol=0.1)
    inside = 10 * np.cos(T[:, 0]) < 7.5  # targets above 8 are clipped
    np.testing.assert_allclose(mean[inside, 1], 10 * np.cos(T[inside, 0]), atol=0.6)
    assert gp.log_predictive_density(X, targets).shape == (300, 2)
    assert gp.privacy_.mu == fitted().privacy_guarantee().mu * 0 + mu_from_epsilon(1e8, 1e-5)


@pytest.mark.parametrize(
    ("points", "n_features", "size"), [(None, 1, 30), (None, 2, 49), (None, 7, 50), (9, 2, 9),
                                       (10, 2, 10), (1, 1, 1), (1, 3, 1), (33, 5, 33)]
)  # fmt: skip
def test_designs_do_not_depend_on_data_and_fill_the_box(points, n_features, size):
    low, high = np.arange(n_features) - 1.0, np.arange(n_features) + 1.0
    Z = inducing_design(points, (low, high), n_features)
    assert Z.shape == (size, n_features)
    assert len(np.unique(Z, axis=0)) == size
    assert ((low <= Z) & (high >= Z)).all()


@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": "rbf"}, {"noise_variance": 0.0},
        {"release": "kernel", "noise_variance": 0.1, "kernel": DotProduct()},
        {"noise_variance": "auto"}, {"noise_variance": [1.0, 2.0]}, {"inducing_points": 0},
        {"inducing_points": "grid"}, {"inducing_points": [[1.0, 2.0]]},
        {"inducing_points": [[np.nan]]}, {"epsilon": 0.0}, {"epsilon": -1.0}, {"epsilon": np.inf},
        {"noise_variance": 1e308}, {"noise_variance": True}, {"y_scale": "1"}, {"ratio": np.nan},
        {"base": RBF()}, {"delta": 0.0}, {"delta": 1.0}, {"X_bounds": (3, -3)},
        {"y_bounds": (0, np.inf)}, {"release": "none"}, {"posterior": None},
        {"sensitivity": "exact"}, {"y_scale": -1.0}, {"prior_mean": 0.0}, {"release": "kernel"},
        {"release": "kernel", "noise_variance": 0.1, "signal_variance": "released"},
        {"signal_variance": 1.0}, {"noise_variance": "released "},
        {"release": "kernel", "noise_variance": 0.1, "ratio": -1.0},
        {"release": "kernel", "noise_variance": 0.1, "kernel": ExpSineSquared()},
        {"kernel": RBF() + WhiteKernel(0.1)}, {"random_state": "seed"},
        {"n_jobs": 0},
        {"y_bounds": 3.0}, {"y_bounds": ([0, 0], [1, 1])}, {"chunk_size": 0}, {"chunk_size": 1.5},
    ],
)  # fmt: skip
def test_bad_parameters_cost_nothing(parameters):
    with PrivacyLedger(10.0, 1e-3) as ledger, pytest.raises((ValueError, TypeError)):
        fitted(**parameters)
    assert not ledger.entries


@pytest.mark.parametrize(
    "parameters",
    [
        {"prior_mean": "private", "y_scale": 1e-200}, {"prior_mean": "private", "y_scale": 1e300},
        {"release": "kernel", "kernel": RBF(), "noise_variance": 1e300},
        {"posterior": "linearised", "kernel": RBF(), "noise_variance": 1e-200},
        {"posterior": "linearised", "kernel": RBF(), "noise_variance": 1e200},
    ],
)  # fmt: skip
def test_extreme_scales_that_are_allowed_do_not_fail_after_the_charge(parameters):
    assert np.isfinite(fitted(**parameters).predict(X)).all()


def test_a_kernel_that_is_none_is_named():
    with pytest.raises(ValueError, match="kernel must be positive semi-definite"):
        fitted(np.zeros((9, 2)), np.zeros(9), kernel=ExpSineSquared())


@pytest.mark.parametrize("n_samples", [0, 1.5, "2", None])
def test_a_number_of_functions_is_an_integer(n_samples):
    with pytest.raises((TypeError, ValueError), match="n_samples"):
        fitted().sample_y(X[:2], n_samples)


@pytest.mark.parametrize("value", ["all", [2], np.arange(3)], ids=str)
def test_a_number_of_jobs_that_is_none_is_named(value):
    with pytest.raises(TypeError, match="n_jobs must be an integer or None"):
        fitted(n_jobs=value)


class Touchy(NotingRows):
    """Values that note how much was charged when they are read."""

    def __array__(self, dtype=None, copy=None):
        self.note()
        return np.array([*list.__iter__(self)], dtype=dtype)


@pytest.mark.parametrize("parameters", [{"noise_variance": -1.0}, {"epsilon": 50.0}])
def test_a_fit_to_lists_that_is_refused_leaves_the_one_before(parameters):
    table = np.column_stack([X] * 5)[:, :5]
    gp = fitted(table.tolist(), np.zeros(len(table)).tolist())
    expected = gp.predict(table)
    gp.set_params(**parameters)
    with PrivacyLedger(10.0, 1e-3), pytest.raises((ValueError, BudgetExceededError)) as refused:
        gp.fit(table.tolist(), np.zeros(len(table)).tolist())
    assert len(refused.traceback) > 2
    np.testing.assert_array_equal(gp.predict(table), expected)


BOX = {"X_bounds": ([-3.0] * 3, [3.0] * 3)}


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize(
    ("model", "named"),
    [
        (DPRidge(**BOX, y_bounds=(1, -1)), "y_bounds"),
        (DPSparseGPRegressor(RBF([1.0, 1.0]), **BOX, y_bounds=(-1, 1)), "Anisotropic kernel"),
        (DPSparseGPRegressor(inducing_points=X[:4], **BOX, y_bounds=(-1, 1)), "inducing_points"),
        (DPSparseGPClassifier(Matern(nu=30), **BOX, classes=[0, 1]), "kernel must be finite"),
        (DPRidge(X_bounds=([-1, -1], [1, 1]), y_bounds=(-1, 1)), "X_bounds"),
        (DPRidge(**BOX, y_bounds=([-1, -1], [1, 1])), "y_bounds"),
        (DPSparseGPRegressor(**BOX, y_bounds=(-1, 1), noise_variance=[0.1, 0.1]), "noise_variance"),
        (DPSparseGPClassifier(X_bounds=([-1] * 4, [1] * 4), classes=[0, 1]), "X_bounds"),
    ],
)
@pytest.mark.parametrize("row", [[0.0] * 3, [0.0] * 2, None])
def test_errors_that_the_columns_of_lists_show_cost_nothing(model, named, row):
    """Nor does a row of another length decide."""
    rows, y = [row, *np.zeros((39, 3)).tolist()], [0, 1] * 20
    with PrivacyLedger(1.0, 1e-4) as ledger, pytest.raises(ValueError, match=named):
        model.fit(rows, y)
    assert not ledger.entries


@pytest.mark.parametrize("which", ["X", "y"])
def test_lists_are_charged_for_before_they_are_read(which):
    seen = []

    def data(ledger):
        values = {"X": X, "y": Y}
        note = lambda: seen.append(len(ledger.entries))  # noqa: E731
        return values | {which: Touchy(values[which].tolist(), note)}

    with PrivacyLedger(1.0, 1e-4) as ledger:
        fitted(**data(ledger))
    assert set(seen) == {1}
    seen.clear()
    with PrivacyLedger(0.5, 1e-4) as ledger, pytest.raises(BudgetExceededError):
        fitted(**data(ledger))
    assert not seen
    assert not ledger.entries


@pytest.mark.parametrize("shape", [(300,), (300, 1, 1), (0, 1), (299, 1)])
def test_a_bad_shape_of_an_array_costs_nothing(shape):
    with PrivacyLedger(10.0, 1e-3) as ledger, pytest.raises(ValueError):
        fitted(X=np.zeros(shape))
    assert not ledger.entries


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.UnreachedRowsWarning")  # as it should
def test_bounds_of_too_few_records_are_announced_and_do_not_look_at_the_data():
    model = DPSparseGPRegressor()
    with pytest.warns(DefaultBoundsWarning) as caught:
        model.fit(100 * X, 100 * Y)
    caught = [w for w in caught if w.category is DefaultBoundsWarning]
    assert {str(w.message).split()[0] for w in caught} == {"X_bounds", "y_bounds"}
    assert all(w.filename == __file__ for w in caught)
    assert all("(-3, 3) is used" in str(w.message) for w in caught)
    assert model.inducing_points_.min() == -3
    assert model.inducing_points_.max() == 3
    given = DPSparseGPRegressor(inducing_points=[[0.0]], y_bounds=(0, 1))
    given.fit(X, Y)  # no warning: no box is needed


def test_seeded_noise_is_void_and_reproducible():
    with pytest.warns(SeededNoiseWarning) as caught:
        first = fitted(random_state=7)
    assert caught[0].filename == __file__
    second = quiet(lambda: fitted(random_state=7))
    assert (first.mean_ == second.mean_).all()
    assert first.privacy_.status == "void"
    fresh = fitted(), fitted()
    assert fresh[0].privacy_.status == "proved"
    assert (fresh[0].mean_ != fresh[1].mean_).all()


def test_the_guarantee_is_known_beforehand():
    model = DPSparseGPRegressor(epsilon=2.0, delta=1e-6, **BOUNDS)
    guarantee = model.privacy_guarantee(n_samples=10)
    assert (guarantee.epsilon, guarantee.delta) == (2.0, 1e-6)
    assert guarantee.mu == mu_from_epsilon(2.0, 1e-6)
    assert replace(guarantee, n_protected=len(X)) == model.fit(X, Y).privacy_
    assert "training records" in str(guarantee)


def test_the_ledger_is_charged_before_any_value_is_read():
    with PrivacyLedger(1.2, 1e-4) as ledger:
        fitted()
        with pytest.raises(BudgetExceededError):
            fitted()
        bad = Y.copy()
        bad[3] = np.nan
        with pytest.raises(BudgetExceededError):
            fitted(y=bad)
    assert len(ledger.entries) == 1
    assert ledger.entries[0].label == "DPSparseGPRegressor"
    with PrivacyLedger(1.2, 1e-4) as ledger, pytest.raises(ValueError, match="NaN"):
        fitted(y=bad)
    assert len(ledger.entries) == 1


PRIVATE_MEANS = {
    "one kernel": {},
    "several kernels": {"kernel": [RBF(0.5), RBF(2.0)]},
    "scale": {"y_scale": 0.5},
    "published": {"release": "kernel", "noise_variance": 0.1},
}


@pytest.mark.parametrize("setting", PRIVATE_MEANS)
def test_the_private_mean_and_the_moments_share_the_budget(setting, monkeypatch):
    spent = []

    def mean(y, low, high, *, mu, **others):
        spent.append(mu)
        return original_mean(y, low, high, mu=mu, **others)

    def moments(self, method, *others):
        spent.append(method.statistics.mu)
        return original_release(self, method, *others)

    original_mean = original("sparse regressor: private_prior_mean")
    original_release = DPSparseGPRegressor._release
    put(monkeypatch, "sparse regressor: private_prior_mean", mean)
    monkeypatch.setattr(DPSparseGPRegressor, "_release", moments)
    gp = fitted(prior_mean="private", **PRIVATE_MEANS[setting])
    assert len(spent) == 2
    total = sum(Fraction(mu) ** 2 for mu in spent)
    assert 0.999 * gp.privacy_.mu**2 < total <= Fraction(gp.privacy_.mu) ** 2


@pytest.mark.parametrize("setting", PRIVATE_MEANS)
def test_nothing_is_touched_when_a_private_mean_cannot_be_paid(setting, monkeypatch):
    def touched(*args, **others):
        raise AssertionError("a record was read before the charge")

    put(monkeypatch, "sparse regressor: private_prior_mean", touched)
    put(monkeypatch, "sparse process: streamed_sums", touched)
    with PrivacyLedger(0.5, 1e-4) as ledger, pytest.raises(BudgetExceededError):
        fitted(prior_mean="private", **PRIVATE_MEANS[setting])
    assert not ledger.entries
    # The stand-in does stop a fit that can be paid.
    with PrivacyLedger(2.0, 1e-4), pytest.raises(AssertionError, match="before the charge"):
        fitted(prior_mean="private", **PRIVATE_MEANS[setting])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["X", "y"])
def test_values_that_are_not_finite_get_scikit_learns_error(where, value):
    bad = (X if where == "X" else Y).copy()
    bad[17] = value
    with pytest.raises(ValueError, match=f"Input {where} contains") as error:
        fitted(**{where: bad})
    messages = []
    for position in (0, 299):
        other = (X if where == "X" else Y).copy()
        other[position] = value
        with pytest.raises(ValueError, match=f"Input {where} contains") as again:
            fitted(**{where: other})
        messages.append(str(again.value))
    assert set(messages) == {str(error.value)}  # the same for every record


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("value", [1e308, -1e308, 1e155, 5e-324])
def test_extreme_finite_records_are_no_error_and_no_warning(value):
    for where in ("X", "y"):
        data = {"X": X.copy(), "y": Y.copy()}
        data[where][5] = value
        model = fitted(**data, noise_variance=0.01, **{**NO_NOISE, "epsilon": 1e7})
        np.testing.assert_allclose(model.predict(T), np.sin(T[:, 0]), atol=0.15)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("width", [1e80, 1e140])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0])
def test_wide_targets_are_fitted_at_any_budget(width, epsilon):
    """Squares of what the noise of such targets is multiplied by leave the floats."""
    for seed in range(4):
        bounds = {"y_bounds": (-width, width), "kernel": None, "random_state": seed}
        model = quiet(lambda bounds=bounds: fitted(y=Y * width, epsilon=epsilon, **bounds))
        mean, sd = model.predict(T, return_std=True)
        assert np.isfinite(mean).all()
        assert np.isfinite(sd).all()


def test_it_holds_no_data_and_survives_copies(tmp_path):
    model = fitted(inducing_points=15)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.predict(T), model.predict(T))
        assert other.privacy_ == model.privacy_
    assert len(pickle.dumps(model)) < 20_000
    assert not hasattr(clone(model), "privacy_")
    assert clone(model).get_params()["epsilon"] == 1.0


def test_records_are_read_from_a_memory_map_in_any_type(tmp_path):
    expected = fitted(noise_variance=0.01, **NO_NOISE).predict(T)
    for dtype in (np.float64, np.float32):
        np.save(tmp_path / "X.npy", X.astype(dtype))
        np.save(tmp_path / "y.npy", Y.astype(dtype))
        maps = [np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "y.npy")]
        model = fitted(*maps, noise_variance=0.01, n_jobs=2, chunk_size=37, **NO_NOISE)
        np.testing.assert_allclose(model.predict(T), expected, atol=5e-3)
    integers = fitted(np.rint(X).astype(int), np.rint(Y).astype(int))
    assert integers.n_features_in_ == 1


def test_dask_arrays_are_summed_by_blocks():
    array = pytest.importorskip("dask.array")
    expected = fitted(noise_variance=0.01, **NO_NOISE).predict(T)
    blocks = array.from_array(X, chunks=(70, 1))
    for y in (Y, array.from_array(Y, chunks=50)):
        model = fitted(blocks, y, noise_variance=0.01, **NO_NOISE)
        np.testing.assert_allclose(model.predict(T), expected, atol=5e-3)
    bad = X.copy()
    bad[100] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        fitted(array.from_array(bad, chunks=(70, 1)), Y)


@pytest.mark.slow
def test_frames_and_pipelines():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["age"])
    model = fitted(frame, pandas.Series(Y))
    assert model.feature_names_in_.tolist() == ["age"]
    pipeline = make_pipeline(FunctionTransformer(), DPSparseGPRegressor(RBF(1.0), **BOUNDS))
    assert np.isfinite(cross_val_score(pipeline, X, Y, cv=3)).all()
    search = GridSearchCV(DPSparseGPRegressor(**BOUNDS), {"epsilon": [0.1, 1e6]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"epsilon": 1e6}


def test_sample_weights_are_refused():
    with pytest.raises(TypeError, match="sample_weight"):
        DPSparseGPRegressor(**BOUNDS).fit(X, Y, sample_weight=np.ones(300))


def one_dimension(rng):
    X = rng.uniform(-4, 4, (1024, 1))
    return X, np.linspace(-3.5, 3.5, 200)[:, None], np.linspace(-3, 3, 9)[:, None], 0.1


def two_dimensions(rng):
    line = np.linspace(-2, 2, 5)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    return rng.uniform(-2, 2, (4000, 2)), rng.uniform(-2, 2, (500, 2)), grid, 0.2


def smooth(X):
    if X.shape[1] == 1:
        return np.sinc(2 * X[:, 0] / np.pi)  # sin(2x) / (2x)
    return np.sin(1.5 * X[:, 0]) * np.cos(X[:, 1])


def errors_and_coverage(problem, n_runs=60, **parameters):
    """Error and coverage of each run. Data and noise are seeded, so that runs can be paired."""
    runs = []
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        X, points, Z, sd = problem(rng)
        y = smooth(X) + sd * rng.normal(size=len(X))
        settings = {"noise_variance": sd**2, "inducing_points": Z, "random_state": seed}
        gp = DPSparseGPRegressor(
            RBF(1.0), delta=1e-4, y_bounds=(-1, 1), **{**settings, **parameters}
        )
        mean, std = quiet(lambda gp=gp, X=X, y=y: gp.fit(X, y)).predict(points, return_std=True)
        error = mean - smooth(points)
        runs.append((np.sqrt(np.mean(error**2)), np.mean(np.abs(error) < 1.96 * std)))
    return np.transpose(runs)


@cache
def as_published(problem, epsilon, signal_variance):
    """Errors and coverage of the class itself; two tests look at the same runs."""
    return errors_and_coverage(problem, epsilon=epsilon, signal_variance=signal_variance)


def mean_and_deviation(values):
    return np.mean(values), np.std(values) / np.sqrt(len(values))


GOALS = [
    (one_dimension, 1.0, 0.073),
    (one_dimension, 3.0, 0.044),
    (two_dimensions, 1.0, 0.090),
    (two_dimensions, 3.0, 0.056),
]


@pytest.mark.slow
@pytest.mark.parametrize("signal_variance", ["kernel", "released"])
@pytest.mark.parametrize(("problem", "epsilon", "goal"), GOALS)
def test_error_and_coverage(problem, epsilon, goal, signal_variance):
    errors, covered = as_published(problem, epsilon, signal_variance)
    error, deviation = mean_and_deviation(errors)
    assert error < goal + 4 * deviation
    assert covered.mean() >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "epsilon", "goal"), GOALS)
def test_the_estimate_of_the_second_moment_pays(problem, epsilon, goal, monkeypatch):
    # The same data and noise; only what is done with the release differs.
    errors = as_published(problem, epsilon, "kernel")[0][:40]
    honest = original("release methods: denoised_second_moment")
    put(
        monkeypatch,
        "release methods: denoised_second_moment",
        lambda B, support, **given: (
            lifted(B, given["sb"], given["n_records"]),
            honest(B, support, **given)[1],
        ),
    )
    clipped, _ = errors_and_coverage(problem, n_runs=40, epsilon=epsilon)
    gain, deviation = mean_and_deviation(clipped - errors)
    assert gain > 2 * deviation


@pytest.mark.slow
def test_the_published_mode_is_worse():
    parameters = {"release": "kernel", "posterior": "linearised", "epsilon": 1.0}
    errors, _ = errors_and_coverage(one_dimension, n_runs=40, **parameters)
    published, deviation = mean_and_deviation(errors)
    assert abs(published - 0.147) < 5 * deviation


@pytest.mark.parametrize("width", [1e-240, 1e-152, 1e152, 1.7e308])
def test_bounds_whose_squares_are_no_floats_are_refused_before_the_charge(width):
    gp = DPSparseGPRegressor(X_bounds=(-1, 1), y_bounds=(-width, width))
    with PrivacyLedger(epsilon=10.0, delta=0.1) as ledger:
        with pytest.raises(ValueError, match="y_bounds must be more than"):
            gp.fit(np.zeros((5, 1)), np.zeros(5))
        assert not ledger.entries


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"kernel": RBF(1e-4)}, "length-scales"),
        ({"kernel": RBF(1.0), "y_bounds": (2000, 7000)}, "y_bounds"),
        ({"kernel": [RBF(1.0), RBF(2.0)], "y_bounds": (2000, 7000)}, "y_bounds"),
        (
            {"kernel": RBF(1.0), "y_bounds": (2000, 7000), "signal_variance": "released"},
            "y_bounds",
        ),
    ],
)
def test_a_kernel_in_other_units_is_reported_before_the_charge(settings, named):
    settings = {"X_bounds": (-3, 3), "y_bounds": (-1, 1)} | settings
    with warnings.catch_warnings(), PrivacyLedger(10.0, 1e-3) as ledger:
        warnings.simplefilter("error", KernelUnitsWarning)
        with pytest.raises(KernelUnitsWarning, match=named):
            DPSparseGPRegressor(**settings).fit(X, Y)
    assert not ledger.entries


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": 1e6 * RBF(1.0), "y_bounds": (2000, 7000)},
        {"kernel": [RBF(1e-4), RBF(1.0)]},  # one of them can follow
        {"kernel": RBF(1.0), "signal_variance": "released", "y_bounds": (-100, 100)},
        {"y_bounds": (2000, 7000)},  # the default is in the units of the bounds
    ],
)
def test_a_kernel_in_the_units_of_the_bounds_is_not_reported(settings):
    settings = {"X_bounds": (-3, 3), "y_bounds": (-1, 1)} | settings
    DPSparseGPRegressor(**settings).fit(X, Y)  # warnings are errors


@pytest.mark.parametrize("gp", [DPSparseGPRegressor, DPSparseGPClassifier])
@pytest.mark.parametrize("largest", [1e301, 8e307, 1.7e308])
def test_points_beyond_which_there_are_no_floats_are_refused_by_name(gp, largest):
    points = np.array([[-largest], [largest]])
    for name, given in (("X_bounds", (-largest, largest)), ("inducing_points", points)):
        with pytest.raises(ValueError, match=f"{name}.* at most 1e"):
            gp(**{name: given}).fit(np.zeros((5, 1)), np.array([0, 1, 0, 1, 0]))


def threads_of_the_blas():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


@pytest.mark.slow
def test_small_matrices_take_one_thread(monkeypatch):
    """With more, hundreds of them took 79 s on two busy cores, and 3 s with one."""
    name, seen = "release methods: released_noise_variance", set()
    honest = original(name)

    def listened(*args):
        seen.update(threads_of_the_blas())
        return honest(*args)

    put(monkeypatch, name, listened)
    with threadpool_limits(2, user_api="blas"):
        before = threads_of_the_blas()
        fitted(X, Y)
        assert threads_of_the_blas() == before
    assert seen == {1}
