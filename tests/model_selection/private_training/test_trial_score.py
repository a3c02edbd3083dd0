"""Private scores of trained models: sensitivities by brute force, ranges, noise, bad records."""

import itertools
import math
import threading
import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression

from _support.evaluators import score_of_trial, total_loss
from _support.internals import (
    SumGroup,
    SumNoise,
    gaussian_mu,
    resolve_scorer,
    total_loss_sensitivity,
)
from skdpbo.mechanisms import DiscreteLaplace, GaussianMechanism, noise_source
from skdpbo.model_selection import make_per_record_scorer
from skdpbo.privacy import PrivacyGuarantee, epsilon_from_mu, mu_from_epsilon

DELTA = 1e-5
PURE = PrivacyGuarantee(epsilon=1.0)
VALUES = [-1e300, -2.0, -0.3, 0.0, 0.1, 0.7, 3.0, math.nan, math.inf, -math.inf]


class Same(BaseEstimator):
    """Predicts the row; refuses rows above 2 and writes into what it is given."""

    def predict(self, X):
        X = np.asarray(X, dtype=float)
        if (X > 2).any():
            raise RuntimeError("SECRET")
        answers = X[:, 0].copy()
        X[:] = -7
        return answers


def gaussian(mu):
    return PrivacyGuarantee(epsilon=epsilon_from_mu(mu, DELTA), delta=DELTA, mu=mu)


def rows(X, y):
    return np.asarray(X, dtype=float), np.asarray(y), None


def absolute(y_true, y_pred):
    return np.abs(y_true - y_pred)


SCORERS = {
    "accuracy": resolve_scorer("accuracy", None),
    "neg_mean_absolute_error": resolve_scorer("neg_mean_absolute_error", None, loss_bound=2.0),
    "user": make_per_record_scorer(absolute, bound=0.5),
}


@pytest.mark.parametrize("scorer", SCORERS.values(), ids=SCORERS)
def test_sensitivity_is_the_largest_change_over_neighbours(scorer):
    records = list(itertools.product(VALUES, VALUES))
    others = [(0.1, 0.1), (math.nan, 0.0), (0.7, math.inf)]
    totals = [total_loss(Same(), rows(*_split([*others, r])), scorer) for r in records]
    changes = max(totals) - min(totals)
    assert changes == total_loss_sensitivity(scorer.units) == scorer.units


def _split(records):
    X, y = zip(*records, strict=True)
    return np.array(X)[:, None], y


def test_one_bad_record_costs_its_own_worst_loss_and_leaves_the_others():
    scorer = SCORERS["neg_mean_absolute_error"]
    good = total_loss(Same(), rows([[0.0], [1.0]], [0.5, 1.5]), scorer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bad = total_loss(Same(), rows([[0.0], [3.0], [1.0]], [0.5, 3.0, 1.5]), scorer)
    assert good == scorer.units / 2  # two errors of .5, at a bound of 2
    assert bad == good + scorer.units


def test_rows_are_not_written_to():
    data = rows([[0.0], [1.0]], [0.5, 1.5])
    total_loss(Same(), data, SCORERS["neg_mean_absolute_error"])
    assert data[0].tolist() == [[0.0], [1.0]]


def noise_of_total(budget, units):
    """Return the mechanism of a total of losses in {0, ..., units}."""
    total = SumGroup(1, total_loss_sensitivity(units), Fraction(1))
    return SumNoise(budget.epsilon, gaussian_mu(budget)).mechanism(total)[0]


@pytest.mark.parametrize(
    ("budget", "mechanism"),
    [
        (PURE, DiscreteLaplace(1.0, 4)),
        (gaussian(0.3), GaussianMechanism(mu=0.3, sensitivity=4, lattice=1.0, n_draws=1)),
        # A mu beside delta 0 is not what the pure statement rests on.
        (PrivacyGuarantee(epsilon=1.0, mu=0.3), DiscreteLaplace(1.0, 4)),
    ],
)
def test_noise_is_made_for_the_budget(budget, mechanism):
    assert noise_of_total(budget, 4) == mechanism


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-5), (1.0, 0.2), (9.0, 1e-3)])
def test_a_pair_without_mu_takes_the_smaller_noise_within_it(epsilon, delta):
    budget = PrivacyGuarantee(epsilon=epsilon, delta=delta)
    mu = mu_from_epsilon(epsilon, delta)
    assert gaussian_mu(budget) == (mu if 1 / mu < math.sqrt(2) / epsilon else None)
    guarantee = noise_of_total(budget, 1).guarantee
    if gaussian_mu(budget) is None:
        assert guarantee.epsilon <= epsilon
    else:
        assert mu_from_epsilon(epsilon, delta) >= guarantee.mu


