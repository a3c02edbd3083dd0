"""Linear regression that protects every training record."""

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from skdpbo._column_moments import (
    at_one_end,
    hidden_columns,
    is_box_wide,
    norm_edges,
    release_moments,
    release_radius,
)
from skdpbo._gaussian_estimator import GaussianEstimator
from skdpbo._gram_release import WhitenedRelease, lifted
from skdpbo._noise_aware import MomentModel, released_noise_variance
from skdpbo._parameters import bounds_or_default, warn_of_ends
from skdpbo._private_estimator import NoisyRegressor
from skdpbo._record_groups import n_units, placed
from skdpbo._row_blocks import BoxedRows, clipped_product
from skdpbo._schema import (
    check_same_length,
    in_doubles,
    refuse_missing_target,
    refuse_not_finite,
)
from skdpbo.linear_model._record_rows import JoinedRows, StandardisedRecords, column_scales
from skdpbo.mechanisms import split_budget
from skdpbo.privacy._checks import check_flag, check_within

# Shares of the squared budget: value at n mu = 1, least and largest value. They fall as 1 / (n mu):
# with few records most of the error comes from the released centre and scales.
_SHARE_OF_SCALES, _SHARE_OF_TARGETS = (40.0, 0.1, 0.3), (10.0, 0.02, 0.1)
_QUANTILE = 0.6  # of the row norms, for the clipping radius of the moments
_TARGET_EDGES = 64  # square of the largest half width of the targets, in standard deviations
_UNEXPLAINED = 0.05  # share of the targets' mean square; if X explains less, it shows no effect
_STEEPEST = 1e200  # largest ratio of the boxes' widths: noise may multiply a slope, a float
_OTHER_BOUNDS_OF_Y = (
    ", or take a TransformedTargetRegressor with a DPMinMaxScaler, which releases them, "
    "check_inverse=False and (0, 1)"
)
_PRIOR_VARIANCES = 4.0 ** np.arange(-6, 5)  # of a weight, in units of the targets' half width


