"""Public balls and boxes that contain the rows of a release before noise is added."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from skdpbo.gaussian_process.outsourced._random_projection import operator_norm_bound
from skdpbo.privacy._checks import check_positive, set_fields
from skdpbo.privacy._composed_losses import exact_sum
from skdpbo.privacy._rounding import round_up_root


@dataclass(frozen=True)
class Ball:
    """Points of norm at most `radius`.

    Parameters
    ----------
    radius : float
        Positive and finite, in the units of the points.

    Attributes
    ----------
    norm, diameter : float
        Largest norm of a point, and largest distance of two.

    Examples
    --------
    >>> from skdpbo.gaussian_process.outsourced import Ball
    >>> Ball(1.0).project([[3.0, 4.0], [0.0, 0.5]])
    array([[0.6, 0.8],
           [0. , 0.5]])
    """

    radius: float

    def __post_init__(self):
        radius = float(check_positive(self.radius, "radius"))
        set_fields(self, radius=radius, norm=radius, diameter=2 * radius)

    def image(self, projection: np.ndarray | None) -> Any:
        """Return a ball that holds the projected points.

        Parameters
        ----------
        projection : ndarray of shape (d, r) or None
            Public matrix; None is the identity.

        Returns
        -------
        Ball
            In r dimensions.
        """
        if projection is None:
            return self
        return Ball(self.radius * operator_norm_bound(projection))

    def project(self, points: Any) -> np.ndarray:
        """Return the nearest points of the ball, up to (r + 16) 2^-53 times the radius.

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
        largest = np.abs(points).max(axis=1, keepdims=True)
        unit = points / np.where(largest > 0, largest, 1.0)  # squares neither overflow nor vanish
        lengths = np.linalg.norm(unit, axis=1, keepdims=True)
        with np.errstate(over="ignore"):
            # The norm may overflow to inf, which is too long as well.
            too_long = lengths * largest > self.radius
        return np.where(too_long, unit * (self.radius / np.where(too_long, lengths, 1.0)), points)


@dataclass(frozen=True)
class Box:
    """Points between `low` and `high`, coordinate by coordinate.

    Parameters
    ----------
    low, high : tuple of float
        One finite value for each coordinate, low at most high, in the units of the points.

    Attributes
    ----------
    norm, diameter : float
        Largest norm of a point, and largest distance of two, rounded up; inf beyond the floats.

    Examples
    --------
    >>> from skdpbo.gaussian_process.outsourced import Box
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
            except (OverflowError, TypeError, ValueError):  # an integer beyond the floats, a text
                values = np.array([np.inf])
            if not len(values) or not np.isfinite(values).all():
                raise ValueError(f"{name} must hold finite numbers.")
            set_fields(self, **{name: tuple(values.tolist())})
        if len(self.low) != len(self.high) or np.greater(self.low, self.high).any():
            raise ValueError("low and high must have the same length, low at most high.")
        # In fractions: squares neither vanish nor overflow.
        sides = list(zip(map(Fraction, self.low), map(Fraction, self.high), strict=True))
        farthest = [max(-low, high) for low, high in sides]
        lengths = [high - low for low, high in sides]
        norm, diameter = (round_up_root(exact_sum(part, power=2)) for part in (farthest, lengths))
        set_fields(self, norm=norm, diameter=diameter)

    def image(self, projection: np.ndarray | None) -> Any:
        """Return a box that holds the projected points.

        Parameters
        ----------
        projection : ndarray of shape (d, r) or None
            Public matrix; None is the identity.

        Returns
        -------
        Box
            In r dimensions.
        """
        if projection is None:
            return self
        # Interval arithmetic: each product lies between its values at the two ends. Not rounded
        # outwards, as no guarantee depends on the image.
        ends = np.stack([np.multiply(projection.T, bound) for bound in (self.low, self.high)])
        return Box(ends.min(axis=0).sum(axis=1), ends.max(axis=0).sum(axis=1))

    def project(self, points: Any) -> np.ndarray:
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
