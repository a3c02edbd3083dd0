"""Error of `DPSparseGPRegressor` with public rows, over that of the public model alone.

Girls' height from age and weight (`growth`), `ailerons` (40 columns) and `parkinsons` (20). "gate"
is the regressor with `X_public`, "no gate" its base plus the whole private process, "private
alone" the regressor without public rows but with bounds from them. Root mean square error on
held-out rows; means, standard errors and the worst of the splits.

    python docs/benchmarks/run.py public_rows --folder DATA --splits 10
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from papers import growth
from provenance import RESULTS, write_rows
from quality.equal_privacy_tasks import FILES
from quality.private_regression import load

from skdpbo.gaussian_process import DPSparseGPRegressor

TABLES, N_PUBLIC, EPSILONS = ("growth", "ailerons", "parkinsons"), (50, 200), (0.03, 0.1, 0.3, 1, 3)
MOST_PROTECTED, FIRST_SPLIT = 6000, 100


def parts(X, y, n_public, split):
    """Return public, protected and held-out rows."""
    order = np.random.RandomState(split).permutation(len(y))
    n = min(MOST_PROTECTED, (len(y) - n_public) * 2 // 3)
    ends = n_public, n_public + n
    return zip(np.split(X[order], ends), np.split(y[order], ends), strict=True)


def box(values):
    """Return the ranges of the columns."""
    low, high = values.min(axis=0), values.max(axis=0)
    return low, np.where(high > low, high, low + 1)


def errors(public, protected, held_out, epsilon):
    """Return the root mean square errors of four predictions."""
    given = dict(zip(("X_public", "y_public"), public, strict=True))
    gated = DPSparseGPRegressor(epsilon=epsilon).fit(*protected, **given)
    bounds = {"X_bounds": box(public[0]), "y_bounds": box(public[1])}
    alone = DPSparseGPRegressor(epsilon=epsilon, **bounds).fit(*protected)
    X, y = held_out
    base = gated.base_.predict(X)
    rest = (gated.predict(X) - base) / gated.signal_probability_
    predicted = {"public": base, "gate": gated.predict(X), "no gate": base + rest}
    predicted["private alone"] = alone.predict(X)
    return {name: np.sqrt(np.mean((p - y) ** 2)) for name, p in predicted.items()}


def summary(found):
    """Return means of ratios to the public model's error, their standard errors, the worst."""
    row = {"public": round(np.mean([e["public"] for e in found]), 4)}
    for name in ("gate", "no gate", "private alone"):
        ratios = np.array([e[name] / e["public"] for e in found])
        error = ratios.std(ddof=1) / np.sqrt(len(ratios))
        row |= {name: round(ratios.mean(), 4), f"{name} error": round(error, 4)}
        row |= {f"{name} worst": round(ratios.max(), 4)}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--splits", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in options.tables:
        if name == "growth":
            X, y = growth.load(options.folder / FILES["growth"], 10.0)
        else:
            X, y = load(name, options.folder)
        for n_public in N_PUBLIC:
            for epsilon in EPSILONS:
                splits = range(FIRST_SPLIT, FIRST_SPLIT + options.splits)
                found = [errors(*parts(X, y, n_public, split), epsilon) for split in splits]
                rows.append({"table": name, "n_public": n_public, "epsilon": epsilon})
                rows[-1] |= summary(found)
                print(*rows[-1].values(), flush=True)
    write_rows(RESULTS / "public_rows.csv", rows, settings={"splits": options.splits})


if __name__ == "__main__":
    main()
