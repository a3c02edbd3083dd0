"""Tasks of the outsourced experiments: rows that a curator protects, and what is sought in them.

`Grid` draws functions from a Gaussian process, `Branin` and `Loans` are fixed functions. Rows are
scaled to the largest norm 25 in all of them, as Kharkovskii et al. (2020) do. Values are in units
of their prior standard deviation, so that regrets can be compared. Nothing here is private: the
scaling and the fitted hyper-parameters read the very rows that a curator would protect.
"""

import csv
import gzip
import math

import numpy as np
from scipy.stats import rankdata
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skdpbo.gaussian_process.outsourced import Ball, Box
from skdpbo.surrogate import fit_hyperparameters

NORM = 25.0
HALF_WIDTH = NORM / math.sqrt(2.0)  # of a square whose corners have the norm 25
SIDE = 100
# The published tables: epsilon, the numbers of components r, regret after T answers.
PUBLISHED = {
    "grid": {
        math.exp(1.1): {3: 0.073, 6: 0.038, 8: 0.018, 10: 0.014, 15: 0.118, 20: 0.137},
        math.exp(1.3): {3: 0.091, 9: 0.009, 12: 0.019, 15: 0.008, 20: 0.127, 30: 0.134},
        math.exp(1.5): {5: 0.05, 10: 0.021, 15: 0.003, 20: 0.002, 30: 0.094, 50: 0.142},
    },
    "loans": {
        math.exp(2.7): {3: 0.083, 6: 0.088, 8: 0.078, 10: 0.069, 15: 0.081, 20: 0.076},
        math.exp(2.9): {3: 0.091, 9: 0.076, 12: 0.078, 15: 0.077, 20: 0.1, 30: 0.096},
        math.exp(3.1): {5: 0.097, 10: 0.091, 15: 0.069, 20: 0.084, 30: 0.104, 50: 0.127},
    },
    "property": {
        math.exp(2.6): {3: 0.682, 6: 0.516, 8: 0.495, 10: 0.485, 15: 0.485, 20: 0.493},
        math.exp(2.8): {3: 0.567, 9: 0.553, 12: 0.479, 15: 0.453, 20: 0.493, 30: 0.52},
        math.exp(3.0): {5: 0.591, 10: 0.523, 15: 0.486, 20: 0.482, 30: 0.489, 50: 0.488},
    },
}
DELTA = {"grid": 1e-5, "loans": 1e-5, "property": 1e-4, "branin": 1e-5}


class Grid:
    """100 x 100 points of a square, functions drawn from a GP with a squared exponential kernel."""

    name = "grid"
    signal_variance, noise_variance, prior_mean = 1.0, 1e-5, 0.0

    def __init__(self, length_scale):
        self.length_scale = length_scale
        axis = np.linspace(-HALF_WIDTH, HALF_WIDTH, SIDE)
        self.X = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        self.domain = Box([-HALF_WIDTH] * 2, [HALF_WIDTH] * 2)
        # The kernel is a product, so its matrix is the Kronecker product K x K: with A A' = K and
        # white noise W, A W A' has the covariance wanted.
        K = RBF(length_scale)(axis[:, None])
        values, vectors = np.linalg.eigh(K)
        self._root = vectors * np.sqrt(np.maximum(values, 0.0))

    def values(self, rng):
        """Draw f at every row, shape (n,)."""
        return (self._root @ rng.standard_normal((SIDE, SIDE)) @ self._root.T).ravel()


class Places:
    """2004 places of a made-up town, for the property prices of the paper; prices are drawn.

    The places lie around 40 centres, with the smallest singular value 190, which gives the paper's
    branch in all columns. A price is a draw of a GP of length-scale 3 plus a part of its own, of
    variance 0.7 and 0.3; the paper states neither, nor the town's shape.
    """

    name = "property"
    length_scale, signal_variance, noise_variance, prior_mean = 3.0, 0.7, 0.3, 0.0

    def __init__(self):
        rng = np.random.default_rng(2004)
        centres = rng.uniform(-1.0, 1.0, (40, 2))
        X = centres[rng.integers(40, size=2004)] + 0.1 * rng.standard_normal((2004, 2))
        X -= X.mean(axis=0)
        X *= NORM / np.linalg.norm(X, axis=1).max()
        U, sizes, V = np.linalg.svd(X, full_matrices=False)
        self.X = U * [sizes[0], 190.0] @ V
        self.X *= min(1.0, NORM / np.linalg.norm(self.X, axis=1).max())
        self.domain = Ball(NORM)
        K = self.signal_variance * RBF(self.length_scale)(self.X)
        self._root = np.linalg.cholesky(K + self.noise_variance * np.eye(2004))

    def values(self, rng):
        """Draw the value of every place, shape (n,)."""
        return self._root @ rng.standard_normal(2004)


