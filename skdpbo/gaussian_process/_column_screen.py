r"""Columns that matter, by a first release (docs: private choice of a kernel, Many columns).

A record is :math:`(\phi(x), \beta y)`, :math:`\phi` the features of an additive kernel: a constant
and cosines :math:`w_l \cos(l\pi t_j)`, l = 1 to 4, of the place :math:`t_j` in [0, 1] of each
column in a public box, :math:`w_l^2 \propto 1/l`. :math:`\|\phi\| \le 1` everywhere.
"""

import math

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from skdpbo._exact_gram import rows_on_lattice
from skdpbo._gram_release import lifted
from skdpbo._whitened_release import WhitenedRelease

__all__ = ["AdditiveRows", "ColumnScreen"]

_N_WAVES = 4
_SHARE_OF_CONSTANT = 0.1  # of the squared norm
_SIGNAL_SHARE = 1 / 6  # of the squared half-width: the variance of the default kernels
_AMPLITUDES = (1.0, 0.25, 0.0625, 0.015625)  # of a column's variance
_FIRST_GAIN = 5.0  # log odds; with less, columns were left out that a linear model needs
_FULL, _FULL_SD = 0.15, 0.3  # mean of the second wave in a full box: normal, before the release
_HALF_WIDTH = math.sqrt(3)  # standard deviations: of the box that uniform records would fill
_LEAST_EXTENT = 0.125  # of the box
_LEAST_REACH = 2.0  # of the targets, in root mean squares
_RECORDS_BEYOND = 20.0  # over mu: of normal targets about as many are clipped as the noise hides
_SMALLEST = 1e-9  # of the mean variance; keeps the linear algebra finite


class AdditiveRows:
    r"""Rows :math:`(\phi(x), \beta_1 y_1, \dots)` as lattice integers of norm at most `radius`.

    Parameters
    ----------
    box : tuple (centre, half_width) of ndarray of shape (p,)
        Public.
    centre : ndarray of shape (q,)
        Public, subtracted from the targets.
    release : WhitenedRelease
    """

    def __init__(self, box, centre, release):
        self.box, self.centre, self.beta = box, centre, release.beta
        self.half_width = np.asarray(release.half_width)
        self.step, self.radius = release.step, release.radius
        self.width = 1 + _N_WAVES * len(box[0]) + len(self.beta)

    def workspace(self, n_rows):
        """Nothing is kept between chunks."""
        return None

    def __call__(self, X, Y, workspace):
        """Protected: return a chunk's rows, shape (n, width): integers held as floats."""
        with np.errstate(all="ignore"):  # a warning would depend on the values
            targets = np.clip(Y - self.centre, -self.half_width, self.half_width) * self.beta
            rows = np.hstack([additive_features(X, *self.box), targets])
        return rows_on_lattice(rows, self.step, self.radius)


def additive_features(X, centre, half_width):
    """Protected: return phi of rows, (n, 1 + 4 p): the constant, then the waves of each column."""
    n, p = X.shape
    first = np.cos(np.pi / 2 * (1 + np.clip((X - centre) / half_width, -1, 1)))
    waves, before = [first], np.ones_like(first)
    # cos((l + 1) u) = 2 cos u cos(l u) - cos((l - 1) u): Chebyshev, one cosine for all waves.
    while len(waves) < _N_WAVES:
        waves.append(2 * first * waves[-1] - before)
        before = waves[-2]
    columns = np.stack(waves, axis=2) * _wave_weights(p)
    return np.hstack([np.full((n, 1), math.sqrt(_SHARE_OF_CONSTANT)), columns.reshape(n, -1)])


def _wave_weights(p):
    """Return the weights of the waves of one of p columns."""
    # Squares of sum (1 - share of the constant) / p: cosines are at most 1, so |phi| <= 1.
    weights = 1 / np.sqrt(np.arange(1, _N_WAVES + 1))
    return weights * math.sqrt((1 - _SHARE_OF_CONSTANT) / p) / np.linalg.norm(weights)


