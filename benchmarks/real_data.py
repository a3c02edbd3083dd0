"""Is the privately released candidate as good as the best one, on real records?

For each run the rows are split anew into public (train and guide), protected (choose) and the
rest. The accuracy of every candidate, trained on the public rows, is measured on all rows that it
was not trained on; the regret of a run is the best candidate's accuracy less that of the released
one.

    python benchmarks/real_data.py adult PATH/TO/adult.data.gz
    python benchmarks/real_data.py hospital PATH/TO/dataset_diabetes.zip
    python benchmarks/real_data.py loans PATH/TO/lendingclub_2007_2011.csv.gz

Needs pandas. Data: UCI Adult (census income), UCI Diabetes 130-US hospitals (readmission), loans of
LendingClub (not paid back). Other benchmarks read ailerons (a regression) through it.
"""

import argparse
import zipfile

import numpy as np
import pandas as pd
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import skdpbo
from skdpbo import DPBayesSearchCV, DPGridSearchCV, DPRandomizedSearchCV


def load_adult(path):
    frame = pd.read_csv(path, header=None, skipinitialspace=True)
    return frame.iloc[:, :-1].rename(columns=str), frame.iloc[:, -1].str.strip().to_numpy()


def load_hospital(path):
    with zipfile.ZipFile(path) as archive, archive.open("dataset_diabetes/diabetic_data.csv") as f:
        frame = pd.read_csv(f, low_memory=False)
    y = (frame["readmitted"] != "NO").to_numpy()
    drop = ["readmitted", "encounter_id", "patient_nbr", "diag_1", "diag_2", "diag_3"]
    return frame.drop(columns=drop), y


def load_loans(path):
    """What was known when the loan was granted, and whether it was not paid back."""
    frame = pd.read_csv(path, low_memory=False)
    frame = frame[frame["loan_status"].isin(["Fully Paid", "Charged Off"])]
    y = (frame["loan_status"] == "Charged Off").to_numpy()
    return frame[LOAN_COLUMNS].reset_index(drop=True), y


def load_ailerons(path):
    """Arrays: 40 features of the flight of an aircraft, and what its ailerons should do."""
    table = pd.read_csv(path).to_numpy(float)
    return table[:, :-1], table[:, -1]


LOAN_COLUMNS = ["loan_amnt", "term", "int_rate", "installment", "emp_length", "home_ownership"]
LOAN_COLUMNS += ["annual_inc", "verification_status", "purpose", "dti", "delinq_2yrs"]
LOAN_COLUMNS += ["inq_last_6mths", "open_acc", "pub_rec", "revol_bal", "revol_util", "total_acc"]
LOADERS = {"adult": load_adult, "hospital": load_hospital, "loans": load_loans}
GRID = {
    "decisiontreeclassifier__max_depth": [1, 2, 4, 6, 8, 12, 20],
    "decisiontreeclassifier__min_samples_leaf": [1, 10, 50],
}
SPACE = {
    "decisiontreeclassifier__max_depth": (1, 20),
    "decisiontreeclassifier__min_samples_leaf": (1, 200, "log-uniform"),
}


def model():
    encode = make_column_transformer(
        (
            OneHotEncoder(handle_unknown="ignore", min_frequency=20),
            make_column_selector(dtype_exclude=np.number),
        ),
        remainder="passthrough",
    )
    return make_pipeline(encode, DecisionTreeClassifier(random_state=0))


def searches(epsilon):
    common = {"epsilon": epsilon, "cv": 3, "refit": False}
    return {
        "DPGridSearchCV": DPGridSearchCV(model(), GRID, **common),
        "DPRandomizedSearchCV": DPRandomizedSearchCV(model(), SPACE, n_iter=16, **common),
        "DPBayesSearchCV": DPBayesSearchCV(model(), SPACE, n_iter=16, **common),
    }


def one_run(search, X, y, order, n_public, n_protected):
    public, protected = order[:n_public], order[n_public : n_public + n_protected]
    rest = order[n_public:]
    search.fit(X.iloc[public], y[public], X_val=X.iloc[protected], y_val=y[protected])
    accuracy = []
    for params in search.cv_results_["params"]:
        fitted = clone(search.estimator).set_params(**params).fit(X.iloc[public], y[public])
        accuracy.append(fitted.score(X.iloc[rest], y[rest]))
    accuracy = np.array(accuracy)
    return accuracy.max() - accuracy[search.best_index_], np.ptp(accuracy), search.best_score_


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", choices=LOADERS)
    parser.add_argument("path")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--public", type=int, default=3000)
    parser.add_argument("--protected", type=int, default=5000)
    args = parser.parse_args()
    X, y = LOADERS[args.dataset](args.path)
    print(
        f"skdpbo {skdpbo.__version__}, scikit-learn {sklearn.__version__}, numpy {np.__version__}"
    )
    print(f"{args.dataset}: {len(X)} rows, {args}")
    for name, search in searches(args.epsilon).items():
        rng = np.random.RandomState(0)
        runs = [
            one_run(search, X, y, rng.permutation(len(X)), args.public, args.protected)
            for _ in range(args.runs)
        ]
        regret, spread, _ = np.array(runs).T
        print(
            f"{name:22s} within .005 in {np.sum(regret <= 0.005)} of {args.runs} runs; regret mean "
            f"{regret.mean():.4f}, max {regret.max():.4f}; spread of candidates {spread.mean():.3f}"
        )


if __name__ == "__main__":
    main()
