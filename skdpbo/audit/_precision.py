"""Precision audits: privacy loss through the last binary digits of released numbers."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from skdpbo.audit._likelihood import audit_samples
from skdpbo.audit._result import AuditResult
from skdpbo.privacy._checks import check_count, check_positive


def precision_audit(
    release: Any,
    data: Any,
    neighbour: Any,
    *,
    step: float | None = None,
    n_runs: int = 2000,
    delta: float = 0.0,
    false_alarm: float = 1e-6,
) -> AuditResult:
    """Bound the privacy loss of a release from the last binary digits of its numbers alone.

    Floating-point noise reaches only some numbers, and the reachable set depends on the value to
    which it is added (Mironov 2012). An audit of the size of outputs does not see this.

    Parameters
    ----------
    release : callable
        ``release(data)`` makes one release with fresh noise and returns a number.
    data, neighbour : object
        Two data sets that differ in one protected record.
    step : float, default=None
        Step of the claimed lattice, positive: the multiple of the step modulo 16 is compared, and a
        number off the lattice is a separate event. None: the position of the last nonzero binary
        digit is compared.
    n_runs : int, default=2000
        Runs on each data set, at least 4.
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
    Floating-point Laplace noise reveals a zero:

    >>> import numpy as np
    >>> from skdpbo.audit import precision_audit
    >>> # public randomness: the mechanism under attack
    >>> rng = np.random.default_rng(0)
    >>> precision_audit(lambda x: x + rng.laplace(), 0.0, 1.0, n_runs=1000).epsilon > 1
    True
    """
    outputs = [[float(release(each)) for _ in range(n_runs)] for each in (data, neighbour)]
    labels = [last_digits(each, step) for each in outputs]
    return audit_samples(*labels, delta=delta, false_alarm=false_alarm)


def last_digits(values: Any, step: float | None = None, modulus: int = 16) -> list[str]:
    """Label each number by its last nonzero binary digit, or by its place on a lattice.

    Parameters
    ----------
    values : array-like of float
        Released numbers.
    step : float, default=None
        Lattice step, positive.
    modulus : int, default=16
        Number of places on the lattice that are distinguished, at least 2.

    Returns
    -------
    labels : list of str
        One label for each number, in order.

    Examples
    --------
    >>> from skdpbo.audit import last_digits
    >>> last_digits([0.75, 3.0, 0.0])
    ['last digit 2^-2', 'last digit 2^0', '0.0']
    >>> last_digits([0.75, 0.8], step=0.25)
    ['place 3', 'off the lattice']
    """
    values = [float(value) for value in np.ravel(values)]
    check_count(modulus, "modulus", least=2)
    width = None if step is None else check_positive(step, "step")
    return [_label(value, width, modulus) for value in values]


def _label(value, step, modulus):
    if not math.isfinite(value):
        return str(value)
    if step is not None:
        units = Fraction(value) / Fraction(step)  # a float quotient would round to the lattice
        return f"place {int(units) % modulus}" if units.denominator == 1 else "off the lattice"
    if value == 0:
        return str(value)
    numerator, denominator = value.as_integer_ratio()
    # The denominator is a power of two, and the numerator is odd unless the denominator is 1.
    trailing = (numerator & -numerator).bit_length() - 1
    return f"last digit 2^{trailing - denominator.bit_length() + 1}"


def off_lattice(values: Any, step: float) -> int:
    """Count the numbers that are not a whole multiple of `step`, exactly.

    Parameters
    ----------
    values : array-like of float
        Released numbers.
    step : float
        Lattice step, positive.

    Returns
    -------
    count : int
        Number of values off the lattice.

    Examples
    --------
    >>> from skdpbo.audit import off_lattice
    >>> off_lattice([0.5, 1.0, 1.1], step=0.5)
    1
    """
    return sum(not label.startswith("place") for label in last_digits(values, step))
