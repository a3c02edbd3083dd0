"""One variable grows, the others stay: processor time, peak memory and fitted exponents."""

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

MOST_REPEATS = 7
SECONDS = 0.1  # quick calls are repeated for about as long


@dataclass(frozen=True)
class Sweep:
    """A class, the variable that grows, and what theory says.

    Attributes
    ----------
    subject, variable : str
    sizes : tuple of int
    prepare : callable
        ``prepare(size)`` returns a function without arguments, which is what is measured. It is
        called before every repeat.
    time, memory : float
        Exponents of the fastest growing term; smaller ones may rule at these sizes.
    law : str
        In words, or as a sum of terms.
    fixed : str
        The other variables.
    """

    subject: str
    variable: str
    sizes: tuple
    prepare: Callable
    time: float
    memory: float
    law: str
    fixed: str


def measure(sweep, sizes, repeats):
    """One row for each size. The sizes take turns, so that a busy machine slows all of them."""
    sweep.prepare(sizes[0])()  # imports, first use of compiled parts
    seconds = {size: [] for size in sizes}
    for turn in range(max(repeats, MOST_REPEATS)):
        for size, times in seconds.items():
            if turn < repeats or sum(times) < SECONDS:
                times.append(seconds_of(sweep.prepare(size)))
    return [
        {
            "class": sweep.subject,
            "variable": sweep.variable,
            "size": size,
            "fixed": sweep.fixed,
            "repeats": len(times),
            "seconds": f"{np.median(times):.4g}",
            "seconds_min": f"{min(times):.4g}",
            "seconds_max": f"{max(times):.4g}",
            "peak_bytes": peak_bytes(sweep.prepare(size)),
            "time_theory": sweep.time,
            "memory_theory": sweep.memory,
            "law": sweep.law,
        }
        for size, times in seconds.items()
    ]


def seconds_of(call):
    gc.collect()
    start = time.process_time()
    call()
    return time.process_time() - start


def peak_bytes(call):
    """Largest memory in use during a call above what was in use before, arrays included."""
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def exponent(sizes, values, n_upper=3):
    """Slope of log value against log size over the largest sizes, by least squares."""
    x, y = (np.log(np.asarray(v, dtype=float)[-n_upper:]) for v in (sizes, values))
    return float(np.polyfit(x, y, 1)[0])
