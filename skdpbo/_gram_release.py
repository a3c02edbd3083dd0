r"""Gaussian release of a sum of outer products: sensitivity, noise, and repair of the result.

A record of squared norm at most :math:`W^2` moves the sum by at most :math:`\sqrt 2\, W^2` in
Frobenius norm. The noise is a symmetric matrix of independent normal entries, with a standard
deviation smaller by :math:`\sqrt 2` off the diagonal, where an entry counts twice in the norm.

The whitened release is one such sum of features and targets, for every kernel. A record is
:math:`w = (\phi(x), \beta_1 y_1, \dots, \beta_q y_q)` with :math:`\|\phi\| \le 1`,
:math:`|y_j| \le R_j` and :math:`\beta_j = 1/(R_j s)`, so :math:`\|w\|^2 \le W^2 = 1 + q/s^2`.
Released is :math:`M = \sum w w' + E`, E with standard deviation
:math:`\sigma_M = \sqrt 2\, W^2/\mu` on the diagonal and :math:`\sigma_M/\sqrt 2` off it.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from skdpbo._exact_gram import lattice_radius
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.privacy._checks import check_mu, check_positive, set_fields
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
    square, n_draws = radius**2, gram.size
    full = second_moment_sensitivity(square)
    # Off the diagonal an entry counts twice in the squared norm: sqrt 2 W^2 / sqrt 2 = W^2.
    on = GaussianMechanism(mu=mu, sensitivity=full, lattice=1.0, n_draws=n_draws)
    off = GaussianMechanism(mu=mu, sensitivity=square, lattice=1.0, n_draws=n_draws)
    return noisy_symmetric(gram, on, off, source), on.sigma


def noisy_symmetric(matrix, on_diagonal, off_diagonal, source):
    """Protected: add the noise of one mechanism on the diagonal, of another off it."""
    p = len(matrix)
    noisy, upper = np.zeros((p, p)), np.triu_indices(p, 1)
    # Entries above the diagonal are released once and mirrored, noise included.
    noisy[upper] = off_diagonal.release(matrix[upper], source)
    noisy += noisy.T
    noisy[np.diag_indices(p)] = on_diagonal.release(matrix.diagonal().copy(), source)
    return noisy


def lifted(B, sb, n_records):
    """B with its eigenvalues moved into [0, n_records].

    Smoothly at 0: eigenvalues that noise has made negative are small positive ones in truth. At
    most n, as each vector has norm at most 1.
    """
    values, vectors = np.linalg.eigh(B)
    # The positive root of x^2 - v x = sb^2 / 2 for each eigenvalue v.
    values = 0.5 * (values + np.sqrt(values**2 + 2.0 * sb**2))
    return (vectors * np.minimum(values, n_records)) @ vectors.T


# s^2 / q. The value hardly matters between 1 and 2 (measured).
_S2_PER_TARGET = 2
SQUARED_NORM = Fraction(_S2_PER_TARGET + 1, _S2_PER_TARGET)  # W^2 = 1 + q / s^2
# A record of norm W is shorter by this factor than the lattice allows, so that rounding rarely
# makes it too long; the noise grows by the same factor.
SLACK = 1 - 2.0**-12


@dataclass(frozen=True)
class NoisyMoments:
    """Released moments, in the units of the features (norm at most 1) and of the targets.

    Attributes
    ----------
    B : ndarray of shape (d, d)
        Sum of phi phi', noise sd `sb` on the diagonal, sb / sqrt 2 off it.
    A : ndarray of shape (d, q)
        Sum of phi y', noise sd `sa` (q,).
    yy : ndarray of shape (q, q)
        Sum of y y'; noise sd of the diagonal `syy` (q,).
    """

    B: np.ndarray
    A: np.ndarray
    yy: np.ndarray
    sb: float
    sa: np.ndarray
    syy: np.ndarray

    @cached_property
    def eigen(self):
        """Eigenvalues and eigenvectors of B."""
        return np.linalg.eigh(self.B)


class GramMethod:
    """Base class of methods that release their sums by `statistics`, a `WhitenedRelease`."""

    def release(self, gram, source):
        """Protected: return the released moments of the exact sums `gram`."""
        return self.statistics.release(gram, source)


@dataclass(frozen=True)
class WhitenedRelease:
    """Gaussian mechanism for the second moment of the records; exactly mu-GDP.

    Parameters
    ----------
    mu : float
        Gaussian privacy parameter, > 0.
    half_width : tuple of float
        R_j of each target, > 0: after a public shift, targets are clipped to [-R_j, R_j].
    n_records : int
        Number of records, public.

    Attributes
    ----------
    radius : int
        Largest norm of a record in lattice steps.
    step : float
        Lattice step of w, slightly more than W / radius.
    beta : ndarray of shape (q,)
        Weight of each target in w.
    noise : float
        Standard deviation of the noise on the diagonal of B, in units of phi phi'.

    Notes
    -----
    Neighbours differ in one record, number fixed. A record's integers q have squared norm at most
    ``radius**2`` exactly, sums are exact, and integer noise is added: normal deviates rounded to
    the lattice of the products. Each coordinate's noise is independent of the data, so this is
    post-processing of the Gaussian mechanism of Mahalanobis sensitivity
    ``second_moment_sensitivity(radius**2) / sd``.
    """

    mu: float
    half_width: tuple
    n_records: int

    def __post_init__(self):
        check_mu(self.mu)
        for R in self.half_width:
            check_positive(R, "half_width")
        radius = lattice_radius(self.n_records, math.sqrt(2.0) / self.mu)
        s = math.sqrt(_S2_PER_TARGET * len(self.half_width))
        derived = {
            "radius": radius,
            "step": math.sqrt(SQUARED_NORM) / (radius * SLACK),
            "beta": 1.0 / (np.asarray(self.half_width) * s),
            "noise": second_moment_sensitivity(SQUARED_NORM) / self.mu,
        }
        set_fields(self, **derived)

    def release(self, gram, source=None):
        """Protected: add noise to the exact sum.

        Parameters
        ----------
        gram : ndarray of shape (d + q, d + q)
            Sum over records of q q', int64. Protected.
        source : RandomSource, default=None

        Returns
        -------
        NoisyMoments
        """
        return self._in_units(*release_gram(gram, self.mu, self.radius, source))

    def _in_units(self, noisy, sigma):
        q, beta = len(self.half_width), self.beta
        d = len(noisy) - q
        M, sm = noisy * self.step**2, sigma * self.step**2
        # w holds beta y: once in A, off the diagonal of M, twice in yy.
        return NoisyMoments(
            B=M[:d, :d],
            A=M[:d, d:] / beta,
            yy=M[d:, d:] / np.outer(beta, beta),
            sb=sm,
            sa=sm / math.sqrt(2.0) / beta,
            syy=sm / beta**2,
        )
