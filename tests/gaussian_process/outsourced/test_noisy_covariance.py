"""Kernels on noisy rows: against Monte Carlo, finite differences and the other implementation."""

import numpy as np
import pytest
from scipy.stats import special_ortho_group
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from _support.internals import (
    NoisyInputRBF,
    NoisyRowsKernel,
    gaussian_mixture,
    noisy_inputs,
)
from skdpbo.mechanisms import L2Laplace

RNG = np.random.default_rng(0)  # public randomness
Z = RNG.uniform(-3, 3, (6, 2))
KERNELS = {
    "isotropic": RBF(1.3),
    "anisotropic": RBF([0.8, 2.5]),
    "product": 2.5 * RBF(1.3),
    "sum": 0.4 * RBF(0.6) + ConstantKernel(0.7) + 1.2 * RBF([3.0, 1.0]),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("n_noisy", [1, 2])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_is_the_mean_of_the_kernel_over_normal_noise(kernel, n_noisy):
    s, n = 0.9, 4000
    found = noisy_inputs(kernel, s, n_noisy)(Z[:3], Z[3:])
    draws = np.empty((n, 3, 3))
    for i in range(n):
        noise = s * RNG.normal(size=(2, 3, 2)) * [[[n_noisy == 2]], [[True]]]
        draws[i] = kernel(Z[:3] - noise[0], Z[3:] - noise[1])
    error = draws.std(axis=0) / np.sqrt(n)
    assert np.abs((draws.mean(axis=0) - found) / error).max() < 5.5  # 1e-6 over 18 entries


@pytest.mark.slow
def test_l2_laplace_noise_of_the_same_spread_is_near_enough():
    mechanism, n = L2Laplace(1.0, 1.0, 2), 10_000
    s = mechanism.scale * 3**0.5
    e, f = (mechanism.release(np.zeros((n, 2))) for _ in range(2))
    for distance in (0.0, 2.0, 5.0, 9.0):
        for length_scale in (2.0, 4.42):
            kernel = RBF(length_scale)
            rows = np.array([distance, 0.0]) + e - f
            mean = np.exp(-0.5 * np.sum(rows**2, axis=1) / length_scale**2).mean()
            found = noisy_inputs(kernel, s, 2)(np.zeros((1, 2)), np.array([[distance, 0.0]]))
            assert mean == pytest.approx(found[0, 0], abs=0.06)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_rows_with_themselves(kernel):
    K = noisy_inputs(kernel, 0.9, 2)(Z)
    np.testing.assert_allclose(np.diagonal(K), kernel.diag(Z))
    off = ~np.eye(len(Z), dtype=bool)
    np.testing.assert_allclose(K[off], noisy_inputs(kernel, 0.9, 2)(Z, Z.copy())[off])
    np.testing.assert_allclose(noisy_inputs(kernel, 0.0, 2)(Z), kernel(Z), atol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_gradients_are_those_of_finite_differences(kernel):
    noisy = noisy_inputs(kernel, 0.9, 2)
    np.testing.assert_array_equal(noisy.theta, kernel.theta)
    _, gradient = noisy(Z, eval_gradient=True)
    for i, step in enumerate(1e-6 * np.eye(len(noisy.theta))):
        up, down = (noisy.clone_with_theta(noisy.theta + sign * step)(Z) for sign in (1, -1))
        np.testing.assert_allclose(gradient[..., i], (up - down) / 2e-6, atol=1e-8)


def test_fixed_length_scales_have_no_gradient():
    noisy = noisy_inputs(2.0 * RBF(1.0, "fixed"), 0.5, 2)
    K, gradient = noisy(Z, eval_gradient=True)
    assert gradient.shape == (6, 6, 1)
    np.testing.assert_allclose(gradient[..., 0], K)


def test_agrees_with_the_covariance_of_the_modeler():
    numbers = np.arange(6.0)[:, None]
    for kernel in (KERNELS["product"], 0.4 * RBF(0.6) + ConstantKernel(0.7) + 1.2 * RBF(3.0)):
        modelers = NoisyRowsKernel(Z, kernel=kernel, noise_std=0.9)
        np.testing.assert_allclose(noisy_inputs(kernel, 0.9, 2)(Z), modelers(numbers))


ROUGH = {f"matern {nu}": Matern(1.3, nu=nu) for nu in (0.2, 0.5, 1.5, 2.5, 7.0, 12.0)}
ROUGH |= {f"rational {a}": RationalQuadratic(1.3, alpha=a) for a in (0.2, 0.5, 1.0, 3.0, 1e4)}
ROUGH["product"] = 2.0 * Matern(1.3, nu=1.5) * (RBF(2.0) + ConstantKernel(0.3))


@pytest.mark.parametrize("kernel", ROUGH.values(), ids=ROUGH)
def test_isotropic_kernels_are_mixtures_of_squared_exponential_ones(kernel):
    r = np.concatenate([[0.0], np.geomspace(1e-3, 40.0, 200)])
    precisions, weights = gaussian_mixture(kernel)
    found = np.exp(-0.5 * np.square(r)[:, None] * precisions) @ weights
    np.testing.assert_allclose(found, kernel(r[:, None], [[0.0]])[:, 0], atol=3e-5)
    assert weights.min() >= 0  # so that every covariance matrix is positive semi-definite


@pytest.mark.parametrize("kernel", ROUGH.values(), ids=ROUGH)
def test_kernels_of_the_modeler_are_means_over_normal_noise(kernel):
    """In one dimension, by an integral over the difference of the two noises."""
    rows, s = np.array([[0.0], [0.4], [2.0]]), 0.7
    found = NoisyRowsKernel(rows, kernel=kernel, noise_std=s)(np.arange(3.0)[:, None])
    e = np.linspace(-8, 8, 20_001) * s * np.sqrt(2)
    density = np.exp(-0.25 * (e / s) ** 2)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        values = kernel((rows[i] - rows[j] - e)[:, None], [[0.0]])[:, 0]
        assert found[i, j] == pytest.approx(values @ density / density.sum(), abs=1e-4)
    np.testing.assert_allclose(np.diagonal(found), kernel.diag(rows))
    assert abs(found[0, 1] - kernel(rows)[0, 1]) > 0.03  # without the noise


def test_exact_and_noisy_rows_together_have_a_covariance():
    X = RNG.uniform(-3, 3, (20, 2))
    X[:6] = Z  # exact rows at the very places of noisy ones
    for kernel in KERNELS.values():
        cross = noisy_inputs(kernel, 0.9, 1)(X, Z)
        joint = np.block([[kernel(X), cross], [cross.T, noisy_inputs(kernel, 0.9, 2)(Z)]])
        assert np.linalg.eigvalsh(joint).min() > -1e-9


def test_the_cross_covariance_does_not_depend_on_the_axes():
    Q = special_ortho_group.rvs(2, random_state=0)
    noisy = noisy_inputs(RBF(1.3), 0.9, 1)
    np.testing.assert_allclose(noisy(Z[:3] @ Q, Z[3:] @ Q), noisy(Z[:3], Z[3:]))


@pytest.mark.parametrize(
    "kernel",
    [Matern(1.0), RBF() + WhiteKernel(), RBF() * RBF(), 2.0 * Matern(), RBF() ** 2.0, "rbf"],
    ids=repr,
)
def test_other_kernels_are_refused(kernel):
    with pytest.raises(TypeError, match="must consist of"):
        noisy_inputs(kernel, 0.5, 2)


def test_repr_clone_and_no_gradient_between_sets():
    kernel = NoisyInputRBF(1.5, noise_std=0.5)
    assert repr(kernel) == "NoisyInputRBF(length_scale=1.5)"
    assert kernel.clone_with_theta(kernel.theta).noise_std == 0.5
    with pytest.raises(ValueError, match="Gradient"):
        kernel(Z, Z, eval_gradient=True)
