"""No seed of a trial is left on what is released: noise that can be drawn again is no noise."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline

from _support.internals import TrialRandomness
from _support.planted import original, put
from skdpbo import DPGridSearchCV, DPSparseGPRegressor
from skdpbo.audit import Secrets, leak_scan
from skdpbo.model_selection import PrivateSelection
from skdpbo.privacy import PrivacyGuarantee

X = np.random.RandomState(0).uniform(-1, 1, size=(300, 1))
Y = X[:, 0]
pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


class ThirdParty(RegressorMixin, BaseEstimator):
    """A private mean whose statement forgets its seed, and that keeps what it has drawn from."""

    def __init__(self, shift=0.0, epsilon=1.0, random_state=None):
        self.shift = shift
        self.epsilon = epsilon
        self.random_state = random_state

    def privacy_guarantee(self, n_samples=None):
        return PrivacyGuarantee(epsilon=self.epsilon)

    def fit(self, X, y):
        seed = self.random_state
        self.seed_ = seed if isinstance(seed, int | None) else "a generator"
        noise = np.random.default_rng(self.seed_ if isinstance(self.seed_, int) else None)
        self.mean_ = np.mean(np.clip(y, -1, 1)) + noise.laplace(scale=2 / len(y) / self.epsilon)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_ + self.shift)


def gp(**params):
    return DPSparseGPRegressor(RBF(1.0), X_bounds=(-1, 1), y_bounds=(-1, 1), **params)


def projected(model):
    return make_pipeline(RBFSampler(gamma=1.0, n_components=2, random_state=3), model)


GRID = {"shift": [0.0, 0.1]}
STEP = {"thirdparty__shift": [0.0, 0.1]}
CASES = {
    "own": (gp(), {"y_scale": [0.5, 1.0]}),
    "own step": (projected(gp()), {"dpsparsegpregressor__y_scale": [0.5, 1.0]}),
    "third party": (ThirdParty(), GRID),
    "third party, seeded": (ThirdParty(random_state=7), GRID),
    "third party, generator": (ThirdParty(random_state=np.random.RandomState(0)), GRID),
    "third party, seeds in the grid": (ThirdParty(), {"random_state": [None, 1, 2]}),
    "third party, seeded step": (projected(ThirdParty(random_state=7)), STEP),
}
# Of every trial, the number of trials is known with "composition".
PROTECTIONS = {
    "secretly often": {"protect": "all"},
    "padded": {"protect": PrivateSelection(pad_trials=True, max_trials=150)},
    "composition": {"protect": PrivateSelection(accounting="composition")},
}


def seeds_of(sequence):
    """Return the numbers from which the noise of a trial can be drawn again."""
    keys = [sequence.spawn_key + more for more in ((), (0,), (1,), (0, 0), (1, 0))]
    children = [np.random.SeedSequence(sequence.entropy, spawn_key=key) for key in keys]
    words = [int(word) for child in children for word in child.generate_state(8)]
    return [sequence.entropy, *words]


@pytest.fixture
def seeds(monkeypatch):
    """Seeds of all trials of the searches of a test."""
    found, honest = [], original("trials: TrialRandomness").of

    def of(self, numbers):
        given = honest(self, numbers)
        found.extend(seed for _, sequence in given for seed in seeds_of(sequence))
        return given

    monkeypatch.setattr(TrialRandomness, "of", of)
    return found


def fitted(case, protection="secretly often", **params):
    model, grid = CASES[case]
    protect = PROTECTIONS[protection]
    return DPGridSearchCV(model, grid, loss_bound=1.0, **protect, **params).fit(X, Y)


def seeded_steps(search):
    """Return the private steps' values of ``random_state`` in the released model."""
    model = search.best_estimator_
    last = model[-1] if hasattr(model, "steps") else model
    return [last.random_state, getattr(last, "seed_", None)]


def left(search, seeds):
    secrets = Secrets(seeds, rtol=0, digits=9)
    return leak_scan(search, secrets) or [seed for seed in seeded_steps(search) if seed in seeds]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("case", sorted(CASES))
def test_no_seed_is_left(case, seeds):
    search = fitted(case)
    assert len(seeds) > 40
    assert left(search, seeds) == []
    assert seeded_steps(search) == [None, None]


@pytest.mark.slow
@pytest.mark.parametrize("protection", sorted(PROTECTIONS))
def test_nor_with_other_numbers_of_trials(protection, seeds):
    assert left(fitted("third party, seeded", protection), seeds) == []


def test_a_seeded_search_is_void(seeds):
    search = fitted("third party", random_state=0)
    assert search.privacy_.status == "void"
    # It may be left there: nothing is promised.
    assert left(search, seeds) != []


@pytest.mark.parametrize("case", ["third party", "third party, seeded step"])
def test_a_seed_that_is_left_is_found(case, seeds, monkeypatch):
    # Planted bug: every trial is seeded by the search, as in one that is seeded itself.
    honest = original("trials: trained_model")
    put(
        monkeypatch,
        "trials: trained_model",
        lambda model, data, _, own: honest(model, data, True, own),
    )
    assert left(fitted(case), seeds) != []


def test_the_noise_of_every_trial_is_its_own():
    means = [fitted("third party, seeded").best_estimator_.mean_ for _ in range(4)]
    assert len(set(means)) == 4
