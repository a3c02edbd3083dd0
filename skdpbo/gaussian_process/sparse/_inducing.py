"""Inducing points and other public designs of points, independent of the records."""

import math
from functools import lru_cache

import numpy as np
from scipy.stats import qmc

_DEFAULT_SIZE = {1: 30, 2: 49}  # of grids; from three features on, Sobol points
_DEFAULT_SOBOL = 50
_ONE_DESIGN = 3  # with more columns, a linear kernel needs more points than a design for few
_MOST_LINEAR = 50  # further points for a linear kernel
SUPPORT_DESIGNS = (slice(0, 256), slice(256, 384), slice(384, 512))  # of `support_design`
_N_UNREACHED = 256
_EXTENTS = (1.0, 1.25, 1.5)  # of their boxes relative to that of Z, as records may lie outside
_UNREACHED = (4.0, 8.0, 32.0, 256.0, 2.0**20)  # distances from the centre, in half-widths
_LARGEST = 1e300  # coordinate of a point; kernels are evaluated far outside as well


def inducing_design(inducing_points, bounds, n_features):
    """Return the inducing points Z, from public values alone.

    Parameters
    ----------
    inducing_points : None, int or array-like of shape (n_inducing, n_features)
        An int asks for that many points in the box: equally spaced in one dimension, a square
        grid in two dimensions where the number is a square, Sobol points otherwise. None stands
        for 30 in one dimension, 49 in two, 50 in more.
    bounds : tuple (low, high) of ndarray of shape (n_features,)
        The box. Not used when the points are given.
    n_features : int

    Returns
    -------
    Z : ndarray of shape (n_inducing, n_features)

    Raises
    ------
    TypeError, ValueError
        When `inducing_points` is none of these.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.gaussian_process.sparse._inducing import inducing_design
    >>> inducing_design(4, (np.zeros(2), np.ones(2)), 2)
    array([[0., 0.],
           [0., 1.],
           [1., 0.],
           [1., 1.]])
    """
    if inducing_points is None:
        inducing_points = _DEFAULT_SIZE.get(n_features, _DEFAULT_SOBOL)
    if isinstance(inducing_points, int | np.integer) and not isinstance(inducing_points, bool):
        (low, high), size = bounds, int(inducing_points)
        if size < 1:
            raise ValueError(f"inducing_points must be at least 1, got {size}.")
        if max(np.abs(low).max(), np.abs(high).max()) > _LARGEST:
            raise ValueError(
                f"X_bounds, or public rows in place of them, must be at most {_LARGEST:g} in size."
            )
        side = size if n_features == 1 else math.isqrt(size)
        if n_features > 2 or side**n_features != size:
            return low + (high - low) * _sobol(size, n_features)
        # A single point goes to the middle, not to the lower end.
        line = np.linspace(0, 1, side) if side > 1 else np.array([0.5])
        grid = np.meshgrid(*[line] * n_features, indexing="ij")
        return low + (high - low) * np.stack(grid, axis=-1).reshape(-1, n_features)
    try:
        Z = np.array(inducing_points, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError("inducing_points must be None, an integer or an array.") from None
    if Z.ndim != 2 or Z.shape[1] != n_features or not len(Z):
        raise ValueError(
            f"inducing_points must have shape (n_inducing, {n_features}), got {Z.shape}."
        )
    if not (np.abs(Z) <= _LARGEST).all():
        raise ValueError(f"inducing_points must be finite, at most {_LARGEST:g} in size.")
    return Z


def design_for_columns(n_inducing, Z, columns):
    """Return inducing points that are a design for some columns of the box of Z.

    In the other columns, which matter for the linear kernel alone, they are Sobol points. If the
    number is not given, from four columns on there are two further points per column.

    Parameters
    ----------
    n_inducing : None or int
        Number of points, as for :func:`inducing_design` in the columns alone.
    Z : ndarray of shape (n_inducing, n_features)
    columns : list of int
        Public or released.
    """
    low, high = Z.min(axis=0), Z.max(axis=0)
    design = inducing_design(n_inducing, (low[columns], high[columns]), len(columns))
    linear = n_inducing is None and Z.shape[1] > _ONE_DESIGN
    more = min(2 * Z.shape[1], _MOST_LINEAR) if linear else 0
    points = low + (high - low) * _sobol(len(design) + more, Z.shape[1])
    points[: len(design), columns] = design
    return points


def support_design(Z):
    """Return points where records may lie, to describe their second moment; public.

    Sobol points of the box of the inducing points, of a box 1.25 times as wide, and of one 1.5
    times as wide, the last contracted towards its centre: in many dimensions nearly all of a box is
    corners, where few data lie. Z itself is left out, since with rough kernels noise would be taken
    for records at Z.

    Parameters
    ----------
    Z : ndarray of shape (n_inducing, n_features)
        Inducing points.

    Returns
    -------
    ndarray of shape (n_support, n_features)
        The slices `SUPPORT_DESIGNS` are the three sets.
    """
    low, high = Z.min(axis=0), Z.max(axis=0)
    inner, middle, outer = (d.stop - d.start for d in SUPPORT_DESIGNS)
    # c + h u sqrt t, u in [-1, 1]^p, with the last coordinate of the cube for t.
    cube = _sobol(outer, Z.shape[1] + 1)
    units = [  # in [-1, 1]; the first points of the sequence are those of Z
        2 * _sobol(2 * inner, Z.shape[1])[inner:] - 1,
        2 * _sobol(2 * middle, Z.shape[1])[middle:] - 1,
        (2 * cube[:, :-1] - 1) * np.sqrt(cube[:, -1:]),
    ]
    scaled = [extent * unit for extent, unit in zip(_EXTENTS, units, strict=True)]
    return (low + high) / 2 + (high - low) / 2 * np.vstack(scaled)


def unreached_design(Z):
    """Return points far outside of the box of Z, in all columns or in one; public.

    Parameters
    ----------
    Z : ndarray of shape (n_inducing, n_features)
        Inducing points.

    Returns
    -------
    ndarray of shape (n_points, n_features)
    """
    low, high = Z.min(axis=0), Z.max(axis=0)
    centre, half = (low + high) / 2, (high - low) / 2
    far, inside = np.split(2 * _sobol(_N_UNREACHED, Z.shape[1]) - 1, 2)
    factors = np.resize(_UNREACHED, len(far))
    # Far in all columns: directions of the sequence, scaled to the faces of larger boxes.
    far = far / np.abs(far).max(axis=1, keepdims=True) * factors[:, None]
    # Far in one column, on either side, and inside the box in the others, as with a wrong unit.
    row = np.arange(len(far))
    column, sign = row % Z.shape[1], 1 - 2 * (row // Z.shape[1] % 2)
    inside[row, column] = factors * sign
    return centre + half * np.vstack([far, inside])


@lru_cache(maxsize=8)  # a fit needs the same few designs several times
def _sobol(size, n_features):
    """Return the first points of the unscrambled Sobol sequence, moved to the middle of cells."""
    if n_features > qmc.Sobol.MAXDIM:
        # public randomness, the same for everybody
        return np.random.default_rng(0).random((size, n_features))
    # Balanced at powers of two; shifted by half a cell, as the first point is a corner.
    exponent = math.ceil(math.log2(size)) if size > 1 else 0
    points = qmc.Sobol(n_features, scramble=False).random_base2(exponent)[:size]
    points += 0.5**exponent / 2
    points.flags.writeable = False
    return points
