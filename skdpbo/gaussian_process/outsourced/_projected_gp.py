"""Gaussian process regression on rows that were released with noise."""

from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel

from skdpbo._attempt import attempt
from skdpbo._parameters import positive_values
from skdpbo._schema import in_doubles, refuse_missing_target
from skdpbo.gaussian_process._posterior_regressor import PosteriorRegressor
from skdpbo.gaussian_process.outsourced._curator_base import RowReleaser
from skdpbo.gaussian_process.outsourced._noisy_covariance import noisy_inputs
from skdpbo.gaussian_process.outsourced._noisy_posterior import (
    ProjectedPredictor,
    fitted_target,
    fixed_target,
)
from skdpbo.gaussian_process.outsourced._row_belief import BelievedRows, is_isotropic, normal_rows
from skdpbo.privacy._checks import check_choice, check_count

# Fields of a fitted target and attributes of the estimator.
_PUBLISHED = {
    "noise_variance": "noise_variance_",
    "prior_mean": "prior_mean_",
    "log_marginal_likelihood": "log_marginal_likelihood_value_",
}
_MOST_TARGET = 1e150
_LEAST, _MOST = 1e-70, 1e70  # of norms of rows and of noise, whose fourth powers are taken


def _refuse_extreme(y):
    """Raise for public targets whose squares underflow or overflow."""
    y = in_doubles(np.asarray(y))
    # NaN and infinity are refused elsewhere.
    size = np.abs(np.where(np.isfinite(y), y, 0.0)).max(axis=0, initial=0.0)
    if np.any((size > _MOST_TARGET) | (size > 0) & (size < 1 / _MOST_TARGET)):
        raise ValueError(
            f"y must be 0, or of {1 / _MOST_TARGET:g} to {_MOST_TARGET:g} in size, in each column: "
            "squares are taken. Give it in other units."
        )


