"""Counts of wrongly ordered pairs for a choice by ROC AUC, and their sensitivity.

``U`` is the number of (positive, negative) pairs in the wrong order, a tie counting one half, so
that ``AUC = 1 - U / (n+ n-)``. All counts here are doubled, hence integers. Proofs:
``docs/theory/pair_metrics.md``.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np


@dataclass(frozen=True)
class PairTable:
    """One binary ranking problem: a score column, one positive class and the negative classes.

    Attributes
    ----------
    column : int
        Column of the scores; larger means more likely positive.
    positive : int
        Code of the positive class.
    negatives : tuple of int
        Codes of the negative classes.
    """

    column: int
    positive: int
    negatives: tuple

    def separates(self, a, b):
        """Whether a record of class a and one of class b form a pair of this table."""
        pairs = ((a, b), (b, a))
        return any(p == self.positive and n in self.negatives for p, n in pairs)


def pair_tables(n_classes, multi_class):
    """List the ranking problems of scikit-learn's ROC AUC.

    Parameters
    ----------
    n_classes : int
        C; with 2 classes there is one table, of the second class.
    multi_class : {"ovr", "ovo"}
        One class against the rest (C tables), or each against each other (C (C - 1) tables).

    Returns
    -------
    list of PairTable
    """
    classes = range(n_classes)
    if n_classes == 2:
        return [PairTable(0, 1, (0,))]
    if multi_class == "ovr":
        return [PairTable(c, c, tuple(b for b in classes if b != c)) for c in classes]
    return [PairTable(a, a, (b,)) for a in classes for b in classes if a != b]


def doubled_wrong_pairs(codes, scores, table):
    """Count the pairs of one table in the wrong order, twice; ties count once.

    Protected: pass only to a mechanism.

    Parameters
    ----------
    codes : ndarray of shape (m,)
        Class codes.
    scores : ndarray of shape (m, n_columns)
        Finite, or NaN for a record that cannot be scored, which ranks worst: a positive below and a
        negative above all others.
    table : PairTable

    Returns
    -------
    int
        In ``[0, 2 n+ n-]``; O(m log m).
    """
    scores = scores[:, table.column]
    negatives = scores[np.isin(codes, table.negatives)]
    negatives = np.sort(np.where(np.isnan(negatives), np.inf, negatives))
    positives = scores[codes == table.positive]
    # Sorted queries are several times faster, as binary searches stay in cache.
    positives = np.sort(np.where(np.isnan(positives), -np.inf, positives))
    # n - left negatives are at or above a positive, n - right strictly above it.
    at_most = np.searchsorted(negatives, positives, side="left").sum(dtype=np.int64)
    below = np.searchsorted(negatives, positives, side="right").sum(dtype=np.int64)
    # 2 U = sum (n - left) + (n - right); ties are counted by the first term alone.
    return 2 * len(positives) * len(negatives) - int(at_most) - int(below)


def majority_cap(largest_frequency, n_records):
    """Public cap M on the size of the larger of two classes, which gives a sensitivity of 2 M.

    Parameters
    ----------
    largest_frequency : float
        Frequency of the larger class among the public rows.
    n_records : int
        m

    Returns
    -------
    int
        Expected size of the larger class; at least 2 (m - 1) / 3, and at least 1.
    """
    expected = math.ceil(largest_frequency * n_records)
    least = -(-2 * (n_records - 1) // 3)  # rounded up
    return max(min(expected, n_records - 1), least, 1)


def capped_excess_pairs(doubled_wrong, n_positives, n_negatives, cap):
    """Excess of wrong over right pairs, scaled down if a class has more than M records.

    ``floor((2 U - n+ n-) M / max(n+, n-, M))``: Theorem 2 of the page. The shift and the factor
    are equal for all candidates, which are ordered as by the AUC. Protected: pass only to a
    mechanism.

    Parameters
    ----------
    doubled_wrong : int
        2 U, see `doubled_wrong_pairs`.
    n_positives, n_negatives : int
        Protected.
    cap : int
        M, see `majority_cap`.

    Returns
    -------
    int
        Replacing one record changes it by at most 2 M.
    """
    excess = doubled_wrong - n_positives * n_negatives
    # Exact: a change of at most 2 M, an integer, is still at most 2 M after the floor.
    return math.floor(Fraction(excess * cap, max(n_positives, n_negatives, cap)))


def excess_pairs(doubled_wrong, table, members, expected, steps):
    """Excess of wrong pairs over an expected share of all pairs, in units of 1 / steps of a pair.

    Each pair contributes a number in [-expected, steps - expected], so that the sensitivity is
    `steps` times that of U: Theorem 1 of the page. Protected: pass only to a mechanism.

    Parameters
    ----------
    doubled_wrong : int
        2 U, see `doubled_wrong_pairs`.
    table : PairTable
    members : list of int
        Number of records of each class. Protected.
    expected, steps : int
        Public; 0 <= expected <= steps, which is even.

    Returns
    -------
    int
    """
    negatives = sum(members[k] for k in table.negatives)
    return steps // 2 * doubled_wrong - expected * members[table.positive] * negatives


def wrong_pair_sensitivity(tables, weights, n_classes, n_records):
    """Largest change of sum_j w_j 2 U_j when one record is replaced.

    A record of class a is in one pair with each of the other m - 1 records, of class b, in every
    table that separates a from b: Theorem 1 of the page.

    Parameters
    ----------
    tables : list of PairTable
    weights : list of int
        w_j >= 0, public.
    n_classes, n_records : int

    Returns
    -------
    int
        ``2 (m - 1) max_{a, b} sum of the w_j of the tables that separate a from b``, at least 1.
    """
    most = max(
        sum(w for table, w in zip(tables, weights, strict=True) if table.separates(a, b))
        for a, b in product(range(n_classes), repeat=2)
    )
    return max(2 * (n_records - 1) * most, 1)


def wrong_pairs_l1_sensitivity(tables, n_classes, n_records):
    """Largest l1 change of the vector of all 2 U_j when one record is replaced.

    A record that changes from class a to class c affects the tables of both: Theorem 1 of the page.

    Parameters
    ----------
    tables : list of PairTable
    n_classes, n_records : int

    Returns
    -------
    int
        ``2 (m - 1) max_{a, b, c} number of tables that separate a or c from b``, at least 1.
    """
    most = max(
        sum(table.separates(a, b) or table.separates(c, b) for table in tables)
        for a, b, c in product(range(n_classes), repeat=3)
    )
    return max(2 * (n_records - 1) * most, 1)
