"""Gradient posterior against dense formulas and scikit-learn; designs against other optimisers."""

import pickle

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from _support.internals import GradientTrace, differentiable, prior_gradient_covariance
from skdpbo.surrogate import GradientPosterior

KERNELS = {
    "rbf": RBF(0.7),
    "rbf-ard": 1.7 * RBF([0.4, 0.8, 1.6, 0.9]),
    "matern52": 0.6 * Matern(0.8, nu=2.5),
    "constant and rbf": ConstantKernel(3.0) + RBF(0.6),
    "polynomial": DotProduct(1.0) ** 2,
}


def numerical_trace(kernel, theta, D, nugget):
    """Trace by the dense formula with an explicit inverse."""
    term = differentiable(kernel)
    G = term.gradients(theta, D).dx
    M = kernel(D) + nugget * np.eye(len(D))
    return np.trace(prior_gradient_covariance(term, theta) - G @ np.linalg.inv(M) @ G.T)


def trajectory(posterior, theta, *, step, n_designs, batch_size, bounds=None, seed=0):
    """Design, evaluate, move in a slowly turning direction; return the last theta."""
    rng = np.random.RandomState(seed)
    direction = rng.randn(len(theta))
    for _ in range(n_designs):
        posterior.add(posterior.design(theta, batch_size, bounds=bounds))
        direction = 0.7 * direction + 0.7 * rng.randn(len(theta))
        theta = theta + step * direction / np.linalg.norm(direction)
        if bounds is not None:
            theta = np.clip(theta, *bounds)
    return theta


# Posterior


@pytest.mark.parametrize("noise_variance", [0.0, 0.01])
@pytest.mark.parametrize("name", KERNELS)
def test_gradient_is_that_of_scikit_learns_prediction(name, noise_variance):
    rng = np.random.RandomState(0)
    X, y, theta = rng.rand(12, 4), rng.randn(12), rng.rand(4)
    posterior = GradientPosterior(KERNELS[name], noise_variance=noise_variance)
    posterior.add(X[:5])
    posterior.add(X[5:])
    oracle = GaussianProcessRegressor(
        KERNELS[name], alpha=max(noise_variance, 1e-13), optimizer=None
    ).fit(X, y)
    h = 1e-4 * np.eye(4)
    expected = (oracle.predict(theta + h) - oracle.predict(theta - h)) / 2e-4
    np.testing.assert_allclose(posterior.weights(theta) @ y, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("noise_variance", [0.0, 0.01])
@pytest.mark.parametrize("name", KERNELS)
def test_covariance_is_that_of_scikit_learns_differences(name, noise_variance):
    rng = np.random.RandomState(0)
    X, theta = rng.rand(12, 4), rng.rand(4)
    posterior = GradientPosterior(KERNELS[name], noise_variance=noise_variance)
    posterior.add(X)
    oracle = GaussianProcessRegressor(
        KERNELS[name], alpha=max(noise_variance, 1e-13), optimizer=None
    ).fit(X, np.zeros(12))
    h = 1e-3
    pairs = np.concatenate([theta + h * np.eye(4), theta - h * np.eye(4)])
    _, C = oracle.predict(pairs, return_cov=True)
    difference = np.hstack([np.eye(4), -np.eye(4)]) / (2 * h)
    expected = difference @ C @ difference.T
    actual = posterior.gradient_covariance(theta)
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4 * abs(expected).max())
    M = KERNELS[name](X) + max(noise_variance, 1e-13) * np.eye(12)
    G = differentiable(KERNELS[name]).gradients(theta, X).dx
    dense = prior_gradient_covariance(differentiable(KERNELS[name]), theta)
    dense = dense - G @ np.linalg.solve(M, G.T)
    np.testing.assert_allclose(actual, dense, rtol=1e-6, atol=1e-6)
    assert posterior.trace(theta) == pytest.approx(np.trace(dense), rel=1e-6, abs=1e-6)


def test_rows_of_the_kernel_gradient_as_in_the_paper():
    # Row j of dk is -(theta - D_j) / l^2 k(theta, D_j); one point, k(D, D) = 1.
    posterior, theta = GradientPosterior(RBF(0.5)), np.array([0.3, 0.8])
    posterior.add([[0.6, 0.4]])
    k = np.exp(-0.5 * (0.3**2 + 0.4**2) / 0.25)
    expected = -np.array([[-0.3], [0.4]]) / 0.25 * k
    np.testing.assert_allclose(posterior.weights(theta), expected, rtol=1e-9)


