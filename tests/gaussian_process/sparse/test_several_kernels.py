"""DPSparseGPRegressor with several kernels: probabilities, posterior and the one release."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from _support.internals import (
    KernelFamily,
    LinearKernel,
    MixturePredictor,
    MomentModel,
    WeightPredictor,
    WhitenedFeatures,
    average_kernel,
    default_family,
    feature_maps,
    kernel_shares,
    map_error,
    nearest_points,
    released_noise_variance,
)
from skdpbo.exceptions import BudgetExceededError, SeededNoiseWarning
from skdpbo.gaussian_process import DPSparseGPRegressor
from skdpbo.privacy import PrivacyLedger

KERNELS = [RBF(1 / 3), RBF(1.0), RBF(3.0)]
LINE = np.linspace(-3.5, 3.5, 100)[:, None]
PUBLIC = {"inducing_points": 15, "X_bounds": (-4, 4), "y_bounds": (-2, 2)}


def function(X):
    return np.sinc(2 * X[:, 0] / np.pi)


def records(n, seed=0, sigma=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-4, 4, (n, 1))
    return X, function(X) + sigma * rng.normal(size=n)


def fitted(data, kernels=KERNELS, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return DPSparseGPRegressor(**{"kernel": kernels, **PUBLIC, **parameters}).fit(*data)


def rmse(gp):
    return np.sqrt(np.mean((gp.predict(LINE) - function(LINE)) ** 2))


class TestFeatures:
    @pytest.mark.parametrize("p", [1, 2])
    def test_norm_of_the_average_features_is_at_most_one(self, p):
        rng = np.random.default_rng(0)
        kernels = [9 * RBF(0.3), Matern(1.0, nu=1.5), 0.01 * RBF(4.0)]
        Z = rng.uniform(-2, 2, (12, p))
        features = WhitenedFeatures(average_kernel(kernels, Z), Z)
        assert features.signal_variance == pytest.approx(1.0, abs=1e-15)
        X = np.concatenate([Z, rng.uniform(-3, 3, (2000, p))])
        assert np.linalg.norm(features(X), axis=1).max() <= 1 + 1e-12

    def test_map_is_exact_at_the_inducing_points_where_nothing_is_known_of_the_records(self):
        Z = np.linspace(-3, 3, 9)[:, None]
        average, own = (
            WhitenedFeatures(average_kernel(KERNELS, Z), Z),
            WhitenedFeatures(KERNELS[2], Z),
        )
        support = np.linspace(-4, 4, 50)[:, None]
        ((T, _),) = feature_maps(average, [own], support, np.zeros(50), ridge=1.0)
        np.testing.assert_allclose(average.root @ T.T, own.root, atol=1e-12)
        np.testing.assert_allclose(average(Z) @ T.T, own(Z), atol=1e-3)  # up to the jitter

    def test_map_is_short_where_the_kernels_are_nearly_singular(self):
        # phi(Z) without the jitter is singular here; a map made from it was 1e8 long
        Z = np.linspace(-3, 3, 60)[:, None]
        kernels = [RBF(1.0), RBF(2.0), RBF(8.0)]
        shares = kernel_shares(KernelFamily.of(kernels), Z)
        average = WhitenedFeatures(average_kernel(kernels, Z, shares), Z)
        for kernel, share in zip(kernels, shares, strict=True):
            own = WhitenedFeatures(kernel, Z)
            ((T, _),) = feature_maps(average, [own], np.zeros((1, 1)), np.zeros(1), ridge=1.0)
            assert np.linalg.norm(T, 2) ** 2 <= 1 / share * (1 + 1e-6)

    def test_map_is_the_regression_where_there_are_many_records(self):
        Z = np.linspace(-3, 3, 5)[:, None]
        average, own = (
            WhitenedFeatures(average_kernel(KERNELS, Z), Z),
            WhitenedFeatures(KERNELS[1], Z),
        )
        support = np.linspace(-4, 4, 200)[:, None]
        ((T, _),) = feature_maps(average, [own], support, np.full(200, 1e9), ridge=1.0)
        exact = np.linalg.lstsq(average(support), own(support), rcond=None)[0].T
        np.testing.assert_allclose(T, exact, atol=1e-6)

    def test_error_of_the_map_is_what_neighbouring_records_have_in_common(self):
        Z = np.linspace(-3, 3, 9)[:, None]
        average = WhitenedFeatures(average_kernel(KERNELS, Z), Z)
        support, weights = np.linspace(-4, 4, 200)[:, None], np.full(200, 5.0)

        def error(kernel):
            own = WhitenedFeatures(kernel, Z)
            ((T, of_map),) = feature_maps(average, [own], support, weights, ridge=1.0)
            missing = own(support) - average(support) @ T.T
            largest = 5.0 * np.mean(np.sum(missing**2, axis=1))  # all of a cell's records alike
            return of_map, largest

        missing = average(support) - average(support) @ np.eye(9)
        same = map_error(missing, nearest_points(support), weights)
        assert same == 0.0
        smooth, bound = error(RBF(0.5))
        assert 0.8 * bound < smooth <= bound
        rough, bound = error(RBF(0.005))  # missing at the few points next to Z only
        assert 0 <= rough < 0.6 * bound

    def test_mixture_of_predictors_has_its_moments(self):
        features = WhitenedFeatures(RBF(1.0), np.array([[0.0], [1.0]]))
        parts = [
            WeightPredictor(features, np.zeros(1), np.full((2, 1), m), np.eye(2)[None] * c)
            for m, c in ((1.0, 0.1), (-2.0, 0.4))
        ]
        mixture = MixturePredictor(parts, np.array([0.25, 0.75]))
        X = np.array([[0.3], [2.0]])
        (first, v), (second, w) = (part.moments(X) for part in parts)
        mean, variance = mixture.moments(X)
        np.testing.assert_allclose(mean, 0.25 * first + 0.75 * second)
        second_moment = 0.25 * (v + first**2) + 0.75 * (w + second**2)
        np.testing.assert_allclose(variance, second_moment - mean**2)
        _, covariance = mixture.joint(X)
        np.testing.assert_allclose(covariance[:, :, 0].diagonal(), variance[:, 0])


class TestOneReleaseForEachKernel:
    """What the class does not do: moments of every kernel's own features, y counted once."""

    @staticmethod
    def change(pair):
        """Squared distance of all moments of two records; rows of phi are kernels', norm 1."""
        (phi, t), (psi, u) = pair  # t = beta y, |t| <= 1 / s
        outer = np.einsum("ki,kj->kij", phi, phi) - np.einsum("ki,kj->kij", psi, psi)
        return np.sum(outer**2) + 2 * np.sum((t * phi - u * psi) ** 2) + (t**2 - u**2) ** 2

    @pytest.mark.slow
    @pytest.mark.parametrize("n_kernels", [1, 2, 5])
    def test_sharing_the_targets_saves_nothing(self, n_kernels):
        rng, bound, most = np.random.default_rng(0), np.sqrt(0.5), 0.0
        for _ in range(4000):
            records = []
            for _ in range(2):
                phi = rng.normal(size=(n_kernels, 2))
                phi /= np.linalg.norm(phi, axis=1, keepdims=True)
                records.append((phi, rng.choice([-bound, bound])))
            most = max(most, self.change(records))
        worst = np.tile([1.0, 0.0], (n_kernels, 1)), np.tile([0.5, np.sqrt(0.75)], (n_kernels, 1))
        attained = self.change([(worst[0], bound), (worst[1], -bound)])
        composed = n_kernels * 2 * 1.5**2  # K times 2 W^4
        assert attained == pytest.approx(composed)
        assert most <= composed * (1 + 1e-12)

    def test_features_of_a_kernel_are_a_short_map_of_the_average_ones(self):
        Z = np.linspace(-3, 3, 9)[:, None]
        shares, total = kernel_shares(KernelFamily.of(KERNELS), Z), 0.0
        average = WhitenedFeatures(average_kernel(KERNELS, Z, shares), Z)
        for kernel, share in zip(KERNELS, shares, strict=True):
            own = WhitenedFeatures(kernel, Z)
            ((T, _),) = feature_maps(average, [own], np.zeros((1, 1)), np.zeros(1), ridge=1.0)
            assert np.linalg.eigvalsh(T @ T.T).max() <= 1 / share * (1 + 1e-9)
            total = total + share * T.T @ T
        np.testing.assert_allclose(total, np.eye(9), atol=1e-9)


