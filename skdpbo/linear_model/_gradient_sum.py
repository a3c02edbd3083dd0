"""Sum of clipped gradients of a generalised linear model, in exact integers.

The gradient of a record is the outer product of its row z and its residual r. Both are put on
lattices: z of step 2^-16, and r, shortened so that |r| |z| is at most the clipping norm, truncated
toward zero. Products and sums of these integers are exact, so that replacing a record changes the
sum by its old and its new term alone.
"""

import math

import numpy as np
from scipy.special import expit, softmax

from skdpbo._record_groups import divide_by_group_size
from skdpbo.mechanisms import GaussianMechanism

_ROW_BITS = 16  # steps of a row of norm 1
_RESIDUAL_BITS = 20
_LARGEST_ENTRY = 2.0**30
_SLACK = 2.0**-30  # covers the rounding of norms and quotients of up to 2^20 columns
_SUM_BITS, _NOISE_BITS = 61, 48


def gradient_sensitivity(bound):
    """Largest l2 change, under one substitution, of the sum of gradients of norm at most `bound`.

    The old gradient is subtracted and the new one added: 2 B, attained by g and -g.
    """
    return 2 * bound


def rows_on_grid(z, largest):
    """Truncate rows toward zero to integers, in place; float64 that hold integers.

    Parameters
    ----------
    z : ndarray of shape (n, d)
        Protected; in steps of 2^-16.
    largest : float
        Public or released bound on its entries; they are cut at 2^30 where it is larger.
    """
    np.trunc(z, out=z)
    return z if largest <= _LARGEST_ENTRY else np.clip(z, -_LARGEST_ENTRY, _LARGEST_ENTRY, out=z)


def residuals_on_lattice(residuals, norms, bound, bits):
    """Shorten and truncate residuals so that |r_i| norms_i <= bound, exactly.

    Parameters
    ----------
    residuals : ndarray of shape (n, k)
        Protected.
    norms : ndarray of shape (n,)
        Norms of the integer rows, at least 1, within a relative error of 2^-31.
    bound : float or ndarray of shape (n,)
        Clipping norm B, in units of the products; of each record.
    bits : int
        The lattice of the residuals has a step of 2^-bits.

    Returns
    -------
    ndarray of shape (n, k)
        float64 that hold integers.
    """
    # Scores that overflow give NaN, a single one of which would make the sum NaN.
    fine = np.nan_to_num(residuals) * 2.0**bits
    sizes = np.sqrt(np.einsum("ij,ij->i", fine, fine))
    # Down on both sides, so that |r| |z| <= bound holds for the exact integers.
    limits = (bound * (1 - _SLACK)) / (norms * (1 + _SLACK))
    # Truncation toward zero never lengthens a residual. The maximum with 1 avoids 0 / 0; residuals
    # shorter than one step become 0 anyway.
    return np.trunc(fine * np.minimum(1.0, limits / np.maximum(sizes, 1.0))[:, None])


class GradientRelease:
    """Noisy mean gradients of a logistic model, one release per call.

    Parameters
    ----------
    rows : BoxedRows
        Protected.
    codes : ndarray of shape (n,)
        Class of each record, -1 for a label that is not among the classes. Protected.
    scales : ColumnScales
        Released.
    weights : ndarray of shape (n_classes,)
        Public weights of the classes, at most 1.
    mu : float
        Gaussian budget of one step.
    clip : float
        Largest norm of a record's gradient, in units of a row of norm 1 and of weight 1.
    effective : float
        Sum of the weights of the records, which the sums are divided by; public or released.
    """

    def __init__(self, rows, codes, scales, weights, mu, clip, effective):
        self._rows, self._codes, self._sizes = rows, codes, rows.sizes
        self._factor, self._shift = (2.0**_ROW_BITS * part for part in scales.affine())
        # On the grid of the rows, so that products are integers.
        self._constant = float(math.trunc(2.0**_ROW_BITS * scales.constant))
        # Entries of the box lie in [-1, 1]; 1 covers the rounding of the affine map.
        self._largest = float((np.abs(self._factor) + np.abs(self._shift)).max()) + 1
        self._weights = np.append(weights, 0.0)  # the last one is for code -1
        self.n_outputs = 1 if len(weights) == 2 else len(weights)
        n = rows.shape[0]
        # The finest step with sums over n records below 2^61 and a standard deviation of the noise,
        # 2 bound / mu, below 2^48; ceil(clip) > log2(clip) errs on the coarse side.
        room = min(_SUM_BITS - math.ceil(math.log2(n)), _NOISE_BITS - 1 + math.floor(math.log2(mu)))
        self._bits = max(4, min(_RESIDUAL_BITS, room - _ROW_BITS - math.ceil(clip)))
        # An integer, to which residuals are shortened and the noise is calibrated.
        self.bound = math.floor(clip * 2.0 ** (_ROW_BITS + self._bits))
        # In proportion to the weights, so that clipping affects all classes alike.
        self._bounds = self.bound * np.append(weights, 1.0)
        self._unit = 2.0 ** -(_ROW_BITS + self._bits) / effective
        self._noise = GaussianMechanism(
            mu=mu,
            sensitivity=gradient_sensitivity(self.bound),
            lattice=1.0,
            n_draws=(rows.shape[1] + 1) * self.n_outputs,
        )
        # Standard deviation of the noise in a coordinate of the mean gradient. Public.
        self.sigma = self._noise.sigma * self._unit

    def __call__(self, w, source):
        """Return the noisy mean gradient at w, both of shape (d + 1, n_outputs)."""
        noisy = self._noise.release(self.exact_total(w).ravel(), source)
        return np.asarray(noisy, dtype=np.float64).reshape(w.shape) * self._unit

    def exact_total(self, w):
        """Protected: sum the clipped gradients in integers; pass only to a mechanism."""
        total = np.zeros(w.shape, dtype=np.int64)
        # In floats: a rounding error of a score affects its own residual alone, clipped below.
        slopes, intercepts = w[:-1] * 2.0**-_ROW_BITS, w[-1] * (self._constant * 2.0**-_ROW_BITS)
        for rows, z in self._rows.affine(self._factor, self._shift):
            grid = rows_on_grid(z, self._largest)
            norms = np.sqrt(np.einsum("ij,ij->i", grid, grid) + self._constant**2)
            # Avoids a division by 0; a row of zeros adds nothing, whatever its residual.
            norms = np.maximum(norms, 1.0)
            codes = self._codes[rows]
            # |r| min(|z|, 1): rows beyond norm 1 have their residual divided by their norm.
            shortened = np.minimum(1.0, 2.0**_ROW_BITS / norms) * self._weights[codes]
            residuals = _residuals(grid @ slopes + intercepts, codes) * shortened[:, None]
            # Outer products of norm at most B (docs/theory/private_classifiers.md, The gradient
            # sum).
            units = residuals_on_lattice(residuals, norms, self._bounds[codes], self._bits)
            units = divide_by_group_size(units, self._sizes, rows)
            # Exact: at most 2^13 rows of 2^37. The last row is that of the constant column.
            total[:-1] += (grid.T @ units).astype(np.int64)
            total[-1] += (self._constant * units.sum(axis=0)).astype(np.int64)
        return total


def _residuals(scores, codes):
    """Protected: probabilities minus indicators of the classes, shape (n, n_outputs)."""
    if scores.shape[1] == 1:
        return expit(scores) - (codes == 1)[:, None]
    return softmax(scores, axis=1) - (codes[:, None] == np.arange(scores.shape[1]))
