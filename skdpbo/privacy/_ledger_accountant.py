"""Accountants of other libraries, beside a ledger."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from ..exceptions import BudgetExceededError
from ._guarantee import PrivacyGuarantee


class Accountant(Protocol):
    """What an accountant of another library must offer."""

    def check(self, epsilon: float, delta: float) -> Any:
        """Raise an error, or return False, if the amounts cannot be spent."""

    def spend(self, epsilon: float, delta: float) -> Any:
        """Spend the amounts."""


def check_accountant(accountant: Accountant | None) -> Accountant | None:
    """Return an accountant that has the methods, or None."""
    for method in ("check", "spend"):
        if accountant is not None and not callable(getattr(accountant, method, None)):
            raise TypeError("accountant must have the methods check and spend.")
    return accountant


def distinct(accountants: Iterable[Accountant | None]) -> list[Accountant]:
    """Each of the accountants once."""
    found = {id(accountant): accountant for accountant in accountants}
    return [accountant for accountant in found.values() if accountant is not None]


def ask(accountant: Accountant, method: str, guarantee: PrivacyGuarantee) -> None:
    """Call `check` or `spend`; every refusal, error or False, is a BudgetExceededError."""
    what = f"(epsilon={guarantee.epsilon:.6g}, delta={guarantee.delta:.6g})"
    try:
        answer = getattr(accountant, method)(guarantee.epsilon, guarantee.delta)
    except Exception as error:
        raise BudgetExceededError(
            f"The accountant {type(accountant).__name__} does not {method} {what}: {error}. "
            "Nothing was charged to the ledger."
        ) from error
    if method == "check" and answer is not None and not answer:
        raise BudgetExceededError(
            f"The accountant {type(accountant).__name__} refuses {what}; nothing was charged."
        )
