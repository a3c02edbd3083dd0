"""The safe end of DPGIBOSearchCV in whole fits."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from _support.bounds import gaussian_delta
from _support.internals import TrajectoryRelease, end_positions
from skdpbo import DPGIBOSearchCV
from skdpbo.model_selection import Descent
from skdpbo.privacy import compose


class Cliff(RegressorMixin, BaseEstimator):
    """Predicts 0 near the start, and 1 beyond: gradients say nothing of that."""

    def __init__(self, a=0.0, b=0.0):
        self.a = a
        self.b = b

    def fit(self, X, y):
        self.n_features_in_ = 1
        return self

    def predict(self, X):
        off = max(abs(self.a - 0.5), abs(self.b - 0.5))
        return np.full(len(X), float(off > 0.15) + 0.1 * (0.5 - self.a))


def fitted(**params):
    space = {"a": (0.0, 1.0), "b": (0.0, 1.0)}
    how = {"n_iter": 6, "loss_bound": 1.0, "epsilon": 20.0, "refit": False}
    how |= {"guide": False, "init": None} | params
    rows = np.zeros((2000, 1))
    return DPGIBOSearchCV(Cliff(), space, **how).fit(
        rows[:9], np.zeros(9), X_val=rows, y_val=np.zeros(2000)
    )


def loss(search):
    return np.square(Cliff(**search.best_params_).predict([[0.0]])[0])


def test_ends_no_worse_than_it_began():
    steps = Descent(batch_size=1)  # one point in two dimensions: a gradient of little use
    safe, unsafe = (fitted(descent=steps, end_fraction=share) for share in (0.1, 0.0))
    # Totals differ by 2000 of which one record moves at most 1; the rate is above .6.
    assert loss(safe) < 0.1
    assert loss(unsafe) > 0.5
    assert unsafe.best_index_ == len(unsafe.cv_results_["params"]) - 1


def test_published_point_is_one_of_the_trajectory():
    search = fitted()
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
    assert search.best_index_ in end_positions(len(search.cv_results_["params"]), 6)


def test_candidates():
    assert end_positions(27, 25) == [0, 6, 12, 19, 25, 26]
    assert end_positions(2, 1) == [0, 1]
    assert end_positions(4, 3) == [0, 1, 2, 3]


@pytest.mark.parametrize("of_start", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize(("score", "end"), [(0.0, 0.1), (0.1, 0.4), (0.5, 0.9), (0.0, 0.0)])
def test_shares_compose_to_the_whole(score, end, epsilon, of_start):
    """Gaussian and pure parts have the budget together, and none of it is left."""
    release = TrajectoryRelease(epsilon, 1e-5, score, end, start_share=of_start)
    assert release.mu_trajectory**2 + release.mu_score**2 == pytest.approx(release.mu**2)
    assert release.mu_score**2 == pytest.approx(score * release.mu**2)
    choices = [choice for choice in (release.start_choice, release.choice) if choice is not None]
    assert len(choices) == (end > 0) + (end > 0 and of_start > 0)
    pure = [choice.epsilon for choice in choices]
    if len(pure) == 2:
        assert pure[0] == pytest.approx(of_start * sum(pure))
    assert sum(pure) == pytest.approx(end * epsilon)

    def spent(mu):
        """Delta at epsilon, by the signs of randomised responses: the law of their losses."""
        total = 0.0
        for signs in itertools.product((1, -1), repeat=len(pure)):
            losses = np.multiply(signs, pure)
            weight = np.prod(1 / (1 + np.exp(-losses)))
            total += weight * gaussian_delta(mu, epsilon - losses.sum())
        return total

    assert spent(release.mu) <= 1e-5 * (1 + 1e-9)
    assert spent(release.mu * (1 + 1e-6)) > 1e-5
    guarantee = release.guarantee
    assert (guarantee.epsilon, guarantee.delta) == (epsilon, 1e-5)
    assert len(guarantee.parts) == (len(pure) + 1 if end else 0)
    assert ("permute-and-flip end" in str(guarantee)) == (end > 0)


def test_parts_compose_with_those_of_another_fit():
    """Two fits cost less than the sum of their pairs, as two Gaussian releases do."""
    guarantee = TrajectoryRelease(1.0, 1e-5, 0.1, 0.4, start_share=0.5).guarantee
    assert compose(guarantee, guarantee).epsilon < 1.7
    assert compose(replace(guarantee), replace(guarantee)).epsilon == 2.0  # without the parts


def test_fit_states_the_parts():
    assert len(fitted().privacy_.parts) == 2  # gradients and score, end


@pytest.mark.parametrize(("score", "end"), [(0.5, 1.0), (0.0, 1.5), (0.0, -0.1)])
def test_shares_that_leave_nothing_are_refused(score, end):
    with pytest.raises(ValueError, match="end_fraction"):
        TrajectoryRelease(1.0, 1e-5, score, end)
