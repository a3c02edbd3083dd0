"""Accuracy of private logistic regressions with their defaults, on four tables.

    python docs/benchmarks/run.py private_classifiers --folder DATA --model skdpbo --csv OUT
    PEER_PYTHON docs/benchmarks/quality/private_classifiers.py --folder DATA --model diffprivlib ...

diffprivlib 0.6.6 needs an older scikit-learn (1.5), hence an environment of its own; this script
imports nothing of skdpbo for it. Both get the same rows and the same public bounds: numbers scaled
to the range of the whole table, categories as indicators. diffprivlib gets the norm that follows.
"""

import argparse
import csv
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

LOANS = ["loan_amnt", "term", "int_rate", "installment", "emp_length", "home_ownership"]
LOANS += ["annual_inc", "verification_status", "purpose", "dti", "delinq_2yrs", "inq_last_6mths"]
DROPPED = ["readmitted", "encounter_id", "patient_nbr", "diag_1", "diag_2", "diag_3"]
ROWS = {"adult": 10000, "hospital": 10000, "loans": 10000, "cancer": 400}


def load(name, folder):
    if name == "adult":
        frame = pd.read_csv(folder / "adult.data.gz", header=None, skipinitialspace=True)
        return frame.iloc[:, :-1], frame.iloc[:, -1] == ">50K"
    if name == "hospital":
        archive = zipfile.ZipFile(folder / "dataset_diabetes.zip")
        with archive, archive.open("dataset_diabetes/diabetic_data.csv") as file:
            frame = pd.read_csv(file, low_memory=False)
        return frame.drop(columns=DROPPED), frame["readmitted"] != "NO"
    if name == "loans":
        frame = pd.read_csv(folder / "lendingclub_2007_2011.csv.gz", low_memory=False)
        frame = frame[frame["loan_status"].isin(["Fully Paid", "Charged Off"])]
        return frame[LOANS], frame["loan_status"] == "Charged Off"
    X, y = load_breast_cancer(return_X_y=True)
    return pd.DataFrame(X), pd.Series(y == 1)


def prepared(name, folder):
    """Return columns in [0, 1], the largest norm of a row, and the labels."""
    frame, y = load(name, folder)
    frame.columns = frame.columns.astype(str)
    numbers = frame.select_dtypes("number").fillna(0)
    # Standard scores with constants of the whole table, cut at 3, as a curator's bounds would be.
    numbers = ((numbers - numbers.mean()) / numbers.std()).clip(-3, 3) / 3
    texts = frame.drop(columns=numbers.columns).astype(str)
    texts = texts[[c for c in texts if texts[c].nunique() <= 60]]
    indicators = pd.get_dummies(texts).to_numpy(float) if texts.shape[1] else numbers.iloc[:, :0]
    X = np.hstack([numbers.to_numpy(), indicators])
    return X, float(np.sqrt(numbers.shape[1] + texts.shape[1])), y.to_numpy().astype(int)


def model(kind, epsilon, norm):
    if kind == "none":
        return LogisticRegression(max_iter=1000)
    if kind == "diffprivlib":
        from diffprivlib.models import LogisticRegression as Peer

        return Peer(epsilon=epsilon, data_norm=norm, max_iter=1000)
    from skdpbo.linear_model import DPLogisticRegression

    return DPLogisticRegression(epsilon=epsilon, X_bounds=(-1, 1), classes=[0, 1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model", choices=["none", "diffprivlib", "skdpbo"], required=True)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--tables", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    rows = []
    for name in options.tables:
        n = ROWS[name]
        X, norm, y = prepared(name, options.folder)
        for epsilon in options.epsilons if options.model != "none" else [float("inf")]:
            scores = []
            for seed in range(options.repeats):
                order = np.random.default_rng(seed).permutation(len(X))
                train, test = order[:n], order[n:]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fitted = model(options.model, epsilon, norm).fit(X[train], y[train])
                scores.append(fitted.score(X[test], y[test]))
            error = np.std(scores) / np.sqrt(len(scores))
            rows.append([options.model, name, epsilon, round(np.mean(scores), 4), round(error, 4)])
            print(*rows[-1], flush=True)
    if options.csv:
        with options.csv.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)


if __name__ == "__main__":
    main()
