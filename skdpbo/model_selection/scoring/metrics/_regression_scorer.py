"""Scores that compare a mean loss with that of a constant prediction: R2 and D2.

The loss of the constant is the same for all candidates, so the choice is by the mean loss: squared
or absolute error, log loss or Brier score.
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

_SPREAD = Fraction(1, 3)  # expected loss of the constant, as a share of the bound
_KEPT = 0.95  # share of the mean loss that a sufficient bound keeps
_LOWEST = -1.0  # lower end of the range of a released R2 or D2


class OfMeanScorer(PerRecordScorer):
    """Scorer of a monotone function of a mean of losses; the choice is by the mean.

    Parameters
    ----------
    scorer : PerRecordScorer
        Scorer of the mean.
    name : str
    function : callable
        Increasing function of scores of the mean, numbers or arrays.
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
        """Return the function of a released mean, and the standard deviation of its noise."""

        def score_of(totals):
            return self.score_from_units(
                np.clip(totals[..., 0], 0, n_records * self.units), n_records
            )

        # By simulated noise: the delta method fails at 0, where the slope of a root is infinite.
        noisy = NoisySums(np.array([float(total)]), np.array([std]))
        return ReleasedScore(float(score_of(noisy.values)), score_std(score_of, noisy))


def minus_root(score):
    """Return -sqrt(-score); 0 for a score that noise has made positive."""
    return -np.sqrt(np.maximum(-score, 0.0))


def jaccard_of_accuracy(accuracy):
    """Return micro-averaged Jaccard, TP / (TP + FP + FN), where an error counts in FP and FN."""
    return accuracy / (2.0 - accuracy)


class _Relative(MetricScorer):
    """Base class of one minus the ratio of a bounded loss to that of a constant.

    A sub-class defines ``_constant_total(sums, n_records)``, the total loss of the constant from
    (noisy) sums, and ``_constant_losses(y, bound)``, its losses for public targets.
    """

    _least_loss = 1.0  # least total of the constant, in units of the bound of one record

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
        self.clipped = scorer.clipped
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

        A better bound keeps nearly all of a mean loss: that of the constant if the score is too
        low, that of the model if it is too high.
        """
        with np.errstate(all="ignore"):  # targets may be constant, or their squares overflow
            exact, clipped = (
                max(1 - np.minimum(losses, b).mean() / self._constant_losses(y, b).mean(), _LOWEST)
                for b in (np.inf, self.bound)
            )
            bias = exact - clipped
            cut = np.sort(self._constant_losses(y, np.inf) if bias > 0 else losses)
            # Sums of the losses clipped at the k-th of them.
            kept = cut.cumsum() + cut * np.arange(len(cut) - 1, -1, -1)
            enough = cut[min(np.searchsorted(kept, _KEPT * kept[-1]), len(cut) - 1)]
            return float(bias), float(enough)

    def value_of(self, sums, n_records):
        """Return 1 - losses / losses of the constant."""
        return 1 - sums[..., 0] / self._above_zero(self._constant_total(sums, n_records))

    def _released_std(self, score, noisy, n_records):
        """Half the distance to the farthest score within two standard deviations of the noise.

        Simulated noise would be too small if the released spread is too large by chance.
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
        Public mean or median c. The spread is the total loss of predicting c, each clipped to g.
    squared : bool
    """

    def __init__(self, public_scorer, scorer, *, name, center, squared):
        super().__init__(public_scorer, scorer, name=name)
        self.center, self.squared = center, squared
        # An unreadable record has the worst loss, and adds nothing to the spread.
        self.worst_outcome = np.array([self.units, 0, 0][: 3 if squared else 2], dtype=np.int64)

    def sum_groups(self, n_records):
        """Losses, spread and, for R2, deviations from the center (in [-B/2, B/2])."""
        # Deviations enter as a square over m, so that their noise matters least.
        shares = (Fraction(1, 2), Fraction(3, 8), Fraction(1, 8))
        if not self.squared:
            shares = (Fraction(1, 2), Fraction(1, 2))
        # Typical: the expected spread, half of it explained.
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
        # Subtract the variance of the noise, which is added to the square on average.
        square = np.maximum(np.square(sums[..., 2]) - std[2] ** 2, 0.0)
        return np.stack([sums[..., 0], sums[..., 1], np.sqrt(square)], axis=-1)

    def _constant_total(self, sums, n_records):
        spread = sums[..., 1]
        # SST = sum (y - c)^2 - (sum (y - c))^2 / m, in units of g / B; deviations are halved.
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
            # Signed, in [-B/2, B/2]: the sensitivity is B, as for the others.
            columns.append(np.rint(unit * (self.units // 2)))
        return np.column_stack(columns).astype(np.int64)


class AgainstFrequencies(_Relative):
    """D2 of log loss or Brier score; the constant predicts the noisy class frequencies.

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
        # An unreadable record has the worst loss, and counts for the first class.
        self.worst_outcome = np.array([self.units, 1] + [0] * (len(classes) - 1), dtype=np.int64)

    def sum_groups(self, n_records):
        """Losses, then class counts (l1 sensitivity 2)."""
        # Typical: half of the loss of the public frequencies.
        largest = n_records * self.units
        loss = largest * self._constant_loss(self.frequencies) / self.bound / 2
        counts = n_records * self.frequencies
        return [
            SumGroup(1, self.units, Fraction(3, 4), typical=[loss], ends=(0, largest)),
            SumGroup(len(counts), 2, Fraction(1, 4), typical=counts, ends=(0, n_records)),
        ]

    def _constant_total(self, sums, n_records):
        # At least one record of each class, so that logarithms are finite.
        p = np.clip(sums[..., 1:], 1.0, None)
        p = p / p.sum(axis=-1, keepdims=True)
        return self._constant_loss(p) * self.units * n_records / self.bound

    def _constant_losses(self, y, bound):
        return self._constant_loss(self.frequencies)

    def _constant_loss(self, p):
        """Mean loss of predicting the frequencies p."""
        if self.logarithmic:
            return -(p * np.log(p)).sum(axis=-1)
        impurity = (p * (1 - p)).sum(axis=-1)
        return impurity / 2 if len(self.classes) == 2 else impurity

    def _outcomes(self, estimator, y, prediction):
        losses = self._losses(estimator, y, prediction)
        # Negative codes count for the first class, with the worst loss, as in `worst_outcome`.
        codes = np.maximum(codes_among(self.classes, y), 0)
        return np.column_stack([losses, np.eye(len(self.classes), dtype=np.int64)[codes]])
