"""Noise of the operating system, replayed: a test that has passed draws the same again.

Statistical tests state a rate of false alarms. Among thousands of them, and in tests that state
none, even small rates add up to a failure that nobody can repeat. So each test and each fixture
reads a stream that its name alone decides, and noise that no seed was given for comes from there;
releases still count it as not seeded. Processes that a test starts draw fresh noise, unless they
ask for a stream of their own. ``SKDPBO_FRESH_NOISE=1`` gives all tests fresh noise.
"""

import hashlib
import os
import random
from contextlib import contextmanager
from threading import Lock
from types import SimpleNamespace

import numpy as np

from _support.planted import located

__all__ = ["replayed"]

_USUAL = np.random.get_bit_generator()
_STREAMS = []  # of the test and the fixtures that run, with the process each is for


class _Stream:
    """Bytes of a generator, read ahead, because a call of it takes longer than most draws."""

    def __init__(self, seed):
        self._seed, self._generator = seed, None  # made by the first draw: most tests have none
        self._ahead, self._start, self._lock = b"", 0, Lock()

    def bytes(self, n):
        """Return what the generator itself would: it takes whole words, and one for nothing."""
        taken = 4 * max(1, -(-n // 4))
        with self._lock:
            if self._generator is None:
                self._generator = np.random.Generator(np.random.PCG64(int.from_bytes(self._seed)))
            if len(self._ahead) - self._start < taken:
                more = self._generator.bytes(max(1024, taken))
                self._ahead, self._start = self._ahead[self._start :] + more, 0
            start, self._start = self._start, self._start + taken
            return self._ahead[start : start + n]


def _urandom(n):
    if _STREAMS and _STREAMS[-1][0] == os.getpid():
        return _STREAMS[-1][1].bytes(n)
    return os.urandom(n)


@contextmanager
def replayed(name):
    """Draw noise, and what is drawn from the global generators, from a stream of this name."""
    seed = hashlib.sha256(name.encode()).digest()
    # Trainings that a planted bug has let run at once may leave one of the spare generators here.
    np.random.set_bit_generator(_USUAL)
    random.seed(seed)
    np.random.seed(np.frombuffer(seed, np.uint32))
    _STREAMS.append((os.getpid(), _Stream(seed)))
    try:
        yield
    finally:
        _STREAMS.pop()


if not os.environ.get("SKDPBO_FRESH_NOISE"):
    module, name = located("noise source: os")
    setattr(module, name, SimpleNamespace(urandom=_urandom))
