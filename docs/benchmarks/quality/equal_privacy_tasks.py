"""The real data of `equal_privacy.py`, with the losses of all candidates computed beforehand.

A run on `adult`, `hospital` or `loans` is a look-up: for each split of the rows every candidate of
a lattice is trained on the public rows, its losses on the protected rows are kept, and its utility
is measured on rows that take no part in any search. The tables are cached.
"""

import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
from quality.real_data import load_adult, load_ailerons, load_hospital, load_loans
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import OrthogonalMatchingPursuit
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

N_PUBLIC, N_POOL, N_HELD_OUT, N_PROTECTED = 1000, 6000, 20_000, 2000
FOLDS = 3
FILES = {
    "adult": "adult.data.gz",
    "hospital": "dataset_diabetes.zip",
    "loans": "lendingclub_2007_2011.csv.gz",
    "ailerons": "ailerons.csv.gz",
    "growth": "mice_fdgs.csv.gz",
}
CACHE = Path(tempfile.gettempdir()) / "skdpbo_equal_privacy"


@dataclass
class LookUpTask:
    """Losses of every candidate of a lattice, computed beforehand.

    public: (n_folds, n_candidates), mean loss in each fold; protected: (n_records, n_candidates);
    utility: (n_candidates,), on rows that took no part.
    """

    sizes: tuple
    public: np.ndarray
    protected: np.ndarray
    utility: np.ndarray
    utility_of_default: float

    @property
    def space(self):
        return {f"x{axis}": (0, size - 1) for axis, size in enumerate(self.sizes)}

    def index(self, params):
        return int(np.ravel_multi_index([params[name] for name in self.space], self.sizes))


class LookUp(RegressorMixin, BaseEstimator):
    """An estimator whose "prediction" for row i is the loss in row i of the current table."""

    task: ClassVar[LookUpTask]
    table: ClassVar[np.ndarray]

    def __init__(self, x0=0, x1=0, x2=0, x3=0):
        self.x0, self.x1, self.x2, self.x3 = x0, x1, x2, x3

    def fit(self, X, y):
        self.column_ = self.task.index(self.get_params())
        return self

    def predict(self, X):
        return self.table[X[:, 0], self.column_]


@dataclass(frozen=True)
class Problem:
    """A model, the lattice of its candidates, the loss of a record and the utility reported."""

    load: object
    model: object
    grids: dict
    loss: str  # "error": 0 or 1; "brier": squared error of the probability
    utility: str  # "accuracy" or "AUC"


def boosting(**params):
    return HistGradientBoostingClassifier(
        max_iter=40, early_stopping=False, random_state=0, **params
    )


def tree(**params):
    return DecisionTreeClassifier(random_state=0, **params)


BOOSTING = {
    "learning_rate": [0.01, 0.03, 0.1, 0.3, 1.0],
    "max_leaf_nodes": [2, 4, 8, 16, 32],
    "min_samples_leaf": [5, 20, 60, 150],
}
PROBLEMS = {
    "adult": Problem(load_adult, boosting, BOOSTING, "error", "accuracy"),
    "hospital": Problem(
        load_hospital,
        tree,
        {
            "max_depth": [1, 2, 3, 5, 8, 12],
            "min_samples_leaf": [1, 5, 20, 60, 150],
            "max_features": [0.1, 0.3, 0.6, 1.0],
        },
        "error",
        "accuracy",
    ),
    "loans": Problem(load_loans, boosting, BOOSTING, "brier", "AUC"),
}


def coded(X):
    """Numbers for a table; categories by their place in the alphabet."""
    numeric = X.select_dtypes("number")
    others = X.drop(columns=numeric.columns).astype(str)
    codes = [pd.Categorical(others[name]).codes for name in others]
    table = np.column_stack([numeric.to_numpy(float), *codes])
    return np.where(np.isfinite(table), table, -1.0)


def lookup_task(name, folder, split, cache=CACHE):
    """The task of one split of the rows, from the cache where it is there."""
    problem, path = PROBLEMS[name], Path(cache) / f"{name}_{split}.npz"
    sizes = tuple(map(len, problem.grids.values()))
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        X, y = problem.load(Path(folder) / FILES[name])
        y = (y == ">50K") if name == "adult" else y
        unfinished = path.with_name(f"unfinished_{path.name}")  # a run may be cut short
        np.savez_compressed(unfinished, **tables(problem, coded(X), np.asarray(y, int), split))
        unfinished.rename(path)
    with np.load(path) as kept:
        return LookUpTask(sizes, *(kept[key] for key in TABLES))


