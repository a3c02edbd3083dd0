"""Second moments of protected records in exact integer arithmetic.

A sum of floats depends on the order of its terms, so replacing one record can change it by more
than the record's own term. Here every record is put on an integer lattice by itself, and products
and sums are those of integers: the change is the change of one term, exactly.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits  # comes with scikit-learn

from skdpbo._attempt import attempt
from skdpbo._isolation._lazy_rows import computed
from skdpbo._record_groups import PlacedRows, divide_by_root_of_group_size, group_sizes
from skdpbo._schema import in_doubles, is_dask, refuse_not_finite

_MANTISSA = 53  # integers up to 2^53 are exact floats
_LARGEST_BITS = 20  # allows exact products of 8192 rows; features keep six digits
_SUM_BITS = 62  # so that sums fit int64
_NOISE_BITS = 48  # of the noise's standard deviation, so that noise fits int64


class RowMap:
    """Base class of maps from chunks of records to lattice rows, without buffers."""

    def rows(self, centre):
        """Set the public `centre` of the targets; return this map."""
        self.centre = centre
        return self

    def workspace(self, n_rows):
        """Return no buffers."""
        return None


def lattice_radius(n_records, noise_ratio):
    """Largest norm of a record, in lattice steps, for which sums and noise fit 64 bits.

    Parameters
    ----------
    n_records : int
        Number of records, public.
    noise_ratio : float
        Largest standard deviation of the noise of a product, in units of the largest product of
        one record.

    Returns
    -------
    int
        A power of two, at most 2^20; it depends on public values only.

    Raises
    ------
    ValueError
        When there are too many records, or too much noise, for a lattice of 64-bit integers.

    Examples
    --------
    >>> from skdpbo._exact_gram import lattice_radius
    >>> lattice_radius(1000, 5.0), lattice_radius(2**30, 5.0)
    (1048576, 65536)
    """
    for bits in range(_LARGEST_BITS, 3, -1):
        sums_fit = n_records * 4**bits <= 2**_SUM_BITS
        if sums_fit and noise_ratio * 4.0**bits <= 2.0**_NOISE_BITS:
            return 2**bits
    raise ValueError("too many records or too much noise for exact sums in 64 bits: raise epsilon.")


def rows_on_lattice(rows, step, radius):
    """Protected: truncate rows to multiples of `step`, of norm at most `radius` steps.

    The bound holds exactly, even if rounding or a wrong bound made a row too long: it is shortened.
    A row with an entry that is not finite becomes zero, so that no error depends on the values.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
        Protected. Not modified.
    step : float
        Lattice step, > 0.
    radius : int
        Largest l2 norm of a row, in steps; at most 2^20.

    Returns
    -------
    ndarray of shape (n, p)
        float64 that hold integers, C-contiguous; ``(Q**2).sum(axis=1) <= radius**2``.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo._exact_gram import rows_on_lattice
    >>> rows_on_lattice(np.array([[0.6, -0.8], [3.0, 4.0], [np.nan, 0.0]]), 0.25, 4)
    array([[ 2., -3.],
           [ 2.,  3.],
           [ 0.,  0.]])
    """
    with np.errstate(all="ignore"):
        Q = np.divide(rows, step, order="C", dtype=np.float64)
        np.trunc(Q, out=Q)
        return shorten_rows(Q, radius)


def shorten_rows(Q, radius):
    """Protected: shorten rows of integers to norm `radius` in place; 0 where not finite.

    Parameters
    ----------
    Q : ndarray of shape (n, p)
        float64 that hold integers, or NaN, or infinities. Modified.
    radius : int
        At most 2^20.

    Returns
    -------
    ndarray of shape (n, p)
        Q.
    """
    with np.errstate(all="ignore"):
        # Exact for norms up to the radius, as sums of integers below 2^53; one BLAS dot per row.
        norms = np.matmul(Q[:, None, :], Q[:, :, None])[:, 0, 0]
        too_long = np.flatnonzero(~(norms <= radius**2))  # also where a norm is NaN
        if too_long.size:
            rows = Q[too_long]
            rows = rows / np.abs(rows).max(axis=1, keepdims=True)  # no square overflows
            norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
            # Toward zero; 2^-40 covers the rounding of norms.
            rows = np.trunc(rows * (radius * (1.0 - 2.0**-40) / norms))
            fits = np.einsum("ij,ij->i", rows, rows) <= radius**2  # False for NaN
            Q[too_long] = np.where(fits[:, None], rows, 0.0)
    return Q


def exact_chunk(radius):
    """Largest number of rows of norm at most `radius` whose outer products floats add exactly.

    A matrix product is exact, in any order of its sums, if every partial sum is an integer of at
    most 53 bits.
    """
    return max(1, 2**_MANTISSA // int(radius) ** 2)


def products(Q, sizes, part):
    """Protected: return the sum of the outer products of a chunk's rows; a group counts as one."""
    Q = divide_by_root_of_group_size(Q, sizes, part)
    return (Q.T @ Q).astype(np.int64)  # exact for at most ``exact_chunk(radius)`` rows


