"""Growth of time and memory with T, candidates, n, d and m, for every public class.

    python docs/benchmarks/run.py scaling [--only CLASS ...] [--quick] [--csv FILE] [--figure FILE]
    python docs/benchmarks/run.py scaling --plot     # figure and table only

Each sweep lets one variable grow and keeps the others. Estimators do nothing (`scaling_models.py`),
so that what is measured is the class itself. Time is processor time, the median of at least three
calls; memory is the peak of all that Python and numpy allocate during one call (tracemalloc),
data given to it not included. Exponents are slopes of least squares on the three largest sizes.
Theory is the exponent of the fastest growing term, so a smaller one is no contradiction: at these
sizes another term still rules. Rows are written as they come; those of the same sweep are replaced.
"""

import argparse
import tempfile
import warnings
from pathlib import Path

from provenance import IMAGES, RESULTS, commit, read_rows, write_rows
from scaling.scaling_gps import GPS
from scaling.scaling_plot import draw, summary, table
from scaling.scaling_privacy import PRIVACY
from scaling.scaling_searchers import SEARCHERS
from scaling.scaling_sweep import measure
from threadpoolctl import threadpool_limits

CSV = RESULTS / "scaling.csv"
FIGURE = IMAGES / "scaling.svg"
QUICK = 3  # sizes of each sweep with --quick, the smallest


def sweeps(only):
    chosen = [*SEARCHERS, *GPS, *PRIVACY]
    return [s for s in chosen if not only or any(part in s.subject for part in only)]


def key(row):
    return row["class"], row["variable"]


def in_order(rows):
    """Rows in the order of the sweeps, whenever they were measured."""
    places = {(s.subject, s.variable): i for i, s in enumerate(sweeps(None))}
    return sorted(rows, key=lambda row: places.get(key(row), len(places)))


def run(options):
    path, name = Path(options.csv), commit()
    for sweep in sweeps(options.only):
        sizes = sweep.sizes[:QUICK] if options.quick else sweep.sizes
        rows = [{**row, "commit": name} for row in measure(sweep, sizes, options.repeats)]
        print(summary(rows), flush=True)
        kept = [row for row in read_rows(path) if key(row) != key(rows[0])] if path.exists() else []
        settings = {"repeats": options.repeats, "clock": "process", "data seeds": "0, 1"}
        write_rows(path, in_order([*kept, *rows]), settings=settings)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="CLASS", help="parts of the names of classes")
    parser.add_argument("--quick", action="store_true", help="the smallest sizes only")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--csv", help="where to keep the results")
    parser.add_argument("--figure", help="where to draw them")
    parser.add_argument("--plot", action="store_true", help="draw only")
    options = parser.parse_args()
    quick = Path(tempfile.gettempdir()) / "scaling_quick.csv"  # not in the place of the full run
    default = (quick, quick.with_suffix(".svg")) if options.quick else (CSV, FIGURE)
    options.csv, options.figure = options.csv or default[0], options.figure or default[1]
    warnings.simplefilter("ignore")
    if not options.plot:
        run(options)
    print(table(read_rows(options.csv)))
    draw(read_rows(options.csv), options.figure)
    print(options.csv, options.figure)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
