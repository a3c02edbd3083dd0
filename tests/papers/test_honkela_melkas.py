"""Honkela & Melkas 2021: sensitivities (exact) and experiments 5.1, 5.2 (measured).

Measured figures are compared at 4 standard errors of the difference of both measurements.
"""

import math

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from _support.internals import (
    NORM_BOUNDS,
    KernelRelease,
    KernelRows,
    certified_norm,
    grid_centre_norm,
    joint_sensitivity,
    kernel_posterior,
    line_norm,
    regulariser,
    separation_norm,
    spectral_norm,
    trivial_norm,
)
from _support.published_posterior import predicted
from _support.published_sensitivity import published_sensitivity
from _support.record_sums import exact_gram
from skdpbo.mechanisms import noise_source
from skdpbo.privacy import mu_from_epsilon

KERNEL = RBF(1.0)
NINE = np.linspace(-3, 3, 9)[:, None]
FIFTEEN = np.linspace(-3.5, 3.5, 15)[:, None]


@pytest.mark.parametrize(
    ("Z", "trivial", "eq_7", "eq_8", "certified"),
    [(NINE, 3.000, 1.834, 2.820, 1.537), (FIFTEEN, 3.873, 2.132, 3.762, 1.883)],
    ids=["9 points", "15 points"],
)
def test_norm_bounds_on_a_line(Z, trivial, eq_7, eq_8, certified):
    bounds = [bound(KERNEL, Z) for bound in (trivial_norm, line_norm, separation_norm)]
    assert bounds == pytest.approx([trivial, eq_7, eq_8], abs=5.1e-4)
    assert certified_norm(KERNEL, Z) == pytest.approx(certified, abs=5.1e-4)
    assert grid_centre_norm(KERNEL, Z) == pytest.approx(certified, abs=5.1e-4)


@pytest.mark.parametrize(
    ("weights", "certified", "eq_8", "spectral"),
    [([1, 4, 7], 6.79, 13.39, 7.23), ([2, 8, 14], 5.10, 10.64, 5.75)],
    ids=["10 kg", "5 kg"],
)
def test_norm_bounds_on_the_growth_grid(weights, certified, eq_8, spectral):
    Z = np.array([[age, weight] for age in (2.5, 10.0, 17.5) for weight in weights], dtype=float)
    kernel = 2.2**2 * RBF([3.0, 3.5])
    assert NORM_BOUNDS["trivial"](kernel, Z) == pytest.approx(14.52, abs=5.1e-3)
    assert NORM_BOUNDS["generic"](kernel, Z) == pytest.approx(eq_8, abs=5.1e-3)
    assert NORM_BOUNDS["tight"](kernel, Z) == pytest.approx(certified, abs=5.1e-3)
    assert NORM_BOUNDS["certified"](kernel, Z) == pytest.approx(certified, abs=5.1e-3)
    assert spectral_norm(kernel, Z) == pytest.approx(spectral, abs=5.1e-3)


@pytest.mark.parametrize(
    ("y_norm", "k_norm", "printed", "tight"),
    [
        (1, None, 5.463, 5.463),
        (1, 1, 2.1213, 2.1213),
        (3, 1.5, 9.546, 9.000),
        (1, 3, 13.435, 13.435),
        (2, 1, 4.243, 4.000),
        (3, 1, 7.778, 6.000),
    ],
)
def test_joint_sensitivity(y_norm, k_norm, printed, tight):
    k_norm = line_norm(KERNEL, NINE) if k_norm is None else k_norm
    assert published_sensitivity(k_norm, y_norm) == pytest.approx(printed, rel=1e-4)
    assert joint_sensitivity(k_norm, y_norm) == pytest.approx(tight, rel=1e-4)


@pytest.mark.parametrize(
    ("epsilon", "sa"), [(0.5, 32.20), (1, 17.41), (3, 6.68), (10, 2.49), (100, 0.50)]
)
def test_noise_of_the_release(epsilon, sa):
    release = KernelRelease(
        mu=mu_from_epsilon(epsilon, 1e-4),
        k_norm=line_norm(KERNEL, NINE),
        half_width=(1.0,),
        n_records=1024,
    )
    assert release.sigma_a[0] == pytest.approx(sa, abs=5.1e-3)
    assert release.sigma_b == pytest.approx(sa, abs=5.1e-3)


def test_regulariser_of_nine_points():
    assert regulariser(1.0, 1.0, 9) == pytest.approx(5.189, abs=5.1e-4)


def published_posterior(Z, x, y, *, epsilon, noise_variance, y_bound, bound, seed, method):
    """Algorithm 1 with c = 1, delta = 1e-4, rho = .01."""
    release = KernelRelease(
        mu=mu_from_epsilon(epsilon, 1e-4),
        k_norm=NORM_BOUNDS[bound](KERNEL, Z),
        half_width=(y_bound,),
        n_records=len(x),
    )
    rows = KernelRows(KERNEL, Z, release)(x[:, None], y[:, None])
    released = release.release(exact_gram(rows, release.radius), noise_source(seed))
    return kernel_posterior(
        released.A[:, 0],
        released.B,
        KERNEL(Z),
        noise_variance=noise_variance,
        sa=released.sa[0],
        sb=released.sb,
        method=method,
    )