class TestMoments:
    """The model with a feature map is the plain one where the map is the identity."""

    @pytest.fixture
    def models(self):
        rng = np.random.default_rng(3)
        Phi = rng.normal(size=(50, 6))
        B, A = Phi.T @ Phi, rng.normal(size=6) * 20
        common = {"sb": 3.0, "sa": 2.0, "syy": 5.0, "n_records": 50, "signal_variance": 1.7}
        return (
            MomentModel(B, A, 60.0, **common),
            MomentModel(B, A, 60.0, features=np.eye(6), **common),
        )

    def test_posterior(self, models):
        plain, mapped = (model.posterior(0.3) for model in models)
        np.testing.assert_allclose(mapped.mean, plain.mean, atol=1e-9)
        np.testing.assert_allclose(mapped.covariance, plain.covariance, atol=1e-9)
        assert mapped.tau2 == pytest.approx(plain.tau2, rel=1e-9)

    def test_evidence_and_residuals(self, models):
        plain, mapped = models
        assert mapped.log_evidence(0.3) == pytest.approx(plain.log_evidence(0.3), rel=1e-9)
        assert mapped.residual_sum(0.3) == pytest.approx(plain.residual_sum(0.3), rel=1e-9)
        assert mapped.elbo(0.3) == pytest.approx(plain.elbo(0.3), rel=1e-9)
        variances = [released_noise_variance(model, 4.0) for model in models]
        assert variances[1] == pytest.approx(variances[0], rel=1e-9)

    def test_evidence_is_the_density_of_what_is_released(self):
        rng = np.random.default_rng(4)
        Phi, T = rng.normal(size=(40, 4)), rng.normal(size=(4, 4))
        B, A = Phi.T @ Phi, rng.normal(size=4) * 10
        model = MomentModel(
            B,
            A,
            9.0,
            sb=1.0,
            sa=2.0,
            syy=1.0,
            n_records=40,
            signal_variance=0.7,
            features=T,
        )
        cov = 0.7 * B @ T.T @ T @ B + 0.2 * B + 4 * np.eye(4)
        law = stats.multivariate_normal(np.zeros(4), cov)
        constant = -0.5 * 4 * np.log(2 * np.pi)
        assert model.log_evidence(0.2) + constant == pytest.approx(law.logpdf(A), rel=1e-9)

    def test_error_of_the_map_is_noise_of_the_observations(self):
        rng = np.random.default_rng(5)
        Phi, T, A = rng.normal(size=(40, 4)), rng.normal(size=(4, 4)), rng.normal(size=4)
        common = {"sb": 1.0, "sa": 2.0, "syy": 1.0, "n_records": 40, "signal_variance": 0.5}
        exact, mapped = (
            MomentModel(Phi.T @ Phi, 9 * A, 9.0, features=T, map_error=error, **common)
            for error in (0.0, 0.3)
        )
        expected, got = exact.posterior(0.2 + 0.15), mapped.posterior(0.2)
        np.testing.assert_allclose(got.covariance, expected.covariance)
        assert mapped.log_evidence(0.2) == exact.log_evidence(0.2)

    def test_dispersion_is_about_one_under_the_model_and_grows_with_the_square(self):
        rng = np.random.default_rng(7)
        Phi, T = rng.normal(size=(60, 30)), rng.normal(size=(30, 30))
        B = Phi.T @ Phi
        cov = 0.7 * B @ T.T @ T @ B + 0.2 * B + 4 * np.eye(30)
        common = {"sb": 1.0, "sa": 2.0, "syy": 1.0, "n_records": 60, "signal_variance": 0.7}
        A = rng.multivariate_normal(np.zeros(30), cov)
        exact = A @ np.linalg.solve(cov, A) / 30
        for factor in (0.1, 3.0):
            model = MomentModel(B, factor * A, 9.0, features=T, **common)
            assert model.dispersion(0.2) == pytest.approx(max(1.0, factor**2 * exact))

    def test_without_noise_it_is_regression_on_the_kernels_own_features(self):
        rng = np.random.default_rng(6)
        phi, T = rng.normal(size=(60, 5)), rng.normal(size=(5, 5))
        own, y = phi @ T.T, rng.normal(size=60)
        model = MomentModel(
            phi.T @ phi,
            phi.T @ y,
            y @ y,
            sb=1e-9,
            sa=1e-9,
            syy=1e-9,
            n_records=60,
            signal_variance=2.0,
            features=T,
        )
        precision = own.T @ own / 0.3 + np.eye(5) / 2.0
        q = model.posterior(0.3)
        mean, covariance = q.mean, q.covariance
        np.testing.assert_allclose(covariance, np.linalg.inv(precision), atol=1e-7)
        np.testing.assert_allclose(mean, np.linalg.solve(precision, own.T @ y / 0.3), atol=1e-6)
        residuals = np.sum((y - own @ mean) ** 2) + np.trace(covariance @ own.T @ own)
        assert model.residual_sum(0.3) == pytest.approx(residuals, rel=1e-6)


