"""Certified supremum of ||k_Z(x)||^2 over all x, by best-first branch and bound on boxes."""

from __future__ import annotations

import math

import numpy as np
from sklearn.utils import gen_batches

_BATCH = 512  # boxes split at a time
_ENTRIES = 2_000_000  # of an array of distances; memory stays below 100 MB
_TOLERANCE = 1e-6  # relative difference of bound and best value at which to stop
_OPERATIONS = 200_000_000  # box x inducing point x feature, in total: about 2 seconds


def largest_squared_norm(kernel, Z, *, max_boxes=50_000):
    """Upper bound on sup_x sum_j k(z_j, x)^2, up to floating-point rounding.

    Projecting x onto the bounding box of Z brings it nearer to every inducing point in every
    coordinate, so the supremum over all x is attained in that box. The bound over a box uses the
    kernel at the points of the box nearest to each inducing point and, for a Gaussian kernel, also
    a second-order expansion about the centre. Boxes of largest bound are halved until the bound and
    the best value found agree.

    Parameters
    ----------
    kernel : StationaryKernel
    Z : ndarray of shape (d, p)
        Inducing points.
    max_boxes : int, default=50_000
        Largest number of boxes; the bound is valid whenever the search stops.

    Returns
    -------
    upper : float
        The bound.
    lower : float
        The largest value found; the supremum lies between the two.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skdpbo.gaussian_process.papers._stationary_kernels import stationary_kernel
    >>> Z = np.linspace(-3, 3, 9)[:, None]
    >>> upper, lower = largest_squared_norm(stationary_kernel(RBF(1.0), 1), Z)
    >>> round(float(np.sqrt(upper)), 3), bool(upper - lower < 1e-5)
    (1.537, True)
    """
    low, high = Z.min(axis=0), Z.max(axis=0)  # the maximiser lies in this box
    boxes = np.stack([low, high])[:, None, :]  # (2, n_boxes, p)
    # Inducing points themselves are good guesses: one term of the sum is largest there.
    best = _values(kernel, Z, Z).max()
    bounds = _upper(kernel, Z, boxes)
    seen = 1
    allowed = min(max_boxes, max(64, _OPERATIONS // Z.size))
    # Boxes are halved along the widest side in units of the kernel's length-scales.
    precisions = [t.gaussian for t in kernel.terms]
    precisions += [f.precision for t in kernel.terms for f in t.factors]
    widths = np.sqrt(np.max(precisions, axis=0))
    while bounds.size and bounds.max() > best * (1.0 + _TOLERANCE) and seen < allowed:
        order = np.argsort(-bounds)
        split, kept = order[:_BATCH], order[_BATCH:]
        low, high = boxes[:, split]
        side = np.argmax((high - low) * widths, axis=1)
        rows = np.arange(len(side))
        left, right = high.copy(), low.copy()
        left[rows, side] = right[rows, side] = 0.5 * (low[rows, side] + high[rows, side])
        halves = np.stack([np.concatenate([low, right]), np.concatenate([left, high])])
        best = max(best, _values(kernel, Z, halves.mean(axis=0)).max())
        # The bound of a half is at most that of the whole box.
        fresh = np.minimum(_upper(kernel, Z, halves), np.tile(bounds[split], 2))
        boxes = np.concatenate([boxes[:, kept], halves], axis=1)
        bounds = np.concatenate([bounds[kept], fresh])
        remaining = bounds > best  # other boxes cannot contain a larger value
        boxes, bounds = boxes[:, remaining], bounds[remaining]
        seen += fresh.size
    # Valid even if the search was stopped: remaining boxes contain all larger values.
    return max(float(bounds.max(initial=0.0)), float(best)), float(best)


def _values(kernel, Z, points):
    """Squared norm at points of shape (n, p)."""
    parts = gen_batches(len(points), max(1, _ENTRIES // Z.size))
    return np.concatenate(
        [np.square(kernel.value(points[s, None, :] - Z)).sum(axis=1) for s in parts]
    )


def _upper(kernel, Z, boxes):
    """Upper bound of the squared norm over each box."""
    bounds = []
    for part in gen_batches(boxes.shape[1], max(1, _ENTRIES // Z.size)):
        low, high = boxes[:, part, None, :]
        nearest = np.maximum(np.maximum(low - Z, Z - high), 0.0)
        # Each term at the box's point nearest to z_j, where a decreasing kernel is largest.
        bound = np.square(kernel.value(nearest)).sum(axis=1)
        # The second bound of docs/theory/sparse_gp_release.md, Branch and bound, for RBF kernels.
        if kernel.gaussian_precision is not None:
            with np.errstate(all="ignore"):
                # fmin takes the first bound where the expansion has overflowed to NaN.
                bound = np.fmin(bound, _expansion(kernel, Z, low, high, nearest))
        bounds.append(bound)
    # A bound that overflowed is infinite, so that the box stays in the search.
    return np.nan_to_num(np.concatenate(bounds), nan=math.inf, posinf=math.inf)


def _expansion(kernel, Z, low, high, nearest):
    """Second-order bound for k^2 = sf^4 exp(-|t - t_j|^2), t the scaled coordinates.

    The Hessian of exp(-|e|^2) is exp(-|e|^2) (4 e e' - 2 I) (Eq. 11), with largest eigenvalue
    (4 s - 2) exp(-s), s = |e|^2, which increases up to s = 3/2 and decreases beyond. With
    `curvature`, its largest value over the box summed over j,
    f(c + u) <= f(c) + g'u + curvature |u|^2 / 2.
    """
    scale = np.sqrt(kernel.gaussian_precision)
    half = 0.5 * (high - low)[:, 0] * scale
    centre = (0.5 * (low + high) - Z) * scale
    values = np.exp(-np.square(centre).sum(axis=2))
    slope = np.abs(2.0 * np.einsum("bjp,bj->bp", centre, values))  # Eq. 10
    farthest = np.maximum(np.abs(low - Z), np.abs(high - Z)) * scale
    # (4 s - 2) exp(-s) is largest at 3/2, or at the end of the range of s nearest to it.
    s = np.clip(1.5, np.square(nearest * scale).sum(axis=2), np.square(farthest).sum(axis=2))
    curvature = ((4.0 * s - 2.0) * np.exp(-s)).sum(axis=1)[:, None]
    # For each coordinate the maximum of the parabola, or the face of the box if that is nearer.
    concave = np.minimum(half, slope / np.maximum(-curvature, 1e-300))
    u = np.where(curvature < 0, concave, half)
    rise = (slope * u + 0.5 * curvature * u**2).sum(axis=1)
    return kernel.variance**2 * (values.sum(axis=1) + rise)
