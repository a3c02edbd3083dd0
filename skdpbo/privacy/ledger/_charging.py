"""Charges: every ledger that a release belongs to pays, or none and the release is refused."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from skdpbo.exceptions import BudgetExceededError, LedgerError
from skdpbo.privacy._checks import check_text
from skdpbo.privacy._guarantee import PrivacyGuarantee
from skdpbo.privacy.ledger._budget import LedgerEntry, budgets, fits
from skdpbo.privacy.ledger._scope import stores_to_charge
from skdpbo.privacy.ledger._store import PROCESS, Store, Tables

_HINT = (
    "The estimator, or one inside it, was created, cloned, pickled or fitted while this ledger was "
    "open, so that its fits are charged there. For a fit that is not, make a new estimator from "
    "its parameters (get_params) outside of the ledger."
)


def charge_active_ledger(
    guarantee: PrivacyGuarantee,
    label: str = "",
    estimator: object = None,
    *,
    own_rows: bool = False,
    record: bool = True,
) -> None:
    """Charge a release to every ledger it belongs to; nothing happens when there is none.

    To be called before the first protected value is read.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        Guarantee of the release.
    label : str, default=""
        Purpose of the charge.
    estimator : object, default=None
        The estimator that is fitted. If it has :class:`LedgerMixin`, the ledgers that it was
        created, cloned, pickled or fitted under are charged, wherever it is fitted.
    own_rows : bool, default=False
        Whether the release concerns protected rows that were given to this fit alone, so that no
        fit around it has paid for them.
    record : bool, default=True
        With False the errors below are raised and nothing is recorded. Nothing is reserved
        either: the later charge is checked again and may fail.

    Raises
    ------
    BudgetExceededError
        If one of them cannot afford it; then nothing is recorded anywhere.
    LedgerError
        If one of them cannot be read or written; a LedgerUnavailableError if it is out of reach.
    """
    stores, carried = stores_to_charge(estimator, own_rows)
    try:
        charge(stores, guarantee, label, record=record)
    except (BudgetExceededError, LedgerError) as error:
        if carried:
            error.add_note(_HINT)
        raise


def charge(
    stores: Sequence[Store], guarantee: PrivacyGuarantee, label: str, *, record: bool = True
) -> None:
    """Charge all stores or none, in one transaction a file; with ``record=False`` check only.

    Files are locked in one order everywhere, so that two processes cannot wait for each other. If
    the last of several files cannot be written after the first ones were, those stay charged and
    an error is raised: too much is counted then, never too little.
    """
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(f"guarantee must be a PrivacyGuarantee, got {type(guarantee).__name__}.")
    check_text(label, "label")
    if guarantee.epsilon == 0:  # public values alone
        return
    accountants = {id(store.accountant): store.accountant for store in stores}.values()
    with PROCESS.lock:
        budgets = {store.key: store for store in reversed(stores)}  # two names of one budget
        files = {key[:2]: store for key, store in budgets.items()}
        with ExitStack() as stack:
            tables = {f: stack.enter_context(files[f].transaction(record)) for f in sorted(files)}
            for key, store in reversed(budgets.items()):
                _check_fit(store, tables[key[:2]], guarantee, label)
            for accountant in accountants:
                _ask(accountant, "check", guarantee)
            if not record:
                return
            entry = LedgerEntry(guarantee, label)
            ends = [tables[key[:2]].add(s.dataset, s.seen, entry) for key, s in budgets.items()]
            for accountant in accountants:
                _ask(accountant, "spend", guarantee)
        for store, end in zip(budgets.values(), ends, strict=True):
            store.seen += (end,)  # a file that loses this charge is refused


def _ask(accountant: Any, method: str, guarantee: PrivacyGuarantee) -> None:
    """Call `check` or `spend`; every refusal, error or False, is a BudgetExceededError."""
    if accountant is None:
        return
    try:
        answer = getattr(accountant, method)(guarantee.epsilon, guarantee.delta)
        if method == "check" and answer is not None and not answer:
            raise ValueError("it refuses")
    except Exception as error:
        raise BudgetExceededError(
            f"The accountant {type(accountant).__name__} does not {method} "
            f"(epsilon={guarantee.epsilon:.6g}, delta={guarantee.delta:.6g}): {error}. "
            "Nothing was charged to the ledger."
        ) from error


def _check_fit(store: Store, tables: Tables, guarantee: PrivacyGuarantee, label: str) -> None:
    total, entries = store.read(tables)
    if fits(total, entries, guarantee):
        return
    _, left = budgets(total, entries)
    text = f"{label}: " if label else ""
    text += (
        f"(epsilon={guarantee.epsilon:.6g}, delta={guarantee.delta:.6g}) does not fit the "
        f"{store.name}, which has epsilon={left.epsilon:.6g}, delta={left.delta:.6g} left of "
        f"epsilon={float(total[0]):.6g}, delta={total[1]:.6g}; nothing was charged."
    )
    if total[1] == 0 < guarantee.delta:
        text += " With delta=0 a ledger pays for pure releases only: give it a delta for others."
    raise BudgetExceededError(text)
