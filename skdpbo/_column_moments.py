"""Private moments of the columns: a histogram of row norms, then one release of moments.

Both are Gaussian releases. The released quantile of the norms is the clipping radius of the
moments, so that a public box much wider than the data costs little.
"""

import math

import numpy as np

from skdpbo._record_groups import count_step, shared_counts
from skdpbo.mechanisms import ClippedMean, GaussianMechanism, split_budget

_N_EDGES = 16  # radii sqrt(d) 2^(-k/2)
_HIDDEN = 3.0  # standard deviations of a noisy count
_SHARE_OF_HISTOGRAM = 0.0625  # of the squared budget
_CLEAR_OF_ENDS, _FAR = 0.15, 3.0  # of the half-width; standard deviations of the noise
_SQUARE, _MEAN = 0.95, 0.8  # of records at one end; rows that are shortened have less than 1
_FAR_ABOVE = 6.0  # standard deviations of the noise of a sum of squares
_ABOVE = 2.5  # the same, where the model shows no effect of X either
_IN_NOISE, _PLAIN = 2.0, 50.0  # variance over its noise: of a hidden and of a plain spread


def histogram_sensitivity():
    """Largest l2 change of counts when one record moves from a bin to another: sqrt 2, rounded up.

    `math.sqrt(2)` rounds up: its square is above 2.
    """
    return math.sqrt(2.0)


def release_counts(counts, mu, sensitivity, source, sizes=None):
    """Release counts of records, of which those of a group share one.

    Parameters
    ----------
    counts : ndarray of int
        In steps of `count_step`. Protected.
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
        Standard deviation of the noise of each.
    """
    step = count_step(sizes)
    n = counts.size
    mechanism = GaussianMechanism(mu=mu, sensitivity=sensitivity, lattice=step, n_draws=n)
    noisy = np.asarray(mechanism.release(counts.ravel(), source), dtype=np.float64) * step
    return noisy.reshape(counts.shape), mechanism.sigma


def norm_edges(n_features):
    """Return the radii, ascending, that row norms are counted by; the last one bounds them all."""
    return math.sqrt(n_features) * 2.0 ** (-0.5 * np.arange(_N_EDGES - 1.0, -1.0, -1.0))


def norm_counts(rows, edges, sizes=None):
    """Protected: count the rows whose norm lies between the edges, shape (n_edges,)."""
    counts = np.zeros(len(edges), dtype=np.int64)
    for part, block in rows:
        norms = np.sqrt(np.einsum("ij,ij->i", block, block))
        # Longer rows are in the last bin: every record is in one, whatever its values.
        bins = np.minimum(np.searchsorted(edges, norms), len(edges) - 1)
        counts += shared_counts(bins, len(edges), sizes, part)
    return counts


def release_radius(rows, edges, n_records, mu, quantile, source, sizes=None):
    """Release a quantile of the row norms: one of the edges.

    Parameters
    ----------
    rows : iterable of (slice, ndarray)
        Protected; passed to `norm_counts`.
    edges : ndarray
        Ascending; longer rows are counted at the last one.
    n_records : int
    mu : float
        Gaussian budget.
    quantile : float or None
        None: as many rows may be longer as the noise of the counts hides, at most a tenth.
    source : RandomSource
    sizes : ndarray or None
        Number of records in the group of each row; `n_records` is then the number of groups.
    """
    counts = norm_counts(rows, edges, sizes)
    noisy, sigma = release_counts(counts, mu, histogram_sensitivity(), source, sizes)
    return quantile_edge(noisy, edges, n_records, sigma, quantile)


def quantile_edge(noisy, edges, n_records, sigma, quantile=None):
    """Return the edge at a quantile of counts with noise of `sigma`. Post-processing.

    None: the quantile beyond which the noise hides the records, at least .9.
    """
    if quantile is None:
        quantile = max(0.9, 1 - _HIDDEN * sigma / n_records)
    below = np.cumsum(nearest_counts(noisy, n_records))
    return float(edges[min(int(np.searchsorted(below, quantile * n_records)), len(edges) - 1)])


def nearest_counts(noisy, total):
    """Return the counts nearest to noisy ones that are at least 0 and add up to a public total.

    Sums of the noisy counts themselves pass a share of the total too early, where the noise is
    large.

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
    # What the k largest have to lose to add up to the total; k where the least stays positive.
    shifts = (np.cumsum(descending) - total) / np.arange(1, len(noisy) + 1)
    # Never empty, in floats either: of one count alone the shift is not above it.
    kept = np.flatnonzero(descending >= shifts)
    return np.maximum(noisy - shifts[kept[-1]], 0.0)


def moment_blocks(rows, radius):
    """Protected: yield (u, c u^2), u the row in units of `radius`, cut to norm 1.

    Entries of the box are at most 1, those of u at most 1 / radius: with c = max(1, radius) the
    squares have norm at most max |c u_j| |u| <= 1, and a record at most sqrt 2.
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
    """Return the columns whose spread its noise hides, where that of most columns is plain.

    Post-processing of released moments. Columns with the bounds 0 and 1 are never among them: rare
    indicators spread as little there.

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
    """Whether the rows hide in the noise, where those that fill half of their box would stand out.

    Post-processing of released moments. Where half of the rows reach half of the box or more, in
    quadratic mean over its columns, it is so by chance alone: in at most 4e-5 of all fits. Columns
    with the bounds 0 and 1 do not count, as in `hidden_columns`.

    Parameters
    ----------
    radius, moments, noise
        As from `release_moments`, of these columns and perhaps others after them.
    low, high : ndarray of shape (d,)
        Public box.
    shows : bool, default=True
        Whether the released model shows an effect of the rows, as far as is known. Where not,
        less noise than that will do: rows that hide for want of records are meant, too.
    """
    taken = ~((low == 0) & (high == 1))
    d, squares = int(taken.sum()), np.split(moments, 2)[1]
    # A row that reaches half of the box, all its other columns being at their ends, in the units
    # of the moments: shortened to the radius.
    reached = d / 4
    least = reached / max(reached + len(squares) - d, radius**2) / 2  # of half of the rows
    sd = noise[1] * math.sqrt(d)
    in_noise = squares[: len(low)][taken].sum() < _IN_NOISE * sd
    return bool(in_noise and (_FAR_ABOVE if shows else _ABOVE) * sd <= least)


def at_one_end(mean, square, noise):
    """Return the columns whose records are nearly all at one end of their bounds, or beyond.

    Post-processing of released moments. Of a column whose noise is not small nothing is known.

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
