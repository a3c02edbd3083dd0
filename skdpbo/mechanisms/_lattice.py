"""Public lattices: checks, conversions and rounding in exact arithmetic.

Error messages are constant, because the values may be protected.
"""

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdpbo._attempt import refuse_masked
from skdpbo.privacy._checks import check_positive

_INT64_MAX = 2**63 - 1
_EXACT = 2.0**52  # floats below this are at most 1/2 apart: a quotient cannot skip an integer


def as_fraction(value: Any) -> Fraction:
    """Return the exact value of a validated real number."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, numbers.Integral):
        return Fraction(int(value))
    return Fraction(*value.as_integer_ratio())


def check_step(step: Any, name: str) -> float:
    """Return a lattice step, a positive finite float, or raise."""
    exact = as_fraction(check_positive(step, name))
    # Rounding the step would make it another lattice than the user's.
    if exact != Fraction(float(exact)):
        raise ValueError(f"{name} must be exactly representable as a float.")
    return float(exact)


def power_of_two_below(value: float) -> float:
    """Return the largest power of two that is not above `value` > 0."""
    return math.ldexp(0.5, math.frexp(value)[1])


def default_step(scale: float, sensitivity: float, name: str) -> float:
    """Return the step of a lattice for values and noise, a power of two.

    At most 2^-30 of the noise scale and of the sensitivity, so that rounding 2^20 coordinates adds
    one part in 2^20 to the noise. But at least 2^-49 of the scale, so that the noise fits in 64
    bits; a sensitivity below 2^-18 scales then has fewer than 2^30 steps.
    """
    fine = math.ldexp(power_of_two_below(min(scale, sensitivity)), -30)
    step = max(fine, math.ldexp(power_of_two_below(scale), -48))
    # Far above the subnormal floats, so that multiples of up to 53 bits are exact floats.
    if step < math.ldexp(1.0, -1000):
        raise ValueError(f"{name} is too small for a lattice of floats.")
    if scale > math.ldexp(1.0, 1000):
        raise ValueError(f"{name} is too large: noise of its scale exceeds the floats.")
    return step


def integers_from(values: ArrayLike, name: str) -> tuple[list[int], tuple[int, ...]]:
    """Return array-like integers as Python ints (no overflow) and their shape.

    Raises
    ------
    ValueError
        When a floating-point input is not finite.
    TypeError
        When the values are not integers; booleans are refused.
    """
    refuse_masked(values, name)
    array = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    if array.dtype.kind in "iu":
        return array.ravel().tolist(), array.shape
    flat = array.ravel().tolist()
    kinds = set(map(type, flat))  # few, so that checks are fast
    if not kinds <= {int}:
        if any(isinstance(v, float | np.floating) and not math.isfinite(v) for v in flat):
            raise ValueError(f"{name} must be finite.")
        if any(issubclass(k, bool) or not issubclass(k, numbers.Integral) for k in kinds):
            raise TypeError(f"{name} must be integers.")
    return [int(value) for value in flat], array.shape


def integers_to(values: list[int], shape: tuple[int, ...]) -> int | NDArray[Any]:
    """Return Python ints as an int (shape ``()``) or an array of the given shape.

    The array is int64 when every value fits and holds Python ints (dtype object) otherwise.
    """
    if shape == ():
        return values[0]
    # The smallest int64 is left out, since its negative overflows.
    fits = all(-_INT64_MAX <= value <= _INT64_MAX for value in values)
    array = np.empty(len(values), dtype=np.int64 if fits else object)
    array[:] = values
    return array.reshape(shape)


def add_integers(values: ArrayLike, noise: NDArray[np.int64]) -> int | NDArray[Any]:
    """Return values + noise (flat, of the same size) without wrapping around."""
    if isinstance(values, np.ndarray) and values.dtype == np.int64 and values.ndim:
        # Halved first: the absolute value of the smallest int64 overflows.
        largest = int(np.max(np.abs(values // 2), initial=0)) + int(
            np.max(np.abs(noise // 2), initial=0)
        )
        if largest < 2**61:
            return np.asarray(values + noise.reshape(values.shape))
    integers, shape = integers_from(values, "values")
    return integers_to([v + n for v, n in zip(integers, noise.tolist(), strict=True)], shape)


def to_lattice(values: ArrayLike, step: float) -> int | NDArray[Any]:
    """Round real numbers toward zero to multiples of `step`, in units of `step`.

    The result q has ``abs(q) * step <= abs(values)`` exactly and elementwise. So a bound on a
    record (a box, an l1 or an l2 norm) still holds after rounding, and sums of rounded records are
    exact: round each record, then add.

    Parameters
    ----------
    values : float or array-like of float
        Finite values to round.
    step : float
        The public lattice step, > 0, in the units of `values`. A power of two is fastest.

    Returns
    -------
    int or ndarray of the shape of `values`
        int64, or Python ints (dtype object) when a result does not fit.

    Raises
    ------
    ValueError
        When a value is not finite. The message does not depend on the values.

    Examples
    --------
    >>> from skdpbo.mechanisms import to_lattice
    >>> to_lattice([0.74, -0.74, 0.75], 0.25).tolist()
    [2, -2, 3]
    """
    step = check_step(step, "step")
    array = _as_reals(values)
    if array.dtype == object:
        return _to_lattice_exactly(array, step)
    reals = array.astype(np.float64)
    # A warning could reveal protected values; what overflows is computed exactly below.
    with np.errstate(over="ignore", under="ignore"):
        quotients = reals / step
    if np.any(np.abs(quotients) >= _EXACT):
        return _to_lattice_exactly(reals.astype(object), step)
    units = np.asarray(np.trunc(quotients)).astype(np.int64)  # an array also of one number
    if math.frexp(step)[0] != 0.5:  # division by other steps than powers of two rounds
        # Only a quotient that was rounded up to an integer can be too large.
        for i in np.flatnonzero((quotients == units) & (units != 0)):
            units.flat[i] = int(Fraction(float(reals.flat[i])) / Fraction(step))
    return int(units) if array.ndim == 0 else units


def from_lattice(units: ArrayLike, step: float) -> float | NDArray[np.float64]:
    """Return ``units * step`` as floats, rounded to nearest; infinite where it overflows.

    Parameters
    ----------
    units : int or array-like of int
        Numbers of steps.
    step : float
        Lattice step, positive.

    Returns
    -------
    float or ndarray of the shape of `units`
        In the units of `step`.

    Examples
    --------
    >>> from skdpbo.mechanisms import from_lattice
    >>> from_lattice([2, -2, 3], 0.25).tolist()
    [0.5, -0.5, 0.75]
    """
    array, exact = np.asarray(units), check_positive(step, "step")
    if array.dtype.kind in "iu" and array.ndim:
        with np.errstate(over="ignore"):
            return np.asarray(array.astype(np.float64) * float(exact))
    integers, shape = integers_from(units, "units")
    reals = np.array([_float_nearest(n * Fraction(exact)) for n in integers], dtype=np.float64)
    return float(reals[0]) if shape == () else reals.reshape(shape)


def _as_reals(values: ArrayLike) -> NDArray[Any]:
    """Return finite real values as an array: float64 where it is exact, else dtype object."""
    refuse_masked(values, "values")
    array = np.asarray(values)
    if array.dtype.kind not in "fiuO":
        raise TypeError("values must be real numbers.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError("values must be finite.")
    if array.dtype.kind == "O":
        return array
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        return array.astype(np.float64)  # half precision cannot be compared with 2^53
    # Exact arithmetic is needed for long doubles and for integers beyond 2^53, which numpy may
    # round when it makes an array of a list.
    large = bool(np.any(array > 2**53)) or bool(np.any(array.astype(np.float64) < -(2.0**53)))
    if array.dtype.itemsize > 8 or (large and not isinstance(values, np.ndarray)):
        return np.array(values, dtype=object)
    return array.astype(object) if large and array.dtype.kind != "f" else array


def _to_lattice_exactly(array: NDArray[Any], step: float) -> int | NDArray[Any]:
    flat = array.ravel().tolist()
    if any(isinstance(value, bool) or not isinstance(value, numbers.Real) for value in flat):
        raise TypeError("values must be real numbers.")
    if any(isinstance(value, float | np.floating) and not np.isfinite(value) for value in flat):
        raise ValueError("values must be finite.")
    exact = Fraction(step)
    # int truncates toward zero, as the bound on a record needs.
    return integers_to([int(as_fraction(value) / exact) for value in flat], array.shape)


def _float_nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
