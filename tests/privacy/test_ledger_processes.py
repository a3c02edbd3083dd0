"""A ledger and other threads and processes: what they spend is counted, or refused."""

import copy
import gc
import os
import pickle
import signal
import threading
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from skdpbo.exceptions import BudgetExceededError, LedgerError, PublicTrainingWarning
from skdpbo.gaussian_process import DPSparseGPRegressor
from skdpbo.model_selection import DPGridSearchCV
from skdpbo.privacy import (
    LedgerMixin,
    PrivacyGuarantee,
    PrivacyLedger,
    _ledger_scope,
    charge_active_ledger,
    charged_elsewhere,
)

X, Y = np.zeros((12, 1)), np.zeros(12)
forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


class Paid(LedgerMixin, RegressorMixin, BaseEstimator):
    """A regressor that costs epsilon and looks at nothing."""

    def __init__(self, epsilon=0.125):
        self.epsilon = epsilon

    def fit(self, X, y=None):
        charge_active_ledger(PrivacyGuarantee(epsilon=self.epsilon), "Paid", self)
        self.process_ = os.getpid()
        return self

    def predict(self, X):
        return np.zeros(len(X))


class Forgetful(RegressorMixin, BaseEstimator):
    """Planted bug: copies do not know of the block."""

    fit = Paid.fit
    epsilon = 0.125


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    return PrivacyLedger(100.0, path=tmp_path / "l.db" if request.param == "file" else None)


def in_thread(function):
    """Result of a call in a thread without any context of this one, or its error."""
    result = []

    def work():
        try:
            result.append(function())
        except Exception as error:
            result.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return result[0]


def in_another_process(monkeypatch, state):
    """Load and fit a pickle where nothing is known of this process but its files."""
    with monkeypatch.context() as patched:
        patched.setattr(_ledger_scope, "PROCESS", _ledger_scope._Process())
        patched.setattr(_ledger_scope, "_OPEN", {})
        return in_thread(lambda: pickle.loads(state).fit(X))


def searches(n_jobs):
    grid = GridSearchCV(
        Paid(), {"epsilon": [0.125, 0.25]}, cv=2, n_jobs=n_jobs, error_score="raise"
    )
    grid.fit(X, Y)
    assert vars(grid.best_estimator_).keys() == {"epsilon", "process_"}
    pipeline = make_pipeline(FunctionTransformer(), Paid())
    cross_val_score(pipeline, X, Y, cv=6, n_jobs=n_jobs, error_score="raise")


@pytest.mark.parametrize(
    ("backend", "n_jobs"),
    [
        ("loky", 1),
        ("threading", 2),
        pytest.param("loky", 2, marks=pytest.mark.slow),
        pytest.param("multiprocessing", 2, marks=pytest.mark.slow),
    ],
)
def test_what_plain_searches_spend_is_counted(ledger, backend, n_jobs):
    with ledger, joblib.parallel_backend(backend):
        searches(n_jobs)
        assert len(ledger.entries) == 11
    assert len(ledger.entries) == 11
    assert ledger.spent().epsilon == 2 * 0.125 + 2 * 0.25 + 0.125 + 6 * 0.125
    searches(1)  # outside
    assert len(ledger.entries) == 11


@pytest.mark.slow
def test_worker_processes_do_not_overdraw(ledger):
    with ledger:
        ledger.charge(PrivacyGuarantee(epsilon=99.5))
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            scores = cross_val_score(Paid(), X, Y, cv=6, n_jobs=2)
        assert np.isnan(scores).sum() == 2
        with pytest.raises(BudgetExceededError, match="does not fit"):
            cross_val_score(Paid(), X, Y, cv=2, n_jobs=2, error_score="raise")
    assert ledger.spent().epsilon == 100.0


@pytest.mark.slow
def test_estimators_that_are_handed_over_as_they_are(ledger):
    """Pickled by a thread of joblib, which sees neither the context nor a clone."""
    with ledger:
        fitted = joblib.Parallel(n_jobs=2)(joblib.delayed(Paid().fit)(X) for _ in range(20))
    assert len(ledger.entries) == 20
    assert os.getpid() not in {model.process_ for model in fitted}
    for model in fitted:
        model.fit(X)
        assert _ledger_scope.STATE_KEY.encode() not in pickle.dumps(model)
    assert len(ledger.entries) == 20


