"""A ledger and other threads and processes: what they spend is counted, or refused."""

import copy
import gc
import os
import pickle
import signal
import threading
import time
import warnings
from collections import UserList, UserString, deque
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from _support.forks import fork, forking
from _support.internals import PROCESS, covered_by_fit
from _support.planted import module_of, original, put
from skdpbo.exceptions import (
    BudgetExceededError,
    LedgerError,
    LedgerUnavailableError,
)
from skdpbo.linear_model import DPRidge
from skdpbo.model_selection import DPGridSearchCV
from skdpbo.privacy import (
    LedgerMixin,
    PrivacyGuarantee,
    PrivacyLedger,
    charge_active_ledger,
    charged_elsewhere,
)

_charging, _store = module_of("ledger charge"), module_of("ledger store")
X, Y = np.zeros((12, 1)), np.zeros(12)
UNIT = PrivacyGuarantee(epsilon=0.125)


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
    """Planted bug: an estimator without the mixin carries nothing."""

    fit = Paid.fit
    epsilon = 0.125


class OddState(Paid):
    """Its state is no dictionary."""

    def __getstate__(self):
        return [self.epsilon]

    def __setstate__(self, state):
        (self.epsilon,) = state


class Slots(Paid):
    """Rebuilt by a function of its own."""

    def __reduce__(self):
        return Slots, (self.epsilon,)


class Wrapped(LedgerMixin, BaseEstimator):
    """A private search over an estimator, or over candidates that hold one."""

    def __init__(self, estimator, candidates=None):
        self.estimator = estimator
        self.candidates = candidates

    def fit(self, X):
        charge_active_ledger(UNIT, "Wrapped", self)


class Categorical:
    """A dimension with the attributes of scikit-optimize's."""

    def __init__(self, categories):
        self.categories = categories

    def rvs(self, n_samples=1, random_state=None):
        return [self.categories[0]] * n_samples


@pytest.fixture(autouse=True, scope="module")
def workers_of_joblib_stay():
    """joblib starts its workers anew where max_nbytes changes: those of private fits serve all."""
    with joblib.parallel_config(max_nbytes=None):
        yield


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
        patched.setattr(_store, "LOCAL", {})
        patched.setattr(_charging, "_OPEN", [])
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
    searches(1)  # of estimators that were made outside
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
    assert len(ledger.entries) == 40


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
def test_private_searches_are_charged_once_also_in_processes(ledger):
    ridge = DPRidge(delta=1e-6, X_bounds=(-1, 1), y_bounds=(-1, 1))
    how = {"scoring": "neg_mean_squared_error", "loss_bound": 1.0, "cv": 2}
    search = DPGridSearchCV(ridge, {"epsilon": [0.5, 1.0]}, n_jobs=2, **how)
    with ledger:
        search.fit(X, Y, X_val=X, y_val=Y)
        assert len(ledger.entries) == 1
        search.set_params(n_jobs=None).fit(X, Y, X_val=X, y_val=Y)
        assert len(ledger.entries) == 2
        cross_val_score(search, X, Y, cv=3, n_jobs=2, error_score="raise")
    label = "DPGridSearchCV of DPRidge"
    assert [entry.label for entry in ledger.entries] == [label] * 5


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


def test_a_clone_is_charged_where_it_was_made_and_where_it_is_fitted():
    with PrivacyLedger(9.0) as other:
        opened, done = threading.Event(), threading.Event()

        def work():
            with PrivacyLedger(9.0) as ledger:
                models.append(clone(Paid()))
                opened.set()
                done.wait(120)
            return ledger

        models, result = [], []
        thread = threading.Thread(target=lambda: result.append(work()))
        thread.start()
        assert opened.wait(120)
        in_thread(lambda: models[0].fit(X))
        in_thread(lambda: clone(models[0]).fit(X))
        in_thread(lambda: models[0].fit(X))
        done.set()
        thread.join()
        assert len(result[0].entries) == 3
        assert len(other.entries) == 3  # open, and the thread had no ledger of its own


