"""Messages between curator and modeler: one strictly checked JSON object per line.

The modeler sends `Query`, the curator `Answer` or `Refusal`; the end of the stream ends the
conversation. A message has exactly the fields of its type; anything else is refused.

    {"version": 1, "type": "query", "step": 1, "row": 17}
    {"version": 1, "type": "answer", "step": 1, "row": 17, "y": 0.25}
    {"version": 1, "type": "refusal", "step": 2, "row": 17, "reason": "refused"}

The messages carry released values only: row numbers that the modeler chose, answers, and reasons
from a fixed list.
"""

import json
import math
import numbers
from dataclasses import dataclass, fields

_VERSION = 1
LONGEST_LINE = 1000  # characters; the longest valid message has about 120
_LARGEST_INTEGER = 2**53  # beyond it JSON readers of other languages round

REASONS = ("unknown row", "refused", "malformed message", "step out of order")


class ProtocolError(ValueError):
    """The other party sent an invalid message, or not the expected one."""


@dataclass(frozen=True)
class _Message:
    step: int | None  # None in a refusal alone
    row: int | None

    def __post_init__(self):
        """Refuse a step or row that is none; set both as Python's integers."""
        for name, least in (("step", 1), ("row", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Integral):
                raise ProtocolError(f"{name} must be an integer.")
            if not least <= value <= _LARGEST_INTEGER:
                raise ProtocolError(f"{name} must lie in [{least}, 2**53].")
            object.__setattr__(self, name, int(value))


@dataclass(frozen=True)
class Query(_Message):
    """The modeler asks for the answer of a row.

    Parameters
    ----------
    step : int
        Number of the query, >= 1, larger than that of every query before it.
    row : int
        Number of the row in the release, >= 0.
    """


@dataclass(frozen=True)
class Answer(_Message):
    """The curator's answer to a query.

    Parameters
    ----------
    step, row : int
        As in the query.
    y : float
        The answer, finite. It leaves the curator: public, or released with noise.
    """

    y: float

    def __post_init__(self):
        super().__post_init__()
        if isinstance(self.y, bool) or not isinstance(self.y, numbers.Real):
            raise ProtocolError("y must be a number.")
        if not math.isfinite(self.y):  # JSON has no NaN
            raise ProtocolError("y must be finite.")
        object.__setattr__(self, "y", float(self.y))


@dataclass(frozen=True)
class Refusal(_Message):
    """The curator does not answer a query.

    Parameters
    ----------
    step, row : int or None
        As in the query; None if it could not be read.
    reason : {"unknown row", "refused", "malformed message", "step out of order"}
        "refused": the limit of answers for the row, or for all rows together, is reached.
    """

    reason: str

    def __post_init__(self):
        if self.step is not None or self.row is not None:
            super().__post_init__()
        # From a fixed list: free text could quote values.
        if self.reason not in REASONS:
            raise ProtocolError(f"reason must be one of {list(REASONS)}.")


_TYPES = {"query": Query, "answer": Answer, "refusal": Refusal}
_NAMES = {kind: name for name, kind in _TYPES.items()}


def encode(message):
    r"""Return a message as one line of JSON, with its line feed.

    Parameters
    ----------
    message : Query, Answer or Refusal

    Returns
    -------
    str

    Examples
    --------
    >>> encode(Query(step=1, row=17))
    '{"version": 1, "type": "query", "step": 1, "row": 17}\n'
    """
    head = {"version": _VERSION, "type": _NAMES[type(message)]}
    return json.dumps(head | vars(message), allow_nan=False) + "\n"


def decode(line):
    """Return the message that a line holds.

    Parameters
    ----------
    line : str

    Returns
    -------
    Query, Answer or Refusal

    Raises
    ------
    ProtocolError
        When the line is not exactly one valid message.
    """
    # The line is not trusted: its length is bounded before it is parsed, and errors do not quote
    # it.
    if not isinstance(line, str) or len(line) > LONGEST_LINE:
        raise ProtocolError("a message is one line of text, of moderate length.")
    try:
        # Python's reader accepts NaN and repeated names; other readers may not. `int` raises for
        # the names of constants such as NaN.
        values = json.loads(line, object_pairs_hook=_without_repeats, parse_constant=int)
    except (ValueError, RecursionError):
        raise ProtocolError("a message must be one JSON object without repeated names.") from None
    if not isinstance(values, dict):
        raise ProtocolError("a message must be a JSON object.")
    version, name = values.pop("version", None), values.pop("type", None)
    if type(version) is not int or version != _VERSION:
        raise ProtocolError(f"the version of a message must be {_VERSION}.")
    kind = _TYPES.get(name) if isinstance(name, str) else None
    if kind is None or set(values) != {field.name for field in fields(kind)}:
        raise ProtocolError("a message must have the fields of its type and no others.")
    try:
        return kind(**values)
    except (TypeError, OverflowError):
        raise ProtocolError("a field of a message has the wrong type.") from None


def _without_repeats(pairs):
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("repeated name")
    return values
