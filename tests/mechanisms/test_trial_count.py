"""The secret number of trials: its law by chi-square (false-alarm rate 1e-6 a test) and exactly."""

from decimal import DefaultContext, Inexact
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from _support.internals import RandomSource, _first_probability
from skdpbo.mechanisms import draw_trials, noise_source
from skdpbo.privacy import TrialLaw

ALARM = 1e-6
LAWS = [(30, 1.0), (30, 0.0), (30, -0.5), (12, 2.5), (4, 0.3), (1.5, -0.9)]


def p_value(draws, law, cap):
    """Chi-square p-value of draws of min(K, cap), cells of expectation below 10 pooled."""
    n = len(draws)
    probabilities = np.array([law.pmf(k) for k in range(1, cap)] + [law.survival(cap - 1)])
    order = np.argsort(-probabilities)
    n_big = max(1, int(np.sum(n * probabilities >= 10)))
    counts = np.bincount(draws, minlength=cap + 1)[1:][order]
    expected = n * probabilities[order]
    counts = np.append(counts[:n_big], counts[n_big:].sum())
    expected = np.append(expected[:n_big], expected[n_big:].sum())
    if expected[-1] < 5:
        counts[-2] += counts[-1]
        expected[-2] += expected[-1]
        counts, expected = counts[:-1], expected[:-1]
    return stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue


def draw(law, size, cap, shift=0):
    source = noise_source()
    return np.minimum(
        [shift + draw_trials(law, max_trials=cap, source=source) for _ in range(size)], cap
    )


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "eta"), LAWS)
def test_law(mean, eta):
    law = TrialLaw(mean, eta)
    assert p_value(draw(law, 2000, 200), law, 200) > ALARM


@pytest.mark.slow
@pytest.mark.parametrize("planted", ["starts at zero", "other shape", "other mean", "cap redraws"])
def test_planted_bugs_are_caught(planted):
    law = TrialLaw(12, 0.0)
    wrong = {
        "starts at zero": lambda: draw(law, 2000, 60, shift=1),
        "other shape": lambda: draw(TrialLaw(12, 1.0), 2000, 60),
        "other mean": lambda: draw(TrialLaw(30, 0.0), 2000, 60),
        "cap redraws": lambda: np.array([k for k in draw(law, 3200, 60) if k < 60]),
    }[planted]()
    assert p_value(wrong, law, 60) < ALARM


def tape(words):
    """Return a source that plays the integers' bits, most significant 128 first."""
    data = b"".join(word.to_bytes(16, "little") for word in words)
    state = bytearray(data)

    def read(n):
        taken = bytes(state[:n])
        del state[:n]
        return taken + b"\0" * (n - len(taken))

    return RandomSource(read, seeded=True)


class TestInversion:
    """K is where the distribution function passes a uniform number, to the last binary digit."""

    def distribution_function(self, law, k):
        gamma, eta = mpmath.mpf(law.gamma), mpmath.mpf(law.eta)
        if eta == 0:
            p = -(1 - gamma) / mpmath.log(gamma)
        else:
            p = eta * (1 - gamma) / (gamma**-eta - 1)
        total = p
        for j in range(1, k):
            p *= (1 - gamma) * (j + eta) / (j + 1)
            total += p
        return total

    @pytest.mark.parametrize(("mean", "eta"), [law for law in LAWS if law[1] != 1])
    @pytest.mark.parametrize("k", [1, 2, 7])
    def test_uniform_numbers_around_a_step(self, mean, eta, k):
        law = TrialLaw(mean, eta)
        with mpmath.workdps(150):
            step = int(mpmath.floor(self.distribution_function(law, k) * mpmath.mpf(2) ** 256))
        for uniform, expected in [(step - 4, k), (step + 4, k + 1)]:
            # The first 128 digits do not decide; the following ones do.
            words = divmod(uniform, 2**128)
            assert draw_trials(law, source=tape(words)) == expected

    @pytest.mark.parametrize(("mean", "eta"), [(4, 0.3), (12, 2.5), (3, -0.5), (5, 0.0)])
    def test_the_largest_uniform_number(self, mean, eta):
        # U = 1 - 2^-128: K lies where the distribution function passes it, whatever the mean.
        law = TrialLaw(mean, eta)
        k = draw_trials(law, source=tape([2**128 - 1, 0]))
        assert k > 20 * mean
        with mpmath.workdps(150):
            tail = mpmath.mpf(2) ** -128
            assert 1 - self.distribution_function(law, k) < tail
            assert 1 - self.distribution_function(law, k - 1) >= tail

    @pytest.mark.parametrize(
        ("mean", "eta"), [*LAWS[1:], (1 + 1e-13, -0.5), (3, -1e-30), (5, 1e-200), (1e5, 900.0)]
    )
    @pytest.mark.parametrize("digits", [128, 512])
    def test_first_probability_is_enclosed(self, mean, eta, digits):
        law = TrialLaw(mean, eta)
        low, high = _first_probability(digits, law.exact_gamma, Fraction(law.eta))
        with mpmath.workdps(900):
            exact = self.distribution_function(law, 1) * mpmath.mpf(2) ** digits
            assert low <= exact <= high <= low + 2


class TestGeometric:
    @pytest.mark.parametrize("mean", [2, 4.0, 2.5, 0.1 + 1.0])
    def test_gamma_is_exactly_one_over_the_mean(self, mean):
        assert TrialLaw(mean).exact_gamma * Fraction(mean) == 1

    def test_counts_trials_until_a_success(self):
        # Mean 4: bytes below 64 (two leading bits zero) succeed.
        def read(n):
            return bytes([255, 200, 64, 63, 0])[:n].ljust(n, b"\0")

        assert draw_trials(TrialLaw(4), source=RandomSource(read, seeded=True)) == 4

    @pytest.mark.parametrize("failures", [79, 80, 100, 1000])
    def test_there_is_no_largest_number_of_trials(self, failures):
        def read(n):
            return (b"\xff" * failures).ljust(n, b"\0")

        source = RandomSource(read, seeded=True)
        assert draw_trials(TrialLaw(4), source=source) == failures + 1
        assert draw_trials(TrialLaw(4), max_trials=failures, source=source) == failures


def set_trap(patch):
    patch.setitem(DefaultContext.traps, Inexact, True)


def set_range(patch):
    patch.setattr(DefaultContext, "Emax", 2)


@pytest.mark.parametrize("change", [set_trap, set_range])
def test_the_law_is_the_same_whatever_decimals_are_set_to(change, monkeypatch):
    """An error would come after the charge of a search, and cost its budget."""
    of_law = 128, TrialLaw(1e4, eta=2.5).exact_gamma, Fraction(5, 2)
    usual = _first_probability(*of_law)
    change(monkeypatch)
    assert _first_probability(*of_law) == usual


def test_cap_is_a_minimum():
    law = TrialLaw(30)
    assert draw_trials(law, max_trials=1) == 1
    assert max(draw_trials(law, max_trials=3) for _ in range(50)) == 3  # else with .0656^50


@pytest.mark.parametrize("eta", [-0.5, 0.0, 1.0])
def test_mean_one_is_one_trial(eta):
    assert {draw_trials(TrialLaw(1, eta)) for _ in range(20)} == {1}


@pytest.mark.parametrize(
    ("bad", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_bad_caps_are_refused(bad, error):
    with pytest.raises(error, match="max_trials"):
        draw_trials(TrialLaw(3), max_trials=bad)


def test_other_laws_are_refused():
    with pytest.raises(TypeError, match="TrialLaw"):
        draw_trials(30)
