"""Choice of a kernel and a noise level when every record is private.

The problem of Honkela & Melkas (2021), Section 5.3: 2048 observations of sin(2x)/(2x) on [-4, 4]
with noise of standard deviation .1; length-scales 1/3, 1 and 3, noise levels .1/3, .1 and .3.

    python docs/benchmarks/run.py private_kernel_choice [--runs 40] [--seed 0] [--epsilon 1 3 10]
        [--function sinc] [--setting paper wide] [--method ...] [--csv private_kernel_choice.csv]

``--function`` 0.33, 1.00 or 3.00 draws the function from a Gaussian process with that length-scale
and standard deviation .5, which the kernels think is 1.

Methods, all (epsilon, 1e-5)-private for all records:

    paper            Algorithm 2 with its GP, its budget (Eq. 23, 36, 37) and the corrected test
    liu_talwar       DPGridSearchCV(protect="all"), default GP, accounting of Eq. (23)
    profile_paper_gp DPGridSearchCV(protect="all"), profile accounting, the paper's GP
    profile          the same with the default GP
    profile_coinpress  the same, scored by COINPRESS over a wide range
    profile_released the same, noise level from each release instead of the grid
    residual_each    a release for each length-scale at mu / sqrt 3, least privatised residuals
    residual_joint   one release for all kernels, least privatised residuals
    best             one release for all kernels, largest evidence
    average          DPSparseGPRegressor with a list of kernels: their average
    known            DPSparseGPRegressor with the true length-scale, noise level from the release

Reported: root mean square error of the function on 200 points of [-3.5, 3.5], the share of these
points within 1.96 posterior standard deviations, how often each length-scale was picked. Seeds are
those of the data; the noise is fresh. This is made-up data: private records would pay for every
run.
"""

import argparse
import csv
import itertools
import math
import platform
import time
import warnings
from dataclasses import replace

import numpy as np
import papers.honkela_melkas_tuning as paper
import scipy
import sklearn
from sklearn.gaussian_process.kernels import RBF

import skdpbo
from skdpbo import DPGridSearchCV
from skdpbo.exceptions import SkdpboWarning
from skdpbo.gaussian_process import DPSparseGPRegressor
from skdpbo.gaussian_process.sparse._kernel_family import KernelFamily
from skdpbo.gaussian_process.sparse._release_methods import WhitenedMethod
from skdpbo.model_selection import PrivateSelection, make_log_density_scorer
from skdpbo.privacy import epsilon_from_mu, mu_from_epsilon

LENGTH_SCALES, SIGMAS = paper.LENGTH_SCALES, paper.SIGMAS
N_RECORDS, DELTA, Y_BOUND, TRIALS = paper.N_RECORDS, 1e-5, paper.Y_BOUND, 30
KERNELS = [RBF(length) for length in LENGTH_SCALES]
SETTINGS = {
    "paper": np.linspace(-3, 3, 9)[:, None],  # as in the paper
    "wide": np.linspace(-4, 4, 15)[:, None],  # the default number of points, over all inputs
}
PAPER_GP = paper.RELEASES["published"]


def gp_of(Z, **parameters):
    return DPSparseGPRegressor(
        inducing_points=Z, y_bounds=(-Y_BOUND, Y_BOUND), delta=DELTA, **parameters
    )


def searched(X, y, epsilon, Z, *, accounting="profile", noise="grid", mean="clipped", gp=None):
    """Private selection by the library: 1638 records train, 410 score."""
    space = {"kernel": KERNELS}
    if noise == "grid":
        space["noise_variance"] = [sigma**2 for sigma in SIGMAS]
    wide = {"lower": -200.0, "upper": 2.5, "mean": "coinpress", "scale": 1.0}
    search = DPGridSearchCV(
        gp_of(Z, **(gp or {})),
        space,
        epsilon=epsilon,
        delta=DELTA,
        protect=PrivateSelection(accounting=accounting, expected_trials=TRIALS),
        scoring=make_log_density_scorer(**(wide if mean == "coinpress" else LOG_DENSITY)),
        score_fraction=0,
    )
    return search.fit(X, y).best_estimator_


# From nothing known (the log density of a uniform law on the targets' range is -1.1) to a standard
# deviation of .033.
LOG_DENSITY = {"lower": -2.5, "upper": 2.5}


def published(X, y, epsilon, Z):
    """Algorithm 2 with the corrected test, and gamma for as many trials."""
    rng = np.random.default_rng()
    best, _, _ = paper.select(X, y, epsilon, "published", 1 / TRIALS, rng, delta=DELTA, Z=Z)
    return best["corrected"][2]


def one_release_each(X, y, epsilon, Z):
    """Compose a release for each kernel; the sum of squares is common, and so cancels."""
    mu = mu_from_epsilon(epsilon, DELTA) / math.sqrt(len(KERNELS))
    share = epsilon_from_mu(mu, DELTA)
    fits = []
    for kernel in KERNELS:
        gp = ByResiduals([kernel], epsilon=share, **choice_parameters(Z)).fit(X, y)
        fits.append((gp.residuals_[0], gp))
    return min(fits, key=lambda fit: fit[0])[1]


def choice_parameters(Z):
    return {"inducing_points": Z, "y_bounds": (-Y_BOUND, Y_BOUND), "delta": DELTA}


class ResidualMethod(WhitenedMethod):
    """The same release, with the privatised residuals under each kernel as its evidence."""

    def _under(self, part, T, error, moments, estimate, noise_variance):
        fit = super()._under(part, T, error, moments, estimate, noise_variance)
        (model,) = self._models(estimate, signal_variance=part.signal_variance, features=T)
        # Without the noisy sum of squares, which is common to all kernels.
        residuals = model.residual_sum(fit.noise_variance[0]) - model.yy
        return replace(fit, log_evidence=-1e6 * residuals)


