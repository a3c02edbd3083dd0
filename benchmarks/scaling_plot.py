"""Tables and log-log panels of the results of `scaling.py`."""

import math
from itertools import groupby

from scaling_sweep import exponent

COLUMNS = 5


def fitted(rows):
    """Exponents of time and memory of one sweep."""
    sizes = [float(row["size"]) for row in rows]
    return tuple(
        exponent(sizes, [float(row[column]) for row in rows])
        for column in ("seconds", "peak_bytes")
    )


def summary(rows):
    """One line for a sweep."""
    time, memory = fitted(rows)
    first, last = rows[0], rows[-1]
    return (
        f"{first['class']:42} {first['variable']:28} "
        f"time {time:5.2f} (theory {first['time_theory']})  "
        f"memory {memory:5.2f} (theory {first['memory_theory']})  "
        f"{float(first['seconds']):.3g} s at {first['size']}, "
        f"{float(last['seconds']):.3g} s and {float(last['peak_bytes']) / 1e6:.3g} MB "
        f"at {last['size']}"
    )


def draw(rows, path):
    """Draw a panel for each sweep: time on the left axis, memory on the right one."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    groups = [list(g) for _, g in groupby(rows, key=lambda row: (row["class"], row["variable"]))]
    height = math.ceil(len(groups) / COLUMNS)
    figure, axes = plt.subplots(height, COLUMNS, figsize=(3.4 * COLUMNS, 2.5 * height))
    for ax, group in zip(axes.flat, groups, strict=False):
        _panel(ax, group)
    for ax in axes.flat[len(groups) :]:
        ax.axis("off")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _panel(ax, rows):
    sizes = [float(row["size"]) for row in rows]
    exponents = fitted(rows)
    right = ax.twinx()
    sides = ((ax, "seconds", "C0", "o-", 1), (right, "peak_bytes", "C1", "s--", 1e-6))
    for side, column, colour, style, unit in sides:
        values = [float(row[column]) * unit for row in rows]
        if column == "seconds":
            low, high = ([float(row[f"seconds_{end}"]) for row in rows] for end in ("min", "max"))
            side.fill_between(sizes, low, high, color=colour, alpha=0.2, lw=0)
        side.loglog(sizes, values, style, color=colour, ms=3.5, lw=1.2)
        side.tick_params(axis="y", colors=colour, labelsize=7, which="both")
        side.minorticks_off()
    ax.tick_params(axis="x", labelsize=7)
    ax.set_title(f"{rows[0]['class']}\n", fontsize=7.5)
    ax.set_xlabel(rows[0]["variable"], fontsize=7.5, labelpad=1)
    labels = [
        f"s: {exponents[0]:.1f} ({float(rows[0]['time_theory']):g})",
        f"MB: {exponents[1]:.1f} ({float(rows[0]['memory_theory']):g})",
    ]
    for x, label, colour in ((0.0, labels[0], "C0"), (1.0, labels[1], "C1")):
        ax.text(
            x, 1.03, label, transform=ax.transAxes, color=colour, fontsize=7.5,
            ha="left" if x == 0 else "right",
        )  # fmt: skip
