"""Tables and log-log panels of the results of `scaling.py`."""

import math
from itertools import groupby

from scaling.scaling_sweep import exponent

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


def by_sweep(rows):
    """Rows of each sweep, a list of lists."""
    return [list(g) for _, g in groupby(rows, key=lambda row: (row["class"], row["variable"]))]


def table(rows):
    """Markdown table, one line for each sweep."""
    heads = ["class", "what grows, to", "time: exponent (theory)", "seconds there"]
    heads += ["memory: exponent (theory)", "MB there", "theory"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for group in by_sweep(rows):
        (time, memory), last = fitted(group), group[-1]
        lines.append(
            f"| `{last['class']}` | {last['variable']}, {int(last['size']):,} "
            f"| {time:z.1f} ({float(last['time_theory']):g}) | {float(last['seconds']):.2g} "
            f"| {memory:z.1f} ({float(last['memory_theory']):g}) "
            f"| {float(last['peak_bytes']) / 1e6:.2g} | {last['law']} |"
        )
    return "\n".join(lines)


def draw(rows, path):
    """Draw a panel for each sweep: time on the left axis, memory on the right one."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text as text: a third of the size
    import matplotlib.pyplot as plt

    groups = by_sweep(rows)
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
    """Draw both quantities, thick, and the slopes of theory through their last points, dotted."""
    sizes = [float(row["size"]) for row in rows]
    upper = [sizes[len(sizes) // 2], sizes[-1]]
    sides = ((ax, "seconds", "C0", "o-", 1.0), (ax.twinx(), "peak_bytes", "C1", "s-", 1e-6))
    for (side, column, colour, style, unit), found in zip(sides, fitted(rows), strict=True):
        values = [float(row[column]) * unit for row in rows]
        theory = float(rows[0]["time_theory" if column == "seconds" else "memory_theory"])
        if column == "seconds":
            low, high = ([float(row[f"seconds_{end}"]) for row in rows] for end in ("min", "max"))
            side.fill_between(sizes, low, high, color=colour, alpha=0.2, lw=0)
        side.loglog(sizes, values, style, color=colour, ms=3.5, lw=1.2)
        slope = [values[-1] * (size / sizes[-1]) ** theory for size in upper]
        side.loglog(upper, slope, ":", color=colour, lw=1.2)
        _at_least_two_decades(side, values)
        side.tick_params(axis="y", colors=colour, labelsize=7, which="both")
        side.minorticks_off()
        label = f"{'s' if column == 'seconds' else 'MB'}: {found:z.1f} ({theory:g})"
        left = column == "seconds"
        where = {"x": 0.0, "ha": "left"} if left else {"x": 1.0, "ha": "right"}
        ax.text(y=1.03, s=label, transform=ax.transAxes, color=colour, fontsize=7.5, **where)
    ax.tick_params(axis="x", labelsize=7)
    ax.set_title(f"{rows[0]['class']}\n", fontsize=7.5)
    ax.set_xlabel(rows[0]["variable"], fontsize=7.5, labelpad=1)


def _at_least_two_decades(ax, values):
    """Widen an axis, so that what hardly grows looks so."""
    missing = 2.0 - math.log10(max(values) / min(values))
    if missing > 0:
        margin = 10 ** (missing / 2)
        ax.set_ylim(min(values) / margin, max(values) * margin)
