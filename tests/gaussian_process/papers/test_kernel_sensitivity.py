"""Bounds on the norm of k_Z(x) and the joint sensitivity, against brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.optimize import minimize, minimize_scalar
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from _support.internals import (
    NORM_BOUNDS,
    _upper,
    _values,
    certified_norm,
    grid_axes,
    grid_centre_norm,
    joint_sensitivity,
    largest_squared_norm,
    line_norm,
    optimal_ratio,
    product_grid_norm,
    searched_norm,
    separation_norm,
    spectral_norm,
    stationary_kernel,
    trivial_norm,
)
from _support.planted import put
from _support.published_sensitivity import published_sensitivity
from skdpbo.gaussian_process import DPSparseGPRegressor

PROVED = [trivial_norm, spectral_norm, separation_norm, searched_norm, certified_norm]

KERNELS = {
    "rbf": RBF(0.8),
    "scaled": 2.5 * RBF(1.3),
    "matern12": Matern(0.7, nu=0.5),
    "matern32": Matern(1.1, nu=1.5),
    "matern52": 0.3 * Matern(0.9, nu=2.5),
    "matern_other": Matern(0.9, nu=0.8),
    "matern_inf": Matern(0.9, nu=np.inf),
    "rational": RationalQuadratic(0.8, alpha=0.6),
    "sum": RBF(0.5) + 0.5 * Matern(2.0, nu=1.5) + ConstantKernel(0.1),
    "product": RBF(0.9) * RationalQuadratic(1.5, alpha=1.0) * 1.7,
    "sum_of_products": (RBF(0.7) + ConstantKernel(0.2)) * (Matern(1.0, nu=0.5) + 0.1 * RBF(3.0)),
}


def squared_norm(kernel, Z, x):
    return float(np.sum(kernel(Z, np.atleast_2d(x)) ** 2))


def brute_force_norm(kernel, Z, seed=0, starts=6):
    """Largest norm found by random search, the inducing points and local ascent."""
    rng = np.random.default_rng(seed)
    low, high = Z.min(axis=0) - 0.5, Z.max(axis=0) + 0.5
    points = np.vstack([Z, Z.mean(axis=0), rng.uniform(low, high, (400, Z.shape[1]))])
    values = (kernel(Z, points) ** 2).sum(axis=0)
    best = values.max()
    for i in np.argsort(-values)[:starts]:
        found = minimize(lambda x: -squared_norm(kernel, Z, x), points[i], method="L-BFGS-B")
        best = max(best, -found.fun)
    return math.sqrt(best)


@st.composite
def designs(draw, max_points=12):
    """Inducing points: scattered, clustered, duplicated or far away."""
    p = draw(st.integers(1, 3))
    d = draw(st.integers(1, max_points))
    Z = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).normal(size=(d, p))
    Z *= draw(st.sampled_from([0.1, 1.0, 3.0]))
    if draw(st.booleans()):
        Z[-1] = Z[0]  # duplicates
    if draw(st.booleans()):
        Z[-1] += 1e4  # an outlier
    return Z


class TestProvedBounds:
    @pytest.mark.slow
    @pytest.mark.parametrize("bound", PROVED, ids=lambda f: f.__name__)
    @given(Z=designs(), name=st.sampled_from(sorted(KERNELS)), seed=st.integers(0, 99))
    @settings(max_examples=15, deadline=None)
    def test_no_input_exceeds_the_bound(self, bound, Z, name, seed):
        kernel = KERNELS[name]
        assert brute_force_norm(kernel, Z, seed, starts=1) <= bound(kernel, Z)

    @pytest.mark.slow
    @given(Z=designs(), seed=st.integers(0, 99), isotropic=st.booleans())
    @settings(max_examples=15, deadline=None)
    def test_one_length_scale_per_feature(self, Z, seed, isotropic):
        scales = np.exp(np.random.default_rng(seed).normal(size=(2, Z.shape[1])))
        kernel = RBF(scales[0]) if isotropic else RBF(scales[0]) + Matern(scales[1], nu=1.5)
        largest = brute_force_norm(kernel, Z, seed, starts=1)
        assert all(largest <= bound(kernel, Z) for bound in PROVED)

    @pytest.mark.slow
    @given(st.lists(st.floats(-3, 3), min_size=1, max_size=12), st.sampled_from(sorted(KERNELS)))
    @settings(max_examples=60, deadline=None)
    def test_points_on_a_line(self, points, name):
        Z, kernel = np.array(points)[:, None], KERNELS[name]
        x = np.concatenate([np.linspace(-3.5, 3.5, 400), points])[:, None]
        largest = math.sqrt((kernel(Z, x) ** 2).sum(axis=0).max())
        assert largest <= line_norm(kernel, Z)
        assert largest <= certified_norm(kernel, Z)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", sorted(KERNELS))
    @pytest.mark.parametrize("p", [1, 2])
    def test_certified_is_the_supremum(self, name, p):
        Z = np.random.default_rng(p).uniform(0, 3, size=(10, p))
        largest = brute_force_norm(KERNELS[name], Z, starts=12)
        certified = certified_norm(KERNELS[name], Z)
        assert largest <= certified <= largest * (1 + 2e-3)

    @pytest.mark.parametrize("nu", [0.01, 0.1, 0.5])
    def test_rough_kernels_nearer_than_scikit_learn_takes_zero(self, nu):
        Z, kernel = np.array([[0.0], [1.0]]), Matern(1.0, nu=nu)
        largest = max(np.linalg.norm(kernel([[x]], Z)) for x in (0.0, 1e-150, 1e-60, 1e-20))
        assert all(largest <= bound(kernel, Z) for bound in PROVED)

    @pytest.mark.parametrize("p", [1, 2, 3])
    def test_gaussian_kernels_are_searched_to_the_end(self, p):
        Z = np.random.default_rng(7).uniform(0, 3, size=(20, p))
        upper, lower = largest_squared_norm(stationary_kernel(RBF(1.0), p), Z)
        assert lower <= upper <= lower * (1 + 1e-6)
        assert math.sqrt(lower) == pytest.approx(brute_force_norm(RBF(1.0), Z, starts=20), rel=1e-6)

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("max_boxes", [1, 2, 50, 1000])
    def test_the_bound_is_valid_whenever_the_search_stops(self, max_boxes):
        Z = np.random.default_rng(3).uniform(0, 2, size=(15, 4))
        kernel = stationary_kernel(Matern(1.0, nu=1.5), 4)
        upper, lower = largest_squared_norm(kernel, Z, max_boxes=max_boxes)
        reference = brute_force_norm(Matern(1.0, nu=1.5), Z, starts=20) ** 2
        assert lower <= reference * (1 + 1e-9) <= upper * (1 + 2e-9)

    @given(designs(), st.integers(0, 99), st.sampled_from([0.01, 0.3, 2.0]), st.booleans())
    @settings(max_examples=60, deadline=None)
    def test_the_bound_of_a_box_holds_everywhere_in_it(self, Z, seed, size, gaussian):
        rng, p = np.random.default_rng(seed), Z.shape[1]
        kernel = 1.3 * RBF(np.exp(rng.normal(size=p)))
        kernel = stationary_kernel(kernel if gaussian else kernel + Matern(1.0), p)
        low = Z[rng.integers(len(Z))] + rng.normal(size=p) * 0.5
        high = low + size * rng.random(p)
        inside = np.vstack([low, high, rng.uniform(low, high, (200, p))])
        bound = _upper(kernel, Z, np.stack([low, high])[:, None])[0]
        assert _values(kernel, Z, inside).max() <= bound * (1 + 1e-12)

    def test_every_certified_bound_is_at_most_the_trivial_one(self):
        Z = np.zeros((5, 2))  # all at one place: Eq. (4) is attained
        assert certified_norm(RBF(1.0), Z) == trivial_norm(RBF(1.0), Z)
        assert trivial_norm(RBF(1.0), Z) == pytest.approx(math.sqrt(5), rel=1e-8)

    def test_one_inducing_point(self):
        Z = np.array([[0.3, 0.1]])
        for bound in PROVED:
            assert bound(2.0 * RBF(1.0), Z) == pytest.approx(2.0, rel=1e-8)

    def test_planted_bug_expansion_without_curvature_is_caught(self, monkeypatch):
        def planted(kernel, Z, low, high, nearest):
            centre = 0.5 * (low + high) - Z
            return np.square(kernel.value(np.abs(centre))).sum(axis=1)

        put(monkeypatch, "branch and bound: _expansion", planted)
        Z = np.array([[-1.2], [1.2], [1.3]])
        assert searched_norm(RBF(0.5), Z) < brute_force_norm(RBF(0.5), Z)


class TestGrids:
    @pytest.mark.quick_cases(4)
    @pytest.mark.parametrize("sizes", [(3,), (3, 3), (5, 3), (3, 3, 3), (9, 5)])
    @pytest.mark.parametrize("spacing", [0.4, 1.0, 2.5])
    def test_centre_of_an_odd_grid_is_the_supremum(self, sizes, spacing):
        axes = [spacing * (i + 1) * np.arange(size) for i, size in enumerate(sizes)]
        Z = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(sizes))
        kernel = 1.5 * RBF(np.linspace(1.0, 1.4, len(sizes)))
        centre = grid_centre_norm(kernel, Z)
        assert certified_norm(kernel, Z) == pytest.approx(centre, rel=2e-6)
        assert certified_norm(kernel, Z) >= brute_force_norm(kernel, Z, starts=2)

    def test_centre_of_an_even_grid_is_no_bound(self):
        """The counterexample of docs/theory: 4 x 4 points, spacing 3."""
        Z = np.stack(np.meshgrid(3.0 * np.arange(4), 3.0 * np.arange(4)), -1).reshape(-1, 2)
        assert squared_norm(RBF(1.0), Z, Z.mean(axis=0)) == pytest.approx(0.0444, abs=1e-4)
        assert certified_norm(RBF(1.0), Z) ** 2 == pytest.approx(1.0005, abs=1e-4)
        with pytest.raises(ValueError, match="odd along every axis"):
            grid_centre_norm(RBF(1.0), Z)

    def test_centre_of_scattered_points_is_no_bound(self):
        Z = np.random.default_rng(0).uniform(0, 4, size=(30, 2))
        assert squared_norm(RBF(1.0), Z, Z.mean(axis=0)) < 0.95 * certified_norm(RBF(1.0), Z) ** 2

    @pytest.mark.parametrize("kernel", [Matern(1.0, nu=1.5), RBF(1.0) + RBF(2.0)])
    def test_centre_needs_gaussian_kernels(self, kernel):
        with pytest.raises(ValueError, match="RBF kernels"):
            grid_centre_norm(kernel, np.array([[-1.0], [0.0], [1.0]]))

    def test_irregular_grids_have_no_centre(self):
        with pytest.raises(ValueError, match="regular grid"):
            grid_centre_norm(RBF(1.0), np.array([[0.0], [1.0], [5.0]]))

    def test_product_grids_agree_with_the_search(self):
        Z = np.array([[a, b] for a in (0.0, 0.3, 2.0, 2.5) for b in (-1.0, 0.1, 0.2)])
        kernel = 0.7 * RBF([0.5, 1.5]) * RBF(2.0)
        product = product_grid_norm(kernel, Z)
        assert product == pytest.approx(searched_norm(kernel, Z), rel=2e-6)
        assert product_grid_norm(Matern(1.0), Z) is None
        assert product_grid_norm(kernel, Z[:-1]) is None

    def test_grid_axes(self):
        Z = np.array([[1.0, 5.0], [1.0, 6.0], [0.0, 6.0], [0.0, 5.0]])
        assert [axis.tolist() for axis in grid_axes(Z)] == [[0.0, 1.0], [5.0, 6.0]]
        assert grid_axes(np.vstack([Z[:3], Z[:1]])) is None


class TestNames:
    def test_methods(self):
        Z = np.linspace(-3, 3, 9)[:, None]
        plane = np.random.default_rng(0).normal(size=(5, 2))
        assert NORM_BOUNDS["certified"](RBF(1.0), Z) == certified_norm(RBF(1.0), Z)
        assert NORM_BOUNDS["tight"](RBF(1.0), Z) == grid_centre_norm(RBF(1.0), Z)
        assert NORM_BOUNDS["generic"](RBF(1.0), Z) == line_norm(RBF(1.0), Z)
        assert NORM_BOUNDS["generic"](RBF(1.0), plane) == separation_norm(RBF(1.0), plane)
        assert NORM_BOUNDS["trivial"](RBF(1.0), Z) == trivial_norm(RBF(1.0), Z)
        with pytest.raises(ValueError, match="sensitivity must be"):
            DPSparseGPRegressor(sensitivity="best").fit(Z, Z[:, 0])

    def test_eq_7_is_for_a_line(self):
        with pytest.raises(ValueError, match="on a line"):
            line_norm(RBF(1.0), np.zeros((3, 2)))

    @pytest.mark.parametrize(
        "kernel", [DotProduct(), ExpSineSquared(), WhiteKernel(), RBF(1.0) + WhiteKernel()]
    )
    def test_other_kernels_are_refused(self, kernel):
        with pytest.raises(TypeError, match="kernel must be made of"):
            certified_norm(kernel, np.zeros((2, 1)))

    def test_a_subclass_is_another_function(self):
        class Mine(RBF):
            pass

        with pytest.raises(TypeError, match="Mine"):
            trivial_norm(Mine(1.0), np.zeros((2, 1)))

    @pytest.mark.parametrize(
        "kernel", [RBF([1.0, 2.0]), RBF(np.nan), RBF(-1.0), ConstantKernel(np.inf) * RBF(1.0)]
    )
    def test_bad_parameters_are_refused(self, kernel):
        with pytest.raises(ValueError, match="kernel"):
            trivial_norm(kernel, np.zeros((2, 1)))


class TestKernelsAsRead:
    @given(Z=designs(6), name=st.sampled_from(sorted(KERNELS)), seed=st.integers(0, 99))
    @settings(max_examples=60, deadline=None)
    def test_values_are_those_of_scikit_learn(self, Z, name, seed):
        x = np.random.default_rng(seed).normal(size=(20, Z.shape[1]))
        read = stationary_kernel(KERNELS[name], Z.shape[1])
        values = read.value(x[:, None] - Z)
        np.testing.assert_allclose(values, KERNELS[name](x, Z), rtol=1e-9, atol=1e-12)
        assert read.variance == pytest.approx(KERNELS[name].diag(x)[0], rel=1e-12)

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 0.8, 3.3])
    def test_rounding_is_far_below_what_the_bounds_allow(self, nu):
        """Against 40 digits, wherever the value is not negligible: 1e-12 (p + 3) is claimed."""
        rng = np.random.default_rng(0)
        Z, x = rng.normal(size=(2, 30, 2)) * 2
        scale, alpha = np.array([0.3, 1.7]), 0.7
        kernel = 1.3 * RBF(scale) + Matern(scale, nu=nu) * RationalQuadratic(0.9, alpha)
        values = stationary_kernel(kernel, 2).value(x - Z)
        with mp.workdps(40):
            for value, a, b in zip(values, x, Z, strict=True):
                o = [(mpf(float(u)) - mpf(float(w))) for u, w in zip(a, b, strict=True)]
                q = sum((c / mpf(float(length))) ** 2 for c, length in zip(o, scale, strict=True))
                r = mp.sqrt(2 * nu * q)
                matern = 2 ** (1 - mpf(nu)) / mp.gamma(nu) * r**nu * mp.besselk(nu, r)
                plain = sum(c * c for c in o) / mpf(0.9) ** 2
                exact = (
                    mpf(1.3) * mp.exp(-q / 2) + matern * (1 + plain / (2 * mpf(alpha))) ** -alpha
                )
                assert abs(float(mpf(float(value)) / exact - 1)) < 5e-12

    def test_products_of_gaussians_have_one_scaled_distance(self):
        assert stationary_kernel(RBF([1, 2]) * RBF([3, 1]), 2).common_precision is not None
        assert stationary_kernel(RBF([1, 2]) + RBF([2, 4]), 2).common_precision is not None
        assert stationary_kernel(RBF([1, 2]) + RBF([2, 1]), 2).common_precision is None

    def test_eq_8_falls_back_to_eq_4(self):
        Z = np.random.default_rng(0).normal(size=(5, 2))
        kernel = RBF([1, 2]) + RBF([2, 1])
        assert separation_norm(kernel, Z) == trivial_norm(kernel, Z)


def change(k, y, k2, y2, c):
    """Eq. (29): distance of the two records' terms, in units of A."""
    dA = y * k - y2 * k2
    dB = np.outer(k, k) - np.outer(k2, k2)
    return math.sqrt(dA @ dA + c * np.sum(dB * dB))


