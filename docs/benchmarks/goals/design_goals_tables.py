"""Tables of docs/benchmarks/design_goals.md, written from the figures of `design_goals.py`."""

import re

from goals.design_goals_lines import question

EMPTY = ""


def write_tables(lines, origin, page):
    """Replace what stands between "<!-- NAME -->" and "<!-- end -->", for each row of figures."""
    text = page.read_text("utf-8")
    rows = dict.fromkeys(each["row"] for each in lines)
    blocks = {row: table([each for each in lines if each["row"] == row]) for row in rows}
    blocks["origin"] = (
        f"{origin['machine']}; BLAS threads: {origin['blas threads']}; {origin['versions']}; "
        f"{', '.join(sorted({each['date'] for each in lines}))}."
    )
    blocks["verdict"] = verdict(lines)
    for name, block in blocks.items():
        mark = re.escape(f"<!-- {name} -->")
        text, found = re.subn(
            rf"({mark}\n).*?(<!-- end -->)",
            lambda match, block=block: f"{match[1]}\n{block}\n\n{match[2]}",
            text,
            flags=re.DOTALL,
        )
        if not found:
            print(f"{page.name} has no place for {name!r}")
    page.write_text(text, "utf-8")


def table(lines):
    """Questions down, methods across."""
    methods = list(dict.fromkeys(each["method"] for each in lines))
    questions = {}
    for each in lines:
        questions.setdefault(question(each), {})[each["method"]] = each
    head = ["", *methods, "goal"]
    body = [
        [
            f"{setting}; {metric}",
            *(cell(found.get(method)) for method in methods),
            goal(found.values()),
        ]
        for (_, setting, metric), found in questions.items()
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *body])


def cell(each):
    if each is None:
        return EMPTY
    if not each["repeats"]:
        return each["value"]
    value, low, high = (float(each[key]) for key in ("value", "low", "high"))
    text = short(value)
    if each["average"] == "median" and low < high:
        text += f" ({short(low)} – {short(high)})"
    if each["average"] == "mean":
        text += f" ± {short(high - value, 2)}"
    return text + (f" [{each['stated']}]" if each["stated"] else "")


def short(number, digits=3):
    """Three digits, no exponent, no zero before the point."""
    if abs(number) >= 100:
        return f"{number:.0f}"
    if 0 < abs(number) < 5e-5:
        return "< .0001"
    text = f"{number:.{digits}g}"
    if "e" in text:
        text = f"{number:.5f}"
    return text.removeprefix("0") if text.startswith("0.") else text


def goal(lines):
    texts = []
    for each in lines:
        if each["goal"]:
            limit = each["goal"].replace("<=", "≤").replace(">=", "≥").replace(" 0.", " .")
            met = "met" if each["met"] == "yes" else "**missed**"
            doubt = "" if each["clear"] == "yes" else ", within the spread"
            texts.append(f"{limit}: {met}{doubt}")
    return "; ".join(texts)


def verdict(lines):
    judged = [each for each in lines if each["goal"]]
    met = sum(each["met"] == "yes" for each in judged)
    return f"{met} of {len(judged)} figures with a goal keep it."
