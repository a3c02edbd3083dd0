"""Answers of a curator: values of rows, a limited number for each, exact or with Gaussian noise."""

import math
import numbers
import os
import threading
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from skdpbo._attempt import attempt
from skdpbo._isolation._isolated_calls import in_isolation
from skdpbo._parameters import check_bounds
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.privacy._checks import check_index, set_fields
from skdpbo.privacy._rounding import round_up_root
from skdpbo.privacy.ledger._process import PROCESS


def answer_sensitivity(low, high, answers_per_row):
    r"""Largest l2 change of all answers together when one record's y is replaced.

    Only the answers about its row change, at most `answers_per_row` of them, by at most
    high - low each: :math:`\sqrt{k} (high - low)`, whatever the number of answers in all.

    Parameters
    ----------
    low, high : float
        Public range of y, to which it is clipped.
    answers_per_row : int
        k.

    Returns
    -------
    float
        In the units of y, rounded up.
    """
    # Exact fractions: rounding the difference could understate the sensitivity.
    return round_up_root((Fraction(high) - Fraction(low)) ** 2 * answers_per_row)


@dataclass(frozen=True, kw_only=True)
class AnswerNoise:
    r"""Gaussian noise on every answer.

    Private: the y of every record, for data sets that differ in the y of one record. Theorem:
    all answers together are :math:`\mu`-Gaussian differentially private, however the rows are
    chosen. Imagine k noisy copies of every y made beforehand, a Gaussian mechanism of sensitivity
    `answer_sensitivity`: the curator then only looks answers up.

    Parameters
    ----------
    epsilon, delta : float
        Of all answers together.
    y_bounds : tuple (low, high)
        Public range of y. Values outside are clipped; anything but a finite number counts as the
        centre.
    answers_per_row : int
        k.

    Attributes
    ----------
    std : float
        Standard deviation of the noise of an answer, in the units of y.
    """

    epsilon: float
    delta: float
    y_bounds: tuple
    answers_per_row: int

    def __post_init__(self):
        low, high = (float(bound[0]) for bound in check_bounds(self.y_bounds, 1, "y_bounds"))
        set_fields(self, y_bounds=(low, high))
        mechanism = GaussianMechanism(
            epsilon=self.epsilon,
            delta=self.delta,
            sensitivity=answer_sensitivity(low, high, self.answers_per_row),
            n_draws=self.answers_per_row,  # number of coordinates that depend on one record
        )
        set_fields(self, _mechanism=mechanism, std=mechanism.sigma)

    @property
    def guarantee(self):
        """Guarantee of all answers together."""
        low, high = self.y_bounds
        return replace(
            self._mechanism.guarantee,
            neighbours=f"the y of one record replaced, within [{low:.6g}, {high:.6g}]",
            protects="answered values y",
            mechanism="Gaussian answers",
            assumptions=(
                "which rows are queried depends on what the curator released, and on nothing "
                "else of the records",
                "the range of y was chosen without looking at the records",
                "running time and memory use are not observed",
            ),
            reference="docs/theory/outsourced.md, Theorem 4",
        )

    def release(self, value, source):
        """Protected value: return it clipped, with noise."""
        low, high = self.y_bounds
        # Halved first: the sum of two bounds may overflow.
        value = value if math.isfinite(value) else low / 2 + high / 2
        return float(self._mechanism.release(min(max(value, low), high), source))


class AnswerBook:
    """The curator's values y, and how often each row was answered. Protected: it is not copied.

    Parameters
    ----------
    n_rows : int
    y : ndarray of shape (n_rows,) or None
        None: each value is given at its query.
    noise : AnswerNoise or None
        None: answers are exact.
    answers_per_row : int
    n_answers : int or None
        None for no limit but `answers_per_row`.
    """

    def __init__(self, n_rows, y, *, noise, answers_per_row, n_answers):
        self._y = y
        self._noise = noise
        self._answers_per_row = answers_per_row
        self._left = n_rows * answers_per_row if n_answers is None else n_answers
        self._counts = np.zeros(n_rows, dtype=np.int64)
        self._lock = threading.Lock()
        self._process = os.getpid(), PROCESS.token

    def answer(self, index, value, source):
        """Protected value: return the row's number and the value with noise, or as it is.

        Raises
        ------
        TypeError, IndexError
            When there is no such row, or an exact answer is no number.
        RuntimeError
            When the row, or all rows together, were answered as often as agreed, or in a fork.
        ValueError
            When there is no value (``...``), or one too many, or an exact answer is not finite.
        """
        # Parent and fork would each count to the limit. The token is compared as well, since
        # process ids repeat, and at once in another namespace.
        if (os.getpid(), PROCESS.token) != self._process:
            raise RuntimeError("A forked copy of a curator does not answer.")
        row = check_index(index, len(self._counts))
        if (value is ...) == (self._y is None):
            raise ValueError("Give a value exactly when y was not given to fit.")
        value = self._y[row] if value is ... else value
        kind = type(value)  # the attribute __class__ of a proxy may raise
        if self._noise is None and (kind is bool or not issubclass(kind, numbers.Real)):
            raise TypeError("value must be a number.")
        # Whether there is a noisy answer must not depend on the value.
        number, error = in_isolation(attempt, float, value)
        value = math.nan if error is not None else number
        if self._noise is None and not math.isfinite(value):
            raise ValueError("An exact answer must be finite.")
        with self._lock:  # counted first: an answer that fails stays counted
            if self._left < 1:
                raise RuntimeError("All answers that were agreed on have been given.")
            if self._counts[row] >= self._answers_per_row:
                times = "once" if self._answers_per_row == 1 else f"{self._answers_per_row} times"
                raise RuntimeError(f"Row {row} was answered {times}, as often as agreed.")
            self._counts[row] += 1
            self._left -= 1
        return row, value if self._noise is None else self._noise.release(value, source)

    def __reduce__(self):
        # Each copy would count by itself.
        raise TypeError("An AnswerBook is not copied or pickled: two copies answer twice.")
