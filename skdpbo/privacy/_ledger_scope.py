"""Which ledgers are open where a release is made, also in worker threads and processes.

A ``with`` block is visible in its own thread through a context variable. Work that is handed to
others takes it along on the estimator: clones and pickles of an estimator that were made while the
block was open carry a claim on it, outside of its attributes. A claim ends with the block.
"""

from __future__ import annotations

import hashlib
import os
import platform
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import ref

STATE_KEY = "_skdpbo_open_ledgers"  # in the state of a pickled estimator, and nowhere else


def _identity() -> str:
    return uuid.uuid4().hex


class Shareable(Protocol):
    """What is asked here of a ledger."""

    @property
    def _usable_here(self) -> bool: ...

    def _share(self, opening_id: str) -> dict[str, Any]: ...


@dataclass(frozen=True, eq=False)
class Opening:
    """A block of this process: of a ledger, or of `charged_elsewhere` (`ledger` is None)."""

    ledger: Shareable | None
    covers: frozenset[str] = frozenset()  # openings that `charged_elsewhere` has paid to
    id: str = field(default_factory=_identity)


@dataclass(frozen=True)
class RemoteOpening:
    """A block of another process, as an estimator brought it here.

    Without path and refusal it is one of `charged_elsewhere`.
    """

    id: str
    process: str
    host: str
    path: str = ""
    dataset: str = ""
    temporary: bool = False
    refusal: str = ""


Claims = dict[str, Opening | RemoteOpening]


class _Process:
    """What there is once in a process, and anew in a forked one."""

    def __init__(self) -> None:
        self.id = _identity()
        self.forked = False
        # One lock for all ledgers, so that nested ones are checked and written as one step.
        self.lock = threading.RLock()

    def after_fork(self) -> None:
        self.id, self.forked, self.lock = _identity(), True, threading.RLock()


PROCESS = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESS.after_fork)

# Blocks open in this context, outermost first; after `charged_elsewhere`, from it on.
_SCOPE: ContextVar[tuple[Opening, ...]] = ContextVar("skdpbo_open_ledgers", default=())
_OPEN: dict[str, Opening] = {}
# By identity of the estimator, since estimators may define ==.
_Table = dict[int, tuple[ref[object], Claims]]
_CARRIED: _Table = {}  # what copies were given
_CLONED: _Table = {}  # where an original was cloned, for clones that joblib makes in its threads


def enter(ledger: Shareable) -> None:
    """Open a block of a ledger in this context."""
    _push(Opening(ledger))


def leave(ledger: Shareable) -> tuple[Opening | None, bool]:
    """Close the innermost block of a ledger, of this context if there is one.

    Returns
    -------
    closed : Opening or None
    last : bool
        Whether no other block of this ledger is open in the process.
    """
    scope = _SCOPE.get()
    with PROCESS.lock:
        anywhere = [opening for opening in _OPEN.values() if opening.ledger is ledger]
        here = [opening for opening in scope if opening.ledger is ledger]
        if not anywhere and not here:
            return None, True
        closed = (here or anywhere)[-1]
        _SCOPE.set(tuple(opening for opening in scope if opening is not closed))
        _OPEN.pop(closed.id, None)
        return closed, len(anywhere) == 1


