"""Scales of the columns, computed from released moments."""

import math
from dataclasses import dataclass

import numpy as np

_VARIANCE_FLOOR = 0.3  # in standard deviations of the noise of a moment
_PRIOR_SIZE = 3.0  # of a coefficient, in units of a row of norm 1
_INTERCEPT = 0.3  # value of the constant column, in units of the norm of a row


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

    def penalties(self):
        """Return d b^2 / d w^2 for coefficients b of standardised columns, shape (d + 1,)."""
        # The last one is that of the intercept, which is not penalised.
        return np.append(np.full(len(self.mean), self.size**-2.0), 0.0)

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
    # A column is within the box and within the clipped row: a mean beyond both is noise.
    end = min(1.0, 1 / radius)  # of the box, in units of the radius
    mean = np.clip(mean, -end, end) * centre
    mean = mean * (mean**2 / (mean**2 + mean_noise**2))  # a mean below its noise is taken as zero
    # Noise may make the difference of two released moments negative.
    variance = np.maximum(square - mean**2, 0.0)
    floor = _VARIANCE_FLOOR * square_noise + signal_noise / _PRIOR_SIZE
    # The mean squared norm of a standardised row: columns below the noise count little.
    dimension = max(1.0, float(np.sum(variance / (variance + floor))))
    share = _INTERCEPT * intercept
    size = math.sqrt(dimension * (1 + share**2))
    # So that rows of `dimension` standardised columns and the constant have norm 1 on average.
    constant = share / math.sqrt(1 + share**2)
    factor = 1 / np.sqrt(variance + floor)  # the floor: constant columns are not blown up
    return ColumnScales(radius, mean, factor, size, constant, dimension)
