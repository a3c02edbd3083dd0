"""A payment covers fits while its block runs, and nothing that outlives the block."""

import asyncio
import contextvars
import gc
import os
import pickle
import signal
import threading

import pytest
from sklearn.base import clone

from _support.forks import forking
from _support.internals import _CARRIED, PROCESS, Receipt, payments_ending
from _support.paid import ROWS, Paid
from _support.planted import put
from skdpbo.privacy import PrivacyLedger, charged_elsewhere

unwarned = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # beside threads
BARE = pickle.dumps(Paid())


def fit():
    Paid().fit(ROWS)


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    return PrivacyLedger(1.0, path=tmp_path / "ledger" if request.param == "file" else None)


def test_an_object_that_takes_the_place_of_an_estimator_carries_no_ledger(ledger):
    with ledger:
        estimator = Paid()
    key = id(estimator)
    assert key in _CARRIED
    del estimator
    gc.collect()
    assert key not in _CARRIED


def test_payments_of_the_surrounding_fit_go_on(ledger):
    with ledger, charged_elsewhere():
        with payments_ending():
            fit()
        fit()
    assert ledger.entries == ()


def blocks():
    with charged_elsewhere():
        yield
        yield


def fit_in_a_copied_context():
    with charged_elsewhere():
        inherited = contextvars.copy_context()
        inherited.run(fit)  # covered
    inherited.run(fit)


def fit_in_a_task():
    async def late():
        await asyncio.sleep(0.01)
        fit()

    async def main():
        with charged_elsewhere():
            task = asyncio.create_task(late())
        await task

    asyncio.run(main())


def fit_beside_a_generator_that_ends_late():
    with charged_elsewhere():
        inner = blocks()
        next(inner)
    inner.close()
    fit()


def fit_a_clone_in_a_copied_context():
    with charged_elsewhere():
        inherited = contextvars.copy_context()
    inherited.run(lambda: clone(Paid()).fit(ROWS))


WAYS = [
    fit_in_a_copied_context,
    fit_in_a_task,
    fit_beside_a_generator_that_ends_late,
    fit_a_clone_in_a_copied_context,
]


@pytest.mark.parametrize("late", WAYS)
def test_what_inherits_a_block_and_outlives_it_is_charged(ledger, late):
    with ledger:
        late()
        assert len(ledger.entries) == 1
        fit()
    assert len(ledger.entries) == 2


@pytest.mark.parametrize("late", WAYS)
def test_planted_bug_a_payment_that_goes_on_is_caught(ledger, late, monkeypatch):
    put(monkeypatch, "ledger receipts: Receipt.is_valid", lambda receipt: True)
    with ledger:
        late()
        # The block of a generator takes its payment away itself, in the context that closes it.
        assert len(ledger.entries) == (late is fit_beside_a_generator_that_ends_late)


def test_the_end_of_a_generator_closes_no_ledger_that_was_opened_later():
    with PrivacyLedger(1.0) as outer:
        suspended = blocks()
        next(suspended)
        with PrivacyLedger(1.0) as inner:
            suspended.close()
            fit()
    assert len(outer.entries) == len(inner.entries) == 1


def test_a_context_that_outlives_a_ledger_does_not_hide_the_one_that_is_open(ledger):
    """A task of a server that was started in an earlier block works in a later one."""
    with PrivacyLedger(1.0):
        inherited = contextvars.copy_context()
    with ledger:
        inherited.run(fit)
    assert len(ledger.entries) == 1


def test_a_context_that_outlives_one_of_two_ledgers_does_not_hide_a_later_one(ledger):
    with PrivacyLedger(1.0):
        with PrivacyLedger(1.0):
            inherited = contextvars.copy_context()
        with ledger:
            inherited.run(fit)
    assert len(ledger.entries) == 1


def test_a_payment_that_has_ended_is_handed_to_nobody():
    """A thread that clones while the block ends comes too late."""
    receipt = Receipt("everything", payer=PROCESS.token)
    assert receipt.is_valid()
    receipt.end()
    receipt.hand_out()
    assert receipt.path == ""
    assert not receipt.is_valid()


def test_a_payment_handed_out_by_another_thread_ends_with_its_block():
    receipt = Receipt("everything", payer=PROCESS.token)
    thread = threading.Thread(target=receipt.hand_out)
    thread.start()
    thread.join()
    assert os.path.exists(receipt.path)
    receipt.end()
    assert not os.path.exists(receipt.path)


class InterruptedOnce:
    """A lock that another thread holds, until Control-C comes."""

    def __init__(self, lock):
        self.lock, self.interrupts = lock, [KeyboardInterrupt]

    def __enter__(self):
        if self.interrupts:
            raise self.interrupts.pop()
        return self.lock.__enter__()

    def __exit__(self, *error):
        return self.lock.__exit__(*error)


def test_an_end_that_was_interrupted_is_made_again(monkeypatch):
    """A receipt that stays handed out would cover later fits as if the payer still ran."""
    receipt = Receipt("everything", payer=PROCESS.token)
    receipt.hand_out()
    monkeypatch.setattr(PROCESS, "lock", InterruptedOnce(PROCESS.lock))
    with pytest.raises(KeyboardInterrupt):
        receipt.end()
    receipt.end()
    assert not receipt.is_valid()
    assert not os.path.exists(receipt.path)


class Fork:
    """A forked process that makes and fits an estimator, and one from a pickle, at a signal."""

    def __init__(self, state):
        (there, self._tell), (self._heard, back) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._tell)
            try:
                while os.read(there, 1):
                    fit()
                    pickle.loads(state).fit(ROWS)
                    os.write(back, b".")
            finally:
                os._exit(0)
        os.close(there)
        os.close(back)

    def fit(self):
        os.write(self._tell, b".")
        assert os.read(self._heard, 1) == b"."

    def end(self):
        os.close(self._tell)
        os.waitpid(self.pid, 0)


@forking
@unwarned
@pytest.mark.parametrize("pickled", [False, True])
def test_a_forked_process_is_covered_until_the_block_ends(ledger, pickled):
    with ledger:
        with charged_elsewhere():
            child = Fork(pickle.dumps(Paid()) if pickled else BARE)
            child.fit()
            assert ledger.entries == ()
        child.fit()
        child.end()
    assert len(ledger.entries) == 2


@forking
@unwarned
def test_a_forked_process_is_not_covered_by_a_killed_one(tmp_path):
    """SQLite in the forked process remembers the lock of the process that paid."""
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    (there, tell), (heard, back) = os.pipe(), os.pipe()
    payer = os.fork()
    if payer == 0:
        with ledger, charged_elsewhere():
            state = pickle.dumps(Paid())
            if os.fork() == 0:
                os.read(there, 1)
                pickle.loads(state).fit(ROWS)
                fit()
                os.write(back, b"f")
                os._exit(0)
            os.write(back, b"p")
            signal.pause()  # until it is killed
    assert os.read(heard, 1) == b"p"
    os.kill(payer, signal.SIGKILL)
    os.waitpid(payer, 0)
    os.write(tell, b".")
    os.close(back)
    assert os.read(heard, 1) == b"f"
    assert len(ledger.entries) == 2


@forking
@unwarned
def test_without_a_ledger_nothing_is_handed_to_a_forked_process(monkeypatch):
    put(monkeypatch, "ledger charge: _CARRIED", {})  # of other tests
    monkeypatch.setattr("tempfile.mkdtemp", None)  # would be an error
    with charged_elsewhere():
        child = Fork(BARE)
        child.fit()
        child.end()
