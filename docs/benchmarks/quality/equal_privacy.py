"""Utility on real data at equal privacy, beside other libraries and textbook mechanisms.

    python docs/benchmarks/run.py equal_privacy --folder DATA [--data adult hospital ...] [--quick]
    python docs/benchmarks/run.py equal_privacy --read     # tables and figure only

Choice of parameters: adult, hospital, loans (look-ups) and ailerons (40 features, of which 10 and
the length-scales of a kernel). The protected records are those that judge the candidates. Private
regression: ailerons and growth; all training records are protected. Every method gets the same
epsilon, and delta = 1e-5 where it needs one. Utility is measured on rows that took no part.

DATA holds adult.data.gz and dataset_diabetes.zip (UCI Adult, Diabetes 130-US hospitals),
lendingclub_2007_2011.csv.gz (LendingClub), ailerons.csv.gz (OpenML) and mice_fdgs.csv.gz (table
fdgs of the R package mice). Needs pandas, and OpenDP for its rows. Tables of losses are cached; a
run that is cut short leaves the splits that are done. Splits and searches are seeded, so that these
carry no guarantee; the noise of the Gaussian processes and of OpenDP is fresh.
"""

import argparse
import math
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from provenance import RESULTS, read_rows, write_rows
from quality.equal_privacy_choice import AILERONS, MODELS, STEPS, T, ailerons_run, dp, lookup_run
from quality.equal_privacy_gp import AILERONS as AILERONS_GP
from quality.equal_privacy_gp import N_PUBLIC, regression_run
from quality.equal_privacy_plot import IMAGE, OURS, PUBLIC, draw, is_fixed
from quality.equal_privacy_tasks import CACHE, FILES, N_PROTECTED, PROBLEMS, lookup_task
from quality.equal_privacy_tasks import N_PUBLIC as N_PUBLIC_LOOKUP

EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
PANELS = {
    "adult": ["adult"],
    "hospital": ["hospital"],
    "loans": ["loans"],
    "ailerons": ["ailerons", "ailerons GP"],
    "growth": ["growth GP"],
}
METRICS = {name: problem.utility for name, problem in PROBLEMS.items()}
SETTINGS = {
    **{name: {"public": N_PUBLIC_LOOKUP, "protected": N_PROTECTED, "T": T} for name in PROBLEMS},
    "ailerons": AILERONS | {"models": MODELS, "steps": STEPS},
    "ailerons GP": AILERONS_GP,
    "growth GP": {"n_public": N_PUBLIC},
}
KEYS = ("panel", "metric", "split", "run", "epsilon")


def file_of(panel, folder):
    return Path(folder) / f"equal_privacy_{panel.lower().replace(' ', '_')}.csv"


def runs_of_split(panel, split, options):
    """Rows of all runs on one split of the rows."""
    if panel in PROBLEMS:
        task = lookup_task(panel, options.folder, split, options.cache)
        for run in range(options.draws):
            seed = options.draws * split + run
            for row in lookup_run(task, options.epsilon, N_PROTECTED, seed):
                yield {"run": run} | row
        return
    if panel == "ailerons":
        rows = ailerons_run(options.folder, split, options.epsilon)
    else:
        rows = regression_run(panel, options.folder, split, options.epsilon)
    yield from ({"run": 0} | row for row in rows)


def measure(panel, options):
    """Write the file of a panel, after each split."""
    splits = options.lookup_splits if panel in PROBLEMS else options.splits
    draws = {"draws": options.draws} if panel in PROBLEMS else {}
    start, rows = time.process_time(), []
    for split in range(splits):
        head = {"panel": panel, "metric": METRICS.get(panel, "RMSE"), "split": split}
        for row in runs_of_split(panel, split, options):
            rows.append(head | {key: rounded(value) for key, value in row.items()})
        settings = {"splits": split + 1} | draws | SETTINGS[panel]
        write_rows(file_of(panel, options.results), rows, settings=settings, peers=("opendp",))
        print(f"{panel}: split {split}, {time.process_time() - start:.0f} s of CPU", flush=True)


def rounded(value):
    return value if isinstance(value, int) else float(f"{value:.5g}")


def read(panel, folder):
    """Metric and {(method, epsilon): means over the runs of each split}."""
    rows = read_rows(file_of(panel, folder))
    groups = {}
    for row in rows:
        for method in (key for key in row if key not in KEYS):
            cell = groups.setdefault((method, float(row["epsilon"])), {})
            cell.setdefault(int(row["split"]), []).append(float(row[method]))
    means = {key: np.array([np.mean(v) for v in cell.values()]) for key, cell in groups.items()}
    return rows[0]["metric"], means


