"""The discrete Laplace mechanism."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from skdpbo.mechanisms import DiscreteLaplace, noise_source

ALARM = 1e-6


def test_scale_and_guarantee():
    mechanism = DiscreteLaplace(0.5, 3)
    assert mechanism.scale == 6.0
    assert (mechanism.guarantee.epsilon, mechanism.guarantee.delta) == (0.5, 0.0)
    third = DiscreteLaplace(Fraction(1, 3), 1)
    assert Fraction(third.guarantee.epsilon) >= Fraction(1, 3)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1), (0.25, 3), (Fraction(2, 7), 1)])
def test_noise_law(epsilon, sensitivity):
    n, mechanism = 20_000, DiscreteLaplace(epsilon, sensitivity)
    noise = mechanism.release(np.full(n, 5)) - 5
    edges = np.arange(-8, 9)
    q = np.exp(-float(epsilon) / sensitivity)
    upper = q ** (edges + 1.0) / (1 + q)  # P(noise > edge), edge >= 0
    cdf = np.where(edges >= 0, 1 - upper, q ** (-edges.astype(float)) / (1 + q))
    expected = np.diff(cdf, prepend=0, append=1) * n
    counts = np.histogram(noise, bins=np.concatenate([[-np.inf], edges + 0.5, [np.inf]]))[0]
    big = expected > 5
    counts = np.append(counts[big], counts[~big].sum())
    expected = np.append(expected[big], expected[~big].sum())
    keep = expected > 0
    assert stats.chisquare(counts[keep], expected[keep]).pvalue > ALARM


def test_planted_half_scale_is_noticed():
    noise = DiscreteLaplace(1.0, 1).release(np.zeros(20_000, dtype=int))
    share = int(np.count_nonzero(noise == 0))
    assert stats.binomtest(share, 20_000, np.tanh(0.25)).pvalue < ALARM  # claimed epsilon 1/2


def test_types_and_shapes():
    mechanism = DiscreteLaplace(1.0, 1)
    assert type(mechanism.release(3)) is int
    assert type(mechanism.release(np.int64(3))) is int
    released = mechanism.release(np.zeros((2, 3), dtype=np.int32))
    assert released.shape == (2, 3)
    assert released.dtype == np.int64
    assert mechanism.release([]).shape == (0,)


def test_integers_beyond_int64_do_not_wrap_around():
    mechanism = DiscreteLaplace(1.0, 1)
    assert abs(mechanism.release(2**100) - 2**100) < 1000
    top = mechanism.release(np.full(200, 2**63 - 1, dtype=np.int64))
    assert all(abs(value - 2**63) < 1000 for value in top.tolist())
    wide = DiscreteLaplace(Fraction(1, 10**40), 1).release(0)
    assert type(wide) is int


@pytest.mark.parametrize("bad", [float("nan"), [1.0, float("inf")], np.array([np.nan])])
def test_non_finite_values_are_refused(bad):
    with pytest.raises(ValueError, match=r"^values must be finite\.$"):
        DiscreteLaplace(1.0, 1).release(bad)


def test_floats_are_refused():
    with pytest.raises(TypeError, match=r"^values must be integers\.$"):
        DiscreteLaplace(1.0, 1).release([1.5])


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0, 1), (np.inf, 1), (1.0, 0)])
def test_zero_scale_and_zero_epsilon_are_errors(epsilon, sensitivity):
    with pytest.raises(ValueError, match=r"epsilon|sensitivity"):
        DiscreteLaplace(epsilon, sensitivity)


def test_seeded_release_is_reproducible():
    first, second = (DiscreteLaplace(0.1, 1).release([0] * 9, noise_source(1)) for _ in range(2))
    assert np.array_equal(first, second)
