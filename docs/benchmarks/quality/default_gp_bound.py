"""Least error of any rule on functions of every kind in one column, and of one useless column.

    python docs/benchmarks/run.py default_gp_bound --draws 30

The records' places, their second moment and the variance of their noise are given for free. A rule
sees the released sum of features times targets, in the features of an average of the default
kernels, and the released sum of squares. Errors are over the least error of one kernel of the
family that has the whole release, in the same setting. `known`: the rule knows the kind of the
function, and needs no choice; with the shares of the default, and with the best for the budget.
`bayes`: it knows the nine kinds and minimises the expected ratio (geometric median of the exact
posterior); steps, sines and lines count as draws of the kernel that serves them best. Ideal rules
both, so no fit can be below them on average. Appends to ``results/default_gp_bound.csv``.
"""

import argparse

import numpy as np
from provenance import RESULTS, append_row
from quality.default_gp import KINDS, N_RECORDS, NOISE
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import RBF, Matern

from skdpbo._gram_release import WhitenedRelease
from skdpbo.gaussian_process.sparse._features import WhitenedFeatures
from skdpbo.gaussian_process.sparse._inducing import inducing_design
from skdpbo.gaussian_process.sparse._kernel_family import (
    average_kernel,
    default_family,
    kernel_shares,
)
from skdpbo.gaussian_process.sparse._share_design import designed_shares
from skdpbo.privacy import mu_from_epsilon

GRID = np.linspace(-3, 3, 300)[:, None]
BOX, HALF_WIDTH = (np.array([-3.0]), np.array([3.0])), 3.0
Z = inducing_design(None, BOX, 1)
FAMILY = default_family(Z, np.array([HALF_WIDTH]))
STAND_INS = {"matern": Matern(1.0, nu=0.5), "linear": FAMILY.kernels[8]}
STAND_INS |= {"steps": Matern(1.0, nu=0.5), "sines": RBF(0.5)}
PRIORS = {kind: STAND_INS[kind] if kind in STAND_INS else RBF(float(kind[4:])) for kind in KINDS}
COVARIANCES = {kind: kernel(GRID) for kind, kernel in PRIORS.items()}


def statistics(epsilon):
    return WhitenedRelease(mu_from_epsilon(epsilon, 1e-5), (HALF_WIDTH,), N_RECORDS)


def default_shares(epsilon):
    parts = [WhitenedFeatures(kernel, Z) for kernel in FAMILY.kernels]
    return designed_shares(parts, kernel_shares(FAMILY, Z), statistics(epsilon))


def noise(epsilon):
    """Standard deviations of the released sums of features times targets, and of squares."""
    release = statistics(epsilon)
    return release.noise / np.sqrt(2) / release.beta[0], release.noise / release.beta[0] ** 2


def features(kernel, Z, points):
    phi = WhitenedFeatures(kernel, Z)(points)
    return phi / np.maximum(1, np.linalg.norm(phi, axis=1))[:, None]


def conditional(K, phi, sa, s2, n):
    """Return covariance of f given the sums, gain of the mean, and covariance of the sums."""
    M = phi * (n / len(phi))
    KM = K @ M
    S = M.T @ KM + s2 * phi.T @ M + sa**2 * np.eye(M.shape[1])
    gain = cho_solve(cho_factor(S, lower=True), KM.T).T
    return K - gain @ KM.T, gain, S


def known(kernel, sa):
    """Return the error for each kind when it is known."""
    phi = features(kernel, Z, GRID)
    pairs = [conditional(K, phi, sa, NOISE**2, N_RECORDS) for K in COVARIANCES.values()]
    return np.array([np.sqrt(np.trace(P) / len(P)) for P, _, _ in pairs])


def best_shares(sa, best, shares):
    """Return the least mean ratio over the shares of the nine kernels, from a start."""

    def ratio(logarithms):
        shares = np.exp(logarithms - logarithms.max())
        return np.mean(known(average_kernel(FAMILY.kernels, Z, shares / shares.sum()), sa) / best)

    settings = {"maxiter": 250, "xatol": 0.02, "fatol": 5e-4}
    return minimize(ratio, np.log(shares), method="Nelder-Mead", options=settings).fun


