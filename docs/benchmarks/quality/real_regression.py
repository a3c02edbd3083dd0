"""Private regression with its defaults on five real tables of 1 to 30 columns, beside its rivals.

    python docs/benchmarks/run.py real_regression --folder DATA

Root mean square error on rows that took no part, over the standard deviation of the target. Bounds
are three standard deviations of the whole table about its means, as a curator's would, for every
private method. Of binned means over one column there are two: one chooses its column privately, the
other has the best column and number of bins by the error on the test rows, which no private method
has. Public rows: `--public` of them, of which no private method but the last one knows. Appends to
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
from skdpbo.mechanisms import PermuteAndFlip
from skdpbo.privacy import mu_from_epsilon

N_TRAIN, N_TEST, DELTA = 5000, 2000, 1e-5
BINS = (1, 4, 8, 16)
_UNITS = 1024  # of a target
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


class BinnedMeans:
    """Noisy means of the targets in bins of one column.

    A record adds (1, y / R) to one bin, of squared norm 2: replacing it moves the sums by 2.
    """

    def __init__(self, train, test, bounds, rng):
        (self.X, y), self.test, self.rng = train, test, rng
        (self.low, self.high), (low, high) = bounds["X_bounds"], bounds["y_bounds"]
        self.centre, self.reach = (low + high) / 2, (high - low) / 2
        self.scaled = np.clip((y - self.centre) / self.reach, -1, 1)

    def _places(self, X, column, bins):
        edges = np.linspace(self.low[column], self.high[column], bins + 1)[1:-1]
        return np.searchsorted(edges, X[:, column])

    def error(self, column, bins, sigma):
        """Return the error of the means with noise of standard deviation sigma on their sums."""
        place, (X_new, y_new) = self._places(self.X, column, bins), self.test
        sums = np.stack([np.bincount(place, w, bins) for w in (None, self.scaled)])
        counts, totals = sums + sigma * self.rng.normal(size=sums.shape)
        mean = np.clip(totals / np.maximum(counts, 2 * sigma), -1, 1)
        new = self._places(X_new, column, bins)
        return rmse(self.centre + self.reach * mean[new], y_new)

    def in_hindsight(self, epsilon):
        """Return the least error of all columns and numbers of bins, by the test rows."""
        sigma = 2 / mu_from_epsilon(epsilon, DELTA)
        columns = range(self.X.shape[1])
        return min(self.error(column, bins, sigma) for column in columns for bins in BINS)

    def private(self, epsilon):
        """Return the error with a private choice of the column, which has half of epsilon."""
        n_columns = self.X.shape[1]
        sigma = 2 / mu_from_epsilon(epsilon if n_columns == 1 else epsilon / 2, DELTA)
        # A public rule: the most bins whose share of the records is ten times the noise.
        bins = max(b for b in BINS if b <= 4 or N_TRAIN / b >= 10 * sigma)
        return self.error(0 if n_columns == 1 else self._choice(epsilon / 2), bins, sigma)

    def _choice(self, epsilon):
        """Choose a column by permute-and-flip on the sums of its bins' sizes.

        One record moves each sum by at most 2.
        """
        whole = np.rint(self.scaled * _UNITS)  # integers: the mechanism is exact
        effects = [
            np.abs(np.bincount(self._places(self.X, column, 8), whole, 8)).sum()
            for column in range(self.X.shape[1])
        ]
        return PermuteAndFlip(epsilon, 2 * _UNITS).select([-int(effect) for effect in effects])


def rmse(predicted, y):
    return math.sqrt(np.mean(np.square(predicted - y)))


def methods(train, public, test, bounds, epsilon, seed):
    """Return what gives the error of each private method, and of the public model, by name."""
    rows = dict(zip(("X_public", "y_public"), public, strict=True))
    budget = {"epsilon": epsilon, "delta": DELTA, **bounds}
    binned = BinnedMeans(train, test, bounds, np.random.default_rng([seed, round(1000 * epsilon)]))
    return {
        "DPSparseGPRegressor": lambda: error(DPSparseGPRegressor(**budget), train, test),
        "DPRidge": lambda: error(DPRidge(**budget), train, test),
        "binned mean, private choice": lambda: binned.private(epsilon),
        "binned mean": lambda: binned.in_hindsight(epsilon),
        "DPSparseGPRegressor, public rows": lambda: error(
            DPSparseGPRegressor(**budget), train, test, **rows
        ),
    }


def others(train, public, test, bounds):
    """Return what gives the error without privacy, and of the public rows alone, by name."""
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13)))
    boosting = HistGradientBoostingRegressor(random_state=0)

    def public_model():
        rows = dict(zip(("X_public", "y_public"), public, strict=True))
        gp = DPSparseGPRegressor(**bounds).fit(*train, **rows)
        return rmse(gp.base_.predict(test[0]), test[1])

    return {
        ("not private", "ridge"): lambda: error(ridge, train, test),
        ("not private", "boosting"): lambda: error(boosting, train, test),
        ("public rows", "public model"): public_model,
    }


def error(model, train, test, **more):
    return rmse(model.fit(*train, **more).predict(test[0]), test[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.03, 0.1, 0.3, 1, 3, 10])
    parser.add_argument("--public", type=int, default=100)
    parser.add_argument("--splits", type=int, default=8)
    parser.add_argument("--methods", nargs="+", help="names of methods; default: all")
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
            todo = others(*parts, bounds)
            for epsilon in options.epsilons:
                for method, run in methods(*parts, bounds, epsilon, split).items():
                    todo[epsilon, method] = run
            for key, run in todo.items():
                if options.methods is None or key[1] in options.methods:
                    found.setdefault(key, []).append(run() / y.std())
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
