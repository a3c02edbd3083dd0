r"""Columns that matter by their joint effects (docs: First releases).

For sets A of columns, :math:`u_A = \sum_c |\sum_{i \in c} v_i|` over the cells c of a grid in these
columns, :math:`v_i \in [-1, 1]` the clipped target. It exceeds that of A without column j if the
column matters beside the others. A are all sets of two or three columns, and of up to ten those of
at most two. Of two and three further, for each column, the sum of the sizes of the differences of
its two halves in the halves of the others, which weak effects and interactions move, and the
difference of the numbers of records in its halves. A replaced record moves each by at most 2. The
empty set and the numbers have a smaller weight, so more noise.
"""

import math
from itertools import combinations

import numpy as np
from scipy.special import ndtr

from skdpbo._record_groups import divide_by_group_size
from skdpbo.gaussian_process._column_effects import (
    N_BINS,
    STEPS,
    STRONG,
    UNCLIPPED,
    ColumnEffects,
    effect_noise,
    sampling_error,
)

_BINS, _N_CELLS = {1: 8, 2: 8, 3: 4}, 64  # of each column of a set; of a table of two or three
_ALL_SETS = 3  # columns, up to which all sets are compared
_MOST_COLUMNS = 10
_CLEAR, _CLEAR_PAIRS = 5.0, 14.0  # standard deviations of the noise that a strong effect has
# Standard deviations: of a column that stays, and of the clearest, where others are left out. A
# useless column that stays multiplies errors; bands miss rough effects of columns left out.
_LEAST, _LEAST_PAIRS = {2: (2.2, 3.0), 3: (2.2, 5.0)}, (3.0, 4.0)
# Of sets and halves, the empty set, numbers of records: totals of which little depends.
_WEIGHT, _OF_NONE, _OF_NUMBERS = 4, 2, 1
_ONE_HALF = 0.9  # difference of the halves' parts of the records beyond which a column is kept
_LEAST_TOTAL = 1e-4  # over the deviation of a cell, against a division by 0


