"""A ledger in a file: nothing is lost, and a file that is not right is refused by name."""

import json
import os
import shutil
import sqlite3
import threading
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _support.internals import guarantee_from_text, guarantee_to_text
from _support.planted import module_of
from skdpbo.exceptions import (
    BudgetExceededError,
    LedgerError,
    LedgerUnavailableError,
    NewBudgetWarning,
)
from skdpbo.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    charge_active_ledger,
    compose,
    epsilon_from_mu,
)

_store = module_of("ledger store")


def pure(epsilon, **more):
    return PrivacyGuarantee(epsilon=epsilon, **more)


def gaussian(mu, delta=1e-5, **more):
    return PrivacyGuarantee(epsilon=epsilon_from_mu(mu, delta) + 1e-3, delta=delta, mu=mu, **more)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "ledger.db")


def sql(path, statement):
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_charges_are_found_again(path):
    with PrivacyLedger(2.0, 1e-4, path=path) as ledger:
        charge_active_ledger(pure(0.5), "first")
        charge_active_ledger(gaussian(0.1).voided("seeded"), "second")
    again = PrivacyLedger(2.0, 1e-4, path=path)
    assert again.entries == ledger.entries
    assert [entry.label for entry in again.entries] == ["first", "second"]
    assert again.entries[1].guarantee.status == "void"
    assert again.spent() == ledger.spent()
    with pytest.raises(BudgetExceededError, match=r"ledger\.db.*data set 'default'"):
        again.charge(pure(1.9))
    assert PrivacyLedger.from_file(path).remaining() == ledger.remaining()


def test_a_delta_that_is_spent_is_reported(path):
    ledger = PrivacyLedger(6.0, 1e-5, path=path)
    ledger.charge(PrivacyGuarantee(epsilon=1.0, delta=1e-5))
    missing = "It is delta that is missing: .*, such as delta=1e-06, from the first on"
    with pytest.raises(BudgetExceededError, match=missing):
        ledger.charge(PrivacyGuarantee(epsilon=1.0, delta=1e-5))
    with pytest.raises(BudgetExceededError, match=r"nothing was charged\.$"):
        ledger.charge(PrivacyGuarantee(epsilon=7.0, delta=1e-5))  # epsilon is missing, too


def test_two_ledgers_of_one_file_are_one_budget(path):
    one, two = PrivacyLedger(1.0, path=path), PrivacyLedger(1.0, path=path)
    one.charge(pure(0.75))
    assert not two.affords(pure(0.5))
    with one, two:  # nested: charged once
        charge_active_ledger(pure(0.25))
    assert one.entries == two.entries
    assert len(one.entries) == 2


def test_a_symbolic_link_leads_to_one_budget(path, tmp_path):
    ledger = PrivacyLedger(1.0, path=path)
    os.symlink(path, tmp_path / "other")
    other = PrivacyLedger(1.0, path=tmp_path / "other")
    with ledger, other:
        charge_active_ledger(pure(0.5))
    assert len(ledger.entries) == 1


def test_a_file_system_without_links_holds_a_ledger_too(path, monkeypatch):
    def link(*names):
        raise PermissionError

    monkeypatch.setattr(os, "link", link)
    PrivacyLedger(1.0, path=path).charge(pure(0.5))
    assert len(PrivacyLedger(1.0, path=path).entries) == 1
    assert os.listdir(Path(path).parent) == [Path(path).name]


def test_one_file_by_two_names_is_refused(path, monkeypatch):
    """The journal of a process that was killed is beside one of the names only.

    Charges under the other name would be undone when it is played back.
    """
    monkeypatch.setattr(_store, "LINK_SECONDS", 0.02)
    ledger, other = PrivacyLedger(1.0, path=path), path + ".other"
    os.link(path, other)
    with ledger:
        for use in (
            lambda: PrivacyLedger(1.0, path=other),
            lambda: PrivacyLedger.from_file(other),
            lambda: charge_active_ledger(pure(0.5)),
            lambda: ledger.entries,
        ):
            with pytest.raises(LedgerUnavailableError, match="another name"):
                use()
        os.remove(other)
        charge_active_ledger(pure(0.5))
    assert len(ledger.entries) == 1


