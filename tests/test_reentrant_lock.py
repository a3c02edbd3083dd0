"""An interrupt leaves a lock as it was before the block."""

import pytest

from _support.internals import ReentrantLock


class PlainLock(ReentrantLock):
    """Planted bug: taken as an RLock is on Python 3.14, where an interrupt may come right after."""

    def __enter__(self):
        self.acquire()


def kept(lock, *, is_taken, depth):
    """Return how often a lock stays taken that is interrupted before or after it is taken."""
    take = lock.acquire

    def interrupted():
        if is_taken:
            take()
        raise KeyboardInterrupt

    for _ in range(depth):
        take()
    lock.acquire = interrupted
    with pytest.raises(KeyboardInterrupt), lock:
        pass
    left = 0
    while lock.is_held():
        lock.release()
        left += 1
    return left - depth


@pytest.mark.parametrize(("is_taken", "depth"), [(False, 0), (True, 0), (True, 1)])
def test_no_interrupt_keeps_it(is_taken, depth):
    assert kept(ReentrantLock(), is_taken=is_taken, depth=depth) == 0


@pytest.mark.parametrize("depth", [0, 1])
def test_a_lock_that_is_kept_is_found(depth):
    assert kept(PlainLock(), is_taken=True, depth=depth) == 1


def test_blocks_of_a_thread_nest():
    lock = ReentrantLock()
    with lock, lock:
        assert lock.is_held()
    assert not lock.is_held()
