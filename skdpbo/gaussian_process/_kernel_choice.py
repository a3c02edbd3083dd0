r"""One release for several kernels: moments of the average kernel's features, a posterior for each.

Released are the moments of :math:`\bar\phi`, the whitened features of the average kernel
:math:`\bar k = \frac1K \sum_k k_k / \sigma_k^2`. Under kernel k the function is, as always,
:math:`f(x) = \phi_k(x)'v` plus an independent residual, :math:`v \sim N(0, \sigma_k^2 I)`; and
:math:`\phi_k(x)` is close to :math:`T_k \bar\phi(x)`, so that :math:`A' = \sum \bar\phi y + e`
tells of v. All of it is post-processing. Docs: private choice of a kernel.
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
from skdpbo.gaussian_process._features import WhitenedFeatures, check_kernel
from skdpbo.gaussian_process._inducing import support_design
from skdpbo.gaussian_process._methods import FittedWeights, WhitenedMethod
from skdpbo.gaussian_process._noise_aware import released_noise_variance
from skdpbo.gaussian_process._second_moment import denoised_second_moment, nearest_mixture

__all__ = [
    "AverageKernelMethod",
    "ChosenKernels",
    "KernelMoments",
    "average_kernel",
    "check_kernels",
    "feature_map",
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


def feature_map(average, features, support, weights, *, ridge):
    r"""The matrix T for which T phi-bar(x) is closest to phi_k(x) where records are likely.

    Exact at the inducing points, plus the regression of what is missing elsewhere.

    Parameters
    ----------
    average, features : WhitenedFeatures
        phi-bar and phi_k, with the same inducing points.
    support : ndarray of shape (n_support, n_features)
        Public points.
    weights : ndarray of shape (n_support,)
        Estimated number of records that each stands for; public or released.
    ridge : float
        Added to the second moment of phi-bar, > 0.

    Returns
    -------
    ndarray of shape (d, d)
    """
    T = np.linalg.solve(average(average.Z), features(average.Z)).T
    phi = average(support)
    missing = (features(support) - phi @ T.T).T * weights
    second_moment = (phi.T * weights) @ phi + ridge * np.eye(len(T))
    return T + np.linalg.solve(second_moment, (missing @ phi).T).T


class KernelMoments:
    """Released second moments under one kernel, in the eigenbasis of B+; as `MomentModel`.

    The model is A' | v ~ N(B+ T'v, noise_variance B+ + tau2 I), v ~ N(0, signal_variance I).

    Parameters
    ----------
    B : ndarray of shape (d, d)
        B+, estimate of the sum of phi phi', phi the released features.
    A : ndarray of shape (d,)
    yy : float
    sb, sa, syy : float
        Standard deviations of the noise, see `MomentModel`.
    n_records : int
    signal_variance : float
        Of a weight.
    features : ndarray of shape (d, d)
        T: T phi are the features of the kernel.
    """

    def __init__(self, B, A, yy, *, sb, sa, syy, n_records, signal_variance, features):
        values, vectors = np.linalg.eigh(B)
        self.b = np.maximum(values, 0.0)
        self.a, self.T = vectors.T @ A, features @ vectors
        self.yy, self.sb, self.sa, self.syy = yy, sb, sa, syy
        self.n_records, self.sf2 = n_records, signal_variance

    def log_evidence(self, noise_variance):
        """Log density of A' given B+, up to a constant that is the same for every kernel.

        As in `MomentModel`, the noise of B is no part of it.
        """
        factor = self._covariance(noise_variance, self.sa**2)
        log_determinant = 2.0 * np.sum(np.log(np.diag(factor[0])))
        return -0.5 * (log_determinant + self.a @ cho_solve(factor, self.a))

    def posterior(self, noise_variance):
        """Mean (d,) and covariance (d, d) of v."""
        return self._posterior(noise_variance)[:2]

    def residual_sum(self, noise_variance):
        """Expected sum of squared residuals; see `MomentModel.residual_sum`."""
        mean, covariance, gain = self._posterior(noise_variance)
        b, T, m = self.b, self.T, self.T.T @ mean
        followed = self.sa**2 * np.sum(T * gain)
        spread = np.einsum("ij,ik,kj,j->", T, covariance, T, b, optimize=True)
        return self.yy - 2 * (m @ self.a - followed) + m @ (b * m) + spread

    def _posterior(self, noise_variance):
        """Mean and covariance of v, and the gain, mean = gain a."""
        d, sa2, sb2 = len(self.b), self.sa**2, self.sb**2
        T, bT = self.T, self.b[:, None] * self.T.T
        TT = T @ T.T
        tau2 = sa2 + sb2 / 2
        for _ in range(_N_ITERATIONS):
            gain = self.sf2 * cho_solve(self._covariance(noise_variance, tau2), bT).T
            mean, covariance = gain @ self.a, self.sf2 * (np.eye(len(T)) - gain @ bT)
            squared = mean @ TT @ mean + np.sum(TT * covariance)
            tau2 = sa2 + sb2 / 2 * (1 + 1 / d) * squared
        return mean, (covariance + covariance.T) / 2, gain

    def _covariance(self, noise_variance, tau2):
        """Cholesky factor of B T'T B signal_variance + noise_variance B + tau2 I."""
        bT = self.b[:, None] * self.T.T
        return _factor(self.sf2 * bT @ bT.T + np.diag(noise_variance * self.b + tau2))


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
    fits : list of FittedWeights
        One for each kernel.
    log_evidence : ndarray of shape (n_kernels,)
    probabilities : ndarray of shape (n_kernels,)
    """

    fits: list
    log_evidence: np.ndarray
    probabilities: np.ndarray


class AverageKernelMethod(WhitenedMethod):
    """Whitened release of the average kernel, with a posterior under each kernel.

    Parameters
    ----------
    features : WhitenedFeatures
        Of the average kernel.
    kernels : list of sklearn kernels
    **common
        mu, half_width, n_records, fit_amplitude; as for `WhitenedMethod`.
    """

    mechanism = "Gaussian second moments of the whitened features of the average kernel"

    def __init__(self, features, kernels, **common):
        super().__init__(features, posterior="noise_aware", **common)
        self.parts = [WhitenedFeatures(kernel, features.Z) for kernel in kernels]

    def weights(self, gram, source, noise_variance):
        """Release, then post-process."""
        moments = self.release.release(gram, source)
        support = support_design(self.features.Z)
        phi = self.features(support)
        density = nearest_mixture(moments.B, phi)
        B = denoised_second_moment(
            moments.B, phi, sb=moments.sb, n_records=self.release.n_records, weights=density
        )
        log_evidence, fits = [], []
        for part in self.parts:
            T = feature_map(self.features, part, support, density, ridge=moments.sb)
            evidences, fit = self._under(part, T, moments, B, noise_variance)
            log_evidence.append(evidences)
            fits.append(fit)
        return self._compared(np.array(log_evidence), fits)

    def _under(self, part, T, moments, B, noise_variance):
        """Log evidence under each factor of one kernel, and its posterior given the kernel."""
        common = {"sb": moments.sb, "n_records": self.release.n_records, "features": T}
        targets = range(len(self.release.half_width))
        fits = []
        for factor in self.factors:
            models = [
                KernelMoments(
                    B,
                    moments.A[:, j],
                    moments.yy[j, j],
                    sa=moments.sa[j],
                    syy=moments.syy[j],
                    signal_variance=part.signal_variance * factor,
                    **common,
                )
                for j in targets
            ]
            variances = self._noise_variances(models, noise_variance)
            fits.append(list(zip(models, variances, strict=True)))
        evidences = [sum(model.log_evidence(s2) for model, s2 in fit) for fit in fits]
        shares = amplitude_probabilities(self.factors, evidences)
        posteriors = [
            mixture_moments(shares, [fit[j][0].posterior(fit[j][1]) for fit in fits])
            for j in targets
        ]
        variances = shares @ [[s2 for _, s2 in fit] for fit in fits]
        amplitude = float(shares @ self.factors)
        return evidences, FittedWeights.of(posteriors, variances, amplitude=amplitude)

    def _noise_variances(self, models, noise_variance):
        if noise_variance is not None:
            return noise_variance
        largest = [half_width**2 for half_width in self.release.half_width]
        return [*map(released_noise_variance, models, largest)]

    def _compared(self, evidences, fits):
        """Probabilities of the kernels, summed over the factors, under a uniform prior."""
        factors = np.tile(self.factors, len(fits))
        shares = amplitude_probabilities(factors, evidences.ravel()).reshape(evidences.shape)
        middle = len(self.factors) // 2  # the factor 1
        return ChosenKernels(fits, evidences[:, middle], shares.sum(axis=1))
