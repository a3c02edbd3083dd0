"""Sparse Gaussian process regression that protects every training record."""

import math
from functools import partial
from typing import Any, Self

import numpy as np

from skdpbo._parameters import check_bounds, half_widths, positive_values
from skdpbo._record_groups import n_units, placed, record_codes
from skdpbo._schema import check_same_length, refuse_missing_target
from skdpbo.gaussian_process._posterior_regressor import PosteriorRegressor
from skdpbo.gaussian_process._public_base import PublicBase, ResidualRows
from skdpbo.gaussian_process.sparse._first_releases import ReleasePlan
from skdpbo.gaussian_process.sparse._fit_warnings import warn_of_bounds
from skdpbo.gaussian_process.sparse._kernel_family import default_family
from skdpbo.gaussian_process.sparse._private_process import PrivateProcess, private_prior_mean
from skdpbo.gaussian_process.sparse._release_methods import (
    KernelMethod,
    WhitenedMethod,
    check_choices,
)


class DPSparseGPRegressor(PublicBase, PosteriorRegressor, PrivateProcess):
    r"""Sparse Gaussian process regression with private inputs and targets.

    Second moments of the records' features are released with Gaussian noise; everything else is
    computed from the release.

    Private: every training record, its inputs and its targets, for data sets that differ in one
    record; the number of records is public. The release is :math:`\mu`-Gaussian differentially
    private, :math:`\mu` the largest that gives (epsilon, delta). Theorem: a record's features and
    scaled targets form a vector of squared norm at most :math:`W^2`, for every kernel and every
    inducing points, and outer products of such vectors differ by at most :math:`\sqrt 2 W^2`.

    Parameters
    ----------
    kernel : None, sklearn kernel or list of sklearn kernels, default=None
        Kernels on vectors, whose parameters are never fitted. Units: length-scales in those of X,
        variance in those of y squared. One release serves several, and predictions are averaged by
        how likely each makes the released sums. Where k(x, x) is not constant (DotProduct,
        polynomials), records of more than its mean over the inducing points count with a smaller
        weight. None: seven RBF kernels, a Matern and a linear kernel, in the units of the inducing
        points (a sixth of their range in each column, times sqrt(n_features), times 1/8 to 8) and
        of `y_bounds`; of 2 and 3 columns also kernels on some. Of 2 to 100 two releases, for 11 %
        (of two) or 14 % of the squared budget, show which matter and how far records and targets
        reach; of one column, where noise is large, counts show that first, for 10 %. Your own class
        makes the guarantee conditional on values of two points at a time.
    noise_variance : float, array-like of shape (n_targets,) or "released", default="released"
        Variance of an observation about the function, > 0, in squared units of y. "released":
        estimated from the released sums, at no further cost.
    signal_variance : {"kernel", "released"}, default="kernel"
        "released": average over each kernel times 2^-8 to 2^8, by likelihood, for a variance that
        is not known to a factor of 4; overconfident in much noise. Needs ``release="whitened"``.
    inducing_points : None, int or array-like of shape (n_inducing, n_features), default=None
        Public points of the process. An int >= 1 is their number in `X_bounds`: a grid in one and
        two columns (if a square), else Sobol points. None: 30 to 50; to 100 if few of many matter.
    epsilon : float, default=1.0
        Privacy loss bound, > 0. Smaller is more private.
    delta : float, default=1e-5
        Delta of the guarantee, in (0, 1).
    X_bounds : tuple (low, high) or "private", default=None
        Public box for the inducing points, in the units of X; numbers, or vectors with one value
        for each feature. Records outside are not clipped; they only have small features. None:
        those of public rows, or none with given inducing points; otherwise, as with "private",
        released: a few times as wide as the records (of few, powers of two), for 10 % of the
        squared budget, with `y_bounds`; of too few (-3, 3), with a `DefaultBoundsWarning`.
    y_bounds : tuple (low, high) or "private", default=None
        Public range of the targets, in their units; numbers, or vectors with one value for each
        target. Targets outside are clipped. None, "private": as for `X_bounds`. With the default
        kernels and up to 100 columns 4 % of the squared budget show mean and spread of the targets,
        and those far from the rest are clipped, too (not of residuals in up to three columns).
    release : {"whitened", "kernel"}, default="whitened"
        Released statistics. "kernel": the published K_ZX y and K_ZX K_XZ (Honkela & Melkas), with
        about twice the error; it needs a given `noise_variance`, and one kernel made of constants,
        RBF, Matern and RationalQuadratic.
    sensitivity : {"certified", "tight", "generic", "trivial"}, default="certified"
        Bound on the norm of k_Z(x), for the kernel release only: the smallest proved bound, or
        the paper's Eq. (9), Eq. (7) and (8), Eq. (4). Privacy holds for every choice.
    ratio : float or "optimal", default=1.0
        c = sigma_a^2 / sigma_b^2, > 0, of the kernel release; optimal if released bounds need it.
    posterior : str, default="noise_aware"
        "noise_aware": the privacy noise is part of the model. The others are overconfident, of one
        kernel: the paper's regularised solution with the covariance corrected to first order
        ("linearised"), by Eq. (17) ("linearised_published") or not at all ("naive").
    prior_mean : {"none", "private"}, default="none"
        "none": the centre of `y_bounds`, with the default kernels what is released of the mean (see
        there). "private": a released mean of the targets, for 5 % of the squared budget; the
        interval of `y_bounds` is moved there.
    y_scale : float or array-like of shape (n_targets,), default=None
        Public standard deviation of the targets, > 0, for ``prior_mean="private"`` by COINPRESS:
        better than the clipped mean (None) where `y_bounds` is wider than about 8 of them.
    base : None or regressor, default=None
        Public model for fits with public rows. None: a Gaussian process, boosting or ridge
        regression, by cross-validation on these.
    n_jobs : int, default=None
        Threads of the pass over the data, as in joblib. None: one, with BLAS threads.
    chunk_size : int, default=1024
        Records at a time, at least 1; not used with groups. The result does not depend on it.
    random_state : None, int or RandomState, default=None
        None draws the noise from the operating system. Anything else makes it reproducible, for
        tests only: the guarantee is void and a `SeededNoiseWarning` is given.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        Guarantee of the fit. Public.
    kernels_ : list of sklearn kernels
        Those in use. Public; released where the box of `inducing_points_` is.
    columns_ : list of int
        On which the default kernels depend, beside the linear one; of 2 to 100. Released.
    kernel_probabilities_ : ndarray of shape (n_kernels,)
        Posterior probabilities of `kernels_`. Released.
    log_evidence_ : ndarray of shape (n_kernels,)
        Log density of the released sums under each kernel, of 4 to 10 columns with large noise
        under half of each default one, up to a constant; 0 with ``release="kernel"``. Released.
    kernel_ : sklearn kernel
        The likeliest; with ``signal_variance="released"`` times the posterior mean of its factor.
        Released.
    inducing_points_ : ndarray of shape (n_inducing, n_features)
        Public; with `columns_`, and of one column where noise is large, by what is released, unless
        they are given.
    mean_ : ndarray of shape (n_inducing,) or (n_inducing, n_targets)
        Posterior mean of the function at the inducing points, prior mean included. Released.
    covariance_ : ndarray of shape (n_inducing, n_inducing) or (n_inducing, n_inducing, n_targets)
        Posterior covariance there. Released.
    noise_variance_ : float or ndarray of shape (n_targets,)
        As given, or estimated. Released.
    prior_mean_ : float or ndarray of shape (n_targets,)
        The prior mean. Public, or released.
    elbo_ : float or ndarray of shape (n_targets,)
        Titsias' bound on the log evidence; only with ``release="whitened"``. Released.
    X_bounds_, y_bounds_ : tuple (low, high) of ndarray
        Those that were released.
    base_ : regressor
        Fitted to the public rows; only with public rows, as the next two. Public.
    residual_bound_ : float or ndarray of shape (n_targets,)
        Residuals are clipped to this distance from 0: three standard deviations of the
        cross-validated public residuals, at most half the width of `y_bounds`. Public.
    signal_probability_ : float
        Probability that the residuals of `base_` are more than noise about 0, 5 % before the
        release: predictions are those of `base_` plus this share of the private process. Released.
    n_records_ : int
        Number of records, or of groups. Public.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        When X has string column names.

    See Also
    --------
    sklearn.gaussian_process.GaussianProcessRegressor : The exact process, without privacy.
    skdpbo.DPGridSearchCV : With ``protect="all"`` it tunes any private estimator, at a higher
        price than a list of kernels.

    Notes
    -----
    ``privacy_.assumptions`` lists what is public. NaN and infinity are errors after the charge: the
    budget is spent, and the error reveals that some record has one. `predict` and `score` on
    protected rows are not covered.

    Features are whitened, :math:`\phi(x) = L^{-1} k_Z(x)/\sigma_f`, so that no bound on
    :math:`k_Z` is needed; with several kernels they are those of the average of the kernels, each
    divided by its variance, so the number of kernels does not enter the noise. At the same budget
    the error is about half of that of the published algorithm.

    References
    ----------
    A. Honkela, L. Melkas, Gaussian processes with differential privacy, arXiv:2106.00474, 2021.
    M. K. Titsias, Variational learning of inducing variables in sparse Gaussian processes,
    AISTATS 2009. J. Dong, A. Roth, W. J. Su, Gaussian differential privacy, JRSS B 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.gaussian_process import DPSparseGPRegressor
    >>> X = np.linspace(-4, 4, 5000)[:, None]
    >>> y = np.sinc(X[:, 0])
    >>> gp = DPSparseGPRegressor(epsilon=2.0, X_bounds=(-4, 4), y_bounds=(-1, 1))
    >>> mean, std = gp.fit(X, y).predict([[0.0], [2.5]], return_std=True)
    >>> mean.shape, std.shape
    ((2,), (2,))
    >>> gp.privacy_.status
    'proved'
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        noise_variance: Any = "released",
        signal_variance: str = "kernel",
        inducing_points: Any = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        X_bounds: Any = None,
        y_bounds: Any = None,
        release: str = "whitened",
        sensitivity: str = "certified",
        ratio: float | str = 1.0,
        posterior: str = "noise_aware",
        prior_mean: str = "none",
        y_scale: Any = None,
        base: Any = None,
        n_jobs: int | None = None,
        chunk_size: int = 1024,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.signal_variance = signal_variance
        self.inducing_points = inducing_points
        self.epsilon = epsilon
        self.delta = delta
        self.X_bounds = X_bounds
        self.y_bounds = y_bounds
        self.release = release
        self.sensitivity = sensitivity
        self.ratio = ratio
        self.posterior = posterior
        self.prior_mean = prior_mean
        self.y_scale = y_scale
        self.base = base
        self.n_jobs = n_jobs
        self.chunk_size = chunk_size
        self.random_state = random_state

    def fit(self, X, y, *, X_public=None, y_public=None, groups=None) -> Self:
        """Release the noisy second moments of the records and compute the posterior from them.

        With public rows the private process is one of the residuals of a public model, and bounds
        that are not given come from the public rows.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Protected. Read in chunks, once for each release; a Dask array where its blocks are.
        y : array-like or Dask array of shape (n_samples,) or (n_samples, n_targets)
            Protected.
        X_public : array-like of shape (n_public, n_features), default=None
            Public rows, at least 5; none of them is protected.
        y_public : array-like of shape (n_public,) or (n_public, n_targets), default=None
            Their targets.
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
            On a bad parameter or shape; on NaN and infinity; the message does not name a record.
        BudgetExceededError
            If the active `PrivacyLedger` cannot pay; nothing has been touched then.
        """
        refuse_missing_target(y, self)
        check_same_length(X, y, groups)
        check_choices(self)
        self._check_pass()
        guarantee = self._with_public(self._guarantee_of_fit(groups), X, y, X_public, y_public)
        check = partial(self._planned, guarantee.mu, groups is None, X_public, y_public)
        X, planned, source = self._charged(guarantee, partial(check, {}), X, y, groups=groups)
        found, unseen = self._released_bounds(planned[0], planned[1], X, source)
        if found:
            planned = self._planned_again(check, found, X, planned[1])
        budgets, y, box, scale, family, Z, build, half_width, noise_variance, public = planned
        targets, centre = y if y.ndim == 2 else y[:, None], (box[0] + box[1]) / 2
        if budgets.mean is not None:
            centre = private_prior_mean(
                targets, *box, mu=budgets.mean, scale=scale, source=source, groups=record_codes(X)
            )

        def release_sums(method, centre=centre):
            rows = ResidualRows(method.rows(centre), public) if public else method.rows(centre)
            return self._release(method, rows, X, placed(X, targets), source)

        n = n_units(X)
        start = ReleasePlan(family, Z, budgets.moments, half_width)
        plan = self._plan_of_moments(start, n, release_sums, public)
        sizes = {"mu": plan.mu, "half_width": plan.half_width, "n_records": n}
        method = build(plan.family, Z=plan.Z, **sizes)
        centre = centre + plan.shift
        released = release_sums(method, centre)
        fits = method.posterior(released, noise_variance)
        self._publish(plan, method.features, centre, fits, single_target=y.ndim == 1)
        if public:
            self._publish_gate(public, method.signal_probability(released, fits, noise_variance))
        self._close(n, guarantee)  # before warnings, which may be errors
        if found:
            self._warn_of_units(family.kernels, Z, half_width)
        warn_of_bounds(self, method, released, half_width, Z, unseen=unseen, wide=plan.wide)
        return self

    def _planned(self, mu, counted, X_public, y_public, found, X, y):
        """Return the plan of the release, by shapes and parameters; raises all public errors."""
        y = self._checked_targets(y)
        sizes = {"X_bounds": X.shape[1], "y_bounds": (q := math.prod(y.shape[1:]))}
        n_rows = X.shape[0] if counted else None
        budgets = self._budgets(mu, n_rows, sizes, found, X_public is not None)
        estimated = isinstance(self.noise_variance, str)
        given = None if estimated else positive_values(self.noise_variance, q, "noise_variance")
        scale = None if self.y_scale is None else positive_values(self.y_scale, q, "y_scale")
        public, default_box = self._fitted_public(X_public, y_public, y)
        Z = self._inducing_points(X.shape[1], found, default_box)
        if public:
            public.refuse_mixed_rows(Z)
            box = -public.bound, public.bound  # of residuals: about 0
        else:
            box = check_bounds(self._bounds("y_bounds", found), q, "y_bounds")
        half_width = half_widths(box, "y_bounds")
        family = self._checked_kernels(Z, default_family(Z, half_width), budgets, found)
        build = partial(self._method, Z=Z, half_width=half_width, found=bool(found))
        mu_least = self._least_share * budgets.moments
        build(family, mu=mu_least, n_records=1)  # raises the errors of a method
        self._warn_of_plan(budgets, n_rows, family.kernels, Z, half_width)
        return budgets, y, box, scale, family, Z, build, half_width, given, public

    @property
    def _mechanism(self):
        published = "Gaussian mechanism on kernel statistics"
        return self._described(published if self.release == "kernel" else super()._mechanism)

    def _method(self, family, Z, found=False, **common):
        """Return the release with its posterior; from public values."""
        common["posterior"] = self.posterior
        if self.release == "kernel":
            common |= {"ratio": self.ratio, "fitted": found or "y_bounds" in self._private_bounds()}
            return KernelMethod(family, Z, sensitivity=self.sensitivity, **common)
        common["fit_amplitude"] = self.signal_variance == "released"
        shares = "design" if self.kernel is None else "equal"
        return WhitenedMethod(family, Z, shares=shares, **common)

    def _publish(self, plan, features, prior_mean, fits, single_target):
        """Set the attributes; everything here is public or released."""
        self._single_target = single_target
        kernels = plan.family.kernels
        noise, elbo = self._publish_average(kernels, features, prior_mean, fits, plan.left_out)
        self.mean_, self.covariance_ = map(self._shaped, self._predictor.joint())
        self.prior_mean_ = self._shaped(prior_mean)
        self.noise_variance_ = self._shaped(noise)
        for name in ("elbo_", "base_", "signal_probability_", "residual_bound_"):
            vars(self).pop(name, None)  # of an earlier fit
        if elbo is not None:
            self.elbo_ = self._shaped(elbo)
