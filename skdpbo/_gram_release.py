r"""Gaussian release of a sum of outer products: sensitivity, noise, and repair of the result.

A record of squared norm at most :math:`W^2` moves the sum by at most :math:`\sqrt 2\, W^2` in
Frobenius norm. The noise is a symmetric matrix of independent normal entries, with a standard
deviation smaller by :math:`\sqrt 2` off the diagonal, where an entry counts twice in the norm.
"""

from fractions import Fraction

import numpy as np

from skdpbo.mechanisms import GaussianMechanism
from skdpbo.privacy._rounding import round_up_root


def second_moment_sensitivity(squared_norm):
    r"""Largest Frobenius norm of :math:`ww' - vv'` over vectors of squared norm at most W^2.

    :math:`\|ww' - vv'\|_F^2 = \|w\|^4 + \|v\|^4 - 2(w'v)^2 \le 2 W^4`; attained by orthogonal w, v
    of full norm. The Frobenius norm is the l2 norm of the upper triangle with the entries off the
    diagonal multiplied by sqrt 2.

    Parameters
    ----------
    squared_norm : int or Fraction
        W^2 > 0, in the units of the caller.

    Returns
    -------
    float
        sqrt 2 W^2, rounded up.
    """
    return round_up_root(2 * Fraction(squared_norm) ** 2)


def release_gram(gram, mu, radius, source=None):
    """Protected: add noise to an exact sum of outer products.

    Parameters
    ----------
    gram : ndarray of shape (p, p)
        int64, in lattice steps. Protected.
    mu : float
        Gaussian privacy parameter of the release, > 0.
    radius : int
        Largest norm of a record in lattice steps.
    source : RandomSource, default=None

    Returns
    -------
    noisy : ndarray of shape (p, p)
        Released, symmetric, in lattice steps.
    sigma : float
        Standard deviation of the noise on the diagonal; sigma / sqrt 2 off it.
    """
    p = len(gram)
    square, n_draws = radius**2, p * p
    full = second_moment_sensitivity(square)
    # Off the diagonal an entry counts twice in the squared norm: sqrt 2 W^2 / sqrt 2 = W^2.
    on = GaussianMechanism(mu=mu, sensitivity=full, lattice=1.0, n_draws=n_draws)
    off = GaussianMechanism(mu=mu, sensitivity=square, lattice=1.0, n_draws=n_draws)
    # Each entry off the diagonal once: the other half repeats it, noise included.
    noisy = np.zeros((p, p))
    rows, columns = np.triu_indices(p, 1)
    noisy[rows, columns] = np.asarray(off.release(gram[rows, columns], source), float)
    noisy += noisy.T
    noisy[np.diag_indices(p)] = np.asarray(on.release(gram.diagonal().copy(), source), float)
    return noisy, on.sigma


def lifted(B, sb, n_records):
    """B with its eigenvalues moved into [0, n_records].

    Smoothly at 0: eigenvalues that the noise made negative are small positive ones in truth. At
    most n: each vector has norm at most 1.
    """
    values, vectors = np.linalg.eigh(B)
    # The positive root of x^2 - v x = sb^2 / 2 for each eigenvalue v.
    values = 0.5 * (values + np.sqrt(values**2 + 2.0 * sb**2))
    return (vectors * np.minimum(values, n_records)) @ vectors.T
