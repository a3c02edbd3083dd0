"""Processes that are forked before, during and beside fits: no two of them have the same noise."""

import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyRegressor

from _support.forks import forking, in_fork
from _support.internals import NormalSampler, in_isolation, seeded_generators
from _support.planted import original
from _support.private_estimators import every_private_estimator
from skdpbo import DPGridSearchCV
from skdpbo.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    GaussianMechanism,
    L2Laplace,
    PermuteAndFlip,
    draw_trials,
)
from skdpbo.privacy import TrialLaw

pytestmark = forking

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = (X[:, 0] > 0).astype(int)
ZEROS, TIES = np.zeros(4, dtype=int), [0] * 1000

# Each draw has a probability of at most 1e-3, of trials 1e-2; so that all are equal, below 1e-6.
RELEASES = {
    "laplace": lambda: DiscreteLaplace(epsilon=1e-6, sensitivity=1).release(ZEROS),
    "laplace of opendp": lambda: DiscreteLaplace(1e-6, 1, engine="opendp").release(ZEROS),
    "discrete gaussian": lambda: DiscreteGaussian(1e-3, 1e-6, 1).release(ZEROS),
    "gaussian": lambda: GaussianMechanism(mu=1e-3, sensitivity=1.0).release(np.zeros(4)),
    "normal": lambda: NormalSampler().rounded(4, 2**40),
    "l2 laplace": lambda: L2Laplace(1.0, 1.0, 3).release(np.zeros((4, 3))),
    "permute and flip": lambda: [PermuteAndFlip(1.0, 1).select(TIES) for _ in range(4)],
    "exponential": lambda: [ExponentialMechanism(1.0, 1).select(TIES) for _ in range(4)],
    "trials": lambda: [draw_trials(TrialLaw(1000)) for _ in range(6)],
}
# What these release of few records is mostly that there is no range, or no category.
CONTINUOUS = every_private_estimator().keys() - {"ranges", "encoder"}


def distinct(*answers):
    return len({pickle.dumps(answer) for answer in answers}) == len(answers)


@pytest.mark.parametrize("name", RELEASES)
def test_no_sampler_repeats_its_noise(name):
    if "opendp" in name:
        pytest.importorskip("opendp")
    release = RELEASES[name]
    release()  # what a sampler kept would be inherited
    assert distinct(in_fork(release), in_fork(release), release())


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", sorted(CONTINUOUS, reverse=True))
def test_no_private_estimator_repeats_its_noise(name):
    model = every_private_estimator()[name]

    def released():
        fitted = vars(clone(model).fit(X, Y))
        known = "privacy_", "_book"  # the same for all, and one that is not copied
        return {key: value for key, value in fitted.items() if key not in known}

    released()
    assert distinct(in_fork(released), in_fork(released), released())


class Waiting(DummyRegressor):
    """Waits where it predicts in another thread than the main one."""

    def predict(self, X):
        if threading.current_thread() is not threading.main_thread():
            PREDICTS.set()
            GOES_ON.wait(20)
        return super().predict(X)


PREDICTS, GOES_ON = threading.Event(), threading.Event()


def drawn():
    return np.random.random(4)


class TestForksOfAnotherThread:
    """Predictions start from a public seed: a process forked meanwhile would keep it for good."""

    @pytest.fixture
    def numbers(self):
        """Return what two processes draw that are forked while another thread scores."""
        for event in (PREDICTS, GOES_ON):
            event.clear()
        search = DPGridSearchCV(Waiting(), {"constant": [0.0]}, guide=False, loss_bound=1.0)
        search.set_params(scoring="neg_mean_squared_error")
        fit = threading.Thread(target=search.fit, args=(X, Y), kwargs={"X_val": X, "y_val": Y})
        fit.start()
        try:
            assert PREDICTS.wait(20)
            return [in_fork(drawn) for _ in range(2)]
        finally:
            GOES_ON.set()
            fit.join()

    def test_they_draw_numbers_of_their_own(self, numbers):
        assert distinct(*numbers)

    def test_the_training_that_forks_keeps_its_seed(self):
        """It knows of its processes, and a search is to be the same again."""

        def training():
            with seeded_generators(7):
                return in_fork(drawn), drawn()

        forked, own = in_isolation(training)
        np.testing.assert_array_equal(forked, own)
        np.testing.assert_array_equal(own, np.random.RandomState(7).random_sample(4))

    @pytest.mark.parametrize("place", ["silence: _PROCESS", "isolation: ONE_AT_A_TIME"])
    def test_a_lock_that_it_holds_is_free(self, place):
        """No thread of the new process would let go of it."""
        lock, held, let_go = original(place), threading.Event(), threading.Event()

        def hold():
            with getattr(lock, "lock", lock):
                held.set()
                let_go.wait(20)

        thread = threading.Thread(target=hold)
        thread.start()
        try:
            assert held.wait(20)
            assert in_fork(lambda: in_isolation(int)) == 0
        finally:
            let_go.set()
            thread.join()
