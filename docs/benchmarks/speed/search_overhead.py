"""Time of a search per evaluation, apart from the model fits.

    python docs/benchmarks/run.py search_overhead [--t 50 200] [--repeats 3] [--csv overhead.csv]

The problem: the penalty of a logistic regression, C in [1e-3, 1e2] on the log scale and l1_ratio in
[0, 1], scored by 3-fold cross-validated log loss on 150 rows and the first 10 (standardised)
columns of scikit-learn's breast-cancer data. Nothing is downloaded.

Two questions, in one run; all methods take turns, so that a busy machine slows all of them:

- *The searcher alone*: time from a score to the next suggestion, set-up included; the objective is
  not timed. Ours is what DPBayesSearchCV uses (500 candidates, hyper-parameters fitted on its
  schedule). The scikit-learn loops choose among the same candidates.
- *The whole search object*: time of `fit` less the time inside the estimator's `fit` and
  `predict_proba`. GridSearchCV (over as many candidates) shows what scikit-learn's own machinery
  takes; DPBayesSearchCV also fits and scores every candidate once more for its private choice.

Columns, in milliseconds: `mean` over evaluations 1 to T, everything included; `at T` over the last
ten of them; `max` the slowest. Median over repeats, and in brackets the smallest and largest.
A peer that cannot be imported is listed as missing. One BLAS and OpenMP thread; processor time
(`--clock wall` for the other). At T = 200 scikit-optimize takes minutes: one repeat only.
"""

import argparse
import csv
import importlib.metadata
import importlib.util
import platform
import time
import warnings
from functools import cache

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import scale
from speed.ask_and_tell import (
    N_CANDIDATES,
    N_INITIAL,
    SPACE,
    EagerScikitLearnLoop,
    OptunaGPSampler,
    ScikitLearnLoop,
    ScikitOptimize,
    Skdpbo,
)
from threadpoolctl import threadpool_limits

from skdpbo import DPBayesSearchCV
from skdpbo.model_selection.space._search_space import SearchSpace

PACKAGES = ("skdpbo", "scikit-learn", "numpy", "scipy", "scikit-optimize", "optuna", "torch")
LAST = 10
X, y = load_breast_cancer(return_X_y=True)
X = scale(X)[:, :10]
PUBLIC, PROTECTED = slice(0, 150), slice(150, None)
clock = time.process_time


class WatchedRegression(LogisticRegression):
    """Logistic regression that notes when it starts and stops working."""

    stops: list = []  # noqa: RUF012  (shared on purpose: clones report here too)

    def fit(self, X, y):
        start = clock()
        super().fit(X, y)
        self.stops.append((start, clock()))
        return self

    def predict_proba(self, X):
        start = clock()
        probabilities = super().predict_proba(X)
        self.stops.append((start, clock()))
        return probabilities


def make_model(kind=LogisticRegression, C=1.0, l1_ratio=0.5):
    return kind(C=C, l1_ratio=l1_ratio, solver="saga", tol=1e-3, max_iter=200, random_state=0)


@cache
def objective(C, l1_ratio):
    """Cross-validated log loss on the public rows, to be minimised."""
    rows, labels = X[PUBLIC], y[PUBLIC]
    losses = []
    for train, test in StratifiedKFold(3).split(rows, labels):
        model = make_model(C=C, l1_ratio=l1_ratio).fit(rows[train], labels[train])
        losses.append(log_loss(labels[test], model.predict_proba(rows[test])))
    return float(np.mean(losses))


# -- the searcher alone -------------------------------------------------------------------------


def time_searcher(make, T, seed):
    """Seconds of each evaluation, set-up added to the first, and the smallest loss so far."""
    start = clock()
    searcher = make(T, seed)
    seconds, losses = [clock() - start], []
    for _ in range(T):
        start = clock()
        settings = searcher.ask()
        seconds[-1] += clock() - start
        losses.append(objective(**settings))
        start = clock()
        searcher.tell(losses[-1])
        seconds[-1] += clock() - start
        seconds.append(0.0)
    return np.array(seconds[:-1]), np.minimum.accumulate(losses)


# -- the whole search object --------------------------------------------------------------------


def dp_bayes(T, seed):
    return DPBayesSearchCV(
        make_model(WatchedRegression), SPACE, n_iter=T, cv=3, scoring="neg_log_loss", refit=False
    )


def grid_search(T, seed):
    grid = [
        {name: [value] for name, value in settings.items()}
        for settings in SearchSpace(SPACE).candidates(max(N_CANDIDATES, T))[:T]
    ]
    model = make_model(WatchedRegression)
    return GridSearchCV(model, grid, cv=3, scoring="neg_log_loss", refit=False)


def skopt_bayes(T, seed):
    import skopt

    space = {"C": skopt.space.Real(1e-3, 1e2, "log-uniform"), "l1_ratio": skopt.space.Real(0, 1)}
    return skopt.BayesSearchCV(
        make_model(WatchedRegression),
        space,
        n_iter=T,
        cv=3,
        scoring="neg_log_loss",
        refit=False,
        optimizer_kwargs={"n_initial_points": N_INITIAL},
        random_state=seed,
    )


