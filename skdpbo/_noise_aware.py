r"""Posterior of the weights of one target given noisy second moments (docs: DP sparse GP).

Released are moments of features :math:`\bar\phi`: :math:`B' = \sum \bar\phi\bar\phi' + E_b`,
:math:`A' = \sum \bar\phi y + e_a` and :math:`yy' = \sum y^2 + e`. The model is
:math:`f(x) = \phi(x)'v` plus an independent residual, :math:`\phi = T \bar\phi`,
:math:`v \sim N(0, \sigma_f^2 I)`, :math:`y = f + N(0, \sigma^2)`. Everything is post-processing.
"""

import copy
import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky
from scipy.special import log_ndtr

from skdpbo.surrogate._linalg import cholesky_inverse

_N_ITERATIONS = 8
_N_VARIANCE_ITERATIONS = 30
_VARIANCE_TOLERANCE = 1e-3  # relative; it changes the log evidence by less than d / 2 times it
_SMALLEST_SHARE = 1e-10  # of the largest noise variance, for finite linear algebra


@dataclass(frozen=True)
class WeightPosterior:
    """Gaussian posterior of the weights v of one target.

    Attributes
    ----------
    mean : ndarray of shape (d,)
    covariance : ndarray of shape (d, d)
    tau2 : float
        Variance per coordinate that privacy noise adds to A' in the model.
    """

    mean: np.ndarray
    covariance: np.ndarray
    tau2: float = 0.0


def _kept(method):
    """Cache the results of a method for each noise variance."""

    @functools.wraps(method)
    def known(self, noise_variance):
        key = method.__name__, noise_variance
        if key not in self._known:
            self._known[key] = method(self, noise_variance)
        return self._known[key]

    return known


class MomentModel:
    """Released second moments of one target, in the eigenbasis of B+.

    With u = T'v the model is A' | u ~ N(B+ u, noise_variance B+ + tau2 I), u ~ N(0, sf2 T'T).

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
        sf2, variance of a weight.
    features : ndarray of shape (d, d), default=None
        T. None is the identity.
    map_error : float, default=0.0
        Variance that the error of T adds to the noise of an observation, in units of sf2.
    eigen : tuple, default=None
        Eigenvalues and eigenvectors of B, where several models have the same.
    """

    def __init__(
        self,
        B,
        A,
        yy,
        *,
        sb,
        sa,
        syy,
        n_records,
        signal_variance,
        features=None,
        map_error=0.0,
        eigen=None,
    ):
        values, vectors = np.linalg.eigh(B) if eigen is None else eigen
        # Smaller eigenvalues are rounding errors: only the last ones, `seen`, carry information.
        seen = values > len(values) * np.finfo(float).eps * values[-1]
        self.b, self.seen = np.where(seen, values, 0.0), slice(len(values) - seen.sum(), None)
        self.a = vectors.T @ A
        self.T = vectors if features is None else features @ vectors
        self.H = None if features is None else self.T.T @ self.T  # None: the identity
        self.yy, self.sb, self.sa, self.syy = yy, sb, sa, syy
        self.n_records, self.sf2, self.map_error = n_records, signal_variance, map_error
        self._known = {}

    def scaled(self, factor):
        """Return the model of the same release under a kernel multiplied by `factor`."""
        other = copy.copy(self)
        other.sf2, other._known = self.sf2 * factor, {}
        return other

    def log_evidence(self, noise_variance):
        """Return the log density of A' given B+, up to a constant common to all kernels.

        Given B+, A' has no noise of B: tau2, which grows with the amplitude, is left out, as it
        would penalise large amplitudes.
        """
        e, W, _ = self._decomposed(noise_variance)
        total = e + self.sa**2
        return -0.5 * np.sum(np.log(total) + (W.T @ self.a) ** 2 / total)

    @_kept
    def posterior(self, noise_variance):
        """Return the posterior of v with the privacy noise in the model, a `WeightPosterior`."""
        noise_variance = noise_variance + self.sf2 * self.map_error
        _, _, tau2 = self._solved(*self._decomposed(noise_variance))
        b, a = self.b[self.seen], self.a[self.seen]
        TB = self.T[:, self.seen] * b
        C = 1.0 / (noise_variance * b + tau2)
        # P = (I / sf2 + T B C B T')^-1 and v = P T B C A'
        precision = np.eye(len(TB)) / self.sf2 + (TB * C) @ TB.T
        P = cholesky_inverse(_factor(precision))
        return WeightPosterior(P @ (TB @ (C * a)), P, float(tau2))

    def dispersion(self, noise_variance):
        """Return the mean square of A' in units of its standard deviations, at least 1.

        It is 1 in expectation; a larger value shows that the model does not fit the release.
        """
        e, W, _ = self._decomposed(noise_variance)
        return max(1.0, float(np.mean((W.T @ self.a) ** 2 / (e + self.sa**2))))

    def residual_sum(self, noise_variance):
        """Return the expected sum of squared residuals of the n targets about phi'v.

        v is fitted to the noise of A' as well; the expected excess of v'A' is subtracted.
        """
        e, W, Q = self._decomposed(noise_variance)
        mean, shrunk, _ = self._solved(e, W, Q)
        b = self.b
        followed = self.sa**2 * np.sum(np.einsum("ij,ij->j", W, Q) * shrunk)
        prior = self.sf2 * b.sum() if self.H is None else self.sf2 * (b @ self.H.diagonal())
        unit = _power_of_two(Q)
        spread = prior - (b @ (Q / unit) ** 2) @ (shrunk * unit) * unit  # tr(B cov(u))
        return self.yy - 2 * (mean @ self.a - followed) + mean @ (b * mean) + spread

    def elbo(self, noise_variance):
        """Return Titsias' lower bound on the log evidence, at the noise-aware posterior q(v).

        log N(y | Phi v, s2 I) averaged over q, minus the trace term and KL(q || prior).
        """
        q, n, s2 = self.posterior(noise_variance), self.n_records, noise_variance
        explained = np.einsum("ij,ij,j->", self.T, self.T, self.b)
        fit = self.residual_sum(s2) + self.sf2 * max(n - explained, 0.0)  # tr(K_XX - Q_XX)
        ratio = q.covariance / self.sf2
        divergence = 0.5 * (np.trace(ratio) + q.mean @ q.mean / self.sf2 - len(ratio))
        divergence -= 0.5 * np.linalg.slogdet(ratio)[1]
        return -0.5 * (n * math.log(2 * math.pi * s2) + fit / s2) - divergence

    def _solved(self, e, W, Q):
        """Return the mean of u, 1 / (e + tau2), and tau2.

        tau2 contains what the noise of B adds, (B' - B) u; it depends on u, hence the fixed point.
        """
        d, sa2, sb2 = len(self.b), self.sa**2, self.sb**2
        # Squares in units of Q: with targets of 1e80 they would overflow.
        unit = _power_of_two(Q)
        a, squares = W.T @ self.a, np.einsum("ij,ij->j", Q / unit, Q / unit)
        prior = self.sf2 * (d if self.H is None else np.trace(self.H))
        tau2 = sa2 + sb2 / 2
        for _ in range(_N_ITERATIONS):
            mean = Q @ (a / (e + tau2))
            explained = squares @ (unit / (e + tau2)) * unit
            squared = mean @ mean + max(prior - explained, 0.0)
            tau2 = sa2 + sb2 / 2 * (1 + 1 / d) * squared
        shrunk = 1.0 / (e + tau2)
        return Q @ (a * shrunk), shrunk, tau2

    @_kept
    def _decomposed(self, noise_variance):
        """Return e, W and Q = sf2 T'T B W for B T'T B sf2 + noise_variance B = W diag(e) W'."""
        b = self.b
        if self.H is None:
            # All matrices are diagonal in the eigenbasis of B.
            return b * (self.sf2 * b + noise_variance), np.eye(len(b)), np.diag(self.sf2 * b)
        s, e, W, Q = self.seen, np.zeros(len(b)), np.eye(len(b)), np.zeros((len(b), len(b)))
        HB = self.sf2 * self.H[:, s] * b[s]
        values, W[s, s] = np.linalg.eigh(b[s, None] * HB[s] + np.diag(noise_variance * b[s]))
        e[s], Q[:, s] = np.maximum(values, 0.0), HB @ W[s, s]
        return e, W, Q


