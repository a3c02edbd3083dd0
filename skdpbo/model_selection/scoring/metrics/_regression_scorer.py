"""Scores of regressors and probabilities that divide a mean loss by that of a constant prediction.

The loss of the constant prediction is common to all candidates, so the choice is that of the mean
loss: R2 and D2 choose as the squared and the absolute error, log loss or Brier score do.
"""

from fractions import Fraction

import numpy as np

from skdpbo.model_selection.scoring._losses import codes_among
from skdpbo.model_selection.scoring._parsing import as_numbers
from skdpbo.model_selection.scoring._score_release import (
    NoisySums,
    ReleasedScore,
    SumGroup,
    ratio_ends,
    score_std,
)
from skdpbo.model_selection.scoring._scorer import PerRecordScorer
from skdpbo.model_selection.scoring.metrics._metric_scorer import MetricScorer

_SPREAD = Fraction(1, 3)  # of the targets, as a share of the largest that the bound admits
_KEPT = 0.95  # of the mean loss of a constant at a bound that hardly lowers the score
_LOWEST = -1.0  # a released R2 or D2 below is clipped: the model is worse than any constant


class OfMeanScorer(PerRecordScorer):
    """A monotone function of a mean of losses; it chooses as the mean does.

    Parameters
    ----------
    scorer : PerRecordScorer
        The mean.
    name : str
    function : callable
        Of scores of the mean, numbers or arrays; increasing.
    """

    is_mean = False

    def __init__(self, scorer, *, name, function):
        super().__init__(
            scorer._loss,
            name=name,
            bound=scorer.bound,
            units=scorer.units,
            response_method=scorer.response_method,
            offset=scorer.offset,
        )
        self.nearest_mean = repr(scorer.name)
        self._function = function

    def __call__(self, estimator, X, y=None, sample_weight=None):
        """Score *public* rows."""
        return float(self._function(super().__call__(estimator, X, y, sample_weight)))

    def score_from_units(self, total_units, n):
        """Return the function of the mean."""
        return self._function(super().score_from_units(total_units, n))

    def score_with_std(self, total, n_records, std):
        """Return the function of a released mean; its noise is followed through the function."""

        def score_of(totals):
            return self.score_from_units(
                np.clip(totals[..., 0], 0, n_records * self.units), n_records
            )

        # The slope of a root is infinite at 0: noise is drawn, in the place of the delta method.
        noisy = NoisySums(np.array([float(total)]), np.array([std]))
        return ReleasedScore(float(score_of(noisy.values)), score_std(score_of, noisy))


def minus_root(score):
    """Return minus the root of minus a mean, which noise may have made positive."""
    return -np.sqrt(np.maximum(-score, 0.0))


def jaccard_of_accuracy(accuracy):
    """Return the micro average of Jaccard: TP / (TP + FP + FN), an error counts in FP and FN."""
    return accuracy / (2.0 - accuracy)


