"""Private Gaussian process for the height of children from age and weight.

The experiment of Honkela & Melkas (2021), Section 5.4, on the Dutch growth table of the R package
mice (their own data are not published): girls of 2 to 20 years, of whom half train and half test.

    python docs/benchmarks/run.py growth PATH/TO/mice_fdgs.csv.gz [--runs 30] [--weight-unit 10]
        [--prior-mean none] [--csv growth.csv]

Reported: root mean square error in dm and mean log predictive density on the test half, mean and
standard error over the runs, and the share of test heights in their 95 % interval. With
``--prior-mean private`` the prior mean is the average height by COINPRESS, as in the paper.
"generic" is the published algorithm with its Eq. (8), "certified" the same with the smallest proved
bound on the norm of k_Z, "whitened" the default of `DPSparseGPRegressor`; all three know the noise.
Needs pandas.
"""

import argparse
import csv
import platform
import sys
import time

import numpy as np
import pandas as pd
import scipy
import sklearn
from sklearn.gaussian_process.kernels import RBF

import skdpbo
from skdpbo.gaussian_process import DPSparseGPRegressor

PAPER = {"release": "kernel", "posterior": "linearised"}
METHODS = {
    "constant": None,
    "generic": {**PAPER, "sensitivity": "generic"},
    "certified": {**PAPER, "sensitivity": "certified"},
    "whitened": {},
    "whitened, noise released": {"noise_variance": "released"},
    "no privacy": {"epsilon": 1e9},
}
WITHOUT_EPSILON = ("constant", "no privacy")
DELTA = 1e-5
SIGMA = 0.6  # dm
HEIGHTS = (8.0, 18.0)  # public range in dm: a centre of 13, R_y = 5


def load(path, weight_unit):
    """Age in years and weight in `weight_unit` kg, shape (n, 2); height in dm, shape (n,)."""
    table = pd.read_csv(path)[["sex", "age", "wgt", "hgt"]].dropna()
    table = table[(table["sex"] == "girl") & table["age"].between(2, 20)]
    X = np.column_stack([table["age"], table["wgt"] / weight_unit])
    return X, table["hgt"].to_numpy() / 10


def model(parameters, epsilon, options):
    weights = np.array([10.0, 40.0, 70.0]) / options.weight_unit
    settings = {
        "noise_variance": SIGMA**2,
        "inducing_points": [[age, weight] for age in (2.5, 10.0, 17.5) for weight in weights],
        "epsilon": epsilon,
        "delta": DELTA,
        "y_bounds": HEIGHTS,
        "prior_mean": options.prior_mean,
    }
    return DPSparseGPRegressor(2.2**2 * RBF([3.0, 3.5]), **{**settings, **parameters})


def one_run(X, y, halves, parameters, epsilon, options):
    """Error, log density, coverage and CPU seconds of a fit."""
    train, test = halves
    if parameters is None:
        return np.sqrt(np.mean((y[test] - y[train].mean()) ** 2)), np.nan, np.nan, 0.0
    start = time.process_time()
    gp = model(parameters, epsilon, options).fit(X[train], y[train])
    seconds = time.process_time() - start
    mean, std = gp.predict(X[test], return_std=True)
    error = y[test] - mean
    inside = np.abs(error) < 1.96 * np.sqrt(std**2 + gp.noise_variance_)
    density = gp.log_predictive_density(X[test], y[test]).mean()
    return np.sqrt(np.mean(error**2)), density, inside.mean(), seconds


def measure(X, y, options):
    """One row for each method and epsilon."""
    for name, parameters in METHODS.items():
        for epsilon in [np.inf] if name in WITHOUT_EPSILON else options.epsilon:
            rng = np.random.default_rng(options.seed)  # the same halves for every method
            halves = [np.split(rng.permutation(len(y)), [len(y) // 2]) for _ in range(options.runs)]
            runs = [one_run(X, y, half, parameters, epsilon, options) for half in halves]
            rmse, density, inside, seconds = np.transpose(runs)
            yield {
                "method": name,
                "epsilon": epsilon,
                "rmse_dm": round(rmse.mean(), 4),
                "standard_error": round(rmse.std(ddof=1) / np.sqrt(options.runs), 4),
                "log_density": round(density.mean(), 4),
                "log_density_se": round(density.std(ddof=1) / np.sqrt(options.runs), 4),
                "share_inside_95": round(inside.mean(), 3),
                "median_cpu_s": round(np.median(seconds), 4),
            }


def show(rows):
    for row in rows:
        print(
            f"{row['method']:25} epsilon {row['epsilon']:4g}   RMSE {row['rmse_dm']:.3f} +- "
            f"{row['standard_error']:.3f} dm   log density {row['log_density']:.3f} +- "
            f"{row['log_density_se']:.3f}   inside {row['share_inside_95']:.2f}   "
            f"fit {1000 * row['median_cpu_s']:.0f} ms"
        )
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1, 3, 10, 30])
    parser.add_argument("--weight-unit", type=float, default=10.0, help="kg")
    parser.add_argument("--prior-mean", choices=["none", "private"], default="none")
    parser.add_argument("--seed", type=int, default=0, help="of the halves, not of the noise")
    parser.add_argument("--csv", help="write the table, with versions and settings")
    options = parser.parse_args()
    X, y = load(options.path, options.weight_unit)
    settings = {
        "skdpbo": skdpbo.__version__,
        "Python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "rows": len(y),
        "delta": DELTA,
        "sigma": SIGMA,
        "heights": HEIGHTS,
        **{key: value for key, value in vars(options).items() if key not in ("path", "csv")},
    }
    comment = "# " + ", ".join(f"{key} {value}" for key, value in settings.items())
    print(comment)
    rows = list(show(measure(X, y, options)))
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            file.write(comment + "\n")
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
