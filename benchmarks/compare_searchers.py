"""Which search releases the best candidate at equal epsilon and equal number of evaluations?

    python benchmarks/compare_searchers.py --tasks smooth plateau digits --csv runs.csv
    python benchmarks/compare_searchers.py --tasks adult --data adult.data.gz --csv adult.csv
    python benchmarks/compare_searchers.py --read runs.csv adult.csv --plot regret.png

Every search sees the same finite set of candidates and may evaluate T = 50 of them (a grid: at most
50). Its regret is the best candidate's score less that of the released one, both on all protected
records and without noise. All scores are computed beforehand; the searchers, which are the
project's own classes, train an estimator that looks them up.

Tasks. `smooth` and `plateau`: the landscapes of `landscapes.py`, on a 22 x 22 lattice.
`digits`: accuracy of a support-vector classifier, C and gamma
(20 x 20), trained and cross-validated on 300 rows of scikit-learn's digits. `adult`: accuracy of
gradient boosting, four parameters (5 x 5 x 4 x 4), on 1000 rows of UCI Adult. For both, runs take
turns among `--splits` draws of the public rows, and take protected rows from the others at random.
The losses of all candidates take about a minute a split; `--cache` keeps them.

Searchers: a uniform draw; 50 random candidates or a grid, then permute-and-flip; Kusner et al.'s
Algorithm 1; noise on every score of a Gaussian-process search, without and with the public scores
as a second task; the default (search on public scores, permute-and-flip with a public prior). For
comparison, the publicly best candidate of the default's, which uses no protected record, and
scikit-optimize on the protected scores themselves, which protects nothing.

Runs are seeded, so that they can be repeated: they carry no privacy guarantee.
"""

import argparse
import csv
import importlib.metadata
import importlib.util
import math
import platform
import warnings
from itertools import product

import numpy as np
from lookup_tasks import LookUp, adult_tasks, digits_tasks, landscape_task
from sklearn.model_selection import PredefinedSplit
from threadpoolctl import threadpool_limits

import skdpbo
from skdpbo import DPBayesSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.model_selection import Kusner2015

T = 50
PACKAGES = ("skdpbo", "scikit-learn", "numpy", "scipy")
STYLES = {  # colour, marker, line
    "uniform": ("0.6", "", ":"),
    "random + permute-and-flip": ("tab:olive", "s", "-"),
    "grid + permute-and-flip": ("tab:green", "^", "-"),
    "Kusner Alg. 1": ("tab:red", "x", "-"),
    "Gaussian trajectory": ("tab:purple", "v", "-"),
    "two-task": ("tab:orange", "d", "-"),
    "default": ("tab:blue", "o", "-"),
    "public scores alone": ("0.3", "", "--"),
    "scikit-optimize, not private": ("black", "", "-."),
}


def grid_of(task):
    """The middles of equal parts of every axis, as many as T allows."""
    levels = [math.floor(T ** (1 / len(task.sizes)) + 1e-9)] * len(task.sizes)
    for axis in range(len(levels)):
        if math.prod(levels) // levels[axis] * (levels[axis] + 1) <= T:
            levels[axis] += 1
    return {
        name: ((np.arange(k) + 0.5) * size / k).astype(int).tolist()
        for name, size, k in zip(task.space, task.sizes, levels, strict=True)
    }


def searchers(task, epsilon, seed):
    """The private searchers at one budget, all of it spent on the choice of the candidate."""
    common = {
        "epsilon": epsilon,
        "scoring": "neg_mean_absolute_error",
        "loss_bound": 1.0,
        "score_fraction": 0.0,
        "refit": False,
        "cv": PredefinedSplit(np.arange(len(task.public))),
        "random_state": 1000 * seed + round(10 * epsilon),
    }

    def bayes(**more):
        return DPBayesSearchCV(LookUp(), task.space, n_iter=T, **common, **more)

    return {
        "random + permute-and-flip": DPRandomizedSearchCV(
            LookUp(), task.space, n_iter=T, guide=False, **common
        ),
        "grid + permute-and-flip": DPGridSearchCV(LookUp(), grid_of(task), guide=False, **common),
        "Kusner Alg. 1": bayes(mechanism=Kusner2015(), guide=False),
        "Gaussian trajectory": bayes(mechanism="gaussian", guide=False),
        "two-task": bayes(mechanism="gaussian"),
        "default": bayes(),
    }


def run_searches(task, n_records, epsilon, seed, only):
    """Regret of each method's release in one run."""
    positions = np.random.RandomState(seed).randint(len(task.protected), size=n_records)
    if n_records <= len(task.protected):
        positions = np.random.RandomState(seed).permutation(len(task.protected))[:n_records]
    protected = task.protected[positions]
    LookUp.task, LookUp.table = task, np.vstack([task.public, protected])
    X, X_val = np.split(np.arange(len(LookUp.table))[:, None], [len(task.public)])
    scores = 1.0 - protected.mean(axis=0)
    regrets = {"uniform": scores.max() - scores.mean()}
    for name, search in searchers(task, epsilon, seed).items():
        if only and name not in only:
            continue
        search.fit(X, np.zeros(len(X)), X_val=X_val, y_val=np.zeros(n_records))
        regrets[name] = scores.max() - scores[task.index(search.best_params_)]
        if name == "default":
            best = int(np.argmax(search.cv_results_["mean_test_score"]))
            publicly_best = task.index(search.cv_results_["params"][best])
            regrets["public scores alone"] = scores.max() - scores[publicly_best]
    return regrets, scores


