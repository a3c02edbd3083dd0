"""The posterior of the published release: closed forms against sums, Monte Carlo, exact GPs."""

import math

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from _support.internals import (
    POSTERIORS,
    _covariance_from_noise,
    in_coordinates,
    kernel_posterior,
    regulariser,
)
from _support.published_posterior import at_inducing_points, predicted


def symmetric_noise(rng, d, sb, size=()):
    """E_b: sd sb on the diagonal, sb / sqrt 2 off it, symmetric."""
    E = rng.normal(size=(*size, d, d))
    return sb * (E + np.swapaxes(E, -1, -2)) / 2


@pytest.fixture
def problem():
    """Released statistics of 400 records of a smooth function."""
    rng = np.random.default_rng(0)
    kernel, Z = RBF(1.0), np.linspace(-3, 3, 6)[:, None]
    x, d = rng.uniform(-4, 4, 400)[:, None], 6
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=400)
    K = kernel(Z, x)
    sa = sb = 0.5
    A, B = K @ y + sa * rng.normal(size=d), K @ K.T + symmetric_noise(rng, d, sb)
    return {"A": A, "B": B, "K_ZZ": kernel(Z), "noise_variance": 0.01, "sa": sa, "sb": sb}


def published_sum(Sigma, A, noise_variance, sb):
    """Eq. (17) as printed, a sum over matrices with one entry, without the outer K_ZZ."""
    d = len(A)
    outer = Sigma @ np.outer(A, A) @ Sigma
    total = np.zeros((d, d))
    for i in range(d):
        E = np.zeros((d, d))
        E[i, i] = 1.0
        total += sb**2 * Sigma @ E @ outer @ E @ Sigma
        for j in range(i + 1, d):
            E = np.zeros((d, d))
            E[i, j] = 1.0
            terms = Sigma @ E @ outer @ E.T @ Sigma + Sigma @ E.T @ outer @ E @ Sigma
            total += sb**2 / 2 * terms
    return total / noise_variance**4


def covariances(problem):
    """Sigma, v = Sigma A, and S_2 as published and exactly, all without the outer K_ZZ."""
    naive = kernel_posterior(**problem, method="naive")
    s2, sa, sb = (problem[name] for name in ("noise_variance", "sa", "sb"))
    Sigma, weights = naive.covariance, naive.mean
    published = _covariance_from_noise(Sigma, weights, s2, sa, sb, True)
    exact = _covariance_from_noise(Sigma, weights, s2, sa, sb, False)
    return Sigma, s2 * weights, published, exact


class TestLinearised:
    def test_closed_form_of_the_published_sum(self, problem):
        Sigma, _, published, _ = covariances(problem)
        s2 = problem["noise_variance"]
        expected = published_sum(Sigma, problem["A"], s2, problem["sb"])
        expected += problem["sa"] ** 2 / s2**2 * Sigma @ Sigma  # Eq. 14
        np.testing.assert_allclose(published, expected, rtol=1e-9)

    @pytest.mark.slow
    def test_exact_form_is_the_covariance_of_the_linear_map(self, problem):
        """E_b -> -sigma^-4 Sigma E_b v and E_a -> sigma^-2 Sigma E_a, 200 000 draws."""
        Sigma, v, published, exact = covariances(problem)
        rng, s2, d = np.random.default_rng(1), problem["noise_variance"], len(v)
        draws = -symmetric_noise(rng, d, problem["sb"], (200_000,)) @ v / s2**2
        draws += problem["sa"] * rng.normal(size=(200_000, d)) / s2
        sampled = Sigma @ np.cov(draws.T) @ Sigma
        error = np.linalg.norm(exact - sampled) / np.linalg.norm(sampled)
        assert error < 0.02
        of_published = np.linalg.norm(published - sampled) / np.linalg.norm(sampled)
        assert of_published > 0.1

    def test_published_form_understates_the_variance_along_v(self, problem):
        """Of E_b v alone: |v|^2 + sum v^4 / |v|^2 against 2 |v|^2."""
        problem = {**problem, "sa": 1e-9}
        Sigma, v, published, exact = covariances(problem)
        direction = np.linalg.solve(Sigma, v)
        ratio = (direction @ published @ direction) / (direction @ exact @ direction)
        expected = (1 + np.sum(v**4) / np.sum(v**2) ** 2) / 2
        assert ratio == pytest.approx(expected, rel=1e-6)
        assert ratio < 0.8

    def test_paper_order_of_the_covariances(self, problem):
        naive = kernel_posterior(**problem, method="naive")
        for method in ("linearised", "linearised_published"):
            corrected = kernel_posterior(**problem, method=method)
            np.testing.assert_array_equal(corrected.mean, naive.mean)
            added = corrected.covariance - naive.covariance
            assert np.linalg.eigvalsh(added)[0] > 0