class Branin:
    """Minus the Branin-Hoo function on a grid of 100 x 100 points of its usual domain."""

    name = "branin"

    def __init__(self):
        a, b = np.meshgrid(np.linspace(-5, 10, SIDE), np.linspace(0, 15, SIDE), indexing="ij")
        quadratic = b - 5.1 * a**2 / (4 * math.pi**2) + 5 * a / math.pi - 6
        f = -(quadratic**2 + 10 * (1 - 1 / (8 * math.pi)) * np.cos(a) + 10).ravel()
        self._f = (f - f.mean()) / f.std()
        grid = np.stack([a, b], axis=-1).reshape(-1, 2) - [2.5, 7.5]
        self.X = grid * (HALF_WIDTH / 7.5)
        self.domain = Box([-HALF_WIDTH] * 2, [HALF_WIDTH] * 2)
        _fit(self, np.random.default_rng(0).choice(len(f), 300, replace=False))

    def values(self, rng):
        """Return f at every row, shape (n,)."""
        return self._f


class Loans:
    """The first 36 000 loans of 2007 to 2011 that meet the credit policy: return on investment.

    Parameters
    ----------
    path : str
        Of lendingclub_2007_2011.csv.gz.
    scaling : {"log", "ranks"}
        "log": logarithms of inputs and return, the third input times .65, which gives the paper's
        branches. "ranks": ranks of the inputs, and the return as it is.
    """

    name = "loans"

    def __init__(self, path, scaling="log"):
        rows, y = _read_loans(path)
        if scaling == "ranks":
            X, y = rankdata(rows, axis=0) - len(rows) / 2, np.exp(y)
        else:
            logs = np.log(rows)
            X = (logs - logs.mean(axis=0)) / logs.std(axis=0) * [1.0, 1.0, 0.65]
        X *= NORM / np.linalg.norm(X, axis=1).max()
        self.X = X - X.mean(axis=0)
        self.domain = Ball(NORM)
        y = np.maximum(y, -3.0)
        self._f = (y - y.mean()) / y.std()
        _fit(self, np.random.default_rng(0).choice(len(y), 1000, replace=False))

    def values(self, rng):
        """Return y at every row, shape (n,)."""
        return self._f


def _read_loans(path):
    columns = ("funded_amnt_inv", "int_rate", "annual_inc", "total_pymnt_inv")
    with gzip.open(path, "rt", newline="") as file:
        records = [
            [float(record[name] or 0) for name in columns]
            for record in csv.DictReader(file)
            if not record["loan_status"].startswith("Does not meet")
        ]
    table = np.array([r for r in records if r[0] > 0 and r[2] > 0 and r[3] > 0][:36_000])
    return table[:, :3], np.log(table[:, 3] / table[:, 0])


def _fit(task, sample):
    """Set the kernel of a fixed function by maximum likelihood on some rows, as the paper does."""
    kernel = ConstantKernel(1.0, (0.05, 20.0)) * RBF(5.0, (0.5, 50.0))
    fitted = fit_hyperparameters(
        kernel, task.X[sample], task.values(None)[sample], noise_variance_bounds=(1e-5, 1.0)
    )
    parameters = fitted.unit_kernel.get_params()
    scale = fitted.y_scale**2
    task.length_scale = float(parameters["k2__length_scale"])
    task.signal_variance = float(parameters["k1__constant_value"]) * scale
    task.noise_variance, task.prior_mean = fitted.noise_variance, fitted.prior_mean
