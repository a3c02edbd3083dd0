"""The private release of rows: l2-Laplace or Gaussian noise on shortened, maybe projected, rows."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skdpbo.gaussian_process._projection_matrix import operator_norm_bound, row_sensitivity
from skdpbo.gaussian_process._row_domains import Ball, Box
from skdpbo.mechanisms import GaussianMechanism, L2Laplace
from skdpbo.privacy import (
    PrivacyGuarantee,
    check_delta,
    check_epsilon,
    check_sensitivity,
    epsilon_from_mu,
    mu_from_epsilon,
)

__all__ = ["ROW_ASSUMPTIONS", "NoisyRows", "RowDomain", "rows_guarantee", "shortened"]

ROW_ASSUMPTIONS = (
    "the number of rows, the columns, the types and that all values are finite are public",
    "the norm or box of the rows and all other parameters were chosen without looking at the rows",
    "running time and memory use are not observed",
)
_MAX_DIMENSION = 2**16
_REFERENCES = {
    "l2_laplace": "Andres et al. 2013; docs/theory/outsourced.md, Theorem 1",
    "gaussian": "Dong, Roth & Su 2022, Theorem 2.7; docs/theory/outsourced.md, Theorem 2",
}


@dataclass(frozen=True, kw_only=True)
class RowDomain:
    """Where the rows of X are put: a ball about the origin, or a box. Public.

    Parameters
    ----------
    data_norm : float
        N, norm to which longer rows are shortened, in the units of X; with a `box` the norm of
        its farthest corner, and rows are clipped to the box instead.
    box : Box or None, default=None
    """

    data_norm: float
    box: Box | None = None

    def __post_init__(self):
        norm = float(check_sensitivity(self.data_norm, "data_norm"))
        object.__setattr__(self, "data_norm", norm)

    @classmethod
    def of_box(cls, low, high):
        """Return the domain of a box given by two vectors."""
        corner = np.maximum(np.abs(low), np.abs(high))
        return cls(data_norm=_norm_above(corner), box=Box(low, high))

    @property
    def diameter(self):
        """Largest distance of two rows, rounded up."""
        if self.box is None:
            return 2 * self.data_norm
        return _norm_above(np.subtract(self.box.high, self.box.low))

    def nearest(self, X):
        """Return the nearest rows of the domain, up to (d + 16) 2^-53 N, shape (n, d)."""
        return shortened(X, self.data_norm) if self.box is None else self.box.project(X)

    def image(self, projection):
        """Return a public domain that holds the rows times `projection`: a Ball or a Box."""
        if projection is None:
            return Ball(self.data_norm) if self.box is None else self.box
        if self.box is None:
            return Ball(self.data_norm * operator_norm_bound(projection))
        # interval arithmetic: each product lies between its values at the two ends
        ends = np.stack([np.multiply(projection.T, bound) for bound in vars(self.box).values()])
        return Box(ends.min(axis=0).sum(axis=1), ends.max(axis=0).sum(axis=1))


def shortened(X, norm):
    """Return the rows of X, those that are longer than `norm` scaled down to it.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Finite.
    norm : float

    Returns
    -------
    ndarray of shape (n, d)
    """
    largest = np.abs(X).max(axis=1, keepdims=True)
    unit = X / np.where(largest > 0, largest, 1.0)  # squares neither overflow nor vanish
    lengths = np.linalg.norm(unit, axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        too_long = lengths * largest > norm
    return np.where(too_long, unit * (norm / np.where(too_long, lengths, 1.0)), X)


@dataclass(frozen=True, kw_only=True)
class NoisyRows:
    r"""Rows of X, put into a public domain, maybe multiplied by a public matrix, plus noise.

    Private: the position of every row, for data sets in which one row is moved by at most
    `displacement` in l2 norm. Theorem: the computed row moves by at most `row_sensitivity`, and
    the noise of a row, l2-Laplace or Gaussian, is calibrated to that; other rows are the same, and
    their noise is independent. A row that moves t >= 1 times as far has t times epsilon, or mu.

    Parameters
    ----------
    mechanism : {"l2_laplace", "gaussian"}
    epsilon : float
    delta : float
        Used by the Gaussian mechanism only.
    displacement : float
        D, > 0, in the units of X.
    domain : RowDomain
    n_features : int
        d.
    projection : ndarray of shape (d, r) or None, default=None
        P, public.
    """

    mechanism: str
    epsilon: float
    delta: float
    displacement: float
    domain: RowDomain
    n_features: int
    projection: np.ndarray | None = None

    @cached_property
    def sensitivity(self):
        """Largest l2 move of a row of Z for a move of `displacement` in X, rounded up."""
        return row_sensitivity(
            min(self.displacement, self.domain.diameter),
            data_norm=self.domain.data_norm,
            n_features=self.n_features,
            projection=self.projection,
        )

    @property
    def n_components(self):
        """Number r of coordinates of a released row."""
        return self.n_features if self.projection is None else self.projection.shape[1]

    @property
    def image(self):
        """Domain of the rows before the noise, in the space of Z."""
        return self.domain.image(self.projection)

    def mechanism_for(self, n_rows):
        """Return the noise and its standard deviation per coordinate, in the units of Z."""
        r = self.n_components
        if self.mechanism == "l2_laplace":
            noise = L2Laplace(self.epsilon, self.sensitivity, r)
            return noise, noise.scale * math.sqrt(r + 1)
        noise = GaussianMechanism(
            epsilon=self.epsilon,
            delta=self.delta,
            sensitivity=self.sensitivity,
            n_draws=max(1, n_rows * r),
        )
        return noise, noise.sigma

    def exact(self, X):
        """Return the rows of X as they are before the noise: protected. Shape (n, r)."""
        rows = self.domain.nearest(X)
        return rows if self.projection is None else rows @ self.projection

    def release(self, X, noise, source):
        """Return Z, shape (n, r): `exact` rows plus noise."""
        return noise.release(self.exact(X), source)


def rows_guarantee(mechanism, epsilon, delta, displacement, diameter=None):
    """What the release of the rows promises; needs no data.

    Parameters
    ----------
    mechanism : {"l2_laplace", "gaussian"}
    epsilon, delta : float
    displacement : float
        In the units of X.
    diameter : float or None, default=None
        Largest distance of two rows in their domain, where it is known. Then the second guarantee
        is that of replacing a row by any other.

    Returns
    -------
    moved : PrivacyGuarantee
        Of one row that moves by at most `displacement`.
    replaced : PrivacyGuarantee or None
        Of one row that is replaced.
    """
    moved = _moved_guarantee(mechanism, epsilon, delta, displacement)
    replaced, cost = None, "epsilon times their distance / displacement"
    if diameter is not None:
        replaced = _scaled(moved, max(1.0, math.nextafter(diameter / displacement, math.inf)))
        cost = f"epsilon {replaced.epsilon:.6g}"
    stated = (f"replacing a row by any other of its domain costs {cost}", *ROW_ASSUMPTIONS)
    moved = replace(moved, assumptions=(*moved.assumptions, *stated))
    if replaced is not None:
        replaced = replace(replaced, assumptions=(*replaced.assumptions, *ROW_ASSUMPTIONS))
    return moved, replaced


def _moved_guarantee(mechanism, epsilon, delta, displacement):
    displacement = float(check_sensitivity(displacement, "displacement"))
    epsilon = check_epsilon(epsilon)
    common = {
        "epsilon": epsilon,
        "neighbours": f"one row of X moved by at most {displacement:.6g} (l2 norm)",
        "protects": "positions of the rows of X",
        "reference": _REFERENCES[mechanism],
    }
    if mechanism == "gaussian":
        delta = check_delta(delta)
        mu = mu_from_epsilon(epsilon, delta)
        return PrivacyGuarantee(delta=delta, mu=mu, mechanism="Gaussian rows", **common)
    return PrivacyGuarantee(
        delta=_sampling_delta(epsilon),
        mechanism="l2-Laplace rows",
        assumptions=("delta is the statistical distance of the sampler from its law",),
        **common,
    )


def _sampling_delta(epsilon):
    """Delta of the l2-Laplace sampler in any dimension; it depends on little but epsilon."""
    # the lattice's step is within a factor 2 of any other's, hence 4
    return 4 * L2Laplace(epsilon, 1.0, _MAX_DIMENSION).guarantee.delta


def _scaled(guarantee, times):
    """Return the guarantee of a move `times` as long."""
    common = {"neighbours": "replace-one", "protects": "rows of X"}
    if guarantee.mu is None:
        # the distance of the sampler counts 1 + exp(epsilon) times; a delta of 1 promises nothing
        log_delta = math.log(guarantee.delta) + (times - 1) * guarantee.epsilon
        delta = math.exp(min(log_delta + 1e-9, -1e-15))
        epsilon = math.nextafter(times * guarantee.epsilon, math.inf)
        return replace(guarantee, epsilon=epsilon, delta=delta, **common)
    mu = math.nextafter(times * guarantee.mu, math.inf)
    epsilon = max(epsilon_from_mu(mu, guarantee.delta), guarantee.epsilon)
    return replace(guarantee, mu=mu, epsilon=epsilon, **common)


def _norm_above(vector):
    """Return a float that is not below the l2 norm of a vector, above it by 1e-12 at most."""
    return float(np.linalg.norm(vector)) * (1 + 1e-12)