def quadratic(rng, d):
    A = rng.randn(d, d)
    A, c, m = A + A.T, rng.randn(d), rng.randn()
    return (lambda X: np.einsum("id,de,ie->i", X, A, X) + X @ c + m), (lambda x: 2 * A @ x + c)


@pytest.mark.parametrize("n_points", [21, 40, 150, 450])
def test_polynomial_kernel_gives_exact_gradients_of_a_quadratic(n_points):
    # The space has 21 dimensions in d = 5: k(D, D) is singular beyond 21 points (Example 4.1).
    rng = np.random.RandomState(0)
    posterior = GradientPosterior(DotProduct(1.0) ** 2)
    D = 1.0 + rng.randn(n_points, 5)
    for block in np.array_split(D, 7):
        posterior.add(block)
    f, gradient = quadratic(rng, 5)
    theta = 1.0 + 0.3 * rng.randn(5)
    np.testing.assert_allclose(posterior.weights(theta) @ f(D), gradient(theta), atol=1e-5)
    assert posterior.trace(theta) < 1e-6
    assert np.isfinite(posterior.weights(theta)).all()


def test_example_41_batches_of_three_suffice_from_the_seventh_iteration_on():
    rng = np.random.RandomState(1)
    posterior = GradientPosterior(DotProduct(1.0) ** 2)
    theta = np.zeros(5)
    f, gradient = quadratic(rng, 5)
    errors = []
    for _ in range(12):
        posterior.add(posterior.design(theta, 3))
        estimate = posterior.weights(theta) @ f(posterior.points)
        errors.append(np.linalg.norm(estimate - gradient(theta)))
        theta = theta + 0.1 * (1.0 - theta) + 0.1 * rng.randn(5)
    assert errors[0] > 0.1
    assert max(errors[6:]) < 1e-3 * np.linalg.norm(gradient(theta))


@pytest.mark.parametrize("kernel", [RBF(0.5), Matern(0.5, nu=2.5), RBF(5.0)])
def test_crowded_and_repeated_points(kernel):
    rng = np.random.RandomState(0)
    theta = np.full(3, 0.5)
    D = theta + 0.05 * rng.randn(150, 3)
    posterior = GradientPosterior(kernel)
    for block in np.array_split(np.concatenate([D, D[:20]]), 10):
        posterior.add(block)
    f = np.sin(posterior.points) @ [1.0, 2.0, -1.0]
    W = posterior.weights(theta)
    np.testing.assert_allclose(W @ f, np.cos(theta) * [1.0, 2.0, -1.0], atol=2e-3)
    eigenvalues = np.linalg.eigvalsh(posterior.gradient_covariance(theta))
    assert eigenvalues.min() > -1e-6
    assert posterior.trace(theta) < 1e-2


def test_one_block_at_a_time_is_all_at_once():
    rng = np.random.RandomState(0)
    D, theta = rng.rand(60, 3), rng.rand(3)
    once, slowly = (GradientPosterior(Matern(0.4, nu=2.5)) for _ in range(2))
    once.add(D)
    for row in D:
        slowly.add(row[None])
    slowly.add(np.empty((0, 3)))
    np.testing.assert_allclose(slowly.weights(theta), once.weights(theta), atol=1e-7)
    np.testing.assert_array_equal(slowly.points, D)
    assert len(slowly) == 60


def test_cache_keeps_the_latest():
    rng = np.random.RandomState(0)
    D, theta = rng.rand(25, 3), rng.rand(3)
    cached = GradientPosterior(RBF(0.4), cache_size=10)
    for block in np.array_split(D, 5):
        cached.add(block)
    fresh = GradientPosterior(RBF(0.4))
    fresh.add(D[-10:])
    np.testing.assert_array_equal(cached.points, D[-10:])
    np.testing.assert_allclose(cached.weights(theta), fresh.weights(theta), atol=1e-9)


def test_before_any_point():
    posterior = GradientPosterior(2.0 * RBF(0.5))
    assert posterior.weights(np.zeros(3)).shape == (3, 0)
    assert posterior.trace(np.zeros(3)) == pytest.approx(3 * 8.0)
    assert len(posterior) == 0


