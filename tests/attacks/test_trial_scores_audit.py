"""Likelihood-ratio audit of the score of a trial, with planted bugs.

The worst pair: one row with the best loss, or with the worst. A lower confidence bound on the
privacy loss (false alarms 1e-6) must stay below the claim, come close to it, and exceed it for
every planted bug.
"""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator

from _support.batched_noise import batched  # noqa: F401  (a fixture)
from _support.bounds import mu_at_least
from _support.evaluators import score_of_trial
from _support.internals import PerRecordScorer, resolve_scorer
from _support.planted import plant, put
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection import make_log_density_scorer
from skdpbo.privacy import PrivacyGuarantee, epsilon_from_mu

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("batched")]

ALARM = 1e-6
MU, EPSILON = 1.0, 1.0
GAUSSIAN = PrivacyGuarantee(epsilon=epsilon_from_mu(MU, 1e-5), delta=1e-5, mu=MU)
PURE = PrivacyGuarantee(epsilon=EPSILON)
M, DRAWS = 5, 2000


class Zero(BaseEstimator):
    def predict(self, X, return_std=False):
        return (np.zeros(len(X)), np.ones(len(X))) if return_std else np.zeros(len(X))


def scores(y_of_the_record, scorer, budget, n=DRAWS):
    """Scores of one data set: all targets .5 but the last, which is far or exactly predicted."""
    y = np.full(M, 0.5)
    y[-1] = y_of_the_record
    rows = np.zeros((M, 1)), y, None
    source = noise_source()
    return np.array(
        [score_of_trial(Zero(), rows, scorer, budget=budget, source=source) for _ in range(n)]
    )


def epsilon_at_least(first, second):
    """Bound below log P(S) / P'(S), S the scores above the middle of the two medians."""
    middle = (np.median(first) + np.median(second)) / 2
    counts = [np.count_nonzero(sample > middle) for sample in (first, second)]
    high, low = max(counts), min(counts)
    n, half = len(first), ALARM / 2
    p_high = stats.beta.ppf(half, high, n - high + 1)
    p_low = stats.beta.isf(half, low + 1, n - low)
    return math.log(p_high / p_low)


SCORER = resolve_scorer("neg_mean_absolute_error", None, loss_bound=1.0)
DENSITY = make_log_density_scorer(lower=-2.0, upper=-0.9)


def measured_mu(scorer=SCORER, record=1e9, n=DRAWS):
    first, second = (scores(y, scorer, GAUSSIAN, n) for y in (0.0, record))
    return mu_at_least(first, second)


@pytest.mark.parametrize("scorer", [SCORER, DENSITY], ids=["absolute error", "log density"])
def test_gaussian_score_keeps_its_promise(scorer):
    # The bound lies .16 below the truth, give or take .034.
    assert 0.65 * MU < measured_mu(scorer) < MU


def test_pure_score_keeps_its_promise():
    samples = scores(0.0, SCORER, PURE, 4000), scores(1e9, SCORER, PURE, 4000)
    # Laplace noise: half a sensitivity on either side of the middle, 1 - e^-.5/2 against e^-.5/2.
    assert 0.5 < epsilon_at_least(*samples) < EPSILON


def test_coinpress_score_keeps_its_promise():
    scorer = make_log_density_scorer(lower=-200.0, upper=-0.9, mean="coinpress")
    assert 0.2 < measured_mu(scorer, n=1000) < MU


class TestPlantedBugs:
    def test_clip_forgotten(self, monkeypatch):
        def unclipped(self, estimator, X, y):
            return np.rint(np.abs(y) * self.units).astype(np.int64)

        monkeypatch.setattr(PerRecordScorer, "record_losses", unclipped)
        # The caller clips as well: both have to be forgotten.
        put(
            monkeypatch,
            "trial score: losses_of",
            lambda model, rows, scorer: scorer.record_losses(model, *rows[:2]),
        )
        assert measured_mu(record=3.0) > MU

    def test_noise_halved(self, monkeypatch):
        plant(monkeypatch, "half of the sensitivity of a score")
        assert measured_mu() > MU
        samples = scores(0.0, SCORER, PURE, 4000), scores(1e9, SCORER, PURE, 4000)
        assert epsilon_at_least(*samples) > EPSILON

    def test_range_from_the_data(self, monkeypatch):
        plain = PerRecordScorer.record_losses

        def stretched(self, estimator, X, y):
            losses = plain(self, estimator, X, y).astype(float)
            low, high = losses.min(), losses.max()
            return np.rint((losses - low) / (high - low) * self.units).astype(np.int64)

        monkeypatch.setattr(PerRecordScorer, "record_losses", stretched)
        # .5 becomes 1 or 0 of the data's own range: the record moves all others.
        assert measured_mu() > MU
