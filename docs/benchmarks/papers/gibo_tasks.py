"""The loss functions of the examples of Sopa et al. (2025), Sections 4.1 to 4.4.

A task has a box (`low`, `high`; None for all of R^d), a `start` in it, a largest loss `bound` and
`losses(points)`, of shape (len(points), n_records): entry (j, i) depends on point j and record i
alone. Used by `gibo_papers.py`.
"""

import csv
import gzip

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from sklearn.svm import SVR


class Location:
    """4.1: f(theta) = sum ||x_i - theta||^2 / 2n, x ~ N((1, ..., 1), I)."""

    low = high = bound = None
    n_records = 50

    def __init__(self, rng):
        self.records = rng.normal(1.0, 1.0, (self.n_records, 5))
        self.optimum = self.records.mean(axis=0)
        self.start = np.zeros(5)

    def losses(self, points):
        return 0.5 * np.square(self.records - points[:, None]).sum(axis=2)


class Huber:
    """4.2: weighted Huber regression with c = 1, y = x'1 + N(0, 1), x ~ N(0, I_4)."""

    low = high = bound = None
    n_records = 100

    def __init__(self, rng):
        self.X = rng.normal(size=(self.n_records, 4))
        self.y = self.X.sum(axis=1) + rng.normal(size=self.n_records)
        self.weights = np.minimum(1.0, 2.0 / np.square(self.X).sum(axis=1))
        self.start = np.zeros(4)
        self.optimum = minimize(
            lambda theta: self.losses(theta[None]).mean(),
            self.start,
            jac=lambda theta: self.gradients(theta).mean(axis=0),
            tol=1e-10,
        ).x

    def losses(self, points):
        residuals = self.y - points @ self.X.T
        size = np.abs(residuals)
        return self.weights * np.where(size <= 1.0, residuals**2 / 2, size - 0.5)

    def gradients(self, theta):
        residuals = np.clip(self.y - self.X @ theta, -1.0, 1.0)
        return -(self.weights * residuals)[:, None] * self.X


class LengthScales:
    """4.3: length-scales of a Gaussian process in d dimensions (10), squared error per record.

    Not stated in the paper: inputs are uniform on [0, width]^d, 500 of them train, the noise has
    standard deviation .1, the box starts at .05 and losses are clipped at 9 times the variance
    of y. With width 5 nothing can be learnt from 500 inputs (losses of .92 for the true
    length-scales and 1.0 for none at all); 1 and 2 leave something to find. The draw from the
    process is exact; kernels are computed in single precision.
    """

    n_train, n_records, noise_variance = 500, 4500, 0.01
    bound = 9.0 * 1.01

    def __init__(self, rng, width=1.0, d=10):
        self.low, self.high = np.full(d, 0.05), np.full(d, 5.0)
        self.truth = rng.uniform(self.low, self.high)
        self.start = rng.uniform(self.low, self.high)
        n = self.n_train + self.n_records
        X = rng.uniform(0.0, width, (n, d)).astype(np.float32)
        K = rbf(X / self.truth.astype(np.float32), X / self.truth.astype(np.float32))
        K.flat[:: n + 1] += np.float32(self.noise_variance)
        y = np.linalg.cholesky(K) @ rng.normal(size=n).astype(np.float32)
        self.X, self.X_val = X[: self.n_train], X[self.n_train :]
        self.y, self.y_val = (part.astype(np.float64) for part in np.split(y, [self.n_train]))
        self.noise, self.rng = 0.0, rng  # of an observed loss (C.5)

    def losses(self, points):
        return np.stack([self._losses(point.astype(np.float32)) for point in points])

    def _losses(self, length_scales):
        A, B = self.X / length_scales, self.X_val / length_scales
        K = rbf(A, A).astype(np.float64)
        K.flat[:: len(K) + 1] += self.noise_variance
        weights = cho_solve(cho_factor(K, lower=True, check_finite=False), self.y)
        losses = np.square(self.y_val - rbf(B, A) @ weights.astype(np.float32))
        losses = np.minimum(losses, self.bound)
        # f + lambda Z: each evaluation is off by the same amount for every record
        return losses + self.noise * self.rng.normal() if self.noise else losses


