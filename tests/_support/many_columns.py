"""Records of many columns, and fits of them, for the tests of the first releases."""

import warnings

import numpy as np

from skdpbo.exceptions import SkdpboWarning
from skdpbo.gaussian_process import DPSparseGPRegressor

HUGE = np.array([0.0, 1.0, -3.0, 3.0, 2.5, 1e300, -1e300, 7.0])


def records(n=3000, p=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, p))
    return X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)


def fitted(X, y, **parameters):
    public = {"X_bounds": (-3, 3), "y_bounds": (-3, 3), "random_state": 0}
    rows = {key: parameters.pop(key) for key in list(parameters) if key.endswith("_public")}
    rows |= {"groups": parameters.pop("groups")} if "groups" in parameters else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkdpboWarning)
        return DPSparseGPRegressor(**{**public, **parameters}).fit(X, y, **rows)


def error(gp, n_columns, seed=9):
    X = np.random.default_rng(seed).uniform(-3, 3, (500, n_columns))
    return np.sqrt(np.mean((gp.predict(X) - np.sin(X[:, 0])) ** 2))
