"""Precision audits: what the last digits of a released number tell about what it was made of."""

import math
from fractions import Fraction

import numpy as np

from ._likelihood import audit_samples

__all__ = ["last_digits", "off_lattice", "precision_audit"]


def precision_audit(
    release, data, neighbour, *, step=None, n_runs=2000, delta=0.0, false_alarm=1e-6
):
    """Bound the privacy loss of a release from the last binary digits of its numbers alone.

    Noise in floating point can only reach some of the numbers, and which ones depends on the value
    that it is added to. The usual audit, which looks at the size of outputs, does not see that.

    Parameters
    ----------
    release : callable
        ``release(data)`` makes one release with fresh noise and returns a number.
    data, neighbour : object
        Two data sets that differ in one protected record.
    step : float, default=None
        If given, the lattice that the numbers are said to lie on: the last digits are those of
        the multiple, and a number off the lattice is an event of its own. None: the position of
        the last nonzero binary digit is looked at.
    n_runs : int, default=2000
        Runs on each data set.
    delta, false_alarm : float
        As in `likelihood_ratio_audit`.

    Returns
    -------
    result : AuditResult
        Its epsilon is close to 0 for a release whose last digits are noise.

    References
    ----------
    I. Mironov, On significance of the least significant bits for differential privacy, CCS 2012.

    Examples
    --------
    The usual Laplace noise betrays a zero:

    >>> import numpy as np
    >>> from skdpbo.audit import precision_audit
    >>> # public randomness: the mechanism that is attacked, not one of ours
    >>> rng = np.random.default_rng(0)
    >>> precision_audit(lambda x: x + rng.laplace(), 0.0, 1.0, n_runs=1000).epsilon > 1
    True
    """
    outputs = [[float(release(each)) for _ in range(n_runs)] for each in (data, neighbour)]
    labels = [last_digits(each, step) for each in outputs]
    return audit_samples(*labels, delta=delta, false_alarm=false_alarm)


def last_digits(values, step=None, modulus=16):
    """Say of each number where its last nonzero binary digit is, or its place on a lattice.

    Parameters
    ----------
    values : array-like of float
        Released numbers.
    step : float, default=None
        Of the lattice, positive.
    modulus : int, default=16
        How many places are told apart.

    Returns
    -------
    labels : list of str
        One for each number, in order.

    Examples
    --------
    >>> from skdpbo.audit import last_digits
    >>> last_digits([0.75, 3.0, 0.0])
    ['last digit 2^-2', 'last digit 2^0', '0.0']
    >>> last_digits([0.75, 0.8], step=0.25)
    ['place 3', 'off the lattice']
    """
    values = [float(value) for value in np.ravel(values)]
    return [_last_digit(v) if step is None else _place(v, step, modulus) for v in values]


def _last_digit(value):
    if value == 0 or not math.isfinite(value):
        return str(value)
    numerator, denominator = value.as_integer_ratio()
    # One of the two is odd, and the other a power of two times what is odd.
    trailing = (numerator & -numerator).bit_length() - 1
    return f"last digit 2^{trailing - denominator.bit_length() + 1}"


def _place(value, step, modulus):
    if not math.isfinite(value):
        return str(value)
    units = Fraction(value) / Fraction(step)
    return f"place {int(units) % modulus}" if units.denominator == 1 else "off the lattice"


def off_lattice(values, step):
    """Count the numbers that are not a whole multiple of `step`, exactly.

    Parameters
    ----------
    values : array-like of float
        Released numbers.
    step : float
        Of the lattice, positive.

    Returns
    -------
    count : int
        0 if all lie on the lattice.

    Examples
    --------
    >>> from skdpbo.audit import off_lattice
    >>> off_lattice([0.5, 1.0, 1.1], step=0.5)
    1
    """
    return sum(not label.startswith("place") for label in last_digits(values, step))
