"""The surrogate of DPGIBOSearchCV: from public parameters, or from released gradients."""

from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skdpbo.surrogate import GradientPosterior, fit_length_scale_to_gradients, refit_due

__all__ = ["SurrogateRecipe"]

# Prior variance of a record's mean loss, in squared units of the largest: as good as unknown.
_LEVEL_VARIANCE = 10.0


@dataclass(frozen=True, kw_only=True)
class SurrogateRecipe:
    """Settings of the surrogate, in the unit cube and in units of the largest loss.

    Parameters
    ----------
    names : list of str
        Names of the parameters that are searched.
    kernel : {"rbf", "matern52"}
    length_scale : float or array-like of shape (len(names),)
    noise_variance : float
    cache_size : int or None
    fit_length_scale : bool
        Whether `refitted` may change the length-scale, a single number then.
    """

    names: list
    kernel: str
    length_scale: object
    noise_variance: float
    cache_size: int | None
    fit_length_scale: bool

    def __post_init__(self):
        length_scale = np.asarray(self.length_scale, dtype=np.float64)
        n_dims = len(self.names)
        if length_scale.ndim and length_scale.shape != (n_dims,):
            raise ValueError(
                f"length_scale must be a number or {n_dims} numbers, one for each of "
                f"{self.names}, got an array of shape {length_scale.shape}."
            )
        if not (np.isfinite(length_scale) & (length_scale > 0)).all():
            raise ValueError("length_scale must be positive and finite.")
        if self.fit_length_scale and length_scale.ndim:
            raise ValueError("length_scale must be a single number for fit_length_scale=True.")

    def posterior(self, length_scale=None):
        """Return a surrogate without points."""
        length_scale = self.length_scale if length_scale is None else length_scale
        kernel = RBF(length_scale) if self.kernel == "rbf" else Matern(length_scale, nu=2.5)
        return GradientPosterior(
            ConstantKernel(_LEVEL_VARIANCE) + kernel,
            noise_variance=self.noise_variance,
            cache_size=self.cache_size,
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
        if not self.fit_length_scale or not refit_due(len(thetas), first=3):
            return None
        found = fit_length_scale_to_gradients(
            thetas,
            gradients,
            np.square(noise_scales),
            kernel=self.kernel,
            prior_length_scale=float(self.length_scale),
        )
        return self.posterior(found.length_scale)
