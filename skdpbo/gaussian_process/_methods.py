"""The two releases as the estimator uses them: rows to sum, noise to add, posterior of the weights.

Both end in the same public form: f(x) = prior mean + phi(x)'v + residual with whitened features phi
and a Gaussian posterior of v for each target.
"""

import math
from dataclasses import dataclass

import numpy as np

from skdpbo.gaussian_process._amplitudes import (
    AMPLITUDES,
    amplitude_probabilities,
    mixture_moments,
)
from skdpbo.gaussian_process._features import LatticeRows, largest_difference
from skdpbo.gaussian_process._inducing import support_design
from skdpbo.gaussian_process._kernel_posterior import kernel_posterior, regulariser
from skdpbo.gaussian_process._kernel_release import KernelRelease, KernelRows
from skdpbo.gaussian_process._noise_aware import (
    MomentModel,
    noise_aware_posterior,
    released_noise_variance,
)
from skdpbo.gaussian_process._second_moment import denoised_second_moment
from skdpbo.gaussian_process._sensitivity import norm_bound, optimal_ratio
from skdpbo.gaussian_process._whitened import WhitenedRelease

__all__ = ["FittedWeights", "KernelMethod", "WhitenedMethod"]


@dataclass(frozen=True)
class FittedWeights:
    """Posterior of the weights, from released values alone.

    Attributes
    ----------
    means : ndarray of shape (d, q)
    covariances : ndarray of shape (q, d, d)
    noise_variance : ndarray of shape (q,)
    elbo : ndarray of shape (q,) or None
    amplitude : float
        Factor of the kernel, or its posterior mean.
    """

    means: np.ndarray
    covariances: np.ndarray
    noise_variance: np.ndarray
    elbo: np.ndarray | None = None
    amplitude: float = 1.0

    @classmethod
    def of(cls, pairs, noise_variance, **more):
        """From one (mean, covariance) for each target."""
        means, covariances = zip(*pairs, strict=True)
        return cls(np.stack(means, axis=1), np.stack(covariances), noise_variance, **more)


class WhitenedMethod:
    """Whitened release; see :class:`WhitenedRelease`.

    Parameters
    ----------
    features : WhitenedFeatures
    mu : float
    half_width : ndarray of shape (q,)
    n_records : int
    posterior : {"noise_aware", "linearised", "naive"}
    fit_amplitude : bool
        Average over factors of the kernel; the features stay as they are.
    """

    mechanism = "Gaussian second moments of whitened features"

    def __init__(self, features, *, mu, half_width, n_records, posterior, fit_amplitude=False):
        self.features, self.posterior = features, posterior
        self.factors = AMPLITUDES if fit_amplitude else (1.0,)
        self.release = WhitenedRelease(mu, tuple(half_width.tolist()), n_records)

    def rows(self, centre):
        """Records as lattice rows, for targets about `centre`.

        In single precision where the noise hides what it loses on all records together; public
        values decide.
        """
        single, double = (self._rows(centre, dtype) for dtype in (np.float32, np.float64))
        loss = largest_difference(single, double, self.features.Z) * self.release.step
        return single if self.release.n_records * loss <= self.release.noise else double

    def _rows(self, centre, dtype):
        release = self.release
        return LatticeRows(
            self.features,
            centre=centre,
            half_width=np.asarray(release.half_width),
            beta=release.beta,
            step=release.step,
            radius=release.radius,
            dtype=dtype,
        )

    def weights(self, gram, source, noise_variance):
        """Release, then post-process; `noise_variance` is None where it is to be estimated."""
        moments = self.release.release(gram, source)
        B = denoised_second_moment(
            moments.B,
            self.features(support_design(self.features.Z)),
            sb=moments.sb,
            n_records=self.release.n_records,
        )
        models = [self._model(moments, B, j) for j in range(len(self.release.half_width))]
        fits = [self._scaled(models, factor, noise_variance) for factor in self.factors]
        evidences = [sum(model.log_evidence(s2) for model, s2 in fit) for fit in fits]
        shares = amplitude_probabilities(self.factors, evidences)
        variances = shares @ [[s2 for _, s2 in fit] for fit in fits]
        elbo = shares @ [[model.elbo(s2) for model, s2 in fit] for fit in fits]
        posteriors = [
            mixture_moments(shares, [self._posterior(moments, j, *fit[j]) for fit in fits])
            for j in range(len(models))
        ]
        amplitude = float(shares @ self.factors)
        return FittedWeights.of(posteriors, variances, elbo=elbo, amplitude=amplitude)

    def _scaled(self, models, factor, noise_variance):
        """Pairs of model and noise variance under a kernel multiplied by `factor`."""
        models = [model.scaled(factor) for model in models]
        if noise_variance is None:
            largest = [R**2 for R in self.release.half_width]
            noise_variance = map(released_noise_variance, models, largest)
        return list(zip(models, noise_variance, strict=True))

    def _model(self, moments, B, j):
        return MomentModel(
            B,
            moments.A[:, j],
            moments.yy[j, j],
            sb=moments.sb,
            sa=moments.sa[j],
            syy=moments.syy[j],
            n_records=self.release.n_records,
            signal_variance=self.features.signal_variance,
        )

    def _posterior(self, moments, j, model, noise_variance):
        if self.posterior == "noise_aware":
            result = noise_aware_posterior(model, noise_variance)
            return result.mean, result.covariance
        # The paper's formulas with phi for k_Z: the prior of the weights, K_ZZ^-1, is sf2 I.
        result = kernel_posterior(
            moments.A[:, j],
            moments.B,
            np.eye(len(moments.B)) / model.sf2,
            noise_variance=noise_variance,
            sa=moments.sa[j],
            sb=moments.sb,
            method=self.posterior,
        )
        return result.weights, result.weight_covariance


class KernelMethod:
    """Published release; see :class:`KernelRelease`.

    Parameters
    ----------
    features, mu, half_width, n_records, posterior
        As for :class:`WhitenedMethod`.
    sensitivity : {"certified", "tight", "generic", "trivial"}
    ratio : float or "optimal"
    """

    mechanism = "Gaussian mechanism on kernel statistics"

    def __init__(self, features, *, mu, half_width, n_records, posterior, sensitivity, ratio):
        self.features, self.posterior, self.n_records = features, posterior, n_records
        k_norm = norm_bound(features.kernel, features.Z, sensitivity)
        if ratio == "optimal":
            # Only "noise_aware" does without the regulariser, which outweighs the noise of B.
            regularised = posterior != "noise_aware"
            gain = regulariser(1.0, 1.0, len(features.Z)) ** 2 if regularised else 0.5
            ratio = optimal_ratio(k_norm, math.sqrt(np.sum(half_width**2)), gain)
        self.release = KernelRelease(
            mu=mu,
            k_norm=k_norm,
            half_width=tuple(half_width.tolist()),
            n_records=n_records,
            ratio=ratio,
        )

    def rows(self, centre):
        """Records as lattice rows, for targets about `centre`."""
        return KernelRows(self.features.kernel, self.features.Z, self.release, centre)

    def weights(self, gram, source, noise_variance):
        """Release, then post-process."""
        statistics = self.release.release(gram, source)
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
                method=self.posterior,
                n_records=self.n_records,
            )
            pairs.append(posterior.in_coordinates(self.features.whitener))
        return FittedWeights.of(pairs, noise_variance)
