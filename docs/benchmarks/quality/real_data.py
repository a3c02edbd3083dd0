"""Loaders of the real tables: features and target, as the benchmarks use them.

UCI Adult (income above 50 000), UCI Diabetes 130-US hospitals (readmission), LendingClub loans
(not paid back) and ailerons (a regression, OpenML). Needs pandas.
"""

import zipfile

import pandas as pd

LOAN_COLUMNS = ["loan_amnt", "term", "int_rate", "installment", "emp_length", "home_ownership"]
LOAN_COLUMNS += ["annual_inc", "verification_status", "purpose", "dti", "delinq_2yrs"]
LOAN_COLUMNS += ["inq_last_6mths", "open_acc", "pub_rec", "revol_bal", "revol_util", "total_acc"]


def load_adult(path):
    frame = pd.read_csv(path, header=None, skipinitialspace=True)
    return frame.iloc[:, :-1].rename(columns=str), frame.iloc[:, -1].str.strip().to_numpy()


def load_hospital(path, *, all_stays=False):
    """Return the first stay of each patient, so that a row is a person, or all stays."""
    with zipfile.ZipFile(path) as archive, archive.open("dataset_diabetes/diabetic_data.csv") as f:
        frame = pd.read_csv(f, low_memory=False)
    if not all_stays:
        first = frame.sort_values("encounter_id").drop_duplicates("patient_nbr").index
        frame = frame.loc[first.sort_values()].reset_index(drop=True)
    y = (frame["readmitted"] != "NO").to_numpy()
    drop = ["readmitted", "encounter_id", "patient_nbr", "diag_1", "diag_2", "diag_3"]
    return frame.drop(columns=drop), y


def load_patients(path):
    """Return the patient of each stay."""
    with zipfile.ZipFile(path) as archive, archive.open("dataset_diabetes/diabetic_data.csv") as f:
        return pd.read_csv(f, usecols=["patient_nbr"])["patient_nbr"].to_numpy()


def load_loans(path):
    """Return what was known when a loan was granted, and whether it was not paid back."""
    frame = pd.read_csv(path, low_memory=False)
    frame = frame[frame["loan_status"].isin(["Fully Paid", "Charged Off"])]
    y = (frame["loan_status"] == "Charged Off").to_numpy()
    return frame[LOAN_COLUMNS].reset_index(drop=True), y


def load_ailerons(path):
    """Arrays: 40 features of the flight of an aircraft, and what its ailerons should do."""
    table = pd.read_csv(path).to_numpy(float)
    return table[:, :-1], table[:, -1]


LOADERS = {"adult": load_adult, "hospital": load_hospital, "loans": load_loans}
