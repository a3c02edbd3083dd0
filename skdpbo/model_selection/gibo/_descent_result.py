"""Result of a descent, with bounds on its error."""

import math
from dataclasses import dataclass

import numpy as np

from skdpbo.privacy._checks import check_positive, check_within


@dataclass(frozen=True)
class DescentResult:
    """Result of a descent; every number is public or released. `n_iter` counts the steps made.

    Attributes
    ----------
    trajectory : ndarray of shape (n_iter + 1, d)
        theta_0 to theta_T.
    final : ndarray of shape (d,)
        The last iterate, or the average of the last ones.
    gradients : ndarray of shape (n_iter, d)
        Noisy means of the clipped gradients, as released.
    noise_scales : ndarray of shape (n_iter,)
        Standard deviation of their noise per coordinate.
    clips : ndarray of shape (n_iter,)
        Clipping norms.
    batch_sizes : ndarray of shape (n_iter,)
        Points evaluated before each step.
    traces : ndarray of shape (n_iter,)
        Uncertainty of the gradient of each step given the points: the trace of its posterior
        covariance, used in `error_terms`. Unless it becomes small relative to the first one, the
        released gradients are not those of the loss.
    public_weights : ndarray of shape (n_iter,) or None
        Mean weight of the public gradient in each step; None without public gradients.
    """

    trajectory: np.ndarray
    final: np.ndarray
    gradients: np.ndarray
    noise_scales: np.ndarray
    clips: np.ndarray
    batch_sizes: np.ndarray
    traces: np.ndarray
    public_weights: np.ndarray | None = None

    def error_terms(self, norm, *, failure=0.05, learning_rate=None, convexity=None):
        r"""Return the terms of the bounds of Sopa et al. (2025) that more steps do not reduce.

        For steps against the gradient (``optimizer="sgd"``) of length :math:`\eta \le 1 / L` and
        losses with L-Lipschitz gradients of norm at most B, with probability 1 - `failure`: the
        mean squared gradient of the loss is at most :math:`2 F_0 / (\eta T)` plus both terms
        (Theorem 3.2, corrected); with :math:`\eta` and :math:`\tau`-convex losses, the gap at the
        end is at most :math:`(1 - \eta\tau)^T F_0` plus both terms (Theorem 3.3). For other
        optimizers they are a diagnostic. They are post-processing: no budget is spent.

        Parameters
        ----------
        norm : float
            C, norm of a record's losses in the space of the surrogate's kernel, > 0.
        failure : float, default=0.05
            In (0, 1).
        learning_rate, convexity : float or None, default=None
            :math:`\eta` and :math:`\tau`, > 0, for the gap; None for the mean squared gradient.

        Returns
        -------
        bias : float
            From the surrogate's uncertainty of the gradients, `traces`.
        noise : float
            From the noise of the releases, in the worst direction in every step.
        """
        check_positive(norm, "norm")
        check_within(failure, "failure", "(0, 1)")
        T, d = self.gradients.shape
        # M and V of Theorem 3.2, for the budget and the clipping norm of each step.
        M = 4 * math.sqrt(d) + 2 * math.sqrt(2 * math.log(T / failure))
        M = M * self.clips * self.noise_scales
        V = float((M * (2 + M / (2 * self.clips**2))).max())
        if learning_rate is None and convexity is None:
            return norm**2 * float(self.traces.mean()), 2 * V
        eta = check_positive(learning_rate, "learning_rate")
        tau = check_positive(convexity, "convexity")
        # An error shrinks by (1 - eta tau)^j in j steps (Theorem 3.3).
        decay = (1 - check_within(eta * tau, "learning_rate * convexity", "(0, 1]")) ** np.arange(T)
        return norm**2 * eta / 2 * float(decay[::-1] @ self.traces), V / tau
