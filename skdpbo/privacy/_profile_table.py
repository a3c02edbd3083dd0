"""Table of points of a privacy profile, which bounds it from above in between.

The profile delta(epsilon) of a pair of laws is a supremum of functions P(S) - e^epsilon Q(S). So it
is decreasing, and convex in e^epsilon: the chord between two points lies above it, and the chord
between upper bounds on them lies above that one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_N_POINTS = 1025
_NEGLIGIBLE = 1e-30  # the table ends where delta is below it
_LARGEST = 512.0  # end of the longest table; e^epsilon is a float there
_SCAN = _LARGEST * 2.0 ** np.arange(-39.0, 0.1, 0.25)  # possible ends of a table
_TOLERANCE = 1e-9  # by which rounding may let a stated profile increase or leave [0, 1]
_MARGIN = 1e-13  # relative; above the rounding error of a chord, which is below 1e-15
_TINY = math.ulp(0.0)


@dataclass(frozen=True, eq=False)
class ProfileTable:
    """Upper bounds on a privacy profile at given points, and a bound for every real epsilon.

    Parameters
    ----------
    epsilons : ndarray of shape (n_points,)
        Increasing, from 0.
    deltas : ndarray of shape (n_points,)
        Upper bounds on delta there, in [0, 1], not increasing.
    """

    epsilons: Array
    deltas: Array

    def delta(self, x: Array) -> Array:
        """Upper bound on delta(x) for every real x, rounded up.

        Between two points the chord in e^x, beyond the last point its value. Below zero
        P(S) - e^x Q(S) = 1 - e^x + e^x (Q(S^c) - e^-x P(S^c)), so that delta(x) is at most
        1 - e^x + e^x delta(-x) if the profile covers both directions.
        """
        x = np.asarray(x, dtype=float)
        below = np.maximum(-x, 0.0)
        positive = self._chord(np.abs(x))
        negative = (-np.expm1(-below) + np.exp(-below) * positive) * (1 + _MARGIN)
        bound: Array = np.minimum(np.where(x >= 0, positive, negative), 1.0)
        return bound

    def _chord(self, x: Array) -> Array:
        left = np.searchsorted(self.epsilons, x, side="right") - 1
        right = np.minimum(left + 1, self.epsilons.size - 1)
        a, b = self.epsilons[left], self.epsilons[right]
        between = (x > a) & (left < right)
        # Points without a chord get an arbitrary width that is not 0.
        x, b = np.where(between, x, a), np.where(left < right, b, a + 1.0)
        share, rest = _shares(a, x, b)
        bound = (share * self.deltas[left] + rest * self.deltas[right]) * (1 + _MARGIN)
        # A positive bound must not underflow to 0, which would state a pure guarantee.
        bound = np.where(self.deltas[left] > 0, np.maximum(bound, _TINY), 0.0)
        return np.where(between, bound, self.deltas[left])

    def log_delta(self, x: Array) -> Array:
        """Upper bound on log delta(x), rounded up."""
        with np.errstate(divide="ignore"):
            log_delta = np.log(self.delta(x))
        rounding = 1e-15 * (1 + np.abs(np.nan_to_num(log_delta, neginf=0.0)))
        bound: Array = np.minimum(log_delta + rounding, 0.0)
        return bound

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon >= 0 that the points prove for `delta`, rounded up; inf if none."""
        within = np.flatnonzero(self.deltas <= delta)
        if not within.size:
            return math.inf
        low, high = float(self.epsilons[max(within[0] - 1, 0)]), float(self.epsilons[within[0]])
        # By halves; `high` is always a point at which the chord proves delta.
        for _ in range(60):
            middle = (low + high) / 2
            if float(self.delta(np.float64(middle))) <= delta:  # type: ignore[arg-type]
                high = middle
            else:
                low = middle
        return high

    def convex(self) -> ProfileTable:
        """Table without the points above chords of others, which add nothing to the bound."""
        x, deltas = self.epsilons, self.deltas
        while True:
            share, rest = _shares(x[:-2], x[1:-1], x[2:])
            kept = np.ones(x.size, dtype=bool)
            kept[1:-1] = deltas[1:-1] <= share * deltas[:-2] + rest * deltas[2:]
            if kept.all():
                return ProfileTable(x, deltas)
            x, deltas = x[kept], deltas[kept]

    def doubled(self) -> ProfileTable:
        """Profile for one replaced record from that for add-remove: two changes in turn.

        P(S) <= e^a M(S) + delta(a) <= e^(a + b) Q(S) + e^a delta(b) + delta(a), for every a + b.
        """
        ends = np.linspace(0.0, min(2 * self.epsilons[-1], _LARGEST), _N_POINTS)
        # Every split is a bound, so a coarse grid of them costs tightness only.
        splits = np.linspace(0.0, 1.0, 65)
        a = ends[:, None] * splits
        both = self.delta(a) + np.exp(a) * self.delta(ends[:, None] - a)
        smallest = np.minimum(both.min(axis=1) * (1 + _MARGIN), 1.0)
        return ProfileTable(ends, falling(smallest))


def _shares(a: Array, x: Array, b: Array) -> tuple[Array, Array]:
    """Shares of the ends a, b of a chord in e^x: (e^b - e^x) / (e^b - e^a), and the rest of 1."""
    # Nothing cancels; e^(b - a) may be infinite.
    whole = np.expm1(a - b)
    return np.expm1(x - b) / whole, np.exp(x - b) * np.expm1(a - x) / whole


def tabulate(profile: Callable[[Array], Array]) -> ProfileTable:
    """Table of a stated profile.

    Parameters
    ----------
    profile : callable
        Upper bounds on delta for an array of epsilons >= 0.

    Raises
    ------
    TypeError, ValueError
        If a value is not a finite number in [0, 1], or the profile rises.
    """
    seen = _checked(profile, _SCAN)
    # Accountants put a small mass on an infinite loss, below which delta does not fall.
    end = _SCAN[int(np.argmax(seen <= max(1.001 * float(seen[-1]), _NEGLIGIBLE)))]
    epsilons = np.linspace(0.0, end, _N_POINTS)
    return ProfileTable(epsilons, falling(_checked(profile, epsilons)))


def falling(deltas: Array) -> Array:
    """Return the running maximum from the end: the smallest decreasing upper bound."""
    bound: Array = np.maximum.accumulate(deltas[::-1])[::-1]
    return bound


def _checked(profile: Callable[[Array], Array], epsilons: Array) -> Array:
    deltas = profile(epsilons)
    for wrong, rule in (
        (~np.isfinite(deltas), "be finite"),
        (deltas < -_TOLERANCE, "not be negative"),
        (deltas > 1 + _TOLERANCE, "not exceed 1"),
    ):
        if wrong.any():
            first = int(np.argmax(wrong))
            raise ValueError(
                f"The privacy profile must {rule}: it is {deltas[first]:.6g} at "
                f"epsilon={epsilons[first]:.6g}."
            )
    # A negative value is a rounding error, which the others may have as well.
    deltas = np.maximum(deltas, max(0.0, -float(deltas.min())))
    smallest = np.minimum.accumulate(deltas)
    rises = deltas > smallest * (1 + _TOLERANCE) + 1e-15
    if rises.any():
        first = int(np.argmax(rises))
        raise ValueError(
            f"The privacy profile must not increase: it is {deltas[first]:.6g} at "
            f"epsilon={epsilons[first]:.6g} and {smallest[first]:.6g} at a smaller epsilon."
        )
    bounded: Array = np.minimum(deltas, 1.0)
    return bounded