class _Relative(MetricScorer):
    """One minus the ratio of a bounded loss to that of a constant.

    A sub-class defines ``_constant_total(sums, n_records)``, the loss of the constant from (noisy)
    sums, and ``_constant_losses(y, bound)``, that of each of some public targets.
    """

    _least_loss = 1.0  # of the constant, as a share of a record's bound: keeps the ratio finite

    def __init__(self, public_scorer, scorer, *, name):
        super().__init__(
            public_scorer,
            name=name,
            response_method=scorer.response_method,
            lower=_LOWEST,
            upper=1.0,
            units=scorer.units,
            bound=scorer.bound,
        )
        self._scorer = scorer
        self.clipped = scorer.clipped  # of the loss that chooses
        self.nearest_mean = repr(scorer.name)

    def exact_sums(self, outcomes):
        """Return (total loss, total loss, further sums). Protected: pass only to a mechanism."""
        sums = [int(total) for total in outcomes.sum(axis=0)]
        return sums[0], *sums

    def units_per_score(self, n_records):
        """Change of the total loss for one unit of the score, at the expected spread."""
        return n_records * self.units * float(_SPREAD)

    def bias_of_bound(self, losses, y):
        """Return by how much the bound lowers the score of *public* losses, and a better bound.

        That one leaves nearly all of a mean loss: of the constant's, where the score is too low, of
        the model's, where it is too high.
        """
        # Targets may all be the same, or have squares beyond the largest float.
        with np.errstate(all="ignore"):
            exact, clipped = (
                max(1 - np.minimum(losses, b).mean() / self._constant_losses(y, b).mean(), _LOWEST)
                for b in (np.inf, self.bound)
            )
            bias = exact - clipped
            cut = np.sort(self._constant_losses(y, np.inf) if bias > 0 else losses)
            # Sums of the losses, each at most the k-th of them.
            kept = cut.cumsum() + cut * np.arange(len(cut) - 1, -1, -1)
            enough = cut[min(np.searchsorted(kept, _KEPT * kept[-1]), len(cut) - 1)]
            return float(bias), float(enough)

    def value_of(self, sums, n_records):
        """Return 1 - losses / losses of the constant."""
        return 1 - sums[..., 0] / self._above_zero(self._constant_total(sums, n_records))

    def _released_std(self, score, noisy, n_records):
        """Half the way to the farthest score that two deviations of the noise do not exclude.

        Fresh noise around a spread that came out too large by chance would move the score too
        little.
        """

        def constant_total(sums):
            return self._constant_total(self._without_noise(sums, noisy.std), n_records)

        ends = ratio_ends(
            (noisy.values[0], noisy.std[0]),
            (self._above_zero(constant_total(noisy.values)), score_std(constant_total, noisy)),
        )
        farthest = np.abs(np.clip(1 - np.array(ends), self.lower, self.upper) - score).max()
        return float(farthest / 2)

    def _above_zero(self, constant_total):
        return np.maximum(constant_total, self._least_loss * self.units)

    def _losses(self, estimator, y, prediction):
        return self._scorer.integer_losses(self._scorer._loss(estimator, y, prediction))