class ColumnScreen:
    """First release, and the columns of which it shows an effect.

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
        self.box = box
        self.statistics = WhitenedRelease(mu, tuple(half_width.tolist()), n_records)

    def rows(self, centre):
        """Return the map of records to lattice rows, for targets about `centre`."""
        return AdditiveRows(self.box, centre, self.statistics)

    def release(self, gram, source):
        """Protected: return the exact sums `gram` with noise, as `NoisyMoments`."""
        return self.statistics.release(gram, source)

    def columns(self, moments):
        """Return the columns that matter to some target, in order; all where none stands out.

        Post-processing of the released `moments`. Columns enter one by one, the one with the
        largest evidence first, while their odds are better than 1 in the number of columns.
        """
        p = len(self.box[0])
        # Noise makes B indefinite; a covariance made of it must not be.
        B = lifted(moments.B, moments.sb, self.statistics.n_records)
        found = set()
        for j in range(len(moments.sa)):
            found |= self._of_target(B, moments, j)
        return sorted(found) or list(range(p))

    def extent(self, moments):
        r"""Return the part of the box, about its centre, that the records fill; at most 1.

        Post-processing of the released `moments`. Of normal records of standard deviation t
        half-widths the mean of the second wave is :math:`-\exp(-\pi^2 t^2/2)`. Its average over
        the columns is drawn to that of a full box as far as the noise prevails.
        """
        p, n = len(self.box[0]), self.statistics.n_records
        scale = n * math.sqrt(_SHARE_OF_CONSTANT) * _wave_weights(p)[1]
        # Row 0 of B, products with the constant: sums of the waves, of which l = 2 is every fourth.
        average = -float(moments.B[0, 2::_N_WAVES].mean()) / scale
        noise = moments.sb / (math.sqrt(2 * p) * scale)
        # Posterior mean under the normal prior N(_FULL, _FULL_SD^2).
        mean = _FULL + (average - _FULL) / (1 + (noise / _FULL_SD) ** 2)
        if mean <= 0:
            return 1.0
        spread = math.sqrt(max(-2 * math.log(mean), 0.0)) / math.pi
        return min(max(_HALF_WIDTH * spread, _LEAST_EXTENT), 1.0)

    def reach(self, moments):
        r"""Return half-widths that few targets exceed, shape (q,), at most those of the ranges.

        Post-processing of the released `moments`: :math:`\max\{2, \sqrt{2 \log(n\mu/20)}\}` times
        the root mean square about the centre, one standard deviation of its noise included.
        """
        n, largest = self.statistics.n_records, np.asarray(self.statistics.half_width)
        # In units of the largest, so that nothing of tiny or huge targets is lost.
        squares = (np.maximum(moments.yy.diagonal(), 0.0) + moments.syy) / largest**2 / n
        beyond = max(n * self.statistics.mu / _RECORDS_BEYOND, 1.0)
        factor = max(_LEAST_REACH, math.sqrt(2 * math.log(beyond)))
        return largest * np.minimum(1.0, factor * np.sqrt(squares))

    def _of_target(self, B, moments, j):
        """Return the set of columns of one target."""
        p, n = len(self.box[0]), self.statistics.n_records
        largest = self.statistics.half_width[j] ** 2
        noise = float(np.clip(moments.yy[j, j] / n, _SMALLEST * largest, largest))
        # Weights of variance 2 p / .9 per unit: a column's waves have variance 1 in the box.
        unit = _SIGNAL_SHARE * largest
        scale = 2 * p * unit / (1 - _SHARE_OF_CONSTANT)
        constant = B[:, :1] * math.sqrt(unit / _SHARE_OF_CONSTANT)
        # Of A', given the columns found so far; each adds a B_j B_j', B_j its block of B.
        covariance = noise * B + moments.sa[j] ** 2 * np.eye(len(B)) + constant @ constant.T
        blocks = B[:, 1:].reshape(len(B), p, -1)
        found = []
        while len(found) < p:
            gains, factors = _gains(covariance, moments.A[:, j], blocks, scale)
            gains[found] = -np.inf
            best = int(np.argmax(gains))
            if gains[best] < (math.log(p) if found else _FIRST_GAIN):
                break
            found.append(best)
            block = blocks[:, best]
            covariance = covariance + factors[best] * scale * block @ block.T
        return set(found)


def _gains(covariance, A, blocks, scale):
    r"""Return the gain in log evidence by each column, and its best amplitude.

    With :math:`U` the block of a column, :math:`G = U'C^{-1}U`, :math:`h = U'C^{-1}A` and weights
    of variance a the gain is :math:`\frac12 h'(I/a + G)^{-1}h - \frac12 \log|I + aG|`, averaged
    over the amplitudes.
    """
    m, p, width = blocks.shape
    raised = covariance + _SMALLEST * np.trace(covariance) / m * np.eye(m)
    # One factorisation for all columns: C^-1 of A' and of every block.
    solved = cho_solve(cho_factor(raised, lower=True), np.column_stack([A, blocks.reshape(m, -1)]))
    h = np.einsum("mpk,m->pk", blocks, solved[:, 0])
    G = np.einsum("mpk,mpl->pkl", blocks, solved[:, 1:].reshape(m, p, width))
    variances = scale * np.array(_AMPLITUDES)
    M = np.eye(width) + variances[:, None, None, None] * G
    explained = variances[:, None] * np.einsum(
        "pk,apk->ap", h, np.linalg.solve(M, np.broadcast_to(h, M.shape[:3])[..., None])[..., 0]
    )
    gains = (explained - np.linalg.slogdet(M)[1]) / 2
    factors = np.array(_AMPLITUDES)[gains.argmax(axis=0)]
    return np.logaddexp.reduce(gains, axis=0) - math.log(len(_AMPLITUDES)), factors
