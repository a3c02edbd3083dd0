"""Descent along gradients against private selection, where training rows are protected, too.

Section 3.4 of Sopa et al. (2025): every model that a descent evaluates is trained privately, b T of
them at mu / sqrt(b T) each: `DPGIBOSearchCV(protect="all")`. Training and validation rows are
disjoint, so that the gradients of the validation rows have a whole mu of their own; half of the
squared budget of the training rows is kept for the model that is released in the end, the other
half is spread over the b T models. The rival, `DPRandomizedSearchCV(protect="all")`, makes the same
guarantee by private selection.

The task is Example 4.3 for a private trainer: d = 10 weights in [0, 2] of the columns of X, of
which three matter, before 40 random Fourier features and `DPRidge`. 20 000 rows train, 5000
validate; uniform in [-1, 1]^10. Error: root mean square about the function on 2000 fresh rows.

    python docs/benchmarks/run.py gibo_private_training --seeds 5
    python docs/benchmarks/run.py gibo_private_training --seeds 5 --rows 4000 1000 --csv few.csv

Arms: one model with all weights 1 and the whole budget; private selection among 30 random points;
a descent of 10 steps of 6 models; the loop alone, outside the class, with the budget as printed,
mu / (b sqrt T) a training, and with models of the steps trained without noise (**not private**), to
see what that noise costs.
Data and designs are seeded; the noise of models, gradients and choices is secret.
"""

import argparse
import math
import warnings
from functools import partial

import numpy as np
from papers.gibo_papers import DEFAULT, Coordinates, averages, make_descent, make_posterior
from provenance import RESULTS, write_rows
from scipy.stats import uniform
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from skdpbo import DPGIBOSearchCV, DPRandomizedSearchCV
from skdpbo.linear_model import DPRidge
from skdpbo.mechanisms import noise_source, split_budget
from skdpbo.privacy import epsilon_from_mu, mu_from_epsilon

CSV = RESULTS / "gibo_private_training.csv"
D, N_FEATURES, N_TEST = 10, 40, 2_000
WIDTH, BOUND, DELTA = 2.0, 2.0, 1e-5
# The surrogate assumes that a training moves all losses by 1.35 of their bound: it then puts its
# points far apart. Chosen on seed 100.
SETTINGS = DEFAULT | {"b": 6, "T": 10, "length_scale": 0.5, "noise_sd": 1.35 * BOUND}
NAMES = [f"w{j}" for j in range(D)]
FREQUENCIES = np.random.RandomState(0).normal(size=(D, N_FEATURES))
PHASES = np.random.RandomState(1).uniform(0, 2 * np.pi, N_FEATURES)


class FourierFeatures(TransformerMixin, BaseEstimator):
    """Random Fourier features of weighted columns: public, and learn nothing."""

    def __init__(self, w0=1, w1=1, w2=1, w3=1, w4=1, w5=1, w6=1, w7=1, w8=1, w9=1):
        for name, value in zip(NAMES, (w0, w1, w2, w3, w4, w5, w6, w7, w8, w9), strict=True):
            setattr(self, name, value)

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        weights = np.array([getattr(self, name) for name in NAMES])
        return np.cos(X @ (weights[:, None] * FREQUENCIES) + PHASES)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def truth(X):
    return np.sin(2.5 * X[:, 0]) * np.cos(2.0 * X[:, 1]) + 0.5 * np.sin(2.5 * X[:, 2])


def model(weights=None, *, epsilon=1.0, exact=False):
    last = (
        Ridge(alpha=1e-3)
        if exact
        else DPRidge(X_bounds=(-1, 1), y_bounds=(-2, 2), epsilon=epsilon, delta=DELTA)
    )
    values = {} if weights is None else dict(zip(NAMES, map(float, weights), strict=True))
    return make_pipeline(FourierFeatures(**values), last)


