"""Noise level and length-scale of a sparse GP by private selection.

The experiment of Honkela & Melkas (2021), Section 5.3: their Algorithm 2 tries pairs of a noise
level and a length-scale, fits each on one half of the records, scores it on the other half by the
mean log-likelihood, and returns the best of a random number of trials.

    python docs/benchmarks/run.py honkela_melkas_tuning [--runs 12] [--gamma 0.02]
        [--epsilon 1 3 10 30] [--release published default] [--csv honkela_melkas_tuning.csv]

This reproduces an experiment on made-up data; it is not a private tool. The number of trials must
stay secret and here comes from a seeded generator, as do the choices; the script also prints the
scores' fate, which a private program would keep to itself. Do not use it on protected records.

Reported, for the published release and for the default of `DPSparseGPRegressor`, each under two
tests of whether a score is possible: how often each pair was picked, the share of trials that the
test threw away, and the root mean square error of the picked model over the runs that returned
one. "printed" compares the sum of the log-likelihoods with the bound of one record, as in the
paper; "corrected" compares their mean. Both tests see the same trials.

Not stated in the paper, and taken here: delta 1e-4, targets within 1.5, Eq. (7), unit scale in
COINPRESS. The paper has gamma = 0.01; 0.02 halves the running time.
"""

import argparse
import csv
import itertools
import math
import platform
import sys
import time
from typing import NamedTuple

import numpy as np
import scipy
import sklearn
from scipy.optimize import brentq
from sklearn.gaussian_process.kernels import RBF

import skdpbo
from skdpbo.gaussian_process import DPSparseGPRegressor
from skdpbo.mechanisms import CoinPressMean

RELEASES = {
    "published": {
        "release": "kernel",
        "sensitivity": "generic",
        "posterior": "linearised_published",
    },
    "default": {},
}
TESTS = ("printed", "corrected")
SIGMAS = (0.1 / 3, 0.1, 0.3)
LENGTH_SCALES = (1 / 3, 1.0, 3.0)
TRUE_PAIR = (0.1, 1.0)
PAIRS = list(itertools.product(SIGMAS, LENGTH_SCALES))
N_RECORDS, DELTA, Y_BOUND = 2048, 1e-4, 1.5
INDUCING_POINTS = np.linspace(-3, 3, 9)[:, None]
LINE = np.linspace(-3.5, 3.5, 200)[:, None]


class Budget(NamedTuple):
    """Budgets of a fit and of a score, and their number. All public."""

    epsilon: float
    delta: float
    delta_2: float  # that the number of trials is cut short
    max_trials: float  # before rounding up
    rho: float  # zero-concentrated privacy of a score


def root_of_total_delta(total):
    """Smaller root t of t (1 - log t) = total, for total in (0, 1): Algorithm 2, first line."""
    return math.exp(brentq(lambda s: math.exp(s) * (1 - s) / total - 1, -700, 0, xtol=1e-13))


def concentrated_budget(epsilon, delta):
    """Return the rho whose simple conversion gives (epsilon, delta): Eq. (22)."""
    log_term = math.log(1 / delta)
    return (math.sqrt(epsilon + log_term) - math.sqrt(log_term)) ** 2


def budget_of_a_trial(epsilon, delta, gamma):
    """Split the total (epsilon, delta) by Eq. (36) and (37)."""
    delta_2 = root_of_total_delta(delta)
    delta_trial = (gamma * delta_2) ** 2 / 2
    epsilon_trial = epsilon / 3 - math.sqrt(2 * delta_trial)
    return Budget(
        epsilon_trial,
        delta_trial,
        delta_2,
        math.log(1 / delta_2) / gamma,
        concentrated_budget(epsilon_trial, delta_trial),
    )


def likelihood_range(sigma, y_bound):
    """Centre and radius of the log-likelihoods of a record: Eq. (34) and (35)."""
    radius = (y_bound / sigma) ** 2
    return -0.5 * math.log(2 * math.pi) - math.log(sigma) - radius, radius


def is_possible(mean, n_records, sigma, y_bound, test):
    """Whether a released mean log-likelihood passes the printed or the corrected test."""
    bound = sum(likelihood_range(sigma, y_bound))
    return (n_records * mean if test == "printed" else mean) <= bound


def observations(rng, n):
    """Inputs, shape (n, 1), and sin(2x)/(2x) with noise of standard deviation 0.1."""
    X = rng.uniform(-4, 4, (n, 1))
    return X, function(X) + TRUE_PAIR[0] * rng.normal(size=n)


def function(X):
    return np.sinc(2 * X[:, 0] / np.pi)


