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
from types import SimpleNamespace

import numpy as np

from _support.planted import located

__all__ = ["replayed"]

_STREAMS = []  # of the test and the fixtures that run, with the process each is for


def _urandom(n):
    if _STREAMS and _STREAMS[-1][0] == os.getpid():
        return _STREAMS[-1][1].bytes(n)
    return os.urandom(n)


@contextmanager
def replayed(name):
    """Draw noise, and what is drawn from the global generators, from a stream of this name."""
    seed = hashlib.sha256(name.encode()).digest()
    random.seed(seed)
    np.random.seed(np.frombuffer(seed, np.uint32))
    _STREAMS.append((os.getpid(), np.random.Generator(np.random.PCG64(int.from_bytes(seed)))))
    try:
        yield
    finally:
        _STREAMS.pop()


if not os.environ.get("SKDPBO_FRESH_NOISE"):
    module, name = located("noise source: os")
    setattr(module, name, SimpleNamespace(urandom=_urandom))
