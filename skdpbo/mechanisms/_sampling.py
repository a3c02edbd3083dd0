"""Exact samplers of single draws; see :mod:`_normal_sampler` for many normal deviates at once.

All samplers use integers and fair bits. Real parameters (a privacy loss, a scale) are exact
fractions, as every float is. Draws follow the documented law exactly whenever the bits are fair and
independent.

The running time of rejection samplers varies with the outcome and is not protected.
"""

from __future__ import annotations

import math
from fractions import Fraction

from skdpbo.mechanisms._source import RandomSource, noise_source

# Bytes read at once; the rest is discarded with the sampler.
_BLOCK = 1024


class ExactSampler:
    """Exact draws, one at a time, from a source of random bytes.

    An instance serves one release: a block of bytes must neither outlive the call nor be inherited
    by a forked process, or noise would repeat.

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
            # The rest of the old block is dropped.
            self._buffer = self._read(max(_BLOCK, size))
            start, stop = 0, size
        self._position = stop
        # Whole bytes are read: surplus bits are dropped, not kept for the next draw.
        return int.from_bytes(self._buffer[start:stop], "little") >> ((size << 3) - n)

    def below(self, n: int) -> int:
        """Return an integer uniform on {0, ..., n - 1}, by rejection."""
        # The remainder of a division would favour small numbers.
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

    def geometric(self, scale: int) -> int:
        """Draw n >= 0 with probability proportional to exp(-n / scale).

        That is the law of floor(scale * E), E a standard exponential deviate.
        """
        # exp(-n / s) = exp(-r / s) exp(-1)^q for n = r + s q, r < s (Algorithm 2).
        remainder = self.below(scale)
        while not self.bernoulli_exp(remainder, scale):
            remainder = self.below(scale)
        quotient = 0
        while self._bernoulli_exp_unit(1, 1):
            quotient += 1
        return remainder + scale * quotient

    def discrete_laplace(self, numerator: int, denominator: int) -> int:
        """Draw an integer x with probability proportional to exp(-|x| denominator / numerator)."""
        while True:
            # floor(G / t) is at least m where G is at least m t: a geometric law of scale s / t.
            magnitude = self.geometric(numerator) // denominator
            negative = self.bits(1)
            if not (negative and magnitude == 0):  # zero has no sign: -0 would double its weight
                return -magnitude if negative else magnitude

    def discrete_gaussian(self, variance: Fraction) -> int:
        """Draw an integer x with probability proportional to exp(-x^2 / (2 variance))."""
        a, b = variance.numerator, variance.denominator
        # Canonne, Kamath and Steinke (2020), Algorithm 3: rejection from a discrete Laplace law.
        scale = math.isqrt(a // b) + 1
        while True:
            draw = self.discrete_laplace(scale, 1)
            # Accept with exp(-(|x| - variance/scale)^2 / (2 variance)), over a common denominator.
            offset = abs(draw) * scale * b - a
            if self.bernoulli_exp(offset * offset, 2 * a * b * scale * scale):
                return draw
