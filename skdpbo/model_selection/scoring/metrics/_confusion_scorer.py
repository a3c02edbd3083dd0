"""Scores of predicted labels: F-beta, precision, recall, Jaccard, balanced accuracy and MCC."""

import copy
import math
from fractions import Fraction

import numpy as np

from skdpbo.model_selection.scoring._losses import codes_among
from skdpbo.model_selection.scoring._score_release import SumGroup
from skdpbo.model_selection.scoring._scorer import FINE_UNITS
from skdpbo.model_selection.scoring.metrics._confusion import (
    confusion_cells,
    cost_matrix,
    one_vs_rest_counts,
)
from skdpbo.model_selection.scoring.metrics._metric_scorer import MetricScorer

_DEFAULT_LEVEL = 0.5  # without a public score
# Bound on the expected regret (in units of the score) from which the level of F-beta is halved, and
# above which predicted positives may be rewarded.
_LARGE_REGRET = 0.1
# Largest reward of a false positive, in units of that of a true positive, and the gain in expected
# regret that a reward of 1 must have on the public rows, which are a sample.
_LARGEST_REWARD, _PRICE_OF_REWARD, _N_REWARDS = 0.9, 0.03, 11


class CountedScore(float):
    """Public score with the attribute `cells`, the confusion matrix from which it was computed."""


def public_counts(scores, n_splits):
    """Sum the counts of the folds of each candidate.

    Parameters
    ----------
    scores : list of float
        Fold by fold within candidate.
    n_splits : int

    Returns
    -------
    list of (ndarray of shape (C, C + 1) or None)
        None where the scores of a candidate carry no counts.
    """
    cells = [getattr(score, "cells", None) for score in scores]
    folds = [cells[k : k + n_splits] for k in range(0, len(cells), n_splits)]
    return [None if any(c is None for c in of_one) else sum(of_one) for of_one in folds]


