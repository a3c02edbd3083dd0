"""File of a ledger: one SQLite database, several data sets, charges chained by digests.

Every operation opens a connection of its own, so that threads and forked processes never share
one. A charge is a ``BEGIN IMMEDIATE`` transaction that reads the charges so far and adds to them:
no other writer comes in between. ``synchronous=EXTRA`` makes it last through a power failure.

Detected, and refused: rows that are missing, changed or reordered, changed budgets and tables,
triggers, foreign, empty or truncated files; by a ledger that is open also another file of the same
name and missing charges that it has read. Not detected: the digests have no key and the last one
is in the file, so that somebody who may write to it can remove the last charges, make the chain
anew or restore an old copy; a process that starts afterwards sees a whole ledger.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

from skdpbo.exceptions import LedgerError, LedgerUnavailableError
from skdpbo.privacy.ledger._budget import (
    LedgerEntry,
    Total,
    amount_from_text,
    amount_to_text,
    guarantee_from_text,
    guarantee_to_text,
)

__all__ = ["PROCESS", "TABLES", "Charges", "Tables", "explained"]

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
# Causes, by the first words of SQLite's name of the error.
_OUT_OF_REACH = ("SQLITE_BUSY", "SQLITE_CANTOPEN", "SQLITE_PERM")
_CAUSES = {
    "SQLITE_BUSY": "was locked by other processes for too long",
    "SQLITE_CANTOPEN": "cannot be opened; its directory must be writable too",
    "SQLITE_PERM": "may not be accessed",
    "SQLITE_READONLY": "cannot be written: it, or its directory, is read-only",
    "SQLITE_FULL": "cannot be written: the disk is full",
    "SQLITE_IOERR": "cannot be read or written: the disk is full or failed",
    "SQLITE_NOTADB": "is not a ledger, or is damaged",
    "SQLITE_CORRUPT": "is damaged",
}


class _Process:
    """Lock of all ledgers of this process, and its mark; a forked process has its own."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.token = object()


PROCESS = _Process()
if hasattr(os, "register_at_fork"):
    # Another thread of the parent may hold the lock, and nobody would release the child's copy.
    os.register_at_fork(after_in_child=PROCESS.__init__)  # type: ignore[misc]


class Charges(NamedTuple):
    """Charges of a data set: its budget, entries (oldest first) and the chain of their digests."""

    total: Total
    entries: list[LedgerEntry]
    chain: tuple[str, ...]


class Tables:
    """Tables of an open connection; every error names the file."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        with explained(self.path):
            return self._connection.execute(statement, values).fetchall()

    def check(self) -> None:
        """Refuse a file that is not a whole ledger of a known version."""
        if self.sql("PRAGMA application_id") != [(APPLICATION_ID,)]:
            raise self.error("is empty or not a ledger of skdpbo")
        if (version := self.sql("PRAGMA user_version")) != [(SCHEMA_VERSION,)]:
            raise self.error(f"has the unknown version {version[0][0]}: update skdpbo")
        # A trigger or a view could change or hide what is written.
        schema = self.sql("SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY name")
        if [text for (text,) in schema] != [*TABLES[2:]]:
            raise self.damaged("its tables were changed")

    def check_pages(self) -> None:
        """Let SQLite check every page."""
        ((verdict,),) = self.sql("PRAGMA quick_check(1)")
        if verdict != "ok":
            raise self.damaged(verdict)

    def datasets(self) -> list[str]:
        """Return the names of the data sets, in alphabetical order."""
        return [name for (name,) in self.sql("SELECT name FROM datasets ORDER BY name")]

    def create(self, dataset: str, total: Total) -> None:
        """Add a data set with its budget, which is never changed again."""
        if self.sql("SELECT 1 FROM charges WHERE dataset = ? LIMIT 1", dataset):
            raise self.damaged(f"the budget of the data set {dataset!r} is missing")
        row = (dataset, *map(amount_to_text, total), uuid.uuid4().hex)
        self.sql("INSERT INTO datasets VALUES (?, ?, ?, ?, ?)", *row, _digest("", *row))

    def read(self, dataset: str) -> Charges:
        """Return the charges; each row is checked against the chain of digests."""
        *row, head = self._dataset(dataset)
        charged = self.sql(
            "SELECT number, charged_at, label, guarantee, digest FROM charges "
            "WHERE dataset = ? ORDER BY number",
            dataset,
        )
        chain = [_digest("", *row)]
        for *content, written in charged:
            chain.append(_digest(chain[-1], *content))
            if chain[-1] != written:
                raise self.damaged("a row was changed or is missing")
        if chain[-1] != head:
            raise self.damaged("rows are missing")
        try:
            entries = [
                LedgerEntry(guarantee_from_text(text), label, datetime.fromisoformat(when))
                for _, when, label, text, _ in charged
            ]
            return Charges((amount_from_text(row[1]), float(row[2])), entries, tuple(chain))
        except (ValueError, TypeError, KeyError) as cause:
            raise self.damaged("a row is not a guarantee") from cause

    def add(self, dataset: str, entry: LedgerEntry) -> str:
        """Append a charge; return its digest, the new end of the chain."""
        head = self._dataset(dataset)[-1]
        sql = "SELECT coalesce(max(number), 0) + 1 FROM charges WHERE dataset = ?"
        ((number,),) = self.sql(sql, dataset)
        guarantee = guarantee_to_text(entry.guarantee)
        content = (number, entry.charged_at.isoformat(), entry.label, guarantee)
        digest = _digest(head, *content)
        self.sql("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?)", dataset, *content, digest)
        self.sql("UPDATE datasets SET head = ? WHERE name = ?", digest, dataset)
        return digest

    def _dataset(self, dataset: str) -> tuple[Any, ...]:
        rows = self.sql(
            "SELECT name, epsilon, delta, identity, head FROM datasets WHERE name = ?", dataset
        )
        if not rows:
            raise self.damaged(f"the data set {dataset!r} is missing")
        return rows[0]

    def error(self, what: str, kind: type[LedgerError] = LedgerError) -> LedgerError:
        """Return an error that names the file."""
        return _error(self.path, what, kind)

    def damaged(self, why: str) -> LedgerError:
        """Return the error of a file that does not hold what was charged."""
        return self.error(f"is damaged: {why}. Restore it from a copy that holds all charges")


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn errors of SQLite and of the file system into one that names the file."""
    try:
        yield
    except sqlite3.Error as cause:
        name = getattr(cause, "sqlite_errorname", "")
        what = next((text for start, text in _CAUSES.items() if name.startswith(start)), None)
        kind = LedgerUnavailableError if name.startswith(_OUT_OF_REACH) else LedgerError
        raise _error(path, what or f"cannot be used ({cause})", kind) from cause
    except FileNotFoundError as cause:
        raise _error(path, "has gone or never existed (mistyped, moved, deleted?)") from cause
    except OSError as cause:
        raise _error(path, f"cannot be used ({cause.strerror})") from cause


def _error(path: str, what: str, kind: type[LedgerError] = LedgerUnavailableError) -> LedgerError:
    nothing = "Nothing is charged and nothing may be released."
    return kind(f"The privacy ledger {path!r} {what}. {nothing}", path=path)


def _digest(previous: str, *content: object) -> str:
    text = "\x1f".join((previous, *map(str, content)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
