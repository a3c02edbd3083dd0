"""GP-UCB, batches and information gain."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF

from skdpbo.surrogate import (
    CandidatePosterior,
    gp_ucb_sqrt_beta,
    greedy_information_gain,
    log_expected_improvement,
    maximum_information_gain_bound,
    select_batch,
    upper_confidence_bound,
)

LINE = np.linspace(0, 1, 100)[:, None]
GRID = np.array(list(itertools.product(np.linspace(0, 1, 10), repeat=2)))


@pytest.mark.parametrize(
    ("n", "delta", "t", "beta"),
    [
        (100, 0.05, 1, 17.5835),
        (100, 0.05, 50, 33.2316),
        (100, 0.05, 51, 33.3108),
        (1000, 0.01, 1, 25.4075),
        (1000, 0.01, 100, 43.8282),
        (1000, 0.01, 101, 43.8680),
        (100, 0.05, 5000, 51.6523),
        (100, 0.05, 5001, 51.6531),
    ],
)
def test_published_beta(n, delta, t, beta):
    assert gp_ucb_sqrt_beta(t, n, delta) ** 2 == pytest.approx(beta, abs=5.1e-5)


@pytest.mark.parametrize("bad", [(0, 10, 0.1), (1, 0, 0.1), (1, 10, 0.0), (1, 10, 1.0)])
def test_beta_refuses(bad):
    with pytest.raises(ValueError):
        gp_ucb_sqrt_beta(*bad)


def test_upper_confidence_bound():
    bound = upper_confidence_bound([1.0, 2.0], [1.0, 0.1])
    np.testing.assert_allclose(bound, [3.0, 2.2])
    np.testing.assert_allclose(upper_confidence_bound([1.0, 2.0], [1.0, 0.1], 0.0), [1.0, 2.0])
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="sqrt_beta"):
            upper_confidence_bound([0.0], [1.0], bad)


@pytest.mark.parametrize(
    ("X", "sigma", "gain", "bound"),
    [
        (LINE, 0.1, 20.584, 32.563),
        (GRID, 0.1, 74.791, 118.318),
        (LINE, 0.01, 42.024, 66.480),
    ],
)
def test_greedy_information_gain(X, sigma, gain, bound):
    """Reference values, RBF of length-scale 0.2, T = 50."""
    assert greedy_information_gain(RBF(0.2), X, 50, sigma**2) == pytest.approx(gain, abs=5.1e-4)
    assert maximum_information_gain_bound(RBF(0.2), X, 50, sigma**2) == pytest.approx(
        bound, abs=5.1e-4
    )


def test_bounds_bracket_the_maximum():
    """All multisets of 3 out of 7 points, by the definition of gamma_T."""
    X = np.random.RandomState(0).rand(7, 1)
    K = RBF(0.3)(X)
    best = max(
        0.5 * np.linalg.slogdet(np.eye(3) + K[np.ix_(A, A)] / 0.01)[1]
        for A in itertools.combinations_with_replacement(range(7), 3)
    )
    low = greedy_information_gain(RBF(0.3), X, 3, 0.01)
    assert low <= best + 1e-12 <= maximum_information_gain_bound(RBF(0.3), X, 3, 0.01)
    assert greedy_information_gain(RBF(0.3), X, 1, 0.01) == pytest.approx(0.5 * math.log(101))
    assert greedy_information_gain(RBF(0.3), X, 0, 0.01) == 0.0


def test_information_gain_refuses():
    with pytest.raises(ValueError, match="noise_variance"):
        greedy_information_gain(RBF(), LINE, 3, 0.0)
    with pytest.raises(ValueError, match="n_points"):
        greedy_information_gain(RBF(), LINE, -1, 0.1)


def test_batch():
    surrogate = CandidatePosterior(RBF(0.2), LINE, noise_variance=1e-3)
    surrogate.extend([10, 60, 90], [0.0, 1.0, 0.5])
    first = int(upper_confidence_bound(surrogate.mean, surrogate.std).argmax())
    batch = select_batch(surrogate, 5)
    assert batch[0] == first
    assert len(set(batch)) == 5
    assert len(surrogate) == 3
    # imagined values spread the batch: a plain top five would be five neighbours
    assert np.ptp(LINE[batch]) > 0.2
    assert first not in select_batch(surrogate, 5, exclude=[first])
    assert len(select_batch(surrogate, 10, exclude=range(97))) == 3
    with pytest.raises(ValueError, match="batch_size"):
        select_batch(surrogate, 0)


def test_gp_ucb_finds_the_maximum():
    f = np.sin(3 * GRID[:, 0]) * np.cos(2 * (GRID[:, 1] - 0.4))
    surrogate = CandidatePosterior(RBF(0.3), GRID, noise_variance=1e-6)
    for _ in range(20):
        i = int(upper_confidence_bound(surrogate.mean, surrogate.std).argmax())
        surrogate.append(i, f[i])
    assert f[surrogate.observed].max() == f.max()


def test_log_expected_improvement():
    """Against E[max(f - best, 0)] in 60 digits; far tails, and a certain value."""
    mean, std = [1.0, 0.3, -2.0, -9.0, -1500.0, 5.0], [0.5, 1.0, 0.7, 0.2, 1.0, 1e-3]
    ours = log_expected_improvement(mean, std, 0.4)
    with mpmath.workdps(60):
        for value, m, s in zip(ours, mean, std, strict=True):
            z = (mpmath.mpf(m) - mpmath.mpf(0.4)) / mpmath.mpf(s)
            # Phi by erfc of the positive argument keeps its digits in the tail
            improvement = s * (mpmath.npdf(z) + z * mpmath.erfc(-z / mpmath.sqrt(2)) / 2)
            assert value == pytest.approx(float(mpmath.log(improvement)), rel=1e-9)
    certain = log_expected_improvement([1.0, 0.0], [0.0, 0.0], 0.5)
    assert certain[0] == pytest.approx(math.log(0.5))
    assert certain[1] < -1e100
    order = log_expected_improvement([-80.0, -60.0, -70.0], [1.0, 1.0, 1.0], 0.0)
    assert order.argmax() == 1  # where the improvement itself would be 0 for all


def test_batch_by_expected_improvement():
    surrogate = CandidatePosterior(RBF(0.2), LINE, noise_variance=1e-3)
    surrogate.extend([10, 60, 90], [0.0, 1.0, 0.5])
    z = (surrogate.mean - 0.9) / surrogate.std
    improvement = surrogate.std * (stats.norm.pdf(z) + z * stats.norm.cdf(z))
    batch = select_batch(surrogate, 3, best=0.9)
    assert batch[0] == improvement.argmax()
    assert len(set(batch)) == 3
    assert batch[0] not in select_batch(surrogate, 3, exclude=[batch[0]], best=0.9)
