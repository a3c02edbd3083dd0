"""Curvature of the loss from released second moments, for fits in which the noise is small."""

import math

import numpy as np

from skdpbo._exact_gram import integer_gram, lattice_radius, rows_on_lattice
from skdpbo._gram_release import lifted, release_gram
from skdpbo._record_groups import shared_roots
from skdpbo._whitened_release import SLACK

_GRADIENT_SHARE, _MOMENT_SHARE = 5.0, 0.25  # of the noise, in the ridge


def exact_second_moments(rows, scales, weights, step, radius):
    """Protected: pass only to a mechanism. Sum w z z' of rows cut to norm 1, in integers.

    Parameters
    ----------
    rows : BoxedRows
    scales : ColumnScales
    weights : ndarray of shape (n,)
        Of the records, at most 1. Protected.
    step : float
        Of the lattice.
    radius : int
        Largest norm of a row in steps.
    """
    d = rows.shape[1] + 1
    total = np.zeros((d, d), dtype=np.int64)
    # w z z' is the outer product of sqrt(w) z, a row that the lattice takes.
    roots = np.sqrt(weights)
    for chosen, inner in rows.affine(*scales.affine()):
        z = np.hstack([inner, np.full((len(inner), 1), scales.constant)])
        norms = np.sqrt(np.einsum("ij,ij->i", z, z))
        z *= (roots[chosen] / np.maximum(norms, 1.0))[:, None]  # norm at most 1: sensitivity
        units = rows_on_lattice(z, step, radius)
        total += integer_gram(shared_roots(units, rows.sizes, chosen))  # exact: at most 2^13 rows
    return total


def inverse_curvature(rows, scales, weights, effective, mu, source, *, n_outputs, gradient_noise):
    """Release the weighted second moments of the standardised rows; return an inverse curvature.

    That of an upper bound on the curvature of the mean loss, plus a ridge that grows with the
    noise. A logistic loss has a second derivative of at most 1/4 in its score, a softmax of at most
    1/2 in any direction (Boehning 1992). `effective` is the sum of the weights, public or released.
    """
    n = rows.shape[0]
    # docs/theory/sparse_gp.md, Theorem: sqrt 2 W^2 / mu, here with W = 1.
    radius = lattice_radius(n, math.sqrt(2.0) / mu)
    step = 1 / (radius * SLACK)
    noisy, sigma = release_gram(
        exact_second_moments(rows, scales, weights, step, radius), mu, radius, source
    )
    unit = step**2
    moments, noise = lifted(noisy * unit, sigma * unit, n) / effective, sigma * unit / effective
    d = len(moments)
    # The noise of the moments has eigenvalues of the order of its entries times sqrt(d).
    ridge = _GRADIENT_SHARE * gradient_noise + _MOMENT_SHARE * noise * math.sqrt(d)
    bound = 0.25 if n_outputs == 1 else 0.5
    # Too small a curvature would be too long a step: the ridge covers the noise.
    return np.linalg.inv(bound * moments + ridge * np.eye(d))
