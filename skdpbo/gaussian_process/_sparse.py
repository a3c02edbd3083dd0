"""Sparse Gaussian process regression that protects every training record."""

import numbers

from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.gaussian_process.kernels import ConstantKernel
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import validate_data

from skdpbo.gaussian_process._features import WhitenedFeatures, check_kernel
from skdpbo.gaussian_process._inducing import inducing_design
from skdpbo.gaussian_process._methods import KernelMethod, WhitenedMethod
from skdpbo.gaussian_process._parameters import (
    bounds_or_default,
    check_choice,
    check_chunk_size,
    positive_values,
    warn_if_seeded,
)
from skdpbo.gaussian_process._posterior_regressor import PosteriorRegressor
from skdpbo.gaussian_process._predictor import WeightPredictor
from skdpbo.gaussian_process._prior_mean import budget_of_mean, private_prior_mean
from skdpbo.gaussian_process._records import checked_table, has_numeric_type
from skdpbo.gaussian_process._statistics import streamed_gram
from skdpbo.mechanisms import noise_source
from skdpbo.privacy import (
    LedgerMixin,
    PrivacyGuarantee,
    charge_active_ledger,
    check_epsilon,
    mu_from_epsilon,
)

__all__ = ["DPSparseGPRegressor"]

_CHOICES = {
    "signal_variance": ("kernel", "released"),
    "release": ("whitened", "kernel"),
    "sensitivity": ("certified", "tight", "generic", "trivial"),
    "posterior": ("noise_aware", "linearised", "linearised_published", "naive"),
    "prior_mean": ("none", "private"),
}
_ASSUMPTIONS = (
    "the number of records, the columns, the types and that all values are finite are public",
    "the kernel, the inducing points and the bounds were chosen without looking at the records",
    "running time and memory use are not observed",
)