def test_a_list_of_one_kernel_is_that_kernel():
    data = records(500)
    listed, plain = (
        fitted(data, kernel, epsilon=3.0, random_state=0)
        for kernel in ([2.0 * RBF(1.0)], 2.0 * RBF(1.0))
    )
    np.testing.assert_array_equal(listed.predict(LINE), plain.predict(LINE))
    assert listed.kernel_probabilities_.tolist() == [1.0]


def test_two_equal_kernels_are_that_kernel():
    data = records(500)
    two, one = (
        fitted(data, kernel, epsilon=3.0, random_state=0)
        for kernel in ([2.0 * RBF(1.0)] * 2, 2.0 * RBF(1.0))
    )
    for got, exact in zip(
        two.predict(LINE, return_std=True), one.predict(LINE, return_std=True), strict=True
    ):
        np.testing.assert_allclose(got, exact, rtol=1e-3, atol=1e-5)  # up to the jitter
    np.testing.assert_allclose(two.kernel_probabilities_, 0.5, atol=1e-3)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("length_scale", [1 / 3, 1.0, 3.0])
def test_it_finds_the_length_scale_and_the_exact_posterior_as_epsilon_grows(length_scale):
    rng = np.random.default_rng(5)
    X = rng.uniform(-4, 4, (400, 1))
    f = GaussianProcessRegressor(RBF(length_scale)).sample_y(X, random_state=1)[:, 0]
    y = f + 0.1 * rng.normal(size=400)
    gp = fitted((X, y), epsilon=1e8, delta=0.5, inducing_points=40, y_bounds=(-5, 5))
    assert gp.kernel_ == RBF(length_scale)
    assert gp.kernel_probabilities_.max() > 0.99
    assert gp.noise_variance_ == pytest.approx(0.01, rel=0.2)
    exact = GaussianProcessRegressor(RBF(length_scale), alpha=0.01, optimizer=None).fit(X, y)
    np.testing.assert_allclose(gp.predict(LINE), exact.predict(LINE), atol=0.03)


