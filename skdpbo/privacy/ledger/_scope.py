"""Ledgers that a fit belongs to: those open around it, and those that its estimator carries.

What an estimator carries is no attribute of it, so that parameters and pickles of others stay as
they are. Nothing ends it: not the end of the block, not another thread, process or machine.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal
from weakref import finalize

from skdpbo.exceptions import LedgerError
from skdpbo.privacy.ledger._store import PROCESS, Store

Cover = Literal["everything", "given rows", "given rows, secretly often"]


class Receipt:
    """Payment of a fit for those inside it, which clones and pickles made inside carry along.

    Elsewhere it is valid while the process that paid keeps the file `path` locked, so that a
    killed one leaves no valid receipt.
    """

    def __init__(self, cover: Cover, path: str = "") -> None:
        self.cover, self.path = cover, path
        self._lock: sqlite3.Connection | None = None

    def hand_out(self) -> None:
        """Lock a file until the receipt is withdrawn."""
        with PROCESS.lock:
            if not self.path:
                self.path = os.path.join(tempfile.mkdtemp(prefix="skdpbo-paid-"), "open")
                self._lock = sqlite3.connect(self.path, check_same_thread=False)
                self._lock.execute("BEGIN EXCLUSIVE")

    def is_valid(self) -> bool:
        """Whether the fit that paid still runs; an unlocked or missing file proves nothing."""
        try:
            uri = Path(self.path).as_uri() + "?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, timeout=0)) as connection:
                connection.execute("SELECT 1 FROM sqlite_master")  # readers exclude no reader
        except sqlite3.OperationalError as error:
            return error.sqlite_errorname == "SQLITE_BUSY"
        return False

    def withdraw(self) -> None:
        """End the validity."""
        if self._lock is not None:
            self._lock.close()
            shutil.rmtree(os.path.dirname(self.path), ignore_errors=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return Receipt, (self.cover, self.path)


# Ledgers that an estimator is charged to, and the receipt of a fit that has paid for it.
Carried = tuple[tuple[Store, ...], Receipt | None]
# Ledgers and receipts of the blocks around the running code, outermost first.
_SCOPE: ContextVar[tuple[Store | Receipt, ...]] = ContextVar("skdpbo_open_ledgers", default=())
_OPEN: list[Store] = []  # ledgers open in all threads
_CARRIED: dict[int, Carried] = {}  # by identity, since estimators may define ==


def enter(store: Store) -> None:
    """Open a block of a ledger in this context."""
    with PROCESS.lock:
        _OPEN.append(store)
    _SCOPE.set((*_SCOPE.get(), store))


def leave(store: Store) -> None:
    """Close the innermost block of a ledger, of this context if there is one."""
    scope = [*reversed(_SCOPE.get())]
    with PROCESS.lock, suppress(ValueError):
        _OPEN.remove(store)
        scope.remove(store)
        _SCOPE.set((*reversed(scope),))


def charged_elsewhere() -> AbstractContextManager[None]:
    """Charge nothing in this block: the caller has charged for all that it releases.

    For code that fits private estimators inside a release whose total is already paid. It concerns
    its own thread, and estimators that are cloned or pickled in it while it runs; a function that
    makes estimators in a worker opens the block itself. A ledger opened inside is charged as usual.

    Returns
    -------
    context manager
        For a ``with`` block.
    """
    return covered_by_fit("everything")


@contextmanager
def covered_by_fit(cover: Cover = "given rows") -> Iterator[None]:
    """Charge nothing for the rows that the fit around this block hands on; it pays for them.

    A fit inside that is given protected rows of its own (``own_rows`` of `charge_active_ledger`)
    is charged unless everything is covered. If the block runs secretly often it is refused: the
    number of charges would show how often.
    """
    receipt = Receipt(cover)
    token = _SCOPE.set((*_SCOPE.get(), receipt))
    try:
        yield
    finally:
        _SCOPE.reset(token)
        receipt.withdraw()


def stores_around(store: Store) -> list[Store]:
    """Return the ledgers that enclose the block of `store` in this context, and `store`."""
    stores = _stores(_SCOPE.get())
    return [*stores[: stores.index(store)], store] if store in stores else [store]


def stores_to_charge(estimator: object, own_rows: bool) -> tuple[list[Store], bool]:
    """Return the ledgers that a fit made here is charged to, and whether some are only carried."""
    scope, (_, receipt) = _SCOPE.get(), _carried(estimator)
    if receipt is not None and receipt.is_valid():
        scope = (receipt, *scope)
    for position, paid in reversed([*enumerate(scope)]):
        if isinstance(paid, Receipt) and not (own_rows and paid.cover == "given rows"):
            if own_rows and paid.cover != "everything":
                raise LedgerError(
                    "A private search that is given protected rows of its own cannot run inside "
                    "trials whose number is secret: nothing states how often it reads them."
                )
            return _stores(scope[position:]), False
    opened = _open_here()
    _carry(estimator, opened)
    together = _distinct((*opened, *_carried_inside(estimator)))
    return list(together), len(together) > len(_distinct(opened))


def _distinct(stores: Iterable[Store]) -> tuple[Store, ...]:
    """Each store once; two handles to it after a pickle have one token."""
    return tuple({store.token: store for store in stores}.values())


def _stores(scope: Iterable[Store | Receipt]) -> list[Store]:
    return [store for store in scope if isinstance(store, Store)]


def _open_here() -> list[Store]:
    """Ledgers open around this code; in a thread without any, all that the process has open."""
    with PROCESS.lock:
        return _stores(_SCOPE.get()) or [*_OPEN]


def _carried(estimator: object) -> Carried:
    with PROCESS.lock:
        return _CARRIED.get(id(estimator), ((), None))


def _carried_inside(value: object, seen: frozenset[int] = frozenset()) -> list[Store]:
    """Ledgers that an estimator carries, or one inside its parameters."""
    if id(value) in seen or isinstance(value, type):
        return []
    inner: Iterable[object] = ()
    if hasattr(value, "get_params"):
        inner = value.get_params(deep=False).values()
    elif isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, list | tuple | set):
        inner = value
    stores, _ = _carried(value) if isinstance(value, LedgerMixin) else ((), None)
    return [*stores, *(s for item in inner for s in _carried_inside(item, seen | {id(value)}))]


def _carry(estimator: object, further: Sequence[Store], paid: Receipt | None = None) -> None:
    """Note that all fits of an estimator are charged to further ledgers."""
    key = id(estimator)
    if further and isinstance(estimator, LedgerMixin):
        with PROCESS.lock:
            if key not in _CARRIED:
                finalize(estimator, _CARRIED.pop, key, None)
            stores, receipt = _carried(estimator)
            _CARRIED[key] = _distinct((*stores, *further)), paid or receipt


def _handed_on(estimator: object) -> Carried:
    """Ledgers for a copy, and the receipt of the innermost fit around it that has paid."""
    _carry(estimator, _open_here())
    stores, receipt = _carried(estimator)
    for paid in reversed(_SCOPE.get() if stores else ()):
        if isinstance(paid, Receipt):
            paid.hand_out()
            return stores, paid
    return stores, receipt


class LedgerMixin:
    """Estimators that charge the ledger in `fit`, and carry the ledgers that they belong to.

    It comes before `BaseEstimator` in the list of bases, and `fit` passes the estimator on as
    ``charge_active_ledger(guarantee, label, self)``. An instance that is created, cloned, copied,
    pickled or fitted while a ledger is open is charged there whenever it, a clone or a copy of it
    is fitted, in any thread or process, also after the ``with`` block. Where the ledger cannot be
    reached the fit raises :class:`~skdpbo.exceptions.LedgerUnavailableError`.

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