class GroupLasso:
    """Log10 penalties of d groups of four columns, in [-3, 0], squared error per record.

    A setting of our own for the group lasso that the abstract of the paper's later version names:
    200 records train, 4000 are protected, every other group has coefficients from N(0, 1), the
    noise has standard deviation 2, columns have correlation .5.
    """

    n_train, n_records, size, n_steps = 200, 4000, 4, 150

    def __init__(self, rng, d):
        self.low, self.high = np.full(d, -3.0), np.zeros(d)
        self.start = rng.uniform(self.low, self.high)
        n, p = self.n_train + self.n_records, self.size * d
        X = (rng.normal(size=(n, p)) + rng.normal(size=(n, 1))) / np.sqrt(2.0)
        w = rng.normal(size=(d, self.size)) * (np.arange(d) % 2 == 0)[:, None]
        y = X @ w.ravel() + 2.0 * rng.normal(size=n)
        self.X_val, self.y_val = X[self.n_train :], y[self.n_train :]
        X, y = X[: self.n_train], y[: self.n_train]
        self.gram, self.cross = X.T @ X / self.n_train, X.T @ y / self.n_train
        self.rate = 1.0 / np.linalg.eigvalsh(self.gram)[-1]
        self.bound = 9.0 * float(np.var(y))

    def losses(self, points):
        w = np.stack([self._solution(10.0**point * np.sqrt(self.size)) for point in points])
        return np.minimum(np.square(self.y_val - w @ self.X_val.T), self.bound)

    def _solution(self, penalties):
        """Coefficients by accelerated proximal gradient steps (Beck & Teboulle 2009)."""
        w = v = np.zeros_like(self.cross)
        t = 1.0
        for _ in range(self.n_steps):
            moved = (v - self.rate * (self.gram @ v - self.cross)).reshape(len(penalties), -1)
            norms = np.maximum(np.linalg.norm(moved, axis=1), 1e-12)
            shrunk = moved * np.maximum(1.0 - self.rate * penalties / norms, 0.0)[:, None]
            old, w = w, shrunk.ravel()
            s, t = t, (1.0 + np.sqrt(1.0 + 4.0 * t**2)) / 2.0
            v = w + (s - 1.0) / t * (w - old)
        return w


class Svm:
    """4.4: support-vector regression with one length-scale per feature, 30, and d = 33.

    The log length-scales lie in [-2, 2], the parameters epsilon, C and gamma in [.01, 1],
    [.1, 3] and [.01, 5]. Stands in for the CT slices of the paper: the ailerons table, random
    features, standardised on the training rows like the target; squared errors clipped at 4.
    """

    bound = 4.0

    def __init__(self, rng, path, n_train=1000, n_records=5000, n_features=30):
        with gzip.open(path, "rt") as file:
            table = np.array(list(csv.reader(file))[1:], dtype=np.float64)
        rows = rng.permutation(len(table))[: n_train + n_records]
        features = rng.permutation(table.shape[1] - 1)[:n_features]
        data = table[rows][:, [*features, -1]]
        mean, scale = data[:n_train].mean(axis=0), data[:n_train].std(axis=0)
        data = (data - mean) / np.where(scale > 0.0, scale, 1.0)
        self.X, self.X_val = np.split(data[:, :-1].astype(np.float32), [n_train])
        self.y, self.y_val = np.split(data[:, -1], [n_train])
        self.n_records = n_records
        self.low = np.array([-2.0] * n_features + [0.01, 0.1, 0.01])
        self.high = np.array([2.0] * n_features + [1.0, 3.0, 5.0])
        self.start = rng.uniform(self.low, self.high)

    def losses(self, points):
        return np.stack([self._losses(point) for point in points])

    def _losses(self, point):
        epsilon, C, gamma = point[-3:]
        # gamma sum (difference / length-scale)^2; rbf() halves it
        scale = (np.sqrt(2.0 * gamma) * np.exp(-point[:-3])).astype(np.float32)
        A, B = self.X * scale, self.X_val * scale
        model = SVR(kernel="precomputed", C=C, epsilon=epsilon, tol=1e-2)
        model.fit(rbf(A, A).astype(np.float64), self.y)
        kernel = rbf(B, A[model.support_])
        prediction = kernel @ model.dual_coef_[0].astype(np.float32) + model.intercept_[0]
        return np.minimum(np.square(self.y_val - prediction), self.bound)


def rbf(A, B):
    """exp(-||a - b||^2 / 2) for every pair of rows."""
    K = A @ B.T
    K -= 0.5 * np.square(A).sum(axis=1)[:, None]
    K -= 0.5 * np.square(B).sum(axis=1)
    return np.exp(np.minimum(K, 0, out=K), out=K)
