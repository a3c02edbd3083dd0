"""Re-entrant lock that is released whenever an interrupt comes."""

import os
import threading
from collections.abc import Callable


class ReentrantLock:
    """Re-entrant lock for ``with``: an interrupt (Ctrl-C) in ``__enter__`` does not leave it held.

    On Python 3.14 an interrupt may come after the ``__enter__`` of a compiled lock and before its
    block, where nothing would release the lock.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def free_in_forks(self) -> None:
        """Free the lock in forked processes where another thread, which they lack, holds it."""
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
        """Compiled ``__exit__``, which releases the lock before Python handles an interrupt."""
        return self._lock.__exit__

    def is_held(self) -> bool:
        """Whether this thread holds the lock."""
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]
