"""Cost of a search under each of joblib's backends, on two workers of one machine.

The same guided `DPGridSearchCV` of boosted trees, its runs alternating between the backends:
wall time, and processor time of this process and of all those that it has started. Ray and Dask
are on the machine itself, so that this is what they cost, not what more machines would gain.

    python docs/benchmarks/run.py backends [--repeats 3] [--csv FILE]

Needs distributed, ray and psutil; a backend that is not installed is left out.
"""

import argparse
import contextlib
import logging
import os
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
from joblib import parallel_config
from provenance import RESULTS, append_row, read_rows
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier

from skdpbo import DPGridSearchCV

CSV = RESULTS / "backends.csv"
BACKENDS = ("sequential", "threading", "loky", "dask", "ray")
PEERS = ("joblib", "dask", "distributed", "ray")


def on_dask(stack):
    import distributed

    cluster = stack.enter_context(
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    )
    stack.enter_context(distributed.Client(cluster))


def on_ray(stack):
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.util.joblib import register_ray

    folder = stack.enter_context(tempfile.TemporaryDirectory())
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        _temp_dir=folder,
    )
    stack.callback(ray.shutdown)
    register_ray()


class ProcessorTime:
    """Seconds of this process and of its descendants; of those that end, as last seen."""

    def __init__(self, interval=0.05):
        self._seen, self._first, self._interval = {}, None, interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _look(self):
        here = psutil.Process()
        for process in (here, *here.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._seen[process.pid, process.create_time()] = times.user + times.system

    def _watch(self):
        while not self._stop.wait(self._interval):
            self._look()

    def __enter__(self):
        self._look()
        self._first = sum(self._seen.values())
        self._thread.start()
        return self

    def __exit__(self, *exc_info):
        self._stop.set()
        self._thread.join()
        self._look()
        self.seconds = sum(self._seen.values()) - self._first


def search(options):
    X, y = make_classification(options.rows, 20, n_informative=8, random_state=0)
    half = options.rows * 3 // 4
    grid = {"max_depth": [1, 2, 3, 4], "max_features": [4, 16]}
    model = GradientBoostingClassifier(n_estimators=options.trees, random_state=0)
    rows = {"X": X[:half], "y": y[:half], "X_val": X[half:], "y_val": y[half:]}
    return DPGridSearchCV(model, grid, random_state=0), rows


def measure(backend, options):
    """Return (wall seconds, processor seconds, what was released) of one search."""
    searcher, rows = search(options)
    jobs = {} if backend == "sequential" else {"n_jobs": 2}
    with ProcessorTime() as used, parallel_config(backend=backend, **jobs):
        start = time.perf_counter()
        searcher.fit(**rows)
        wall = time.perf_counter() - start
    return wall, used.seconds, (searcher.best_params_, searcher.best_score_)


def show(path):
    rows = read_rows(path)
    print("backend        first fit   wall (min-max)         processor (min-max)    seconds")
    for backend in dict.fromkeys(row["backend"] for row in rows):
        runs = [row for row in rows if row["backend"] == backend]
        later = [row for row in runs if row["run"] != "0"] or runs
        figures = [float(runs[0]["wall"])]
        for key in ("wall", "processor"):
            values = [float(row[key]) for row in later]
            figures += [np.median(values), min(values), max(values)]
        print(
            "{:12} {:9.1f} {:8.1f} ({:.1f}-{:.1f}) {:12.1f} ({:.1f}-{:.1f})".format(
                backend, *figures
            )
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="runs after the first")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--csv", type=Path, default=CSV)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    settings = {"rows": options.rows, "trees": options.trees, "workers": 2, "seed": 0}
    options.csv.unlink(missing_ok=True)
    with contextlib.ExitStack() as stack:
        backends = list(BACKENDS)
        for name, start in (("dask", on_dask), ("ray", on_ray)):
            try:
                start(stack)
            except ImportError:
                backends.remove(name)
        expected = None
        for run in range(options.repeats + 1):
            for backend in backends:
                wall, processor, released = measure(backend, options)
                expected = released if expected is None else expected
                assert released == expected, backend
                row = {"backend": backend, "run": run, "wall": wall, "processor": processor}
                append_row(options.csv, row, settings=settings, peers=PEERS)
    show(options.csv)


if __name__ == "__main__":
    main()