def test_pickle_and_independence_from_the_given_arrays():
    D, theta = np.random.RandomState(0).rand(6, 2), np.array([0.2, 0.3])
    posterior = GradientPosterior(RBF(0.4))
    given = D.copy()
    posterior.add(given)
    before = posterior.weights(theta)
    given[:] = 7.0
    posterior.points[:] = 7.0
    np.testing.assert_array_equal(posterior.weights(theta), before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(posterior)).weights(theta), before)


# Designs


@pytest.mark.parametrize("n_history", [0, 9])
@pytest.mark.parametrize("name", KERNELS)
def test_analytic_gradient_of_the_trace(name, n_history):
    rng = np.random.RandomState(0)
    theta, D, Z = rng.rand(4), rng.rand(n_history, 4), rng.rand(5, 4)
    objective = GradientTrace(differentiable(KERNELS[name]), theta, D, 1e-3)
    value, gradient = objective(Z)
    assert value == pytest.approx(
        numerical_trace(KERNELS[name], theta, np.concatenate([D, Z]), 1e-3), rel=1e-8
    )
    expected = np.empty_like(Z)
    for i in np.ndindex(Z.shape):
        E = np.zeros_like(Z)
        E[i] = 1e-5
        expected[i] = (objective(Z + E)[0] - objective(Z - E)[0]) / 2e-5
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6 * abs(expected).max())


def simplex_trace(rho, d, jitter):
    """Trace of d + 1 points on a regular simplex of radius rho around theta, l = 1, no history.

    Each direction keeps 1 - rho^2 e^{-rho^2} (1 + 1/d) / (1 + jitter - e^{-rho^2 (1 + 1/d)}).
    """
    spread = rho**2 * (1 + 1 / d)
    return d * (1 - spread * np.exp(-(rho**2)) / (1 + jitter - np.exp(-spread)))


@pytest.mark.parametrize("jitter", [1e-4, 5e-6, 1e-2])
@pytest.mark.parametrize("d", [1, 2, 5, 33])
def test_without_history_the_best_simplex_is_found(d, jitter):
    best = min(simplex_trace(rho, d, jitter) for rho in np.geomspace(0.01, 2, 4000))
    posterior = GradientPosterior(RBF(1.0), design_jitter=jitter)
    Z = posterior.design(np.zeros(d), d + 1)
    assert numerical_trace(RBF(1.0), np.zeros(d), Z, jitter) <= best * 1.001


def test_few_points_know_as_many_directions_as_they_can():
    # One point: 1 - max rho^2 e^{-rho^2} = 1 - 1/e. A pair knows one direction, b points b - 1.
    posterior = GradientPosterior(RBF(1.0), design_jitter=1e-6)
    traces = [
        numerical_trace(RBF(1.0), np.zeros(4), posterior.design(np.zeros(4), b), 1e-6)
        for b in (1, 2, 3, 5)
    ]
    np.testing.assert_allclose(traces, [4 - 1 / np.e, 3, 2, 0], atol=0.02)


@pytest.mark.parametrize("batch_size", [8, 12, 21, 40])
def test_more_points_than_a_simplex(batch_size):
    posterior = GradientPosterior(RBF(1.0))
    Z = posterior.design(np.zeros(6), batch_size)
    assert Z.shape == (batch_size, 6)
    single = numerical_trace(RBF(1.0), np.zeros(6), posterior.design(np.zeros(6), 7), 1e-4)
    assert numerical_trace(RBF(1.0), np.zeros(6), Z, 1e-4) < single


def adam(objective, Z, n_steps, learning_rate):
    """The optimiser of the authors' code, with our derivative in place of automatic ones."""
    m, v = np.zeros_like(Z), np.zeros_like(Z)
    for t in range(1, n_steps + 1):
        _, g = objective(Z)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        Z = Z - learning_rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return objective(Z)[0]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("step", [0.05, 0.15, 0.3])
def test_as_good_as_hundreds_of_steps_of_adam(step):
    d = 33
    posterior = GradientPosterior(RBF(0.5))
    theta = trajectory(posterior, np.full(d, 0.5), step=step, n_designs=4, batch_size=34)
    points = posterior.points
    assert len(points) == 136
    Z = posterior.design(theta, 34)
    objective = GradientTrace(differentiable(RBF(0.5)), theta, points, 1e-4)
    start = theta + 1e-5 / np.sqrt(d) * np.random.RandomState(0).randn(34, d)
    # Descents from different starts end in local minima within about 3 % of each other.
    assert objective(Z)[0] <= 1.03 * adam(objective, start, 500, 0.01)


