"""The surrogate of DPGIBOSearchCV: from public parameters, released and public gradients."""

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skdpbo.surrogate import GradientPosterior, fit_length_scale_to_gradients, refit_due

__all__ = ["SurrogateRecipe"]


class SurrogateRecipe:
    """Surrogate in the unit cube and in units of the largest loss.

    Parameters
    ----------
    settings : GradientSurrogate
        With a length-scale and a noise variance.
    names : list of str
        Names of the parameters that are searched.
    """

    def __init__(self, settings, names):
        settings.check(names)
        self._settings = settings

    def posterior(self, length_scale=None):
        """Return a surrogate without points."""
        settings = self._settings
        length_scale = settings.length_scale if length_scale is None else length_scale
        named = {"rbf": RBF(length_scale), "matern52": Matern(length_scale, nu=2.5)}
        kernel = named[settings.kernel] if isinstance(settings.kernel, str) else settings.kernel
        # A constant leaves the level of the losses open; it has no gradient itself.
        if settings.level_variance:
            kernel = ConstantKernel(settings.level_variance) + kernel
        return GradientPosterior(
            kernel,
            noise_variance=settings.noise_variance,
            design_jitter=settings.design_jitter,
            cache_size=settings.cache_size,
        )

    def refitted(self, thetas, gradients, noise_scales):
        """Return a surrogate with the length-scale of known gradients, None if it is not due.

        Parameters
        ----------
        thetas, gradients : ndarray of shape (t, d)
            Released, or of released and public values.
        noise_scales : ndarray of shape (t,)
            Standard errors per coordinate; public.
        """
        if not self._settings.fit_length_scale or not refit_due(len(thetas), first=3):
            return None
        found = fit_length_scale_to_gradients(
            thetas,
            gradients,
            np.square(noise_scales),
            kernel=self._settings.kernel,
            prior_length_scale=float(self._settings.length_scale),
        )
        return self.posterior(found.length_scale)
