"""Regret of the released candidate on random landscapes, with and without public scores.

    python docs/benchmarks/run.py landscapes --landscapes 200 --csv landscapes.csv
    python docs/benchmarks/run.py landscapes --landscapes 40 --records 100 --searcher
    python docs/benchmarks/run.py landscapes --read landscapes.csv

A landscape is a score at 200 points of the unit square, in [.6, .9]: `smooth` is a draw of a
Gaussian process (RBF, length-scale .25), `plateau` has a flat top and a cliff. Public scores err by
a draw of the same process with standard deviation .02, made of 5 folds. T = 50 candidates are
visited; the regret is the best score of all 200 less that of the released candidate. epsilon = 1,
all of it for the candidate; delta = 1e-5 for the Gaussian mechanism.

Methods. `prior`: GP-UCB on the public scores, then permute-and-flip over the visited candidates
with the public prior (the default of DPBayesSearchCV). `fixed prior`: raw public scores, weighted
for tau = .02. `no prior`: permute-and-flip alone. `all candidates`: the same over all 200.
`two-task`: mechanism="gaussian", public and private scores as two tasks. `gaussian`: the same
without public scores. `public`: the publicly best, no protected record used. `50 random`:
permute-and-flip over the first 50 points. `uniform`: a draw from all, which is what Algorithm 1 of
Kusner et al. comes to.

Regrets of permute-and-flip are exact expectations over its coins. With --searcher, the first and
`two-task` are run through DPBayesSearchCV on its own Sobol design of 200 points, with fresh noise.
All methods see the same landscapes: judge the paired differences. A landscape takes about a second.
Without --searcher runs are seeded, so that they can be repeated: they carry no privacy guarantee.
"""

import argparse
import csv
import functools
import platform
import warnings

import numpy as np
import scipy
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import PredefinedSplit

import skdpbo
from skdpbo import DPBayesSearchCV
from skdpbo.exceptions import SeededNoiseWarning
from skdpbo.mechanisms import GaussianMechanism, PermuteAndFlip, noise_source
from skdpbo.model_selection import Kusner2015
from skdpbo.model_selection.bayes._gp_ucb import UpperConfidenceProposer
from skdpbo.model_selection.bayes._public_prior import (
    automatic_prior,
    automatic_prior_weight,
    public_offsets,
)
from skdpbo.model_selection.bayes._two_task_ucb import (
    PrivateTrajectoryProposer,
    automatic_n_private,
)
from skdpbo.model_selection.space._search_space import SearchSpace
from skdpbo.privacy import mu_from_epsilon

N_CANDIDATES, T, N_FOLDS = 200, 50, 5
PUBLIC_ERROR = 0.02
EPSILON, DELTA = 1.0, 1e-5
UNITS = 2**20  # integer units of the largest loss, 1
DESIGN = {"n_iter": T, "n_initial_points": 5, "batch_size": 1, "sqrt_beta": 2.0}
KINDS = ("smooth", "plateau")
REFERENCE = "prior"


def landscape(kind, seed, X=None):
    """Points (200, 2), scores (200,) and public fold scores (5, 200) of one landscape."""
    rng = np.random.default_rng([seed, 7])
    X = rng.uniform(size=(N_CANDIDATES, 2)) if X is None else X
    root = np.linalg.cholesky(RBF(0.25)(X) + 1e-9 * np.eye(len(X)))
    h = root @ rng.normal(size=len(X))
    z = (h.max() - h) / np.ptp(h)
    score = 0.9 - 0.3 * z if kind == "smooth" else 0.9 - 0.4 * np.maximum(z - 0.2, 0) - 0.02 * z
    errors = rng.normal(size=(N_FOLDS, len(X))) @ root.T
    return X, score, score + np.sqrt(N_FOLDS) * PUBLIC_ERROR * errors


def expected_regret(score, chosen, offsets, n_records):
    """Exact expectation over the coins of permute-and-flip among the chosen."""
    losses = [round(n_records * UNITS * (1.0 - s)) for s in score[chosen].tolist()]
    utilities = [loss + offset for loss, offset in zip(losses, offsets, strict=True)]
    return score.max() - PermuteAndFlip(EPSILON, UNITS).probabilities(utilities) @ score[chosen]


