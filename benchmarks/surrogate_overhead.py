"""How long does the surrogate take per evaluation of a Bayesian search?

Run as ``python benchmarks/surrogate_overhead.py [--n-candidates 1000] [--t 50 200]``.

Goal: at most 2 ms (T = 50) and 5 ms (T = 200), on a 2-d candidate set, scheduled fits of the
hyper-parameters included. One evaluation is timed from the released value to the next suggestion:
conditioning, hyper-parameters where they are due, acquisition over all candidates. The objective
itself costs nothing. Methods:

- skdpbo: `CandidatePosterior`, hyper-parameters when `refit_due(t)`;
- scikit-learn, same schedule: `GaussianProcessRegressor` refitted at each evaluation, its kernel
  optimised at the same t;
- scikit-learn, every step: its kernel optimised at each evaluation, as its users write it;
- scikit-optimize `Optimizer.ask/tell` and optuna `GPSampler`, where they can be imported.

BLAS has one thread. "median" and "mean" are over all evaluations of a run: the median is a step
without a fit, the mean spreads the fits over the run. "last 10" is the median of the last ten.
"""

import argparse
import importlib.metadata
import platform
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel
from threadpoolctl import threadpool_limits

from skdpbo.surrogate import (
    CandidatePosterior,
    default_kernel,
    fit_hyperparameters,
    refit_due,
    upper_confidence_bound,
)

N_INITIAL = 5
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
clock = time.perf_counter


def objective(x):
    return 0.9 - 0.3 * ((x[0] - 0.3) ** 2 + 0.5 * np.sin(5 * x[1]) ** 2 + 0.1 * np.cos(9 * x[0]))


class Skdpbo:
    """The incremental posterior."""

    def __init__(self, X, noise_variance):
        self.X, self.fit = X, None
        self.surrogate = CandidatePosterior(
            default_kernel(X.shape[1]), X, noise_variance=noise_variance
        )

    def step(self, index, value):
        self.surrogate.append(index, value)
        if refit_due(len(self.surrogate)):
            s = self.surrogate
            self.fit = fit_hyperparameters(
                default_kernel(self.X.shape[1]),
                self.X[s.observed],
                s.values,
                previous=self.fit,
                n_starts=2 if self.fit else 3,
            )
            self.surrogate = s.with_kernel(
                self.fit.kernel,
                noise_variance=self.fit.noise_variance,
                prior_mean=self.fit.prior_mean,
            )
        return int(upper_confidence_bound(self.surrogate.mean, self.surrogate.std).argmax())


class ScikitLearn:
    """A loop around GaussianProcessRegressor, optimising its kernel when `due(t)`."""

    def __init__(self, X, noise_variance, due):
        self.X, self.due, self.index, self.y = X, due, [], []
        self.kernel = default_kernel(X.shape[1]) + WhiteKernel(noise_variance, (1e-6, 1.0))

    def step(self, index, value):
        self.index.append(index)
        self.y.append(value)
        optimizer = "fmin_l_bfgs_b" if self.due(len(self.y)) else None
        gp = GaussianProcessRegressor(self.kernel, optimizer=optimizer, normalize_y=True)
        gp.fit(self.X[self.index], self.y)
        self.kernel = gp.kernel_
        mean, std = gp.predict(self.X, return_std=True)
        return int(upper_confidence_bound(mean, std).argmax())


def time_candidate_search(make, X, T, seed):
    """Seconds of each of the T evaluations, and the best value found."""
    rng = np.random.RandomState(seed)
    method, values, seconds, suggestion = make(X), [], [], None
    for t in range(T):
        index = int(rng.randint(len(X))) if t < N_INITIAL else suggestion
        values.append(objective(X[index]))
        start = clock()
        suggestion = method.step(index, values[-1])
        seconds.append(clock() - start)
    return np.array(seconds), max(values)


def time_scikit_optimize(T, seed):
    import skopt

    optimizer = skopt.Optimizer(
        [(0.0, 1.0), (0.0, 1.0)], base_estimator="GP", n_initial_points=N_INITIAL, random_state=seed
    )
    values, seconds = [], []
    for _ in range(T):
        start = clock()
        x = optimizer.ask()
        asked = clock() - start
        values.append(objective(x))
        start = clock()
        optimizer.tell(x, -values[-1])
        seconds.append(asked + clock() - start)
    return np.array(seconds), max(values)


def time_optuna(T, seed):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=N_INITIAL)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    values, seconds = [], []
    for _ in range(T):
        start = clock()
        trial = study.ask()
        x = [trial.suggest_float(name, 0.0, 1.0) for name in ("a", "b")]
        asked = clock() - start
        values.append(objective(x))
        start = clock()
        study.tell(trial, values[-1])
        seconds.append(asked + clock() - start)
    return np.array(seconds), max(values)


def methods(X):
    noise = 1e-3
    scheduled = {
        "skdpbo": lambda X: Skdpbo(X, noise),
        "scikit-learn, same schedule": lambda X: ScikitLearn(X, noise, refit_due),
        "scikit-learn, every step": lambda X: ScikitLearn(X, noise, lambda t: t >= N_INITIAL),
    }
    for name, make in scheduled.items():
        yield name, lambda T, seed, make=make: time_candidate_search(make, X, T, seed)
    yield "scikit-optimize", time_scikit_optimize
    yield "optuna GPSampler", time_optuna


def version(package):
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} absent"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n-candidates", type=int, nargs="+", default=[1000])
    parser.add_argument("--t", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: on a busy machine")
    options = parser.parse_args()
    globals()["clock"] = CLOCKS[options.clock]
    warnings.simplefilter("ignore", ConvergenceWarning)
    packages = ("numpy", "scipy", "scikit-learn", "scikit-optimize", "optuna")
    print(f"Python {platform.python_version()},", ", ".join(map(version, packages)))
    print(f"1 BLAS thread, {options.repeats} runs, milliseconds ({options.clock}) per evaluation")
    header = f"{'method':30}{'n':>6}{'T':>5}{'median':>9}{'mean':>9}{'last 10':>9}{'max':>9}"
    print(header + f"{'best':>9}")
    for n in options.n_candidates:
        X = np.random.RandomState(0).rand(n, 2)
        for T in options.t:
            for name, run in methods(X):
                try:
                    runs = [run(T, seed) for seed in range(options.repeats)]
                except ImportError:
                    continue
                ms = 1e3 * np.array([seconds for seconds, _ in runs])
                columns = (np.median(ms), ms.mean(), np.median(ms[:, -10:]), ms.max())
                best = np.mean([value for _, value in runs])
                row = "".join(f"{c:9.2f}" for c in columns)
                print(f"{name:30}{n:6}{T:5}{row}{best:9.4f}", flush=True)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
