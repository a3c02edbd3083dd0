"""Published method and default of this package on the papers' own tasks: figure of stored results.

    python docs/benchmarks/run.py ahead_of_papers [--image docs/images/papers.svg]

A panel for each paper, drawn from the files in `results/` that other benchmarks have written:
`kusner_epsilons.csv` (Kusner et al.), `outsourced_mechanisms_4.42*.csv` (Kharkovskii et al.),
`gibo_4_3_mu_seed_100*.csv` (Sopa et al.), `growth_private_mean.csv` (Honkela & Melkas). Bars:
one standard error. Losses of Example 4.3 differ by a factor of 20 between runs, so they are divided
by that of random search in the same run: geometric mean and standard error of the logarithms.
"""

import argparse
import csv
import math

import matplotlib.pyplot as plt
import numpy as np
from papers.outsourced import read_regrets
from provenance import IMAGES, RESULTS, read_rows

PUBLISHED, OURS, REFERENCE = "#d95f02", "#1b9e77", "0.5"
MUS = {0.2: "mu .2", 0.5: "mu .5", 1.0: "mu 1"}


def landscapes():
    """Yield lines (label, colour, x, mean, error) of the regret against epsilon."""
    methods = {
        "Algorithm 1": ("published", PUBLISHED),
        "default": ("this package", OURS),
        "uniform": ("uniform draw", REFERENCE),
    }
    rows = read_rows(RESULTS / "kusner_epsilons.csv")
    for name, (label, colour) in methods.items():
        found = {}
        for row in rows:
            if row["method"] == name:
                found.setdefault(float(row["epsilon"]), []).append(float(row["regret"]))
        errors = [np.std(values, ddof=1) / math.sqrt(len(values)) for values in found.values()]
        yield label, colour, list(found), [np.mean(values) for values in found.values()], errors


def outsourced():
    """Yield lines of the regret after 50 answers against epsilon."""
    arms = (
        ("published (no privacy)", PUBLISHED, "published", "4.42"),
        ("this package", OURS, "l2_laplace + domain", "4.42_beta_5"),
        ("random search", REFERENCE, "random", "4.42"),
    )
    for label, colour, arm, name in arms:
        groups, _ = read_regrets(RESULTS / f"outsourced_mechanisms_{name}.csv")
        x, mean, errors = [], [], []
        for epsilon in ("1.0000", "3.0042"):
            final = groups.get((arm, epsilon), groups.get((arm, "")))[:, -1]
            x.append(float(epsilon))
            mean.append(final.mean())
            errors.append(final.std(ddof=1) / math.sqrt(len(final)))
        yield label, colour, x, mean, errors


def length_scales():
    """Yield lines of the loss of Example 4.3, over that of random search, against mu."""
    losses = {}
    for name in ("", "_default"):
        with open(RESULTS / f"gibo_4_3_mu_seed_100{name}.csv", newline="") as file:
            for row in csv.DictReader(file):
                if not row["experiment"].startswith("#"):
                    key = row["arm"], row["measure"]
                    losses.setdefault(key, []).append(float(row["value"]))
    for label, colour, arm, measure in (
        ("published", PUBLISHED, "{}", "last"),
        ("this package", OURS, "default {}", "average_0.25"),
        ("random search", REFERENCE, "random", "last"),
    ):
        base = np.log(losses["random", "last"])
        logs = [np.log(losses[arm.format(name), measure]) - base for name in MUS.values()]
        mean = np.array([np.exp(log.mean()) for log in logs])
        errors = [np.exp(log.std(ddof=1) / math.sqrt(len(log))) - 1 for log in logs]
        yield label, colour, list(MUS), mean, mean * errors


def growth():
    """Yield lines of the error of height against epsilon."""
    rows = read_rows(RESULTS / "growth_private_mean.csv")
    methods = {
        "generic": ("published", PUBLISHED),
        "whitened": ("this package", OURS),
        "no privacy": ("no privacy", REFERENCE),
    }
    for name, (label, colour) in methods.items():
        mine = [row for row in rows if row["method"] == name]
        mean = [float(row["rmse_dm"]) for row in mine]
        errors = [float(row["standard_error"]) for row in mine]
        if name == "no privacy":
            mean, errors = mean * 2, errors * 2
            yield label, colour, [0.3, 30.0], mean, errors
        else:
            yield label, colour, [float(row["epsilon"]) for row in mine], mean, errors


PANELS = (
    (landscapes, "Kusner et al.: 100 landscapes", "epsilon", "mean regret"),
    (outsourced, "Kharkovskii et al.: synthetic", "epsilon", "simple regret, prior sd"),
    (length_scales, "Sopa et al.: Example 4.3", "mu", "loss over random search's"),
    (growth, "Honkela & Melkas: Section 5.4", "epsilon", "error of height, dm"),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", default=IMAGES / "papers.svg")
    options = parser.parse_args()
    plt.rcParams.update({"font.size": 8, "svg.hashsalt": "skdpbo", "svg.fonttype": "none"})
    figure, axes = plt.subplots(2, 2, figsize=(8.4, 5.6), layout="constrained")
    for axis, (lines, title, xlabel, ylabel) in zip(axes.flat, PANELS, strict=True):
        for label, colour, x, mean, errors in lines():
            style = "--" if colour == REFERENCE else "-o"
            axis.errorbar(x, mean, errors, fmt=style, color=colour, capsize=2, label=label)
            shown = ", ".join(
                f"{at:g}: {m:.4g} +- {e:.2g}" for at, m, e in zip(x, mean, errors, strict=True)
            )
            print(f"{title:34} {label:24} {shown}")
        axis.set(xscale="log", yscale="log", title=title, xlabel=xlabel, ylabel=ylabel)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    figure.savefig(options.image, metadata={"Date": None})


if __name__ == "__main__":
    main()
