"""Search problems whose losses are computed beforehand, so that searches on them take no time.

Used by `compare_searchers.py`, where the tasks are described.
"""

import pathlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from landscapes import landscape
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OrdinalEncoder
from sklearn.svm import SVC


@dataclass
class Task:
    """Losses of every candidate of a lattice, computed beforehand.

    public: (n_folds, n_candidates), mean loss in each fold; protected: (n_records, n_candidates).
    """

    sizes: tuple
    public: np.ndarray
    protected: np.ndarray

    @property
    def space(self):
        return {f"x{axis}": (0, size - 1) for axis, size in enumerate(self.sizes)}

    def index(self, params):
        return int(np.ravel_multi_index([params[name] for name in self.space], self.sizes))


class LookUp(RegressorMixin, BaseEstimator):
    """An estimator whose "prediction" for row i is the loss in row i of the current table."""

    task: ClassVar[Task]
    table: ClassVar[np.ndarray]

    def __init__(self, x0=0, x1=0, x2=0, x3=0):
        self.x0, self.x1, self.x2, self.x3 = x0, x1, x2, x3

    def fit(self, X, y):
        self.column_ = self.task.index(self.get_params())
        return self

    def predict(self, X):
        return self.table[X[:, 0], self.column_]


def landscape_task(kind, seed, n_levels=22):
    axes = np.meshgrid(*2 * [np.linspace(0.0, 1.0, n_levels)], indexing="ij")
    points = np.stack([axis.ravel() for axis in axes], axis=1)
    _, score, folds = landscape(kind, seed, points)
    return Task((n_levels, n_levels), 1.0 - folds, 1.0 - score[None])


def model_tasks(make_model, grids, X, y, n_public, name, options):
    """One task for each split of the rows, from the cache where it is there."""
    sizes = tuple(map(len, grids.values()))
    for split in range(options.splits):
        path = pathlib.Path(options.cache or ".", f"{name}_{split}.npz")
        if options.cache and path.exists():
            tables = np.load(path)
        else:
            tables = losses_of_models(make_model, grids, X, y, n_public, split)
            if options.cache:
                np.savez_compressed(path, **tables)
        yield Task(sizes, tables["public"], tables["protected"])


def losses_of_models(make_model, grids, X, y, n_public, seed):
    """Train every candidate on public rows: cross-validated losses there, losses on the others."""
    order = np.random.RandomState(seed).permutation(len(y))
    rows, others = order[:n_public], order[n_public:]
    folds = list(StratifiedKFold(3).split(X[rows], y[rows]))
    public, protected = [], []
    for values in np.stack(np.meshgrid(*grids.values(), indexing="ij"), -1).reshape(-1, len(grids)):
        model = make_model(dict(zip(grids, values, strict=True)))
        public.append(
            [
                np.mean(model.fit(X[rows[a]], y[rows[a]]).predict(X[rows[b]]) != y[rows[b]])
                for a, b in folds
            ]
        )
        protected.append(model.fit(X[rows], y[rows]).predict(X[others]) != y[others])
    return {"public": np.array(public).T, "protected": np.array(protected).T}


def digits_tasks(options):
    X, y = load_digits(return_X_y=True)
    grids = {"C": np.logspace(-2, 3, 20), "gamma": np.logspace(-5, -0.5, 20)}
    return model_tasks(lambda params: SVC(**params), grids, X / 16.0, y, 300, "digits", options)


def adult_tasks(options):
    import pandas as pd

    if options.data is None:
        raise SystemExit("the task adult needs --data PATH/TO/adult.data.gz")
    frame = pd.read_csv(options.data, header=None, skipinitialspace=True)
    X, y = frame.iloc[:, :-1], (frame.iloc[:, -1] == ">50K").to_numpy()
    numeric = X.select_dtypes("number").columns
    codes = OrdinalEncoder().fit_transform(X.drop(columns=numeric))
    grids = {
        "learning_rate": np.logspace(-2.5, 0, 5),
        "max_leaf_nodes": [2, 4, 8, 16, 32],
        "min_samples_leaf": [5, 20, 60, 150],
        "l2_regularization": [0.0, 1.0, 10.0, 100.0],
    }

    def make_model(params):
        whole = {name: int(params[name]) for name in ("max_leaf_nodes", "min_samples_leaf")}
        return HistGradientBoostingClassifier(
            **{**params, **whole}, max_iter=40, early_stopping=False, random_state=0
        )

    X = np.hstack([X[numeric], codes])
    return model_tasks(make_model, grids, X, y, 1000, "adult", options)
