"""Records of a linear model: scales of their columns from released moments, and rows in them."""

import math
from dataclasses import dataclass

import numpy as np

from skdpbo._exact_gram import products, rows_on_lattice

_VARIANCE_FLOOR = 0.3  # least variance of a column, in standard deviations of its noise
_PRIOR_SIZE = 3.0  # expected size of a coefficient of rows of norm 1
_INTERCEPT = 0.3  # value of the constant column, relative to the norm of a row


@dataclass(frozen=True)
class ColumnScales:
    """Released scales: z = (x / radius - mean) * factor / size, and a constant column.

    Attributes
    ----------
    radius : float
        Norm that rows of the box are measured in.
    mean, factor : ndarray of shape (d,)
        Centre of the columns in units of the radius; inverse standard deviations.
    size : float
        Typical norm of the standardised rows, constant column included.
    constant : float
        Value of the constant column in z; 0 without an intercept.
    dimension : float
        Effective number of columns.
    """

    radius: float
    mean: np.ndarray
    factor: np.ndarray
    size: float
    constant: float
    dimension: float

    def affine(self):
        """Return factor and shift of z = x * factor + shift, constant column apart."""
        return self.factor / (self.radius * self.size), -self.mean * self.factor / self.size

    def columns(self, block):
        """Return z for rows of the box, shape (n, d + 1)."""
        factor, shift = self.affine()
        return np.hstack([block * factor + shift, np.full((len(block), 1), self.constant)])

    def in_box_units(self, w):
        """Return coefficients and intercept for rows of the box; w of shape (d + 1, k)."""
        scaled = w[:-1] * (self.factor / self.size)[:, None]
        return scaled / self.radius, w[-1] * self.constant - self.mean @ scaled


def column_scales(radius, moments, noise, signal_noise, *, centre, intercept):
    """Return the scales that belong to released moments.

    Parameters
    ----------
    radius, moments, noise
        As from `release_moments`.
    signal_noise : float
        1 / (n mu): noise of one sum of unit vectors over the records, with the whole budget.
    centre, intercept : bool
        Whether the columns are centred, and whether there is a constant column.
    """
    mean, square = np.split(moments, 2)
    mean_noise, square_noise = noise
    # A mean lies within the box and within the clipping radius; anything beyond is noise.
    end = min(1.0, 1 / radius)  # of the box, in units of the radius
    mean = np.clip(mean, -end, end) * centre
    mean = mean * (mean**2 / (mean**2 + mean_noise**2))  # shrinks a mean below its noise to zero
    # Noise may make the difference of two released moments negative.
    variance = np.maximum(square - mean**2, 0.0)
    floor = _VARIANCE_FLOOR * square_noise + signal_noise / _PRIOR_SIZE
    # Mean squared norm of a standardised row, to which columns below the noise add little.
    dimension = max(1.0, float(np.sum(variance / (variance + floor))))
    share = _INTERCEPT * intercept
    size = math.sqrt(dimension * (1 + share**2))
    # So that rows of `dimension` standardised columns and the constant have norm 1 on average.
    constant = share / math.sqrt(1 + share**2)
    factor = 1 / np.sqrt(variance + floor)  # the floor: constant columns are not blown up
    return ColumnScales(radius, mean, factor, size, constant, dimension)


class JoinedRows:
    """Rows of the box of X and of the box of y, side by side.

    Parameters
    ----------
    rows : BoxedRows
        Protected.
    targets : BoxedRows
        Protected; of an array of shape (n, q) in memory.
    """

    def __init__(self, rows, targets):
        self._rows, self._targets, self.sizes = rows, targets, rows.sizes
        self.n_targets = targets.shape[1]
        self.shape = (rows.shape[0], rows.shape[1] + self.n_targets)

    def __iter__(self):
        """Protected: yield the slice of the rows and the joined rows."""
        for rows, block in self._rows:
            yield rows, np.hstack([block, self._targets.scaled(rows)])


class StandardisedRecords:
    """Inputs z and targets t in units of released scales; a long z shortens both.

    Parameters
    ----------
    joined : JoinedRows
        Protected.
    z_scales, t_scales : ColumnScales
        Released; those of the targets have no constant column.

    Attributes
    ----------
    shape : tuple (n_records, n_targets)
        The number of groups where there are some.
    sizes : ndarray or None
        As of `BoxedRows`.
    largest_target : float
        Bound on the targets of a record in the box; from released values.
    """

    def __init__(self, joined, z_scales, t_scales):
        self._joined, self._z, self._t = joined, z_scales, t_scales
        self.sizes = joined.sizes
        self.width = joined.shape[1] + 1
        self.shape = (joined.shape[0], joined.n_targets)
        # Both ends of the box are 1 from its centre, here in the units of t.
        ends = (1 / t_scales.radius + np.abs(t_scales.mean)) * t_scales.factor / t_scales.size
        self.largest_target = float(ends.max())

    def blocks(self):
        """Protected: yield the slice of the rows, and (z, t) of norm |z| at most 1.

        A record with a longer z is divided by |z|, target included: it counts less, and the
        relation between inputs and target stays as it is.
        """
        for part, block in self._joined:
            z = self._z.columns(block[:, : -self._joined.n_targets])
            # Targets have no constant column.
            t = self._t.columns(block[:, -self._joined.n_targets :])[:, :-1]
            # One factor for both, so that a shortened record only weighs less.
            longer = np.maximum(np.sqrt(np.einsum("ij,ij->i", z, z)), 1.0)[:, None]
            yield part, z / longer, t / longer

    def exact_gram(self, release, half_width):
        """Protected: sum the outer products of (z, beta t), t cut to the half width, in integers.

        Parameters
        ----------
        release : WhitenedRelease
        half_width : float
            Released.

        Returns
        -------
        ndarray of shape (width, width)
            int64, in steps of the release.
        """
        total = np.zeros((self.width, self.width), dtype=np.int64)
        for part, z, t in self.blocks():
            # Clipped before the weight: |z|^2 + beta^2 |t|^2 is what the noise is made for.
            t = np.clip(t, -half_width, half_width) * release.beta
            units = rows_on_lattice(np.hstack([z, t]), release.step, release.radius)
            # Exact: at most 2^13 rows of norm at most 2^20.
            total += products(units, self.sizes, part)
        return total