@contextmanager
def charged_elsewhere() -> Iterator[None]:
    """Charge no ledger that is open around this block: the caller has charged for all of it.

    For code that fits private estimators inside a release whose total is already paid, such as the
    trials of a private selection. It concerns this thread and clones that are made in it; a
    function that runs in a worker opens the block itself. A ledger opened inside the block is
    charged as usual.

    Yields
    ------
    None
        The block charges nothing while it runs.

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
    scope = _SCOPE.get()
    covers = frozenset(o.id for o in scope).union(*(o.covers for o in scope))
    wall = Opening(None, covers)
    _OPEN[wall.id] = wall
    token = _SCOPE.set((wall,))
    try:
        yield
    finally:
        _SCOPE.reset(token)
        _OPEN.pop(wall.id, None)


def openings_here() -> tuple[Opening, ...]:
    """Blocks of ledgers that enclose the running code in its own thread, outermost first."""
    return tuple(opening for opening in _SCOPE.get() if opening.ledger is not None)


def claims_of(estimator: object = None) -> Claims:
    """Blocks, by identity, that a fit of `estimator` made here belongs to.

    Those of its context and those it carries. A thread that knows of none belongs to all ledgers
    that are open in the process: too much is counted then, never too little.
    """
    scope = _SCOPE.get()
    claims: Claims = {opening.id: opening for opening in scope}
    if not (scope and scope[0].ledger is None):
        claims |= _recall(_CARRIED, estimator)
    claims = claims or _recall(_CLONED, estimator)
    if not claims:
        with PROCESS.lock:
            return {key: opening for key, opening in _OPEN.items() if opening.ledger is not None}
    return claims


def without_walls(claims: Claims) -> list[Opening | RemoteOpening]:
    """Those of the claims that are to be charged."""
    covered = {key for o in claims.values() if isinstance(o, Opening) for key in o.covers}
    return [o for key, o in claims.items() if key not in covered and not _is_wall(o)]


def _is_wall(opening: Opening | RemoteOpening) -> bool:
    if isinstance(opening, Opening):
        return opening.ledger is None
    return not (opening.path or opening.refusal)


def _push(opening: Opening) -> None:
    with PROCESS.lock:
        _OPEN[opening.id] = opening
    _SCOPE.set((*_SCOPE.get(), opening))


def _recall(table: _Table, estimator: object) -> Claims:
    """What is noted of an estimator, without the blocks of this process that are closed."""
    with PROCESS.lock:
        _, claims = table.get(id(estimator), (None, {}))
        return {k: o for k, o in claims.items() if isinstance(o, RemoteOpening) or k in _OPEN}


def _note(table: _Table, estimator: object, claims: Claims) -> None:
    key = id(estimator)
    if claims:
        table[key] = (ref(estimator, lambda _: table.pop(key, None)), claims)
    else:
        table.pop(key, None)


class LedgerMixin:
    """For estimators that charge the ledger in `fit`: their copies know which ledgers are open.

    It is to come before `BaseEstimator` in the list of bases, and `fit` is to pass the estimator on
    as ``charge_active_ledger(guarantee, label, self)``. Then fits of clones in worker threads and
    processes, as scikit-learn's searches and cross-validation make them, are counted.

    A pickle that is made while a ledger is open names the ledger's file. When it is loaded after
    the end of the ``with`` block, this is forgotten.
    """

    def __sklearn_clone__(self) -> Any:
        copy = super().__sklearn_clone__()  # type: ignore[misc]
        scope = _SCOPE.get()
        here: Claims = {opening.id: opening for opening in scope}
        if not (scope and scope[0].ledger is None):  # else it is paid for, whoever cloned it
            here = _recall(_CARRIED, self) | here
        _note(_CARRIED, copy, here or _recall(_CLONED, self))
        _note(_CLONED, self, _recall(_CLONED, self) | here)
        return copy

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        claims = claims_of(self)
        packed = [_packed(opening) for opening in without_walls(claims) or claims.values()]
        if not packed or not isinstance(state, dict):
            return state
        return state | {STATE_KEY: packed}

    def __setstate__(self, state: Any) -> None:
        packed: list[Mapping[str, Any]] = []
        if isinstance(state, dict) and STATE_KEY in state:
            packed = state[STATE_KEY]
            state = {key: value for key, value in state.items() if key != STATE_KEY}
        super().__setstate__(state)  # type: ignore[misc]
        unpacked = [_unpacked(opening) for opening in packed]
        _note(_CARRIED, self, {opening.id: opening for opening in unpacked if opening is not None})


def _packed(opening: Opening | RemoteOpening) -> dict[str, Any]:
    """Plain values that stand for a block in a pickle."""
    if isinstance(opening, RemoteOpening):
        return vars(opening).copy()
    state: dict[str, Any] = {"id": opening.id, "process": PROCESS.id, "host": host_id()}
    if opening.ledger is not None:
        state |= opening.ledger._share(opening.id)
    return state


def _unpacked(state: Mapping[str, Any]) -> Opening | RemoteOpening | None:
    """Inverse of `_packed`; None if the block is closed, as far as can be seen here."""
    opening = _OPEN.get(state["id"])
    if opening is not None and (opening.ledger is None or opening.ledger._usable_here):
        return opening
    if state["process"] == PROCESS.id:
        return None
    remote = RemoteOpening(**state)
    # Only a forked process has copies of the ledgers that `charged_elsewhere` has paid to.
    return None if _is_wall(remote) and not PROCESS.forked else remote


def host_id() -> str:
    """Name of this machine (and of its start, where that is known), hashed."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read()
    except OSError:
        boot = ""
    return hashlib.sha256(f"{platform.node()}{boot}".encode()).hexdigest()[:16]
