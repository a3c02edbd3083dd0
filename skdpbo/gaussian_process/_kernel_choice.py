r"""One release for several kernels: features of their average, and one posterior for each.

Released are the moments of :math:`\bar\phi`, the whitened features of the average kernel
:math:`\bar k = \frac1K \sum_k k_k / \sigma_k^2`. Under kernel k the function is represented as
:math:`f(x) = \bar\phi(x)'v` plus an independent residual, by interpolation between the inducing
points: :math:`v = \bar L^{-1} f(Z)`, hence :math:`v \sim N(0, S_k)` with
:math:`S_k = \bar L^{-1} k_k(Z, Z) \bar L^{-T}`. All of it is post-processing.
Docs: private choice of a kernel.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skdpbo.gaussian_process._amplitudes import (
    amplitude_probabilities,
    mixture_moments,
)
from skdpbo.gaussian_process._features import check_kernel
from skdpbo.gaussian_process._inducing import support_design
from skdpbo.gaussian_process._methods import WhitenedMethod
from skdpbo.gaussian_process._noise_aware import released_noise_variance
from skdpbo.gaussian_process._predictor import WeightPredictor
from skdpbo.gaussian_process._second_moment import denoised_second_moment

__all__ = [
    "AverageKernelMethod",
    "ChosenKernels",
    "InterpolatingPredictor",
    "KernelMixture",
    "KernelMoments",
    "average_kernel",
    "check_kernels",
]

_N_ITERATIONS = 8
_DEFAULT_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


def check_kernels(kernels, n_features):
    """Return a list of kernels, each as `check_kernel` wants it; None for the default.

    The default is RBF with sqrt(n_features) times 1/4, 1/2, 1, 2 and 4.
    """
    if kernels is None:
        return [RBF(factor * math.sqrt(n_features)) for factor in _DEFAULT_FACTORS]
    if not isinstance(kernels, list | tuple):
        raise TypeError(f"kernels must be a list of kernels, got {type(kernels).__name__}.")
    if not kernels:
        raise ValueError("kernels must hold at least one kernel.")
    if any(kernel is None for kernel in kernels):
        raise TypeError("kernels must hold kernels, not None.")
    return [clone(check_kernel(kernel, n_features)) for kernel in kernels]


def average_kernel(kernels, point):
    """The average of the kernels, each divided by its variance; of variance 1.

    Parameters
    ----------
    kernels : list of sklearn kernels
        Stationary.
    point : ndarray of shape (1, n_features)
        Anywhere.
    """
    variances = [float(kernel.diag(point)[0]) for kernel in kernels]
    if not all(0 < variance < math.inf for variance in variances):
        raise ValueError("every kernel must have a positive variance.")
    scales = [1.0 / (len(kernels) * variance) for variance in variances]
    parts = [ConstantKernel(c, "fixed") * k for c, k in zip(scales, kernels, strict=True)]
    return sum(parts[1:], parts[0])


class KernelMixture:
    """A weighted sum of kernels, as far as a predictor asks.

    Parameters
    ----------
    kernels : list of sklearn kernels
    weights : ndarray of shape (n_kernels,)
        Not negative; kernels of weight 0 are left out.
    """

    def __init__(self, kernels, weights):
        self.parts = [(k, float(w)) for k, w in zip(kernels, weights, strict=True) if w > 0]

    def __call__(self, X, Y=None):
        """Sum of the kernel matrices."""
        return sum(weight * np.asarray(kernel(X, Y)) for kernel, weight in self.parts)

    def diag(self, X):
        """Sum of the diagonals."""
        return sum(weight * kernel.diag(X) for kernel, weight in self.parts)


class KernelMoments:
    """Released second moments under one kernel, in the eigenbasis of B+; as `MomentModel`.

    The model is A' | v ~ N(B+ v, noise_variance B+ + tau2 I), v ~ N(0, S).

    Parameters
    ----------
    B : ndarray of shape (d, d)
        B+, estimate of the sum of phi phi'.
    A : ndarray of shape (d,)
    yy : float
    sb, sa, syy : float
        Standard deviations of the noise, see `MomentModel`.
    n_records : int
    prior : ndarray of shape (d, d)
        S.
    """

    def __init__(self, B, A, yy, *, sb, sa, syy, n_records, prior):
        values, self.vectors = np.linalg.eigh(B)
        self.b = np.maximum(values, 0.0)
        self.a = self.vectors.T @ A
        self.S = self.vectors.T @ prior @ self.vectors
        self.yy, self.sb, self.sa, self.syy = yy, sb, sa, syy
        self.n_records = n_records

    def log_evidence(self, noise_variance):
        """Log density of A' given B+, up to a constant that is the same for every kernel.

        As in `MomentModel`, the noise of B is no part of it.
        """
        factor = self._covariance(noise_variance, self.sa**2)
        log_determinant = 2.0 * np.sum(np.log(np.diag(factor[0])))
        return -0.5 * (log_determinant + self.a @ cho_solve(factor, self.a))

    def weights(self, noise_variance):
        """Return mean and covariance of v in the eigenbasis, and the gain, mean = gain a."""
        d, sa2, sb2 = len(self.b), self.sa**2, self.sb**2
        bS = self.b[:, None] * self.S
        tau2 = sa2 + sb2 / 2
        for _ in range(_N_ITERATIONS):
            gain = cho_solve(self._covariance(noise_variance, tau2), bS).T
            mean, covariance = gain @ self.a, self.S - gain @ bS
            tau2 = sa2 + sb2 / 2 * (1 + 1 / d) * (mean @ mean + np.trace(covariance))
        return mean, (covariance + covariance.T) / 2, gain

    def residual_sum(self, noise_variance):
        """Expected sum of squared residuals; see `MomentModel.residual_sum`."""
        mean, covariance, gain = self.weights(noise_variance)
        b = self.b
        followed = self.sa**2 * np.trace(gain)
        spread = np.sum(np.diag(covariance) * b)
        return self.yy - 2 * (mean @ self.a - followed) + mean @ (b * mean) + spread

    def posterior(self, noise_variance):
        """Mean (d,) and covariance (d, d) of v."""
        mean, covariance, _ = self.weights(noise_variance)
        return self.vectors @ mean, self.vectors @ covariance @ self.vectors.T

    def _covariance(self, noise_variance, tau2):
        """Cholesky factor of B S B + noise_variance B + tau2 I."""
        b = self.b
        total = b[:, None] * self.S * b + np.diag(noise_variance * b + tau2)
        return _factor(total)


def _factor(matrix):
    """Cholesky factor of a positive matrix, whose diagonal is raised where rounding spoiled it."""
    raised = np.trace(matrix) * 2.0**-52
    while True:
        try:
            return cho_factor(matrix, lower=True)
        except np.linalg.LinAlgError:
            matrix = matrix + raised * np.eye(len(matrix))
            raised *= 8


@dataclass(frozen=True)
class ChosenKernels:
    """What several kernels make of one release; released values.

    Attributes
    ----------
    means : ndarray of shape (d, q)
    covariances : ndarray of shape (q, d, d)
    noise_variance : ndarray of shape (q,)
    log_evidence : ndarray of shape (n_kernels,)
    probabilities : ndarray of shape (n_kernels,)
    weights : ndarray of shape (n_kernels,)
        Share of each kernel in the prediction, times the mean of its factor.
    best : int
    amplitude : float
        Mean factor of the best kernel.
    """

    means: np.ndarray
    covariances: np.ndarray
    noise_variance: np.ndarray
    log_evidence: np.ndarray
    probabilities: np.ndarray
    weights: np.ndarray
    best: int
    amplitude: float


class AverageKernelMethod(WhitenedMethod):
    """Whitened release of the average kernel, with a posterior under each kernel.

    Parameters
    ----------
    features : WhitenedFeatures
        Of the average kernel.
    kernels : list of sklearn kernels
    average : bool
        Average over the kernels by their probabilities; False takes the best alone.
    **common
        mu, half_width, n_records, fit_amplitude; as for `WhitenedMethod`.
    """

    mechanism = "Gaussian second moments of the whitened features of the average kernel"

    def __init__(self, features, kernels, *, average, fit_amplitude, **common):
        super().__init__(features, posterior="noise_aware", fit_amplitude=fit_amplitude, **common)
        self.kernels, self.average = kernels, average

    def weights(self, gram, source, noise_variance):
        """Release, then post-process."""
        moments = self.release.release(gram, source)
        B = denoised_second_moment(
            moments.B,
            self.features(support_design(self.features.Z)),
            sb=moments.sb,
            n_records=self.release.n_records,
        )
        fits = [
            self._under(prior * factor, moments, B, noise_variance)
            for prior in self.priors()
            for factor in self.factors
        ]
        return self._combined(fits)

    def priors(self):
        """S_k = V^2 W'k_k(Z, Z)W of each kernel: W = L^-T / sigma_f whitens, V = sigma_f^2."""
        features = self.features
        whitener = features.signal_variance * features.whitener
        return [whitener.T @ np.asarray(k(features.Z)) @ whitener for k in self.kernels]

    def _under(self, prior, moments, B, noise_variance):
        """Log evidence, noise variances and posteriors of all targets under one prior."""
        evidence, variances, posteriors = 0.0, [], []
        for j, half_width in enumerate(self.release.half_width):
            model = KernelMoments(
                B,
                moments.A[:, j],
                moments.yy[j, j],
                sb=moments.sb,
                sa=moments.sa[j],
                syy=moments.syy[j],
                n_records=self.release.n_records,
                prior=prior,
            )
            if noise_variance is None:
                variance = released_noise_variance(model, half_width**2)
            else:
                variance = noise_variance[j]
            evidence += model.log_evidence(variance)
            variances.append(variance)
            posteriors.append(model.posterior(variance))
        return evidence, variances, posteriors

    def _combined(self, fits):
        """Average over factors and, if asked for, over kernels."""
        evidences, variances, posteriors = zip(*fits, strict=True)
        n_kernels, n_factors = len(self.kernels), len(self.factors)
        factors = np.tile(self.factors, n_kernels)
        shares = amplitude_probabilities(factors, evidences).reshape(n_kernels, n_factors)
        probabilities = shares.sum(axis=1)
        best = int(np.argmax(probabilities))
        taken = shares if self.average else np.where(np.arange(n_kernels) == best, shares.T, 0).T
        taken = taken / taken.sum()
        pairs = [
            mixture_moments(taken.ravel(), [posterior[j] for posterior in posteriors])
            for j in range(len(self.release.half_width))
        ]
        return ChosenKernels(
            means=np.stack([mean for mean, _ in pairs], axis=1),
            covariances=np.stack([covariance for _, covariance in pairs]),
            noise_variance=taken.ravel() @ np.array(variances),
            log_evidence=np.reshape(evidences, shares.shape)[:, n_factors // 2],
            probabilities=probabilities,
            weights=taken @ self.factors,
            best=best,
            amplitude=float(shares[best] @ self.factors / probabilities[best]),
        )


@dataclass(frozen=True)
class InterpolatingPredictor(WeightPredictor):
    """f(x) = c + phi(x)'v + residual, the residual that of interpolation under another kernel.

    With C(x) the weights of the interpolation, phi(x)'v = C(x)'f(Z), the residual has covariance
    k(x, x') - C(x)'k(Z, x') - k(x, Z)C(x') + C(x)'k(Z, Z)C(x').

    Attributes
    ----------
    kernel : KernelMixture
        The kernel of the prior; `features` are those of the average kernel.
    """

    kernel: object

    def _interpolation(self, phi):
        """C, shape (n, d): k_Z'(K_ZZ)^-1 of the average kernel."""
        return self.features.signal_variance * phi @ self.features.whitener.T

    def _moments_of_chunk(self, phi, rows):
        C, Z = self._interpolation(phi), self.features.Z
        through = C @ self.kernel(Z) - 2 * self.kernel(rows, Z)
        residual = self.kernel.diag(rows) + np.einsum("ij,ij->i", through, C)
        explained = np.stack(
            [np.einsum("ij,ij->i", phi @ P, phi) for P in self.covariances], axis=1
        )
        variance = np.maximum(residual, 0.0)[:, None] + np.maximum(explained, 0.0)
        return np.hstack([phi @ self.means, variance])

    def joint(self, X):
        """Posterior mean, shape (n, q), and covariance, shape (n, n, q)."""
        phi, Z = self.features(X), self.features.Z
        C, cross = self._interpolation(phi), self.kernel(X, Z)
        residual = self.kernel(X) - C @ cross.T - cross @ C.T + C @ self.kernel(Z) @ C.T
        covariances = [residual + phi @ P @ phi.T for P in self.covariances]
        return self.prior_mean + phi @ self.means, np.stack(covariances, axis=-1)
