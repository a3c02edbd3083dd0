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
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

# Keeps the noise stream apart from any estimator that was given the same integer seed.
_NOISE_STREAM = 0x736B6470

# Bytes fetched at once by one draw; what is left when the draw ends is thrown away.
_BLOCK = 1024

# Largest scale of a normal deviate: (2 k + 2) scale stays below 2^63 for every k that occurs.
_MAX_SCALE = 2**50


class RandomSource:
    """Random bytes for privacy noise; make one with :func:`noise_source`.

    Parameters
    ----------
    read : callable
        ``read(n)`` returns n fresh random bytes.
    seeded : bool
        True when the bytes can be reproduced by whoever knows the seed. A release that used such
        a source carries no guarantee.
    """

    __slots__ = ("_read", "seeded")

    def __init__(self, read: Callable[[int], bytes], *, seeded: bool) -> None:
        self._read = read
        self.seeded = seeded

    def bytes(self, n: int) -> bytes:
        """Return `n` fresh random bytes.

        Parameters
        ----------
        n : int
            How many, at least 0.

        Returns
        -------
        bytes
            Of length `n`.
        """
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
        Its `seeded` says whether a release that uses it carries no guarantee.

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

    def geometric(self, scale: int) -> int:
        """Draw n >= 0 with probability proportional to exp(-n / scale).

        That is the law of floor(scale * E), E a standard exponential deviate.
        """
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
            magnitude = self.geometric(numerator) // denominator
            negative = self.bits(1)
            if not (negative and magnitude == 0):  # zero must not be counted twice
                return -magnitude if negative else magnitude

    def discrete_gaussian(self, variance: Fraction) -> int:
        """Draw an integer x with probability proportional to exp(-x^2 / (2 variance))."""
        a, b = variance.numerator, variance.denominator
        scale = math.isqrt(a // b) + 1
        while True:
            draw = self.discrete_laplace(scale, 1)
            # accept with exp(-(|x| - variance/scale)^2 / (2 variance)), over a common denominator
            offset = abs(draw) * scale * b - a
            if self.bernoulli_exp(offset * offset, 2 * a * b * scale * scale):
                return draw


class NormalSampler:
    r"""Exact normal deviates rounded to a lattice, many at a time.

    Karney's algorithm in integers: the deviate is :math:`\pm(k + x)`, k >= 0 an integer with
    probability proportional to :math:`e^{-k^2/2}`, x uniform on [0, 1), kept with probability
    :math:`e^{-x(2k+x)/2}`. With ``scale = s``, x is (j + f) / s, j uniform on {0, ..., s-1} and
    f uniform on [0, 1). Comparisons with x are decided by j, except for a fraction 1/s of ties;
    only then are the binary digits of f drawn, as many as decide, and remembered.

    Made for the duration of one release, like :class:`ExactSampler`.

    Parameters
    ----------
    source : RandomSource or None
        None opens the operating system's generator.

    References
    ----------
    C. F. F. Karney, Sampling exactly from the normal distribution, ACM TOMS 42(1), 2016,
    Algorithms N and B.
    """

    __slots__ = ("_read",)

    def __init__(self, source: RandomSource | None = None) -> None:
        self._read = noise_source(source).bytes

    def rounded(self, size: int, scale: int) -> Integers:
        """Return round(scale * Z) for `size` independent standard normal Z, as int64.

        The law is exact; scale is an integer in [1, 2^50].
        """
        magnitude, digits, negative = self.expanded(size, scale)
        magnitude += (digits[:, 0] >> np.uint64(63)).astype(np.int64)
        return np.where(negative, -magnitude, magnitude)

    def expanded(
        self, size: int, scale: int, n_words: int = 1
    ) -> tuple[Integers, Words, NDArray[np.bool_]]:
        """Return floor(scale |Z|), the binary digits that follow, and whether Z < 0.

        The digits come in words of 64, most significant first, shape (size, n_words).
        """
        if not 1 <= scale <= _MAX_SCALE:
            raise ValueError("scale must lie in [1, 2^50]")
        parts = [self._attempt(2 * size + size // 8 + 16, scale, n_words)]
        while (missing := size - sum(len(magnitude) for magnitude, _ in parts)) > 0:
            parts.append(self._attempt(2 * missing + 16, scale, n_words))
        magnitude = np.concatenate([part[0] for part in parts])[:size]
        digits = np.concatenate([part[1] for part in parts])[:size]
        negative = np.frombuffer(self._read(size), dtype=np.uint8) >= 128
        return magnitude, digits, negative

    def _attempt(self, size: int, scale: int, n_words: int) -> tuple[Integers, Words]:
        """Propose `size` half-normal deviates and return the accepted ones."""
        k = self._integer_parts(size)
        j = self._below(scale, len(k))
        fractions = _Fractions(self._read)
        kept = self._keep(k, j, scale, fractions)
        words = np.frombuffer(self._read(8 * n_words * len(k)), dtype=np.uint64)
        words = words.reshape(len(k), n_words).copy()
        for lane, known in fractions.known.items():
            words[lane, : len(known)] = known[:n_words]
        return (k * scale + j)[kept], words[kept]

    def _integer_parts(self, size: int) -> Integers:
        """Return at most `size` integers k >= 0, P(k) proportional to exp(-k^2 / 2)."""
        k = self._runs(size)  # P(k) proportional to exp(-k / 2), then k (k - 1) more successes
        kept = np.ones(size, dtype=bool)
        lanes = np.flatnonzero(k > 1)
        for _ in range(2):  # most of the rejected fail here, before all trials are drawn at once
            success = self._bernoulli_exp_half(lanes.size)
            kept[lanes[~success]] = False
            lanes = lanes[success]
        lanes = lanes[k[lanes] > 2]
        ends = np.cumsum(k[lanes] * (k[lanes] - 1) - 2)
        if lanes.size:
            failures = np.cumsum(~self._bernoulli_exp_half(int(ends[-1])))[ends - 1]
            kept[lanes[np.diff(failures, prepend=0) > 0]] = False
        return k[kept]

    def _runs(self, size: int) -> Integers:
        """Return `size` numbers of successes of exp(-1 / 2) before a failure."""
        # The stream is prolonged, never restarted: a fresh start would favour short runs.
        stream = self._bernoulli_exp_half(0)
        while (failures := np.flatnonzero(~stream)).size < size:
            more = self._bernoulli_exp_half(8 * (size - failures.size) // 3 + 16)
            stream = np.concatenate([stream, more])
        return np.diff(failures[:size], prepend=-1) - 1

    def _keep(
        self, k: Integers, j: Integers, scale: int, fractions: _Fractions
    ) -> NDArray[np.bool_]:
        """Keep each deviate with probability exp(-x (2k + x) / 2), x = (j + f) / scale."""
        kept = np.ones(len(k), dtype=bool)
        lanes, trials = np.arange(len(k)), 0
        while lanes.size:  # k + 1 successes of exp(-x (2k + x) / (2k + 2))
            success = self._bernoulli_exp(lanes, k, j, scale, fractions)
            kept[lanes[~success]] = False
            trials += 1
            lanes = lanes[success]
            lanes = lanes[k[lanes] + 1 > trials]
        return kept

    def _bernoulli_exp(
        self, lanes: Integers, k: Integers, j: Integers, scale: int, fractions: _Fractions
    ) -> NDArray[np.bool_]:
        """Return True with probability exp(-g), g = x (2k + x) / (2k + 2), for each lane."""
        # As ExactSampler._bernoulli_exp_unit, with Bernoulli(g / n) the product of Bernoulli(1/n),
        # of c <= 2k for c uniform below 2k + 2, of x and, when c = 2k, of x again.
        odd = np.zeros(len(lanes), dtype=bool)
        alive, n = np.arange(len(lanes)), 1
        while alive.size:
            odd[alive] = n % 2 == 1
            if n > 1:
                alive = alive[self._below(n, alive.size) == 0]
            even = 2 * k[lanes[alive]]
            c = self._below(even + 2, alive.size)
            alive, again = alive[c <= even], (c == even)[c <= even]
            less = self._less(lanes[alive], j, scale, fractions)
            twice = np.flatnonzero(less & again)
            less[twice] = self._less(lanes[alive[twice]], j, scale, fractions)
            alive = alive[less]
            n += 1
        return odd

    def _less(
        self, lanes: Integers, j: Integers, scale: int, fractions: _Fractions
    ) -> NDArray[np.bool_]:
        """Compare scale * U < j + f for uniform U, exactly, for each lane."""
        drawn, whole = self._below(scale, len(lanes)), j[lanes]
        less = drawn < whole
        for i in np.flatnonzero(drawn == whole):
            less[i] = fractions.exceeds_uniform(int(lanes[i]))
        return less

    def _bernoulli_exp_half(self, size: int) -> NDArray[np.bool_]:
        """Return `size` outcomes that are True with probability exp(-1 / 2)."""
        odd = np.zeros(size, dtype=bool)
        alive, n = np.arange(size), 1
        while alive.size:
            odd[alive] = n % 2 == 1
            alive = alive[self._below(2 * n, alive.size) == 0]
            n += 1
        return odd

    def _below(self, bound: int | Integers, size: int) -> Integers:
        """Return `size` integers uniform on {0, ..., bound - 1}, bound < 2^63, by rejection."""
        bounds = np.asarray(bound)
        dtype = np.uint8 if int(bounds.max(initial=1)) < 256 else np.uint64
        bounds = bounds.astype(dtype)
        words = np.frombuffer(self._read(size * bounds.itemsize), dtype=dtype)
        rest = words % bounds
        # The last, incomplete run of `bound` consecutive words would favour small remainders.
        bad = np.flatnonzero(words - rest > np.iinfo(dtype).max - (bounds - dtype(1)))
        result: Integers = rest.astype(np.int64)
        if bad.size:
            again = bound[bad] if isinstance(bound, np.ndarray) else bound
            result[bad] = self._below(again, bad.size)
        return result


class _Fractions:
    """Uniform fractions f, one per lane, whose binary digits are drawn when they are needed."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self.known: dict[int, list[int]] = {}

    def exceeds_uniform(self, lane: int) -> bool:
        """Return whether a fresh uniform deviate is less than f of this lane."""
        words = self.known.setdefault(lane, [])
        depth = 0
        while True:
            if depth == len(words):
                words.append(self._word())
            drawn = self._word()
            if drawn != words[depth]:
                return drawn < words[depth]
            depth += 1

    def _word(self) -> int:
        return int.from_bytes(self._read(8), "little")
