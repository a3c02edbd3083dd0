"""Sensitivity of the published statistics (Honkela & Melkas 2021, Section 3).

Every bound R_k on the norm of k_Z(x) holds for all x. It is multiplied by 1 + 1e-9, more than the
rounding errors of the kernel values and of their sums: a difference of two floats is rounded
once, a squared scaled distance by p + 3 units in the last place, so each kernel value that is not
negligible is off by less than 1e-12 (p + 3) in relative terms.

Privacy does not depend on these bounds, as the release shortens every record to R_k exactly. A
bound that is too small distorts records, one that is too large adds noise.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial.distance import pdist

from skdpbo.gaussian_process.papers._branch_and_bound import largest_squared_norm
from skdpbo.gaussian_process.papers._stationary_kernels import (
    StationaryKernel,
    Term,
    stationary_kernel,
)

_ROUNDING = 1.0 + 1e-9


def trivial_norm(kernel, Z):
    """Bound sqrt(d) sigma_f^2 of Eq. (4).

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        See :func:`stationary_kernel`.
    Z : ndarray of shape (d, p)
        Inducing points, public.

    Returns
    -------
    float
        R_k, in the units of the kernel.
    """
    d, p = Z.shape
    return math.sqrt(d) * stationary_kernel(kernel, p).variance * _ROUNDING


def spectral_norm(kernel, Z):
    """Bound sqrt(sigma_f^2 lambda_max(K_ZZ)), for every x and every positive kernel.

    The kernel matrix of (Z, x) is positive semi-definite, so K_ZZ - k k' / k(x, x) is, and
    lambda_max(K_ZZ) >= k' K_ZZ k / k'k >= k'k / k(x, x).
    """
    variance = stationary_kernel(kernel, Z.shape[1]).variance
    largest = float(np.linalg.eigvalsh(kernel(Z))[-1])
    return math.sqrt(variance * largest) * _ROUNDING


def line_norm(kernel, Z):
    """Bound of Eq. (7), for inducing points on a line at least `spacing` apart.

    On either side of x, the j-th nearest point is at least (j - 1) spacings away. The nearest point
    of each side is counted at distance zero, and one point too many on each side, so that the bound
    is valid but not tight.

    Raises
    ------
    ValueError
        If Z has more than one column.
    """
    d, p = Z.shape
    if p != 1:
        raise ValueError(
            'sensitivity="generic" (Eq. 7) needs inducing_points on a line: one column'
        )
    if d == 1:
        return trivial_norm(kernel, Z)
    read = stationary_kernel(kernel, 1)
    spacing = float(np.diff(np.sort(Z[:, 0])).min())
    z_hf, z_hc = d // 2, (d + 1) // 2
    # Worst case: z_hf points on one side and z_hc on the other, `spacing` apart.
    k = read.value(spacing * np.arange(z_hc + 1.0)[:, None])
    square = 2.0 * np.sum(k[: z_hf + 1] ** 2) + (z_hc - z_hf) * k[z_hc] ** 2  # Eq. 7
    return min(math.sqrt(square) * _ROUNDING, trivial_norm(kernel, Z))


def separation_norm(kernel, Z):
    """Bound of Eq. (8): at most one inducing point is nearer to x than half their separation.

    The kernel must be a function of one scaled distance; otherwise the bound is that of Eq. (4).
    """
    d, p = Z.shape
    read = stationary_kernel(kernel, p)
    precision = read.common_precision
    if precision is None or d == 1:
        return trivial_norm(kernel, Z)
    separation = float(pdist(Z * np.sqrt(precision)).min())
    # Half the separation along the first column, as only the scaled distance matters.
    half = np.zeros(p)
    half[0] = 0.5 * separation / math.sqrt(precision[0])
    square = read.variance**2 + (d - 1) * float(read.value(half)) ** 2  # Eq. 8
    return min(math.sqrt(square) * _ROUNDING, trivial_norm(kernel, Z))


def grid_centre_norm(kernel, Z):
    """Norm at the centre of a regular grid with an odd number of points per axis, Eq. (9).

    The centre is a stationary point by symmetry, and a local maximum if the Hessian (11) is
    negative definite. The value is a bound only if it is also the global maximum, which
    :func:`searched_norm` checks.

    Raises
    ------
    ValueError
        If the kernel is not a constant times RBF kernels, if Z is not such a grid, or if the
        Hessian at its centre is not negative definite.
    """
    precision = stationary_kernel(kernel, Z.shape[1]).gaussian_precision
    axes = grid_axes(Z)
    regular = axes is not None and all(
        len(axis) % 2 and np.allclose(np.diff(axis), np.diff(axis)[:1], rtol=1e-9, atol=0)
        for axis in axes
    )
    if precision is None or not regular:
        raise ValueError(
            'sensitivity="tight" (Eq. 9) needs RBF kernels and inducing_points on a regular grid, '
            "odd along every axis"
        )
    centre = np.array([axis[len(axis) // 2] for axis in axes])
    e = (centre - Z) * np.sqrt(precision)
    # k^2 / sf^4 = exp(-|e|^2), e the scaled offset.
    weights = np.exp(-np.square(e).sum(axis=1))
    hessian = 4.0 * (e.T * weights) @ e - 2.0 * weights.sum() * np.eye(len(axes))  # Eq. 11
    if np.linalg.eigvalsh(hessian)[-1] >= 0:
        raise ValueError(
            'sensitivity="tight" does not hold for these inducing_points: the centre of their grid '
            "is not a maximum (Eq. 11)"
        )
    variance = stationary_kernel(kernel, Z.shape[1]).variance
    return variance * math.sqrt(weights.sum()) * _ROUNDING  # Eq. 9


def searched_norm(kernel, Z):
    """Supremum over all x, bounded from above by branch and bound."""
    upper, _ = largest_squared_norm(stationary_kernel(kernel, Z.shape[1]), Z)
    return math.sqrt(upper) * _ROUNDING


def product_grid_norm(kernel, Z):
    """Supremum on a product grid for a constant times RBF kernels, or None for anything else.

    The squared norm is a product over the axes of sums over the points of that axis, so its
    supremum is the product of one-dimensional suprema.
    """
    read = stationary_kernel(kernel, Z.shape[1])
    axes, precision = grid_axes(Z), read.gaussian_precision
    if axes is None or precision is None:
        return None
    square = read.variance**2
    for i, axis in enumerate(axes):
        # exp(-|e|^2) and the sum over the grid both factor by axes; variance 1 here.
        line = StationaryKernel((Term(1.0, precision[i : i + 1], ()),), 1)
        square *= largest_squared_norm(line, axis[:, None])[0]
    return math.sqrt(square) * _ROUNDING


def certified_norm(kernel, Z):
    """Smallest R_k among the bounds that are proved for every x.

    These are Eq. (4), (7) or (8), lambda_max, and the supremum itself, by products of
    one-dimensional suprema or by branch and bound.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skdpbo.gaussian_process.papers._kernel_sensitivity import certified_norm, line_norm
    >>> Z = np.linspace(-3, 3, 9)[:, None]
    >>> round(line_norm(RBF(1.0), Z), 3), round(certified_norm(RBF(1.0), Z), 3)
    (1.834, 1.537)
    """
    # docs/theory/sparse_gp_release.md, Bounds on the norm; Eq. (9) is local and not among them.
    bounds = [trivial_norm(kernel, Z), spectral_norm(kernel, Z), generic_norm(kernel, Z)]
    supremum = product_grid_norm(kernel, Z)
    bounds.append(searched_norm(kernel, Z) if supremum is None else supremum)
    return min(bounds)


def generic_norm(kernel, Z):
    """Bound of Eq. (7) on a line, of Eq. (8) otherwise."""
    return line_norm(kernel, Z) if Z.shape[1] == 1 else separation_norm(kernel, Z)


# R_k by the name of a `sensitivity`; Eq. (9) of "tight" is local.
NORM_BOUNDS = {
    "certified": certified_norm,
    "tight": grid_centre_norm,
    "generic": generic_norm,
    "trivial": trivial_norm,
}


def grid_axes(Z):
    """Sorted coordinates of each axis if Z is a product grid, else None."""
    axes = [np.unique(column) for column in Z.T]
    full = math.prod(len(axis) for axis in axes) == len(Z)
    return axes if full and len(np.unique(Z, axis=0)) == len(Z) else None


def joint_sensitivity(k_norm, y_norm, ratio=1.0):
    """Sensitivity of A and B together in units of A: sqrt(|dA|^2 + c |dB|_F^2).

    With t = <k, k'>, the square is at most 2 R_k^2 R_y^2 + 2 c R_k^4 + 2 R_y^2 t - 2 c t^2, and
    |t| <= R_k^2. The maximum of the parabola is Eq. (6); if it lies beyond R_k^2, the largest value
    is 2 R_k R_y, at k = k', y = -y'. Both are attained. For several targets y_norm bounds the l2
    norm of a record's targets.

    Parameters
    ----------
    k_norm : float
        R_k, bound on the norm of k_Z(x).
    y_norm : float
        R_y, bound on abs(y).
    ratio : float, default=1.0
        c = sigma_a^2 / sigma_b^2.

    Returns
    -------
    float
        Delta, rounded up.

    Examples
    --------
    >>> from skdpbo.gaussian_process.papers._kernel_sensitivity import joint_sensitivity
    >>> round(joint_sensitivity(1.834, 1.0), 2), round(joint_sensitivity(1.0, 3.0), 3)
    (5.46, 6.0)
    """
    s = noise_shape(k_norm, y_norm, ratio)
    return k_norm * y_norm * unit_sensitivity(s)


def noise_shape(k_norm, y_norm, ratio):
    """Shape s = sqrt(2 c) R_k / R_y, through which alone sensitivity and noise depend on c."""
    return math.sqrt(2.0 * ratio) * k_norm / y_norm


def unit_sensitivity(s):
    """Delta / (R_k R_y) by Eq. (6), whose square is (s + 1/s)^2 for s >= 1; rounded up."""
    # Below s = 1 the largest value is 2 R_k R_y, that at s = 1.
    s = max(s, 1.0)
    return (s + 1.0 / s) * (1.0 + 2.0**-45)


def optimal_ratio(k_norm, y_norm, gain=0.5):
    """Ratio c = sigma_a^2 / sigma_b^2 of least noise sigma_a^2 + gain sigma_b^2 |v|^2.

    That is the noise of A - B v per coordinate, for a vector v of the length R_y / R_k. In units
    of (R_k R_y / mu)^2 it is (s + 1/s)^2 + 2 gain (1 + 1/s^2)^2, and its derivative with respect
    to u = s^2 vanishes where (u + 1)(u^2 - u - 4 gain) = 0.

    Parameters
    ----------
    k_norm, y_norm : float
        R_k and R_y.
    gain : float, default=0.5
        1/2 for the noise alone, since (E_b v)_i has variance sigma_b^2 |v|^2 / 2; then u = 2 and
        c = (R_y / R_k)^2. With the regulariser of Eq. (13), which outweighs the noise of B, the
        square of lambda sigma^2 / sigma_b.

    Returns
    -------
    float
    """
    # The positive root of u^2 - u - 4 gain; u = s^2 = 2 c (R_k / R_y)^2 is solved for c.
    u = 0.5 * (1.0 + math.sqrt(1.0 + 16.0 * gain))
    return 0.5 * u * (y_norm / k_norm) ** 2
