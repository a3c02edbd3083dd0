"""Hyper-parameters by marginal likelihood."""

import math

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skdpbo.surrogate import CandidatePosterior, default_kernel, fit_hyperparameters, refit_due


@pytest.fixture
def data():
    rng = np.random.RandomState(0)
    X = rng.rand(40, 2)
    return X, 7.0 + 3.0 * np.sin(5 * X[:, 0]) * np.cos(3 * X[:, 1]) + 0.1 * rng.randn(40)


def template():
    return ConstantKernel(1.0, (1e-2, 1e2)) * RBF([0.5, 0.5], (1e-2, 10.0))


def test_same_optimum_as_scikit_learn(data):
    X, y = data
    fit = fit_hyperparameters(template(), X, y, noise_variance_bounds=(1e-6, 1.0))
    oracle = GaussianProcessRegressor(
        template() + WhiteKernel(0.01, (1e-6, 1.0)),
        alpha=0.0,
        n_restarts_optimizer=3,
        random_state=0,
    ).fit(X, (y - y.mean()) / y.std())
    assert fit.log_marginal_likelihood == pytest.approx(
        oracle.log_marginal_likelihood_value_, abs=1e-3
    )
    ours = np.append(fit.unit_kernel.theta, math.log(fit.unit_noise_variance))
    np.testing.assert_allclose(ours, oracle.kernel_.theta, atol=0.05)


def test_result_goes_into_the_posterior_in_the_units_of_y(data):
    X, y = data
    fit = fit_hyperparameters(template(), X, y)
    surrogate = CandidatePosterior(
        fit.kernel, X, noise_variance=fit.noise_variance, prior_mean=fit.prior_mean
    )
    assert surrogate.std.max() == pytest.approx(
        y.std() * math.sqrt(fit.unit_kernel.k1.constant_value)
    )
    surrogate.extend(range(40), y)
    assert math.sqrt(fit.noise_variance) == pytest.approx(0.1, rel=0.5)


def test_deterministic_and_equivariant(data):
    X, y = data
    one, two = fit_hyperparameters(template(), X, y), fit_hyperparameters(template(), X, y)
    np.testing.assert_array_equal(one.unit_kernel.theta, two.unit_kernel.theta)
    assert one.noise_variance == two.noise_variance
    for unit in (1e-6, 1e-14):  # the latter are no rounding errors
        scaled = fit_hyperparameters(template(), X, unit * (y - 5))
        np.testing.assert_allclose(scaled.unit_kernel.theta, one.unit_kernel.theta, atol=1e-3)
        assert scaled.noise_variance == pytest.approx(unit**2 * one.noise_variance, rel=1e-2)


def test_known_noise_is_not_counted_twice():
    """Public noise 1 on most values, none on the others: the fitted noise stays small."""
    rng = np.random.RandomState(3)
    X = rng.rand(80, 1)
    known = np.where(np.arange(80) % 4 == 0, 0.0, 1.0)
    y = 2.0 * np.sin(6 * X[:, 0]) + np.sqrt(known) * rng.randn(80)
    kernel = ConstantKernel(1.0, (1e-2, 1e2)) * RBF(0.5, (0.05, 10.0))
    fit = fit_hyperparameters(kernel, X, y, noise_variance=known)
    assert fit.noise_variance < 0.01
    # the same total noise, all of it known: the same kernel
    total = known + fit.noise_variance
    fixed = fit_hyperparameters(kernel, X, y, noise_variance=total, noise_variance_bounds="fixed")
    assert fixed.noise_variance == 0.0
    np.testing.assert_allclose(fixed.unit_kernel.theta, fit.unit_kernel.theta, atol=1e-2)


