"""The file of a ledger: one SQLite database, several data sets, every charge chained to the last.

Every operation opens a connection of its own, so that forked processes and threads never share
one. A charge is a ``BEGIN IMMEDIATE`` transaction that reads what was spent and adds to it: nobody
else can write in between. ``synchronous=EXTRA`` makes it last through a power failure.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from ..exceptions import LedgerError
from ._guarantee import PrivacyGuarantee
from ._ledger_codec import (
    amount_from_text,
    amount_to_text,
    guarantee_from_text,
    guarantee_to_text,
)

APPLICATION_ID = 0x736B6470  # "skdp"
SCHEMA_VERSION = 1
BUSY_SECONDS = 30.0

_SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
BEGIN;
CREATE TABLE datasets (
    name TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL, created_at TEXT NOT NULL,
    n_charges INTEGER NOT NULL, head TEXT NOT NULL);
CREATE TABLE charges (
    dataset TEXT NOT NULL, number INTEGER NOT NULL, charged_at TEXT NOT NULL, label TEXT NOT NULL,
    guarantee TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (dataset, number));
CREATE TABLE openings (id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL);
COMMIT;
"""
_DAMAGED = "is damaged: {}. Restore it from a copy that holds all charges"
_NOTHING = "Nothing is charged and nothing may be released."
# What went wrong, by the first words of SQLite's name for it.
_CAUSES = {
    "SQLITE_BUSY": f"was locked by other processes for more than {BUSY_SECONDS:.0f} s",
    "SQLITE_READONLY": "cannot be written: it, or its directory, is read-only",
    "SQLITE_CANTOPEN": "cannot be opened; its directory must be writable too",
    "SQLITE_PERM": "may not be accessed",
    "SQLITE_FULL": "cannot be written: the disk is full",
    "SQLITE_IOERR": "cannot be read or written: the disk is full or failed",
    "SQLITE_NOTADB": "is not a ledger, or is damaged",
    "SQLITE_CORRUPT": "is damaged",
}


class Charge(NamedTuple):
    """A row: when (ISO 8601, UTC), what for, how much."""

    charged_at: str
    label: str
    guarantee: PrivacyGuarantee


