"""How good are searches of 11 to 17 continuous parameters on real tables, at equal trainings?

    python docs/benchmarks/run.py many_parameters ../shared/data --splits 5

Rows are added to ``results/many_parameters.csv`` as they are made; ``--table`` prints the means.
The loss is that of rows that no search has seen, of the model that was released.
"""

import argparse
import functools
import math
import warnings
from pathlib import Path

import numpy as np
from provenance import RESULTS, append_row, read_rows
from quality.equal_privacy_choice import NO_PRIVACY, permute_and_flip
from quality.real_data import load_ailerons
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.datasets import load_digits

from skdpbo import DPBayesSearchCV, DPGIBOSearchCV

OUT = RESULTS / "many_parameters.csv"
EPSILONS = (0.3, 1.0, 3.0)
STEPS, FOLDS, N_BAYES = 8, 2, 40
SIZES = {"ailerons": (300, 3000), "parkinsons": (300, 3000), "digits": (300, 1100)}


class _Weighted(BaseEstimator):
    """Weights of up to 16 columns, and one more parameter."""

    def __init__(
        self, s=0.1, w0=0.3, w1=0.3, w2=0.3, w3=0.3, w4=0.3, w5=0.3, w6=0.3, w7=0.3, w8=0.3, w9=0.3,
        w10=0.3, w11=0.3, w12=0.3, w13=0.3, w14=0.3, w15=0.3,
    ):  # fmt: skip
        values = (w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15)
        self.s = s
        for k, value in enumerate(values):
            setattr(self, f"w{k}", value)

    def _kernel(self, X):
        weights = [getattr(self, f"w{k}") for k in range(X.shape[1])]
        one, two = np.asarray(X) * weights, self.rows_ * weights
        squares = np.square(one).sum(axis=1)[:, None] + np.square(two).sum(axis=1)
        return np.exp(-0.5 * np.maximum(squares - 2 * one @ two.T, 0.0))


class KernelRidge(RegressorMixin, _Weighted):
    """Squared exponential kernel; s is the ridge."""

    def fit(self, X, y):
        self.rows_, self.n_features_in_ = np.asarray(X), X.shape[1]
        K = self._kernel(X)
        K.flat[:: len(K) + 1] += self.s
        self.alpha_ = np.linalg.solve(K, y)
        return self

    def predict(self, X):
        return self._kernel(X) @ self.alpha_


class KernelClassifier(ClassifierMixin, _Weighted):
    """Neighbours weighted by a kernel; s is what every class has before the first neighbour."""

    def fit(self, X, y):
        self.rows_, self.n_features_in_ = np.asarray(X), X.shape[1]
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.codes_ = np.eye(len(self.classes_))[codes]
        return self

    def predict_proba(self, X):
        votes = self._kernel(X) @ self.codes_ + self.s
        return votes / votes.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def table(task, folder):
    """Rows, targets and whether these are numbers."""
    if task == "digits":  # means of 2 x 2 pixels
        digits = load_digits()
        blocks = digits.images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4))
        return blocks.reshape(-1, 16), digits.target
    if task == "ailerons":
        X, y = load_ailerons(Path(folder) / "ailerons.csv.gz")
        return X[:, np.argsort(-np.abs(np.nan_to_num(np.corrcoef(X.T, y)[-1, :-1])))[:10]], y
    values = np.genfromtxt(Path(folder) / "uci_parkinsons.csv.gz", delimiter=",")
    return values[:, [0, *range(5, 20)]], values[:, -1]  # age and measurements of the voice


def parts(task, folder, split):
    X, y = table(task, folder)
    order = np.random.RandomState(split).permutation(len(y))
    n_public, n_protected = SIZES[task]
    X, y = X[order], y[order]
    spread = X[:n_public].std(axis=0)
    X = np.clip((X - X[:n_public].mean(axis=0)) / np.where(spread > 0, spread, 1.0), -4.0, 4.0)
    if task != "digits":
        y = (y - y[:n_public].mean()) / y[:n_public].std()
    ends = [n_public, n_public + n_protected]
    return [(a, b) for a, b in zip(np.split(X, ends), np.split(y, ends), strict=True)]


