"""Regret that privacy of the rows costs an outsourced optimisation.

    python docs/benchmarks/run.py outsourced omega --data PATH/TO/lendingclub_2007_2011.csv.gz
    python docs/benchmarks/run.py outsourced tables --runs 150
    python docs/benchmarks/run.py outsourced epsilons --runs 150
    python docs/benchmarks/run.py outsourced mechanisms --length-scale 4.42 --runs 300
    python docs/benchmarks/run.py outsourced mechanisms --length-scale 4.42 --sqrt-beta 5 --runs 300
    python docs/benchmarks/run.py outsourced loans --data PATH/TO/lendingclub_2007_2011.csv.gz
    python docs/benchmarks/run.py outsourced loan_tables --runs 50 --data PATH/TO/lendingclub...gz
    python docs/benchmarks/run.py outsourced places --runs 100
    python docs/benchmarks/run.py outsourced place_tables --runs 50
    python docs/benchmarks/run.py outsourced branin
    python docs/benchmarks/run.py outsourced summary --csv FILE
    python docs/benchmarks/run.py outsourced plot

`omega` prints the thresholds of the published transform and the branch that it takes; `tables` and
`epsilons` are its own experiments on the grid (Tables 1 to 3, Figure 2a), `loan_tables` those on
loans (Tables 4 to 6), `places` and `place_tables` those on a stand-in for property prices (Figure
2c, Tables 7 to 9);
`mechanisms`, `loans` and `branin` compare it with valid mechanisms and random search. Regret is the
best value of all rows less the best queried one, in prior standard deviations, after 1, 2, 5, ...
answers.
Arms of a run share the function, the first row and the noise seed: differences are paired.

Arms: `published` has no privacy, whatever its epsilon. `gaussian`, `l2_laplace`: noisy rows and the
noisy-input kernel; `+ domain`: rows moved back into the public domain; `trusted`: with the kernel
of exact rows. `random` is private, too.

Runs are seeded, so that they can be repeated: they carry no privacy guarantee.
"""

import argparse
import csv
import functools
import importlib.metadata
import math

import numpy as np
from papers.outsourced_tasks import DELTA, PUBLISHED, Branin, Grid, Loans, Places
from provenance import IMAGES, RESULTS, commit
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from skdpbo.gaussian_process import GPUCBModeler, ProjectionRelease
from skdpbo.gaussian_process.papers._kharkovskii2020 import published_transform, threshold
from skdpbo.mechanisms import GaussianMechanism, L2Laplace, noise_source
from skdpbo.privacy import PrivacyGuarantee

CHECKPOINTS = (1, 5, 10, 20, 30, 40, 50)
VOID = PrivacyGuarantee(epsilon=1.0).voided("an experiment with seeded noise")
EPSILONS = (math.exp(1.1), 1.0)
VALID = ("gaussian", "gaussian + domain", "l2_laplace trusted", "l2_laplace", "l2_laplace + domain")
IMAGE = IMAGES / "outsourced.svg"
STYLES = {
    "random": ("random search, private", "0.5", "--"),
    "non-private": ("exact rows, no privacy", "black", ":"),
    "published": ("published transform, no privacy", "#d95f02", "-"),
    "gaussian": ("Gaussian rows", "#7570b3", "-"),
    "l2_laplace + domain": ("skdpbo's default", "#1b9e77", "-"),
}
PANELS = (("mechanisms_4.42", "3.0042"), ("mechanisms_4.42", "1.0000"))
FIELDS = ("experiment", "length_scale", "epsilon", "r", "arm", "run")


def shown_after(experiment):
    """Return the numbers of answers after which regrets are stored."""
    return (*CHECKPOINTS, 75, 100) if experiment.startswith("place") else CHECKPOINTS


def release_of(task, Z, noise_std=0.0, domain=None):
    return ProjectionRelease(
        Z=Z,
        noise_std=noise_std,
        domain=domain,
        projection=None,
        mechanism="experiment",
        guarantee=VOID,
        displacement=1.0,
        data_norm=25.0,
    )


def released(task, arm, epsilon, r, seed):
    """Return what the modeler gets in an arm; the noise depends on the seed and the mechanism."""
    if arm == "non-private":
        return release_of(task, task.X)
    if arm == "published":
        M = np.random.default_rng([*seed, 2]).standard_normal((task.X.shape[1], r))
        return release_of(task, published_transform(task.X, M, epsilon, DELTA[task.name]).Z)
    Z, std = noisy_rows(task, arm.split()[0], epsilon, seed)
    domain = task.domain if arm.endswith("domain") else None
    return release_of(task, Z, 0.0 if arm.endswith("trusted") else std, domain)


@functools.lru_cache(maxsize=4)  # the arms of a run share their noise
def noisy_rows(task, mechanism, epsilon, seed):
    d = task.X.shape[1]
    if mechanism == "gaussian":
        noise = GaussianMechanism(
            epsilon=epsilon, delta=DELTA[task.name], sensitivity=1.0, n_draws=task.X.size
        )
        std = noise.sigma
    else:
        noise = L2Laplace(epsilon, 1.0, d)
        std = noise.scale * math.sqrt(d + 1)
    return noise.release(task.X, noise_source(np.random.default_rng([*seed, 2]))), std


