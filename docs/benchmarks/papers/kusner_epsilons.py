"""Regret against epsilon: Algorithm 1 of Kusner et al. (2015) and the default of DPBayesSearchCV.

    python docs/benchmarks/run.py kusner_epsilons --landscapes 40

Smooth landscapes of `landscapes.py`: 200 candidates, T = 50, 1000 protected records, all of the
budget for the candidate. Both sides protect one replaced record: the default with (epsilon, 0),
proved; Kusner et al. with (epsilon, 1e-5), conditional on their prior. `uniform`: expectation of a
draw among the candidates. Landscapes and noise are seeded: no guarantee.
"""

import argparse
import math

import numpy as np
from provenance import RESULTS, write_rows
from quality import landscapes

from skdpbo.mechanisms import noise_source

CSV = RESULTS / "kusner_epsilons.csv"
EPSILONS = (0.1, 1.0, 10.0)
N_RECORDS = 1000


def regrets(seed, epsilon):
    """Yield (method, regret)."""
    landscapes.EPSILON = epsilon
    X, score, folds = landscapes.landscape("smooth", seed)
    found = landscapes.permute_and_flip(X, score, folds, [N_RECORDS])
    kept = {"prior": "default", "uniform": "uniform"}
    yield from ((kept[method], regret) for _, method, regret in found if method in kept)
    yield "Algorithm 1", landscapes.kusner_regret(X, score, noise_source(seed))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--landscapes", type=int, default=40)
    parser.add_argument("--csv", default=CSV)
    options = parser.parse_args()
    rows = []
    for epsilon in EPSILONS:
        for seed in range(options.landscapes):
            for method, regret in regrets(seed, epsilon):
                key = {"epsilon": epsilon, "seed": seed, "method": method}
                rows.append(key | {"regret": float(regret)})
        settings = {"landscapes": options.landscapes, "records": N_RECORDS, "kind": "smooth"}
        write_rows(options.csv, rows, settings=settings)
        for method in ("default", "Algorithm 1", "uniform"):
            key = epsilon, method
            mine = [row["regret"] for row in rows if (row["epsilon"], row["method"]) == key]
            error = np.std(mine, ddof=1) / math.sqrt(len(mine))
            print(f"{epsilon:5g} {method:12} {np.mean(mine):.5f} +- {error:.5f}", flush=True)


if __name__ == "__main__":
    main()