def test_a_file_with_a_second_name_for_a_moment_is_waited_for(path):
    """So it is while another process creates it."""
    ledger = PrivacyLedger(1.0, path=path)
    os.link(path, path + ".other")
    threading.Timer(0.1, os.remove, [path + ".other"]).start()
    ledger.charge(pure(0.5))
    assert len(ledger.entries) == 1


def test_a_file_that_is_mounted_by_itself_is_refused(path, monkeypatch):
    ledger, listed = PrivacyLedger(1.0, path=path), Path(path).with_name("mounts")
    line = "36 35 98:0 /a {} rw,noatime master:1 - ext4 /dev/root rw\n".format
    honest = open

    def mounts(name, *mode, **how):
        return honest(listed if name == "/proc/self/mountinfo" else name, *mode, **how)

    monkeypatch.setattr("builtins.open", mounts)
    odd = os.path.join(os.path.dirname(path), "Größe 2\\.db")
    for where in (path, odd):
        kept = PrivacyLedger(1.0, path=where)
        escaped = where.replace("\\", "\\134").replace(" ", "\\040")
        listed.write_text(line(os.path.dirname(path)) + line(escaped), encoding="utf-8")
        with pytest.raises(LedgerUnavailableError, match="mounted by itself"):
            kept.charge(pure(0.5))
        listed.write_text(line(os.path.dirname(path)), encoding="utf-8")  # shared as it should be
        kept.charge(pure(0.5))
    listed.unlink()  # another system
    ledger.charge(pure(0.25))


def test_data_sets_have_budgets_of_their_own(path):
    with (
        PrivacyLedger(1.0, path=path, dataset="wards") as wards,
        PrivacyLedger(2.0, path=path, dataset="labs, 2026 <ä>") as labs,
    ):
        charge_active_ledger(pure(0.75))  # of both
        labs.charge(pure(0.25))  # encloses nothing; wards enclose it
        with pytest.raises(BudgetExceededError, match="wards"):
            charge_active_ledger(pure(0.75))
    assert len(wards.entries) == len(labs.entries) == 2
    assert labs.remaining().epsilon == 1.0
    assert PrivacyLedger.from_file(path, "labs, 2026 <ä>").epsilon == 2.0
    with pytest.raises(LedgerError, match=r"no data set 'ward', only .*'wards'"):
        PrivacyLedger.from_file(path, "ward")
    with pytest.raises(LedgerError, match="Name one of the data sets"):
        PrivacyLedger.from_file(path)


def test_another_budget_is_refused(path):
    PrivacyLedger(1.0, 1e-5, path=path)
    for budget in ((2.0, 1e-5), (1.0, 1e-6), (1.0,)):
        with pytest.raises(LedgerError, match=r"ledger\.db.*holds the budget epsilon=1\.0") as info:
            PrivacyLedger(*budget, path=path)
        assert info.value.path == os.path.realpath(path)


def test_fractions_are_kept_exactly(path):
    PrivacyLedger(Fraction(1, 3), path=path)
    again = PrivacyLedger(Fraction(1, 3), path=path)
    assert PrivacyLedger.from_file(path).epsilon == Fraction(1, 3)
    again.charge(pure(Fraction(1, 9)))
    with pytest.raises(LedgerError):
        PrivacyLedger(1 / 3, path=path)


def test_nested_ledgers_of_two_files_and_memory_are_all_charged_or_none(path):
    ledgers = [
        PrivacyLedger(3.0, path=path),
        PrivacyLedger(2.0),
        PrivacyLedger(1.0, path=path + "2"),
    ]
    for order in (ledgers, ledgers[::-1]):
        with order[0], order[1], order[2]:
            charge_active_ledger(pure(0.5))
            with pytest.raises(BudgetExceededError):
                charge_active_ledger(pure(0.75))
    assert [len(ledger.entries) for ledger in ledgers] == [2, 2, 2]


def test_what_cannot_be_written_in_one_is_charged_in_none(path, monkeypatch):
    memory, first, second = (
        PrivacyLedger(3.0),
        PrivacyLedger(3.0, path=path),
        PrivacyLedger(3.0, path=path + "2"),
    )
    with memory, first, second:
        add = _store.Tables.add

        def fail(tables, *charge):
            if tables.path.endswith("2"):
                tables.sql("INSERT INTO datasets VALUES (0)")
            return add(tables, *charge)

        monkeypatch.setattr(_store.Tables, "add", fail)
        with pytest.raises(LedgerError, match=r"ledger\.db2"):
            charge_active_ledger(pure(0.5))
    assert memory.entries == first.entries == second.entries == ()


