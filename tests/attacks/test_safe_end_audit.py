"""The choice of a descent's end on two data sets: never more than the claimed epsilon.

The worst pair: one record that is better off at the one point, or at the other, beside records that
are as much better off at the first. Bounds hold with probability 1 - 1e-6 (false alarms), and the
same test catches each planted bug.
"""

import itertools
import math

import numpy as np
import pytest

from _support.bounds import epsilon_at_least
from _support.internals import PrivateChoice, SafeEnd, end_sensitivity
from _support.planted import plant
from skdpbo.mechanisms import noise_source

UNITS, EPSILON = 1000, 2.0
POINTS = np.array([[0.0], [0.1], [0.2]])  # the start, and two on the way
CLIP = 0.5  # so that a change of a loss counts up to .1 of the largest: 100 of 1000
LIMIT = 100


def losses(first, second):
    """Losses at the three points: of the record, of one of the opposite mind, and of forty more."""
    rows = np.full((3, 42), UNITS // 2)
    rows[1:, 0] += [first, second]
    rows[1:, 1] += [LIMIT, -LIMIT]
    rows[1:, 2:] -= LIMIT  # the start is far behind
    return list(rows)


def released(rows, n):
    end = SafeEnd(PrivateChoice("permute_and_flip", EPSILON, 0.0), UNITS, CLIP)
    source = noise_source(None)
    return sum(end.release(rows, POINTS, source) == 1 for _ in range(n))


def bound(n, size=LIMIT):
    """Lower bound on epsilon: the record prefers the first point, or the second."""
    hits = [released(losses(*pair), n) for pair in ((-size, size), (size, -size))]
    return max(epsilon_at_least(*hits, n), epsilon_at_least(*[n - k for k in hits], n))


def test_brute_force_sensitivity():
    """Every pair of records on a grid of losses, at every limit: the bound is attained."""
    units = 6
    end = SafeEnd(None, units, 1.0)
    for limit in range(1, units + 1):
        changes = []
        for start in range(units + 1):
            for at in range(units + 1):
                rows = end.relative([np.array([start]), np.array([at])], limit)
                changes.append([int(row[0]) for row in rows])
        moved = max(np.ptp(column) for column in zip(*changes, strict=True))
        assert moved == end_sensitivity(limit, units), limit


def test_brute_force_sensitivity_at_three_points():
    """The middle is of a record's own losses: every record counts within the bound, attained."""
    units = 4
    records = np.array(list(itertools.product(range(units + 1), repeat=3))).T
    for limit in range(1, units + 1):
        rows = np.array(SafeEnd(None, units, 1.0).relative(list(records), limit))
        assert (np.ptp(rows, axis=1) == end_sensitivity(limit, units)).all(), limit
        # alone or among others, a record counts the same
        alone = SafeEnd(None, units, 1.0).relative(list(records[:, :1]), limit)
        assert [row[0] for row in alone] == rows[:, 0].tolist()


def test_points_that_fail_have_no_part_in_the_middle():
    end = SafeEnd(None, UNITS, 1.0)
    found = end.relative([np.array([100]), None, np.array([301])], 150)
    assert [None if row is None else int(row[0]) for row in found] == [-100, None, 101]


def test_limit_is_that_of_a_clipped_gradient():
    assert SafeEnd(None, UNITS, CLIP).limit(POINTS) == LIMIT
    assert SafeEnd(None, UNITS, 1e9).limit(POINTS) == UNITS
    assert SafeEnd(None, UNITS, CLIP).limit(0 * POINTS) == 1


class TestChoice:
    @pytest.mark.slow
    def test_honest(self):
        # 1.60 +- .05 in 40 runs: 6 standard deviations
        assert 1.3 < bound(3000) <= EPSILON

    @pytest.mark.slow
    def test_a_large_change_counts_no_more(self):
        assert bound(3000, size=UNITS // 2) <= EPSILON

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "bug", ["gibo: the end has the noise of one side", "gibo: the end has no noise"]
    )
    def test_bugs_are_caught(self, bug, monkeypatch):
        plant(monkeypatch, bug)
        assert bound(3000) > EPSILON

    def moved_by_one(self, n=1500):
        """Bound from a record of equal losses against one with larger ones that are equal, too.

        Forty others lose as much at one point as they gain at the other.
        """
        rows = np.repeat([[500], [450], [550]], 41, axis=1)
        hits = []
        for record in ([500, 500, 500], [500, 1000, 1000]):
            rows[:, 0] = record
            hits.append(released(list(rows), n))
        pairs = hits, hits[::-1], [n - k for k in hits], [n - k for k in hits][::-1]
        return max(epsilon_at_least(*pair, n) for pair in pairs)

    @pytest.mark.slow
    def test_one_middle_for_all_is_caught(self, monkeypatch):
        assert self.moved_by_one() <= EPSILON
        plant(monkeypatch, "gibo: all records have one middle")
        assert self.moved_by_one() > EPSILON

    def test_unclipped_losses_are_caught(self, monkeypatch):
        plant(monkeypatch, "gibo: the end compares unclipped losses")
        assert bound(3000, size=UNITS // 2) > EPSILON


class TestRelease:
    def test_a_large_budget_takes_the_best(self):
        end = SafeEnd(PrivateChoice("permute_and_flip", 1e6, 0.0), UNITS, CLIP)
        rows = [np.array([500, 500]), np.array([400, 480]), np.array([450, 460])]
        assert end.release(rows, POINTS, noise_source(None)) == 1
        # public integers decide where they are larger
        assert end.release(rows, POINTS, noise_source(None), offsets=[0, 500, 0]) == 2

    def test_points_that_cannot_be_trained_are_not_chosen(self):
        end = SafeEnd(PrivateChoice("permute_and_flip", 1e-6, 0.0), UNITS, CLIP)
        rows = [None, np.array([1000, 1000]), None]
        assert end.release(rows, POINTS, noise_source(None)) == 1
        assert end.release([None] * 3, POINTS, noise_source(None)) == 2

    def test_no_budget_is_blind(self):
        """Next to no budget: each point as often as another (6.5 standard errors)."""
        end = SafeEnd(PrivateChoice("permute_and_flip", 1e-9, 0.0), UNITS, CLIP)
        rows = losses(-LIMIT, LIMIT)
        drawn = [end.release(rows, POINTS, noise_source(None)) for _ in range(1500)]
        shares = np.bincount(drawn, minlength=3) / 1500
        assert np.abs(shares - 1 / 3).max() < 6.5 * math.sqrt(2 / 9 / 1500)