def worst_pair(k_norm, y_norm, c, d=3):
    """Two records that attain the joint sensitivity: y' = -y, <k, k'> = min(R_y^2/2c, R_k^2)."""
    cosine = min(y_norm**2 / (2 * c * k_norm**2), 1.0)
    k, k2 = np.zeros(d), np.zeros(d)
    k[0] = k_norm
    k2[:2] = k_norm * cosine, k_norm * math.sqrt(1 - cosine**2)
    return k, y_norm, k2, -y_norm


positive = st.floats(0.05, 20.0)


class TestJointSensitivity:
    @given(positive, positive, positive, st.integers(0, 2**32 - 1))
    @settings(max_examples=150, deadline=None)
    def test_no_pair_of_records_exceeds_it_and_one_attains_it(self, k_norm, y_norm, c, seed):
        delta = joint_sensitivity(k_norm, y_norm, c)
        rng = np.random.default_rng(seed)
        for _ in range(20):
            k, k2 = rng.normal(size=(2, 3))
            k2 = k2 if rng.random() < 0.5 else k + 0.3 * k2  # nearly parallel
            k *= k_norm * rng.choice([1.0, rng.random()]) / np.linalg.norm(k)
            k2 *= k_norm * rng.choice([1.0, rng.random()]) / np.linalg.norm(k2)
            y, y2 = y_norm * rng.choice([1.0, -1.0, rng.uniform(-1, 1)], 2)
            assert change(k, y, k2, y2, c) <= delta
        attained = change(*worst_pair(k_norm, y_norm, c), c)
        assert attained == pytest.approx(delta, rel=1e-9)

    @given(positive, positive, positive)
    def test_the_printed_form_is_valid_and_sometimes_loose(self, k_norm, y_norm, c):
        ours, printed = (
            joint_sensitivity(k_norm, y_norm, c),
            published_sensitivity(k_norm, y_norm, c),
        )
        assert ours <= printed * (1 + 1e-12)
        if y_norm**2 <= 2 * c * k_norm**2:
            assert ours == pytest.approx(printed, rel=1e-9)
        else:
            assert ours == pytest.approx(2 * k_norm * y_norm, rel=1e-9)

    def test_nonnegative_kernel_values_do_not_help(self):
        """The pair that attains it has k, k' >= 0: only y changes sign."""
        k, y, k2, y2 = worst_pair(1.0, 3.0, 1.0)
        assert (k >= 0).all()
        assert (k2 >= 0).all()
        assert change(k, y, k2, y2, 1.0) == pytest.approx(6.0)

    @pytest.mark.parametrize("planted", [math.sqrt(0.5), 0.5])
    def test_planted_factors_are_caught(self, planted):
        k_norm, y_norm, c = 1.3, 0.9, 1.0
        wrong = planted * joint_sensitivity(k_norm, y_norm, c)
        assert change(*worst_pair(k_norm, y_norm, c), c) > wrong

    def test_same_target_underestimates(self):
        """Asymmetry: with y' = y the change is smaller, so a test of that alone proves nothing."""
        k, y, k2, _ = worst_pair(1.0, 1.0, 1.0)
        assert change(k, y, k2, y, 1.0) < 0.8 * joint_sensitivity(1.0, 1.0, 1.0)

    @given(positive, positive, st.integers(0, 2**32 - 1))
    @settings(max_examples=100, deadline=None)
    def test_several_targets(self, k_norm, y_norm, seed):
        delta = joint_sensitivity(k_norm, y_norm, 1.0)
        rng = np.random.default_rng(seed)
        k, k2, y, y2 = (v / np.linalg.norm(v) for v in rng.normal(size=(4, 3)))
        y2 = -y if rng.random() < 0.5 else y2
        dA = k_norm * y_norm * (np.outer(k, y) - np.outer(k2, y2))
        dB = k_norm**2 * (np.outer(k, k) - np.outer(k2, k2))
        assert math.sqrt(np.sum(dA**2) + np.sum(dB**2)) <= delta


class TestRatio:
    @pytest.mark.parametrize(("k_norm", "y_norm"), [(1.0, 1.0), (1.5, 0.3), (0.2, 4.0)])
    @pytest.mark.parametrize("gain", [0.5, 1.0, 27.0, 100.0])
    def test_optimal_ratio_minimises_the_noise_of_a_fit(self, k_norm, y_norm, gain):
        def variance(log_ratio):
            c = math.exp(log_ratio)
            return joint_sensitivity(k_norm, y_norm, c) ** 2 * (
                1 + gain * (y_norm / k_norm) ** 2 / c
            )

        best = optimal_ratio(k_norm, y_norm, gain)
        found = minimize_scalar(variance, (math.log(best) - 1, math.log(best) + 1))
        assert math.exp(found.x) == pytest.approx(best, rel=1e-4)
        scan = min(variance(v) for v in np.linspace(math.log(best) - 9, math.log(best) + 9, 1000))
        assert variance(math.log(best)) <= scan

    def test_noise_alone_asks_for_s_2_equal_to_2(self):
        assert optimal_ratio(1.5, 0.3) == pytest.approx((0.3 / 1.5) ** 2)