class JointEffects(ColumnEffects):
    """Release of the sizes of joint effects of two to ten columns, and the choice of columns.

    Parameters
    ----------
    box, mu, mean, sd, n_records
        As for :class:`ColumnEffects`.
    """

    _n_bins = _BINS[1]

    def __init__(self, box, **how):
        super().__init__(box, **how)
        p = len(box[0])
        self._with_halves, most = p <= _ALL_SETS, p if p <= _ALL_SETS else 2
        self._sets = [A for size in range(most + 1) for A in combinations(range(p), size)]
        self._tables = [A for A in self._sets if len(A) > 1]
        self._least, self._sure = _LEAST.get(p, _LEAST_PAIRS)

    @staticmethod
    def weights(n_columns):
        """Return the weights of the effects of a target: of sets, halves, numbers of records."""
        p = n_columns
        if p > _ALL_SETS:
            return np.array([_OF_NONE] + [_WEIGHT] * (p * (p + 1) // 2))
        return np.array([_OF_NONE] + [_WEIGHT] * (2**p - 1 + p) + [_OF_NUMBERS] * p)

    @staticmethod
    def shows(mu, *, n_records, n_columns, n_targets):
        """Whether a mu-GDP release clearly shows a strong effect of a column; of public values."""
        noise = effect_noise(mu, JointEffects.n_effects(n_columns) * n_targets)
        clear = _CLEAR if n_columns <= _ALL_SETS else _CLEAR_PAIRS
        return n_columns <= _MOST_COLUMNS and STRONG * n_records > clear * noise

    @staticmethod
    def most_mu(*, n_records, n_columns, n_targets):
        """Return the mu whose noise is as large as the error of sampling; of public values."""
        n_effects = JointEffects.n_effects(n_columns) * n_targets
        return effect_noise(1.0, n_effects) / sampling_error(n_records)

    def sums(self, Q, sizes, part):
        """Protected: return the sums in the cells of each table, int64 (q, tables, cells).

        With halves q + 1 of them: the last are numbers of records, in lattice steps.
        """
        p = len(self.box[0])
        bins = Q[:, :p].astype(np.intp).T
        ones = np.full((len(Q), int(self._with_halves)), float(STEPS))
        values = divide_by_group_size(np.hstack([Q[:, p:], ones]), sizes, part)
        sums = np.empty((values.shape[1], len(self._tables), _N_CELLS), dtype=np.int64)
        for table, A in enumerate(self._tables):
            n = _BINS[len(A)]
            cells = np.ravel_multi_index(bins[list(A)] // (N_BINS // n), (n,) * len(A))
            # Exact: sums of integers below 2^53.
            for target, weights in enumerate(values.T):
                sums[target, table] = np.bincount(cells, weights, _N_CELLS)
        return sums

    def _effects(self, sums):
        """Protected: return the exact effects, int64 (q, n): of sets, then of halves."""
        tables = []
        for chosen in self._sets:
            # The cells of the first table with all of its columns, summed over the others.
            table, A = next((t, A) for t, A in enumerate(self._tables) if {*chosen} <= {*A})
            cells = sums[:, table].reshape(-1, *(_BINS[len(A)],) * len(A))
            others = tuple(k + 1 for k, j in enumerate(A) if j not in chosen)
            tables.append(cells.sum(axis=others))
        if self._with_halves:
            p = len(self.box[0])
            halves = sums[:, -1].reshape(-1, *(2, _BINS[p] // 2) * p)
            halves = halves.sum(axis=tuple(range(2, 2 * p + 1, 2)))
            differences = [np.diff(halves, axis=j + 1) for j in range(p)]
            # Of the numbers of records, the last of each table, for each target.
            numbers = [np.full(len(sums), table[-1].sum()) for table in differences]
            tables += differences + numbers
        sizes = [np.abs(table).reshape(len(sums), -1).sum(axis=1) for table in tables]
        return np.stack(sizes, axis=1)[: len(self.mean)]

    def columns(self, noisy):
        """Return the columns that matter to some target, in order; all where none clearly does.

        Post-processing of the released effects.
        """
        p = len(self.box[0])
        found = self._found(noisy)
        if not found:
            return list(range(p))
        if p <= _ALL_SETS or len(found) <= _ALL_SETS:
            return sorted(found)
        # Too many for a design of their own: the strongest, by their own effects.
        return super().columns(self._alone(noisy))

    def hides_others(self, columns, noisy):
        """Whether no other column shows any effect, and they hide little; of the released ones."""
        if not self._found(noisy) <= set(columns):
            return False
        return self._with_halves or super().hides_others(columns, self._alone(noisy))

    def missed(self):
        """Return the mean size of an effect that hardly stands out, of each target: its unit.

        Post-processing; of an effect of that column alone, where the records are spread evenly.
        """
        cells = 2 ** (len(self.box[0]) - 1) if self._with_halves else _BINS[1]
        hidden = self._unmoved(cells, 0.0) + self._least * self._deviation(2)
        return hidden / self.n_records * self.clip / UNCLIPPED

    def _alone(self, noisy):
        """Return the effects of each column alone, and of none, as :class:`ColumnEffects` does."""
        return np.roll(noisy[:, : len(self.box[0]) + 1], -1, axis=1)

    def _found(self, noisy):
        """Return the columns that stand out for some target; none where none clearly does."""
        above = np.array([[self._above(e, j) for j in range(len(self.box[0]))] for e in noisy])
        stays = (above >= self._least).any(axis=0) & (above > self._sure).any()
        return set(np.flatnonzero(stays).tolist())

    def _above(self, effects, j):
        """Return how many deviations the effects of a column stand above those of no effect."""
        p, n_sets = len(self.box[0]), len(self._sets)
        of_set = dict(zip(self._sets, effects.tolist(), strict=False))
        found = []
        for A in (A for A in self._sets if j in A):
            rest = tuple(k for k in A if k != j)
            found.append(of_set[A] - self._unmoved(_BINS[len(A)] ** len(A), of_set[rest]))
        if self._with_halves:
            halves, numbers = effects[n_sets + j :: p]
            # Of a column whose halves hold different numbers of records, the others differ, too.
            uneven = min(abs(numbers) / self.n_records, 1.0)
            if uneven > _ONE_HALF:  # its box may be that of other units, and shows nothing
                return self._sure
            others = tuple(k for k in range(p) if k != j)
            found.append(halves - self._unmoved(2 ** (p - 1), uneven * of_set[others]))
        return max(found) / self._deviation(2)

    def _unmoved(self, cells, total):
        """Return the largest expected effect in cells that add nothing to `total`, of fewer cells.

        As if the records were spread evenly over the cells, the sizes of their means between 0 and
        twice their average, and targets had the variance 1, the largest.
        """
        sd = math.sqrt(self.n_records / cells)
        # The mean of E|N(s, sd)| over s from 0 to z sd.
        z = max(2 * total / (cells * sd), _LEAST_TOTAL)
        density = math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        return cells * sd * ((z**2 + 1) * (float(ndtr(z)) - 0.5) + z * density) / z
