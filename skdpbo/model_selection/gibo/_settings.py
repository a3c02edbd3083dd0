"""Groups of parameters of `DPGIBOSearchCV`: those of the descent and those of the surrogate."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern

from skdpbo._attempt import attempt
from skdpbo.model_selection._frozen_parameters import FrozenParameters
from skdpbo.model_selection.gibo._optimizers import OPTIMIZERS
from skdpbo.privacy._checks import (
    check_choice,
    check_count,
    check_flag,
    check_positive,
    check_within,
)
from skdpbo.surrogate import GradientPosterior, fit_length_scale_to_gradients, refit_due


class _Defaults(NamedTuple):
    n_iter: int
    largest_batch: float  # of a batch_size of None
    surrogate: dict


# By protected records. Private trainings share a budget and are noisy: fewer of them, at points
# farther apart; measured in docs/benchmarks/rejected_ideas.md.
DEFAULTS = {
    "validation": _Defaults(25, math.inf, {"length_scale": 0.25, "noise_variance": 0.0}),
    "all": _Defaults(10, 6, {"length_scale": 0.5, "noise_variance": 2.0}),
}


@dataclass(frozen=True, kw_only=True)
class Descent(FrozenParameters):
    """Steps of `DPGIBOSearchCV`.

    Parameters
    ----------
    batch_size : int or None, default=None
        Number of models trained before each step, in [1, 10000]. None: one more than there are
        parameters, with ``protect="all"`` at most six. A larger batch costs time, but no budget;
        with ``protect="all"`` all models of the steps share one budget.
    tol : float or None, default=None
        Take the smallest batch, of at most `batch_size` models, for which the trace of the
        gradient's posterior covariance is at most `tol` (Algorithm 2), > 0 and below the trace
        without any model. None: always `batch_size`.
    clip : float or "auto", default="auto"
        Largest norm B of a record's gradient, in (0, 1e100], in units of the largest loss of a
        record over the width of the space. Smaller: less noise, more bias. "auto": the norm with
        the least error of the direction of the gradient at the start, estimated on public rows;
        0.3 with ``guide=False``.
    learning_rate : float or "auto", default="auto"
        Of the optimizer, in (0, 1e100], with the range of every parameter scaled to length 1.
        "auto": the largest of 0.2, 0.1 and 0.05 whose first step lowers the public loss; 0.2 with
        ``guide=False`` or "sgd".
    optimizer : {"adagrad", "sgd", "adam"}, default="adagrad"
        Rule of the steps from noisy gradients. With "adagrad" `learning_rate` is the length of the
        first step in every parameter.
    budget_schedule : {"uniform", "geometric"}, default="geometric"
        Budgets of the steps: equal, or growing by a factor of 1 / `contraction` each step.
    contraction : float, default=0.95
        rho of :func:`skdpbo.mechanisms.step_budgets`, in (0, 1]; for the geometric schedule.
    averaging : float, default=0.3
        Share of the last points whose mean is `best_params_`, in [0, 1]; 0: the last point alone.
    adaptive_clip : bool, default=False
        Whether B is adapted to the median of the gradients' norms, by noisy counts, starting at
        `clip`. They take a tenth of each step's squared budget.
    patience : int or None, default=None
        Stop after this many successive steps, at least 1, whose gradient is not larger than its
        standard error, which saves trainings. The rest of the budget is not spent. Many such steps
        may still add up: below epsilon 1 stopping can cost some of the gain. None: never stop
        early.

    See Also
    --------
    DPGIBOSearchCV : The searcher.

    Notes
    -----
    The defaults were chosen on four families of problems with 10 to 33 parameters; most differences
    are small.

    Examples
    --------
    >>> from skdpbo.model_selection import Descent
    >>> Descent.paper().budget_schedule
    'uniform'
    """

    batch_size: int | None = None
    tol: float | None = None
    clip: float | str = "auto"
    learning_rate: float | str = "auto"
    optimizer: str = "adagrad"
    budget_schedule: str = "geometric"
    contraction: float = 0.95
    averaging: float = 0.3
    adaptive_clip: bool = False
    patience: int | None = None

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Return the descent of Sopa et al. (2025): equal budgets, the last point, clip 1, rate 1.

        Parameters
        ----------
        **changes
            Other parameters.

        Returns
        -------
        descent : Descent
            With the other parameters at their defaults.
        """
        settings: dict[str, Any] = {"clip": 1.0, "learning_rate": 1.0, "averaging": 0.0}
        return cls(**settings | {"budget_schedule": "uniform"} | changes)

    def check(self):
        """Raise ValueError or TypeError, by the parameter's name."""
        if self.batch_size is not None:
            check_count(self.batch_size, "batch_size", most=10_000)
        if self.tol is not None:
            check_positive(self.tol, "tol")
        for name in ("clip", "learning_rate"):
            if getattr(self, name) != "auto":
                check_within(getattr(self, name), name, "(0, 1e100]")
        check_choice(self.optimizer, "optimizer", sorted(OPTIMIZERS))
        check_choice(self.budget_schedule, "budget_schedule", ["geometric", "uniform"])
        check_within(self.contraction, "contraction", "(0, 1]")
        check_within(self.averaging, "averaging", "[0, 1]")
        check_flag(self.adaptive_clip, "adaptive_clip")
        if self.patience is not None:
            check_count(self.patience, "patience")


