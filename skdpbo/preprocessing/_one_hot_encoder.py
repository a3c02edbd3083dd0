"""Indicators of categories that are public, or frequent enough to be released."""

import math
from dataclasses import replace
from itertools import cycle
from numbers import Number
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from scipy.stats import norm
from sklearn.utils import gen_batches
from sklearn.utils.validation import _check_feature_names_in, check_array, check_is_fitted

from skdpbo._attempt import is_known
from skdpbo._column_ranges import counts_sensitivity
from skdpbo._isolation._lazy_rows import lazy
from skdpbo._parameters import warn_caller
from skdpbo._private_estimator import check_columns, read
from skdpbo._schema import declared_types, kind_of_type, refuse_sparse_and_complex, refuse_types
from skdpbo.exceptions import HiddenColumnsWarning
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.preprocessing._category_columns import (
    category_counts,
    category_key,
    columns_of,
    key_positions,
    representatives,
)
from skdpbo.preprocessing._private_transformer import PrivateTransformer
from skdpbo.privacy import PrivacyGuarantee, mu_from_epsilon
from skdpbo.privacy._rounding import one_plus_exp

# Share of delta for the release of a category of a single record. It stays small when many fits
# compose, at the price of a threshold that is a third higher.
_SHARE_OF_NAMES = 1e-6
_CELLS = 2**18  # dense indicators per block
_MOST_EPSILON = 600.0  # spent; the statistical distance for more would underflow
_LEAST_DISTANCE = 1e-300
_OTHERS = "infrequent_sklearn"  # scikit-learn's word


def category_threshold(sigma, n_features, failure):
    """Smallest noisy count that releases a category.

    A category of one record is released with probability P(1 + round(N(0, sigma^2)) >= T), at
    most P(N >= T - 3/2): `failure` / d in each of the d columns.
    """
    z = norm.isf(failure / n_features) * (1 + 1e-6)  # covers the error of the quantile
    return math.ceil(1.5 + sigma * z)


