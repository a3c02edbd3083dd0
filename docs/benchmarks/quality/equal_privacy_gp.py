"""Private regressions for `equal_privacy.py`: the project's Gaussian processes, and others.

All protect every training record, inputs and target, at the same (epsilon, delta). About a hundred
public rows say how the data look like: the kernel, the bounds and the inducing points come from
them, or from general knowledge. `ProjectedGP` alone makes another promise.
"""

import math
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from papers import growth
from quality.equal_privacy_choice import DELTA, dp
from quality.equal_privacy_tasks import FILES, ailerons
from scipy.linalg import cholesky, solve_triangular
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skdpbo.gaussian_process import DPSparseGPRegressor, ProjectedGP
from skdpbo.privacy import mu_from_epsilon

N_PUBLIC = 50
AILERONS = {"n_public": N_PUBLIC, "n_protected": 6825, "n_features": 6}
WIDTH = 3.0  # of y_bounds of ailerons, in standard deviations of the public rows
NOISE_OF_OUTPUT = 0.1  # standard deviation of a perturbed prediction, of half the range of y
PAPER = {"release": "kernel", "sensitivity": "generic", "posterior": "linearised"}
NO_PRIVACY = 1e9


@dataclass
class RegressionTask:
    """Training rows, rows that took no part, and what is public. Targets are centred."""

    rows: tuple  # X of shape (n, d), y
    held_out: tuple
    public: tuple
    kernel: object
    noise_variance: float
    inducing_points: np.ndarray
    half_width: float  # of y_bounds, around 0
    radius: float  # of the rows in the linear model, X being scaled to about 1
    centre: np.ndarray
    scale: np.ndarray
    unit: float  # of y, for the errors that are reported


def growth_task(folder, split):
    """Height of girls from age and weight; the public numbers are those of `growth.py`."""
    X, y = growth.load(Path(folder) / FILES["growth"], 10.0)
    order = np.random.RandomState(split).permutation(len(y))
    ends = [N_PUBLIC, (len(y) + N_PUBLIC) // 2]
    low, high = growth.HEIGHTS
    public, train, test = zip(
        np.split(X[order], ends), np.split(y[order] - (low + high) / 2, ends), strict=True
    )
    points = [[age, weight] for age in (2.5, 10.0, 17.5) for weight in (1.0, 4.0, 7.0)]
    kernel, noise = 2.2**2 * RBF([3.0, 3.5]), growth.SIGMA**2
    centre, scale = np.array([10.0, 4.0]), np.array([8.0, 3.0])
    return RegressionTask(
        train, test, public, kernel, noise, np.array(points), (high - low) / 2, math.sqrt(2.0),
        centre, scale, 1.0,
    )  # fmt: skip


def ailerons_task(folder, split):
    """The kernel is fitted to the public rows; half of them are the inducing points."""
    (public, train, test), unit = ailerons(folder, split, **AILERONS)
    d = AILERONS["n_features"]
    template = ConstantKernel() * RBF(3.0, (0.5, 50.0)) + WhiteKernel(0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # length-scales at their bounds
        fitted = GaussianProcessRegressor(template).fit(*public).kernel_
    return RegressionTask(
        train, test, public, fitted.k1, fitted.k2.noise_level, public[0], WIDTH,
        1.5 * math.sqrt(d), np.zeros(d), np.ones(d), unit,
    )  # fmt: skip


def sparse_gp(task, epsilon, **options):
    bounds = {"y_bounds": (-task.half_width, task.half_width)}
    return DPSparseGPRegressor(
        task.kernel,
        inducing_points=task.inducing_points,
        epsilon=epsilon,
        delta=DELTA,
        **(bounds | options),
    )


def default_gp(task, epsilon, rng):
    """The default: the noise variance is released too."""
    return sparse_gp(task, epsilon).fit(*task.rows).predict(task.held_out[0])


def paper_gp(task, epsilon, rng):
    """Honkela and Melkas as published."""
    model = sparse_gp(task, epsilon, noise_variance=task.noise_variance, **PAPER)
    return model.fit(*task.rows).predict(task.held_out[0])


def projected_gp(task, epsilon, rng):
    """Another promise: rows are hidden within 1 year or 10 kg, heights are not."""
    rows = rng.permutation(len(task.rows[1]))[:500]
    low, high = task.centre - 1.3 * task.scale, task.centre + 1.3 * task.scale
    model = ProjectedGP(
        epsilon=epsilon,
        X_bounds=(low, high),
        kernel=task.kernel,
        noise_variance=task.noise_variance,
        optimizer=None,
    )
    X, y = task.rows
    return model.fit(X[rows], y[rows]).predict(task.held_out[0])


def kernel_features(task, X):
    """Features at the inducing points, of norm at most 1 for every row."""
    variance = task.kernel.diag(task.inducing_points)[0]
    K = task.kernel(task.inducing_points) / variance
    K.flat[:: len(K) + 1] += 1e-6
    across = task.kernel(task.inducing_points, X) / variance
    return solve_triangular(cholesky(K, lower=True), across, lower=True).T


def linear_features(task, X):
    """A constant and the columns of X, of norm at most 1; rows beyond the radius are shortened."""
    U = (X - task.centre) / task.scale
    U /= np.maximum(1.0, np.linalg.norm(U, axis=1) / task.radius)[:, None]
    return np.column_stack([np.ones(len(U)), U]) / math.hypot(1.0, task.radius)


def statistics_of(F, y):
    """Parts of the release of `noisy_statistics`, each moved by at most 1 by a record.

    Rows of F have norm at most 1, y lies in [-1, 1]: the upper triangle of F'F moves by at most
    sqrt(2), F'y by 2 and the smallest eigenvalue by 1.
    """
    gram = F.T @ F
    upper = gram[np.triu_indices(len(gram))] / math.sqrt(2.0)
    return [upper, F.T @ y / 2.0, np.linalg.eigvalsh(gram)[:1]]


def noisy_statistics(features):
    """Ridge regression from noisy sufficient statistics, after AdaSSP (Wang 2018), by OpenDP."""

    def predict(task, epsilon, rng):
        F = features(task, task.rows[0])
        exact = statistics_of(F, scaled_targets(task))
        noisy, sigma = opendp_vector(np.concatenate(exact), math.sqrt(3.0), epsilon)
        upper, moment, smallest = np.split(noisy, np.cumsum([len(part) for part in exact])[:2])
        d = F.shape[1]
        gram = np.zeros((d, d))
        gram[np.triu_indices(d)] = upper * math.sqrt(2.0)
        gram += np.triu(gram, 1).T
        noise = math.sqrt(2.0) * sigma * math.sqrt(d * math.log(2.0 * d**2 / 0.05))
        ridge = max(noise - max(smallest[0] - 2.0 * sigma, 0.0), 1e-9)
        # Beyond the paper: where the noise still prevails, the matrix is made positive.
        values, vectors = np.linalg.eigh(gram + ridge * np.eye(d))
        weights = vectors @ (vectors.T @ (2.0 * moment) / np.maximum(values, ridge))
        return features(task, task.held_out[0]) @ weights * task.half_width

    return predict


def opendp_vector(values, sensitivity, epsilon):
    """OpenDP's Gaussian release of a vector, zero-concentrated, and its standard deviation."""
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)

    def approximate(scale):
        return dp.c.make_fix_delta(
            dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale)), DELTA
        )

    scale = dp.binary_search_param(
        approximate, d_in=sensitivity, d_out=(epsilon, DELTA), T=float, bounds=(0.1, 1e6)
    )
    release = dp.m.make_gaussian(*space, scale=scale)
    return np.array(release([float(value) for value in values])), scale


