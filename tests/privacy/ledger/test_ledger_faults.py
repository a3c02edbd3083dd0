"""Processes that race for a budget or are killed: nothing is overdrawn, nothing is lost."""

import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import time
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from skdpbo.exceptions import BudgetExceededError, LedgerError
from skdpbo.model_selection import DPGridSearchCV
from skdpbo.privacy import LedgerEntry, PrivacyGuarantee, PrivacyLedger, charge_active_ledger
from skdpbo.privacy.ledger import _ledger, _store
from skdpbo.privacy.ledger._budget import fits

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
UNIT = PrivacyGuarantee(epsilon=0.0625)


def start(function, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads
        process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
        process.start()
    return process


def charge_without_a_transaction(stores, guarantee, label):
    """Planted bug: the charges are read before the lock is taken.

    With two cores it overdraws in about half of the rounds (15 of 30), so that 40 rounds miss it
    with a probability of about 1e-12.
    """
    for store in stores:
        if not fits((1.0, 0.0), store.entries(), guarantee):
            raise BudgetExceededError(label)
    for store in stores:
        with store.transaction() as tables:
            _, _, chain = tables.read(store.dataset)
            tables.add(store.dataset, chain, LedgerEntry(guarantee, label))


def spend_all(path, start_together, rounds, charge):
    _ledger.charge = charge  # of this forked process only
    for number in range(rounds):
        ledger = PrivacyLedger(1.0, path=f"{path}{number}")
        start_together.wait(60)
        while ledger.affords(UNIT):
            try:
                ledger.charge(UNIT, str(os.getpid()))
            except BudgetExceededError:
                break


def race(path, rounds, charge, n_processes=3):
    """Race for sixteen charges, in several rounds; how many were made in each."""
    barrier = multiprocessing.get_context("fork").Barrier(n_processes)
    processes = [start(spend_all, path, barrier, rounds, charge) for _ in range(n_processes)]
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    ledgers = [PrivacyLedger(1.0, path=f"{path}{number}") for number in range(rounds)]
    winners = {entry.label for ledger in ledgers for entry in ledger.entries}
    assert len(winners) > 1  # there was a race
    return [len(ledger.entries) for ledger in ledgers]


@pytest.mark.parametrize("rounds", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_processes_that_race_for_a_budget_use_it_up_and_no_more(tmp_path, rounds):
    assert race(tmp_path / "l", rounds, _ledger.charge) == [16] * rounds


@pytest.mark.slow
def test_a_check_outside_of_the_transaction_is_caught_by_the_race(tmp_path):
    assert max(race(tmp_path / "l", 40, charge_without_a_transaction)) > 16


def test_processes_that_create_a_file_together_agree(tmp_path):
    def create(path, together, epsilon):
        together.wait(60)
        for number in range(10):
            ledger = PrivacyLedger(epsilon, path=f"{path}{number}")
            ledger.charge(UNIT)

    for budgets in ((1.0, 1.0, 1.0), (1.0, 2.0)):
        path = tmp_path / str(len(budgets))
        barrier = multiprocessing.get_context("fork").Barrier(len(budgets))
        processes = [start(create, path, barrier, budget) for budget in budgets]
        for process in processes:
            process.join(120)
        failed = [process.exitcode for process in processes].count(1)
        ledgers = [PrivacyLedger.from_file(f"{path}{number}") for number in range(10)]
        assert failed == len(set(budgets)) - 1  # the one that came second
        if len(set(budgets)) == 1:
            assert {len(ledger.entries) for ledger in ledgers} == {3}
        assert not list(tmp_path.glob("*.new*"))


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
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
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
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert not path.exists()
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

    process = start(spill)
    process.join(60)
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

    process = start(fill)
    process.join(60)
    assert process.exitcode == 7
    os.close(writer)
    acknowledged = len(os.read(reader, 4096))
    os.close(reader)
    assert len(PrivacyLedger(1e4, path=path).entries) == 1 + acknowledged
    ledger.charge(UNIT, "after")


def test_two_files_locked_in_opposite_orders_do_not_wait_for_each_other(tmp_path):
    paths = [tmp_path / "one.db", tmp_path / "two.db"]
    for path in paths:
        PrivacyLedger(1e3, path=path)

    def charge(first, second, together):
        with PrivacyLedger(1e3, path=first), PrivacyLedger(1e3, path=second):
            together.wait(60)
            for _ in range(8):
                charge_active_ledger(UNIT)

    barrier = multiprocessing.get_context("fork").Barrier(2)
    processes = [start(charge, *paths[::order], barrier) for order in (1, -1)]
    for process in processes:
        process.join(20)  # less than the time after which a lock is given up
        assert process.exitcode == 0
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
    process = start(search, writer)
    process.join(60)
    os.close(writer)
    finished = len(os.read(reader, 100))
    os.close(reader)
    charged = len(PrivacyLedger.from_file(path).entries)
    assert finished <= charged <= 16
    assert finished >= 1