class Tables:
    """The tables of an open connection; every error names the file."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection

    def _sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with _explained(self._path):
            return self._connection.execute(statement, values).fetchall()

    def budget(self, dataset: str) -> tuple[float | Fraction, float] | None:
        """Epsilon and delta of a data set; None if the file does not have it."""
        row = self._dataset(dataset)
        if row is None:
            return None
        try:
            return amount_from_text(row[0]), float(row[1])
        except (ValueError, TypeError) as error:
            raise self._damaged("a budget is not a number") from error

    def create(self, dataset: str, epsilon: float | Fraction, delta: float) -> None:
        """Add a data set with its budget, which is never changed again."""
        if self._sql("SELECT 1 FROM charges WHERE dataset = ? LIMIT 1", dataset):
            raise self._damaged(f"the budget of the data set {dataset!r} is missing")
        amounts = amount_to_text(epsilon), amount_to_text(delta)
        head = _digest("", dataset, *amounts)
        created_at = datetime.now(UTC).isoformat()
        self._sql(
            "INSERT INTO datasets VALUES (?, ?, ?, ?, 0, ?)", dataset, *amounts, created_at, head
        )

    def charges(self, dataset: str) -> list[Charge]:
        """All charges, oldest first; each row is checked against the chain of digests."""
        row = self._dataset(dataset)
        if row is None:
            raise self._damaged(f"the data set {dataset!r} is missing")
        *amounts, n_charges, head = row
        rows = self._sql(
            "SELECT number, charged_at, label, guarantee, digest FROM charges "
            "WHERE dataset = ? ORDER BY number",
            dataset,
        )
        digest = _digest("", dataset, *amounts)
        for *content, written in rows:
            digest = _digest(digest, *content)
            if digest != written:
                raise self._damaged("a row was changed or is missing")
        if len(rows) != n_charges or digest != head:
            raise self._damaged("rows are missing")
        try:
            return [
                Charge(when, what, guarantee_from_text(text)) for _, when, what, text, _ in rows
            ]
        except (ValueError, TypeError, KeyError) as error:
            raise self._damaged("a row is not a guarantee") from error

    def add(self, dataset: str, charge: Charge) -> None:
        """Append a charge."""
        row = self._dataset(dataset)
        if row is None:
            raise self._damaged(f"the data set {dataset!r} is missing")
        number, head = row[2] + 1, row[3]
        content = (number, charge.charged_at, charge.label, guarantee_to_text(charge.guarantee))
        digest = _digest(head, *content)
        self._sql("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?)", dataset, *content, digest)
        self._sql(
            "UPDATE datasets SET n_charges = ?, head = ? WHERE name = ?", number, digest, dataset
        )

    def datasets(self) -> list[str]:
        """Names of the data sets, in alphabetical order."""
        return [name for (name,) in self._sql("SELECT name FROM datasets ORDER BY name")]

    def note_opening(self, opening_id: str, host: str, pid: int) -> None:
        """Tell other processes that a `with` block is open, and in which process."""
        self._sql("INSERT OR REPLACE INTO openings VALUES (?, ?, ?)", opening_id, host, pid)

    def forget_opening(self, opening_id: str) -> None:
        """Tell other processes that it is closed."""
        self._sql("DELETE FROM openings WHERE id = ?", opening_id)

    def opening(self, opening_id: str) -> tuple[str, int] | None:
        """Host and process of an open `with` block, or None."""
        rows = self._sql("SELECT host, pid FROM openings WHERE id = ?", opening_id)
        return (rows[0][0], rows[0][1]) if rows else None

    def check(self) -> None:
        """Refuse a file that is not a whole ledger of a known version."""
        ((application_id,),) = self._sql("PRAGMA application_id")
        ((version,),) = self._sql("PRAGMA user_version")
        if application_id != APPLICATION_ID:
            raise _error(self._path, "is not a ledger of skdpbo")
        if version != SCHEMA_VERSION:
            raise _error(self._path, f"has the unknown version {version}: update skdpbo")

    def check_pages(self) -> None:
        """Let SQLite look for damage everywhere."""
        ((verdict,),) = self._sql("PRAGMA quick_check(1)")
        if verdict != "ok":
            raise self._damaged(verdict)

    def _dataset(self, dataset: str) -> tuple[str, str, int, str] | None:
        rows = self._sql(
            "SELECT epsilon, delta, n_charges, head FROM datasets WHERE name = ?", dataset
        )
        return (rows[0][0], rows[0][1], rows[0][2], rows[0][3]) if rows else None

    def _damaged(self, why: str) -> LedgerError:
        return _error(self._path, _DAMAGED.format(why))


class LedgerFile:
    """A ledger file that exists. It is never created again when it has gone."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.realpath(os.fspath(path))

    @property
    def key(self) -> tuple[int, int]:
        """Device and inode: the same for all names of one file."""
        with _explained(self.path):
            status = os.stat(self.path)
            return status.st_dev, status.st_ino

    @contextmanager
    def transaction(self, write: bool = True) -> Iterator[Tables]:
        """Lock the file (against writers only, if nothing is written) and check it.

        What was written is kept at the end of the block, and nothing of it after an error.
        """
        connection = _connect(self.path)
        try:
            tables = Tables(self.path, connection)
            tables._sql("BEGIN IMMEDIATE" if write else "BEGIN")
            tables.check()
            if write:  # BEGIN IMMEDIATE alone does not mind a read-only file
                tables._sql("DELETE FROM openings WHERE FALSE")
            yield tables
            tables._sql("COMMIT")
        finally:
            connection.close()  # rolls back what was not committed

    def create(self) -> None:
        """Create the file, unless it exists; nobody ever sees it half-made."""
        if os.path.lexists(self.path):
            return
        draft = f"{self.path}.{uuid.uuid4().hex}.new"
        with _explained(self.path):
            try:
                os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
                with closing(_connect(draft, empty=True)) as connection:
                    connection.executescript(_SCHEMA)
                _publish(draft, self.path)
            finally:
                with suppress(OSError):
                    os.unlink(draft)


def _publish(draft: str, path: str) -> None:
    """Give the finished file its name; if somebody was faster, theirs stays."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        with open(draft, "rb") as source, suppress(FileExistsError), open(path, "xb") as target:
            target.write(source.read())
            target.flush()
            os.fsync(target.fileno())
    if hasattr(os, "O_DIRECTORY"):  # the name must last, too
        directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _connect(path: str, empty: bool = False) -> sqlite3.Connection:
    with _explained(path):
        if os.path.getsize(path) == 0 and not empty:
            raise _error(path, _DAMAGED.format("it is empty"))
        uri = Path(path).as_uri() + "?mode=rw"  # never created here
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn errors of SQLite and of the file system into one that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        cause = next((text for start, text in _CAUSES.items() if name.startswith(start)), None)
        raise _error(path, cause or f"cannot be used ({error})") from error
    except FileNotFoundError as error:
        raise _error(path, "has gone or never existed (mistyped, moved, deleted?)") from error
    except OSError as error:
        raise _error(path, f"cannot be used ({error.strerror})") from error


def _error(path: str, what: str) -> LedgerError:
    return LedgerError(f"The privacy ledger {path!r} {what}. {_NOTHING}", path=path)


def _digest(previous: str, *content: object) -> str:
    text = "\x1f".join((previous, *map(str, content)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
