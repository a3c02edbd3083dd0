"""Conversion of add-remove and group guarantees to replace-one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

from skdpbo.privacy._checks import set_fields
from skdpbo.privacy._composition import compose
from skdpbo.privacy._conversions import epsilon_from_mu
from skdpbo.privacy._guarantee import (
    GROUP_RELATIONS,
    RECORD_RELATIONS,
    RELATIONS,
    PrivacyGuarantee,
)
from skdpbo.privacy._privacy_profile import PrivacyProfile, changed_profile
from skdpbo.privacy._rounding import one_plus_exp, round_up

Stated = TypeVar("Stated", PrivacyGuarantee, PrivacyProfile)

_REPLACED, _ADDED = RECORD_RELATIONS
_GROUP_REPLACED, _GROUP_ADDED = GROUP_RELATIONS.values()
_CONVERTED = "from added to replaced neighbours by group privacy"
_SAME_GROUP = "a replaced record stays in its group"


def as_replace_one(stated: Stated) -> Stated:
    """Return the replace-one guarantee that a guarantee for another relation implies.

    Replacing a record is removing one and adding another: two steps for add-remove, which give
    2 epsilon for a pure guarantee, 2 mu for a Gaussian one, and (2 epsilon, (1 + exp(epsilon))
    delta) for a pair. Replacing a record within its group replaces the group: the same numbers.

    Parameters
    ----------
    stated : PrivacyGuarantee or PrivacyProfile
        For add-remove neighbours, or for one group (guarantees only); one for replace-one
        neighbours is returned as it is.

    Returns
    -------
    PrivacyGuarantee or PrivacyProfile
        For replace-one neighbours.

    Raises
    ------
    ValueError
        For any other relation, or if the resulting delta is 1 or above. The converse conversion
        does not exist: replace-one guarantees reveal the number of records.

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
    if stated.neighbours == _REPLACED:
        return stated
    # The group contains the record.
    if isinstance(stated, PrivacyGuarantee) and stated.neighbours in GROUP_RELATIONS.values():
        return _converted(stated, _REPLACED).assuming(_SAME_GROUP)
    if stated.neighbours != _ADDED:
        raise ValueError(
            f"A guarantee for neighbours {stated.neighbours!r} does not imply one for replace-one."
        )
    if isinstance(stated, PrivacyProfile):
        reference = "; ".join(filter(None, (stated.reference, _CONVERTED)))
        doubled = stated.table.doubled()
        return changed_profile(stated, doubled, neighbours=_REPLACED, reference=reference)
    return _converted(stated, _REPLACED)


def common_relation(relations: Iterable[str]) -> str | None:
    """Return the relation to which different relations of records and groups are converted.

    None if there are fewer than two. With one for records among them it is "replace-one", as
    guarantees for records state nothing for groups.
    """
    found = {*relations}.intersection(RELATIONS)
    if len(found) < 2:
        return None
    return _REPLACED if found & {*RECORD_RELATIONS} else _GROUP_REPLACED


def in_one_relation(guarantees: Sequence[PrivacyGuarantee]) -> list[PrivacyGuarantee]:
    """Return the guarantees, those for records and groups converted to their `common_relation`.

    Raises
    ------
    ValueError
        If a conversion would need a delta of 1 or above.
    """
    relation = common_relation(g.neighbours for g in guarantees)
    if relation == _REPLACED:
        return [as_replace_one(g) if g.neighbours in RELATIONS else g for g in guarantees]
    if relation == _GROUP_REPLACED:
        return [_converted(g, relation) if g.neighbours == _GROUP_ADDED else g for g in guarantees]
    return list(guarantees)


def _converted(stated: PrivacyGuarantee, relation: str) -> PrivacyGuarantee:
    """Return a guarantee for one replaced record or group: the same, or that of two steps."""
    if stated.neighbours in (_REPLACED, _GROUP_REPLACED):
        copy = replace(stated, neighbours=relation)
        set_fields(copy, parts=tuple(_converted(part, relation) for part in stated.parts))
        return copy
    if stated.parts:  # composed again, at the same delta
        with suppress(ValueError):  # if no epsilon holds for the parts at this delta
            return compose(
                *(_converted(part, relation) for part in stated.parts), delta=stated.delta
            ).assuming(*stated.assumptions, status=stated.status)
    reference = "; ".join(filter(None, (stated.reference, _CONVERTED)))
    if stated.mu is not None and stated.delta > 0 and stated.statistical_distance == 0:
        # 2 mu at the same delta (Dong, Roth and Su 2022, Theorem 2.14). PrivacyGuarantee allows
        # epsilon 0 with delta 0 alone.
        epsilon = max(epsilon_from_mu(2 * stated.mu, stated.delta), math.ulp(0.0))
        numbers: dict[str, Any] = {"epsilon": epsilon, "mu": 2 * stated.mu}
    else:
        # (2 epsilon, (1 + e^epsilon) delta), rounded up; 2 mu keeps the statistical distance.
        delta = 0.0
        if stated.delta > 0:
            # 1e-15: more than the errors of exp, of the sum and of this product.
            factor = one_plus_exp(stated.epsilon) * (1 + 1e-15)
            exact = Fraction(stated.delta) * Fraction(factor) if math.isfinite(factor) else factor
            delta = round_up(exact)
        if delta >= 1:
            raise ValueError(
                f"(epsilon={stated.epsilon:.6g}, delta={stated.delta:.6g}) for added neighbours "
                f"says nothing for {relation}: delta would be {delta:.6g}."
            )
        mu = None if stated.mu is None else 2 * stated.mu
        numbers = {"epsilon": 2 * stated.epsilon, "delta": delta, "mu": mu}
    return replace(stated, neighbours=relation, reference=reference, **numbers)