def test_predictions_agree_with_each_other():
    gp = fitted(records(2000), epsilon=2.0)
    mean, std = gp.predict(LINE, return_std=True)
    same, covariance = gp.predict(LINE, return_cov=True)
    np.testing.assert_allclose(same, mean, rtol=1e-12)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std, rtol=1e-6, atol=1e-6)
    assert np.linalg.eigvalsh(covariance).min() > -1e-6
    mean, std = gp.predict(gp.inducing_points_, return_std=True)
    np.testing.assert_allclose(gp.mean_, mean, rtol=1e-12)
    np.testing.assert_allclose(np.sqrt(np.diag(gp.covariance_)), std, atol=2e-3)  # jitter
    assert gp.sample_y(LINE, 3).shape == (100, 3)


def test_several_targets_share_the_kernel():
    X, y = records(3000)
    gp = fitted((X, np.column_stack([y, 1 - y])), epsilon=5.0)
    mean, std = gp.predict(LINE, return_std=True)
    assert mean.shape == std.shape == (100, 2)
    assert gp.noise_variance_.shape == (2,)
    assert gp.kernel_probabilities_.shape == gp.log_evidence_.shape == (3,)
    assert np.abs(mean.sum(axis=1) - 1).max() < 0.3


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "parameters",
    [
        {"signal_variance": "released"},
        {"noise_variance": 0.01},
        {"prior_mean": "private"},
        {"prior_mean": "private", "y_scale": 0.5},
    ],
    ids=str,
)
def test_every_setting_finds_the_function(parameters):
    gp = fitted(records(4000), epsilon=4.0, **parameters)
    assert rmse(gp) < 0.08  # of .39 for the constant 0; .02 is usual
    assert gp.kernel_probabilities_.sum() == pytest.approx(1.0)


