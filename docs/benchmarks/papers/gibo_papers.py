"""Experiments of Sopa et al. (2025), with their settings and with the defaults.

    python docs/benchmarks/run.py gibo_papers 4.1 --replications 30 --csv 4_1.csv
    python docs/benchmarks/run.py gibo_papers 4.4 --data PATH/TO/ailerons.csv.gz --replications 5
    python docs/benchmarks/run.py gibo_papers 4.3 --arms gibo --arm "l=.3 length_scale=.3"

Experiments: 4.1 location of a normal, 4.2 Huber regression, 4.3 length-scales of a Gaussian process
(--d of them), 4.4 support-vector regression (d = 33), C.5 4.3 with noisy observations, lasso
penalties of a group lasso (--d groups, ours); see `gibo_tasks.py`. In 4.1 and 4.2 the distance from
the minimiser is compared, averaged over the last steps; in the others every arm has the same number
of evaluations, and it is the mean loss, without noise, of the point it returns. Arms of a
replication share data, start and noise seed: differences are paired.

`paper` is the descent as in the paper (raw units, zero prior mean, AdaGrad); `gibo` is that of
`DPGIBOSearchCV`: unit cube, losses over their bound, a free level; with uniform budgets, the last
point, rate .1 and length-scale .5, where options are to be compared one by one. `random` is
random search, not private; `random + pf` releases one of the same points by permute-and-flip at
the epsilon that mu = 1 is worth at delta = 1e-5. `--arms gp-ucb` runs GP-UCB, not private; see
`gibo_rivals.py`. In C.5 an evaluation is off by N(0, .01^2), the same for every record, and `sigma`
is what the surrogate assumes (a standard deviation, in units of the loss). --arm adds a variant: a
label, then settings that replace those of `gibo` (with ``base=paper`` those of `paper`).

Runs are seeded, so that they can be repeated: they carry no privacy guarantee.
"""

import argparse
import ast
import csv
import importlib.metadata
import json
import math
import time

import numpy as np
from papers.gibo_fitting import FittingPosterior, TellingAdaGrad
from papers.gibo_rivals import mean_loss, random_arms, upper_confidence_arms
from papers.gibo_tasks import GroupLasso, Huber, LengthScales, Location, Svm
from provenance import commit
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct
from threadpoolctl import threadpool_limits

from skdpbo.mechanisms import ClippedMean, noise_source, step_budgets
from skdpbo.model_selection.gibo._descent import PrivateDescent
from skdpbo.surrogate import GradientPosterior

PACKAGES = ("skdpbo", "scikit-learn", "numpy", "scipy")
NO_NOISE = 1e9  # mu
AVERAGES = (0.25, 0.5)  # shares of the last points, reported for every descent

PAPER = {"mu": 1.0, "clip": 1.0, "cube": False, "level": 0.0, "optimizer": "adagrad"}
PAPER |= {"learning_rate": 1.0, "length_scale": 1.0}
GIBO = PAPER | {"cube": True, "level": 10.0, "learning_rate": 0.1, "length_scale": 0.5}
DEFAULT = GIBO | {"clip": 0.3, "learning_rate": 0.2, "length_scale": 0.25}
DEFAULT |= {"budget_schedule": "geometric", "contraction": 0.95}
EXPERIMENTS = {
    "4.1": {
        "task": Location,
        "base": PAPER | {"T": 150, "b": 3, "optimizer": "sgd", "learning_rate": 0.1},
        "arms": {"mu .5": {"mu": 0.5}, "mu 2": {"mu": 2.0}, "mu inf": {"mu": NO_NOISE}},
    },
    "4.2": {
        "task": Huber,
        "base": PAPER | {"T": 100, "b": 2, "optimizer": "sgd", "learning_rate": 0.5},
        "arms": {"gibo": {}, "gibo mu inf": {"mu": NO_NOISE}},
    },
    "4.3": {"task": LengthScales, "base": {"T": 25}},
    "4.4": {"task": Svm, "base": {"T": 30}},
    "lasso": {"task": GroupLasso, "base": {"T": 25}},
    "C.5": {
        "task": LengthScales,
        "base": {"T": 25},
        "arms": {
            f"{name} sigma {s:g}": settings | {"noise_sd": s}
            for name, settings in (("paper", PAPER | {"design_jitter": 0.0}), ("default", DEFAULT))
            for s in (0.01, 1.0, 1e-4)
        },
    },
}
SEARCHES = {
    "gibo": GIBO,
    "gibo mu inf": GIBO | {"mu": NO_NOISE},
    "paper": PAPER,
    "paper mu inf": PAPER | {"mu": NO_NOISE},
}


