"""Checks of single public values; errors name the parameter.

A check returns the value in a plain type. It raises a TypeError for a wrong type (booleans and
strings are not numbers) and a ValueError for a value out of range.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any

import numpy as np

from skdpbo.privacy._rounding import round_down, round_up

# A fit splits its mu among steps and shares, each of which then has at least about 2^-29.
_LEAST_MU = 2.0**-24
_MOST_MU = 2.0**20.5  # a count then has noise 2^-20, the least that a lattice of step 1 allows


def check_real(value: Any, name: str, must_be: str = "finite") -> float | Fraction:
    """Return a finite real number exactly: as an equal float, or as a Fraction.

    A Fraction is returned as it is.
    """
    if type(value) is float and math.isfinite(value):  # the common case, without slow ABC checks
        return value
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {type(value).__name__}.")
    if isinstance(value, Rational):
        exact = Fraction(int(value.numerator), int(value.denominator))
    elif not np.isfinite(np.longdouble(value)):  # a finite long double may overflow as a float
        raise ValueError(f"{name} must be {must_be}, got {value}.")
    elif isinstance(value, np.longdouble) and float(value) != value:
        exact = Fraction(*value.as_integer_ratio())
    else:
        return float(value)
    try:
        as_float = float(exact)
    except OverflowError:
        raise ValueError(f"{name} must be {must_be}, and not above the largest float.") from None
    return as_float if type(value) is not Fraction and as_float == exact else exact


def check_positive(value: Any, name: str) -> float | Fraction:
    """Return a positive finite real number without rounding it: an epsilon, a sensitivity."""
    real = check_real(value, name, "positive and finite")
    if real <= 0:
        raise ValueError(f"{name} must be positive and finite, got {value}.")
    return real


def check_within(value: Any, name: str, interval: str) -> float:
    """Return a finite float in an interval, given as text such as "[0, 1)" or "(0, inf)"."""
    real = check_real(value, name)
    low, high = map(float, interval[1:-1].split(","))
    # The rounded float is checked as well: a Fraction just below 1 rounds to 1.
    for number in (real, float(real)):
        above = low < number or (interval[0] == "[" and low == number)
        if not (above and (number < high or (interval[-1] == "]" and number == high))):
            raise ValueError(f"{name} must lie in {interval}, got {value}.")
    return float(real)


def check_count(value: Any, name: str, least: float = 1, most: int | None = None) -> int:
    """Return an integer from `least` to `most`."""
    # bool is an Integral.
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}.")
    count = int(value)
    if most is not None and not least <= count <= most:
        raise ValueError(f"{name} must lie in [{least}, {most}], got {count}.")
    if count < least:
        raise ValueError(f"{name} must be at least {least}, got {count}.")
    return count


def check_index(index: Any, size: int) -> int:
    """Return an integer that is a position among `size`, or raise an IndexError."""
    position = check_count(index, "index", least=-math.inf)
    if not 0 <= position < size:
        raise IndexError(f"index must be in [0, {size}), got {position}.")
    return position


def check_mu(mu: Any) -> float:
    """Return a Gaussian privacy parameter, a positive finite float; a Fraction is rounded up."""
    # Up: a guarantee may overstate a cost, never understate it.
    return round_up(check_positive(mu, "mu"))


def check_mu_of_fit(mu: float, least: float = _LEAST_MU) -> float:
    """Return the Gaussian budget of a fit, whose noise is neither negligible nor beyond 64 bits.

    Give ``least=0`` where the noise of each release is checked by itself.
    """
    if mu < least:
        raise ValueError(
            f"epsilon and delta are too small together: mu={mu:.2g}, and below {least:.2g} the "
            "noise needs more than 64 bits."
        )
    if mu > _MOST_MU:
        raise ValueError(
            f"epsilon is too large: mu={mu:.2g}, and above {_MOST_MU:.2g} there is no noise left."
        )
    return mu


def check_delta(delta: Any, name: str = "delta") -> float:
    """Return a failure probability, a float in [0, 1); a Fraction is rounded up."""
    real = check_real(delta, name)
    if not 0 <= real < 1 or round_up(real) >= 1:
        raise ValueError(f"{name} must lie in [0, 1), got {real}.")
    return round_up(real)


def check_positive_delta(delta: Any) -> float:
    """Return the delta of a budget, in (0, 1); a Fraction is rounded down."""
    if check_delta(delta) == 0:
        raise ValueError(
            "delta must be positive, such as 1e-5: Gaussian noise has no epsilon at delta=0."
        )
    # Down: a guarantee with a smaller delta implies this one.
    return round_down(check_real(delta, "delta"))


def check_flag(value: Any, name: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_choice(value: Any, name: str, choices: Collection[str]) -> str:
    """Return a string that is among the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {list(choices)}, got {value!r}.")
    return value


def check_text(text: Any, name: str) -> str:
    """Return a string that can be written to a file."""
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a string, got {type(text).__name__}.")
    try:  # lone surrogates have no form in UTF-8
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} must be text that can be written as UTF-8.") from None
    return text


def set_fields(instance: Any, **values: Any) -> None:
    """Set fields of a frozen data class, for its ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)
