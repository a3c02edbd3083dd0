"""Sensitivity by brute force over replacements of a record, in exact arithmetic."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from skdpbo.audit._walk import as_array
from skdpbo.privacy._checks import check_choice, check_real


@dataclass(frozen=True, kw_only=True)
class SensitivityResult:
    """Largest observed change under replacement of one record.

    Parameters
    ----------
    largest : float
        Size of the change, in the norm of the audit.
    claimed : float
        Claimed sensitivity.
    violated : bool
        Whether `largest` exceeds `claimed`, decided in exact arithmetic.
    position : int
        Position of the replaced record; -1 if nothing changed.
    record : object
        Its replacement.
    n_neighbours : int
        Number of neighbours tried.

    Examples
    --------
    >>> from skdpbo.audit import sensitivity_audit
    >>> sensitivity_audit(sum, [1, 2, 3], [-5, 5], sensitivity=4).violated
    True
    """

    largest: float
    claimed: float
    violated: bool
    position: int = -1
    record: Any = None
    n_neighbours: int = 0


def sensitivity_audit(
    statistic: Callable[[Any], float],
    data: Any,
    records: Any,
    *,
    sensitivity: Any,
    norm: str = "l2",
) -> SensitivityResult:
    """Search for the largest change of a statistic, and compare it with a claimed sensitivity.

    Parameters
    ----------
    statistic : callable
        ``statistic(data)`` returns a finite number or an array of them, without noise. Integers of
        any size are compared exactly.
    data : sequence of records
        A list, or an array or data frame whose rows are records, given as an array; not modified.
    records : iterable
        Replacements, of a type that `data` can hold; each is tried at every position.
    sensitivity : int, float or Fraction
        Claimed sensitivity, at least 0, in the units of the statistic.
    norm : {"l1", "l2", "max"}, default="l2"
        Norm of the change.

    Returns
    -------
    result : SensitivityResult
        Largest change, the neighbour that attains it, and whether the claim is refuted.

    Examples
    --------
    A sum of values clipped to [-1, 1] moves by 2, not by 1, when a record is replaced:

    >>> import numpy as np
    >>> from skdpbo.audit import sensitivity_audit
    >>> def clipped_sum(rows):
    ...     return np.clip(rows, -1, 1).sum()
    >>> result = sensitivity_audit(clipped_sum, [0.0, 1.0], [-9.0, 9.0], sensitivity=1)
    >>> result.largest, result.violated
    (2.0, True)
    """
    check_choice(norm, "norm", ("l1", "l2", "max"))
    if type(sensitivity) not in (int, Fraction):  # these may be too large for a float
        sensitivity = check_real(sensitivity, "sensitivity")
    if sensitivity < 0:
        raise ValueError(f"sensitivity must be at least 0, got {sensitivity}.")
    # Copies, as a statistic may work in place.
    rows: Any = as_array(data)
    rows = rows if isinstance(rows, np.ndarray) else list(rows)
    before = _exact(statistic(copy.deepcopy(rows)))
    # Squares for the l2 norm, as a root could not be compared exactly.
    largest, found, n_neighbours = Fraction(0), (-1, None), 0
    for position, record in product(range(len(rows)), records):
        changed = copy.deepcopy(rows)
        changed[position] = copy.deepcopy(record)
        # Arrays of integers truncate fractions, and arrays of texts truncate longer ones.
        may_truncate = isinstance(rows, np.ndarray) and rows.dtype.kind in "biuUS"
        if may_truncate and not np.all(changed[position] == record):
            raise ValueError(f"a record of records does not fit data of type {rows.dtype}.")
        size = _size(before, _exact(statistic(changed)), norm)
        n_neighbours += 1
        if size > largest:
            largest, found = size, (position, record)
    power = 2 if norm == "l2" else 1
    return SensitivityResult(
        largest=_as_float(largest, power),
        claimed=_as_float(sensitivity),
        violated=largest > Fraction(sensitivity) ** power,  # exact: no root, no rounding
        position=found[0],
        record=found[1],
        n_neighbours=n_neighbours,
    )


def scorer_sensitivity_audit(
    scorer: Any, model: Any, X: Any, y: Any, records: Any
) -> SensitivityResult:
    """Check that one record moves the total loss of a scorer by at most its bound.

    The scorer receives all records at once, so that the audit also finds a loss that depends on
    other records.

    Parameters
    ----------
    scorer : PerRecordScorer
        Or any object with ``record_losses(model, X, y)``, which returns one integer for each
        record, and ``units``.
    model : fitted estimator
        Fitted model that predicts all records.
    X, y : sequence of n_samples records
        Rows and their targets.
    records : iterable of (x, target)
        Replacements of a record.

    Returns
    -------
    result : SensitivityResult
        In integer units: ``scorer.units`` is one loss bound.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> from skdpbo import make_per_record_scorer
    >>> from skdpbo.audit import scorer_sensitivity_audit
    >>> model = DummyRegressor().fit([[0.0]], [0.0])
    >>> scorer = make_per_record_scorer(lambda y, p: abs(y - p), bound=1.0)
    >>> rows, targets = [[0.0], [1.0]], [0.2, 0.4]
    >>> scorer_sensitivity_audit(scorer, model, rows, targets, [([0.0], 1e9)]).violated
    False
    """

    def total(pairs):
        rows, targets = ([pair[k] for pair in pairs] for k in (0, 1))
        losses = scorer.record_losses(model, rows, targets)
        return sum(int(loss) for loss in losses)

    pairs = list(zip(as_array(X), as_array(y), strict=True))
    return sensitivity_audit(total, pairs, records, sensitivity=scorer.units, norm="max")


def _exact(values):
    """Return numbers as fractions, exact for every integer and every float."""
    flat = np.asarray(values, dtype=object).ravel()
    values = (value.item() if isinstance(value, np.generic) else value for value in flat)
    # The item of a long double is a long double.
    return [
        Fraction(*v.as_integer_ratio()) if isinstance(v, np.longdouble) else Fraction(v)
        for v in values
    ]


def _size(before, after, norm):
    """Return the l1 norm, the maximum or the squared l2 norm of the change."""
    if len(before) != len(after):
        # No norm covers this: the length would be released without noise.
        raise ValueError("The statistic's length depends on the data.")
    changes = [abs(a - b) for a, b in zip(before, after, strict=True)]
    if norm == "max":
        return max(changes, default=Fraction(0))
    return sum((change**2 if norm == "l2" else change for change in changes), Fraction(0))


def _as_float(number, power=1):
    """Return a number, or its square root, as a float; inf beyond the largest one."""
    try:
        return float(number) ** (1 / power)
    except OverflowError:
        # The root may be a finite float even if the square is not.
        whole = math.isqrt(int(number)) if power == 2 else math.inf
        return float(whole) if whole < 2**1023 else math.inf
