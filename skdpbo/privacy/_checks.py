"""Checks of privacy parameters: what cannot be promised is refused here, by name."""

import math
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any

import numpy as np


def round_up(value: Fraction | float) -> float:
    """Smallest float that is not below `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def round_down(value: Fraction | float) -> float:
    """Largest float that is not above the positive `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, 0.0)


def _check_real(value: Any, name: str) -> float | Fraction:
    """Return `value` without any rounding: a float where one is equal to it, else a Fraction.

    Booleans and strings are refused, numpy scalars accepted.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {type(value).__name__}.")
    if isinstance(value, Fraction):
        exact: float | Fraction = value
    elif isinstance(value, Integral | Rational):
        exact = Fraction(int(value.numerator), int(value.denominator))
    elif not np.isfinite(np.longdouble(value)):
        raise ValueError(f"{name} must be finite, got {value}.")
    elif isinstance(value, np.longdouble) and float(value) != value:
        exact = Fraction(*value.as_integer_ratio())
    else:
        return float(value)
    try:
        as_float = float(exact)
    except OverflowError:
        raise ValueError(f"{name} must be below the largest float.") from None
    return as_float if type(value) is not Fraction and as_float == exact else exact


def _check_positive(value: Any, name: str) -> float | Fraction:
    real = _check_real(value, name)
    if real <= 0:
        raise ValueError(f"{name} must be positive, got {real}.")
    return real


def check_epsilon(epsilon: Any, name: str = "epsilon") -> float | Fraction:
    """Return a privacy loss bound, a positive finite real number, without rounding it.

    Parameters
    ----------
    epsilon : int, float, Fraction or numpy scalar
        The value to check, in nats.
    name : str, default="epsilon"
        What to call it in an error message.

    Returns
    -------
    float or Fraction
        Equal to the input. A Fraction stays a Fraction.

    Raises
    ------
    TypeError
        If it is not a real number; a boolean is not one.
    ValueError
        If it is not positive and finite.
    """
    return _check_positive(epsilon, name)


def check_mu(mu: Any, name: str = "mu") -> float:
    """Return a Gaussian privacy parameter, a positive finite float, rounded up if need be.

    Parameters
    ----------
    mu : int, float, Fraction or numpy scalar
        The value to check.
    name : str, default="mu"
        What to call it in an error message.

    Returns
    -------
    float
        Equal to the input, or the next float above it.

    Raises
    ------
    TypeError
        If it is not a real number; a boolean is not one.
    ValueError
        If it is not positive and finite.
    """
    return round_up(_check_positive(mu, name))


def check_rho(rho: Any, name: str = "rho") -> float:
    """Return a zero-concentrated privacy parameter, a positive finite float.

    Parameters
    ----------
    rho : int, float, Fraction or numpy scalar
        The value to check.
    name : str, default="rho"
        What to call it in an error message.

    Returns
    -------
    float
        Equal to the input, or the next float above it.

    Raises
    ------
    TypeError
        If it is not a real number; a boolean is not one.
    ValueError
        If it is not positive and finite.
    """
    return round_up(_check_positive(rho, name))


def check_sensitivity(sensitivity: Any, name: str = "sensitivity") -> float | Fraction:
    """Return a sensitivity, a positive finite real number, without rounding it.

    The sensitivity is the largest change of a quantity when one protected record is replaced, in
    the units of that quantity.

    Parameters
    ----------
    sensitivity : int, float, Fraction or numpy scalar
        The value to check.
    name : str, default="sensitivity"
        What to call it in an error message.

    Returns
    -------
    float or Fraction
        Equal to the input.

    Raises
    ------
    TypeError
        If it is not a real number; a boolean is not one.
    ValueError
        If it is not positive and finite.
    """
    return _check_positive(sensitivity, name)


def check_delta(delta: Any, name: str = "delta") -> float:
    """Return a failure probability, a float in [0, 1), rounded up if need be.

    Parameters
    ----------
    delta : int, float, Fraction or numpy scalar
        The value to check.
    name : str, default="delta"
        What to call it in an error message.

    Returns
    -------
    float
        Equal to the input, or the next float above it.

    Raises
    ------
    TypeError
        If it is not a real number; a boolean is not one.
    ValueError
        If it does not lie in [0, 1).
    """
    real = _check_real(delta, name)
    if not 0 <= real < 1 or round_up(real) >= 1:
        raise ValueError(f"{name} must lie in [0, 1), got {real}.")
    return round_up(real)


def check_positive_delta(delta: Any, name: str = "delta") -> float:
    """Return a delta to be met, in (0, 1), rounded down if need be."""
    if check_delta(delta, name) == 0:
        raise ValueError(f"{name} must be positive here: no finite value holds with {name}=0.")
    return round_down(_check_real(delta, name))


def check_text(text: str, name: str) -> str:
    """Return a string that can be written to a file."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a string, got {type(text).__name__}.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} must be text that can be written as UTF-8.") from None
    return text
