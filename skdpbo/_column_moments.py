"""Private moments of the columns: a histogram of row norms, then one release of moments.

Both are Gaussian releases. The released quantile of the norms is the clipping radius of the
moments, so that a public box much wider than the data costs little.
"""

import math

import numpy as np

from skdpbo._record_groups import count_by_groups, histogram_step
from skdpbo.mechanisms import ClippedMean, GaussianMechanism, split_budget

_N_EDGES = 16  # radii sqrt(d) 2^(-k/2)
_HIDDEN = 3.0  # records that the noise hides, in standard deviations of a noisy count
_SHARE_OF_HISTOGRAM = 0.0625  # of the squared budget
# For `at_one_end`: largest noise, in half-widths; its standard deviations; and the least mean
# square and mean of records at one end (below 1, since rows are shortened).
_CLEAR_OF_ENDS, _FAR = 0.15, 3.0
_SQUARE, _MEAN = 0.95, 0.8
# For `is_box_wide`: standard deviations of the noise of a sum of squares by which rows that fill
# half of their box stand out; and the same if the model shows no effect of X either.
_FAR_ABOVE = 6.0
_ABOVE = 2.5
_IN_NOISE, _PLAIN = 2.0, 50.0  # ratio of variance to its noise: hidden below, clear above


def histogram_sensitivity():
    """Largest l2 change of counts when one record moves from a bin to another: sqrt 2, rounded up.

    The float `math.sqrt(2)` is above the exact root.
    """
    return math.sqrt(2.0)


def release_counts(counts, mu, sensitivity, source, sizes=None):
    """Release counts of records; with groups, a group counts as one record.

    Parameters
    ----------
    counts : ndarray of int
        In steps of `histogram_step`. Protected.
    mu : float
        Gaussian budget.
    sensitivity : float
        Largest l2 change of the counts, in records.
    source : RandomSource
    sizes : ndarray or None
        Number of records in the group of each row.

    Returns
    -------
    noisy : ndarray of the shape of `counts`
        Released, in records.
    sigma : float
        Standard deviation of the noise of a count.
    """
    step = histogram_step(sizes)
    n = counts.size
    mechanism = GaussianMechanism(mu=mu, sensitivity=sensitivity, lattice=step, n_draws=n)
    noisy = np.asarray(mechanism.release(counts.ravel(), source), dtype=np.float64) * step
    return noisy.reshape(counts.shape), mechanism.sigma


def norm_edges(n_features):
    """Return the edges of the histogram of row norms, ascending; the last bounds all norms."""
    return math.sqrt(n_features) * 2.0 ** (-0.5 * np.arange(_N_EDGES - 1.0, -1.0, -1.0))


def norm_counts(rows, edges, sizes=None):
    """Protected: count the rows whose norm lies between the edges, shape (n_edges,)."""
    counts = np.zeros(len(edges), dtype=np.int64)
    for part, block in rows:
        norms = np.sqrt(np.einsum("ij,ij->i", block, block))
        # Longer rows count in the last bin, so that every record is in exactly one.
        bins = np.minimum(np.searchsorted(edges, norms), len(edges) - 1)
        counts += count_by_groups(bins, len(edges), sizes, part)
    return counts


def release_radius(rows, edges, n_records, mu, quantile, source, sizes=None):
    """Release a quantile of the row norms: one of the edges.

    Parameters
    ----------
    rows : iterable of (slice, ndarray)
        Protected; passed to `norm_counts`.
    edges : ndarray
        Ascending; longer rows count at the last edge.
    n_records : int
    mu : float
        Gaussian budget.
    quantile : float or None
        None: the share of longer rows is what the noise of the counts hides, at most a tenth.
    source : RandomSource
    sizes : ndarray or None
        Number of records in the group of each row; `n_records` is then the number of groups.
    """
    counts = norm_counts(rows, edges, sizes)
    noisy, sigma = release_counts(counts, mu, histogram_sensitivity(), source, sizes)
    return quantile_edge(noisy, edges, n_records, sigma, quantile)


def quantile_edge(noisy, edges, n_records, sigma, quantile=None):
    """Return the edge at a quantile of counts with noise of `sigma`. Post-processing.

    None: one minus the share of records that the noise hides, at least .9.
    """
    if quantile is None:
        quantile = max(0.9, 1 - _HIDDEN * sigma / n_records)
    below = np.cumsum(nearest_counts(noisy, n_records))
    return float(edges[min(int(np.searchsorted(below, quantile * n_records)), len(edges) - 1)])


def nearest_counts(noisy, total):
    """Return the counts nearest to noisy ones that are at least 0 and add up to a public total.

    Without this projection, cumulated noisy counts reach a quantile too early if noise is large.

    Parameters
    ----------
    noisy : ndarray of shape (n_bins,)
        Released.
    total : int
        Positive.

    Returns
    -------
    ndarray of shape (n_bins,)
    """
    descending = np.sort(noisy)[::-1]
    # Projection onto a simplex: subtract a shift from the k largest, k as large as it may be.
    shifts = (np.cumsum(descending) - total) / np.arange(1, len(noisy) + 1)
    # Never empty, also in floats: for k = 1 the shift does not exceed the largest count.
    kept = np.flatnonzero(descending >= shifts)
    return np.maximum(noisy - shifts[kept[-1]], 0.0)


