"""Names of estimators' parameters, read from a signature once for each class.

scikit-learn reads it for each clone, and tests clone estimators a million times.
"""

from weakref import WeakKeyDictionary

from sklearn.base import BaseEstimator

__all__ = ["read_once"]

_read = BaseEstimator._get_param_names.__func__
_KNOWN = WeakKeyDictionary()


def _names(cls):
    init, names = _KNOWN.get(cls, (None, ()))
    if init is not cls.__init__:
        names = _read(cls)
        _KNOWN[cls] = cls.__init__, names
    return [*names]


def read_once():
    """Let all estimators of this process do so."""
    BaseEstimator._get_param_names = classmethod(_names)
