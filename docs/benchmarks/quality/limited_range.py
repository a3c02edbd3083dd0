"""Kernels of limited range in the whitened release, beside RBF kernels; one column.

    python docs/benchmarks/run.py limited_range --seeds 8

Wendland's kernel (1 - r)^4 (4 r + 1), r the distance over its range, is 0 beyond it: a record has
kernel values at few inducing points. Its range is sqrt(20) length-scales, where its curvature at 0
is that of the RBF kernel, and half of that. Problems of `default_gp`. With `--points`: 30 inducing
points on a grid of the public box beside 30 at quantiles of the records, which no private choice
can beat by much, for records in a fifth of the box. Appends to ``results/limited_range.csv``, or
to ``results/private_points.csv``.
"""

import argparse
import warnings

import numpy as np
from provenance import RESULTS, append_row
from quality.default_gp import NOISE, draw, fitted, problem
from sklearn.gaussian_process.kernels import RBF, Kernel

from skdpbo.gaussian_process import DPSparseGPRegressor

RANGE = 20**0.5  # in length-scales


class Wendland(Kernel):
    """Positive definite in up to three columns, 0 from `reach` on."""

    def __init__(self, reach=1.0):
        self.reach = reach

    def __call__(self, X, Y=None, eval_gradient=False):
        X = np.atleast_2d(X)
        Y = X if Y is None else np.atleast_2d(Y)
        r = np.sqrt(((X[:, None] - Y[None]) ** 2).sum(axis=2)) / self.reach
        return np.maximum(1 - r, 0) ** 4 * (4 * r + 1)

    def diag(self, X):
        return np.ones(len(X))

    def is_stationary(self):
        return True


def points_of_records(epsilon, seeds):
    """Return errors with public points, 30 and 90, and with points at quantiles of the records."""
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 77])
        X = np.clip(rng.normal(1, 0.3, (2300, 1)), -3, 3)
        f = draw("rbf .3", X, rng)
        y = f[:2000] + NOISE * rng.normal(size=2000)
        quantiles = np.quantile(X[:2000], (np.arange(30) + 0.5) / 30)[:, None]
        for Z in (30, 90, quantiles):
            bounds = {"X_bounds": (-3, 3), "y_bounds": (-3, 3), "inducing_points": Z}
            gp = DPSparseGPRegressor(1.5 * RBF(0.3), epsilon=epsilon, random_state=seed, **bounds)
            error = gp.fit(X[:2000], y).predict(X[2000:]) - f[2000:]
            found.append(np.sqrt(np.mean(error**2)))
    return np.reshape(found, (seeds, 3))


def compare_points(epsilons, seeds):
    for epsilon in epsilons:
        found = points_of_records(epsilon, seeds)
        row = {"epsilon": epsilon}
        for name, column in zip(("grid_30", "grid_90", "quantiles_30"), found.T, strict=True):
            row[name] = round(float(column.mean()), 4)
            row[f"{name}_se"] = round(float(column.std(ddof=1) / seeds**0.5), 4)
        append_row(RESULTS / "private_points.csv", row, settings={"seeds": seeds})
        print(row, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--kinds", nargs="+", default=["rbf .3", "rbf 1", "steps"])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--points", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.points:
        compare_points(options.epsilons, options.seeds)
        return
    for kind in options.kinds:
        scale = float(kind[4:]) if kind.startswith("rbf") else 0.5
        for epsilon in options.epsilons:
            found = []
            for seed in range(options.seeds):
                X, y, points, f = problem(kind, 1, seed)
                kernels = [RBF(scale), Wendland(RANGE * scale), Wendland(RANGE * scale / 2)]
                gps = [fitted(1.5 * k, epsilon, X, y, seed) for k in kernels]
                found.append([np.sqrt(np.mean((gp.predict(points) - f) ** 2)) for gp in gps])
            found = np.array(found)
            row = {"kind": kind, "epsilon": epsilon}
            for name, column in zip(("rbf", "wendland", "wendland_half"), found.T, strict=True):
                change = column - found[:, 0]
                row[name] = round(float(column.mean()), 4)
                row[f"{name}_se"] = round(float(change.std(ddof=1) / len(found) ** 0.5), 4)
            row["rbf_se"] = round(float(found[:, 0].std(ddof=1) / len(found) ** 0.5), 4)
            append_row(RESULTS / "limited_range.csv", row, settings={"seeds": options.seeds})
            print(row, flush=True)


if __name__ == "__main__":
    main()