def permute_and_flip(X, score, folds, records):
    """Regrets by method and number of records, where the visited do not depend on the records."""
    proposer = UpperConfidenceProposer(X, **DESIGN)
    while proposer.ask():
        proposer.tell(folds[:, proposer.visited].mean(axis=0))
    visited, table = proposer.visited, folds[:, proposer.visited]
    public = table.mean(axis=0)
    for m in records:
        budget = {"sensitivity": 1 / m, "epsilon": EPSILON}
        units = {"units_per_score": m * UNITS}
        prior = automatic_prior(
            X[visited], public, table, kernel=proposer.kernel, bound=1.0, **budget
        )
        fixed = automatic_prior_weight(PUBLIC_ERROR, **budget)
        offsets = {
            "prior": public_offsets(prior, 1.0, **units),
            "fixed prior": public_offsets(public, fixed, **units),
            "no prior": public_offsets(public, 0, **units),
        }
        for method, added in offsets.items():
            yield m, method, expected_regret(score, visited, added, m)
        everything = list(range(len(score)))
        yield m, "all candidates", expected_regret(score, everything, [0] * len(score), m)
        yield m, "50 random", expected_regret(score, everything[:T], [0] * T, m)
        yield m, "public", score.max() - score[visited[int(public.argmax())]]
        yield m, "uniform", score.max() - score.mean()


def gaussian_regret(X, score, folds, n_records, source, guided):
    """Regret of the Gaussian trajectory, with or without the public scores."""
    mu = mu_from_epsilon(EPSILON, DELTA)
    q = automatic_n_private(n_records=n_records, mu=mu, bound=1.0, n_iter=T) if guided else T
    mechanism = GaussianMechanism(
        epsilon=EPSILON, delta=DELTA, sensitivity=np.sqrt(q) / n_records, n_draws=q
    )
    proposer = PrivateTrajectoryProposer(X, n_private=q, bound=1.0, guided=guided, **DESIGN)
    while True:
        new = proposer.ask_public()
        if new and guided:
            table = folds[:, proposer.visited]
            proposer.tell_public(table.mean(axis=0), table)
        scored = proposer.ask_private()
        if scored:
            noisy = mechanism.release(score[scored], source=source)
            proposer.tell_private(scored, noisy, mechanism.sigma**2)
        if not new and not scored:
            return score.max() - score[proposer.best()]


def kusner_regret(X, score, source):
    """Regret of Algorithm 1 of Kusner et al., all of the budget for the candidate.

    Its noise does not depend on the number of records.
    """
    best, _ = Kusner2015().search(
        X,
        lambda k: score[k],
        n_iter=T,
        epsilon=EPSILON,
        delta=DELTA,
        score_fraction=0.0,
        source=source,
    )
    return score.max() - score[best]


class ReadOff(RegressorMixin, BaseEstimator):
    """Predicts one less the score of its point in the row's fold; -1 stands for protected rows."""

    table = None  # {(x1, x2): scores of the folds, and the score itself last}

    def __init__(self, x1=0.0, x2=0.0):
        self.x1 = x1
        self.x2 = x2

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return 1.0 - self.table[self.x1, self.x2][X[:, 0].astype(int)]


@functools.cache
def sobol_design():
    """The candidates that DPBayesSearchCV takes, and their coordinates."""
    space = SearchSpace({"x1": (0.0, 1.0), "x2": (0.0, 1.0)})
    candidates = space.candidates(N_CANDIDATES)
    return candidates, space.encode(candidates)