def mean_and_error(values):
    return values.mean(), values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def print_table(panel, metric, values):
    """A Markdown table, and the paired difference between our default and the best other."""
    epsilons = sorted({epsilon for _, epsilon in values})
    methods = list(dict.fromkeys(method for method, _ in values))
    digits = 3 if metric == "RMSE" else 4
    n = len(next(iter(values.values())))
    print(f"\n{panel}: {metric}, mean ± standard error over {n} splits\n")
    print("| method | " + " | ".join(f"{epsilon:g}" for epsilon in epsilons) + " |")
    print("|---" * (len(epsilons) + 1) + "|")
    for method in methods:
        cells = [mean_and_error(values[method, epsilon]) for epsilon in epsilons]
        texts = [f"{mean:.{digits}f} ± {error:.{digits}f}" for mean, error in cells]
        texts = texts[:1] + [""] * (len(texts) - 1) if is_fixed(method) else texts
        print(f"| {method} | " + " | ".join(texts) + " |")
    for ours in (method for method in methods if method in OURS[:4]):
        print_differences(ours, values, epsilons, methods, metric, digits)


def print_differences(ours, values, epsilons, methods, metric, digits):
    sign = -1.0 if metric == "RMSE" else 1.0
    others = [m for m in methods if m not in (*OURS, *PUBLIC) and not is_fixed(m)]
    others = [m for m in others if "other promise" not in m]
    others = [m for m in others if ("residuals" in m) == ("residuals" in ours)]
    for name, rivals in (("best other", others), ("public rows alone", ["public rows alone"])):
        texts = []
        for epsilon in epsilons:
            best = max(rivals, key=lambda m, e=epsilon: sign * values[m, e].mean())
            gain = sign * (values[ours, epsilon] - values[best, epsilon])
            mean, error = mean_and_error(gain)
            label = f" ({best})" if name == "best other" else ""
            texts.append(f"{mean:+.{digits}f} ± {error:.{digits}f}{label}")
        print(f"| gain of {ours} on {name} | " + " | ".join(texts) + " |")


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", default=".", help="where the data are")
    parser.add_argument("--data", nargs="+", choices=PANELS, default=list(PANELS))
    parser.add_argument("--only", choices=["choice", "regression"], help="one of the two questions")
    parser.add_argument("--epsilon", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--splits", type=int, default=20, help="splits of the regressions' rows")
    parser.add_argument("--lookup-splits", type=int, default=10, help="splits of the other tasks")
    parser.add_argument("--draws", type=int, default=2, help="draws of protected rows in a split")
    parser.add_argument("--cache", default=CACHE, help="folder for the tables of losses")
    parser.add_argument("--results", default=RESULTS, help="folder of the CSV files")
    parser.add_argument("--image", default=IMAGE, help="the figure")
    parser.add_argument("--quick", action="store_true", help="two splits, three epsilons")
    parser.add_argument("--read", action="store_true", help="tables and figure of an earlier run")
    options = parser.parse_args(arguments)
    if options.quick:
        options.epsilon, options.splits, options.lookup_splits = [0.1, 1.0, 10.0], 2, 2
        options.draws = 1
        if options.results == RESULTS:  # the published figures stay
            options.results = tempfile.mkdtemp(prefix="equal_privacy_")
            options.image = Path(options.results) / IMAGE.name
    return options


def main(arguments=None):
    options = options_of(arguments)
    warnings.simplefilter("ignore")  # seeded noise
    if dp is None:
        print("OpenDP is not installed: its rows are left out")
    panels = [panel for name in options.data for panel in PANELS[name]]
    if options.only:
        panels = [panel for panel in panels if ("GP" in panel) == (options.only == "regression")]
    if not options.read:
        missing = [name for name in options.data if not Path(options.folder, FILES[name]).exists()]
        if missing:
            sys.exit(f"not in {options.folder}: {', '.join(FILES[name] for name in missing)}")
        for panel in panels:
            measure(panel, options)
    found = {
        panel: read(panel, options.results)
        for panel in panels
        if file_of(panel, options.results).exists()
    }
    for panel, (metric, values) in found.items():
        print_table(panel, metric, values)
    if found and (options.quick or len(found) == sum(map(len, PANELS.values()))):
        draw(found, options.image)


if __name__ == "__main__":
    main()
