"""The kernel at noisy rows is the mean of the kernel over the noise."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from _support.internals import (
    NoisyInputRBF,
    NoisyRowsKernel,
    noisy_inputs,
    shrinkage,
)
from skdpbo.surrogate import CandidatePosterior

SETTING = {"length_scale": 1.3, "signal_variance": 2.0, "noise_std": 0.6}
KERNEL = 2.0 * RBF(1.3)


def noisy_kernel(z, w, n_noisy):
    kernel = NoisyInputRBF(SETTING["length_scale"], noise_std=SETTING["noise_std"], n_noisy=n_noisy)
    return SETTING["signal_variance"] * kernel([z], [w]).item()


def gaussian(rng, shape, std):
    return rng.normal(0.0, std, shape)


def l2_laplace(rng, shape, std):
    d = shape[-1]
    u = rng.standard_normal(shape)
    radius = rng.gamma(d, std / np.sqrt(d + 1), (*shape[:-1], 1))
    return radius * u / np.linalg.norm(u, axis=-1, keepdims=True)


def mean_of_kernel(law, z, w, n_noisy, rng, n_draws=200_000):
    """Monte Carlo mean of k(z - e, w - e') and its standard error."""
    length_scale = np.asarray(SETTING["length_scale"])
    e = law(rng, (n_draws, len(z)), SETTING["noise_std"])
    e2 = law(rng, (n_draws, len(z)), SETTING["noise_std"]) if n_noisy == 2 else 0.0
    squared = (((z - e) - (w - e2)) ** 2 / length_scale**2).sum(axis=1)
    k = SETTING["signal_variance"] * np.exp(-0.5 * squared)
    return k.mean(), k.std() / np.sqrt(n_draws)


@pytest.mark.parametrize("n_noisy", [1, 2])
@pytest.mark.parametrize("distance", [0.0, 0.7, 2.5])
def test_kernel_is_the_mean_over_gaussian_noise(n_noisy, distance):
    # 6 standard errors: false alarm below 2e-9 a case
    rng = np.random.default_rng(int(10 * distance) + n_noisy)
    z, w = np.array([0.2, -0.4, 1.0]), np.array([0.2, -0.4 + distance, 1.0])
    expected = noisy_kernel(z, w, n_noisy)
    mean, error = mean_of_kernel(gaussian, z, w, n_noisy, rng)
    assert abs(mean - expected) < 6 * error
    # planted bugs: the noise forgotten, and counted for the other number of rows
    exact = SETTING["signal_variance"] * RBF(1.3)([z], [w]).item()
    other = noisy_kernel(z, w, 3 - n_noisy)
    if distance != 2.5:  # where all three cross
        assert abs(mean - exact) > 6 * error
        assert abs(mean - other) > 6 * error


def test_l2_laplace_noise_of_the_same_standard_deviation_is_close():
    rng = np.random.default_rng(0)
    for distance in (0.0, 1.0, 2.0):
        z, w = np.zeros(2), np.array([distance, 0.0])
        mean, _ = mean_of_kernel(l2_laplace, z, w, 2, rng)
        gauss = noisy_kernel(z, w, 2)
        assert abs(mean - gauss) < 0.06 * SETTING["signal_variance"]


def test_without_noise_it_is_the_kernel():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(7, 2))
    K = NoisyInputRBF([0.5, 2.0], noise_std=0.0)(Z, Z)
    np.testing.assert_allclose(K, RBF([0.5, 2.0])(Z), rtol=1e-12)
    assert shrinkage([0.5, 2.0], 0.0, 2) == 1.0


def test_matrix_is_a_k_plus_rest_on_the_diagonal_and_psd():
    rng = np.random.default_rng(2)
    Z = np.repeat(rng.normal(size=(10, 3)), 2, axis=0)  # equal rows with different noise
    K = noisy_inputs(KERNEL, 0.6, 2)(Z)
    a = shrinkage(1.3, 0.6, 3)
    widened = RBF(np.sqrt(1.3**2 + 2 * 0.6**2))(Z)
    np.testing.assert_allclose(K, 2.0 * (a * widened + (1 - a) * np.eye(20)), atol=1e-14)
    assert np.linalg.eigvalsh(K).min() >= 2.0 * (1 - a) - 1e-12


def test_shrinkage_of_many_features_does_not_underflow_on_the_way():
    assert shrinkage(1.0, 1.0, 3) == pytest.approx(3**-1.5)
    assert 0.0 <= shrinkage(1.0, 1.0, 5000) < 1e-300
    assert shrinkage([1.0, 2.0], 1.0, 2, n_noisy=1) == pytest.approx((0.5 * 0.8) ** 0.5)


def test_columns_are_those_of_the_matrix():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(9, 2))
    Z[4] = Z[7]  # the same values, not the same row
    numbers = np.arange(9.0)[:, None]
    kernel = clone(NoisyRowsKernel(Z, kernel=KERNEL, noise_std=0.6))
    K = noisy_inputs(KERNEL, 0.6, 2)(Z)
    np.testing.assert_allclose(kernel(numbers), K, rtol=1e-14)
    np.testing.assert_allclose(kernel(numbers[[4, 2]], numbers), K[[4, 2]], rtol=1e-14)
    np.testing.assert_array_equal(kernel.diag(numbers), np.diag(K))
    with pytest.raises(NotImplementedError, match="fixed"):
        kernel(numbers, eval_gradient=True)
    assert not kernel.is_stationary()


def test_incremental_posterior_is_that_of_the_whole_matrix():
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(30, 2))
    K = noisy_inputs(KERNEL, 0.6, 2)(Z)
    numbers = np.arange(30.0)[:, None]
    posterior = CandidatePosterior(
        NoisyRowsKernel(Z, kernel=KERNEL, noise_std=0.6), numbers, noise_variance=0.1
    )
    rows, y = [3, 17, 3, 28], [0.4, -1.0, 0.6, 2.0]
    for i, value in zip(rows, y, strict=True):
        posterior.append(i, value)
    weights = np.linalg.solve(K[np.ix_(rows, rows)] + 0.1 * np.eye(4), K[rows])
    np.testing.assert_allclose(posterior.mean, np.array(y) @ weights, atol=1e-12)
    variance = 2.0 - np.einsum("ij,ij->j", K[rows], weights)
    np.testing.assert_allclose(posterior.std**2, variance, atol=1e-12)
