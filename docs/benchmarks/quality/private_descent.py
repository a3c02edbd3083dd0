"""A descent, private selection and no search, all models private, on three real tables.

    python docs/benchmarks/run.py private_descent --folder DATA

The weights in [0, 2] of the first ten columns, before random Fourier features and `DPRidge`, are
searched by `DPGIBOSearchCV(protect="all")` with its defaults and by
`DPRandomizedSearchCV(protect="all")` among 30 random points; a fifth of the rows scores. The model
without a search, all weights 1, trains on all rows with the whole budget. Columns and target are
divided by three standard deviations and by one, of the whole table, as a curator's public bounds
would be. Root mean square error, over the standard deviation of the target, on 2000 rows that took
no part. Noise is secret.
"""

import argparse
import math
import warnings
from pathlib import Path

import numpy as np
from papers.gibo_private_training import DELTA, NAMES, WIDTH, D, FourierFeatures
from provenance import RESULTS, write_rows
from quality.real_regression import TABLES
from scipy.stats import uniform
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline

from skdpbo import DPGIBOSearchCV, DPRandomizedSearchCV
from skdpbo.linear_model import DPRidge

CSV = RESULTS / "private_descent.csv"
N_TEST, BOUND = 2000, 4.0
WIDE = ["loans", "ailerons", "parkinsons"]


def model(epsilon=1.0):
    ridge = DPRidge(X_bounds=(-1, 1), y_bounds=(-3, 3), epsilon=epsilon, delta=DELTA)
    return make_pipeline(FourierFeatures(), ridge)


def searched(kind, space, epsilon, **how):
    """Return a search whose every record is protected."""
    space = {f"fourierfeatures__{name}": space for name in NAMES}
    budget = {"epsilon": epsilon, "delta": DELTA}
    return kind(model(), space, protect="all", loss_bound=BOUND, **budget, **how)


ARMS = {
    "not private, all weights 1": lambda _: make_pipeline(FourierFeatures(), RidgeCV()),
    "all weights 1": model,
    "private selection": lambda e: searched(
        DPRandomizedSearchCV, uniform(0, WIDTH), e, n_iter=30, random_state=None
    ),
    "descent": lambda e: searched(DPGIBOSearchCV, (0.0, WIDTH), e),
}


def split(table, folder, seed):
    """Return train and test rows of ten columns, in public units."""
    X, y = TABLES[table](folder)
    X = np.clip((X[:, :D] - X[:, :D].mean(axis=0)) / (3 * X[:, :D].std(axis=0)), -1, 1)
    test, train = np.split(np.random.default_rng(seed).permutation(len(y)), [N_TEST])
    y = (y - y.mean()) / y.std()
    return (X[train], y[train]), (X[test], y[test])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=WIDE)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--csv", default=CSV)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for table in options.tables:
        for seed in range(options.seeds):
            train, (X_new, y_new) = split(table, options.folder, seed)
            for epsilon in options.epsilons:
                for arm, made in ARMS.items():
                    fitted = made(epsilon).fit(*train)
                    rmse = math.sqrt(np.mean(np.square(fitted.predict(X_new) - y_new)))
                    row = {"table": table, "rows": len(train[1]), "epsilon": epsilon}
                    rows.append(row | {"seed": seed, "arm": arm, "rmse": f"{rmse:.4f}"})
                    print(*rows[-1].values(), flush=True)
            write_rows(options.csv, rows, settings={"seeds": options.seeds, "loss_bound": BOUND})


if __name__ == "__main__":
    main()