class DPRidge(NoisyRegressor, GaussianEstimator):
    r"""Linear regression with private inputs and targets.

    Private: every training record, for data sets that differ in one record; the number of records
    is public. Released: a histogram of row norms and the first two moments of the columns, a
    histogram of the sizes of the targets, and the second moments of the standardised inputs and
    targets together. Each is a sum over the records in exact integers with Gaussian noise;
    together they are :math:`\mu`-Gaussian differentially private, :math:`\mu` the largest that
    gives (epsilon, delta). Theorem: a vector of norm W moves the sum of outer products by at most
    :math:`\sqrt 2 W^2` in Frobenius norm when its record is replaced.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss bound, > 0. Smaller is more private.
    delta : float, default=1e-5
        Delta of the guarantee, in (0, 1).
    X_bounds, y_bounds : tuple (low, high), default=None
        Public boxes, in the units of X and y; numbers, or vectors with one value for each feature
        or target. Values outside are clipped. A box ten times wider than the data costs little:
        columns are standardised privately; of one that hides them a `WideBoundsWarning` tells.
        `predict` clips rows and predictions to the boxes, too: a linear model that has seen
        nothing beyond them does not extrapolate. Where the noise prevails, predictions with an
        intercept fall back toward the middle of `y_bounds`. None: (-3, 3), with a
        `DefaultBoundsWarning`.
    alpha : float, default=None
        Penalty, as in scikit-learn after a `StandardScaler`, > 0. None: chosen from the released
        moments, by the evidence of the model. The known noise regularises in either case.
    fit_intercept : bool, default=True
        Whether there is a constant term. Without, the model is zero at the centre of the box;
        zero itself for an interval that starts or ends there.
    random_state : None, int or RandomState, default=None
        None draws the noise from the operating system. Anything else makes it reproducible, for
        tests only: the guarantee is void and a `SeededNoiseWarning` is given.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        Guarantee of the fit. Public.
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Released.
    intercept_ : float or ndarray of shape (n_targets,)
        Released.
    X_bounds_ : tuple of ndarray of shape (n_features,)
        The box. Public.
    y_bounds_ : tuple of ndarray of shape (n_targets,)
        That of the targets. Public.
    n_records_ : int
        Number of records, or of groups. Public.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        When X has string column names.

    See Also
    --------
    sklearn.linear_model.Ridge : Without privacy.
    skdpbo.DPSparseGPRegressor : Nonlinear, with intervals.

    Notes
    -----
    Input may be dense or sparse, a memory map or a Dask array; it is read four times, in blocks.
    A missing or infinite value is an error after the charge: the budget is spent, and the error
    reveals that some record has one; a `DPSimpleImputer` before the model takes missing ones.
    Targets beyond the released half width are clipped to it: about as many records as the noise of
    a count hides.

    The weights are the posterior mean of a linear model whose likelihood contains the noise of the
    release. With p columns the noise of the moments has the eigenvalues of a random matrix, about
    4 sqrt(p) / mu; directions of the inputs with less variance than that add nothing.

    References
    ----------
    J. Dong, A. Roth, W. J. Su, Gaussian differential privacy, JRSS B 2022. Y.-X. Wang, Revisiting
    differentially private linear regression, UAI 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.linear_model import DPRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (5000, 2))
    >>> y = X @ [1.0, -2.0] + rng.normal(size=5000)
    >>> model = DPRidge(X_bounds=(-3, 3), y_bounds=(-10, 10)).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    >>> model.privacy_.status
    'proved'
    """

    _mechanism = "Gaussian second moments of clipped records"
    _takes = ("sparse",)

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        X_bounds: Any = None,
        y_bounds: Any = None,
        alpha: float | None = None,
        fit_intercept: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.X_bounds = X_bounds
        self.y_bounds = y_bounds
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Release the scales of the columns, then the second moments.

        Parameters
        ----------
        X : array-like, sparse matrix or Dask array of shape (n_samples, n_features)
            Protected.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Protected.
        groups : sequence of length n_samples, default=None
            Protected labels of the groups (persons, sites) of the rows: all records of a group are
            protected together, see :doc:`/theory/groups`. None and NaN are groups of their own.
            The number of groups is public, their sizes are not.

        Returns
        -------
        self : object
            The fitted regressor.

        Raises
        ------
        ValueError, TypeError
            On a bad parameter or shape; on NaN and infinity; the message does not name a
            record.
        BudgetExceededError
            If the active `PrivacyLedger` cannot pay; nothing has been touched then.
        """
        refuse_missing_target(y, self)
        check_flag(self.fit_intercept, "fit_intercept")
        if self.alpha is not None:
            check_within(self.alpha, "alpha", "[1e-300, 1e300]")
        check_same_length(X, y, groups)
        guarantee = self._guarantee_of_fit(groups)
        table, checked, source = self._charged(guarantee, self._check_public, X, y, groups=groups)
        targets, X_box, y_box = checked
        targets = in_doubles(np.asarray(targets))
        refuse_not_finite(targets, "y")
        self.X_bounds_, self.y_bounds_ = X_box, y_box
        rows = BoxedRows(table, *X_box)
        rows.check_finite()
        columns = placed(table, targets.reshape(len(targets), -1))
        # Where the noise prevails predictions are at the centre; without intercept that is zero.
        boxed_targets = BoxedRows(columns, *y_box, keep_zero=not self.fit_intercept)
        with np.errstate(all="ignore"):  # an error of rounding would depend on the values
            records, z_scales, t_scales, mu_left, released = self._standardised(
                rows, boxed_targets, guarantee.mu, source
            )
            w, shows = self._released_weights(records, z_scales.size, mu_left, source)
            self._publish(z_scales.in_box_units(w), t_scales, rows, boxed_targets, targets.ndim)
        # In units of the half-widths of y_bounds.
        d, radius = self.n_features_in_, t_scales.radius
        mean, square = (part[d:] for part in np.split(released[0], 2))
        ends = at_one_end(radius * mean, radius**2 * square, radius**2 * released[1][1])
        hidden = hidden_columns(*released, *np.hstack([X_box, y_box]))
        wide = is_box_wide(radius, released[0], released[1], X_box[0], X_box[1], shows=shows)
        self._close(n_units(table), guarantee, np.setdiff1d(hidden, ends + d), wide, shows)
        if ends.size:
            warn_of_ends("y_bounds", ends)
        return self

    def _publish(self, weights, t_scales, rows, targets, ndim):
        """Set the weights in the units of X and y; bounds, centres and scales are public."""
        coef, intercept = weights
        unit = targets.half_width * t_scales.radius * t_scales.size / t_scales.factor
        self.coef_ = (coef / rows.half_width[:, None] * unit).T
        centre = targets.centre + targets.half_width * t_scales.radius * t_scales.mean
        self.intercept_ = centre + intercept * unit - self.coef_ @ rows.centre
        if ndim == 1:
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])

    def _check_public(self, table, y):
        """Check the shape of y; return y as an array, and both boxes."""
        targets = self._checked_targets(y)
        n_targets = 1 if targets.ndim == 1 else targets.shape[1]
        X_box = bounds_or_default(self.X_bounds, table.shape[1], "X_bounds", self)
        y_box = bounds_or_default(self.y_bounds, n_targets, "y_bounds", self, _OTHER_BOUNDS_OF_Y)
        width, narrowest = (y_box[1] / 2 - y_box[0] / 2).max(), (X_box[1] / 2 - X_box[0] / 2).min()
        if not width < _STEEPEST * min(narrowest, 1.0):  # after the charge it would be lost
            raise ValueError(
                f"y_bounds must be less than {2 * _STEEPEST:g} apart, and less than {_STEEPEST:g} "
                "times as wide as each column of X_bounds: coefficients are floats."
            )
        return targets, X_box, y_box

    def _standardised(self, rows, targets, mu, source):
        """Release the scales of the columns; return records, scales, the budget left, moments."""
        d, centre = rows.shape[1], bool(self.fit_intercept)
        joined = JoinedRows(rows, targets)
        mu_left, mu_scales = _split(mu, rows.shape[0], _SHARE_OF_SCALES)
        radius, moments, noise = release_moments(joined, mu_scales, _QUANTILE, source)
        means, squares = np.split(moments, 2)
        known = {"radius": radius, "noise": noise, "signal_noise": 1 / (rows.shape[0] * mu)}
        z_scales, t_scales = (
            column_scales(
                moments=np.concatenate([means[part], squares[part]]),
                centre=centre,
                intercept=constant,
                **known,
            )
            for part, constant in ((slice(d), centre), (slice(d, None), False))
        )
        records = StandardisedRecords(joined, z_scales, t_scales)
        return records, z_scales, t_scales, mu_left, (moments, noise)

    def _released_weights(self, records, size, mu, source):
        """Release half width and second moments.

        Returns
        -------
        weights : ndarray of shape (d + 1, n_targets)
            Of z for t.
        shows : bool
            Whether z explains some target, by what was released.
        """
        n, n_targets = records.shape
        mu_moments, mu_targets = _split(mu, n, _SHARE_OF_TARGETS)
        half_width = release_radius(
            # The largest target of each record, as blocks that `norm_counts` takes.
            ((part, np.abs(t).max(axis=1, keepdims=True)) for part, _, t in records.blocks()),
            norm_edges(_TARGET_EDGES),
            n,
            mu_targets,
            None,
            source,
            records.sizes,
        )
        # Targets in the box are no larger; a wider range would only add noise.
        half_width = min(half_width, records.largest_target)
        # docs/theory/private_classifiers.md, Second moments of a regression.
        release = WhitenedRelease(mu_moments, (half_width,) * n_targets, n)
        released = release.release(records.exact_gram(release, half_width), source)
        # Noise may make B indefinite; the model needs a positive one.
        B = lifted(released.B, released.sb, n)
        weights = [
            self._posterior_mean(B, released, j, n, half_width**2, size) for j in range(n_targets)
        ]
        w = np.column_stack(weights)
        explained = np.einsum("ij,ij->j", w[:-1], B[:-1, :-1] @ w[:-1])
        return w, bool(np.any(explained > _UNEXPLAINED * released.yy.diagonal()))

    def _posterior_mean(self, B, released, j, n, largest, size):
        """Return the weights of target j from released moments."""
        sums = B, released.A[:, j], released.yy[j, j]
        noise = {"sb": released.sb, "sa": released.sa[j], "syy": released.syy[j]}
        model = MomentModel(*sums, **noise, n_records=n, signal_variance=largest)
        # Evidence of released moments: the choice of the prior costs no budget.
        candidates = [model.scaled(factor) for factor in _PRIOR_VARIANCES]
        variances = [released_noise_variance(one, largest) for one in candidates]
        evidence = [m.log_evidence(v) for m, v in zip(candidates, variances, strict=True)]
        best = int(np.argmax(evidence))
        chosen, variance = candidates[best], variances[best]
        if self.alpha is not None:
            # Mean squared norm of the rows: 1 before long rows were shortened.
            weight = np.clip(np.trace(B) / n, 0.01, 1.0) / size**2
            penalty = np.clip(float(self.alpha) * weight, 1e-200, 1e100)
            # A prior variance acts as a penalty, and is at least the likeliest: a smaller one would
            # be a far larger penalty where the noise is large. The rest of the penalty is added as
            # rows with target 0 along all columns but the constant.
            prior = max(chosen.sf2, variance / penalty)
            rest = np.append(np.full(len(B) - 1, penalty - variance / prior), 0.0)
            penalised = B + np.diag(np.maximum(rest, 0.0)), *sums[1:]
            chosen = MomentModel(*penalised, **noise, n_records=n, signal_variance=prior)
        return chosen.posterior(variance).mean

    def predict(self, X: Any) -> np.ndarray:
        """Predicted targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows; clipped to the box, as in `fit`.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Float64; within `y_bounds`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        predicted = clipped_product(X, self.X_bounds_, self.coef_.T) + self.intercept_
        # Cut to y_bounds, which hold all targets: no error grows, and those of rows far from the
        # others, which weigh little in the fit, may shrink.
        return np.clip(predicted, *self.y_bounds_)


def _split(mu, n_records, share):
    """Split a budget by a share that falls with its product with the number of records."""
    at_one, least, most = share
    return split_budget(mu, float(np.clip(at_one / (n_records * mu), least, most)))
