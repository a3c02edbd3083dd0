"""Charges of a fit: to the ledgers open around it, and to those that its estimator carries.

An estimator carries the ledgers under which it was made or fitted, to other threads, processes and
machines, also after their blocks have ended. They are no attributes of it.
"""

from __future__ import annotations

import os
from collections import UserString
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any
from weakref import finalize

import numpy as np

from skdpbo.exceptions import BudgetExceededError, LedgerError
from skdpbo.privacy._checks import check_flag, check_text
from skdpbo.privacy._guarantee import PrivacyGuarantee
from skdpbo.privacy.ledger._budget import LedgerEntry, budgets, fits
from skdpbo.privacy.ledger._process import PROCESS
from skdpbo.privacy.ledger._receipts import SCOPE, Cover, Receipt
from skdpbo.privacy.ledger._store import Store, Tables

# Ledgers that an estimator is charged to, and the receipt of a fit that has paid for it.
Carried = tuple[tuple[Store, ...], Receipt | None]
_NOTHING: Carried = ((), None)
_OPEN: list[Store] = []  # ledgers open in all threads
_CARRIED: dict[int, Carried] = {}  # by id, since estimators may define ==


def enter(store: Store) -> None:
    """Open a block of a ledger in this context."""
    _OPEN.append(store)
    SCOPE.set((*SCOPE.get(), store))


def leave(store: Store) -> None:
    """Close the innermost block of a ledger in this context, if there is one."""
    # Reversed, since `remove` removes the first occurrence.
    scope = [*reversed(SCOPE.get())]
    with PROCESS.lock, suppress(ValueError):
        _OPEN.remove(store)
        scope.remove(store)
        SCOPE.set((*reversed(scope),))


def charged_elsewhere() -> AbstractContextManager[None]:
    """Charge nothing in this block: the caller has charged for all that it releases.

    For code that fits private estimators inside a release whose total is already paid. The block
    applies to its own thread, and to estimators that are cloned or pickled in it while it runs; a
    function that makes estimators in a worker opens the block itself. A ledger opened inside is
    charged as usual. Tasks, contexts and processes that inherit the block are charged once it has
    ended; a block in a generator lasts until the generator ends.

    Returns
    -------
    context manager
        For a ``with`` block.
    """
    return covered_by_fit("everything")