class Coordinates:
    """A task as a descent sees it: raw, or in the unit cube with losses over their bound."""

    def __init__(self, task, settings):
        self.task, self.cube = task, settings["cube"]
        self.d = len(task.start)
        if self.cube:
            self.origin, self.width, self.bounds = task.low, task.high - task.low, (0.0, 1.0)
        else:
            self.origin, self.width = np.zeros(self.d), np.ones(self.d)
            self.bounds = None if task.low is None else (task.low, task.high)
        self.start = (task.start - self.origin) / self.width
        self.scale = 1.0 / task.bound if self.cube else 1.0

    def raw(self, points):
        return self.origin + np.atleast_2d(points) * self.width

    def losses(self, points):
        return self.task.losses(self.raw(points))


def make_descent(settings, view, seed):
    options = ("clip", "learning_rate", "optimizer", "budget_schedule", "contraction")
    options += ("clip_share", "clip_quantile", "clip_rate")
    return PrivateDescent(
        n_iter=settings["T"],
        mu=settings["mu"],
        batch_size=settings["b"],
        bounds=view.bounds,
        # clipping to [0, bound] would take away the negative half of the noise of C.5
        loss_bound=None if getattr(view.task, "noise", 0.0) else view.task.bound,
        loss_scale=view.scale,
        random_state=seed,
        **{name: settings[name] for name in options if name in settings},
    )


def make_posterior(settings, task):
    scale = 1.0 / task.bound if settings["cube"] else 1.0

    def make(length_scale):
        if isinstance(task, Location):
            kernel = DotProduct(1.0) ** 2
        else:
            kernel = RBF(length_scale)
        if settings["level"]:
            kernel = ConstantKernel(settings["level"]) + kernel
        return GradientPosterior(
            kernel,
            noise_variance=(settings.get("noise_sd", 0.0) * scale) ** 2,
            jitter=settings.get("jitter", 1e-9),
            design_jitter=settings.get("design_jitter", 1e-4),
        )

    if not settings.get("fit_length_scale"):
        return make(settings["length_scale"])
    clip, mu, T = settings["clip"], settings["mu"], settings["T"]
    sigmas = 2 * clip / (task.n_records * step_budgets(mu, T))
    posterior = FittingPosterior(make, settings["length_scale"], sigmas**2)
    TellingAdaGrad.posterior = posterior
    return posterior


def descend(task, settings, seed):
    """Run one descent; return raw points."""
    view = Coordinates(task, settings)
    found = make_descent(settings, view, seed).run(
        view.losses, view.start, make_posterior(settings, task), noise_source(seed)
    )
    return view.raw(found.trajectory)


def averages(trajectory):
    """Return the last point and means of the last ones, by name."""
    T = len(trajectory) - 1
    means = {f"average_{a:g}": trajectory[-math.ceil(a * T) :].mean(axis=0) for a in AVERAGES}
    return {"last": trajectory[-1], **means}


def search_arm(task, settings, seed):
    """Mean losses of the points that a descent returns (4.3, 4.4, C.5)."""
    points = averages(descend(task, settings, seed))
    return {name: mean_loss(task, point) for name, point in points.items()}


def distance_arm(task, settings, seed):
    """Distances from the minimiser, averaged over the last steps, and of averages (4.1, 4.2)."""
    trajectory = descend(task, settings, seed)
    n_last = 50 if isinstance(task, Location) else 25
    distances = np.linalg.norm(trajectory[-n_last:] - task.optimum, axis=1)
    points = averages(trajectory)
    return {"late": distances.mean()} | {
        name: np.linalg.norm(point - task.optimum) for name, point in points.items()
    }


def noisy_gradient_descent(task, settings, seed):
    """4.2 with the records' exact gradients in place of the surrogate's."""
    source, theta, trajectory = noise_source(seed), task.start, [task.start]
    for mu in step_budgets(settings["mu"], settings["T"]):
        mean = ClippedMean(clip=settings["clip"], n_records=task.n_records, mu=float(mu))
        theta = theta - settings["learning_rate"] * mean.release(task.gradients(theta), source)
        trajectory.append(theta)
    return {"late": np.linalg.norm(np.array(trajectory)[-25:] - task.optimum, axis=1).mean()}


