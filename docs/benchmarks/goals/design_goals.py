"""Goals of the design, every one measured beside its references in one run.

    python docs/benchmarks/run.py design_goals [--rows search gibo ...] [--quick] [--scale 1]
    python docs/benchmarks/run.py design_goals --read [--docs]     # print and draw what is stored

Rows: `search` (time per evaluation), `gibo` (batch design), `sparse` (fit of a private sparse GP),
`noise` (Gaussian draws), `regret` (of the released candidate), `sparse error`, `selection` (noise
of private selection), `outsourced`. Each is a function of `design_goals_speed.py` or
`design_goals_quality.py`; docs/benchmarks/design_goals.md shows the results.

The numbers of repeats are those of the published table times `--scale`; `--quick` takes a tenth of
them, and smaller problems where a single run is slow. The whole takes about 18 minutes of processor
time on one core, a third of it the peers'. A peer that is not installed has a line
that says so (``pip install -e ".[bench]"``; the oracle dp-accounting comes with ``".[test]"``).

Figures are written after every row, so that a run may be cut short. With `--rows` the others are
kept from the file, if they are of the same versions on the same machine.
"""

import argparse
import datetime
import time
import warnings
from pathlib import Path

import goals.design_goals_quality as quality
import goals.design_goals_speed as speed
from goals.design_goals_lines import by_question, rounded, show, with_ratios
from goals.design_goals_tables import write_tables
from provenance import (
    FOLDER,
    IMAGES,
    RESULTS,
    commit,
    provenance,
    read_provenance,
    read_rows,
    write_rows,
)
from threadpoolctl import threadpool_limits

CSV = RESULTS / "design_goals.csv"
PAGE = FOLDER / "design_goals.md"
FIGURE = IMAGES / "design_goals.svg"
PEERS = ("scikit-optimize", "optuna", "torch", "gpytorch", "opendp", "dp-accounting")
ROWS = {
    "selection": quality.selection,
    "noise": speed.gaussian_noise,
    "sparse": speed.sparse,
    "sparse error": quality.sparse_error,
    "gibo": speed.gibo,
    "regret": quality.regret,
    "outsourced": quality.outsourced_search,
    "search": speed.search,
}
SAME = ("versions", "machine", "blas threads", "settings")


class Options:
    """Options of the rows."""

    def __init__(self, quick, scale):
        self.quick, self.scale = quick, 0.1 if quick else scale

    def times(self, n):
        """Number of repeats where the published table has n."""
        return max(1 if self.quick else 2, round(n * self.scale))


def kept(path, names, settings):
    """Lines of other rows in the file, if it was made in the same way."""
    if not path.exists():
        return []
    then, now = read_provenance(path)[-1], provenance(settings, PEERS)
    if any(then.get(key) != now[key] for key in SAME):
        print(f"{path.name} was made otherwise: its rows are not kept")
        return []
    return [each for each in read_rows(path) if each["row"] not in names]


def measure(names, options, path, settings):
    """Run the rows, and write the file after each."""
    lines = kept(path, names, settings) if set(names) < set(ROWS) else []
    stamp = {"date": datetime.date.today().isoformat(), "commit": commit()}
    for name in names:
        start = time.process_time()
        found = by_question(with_ratios(list(ROWS[name](options))))
        show(found)
        print(f"{name}: {time.process_time() - start:.0f} s of processor time")
        lines += [rounded(each) | stamp for each in found]
        lines.sort(key=lambda each: list(ROWS).index(each["row"]))
        write_rows(path, lines, settings=settings, peers=PEERS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--quick", action="store_true", help="a tenth of the repeats")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of repeats")
    parser.add_argument("--csv", type=Path, help="where to write; default: the stored results")
    parser.add_argument("--figure", type=Path, help="where to draw; default: that of the docs")
    parser.add_argument("--read", action="store_true", help="print and draw the file only")
    parser.add_argument("--docs", action="store_true", help="write the tables of the page")
    options = parser.parse_args()
    path = options.csv or (Path("design_goals_quick.csv") if options.quick else CSV)
    figure = options.figure or (path.with_suffix(".svg") if path != CSV else FIGURE)
    if not options.read:
        warnings.simplefilter("ignore")
        settings = {"quick": options.quick, "scale": options.scale, "seeds": "0, 1, ..."}
        with threadpool_limits(limits=1):
            measure(options.rows, Options(options.quick, options.scale), path, settings)
    lines = read_rows(path)
    if options.read:
        show(lines)
    print_verdict(lines)
    draw(lines, figure)
    if options.docs:
        write_tables(lines, read_provenance(path)[-1], PAGE)


def print_verdict(lines):
    goals = [each for each in lines if each["goal"]]
    missed = [each for each in goals if each["met"] != "yes"]
    print(f"\n{len(goals) - len(missed)} of {len(goals)} goals met")
    for each in missed:
        print(
            f"  missed: {each['row']}, {each['setting']}, {each['metric']}: {each['value']} "
            f"({each['goal']})"
        )


def draw(lines, path):
    try:
        from goals.design_goals_plot import plot
    except ImportError:
        print("matplotlib not installed: no figure")
        return
    plot(lines, path)
    print(f"figure: {path.name}")


if __name__ == "__main__":
    main()
