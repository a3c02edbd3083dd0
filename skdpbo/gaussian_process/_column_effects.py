r"""Columns that matter, from a release of the effect size of each (docs: First releases).

The effect size of column j is :math:`u_j = \sum_b |\sum_{i: x_{ij} \in b} v_i|` over 16 bins b of a
public or released box, :math:`v_i \in [-1, 1]` the clipped target: n times the mean absolute effect
of the column, however rough it is. Replacing a record changes each effect size by at most 2.
"""

import math

import numpy as np
from scipy.special import ndtr

from skdpbo._exact_gram import RowMap
from skdpbo._record_groups import divide_by_group_size
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.privacy._rounding import round_up_root

N_BINS = 16
STEPS = 2**16  # lattice steps per 1
_CLIP = 0.5  # of targets, in standard deviations: makes small effects stand out best
_VARIANCE = 0.74  # of normal targets after clipping, in units of the clipping bound
_ABOVE = 1.0  # standard deviations by which an effect must exceed the largest noise
_LEAST_EFFECT = 0.2  # of the largest effect
_MOST_HIDDEN = 0.2  # largest share of the variance that noise may hide in columns left out
UNCLIPPED = 0.383  # share of normal targets that are not clipped, which show a small effect
_MOST_COLUMNS = 6  # of correlated columns, the strongest carry most of the information
STRONG = 0.4  # mean size of a strong effect; if noise hides it, nothing is released


def effect_noise(mu, n_effects):
    """Return the noise's standard deviation in effects of the largest weight, in records."""
    return 2 * math.sqrt(n_effects) / mu


def sampling_error(n_records):
    """Return the standard deviation of an effect by sampling of `n_records` records."""
    # sqrt(1 - 2 / pi) sqrt(_VARIANCE n), that of a sum of absolute values of normal variables.
    return math.sqrt((1 - 2 / math.pi) * _VARIANCE * n_records)


def _largest(p):
    """Return the approximate size of the largest of p independent normal deviates."""
    return math.sqrt(2 * math.log(p))