@pytest.mark.parametrize("what", ["a copy", "a link to a copy", "nothing"])
def test_a_file_that_is_replaced_within_a_charge_is_refused(path, monkeypatch, what):
    ledger, add, copy = filled(path, 2), _store.Tables.add, path + ".copy"
    shutil.copy(path, copy)

    def add_and_replace(tables, *charge):
        end = add(tables, *charge)  # from here on SQLite does not notice
        os.remove(path)
        if what == "a copy":
            os.replace(copy, path)
        elif what == "a link to a copy":
            os.symlink(copy, path)
        return end

    monkeypatch.setattr(_store.Tables, "add", add_and_replace)
    why = "has gone" if what == "nothing" else "was replaced by another file"
    with ledger, pytest.raises(LedgerUnavailableError, match=why):
        charge_active_ledger(pure(0.01))


def test_a_journal_that_was_not_deleted_undoes_no_charge_in_silence(path, monkeypatch):
    """A file system, or a synchronised folder, may bring it back: SQLite then plays it back."""
    ledger, journal, run = filled(path, 2), Path(path + "-journal"), _store.Tables.sql

    def brought_back(tables, statement, *values):
        if statement != "COMMIT":
            return run(tables, statement, *values)
        kept = bytearray(journal.read_bytes())
        # What COMMIT writes first: that the journal is one, of as many pages as it holds.
        kept[:12] = bytes.fromhex("d9d505f920a163d7ffffffff")
        done = run(tables, statement, *values)
        monkeypatch.setattr(_store.Tables, "sql", run)
        journal.write_bytes(kept)
        return done

    monkeypatch.setattr(_store.Tables, "sql", brought_back)
    with ledger, pytest.raises(LedgerError, match="charges that were there before are missing"):
        charge_active_ledger(pure(0.01))
    assert not journal.exists()
    assert len(PrivacyLedger.from_file(path).entries) == 2


def test_files_are_locked_in_one_order(path, monkeypatch):
    ledgers = [PrivacyLedger(3.0, path=path), PrivacyLedger(3.0, path=path + "2")]
    honest, locked = _store.Store.transaction, []

    def noted(store, write=True):
        locked.extend([store.path] * write)
        return honest(store, write)

    monkeypatch.setattr(_store.Store, "transaction", noted)
    for first, second in (ledgers, ledgers[::-1]):
        with first, second:
            charge_active_ledger(pure(0.5))
    assert locked[:2] == locked[2:]
    assert len(set(locked)) == 2


guarantees = st.one_of(
    st.floats(1e-300, 1e3).map(pure),
    st.floats(0.01, 5).map(gaussian),
    st.floats(0.01, 5).map(lambda mu: gaussian(mu).voided("ä\n\u2028\x00")),
    st.builds(
        PrivacyGuarantee,
        epsilon=st.floats(0.01, 9),
        delta=st.floats(1e-6, 0.9),
        statistical_distance=st.sampled_from([0.0, 1e-300, 1e-17]),
        assumptions=st.lists(st.text(max_size=5), max_size=3).map(tuple),
        protects=st.text(max_size=9),
        status=st.sampled_from(["proved", "conditional"]),
    ),
)


@given(st.lists(guarantees, min_size=1, max_size=3))
@settings(max_examples=50, deadline=None)
def test_guarantees_are_written_without_loss(parts):
    for guarantee in (*parts, *([compose(*parts)] if sum(g.delta for g in parts) < 1 else [])):
        again = guarantee_from_text(guarantee_to_text(guarantee))
        assert again == guarantee
        assert again.parts == guarantee.parts


def test_composition_in_a_file_is_that_in_memory(path):
    kept, memory = PrivacyLedger(9.0, 1e-4, path=path), PrivacyLedger(9.0, 1e-4)
    for guarantee in (pure(0.3), gaussian(0.5), compose(gaussian(0.2), pure(0.1)), pure(0.3)):
        kept.charge(guarantee)
        memory.charge(guarantee)
    assert kept.spent() == memory.spent()
    assert kept.entries[2].guarantee.parts == memory.entries[2].guarantee.parts


