"""Columns scaled to [0, 1] by ranges that are public or found privately."""

from typing import Any

import numpy as np

from skdpbo._column_ranges import may_show_ranges, released_ranges, warn_of_no_range
from skdpbo._parameters import DEFAULT_BOUNDS, check_bounds
from skdpbo.preprocessing._private_transformer import PrivateScaler
from skdpbo.privacy import mu_from_epsilon


class DPMinMaxScaler(PrivateScaler):
    """Columns scaled to [0, 1] by a range that is public, or found privately.

    Private: every training record, for data sets that differ in one record. Released, if no bounds
    are given: for each column a histogram over signed powers of two, and for columns far from zero,
    such as years, two more over parts of the previous range. The range leaves out a few extreme
    values and is about twice as wide as the others; with few records its ends are powers of two.
    With `X_bounds` no value is read and no budget is spent.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss bound, > 0. Smaller is more private.
    delta : float, default=1e-5
        Delta of the guarantee, in (0, 1).
    X_bounds : tuple (low, high), default=None
        Public range, in the units of X; numbers, or vectors with one value for each feature. None:
        found privately, between -2^40 and 2^40.
    clip : bool, default=True
        Whether `transform` clips to [0, 1].
    random_state : None, int or RandomState, default=None
        None draws the noise from the operating system. Anything else makes it reproducible, for
        tests only: the guarantee is void and a `SeededNoiseWarning` is given.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        Guarantee of the fit. Public.
    data_min_, data_max_, data_range_, scale_ : ndarray of shape (n_features,)
        Ends and width of the range, and its inverse. Released, or public.
    n_records_ : int
        Number of records, or of groups. Public.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        When X has string column names.

    See Also
    --------
    DPStandardScaler : When a box is known.
    DPSimpleImputer : Missing values, also of the scaled columns.

    Notes
    -----
    A column in which the bins that stand out of the noise hold less than half of the values gets
    the range (-3, 3), with a `DefaultBoundsWarning`; if there are too few rows to find any range,
    the warning comes before the charge.

    Missing values (NaN) are not counted and stay missing: a `DPSimpleImputer` with
    ``X_bounds=(0, 1)`` after the scaler fills them, so that neither needs bounds in the units of X.
    An infinite value is an error after the charge: the budget is spent, and the error reveals that
    some record has one.

    References
    ----------
    J. Dong, A. Roth, W. J. Su, Gaussian differential privacy, JRSS B 2022. Proofs:
    :doc:`/theory/private_classifiers`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.preprocessing import DPMinMaxScaler
    >>> X = np.random.default_rng(0).uniform(0, 900, (5000, 1))
    >>> float(DPMinMaxScaler().fit(X).data_max_[0])
    1024.0
    """

    _mechanism = "Gaussian histograms over powers of two and their parts"
    _flags = ("clip",)
    _takes = ("allow_nan",)

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        X_bounds: Any = None,
        clip: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.X_bounds = X_bounds
        self.clip = clip
        self.random_state = random_state

    @property
    def releases_nothing(self):
        """Whether bounds are given, so that `fit` reads no value and costs nothing."""
        return self.X_bounds is not None

    def _within(self, scaled):
        return np.clip(scaled, 0.0, 1.0, out=scaled) if self.clip else scaled

    def _check_public(self, table, counted=True):
        if self.X_bounds is not None:
            return check_bounds(self.X_bounds, table.shape[1], "X_bounds")
        if counted and not self._may_show_ranges(table.shape[0]):
            warn_of_no_range(self, ["X_bounds"], table.shape[0])
        return None  # the range is released

    def _release(self, table, bounds, mu, source):
        if bounds is None:
            bounds, _ = released_ranges(table, mu, source)
        self.data_min_, self.data_max_ = bounds
        self.data_range_ = self.data_max_ - self.data_min_
        self.scale_ = 1 / self.data_range_  # given and released ranges have a positive width

    def _may_show_ranges(self, n_rows):
        mu = mu_from_epsilon(self.epsilon, self.delta)
        return may_show_ranges(n_rows, self.n_features_in_, mu)

    def _close(self, n_records, guarantee, *args):
        super()._close(n_records, guarantee, *args)
        # Ranges that were not found; no released one has the default ends.
        unseen = (self.data_min_ == DEFAULT_BOUNDS[0]) & (self.data_max_ == DEFAULT_BOUNDS[1])
        # With too few records the warning came before the charge, except for groups.
        unwarned = "group" in guarantee.neighbours or self._may_show_ranges(n_records)
        if self.X_bounds is None and unseen.any() and unwarned:
            warn_of_no_range(self, ["X_bounds"])
        return self

    def _shift(self):
        return self.data_min_, self.data_range_