@contextmanager
def covered_by_fit(cover: Cover = "given rows") -> Iterator[None]:
    """Charge nothing in this block for rows that the enclosing fit, which has paid, passes on.

    A fit inside that is given protected rows of its own (``own_rows`` of `charge_active_ledger`)
    is charged, unless everything is covered. In a block that runs a secret number of times such a
    fit is refused, since the charges would reveal the number.
    """
    receipt = Receipt(cover, payer=PROCESS.token)
    try:
        SCOPE.set((*SCOPE.get(), receipt))
        yield
    finally:
        receipt.end()
        # No reset of SCOPE: blocks in generators end in any order, and in other contexts.
        SCOPE.set(tuple(block for block in SCOPE.get() if block is not receipt))


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
        If a ledger cannot afford it; then nothing is recorded in any.
    LedgerError
        If a ledger cannot be read or written; a LedgerUnavailableError if it cannot be reached.
    """
    stores = _stores_to_charge(estimator, check_flag(own_rows, "own_rows"))
    try:
        charge(stores, guarantee, label, record=check_flag(record, "record"))
    except (BudgetExceededError, LedgerError) as error:
        if set(stores) - set(_open_here()):
            error.add_note(
                "The estimator, or one inside it, was made or fitted while this ledger was open. "
                "Fits that are not charged need a new one, made outside from get_params()."
            )
        raise


def charge(
    stores: Sequence[Store], guarantee: PrivacyGuarantee, label: str, *, record: bool = True
) -> None:
    """Charge all stores or none, in one transaction a file; with ``record=False`` check only.

    Files are locked in sorted order, so that two processes cannot deadlock. If the last of several
    files cannot be written after the first ones were, those stay charged and an error is raised:
    charges are overstated then, never understated.
    """
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(f"guarantee must be a PrivacyGuarantee, got {type(guarantee).__name__}.")
    check_text(label, "label")
    if guarantee.epsilon == 0:  # public values alone
        return
    accountants = {id(store.accountant): store.accountant for store in stores}.values()
    with PROCESS.lock:
        by_budget = {store.key: store for store in reversed(stores)}  # several may name one budget
        files = {key[:2]: store for key, store in by_budget.items()}
        with ExitStack() as stack:
            tables = {f: stack.enter_context(files[f].transaction(record)) for f in sorted(files)}
            for key, store in reversed(by_budget.items()):
                _check_fit(store, tables[key[:2]], guarantee, label)
            # Checked before anything is written, spent last: a refusal rolls the charges back.
            for accountant in accountants:
                _ask(accountant, "check", guarantee)
            if not record:
                return
            entry = LedgerEntry(guarantee, label)
            ends = [tables[key[:2]].add(s.dataset, s.seen, entry) for key, s in by_budget.items()]
            for accountant in accountants:
                _ask(accountant, "spend", guarantee)
        for store, end in zip(by_budget.values(), ends, strict=True):
            store.seen += (end,)  # a file that loses this charge is refused
            # Read again: a journal that was not deleted, or has come back, would undo the charge.
            store.entries()


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
    elif guarantee.mu is None and guarantee.epsilon <= left.epsilon:
        text += (
            " It is delta that is missing: deltas add up, so each release needs a part of the "
            f"ledger's, such as delta={total[1] / 10:.3g}, from the first on."
        )
    raise BudgetExceededError(text)


def stores_around(store: Store) -> list[Store]:
    """Return the ledgers that enclose the block of `store` in this context, and `store`."""
    stores = _stores(SCOPE.get())
    return [*stores[: stores.index(store)], store] if store in stores else [store]


def _stores_to_charge(estimator: object, own_rows: bool) -> list[Store]:
    """Return the ledgers that a fit made here is charged to."""
    scope, (_, receipt) = _running(), _CARRIED.get(id(estimator), _NOTHING)
    if receipt is not None and receipt.is_valid():
        scope = (receipt, *scope)
    # From the innermost block outwards: the nearest fit that has paid covers this one.
    for position, paid in reversed([*enumerate(scope)]):
        if isinstance(paid, Receipt) and not (own_rows and paid.cover == "given rows"):
            if own_rows and paid.cover != "everything":
                raise LedgerError(
                    "A private search that is given protected rows of its own cannot run inside "
                    "trials whose number is secret: nothing states how often it reads them."
                )
            return _stores(scope[position:])
    opened = _open_here()
    _carry(estimator, opened)
    return [*dict.fromkeys([*opened, *_carried_inside(estimator)])]


def _running() -> tuple[Store | Receipt, ...]:
    """Blocks around this code, without receipts that have ended: a context may outlive them."""
    return tuple(b for b in SCOPE.get() if not isinstance(b, Receipt) or b.is_valid())


def _hand_out_to_forks() -> None:
    """Before a fork: let the child process see when a payment of its parent ends."""
    for block in SCOPE.get() if _OPEN or _CARRIED else ():
        if isinstance(block, Receipt):
            block.hand_out()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hand_out_to_forks)


def _stores(scope: Iterable[Store | Receipt]) -> list[Store]:
    return [store for store in scope if isinstance(store, Store)]


def _open_here() -> list[Store]:
    """Ledgers open around this code; in a thread without any, all that the process has open."""
    inherited = _stores(SCOPE.get())
    # A context that has outlived one of its blocks may run inside any opened since.
    outlived = not inherited or any(store not in _OPEN for store in inherited)
    return [*dict.fromkeys([*inherited, *(_OPEN if outlived else ())])]


def _carried_inside(value: object, seen: frozenset[int] = frozenset()) -> list[Store]:
    """Ledgers that an estimator, or one inside its parameters, carries."""
    if not _CARRIED or id(value) in seen or isinstance(value, type):
        return []
    seen |= {id(value)}  # parameters may refer to each other in a cycle
    items = _items_inside(value)
    carried, _ = _CARRIED.get(id(value), _NOTHING)
    return [*carried, *(s for item in items for s in _carried_inside(item, seen))]


def _items_inside(value: Any) -> Iterable[Any]:
    """Parameters of an estimator, or items of a container or dimension of a search space."""
    if hasattr(value, "get_params"):
        value = value.get_params(deep=False)
    elif hasattr(value, "rvs"):  # a categorical dimension of scikit-optimize, or a distribution
        value = getattr(value, "categories", ())
    if isinstance(value, Mapping):
        return [*value.values()]
    if isinstance(value, np.ndarray):
        return value.ravel().tolist() if value.dtype == object else ()
    return value if isinstance(value, Sequence | Set) and not isinstance(value, _FLAT) else ()


# Sequences that hold no estimators; some are long, and items of strings are strings.
_FLAT = (str, UserString, bytes, bytearray, memoryview, range)


def _carry(estimator: object, further: Sequence[Store], paid: Receipt | None = None) -> None:
    """Let an estimator carry further ledgers, to which all its fits are charged."""
    key = id(estimator)
    if further and isinstance(estimator, LedgerMixin):
        with PROCESS.lock:
            if key not in _CARRIED:
                # Another object may get the same id later. Not at exit of Python, since code that
                # runs then may still fit the estimator.
                finalize(estimator, _CARRIED.pop, key, None).atexit = False
            stores, receipt = _CARRIED.get(key, _NOTHING)
            _CARRIED[key] = (*dict.fromkeys([*stores, *further]),), paid or receipt


def _handed_on(estimator: object) -> Carried:
    """Ledgers for a copy of an estimator, and the receipt of the innermost fit that has paid."""
    _carry(estimator, _open_here())
    stores, receipt = _CARRIED.get(id(estimator), _NOTHING)
    for paid in reversed(_running() if stores else ()):
        if isinstance(paid, Receipt):
            paid.hand_out()
            return stores, paid
    return stores, receipt


class LedgerMixin:
    """Mixin of estimators that charge ledgers in `fit`, also after the ``with`` block.

    List it before `BaseEstimator` among the bases, and let `fit` call
    ``charge_active_ledger(guarantee, label, self)``. An instance that is created, cloned, copied,
    pickled or fitted while a ledger is open is charged there whenever it, a clone or a copy of it
    is fitted, in any thread or process, also after the ``with`` block. If the ledger cannot be
    reached, the fit raises :class:`~skdpbo.exceptions.LedgerUnavailableError`.

    Parameters
    ----------
    *args, **kwargs : object
        Passed on to the next base class.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        inherited = super().__new__
        made = inherited(cls) if inherited is object.__new__ else inherited(cls, *args, **kwargs)
        _carry(made, _open_here())
        return made

    def __sklearn_clone__(self) -> Any:
        carried = _handed_on(self)
        copy = super().__sklearn_clone__()  # type: ignore[misc]
        _carry(copy, *carried)
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        (stores, receipt), reduced = _handed_on(self), super().__reduce_ex__(protocol)
        if not stores or isinstance(reduced, str):
            return reduced
        return _made_carrying, (stores, receipt, *reduced[:2]), *reduced[2:]


def _made_carrying(
    stores: tuple[Store, ...], receipt: Receipt | None, make: Any, arguments: tuple[Any, ...]
) -> object:
    """Make an instance from a pickle or for a copy."""
    made = make(*arguments)
    _carry(made, stores, receipt)
    return made
