"""The whitened and the published release, each with its posterior, for the estimators.

Each has three steps: `rows` puts records on the lattice, `release` adds noise to their exact sum,
and `posterior` is a function of the release. The model is, for each kernel and target,
f(x) = prior mean + phi(x)'v + residual with whitened features phi and a Gaussian posterior of v.
"""

import math
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.special import expit, logit, logsumexp

from skdpbo._gram_release import GramMethod, WhitenedRelease
from skdpbo._noise_aware import MomentModel, released_noise_variance
from skdpbo.gaussian_process.papers._kernel_posterior import (
    in_coordinates,
    kernel_posterior,
    regulariser,
)
from skdpbo.gaussian_process.papers._kernel_release import KernelRelease, KernelRows
from skdpbo.gaussian_process.papers._kernel_sensitivity import NORM_BOUNDS, optimal_ratio
from skdpbo.gaussian_process.sparse._denoising import (
    denoised_second_moment,
    nearest_mixture,
    smaller_scales,
)
from skdpbo.gaussian_process.sparse._features import LatticeRows, WhitenedFeatures
from skdpbo.gaussian_process.sparse._inducing import SUPPORT_DESIGNS, support_design
from skdpbo.gaussian_process.sparse._kernel_family import (
    average_kernel,
    evidence_factor,
    kernel_shares,
)
from skdpbo.gaussian_process.sparse._mixtures import (
    AMPLITUDES,
    FittedWeights,
    averaged,
    feature_maps,
)
from skdpbo.gaussian_process.sparse._share_design import designed_shares, recoverable_parts
from skdpbo.privacy._checks import check_choice, check_positive
from skdpbo.surrogate._linalg import one_blas_thread

_CHOICES = {
    "signal_variance": ("kernel", "released"),
    "release": ("whitened", "kernel"),
    "sensitivity": tuple(NORM_BOUNDS),
    "posterior": ("noise_aware", "linearised", "linearised_published", "naive"),
    "prior_mean": ("none", "private"),
}

_SMALL = 256  # number of features up to which BLAS threads gain little
# Low, since the public model explains most of the signal, and a false signal adds noise.
_PRIOR_OF_A_SIGNAL = 0.05


def check_choices(gp):
    """Check the choices of a `DPSparseGPRegressor` and their combination."""
    for name, choices in _CHOICES.items():
        check_choice(getattr(gp, name), name, choices)
    if not (isinstance(gp.ratio, str) and gp.ratio == "optimal"):
        check_positive(gp.ratio, "ratio")
    methods = ("get_params", "fit", "predict")
    if gp.base is not None and not all(hasattr(gp.base, name) for name in methods):
        raise TypeError(f"base must be None or a regressor, got {type(gp.base).__name__}.")
    if gp.release == "kernel" and gp.signal_variance != "kernel":
        raise ValueError('signal_variance="released" needs release="whitened".')
    if isinstance(gp.noise_variance, str):
        if gp.noise_variance != "released":
            raise ValueError('noise_variance must be positive, or "released".')
        if gp.release == "kernel":
            raise ValueError(
                'noise_variance="released" needs release="whitened": the kernel release has no sum '
                "of squared targets. Give the noise variance."
            )
    several = gp.kernel is None or isinstance(gp.kernel, list | tuple)
    if several and (gp.release == "kernel" or gp.posterior != "noise_aware"):
        raise ValueError(
            'release="kernel" and posteriors other than "noise_aware" need one kernel.'
        )


