"""Where the charges of a ledger are kept, and transactions over several ledgers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from ._guarantee import PrivacyGuarantee
from ._ledger_file import Charge, LedgerFile, Tables


class Budget(NamedTuple):
    """An epsilon and a delta, spent or left.

    Parameters
    ----------
    epsilon : float
        Privacy loss bound, at least 0.
    delta : float
        Failure probability, in [0, 1).
    """

    epsilon: float
    delta: float


@dataclass(frozen=True)
class LedgerEntry:
    """One charge: the guarantee as claimed (its status included), what it was for, and when.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        What the release promises, as it was charged.
    label : str, default=""
        What the charge was for.
    charged_at : datetime, default=None
        When it was charged; None where that is not known.
    """

    guarantee: PrivacyGuarantee
    label: str = ""
    charged_at: datetime | None = None

    @property
    def as_charge(self) -> Charge:
        """The same, as it is written to a file."""
        charged_at = "" if self.charged_at is None else self.charged_at.isoformat()
        return Charge(charged_at, self.label, self.guarantee)

    @classmethod
    def from_charge(cls, charge: Charge) -> LedgerEntry:
        """Inverse of `as_charge`.

        Parameters
        ----------
        charge : Charge
            A charge as it was read from a file.

        Returns
        -------
        LedgerEntry
            The entry that `as_charge` turned into `charge`.
        """
        charged_at = datetime.fromisoformat(charge.charged_at) if charge.charged_at else None
        return cls(charge.guarantee, charge.label, charged_at)


def new_entry(guarantee: PrivacyGuarantee, label: str) -> LedgerEntry:
    """Return an entry that is made now."""
    return LedgerEntry(guarantee, label, datetime.now(UTC))


class MemoryStore:
    """Charges that live as long as the ledger, in one process."""

    def __init__(self) -> None:
        self.entries: tuple[LedgerEntry, ...] = ()

    @property
    def key(self) -> Hashable:
        """Two stores with one key hold the same charges."""
        return ("memory", id(self))


class FileStore:
    """Charges of one data set of a file."""

    def __init__(self, file: LedgerFile, dataset: str) -> None:
        self.file = file
        self.dataset = dataset

    @property
    def key(self) -> Hashable:
        """Two stores with one key hold the same charges."""
        return (*self.file.key, self.dataset)

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All charges, of all processes, oldest first."""
        with self.file.transaction(write=False) as tables:
            return tuple(map(LedgerEntry.from_charge, tables.charges(self.dataset)))


Store = MemoryStore | FileStore


class Transaction:
    """Stores that are locked: what they hold, and entries added to all of them or to none."""

    def __init__(self, stores: Sequence[Store], tables: Mapping[Hashable, Tables]) -> None:
        self._stores = stores
        self._tables = tables
        self._added: list[LedgerEntry] = []

    def entries(self, store: Store) -> tuple[LedgerEntry, ...]:
        """Charges of a store, oldest first."""
        if isinstance(store, MemoryStore):
            return store.entries
        charges = self._tables[store.file.key].charges(store.dataset)
        return tuple(map(LedgerEntry.from_charge, charges))

    def add(self, entry: LedgerEntry) -> None:
        """Write an entry to every store; nobody sees it before the transaction ends."""
        for store in self._stores:
            if isinstance(store, FileStore):
                self._tables[store.file.key].add(store.dataset, entry.as_charge)
        self._added.append(entry)

    def _finish(self) -> None:
        for store in self._stores:
            if isinstance(store, MemoryStore):
                store.entries = (*store.entries, *self._added)


@contextmanager
def transaction(stores: Sequence[Store]) -> Iterator[Transaction]:
    """Lock the stores against all other processes, until the end of the block.

    Files are locked in one order everywhere, so that two processes cannot wait for each other. If
    the last of several files cannot be written after the first ones were, those stay charged and
    an error is raised: too much is counted then, never too little.
    """
    files = {store.file.key: store.file for store in stores if isinstance(store, FileStore)}
    with ExitStack() as stack:
        tables: dict[Hashable, Tables] = {
            key: stack.enter_context(files[key].transaction()) for key in sorted(files)
        }
        current = Transaction(stores, tables)
        yield current
    current._finish()
