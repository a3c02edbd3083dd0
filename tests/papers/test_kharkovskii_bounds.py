"""Kharkovskii, Dai & Low (2020): Lemma 1, Theorem 2 for all pairs, and the bound of Theorem 3.

All draws are seeded.
"""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF

from _support.internals import published_transform
from skdpbo.gaussian_process import GPUCBModeler, ProjectionRelease
from skdpbo.privacy import PrivacyGuarantee

DELTA_UCB = 0.05


def components(n, mu, nu):
    """Smallest r of Lemma 1."""
    return math.ceil(8 * math.log(n**2 / mu) / nu**2)


@pytest.mark.parametrize("n", [2, 100, 10_000])
@pytest.mark.parametrize(("mu", "nu"), [(0.025, 0.49), (0.5, 0.49), (0.5, 0.1), (0.99, 0.03)])
def test_lemma_1_by_the_exact_law(n, mu, nu):
    """Of one pair the ratio is chi-square over r; all pairs together fail at most mu."""
    r = components(n, mu, nu)
    law = stats.chi2(r, scale=1 / r)
    fails = law.cdf(1 - nu) + law.sf(1 + nu)
    assert n * (n - 1) / 2 * fails <= mu / 2


def squared_ratios(Z, X):
    pairs = np.array(list(combinations(range(len(X)), 2))).T
    before, after = (np.square(A[pairs[0]] - A[pairs[1]]).sum(axis=1) for A in (X, Z))
    return after / before


@pytest.mark.parametrize(("epsilon", "increased"), [(1e9, False), (1e3, True)])
def test_theorem_2_for_all_pairs(epsilon, increased):
    """40 rows, 5 columns, 20 matrices: no pair leaves [1 - nu, (1 + nu) C']."""
    n, d, mu, nu = 40, 5, 0.5, 0.49
    generator = np.random.default_rng(0)
    X, r = generator.normal(size=(n, d)), components(n, mu, nu)
    sigma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False).min()
    for _ in range(20):
        made = published_transform(X, generator.normal(size=(d, r)), epsilon, 1e-5)
        assert made.increased == increased
        largest = 1 + increased * (made.omega / sigma) ** 2  # C'
        ratios = squared_ratios(made.Z, X)
        assert 1 - nu <= ratios.min() <= ratios.max() <= (1 + nu) * largest
        # the lower bound is attained only without the increase
        assert (ratios.min() < 1.1) == (not increased)


