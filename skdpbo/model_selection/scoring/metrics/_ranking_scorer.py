"""ROC AUC: the choice by counts of wrongly ordered pairs, the score by noisy counts."""

import copy
from fractions import Fraction

import numpy as np

from skdpbo.model_selection.scoring._losses import codes_among
from skdpbo.model_selection.scoring._parsing import as_numbers
from skdpbo.model_selection.scoring._score_release import SumGroup
from skdpbo.model_selection.scoring.metrics._metric_scorer import MetricScorer
from skdpbo.model_selection.scoring.metrics._pair_counts import (
    capped_excess_pairs,
    doubled_wrong_pairs,
    excess_pairs,
    majority_cap,
    pair_tables,
    wrong_pair_sensitivity,
    wrong_pairs_l1_sensitivity,
)

_WEIGHT_UNITS = 2**16
# The pairs need more than the class counts, whose noise moves the AUC only as far as it is from the
# expected one.
_SHARE_OF_CLASS_COUNTS = Fraction(1, 5)
_STEPS = 16  # of the expected share of wrong pairs
_EXPECTED = 2  # of these, where no public score is known


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
    expected : int
        Sixteenths of the pairs that are expected in the wrong order; public.
    """

    of_chance = 0.5
    nearest_mean = "'neg_log_loss' or 'neg_brier_score'"

    def __init__(
        self, public_scorer, *, name, response_method, multi_class, weighted, classes, counts
    ):
        super().__init__(
            public_scorer, name=name, response_method=response_method, lower=0.0, upper=1.0
        )
        self.multi_class, self.weighted = multi_class, weighted
        self.classes, self.frequencies = classes, counts / counts.sum()
        self._most_frequent = float(self.frequencies.max())
        self.tables = pair_tables(len(classes), multi_class)
        self.expected = _EXPECTED
        self._n_columns = n_columns = 1 if len(classes) == 2 else len(classes)
        # Of a record that cannot be predicted: one of the rarest class, ranked last.
        self.worst_outcome = np.array([int(np.argmin(counts))] + [np.nan] * n_columns)
        # With these the choice is by the average AUC, as if classes were as frequent as in public;
        # rounded ones are other public weights, and their sensitivity is computed from them.
        weights = self._averaging(self.frequencies) / self._pairs(self.frequencies)
        units = _WEIGHT_UNITS / weights.max()
        self.weights = [max(round(w), 1) for w in weights * units] if len(weights) > 1 else [1]

    def informed_by(self, public_score, noise=None, public_counts=()):
        """Return this scorer with the wrong pairs that the best public score makes expect."""
        informed = copy.copy(self)
        if np.isfinite(public_score):
            informed.expected = round(_STEPS * float(np.clip(1 - public_score, 0.0, 1.0)))
        return informed

    def choice_sensitivity(self, n_records):
        """Largest change of the total; see `capped_excess_pairs` and `wrong_pair_sensitivity`."""
        if len(self.classes) == 2:
            return 2 * majority_cap(self._most_frequent, n_records)
        return wrong_pair_sensitivity(self.tables, self.weights, len(self.classes), n_records)

    def units_per_score(self, n_records):
        """Change of the total for one unit of the score, about; public."""
        pairs = 2.0 * n_records**2 * self._pairs(self.frequencies)
        averaging = self._averaging(self.frequencies)
        share = np.array(self.weights) * pairs / averaging
        return float(share.mean() * averaging.sum())

    def exact_sums(self, outcomes):
        """Return (weighted or capped wrong pairs, excess of each table, class counts).

        Protected: pass only to a mechanism.
        """
        codes, scores = outcomes[:, 0].astype(np.int64), outcomes[:, 1:]
        wrong = [doubled_wrong_pairs(codes, scores, table) for table in self.tables]
        members = np.bincount(codes, minlength=len(self.classes)).tolist()
        excess = [
            excess_pairs(u, table, members, self.expected, _STEPS)
            for u, table in zip(wrong, self.tables, strict=True)
        ]
        if len(members) == 2:
            cap = majority_cap(self._most_frequent, len(codes))
            total = capped_excess_pairs(*wrong, *members, cap)
            # m is public: the count of one class gives the other, and moves by 1 and not by 2.
            return total, *excess, members[1]
        return sum(w * u for w, u in zip(self.weights, wrong, strict=True)), *excess, *members

    def sum_groups(self, n_records):
        """Excess pairs of all tables, then class counts (of one class, where there are two)."""
        c, scale = len(self.classes), _STEPS // 2  # of a pair, which counts twice in 2 U
        sensitivity = scale * wrong_pairs_l1_sensitivity(self.tables, c, n_records)
        pairs = scale * max(2 * (n_records - 1), 1)  # of one record with all others
        # Typically a fifth of the pairs is in the wrong order.
        excess = (0.2 * _STEPS - self.expected) * (n_records**2 * self._pairs(self.frequencies))
        members = (n_records * self.frequencies)[1 if c == 2 else 0 :]
        share = _SHARE_OF_CLASS_COUNTS
        return [
            SumGroup(len(self.tables), sensitivity, 1 - share, pairs, excess),
            SumGroup(len(members), 1 if c == 2 else 2, share, 1, members),
        ]

    def value_of(self, sums, n_records):
        """Return the average AUC of sums of shape (..., n_sums)."""
        excess, members = np.split(sums, [len(self.tables)], axis=-1)
        if members.shape[-1] == 1:
            members = np.concatenate([n_records - members, members], axis=-1)
        # No class is empty: noise may leave nothing of a small one, which stands in a denominator.
        shares = np.clip(members, 1.0, None) / n_records
        per_pair = excess / (float(n_records) ** 2 * self._pairs(shares))
        auc = 1 - (self.expected + per_pair) / _STEPS
        # Not clipped before they are averaged: an area beyond 1 makes up for one below.
        averaging = self._averaging(shares)
        return (auc * averaging).sum(axis=-1) / averaging.sum(axis=-1)

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