@pytest.mark.slow
@pytest.mark.parametrize("budget", [PURE, gaussian(0.5)], ids=["pure", "gaussian"])
def test_score_is_the_mean_with_noise_of_the_stated_size(budget):
    scorer, m = SCORERS["neg_mean_absolute_error"], 500
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, (m, 1))
    data = rows(X, X[:, 0] + generator.uniform(-1, 1, m))
    exact = scorer(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0]), X, data[1])
    model = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    scores = [score_of_trial(model, data, scorer, budget=budget, source=None) for _ in range(400)]
    if budget is PURE:
        sd = math.sqrt(2) * scorer.bound / m
    else:
        sd = scorer.bound / (m * budget.mu)
    # False alarms: 5.1 standard errors twice, 1e-6; a Laplace deviate has kurtosis 6.
    assert abs(np.mean(scores) - exact) < 5.1 * sd / math.sqrt(400)
    assert abs(np.var(scores) / sd**2 - 1) < 5.1 * math.sqrt(5 / 400)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("budget", [gaussian(1e-3), PrivacyGuarantee(epsilon=1e-3)])
@pytest.mark.parametrize("name", SCORERS)
def test_scores_lie_in_the_public_range(budget, name):
    scorer, data = SCORERS[name], rows([[0.0]] * 3, [0.0] * 3)
    scores = {score_of_trial(Same(), data, scorer, budget=budget, source=None) for _ in range(40)}
    low, high = scorer.offset - scorer.bound, scorer.offset
    assert {low, high} <= scores  # the noise is far larger than the range
    assert all(low <= score <= high for score in scores)


def test_a_failed_model_has_the_worst_score_with_the_same_noise():
    scorer, data = SCORERS["accuracy"], rows([[0.0]] * 400, [0.0] * 400)
    assert total_loss(None, data, scorer) == 400
    scores = [
        score_of_trial(None, data, scorer, budget=gaussian(0.1), source=noise_source(k))
        for k in range(50)
    ]
    assert len(set(scores)) > 3
    assert max(scores) < 0.2


class Keeper(Same):
    """Keeps the rows that it predicts."""

    def predict(self, X):
        self.predicted_ = np.array(X)
        return np.asarray(X, dtype=float)[:, 0]


def test_the_model_has_not_seen_the_rows_afterwards():
    model, data = Keeper(), rows([[0.731], [0.2]], [0.0, 0.0])
    score_of_trial(model, data, SCORERS["user"], budget=PURE, source=None)
    assert not vars(model)
    model.predict(data[0])
    assert vars(model)  # what it would have kept


def test_a_model_that_cannot_be_copied_has_the_worst_loss():
    model = Same()
    model.lock = threading.Lock()
    scorer = SCORERS["accuracy"]
    assert total_loss(model, rows([[0.0]] * 3, [0.0] * 3), scorer) == 3 * scorer.units


def test_results_repeat_with_a_seeded_source():
    data, scorer = rows([[0.0]] * 50, [1.0] * 50), SCORERS["user"]
    first, again = (
        score_of_trial(Same(), data, scorer, budget=PURE, source=noise_source(3)) for _ in range(2)
    )
    assert first == again
