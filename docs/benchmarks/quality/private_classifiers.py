"""Accuracy of private logistic regressions with their defaults, on four tables.

    python docs/benchmarks/run.py private_classifiers --folder DATA --model skdpbo --csv OUT
    PEER_PYTHON docs/benchmarks/quality/private_classifiers.py --folder DATA --model diffprivlib ...

diffprivlib 0.6.6 needs an older scikit-learn (1.5), hence an environment of its own; this script
imports nothing of skdpbo for it. Both get the same rows and the same public bounds: numbers scaled
to the range of the whole table, categories as indicators. diffprivlib gets the norm that follows.

On hospital records a person is a patient: all stays of n patients train, those of one with equal
shares (`groups`, or weights without privacy), and accuracy is the mean over the other patients of
the mean over their stays. diffprivlib knows no groups and trains on the first stay of each.
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
        return frame.iloc[:, :-1], frame.iloc[:, -1] == ">50K", None
    if name == "hospital":
        archive = zipfile.ZipFile(folder / "dataset_diabetes.zip")
        with archive, archive.open("dataset_diabetes/diabetic_data.csv") as file:
            frame = pd.read_csv(file, low_memory=False)
        frame = frame.sort_values("encounter_id")  # the first stay of a patient comes first
        return frame.drop(columns=DROPPED), frame["readmitted"] != "NO", frame["patient_nbr"]
    if name == "loans":
        frame = pd.read_csv(folder / "lendingclub_2007_2011.csv.gz", low_memory=False)
        frame = frame[frame["loan_status"].isin(["Fully Paid", "Charged Off"])]
        return frame[LOANS], frame["loan_status"] == "Charged Off", None
    X, y = load_breast_cancer(return_X_y=True)
    return pd.DataFrame(X), pd.Series(y == 1), None


def prepared(name, folder):
    """Return columns in [0, 1], the largest norm of a row, the labels, and the persons."""
    frame, y, persons = load(name, folder)
    persons = np.arange(len(frame)) if persons is None else persons.to_numpy()
    frame.columns = frame.columns.astype(str)
    numbers = frame.select_dtypes("number").fillna(0)
    # Standard scores with constants of the whole table, cut at 3, as a curator's bounds would be.
    numbers = ((numbers - numbers.mean()) / numbers.std()).clip(-3, 3) / 3
    texts = frame.drop(columns=numbers.columns).astype(str)
    texts = texts[[c for c in texts if texts[c].nunique() <= 60]]
    indicators = pd.get_dummies(texts).to_numpy(float) if texts.shape[1] else numbers.iloc[:, :0]
    X = np.hstack([numbers.to_numpy(), indicators])
    return X, float(np.sqrt(numbers.shape[1] + texts.shape[1])), y.to_numpy().astype(int), persons


def train_and_score(kind, epsilon, table, n, seed):
    """Accuracy as a mean over persons, of a model that n others have trained."""
    X, norm, y, persons = table
    everybody = np.unique(persons)
    order = np.random.default_rng(seed).permutation(len(everybody))
    training = np.flatnonzero(np.isin(persons, everybody[order[:n]]))
    test = np.setdiff1d(np.arange(len(X)), training)
    how, grouped = {}, len(everybody) < len(X)
    if grouped and kind == "diffprivlib":
        training = training[np.unique(persons[training], return_index=True)[1]]
    elif grouped and kind == "skdpbo":
        how = {"groups": persons[training]}
    elif grouped:
        how = {"sample_weight": shares(persons[training])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model(kind, epsilon, norm).fit(X[training], y[training], **how)
    right = fitted.predict(X[test]) == y[test]
    return np.average(right, weights=shares(persons[test]))


def shares(persons):
    """One part of a person for each row: 1 / (number of rows of the same person)."""
    _, positions, counts = np.unique(persons, return_inverse=True, return_counts=True)
    return 1 / counts[positions]


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
        table = prepared(name, options.folder)
        for epsilon in options.epsilons if options.model != "none" else [float("inf")]:
            scores = [
                train_and_score(options.model, epsilon, table, ROWS[name], seed)
                for seed in range(options.repeats)
            ]
            error = np.std(scores) / np.sqrt(len(scores))
            rows.append([options.model, name, epsilon, round(np.mean(scores), 4), round(error, 4)])
            print(*rows[-1], flush=True)
    if options.csv:
        with options.csv.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)


if __name__ == "__main__":
    main()