@pytest.mark.slow
def test_private_searches_are_charged_once_also_in_processes(ledger):
    gp = DPSparseGPRegressor(
        RBF(1.0), noise_variance=0.1, delta=1e-6, X_bounds=(-1, 1), y_bounds=(-1, 1)
    )
    how = {"scoring": "neg_mean_squared_error", "loss_bound": 1.0, "cv": 2}
    search = DPGridSearchCV(gp, {"epsilon": [0.5, 1.0]}, n_jobs=2, **how)
    with ledger:
        search.fit(X, Y, X_val=X, y_val=Y)
        assert len(ledger.entries) == 1
        search.set_params(n_jobs=None).fit(X, Y, X_val=X, y_val=Y)
        assert len(ledger.entries) == 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PublicTrainingWarning)
            cross_val_score(search, X, Y, cv=3, n_jobs=2, error_score="raise")
    assert [entry.label for entry in ledger.entries] == ["DPGridSearchCV"] * 5


def test_threads_without_a_ledger_belong_to_those_that_are_open(ledger):
    with ledger, PrivacyLedger(9.0) as other:
        in_thread(lambda: Paid().fit(X))
        in_thread(lambda: charge_active_ledger(PrivacyGuarantee(epsilon=0.5)))
        with PrivacyLedger(1.0) as own:
            pass
        assert own.entries == ()
    assert len(ledger.entries) == len(other.entries) == 2

    def with_its_own():
        with PrivacyLedger(1.0) as own:
            Paid().fit(X)
        return own

    with ledger:
        assert len(in_thread(with_its_own).entries) == 1
    assert len(ledger.entries) == 2
    in_thread(lambda: Paid().fit(X))
    assert len(ledger.entries) == 2


def test_a_clone_belongs_to_the_block_it_was_made_in():
    """Not to another one that happens to be open in the process."""
    with PrivacyLedger(9.0) as other:
        opened, done = threading.Event(), threading.Event()

        def work():
            with PrivacyLedger(9.0) as ledger:
                models.append(clone(Paid()))
                opened.set()
                done.wait(10)
            return ledger

        models, result = [], []
        thread = threading.Thread(target=lambda: result.append(work()))
        thread.start()
        opened.wait(10)
        in_thread(lambda: models[0].fit(X))
        in_thread(lambda: clone(models[0]).fit(X))
        done.set()
        thread.join()
        assert len(result[0].entries) == 2
        assert other.entries == ()


def test_a_template_that_threads_share_belongs_to_none_of_them():
    template, together = Paid(), threading.Barrier(2)
    ledgers = []

    def work():
        with PrivacyLedger(9.0) as ledger:
            ledgers.append(ledger)
            together.wait(10)
            clone(template).fit(X)
            together.wait(10)
            clone(template).fit(X)
            template.fit(X)
            model = clone(template)
            in_thread(lambda: model.fit(X))
            together.wait(10)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(ledger.entries) for ledger in ledgers] == [4, 4]


def test_joblib_clones_in_threads_of_its_own(ledger):
    template = Paid()
    with PrivacyLedger(9.0) as other:
        opened, done = threading.Event(), threading.Event()

        def work():
            with ledger:
                clone(template)  # the first ones are made here
                opened.set()
                done.wait(10)

        thread = threading.Thread(target=work)
        thread.start()
        opened.wait(10)
        in_thread(lambda: clone(template).fit(X))
        done.set()
        thread.join()
    assert len(ledger.entries) == 1
    assert other.entries == ()


def test_a_clone_made_in_a_block_that_is_closed_is_free(ledger):
    with ledger:
        model = clone(Paid())
        original = Paid()
        clone(original)
        saved = pickle.dumps(model)
        copied = copy.deepcopy(model)
    for late in (model, original, copied, clone(model), pickle.loads(saved)):
        in_thread(lambda late=late: late.fit(X))
        late.fit(X)
    assert ledger.entries == ()
    with ledger:
        model.fit(X)
    assert len(ledger.entries) == 1