def sinc_run(epsilon, bound, seed):
    """RMSE and coverage on 200 points of [-3.5, 3.5], Section 5.1."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-4, 4, 1024)
    y = np.sinc(2 * x / np.pi) + 0.1 * rng.normal(size=1024)
    posterior = published_posterior(
        NINE,
        x,
        y,
        epsilon=epsilon,
        noise_variance=0.01,
        y_bound=1.0,
        bound=bound,
        seed=seed,
        method="linearised_published",
    )
    v = np.linspace(-3.5, 3.5, 200)
    mean, variance = predicted(posterior, KERNEL(NINE), KERNEL(v[:, None], NINE), np.ones(200))
    error = mean - np.sinc(2 * v / np.pi)
    return math.sqrt(np.mean(error**2)), np.mean(np.abs(error) < 2 * np.sqrt(variance))


def assert_same(values, reference, reference_error):
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    assert abs(np.mean(values) - reference) < 4 * math.hypot(error, reference_error)


@pytest.mark.slow
class TestSinc:
    RUNS = 60

    @pytest.mark.parametrize(
        ("epsilon", "rmse", "error", "coverage"),
        [
            (0.5, 0.214, 0.005, 0.63),
            (1, 0.167, 0.004, 0.58),
            (3, 0.106, 0.003, 0.56),
            (10, 0.059, 0.001, 0.65),
            (100, 0.0228, 0.0005, 0.89),
        ],
    )
    def test_published_algorithm_with_eq_7(self, epsilon, rmse, error, coverage):
        runs = np.array([sinc_run(epsilon, "generic", seed) for seed in range(self.RUNS)])
        assert_same(runs[:, 0], rmse, error)
        spread = np.std(runs[:, 1], ddof=1) / math.sqrt(self.RUNS)
        assert_same(runs[:, 1], coverage, spread)

    @pytest.mark.parametrize(("epsilon", "rmse", "error"), [(1, 0.144, 0.003), (3, 0.089, 0.002)])
    def test_certified_bound(self, epsilon, rmse, error):
        runs = np.array([sinc_run(epsilon, "certified", seed) for seed in range(self.RUNS)])
        assert_same(runs[:, 0], rmse, error)

    def test_certified_bound_beats_eq_7(self):
        runs = [[sinc_run(1, b, seed)[0] for seed in range(40)] for b in ("certified", "generic")]
        assert np.mean(runs[0]) < np.mean(runs[1])


def calibration_run(sigma, epsilon, seed):
    """Coverage of noisy test points without S_2 and with Eq. (17), Section 5.2."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-4, 4, 1024))
    K = KERNEL(x[:, None]) + 1e-8 * np.eye(1024)
    values, vectors = np.linalg.eigh(K)
    f = vectors @ (np.sqrt(np.maximum(values, 0)) * rng.normal(size=1024))
    y = f + sigma * rng.normal(size=1024)
    half = rng.permutation(1024)
    train, test = half[:512], half[512:]
    shares = []
    for method in ("naive", "linearised_published"):
        posterior = published_posterior(
            FIFTEEN,
            x[train],
            y[train],
            epsilon=epsilon,
            noise_variance=sigma**2,
            y_bound=3.0,
            bound="generic",
            seed=seed,
            method=method,
        )
        mean, variance = predicted(
            posterior, KERNEL(FIFTEEN), KERNEL(x[test, None], FIFTEEN), np.ones(512)
        )
        sd = np.sqrt(variance + sigma**2)
        shares.append(
            [np.mean(np.abs(y[test] - mean) < z * sd) for z in (0.67449, 1.15035, 1.64485, 1.95996)]
        )
    return shares


@pytest.mark.slow
class TestCalibration:
    @pytest.mark.parametrize(
        ("sigma", "epsilon", "naive", "published", "error"),
        [
            (0.1, 1, [0.10, 0.17, 0.25, 0.29], [0.20, 0.33, 0.46, 0.53], 0.03),
            (0.1, 10, [0.19, 0.32, 0.44, 0.52], [0.22, 0.37, 0.51, 0.59], 0.03),
            (0.3, 3, [0.33, 0.53, 0.70, 0.78], [0.35, 0.56, 0.73, 0.81], 0.02),
            (1.0, 1, [0.45, 0.69, 0.85, 0.92], [0.46, 0.70, 0.86, 0.92], 0.007),
        ],
    )
    def test_coverage(self, sigma, epsilon, naive, published, error):
        runs = np.array([calibration_run(sigma, epsilon, seed) for seed in range(12)])
        for j in range(4):
            assert_same(runs[:, 0, j], naive[j], error)
            assert_same(runs[:, 1, j], published[j], error)
        assert (runs[:, 1].mean(axis=0) >= runs[:, 0].mean(axis=0)).all()
