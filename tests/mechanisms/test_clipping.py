"""The clipped mean: exact clipping, sensitivities by brute force, budgets, adaptive clipping."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from _support.internals import (
    clip_to_lattice,
    clipped_count_sensitivity,
    clipped_mean_sensitivity,
    clipped_sum_sensitivity,
)
from skdpbo.mechanisms import ClippedMean, ClipQuantile, noise_source, split_budget, step_budgets

NASTY = [math.nan, math.inf, -math.inf, 1e308, -1e308, 1e-308, 5e-324, 0.0]


def squared_norms(units):
    return [sum(int(q) ** 2 for q in row) for row in units]


class TestClipToLattice:
    @given(
        arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=5)),
        st.floats(1e-6, 1e6),
        st.integers(-3, 24),
    )
    @settings(max_examples=200, deadline=None)
    def test_within_the_ball_exactly(self, vectors, clip, bits):
        step = math.ldexp(1.0, math.frexp(clip)[1] - bits)
        units, _ = clip_to_lattice(vectors, clip, step)
        limit = (Fraction(clip) / Fraction(step)) ** 2
        assert units.dtype == np.int64
        assert all(square <= limit for square in squared_norms(units))

    def test_toward_zero_and_close(self):
        vectors = np.random.RandomState(0).normal(size=(500, 7)) * 0.3
        step = 2.0**-30
        units, inside = clip_to_lattice(vectors, 1.0, step)
        norms = np.linalg.norm(vectors, axis=1)
        np.testing.assert_array_equal(inside, norms <= 1.0)
        expected = vectors * np.minimum(1.0, 1.0 / norms)[:, None]
        np.testing.assert_allclose(units * step, expected, rtol=0, atol=2 * step)
        assert (np.abs(units[inside]) * step <= np.abs(vectors[inside])).all()

    @pytest.mark.parametrize("value", NASTY)
    def test_a_nasty_row_stays_alone(self, value):
        vectors = np.random.RandomState(1).normal(size=(6, 3))
        before, _ = clip_to_lattice(vectors, 0.5, 2.0**-30)
        vectors[4, 1] = value
        after, _ = clip_to_lattice(vectors, 0.5, 2.0**-30)
        np.testing.assert_array_equal(np.delete(after, 4, 0), np.delete(before, 4, 0))
        assert np.all(after[4] == 0) == (not math.isfinite(value))

    def test_zero_is_zero(self):
        units, inside = clip_to_lattice(np.zeros((2, 3)), 1.0, 2.0**-30)
        assert not units.any()
        assert inside.all()

    def test_huge_rows_keep_their_direction(self):
        units, inside = clip_to_lattice(np.full((1, 4), 1e308), 1.0, 2.0**-30)
        np.testing.assert_allclose(units * 2.0**-30, 0.5, atol=1e-8)
        assert not inside.any()

    def test_an_overshoot_is_mended(self, monkeypatch):
        # A float clip that is too generous by far: the integers still obey the bound.
        monkeypatch.setattr(np, "sqrt", lambda x: 0.999 * x**0.5)
        units, _ = clip_to_lattice(np.full((1, 3), 7.0), 1.0, 2.0**-12)
        assert squared_norms(units)[0] <= 2**24


class TestSensitivity:
    """Brute force over neighbours: every lattice vector and everything that clips to one."""

    GRID = [*np.arange(-2.0, 2.01, 0.25), 1e308, math.inf, math.nan]

    def largest_changes(self, clip, d=2):
        step = 2.0**-10
        rows = np.array(list(itertools.product(self.GRID, repeat=d)))
        ends = [clip_to_lattice(row[None], clip, step) for row in rows]
        units = np.unique(np.concatenate([u for u, _ in ends]), axis=0)
        changes = np.linalg.norm((units[:, None] - units[None]) * step, axis=2)
        counts = {bool(inside[0]) for _, inside in ends}
        return changes.max(), max(counts) - min(counts)

    @pytest.mark.parametrize("clip", [0.3, 1.0, 1.5])
    def test_sum(self, clip):
        change, count = self.largest_changes(clip)
        assert clipped_sum_sensitivity(clip) * 0.99 < change <= clipped_sum_sensitivity(clip)
        assert count == clipped_count_sensitivity()

    @pytest.mark.parametrize("n", [1, 3, 1000])
    def test_mean(self, n):
        others = np.random.RandomState(0).normal(size=(n - 1, 2))
        mechanism, means = ClippedMean(clip=1.0, n_records=n, mu=1.0), []
        for row in ([0.6, 0.8], [-0.6, -0.8], [math.nan, 1.0], [3e200, 4e200]):
            data = np.vstack([others, [row]])
            total, _ = mechanism.exact_total([data])
            means.append(total * mechanism.step / n)
        change = max(np.linalg.norm(a - b) for a, b in itertools.combinations(means, 2))
        assert change <= clipped_mean_sensitivity(1.0, n)
        assert change == pytest.approx(2.0 / n, rel=1e-6)

    def test_clipping_after_the_mean_is_caught(self):
        # Planted bug: the mean is clipped, not the rows.
        def after(data):
            mean = data.mean(axis=0)
            return mean * min(1.0, 1.0 / np.linalg.norm(mean))

        data = np.full((100, 2), 0.01)
        near = data.copy()
        near[0] = 1e6
        assert np.linalg.norm(after(data) - after(near)) > 10 * clipped_mean_sensitivity(1.0, 100)

    def test_norm_without_a_guard_is_caught(self):
        # Planted bug: v min(1, B / ||v||) as it is printed; an infinite entry makes NaN.
        with np.errstate(invalid="ignore"):
            v = np.array([math.inf, 1.0])
            assert np.isnan(v * min(1.0, 1.0 / np.linalg.norm(v))).any()
        assert np.isfinite(ClippedMean(clip=1.0, n_records=1, mu=1.0).release(v[None])).all()


class TestClippedMean:
    def test_sum_is_exact_in_any_blocks(self):
        data = np.random.RandomState(2).normal(size=(1000, 3))
        mechanism = ClippedMean(clip=1.0, n_records=1000, mu=0.5)
        whole, inside = mechanism.exact_total([data])
        parts = mechanism.exact_total(np.array_split(data, 7))
        np.testing.assert_array_equal(whole, parts[0])
        assert inside == parts[1]
        units, _ = clip_to_lattice(data, 1.0, mechanism.step)
        assert whole.tolist() == [sum(column) for column in units.T.tolist()]

    def test_blocks_and_array_are_one_release(self):
        data = np.random.RandomState(3).normal(size=(50, 2))
        mechanism = ClippedMean(clip=0.7, n_records=50, mu=1.0)
        one = mechanism.release(data, noise_source(0))
        two = mechanism.release(iter(np.array_split(data, 4)), noise_source(0))
        np.testing.assert_array_equal(one, two)

    def test_noise(self):
        # 4000 draws: the sd estimate has a relative error of 1.1 %; 5 of these, alarm 6e-7.
        mechanism = ClippedMean(clip=2.0, n_records=10, mu=0.5)
        assert mechanism.sigma == pytest.approx(2 * 2.0 / (10 * 0.5), rel=1e-9)
        draws = mechanism.release(np.zeros((10, 4000)))
        assert draws.std() == pytest.approx(mechanism.sigma, rel=0.056)

    @pytest.mark.parametrize("mu", [1e-12, 1e-3, 1.0, 1e4, 1e9])
    @pytest.mark.parametrize("clip", [1e-5, 0.3, 1e7])
    def test_any_scale(self, mu, clip):
        mechanism = ClippedMean(clip=clip, n_records=100, mu=mu)
        assert mechanism.sigma >= 2 * clip / (100 * mu) * (1 - 1e-12)
        assert mechanism.guarantee.mu == mu
        assert mechanism.guarantee.status == "proved"
        assert np.isfinite(mechanism.release(np.ones((100, 2)) * clip)).all()

    @pytest.mark.slow
    @pytest.mark.slow
    def test_vectors_of_a_million_coordinates(self):
        mechanism = ClippedMean(clip=1.0, n_records=1, mu=1.0)
        total = np.zeros(2**20 + 1, dtype=np.int64)
        assert mechanism.noisy_mean(total).shape == total.shape

    def test_mean_without_noise(self):
        data = np.random.RandomState(4).normal(size=(200, 5))
        released = ClippedMean(clip=1.0, n_records=200, mu=1e9).release(data)
        rows = data * np.minimum(1.0, 1.0 / np.linalg.norm(data, axis=1))[:, None]
        np.testing.assert_allclose(released, rows.mean(axis=0), atol=1e-8)

    def test_released_values_are_on_the_lattice(self):
        mechanism = ClippedMean(clip=1.0, n_records=8, mu=1.0)
        released = mechanism.release(np.random.RandomState(5).normal(size=(8, 50)))
        units = released * 8 / mechanism.step
        np.testing.assert_array_equal(units, np.rint(units))

    def test_refusals(self):
        for arguments in (
            {"clip": 0.0},
            {"clip": math.nan},
            {"clip": math.inf},
            {"mu": 0.0},
            {"n_records": 0},
            {"n_records": 2**40},
        ):
            with pytest.raises(ValueError):
                ClippedMean(**{"clip": 1.0, "n_records": 5, "mu": 1.0, **arguments})
        with pytest.raises(TypeError):
            ClippedMean(clip=1.0, n_records=True, mu=1.0)
        mechanism = ClippedMean(clip=1.0, n_records=5, mu=1.0)
        with pytest.raises(ValueError, match="expected 5"):
            mechanism.release(np.zeros((4, 2)))
        with pytest.raises(ValueError, match="two-dimensional"):
            mechanism.release(np.zeros(5))


class TestBudgets:
    @given(
        st.floats(1e-6, 1e6),
        st.integers(1, 200),
        st.sampled_from(["uniform", "geometric"]),
        st.floats(0.01, 1.0),
    )
    @settings(max_examples=100, deadline=None)
    def test_never_more_than_the_total(self, mu, n_steps, schedule, contraction):
        parts = step_budgets(mu, n_steps, schedule=schedule, contraction=contraction)
        assert (parts > 0).all()
        assert sum(Fraction(float(p)) ** 2 for p in parts) <= Fraction(mu) ** 2
        assert math.sqrt(math.fsum(parts**2)) == pytest.approx(mu, rel=1e-9)

    @pytest.mark.parametrize(
        ("rho", "n_steps", "ratio"),
        [(0.9, 100, 0.19), (0.95, 100, 0.39), (0.9, 25, 0.66), (0.7, 25, 0.23)],
    )
    def test_variance_of_a_contracting_iteration(self, rho, n_steps, ratio):
        # theta <- rho theta + noise of variance 1/mu_t^2; the last iterate's, against equal steps
        # where the noise has the contraction of the squares: (sum rho^s)^2 / (T sum rho^2s).
        weights = rho ** (2.0 * np.arange(n_steps - 1, -1, -1))
        variances = [
            (weights / step_budgets(1.0, n_steps, schedule=schedule, contraction=rho) ** 2).sum()
            for schedule in ("geometric", "uniform")
        ]
        assert variances[0] / variances[1] == pytest.approx(ratio, abs=0.006)

    @given(st.floats(1e-6, 1e6), st.floats(1e-6, 1 - 1e-6))
    @settings(max_examples=100, deadline=None)
    def test_split(self, mu, share):
        first, second = split_budget(mu, share)
        assert Fraction(first) ** 2 + Fraction(second) ** 2 <= Fraction(mu) ** 2
        assert second == pytest.approx(mu * math.sqrt(share), rel=1e-9)

    def test_refusals(self):
        for arguments in (
            {"schedule": "linear"},
            {"contraction": 0.0},
            {"contraction": 1.1},
            {"n_steps": 0},
            {"mu": -1.0},
        ):
            with pytest.raises(ValueError):
                step_budgets(**{"mu": 1.0, "n_steps": 3, **arguments})
        with pytest.raises(ValueError):
            split_budget(1.0, 0.0)


class TestClipQuantile:
    def test_follows_the_quantile(self):
        # Norms are |N(0, 1)|: the median is .6745. Counts of 10 000 records at mu = 1 are as good
        # as exact, so the fixed point is reached to within the wobble of the rate.
        norms = np.abs(np.random.RandomState(6).normal(size=10_000))
        rule, clip = ClipQuantile(n_records=10_000, mu=1.0, quantile=0.5, rate=0.2), 20.0
        for _ in range(80):
            clip = rule.next_clip(clip, rule.release(int((norms <= clip).sum())))
        assert clip == pytest.approx(np.median(norms), rel=0.05)

    @pytest.mark.slow
    def test_noise(self):
        rule = ClipQuantile(n_records=10**6, mu=0.01)
        shares = np.array([rule.release(500_000) for _ in range(2000)])
        assert shares.std() == pytest.approx(1 / (10**6 * 0.01), rel=0.08)  # 5 standard errors
        assert rule.guarantee.mu == 0.01

    def test_share_is_a_share(self):
        rule = ClipQuantile(n_records=2, mu=0.01)
        assert all(0.0 <= rule.release(1) <= 1.0 for _ in range(100))

    def test_noise_is_read_from_the_given_source(self):
        rule = ClipQuantile(n_records=10**6, mu=0.01)
        first, other, again = (rule.release(500_000, noise_source(seed)) for seed in (0, 1, 0))
        assert first == again != other

    @pytest.mark.parametrize("mu", [1e-12, 1e-6, 1.0, 1e8])
    def test_any_budget(self, mu):
        assert 0.0 <= ClipQuantile(n_records=100, mu=mu).release(40) <= 1.0

    @pytest.mark.parametrize("bad", [{"quantile": 1.5}, {"rate": 0.0}, {"mu": 0.0}])
    def test_refusals(self, bad):
        with pytest.raises(ValueError):
            ClipQuantile(**{"n_records": 10, "mu": 1.0, **bad})


def test_adaptive_clipping_and_the_mean_compose_to_the_budget():
    from skdpbo.privacy import compose

    for mu_step in step_budgets(1.0, 3, schedule="geometric"):
        mean, count = split_budget(float(mu_step), 0.1)
        parts = (
            ClippedMean(clip=1.0, n_records=9, mu=mean).guarantee,
            ClipQuantile(n_records=9, mu=count).guarantee,
        )
        total = compose(*parts)
        assert total.mu <= mu_step * (1 + 1e-12)