def test_estimators_that_are_equal_carry_their_own():
    class Equal(Paid):
        def __eq__(self, other):
            return True

    def use():
        model = clone(Equal())
        with charged_elsewhere():
            paid_for = clone(Equal())
            in_thread(lambda: paid_for.fit(X))
            in_thread(lambda: model.fit(X))
            assert {id(model), id(paid_for)} <= _ledger_scope._CARRIED.keys()
        return id(model), id(paid_for)

    with PrivacyLedger(9.0) as ledger:
        gone = use()
    assert len(ledger.entries) == 1
    gc.collect()
    assert not _ledger_scope._CARRIED.keys() & set(gone)


@pytest.mark.slow
def test_check_estimator_is_clean_while_a_ledger_is_open(tmp_path):
    estimator = DPSparseGPRegressor()
    ledger = PrivacyLedger(1e9, 0.9, path=tmp_path / "l.db")
    with PrivacyLedger(1e9, 0.9), ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert [result for result in results if result["status"] == "failed"] == []
    assert len(ledger.entries) > 20


def test_what_is_carried_is_not_an_attribute_and_not_saved_afterwards(ledger):
    bare = pickle.dumps(Paid())
    with ledger:
        model = clone(Paid())
        assert vars(model) == {"epsilon": 0.125}
        assert model.get_params() == {"epsilon": 0.125}
        assert repr(model) == "Paid()"
        assert _ledger_scope.STATE_KEY.encode() in pickle.dumps(model)
        loaded = pickle.loads(pickle.dumps(model))
        assert vars(loaded) == {"epsilon": 0.125}
    assert pickle.dumps(model) == pickle.dumps(loaded) == bare


def test_a_pickle_is_charged_in_another_process_while_the_block_is_open(ledger, monkeypatch):
    with ledger:
        state = pickle.dumps(Paid())
        in_another_process(monkeypatch, state)
        assert len(ledger.entries) == 1
        in_another_process(monkeypatch, pickle.dumps(clone(Paid())))
    assert len(ledger.entries) == 2
    assert not isinstance(in_another_process(monkeypatch, state), Exception)
    assert len(ledger.entries) == 2
    assert ledger.path is None or os.path.exists(ledger.path)


def test_planted_bug_a_copy_that_forgets_is_caught(ledger, monkeypatch):
    with ledger:
        in_another_process(monkeypatch, pickle.dumps(Forgetful()))
    assert ledger.entries == ()  # the test above would fail


def test_charges_in_memory_come_back_and_the_temporary_file_goes(monkeypatch):
    ledger = PrivacyLedger(1.0)
    with ledger:
        with ledger:
            Paid().fit(X)
            state = pickle.dumps(Paid())
            file = ledger._store.file.path
            assert os.stat(os.path.dirname(file)).st_mode & 0o077 == 0
            in_another_process(monkeypatch, state)
        assert os.path.exists(file)
        assert ledger.path is None
    assert not os.path.exists(os.path.dirname(file))
    assert len(ledger.entries) == 2


def test_several_ledgers_are_charged_from_another_process(tmp_path, monkeypatch):
    memory, kept = PrivacyLedger(1.0), PrivacyLedger(1.0, path=tmp_path / "l.db")
    small = PrivacyLedger(0.25, path=tmp_path / "l.db", dataset="other")
    with memory, kept, small:
        state = pickle.dumps(Paid())
        results = [in_another_process(monkeypatch, state) for _ in range(3)]
    assert isinstance(results[2], BudgetExceededError)
    assert len(memory.entries) == len(kept.entries) == len(small.entries) == 2


def test_what_is_paid_for_is_free_in_threads_and_processes(ledger, monkeypatch):
    with ledger, charged_elsewhere():
        model = clone(Paid())
        in_thread(lambda: model.fit(X))
        in_thread(lambda: clone(model).fit(X))
        in_another_process(monkeypatch, pickle.dumps(model))
    assert ledger.entries == ()