def test_bounds_and_fixed_parameters_are_respected(data):
    X, y = data
    kernel = ConstantKernel(1.5, "fixed") * RBF([0.5, 0.5], (0.45, 0.55))
    fit = fit_hyperparameters(kernel, X, y, noise_variance_bounds=(1e-3, 1e-3))
    assert fit.unit_kernel.k1.constant_value == 1.5
    assert (fit.unit_kernel.k2.length_scale >= 0.45 - 1e-9).all()
    assert (fit.unit_kernel.k2.length_scale <= 0.55 + 1e-9).all()
    assert fit.unit_noise_variance == pytest.approx(1e-3)
    nothing = fit_hyperparameters(
        RBF(0.5, "fixed"), X, y, noise_variance=0.1, noise_variance_bounds="fixed"
    )
    assert nothing.unit_kernel == RBF(0.5, "fixed")
    assert math.isfinite(nothing.log_marginal_likelihood)


def test_warm_start(data):
    X, y = data
    kernel = template()
    cold = fit_hyperparameters(kernel, X, y)
    warm = fit_hyperparameters(kernel, X, y, previous=cold, n_starts=1)
    assert warm.log_marginal_likelihood >= cold.log_marginal_likelihood - 1e-6
    earlier = fit_hyperparameters(kernel, X[:15], y[:15])
    warm = fit_hyperparameters(kernel, X, y, previous=earlier, n_starts=2)
    assert warm.log_marginal_likelihood == pytest.approx(cold.log_marginal_likelihood, abs=1e-2)
    fixed = fit_hyperparameters(kernel, X, y, noise_variance=0.1, noise_variance_bounds="fixed")
    fit_hyperparameters(kernel, X, y, previous=fixed, n_starts=1)  # from noise 0 to noise fitted
    assert kernel == template()


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[0.5, 0.5]], [3.0]),
        ([[0.1, 0.2], [0.1, 0.2], [0.3, 0.4]], [1.0, 2.0, 3.0]),
        (np.random.RandomState(0).rand(12, 2), np.full(12, 1e6)),
        (np.tile([[0.5, 0.5]], (10, 1)), np.arange(10.0)),
        (np.linspace(0, 1, 60).repeat(2).reshape(60, 2), np.linspace(0, 1, 60)),
    ],
    ids=["one", "repeat", "constant", "same", "smooth"],
)
@pytest.mark.parametrize("noise_bounds", [(1e-6, 1.0), "fixed"])
def test_degenerate_data(X, y, noise_bounds):
    X = np.asarray(X)
    kernel = ConstantKernel(1.0, (0.05, 20.0)) * Matern([0.5, 0.5], (0.05, 5.0), nu=2.5)
    fit = fit_hyperparameters(kernel, X, y, noise_variance_bounds=noise_bounds)
    assert np.isfinite(fit.unit_kernel.theta).all()
    assert math.isfinite(fit.noise_variance)
    surrogate = CandidatePosterior(
        fit.kernel, X, noise_variance=fit.noise_variance, prior_mean=fit.prior_mean
    )
    surrogate.extend(range(len(X)), y)
    assert np.isfinite(surrogate.mean).all()


@pytest.mark.parametrize(
    "arguments",
    [
        {"y": [1.0, np.nan]},
        {"X": [[0.0], [np.inf]]},
        {"X": [[0.0]]},
        {"X": [], "y": []},
        {"noise_variance": -1.0},
        {"noise_variance_bounds": (0.0, 1.0)},
        {"noise_variance_bounds": (1.0, 0.1)},
        {"n_starts": 0},
    ],
)
def test_bad_arguments(arguments):
    with pytest.raises(ValueError):
        fit_hyperparameters(**{"kernel": RBF(), "X": [[0.0], [1.0]], "y": [0.0, 1.0], **arguments})


def test_default_kernel():
    assert default_kernel(1).n_dims == 2
    assert default_kernel(3).n_dims == 4


def test_refit_schedule():
    due = [t for t in range(1000) if refit_due(t)]
    assert due[:6] == [5, 8, 12, 18, 27, 41]
    assert len(due) < 16
    assert [t for t in range(1, 7) if refit_due(t, first=1)] == [1, 2, 3, 5]
    with pytest.raises(ValueError):
        refit_due(3, first=0)
