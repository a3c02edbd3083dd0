"""Score of the mean log predictive density of a regressor with predictive standard deviations."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from skdpbo.mechanisms import CoinPressMean
from skdpbo.model_selection._sklearn import final_step
from skdpbo.model_selection.scoring._parsing import as_numbers, n_outputs
from skdpbo.model_selection.scoring._scorer import FINE_UNITS, PerRecordScorer
from skdpbo.privacy._checks import check_choice, check_real

_MEANS = ("clipped", "coinpress")
_ACCOUNTING = ("gdp", "zcdp")


def predictive_moments(estimator, X):
    """Mean and variance of an observation at each row, shape (n, 2 q), q the number of targets.

    The variance is the squared standard deviation of ``predict(X, return_std=True)`` plus
    `noise_variance_`, if the estimator (the last step of a pipeline) has one: its standard
    deviation is then that of the function, without noise.
    """
    try:
        mean, std = (np.asarray(part) for part in estimator.predict(X, return_std=True))
    except TypeError as error:
        if "return_std" not in str(error):
            raise
        raise TypeError(
            f"{type(final_step(estimator)).__name__} gives no standard deviations, of which the "
            "log density is made: its predict has no return_std. BayesianRidge, "
            "GaussianProcessRegressor and DPSparseGPRegressor have it."
        ) from error
    noise = getattr(final_step(estimator), "noise_variance_", 0.0)
    variance = np.square(std.reshape(len(std), -1)) + noise
    return np.hstack([mean.reshape(len(mean), -1), variance])


@dataclass(frozen=True)
class NegativeLogDensity:
    """``upper`` minus the log density of y under a normal law, averaged over the targets."""

    upper: float

    def __call__(self, estimator, y, prediction):
        """Return one loss per record; 0 where the density is above ``upper``."""
        q = n_outputs(prediction) // 2
        y, moments = as_numbers(y, q), as_numbers(prediction, 2 * q)
        mean, variance = moments[:, :q], moments[:, q:]
        with np.errstate(all="ignore"):
            variance = np.where(variance > 0, variance, np.nan)  # NaN is the worst loss
            errors = np.square(y - mean) / variance  # inf where an error is too large to square
            log_density = -0.5 * (np.log(2 * math.pi * variance) + errors)
            return self.upper - log_density.mean(axis=1)


class LogDensityScorer(PerRecordScorer):
    """A `PerRecordScorer` whose private mean may be COINPRESS; see `make_log_density_scorer`.

    Attributes
    ----------
    lower, upper : float
        Public range of a record's log density.
    mean, n_steps, scale, accounting
        As given.
    """

    def __init__(self, *, lower, upper, mean, n_steps, scale, accounting):
        super().__init__(
            NegativeLogDensity(upper),
            name="log_predictive_density",
            bound=upper - lower,
            units=FINE_UNITS,
            response_method=predictive_moments,
            offset=upper,
        )
        self.lower, self.upper = lower, upper
        self.mean, self.n_steps, self.scale, self.accounting = mean, n_steps, scale, accounting

    def private_mean(self, budget, mu):
        """Mechanism for the mean of a trial's log densities; None for the noisy total.

        Parameters
        ----------
        budget : PrivacyGuarantee
            Budget of a score.
        mu : float or None
            Gaussian budget; None for a pure budget, which COINPRESS cannot use.

        Returns
        -------
        CoinPressMean or None
        """
        if self.mean != "coinpress" or mu is None:
            return None
        if self.accounting == "zcdp":
            # Never more than the score's budget, whatever the conversion gives.
            mu = min(mu, concentrated_mu(budget.epsilon, budget.delta))
        return CoinPressMean(
            mu=mu,
            center=(self.lower + self.upper) / 2,
            radius=(self.upper - self.lower) / 2,
            scale=self.scale,
            n_steps=self.n_steps,
        )


def concentrated_mu(epsilon, delta):
    """Mu with rho = mu^2 / 2, rho from Eq. (22) of Honkela & Melkas for (epsilon, delta).

    rho = (sqrt(epsilon + log 1/delta) - sqrt(log 1/delta))^2 is valid, but not the largest.
    """
    log_term = math.log(1 / delta)
    # a - b = (a^2 - b^2) / (a + b), without cancellation for a small epsilon.
    root = epsilon / (math.sqrt(epsilon + log_term) + math.sqrt(log_term))
    return math.sqrt(2.0) * root * (1 - 2.0**-40)  # rounded down


def make_log_density_scorer(
    *,
    lower: float,
    upper: float,
    mean: str = "clipped",
    n_steps: int | Literal["auto"] = 12,
    scale: float = 1.0,
    accounting: str = "gdp",
) -> PerRecordScorer:
    r"""Make a score of the mean log predictive density of a probabilistic regressor.

    The log density of a record, clipped to ``[lower, upper]``, is a bounded loss of a single
    record, so the score serves every searcher. It is that of a normal law with the mean and the
    standard deviation of ``predict(X, return_std=True)``; where the estimator has a
    `noise_variance_`, as `DPSparseGPRegressor` has, that is added. (`GaussianProcessRegressor`
    counts the noise of a `WhiteKernel`, not `alpha`; `BayesianRidge` counts its own.)

    Parameters
    ----------
    lower, upper : float
        Public range of a record's log density, one for all candidates, in nats for targets in their
        units; finite, lower < upper. The noise of a score is proportional to ``upper - lower``. A
        good upper end is ``-log(s)``, s the smallest useful standard deviation; a good lower end is
        about the log density of an uninformed model, such as ``-log(high - low)`` for targets in
        [low, high].
    mean : {"clipped", "coinpress"}, default="clipped"
        Mechanism of the mean over the rows in the trials of ``protect="all"``.
        "coinpress": clipped ever more tightly around a released mean; for ranges far wider than
        about ten times `scale`. It needs a Gaussian budget; under a pure one "clipped" is used.
    n_steps : int or "auto", default=12
        Largest number of steps of COINPRESS, in [1, 10000]; "auto": that of the least noise.
    scale : float, default=1.0
        Public standard deviation of the log densities of a good model, in nats, > 0 and more than
        2^-250 of the range, for COINPRESS; see `skdpbo.mechanisms.CoinPressMean`.
    accounting : {"gdp", "zcdp"}, default="gdp"
        "zcdp": COINPRESS with the budget rho of Honkela & Melkas (2021), Eq. (22), which wastes
        about a quarter.

    Returns
    -------
    PerRecordScorer
        As ``scoring`` of the searchers; greater is better.

    Raises
    ------
    TypeError, ValueError
        On a parameter of another type, or out of its range.

    References
    ----------
    A. Honkela, L. Melkas, Gaussian processes with differential privacy, 2021, Algorithm 2.
    S. Biswas, Y. Dong, G. Kamath, J. Ullman, CoinPress, NeurIPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import BayesianRidge
    >>> from skdpbo.model_selection import make_log_density_scorer
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> y = X[:, 0] + 0.1 * np.sin(40 * X[:, 0])
    >>> scorer = make_log_density_scorer(lower=-3.0, upper=3.0)
    >>> round(scorer(BayesianRidge().fit(X, y), X, y), 2)
    1.23
    """
    lower, upper = float(check_real(lower, "lower")), float(check_real(upper, "upper"))
    if not lower < upper:
        raise ValueError("lower must be below upper.")
    for value, choices, name in ((mean, _MEANS, "mean"), (accounting, _ACCOUNTING, "accounting")):
        check_choice(value, name, choices)
    # Checks `scale` and `n_steps`.
    CoinPressMean(mu=1.0, center=0.0, radius=(upper - lower) / 2, scale=scale, n_steps=n_steps)
    return LogDensityScorer(
        lower=lower, upper=upper, mean=mean, n_steps=n_steps, scale=scale, accounting=accounting
    )