@pytest.mark.parametrize(
    "content", [b"", b"epsilon,delta\n1,0\n", b"SQLite format 3\x00" + b"\x00" * 4080]
)
def test_a_file_that_is_not_a_ledger_is_refused(path, content):
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(LedgerError, match=r"ledger\.db") as info:
        PrivacyLedger(1.0, path=path)
    assert info.value.path == os.path.realpath(path)
    with open(path, "rb") as file:
        assert file.read() == content


def test_databases_of_others_and_of_later_versions_are_refused(path):
    sql(path, "CREATE TABLE prices (x)")
    with pytest.raises(LedgerError, match="not a ledger of skdpbo"):
        PrivacyLedger(1.0, path=path)
    os.remove(path)
    PrivacyLedger(1.0, path=path)
    sql(path, "PRAGMA user_version = 7")
    with pytest.raises(LedgerError, match="version 7"):
        PrivacyLedger(1.0, path=path)


def test_a_file_in_wal_mode_is_refused_until_it_is_set_back(path):
    ledger = PrivacyLedger(1.0, path=path)
    sql(path, "PRAGMA journal_mode = WAL")
    # While somebody looks at it a charge is kept beside the file, which may be moved without it.
    reader = sqlite3.connect(path)
    reader.execute("SELECT * FROM charges").fetchall()
    for use in (lambda: ledger.charge(pure(1.0)), lambda: PrivacyLedger.from_file(path)):
        with pytest.raises(LedgerError, match="WAL mode"):
            use()
    reader.close()
    sql(path, "PRAGMA journal_mode = DELETE")
    ledger.charge(pure(1.0))
    os.rename(path, path + ".moved")
    assert PrivacyLedger.from_file(path + ".moved").spent().epsilon == 1.0


def test_a_directory_and_a_missing_directory_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "no" / "ledger.db"):
        with pytest.raises(LedgerError, match="privacy ledger"):
            PrivacyLedger(1.0, path=path)
    with pytest.raises(LedgerError, match="has gone"):
        PrivacyLedger.from_file(tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_has_gone_is_not_made_anew(path):
    with PrivacyLedger(1.0, path=path) as ledger:
        charge_active_ledger(pure(0.5))
        os.remove(path)
        with pytest.raises(LedgerError, match="has gone"):
            charge_active_ledger(pure(0.5))
        with pytest.raises(LedgerError, match="has gone"):
            ledger.remaining()
    assert not os.path.exists(path)


def filled(path, n_charges=40):
    ledger = PrivacyLedger(1.0, path=path)
    for number in range(n_charges):
        ledger.charge(pure(0.01), f"release {number}")
    return ledger


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM charges WHERE number = 3",
        "DELETE FROM charges WHERE number = 10",
        "DELETE FROM charges",
        "UPDATE charges SET guarantee = replace(guarantee, '0.01', '0.001') WHERE number = 1",
        "UPDATE charges SET number = 99 WHERE number = 2",
        "UPDATE charges SET dataset = 'other'",
        "UPDATE datasets SET epsilon = '9.0'",
        "UPDATE datasets SET epsilon = 'many'",
        "UPDATE datasets SET identity = 'second'",
        "UPDATE charges SET label = '', digest = '' WHERE number = 9",
        "UPDATE datasets SET head = ''",
        "DELETE FROM datasets",
        "DROP TABLE charges",
    ],
)
def test_changed_rows_are_refused(path, change):
    ledger = filled(path, 10)
    sql(path, change)
    with pytest.raises(LedgerError, match=r"ledger\.db"):
        ledger.charge(pure(0.01))
    with pytest.raises(LedgerError, match=r"ledger\.db"):
        PrivacyLedger(1.0, path=path)