class ProjectedGP(PosteriorRegressor, RowReleaser):
    r"""Gaussian process regression with private inputs and public targets.

    The rows of X are released once, with noise, as by `PrivateProjection`; the model is fitted to
    the released rows and y alone, and takes the noise of the rows into account.

    Private: the position of every row of X, for data sets in which one row is moved by at most
    `displacement` in l2 norm; a row that is moved t times as far costs t times as much, and
    `replacement_guarantee` says what replacing a row by any other costs. The targets are not
    protected. Theorem: the noise of a row is calibrated to the largest move of the computed row;
    everything else is post-processing.

    Parameters
    ----------
    n_components : int, default=None
        Number of columns of the released rows, at most that of X. Fewer: the rows are multiplied
        by a public random matrix with orthogonal columns first, for inputs of many dimensions.
        None: as many as X has.
    mechanism : {"l2_laplace", "gaussian", "kharkovskii2020"}, default="l2_laplace"
        Mechanism that makes rows private; as for `PrivateProjection`. "kharkovskii2020" protects
        nothing, with a `VoidGuaranteeWarning`.
    epsilon : float, default=1.0
        Privacy loss bound, > 0.
    delta : float, default=1e-5
        Delta of the guarantee, in (0, 1). Not used by "l2_laplace".
    data_norm : float, default=None
        Public norm, > 0, in the units of X; longer rows are shortened to it. None: three times the
        square root of the number of features, with a `DefaultBoundsWarning`, unless `X_bounds` are
        given.
    displacement : float, default=1.0
        The move of a row that is hidden, > 0, in the units of X (l2 norm).
    X_bounds : tuple (low, high), default=None
        Public box for the rows in place of `data_norm`, in the units of X; numbers, or vectors
        with one value for each feature. Rows outside are clipped.
    kernel : sklearn kernel, default=None
        Of the function on exact rows: constants, RBF, sums of these and products with constants.
        With the `optimizer` a template for targets of mean 0 and standard deviation 1, without it
        in squared units of y. None: a constant times RBF, of length-scale a third of the norm.
    noise_variance : float, array-like of shape (n_targets,) or "fitted", default="fitted"
        Variance of a target about the function, > 0, in squared units of y.
    optimizer : "fmin_l_bfgs_b" or None, default="fmin_l_bfgs_b"
        Whether the free parameters of the kernel are fitted by maximum marginal likelihood, on
        released rows and public targets: no privacy is spent. None: used as they are, and
        `noise_variance` must be given.
    n_restarts_optimizer : int, default=1
        Further starts, at points of a fixed sequence; in [0, 1000].
    row_prior : {"auto", "flat", "normal"}, default="auto"
        Prior distribution of the exact rows. "flat": uniform in the public domain. "normal": a
        normal distribution, of a mean and covariance that are estimated from the released rows; in
        many dimensions this removes most of the noise. "auto": the one under which y is more
        likely. None of them costs privacy.
    random_state : None, int or RandomState, default=None
        None draws the noise from the operating system. Anything else makes it reproducible, for
        tests only: the guarantee is void and a `SeededNoiseWarning` is given.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        Guarantee of the fit. Public.
    release_ : ProjectionRelease
        The released rows, and how they were made. Released.
    kernel_ : sklearn kernel, or list of them where y has columns
        On exact rows, in squared units of y. Released.
    noise_variance_ : float or ndarray of shape (n_targets,)
        As given, or fitted. Released.
    prior_mean_ : float or ndarray of shape (n_targets,)
        The mean of y. Public.
    log_marginal_likelihood_value_ : float or ndarray of shape (n_targets,)
        Log density of y under the model. Released.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        When X has string column names.

    See Also
    --------
    PrivateProjection : Releases the rows and answers with y one by one.
    DPSparseGPRegressor : Protects inputs and targets, against replacement.

    Notes
    -----
    Under the flat prior, released rows outside of the public domain are moved to its edge; under
    the normal one all are shrunk towards the mean, the more the larger the noise is. The prior
    covariance is the mean of the kernel over the noise of both rows between training rows, and of
    one between a training row and a row to predict at, which is projected without noise (exact for
    normal noise, a close approximation for l2-Laplace noise). `predict` and `score` at protected
    rows are for the owner of the rows: their results are not covered by the guarantee.

    Each evaluation of the likelihood with its gradient takes a Cholesky factorisation and an
    inverse of n x n. Up to 899 rows there are about 50 for each start and `row_prior`. From 900 on
    the starts are followed on a third of the rows, at most 1000 of them, and the best of them ends
    with some 25 evaluations of all rows: a default fit takes about 3 seconds on one core for 500
    rows, 5 for 1000, 17 for 2000 and 77 for 3000.

    Further assumptions: the number of rows, the columns and that every value is a finite
    number are public; the parameters are chosen without the rows; time and memory are not
    observed.

    References
    ----------
    D. Kharkovskii, Z. Dai, B. K. H. Low, Private outsourced Bayesian optimization, ICML 2020.
    M. E. Andres et al., Geo-indistinguishability, CCS 2013. P. Dallaire, C. Besse, B. Chaib-draa,
    An approximate inference with Gaussian process to latent functions from uncertain data,
    Neurocomputing 74, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.gaussian_process import ProjectedGP
    >>> X = np.linspace(-25, 25, 200)[:, None]
    >>> y = np.sin(X[:, 0] / 5)
    >>> gp = ProjectedGP(epsilon=2.0, X_bounds=(-25, 25)).fit(X, y)
    >>> mean, std = gp.predict([[0.0], [8.0]], return_std=True)
    >>> mean.shape, std.shape
    ((2,), (2,))
    >>> gp.privacy_.neighbours
    'one row of X moved by at most 1 (l2 norm)'
    """

    _assumed = ("the targets y are public: they are not protected",)

    def __init__(
        self,
        n_components: int | None = None,
        *,
        mechanism: Any = "l2_laplace",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        data_norm: float | None = None,
        displacement: float = 1.0,
        X_bounds: Any = None,
        kernel: Any = None,
        noise_variance: Any = "fitted",
        optimizer: str | None = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 1,
        row_prior: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.mechanism = mechanism
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.displacement = displacement
        self.X_bounds = X_bounds
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.row_prior = row_prior
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Release the rows of X and fit the model to the release and y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Protected.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Public; each column 0, or of 1e-150 to 1e150 in size.

        Returns
        -------
        self : object
            The fitted regressor.

        Raises
        ------
        ValueError, TypeError
            On a bad parameter or shape; on NaN and infinity, reported for all records
            together.
        BudgetExceededError
            If the active `PrivacyLedger` cannot pay; nothing has been touched then.
        """
        refuse_missing_target(y, self)
        targets, _ = attempt(self._checked_targets, y)  # public; an error is raised again below
        if isinstance(targets, np.ndarray):
            _refuse_extreme(targets)

        # Before the charge, so that public errors cost nothing.
        def check(shape, y):
            q = 1 if y.ndim == 1 else y.shape[1]
            if not isinstance(self.noise_variance, str):
                noise_variance = positive_values(self.noise_variance, q, "noise_variance")
            elif self.noise_variance != "fitted":
                raise ValueError('noise_variance must be positive, or "fitted".')
            elif self.optimizer is None:
                raise ValueError('noise_variance="fitted" needs an optimizer: give a number.')
            else:
                noise_variance = [None] * q
            plan = self._plan(*shape)
            return plan, self._checked_kernel(plan), noise_variance

        X, y, checked, source = self._charged_rows(X, y, self.privacy_guarantee(), check)
        _refuse_extreme(y)  # Dask arrays are read now
        plan, kernel, noise_variance = checked
        # Stated again: the cost of a replaced row may depend on the number of columns.
        guarantee = self.privacy_guarantee(n_features=self.n_features_in_)
        release = self._release_rows(X, plan, guarantee, source)
        del X  # what follows is a function of the release and of y
        targets = y if y.ndim == 2 else y[:, None]
        self._fit_released(release, targets.astype(np.float64), kernel, noise_variance)
        self._single_target = y.ndim == 1
        fitted = self._predictor.targets
        kernels = [target.kernel for target in fitted]
        self.kernel_ = kernels[0] if self._single_target else kernels
        for name, attribute in _PUBLISHED.items():
            values = np.array([getattr(target, name) for target in fitted])
            setattr(self, attribute, self._shaped(values))
        return self._close(release, guarantee)

    def _fit_released(self, release, targets, kernel, noise_variance):
        """Fit one Gaussian process to each target: post-processing of the release."""
        # The normal prior needs two noisy rows; otherwise the flat one is used.
        beliefs = []
        if self.row_prior != "normal" or release.noise_std == 0 or release.n_rows < 2:
            # Under a flat prior: released rows, moved into the public domain.
            flat = release.rows_in_domain(), release.noise_std, np.zeros(release.n_components)
            beliefs.append(BelievedRows(*flat))
        if self.row_prior != "flat" and release.noise_std > 0 and release.n_rows > 1:
            beliefs.append(normal_rows(release, is_isotropic(kernel)))
        fit = fixed_target
        if self.optimizer is not None:
            fit = partial(fitted_target, n_starts=1 + self.n_restarts_optimizer)
        predictors = []
        for believed in beliefs:
            fitted = [
                fit(kernel, believed.rows, y, noise_std=believed.noise_std, noise_variance=variance)
                for y, variance in zip(targets.T, noise_variance, strict=True)
            ]
            predictors.append(ProjectedPredictor(self._map.exact, believed, fitted))
        # Post-processing: the evidence of y under both priors depends on the release.
        self._predictor = max(predictors, key=lambda fitted: fitted.log_marginal_likelihood)

    def _checked_kernel(self, plan):
        check_choice(self.row_prior, "row_prior", ("auto", "flat", "normal"))
        if self.optimizer not in ("fmin_l_bfgs_b", None):
            raise ValueError('optimizer must be "fmin_l_bfgs_b" or None.')
        check_count(self.n_restarts_optimizer, "n_restarts_optimizer", least=0, most=1000)
        norm, noise = plan.domain.norm, plan.mechanism_for(n_rows=1)[1]
        if not (_LEAST < norm < _MOST and noise < _MOST):
            raise ValueError(
                f"data_norm and X_bounds must leave rows of norm {_LEAST:g} to {_MOST:g}, and "
                f"displacement / epsilon noise below {_MOST:g}: fourth powers of both are taken; "
                f"got {norm:.3g} and {noise:.3g}."
            )
        if self.kernel is None:
            return ConstantKernel(1.0, (0.05, 20.0)) * RBF(norm / 3, (norm / 100, 10 * norm))
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel must be a scikit-learn kernel, got {self.kernel!r}.")
        noisy_inputs(self.kernel, 0.0, n_noisy=2)  # refuses kernels whose mean is not implemented
        kernel = clone(self.kernel)
        ends = np.repeat([[0.0], [1.0]], plan.n_components, axis=1)
        with np.errstate(all="ignore"):
            values = kernel(ends)  # raises for a wrong number of length-scales
            valid = np.isfinite(kernel.theta).all() and np.isfinite(values).all()
        if not (valid and values[0, 0] > 0):
            raise ValueError(f"kernel must have positive and finite parameters, got {kernel}.")
        return kernel
