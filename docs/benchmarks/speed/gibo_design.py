"""Time and quality of a batch design for the gradient.

    python docs/benchmarks/run.py gibo_design [--threads 1 2] [--repeats 20] [--reference-repeats 3]

Goal: at d = 33, b = 34 and 136 earlier points at most 60 ms and a trace of at most 0.69, against
3.5 s for automatic differentiation with 1000 steps of Adam (RBF, length-scale 0.5, variance 1,
jitter 1e-4).

The earlier points are four designs of 34 along a trajectory of given step, which turns slowly;
the fifth design is timed. How good any design can be depends on the step: earlier points further
than about a length-scale (0.5) away know little, and 34 points alone reach 1.803. A trajectory
starts in the middle of the unit cube or in a corner, and then keeps to the cube. Methods:

- skdpbo: `GradientPosterior.design`, analytic derivatives and L-BFGS-B;
- 8 descents: the same with ``n_starts=8`` and up to 300 iterations each, what is left to gain;
- Adam: 1000 steps from points within 1e-5 of theta, with our analytic derivatives, the best of
  several learning rates, unbounded problems only;
- autograd: the same with PyTorch's automatic differentiation, where torch can be imported.

Traces are those after the design, with jitter, by a dense formula. Medians over the repeats. A
design keeps to one BLAS thread by itself; the number of threads is that of the references.
"""

import argparse
import importlib.metadata
import importlib.util
import platform
import time

import numpy as np
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from skdpbo.surrogate import GradientPosterior
from skdpbo.surrogate._batch_design import GradientTrace
from skdpbo.surrogate._kernels import differentiable

D, B, N_EARLIER, LENGTH_SCALE, JITTER = 33, 34, 4, 0.5, 1e-4
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
clock = time.perf_counter


def dense_trace(theta, points):
    """tr(I / l^2 - G (K + jitter I)^{-1} G') with an explicit inverse."""
    U = (points[:, None] - points) / LENGTH_SCALE
    K = np.exp(-0.5 * np.sum(U**2, axis=2)) + JITTER * np.eye(len(points))
    u = (theta - points) / LENGTH_SCALE
    G = -(u / LENGTH_SCALE * np.exp(-0.5 * np.sum(u**2, axis=1))[:, None]).T
    return D / LENGTH_SCALE**2 - np.trace(G @ np.linalg.inv(K) @ G.T)


def problem(step, corner, seed):
    """A posterior with 136 points, and the theta of the next design."""
    rng = np.random.RandomState(seed)
    theta, bounds = (np.zeros(D), (0.0, 1.0)) if corner else (np.full(D, 0.5), None)
    posterior = GradientPosterior(RBF(LENGTH_SCALE), design_jitter=JITTER)
    direction = rng.randn(D)
    for _ in range(N_EARLIER):
        posterior.add(posterior.design(theta, B, bounds=bounds))
        direction = 0.7 * direction + 0.7 * rng.randn(D)
        theta = theta + step * direction / np.linalg.norm(direction)
        theta = np.clip(theta, *bounds) if corner else theta
    return posterior, theta, bounds


def start(theta, seed):
    return theta + 1e-5 / np.sqrt(D) * np.random.RandomState(seed).randn(B, D)


def analytic_adam(posterior, theta, seed, learning_rate, marks):
    objective = GradientTrace(differentiable(RBF(LENGTH_SCALE)), theta, posterior.points, JITTER)
    Z = start(theta, seed)
    m, v, traces = np.zeros_like(Z), np.zeros_like(Z), {}
    for t in range(1, max(marks) + 1):
        _, g = objective(Z)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        Z = Z - learning_rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        if t in marks:
            traces[t] = objective(Z)[0]
    return traces


