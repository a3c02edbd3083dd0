"""Rules of private selection, by the number of candidates.

`DPSparseGPRegressor` on 4000 records of a function of two inputs, every record protected; the
candidates are length-scales between 0.1 and 10. Error: root mean square about the function, on 500
fresh inputs. Beside the rules of ``protect="all"``: a candidate drawn at random and the best one in
hindsight, both trained once with the whole budget on all records (not counting the choice).

    python docs/benchmarks/run.py tune_private_models --repeats 10

Writes the CSV as it goes; the mean and its standard error of each row are printed at the end.
"""

import argparse
import csv
import warnings

import numpy as np
import sklearn
from provenance import RESULTS
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

import skdpbo
from skdpbo import DPGridSearchCV, DPSparseGPRegressor
from skdpbo.model_selection import PrivateSelection

CSV = RESULTS / "tune_private_models.csv"
RULES = ("profile", "papernot_steinke", "liu_talwar", "composition")
N_CANDIDATES = (3, 5, 20, 100)
EPSILONS = (1.0, 3.0)
DELTA = 1e-5


def truth(X):
    return np.sin(2 * X[:, 0]) * np.cos(X[:, 1])


def records(seed):
    """Return training inputs and targets, test inputs and values of the function."""
    rng = np.random.RandomState(seed)
    X, X_test = rng.uniform(-3, 3, (4000, 2)), rng.uniform(-3, 3, (500, 2))
    y = truth(X) + 0.2 * rng.normal(size=len(X))
    return X, y, X_test, truth(X_test)


def model():
    return DPSparseGPRegressor(X_bounds=(-3, 3), y_bounds=(-1.5, 1.5), inducing_points=64)


def kernels(n_candidates):
    return [RBF(length) for length in np.geomspace(0.1, 10, n_candidates)]


def errors(seed, n_candidates, epsilon):
    """Yield (rule, error)."""
    X, y, X_test, values = records(seed)

    def error(fitted):
        return float(np.sqrt(np.mean((fitted.predict(X_test) - values) ** 2)))

    untuned = [
        error(clone(model()).set_params(kernel=k, epsilon=epsilon, delta=DELTA).fit(X, y))
        for k in kernels(min(n_candidates, 20))
    ]
    yield "one at random", float(np.mean(untuned))
    yield "best in hindsight", min(untuned)
    for rule in RULES:
        search = DPGridSearchCV(
            model(),
            {"kernel": kernels(n_candidates)},
            protect=PrivateSelection(accounting=rule),
            epsilon=epsilon,
            delta=DELTA,
            loss_bound=2.0,
        )
        yield rule, error(search.fit(X, y).best_estimator_)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10)
    repeats = parser.parse_args().repeats
    versions = f"skdpbo {skdpbo.__version__}, scikit-learn {sklearn.__version__}"
    rows = []
    warnings.simplefilter("ignore")
    with CSV.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["epsilon", "n_candidates", "rule", "seed", "rmse", "versions"])
        for seed in range(repeats):
            for epsilon in EPSILONS:
                for n_candidates in N_CANDIDATES:
                    for rule, error in errors(seed, n_candidates, epsilon):
                        rows.append((epsilon, n_candidates, rule, error))
                        writer.writerow([*rows[-1][:3], seed, f"{error:.5f}", versions])
                    file.flush()
    for key in dict.fromkeys(row[:3] for row in rows):
        found = np.array([row[3] for row in rows if row[:3] == key])
        spread = found.std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0.0
        print(*key, f"{found.mean():.3f} +- {spread:.3f}")


if __name__ == "__main__":
    main()