def test_kernels_of_other_variances_and_shapes():
    kernels = [ConstantKernel(25.0) * Matern(1.0, nu=1.5), ConstantKernel(0.04) * RBF(1.0)]
    gp = fitted(records(4000), kernels, epsilon=4.0)
    assert rmse(gp) < 0.1
    assert np.isfinite(gp.log_evidence_).all()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("epsilon", [1e-3, 1e8])
def test_kernels_that_rounding_makes_singular(epsilon):
    kernels = [1e10 * RBF(50.0), 1e-10 * RBF(50.0), RBF(1e-3)]
    gp = fitted(records(5000), kernels, epsilon=epsilon, signal_variance="released")
    for values in (*gp.predict(LINE, return_std=True), gp.log_evidence_, gp.covariance_):
        assert np.isfinite(values).all()


def test_default_kernels_are_in_public_units():
    Z = np.array([[0.0, -30.0], [6.0, 30.0], [1.0, 0.0]])
    *kernels, rough, linear = default_family(Z, np.array([2.0, 4.0])).kernels[:9]
    np.testing.assert_array_equal(linear.k2.centre, [3, 0])
    np.testing.assert_array_equal(linear.k2.half_width, [3, 30])
    assert rough.k2.nu == 0.5
    np.testing.assert_allclose(rough.k2.length_scale, 2**0.5 * np.array([1, 10]))
    for kernel, factor in zip(kernels, (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8), strict=True):
        np.testing.assert_allclose(kernel.k2.length_scale, factor * 2**0.5 * np.array([1, 10]))
        assert kernel.k1.constant_value == pytest.approx(10 / 6)
    (alone, *_) = default_family(np.zeros((1, 1)), np.ones(1)).kernels  # one point has no range
    assert alone.k2.length_scale == 1 / 8


@pytest.mark.parametrize("parts", [None, np.array([0.9, 0.1]), np.array([0.0, 1.0])])
def test_linear_kernel_is_the_covariance_of_its_functions(parts):
    kernel = LinearKernel(np.array([1.0, -2.0]), np.array([0.5, 4.0]), parts)
    X = np.array([[1.5, 2.0], [1.0, -2.0], [-7.0, 3.0]])
    s = np.clip((X - [1.0, -2.0]) / [0.5, 4.0], -4, 4)  # one value is far outside of the box
    slopes = np.sqrt(1.5 * (np.full(2, 0.5) if parts is None else parts)) * s
    basis = np.hstack([np.full((3, 1), np.sqrt(0.5)), slopes])
    np.testing.assert_allclose(kernel(X), basis @ basis.T)
    np.testing.assert_allclose(kernel(X, X[:2]), (basis @ basis.T)[:, :2])
    np.testing.assert_allclose(kernel.diag(X), (basis**2).sum(axis=1))
    box = kernel.centre + kernel.half_width * np.random.default_rng(0).uniform(-1, 1, (20_000, 2))
    assert kernel.diag(box).mean() == pytest.approx(1.0, abs=0.03)
    assert clone(kernel) == kernel
    assert kernel(X, eval_gradient=True)[1].shape == (3, 3, 0)


