"""Privacy losses of composed releases, and the smallest epsilon at a delta.

Every release is reduced to a dominating pair of distributions: randomised response for a pure or an
approximate guarantee, a pair of Gaussians for a GDP one. Products of these are evaluated exactly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.special import log_expit

from skdpbo.privacy._guarantee import PrivacyGuarantee
from skdpbo.privacy._profile import (
    Array,
    log_gaussian_delta,
    log_sum_exp,
    private_root,
    with_error,
)
from skdpbo.privacy._rounding import round_up, round_up_root

_MAX_SUPPORT = 8192
_MU_SLACK = 1e-8  # so that the epsilon of the composition does not exceed the target


@dataclass(frozen=True)
class ComposedLosses:
    """Dominating pair of a set of releases, composed.

    With probability `failure` the privacy loss is infinite; otherwise it is the sum of that of
    mu-GDP and of an independent one that is `values[i]` with probability exp(`log_weights[i]`).
    """

    mu: float
    values: Array
    log_weights: Array
    failure: float
    statistical_distance: float

    def log_delta(self, epsilon: float) -> float:
        """Upper bound on the log delta at epsilon, without `failure`."""
        shifted = epsilon - self.values
        if self.mu > 0:
            log_deltas = log_gaussian_delta(self.mu, shifted)
        else:
            with np.errstate(divide="ignore"):
                log_deltas = np.log(-np.expm1(np.minimum(shifted, 0.0)))
        # Rounding error of the log weights; `with_error` covers that of the sum.
        weight_error = 1e-15 * float(np.abs(self.log_weights).max())
        total = log_sum_exp(self.log_weights + log_deltas)
        return with_error(total, self.mu) + weight_error


def single_releases(guarantees: Sequence[PrivacyGuarantee]) -> list[PrivacyGuarantee]:
    """Flatten composed guarantees to those of single releases."""
    return [part for g in guarantees for part in (single_releases(g.parts) if g.parts else [g])]


def is_gaussian(guarantee: PrivacyGuarantee) -> bool:
    """Whether the release is dominated by a pair of Gaussians."""
    return guarantee.mu is not None and guarantee.delta > 0


def total_mu(atoms: Sequence[PrivacyGuarantee]) -> float:
    """sqrt(sum mu^2), rounded up: GDP composes exactly (Dong, Roth and Su 2022, Corollary 3.3)."""
    mus = [g.mu for g in atoms if g.mu is not None and is_gaussian(g)]
    # A single mu would grow by rounding if it were squared and rooted again.
    if len(mus) == 1:
        return mus[0]
    return round_up_root(exact_sum(mus, power=2))


def composed_losses(atoms: Sequence[PrivacyGuarantee]) -> ComposedLosses:
    """Dominating pair of the composition of single releases."""
    others = [g for g in atoms if not is_gaussian(g)]
    values, log_weights = np.zeros(1), np.zeros(1)
    # Sorted, so that rounding and grid do not depend on the order of the releases.
    for epsilon, count in sorted(Counter(g.epsilon for g in others).items()):
        values, log_weights = _add_binomial(values, log_weights, epsilon, count)
    return ComposedLosses(
        mu=total_mu(atoms),
        values=values,
        log_weights=log_weights,
        # Failures are independent: 1 - prod (1 - delta_i) (Kairouz, Oh and Viswanath 2015).
        failure=-math.expm1(math.fsum(math.log1p(-g.delta) for g in others)),
        statistical_distance=math.fsum(g.statistical_distance for g in atoms if is_gaussian(g)),
    )


def _add_binomial(
    values: Array, log_weights: Array, epsilon: float, count: int
) -> tuple[Array, Array]:
    """Add the privacy loss of `count` randomised responses at epsilon.

    The sum is (2 i - count) epsilon with i binomial of success probability 1 / (1 + e^-epsilon):
    randomised response dominates every epsilon-DP release (Kairouz, Oh and Viswanath 2015).
    """
    # Logarithms of exact binomial coefficients: differences of log gamma functions would cancel.
    log_choose, coefficient = np.zeros(count + 1), 1
    for k in range(count // 2 + 1):
        log_choose[k] = log_choose[count - k] = math.log(coefficient)
        coefficient = coefficient * (count - k) // (k + 1)
    i = np.arange(count + 1.0)
    binomial = log_choose + i * log_expit(epsilon) + (count - i) * log_expit(-epsilon)
    sums = (values[:, None] + (2 * i - count) * epsilon).ravel()
    logs = (log_weights[:, None] + binomial).ravel()
    if sums.size <= _MAX_SUPPORT:
        return sums, logs
    return _on_a_grid(sums, logs)


def _on_a_grid(losses: Array, log_weights: Array) -> tuple[Array, Array]:
    """Losses on `_MAX_SUPPORT` + 1 equidistant points, which dominate the given ones.

    The weight of a loss l between two points is split among them such that the means of 1 and of
    e^-l are kept. That spreads the likelihood ratio e^-l, of which every delta is a convex function
    (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022). The error is of second order in the
    step.
    """
    step = (losses.max() - losses.min()) / _MAX_SUPPORT
    cell = np.floor(losses / step).astype(np.int64)
    low = cell.min()
    # Rounding errors of losses and shares go towards the larger loss.
    above = np.clip(losses - cell * step, 0.0, step) + 4 * np.spacing(np.abs(losses).max())
    share = np.minimum(np.expm1(-above) / np.expm1(-step), 1.0)
    weights = np.exp(log_weights)
    upper: Array = np.asarray(np.bincount(cell - low + 1, weights=weights * share), dtype=float)
    upper[:-1] += np.bincount(cell - low, weights=weights * (1 - share), minlength=upper.size - 1)
    upper = upper * (1 + 1e-12)  # rounding of the sums
    upper[-1] += losses.size * 1e-300  # weights that underflow count at the largest loss
    kept = np.flatnonzero(upper)
    return (kept + low) * step, np.log(upper[kept])


def composed_epsilon(guarantees: Sequence[PrivacyGuarantee], delta: float) -> float:
    """Smallest epsilon of the composition at `delta`, rounded up; inf if there is none.

    With p = 1 / (1 + e^-epsilon0), one pure epsilon0 release and mu-GDP ones have
    delta(eps) = p delta_mu(eps - epsilon0) + (1 - p) delta_mu(eps + epsilon0),
    attained by randomised response with Gaussian noise; k pure releases have a binomial mixture.
    """
    atoms = single_releases(guarantees)
    epsilon = min(added_epsilon(atoms, delta), added_epsilon(guarantees, delta))
    if any(g.statistical_distance > 0 for g in atoms):
        # Where the distances use up delta, the stated pairs may give less than the curves.
        stated = [
            replace(g, mu=None, statistical_distance=0.0) if g.statistical_distance else g
            for g in atoms
        ]
        epsilon = min(epsilon, _composed_curve(stated, delta))
    return min(epsilon, _composed_curve(atoms, delta))


def _composed_curve(atoms: Sequence[PrivacyGuarantee], delta: float) -> float:
    """Smallest epsilon at `delta` of the product of the dominating pairs; inf if there is none."""
    losses = composed_losses(atoms)
    if losses.failure >= 1:  # rounded up
        return math.inf
    # delta = failure + (1 - failure) * (rest), with a margin for the rounding of the difference.
    rest = (delta - losses.failure - 1e-15 * delta) / (1 - losses.failure)
    if losses.statistical_distance == 0:
        return _epsilon_of(losses, rest)
    # The distance costs (1 + e^epsilon) times itself: look for an upper bound on epsilon first.
    bound = _epsilon_of(losses, rest)
    for _ in range(20):
        bound = 1.001 * bound + 1e-3  # enlarged, so that the next epsilon may fall below it
        if bound > 700:  # e^bound would overflow at 709.8
            break
        cost = (1 + math.exp(bound)) * losses.statistical_distance / (1 - losses.failure)
        epsilon = _epsilon_of(losses, rest - cost)
        if epsilon <= bound:
            return epsilon
        bound = epsilon
    return math.inf


def mu_beside(pure_epsilons: Sequence[float], epsilon: float, delta: float) -> float:
    """Largest mu such that a mu-GDP release composed with pure ones is (epsilon, delta)-DP.

    Parameters
    ----------
    pure_epsilons : sequence of float
        Epsilons of the pure releases, positive; their sum is below `epsilon`.
    epsilon : float
        Positive.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Mu, positive, rounded down.

    Examples
    --------
    >>> from skdpbo.privacy._composed_losses import mu_beside
    >>> round(mu_beside([0.1, 0.1], 1.0, 1e-5), 4)  # .2681 alone
    0.2374
    """
    losses = composed_losses([PrivacyGuarantee(epsilon=pure) for pure in pure_epsilons])
    return private_root(
        lambda mu: replace(losses, mu=mu).log_delta(epsilon),
        math.log(delta),
        guess=epsilon,
        safe_side=-1,
        slack=_MU_SLACK,
    )


def added_epsilon(guarantees: Sequence[PrivacyGuarantee], delta: float) -> float:
    """Sum of the epsilons, if the sum of the deltas is within delta; else inf."""
    if exact_sum(g.delta for g in guarantees) > Fraction(delta):
        return math.inf
    return round_up(exact_sum(g.epsilon for g in guarantees))


def _epsilon_of(losses: ComposedLosses, delta: float) -> float:
    if delta <= 0:
        return math.inf
    log_target = math.log(min(delta, 1.0))
    if losses.log_delta(0.0) <= log_target:
        return 0.0
    return private_root(
        losses.log_delta,
        log_target,
        guess=losses.mu * (losses.mu / 2 + 1) + 0.1 * float(losses.values.max()),
        safe_side=1,
        slack=1e-10,
    )


def exact_sum(values: Iterable[float | Fraction], power: int = 1) -> Fraction:
    """Sum of a power of finite floats, or of their exact differences, without rounding.

    The denominators are powers of two, so that the sum is one of shifted integers: a sum of
    Fractions would compute a common divisor at each step. Equal values, of which a ledger has many,
    are added at once.
    """
    ratios = {value.as_integer_ratio(): count for value, count in Counter(values).items()}
    pairs = [(count * top**power, bottom**power) for (top, bottom), count in ratios.items()]
    common = max((bottom for _, bottom in pairs), default=1)
    bits = common.bit_length()
    return Fraction(sum(top << (bits - bottom.bit_length()) for top, bottom in pairs), common)