class DPSparseGPRegressor(LedgerMixin, PosteriorRegressor):
    r"""Sparse Gaussian process regression with private inputs and targets.

    One pass over the records computes the second moments of their features at the inducing
    points; these are released once, with Gaussian noise, and everything else is computed from
    the release.

    Private: every training record, its inputs and its targets, for data sets that differ in one
    record; the number of records is public. The release is :math:`\mu`-Gaussian differentially
    private, :math:`\mu` the largest that gives (epsilon, delta). Theorem: a record's features and
    scaled targets form a vector of squared norm at most :math:`W^2`, for every kernel and every
    inducing points, and outer products of such vectors differ by at most :math:`\sqrt 2 W^2`.

    Parameters
    ----------
    kernel : sklearn kernel, default=None
        Stationary, on vectors; its parameters are used as they are and never fitted. Units:
        length-scales in those of X, variance in those of y squared. None stands for
        ``RBF(sqrt(n_features))``, for features on a scale of about 1.
    noise_variance : float, array-like of shape (n_targets,) or "released", default="released"
        Variance of an observation about the function, > 0, in squared units of y. "released":
        estimated from the released sums, at no further cost.
    signal_variance : {"kernel", "released"}, default="kernel"
        "released": average over multiples of the kernel, powers of 2 from 2^-8 to 2^8, by how
        likely they make the released sums, at no further cost; for when the variance of the
        function is not known within a factor of about 4. Overconfident where the noise prevails.
        Needs ``release="whitened"``.
    inducing_points : None, int or array-like of shape (n_inducing, n_features), default=None
        Where the process is represented; public. An int asks for that many points in `X_bounds`:
        a grid in one dimension, and in two where it is a square; Sobol points otherwise. None:
        15, 25 or 50 points in one, two or more dimensions.
    epsilon : float, default=1.0
        Privacy loss bound, > 0.
    delta : float, default=1e-5
        In (0, 1).
    X_bounds : tuple (low, high), default=None
        Public box for the inducing points, in the units of X; numbers, or vectors with one value
        for each feature. Records outside are not clipped; they only have small features. None:
        (-3, 3), with a `DefaultBoundsWarning` where the box is needed.
    y_bounds : tuple (low, high), default=None
        Public range of the targets, in their units; numbers, or vectors with one value for each
        target. Targets outside are clipped. The prior mean is the centre. None: (-3, 3), with a
        `DefaultBoundsWarning`.
    release : {"whitened", "kernel"}, default="whitened"
        What is released. "kernel": the published statistics K_ZX y and K_ZX K_XZ (Honkela &
        Melkas), with about twice the error; it needs a given `noise_variance`, and a kernel made
        of constants, RBF, Matern and RationalQuadratic.
    sensitivity : {"certified", "tight", "generic", "trivial"}, default="certified"
        How the norm of k_Z(x) is bounded, for the kernel release only: the smallest proved bound,
        or the paper's Eq. (9), Eq. (7) and (8), Eq. (4). Privacy holds for every choice.
    ratio : float or "optimal", default=1.0
        c = sigma_a^2 / sigma_b^2, for the kernel release only.
    posterior : str, default="noise_aware"
        "noise_aware": the privacy noise is part of the model. "linearised": the paper's
        regularised solution, the covariance corrected to first order; "linearised_published":
        corrected by Eq. (17), which approximates that; "naive": not corrected. All but the first
        are overconfident.
    prior_mean : {"none", "private"}, default="none"
        "none": the centre of `y_bounds`. "private": a released mean of the targets, from 5 % of
        the squared budget; the interval of `y_bounds` is moved there, with its width.
    y_scale : float or array-like of shape (n_targets,), default=None
        Public standard deviation of the targets, for ``prior_mean="private"``: COINPRESS is used,
        better than the clipped mean (None) where `y_bounds` is wider than about 8 of them.
    n_jobs : int, default=None
        Threads of the pass over the data, as in joblib. None is one thread, with BLAS threads.
    chunk_size : int, default=1024
        Records at a time, at least 1. The result does not depend on it.
    random_state : None, int or RandomState, default=None
        None draws the noise from the operating system. Anything else makes it reproducible, for
        tests only: the guarantee is void and a `SeededNoiseWarning` is given.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        What the fit promises. Public.
    kernel_ : sklearn kernel
        Public; with ``signal_variance="released"`` times a released factor, its posterior mean.
    inducing_points_ : ndarray of shape (n_inducing, n_features)
        Public.
    mean_ : ndarray of shape (n_inducing,) or (n_inducing, n_targets)
        Posterior mean of the function at the inducing points, prior mean included. Released.
    covariance_ : ndarray of shape (n_inducing, n_inducing) or (n_inducing, n_inducing, n_targets)
        Posterior covariance there. Released.
    noise_variance_ : float or ndarray of shape (n_targets,)
        As given, or estimated. Released.
    prior_mean_ : float or ndarray of shape (n_targets,)
        The prior mean. Public, or released.
    elbo_ : float or ndarray of shape (n_targets,)
        Titsias' bound on the log evidence, with the noise of the release; only with
        ``release="whitened"``. Released.
    n_records_ : int
        Public.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        When X has string column names.

    See Also
    --------
    DPSparseGPRegressorCV : Chooses among kernels inside one fit, at no further cost.
    sklearn.gaussian_process.GaussianProcessRegressor : What it approximates, without privacy.

    Notes
    -----
    Assumed besides the mechanism: the number of records, the columns and that every value is a
    finite number are public (scikit-learn's error for NaN and infinity is kept, and it tells that
    some record has one); kernel, inducing points and bounds are chosen without the records; time
    and memory are not observed. `predict` and `score` on protected rows are not covered.

    Features are whitened, :math:`\phi(x) = L^{-1} k_Z(x)/\sigma_f`, so that no bound on
    :math:`k_Z` is needed; the second moment of the features is estimated among those that records
    can have; and the posterior models the privacy noise. At the same budget the error is about
    half of that of the published algorithm.

    References
    ----------
    A. Honkela, L. Melkas, Gaussian processes with differential privacy, arXiv:2106.00474, 2021.
    M. K. Titsias, Variational learning of inducing variables in sparse Gaussian processes,
    AISTATS 2009. J. Dong, A. Roth, W. J. Su, Gaussian differential privacy, JRSS B 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skdpbo.gaussian_process import DPSparseGPRegressor
    >>> X = np.linspace(-4, 4, 5000)[:, None]
    >>> y = np.sinc(X[:, 0])
    >>> gp = DPSparseGPRegressor(RBF(1.0), epsilon=2.0, X_bounds=(-4, 4), y_bounds=(-1, 1))
    >>> mean, std = gp.fit(X, y).predict([[0.0], [2.5]], return_std=True)
    >>> mean.shape, std.shape
    ((2,), (2,))
    >>> gp.privacy_.status
    'proved'
    """

    def __init__(
        self,
        kernel=None,
        *,
        noise_variance="released",
        signal_variance="kernel",
        inducing_points=None,
        epsilon=1.0,
        delta=1e-5,
        X_bounds=None,
        y_bounds=None,
        release="whitened",
        sensitivity="certified",
        ratio=1.0,
        posterior="noise_aware",
        prior_mean="none",
        y_scale=None,
        n_jobs=None,
        chunk_size=1024,
        random_state=None,
    ):
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
        self.n_jobs = n_jobs
        self.chunk_size = chunk_size
        self.random_state = random_state

    def fit(self, X, y):
        """Release the noisy second moments of the records and compute the posterior from them.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Protected. Arrays and memory maps are read once, in chunks; a Dask array is summed
            where its blocks are.
        y : array-like or Dask array of shape (n_samples,) or (n_samples, n_targets)
            Protected.

        Returns
        -------
        self : object
            The fitted regressor.

        Raises
        ------
        ValueError, TypeError
            On a bad parameter or shape; on NaN and infinity, which is said of all records
            together.
        BudgetExceededError
            If the active `PrivacyLedger` cannot pay; nothing has been touched then.
        """
        guarantee = self.privacy_guarantee()
        self._check_parameters()
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        readable = has_numeric_type(X) and has_numeric_type(y)
        if not readable:  # lists and objects are read to learn their shape and type
            charge_active_ledger(guarantee, type(self).__name__, self)
        X, y = self._check_records(X, y)
        targets = y if y.ndim == 2 else y[:, None]
        n, q = targets.shape
        Z = self._inducing_points(X.shape[1])
        features = WhitenedFeatures(self._feature_kernel(Z), Z)
        low, high = bounds_or_default(self.y_bounds, q, "y_bounds", stacklevel=2)
        noise_variance = self._checked_noise_variance(q)
        scale = None if self.y_scale is None else positive_values(self.y_scale, q, "y_scale")
        method, mu_mean = self._method(features, guarantee.mu, (high - low) / 2, n)
        source, centre = noise_source(self.random_state), (low + high) / 2
        warn_if_seeded(self.random_state, stacklevel=2)
        if readable:  # before any value is read
            charge_active_ledger(guarantee, type(self).__name__, self)

        if self.prior_mean == "private":
            centre = private_prior_mean(targets, low, high, mu=mu_mean, scale=scale, source=source)
        rows = method.rows(centre)
        gram = streamed_gram(
            rows, X, targets, rows.radius, chunk_size=self.chunk_size, n_jobs=self.n_jobs
        )
        fitted = method.weights(gram, source, noise_variance)
        self._publish(features, centre, fitted, single_target=y.ndim == 1)
        self.n_records_, self.privacy_ = n, guarantee
        return self

    def privacy_guarantee(self, n_samples=None):
        """What `fit` promises; needs no data.

        Parameters
        ----------
        n_samples : int, default=None
            Ignored: the noise does not depend on the number of records.

        Returns
        -------
        guarantee : PrivacyGuarantee
            Of one fit: all that it publishes together.
        """
        epsilon = check_epsilon(self.epsilon)
        published = self.release == "kernel"
        mechanism = (KernelMethod if published else WhitenedMethod).mechanism
        if self.prior_mean == "private":
            mechanism += " and a private mean of the targets"
        guarantee = PrivacyGuarantee(
            epsilon=epsilon,
            delta=self.delta,
            mu=mu_from_epsilon(epsilon, self.delta),
            protects="training records",
            mechanism=mechanism,
            assumptions=_ASSUMPTIONS,
            reference="Dong, Roth & Su 2022, Theorem 2.7; docs/theory/sparse_gp.md",
        )
        if self.random_state is None:
            return guarantee
        return guarantee.voided(
            "the noise was drawn from a seed (random_state), so it can be recomputed and removed"
        )

    def _check_parameters(self):
        for name, choices in _CHOICES.items():
            check_choice(getattr(self, name), name, choices)
        if self.release == "kernel" and self.signal_variance != "kernel":
            raise ValueError('signal_variance="released" needs release="whitened".')
        check_chunk_size(self.chunk_size)
        effective_n_jobs(self.n_jobs)  # raises what joblib would raise after the charge

    def _method(self, features, mu, half_width, n_records):
        """Return the release with its posterior, and the budget of the prior mean."""
        mu_mean = None
        if self.prior_mean == "private":
            mu, mu_mean = budget_of_mean(mu)
        common = {
            "mu": mu,
            "half_width": half_width,
            "n_records": n_records,
            "posterior": self.posterior,
        }
        if self.release == "whitened":
            fit_amplitude = self.signal_variance == "released"
            return WhitenedMethod(features, fit_amplitude=fit_amplitude, **common), mu_mean
        method = KernelMethod(features, sensitivity=self.sensitivity, ratio=self.ratio, **common)
        return method, mu_mean

    def _feature_kernel(self, Z):
        """Return the kernel whose features are released."""
        return clone(check_kernel(self.kernel, Z.shape[1]))

    def _check_records(self, X, y):
        """Check the schema and leave the values alone: they are checked as they are read."""
        table = checked_table(X, "X", ensure_2d=True, estimator=self)
        validate_data(self, X, skip_check_array=True)  # names and number of the columns
        X, y = table, checked_table(y, "y", ensure_2d=False, estimator=self)
        if X.ndim != 2 or y.ndim not in (1, 2):
            raise ValueError("X must have two dimensions, and y one or two.")
        check_consistent_length(X, y)
        return X, y

    def _inducing_points(self, n_features):
        points = self.inducing_points
        by_design = points is None or isinstance(points, numbers.Integral)
        if not by_design:
            return inducing_design(points, None, n_features)
        box = bounds_or_default(self.X_bounds, n_features, "X_bounds", stacklevel=3)
        return inducing_design(points, box, n_features)

    def _checked_noise_variance(self, n_targets):
        """Return one variance for each target, or None when they are to be estimated."""
        if not isinstance(self.noise_variance, str):
            return positive_values(self.noise_variance, n_targets, "noise_variance")
        if self.noise_variance != "released":
            raise ValueError('noise_variance must be positive, or "released".')
        if self.release != "whitened":
            raise ValueError(
                'noise_variance="released" needs release="whitened": the kernel release has no '
                "sum of squared targets. Give the noise variance."
            )
        return None

    def _publish(self, features, prior_mean, fitted, single_target):
        """Set the attributes; everything here is public or released."""
        self._single_target = single_target
        if fitted.amplitude != 1.0:
            factor = ConstantKernel(fitted.amplitude, "fixed")
            features = WhitenedFeatures(factor * features.kernel, features.Z)
        self._predictor = WeightPredictor(features, prior_mean, fitted.means, fitted.covariances)
        self.kernel_, self.inducing_points_ = features.kernel, features.Z
        self.mean_, self.covariance_ = map(self._shaped, self._predictor.at_inducing_points())
        self.prior_mean_ = self._shaped(prior_mean)
        self.noise_variance_ = self._shaped(fitted.noise_variance)
        if fitted.elbo is not None:
            self.elbo_ = self._shaped(fitted.elbo)
        elif hasattr(self, "elbo_"):
            del self.elbo_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # with few records the privacy noise prevails
        return tags