class WhitenedMethod(GramMethod):
    """Whitened release, of one kernel or of the average of several; see :class:`WhitenedRelease`.

    Parameters
    ----------
    family : KernelFamily
    Z : ndarray of shape (d, p)
        Inducing points.
    mu : float
    half_width : ndarray of shape (q,)
    n_records : int
    posterior : str, default="noise_aware"
        The others are for a single kernel.
    fit_amplitude : bool, default=False
        Whether to average over factors of each kernel; the features do not change.
    shares : {"equal", "fixed", "design"}, default="equal"
        Shares of the kernels in their average: equal; from :func:`kernel_shares`; or from
        :func:`designed_shares`. With "design", means of many columns are predicted in the features
        of the release, and those of one column are weighted by :func:`recoverable_parts`.
    """

    def __init__(
        self,
        family,
        Z,
        *,
        mu,
        half_width,
        n_records,
        posterior="noise_aware",
        fit_amplitude=False,
        shares="equal",
    ):
        kernels, priors, designed = family.kernels, family.log_priors, shares == "design"
        self.statistics = WhitenedRelease(mu, tuple(half_width.tolist()), n_records)
        self.parts, self.posterior_name = [WhitenedFeatures(k, Z) for k in kernels], posterior
        parts_of_all = None if shares == "equal" else kernel_shares(family, Z)
        self.recoverable = np.ones(len(kernels))
        if designed:
            parts_of_all = designed_shares(self.parts, parts_of_all, self.statistics, family.many)
        if designed and Z.shape[1] == 1:  # with useless columns, expected errors are wrong
            self.recoverable = recoverable_parts(self.parts, parts_of_all, self.statistics)
        # docs/theory/many_columns.md, Mean in the features of the release.
        self._mean_in_release = designed and family.many
        # Normalised: the gate needs an average over kernels (docs/theory/public_rows.md).
        self.log_priors = priors - logsumexp(priors)
        # One release for all kernels, whose noise does not depend on their number.
        self.features = WhitenedFeatures(average_kernel(kernels, Z, parts_of_all), Z)
        self.factors = AMPLITUDES if fit_amplitude else (1.0,)
        # With averaged amplitudes, the evidence of each amplitude is used.
        is_scaled = self._mean_in_release and not fit_amplitude
        noise = self.statistics.noise / n_records
        self._evidence_factor = evidence_factor(Z, noise) if is_scaled else 1.0

    def rows(self, centre, codes=None):
        """Return the map of records to lattice rows, for targets about `centre`, or for labels.

        In single precision if its total error is below the noise; a public choice.
        """
        statistics, Z = self.statistics, self.features.Z
        single, double = versions = [
            LatticeRows(
                self.features,
                centre=centre,
                codes=codes,
                half_width=np.asarray(statistics.half_width),
                beta=statistics.beta,
                step=statistics.step,
                radius=statistics.radius,
                dtype=dtype,
            )
            for dtype in (np.float32, np.float64)
        ]
        # Public points where features are not small.
        points = np.concatenate([Z, (Z + np.roll(Z, 1, axis=0)) / 2])
        Y = np.zeros((len(points), single.n_targets))
        Q, R = (version(points, Y, version.workspace(len(points))) for version in versions)
        # Worst case: every record has the largest error, all in one direction.
        loss = float(np.linalg.norm(Q - R, axis=1).max()) * statistics.step
        return single if statistics.n_records * loss <= statistics.noise else double

    def posterior(self, moments, noise_variance):
        """Return a list of `FittedWeights`, by kernel; a `noise_variance` of None is estimated.

        Post-processing: `moments` are released, and no protected value is in scope.
        """
        # docs/theory/sparse_gp.md; of several kernels, docs/theory/private_kernel_choice.md.
        support, density, estimate = self._denoised(moments)
        maps = [(None, 0.0)]  # a single kernel has the features of the release
        if len(self.parts) > 1:
            maps = feature_maps(self.features, self.parts, support, density, moments.sb)
        # Hundreds of small decompositions in a row.
        with one_blas_thread() if len(moments.B) <= _SMALL else nullcontext():
            fits = [
                self._under(part, T, error, moments, estimate, noise_variance)
                for part, (T, error) in zip(self.parts, maps, strict=True)
            ]
        public = zip(self.log_priors.tolist(), self.recoverable.tolist(), strict=True)
        return [
            replace(f, log_prior=p, recoverable=r) for f, (p, r) in zip(fits, public, strict=True)
        ]

    def signal_probability(self, moments, fits, noise_variance):
        """Return the probability that the targets are more than noise about 0.

        Post-processing: the average evidence of the kernels against that of a vanishing function.
        """
        _, _, estimate = self._denoised(moments)
        # From the same denoised moments, so that evidences are comparable.
        silent = self._models(estimate, signal_variance=0.0)
        nothing = self._log_evidence(silent, noise_variance)
        evidence = logsumexp([fit.log_evidence + fit.log_prior for fit in fits])
        return float(expit(logit(_PRIOR_OF_A_SIGNAL) + evidence - nothing))

    def _denoised(self, moments):
        """Return the support points, their weights, and the moments with a denoised B."""
        support = support_design(self.features.Z)
        phi = self.features(support)
        density = nearest_mixture(moments.B, phi, SUPPORT_DESIGNS)
        n_records = self.statistics.n_records
        B, left = denoised_second_moment(
            moments.B, phi, sb=moments.sb, n_records=n_records, weights=density
        )
        # With the remaining noise, c sigma_b^2 in docs/theory/sparse_gp.md.
        return support, density, replace(moments, B=B, sb=left)

    def _models(self, moments, **kernel):
        """Return the model of each target under a kernel."""
        common = {"sb": moments.sb, "n_records": self.statistics.n_records, **kernel}
        common["eigen"] = moments.eigen
        return [
            MomentModel(moments.B, moments.A[:, j], moments.yy[j, j], sa=sa, syy=syy, **common)
            for j, (sa, syy) in enumerate(zip(moments.sa, moments.syy, strict=True))
        ]

    def _noise_variances(self, models, noise_variance):
        """Return the noise variance of each target; None is estimated."""
        if noise_variance is not None:
            return noise_variance
        largest = [R**2 for R in self.statistics.half_width]  # for targets in [-R, R]
        return [released_noise_variance(*pair) for pair in zip(models, largest, strict=True)]

    def _log_evidence(self, models, noise_variance):
        """Return the log evidence of all targets under one kernel of known amplitude."""
        variances = self._noise_variances(models, noise_variance)
        return sum(m.log_evidence(s2) for m, s2 in zip(models, variances, strict=True))

    def _under(self, part, T, error, moments, estimate, noise_variance):
        """Return the posterior under one kernel, averaged over the factors."""
        models = self._models(
            estimate, signal_variance=part.signal_variance, features=T, map_error=error
        )
        fits = [
            self._scaled([model.scaled(factor) for model in models], moments, noise_variance)
            for factor in self.factors
        ]
        fit = averaged(self.factors, fits)
        if self._evidence_factor != 1.0:
            weighed = [model.scaled(self._evidence_factor) for model in models]
            fit = replace(fit, log_evidence=self._log_evidence(weighed, noise_variance))
        if self._mean_in_release:
            # With many columns T is exact at public points alone; T'v is fitted to the records.
            u = T.T @ fit.means
            fit = replace(fit, in_release=u * smaller_scales(u, moments, estimate.B))
        return fit

    def _scaled(self, models, moments, noise_variance):
        """Return the posterior of all targets under one kernel of known amplitude."""
        pairs = list(zip(models, self._noise_variances(models, noise_variance), strict=True))
        if self.posterior_name == "noise_aware":
            posteriors = [model.posterior(s2) for model, s2 in pairs]
        else:  # the paper's, with phi for k_Z: the prior of the weights, K_ZZ^-1, is sf2 I
            posteriors = [
                kernel_posterior(
                    moments.A[:, j],
                    moments.B,
                    np.eye(len(moments.B)) / model.sf2,
                    noise_variance=s2,
                    sa=moments.sa[j],
                    sb=moments.sb,
                    method=self.posterior_name,
                )
                for j, (model, s2) in enumerate(pairs)
            ]
        covariances = [p.covariance for p in posteriors]
        if len(self.parts) > 1:  # maps are not exact: bands would be too narrow
            spread = [model.dispersion(s2) for model, s2 in pairs]
            covariances = [P * c for P, c in zip(covariances, spread, strict=True)]
        return FittedWeights(
            means=np.stack([p.mean for p in posteriors], axis=1),
            covariances=np.stack(covariances),
            noise_variance=np.array([s2 for _, s2 in pairs]),
            elbo=np.array([model.elbo(s2) for model, s2 in pairs]),
            log_evidence=sum(model.log_evidence(s2) for model, s2 in pairs),
        )


