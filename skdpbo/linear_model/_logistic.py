"""Logistic regression that protects every training record."""

import math
from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.utils.validation import check_is_fitted, validate_data

from skdpbo._class_labels import (
    ProbabilityClassifier,
    checked_classes,
    read_labels,
)
from skdpbo._column_moments import hidden_columns, is_box_wide, release_moments
from skdpbo._gaussian_estimator import GaussianEstimator
from skdpbo._record_groups import n_units
from skdpbo._row_blocks import BoxedRows, clipped_product
from skdpbo._schema import check_same_length, refuse_missing_target
from skdpbo.linear_model._class_balance import release_balance
from skdpbo.linear_model._gradient_sum import GradientRelease
from skdpbo.linear_model._noisy_descent import (
    DescentPlan,
    descend,
    descend_by_curvature,
    released_curvature,
)
from skdpbo.linear_model._record_rows import column_scales
from skdpbo.mechanisms import split_budget, step_budgets
from skdpbo.privacy._checks import check_choice, check_flag, check_positive

_SHARE_OF_COUNTS = 0.02  # of mu^2, if the classes are to be balanced
_SHARE_OF_SCALES = 0.16  # of the rest of mu^2
_SHARE_OF_CURVATURE = 0.15  # of the rest after that, if the noise is small
_QUANTILE = 0.6  # of the row norms, for the clipping radius of the moments
# Clipping norm of gradients, whose norm is at most 1 without clipping: a small bias for less noise
# (docs/theory/private_classifiers.md, Post-processing).
_CLIP = 0.45
_SMALL_NOISE = 1e-3  # of an unclipped mean gradient, below which the bias of clipping outweighs it


