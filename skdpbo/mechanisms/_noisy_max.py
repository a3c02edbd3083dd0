"""Private selection of the best of finitely many candidates by integer losses, exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdpbo.mechanisms._lattice import (
    as_fraction,
    integers_from,
)
from skdpbo.mechanisms._sampling import ExactSampler
from skdpbo.mechanisms._source import RandomSource
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import check_count, check_positive
from skdpbo.privacy._rounding import round_up

# Nodes of the quadrature of `PermuteAndFlip.probabilities`: exact up to 2 * 256 candidates, and
# fine enough near 0, where the integrand of a longer list is concentrated.
_MAX_NODES = 256


@dataclass(frozen=True)
class _Selection(ABC):
    """Base class of the selection mechanisms: parameters, checks and guarantee.

    A sub-class defines `_name` and `_reference` for the guarantee, `_draw`, which is epsilon-DP
    given the exponents of `_exponents`, and `probabilities`, the same law computed in floats.
    """

    epsilon: float | Fraction
    sensitivity: int

    _name: ClassVar[str]
    _reference: ClassVar[str]

    def __post_init__(self) -> None:
        check_positive(self.epsilon, "epsilon")
        check_count(self.sensitivity, "sensitivity")

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Pure differential privacy of one selection."""
        return PrivacyGuarantee(
            epsilon=round_up(as_fraction(self.epsilon)),
            protects="records behind the losses",
            mechanism=self._name,
            assumptions=(
                "replacing one record changes the integer loss of every candidate by at most "
                f"{int(self.sensitivity)}",
            ),
            reference=self._reference,
        )

    def select(self, losses: ArrayLike, source: RandomSource | None = None) -> int:
        """Release the position of one candidate; smaller losses are better.

        Parameters
        ----------
        losses : array-like of int, shape (n_candidates,)
            Total loss of each candidate, on any common offset.
        source : RandomSource, default=None
            None reads the operating system's generator.

        Returns
        -------
        int
            Index in ``range(n_candidates)``.
        """
        return self._draw(*self._exponents(losses), ExactSampler(source))

    def _exponents(self, losses: ArrayLike) -> tuple[list[int], int]:
        """Return integers a_k, b: a_k / b = epsilon (loss_k - min loss) / (2 sensitivity)."""
        values, shape = integers_from(losses, "losses")
        if len(shape) != 1 or not values:
            raise ValueError("losses must be a non-empty one-dimensional array.")
        epsilon = as_fraction(self.epsilon)
        best = min(values)
        # Exact integers: rounding an exponent would change the law and void the guarantee.
        numerators = [epsilon.numerator * (value - best) for value in values]
        return numerators, epsilon.denominator * 2 * int(self.sensitivity)

    def _weights(self, losses: ArrayLike) -> NDArray[np.float64]:
        """Return p_k = exp(-epsilon (loss_k - min loss) / (2 sensitivity)), shape (n,)."""
        numerators, denominator = self._exponents(losses)
        # Fractions beyond 800 underflow in any case; the cap keeps the division finite.
        ratios = [float(min(Fraction(a, denominator), Fraction(800))) for a in numerators]
        return np.asarray(np.exp(-np.asarray(ratios)))

    @abstractmethod
    def _draw(self, numerators: list[int], denominator: int, sampler: ExactSampler) -> int:
        """Return the released index: exponents are numerators / denominator, 0 for the best."""

    @abstractmethod
    def probabilities(self, losses: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each candidate, for study and tests.

        Protected: the probabilities are as sensitive as the losses.
        """


@dataclass(frozen=True)
class PermuteAndFlip(_Selection):
    r"""Permute-and-flip: selection of a good candidate under pure epsilon-differential privacy.

    Candidates are visited in a uniformly random order; candidate k is accepted with probability
    :math:`p_k = \exp(-\epsilon(\ell_k - \min \ell)/(2B))`, and the first accepted is released.

    Private: the records behind the losses, for data sets that differ in one record, when that
    record moves each loss by at most B. The law equals that of the largest of
    :math:`-\ell_k + \mathrm{Exp}(2B/\epsilon)`, which one record changes by at most a factor
    :math:`e^\epsilon`.

    Parameters
    ----------
    epsilon : float, int or fractions.Fraction
        Privacy loss of one selection, > 0. A float is read as its exact binary value.
    sensitivity : int
        B, the largest change of any loss under one substitution, at least 1, in units of the
        losses.

    Notes
    -----
    Exact: random integers only. The running time depends on the losses and is not protected.

    References
    ----------
    R. McKenna, D. R. Sheldon, Permute-and-flip: a new mechanism for differentially private
    selection, NeurIPS 2020, Algorithm 1. Z. Ding et al., arXiv:2105.07260, 2021 (equality with
    exponential noise).

    Examples
    --------
    >>> from skdpbo.mechanisms import PermuteAndFlip
    >>> mechanism = PermuteAndFlip(epsilon=1.0, sensitivity=2)
    >>> mechanism.probabilities([3, 0, 5, 2, 9]).round(4).tolist()
    [0.1677, 0.4766, 0.0958, 0.2263, 0.0335]
    >>> mechanism.select([3, 0, 5, 2, 9]) in range(5)
    True
    """

    _name: ClassVar[str] = "permute-and-flip"
    _reference: ClassVar[str] = "McKenna & Sheldon 2020, Algorithm 1"

    def _draw(self, numerators: list[int], denominator: int, sampler: ExactSampler) -> int:
        order = list(range(len(numerators)))
        # Fisher-Yates, stopped at the first acceptance; a best candidate is always accepted.
        for i in range(len(order)):
            j = i + sampler.below(len(order) - i)
            order[i], order[j] = order[j], order[i]
            if sampler.bernoulli_exp(numerators[order[i]], denominator):
                break
        return order[i]

    def probabilities(self, losses: ArrayLike) -> NDArray[np.float64]:
        r"""Return :math:`p_k \int_0^1 \prod_{j \ne k} (1 - p_j x)\,dx`, shape (n_candidates,).

        For study and tests. Protected: as sensitive as the losses, not a release.

        Parameters
        ----------
        losses : array-like of shape (n_candidates,)
            Loss of each candidate, as for `select`; protected.

        Returns
        -------
        ndarray of shape (n_candidates,)
            Probability that `select` returns each candidate.
        """
        p = self._weights(losses)
        # Candidate k is visited at a uniform time x. Any other candidate j has been visited before
        # with probability x, and must then have been rejected, with probability 1 - p_j (Lemma 1
        # of docs/theory/permute_and_flip.md).
        nodes, weights = np.polynomial.legendre.leggauss(min(_MAX_NODES, len(p) // 2 + 1))
        x = (nodes + 1) / 2
        factors = np.log1p(-np.outer(x, p))  # (n_nodes, n_candidates), finite as 0 < x < 1
        others = np.exp(factors.sum(axis=1, keepdims=True) - factors)
        return np.asarray(p * (weights / 2 @ others))


@dataclass(frozen=True)
class ExponentialMechanism(_Selection):
    r"""Exponential mechanism: P(k) proportional to :math:`\exp(-\epsilon\ell_k/(2B))`.

    Private: as for :class:`PermuteAndFlip`, whose expected loss is never larger. Prefer this one
    when many selections are composed: it has bounded range, hence concentrated privacy
    :math:`\epsilon^2/8` instead of :math:`\epsilon^2/2`.

    Parameters
    ----------
    epsilon : float, int or fractions.Fraction
        Privacy loss of one selection, > 0. A float is read as its exact binary value.
    sensitivity : int
        B, the largest change of any loss under one substitution, at least 1, in units of the
        losses.

    Notes
    -----
    Exact, by rejection: a uniform candidate is accepted with probability
    :math:`\exp(-\epsilon(\ell_k - \min \ell)/(2B))`; at most n_candidates trials are expected.
    The running time depends on the losses and is not protected.

    References
    ----------
    F. McSherry, K. Talwar, Mechanism design via differential privacy, FOCS 2007.

    Examples
    --------
    >>> from skdpbo.mechanisms import ExponentialMechanism
    >>> mechanism = ExponentialMechanism(epsilon=2.0, sensitivity=1)
    >>> mechanism.probabilities([2, 1, 0]).round(4).tolist()
    [0.09, 0.2447, 0.6652]
    """

    _name: ClassVar[str] = "exponential mechanism"
    _reference: ClassVar[str] = "McSherry & Talwar 2007"

    def _draw(self, numerators: list[int], denominator: int, sampler: ExactSampler) -> int:
        while True:
            # A uniform candidate, accepted with probability p_k, has the law p_k / sum p.
            k = sampler.below(len(numerators))
            if sampler.bernoulli_exp(numerators[k], denominator):
                return k

    def probabilities(self, losses: ArrayLike) -> NDArray[np.float64]:
        """Return the softmax of the scaled losses, shape (n_candidates,).

        For study and tests. Protected: as sensitive as the losses, not a release.

        Parameters
        ----------
        losses : array-like of shape (n_candidates,)
            Loss of each candidate, as for `select`; protected.

        Returns
        -------
        ndarray of shape (n_candidates,)
            Probability that `select` returns each candidate.
        """
        p = self._weights(losses)
        return np.asarray(p / p.sum())
