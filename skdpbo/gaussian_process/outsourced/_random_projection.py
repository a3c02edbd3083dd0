"""Public random projection, and the sensitivity of projected rows with rounding errors."""

import math
from fractions import Fraction

import numpy as np

from skdpbo.privacy._rounding import round_up, round_up_root

_SEED = 20200713
_ULP = Fraction(1, 2**53)  # relative error of one rounded operation


def random_projection(n_features, n_components):
    r"""Return a public matrix P of shape (d, r) that keeps squared distances in the mean.

    Its columns are orthogonal, of length sqrt(d / r): no other random matrix that keeps distances
    has a smaller operator norm. It depends on d and r alone.

    Parameters
    ----------
    n_features, n_components : int
        d and r, r at most d.

    Returns
    -------
    ndarray of shape (d, r)

    Examples
    --------
    >>> from skdpbo.gaussian_process.outsourced._random_projection import random_projection
    >>> P = random_projection(8, 2)
    >>> (P.T @ P).round(12) + 0.0
    array([[4., 0.],
           [0., 4.]])
    """
    # One fixed matrix for each shape, so that curator and modeler need not exchange it.
    generator = np.random.default_rng([_SEED, n_features, n_components])
    # public randomness
    Q, R = np.linalg.qr(generator.standard_normal((n_features, n_components)))
    signs = np.where(np.diagonal(R) < 0, -1.0, 1.0)  # so that the law is uniform
    return Q * signs * math.sqrt(n_features / n_components)


def operator_norm_bound(P):
    r"""Return an upper bound on :math:`\|P\|_2`, close to it for orthogonal columns.

    :math:`\|P\|_2^2 = \|P'P\|_2 \leq \|P'P\|_\infty`, and an entry of the computed P'P is off by
    at most :math:`\gamma_d |P|'|P|`, whatever the order of the sums.

    Parameters
    ----------
    P : ndarray of shape (d, r)

    Returns
    -------
    float
    """
    G, A = np.abs(P.T @ P), np.abs(P).T @ np.abs(P)
    # Twice gamma_d, as A is rounded as well.
    slack = float(2 * _gamma(len(P) + 2))
    rows = [sum(map(Fraction, row), Fraction(0)) for row in (G + slack * A).tolist()]
    # The sums G + slack A were rounded to nearest.
    return round_up_root(max(rows) * (1 + 4 * _ULP))


def row_sensitivity(move, *, data_norm, n_features, projection=None):
    r"""Largest l2 move of a row as it is computed, when a row of X moves by at most `move`.

    Shortening rows to the norm N, or clipping them to a box, does not increase their distance, and
    multiplication by P increases it by at most a factor :math:`\|P\|_2`. Rounding errors count for
    both rows: :math:`(d + 16) u N` for shortening and :math:`\gamma_d N \|P\|_F` for the product,
    u = 2^-53.

    Parameters
    ----------
    move : float
        Of a row of X, l2 norm, > 0, in the units of X.
    data_norm : float
        N, largest norm of a row after it was shortened or clipped, in the units of X.
    n_features : int
        d.
    projection : ndarray of shape (d, r) or None, default=None
        P; None for none.

    Returns
    -------
    float
        In the units of Z, rounded up.

    Examples
    --------
    >>> from skdpbo.gaussian_process.outsourced._random_projection import (
    ...     random_projection,
    ...     row_sensitivity,
    ... )
    >>> float(f"{row_sensitivity(1.0, data_norm=25.0, n_features=3):.12g}")
    1.0
    >>> P = random_projection(8, 2)
    >>> float(f"{row_sensitivity(1.0, data_norm=25.0, n_features=8, projection=P):.12g}")
    2.0
    """
    # Both neighbours are rounded, so each error counts twice (docs/theory/outsourced.md, Lemma).
    error = (n_features + 16) * _ULP
    moved = Fraction(move) + 2 * error * Fraction(data_norm)
    if projection is None:
        return round_up(moved)
    norm = Fraction(operator_norm_bound(projection))
    # The Frobenius norm is at most sqrt(r) times the operator norm.
    frobenius = norm * (math.isqrt(projection.shape[1] - 1) + 1)
    # A shortened row may be longer than N by its own rounding.
    length = (1 + error) * Fraction(data_norm)
    return round_up(norm * moved + 2 * _gamma(n_features) * length * frobenius)


def _gamma(n):
    """gamma_n = n u / (1 - n u): relative error of a sum of n products, in any order."""
    return n * _ULP / (1 - n * _ULP)
