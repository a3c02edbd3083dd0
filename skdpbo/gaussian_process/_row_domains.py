"""Where the rows of a release lie before the noise: public balls and boxes."""

import math
import numbers
from dataclasses import dataclass

import numpy as np

__all__ = ["Ball", "Box", "checked_number", "finite_number", "set_field"]


@dataclass(frozen=True)
class Ball:
    """Points of norm at most `radius`.

    Parameters
    ----------
    radius : float
        Positive and finite, in the units of the points.

    Examples
    --------
    >>> from skdpbo.gaussian_process import Ball
    >>> Ball(1.0).project([[3.0, 4.0], [0.0, 0.5]])
    array([[0.6, 0.8],
           [0. , 0.5]])
    """

    radius: float

    def __post_init__(self):
        set_field(self, "radius", checked_number(self.radius, "radius", positive=True))

    def check_dimension(self, r):
        """Accept every dimension.

        Parameters
        ----------
        r : int
            Number of coordinates of the rows.
        """

    def project(self, points):
        """Return the nearest points of the ball.

        Parameters
        ----------
        points : array-like of shape (n, r)
            Finite, in the units of the domain.

        Returns
        -------
        ndarray of shape (n, r)
            `points`, those outside moved onto the boundary.
        """
        points = np.asarray(points, dtype=np.float64)
        norms = np.linalg.norm(points, axis=1, keepdims=True)
        return points * np.minimum(1.0, self.radius / np.maximum(norms, np.finfo(float).tiny))


@dataclass(frozen=True)
class Box:
    """Points between `low` and `high`, coordinate by coordinate.

    Parameters
    ----------
    low, high : tuple of float
        One finite value for each coordinate, low at most high, in the units of the points.

    Examples
    --------
    >>> from skdpbo.gaussian_process import Box
    >>> Box((0.0, 0.0), (1.0, 1.0)).project([[3.0, 0.5], [-1.0, 0.2]])
    array([[1. , 0.5],
           [0. , 0.2]])
    """

    low: tuple
    high: tuple

    def __post_init__(self):
        for name in ("low", "high"):
            try:
                values = np.ravel(np.asarray(getattr(self, name), dtype=np.float64))
            except OverflowError:  # an integer beyond the floats
                values = np.array([np.inf])
            if not len(values) or not np.isfinite(values).all():
                raise ValueError(f"{name} must hold finite numbers.")
            set_field(self, name, tuple(values.tolist()))
        if len(self.low) != len(self.high) or any(
            low > high for low, high in zip(self.low, self.high, strict=True)
        ):
            raise ValueError("low and high must have the same length, low at most high.")

    def check_dimension(self, r):
        """Refuse points of another dimension.

        Parameters
        ----------
        r : int
            Number of coordinates of the rows.

        Raises
        ------
        ValueError
            If the domain has another number of coordinates.
        """
        if len(self.low) != r:
            raise ValueError(f"the domain has {len(self.low)} coordinates and the rows {r}.")

    def project(self, points):
        """Return the nearest points of the box.

        Parameters
        ----------
        points : array-like of shape (n, r)
            Finite, in the units of the domain.

        Returns
        -------
        ndarray of shape (n, r)
            `points`, those outside moved onto the boundary.
        """
        return np.clip(np.asarray(points, dtype=np.float64), self.low, self.high)


def set_field(instance, name, value):
    """Set a field of a frozen dataclass, in its ``__post_init__``."""
    object.__setattr__(instance, name, value)


def checked_number(value, name, positive):
    """Return a finite float that is positive, or not negative; raise by the name of the field."""
    value = finite_number(value, name)
    if value < 0 or (positive and value == 0):
        raise ValueError(f"{name} must be finite and {'positive' if positive else 'not negative'}.")
    return value


def finite_number(value, name):
    """Return a finite float; raise by the name of the field."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number.")
    try:
        value = float(value)
    except OverflowError:  # an integer beyond the floats
        value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite.")
    return value
