"""Permute-and-flip and the exponential mechanism: laws, exact privacy, refusals."""

import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from _support.internals import PrivateChoice
from skdpbo.mechanisms import ExponentialMechanism, PermuteAndFlip, noise_source

ALARM = 1e-6
EACH = pytest.mark.parametrize("mechanism", PrivateChoice.SELECTIONS.values())
LOSSES = [3, 0, 5, 2, 9]


def by_inclusion_exclusion(p):
    """Return the law of permute-and-flip by expanding the product over all subsets."""
    law = []
    for k in range(len(p)):
        others = [p[j] for j in range(len(p)) if j != k]
        terms = (
            (-1) ** len(subset) * np.prod(subset) / (len(subset) + 1)
            for size in range(len(others) + 1)
            for subset in itertools.combinations(others, size)
        )
        law.append(p[k] * sum(terms))
    return np.array(law)


def test_reference_values():
    law = PermuteAndFlip(1.0, 2).probabilities(LOSSES)
    assert np.allclose(law, [0.1677, 0.4766, 0.0958, 0.2263, 0.0335], atol=5e-5)
    law = PermuteAndFlip(2.0, 1).probabilities([2, 1, 0])
    q = np.exp(-1.0)  # by hand: q (1/2 - q^2 / 6) for the middle one, and so on
    by_hand = [q**2 * (1 / 2 - q / 6), q * (1 / 2 - q**2 / 6), 1 - (q + q**2) / 2 + q**3 / 3]
    assert np.allclose(law, by_hand, rtol=1e-13)
    assert np.allclose(law, [0.0594, 0.1756, 0.7650], atol=5e-5)
    law = ExponentialMechanism(2.0, 1).probabilities([2, 1, 0])
    assert np.allclose(law, [0.0900, 0.2447, 0.6652], atol=5e-5)


def test_law_by_another_formula():
    losses = [4, 1, 0, 0, 7, 2]
    p = np.exp(-0.7 * np.array(losses) / (2 * 3))
    law = PermuteAndFlip(0.7, 3).probabilities(losses)
    assert np.allclose(law, by_inclusion_exclusion(p), rtol=1e-12)


@pytest.mark.quick_cases(2)
@EACH
@pytest.mark.parametrize("n", [1, 2, 500, 5000])
def test_probabilities_sum_to_one_for_any_length(mechanism, n):
    losses = np.random.default_rng(0).integers(0, 50, n)
    assert abs(mechanism(1.0, 1).probabilities(losses).sum() - 1) < 1e-9
    assert np.allclose(mechanism(1.0, 1).probabilities(np.zeros(n, int)), 1 / n, rtol=1e-9)


@pytest.mark.quick_cases(2)
@EACH
@pytest.mark.parametrize("epsilon", [1.0, 0.3, 4, Fraction(2, 3)])
def test_draws_follow_the_law(mechanism, epsilon):
    selector, n = mechanism(epsilon, 2), 12_000
    counts = np.bincount([selector.select(LOSSES) for _ in range(n)], minlength=5)
    assert stats.chisquare(counts, n * selector.probabilities(LOSSES)).pvalue > ALARM


@pytest.mark.quick_cases(1)
@EACH
def test_planted_factor_two_is_noticed(mechanism):
    selector, n = mechanism(2.0, 2), 12_000  # as if 2 B had been B
    counts = np.bincount([selector.select(LOSSES) for _ in range(n)], minlength=5)
    assert stats.chisquare(counts, n * mechanism(1.0, 2).probabilities(LOSSES)).pvalue < ALARM


@EACH
def test_privacy_of_every_neighbour(mechanism):
    # All moves of all losses by at most B: the log-ratio of the exact laws stays below epsilon.
    selector, base = mechanism(1.0, 1), np.array([2, 0, 1, 1])
    law = selector.probabilities(base)
    ratios = [
        np.max(np.abs(np.log(selector.probabilities(base + move) / law)))
        for move in itertools.product((-1, 0, 1), repeat=4)
    ]
    assert max(ratios) <= 1.0 + 1e-12
    assert max(ratios) > 0.6


@EACH
def test_only_differences_matter_and_integers_are_unbounded(mechanism):
    selector = mechanism(1.0, 2)
    shifted = [value + 2**100 for value in LOSSES]
    assert np.array_equal(selector.probabilities(shifted), selector.probabilities(LOSSES))
    assert selector.select(shifted) in range(5)
    assert selector.select([2**200, 0]) == 1


@EACH
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint64, object])
def test_integer_dtypes(mechanism, dtype):
    index = mechanism(1.0, 2).select(np.array(LOSSES, dtype=dtype))
    assert type(index) is int


@EACH
def test_seeded_selection_is_reproducible(mechanism):
    runs = [
        [mechanism(1.0, 2).select(LOSSES, source) for _ in range(30)]
        for source in (noise_source(1), noise_source(1), noise_source(2))
    ]
    assert runs[0] == runs[1] != runs[2]


@EACH
@pytest.mark.parametrize(
    ("losses", "error"),
    [
        ([], ValueError),
        ([[1, 2]], ValueError),
        (3, ValueError),
        ([0.5, 1.5], TypeError),
        ([True, False], TypeError),
        (["secret"], TypeError),
        ([float("nan"), 1234567.0], ValueError),
        (np.array([np.inf, 1234567.0]), ValueError),
    ],
)
def test_refused_losses_without_their_values(mechanism, losses, error):
    with pytest.raises(error, match="losses must be") as caught:
        mechanism(1.0, 2).select(losses)
    assert "1234567" not in str(caught.value)
    assert "secret" not in str(caught.value)


@EACH
@pytest.mark.parametrize(
    ("epsilon", "sensitivity", "error"),
    [
        (0.0, 1, ValueError),
        (-1.0, 1, ValueError),
        (np.inf, 1, ValueError),
        (np.nan, 1, ValueError),
        (True, 1, TypeError),
        ("1", 1, TypeError),
        (1.0, 0, ValueError),
        (1.0, -2, ValueError),
        (1.0, 1.0, TypeError),
        (1.0, True, TypeError),
    ],
)
def test_refused_parameters(mechanism, epsilon, sensitivity, error):
    with pytest.raises(error, match=r"epsilon|sensitivity"):
        mechanism(epsilon, sensitivity)


@EACH
def test_guarantee_is_pure_and_rounded_up(mechanism):
    guarantee = mechanism(Fraction(1, 3), 2).guarantee
    assert guarantee.delta == 0
    assert guarantee.status == "proved"
    assert Fraction(guarantee.epsilon) >= Fraction(1, 3)
    assert guarantee.epsilon == pytest.approx(1 / 3)


@EACH
def test_mechanism_is_frozen_and_holds_no_generator(mechanism):
    selector = mechanism(1.0, 2)
    selector.select(LOSSES, noise_source(0))
    assert pickle.loads(pickle.dumps(selector)) == selector
    with pytest.raises(AttributeError):
        selector.epsilon = 2.0


def test_extreme_epsilons():
    assert PermuteAndFlip(1e300, 1).select([5, 4, 6]) == 1
    assert PermuteAndFlip(5e-324, 1).select([5, 4, 6]) in range(3)
    assert np.isfinite(PermuteAndFlip(1e300, 1).probabilities([5, 4, 6])).all()