def test_a_template_that_threads_share_belongs_to_all_of_them():
    template, together = Paid(), threading.Barrier(2)
    ledgers = []

    def work():
        with PrivacyLedger(9.0) as ledger:
            ledgers.append(ledger)
            clone(template)
            together.wait(120)
            clone(template).fit(X)
            together.wait(120)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(ledger.entries) for ledger in ledgers] == [2, 2]


def made_in_a_block(ledger, how):
    """An estimator that was made, cloned, copied, pickled or fitted while a ledger was open."""
    outside = Paid()
    with ledger:
        if how == "created":
            return Paid()
        if how == "clone":
            return clone(outside)
        if how == "cloned":
            clone(outside)
        if how == "copied":
            copy.deepcopy(outside)
        if how == "pickled":
            pickle.dumps(outside)
        if how == "loaded":
            return pickle.loads(BARE)
        if how == "fitted":
            outside.fit(X)
    return outside


BARE = pickle.dumps(Paid())
WAYS = ["created", "clone", "cloned", "copied", "pickled", "loaded", "fitted"]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("how", WAYS)
def test_fits_after_the_block_are_charged(ledger, how):
    model = made_in_a_block(ledger, how)
    before = len(ledger.entries)
    copies = [model, clone(model), copy.copy(model), copy.deepcopy(model)]
    copies.append(pickle.loads(pickle.dumps(clone(model))))
    nested = make_pipeline(FunctionTransformer(), clone(model))
    copies.append(clone(nested)[-1])
    for late in copies:
        late.fit(X)
        in_thread(lambda late=late: late.fit(X))
    assert len(ledger.entries) == before + 2 * len(copies)
    with ledger:
        model.fit(X)  # once, not twice
    assert len(ledger.entries) == before + 2 * len(copies) + 1
    Paid(**model.get_params()).fit(X)
    assert len(ledger.entries) == before + 2 * len(copies) + 1


@pytest.mark.slow
def test_a_ledger_in_memory_lives_as_long_as_an_estimator_that_it_charges():
    with PrivacyLedger(0.25) as ledger:
        model = Paid()
    directory = os.path.dirname(ledger._store.path)
    assert os.stat(directory).st_mode & 0o077 == 0
    del ledger
    gc.collect()
    model.fit(X).fit(X)
    with pytest.raises(BudgetExceededError, match="does not fit") as caught:
        model.fit(X)
    assert "get_params" in caught.value.__notes__[0]
    state = pickle.dumps(model)
    del model, caught
    gc.collect()
    assert not os.path.exists(directory)
    with pytest.raises(LedgerUnavailableError):
        pickle.loads(state).fit(X)


def test_an_estimator_inside_another_brings_its_ledger_along(ledger):
    with ledger:
        inner = Paid()
    for outer in (
        Wrapped(inner),
        Wrapped(make_pipeline(FunctionTransformer(), inner)),
        Wrapped(None, {"estimator": [inner, None]}),
        Wrapped(None, [{"estimator": (inner,)}]),
        Wrapped(None, {"estimator": np.array([[None, inner]], dtype=object)}),
        Wrapped(None, {"estimator": Categorical([None, inner])}),
        Wrapped(None, {"estimator": Categorical(np.array([inner, None], dtype=object))}),
        Wrapped(None, {"estimator": UserList([inner])}),
        Wrapped(None, {"estimator": frozenset([inner])}),
        Wrapped(None, deque([inner])),
    ):
        before = len(ledger.entries)
        outer.fit(X)
        assert [entry.label for entry in ledger.entries[before:]] == ["Wrapped"]


def test_parameters_without_an_estimator_are_passed_over(ledger):
    with ledger:
        kept = Paid()
    circle = [UserString("text"), "text", range(10**12), memoryview(np.zeros((2, 2))), stats.norm()]
    circle.append(circle)
    Wrapped(kept, circle).fit(X)
    assert len(ledger.entries) == 1