def test_truncated_files_are_refused(path):
    filled(path)
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        content = file.read()
    for length in {0, 50, 100, 511, 512, size // 4, size // 2, size - 4096, size - 1}:
        with open(path, "wb") as file:
            file.write(content[:length])
        with pytest.raises(LedgerError, match=r"ledger\.db"):
            PrivacyLedger(1.0, path=path)


def test_pages_that_hold_no_charge_are_checked(path, monkeypatch):
    filled(path)
    with open(path, "r+b") as file:  # the number of free pages, which no query reads
        file.seek(36)
        file.write((7).to_bytes(4, "big"))
    for _ in range(2):
        with pytest.raises(LedgerError, match="is damaged"):
            PrivacyLedger(1.0, path=path)
    # Planted bug: what SQLite finds is not read; all charges are there.
    monkeypatch.setattr(_store.Tables, "check_pages", lambda tables: None)
    assert PrivacyLedger(1.0, path=path).entries


@pytest.mark.slow
def test_flipped_bytes_are_refused_or_harmless(path, tmp_path):
    """Either the damage is found, or the charges are read as they were written."""
    written = filled(path).entries
    with open(path, "rb") as file:
        content = bytearray(file.read())
    refused = 0
    for position in range(0, len(content), 127):
        copy = str(tmp_path / "copy.db")
        damaged = content.copy()
        damaged[position] ^= 0x5A
        with open(copy, "wb") as file:
            file.write(damaged)
        try:
            ledger = PrivacyLedger(1.0, path=copy)
            assert ledger.entries == written
            ledger.charge(pure(0.01))
        except LedgerError:
            refused += 1
        os.remove(copy)
    assert refused > 10


def test_a_read_only_file_is_refused(path, monkeypatch):
    ledger = filled(path, 2)
    _make_read_only(monkeypatch)
    with pytest.raises(LedgerError, match="readonly"):
        PrivacyLedger(1.0, path=path)
    with pytest.raises(LedgerError, match="readonly"):
        ledger.charge(pure(0.01))
    assert len(ledger.entries) == 2


def _make_read_only(monkeypatch):
    """Open files as a user without the right to write does; the tests may run as root."""
    connect = sqlite3.connect

    def read_only(database, **how):
        return connect(database.replace("mode=rw", "mode=ro"), **how)

    monkeypatch.setattr(sqlite3, "connect", read_only)


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 0)() == 0, reason="root may write everywhere")
def test_a_file_without_the_right_to_write_is_refused(path):
    filled(path, 1)
    os.chmod(path, 0o444)
    with pytest.raises(LedgerError, match="readonly"):
        PrivacyLedger(1.0, path=path)


def test_a_full_disk_is_refused_and_the_old_charges_stay(path, monkeypatch):
    ledger = filled(path, 10)
    connect = sqlite3.connect

    def full(*arguments, **how):
        connection = connect(*arguments, **how)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", full)
        before = ledger.entries
        with pytest.raises(LedgerError, match="is full"):
            ledger.charge(pure(0.01), "x" * 50_000)
        assert ledger.entries == before
    ledger.charge(pure(0.01))
    assert ledger.entries[:-1] == before


def test_a_temporary_ledger_needs_a_place(monkeypatch):
    monkeypatch.setattr(_store.tempfile, "mkdtemp", lambda prefix: os.stat("/no such place"))
    with pytest.raises(LedgerUnavailableError, match=r"needs a temporary directory: .*No such"):
        PrivacyLedger(1.0)


def test_a_lock_that_is_not_released_is_an_error(path, monkeypatch):
    ledger = filled(path, 1)
    monkeypatch.setattr(_store, "BUSY_SECONDS", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="is locked"):
        ledger.charge(pure(0.01))
    assert len(ledger.entries) == 1  # reading is possible
    other.close()
    ledger.charge(pure(0.01))


def test_nothing_is_released_when_the_charge_cannot_be_kept(path):
    ledger = filled(path, 1)
    released = []

    def fit():
        charge_active_ledger(pure(0.01))
        released.append("model")

    with ledger:
        os.truncate(path, 100)
        with pytest.raises(LedgerError, match="may be released"):
            fit()
    assert released == []


def test_a_copy_of_the_file_is_a_backup(path, tmp_path):
    ledger = filled(path, 3)
    shutil.copy(path, tmp_path / "backup.db")
    assert PrivacyLedger.from_file(tmp_path / "backup.db").entries == ledger.entries


def test_text_and_export(path):
    ledger = PrivacyLedger(Fraction(5, 2), 1e-4, path=path, dataset="<wards>")
    assert str(ledger) == repr(ledger)
    ledger.charge(gaussian(0.3, protects="training records"), "<b>fit</b>")
    ledger.charge(pure(0.5), "search")
    assert "search" in str(ledger)
    assert "left epsilon=" in str(ledger)
    assert f"path={os.path.realpath(path)!r}" in repr(ledger)
    page = ledger._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;fit" in page
    assert "&lt;wards&gt;" in page
    exported = json.loads(json.dumps(ledger.to_dict()))
    assert exported == ledger.to_dict()
    assert (exported["version"], exported["neighbours"]) == (1, "replace-one")
    assert exported["composition"] == "sequential, of 2 releases"
    assert exported["epsilon"] == "5/2"
    assert exported["remaining"]["epsilon"] == ledger.remaining().epsilon
    assert exported["entries"][0]["guarantee"]["mu"] == 0.3
    assert exported["entries"][0]["charged_at"].endswith("+00:00")