def movement_of_weights(n_records, penalties):
    """Largest move of the weights of a ridge regression by a record, rows and targets within 1.

    The penalised loss is 2 lambda-strongly convex and the weights have norm at most
    sqrt(n / lambda), so that no residual is above 1 + sqrt(n / lambda).
    """
    return 2.0 * (1.0 + np.sqrt(n_records / penalties)) / penalties


def output_perturbation(task, epsilon, rng):
    """Ridge regression on the kernel's features, Gaussian noise on its weights.

    The penalty is the smallest, of powers of 1.2, for which no prediction gets too much noise.
    """
    F, y = kernel_features(task, task.rows[0]), scaled_targets(task)
    penalties = 1.2 ** np.arange(100.0)
    sigmas = movement_of_weights(len(y), penalties) / mu_from_epsilon(epsilon, DELTA)
    k = np.argmax(sigmas <= NOISE_OF_OUTPUT)
    weights = np.linalg.solve(F.T @ F + penalties[k] * np.eye(F.shape[1]), F.T @ y)
    weights += sigmas[k] * rng.normal(size=len(weights))
    return kernel_features(task, task.held_out[0]) @ weights * task.half_width


def scaled_targets(task):
    return np.clip(task.rows[1] / task.half_width, -1.0, 1.0)


def on_residuals(method):
    """`method` on what the model of the public rows leaves, which is clipped at three sigma."""

    def predict(task, epsilon, rng):
        public = public_model(task)
        (X, y), X_new = task.rows, task.held_out[0]
        left = replace(
            task, rows=(X, y - public.predict(X)), half_width=3.0 * math.sqrt(task.noise_variance)
        )
        return public.predict(X_new) + method(left, epsilon, rng)

    return predict


def public_model(task):
    model = GaussianProcessRegressor(task.kernel, alpha=task.noise_variance, optimizer=None)
    return model.fit(*task.public)


METHODS = {
    "DPSparseGPRegressor on residuals": on_residuals(default_gp),
    "DPSparseGPRegressor": default_gp,
    "Honkela & Melkas, as published": paper_gp,
    "output perturbation": output_perturbation,
}
if dp is not None:
    METHODS |= {
        "linear on residuals": on_residuals(noisy_statistics(linear_features)),
        "linear, noisy statistics": noisy_statistics(linear_features),
        "same features, noisy statistics": noisy_statistics(kernel_features),
    }
TASKS = {"ailerons GP": ailerons_task, "growth GP": growth_task}


def regression_run(name, folder, split, epsilons):
    """Rows of one split: root mean squared error on the rows that took no part."""
    task, rng = TASKS[name](folder, split), np.random.RandomState(split)
    X_new, y_new = task.held_out

    def rmse(predicted):
        return task.unit * math.sqrt(np.mean(np.square(predicted - y_new)))

    fixed = {
        "sparse GP, no privacy": rmse(default_gp(task, NO_PRIVACY, rng)),
        "public rows alone": rmse(public_model(task).predict(X_new)),
        "public mean": rmse(task.public[1].mean()),
    }
    methods = METHODS | ({"ProjectedGP, other promise": projected_gp} if "growth" in name else {})
    for epsilon in epsilons:
        errors = {key: rmse(method(task, epsilon, rng)) for key, method in methods.items()}
        yield {"epsilon": epsilon} | errors | fixed