def test_planted_bug_a_look_at_lists_only_is_caught(ledger, monkeypatch):
    honest = original("ledger charge: _items_inside")

    def of_lists(value):
        return () if isinstance(value, np.ndarray | UserList | Categorical) else honest(value)

    put(monkeypatch, "ledger charge: _items_inside", of_lists)
    with ledger:
        inner = Paid()
    for items in (np.array([inner], dtype=object), UserList([inner]), Categorical([inner])):
        Wrapped(None, {"estimator": items}).fit(X)
    assert ledger.entries == ()  # the test above would fail


def test_an_estimator_and_the_one_inside_it_bring_their_own_ledgers():
    with PrivacyLedger(9.0) as inner_ledger:
        inner = Paid()
    with PrivacyLedger(9.0) as outer_ledger:
        outer = Wrapped(inner)
    outer.fit(X)
    assert len(inner_ledger.entries) == len(outer_ledger.entries) == 1


@pytest.mark.slow
def test_estimators_that_are_equal_carry_their_own():
    class Equal(Paid):
        def __eq__(self, other):
            return True

    with PrivacyLedger(9.0) as ledger:
        model = Equal()
    stranger = Equal()
    assert id(model) in _charging._CARRIED
    assert id(stranger) not in _charging._CARRIED
    stranger.fit(X)
    assert ledger.entries == ()
    gone = id(model)
    del model
    gc.collect()
    assert gone not in _charging._CARRIED


@pytest.mark.slow
def test_check_estimator_is_clean_while_a_ledger_is_open(tmp_path):
    estimator = DPRidge()
    ledger = PrivacyLedger(1e9, 0.9, path=tmp_path / "l.db")
    with PrivacyLedger(1e9, 0.9), ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert [result for result in results if result["status"] == "failed"] == []
    assert len(ledger.entries) > 20


def test_what_is_carried_is_not_an_attribute(ledger):
    with ledger:
        model = clone(Paid())
        assert vars(model) == {"epsilon": 0.125}
        assert model.get_params() == {"epsilon": 0.125}
        assert repr(model) == "Paid()"
        loaded = pickle.loads(pickle.dumps(model))
        assert vars(loaded) == {"epsilon": 0.125}
    assert pickle.dumps(Paid()) == BARE
    assert pickle.dumps(model) != BARE


@pytest.mark.slow
def test_a_pickle_that_comes_home_keeps_the_ledger_alive():
    with PrivacyLedger(0.25) as ledger:
        state = pickle.dumps(Paid())
    model, store = pickle.loads(state), ledger._store
    assert pickle.loads(pickle.dumps(store)) is store
    path = store.path
    del ledger, store
    gc.collect()
    assert os.path.exists(path)
    model.fit(X).fit(X)
    with pytest.raises(BudgetExceededError):
        model.fit(X)
    del model
    gc.collect()
    assert not os.path.exists(path)
    # Nothing is left to charge: refused.
    with pytest.raises(LedgerUnavailableError):
        pickle.loads(state).fit(X)


def test_a_pickle_that_comes_home_spends_at_the_accountant(ledger, monkeypatch):
    spent = []
    accountant = SimpleNamespace(
        check=lambda epsilon, delta: True, spend=lambda epsilon, delta: spent.append(epsilon)
    )
    with PrivacyLedger(100.0, path=ledger.path, accountant=accountant) as own:
        state = pickle.dumps(Paid())
    in_thread(lambda: pickle.loads(state).fit(X))
    assert spent == [0.125]
    assert len(own.entries) == 1
    # Planted bug: it comes back as another object.
    monkeypatch.setattr(_store, "LOCAL", {})
    with pytest.raises(LedgerUnavailableError, match="accountant"):
        pickle.loads(state).fit(X)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_and_every_kind_of_state_carries(ledger, protocol, monkeypatch):
    with ledger:
        states = [pickle.dumps(kind(), protocol) for kind in (Paid, OddState, Slots)]
    for state in states:
        in_another_process(monkeypatch, state)
        in_thread(lambda state=state: pickle.loads(state).fit(X))
    assert len(ledger.entries) == 6


