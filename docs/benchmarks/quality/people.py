"""Regret of the choice at the level of patients: a mean within each patient, or epsilon / 40 a row.

UCI Diabetes 130-US hospitals: 101 766 stays of 71 518 patients, up to 40 each. Trees of 120 sizes,
trained on all stays of 1000 patients, are chosen by all stays of 2000 or 10 000 others. The
utility is the accuracy as a mean over patients of the mean within a patient. Regret, as an exact
expectation over the noise of permute-and-flip alone, is measured on the protected patients and on
all that take no part. Error bars are standard errors over splits of the patients.

    python docs/benchmarks/run.py people --folder DATA --splits 20
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np
from provenance import RESULTS, write_rows
from quality.equal_privacy_tasks import FILES, PROBLEMS, coded
from quality.real_data import load_hospital, load_patients

from skdpbo.mechanisms import PermuteAndFlip

N_PUBLIC, PROTECTED, EPSILONS = 1000, (2000, 10_000), (0.1, 0.3, 1.0, 3.0)
UNITS, MOST_STAYS = 2**20, 40  # of the mean loss of a patient; stays of one patient


def patient_means(losses, patients):
    """Mean 0/1 loss of each patient, (n_patients, n_candidates)."""
    _, codes = np.unique(patients, return_inverse=True)
    totals = np.zeros((codes.max() + 1, losses.shape[1]))
    np.add.at(totals, codes, losses)
    return totals / np.bincount(codes)[:, None]


def losses_of_split(X, y, patients, split):
    """Yield the wrong predictions of all candidates and the patient, for each part."""
    people = np.random.RandomState(split).permutation(np.unique(patients))
    ends = N_PUBLIC, N_PUBLIC + PROTECTED[-1]
    public, *parts = (np.flatnonzero(np.isin(patients, p)) for p in np.split(people, ends))
    problem = PROBLEMS["hospital"]
    settings = [dict(zip(problem.grids, v, strict=True)) for v in product(*problem.grids.values())]
    models = [problem.model(**params).fit(X[public], y[public]) for params in settings]
    for rows in parts:
        wrong = [model.predict(X[rows]) != y[rows] for model in models]
        yield np.array(wrong).T, patients[rows]
    yield people[slice(*ends)], None


def regrets(law, *utilities):
    """Expected loss of the chosen candidate above the best one's, for each measure of utility."""
    return [float(law @ (mean - mean.min())) for mean in utilities]


def of_split(X, y, patients, split):
    """Yield (number of patients, epsilon, method, regret on them, on others) of one split."""
    (wrong, ids), (others, other_ids), (people, _) = losses_of_split(X, y, patients, split)
    elsewhere = patient_means(others, other_ids).mean(axis=0)
    for n in PROTECTED:
        rows = np.isin(ids, people[:n])
        means = patient_means(wrong[rows], ids[rows])
        totals = np.rint(UNITS * means).astype(int).sum(axis=0)
        here = means.mean(axis=0)
        for epsilon in EPSILONS:
            by_patient = PermuteAndFlip(epsilon, UNITS).probabilities(totals)
            by_row = PermuteAndFlip(epsilon / MOST_STAYS, 1).probabilities(wrong[rows].sum(axis=0))
            yield n, epsilon, "mean within a patient", *regrets(by_patient, here, elsewhere)
            yield n, epsilon, "epsilon / 40 a row", *regrets(by_row, here, elsewhere)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--splits", type=int, default=20)
    options = parser.parse_args()
    path = Path(options.folder) / FILES["hospital"]
    X, y = load_hospital(path, all_stays=True)
    X, y, patients = coded(X), np.asarray(y, int), load_patients(path)
    found = {}
    for split in range(options.splits):
        for *case, here, elsewhere in of_split(X, y, patients, split):
            found.setdefault(tuple(case), []).append((here, elsewhere))
    rows = []
    for (n, epsilon, method), pairs in found.items():
        mean, error = np.mean(pairs, axis=0), np.std(pairs, axis=0, ddof=1) / np.sqrt(len(pairs))
        row = {"patients": n, "epsilon": epsilon, "method": method}
        for where, m, e in zip(("protected", "others"), mean, error, strict=True):
            row |= {f"regret_on_{where}": round(m, 5), f"error_on_{where}": round(e, 5)}
        rows.append(row)
        print(*row.values(), flush=True)
    write_rows(RESULTS / "people.csv", rows, settings={"splits": options.splits})


if __name__ == "__main__":
    main()