class AgainstConstant(_Relative):
    """R2 around the noisy mean of the targets, or D2 of the absolute error around a public median.

    Parameters
    ----------
    public_scorer : callable
        scikit-learn's scorer.
    scorer : PerRecordScorer
        Squared or absolute error, with its bound g.
    name : str
    center : float
        Public mean or median c. Targets count in the spread as their clipped distance from it, by
        at most g as a loss.
    squared : bool
    """

    def __init__(self, public_scorer, scorer, *, name, center, squared):
        super().__init__(public_scorer, scorer, name=name)
        self.center, self.squared = center, squared
        # Of an unreadable record: the worst loss, nothing to the spread.
        self.worst_outcome = np.array([self.units, 0, 0][: 3 if squared else 2], dtype=np.int64)

    def sum_groups(self, n_records):
        """Losses, spread and, for R2, deviations from the center (in [-B/2, B/2])."""
        # The deviations enter as a square over m: their noise matters least.
        shares = (Fraction(1, 2), Fraction(3, 8), Fraction(1, 8))
        if not self.squared:
            shares = (Fraction(1, 2), Fraction(1, 2))
        # Typically the spread is the expected one, and half of it is explained.
        most = n_records * self.units
        spread = most * float(_SPREAD)
        typical = (spread / 2, (0, most)), (spread, (0, most)), (0.0, (-most / 2, most / 2))
        return [
            SumGroup(1, self.units, share, typical=[value], ends=ends)
            for share, (value, ends) in zip(shares, typical, strict=False)
        ]

    def _constant_losses(self, y, bound):
        return np.minimum(self._scorer._loss(None, y, np.full(len(y), self.center)), bound)

    def _without_noise(self, sums, std):
        if not self.squared:
            return sums
        # Noise adds its variance to the square, the more of the spread the smaller epsilon m is.
        square = np.maximum(np.square(sums[..., 2]) - std[2] ** 2, 0.0)
        return np.stack([sums[..., 0], sums[..., 1], np.sqrt(square)], axis=-1)

    def _constant_total(self, sums, n_records):
        spread = sums[..., 1]
        # SST = sum (y - c)^2 - (sum (y - c))^2 / m, in units of g / B; 4, as deviations are halved.
        if self.squared:
            spread = spread - 4 * np.square(sums[..., 2]) / (self.units * n_records)
        return spread

    def _outcomes(self, estimator, y, prediction):
        losses = self._losses(estimator, y, prediction)
        # A target at this distance from the center has the spread g.
        reach = np.sqrt(self.bound) if self.squared else self.bound
        y = as_numbers(y, 1)[:, 0]
        unit = np.clip((y - self.center) / reach, -1.0, 1.0)
        unit = np.where(np.isnan(unit), 0.0, unit)  # unreadable: nothing to the spread
        spread = np.square(unit) if self.squared else np.abs(unit)
        columns = [losses, np.rint(spread * self.units)]
        if self.squared:
            # Signed: in [-B/2, B/2], so that a replaced record moves the sum by B, as the others.
            columns.append(np.rint(unit * (self.units // 2)))
        return np.column_stack(columns).astype(np.int64)


class AgainstFrequencies(_Relative):
    """D2 of log loss or Brier score: the constant predicts the noisy class frequencies.

    Parameters
    ----------
    public_scorer : callable
    scorer : PerRecordScorer
        Log loss or Brier score.
    name : str
    classes : ndarray of shape (C,)
    counts : ndarray of shape (C,)
        Public rows of each class.
    logarithmic : bool
    """

    _least_loss = 1e-6

    def __init__(self, public_scorer, scorer, *, name, classes, counts, logarithmic):
        super().__init__(public_scorer, scorer, name=name)
        self.classes, self.logarithmic = classes, logarithmic
        self.frequencies = counts / counts.sum()
        # Of an unreadable record: the worst loss, of the first class.
        self.worst_outcome = np.array([self.units, 1] + [0] * (len(classes) - 1), dtype=np.int64)

    def sum_groups(self, n_records):
        """Losses, then class counts (l1 sensitivity 2)."""
        # Typically half of the loss of the public frequencies.
        largest = n_records * self.units
        loss = largest * self._constant_loss(self.frequencies) / self.bound / 2
        counts = n_records * self.frequencies
        return [
            SumGroup(1, self.units, Fraction(3, 4), typical=[loss], ends=(0, largest)),
            SumGroup(len(counts), 2, Fraction(1, 4), typical=counts, ends=(0, n_records)),
        ]

    def _constant_total(self, sums, n_records):
        # A record of each class at least: their logarithms are finite whatever the noise is.
        p = np.clip(sums[..., 1:], 1.0, None)
        p = p / p.sum(axis=-1, keepdims=True)
        return self._constant_loss(p) * self.units * n_records / self.bound

    def _constant_losses(self, y, bound):
        # Of the frequencies of all records, without a bound.
        return self._constant_loss(self.frequencies)

    def _constant_loss(self, p):
        """Mean loss of predicting the frequencies p."""
        if self.logarithmic:
            return -(p * np.log(p)).sum(axis=-1)
        impurity = (p * (1 - p)).sum(axis=-1)
        return impurity / 2 if len(self.classes) == 2 else impurity

    def _outcomes(self, estimator, y, prediction):
        losses = self._losses(estimator, y, prediction)
        # Negative codes count for the first class, as in `worst_outcome`; their loss is the worst.
        codes = np.maximum(codes_among(self.classes, y), 0)
        return np.column_stack([losses, np.eye(len(self.classes), dtype=np.int64)[codes]])