class KernelMethod(GramMethod):
    """Published release; see :class:`KernelRelease`.

    Parameters
    ----------
    family : KernelFamily
        With one kernel.
    Z, mu, half_width, n_records, posterior
        As for :class:`WhitenedMethod`.
    sensitivity : {"certified", "tight", "generic", "trivial"}
    ratio : float or "optimal"
    fitted : bool, default=False
        Whether to take the optimal ratio if the noise of the given one does not fit the lattice,
        instead of an error, which in released ranges would come after the charge.
    """

    def __init__(
        self, family, Z, *, mu, half_width, n_records, posterior, sensitivity, ratio, fitted=False
    ):
        (kernel,) = family.kernels
        self.features, self.posterior_name = WhitenedFeatures(kernel, Z), posterior
        self.n_records = n_records
        # Affects accuracy alone (docs/theory/sparse_gp_release.md, Setting).
        k_norm = NORM_BOUNDS[sensitivity](kernel, Z)
        y_norm = math.sqrt(np.sum(half_width**2))
        if ratio == "optimal":
            # All posteriors but "noise_aware" have the regulariser, which outweighs the noise of B.
            regularised = posterior != "noise_aware"
            gain = regulariser(1.0, 1.0, len(Z)) ** 2 if regularised else 0.5
            ratio = optimal_ratio(k_norm, y_norm, gain)
        common = {"mu": mu, "k_norm": k_norm, "half_width": tuple(half_width.tolist())}
        release = partial(KernelRelease, **common, n_records=n_records)
        try:
            self.statistics = release(ratio=ratio)
        except ValueError:
            if not fitted:
                raise
            self.statistics = release(ratio=optimal_ratio(k_norm, y_norm))

    def rows(self, centre):
        """Return the map of records to lattice rows, for targets about `centre`."""
        return KernelRows(self.features.kernel, self.features.Z, self.statistics, centre)

    def posterior(self, statistics, noise_variance):
        """Return a list with the posterior of the weights; post-processing of `statistics`.

        Without a sum of squared targets there is no evidence: `noise_variance` must be given.
        """
        K_ZZ = self.features.kernel(self.features.Z)
        pairs = []
        for j, variance in enumerate(noise_variance.tolist()):
            posterior = kernel_posterior(
                statistics.A[:, j],
                statistics.B,
                K_ZZ,
                noise_variance=variance,
                sa=statistics.sa[j],
                sb=statistics.sb,
                method=self.posterior_name,
                n_records=self.n_records,
            )
            pairs.append(in_coordinates(posterior, self.features.whitener))
        means, covariances = zip(*pairs, strict=True)
        return [FittedWeights(np.stack(means, axis=1), np.stack(covariances), noise_variance)]
