"""Do public rows tell where `DPGIBOSearchCV` had better spend its budget on the start?

    python docs/benchmarks/run.py many_parameters_plan DATA

For each task of ``many_parameters``: public statistics of the first step, and how the ends of
searches compare with the public start on new rows: the default, one with .79 of epsilon for the
start, more candidates and one step, one with .8 and .1 for start and end and two steps, a private
random search, and what that is with .8 of epsilon and the trainings that a public search leaves.
Rows are added to ``results/many_parameters_plan.csv``; ``--table`` prints the means.
"""

import argparse
import warnings
from functools import partial
from unittest import mock

import numpy as np
from provenance import RESULTS, append_row, read_rows
from quality.equal_privacy_choice import permute_and_flip
from quality.many_parameters import FOLDS, STEPS, Split, mean_and_error
from quality.many_parameters_tasks import TASKS, Remembered

from skdpbo import DPGIBOSearchCV
from skdpbo.model_selection import _gibo
from skdpbo.model_selection.gibo import _trajectory_search
from skdpbo.model_selection.gibo._public_gradient import RATES, public_scales

OUT = RESULTS / "many_parameters_plan.csv"
SMOOTH = [task for task in TASKS if task != "boosting"]
SHARES = {
    "default": {"n_iter": STEPS},
    "start": {"n_iter": 1, "end_fraction": 0.99},
    "start_and_end": {"n_iter": 2, "end_fraction": 0.9},
}
# Untried candidates of the start, and its share of the choices.
GUESSES = {"default": 40, "start": 100, "start_and_end": 100}
START_SHARES = {"default": 0.8, "start": 0.8, "start_and_end": 8 / 9}
ARMS = (*SHARES, "random", "random_start")
EPSILONS, DRAWS, RIVAL_DRAWS = (1.0, 3.0), 3, 25
STATISTICS = ("gradient", "first_step", "across_folds")


def first_steps(steps, start, remembered, gradient, recipe):
    """Return `STATISTICS`: norm of the public gradient, best change of the public loss in %.

    The first change is that of the rows which the step follows, the second that of other folds.
    """
    posterior = recipe.posterior()
    points = steps.design(posterior, start, 0)
    posterior.add(points)
    rows = gradient.of(remembered.remember(points), posterior.weights(start))
    folds = gradient._folds
    (here,) = remembered.remember(start[None])

    def change(rate, followed, judged):
        point = np.clip(start - rate * np.sign(rows[followed].mean(axis=0)), 0.0, 1.0)
        (row,) = remembered.remember(point[None])
        return (row - here)[judged].sum() / here.sum()

    all_rows = np.ones(len(here), dtype=bool)
    same = min(change(rate, all_rows, all_rows) for rate in RATES)
    each = np.unique(folds)
    other = min(sum(change(rate, folds != k, folds == k) for k in each) for rate in RATES)
    return float(np.linalg.norm(rows.mean(axis=0))), 100 * same, 100 * other


def statistics(split):
    """Return the public start and its `STATISTICS`."""
    seen = []

    def watched(steps, automatic, recipe, start, remembered, gradient, noise):
        seen.append(first_steps(steps, start, remembered, gradient, recipe))
        return public_scales(steps, automatic, recipe, start, remembered, gradient, noise)

    with mock.patch.object(_trajectory_search, "public_scales", watched):
        search = DPGIBOSearchCV(split.kind(), split.space, n_iter=1, epsilon=1e-6, **split.usual)
        start = split.public_best(split.fitted(search))
    return start, dict(zip(STATISTICS, seen[0], strict=True))


def searched(split, arm, epsilon):
    """Return mean loss on new rows over draws of the noise, and trainings of one."""
    values, before = [], Remembered.trainings
    with (
        mock.patch.object(_trajectory_search, "_N_GUESSES", GUESSES[arm]),
        mock.patch.object(_gibo, "_START_SHARE", START_SHARES[arm]),
    ):
        for _ in range(DRAWS):
            search = DPGIBOSearchCV(
                split.kind(), split.space, epsilon=epsilon, **SHARES[arm] | split.usual
            )
            values.append(split.fitted(search).best_params_)
    trainings = (Remembered.trainings - before) // DRAWS
    return np.mean([split.on_new(params) for params in values]), trainings


def random_search(split):
    """Return a function from arm and epsilon to (mean loss on new rows over draws, trainings)."""
    n = 32 * FOLDS + (STEPS + 1) * (len(split.space) + 1) * (1 + FOLDS) + 90
    candidates, rng = split.drawn(n), np.random.RandomState(split.split)
    sums = np.array([split.sums(c, split.public, split.protected) for c in candidates])

    def of(arm, epsilon):
        some, share = (n, 1.0) if arm == "random" else (n - 32 * FOLDS, 0.8)
        draws = range(RIVAL_DRAWS)
        chosen = [int(permute_and_flip(sums[:some], share * epsilon, rng)) for _ in draws]
        return np.mean([split.on_new(candidates[k]) for k in chosen]), some

    return of


def print_table(path):
    """Print means over splits of the changes, their differences and the statistics' values."""
    changes, found = {}, {}
    for row in read_rows(path):
        key = row["task"], float(row["epsilon"])
        by_split = changes.setdefault(key, {}).setdefault(row["arm"], {})
        by_split[int(row["split"])] = float(row["change"])
        for name in STATISTICS:
            found.setdefault((row["task"], name), set()).add(float(row[name]))
    for (task, name), values in sorted(found.items()):
        print(f"{task:10} {name:12}", *(f"{value:.3g}" for value in sorted(values)))
    for (task, epsilon), of in sorted(changes.items()):
        for arm, values in of.items():
            line = "{:10} {} {:13} {:+.2f} +- {:.2f}".format(
                task, epsilon, arm, *mean_and_error(list(values.values()))
            )
            for other in of.keys() - {arm}:
                both = [values[k] - of[other][k] for k in values.keys() & of[other].keys()]
                line += "; over {} {:+.2f} +- {:.2f}".format(other, *mean_and_error(both))
            print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", help="where the tables are")
    parser.add_argument("--splits", type=int, default=8)
    parser.add_argument("--first", type=int, default=40)
    parser.add_argument("--tasks", nargs="*", default=SMOOTH)
    parser.add_argument("--arms", nargs="*", default=ARMS, choices=ARMS)
    parser.add_argument("--out", default=OUT, help="CSV file that rows are added to")
    parser.add_argument("--table", action="store_true", help="print what is stored, run nothing")
    options = parser.parse_args()
    if options.table:
        return print_table(options.out)
    if options.folder is None:
        parser.error("folder is missing")
    warnings.simplefilter("ignore")
    settings = {"steps": STEPS, "folds": FOLDS, "shares": SHARES, "guesses": GUESSES}
    settings |= {"start_shares": START_SHARES}
    settings |= {"draws": DRAWS, "rival_draws": RIVAL_DRAWS}
    for number in range(options.first, options.first + options.splits):
        for task in options.tasks:
            split = Split(task, options.folder, number)
            params, found = statistics(split)
            start, random = split.on_new(params), None
            if {"random", "random_start"} & set(options.arms):
                random = random_search(split)
            for epsilon in EPSILONS:
                for arm in options.arms:
                    found_by = random if arm.startswith("random") else partial(searched, split)
                    loss, n = found_by(arm, epsilon)
                    row = {"task": task, "split": number, "arm": arm, "epsilon": epsilon}
                    row |= {"change": 100 * (loss / start - 1), "trainings": n} | found
                    append_row(options.out, row, settings=settings)
                    print(*row.values(), flush=True)
    return None


if __name__ == "__main__":
    main()