class DPLogisticRegression(ProbabilityClassifier, GaussianEstimator):
    r"""Logistic regression with private inputs and labels.

    Private: every training record, for data sets that differ in one record; the number of records
    is public. Released: a histogram of row norms, the first two moments of the columns, where the
    noise is small the second moments of all pairs of columns, and T noisy gradients. Each is a sum
    over the records in exact integers with Gaussian noise; together they are :math:`\mu`-Gaussian
    differentially private, :math:`\mu` the largest that gives (epsilon, delta). Theorem: a gradient
    clipped to norm B moves the sum by at most 2 B when its record is replaced, and Gaussian
    releases compose by their squared :math:`\mu`.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss bound, > 0. Smaller is more private.
    delta : float, default=1e-5
        Delta of the guarantee, in (0, 1).
    X_bounds : tuple (low, high), default=None
        Public box, in the units of X; numbers, or vectors with one value for each feature. Rows
        outside are clipped, in `fit` and in predictions. A box wider than the data costs little:
        columns are standardised privately. None: (-3, 3), with a `DefaultBoundsWarning`.
    C : float, default=1.0
        Inverse strength of the penalty, as in scikit-learn after a `StandardScaler`, > 0. The noise
        asks for more regularisation, which early stopping gives.
    fit_intercept : bool, default=True
        Whether there is a constant term. Without, the scores are zero at the centre of the box;
        at zero itself for an interval that starts or ends there.
    classes : array-like of shape (n_classes,), default=None
        Public labels, at least two. A record with another label adds nothing. If classes are texts
        and the type of `y` is numeric, or vice versa, it is an error; in a list or an array of
        objects, such values are other labels. None: the set of labels that occur is declared
        public.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. A dict of public ones, > 0, for labels of `classes`; 1 where not
        given; as in scikit-learn they multiply `C`. "balanced": inverse to the numbers of records
        in the classes, which 2 % of the squared budget releases. Where these are public,
        ``{label: 1 / (n_classes * share)}`` is the same at no cost.
    random_state : None, int or RandomState, default=None
        None draws the noise from the operating system. Anything else makes it reproducible, for
        tests only: the guarantee is void and a `SeededNoiseWarning` is given.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        Guarantee of the fit. Public.
    classes_ : ndarray of shape (n_classes,)
        Public.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Released.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Released.
    X_bounds_ : tuple of ndarray of shape (n_features,)
        The box. Public.
    n_iter_ : int
        Number of released gradients. Released.
    n_records_ : int
        Number of records, or of groups. Public.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        When X has string column names.

    See Also
    --------
    sklearn.linear_model.LogisticRegression : What it approximates, without privacy.

    Notes
    -----
    Input may be dense or sparse, a memory map or a Dask array; each step reads it once, in blocks.
    A missing or infinite value of X is an error after the charge: the budget is spent, and the
    error reveals that some record has one; a `DPSimpleImputer` before the model takes missing ones.
    A column without variance gets a coefficient that is noise, which the box makes harmless.

    Few records, many columns or rare classes: the noise of a gradient has norm about
    sqrt(columns * classes) / (n mu); where that is not well below .1 the model is poor.
    Unless the noise is small, gradients are clipped: where many records are misclassified, log-odds
    are then too large, by a third for data that follow the model with accuracy .8.

    References
    ----------
    M. Abadi et al., Deep learning with differential privacy, CCS 2016. J. Dong, A. Roth, W. J. Su,
    Gaussian differential privacy, JRSS B 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.linear_model import DPLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (5000, 2))
    >>> y = X @ [1.0, -2.0] > 0
    >>> model = DPLogisticRegression(X_bounds=(-3, 3), classes=[False, True]).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.privacy_.status
    'proved'
    """

    _mechanism = "Gaussian sums of clipped gradients"
    _takes = ("sparse",)

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        X_bounds: Any = None,
        C: float = 1.0,
        fit_intercept: bool = True,
        classes: Any = None,
        class_weight: dict[Any, float] | str | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.X_bounds = X_bounds
        self.C = C
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.class_weight = class_weight
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Release the scales of the columns, then noisy gradients along a descent.

        Parameters
        ----------
        X : array-like, sparse matrix or Dask array of shape (n_samples, n_features)
            Protected.
        y : array-like of shape (n_samples,)
            Protected.
        groups : sequence of length n_samples, default=None
            Protected labels of the groups (persons, sites) of the rows: all records of a group are
            protected together, see :doc:`/theory/groups`. None and NaN are groups of their own.
            The number of groups is public, their sizes are not.

        Returns
        -------
        self : object
            The fitted classifier.

        Raises
        ------
        ValueError, TypeError
            On a bad parameter or shape; on NaN and infinity; the message does not name a
            record.
        BudgetExceededError
            If the active `PrivacyLedger` cannot pay; nothing has been touched then.
        """
        refuse_missing_target(y, self)
        check_same_length(X, y, groups)
        self._check_settings()
        classes = checked_classes(self.classes, y)
        guarantee = self._guarantee_of_fit(groups)
        table, bounds, source = self._charged(guarantee, self._check_public, X, groups=groups)
        self.classes_, codes = read_labels(y, classes, table, self)
        self.X_bounds_ = bounds
        rows = BoxedRows(table, *bounds)
        rows.check_finite()
        with np.errstate(all="ignore"):  # an error of rounding would depend on the values
            weights, released = self._released_weights(rows, codes, guarantee.mu, source)
            box_coef, box_intercept = weights
        self.coef_ = (box_coef / rows.half_width[:, None]).T
        self.intercept_ = box_intercept - self.coef_ @ rows.centre
        hidden = hidden_columns(*released[1:], *bounds)
        return self._close(n_units(table), guarantee, hidden, is_box_wide(*released, *bounds))

    def _released_weights(self, rows, codes, mu, source):
        """Return released coefficients and intercepts for rows of the box, and their moments."""
        n = rows.shape[0]
        mu, weights, largest, effective = self._weights_of_classes(rows, codes, mu, source)
        mu_steps, mu_scales = split_budget(mu, _SHARE_OF_SCALES)
        released = release_moments(rows, mu_scales, _QUANTILE, source)
        intercept = bool(self.fit_intercept)
        scales = column_scales(*released, 1 / (n * mu), centre=intercept, intercept=intercept)
        n_outputs = 1 if len(weights) == 2 else len(weights)
        # The residual vector of several classes is up to sqrt 2 times as long as that of two.
        clip = 1.0 if n_outputs == 1 else math.sqrt(2.0)
        noise = 2 * clip / (effective * mu_steps) * math.sqrt((scales.dimension + 1) * n_outputs)
        share = 1.0 if noise <= _SMALL_NOISE else _CLIP
        clip *= share
        plan = DescentPlan(share * noise)
        if plan.by_curvature:  # decided by the noise, which is public or released
            mu_steps, mu_curvature = split_budget(mu_steps, _SHARE_OF_CURVATURE)
            # The last weight is for code -1, a label of no class.
            shares = np.append(weights, 0.0)[codes]
            known = {"n_outputs": n_outputs, "gradient_noise": 2 * clip / (effective * mu_steps)}
            moments = rows, scales, shares, effective, mu_curvature
            curvature = released_curvature(*moments, source, **known)
        # Equal budgets, so that all steps have the same noise and lattice.
        mu_step = float(step_budgets(mu_steps, plan.n_steps)[0])
        release = GradientRelease(rows, codes, scales, weights, mu_step, clip, effective)
        # Penalty on coefficients of standardised columns, not on the intercept. scikit-learn's C
        # multiplies the sum of the weighted losses; the gradients here are means.
        d = rows.shape[1]
        # Capped at 1e100, so that nothing overflows.
        C = max(float(self.C) * largest, 1e-300)
        strength = min(1 / (C * effective * scales.size**2), 1e100)
        penalties = np.append(np.full(d, strength), 0.0)
        shape = d + 1, n_outputs
        if plan.by_curvature:
            w = descend_by_curvature(lambda w: release(w, source), curvature, shape, penalties)
        else:
            w = descend(lambda w: release(w, source), shape, plan, penalties)
        self.n_iter_ = plan.n_steps
        return scales.in_box_units(w), released

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to classify; clipped to the box, as in `fit`.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            With two classes, positive for the second.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        scores = clipped_product(X, self.X_bounds_, self.coef_.T) + self.intercept_
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            # 1 - expit(scores) would lose the digits of small probabilities.
            return np.column_stack([expit(-scores), expit(scores)])
        return softmax(scores, axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """Most probable classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Members of `classes_`.
        """
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    def _check_settings(self):
        check_flag(self.fit_intercept, "fit_intercept")
        check_positive(self.C, "C")
        if isinstance(self.class_weight, dict):
            for weight in self.class_weight.values():
                check_positive(weight, "class_weight")
            # Without `classes`, labels of records are not read before the charge.
            known = self.class_weight if self.classes is None else np.asarray(self.classes).tolist()
            if others := [label for label in self.class_weight if label not in known]:
                raise ValueError(f"class_weight has labels that are not in classes: {others}.")
        elif not (self.class_weight is None or isinstance(self.class_weight, str)):
            raise TypeError('class_weight must be None, "balanced" or a dict of positive weights.')
        elif self.class_weight is not None:
            check_choice(self.class_weight, "class_weight", ("balanced",))

    def _weights_of_classes(self, rows, codes, mu, source):
        """Return the rest of mu, weights over their largest, the largest, and a divisor of sums.

        The divisor is the released sum of the weights for "balanced", else the number of records:
        the sum of public weights depends on protected labels.
        """
        if self.class_weight == "balanced":
            mu, mu_counts = split_budget(mu, _SHARE_OF_COUNTS)
            n_classes = len(self.classes_)
            weights, mean = release_balance(codes, n_classes, mu_counts, source, rows.sizes)
            return mu, weights, 1 / mean, mean * rows.shape[0]
        given = self.class_weight or {}
        weights = np.array([float(given.get(label, 1.0)) for label in self.classes_.tolist()])
        # At most 1, as the sensitivity of a record's gradient is that of weight 1.
        return mu, weights / weights.max(), float(weights.max()), rows.shape[0]
