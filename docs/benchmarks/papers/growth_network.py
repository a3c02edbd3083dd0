"""Private variational network for the height of children, the rival of `growth`.

The DP-BBB of Honkela & Melkas (2021, Section 5.4): Bayes by backprop by DP-SGD, on the same halves.

    python docs/benchmarks/run.py growth_network PATH/TO/mice_fdgs.csv.gz [--runs 20] [--csv FILE]

From the paper: 200 hidden units, rate .01, 40 batches, 200 epochs, 100 draws a prediction. Not
stated there: activation, prior, first deviations, optimiser, clipping, noise of the likelihood.
The likelihood has the noise of `growth`, inputs and heights have public ranges; the other values
are options, chosen on halves of another seed, for which no budget is charged.

A step draws one set of weights. Each row of a Poisson sample gives its gradient for means and
deviations together, clipped in norm; the sum gets Gaussian noise. The prior's part has no data.
Guarantee: (epsilon, 1e-5), one record replaced, as for the Gaussian process, by the PLD accountant
of dp-accounting for this relation (the pair of Koskela et al. 2020). Needs pandas, dp-accounting.
"""

import argparse
import sys
import time

import numpy as np
from dp_accounting import dp_event
from dp_accounting.mechanism_calibration import ExplicitBracketInterval, calibrate_dp_mechanism
from dp_accounting.pld import PLDAccountant
from dp_accounting.privacy_accountant import NeighboringRelation
from papers.growth import DELTA, HEIGHTS, SIGMA, load
from provenance import append_row
from scipy.special import expit, logsumexp

AGES, WEIGHTS = (2.0, 20.0), (10.0, 70.0)  # public ranges: years, kg
SLOPES = {"tanh": lambda h: 1 - h**2, "relu": lambda h: h > 0}  # of hidden values
VALUES = {"tanh": np.tanh, "relu": lambda a: np.maximum(a, 0)}


def noise_multiplier(epsilon, rate, steps):
    """Smallest deviation of the noise, in units of the clipping norm."""

    def event(deviation):
        step = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(deviation))
        return dp_event.SelfComposedDpEvent(step, steps)

    return calibrate_dp_mechanism(
        lambda: PLDAccountant(NeighboringRelation.REPLACE_ONE, 1e-3),
        *(event, epsilon, DELTA, ExplicitBracketInterval(0.3, 400.0)),
        tol=0.005,
    )


def split(w, hidden):
    """Weights of the hidden layer with its offsets, shape (hidden, 3), and of the output."""
    return w[: 3 * hidden].reshape(hidden, 3), w[3 * hidden :]


def outputs(w, X, options):
    """Hidden values with a constant, and outputs; X has a column of ones."""
    inner, outer = split(w, options.hidden)
    values = np.column_stack([VALUES[options.activation](X @ inner.T), np.ones(len(X))])
    return values, values @ outer


def noisy_sum(w, ratio, X, y, deviation, options, rng):
    """Sum over the rows of the clipped gradients of -(y - f)^2 / 2, with noise.

    A row's gradient is (g, g * ratio): for the means, and for what moves the deviations, where
    ratio is the derivative of w. Norms are found without the gradients of single rows.
    """
    values, f = outputs(w, X, options)
    outer = split(w, options.hidden)[1]
    D = SLOPES[options.activation](values[:, :-1]) * outer[:-1]
    inside, outside = split(1 + ratio**2, options.hidden)
    squares = ((D**2 @ inside) * X**2).sum(axis=1) + values**2 @ outside
    norms = np.abs(y - f) * np.sqrt(squares)
    error = (y - f) * np.minimum(1, options.clip / np.maximum(norms, 1e-300))
    g = np.concatenate([(D.T @ (error[:, None] * X)).ravel(), error @ values])
    noise = deviation * rng.standard_normal(2 * len(w))
    return np.concatenate([g, g * ratio]) + options.clip * noise


