"""Sopa et al. (2025): Theorems 3.2, 3.3 and B.2 and Corollaries 3.4 and 3.6, evaluated.

The task of Example 4.1 on a bounded region, where its assumptions hold: losses |theta - x|^2 / 2,
kernel (x'y + 1)^2, so L = tau = 1 and the squared norm of a loss is d/4 + |x|^2 / 2 + |x|^4 / 4.
Counterexamples have next to no noise. All noise is seeded.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern

from _support.internals import PrivateDescent
from skdpbo.mechanisms import noise_source
from skdpbo.surrogate import GradientPosterior

KERNEL = DotProduct(1.0) ** 2
GAUSSIAN = RBF(1.0)
DELTA, B = 0.05, 1.0


def descend(records, start, *, n_iter, learning_rate, mu=1e9, tol=None):
    """Run the descent; return gaps, squared gradients, distances and traces of the design."""
    descent = PrivateDescent(
        n_iter=n_iter, mu=mu, clip=B, learning_rate=learning_rate, optimizer="sgd", tol=tol
    )
    found = descent.run(
        lambda points: 0.5 * np.square(records - points[:, None]).sum(axis=2),
        start,
        GradientPosterior(KERNEL),
        noise_source(0),
    )
    optimum = records.mean(axis=0)
    distances = np.linalg.norm(found.trajectory - optimum, axis=1)
    # Assumption 2.9: the gradients of the records along the path are at most B.
    assert np.linalg.norm(records - found.trajectory[:, None], axis=2).max() <= B
    return SimpleNamespace(
        gaps=distances**2 / 2, distances=distances, traces=found.traces, found=found,
        descent=descent, squared=distances[:-1] ** 2, records=records,
        n_points=found.batch_sizes.sum(),
    )  # fmt: skip


def noise_term(run):
    """V of Theorem 3.2."""
    d, n, T, mu = run.records.shape[1], len(run.records), run.descent.n_iter, run.descent.mu
    M = 2 * B**2 * math.sqrt(T) * (4 * math.sqrt(d) + 2 * math.sqrt(2 * math.log(T / DELTA)))
    M /= n * mu
    return M * (2 + M / (2 * B**2))


def squared_norm(run):
    """C_X^2 of the losses in the space of the kernel."""
    squares = np.square(run.records).sum(axis=1)
    return (run.records.shape[1] / 4 + squares / 2 + squares**2 / 4).max()


def first_term(run, printed):
    """2 F_0 L / T, or 2 F_0 / (eta T), which the proof gives."""
    rate = 1.0 if printed else run.descent.learning_rate
    return 2 * run.gaps[0] / (rate * run.descent.n_iter)


def theorem_3_2(run, printed):
    return first_term(run, printed) + squared_norm(run) * run.traces.mean() + 2 * noise_term(run)


def theorem_3_3(run):
    """Bound on the last gap: the contraction and r_geom."""
    T, eta = run.descent.n_iter, run.descent.learning_rate
    weights = (1 - eta) ** np.arange(T - 1, -1, -1)
    r_geom = squared_norm(run) * eta / 2 * (weights @ run.traces) + noise_term(run)
    return (1 - eta) ** T * run.gaps[0] + r_geom


def corollary_3_4(run, printed):
    return math.sqrt((1.0 if printed else 2.0) * theorem_3_3(run))


def corollary_3_6(run, printed):
    """Bounds on the mean squared gradient and on the last gap, for tol."""
    tol, T, eta = run.descent.tol, run.descent.n_iter, run.descent.learning_rate
    bias = squared_norm(run) * tol
    return (
        first_term(run, printed) + bias + 2 * noise_term(run),
        (1 - eta) ** T * run.gaps[0] + bias / 2 + noise_term(run),
    )


@pytest.fixture(scope="module")
def slow_descent():
    """One dimension, all records 0, start 1, step .01: after ten steps at .99^10."""
    return descend(np.zeros((50, 1)), [1.0], n_iter=10, learning_rate=0.01, tol=0.1)


@pytest.fixture(scope="module", params=[None, 0.02])
def private_descent(request):
    """4000 records around 0 in 2 dimensions, mu = 1, step .5, T = 20; Algorithm 1 and 2."""
    rng = np.random.default_rng(0)
    records = rng.uniform(-0.2, 0.2, (4000, 2))
    return descend(records, [0.5, 0.5], n_iter=20, learning_rate=0.5, mu=1.0, tol=request.param)


def test_theorem_3_2_fails_for_short_steps(slow_descent):
    """2 F_0 L / T is the term of eta = 1 / L: the statement allows any smaller eta."""
    assert slow_descent.traces.max() <= 0.1
    mean = slow_descent.squared.mean()
    assert mean == pytest.approx(0.915, abs=1e-3)
    assert theorem_3_2(slow_descent, printed=True) < 0.13
    assert mean < theorem_3_2(slow_descent, printed=False)


def test_corollary_3_6_fails_with_it(slow_descent):
    printed, gap = corollary_3_6(slow_descent, printed=True)
    assert slow_descent.squared.mean() > 7 * printed
    assert slow_descent.squared.mean() < corollary_3_6(slow_descent, printed=False)[0]
    assert slow_descent.gaps[-1] < gap


def test_corollary_3_4_misses_a_factor(slow_descent):
    """tau |theta - theta*|^2 / 2 <= F: the square of the distance is 2 F / tau, not F / tau."""
    assert slow_descent.distances[-1] == pytest.approx(0.99**10, abs=1e-3)
    assert corollary_3_4(slow_descent, printed=True) < 0.69
    assert slow_descent.distances[-1] < corollary_3_4(slow_descent, printed=False)


def test_bounds_hold_for_a_private_descent(private_descent):
    """Far above what is measured: the noise term counts the worst direction at every step."""
    run = private_descent
    assert noise_term(run) == pytest.approx(0.0567, abs=1e-4)
    assert run.squared.mean() < theorem_3_2(run, printed=False)
    assert run.gaps[-1] < theorem_3_3(run) < 0.08
    assert run.gaps[-1] < 1e-3
    assert run.distances[-1] < corollary_3_4(run, printed=False)
    # the terms that a user can read are those of the bounds
    norm, eta = math.sqrt(squared_norm(run)), run.descent.learning_rate
    bias, noise = run.found.error_terms(norm, failure=DELTA)
    first = first_term(run, printed=False)
    assert first + bias + noise == pytest.approx(theorem_3_2(run, printed=False), rel=1e-3)
    bias, noise = run.found.error_terms(norm, failure=DELTA, learning_rate=eta, convexity=1.0)
    first = (1 - eta) ** run.descent.n_iter * run.gaps[0]
    assert first + bias + noise == pytest.approx(theorem_3_3(run), rel=1e-3)
    if run.descent.tol:
        assert run.traces.max() <= run.descent.tol
        assert run.n_points < 60  # Algorithm 2 evaluates fewer than (d + 1) T points
        mean, gap = corollary_3_6(run, printed=False)
        assert run.squared.mean() < mean
        assert run.gaps[-1] < gap


@pytest.mark.slow
def test_algorithm_2_saves_evaluations():
    """Example 4.1, T = 150, d = 5, mu = 2: tol .1 takes 38 points at most, b = 3 takes 450."""
    for seed in range(2):
        records = np.random.default_rng(seed).normal(1.0, 1.0, (50, 5))
        ends = []
        for how in ({"batch_size": 3}, {"tol": 0.1}):
            descent = PrivateDescent(
                n_iter=150, mu=2.0, learning_rate=0.1, optimizer="sgd", clip=B, **how
            )
            found = descent.run(
                lambda points, records=records: (
                    0.5 * np.square(records - points[:, None]).sum(axis=2)
                ),
                np.zeros(5),
                GradientPosterior(KERNEL),
                noise_source(seed),
            )
            distances = np.linalg.norm(found.trajectory - records.mean(axis=0), axis=1)
            ends.append((found.batch_sizes.sum(), distances[-50:].mean()))
        (n_fixed, far_fixed), (n_saved, far_saved) = ends
        assert n_fixed == 450
        assert n_saved < 45
        assert far_saved == pytest.approx(far_fixed, rel=0.01)


class TestTheoremB2:
    """A finite set of points that makes the trace at most epsilon in a whole ball."""

    @staticmethod
    def stencil(d, eps):
        """d + 1 points around 0 with a trace below eps / 2."""
        simplex = np.vstack([np.zeros(d), np.eye(d)]) - 1 / (d + 1)
        width = 1.0
        while TestTheoremB2.trace(width * simplex, np.zeros(d)) >= eps / 2:
            width *= 0.9
        return width * simplex

    @staticmethod
    def trace(points, *thetas, kernel=GAUSSIAN):
        posterior = GradientPosterior(kernel, jitter=1e-12)
        posterior.add(points)
        return max(posterior.trace(theta) for theta in thetas)

    @classmethod
    def radius(cls, points, eps):
        """Largest delta of a ball within which the trace stays below eps, on 2 d rays."""
        d, delta = points.shape[1], 0.001
        rays = np.vstack([np.eye(d), -np.eye(d)])
        while max(cls.trace(points, delta * ray) for ray in rays) < eps:
            delta *= 1.05
        return delta / 1.05

    @pytest.mark.slow
    def test_ten_parameters(self):
        """Half of the prior trace, 10, takes 2e11 points: none is met twice."""
        delta = self.radius(self.stencil(10, 5.0), 5.0)
        assert 11 * (2 * math.sqrt(10) / delta) ** 10 > 1e11

    @pytest.mark.parametrize("d", [1, 2])
    def test_finite_set_and_its_size(self, d):
        """(d + 1) (2 r sqrt d / delta)^d points, and delta falls as sqrt(eps).

        So the number grows as eps^(-d/2); the printed order of T has log(1 / eps) alone.
        """
        deltas = []
        for eps in (0.03, 0.0003):
            points = self.stencil(d, eps)
            deltas.append(self.radius(points, eps))
            # stationary: one cell of the cover stands for all
            cell = deltas[-1] / math.sqrt(d) * np.random.default_rng(1).uniform(-1, 1, (10, d))
            assert max(self.trace(points, theta) for theta in cell) < eps
        assert deltas[0] / deltas[1] == pytest.approx(10, rel=0.3)

    @classmethod
    def worst(cls, n, kernel=GAUSSIAN, radius=2.0):
        """Largest trace in [-radius, radius] for n Chebyshev points."""
        nodes = radius * np.cos(np.pi * (np.arange(n) + 0.5) / n)
        grid = np.linspace(-radius, radius, 4 * n + 1)
        return cls.trace(nodes[:, None], *grid[:, None], kernel=kernel)

    def test_any_batch_in_one_parameter(self):
        """Gaussian kernel: log(1 / eps) points serve the whole ball, so that all can be visited."""
        for n in (2, 4, 6):  # the bound by Rolle's theorem, of a unit interval
            bound = math.prod(range(1, 2 * n, 2)) / math.factorial(n - 1) ** 2
            assert self.worst(n, radius=0.5) < bound
        assert bound < 1
        sizes = [next(n for n in range(2, 20) if self.worst(n) < 0.1**k) for k in range(1, 7)]
        assert sizes == [6, 8, 9, 10, 12, 13]
        assert self.worst(10) < 3e-4  # where the proof's set has 404 points

    def test_rough_kernel(self):
        """Twice as many points divide the largest trace by 2^(2 nu - 2) = 8: a power of eps."""
        traces = [self.worst(n, kernel=Matern(1.0, nu=2.5)) for n in (32, 64, 128)]
        assert np.divide(traces[:-1], traces[1:]) == pytest.approx(8, rel=0.08)

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(("d", "b"), [(2, 2), (3, 2), (3, 3)])
    @pytest.mark.parametrize(
        ("kernel", "fourth"),
        [(GAUSSIAN, 1 / 8), (Matern(1.0, nu=2.5), 25 / 24)],
        ids=["rbf", "2.5"],
    )
    def test_batches_of_two_or_more_points_contract(self, d, b, kernel, fourth):
        """Root of the trace: at most (1 - (b - 1) / d)^(1/2) (the last one + c times the step).

        c^2 = (8 d + 16) times the coefficient of r^4 in the kernel.
        """
        posterior = GradientPosterior(kernel, jitter=1e-13, design_jitter=1e-12)
        share, c, jitter = math.sqrt(1 - (b - 1) / d), math.sqrt((8 * d + 16) * fourth), 3e-4
        theta, distances = np.full(d, 0.6), []
        before = math.sqrt(posterior.trace(theta))
        for t in range(24):
            posterior.add(posterior.design(theta, b))
            root = math.sqrt(posterior.trace(theta))
            assert root <= share * before + jitter
            if t == 0:
                assert root == pytest.approx(share * before, abs=0.01)  # attained
            values = -kernel(posterior.points, np.zeros((1, d)))[:, 0]
            step = 0.5 * posterior.weights(theta) @ values
            theta = theta - step
            before = math.sqrt(posterior.trace(theta))
            assert before <= root + c * np.linalg.norm(step) + jitter
            distances.append(np.linalg.norm(theta))
        assert distances[11] < 0.01
        assert distances[23] < 1e-5

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("d", [2, 3])
    def test_single_points_are_geometric_where_measured(self, d):
        """No proof: f = -k(., 0) from a distance of .6 root d, step .5, one point a step."""
        posterior = GradientPosterior(GAUSSIAN, jitter=1e-13, design_jitter=1e-8)
        theta, distances = np.full(d, 0.6), []
        for _ in range(30):
            posterior.add(posterior.design(theta, 1))
            values = -GAUSSIAN(posterior.points, np.zeros((1, d)))[:, 0]
            theta = theta - 0.5 * posterior.weights(theta) @ values
            distances.append(np.linalg.norm(theta))
        assert distances[29] < 0.01 * distances[19] < 2e-4

    @staticmethod
    def failures(n, *, eps, T, rate=0.5, n_runs=20_000):
        """Share of descents with F_T >= eps, and its least value over all that precedes.

        Losses -k(., 0), d = 1, b = 2 (exact gradients), B = mu = 1, start .3.
        """
        sd = 2 * math.sqrt(T) / n
        far = math.sqrt(-2 * math.log1p(-eps))  # |theta| where F = eps
        rng, theta = np.random.default_rng(0), np.full(n_runs, 0.3)
        for _ in range(T):
            slope = theta * np.exp(-0.5 * theta**2)
            theta = theta - rate * (slope + sd * rng.normal(size=n_runs))
        # the last noise is independent and Gaussian: failure is least likely around 0 (Anderson)
        return np.mean(np.abs(theta) >= far), np.log(2) + stats.norm.logsf(far / (rate * sd))

    def test_printed_number_of_records_does_not_know_the_probability(self):
        """n of order sqrt(T) (sqrt d + sqrt log(T / eps)) / eps fails more often than some xi.

        For every constant: the chance of a failure has a lower bound without xi. The proof has
        log(T / xi).
        """
        eps, T = 0.1, 30
        printed = math.sqrt(T) * (1 + math.sqrt(math.log(T / eps))) / eps
        share, least = self.failures(0.04 * printed, eps=eps, T=T)
        assert share > math.exp(least) > 0.1  # xi = .1 is promised, too
        for constant in (0.1, 1.0, 60.0):
            _, least = self.failures(constant * printed, eps=eps, T=T, n_runs=1)
            assert -math.inf < least < 0  # so that a smaller xi refutes it
        for xi in (1e-2, 1e-6, 1e-12):  # the proof's, tau = .6
            n = 18 / 0.6 * math.sqrt(T) * (4 + math.sqrt(2 * math.log(T / xi))) / eps
            share, least = self.failures(n, eps=eps, T=T)
            assert share == 0
            assert least < math.log(xi)
