r"""First releases of the extent of the records and of mean and reach of the targets.

A record of `RecordSpread` is :math:`(\phi(x), \beta y)` with :math:`\|\phi\| \le 1`: :math:`\phi`
holds a constant and the mean over the columns of a wave :math:`\cos(2\pi t_j)`, :math:`t_j` in
[0, 1] the place in a public box. With one column and large noise, `RecordReach` counts distances.
"""

import math

import numpy as np

from skdpbo._column_moments import norm_edges, quantile_edge
from skdpbo._exact_gram import RowMap, rows_on_lattice
from skdpbo._gram_release import GramMethod, WhitenedRelease
from skdpbo._record_groups import divide_by_group_size
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.privacy._rounding import round_up_root

_PART = math.sqrt(0.5)  # norm of the constant, and of the wave at most
_FULL, _FULL_SD = 0.15, 0.3  # normal prior of the mean of the wave, that of a full box
_HALF_WIDTH = math.sqrt(3)  # of a box of uniform records, in their standard deviations
_LEAST_EXTENT = 0.125  # of the box
_NARROW, _FAR = 1 / 6, 3.0  # share of a box that is too wide; standard deviations of the noise
_LEAST_REACH = 2.0  # of the targets, in standard deviations
_RECORDS_BEYOND = 20.0  # over mu: number of normal targets to be clipped, which the noise hides
_MEAN_SD = 0.5  # prior standard deviation of the targets' mean, in half-widths
_DRAWN = 2.0  # noise variances below which the squared mean of the targets is taken as 0
_LEAST_VARIANCE = 0.1  # of the mean square, as the mean is noisy


def spread_features(X, centre, half_width):
    """Protected: return phi of rows, (n, 2): the constant and the mean of the waves."""
    # Waves are -1 at the centre and 1 at the faces: the mean is low if records are near the centre.
    waves = np.cos(np.pi * (1 + np.clip((X - centre) / half_width, -1, 1)))
    # One mean: an extent for each column is too noisy (docs/benchmarks/rejected_ideas.md).
    return _PART * np.column_stack([np.ones(len(X)), waves.mean(axis=1)])


class RecordSpread(GramMethod, RowMap):
    """Release of the part of the box that the records fill, and mean and reach of the targets.

    Parameters
    ----------
    box : tuple (centre, half_width) of ndarray of shape (p,)
        Public; records outside count as if on its faces.
    mu : float
        The release is mu-GDP.
    half_width : ndarray of shape (q,)
        Half-widths of the ranges of the targets.
    n_records : int
    """

    def __init__(self, box, *, mu, half_width, n_records):
        self.box, self.half_width = box, half_width
        self.statistics = WhitenedRelease(mu, tuple(half_width.tolist()), n_records)
        self.radius, self.width = self.statistics.radius, 2 + len(half_width)

    def __call__(self, X, Y, workspace):
        """Protected: return a chunk's rows, shape (n, width): integers held as floats."""
        with np.errstate(all="ignore"):  # a warning would depend on the values
            targets = np.clip(Y - self.centre, -self.half_width, self.half_width)
            rows = np.hstack([spread_features(X, *self.box), targets * self.statistics.beta])
        return rows_on_lattice(rows, self.statistics.step, self.radius)

    def extent(self, moments):
        r"""Return the part of the box, about its centre, that the records fill; at most 1.

        Post-processing of the released `moments`. For normal records of standard deviation t
        half-widths the mean of the wave is :math:`-\exp(-\pi^2 t^2/2)`. The more noise, the more it
        is shrunk towards the value for a full box.
        """
        average, noise = self._wave(moments)
        # Posterior mean under the normal prior N(_FULL, _FULL_SD^2).
        mean = _FULL + (average - _FULL) / (1 + (noise / _FULL_SD) ** 2)
        if mean <= 0:
            return 1.0
        spread = math.sqrt(max(-2 * math.log(mean), 0.0)) / math.pi
        return min(max(_HALF_WIDTH * spread, _LEAST_EXTENT), 1.0)

    def is_wide(self, moments):
        """Whether the records clearly fill less than a sixth of the box, about its centre.

        Post-processing of the released `moments`. Records elsewhere in a wide box are not detected:
        those in a corner and those with values at both faces have the same mean wave.
        """
        average, noise = self._wave(moments)
        # docs/theory/first_releases.md, Range of the targets.
        narrow = math.exp(-((math.pi * _NARROW / _HALF_WIDTH) ** 2) / 2)
        return average - _FAR * noise > narrow

    def _wave(self, moments):
        """Return minus the mean of the wave, 1 for records at the centre, and its noise."""
        scale = self.statistics.n_records * _PART**2
        return -float(moments.B[0, 1]) / scale, moments.sb / math.sqrt(2) / scale

    def location(self, moments, mu, centred=False):
        r"""Return mean and standard deviation of the targets about the centre, and their reach.

        Post-processing of the released `moments`. The mean is shrunk to 0, and 0 up to sqrt 2
        standard deviations of its noise. Few targets are farther from it than the reach,
        :math:`\max\{2, \sqrt{2 \log(n\mu/20)}\}` standard deviations, which include one deviation
        of the noise of the mean square, and the error of the mean.

        Parameters
        ----------
        moments : NoisyMoments
        mu : float
            Budget whose noise hides the targets beyond the reach.
        centred : bool, default=False
            Whether the mean is publicly known to be about 0.

        Returns
        -------
        mean, sd, reach : ndarray of shape (q,)
            In the units of the targets; the last is at most the half-width of their range.
        """
        # In units of the largest target, so that squares neither underflow nor overflow.
        n, largest = self.statistics.n_records, np.asarray(self.statistics.half_width)
        mean, noise = moments.A[0] / (n * _PART * largest), moments.sa / (n * _PART * largest)
        least = np.maximum(noise**2, np.finfo(float).tiny)
        # m, v and r of docs/theory/first_releases.md, Range of the targets.
        share = np.maximum(mean**2 - _DRAWN * noise**2, 0.0) / np.maximum(mean**2, least)
        share = share * (not centred) / (1 + (noise / _MEAN_SD) ** 2)
        mean = np.clip(share * mean, -1.0, 1.0)
        # One deviation of the noise is added, as a reach that is too wide does no harm.
        squares = np.maximum(moments.yy.diagonal(), 0.0) + moments.syy
        squares = squares / largest**2 / n
        variance = np.maximum(squares - mean**2, _LEAST_VARIANCE * squares)
        factor = max(_LEAST_REACH, math.sqrt(2 * math.log(max(n * mu / _RECORDS_BEYOND, 1.0))))
        reach = factor * np.sqrt(variance + share * noise**2)
        return (
            largest * mean,
            largest * np.minimum(np.sqrt(variance), 1.0),
            largest * np.minimum(reach, 1.0),
        )


