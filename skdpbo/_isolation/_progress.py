"""Progress of work on protected rows: lines that depend on public numbers alone."""

import sys
import threading
from contextlib import suppress

__all__ = ["Progress"]

_PARTS = 4  # lines with verbose=1


class Progress:
    """Lines about tasks whose number is public; estimators' own output stays suppressed.

    The lines are the same whichever task ends first and however many end at once: joblib forms
    batches by the time that tasks take, which depends on protected rows. No time is shown.

    Parameters
    ----------
    verbose : int
        0: no line; 1: a heading and quarters; more: a line for each task.
    heading : str
    total : int, default=0
        Public number of tasks; below 2: there is a heading only.
    unit : str, default="tasks"
    """

    def __init__(self, verbose, heading, total=0, unit="tasks"):
        # Kept: while the tasks run, the name stands for a stream that drops everything.
        self._stream = sys.stdout if verbose else None
        # Rounded up: a quarter is announced when it is full.
        every = [-(-total * part // _PARTS) for part in range(1, _PARTS + 1)]
        self._due = sorted(set(every) if verbose == 1 else range(1, total + 1))
        if total < 2:
            self._due = []
        self._last = f"of {total} {unit}"
        self._lock = threading.Lock()
        self._say(heading)

    def at(self, n_done):
        """Print the lines that are due when `n_done` tasks are done."""
        with self._lock:
            while self._due and self._due[0] <= n_done:  # all of them, if several end at once
                self._say(f"  {self._due.pop(0)} {self._last}")

    def _say(self, text):
        # A stream that is closed may not end a fit that has been charged.
        with suppress(Exception):
            if self._stream is not None:
                print(text, file=self._stream, flush=True)
