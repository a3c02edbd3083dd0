r"""Average over kernels and their amplitudes, given one release (docs: private choice of a kernel).

Released are the moments of :math:`\bar\phi`, the whitened features of the average kernel. Under
kernel k the function is :math:`f(x) = \phi_k(x)'v` plus an independent residual, and
:math:`\phi_k(x)` is close to :math:`T_k \bar\phi(x)`. All of it is post-processing.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.spatial import cKDTree
from scipy.special import softmax

# Powers of 2: the posterior hardly depends on the amplitude within a factor of sqrt 2.
AMPLITUDES = tuple(2.0**k for k in range(-8, 9))
_PRIOR_SD = math.log(8.0)  # of the logarithm; the median is the kernel's own amplitude


@dataclass(frozen=True)
class FittedWeights:
    """Posterior of the weights under one kernel, from released values alone.

    Attributes
    ----------
    means : ndarray of shape (d, q)
    covariances : ndarray of shape (q, d, d)
    noise_variance : ndarray of shape (q,)
    elbo : ndarray of shape (q,) or None
    log_evidence : float
        Summed over the targets, averaged over the amplitudes.
    amplitude : float
        Factor of the kernel, or its posterior mean.
    log_prior : float
        Logarithm of the kernel's prior probability. Public.
    recoverable : float
        Share of the kernel's variance that the release is expected to recover, which weights errors
        under the kernel in the predicted mean. Public.
    in_release : ndarray of shape (d, q) or None
        Weights T'v of the features of the release, if the mean is predicted by these.
    """

    means: np.ndarray
    covariances: np.ndarray
    noise_variance: np.ndarray
    elbo: np.ndarray | None = None
    log_evidence: float = 0.0
    amplitude: float = 1.0
    log_prior: float = 0.0
    recoverable: float = 1.0
    in_release: np.ndarray | None = None


def feature_maps(average, parts, support, weights, ridge):
    r"""Return for each kernel k a matrix T, and the error of T phi-bar(x) in place of phi_k(x).

    T is exact at the inducing points up to the jitter, plus a regression of the difference at other
    points, weighted by estimated records.

    Parameters
    ----------
    average : WhitenedFeatures
        phi-bar.
    parts : list of WhitenedFeatures
        phi_k, with the same inducing points.
    support : ndarray of shape (n_support, n_features)
        Public points.
    weights : ndarray of shape (n_support,)
        Estimated number of records that each point represents; public or released.
    ridge : float
        Added to the second moment of phi-bar, > 0.

    Returns
    -------
    list of tuple (ndarray of shape (d, d), float)
        T, and its error: see :func:`map_error`.
    """
    # T_k of docs/theory/private_kernel_choice.md, The posterior under each kernel.
    phi, neighbours = average(support), nearest_points(support)
    second_moment = cho_factor((phi.T * weights) @ phi + ridge * np.eye(phi.shape[1]))
    smoother, maps = cho_solve(second_moment, phi.T), []
    for features in parts:
        own = features(support)
        # At the inducing points the features are the roots, row by row: exact there up to jitter.
        T = solve_triangular(average.root, features.root, lower=True).T
        missing = (own - phi @ T.T).T * weights
        # Ridge regression of the difference on phi-bar, weighted by estimated records.
        T = T + missing @ smoother.T
        maps.append((T, map_error(own - phi @ T.T, neighbours, weights)))
    return maps


def nearest_points(support):
    """Return for each point the position of its nearest neighbour, distances relative to ranges."""
    width = np.ptp(support, axis=0)
    scaled = support / np.where(width > 0, width, 1.0)
    # The second nearest, as the nearest is the point itself.
    return cKDTree(scaled).query(scaled, 2)[1][:, 1]


def map_error(missing, neighbours, weights):
    r"""Return the variance of an observation due to the error of a map, for v of variance 1.

    :math:`r_g = \phi_k - T\bar\phi` averages to 0 over the weighted support points, not over the
    records. The sum over records in the cell of a point is :math:`w_g \bar\phi_g r_g'v`, with
    covariance of about :math:`\rho \sum_g w_g^2 |r_g|^2 \bar\phi_g\bar\phi_g'`, :math:`\rho` the
    correlation of :math:`r` at neighbouring points: residuals that vary from record to record are
    part of the noise variance already.

    Parameters
    ----------
    missing : ndarray of shape (n_support, d)
        r_g.
    neighbours : ndarray of shape (n_support,)
        From :func:`nearest_points`.
    weights : ndarray of shape (n_support,)
        w_g.

    Returns
    -------
    float
        Factor of :math:`\sum_g w_g \bar\phi_g\bar\phi_g'` with the same effect.
    """
    squares = np.einsum("ij,ij->i", missing, missing)
    total = weights @ squares
    if not total > 0:
        return 0.0
    alike = weights @ np.einsum("ij,ij->i", missing, missing[neighbours])
    return max(alike / total, 0.0) * float(weights**2 @ squares) / float(weights.sum())


def amplitude_prior(factors):
    """Return log-normal prior probabilities of factors on a grid uniform in the logarithm."""
    return softmax(-0.5 * (np.log(factors) / _PRIOR_SD) ** 2)


def averaged(factors, fits):
    """Return the average of posteriors of one kernel over its factors.

    Parameters
    ----------
    factors : sequence of float
    fits : list of FittedWeights
        One for each factor.
    """
    if len(fits) == 1:
        return fits[0]
    # In logarithms, as evidences of large data sets overflow.
    joint = np.log(amplitude_prior(factors)) + [fit.log_evidence for fit in fits]
    shares = softmax(joint)
    # The mixture is replaced by a normal distribution of equal mean and covariance.
    pairs = [
        mixture_moments(shares, [(fit.means[:, j], fit.covariances[j]) for fit in fits])
        for j in range(fits[0].means.shape[1])
    ]
    return replace(
        fits[0],
        means=np.stack([mean for mean, _ in pairs], axis=1),
        covariances=np.stack([covariance for _, covariance in pairs]),
        noise_variance=shares @ [fit.noise_variance for fit in fits],
        elbo=shares @ [fit.elbo for fit in fits],
        log_evidence=float(np.logaddexp.reduce(joint)),
        amplitude=float(shares @ factors),
    )


def mixture_moments(shares, pairs):
    """Return mean and covariance of a mixture.

    Parameters
    ----------
    shares : ndarray of shape (k,)
        Probabilities.
    pairs : list of k tuples
        Mean (d,) and covariance (d, d) of each component.

    Returns
    -------
    mean : ndarray of shape (d,)
    covariance : ndarray of shape (d, d)
        The average covariance plus the spread of the means.
    """
    means = np.stack([mean for mean, _ in pairs])
    mean = shares @ means
    away = means - mean
    covariance = (away.T * shares) @ away  # law of total covariance
    return mean, covariance + np.tensordot(shares, [inner for _, inner in pairs], axes=1)
