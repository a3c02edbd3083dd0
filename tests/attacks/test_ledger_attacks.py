"""Attacks on the ledger: a fit that is released and not charged.

Every estimator here was created, cloned, pickled or fitted under a ledger. Wherever and whenever
it is fitted, the fit is charged there or refused.
"""

import multiprocessing
import os
import pickle
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import joblib
import numpy as np
import pytest
import sklearn
from joblib.externals import loky
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

import _support
from _support.forks import fork, forking
from _support.paid import ROWS, Paid, fit, fit_a_clone, fit_again, fit_and_die, fit_late
from skdpbo.exceptions import BudgetExceededError, LedgerError
from skdpbo.model_selection import DPGridSearchCV
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger

pytestmark = [
    forking,
    pytest.mark.filterwarnings("ignore"),
]
UNIT = PrivacyGuarantee(epsilon=0.125)
REFUSALS = {"BudgetExceededError", "LedgerError", "LedgerUnavailableError"}


class ForkedPool:
    """`multiprocessing.Pool` with the methods of an executor."""

    def __init__(self, n):
        self.pool = multiprocessing.get_context("fork").Pool(n)

    def submit(self, function, *arguments):
        result = self.pool.apply_async(function, arguments)
        result.result = result.get
        return result

    def shutdown(self):
        self.pool.terminate()
        self.pool.join()


def processes(method):
    context = multiprocessing.get_context(method)
    # A server imports the package once for all of its processes, which inherit nothing else.
    context.set_forkserver_preload(["_support.paid"])
    return lambda n: ProcessPoolExecutor(n, mp_context=context)


POOLS = {
    "threads": ThreadPoolExecutor,
    "forked executor": processes("fork"),
    "forked pool": ForkedPool,
    "spawned executor": processes("spawn"),
    "fork server": processes("forkserver"),
    "loky": loky.ProcessPoolExecutor,
}
QUICK = ("threads", "forked executor", "forked pool")
quick_pools = pytest.mark.parametrize("pool", QUICK)


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    return PrivacyLedger(1.0, path=tmp_path / "ledger" if request.param == "file" else None)


@contextmanager
def workers(kind, n=1):
    pool = POOLS[kind](n)
    try:
        pool.submit(abs, 1).result()  # its processes exist
        yield pool
    finally:
        pool.shutdown()


def assert_charged(ledger, answers, budget=8):
    """As many charges as releases; what is not released was refused."""
    released = answers.count("released")
    assert set(answers) <= {"released", *REFUSALS}
    assert len(ledger.entries) == released == min(len(answers), budget)


