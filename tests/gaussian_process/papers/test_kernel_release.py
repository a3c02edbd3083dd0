"""The published release: exact sums, sensitivity over neighbours, guarantee, audit."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern

from _support.internals import (
    KernelFamily,
    KernelMethod,
    KernelRelease,
    KernelRows,
    certified_norm,
    joint_sensitivity,
    optimal_ratio,
    regulariser,
)
from _support.planted import put
from _support.record_sums import exact_gram
from skdpbo.mechanisms import noise_source
from skdpbo.privacy import mu_from_epsilon

ALARM = 1e-6


def release_for(kernel, Z, *, n_records, half_width=(1.0,), mu=1.0, ratio=1.0, k_norm=None):
    k_norm = certified_norm(kernel, Z) if k_norm is None else k_norm
    return KernelRelease(
        mu=mu, k_norm=k_norm, half_width=half_width, n_records=n_records, ratio=ratio
    )


def gram(kernel, Z, release, X, Y):
    rows = KernelRows(kernel, Z, release)
    return exact_gram(rows(X, np.reshape(Y, (len(X), -1))), release.radius)


def mahalanobis(change, release, q=1):
    """Exact distance between two releases' means, in standard deviations of their noise."""
    d = len(change) - q
    sa, sb, off = (Fraction(m.sigma) for m in release._mechanisms)
    change = [[int(v) for v in row] for row in change]
    square = sum(Fraction(change[i][d + j]) ** 2 for i in range(d) for j in range(q)) / sa**2
    square += sum(Fraction(change[i][i]) ** 2 for i in range(d)) / sb**2
    square += sum(Fraction(change[i][j]) ** 2 for j in range(d) for i in range(j)) / off**2
    return square


class TestExactSums:
    def test_statistics_are_those_of_eq_3(self):
        rng = np.random.default_rng(0)
        kernel, Z = 1.7 * RBF(0.8), rng.normal(size=(5, 2))
        X, y = rng.normal(size=(300, 2)), rng.uniform(-1, 1, 300)
        release = release_for(kernel, Z, n_records=300, mu=1e5)
        released = release.release(gram(kernel, Z, release, X, y), noise_source(0))
        K = kernel(Z, X)
        np.testing.assert_allclose(released.A[:, 0], K @ y, atol=0.02)
        np.testing.assert_allclose(released.B, K @ K.T, atol=0.02)
        np.testing.assert_array_equal(released.B, released.B.T)

    def test_targets_are_clipped_and_centred(self):
        kernel, Z = RBF(1.0), np.zeros((1, 1))
        release = release_for(kernel, Z, n_records=3, half_width=(2.0,))
        rows = KernelRows(kernel, Z, release, centre=np.array([10.0]))
        Q = rows(np.zeros((3, 1)), np.array([[11.0], [1e9], [-np.inf]]))
        np.testing.assert_allclose(Q[:, 1] * release.steps[1], [1.0, 2.0, -2.0])

    def test_missing_values_become_zero_rows_without_a_word(self):
        kernel, Z = RBF(1.0), np.zeros((1, 1))
        release = release_for(kernel, Z, n_records=2)
        Q = KernelRows(kernel, Z, release)(np.array([[np.inf], [0.0]]), np.array([[0.5], [np.nan]]))
        assert Q[0, 0] == 0
        assert Q[1, 1] == 0

    @given(st.integers(1, 3), st.integers(0, 2**32 - 1))
    @settings(max_examples=40, deadline=None)
    def test_norms_are_bounded_exactly_whatever_the_kernel(self, q, seed):
        """Even a kernel without a bound, or a wrong R_k, cannot make a record longer."""
        rng = np.random.default_rng(seed)
        Z = rng.normal(size=(4, 2))
        half_width = tuple(rng.uniform(0.1, 3, q))
        release = release_for(RBF(1.0), Z, n_records=20, half_width=half_width, k_norm=0.7)
        rows = KernelRows(DotProduct(), Z, release)
        Q = rows(rng.normal(size=(20, 2)) * 50, rng.normal(size=(20, q)) * 5)
        for row in Q:
            assert sum(int(v) ** 2 for v in row[:4]) <= release.radius**2
            assert sum(int(v) ** 2 for v in row[4:]) <= release.radius**2


