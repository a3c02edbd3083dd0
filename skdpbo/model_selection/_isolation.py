"""Fits that leave no trace: no warning, output, log record, file or state of a global generator."""

import logging
import os
import platform
import random
import threading
import warnings
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout

import numpy as np
from joblib import parallel_config

__all__ = ["nothing_leaves", "public_generators", "quiet", "this_process"]

_SEED = 20070612


def this_process():
    """Name of the process; two machines may have processes of one number."""
    return platform.node(), os.getpid()


@contextmanager
def nothing_leaves():
    """`quiet`, and from a public state of the global generators; for a fit on its own.

    What compiled code writes to the terminal by itself is not held back.
    """
    # Parallel work inside would otherwise write large arrays to disk for its workers.
    with quiet(), public_generators(_SEED), parallel_config(max_nbytes=None):
        yield


@contextmanager
def public_generators(seed):
    """Seed the global generators of Python and numpy publicly, and put their states back."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(seed)  # public randomness
    np.random.seed(seed)  # public randomness  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


class _Quiet:
    """Drops what estimators print, log and warn of.

    It would tell of records, and one line of it for each trial how many trials there were.
    Re-entrant and shared by threads: the first to come in silences, the last to leave restores.
    The global generators, which estimators may use, are put back as well: their state would tell
    how often they were used.
    """

    def __init__(self):
        self._lock, self._depth, self._restore = threading.Lock(), 0, None

    def __enter__(self):
        with self._lock:
            if self._depth == 0:
                self._restore = _silence()
            self._depth += 1

    def __exit__(self, *exc_info):
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._restore.close()


def _silence():
    """Return what undoes it."""
    undo = ExitStack()
    nowhere = undo.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    undo.enter_context(redirect_stdout(nowhere))
    undo.enter_context(redirect_stderr(nowhere))
    undo.callback(logging.disable, logging.root.manager.disable)
    undo.callback(random.setstate, random.getstate())
    undo.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
    logging.disable(logging.CRITICAL)
    # Recorded, that is not shown: threads that reset the filters let some warnings through.
    undo.enter_context(warnings.catch_warnings(record=True))
    warnings.simplefilter("ignore")
    return undo


_QUIET = _Quiet()


@contextmanager
def quiet():
    """Context in which nothing is said, and after which the global generators are as before."""
    with _QUIET:
        yield