class ConfusionScorer(MetricScorer):
    """A score that is a function of the confusion matrix, chosen by a public cost matrix.

    Parameters
    ----------
    public_scorer : callable
        scikit-learn's scorer.
    name : str
    metric : Ratio or Matthews
    average : {"binary", "macro", "weighted"}
    classes : ndarray of shape (C,)
        Classes of the public targets, sorted.
    counts : ndarray of shape (C,)
        Number of public rows of each class; costs depend on these frequencies.
    positive : int or None
        Code of the positive class, with ``average="binary"``.
    adjusted : bool
        Rescale the score so that chance is 0, as ``balanced_accuracy_score(adjusted=True)``.
    """

    nearest_mean = "'accuracy' or make_per_record_scorer with class_weight"

    def __init__(
        self, public_scorer, *, name, metric, average, classes, counts, positive, adjusted
    ):
        chance = 1 / len(classes)
        lower = -chance / (1 - chance) if adjusted else metric.lower
        super().__init__(
            public_scorer,
            name=name,
            response_method="predict",
            lower=lower,
            upper=1.0,
            units=FINE_UNITS,
        )
        self.metric, self.average, self.adjusted = metric, average, adjusted
        self.classes, self.frequencies = classes, counts / counts.sum()
        self.positive = positive
        self.level = _DEFAULT_LEVEL
        # A record with an unreadable label counts as a false negative of this class.
        rarest = int(np.argmin(counts))
        self._worst_class = rarest if positive is None else positive
        self.worst_outcome = self._worst_class * (len(classes) + 1) + len(classes)
        self._recall_only = metric.kind == "recall"
        if self._recall_only and average == "macro" and not adjusted:
            self.of_chance = chance
        # Metrics for which `Ratio.level_of_reward` is defined.
        self._may_reward = positive is not None and metric.kind in ("fbeta", "jaccard")

    def informed_by(self, public_score, noise=None, public_counts=()):
        """Return this scorer with costs for the best public score of the candidates.

        `noise`: (epsilon, n_candidates, n_records) of the choice, as for `damped`.
        """
        informed = copy.copy(self)
        if np.isfinite(public_score):
            # Dinkelbach: at the level of the best ratio, the least cost has the best ratio.
            informed.level = float(np.clip(public_score, 0.0, 1.0))
        return informed if noise is None else informed.damped(*noise, public_counts)

    def damped(self, epsilon, n_candidates, n_records, public_counts=()):
        """Return the scorer of a noisy choice, with a lower level.

        Privacy holds for any level. A lower one gives more weight to true positives, whose
        differences between candidates stand out from the noise.

        Parameters
        ----------
        epsilon : float
            Budget of the choice.
        n_candidates, n_records : int
        public_counts : sequence of (ndarray of shape (C, C + 1) or None)
            Confusion matrix of each candidate on public rows that did not train it. They show
            whether, with large noise, a level below 0, which rewards predicted positives, gives
            better choices.

        Returns
        -------
        ConfusionScorer
        """
        kind = self.metric.kind
        if kind not in ("fbeta", "jaccard"):
            return self
        # Bound 2 D log(n) / epsilon on the expected error of the choice, in units of the score.
        regret = 2 * math.log(n_candidates) * self.choice_sensitivity(n_records)
        regret /= float(epsilon) * self.units_per_score(n_records)
        damped = copy.copy(self)
        if kind == "fbeta":
            damped.level = self.level * (1 - min(1.0, regret / _LARGE_REGRET) / 2)
        counts = np.array([cells for cells in public_counts if cells is not None], dtype=float)
        if not (self._may_reward and regret > _LARGE_REGRET and len(counts) > 1):
            return damped
        # The level of least expected regret on the public counts, with a price on rewards.
        counts = counts * n_records / counts[0].sum()
        found, false = self.metric.costs(damped.level)
        rewards = np.linspace(-false / found, _LARGEST_REWARD, _N_REWARDS)
        values = self.value_of(
            np.array([self._released_counts(c) for c in counts]), counts[0].sum()
        )
        levels = [damped.level, *(self.metric.level_of_reward(r) for r in rewards[1:].tolist())]
        prices = _PRICE_OF_REWARD * (rewards - rewards[0])
        for k, damped.level in enumerate(levels):
            totals = (counts * damped.costs).sum(axis=(1, 2)) / self.units
            # Law of the exponential mechanism; permute-and-flip is never worse in expectation.
            p = np.exp((totals.min() - totals) * float(epsilon) / 2)
            prices[k] += values.max() - p @ values / p.sum()
        damped.level = levels[int(np.argmin(prices))]
        return damped

    @property
    def costs(self):
        """Public integer costs, shape (C, C + 1); see `cost_matrix`."""
        return cost_matrix(*self._class_costs(), self.units)

    def units_per_score(self, n_records):
        """Approximate change of the total loss for one unit of the score; public."""
        false_negative, false_positive = self._class_costs()
        costs = np.add.outer(false_negative, false_positive)
        np.fill_diagonal(costs, 0.0)
        p, c = self.frequencies, len(self.classes)
        classes = {"binary": p[self._worst_class], "macro": float(c), "weighted": 1.0}[self.average]
        return n_records * self.units / costs.max() * self.metric.denominator * classes

    def exact_sums(self, outcomes):
        """Return (total cost, counts of the score). Protected: pass only to a mechanism."""
        cells = confusion_cells(outcomes, len(self.classes))
        total = int((cells * self.costs).sum())
        return total, *(int(count) for count in self._released_counts(cells))

    def sum_groups(self, n_records):
        """One group of counts, each changed by at most 1; see `one_vs_rest_counts`."""
        # Typical: half of each class is found, and as many are predicted as there are.
        c, halves = len(self.classes), n_records * self.frequencies / 2
        if self.positive is not None:
            typical, sensitivity = np.repeat(halves[self.positive], 3), 2
        elif c == 2 or self._recall_only:
            typical, sensitivity = np.tile(halves, 2), 2
        else:
            typical, sensitivity = np.tile(halves, 3), 4
        return [SumGroup(len(typical), sensitivity, Fraction(1), 1, typical, (0.0, math.inf))]

    def value_of(self, sums, n_records):
        """Return the metric of counts of shape (..., n_sums), averaged as scikit-learn does."""
        sums, c = np.maximum(sums, 0.0), len(self.classes)
        if self.positive is not None:
            tp, fp, fn = sums[..., :1], sums[..., 1:2], sums[..., 2:]
        elif c == 2 or self._recall_only:
            tp, fn = sums[..., :c], sums[..., c:]
            # With two classes a false negative of one is a false positive of the other.
            fp = fn[..., ::-1] if c == 2 else np.zeros_like(fn)
        else:
            tp, fp, fn = sums[..., :c], sums[..., c : 2 * c], sums[..., 2 * c :]
        score = self.metric.score(tp, fp, fn, self.average)
        chance = 1 / c
        return (score - chance) / (1 - chance) if self.adjusted else score

    def __call__(self, estimator, X, y=None, sample_weight=None):
        """Score *public* rows by scikit-learn's metric; without weights, with the counts."""
        if sample_weight is not None or not self._may_reward:
            return super().__call__(estimator, X, y, sample_weight)
        prediction, known = self._predict(estimator, X, y), self.public_scorer
        score = CountedScore(known._sign * known._score_func(y, prediction, **known._kwargs))
        outcomes = self._outcomes(estimator, y, prediction)
        score.cells = confusion_cells(outcomes, len(self.classes))
        return score

    def _outcomes(self, estimator, y, prediction):
        c = len(self.classes)
        truth, predicted = codes_among(self.classes, y), codes_among(self.classes, prediction)
        predicted = np.where(predicted < 0, c, predicted)  # unreadable ones: the last column
        return np.where(truth < 0, self.worst_outcome, truth * (c + 1) + predicted)

    def _class_costs(self):
        """Costs of a false negative and of a false positive of each class, shape (C,) each."""
        p = self.frequencies
        chance = 1 / len(self.classes)
        level = self.level * (1 - chance) + chance if self.adjusted else self.level
        weights = {
            "binary": np.arange(len(p)) == self.positive,
            "macro": 1 / p,
            "weighted": np.ones(len(p)),
        }[self.average]
        return self.metric.class_costs(level, p, weights)

    def _released_counts(self, cells):
        counts = one_vs_rest_counts(cells)
        if self.positive is not None:
            return counts[:, self.positive]
        # For two classes tp and fn suffice, with half the sensitivity; see `one_vs_rest_counts`.
        return (counts[[0, 2]] if len(self.classes) == 2 or self._recall_only else counts).ravel()
