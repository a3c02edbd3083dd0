"""Plot of the outsourced experiments: ``python benchmarks/outsourced.py plot``."""

import csv
from pathlib import Path

import numpy as np

IMAGE = Path(__file__).resolve().parents[1] / "docs" / "images" / "outsourced.svg"
STYLES = {
    "random": ("random search, private", "0.5", "--"),
    "non-private": ("exact rows, no privacy", "black", ":"),
    "published": ("published transform, no privacy", "#d95f02", "-"),
    "gaussian": ("Gaussian rows", "#7570b3", "-"),
    "l2_laplace + domain": ("skdpbo's default", "#1b9e77", "-"),
}
PANELS = (("mechanisms_4.42", "3.0042"), ("mechanisms_4.42", "1.0000"))


def read(path):
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
        groups, checkpoints = read(results / f"outsourced_{name}.csv")
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
