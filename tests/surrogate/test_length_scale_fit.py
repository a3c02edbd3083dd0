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
    assert found == pytest.approx(length_scale, rel=0.35)


def test_maximum_of_likelihood_and_prior():
    X = path(8, 4, 0.3, seed=3)
    G, noise = draw("rbf", 0.6, X, 0.05, seed=4), np.linspace(0.02, 0.08, 8)
    found = fit_length_scale_to_gradients(X, G, noise, prior_length_scale=0.8)
    likelihood = _GradientLikelihood(X, G, noise, "rbf")

    def score(length_scale, variance):
        prior = -0.5 * np.log(length_scale / 0.8) ** 2
        return prior + likelihood(length_scale, variance / length_scale**2)

    variances = np.geomspace(0.01, 100.0, 400)
    best = max(score(found, variance) for variance in variances)
    for a in np.geomspace(0.1, 3.0, 25):
        assert max(score(a * found, variance) for variance in variances) <= best + 1e-3


def test_without_information_the_prior_stays():
    one = fit_length_scale_to_gradients([[0.1, 0.2]], [[3.0, 4.0]], 0.5, prior_length_scale=0.7)
    assert one == 0.7
    X = path(10, 5, 0.3, seed=0)
    assert fit_length_scale_to_gradients(X, np.zeros((10, 5)), 1.0) == 0.5


def test_bounds_and_repeated_points():
    X = np.repeat(path(4, 3, 0.5, seed=0), 3, axis=0)
    G = np.random.RandomState(2).randn(12, 3)
    for prior in (1e-60, 1e60):
        found = fit_length_scale_to_gradients(X, G, 1e-3, prior_length_scale=prior)
        assert 0.05 <= found <= 5.0
        assert (found > 1) == (prior > 1)
        assert found == fit_length_scale_to_gradients(X, G, 1e-3, prior_length_scale=prior)