def losses(model, X, y, kind):
    """Losses as the searches bound them, in units of the bound."""
    if kind == "neg_log_loss":
        probability = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
        return np.minimum(-np.log(np.maximum(probability, 1e-9)), 6.0) / 6.0
    return np.minimum(np.square(model.predict(X) - y), 4.0) / 4.0


def run(task, folder, split):
    """Yield (arm, epsilon, loss on new rows)."""
    (X, y), (X_val, y_val), (X_new, y_new) = parts(task, folder, split)
    digits = task == "digits"
    estimator = KernelClassifier() if digits else KernelRidge()
    kind, bound = ("neg_log_loss", 6.0) if digits else ("neg_mean_squared_error", 4.0)
    d = X.shape[1]
    space = {f"w{k}": (0.03, 3.0, "log-uniform") for k in range(d)}
    space["s"] = (1e-3, 10.0, "log-uniform")
    usual = {"scoring": kind, "loss_bound": bound, "score_fraction": 0.0, "refit": False}
    usual |= {"cv": FOLDS}
    n_trainings = 32 * FOLDS + STEPS * (d + 2) * (1 + FOLDS) + 60

    @functools.cache
    def loss_of(*params):
        model = type(estimator)(**dict(params)).fit(X, y)
        return bound * float(losses(model, X_new, y_new, kind).mean())

    def released(search):
        search.fit(X, y, X_val=X_val, y_val=y_val)
        return loss_of(*sorted(search.best_params_.items()))

    def gibo(epsilon):
        return released(DPGIBOSearchCV(estimator, space, n_iter=STEPS, epsilon=epsilon, **usual))

    yield "defaults", math.inf, loss_of()
    yield "public descent alone", math.inf, gibo(1e-6)
    yield "DPGIBOSearchCV, no noise", math.inf, gibo(NO_PRIVACY)
    rng = np.random.RandomState(split)
    low, high = np.log([space[name][:2] for name in space]).T
    draws = np.exp(rng.uniform(low, high, size=(n_trainings, len(space))))
    candidates = [dict(zip(space, map(float, draw), strict=True)) for draw in draws]

    def total(params, train, test):
        model = type(estimator)(**params).fit(X[train], y[train])
        return losses(model, X[test], y[test], kind).sum()

    folds = np.arange(len(y)) % FOLDS
    public = [
        sum(total(params, folds != k, folds == k) for k in range(FOLDS))
        for params in candidates[: n_trainings // FOLDS]
    ]
    best = candidates[int(np.argmin(public))]
    yield "public random search", math.inf, loss_of(*sorted(best.items()))
    sums = np.array(
        [
            losses(type(estimator)(**params).fit(X, y), X_val, y_val, kind).sum()
            for params in candidates
        ]
    )
    for epsilon in EPSILONS:
        yield "DPGIBOSearchCV", epsilon, gibo(epsilon)
        chosen = candidates[int(permute_and_flip(sums, epsilon, rng))]
        yield "random, permute-and-flip", epsilon, loss_of(*sorted(chosen.items()))
        bayes = DPBayesSearchCV(estimator, space, n_iter=N_BAYES, epsilon=epsilon, **usual)
        yield "DPBayesSearchCV", epsilon, released(bayes)


def print_table():
    found = {}
    for row in read_rows(OUT):
        key = row["task"], row["arm"], float(row["epsilon"])
        found.setdefault(key, []).append(float(row["loss"]))
    for (task, arm, epsilon), values in sorted(found.items()):
        error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
        print(
            f"{task:11} {arm:26} {epsilon:5} {np.mean(values):.4f} +- {error:.4f} ({len(values)})"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default="../shared/data")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--tasks", nargs="*", default=list(SIZES))
    parser.add_argument("--table", action="store_true", help="print what is stored, run nothing")
    options = parser.parse_args()
    if options.table:
        return print_table()
    warnings.simplefilter("ignore")
    settings = {"steps": STEPS, "folds": FOLDS, "sizes": str(SIZES), "n_bayes": N_BAYES}
    for split in range(options.first, options.first + options.splits):
        for task in options.tasks:
            for arm, epsilon, loss in run(task, options.folder, split):
                row = {"task": task, "split": split, "arm": arm, "epsilon": epsilon, "loss": loss}
                append_row(OUT, row, settings=settings)
                print(*row.values(), flush=True)
    return None


if __name__ == "__main__":
    main()