def _power_of_two(matrix):
    """Return a power of two near the largest entry, by which division is exact."""
    return math.ldexp(1.0, math.frexp(float(np.abs(matrix).max()))[1])


def _factor(matrix):
    """Return the lower Cholesky factor, with jitter if rounding made the matrix indefinite."""
    raised = np.trace(matrix) * 2.0**-52
    while True:
        try:
            return cholesky(matrix, lower=True)
        except np.linalg.LinAlgError:
            matrix = matrix + raised * np.eye(len(matrix))
            raised *= 8


def released_noise_variance(model, largest):
    """Return the noise variance of the observations, estimated from released moments.

    The mean squared residual has a noise of standard deviation of about ``syy / n``; the estimate
    is the posterior mean of a variance that is known to be positive. It is never 0, and too large
    rather than too small if noise hides the variance.

    Parameters
    ----------
    model : MomentModel
    largest : float
        Public bound on the variance, > 0.

    Returns
    -------
    float
        In (0, largest].
    """
    n, sd = model.n_records, model.syy / model.n_records
    variance = largest
    # A fixed point: the residuals depend on the variance that the posterior assumes.
    for _ in range(_N_VARIANCE_ITERATIONS):
        estimate = _positive_mean(model.residual_sum(variance) / n, sd)
        before, variance = variance, float(np.clip(estimate, _SMALLEST_SHARE * largest, largest))
        if math.isclose(variance, before, rel_tol=_VARIANCE_TOLERANCE):
            break
    return variance


def _positive_mean(mean, sd):
    """Return the mean of a normal variable given that it is positive."""
    if sd <= 0 or mean > 30 * sd:  # the condition changes nothing in double precision
        return mean
    z = mean / sd
    if z < -30:
        return sd / -z  # the leading term of Mills' ratio
    return mean + sd * math.exp(-(z**2) / 2 - float(log_ndtr(z))) / math.sqrt(2 * math.pi)
