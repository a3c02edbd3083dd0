"""Base class of transformers that shift and divide columns by released values."""

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from skdpbo.preprocessing._private_transformer import PrivateTransformer

__all__ = ["PrivateScaler"]


class PrivateScaler(PrivateTransformer):
    """Base class; a sub-class returns the offset and the divisor of its columns by `_shift`."""

    def transform(self, X):
        """Transform rows with the released values; a row depends on itself alone, and stays finite.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. The result is as protected as they are.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Float64.
        """
        check_is_fitted(self)
        # A copy, as the rows are changed in place below.
        X = validate_data(self, X, dtype="float64", copy=True, reset=False)
        offset, divisor = self._shift()
        largest = np.finfo(X.dtype).max
        # One record that overflowed would end the fit of a step after this one.
        with np.errstate(all="ignore"):
            for change, part in ((np.subtract, offset), (np.divide, divisor)):
                np.clip(change(X, part, out=X), -largest, largest, out=X)
        return X

    def inverse_transform(self, X):
        """Return rows to the units of the columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Transformed rows. The result is as protected as they are.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Float64.
        """
        check_is_fitted(self)
        X = check_array(X, dtype="float64", copy=True)
        offset, divisor = self._shift()
        X *= divisor
        X += offset
        return X
