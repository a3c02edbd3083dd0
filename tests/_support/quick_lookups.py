"""Look-ups that scikit-learn repeats and that took 8 % of the time of the tests.

The names of a class's parameters are read from its signature once, not at every copy of an
estimator, and an array, which has no attributes of its own, is looked through by its type.
"""

from importlib.util import find_spec
from inspect import getattr_static
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator

__all__ = []

_NAMES = WeakKeyDictionary()
_read = BaseEstimator._get_param_names.__func__


def _names(cls):
    init, names = _NAMES.get(cls, (None, None))
    if init is not cls.__init__:  # a class can be given another
        init, names = cls.__init__, _read(cls)
        _NAMES[cls] = init, names
    return [*names]


def _looked_up(obj, name, *default):
    if default and type(obj) is np.ndarray and not hasattr(np.ndarray, name):
        return default[0]
    return getattr_static(obj, name, *default)


BaseEstimator._get_param_names = classmethod(_names)
if find_spec("narwhals"):  # newer versions of scikit-learn ask it whether an array is a table
    import narwhals._utils

    narwhals._utils.getattr_static = _looked_up
