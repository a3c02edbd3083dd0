"""Base classes of transformers fitted to protected rows."""

from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from skdpbo._gaussian_estimator import GaussianEstimator
from skdpbo._isolation._lazy_rows import lazy
from skdpbo._private_estimator import check_columns, read
from skdpbo._record_groups import n_units
from skdpbo.privacy._checks import check_flag

_FLOATS = [np.float64, np.float32]  # types that are kept; others become float64


class PrivateTransformer(OneToOneFeatureMixin, TransformerMixin, GaussianEstimator):
    """Base class of private transformers: checks, the charge and the guarantee.

    A sub-class has parameters `epsilon`, `delta` and `random_state`, a class attribute
    ``_mechanism``, and a method ``_release(table, bounds, mu, source)``, which sets the fitted
    attributes, and may return further arguments of `_close`. `bounds` is the result of
    ``_check_public``: by default the box of the parameter `X_bounds`.
    """

    _flags: ClassVar[tuple] = ()  # parameters that are True or False

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Release what the transformation needs.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Protected.
        y : None
            Ignored.
        groups : sequence of length n_samples, default=None
            Protected labels of the groups (persons, sites) of the rows: all records of a group are
            protected together, see :doc:`/theory/groups`. None and NaN are groups of their own.
            The number of groups is public, their sizes are not.

        Returns
        -------
        self : object
            The fitted transformer.

        Raises
        ------
        ValueError, TypeError
            On a bad parameter or shape; on NaN and infinity; the message does not name a
            record.
        BudgetExceededError
            If the active `PrivacyLedger` cannot pay; nothing has been touched then.
        """
        self._check_settings()  # before the charge in `_charged`
        guarantee = self._guarantee_of_fit(groups)
        # With groups the number of rows is protected.
        check = partial(self._check_public, counted=groups is None)
        table, bounds, source = self._charged(guarantee, check, X, groups=groups)
        with np.errstate(all="ignore"):  # an error of rounding would depend on the values
            further = self._release(table, bounds, guarantee.mu, source)
        # The encoder's table is a list of columns, with one row per group if there are groups.
        n_records = n_units(table[0] if isinstance(table, list) else table)
        return self._close(n_records, guarantee, *(further or ()))

    def _rows(self, X, **options):
        """Return rows of floats, without messages that could quote a record of a pipeline's fit."""
        check = partial(check_array, dtype=_FLOATS, input_name="X", estimator=self, **options)
        with np.errstate(all="ignore"):
            rows = read(check, lazy(X))
        check_columns(self, X, rows, reset=False)
        return rows

    def _check_settings(self):
        """Check the parameters that are the same for every table."""
        for name in self._flags:
            check_flag(getattr(self, name), name)


class PrivateScaler(PrivateTransformer):
    """Base class of scalers of columns: minus an offset, divided by a scale, from `_shift`."""

    def transform(self, X: Any) -> Any:
        """Transform rows with the released values; each by itself, and finite rows stay finite.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. The result is as protected as they are.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Float32 for rows of float32, else float64.
        """
        check_is_fitted(self)
        offset, divisor = self._shift()
        X = self._rows(X, **self._finiteness())
        scaled, largest = np.empty_like(X), np.finfo(X.dtype).max
        with np.errstate(all="ignore"):
            # Clipped: a record that overflows would make a later step of a pipeline fail.
            for change, values, part in ((np.subtract, X, offset), (np.divide, scaled, divisor)):
                np.clip(change(values, part, out=scaled), -largest, largest, out=scaled)
        return self._within(scaled)

    def inverse_transform(self, X: Any) -> Any:
        """Return rows to the units of the columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Transformed rows. The result is as protected as they are.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Float32 for rows of float32, else float64.
        """
        check_is_fitted(self)
        X = check_array(X, dtype=_FLOATS, **self._finiteness())
        offset, divisor = self._shift()
        # Into a new array: a copy made of a frame with missing values may be read-only.
        rows = np.multiply(X, divisor, out=np.empty_like(X))
        rows += offset
        return rows

    def _within(self, scaled):
        """Return scaled rows, clipped in place by classes whose range is bounded."""
        return scaled

    def _finiteness(self):
        return {"ensure_all_finite": "allow-nan" if "allow_nan" in self._takes else True}
