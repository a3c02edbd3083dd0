r"""Extent of the records, mean and reach of the targets, by first releases.

A record of `RecordSpread` is :math:`(\phi(x), \beta y)`, :math:`\phi` a constant and the mean over
the columns of :math:`\cos(2\pi t_j)`, :math:`t_j` in [0, 1] the place in a public box.
:math:`\|\phi\| \le 1`. In one column where the noise is large, `RecordReach` counts distances.
"""

import math

import numpy as np

from skdpbo._column_moments import norm_edges, quantile_edge
from skdpbo._exact_gram import RowMap, rows_on_lattice
from skdpbo._gram_release import GramMethod, WhitenedRelease
from skdpbo._record_groups import divide_by_group_size
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.privacy._rounding import round_up_root

_PART = math.sqrt(0.5)  # of the norm: of the constant and of the wave
_FULL, _FULL_SD = 0.15, 0.3  # mean of the wave in a full box: normal, before the release
_HALF_WIDTH = math.sqrt(3)  # standard deviations: of the box that uniform records would fill
_LEAST_EXTENT = 0.125  # of the box
_NARROW, _FAR = 1 / 6, 3.0  # of the box; standard deviations of the noise
_LEAST_REACH = 2.0  # of the targets, in standard deviations
_RECORDS_BEYOND = 20.0  # over mu: of normal targets about as many are clipped as the noise hides
# Of the targets' mean before the release, in half-widths: of few records the noise is as large.
_MEAN_SD = 0.5
_DRAWN = 2.0  # variances of the noise, over the square of the targets' mean
_LEAST_VARIANCE = 0.1  # of the mean square: the mean is noisy


def spread_features(X, centre, half_width):
    """Protected: return phi of rows, (n, 2): the constant and the mean of the waves."""
    # -1 at the centre and 1 at the faces: the mean is low where records are near the middle.
    waves = np.cos(np.pi * (1 + np.clip((X - centre) / half_width, -1, 1)))
    # One mean: an extent for each column is too noisy (docs/benchmarks/rejected_ideas.md).
    return _PART * np.column_stack([np.ones(len(X)), waves.mean(axis=1)])


class RecordSpread(GramMethod, RowMap):
    """First release: the part of the box that the records fill, mean and reach of the targets.

    Parameters
    ----------
    box : tuple (centre, half_width) of ndarray of shape (p,)
        Public; records outside count as if on its faces.
    mu : float
        The release is mu-GDP.
    half_width : ndarray of shape (q,)
        Of the ranges of the targets.
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

        Post-processing of the released `moments`. Of normal records of standard deviation t
        half-widths the mean of the wave is :math:`-\exp(-\pi^2 t^2/2)`. It is drawn to that of a
        full box as far as the noise prevails.
        """
        average, noise = self._wave(moments)
        # Posterior mean under the normal prior N(_FULL, _FULL_SD^2).
        mean = _FULL + (average - _FULL) / (1 + (noise / _FULL_SD) ** 2)
        if mean <= 0:
            return 1.0
        spread = math.sqrt(max(-2 * math.log(mean), 0.0)) / math.pi
        return min(max(_HALF_WIDTH * spread, _LEAST_EXTENT), 1.0)

    def is_wide(self, moments):
        """Whether the records fill less than a sixth of the box about its centre, noise or not.

        Post-processing of the released `moments`. Of records elsewhere in a wide box nothing is
        known: those in a corner and those of values at both faces have the same wave.
        """
        average, noise = self._wave(moments)
        # docs/theory/first_releases.md, Range of the targets.
        narrow = math.exp(-((math.pi * _NARROW / _HALF_WIDTH) ** 2) / 2)
        return average - _FAR * noise > narrow

    def _wave(self, moments):
        """Return the mean of the wave, 1 of records at the centre, and its noise."""
        scale = self.statistics.n_records * _PART**2
        return -float(moments.B[0, 1]) / scale, moments.sb / math.sqrt(2) / scale

    def location(self, moments, mu, centred=False):
        r"""Return mean and standard deviation of the targets about the centre, and their reach.

        Post-processing of the released `moments`. The mean is drawn to 0: up to root 2 standard
        deviations of its noise it is 0, as where a user's centre is right. Few targets are farther
        from it than the reach, :math:`\max\{2, \sqrt{2 \log(n\mu/20)}\}` standard deviations, one
        of the noise of their square and the error of the mean included.

        Parameters
        ----------
        moments : NoisyMoments
        mu : float
            Of the noise that hides the targets beyond.
        centred : bool, default=False
            The mean is 0, publicly.

        Returns
        -------
        mean, sd, reach : ndarray of shape (q,)
            In the units of the targets; the last is at most the half-width of their range.
        """
        # In units of the largest, so that nothing of tiny or huge targets is lost.
        n, largest = self.statistics.n_records, np.asarray(self.statistics.half_width)
        mean, noise = moments.A[0] / (n * _PART * largest), moments.sa / (n * _PART * largest)
        least = np.maximum(noise**2, np.finfo(float).tiny)
        # m, v and r of docs/theory/first_releases.md, Range of the targets.
        share = np.maximum(mean**2 - _DRAWN * noise**2, 0.0) / np.maximum(mean**2, least)
        # Residuals of a public model lie about 0: a mean of theirs would be noise.
        share = share * (not centred) / (1 + (noise / _MEAN_SD) ** 2)
        mean = np.clip(share * mean, -1.0, 1.0)
        # One deviation of its noise more: a reach that is too wide clips no targets.
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