def test_a_far_value_does_not_multiply_the_noise_of_a_slope():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 5))
    y = X @ [0.2, -0.1, 0.3, 0.0, 0.0]
    gp = fitted((X, y), None, X_bounds=(-1, 1), y_bounds=(-1, 1), random_state=0)
    mean, std = gp.predict(np.diag([1e4] * 5), return_std=True)
    assert np.abs(mean).max() < 2
    assert std.max() < 5


@pytest.mark.slow
def test_default_finds_a_plane_by_its_linear_kernel():
    rng = np.random.default_rng(0)
    X = rng.uniform(-4, 4, (4000, 3))
    f = X @ [0.2, -0.1, 0.3]
    public = {"inducing_points": 50, "random_state": 0}
    gp = fitted((X, f + 0.1 * rng.normal(size=4000)), None, epsilon=3.0, **public)
    assert gp.kernel_probabilities_[8] > 0.9
    assert np.sqrt(np.mean((gp.predict(X) - f) ** 2)) < 0.05


def test_noise_is_not_taken_for_records_at_the_inducing_points():
    # Planted: inducing points among the support gave a coverage of .46 at this epsilon.
    rng = np.random.default_rng(3)
    X = rng.uniform(-3, 3, (2300, 3))
    f = np.sqrt(2) * np.sin(5 * X @ np.ones(3))  # no kernel can resolve it
    y = f[:2000] + 0.2 * rng.normal(size=2000)
    public = {"inducing_points": None, "X_bounds": (-3, 3), "y_bounds": (-3, 3)}
    gp = fitted((X[:2000], y), None, epsilon=10.0, random_state=0, **public)
    mean, std = gp.predict(X[2000:], return_std=True)
    assert np.mean(np.abs(mean - f[2000:]) < 1.96 * std) > 0.9


def test_units_do_not_matter_to_the_default():
    X, y = records(2000)
    plain = fitted((X, y), None, epsilon=1e6, delta=0.5, X_bounds=(-4, 4), y_bounds=(-2, 2))
    other = fitted(
        (1e4 * X, 1e-3 * y), None, epsilon=1e6, delta=0.5,
        X_bounds=(-4e4, 4e4), y_bounds=(-2e-3, 2e-3),
    )  # fmt: skip
    mean, std = plain.predict(LINE, return_std=True)
    scaled_mean, scaled_std = other.predict(1e4 * LINE, return_std=True)
    np.testing.assert_allclose(1e3 * scaled_mean, mean, atol=1e-3)
    np.testing.assert_allclose(1e3 * scaled_std, std, atol=1e-3)


def test_kernels_of_a_list_have_equal_shares():
    Z = np.linspace(-3, 3, 9)[:, None]
    total = sum(kernel(Z) for kernel in KERNELS) / len(KERNELS)
    np.testing.assert_allclose(average_kernel(KERNELS, Z)(Z), total, atol=1e-15)
    method = fitted(records(50))._method(
        KernelFamily.of(KERNELS), Z, mu=1.0, half_width=np.ones(1), n_records=50
    )
    np.testing.assert_allclose(method.features.kernel(Z), total, atol=1e-15)


def test_shares_favour_what_is_rough_and_can_be_learnt():
    Z = np.linspace(-3, 3, 30)[:, None]
    shares = kernel_shares(KernelFamily.of([RBF(0.01), RBF(0.5), RBF(5.0)]), Z)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[1] > shares[2] > shares[0] > 0


