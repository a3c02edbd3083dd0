"""Random bytes for privacy noise. No other module opens a generator for noise."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable
from typing import NoReturn

import numpy as np

from skdpbo.privacy._checks import check_flag

# Separates the noise stream from estimators that use the same integer seed.
_NOISE_STREAM = 0x736B6470


class RandomSource:
    """Random bytes for privacy noise, opened by :func:`noise_source`.

    Parameters
    ----------
    read : callable
        ``read(n)`` returns n fresh random bytes.
    seeded : bool
        True when the bytes can be reproduced from a seed. A release with such noise has no
        guarantee.

    Attributes
    ----------
    bytes : callable
        `read`.
    """

    __slots__ = ("bytes", "seeded")

    def __init__(self, read: Callable[[int], bytes], *, seeded: bool) -> None:
        if not callable(read):
            raise TypeError(f"read must be callable, got {type(read).__name__}.")
        self.bytes = read
        self.seeded = check_flag(seeded, "seeded")

    def __repr__(self) -> str:
        return f"RandomSource(seeded={self.seeded})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        # A copy would repeat the noise: it would cancel in the difference of two releases.
        raise TypeError("a RandomSource cannot be pickled or copied; make a new one where needed.")


def noise_source(random_state: object = None) -> RandomSource:
    """Open a source of random bytes for privacy noise.

    Parameters
    ----------
    random_state : None, int, numpy.random.RandomState, numpy.random.Generator or RandomSource
        None reads the operating system's cryptographic generator; nothing is buffered or stored.
        A seed or a numpy generator gives reproducible bytes, for tests and demonstrations only:
        the caller must void the guarantee. A RandomSource is returned as it is.

    Returns
    -------
    RandomSource
        With `seeded` True if a release that uses it has no guarantee.

    Examples
    --------
    >>> from skdpbo.mechanisms import noise_source
    >>> noise_source(0).bytes(4) == noise_source(0).bytes(4)
    True
    >>> noise_source()
    RandomSource(seeded=False)
    """
    if random_state is None:
        # No buffer: a fork would copy it, and noise would repeat.
        return RandomSource(os.urandom, seeded=False)
    if isinstance(random_state, RandomSource):
        return random_state
    if isinstance(random_state, np.random.RandomState | np.random.Generator):
        # Also if it was seeded by the system: its state can be read and its bytes recomputed.
        return RandomSource(random_state.bytes, seeded=True)
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError("random_state must be non-negative.")
        sequence = np.random.SeedSequence(int(random_state), spawn_key=(_NOISE_STREAM,))
        return RandomSource(np.random.Generator(np.random.PCG64(sequence)).bytes, seeded=True)
    raise TypeError("random_state must be None, an int, a numpy generator or a RandomSource.")
