"""Composition of guarantees, sequential and parallel."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from skdpbo.privacy._checks import check_delta, set_fields
from skdpbo.privacy._composed_losses import (
    composed_epsilon,
    exact_sum,
    is_gaussian,
    single_releases,
    total_mu,
)
from skdpbo.privacy._guarantee import (
    DELTA_ROUNDING,
    GROUP_RELATIONS,
    RELATIONS,
    PrivacyGuarantee,
    implied_delta,
    joint_terms,
)
from skdpbo.privacy._rounding import round_up

_TINY = math.ulp(0.0)
SAME_GROUPS = "the groups are the same in all releases"
_OF_ANY_NUMBER = ("add-remove", GROUP_RELATIONS["add-remove"])


def compose(*guarantees: PrivacyGuarantee, delta: float | None = None) -> PrivacyGuarantee:
    """Guarantee of several releases from the same records (adaptive composition).

    Parameters
    ----------
    *guarantees : PrivacyGuarantee
        At least one. Each is fixed before its release; later releases may depend on earlier ones.
    delta : float, default=None
        In [0, 1). Where to evaluate the composed curve; by default the sum of the deltas. A larger
        one gives a smaller epsilon.

    Returns
    -------
    PrivacyGuarantee
        Void if any is void, else conditional if any is conditional. Never worse than adding
        epsilons and deltas; GDP curves and pure releases are composed exactly.

    Raises
    ------
    ValueError
        If no guarantee is given, no epsilon holds at `delta`, or the neighbouring relations differ
        (see :func:`as_replace_one`).

    References
    ----------
    Kairouz, Oh and Viswanath (2015), The composition theorem for differential privacy, Theorem 3.
    Dong, Roth and Su (2022), Theorem 3.2 and Corollary 3.3.
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
    _check_together(guarantees)
    # A single guarantee keeps its own curve, parts and wording.
    if len(guarantees) == 1 and (delta is None or delta == guarantees[0].delta):
        return guarantees[0]
    # Releases that are functions of public values (epsilon 0) add assumptions and no cost.
    paying = [g for g in guarantees if g.epsilon > 0] or guarantees[:1]
    if delta is None:  # basic composition (Dwork and Roth 2014, Theorem 3.16)
        total = round_up(exact_sum(g.delta for g in guarantees))
    else:
        total = check_delta(delta)
    epsilon = composed_epsilon(paying, total)
    atoms = single_releases(paying)
    # Gaussian curves add up to one: the squares of mu are summed (Dong, Roth and Su, Cor. 3.3).
    # At delta 0 a Gaussian curve has no epsilon.
    gaussian = total > 0 and all(map(is_gaussian, atoms))
    composed = _merge(
        guarantees,
        epsilon=epsilon,
        delta=total,
        mu=total_mu(atoms) if gaussian else None,
        distance=math.fsum(g.statistical_distance for g in atoms) if gaussian else 0.0,
        # A group of one release may hold several of another.
        assumption=SAME_GROUPS if "group" in guarantees[0].neighbours else "",
    )
    # A further composition starts from the parts, not from this bound.
    set_fields(composed, parts=tuple(atoms))
    return composed


def compose_parallel(*guarantees: PrivacyGuarantee, delta: float | None = None) -> PrivacyGuarantee:
    """Guarantee of releases on disjoint parts of the records: the largest, not the sum.

    The partition must not depend on the records' values, so that replacing a record changes one
    part only. It may depend on positions, but not for add-remove neighbours: removing a record
    moves others to another part. All records of a group must be in one part.

    Parameters
    ----------
    *guarantees : PrivacyGuarantee
        At least one, one for each part.
    delta : float, default=None
        In [0, 1). Where to evaluate the curves; by default the largest of the deltas.

    Returns
    -------
    PrivacyGuarantee
        For one record of any part. Status and neighbours as in :func:`compose`.
    """
    _check_together(guarantees)
    total = max(g.delta for g in guarantees) if delta is None else check_delta(delta)
    gaussian = total > 0 and all(map(is_gaussian, guarantees))
    merged = _merge(
        guarantees,
        # One record affects the release of its part alone (McSherry 2009).
        epsilon=max(composed_epsilon([g], total) for g in guarantees),
        delta=total,
        # A mu-GDP release is also GDP of every larger mu.
        mu=max(g.mu or 0.0 for g in guarantees) if gaussian else None,
        distance=max(g.statistical_distance for g in guarantees) if gaussian else 0.0,
        assumption=_assumed_partition(guarantees[0].neighbours),
    )
    counts = [g.n_protected for g in guarantees if g.n_protected is not None]
    # The parts are disjoint: numbers of records add, unless one is secret.
    complete = len(counts) == len(guarantees)
    return replace(merged, n_protected=sum(counts) if complete else None)


def _assumed_partition(neighbours: str) -> str:
    """Return the assumption under which one change of the data changes one part only."""
    unit = "all records of each group belong" if "group" in neighbours else "each record belongs"
    # Adding or removing a record shifts the positions of those that follow.
    others = " or at other records (not by position)" if neighbours in _OF_ANY_NUMBER else ""
    return f"{unit} to one part, chosen without looking at values{others}"


def _check_together(guarantees: Sequence[PrivacyGuarantee]) -> None:
    """Refuse an empty composition, and different relations of records or groups."""
    if not guarantees:
        raise ValueError("guarantees must hold at least one PrivacyGuarantee.")
    for guarantee in guarantees:
        if not isinstance(guarantee, PrivacyGuarantee):
            kind = type(guarantee).__name__
            hint = " Unpack it: *guarantees." * isinstance(guarantee, list | tuple)
            raise TypeError(f"Expected a PrivacyGuarantee, got {kind}.{hint}")

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
        mu, distance = None, 0.0  # the sum of the epsilons was smaller: state the pair alone
    neighbours = _unique(g.neighbours for g in guarantees)
    terms = joint_terms(guarantees)
    assumptions = [*terms.pop("assumptions")]
    if len(neighbours) > 1:
        assumptions.append("one record changes in these senses at most, each in one of the inputs")
    first, protected = guarantees[0], {(g.protects, g.n_protected) for g in guarantees}
    mechanisms = Counter(g.mechanism for g in single_releases(guarantees) if g.mechanism)
    return PrivacyGuarantee(
        # A positive sum that underflows must not state epsilon 0.
        epsilon=max(epsilon, _TINY) if any(g.epsilon > 0 for g in guarantees) else 0.0,
        delta=delta,
        mu=mu,
        statistical_distance=distance,
        neighbours=" and ".join(neighbours),
        protects=" and ".join(_unique(g.protects for g in guarantees)),
        mechanism=" + ".join(f"{n} x {name}" if n > 1 else name for name, n in mechanisms.items()),
        assumptions=tuple(_unique([*assumptions, assumption])),
        **terms,
        n_protected=first.n_protected if len(protected) == 1 else None,
        n_public=first.n_public if len({g.n_public for g in guarantees}) == 1 else None,
    )


def _unique(texts: Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]
