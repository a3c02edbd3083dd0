"""Which options of `DPGIBOSearchCV` are worth being its defaults?

Run as ``python benchmarks/gibo_options.py [--seeds 6] [--epsilon 1.0]``.

Two families of problems, 25 steps from the centre of the unit cube, all past points kept:

- bowl: d = 10, n = 150 protected records (few: the noise counts). Mean loss a weighted squared
  distance, records with levels, scales and slopes of their own. Reported: excess loss of the
  released point over the minimum, as a share of the centre's excess.
- ridge: kernel ridge regression with 10 length-scales (log-uniform, 0.37 to 12) and a penalty
  (log-uniform, 1e-3 to 1), d = 11, 250 public rows, n = 1000 protected ones; four of the ten
  features matter. Reported: mean squared error (the targets' variance is about 1), clipped at 4.

Means over the seeds; their standard error is about a tenth of them. Rows share problems, not noise.
"""

import argparse
import importlib.metadata
import platform

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skdpbo.model_selection._descent import PrivateDescent
from skdpbo.model_selection._gibo_surrogate import SurrogateRecipe
from skdpbo.privacy import mu_from_epsilon
from skdpbo.surrogate import GradientPosterior

UNITS = 2**20


def as_units(losses):
    return np.rint(np.clip(losses, 0.0, 1.0) * UNITS).astype(np.int64)


class Bowl:
    def __init__(self, seed, d=10, n=150):
        rng = np.random.RandomState(seed)
        self.d, self.best, self.weights = d, rng.uniform(0.15, 0.85, d), rng.lognormal(size=d)
        self.weights *= 0.3 / (self.weights @ (0.5 - self.best) ** 2)
        self.scale, self.level = rng.exponential(size=n), rng.uniform(0.0, 0.25, n)
        slope = rng.normal(0.0, 0.5 / np.sqrt(d), (n, d))
        self.slope = slope - slope.mean(axis=0)

    def losses(self, points):
        distance = (self.weights * (points - self.best) ** 2).sum(axis=1)
        return as_units(self.level + np.outer(distance, self.scale) + (points - 0.5) @ self.slope.T)

    def figure(self, point):
        three = np.array([point, self.best, np.full(self.d, 0.5)])
        reached, best, centre = self.losses(three).mean(axis=1)
        return (reached - best) / (centre - best)


class Ridge:
    def __init__(self, seed, d=10, n=1000, n_public=250):
        rng = np.random.RandomState(seed)
        X = rng.normal(size=(n_public + n, d))
        f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 - 0.5 + X[:, 2] * X[:, 3] + 0.5 * X[:, 4]
        y = (f + 0.3 * rng.normal(size=len(f))) / 1.6
        self.d, self.X, self.y = d + 1, X[:n_public], y[:n_public]
        self.X_val, self.y_val = X[n_public:], y[n_public:]

    def one(self, point):
        length_scales, penalty = np.exp(3.5 * point[:-1] - 1.0), 10 ** (3.0 * point[-1] - 3.0)
        A, B = self.X / length_scales, self.X_val / length_scales
        K = np.exp(-0.5 * cdist(A, A, "sqeuclidean"))
        K.flat[:: len(K) + 1] += penalty
        dual = cho_solve(cho_factor(K), self.y)
        predicted = np.exp(-0.5 * cdist(B, A, "sqeuclidean")) @ dual
        return as_units((predicted - self.y_val) ** 2 / 4.0)

    def losses(self, points):
        return [self.one(point) for point in points]

    def figure(self, point):
        return 4.0 * self.one(point).mean() / UNITS


DEFAULT = {
    "clip": 0.3,
    "learning_rate": 0.2,
    "averaging": 0.3,
    "budget_schedule": "geometric",
    "contraction": 0.95,
}
OPTIONS = {
    "default": {},
    "uniform budget": {"budget_schedule": "uniform"},
    "geometric, 0.9": {"contraction": 0.9},
    "no averaging": {"averaging": 0.0},
    "averaging 0.5": {"averaging": 0.5},
    "uniform, no averaging": {"budget_schedule": "uniform", "averaging": 0.0},
    "learning rate 0.1": {"learning_rate": 0.1},
    "learning rate 0.15": {"learning_rate": 0.15},
    "length-scale 0.5": {"length_scale": 0.5},
    "length-scale 0.5, learning rate 0.15": {"length_scale": 0.5, "learning_rate": 0.15},
    "clip 0.1": {"clip": 0.1},
    "clip 1": {"clip": 1.0},
    "adaptive clip": {"clip_share": 0.1},
    "adaptive clip from 1": {"clip": 1.0, "clip_share": 0.1},
    "length-scale refitted": {"fit": True},
    "Adam, 0.05": {"optimizer": "adam", "learning_rate": 0.05},
}


def run(problem, mu, fit=False, length_scale=0.25, **options):
    descent = PrivateDescent(
        n_iter=25,
        mu=mu,
        bounds=(0.0, 1.0),
        loss_bound=UNITS,
        loss_scale=1.0 / UNITS,
        **{**DEFAULT, **options},
    )
    recipe = SurrogateRecipe(
        names=list(range(problem.d)),
        kernel="rbf",
        length_scale=length_scale,
        noise_variance=0.0,
        cache_size=None,
        fit_length_scale=fit,
    )
    surrogate = GradientPosterior(ConstantKernel(10.0) + RBF(length_scale))
    start = np.full(problem.d, 0.5)
    found = descent.run(problem.losses, start, surrogate, refit=recipe.refitted)
    return problem.figure(found.final)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--epsilon", type=float, default=1.0)
    arguments = parser.parse_args()
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "scipy")
    )
    print(f"Python {platform.python_version()}, {versions}; epsilon {arguments.epsilon}")
    mu = mu_from_epsilon(arguments.epsilon, 1e-5)
    problems = [(Bowl(seed), Ridge(seed)) for seed in range(arguments.seeds)]
    print(f"{'options':24}{'bowl':>8}{'ridge':>9}")
    centre = [[p.figure(np.full(p.d, 0.5)) for p in pair] for pair in problems]
    print("{:24}{:8.3f}{:9.4f}".format("centre", *np.mean(centre, axis=0)))
    for name, options in OPTIONS.items():
        figures = [[run(p, mu, **options) for p in pair] for pair in problems]
        print("{:24}{:8.3f}{:9.4f}".format(name, *np.mean(figures, axis=0)), flush=True)
    rng = np.random.RandomState(0)
    random = [
        [min(p.figure(rng.uniform(size=p.d)) for _ in range(300)) for p in pair]
        for pair in problems
    ]
    print("{:24}{:8.3f}{:9.4f}".format("random, 300, no privacy", *np.mean(random, axis=0)))


if __name__ == "__main__":
    main()
