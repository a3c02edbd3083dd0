"""Default Gaussian process on functions of every kind: coverage, and error beside the best kernel.

    python docs/benchmarks/run.py default_gp --columns 1 2 3 --seeds 6 --hindsight

With `--hindsight` the best kernel is that of the default family with the least mean error over the
seeds, fitted alone with the whole budget. `--useless` adds uniform columns without effect, and
`--without-joint-effects` leaves out the release that chooses among two to ten columns.
`--csv FILE` keeps every figure. Noise is seeded.
"""

import argparse
import csv
import functools
import sys
import warnings

import numpy as np

from skdpbo.gaussian_process import DPSparseGPRegressor
from skdpbo.gaussian_process._joint_effects import JointEffects

N_RECORDS, NOISE, N_POINTS = 2000, 0.2, 300
KINDS = ("rbf .1", "rbf .3", "rbf 1", "rbf 3", "rbf 10", "matern", "steps", "sines", "linear")


def draw(kind, X, rng):
    """Return values of a random function at the rows of X, of variance about 1."""
    d = X.shape[1]
    if kind.startswith("rbf") or kind == "matern":  # random Fourier features
        frequencies = rng.normal(size=(d, 2000))
        if kind == "matern":  # multivariate Cauchy
            frequencies /= np.abs(rng.normal(size=2000))
        else:
            frequencies /= float(kind[4:])
        unit = np.sqrt(d)  # a sixth of the range in each column, times the root of their number
        waves = np.cos(X @ frequencies / unit + rng.uniform(0, 2 * np.pi, 2000))
        return waves @ rng.normal(size=2000) * np.sqrt(2 / 2000)
    direction = rng.normal(size=d)
    projection = X @ (direction / np.linalg.norm(direction))
    if kind == "steps":
        return np.sign(projection - rng.uniform(-1, 1))
    if kind == "sines":
        return np.sqrt(2) * np.sin(np.pi * projection + rng.uniform(0, 2 * np.pi))
    return projection / np.sqrt(3)


@functools.lru_cache(maxsize=100)
def problem(kind, d, seed, useless=0):
    """Return records and points of the function that is drawn."""
    rng = np.random.default_rng([seed, d, KINDS.index(kind)])
    X = rng.uniform(-3, 3, (N_RECORDS + N_POINTS, d))
    f = draw(kind, X, rng)
    y = f[:N_RECORDS] + NOISE * rng.normal(size=N_RECORDS)
    noise = np.random.default_rng([seed, 99])
    more = [noise.uniform(-3, 3, (n, useless)) for n in (N_RECORDS, N_POINTS)]
    rows, points = np.hstack([X[:N_RECORDS], more[0]]), np.hstack([X[N_RECORDS:], more[1]])
    return rows, y, points, f[N_RECORDS:]


def fitted(kernel, epsilon, X, y, seed):
    bounds = {"X_bounds": (-3, 3), "y_bounds": (-3, 3)}
    return DPSparseGPRegressor(kernel, epsilon=epsilon, random_state=seed, **bounds).fit(X, y)


def figures(kind, d, epsilon, seed, hindsight, useless):
    """Return coverage, error, and the error of each kernel of the family alone, or NaN."""
    X, y, points, f = problem(kind, d, seed, useless)
    gp = fitted(None, epsilon, X, y, seed)
    mean, std = gp.predict(points, return_std=True)
    covered = np.mean(np.abs(mean - f) < 1.96 * std)
    alone = [np.full_like(f, np.nan)]
    if hindsight:
        alone = [fitted(kernel, epsilon, X, y, seed).predict(points) - f for kernel in gp.kernels_]
    return np.array([covered, *(np.sqrt(np.mean(e**2)) for e in [mean - f, *alone])])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0, 10.0, 100.0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--useless", type=int, default=0)
    parser.add_argument("--hindsight", action="store_true")
    parser.add_argument("--without-joint-effects", action="store_true")
    parser.add_argument("--csv", type=argparse.FileType("w"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.without_joint_effects:
        JointEffects.can_show_effects = staticmethod(lambda mu, **public: False)
    table = csv.writer(options.csv or sys.stdout)
    table.writerow(["columns", "epsilon", "kind", "seeds", "coverage", "rmse", "best", "ratio"])
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for d in options.columns:
        for epsilon in options.epsilons:
            rows = []
            for kind in options.kinds:
                extra = options.hindsight, options.useless
                mean = np.mean([figures(kind, d, epsilon, s, *extra) for s in seeds], axis=0)
                covered, error, best = mean[0], mean[1], mean[2:].min()
                rows.append([covered, error, best, error / best])
                table.writerow([d, epsilon, kind, len(seeds), *np.round(rows[-1], 4)])
            rows = np.array(rows)
            table.writerow([d, epsilon, "mean", len(seeds), *np.round(rows.mean(axis=0), 4)])
            print(
                d, epsilon, "coverage", *np.round([rows[:, 0].mean(), rows[:, 0].min()], 3),
                "ratio", *np.round([rows[:, 3].mean(), rows[:, 3].max()], 3),
                file=sys.stderr, flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
