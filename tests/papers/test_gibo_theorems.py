"""Sopa et al. (2025): Theorems 3.2, 3.3 and B.2 and Corollaries 3.4 and 3.6, evaluated.

The task of Example 4.1 on a bounded region, where its assumptions hold: losses |theta - x|^2 / 2,
kernel (x'y + 1)^2, so L = tau = 1 and the squared norm of a loss is d/4 + |x|^2 / 2 + |x|^4 / 4.
Counterexamples have next to no noise. All noise is seeded.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct

from _support.internals import PrivateDescent
from skdpbo.mechanisms import noise_source
from skdpbo.surrogate import GradientPosterior

KERNEL = DotProduct(1.0) ** 2
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
        gaps=distances**2 / 2, distances=distances, traces=found.traces, descent=descent,
        squared=distances[:-1] ** 2, records=records, n_points=found.batch_sizes.sum(),
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
    def trace(points, theta):
        posterior = GradientPosterior(RBF(1.0), jitter=1e-12)
        posterior.add(points)
        return posterior.trace(theta)

    @classmethod
    def radius(cls, points, eps):
        """Largest delta of a ball within which the trace stays below eps, on 2 d rays."""
        d, delta = points.shape[1], 0.001
        rays = np.vstack([np.eye(d), -np.eye(d)])
        while max(cls.trace(points, delta * ray) for ray in rays) < eps:
            delta *= 1.05
        return delta / 1.05

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