RECORDS = st.sampled_from(["duplicate", "opposite", "outlier", "random", "missing"])


class TestNeighbours:
    @given(
        st.integers(0, 2**32 - 1),
        RECORDS,
        st.sampled_from([0.05, 0.5, 1.0, 7.0]),
        st.sampled_from([(1.0,), (0.2,), (3.0,), (1.0, 5.0)]),
    )
    @settings(max_examples=150, deadline=None)
    @pytest.mark.slow
    def test_no_neighbour_is_further_than_mu(self, seed, kind, ratio, half_width):
        rng = np.random.default_rng(seed)
        q = len(half_width)
        kernel, Z = Matern(1.0, nu=1.5), rng.normal(size=(4, 1))
        mu = 10.0 ** rng.uniform(-2, 1)
        release = release_for(kernel, Z, n_records=30, half_width=half_width, mu=mu, ratio=ratio)
        X, Y = rng.normal(size=(30, 1)), rng.normal(size=(30, q)) * half_width
        X2, Y2 = X.copy(), Y.copy()
        x, y = {
            "duplicate": (X[1], Y[1]),
            "opposite": (X[0], -np.sign(Y[0]) * 1e3),
            "outlier": (np.array([1e200]), np.full(q, -1e200)),
            "random": (rng.normal(size=1), rng.normal(size=q)),
            "missing": (np.array([np.nan]), np.full(q, np.nan)),
        }[kind]
        if kind == "opposite":
            Y[0] = np.sign(Y[0]) * 1e3  # y' = -y, both at the bound
        X2[0], Y2[0] = x, y
        change = gram(kernel, Z, release, X2, Y2) - gram(kernel, Z, release, X, Y)
        assert mahalanobis(change, release, q) <= Fraction(mu) ** 2

    @given(st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.5, 1.0, 7.0]), st.floats(-2, 1))
    @settings(max_examples=60, deadline=None)
    def test_no_pair_of_integer_records_is_further_and_the_worst_is_as_far(self, seed, ratio, log):
        """Records straight on the lattice, free of any kernel: y' = -y, <k, k'> = R_y^2 / 2c."""
        mu, rng = 10.0**log, np.random.default_rng(seed)
        release = KernelRelease(mu=mu, k_norm=1.3, half_width=(1.0,), n_records=2, ratio=ratio)
        radius = release.radius
        cosine = min(1.0 / (2 * ratio * 1.3**2), 1.0)
        k, k2 = rng.normal(size=(2, 3))
        k /= np.linalg.norm(k)
        k2 -= (k @ k2) * k
        k2 = cosine * k + math.sqrt(1 - cosine**2) * k2 / np.linalg.norm(k2)
        worst = [np.trunc(radius * np.append(k, 1.0)), np.trunc(radius * np.append(k2, -1.0))]
        distance = mahalanobis(self._change(*worst), release)
        assert Fraction(mu) ** 2 * Fraction(1 - 1e-4) <= distance <= Fraction(mu) ** 2
        for _ in range(5):
            other = np.trunc(worst[1] * rng.uniform(-1, 1, 4))
            assert mahalanobis(self._change(worst[0], other), release) <= Fraction(mu) ** 2

    @staticmethod
    def _change(row, other):
        return exact_gram(row[None], 2**20) - exact_gram(other[None], 2**20)

    @pytest.mark.parametrize(
        "planted",
        [
            lambda s: s + 0.5 / s,  # part of Eq. (6) is forgotten
            lambda s: s + 1.0 / s if s < 0.5 else s,
        ],
    )
    def test_planted_sensitivities_are_caught(self, planted, monkeypatch):
        put(monkeypatch, "kernel release: unit_sensitivity", planted)
        release = KernelRelease(mu=1.0, k_norm=1.0, half_width=(1.0,), n_records=2)
        radius, h = release.radius, math.sqrt(0.75)
        worst = np.trunc(radius * np.array([[1.0, 0.0, 1.0], [0.5, h, -1.0]]))
        assert mahalanobis(self._change(*worst), release) > 1

    def test_planted_missing_clip_is_caught(self, monkeypatch):
        put(
            monkeypatch,
            "kernel release: rows_on_lattice",
            lambda rows, step, radius: rows // step,
        )
        kernel, Z = RBF(1.0), np.zeros((2, 1))
        release = release_for(kernel, Z, n_records=1, k_norm=1.0)  # too small: sqrt 2 is right
        one = gram(kernel, Z, release, np.zeros((1, 1)), np.ones(1))
        other = gram(kernel, Z, release, np.zeros((1, 1)), -np.ones(1))
        assert mahalanobis(one - other, release) > 1