def test_a_pickle_is_charged_in_another_process_also_after_the_block(ledger, monkeypatch):
    with ledger:
        state = pickle.dumps(Paid())
        in_another_process(monkeypatch, state)
        assert len(ledger.entries) == 1
        in_another_process(monkeypatch, pickle.dumps(clone(Paid())))
    assert len(ledger.entries) == 2
    assert isinstance(in_another_process(monkeypatch, state), Paid)
    assert len(ledger.entries) == 3


def test_planted_bug_a_copy_that_forgets_is_caught(ledger, monkeypatch):
    with ledger:
        in_another_process(monkeypatch, pickle.dumps(Forgetful()))
    assert ledger.entries == ()  # the test above would fail


def test_several_ledgers_are_charged_from_another_process(tmp_path, monkeypatch):
    memory, kept = PrivacyLedger(1.0), PrivacyLedger(1.0, path=tmp_path / "l.db")
    small = PrivacyLedger(0.25, path=tmp_path / "l.db", dataset="other")
    with memory, kept, small:
        state = pickle.dumps(Paid())
        results = [in_another_process(monkeypatch, state) for _ in range(3)]
    assert isinstance(results[2], BudgetExceededError)
    assert len(memory.entries) == len(kept.entries) == len(small.entries) == 2


@pytest.mark.parametrize("paid", [charged_elsewhere, covered_by_fit])
def test_what_is_paid_for_is_free_while_the_caller_runs(ledger, monkeypatch, paid):
    template = Paid()
    with ledger:
        with paid():
            model = clone(template)
            state = pickle.dumps(model)
            model.fit(X)
            for copied in (model, clone(model), copy.deepcopy(template)):
                assert isinstance(in_thread(lambda copied=copied: copied.fit(X)), Paid)
            assert isinstance(in_another_process(monkeypatch, state), Paid)
            again = in_another_process(monkeypatch, pickle.dumps(pickle.loads(state)))
            assert isinstance(again, Paid)
            if hasattr(os, "fork"):
                assert in_child(lambda: in_thread(lambda: pickle.loads(state).fit(X))) == 0
            with PrivacyLedger(1.0) as own:
                model.fit(X)
            assert len(own.entries) == 1
            assert ledger.entries == ()
            in_thread(lambda: Paid().fit(X))  # made in a thread that knows of no caller
        assert len(ledger.entries) == 1
        in_thread(lambda: model.fit(X))
        in_another_process(monkeypatch, state)
    assert len(ledger.entries) == 3
    again.fit(X)
    in_another_process(monkeypatch, pickle.dumps(clone(model)))
    assert len(ledger.entries) == 5


@forking
def test_a_caller_that_was_killed_has_paid_for_nothing_further(tmp_path, monkeypatch):
    ledger = PrivacyLedger(1.0, path=tmp_path / "l.db")

    def pay_and_die():
        with ledger:
            charged_elsewhere().__enter__()
            (tmp_path / "model").write_bytes(pickle.dumps(Paid()))
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(pay_and_die) == -signal.SIGKILL
    assert isinstance(in_another_process(monkeypatch, (tmp_path / "model").read_bytes()), Paid)
    assert len(ledger.entries) == 1


def test_planted_bug_a_receipt_that_never_ends_is_caught(ledger, monkeypatch):
    with ledger, charged_elsewhere():
        model = clone(Paid())
    put(monkeypatch, "ledger receipts: Receipt.is_valid", lambda receipt: True)
    model.fit(X)
    assert ledger.entries == ()  # the tests above would fail


def test_a_fit_pays_for_the_rows_that_it_hands_on_only(ledger):
    unit, own = PrivacyGuarantee(epsilon=0.125), {"own_rows": True}
    with ledger:
        with covered_by_fit():
            charge_active_ledger(unit, "given")
            charge_active_ledger(unit, "own", **own)
            with covered_by_fit():
                charge_active_ledger(unit, "own, deeper", **own)
            with charged_elsewhere():
                charge_active_ledger(unit, "all is paid", **own)
        with covered_by_fit("given rows, secretly often"):
            charge_active_ledger(unit, "given")
            with pytest.raises(LedgerError, match="number is secret"):
                charge_active_ledger(unit, "own", **own)
            with covered_by_fit(), pytest.raises(LedgerError, match="number is secret"):
                charge_active_ledger(unit, "own", **own)
    assert [entry.label for entry in ledger.entries] == ["own", "own, deeper"]


