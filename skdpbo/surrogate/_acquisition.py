"""Acquisition functions, and the information gain that governs the regret of GP-UCB."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from skdpbo.privacy._checks import check_count, check_positive, check_within
from skdpbo.surrogate._linalg import FloatArray
from skdpbo.surrogate._posterior import CandidatePosterior


def gp_ucb_sqrt_beta(t: int, n_candidates: int, delta: float) -> float:
    r"""Return the published confidence multiplier of GP-UCB on a finite set.

    It is the square root of :math:`\beta_t = 2 \log(|\Lambda| t^2 \pi^2 / (3 \delta))`,
    Kusner et al. (2015), Eq. (3), after Srinivas et al. (2010), Theorem 1.

    Parameters
    ----------
    t : int
        Iteration, from 1.
    n_candidates : int
        Size of the candidate set Lambda, at least 1.
    delta : float
        Probability that some confidence interval fails, in (0, 1). This is a property of the
        Gaussian-process prior and not a privacy parameter.

    Returns
    -------
    float
        sqrt(beta_t), which multiplies the posterior standard deviation.

    Examples
    --------
    >>> round(gp_ucb_sqrt_beta(1, 100, 0.05) ** 2, 4)
    17.5835
    """
    check_count(t, "t")
    check_count(n_candidates, "n_candidates")
    check_within(delta, "delta", "(0, 1)")
    # A sum of logarithms, as |Lambda| t^2 may be beyond the range of a float.
    log_term = math.log(n_candidates) + 2.0 * math.log(t * math.pi) - math.log(3.0 * delta)
    return math.sqrt(2.0 * log_term)


def upper_confidence_bound(
    mean: npt.ArrayLike, std: npt.ArrayLike, sqrt_beta: float = 2.0
) -> FloatArray:
    """Return ``mean + sqrt_beta * std``: its arg max is the next point of GP-UCB.

    Parameters
    ----------
    mean, std : array-like of shape (n,)
        Posterior mean and standard deviation, greater values being better.
    sqrt_beta : float, default=2.0
        Weight of exploration, >= 0. The default does well in practice; `gp_ucb_sqrt_beta`, for
        which regret is bounded, gives about 4 to 7 and explores far more.

    Returns
    -------
    ndarray of shape (n,)
        In the units of `mean`.
    """
    sqrt_beta = check_within(sqrt_beta, "sqrt_beta", "[0, inf)")
    return np.asarray(mean, dtype=np.float64) + sqrt_beta * np.asarray(std, dtype=np.float64)


def log_expected_improvement(mean: npt.ArrayLike, std: npt.ArrayLike, best: float) -> FloatArray:
    """Return ``log E[max(f - best, 0)]`` for normal f (Mockus, Tiesis & Zilinskas 1978).

    The logarithm does not underflow far below `best`, where all improvements would be 0 (Ament et
    al. 2023).

    Parameters
    ----------
    mean, std : array-like of shape (n,)
        Posterior mean and standard deviation, greater values being better.
    best : float
        Value to improve on.

    Returns
    -------
    ndarray of shape (n,)
        Logarithms, in the logarithm of the units of `mean`.
    """
    std = np.maximum(std, 1e-140)  # so that z^2 does not overflow
    z = (np.asarray(mean, dtype=np.float64) - best) / std
    near, far = np.maximum(z, -1.0), np.maximum(-z, 1.0)
    density = np.exp(-0.5 * near**2) / math.sqrt(2 * math.pi)
    # E = std (phi(z) + z Phi(z)); below -1 as phi(z) (1 - |z| Phi(z) / phi(z)), whose second
    # factor tends to 1 / z^2 and would be rounding errors alone from |z| = 1000 on.
    mills = math.sqrt(math.pi / 2) * special.erfcx(far / math.sqrt(2))
    rest = np.where(far < 1e3, np.log1p(-np.minimum(far, 1e3) * mills), -2 * np.log(far))
    tail = rest - 0.5 * far**2 - 0.5 * math.log(2 * math.pi)
    return np.log(std) + np.where(z > -1.0, np.log(density + near * special.ndtr(near)), tail)


def select_batch(
    posterior: CandidatePosterior,
    batch_size: int,
    sqrt_beta: float = 2.0,
    exclude: npt.ArrayLike | None = None,
    best: float | None = None,
) -> list[int]:
    """Choose several candidates at once by GP-BUCB (Desautels, Krause & Burdick 2014).

    Each chosen point is given its own posterior mean as an imagined value: the mean stays, the
    standard deviation shrinks, and the next point is chosen elsewhere. With `best` the expected
    improvement takes the place of the upper confidence bound.

    Parameters
    ----------
    posterior : CandidatePosterior
        Not modified.
    batch_size : int
        Number of points wanted, at least 1.
    sqrt_beta : float, default=2.0
        As in `upper_confidence_bound`.
    exclude : array-like of int or None, default=None
        Candidates that must not be chosen; a point is never chosen twice in a batch.
    best : float or None, default=None
        Value that the expected improvement is over; None: upper confidence bound.

    Returns
    -------
    list of int
        Distinct indices; fewer than `batch_size` where not enough candidates are left.
    """
    check_count(batch_size, "batch_size")
    allowed = np.ones(posterior.n_candidates, dtype=bool)
    if exclude is not None:
        allowed[np.asarray(exclude, dtype=np.intp)] = False
    # A copy costs O(T n), and is not needed for one point.
    imagined = posterior if batch_size == 1 else posterior.copy()
    batch: list[int] = []
    while len(batch) < batch_size and allowed.any():
        if batch:
            imagined.append(batch[-1], float(imagined.mean[batch[-1]]))
        if best is None:
            scores = upper_confidence_bound(imagined.mean, imagined.std, sqrt_beta)
        else:
            scores = log_expected_improvement(imagined.mean, imagined.std, best)
        batch.append(int(np.where(allowed, scores, -np.inf).argmax()))
        allowed[batch[-1]] = False
    return batch


def greedy_information_gain(
    kernel: Any, X_candidates: npt.ArrayLike, n_points: int, noise_variance: float
) -> float:
    r"""Information gain of the greedy design of T points: a lower bound on gamma_T.

    gamma_T is the largest :math:`\frac12 \log\det(I + \sigma^{-2} K_A)` over sets A of T
    candidates, repeats allowed. The greedy design takes the point of largest posterior variance
    each time (Krause & Guestrin 2005); it reaches at least 1 - 1/e of gamma_T.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or ndarray of shape (n, n)
        Prior covariance, or its values at the candidates.
    X_candidates : array-like of shape (n, n_features)
        Public candidates.
    n_points : int
        T, at least 0.
    noise_variance : float
        sigma^2 > 0, in the squared units of the kernel's values.

    Returns
    -------
    float
        Gain in nats. It depends on the candidates and the kernel alone.
    """
    check_count(n_points, "n_points", least=0)
    check_positive(noise_variance, "noise_variance")
    posterior = CandidatePosterior(kernel, X_candidates, noise_variance=noise_variance)
    gain = 0.0
    for _ in range(n_points):
        std = posterior.std
        i = int(std.argmax())
        # Chain rule of mutual information: one half log(1 + sigma_t^2 / sigma^2) a point.
        gain += 0.5 * math.log1p(std[i] ** 2 / noise_variance)
        # An arbitrary value: variances do not depend on it.
        posterior.append(i, 0.0)
    return gain


def maximum_information_gain_bound(
    kernel: Any, X_candidates: npt.ArrayLike, n_points: int, noise_variance: float
) -> float:
    """Upper bound on gamma_T: the greedy gain divided by 1 - 1/e.

    Information gain is monotone and submodular, so the greedy value is at least 1 - 1/e of the
    maximum (Nemhauser, Wolsey & Fisher 1978). A privacy statement that contains gamma_T needs
    this bound and not the greedy gain itself.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel or ndarray of shape (n, n)
        Prior covariance, or its values at the candidates.
    X_candidates : array-like of shape (n, n_features)
        Public candidates.
    n_points : int
        T, at least 0.
    noise_variance : float
        sigma^2 > 0, in the squared units of the kernel's values.

    Returns
    -------
    float
        In nats; it depends on the candidates and the kernel alone.
    """
    greedy = greedy_information_gain(kernel, X_candidates, n_points, noise_variance)
    return greedy / -math.expm1(-1.0)
