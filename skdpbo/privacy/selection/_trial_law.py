"""Law of the secret number of trials of private selection."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, gammaln

from skdpbo.privacy._checks import check_count, check_within, set_fields

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
# Largest log(1 / gamma): beyond it powers of gamma underflow.
_MAX_LOG = 600.0


@dataclass(frozen=True)
class TrialLaw:
    r"""Truncated negative binomial law of a number of trials K >= 1.

    With :math:`t = 1 - (1 - \gamma) x` its probability generating function is

    .. math:: E[x^K] = \frac{t^{-\eta} - 1}{\gamma^{-\eta} - 1},

    continued by :math:`\log t / \log \gamma` at :math:`\eta = 0`. It is geometric for
    :math:`\eta = 1` and logarithmic for :math:`\eta = 0`.

    Parameters
    ----------
    mean : float
        Expected number of trials, at least 1; at 1 there is always one trial.
    eta : float, default=1.0
        Shape, in (-1, 1000]. Smaller values spread the law: at the same mean they cost less
        privacy, and are less likely to meet a good candidate.

    Attributes
    ----------
    gamma : float
        In (0, 1]; 1 / mean for the geometric law.

    References
    ----------
    Papernot and Steinke (2022), Definition 1.

    Examples
    --------
    >>> from skdpbo.privacy import TrialLaw
    >>> law = TrialLaw(30)
    >>> round(law.hit_probability(0.1), 2)
    0.77
    >>> round(law.survival(21), 2)
    0.49
    """

    mean: float
    eta: float = 1.0
    gamma: float = field(init=False, compare=False)

    def __post_init__(self) -> None:
        mean = check_within(self.mean, "mean", "[1, inf)")
        eta = check_within(self.eta, "eta", "(-1, 1000]")
        set_fields(self, mean=mean, eta=eta, gamma=_gamma(mean, eta))

    @property
    def exact_gamma(self) -> Fraction:
        """Gamma of the law that is drawn: exactly 1 / mean if eta is 1, else the float."""
        return 1 / Fraction(self.mean) if self.eta == 1 else Fraction(self.gamma)

    def pgf(self, x: float) -> float:
        """E[x^K] for x in [0, 1].

        Parameters
        ----------
        x : float
            In [0, 1].

        Returns
        -------
        float
            Probability generating function at `x`, in [0, 1].
        """
        check_within(x, "x", "[0, 1]")
        if self.gamma == 1:
            return float(x)
        # t = gamma + (1 - gamma) (1 - x) does not cancel near x = 1.
        t = self.gamma + (1 - self.gamma) * (1 - x)
        # log1p keeps the digits where t is near 1 (x near 0); t is tiny where x is near 1.
        if x <= 0.5:
            part, whole = -math.log1p(-(1 - self.gamma) * x), -math.log(self.gamma)
        else:
            part, whole = -math.log(t), -math.log(self.gamma)
        ratio = _exponential_integral(self.eta, part) / _exponential_integral(self.eta, whole)
        return math.exp(self.eta * (part - whole)) * ratio

    def pmf(self, k: int) -> float:
        """P(K = k).

        Parameters
        ----------
        k : int
            Number of trials, at least 0.

        Returns
        -------
        float
            Probability of exactly `k` trials; 0 for k = 0.
        """
        n = float(check_count(k, "k", least=0))
        if n == 0 or self.gamma == 1:
            return float(n == 1)
        eta, whole = self.eta, -math.log(self.gamma)
        # P(K = k) is proportional to (1 - gamma)^k Gamma(k + eta) / k! (Papernot and Steinke 2022,
        # Definition 1).
        log_coefficient = gammaln(n + eta) - gammaln(1 + eta) - gammaln(n + 1)
        log_p = log_coefficient + n * math.log1p(-self.gamma) - eta * whole
        return float(math.exp(log_p) / _exponential_integral(eta, whole))

    def survival(self, k: int) -> float:
        """P(K > k), to a relative error of at most 1e-10 wherever it is a normal float.

        Parameters
        ----------
        k : int
            Number of trials, at least 0.

        Returns
        -------
        float
            Probability of more than `k` trials, in [0, 1].
        """
        if check_count(k, "k", least=0) == 0:
            return 1.0
        if self.gamma == 1:
            return 0.0
        if self.eta == 1:
            return math.exp(k * math.log1p(-self.gamma))
        # P(K > k) = c_k int_0^L (1 - e^-s)^k e^(-eta s) ds / int_0^L e^(-eta s) ds, L = log(1 /
        # gamma): the remainder of the binomial series of t^-eta, all terms positive.
        eta, whole = self.eta, -math.log(self.gamma)
        # Within a panel e^(-eta s) changes by a factor of at most e.
        n_panels = math.ceil(whole * max(2.0, 1 + abs(eta)))
        edges = np.linspace(0.0, whole, n_panels + 1)
        half = whole / n_panels / 2
        s = (edges[:-1, None] + half * (1 + _NODES)).ravel()
        with np.errstate(under="ignore", divide="ignore"):
            log_terms = (
                k * np.log(-np.expm1(-s)) - eta * s + np.log(half * np.tile(_WEIGHTS, n_panels))
            )
        # The largest term is factored out: all may underflow for a large k.
        largest = float(log_terms.max())
        with np.errstate(under="ignore"):
            log_integral = largest + math.log(float(np.exp(log_terms - largest).sum()))
        log_coefficient = float(gammaln(k + 1 + eta) - gammaln(1 + eta) - gammaln(k + 1))
        log_survival = log_coefficient + log_integral - math.log(_exponential_integral(eta, whole))
        return min(1.0, math.exp(log_survival))

    def size_biased_survival(self, k: int) -> float:
        """Share of the expected trials that lie in runs of more than k: sum_{j > k} j p_j / E[K].

        A size-biased K is 1 plus a negative binomial of shape eta + 1.

        Parameters
        ----------
        k : int
            Number of trials, at least 0.

        Returns
        -------
        float
            The share, in [0, 1].
        """
        if check_count(k, "k", least=0) == 0:
            return 1.0
        return float(betainc(k, self.eta + 1, 1 - self.gamma))

    def hit_probability(self, share: float) -> float:
        """Probability that at least one trial draws from the best `share` of the candidates.

        Parameters
        ----------
        share : float
            Probability in [0, 1] that a trial draws a good candidate.

        Returns
        -------
        float
            1 - E[(1 - share)^K].
        """
        return 1 - self.pgf(1 - check_within(share, "share", "[0, 1]"))


def _exponential_integral(eta: float, length: float) -> float:
    """Integral of e^(-eta s) over s in [0, length]."""
    return length if abs(eta) < 1e-200 else -math.expm1(-eta * length) / eta


def _gamma(mean: float, eta: float) -> float:
    """Root of E[K] = (1 / gamma - 1) / int_0^L e^(-eta s) ds, L = log(1 / gamma)."""
    if mean == 1 or eta == 1:
        return 1 / mean

    def excess(length: float) -> float:
        log_mean = math.log(math.expm1(length) / _exponential_integral(eta, length))
        return log_mean - math.log(mean)

    if excess(_MAX_LOG) < 0:
        raise ValueError(f"mean={mean} is too large for eta={eta}.")
    # In L, as gamma itself may be as small as e^-600.
    length = brentq(excess, 1e-15, _MAX_LOG, xtol=1e-15, rtol=1e-15)
    return math.exp(-length)