def test_a_missing_or_another_file_is_refused(tmp_path, monkeypatch):
    for path in (None, tmp_path / "l.db"):
        with PrivacyLedger(1.0, path=path) as ledger:
            state = pickle.dumps(Paid())
        where = ledger._store.path
        os.rename(where, where + ".moved")
        for strangers in (False, True):
            if strangers:
                PrivacyLedger(1.0, path=where)
            for attempt in (
                lambda state=state: in_another_process(monkeypatch, state),
                lambda state=state: in_thread(lambda: pickle.loads(state).fit(X)),
                lambda ledger=ledger: in_thread(lambda: ledger.charge(UNIT)),
                lambda ledger=ledger: in_thread(lambda: ledger.entries),
            ):
                error = attempt()
                assert isinstance(error, LedgerUnavailableError)
                assert ("another ledger" if strangers else "has gone") in str(error)
        os.replace(where + ".moved", where)
        assert isinstance(in_another_process(monkeypatch, state), Paid)


def test_an_old_copy_is_refused_by_a_process_that_read_more(tmp_path):
    path = tmp_path / "l.db"
    ledger = PrivacyLedger(1.0, path=path)
    ledger.charge(UNIT)
    old = path.read_bytes()
    ledger.charge(UNIT)
    assert len(ledger.entries) == 2
    path.write_bytes(old)
    with pytest.raises(LedgerError, match="there before"):
        ledger.charge(UNIT)
    assert len(PrivacyLedger.from_file(path).entries) == 1  # nobody else can see it


def test_the_accountant_of_another_process_is_refused(monkeypatch):
    class Unlimited:
        def check(self, epsilon, delta):
            return True

        def spend(self, epsilon, delta):
            return self

    with PrivacyLedger(1.0, accountant=Unlimited()) as ledger:
        error = in_another_process(monkeypatch, pickle.dumps(Paid()))
        assert isinstance(error, LedgerUnavailableError)
        assert "accountant" in str(error)
        in_thread(lambda: Paid().fit(X))
        if hasattr(os, "fork"):
            assert in_child(lambda: Paid().fit(X)) == 1
    assert len(ledger.entries) == 1


