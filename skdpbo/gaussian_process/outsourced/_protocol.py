"""Protocol loops of curator and modeler: in one process, or in two that exchange lines of text."""

from collections.abc import Callable
from typing import Any, TextIO

import numpy as np

from skdpbo.gaussian_process.outsourced._messages import (
    LONGEST_LINE,
    Answer,
    ProtocolError,
    Query,
    Refusal,
    decode,
    encode,
)
from skdpbo.gaussian_process.outsourced._modeler import LARGEST_ANSWER
from skdpbo.privacy._checks import check_count


def serve_answers(
    curator: Any,
    reader: TextIO,
    writer: TextIO,
    *,
    evaluate: Callable[..., float] | None = None,
) -> int:
    """Answer the queries of a modeler elsewhere until its stream ends.

    A query that cannot be answered is refused, with a reason that depends on the queries alone, and
    the service continues. Steps must increase, so that a repeated line is not answered twice.

    Parameters
    ----------
    curator : PrivateProjection
        Fitted; or any object with ``answer(row) -> float``, which raises IndexError for unknown
        rows and RuntimeError where no answer is left.
    reader : text stream
        From the modeler.
    writer : text stream
        To the modeler; flushed after each message.
    evaluate : callable, default=None
        ``evaluate(row) -> y``, if y was not given to the curator's `fit` but is measured when it is
        queried. It is not called for a query that is refused. Its errors end the service.

    Returns
    -------
    int
        Number of queries that were answered.

    Raises
    ------
    ProtocolError
        When a line is too long to be a message, or not text.
    """
    last, n_answered = 0, 0
    while (line := _read_line(reader)) is not None:
        reply = _reply(curator, line, last, evaluate)
        # Refused steps count as well.
        if reply.step is not None:
            last = max(last, reply.step)
        n_answered += isinstance(reply, Answer)
        try:
            _write(writer, reply)
        except ConnectionError:  # the modeler is gone; the answer counts as given
            break
    return n_answered


def run_queries(modeler: Any, n_iter: int, reader: TextIO, writer: TextIO) -> list[Answer]:
    """Optimise by asking a curator elsewhere.

    Parameters
    ----------
    modeler : GPUCBModeler
        Receives the answers as they come.
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
        If the curator refuses, sends anything but the expected answer, or closes the stream. The
        modeler has the answers until then.
    """
    answers = []
    for query in _queries(modeler, n_iter):
        try:
            _write(writer, query)
            line = _read_line(reader)
        except ConnectionError:
            line = None
        if line is None:
            raise ProtocolError(f"the curator ended the conversation at step {query.step}.")
        reply = decode(line)
        if isinstance(reply, Refusal):
            raise ProtocolError(f"the curator refused step {query.step}: {reply.reason}.")
        # An answer to another query would count for the wrong row.
        if not isinstance(reply, Answer) or (reply.step, reply.row) != (query.step, query.row):
            raise ProtocolError(f"what came is not the answer to step {query.step}.")
        if abs(reply.y) > LARGEST_ANSWER:
            raise ProtocolError(f"the answer to step {query.step} is too large to be used.")
        modeler.tell(reply.row, reply.y)
        answers.append(reply)
    return answers


def optimize(
    curator: Any,
    modeler: Any,
    n_iter: int,
    *,
    evaluate: Callable[..., float] | None = None,
) -> list[Answer]:
    """Let a modeler optimise by asking a curator in the same process.

    Parameters
    ----------
    curator : PrivateProjection
        Fitted; or any object with ``answer(row) -> float``.
    modeler : GPUCBModeler
        Modeler of the curator's release; receives the answers as they come.
    n_iter : int
        Number of queries, at most `modeler.n_remaining`.
    evaluate : callable, default=None
        As in `serve_answers`.

    Returns
    -------
    list of Answer
        The answers in order. The modeler's `best` says which row is the best.
    """
    release = getattr(curator, "release_", None)
    if release is not None and not np.array_equal(release.Z, modeler.release.Z):
        raise ValueError("the modeler has another release than the curator made.")
    answers = []
    for query in _queries(modeler, n_iter):
        measured: tuple[float, ...] = ()
        if evaluate is not None:
            # No measurement, which reads a protected record, for a refused query.
            if reason := _reason_to_refuse(curator, query.row):
                raise RuntimeError(f"the curator does not answer row {query.row}: {reason}.")
            measured = (evaluate(query.row),)
        reply = Answer(query.step, query.row, curator.answer(query.row, *measured))
        modeler.tell(reply.row, reply.y)
        answers.append(reply)
    return answers


def _queries(modeler, n_iter):
    """Yield the queries of a conversation; the modeler gets each answer before the next one."""
    check_count(n_iter, "n_iter")
    if n_iter > modeler.n_remaining:
        raise ValueError(
            f"n_iter={n_iter} is too many: the release allows {modeler.n_remaining} more answers."
        )
    for _ in range(n_iter):
        # By the number of answers: steps increase over several conversations as well.
        yield Query(len(modeler) + 1, modeler.ask())


def _reply(curator, line, last, evaluate):
    """Return the curator's reply to a line, `last` being the largest step so far."""
    try:
        query = decode(line)
    except ProtocolError:
        query = None
    if not isinstance(query, Query):
        return Refusal(None, None, "malformed message")
    if query.step <= last:
        return Refusal(query.step, query.row, "step out of order")
    if evaluate is not None and (reason := _reason_to_refuse(curator, query.row)):
        return Refusal(query.step, query.row, reason)
    # An error of `evaluate` ends the service: a refusal would reveal that it failed.
    measured = () if evaluate is None else (evaluate(query.row),)
    try:
        y = curator.answer(query.row, *measured)
    except IndexError:
        return Refusal(query.step, query.row, "unknown row")
    except RuntimeError:
        return Refusal(query.step, query.row, "refused")
    return Answer(query.step, query.row, y)


def _reason_to_refuse(curator, row):
    """Return the reason of a refusal, or None, from release and log before a measurement.

    Both are public, so the reason is.
    """
    release, given = curator.release_, [answered for answered, _ in curator.answers_]
    if row >= release.n_rows:
        return "unknown row"
    used_up = release.n_answers is not None and len(given) >= release.n_answers
    return "refused" if used_up or given.count(row) >= release.answers_per_row else None


def _read_line(stream):
    """Return the next line, or None at the end of the stream."""
    try:
        line = stream.readline(LONGEST_LINE + 1)  # one more character shows that it is too long
    except UnicodeDecodeError:
        raise ProtocolError("what came is not text.") from None
    if len(line) > LONGEST_LINE:
        raise ProtocolError("what came is too long to be a message.")
    return line or None


def _write(stream, message):
    stream.write(encode(message))
    stream.flush()
