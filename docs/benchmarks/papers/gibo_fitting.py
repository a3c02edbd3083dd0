"""A surrogate whose length-scale follows released gradients, for variants of `gibo_papers.py`."""

import functools

import numpy as np

from skdpbo.model_selection.gibo._optimizers import OPTIMIZERS, AdaGrad
from skdpbo.surrogate import fit_length_scale_to_gradients, refit_due


class FittingPosterior:
    """A surrogate whose length-scale is fitted, now and then, to the gradients released so far."""

    def __init__(self, make, length_scale, noise_variances):
        self._make, self._prior, self._noises = make, length_scale, noise_variances
        self._posterior, self._thetas, self._gradients = make(length_scale), [], []
        for name in ("add", "design", "weights"):
            setattr(self, name, functools.partial(self._ask, name))

    def _ask(self, name, *args, **options):
        return getattr(self._posterior, name)(*args, **options)

    points = property(lambda self: self._posterior.points)

    def tell(self, theta, gradient):
        self._thetas.append(theta)
        self._gradients.append(gradient)
        t = len(self._thetas)
        if refit_due(t, first=3):
            found = fit_length_scale_to_gradients(
                self._thetas,
                self._gradients,
                np.maximum(self._noises[:t], 1e-12),
                prior_length_scale=self._prior,
            )
            old, self._posterior = self._posterior, self._make(found)
            self._posterior.add(old.points)


class TellingAdaGrad(AdaGrad):
    """Steps as AdaGrad does and passes the released gradient on."""

    posterior = None

    def step(self, theta, gradient):
        self.posterior.tell(theta, gradient)
        return super().step(theta, gradient)


OPTIMIZERS["telling"] = TellingAdaGrad