ROUGHNESSES = {
    "short": lambda x: np.sin(6 * x + 1),  # faster sines look like noise at epsilon 3: not covered
    "default": lambda x: np.sin(1.5 * x),
    "smooth": lambda x: (x / 3) ** 2,
    "step": lambda x: np.sign(x - 0.4),
    "periodic": lambda x: np.cos(np.pi * x),
    "linear": lambda x: 0.6 * x,
}


def coverage(function, epsilon, seeds, **parameters):
    """Share of the points of a line within 1.96 standard deviations, on average over seeds."""
    inside, line = [], np.linspace(-2.9, 2.9, 101)[:, None]
    for seed in seeds:
        rng = np.random.default_rng(seed)  # public randomness
        X = rng.uniform(-3, 3, (1500, 1))
        y = function(X[:, 0]) + 0.2 * rng.normal(size=1500)
        gp = DPSparseGPRegressor(
            epsilon=epsilon, X_bounds=(-3, 3), y_bounds=(-3, 3), **parameters
        ).fit(X, y)
        mean, std = gp.predict(line, return_std=True)
        inside.append(np.mean(np.abs(mean - function(line[:, 0])) < 1.96 * std))
    return np.mean(inside)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 3.0, 100.0])
def test_default_bands_cover_functions_of_every_roughness(epsilon):
    covered = {name: coverage(f, epsilon, range(12)) for name, f in ROUGHNESSES.items()}
    assert min(covered.values()) > 0.7, covered
    assert np.mean(list(covered.values())) > 0.88, covered


@pytest.mark.slow
def test_a_single_kernel_that_is_too_smooth_would_not_cover():
    # Planted: the former default.
    assert coverage(ROUGHNESSES["short"], 3.0, range(6), kernel=RBF(1.0)) < 0.5


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"kernel": []}, ValueError),
        ({"kernel": [RBF(1.0), None]}, TypeError),
        ({"kernel": [RBF(1.0), "rbf"]}, TypeError),
        ({"kernel": [RBF(1.0) + WhiteKernel()]}, ValueError),
        ({"kernel": [0.0 * RBF(1.0)]}, ValueError),
        ({"kernel": [RBF([1.0, 2.0])]}, ValueError),
        ({"noise_variance": -1.0}, ValueError),
        ({"epsilon": -1.0}, ValueError),
        ({"signal_variance": "fit"}, ValueError),
    ],
    ids=str,
)
def test_bad_parameters_cost_nothing(parameters, error):
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger, pytest.raises(error):
        fitted(records(10), **{"kernel": KERNELS, **parameters})
    assert not ledger.entries


def test_one_fit_is_charged_once_whatever_the_number_of_kernels():
    gp = DPSparseGPRegressor([RBF(0.1 * k) for k in range(1, 12)], epsilon=1.0, **PUBLIC)
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        gp.fit(*records(50))
        assert len(ledger.entries) == 1
        with pytest.raises(BudgetExceededError):
            gp.fit(*records(50))
    plain = DPSparseGPRegressor(epsilon=1.0, **PUBLIC).privacy_guarantee()
    assert (gp.privacy_.mu, gp.privacy_.epsilon) == (plain.mu, plain.epsilon)
    assert gp.privacy_ == replace(gp.privacy_guarantee(), n_protected=50)


def test_seeded_noise_is_void_and_reproducible():
    data = records(300)
    with pytest.warns(SeededNoiseWarning):
        gp = DPSparseGPRegressor(KERNELS, random_state=3, **PUBLIC).fit(*data)
    again = fitted(data, random_state=3)
    np.testing.assert_array_equal(gp.predict(LINE), again.predict(LINE))
    assert gp.privacy_.status == "void"


def test_parameters_are_left_alone_and_copies_predict():
    kernels = list(KERNELS)
    gp = fitted(records(300), kernels)
    assert gp.kernel is kernels
    assert kernels == KERNELS
    copy = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(copy.predict(LINE), gp.predict(LINE))
    assert clone(gp).kernel == kernels
