"""Standard scores with released means and variances."""

from typing import Any

import numpy as np

from skdpbo._column_moments import hidden_columns, is_box_wide, release_moments
from skdpbo._row_blocks import BoxedRows
from skdpbo.preprocessing._private_transformer import PrivateScaler

_QUANTILE = 0.98  # of the row norms, to which longer rows are shortened


class DPStandardScaler(PrivateScaler):
    """Columns standardised by private means and standard deviations.

    Private: every training record, for data sets that differ in one record. Released: a histogram
    of the norms of the rows, scaled to the box, and the first two moments of all columns in one
    Gaussian release. The transformed rows are not released.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss bound, > 0. Smaller is more private.
    delta : float, default=1e-5
        Delta of the guarantee, in (0, 1).
    X_bounds : tuple (low, high), default=None
        Public box, in the units of X; numbers, or vectors with one value for each feature. Rows
        outside are clipped in `fit`. None: (-3, 3), with a `DefaultBoundsWarning`.
    with_mean, with_std : bool, default=True
        Whether columns are centred, and whether they are divided.
    random_state : None, int or RandomState, default=None
        None draws the noise from the operating system. Anything else makes it reproducible, for
        tests only: the guarantee is void and a `SeededNoiseWarning` is given.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        Guarantee of the fit. Public.
    mean_, var_, scale_ : ndarray of shape (n_features,)
        Released. A variance is at least its own noise, so that a constant column stays small.
    n_records_ : int
        Number of records, or of groups. Public.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        When X has string column names.

    See Also
    --------
    sklearn.preprocessing.StandardScaler : Without privacy.
    skdpbo.pipeline.pipeline_guarantee : Guarantee of a pipeline of private steps.

    Notes
    -----
    The noise is the same for all columns, in units of their half widths: it is large for columns
    that fill much less of the box than others. A box much wider than the data costs little if its
    middle is near the data, and precision if they are all near one end.

    Missing and infinite values are errors after the charge: the budget is spent, and the error
    reveals that some record has one; a `DPSimpleImputer` before the scaler takes missing ones.

    References
    ----------
    J. Dong, A. Roth, W. J. Su, Gaussian differential privacy, JRSS B 2022. Proofs:
    :doc:`/theory/private_classifiers`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.preprocessing import DPStandardScaler
    >>> X = np.random.default_rng(0).normal(20.0, 2.0, (5000, 1))
    >>> scaler = DPStandardScaler(X_bounds=(0, 100)).fit(X)
    >>> bool(abs(scaler.mean_[0] - 20) < 1)
    True
    """

    _mechanism = "Gaussian histogram of row norms and Gaussian moments"
    _flags = ("with_mean", "with_std")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        X_bounds: Any = None,
        with_mean: bool = True,
        with_std: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.X_bounds = X_bounds
        self.with_mean = with_mean
        self.with_std = with_std
        self.random_state = random_state

    def _release(self, table, bounds, mu, source):
        # Centred at the middle: with zero as centre, [0, b] would have twice the noise.
        rows = BoxedRows(table, *bounds, keep_zero=False)
        rows.check_finite()
        radius, moments, noise = release_moments(rows, mu, _QUANTILE, source)
        mean, square = np.split(moments, 2)
        # Rows are shortened to the radius: a mean beyond 1 in its units is noise.
        mean = np.clip(mean, -1, 1)
        unit = radius * rows.half_width
        self.mean_ = rows.centre + unit * mean
        # At least the noise, so that the division does not make rows huge.
        share = np.clip(square - mean**2, noise[1], 1.0)
        self.var_ = unit**2 * share
        # Not the root of the variance, which underflows in a very narrow box.
        self.scale_ = unit * np.sqrt(share) if self.with_std else np.ones(len(mean))
        hidden = hidden_columns(moments, noise, *bounds)
        return hidden, is_box_wide(radius, moments, noise, *bounds)

    def _shift(self):
        return self.mean_ if self.with_mean else 0.0, self.scale_
