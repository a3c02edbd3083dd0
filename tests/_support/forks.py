"""Forked processes, and what a function returns in one of them."""

import os
import pickle
import signal
import warnings

import pytest

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
_PATIENCE = 20  # seconds


def fork():
    """Fork as `os.fork` does, without the warning that there are threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def in_fork(function):
    """Return what a function returns in a forked process; fail if it raises or does not end."""
    reading, writing = os.pipe()
    pid = fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_PATIENCE)
            with open(writing, "wb") as pipe:
                pipe.write(pickle.dumps(function()))
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return pickle.loads(answer)