def optimise(task, f, answers, release, n_answers, seed, sqrt_beta=None):
    """Return the regret after each answer, shape (n_answers,)."""
    modeler = GPUCBModeler(
        release,
        kernel=task.signal_variance * RBF(task.length_scale),
        noise_variance=task.noise_variance,
        prior_mean=task.prior_mean,
        sqrt_beta=sqrt_beta,
        random_state=seed,
    )
    for _ in range(n_answers):
        row = modeler.ask()
        modeler.tell(row, answers[row])
    return f.max() - np.maximum.accumulate(f[modeler.answers[0]])


def run(task, run_number, arms, n_answers, options):
    """Yield (arm, epsilon, r, regrets) for each arm, a tuple (arm, epsilon, r)."""
    rng = np.random.default_rng([options.seed, run_number])
    f = task.values(rng)
    # the answers of a fixed data set are exact: what a row deviates by belongs to it
    sd = math.sqrt(task.noise_variance) if isinstance(task, Grid) else 0.0
    answers = f + sd * rng.standard_normal(len(f))
    for arm, epsilon, r in arms:
        if arm == "random":
            rows = rng.choice(len(f), n_answers, replace=False)
            regrets = f.max() - np.maximum.accumulate(f[rows])
        else:
            seed = (options.seed, run_number)
            release = released(task, arm, epsilon, r, seed)
            first = 1000 * options.seed + run_number
            regrets = optimise(task, f, answers, release, n_answers, first, options.sqrt_beta)
        yield arm, epsilon, r, regrets


def comparison(epsilons, r):
    """Arms of a comparison of mechanisms."""
    private = [(arm, eps, "") for eps in epsilons for arm in VALID]
    published = [("published", eps, r) for eps in epsilons]
    return [("random", "", ""), ("non-private", "", ""), *published, *private]


def table_arms(name):
    """Arms of the columns of three published tables."""
    return [("published", epsilon, r) for epsilon, row in PUBLISHED[name].items() for r in row]


def experiment(options):
    """Return the task, its arms, the number of answers and how many of them are not counted."""
    name = options.experiment
    arms = [("random", "", ""), ("non-private", "", "")]
    # the first row is not counted in T of the published experiments: 50 more follow it
    if name == "epsilons":
        arms += [("published", math.exp(power), 10) for power in (1.1, 0.9, 0.0)]
        return Grid(options.length_scale or 5.893), arms, 51, 1
    if name == "tables":
        return Grid(options.length_scale or 5.893), arms + table_arms("grid"), 51, 1
    if name == "loan_tables":
        return Loans(options.data, options.scaling), arms + table_arms("loans"), 51, 1
    if name == "place_tables":
        return Places(), arms + table_arms("property"), 101, 1
    if name == "places":
        arms += [("published", math.exp(power), 15) for power in (2.8, 1.0, 0.5)]
        return Places(), arms, 101, 1
    if name == "mechanisms":
        return Grid(options.length_scale or 4.42), comparison(EPSILONS, 10), 50, 0
    if name == "branin":
        return Branin(), comparison(EPSILONS, 10), 50, 0
    epsilons = [math.exp(power) for power in (2.9, 2.0, 1.0)]
    return Loans(options.data), comparison(epsilons, 15), 51, 1


def omega(options):
    """Print threshold and branch for each entry of the published tables."""
    smallest = {"grid": smallest_singular_value(Grid(1.0).X)}
    smallest["property"] = smallest_singular_value(Places().X)  # of the stand-in
    if options.data:
        smallest["loans"] = smallest_singular_value(Loans(options.data).X)
    for name, tables in PUBLISHED.items():
        sigma = smallest.get(name)
        print(f"{name}: " + (f"sigma_min {sigma:.3f}" if sigma else "no data"))
        for epsilon, row in tables.items():
            cells = []
            for r in row:
                value = threshold(r, epsilon, DELTA[name])
                branch = "" if sigma is None else (" if" if sigma >= value else " else")
                cells.append(f"r={r}: {value:.1f}{branch}")
            print(f"  epsilon e^{math.log(epsilon):.1f}  " + "  ".join(cells))


def smallest_singular_value(X):
    return float(np.linalg.svd(X - X.mean(axis=0), compute_uv=False).min())


def summarise(rows, reference=("published",)):
    """Print the mean final regret of each arm and its paired difference to the reference."""
    groups = {}
    for row in rows:
        groups.setdefault((row["arm"], row["epsilon"], row["r"]), {})[row["run"]] = row["final"]
    for (arm, epsilon, r), values in groups.items():
        x = np.array(list(values.values()))
        label = f"{arm:20} {epsilon if epsilon == '' else format(epsilon, '.4g'):>6} {r:>3}"
        line = f"{label} {x.mean():.4f} +- {error(x):.4f}"
        base = [g for g in groups if g[0] in reference and g[1] == epsilon and arm != g[0]]
        if len(base) == 1:
            d = x - np.array([groups[base[0]][run] for run in values])
            line += f"   paired {d.mean():+.4f} +- {error(d):.4f}, lower in {np.sum(d < 0)}"
        print(line)


