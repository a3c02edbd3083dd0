"""Blocks of rows of protected tables, scaled to a public box, in bounded memory."""

import numpy as np
from scipy.sparse import issparse

from skdpbo._record_groups import PlacedRows, group_sizes, n_units
from skdpbo._schema import in_doubles, refuse_not_finite

_CELLS = 2**15  # per block: a few copies of it fit in a processor's cache
# With many columns, blocks of more cells, since the work per block grows as well.
_WIDE_ROWS, _WIDE_CELLS = 2**8, 2**18
_MAX_ROWS = 2**13  # products of a block are exact then, see `_gradient_sum`


class BoxedRows:
    """Blocks of the rows of a table, clipped to a box and scaled to at most 1 in each column.

    Parameters
    ----------
    X : ndarray, memory map, Dask array, sparse matrix or PlacedRows of shape (n, d)
        Protected; read by slices of rows.
    low, high : ndarray of shape (d,)
        Public box.
    keep_zero : bool, default=True
        Whether an interval that starts or ends at zero has zero as its centre, so that rows of
        indicators and counts stay short; its half width is then its length. Other intervals are
        centred at their middle.

    Attributes
    ----------
    shape : tuple
        Number of records, or of groups, and d. Public.
    sizes : ndarray of shape (n,) or None
        Number of records in the group of each row. Protected.
    """

    def __init__(self, X, low, high, *, keep_zero=True):
        self._X = X
        self.shape = (n_units(X), X.shape[1])
        self.sizes = group_sizes(X)
        self._low, self._high = low, high
        at_zero = ((low == 0) | (high == 0)) & keep_zero
        # Halved first: the sum of both ends may overflow.
        self.centre = np.where(at_zero, 0.0, low / 2 + high / 2)
        # The longer side, as the centre may be 0 or rounded: scaled values are at most 1.
        self.half_width = np.maximum(high - self.centre, self.centre - low)
        self._inverse = 1 / self.half_width

    def __iter__(self):
        """Protected: yield the slice of the rows and the scaled rows."""
        start = 0
        for block in row_blocks(self._X, check=False):
            yield slice(start, start + len(block)), self._boxed(block)
            start += len(block)

    def scaled(self, rows):
        """Protected: return a slice of the rows of an array, scaled."""
        return self._boxed(self._X[rows])

    def _boxed(self, block):
        scaled = np.array(block, dtype=np.float64)
        np.maximum(scaled, self._low, out=scaled)
        np.minimum(scaled, self._high, out=scaled)
        scaled -= self.centre
        scaled *= self._inverse
        return scaled

    def affine(self, factor, shift):
        """Protected: yield the slice of the rows and (scaled row) * factor + shift.

        The array is overwritten by the next block. Vectors are tiled, as broadcasting along short
        rows takes three times as long.

        Parameters
        ----------
        factor, shift : ndarray of shape (d,)
        """
        n, d = self._X.shape
        size = min(n, _block_size(self._X))
        vectors = self._low, self._high, self.centre, factor * self._inverse, shift
        tiles = [np.ascontiguousarray(np.broadcast_to(v, (size, d))) for v in vectors]
        shifted, out = bool(np.any(self.centre)), np.empty((size, d))
        start = 0
        for block in row_blocks(self._X, check=False):
            low, high, centre, scale, offset = (tile[: len(block)] for tile in tiles)
            z = np.maximum(block, low, out=out[: len(block)])
            np.minimum(z, high, out=z)
            if shifted:
                z -= centre
            z *= scale
            z += offset
            yield slice(start, start + len(block)), z
            start += len(block)

    def check_finite(self, missing=False):
        """Raise scikit-learn's error if a value is infinite, or missing unless `missing`."""
        for _ in row_blocks(self._X, check="allow-nan" if missing else True):
            pass


def row_blocks(X, check=True, name="X"):
    """Protected: yield dense blocks of rows.

    Parameters
    ----------
    X : ndarray, memory map, Dask array, sparse matrix or PlacedRows of shape (n, d)
        Protected; read by slices of rows.
    check : bool or "allow-nan", default=True
        True: NaN and infinity raise scikit-learn's error; "allow-nan": infinity alone does.
    name : str, default="X"
        Name of the table in that error.
    """
    size = _block_size(X)
    for start in range(0, X.shape[0], size):
        block = X[start : start + size]
        block = in_doubles(block.toarray() if issparse(block) else np.asarray(block))
        if check:
            refuse_not_finite(block, name, allow_nan=check == "allow-nan")
        yield block


def clipped_product(X, bounds, weights):
    """Return the product of rows, clipped to a box, with weights; blocks of a sparse X are dense.

    Clipped as in `fit`: a linear model does not extrapolate beyond its box.
    """
    return np.concatenate([np.clip(b, *bounds) @ weights for b in row_blocks(X, check=False)])


def _block_size(X):
    if isinstance(X, PlacedRows):  # the place of a row in its block depends on public values
        return X.width
    d = max(1, X.shape[1])
    return max(1, min(_MAX_ROWS, _CELLS // d), min(_WIDE_ROWS, _WIDE_CELLS // d))