class TestGuarantee:
    def test_sigmas_are_those_of_algorithm_1(self):
        mu = mu_from_epsilon(1.0, 1e-4)
        release = KernelRelease(mu=mu, k_norm=1.5, half_width=(0.8,), n_records=100, ratio=0.7)
        sa = joint_sensitivity(1.5, 0.8, 0.7) / mu
        assert release.sensitivity == joint_sensitivity(1.5, 0.8, 0.7)
        assert release.sigma_a == pytest.approx([sa], rel=1e-9)
        assert release.sigma_b == pytest.approx(sa / math.sqrt(0.7), rel=1e-9)

    def test_several_targets_share_the_budget(self):
        one = KernelRelease(mu=1.0, k_norm=1.0, half_width=(2.0,), n_records=10)
        two = KernelRelease(mu=1.0, k_norm=1.0, half_width=(2.0, 2.0), n_records=10)
        assert two.y_norm == pytest.approx(math.sqrt(2) * one.y_norm)
        assert (two.sigma_a > one.sigma_a).all()

    def test_guarantee_states_the_budget(self):
        mu = mu_from_epsilon(1.0, 1e-5)
        guarantee = KernelRelease(mu=mu, k_norm=1.0, half_width=(1.0,), n_records=10).guarantee
        assert guarantee.epsilon == pytest.approx(1.0, rel=1e-6)
        assert (guarantee.mu, guarantee.delta, guarantee.status) == (mu, 1e-5, "proved")

    @pytest.mark.parametrize("mu", [1e-4, 1e-2, 1.0, 50.0])
    @pytest.mark.parametrize("n_records", [1, 10**6, 10**10])
    def test_lattice_and_noise_fit_every_size(self, mu, n_records):
        release = KernelRelease(mu=mu, k_norm=2.0, half_width=(1.0,), n_records=n_records)
        assert n_records * release.radius**2 <= 2**62
        released = release.release(np.zeros((4, 4), dtype=np.int64), noise_source(0))
        assert np.isfinite(released.B).all()
        assert released.sa == pytest.approx(release.sigma_a)

    @pytest.mark.parametrize(
        ("parameters", "name"),
        [
            ({"mu": 0.0}, "mu"),
            ({"mu": -1.0}, "mu"),
            ({"k_norm": 0.0}, "k_norm"),
            ({"k_norm": math.inf}, "k_norm"),
            ({"half_width": ()}, "half_width"),
            ({"half_width": (1.0, math.nan)}, "half_width"),
            ({"ratio": 0.0}, "ratio"),
        ],
    )
    def test_bad_parameters_are_refused_by_name(self, parameters, name):
        given = {"mu": 1.0, "k_norm": 1.0, "half_width": (1.0,), "n_records": 5, **parameters}
        with pytest.raises(ValueError, match=name):
            KernelRelease(**given)


@pytest.mark.parametrize(
    ("posterior", "gain"),
    [("noise_aware", 0.5), ("linearised", regulariser(1, 1, 9) ** 2), ("naive", 5.189**2)],
)
def test_optimal_ratio_counts_the_regulariser_where_there_is_one(posterior, gain):
    # The regulariser of Eq. (13) at 9 inducing points is 5.189 noise standard deviations.
    method = KernelMethod(
        KernelFamily.of([RBF(1.0)]),
        np.linspace(-3, 3, 9)[:, None],
        mu=1.0,
        half_width=np.array([2.0]),
        n_records=100,
        posterior=posterior,
        sensitivity="certified",
        ratio="optimal",
    )
    expected = optimal_ratio(method.statistics.k_norm, 2.0, gain)
    assert method.statistics.ratio == pytest.approx(expected, rel=0.01)


