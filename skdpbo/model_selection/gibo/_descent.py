"""Gradient descent on a mean of per-record losses, from noisy clipped gradients of a surrogate.

The loop of Sopa, Marusic, Avella-Medina and Cunningham (2025), without scikit-learn: it works on
any callback that returns the losses of the protected records at given points.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from skdpbo.mechanisms import ClippedMean, ClipQuantile, noise_source, split_budget, step_budgets
from skdpbo.model_selection.evaluation._record_gradients import RecordLosses
from skdpbo.model_selection.gibo._descent_result import DescentResult
from skdpbo.model_selection.gibo._optimizers import OPTIMIZERS
from skdpbo.privacy._checks import check_choice, check_within


def noise_to_clip(mu, n_iter, n_dims, n_records):
    """Return the norm of the noise of one step over the clipping norm, 2 sqrt(T d) / (n mu).

    From public numbers alone. Above 1 the noise is larger than any clipped gradient.

    Examples
    --------
    >>> from skdpbo.model_selection.gibo._descent import noise_to_clip
    >>> round(noise_to_clip(mu=1.0, n_iter=25, n_dims=10, n_records=4500), 4)
    0.007
    """
    # Per coordinate sigma = (2 C / n) sqrt(T) / mu (Sopa et al. 2025, Lemma 3.1); d of them have
    # the norm sigma sqrt(d).
    return 2.0 * math.sqrt(n_iter * n_dims) / (n_records * mu)


@dataclass(frozen=True, kw_only=True)
class PrivateDescent:
    r"""DP-GIBO: Algorithms 1 and 2 of Sopa et al. 2025.

    Each step evaluates a few points around theta, chosen to minimise the posterior variance of
    the gradient at theta; takes each record's posterior-mean gradient, a public linear map of the
    record's own losses; clips it to norm B; and releases the mean with Gaussian noise. Everything
    else (the design, the step, projections, averages) is computed from releases.

    The whole trajectory is `mu`-GDP for the records behind the losses, whatever the losses are,
    provided that each record's losses depend on that record alone.

    Parameters
    ----------
    n_iter : int
        Number T of steps.
    mu : float
        Gaussian privacy budget of all steps together, > 0. With a very large one (1e9) there is
        practically no noise, for comparisons.
    clip : float, default=1.0
        Clipping norm B, in units of the (scaled) loss over those of theta.
    learning_rate : float, default=1.0
        Of the optimizer.
    optimizer : {"adagrad", "sgd", "adam"}, default="adagrad"
        Rule of the steps from noisy gradients.
    batch_size : int, default=None
        Number b of points evaluated before each step; None: d + 1. Does not affect the budget.
    tol : float, default=None
        Algorithm 2: take the smallest batch, of at most `batch_size` points, with which the
        trace of the gradient's posterior covariance is at most `tol`.
    bounds : pair of (float or array-like of shape (d,)), default=None
        Lower and upper bounds of theta and of the points. None: unbounded.
    budget_schedule : {"uniform", "geometric"}, default="uniform"
        See :func:`skdpbo.mechanisms.step_budgets`.
    contraction : float, default=0.9
        Of the geometric schedule.
    averaging : float, default=0.0
        Share of the last iterates whose mean is `final`, in [0, 1]; 0: the last iterate alone.
    clip_share : float, default=0.0
        Share of each step's squared budget spent on the number of unclipped gradients, by which the
        clipping norm is adapted, in [0, 1); 0: the norm stays at `clip`.
    clip_quantile : float, default=0.5
        Target share of records whose gradients are not clipped.
    clip_rate : float, default=0.2
        Rate of the geometric update of the clipping norm.
    loss_bound : int, float or None, default=None
        Largest loss of a record, in units; an int for integer losses.
    loss_scale : float, default=1.0
        Loss per unit.
    patience : int, default=None
        Stop after this many successive steps whose gradient is not larger than its standard error:
        that of the noise, or with public rows of the mean of both measurements. The rest of `mu`
        is not spent. None: never stop early.
    random_state : int, default=0
        Public randomness of the designs.

    Notes
    -----
    One record moves the sum of clipped gradients by at most 2 B (Lemma 3.1), so each step is
    mu_t-GDP; T of them, chosen adaptively, are sqrt(sum mu_t^2)-GDP.

    References
    ----------
    G. Sopa, J. Marusic, M. Avella-Medina, J. P. Cunningham, Scalable differentially private
    Bayesian optimization, arXiv:2502.06044, 2025, Algorithms 1 and 2, Section 3.4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skdpbo.model_selection.gibo._descent import PrivateDescent
    >>> from skdpbo.surrogate import GradientPosterior
    >>> # public randomness: records that are made up
    >>> records = np.random.RandomState(0).normal(0.7, 0.1, size=(2000, 2))
    >>> def losses(points):  # squared distances, one row per point
    ...     return np.square(points[:, None, :] - records[None]).sum(axis=2)
    >>> descent = PrivateDescent(n_iter=20, mu=1.0, learning_rate=0.2, bounds=(0.0, 1.0))
    >>> found = descent.run(losses, [0.2, 0.2], GradientPosterior(RBF(0.5)))
    >>> bool(np.linalg.norm(found.final - 0.7) < 0.1)
    True
    """

    n_iter: int
    mu: float
    clip: float = 1.0
    learning_rate: float = 1.0
    optimizer: str = "adagrad"
    batch_size: int | None = None
    tol: float | None = None
    bounds: tuple | None = None
    budget_schedule: str = "uniform"
    contraction: float = 0.9
    averaging: float = 0.0
    clip_share: float = 0.0
    clip_quantile: float = 0.5
    clip_rate: float = 0.2
    loss_bound: int | float | None = None
    loss_scale: float = 1.0
    patience: int | None = None
    random_state: int = 0
    _budgets: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        # T steps of mu_t compose to sqrt(sum mu_t^2) = mu (Dong, Roth and Su 2022, Corollary 3.3).
        budgets = step_budgets(
            self.mu, self.n_iter, schedule=self.budget_schedule, contraction=self.contraction
        )
        object.__setattr__(self, "_budgets", budgets)
        check_choice(self.optimizer, "optimizer", sorted(OPTIMIZERS))
        check_within(self.averaging, "averaging", "[0, 1]")
        check_within(self.clip_share, "clip_share", "[0, 1)")

    def run(self, evaluate, start, posterior, source=None, refit=None, public=None):
        """Descend from `start`.

        Parameters
        ----------
        evaluate : callable
            ``evaluate(points)``, points of shape (b, d), returns the losses of the protected
            records: an array of shape (b, n_records), or a list of b rows, None for a point that
            fails for a public reason. Entry (j, i) depends on point j and record i alone.
        start : array-like of shape (d,)
            theta_0. Public.
        posterior : GradientPosterior
            The surrogate, without any point. It is given points, never losses.
        source : RandomSource, default=None
            None reads the operating system's generator.
        refit : callable, default=None
            ``refit(thetas, gradients, errors)`` is called before every step but the first with the
            released gradients (with `public`, the means of both measurements), and returns a
            surrogate without points for the next steps, or None to keep the present one.
        public : PublicGradient, default=None
            Public measurements of the same gradients: each step uses the mean of both.

        Returns
        -------
        DescentResult
        """
        source = noise_source(source)
        theta = self._projected(np.array(start, dtype=np.float64))
        # Protected; kept apart from the surrogate, which determines the public designs.
        losses = RecordLosses(self.loss_bound, self.loss_scale)
        optimizer = OPTIMIZERS[self.optimizer](self.learning_rate)
        clip = self.clip
        thetas, steps, n_faint = [theta], [], 0
        for t, mu in enumerate(self._budgets):
            if refit is not None and steps:  # before the design, which depends on the length-scale
                posterior = _next_surrogate(posterior, refit, thetas[:-1], steps, public)
            points = self.design(posterior, theta, t)
            if len(points):  # Algorithm 2 may find that the earlier points suffice
                posterior.add(points)  # first, as it may drop the oldest points
                losses.add(evaluate(points), len(posterior.points))
                if public is not None:
                    public.add(points, len(posterior.points))
            if losses.n_records is None:
                raise ValueError("no point would be evaluated: tol must be below the prior trace.")
            # A record's gradient is weights @ its losses; the weights do not depend on losses.
            weights = posterior.weights(theta)
            # Each step has its own budget and, if it is adapted, its own clipping norm.
            step = _GradientStep(self, float(mu), clip, losses.n_records)
            gradient, next_clip = step.release(losses.gradients(weights), source)
            steps.append((gradient, step.sigma, clip, len(points), posterior.trace(theta)))
            # From here on post-processing: the mean with the public gradient, and its error.
            error = step.sigma
            if public is not None:
                gradient = public.combined(weights, gradient, step.sigma, clip)
                error = public.errors[-1]
            clip = next_clip
            theta = self._moved(theta, optimizer.step(theta, gradient), public)
            thetas.append(theta)
            n_faint = n_faint + 1 if _is_faint(gradient, error) else 0
            if n_faint == self.patience:  # never if patience is None
                break
        return self._result(thetas, steps, public)

    def _moved(self, theta, target, public):
        """Return the next point: `target` projected onto the box, with `public` a shorter step."""
        if public is None:
            return self._projected(target)
        # Steps are shorter in coordinates whose gradient is uncertain.
        moved = self._projected(theta + public.trust * (target - theta))
        public.moved(moved - theta)
        return moved

    def check_noise(self, n_records):
        """Raise ValueError if the noise of a step needs more than 64 bits, by public numbers."""
        # The smallest budget has the largest noise.
        _GradientStep(self, float(self._budgets.min()), self.clip, n_records)

    def largest_batch(self, n_dims):
        """Return the largest number of points evaluated before a step."""
        return n_dims + 1 if self.batch_size is None else self.batch_size

    def design(self, posterior, theta, t):
        """Return the batch z' of Algorithm 1, line 3, or of Algorithm 2."""
        batch_size = self.largest_batch(theta.size)
        # Another public seed for every step.
        options = {"random_state": self.random_state + t}
        if self.bounds is not None:
            options["bounds"] = self.bounds
        if self.tol is None:
            return posterior.design(theta, batch_size, **options)
        return posterior.design_to_tolerance(theta, self.tol, batch_size, **options)

    def _projected(self, theta):
        return theta if self.bounds is None else np.clip(theta, *self.bounds)

    def _result(self, thetas, steps, public):
        trajectory = np.array(thetas)
        # Share of the steps made, which may be fewer than n_iter.
        n_last = max(1, math.ceil(self.averaging * len(steps)))
        gradients, sigmas, clips, batch_sizes, traces = (
            np.array(column) for column in zip(*steps, strict=True)
        )
        return DescentResult(
            trajectory=trajectory,
            final=trajectory[-n_last:].mean(axis=0) if n_last > 1 else trajectory[-1],
            gradients=gradients,
            noise_scales=sigmas,
            clips=clips,
            batch_sizes=batch_sizes,
            traces=traces,
            public_weights=None if public is None else np.array(public.weights),
        )


