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
    answers = _together(answer, skipped, missing)
    if answers is not None:
        return answers
    apart, bad = _apart(answer, skipped, missing)
    # A batch may fail for no single row, for instance where two row labels are equal.
    answers = _together(answer, bad, missing)
    return apart if answers is None else answers


def _together(answer, bad, missing):
    """Protected: answers for all rows but bad ones in one batch; None if there are none."""
    if bad.all():
        return None
    # The others are in their own places of a batch of the same size, so that a bad row does not
    # even move the rounding of the others. Any row will do in its place: the answer is overwritten.
    rows = np.where(bad, np.flatnonzero(~bad)[0], np.arange(len(bad)))
    # The error is dropped at once: held by a frame it would be in tracebacks of later ones.
    answers = attempt(answer, rows)[0]
    if answers is not None and bad.any():
        answers = np.array(answers)  # its own may be kept, or read-only
        answers[bad] = missing
    return answers


def _apart(answer, skipped, missing):
    """Protected: answers for ever smaller batches, by bisection, and the rows that have none."""
    answers = np.repeat([missing], len(skipped), axis=0)
    bad = skipped.copy()
    # In halves: one bad row among n costs about 2 log2(n) batches.
    pending = [np.flatnonzero(~skipped)]
    while pending:
        rows = pending.pop()
        if len(rows) == 0:
            continue
        found = attempt(answer, rows)[0]
        if found is not None:
            answers[rows] = found
        elif len(rows) == 1:
            bad[rows] = True
        else:
            pending += [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    return answers, bad
