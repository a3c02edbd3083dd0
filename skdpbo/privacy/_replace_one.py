"""Replace-one guarantees from add-remove ones: a record is removed, then another is added."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

from skdpbo.privacy._composition import compose
from skdpbo.privacy._conversions import epsilon_from_mu
from skdpbo.privacy._guarantee import PrivacyGuarantee
from skdpbo.privacy._privacy_profile import PrivacyProfile, changed_profile
from skdpbo.privacy._rounding import round_up

Stated = TypeVar("Stated", PrivacyGuarantee, PrivacyProfile)

_CONVERTED = "from add-remove to replace-one neighbours by group privacy"


def as_replace_one(stated: Stated) -> Stated:
    """Return what an add-remove guarantee or profile says of one replaced record.

    The two data sets are two steps apart: 2 epsilon for a pure guarantee, 2 mu for a Gaussian one,
    and (2 epsilon, (1 + exp(epsilon)) delta) for a pair.

    Parameters
    ----------
    stated : PrivacyGuarantee or PrivacyProfile
        For add-remove neighbours; one for replace-one neighbours is returned as it is.

    Returns
    -------
    PrivacyGuarantee or PrivacyProfile
        For replace-one neighbours.

    Raises
    ------
    ValueError
        For any other relation, or if delta comes out at 1 or above. Add-remove does not follow
        from replace-one, which tells the number of records.

    References
    ----------
    Dong, Roth and Su (2022), Theorem 2.14. Dwork and Roth (2014), Theorem 2.2.

    Examples
    --------
    >>> from skdpbo.privacy import PrivacyGuarantee, as_replace_one
    >>> as_replace_one(PrivacyGuarantee(epsilon=0.5, neighbours="add-remove")).epsilon
    1.0
    """
    if not isinstance(stated, PrivacyGuarantee | PrivacyProfile):
        raise TypeError(
            f"Expected a PrivacyGuarantee or a PrivacyProfile, got {type(stated).__name__}."
        )
    if stated.neighbours == "replace-one":
        return stated
    if stated.neighbours != "add-remove":
        raise ValueError(
            f"A guarantee for neighbours {stated.neighbours!r} does not imply one for replace-one."
        )
    if isinstance(stated, PrivacyProfile):
        reference = "; ".join(filter(None, (stated.reference, _CONVERTED)))
        doubled = stated.table.doubled()
        return changed_profile(stated, doubled, neighbours="replace-one", reference=reference)
    return _replaced(stated)


def in_one_relation(guarantees: Sequence[PrivacyGuarantee]) -> list[PrivacyGuarantee]:
    """Return the guarantees; where replaced records are among the relations, no add-remove one.

    Any other relation stays as it is stated.

    Raises
    ------
    ValueError
        If one that is to be converted says nothing for replace-one.
    """
    if {"replace-one", "add-remove"} <= {g.neighbours for g in guarantees}:
        return [as_replace_one(g) if g.neighbours == "add-remove" else g for g in guarantees]
    return list(guarantees)


def _replaced(stated: PrivacyGuarantee) -> PrivacyGuarantee:
    converted = _composed_parts(stated) if stated.parts else None
    if converted is not None:
        return converted
    reference = "; ".join(filter(None, (stated.reference, _CONVERTED)))
    if stated.mu is not None and stated.delta > 0 and stated.statistical_distance == 0:
        epsilon = max(epsilon_from_mu(2 * stated.mu, stated.delta), math.ulp(0.0))
        numbers: dict[str, Any] = {"epsilon": epsilon, "mu": 2 * stated.mu}
    else:
        numbers = _doubled_pair(stated)
    return replace(stated, neighbours="replace-one", reference=reference, **numbers)


def _composed_parts(stated: PrivacyGuarantee) -> PrivacyGuarantee | None:
    """Composition of the converted parts at the same delta; None where no epsilon holds."""
    try:
        return compose(*map(_replaced, stated.parts), delta=stated.delta).assuming(
            *stated.assumptions, status=stated.status
        )
    except ValueError:
        return None


def _doubled_pair(stated: PrivacyGuarantee) -> dict[str, Any]:
    """(2 epsilon, (1 + e^epsilon) delta), rounded up; the curve and its distance stay with it."""
    delta = 0.0
    if stated.delta > 0:
        factor = (1 + math.exp(min(stated.epsilon, 700.0))) * (1 + 1e-15)
        delta = round_up(Fraction(stated.delta) * Fraction(factor))
    if delta >= 1:
        raise ValueError(
            f"(epsilon={stated.epsilon:.6g}, delta={stated.delta:.6g}) for add-remove neighbours "
            f"says nothing for replace-one: delta would be {delta:.6g}."
        )
    mu = None if stated.mu is None else 2 * stated.mu
    return {"epsilon": 2 * stated.epsilon, "delta": delta, "mu": mu}
