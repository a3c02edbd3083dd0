"""ROC AUC: the choice by counts of wrongly ordered pairs, the score by noisy counts."""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from skdpbo.model_selection.scoring._losses import codes_among
from skdpbo.model_selection.scoring._parsing import as_numbers
from skdpbo.model_selection.scoring._score_release import SumGroup
from skdpbo.model_selection.scoring.metrics._metric_scorer import MetricScorer

__all__ = [
    "PairTable",
    "RankingScorer",
    "capped_excess_pairs",
    "doubled_wrong_pairs",
    "majority_cap",
    "pair_tables",
    "wrong_pair_sensitivity",
    "wrong_pairs_l1_sensitivity",
]


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
        Finite, or NaN for a record that cannot be scored: it ranks worst, a positive below and a
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
    # Sorted queries are several times faster: successive binary searches stay in cache.
    positives = np.sort(np.where(np.isnan(positives), -np.inf, positives))
    # n - left negatives are at or above a positive, n - right strictly above it.
    at_most = np.searchsorted(negatives, positives, side="left").sum(dtype=np.int64)
    below = np.searchsorted(negatives, positives, side="right").sum(dtype=np.int64)
    # 2 U = sum (n - left) + (n - right): a tie is counted by the first alone.
    return 2 * len(positives) * len(negatives) - int(at_most) - int(below)