@pytest.mark.parametrize(("name", "error"), [(3, TypeError), ("\ud800", ValueError)])
def test_names_and_labels_are_text(path, name, error):
    with pytest.raises(error):
        PrivacyLedger(1.0, path=path, dataset=name)
    assert not os.path.exists(path)
    ledger = PrivacyLedger(1.0, path=path)
    with pytest.raises(error):
        ledger.charge(pure(0.1), name)
    assert ledger.entries == ()


def test_the_only_data_set_of_a_file_needs_no_name(tmp_path):
    PrivacyLedger(epsilon=2.0, path=tmp_path / "ledger", dataset="wards 2026")
    assert PrivacyLedger.from_file(tmp_path / "ledger").dataset == "wards 2026"


def test_a_mistyped_data_set_is_reported_and_as_an_error_not_made(path):
    PrivacyLedger(epsilon=1, path=path, dataset="wards 2026")
    with pytest.raises(NewBudgetWarning, match="'wards 2026'"):  # warnings are errors here
        PrivacyLedger(epsilon=1, path=path, dataset="ward 2026")
    with pytest.raises(LedgerError, match="no data set"):
        PrivacyLedger.from_file(path, "ward 2026")
    with pytest.warns(NewBudgetWarning) as warned:
        PrivacyLedger(epsilon=1, path=path, dataset="ward 2026")
    assert [warning.filename for warning in warned] == [__file__]
    PrivacyLedger(epsilon=1, path=path, dataset="ward 2026")  # known now
    PrivacyLedger(epsilon=1, path=path, dataset="theatres")  # not similar
    PrivacyLedger(epsilon=1, path=path, dataset="été")
    for same in ("e\u0301te\u0301", "ÉTÉ", "ete"):  # the first one looks the same
        with pytest.warns(NewBudgetWarning, match="beside that of 'été'"):
            PrivacyLedger(epsilon=1, path=path, dataset=same)


def test_a_charge_lasts_through_a_power_failure_in_a_file_that_is_kept(path):
    ledger = PrivacyLedger(1.0, path=path)
    with ledger._store.transaction() as tables:
        assert tables.sql("PRAGMA synchronous") == [(3,)]  # EXTRA


def test_a_budget_that_was_removed_is_not_made_anew(path):
    PrivacyLedger(1.0, path=path).charge(pure(0.5))
    sql(path, "DELETE FROM datasets")
    with pytest.raises(LedgerError, match="a row was changed or is missing"):
        PrivacyLedger(1.0, path=path)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("column", ["charged_at", "label", "guarantee", "digest"])
def test_an_open_ledger_sees_that_a_charge_it_has_read_was_changed(path, number, column):
    ledger = PrivacyLedger(1.0, path=path)
    for epsilon in (0.25, 0.125, 0.0625):
        ledger.charge(pure(epsilon), "charge")
    assert len(ledger.entries) == 3
    sql(path, f"UPDATE charges SET {column} = {column} || ' ' WHERE number = {number}")
    for _ in range(2):
        with pytest.raises(LedgerError, match="a row was changed or is missing"):
            ledger.charge(pure(0.01))
        with pytest.raises(LedgerError, match="a row was changed or is missing"):
            _ = ledger.entries


def test_a_charge_digests_what_is_new_alone_and_all_of_another_handle(path, monkeypatch):
    ledger, other = PrivacyLedger(1.0, path=path), PrivacyLedger(1.0, path=path)
    digests = []
    written = _store._digest
    monkeypatch.setattr(_store, "_digest", lambda *row: digests.append(row) or written(*row))
    for count in range(1, 8):
        digests.clear()
        ledger.charge(pure(0.01), "charge")
        assert len(digests) == 4  # of the budget, read twice, and of the new row, once written
        assert len(ledger.entries) == count
    assert other.entries == ledger.entries == PrivacyLedger(1.0, path=path).entries
    assert ledger.spent() == other.spent() == PrivacyLedger(1.0, path=path).spent()
