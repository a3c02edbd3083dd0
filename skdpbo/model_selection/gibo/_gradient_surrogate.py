"""The surrogate of DPGIBOSearchCV: from public parameters, or from released gradients."""

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skdpbo.surrogate import GradientPosterior, fit_length_scale_to_gradients, refit_due

__all__ = ["SurrogateRecipe"]

# Prior variance of a record's mean loss, in squared units of the largest: as good as unknown.
_LEVEL_VARIANCE = 10.0


class SurrogateRecipe:
    """Surrogate in the unit cube and in units of the largest loss.

    Parameters
    ----------
    settings : GradientSurrogate
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
        kernel = RBF(length_scale) if settings.kernel == "rbf" else Matern(length_scale, nu=2.5)
        return GradientPosterior(
            ConstantKernel(_LEVEL_VARIANCE) + kernel,
            noise_variance=settings.noise_variance,
            cache_size=settings.cache_size,
        )

    def refitted(self, thetas, gradients, noise_scales):
        """Return a surrogate with the length-scale of released gradients, None if it is not due.

        Parameters
        ----------
        thetas, gradients : ndarray of shape (t, d)
            Released.
        noise_scales : ndarray of shape (t,)
            Public.
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
