"""Composition: what several releases promise together.

Every release is reduced to a dominating pair of laws: randomised response for a pure or an
approximate guarantee, a pair of Gaussians for a GDP one. Products of these are evaluated exactly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.special import log_expit, logsumexp

from skdpbo.privacy._checks import check_delta
from skdpbo.privacy._exact_sums import exact_sum, exact_sum_of_squares
from skdpbo.privacy._guarantee import (
    DELTA_ROUNDING,
    RELATIONS,
    PrivacyGuarantee,
    implied_delta,
    weakest_status,
)
from skdpbo.privacy._profile import Array, log_gaussian_delta, private_root, with_error
from skdpbo.privacy._rounding import round_up, round_up_root

_MAX_SUPPORT = 8192
_TINY = math.ulp(0.0)


@dataclass(frozen=True)
class _Losses:
    """Dominating pair of a set of releases, composed.

    With probability `failure` anything may happen; otherwise the privacy loss is that of mu-GDP
    plus an independent one that is `values[i]` with probability exp(`log_weights[i]`).
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
        weight_error = 1e-15 * float(np.abs(self.log_weights).max())
        total = float(logsumexp(self.log_weights + log_deltas))
        return with_error(total, self.mu) + weight_error


def _atoms(guarantees: Sequence[PrivacyGuarantee]) -> list[PrivacyGuarantee]:
    return [part for g in guarantees for part in (_atoms(g.parts) if g.parts else [g])]


def _is_gaussian(guarantee: PrivacyGuarantee) -> bool:
    return guarantee.mu is not None and guarantee.delta > 0


def _total_mu(atoms: Sequence[PrivacyGuarantee]) -> float:
    """sqrt(sum mu^2), rounded up: GDP composes exactly (Dong, Roth and Su 2022, Corollary 3.3)."""
    mus = [g.mu for g in atoms if g.mu is not None and _is_gaussian(g)]
    if len(mus) == 1:
        return mus[0]
    return round_up_root(exact_sum_of_squares(mus))


def _losses(atoms: Sequence[PrivacyGuarantee]) -> _Losses:
    others = [g for g in atoms if not _is_gaussian(g)]
    values, log_weights = np.zeros(1), np.zeros(1)
    for epsilon, count in sorted(Counter(g.epsilon for g in others).items()):
        values, log_weights = _add_binomial(values, log_weights, epsilon, count)
    return _Losses(
        mu=_total_mu(atoms),
        values=values,
        log_weights=log_weights,
        # Failures are independent: 1 - prod (1 - delta_i) (Kairouz, Oh and Viswanath 2015).
        failure=-math.expm1(math.fsum(math.log1p(-g.delta) for g in others)),
        statistical_distance=math.fsum(g.statistical_distance for g in atoms if _is_gaussian(g)),
    )


def _add_binomial(
    values: Array, log_weights: Array, epsilon: float, count: int
) -> tuple[Array, Array]:
    """Add the privacy loss of `count` randomised responses at epsilon.

    The sum is (2 i - count) epsilon with i binomial of success probability 1 / (1 + e^-epsilon):
    randomised response dominates every epsilon-DP release (Kairouz, Oh and Viswanath 2015).
    """
    i = np.arange(count + 1.0)
    binomial = _log_choose(count) + i * log_expit(epsilon) + (count - i) * log_expit(-epsilon)
    sums = (values[:, None] + (2 * i - count) * epsilon).ravel()
    logs = (log_weights[:, None] + binomial).ravel()
    if sums.size <= _MAX_SUPPORT:
        return sums, logs
    return _on_a_grid(sums, logs)


def _on_a_grid(losses: Array, log_weights: Array) -> tuple[Array, Array]:
    """Losses on `_MAX_SUPPORT` + 1 equidistant points, which dominate the given ones.

    A loss l between two points is split among them such that the means of 1 and of e^-l stay: a
    spread of the likelihood ratio e^-l, of which every delta is a convex function (Doroshenko,
    Ghazi, Kamath, Kumar and Manurangsi 2022). The error is of second order in the step.
    """
    step = (losses.max() - losses.min()) / _MAX_SUPPORT
    cell = np.floor(losses / step).astype(np.int64)
    low = cell.min()
    # Rounding of the losses and of the share: towards the larger loss.
    above = np.clip(losses - cell * step, 0.0, step) + 4 * np.spacing(np.abs(losses).max())
    share = np.minimum(np.expm1(-above) / np.expm1(-step), 1.0)
    weights = np.exp(log_weights)
    upper: Array = np.asarray(np.bincount(cell - low + 1, weights=weights * share), dtype=float)
    upper[:-1] += np.bincount(cell - low, weights=weights * (1 - share), minlength=upper.size - 1)
    upper = upper * (1 + 1e-12)  # rounding of the sums
    upper[-1] += losses.size * 1e-300  # weights that underflow, put on the largest loss
    kept = np.flatnonzero(upper)
    return (kept + low) * step, np.log(upper[kept])


