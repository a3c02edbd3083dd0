import math
from fractions import Fraction

import numpy as np
import pytest

from _support.internals import PerRecordScorer, PrivateChoice
from skdpbo.mechanisms import PermuteAndFlip, noise_source

SCORER = PerRecordScorer(None, name="loss", bound=3.0, units=3)


def release(choice, totals, offsets=None, n_records=10, seed=0):
    """Return (index, released mean loss or None)."""
    source = noise_source(seed)
    index, score = choice.release(
        totals,
        [0] * len(totals) if offsets is None else offsets,
        sensitivity=3,
        score=lambda k, epsilon: SCORER.release_score((totals[k],), epsilon, n_records, source),
        source=source,
    )
    return index, None if score is None else -score.value


def test_shares_add_up_exactly():
    choice = PrivateChoice("permute_and_flip", 0.1, 0.3)
    assert choice.epsilon_choice + choice.epsilon_score == Fraction(0.1)
    assert choice.guarantee.epsilon >= 0.1
    assert math.isclose(choice.guarantee.epsilon, 0.1)
    assert choice.guarantee.delta == 0


def test_guarantee_names_the_steps():
    both = PrivateChoice("exponential", 1, 0.25).guarantee.mechanism
    assert both == "exponential choice (epsilon 0.75) + discrete Laplace score (epsilon 0.25)"
    assert "score" not in PrivateChoice("exponential", 1, 0).guarantee.mechanism


@pytest.mark.parametrize("mechanism", PrivateChoice.SELECTIONS)
def test_a_large_epsilon_picks_the_best_and_the_first_of_equals(mechanism):
    choice = PrivateChoice(mechanism, 1e6, 0.5)
    for seed in range(20):
        assert release(choice, [9, 5, None, 5, 5, 7], seed=seed) == (1, 0.5)
        assert release(choice, [9, 5, None, 5, 5, 7], [0, 9, 0, 0, 9, 0], seed=seed) == (3, 0.5)


def test_the_score_stays_in_its_range_and_can_be_left_out():
    noisy = PrivateChoice("permute_and_flip", 1e-3, 0.9)
    scores = {release(noisy, [3], seed=seed)[1] for seed in range(50)}
    assert scores <= {total / 10 for total in range(31)}
    assert len(scores) > 1
    assert release(PrivateChoice("permute_and_flip", 1.0, 0.0), [3]) == (0, None)


@pytest.mark.parametrize(("compared", "unit"), [(None, 3), (([7, 8], 5), 5)])
def test_the_mechanism_gets_the_share_and_the_sensitivity_of_the_choice(
    compared, unit, monkeypatch
):
    given = {}

    class Spy:
        def __init__(self, epsilon, sensitivity):
            given.update(epsilon=epsilon, sensitivity=sensitivity)

        def select(self, losses, source):
            given["losses"] = losses
            return 0

    monkeypatch.setitem(PrivateChoice.SELECTIONS, "permute_and_flip", Spy)
    choice = PrivateChoice("permute_and_flip", 1.0, 0.25)
    choice.release(
        [9, 4], [0, 1], sensitivity=3, score=lambda *_: None, source=None, compared=compared
    )
    first, second = [9, 4] if compared is None else compared[0]
    fine = given["sensitivity"] // unit
    assert given["epsilon"] == Fraction(3, 4)
    assert given["sensitivity"] == fine * unit
    assert given["losses"] == [fine * first, fine * (second + 1) + unit]


@pytest.mark.parametrize("mechanism", PrivateChoice.SELECTIONS)
@pytest.mark.parametrize("sensitivity", [1, 2**20])
def test_much_budget_chooses_the_first_of_the_best_however_wide_the_bound(mechanism, sensitivity):
    """An offset of 1 % of the bound at any epsilon made a first one win that was worse by less."""
    choice = PrivateChoice(mechanism, 1e12, 0)
    how = {"sensitivity": sensitivity, "score": None, "source": None}
    assert choice.release([7, 6, 6], [0] * 3, **how)[0] == 1


def test_preferring_the_first_moves_the_law_by_no_more_than_its_handicap():
    # Handicaps below 1 % of the sensitivity change log-probabilities by at most epsilon / 100.
    totals, units, epsilon = [0, 2, 2, 5], 3, 2.0
    plain = PermuteAndFlip(epsilon, units).probabilities(totals)
    fine = 100 * len(totals)
    handicapped = PermuteAndFlip(epsilon, fine * units).probabilities(
        [fine * total + rank * units for rank, total in enumerate(totals)]
    )
    assert np.abs(np.log(handicapped / plain)).max() <= epsilon / 100


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("best", 1.0, 0.1), "mechanism"),
        (("exponential", 0.0, 0.1), "epsilon"),
        (("exponential", 1e-101, 0.1), "epsilon must be at least 1e-100"),
        (("exponential", 1.0, 1.0), "score_fraction"),
        (("exponential", 1.0, math.nan), "score_fraction"),
        (("exponential", 1.0, 5e-324), "score_fraction"),
    ],
)
def test_bad_parameters(arguments, match):
    with pytest.raises(ValueError, match=match):
        PrivateChoice(*arguments)