TABLES = ("public", "protected", "utility", "utility_of_default")


def tables(problem, X, y, split):
    """Losses and utilities of all candidates for one split, arrays by name."""
    order = np.random.RandomState(split).permutation(len(y))
    public, pool, held_out = np.split(
        order[: N_PUBLIC + N_POOL + N_HELD_OUT], [N_PUBLIC, N_PUBLIC + N_POOL]
    )
    folds = list(StratifiedKFold(FOLDS).split(X[public], y[public]))
    candidates = [
        dict(zip(problem.grids, v, strict=True)) for v in product(*problem.grids.values())
    ]
    columns = []
    for params in [*candidates, {}]:  # the last one has the default parameters
        model = problem.model(**params)
        guide = []
        for a, b in folds:
            rows = public[a], public[b]
            probability = model.fit(X[rows[0]], y[rows[0]]).predict_proba(X[rows[1]])[:, 1]
            guide.append(losses(problem.loss, probability, y[rows[1]]).mean())
        model.fit(X[public], y[public])
        of_pool, of_held_out = (model.predict_proba(X[rows])[:, 1] for rows in (pool, held_out))
        kept = losses(problem.loss, of_pool, y[pool])
        columns.append((guide, kept, utility(problem.utility, of_held_out, y[held_out])))
    guide, protected, utilities = zip(*columns, strict=True)
    return {
        "public": np.array(guide[:-1]).T,
        "protected": np.array(protected[:-1], dtype=np.float32).T,
        "utility": np.array(utilities[:-1]),
        "utility_of_default": np.array(utilities[-1]),
    }


def losses(kind, probability, y):
    return (probability > 0.5) != y if kind == "error" else np.square(probability - y)


def utility(kind, probability, y):
    return roc_auc_score(y, probability) if kind == "AUC" else np.mean((probability > 0.5) == y)


class KernelRidge(RegressorMixin, BaseEstimator):
    """Kernel ridge regression with a length-scale for each of ten features, single precision."""

    def __init__(self, alpha=1.0, l0=3.0, l1=3.0, l2=3.0, l3=3.0, l4=3.0, l5=3.0, l6=3.0, l7=3.0,
                 l8=3.0, l9=3.0):  # fmt: skip
        self.alpha = alpha
        self.l0, self.l1, self.l2, self.l3, self.l4 = l0, l1, l2, l3, l4
        self.l5, self.l6, self.l7, self.l8, self.l9 = l5, l6, l7, l8, l9

    def fit(self, X, y):
        self._scale = 1.0 / np.array([getattr(self, f"l{k}") for k in range(10)], np.float32)
        self._rows = np.asarray(X, np.float32) * self._scale
        K = self._kernel(self._rows).astype(float)
        K.flat[:: len(K) + 1] += self.alpha
        self.weights_ = np.linalg.solve(K, y).astype(np.float32)
        return self

    def _kernel(self, rows):
        K = rows @ self._rows.T
        K -= 0.5 * np.square(rows).sum(axis=1)[:, None]
        K -= 0.5 * np.square(self._rows).sum(axis=1)
        return np.exp(np.minimum(K, 0, out=K), out=K)

    def predict(self, X):
        return (self._kernel(np.asarray(X, np.float32) * self._scale) @ self.weights_).astype(float)


AILERONS_UNIT = 1e-4  # of the errors that are reported; y has a standard deviation of 4 of them


def ailerons(folder, split, n_public, n_protected, n_features):
    """Public, protected and other rows (X, y) of ailerons, and what one unit of y is worth.

    Rows are in units of the public rows' spread; the features are chosen on the public rows.
    """
    X, y = load_ailerons(Path(folder) / FILES["ailerons"])
    order = np.random.RandomState(split).permutation(len(y))
    X, y = X[order], y[order]
    scale, unit = X[:n_public].std(axis=0), y[:n_public].std()
    X = (X - X[:n_public].mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)
    X, y = np.clip(X, -5.0, 5.0), (y - y[:n_public].mean()) / unit
    pursuit = OrthogonalMatchingPursuit(n_nonzero_coefs=n_features).fit(X[:n_public], y[:n_public])
    X = X[:, np.flatnonzero(pursuit.coef_)]
    ends = [n_public, n_public + n_protected]
    return list(zip(np.split(X, ends), np.split(y, ends), strict=True)), unit / AILERONS_UNIT