def read(path):
    """Return the runs of a file as `summarise` takes them."""
    with open(path, newline="") as file:
        rows = [row for row in csv.DictReader(file) if not row["experiment"].startswith("#")]
    for row in rows:
        row["epsilon"] = row["epsilon"] and float(row["epsilon"])
        row["final"] = float([row[name] for name in row if name.startswith("after_")][-1])
    return rows


def error(x):
    return x.std(ddof=1) / math.sqrt(len(x)) if len(x) > 1 else math.nan


def write(path, rows, options):
    versions = " ".join(
        f"{name}={importlib.metadata.version(name)}"
        for name in ("skdpbo", "scikit-learn", "numpy", "scipy")
    )
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        shown = shown_after(options.experiment)
        writer.writerow([*FIELDS, *(f"after_{t}" for t in shown)])
        writer.writerow(["#versions", versions, f"seed={options.seed}", f"commit={commit()}"])
        for row in rows:
            cells = [row[name] for name in FIELDS]
            cells[2] = cells[2] if cells[2] == "" else f"{cells[2]:.4f}"
            writer.writerow([*cells, *(f"{value:.4f}" for value in row["regrets"])])


def read_regrets(path):
    """Return {(arm, epsilon): regrets of shape (runs, checkpoints)} and the checkpoints."""
    with open(path, newline="") as file:
        rows = [row for row in csv.DictReader(file) if not row["experiment"].startswith("#")]
    columns = [name for name in rows[0] if name.startswith("after_")]
    groups = {}
    for row in rows:
        values = [float(row[name]) for name in columns]
        groups.setdefault((row["arm"], row["epsilon"]), []).append(values)
    checkpoints = [int(name.removeprefix("after_")) for name in columns]
    return {key: np.array(values) for key, values in groups.items()}, checkpoints


def plot(results):
    """Draw mean simple regret against the number of answers."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(
        1, len(PANELS), figsize=(4.2 * len(PANELS), 3.6), sharey=True, layout="constrained"
    )
    for ax, (name, epsilon) in zip(axes, PANELS, strict=True):
        groups, checkpoints = read_regrets(results / f"outsourced_{name}.csv")
        for arm, (label, colour, line) in STYLES.items():
            x = groups.get((arm, epsilon), groups.get((arm, "")))
            mean, error = x.mean(axis=0), x.std(axis=0, ddof=1) / np.sqrt(len(x))
            ax.plot(checkpoints, mean, color=colour, ls=line, lw=2, label=label)
            ax.fill_between(checkpoints, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
        ax.set(title=f"epsilon = {float(epsilon):g}, displacement 1", xlabel="answers")
        ax.set(yscale="log", xlim=(1, checkpoints[-1]), ylim=(0.05, 3))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("mean simple regret\n(prior standard deviations)")
    axes[0].legend(frameon=False, fontsize=8)
    plt.rcParams["svg.hashsalt"] = "skdpbo"  # the same file from the same figures
    fig.savefig(IMAGE, metadata={"Date": None})
    print(IMAGE)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ("omega", "tables", "epsilons", "mechanisms", "loans", "loan_tables", "branin")
    names += ("places", "place_tables", "summary", "plot")
    parser.add_argument("experiment", choices=names)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", help="lendingclub_2007_2011.csv.gz, for loans and omega")
    parser.add_argument("--scaling", default="log", choices=("log", "ranks"), help="of loan_tables")
    parser.add_argument("--length-scale", type=float, help="of the grid's functions")
    parser.add_argument("--sqrt-beta", type=float, help="weight of exploration; default: paper's")
    parser.add_argument("--arms", nargs="*", help="of the experiment's own; default: all")
    parser.add_argument("--csv", help="where to write the runs")
    options = parser.parse_args()
    if options.experiment == "omega":
        return omega(options)
    if options.experiment == "summary":
        return summarise(read(options.csv))
    if options.experiment == "plot":
        return plot(RESULTS)
    task, arms, n_answers, uncounted = experiment(options)
    arms = [arm for arm in arms if not options.arms or arm[0] in options.arms]
    print(f"length-scale {task.length_scale:.4g}, noise variance {task.noise_variance:.3g}")
    rows = []
    with threadpool_limits(1):
        for run_number in range(options.runs):
            for arm, epsilon, r, regrets in run(task, run_number, arms, n_answers, options):
                shown = shown_after(options.experiment)
                kept = [regrets[t + uncounted - 1] for t in shown]
                values = (options.experiment, round(task.length_scale, 4), epsilon, r, arm)
                row = dict(zip(FIELDS, (*values, run_number), strict=True))
                rows.append(row | {"regrets": kept, "final": kept[-1]})
            if options.csv and run_number % 10 == 9:
                write(options.csv, rows, options)
    if options.csv:
        write(options.csv, rows, options)
    return summarise(rows)


if __name__ == "__main__":
    main()
