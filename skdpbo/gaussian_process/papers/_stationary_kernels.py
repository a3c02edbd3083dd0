"""Bounded kernels that decrease with the distance in every coordinate, as sums of products.

The sensitivity bounds need both properties: such a kernel is largest at zero, and over a box it is
largest at the point of the box that is nearest in every coordinate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Kernel,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
)

_SMALLEST = 1e-290  # squared scaled distance, below which scikit-learn's value is not exact
_SUPPORTED = "ConstantKernel, RBF, Matern, RationalQuadratic, and their sums and products"


@dataclass(frozen=True)
class Factor:
    """A correlation that decreases with the scaled distance, other than the Gaussian one.

    Parameters
    ----------
    precision : ndarray of shape (p,)
        Inverse squared length-scales.
    correlation : Matern or RationalQuadratic
        As given.
    """

    precision: np.ndarray
    correlation: Kernel

    def value(self, offsets):
        """Correlation at coordinate distances of shape (..., p), in [0, 1]; shape (...)."""
        rows = offsets.reshape(-1, offsets.shape[-1])
        value = self.correlation(rows, np.zeros((1, rows.shape[1]))).reshape(offsets.shape[:-1])
        # The upper bound 1 is used near 0, where scikit-learn may compute 0 * inf or shift the
        # distance.
        is_known = np.isfinite(value) & (np.square(offsets) @ self.precision > _SMALLEST)
        return np.clip(np.where(is_known, value, 1.0), 0.0, 1.0)


@dataclass(frozen=True)
class Term:
    """A constant times a Gaussian correlation times other factors."""

    constant: float
    gaussian: np.ndarray  # (p,): inverse squared length-scales, 0 where there is no RBF
    factors: tuple[Factor, ...]

    def value(self, offsets):
        """Kernel at coordinate distances of shape (..., p); shape (...)."""
        value = self.constant * np.exp(-0.5 * (np.square(offsets) @ self.gaussian))
        return math.prod((factor.value(offsets) for factor in self.factors), start=value)


@dataclass(frozen=True)
class StationaryKernel:
    """A scikit-learn kernel as a sum of terms, each decreasing in every coordinate's distance.

    Parameters
    ----------
    terms : tuple of Term
    n_features : int
    """

    terms: tuple[Term, ...]
    n_features: int

    @property
    def variance(self):
        """Largest value, k(x, x), of every x: the papers' sigma_f^2."""
        return math.fsum(term.constant for term in self.terms)

    def value(self, offsets):
        """Kernel at coordinate distances of shape (..., p); shape (...)."""
        with np.errstate(all="ignore"):  # far away exp underflows to 0
            return sum(term.value(offsets) for term in self.terms)

    @property
    def gaussian_precision(self):
        """Inverse squared length-scales of a kernel that is one Gaussian term, else None."""
        single = len(self.terms) == 1 and not self.terms[0].factors
        return self.terms[0].gaussian if single else None

    @property
    def common_precision(self):
        """Inverse squared length-scales of which all others are multiples, or None.

        If they exist, the kernel is a decreasing function of one scaled distance.
        """
        vectors = [v for t in self.terms for v in (t.gaussian, *(f.precision for f in t.factors))]
        vectors = [v for v in vectors if np.any(v > 0)]
        if not vectors:
            return np.ones(self.n_features)
        first = vectors[0]
        # By cross products, as the precision of an infinite length-scale is 0.
        same = all(np.allclose(v * first[0], first * v[0], rtol=1e-12, atol=0) for v in vectors)
        return first if same else None


def stationary_kernel(kernel, n_features):
    """Read a scikit-learn kernel object.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        Constants, RBF, Matern, RationalQuadratic (isotropic or with one length-scale per
        feature), their sums and products. Not modified.
    n_features : int

    Returns
    -------
    StationaryKernel

    Raises
    ------
    TypeError
        For any other kernel: it may be unbounded (DotProduct) or not decrease (ExpSineSquared).
    ValueError
        If the number of length-scales is not that of the features, or a parameter is not
        positive and finite.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF, ConstantKernel
    >>> from skdpbo.gaussian_process.papers._stationary_kernels import stationary_kernel
    >>> stationary_kernel(2.0 * RBF(0.5) + ConstantKernel(1.0), 3).variance
    3.0
    """
    return StationaryKernel(_terms(kernel, n_features), n_features)


def _terms(kernel, p):
    kind = type(kernel)  # exactly: a subclass (Matern is one of RBF) may be another function
    if kind is Sum:
        return _terms(kernel.k1, p) + _terms(kernel.k2, p)
    if kind is Product:
        left, right = _terms(kernel.k1, p), _terms(kernel.k2, p)
        # (a + b)(c + d), term by term; Gaussian correlations merge into one.
        return tuple(
            Term(a.constant * b.constant, a.gaussian + b.gaussian, a.factors + b.factors)
            for a in left
            for b in right
        )
    none = np.zeros(p)  # an infinite length-scale: the constant function
    if kind is ConstantKernel:
        return (Term(float(_positive(kernel.constant_value)), none, ()),)
    if kind not in (RBF, Matern, RationalQuadratic):
        raise TypeError(f"kernel must be made of {_SUPPORTED}; got {kind.__name__}")
    scales = np.atleast_1d(_positive(kernel.length_scale))
    if scales.ndim != 1 or scales.size not in (1, p):
        raise ValueError("a kernel has one length-scale, or one per feature")
    precision = np.broadcast_to(1.0 / scales**2, (p,))
    # The limit of Matern kernels is Gaussian, with sharper bounds.
    if kind is RBF or (kind is Matern and kernel.nu == np.inf):
        return (Term(1.0, precision, ()),)
    _positive(kernel.nu if kind is Matern else kernel.alpha)
    return (Term(1.0, none, (Factor(precision, kernel),)),)


def _positive(value):
    array = np.asarray(value, dtype=np.float64)
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError("kernel parameters must be positive and finite")
    return array
