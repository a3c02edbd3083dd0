"""Sensitivities of pair counts and cost matrices: brute force over all small data sets."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from _support.internals import (
    PairTable,
    Ratio,
    capped_excess_pairs,
    confusion_cells,
    cost_matrix,
    doubled_wrong_pairs,
    excess_pairs,
    majority_cap,
    one_vs_rest_counts,
    pair_tables,
    wrong_pair_sensitivity,
    wrong_pairs_l1_sensitivity,
)
from skdpbo.mechanisms import PermuteAndFlip

NAN = np.nan


def largest_change(statistic, records, size, of=lambda data, other: True):
    """Largest l1 change of a statistic over all data sets that differ in one record.

    The statistic does not depend on the order of the records, so each multiset is counted once.
    """
    indices = range(len(records))
    known = {
        data: np.array([records[i] for i in data], float)
        for data in combinations_with_replacement(indices, size)
    }
    values = {data: np.asarray(statistic(known[data])) for data in known}
    largest = 0
    for rest in combinations_with_replacement(indices, size - 1):
        for pair in combinations_with_replacement(indices, 2):
            one, other = (tuple(sorted((*rest, i))) for i in pair)
            if of(known[one], known[other]):
                largest = max(largest, np.abs(values[one] - values[other]).sum())
    return largest


def naive_wrong_pairs(data, table):
    """Doubled count of wrong pairs, pair by pair, with an unreadable score last on either side."""
    total = 0
    for a, *scores_a in data:
        for b, *scores_b in data:
            if a == table.positive and b in table.negatives:
                p, n = scores_a[table.column], scores_b[table.column]
                p, n = -np.inf if np.isnan(p) else p, np.inf if np.isnan(n) else n
                total += 2 * (n > p) + (n == p)
    return total


def counts_of(data, tables):
    return [doubled_wrong_pairs(data[:, 0].astype(int), data[:, 1:], table) for table in tables]


def excesses_of(data, tables, expected, n_classes):
    members = np.bincount(data[:, 0].astype(int), minlength=n_classes).tolist()
    wrong = counts_of(data, tables)
    return [excess_pairs(u, t, members, expected, 16) for u, t in zip(wrong, tables, strict=True)]


class TestDoubledWrongPairs:
    def test_counts_pair_by_pair(self):
        table = PairTable(0, 1, (0,))
        records = list(product((0, 1), (0.0, 1.0, 2.0, NAN)))
        for data in combinations_with_replacement(records, 3):
            data = np.array(data, float)
            assert counts_of(data, [table]) == [naive_wrong_pairs(data, table)]

    @pytest.mark.parametrize("n_classes", [2, 3, 4])
    @pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
    def test_counts_of_many_classes(self, n_classes, multi_class):
        rng = np.random.default_rng(n_classes)
        codes = rng.integers(n_classes, size=60)
        scores = rng.integers(5, size=(60, n_classes)).astype(float)
        scores[rng.random(scores.shape) < 0.1] = NAN
        data = np.column_stack([codes, scores])
        for table in pair_tables(n_classes, multi_class):
            assert counts_of(data, [table]) == [naive_wrong_pairs(data, table)]

    def test_sums_beyond_32_bits(self):
        codes = np.repeat([0, 1], 100_000)
        wrong = doubled_wrong_pairs(codes, -codes[:, None].astype(float), PairTable(0, 1, (0,)))
        assert wrong == 2 * 100_000**2


# Records of three classes: each score above or below that of a middling record, or unreadable.
RANKED = [(c, *row) for c in range(3) for row in product((-1.0, 1.0), repeat=3)]
RANKED += [(c, *(value,) * 3) for c in range(3) for value in (0.0, NAN)]


class TestWrongPairSensitivity:
    @pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
    def test_two_classes_is_attained(self, size):
        tables = pair_tables(2, "ovr")
        scores = (0.0, 1.0, NAN) if size < 5 else (0.0, NAN)
        records = list(product((0, 1), scores))
        change = largest_change(lambda data: counts_of(data, tables), records, size)
        bound = wrong_pair_sensitivity(tables, [1], 2, size)
        assert change == 2 * (size - 1)
        assert bound == max(change, 1)
        assert bound == wrong_pairs_l1_sensitivity(tables, 2, size)

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
    @pytest.mark.parametrize("weights", ["equal", "unequal"])
    def test_three_classes_is_attained(self, multi_class, weights):
        tables = pair_tables(3, multi_class)
        weights = [1 + 3 * i * (weights == "unequal") for i in range(len(tables))]

        def total(data):
            return [np.dot(weights, counts_of(data, tables))]

        bound = wrong_pair_sensitivity(tables, weights, 3, 2)
        assert largest_change(total, RANKED, 2) == bound

    @pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
    def test_vector_of_three_classes_is_attained(self, multi_class):
        tables = pair_tables(3, multi_class)
        change = largest_change(lambda data: counts_of(data, tables), RANKED, 2)
        assert change == wrong_pairs_l1_sensitivity(tables, 3, 2)

    @pytest.mark.quick_cases(4)
    @pytest.mark.parametrize("expected", [0, 2, 8, 13, 16])
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_of_an_excess_over_an_expected_share_it_is_the_same(self, expected, n_classes):
        multi = n_classes > 2
        tables, size = pair_tables(n_classes, "ovr"), 2 if multi else 4
        records = RANKED if multi else list(product((0, 1), (0.0, 1.0, NAN)))
        change = largest_change(
            lambda data: excesses_of(data, tables, expected, n_classes), records, size
        )
        # In sixteenths of a pair, of which the bound counts two.
        assert change <= 8 * wrong_pairs_l1_sensitivity(tables, n_classes, size)
        assert multi or change == 8 * wrong_pairs_l1_sensitivity(tables, 2, size)

    def test_an_expected_share_above_one_is_caught(self):
        """Planted bug: then two records that become a pair move more than a wrong pair does."""
        tables = pair_tables(3, "ovr")
        change = largest_change(lambda data: excesses_of(data, tables, 24, 3), RANKED, 2)
        assert change > 8 * wrong_pairs_l1_sensitivity(tables, 3, 2)

    def test_the_bound_of_the_total_is_none_for_the_vector(self):
        """Planted bug: a record that changes its class moves more tables than those it leaves."""
        tables = pair_tables(3, "ovr")
        change = largest_change(lambda data: counts_of(data, tables), RANKED, 2)
        assert change > wrong_pair_sensitivity(tables, [1] * 3, 3, 2)


def capped(data, cap):
    """Capped excess of wrong pairs of two classes."""
    wrong = counts_of(data, [PairTable(0, 1, (0,))])
    n_positives = int(data[:, 0].sum())
    return [capped_excess_pairs(*wrong, n_positives, len(data) - n_positives, cap)]


class TestCappedExcessPairs:
    @pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
    def test_no_record_moves_more_than_twice_the_cap(self, size):
        """All data sets and all caps that are allowed; 2 M is attained."""
        records = list(product((0, 1), (0.0, 1.0, NAN)))
        for cap in range(majority_cap(0.5, size), max(size, 2)):
            change = largest_change(lambda data, cap=cap: capped(data, cap), records, size)
            assert change == (2 * cap if size > 1 else 0)

    def test_planted_bug_a_cap_of_half_the_records(self):
        """Below 2 (m - 1) / 3 a record that changes its class moves more than 2 M."""
        records = [(1, 1.0), (0, 0.0), (0, NAN), (1, NAN)]
        assert largest_change(lambda data: capped(data, 4), records, 8) > 2 * 4
        assert majority_cap(0.5, 8) == 5

    def test_planted_bug_no_factor(self):
        """The excess alone moves with the larger class, however large it is."""
        records = list(product((0, 1), (0.0, 1.0, NAN)))
        change = largest_change(lambda data: capped(data, 5), records, 6)
        assert change > 2 * majority_cap(0.5, 6)

    @pytest.mark.parametrize(
        ("frequency", "size", "cap"),
        [(0.5, 100, 66), (0.76, 2000, 1520), (0.95, 2000, 1900), (1.0, 100, 99), (0.5, 1, 1)],
    )
    def test_cap(self, frequency, size, cap):
        assert majority_cap(frequency, size) == cap

    @pytest.mark.parametrize("n_positives", [0, 3, 50, 97, 100])
    def test_order_of_candidates_is_that_of_the_pairs(self, n_positives):
        wrong = np.arange(0, 2 * n_positives * (100 - n_positives) + 1)
        totals = [capped_excess_pairs(int(u), n_positives, 100 - n_positives, 67) for u in wrong]
        assert totals == sorted(totals)
        assert len(set(totals)) > 0.6 * len(wrong)

    @pytest.mark.parametrize(("n_positives", "exceeds"), [(500, True), (100, False)])
    def test_regret_of_classes_that_are_more_even_than_the_public_ones(self, n_positives, exceeds):
        """The smaller class alone bounds it where none has fewer records than the cap."""
        n_negatives = 1000 - n_positives
        cap, pairs, n, epsilon = majority_cap(0.9, 1000), n_positives * n_negatives, 1000, 1.0
        best = capped_excess_pairs(0, n_positives, n_negatives, cap)
        stated = 2 * np.log(n) / (epsilon * min(n_positives, n_negatives))
        choice, largest = PermuteAndFlip(epsilon, 2 * cap), 0.0
        for gap in stated * np.array([0.8, 1.5, 2.0]):  # in AUC, of all candidates but the best
            other = capped_excess_pairs(round(2 * gap * pairs), n_positives, n_negatives, cap)
            p = choice.probabilities([best] + [other] * (n - 1))
            largest = max(largest, gap * (1 - p[0]))
        assert (largest > stated) == exceeds
        assert largest <= stated * max(1, cap / max(n_positives, n_negatives))


CELLS = [(a, b) for a in range(3) for b in range(4)]


def cells_of(data):
    truth, predicted = data.astype(int).T
    return confusion_cells(4 * truth + predicted, 3)


class TestCounts:
    """Released counts: their l1 sensitivities are attained."""

    @pytest.mark.parametrize(
        ("rows", "classes", "sensitivity"),
        [([0, 2], [0, 1, 2], 2), ([0, 1, 2], [0, 1, 2], 4), ([0, 1, 2], [1], 2), ([0, 2], [1], 2)],
    )
    def test_one_vs_rest(self, rows, classes, sensitivity):
        def counts(data):
            return one_vs_rest_counts(cells_of(data))[np.ix_(rows, classes)].ravel()

        assert largest_change(counts, CELLS, 3) == sensitivity

    def test_cells_of_two_classes(self):
        def counts(data):
            truth, predicted = data.astype(int).T
            return one_vs_rest_counts(confusion_cells(3 * truth + predicted, 2))[[0, 2]].ravel()

        records = list(product(range(2), range(3)))
        assert largest_change(counts, records, 3) == 2


class TestCostMatrix:
    @pytest.mark.parametrize(
        "costs",
        [
            ((1.0, 0.2, 3.0), (0.5, 0.0, 0.1)),
            ((1, 1, 1), (0, 0, 0)),
            ((0, 0, 1), (0, 0, -0.9)),  # a predicted one of the last class is rewarded
        ],
    )
    def test_a_record_moves_the_total_by_at_most_units(self, costs):
        matrix = cost_matrix(*map(np.array, costs), 1000)
        assert matrix.min() == 0
        assert matrix.max() == 1000
        assert (np.diagonal(matrix) == [900 * (min(costs[1]) < 0)] * 2 + [0]).all()

        def total(data):
            return [(cells_of(data) * matrix).sum()]

        assert largest_change(total, CELLS, 3) == 1000

    @pytest.mark.parametrize("kind", ["fbeta", "precision", "recall", "jaccard"])
    @pytest.mark.parametrize("beta_squared", [0.25, 1.0, 4.0])
    def test_the_cost_at_the_best_level_is_least_for_the_best_ratio(self, kind, beta_squared):
        """Dinkelbach: at the largest ratio, `level * D - N` is 0 for the best and else positive."""
        rng = np.random.default_rng(3)
        n_positive, n_negative = 40, 200
        tp = rng.integers(1, n_positive + 1, size=50)
        fp = rng.integers(0, n_negative + 1, size=50)
        fn = n_positive - tp
        ratio = Ratio(kind, beta_squared)
        values = ratio.value(tp, fp, fn)
        false_negative, false_positive = ratio.costs(values.max())
        totals = false_negative * fn + false_positive * fp
        assert values[totals.argmin()] == values.max()

    def test_f1_with_a_floor_has_sensitivity_two_over_the_floor(self):
        """The floor L of the denominator bounds F1 itself; the costs have a smaller one."""
        floor = 4.0

        def f1(data):
            truth, predicted = data.astype(int).T
            tp = ((truth == 1) & (predicted == 1)).sum()
            d = 2 * tp + (truth != predicted).sum()
            return [2 * tp / max(d, floor)]

        changes = [largest_change(f1, list(product((0, 1), (0, 1))), size) for size in range(1, 7)]
        assert max(changes) <= 2 / floor
        assert max(changes) == pytest.approx(2 / floor)
