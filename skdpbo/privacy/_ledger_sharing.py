"""How other processes reach a ledger that is open in one: through its file, or a temporary one."""

from __future__ import annotations

import os
import shutil
import tempfile
from fractions import Fraction
from typing import Any

from ..exceptions import LedgerError
from ._ledger_file import LedgerFile
from ._ledger_scope import PROCESS, RemoteOpening, host_id
from ._ledger_store import FileStore, MemoryStore, Store

_NEW_ONE = "To fit it on its own, make a new estimator from its parameters (get_params)."


class SharedStore:
    """The store of one data set, in memory or in a file.

    Charges in memory move to a temporary file as soon as another process may have to add to them,
    and back at the end of the block.
    """

    def __init__(self, dataset: str, epsilon: float | Fraction, delta: float) -> None:
        self._budget = dataset, epsilon, delta
        self._told: set[str] = set()  # openings that the file names
        self._directory: str | None = None  # of the temporary file
        self._pid = os.getpid()
        self.store: Store = MemoryStore()

    @property
    def path(self) -> str | None:
        """The file that keeps the charges, or None; a temporary one is not meant."""
        if isinstance(self.store, MemoryStore) or self._directory is not None:
            return None
        return self.store.file.path

    @property
    def reachable(self) -> bool:
        """False in a forked process, for a ledger in the memory of the one that opened it."""
        return isinstance(self.store, FileStore) or self._pid == os.getpid()

    def share(self, opening_id: str) -> dict[str, Any]:
        """Tell where other processes can charge it; what hinders them is told, not raised."""
        with PROCESS.lock:
            try:
                store = self._in_file()
                if opening_id not in self._told:
                    with store.file.transaction() as tables:
                        tables.note_opening(opening_id, host_id(), os.getpid())
                    self._told.add(opening_id)
            except (LedgerError, OSError) as error:
                return {"refusal": str(error)}
            temporary = self._directory is not None
            return {"path": store.file.path, "dataset": store.dataset, "temporary": temporary}

    def unshare(self, opening_id: str, last: bool) -> None:
        """Tell that a block is closed; after the last one a temporary file is not needed."""
        with PROCESS.lock:
            store = self.store
            told = opening_id in self._told and self._pid == os.getpid()
            if not told or isinstance(store, MemoryStore):
                return
            self._told.discard(opening_id)
            try:
                with store.file.transaction() as tables:
                    tables.forget_opening(opening_id)
                if last and self._directory is not None:
                    self._back_in_memory(store)
            except LedgerError:
                pass  # the block counts as open, and the next use of the file says what is wrong

    def _in_file(self) -> FileStore:
        if isinstance(self.store, FileStore):
            return self.store
        if not self.reachable:
            raise LedgerError(f"It is kept in the memory of process {self._pid}; give it a path.")
        directory = tempfile.mkdtemp(prefix="skdpbo-ledger-")  # readable by this user only
        try:
            file = LedgerFile(os.path.join(directory, "ledger"))
            file.create()
            with file.transaction() as tables:
                tables.create(*self._budget)
                for entry in self.store.entries:
                    tables.add(self._budget[0], entry.as_charge)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        self.store, self._directory = FileStore(file, self._budget[0]), directory
        return self.store

    def _back_in_memory(self, store: FileStore) -> None:
        memory = MemoryStore()
        memory.entries = store.entries
        self.store = memory
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = None


def remote_file(opening: RemoteOpening) -> LedgerFile | None:
    """File of a block of another process; None if the block is closed.

    Raises
    ------
    LedgerError
        If the ledger cannot be charged from here, or it cannot be seen whether the block is open.
    """
    if not opening.path:
        raise _unreachable(opening, opening.refusal)
    here = opening.host == host_id()
    if not os.path.exists(opening.path):
        if opening.temporary and here:
            return None
        raise _unreachable(opening, "its file cannot be found here")
    file = LedgerFile(opening.path)
    with file.transaction(write=False) as tables:
        note = tables.opening(opening.id)
    if note is None and not here:
        raise _unreachable(opening, "it is not open in the file of that name on this machine")
    if note is None or (note[0] == host_id() and not _runs(note[1])):
        return None
    if opening.refusal:
        raise _unreachable(opening, opening.refusal)
    return file


def _runs(pid: int) -> bool:
    if os.name != "posix":  # elsewhere signal 0 ends the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _unreachable(opening: RemoteOpening, why: str) -> LedgerError:
    name = repr(opening.path) if opening.path else "in memory"
    return LedgerError(
        f"The estimator was copied to this process while the privacy ledger {name} was open, and "
        f"the ledger cannot be charged here: {why}. Nothing may be released. Fit it in the process "
        f"that opened the ledger, or open one with a path that all processes can reach. {_NEW_ONE}",
        path=opening.path or None,
    )
