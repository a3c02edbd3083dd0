"""The safe end of DPGIBOSearchCV in whole fits."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from _support.internals import TrajectoryRelease, end_positions
from skdpbo import DPGIBOSearchCV
from skdpbo.model_selection import Descent
from skdpbo.privacy._conversions import mu_from_pure_epsilon


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


@pytest.mark.parametrize(("score", "end"), [(0.0, 0.1), (0.1, 0.1), (0.3, 0.6), (0.0, 0.0)])
def test_shares_compose_to_the_whole(score, end):
    release = TrajectoryRelease(1.0, 1e-5, score, end)
    squares = [release.mu_score**2, release.mu_end**2, release.mu_trajectory**2]
    assert sum(squares) == pytest.approx(release.mu**2, rel=1e-12)
    assert squares[:2] == pytest.approx([score * release.mu**2, end * release.mu**2], rel=1e-9)
    assert ("permute-and-flip end" in str(release.guarantee)) == (end > 0)


def test_two_choices_share():
    """Each is purely epsilon-DP; by their GDP parameters they compose to the share."""
    release = TrajectoryRelease(1.0, 1e-5, 0.1, 0.2, n_choices=2)
    one = mu_from_pure_epsilon(release.choice.epsilon)
    assert 2 * one**2 == pytest.approx(release.mu_end**2, rel=1e-9)
    assert 2 * one**2 <= release.mu_end**2
    assert "start, end" in str(release.guarantee)


@pytest.mark.parametrize(("score", "end"), [(0.5, 0.5), (0.0, 1.0), (0.0, -0.1)])
def test_shares_that_leave_nothing_are_refused(score, end):
    with pytest.raises(ValueError, match="end_fraction"):
        TrajectoryRelease(1.0, 1e-5, score, end)
