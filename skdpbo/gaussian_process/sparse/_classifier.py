"""Sparse Gaussian process classification that protects every training record."""

from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from skdpbo._class_labels import (
    ProbabilityClassifier,
    checked_classes,
    read_labels,
)
from skdpbo._column_ranges import warn_of_no_range
from skdpbo._record_groups import n_units
from skdpbo._schema import check_same_length, refuse_missing_target
from skdpbo.gaussian_process.sparse._denoising import nearest_mixture
from skdpbo.gaussian_process.sparse._inducing import SUPPORT_DESIGNS, support_design
from skdpbo.gaussian_process.sparse._kernel_family import label_family
from skdpbo.gaussian_process.sparse._label_codes import (
    class_offsets,
    class_probabilities,
    label_codes,
    reliability,
)
from skdpbo.gaussian_process.sparse._private_process import PrivateProcess
from skdpbo.gaussian_process.sparse._release_methods import WhitenedMethod

_NOISE_OF_SHARES = 0.25  # of released class shares, for a reliability of 1


class DPSparseGPClassifier(ProbabilityClassifier, PrivateProcess):
    r"""Sparse Gaussian process classification with private inputs and labels.

    The second moments of the records' features at the inducing points and of their coded labels
    are released once, with Gaussian noise; everything else is computed from the release.

    Private: every training record, its inputs and its label, for data sets that differ in one
    record; the number of records is public. The release is :math:`\mu`-Gaussian differentially
    private, :math:`\mu` the largest that gives (epsilon, delta). Theorem: the code of a label is a
    vertex of a regular simplex, so a record's features and scaled code form a vector of squared
    norm at most 3/2, for every number of classes.

    Parameters
    ----------
    kernel : None, sklearn kernel or list of sklearn kernels, default=None
        Kernels on vectors; their parameters are used as they are and never fitted. Units:
        length-scales in those of X; variances in those of the codes, whose mean square is 1 (for
        two classes they are -1 and 1). With several, one release serves all, and predictions are
        averaged by how likely each makes the released sums. None: four RBF kernels of variance 1/2,
        in the units of the inducing points (a sixth of their range in each column, times
        sqrt(n_features), times 1/4, 1/2, 1 and 8), and from four columns on a linear one. A class
        of your own makes the guarantee conditional on values of two points at a time.
    classes : array-like of shape (n_classes,), default=None
        Public labels, at least two. A record with another label adds nothing. If classes are texts
        and the type of `y` is numeric, or vice versa, it is an error; in a list or an array of
        objects, such values are other labels. None: the set of labels that occur is declared
        public.
    inducing_points : None, int or array-like of shape (n_inducing, n_features), default=None
        Public points that represent the process. An int, at least 1, asks for that many points in
        `X_bounds`: a grid in one dimension, and in two where it is a square; Sobol points
        otherwise. None: 30, 49 or 50 points in one, two or more dimensions.
    epsilon : float, default=1.0
        Privacy loss bound, > 0. Smaller is more private.
    delta : float, default=1e-5
        Delta of the guarantee, in (0, 1).
    X_bounds : tuple (low, high) or "private", default=None
        Public box for the inducing points, in the units of X; numbers, or vectors with one value
        for each feature. Records outside are not clipped, but have small features. None: no box
        with given inducing points; otherwise, as with "private", released: a few times as wide as
        the records (with few records, powers of two), for 10 % of the squared budget; with too few
        (-3, 3), with a `DefaultBoundsWarning`.
    n_jobs : int, default=None
        Threads of the pass over the data, as in joblib. None is one thread, with BLAS threads.
    chunk_size : int, default=1024
        Records at a time, at least 1; not used with groups. The result does not depend on it.
    random_state : None, int or RandomState, default=None
        None draws the noise from the operating system. Anything else makes it reproducible, for
        tests only: the guarantee is void and a `SeededNoiseWarning` is given.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        Guarantee of the fit. Public.
    classes_ : ndarray of shape (n_classes,)
        Public.
    kernels_ : list of sklearn kernels
        Kernels in use. Public; released if the box of `inducing_points_` is.
    kernel_probabilities_ : ndarray of shape (n_kernels,)
        Posterior probabilities of `kernels_`. Released.
    log_evidence_ : ndarray of shape (n_kernels,)
        Log density of the released sums under each kernel, up to a common constant. Released.
    kernel_ : sklearn kernel
        The likeliest. Released.
    X_bounds_ : tuple (low, high) of ndarray
        Only if they were released.
    inducing_points_ : ndarray of shape (n_inducing, n_features)
        Public; released if their box is.
    noise_variance_ : float
        Mean squared distance of a code's coordinate from the process, estimated. Released.
    reliability_ : float
        Share of the records' own estimate in the posterior mean, at least 0.2. Released.
    offsets_ : ndarray of shape (n_classes,)
        Offsets of the standardised codes, multiplied by the length of the mean. They bring mean
        probabilities over the (estimated) records near the released shares of the classes;
        otherwise rare classes get too little. Released.
    n_records_ : int
        Number of records, or of groups. Public.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        When X has string column names.

    See Also
    --------
    sklearn.gaussian_process.GaussianProcessClassifier : A process with another likelihood, without
        privacy.
    skdpbo.linear_model.DPLogisticRegression : For many columns, or a linear boundary.

    Notes
    -----
    The process is fitted to the codes by least squares. ``privacy_.assumptions`` lists what is
    public. NaN and infinity in X are errors after the charge: the budget is spent, and the error
    reveals that some record has one. `predict` and `score` on protected rows are not covered.

    Beyond about five columns the inducing points are far from most records: the linear kernel of
    the default prevails, and `DPLogisticRegression` is better. Where the noise prevails,
    probabilities are closer to equal than they should be.

    References
    ----------
    C. E. Rasmussen, C. K. I. Williams, Gaussian processes for machine learning, 2006, Section 6.5.
    A. Honkela, L. Melkas, Gaussian processes with differential privacy, arXiv:2106.00474, 2021.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from skdpbo.gaussian_process import DPSparseGPClassifier
    >>> X, y = make_moons(5000, noise=0.2, random_state=0)
    >>> box = ([-1.5, -1.0], [2.5, 1.5])
    >>> model = DPSparseGPClassifier(X_bounds=box, classes=[0, 1], epsilon=2.0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.predict_proba([[0.0, 1.0]]).shape
    (1, 2)
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        classes: Any = None,
        inducing_points: Any = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        X_bounds: Any = None,
        n_jobs: int | None = None,
        chunk_size: int = 1024,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.kernel = kernel
        self.classes = classes
        self.inducing_points = inducing_points
        self.epsilon = epsilon
        self.delta = delta
        self.X_bounds = X_bounds
        self.n_jobs = n_jobs
        self.chunk_size = chunk_size
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Release the noisy second moments of the records and compute the posterior from them.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Protected. Arrays and memory maps are read once, in chunks; a Dask array is summed
            where its blocks are.
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
            On a bad parameter or shape; on NaN and infinity; the message does not name
            a record.
        BudgetExceededError
            If the active `PrivacyLedger` cannot pay; nothing has been touched then.
        """
        refuse_missing_target(y, self)
        self._check_pass()
        check_same_length(X, y, groups)
        classes = checked_classes(self.classes, y)
        guarantee = self._guarantee_of_fit(groups)
        check = partial(self._planned, guarantee.mu, groups is None)
        X, planned, source = self._charged(guarantee, partial(check, {}), X, groups=groups)

        # After the charge, records are read. Codes of the classes go into the sum, so that all
        # classes have the same distance.
        classes, positions = read_labels(y, classes, X, self)
        found, unseen = self._released_bounds(planned[0], None, X, source)
        if found:
            planned = self._planned_again(check, found, X)
        _, Z, family, build = planned
        # docs/theory/sparse_gp_classifier.md, The release.
        codes = label_codes(len(classes))
        n_coordinates = codes.shape[1]
        method = build(half_width=np.ones(n_coordinates), n_records=n_units(X))
        centre = np.zeros(n_coordinates)  # the mean of the simplex's vertices
        released = self._release(method, method.rows(centre, codes), X, positions[:, None], source)
        fits = method.posterior(released, None)
        # Post-processing of `released` to the end.
        noise_variance, _ = self._publish_average(family.kernels, method.features, centre, fits)
        self.noise_variance_ = float(noise_variance.mean())
        # Averages over estimated records: reading the records again would cost budget.
        support = support_design(Z)
        records = nearest_mixture(released.B, method.features(support), SUPPORT_DESIGNS)
        self.reliability_ = reliability(self._predictor, support, records)
        self.offsets_ = self._offsets(support, records, codes[:-1], n_units(X))
        self.classes_ = classes
        self._close(n_units(X), guarantee)  # before warnings, which may be errors
        if found:
            self._warn_of_units(family.kernels, Z)
        warn_of_no_range(self, unseen)
        return self

    def _offsets(self, support, records, codes, n_records):
        """Return offsets that bring mean probabilities near the released shares of the classes."""
        total, K = records.sum(), len(codes)
        if not total > 0:  # noise may leave no record at any point
            return np.zeros(K)
        weights, mean = records / total, self._predictor.mean(support)
        # Not divided by the reliability: a mean over all records is more reliable than at a point.
        shares = np.maximum((1 + codes @ (weights @ mean)) / K, 1 / n_records)
        return class_offsets(
            mean / self.reliability_,
            weights,
            codes,
            self.noise_variance_,
            shares / shares.sum(),
            _NOISE_OF_SHARES / self.reliability_**2,
        )

    @property
    def _mechanism(self):
        return self._with_ranges(super()._mechanism)

    def _planned(self, mu, counted, found, X):
        """Return the plan of the release, by shapes and parameters; raises all public errors."""
        n_rows = X.shape[0] if counted else None
        budgets = self._budgets(mu, n_rows, {"X_bounds": X.shape[1]}, found)
        Z = self._inducing_points(X.shape[1], found)
        family = self._checked_kernels(Z, label_family(Z), budgets, found)
        # Designed shares are worse at epsilon .1 (docs/benchmarks/rejected_ideas.md).
        shares = "fixed" if self.kernel is None else "equal"
        build = partial(WhitenedMethod, family, Z, mu=budgets.moments, shares=shares)
        build(half_width=np.ones(1), n_records=1)  # raises the errors of a method
        self._warn_of_plan(budgets, n_rows, family.kernels, Z)
        return budgets, Z, family, build

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        codes = label_codes(len(self.classes_))[:-1]
        # Divided by the reliability, which undoes the shrinkage of the mean to 0 by the prior.
        with np.errstate(under="ignore"):  # far from all points: 0
            mean = self._predictor.mean(X) / self.reliability_
            return class_probabilities(mean, codes, self.noise_variance_, self.offsets_)

    def predict(self, X: Any) -> np.ndarray:
        """Most probable classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Members of `classes_`.
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]
