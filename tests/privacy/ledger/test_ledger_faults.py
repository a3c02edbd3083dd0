"""Processes that race for a budget or are killed: nothing is overdrawn, nothing is lost."""

import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import sys
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from _support.forks import forking
from _support.planted import module_of
from skdpbo.exceptions import BudgetExceededError, LedgerError, LedgerUnavailableError
from skdpbo.model_selection import DPGridSearchCV
from skdpbo.privacy import LedgerEntry, PrivacyGuarantee, PrivacyLedger, charge_active_ledger

_ledger, _charging, _store = map(module_of, ("ledger", "ledger charge", "ledger store"))
pytestmark = forking
UNIT = PrivacyGuarantee(epsilon=0.0625)
PATIENCE = 120.0  # seconds; only what hangs takes them


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However slow the machine is, no process gives up a lock that another one holds."""
    monkeypatch.setattr(_store, "BUSY_SECONDS", PATIENCE)


def start(function, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads
        process = multiprocessing.get_context("fork").Process(
            target=function,
            args=arguments,
            daemon=True,  # not waited for when the tests end
        )
        process.start()
    return process


def exit_codes(processes):
    """Exit codes of processes, None for one that does not end; it is killed."""
    codes = []
    for process in processes:
        process.join(PATIENCE)
        codes.append(process.exitcode)
        process.kill()
    return codes


def meet(together, where):
    """Go on when all processes have come so far."""
    try:
        together.wait(PATIENCE)
    except threading.BrokenBarrierError:
        raise AssertionError(f"the processes did not all come to {where}") from None


def charge_without_a_transaction(stores, guarantee, label):
    """Planted bug: what is left is read before the lock is taken."""
    _charging.charge(stores, guarantee, label, record=False)
    entry = _charging.LedgerEntry(guarantee, label)
    for store in stores:
        with store.transaction() as tables:
            _, _, chain = tables.read(store.dataset)
            tables.add(store.dataset, chain, entry)


def pause_before_writing(pause):
    """Call a function between the check and the write of all charges of this forked process."""

    def entry(*values):
        pause()
        return LedgerEntry(*values)

    _charging.LedgerEntry = entry


def spend_all(path, together, rounds, charge):
    if charge is not None:
        _ledger.charge = charge
        pause_before_writing(lambda: meet(together, "the writes"))
    for number in range(rounds):
        ledger = PrivacyLedger(1.0, path=f"{path}{number}")
        for step in range(6):
            meet(together, f"step {step} of round {number}")
            try:
                ledger.charge(UNIT, str(os.getpid()))
            except BudgetExceededError:
                assert step == 5


def race(path, rounds, charge=None):
    """Let three processes race for sixteen charges in six steps; what each made in each round."""
    together = multiprocessing.get_context("fork").Barrier(3)
    processes = [start(spend_all, path, together, rounds, charge) for _ in range(3)]
    assert exit_codes(processes) == [0] * 3
    ledgers = [PrivacyLedger(1.0, path=f"{path}{number}") for number in range(rounds)]
    winners = [Counter(entry.label for entry in ledger.entries) for ledger in ledgers]
    return [sorted(count.values()) for count in winners]


def test_processes_that_race_for_a_budget_use_it_up_and_no_more(tmp_path):
    # The last charge is for one of three.
    assert race(tmp_path / "l", 5) == [[5, 5, 6]] * 5


def test_a_check_outside_of_the_transaction_is_caught_by_the_race(tmp_path):
    assert race(tmp_path / "l", 1, charge_without_a_transaction) == [[6, 6, 6]]


def charge_within_a_charge(path, monkeypatch, charge):
    """Charge a budget for one while another process is between its check and its write of it."""
    context = multiprocessing.get_context("fork")
    checked, go_on = context.Event(), context.Event()
    ledger = PrivacyLedger(UNIT.epsilon, path=path)

    def other():
        def pause():
            checked.set()
            assert go_on.wait(PATIENCE), "no signal to go on"

        _ledger.charge = charge
        pause_before_writing(pause)
        ledger.charge(UNIT, "other")

    process = start(other)
    assert checked.wait(PATIENCE), "the other process did not come to its write"
    refused = ""
    with monkeypatch.context() as patch:
        patch.setattr(_store, "BUSY_SECONDS", 0)
        try:
            ledger.charge(UNIT, "within")
        except LedgerUnavailableError as error:
            refused = str(error)
    go_on.set()
    assert exit_codes([process]) == [0]
    return refused, [entry.label for entry in ledger.entries]


def test_nobody_charges_between_a_check_and_its_write(tmp_path, monkeypatch):
    refused, charged = charge_within_a_charge(tmp_path / "l.db", monkeypatch, _ledger.charge)
    assert "locked" in refused
    assert charged == ["other"]


def test_a_charge_between_a_check_and_its_write_is_caught(tmp_path, monkeypatch):
    result = charge_within_a_charge(tmp_path / "l.db", monkeypatch, charge_without_a_transaction)
    assert result == ("", ["within", "other"])


@pytest.mark.slow
def test_processes_that_create_a_file_together_agree(tmp_path):
    def create(path, together, epsilon):
        meet(together, "the first file")
        for number in range(10):
            ledger = PrivacyLedger(epsilon, path=f"{path}{number}")
            ledger.charge(UNIT)

    for budgets in ((1.0, 1.0, 1.0), (1.0, 2.0)):
        path = tmp_path / str(len(budgets))
        barrier = multiprocessing.get_context("fork").Barrier(len(budgets))
        processes = [start(create, path, barrier, budget) for budget in budgets]
        failed = exit_codes(processes).count(1)
        ledgers = [PrivacyLedger.from_file(f"{path}{number}") for number in range(10)]
        assert failed == len(set(budgets)) - 1  # the one that came second
        if len(set(budgets)) == 1:
            assert {len(ledger.entries) for ledger in ledgers} == {3}
        left = sorted(tmp_path.iterdir())  # no draft either
        assert left == sorted(Path(f"{path}{number}") for number in range(10))
        for file in left:
            file.unlink()


def charge_and_report(path, pipe):
    ledger = PrivacyLedger(1e6, path=path)
    for number in range(10**6):
        ledger.charge(UNIT, str(number))
        os.write(pipe, b".")  # what has been released after the charge


def killed_at_random(path, rng):
    """Charges that were acknowledged before a process was killed, and those in the file."""
    reader, writer = os.pipe()
    before = len(PrivacyLedger(1e6, path=path).entries)
    process = start(charge_and_report, path, writer)
    os.close(writer)
    os.read(reader, 1)  # it has begun
    time.sleep(rng.uniform(0, 0.1))
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    acknowledged = 1
    while data := os.read(reader, 4096):
        acknowledged += len(data)
    os.close(reader)
    return acknowledged, len(PrivacyLedger(1e6, path=path).entries) - before


@pytest.mark.parametrize("rounds", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_a_killed_process_loses_no_charge(tmp_path, rounds):
    rng = random.Random(rounds)  # public randomness
    for number in range(rounds):
        acknowledged, kept = killed_at_random(tmp_path / f"l{number % 8}", rng)
        assert kept - acknowledged in (0, 1)  # at most the one whose release it did not live to see


def kill_itself(*_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("moment", ["inserted", "half", "locked", "committed"])
def test_a_process_killed_within_a_charge_leaves_the_file_usable(tmp_path, monkeypatch, moment):
    path = tmp_path / "l.db"
    ledger = PrivacyLedger(1.0, path=path)
    ledger.charge(UNIT, "before")

    def die(statement):
        at = {"inserted": "UPDATE datasets", "half": "INSERT INTO charges", "committed": "COMMIT"}
        if statement.startswith(at.get(moment, "SELECT * FROM datasets")):
            kill_itself()

    def charge():
        run = _store.Tables.sql

        def dying(tables, statement, *values):
            result = None
            if moment in ("half", "locked"):
                die(statement)
            result = run(tables, statement, *values)
            die(statement)
            return result

        _store.Tables.sql = dying
        ledger.charge(UNIT, "in the middle")

    process = start(charge)
    assert exit_codes([process]) == [-signal.SIGKILL]
    expected = ["before"] + ["in the middle"] * (moment == "committed")
    assert [entry.label for entry in ledger.entries] == expected
    ledger.charge(UNIT, "after")
    assert [entry.label for entry in PrivacyLedger(1.0, path=path).entries] == [*expected, "after"]


def test_a_process_killed_while_it_creates_the_file_leaves_none(tmp_path, monkeypatch):
    path = tmp_path / "l.db"

    def create():
        os.link = kill_itself
        PrivacyLedger(1.0, path=path)

    process = start(create)
    assert exit_codes([process]) == [-signal.SIGKILL]
    assert not path.exists()
    PrivacyLedger(1.0, path=path).charge(UNIT)


def test_a_process_killed_before_it_removes_the_draft_says_what_to_remove(tmp_path, monkeypatch):
    monkeypatch.setattr(_store, "LINK_SECONDS", 0.02)
    path, link = tmp_path / "l.db", os.link

    def create():
        os.link = lambda *names: (link(*names), kill_itself())
        PrivacyLedger(1.0, path=path)

    assert exit_codes([start(create)]) == [-signal.SIGKILL]
    with pytest.raises(LedgerUnavailableError, match="remove what a killed process left"):
        PrivacyLedger(1.0, path=path)
    for draft in tmp_path.glob("skdpbo-new-*"):
        shutil.rmtree(draft)
    PrivacyLedger(1.0, path=path).charge(UNIT)


def test_pages_that_were_written_halfway_are_rolled_back(tmp_path):
    """The journal of a killed process is played back by the next one."""
    path = tmp_path / "l.db"
    ledger = PrivacyLedger(1.0, path=path)
    ledger.charge(UNIT, "before")

    def spill():
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM charges")
        for number in range(200):  # more than the cache holds: pages of the file are overwritten
            connection.execute(
                "INSERT INTO charges VALUES ('x', ?, '', '', ?, '')", (number, "y" * 2000)
            )
        kill_itself()

    assert exit_codes([start(spill)]) == [-signal.SIGKILL]
    assert (tmp_path / "l.db-journal").exists()
    assert [entry.label for entry in ledger.entries] == ["before"]


def test_a_file_size_limit_is_a_full_disk(tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "l.db"
    ledger = PrivacyLedger(1e4, path=path)
    ledger.charge(UNIT, "before")
    reader, writer = os.pipe()

    def fill():
        size = os.path.getsize(path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 3 * 4096, size + 3 * 4096))
        try:
            for _ in range(1000):
                ledger.charge(UNIT, "x" * 1000)
                os.write(writer, b".")
        except LedgerError as error:
            sys.exit(7 if str(path) in str(error) and "disk" in str(error) else 8)

    assert exit_codes([start(fill)]) == [7]
    os.close(writer)
    acknowledged = len(os.read(reader, 4096))
    os.close(reader)
    assert len(PrivacyLedger(1e4, path=path).entries) == 1 + acknowledged
    ledger.charge(UNIT, "after")


def test_files_are_locked_in_one_order(tmp_path, monkeypatch):
    paths = [tmp_path / "one.db", tmp_path / "two.db"]
    locked, transaction = [], _store.Store.transaction

    def recorded(store, write=True):
        locked.append(store.path)
        return transaction(store, write)

    monkeypatch.setattr(_store.Store, "transaction", recorded)
    for first, second in (paths, paths[::-1]):
        with PrivacyLedger(1e3, path=first), PrivacyLedger(1e3, path=second):
            locked.append("charge")
            charge_active_ledger(UNIT)
    orders = [locked[i + 1 : i + 3] for i, what in enumerate(locked) if what == "charge"]
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == sorted(map(str, paths))


def test_two_files_nested_in_opposite_orders_do_not_wait_for_each_other(tmp_path):
    paths = [tmp_path / "one.db", tmp_path / "two.db"]
    for path in paths:
        PrivacyLedger(1e3, path=path)

    def charge(first, second, together):
        with PrivacyLedger(1e3, path=first), PrivacyLedger(1e3, path=second):
            for step in range(8):
                meet(together, f"charge {step}")
                charge_active_ledger(UNIT)

    barrier = multiprocessing.get_context("fork").Barrier(2)
    processes = [start(charge, *paths[::order], barrier) for order in (1, -1)]
    assert exit_codes(processes) == [0, 0]
    assert [len(PrivacyLedger.from_file(path).entries) for path in paths] == [16, 16]


@pytest.mark.slow
def test_a_search_that_is_killed_and_run_again_is_charged_twice(tmp_path):
    """The charge is on the disk before a protected row is read, whenever the search dies."""
    rng = random.Random(0)  # public randomness
    path = tmp_path / "l.db"
    rows = np.linspace(-1, 1, 60)[:, None]

    def search(pipe):
        searcher = DPGridSearchCV(
            LinearRegression(), {"fit_intercept": [True, False]}, loss_bound=1.0,
            scoring="neg_mean_squared_error",
        )  # fmt: skip
        with PrivacyLedger(100.0, path=path):
            searcher.fit(rows, rows[:, 0], X_val=rows, y_val=rows[:, 0])
        os.write(pipe, b".")

    reader, writer = os.pipe()
    for _ in range(15):
        process = start(search, writer)
        time.sleep(rng.uniform(0, 0.6))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    assert exit_codes([start(search, writer)]) == [0]
    os.close(writer)
    finished = len(os.read(reader, 100))
    os.close(reader)
    charged = len(PrivacyLedger.from_file(path).entries)
    assert finished <= charged <= 16
    assert finished >= 1
