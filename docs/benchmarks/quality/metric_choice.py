"""Choosing by ROC AUC, F1 and balanced accuracy on real tables, against per-record losses.

Trees of 70 sizes are trained on 2000 public rows and chosen on 2000 protected ones by
permute-and-flip. The regret is that in the metric itself, on the protected rows and on 10 000
others. It is the exact expectation over the noise, so the error bars are those over splits of the
rows. The level of a ratio comes from 3-fold cross-validation of the public rows. Of the hospital's
table the first stay of each patient is taken, so that a record is a person. The flights of ailerons
are positive where the ailerons are to move by -.0015 or less, a threshold set without a look at
any model. Of scikit-learn's digits, 8 against the others, with a third of the rows each.

The costs of balanced accuracy use class frequencies. Besides those of all public rows, those of 50
or 200 public labels are tried, and a noisy histogram of the protected rows that takes a tenth of
epsilon.

    python docs/benchmarks/run.py metric_choice DATA_FOLDER --splits 10
"""

import argparse
from pathlib import Path

import numpy as np
from provenance import RESULTS, write_rows
from quality.equal_privacy_tasks import FILES, coded
from quality.real_data import LOADERS, load_ailerons
from sklearn.datasets import load_digits
from sklearn.metrics import get_scorer
from sklearn.model_selection import (
    ParameterGrid,
    StratifiedKFold,
    cross_val_predict,
    cross_validate,
)
from sklearn.tree import DecisionTreeClassifier

from skdpbo.mechanisms import PermuteAndFlip
from skdpbo.model_selection.scoring._resolve import resolve_scorer
from skdpbo.model_selection.scoring.metrics._confusion import confusion_cells, cost_matrix
from skdpbo.model_selection.scoring.metrics._sklearn_metrics import PublicTargets

N_PUBLIC, N_PROTECTED, N_HELD_OUT = 2000, 2000, 10_000
EPSILONS = (0.1, 0.3, 1.0, 3.0)
METRICS = ("roc_auc", "f1", "balanced_accuracy", "matthews_corrcoef", "precision")
RIVALS = ("neg_log_loss", "neg_brier_score", "accuracy")
GRID = ParameterGrid(
    {
        "max_depth": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 20],
        "min_samples_leaf": [1, 5, 20, 50, 100],
    }
)
# Name of a problem -> (table, share of positives or None for all rows).
PROBLEMS = {
    "adult": ("adult", None),
    "adult_rare": ("adult", 0.05),
    "loans": ("loans", None),
    "hospital": ("hospital", None),
    "ailerons": ("ailerons", None),
    "digits": ("digits", None),
}
AILERONS_THRESHOLD = -0.00145
FEW_LABELS = (50, 200)
HISTOGRAM_SHARE, N_HISTOGRAMS = 0.1, 40


def load(name, folder):
    """Return coded features and 0/1 targets."""
    table, share = PROBLEMS[name]
    if table == "digits":
        X, y = load_digits(return_X_y=True)
        return X, (y == 8).astype(int)
    if table == "ailerons":
        X, y = load_ailerons(Path(folder) / FILES[table])
        return X, (y < AILERONS_THRESHOLD).astype(int)
    X, y = LOADERS[table](Path(folder) / FILES[table])
    X, y = coded(X), np.asarray(y == ">50K" if table == "adult" else y, dtype=int)
    if share is None:
        return X, y
    positives, negatives = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    n_kept = round(share / (1 - share) * len(negatives))
    kept = np.random.default_rng(0).permutation(positives)[:n_kept]
    rows = np.sort(np.concatenate([kept, negatives]))
    return X[rows], y[rows]


def split_rows(X, y, seed):
    """Yield (X, y) of public, protected and held-out rows."""
    order = np.random.default_rng(seed).permutation(len(y))
    third = len(y) // 3
    sizes = [min(N_PUBLIC, third), min(N_PROTECTED, third), N_HELD_OUT]
    ends = np.minimum(np.cumsum(sizes), len(y))
    for part in np.split(order[: ends[-1]], ends[:-1]):
        yield X[part], y[part]


def tables(X, y, seed):
    """Exact sums for each scorer, and each metric's values on protected and held-out rows."""
    public, protected, held_out = split_rows(X, y, seed)
    models = [DecisionTreeClassifier(random_state=0, **params).fit(*public) for params in GRID]
    sums, values, n = {}, {}, len(protected[1])
    cross, counts = public_results(models, *public)
    for name in (*METRICS, *RIVALS):
        scorer = resolve_scorer(name, models[0], n_classes=2, public=PublicTargets(public[1]))
        if name in METRICS:
            known = get_scorer(name)
            scorer = scorer.informed_by(cross[name].max())
            values[name] = [
                np.array([known(m, *rows) for m in models]) for rows in (protected, held_out)
            ]
        outcomes = [scorer.record_outcomes(m, *protected) for m in models]
        sensitivity, sums[name] = scorer.choice_sensitivity(n), {}
        for epsilon in EPSILONS:
            damped = scorer.informed_by(np.nan, (epsilon, len(models), n), counts)
            totals = [damped.exact_sums(outcome)[0] for outcome in outcomes]
            sums[name][epsilon] = totals, sensitivity
        if name == "balanced_accuracy":
            cells = [confusion_cells(outcome, 2) for outcome in outcomes]
            frequencies = other_frequencies(public[1], protected[1], seed)
    return sums, values, cross, (np.array(cells), frequencies)


