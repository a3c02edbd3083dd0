"""Private regression with its defaults on five real tables of 1 to 30 columns, beside its rivals.

    python docs/benchmarks/run.py real_regression --folder DATA

Root mean square error on rows that took no part, over the standard deviation of the target. Bounds
are three standard deviations of the whole table about its means, as a curator's would, for every
private method. The binned mean has the best column and number of bins in hindsight. Public rows:
`--public` of them, of which no private method but the last one knows. Appends to
``results/real_regression.csv``.
"""

import argparse
import math
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from provenance import RESULTS, append_row
from quality.private_regression import box
from quality.real_data import load_ailerons
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpbo.gaussian_process import DPSparseGPRegressor
from skdpbo.linear_model import DPRidge
from skdpbo.privacy import mu_from_epsilon

N_TRAIN, N_TEST, DELTA = 5000, 2000, 1e-5
BINS = (1, 4, 8, 16)
STAY = ["num_lab_procedures", "num_procedures", "num_medications", "number_outpatient"]
STAY += ["number_emergency", "number_inpatient", "number_diagnoses"]
LOAN = ["loan_amnt", "annual_inc", "dti", "delinq_2yrs", "inq_last_6mths", "open_acc", "pub_rec"]
LOAN += ["revol_bal", "total_acc", "funded_amnt_inv"]


def growth(folder):
    """Height of girls by their age."""
    table = pd.read_csv(folder / "mice_fdgs.csv.gz").dropna()
    girls = table[table["sex"] == "girl"]
    return girls[["age"]].to_numpy(float), girls["hgt"].to_numpy(float)


def hospital(folder):
    """Days of a patient's first stay by seven counts."""
    path = folder / "dataset_diabetes.zip"
    with zipfile.ZipFile(path) as archive, archive.open("dataset_diabetes/diabetic_data.csv") as f:
        stays = pd.read_csv(f, low_memory=False).drop_duplicates("patient_nbr")
    return stays[STAY].to_numpy(float), stays["time_in_hospital"].to_numpy(float)


def loans(folder):
    """Interest rate of a loan by ten numbers that were known before."""
    table = pd.read_csv(folder / "lendingclub_2007_2011.csv.gz", low_memory=False)
    rate = table["int_rate"].astype(str).str.rstrip("%")
    table = table[LOAN].assign(rate=pd.to_numeric(rate, errors="coerce")).dropna()
    return table[LOAN].to_numpy(float), table["rate"].to_numpy(float)


def parkinsons(folder):
    """The twenty columns of telemonitoring."""
    table = pd.read_csv(folder / "uci_parkinsons.csv.gz", header=None).to_numpy(float)
    return table[:, :-1], table[:, -1]


def ailerons(folder):
    """The first thirty columns of the flight control data."""
    X, y = load_ailerons(folder / "ailerons.csv.gz")
    return X[:, :30], y


TABLES = {"growth": growth, "hospital": hospital, "loans": loans}
TABLES |= {"parkinsons": parkinsons, "ailerons": ailerons}


def binned_means(train, test, bounds, epsilon, rng):
    """Return the error of the best noisy binned mean over one column.

    A record adds (1, y / R) to one bin, of squared norm 2: replacing it moves the sums by 2.
    """
    (X, y), (X_new, y_new), (low, high) = train, test, bounds["y_bounds"]
    centre, reach = (low + high) / 2, (high - low) / 2
    scaled, sigma = np.clip((y - centre) / reach, -1, 1), 2 / mu_from_epsilon(epsilon, DELTA)
    found = []
    for column in range(X.shape[1]):
        for bins in BINS:
            edges = np.linspace(bounds["X_bounds"][0][column], bounds["X_bounds"][1][column],
                                bins + 1)[1:-1]  # fmt: skip
            place, new = (np.searchsorted(edges, values[:, column]) for values in (X, X_new))
            sums = np.stack([np.bincount(place, w, bins) for w in (None, scaled)])
            counts, totals = sums + sigma * rng.normal(size=sums.shape)
            mean = np.clip(totals / np.maximum(counts, 2 * sigma), -1, 1)
            found.append(rmse(centre + reach * mean[new], y_new))
    return min(found)


def rmse(predicted, y):
    return math.sqrt(np.mean(np.square(predicted - y)))


def errors(train, public, test, bounds, epsilons, seed):
    """Yield epsilon, method and error of every method."""
    rng, (X_new, y_new) = np.random.default_rng(seed), test

    def error(model, *rows, **more):
        return rmse(model.fit(*rows, **more).predict(X_new), y_new)

    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13)))
    yield "not private", "ridge", error(ridge, *train)
    yield "not private", "boosting", error(HistGradientBoostingRegressor(random_state=0), *train)
    rows = dict(zip(("X_public", "y_public"), public, strict=True))
    for k, epsilon in enumerate(epsilons):
        budget = {"epsilon": epsilon, "delta": DELTA}
        yield epsilon, "DPSparseGPRegressor", error(DPSparseGPRegressor(**budget, **bounds), *train)
        yield epsilon, "DPRidge", error(DPRidge(**budget, **bounds), *train)
        yield epsilon, "binned mean", binned_means(train, test, bounds, epsilon, rng)
        gp = DPSparseGPRegressor(**budget, **bounds)
        yield epsilon, "DPSparseGPRegressor, public rows", error(gp, *train, **rows)
        if k == 0:
            yield "public rows", "public model", rmse(gp.base_.predict(X_new), y_new)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.03, 0.1, 0.3, 1, 3, 10])
    parser.add_argument("--public", type=int, default=100)
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.tables:
        X, y = TABLES[name](options.folder)
        bounds, found = {"X_bounds": box(X, 3.0), "y_bounds": tuple(box(y[:, None], 3.0))}, {}
        bounds["y_bounds"] = tuple(float(b[0]) for b in bounds["y_bounds"])
        for split in range(options.splits):
            order = np.random.default_rng(split).permutation(len(y))
            public, test, train = np.split(order, [options.public, options.public + N_TEST])
            parts = [(X[i], y[i]) for i in (train[:N_TRAIN], public, test)]
            for epsilon, method, value in errors(*parts, bounds, options.epsilons, split):
                found.setdefault((epsilon, method), []).append(value / y.std())
        for (epsilon, method), values in found.items():
            row = {"table": name, "columns": X.shape[1], "epsilon": epsilon, "method": method}
            row["rmse"] = round(float(np.mean(values)), 4)
            spread = np.std(values, ddof=1) / math.sqrt(len(values))
            row["standard_error"] = round(float(spread), 4)
            settings = {"public": options.public, "splits": options.splits, "delta": DELTA}
            append_row(RESULTS / "real_regression.csv", row, settings=settings)
            print(row, flush=True)


if __name__ == "__main__":
    main()