def fit(X, y, deviation, options, rng):
    """Means and deviations of the weights; `deviation` is that of the noise, times the norm."""
    size, rate = 4 * options.hidden + 1, 1 / options.batches
    variance = (2 * SIGMA / np.ptp(HEIGHTS)) ** 2
    mean = rng.standard_normal(size) * options.start
    theta = np.concatenate([mean, np.full(size, np.log(np.expm1(options.start)))])
    first, second = np.zeros((2, 2 * size))
    for step in range(1, options.epochs * options.batches + 1):
        batch = np.flatnonzero(rng.random(len(y)) < rate)
        s, slope = np.logaddexp(0, theta[size:]), expit(theta[size:])
        draw = rng.standard_normal(size)
        w = theta[:size] + s * draw
        total = noisy_sum(w, draw * slope, X[batch], y[batch], deviation, options, rng)
        prior = [-theta[:size] / options.prior**2, slope * (1 / s - s / options.prior**2)]
        gradient = total / (rate * variance) + np.concatenate(prior)
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient**2 - second)
        change = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        theta += options.learning_rate * change
    return theta[:size], np.logaddexp(0, theta[size:])


def scores(mean, s, X, y, options, rng, draws=100):
    """Error in dm and mean log predictive density, of 100 networks."""
    f = [outputs(w, X, options)[1] for w in mean + s * rng.standard_normal((draws, len(s)))]
    errors = (y - np.array(f)) * np.ptp(HEIGHTS) / 2
    density = logsumexp(-0.5 * (errors / SIGMA) ** 2, axis=0) - np.log(draws)
    density -= np.log(SIGMA * np.sqrt(2 * np.pi))
    return np.sqrt(np.mean(errors.mean(axis=0) ** 2)), density.mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1, 3, 10, 30])
    parser.add_argument("--activation", choices=sorted(VALUES), default="relu")
    for name, value in {"hidden": 200, "epochs": 200, "batches": 40, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, value in {"learning-rate": 0.01, "clip": 0.1, "prior": 0.1, "start": 0.02}.items():
        parser.add_argument(f"--{name}", type=float, default=value)
    parser.add_argument("--csv", help="add a row for each epsilon, with versions and settings")
    options = parser.parse_args()
    X, heights = load(options.path, 1.0)
    low, high = np.transpose([AGES, WEIGHTS])
    X = np.column_stack([2 * (np.clip(X, low, high) - low) / (high - low) - 1, np.ones(len(X))])
    y = 2 * (heights - HEIGHTS[0]) / np.ptp(HEIGHTS) - 1
    settings = {key: value for key, value in vars(options).items() if key not in ("path", "csv")}
    for epsilon in options.epsilon:
        deviation = noise_multiplier(epsilon, 1 / options.batches, options.epochs * options.batches)
        halves, runs = np.random.default_rng(options.seed), []  # the halves of `growth`
        for run in range(options.runs):
            train, test = np.split(halves.permutation(len(y)), [len(y) // 2])
            rng = np.random.default_rng([options.seed, run, 1])  # of the experiment; no guarantee
            start = time.process_time()
            posterior = fit(X[train], np.clip(y[train], -1, 1), deviation, options, rng)
            seconds = time.process_time() - start
            runs.append([*scores(*posterior, X[test], y[test], options, rng), seconds])
        (rmse, density, _), errors = np.mean(runs, 0), np.std(runs, 0, ddof=1) / np.sqrt(len(runs))
        row = {"learning_rate": options.learning_rate, "epsilon": epsilon}
        row |= {"noise_multiplier": deviation, "rmse_dm": rmse, "standard_error": errors[0]}
        row |= {"log_density": density, "log_density_se": errors[1]}
        row = {key: round(float(value), 4) for key, value in row.items()}
        row["median_cpu_s"] = round(float(np.median(runs, 0)[2]), 2)
        print(row, flush=True)
        if options.csv:
            append_row(options.csv, row, settings=settings, peers=("dp-accounting",))


if __name__ == "__main__":
    sys.exit(main())