class PrivateTrainings:
    """Losses of the validation rows under privately trained models, as a descent sees them."""

    bound = BOUND
    low, high, start = np.zeros(D), np.full(D, WIDTH), np.ones(D)

    def __init__(self, seed, n_train, n_records):
        rng = np.random.RandomState(seed)
        ends = [n_train, n_train + n_records]
        X = rng.uniform(-1, 1, (ends[1] + N_TEST, D))
        y = truth(X) + 0.2 * rng.normal(size=len(X))
        self.X, self.X_val, self.X_test = np.split(X, ends)
        self.y, self.y_val, _ = np.split(y, ends)
        self.n_records = n_records
        self.mu_training = None  # of a training; None: without noise

    def losses(self, points):
        how = {"exact": True}
        if self.mu_training is not None:
            how = {"epsilon": epsilon_from_mu(self.mu_training, DELTA)}
        fits = [model(point, **how).fit(self.X, self.y) for point in points]
        losses = [np.square(self.y_val - fit.predict(self.X_val)) for fit in fits]
        return np.minimum(losses, self.bound)

    def error(self, fit):
        return float(np.sqrt(np.mean(np.square(fit.predict(self.X_test) - truth(self.X_test)))))


def descent(task, seed, epsilon):
    """Return the error of the model that a descent with private trainings releases."""
    search = DPGIBOSearchCV(
        model(),
        {f"fourierfeatures__{name}": (0.0, WIDTH) for name in NAMES},
        protect="all",
        epsilon=epsilon,
        delta=DELTA,
        loss_bound=BOUND,
        score_fraction=0.0,
    )
    search.fit(task.X, task.y, X_val=task.X_val, y_val=task.y_val)
    return task.error(search.best_estimator_)


def by_hand(task, seed, epsilon, *, exact=False):
    """Return the error after the loop alone, with the printed budget or exact trainings."""
    mu = mu_from_epsilon(epsilon, DELTA)
    rest, last = split_budget(mu, 0.5)
    b, T = SETTINGS["b"], SETTINGS["T"]
    task.mu_training = None if exact else rest / (b * math.sqrt(T))
    settings = SETTINGS | {"mu": mu}
    view = Coordinates(task, settings)
    found = make_descent(settings, view, seed).run(
        view.losses, view.start, make_posterior(settings, task), noise_source(None)
    )
    (end,) = view.raw(averages(found.trajectory)["average_0.25"])
    return task.error(model(end, epsilon=epsilon_from_mu(last, DELTA)).fit(task.X, task.y))


def untuned(task, seed, epsilon):
    """Return the error of the model without a search."""
    return task.error(model(epsilon=epsilon).fit(task.X, task.y))


def selection(task, seed, epsilon):
    """Return the error of the model that private selection releases."""
    search = DPRandomizedSearchCV(
        model(),
        {f"fourierfeatures__{name}": uniform(0, WIDTH) for name in NAMES},
        n_iter=30,
        protect="all",
        epsilon=epsilon,
        delta=DELTA,
        loss_bound=BOUND,
        random_state=None,
    )
    search.fit(task.X, task.y, X_val=task.X_val, y_val=task.y_val)
    return task.error(search.best_estimator_)


ARMS = {
    "all weights 1": untuned,
    "private selection": selection,
    "descent": descent,
    "descent, budget as printed": by_hand,
    "descent, exact trainings (not private)": partial(by_hand, exact=True),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="*", default=(3.0, 1.0))
    parser.add_argument("--rows", type=int, nargs=2, default=(20_000, 5_000), help="both parts")
    parser.add_argument("--csv", default=CSV)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for epsilon in options.epsilons:
        for seed in range(options.seeds):
            task = PrivateTrainings(seed, *options.rows)
            for arm, run in ARMS.items():
                row = {"epsilon": epsilon, "seed": seed, "arm": arm}
                rows.append(row | {"rmse": f"{run(task, seed, epsilon):.5f}"})
                print(*rows[-1].values(), flush=True)
            write_rows(
                options.csv,
                rows,
                settings=SETTINGS | {"seeds": options.seeds, "rows": options.rows},
            )
    for epsilon in options.epsilons:
        for arm in ARMS:
            found = [float(r["rmse"]) for r in rows if (r["epsilon"], r["arm"]) == (epsilon, arm)]
            error = np.std(found, ddof=1) / math.sqrt(len(found)) if len(found) > 1 else math.nan
            print(f"{epsilon:4g} {arm:40} {np.mean(found):.3f} +- {error:.3f}")


if __name__ == "__main__":
    main()
