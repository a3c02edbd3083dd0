"""Randomness and exact samplers: the only file of the library that draws privacy noise.

Everything here works on integers and fair bits. A real parameter (a privacy loss, a scale) enters
as an exact fraction; every float is one. No floating-point number takes part in a draw, so a
draw has exactly the law that its docstring states whenever the bits are fair and independent.

The running time of rejection samplers varies with the outcome; it is not protected.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable
from fractions import Fraction
from typing import NoReturn

import numpy as np

# Keeps the noise stream apart from any estimator that was given the same integer seed.
_NOISE_STREAM = 0x736B6470

# Bytes fetched at once by one draw; what is left when the draw ends is thrown away.
_BLOCK = 1024


class RandomSource:
    """Random bytes for privacy noise; make one with :func:`noise_source`.

    Attributes
    ----------
    seeded : bool
        True when the bytes can be reproduced by whoever knows the seed. A release that used such
        a source carries no guarantee.
    """

    __slots__ = ("_read", "seeded")

    def __init__(self, read: Callable[[int], bytes], *, seeded: bool) -> None:
        self._read = read
        self.seeded = seeded

    def bytes(self, n: int) -> bytes:
        """Return `n` fresh random bytes."""
        return self._read(n)

    def __repr__(self) -> str:
        return f"RandomSource(seeded={self.seeded})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        # A copy would repeat its noise: the difference of two releases would be noise-free.
        raise TypeError("a RandomSource cannot be pickled or copied; make a new one where needed")


def noise_source(random_state: object = None) -> RandomSource:
    """Open a source of random bytes for privacy noise.

    Parameters
    ----------
    random_state : None, int, numpy.random.RandomState, numpy.random.Generator or RandomSource
        None reads the operating system's cryptographic generator, nothing is buffered or stored.
        Anything from numpy gives reproducible bytes: for tests and demonstrations only, the
        caller must mark the guarantee void. A RandomSource is returned as it is.

    Returns
    -------
    RandomSource

    Examples
    --------
    >>> from skdpbo.mechanisms import noise_source
    >>> noise_source(0).bytes(4) == noise_source(0).bytes(4)
    True
    >>> noise_source()
    RandomSource(seeded=False)
    """
    if random_state is None:
        return RandomSource(os.urandom, seeded=False)
    if isinstance(random_state, RandomSource):
        return random_state
    if isinstance(random_state, np.random.RandomState | np.random.Generator):
        return RandomSource(random_state.bytes, seeded=True)
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError("random_state must be non-negative")
        sequence = np.random.SeedSequence(int(random_state), spawn_key=(_NOISE_STREAM,))
        return RandomSource(np.random.Generator(np.random.PCG64(sequence)).bytes, seeded=True)
    raise TypeError("random_state must be None, an int, a numpy generator or a RandomSource")


class ExactSampler:
    """Exact draws, one at a time, from a source of random bytes.

    Made for the duration of one release: bytes are fetched in blocks, and a block must neither
    outlive the call nor be inherited by a forked process.

    Parameters
    ----------
    source : RandomSource or None
        None opens the operating system's generator.

    References
    ----------
    C. L. Canonne, G. Kamath, T. Steinke, The discrete Gaussian for differential privacy, 2020,
    Algorithms 1 to 3.
    """

    __slots__ = ("_buffer", "_position", "_read")

    def __init__(self, source: RandomSource | None = None) -> None:
        self._read = noise_source(source).bytes
        self._buffer = b""
        self._position = 0

    def bits(self, n: int) -> int:
        """Return an integer uniform on {0, ..., 2^n - 1}."""
        size = (n + 7) >> 3
        start, stop = self._position, self._position + size
        if stop > len(self._buffer):
            self._buffer = self._read(max(_BLOCK, size))
            start, stop = 0, size
        self._position = stop
        return int.from_bytes(self._buffer[start:stop], "little") >> ((size << 3) - n)

    def below(self, n: int) -> int:
        """Return an integer uniform on {0, ..., n - 1}, by rejection."""
        width = (n - 1).bit_length()
        while True:
            value = self.bits(width)
            if value < n:
                return value

    def bernoulli_exp(self, numerator: int, denominator: int) -> bool:
        """Return True with probability exp(-numerator / denominator), a ratio >= 0."""
        whole, rest = divmod(numerator, denominator)
        # exp(-g) = exp(-1)^floor(g) exp(-rest); the loop ends at the first failure.
        while whole:
            if not self._bernoulli_exp_unit(1, 1):
                return False
            whole -= 1
        return self._bernoulli_exp_unit(rest, denominator)

    def _bernoulli_exp_unit(self, numerator: int, denominator: int) -> bool:
        """Return True with probability exp(-g), g = numerator / denominator in [0, 1]."""
        # K = index of the first failure of Bernoulli(g/1), Bernoulli(g/2), ...; K > k has
        # probability g^k / k!, so K is odd with probability exp(-g).
        k = 1
        while self.below(k * denominator) < numerator:
            k += 1
        return k % 2 == 1

    def discrete_laplace(self, numerator: int, denominator: int) -> int:
        """Draw an integer x with probability proportional to exp(-|x| denominator / numerator)."""
        while True:
            remainder = self.below(numerator)
            if not self.bernoulli_exp(remainder, numerator):
                continue
            quotient = 0
            while self._bernoulli_exp_unit(1, 1):
                quotient += 1
            magnitude = (remainder + numerator * quotient) // denominator
            negative = self.bits(1)
            if not (negative and magnitude == 0):  # zero must not be counted twice
                return -magnitude if negative else magnitude

    def discrete_gaussian(self, variance: Fraction) -> int:
        """Draw an integer x with probability proportional to exp(-x^2 / (2 variance))."""
        a, b = variance.numerator, variance.denominator
        scale = _isqrt_fraction(variance) + 1
        while True:
            draw = self.discrete_laplace(scale, 1)
            # accept with exp(-(|x| - variance/scale)^2 / (2 variance)), over a common denominator
            offset = abs(draw) * scale * b - a
            if self.bernoulli_exp(offset * offset, 2 * a * b * scale * scale):
                return draw


def _isqrt_fraction(value: Fraction) -> int:
    """Return the floor of the square root of a non-negative fraction."""
    return math.isqrt(value.numerator // value.denominator)
