"""What curator and modeler say to each other: one JSON object a line, checked strictly.

The modeler sends `Query`, the curator `Answer` or `Refusal`; the end of the stream ends the
conversation. Nothing else passes: a message has exactly its own fields, of exactly their types.

    {"version": 1, "type": "query", "step": 1, "row": 17}
    {"version": 1, "type": "answer", "step": 1, "row": 17, "y": 0.25}
    {"version": 1, "type": "refusal", "step": 2, "row": 17, "reason": "no answer left"}

The messages carry released values only: row numbers that the modeler chose, answers, and reasons
from a fixed list.
"""

import json
import math
import numbers
from dataclasses import dataclass, fields

import numpy as np

__all__ = [
    "Answer",
    "ProtocolError",
    "Query",
    "Refusal",
    "decode",
    "encode",
    "optimize",
    "run_queries",
    "serve_answers",
]

_VERSION = 1
_LONGEST_LINE = 1000  # characters; the longest valid message has about 120
_LARGEST_INTEGER = 2**53  # beyond it JSON readers of other languages round

REASONS = ("unknown row", "no answer left", "malformed message", "step out of order")


class ProtocolError(ValueError):
    """The other party sent something that is no valid message, or not the one that is due."""


@dataclass(frozen=True)
class Query:
    """The modeler asks for the answer of a row.

    Parameters
    ----------
    step : int
        Number of the query, >= 1, larger than that of every query before it.
    row : int
        Number of the row in the release, >= 0.
    """

    step: int
    row: int

    def __post_init__(self):
        _check_place(self)


@dataclass(frozen=True)
class Answer:
    """The curator's answer to a query.

    Parameters
    ----------
    step, row : int
        As in the query.
    y : float
        The answer, finite. It leaves the curator: public, or released with noise.
    """

    step: int
    row: int
    y: float

    def __post_init__(self):
        _check_place(self)
        if isinstance(self.y, bool) or not isinstance(self.y, numbers.Real):
            raise ProtocolError("y must be a number.")
        if not math.isfinite(self.y):
            raise ProtocolError("y must be finite.")
        object.__setattr__(self, "y", float(self.y))


@dataclass(frozen=True)
class Refusal:
    """The curator does not answer a query.

    Parameters
    ----------
    step, row : int or None
        As in the query; None where it could not be read.
    reason : {"unknown row", "no answer left", "malformed message", "step out of order"}
    """

    step: int | None
    row: int | None
    reason: str

    def __post_init__(self):
        if self.step is not None or self.row is not None:
            _check_place(self)
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
    if not isinstance(line, str) or len(line) > _LONGEST_LINE:
        raise ProtocolError("a message is one line of text, of moderate length.")
    try:
        values = json.loads(line, object_pairs_hook=_without_repeats, parse_constant=_no_constant)
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


def serve_answers(curator, reader, writer):
    """Answer the queries of a modeler elsewhere until its stream ends.

    What cannot be answered is refused, with a reason that depends on the queries alone, and the
    service goes on. A query is answered once: steps must increase, so that a line that arrives
    twice is not charged twice.

    Parameters
    ----------
    curator : PrivateProjection
        Fitted; or any object with ``answer(row) -> float``, which raises IndexError for unknown
        rows and RuntimeError where no answer is left.
    reader : text stream
        From the modeler.
    writer : text stream
        To the modeler; flushed after each message.

    Returns
    -------
    int
        How many queries were answered.

    Raises
    ------
    ProtocolError
        When a line is too long to be a message, or not text.
    """
    last, n_answered = 0, 0
    while (line := _read_line(reader)) is not None:
        reply = _reply(curator, line, last)
        if reply.step is not None:
            last = max(last, reply.step)
        n_answered += isinstance(reply, Answer)
        _write(writer, reply)
    return n_answered


