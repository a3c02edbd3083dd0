"""Re-entrant lock that an interrupt does not leave held."""

import os
import threading
from collections.abc import Callable


class ReentrantLock:
    """Re-entrant lock for ``with``: an interrupt comes before it is held or inside the block.

    On Python 3.14 an interrupt (Ctrl-C) may come between ``__enter__`` of a compiled lock and the
    block.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def free_in_forks(self) -> None:
        """Let forked processes have it free where a thread that is not in them holds it."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._free)

    def _free(self) -> None:
        if not self.is_held():
            ReentrantLock.__init__(self)

    def __enter__(self) -> None:
        held = self.is_held()
        try:
            self.acquire()
        except BaseException:
            if held or self.is_held():
                self.release()
            raise

    @property
    def __exit__(self) -> Callable[..., None]:
        """Leave by the compiled method, which lets go before an interrupt comes."""
        return self._lock.__exit__

    def is_held(self) -> bool:
        """Whether this thread holds the lock."""
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]
