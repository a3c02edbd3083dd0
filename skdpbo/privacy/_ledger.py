"""A budget that releases are charged to before they touch protected data."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from ..exceptions import BudgetExceededError
from ._checks import check_delta, check_epsilon
from ._composition import composed_epsilon
from ._guarantee import PrivacyGuarantee

# The ledgers whose `with` blocks are open here, outermost first. Worker processes and threads
# start without any: releases are charged in the parent, before work is handed out.
_ACTIVE: ContextVar[tuple[PrivacyLedger, ...]] = ContextVar("skdpbo_active_ledgers", default=())
# One lock for all ledgers, so that nested ones are checked and written as one step.
_LOCK = threading.RLock()
# Ten releases of 0.1 fit a budget of 1, although ten times the float 0.1 is larger than 1.
_ROUNDING = 1e-12


class Budget(NamedTuple):
    """An epsilon and a delta, spent or left."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class LedgerEntry:
    """One charge: the guarantee as claimed (its status included) and what it was for."""

    guarantee: PrivacyGuarantee
    label: str = ""


class PrivacyLedger:
    """A total (epsilon, delta) that everything released inside its ``with`` block is charged to.

    Charges are composed by :func:`compose` at the ledger's delta. They are made before protected
    data is touched and are never given back, also if the release then fails. A void guarantee is
    charged what it claims: it promises nothing, but it is not free. Blocks may be nested; a charge
    counts in all enclosing ledgers, or in none if one of them cannot afford it. Only the thread
    and the process that opened the block charge to it. A ledger is not to be copied or pickled.

    Parameters
    ----------
    epsilon : float
        Total epsilon, positive.
    delta : float, default=0.0
        Total delta, in [0, 1). With 0 only pure guarantees can be charged.

    Attributes
    ----------
    epsilon, delta : float or Fraction, float
        The budget.
    entries : tuple of LedgerEntry
        The charges, oldest first.

    Notes
    -----
    Amounts are compared up to a relative 1e-12, so that ten charges of 0.1 fit a budget of 1.

    What is released may depend on earlier releases. That the *amounts* charged may depend on them
    too is proved for charges that fit by adding epsilons and deltas (Rogers, Roth, Ullman and
    Vadhan 2016) and for Gaussian charges alone (Smith and Thakurta 2022); where pure and Gaussian
    charges fit by composition only, choose the amounts beforehand.

    Examples
    --------
    >>> from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger
    >>> with PrivacyLedger(epsilon=1.0) as ledger:
    ...     ledger.charge(PrivacyGuarantee(epsilon=0.75), label="choice of C")
    >>> ledger.remaining()
    Budget(epsilon=0.25, delta=0.0)
    """

    def __init__(self, epsilon: float, delta: float = 0.0) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.delta = check_delta(delta)
        self._entries: tuple[LedgerEntry, ...] = ()

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """The charges, oldest first."""
        return self._entries

    def charge(self, guarantee: PrivacyGuarantee, label: str = "") -> None:
        """Record a release here and in the ledgers that enclose this one.

        Raises
        ------
        BudgetExceededError
            If it does not fit; then nothing is recorded anywhere.
        """
        active = _ACTIVE.get()
        enclosing = active[: active.index(self)] if self in active else ()
        _charge((*enclosing, self), guarantee, label)

    def affords(self, guarantee: PrivacyGuarantee) -> bool:
        """Whether a charge would fit this ledger now."""
        charged = [entry.guarantee for entry in self._entries]
        return self._within_budget([*charged, guarantee])

    def spent(self) -> Budget:
        """Return what is spent: delta is the sum of the charged ones, at most the ledger's."""
        charged = [entry.guarantee for entry in self._entries]
        if not charged:
            return Budget(0.0, 0.0)
        delta = min(math.fsum(g.delta for g in charged), self.delta)
        epsilon = composed_epsilon(charged, delta * (1 + _ROUNDING))
        return Budget(min(epsilon, float(self.epsilon)), delta)

    def remaining(self) -> Budget:
        """Return what a further release may cost, by adding epsilons and deltas."""
        spent = self.spent()
        return Budget(float(self.epsilon) - spent.epsilon, self.delta - spent.delta)

    def _within_budget(self, guarantees: Sequence[PrivacyGuarantee]) -> bool:
        delta = min(self.delta * (1 + _ROUNDING), math.nextafter(1.0, 0.0))
        return composed_epsilon(guarantees, delta) <= self.epsilon * (1 + _ROUNDING)

    def __enter__(self) -> PrivacyLedger:
        _ACTIVE.set((*_ACTIVE.get(), self))
        return self

    def __exit__(self, *exc_info: object) -> None:
        active = _ACTIVE.get()
        if self in active:
            last = len(active) - 1 - active[::-1].index(self)
            _ACTIVE.set(active[:last] + active[last + 1 :])

    def __repr__(self) -> str:
        return (
            f"PrivacyLedger(epsilon={self.epsilon}, delta={self.delta}): "
            f"{len(self._entries)} charged, {self.remaining().epsilon:.6g} of epsilon left"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("A PrivacyLedger is not copied or pickled: two copies spend twice.")


@contextmanager
def charged_elsewhere() -> Iterator[None]:
    """Charge no ledger that is open around this block: the caller has charged for all of it.

    For code that fits private estimators inside a release whose total is already paid, such as the
    trials of a private selection. It concerns this thread only: a function that runs in a worker
    opens the block itself. A ledger opened inside the block is charged as usual.

    Examples
    --------
    >>> from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger
    >>> from skdpbo.privacy import charge_active_ledger, charged_elsewhere
    >>> with PrivacyLedger(epsilon=1.0) as ledger:
    ...     charge_active_ledger(PrivacyGuarantee(epsilon=1.0), "best of many")
    ...     with charged_elsewhere():
    ...         charge_active_ledger(PrivacyGuarantee(epsilon=0.1), "one of them")
    >>> len(ledger.entries)
    1
    """
    token = _ACTIVE.set(())
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def charge_active_ledger(guarantee: PrivacyGuarantee, label: str = "") -> None:
    """Charge a release to every active ledger; nothing happens when there is none.

    To be called in the parent process before protected data is touched.

    Raises
    ------
    BudgetExceededError
        If one of them cannot afford it; then nothing is recorded anywhere.
    """
    _charge(_ACTIVE.get(), guarantee, label)


def _charge(ledgers: Sequence[PrivacyLedger], guarantee: PrivacyGuarantee, label: str) -> None:
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(f"guarantee must be a PrivacyGuarantee, got {type(guarantee).__name__}.")
    if not isinstance(label, str):
        raise TypeError(f"label must be a string, got {type(label).__name__}.")
    distinct = list(dict.fromkeys(ledgers))
    entry = LedgerEntry(guarantee, label)
    with _LOCK:
        for ledger in distinct:
            if not ledger.affords(guarantee):
                raise BudgetExceededError(_refusal(ledger, guarantee, label))
        for ledger in distinct:
            ledger._entries = (*ledger._entries, entry)


def _refusal(ledger: PrivacyLedger, guarantee: PrivacyGuarantee, label: str) -> str:
    left = ledger.remaining()
    what = f"{label}: " if label else ""
    return (
        f"{what}(epsilon={guarantee.epsilon:.6g}, delta={guarantee.delta:.6g}) does not fit the "
        f"ledger, which has epsilon={left.epsilon:.6g}, delta={left.delta:.6g} left of "
        f"epsilon={float(ledger.epsilon):.6g}, delta={ledger.delta:.6g}; nothing was charged."
    )