def streamed_sums(rows, X, Y, radius, *, chunk_size, n_jobs=None, sums=products):
    """Protected: pass only to a mechanism. Sum the outer products of ``rows(X, Y)``, exactly.

    The sum does not depend on the chunks, the threads or the order of the rows.

    Parameters
    ----------
    rows : object
        ``rows(X_chunk, Y_chunk, workspace)`` gives float64 of shape (n_chunk, rows.width) that
        hold integers, each row of norm at most `radius`; ``rows.workspace(n)`` gives buffers.
    X : array-like of shape (n, p), PlacedRows or Dask array
        Protected; read by slices. A Dask array is summed block by block on the workers. With
        `PlacedRows`, a group counts as one record.
    Y : array-like of shape (n, q) or Dask array
        Protected.
    radius : int
        Largest norm of a row.
    chunk_size : int
        Largest number of rows at a time.
    n_jobs : int or None
        Number of threads, as in joblib. With more than one, each runs BLAS on its own.
    sums : callable, default=products
        ``sums(Q, sizes, part)`` returns int64 of a fixed shape, given a chunk's rows, the group
        sizes of all records (or None) and the slice `part` of the chunk.

    Returns
    -------
    ndarray
        int64; for outer products symmetric, of shape (width, width).

    Raises
    ------
    ValueError
        When X or Y holds NaN or infinity: scikit-learn's message.
    """
    chunk = min(int(chunk_size), exact_chunk(radius))
    n_records = len(X)
    if isinstance(X, PlacedRows):  # the place of a row in its chunk depends on public values
        chunk, n_records = X.width, X.n_groups
    if n_records * int(radius) ** 2 > 2**_SUM_BITS:
        raise ValueError("too many rows for an exact sum in 64 bits")
    if is_dask(X):
        return _dask_sums(rows, X, Y, chunk, sums)
    workers = effective_n_jobs(n_jobs)
    # With groups the number of chunks is protected, and BLAS may round by its number of threads.
    if not isinstance(X, PlacedRows):
        workers = min(workers, -(-n_records // chunk))
    if workers <= 1:
        return _strided_sums(rows, X, Y, chunk, 0, 1, sums)
    # BLAS threads of several workers would compete for the processors.
    with threadpool_limits(1, user_api="blas"):
        parts = Parallel(n_jobs=workers, backend="threading")(
            delayed(_strided_sums)(rows, X, Y, chunk, k, workers, sums) for k in range(workers)
        )
    return sum(parts)


def _strided_sums(rows, X, Y, chunk, first, stride, sums):
    """Protected: sum over the chunks first, first + stride, ..., with one set of buffers."""
    total: Any = 0
    workspace = rows.workspace(min(chunk, len(X)))
    sizes = group_sizes(X)
    for start in range(first * chunk, len(X), stride * chunk):
        X_chunk = in_doubles(np.asarray(X[start : start + chunk]))
        Y_chunk = in_doubles(np.asarray(Y[start : start + chunk]))
        refuse_not_finite(X_chunk, "X")
        refuse_not_finite(Y_chunk, "y")
        Q = rows(X_chunk, Y_chunk, workspace)
        total = total + sums(Q, sizes, slice(start, start + chunk))
    return total


def _dask_sums(rows, X, Y, chunk, sums):
    """Protected: sum over the row blocks of a Dask array; the workers return sums of integers."""
    import dask

    # Rows are shortened as a whole, so they must not be split into blocks.
    X = X.rechunk({1: X.shape[1]})
    if not is_dask(Y):
        import dask.array

        Y = dask.array.from_array(Y, chunks=(X.chunks[0], Y.shape[1]))
    Y = Y.rechunk({0: X.chunks[0], 1: Y.shape[1]})
    # Errors are returned, not raised: an error in a Dask graph quotes values.
    block = dask.delayed(partial(attempt, _strided_sums), pure=False)
    blocks = zip(X.to_delayed()[:, 0], Y.to_delayed()[:, 0], strict=True)
    parts = computed(*[block(rows, x, y, chunk, 0, 1, sums) for x, y in blocks])
    for error in (error for _, error in parts if error is not None):
        raise error
    return sum(part for part, _ in parts)
