"""The l2-Laplace mechanism for rows."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from skdpbo.mechanisms import L2Laplace, noise_source

ALARM = 1e-6


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_norm_has_a_gamma_law_and_direction_is_uniform(dimension):
    mechanism = L2Laplace(2.0, 3.0, dimension)
    noise = mechanism.release(np.zeros((4000, dimension)))
    norm = np.linalg.norm(noise, axis=1)
    assert stats.kstest(norm / 1.5, stats.gamma(dimension).cdf).pvalue > ALARM
    if dimension == 1:
        assert stats.kstest(noise[:, 0], stats.laplace(scale=1.5).cdf).pvalue > ALARM
    else:  # one coordinate of a uniform direction: its square is beta distributed
        square = (noise[:, -1] / norm) ** 2
        law = stats.beta(0.5, (dimension - 1) / 2)
        assert stats.kstest(square, law.cdf).pvalue > ALARM
        assert stats.binomtest(int((noise[:, 0] > 0).sum()), 4000).pvalue > ALARM


def test_planted_gaussian_direction_is_noticed():
    # Twin: a normal vector scaled to the same mean norm has no Gamma norm.
    noise = np.random.default_rng(0).normal(size=(4000, 2))
    norm = np.linalg.norm(noise, axis=1)
    assert stats.kstest(norm / norm.mean() * 2, stats.gamma(2).cdf).pvalue < ALARM


def test_standard_deviation_per_coordinate():
    noise = L2Laplace(1.0, 1.0, 3).release(np.zeros((4000, 3)))
    assert noise.std() == pytest.approx(math.sqrt(4), rel=0.1)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 50.0, 10_000.0])
@pytest.mark.parametrize("dimension", [1, 2, 1000])
def test_scale_covers_the_rounding_and_the_distance_is_charged(epsilon, dimension):
    mechanism = L2Laplace(epsilon, 2.0, dimension)
    moved = 2 + math.isqrt(dimension) * Fraction(mechanism.step)
    assert Fraction(mechanism.scale) >= moved / Fraction(epsilon)
    # at most sqrt(d) steps (rounded up) of 2^-30 D or 2^-48 scales, and one step of the scale
    excess = math.ceil(math.sqrt(dimension)) * max(2.0**-30, 2.0**-48 / epsilon) + 2.0**-30
    assert mechanism.scale <= 2.0 / epsilon * (1 + excess)
    guarantee = mechanism.guarantee
    assert guarantee.epsilon == epsilon
    assert 0 < guarantee.delta < 1e-30
    assert "moved by at most 2" in guarantee.neighbours


def test_output_lies_on_the_lattice_and_is_reproducible_from_a_seed():
    mechanism = L2Laplace(1.0, 1.0, 2)
    rows = np.random.default_rng(0).normal(size=(20, 2))
    released = mechanism.release(rows, noise_source(0))
    units = released / mechanism.step
    assert np.array_equal(units, np.round(units))
    assert np.array_equal(released, mechanism.release(rows, noise_source(0)))
    assert not np.array_equal(released, mechanism.release(rows))
    assert mechanism.release(np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("bad", [np.zeros(2), np.zeros((2, 3)), 1.0])
def test_refused_shapes(bad):
    with pytest.raises(ValueError, match="shape"):
        L2Laplace(1.0, 1.0, 2).release(bad)


def test_non_finite_rows_are_refused():
    with pytest.raises(ValueError, match=r"^values must be finite\.$"):
        L2Laplace(1.0, 1.0, 2).release([[1234567.0, np.nan]])


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ((0.0, 1.0, 2), ValueError),
        ((2e4, 1.0, 2), ValueError),
        ((1e-300, 1.0, 2), ValueError),
        ((1.0, 0.0, 2), ValueError),
        ((1.0, np.inf, 2), ValueError),
        ((1.0, 1.0, 0), ValueError),
        ((1.0, 1.0, 2.0), TypeError),
        ((1.0, 5e-324, 2), ValueError),
    ],
)
def test_refused_parameters(parameters, error):
    with pytest.raises(error, match=r"epsilon|displacement|dimension"):
        L2Laplace(*parameters)


@pytest.mark.parametrize("dimension", [1, 1000, 2**16])
def test_least_epsilon_is_that_of_64_bits(dimension):
    """Norm of the noise 2 d + 100 scales, a coordinate 20 / sqrt(d) of it, as the bound allows."""
    low, high = 1e-30, 1e-6
    for _ in range(60):
        middle = math.sqrt(low * high)
        try:
            mechanism = L2Laplace(middle, 1.0, dimension)
            high = middle
        except ValueError:
            low = middle
    units = mechanism.scale / mechanism.step
    largest = units * (2 * dimension + 100) * min(1.0, 20 / math.sqrt(dimension))
    assert 0.9 < largest / 2**63 <= 1  # up to the rounding of floats


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("dimension", [1, 2, 1000, 2**16])
def test_noise_of_more_than_64_bits_is_refused_by_name(dimension):
    with pytest.raises(ValueError, match="epsilon is too small"):
        L2Laplace(1e-30, 1.0, dimension)
    assert np.isfinite(L2Laplace(1e-12, 1.0, dimension).release(np.zeros((1, dimension)))).all()
