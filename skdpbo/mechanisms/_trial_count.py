"""Exact draws of the secret number of trials of private selection."""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from skdpbo.mechanisms._sampling import ExactSampler
from skdpbo.mechanisms._source import RandomSource
from skdpbo.privacy import TrialLaw
from skdpbo.privacy._checks import check_count

# Binary digits of the uniform number in the first comparison; more are drawn while undecided.
_DIGITS = 128


def draw_trials(
    law: TrialLaw, *, max_trials: int | None = None, source: RandomSource | None = None
) -> int:
    r"""Draw K from a truncated negative binomial law, exactly.

    K must stay secret, and so must everything that reveals it: private selection has no guarantee
    once K is known.

    Parameters
    ----------
    law : TrialLaw
        Its parameters are read as exact fractions; gamma of a geometric law is exactly 1 / mean.
    max_trials : int, default=None
        At least 1. If given, min(K, max_trials) is returned; `selection_guarantee` takes the same
        parameter and charges for the difference. Recommended for eta < 0: these laws have long
        tails and the time of a draw grows with K.
    source : RandomSource, default=None
        None reads the operating system's generator.

    Returns
    -------
    int
        At least 1.

    Notes
    -----
    The law is exact, so no statistical distance is charged. A geometric K counts trials
    until a Bernoulli(gamma) success. Otherwise K is the smallest k with U < P(K <= k), U uniform
    on [0, 1), known by its first binary digits; the distribution function is enclosed between
    two integers, and where the comparison is undecided both are made more precise. The running
    time reveals K and is not protected.

    Examples
    --------
    >>> from skdpbo.mechanisms import draw_trials
    >>> from skdpbo.privacy import TrialLaw
    >>> draw_trials(TrialLaw(30), max_trials=500) <= 500
    True
    """
    if not isinstance(law, TrialLaw):
        raise TypeError(f"law must be a TrialLaw, got {type(law).__name__}.")
    last = math.inf if max_trials is None else check_count(max_trials, "max_trials")
    sampler, gamma = ExactSampler(source), law.exact_gamma
    # Always one trial. P(K = 1) would be 0 / 0 below, for eta other than 1.
    if gamma == 1:
        return 1
    if law.eta == 1:
        k = 1
        # The geometric law: exact Bernoulli trials of the rational gamma.
        while k < last and sampler.below(gamma.denominator) >= gamma.numerator:
            k += 1
        return k
    uniform, digits = sampler.bits(_DIGITS), _DIGITS
    while (inverse := _compare(uniform, digits, gamma, Fraction(law.eta), last)) is None:
        # Further digits of the same number: a new number would favour easy comparisons.
        uniform = (uniform << digits) | sampler.bits(digits)
        digits *= 2
    return inverse


def _compare(uniform: int, digits: int, gamma: Fraction, eta: Fraction, last: float) -> int | None:
    """Return the smallest k <= last with U < P(K <= k) for U in [uniform, uniform + 1) / 2^digits.

    None where these digits or the enclosing integers do not decide.
    """
    low, high = _first_probability(digits, gamma, eta)
    below, above = low, high  # of 2^digits P(K <= k)
    k, keep, whole = 1, 1 - gamma, eta.denominator
    while k < last:
        if uniform + 1 <= below:
            return k
        if uniform < above:
            return None
        # P(K = k + 1) = P(K = k) (1 - gamma) (k + eta) / (k + 1)
        numerator = keep.numerator * (k * whole + eta.numerator)
        denominator = keep.denominator * whole * (k + 1)
        # Each bound rounded outward, so that the true value stays enclosed.
        low, high = low * numerator // denominator, -(-high * numerator // denominator)
        below, above, k = below + low, above + high, k + 1
    return k


def _first_probability(digits: int, gamma: Fraction, eta: Fraction) -> tuple[int, int]:
    """Return integers that enclose 2^digits P(K = 1) = 2^digits eta (1 - gamma) / (gamma^-eta - 1).

    Python's decimal logarithm and exponential are correctly rounded. The working precision adds
    the digits lost by subtractions near zero, and 40 digits beyond the stated error.
    """
    near_zero = min(1 - gamma, abs(eta) or Fraction(1))
    lost = 2 * max(0, math.ceil(-math.log10(near_zero)))
    # All fields are given: defaults come from ``decimal.DefaultContext``, which a caller may
    # change.
    context = Context(
        prec=digits // 3 + 60 + lost,
        rounding=ROUND_HALF_EVEN,
        Emin=MIN_EMIN,
        Emax=MAX_EMAX,
        clamp=0,
        traps=[],
    )
    g = context.divide(Decimal(gamma.numerator), Decimal(gamma.denominator))
    minus_log = context.ln(g).copy_negate()
    if eta == 0:  # the limit: gamma^-eta - 1 is eta log(1 / gamma) to first order
        p = context.divide(context.subtract(Decimal(1), g), minus_log)
    else:
        e = context.divide(Decimal(eta.numerator), Decimal(eta.denominator))
        power = context.exp(context.multiply(e, minus_log))
        numerator = context.multiply(e, context.subtract(Decimal(1), g))
        p = context.divide(numerator, context.subtract(power, Decimal(1)))
    scaled = Fraction(p) * 2**digits
    error = abs(scaled) / 10 ** (digits // 3 + 20)
    return max(0, math.floor(scaled - error)), math.ceil(scaled + error)
