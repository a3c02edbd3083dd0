"""The DP-GIBO loop against a plain transcription of the algorithm, its options and its refusals."""

import math

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from _support.internals import PrivateDescent, noise_to_clip
from skdpbo.mechanisms import noise_source, step_budgets
from skdpbo.surrogate import GradientPosterior

RECORDS = np.random.RandomState(0).normal([0.7, 0.4, 0.6], 0.1, size=(300, 3))
START = np.array([0.2, 0.9, 0.5])
NOISELESS = 1e9  # a budget


def losses(points):
    return np.square(np.asarray(points)[:, None, :] - RECORDS[None]).sum(axis=2)


def posterior(**how):
    return GradientPosterior(ConstantKernel(1.0) + RBF(0.7), **how)


def run(evaluate=losses, start=START, source=None, gp=None, **how):
    how = {"n_iter": 6, "mu": NOISELESS, "learning_rate": 0.2, "bounds": (0.0, 1.0)} | how
    return PrivateDescent(**how).run(evaluate, start, posterior() if gp is None else gp, source)


def transcript(n_iter, clip, learning_rate, lines="adagrad"):
    """Algorithm 1 of the paper without noise, with the surrogate's own designs."""
    gp, theta, squares, thetas, points = posterior(), START, 0.0, [START], np.empty((0, 3))
    for t in range(n_iter):
        batch = gp.design(theta, 4, bounds=(0.0, 1.0), random_state=t)
        gp.add(batch)
        points = np.vstack([points, batch])
        by_record = (gp.weights(theta) @ losses(points)).T
        norms = np.linalg.norm(by_record, axis=1, keepdims=True)
        g = (by_record * np.minimum(1.0, clip / norms)).mean(axis=0)
        squares = squares + g**2
        scale = np.sqrt(squares) + 1e-8 if lines == "adagrad" else 1.0
        theta = np.clip(theta - learning_rate * g / scale, 0.0, 1.0)
        thetas.append(theta)
    return np.array(thetas)


class TestAlgorithm:
    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("optimizer", ["adagrad", "sgd"])
    @pytest.mark.parametrize("clip", [0.3, 5.0])
    def test_is_the_papers(self, optimizer, clip):
        found = run(n_iter=4, clip=clip, optimizer=optimizer)
        expected = transcript(4, clip, 0.2, optimizer)
        np.testing.assert_allclose(found.trajectory, expected, atol=1e-6)
        np.testing.assert_array_equal(found.final, found.trajectory[-1])

    def test_early_end(self):
        """Of noise alone: two steps in a row of 60 are within it but for a chance of 1e-8.

        The sum of three squares is below its mean with probability .61 = p; a run without two in a
        row has .72 of its probability with each further step, the root of x^2 = (1 - p) (x + p).
        """
        how = {"mu": 1.0, "n_iter": 60, "learning_rate": 1e-3, "patience": 2, "averaging": 0.5}
        flat = run(lambda points: np.zeros((len(points), 300)), **how)
        n = len(flat.gradients)
        assert n == len(flat.trajectory) - 1 < 60
        faint = np.square(flat.gradients).sum(axis=1) <= 3 * flat.noise_scales**2
        assert faint[-2:].all()
        assert not (faint[:-2] & faint[1:-1]).any()
        expected = flat.trajectory[-math.ceil(n / 2) :].mean(axis=0)
        assert flat.final == pytest.approx(expected)
        # The first gradients are 1.5 long, and their error is below 1e-8.
        assert len(run(n_iter=3, patience=1).gradients) == 3

    def test_gradients_are_the_true_ones(self):
        found = run(n_iter=3, clip=100.0)
        true = 2 * (found.trajectory[:-1] - RECORDS.mean(axis=0))
        np.testing.assert_allclose(found.gradients, true, atol=0.06)

    def test_finds_the_minimum(self):
        found = run(n_iter=30)
        assert np.linalg.norm(found.final - RECORDS.mean(axis=0)) < 0.05

    def test_noise_of_the_paper(self):
        # sd 2 B sqrt(T) / (n mu) per coordinate of the mean gradient (Algorithm 1, line 7).
        found = run(n_iter=16, mu=0.5, clip=1.5)
        np.testing.assert_allclose(found.noise_scales, 2 * 1.5 * 4 / (300 * 0.5), rtol=1e-9)
        assert noise_to_clip(0.5, 16, 3, 300) == pytest.approx(
            found.noise_scales[0] * math.sqrt(3) / 1.5
        )

    def test_noise_is_fresh(self):
        one, two = (run(n_iter=2, mu=1.0) for _ in range(2))
        assert not np.array_equal(one.gradients, two.gradients)
        seeded = [run(n_iter=2, mu=1.0, source=noise_source(0)) for _ in range(2)]
        np.testing.assert_array_equal(seeded[0].trajectory, seeded[1].trajectory)

    def test_one_record_moves_a_gradient_by_the_sensitivity_at_most(self):
        # The first step with the same noise: the difference of the releases is that of the means.
        def of(record):
            def evaluate(points):
                table = losses(points)
                with np.errstate(all="ignore"):
                    table[:, 5] = record(np.asarray(points))
                return table

            return run(evaluate, n_iter=1, clip=0.8, source=noise_source(3)).gradients[0]

        records = [
            lambda z: 1e6 * z[:, 0],
            lambda z: -1e6 * z[:, 0],
            lambda z: np.full(len(z), math.nan),
            lambda z: 1.0 / (z[:, 0] * 0),
            lambda z: 1e308 * (-1.0) ** np.arange(len(z)),
        ]
        released = [of(record) for record in records]
        changes = [np.linalg.norm(a - b) for a in released for b in released]
        assert max(changes) <= 2 * 0.8 / 300 * (1 + 1e-9)
        assert max(changes) == pytest.approx(2 * 0.8 / 300, rel=1e-3)


