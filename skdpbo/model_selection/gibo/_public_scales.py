"""Scales of a descent from public rows: clipping norm, rate, and whether there is a gradient.

Nothing here reads a protected value.
"""

from dataclasses import replace

import numpy as np

from skdpbo._parameters import warn_caller
from skdpbo.exceptions import FlatLossWarning
from skdpbo.model_selection.gibo._public_gradient import clipped_rows, precise_clip, roughness

__all__ = ["AUTOMATIC", "RATES", "RememberedLosses", "public_scales"]

AUTOMATIC = {"clip": 0.3, "learning_rate": 0.2}  # without public rows
RATES = (0.2, 0.1, 0.05)
_SMOOTH = 0.75  # between the exponents of steps, 1/2, and of smooth losses, 1
_N_NEAR = 8  # points at which roughness is looked for


class RememberedLosses:
    """Losses of public records at points; those before the descent are kept until it asks.

    Parameters
    ----------
    losses : callable
        ``losses(points)`` returns rows of losses, None where a fold fails.
    """

    def __init__(self, losses):
        self._losses = losses
        self._known = {}

    def remember(self, points):
        """Evaluate points and keep their losses."""
        rows = self._losses(points)
        self._known |= {point.tobytes(): row for point, row in zip(points, rows, strict=True)}
        return rows

    def __call__(self, points):
        """Return the losses, and forget what was kept."""
        known, self._known = self._known, {}
        new = [point for point in points if point.tobytes() not in known]
        rows = self._losses(np.array(new)) if new else []
        known |= {point.tobytes(): row for point, row in zip(new, rows, strict=True)}
        return [known[point.tobytes()] for point in points]


def public_scales(steps, automatic, recipe, start, remembered, gradient, noise):
    """Return the steps with the scales that public rows give.

    Parameters
    ----------
    steps : PrivateDescent
    automatic : list of str
        Which of "clip" and "learning_rate" are to be found.
    recipe : SurrogateRecipe
    start : ndarray of shape (d,)
    remembered : RememberedLosses
    gradient : PublicGradient
    noise : float
        Norm of the noise of a gradient over the clipping norm.

    Returns
    -------
    steps : PrivateDescent
    """
    posterior = recipe.posterior()
    points = steps.design(posterior, start, 0)
    posterior.add(points)
    far = remembered.remember(points)
    half = (start + points[:_N_NEAR]) / 2  # so that the ratio of the distances is 2
    here, *near = remembered.remember(np.vstack([start, half]))
    if here is None or any(row is None for row in [*far, *near]):
        return steps
    exponent = roughness(here, np.array(near), np.array(far[:_N_NEAR]))
    if exponent < _SMOOTH:
        warn_caller(
            "On the public rows the loss has no gradient to follow: it is flat, discontinuous or "
            "noisy in these parameters around the start (its changes grow with the distance to "
            f"the power {exponent:.2f}; 1 is smooth, 0.5 is in steps, 0 is flat or noise). Use "
            'DPBayesSearchCV, or a smooth loss such as "neg_log_loss".',
            FlatLossWarning,
        )
    rows = gradient.of(far, posterior.weights(start))
    clip = precise_clip(rows, noise)
    if clip is None:
        return steps
    found = {"clip": clip, "learning_rate": steps.learning_rate}
    if "learning_rate" in automatic and steps.optimizer != "sgd":
        # AdaGrad's and Adam's first step has the same length in every coordinate.
        direction = np.sign(clipped_rows(rows, clip).mean(axis=0))
        # The longest first step that lowers the public loss; else the shortest.
        trials = np.array([np.clip(start - rate * direction, 0.0, 1.0) for rate in RATES])
        losses = zip(RATES, remembered.remember(trials), strict=True)
        lower = (rate for rate, row in losses if row is not None and row.mean() < here.mean())
        found["learning_rate"] = next(lower, RATES[-1])
    return replace(steps, **{name: found[name] for name in automatic})
