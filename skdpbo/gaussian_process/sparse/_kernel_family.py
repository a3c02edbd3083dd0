"""Kernels of a fit: checks, the default family, and the average of several."""

import math

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern, WhiteKernel

from skdpbo.gaussian_process.sparse._linear_kernel import LinearKernel

__all__ = [
    "average_kernel",
    "check_kernels",
    "default_kernels",
    "kernel_shares",
    "label_kernels",
    "reference_variance",
    "scaled_kernel",
]

_DEFAULT_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_LABEL_FACTORS = (0.25, 0.5, 1.0, 8.0)
_LABEL_VARIANCE = 0.5  # the coordinates of the labels have a mean square of 1
_VARIANCE_SHARE = 1 / 6  # of the squared half-width of the targets' range
_SMALLEST_SHARE = 0.05  # of a kernel whose length-scales the inducing points do not resolve


def check_kernels(kernel, default):
    """Return a list of kernels: copies of the given ones, or `default` for None.

    Parameters
    ----------
    kernel : None, sklearn kernel or list of sklearn kernels
    default : list of sklearn kernels

    Raises
    ------
    TypeError
        When a kernel is no scikit-learn kernel.
    ValueError
        When there is none, or one does not work on vectors or has white noise.
    """
    if kernel is None:
        return default
    kernels = list(kernel) if isinstance(kernel, list | tuple) else [kernel]
    if not kernels:
        raise ValueError("kernel must hold at least one kernel.")
    return [clone(check_kernel(k)) for k in kernels]


def default_kernels(Z, half_width):
    """Return the default family of regression, in public units.

    RBF kernels have 1/8 to 8 units of the inducing points, a Matern kernel of nu 1/2 has one, and
    there is a linear kernel in their box.

    Parameters
    ----------
    Z : ndarray of shape (d, n_features)
        Inducing points.
    half_width : ndarray of shape (q,)
        Of the ranges of the targets.
    """
    unit, variance = _unit(Z), _VARIANCE_SHARE * float(np.mean(np.square(half_width)))
    smooth = [RBF(factor * unit) for factor in _DEFAULT_FACTORS]
    low, high = Z.min(axis=0), Z.max(axis=0)
    linear = LinearKernel((low + high) / 2, _range(Z) / 2)
    return [ConstantKernel(variance) * k for k in [*smooth, Matern(unit, nu=0.5), linear]]


def label_kernels(Z):
    """Return the default family of classification: RBF kernels of 1/4, 1/2, 1 and 8 units.

    Labels carry less information than targets, and every rough kernel takes a share of the release:
    a smaller family is more accurate.
    """
    return [ConstantKernel(_LABEL_VARIANCE) * RBF(f * _unit(Z)) for f in _LABEL_FACTORS]


def _unit(Z):
    """Return a sixth of the range of the points in each column, times the root of their number."""
    return _range(Z) / 6 * math.sqrt(Z.shape[1])


def _range(Z):
    """Return the range of the points in each column; 6 where they have none."""
    width = np.ptp(Z, axis=0)
    return np.where(width > 0, width, 6.0)


def check_kernel(kernel):
    """Return the kernel; raise where features cannot be computed or the model has no use for it."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a scikit-learn kernel, got {type(kernel).__name__}.")
    if not kernel.requires_vector_input:
        raise ValueError("kernel must be a kernel on vectors, such as RBF, Matern or DotProduct.")
    if any(isinstance(part, WhiteKernel) for part in kernel.get_params().values()):
        raise ValueError(
            "kernel must not contain a WhiteKernel: the noise of the observations is the parameter "
            "noise_variance."
        )
    return kernel


def reference_variance(kernel, Z):
    """Return the kernel's variance; where it is not constant, its mean over the inducing points."""
    variances = kernel.diag(Z)
    return float(variances[0] if kernel.is_stationary() else variances.mean())


def kernel_shares(kernels, Z):
    r"""Return the shares of a default family in its average, public and of sum 1.

    They are proportional to :math:`\sqrt{D_k} (1 - D_k / d)`, where
    :math:`D_k = (\mathrm{tr} K)^2 / \mathrm{tr} K^2` is the number of directions that kernel k uses
    at the d inducing points. A rough kernel needs a larger share than a smooth one, whose
    directions the rough ones have as well; one that the points do not resolve cannot be learnt.

    Parameters
    ----------
    kernels : list of sklearn kernels
    Z : ndarray of shape (d, n_features)
        Inducing points.

    Returns
    -------
    ndarray of shape (n_kernels,)
    """
    directions = np.array([_directions(kernel(Z)) for kernel in kernels])
    shares = np.sqrt(directions) * np.maximum(1 - directions / len(Z), _SMALLEST_SHARE)
    return shares / shares.sum()


def _directions(K):
    """Return (tr K)^2 / tr K^2, between 1 and the size of K."""
    K = K / np.abs(K).max()  # the squares neither overflow nor vanish
    return float(np.trace(K) ** 2 / np.sum(K * K))


def average_kernel(kernels, Z, shares=None):
    """Return the average of the kernels, each divided by its variance.

    Parameters
    ----------
    kernels : list of sklearn kernels
        A single one is returned as it is.
    Z : ndarray of shape (d, n_features)
        Inducing points.
    shares : ndarray of shape (n_kernels,), default=None
        Public, of sum 1. None: equal shares.
    """
    variances = [reference_variance(kernel, Z) for kernel in kernels]
    if not all(0 < variance < math.inf for variance in variances):
        raise ValueError("every kernel must have a positive variance.")
    if len(kernels) == 1:
        return kernels[0]
    shares = np.full(len(kernels), 1 / len(kernels)) if shares is None else shares
    scales = (shares / variances).tolist()
    parts = [scaled_kernel(k, c) for c, k in zip(scales, kernels, strict=True)]
    return sum(parts[1:], parts[0])


def scaled_kernel(kernel, factor):
    """Return the kernel times a fixed factor."""
    return kernel if factor == 1.0 else ConstantKernel(factor, "fixed") * kernel
