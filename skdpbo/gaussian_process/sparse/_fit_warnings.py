"""Warnings of a fit about its bounds and kernels, from public and released values alone."""

import math

import numpy as np

from skdpbo._column_moments import at_one_end
from skdpbo._column_ranges import warn_of_no_range
from skdpbo._gram_release import SQUARED_NORM, NoisyMoments
from skdpbo._parameters import warn_caller, warn_of_ends
from skdpbo.exceptions import (
    KernelUnitsWarning,
    UnreachedRowsWarning,
    WideBoundsWarning,
)
from skdpbo.gaussian_process.sparse._denoising import share_in_reach
from skdpbo.gaussian_process.sparse._inducing import (
    SUPPORT_DESIGNS,
    support_design,
    unreached_design,
)
from skdpbo.gaussian_process.sparse._kernel_family import point_box, reference_variance

_FAR = 5.0  # standard deviations of noise: one false alarm in three million fits
_LEAST_NOISE = 1e-3  # per record, assumed in a feature; keeps a matrix invertible
# Least mean of the constant 1 over the records, and largest error of a function of the features.
_LEAST_SIZE, _CLOSE = 0.25, 0.15
_LEAST_MEAN = 0.9  # in half-widths; means of skewed columns are nearer to the centre
_NARROW, _FAR_OF_TARGETS = 0.1, 2.0  # in half-widths of y_bounds; standard deviations of noise
# A kernel can hardly follow the targets with a smaller share of variance explained by the inducing
# points, or with more of its standard deviations to the ends of y_bounds.
_LEAST_EXPLAINED, _MOST_SDS = 0.05, 20.0


def warn_of_units(kernels, Z, points, half_width=None):
    """Warn, from public values, if no given kernel can follow targets inside the public bounds.

    Parameters
    ----------
    kernels : list of sklearn kernels
    Z : ndarray of shape (n_inducing, n_features)
    points : ndarray of shape (n, n_features)
        In the box of Z.
    half_width : ndarray of shape (n_targets,), default=None
        Half-widths of the targets' ranges; None if the variance of the kernels does not matter.
    """
    if not all(reference_variance(kernel, Z) > 0 for kernel in kernels):
        return  # refused by `WhitenedFeatures`
    shares = []  # of the variance at `points` that the process at Z explains
    for kernel in kernels:
        jitter = 1e-6 * reference_variance(kernel, Z) * np.eye(len(Z))
        K, K_ZZ = kernel(Z, points), kernel(Z) + jitter
        try:
            np.linalg.cholesky(K_ZZ)
        except np.linalg.LinAlgError:  # in a released box; in a given box it is refused
            warn_caller(
                f"{kernel} is not positive semi-definite at the inducing points, as with a period "
                "below the rounding errors in their box: hardly any record counts. "
                "Give X_bounds, scale the columns, or leave kernel=None.",
                KernelUnitsWarning,
            )
            return
        variance = np.sum(K * np.linalg.solve(K_ZZ, K))
        shares.append(float(np.clip(variance / kernel.diag(points).sum(), 0.0, 1.0)))
    explained = max(shares)
    if explained < _LEAST_EXPLAINED:
        warn_caller(
            f"The inducing points show {explained:.2g} of the variance of kernel in their box: its "
            "length-scales, in the units of X, are far shorter than their distances, and hardly "
            "any record counts. Give longer ones, scale the columns, or leave kernel=None.",
            KernelUnitsWarning,
        )
    if half_width is None:
        return
    sds = half_width.max() / math.sqrt(max(reference_variance(kernel, Z) for kernel in kernels))
    if sds > _MOST_SDS:
        warn_caller(
            f"y_bounds end {sds:.2g} standard deviations of kernel away from their middle, where "
            "all predictions are going to be: its variance is in squared units of y. Multiply it "
            "by a larger constant, give a narrower y_bounds, or leave kernel=None.",
            KernelUnitsWarning,
        )


def warn_of_bounds(gp, method, released, half_width, Z, *, unseen, wide):
    """Warn of bounds that are in other units than the records, or far too wide.

    Post-processing: every argument is public or released.

    Parameters
    ----------
    gp : DPSparseGPRegressor
        Fitted.
    method : WhitenedMethod or KernelMethod
    released : NoisyMoments or KernelStatistics
        From the method.
    half_width : ndarray of shape (q,)
        Half-widths of the targets' bounds.
    Z : ndarray of shape (n_inducing, n_features)
        Inducing points before a release moved them.
    unseen : sequence of str
        Names of bounds for which the range of some column was not found.
    wide : bool
        Whether the box is far wider than the records.
    """
    warn_of_no_range(gp, unseen)
    if not isinstance(released, NoisyMoments):  # the published release lacks some moments
        return
    share, sd = _share_in_reach(method, released)
    # Released ranges contain the records; with many columns the estimated share may be wrong.
    ranges = hasattr(gp, "X_bounds_") and _box(gp) == "X_bounds" and "X_bounds" not in unseen
    if share + _FAR * sd < 0.5 and not ranges:
        warn_caller(
            f"About {max(share, 0.0):.0%} of the records are near the inducing points, by "
            "the released second moment: X_bounds may be in other units than X, or the public "
            "rows that bounds are taken from may be no sample of X.",
            UnreachedRowsWarning,
        )
    if wide:
        warn_caller(
            f"The records fill less than a sixth of {_box(gp)}, by the released mean of a wave: "
            "the model hardly tells them apart. Give a narrower public box.",
            WideBoundsWarning,
        )
    ends = _columns_at_one_end(method, released, *point_box(Z))
    if 2 * len(ends) >= Z.shape[1]:  # a rare indicator alone says nothing
        warn_of_ends(_box(gp), ends)
    _warn_of_targets(method, released, half_width, is_residual=hasattr(gp, "base_"))


