"""Answers of user code (such as predictions) for protected rows, some of which make it raise."""

import numpy as np

from skdpbo._attempt import attempt


def answers_by_row(answer, skipped, missing):
    """Protected: return what user code answers for each row. Call in isolation.

    Parameters
    ----------
    answer : callable
        ``answer(positions)`` passes copies of these rows to user code and returns an array with one
        entry per position, or raises.
    skipped : ndarray of shape (n,), dtype bool
        Rows that are not passed to user code.
    missing : int or ndarray
        Entry of a skipped row, and of a row that makes `answer` raise by itself.

    Returns
    -------
    answers : ndarray of shape (n, ...)
        Entry i depends on row i alone, provided that `answer` treats rows independently.
    """
    everything = np.arange(len(skipped))
    answers = _in_one_batch(answer, everything, skipped, missing)
    if answers is not None:
        return answers
    bad = _failing_rows(answer, skipped)
    answers = _in_one_batch(answer, everything, bad, missing)
    return _in_halves(answer, bad, missing) if answers is None else answers


def _in_one_batch(answer, rows, bad, missing):
    """Protected: answers for a batch of rows, some of them bad; None if it fails."""
    if bad.all():
        return None
    # A good row takes the place of each bad one, whose answer is overwritten: size of the batch and
    # places are kept, so that bad rows do not affect the rounding of the others.
    shown = np.where(bad, rows[~bad][0], rows)
    # The error is not bound to a name: it would be in the tracebacks of later errors.
    answers = attempt(answer, shown)[0]
    if answers is not None and bad.any():
        answers = np.array(answers)  # the original may be kept by user code, or read-only
        answers[bad] = missing
    return answers


def _failing_rows(answer, skipped):
    """Protected: mark the rows that are skipped or make `answer` raise by themselves."""
    bad = skipped.copy()
    # By bisection: one bad row among n costs about 2 log2(n) batches.
    pending = [np.flatnonzero(~skipped)]
    while pending:
        rows = pending.pop()
        if len(rows) == 0 or attempt(answer, rows)[0] is not None:
            continue
        if len(rows) == 1:
            bad[rows] = True
        else:
            pending += _halves(rows)
    return bad


def _in_halves(answer, bad, missing):
    """Protected: answers in batches of halves, quarters, ... of the rows.

    A batch may fail although no single row does: one of too many rows, or with equal row labels.
    """
    answers = np.repeat([missing], len(bad), axis=0)
    pending = _halves(np.arange(len(bad)))
    while pending:
        rows = pending.pop()
        found = _in_one_batch(answer, rows, bad[rows], missing)
        if found is not None:
            answers[rows] = found
        elif len(rows) > 1 and not bad[rows].all():
            pending += _halves(rows)
    return answers


def _halves(rows):
    return [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
