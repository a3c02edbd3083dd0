r"""Distribution of the exact rows given a release, under a normal prior.

Under a flat prior a row x given z = x + e is N(z, s^2 I), which is far off in many dimensions,
where noise drives released rows apart. Under a normal prior, whose mean and covariance are
estimated from the released rows, x given z is again normal, shrunk towards the mean and less
uncertain. Both are post-processing of the release.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import RBF

_FLOOR = 1e-3  # least variance of rows in a direction, in units of that of the noise


@dataclass(frozen=True, eq=False)
class BelievedRows:
    """x_i ~ N(rows_i, diag(noise_std^2)), independent, in coordinates (x - centre) axes.

    Attributes
    ----------
    rows : ndarray of shape (n, r)
    noise_std : float or ndarray of shape (r,)
    centre : ndarray of shape (r,)
    axes : ndarray of shape (r, r) or None
        Orthogonal; None for the identity.
    """

    rows: np.ndarray
    noise_std: object
    centre: np.ndarray
    axes: np.ndarray | None = None

    def place(self, exact):
        """Return exact rows in these coordinates, shape (m, r)."""
        moved = exact - self.centre
        return moved if self.axes is None else moved @ self.axes


def normal_rows(release, isotropic):
    r"""Return the belief under a normal prior that is estimated from the released rows.

    With the variance t of the rows along an axis, x given z has the mean c + w (z - c) and the
    variance w s^2, w = t / (t + s^2).

    Parameters
    ----------
    release : ProjectionRelease
        With noise, and at least two rows.
    isotropic : bool
        Whether the kernel is invariant under rotations: then principal axes are used, otherwise
        those of the columns.

    Returns
    -------
    BelievedRows
    """
    Z, s = release.Z, release.noise_std
    # docs/theory/outsourced.md, The model: normal prior.
    centre = Z.mean(axis=0)
    moved, axes = Z - centre, None
    if isotropic:
        # Along principal axes, signal and noise are separated best.
        axes = np.linalg.svd(moved.T @ moved / len(Z))[0]
        moved = moved @ axes
        variances = denoised_variances(np.mean(moved**2, axis=0), s, len(Z))
    else:  # E z^2 = t + s^2 in each column
        variances = np.maximum(np.mean(moved**2, axis=0) - s**2, 0.0)
    # At least the floor, as a variance of 0 would put all rows at one point.
    variances = np.maximum(variances, _FLOOR * s**2)
    w = variances / (variances + s**2)  # normal prior times normal noise
    return BelievedRows(w * moved, s * np.sqrt(w), centre, axes)


def denoised_variances(values, noise_std, n_rows):
    r"""Variances of exact rows from principal variances of noisy ones; 0 if noise explains them.

    With :math:`\gamma = r / n`, principal variances of noise reach :math:`s^2 (1 + \sqrt\gamma)^2`,
    and an exact variance t appears as :math:`(t + s^2)(1 + \gamma s^2 / t)`, solved for t (Baik &
    Silverstein 2006).

    Parameters
    ----------
    values : ndarray of shape (r,)
    noise_std : float
        s.
    n_rows : int
        n.

    Returns
    -------
    ndarray of shape (r,)
    """
    noise = noise_std**2
    gamma = len(values) / n_rows
    # (t + s^2)(1 + gamma s^2 / t) = v is t^2 - 2 half t + gamma s^4 = 0; the larger root.
    half = (values - (1 + gamma) * noise) / 2
    solved = half + np.sqrt(np.maximum(half**2 - gamma * noise**2, 0.0))
    return np.where(values > noise * (1 + gamma**0.5) ** 2, solved, 0.0)


def is_isotropic(kernel):
    """Whether a kernel of constants, RBF, sums and products has one length-scale per RBF."""
    parts = (kernel, *kernel.get_params().values())
    return not any(isinstance(part, RBF) and part.anisotropic for part in parts)
