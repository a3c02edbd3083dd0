"""Real tables and models with 12 to 40 continuous parameters, for `many_parameters.py`.

A training takes milliseconds. Trained models and their predictions are kept within a split, so
that searches which ask for the same model again need not wait for it; each request counts.
"""

import warnings
from pathlib import Path

import numpy as np
from quality.real_data import load_ailerons
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.neural_network import MLPClassifier


class Remembered(BaseEstimator):
    """A model whose parameters are `defaults`; subclasses train and predict."""

    defaults: dict
    kept: dict = {}  # noqa: RUF012 - shared on purpose: of one split
    trainings = 0

    def __init__(self, **values):
        for name, default in self.defaults.items():
            setattr(self, name, values.get(name, default))

    def get_params(self, deep=True):
        return {name: getattr(self, name) for name in self.defaults}

    def many(self, letter):
        """Values of the parameters of this letter, in order."""
        return np.array([getattr(self, k) for k in self.defaults if k[0] == letter and k[1:]])

    def fit(self, X, y):
        Remembered.trainings += 1
        X, self.n_features_in_ = np.asarray(X), np.shape(X)[1]
        if isinstance(self, ClassifierMixin):
            self.classes_, y = np.unique(y, return_inverse=True)
        self.key_ = type(self), *self.get_params().values(), *_name(X)
        if self.key_ not in self.kept:
            self.kept[self.key_] = self.trained(X, y)
        self.trained_ = self.kept[self.key_]
        return self

    def raw(self, X):
        key = self.key_, *_name(np.asarray(X))
        if key not in self.kept:
            self.kept[key] = self.predicted(self.trained_, np.asarray(X))
        return self.kept[key]


def _name(X):
    return X.shape, hash(X.tobytes())


class Classifier(ClassifierMixin, Remembered):
    def predict_proba(self, X):
        return self.raw(X)

    def predict(self, X):
        return self.classes_[self.raw(X).argmax(axis=1)]


class Regressor(RegressorMixin, Remembered):
    def predict(self, X):
        return self.raw(X)


def named(letter, n, value):
    return {f"{letter}{k:02}": value for k in range(n)}


def kernel(one, two):
    squares = np.square(one).sum(axis=1)[:, None] + np.square(two).sum(axis=1)
    return np.exp(-0.5 * np.maximum(squares - 2 * one @ two.T, 0.0))


class KernelRidge(Regressor):
    """Squared exponential kernel: weights of 16 columns, s the ridge."""

    defaults = named("w", 16, 0.3) | {"s": 0.1}

    def trained(self, X, y):
        X = X * self.many("w")
        K = kernel(X, X)
        K.flat[:: len(K) + 1] += self.s
        return X, np.linalg.solve(K, y)

    def predicted(self, trained, X):
        return kernel(X * self.many("w"), trained[0]) @ trained[1]


class Neighbours(Classifier):
    """Votes weighted by a kernel: weights of 16 columns, s what every class has before them."""

    defaults = named("w", 16, 0.3) | {"s": 0.1}

    def trained(self, X, y):
        return X * self.many("w"), np.eye(len(self.classes_))[y]

    def predicted(self, trained, X):
        votes = kernel(X * self.many("w"), trained[0]) @ trained[1] + self.s
        return votes / votes.sum(axis=1, keepdims=True)


class Penalties(Regressor):
    """Least squares with a penalty for each of 40 columns."""

    defaults = named("p", 40, 1.0)

    def trained(self, X, y):
        mean = y.mean()
        return mean, np.linalg.solve(X.T @ X + np.diag(self.many("p")), X.T @ (y - mean))

    def predicted(self, trained, X):
        return trained[0] + X @ trained[1]


class GroupWeights(Classifier):
    """Logistic regression: weights of 2 classes and 12 groups of records, s the penalty.

    The last column is the number of the group.
    """

    defaults = named("c", 2, 1.0) | named("g", 12, 1.0) | {"s": 1.0}

    def trained(self, X, y):
        weights = self.many("c")[y] * self.many("g")[X[:, -1].astype(int)]
        X = np.column_stack([np.ones(len(X)), X[:, :-1]])
        ridge = np.diag(np.r_[1e-6, np.full(X.shape[1] - 1, self.s)])
        beta = np.zeros(X.shape[1])
        for _ in range(8):  # Newton's method
            p = 1 / (1 + np.exp(-X @ beta))
            slope = X.T @ (weights * (p - y)) + ridge @ beta
            curved = X.T @ (X * (weights * np.maximum(p * (1 - p), 1e-3))[:, None]) + ridge
            beta = beta - np.linalg.solve(curved, slope)
        return beta

    def predicted(self, trained, X):
        p = 1 / (1 + np.exp(-trained[0] - X[:, :-1] @ trained[1:]))
        return np.column_stack([1 - p, p])


