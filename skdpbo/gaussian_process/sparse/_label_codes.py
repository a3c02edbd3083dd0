r"""Codes of the classes, and probabilities from the posterior of the codes.

The K classes are the vertices of a regular simplex in K - 1 coordinates, of squared norm K - 1:
centred one-hot vectors in a basis of their plane. Two classes are -1 and 1.
"""

import numpy as np
from scipy.linalg import helmert
from scipy.special import ndtr, ndtri
from sklearn.utils import gen_batches

# Values of the largest a_c + g_c, where the largest a_c is 0: wide and fine enough for a sum.
_STEPS = np.linspace(-9.0, 7.0, 65)
_CELLS = 2**14  # at a time: they stay in a processor's cache
# The mean is divided by it: below, noise would be multiplied by more than 5.
_SMALLEST_RELIABILITY = 0.2
_MOST_STEPS, _TOLERANCE = 50, 5e-3  # towards the offsets, in standard deviations


def label_codes(n_classes):
    """Return the codes of the classes.

    Parameters
    ----------
    n_classes : int

    Returns
    -------
    ndarray of shape (n_classes + 1, n_classes - 1)
        The last row, of labels that are no class, is NaN.
    """
    # Squared norm K - 1 = q; the release divides squared targets by 2 q: 1/2 for every K.
    # Rows of Helmert's matrix are an orthonormal basis of the vectors of sum 0.
    vertices = -np.sqrt(n_classes) * helmert(n_classes).T
    return np.vstack([vertices, np.full(n_classes - 1, np.nan)])


def reliability(predictor, points, weights):
    r"""Return the share :math:`1 - \bar v / k` by which the posterior mean follows the records.

    v is the posterior variance, k the prior variance, each averaged over the weighted points; the
    posterior mean is the records' own estimate times this share. Public and released values.

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
    # Noise may leave no record at any point: the mean follows none then.
    share = 1 - weights @ variance.mean(axis=1) / prior if prior > 0 else 0.0
    return float(np.clip(share, _SMALLEST_RELIABILITY, 1.0))


def class_offsets(mean, weights, codes, noise_variance, shares, noise):
    """Return offsets that bring the mean probabilities at weighted points near given shares.

    docs/theory/sparse_gp_classifier.md, Probabilities. A step is exact for two classes and equal
    means; for several classes, and means of several lengths, the last of 50 may be short of it.

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
        In standard deviations of a normal variable: of smaller differences little is believed.

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
    # Added to a, offsets count as much as the mean is long.
    rate, largest = 1 / (np.sqrt(2.0) * max(weights @ np.linalg.norm(mean, axis=1), 1e-6)), np.inf
    for _ in range(_MOST_STEPS):
        step = targets - found()
        before, largest = largest, np.abs(step).max()
        if largest < _TOLERANCE:
            break
        rate /= 2 if largest > before else 1  # too far
        offsets += rate * (step - step.mean())
    return offsets


def class_probabilities(mean, codes, noise_variance, offsets=0.0):
    r"""Return the probability that each class's code is nearest to :math:`N(m, s^2 I)`.

    In terms of a = codes m / (s sqrt K) and of independent standard normal g it is that of
    a_c + g_c being the largest; for two classes it is Phi(m / s).

    Parameters
    ----------
    mean : ndarray of shape (n, q)
    codes : ndarray of shape (n_classes, q)
    noise_variance : float
    offsets : ndarray of shape (n_classes,), default=0.0
        Times the length of the mean added to a: at a mean of 0 no class is more likely.

    Returns
    -------
    ndarray of shape (n, n_classes)
    """
    a = mean @ codes.T / np.sqrt(noise_variance * len(codes))
    a += np.linalg.norm(mean, axis=1, keepdims=True) * offsets
    a -= a.max(axis=1, keepdims=True)  # the common part does not matter
    probabilities = np.empty_like(a)
    for part in gen_batches(len(a), max(1, _CELLS // len(codes))):
        values = np.ascontiguousarray(a[part].T)  # products along columns are faster
        total = np.zeros_like(values)
        for step in _STEPS:  # of the largest value
            # P(class c is the largest, and at the step): density of c, up to a constant, times the
            # others' probability. No factor is 0, as the step is at most 9 below each value.
            above = step - values
            below = ndtr(above)
            total += np.exp(-0.5 * above**2) * (below.prod(axis=0) / below)
        total = np.maximum(total, np.finfo(float).tiny)
        probabilities[part] = (total / total.sum(axis=0)).T
    return probabilities
