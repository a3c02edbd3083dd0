"""Rows of `design_goals.py` that measure time: searches, designs, the sparse GP, noise.

Processor time of one thread; methods take turns in every repeat, so that a busy machine slows all.
"""

import importlib.util
import time
from types import SimpleNamespace

import numpy as np
from goals.design_goals_lines import line, not_installed
from speed import gibo_design, noise, search_overhead, sparse_gp

from skdpbo.audit import audit_samples, last_digits

STATED_OVERHEAD = {
    "scikit-optimize Optimizer": {50: 396, 200: 2300},
    "optuna GPSampler": {50: 48, 200: 158},
    "scikit-learn GP loop, every step": {50: 9, 200: 36},
}


def installed(*modules):
    return all(importlib.util.find_spec(module) for module in modules)


# -- search overhead ----------------------------------------------------------------------------


def search(options):
    """Time per evaluation of a search in two dimensions, apart from the objective."""
    sizes = (50,) if options.quick else (50, 200)
    searchers = ["skdpbo", "GP loop", "GPSampler", "Optimizer"]
    runs = search_overhead.measure(
        SimpleNamespace(t=sizes, repeats=options.times(3), only=searchers)
    )
    for T, column, metric in (
        (T, column, f"ms per evaluation, {name}")
        for T in sizes
        for column, name in (("mean_ms", "mean"), ("at_T_ms", "last ten"))
    ):
        for method in dict.fromkeys(run["method"] for run in runs):
            own = [run for run in runs if run["method"] == method and run["T"] == T]
            stated = STATED_OVERHEAD.get(method, {}).get(T, "")
            if own[0]["status"] == "missing":
                peer = method.split()[0]
                yield not_installed("search", method, f"T={T}", metric, peer, stated)
                continue
            goal = {"goal": 2 if T == 50 else 5} if method == "skdpbo" else {}
            values = [run[column] for run in own]
            yield line("search", method, f"T={T}", metric, values, stated=stated, **goal)


# -- GIBO design --------------------------------------------------------------------------------

ADAM_STEPS, ADAM_RATES = (100, 1000), (0.001, 0.01)


def gibo(options):
    """Time and trace of a batch design, d = 33, b = 34, 136 earlier points."""
    gibo_design.clock = time.process_time
    paths = ((0.05, False), (0.15, False), (0.2, False), (0.3, False), (0.15, True))
    for step, corner in paths:
        setting = f"path of steps {step:g} from " + ("a corner" if corner else "the middle")
        with_adam = step == 0.15 and not corner
        found = _designs(step, corner, with_adam and installed("torch"), options)
        for method, runs in found.items():
            goals = ({"goal": 60}, {"goal": 0.69}) if method == "skdpbo" else ({}, {})
            stated = {
                "autograd and Adam, 1000 steps": (3500, ""),
                "autograd and Adam, 100 steps": ("", 1.8),
            }
            for k, metric in enumerate(("ms per design", "trace")):
                printed = stated.get(method, ("", ""))[k]
                values = np.array(runs)[:, k]
                yield line("gibo", method, setting, metric, values, stated=printed, **goals[k])
            if method != "skdpbo":  # fewer problems: compare on the same ones
                ratio = values / np.array(found["skdpbo"])[: len(values), 1]
                yield line("gibo", method, setting, "trace over ours, same path", ratio)
        if with_adam and not installed("torch"):
            yield not_installed("gibo", "autograd and Adam", setting, "ms per design", "torch")


def _designs(step, corner, with_adam, options):
    """(ms, trace) of each design by method."""
    found = {"skdpbo": [], "skdpbo, 8 long descents": []}
    problems = [gibo_design.problem(step, corner, seed) for seed in range(options.times(20))]
    n_references = options.times(3)
    for seed, each in enumerate(problems):
        found["skdpbo"].append(gibo_design.one_design(*each))
        long = gibo_design.one_design(*each, n_starts=8, max_iter=300)
        found["skdpbo, 8 long descents"].append(long)
        if corner:
            free = gibo_design.one_design(*each[:2], None)
            found.setdefault("skdpbo, batch free to leave the cube", []).append(free)
        if with_adam and seed < n_references:
            for steps, run in _adam(*each[:2]).items():
                found.setdefault(f"autograd and Adam, {steps} steps", []).append(run)
    return found