class ByEvidence(DPSparseGPRegressor):
    """Takes the likeliest kernel alone."""

    def _publish(self, shown, Z, prior_mean, fits, single_target):
        best = max(range(len(fits)), key=lambda k: fits[k].log_evidence)
        shown = replace(shown, family=KernelFamily.of([shown.family.kernels[best]]))
        super()._publish(shown, Z, prior_mean, [fits[best]], single_target)


class ByResiduals(ByEvidence):
    """Takes the kernel of least residuals."""

    def _method(self, *given, **common):
        method = super()._method(*given, **common)
        method.__class__ = ResidualMethod
        return method

    @property
    def residuals_(self):
        return -1e-6 * self.log_evidence_


METHODS = {
    "paper": published,
    "liu_talwar": lambda *a: searched(*a, accounting="liu_talwar"),
    "profile_paper_gp": lambda *a: searched(*a, gp=PAPER_GP),
    "profile": searched,
    "profile_coinpress": lambda *a: searched(*a, mean="coinpress"),
    "profile_released": lambda *a: searched(*a, noise="released"),
    "residual_each": one_release_each,
    "residual_joint": lambda X, y, epsilon, Z: ByResiduals(
        KERNELS, epsilon=epsilon, **choice_parameters(Z)
    ).fit(X, y),
    "best": lambda X, y, epsilon, Z: ByEvidence(
        KERNELS, epsilon=epsilon, **choice_parameters(Z)
    ).fit(X, y),
    "average": lambda X, y, epsilon, Z: DPSparseGPRegressor(
        KERNELS, epsilon=epsilon, **choice_parameters(Z)
    ).fit(X, y),
}


def fitted(method, X, y, epsilon, Z, function):
    if method == "known":
        return gp_of(Z, kernel=RBF(FUNCTIONS[function]), epsilon=epsilon).fit(X, y)
    return METHODS[method](X, y, epsilon, Z)


# True length-scale; for the paper's function the one that the paper takes for it.
FUNCTIONS = {"sinc": 1.0, **{f"{length:.2f}": length for length in LENGTH_SCALES}}


def problem(function, seed):
    """Inputs, noisy targets, and the function on the line."""
    rng = np.random.default_rng(seed)
    if function == "sinc":
        return *paper.observations(rng, N_RECORDS), paper.function(paper.LINE)
    points = np.linspace(-4, 4, 400)
    K = RBF(FUNCTIONS[function])(points[:, None]) + 1e-8 * np.eye(400)
    values = 0.5 * np.linalg.cholesky(K) @ rng.normal(size=400)
    X = rng.uniform(-4, 4, (N_RECORDS, 1))
    y = np.interp(X[:, 0], points, values) + paper.TRUE_PAIR[0] * rng.normal(size=N_RECORDS)
    return X, y, np.interp(paper.LINE[:, 0], points, values)


def measured(method, epsilon, Z, seeds, function="sinc"):
    """One row: errors and choices over the seeds."""
    errors, inside, lengths, sigmas = [], [], [], []
    start = time.process_time()
    for seed in seeds:
        X, y, truth = problem(function, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkdpboWarning)
            gp = fitted(method, X, y, epsilon, Z, function)
        if gp is None:  # every trial failed the test of Algorithm 2
            continue
        mean, std = gp.predict(paper.LINE, return_std=True)
        error = mean - truth
        errors.append(math.sqrt(np.mean(error**2)))
        inside.append(np.mean(np.abs(error) < 1.96 * std))
        lengths.append(gp.kernel_.length_scale)
        sigmas.append(math.sqrt(gp.noise_variance_))
    return {
        "rmse": round(float(np.mean(errors)), 4),
        "standard_error": round(float(np.std(errors, ddof=1)) / math.sqrt(len(errors)), 4),
        "coverage": round(float(np.mean(inside)), 3),
        **{f"length_{s:.2f}": sum(np.isclose(lengths, s)) for s in LENGTH_SCALES},
        "median_sigma": round(float(np.median(sigmas)), 4),
        "no_model": len(seeds) - len(errors),
        "cpu_ms": round(1000 * (time.process_time() - start) / len(seeds), 1),
    }


def rows(options):
    seeds = range(options.seed, options.seed + options.runs)
    for function, setting, method, epsilon in itertools.product(
        options.function, options.setting, options.method, options.epsilon
    ):
        row = {"function": function, "setting": setting, "method": method, "epsilon": epsilon}
        row |= {"first_seed": options.seed, "runs": options.runs}
        yield row | measured(method, epsilon, SETTINGS[setting], seeds, function)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0, help="first seed of the data")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1, 3, 10])
    parser.add_argument("--setting", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--function", nargs="+", choices=FUNCTIONS, default=["sinc"])
    methods = [*METHODS, "known"]
    parser.add_argument("--method", nargs="+", choices=methods, default=methods)
    parser.add_argument("--csv", help="write the table, with versions, as it grows")
    options = parser.parse_args()
    versions = {
        "skdpbo": skdpbo.__version__,
        "Python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
    comment = "# " + ", ".join(f"{name} {version}" for name, version in versions.items())
    comment += f"; {N_RECORDS} records, delta {DELTA}, y_bound {Y_BOUND}, {TRIALS} trials expected"
    print(comment)
    file, writer = None, None
    for row in rows(options):
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        if options.csv:
            if writer is None:
                file = open(options.csv, "w", newline="")  # noqa: SIM115
                file.write(comment + "\n")
                writer = csv.DictWriter(file, row, lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)
            file.flush()


if __name__ == "__main__":
    main()
