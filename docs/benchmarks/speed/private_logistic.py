"""Time and memory of a private logistic regression beside scikit-learn's, in one process.

    python docs/benchmarks/run.py private_logistic [--rows 100000 1000000] [--columns 50]

Processor seconds, one BLAS thread; memory is the growth of the process's peak during the fit.
Appends to ``results/private_logistic.csv``.
"""

import argparse
import resource
import time

import numpy as np
from provenance import RESULTS, append_row
from sklearn.linear_model import LogisticRegression

from skdpbo.linear_model import DPLogisticRegression


def records(n, d):
    """Return a generalised linear model of `d` columns."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    return X, X @ w / 3 + rng.logistic(size=n) > 0


def measured(model, X, y):
    """Return processor seconds, megabytes of a new peak, and accuracy."""
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return seconds, grown, model.score(X, y)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--columns", type=int, default=50)
    options = parser.parse_args()
    for n in options.rows:
        X, y = records(n, options.columns)
        models = {
            "skdpbo": DPLogisticRegression(X_bounds=(-5, 5), classes=[False, True]),
            "scikit-learn": LogisticRegression(),
        }
        for name, model in models.items():
            seconds, grown, accuracy = measured(model, X, y)
            row = {"model": name, "rows": n, "seconds": f"{seconds:.2f}", "megabytes": round(grown)}
            row["accuracy"] = f"{accuracy:.4f}"
            print(row, flush=True)
            append_row(RESULTS / "private_logistic.csv", row, settings={"columns": options.columns})


if __name__ == "__main__":
    main()
