"""Missing values replaced by private means, or by medians of dyadic histograms."""

import math
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdpbo._column_moments import release_counts
from skdpbo._column_ranges import counts_sensitivity
from skdpbo._record_groups import count_by_groups
from skdpbo._row_blocks import BoxedRows
from skdpbo.mechanisms import ClippedMean
from skdpbo.preprocessing._private_transformer import PrivateTransformer
from skdpbo.privacy._checks import check_choice

_FEWEST = 4.0  # least number of present values, in standard deviations of its noise
LEVELS = 10  # of the dyadic histogram: 1024 bins in the finest


class DPSimpleImputer(PrivateTransformer):
    r"""Missing values replaced by the private mean or median of their column.

    Private: every training record, including which of its values are missing, for data sets that
    differ in one record. Released, all columns in one Gaussian release: for the mean, sums of the
    values and numbers of missing ones, a vector of norm at most :math:`\sqrt d` for each record;
    for the median, counts in halves, quarters, ... of the bounds; replacing a record changes
    :math:`2 d` counts of each level by 1.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss bound, > 0. Smaller is more private.
    delta : float, default=1e-5
        Delta of the guarantee, in (0, 1).
    X_bounds : tuple (low, high), default=None
        Public box, in the units of X; numbers, or vectors with one value for each feature. Values
        outside are clipped in `fit`. None: (-3, 3), with a `DefaultBoundsWarning`.
    strategy : {"mean", "median"}, default="mean"
        The median is found to one 1024th of the bounds, and needs more records: where n_records *
        epsilon / sqrt(n_features) is below about 150 it is mostly noise, and the mean two to four
        times as exact. A constant needs no private estimator:
        ``SimpleImputer(strategy="constant", keep_empty_features=True)`` reads nothing.
    add_indicator : bool, default=False
        Whether `transform` appends one column for each feature, 1 where its value was missing. For
        all features, since which of them have missing values is protected.
    random_state : None, int or RandomState, default=None
        None draws the noise from the operating system. Anything else makes it reproducible, for
        tests only: the guarantee is void and a `SeededNoiseWarning` is given.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        Guarantee of the fit. Public.
    statistics_ : ndarray of shape (n_features,)
        Released, within the bounds; their middle if too few values are present to stand out of the
        noise.
    n_records_ : int
        Number of records, or of groups. Public.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        When X has string column names.

    See Also
    --------
    sklearn.impute.SimpleImputer : Without privacy.

    Notes
    -----
    A value is missing if it is NaN. An infinite one is an error after the charge: the budget is
    spent, and the error reveals that some record has one.

    References
    ----------
    J. Dong, A. Roth, W. J. Su, Gaussian differential privacy, JRSS B 2022. Proofs:
    :doc:`/theory/private_classifiers`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.preprocessing import DPSimpleImputer
    >>> X = np.random.default_rng(0).normal(20.0, 2.0, (5000, 1))
    >>> X[::3] = np.nan
    >>> imputer = DPSimpleImputer(X_bounds=(0, 100)).fit(X)
    >>> bool(abs(imputer.transform([[np.nan]])[0, 0] - 20) < 1)
    True
    """

    _mechanism = "Gaussian sums and counts of columns"
    _flags = ("add_indicator",)
    _takes = ("allow_nan",)

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        X_bounds: Any = None,
        strategy: str = "mean",
        add_indicator: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.X_bounds = X_bounds
        self.strategy = strategy
        self.add_indicator = add_indicator
        self.random_state = random_state

    def transform(self, X: Any) -> Any:
        """Replace missing values by the released ones; a row depends on itself alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. The result is as protected as they are.

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, 2 * n_features)
            Float32 for rows of float32, else float64.
        """
        check_is_fitted(self)
        X = self._rows(X, ensure_all_finite="allow-nan")
        missing, largest = np.isnan(X), np.finfo(X.dtype).max
        filled = np.where(missing, np.clip(self.statistics_, -largest, largest).astype(X.dtype), X)
        return np.hstack([filled, missing]) if self.add_indicator else filled

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            As in scikit-learn.

        Returns
        -------
        names : ndarray of str
            The input columns, then the indicators of missing values.
        """
        names = super().get_feature_names_out(input_features)
        if not self.add_indicator:
            return names
        return np.append(names, [f"missingindicator_{name}" for name in names]).astype(object)

    def _check_settings(self):
        super()._check_settings()
        check_choice(self.strategy, "strategy", ["mean", "median"])

    def _release(self, table, bounds, mu, source):
        rows = BoxedRows(table, *bounds, keep_zero=False)
        rows.check_finite(missing=True)  # refuses infinite values alone
        released = _means if self.strategy == "mean" else _medians
        low, high = bounds
        # Clipped, as rounding may leave the box by an ulp.
        self.statistics_ = np.clip(
            rows.centre + rows.half_width * released(rows, mu, source), low, high
        )


def value_or_missing(rows):
    """Protected: yield (u, m), u the values, 0 if missing, and m = 1 if missing, else 0.

    In each column u^2 + m^2 <= 1, so the norm of a record is at most sqrt(d).
    """
    for _, block in rows:
        missing = np.isnan(block)
        yield np.hstack([np.where(missing, 0.0, block), missing])


def _means(rows, mu, source):
    """Release the means of the present values of the box."""
    n, d = rows.shape
    # Rounded up, as the norm of a record must not exceed it.
    averaging = ClippedMean(clip=math.nextafter(math.sqrt(d), math.inf), n_records=n, mu=mu)
    total = averaging.exact_total(value_or_missing(rows), rows.sizes)[0]
    # Missing values are counted, as for present ones u^2 + 1 would be up to 2, not 1.
    sums, missing = np.split(averaging.noisy_mean(total, source), 2)
    present = 1 - missing
    # Otherwise the ratio of sums and counts is mostly noise.
    found = present > _FEWEST * averaging.sigma
    return np.where(found, np.clip(sums / np.where(found, present, 1.0), -1, 1), 0.0)


def _medians(rows, mu, source):
    """Release the medians of the present values of the box."""
    n_features = rows.shape[1]
    # Dyadic, as cumulated counts of one fine histogram have up to 32 times the noise of a count.
    counts = dyadic_counts((block for _, block in rows), n_features, rows.sizes)
    sensitivity = counts_sensitivity(LEVELS * n_features)
    noisy, sigma = release_counts(counts, mu, sensitivity, source, rows.sizes)
    fewest = _FEWEST * math.sqrt(2.0) * sigma  # the noise of a sum of two counts
    return np.array([quantile_of_counts(row, 0.5, fewest) for row in noisy])


def dyadic_counts(blocks, n_features, sizes=None):
    """Protected: count the values of each column in 2, 4, ..., 2^LEVELS parts of [-1, 1].

    A record is counted once per level, and not at all if its value is missing.

    Parameters
    ----------
    blocks : iterable of ndarray of shape (any, n_features)
        In [-1, 1] or NaN. Protected.
    n_features : int
    sizes : ndarray or None
        Number of records in the group of each row, by which its count is divided.

    Returns
    -------
    ndarray of shape (n_features, 2**(LEVELS + 1) - 2)
        Counts of the levels, from coarse to fine.
    """
    n_bins = 2**LEVELS
    counts = np.zeros((n_features, n_bins + 1), dtype=np.int64)  # the last one for missing values
    start = 0
    for block in blocks:
        part = slice(start, start := start + len(block))
        missing = np.isnan(block)
        bins = np.where(missing, n_bins, np.floor((block + 1) * (n_bins / 2)))
        bins = np.where(missing, bins, np.clip(bins, 0, n_bins - 1)).astype(np.int64)
        for column in range(n_features):
            counts[column] += count_by_groups(bins[:, column], n_bins + 1, sizes, part)
    finest = counts[:, :-1]  # the number of missing values is not released
    parts = [finest.reshape(n_features, 2**k, -1).sum(axis=2) for k in range(1, LEVELS + 1)]
    return np.hstack(parts)


def quantile_of_counts(noisy, quantile, fewest):
    """Return the quantile of one column in [-1, 1], by descent from halves to the finest part.

    Parameters
    ----------
    noisy : ndarray of shape (2**(LEVELS + 1) - 2,)
        Released counts.
    quantile : float
        In (0, 1).
    fewest : float
        If the noisy number of records is at most this, the middle of the interval is returned.
    """
    if noisy[0] + noisy[1] <= fewest:
        return 0.0
    part, offset, share = 0, 0, quantile  # the share of the part's records below the quantile
    for level in range(1, LEVELS + 1):
        left, right = np.maximum(noisy[offset + 2 * part : offset + 2 * part + 2], 0.0)
        if left + right == 0:  # noise may leave no records in a part: taken as uniform there
            left = right = 1.0
        rank = share * (left + right)
        goes_right = bool(rank > left)
        size, rank = (right, rank - left) if goes_right else (left, rank)
        share = min(rank / size, 1.0)
        part, offset = 2 * part + goes_right, offset + 2**level
    return (part + share) * 2.0 ** (1 - LEVELS) - 1