def bayes(shared, sa, syy, best, draws, rng, n_samples=40):
    """Return the mean ratio of the rule with the least expected one, and its standard error."""
    phi = features(shared, Z, GRID)
    per_point, found = N_RECORDS / len(GRID), []
    parts = [conditional(K, phi, sa, NOISE**2, N_RECORDS) for K in COVARIANCES.values()]
    jitter = 1e-6 * np.eye(len(GRID))
    roots = [np.linalg.cholesky(P + jitter) for P, _, _ in parts]
    priors = [np.linalg.cholesky(K + jitter) for K in COVARIANCES.values()]
    sums = [np.linalg.cholesky(S) for _, _, S in parts]
    M = phi * per_point
    C = np.linalg.cholesky(NOISE**2 * phi.T @ M + sa**2 * np.eye(M.shape[1]))
    for draw in range(draws * len(KINDS)):
        f = priors[draw % len(KINDS)] @ rng.normal(size=len(GRID))
        A = M.T @ f + C @ rng.normal(size=len(C))
        yy = per_point * f @ f + syy * rng.normal()
        samples, weights = [], []
        for (_, gain, _), root, L, error in zip(parts, roots, sums, best, strict=True):
            some = gain @ A + (root @ rng.normal(size=(len(f), n_samples))).T
            evidence = -0.5 * np.sum(np.linalg.solve(L, A) ** 2) - np.log(L.diagonal()).sum()
            gap = (yy - per_point * np.sum(some**2, axis=1)) / syy
            samples.append(some)
            weights.append(evidence - gap**2 / 2 - np.log(error))
        samples, weights = np.vstack(samples), np.concatenate(weights)
        weights = np.exp(weights - weights.max())
        middle = weights @ samples / weights.sum()
        for _ in range(15):  # Weiszfeld
            pull = weights / (np.sqrt(np.mean((samples - middle) ** 2, axis=1)) + 1e-4)
            middle = pull @ samples / pull.sum()
        found.append(np.sqrt(np.mean((middle - f) ** 2)) / best[draw % len(KINDS)])
    return np.mean(found), np.std(found, ddof=1) / np.sqrt(len(found))


def useless(epsilon, n_records=4000, s2=0.09):
    """Return the least cost of a useless column when either of two columns may be the useful one.

    A function of 3/2 units of one of two columns: the average of a kernel on each, over the kernel
    of the right one alone; the rule knows afterwards which it was.
    """
    sa, side = noise(epsilon)[0], np.linspace(-3, 3, 20)
    points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    Z = inducing_design(None, (np.full(2, -3.0), np.full(2, 3.0)), 2)
    first, second = 1.5 * RBF([1.5, np.inf]), 1.5 * RBF([np.inf, 1.5])
    errors = [
        np.sqrt(np.trace(conditional(first(points), phi, sa, s2, n_records)[0]) / len(points))
        for phi in (features(k, Z, points) for k in (first, average_kernel([first, second], Z)))
    ]
    return errors[1] / errors[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0, 10.0])
    parser.add_argument("--draws", type=int, default=30)
    options = parser.parse_args()
    for epsilon in options.epsilons:
        sa, syy = noise(epsilon)
        best = np.min([known(kernel, sa) for kernel in FAMILY.kernels], axis=0)
        shares = default_shares(epsilon)
        shared = average_kernel(FAMILY.kernels, Z, shares)
        ratio, error = bayes(shared, sa, syy, best, options.draws, np.random.default_rng(1))
        row = {
            "epsilon": epsilon,
            "known": np.mean(known(shared, sa) / best),
            "known_best_shares": best_shares(sa, best, shares),
            "bayes": ratio,
            "standard_error": error,
            "useless_column": useless(epsilon),
        }
        row = {name: round(float(value), 4) for name, value in row.items()}
        append_row(RESULTS / "default_gp_bound.csv", row, settings={"draws": options.draws})
        print(row, flush=True)


if __name__ == "__main__":
    main()