class TestPools:
    """Pools that were made before the block, in it, and that outlive it."""

    @pytest.mark.quick_cases(1)
    @quick_pools
    def test_jobs_inside_the_block(self, ledger, pool):
        with workers(pool, 2) as early:
            self.jobs_inside(ledger, pool, early)

    def jobs_inside(self, ledger, pool, early):
        with ledger, workers(pool, 2) as late:
            tasks = [(where, job) for where in (early, late) for job in (fit, fit_a_clone)] * 3
            jobs = [where.submit(job, Paid()) for where, job in tasks]
            assert_charged(ledger, [job.result() for job in jobs])

    @pytest.mark.quick_cases(1)
    @quick_pools
    def test_jobs_that_end_after_the_block(self, ledger, pool):
        with workers(pool) as early:
            self.jobs_that_end_after(ledger, early)

    def jobs_that_end_after(self, ledger, early):
        with ledger:
            jobs = [early.submit(fit_late, Paid()) for _ in range(3)]
        assert_charged(ledger, [job.result() for job in jobs])

    @pytest.mark.quick_cases(2)
    @quick_pools
    def test_made_inside_and_fitted_outside(self, ledger, pool):
        with ledger:
            models = [Paid(), clone(Paid()), pickle.loads(pickle.dumps(Paid()))]
        with workers(pool) as late:
            jobs = [late.submit(job, model) for job in (fit, fit_a_clone) for model in models]
            assert_charged(ledger, [job.result() for job in jobs])

    @pytest.mark.quick_cases(2)
    @quick_pools
    def test_models_that_workers_hand_back(self, ledger, pool):
        with ledger, workers(pool) as late:
            fitted = [late.submit(Paid().fit, ROWS).result() for _ in range(3)]
            answers = ["released"] * 3 + [fit(model) for model in fitted]
            answers += [late.submit(fit, model).result() for model in fitted]
        assert_charged(ledger, answers)

    @pytest.mark.slow
    @pytest.mark.parametrize("pool", [kind for kind in POOLS if kind not in QUICK])
    def test_processes_that_inherit_nothing(self, tmp_path, pool):
        """All of the above. They take seconds to start: those before the blocks serve them all."""
        with workers(pool, 2) as early:
            for kind in ("memory", "file"):
                paths = [None if kind == "memory" else tmp_path / str(i) for i in range(4)]
                ledgers = [PrivacyLedger(1.0, path=path) for path in paths]
                self.jobs_inside(ledgers[0], pool, early)
                self.jobs_that_end_after(ledgers[1], early)
                self.test_made_inside_and_fitted_outside(ledgers[2], pool)
                self.test_models_that_workers_hand_back(ledgers[3], pool)

    @pytest.mark.slow
    def test_a_forked_pool_and_then_workers_of_joblib(self, ledger):
        with ledger:
            with workers("forked pool", 1) as pool:
                pool.submit(Paid().fit, ROWS).result()
            cross_val_score(Paid(), ROWS, ROWS[:, 0], cv=2, n_jobs=2, error_score="raise")
            with joblib.parallel_backend("multiprocessing"):
                cross_val_score(Paid(), ROWS, ROWS[:, 0], cv=2, n_jobs=2, error_score="raise")
        assert len(ledger.entries) == 5


def elsewhere(state, times=1, prefix=()):
    """Load and fit a pickle, a number of times, in a process that inherits nothing."""
    if not prefix:  # forked by a server that has imported the package, and nothing else
        with processes("forkserver")(1) as pool:
            return pool.submit(fit_again, state, times).result()
    code = "import pickle, sys; from _support.paid import fit; state = sys.stdin.buffer.read(); "
    code += f"print(*(fit(pickle.loads(state)) for _ in range({times})))"
    path = os.pathsep.join([str(Path(_support.__file__).parents[1]), *filter(None, sys.path)])
    result = subprocess.run(
        [*prefix, sys.executable, "-W", "ignore", "-c", code],
        input=state,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": path},
        check=True,
    )
    return result.stdout.decode().split()


AT_EXIT = """
import atexit, sys
from _support.paid import Paid, fit
from skdpbo.privacy import PrivacyLedger
made = []
atexit.register(lambda: print(fit(made[0]), len(ledger.entries)))  # runs after those of later ones
ledger = PrivacyLedger(1.0, path=sys.argv[1])
with ledger:
    made.append(Paid())
"""


@pytest.mark.slow
def test_a_fit_at_the_end_of_the_process(tmp_path):
    path = os.pathsep.join([str(Path(_support.__file__).parents[1]), *filter(None, sys.path)])
    run = [sys.executable, "-W", "ignore", "-c", AT_EXIT, tmp_path / "ledger"]
    environment = {**os.environ, "PYTHONPATH": path}
    result = subprocess.run(run, env=environment, capture_output=True, check=True)
    assert result.stdout.split() == [b"released", b"1"]


