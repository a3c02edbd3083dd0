"""Entries of a ledger, the arithmetic of its budget, and exact text forms of guarantees."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache, partial
from typing import NamedTuple

from skdpbo.privacy._composed_losses import added_epsilon, composed_epsilon
from skdpbo.privacy._guarantee import PrivacyGuarantee
from skdpbo.privacy._replace_one import in_one_relation

# Ten releases of 0.1 fit a budget of 1, although ten times the float 0.1 is larger than 1.
_ROUNDING = 1e-12
Total = tuple[float | Fraction, float]


class Budget(NamedTuple):
    """An epsilon and a delta, spent or left.

    Parameters
    ----------
    epsilon : float
        Privacy loss bound, at least 0.
    delta : float
        Delta of the budget, in [0, 1).
    """

    epsilon: float
    delta: float


@dataclass(frozen=True)
class LedgerEntry:
    """One charge: the guarantee as claimed (its status included), its label and its time.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        Guarantee of the release, as it was charged.
    label : str, default=""
        Purpose of the charge.
    charged_at : datetime, default=now
        Time of the charge (UTC).
    """

    guarantee: PrivacyGuarantee
    label: str = ""
    charged_at: datetime = field(default_factory=partial(datetime.now, UTC))


def fits(total: Total, entries: Sequence[LedgerEntry], further: PrivacyGuarantee) -> bool:
    """Whether a further release stays within the total epsilon and delta.

    Add-remove guarantees next to replace-one ones are converted; see `in_one_relation`.
    """
    epsilon = total[0] * (1 + _ROUNDING)
    delta = min(total[1] * (1 + _ROUNDING), math.nextafter(1.0, 0.0))
    try:
        together = in_one_relation([*(entry.guarantee for entry in entries), further])
    except ValueError:  # an add-remove guarantee that implies no replace-one guarantee
        return False
    # Basic composition first: it is fast, and suffices while much of the budget is left.
    return added_epsilon(together, delta) <= epsilon or composed_epsilon(together, delta) <= epsilon


def budgets(total: Total, entries: Sequence[LedgerEntry]) -> tuple[Budget, Budget]:
    """Return the spent budget, composed, and the rest, which basic composition allows to spend.

    The spent epsilon is stated at the sum of the deltas, or, if it fits the budget only there, at
    the total delta.
    """
    charged = in_one_relation([entry.guarantee for entry in entries])
    # The deltas may exceed the total by the rounding that `fits` allows.
    delta = min(math.fsum(g.delta for g in charged), total[1])
    epsilon = composed_epsilon(charged, delta * (1 + _ROUNDING))
    if epsilon > total[0] * (1 + _ROUNDING):
        delta = total[1]
        epsilon = composed_epsilon(charged, delta * (1 + _ROUNDING))
    spent = Budget(min(epsilon, float(total[0])), delta)
    return spent, Budget(float(total[0]) - spent.epsilon, total[1] - spent.delta)


def guarantee_to_text(guarantee: PrivacyGuarantee) -> str:
    """Return JSON in which every float is read back exactly."""
    return json.dumps(guarantee.to_dict(), sort_keys=True, allow_nan=False)


@lru_cache(maxsize=4096)  # a ledger is read again for every charge
def guarantee_from_text(text: str) -> PrivacyGuarantee:
    """Return the guarantee; ValueError, TypeError or KeyError if the text is not one."""
    return PrivacyGuarantee.from_dict(json.loads(text))