def test_a_ledger_on_another_machine_is_refused(tmp_path, monkeypatch):
    for path in (None, tmp_path / "l.db"):
        with PrivacyLedger(1.0, path=path) as ledger:
            with monkeypatch.context() as patched:
                patched.setattr(_ledger_scope, "host_id", lambda: "elsewhere")
                state = pickle.dumps(Paid())
            if path is not None:
                in_another_process(monkeypatch, state)  # a shared file system
                assert len(ledger.entries) == 1
                os.rename(path, tmp_path / "moved.db")
            else:
                os.rename(os.path.dirname(ledger._store.file.path), tmp_path / "temporary")
            error = in_another_process(monkeypatch, state)
        assert isinstance(error, LedgerError)
        assert "cannot be found here" in str(error)
        assert "get_params" in str(error)


def test_what_cannot_be_shared_is_refused_there_and_can_be_pickled(monkeypatch):
    class Unlimited:
        def check(self, epsilon, delta):
            return True

        def spend(self, epsilon, delta):
            return self

    with PrivacyLedger(1.0, accountant=Unlimited()) as ledger:
        error = in_another_process(monkeypatch, pickle.dumps(Paid()))
        assert isinstance(error, LedgerError)
        assert "accountant" in str(error)
        in_thread(lambda: Paid().fit(X))
    assert len(ledger.entries) == 1

    def no_disk(**kwargs):
        raise OSError(28, "No space left on device")

    with PrivacyLedger(1.0) as ledger:
        with monkeypatch.context() as patched:
            patched.setattr("tempfile.mkdtemp", no_disk)
            state = pickle.dumps(Paid())
        error = in_another_process(monkeypatch, state)
        assert isinstance(error, LedgerError)
        assert "No space left" in str(error)
    assert ledger.entries == ()


def in_child(function):
    """Exit code of a forked process that calls a function: 0, or 1 after a LedgerError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads
        pid = os.fork()
    if pid == 0:
        code = 2
        try:
            function()
            code = 0
        except LedgerError:
            code = 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@forking
def test_a_forked_process_charges_the_file_and_refuses_memory(tmp_path):
    with PrivacyLedger(1.0, path=tmp_path / "l.db") as kept:
        assert in_child(lambda: Paid().fit(X)) == 0
        assert len(kept.entries) == 1
    with PrivacyLedger(1.0) as memory:
        assert in_child(lambda: Paid().fit(X)) == 1
        assert in_child(lambda: memory.charge(PrivacyGuarantee(epsilon=0.5))) == 1
        pickle.dumps(Paid())  # from here on in a file
        assert in_child(lambda: Paid().fit(X)) == 0
        assert len(memory.entries) == 1

        def leave():
            memory.__exit__(None, None, None)  # closes nothing of the parent's

        assert in_child(leave) == 0
        Paid().fit(X)
    assert len(memory.entries) == 2


@forking
def test_what_is_paid_for_is_free_in_a_forked_process(ledger):
    def fit_what_is_loaded():
        result = in_thread(lambda: pickle.loads(state).fit(X))
        assert isinstance(result, Paid)

    with ledger, charged_elsewhere():
        state = pickle.dumps(clone(Paid()))
        assert in_child(lambda: Paid().fit(X)) == 0
        assert in_child(fit_what_is_loaded) == 0
    assert ledger.entries == ()


@forking
def test_the_block_of_a_killed_process_is_closed(tmp_path, monkeypatch):
    def open_and_die():
        PrivacyLedger(1.0, path=tmp_path / "l.db").__enter__()
        (tmp_path / "model").write_bytes(pickle.dumps(Paid()))
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(open_and_die) == -signal.SIGKILL
    model = in_another_process(monkeypatch, (tmp_path / "model").read_bytes())
    assert isinstance(model, Paid)
    assert PrivacyLedger.from_file(tmp_path / "l.db").entries == ()


@forking
def test_a_lock_that_another_thread_holds_does_not_block_a_forked_process(tmp_path):
    held, release = threading.Event(), threading.Event()

    def hold():
        with _ledger_scope.PROCESS.lock:
            held.set()
            release.wait(10)

    with PrivacyLedger(1.0, path=tmp_path / "l.db") as ledger:
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(10)
        assert in_child(lambda: Paid().fit(X)) == 0
        release.set()
        thread.join()
    assert len(ledger.entries) == 1
