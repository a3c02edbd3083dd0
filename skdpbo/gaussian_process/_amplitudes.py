"""Average over amplitudes of the kernel, given the release (docs: DP sparse GP)."""

import math

import numpy as np

__all__ = ["AMPLITUDES", "amplitude_probabilities", "mixture_moments"]

# Powers of 2: the posterior hardly depends on the amplitude within a factor of sqrt 2.
AMPLITUDES = tuple(2.0**k for k in range(-8, 9))
_PRIOR_SD = math.log(8.0)  # of the logarithm; the median is the kernel's own amplitude


def amplitude_probabilities(factors, log_evidence):
    """Posterior probabilities of the factors under a log-normal prior.

    Parameters
    ----------
    factors : sequence of float
        Of the kernel, on a grid that is uniform in the logarithm.
    log_evidence : sequence of float

    Returns
    -------
    ndarray of shape (n_factors,)
        They sum to 1.
    """
    prior = -0.5 * (np.log(factors) / _PRIOR_SD) ** 2
    log_posterior = prior + np.asarray(log_evidence)
    weights = np.exp(log_posterior - log_posterior.max())
    return weights / weights.sum()


def mixture_moments(probabilities, pairs):
    """Mean and covariance of a mixture.

    Parameters
    ----------
    probabilities : ndarray of shape (k,)
    pairs : list of k tuples
        Mean (d,) and covariance (d, d) of each component.

    Returns
    -------
    mean : ndarray of shape (d,)
    covariance : ndarray of shape (d, d)
        The average covariance plus the spread of the means.
    """
    means = np.stack([mean for mean, _ in pairs])
    mean = probabilities @ means
    away = means - mean
    covariance = (away.T * probabilities) @ away
    for probability, (_, inner) in zip(probabilities, pairs, strict=True):
        covariance += probability * inner
    return mean, covariance
