"""Time of 10 000 Gaussian draws, beside OpenDP's.

Both mechanisms release the same 10 000 zeros with the same noise, (epsilon, delta) = (1, 1e-5),
sensitivity 1, on the same lattice; the runs alternate. The number of BLAS threads is irrelevant.

    python docs/benchmarks/run.py noise [--size 10000] [--repeats 15]

Needs OpenDP.
"""

import argparse
import platform
import time
from importlib.metadata import version

import numpy as np

from skdpbo.mechanisms import GaussianMechanism


def mechanism(engine):
    return GaussianMechanism(epsilon=1.0, delta=1e-5, sensitivity=1.0, engine=engine)


def alternate(engines, size, repeats, clock=time.perf_counter):
    """Milliseconds of each release, a list for each engine."""
    values = np.zeros(size)
    times = {engine: [] for engine in engines}
    for _ in range(repeats):
        for engine, each in engines.items():
            start = clock()
            each.release(values)
            times[engine].append(1e3 * (clock() - start))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    engines = {engine: mechanism(engine) for engine in ("skdpbo", "opendp")}
    times = alternate(engines, options.size, options.repeats)
    print(f"Python {platform.python_version()}, numpy {np.__version__}, opendp {version('opendp')}")
    print(f"{options.size} draws, {options.repeats} alternating runs")
    for engine, runs in times.items():
        guarantee = engines[engine].guarantee
        print(
            f"{engine:7} median {np.median(runs):8.2f} ms  min {min(runs):8.2f} ms  "
            f"statistical distance {guarantee.statistical_distance:.1e}"
        )
    print(f"ratio of medians {np.median(times['opendp']) / np.median(times['skdpbo']):.1f}")


if __name__ == "__main__":
    main()
