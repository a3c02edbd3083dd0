"""Predictions averaged over kernels, by how likely each makes the released sums."""

from dataclasses import dataclass

import numpy as np

from skdpbo.gaussian_process.sparse._features import WhitenedFeatures
from skdpbo.gaussian_process.sparse._kernel_family import scaled_kernel
from skdpbo.gaussian_process.sparse._mixtures import probabilities
from skdpbo.gaussian_process.sparse._predictor import MixturePredictor, WeightPredictor

__all__ = ["KernelAverage", "kernel_average"]

_NEGLIGIBLE = 1e-9  # probability of a kernel that predictions leave out


@dataclass(frozen=True)
class KernelAverage:
    """Average over kernels; public and released values.

    Attributes
    ----------
    log_evidence, probabilities : ndarray of shape (n_kernels,)
    likeliest : sklearn kernel
        Times its amplitude.
    predictor : MixturePredictor
    noise_variance : ndarray of shape (q,)
    elbo : ndarray of shape (q,) or None
    """

    log_evidence: np.ndarray
    probabilities: np.ndarray
    likeliest: object
    predictor: MixturePredictor
    noise_variance: np.ndarray
    elbo: np.ndarray | None


def kernel_average(kernels, Z, prior_mean, fits):
    """Return the average of the posteriors under several kernels.

    Parameters
    ----------
    kernels : list of sklearn kernels
    Z : ndarray of shape (d, n_features)
        Inducing points.
    prior_mean : ndarray of shape (q,)
    fits : list of FittedWeights
        One for each kernel.

    Returns
    -------
    KernelAverage
    """
    log_evidence = np.array([fit.log_evidence for fit in fits])
    weights = probabilities(log_evidence)
    taken = np.flatnonzero(weights > _NEGLIGIBLE)
    shares = weights[taken] / weights[taken].sum()
    scaled = [scaled_kernel(k, fit.amplitude) for k, fit in zip(kernels, fits, strict=True)]
    parts = [
        WeightPredictor(
            WhitenedFeatures(scaled[k], Z), prior_mean, fits[k].means, fits[k].covariances
        )
        for k in taken
    ]
    return KernelAverage(
        log_evidence=log_evidence,
        probabilities=weights,
        likeliest=scaled[int(np.argmax(log_evidence))],
        predictor=MixturePredictor(parts, shares),
        noise_variance=shares @ [fits[k].noise_variance for k in taken],
        elbo=None if fits[0].elbo is None else shares @ [fits[k].elbo for k in taken],
    )