def time_search(make, T, seed):
    """Seconds of each evaluation outside the estimator, what follows the last added to it.

    Each evaluation is three fits and three predictions; what comes after all of them (the private
    choice, the final results) is spread evenly over the evaluations.
    """
    search = make(T, seed)
    protected = {"X_val": X[PROTECTED], "y_val": y[PROTECTED]}
    private = isinstance(search, DPBayesSearchCV)
    WatchedRegression.stops.clear()
    start = clock()
    search.fit(X[PUBLIC], y[PUBLIC], **(protected if private else {}))
    end = clock()
    stops = np.array([(start, start), *WatchedRegression.stops, (end, end)])
    gaps = stops[1:, 0] - stops[:-1, 1]  # gaps[i] precedes the i-th call
    public, rest = gaps[: 6 * T], gaps[6 * T :]
    scores = search.cv_results_["mean_test_score"]
    return public.reshape(T, 6).sum(axis=1) + rest.sum() / T, np.minimum.accumulate(-scores)


# name: (modules it needs, most repeats beyond the smallest T, timer, function)
METHODS = {
    "skdpbo": ((), 9, time_searcher, Skdpbo),
    "scikit-learn GP loop, our schedule": ((), 9, time_searcher, ScikitLearnLoop),
    "scikit-learn GP loop, every step": ((), 9, time_searcher, EagerScikitLearnLoop),
    "optuna GPSampler": (("optuna", "torch"), 9, time_searcher, OptunaGPSampler),
    "scikit-optimize Optimizer": (("skopt",), 1, time_searcher, ScikitOptimize),
    "GridSearchCV, whole": ((), 9, time_search, grid_search),
    "DPBayesSearchCV, whole": ((), 9, time_search, dp_bayes),
    "skopt.BayesSearchCV, whole": (("skopt",), 0, time_search, skopt_bayes),
}


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def measure(options):
    """One row per method, T and repeat; a missing peer has a row without figures."""
    rows, chosen = [], {}
    for name, (needs, *method) in METHODS.items():
        if options.only and not any(part in name for part in options.only):
            continue
        if all(importlib.util.find_spec(module) for module in needs):
            chosen[name] = method
            method[1](method[2], N_INITIAL + 2, 0)  # imports, first use of compiled parts
        else:
            rows += [{"method": name, "T": T, "status": "missing"} for T in options.t]
    for repeat in range(options.repeats):
        for T in options.t:
            for name, (most, timer, make) in chosen.items():
                if repeat < most or min(options.t) == T:
                    rows.append({"method": name, "T": T, "repeat": repeat, "status": "measured"})
                    rows[-1].update(summary(*timer(make, T, repeat)))
                    print(".", end="", flush=True)
    print()
    return rows


def summary(seconds, best):
    return {
        "mean_ms": round(1e3 * seconds.mean(), 4),
        "at_T_ms": round(1e3 * seconds[-LAST:].mean(), 4),
        "max_ms": round(1e3 * seconds.max(), 4),
        "best_loss": round(float(best[-1]), 6),
    }


def print_table(rows, T):
    print(f"T = {T}, milliseconds per evaluation")
    print(f"{'method':36}{'mean':>28}{'at T':>28}{'max':>9}{'loss':>8}{'times ours':>12}")
    ours = None
    for name in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == name and row["T"] == T]
        runs = [row for row in own if row["status"] == "measured"]
        if not runs:
            print(f"{name:36}{own[0]['status'] if own else 'not run':>28}")
            continue
        cells = ""
        for column in ("mean_ms", "at_T_ms"):
            values = [row[column] for row in runs]
            spread = f"{np.median(values):.2f} ({min(values):.2f} - {max(values):.2f})"
            cells += f"{spread:>28}"
        slowest = max(row["max_ms"] for row in runs)
        mean, loss = (np.median([row[c] for row in runs]) for c in ("mean_ms", "best_loss"))
        ours = mean if ours is None else ours
        print(f"{name:36}{cells}{slowest:9.1f}{loss:8.4f}{mean / ours:12.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--t", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="parts of the names of the methods to run")
    parser.add_argument("--clock", choices=["process", "wall"], default="process")
    parser.add_argument("--csv", help="where to write every run")
    options = parser.parse_args()
    globals()["clock"] = {"process": time.process_time, "wall": time.perf_counter}[options.clock]
    warnings.simplefilter("ignore")
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    print(f"Python {platform.python_version()}, {versions}")
    print(f"1 thread, {options.clock} time, {options.repeats} repeats")
    rows = measure(options)
    for T in options.t:
        print_table(rows, T)
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            fields = [*dict.fromkeys(key for row in rows for key in row), "versions"]
            writer = csv.DictWriter(file, fields)
            writer.writeheader()
            writer.writerows({**row, "versions": versions} for row in rows)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