def run_queries(modeler, n_iter, reader, writer):
    """Optimise by asking a curator elsewhere.

    Parameters
    ----------
    modeler : GPUCBModeler
        Told the answers as they come.
    n_iter : int
        Number of queries, at most `modeler.n_remaining`.
    reader : text stream
        From the curator.
    writer : text stream
        To the curator; flushed after each message. Close it to end the conversation.

    Returns
    -------
    list of Answer
        The answers in order.

    Raises
    ------
    ProtocolError
        When the curator refuses, says something else than the answer that is due, or hangs up.
        The answers until then have been told to the modeler.
    """

    def ask_elsewhere(query):
        _write(writer, query)
        line = _read_line(reader)
        if line is None:
            raise ProtocolError(f"the curator ended the conversation at step {query.step}.")
        reply = decode(line)
        if isinstance(reply, Refusal):
            raise ProtocolError(f"the curator refused step {query.step}: {reply.reason}.")
        if not isinstance(reply, Answer) or (reply.step, reply.row) != (query.step, query.row):
            raise ProtocolError(f"what came is not the answer to step {query.step}.")
        return reply

    return _run(modeler, n_iter, ask_elsewhere)


def optimize(curator, modeler, n_iter):
    """Let a modeler optimise by asking a curator in the same process.

    Parameters
    ----------
    curator : PrivateProjection
        Fitted; or any object with ``answer(row) -> float``.
    modeler : GPUCBModeler
        Of the curator's release; told the answers as they come.
    n_iter : int
        Number of queries, at most `modeler.n_remaining`.

    Returns
    -------
    list of Answer
        The answers in order. The modeler's `best` says which row is the best.
    """
    release = getattr(curator, "release_", None)
    if release is not None and not np.array_equal(release.Z, modeler.release.Z):
        raise ValueError("the modeler has another release than the curator made.")
    return _run(
        modeler,
        n_iter,
        lambda query: Answer(query.step, query.row, curator.answer(query.row)),
    )


def _run(modeler, n_iter, answer):
    if isinstance(n_iter, bool) or not isinstance(n_iter, numbers.Integral) or n_iter < 1:
        raise ValueError("n_iter must be a positive integer.")
    if n_iter > modeler.n_remaining:
        raise ValueError(f"the release allows {modeler.n_remaining} more answers, not {n_iter}.")
    answers = []
    for _ in range(n_iter):
        reply = answer(Query(len(modeler) + 1, modeler.ask()))
        modeler.tell(reply.row, reply.y)
        answers.append(reply)
    return answers


def _reply(curator, line, last):
    """Return the curator's reply to a line, `last` being the largest step so far."""
    try:
        query = decode(line)
    except ProtocolError:
        return Refusal(None, None, "malformed message")
    if not isinstance(query, Query):
        return Refusal(None, None, "malformed message")
    if query.step <= last:
        return Refusal(query.step, query.row, "step out of order")
    try:
        return Answer(query.step, query.row, curator.answer(query.row))
    except IndexError:
        return Refusal(query.step, query.row, "unknown row")
    except RuntimeError:
        return Refusal(query.step, query.row, "no answer left")


def _read_line(stream):
    """Return the next line, or None at the end of the stream."""
    try:
        line = stream.readline(_LONGEST_LINE + 1)
    except UnicodeDecodeError:
        raise ProtocolError("what came is not text.") from None
    if len(line) > _LONGEST_LINE:
        raise ProtocolError("what came is too long to be a message.")
    return line or None


def _write(stream, message):
    stream.write(encode(message))
    stream.flush()


def _check_place(message):
    """Refuse a step or row that is none; set both as Python's integers."""
    for name, least in (("step", 1), ("row", 0)):
        value = getattr(message, name)
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise ProtocolError(f"{name} must be an integer.")
        if not least <= value <= _LARGEST_INTEGER:
            raise ProtocolError(f"{name} must lie in [{least}, 2**53].")
        object.__setattr__(message, name, int(value))


def _without_repeats(pairs):
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("repeated name")
    return values


def _no_constant(name):
    raise ValueError(name)
