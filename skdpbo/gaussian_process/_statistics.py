"""Second moments of protected records in exact integer arithmetic.

A sum of floats depends on the order of its terms, so replacing one record can change it by more
than the record's own term. Here every record is put on an integer lattice by itself, and products
and sums are those of integers: the change is the change of one term, exactly.
"""

from __future__ import annotations

import numpy as np

_MANTISSA = 53  # integers up to 2^53 are floats
_LARGEST_BITS = 20  # 8192 rows in one exact product; features keep six digits
_SUM_BITS = 62  # sums stay within int64
_NOISE_BITS = 48  # the noise, in units of the products, must fit int64 with room to spare


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
    >>> from skdpbo.gaussian_process._statistics import lattice_radius
    >>> lattice_radius(1000, 5.0), lattice_radius(2**30, 5.0)
    (1048576, 65536)
    """
    for bits in range(_LARGEST_BITS, 3, -1):
        sums_fit = n_records * 4**bits <= 2**_SUM_BITS
        if sums_fit and noise_ratio * 4.0**bits <= 2.0**_NOISE_BITS:
            return 2**bits
    raise ValueError("too many records or too much noise for exact sums in 64 bits")


def rows_on_lattice(rows, step, radius):
    """Truncate rows toward zero to multiples of `step`, with norm at most `radius` steps.

    The bound holds exactly, whatever rounding or a wrong bound did to the rows: a row whose
    integers are too long is shortened. A row with an entry that is not finite becomes zero, so
    that no error depends on the values.

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
    >>> from skdpbo.gaussian_process._statistics import rows_on_lattice
    >>> rows_on_lattice(np.array([[0.6, -0.8], [3.0, 4.0], [np.nan, 0.0]]), 0.25, 4)
    array([[ 2., -3.],
           [ 2.,  3.],
           [ 0.,  0.]])
    """
    with np.errstate(all="ignore"):
        Q = np.divide(rows, step, order="C", dtype=np.float64)
        np.trunc(Q, out=Q)
        norms = np.einsum("ij,ij->i", Q, Q)  # exact where it matters: sums of integers < 2^53
        too_long = np.flatnonzero(~(norms <= radius**2))  # also where a norm is NaN
        if too_long.size:
            Q[too_long] = _shortened(Q[too_long], radius)
    return Q


def _shortened(Q, radius):
    """Scale rows of integers to a norm of at most `radius`, toward zero; 0 where not finite."""
    largest = np.abs(Q).max(axis=1, keepdims=True)
    Q = Q / largest  # first, so that no square overflows
    norms = np.sqrt(np.einsum("ij,ij->i", Q, Q))[:, None]
    Q = np.trunc(Q * (radius * (1.0 - 2.0**-40) / norms))  # 2^-40 covers the rounding of norms
    fits = np.einsum("ij,ij->i", Q, Q) <= radius**2  # False for NaN
    return np.where(fits[:, None], Q, 0.0)


def exact_gram(Q, radius):
    """Sum over rows of the outer products q q', exactly.

    Parameters
    ----------
    Q : ndarray of shape (n, p)
        float64 that hold integers, C-contiguous.
    radius : int
        Largest absolute value in Q; ``n * radius**2`` must be at most 2^62.

    Returns
    -------
    ndarray of shape (p, p)
        int64, symmetric.

    Notes
    -----
    A matrix product of floats is exact, in whatever order it adds, while every partial sum is an
    integer of at most 53 bits. So it runs over chunks of ``2**53 // radius**2`` rows, and the
    chunks are added as int64.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.gaussian_process._statistics import exact_gram
    >>> exact_gram(np.array([[1.0, 2.0], [3.0, -1.0]]), 3)
    array([[10, -1],
           [-1,  5]])
    """
    if len(Q) * int(radius) ** 2 > 2**_SUM_BITS:
        raise ValueError("too many rows for an exact sum in 64 bits")
    total = np.zeros((Q.shape[1], Q.shape[1]), dtype=np.int64)
    chunk = exact_chunk(radius)
    for start in range(0, len(Q), chunk):
        rows = Q[start : start + chunk]
        total += (rows.T @ rows).astype(np.int64)
    return total


def exact_chunk(radius):
    """Largest number of rows whose products of entries of at most `radius` add exactly."""
    return max(1, 2**_MANTISSA // int(radius) ** 2)