class TestNoise:
    def test_standard_deviations(self):
        release = KernelRelease(mu=1.0, k_norm=1.0, half_width=(1.0,), n_records=1, ratio=0.5)
        zero, d = np.zeros((61, 61), dtype=np.int64), 60
        draws = [release.release(zero, noise_source(seed)) for seed in range(3)]
        off = np.concatenate([r.B[np.triu_indices(d, 1)] for r in draws])
        on = np.concatenate([r.B.diagonal() for r in draws])
        A = np.concatenate([r.A.ravel() for r in draws])
        for values, sd in ((off, release.sigma_b / math.sqrt(2)), (on, release.sigma_b)):
            self._check(values, sd)
        self._check(A, release.sigma_a[0])

    @staticmethod
    def _check(values, sd):
        """Chi-square, two-sided, alarm 1e-6."""
        total = np.sum(values**2) / sd**2
        low, high = stats.chi2.ppf([ALARM / 2, 1 - ALARM / 2], len(values))
        assert low < total < high

    def test_released_numbers_lie_on_the_lattice(self):
        release = KernelRelease(mu=1.0, k_norm=1.0, half_width=(1.0,), n_records=1)
        released = release.release(np.ones((3, 3), dtype=np.int64), noise_source(0))
        units = released.A / (release.steps[0] * release.steps[1])
        np.testing.assert_array_equal(units, np.rint(units))

    def test_os_noise_is_fresh(self):
        release = KernelRelease(mu=1.0, k_norm=1.0, half_width=(1.0,), n_records=1)
        zero = np.zeros((3, 3), dtype=np.int64)
        assert (release.release(zero).A != release.release(zero).A).all()


@pytest.mark.slow
class TestAudit:
    """Likelihood-ratio attack on the two worst neighbours; alarm 1e-6."""

    RUNS = 1200

    def attack(self, release, mu_claimed):
        """Lower bound on mu, by the Gaussian trade-off between both error rates."""
        radius, h = release.radius, math.sqrt(0.75)
        rows = np.trunc(radius * np.array([[1.0, 0.0, 1.0], [0.5, h, -1.0]]))
        grams = [exact_gram(row[None], radius) for row in rows]
        direction = self.whitened(grams[1] - grams[0])
        scores = [
            [self.whitened(self.observed(release, g)) @ direction for _ in range(self.RUNS)]
            for g in grams
        ]
        middle = 0.5 * (np.median(scores[0]) + np.median(scores[1]))
        false, true = (int(np.sum(np.array(s) > middle)) for s in scores)
        high = stats.beta.ppf(1 - ALARM / 2, false + 1, self.RUNS - false)
        low = stats.beta.ppf(ALARM / 2, true, self.RUNS - true + 1)
        return stats.norm.ppf(low) - stats.norm.ppf(high)

    @staticmethod
    def whitened(g):
        """Coordinates of the mechanism in multiples of their noise, for c = 1."""
        return np.array([g[0, 2], g[1, 2], g[0, 0], g[1, 1], math.sqrt(2) * g[0, 1]], dtype=float)

    @staticmethod
    def observed(release, g):
        r = release.release(g)
        units = release.radius**2
        return np.block([[r.B * units, r.A * units], [r.A.T * units, np.zeros((1, 1))]])

    def test_release_keeps_its_promise_and_the_attack_is_sharp(self):
        release = KernelRelease(mu=1.0, k_norm=1.0, half_width=(1.0,), n_records=2)
        found = self.attack(release, 1.0)
        assert 0.4 < found <= 1.0

    def test_planted_factor_is_found(self, monkeypatch):
        put(monkeypatch, "kernel release: unit_sensitivity", lambda s: 0.5 * (s + 1 / s))
        release = KernelRelease(mu=1.0, k_norm=1.0, half_width=(1.0,), n_records=2)
        assert self.attack(release, 1.0) > 1.0

    def test_planted_weak_noise_off_the_diagonal_is_found(self, monkeypatch):
        release = KernelRelease(mu=1.0, k_norm=1.0, half_width=(1.0,), n_records=2)
        of_A, on, off = release._mechanisms
        planted = type(off)(mu=8 * off.mu, sensitivity=off.sensitivity, lattice=1.0)
        release.__dict__["_mechanisms"] = (of_A, on, planted)
        right, scale = TestAudit.whitened, np.array([1.0, 1.0, 1.0, 1.0, 8.0])
        monkeypatch.setattr(TestAudit, "whitened", staticmethod(lambda g: scale * right(g)))
        assert self.attack(release, 1.0) > 1.0