class TestElsewhere:
    """Processes that share no memory with the one that opened the ledger."""

    @pytest.mark.quick_cases(1)
    def test_a_pickle_on_the_disk(self, ledger, tmp_path):
        with ledger:
            (tmp_path / "model").write_bytes(pickle.dumps(Paid(0.5)))
        state = (tmp_path / "model").read_bytes()
        assert elsewhere(state, 3) == ["released", "released", "BudgetExceededError"]
        assert len(ledger.entries) == 2

    def test_a_temporary_directory_that_is_out_of_reach(self):
        with PrivacyLedger(1.0) as ledger:
            state = pickle.dumps(Paid())
        directory = Path(ledger._store.path).parent
        hidden = directory.rename(f"{directory}.hidden")
        assert elsewhere(state) == ["LedgerUnavailableError"]
        assert fit(Paid()) == "released"  # it belongs to no ledger
        assert fit(pickle.loads(state)) == "LedgerUnavailableError"
        hidden.rename(directory)
        assert ledger.entries == ()
        shutil.rmtree(directory)
        assert fit(pickle.loads(state)) == "LedgerUnavailableError"
        with pytest.raises(LedgerError):
            ledger.charge(UNIT)

    @pytest.mark.slow
    def test_another_namespace_of_processes(self, tmp_path):
        prefix = ("unshare", "-Urpf", "--mount-proc")
        if shutil.which("unshare") is None or subprocess.run([*prefix, "true"]).returncode:
            pytest.skip("no namespaces here")
        with PrivacyLedger(1.0, path=tmp_path / "ledger") as ledger:
            state = pickle.dumps(Paid(0.5))
            answers = [fit(pickle.loads(state)), *elsewhere(state, 2, prefix)]
        assert answers == ["released", "released", "BudgetExceededError"]
        assert len(ledger.entries) == 2

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("kept", [False, True])
    def test_the_ledger_of_a_process_that_was_killed(self, tmp_path, kept):
        path = tmp_path / "ledger" if kept else None
        reader, writer = os.pipe()
        child = fork()
        if child == 0:
            with PrivacyLedger(0.125, path=path):
                model = Paid().fit(ROWS)  # the budget is used up
                os.write(writer, pickle.dumps(model))
                signal.pause()  # until it is killed
            os._exit(0)
        state = os.read(reader, 10**5)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert [fit(pickle.loads(state)), *elsewhere(state)] == ["BudgetExceededError"] * 2

    def test_what_is_carried_does_not_hide_the_ledger_that_is_open(self, tmp_path):
        with PrivacyLedger(9.0, path=tmp_path / "old"):
            state = pickle.dumps(Paid())
        with PrivacyLedger(9.0) as ledger, ThreadPoolExecutor(1) as pool:
            for _ in range(3):
                assert pool.submit(fit, pickle.loads(state)).result() == "released"
            (tmp_path / "old").unlink()
            assert pool.submit(fit, pickle.loads(state)).result() == "LedgerUnavailableError"
        assert len(ledger.entries) == 3

    def test_a_charge_while_the_block_is_left(self, ledger, monkeypatch):
        """The worker has checked and not yet written when the block ends."""
        checked, closed, answers = threading.Event(), threading.Event(), []
        honest = Paid.fit

        def slow(self, X, y=None):
            checked.set()
            closed.wait(120)
            return honest(self, X, y)

        monkeypatch.setattr(Paid, "fit", slow)
        with ledger:
            worker = threading.Thread(target=lambda: answers.append(fit(model)))
            model = Paid()
            worker.start()
            checked.wait(120)
        closed.set()
        worker.join()
        assert_charged(ledger, answers)


class TestNestedSearches:
    """An inner private search that is given protected rows of its own."""

    def fit(self, epsilon, inner_rows=True, **options):
        rng = np.random.RandomState(0)  # public randomness
        X, Y = rng.normal(size=(60, 2)), np.arange(60) % 2
        inner = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, epsilon=5.0, cv=2)
        inner.set_fit_request(X_val="inner_X_val", y_val="inner_y_val")
        outer = DPGridSearchCV(
            inner, {"estimator__fit_intercept": [True, False]}, epsilon=1.0, cv=2, **options
        )
        rows = {"inner_X_val": X[:21], "inner_y_val": Y[:21]} if inner_rows else {}
        with PrivacyLedger(epsilon) as ledger:
            try:
                outer.fit(X, Y, X_val=X[21:], y_val=Y[21:], **rows)
            except (BudgetExceededError, ValueError) as error:
                return ledger, error
        return ledger, None

    @pytest.fixture(autouse=True)
    def routing(self):
        with sklearn.config_context(enable_metadata_routing=True):
            yield

    def test_every_inner_fit_is_charged(self, monkeypatch):
        honest, fits = DPGridSearchCV.fit, []

        def counted(search, *rows, **params):
            fits.append(search.epsilon)
            return honest(search, *rows, **params)

        monkeypatch.setattr(DPGridSearchCV, "fit", counted)
        ledger, error = self.fit(1000.0)
        assert error is None
        assert sorted(fits) == sorted(entry.guarantee.epsilon for entry in ledger.entries)
        assert fits.count(5.0) >= 6  # two candidates in two folds; two trained on all public rows

    def test_the_inner_fits_that_no_ledger_can_pay_are_refused(self):
        ledger, error = self.fit(2.0)
        assert "does not fit" in repr(error)
        assert ledger.spent().epsilon <= 1.0

    @pytest.mark.slow
    def test_rows_of_the_outer_search_are_paid_for_once(self):
        ledger, _ = self.fit(1000.0, inner_rows=False)
        assert [entry.guarantee.epsilon for entry in ledger.entries] == [1.0]


