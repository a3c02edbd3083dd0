"""Length-scale from noisy gradients: likelihood against dense formulas, recovery, no data."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, Matern

from _support.internals import _GradientLikelihood, differentiable
from skdpbo.surrogate import fit_length_scale_to_gradients

KERNELS = {"rbf": lambda s: RBF(s), "matern52": lambda s: Matern(s, nu=2.5)}


def gradient_covariance(kernel, X):
    """Covariance of the gradients at X, shape (T d, T d), from the mixed derivatives."""
    T, d = X.shape
    term = differentiable(kernel)
    C = np.empty((T, d, T, d))
    for s in range(T):
        for c in range(d):
            V = np.zeros((d, T))
            V[c] = 1.0
            C[s, c] = term.gradients(X[s], X).contract(V)
    return C.reshape(T * d, T * d)


def draw(kernel, length_scale, X, noise, seed, variance=1.0):
    rng = np.random.RandomState(seed)
    C = variance * gradient_covariance(KERNELS[kernel](length_scale), X)
    L = np.linalg.cholesky(C + 1e-10 * np.trace(C) / len(C) * np.eye(len(C)))
    return (L @ rng.randn(len(C))).reshape(X.shape) + np.sqrt(noise) * rng.randn(*X.shape)


def path(T, d, step, seed):
    return np.cumsum(step / np.sqrt(d) * np.random.RandomState(seed).randn(T, d), axis=0)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("T", "d"), [(3, 7), (6, 2), (4, 4), (1, 3)])
def test_likelihood_is_the_dense_one(kernel, T, d):
    rng = np.random.RandomState(0)
    X, G, noise = rng.rand(T, d), rng.randn(T, d), rng.uniform(0.01, 0.3, T)
    C = 1.7 * gradient_covariance(KERNELS[kernel](0.6), X) + np.diag(np.repeat(noise, d))
    expected = multivariate_normal(cov=C).logpdf(G.ravel())
    actual = _GradientLikelihood(X, G, noise, kernel)(0.6, 1.7 / 0.36)
    assert actual == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("length_scale", [0.2, 0.5, 1.5])
def test_the_true_length_scale_is_recovered(kernel, length_scale):
    # Steps of 0.3 to 0.6 length-scales, noise a tenth of the gradients' standard deviation.
    X = path(12, 10, 0.5 * length_scale, seed=1)
    noise = 0.01 / length_scale**2
    G = draw(kernel, length_scale, X, noise, seed=2)
    found = fit_length_scale_to_gradients(X, G, noise, kernel=kernel)
    assert found.length_scale == pytest.approx(length_scale, rel=0.35)
    assert 0.2 < found.variance < 5.0
    assert np.isfinite(found.log_marginal_likelihood)


def test_maximum_of_likelihood_and_prior():
    X = path(8, 4, 0.3, seed=3)
    G, noise = draw("rbf", 0.6, X, 0.05, seed=4), np.linspace(0.02, 0.08, 8)
    found = fit_length_scale_to_gradients(X, G, noise, prior_length_scale=0.8, prior_log_std=0.5)
    likelihood = _GradientLikelihood(X, G, noise, "rbf")

    def score(length_scale, variance):
        prior = -0.5 * (np.log(length_scale / 0.8) / 0.5) ** 2
        return prior + likelihood(length_scale, variance / length_scale**2)

    best = score(found.length_scale, found.variance)
    for a in np.geomspace(0.1, 3.0, 25):
        for b in np.geomspace(0.1, 10.0, 25):
            assert score(a * found.length_scale, b * found.variance) <= best + 1e-4


def test_without_information_the_prior_stays():
    assert fit_length_scale_to_gradients([], [], 1.0).length_scale == 0.5
    one = fit_length_scale_to_gradients([[0.1, 0.2]], [[3.0, 4.0]], 0.5, prior_length_scale=0.7)
    assert one.length_scale == 0.7
    assert one.variance == pytest.approx(12.0 * 0.49)
    X = path(10, 5, 0.3, seed=0)
    zero = fit_length_scale_to_gradients(X, np.zeros((10, 5)), 1.0)
    assert (zero.length_scale, zero.variance) == (0.5, 0.0)
    noise = np.random.RandomState(1).randn(10, 5)
    hidden = fit_length_scale_to_gradients(X, noise, 1.0, prior_log_std=0.1)
    assert hidden.length_scale == pytest.approx(0.5, rel=0.2)


def test_bounds_and_repeated_points():
    X = np.repeat(path(4, 3, 0.5, seed=0), 3, axis=0)
    G = np.random.RandomState(2).randn(12, 3)
    found = fit_length_scale_to_gradients(X, G, 1e-3, length_scale_bounds=(0.3, 0.6))
    assert 0.3 <= found.length_scale <= 0.6
    again = fit_length_scale_to_gradients(X, G, 1e-3, length_scale_bounds=(0.3, 0.6))
    assert found == again


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"noise_variance": 0.0}, "noise_variance"),
        ({"gradients": [[1.0]]}, "same shape"),
        ({"gradients": [[1.0, np.nan], [0.0, 0.0]]}, "finite"),
        ({"length_scale_bounds": (1.0, 0.5)}, "length_scale_bounds"),
        ({"prior_log_std": 0.0}, "prior_log_std"),
        ({"kernel": "matern32"}, "kernel"),
    ],
)
def test_invalid_arguments(change, words):
    given = {"thetas": [[0.0, 0.0], [1.0, 0.0]], "gradients": np.ones((2, 2)), "noise_variance": 1}
    with pytest.raises(ValueError, match=words):
        fit_length_scale_to_gradients(**(given | change))
