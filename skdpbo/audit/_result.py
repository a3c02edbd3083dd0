"""Result of an audit: bounds on two probabilities and the privacy loss they imply."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri, ndtri_exp
from scipy.stats import beta, norm

from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import check_count, check_within, set_fields


def event_bounds(
    hits: Any, other_hits: Any, n_runs: int, n_other_runs: int, false_alarm: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return Clopper-Pearson bounds: below the first probability and above the second.

    Both hold together with probability at least 1 - `false_alarm`.

    Parameters
    ----------
    hits, other_hits : int or ndarray of int
        Numbers of occurrences of the event, from 0 to the number of runs.
    n_runs, n_other_runs : int
        Numbers of independent runs, at least 1.
    false_alarm : float in (0, 1)
        Probability that one of the bounds is wrong.

    Returns
    -------
    low, high : float or ndarray
        P(event) >= low in the first law, P(event) <= high in the other.

    References
    ----------
    C. J. Clopper, E. S. Pearson, The use of confidence or fiducial limits, Biometrika 26, 1934.
    """
    hits, other_hits = np.asarray(hits), np.asarray(other_hits)
    tail = check_within(false_alarm, "false_alarm", "(0, 1)") / 2
    # Without hits the lower bound is 0, without misses the upper bound is 1, where ppf is NaN.
    low = beta.ppf(tail, np.maximum(hits, 1), n_runs - hits + 1)
    high = beta.ppf(1 - tail, other_hits + 1, np.maximum(n_other_runs - other_hits, 1))
    return np.where(hits > 0, low, 0.0), np.where(other_hits < n_other_runs, high, 1.0)


def epsilon_of(low, high, delta):
    """Return the lower bound on epsilon at `delta` from the event or its complement; at least 0."""
    with np.errstate(divide="ignore"):
        # A difference of logarithms, as the quotient of tiny probabilities could overflow.
        event = np.log(np.maximum(low - delta, 0)) - np.log(high)
        complement = np.log(np.maximum(1 - high - delta, 0)) - np.log1p(-np.asarray(low))
    return np.maximum(np.maximum(event, complement), 0.0)


def mu_of(low, high):
    """Return the lower bound on mu-GDP (Dong et al. 2022, Definition 2.6); at least 0."""
    with np.errstate(invalid="ignore"):
        mu = ndtri(low) - ndtri(high)
    return np.maximum(np.nan_to_num(mu), 0.0)


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """Lower bounds on the privacy loss of a release, from runs on two neighbouring data sets.

    All bounds of one result hold jointly with probability at least 1 - `false_alarm`.

    Parameters
    ----------
    low : float
        Lower bound on the probability of the event on one data set, in [0, 1].
    high : float
        Upper bound on its probability on the other, in [0, 1].
    delta : float, default=0.0
        Delta at which `epsilon` is stated, in [0, 1).
    false_alarm : float, default=1e-6
        Probability that `low` or `high` is wrong, in (0, 1).
    event : str, default=""
        Description of the event.
    n_runs : int, default=0
        Runs on each data set behind `low` and `high`, without those that chose the event.

    Attributes
    ----------
    epsilon : float
        The release is not (epsilon', delta)-differentially private for any epsilon' below this.
    mu : float
        It is not mu'-Gaussian differentially private for any mu' below this.

    See Also
    --------
    likelihood_ratio_audit : Runs a release and returns such a result.

    References
    ----------
    J. Dong, A. Roth, W. J. Su, Gaussian differential privacy, JRSS B 84, 2022.

    Examples
    --------
    >>> from skdpbo.audit import AuditResult
    >>> from skdpbo.privacy import PrivacyGuarantee
    >>> result = AuditResult(low=0.5, high=0.1)
    >>> round(result.epsilon, 3), round(result.mu, 3)
    (1.609, 1.282)
    >>> result.violates(PrivacyGuarantee(epsilon=1.0))
    True
    """

    low: float
    high: float
    delta: float = 0.0
    false_alarm: float = 1e-6
    event: str = ""
    n_runs: int = 0

    def __post_init__(self):
        ranges = {"low": "[0, 1]", "high": "[0, 1]", "delta": "[0, 1)", "false_alarm": "(0, 1)"}
        for name, interval in ranges.items():
            set_fields(self, **{name: check_within(getattr(self, name), name, interval)})
        check_count(self.n_runs, "n_runs", least=0)

    @property
    def epsilon(self) -> float:
        """Lower bound on epsilon at `delta`."""
        return float(epsilon_of(self.low, self.high, self.delta))

    @property
    def mu(self) -> float:
        """Lower bound on mu."""
        return float(mu_of(self.low, self.high))

    def violates(self, guarantee: PrivacyGuarantee) -> bool:
        """Return whether these runs contradict a guarantee.

        The status is ignored: the numbers of a void guarantee can be audited too.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            Its (epsilon, delta) is compared and, if it states mu, its trade-off curve.

        Returns
        -------
        bool
            True is wrong with probability at most `false_alarm`.
        """
        epsilon, delta = guarantee.epsilon, guarantee.delta
        if float(epsilon_of(self.low, self.high, delta)) > epsilon:
            return True
        if guarantee.mu is None:
            return False
        # P(S) <= t + Phi(Phi^-1(Q(S) + t) + mu), at statistical distance t of mu-GDP.
        t = guarantee.statistical_distance
        other = min(self.high + t, 1.0)
        # In logarithms, because probabilities may be as small as the false-alarm rate.
        most = norm.logcdf(ndtri_exp(math.log(other)) + guarantee.mu)
        least = self.low - t
        return least > 0 and math.log(least) > most

    def __str__(self):
        return (
            f"epsilon >= {self.epsilon:.3g} at delta={self.delta:g}, mu >= {self.mu:.3g} "
            f"(false-alarm rate {self.false_alarm:g}): {self.event or 'an event'} has probability "
            f">= {self.low:.3g} on one data set and <= {self.high:.3g} on the other, "
            f"{self.n_runs} runs each."
        )
