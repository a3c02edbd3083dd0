"""Growth in the Gaussian processes: the sweeps of `scaling.py` over rows, columns, m, T."""

from functools import cache

import numpy as np
from scaling.scaling_models import targets
from scaling.scaling_sweep import Sweep
from sklearn.gaussian_process.kernels import RBF

from skdpbo.gaussian_process import (
    DPSparseGPRegressor,
    GPUCBModeler,
    PrivateProjection,
    ProjectedGP,
    optimize,
)

BOUNDS = {"X_bounds": (-1.0, 1.0), "y_bounds": (-1.0, 1.0)}


def sparse(n=20_000, d=3, m=30, **options):
    gp = DPSparseGPRegressor(RBF(0.5 * d**0.5), inducing_points=m, **BOUNDS, **options)
    X, y = targets(n, d)
    return lambda: gp.fit(X, y)


@cache
def fitted_sparse(m):
    return sparse(2000, 3, m)()


def sparse_predict(n, m=30):
    gp, (X, _) = fitted_sparse(m), targets(n, 3)
    return lambda: gp.predict(X, return_std=True)


def sparse_cv(n_kernels, n=5_000, m=30):
    kernels = [RBF(scale) for scale in np.geomspace(0.3, 3.0, n_kernels)]
    gp = DPSparseGPRegressor(kernels, inducing_points=m, **BOUNDS)
    X, y = targets(n, 3)
    return lambda: gp.fit(X, y)


def projected(n=200, d=3, **options):
    gp = ProjectedGP(epsilon=2.0, X_bounds=(-1.0, 1.0), **options)
    X, y = targets(n, d)
    return lambda: gp.fit(X, y)


def curator(n, d=2):
    X, y = targets(n, d)
    return PrivateProjection(epsilon=2.0, X_bounds=(-1.0, 1.0)), X, y


def projection(n, d=2):
    transformer, X, y = curator(n, d)
    return lambda: transformer.fit_transform(X, y)


@cache
def published(n):
    transformer, X, y = curator(n)
    transformer.fit_transform(X, y)
    return transformer


def outsourced(T, n=2_000):
    modeler = GPUCBModeler(published(n).release_, kernel=RBF(0.5))
    _, y = targets(n)

    def run():
        for _ in range(T):
            row = modeler.ask()
            modeler.tell(row, y[row])

    return run


def answered(n_answers, n=4_000):
    """All of the protocol: the curator answers, the modeler asks."""
    transformer, X, y = curator(n)
    transformer.fit_transform(X, y)
    modeler = GPUCBModeler(transformer.release_, kernel=RBF(0.5))
    return lambda: optimize(transformer, modeler, n_answers)


def answers_alone(n_answers, n=20_000):
    transformer, X, y = curator(n)
    transformer.fit_transform(X, y)
    return lambda: [transformer.answer(row) for row in range(n_answers)]


GPS = [
    Sweep(
        "DPSparseGPRegressor",
        "rows n",
        (10_000, 40_000, 160_000, 640_000),
        sparse,
        time=1,
        memory=0,
        law="n m (d + m) in blocks of rows",
        fixed="d = 3, m = 30",
    ),
    Sweep(
        "DPSparseGPRegressor",
        "columns d",
        (4, 16, 64, 256, 1_024),
        lambda d: sparse(5_000, d),
        time=1,
        memory=1,
        law="n m (d + m)",
        fixed="n = 5000, m = 30",
    ),
    Sweep(
        "DPSparseGPRegressor",
        "inducing points m",
        (16, 32, 64, 128, 256, 512),
        lambda m: sparse(5_000, 3, m),
        time=3,
        memory=2,
        law="n m (d + m) + m^3",
        fixed="n = 5000, d = 3",
    ),
    Sweep(
        'DPSparseGPRegressor, release="kernel"',
        "rows n",
        (10_000, 40_000, 160_000, 640_000),
        lambda n: sparse(n, 1, 9, release="kernel", noise_variance=0.01),
        time=1,
        memory=0,
        law="n m (d + m)",
        fixed="d = 1, m = 9",
    ),
    Sweep(
        'DPSparseGPRegressor, release="kernel"',
        "inducing points m",
        (4, 8, 16, 32, 64),
        lambda m: sparse(5_000, 1, m, release="kernel", noise_variance=0.01),
        time=3,
        memory=2,
        law="n m (d + m) + m^3, and the bound of the sensitivity",
        fixed="n = 5000, d = 1",
    ),
    Sweep(
        "DPSparseGPRegressor.predict",
        "rows n",
        (1_000, 10_000, 100_000),
        sparse_predict,
        time=1,
        memory=1,
        law="n m (d + m)",
        fixed="d = 3, m = 30, with standard deviations",
    ),
    Sweep(
        "DPSparseGPRegressor",
        "kernels",
        (2, 4, 8, 16, 32),
        sparse_cv,
        time=1,
        memory=1,
        law="K (n m (d + m) + m^3)",
        fixed="n = 5000, d = 3, m = 30",
    ),
    Sweep(
        "DPSparseGPRegressor",
        "rows n",
        (10_000, 40_000, 160_000),
        lambda n: sparse_cv(4, n),
        time=1,
        memory=0,
        law="K n m (d + m)",
        fixed="4 kernels, d = 3, m = 30",
    ),
    Sweep(
        "ProjectedGP",
        "rows n",
        (64, 128, 256, 512),
        projected,
        time=3,
        memory=2,
        law="n^3 for each step of the fit of the kernel",
        fixed="d = 3",
    ),
    Sweep(
        "ProjectedGP",
        "columns d",
        (2, 8, 32, 128),
        lambda d: projected(100, d),
        time=1,
        memory=1,
        law="n^2 d for each step, one length-scale",
        fixed="n = 100",
    ),
    Sweep(
        "PrivateProjection",
        "rows n",
        (500, 2_000, 8_000, 32_000),
        projection,
        time=1,
        memory=1,
        law="n d: one exact draw for each number",
        fixed="d = 2",
    ),
    Sweep(
        "PrivateProjection",
        "columns d",
        (2, 8, 32, 128),
        lambda d: projection(200, d),
        time=1,
        memory=1,
        law="n d",
        fixed="n = 200",
    ),
    Sweep(
        "PrivateProjection.answer",
        "answers",
        (250, 1_000, 4_000, 16_000),
        answers_alone,
        time=1,
        memory=1,
        law="T: one number each, one line in the log",
        fixed="20 000 rows",
    ),
    Sweep(
        "GPUCBModeler",
        "T",
        (25, 50, 100, 200, 400),
        outsourced,
        time=2,
        memory=1,
        law="T^2 n: O(t n) for answer t",
        fixed="2000 rows",
    ),
    Sweep(
        "GPUCBModeler",
        "rows n",
        (1_000, 4_000, 16_000, 64_000),
        lambda n: outsourced(20, n),
        time=1,
        memory=1,
        law="T^2 n",
        fixed="T = 20",
    ),
    Sweep(
        "optimize",
        "T",
        (100, 200, 400, 800),
        answered,
        time=2,
        memory=1,
        law="T^2 n, curator and modeler",
        fixed="4000 rows",
    ),
]
