"""Handle to the charges of one data set of a ledger file, which estimators carry along."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, finalize

from skdpbo.exceptions import LedgerError, LedgerUnavailableError
from skdpbo.privacy.ledger._budget import LedgerEntry
from skdpbo.privacy.ledger._database import PROCESS, TABLES, Charges, Tables, explained

__all__ = ["LOCAL", "Store"]

BUSY_SECONDS = 30.0


class Store:
    """One data set of a ledger file, with the accountant of the process that opened it.

    Without a path the file is in a directory that only this user can read, deleted with the
    object. `seen` is the chain of digests that this handle has read: a file that does not continue
    it is another one, or an old copy. A pickle keeps path and beginning of the chain. Loaded in
    the process that opened the ledger it is the same object, so that a temporary file lives as
    long as an estimator that it charges.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, dataset: str, accountant: Any = None
    ) -> None:
        self.temporary = path is None
        self.path = os.path.realpath(self._new_file() if path is None else path)
        self.dataset = dataset
        self.name = "ledger" if path is None else f"ledger {self.path!r} (data set {dataset!r})"
        self.token = uuid.uuid4().hex
        self.seen: tuple[str, ...] = ()
        self._accountant = accountant
        self._home: object = PROCESS.token

    def _new_file(self) -> str:
        try:
            directory = tempfile.mkdtemp(prefix="skdpbo-ledger-")
        except OSError as cause:
            raise LedgerError(f"A ledger in memory needs a temporary file: {cause}.") from cause
        finalize(self, _delete, directory, PROCESS.token)
        return os.path.join(directory, "ledger")

    @property
    def key(self) -> tuple[int, int, str]:
        """Device, inode and data set: equal for all handles to the same charges."""
        with explained(self.path):
            status = os.stat(self.path)
            return status.st_dev, status.st_ino, self.dataset

    @property
    def accountant(self) -> Any:
        """The accountant; that of another process cannot be charged."""
        if self._accountant is not None and self._home is not PROCESS.token:
            raise LedgerUnavailableError(
                f"The privacy {self.name} cannot be charged from here: its accountant is an "
                "object of the process that opened it. Nothing may be released.",
                path=self.path,
            )
        return self._accountant

    @contextmanager
    def _opened(self, path: str) -> Iterator[Tables]:
        with explained(self.path):
            os.stat(path)  # SQLite does not distinguish a missing file from an unreadable one
            uri = Path(path).as_uri() + "?mode=rw"  # never created here
            connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        with closing(connection):
            tables = Tables(self.path, connection)
            # A ledger in memory need not last through a power failure.
            tables.sql(f"PRAGMA synchronous = {'OFF' if self.temporary else 'EXTRA'}")
            tables.sql("PRAGMA fullfsync = ON")
            yield tables

    @contextmanager
    def transaction(self, write: bool = True) -> Iterator[Tables]:
        """Lock the file (against writers only, if nothing is written) and check it.

        Changes are kept at the end of the block, and none of them after an error.
        """
        with PROCESS.lock, self._opened(self.path) as tables:
            tables.sql("BEGIN IMMEDIATE" if write else "BEGIN")
            tables.check()
            if write:  # BEGIN IMMEDIATE alone does not mind a read-only file
                tables.sql("DELETE FROM charges WHERE FALSE")
            yield tables
            tables.sql("COMMIT")  # closing without it rolls back

    def create(self) -> None:
        """Create the file, unless it exists; it appears whole or not at all."""
        if os.path.lexists(self.path):
            return
        draft = f"{self.path}.{uuid.uuid4().hex}.new"
        with explained(self.path):
            try:
                os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
                with self._opened(draft) as tables:
                    for statement in ("BEGIN", *TABLES, "COMMIT"):
                        tables.sql(statement)
                _publish(draft, self.path)
            finally:
                with suppress(OSError):
                    os.unlink(draft)

    def read(self, tables: Tables) -> Charges:
        """Return the charges, refused if they do not continue those that were seen."""
        charges, seen = tables.read(self.dataset), self.seen
        if charges.chain[:1] != (seen or charges.chain)[:1]:
            raise tables.error("is another ledger now", LedgerUnavailableError)
        if charges.chain[: len(seen)] != seen:
            raise tables.damaged("charges that were there before are missing")
        self.seen = charges.chain
        return charges

    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return all charges, of all processes, oldest first."""
        with self.transaction(write=False) as tables:
            return tuple(self.read(tables).entries)

    def __reduce__(self) -> tuple[Any, ...]:
        state = vars(self) | {"seen": self.seen[:1], "_home": None}
        return _store_from, (state | {"_accountant": self._accountant and True},)


LOCAL: WeakValueDictionary[str, Store] = WeakValueDictionary()  # opened by this process


def _store_from(state: dict[str, Any]) -> Store:
    """Return the store of a pickle."""
    store = LOCAL.get(state["token"])
    if store is None:
        store = Store.__new__(Store)
        vars(store).update(state)
    return store


def _publish(draft: str, path: str) -> None:
    """Give the finished file its name; a file that came first stays."""
    with suppress(FileExistsError):
        try:
            os.link(draft, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            with open(path, "xb") as target:
                target.write(Path(draft).read_bytes())


def _delete(directory: str, owner: object) -> None:
    """Delete a temporary ledger, in the process that made it."""
    if owner is PROCESS.token:
        shutil.rmtree(directory, ignore_errors=True)