class TestTheorem3:
    """Simple regret at most sqrt(eps_ucb^2 + ...), the O() constants C_1 and C_2 at 1 or 0."""

    @staticmethod
    def bound(n, T, gain, *, eps_ucb, largest_answer, noise_variance, constant=1.0):
        beta = 2 * math.log(n * T**2 * math.pi**2 / (6 * DELTA_UCB / 2))
        C_1 = math.sqrt(1 + noise_variance) * (1 / noise_variance + 1)  # sigma_y = 1
        C_2 = largest_answer / noise_variance
        return math.sqrt(
            eps_ucb**2
            + 24 * constant**2 * (C_2 + C_1 * math.sqrt(beta)) ** 2 * math.log(T) / T
            + 24 / math.log1p(1 / noise_variance) * beta * gain / T
        )

    @staticmethod
    def accuracy(squared_diameter, *, eps_ucb, largest_answer):
        """Return nu; the squared diameter is in squared length-scales."""
        nu = eps_ucb / (2 * math.sqrt(3) * squared_diameter * largest_answer)
        return min(nu, 2 / squared_diameter, 0.5)

    @staticmethod
    def is_dominant(X, length_scale):
        """Definition 3, for the kernel matrix of some rows."""
        distances = np.square(X[:, None] - X).sum(axis=2)
        K = np.exp(-0.5 * distances / length_scale**2)
        return np.all((math.sqrt(len(X) - 1) + 1) * (K.sum(axis=1) - 1) <= 1)

    @staticmethod
    def queried(Z, f, T, *, length_scale, noise_variance, generator):
        release = ProjectionRelease(
            Z=Z, noise_std=0.0, domain=None, projection=None, mechanism="test", displacement=1.0,
            data_norm=25.0, guarantee=PrivacyGuarantee(epsilon=1.0).voided("seeded"),
        )  # fmt: skip
        modeler = GPUCBModeler(
            release, kernel=RBF(length_scale), noise_variance=noise_variance, random_state=0
        )
        for _ in range(T):
            row = modeler.ask()
            modeler.tell(row, f[row] + math.sqrt(noise_variance) * generator.normal())
        return np.array(modeler.answers[0])

    def test_conditions_fail_in_the_synthetic_experiment(self):
        """100 x 100 grid, length-scale 5.893, r at most 50, sigma_n^2 1e-5, T = 50."""
        side, length_scale = 25 / math.sqrt(2), 5.893
        nu = self.accuracy((50 / length_scale) ** 2, eps_ucb=1.0, largest_answer=4.0)
        assert components(10_000, DELTA_UCB / 2, nu) > 1e8
        at_best = self.accuracy((50 / length_scale) ** 2, eps_ucb=1e9, largest_answer=4.0)
        assert components(10_000, DELTA_UCB / 2, at_best) == pytest.approx(2.29e5, rel=0.01)
        axis = np.linspace(-side, side, 100)
        values, vectors = np.linalg.eigh(np.exp(-0.5 * (axis[:, None] - axis) ** 2 / 5.893**2))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        generator = np.random.default_rng(0)
        f = (root @ generator.normal(size=(100, 100)) @ root.T).ravel()
        X = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        rows = self.queried(
            X, f, 50, length_scale=length_scale, noise_variance=1e-5, generator=generator
        )
        dominant = [self.is_dominant(X[rows[:t]], length_scale) for t in range(2, 50)]
        assert not any(dominant[10:])
        # Upper bound of the answers: 4. The bound is above a million, the regret below .05.
        gain = 50 / 2 * math.log1p(1e5)  # of independent values, an upper bound
        bound = self.bound(10_000, 50, gain, eps_ucb=1.0, largest_answer=4.0, noise_variance=1e-5)
        assert bound == pytest.approx(1.44e6, rel=0.01)
        assert f.max() - f[rows].max() < 0.05

    def test_holds_where_its_conditions_do(self):
        """Corners of a simplex, so far apart that all kernel matrices are dominant."""
        n, noise_variance, T, eps_ucb = 20, 1.0, 20, 28.0
        generator = np.random.default_rng(0)
        axes = np.linalg.svd(np.eye(n) - 1 / n)[0][:, : n - 1]  # sides of length sqrt(2)
        X = axes * 1e5
        length_scale = math.sqrt(2) * 1e5 / 3.1
        assert self.is_dominant(X, length_scale)
        K = np.full((n, n), math.exp(-(3.1**2) / 2)) + (1 - math.exp(-(3.1**2) / 2)) * np.eye(n)
        f = np.linalg.cholesky(K) @ generator.normal(size=n)
        nu = self.accuracy(3.1**2, eps_ucb=eps_ucb, largest_answer=4.0)
        r = components(n, DELTA_UCB / 2, nu)
        made = published_transform(X, generator.normal(size=(n - 1, r)), math.exp(1.1), 1e-5)
        assert not made.increased
        rows = self.queried(
            made.Z, f, T, length_scale=length_scale, noise_variance=1.0, generator=generator
        )
        gain = n / 2 * math.log1p(1.0)
        bound = self.bound(
            n, T, gain, eps_ucb=eps_ucb, largest_answer=4.0, noise_variance=noise_variance
        )
        assert f.max() - f[rows].max() < 1 < 40 < bound < 60

    @staticmethod
    def gain(K, noise_variance):
        """Information gain of some queries."""
        return np.linalg.slogdet(np.eye(len(K)) + K / noise_variance)[1] / 2

    @staticmethod
    def off_diagonal(n_queries):
        """Largest sum of a row off the diagonal of a dominant matrix, Definition 3."""
        return 1 / (math.sqrt(n_queries - 1) + 1) if n_queries > 1 else 0.0

    @pytest.mark.parametrize("noise_variance", [1e-5, 0.1, 10.0])
    def test_dominant_queries_have_nearly_the_largest_gain(self, noise_variance):
        """At least (1 - rho) times that of independent values; worst are correlated pairs."""
        generator = np.random.default_rng(0)
        for n_queries in (2, 6, 50):
            rho = self.off_diagonal(n_queries)
            pairs = np.kron(np.eye(n_queries // 2), [[1, rho], [rho, 1]])
            A = np.triu(generator.random((n_queries, n_queries)), 1)
            A = (A + A.T) * rho / (A + A.T).sum(axis=1).max()
            independent = n_queries / 2 * math.log1p(1 / noise_variance)
            for K in (pairs, np.eye(n_queries) + A):
                assert (1 - rho) * independent <= self.gain(K, noise_variance)
        # twice the same row is not dominant, and a gain may be small
        assert self.gain(np.ones((50, 50)), noise_variance) < 0.5 * independent

    @pytest.mark.parametrize("noise_variance", [1e-5, 0.1, 10.0])
    def test_bound_exceeds_the_range_of_the_function(self, noise_variance):
        """Whatever C_1, C_2 and eps_ucb are, and whatever is queried: Theorem 3 holds."""
        for n in (3, 100, 10_000):
            largest = math.sqrt(2 * math.log(n / DELTA_UCB))  # |f|, but for probability delta
            assert 2 * n * stats.norm.sf(largest) <= DELTA_UCB
            for T in (1, 2, 3, 4, *((5, 10, 50) if n > 50 else ())):
                n_queries = max(T - 1, 1)
                gain = n_queries / 2 * (1 - self.off_diagonal(n_queries))
                bound = self.bound(
                    n, T, gain * math.log1p(1 / noise_variance),
                    eps_ucb=0.0, largest_answer=0.0, noise_variance=noise_variance, constant=0.0,
                )  # fmt: skip
                assert bound > 2 * largest
        # settings of Figure 2a, where the regret is below .2 in all of 150 runs
        n, T = 10_000, 50
        gain = (T - 1) / 2 * (1 - self.off_diagonal(T - 1)) * math.log1p(1 / noise_variance)
        how = {"eps_ucb": 0.0, "largest_answer": 0.0, "noise_variance": noise_variance}
        assert self.bound(n, T, gain, **how, constant=0.0) == pytest.approx(20.9, abs=0.05)
        assert 2 * math.sqrt(2 * math.log(n / DELTA_UCB)) == pytest.approx(9.88, abs=0.01)
