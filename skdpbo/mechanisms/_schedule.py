"""Schedules that split a Gaussian privacy budget over the steps of an iteration."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skdpbo.privacy._checks import check_choice, check_count, check_mu, check_within

FloatArray = NDArray[np.float64]


def step_budgets(
    mu: float, n_steps: int, *, schedule: str = "uniform", contraction: float = 0.9
) -> FloatArray:
    r"""Split a Gaussian budget over steps: mu_t with sum mu_t^2 <= mu^2, exactly.

    Parameters
    ----------
    mu : float
        Total, at least 1e-300.
    n_steps : int
        T, at least 1.
    schedule : {"uniform", "geometric"}, default="uniform"
        :math:`\mu_t^2 = \mu^2/T`, or :math:`\mu_t^2 \propto \rho^{T-1-t}`: less noise in the last
        steps, which an iteration that contracts by rho does not forget.
    contraction : float, default=0.9
        rho, in (0, 1]. Public; only read by the geometric schedule.

    Returns
    -------
    ndarray of shape (n_steps,)
        Budgets mu_t in the order of the steps, each > 0.

    Examples
    --------
    >>> from skdpbo.mechanisms import step_budgets
    >>> step_budgets(1.0, 4).round(3).tolist()
    [0.5, 0.5, 0.5, 0.5]
    >>> step_budgets(1.0, 3, schedule="geometric", contraction=0.5).round(3).tolist()
    [0.378, 0.535, 0.756]
    """
    mu, n_steps = check_mu(mu), check_count(n_steps, "n_steps")
    check_choice(schedule, "schedule", ("uniform", "geometric"))
    contraction = check_within(contraction, "contraction", "(0, 1]")
    rho = 1.0 if schedule == "uniform" else contraction
    # At least 1e-12: a share that underflows to zero would be no valid budget.
    shares = np.maximum(rho ** np.arange(n_steps - 1.0, -1.0, -1.0), 1e-12)
    # The shares are of mu^2, by which Gaussian budgets add up.
    return _within(mu, mu * np.sqrt(shares / shares.sum()))


def split_budget(mu: float, share: float) -> tuple[float, float]:
    """Split a Gaussian budget in two: mu_1^2 = (1 - share) mu^2, mu_2^2 = share mu^2, rounded down.

    Composed, the two releases are mu-GDP (Dong, Roth and Su 2022, Corollary 3.3).

    Parameters
    ----------
    mu : float
        Total, at least 1e-300.
    share : float
        Share of the second in mu^2, in (0, 1).

    Returns
    -------
    mu_1 : float
        Budget of the first release, > 0.
    mu_2 : float
        Budget of the second release, > 0.
    """
    mu, share = check_mu(mu), check_within(share, "share", "(0, 1)")
    first, second = _within(mu, mu * np.sqrt(np.array([1.0 - share, share])))
    return float(first), float(second)


def _within(mu: float, parts: FloatArray) -> FloatArray:
    """Shrink parts until the exact sum of their squares is at most mu^2, despite rounding."""
    if mu < 1e-300:  # its parts may be subnormal, which do not shrink by a relative 2^-50
        raise ValueError(f"mu must be at least 1e-300 to be divided, got {mu}.")
    square = Fraction(mu) ** 2
    while sum((Fraction(float(part)) ** 2 for part in parts), Fraction(0)) > square:
        parts = parts * (1.0 - 2.0**-50)  # a few ulps at a time
    return parts