def _adam(posterior, theta):
    """(ms, trace) after some numbers of steps, each with its better learning rate."""
    best = {}
    for rate in ADAM_RATES:
        ms, traces = gibo_design.timed(
            gibo_design.autograd_adam, posterior, theta, 0, rate, ADAM_STEPS
        )
        for steps, trace in traces.items():
            if steps not in best or trace < best[steps][1]:
                best[steps] = (ms * steps / max(ADAM_STEPS), trace)
    return best


# -- sparse GP ----------------------------------------------------------------------------------


def sparse(options):
    """Time and memory of a private sparse GP fit, n = 500 000, d = 10, m = 100."""
    n = 100_000 if options.quick else 500_000
    size = SimpleNamespace(rows=n, features=10, inducing=100, repeats=options.times(7))
    setting = f"n={n}, d=10, m=100"
    seconds = {
        name: np.array(runs)[:, 1] for name, runs in sparse_gp.alternate(size, threads=1).items()
    }
    yield line("sparse", "skdpbo", setting, "seconds", seconds["fit"])
    yield line("sparse", "GEMM and exp", setting, "seconds", seconds["floor"], stated=0.38)
    times_floor = seconds["fit"] / seconds["floor"]  # each beside the floor run just before
    yield line("sparse", "skdpbo", setting, "times the floor", times_floor, goal=1.5)
    yield from _gradient_step(n // 10, size)
    metric = "MB beyond the inputs"
    memory = {rows: sparse_gp.memory_of_a_fit(rows, size, threads=1) for rows in (n // 10, n)}
    for rows, megabytes in memory.items():
        yield line("sparse", "skdpbo", f"n={rows}, d=10, m=100", metric, [megabytes], "exact")
    growth = [memory[n] / memory[n // 10]]
    metric = "memory at ten times the rows, ratio"
    yield line("sparse", "skdpbo", setting, metric, growth, "exact", goal=1.1)


def _gradient_step(n, size):
    """One step of GPyTorch's SGPR, which does not fit n = 500 000, beside our whole fit."""
    setting, metric = f"n={n}, d=10, m=100", "seconds"
    size = SimpleNamespace(**vars(size) | {"rows": n})
    fits = np.array(sparse_gp.alternate(size, threads=1)["fit"])[:, 1]
    yield line("sparse", "skdpbo", setting, metric, fits)
    method = "GPyTorch SGPR, one gradient step"
    if not installed("gpytorch", "torch"):
        yield not_installed("sparse", method, setting, metric, "gpytorch", 0.59)
        return
    import torch

    torch.set_num_threads(1)
    steps = np.array(sparse_gp.gpytorch_steps(n, size))[:, 1]
    yield line("sparse", method, setting, metric, steps, stated=0.59)


# -- noise --------------------------------------------------------------------------------------

DRAWS = 10_000


def gaussian_noise(options):
    """Time of 10 000 Gaussian draws, and what the last digits of a release tell."""
    setting, metric = "10 000 draws, (1, 1e-5)", "ms"
    engines = {"skdpbo": noise.mechanism("skdpbo")}
    if installed("opendp"):
        engines["OpenDP"] = noise.mechanism("opendp")
    noise.alternate(engines, DRAWS, 1)
    times = noise.alternate(engines, DRAWS, options.times(15), time.process_time)
    yield line("noise", "skdpbo", setting, metric, times["skdpbo"], goal=35)
    if "OpenDP" in engines:
        yield line("noise", "OpenDP", setting, metric, times["OpenDP"], stated=700)
    else:
        yield not_installed("noise", "OpenDP", setting, metric, "opendp", 700)
    yield from _precision(engines)


def _precision(engines):
    """Least epsilon that follows from the last binary digits of releases of 0 and of 1."""
    releases = {
        engine: lambda x, each=each: each.release(np.full(DRAWS, x))
        for engine, each in engines.items()
    }
    rng = np.random.default_rng(0)  # public: the mistake that the audit has to find
    releases["floating-point normal"] = lambda x: x + rng.normal(size=DRAWS)
    for method, release in releases.items():
        pair = [release(x) for x in (0.0, 1.0)]
        found = max(
            audit_samples(*[last_digits(outputs, step) for outputs in pair]).epsilon
            for step in (None, getattr(engines.get(method), "step", None))
        )
        goal = {"goal": 0} if method == "skdpbo" else {}
        setting, metric = "last digits of 10 000 draws", "epsilon of the precision audit"
        yield line("noise", method, setting, metric, [found], "exact", **goal)
