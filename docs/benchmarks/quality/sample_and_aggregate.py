"""Accuracy with privately chosen parameters, all records protected, any estimator.

Any estimator, ``protect=Chunks(k)``: the tuning rows are cut into k chunks, and the choice
is released. Then a model with the released parameters is trained on all tuning rows, as its owner
would for use in house, and its accuracy is measured on rows that took no part. Beside it: the
choice of `GridSearchCV` (5 folds, not private), the default parameters, the best candidate and the
mean of all, which is what a choice at random has.

The exact law of the released candidate is computed from the losses of the chunks' models, instead
of drawing it, so that one training serves every epsilon. Categories are coded by their positions
in a public list. Rows are subsampled (``--tuning``, ``--test``) to keep the run short.

    python docs/benchmarks/run.py sample_and_aggregate adult PATH/TO/adult.data.gz
    python docs/benchmarks/run.py sample_and_aggregate hospital PATH/TO/dataset_diabetes.zip

Needs pandas. Appends to the CSV as it goes.
"""

import argparse
import csv

import numpy as np
import sklearn
from provenance import RESULTS
from quality.real_data import LOADERS
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GridSearchCV, ParameterGrid
from sklearn.tree import DecisionTreeClassifier

import skdpbo
from skdpbo.mechanisms import PermuteAndFlip
from skdpbo.model_selection.evaluation._chunk_training import ChunkTraining
from skdpbo.model_selection.evaluation._chunks import (
    ChunkedRows,
    chunk_positions,
    chunk_sensitivity,
    clipped_excess,
    excess_cap,
    excess_sensitivity,
)
from skdpbo.model_selection.scoring._resolve import resolve_scorer

CSV = RESULTS / "sample_and_aggregate.csv"
EPSILONS = (0.1, 0.3, 1.0, 3.0)
N_CHUNKS = (5, 10, 20, 50, 100, 200)
EXCESS_BOUNDS = (None, 0.02, 0.05, 0.1, 0.2)
SCORE_FRACTION = 0.1
MODELS = {
    "tree": (
        DecisionTreeClassifier(random_state=0),
        {"max_depth": [1, 2, 4, 6, 8, 12, None], "min_samples_leaf": [1, 10, 50]},
        {"max_depth": None, "min_samples_leaf": 1},
    ),
    "boosting": (
        HistGradientBoostingClassifier(max_iter=20, early_stopping=False, random_state=0),
        {"learning_rate": [0.01, 0.03, 0.1, 0.3, 1.0], "max_leaf_nodes": [4, 31]},
        {"learning_rate": 0.1, "max_leaf_nodes": 31},
    ),
}


def encode(frame):
    """Numbers as they are, categories by their positions in the (public) list of categories."""
    columns = [
        column.to_numpy(float)
        if column.dtype.kind in "iuf"
        else column.astype("category").cat.codes.to_numpy(float)
        for _, column in frame.items()
    ]
    return np.column_stack(columns).astype(np.float32)


def references(model, grid, default, tuning, test):
    """Accuracy on the test rows of every candidate, and of the choices it is compared with."""
    candidates = list(ParameterGrid(grid))
    accuracy = np.array(
        [clone(model).set_params(**params).fit(*tuning).score(*test) for params in candidates]
    )
    search = GridSearchCV(model, grid, cv=5).fit(*tuning)
    return accuracy, {
        "best": accuracy.max(),
        "non_private": accuracy[search.best_index_],
        "default": accuracy[candidates.index(default)],
        "random": accuracy.mean(),
    }


def compared(losses, excess_bound, size):
    """Integers by which candidates are chosen, and their sensitivity."""
    if excess_bound is None:
        return [sum(of_models) for of_models in losses], chunk_sensitivity(1, *size)
    cap = excess_cap(1, excess_bound, *size)
    return clipped_excess(losses, cap), excess_sensitivity(1, cap, size[0])


def one_split(name, X, y, args, split):
    order = np.random.RandomState(split).permutation(len(X))
    rows = order[: args.tuning], order[args.tuning : args.tuning + args.test]
    tuning, test = ((X[part], y[part]) for part in rows)
    model, grid, default = MODELS[name]
    accuracy, others = references(model, grid, default, tuning, test)
    for k in args.chunks:
        chunks = ChunkedRows(*tuning, chunks=chunk_positions(args.tuning, k))
        training = ChunkTraining(
            estimator=model,
            rows=chunks,
            fit_params={},
            scorer=resolve_scorer("accuracy", model),
            excess_bound=None,
            n_jobs=None,
            pre_dispatch="2*n_jobs",
        )
        losses = training.losses(list(ParameterGrid(grid)))
        for excess_bound in EXCESS_BOUNDS:
            totals, sensitivity = compared(losses, excess_bound, chunks.size)
            for epsilon in EPSILONS:
                choice = PermuteAndFlip((1 - SCORE_FRACTION) * epsilon, sensitivity)
                yield {
                    "chunks": k,
                    "excess_bound": "" if excess_bound is None else excess_bound,
                    "epsilon": epsilon,
                    "released": choice.probabilities(totals) @ accuracy,
                    "without_noise": accuracy[int(np.argmin(totals))],
                    **others,
                }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", choices=LOADERS)
    parser.add_argument("path")
    parser.add_argument("--model", choices=MODELS, default="tree")
    parser.add_argument("--tuning", type=int, default=20_000)
    parser.add_argument("--test", type=int, default=10_000)
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2], help="seeds")
    parser.add_argument("--chunks", type=int, nargs="+", default=N_CHUNKS)
    args = parser.parse_args()
    X, y = LOADERS[args.dataset](args.path)
    X, y = encode(X), np.unique(y, return_inverse=True)[1]
    versions = f"skdpbo {skdpbo.__version__}, scikit-learn {sklearn.__version__}"
    settings = {"dataset": args.dataset, "model": args.model, "versions": versions}
    for split in args.splits:
        for row in one_split(args.model, X, y, args, split):
            row = {**settings, "tuning": args.tuning, "test": args.test, "split": split, **row}
            new = not CSV.exists()
            with CSV.open("a", newline="") as file:
                writer = csv.DictWriter(file, list(row))
                if new:
                    writer.writeheader()
                writer.writerow(
                    {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()}
                )


if __name__ == "__main__":
    main()