def majority_cap(largest_frequency, n_records):
    """Public cap M on the larger of two classes, with which a record moves 2 M.

    Parameters
    ----------
    largest_frequency : float
        Of the classes of the public rows.
    n_records : int
        m

    Returns
    -------
    int
        The size of the larger class, if it is as frequent as among the public rows; at least
        2 (m - 1) / 3, and at least 1.
    """
    expected = math.ceil(largest_frequency * n_records)
    least = -(-2 * (n_records - 1) // 3)  # rounded up
    return max(min(expected, n_records - 1), least, 1)


def capped_excess_pairs(doubled_wrong, n_positives, n_negatives, cap):
    """Excess of wrong over right pairs, scaled down where a class has more than M records.

    ``floor((2 U - n+ n-) M / max(n+, n-, M))``: Theorem 2 of the page. The shift and the factor
    are common to all candidates, so that the order of candidates is that of the AUC.
    Protected: pass only to a mechanism.

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
        Replacing one record moves it by at most 2 M.
    """
    excess = doubled_wrong - n_positives * n_negatives
    # Exact fractions: a change of at most 2 M, an integer, is one of at most 2 M after the floor.
    return math.floor(Fraction(excess * cap, max(n_positives, n_negatives, cap)))


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

    A record of class a that becomes one of class c moves other tables than those it leaves, so both
    count: Theorem 1 of the page.

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


_WEIGHT_UNITS = 2**16
# The pairs need more than the class counts: their noise is 1 / (1 - AUC) times as large in AUC.
_SHARE_OF_CLASS_COUNTS = Fraction(1, 5)


class RankingScorer(MetricScorer):
    """Area under the ROC curve, of two classes or averaged over classes or pairs of them.

    Parameters
    ----------
    public_scorer : callable
        scikit-learn's scorer.
    name : str
    response_method : str or tuple of str
    multi_class : {"ovr", "ovo"}
    weighted : bool
        Whether classes count by their frequency in the average.
    classes : ndarray of shape (C,)
        Of the public targets, sorted; the second of two is the positive one.
    counts : ndarray of shape (C,)
        Public rows of each class.

    Attributes
    ----------
    weights : list of int
        Public weights of the pair counts in the choice, one for each table.
    """

    nearest_mean = "'neg_log_loss' or 'neg_brier_score'"

    def __init__(
        self, public_scorer, *, name, response_method, multi_class, weighted, classes, counts
    ):
        super().__init__(
            public_scorer, name=name, response_method=response_method, lower=0.0, upper=1.0
        )
        self.multi_class, self.weighted = multi_class, weighted
        self.classes, self.frequencies = classes, counts / counts.sum()
        self.tables = pair_tables(len(classes), multi_class)
        self._rarest = int(np.argmin(counts))
        self._n_columns = 1 if len(classes) == 2 else len(classes)
        # With these the choice is by the average AUC, as if classes were as frequent as in public;
        # rounded ones are other public weights, and their sensitivity is computed from them.
        weights = self._averaging(self.frequencies) / self._pairs(self.frequencies)
        units = _WEIGHT_UNITS / weights.max()
        self.weights = [max(round(w), 1) for w in weights * units] if len(weights) > 1 else [1]

    @property
    def worst_outcome(self):
        """Outcome of a record that cannot be predicted: one of the rarest class, ranked last."""
        return np.array([self._rarest] + [np.nan] * self._n_columns)

    def choice_sensitivity(self, n_records):
        """Largest change of the total; see `capped_excess_pairs` and `wrong_pair_sensitivity`."""
        if len(self.classes) == 2:
            return 2 * self._cap(n_records)
        return wrong_pair_sensitivity(self.tables, self.weights, len(self.classes), n_records)

    def units_per_score(self, n_records):
        """Change of the total for one unit of the score, about; public."""
        pairs = 2.0 * n_records**2 * self._pairs(self.frequencies)
        averaging = self._averaging(self.frequencies)
        share = np.array(self.weights) * pairs / averaging
        return float(share.mean() * averaging.sum())

    def exact_sums(self, outcomes):
        """Return (weighted or capped wrong pairs, U of each table, class counts).

        Protected: pass only to a mechanism.
        """
        codes, scores = outcomes[:, 0].astype(np.int64), outcomes[:, 1:]
        wrong = [doubled_wrong_pairs(codes, scores, table) for table in self.tables]
        members = np.bincount(codes, minlength=len(self.classes)).tolist()
        if len(members) == 2:
            total = capped_excess_pairs(*wrong, *members, self._cap(len(codes)))
            # m is public: the count of one class gives the other, and moves by 1 and not by 2.
            return total, *wrong, members[1]
        return sum(w * u for w, u in zip(self.weights, wrong, strict=True)), *wrong, *members

    def sum_groups(self, n_records):
        """Wrong pairs of all tables, then class counts (of one class, where there are two)."""
        c = len(self.classes)
        sensitivity = wrong_pairs_l1_sensitivity(self.tables, c, n_records)
        pairs = max(2 * (n_records - 1), 1)  # of one record with all others, doubled
        return [
            SumGroup(len(self.tables), sensitivity, 1 - _SHARE_OF_CLASS_COUNTS, pairs),
            SumGroup(1 if c == 2 else c, 1 if c == 2 else 2, _SHARE_OF_CLASS_COUNTS, 1),
        ]

    def typical_sums(self, n_records):
        """A fifth of the pairs is in the wrong order."""
        wrong = 0.2 * 2 * n_records**2 * self._pairs(self.frequencies)
        members = n_records * self.frequencies
        return [*wrong, *(members[1:] if len(members) == 2 else members)]

    def value_of(self, sums, n_records):
        """Return the average AUC of sums of shape (..., n_sums)."""
        wrong, members = np.split(sums, [len(self.tables)], axis=-1)
        if members.shape[-1] == 1:
            members = np.concatenate([n_records - members, members], axis=-1)
        # No class is empty: noise may leave nothing of a small one, which stands in a denominator.
        shares = np.clip(members, 1.0, None) / n_records
        auc = 1 - wrong / (2.0 * n_records**2 * self._pairs(shares))
        averaging = self._averaging(shares)
        return (np.clip(auc, 0.0, 1.0) * averaging).sum(axis=-1) / averaging.sum(axis=-1)

    def _cap(self, n_records):
        return majority_cap(float(self.frequencies.max()), n_records)

    def _pairs(self, shares):
        """Pairs of each table as a share of m^2, shape (..., n_tables)."""
        pairs = [
            shares[..., t.positive] * shares[..., list(t.negatives)].sum(axis=-1)
            for t in self.tables
        ]
        return np.stack(pairs, axis=-1)

    def _averaging(self, shares):
        """Weight of each table in the average, shape (..., n_tables)."""
        weights = [
            shares[..., t.positive]
            + (shares[..., t.negatives[0]] if self.multi_class == "ovo" else 0.0)
            if self.weighted
            else np.ones(shares.shape[:-1])
            for t in self.tables
        ]
        return np.stack(weights, axis=-1)

    def _outcomes(self, estimator, y, prediction):
        codes = codes_among(self.classes, y)
        width = prediction.shape[1] if np.ndim(prediction) == 2 else 1
        scores = as_numbers(prediction, width)
        if width == 2 and self._n_columns == 1:
            scores = scores[:, 1:]  # probabilities of two classes: that of the positive one
        if scores.shape[1] != self._n_columns:
            raise ValueError("the estimator must return one score for each class.")
        outcomes = np.column_stack([codes, scores])
        # An unseen or unreadable label.
        outcomes[codes < 0] = self.worst_outcome
        return outcomes