def _log_choose(n: int) -> Array:
    """Logarithms of the binomial coefficients of n, from exact integers."""
    logs, coefficient = np.zeros(n + 1), 1
    for k in range(n // 2 + 1):
        logs[k] = logs[n - k] = math.log(coefficient)
        coefficient = coefficient * (n - k) // (k + 1)
    return logs


def composed_epsilon(guarantees: Sequence[PrivacyGuarantee], delta: float) -> float:
    """Smallest epsilon of all the releases together at `delta`, rounded up; inf if there is none.

    With p = 1 / (1 + e^-epsilon0), one pure epsilon0 release and mu-GDP ones have
    delta(eps) = p delta_mu(eps - epsilon0) + (1 - p) delta_mu(eps + epsilon0),
    attained by randomised response with Gaussian noise; k pure releases have a binomial mixture.
    """
    atoms = _atoms(guarantees)
    epsilon = min(added_epsilon(atoms, delta), added_epsilon(guarantees, delta))
    if any(g.statistical_distance > 0 for g in atoms):
        # Where the distances use up delta, the stated pairs may say more than the curves.
        stated = [
            replace(g, mu=None, statistical_distance=0.0) if g.statistical_distance else g
            for g in atoms
        ]
        epsilon = min(epsilon, _composed_curve(stated, delta))
    return min(epsilon, _composed_curve(atoms, delta))


def _composed_curve(atoms: Sequence[PrivacyGuarantee], delta: float) -> float:
    """Smallest epsilon at `delta` of the product of the dominating pairs; inf if there is none."""
    losses = _losses(atoms)
    # delta = failure + (1 - failure) * (rest), with a margin for the rounding of the difference.
    rest = (delta - losses.failure - 1e-15 * delta) / (1 - losses.failure)
    if losses.statistical_distance == 0:
        return _epsilon_of(losses, rest)
    # The distance costs (1 + e^epsilon) times itself, so guess an upper bound on epsilon first.
    bound = _epsilon_of(losses, rest)
    for _ in range(20):
        bound = 1.001 * bound + 1e-3
        if bound > 700:
            break
        cost = (1 + math.exp(bound)) * losses.statistical_distance / (1 - losses.failure)
        epsilon = _epsilon_of(losses, rest - cost)
        if epsilon <= bound:
            return epsilon
        bound = epsilon
    return math.inf


def added_epsilon(guarantees: Sequence[PrivacyGuarantee], delta: float) -> float:
    """Sum of the epsilons, if the sum of the deltas is within delta; else inf."""
    if exact_sum(g.delta for g in guarantees) > Fraction(delta):
        return math.inf
    return round_up(exact_sum(g.epsilon for g in guarantees))


def _epsilon_of(losses: _Losses, delta: float) -> float:
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


def compose(*guarantees: PrivacyGuarantee, delta: float | None = None) -> PrivacyGuarantee:
    """Guarantee of releases made one after the other on the same records, each seeing the earlier.

    Parameters
    ----------
    *guarantees : PrivacyGuarantee
        At least one. Each is fixed before its release; later releases may depend on earlier ones.
    delta : float, default=None
        Where to evaluate the composed curve; by default the sum of the deltas. A larger one gives
        a smaller epsilon.

    Returns
    -------
    PrivacyGuarantee
        Void if any is void, else conditional if any is conditional. Never worse than adding
        epsilons and deltas; GDP curves and pure releases are composed exactly.

    Raises
    ------
    ValueError
        If there is none, no epsilon holds at `delta`, or relations mix: :func:`as_replace_one`.

    References
    ----------
    Kairouz, Oh and Viswanath (2015), The composition theorem for differential privacy, Theorem 3.
    Dong, Roth and Su (2022), Theorem 4 and Corollary 3.3.
    Doroshenko et al. (2022), Connect the dots, for the grid of many different epsilons.

    Examples
    --------
    >>> from skdpbo.privacy import PrivacyGuarantee, compose, epsilon_from_mu
    >>> noisy_scores = PrivacyGuarantee(
    ...     epsilon=epsilon_from_mu(0.268, 1e-5), delta=1e-5, mu=0.268)
    >>> choice = PrivacyGuarantee(epsilon=0.1)
    >>> round(compose(noisy_scores, choice).epsilon, 3)
    1.059
    """
    _check_guarantees(guarantees)
    _check_neighbours(guarantees)
    if len(guarantees) == 1 and (delta is None or delta == guarantees[0].delta):
        return guarantees[0]
    # What is a function of public values adds assumptions and no cost.
    paying = [g for g in guarantees if g.epsilon > 0] or guarantees[:1]
    # Basic composition at the sum of the deltas, rounded up (Dwork and Roth 2014, Theorem 3.16).
    deltas = round_up(exact_sum(g.delta for g in guarantees))
    total = deltas if delta is None else check_delta(delta)
    epsilon = composed_epsilon(paying, total)
    atoms = _atoms(paying)
    gaussian = total > 0 and all(map(_is_gaussian, atoms))
    composed = _merge(
        guarantees,
        epsilon=epsilon,
        delta=total,
        mu=_total_mu(atoms) if gaussian else None,
        distance=math.fsum(g.statistical_distance for g in atoms) if gaussian else 0.0,
    )
    composed._set("parts", tuple(atoms))
    return composed


def compose_parallel(*guarantees: PrivacyGuarantee, delta: float | None = None) -> PrivacyGuarantee:
    """Guarantee of releases on disjoint parts of the records: the largest, not the sum.

    Which record belongs to which part must not depend on the records' values (by position, for
    example): replacing a record then changes one part only.

    Parameters
    ----------
    *guarantees : PrivacyGuarantee
        At least one, one for each part.
    delta : float, default=None
        Where to evaluate the curves; by default the largest of the deltas.

    Returns
    -------
    PrivacyGuarantee
        For a record of any part. Status and neighbours as in :func:`compose`.
    """
    _check_guarantees(guarantees)
    _check_neighbours(guarantees)
    total = max(g.delta for g in guarantees) if delta is None else check_delta(delta)
    gaussian = total > 0 and all(g.mu is not None and g.delta > 0 for g in guarantees)
    merged = _merge(
        guarantees,
        # A record is in one part: the releases of the others do not change (McSherry 2009).
        epsilon=max(composed_epsilon([g], total) for g in guarantees),
        delta=total,
        mu=max(g.mu or 0.0 for g in guarantees) if gaussian else None,
        distance=max(g.statistical_distance for g in guarantees) if gaussian else 0.0,
        assumption="each record belongs to one part, chosen without looking at its values",
    )
    counts = [g.n_protected for g in guarantees if g.n_protected is not None]
    complete = len(counts) == len(guarantees)
    return replace(merged, n_protected=sum(counts) if complete else None)


def _check_guarantees(guarantees: Sequence[PrivacyGuarantee]) -> None:
    if not guarantees:
        raise ValueError("guarantees must hold at least one PrivacyGuarantee.")
    for guarantee in guarantees:
        if not isinstance(guarantee, PrivacyGuarantee):
            raise TypeError(f"Expected a PrivacyGuarantee, got {type(guarantee).__name__}.")


def _check_neighbours(guarantees: Sequence[PrivacyGuarantee]) -> None:
    """Refuse to mix relations: a bound for one states nothing for the other."""
    relations = _unique(g.neighbours for g in guarantees)
    if len(relations) > 1 and set(RELATIONS) & set(relations):
        raise ValueError(
            f"Guarantees for different neighbours do not compose: {', '.join(relations)}. "
            'as_replace_one converts them into "replace-one"; no other conversion holds.'
        )


def _merge(
    guarantees: Sequence[PrivacyGuarantee],
    *,
    epsilon: float,
    delta: float,
    mu: float | None,
    distance: float,
    assumption: str = "",
) -> PrivacyGuarantee:
    if not (math.isfinite(epsilon) and delta < 1):
        raise ValueError(f"No epsilon holds for these guarantees together at delta={delta}.")
    if implied_delta(epsilon, mu, distance) > delta * (1 + DELTA_ROUNDING):
        mu, distance = None, 0.0  # the sum of the epsilons was smaller; only the pair is stated
    neighbours = _unique(g.neighbours for g in guarantees)
    assumptions = _unique(a for g in guarantees for a in g.assumptions)
    if len(neighbours) > 1:
        assumptions.append("one record changes in these senses at most, each in one of the inputs")
    first, protected = guarantees[0], {(g.protects, g.n_protected) for g in guarantees}
    mechanisms = Counter(g.mechanism for g in _atoms(guarantees) if g.mechanism)
    return PrivacyGuarantee(
        epsilon=max(epsilon, _TINY) if any(g.epsilon > 0 for g in guarantees) else 0.0,
        delta=delta,
        mu=mu,
        statistical_distance=distance,
        neighbours=" and ".join(neighbours),
        protects=" and ".join(_unique(g.protects for g in guarantees)),
        mechanism=" + ".join(f"{n} x {name}" if n > 1 else name for name, n in mechanisms.items()),
        assumptions=tuple(_unique([*assumptions, assumption])),
        status=weakest_status(*(g.status for g in guarantees)),
        reference="; ".join(_unique(g.reference for g in guarantees)),
        n_protected=first.n_protected if len(protected) == 1 else None,
        n_public=first.n_public if len({g.n_public for g in guarantees}) == 1 else None,
    )


def _unique(texts: Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]