class TestTampering:
    """The ledger detects accidents and what a process has read; not an attacker who may write."""

    def edit(self, path, script):
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(script)

    def test_the_last_charge_is_removed_and_the_head_set_back(self, tmp_path):
        path = tmp_path / "ledger"
        ledger = PrivacyLedger(1.0, path=path)
        for _ in range(2):
            ledger.charge(UNIT)
        self.edit(
            path,
            "DELETE FROM charges WHERE number = 2; UPDATE datasets SET "
            "head = (SELECT digest FROM charges WHERE number = 1)",
        )
        with pytest.raises(LedgerError, match="there before"):
            ledger.charge(UNIT)
        # A process that never read it cannot see it: docs/ledger.md says so.
        assert len(PrivacyLedger.from_file(path).entries) == 1

    @pytest.mark.parametrize(
        "script",
        [
            "CREATE TRIGGER t AFTER UPDATE ON datasets BEGIN DELETE FROM charges; END",
            "CREATE VIEW v AS SELECT * FROM charges",
            "ALTER TABLE charges ADD COLUMN more TEXT",
            "CREATE TABLE identity (id TEXT)",
            "CREATE INDEX i ON charges (label)",
        ],
    )
    def test_tables_that_were_changed(self, tmp_path, script):
        path = tmp_path / "ledger"
        ledger = PrivacyLedger(1.0, path=path)
        self.edit(path, script)
        for use in (lambda: ledger.charge(UNIT), lambda: PrivacyLedger.from_file(path)):
            with pytest.raises(LedgerError, match="tables were changed"):
                use()


class TestSoak:
    """Many fits in several kinds of pools, some in workers that are killed on the way.

    A worker notes a release after its fit, so that a kill may cost one charge without a release;
    a release without a charge fails the test.
    """

    # Least number of kills.
    KINDS = {"threads": 0, "forked executor": 5, "forked pool": 5, "loky": 4}

    def soak(self, kind, ledger, released, n_fits, rng):
        """Return the number of kills."""
        kills, fewest = 0, self.KINDS[kind]
        while done(released) < n_fits or kills < fewest:
            with workers(kind, 2) as pool:
                try:
                    with ledger:
                        model = clone(Paid(1e-3))
                        jobs = [pool.submit(fit, model, released) for _ in range(64)]
                    for job in jobs:
                        job.result(600)  # no worker is lost yet
                    if kind != "threads":
                        kills += 1
                        pool.submit(fit_and_die, model, released, rng.uniform(0, 0.2)).result(1)
                except (BrokenExecutor, TimeoutError, multiprocessing.TimeoutError):
                    pass  # the pool has lost a worker
        return kills

    @pytest.mark.slow
    @pytest.mark.parametrize("kept", [False, True])
    def test_every_release_is_charged(self, tmp_path, kept):
        rng = random.Random(0)  # public randomness
        ledger = PrivacyLedger(1e3, path=tmp_path / "ledger" if kept else None)
        total = kills = 0
        for kind in self.KINDS:
            before, released = len(ledger.entries), tmp_path / kind
            found = self.soak(kind, ledger, str(released), 250, rng)
            charged = len(ledger.entries) - before
            print(f"{kind}: released {done(released)}, charged {charged}, kills {found}")
            assert 0 <= charged - done(released) <= found
            total, kills = total + done(released), kills + found
        assert total >= 1000
        assert kills > 10


def done(path):
    """Number of releases that were noted."""
    return os.path.getsize(path) if os.path.exists(path) else 0
