"""Time of a private sparse GP fit, beside the arithmetic that it cannot avoid.

The floor is one matrix product of n x m x m and one exponential of n x m numbers, double
precision, on buffers that exist. Fit and floor alternate in one process with the same number of
threads. Memory is the peak beyond the inputs, measured in a process of its own.

    python docs/benchmarks/run.py sparse_gp [--rows 500000] [--features 10] [--inducing 100]
        [--threads 1] [--repeats 5] [--gpytorch]

Reported: wall clock and CPU seconds, medians and minima; with --gpytorch one gradient step of
GPyTorch's SGPR on a tenth of the rows, which is what fits its memory.
"""

import argparse
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np
import scipy
import sklearn
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from skdpbo.gaussian_process import DPSparseGPRegressor


def data(rows, features):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (rows, features))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=rows)


def model(inducing, threads):
    return DPSparseGPRegressor(
        RBF(3.0),
        inducing_points=inducing,
        noise_variance=0.01,
        X_bounds=(-3, 3),
        y_bounds=(-2, 2),
        n_jobs=threads,
    )


def timed(call):
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


class Floor:
    """exp over n x m in place of a copy, and n x m times m x n summed over n."""

    def __init__(self, rows, m):
        rng = np.random.default_rng(1)
        self.exponents, self.left = -rng.random((rows, m)), np.zeros((rows, m))

    def __call__(self):
        np.exp(self.exponents, out=self.left)
        self.left.T @ self.exponents


def alternate(options, threads):
    """(wall, CPU) seconds of each run of the floor and of the fit, in turns."""
    X, y = data(options.rows, options.features)
    floor = Floor(options.rows, options.inducing)
    gp = model(options.inducing, threads)
    gp.fit(X[:5000], y[:5000])
    runs = {"floor": [], "fit": []}
    with threadpool_limits(threads):
        floor()
        for _ in range(options.repeats):
            runs["floor"].append(timed(floor))
            runs["fit"].append(timed(lambda: gp.fit(X, y)))
    return runs


def compare(options, threads):
    runs = alternate(options, threads)
    for name, times in runs.items():
        wall, cpu = np.array(times).T
        print(
            f"  {name:5}  wall median {np.median(wall):6.3f} s  min {wall.min():6.3f} s"
            f"   CPU median {np.median(cpu):6.3f} s  min {cpu.min():6.3f} s"
        )
    walls = {name: np.array(times) for name, times in runs.items()}
    ratio = [np.median(walls["fit"][:, i]) / np.median(walls["floor"][:, i]) for i in (0, 1)]
    print(f"  fit / floor: wall {ratio[0]:.2f}, CPU {ratio[1]:.2f}")


def peak_mb():
    """Peak of this process's memory (Linux); getrusage would count the parent's."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if "VmHWM" in line) / 1024


def memory(options, threads):
    """Run by a child process: what a fit adds to the peak, all inputs being read from a file."""
    with np.load(options.inputs) as inputs:
        X, y = inputs["X"], inputs["y"]
    gp = model(options.inducing, threads)
    before = peak_mb()
    gp.fit(X, y)
    print(f"{peak_mb() - before:.1f}")


def memory_of_a_fit(rows, options, threads):
    """MB that a fit of so many rows adds to the peak of a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        X, y = data(rows, options.features)
        np.savez(f"{folder}/inputs.npz", X=X, y=y)
        command = [sys.executable, __file__, f"--inputs={folder}/inputs.npz"]
        command += [f"--memory={threads}", f"--inducing={options.inducing}"]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def gpytorch_steps(n, options):
    """(wall, CPU) seconds of each gradient step of GPyTorch's SGPR on n rows."""
    import gpytorch
    import torch

    X, y = (torch.tensor(part[:n]) for part in data(options.rows, options.features))

    class SGPR(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
            points = torch.tensor(data(options.inducing, options.features)[0])
            self.covar_module = gpytorch.kernels.InducingPointKernel(base, points, likelihood)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    sgpr = SGPR(likelihood).double()
    likelihood.double()
    bound = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, sgpr)

    def step():
        sgpr.zero_grad()
        (-bound(sgpr(X), y)).backward()

    sgpr.train()
    likelihood.train()
    step()
    return [timed(step) for _ in range(options.repeats)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--inducing", type=int, default=100)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--gpytorch", action="store_true")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--inputs", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        memory(options, options.memory)
        return
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}; n={options.rows}, d={options.features}, "
        f"m={options.inducing}, {options.repeats} alternating runs"
    )
    for threads in options.threads:
        print(f"{threads} thread(s)")
        compare(options, threads)
        megabytes = memory_of_a_fit(options.rows, options, threads)
        inputs = options.rows * options.features * 8 / 2**20
        print(f"  peak beyond the inputs: {megabytes:.0f} MB (inputs {inputs:.0f})")
    if options.gpytorch:
        n = options.rows // 10
        wall, cpu = np.median(gpytorch_steps(n, options), axis=0)
        print(f"GPyTorch, one gradient step, n={n}: wall {wall:.3f} s, CPU {cpu:.3f} s")


if __name__ == "__main__":
    main()