def _box(gp):
    """Return the name of the box of the inducing points."""
    if gp._points_are_given():
        return "the box of inducing_points"
    of_public_rows = gp.X_bounds is None and hasattr(gp, "base_")
    return "the box of X_public" if of_public_rows else "X_bounds"


def _warn_of_targets(method, released, half_width, is_residual):
    """Warn of targets at one end of their bounds, or in a small part of them.

    Post-processing. The mean is that of records in the box: a product of released moments with
    public weights a, for which a'phi is about 1 there.
    """
    statistics, phi = method.statistics, method.features(support_design(method.features.Z))
    weights = np.linalg.solve(phi.T @ phi + np.eye(phi.shape[1]), phi.sum(axis=0))
    n, R = statistics.n_records, np.asarray(statistics.half_width)  # targets are clipped to R
    mean, square = weights @ released.A / (n * R), released.yy.diagonal() / (n * R**2)
    noise = released.syy / (n * R**2)
    if (ends := at_one_end(mean, square, noise)).size:
        warn_of_ends("residual_bound_" if is_residual else "y_bounds", ends)
    # About a released mean, or the centre of the bounds, in units of these.
    part = np.square(R / half_width)
    largest = np.maximum(square, 0.0) + _FAR_OF_TARGETS * noise
    # If targets were clipped to a range that is too small, most are at its ends: no warning then.
    narrow = (largest + noise < 1) & (largest * part < _NARROW**2)
    if not is_residual and narrow.any():
        warn_caller(
            "By what was released, targets spread over less than a tenth of y_bounds, which may "
            "be in other units: much of the noise is that of the bounds. Give narrower ones.",
            WideBoundsWarning,
        )


def _columns_at_one_end(method, released, centre, half_width):
    """Return the columns whose records are nearly all at one end of a box, by released moments.

    Post-processing. The means of t_j and its square, t_j the place in the box, are tr(M B) / n
    for M = a b_j' and b_j b_j', where a'phi is close to 1 and b_j'phi to t_j.
    """
    n, design = method.statistics.n_records, support_design(method.features.Z)
    phi, t = method.features(design), (design - centre) / half_width
    ridge = len(t) * max(released.sb / n, _LEAST_NOISE) ** 2  # the noise of a feature
    targets = np.column_stack([np.ones(len(t)), t])
    weights = np.linalg.solve(phi.T @ phi + ridge * np.eye(phi.shape[1]), phi.T @ targets)
    error = np.sqrt(np.square(phi @ weights - targets).mean(axis=0))
    moments = weights.T @ released.B @ weights
    size = max(moments[0, 0], n * _LEAST_SIZE)
    sd = math.sqrt(2) * released.sb * np.square(weights).sum(axis=0) / size
    # Columns that the features do not represent, as those a kernel ignores, give no warning.
    sd[error > _CLOSE] = np.inf
    mean = moments[0, 1:] / size
    ends = at_one_end(mean, moments.diagonal()[1:] / size, sd[1:])
    # Without indicators, recognised by a box from 0 to 1, which may be rare.
    unit = np.round(centre - half_width, 1) == 0, np.round(centre + half_width, 1) == 1
    return ends[(np.abs(mean) > _LEAST_MEAN)[ends] & ~np.all(unit, axis=0)[ends]]


def _share_in_reach(method, moments):
    """Return the estimated share of records near the inducing points, and its noise."""
    Z, n_records = method.features.Z, method.statistics.n_records
    support = support_design(Z)
    # First halves of the designs.
    reached = np.vstack([support[s.start : (s.start + s.stop) // 2] for s in SUPPORT_DESIGNS])
    longest = math.sqrt(SQUARED_NORM)  # longer rows are shortened
    inside, outside = (
        phi / np.maximum(1, np.linalg.norm(phi, axis=1) / longest)[:, None]
        for phi in map(method.features, (reached, unreached_design(Z)))
    )
    return share_in_reach(moments.B, inside, outside, sb=moments.sb, n_records=n_records)
