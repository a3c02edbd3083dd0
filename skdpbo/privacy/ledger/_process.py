"""Per-process state of the ledgers: a lock and a token, renewed after a fork."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType

from skdpbo._reentrant_lock import ReentrantLock

_PAUSE = 0.01  # seconds


class Process:
    """Lock of all ledgers of this process, and a token of the process; new ones after a fork."""

    def __init__(self) -> None:
        self.lock = ReentrantLock()
        self.token = object()
        self._interrupted = False

    def before_fork(self) -> None:
        """Acquire the lock; an interrupt (Ctrl-C) meanwhile is delivered after the fork.

        Python ignores errors that are raised here, and forks.
        """
        # A thread within a charge holds the lock already.
        held = self.lock.is_held() and self.lock.acquire()
        while not held:
            try:
                held = self.lock.acquire()
            except KeyboardInterrupt:
                self._interrupted = True
                held = self.lock.is_held()

    def after_fork(self) -> None:
        """Release the lock in the parent, and deliver an interrupt that came meanwhile."""
        interrupted, self._interrupted = self._interrupted, False
        self.lock.release()
        if interrupted:  # later, since Python ignores errors raised here
            forking = sys._getframe(1)
            again = threading.get_ident(), forking, forking.f_lasti
            threading.Thread(target=_interrupt_after, args=again, daemon=True).start()


def _interrupt_after(thread: int, frame: FrameType, place: int) -> None:
    """Interrupt the main thread once its frame has left the instruction that forks.

    Until then other fork hooks may run, in which Python would ignore an interrupt.
    """
    while frame.f_lasti == place:
        time.sleep(_PAUSE)
    signal.pthread_kill(thread, signal.SIGINT)  # also ends a blocking call


PROCESS = Process()
if hasattr(os, "register_at_fork"):
    # No fork during a charge: the child would inherit SQLite's locks, which nothing would release.
    os.register_at_fork(
        before=PROCESS.before_fork,
        after_in_parent=PROCESS.after_fork,
        after_in_child=PROCESS.__init__,  # type: ignore[misc]
    )
