"""Dask arrays computed in silence: their graph is user code on protected rows."""

import warnings

import numpy as np

from skdpbo._attempt import attempt
from skdpbo._isolation._silence import nothing_leaves
from skdpbo._schema import is_dask


class LazyRows:
    """Dask array of protected rows, computed without output or errors that quote values.

    Parameters
    ----------
    array : Dask array
        Protected.
    """

    def __init__(self, array):
        self._array = array

    def __getattr__(self, name):
        return getattr(self._array, name)

    def __len__(self):
        return len(self._array)

    def __getitem__(self, rows):
        return LazyRows(self._array[rows])

    def __array__(self, dtype=None, copy=None):
        """Protected: return the rows."""
        return np.asarray(computed(self._array)[0], dtype=dtype)


def lazy(values):
    """Return a Dask array as `LazyRows`, anything else as it is."""
    return LazyRows(values) if is_dask(values) else values


def computed(*collections):
    """Protected: return the values of Dask collections."""
    import dask

    with nothing_leaves(), warnings.catch_warnings(record=True, action="ignore"):
        values, error = attempt(dask.compute, *collections)
    if error is not None:
        raise ValueError(
            "A Dask array could not be computed. Its compute() shows why, and may quote records."
        )
    return values
