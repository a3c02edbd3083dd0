"""Sparse rows in one form, which no single record decides."""

import numpy as np


def in_canonical_form(X):
    """Return CSR rows: places sorted and none twice, in indices of 32 bits where these can count.

    Indices of 64 bits in one record are those of all, and many estimators refuse them.
    """
    X = X.tocsr(copy=True)
    X.sum_duplicates()  # and sorts
    # Both sizes are public, but for more than 2^31 stored numbers.
    dtype = np.int32 if max(*X.shape, X.nnz) <= np.iinfo(np.int32).max else np.int64
    indices = X.indices.astype(dtype), X.indptr.astype(dtype)
    return type(X)((X.data, *indices), shape=X.shape)


def with_stored(X, data):
    """Return CSR rows with other stored numbers."""
    return type(X)((data, X.indices, X.indptr), shape=X.shape)