@dataclass(frozen=True, kw_only=True)
class GradientSurrogate(FrozenParameters):
    """Gaussian process from which `DPGIBOSearchCV` computes the gradients of losses.

    It is public: nothing is fitted to protected scores.

    Parameters
    ----------
    kernel : {"rbf", "matern52"} or sklearn kernel, default="rbf"
        Covariance of the losses as functions of the parameters, whose ranges are scaled to length
        1. An object, such as ``DotProduct(1.0) ** 2``, is used without `length_scale`; it may
        consist of constants, RBF, Matern 5/2 and DotProduct, their sums, products and integer
        powers.
    length_scale : float, array-like of shape (n_params,) or None, default=None
        Of the kernel, in [1e-100, 1e100], with all ranges scaled to length 1; parameters in
        alphabetical order. None: 0.25; 0.5 with ``protect="all"``, as only losses at distant points
        differ by more than noise.
    fit_length_scale : bool, default=False
        Whether the length-scale is refitted at some steps to the gradients so far, which costs no
        budget: with ``guide=True`` to the means of released and public gradients, else to the
        released ones. `length_scale` is then the initial value, a single number.
    noise_variance : float or None, default=None
        Variance of the noise in an observed loss, in [0, 1e100], in squared units of the largest
        loss, for estimators whose training is random. With more of it, the points of a step are
        farther apart. None: 0; 2 with ``protect="all"``, as private trainings are noisy.
    level_variance : float, default=10.0
        Prior variance of the mean level of the losses, in [0, 1e100], in squared units of the
        largest loss, added to `kernel`. 10 makes the level nearly free, 0 makes it zero.
    design_jitter : float, default=1e-4
        Noise variance that is assumed for the design of the points of a step, as a share of the
        prior variance, in (0, 1e100]. With more of it, the points are farther apart.
    cache_size : int or None, default=None
        Number of evaluated points that the surrogate keeps, at least 1; None: all of them.

    See Also
    --------
    DPGIBOSearchCV : The searcher.

    Examples
    --------
    >>> from skdpbo.model_selection import GradientSurrogate
    >>> GradientSurrogate.paper(kernel="matern52").length_scale
    1.0
    """

    kernel: object = "rbf"
    length_scale: object = None
    fit_length_scale: bool = False
    noise_variance: float | None = None
    level_variance: float = 10.0
    design_jitter: float = 1e-4
    cache_size: int | None = None

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Return the surrogate of Sopa et al. (2025): length-scale 1, mean level zero.

        Parameters
        ----------
        **changes
            Other parameters.

        Returns
        -------
        surrogate : GradientSurrogate
            With the other parameters at their defaults.

        Notes
        -----
        The paper descends in the parameters' own units. If all ranges have width w, this
        corresponds to ``length_scale=1 / w`` here, with ``Descent.paper(clip=B * w / loss_bound,
        learning_rate=1 / w)`` for AdaGrad.
        """
        return cls(**{"length_scale": 1.0, "level_variance": 0.0} | changes)

    def check(self, names):
        """Raise ValueError or TypeError, by the parameter's name.

        Parameters
        ----------
        names : list of str
            Names of the parameters that are searched.
        """
        if isinstance(self.kernel, Kernel):
            prior = GradientPosterior(self.kernel)  # refuses other kernels
            with np.errstate(all="ignore"):
                known, _ = attempt(prior.gradient_covariance, np.full(len(names), 0.5))
            if np.shape(known) != (len(names),) * 2 or not np.isfinite(known).all():
                raise ValueError(
                    f"kernel must have finite gradients in {len(names)} dimensions, those of "
                    f"{names}; got {self.kernel}."
                )
        else:
            check_choice(self.kernel, "kernel", ["matern52", "rbf"])
        check_flag(self.fit_length_scale, "fit_length_scale")
        if self.fit_length_scale and isinstance(self.kernel, Kernel):
            raise ValueError("kernel must be a name for fit_length_scale=True.")
        check_within(self.level_variance, "level_variance", "[0, 1e100]")
        check_within(self.design_jitter, "design_jitter", "(0, 1e100]")
        if self.noise_variance is not None:
            check_within(self.noise_variance, "noise_variance", "[0, 1e100]")
        if self.cache_size is not None:
            check_count(self.cache_size, "cache_size")
        if self.length_scale is None:
            return
        if np.ndim(self.length_scale) == 0:
            check_within(self.length_scale, "length_scale", "[1e-100, 1e100]")
            return
        scales = np.asarray(self.length_scale)
        if scales.shape != (len(names),) or scales.dtype.kind not in "iuf":
            raise ValueError(
                f"length_scale must be a number or {len(names)} numbers, one for each of {names}, "
                f"got {self.length_scale!r}."
            )
        if not ((scales >= 1e-100) & (scales <= 1e100)).all():
            raise ValueError("length_scale must lie in [1e-100, 1e100].")
        if self.fit_length_scale:
            raise ValueError("length_scale must be a single number for fit_length_scale=True.")

    def _posterior(self, length_scale=None):
        """Return a surrogate without points, in the unit cube."""
        length_scale = self.length_scale if length_scale is None else length_scale
        named = {"rbf": RBF(length_scale), "matern52": Matern(length_scale, nu=2.5)}
        kernel = named[self.kernel] if isinstance(self.kernel, str) else self.kernel
        # A constant kernel is the prior of the level of the losses; it has no gradient.
        if self.level_variance:
            kernel = ConstantKernel(self.level_variance) + kernel
        return GradientPosterior(
            kernel,
            noise_variance=self.noise_variance,
            design_jitter=self.design_jitter,
            cache_size=self.cache_size,
        )

    def _refitted(self, thetas, gradients, noise_scales):
        """Return a surrogate with a length-scale fitted to gradients, None if no refit is due.

        Parameters
        ----------
        thetas, gradients : ndarray of shape (t, d)
            Released, or of released and public values.
        noise_scales : ndarray of shape (t,)
            Standard errors per coordinate; public.
        """
        if not self.fit_length_scale or not refit_due(len(thetas), first=3):
            return None
        known = thetas, gradients, np.square(noise_scales)
        prior = {"kernel": self.kernel, "prior_length_scale": float(self.length_scale)}
        return self._posterior(fit_length_scale_to_gradients(*known, **prior))