def test_the_goal_for_33_dimensions():
    posterior = GradientPosterior(RBF(0.5))
    theta = trajectory(posterior, np.full(33, 0.5), step=0.15, n_designs=4, batch_size=34)
    Z = np.concatenate([posterior.points, posterior.design(theta, 34)])
    assert numerical_trace(RBF(0.5), theta, Z, 1e-4) <= 0.69


@pytest.mark.parametrize("where", ["corner", "faces", "inside"])
def test_points_stay_in_the_box_and_are_good_there(where):
    d = 8
    theta = {
        "corner": np.zeros(d),
        "faces": np.array([0.0, 1.0, 0.5, 0.0, 0.3, 1.0, 0.5, 0.99]),
        "inside": np.full(d, 0.5),
    }[where]
    posterior = GradientPosterior(RBF(0.5))
    free = numerical_trace(RBF(0.5), theta, posterior.design(theta, d + 1), 1e-4)
    for _ in range(3):
        Z = posterior.design(theta, d + 1, bounds=(np.zeros(d), np.ones(d)))
        assert Z.min() >= 0.0
        assert Z.max() <= 1.0
        posterior.add(Z)
        # On the boundary only one-sided differences are possible: up to a third more.
        assert numerical_trace(RBF(0.5), theta, posterior.points, 1e-4) <= 1.35 * free


def test_best_known_design_of_a_corner():
    # A step along each axis and one along the diagonal, in 33 dimensions: 4.4 % above a simplex.
    objective = GradientTrace(differentiable(RBF(0.5)), np.zeros(33), np.empty((0, 33)), 1e-4)
    Z = GradientPosterior(RBF(0.5)).design(np.zeros(33), 34, bounds=(0.0, 1.0))
    assert Z.min() >= 0.0
    assert objective(Z)[0] <= 1.05 * 1.8032


def test_anisotropic_kernel_is_a_scaled_isotropic_one():
    scales = np.array([0.1, 0.5, 2.0])
    Z = GradientPosterior(RBF(scales)).design(np.zeros(3), 4)
    W = GradientPosterior(RBF(1.0)).design(np.zeros(3), 4)
    a = numerical_trace(RBF(scales), np.zeros(3), Z, 1e-4)
    # Direction i weighs 1 / l_i^2: the trace is not scaled by one number, but no worse.
    assert a <= numerical_trace(RBF(scales), np.zeros(3), W * scales, 1e-4) * 1.0001


@pytest.mark.parametrize("level", [0.1, 1.0, 100.0])
def test_a_constant_in_the_kernel_does_not_change_the_design(level):
    plain = GradientPosterior(2.0 * RBF(0.5)).design(np.zeros(4), 5)
    kernel = ConstantKernel(level) + 2.0 * RBF(0.5)
    Z = GradientPosterior(kernel).design(np.zeros(4), 5)
    a, b = (numerical_trace(kernel, np.zeros(4), points, 2e-4) for points in (Z, plain))
    assert a == pytest.approx(b, rel=1e-3)
    assert np.linalg.norm(Z) == pytest.approx(np.linalg.norm(plain), rel=0.05)


@pytest.mark.parametrize("kernel", [ConstantKernel(2.0), ConstantKernel(0.0) + RBF(0.5)])
def test_kernels_without_a_scale_or_a_level(kernel):
    posterior = GradientPosterior(kernel)
    posterior.add(posterior.design(np.zeros(2), 3))
    assert np.isfinite(posterior.weights(np.zeros(2))).all()


def test_weights_leave_the_level_open():
    # One-sided points: with zero prior mean a constant has a slope, with a constant it has none.
    D = np.array([[0.0, 0.0], [0.3, 0.0], [0.0, 0.3]])
    slopes = []
    for kernel in (RBF(0.5), ConstantKernel(100.0) + RBF(0.5)):
        posterior = GradientPosterior(kernel)
        posterior.add(D)
        slopes.append(np.abs(posterior.weights(np.zeros(2)).sum(axis=1)).max())
    assert slopes[0] > 0.1
    assert slopes[1] < 0.01


def test_noise_spreads_the_points():
    theta = np.zeros(3)
    quiet = GradientPosterior(RBF(1.0)).design(theta, 4)
    noisy = GradientPosterior(RBF(1.0), noise_variance=0.05).design(theta, 4)
    assert np.linalg.norm(noisy, axis=1).min() > 2 * np.linalg.norm(quiet, axis=1).max()


