"""Receipts: proof, for the fits inside a fit, that the outer one has paid."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

from skdpbo.privacy.ledger._process import PROCESS
from skdpbo.privacy.ledger._store import Store

Cover = Literal["everything", "given rows", "given rows, secretly often"]

_RESERVED_BYTE = 0x40000001  # of SQLite's file format: locked by a writer
_LOCKED: set[str] = set()  # files that this process locks
# Those of the parent of a forked process, in which SQLite would see them as locked for ever.
_INHERITED: set[str] = set()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _INHERITED.update(_LOCKED))


class Receipt:
    """Payment of a fit for the fits inside it; clones and pickles made inside carry it.

    In the process that paid, it is valid until its block ends; tasks and generators that outlive
    the block see it as ended. In other processes, also forked ones, it is valid while the process
    that paid keeps the file `path` locked: a killed process leaves no valid receipt.
    """

    def __init__(self, cover: Cover, path: str = "", payer: object = None) -> None:
        self.cover, self.path = cover, path
        self._payer = payer  # token of the process that paid; None in others
        self._lock: sqlite3.Connection | None = None

    def end(self) -> None:
        """End the payment; a forked process leaves the file to its parent."""
        if self._payer is PROCESS.token:
            with PROCESS.lock:  # another thread may be handing it out
                if self._lock is not None:
                    self._lock.close()
                    shutil.rmtree(os.path.dirname(self.path), ignore_errors=True)
                    _LOCKED.discard(self.path)
                self._payer = None  # last: an interrupted end can be repeated

    def hand_out(self) -> None:
        """Lock a file until the payment ends, by which other processes see that it is valid."""
        with PROCESS.lock:
            if self._payer is PROCESS.token and not self.path:
                self.path = os.path.join(tempfile.mkdtemp(prefix="skdpbo-paid-"), "open")
                _LOCKED.add(self.path)
                self._lock = sqlite3.connect(self.path, check_same_thread=False)
                # The system releases the lock when the process ends, also when it is killed.
                self._lock.execute("BEGIN EXCLUSIVE")

    def is_valid(self) -> bool:
        """Whether the fit that paid still runs; an unlocked or missing file proves nothing."""
        if self._payer is PROCESS.token:
            return True
        if not self.path:  # never handed out
            return False
        if self.path in _INHERITED:
            return _is_locked(self.path)
        try:
            uri = Path(self.path).as_uri() + "?mode=rw"
            with closing(sqlite3.connect(uri, uri=True, timeout=0)) as connection:
                connection.execute("SELECT 1 FROM sqlite_master")  # readers exclude no reader
        except sqlite3.OperationalError as error:
            return error.sqlite_errorname == "SQLITE_BUSY"
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return Receipt, (self.cover, self.path)


# Ledgers and receipts of the blocks around the running code, outermost first.
SCOPE: ContextVar[tuple[Store | Receipt, ...]] = ContextVar("skdpbo_open_ledgers", default=())


@contextmanager
def payments_ending() -> Iterator[None]:
    """End the payments that were made in this block and are still open.

    An interrupt (Ctrl-C) at the beginning or end of a payment's own block may keep the block from
    being left; the fits that follow would then be covered.
    """
    before = SCOPE.get()
    try:
        yield
    finally:
        for block in SCOPE.get():
            if isinstance(block, Receipt) and block not in before:
                block.end()


def _is_locked(path: str) -> bool:
    """Whether another process has locked a SQLite file, according to the system."""
    import fcntl  # wherever processes are forked

    with suppress(OSError), open(path, "rb") as file:
        try:
            # Shared, so that simultaneous checks do not take each other for the payer.
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, _RESERVED_BYTE)
        except (BlockingIOError, PermissionError):  # locked by another process
            return True
    return False