def moment_blocks(rows, radius):
    """Protected: yield (u, c u^2), u the row in units of `radius`, shortened to norm 1.

    Entries of scaled rows are at most 1, those of u at most 1 / radius. With c = max(1, radius) the
    squares have norm at most max |c u_j| |u| <= 1, and (u, c u^2) at most sqrt 2.
    """
    for _, block in rows:
        norms = np.sqrt(np.einsum("ij,ij->i", block, block))
        unit = block / np.maximum(norms, radius)[:, None]
        yield np.hstack([unit, max(1.0, radius) * unit * unit])


def release_moments(rows, mu, quantile, source):
    """Release the radius and the moments of the columns.

    Parameters
    ----------
    rows : BoxedRows or JoinedRows
        Protected.
    mu : float
        Gaussian budget of both releases together.
    quantile : float
        Share of the rows that the radius should not shorten, in (0, 1].
    source : RandomSource

    Returns
    -------
    radius : float
        Released quantile of the row norms.
    moments : ndarray of shape (2 d,)
        Released means of x and of x^2, in units of the radius.
    noise : tuple of two floats
        Standard deviations of the noise of a mean of x and of a mean of x^2.
    """
    n, d = rows.shape
    mu_moments, mu_histogram = split_budget(mu, _SHARE_OF_HISTOGRAM)
    radius = release_radius(rows, norm_edges(d), n, mu_histogram, quantile, source, rows.sizes)
    averaging = ClippedMean(clip=math.sqrt(2.0), n_records=n, mu=mu_moments)
    total = averaging.exact_total(moment_blocks(rows, radius), rows.sizes)[0]
    means, squares = np.split(averaging.noisy_mean(total, source), 2)
    scale = max(1.0, radius)
    # From c x^2 (see `moment_blocks`) back to x^2.
    moments = np.concatenate([means, squares / scale])
    return radius, moments, (averaging.sigma, averaging.sigma / scale)


def hidden_columns(moments, noise, low, high):
    """Return the columns whose spread noise hides, if that of most columns is clear of noise.

    Post-processing of released moments. Without columns of bounds 0 and 1, in which rare indicators
    have a small spread as well.

    Parameters
    ----------
    moments, noise
        As from `release_moments`.
    low, high : ndarray of shape (d,)
        Public box.
    """
    mean, square = np.split(moments, 2)
    in_noise = (square - mean**2) / np.hypot(noise[1], 2 * mean * noise[0])
    if not np.median(in_noise) > _PLAIN:
        return np.array([], dtype=int)
    return np.flatnonzero((in_noise < _IN_NOISE) & ~((low == 0) & (high == 1)))


def is_box_wide(radius, moments, noise, low, high, shows=True):
    """Whether noise hides the rows although rows that fill half of their box would stand out.

    Post-processing of released moments. A false alarm, if half of the rows reach half of the box or
    more, in quadratic mean over its columns, has probability at most 4e-5. Columns with the bounds
    0 and 1 do not count, as in `hidden_columns`.

    Parameters
    ----------
    radius, moments, noise
        As from `release_moments`, of these columns, which others may follow.
    low, high : ndarray of shape (d,)
        Public box.
    shows : bool, default=True
        Whether the released model shows an effect of the rows, if known. If not, a weaker criterion
        is used, which also covers rows hidden because there are too few.
    """
    taken = ~((low == 0) & (high == 1))
    d, squares = int(taken.sum()), np.split(moments, 2)[1]
    # Sum of squares of a row that reaches half of the box, with its other columns at their ends, in
    # the units of the moments, that is, shortened to the radius.
    reached = d / 4
    least = reached / max(reached + len(squares) - d, radius**2) / 2  # if half of the rows do
    sd = noise[1] * math.sqrt(d)
    in_noise = squares[: len(low)][taken].sum() < _IN_NOISE * sd
    return bool(in_noise and (_FAR_ABOVE if shows else _ABOVE) * sd <= least)


def at_one_end(mean, square, noise):
    """Return the columns whose records are nearly all at one end of their bounds, or beyond.

    Post-processing of released moments. Columns with much noise are left out.

    Parameters
    ----------
    mean, square : ndarray of shape (q,)
        Released, about the centre of the bounds, in units of half their width.
    noise : float or ndarray of shape (q,)
        Standard deviation of the noise of the square.

    Returns
    -------
    ndarray of int
    """
    clear, outer = _FAR * noise < _CLEAR_OF_ENDS, square + _FAR * noise >= _SQUARE
    return np.flatnonzero(clear & outer & (np.abs(mean) > _MEAN))
