"""All releases of every private model: what one record moves in them, and that they are all.

Nothing is estimated. Values that reach the noise are taken from fits to two neighbouring data sets,
the second of which gets the releases of the first: their distances, in standard deviations of the
noise, compose to at most the stated mu. Whatever else differs between the fits is a leak.
"""

import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from _support.far_from_zero import FarFromZero
from _support.planted import as_it_is, put
from _support.private_estimators import (
    BOXES,
    CLASSES,
    ROWS,
    classifiers,
    regressors,
    transformers,
)
from _support.replayed_releases import replayed
from skdpbo.gaussian_process import DPSparseGPClassifier, DPSparseGPRegressor
from skdpbo.linear_model import DPLogisticRegression
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.preprocessing import DPSimpleImputer

pytestmark = pytest.mark.filterwarnings("ignore")

N, D, SEEDS = 60, 2, range(8, 12)
ONE_KERNEL = {"kernel": RBF(1.0), "inducing_points": 5}
REGRESSORS = regressors() | {
    "regressor, no bounds": DPSparseGPRegressor(),
    # At smaller epsilon so few records can show no range, and none is released.
    "regressor, private bounds": DPSparseGPRegressor(epsilon=20.0),
    "regressor, private mean": DPSparseGPRegressor(prior_mean="private", **ONE_KERNEL, **BOXES),
    "regressor, COINPRESS": DPSparseGPRegressor(
        prior_mean="private", y_scale=0.1, **ONE_KERNEL, **BOXES
    ),
    "regressor, statistics": DPSparseGPRegressor(
        release="kernel", noise_variance=0.1, **ONE_KERNEL, **BOXES
    ),
}
CLASSIFIERS = classifiers() | {
    "logistic, balanced": DPLogisticRegression(class_weight="balanced", **CLASSES),
    "classifier, private bounds": DPSparseGPClassifier(classes=[0, 1], epsilon=20.0),
}
TRANSFORMERS = transformers() | {
    "ranges far from zero": FarFromZero(epsilon=20.0),
    "medians": DPSimpleImputer(strategy="median", **ROWS),
}
del TRANSFORMERS["encoder"]  # which categories are counted depends on the records, by delta
MODELS = REGRESSORS | CLASSIFIERS | TRANSFORMERS
EXTREMES = [0.0, 1.0, -2.0, 2.0, 1e308, -1e308, 5e-324, -0.0, 1e16, 0.1]


def records(seed, extreme=False):
    rng = np.random.default_rng(seed)
    if extreme:
        return rng.choice(EXTREMES, (N, D)), rng.choice(EXTREMES, N)
    return rng.uniform(-1, 1, (N, D)), rng.uniform(-1, 1, N)


def fitted(name, X, y):
    targets = y > 0 if name in CLASSIFIERS else y
    return clone(MODELS[name]).fit(X, *(() if name in TRANSFORMERS else (targets,)))


def seen(name):
    """Return a fit that ends with all that its model holds, bit by bit."""
    return lambda X, y: pickle.dumps(vars(fitted(name, X, y)))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("extreme", [False, True])
def test_whatever_is_no_release_is_the_same(name, extreme, monkeypatch):
    first, second = replayed(monkeypatch, seen(name), records(0), records(1, extreme))
    assert len(first) > 1
    assert first == second


@pytest.mark.parametrize("name", ["ridge", "classifier", "ranges"])
def test_anything_else_is_found(name, monkeypatch):
    def fit(X, y):
        model = fitted(name, X, y)
        model.largest_ = float(X[0, 0])
        return pickle.dumps(vars(model))

    first, second = replayed(monkeypatch, fit, records(0), records(1))
    assert first[:-1] == second[:-1]
    assert first[-1] != second[-1]


def neighbours(seed):
    """Return two data sets that differ in one record."""
    rng = np.random.default_rng(seed)
    X, y = records(rng, extreme=seed % 2)
    other_X, other_y = X.copy(), y.copy()
    other_X[7], other_y[7] = rng.choice(EXTREMES, D), rng.choice(EXTREMES)
    return (X, y), (other_X, other_y)


def total(name, seed, monkeypatch):
    """Return the composed distance of all releases of two neighbours, over the stated mu."""
    noisy, releases, answers = GaussianMechanism.release, [], []

    def release(self, values, source=None):
        exact = np.asarray(values)
        unit = self.sigma / self.lattice if exact.dtype.kind in "iO" else self.sigma
        releases.append(exact.astype(float) / unit)
        if len(releases) > len(answers):
            answers.append(noisy(self, values, source))
        return answers[len(releases) - 1]

    with monkeypatch.context() as patch:
        patch.setattr(GaussianMechanism, "release", release)
        one, other = neighbours(seed)
        model = fitted(name, *one)
        first, releases = releases, []
        fitted(name, *other)
    squares = (((a - b) ** 2).sum() for a, b in zip(first, releases, strict=True))
    return math.sqrt(sum(squares)) / model.privacy_.mu


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("name", MODELS)
def test_one_record_moves_all_releases_by_the_stated_mu(name, monkeypatch):
    totals = [total(name, seed, monkeypatch) for seed in SEEDS]
    assert 0 < max(totals) <= 1 + 1e-9


def undivided(mu, share):
    return mu, mu


FORGOTTEN = {
    "ridge": ("ridge", "split_budget", undivided),
    "classifier": ("features", "shorten_rows", as_it_is),
    "ranges": ("column ranges", "counts_sensitivity", lambda n_histograms: 0.5),
    "ranges far from zero": ("column ranges", "split_budget", undivided),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", FORGOTTEN)
def test_a_forgotten_part_is_found(name, monkeypatch):
    place, function, wrong = FORGOTTEN[name]
    put(monkeypatch, f"{place}: {function}", wrong)
    assert max(total(name, seed, monkeypatch) for seed in SEEDS) > 1.1