def run_replication(name, options, replication):
    """Yield (arm, settings, values, seconds) for one draw of the data."""
    experiment = EXPERIMENTS[name]
    seed = options.seed + replication
    rng = np.random.default_rng(seed)
    if experiment["task"] is Svm:
        if options.data is None:
            raise SystemExit("4.4 needs --data PATH/TO/ailerons.csv.gz")
        task = Svm(rng, options.data, *options.rows, options.features)
    elif experiment["task"] is LengthScales:
        task = LengthScales(rng, options.width, options.d)
    elif experiment["task"] is GroupLasso:
        task = GroupLasso(rng, options.d)
    else:
        task = experiment["task"](rng)
    if name == "C.5":
        task.noise = 0.01
    is_search = task.low is not None
    base, arms = dict(experiment["base"]), dict(experiment.get("arms", SEARCHES))
    if is_search:
        base["b"] = len(task.start) + 1
    run = search_arm if is_search else distance_arm
    if is_search and (options.arms is None or "random" in options.arms):
        clock = time.process_time()
        results = random_arms(task, base["T"] * base["b"], seed)
        for arm, values in results.items():
            yield arm, {}, values, time.process_time() - clock
    if is_search and "gp-ucb" in (options.arms or []):
        task.rng = np.random.default_rng([seed, 2])
        clock = time.process_time()
        for arm, values in upper_confidence_arms(task, base["T"] * base["b"], seed):
            yield arm, {}, values, time.process_time() - clock
            clock = time.process_time()
    if name == "4.2":
        yield "gradient descent", base, noisy_gradient_descent(task, base, seed), 0.0
    if options.arms is not None:
        arms = {arm: arms[arm] for arm in options.arms if arm not in ("random", "gp-ucb")}
    for label, changes in options.arm or []:
        start = PAPER if changes.get("base") == "paper" or not is_search else GIBO
        arms[label] = {**(start if is_search else {}), **changes}
    for arm, changes in arms.items():
        settings = {**base, **changes}
        task.rng = np.random.default_rng([seed, 2])  # noise of C.5: the same for every arm
        clock = time.process_time()
        yield arm, settings, run(task, settings, seed), time.process_time() - clock


def summarise(rows, reference):
    """Print mean, standard error and median of each arm, and paired differences."""
    groups = {}
    for row in rows:
        for measure, value in row["values"].items():
            groups.setdefault((row["arm"], measure), {})[row["replication"]] = value
    base = groups.get(reference)
    for (arm, measure), values in groups.items():
        x = np.array(list(values.values()))
        error = x.std(ddof=1) / math.sqrt(len(x)) if len(x) > 1 else math.nan
        line = f"{arm:28} {measure:13} {x.mean():8.4f} +- {error:.4f}  median {np.median(x):8.4f}"
        if base is not None:
            d = x - np.array([base[r] for r in values])
            error = d.std(ddof=1) / math.sqrt(len(d)) if len(d) > 1 else math.nan
            line += f"  minus {reference[0]}: {d.mean():+.4f} +- {error:.4f}"
            line += f", lower in {np.sum(d < 0)} of {len(d)}"
        print(line)


def write(path, rows, experiment, seed):
    versions = " ".join(f"{name}={importlib.metadata.version(name)}" for name in PACKAGES)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["experiment", "seed", "replication", "arm", "measure", "value", "cpu"])
        writer.writerows([["#versions", versions], ["#commit", commit()]])
        writer.writerow(["#settings", json.dumps(EXPERIMENTS_USED)])
        for row in rows:
            for measure, value in row["values"].items():
                cells = [experiment, seed, row["replication"], row["arm"], measure]
                writer.writerow([*cells, repr(float(value)), f"{row['cpu']:.2f}"])


EXPERIMENTS_USED = {}


def variant(text):
    """Parse "label key=value ..."; values are Python literals or names."""
    words = text.split()
    label = [word for word in words if "=" not in word]
    changes = dict(word.split("=", 1) for word in words if "=" in word)
    for key, value in changes.items():
        try:
            changes[key] = ast.literal_eval(value)
        except ValueError:
            changes[key] = value  # a name
    return " ".join(label) or text, changes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--replications", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", help="ailerons.csv.gz, for 4.4")
    parser.add_argument("--d", type=int, default=10, help="parameters of 4.3, C.5 and lasso")
    parser.add_argument("--width", type=float, default=1.0, help="of the inputs' cube in 4.3, C.5")
    parser.add_argument("--rows", type=int, nargs=2, default=(1000, 5000), help="of 4.4")
    parser.add_argument("--features", type=int, default=30, help="of 4.4; d is three more")
    parser.add_argument("--arms", nargs="*", help="of the experiment's own arms; default: all")
    parser.add_argument("--arm", type=variant, action="append", help="label key=value ...")
    parser.add_argument("--reference", default="gibo", help="arm for paired differences")
    parser.add_argument("--measure", default=None, help="its measure; default: the first")
    parser.add_argument("--csv")
    options = parser.parse_args()
    rows = []
    with threadpool_limits(1):
        for replication in range(options.replications):
            for arm, settings, values, cpu in run_replication(
                options.experiment, options, replication
            ):
                EXPERIMENTS_USED[arm] = settings
                rows.append({"arm": arm, "replication": replication, "values": values, "cpu": cpu})
                shown = "  ".join(f"{key} {value:.4f}" for key, value in values.items())
                print(f"{replication:3} {arm:28} {shown}  ({cpu:.1f} s)", flush=True)
            if options.csv:
                write(options.csv, rows, options.experiment, options.seed)
    is_search = EXPERIMENTS[options.experiment]["task"] in (LengthScales, GroupLasso, Svm)
    summarise(rows, (options.reference, options.measure or ("last" if is_search else "late")))


if __name__ == "__main__":
    main()
