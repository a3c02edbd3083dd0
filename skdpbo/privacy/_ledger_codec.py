"""How amounts and guarantees are written to a file: as text, without losing a bit."""

from __future__ import annotations

import json
from dataclasses import fields
from fractions import Fraction
from functools import lru_cache
from typing import Any

from ._guarantee import PrivacyGuarantee

_FIELDS = tuple(field.name for field in fields(PrivacyGuarantee) if field.init)


def amount_to_text(amount: float | Fraction) -> str:
    """Shortest text that is read back as the same number; a Fraction stays one."""
    if isinstance(amount, Fraction):
        return f"{amount.numerator}/{amount.denominator}"
    return repr(float(amount))


def amount_from_text(text: str) -> float | Fraction:
    """Inverse of :func:`amount_to_text`."""
    return Fraction(text) if "/" in text else float(text)


def guarantee_to_dict(guarantee: PrivacyGuarantee) -> dict[str, Any]:
    """All fields and the parts, as JSON types."""
    state: dict[str, Any] = {name: getattr(guarantee, name) for name in _FIELDS}
    state["assumptions"] = list(guarantee.assumptions)
    state["parts"] = [guarantee_to_dict(part) for part in guarantee.parts]
    return state


def guarantee_from_dict(state: dict[str, Any]) -> PrivacyGuarantee:
    """Inverse of :func:`guarantee_to_dict`; a field that is not known is an error."""
    state = dict(state)
    parts = tuple(guarantee_from_dict(part) for part in state.pop("parts"))
    guarantee = PrivacyGuarantee(**(state | {"assumptions": tuple(state["assumptions"])}))
    guarantee._set("parts", parts)
    return guarantee


def guarantee_to_text(guarantee: PrivacyGuarantee) -> str:
    """JSON in which every float is read back exactly."""
    return json.dumps(guarantee_to_dict(guarantee), sort_keys=True, allow_nan=False)


@lru_cache(maxsize=4096)  # a ledger is read again for every charge
def guarantee_from_text(text: str) -> PrivacyGuarantee:
    """Inverse of :func:`guarantee_to_text`.

    Raises
    ------
    ValueError, TypeError, KeyError
        If the text is not a guarantee.
    """
    return guarantee_from_dict(json.loads(text))