class ColumnEffects(RowMap):
    """Release of the size of each column's effect, and the choice of columns.

    It has the interface of a release of second moments; its sums are those of targets per bin.

    Parameters
    ----------
    box : tuple (centre, half_width) of ndarray of shape (p,)
        Public or released; records outside count as if on its faces.
    mu : float
        The release is mu-GDP.
    mean, sd : ndarray of shape (q,)
        Mean and standard deviation (> 0) of the targets about the centre; public or released.
    n_records : int
    """

    _n_bins = N_BINS  # of a column
    radius = math.isqrt(STEPS)  # sums of values, not of products, must fit 64 bits

    def __init__(self, box, *, mu, mean, sd, n_records):
        self.box, self.mu, self.n_records = box, mu, n_records
        self.mean, self.clip, self.width = mean, _CLIP * sd, len(box[0]) + len(mean)
        self._noise = effect_noise(mu, self.n_effects(len(box[0])) * len(mean))

    @staticmethod
    def weights(n_columns):
        """Return the integer weights of the effects of a target; a larger weight, less noise."""
        return np.ones(n_columns + 1, dtype=np.int64)

    @classmethod
    def n_effects(cls, n_columns):
        """Return the number of effects of a target, weighted by their relative squared weights."""
        weights = cls.weights(n_columns)
        return float(np.square(weights / weights.max()).sum())

    @staticmethod
    def can_show_effects(mu, *, n_records, n_columns, n_targets):
        """Whether a mu-GDP release can show a strong effect of a column, by public values."""
        noise = effect_noise(mu, ColumnEffects.n_effects(n_columns) * n_targets)
        return STRONG * n_records > (_largest(n_columns) + _ABOVE) * noise

    @staticmethod
    def most_mu(**public):
        """Return the mu beyond which the release is no better; arguments of `can_show_effects`."""
        return math.inf

    def __call__(self, X, Y, workspace):
        """Protected: return rows (bin of each column, target in steps), (n, width), as floats."""
        centre, half_width = self.box
        with np.errstate(all="ignore"):  # a warning would depend on the values
            # If a difference overflows, the record still has one bin in each column.
            places = np.nan_to_num((X - centre) / half_width)
            bins = np.clip(np.floor((places + 1) * (N_BINS / 2)), 0, N_BINS - 1)
            targets = (Y - (self.centre + self.mean)) / self.clip
            values = np.trunc(np.clip(np.nan_to_num(targets), -1, 1) * STEPS)
        return np.hstack([bins, values])

    def sums(self, Q, sizes, part):
        """Protected: return the sums per bin, int64 (q, p + 1, bins); the last row: the totals."""
        p = len(self.box[0])
        bins, values = Q[:, :p].astype(np.intp), divide_by_group_size(Q[:, p:], sizes, part)
        sums = np.zeros((values.shape[1], p + 1, N_BINS), dtype=np.int64)
        for target, weights in enumerate(values.T):
            # Exact: sums of integers below 2^53.
            for column in range(p):
                sums[target, column] = np.bincount(bins[:, column], weights, N_BINS)
            # The total of all targets is stored as a column with one bin.
            sums[target, p, 0] = weights.sum()
        return sums

    def release(self, sums, source):
        """Protected: return the effects with noise, shape (q, n_effects), in records."""
        weights, effects = self.weights(len(self.box[0])), self._effects(sums)
        # Replacing a record changes an effect of weight w by at most 2 w, and all of them in l2
        # norm by 2 |w| (docs/theory/first_releases.md, Lemma); here in lattice steps.
        squared = len(effects) * int(np.square(weights).sum())
        mechanism = GaussianMechanism(
            mu=self.mu,
            sensitivity=round_up_root(4 * STEPS**2 * squared),
            lattice=1.0,
            n_draws=effects.size,
        )
        noisy = np.asarray(mechanism.release((weights * effects).ravel(), source), dtype=np.float64)
        return noisy.reshape(effects.shape) / (STEPS * weights)

    def _effects(self, sums):
        """Protected: return the exact effects, int64 (q, p + 1), in lattice steps."""
        return np.abs(sums).sum(axis=2)

    def columns(self, noisy):
        """Return the columns that matter to some target, in order; all if none stands out.

        Post-processing of the released effects.
        """
        p, found = len(self.box[0]), set()
        for effects in noisy:
            # docs/theory/many_columns.md, Columns that stand out.
            above = effects[:p] - self._without_effect(abs(effects[p]))
            least = max((_largest(p) + _ABOVE) * self._noise, _LEAST_EFFECT * above.max())
            largest = np.argsort(-above, kind="stable")[:_MOST_COLUMNS]
            found |= {int(j) for j in largest if above[j] > least}
        return sorted(found) or list(range(p))

    def hides_others(self, columns, noisy):
        """Whether no other column shows an effect, and their hidden effects are small.

        Post-processing of the released effects.
        """
        p = len(self.box[0])
        size = _largest(p) * self._noise / self.n_records * _CLIP / UNCLIPPED
        if (p - len(columns)) * size**2 > _MOST_HIDDEN:
            return False
        others = np.delete(noisy[:, :p], columns, axis=1)
        none = np.array([self._without_effect(abs(effects[p])) for effects in noisy])
        return bool((others <= none[:, None] + _largest(p) * self._deviation()).all())

    def smallest_visible_effect(self):
        """Return the mean size of an effect that barely stands out, in units of each target.

        Post-processing.
        """
        hidden = self._without_effect(0.0) + _largest(len(self.box[0])) * self._deviation()
        return hidden / self.n_records * self.clip / UNCLIPPED

    def _deviation(self, n_noisy=1):
        """Return the standard deviation of an effect of 0, or of a difference of two noisy ones."""
        return math.hypot(math.sqrt(n_noisy) * self._noise, sampling_error(self.n_records))

    def _without_effect(self, total):
        """Return the expected size for a column without effect, given the sum of all targets."""
        # For records that are spread evenly over the bins, independently of their targets.
        mean, sd = total / self._n_bins, math.sqrt(_VARIANCE * self.n_records / self._n_bins)
        z = mean / sd  # expected absolute value of a normal variable:
        density = math.exp(-(z**2) / 2) * math.sqrt(2 / math.pi)
        return self._n_bins * (sd * density + mean * (1 - 2 * float(ndtr(-z))))
