"""ProjectedGP: a function of the release and y alone, and a better one than pretending."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV

from _support.internals import NoisyRows
from _support.sklearn_checks import failed_checks
from skdpbo.exceptions import (
    BudgetExceededError,
    DefaultBoundsWarning,
    NoisyRowsWarning,
    SeededNoiseWarning,
    VoidGuaranteeWarning,
)
from skdpbo.gaussian_process import ProjectedGP, ProjectionRelease
from skdpbo.privacy import PrivacyLedger

RNG = np.random.default_rng(0)  # public randomness
X = RNG.uniform(-25, 25, (120, 1))
Y = np.sin(X[:, 0] / 5) + 0.05 * RNG.normal(size=120)
T = np.linspace(-24, 24, 60)[:, None]
FIXED = {"kernel": 0.5 * RBF(5.0), "noise_variance": 0.0025, "optimizer": None}
NO_NOISE = {"epsilon": 9000.0, "displacement": 1e-3}


def model(**parameters):
    return ProjectedGP(**{"X_bounds": (-25, 25), **parameters})


def void(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VoidGuaranteeWarning)
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return call()


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        pytest.param({"mechanism": "gaussian"}, marks=pytest.mark.slow),
        pytest.param({"n_components": 1}, marks=pytest.mark.slow),
        pytest.param({"mechanism": "kharkovskii2020"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_check_estimator(parameters):
    assert failed_checks(ProjectedGP(**parameters), least=40) == {}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kernel", [0.5 * RBF(5.0), 0.3 * RBF(4.0) + ConstantKernel(0.2)])
def test_is_gaussian_process_regression_as_epsilon_grows(kernel):
    ours = model(**{**FIXED, "kernel": kernel}, **NO_NOISE).fit(X, Y)
    theirs = GaussianProcessRegressor(kernel, alpha=0.0025, optimizer=None).fit(X, Y - Y.mean())
    mean, cov = theirs.predict(T, return_cov=True)
    np.testing.assert_allclose(ours.predict(T), mean + Y.mean(), atol=1e-4)
    found, std = ours.predict(T, return_std=True)
    np.testing.assert_allclose(found, mean + Y.mean(), atol=1e-4)
    np.testing.assert_allclose(std, np.sqrt(np.diagonal(cov)), atol=1e-4)
    np.testing.assert_allclose(ours.predict(T, return_cov=True)[1], cov, atol=1e-5)
    log_likelihood = theirs.log_marginal_likelihood_value_
    assert ours.log_marginal_likelihood_value_ == pytest.approx(log_likelihood, abs=1e-2)
    assert ours.prior_mean_ == pytest.approx(Y.mean())


def without_gradients(likelihood, start, bounds):
    """Optimise as scikit-learn asks; rounding in its gradients ends L-BFGS-B on some processors."""
    found = minimize(
        lambda theta: likelihood(theta, eval_gradient=False),
        start,
        method="Nelder-Mead",
        bounds=bounds,
    )
    return found.x, found.fun


@pytest.mark.slow
def test_parameters_are_fitted_as_scikit_learn_fits_them():
    ours = model(**NO_NOISE, noise_variance=0.0025).fit(X, Y)
    y, how = (Y - Y.mean()) / Y.std(), {"optimizer": without_gradients}
    theirs = GaussianProcessRegressor(1.0 * RBF(5.0), alpha=0.0025 / Y.var(), **how).fit(X, y)
    fitted = ours.kernel_.get_params()
    assert fitted["k2__k2__length_scale"] == pytest.approx(theirs.kernel_.k2.length_scale, rel=0.01)
    amplitude = fitted["k1__constant_value"] * fitted["k2__k1__constant_value"]
    assert amplitude == pytest.approx(theirs.kernel_.k1.constant_value * Y.var(), rel=0.03)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SeededNoiseWarning")
def test_parameters_of_many_rows_are_those_of_all():
    """A part of 900 rows is fitted first; its own optimum is left by what all rows say."""
    rng = np.random.default_rng(5)  # public randomness
    X = rng.uniform(-25, 25, (900, 2))
    y = np.sin(X[:, 0] / 2) * np.cos(X[:, 1] / 3) + 0.2 * rng.normal(size=900)
    how = {"epsilon": 3.0, "row_prior": "flat", "random_state": 0}  # one release
    gp = model(**how, n_restarts_optimizer=0).fit(X, y)
    best = gp.log_marginal_likelihood_value_
    theta, noise = gp.kernel_.theta, gp.noise_variance_
    for step in np.vstack([np.eye(3), -np.eye(3)]) * 0.1:
        kernel = gp.kernel_.clone_with_theta(theta + step[:2])
        fixed = {"kernel": kernel, "noise_variance": noise * np.exp(step[2]), "optimizer": None}
        assert model(**how, **fixed).fit(X, y).log_marginal_likelihood_value_ < best


def drawn_problem(rng, n=150, length_scale=4.0):
    """Rows, targets and test rows of a draw from the prior on the interval [-25, 25]."""
    rows = rng.uniform(-25, 25, (n + 40, 1))
    K = RBF(length_scale)(rows) + 1e-6 * np.eye(len(rows))
    f = np.linalg.cholesky(K) @ rng.normal(size=len(rows))
    return rows[:n], f[:n], rows[n:], f[n:]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SeededNoiseWarning")
def test_the_length_scale_is_that_of_exact_rows():
    """The likelihood knows of the noise: it does not take it for a rough function."""
    rng, ours, naive = np.random.default_rng(2), [], []  # public randomness
    kernel = ConstantKernel(1.0, (0.05, 20.0)) * RBF(4.0, (0.5, 50.0))
    how = {"epsilon": 0.7, "kernel": kernel, "n_restarts_optimizer": 0}
    for seed in range(36, 48):
        X, y, _, _ = drawn_problem(rng, n=200)
        gp = model(**how, random_state=seed).fit(X, y)
        ours.append(gp.kernel_.get_params()["k2__k2__length_scale"])
        pretended = GaussianProcessRegressor(kernel + WhiteKernel(0.1), normalize_y=True)
        pretended.fit(gp.release_.rows_in_domain(), y)
        naive.append(pretended.kernel_.get_params()["k1__k2__length_scale"])
    assert np.median(ours) == pytest.approx(4.0, rel=0.15)
    assert np.median(naive) > 4.4 or np.median(naive) < 3.6, np.median(naive)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["l2_laplace", "gaussian"])
def test_predictions_are_calibrated_and_better_than_without_the_correction(mechanism):
    rng = np.random.default_rng(3)  # public randomness
    settings = {"kernel": RBF(4.0), "noise_variance": 1e-4, "optimizer": None}
    errors, covered, naive_errors, naive_covered = [], [], [], []
    for _ in range(40):
        X, y, T, f = drawn_problem(rng)
        gp = model(mechanism=mechanism, **settings).fit(X, y)
        mean, std = gp.predict(T, return_std=True)
        errors.append(np.mean((mean - f) ** 2))
        covered.append(np.mean(np.abs(mean - f) < 1.96 * std))
        naive = GaussianProcessRegressor(RBF(4.0), alpha=1e-4, optimizer=None)
        mean, std = naive.fit(gp.release_.rows_in_domain(), y).predict(T, return_std=True)
        naive_errors.append(np.mean((mean - f) ** 2))
        naive_covered.append(np.mean(np.abs(mean - f) < 1.96 * std))
    assert 0.92 < np.mean(covered) <= 0.99
    assert np.mean(naive_covered) < 0.7
    assert np.mean(errors) < 0.7 * np.mean(naive_errors)


def test_the_model_is_a_function_of_the_release_and_y(monkeypatch):
    """Other rows with the same released rows give the same model, to the last bit."""
    Z = RNG.uniform(-25, 25, X.shape)
    monkeypatch.setattr(NoisyRows, "release", lambda self, X, noise, source: Z)
    models = [model().fit(rows, Y) for rows in (X, X[::-1] / 2)]
    first, second = (gp.predict(T, return_cov=True) for gp in models)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert pickle.dumps(models[0]) == pickle.dumps(models[1])


def test_the_release_can_be_published(tmp_path):
    gp = model().fit(X, Y)
    gp.release_.save(tmp_path / "release")
    copy = ProjectionRelease.load(tmp_path / "release")
    np.testing.assert_array_equal(copy.Z, gp.release_.Z)
    assert copy.guarantee == gp.privacy_
    assert np.abs(gp.release_.rows_in_domain()).max() <= 25.0


def test_several_targets_are_several_models():
    both = np.column_stack([Y, 3 * Y + 1])
    gp = model(**FIXED | {"noise_variance": [0.0025, 0.01]}).fit(X, both)
    mean, std = gp.predict(T, return_std=True)
    assert mean.shape == std.shape == (60, 2)
    assert gp.predict(T, return_cov=True)[1].shape == (60, 60, 2)
    assert len(gp.kernel_) == 2
    assert gp.noise_variance_.tolist() == [0.0025, 0.01]
    assert gp.sample_y(T, 3).shape == (60, 2, 3)
    assert gp.log_predictive_density(T, mean).shape == (60, 2)


def test_many_features_by_few_components():
    rng = np.random.default_rng(4)  # public randomness
    X = rng.normal(size=(150, 30))
    y = X @ rng.normal(size=30)
    gp = ProjectedGP(n_components=5, data_norm=10.0, epsilon=50.0).fit(X, y)
    assert gp.release_.Z.shape == (150, 5)
    assert gp.predict(X[:4]).shape == (4,)


def test_what_is_promised():
    gp = model(epsilon=2.0).fit(X, Y)
    assert gp.privacy_ == gp.privacy_guarantee(n_features=1)
    assert gp.privacy_.status == "proved"
    assert "the targets y are public" in str(gp.privacy_)
    assert gp.replacement_guarantee().epsilon == pytest.approx(100.0)
    with pytest.warns(SeededNoiseWarning) as caught:
        seeded = model(random_state=1).fit(X, Y)
    assert caught[0].filename == __file__
    assert seeded.privacy_.status == "void"
    with pytest.warns(DefaultBoundsWarning) as caught:
        ProjectedGP().fit(X, Y)
    assert caught[0].filename == __file__


def test_the_published_transform_is_void():
    gp = model(mechanism="kharkovskii2020", n_components=10, epsilon=3.0)
    with pytest.warns(VoidGuaranteeWarning):
        gp.fit(X, Y)
    assert gp.privacy_.status == "void"
    assert gp.score(X, Y) > 0.5


def test_the_ledger_is_charged_before_anything_is_read(monkeypatch):
    with PrivacyLedger(epsilon=1.5, delta=1e-6) as ledger:
        model().fit(X, Y)
        monkeypatch.setattr(ProjectedGP, "_release_rows", None)
        with pytest.raises(BudgetExceededError):
            model().fit(X, Y)
    assert [entry.label for entry in ledger.entries] == ["ProjectedGP"]


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"kernel": Matern()}, "must consist of"),
        ({"kernel": "rbf"}, "scikit-learn kernel"),
        ({"kernel": RBF([1.0, 2.0])}, "dimensions"),
        ({"kernel": RBF(-1.0)}, "kernel must have positive and finite"),
        ({"kernel": ConstantKernel(np.nan) * RBF()}, "kernel must have positive and finite"),
        ({"optimizer": "adam"}, "optimizer"),
        ({"optimizer": None}, "needs an optimizer"),
        ({"noise_variance": "estimated"}, "noise_variance"),
        ({"noise_variance": 0.0}, "noise_variance"),
        ({"n_restarts_optimizer": -1}, "n_restarts"),
        ({"n_restarts_optimizer": 1.5}, "n_restarts"),
        ({"n_restarts_optimizer": 10**9}, "n_restarts"),
        ({"noise_variance": 1e308}, "noise_variance"),
        ({"noise_variance": "1"}, "noise_variance"),
        ({"noise_variance": True}, "noise_variance"),
        ({"mechanism": "none"}, "mechanism"),
        ({"epsilon": np.nan}, "epsilon"),
    ],
)
def test_bad_parameters_are_refused_before_the_charge(parameters, match):
    refused = pytest.raises((TypeError, ValueError), match=match)
    with PrivacyLedger(epsilon=3.0, delta=1e-3) as ledger, refused:
        model(**parameters).fit(X, Y)
    assert not ledger.entries


def test_errors_contain_no_value_of_x():
    bad = X.astype(object)
    bad[7, 0] = "secret 8237"
    with pytest.raises((TypeError, ValueError)) as caught:
        model().fit(bad, Y)
    assert "8237" not in repr(caught.value) + repr(caught.value.__context__)


def test_constant_targets_frames_and_searches():
    assert model().fit(X, np.ones(120)).predict(T) == pytest.approx(1.0)
    frame = pd.DataFrame(X, columns=["a"])
    gp = model(**FIXED).fit(frame, pd.Series(Y))
    assert gp.feature_names_in_.tolist() == ["a"]
    search = GridSearchCV(model(**FIXED), {"epsilon": [1.0, 5.0]}, cv=2).fit(frame, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert clone(gp).get_params() == gp.get_params()


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyRowsWarning")  # as it should
@pytest.mark.parametrize(
    ("match", "parameters"),
    [
        ("data_norm and X_bounds", {"X_bounds": (-1e-240, 1e-240)}),
        ("data_norm and X_bounds", {"X_bounds": (-1e150, 1e150)}),
        ("data_norm and X_bounds", {"data_norm": 1e80}),
        ("epsilon", {"epsilon": 1e-30}),
    ],
)
def test_sizes_whose_powers_are_no_floats_are_refused_before_the_charge(match, parameters):
    gp = ProjectedGP(**{"data_norm": None if "X_bounds" in parameters else 3.0, **parameters})
    with PrivacyLedger(epsilon=10.0, delta=0.1) as ledger:
        with pytest.raises(ValueError, match=match):
            gp.fit(np.zeros((5, 2)), np.arange(5.0))
        assert not ledger.entries


@pytest.mark.parametrize("size", [1e-65, 1e65])
def test_other_sizes_are_fitted(size):
    X = np.linspace(-size, size, 20)[:, None]
    gp = ProjectedGP(X_bounds=(-size, size), displacement=size).fit(X, np.arange(20.0))
    assert np.isfinite(gp.predict(X)).all()


@pytest.mark.parametrize("size", [1e-300, 1e-151, 1e151, 1e300])
def test_targets_whose_squares_are_no_floats_are_refused_before_the_charge(size):
    columns = np.column_stack([Y, size * Y])
    with PrivacyLedger(epsilon=10.0, delta=0.1) as ledger:
        for y in (size * Y, columns, columns.tolist()):
            with pytest.raises(ValueError, match="y must be 0, or of 1e-150"):
                model().fit(X, y)
        assert not ledger.entries


def test_a_displacement_in_other_units_is_reported_before_the_charge():
    with warnings.catch_warnings(), PrivacyLedger(9.0, 1e-3) as ledger:
        warnings.simplefilter("error", NoisyRowsWarning)
        with pytest.raises(NoisyRowsWarning, match="displacement"):
            model(X_bounds=(-0.2, 0.2), **FIXED).fit(X / 125, Y)
        assert not ledger.entries
        model(X_bounds=(-0.2, 0.2), displacement=1 / 125, **FIXED).fit(X / 125, Y)


def test_a_kernel_in_the_first_place_is_refused_with_its_name():
    with pytest.raises(TypeError, match="kernel=RBF"):
        ProjectedGP(RBF(1.0), X_bounds=(-25, 25)).fit(X, Y)