def trial(train, validation, pair, budget, release, Z=INDUCING_POINTS):
    """Fit a pair on one half, and release its mean log-likelihood on the other."""
    sigma, length_scale = pair
    gp = DPSparseGPRegressor(
        RBF(length_scale),
        noise_variance=sigma**2,
        inducing_points=Z,
        epsilon=budget.epsilon,
        delta=budget.delta,
        y_bounds=(-Y_BOUND, Y_BOUND),
        **RELEASES[release],
    ).fit(*train)
    center, radius = likelihood_range(sigma, Y_BOUND)
    likelihoods = np.clip(gp.log_predictive_density(*validation), center - radius, center + radius)
    score = CoinPressMean(mu=math.sqrt(2 * budget.rho), center=center, radius=radius)
    return gp, score.release(likelihoods)


def select(X, y, epsilon, release, gamma, rng, *, delta=DELTA, Z=INDUCING_POINTS):
    """Algorithm 2 under both tests: for each, the best (mean, pair, model) and the rejections.

    Also the number of trials, which a private program must not tell.
    """
    half = len(y) // 2
    train, validation = (X[:half], y[:half]), (X[half:], y[half:])
    budget = budget_of_a_trial(epsilon, delta, gamma)
    # The same law as stopping after each trial with probability gamma.
    n_trials = min(int(rng.geometric(gamma)), math.ceil(budget.max_trials))
    best = dict.fromkeys(TESTS, (-math.inf, None, None))
    rejected = dict.fromkeys(TESTS, 0)
    for _ in range(n_trials):
        pair = PAIRS[rng.integers(len(PAIRS))]
        gp, mean = trial(train, validation, pair, budget, release, Z)
        for test in TESTS:
            if not is_possible(mean, half, pair[0], Y_BOUND, test):
                rejected[test] += 1
            elif mean > best[test][0]:
                best[test] = (mean, pair, gp)
    return best, rejected, n_trials


def error_of(gp):
    return np.nan if gp is None else np.sqrt(np.mean((gp.predict(LINE) - function(LINE)) ** 2))


def measure(options):
    """One row for each release, epsilon and test."""
    for release, epsilon in itertools.product(options.release, options.epsilon):
        rng = np.random.default_rng(options.seed)  # of data, trials and choices, not of the noise
        start, runs = time.process_time(), []
        for _ in range(options.runs):
            runs.append(select(*observations(rng, N_RECORDS), epsilon, release, options.gamma, rng))
        seconds, n_trials = time.process_time() - start, sum(n for *_, n in runs)
        for test in TESTS:
            yield {
                "release": release,
                "epsilon": epsilon,
                "test": test,
                **summary([best[test] for best, *_ in runs]),
                "rejected": round(sum(counts[test] for _, counts, _ in runs) / n_trials, 3),
                "mean_trials": round(n_trials / options.runs, 1),
                "cpu_ms_of_a_trial": round(1000 * seconds / n_trials, 1),
            }


def summary(chosen):
    """Counts of picked pairs, and the error over the runs that returned a model."""
    pairs = [pair for _, pair, gp in chosen if gp is not None]
    errors = np.array([error_of(gp) for *_, gp in chosen if gp is not None])
    n = len(pairs)
    return {
        "true_pair": pairs.count(TRUE_PAIR),
        **{f"sigma_{s:.3f}": sum(pair[0] == s for pair in pairs) for s in SIGMAS},
        **{
            f"length_{scale:.2f}": sum(pair[1] == scale for pair in pairs)
            for scale in LENGTH_SCALES
        },
        **{f"pair_{s:.3f}_{scale:.2f}": pairs.count((s, scale)) for s, scale in PAIRS},
        "no_model": len(chosen) - n,
        "rmse": round(errors.mean(), 4) if n else np.nan,
        "standard_error": round(errors.std(ddof=1) / math.sqrt(n), 4) if n > 1 else np.nan,
    }


def show(rows):
    for row in rows:
        sigmas, scales = (
            [count for key, count in row.items() if key.startswith(prefix)]
            for prefix in ("sigma_", "length_")
        )
        print(
            f"{row['release']:9} epsilon {row['epsilon']:4g}  {row['test']:9}  (.1, 1) in "
            f"{row['true_pair']:2}  sigmas {sigmas}  length-scales {scales}  "
            f"none {row['no_model']}  rejected {row['rejected']:.2f}  "
            f"RMSE {row['rmse']:.3f} +- {row['standard_error']:.3f}",
            flush=True,
        )
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--gamma", type=float, default=0.02)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1, 3, 10, 30])
    parser.add_argument("--release", nargs="+", choices=list(RELEASES), default=list(RELEASES))
    parser.add_argument("--seed", type=int, default=0, help="of data and trials, not of the noise")
    parser.add_argument("--csv", help="write the table, with versions and settings")
    options = parser.parse_args()
    settings = {
        "skdpbo": skdpbo.__version__,
        "Python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "records": N_RECORDS,
        "delta": DELTA,
        "y_bound": Y_BOUND,
        **{key: value for key, value in vars(options).items() if key != "csv"},
    }
    comment = "# " + ", ".join(f"{key} {value}" for key, value in settings.items())
    print(comment)
    rows = list(show(measure(options)))
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            file.write(comment + "\n")
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
