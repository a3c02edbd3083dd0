"""ROC AUC: choice by counts of wrongly ordered pairs, score from noisy counts."""

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
# Noise of class counts affects the AUC in proportion to its distance from the expected value.
_SHARE_OF_CLASS_COUNTS = Fraction(1, 5)
_STEPS = 16  # resolution of the expected share of wrong pairs
_EXPECTED = 2  # in these steps, without a public score


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
        Whether the average is weighted by class frequencies.
    classes : ndarray of shape (C,)
        Classes of the public targets, sorted; the second of two is the positive one.
    counts : ndarray of shape (C,)
        Number of public rows of each class.

    Attributes
    ----------
    weights : list of int
        Public weights of the pair counts in the choice, one for each table.
    expected : int
        Expected share of wrongly ordered pairs, in sixteenths; public.
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
        # A record that cannot be predicted counts as one of the rarest class, ranked last.
        self.worst_outcome = np.array([int(np.argmin(counts))] + [np.nan] * n_columns)
        # Weights for a choice by the average AUC at public class frequencies; the sensitivity is
        # that of the rounded weights.
        weights = self._averaging(self.frequencies) / self._pairs(self.frequencies)
        units = _WEIGHT_UNITS / weights.max()
        self.weights = [max(round(w), 1) for w in weights * units] if len(weights) > 1 else [1]

    def informed_by(self, public_score, noise=None, public_counts=()):
        """Return this scorer with the share of wrong pairs of the best public score."""
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
        """Approximate change of the total for one unit of the score; public."""
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
            # As m is public, the count of one class suffices, with a sensitivity of 1.
            return total, *excess, members[1]
        return sum(w * u for w, u in zip(self.weights, wrong, strict=True)), *excess, *members

    def sum_groups(self, n_records):
        """Excess pairs of all tables, then class counts (one count for two classes)."""
        c, scale = len(self.classes), _STEPS // 2  # a pair counts twice in 2 U
        sensitivity = scale * wrong_pairs_l1_sensitivity(self.tables, c, n_records)
        pairs = scale * max(2 * (n_records - 1), 1)  # of one record with all others
        # Typical: a fifth of the pairs is in the wrong order.
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
        # At least 1, as counts are divisors and noise may make a small one 0.
        shares = np.clip(members, 1.0, None) / n_records
        per_pair = excess / (float(n_records) ** 2 * self._pairs(shares))
        auc = 1 - (self.expected + per_pair) / _STEPS
        # Averaged before clipping, so that errors cancel.
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
            scores = scores[:, 1:]  # the probability of the positive class
        if scores.shape[1] != self._n_columns:
            raise ValueError("the estimator must return one score for each class.")
        outcomes = np.column_stack([codes, scores])
        outcomes[codes < 0] = self.worst_outcome
        return outcomes
