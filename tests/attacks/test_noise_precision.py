"""Precision audit: no bit of a release may tell which value the noise was added to.

Each audit is run on every mechanism and on a planted naive version that it must catch.
False-alarm rate of the statistical audits: 1e-6 each; the others have none.
"""

import math

import numpy as np
import pytest
from scipy import stats

from skdpbo.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    GaussianMechanism,
    L2Laplace,
    PermuteAndFlip,
    from_lattice,
    to_lattice,
)

ALARM = 1e-6
N = 10_000
STEP = 2.0**-20


def on_lattice(mechanism):
    """Release multiples of STEP through a mechanism on integers, noise of scale about 1."""

    def release(x):
        return from_lattice(mechanism.release(to_lattice(np.full(N, x), STEP)), STEP)

    return release, STEP


def gaussian(engine="skdpbo"):
    mechanism = GaussianMechanism(mu=1.0, sensitivity=1.0, engine=engine)
    return lambda x: mechanism.release(np.full(N, x)), mechanism.step


def l2_laplace():
    mechanism = L2Laplace(1.0, 1.0, 2)
    return lambda x: mechanism.release(np.full((N // 2, 2), x)).ravel(), mechanism.step


MECHANISMS = {
    "discrete laplace": lambda: on_lattice(DiscreteLaplace(1.0, 2**20)),
    "gaussian": gaussian,
    "gaussian on a lattice": lambda: on_lattice(
        GaussianMechanism(mu=1.0, sensitivity=1.0 / STEP, lattice=1.0)
    ),
    "discrete gaussian": lambda: on_lattice(DiscreteGaussian(4.0, 1e-3, 2**20)),
    "l2-laplace": l2_laplace,
}
EVERY = pytest.mark.parametrize("name", MECHANISMS)


def naive_laplace(x):
    return x + np.random.default_rng(0).laplace(size=N)


def naive_normal(x):
    return x + np.random.default_rng(0).normal(size=N)


def share_of_low_bits(released):
    """Return how many outputs have binary digits below 2^-53."""
    scaled = np.ldexp(released, 53)
    return int(np.count_nonzero(scaled != np.round(scaled)))


@pytest.mark.quick_cases(2)
@EVERY
def test_no_low_bits_whatever_the_value(name):
    release, _ = MECHANISMS[name]()
    assert share_of_low_bits(release(0.0)) == share_of_low_bits(release(1.0)) == 0


@pytest.mark.parametrize("naive", [naive_laplace, naive_normal])
def test_naive_floats_betray_a_zero(naive):
    # About 27 % of the outputs are impossible unless the value is 0.
    assert share_of_low_bits(naive(0.0)) / N == pytest.approx(0.265, abs=0.05)
    assert share_of_low_bits(naive(1.0)) == 0


def off_lattice(released, step):
    units = released / step  # exact: the step is a power of two
    return int(np.count_nonzero(units != np.round(units)))


@pytest.mark.quick_cases(2)
@EVERY
@pytest.mark.parametrize("x", [0.0, 0.3, 1.0, math.pi])
def test_every_output_lies_on_the_declared_lattice(name, x):
    release, step = MECHANISMS[name]()
    assert off_lattice(release(x), step) == 0


def test_rounded_noise_on_an_unrounded_value_leaves_the_lattice():
    noise = np.round(np.random.default_rng(0).normal(size=N) / STEP) * STEP
    assert off_lattice(0.3 + noise, STEP) == N


def residue_p_value(first, second, step, modulus=16):
    """Two-sample chi-square of the last bits of the lattice positions."""
    table = [
        np.bincount((x / step).astype(np.int64) % modulus, minlength=modulus)
        for x in (first, second)
    ]
    table = np.array(table)
    return stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue


@pytest.mark.quick_cases(2)
@EVERY
def test_last_bits_have_the_same_law_for_both_values(name):
    release, step = MECHANISMS[name]()
    assert residue_p_value(release(0.0), release(1.0 + 5 * step), step) > ALARM


def test_noise_on_a_coarser_lattice_than_the_values_is_caught():
    def release(units):
        coarse = 4 * np.round(np.random.default_rng(0).normal(size=N) * 2**18)
        return (units + coarse) * STEP

    assert residue_p_value(release(0), release(5), STEP) < ALARM


@pytest.mark.slow
def test_opendp_engine_passes_too():
    pytest.importorskip("opendp")
    release, step = gaussian("opendp")
    outputs = release(0.0), release(1.0 + 5 * step)
    assert sum(share_of_low_bits(x) + off_lattice(x, step) for x in outputs) == 0
    assert residue_p_value(*outputs, step) > ALARM


def naive_exponential(losses, rng):
    """Noisy maximum in floating point, the usual one-liner."""
    return int(np.argmax(-np.asarray(losses, dtype=float) / 2 + rng.gumbel(size=len(losses))))


@pytest.mark.parametrize("mechanism", [PermuteAndFlip(1.0, 1), ExponentialMechanism(1.0, 1)])
def test_selection_sees_differences_next_to_large_totals(mechanism):
    losses = [2**60, 2**60 + 3, 2**60 + 1]
    counts = np.bincount([mechanism.select(losses) for _ in range(4000)], minlength=3)
    expected = 4000 * mechanism.probabilities([0, 3, 1])
    assert stats.chisquare(counts, expected).pvalue > ALARM


def test_naive_selection_does_not():
    losses, rng = [2**60, 2**60 + 3, 2**60 + 1], np.random.default_rng(0)
    counts = np.bincount([naive_exponential(losses, rng) for _ in range(4000)], minlength=3)
    expected = 4000 * ExponentialMechanism(1.0, 1).probabilities([0, 3, 1])
    assert stats.chisquare(np.maximum(counts, 0), expected).pvalue < ALARM
