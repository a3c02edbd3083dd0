"""Regret of the choice for add-remove neighbours as a share of that for replace-one neighbours.

1000 protected records. Trees of 70 sizes on the digits of scikit-learn, trained on the other 797
rows, and two simulated tables of candidates whose losses are binomial. The regret is the exact
expectation over the noise of permute-and-flip alone, without the share of a score; error bars are
over splits or tables.

    python docs/benchmarks/run.py add_remove --splits 10 --tables 400
"""

import argparse

import numpy as np
from provenance import RESULTS, write_rows
from sklearn.datasets import load_digits
from sklearn.model_selection import ParameterGrid, ShuffleSplit
from sklearn.tree import DecisionTreeClassifier

from skdpbo.mechanisms import PermuteAndFlip

N_PROTECTED, EPSILONS = 1000, (0.1, 0.3, 1.0)
GRID = ParameterGrid(
    {
        "max_depth": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 20],
        "min_samples_leaf": [1, 5, 20, 50, 100],
    }
)


def regret(losses, epsilon):
    """Expected loss of the chosen candidate above the smallest, in a mean of 0/1 losses."""
    return PermuteAndFlip(epsilon, 1).probabilities(losses) @ (losses - losses.min()) / N_PROTECTED


def tables(n_splits, n_tables):
    """Yield a problem and the total losses of its candidates."""
    X, y = load_digits(return_X_y=True)
    split = ShuffleSplit(n_splits, test_size=N_PROTECTED, random_state=0)
    for public, protected in split.split(X):
        models = (
            DecisionTreeClassifier(random_state=0, **p).fit(X[public], y[public]) for p in GRID
        )
        yield "digits", np.array([np.sum(m.predict(X[protected]) != y[protected]) for m in models])
    rng = np.random.RandomState(0)
    for _ in range(n_tables):
        yield "uniform", rng.binomial(N_PROTECTED, rng.uniform(0.2, 0.5, 70))
        yield "crowded", rng.binomial(N_PROTECTED, 0.2 + 0.3 * rng.uniform(size=70) ** 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--tables", type=int, default=400)
    options = parser.parse_args()
    found = {}
    for problem, losses in tables(options.splits, options.tables):
        for epsilon in EPSILONS:
            pair = regret(losses, epsilon), regret(losses, 2 * epsilon)
            found.setdefault((problem, epsilon), []).append(pair)
    rows = []
    for (problem, epsilon), pairs in found.items():
        replaced, added = np.transpose(pairs)
        ratio = added.mean() / replaced.mean()
        error = np.std(added - ratio * replaced, ddof=1) / np.sqrt(len(pairs)) / replaced.mean()
        rows.append(
            {
                "problem": problem,
                "epsilon": epsilon,
                "replace_one": round(replaced.mean(), 6),
                "add_remove": round(added.mean(), 6),
                "ratio": round(ratio, 4),
                "error": round(error, 4),
            }
        )
        print(*rows[-1].values(), flush=True)
    write_rows(RESULTS / "add_remove.csv", rows, settings=vars(options))


if __name__ == "__main__":
    main()
