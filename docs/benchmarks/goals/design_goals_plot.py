"""Figure of `design_goals.py`: every figure over its goal, ours and the references."""

from pathlib import Path

import matplotlib.pyplot as plt
from goals.design_goals_lines import OURS, question

TITLES = {
    "selection": "Noise multiplier of private selection, 30 trials expected",
    "noise": "10 000 Gaussian draws, ms",
    "sparse": "Fit of a private sparse GP",
    "sparse error": "Error of a private sparse GP",
    "gibo": "Design of a batch, d = 33",
    "regret": "Mean regret of the released candidate",
    "outsourced": "Mean simple regret of outsourced optimisation",
    "search": "Time of a search, ms per evaluation",
}
NO_RATIO = ("coverage of 95 % bands", "epsilon of the precision audit")
REFERENCES = tuple("s^Dv<>P*")
BLUE, RED = "tab:blue", "tab:red"


def plot(lines, path):
    """Draw a panel for each row and in it a line for each question that has a goal."""
    rows = {}
    for each in lines:
        if each["metric"] not in NO_RATIO:
            rows.setdefault(each["row"], {}).setdefault(question(each), []).append(each)
    for row, questions in rows.items():
        goals = {q: group for q, group in questions.items() if any(each["goal"] for each in group)}
        rows[row] = goals
    plt.rcParams.update({"font.size": 8, "svg.hashsalt": "design goals", "svg.fonttype": "none"})
    heights = [max(len(questions), 2.6) + 1.2 for questions in rows.values()]
    figure, axes = plt.subplots(
        len(rows), 1, figsize=(8.5, 0.24 * sum(heights)), height_ratios=heights, sharex=True,
        squeeze=False, layout="constrained",
    )  # fmt: skip
    for axis, (row, questions) in zip(axes.flat, rows.items(), strict=True):
        _panel(axis, row, questions)
    axes.flat[0].set_xscale("log")
    axes.flat[-1].set_xlabel("figure / goal: a filled blue dot left of the line meets its goal")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if str(path).endswith("svg") else None)
    plt.close(figure)


def _panel(axis, row, questions):
    methods = dict.fromkeys(each["method"] for group in questions.values() for each in group)
    styles = _styles(methods)
    for y, group in enumerate(questions.values()):
        goal = next(float(each["goal"].split()[1]) for each in group if each["goal"])
        for each in group:
            if each["repeats"]:
                _dot(axis, y, goal, each, styles[each["method"]])
    axis.axvline(1.0, color=RED, linewidth=1, zorder=1.5)
    axis.set_yticks(range(len(questions)), [_label(q) for q in questions])
    axis.set_ylim(len(questions) - 0.4, -0.6)
    axis.set_title(TITLES.get(row, row), loc="left", fontsize=8, fontweight="bold")
    axis.grid(color="0.93")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    handles = [
        plt.Line2D([], [], linestyle="", markersize=5, label=method, **styles[method])
        for method in methods
    ]
    axis.legend(
        handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=7
    )


def _styles(methods):
    """Ours is a blue dot, its variants are open; references are grey or black."""
    styles, shapes, variants = {}, iter(REFERENCES), iter("dsp")
    for method in methods:
        if method.startswith(OURS):
            main = not any(style["color"] == BLUE for style in styles.values())
            shape = "o" if main else next(variants)
            styles[method] = {"marker": shape, "color": BLUE, "mfc": BLUE if main else "w"}
        else:
            styles[method] = {"marker": next(shapes), "color": "0.35", "mfc": "w"}
    return styles


def _label(questions):
    row, setting, metric = questions
    if row in ("gibo", "sparse"):
        setting = setting.replace("path of steps", "steps").replace(", d=10, m=100", "")
        return f"{setting}, {metric.replace(' at ten times the rows, ratio', ' over that of n/10')}"
    if row == "search":
        return f"{setting}, {metric.removeprefix('ms per evaluation, ')}"
    return setting.replace("30 trials expected, ", "").replace(", delta 1e-4", "")


def _dot(axis, y, goal, each, style):
    x, low, high = (float(each[key]) / goal for key in ("value", "low", "high"))
    axis.plot([max(low, x / 3), high], [y, y], color=style["color"], linewidth=1, alpha=0.6)
    size = 6 if style["mfc"] == BLUE else 5
    axis.plot(x, y, linestyle="", markersize=size, zorder=3 if size == 6 else 2, **style)
