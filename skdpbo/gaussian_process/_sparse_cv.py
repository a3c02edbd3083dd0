"""Sparse Gaussian process regression that chooses its kernel inside one private fit."""

from dataclasses import replace

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel

from skdpbo.gaussian_process._features import WhitenedFeatures
from skdpbo.gaussian_process._kernel_choice import (
    AverageKernelMethod,
    average_kernel,
    check_kernels,
)
from skdpbo.gaussian_process._parameters import check_flag
from skdpbo.gaussian_process._predictor import MixturePredictor, WeightPredictor
from skdpbo.gaussian_process._prior_mean import budget_of_mean
from skdpbo.gaussian_process._sparse import DPSparseGPRegressor

__all__ = ["DPSparseGPRegressorCV"]

_NEGLIGIBLE = 1e-9  # probability of a kernel that predictions leave out


class DPSparseGPRegressorCV(DPSparseGPRegressor):
    r"""Sparse Gaussian process regression that chooses among kernels; inputs and targets private.

    In the spirit of `RidgeCV`: one fit, one release, and the kernel is chosen from what was
    released. There is no cross-validation: the evidence of the released sums decides, and the
    number of kernels does not enter the cost.

    Private: every training record, its inputs and its targets, for data sets that differ in one
    record; the number of records is public. The release is the one of `DPSparseGPRegressor` for
    the average of the kernels, exactly :math:`\mu`-Gaussian differentially private by the same
    theorem; the choice, the noise variance and the posterior are computed from it.

    Parameters
    ----------
    kernels : list of sklearn kernels, default=None
        Candidates: stationary, on vectors; their parameters are used as they are. They may differ
        in anything; the farther apart they are, the more of the features' length goes to kernels
        that are not chosen. None: RBF with sqrt(n_features) times 1/4, 1/2, 1, 2 and 4.
    average : bool, default=True
        Predict with the average over the kernels, weighted by `kernel_probabilities_`: wider bands
        where the release cannot tell. False: with the best alone.
    noise_variance : float, array-like of shape (n_targets,) or "released", default="released"
        Variance of an observation about the function, > 0, in squared units of y. "released":
        estimated for each kernel from the released sums, at no further cost.
    signal_variance : {"kernel", "released"}, default="kernel"
        "released": average over multiples of each kernel too, powers of 2 from 2^-8 to 2^8.
    inducing_points : None, int or array-like of shape (n_inducing, n_features), default=None
        Where the process is represented, for all kernels alike; public. See
        `DPSparseGPRegressor`. Their distances should not exceed the shortest length-scale by much.
    epsilon : float, default=1.0
        Privacy loss bound, > 0.
    delta : float, default=1e-5
        In (0, 1).
    X_bounds : tuple (low, high), default=None
        Public box for the inducing points, in the units of X. None: (-3, 3), with a
        `DefaultBoundsWarning` where the box is needed.
    y_bounds : tuple (low, high), default=None
        Public range of the targets, in their units; targets outside are clipped. The prior mean is
        the centre. None: (-3, 3), with a `DefaultBoundsWarning`.
    prior_mean : {"none", "private"}, default="none"
        "private": a released mean of the targets, from 5 % of the squared budget.
    y_scale : float or array-like of shape (n_targets,), default=None
        Public standard deviation of the targets, for ``prior_mean="private"``.
    n_jobs : int, default=None
        Threads of the pass over the data, as in joblib.
    chunk_size : int, default=1024
        Records at a time, at least 1. The result does not depend on it.
    random_state : None, int or RandomState, default=None
        None draws the noise from the operating system. Anything else makes it reproducible, for
        tests only: the guarantee is void and a `SeededNoiseWarning` is given.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        What the fit promises, choice included. Public.
    best_index_ : int
        Which of `kernels` is likeliest. Released.
    best_kernel_ : sklearn kernel
        That kernel. Released.
    kernel_ : sklearn kernel
        The same; with ``signal_variance="released"`` times a released factor. Released.
    kernel_probabilities_ : ndarray of shape (n_kernels,)
        Posterior probabilities under a uniform prior. Released.
    log_evidence_ : ndarray of shape (n_kernels,)
        Log density of the released sums under each kernel, up to a common constant. Released.
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
    n_records_ : int
        Public.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        When X has string column names.

    See Also
    --------
    DPSparseGPRegressor : For one kernel.
    skdpbo.DPGridSearchCV : With ``protect="all"`` it tunes any private estimator, from a half of
        the records, at a higher price.

    Notes
    -----
    What is assumed is what `DPSparseGPRegressor` assumes, for all kernels: they were chosen
    without looking at the records. A pass over the data costs as many kernel evaluations as there
    are kernels.

    Releasing moments of each kernel's own features instead would have to share the budget, and
    their evidences could not be compared, being those of different statistics.

    References
    ----------
    A. Honkela, L. Melkas, Gaussian processes with differential privacy, arXiv:2106.00474, 2021.
    J. Dong, A. Roth, W. J. Su, Gaussian differential privacy, JRSS B 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skdpbo.gaussian_process import DPSparseGPRegressorCV
    >>> X = np.linspace(-4, 4, 5000)[:, None]
    >>> y = np.sinc(X[:, 0])
    >>> gp = DPSparseGPRegressorCV(
    ...     [RBF(0.3), RBF(1.0), RBF(3.0)], epsilon=2.0, X_bounds=(-4, 4), y_bounds=(-1, 1)
    ... )
    >>> gp.fit(X, y).kernel_probabilities_.shape
    (3,)
    >>> gp.predict([[0.0], [2.5]]).shape
    (2,)
    """

    # Fixed here, a choice of the parent class.
    release, posterior = "whitened", "noise_aware"
    sensitivity, ratio = "certified", 1.0

    def __init__(
        self,
        kernels=None,
        *,
        average=True,
        noise_variance="released",
        signal_variance="kernel",
        inducing_points=None,
        epsilon=1.0,
        delta=1e-5,
        X_bounds=None,
        y_bounds=None,
        prior_mean="none",
        y_scale=None,
        n_jobs=None,
        chunk_size=1024,
        random_state=None,
    ):
        self.kernels = kernels
        self.average = average
        self.noise_variance = noise_variance
        self.signal_variance = signal_variance
        self.inducing_points = inducing_points
        self.epsilon = epsilon
        self.delta = delta
        self.X_bounds = X_bounds
        self.y_bounds = y_bounds
        self.prior_mean = prior_mean
        self.y_scale = y_scale
        self.n_jobs = n_jobs
        self.chunk_size = chunk_size
        self.random_state = random_state

    def privacy_guarantee(self, n_samples=None):
        """What `fit` promises, choice included; needs no data.

        Parameters
        ----------
        n_samples : int, default=None
            Ignored: the noise does not depend on the number of records.

        Returns
        -------
        guarantee : PrivacyGuarantee
            Of one fit: the chosen kernel and all that it publishes together.
        """
        guarantee = super().privacy_guarantee(n_samples)
        return replace(
            guarantee,
            mechanism=guarantee.mechanism.replace(
                AverageKernelMethod.__base__.mechanism, AverageKernelMethod.mechanism
            ),
            assumptions=tuple(
                text.replace("the kernel,", "the kernels,") for text in guarantee.assumptions
            ),
            reference="Dong, Roth & Su 2022, Theorem 2.7; docs/theory/private_kernel_choice.md",
        )

    def _check_parameters(self):
        super()._check_parameters()
        check_flag(self.average, "average")

    def _feature_kernel(self, Z):
        kernels = check_kernels(self.kernels, Z.shape[1])
        return average_kernel(kernels, Z[:1])

    def _method(self, features, mu, half_width, n_records):
        mu_mean = None
        if self.prior_mean == "private":
            mu, mu_mean = budget_of_mean(mu)
        method = AverageKernelMethod(
            features,
            check_kernels(self.kernels, features.Z.shape[1]),
            mu=mu,
            half_width=half_width,
            n_records=n_records,
            fit_amplitude=self.signal_variance == "released",
        )
        return method, mu_mean

    def _publish(self, features, prior_mean, fitted, single_target):
        """Set the attributes; everything here is public or released."""
        self._single_target = single_target
        probabilities, best = fitted.probabilities, int(np.argmax(fitted.probabilities))
        shares = probabilities if self.average else np.arange(len(probabilities)) == best
        taken = np.flatnonzero(shares > _NEGLIGIBLE)
        shares = shares[taken] / shares[taken].sum()
        kernels = check_kernels(self.kernels, features.Z.shape[1])
        scaled = [_scaled(k, fit.amplitude) for k, fit in zip(kernels, fitted.fits, strict=True)]
        parts = [
            WeightPredictor(
                WhitenedFeatures(scaled[k], features.Z),
                prior_mean,
                fitted.fits[k].means,
                fitted.fits[k].covariances,
            )
            for k in taken
        ]
        self._predictor = MixturePredictor(parts, shares)
        self.best_index_, self.best_kernel_, self.kernel_ = best, kernels[best], scaled[best]
        self.kernel_probabilities_ = probabilities
        self.log_evidence_ = fitted.log_evidence
        self.inducing_points_ = features.Z
        self.mean_, self.covariance_ = map(self._shaped, self._predictor.at_inducing_points())
        self.prior_mean_ = self._shaped(prior_mean)
        noise = shares @ np.array([fitted.fits[k].noise_variance for k in taken])
        self.noise_variance_ = self._shaped(noise)


def _scaled(kernel, factor):
    return kernel if factor == 1.0 else ConstantKernel(factor, "fixed") * kernel