def regret_of_scikit_optimize(task, scores, seed):
    import skopt

    result = skopt.gp_minimize(
        lambda x: 1.0 - scores[np.ravel_multi_index(x, task.sizes)],
        list(task.space.values()),
        n_calls=T,
        n_initial_points=5,
        random_state=seed,
    )
    return scores.max() - (1.0 - result.fun)


def measure(options):
    """One row per task, number of records, epsilon, run and method."""
    models = {
        name: list(build(options))
        for name, build in (("digits", digits_tasks), ("adult", adult_tasks))
        if name in options.tasks
    }
    with_skopt = importlib.util.find_spec("skopt") is not None
    if not with_skopt:
        print("scikit-optimize is missing: its row is left out")
    rows, runs = [], range(options.first, options.first + options.repeats)
    for name, m, seed in product(options.tasks, options.records, runs):
        tasks = models.get(name) or [landscape_task(name, seed)]
        task = tasks[seed % len(tasks)]
        for epsilon in options.epsilon:
            regrets, scores = run_searches(task, m, epsilon, seed, options.only)
            rows += [(name, m, epsilon, seed, *pair) for pair in regrets.items()]
        if with_skopt and seed in runs[: options.skopt_repeats]:  # whatever epsilon
            pair = "scikit-optimize, not private", regret_of_scikit_optimize(task, scores, seed)
            rows += [(name, m, epsilon, seed, *pair) for epsilon in options.epsilon]
    return rows


def mean_and_error(rows, task, m, epsilon, method):
    values = [row[-1] for row in rows if row[:3] == (task, m, epsilon) and row[4] == method]
    return np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values)), len(values)


def print_tables(rows):
    for task, m in dict.fromkeys(row[:2] for row in rows):
        epsilons = sorted({row[2] for row in rows if row[:2] == (task, m)})
        print(f"\n{task}, {m} protected records, T = {T}: mean regret +- standard error")
        print(f"{'epsilon':30}" + "".join(f"{epsilon:>18g}" for epsilon in epsilons))
        for method in dict.fromkeys(row[4] for row in rows if row[:2] == (task, m)):
            cells = [mean_and_error(rows, task, m, epsilon, method) for epsilon in epsilons]
            line = "".join(f"{f'{mean:.4f} +- {error:.4f}':>18}" for mean, error, _ in cells)
            print(f"{method:30}{line}  ({cells[0][2]} runs)")


def plot(rows, path):
    import matplotlib.pyplot as plt

    panels = list(dict.fromkeys(row[:2] for row in rows))
    n_rows = -(-len(panels) // 2)
    figure, axes = plt.subplots(
        n_rows, 2, figsize=(8, 3.2 * n_rows + 1), squeeze=False, layout="constrained"
    )
    for axis, (task, m) in zip(axes.flat, panels, strict=False):
        epsilons = sorted({row[2] for row in rows if row[:2] == (task, m)})
        methods = list(dict.fromkeys(row[4] for row in rows if row[:2] == (task, m)))
        for k, method in enumerate(methods):
            cells = [mean_and_error(rows, task, m, epsilon, method) for epsilon in epsilons]
            mean, error, _ = np.array(cells).T
            color, marker, line = STYLES[method]
            x = np.array(epsilons) * 1.03 ** (k - len(methods) / 2)  # bars side by side
            error = error if marker else None
            axis.errorbar(x, mean, error, None, line, color=color, marker=marker, label=method)
        axis.set(xscale="log", xlabel="epsilon", title=f"{task}, {m} protected records")
        axis.set_yscale("symlog", linthresh=1e-3)
        axis.set_ylim(0, 1)
        axis.set_ylabel("mean regret")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=80)


def read_rows(paths):
    rows = []
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(line for line in file if not line.startswith("#")):
                key = row["task"], int(row["records"]), float(row["epsilon"]), int(row["run"])
                rows.append((*key, row["method"], float(row["regret"])))
    return rows


def write_rows(rows, path):
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    with open(path, "w", newline="") as file:
        file.write(f"# Python {platform.python_version()}, {versions}, T = {T}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["task", "records", "epsilon", "run", "method", "regret"])
        writer.writerows((*row[:-1], f"{row[-1]:.6g}") for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=["smooth", "plateau", "digits"])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--records", type=int, nargs="+", default=[1000])
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--only", nargs="+", choices=STYLES, help="some of the private searchers")
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--skopt-repeats", type=int, default=10)
    parser.add_argument("--data", help="path of adult.data.gz")
    parser.add_argument("--splits", type=int, default=4, help="draws of the public rows")
    parser.add_argument("--cache", help="folder for the tables of losses")
    parser.add_argument("--csv", help="where to write every run")
    parser.add_argument("--plot", help="where to draw regret against epsilon")
    parser.add_argument("--read", nargs="+", help="print and draw earlier runs: their files")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        f"Python {platform.python_version()}, skdpbo {skdpbo.__version__}, numpy {np.__version__}"
    )
    rows = read_rows(options.read) if options.read else measure(options)
    print_tables(rows)
    if options.csv:
        write_rows(rows, options.csv)
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
