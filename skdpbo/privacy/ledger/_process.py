"""Lock of all ledgers of this process, and its mark."""

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
    """Lock of all ledgers of this process, and its mark; a forked process has its own."""

    def __init__(self) -> None:
        self.lock = ReentrantLock()
        self.token = object()
        self._interrupted = False

    def before_fork(self) -> None:
        """Hold the lock; an interrupt (Ctrl-C) meanwhile comes after the fork.

        Python forks whatever is raised here, and drops it.
        """
        # Of a thread within a charge there is nothing to wait for.
        held = self.lock.is_held() and self.lock.acquire()
        while not held:
            try:
                held = self.lock.acquire()
            except KeyboardInterrupt:
                self._interrupted = True
                held = self.lock.is_held()

    def after_fork(self) -> None:
        """Let go of the lock in the parent, and interrupt it if it was interrupted meanwhile."""
        interrupted, self._interrupted = self._interrupted, False
        self.lock.release()
        if interrupted:  # later, as what is raised here is dropped
            forking = sys._getframe(1)
            again = threading.get_ident(), forking, forking.f_lasti
            threading.Thread(target=_interrupt_after, args=again, daemon=True).start()


def _interrupt_after(thread: int, frame: FrameType, place: int) -> None:
    """Interrupt a thread, the main one, when a frame of it has left a place: the call of the fork.

    Until then other hooks may run, from which an interrupt is dropped.
    """
    while frame.f_lasti == place:
        time.sleep(_PAUSE)
    signal.pthread_kill(thread, signal.SIGINT)  # which also ends a call that waits


PROCESS = Process()
if hasattr(os, "register_at_fork"):
    # No thread is within a charge: SQLite's memory of its locks would keep the child out for ever.
    os.register_at_fork(
        before=PROCESS.before_fork,
        after_in_parent=PROCESS.after_fork,
        after_in_child=PROCESS.__init__,  # type: ignore[misc]
    )
