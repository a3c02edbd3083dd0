r"""Columns that matter by their joint effects (docs: First releases).

For sets A of columns, :math:`u_A = \sum_c |\sum_{i \in c} v_i|` over the cells c of a grid in these
columns, :math:`v_i \in [-1, 1]` the clipped target. It exceeds the value for A without column j if
that column matters in addition to the others. With two or three columns, A runs over all sets; with
up to ten, over those of at most two. With two or three columns there are further, for each column,
the sum of absolute differences between its two halves within the halves of the others, for weak
effects and interactions, and the difference of the numbers of records in its halves. Replacing a
record changes each number by at most 2. The empty set and the numbers of records have a smaller
weight, hence more noise.
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

_BINS, _N_CELLS = {1: 8, 2: 8, 3: 4}, 64  # bins per column, by size of the set; cells of a table
_ALL_SETS = 3  # largest number of columns for which all sets are compared
_MOST_COLUMNS = 10
_CLEAR, _CLEAR_PAIRS = 5.0, 14.0  # least size of a strong effect, in deviations of the noise
# Deviations by which a column that is kept stands out, and the clearest one if others are left out.
# A useless column that is kept multiplies errors; one left out may make bands too narrow.
_LEAST, _LEAST_PAIRS = {2: (2.2, 3.0), 3: (2.2, 5.0)}, (3.0, 4.0)
# Weights of sets and halves, of the empty set, and of numbers of records, which matter less.
_WEIGHT, _OF_NONE, _OF_NUMBERS = 4, 2, 1
_ONE_HALF = 0.9  # difference of the halves' shares of the records beyond which a column is kept
_LEAST_TOTAL = 1e-4  # in deviations of a cell; avoids a division by 0


class JointEffects(ColumnEffects):
    """Release of the sizes of joint effects of two to ten columns, and the choice of columns.

    Parameters
    ----------
    box, mu, mean, sd, n_records
        As for :class:`ColumnEffects`.
    """

    _n_bins = _BINS[1]

    def __init__(self, box, **options):
        super().__init__(box, **options)
        p = len(box[0])
        self._with_halves, most = p <= _ALL_SETS, p if p <= _ALL_SETS else 2
        self._sets = [A for size in range(most + 1) for A in combinations(range(p), size)]
        self._tables = [A for A in self._sets if len(A) > 1]
        self._least, self._sure = _LEAST.get(p, _LEAST_PAIRS)

    @staticmethod
    def weights(n_columns):
        """Return the weights of the effects of a target: of sets, halves, then record numbers."""
        p = n_columns
        if p > _ALL_SETS:
            return np.array([_OF_NONE] + [_WEIGHT] * (p * (p + 1) // 2))
        return np.array([_OF_NONE] + [_WEIGHT] * (2**p - 1 + p) + [_OF_NUMBERS] * p)

    @staticmethod
    def shows(mu, *, n_records, n_columns, n_targets):
        """Whether a mu-GDP release clearly shows a strong effect of a column, by public values."""
        noise = effect_noise(mu, JointEffects.n_effects(n_columns) * n_targets)
        clear = _CLEAR if n_columns <= _ALL_SETS else _CLEAR_PAIRS
        return n_columns <= _MOST_COLUMNS and STRONG * n_records > clear * noise

    @staticmethod
    def most_mu(*, n_records, n_columns, n_targets):
        """Return the mu for which noise and sampling error are equal, by public values."""
        n_effects = JointEffects.n_effects(n_columns) * n_targets
        return effect_noise(1.0, n_effects) / sampling_error(n_records)

    def sums(self, Q, sizes, part):
        """Protected: return the sums per cell of each table, int64 (q, tables, cells).

        With halves, the first axis has q + 1 entries: the last are numbers of records, in steps.
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
            # Differences of numbers of records, the last entry, repeated for each target.
            numbers = [np.full(len(sums), table[-1].sum()) for table in differences]
            tables += differences + numbers
        sizes = [np.abs(table).reshape(len(sums), -1).sum(axis=1) for table in tables]
        return np.stack(sizes, axis=1)[: len(self.mean)]

    def columns(self, noisy):
        """Return the columns that matter to some target, in order; all if none clearly does.

        Post-processing of the released effects.
        """
        p = len(self.box[0])
        found = self._found(noisy)
        if not found:
            return list(range(p))
        if p <= _ALL_SETS or len(found) <= _ALL_SETS:
            return sorted(found)
        # Too many for a design of their own: take the strongest by their individual effects.
        return super().columns(self._alone(noisy))

    def hides_others(self, columns, noisy):
        """Whether no other column shows an effect, and their hidden effects are small.

        Post-processing of the released effects.
        """
        if not self._found(noisy) <= set(columns):
            return False
        return self._with_halves or super().hides_others(columns, self._alone(noisy))

    def smallest_visible_effect(self):
        """Return the mean size of an effect that barely stands out, in units of each target.

        Post-processing; for an effect of one column alone, with records spread evenly.
        """
        cells = 2 ** (len(self.box[0]) - 1) if self._with_halves else _BINS[1]
        hidden = self._unmoved(cells, 0.0) + self._least * self._deviation(2)
        return hidden / self.n_records * self.clip / UNCLIPPED

    def _alone(self, noisy):
        """Return the effects of single columns, then of the empty set, as in `ColumnEffects`."""
        return np.roll(noisy[:, : len(self.box[0]) + 1], -1, axis=1)

    def _found(self, noisy):
        """Return the columns that stand out for some target; none if none clearly does."""
        above = np.array([[self._above(e, j) for j in range(len(self.box[0]))] for e in noisy])
        stays = (above >= self._least).any(axis=0) & (above > self._sure).any()
        return set(np.flatnonzero(stays).tolist())

    def _above(self, effects, j):
        """Return the deviations by which effects of a column exceed those without an effect."""
        p, n_sets = len(self.box[0]), len(self._sets)
        of_set = dict(zip(self._sets, effects.tolist(), strict=False))
        found = []
        for A in (A for A in self._sets if j in A):
            rest = tuple(k for k in A if k != j)
            found.append(of_set[A] - self._unmoved(_BINS[len(A)] ** len(A), of_set[rest]))
        if self._with_halves:
            halves, numbers = effects[n_sets + j :: p]
            # If the halves hold different numbers of records, their sums differ as well.
            uneven = min(abs(numbers) / self.n_records, 1.0)
            if uneven > _ONE_HALF:  # its box may be in other units, and no effect visible
                return self._sure
            others = tuple(k for k in range(p) if k != j)
            found.append(halves - self._unmoved(2 ** (p - 1), uneven * of_set[others]))
        return max(found) / self._deviation(2)

    def _unmoved(self, cells, total):
        """Return the largest expected effect in `cells` without effect, given that of fewer cells.

        For records spread evenly over the cells, absolute means of cells between 0 and twice their
        average, and targets of variance 1, the largest possible.
        """
        sd = math.sqrt(self.n_records / cells)
        # The mean of E|N(s, sd)| over s from 0 to z sd.
        z = max(2 * total / (cells * sd), _LEAST_TOTAL)
        density = math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        return cells * sd * ((z**2 + 1) * (float(ndtr(z)) - 0.5) + z * density) / z
