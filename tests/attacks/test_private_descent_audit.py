"""``DPGIBOSearchCV(protect="all")`` under attack: the parts, the releases, and their cost.

One record is in one part. What leaves a fit is a function of noisy trainings and of noisy
gradients: a second fit, of other rows, that is given these releases is the same bit for bit.
"""

import math
import warnings

import numpy as np
import pytest
from scipy import stats

from _support.planted import plant
from _support.private_mean import PREDICTED, SEEN, PrivateMean
from _support.replayed_releases import replayed
from skdpbo import DPGIBOSearchCV
from skdpbo.exceptions import NoisyGradientWarning, NoisyScoreWarning
from skdpbo.model_selection import Descent, GradientSurrogate
from skdpbo.privacy import mu_from_epsilon

RNG = np.random.RandomState(0)
X, Y = RNG.normal(size=(120, 2)), np.clip(0.4 + 0.2 * RNG.normal(size=120), -1, 1)
SPACE = {"factor": (0.0, 2.0), "shift": (-1.0, 1.0)}
STEERED = {
    "descent": Descent(adaptive_clip=True, tol=0.5, optimizer="adam", patience=2),
    "surrogate": GradientSurrogate(fit_length_scale=True),
}
TRAININGS = "descent trainings: DescentTrainings.losses"


def fitted(X, y, **params):
    how = {"n_iter": 2, "epsilon": 5.0, "loss_bound": 4.0} | params
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (NoisyGradientWarning, NoisyScoreWarning))
        return DPGIBOSearchCV(PrivateMean(), SPACE, protect="all", **how).fit(X, y)


class TestReplay:
    """The releases of one fit, with all other rows of both parts."""

    def seen(self, X, y, **params):
        search = fitted(X, y, **params)
        shown = vars(search.descent_) | search.cv_results_
        names = ["best_params_", "best_index_", "best_score_", "privacy_"]
        shown |= {name: getattr(search, name) for name in names}
        shown |= {"model": search.best_estimator_.mean_, "text": repr(search)}
        return {name: repr(np.asarray(value).tolist()) for name, value in shown.items()}

    def both(self, monkeypatch, **params):
        def fit(*rows):
            return self.seen(*rows, **params)

        return replayed(monkeypatch, fit, (X, Y), (np.full((120, 2), np.inf), -Y), TRAININGS)

    @pytest.mark.parametrize("params", [{}, STEERED])
    def test_same_releases_same_fit(self, params, monkeypatch):
        first, second = self.both(monkeypatch, **params)
        assert len(first) > 8
        assert first == second

    def test_other_releases_another_fit(self):
        one, other = (self.seen(X, y, epsilon=200.0) for y in (Y, -Y))
        assert one["trajectory"] != other["trajectory"]

    @pytest.mark.parametrize(
        "bug",
        [
            "private descent: the gradients have no noise",
            "private descent: the end is the point of the least loss",
        ],
    )
    def test_bugs_are_caught(self, bug, monkeypatch):
        plant(monkeypatch, bug)
        first, second = self.both(monkeypatch)
        assert first != second


def positions(rows):
    """Return where rows stand in `X`; None for those of the dry run."""
    found = (rows[:, None] == X[None]).all(axis=2)
    return frozenset(np.nonzero(found)[1]) if found.any() else None


class TestParts:
    """A record trains, or it is scored; which of both, no value decides."""

    def parts(self, y):
        """Return the positions that each training is given, and all that are scored."""
        del SEEN[:], PREDICTED[:]
        fitted(X, y)
        trained = [positions(rows) for _, rows, _ in SEEN]
        scored = [positions(rows) or frozenset() for rows in PREDICTED]
        return [found for found in trained if found], frozenset.union(*scored)

    def are_right(self):
        trained, scored = self.parts(Y)
        one_replaced = np.where(np.arange(120) == 57, -1.0, Y)
        return (
            len(trained) == 7
            and set(trained) == {frozenset(range(120)) - scored}
            and self.parts(one_replaced) == self.parts(np.sort(Y)) == (trained, scored)
        )

    def test_a_record_is_in_one_part(self):
        assert self.are_right()

    @pytest.mark.parametrize(
        "bug",
        [
            "private descent: targets decide who trains",
            "private descent: the last model learns from the rows that score",
        ],
    )
    def test_bugs_are_caught(self, bug, monkeypatch):
        plant(monkeypatch, bug)
        assert not self.are_right()


@pytest.mark.slow
class TestTrainingRecord:
    """Likelihood-ratio audit of all that depends on a record that trains.

    The trainings see 16 targets, of which one is 1 or -1: their sum is the sufficient statistic of
    steps and last model. Bound with false alarms of 1e-6.
    """

    ALARM, DRAWS, EPSILON = 1e-6, 40, 40.0

    HOW = {"n_iter": 1, "epsilon": EPSILON, "descent": Descent(batch_size=30)}

    def statistic(self, target, record):
        """Noisy means of all trainings, weighted by their precision."""
        y = np.zeros(20)
        y[record] = target
        means = []
        honest = PrivateMean.fit

        def fit(model, X, y, groups=None):
            honest(model, X, y, groups)
            if np.isin(X, self.ROWS).all():
                means.append((SEEN[-1][0], (model.mean_ - model.shift) / max(model.factor, 1e-9)))
            return model

        PrivateMean.fit = fit
        try:
            fitted(self.ROWS, y, **self.HOW)
        finally:
            PrivateMean.fit = honest
        mus, values = np.array(means).T
        return float(np.sum(mus**2 * values) / math.sqrt(np.sum(mus**2)))

    ROWS = RNG.normal(size=(20, 2))

    def first_that_trains(self):
        del SEEN[:]
        fitted(self.ROWS, np.zeros(20))
        given = next(rows for _, rows, _ in SEEN if np.isin(rows, self.ROWS).all())
        return int(np.flatnonzero((given[0] == self.ROWS).all(axis=1))[0])

    def mu_at_least(self):
        record = self.first_that_trains()
        one, two = (
            np.array([self.statistic(target, record) for _ in range(self.DRAWS)])
            for target in (-1.0, 1.0)
        )
        mu = abs(one.mean() - two.mean()) / math.sqrt((one.var() + two.var()) / 2)
        return mu - stats.norm.isf(self.ALARM) * math.sqrt(2 / self.DRAWS + mu**2 / 4 / self.DRAWS)

    def test_within_the_claim(self):
        assert self.mu_at_least() <= mu_from_epsilon(self.EPSILON, 1e-5)

    def test_one_training_that_pays_for_all_is_caught(self, monkeypatch):
        plant(monkeypatch, "private descent: one training pays for all")
        assert self.mu_at_least() > mu_from_epsilon(self.EPSILON, 1e-5)
