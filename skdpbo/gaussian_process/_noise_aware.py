r"""Posterior of the whitened weights given noisy second moments (docs: DP sparse GP).

Model: :math:`f(x) = \phi(x)'v` plus an independent residual, :math:`v \sim N(0, \sigma_f^2 I)`,
:math:`y = f + N(0, \sigma^2)`. Released are :math:`B' = \sum \phi\phi' + E_b`,
:math:`A' = \sum \phi y + E_a` and :math:`yy' = \sum y^2 + e`. Everything here is post-processing.
"""

import copy
import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

__all__ = ["MomentModel", "WeightPosterior", "noise_aware_posterior", "released_noise_variance"]

_N_ITERATIONS = 8
_N_VARIANCE_ITERATIONS = 30
_VARIANCE_TOLERANCE = 1e-12  # relative
_SMALLEST_SHARE = 1e-10  # of the largest noise variance; keeps the linear algebra finite


@dataclass(frozen=True)
class WeightPosterior:
    """Gaussian posterior of the weights v of one target.

    Attributes
    ----------
    mean : ndarray of shape (d,)
    covariance : ndarray of shape (d, d)
    tau2 : float
        Variance per coordinate that the privacy noise adds to A', as the model sees it.
    """

    mean: np.ndarray
    covariance: np.ndarray
    tau2: float


class MomentModel:
    """Released second moments in the eigenbasis of B+, in which all matrices are diagonal.

    Parameters
    ----------
    B : ndarray of shape (d, d)
        B+, positive semi-definite estimate of the sum of phi phi' from its release.
    A : ndarray of shape (d,)
        Released sum of phi y.
    yy : float
        Released sum of y^2.
    sb, sa, syy : float
        Standard deviations of the noise: of a diagonal entry of the release of B (an entry off
        it has sb / sqrt 2), of an entry of A, of yy.
    n_records : int
        Number of records, public.
    signal_variance : float
        sigma_f^2, variance of a weight.
    """

    def __init__(self, B, A, yy, *, sb, sa, syy, n_records, signal_variance):
        values, self.vectors = np.linalg.eigh(B)
        self.b = np.maximum(values, 0.0)  # rounding
        self.a = self.vectors.T @ A
        self.yy, self.sb, self.sa, self.syy = yy, sb, sa, syy
        self.n_records, self.sf2 = n_records, signal_variance

    def scaled(self, factor):
        """The same release under a kernel that is multiplied by `factor`."""
        other = copy.copy(self)
        other.sf2 = self.sf2 * factor
        return other

    def log_evidence(self, noise_variance):
        """Log density of A' given B+, up to a constant that is the same for every amplitude.

        The noise of B is no part of A', so tau2 does not belong here: it would make large
        amplitudes unlikely for the very reason that they bring more of it.
        """
        b = self.b
        total = self.sf2 * b * b + noise_variance * b + self.sa**2
        return -0.5 * np.sum(np.log(total) + self.a**2 / total)

    def weights(self, noise_variance):
        """Return mean and variances of v in the eigenbasis, and tau2.

        The model is A' | v ~ N(B+ v, noise_variance B+ + tau2 I), where tau2 contains what the
        noise of B adds, (B' - B) v; it depends on v, hence the fixed point.
        """
        d, sa2, sb2 = len(self.b), self.sa**2, self.sb**2
        tau2 = sa2 + sb2 / 2
        for _ in range(_N_ITERATIONS):
            variances, mean = self._given(noise_variance, tau2)
            tau2 = sa2 + sb2 / 2 * (1 + 1 / d) * (mean @ mean + variances.sum())
        return mean, variances, tau2

    def _given(self, noise_variance, tau2):
        b, sf2 = self.b, self.sf2
        total = noise_variance * b + tau2  # C^-1
        # P = (I / sf2 + B C B)^-1 and v = P B C A'
        variances = sf2 * total / (total + sf2 * b * b)
        return variances, variances * b * self.a / total

    def residual_sum(self, noise_variance):
        """Expected sum of squared residuals of the n targets about phi'v.

        v'A' is too large by the noise of A' that v has followed: its expectation,
        sa^2 tr(P B C), is taken out.
        """
        mean, variances, tau2 = self.weights(noise_variance)
        b = self.b
        followed = self.sa**2 * np.sum(variances * b / (noise_variance * b + tau2))
        spread = np.sum(variances * b)  # E v'Bv - mean' B mean
        return self.yy - 2 * (mean @ self.a - followed) + mean @ (b * mean) + spread

    def elbo(self, noise_variance):
        """Titsias' lower bound on the log evidence, at the noise-aware posterior q(v).

        log N(y | Phi v, s2 I) averaged over q, minus the trace term and KL(q || prior).
        """
        mean, variances, _ = self.weights(noise_variance)
        n, s2, sf2 = self.n_records, noise_variance, self.sf2
        unexplained = sf2 * max(n - self.b.sum(), 0.0)  # tr(K_XX - Q_XX)
        fit = self.residual_sum(noise_variance) + unexplained
        ratio = variances / sf2
        divergence = 0.5 * np.sum(ratio + mean**2 / sf2 - 1 - np.log(ratio))
        return -0.5 * (n * math.log(2 * math.pi * s2) + fit / s2) - divergence


def noise_aware_posterior(model, noise_variance):
    """Posterior of the weights of one target that knows the privacy noise.

    Parameters
    ----------
    model : MomentModel
    noise_variance : float
        sigma^2, of an observation.

    Returns
    -------
    WeightPosterior
    """
    mean, variances, tau2 = model.weights(noise_variance)
    V = model.vectors
    return WeightPosterior(V @ mean, (V * variances) @ V.T, float(tau2))


def released_noise_variance(model, largest):
    """Noise variance of the observations, estimated from released moments.

    The residual sum over n has a standard deviation of about ``syy / n``; the estimate is the
    posterior mean of a variance that is known to be positive, so it is never 0 and errs on the
    side of wide intervals when the noise hides it.

    Parameters
    ----------
    model : MomentModel or KernelMoments
    largest : float
        Public bound on the variance, > 0.

    Returns
    -------
    float
        In (0, largest].
    """
    n, sd = model.n_records, model.syy / model.n_records
    variance = largest
    for _ in range(_N_VARIANCE_ITERATIONS):
        estimate = _positive_mean(model.residual_sum(variance) / n, sd)
        before, variance = variance, float(np.clip(estimate, _SMALLEST_SHARE * largest, largest))
        if math.isclose(variance, before, rel_tol=_VARIANCE_TOLERANCE):
            break
    return variance


def _positive_mean(mean, sd):
    """Mean of a normal variable given that it is positive."""
    if sd <= 0 or mean > 30 * sd:
        return mean
    z = mean / sd
    if z < -30:
        return sd / -z  # the leading term of Mills' ratio
    return mean + sd * math.exp(norm.logpdf(z) - norm.logcdf(z))
