"""Root mean square error of private linear regression with its defaults.

    python docs/benchmarks/run.py private_regression --folder DATA --width 3 --repeats 20

Bounds are `--width` standard deviations of the whole table about its means, as a curator's would.
Appends to ``results/private_regression.csv``.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from provenance import RESULTS, append_row
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpbo.linear_model import DPRidge

ROWS = {"synthetic": 10000, "ailerons": 10000, "parkinsons": 4500}


def load(name, folder):
    if name == "ailerons":
        table = pd.read_csv(folder / "ailerons.csv.gz").to_numpy(float)
        return table[:, :-1], table[:, -1] * 1e4
    if name == "parkinsons":
        table = pd.read_csv(folder / "uci_parkinsons.csv.gz", header=None).to_numpy(float)
        return table[:, :-1], table[:, -1]
    rng = np.random.default_rng(5)
    X = rng.normal(size=(13000, 10))
    return X, X @ rng.normal(size=10) + rng.normal(size=len(X))


def box(values, width):
    """Return bounds of the columns."""
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    reach = width * np.where(deviation > 0, deviation, 1.0)
    return mean - reach, mean + reach


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--width", type=float, default=3.0)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.tables:
        X, y = load(name, options.folder)
        bounds = {"X_bounds": box(X, options.width), "y_bounds": box(y, options.width)}
        models = {"not private": make_pipeline(StandardScaler(), Ridge(1e-3))}
        models |= {epsilon: DPRidge(epsilon=epsilon, **bounds) for epsilon in options.epsilons}
        for label, model in models.items():
            errors = []
            for seed in range(options.repeats):
                order = np.random.default_rng(seed).permutation(len(X))
                train, test = order[: ROWS[name]], order[ROWS[name] :]
                rest = model.fit(X[train], y[train]).predict(X[test]) - y[test]
                errors.append(np.sqrt(np.mean(rest**2)))
            spread = np.std(errors) / np.sqrt(len(errors))
            row = {"table": name, "width": options.width, "epsilon": label}
            row |= {"rmse": round(np.mean(errors), 3), "standard_error": round(spread, 3)}
            print(*row.values(), flush=True)
            settings = {"delta": 1e-5, "repeats": options.repeats}
            append_row(RESULTS / "private_regression.csv", row, settings=settings)


if __name__ == "__main__":
    main()