_EDGES = norm_edges(1)  # parts of a half-width that distances from the centre are counted by
_STEPS = 2**16  # of the lattice, to one record
# Noise of a count over the number of records: with less the moments show as much, with more it
# shows nothing.
_LEAST_NOISE, _MOST_NOISE = 0.02, 0.5


def _count_noise(mu, n_targets):
    """Return the standard deviation of the noise of a count, in records."""
    # One count of each of 1 + q histograms falls by 1, and another one grows by 1.
    return math.sqrt(2 * (1 + n_targets)) / mu


def shows_reach(mu, *, n_records, n_columns, n_targets):
    """Whether a mu-GDP release shows how far records and targets reach; of public values."""
    noise = _count_noise(mu, n_targets) / n_records
    return n_columns == 1 and _LEAST_NOISE < noise < _MOST_NOISE


class RecordReach(RowMap):
    """Release of the parts of their bounds that records and targets fill, about the centres.

    It has the calls of a release of second moments; its sums are counts of records by their
    distance from the centre, and by that of each target.

    Parameters
    ----------
    box, mu, half_width, n_records
        As of `RecordSpread`; the box is of one column.
    """

    def __init__(self, box, *, mu, half_width, n_records):
        self.box, self.half_width = box, half_width
        self.mu, self.n_records = mu, n_records
        self.width = len(_EDGES) * (1 + len(half_width))
        self.radius = math.isqrt(_STEPS)  # counts, not products, must fit 64 bits

    def __call__(self, X, Y, workspace):
        """Protected: return a chunk's rows of counts, (n, width), of `_STEPS`, held as floats."""
        with np.errstate(all="ignore"):  # a warning would depend on the values
            places, targets = (X - self.box[0]) / self.box[1], (Y - self.centre) / self.half_width
            parts = np.abs(np.hstack([places, targets]))
        # Farther ones are counted at the last edge: each record is in one bin of each histogram.
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
        """Return the parts of the box and of the ranges that are filled, shape (1 + q,).

        Post-processing of the released counts: about as many records lie beyond as the noise hides.
        """
        noise = _count_noise(self.mu, len(self.half_width))
        return np.array([quantile_edge(row, _EDGES, self.n_records, noise) for row in noisy])