def searcher_regrets(kind, seed, records):
    """Regrets of DPBayesSearchCV itself."""
    candidates, X = sobol_design()
    _, score, folds = landscape(kind, seed, X)
    rows = np.vstack([folds, score]).T
    ReadOff.table = {(p["x1"], p["x2"]): row for p, row in zip(candidates, rows, strict=True)}
    folds_of = np.arange(N_FOLDS, dtype=float)[:, None]
    for m in records:
        for mechanism, method in (("permute_and_flip", "prior"), ("gaussian", "two-task")):
            search = DPBayesSearchCV(
                ReadOff(),
                {"x1": (0.0, 1.0), "x2": (0.0, 1.0)},
                n_iter=T,
                n_candidates=N_CANDIDATES,
                epsilon=EPSILON,
                delta=DELTA,
                mechanism=mechanism,
                scoring="neg_mean_absolute_error",
                loss_bound=1.0,
                score_fraction=0.0,
                cv=PredefinedSplit(np.arange(N_FOLDS)),
                refit=False,
            )
            protected = np.full((m, 1), -1.0)
            search.fit(folds_of, np.zeros(N_FOLDS), X_val=protected, y_val=np.zeros(m))
            best = search.best_params_
            yield m, method, score.max() - ReadOff.table[best["x1"], best["x2"]][-1]
            if mechanism == "permute_and_flip":
                publicly = search.cv_results_["params"][
                    int(search.cv_results_["mean_test_score"].argmax())
                ]
                yield m, "public", score.max() - ReadOff.table[publicly["x1"], publicly["x2"]][-1]


def measure(options):
    rows = []
    for kind in options.kinds:
        for seed in range(options.first, options.first + options.landscapes):
            if options.searcher:
                found = searcher_regrets(kind, seed, options.records)
                rows += [(kind, seed, *row) for row in found]
                continue
            X, score, folds = landscape(kind, seed)
            rows += [
                (kind, seed, *row) for row in permute_and_flip(X, score, folds, options.records)
            ]
            source = noise_source(seed)
            for m in options.records:
                for method in options.gaussian:
                    guided = method == "two-task"
                    regret = gaussian_regret(X, score, folds, m, source, guided)
                    rows.append((kind, seed, m, method, regret))
    return rows


def table(rows):
    """Mean regret +- standard error, and paired differences from the reference, in 1e-4."""
    regrets = {}
    for kind, seed, m, method, regret in rows:
        regrets.setdefault((kind, int(m)), {}).setdefault(method, {})[int(seed)] = float(regret)
    methods = list(dict.fromkeys(row[3] for row in rows))
    for (kind, m), by_method in regrets.items():
        print(f"\n{kind}, m = {m}: regret x 1e4, and paired difference from `{REFERENCE}`")
        for method in [name for name in methods if name in by_method]:
            seeds = sorted(set(by_method[method]) & set(by_method[REFERENCE]))
            values = 1e4 * np.array([by_method[method][seed] for seed in seeds])
            base = 1e4 * np.array([by_method[REFERENCE][seed] for seed in seeds])
            root = np.sqrt(len(seeds))
            print(
                f"  {method:16s}{values.mean():8.1f} +- {values.std() / root:5.1f}"
                f"{(values - base).mean():+10.1f} +- {(values - base).std() / root:5.1f}"
                f"   ({len(seeds)} landscapes)"
            )


def settings(options):
    versions = {"skdpbo": skdpbo, "scikit-learn": sklearn, "numpy": np, "scipy": scipy}
    named = ", ".join(f"{name} {module.__version__}" for name, module in versions.items())
    kept = {key: value for key, value in vars(options).items() if key not in ("csv", "read")}
    return f"{named}, Python {platform.python_version()}; {kept}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--landscapes", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first landscape")
    parser.add_argument("--records", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--gaussian", nargs="*", choices=["two-task", "gaussian"], default=[])
    parser.add_argument("--searcher", action="store_true", help="run DPBayesSearchCV itself")
    parser.add_argument("--csv", help="append the runs to this file")
    parser.add_argument("--read", nargs="+", help="print the table of these files instead")
    options = parser.parse_args()
    if options.read:
        rows = []
        for path in options.read:
            with open(path, newline="") as file:
                rows += [row for row in csv.reader(file) if not row[0].startswith("#")]
        return table(rows)
    print(settings(options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        rows = measure(options)
    if options.csv:
        with open(options.csv, "a", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([f"# {settings(options)}"])
            writer.writerows(rows)
    return table(rows)


if __name__ == "__main__":
    main()
