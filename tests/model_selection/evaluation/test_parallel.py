"""Tasks are done, whatever becomes of the workers that joblib gives them to."""

import os
import signal

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from sklearn.dummy import DummyClassifier

from _support.internals import in_isolation, run_isolated, run_tasks
from _support.planted import put
from skdpbo import DPGridSearchCV
from skdpbo.privacy import PrivacyLedger

HOW = {"n_jobs": 2, "pre_dispatch": "all"}


class Unsendable(str):
    """A text that no process can be sent."""

    def __reduce_ex__(self, protocol):
        raise RuntimeError("SECRET")


def where(_):
    return os.getpid()


def dies_once(flag, parent):
    if os.getpid() != parent and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def dies_always(number, parent):
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def power_in_a_loop(number, exponent):
    """Return a power from a parallel loop, as some estimators have one in ``fit``."""
    return Parallel(n_jobs=2)(delayed(pow)(number, exponent) for _ in range(2))[1]


def processes_of_a_loop():
    return set(Parallel(n_jobs=2)(delayed(os.getpid)() for _ in range(4)))


def fails(number):
    raise ValueError(f"task {number}")


def processes_of_isolated_tasks():
    with parallel_config(backend="loky"):
        return {*run_isolated(where, [(k,) for k in range(4)], **HOW)}


class TestRunTasks:
    @pytest.mark.parametrize("backend", ["sequential", "threading"])
    def test_results_are_in_order(self, backend):
        with parallel_config(backend=backend):
            assert run_tasks(pow, [(k, 2) for k in range(7)], **HOW) == [k**2 for k in range(7)]

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(
        "backend",
        ["threading", pytest.param("multiprocessing", marks=pytest.mark.slow), "loky"],
    )
    @pytest.mark.parametrize(("task", "n_jobs"), [(pow, 2), (power_in_a_loop, 1)])
    def test_the_pool_of_the_loop_around_stays_open(self, backend, task, n_jobs):
        # scikit-learn's searches hold one loop open for all their rounds. As in ours, it has the
        # same max_nbytes: where that changes, joblib starts all workers anew.
        block = parallel_config(backend=backend, n_jobs=2, max_nbytes=None)
        with block, Parallel() as around:
            assert around(delayed(abs)(-k) for k in range(3)) == [0, 1, 2]
            how = HOW | {"n_jobs": n_jobs}
            assert run_tasks(task, [(k, 2) for k in range(4)], **how) == [0, 1, 4, 9]
            assert in_isolation(task, 3, 2) == 9
            assert around(delayed(abs)(-k) for k in range(3)) == [0, 1, 2]

    def test_the_loop_of_an_estimator_starts_no_process(self):
        # What it printed on protected rows would not be silenced.
        assert in_isolation(processes_of_a_loop) == {os.getpid()}
        (inside,) = run_tasks(processes_of_a_loop, [()], **HOW | {"n_jobs": 1})
        assert inside == {os.getpid()}

    def test_a_task_that_asks_for_workers_itself_gets_none(self):
        """Threads would wait for the lock that it holds, and processes not be silenced."""
        assert in_isolation(processes_of_isolated_tasks) == {os.getpid()}

    def test_workers_are_used(self):
        # Where workers cannot import the tests, the tasks would be done here without a word.
        assert os.getpid() not in run_tasks(where, [(k,) for k in range(4)], **HOW)

    @pytest.mark.slow
    @pytest.mark.parametrize("n_jobs", [None, 2])
    def test_what_cannot_be_sent_is_done_here(self, n_jobs):
        # As an argument, n_jobs=None means the configured workers, not this process.
        with parallel_config(backend="loky", n_jobs=2):
            assert run_tasks(where, [(Unsendable(),)], **HOW | {"n_jobs": n_jobs}) == [os.getpid()]

    @pytest.mark.slow
    def test_tasks_of_a_killed_worker_are_sent_again(self, tmp_path):
        tasks = [(tmp_path / "flag", os.getpid())] * 4
        with parallel_config(backend="loky"):
            processes = run_tasks(dies_once, tasks, **HOW)
        assert (tmp_path / "flag").exists()
        assert os.getpid() not in processes

    @pytest.mark.slow
    def test_tasks_that_kill_workers_are_done_here(self):
        with parallel_config(backend="loky"):
            assert run_tasks(dies_always, [(k, os.getpid()) for k in range(3)], **HOW) == [0, 1, 2]

    def test_own_errors_come_out_without_those_of_joblib(self):
        with pytest.raises(ValueError, match="task 0") as failure:
            run_tasks(fails, [(0,), (1,)], n_jobs=None, pre_dispatch="all")
        assert failure.value.__context__ is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
class TestSearch:
    X, y = np.array([["a"], ["b"]] * 20, dtype=object), np.arange(40) % 2

    def fit(self, record):
        X_val = self.X.copy()
        X_val[3, 0] = record
        space = {"strategy": ["prior", "uniform"]}
        # joblib 1.3.0 does not tell a search of configured jobs.
        search = DPGridSearchCV(DummyClassifier(), space, guide=False, n_jobs=2)
        with parallel_config(backend="loky", n_jobs=2), PrivacyLedger(epsilon=1.0) as ledger:
            search.fit(self.X, self.y, X_val=X_val, y_val=self.y)
        return len(ledger.entries)

    def test_a_record_that_cannot_be_sent_changes_nothing(self):
        assert self.fit("b") == self.fit(Unsendable("b")) == 1

    def test_an_attempt_in_the_configured_workers_only_is_found(self, monkeypatch):
        put(monkeypatch, "parallel: _done_here", lambda *_: pytest.fail("no worker left"))
        with pytest.raises(pytest.fail.Exception):
            self.fit(Unsendable("b"))
