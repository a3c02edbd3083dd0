r"""Columns that matter among two or three, by their joint effects (docs: Several columns).

For every set A of columns, :math:`u_A = \sum_c |\sum_{i \in c} v_i|` over the cells c of a grid in
these columns, :math:`v_i \in [-1, 1]` the clipped target. It exceeds that of A without column j if
the column matters beside the others. Further, for each column, the sum of the sizes of the
differences of its two halves in the halves of the others, which weak effects and interactions move,
and the difference of the numbers of records in its halves. A replaced record moves each by at most
2.
"""

import math
from itertools import combinations

import numpy as np
from scipy.special import ndtr

from skdpbo._record_groups import shared
from skdpbo.gaussian_process._column_effects import (
    N_BINS,
    STEPS,
    STRONG,
    UNCLIPPED,
    VARIANCE,
    ColumnEffects,
    effect_noise,
    sampling_error,
)

_BINS = {2: 8, 3: 4}  # of each column of a grid: 64 cells
_CLEAR = 5.0  # standard deviations of the noise that a strong effect has, where it is released
_ABOVE = 1.75  # standard deviations of a column that is kept
_SURE = 4.0  # of the largest one, where a column is left out
_ONE_HALF = 0.9  # difference of the halves' parts of the records beyond which a column is kept
_LEAST_TOTAL = 1e-4  # over the deviation of a cell, against a division by 0


def _n_effects(n_columns, n_targets):
    return (2**n_columns + 2 * n_columns) * n_targets


class JointEffects(ColumnEffects):
    """Release of the sizes of joint effects of two or three columns, and the choice of columns.

    Parameters
    ----------
    box, mu, mean, sd, n_records
        As for :class:`ColumnEffects`.
    """

    def __init__(self, box, **how):
        super().__init__(box, **how)
        columns = range(len(box[0]))
        self._sets = [A for size in range(len(columns) + 1) for A in combinations(columns, size)]

    @staticmethod
    def shows(mu, *, n_records, n_columns, n_targets):
        """Whether a mu-GDP release clearly shows a strong effect of a column; of public values."""
        noise = effect_noise(mu, _n_effects(n_columns, n_targets))
        return STRONG * n_records > _CLEAR * noise

    @staticmethod
    def most_mu(*, n_records, n_columns, n_targets):
        """Return the mu whose noise is as large as the error of sampling; of public values."""
        return effect_noise(1.0, _n_effects(n_columns, n_targets)) / sampling_error(n_records)

    def sums(self, Q, sizes, part):
        """Protected: return the sums in the cells of all columns, int64 (q + 1, bins, ..., bins).

        The last are numbers of records, in lattice steps.
        """
        p = len(self.box[0])
        shape = (_BINS[p],) * p
        bins, ones = Q[:, :p].astype(np.intp), np.full((len(Q), 1), float(STEPS))
        values = shared(np.hstack([Q[:, p:], ones]), sizes, part)
        cells = np.ravel_multi_index((bins // (N_BINS // _BINS[p])).T, shape)
        # Exact: sums of integers below 2^53.
        sums = [np.bincount(cells, weights, math.prod(shape)) for weights in values.T]
        return np.array(sums).astype(np.int64).reshape(-1, *shape)

    def _effects(self, sums):
        """Protected: return the exact effects, int64 (q, 2^p + 2 p): of sets, then of halves."""
        p = len(self.box[0])
        tables = [sums.sum(axis=tuple(j + 1 for j in range(p) if j not in A)) for A in self._sets]
        halves = sums.reshape(-1, *(2, _BINS[p] // 2) * p).sum(axis=tuple(range(2, 2 * p + 1, 2)))
        differences = [np.diff(halves, axis=j + 1) for j in range(p)]
        # Of the numbers of records, the last of each table, for each target.
        numbers = [np.full(len(sums), table[-1].sum()) for table in differences]
        tables += differences + numbers
        sizes = [np.abs(table).reshape(len(sums), -1).sum(axis=1) for table in tables]
        return np.stack(sizes, axis=1)[:-1]

    def columns(self, noisy):
        """Return the columns that matter to some target, in order; all where none clearly does.

        Post-processing of the released effects.
        """
        p = len(self.box[0])
        found, largest = set(), 0.0
        for effects in noisy:
            for j in range(p):
                above = self._above(effects, j)
                largest = max(largest, above)
                found |= {j} if above > _ABOVE else set()
        return sorted(found) if largest > _SURE else list(range(p))

    def hides_others(self, columns, noisy):
        """Whether no other column clearly shows an effect: none is left out otherwise."""
        return True

    def missed(self):
        """Return the mean size of an effect that hardly stands out, of each target: its unit.

        Post-processing; of an effect of that column alone, where the records are spread evenly.
        """
        p = len(self.box[0])
        hidden = self._unmoved(2 ** (p - 1), 0.0) + _ABOVE * self._deviation()
        return hidden / self.n_records * self.clip / UNCLIPPED

    def _deviation(self):
        """Return the standard deviation of the difference of two effects."""
        noise = effect_noise(self.mu, _n_effects(len(self.box[0]), len(self.mean)))
        return math.hypot(math.sqrt(2) * noise, sampling_error(self.n_records))

    def _above(self, effects, j):
        """Return how many deviations the effects of a column stand above those of no effect."""
        p, n_sets = len(self.box[0]), len(self._sets)
        of_set = dict(zip(self._sets, effects.tolist(), strict=False))
        halves, numbers = effects[n_sets + j :: p]
        found = []
        for A in (A for A in self._sets if j in A):
            rest = tuple(k for k in A if k != j)
            found.append(of_set[A] - self._unmoved(_BINS[p] ** len(A), of_set[rest]))
        # Of a column whose halves hold different numbers of records, the others make a difference.
        uneven = min(abs(numbers) / self.n_records, 1.0)
        if uneven > _ONE_HALF:  # its box may be that of other units, and shows nothing
            return _SURE
        others = tuple(k for k in range(p) if k != j)
        found.append(halves - self._unmoved(2 ** (p - 1), uneven * of_set[others]))
        return max(found) / self._deviation()

    def _unmoved(self, cells, total):
        """Return the expected effect in cells that add nothing to `total`, that of fewer cells.

        As if the records were spread evenly over the cells, and the sizes of their means between 0
        and twice their average.
        """
        sd = math.sqrt(VARIANCE * self.n_records / cells)
        # The mean of E|N(s, sd)| over s from 0 to z sd.
        z = max(2 * total / (cells * sd), _LEAST_TOTAL)
        density = math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        return cells * sd * ((z**2 + 1) * (float(ndtr(z)) - 0.5) + z * density) / z
