"""Searches of 11 to 40 continuous parameters on real tables, at equal trainings.

    python docs/benchmarks/run.py many_parameters DATA --splits 10

Rows are added to ``results/many_parameters.csv`` as they are made; ``--table`` prints the means.
The loss is that of rows that no search has seen, of the model that was released.
"""

import argparse
import functools
import itertools
import math
import time
import warnings

import numpy as np
from provenance import RESULTS, append_row, read_rows
from quality.equal_privacy_choice import NO_PRIVACY, permute_and_flip
from quality.many_parameters_tasks import TASKS, Remembered, losses, parts, space_of

from skdpbo import DPBayesSearchCV, DPGIBOSearchCV

OUT, ENDS = RESULTS / "many_parameters.csv", RESULTS / "many_parameters_ends.csv"
EPSILONS = (0.1, 0.3, 1.0, 3.0, math.inf)
STEPS, FOLDS, BATCH = 7, 2, 8
GIBO, RANDOM, BAYES = "DPGIBOSearchCV", "random, permute-and-flip", "DPBayesSearchCV"
START, ALONE = "public start of DPGIBOSearchCV", "public descent alone"


class Split:
    """One task with one split of its rows."""

    def __init__(self, task, folder, split):
        self.task, self.split = task, split
        self.public, self.protected, self.new = parts(task, folder, split)
        self.kind, _, (scoring, self.bound), _ = TASKS[task]
        self.space = space_of(task)
        self.usual = {"scoring": scoring, "loss_bound": self.bound, "score_fraction": 0.0}
        self.usual |= {"cv": FOLDS, "refit": False}
        Remembered.kept.clear()

    def sums(self, params, train, test):
        """Sum of losses on rows, in units of the bound."""
        model = self.kind(**params).fit(*train)
        return float(losses(model, *test, self.task).sum())

    def on_new(self, params):
        """Loss on rows that no search has seen."""
        return self.bound * self.sums(params, self.public, self.new) / len(self.new[1])

    def compared(self, start, end):
        """Change of the loss from start to end in per cent, its standard error; protected rows'."""
        models = [self.kind(**params).fit(*self.public) for params in (start, end)]
        found = {}
        for name, rows in (("new", self.new), ("protected", self.protected)):
            one, two = (losses(model, *rows, self.task) for model in models)
            found[name] = 100 * mean_and_error(two - one)[0] / one.mean()
            found[f"{name}_error"] = 100 * mean_and_error(two - one)[1] / one.mean()
        return found

    def fitted(self, search):
        (X, y), (X_val, y_val) = self.public, self.protected
        return search.fit(X, y, X_val=X_val, y_val=y_val)

    def gibo(self, epsilon):
        how = {"n_iter": STEPS, "epsilon": min(epsilon, NO_PRIVACY)} | self.usual
        return self.fitted(DPGIBOSearchCV(self.kind(), self.space, **how))

    def public_best(self, search):
        """Return the best of the public search that precedes the descent."""
        scores, params = search.cv_results_["mean_test_score"], search.cv_results_["params"]
        n_public = len(params) - len(search.descent_.trajectory) - 1
        return dict(params[int(np.argmax(scores[:n_public]))])

    def bayes(self, epsilon, n_trainings):
        how = {"n_iter": n_trainings // (FOLDS + 1), "batch_size": BATCH} | self.usual
        search = DPBayesSearchCV(self.kind(), self.space, epsilon=min(epsilon, NO_PRIVACY), **how)
        return self.fitted(search)

    def drawn(self, n):
        """Random points of the space, as scikit-learn's random search draws them."""
        rng, points = np.random.RandomState(self.split), []
        for _ in range(n):
            point = {}
            for name, (low, high, *log) in self.space.items():
                if isinstance(low, int):
                    point[name] = int(rng.randint(low, high + 1))
                elif log:
                    point[name] = float(np.exp(rng.uniform(*np.log([low, high]))))
                else:
                    point[name] = float(rng.uniform(low, high))
            points.append(point)
        return points

    def public_random(self, candidates):
        """Best of random candidates by cross-validation on the public rows."""
        X, y = self.public
        folds = np.arange(len(y)) % FOLDS
        cuts = [(folds != k, folds == k) for k in range(FOLDS)]
        return min(
            candidates,
            key=lambda params: sum(self.sums(params, (X[a], y[a]), (X[b], y[b])) for a, b in cuts),
        )


def timed(split, arm, epsilon, found):
    """Return a row: loss on new rows, trainings, seconds."""
    before, began = Remembered.trainings, time.process_time()
    params = found()
    spent = Remembered.trainings - before, round(time.process_time() - began, 2)
    return arm, epsilon, split.on_new(params), *spent


def public_parts(split, epsilons):
    """Yield rows of what `DPGIBOSearchCV` is without protected rows: a descent, and its start."""
    searches = []

    def descent():
        searches.append(split.gibo(1e-6))
        return searches[0].best_params_

    yield timed(split, ALONE, math.inf, descent)
    yield timed(split, START, math.inf, lambda: split.public_best(searches[0]))


def gradient_searches(split, epsilons):
    """Yield rows of `DPGIBOSearchCV`; how its ends compare with its public start goes to `ENDS`."""
    searches = []

    def gibo(epsilon):
        searches.append(split.gibo(epsilon))
        return searches[-1].best_params_

    for epsilon in epsilons:
        yield timed(split, GIBO, epsilon, functools.partial(gibo, epsilon))
        found = split.compared(split.public_best(searches[-1]), searches[-1].best_params_)
        row = {"task": split.task, "split": split.split, "epsilon": epsilon} | found
        append_row(ENDS, row, settings={"steps": STEPS, "folds": FOLDS})


def rivals(split, epsilons):
    """Yield rows of the others, with no fewer trainings."""
    yield timed(split, "defaults", math.inf, dict)
    n_trainings = 32 * FOLDS + (STEPS + 1) * (len(split.space) + 1) * (1 + FOLDS) + 90
    candidates = split.drawn(n_trainings)
    some = candidates[: n_trainings // FOLDS]
    yield timed(split, "public random search", math.inf, lambda: split.public_random(some))
    rng, sums = np.random.RandomState(split.split), []
    for epsilon in epsilons:

        def choose(epsilon=epsilon):
            if not sums:
                sums.extend(split.sums(c, split.public, split.protected) for c in candidates)
            budget = min(epsilon, NO_PRIVACY)
            return candidates[int(permute_and_flip(np.array(sums), budget, rng))]

        yield timed(split, RANDOM, epsilon, choose)
    for epsilon in epsilons:
        found = functools.partial(split.bayes, epsilon, n_trainings)
        yield timed(split, BAYES, epsilon, lambda found=found: found().best_params_)


ARMS = {"public": public_parts, "gradients": gradient_searches, "rivals": rivals}


def mean_and_error(values):
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return np.mean(values), error


def print_table(path):
    """Print means, and for DPGIBOSearchCV what it has over the others on the same splits."""
    found = {}
    for row in read_rows(path):
        key = row["task"], row["arm"], float(row["epsilon"])
        found.setdefault(key, {})[int(row["split"])] = float(row["loss"])
    for (task, arm, epsilon), values in sorted(found.items()):
        mean, error = mean_and_error(list(values.values()))
        line = f"{task:10} {arm:30} {epsilon:5} {mean:.4f} +- {error:.4f} ({len(values)})"
        mine = found.get((task, GIBO, epsilon if arm in (RANDOM, BAYES, GIBO) else 1.0), {})
        rival = found.get((task, START, math.inf), {}) if arm == GIBO else values
        both = [100 * (mine[s] / rival[s] - 1) for s in rival if s in mine]
        if both:
            mean, error = mean_and_error(both)
            name = "over its start" if arm == GIBO else "DPGIBOSearchCV"
            print(f"{line}  {name} {mean:+.2f} +- {error:.2f} %, worst {max(both):+.2f}")
        else:
            print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", help="where the tables are")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS)
    parser.add_argument("--out", default=OUT, help="CSV file that rows are added to")
    parser.add_argument("--table", action="store_true", help="print what is stored, run nothing")
    options = parser.parse_args()
    if options.table:
        return print_table(options.out)
    if options.folder is None:
        parser.error("folder is missing")
    warnings.simplefilter("ignore")
    sizes = {task: found[3] for task, found in TASKS.items()}
    settings = {"steps": STEPS, "folds": FOLDS, "bayes_batch": BATCH, "sizes": sizes}
    for split in range(options.first, options.first + options.splits):
        for task in options.tasks:
            of = Split(task, options.folder, split)
            for arm, epsilon, loss, trainings, seconds in itertools.chain(
                *(ARMS[name](of, options.epsilons) for name in options.arms)
            ):
                row = {"task": task, "split": split, "arm": arm, "epsilon": epsilon, "loss": loss}
                row |= {"trainings": trainings, "cpu_seconds": seconds}
                append_row(options.out, row, settings=settings)
                print(*row.values(), flush=True)
    return None


if __name__ == "__main__":
    main()
