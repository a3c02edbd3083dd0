"""File of a ledger, and the handle to the charges of one of its data sets.

One SQLite database holds several data sets, with charges chained by digests. Every operation opens
a connection of its own, so that threads and forked processes never share one. A charge is a ``BEGIN
IMMEDIATE`` transaction that reads the charges so far and adds to them: no other writer comes in
between. ``synchronous=EXTRA`` makes it durable in a power failure.

docs/ledger.md lists the damage that is detected and the tampering that is not.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, finalize

from skdpbo.exceptions import LedgerError, LedgerUnavailableError
from skdpbo.privacy.ledger._budget import (
    LedgerEntry,
    Total,
    guarantee_from_text,
    guarantee_to_text,
)
from skdpbo.privacy.ledger._process import PROCESS

BUSY_SECONDS = 30.0
LINK_SECONDS = 5.0
APPLICATION_ID = 0x736B6470  # "skdp"
SCHEMA_VERSION = 1
TABLES = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
    "CREATE TABLE charges (dataset TEXT NOT NULL, number INTEGER NOT NULL, "
    "charged_at TEXT NOT NULL, label TEXT NOT NULL, guarantee TEXT NOT NULL, "
    "digest TEXT NOT NULL, PRIMARY KEY (dataset, number))",
    "CREATE TABLE datasets (name TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL, "
    "identity TEXT NOT NULL, head TEXT NOT NULL)",
)
_OUT_OF_REACH = ("SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_PERM")


@dataclass
class Checked:
    """Cache of checked charges: digest of the data set, rows, and the entries read from them."""

    # One attribute, so that an interrupt cannot leave rows without their entries.
    known: tuple[str, list[tuple[Any, ...]], list[LedgerEntry]] = ("", [], [])


@dataclass(frozen=True)
class Tables:
    """Tables of an open connection; every error names the file."""

    path: str
    connection: sqlite3.Connection

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        with _explained(self.path):
            return self.connection.execute(statement, values).fetchall()

    def check(self) -> None:
        """Refuse a file that is not a whole ledger of a known version."""
        ((kind, version),) = self.sql("SELECT * FROM pragma_application_id, pragma_user_version")
        if (kind, version) != (APPLICATION_ID, SCHEMA_VERSION):
            raise self.error(f"is empty, not a ledger of skdpbo, or of its later version {version}")
        if self.sql("PRAGMA journal_mode") == [("wal",)]:
            raise self.error(
                "is in WAL mode, where charges are kept beside the file and lost when it is copied "
                "or moved alone. Close it everywhere and run PRAGMA journal_mode = DELETE"
            )
        # A trigger or a view could change or hide what is written.
        schema = self.sql("SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY name")
        if [text for (text,) in schema] != [*TABLES[2:]]:
            raise self.damaged("its tables were changed")

    def check_pages(self) -> None:
        """Let SQLite check every page."""
        if (verdict := self.sql("PRAGMA quick_check(1)")) != [("ok",)]:
            raise self.damaged(verdict[0][0])

    def datasets(self) -> list[str]:
        """Return the names of the data sets, in alphabetical order."""
        return [name for (name,) in self.sql("SELECT name FROM datasets ORDER BY name")]

    def create(self, dataset: str, total: Total) -> None:
        """Add a data set with its budget, which is never changed."""
        # The identity distinguishes a budget from an equal one of another ledger.
        row = (dataset, *map(str, total), uuid.uuid4().hex)
        self.sql("INSERT INTO datasets VALUES (?, ?, ?, ?, ?)", *row, _digest("", *row))

    def read(
        self, dataset: str, before: Checked | None = None
    ) -> tuple[Total, list[LedgerEntry], tuple[str, ...]]:
        """Return the budget, the charges (oldest first) and the chain of digests, all checked.

        Only charges after those of `before` are digested, unless those have changed.
        """
        found = self.sql("SELECT * FROM datasets WHERE name = ?", dataset)
        if not found:
            raise self.damaged(f"the data set {dataset!r} is missing")
        *row, head = found[0]
        charged = self.sql("SELECT * FROM charges WHERE dataset = ? ORDER BY number", dataset)
        chain, before = [_digest("", *row)], before or Checked()
        beginning, rows, entries = before.known
        if (chain[0], charged[: len(rows)]) != (beginning, rows):
            rows, entries = [], []
        chain += [written for *_, written in rows]
        for _, *content, written in charged[len(rows) :]:
            chain.append(_digest(chain[-1], *content))
            if chain[-1] != written:
                raise self.damaged("a row was changed or is missing")
        if chain[-1] != head:
            raise self.damaged("rows are missing")
        try:
            entries = entries + [
                LedgerEntry(guarantee_from_text(text), label, datetime.fromisoformat(when))
                for _, _, when, label, text, _ in charged[len(rows) :]
            ]
            # Texts of floats have a point or an exponent, those of Fractions have none.
            epsilon = float(row[1]) if {".", "e"} & {*row[1]} else Fraction(row[1])
            before.known = chain[0], charged, entries
            return (epsilon, float(row[2])), entries, tuple(chain)
        except (ValueError, TypeError, KeyError) as cause:
            raise self.damaged("a row is not a guarantee") from cause

    def add(self, dataset: str, chain: tuple[str, ...], entry: LedgerEntry) -> str:
        """Append a charge to the chain that was read; return its digest, the new end."""
        guarantee = guarantee_to_text(entry.guarantee)
        content = (len(chain), entry.charged_at.isoformat(), entry.label, guarantee)
        digest = _digest(chain[-1], *content)
        self.sql("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?)", dataset, *content, digest)
        self.sql("UPDATE datasets SET head = ? WHERE name = ?", digest, dataset)
        return digest

    def error(self, what: str, kind: type[LedgerError] = LedgerError) -> LedgerError:
        """Return an error that names the file."""
        return _error(self.path, what, kind)

    def damaged(self, why: str) -> LedgerError:
        """Return the error for a file whose charges are missing or changed."""
        return self.error(f"is damaged: {why}. Restore it from a copy that holds all charges")


class Store:
    """One data set of a ledger file, with the accountant of the process that opened it.

    Without a path the file is in a private directory, deleted with the object. `seen` is the chain
    of digests that was read here: a file that does not continue it is another one, or an old copy.
    A pickle keeps the beginning of the chain. Unpickled in the process that opened the ledger it
    is the same object, so that a temporary file lives as long as an estimator that carries it.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, dataset: str, accountant: Any = None
    ) -> None:
        self.temporary = path is None
        if path is None:
            try:
                directory = tempfile.mkdtemp(prefix="skdpbo-ledger-")
            except OSError as cause:
                raise _error("in memory", f"needs a temporary directory: {cause}") from cause
            finalize(self, _delete, directory, PROCESS.token)
            path = os.path.join(directory, "ledger")
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path must be a str or path-like, got {type(path).__name__}.")
        self.path = os.path.realpath(path)
        self.dataset = dataset
        self.name = "ledger" if self.temporary else f"ledger {self.path!r} (data set {dataset!r})"
        self.token = uuid.uuid4().hex  # identifies the object in pickles, see `_store_from`
        self.seen: tuple[str, ...] = ()
        self._checked = Checked()
        self._accountant = accountant
        self._home: object = PROCESS.token

    @property
    def key(self) -> tuple[int, int, str]:
        """Device, inode and data set: equal for all handles to the same charges."""
        with _explained(self.path):
            # Not the path: a file has several if its directory is mounted more than once.
            status = os.stat(self.path)
            return status.st_dev, status.st_ino, self.dataset

    @property
    def accountant(self) -> Any:
        """The accountant; an error in a process that has not opened the ledger."""
        if self._accountant is not None and self._home is not PROCESS.token:
            raise _error(self.path, "has its accountant in the process that opened it")
        return self._accountant

    @contextmanager
    def _opened(self, path: str) -> Iterator[Tables]:
        with _explained(self.path):
            os.stat(path)  # SQLite does not distinguish a missing file from an unreadable one
            uri = Path(path).as_uri() + "?mode=rw"  # never created here
            connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        with closing(connection):
            tables = Tables(self.path, connection)
            # A temporary ledger need not survive a power failure.
            tables.sql(f"PRAGMA synchronous = {'OFF' if self.temporary else 'EXTRA'}")
            tables.sql("PRAGMA fullfsync = ON")
            yield tables

    @contextmanager
    def transaction(self, write: bool = True) -> Iterator[Tables]:
        """Lock the file (against writers only, if nothing is written) and check it.

        Changes are committed at the end of the block, or rolled back after an error.
        """
        self._refuse_other_names()
        key = self.key  # before it is opened
        with PROCESS.lock, self._opened(self.path) as tables:
            tables.sql("BEGIN IMMEDIATE" if write else "BEGIN")
            tables.check()
            if write:  # an error for a read-only file, which BEGIN IMMEDIATE accepts
                tables.sql("DELETE FROM charges WHERE FALSE")
            yield tables
            tables.sql("COMMIT")  # closing without it rolls back
        if self.key != key:  # SQLite would write on into a file that has lost its name
            raise _error(self.path, "was replaced by another file while it was in use")

    def _refuse_other_names(self) -> None:
        """Refuse a file with another name, in this or another directory, by a hard link or a mount.

        The journal of SQLite is named after the file. A journal that a killed process left beside
        one name would be missed under another, and later undo the charges made there.
        """
        if self.temporary or os.path.isdir(self.path):  # SQLite refuses directories
            return
        with _explained(self.path):
            end = time.monotonic() + LINK_SECONDS
            while (linked := os.stat(self.path).st_nlink > 1) and time.monotonic() < end:
                time.sleep(0.01)  # `create` gives the file a second name for a moment
        if linked or _is_mounted(self.path):
            raise _error(
                self.path,
                "has another name (a hard link, or the file is mounted by itself), under which "
                "unfinished charges would be missed. Keep one name, share or mount its directory, "
                "and remove what a killed process left beside it (skdpbo-new-...)",
            )

    def create(self) -> None:
        """Create the file, unless it exists, atomically."""
        if self.temporary:  # in a directory that no other process knows
            self._create_tables(self.path)
            return
        if os.path.lexists(self.path):
            return
        with (
            _explained(self.path),
            tempfile.TemporaryDirectory(prefix="skdpbo-new-", dir=Path(self.path).parent) as new,
        ):
            draft = os.path.join(new, "ledger")
            self._create_tables(draft)
            with suppress(FileExistsError):  # a file that came first stays
                try:
                    os.link(draft, self.path)
                except OSError:  # also where the file system has no links
                    with open(self.path, "xb") as target:
                        target.write(Path(draft).read_bytes())

    def _create_tables(self, path: str) -> None:
        with PROCESS.lock, _explained(self.path):
            open(path, "xb").close()  # never a file that exists; SQLite would open it
            with self._opened(path) as tables:
                for statement in ("BEGIN", *TABLES, "COMMIT"):
                    tables.sql(statement)

    def read(self, tables: Tables) -> tuple[Total, list[LedgerEntry]]:
        """Return budget and charges, refused if they do not continue those that were seen."""
        total, entries, chain = tables.read(self.dataset, self._checked)
        # Restoring an old copy of the file would give spent budget back.
        if self.seen and chain[0] != self.seen[0]:
            raise tables.error("is another ledger now", LedgerUnavailableError)
        if chain[: len(self.seen)] != self.seen:
            raise tables.damaged("charges that were there before are missing")
        self.seen = chain
        return total, entries

    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return all charges, of all processes, oldest first."""
        with self.transaction(write=False) as tables:
            return tuple(self.read(tables)[1])

    def __reduce__(self) -> tuple[Any, ...]:
        # The beginning of the chain identifies the budget; all of it would grow with the charges.
        state = vars(self) | {"seen": self.seen[:1], "_checked": Checked(), "_home": None}
        return _store_from, (state | {"_accountant": self._accountant and True},)


LOCAL: WeakValueDictionary[str, Store] = WeakValueDictionary()  # stores of this process by token


def _store_from(state: dict[str, Any]) -> Store:
    """Return the store of a pickle; all pickles of a store give one object."""
    store = Store.__new__(Store)
    vars(store).update(state)
    return LOCAL.setdefault(state["token"], store)


def _is_mounted(path: str) -> bool:
    """Whether a file is mounted by itself, where the system states it (Linux)."""
    with suppress(OSError), open("/proc/self/mountinfo", "rb") as mounts:
        # The fifth field is the mount point, with spaces and backslashes escaped in octal.
        points = {line.split()[4].decode("unicode_escape") for line in mounts}
        return os.fsencode(path) in {point.encode("latin-1") for point in points}
    return False


def _delete(directory: str, owner: object) -> None:
    """Delete a temporary ledger, unless in a forked child, whose parent still uses it."""
    if owner is PROCESS.token:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn errors of SQLite and of the file system into ledger errors that name the file."""
    try:
        yield
    except FileNotFoundError as cause:
        raise _error(path, "has gone or never existed (mistyped, moved, deleted?)") from cause
    except (OSError, sqlite3.Error) as cause:
        in_reach = not getattr(cause, "sqlite_errorname", "SQLITE_PERM").startswith(_OUT_OF_REACH)
        kind = LedgerError if in_reach else LedgerUnavailableError
        raise _error(path, f"cannot be used: {cause}", kind) from cause


def _error(path: str, what: str, kind: type[LedgerError] = LedgerUnavailableError) -> LedgerError:
    nothing = "Nothing is charged and nothing may be released."
    return kind(f"The privacy ledger {path!r} {what}. {nothing}", path=path)


def _digest(previous: str, *content: object) -> str:
    # The separator keeps apart contents that would be equal when joined.
    text = "\x1f".join((previous, *map(str, content)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