class TestLimits:
    @pytest.mark.parametrize("method", POSTERIORS)
    def test_without_noise_it_is_exact_gp_regression_at_z_equal_x(self, method):
        rng = np.random.default_rng(0)
        x = np.sort(rng.uniform(-4, 4, 8))[:, None]
        y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=8)
        kernel, v = RBF(1.0), np.linspace(-4, 4, 30)[:, None]
        K = kernel(x)
        posterior = kernel_posterior(
            K @ y, K @ K, K, noise_variance=0.05, sa=1e-9, sb=1e-9, method=method
        )
        mean, covariance = predicted(posterior, K, kernel(v, x), kernel(v))  # with a jitter of 1e-6
        exact = GaussianProcessRegressor(kernel, alpha=0.05, optimizer=None).fit(x, y)
        expected, expected_covariance = exact.predict(v, return_cov=True)
        np.testing.assert_allclose(mean, expected, atol=2e-4)
        np.testing.assert_allclose(covariance, expected_covariance, atol=2e-4)

    @pytest.mark.parametrize("method", POSTERIORS)
    def test_prediction_is_eq_20_in_three_forms(self, problem, method):
        kernel, Z = RBF(1.0), np.linspace(-3, 3, 6)[:, None]
        v = np.linspace(-4, 4, 20)[:, None]
        posterior = kernel_posterior(**problem, method=method, n_records=400)
        k = kernel(v, Z)
        mean, covariance = predicted(posterior, problem["K_ZZ"], k, kernel(v))
        same, variance = predicted(posterior, problem["K_ZZ"], k, np.ones(20))
        np.testing.assert_allclose(variance, covariance.diagonal(), atol=1e-12)
        np.testing.assert_array_equal(mean, same)
        inverse = np.linalg.inv(problem["K_ZZ"] + 1e-6 * np.eye(6))
        m, S = at_inducing_points(posterior, problem["K_ZZ"])
        exact = np.linalg.inv(problem["K_ZZ"])
        literal = kernel(v) - k @ exact @ (problem["K_ZZ"] - S) @ exact @ k.T
        np.testing.assert_allclose(mean, k @ exact @ m, atol=1e-8)
        np.testing.assert_allclose(covariance, literal, atol=1e-4)
        # phi(x) = W'k_Z(x), W W' = K_ZZ^-1: mean phi'v, variance k - phi'phi + phi'P phi
        W = np.linalg.inv(np.linalg.cholesky(problem["K_ZZ"] + 1e-6 * np.eye(6))).T
        assert np.allclose(W @ W.T, inverse)
        v_mean, P = in_coordinates(posterior, W)
        phi = k @ W
        np.testing.assert_allclose(phi @ v_mean, mean, atol=1e-9)
        np.testing.assert_allclose(kernel(v) - phi @ phi.T + phi @ P @ phi.T, covariance, atol=1e-9)


class TestRegulariser:
    @pytest.mark.parametrize(
        ("d", "over_sb"),
        [
            (2, 2.742),
            (5, 3.915),
            (9, 5.189),
            (15, 6.761),
            (25, 8.907),
            (50, 13.06),
            (100, 19.24),
            (200, 28.33),
        ],
    )
    def test_eq_13(self, d, over_sb):
        assert regulariser(1.0, 1.0, d) == pytest.approx(over_sb, rel=4e-4)
        assert regulariser(3.0, 0.5, d) == pytest.approx(6 * regulariser(1.0, 1.0, d))

    def test_a_matrix_that_is_still_not_positive_gets_more(self, problem):
        B = problem["B"] - 50.0 * np.eye(6)
        posterior = kernel_posterior(**{**problem, "B": B}, method="linearised")
        _, covariance = at_inducing_points(posterior, problem["K_ZZ"])
        assert np.linalg.eigvalsh(covariance)[0] > 0

    @pytest.mark.slow
    @pytest.mark.parametrize(("d", "failures"), [(2, 0.018), (5, 0.015), (15, 0.001)])
    def test_measured_failures(self, d, failures):
        """Share of -lambda_min(E) above the regulariser: nominally 1 %; alarm 1e-6."""
        E = symmetric_noise(np.random.default_rng(d), d, 1.0, (100_000,))
        share = np.mean(-np.linalg.eigvalsh(E)[:, 0] > regulariser(1.0, 1.0, d))
        assert abs(share - failures) < 5e-4 + 5 * math.sqrt(failures / 1e5)


class TestNoiseAware:
    def test_it_needs_no_positive_definite_matrix(self, problem):
        rng = np.random.default_rng(3)
        B = problem["B"] + symmetric_noise(rng, 6, 100.0)
        posterior = kernel_posterior(
            **{**problem, "B": B, "sb": 100.0}, method="noise_aware", n_records=400
        )
        assert np.linalg.eigvalsh(posterior.covariance)[0] > 0
        assert np.abs(at_inducing_points(posterior, problem["K_ZZ"])[0]).max() < 5

    def test_noise_brings_it_back_to_the_prior(self, problem):
        posterior = kernel_posterior(
            **{**problem, "sa": 1e9, "sb": 1e9}, method="noise_aware", n_records=400
        )
        mean, covariance = at_inducing_points(posterior, problem["K_ZZ"])
        np.testing.assert_allclose(mean, 0, atol=1e-6)
        np.testing.assert_allclose(covariance, problem["K_ZZ"], atol=1e-4)

    def test_unknown_names_are_refused(self, problem):
        with pytest.raises(ValueError, match="posterior must be one of"):
            kernel_posterior(**problem, method="best")