def autograd_adam(posterior, theta, seed, learning_rate, marks):
    import torch

    earlier, x = torch.tensor(posterior.points), torch.tensor(theta)
    Z = torch.tensor(start(theta, seed), requires_grad=True)
    optimizer = torch.optim.Adam([Z], lr=learning_rate)

    def trace():
        points = torch.cat([earlier, Z])
        squares = (points**2).sum(1)
        r2 = (squares[:, None] + squares - 2 * points @ points.T).clamp_min(0) / LENGTH_SCALE**2
        K = torch.exp(-0.5 * r2) + JITTER * torch.eye(len(points), dtype=torch.float64)
        u = (x - points) / LENGTH_SCALE
        G = u / LENGTH_SCALE * torch.exp(-0.5 * (u**2).sum(1))[:, None]
        half = torch.linalg.solve_triangular(torch.linalg.cholesky(K), G, upper=False)
        return D / LENGTH_SCALE**2 - (half**2).sum()

    traces = {}
    for t in range(1, max(marks) + 1):
        optimizer.zero_grad()
        trace().backward()
        optimizer.step()
        if t in marks:
            traces[t] = float(trace().detach())
    return traces


def timed(function, *arguments, **options):
    begin = clock()
    result = function(*arguments, **options)
    return 1e3 * (clock() - begin), result


def row(name, ms, traces, note=""):
    ms, traces = np.array(ms), np.array(traces)
    print(
        f"  {name:26}{np.median(ms):10.1f}{ms.max():10.1f}"
        f"{np.median(traces):10.3f}{traces.max():10.3f}  {note}",
        flush=True,
    )


def one_design(posterior, theta, bounds, **how):
    """Milliseconds of a design, and the trace that it leaves."""
    elapsed, Z = timed(posterior.design, theta, B, bounds=bounds, **how)
    return elapsed, dense_trace(theta, np.concatenate([posterior.points, Z]))


def measure(step, corner, options):
    problems = [problem(step, corner, seed) for seed in range(options.repeats)]
    before = [dense_trace(theta, posterior.points) for posterior, theta, _ in problems]
    where = "corner" if corner else "middle"
    print(f"step {step}, from the {where}: trace before the design {np.median(before):.2f}")

    for name, how, n in (
        ("skdpbo", {}, options.repeats),
        ("8 descents", {"n_starts": 8, "max_iter": 300}, options.reference_repeats),
    ):
        if n:
            found = [one_design(*each, **how) for each in problems[:n]]
            row(name, *zip(*found, strict=True), f"{n} designs")
    if not corner and options.reference_repeats:
        references(problems[: options.reference_repeats], options)


def references(problems, options):
    methods = {"Adam, analytic": analytic_adam}
    if importlib.util.find_spec("torch"):
        methods["Adam, autograd"] = autograd_adam
    marks = (100, 1000)
    for name, run in methods.items():
        by_rate = {}
        for rate in options.learning_rate:
            by_rate[rate] = [timed(run, p, theta, 0, rate, marks) for p, theta, _ in problems]
        for mark in marks:  # the best learning rate for each number of steps
            rate = min(by_rate, key=lambda r: np.median([t[mark] for _, t in by_rate[r]]))
            ms = [elapsed * mark / max(marks) for elapsed, _ in by_rate[rate]]
            traces = [t[mark] for _, t in by_rate[rate]]
            row(f"{name}, {mark} steps", ms, traces, f"{len(problems)} designs, rate {rate:g}")


def version(package):
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} absent"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of the BLAS")
    parser.add_argument("--steps", type=float, nargs="+", default=[0.05, 0.15, 0.3])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--reference-repeats", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, nargs="+", default=[0.001, 0.01, 0.03])
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: on a busy machine")
    options = parser.parse_args()
    globals()["clock"] = CLOCKS[options.clock]
    packages = ("numpy", "scipy", "scikit-learn", "torch")
    print(f"Python {platform.python_version()},", ", ".join(map(version, packages)))
    if not importlib.util.find_spec("torch"):
        print("no torch: automatic differentiation is left out")
    print(f"d={D}, b={B}, {N_EARLIER * B} earlier points, RBF({LENGTH_SCALE}), jitter {JITTER:g}")
    for threads in options.threads:
        print(f"\nBLAS threads {threads}, milliseconds ({options.clock}) per design")
        print(f"  {'method':26}{'median':>10}{'max':>10}{'trace':>10}{'max':>10}")
        with threadpool_limits(limits=threads):
            if importlib.util.find_spec("torch"):
                import torch

                torch.set_num_threads(threads)
            for step in options.steps:
                measure(step, False, options)
            measure(options.steps[len(options.steps) // 2], True, options)


if __name__ == "__main__":
    main()
