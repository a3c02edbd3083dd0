"""Memory that nothing has set holds what was there before, such as losses of protected records.

Here it holds a number that is looked for, and nothing that is fitted may have it, nor its pickle.
"""

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import Ridge

from skdpbo import DPBayesSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.audit import Secrets, leak_scan
from skdpbo.gaussian_process import (
    DPSparseGPClassifier,
    DPSparseGPRegressor,
    GPUCBModeler,
    PrivateProjection,
    ProjectedGP,
)
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.preprocessing import DPOneHotEncoder

OLD = 0.7316520948315577
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 2)), RNG.normal(size=60)
GRID = [{"alpha": [0.1, 1.0, 9.0]}, {"alpha": [2.0], "tol": [1e-3, 1e-4]}]
ROWS = {"X_bounds": (-2, 2)}
BOX = {**ROWS, "y_bounds": (-2, 2)}
SPACE = [{"alpha": (0.1, 9.0)}, {"alpha": (0.1, 9.0), "tol": (1e-4, 1e-3)}]


def searched(kind, space, **params):
    search = kind(Ridge(), space, loss_bound=9.0, cv=2, **params)
    return search.fit(X, Y, X_val=X[:12] + 1, y_val=Y[:12] + 1)


def modeler():
    release = PrivateProjection(data_norm=4.0).fit(X).release_
    of_release = GPUCBModeler(release, kernel=RBF(1.0), noise_variance=0.1)
    of_release.tell(of_release.ask(), 0.5)
    return of_release


FITS = {
    "grid": lambda: searched(DPGridSearchCV, GRID),
    "no public scores": lambda: searched(DPGridSearchCV, GRID, guide=False),
    "halving": lambda: searched(DPGridSearchCV, GRID, halving=2),
    "random": lambda: searched(DPRandomizedSearchCV, SPACE, n_iter=4),
    "bayes": lambda: searched(DPBayesSearchCV, SPACE, n_iter=4, n_initial_points=3, n_candidates=9),
    "modeler": modeler,
    "ridge": lambda: DPRidge(**BOX).fit(X, Y),
    "logistic": lambda: DPLogisticRegression(**ROWS, classes=[False, True]).fit(X, Y > 0),
    "regressor": lambda: DPSparseGPRegressor(**BOX, inducing_points=4).fit(X, Y),
    "classifier": lambda: DPSparseGPClassifier(**ROWS, classes=[False, True]).fit(X, Y > 0),
    "projected": lambda: ProjectedGP(data_norm=4.0, optimizer=None, noise_variance=0.1).fit(X, Y),
}


def left_in_memory(monkeypatch):
    """Let every array that numpy makes without values have the old ones."""
    for name in ("empty", "empty_like"):
        make = getattr(np, name)

        def filled(*args, make=make, **how):
            array = make(*args, **how)
            if array.dtype.kind == "f":
                array[...] = OLD
            return array

        monkeypatch.setattr(np, name, filled)


@pytest.mark.parametrize("name", FITS)
def test_nothing_fitted_has_what_was_in_its_memory(name, monkeypatch):
    left_in_memory(monkeypatch)
    with warnings.catch_warnings(action="ignore"):
        fitted = FITS[name]()
    assert leak_scan(fitted, Secrets([OLD])) == []


def test_numbers_with_bytes_that_nothing_sets_are_doubles():
    X = np.array([[0.0], [1.0]] * 200, dtype=np.longdouble)
    encoder = DPOneHotEncoder(epsilon=5.0).fit(X)
    assert encoder.categories_[0].tolist() == [0, 1]
    assert encoder.categories_[0].dtype == np.float64
    model = DPLogisticRegression(X_bounds=(0, 1)).fit(X, X[:, 0])
    assert model.classes_.dtype == np.float64
