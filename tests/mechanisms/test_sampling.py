"""Exact samplers: laws by chi-square (false-alarm rate 1e-6 a test), sources, exhaustive tapes."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from _support.internals import ExactSampler, NormalSampler, RandomSource
from skdpbo.mechanisms import noise_source

ALARM = 1e-6


def tape(data, then=b"\0"):
    """Return a source that plays `data` and then repeats `then`."""
    state = bytearray(data)

    def read(n):
        taken = bytes(state[:n])
        del state[:n]
        return taken + then * (n - len(taken))

    return RandomSource(read, seeded=True)


def p_value(draws, values, probabilities):
    """Chi-square p-value of integer draws, cells of expectation below 10 pooled."""
    n = len(draws)
    counts = np.array([np.count_nonzero(draws == v) for v in values])
    big = n * probabilities >= 10
    counts = np.append(counts[big], n - counts[big].sum())
    expected = np.append(probabilities[big], 1 - probabilities[big].sum()) * n
    if expected[-1] < 1:
        counts[-2:-1] += counts[-1]
        expected[-2:-1] += expected[-1]
        counts, expected = counts[:-1], expected[:-1]
    return stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue


def rounded_normal(scale):
    values = np.arange(-8 * scale, 8 * scale + 1)
    upper, lower = (np.abs(values) - 0.5) / scale, (np.abs(values) + 0.5) / scale
    return values, stats.norm.sf(upper) - stats.norm.sf(lower)


class TestSource:
    def test_system_source_is_not_seeded_and_never_repeats(self):
        source = noise_source()
        assert not source.seeded
        assert source.bytes(32) != source.bytes(32)
        assert source.bytes(32) != noise_source().bytes(32)

    @pytest.mark.parametrize("seed", [0, 7, np.int64(7), 2**80])
    def test_integer_seed_is_reproducible(self, seed):
        assert noise_source(seed).seeded
        assert noise_source(seed).bytes(16) == noise_source(seed).bytes(16)
        assert noise_source(seed).bytes(16) != noise_source(int(seed) + 1).bytes(16)

    def test_seeded_stream_differs_from_the_estimators_stream(self):
        assert noise_source(3).bytes(16) != np.random.default_rng(3).bytes(16)
        assert noise_source(3).bytes(16) != np.random.RandomState(3).bytes(16)

    @pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
    def test_numpy_generators_advance(self, make):
        generator = make(5)
        first, second = noise_source(generator).bytes(8), noise_source(generator).bytes(8)
        assert first != second
        assert noise_source(make(5)).bytes(8) == first

    def test_source_passes_through(self):
        source = noise_source(0)
        assert noise_source(source) is source

    @pytest.mark.parametrize(
        ("bad", "error"), [(True, TypeError), (-1, ValueError), ("0", TypeError), (1.0, TypeError)]
    )
    def test_other_seeds_are_refused(self, bad, error):
        with pytest.raises(error, match="random_state"):
            noise_source(bad)

    @pytest.mark.parametrize("random_state", [None, 0])
    @pytest.mark.parametrize("repeat", [pickle.dumps, copy.copy, copy.deepcopy])
    def test_source_cannot_be_copied(self, random_state, repeat):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            repeat(noise_source(random_state))


class TestUniform:
    @pytest.mark.parametrize("n", [1, 2, 3, 6, 100, 129, 255, 256])
    def test_below_is_exactly_uniform_on_all_bytes(self, n):
        # Every first byte once: the accepted ones must hit each value equally often.
        shift = 8 - (n - 1).bit_length()
        counts = np.zeros(n, dtype=int)
        for byte in range(256):
            if n == 1 or byte >> shift < n:
                counts[ExactSampler(tape([byte])).below(n)] += 1
        assert np.ptp(counts) == 0

    @pytest.mark.parametrize("n", [2, 3, 6, 7, 100, 255])
    def test_vectorised_below_is_exactly_uniform_on_all_bytes(self, n):
        # The rejected words are drawn again from a tape of 255s (rejected once more) and 0s.
        draws = NormalSampler(tape(bytes(range(256)) + b"\xff" * (256 % n)))._below(n, 256)
        counts = np.bincount(draws, minlength=n)
        counts[0] -= 256 % n
        assert np.ptp(counts) == 0

    def test_vectorised_below_large_bound_rejects_the_last_run(self):
        n = 2**62 + 1  # 2^64 = 3 n + rest: words from 3 n on are rejected
        words = np.array([0, n - 1, n, 3 * n - 1, 3 * n, 2**64 - 1], dtype=np.uint64)
        draws = NormalSampler(tape(words.tobytes(), then=b"\1"))._below(n, 6)
        again = int.from_bytes(b"\1" * 8, "little")
        assert draws.tolist() == [0, n - 1, 0, n - 1, again, again]

    def test_vectorised_below_array_of_bounds(self):
        bounds = np.repeat([2, 300, 2**40], 5000)
        draws = NormalSampler()._below(bounds, bounds.size)
        assert np.all((draws >= 0) & (draws < bounds))
        for part in np.split(draws / bounds, 3)[1:]:
            assert stats.kstest(part, "uniform").pvalue > ALARM


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("g", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(0.7), 2.25])
def test_bernoulli_exp(g):
    g, n, sampler = Fraction(g), 20_000, ExactSampler()
    successes = sum(sampler.bernoulli_exp(g.numerator, g.denominator) for _ in range(n))
    assert stats.binomtest(successes, n, math.exp(-g)).pvalue > ALARM


def test_bernoulli_exp_of_an_astronomical_exponent():
    assert not ExactSampler().bernoulli_exp(10**300, 1)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("numerator", "denominator"), [(1, 1), (1, 3), (7, 2), (40, 3)])
def test_discrete_laplace_law(numerator, denominator):
    sampler, scale = ExactSampler(), numerator / denominator
    draws = np.array([sampler.discrete_laplace(numerator, denominator) for _ in range(20_000)])
    values = np.arange(-200, 201)
    law = np.tanh(1 / (2 * scale)) * np.exp(-np.abs(values) / scale)
    assert p_value(draws, values, law) > ALARM


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(2), Fraction(45, 4)])
def test_discrete_gaussian_law(variance):
    sampler = ExactSampler()
    draws = np.array([sampler.discrete_gaussian(variance) for _ in range(10_000)])
    values = np.arange(-60, 61)
    law = np.exp(-(values**2) / (2 * float(variance)))
    assert p_value(draws, values, law / law.sum()) > ALARM


def test_geometric_law():
    sampler = ExactSampler()
    draws = np.array([sampler.geometric(3) for _ in range(20_000)])
    values = np.arange(100)
    assert p_value(draws, values, -np.expm1(-1 / 3) * np.exp(-values / 3)) > ALARM


class TestFarTails:
    """Deviates that no sample shows, from tapes of bytes that force them."""

    @pytest.mark.parametrize("quotient", [39, 40, 41, 200, 3000])
    def test_geometric(self, quotient):
        # Bytes 0 and 64 are a success of exp(-1), 128 is a failure; a scale of 1 reads no more.
        longest = b"\x00\x40" * quotient + b"\x80"
        assert ExactSampler(tape(longest)).geometric(1) == quotient
        assert ExactSampler(tape(longest + b"\x00")).discrete_laplace(1, 1) == quotient
        assert ExactSampler(tape(longest + b"\x80")).discrete_laplace(1, 1) == -quotient

    @pytest.mark.parametrize("k", [5, 6, 7, 8, 12])
    def test_runs(self, k):
        # A byte 1 is a success of exp(-1 / 2), a byte 0 and then a byte 1 a failure.
        longest = b"\1" * k + b"\0"
        assert NormalSampler(tape(longest, b"\1"))._runs(1).tolist() == [k]
        assert NormalSampler(tape(longest, b"\1"))._integer_parts(1).tolist() == [k]

    @pytest.mark.parametrize("k", [5, 6, 7, 8, 12])
    @pytest.mark.parametrize("sign", [0, 1, 127, 128, 129, 255])
    def test_normal(self, k, sign):
        scale, j, lanes = 2**10, 5, 2 + 16  # lanes of an attempt for one deviate
        n_bits = 8 * lanes // 3 + 16
        data = b"\1" * k + b"\0" * (n_bits - k) + b"\1" * (n_bits - k)  # k, and then zeros
        data += b"\1" * (k * (k - 1))  # the integer part is kept
        data += j.to_bytes(8, "little") * lanes
        data += bytes([2 * k + 1]) + b"\1" * (lanes - 1) + bytes([2 * k + 1]) * k  # so is x
        data += b"\0" * 8 * lanes + bytes([sign])
        (magnitude,), _, (negative,) = NormalSampler(tape(data)).expanded(1, scale)
        assert magnitude == k * scale + j
        assert negative == (sign >= 128)


def test_integer_parts_law():
    # All of k, with the rare large ones that need many trials.
    draws = NormalSampler()._integer_parts(400_000)
    values = np.arange(12)
    law = np.exp(-(values**2) / 2)
    assert p_value(draws, values, law / law.sum()) > ALARM


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("scale", [1, 2, 5])
def test_rounded_normal_law_with_ties(scale):
    # A small scale decides most comparisons by the digits that are drawn when needed.
    draws = NormalSampler().rounded(20_000, scale)
    assert p_value(draws, *rounded_normal(scale)) > ALARM


@pytest.mark.slow
def test_the_chi_square_notices_a_discrete_gaussian():
    # Twin: the law that is not rounded-normal, same parameter, at a size that tells them apart.
    sampler = ExactSampler()
    draws = np.array([sampler.discrete_gaussian(Fraction(1, 4)) for _ in range(10_000)])
    values = np.arange(-8, 9)
    law = stats.norm.cdf((values + 0.5) / 0.5) - stats.norm.cdf((values - 0.5) / 0.5)
    assert p_value(draws, values, law) < ALARM


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("scale", [2**20, 2**40 + 12345, 2**50])
def test_rounded_normal_at_fine_scales(scale):
    draws = NormalSampler().rounded(100_000, scale)
    assert draws.dtype == np.int64
    assert stats.kstest(draws / scale, "norm").pvalue > ALARM
    n = len(draws)
    chi_square = np.sum((draws / scale) ** 2)
    assert ALARM / 2 < stats.chi2.cdf(chi_square, n) < 1 - ALARM / 2
    low = np.bincount(draws % 16, minlength=16)
    assert stats.chisquare(low).pvalue > ALARM


def test_normal_tail_frequencies():
    n = 400_000
    draws = NormalSampler().rounded(n, 2**30) / 2**30
    for threshold in (2.0, 3.0, 4.0):
        count = int(np.count_nonzero(np.abs(draws) > threshold))
        assert stats.binomtest(count, n, 2 * stats.norm.sf(threshold)).pvalue > ALARM


@pytest.mark.slow
def test_expanded_digits_are_the_digits_of_a_normal():
    magnitude, digits, negative = NormalSampler().expanded(40_000, 1, n_words=2)
    z = np.where(negative, -1, 1) * (magnitude + digits[:, 0] / 2.0**64)
    assert stats.kstest(z, "norm").pvalue > ALARM
    assert stats.kstest(digits[:, 1] / 2.0**64, "uniform").pvalue > ALARM


@pytest.mark.parametrize("size", [0, 1, 2, 17])
def test_rounded_sizes(size):
    assert NormalSampler().rounded(size, 2**40).shape == (size,)


@pytest.mark.parametrize("scale", [0, -1, 2**50 + 1])
def test_rounded_scale_is_checked(scale):
    with pytest.raises(ValueError, match="scale"):
        NormalSampler().rounded(1, scale)


def test_seeded_draws_are_reproducible():
    first, second = (NormalSampler(noise_source(4)).rounded(100, 2**30) for _ in range(2))
    assert np.array_equal(first, second)
