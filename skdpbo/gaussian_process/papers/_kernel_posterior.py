r"""Posterior from the published release (Honkela & Melkas 2021, Section 3.3). All post-processing.

d inducing points Z; A (d,), B (d, d): released, with noise of standard deviation sa, and sb on the
diagonal and sb / sqrt 2 off it. The function is :math:`f(x) = k_Z(x)'w`, :math:`w = K_{ZZ}^{-1} u`,
plus the independent residual of the prior.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from skdpbo._noise_aware import WeightPosterior

_FAILURE = 0.01  # rho of Eq. (13), the paper's value
JITTER = 1e-6  # of K_ZZ, relative to the prior variance, wherever it is inverted
_N_ITERATIONS = 8

POSTERIORS = ("noise_aware", "linearised", "linearised_published", "naive")


def in_coordinates(posterior, whitener):
    """Mean and covariance of v in f(x) = phi(x)'v, phi(x) = whitener' k_Z(x).

    Parameters
    ----------
    posterior : WeightPosterior
        Of w, where the mean of f(x) is k_Z(x)'w.
    whitener : ndarray of shape (d, d)
        Upper triangular.
    """
    # k_Z'w = phi'v with phi = whitener' k_Z: w = whitener v.
    half = solve_triangular(whitener, posterior.covariance)
    covariance = solve_triangular(whitener, half.T)
    return solve_triangular(whitener, posterior.mean), 0.5 * (covariance + covariance.T)


def regulariser(sb, noise_variance, d):
    """Lambda of Eq. (13), added to the diagonal of K_ZZ + B / sigma^2."""
    # As printed: the last factor is that of a variance (docs/theory/sparse_gp_release.md, Errata).
    size = math.sqrt(d * math.log(2.0 * d * d / _FAILURE)) * (d + 1) / (2.0 * d)
    return sb / noise_variance * size


def kernel_posterior(A, B, K_ZZ, *, noise_variance, sa, sb, method="linearised", n_records=None):
    """Posterior of one target.

    Parameters
    ----------
    A : ndarray of shape (d,)
    B : ndarray of shape (d, d)
        Released; symmetric.
    K_ZZ : ndarray of shape (d, d)
    noise_variance : float
        sigma^2 of an observation, > 0.
    sa, sb : float
        Standard deviations of the noise of A and of the diagonal of B.
    method : {"noise_aware", "linearised", "linearised_published", "naive"}
        "naive": Eq. (12) without S_2. "linearised_published": S_2 of Eq. (14) and (17).
        "linearised": the exact covariance of the linearised map, which (17) approximates.
        "noise_aware": the noise is part of the likelihood; no regulariser.
    n_records : int, optional
        Number of records; "noise_aware" clips the eigenvalues of B to their largest possible value.

    Returns
    -------
    WeightPosterior
    """
    if method == "noise_aware":
        return _noise_aware(A, B, K_ZZ, noise_variance, sa, sb, n_records)
    if method not in POSTERIORS:
        raise ValueError(f"posterior must be one of {POSTERIORS}")
    d = len(B)
    extra = regulariser(sb, noise_variance, d)
    # Without noise lambda is 0, and K_ZZ of close points is singular to rounding.
    extra = max(extra, 1e-10 * (K_ZZ.diagonal().max() + abs(B.diagonal()).max() / noise_variance))
    while True:
        try:
            factor = cho_factor(K_ZZ + B / noise_variance + extra * np.eye(d), lower=True)
            break
        except LinAlgError:
            # Eq. (13) makes this unlikely but does not exclude it.
            extra *= 2.0
    inverse = cho_solve(factor, np.eye(d))
    Sigma = 0.5 * (inverse + inverse.T)  # Sigma tilde of Eq. 12
    weights = Sigma @ A / noise_variance  # Eq. 12, m = K_ZZ weights
    covariance = Sigma
    if method != "naive":
        published = method == "linearised_published"
        added = _covariance_from_noise(Sigma, weights, noise_variance, sa, sb, published)
        covariance = Sigma + added  # Eq. 18
    return WeightPosterior(weights, covariance)


def _covariance_from_noise(Sigma, weights, noise_variance, sa, sb, published):
    """K_ZZ^-1 S_2 K_ZZ^-1, the covariance due to the noise of A and B, Eq. (14)-(17), in O(d^3).

    With v = Sigma (A + E_a), the linearised map is E_b -> -sigma^-4 Sigma E_b v. Symmetric E_b
    has cov(E_b v) = (sb^2 / 2)(|v|^2 I + v v'). Eq. (17) takes the two copies of an off-diagonal
    entry as independent, which gives diag(v^2) for v v'.
    """
    w = weights  # v / sigma^2: fourth powers of sigma, which may overflow, cancel
    # docs/theory/sparse_gp_release.md, Theorem 3.
    outer = np.diag(w * w) if published else np.outer(w, w)
    of_B = 0.5 * sb**2 * ((w @ w) * np.eye(len(w)) + outer)
    of_A = sa**2 * np.eye(len(w))  # Eq. 14
    return Sigma / noise_variance @ (of_A + of_B) @ Sigma / noise_variance


def _noise_aware(A, B, K_ZZ, noise_variance, sa, sb, n_records):
    """Fixed point of A | w ~ N(B+ w, sigma^2 B+ + tau2 I) with the prior w ~ N(0, K_ZZ^-1)."""
    d = len(A)
    values, vectors = np.linalg.eigh(B)
    # |k_Z(x)|^2 <= k(x, x) lambda_max(K_ZZ) <= tr K_ZZ^2 for each record.
    largest = math.inf if n_records is None else n_records * float(np.trace(K_ZZ @ K_ZZ))
    B_plus = (vectors * np.clip(values, 0.0, largest)) @ vectors.T
    prior = K_ZZ + JITTER * K_ZZ.diagonal().max() * np.eye(d)
    tau2 = sa**2 + 0.5 * sb**2
    for _ in range(_N_ITERATIONS):
        # Otherwise sigma^2 B + tau2 I may be singular up to rounding.
        tau2 = max(tau2, 1e-12 * noise_variance * values[-1])
        BC = cho_solve(cho_factor(noise_variance * B_plus + tau2 * np.eye(d)), B_plus).T
        P = cho_solve(cho_factor(prior + BC @ B_plus), np.eye(d))
        weights = P @ (BC @ A)
        # E |E_b w|^2 / d = (sb^2 / 2)(1 + 1/d) E |w|^2, with the current posterior of w.
        tau2 = sa**2 + 0.5 * sb**2 * (1.0 + 1.0 / d) * (weights @ weights + np.trace(P))
    return WeightPosterior(weights, 0.5 * (P + P.T))