class DPOneHotEncoder(PrivateTransformer):
    r"""Indicators of the categories of each column; rare ones share an indicator.

    Private: every training record, including which categories occur, for data sets that differ in
    one record. Released: the names of the categories whose number of records, with Gaussian noise,
    reaches a threshold. Replacing a record changes two counts of each of d columns; the probability
    that a category of a single record reaches the threshold is part of `delta`.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss bound, > 0. Smaller is more private.
    delta : float, default=1e-5
        Delta of the guarantee, in (0, 1).
    categories : "auto" or list of array-like, default="auto"
        Public categories of each column, of its type, None or NaN; then no value is read and no
        budget is spent. "auto": found privately.
    sparse_output : bool, default=False
        Whether `transform` returns a CSR matrix.
    random_state : None, int or RandomState, default=None
        None draws the noise from the operating system. Anything else makes it reproducible, for
        tests only: the guarantee is void and a `SeededNoiseWarning` is given.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        Guarantee of the fit. Public.
    categories_ : list of ndarray
        Categories of each column, sorted: missing (NaN, unless given as None), numbers, strings.
        Released, or public.
    n_records_ : int
        Number of records, or of groups. Public.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        When X has string column names.

    See Also
    --------
    sklearn.preprocessing.OneHotEncoder : Without privacy.

    Notes
    -----
    The last indicator of a column stands for all other values: rare, unknown, or neither string
    nor number. None and NaN are one category; numbers are compared as floats.

    A category of d columns is found when it has about 10 sqrt(d) / mu records, mu that of
    `privacy_`: at epsilon 1 and eight columns some 110. A `HiddenColumnsWarning` names the columns
    without any.

    References
    ----------
    J. Dong, A. Roth, W. J. Su, Gaussian differential privacy, JRSS B 2022. Proofs:
    :doc:`/theory/private_classifiers`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.preprocessing import DPOneHotEncoder
    >>> X = np.array([["green"]] * 600 + [["blue"]] * 600 + [["Ann's own"]], dtype=object)
    >>> encoder = DPOneHotEncoder().fit(X)
    >>> encoder.get_feature_names_out(["colour"]).tolist()
    ['colour_blue', 'colour_green', 'colour_infrequent_sklearn']
    >>> encoder.transform([["green"], ["Ann's own"]])
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """

    _mechanism = "Gaussian histogram of categories with a threshold"
    _flags = ("sparse_output",)
    _takes = ("categorical", "string", "allow_nan")
    _finite = ()  # any values

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        categories: Any = "auto",
        sparse_output: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.sparse_output = sparse_output
        self.random_state = random_state

    @property
    def releases_nothing(self):
        """Whether categories are given, so that `fit` reads no value and costs nothing."""
        return not isinstance(self.categories, str)

    def transform(self, X: Any) -> Any:
        """Return indicators of the released categories; a row depends on itself alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. The result is as protected as they are.

        Returns
        -------
        ndarray or CSR matrix of shape (n_samples, n_indicators)
            Float64; a one in each column's indicators.
        """
        check_is_fitted(self)
        # In isolation: in a pipeline, output of a cell's code could reveal its record.
        columns = read(columns_of, lazy(X), self)
        check_columns(self, X, columns, reset=False)
        sizes = [len(keys) + 1 for keys in self._keys]  # with one for all other values
        starts = np.cumsum([0, *sizes[:-1]])
        positions = np.transpose(
            [key_positions(column, keys) for column, keys in zip(columns, self._keys, strict=True)]
        )
        n, d = positions.shape
        # CSR directly, since each row has one entry per column of X, in order.
        indicators = csr_matrix(
            (np.ones(n * d), (positions + starts).ravel(), np.arange(0, n * d + 1, d)),
            shape=(n, sum(sizes)),
        )
        return indicators if self.sparse_output else indicators.toarray()

    def inverse_transform(self, X: Any) -> Any:
        """Return the category of the largest indicator of each column.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_indicators)
            Transformed rows. The result is as protected as they are.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Objects; "infrequent_sklearn" for all other values, as in scikit-learn, and where all
            indicators of a column are 0.
        """
        check_is_fitted(self)
        X = check_array(X, accept_sparse="csr")
        ends = np.cumsum([len(found) + 1 for found in self.categories_])
        if X.shape[1] != ends[-1]:
            raise ValueError(f"X has {X.shape[1]} columns, but there are {ends[-1]} indicators.")
        names = [np.array([*found.tolist(), _OTHERS], dtype=object) for found in self.categories_]
        values = np.empty((X.shape[0], len(ends)), dtype=object)
        for rows in gen_batches(X.shape[0], max(1, _CELLS // X.shape[1])):
            block = X[rows].toarray() if issparse(X) else X[rows]
            for j, (found, end) in enumerate(zip(names, ends, strict=True)):
                part = block[:, end - len(found) : end]
                values[rows, j] = found[np.where(part.any(axis=1), part.argmax(axis=1), -1)]
        return values

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the indicators.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            As in scikit-learn.

        Returns
        -------
        names : ndarray of str
            Column and category; "infrequent_sklearn" for all others, as in scikit-learn.
        """
        check_is_fitted(self)
        inputs = _check_feature_names_in(self, input_features)
        names = [
            f"{name}_{category}"
            for name, found in zip(inputs, self.categories_, strict=True)
            for category in [*found.tolist(), _OTHERS]
        ]
        return np.array(names, dtype=object)

    def privacy_guarantee(
        self, n_samples: int | None = None, *, groups: bool = False
    ) -> PrivacyGuarantee:
        """Return the guarantee of `fit`; needs no data.

        Parameters
        ----------
        n_samples : int, default=None
            Number of records, at least 1; the noise does not depend on it.
        groups : bool, default=False
            Whether it is that of a fit with groups, for all records of one group.

        Returns
        -------
        guarantee : PrivacyGuarantee
            Guarantee of the names that one fit publishes. Its statistical distance is a bound on
            the probability that the category of a single record is among them.
        """
        stated = super().privacy_guarantee(n_samples, groups=groups)
        if self.releases_nothing:
            return stated
        epsilon = min(stated.epsilon, _MOST_EPSILON)
        mu = mu_from_epsilon(epsilon, self.delta * (1 - _SHARE_OF_NAMES))
        # Probability of the event, under one data set alone, that a single record's name is shown.
        distance = self.delta * _SHARE_OF_NAMES / one_plus_exp(epsilon) * (1 - 1e-9)
        if distance < _LEAST_DISTANCE:
            raise ValueError("delta is too small beside epsilon: no category could be released.")
        return replace(stated, epsilon=epsilon, mu=mu, statistical_distance=distance)

    def _refuse_types(self, X):
        if not hasattr(X, "columns"):  # each column of a frame is read by itself
            refuse_sparse_and_complex(X, "X")
        refuse_types(X, "X", texts=True)
        if not self.releases_nothing:
            return
        # Refuse categories that contradict the declared type of their column.
        types = declared_types(X) if hasattr(X, "columns") else cycle(declared_types(X))
        for j, (dtype, given) in enumerate(zip(types, self.categories, strict=False)):
            kind = kind_of_type(dtype)
            others = {"numbers": str, "texts": Number}.get(kind, ())
            values = np.asarray(given, dtype=object).flat
            if any(isinstance(value, others) and is_known(value) for value in values):
                raise ValueError(f"categories of column {j} must be {kind}, as its values are.")

    def _checked_table(self, X):
        return columns_of(X, self)

    def _grouped(self, table, codes):
        """Protected: let each group count once a column, with its most frequent category."""
        return [column[representatives(column, codes)] for column in table]

    def _check_settings(self):
        super()._check_settings()
        given = self.categories
        if given != "auto" if isinstance(given, str) else not np.iterable(given):
            raise ValueError('categories must be "auto" or a list of arrays.')

    def _check_public(self, table, counted=True):
        if isinstance(self.categories, str):
            return None
        given = [np.asarray(values, dtype=object).tolist() for values in self.categories]
        if len(given) != len(table) or not all(isinstance(values, list) for values in given):
            raise ValueError(f"categories must have {len(table)} lists, one for each column.")
        keys = [sorted({category_key(value) for value in values} - {None}) for values in given]
        if any(len(k) < len(values) for k, values in zip(keys, given, strict=True)):
            raise ValueError("categories must be distinct strings and numbers.")
        return keys

    def _release(self, table, bounds, mu, source):
        self._keys = self._frequent(table, mu, source) if bounds is None else bounds
        self.categories_ = [
            _as_given(keys, column) for keys, column in zip(self._keys, table, strict=True)
        ]
        if bounds is not None:  # show a missing category as given: None or NaN
            for found, given in zip(self.categories_, self.categories, strict=True):
                if found.dtype == np.object_ and any(value is None for value in given):
                    found[0] = None

    def _close(self, n_records, guarantee, *shown):
        super()._close(n_records, guarantee, *shown)
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        empty = [str(name) for name, f in zip(names, self.categories_, strict=True) if not len(f)]
        if empty and not self.releases_nothing:
            warn_caller(
                f"No category of {', '.join(empty)} is released: none has many more records than "
                "the noise, and only a constant indicator is left. A column of many numbers, such "
                "as amounts, is better scaled, by DPStandardScaler, or rounded before. Otherwise "
                "encode more records or fewer columns, take a larger epsilon, or give categories, "
                "where they are public.",
                HiddenColumnsWarning,
            )
        return self

    def _frequent(self, columns, mu, source):
        """Release the keys of each column whose noisy count reaches the threshold."""
        d, n = len(columns), len(columns[0])
        counting = GaussianMechanism(
            mu=mu,
            sensitivity=counts_sensitivity(d),
            lattice=1.0,
            # The largest possible number of categories, as the actual one is protected.
            n_draws=max(1, n * d),
        )
        # docs/theory/private_classifiers.md, Categories.
        distance = self.privacy_guarantee().statistical_distance
        threshold = category_threshold(counting.sigma, d, distance)
        # Sorted, so that neither the order of records nor that of a hash table is revealed.
        counts = [sorted(category_counts(column).items()) for column in columns]
        sizes = np.array([size for one in counts for _, size in one], dtype=np.int64)
        passed = iter(np.asarray(counting.release(sizes, source)) >= threshold)
        return [[key for key, _ in one if next(passed)] for one in counts]


def _as_given(keys, column):
    """Return the values of keys in the type of a column of numbers, as objects in any other."""
    # NaN for missing values: whether records hold None or NaN is protected.
    values = [np.nan if value is None else value for _, value in keys]
    # Not longdouble: its padding bytes may hold earlier data, which a pickle would contain.
    if column.dtype.kind in "biuf":
        array = np.array(values, dtype=np.float64)
        if column.dtype.itemsize > array.itemsize:
            return array
        typed = array.astype(column.dtype)
        # Numbers that the type cannot hold, such as NaN among integers, are kept as floats.
        return typed if np.array_equal(typed, array) else array
    return np.array(values, dtype=object)
