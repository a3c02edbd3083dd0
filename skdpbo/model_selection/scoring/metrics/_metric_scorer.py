"""Scores that are not means of losses: an exact total chooses, noisy sums of the winner score.

Interface of a scorer for the evaluator and the mechanisms, of which `PerRecordScorer` is the
simplest case:

``record_outcomes``     outcome of each protected record, one row each
``worst_outcome``       outcome of a record that cannot be predicted
``exact_sums``          integers, the first of which is the total that the choice minimises
``choice_sensitivity``  largest change of that total when one record is replaced
``release_score``       metric from noisy sums of the winner

A sub-class of `MetricScorer` defines ``exact_sums`` and

``_outcomes``           outcomes of protected records from their predictions
``sum_groups``          the sums after the first of ``exact_sums``, as `SumGroup`
``value_of``            metric of (noisy) sums of shape (..., n_sums), before clipping
"""

import warnings
from dataclasses import replace

import numpy as np

from skdpbo.model_selection.scoring._score_release import (
    NoisySums,
    ReleasedScore,
    SumNoise,
    release_sums,
    score_std,
)
from skdpbo.model_selection.scoring._scorer import SklearnMetric


class MetricScorer(SklearnMetric):
    """Base class of scores that are ratios of sums, or counts of pairs; greater is better.

    Parameters
    ----------
    public_scorer : callable
        scikit-learn's scorer: scores public rows.
    name : str
    response_method : str, tuple of str or callable
    lower, upper : float
        Range of the score; a released one is clipped to it.
    units : int, default=1
        Largest integer loss of a record; only for losses of single records.
    """

    is_mean = False
    clipped = None
    of_chance = 0.0  # approximate score of predictions that do not depend on X

    def __repr__(self):
        """Return the name."""
        return f"{type(self).__name__}({self.name!r})"

    def record_outcomes(self, estimator, X, y):
        """Return one row for each *protected* record, as `PerRecordScorer.record_losses` does."""
        prediction = self._predict(estimator, X, y)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # a warning could reveal a record
            return self._outcomes(estimator, y, prediction)

    def checked_outcomes(self, outcomes, n_records):
        """Return the outcomes unchecked, as they are the scorer's own."""
        return outcomes

    def try_on(self, estimator, X, y):
        """Try the scorer on a few *public* rows, perhaps of one class; its errors are raised."""
        self._outcomes(estimator, y, self._predict(estimator, X, y))

    def expected_noise(self, epsilon, n_records):
        """Return the standard deviation of a score's noise as a share of its range; public."""
        groups = self.sum_groups(n_records)
        noise = SumNoise(epsilon)
        std = [noise.mechanism(group)[1] for group in groups for _ in range(group.size)]
        # Around public sums of a typical candidate, as the actual ones are protected.
        typical = [float(value) for group in groups for value in group.typical]
        noisy = NoisySums(np.array(typical), np.array(std))
        return score_std(self._score_of(n_records, noisy.std), noisy) / (self.upper - self.lower)

    def release_score(self, sums, epsilon, n_records, source, *, mu=None):
        """Release the metric of one candidate.

        Parameters
        ----------
        sums : tuple of int
            Of `exact_sums`; protected.
        epsilon : Fraction
        n_records : int
        source : RandomSource
        mu : float, default=None
            As of `SumNoise`.

        Returns
        -------
        ReleasedScore
        """
        noise, groups = SumNoise(epsilon, mu), self.sum_groups(n_records)
        # The first sum is the total of the choice.
        noisy = release_sums(sums[1:], groups, noise, source)
        # Clipped to possible sums: around others, `score_std` may be too small.
        ends = np.repeat([group.ends for group in groups], [g.size for g in groups], axis=0)
        noisy = replace(noisy, values=np.clip(noisy.values, *ends.T))
        score = float(self._score_of(n_records, noisy.std)(noisy.values))
        return ReleasedScore(score, self._released_std(score, noisy, n_records))

    def _released_std(self, score, noisy, n_records):
        """Standard deviation of a released score, from released sums."""
        return score_std(self._score_of(n_records, noisy.std), noisy)

    def _score_of(self, n_records, std):
        # The range is public: clipping to it is post-processing.
        return lambda sums: np.clip(
            self.value_of(self._without_noise(sums, std), n_records), self.lower, self.upper
        )

    def _without_noise(self, sums, std):
        """Return noisy sums corrected for the bias that noise of these deviations causes."""
        return sums
