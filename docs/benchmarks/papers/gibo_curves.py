"""Curves of Examples 4.1 and 4.2 of Sopa et al. (2025): loss, and norms of gradients, step by step.

    python docs/benchmarks/run.py gibo_curves --runs 12 [--image docs/images/gibo_curves.svg]

Figure 1, middle: mean loss of 4.1 above its minimum (a negative log-likelihood, up to a constant)
along descents at mu = .5, 2 and without noise. Figure 2, bottom: norm of the gradient of 4.2 where
the descent stands, `actual`, and of the one that it follows, `followed`, for DP-GIBO and for
gradient descent, at mu = 1 and without noise. Settings of `gibo_papers.py`; means and standard
errors over runs that are seeded: no guarantee.
"""

import argparse
import math

import matplotlib.pyplot as plt
import numpy as np
from papers.gibo_papers import EXPERIMENTS, NO_NOISE, Coordinates, make_descent, make_posterior
from papers.gibo_tasks import Huber, Location
from provenance import IMAGES, RESULTS, write_rows

from skdpbo.mechanisms import ClippedMean, noise_source, step_budgets

CSV = RESULTS / "gibo_curves.csv"
MUS_41 = {"mu .5": 0.5, "mu 2": 2.0, "no noise": NO_NOISE}
MUS_42 = {"mu 1": 1.0, "no noise": NO_NOISE}


def descent(task, settings, seed):
    """Return the trajectory and the gradients that it followed."""
    found = make_descent(settings, Coordinates(task, settings), seed).run(
        task.losses, task.start, make_posterior(settings, task), noise_source(seed)
    )
    return found.trajectory[:-1], found.gradients


def gradient_descent(task, settings, seed):
    """The same from the records' exact gradients."""
    source, theta, points, followed = noise_source(seed), task.start, [], []
    for mu in step_budgets(settings["mu"], settings["T"]):
        release = ClippedMean(clip=settings["clip"], n_records=task.n_records, mu=float(mu))
        points.append(theta)
        followed.append(release.release(task.gradients(theta), source))
        theta = theta - settings["learning_rate"] * followed[-1]
    return np.array(points), np.array(followed)


def curves(seed):
    """Yield (figure, arm, curve)."""
    task = Location(np.random.default_rng(seed))
    best = task.losses(task.optimum[None]).mean()
    for name, mu in MUS_41.items():
        points, _ = descent(task, EXPERIMENTS["4.1"]["base"] | {"mu": mu}, seed)
        yield "1 middle", name, task.losses(points).mean(axis=1) - best
    task = Huber(np.random.default_rng(seed))
    for name, mu in MUS_42.items():
        for method, run in (("DP-GIBO", descent), ("gradient descent", gradient_descent)):
            points, followed = run(task, EXPERIMENTS["4.2"]["base"] | {"mu": mu}, seed)
            actual = [task.gradients(theta).mean(axis=0) for theta in points]
            for what, vectors in (("actual", actual), ("followed", followed)):
                yield "2 bottom", f"{method}, {name}, {what}", np.linalg.norm(vectors, axis=1)


def summary(runs):
    """Return mean and standard error of each curve, by (figure, arm)."""
    found = {}
    for seed in range(runs):
        for figure, arm, curve in curves(seed):
            found.setdefault((figure, arm), []).append(curve)
    return {
        key: (np.mean(table, axis=0), np.std(table, axis=0, ddof=1) / math.sqrt(runs))
        for key, table in found.items()
    }


def draw(found, path):
    plt.rcParams.update({"font.size": 8, "svg.hashsalt": "skdpbo", "svg.fonttype": "none"})
    figure, axes = plt.subplots(1, 3, figsize=(9.0, 3.0), layout="constrained")
    for (panel, arm), (mean, error) in found.items():
        axis = axes[0 if panel == "1 middle" else 2 if "no noise" in arm else 1]
        label = arm if panel == "1 middle" else " ".join(arm.split(", ")[::2])
        steps = np.arange(len(mean))
        (line,) = axis.plot(steps, mean, "--" if "followed" in arm else "-", label=label)
        axis.fill_between(steps, mean - error, mean + error, color=line.get_color(), alpha=0.2)
    norm = "norm of the gradient"
    titles = {"4.1": "loss above the minimum", "4.2, mu = 1": norm, "4.2, no noise": norm}
    for axis, (title, ylabel) in zip(axes, titles.items(), strict=True):
        axis.set(xlabel="step", yscale="log", ylabel=ylabel, title=title)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, loc="upper right" if title == "4.1" else "lower left")
    axes[1].set_ylim(0.02)
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--csv", default=CSV)
    parser.add_argument("--image", default=IMAGES / "gibo_curves.svg")
    options = parser.parse_args()
    found = summary(options.runs)
    rows = [
        {"figure": figure, "arm": arm, "step": t, "mean": f"{m:.6g}", "standard_error": f"{e:.3g}"}
        for (figure, arm), curve in found.items()
        for t, (m, e) in enumerate(zip(*curve, strict=True))
    ]
    write_rows(options.csv, rows, settings={"runs": options.runs, "seeds": "0, 1, ..."})
    draw(found, options.image)
    for (figure, arm), (mean, error) in found.items():
        shown = ", ".join(f"{t}: {mean[t]:.4g} +- {error[t]:.2g}" for t in (0, 1, 2, 3, 5, 10, 20))
        late = mean[-25:].mean()
        print(f"{figure:9} {arm:36} {shown}; last 25 {late:.4g}", flush=True)


if __name__ == "__main__":
    main()