def public_results(models, X, y):
    """Cross-validate on public rows: mean scores by name, and confusion matrices."""
    folds = StratifiedKFold(3)
    runs = [cross_validate(m, X, y, cv=folds, scoring=list(METRICS)) for m in models]
    cross = {name: np.array([run[f"test_{name}"].mean() for run in runs]) for name in METRICS}
    predicted = [cross_val_predict(m, X, y, cv=folds) for m in models]
    return cross, [confusion_cells(3 * y + codes, 2) for codes in predicted]


def other_frequencies(public, protected, seed):
    """Shares of positives by few public labels, and by noisy histograms for each epsilon."""
    rng = np.random.default_rng(seed)
    known = {f"{n} public labels": [np.mean(public[:n])] for n in FEW_LABELS}
    counts = np.array([np.sum(protected == 0), np.sum(protected == 1)])
    for epsilon in EPSILONS:
        noise = rng.laplace(scale=2 / (HISTOGRAM_SHARE * epsilon), size=(N_HISTOGRAMS, 2))
        noisy = np.clip(counts + noise, 1, None)
        known["histogram", epsilon] = noisy[:, 1] / noisy.sum(axis=1)
    return known


def balanced_choice(cells, positives, epsilon):
    """Probability of each candidate with the costs of balanced accuracy, averaged over shares."""
    p = 0
    for share in np.clip(positives, 1 / N_PROTECTED, 1 - 1 / N_PROTECTED):
        costs = cost_matrix(np.array([1 / (1 - share), 1 / share]), np.zeros(2), 2**20)
        totals = (cells * costs).sum(axis=(1, 2)).tolist()
        p = p + PermuteAndFlip(epsilon, 2**20).probabilities(totals) / len(positives)
    return p


def regrets(sums, values, cross, frequencies):
    """Yield a row for each metric, chooser and epsilon."""
    for metric, parts in values.items():
        gaps = [part.max() - part for part in parts]
        fixed = {"grid_search_public": cross[metric].argmax(), "not_private": parts[0].argmax()}
        for chooser, k in fixed.items():
            yield metric, chooser, "", gaps[0][k], gaps[1][k]
        for chooser in (metric, *RIVALS):
            for epsilon in EPSILONS:
                totals, sensitivity = sums[chooser][epsilon]
                p = PermuteAndFlip(epsilon, sensitivity).probabilities(totals)
                yield metric, chooser, epsilon, p @ gaps[0], p @ gaps[1]
        if metric == "balanced_accuracy":
            for chooser, epsilon, p in other_choices(*frequencies):
                yield metric, chooser, epsilon, p @ gaps[0], p @ gaps[1]


def other_choices(cells, known):
    """Yield (chooser, epsilon, probabilities) by balanced accuracy with other frequencies."""
    for epsilon in EPSILONS:
        for n in FEW_LABELS:
            chooser = f"{n} public labels"
            yield chooser, epsilon, balanced_choice(cells, known[chooser], epsilon)
        rest = epsilon * (1 - HISTOGRAM_SHARE)
        yield "noisy histogram", epsilon, balanced_choice(cells, known["histogram", epsilon], rest)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="where the tables are")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS))
    options = parser.parse_args()
    rows = []
    for problem in options.problems:
        X, y = load(problem, options.folder)
        runs = {}
        for seed in range(options.splits):
            for *key, protected, held_out in regrets(*tables(X, y, seed)):
                runs.setdefault(tuple(key), []).append((protected, held_out))
        for (metric, chooser, epsilon), pairs in runs.items():
            means, n = np.mean(pairs, axis=0), len(pairs)
            errors = np.std(pairs, axis=0, ddof=1) / np.sqrt(n) if n > 1 else (np.nan, np.nan)
            rows.append(
                {
                    "problem": problem,
                    "positives": round(float(y.mean()), 4),
                    "metric": metric,
                    "chooser": chooser,
                    "epsilon": epsilon,
                    "regret_protected": round(means[0], 5),
                    "error_protected": round(errors[0], 5),
                    "regret_held_out": round(means[1], 5),
                    "error_held_out": round(errors[1], 5),
                }
            )
            print(*rows[-1].values(), flush=True)
    settings = {k: v for k, v in vars(options).items() if k != "folder"}
    write_rows(RESULTS / "metric_choice.csv", rows, settings=settings)


if __name__ == "__main__":
    main()