def test_design_is_reproducible_and_more_starts_never_hurt():
    posterior = GradientPosterior(RBF(0.5))
    theta = trajectory(posterior, np.full(6, 0.5), step=0.2, n_designs=3, batch_size=7)
    state = np.random.get_state()[1].copy()
    one, again, many = (posterior.design(theta, 7, n_starts=n) for n in (1, 1, 5))
    np.testing.assert_array_equal(one, again)
    np.testing.assert_array_equal(np.random.get_state()[1], state)
    objective = GradientTrace(differentiable(RBF(0.5)), theta, posterior.points, 1e-4)
    assert objective(many)[0] <= objective(one)[0]


def test_long_history_is_limited_to_the_neighbourhood():
    posterior = GradientPosterior(RBF(0.5))
    rng = np.random.RandomState(0)
    near = 0.5 + 0.2 * rng.randn(200, 3)
    posterior.add(np.concatenate([near, 50.0 + rng.rand(400, 3)]))
    objective, _ = posterior._problem(np.full(3, 0.5), None)
    assert len(objective.D) == 256
    everything = GradientTrace(differentiable(RBF(0.5)), objective.theta, posterior.points, 1e-4)
    assert objective.trace == pytest.approx(everything.trace, abs=1e-9)


# Algorithm 2


@pytest.mark.parametrize("tol", [3.0, 1.0, 0.05])
def test_smallest_batch_for_a_tolerance(tol):
    theta = np.full(5, 0.5)
    posterior = GradientPosterior(RBF(1.0))
    posterior.add(theta + 0.3 * np.eye(5)[:2])
    Z = posterior.design_to_tolerance(theta, tol)

    def reached(b):
        Z = np.concatenate([posterior.points, posterior.design(theta, b)])
        return numerical_trace(RBF(1.0), theta, Z, 1e-4)

    assert 1 <= len(Z) <= 6
    assert reached(len(Z)) <= tol
    assert len(Z) == 1 or reached(len(Z) - 1) > tol


def test_tolerance_reached_already_or_never():
    theta = np.zeros(4)
    posterior = GradientPosterior(RBF(1.0))
    assert posterior.design_to_tolerance(theta, 1e-9).shape == (5, 4)
    assert posterior.design_to_tolerance(theta, 1e-9, 3, bounds=(0.0, 1.0)).shape == (3, 4)
    posterior.add(posterior.design(theta, 5))
    assert posterior.design_to_tolerance(theta, 0.5).shape == (0, 4)
    theta[:2] = 3.0  # an unknown neighbourhood again
    assert len(posterior.design_to_tolerance(theta, 0.5)) == 5


# Checks


@pytest.mark.parametrize(
    "parameters",
    [
        {"noise_variance": -1.0},
        {"jitter": np.nan},
        {"design_jitter": np.inf},
        {"design_jitter": 0.0},
        {"cache_size": 0},
    ],
)
def test_invalid_parameters(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        GradientPosterior(RBF(), **parameters)


def test_invalid_arguments():
    posterior = GradientPosterior(RBF())
    with pytest.raises(TypeError, match=r"nu=1\.5"):
        GradientPosterior(Matern(nu=1.5))
    for points in ([1.0], [[np.nan, 0.0]]):
        with pytest.raises(ValueError, match="points"):
            posterior.add(points)
    posterior.add([[0.0, 0.0]])
    with pytest.raises(ValueError, match="3 features"):
        posterior.add([[0.0, 0.0, 0.0]])
    for theta in ([0.0], [0.0, np.inf], [[0.0, 0.0]]):
        with pytest.raises(ValueError, match="theta"):
            posterior.weights(theta)
    for options in ({"n_starts": 0}, {"max_iter": -1}):
        with pytest.raises(ValueError, match=rf"^{next(iter(options))} must"):
            posterior.design([0.0, 0.0], 2, **options)
    with pytest.raises(ValueError, match="batch_size"):
        posterior.design([0.0, 0.0], 0)
    with pytest.raises(ValueError, match="bound"):
        posterior.design([0.0, 0.0], 2, bounds=(1.0, 0.0))
    with pytest.raises(ValueError, match="tol"):
        posterior.design_to_tolerance([0.0, 0.0], 0.0)
    with pytest.raises(ValueError, match="max_batch_size"):
        posterior.design_to_tolerance([0.0, 0.0], 1.0, 0)