_EDGES = norm_edges(1)  # bins of distances from the centre, in half-widths
_STEPS = 2**16  # lattice steps per record
# Noise of a count over the number of records: with less the moments suffice, with more the counts
# carry no information.
_LEAST_NOISE, _MOST_NOISE = 0.02, 0.5


def _count_noise(mu, n_targets):
    """Return the standard deviation of the noise of a count, in records."""
    # In each of 1 + q histograms one count decreases by 1, and another one increases by 1.
    return math.sqrt(2 * (1 + n_targets)) / mu


def shows_reach(mu, *, n_records, n_columns, n_targets):
    """Whether a mu-GDP release of reaches is useful, by public values."""
    noise = _count_noise(mu, n_targets) / n_records
    return n_columns == 1 and _LEAST_NOISE < noise < _MOST_NOISE


class RecordReach(RowMap):
    """Release of the shares of their bounds that records and targets fill, about the centres.

    It has the interface of a release of second moments; its sums are counts of records by their
    distance from the centre, and by that of each target.

    Parameters
    ----------
    box, mu, half_width, n_records
        As in `RecordSpread`; the box has one column.
    """

    def __init__(self, box, *, mu, half_width, n_records):
        self.box, self.half_width = box, half_width
        self.mu, self.n_records = mu, n_records
        self.width = len(_EDGES) * (1 + len(half_width))
        self.radius = math.isqrt(_STEPS)  # counts, not products, must fit 64 bits

    def __call__(self, X, Y, workspace):
        """Protected: return a chunk's rows of counts, (n, width), in steps, held as floats."""
        with np.errstate(all="ignore"):  # a warning would depend on the values
            places, targets = (X - self.box[0]) / self.box[1], (Y - self.centre) / self.half_width
            parts = np.abs(np.hstack([places, targets]))
        # Farther ones count in the last bin: each record is in one bin of each histogram.
        bins = np.minimum(np.searchsorted(_EDGES, parts), len(_EDGES) - 1)
        return (np.eye(len(_EDGES))[bins] * _STEPS).reshape(len(X), -1)

    def sums(self, Q, sizes, part):
        """Protected: return the counts, int64, in steps."""
        return divide_by_group_size(Q, sizes, part).astype(np.int64).sum(axis=0)

    def release(self, sums, source):
        """Protected: return the counts with noise, shape (1 + q, bins)."""
        # docs/theory/first_releases.md, Reach in one column.
        sensitivity = round_up_root(2 * _STEPS**2 * (1 + len(self.half_width)))
        mechanism = GaussianMechanism(
            mu=self.mu, sensitivity=sensitivity, lattice=1.0, n_draws=sums.size
        )
        noisy = np.asarray(mechanism.release(sums, source), dtype=np.float64) / _STEPS
        return noisy.reshape(-1, len(_EDGES))

    def parts(self, noisy):
        """Return the filled shares of the box and of the ranges, shape (1 + q,).

        Post-processing of the released counts: about as many records lie beyond as noise hides.
        """
        noise = _count_noise(self.mu, len(self.half_width))
        return np.array([quantile_edge(row, _EDGES, self.n_records, noise) for row in noisy])