class TestOptions:
    def test_tolerance_takes_fewer_points(self):
        plain = run(n_iter=6)
        found = run(n_iter=6, tol=0.1)
        assert plain.batch_sizes.tolist() == [4] * 6
        assert found.batch_sizes[0] <= 4
        assert found.batch_sizes.sum() < plain.batch_sizes.sum()
        assert plain.traces.max() < found.traces.max() <= 0.1

    def test_tolerance_above_the_prior_is_refused(self):
        with pytest.raises(ValueError, match="prior trace"):
            run(tol=1e9)

    def test_batch_size_and_box(self):
        seen = []

        def evaluate(points):
            seen.append(points)
            return losses(points)

        found = run(evaluate, batch_size=2, n_iter=5, learning_rate=5.0, optimizer="sgd")
        assert [len(points) for points in seen] == [2] * 5
        for points in (*seen, found.trajectory):
            assert points.min() >= 0
            assert points.max() <= 1

    def test_no_box(self):
        found = run(bounds=None, optimizer="sgd", learning_rate=3.0, start=START - 7, n_iter=3)
        assert np.abs(found.trajectory).max() > 1.5

    def test_cache(self):
        gp = posterior(cache_size=6)
        found = run(gp=gp, n_iter=12)
        assert len(gp) == 6
        assert np.linalg.norm(found.final - RECORDS.mean(axis=0)) < 0.15

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(("averaging", "n_last"), [(0.5, 3), (0.0, 1), (0.01, 1), (1.0, 6)])
    def test_averaging(self, averaging, n_last):
        found = run(averaging=averaging, mu=1.0)
        np.testing.assert_allclose(found.final, found.trajectory[-n_last:].mean(axis=0))

    def test_geometric_schedule(self):
        found = run(budget_schedule="geometric", contraction=0.8, mu=2.0)
        budgets = step_budgets(2.0, 6, schedule="geometric", contraction=0.8)
        np.testing.assert_allclose(found.noise_scales, 2 / (300 * budgets), rtol=1e-9)
        assert (np.diff(found.noise_scales) < 0).all()

    def test_adaptive_clipping(self):
        found = run(clip=50.0, clip_share=0.1, n_iter=25, mu=20.0, clip_rate=1.0)
        np.testing.assert_allclose(found.clips[0], 50.0)
        assert found.clips[-1] < 1.0  # gradients are about 2 * distance
        share = found.noise_scales * 300 / (2 * found.clips)  # 1 / mu_t
        np.testing.assert_allclose(share**-2, 0.9 * 20.0**2 / 25, rtol=1e-9)

    def test_refit_sees_released_values_only(self):
        seen = []

        def refit(thetas, gradients, noise_scales):
            seen.append((thetas, gradients, noise_scales))
            return GradientPosterior(RBF(0.9)) if len(thetas) == 2 else None

        gp = posterior()
        descent = PrivateDescent(n_iter=4, mu=5.0, learning_rate=0.2, bounds=(0.0, 1.0))
        found = descent.run(losses, START, gp, refit=refit)
        assert len(gp) == 8  # replaced after the second step
        assert [len(thetas) for thetas, _, _ in seen] == [1, 2, 3]
        for thetas, gradients, noise_scales in seen:
            t = len(thetas)
            np.testing.assert_array_equal(thetas, found.trajectory[:t])
            np.testing.assert_array_equal(gradients, found.gradients[:t])
            np.testing.assert_array_equal(noise_scales, found.noise_scales[:t])

    def test_failed_points_cost_the_bound(self):
        def some_fail(points):
            table = np.rint(losses(points) / 3 * 1000).astype(int)
            return [row if j % 2 else None for j, row in enumerate(table)]

        found = run(some_fail, loss_bound=1000, loss_scale=1e-3, mu=1.0)
        assert np.isfinite(found.trajectory).all()

    def test_integers(self):
        def integers(points):
            return np.rint(losses(points) / 3 * 2**20).astype(np.int64)

        found = run(integers, loss_bound=2**20, loss_scale=3 / 2**20)
        np.testing.assert_allclose(found.trajectory, run().trajectory, atol=1e-3)

    @pytest.mark.parametrize(
        "bad",
        [
            {"n_iter": 0},
            {"mu": 0.0},
            {"optimizer": "newton"},
            {"averaging": 1.5},
            {"clip_share": 1.0},
            {"clip": 0.0},
            {"learning_rate": 0.0},
            {"budget_schedule": "linear"},
            {"clip_share": 0.1, "clip_quantile": 2.0},
        ],
    )
    def test_refusals(self, bad):
        with pytest.raises(ValueError):
            run(**bad)

    def test_number_of_records_must_stay(self):
        calls = []

        def evaluate(points):
            calls.append(1)
            return losses(points)[:, len(calls) :]

        with pytest.raises(ValueError, match="each record"):
            run(evaluate)


class TestNothingProtectedIsKept:
    def test_surrogate_and_result(self):
        gp = posterior()
        found = run(lambda points: losses(points) * 1e-3 + 7.0, gp=gp, mu=1e-3)
        for thing in (gp, found):
            for value in vars(thing).values():
                if isinstance(value, np.ndarray):
                    assert value.shape[-1:] != (300,)
                    assert not np.isclose(value, 7.0, atol=1e-2).any()
