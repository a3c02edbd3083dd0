"""Privacy profiles delta(epsilon) in log space, and roots rounded to the private side.

Nothing here subtracts nearly equal numbers or forms exp(epsilon), so that deltas far below the
smallest float have a finite logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
# 2 (2k - 1)!! (-1)^(k+1) / sqrt(pi): coefficients in powers of 1/(2 t^2), k = 1, 2, ...
_TAIL = np.cumprod([1.0] + [-(2.0 * k - 1) for k in range(2, 19)]) * 2 / math.sqrt(math.pi)


def with_error(log_delta: float, mu: float = 0.0) -> float:
    """Log delta plus a bound on its rounding error, at least twice the largest measured.

    The last term is the cancellation in epsilon / mu - mu / 2; it matters beyond mu = 1000.
    """
    size = min(abs(log_delta), 1e9)
    return log_delta + 2e-13 + 8e-15 * size + 4e-16 * mu * math.sqrt(size)


def log_sum_exp(terms: Array) -> float:
    """Log of the sum of exp(terms), of shape (n,), n > 0; bit for bit that of SciPy 1.15 or newer.

    Calibrations call it thousands of times; SciPy's `logsumexp` takes up to ten times as long.
    """
    largest = terms.max()
    if not math.isfinite(largest):
        return float(largest)
    top = terms == largest
    n_top = np.count_nonzero(top)
    with np.errstate(under="ignore"):
        rest = np.exp(np.where(top, -np.inf, terms - largest)).sum()
    return float(np.log1p(rest / n_top) + np.log(n_top) + largest)


def log_gaussian_delta(mu: float, epsilon: Array | float) -> Array:
    """Log delta of mu-GDP at any real epsilon (array of any shape), mu > 0; at most 0.

    Its error, of either sign, is at most 2e-13 + 8e-15 abs(log delta) for mu in [1e-6, 1e3].
    Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2022), Corollary 2.13.
    """
    with np.errstate(over="ignore", divide="ignore", under="ignore", invalid="ignore"):
        log_positive = _log_gaussian_delta_positive(mu, np.abs(epsilon))
        # delta(-x) = (1 - e^-x) + e^-x delta(x): a sum of positive terms.
        x = np.maximum(-epsilon, 0.0)
        log_negative = np.log(-np.expm1(-x) + np.exp(log_positive - x))
    return np.minimum(np.where(epsilon >= 0, log_positive, log_negative), 0.0)


def upper_log_gaussian_delta(mu: float, epsilon: Array) -> Array:
    """Log delta of mu-GDP plus a bound on its rounding error, see `with_error`; at most 0."""
    log_delta = log_gaussian_delta(mu, epsilon)
    size = np.minimum(np.abs(log_delta), 1e9)
    error = 2e-13 + 8e-15 * size + 4e-16 * mu * np.sqrt(size)
    bound: Array = np.minimum(log_delta + error, 0.0)
    return bound


def _log_gaussian_delta_positive(mu: float, epsilon: Array) -> Array:
    x = (epsilon / mu - mu / 2) / math.sqrt(2)
    width = mu / math.sqrt(2)
    if width < 0.5:
        # erfcx(x) - erfcx(x + width) as an integral, which does not cancel for small mu; on so
        # short an interval 12 nodes are exact up to rounding.
        half = width / 2
        t = x[..., None] + half * (1 + _NODES)
        difference = half * (_minus_erfcx_slope(t) @ _WEIGHTS)
        return -(x**2) + np.log(difference / 2)
    # erfcx is erfc(x) e^(x^2): delta = e^(-x^2) (erfcx(x) - erfcx(x + width)) / 2.
    from_erfcx = -(x**2) + np.log((erfcx(x) - erfcx(x + width)) / 2)
    # erfcx overflows at -26; from -20 on the second term is below e^-400 of the first.
    log_delta: Array = np.where(x > -20, from_erfcx, log_ndtr(-math.sqrt(2) * x))
    return log_delta


def _minus_erfcx_slope(t: Array) -> Array:
    """Minus the derivative of erfcx: 2/sqrt(pi) - 2 t erfcx(t), without cancellation."""
    direct: Array = 2 / math.sqrt(math.pi) - 2 * t * erfcx(t)
    if np.all(t <= 8):
        return direct
    u = 1 / (2 * np.maximum(t, 8.0) ** 2)
    # From t = 8 on the last term of the series is below 4e-16 of the first.
    series = u * np.polynomial.polynomial.polyval(u, _TAIL)
    return np.where(t > 8, series, direct)


def log_zcdp_delta(rho: float, epsilon: float) -> float:
    """Log delta of rho-zCDP at epsilon >= 0 (Canonne, Kamath and Steinke 2020, Corollary 13).

    min over b = alpha - 1 > 0 of b ((b + 1) rho - epsilon) - b log(1 + 1/b) - log(1 + b). Every b
    gives a valid delta, so an inexact minimiser costs tightness only.
    """

    def slope(log_b: float) -> float:
        b = math.exp(log_b)
        return (2 * b + 1) * rho - epsilon - math.log1p(1 / b)

    # Start near the root, where 2 b rho = epsilon; e^700 is still a float.
    low = high = min(math.log(max(epsilon, 1e-3) / 2) - math.log(rho), 700.0)
    while slope(low) > 0 and low > -700:
        low = max(low - 2.0, -700.0)
    while slope(high) < 0 and high < 700:
        high = min(high + 2.0, 700.0)
    inside = slope(low) < 0 < slope(high)
    b = math.exp(brentq(slope, low, high, xtol=1e-13) if inside else low)
    return min(0.0, b * ((b + 1) * rho - epsilon) - b * math.log1p(1 / b) - math.log1p(b))


def private_root(
    log_delta: Callable[[float], float],
    log_target: float,
    *,
    guess: float,
    safe_side: int,
    slack: float,
) -> float:
    """Positive x closest to the root of log_delta(x) = log_target, on its private side.

    Parameters
    ----------
    log_delta : callable
        Upper bound on a log delta, decreasing if `safe_side` is 1 (x is an epsilon), increasing
        if it is -1 (x is a mu or a rho).
    log_target : float
        Largest log_delta(x) allowed.
    guess : float
        Start of the search, positive.
    safe_side : {1, -1}
        Whether the private values lie above or below the root.
    slack : float
        The result is moved by at least this relative amount to the private side.
    """

    def excess(x: float) -> float:
        # Finite, so that brentq can interpolate.
        return max(log_delta(x) - log_target, -1e9)

    # First a private value by doubling or halving, then one that is not: a bracket.
    factor = 2.0**safe_side
    safe = guess
    while excess(safe) > 0 and 1e-300 < safe < 1e300:
        safe *= factor
    if not 1e-300 < safe < 1e300:
        raise ValueError(
            "No finite positive privacy parameter meets the target: epsilon, delta or mu is too "
            "small or too large."
        )
    unsafe = safe / factor
    while excess(unsafe) <= 0:
        safe, unsafe = unsafe, unsafe / factor
        if not 1e-300 < unsafe < 1e300:
            # Private at every magnitude of a float: there is no root.
            return safe
    # In logarithms: the root may be of any magnitude.
    bracket = sorted((math.log(safe), math.log(unsafe)))
    root = math.exp(brentq(lambda t: excess(math.exp(t)), *bracket, xtol=1e-15, rtol=1e-15))
    # The root is inexact: only a value at which the bound itself holds is returned.
    while True:
        x = root * (1 + safe_side * slack)
        if excess(x) <= 0:
            return x
        slack *= 2
