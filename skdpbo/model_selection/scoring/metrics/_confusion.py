"""Ratios of counts (F-beta, precision, recall, Jaccard, MCC) and their public cost matrices.

A cost matrix holds one public cost for each pair (true class, predicted class), so its total over
records is a sum of bounded losses of single records, whatever the costs are. Proofs:
``docs/theory/ratio_and_pair_metrics.md``.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Ratio:
    """An average over classes of a ratio of their counts, ``N / D``.

    Attributes
    ----------
    kind : {"fbeta", "precision", "recall", "jaccard"}
    beta_squared : float, default=1.0
        Of F-beta.
    """

    kind: str
    beta_squared: float = 1.0
    lower = 0.0  # end of its range

    def score(self, tp, fp, fn, average):
        """Return the metric of counts of shape (..., n_classes), averaged as scikit-learn does."""
        ratios = self.value(tp, fp, fn)
        weights = tp + fn if average == "weighted" else np.ones_like(ratios)
        # Equal weights if noise leaves no record.
        weights = np.where(weights.sum(axis=-1, keepdims=True) > 0, weights, 1.0)
        return (ratios * weights).sum(axis=-1) / weights.sum(axis=-1)

    def value(self, tp, fp, fn):
        """Return N / D for arrays of counts; 0 if D is 0."""
        b = self.beta_squared
        numerator, denominator = {
            "fbeta": ((1 + b) * tp, (1 + b) * tp + b * fn + fp),
            "precision": (tp, tp + fp),
            "recall": (tp, tp + fn),
            "jaccard": (tp, tp + fp + fn),
        }[self.kind]
        return np.divide(
            numerator, denominator, out=np.zeros(np.shape(denominator)), where=denominator > 0
        )

    def costs(self, level):
        """Return the costs of a false negative and of a false positive at N / D near `level`.

        ``level * D - N`` is this per-record loss up to a constant (Dinkelbach), since the number of
        true members of the class is the same for all candidates.
        """
        b = self.beta_squared
        return {
            "fbeta": (1 + b - level, level),
            "precision": (1 - level, level),
            "recall": (1.0, 0.0),
            "jaccard": (1.0, level),
        }[self.kind]

    def class_costs(self, level, frequencies, weights):
        """Return the costs of false negatives and false positives of each class, shape (2, C)."""
        if self.kind == "precision":
            level /= 2  # with the largest level, predicting nothing would cost the least
        return np.array(self.costs(level))[:, None] * weights

    def level_of_reward(self, reward):
        """Return the level whose cost of a false positive is -`reward` false negatives."""
        b = self.beta_squared
        return {
            "fbeta": -reward * (1 + b) / (1 - reward),
            "jaccard": -reward,
        }[self.kind]

    @property
    def denominator(self):
        """D over the size of the class, if as many records are predicted as belong to it."""
        return 1 + self.beta_squared if self.kind == "fbeta" else 1.0


class Matthews:
    """Matthews correlation of all classes; the interface of `Ratio`."""

    kind, lower, denominator = "matthews", -1.0, 1.0

    def score(self, tp, fp, fn, average):
        """Return the correlation of counts of shape (..., n_classes); 0 where undefined."""
        true, predicted = tp + fn, tp + fp
        total = true.sum(axis=-1)
        # R_K of Gorodkin (2004), which for two classes is the usual correlation.
        covariance = tp.sum(axis=-1) * total - (true * predicted).sum(axis=-1)
        spread = (total**2 - (true**2).sum(axis=-1)) * (total**2 - (predicted**2).sum(axis=-1))
        root = np.sqrt(np.maximum(spread, 0.0))
        return np.divide(covariance, root, out=np.zeros(np.shape(root)), where=root > 0)

    def class_costs(self, level, frequencies, weights):
        """Return the costs of false negatives and false positives of each class, shape (2, C).

        They are the slopes of each class's correlation at `level`, assuming that the class is
        predicted 1/2 + p times as often as it occurs (p its frequency, at most 1/2), as classifiers
        that minimise errors predict rare classes too seldom. Privacy holds for any public costs.
        """
        p = frequencies
        rare = np.minimum(p, 1 - p)
        q = rare * (0.5 + rare)
        q = np.where(p <= 0.5, q, 1 - q)
        # Correlation = (recall - fall-out) sqrt(p (1 - p) / (q (1 - q))); q moves with both.
        gap = max(level, 0.05) * np.sqrt(q * (1 - q) / (p * (1 - p)))
        slope = (1 / q - 1 / (1 - q)) / 2
        false_negative, false_positive = (
            (1 / gap - p * slope) / p,
            (1 / gap + (1 - p) * slope) / (1 - p),
        )
        return np.maximum([false_negative, false_positive], 0.0)


def cost_matrix(false_negative, false_positive, units):
    """Return the integer costs of a record, shape (C, C + 1).

    Entry (a, b), b != a, is the cost of a false negative of class a plus that of a false positive
    of class b, minus a shift of the row, equal for all candidates, that makes its smallest entry 0.
    Column C is for unreadable predictions, with the largest cost.

    Parameters
    ----------
    false_negative, false_positive : ndarray of shape (C,)
        Public, not all zero. A negative cost is a reward.
    units : int
        Largest cost B.

    Returns
    -------
    ndarray of shape (C, C + 1)
        int64 in [0, units].
    """
    costs = np.add.outer(false_negative, false_positive).astype(float)
    np.fill_diagonal(costs, 0.0)
    # The shift of a row is equal for all candidates, as true classes are.
    costs -= costs.min(axis=1, keepdims=True)
    costs = np.rint(costs * (units / costs.max())).astype(np.int64)
    return np.column_stack([np.clip(costs, 0, units), np.full(len(costs), units)])


def confusion_cells(outcomes, n_classes):
    """Count the records of each cell, shape (C, C + 1), int64; column C: unreadable predictions.

    Protected: pass only to a mechanism. `outcomes`: (C + 1) times the class plus the prediction.
    """
    flat = np.bincount(outcomes, minlength=n_classes * (n_classes + 1))
    return flat.reshape(n_classes, n_classes + 1)


def one_vs_rest_counts(cells):
    """Return (tp, fp, fn) of each class, shape (3, C). Protected: pass only to a mechanism.

    Replacing a record moves it from one cell to another: tp and fn together change by at most 2 in
    l1 norm, all three by at most 4, and those of a single class by at most 2.
    """
    n_classes = len(cells)
    tp = np.diagonal(cells)
    # Unreadable predictions, column C, are false negatives, but not false positives.
    return np.stack([tp, cells[:, :n_classes].sum(axis=0) - tp, cells.sum(axis=1) - tp])
