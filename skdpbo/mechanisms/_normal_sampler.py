"""Exact normal deviates on a lattice, sampled in blocks of integers, without floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdpbo.mechanisms._source import RandomSource, noise_source

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Known = dict[int, list[int]]  # by index of the deviate: the words of f that are drawn already

# Largest scale of a normal deviate: (2 k + 2) scale stays below 2^63 for every k that occurs.
_MAX_SCALE = 2**50


class NormalSampler:
    r"""Exact normal deviates rounded to a lattice, many at a time.

    Karney's algorithm in integers: the deviate is :math:`\pm(k + x)`, k >= 0 an integer with
    probability proportional to :math:`e^{-k^2/2}`, x uniform on [0, 1), kept with probability
    :math:`e^{-x(2k+x)/2}`. With ``scale = s``, x is (j + f) / s, j uniform on {0, ..., s-1} and
    f uniform on [0, 1). Comparisons with x are decided by j, except for a fraction 1/s of ties;
    only then are binary digits of f drawn, as many as needed, and kept.

    An instance serves one release, like :class:`ExactSampler`.

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
        # The first digit after the point rounds to nearest; ties have probability 0.
        magnitude += (digits[:, 0] >> np.uint64(63)).astype(np.int64)
        return np.where(negative, -magnitude, magnitude)

    def expanded(
        self, size: int, scale: int, n_words: int = 1
    ) -> tuple[Integers, Words, NDArray[np.bool_]]:
        """Return floor(scale |Z|), the binary digits that follow, and whether Z < 0.

        The digits come in words of 64, most significant first, shape (size, n_words).
        """
        if not 1 <= scale <= _MAX_SCALE:
            raise ValueError("scale must lie in [1, 2^50].")
        # About one in two proposals is rejected; somewhat more are made.
        parts = [self._propose(2 * size + size // 8 + 16, scale, n_words)]
        while (missing := size - sum(len(magnitude) for magnitude, _ in parts)) > 0:
            parts.append(self._propose(2 * missing + 16, scale, n_words))
        # The first ones, whatever their values: any other choice could change the law.
        magnitude = np.concatenate([part[0] for part in parts])[:size]
        digits = np.concatenate([part[1] for part in parts])[:size]
        # Rejection looked at magnitudes alone, so a fair sign afterwards is independent of it.
        negative = np.frombuffer(self._read(size), dtype=np.uint8) >= 128
        return magnitude, digits, negative

    def _propose(self, size: int, scale: int, n_words: int) -> tuple[Integers, Words]:
        """Propose `size` half-normal deviates and return the accepted ones."""
        k = self._integer_parts(size)
        j = self._below(scale, len(k))
        known: Known = {}
        # Each is kept with probability exp(-x (2k + x) / 2), x = (j + f) / scale: k + 1 successes
        # of exp(-x (2k + x) / (2k + 2)).
        kept = np.ones(len(k), dtype=bool)
        lanes, trials = np.arange(len(k)), 0
        while lanes.size:
            success = self._bernoulli_exp(lanes, k, j, scale, known)
            kept[lanes[~success]] = False
            trials += 1
            lanes = lanes[success]
            lanes = lanes[k[lanes] + 1 > trials]
        words = np.frombuffer(self._read(8 * n_words * len(k)), dtype=np.uint64)
        # A view of bytes is read-only, and known digits are written below.
        words = words.reshape(len(k), n_words).copy()
        # All digits are fresh, except those that comparisons have drawn.
        for lane, seen in known.items():
            words[lane, : len(seen)] = seen[:n_words]
        return (k * scale + j)[kept], words[kept]

    def _integer_parts(self, size: int) -> Integers:
        """Return at most `size` integers k >= 0, P(k) proportional to exp(-k^2 / 2)."""
        k = self._runs(size)  # P(k) proportional to exp(-k / 2), then k (k - 1) more successes
        kept = np.ones(size, dtype=bool)
        lanes = np.flatnonzero(k > 1)
        for _ in range(2):  # most rejections occur here; the rest is drawn in one call
            success = self._bernoulli_exp_half(lanes.size)
            kept[lanes[~success]] = False
            lanes = lanes[success]
        # Lanes need different numbers of trials: one stream, split at `ends`.
        lanes = lanes[k[lanes] > 2]
        ends = np.cumsum(k[lanes] * (k[lanes] - 1) - 2)
        if lanes.size:
            failures = np.cumsum(~self._bernoulli_exp_half(int(ends[-1])))[ends - 1]
            kept[lanes[np.diff(failures, prepend=0) > 0]] = False
        return k[kept]

    def _runs(self, size: int) -> Integers:
        """Return `size` lengths of runs of successes, each of probability exp(-1 / 2)."""
        # The stream is extended: restarting it would favour short runs.
        stream = self._bernoulli_exp_half(0)
        while (failures := np.flatnonzero(~stream)).size < size:
            more = self._bernoulli_exp_half(8 * (size - failures.size) // 3 + 16)
            stream = np.concatenate([stream, more])
        return np.diff(failures[:size], prepend=-1) - 1

    def _bernoulli_exp(
        self, lanes: Integers, k: Integers, j: Integers, scale: int, known: Known
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
            less = self._less(lanes[alive], j, scale, known)
            twice = np.flatnonzero(less & again)
            less[twice] = self._less(lanes[alive[twice]], j, scale, known)
            alive = alive[less]
            n += 1
        return odd

    def _less(self, lanes: Integers, j: Integers, scale: int, known: Known) -> NDArray[np.bool_]:
        """Compare scale * U < j + f for uniform U, exactly, for each lane."""
        drawn, whole = self._below(scale, len(lanes)), j[lanes]
        less = drawn < whole
        for i in np.flatnonzero(drawn == whole):
            less[i] = self._exceeds_uniform(known.setdefault(int(lanes[i]), []))
        return less

    def _exceeds_uniform(self, words: list[int]) -> bool:
        """Return whether a fresh uniform deviate is less than f, of which `words` are known."""
        depth = 0
        while True:
            if depth == len(words):
                # Kept: the accepted deviate is conditioned on the digits of earlier comparisons.
                words.append(int.from_bytes(self._read(8), "little"))
            drawn = int.from_bytes(self._read(8), "little")
            if drawn != words[depth]:
                return drawn < words[depth]
            depth += 1

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
        # One byte per draw where that suffices, instead of eight.
        largest = int(bound.max(initial=1)) if isinstance(bound, np.ndarray) else bound
        dtype: Any = np.uint8 if largest < 256 else np.uint64
        words = np.frombuffer(self._read(size * np.dtype(dtype).itemsize), dtype=dtype)
        bounds = bound.astype(dtype) if isinstance(bound, np.ndarray) else dtype(bound)
        rest = words % bounds
        # The last, incomplete run of `bound` consecutive words favours small remainders.
        bad = (words - rest > ~dtype(0) - (bounds - dtype(1))).nonzero()[0]
        result: Integers = rest.astype(np.int64)
        if bad.size:
            again = bound[bad] if isinstance(bound, np.ndarray) else bound
            result[bad] = self._below(again, bad.size)
        return result
