"""Extent of the records of one column and of their targets, by noisy counts of distances."""

import math

import numpy as np

from skdpbo._column_moments import hidden_quantile, norm_edges, quantile_edge
from skdpbo._exact_gram import RowMap
from skdpbo._record_groups import shared
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.privacy._rounding import round_up_root

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
    box : tuple (centre, half_width) of ndarray of shape (1,)
        Public.
    mu : float
        The release is mu-GDP.
    half_width : ndarray of shape (q,)
        Of the ranges of the targets.
    n_records : int
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
        return shared(Q, sizes, part).astype(np.int64).sum(axis=0)

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
        quantile = hidden_quantile(noise, self.n_records)
        return np.array([quantile_edge(row, _EDGES, self.n_records, quantile) for row in noisy])
