"""Lines of the table of `design_goals.py`: one measured figure each, with its spread and its goal.

A figure is a median with the quartiles (times), a mean with one standard error (errors, regrets) or
an exact number. Goals are upper limits, unless `at_least` is set.
"""

import math

import numpy as np

COLUMNS = (
    "row", "method", "setting", "metric", "average", "value", "low", "high", "repeats",
    "times_ours", "goal", "met", "clear", "stated",
)  # fmt: skip
OURS = "skdpbo"


def line(row, method, setting, metric, values, average="median", **more):
    """Return one line.

    `stated` is the figure that the project's design document gives for the reference; `goal` the
    limit that ours has to keep. "clear" tells whether two standard errors, or the quartiles, lie on
    the same side of the goal as the figure.
    """
    value, low, high, margin = _summary(np.asarray(values, dtype=float), average)
    return {
        "row": row,
        "method": method,
        "setting": setting,
        "metric": metric,
        "average": average,
        "value": value,
        "low": low,
        "high": high,
        "repeats": np.size(values),
        **_judged(value, margin, more.pop("goal", None), more.pop("at_least", False)),
        **more,
    }


def _summary(values, average):
    """The figure, its bars, and how far on either side it may have to be looked for."""
    if average == "median":
        low, value, high = np.quantile(values, [0.25, 0.5, 0.75])
        return value, low, high, (low, high)
    value = values.mean()
    error = values.std(ddof=1) / math.sqrt(values.size) if values.size > 1 else 0.0
    return value, value - error, value + error, (value - 2 * error, value + 2 * error)


def _judged(value, margin, goal, at_least):
    if goal is None:
        return {}

    def kept(x):
        return x >= goal if at_least else x <= goal

    sides = {bool(kept(x)) for x in (value, *margin)}
    return {
        "goal": f">= {goal:g}" if at_least else f"<= {goal:g}",
        "met": "yes" if kept(value) else "no",
        "clear": "yes" if len(sides) == 1 else "no",
    }


def not_installed(row, method, setting, metric, package, stated=""):
    """Return the line of a peer that cannot be run here."""
    value = f"{package} not installed"
    return {
        "row": row, "method": method, "setting": setting, "metric": metric, "value": value,
        "stated": stated,
    }  # fmt: skip


def is_number(entry):
    return isinstance(entry, int | float)


def with_ratios(lines):
    """Add "times_ours": each figure over that of ours in the same setting and metric."""
    ours = {}
    for each in lines:
        if each["method"] in (OURS, f"{OURS}, default") and is_number(each["value"]):
            ours.setdefault(question(each), each["value"])
    for each in lines:
        base = ours.get(question(each))
        if base and is_number(each["value"]):
            each["times_ours"] = each["value"] / base
    return lines


def question(each):
    return each["row"], each["setting"], each["metric"]


def rounded(each):
    """The line as it is written: four significant digits, every column there."""
    cells = {column: each.get(column, "") for column in COLUMNS}
    return {
        column: f"{cell:.4g}" if isinstance(cell, float) else cell for column, cell in cells.items()
    }


def by_question(lines):
    """Lines with those of the same question together, in the order in which they came."""
    order = list(dict.fromkeys(map(question, lines)))
    return sorted(lines, key=lambda each: order.index(question(each)))


def show(lines):
    """Print lines as a table."""
    last = None
    for each in map(rounded, by_question(lines)):
        if question(each) != last:
            last = question(each)
            print(f"\n{each['row']}: {each['setting']}, {each['metric']}")
        bars = f"[{each['low']}, {each['high']}]" if each["low"] else ""
        ratio = f"x {each['times_ours']}" if each["times_ours"] else ""
        goal = f"goal {each['goal']}: {each['met']}" if each["goal"] else ""
        if each["clear"] == "no":
            goal += " (within the spread)"
        stated = f"stated {each['stated']}" if each["stated"] != "" else ""
        print(
            f"  {each['method']:38}{each['value']:>10} {bars:22} n={each['repeats']!s:5}"
            f"{ratio:11} {stated:14} {goal}",
            flush=True,
        )
