"""Re-entrant lock that an interrupt does not leave held."""

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
