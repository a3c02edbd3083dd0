r"""Codes of the classes, and probabilities from the posterior of the codes.

The codes of K classes are the vertices of a regular simplex in K - 1 coordinates, of squared norm
K - 1: centred one-hot vectors in a basis of their span. Two classes have the codes -1 and 1.
"""

import numpy as np
from scipy.linalg import helmert
from scipy.special import ndtr, ndtri
from sklearn.utils import gen_batches

# Grid of the largest a_c + g_c, for a numerical integral; the largest a_c is 0.
_STEPS = np.linspace(-9.0, 7.0, 65)
_CELLS = 2**14  # per block, to fit a processor's cache
_SMALLEST_RELIABILITY = 0.2  # means are divided by it: noise grows by at most 5
_MOST_STEPS, _TOLERANCE = 50, 5e-3  # of the iteration for offsets, in standard deviations


def label_codes(n_classes):
    """Return the codes of the classes.

    Parameters
    ----------
    n_classes : int

    Returns
    -------
    ndarray of shape (n_classes + 1, n_classes - 1)
        The last row, for unknown labels, is NaN.
    """
    # The squared norm is K - 1 = q, and the release divides squared targets by 2 q. Rows of
    # Helmert's matrix are an orthonormal basis of the vectors of sum 0.
    vertices = -np.sqrt(n_classes) * helmert(n_classes).T
    return np.vstack([vertices, np.full(n_classes - 1, np.nan)])


def reliability(predictor, points, weights):
    r"""Return the share :math:`1 - \bar v / k` of the records' own estimate in the posterior mean.

    v is the posterior and k the prior variance, each averaged over the weighted points; the
    posterior mean is about the records' own estimate times this share. Public and released values.

    Parameters
    ----------
    predictor : MixturePredictor
    points : ndarray of shape (n, n_features)
    weights : ndarray of shape (n,)
        Estimated number of records at each point.
    """
    _, variance = predictor.moments(points)
    priors = np.stack([part.features.kernel.diag(points) for part in predictor.parts])
    prior = weights @ (predictor.shares @ priors)
    # Noise may leave no estimated record at any point.
    share = 1 - weights @ variance.mean(axis=1) / prior if prior > 0 else 0.0
    return float(np.clip(share, _SMALLEST_RELIABILITY, 1.0))


def class_offsets(mean, weights, codes, noise_variance, shares, noise):
    """Return offsets that bring the mean probabilities at weighted points near given shares.

    docs/theory/sparse_gp_classifier.md, Probabilities. An iteration of at most 50 steps, which may
    not converge; one step is exact for two classes and equal means.

    Parameters
    ----------
    mean : ndarray of shape (n, q)
    weights : ndarray of shape (n,)
        Of sum 1.
    codes : ndarray of shape (n_classes, q)
    noise_variance : float
    shares : ndarray of shape (n_classes,)
        In (0, 1), of sum 1.
    noise : float
        Noise of the shares, in standard deviations of a normal variable; smaller differences are
        shrunk.

    Returns
    -------
    ndarray of shape (n_classes,)
        Of sum 0.
    """

    def found():
        mean_shares = weights @ class_probabilities(mean, codes, noise_variance, offsets)
        return ndtri(np.clip(mean_shares, 1e-12, 1 - 1e-12))

    offsets = np.zeros(len(codes))
    difference = ndtri(shares) - found()
    believed = difference**3 / (difference**2 + noise**2)
    targets = ndtr(found() + believed)
    targets = ndtri(targets / targets.sum())
    # Offsets are multiplied by the length of the mean.
    rate, largest = 1 / (np.sqrt(2.0) * max(weights @ np.linalg.norm(mean, axis=1), 1e-6)), np.inf
    for _ in range(_MOST_STEPS):
        step = targets - found()
        before, largest = largest, np.abs(step).max()
        if largest < _TOLERANCE:
            break
        rate /= 2 if largest > before else 1
        offsets += rate * (step - step.mean())
    return offsets


def class_probabilities(mean, codes, noise_variance, offsets=0.0):
    r"""Return the probability that each class's code is nearest to :math:`N(m, s^2 I)`.

    That is the probability that a_c + g_c is largest, for a = codes m / (s sqrt K) and independent
    standard normal g; for two classes it is Phi(m / s).

    Parameters
    ----------
    mean : ndarray of shape (n, q)
    codes : ndarray of shape (n_classes, q)
    noise_variance : float
    offsets : ndarray of shape (n_classes,), default=0.0
        Multiplied by the length of the mean and added to a, so that classes are equally likely at a
        mean of 0.

    Returns
    -------
    ndarray of shape (n, n_classes)
    """
    a = mean @ codes.T / np.sqrt(noise_variance * len(codes))
    a += np.linalg.norm(mean, axis=1, keepdims=True) * offsets
    a -= a.max(axis=1, keepdims=True)  # a common shift does not matter
    probabilities = np.empty_like(a)
    for part in gen_batches(len(a), max(1, _CELLS // len(codes))):
        values = np.ascontiguousarray(a[part].T)  # products along columns are faster
        total = np.zeros_like(values)
        for step in _STEPS:
            # Density of class c at the step, up to a constant, times the probability that the
            # others are below. No factor is 0, as the step is at most 9 below each value.
            above = step - values
            below = ndtr(above)
            total += np.exp(-0.5 * above**2) * (below.prod(axis=0) / below)
        total = np.maximum(total, np.finfo(float).tiny)
        probabilities[part] = (total / total.sum(axis=0)).T
    return probabilities
