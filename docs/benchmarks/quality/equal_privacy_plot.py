"""Figure of `equal_privacy.py`: one panel for each data set."""

from pathlib import Path

import numpy as np
from provenance import IMAGES

IMAGE = IMAGES / "equal_privacy.svg"
# Colours that stay apart for colour-blind readers (Okabe and Ito); colour, marker, line.
STYLES = {
    "DPBayesSearchCV": ("#0072B2", "o", "-"),
    "DPSparseGPRegressor": ("#0072B2", "o", "-"),
    "DPSparseGPRegressor on residuals": ("#009E73", "D", "-"),
    "DPGIBOSearchCV": ("#009E73", "D", "-"),
    "DPRandomizedSearchCV": ("#56B4E9", "s", "-"),
    "DPGridSearchCV": ("#CC79A7", "^", "-"),
    "grid, exponential mechanism": ("#E69F00", "v", "--"),
    "random, exponential mechanism": ("#E69F00", "v", "--"),
    "OpenDP, Laplace, basic": ("0.55", "P", "--"),
    "OpenDP, Gaussian, zCDP": ("#D55E00", "X", "--"),
    "Kusner Alg. 1": ("#C8B400", "*", "--"),
    "Honkela & Melkas, as published": ("#D55E00", "X", "--"),
    "linear on residuals": ("#56B4E9", "s", "--"),
    "linear, noisy statistics": ("#E69F00", "v", "--"),
    "same features, noisy statistics": ("#CC79A7", "^", "--"),
    "output perturbation": ("0.55", "P", "--"),
}
LINES = {
    "all candidates, no privacy": ("ceiling: no privacy", "black", "-"),
    "DP-GIBO, no privacy": ("ceiling: no privacy", "black", "-"),
    "sparse GP, no privacy": ("ceiling: no privacy", "black", "-"),
    "public rows alone": ("public rows alone", "black", "-."),
    "default parameters": ("default parameters", "0.4", ":"),
    "random candidate": ("floor: random candidate, or the public mean", "0.4", "--"),
    "public mean": ("floor: random candidate, or the public mean", "0.4", "--"),
}
OURS = ("DPBayesSearchCV", "DPGIBOSearchCV", "DPSparseGPRegressor",
        "DPSparseGPRegressor on residuals", "DPRandomizedSearchCV", "DPGridSearchCV")  # fmt: skip
PUBLIC = ("public rows alone", "public mean", "default parameters", "random candidate")
TITLES = {
    "adult": "adult: boosting",
    "hospital": "hospital: decision tree",
    "loans": "loans: boosting",
    "ailerons": "ailerons: kernel ridge, 11 parameters",
    "ailerons GP": "ailerons: private regression",
    "growth GP": "growth: private regression",
}
UNITS = {"ailerons": " (1e-4)", "ailerons GP": " (1e-4)", "growth GP": " (dm)"}
TICKS = {"ailerons GP": (2, 3, 4, 6), "growth GP": (0.5, 0.7, 1, 1.5, 2, 3)}


def is_fixed(method):
    """Whether a method does not depend on epsilon."""
    return method in PUBLIC or method.endswith("no privacy")


def draw(found, path):
    """`found`: {panel: (metric, {(method, epsilon): values of shape (splits,)})}."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullLocator

    columns = min(3, len(found))
    n_rows = -(-len(found) // columns)
    figure, axes = plt.subplots(
        n_rows, columns, figsize=(4.0 * columns, 3.3 * n_rows + 1.9), layout="constrained",
        squeeze=False,
    )  # fmt: skip
    legends = {"choice of parameters": {}, "private regression": {}, "for all epsilon": {}}
    for axis, (panel, (metric, values)) in zip(axes.flat, found.items(), strict=False):
        question = "private regression" if "GP" in panel else "choice of parameters"
        legends[question] |= draw_curves(axis, values)
        legends["for all epsilon"] |= draw_lines(axis, values)
        axis.set(xscale="log", title=TITLES[panel], ylabel=metric + UNITS.get(panel, ""))
        axis.spines[["top", "right"]].set_visible(False)
        if panel in TICKS:
            axis.set_yscale("log")
            axis.yaxis.set_minor_locator(NullLocator())
            axis.set_yticks(TICKS[panel], [f"{tick:g}" for tick in TICKS[panel]])
        better = "lower" if metric == "RMSE" else "higher"
        axis.set_xlabel(f"epsilon ({better} is better)")
    for axis in axes.flat[len(found) :]:
        axis.remove()
    for place, (title, handles) in zip(("left", "center", "right"), legends.items(), strict=True):
        figure.legend(
            handles.values(), handles.keys(), title=title, alignment="left", frameon=False,
            loc=f"outside lower {place}", fontsize=9,
        )  # fmt: skip
    plt.rcParams["svg.hashsalt"] = "skdpbo"  # the same file from the same figures
    figure.savefig(path, metadata={"Date": None} if Path(path).suffix == ".svg" else None)
    print(path)


def draw_curves(axis, values):
    """Draw means and standard errors against epsilon and return {label: handle}."""
    epsilons = sorted({epsilon for _, epsilon in values})
    methods = [name for name in STYLES if (name, epsilons[0]) in values]
    handles = {}
    for k, method in enumerate(methods):
        cells = [values[method, epsilon] for epsilon in epsilons]
        mean = [cell.mean() for cell in cells]
        error = [cell.std(ddof=1) / np.sqrt(len(cell)) for cell in cells]
        colour, marker, line = STYLES[method]
        x = np.array(epsilons) * 1.05 ** (k - len(methods) / 2)  # bars side by side
        handles[label_of(method)] = axis.errorbar(
            x, mean, error, None, line, color=colour, marker=marker, ms=5, lw=1.5, elinewidth=1,
            zorder=3 if method in OURS else 2,
        )  # fmt: skip
    return handles


def draw_lines(axis, values):
    """Draw what does not depend on epsilon and return {label: handle}."""
    epsilon = min(epsilon for _, epsilon in values)
    handles = {}
    for method, (label, colour, line) in LINES.items():
        if (method, epsilon) in values:
            height = values[method, epsilon].mean()
            handles[label] = axis.axhline(height, color=colour, ls=line, lw=1.2, zorder=1)
    return handles


def label_of(method):
    return method.replace("grid, ", "").replace("random, ", "")