def _next_surrogate(posterior, refit, thetas, steps, public):
    """Return the surrogate of the next steps, from released and public gradients alone."""
    gradients, errors, *_ = zip(*steps, strict=True)
    if public is not None:  # the means of both measurements are more precise
        gradients, errors = public.gradients, public.errors
    refitted = refit(*map(np.array, (thetas, gradients, errors)))
    if refitted is None:
        return posterior
    # The same points, whose losses are kept: only the length-scale changes.
    refitted.add(posterior.points)
    return refitted


def _is_faint(gradient, error):
    """Whether a gradient is not longer than expected of a pure error of this size."""
    # With a true gradient of 0, E |g|^2 = d error^2.
    return np.square(gradient).sum() <= len(gradient) * error**2


class _GradientStep:
    """Release of one step: the noisy mean gradient and, with `clip_share`, a clipping norm."""

    def __init__(self, descent, mu, clip, n_records):
        self._quantile = None
        if descent.clip_share:
            # Two releases of one step: mu_t^2 = mu^2 + mu_count^2.
            mu, mu_count = split_budget(mu, descent.clip_share)
            self._quantile = ClipQuantile(
                n_records=n_records,
                mu=mu_count,
                quantile=descent.clip_quantile,
                rate=descent.clip_rate,
            )
        self._mean = ClippedMean(clip=clip, n_records=n_records, mu=mu)
        self.sigma = self._mean.sigma

    def release(self, blocks, source):
        """Return (noisy mean of the clipped rows, next clipping norm)."""
        clip = self._mean.clip
        # Protected: used in the releases below alone.
        total, n_inside = self._mean.exact_total(blocks)
        gradient = self._mean.noisy_mean(total, source)
        if self._quantile is None:
            return gradient, clip
        share = self._quantile.release(n_inside, source)
        return gradient, self._quantile.next_clip(clip, share)
