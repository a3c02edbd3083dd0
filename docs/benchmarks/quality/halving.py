"""Successive halving on public rows before the private choice: rows trained on, and regret.

Trees of 243 settings, 2000 public and 2000 protected rows of real tables, Brier score, 3 folds. The
regret is that on 10 000 other rows against the best of all settings, in expectation over the noise
of permute-and-flip, so the error bars are those over splits of the rows. Rivals of halving are all
settings and as many random ones as halving leaves.

    python docs/benchmarks/run.py halving DATA_FOLDER --splits 8
"""

import argparse
import warnings

import numpy as np
from provenance import RESULTS, write_rows
from quality.metric_choice import load, split_rows
from sklearn.model_selection import ParameterGrid
from sklearn.tree import DecisionTreeClassifier

from skdpbo import DPGridSearchCV
from skdpbo.mechanisms import PermuteAndFlip

TABLES = ("adult", "loans", "hospital")
EPSILONS = (0.1, 0.3, 1.0, 3.0)
LEFT = (4, 8, 16, 32)
FOLDS = 3
GRID = list(
    ParameterGrid(
        {
            "max_depth": [1, 2, 3, 4, 5, 6, 8, 12, 20],
            "min_samples_leaf": [1, 3, 10, 20, 40, 60, 100, 150, 250],
            "max_features": [0.2, 0.5, 1.0],
        }
    )
)


def halved(public, n_left):
    """Return positions of the settings that are left, and the number of rows trained on."""
    tree = DecisionTreeClassifier(random_state=0)
    space = [{name: [value] for name, value in params.items()} for params in GRID]
    how = {"scoring": "neg_brier_score", "cv": FOLDS, "refit": False, "loss_bound": 1.0}
    search = DPGridSearchCV(tree, space, halving=n_left, **how)
    search.fit(*public, X_val=public[0][:100], y_val=public[1][:100])
    left = [GRID.index(params) for params in search.cv_results_["params"]]
    in_rounds = search.halving_results_["n_resources"].sum()
    return left, in_rounds * (FOLDS - 1) + full_cost(len(left), len(public[1]))


def full_cost(n_candidates, n_rows):
    """Return the rows trained on without halving: in each fold, and all before the choice."""
    return n_candidates * n_rows * FOLDS  # (FOLDS - 1) / FOLDS of the rows in each, and once more


def brier(model, X, y):
    """Return the squared errors of the probability of 1, as integers of up to 2^16."""
    return np.rint(2.0**16 * (model.predict_proba(X)[:, 1] - y) ** 2).astype(int)


def choices(X, y, seed):
    """Yield (chooser, number of settings, rows trained on, epsilon, regret)."""
    public, protected, held_out = split_rows(X, y, seed)
    models = [DecisionTreeClassifier(random_state=0, **params).fit(*public) for params in GRID]
    totals = np.array([brier(model, *protected).sum() for model in models])
    utility = np.array([brier(model, *held_out).mean() / 2**16 for model in models])
    n, random = len(public[1]), np.random.default_rng(seed).permutation(len(GRID))
    offers = {("all", len(GRID)): (np.arange(len(GRID)), full_cost(len(GRID), n))}
    for k in LEFT:
        offers["halving", k] = halved(public, k)
        offers["random", k] = random[:k], full_cost(k, n)
    for (chooser, k), (offered, cost) in offers.items():
        for epsilon in EPSILONS:
            p = PermuteAndFlip(epsilon, 2**16).probabilities(totals[offered].tolist())
            yield chooser, k, cost, epsilon, p @ utility[offered] - utility.min()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="where the tables are")
    parser.add_argument("--splits", type=int, default=8)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for table in TABLES:
        X, y = load(table, options.folder)
        runs = {}
        for seed in range(options.splits):
            for chooser, k, cost, epsilon, regret in choices(X, y, seed):
                runs.setdefault((chooser, k, epsilon), []).append((cost, regret))
        for (chooser, k, epsilon), pairs in runs.items():
            (cost, regret), n = np.mean(pairs, axis=0), len(pairs)
            row = {"table": table, "chooser": chooser, "settings": k, "epsilon": epsilon}
            row |= {"rows_trained": round(cost), "regret": round(regret, 5)}
            error = np.std(pairs, axis=0, ddof=1)[1] / np.sqrt(n) if n > 1 else np.nan
            rows.append(row | {"error": round(error, 5), "splits": n})
            print(rows[-1], flush=True)
    write_rows(RESULTS / "halving.csv", rows, settings={"splits": options.splits})


if __name__ == "__main__":
    main()