class Network(Classifier):
    """Scikit-learn's `MLPClassifier`, six units: weights of 12 columns, s its `alpha`."""

    defaults = named("w", 12, 1.0) | {"s": 1e-4}

    def trained(self, X, y):
        how = {"solver": "lbfgs", "max_iter": 30, "alpha": self.s, "activation": "tanh"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return MLPClassifier(6, random_state=0, **how).fit(X * self.many("w"), y)

    def predicted(self, trained, X):
        return trained.predict_proba(X * self.many("w"))


class Boosting(Regressor):
    """Scikit-learn's `GradientBoostingRegressor`: ten of its parameters, mostly in steps."""

    defaults = {  # noqa: RUF012
        "learning_rate": 0.1, "subsample": 1.0, "max_features": 1.0, "min_samples_split": 0.01,
        "min_samples_leaf": 0.01, "min_weight_fraction_leaf": 0.0, "max_depth": 3,
        "max_leaf_nodes": 8, "min_impurity_decrease": 1e-4, "ccp_alpha": 1e-4, "n_estimators": 12,
    }  # fmt: skip

    def trained(self, X, y):
        return GradientBoostingRegressor(random_state=0, **self.get_params()).fit(X, y)

    def predicted(self, trained, X):
        return trained.predict(X)


LOG = "log-uniform"
BOOSTING_SPACE = {
    "learning_rate": (0.03, 1.0, LOG), "subsample": (0.4, 1.0), "max_features": (0.2, 1.0),
    "min_samples_split": (0.005, 0.1), "min_samples_leaf": (0.005, 0.1),
    "min_weight_fraction_leaf": (0.0, 0.1), "max_depth": (1, 5), "max_leaf_nodes": (2, 16),
    "min_impurity_decrease": (1e-5, 1e-1, LOG), "ccp_alpha": (1e-5, 1e-1, LOG),
    "n_estimators": (5, 20),
}  # fmt: skip
WEIGHTS = {"w": (0.03, 3.0, LOG), "s": (1e-3, 10.0, LOG)}
SQUARED, LOSS = ("neg_mean_squared_error", 4.0), ("neg_log_loss", 6.0)

# Estimator, ranges by first letter or name, (scoring, bound), public and protected rows
TASKS = {
    "penalties": (Penalties, {"p": (0.1, 1e4, LOG)}, SQUARED, (300, 3000)),
    "kernel": (KernelRidge, WEIGHTS, SQUARED, (200, 2500)),
    "neighbours": (Neighbours, WEIGHTS, LOSS, (300, 1100)),
    "groups": (GroupWeights, dict.fromkeys("cg", (0.1, 10.0, LOG)) | {"s": (0.1, 1e3, LOG)},
               LOSS, (300, 4000)),
    "network": (Network, {"w": (0.03, 3.0, LOG), "s": (1e-4, 1e2, LOG)}, LOSS, (300, 4000)),
    "boosting": (Boosting, BOOSTING_SPACE, SQUARED, (200, 2500)),
}  # fmt: skip
NEW_ROWS = 4000  # at most; seen by no search


def space_of(task):
    estimator, ranges, _, _ = TASKS[task]
    return {name: ranges.get(name) or ranges[name[0]] for name in estimator.defaults}


def adult(folder):
    """Numbers, two one-hot columns, the occupation's number last; more than 50 000 a year?"""
    import pandas as pd

    frame = pd.read_csv(folder / "adult.data.gz", header=None, skipinitialspace=True)
    numbers = frame[[0, 4, 10, 11, 12]].to_numpy(float)
    numbers[:, 2:4] = np.log1p(numbers[:, 2:4])
    flags = [
        frame[5].str.startswith("Married"), frame[5].eq("Never-married"), frame[7].eq("Wife"),
        frame[7].eq("Own-child"), frame[9].eq("Male"), frame[8].eq("White"), frame[1].eq("Private"),
    ]  # fmt: skip
    common = frame[6].value_counts().index[:11]  # of all rows: public knowledge of occupations
    group = frame[6].map({name: k for k, name in enumerate(common)}).fillna(11)
    return np.column_stack([numbers, *flags, group]), frame[14].str.startswith(">").astype(int)


def table(task, folder):
    """Rows and targets."""
    folder = Path(folder)
    if task == "neighbours":  # means of 2 x 2 pixels
        digits = load_digits()
        blocks = digits.images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4))
        return blocks.reshape(-1, 16), digits.target
    if task == "penalties":
        return load_ailerons(folder / "ailerons.csv.gz")
    if task in ("groups", "network"):
        X, y = adult(folder)
        return (X if task == "groups" else X[:, :-1]), y.to_numpy()
    values = np.genfromtxt(folder / "uci_parkinsons.csv.gz", delimiter=",")
    return values[:, [0, *range(5, 20)]], values[:, -1]  # age and measurements of the voice


def parts(task, folder, split):
    """Public, protected and new rows; scaled by the public ones."""
    X, y = table(task, folder)
    order = np.random.RandomState(split).permutation(len(y))
    n_public, n_protected = TASKS[task][3]
    X, y = X[order], y[order]
    n_scaled = X.shape[1] - (task == "groups")
    columns = X[:, :n_scaled].astype(float)
    spread = columns[:n_public].std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    X = X.astype(float)
    X[:, :n_scaled] = np.clip((columns - columns[:n_public].mean(axis=0)) / spread, -4.0, 4.0)
    if TASKS[task][2] is SQUARED:
        y = (y - y[:n_public].mean()) / y[:n_public].std()
    ends = np.cumsum([n_public, n_protected, NEW_ROWS])
    return [(a, b) for a, b in zip(np.split(X, ends)[:3], np.split(y, ends)[:3], strict=True)]


def losses(model, X, y, task):
    """Losses as the searches bound them, in units of the bound."""
    bound = TASKS[task][2][1]
    if isinstance(model, ClassifierMixin):
        probability = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
        return np.minimum(-np.log(np.maximum(probability, 1e-9)), bound) / bound
    return np.minimum(np.square(model.predict(X) - y), bound) / bound
