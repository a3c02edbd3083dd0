"""Answers of user code for protected rows, some of which may make it raise."""

import numpy as np

from skdpbo._attempt import attempt


def answers_by_row(answer, skipped, missing):
    """Protected: return what user code answers for each row. Call in isolation.

    Parameters
    ----------
    answer : callable
        ``answer(rows)`` returns an array with one entry for each of some positions, or raises. It
        shows copies of the rows.
    skipped : ndarray of shape (n,), dtype bool
        Rows that are not shown.
    missing : int or ndarray
        Entry of a row that is skipped, or for which alone it raises.

    Returns
    -------
    answers : ndarray of shape (n, ...)
        Entry i depends on row i alone, provided that `answer` answers for each row by itself.
    """
    everything = np.arange(len(skipped))
    answers = _together(answer, everything, skipped, missing)
    if answers is not None:
        return answers
    bad = _apart(answer, skipped)
    answers = _together(answer, everything, bad, missing)
    return _in_halves(answer, bad, missing) if answers is None else answers


def _together(answer, rows, bad, missing):
    """Protected: answers for rows in one batch, of which some are bad; None if there are none."""
    if bad.all():
        return None
    # The others are in their own places of a batch of the same size, so that a bad row does not
    # even move the rounding of the others. Any row will do in its place: the answer is overwritten.
    shown = np.where(bad, rows[~bad][0], rows)
    # The error is dropped at once: held by a frame it would be in tracebacks of later ones.
    answers = attempt(answer, shown)[0]
    if answers is not None and bad.any():
        answers = np.array(answers)  # its own may be kept, or read-only
        answers[bad] = missing
    return answers


def _apart(answer, skipped):
    """Protected: mark the rows that are skipped, and those for which alone it raises."""
    bad = skipped.copy()
    # In halves: one bad row among n costs about 2 log2(n) batches.
    pending = [np.flatnonzero(~skipped)]
    while pending:
        rows = pending.pop()
        if len(rows) == 0 or attempt(answer, rows)[0] is not None:
            continue
        elif len(rows) == 1:
            bad[rows] = True
        else:
            pending += _halves(rows)
    return bad


def _in_halves(answer, bad, missing):
    """Protected: answers in ever smaller batches, of fixed rows.

    A batch may fail for no single row: one of too many rows, or where two row labels are equal.
    """
    answers = np.repeat([missing], len(bad), axis=0)
    pending = _halves(np.arange(len(bad)))
    while pending:
        rows = pending.pop()
        found = _together(answer, rows, bad[rows], missing)
        if found is not None:
            answers[rows] = found
        elif len(rows) > 1 and not bad[rows].all():
            pending += _halves(rows)
    return answers


def _halves(rows):
    return [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