def test_a_ledger_in_memory_without_room_for_its_file_is_refused(monkeypatch):
    def no_disk(**kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", no_disk)
    with pytest.raises(LedgerError, match="No space left"):
        PrivacyLedger(1.0)


def test_a_check_records_nothing_and_reserves_nothing(ledger):
    large = PrivacyGuarantee(epsilon=60.0)
    with ledger:
        charge_active_ledger(large, "first", Paid(), record=False)
        charge_active_ledger(large, "second", record=False)
        assert ledger.entries == ()
        charge_active_ledger(large)
        for record in (False, True):
            with pytest.raises(BudgetExceededError, match=r"late: .* does not fit"):
                charge_active_ledger(large, "late", record=record)
    assert len(ledger.entries) == 1
    charge_active_ledger(large, record=False)


def in_child(function):
    """Exit code of a forked process that calls a function: 0, or 1 after a LedgerError."""
    pid = fork()
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


@pytest.mark.quick_cases(1)
@forking
def test_a_forked_process_charges_file_and_memory(ledger):
    with ledger:
        assert in_child(lambda: Paid().fit(X)) == 0
        assert in_child(lambda: ledger.charge(UNIT)) == 0
        assert len(ledger.entries) == 2

        def leave_and_collect():
            ledger.__exit__(None, None, None)  # closes nothing of the parent's
            ledger._store.__dict__.clear()
            gc.collect()

        assert in_child(leave_and_collect) == 0
        Paid().fit(X)
    assert len(ledger.entries) == 3


@pytest.mark.slow
@forking
def test_a_forked_process_deletes_no_ledger_of_its_parent():
    ledger = PrivacyLedger(1.0)

    def collect():
        ledger.__dict__.clear()
        gc.collect()

    assert in_child(collect) == 0
    ledger.charge(UNIT)
    assert len(ledger.entries) == 1


@forking
def test_the_ledger_of_a_killed_process_is_charged(tmp_path, monkeypatch):
    def open_and_die():
        PrivacyLedger(1.0, path=tmp_path / "l.db").__enter__()
        (tmp_path / "model").write_bytes(pickle.dumps(Paid()))
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(open_and_die) == -signal.SIGKILL
    model = in_another_process(monkeypatch, (tmp_path / "model").read_bytes())
    assert isinstance(model, Paid)
    assert len(PrivacyLedger.from_file(tmp_path / "l.db").entries) == 1


@pytest.mark.quick_cases(1)
@forking
@pytest.mark.parametrize("write", [False, True])
def test_a_fork_waits_for_another_thread_that_charges(tmp_path, monkeypatch, write):
    within, leave = threading.Event(), threading.Event()

    def charge():
        with ledger._store.transaction(write):
            within.set()
            leave.wait(0.5)  # a fork that does not wait comes in between

    def impatient():
        monkeypatch.setattr(_store, "BUSY_SECONDS", 0.1)
        Paid().fit(X)

    with PrivacyLedger(1.0, path=tmp_path / "l.db") as ledger:
        thread = threading.Thread(target=charge)
        thread.start()
        assert within.wait(120)
        assert in_child(impatient) == 0
        thread.join()
    assert len(ledger.entries) == 1


@forking
def test_a_fork_waits_for_another_thread_that_makes_the_ledger(tmp_path, monkeypatch):
    making, path, sql = threading.Event(), tmp_path / "l.db", _store.Tables.sql

    def slow(tables, statement, *values):
        if statement == "COMMIT" and not making.is_set():
            making.set()
            time.sleep(0.5)  # a fork that does not wait comes in between
        return sql(tables, statement, *values)

    def charge():
        monkeypatch.setattr(_store, "BUSY_SECONDS", 0.1)
        end = time.monotonic() + 60
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.01)
        PrivacyLedger(1.0, path=path).charge(UNIT)

    monkeypatch.setattr(_store.Tables, "sql", slow)
    thread = threading.Thread(target=PrivacyLedger, args=(1.0,), kwargs={"path": path})
    thread.start()
    assert making.wait(120)
    assert in_child(charge) == 0
    thread.join()


class InterruptedLock:
    """The lock of the ledgers, where Control-C comes while a fork waits for it."""

    def __init__(self, lock):
        self.lock, self.interrupts = lock, [KeyboardInterrupt]

    def acquire(self):
        if self.interrupts:
            raise self.interrupts.pop()
        return self.lock.acquire()

    def __getattr__(self, name):
        return getattr(self.lock, name)


@pytest.fixture
def interrupts_are_noticed():
    """Notice SIGINT also where a shell ignores it, as for a command in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@forking
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("interrupts_are_noticed")
def test_an_interrupt_while_a_fork_waits_comes_after_it(monkeypatch):
    """Python drops what a hook raises, and forks: without the lock, and the interrupt was lost."""
    pauses = [0.5]  # of a hook that runs after the ledgers'; once, as hooks stay
    os.register_at_fork(after_in_parent=lambda: time.sleep(pauses.pop() if pauses else 0))
    monkeypatch.setattr(PROCESS, "lock", InterruptedLock(PROCESS.lock))

    def fork_and_go_on():
        assert in_child(lambda: None) == 0
        assert not pauses
        time.sleep(30)

    with pytest.raises(KeyboardInterrupt):
        fork_and_go_on()
    with pytest.raises(RuntimeError):  # let go of as often as it was taken
        PROCESS.lock.release()


@forking
def test_a_fork_within_a_charge_keeps_its_lock():
    with PROCESS.lock:
        assert in_child(lambda: None) == 0
        assert PROCESS.lock.is_held()
    assert not PROCESS.lock.is_held()
