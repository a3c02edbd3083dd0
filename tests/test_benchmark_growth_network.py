"""The private variational network of the benchmarks: gradients, clipping and noise."""

import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import ndtr

BENCHMARKS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
HIDDEN = 4


@pytest.fixture
def network(monkeypatch):
    pytest.importorskip("dp_accounting")
    pytest.importorskip("pandas")
    monkeypatch.syspath_prepend(BENCHMARKS)
    before = set(sys.modules)
    yield pytest.importorskip("papers.growth_network")
    for name in set(sys.modules) - before:
        if name.startswith(("papers", "provenance")):
            del sys.modules[name]


def settings(activation, clip=1e9):
    return SimpleNamespace(hidden=HIDDEN, activation=activation, clip=clip)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (6, 2)), np.ones(6)])
    return X, rng.uniform(-1, 1, 6), rng.standard_normal((3, 4 * HIDDEN + 1))


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_gradients_of_rows_are_those_of_finite_differences(network, rows, activation):
    X, y, (mean, rho, draw) = rows
    ratio, options = draw / (1 + np.exp(-rho)), settings(activation)

    def value(theta, i):
        w = theta[: len(mean)] + np.logaddexp(0, theta[len(mean) :]) * draw
        return -0.5 * (y[i] - network.outputs(w, X[i : i + 1], options)[1][0]) ** 2

    theta = np.concatenate([mean, rho])
    w = mean + np.logaddexp(0, rho) * draw
    exact = np.array([approx_fprime(theta, value, 1e-7, i) for i in range(len(y))])
    norms = np.linalg.norm(exact, axis=1)
    for clip in (1e9, np.median(norms)):  # some rows are clipped, others not
        options = settings(activation, clip)
        ours = network.noisy_sum(w, ratio, X, y, 0.0, options, np.random.default_rng(0))
        expected = (exact * np.minimum(1, clip / norms)[:, None]).sum(axis=0)
        np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_no_row_moves_the_sum_by_more_than_the_norm(network, rows):
    X, y, (w, ratio, _) = rows
    for height in (0.0, 1e3, -1e9):
        data, options = (X[:1], y[:1] + height), settings("relu", 0.5)
        one = network.noisy_sum(w, ratio, *data, 0.0, options, np.random.default_rng(0))
        assert np.linalg.norm(one) <= 0.5 * (1 + 1e-12)


def test_noise_of_the_sum_has_the_norm_times_the_multiplier(network, rows):
    X, y, (w, ratio, _) = rows
    rng, options = np.random.default_rng(1), settings("relu", 0.5)
    sums = [network.noisy_sum(w, ratio, X, y, 3.0, options, rng) for _ in range(2000)]
    # 68 000 values: the relative error of their deviation is .0027, of which five.
    assert np.std(sums - np.mean(sums, axis=0)) == pytest.approx(1.5, rel=0.0135)


@pytest.mark.slow
def test_a_single_step_without_sampling_has_the_noise_of_the_gaussian_mechanism(network):
    deviation = network.noise_multiplier(1.0, 1.0, 1)
    half = 1 / deviation  # a replaced record moves the sum by twice the norm
    delta = ndtr(half - 1 / (2 * half)) - math.e * ndtr(-half - 1 / (2 * half))
    assert delta == pytest.approx(1e-5, rel=0.02)
    assert delta <= 1e-5
