"""Side effects that protected rows must not have: on generators, reports, output.

A model may draw from the global generators, print and log. None of it may be seen after `fit`, or
reach what is trained afterwards: it would tell of single records, or how many trials there were.
"""

import gc
import io
import logging
import pickle
import random
import subprocess
import sys
import threading
import time
import warnings
from contextlib import nullcontext, suppress
from contextvars import ContextVar, copy_context
from decimal import Decimal, InvalidOperation, getcontext, localcontext
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from joblib import Parallel, parallel_config
from joblib.memory import MemorizedFunc
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from _support.internals import (
    SEED,
    _isolated_task,
    in_isolation,
    isolated_answers,
    nothing_leaves,
    run_isolated,
    this_process,
)
from _support.interrupts import interrupted
from _support.planted import SameContext, original, plant, put
from _support.protections import private_selection
from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV
from skdpbo.exceptions import VoidGuaranteeWarning
from skdpbo.gaussian_process import PrivateProjection
from skdpbo.linear_model import DPRidge
from skdpbo.model_selection import Chunks, PrivateSelection
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger

pytestmark = pytest.mark.usefixtures("few_public_candidates")

RNG = np.random.RandomState(0)
X, Y = RNG.normal(size=(20, 2)), RNG.normal(size=20)
GOOD = RNG.normal(size=(8, 2))
BAD = GOOD.copy()
BAD[3] = 1e9
LOGGER = logging.getLogger("tests.attacks.side_effects")


class Drawing(RegressorMixin, BaseEstimator):
    """Starts and predicts at random, by the global generators; cannot predict large rows."""

    def __init__(self, k=0.0, loud=False):
        self.k = k
        self.loud = loud

    def fit(self, X, y):
        self.coef_ = np.random.normal(size=X.shape[1]) + random.random()
        return self

    def predict(self, X):
        if self.loud:
            print("predicting", len(X))
            print("predicting", len(X), file=sys.stderr)
            LOGGER.warning("predicting %d", len(X))
            LOGGER.log(2 * logging.CRITICAL, "predicting %d", len(X))  # a level of one's own
        noise = np.random.normal(size=len(X))
        if (np.abs(X) > 1e5).any():
            raise ValueError("too large")
        return np.asarray(X) @ self.coef_ + noise


SEARCHES = {
    "grid": lambda e, **k: DPGridSearchCV(e, {"k": [0.0, 1.0]}, guide=False, **k),
    "guided": lambda e, **k: DPGridSearchCV(e, {"k": [0.0, 1.0]}, cv=2, **k),
    "gaussian": lambda e, **k: DPBayesSearchCV(
        e, {"k": (0.0, 1.0)}, n_iter=3, n_initial_points=2, mechanism="gaussian", cv=2, **k
    ),
    "gibo": lambda e, **k: DPGIBOSearchCV(e, {"k": (0.0, 1.0)}, n_iter=2, **{"cv": 2, **k}),
}


def fitted(kind, X_val, estimator=None, **params):
    search = SEARCHES[kind](estimator or Drawing(), loss_bound=1.0, score_fraction=0.0, **params)
    return search.fit(X, Y, X_val=X_val, y_val=np.zeros(len(X_val)))


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyGradientWarning")
class TestGlobalGenerators:
    """A record that cannot be predicted makes a model draw more often."""

    def after(self, kind, X_val, **params):
        np.random.seed(0)
        random.seed(0)
        model = fitted(kind, X_val, **params).best_estimator_
        return [*model.coef_, np.random.random(), random.random()]

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("kind", SEARCHES)
    def test_a_record_moves_nothing_that_is_trained_later(self, kind):
        assert self.after(kind, GOOD) == self.after(kind, BAD)

    def test_of_threads(self):
        with parallel_config(backend="threading"):
            first, second = (self.after("grid", rows, n_jobs=2) for rows in (GOOD, BAD))
        assert first == second

    def test_a_bad_record_moves_no_other_records_loss(self, monkeypatch):
        losses, honest = [], original("public training: isolated_outcomes")

        def recorded(*args):
            losses.append(honest(*args))
            return losses[-1]

        put(monkeypatch, "public training: isolated_outcomes", recorded)
        for rows in (GOOD, BAD):
            fitted("grid", rows)
        pairs = zip(losses[:2], losses[2:], strict=True)
        assert [np.flatnonzero(a != b).tolist() for a, b in pairs] == [[3], [3]]

    def test_generators_that_go_on_are_found(self, monkeypatch):
        plant(monkeypatch, "scoring moves the generators")
        assert self.after("grid", GOOD) == self.after("grid", GOOD)
        assert self.after("grid", GOOD) != self.after("grid", BAD)

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
    @pytest.mark.parametrize("outer", ["grid", "chunks"])
    def test_threads_inside_do_not_wait_for_ever(self, outer):
        quick = {"guide": False, "loss_bound": 1.0, "score_fraction": 0.0}
        inner = DPGridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, n_jobs=2, **quick)
        how = quick | {"scoring": "neg_mean_squared_error", "score_fraction": 0.5}
        search = DPGridSearchCV(inner, {"epsilon": [1.0, 2.0]}, **how | {"epsilon": 200.0})
        rows = {"X_val": GOOD, "y_val": np.zeros(8)}
        if outer == "chunks":
            search.set_params(protect=Chunks(2))
            rows = {}
        with parallel_config(backend="threading"):
            assert search.fit(X, Y, **rows).best_score_ > -0.9  # -1 where no inner search ends


class Overflowing(Drawing):
    def predict(self, X):
        return np.asarray(X)[:, 0] * 1e300


class TestReports:
    """The process chooses what numpy does about overflow: print, call, raise."""

    def reports(self, capfd, X_val):
        reports = []
        with np.errstate(over="call", call=lambda *args: reports.append(args)):
            fitted("grid", X_val, Overflowing())
        with np.errstate(over="print"):
            fitted("grid", X_val, Overflowing())
        return reports, "".join(capfd.readouterr())

    def test_nothing_is_reported(self, capfd):
        assert self.reports(capfd, BAD) == ([], "")

    def test_reports_are_found(self, capfd, monkeypatch):
        plant(monkeypatch, "numpy's reports come through")
        assert all(self.reports(capfd, BAD))


class TestOutput:
    """Prints and log records of a model: each batch that fails makes one more."""

    def reported(self, capsys, caplog, kind="grid", **params):
        caplog.clear()
        fitted(kind, BAD, Drawing(loud=True), refit=False, **params)
        return "".join(capsys.readouterr()) + caplog.text

    @pytest.mark.parametrize("n_jobs", [None, 2])
    def test_nothing_is_reported(self, n_jobs, capsys, caplog):
        with parallel_config(backend="threading"):
            assert self.reported(capsys, caplog, n_jobs=n_jobs) == ""

    def test_what_is_reported_is_found(self, capsys, caplog, monkeypatch):
        plant(monkeypatch, "models' output comes through")
        reported = self.reported(capsys, caplog)
        assert reported.count("predicting 4") >= 2


class DirectLogger(logging.Logger):
    """Has a method of its own for its records."""

    def handle(self, record):
        self.callHandlers(record)


OWN_LOGGER = DirectLogger("of no manager")


class Louder(Drawing):
    """Silences itself for a while, as many do, and logs aside from the loggers of the process."""

    def predict(self, X):
        sys.stdout = sys.stderr = io.StringIO()
        logging.disable(logging.CRITICAL)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        logging.disable(logging.NOTSET)
        OWN_LOGGER.warning("predicting %d", len(X))
        return super().predict(X)


class TestOutputAnew:
    """Output of a model that has put back streams and logging by itself."""

    def reported(self, caplog, monkeypatch):
        for name in ("__stdout__", "__stderr__"):
            monkeypatch.setattr(sys, name, io.StringIO())
        streams = sys.__stdout__, sys.__stderr__
        monkeypatch.setattr(OWN_LOGGER, "handlers", [caplog.handler])
        OWN_LOGGER.warning("public")  # it remembers that it may
        own = caplog.text
        fitted("grid", BAD, Louder(loud=True), refit=False)
        assert (sys.__stdout__, sys.__stderr__) == streams
        return [caplog.text.removeprefix(own), *(stream.getvalue() for stream in streams)]

    def test_nothing_is_reported(self, caplog, monkeypatch):
        assert self.reported(caplog, monkeypatch) == ["", "", ""]

    def test_what_is_reported_is_found(self, caplog, monkeypatch):
        # Planted bug: what code puts back, and loggers that no manager knows, are let through.
        usual, through = (
            original("silence: _Undo.set"),
            {"__stdout__", "__stderr__", "callHandlers"},
        )

        def changed(undo, owner, name, value):
            if name not in through:
                usual(undo, owner, name, value)

        put(monkeypatch, "silence: _Undo.set", changed)
        logged, *streams = self.reported(caplog, monkeypatch)
        assert logged
        assert all("predicting 4" in text for text in streams)


class Configuring(Drawing):
    """Logs a record that it cannot predict by functions that configure the root logger."""

    def predict(self, X):
        if (np.abs(X) > 1e8).any():
            logging.basicConfig(level=logging.DEBUG, force=True)
            logging.root.handlers[0].setLevel(logging.CRITICAL)
            logging.warning("too large")
        return super().predict(X)


class TestRootLogger:
    """Lines that the caller logs later would tell of the record."""

    def configured(self, monkeypatch, *handlers):
        monkeypatch.setattr(logging.root, "handlers", [*handlers])
        monkeypatch.setattr(logging.root, "level", logging.WARNING)
        fitted("grid", BAD, Configuring(), refit=False)
        return logging.root.handlers, logging.root.level

    def test_it_is_as_before(self, monkeypatch):
        assert self.configured(monkeypatch) == ([], logging.WARNING)

    def test_handlers_of_the_caller_are_neither_closed_nor_changed(self, monkeypatch):
        own, closed = logging.NullHandler(), []
        monkeypatch.setattr(own, "close", lambda: closed.append(own))
        assert self.configured(monkeypatch, own) == ([own], logging.WARNING)
        assert (own.level, closed) == (logging.NOTSET, [])

    def test_a_change_is_found(self, monkeypatch):
        usual = original("silence: _Undo.set")

        def changed(undo, owner, name, value):
            if name not in ("handlers", "level"):
                usual(undo, owner, name, value)

        put(monkeypatch, "silence: _Undo.set", changed)
        handlers, level = self.configured(monkeypatch)
        assert len(handlers) == 1
        assert level == logging.DEBUG


class TestBeforeHandlers:
    """A line is heard by the factory of records, then by filters of its logger."""

    def heard(self, monkeypatch, model):
        made, filtered = [], []

        def make(*args, **kwargs):
            made.append(args)
            return logging.LogRecord(*args, **kwargs)

        def hear(record):
            filtered.append(record.getMessage())
            return True

        monkeypatch.setattr(logging, "_logRecordFactory", make)
        monkeypatch.setattr(LOGGER, "filters", [hear])
        fitted("grid", BAD, model, refit=False)
        return made, filtered

    def test_nothing_is_heard(self, monkeypatch):
        assert self.heard(monkeypatch, Drawing(loud=True)) == ([], [])

    def test_no_filter_hears_code_that_enables_logging(self, monkeypatch):
        assert self.heard(monkeypatch, Louder(loud=True))[1] == []

    def test_lines_are_found(self, monkeypatch):
        plant(monkeypatch, "models' output comes through")
        made, filtered = self.heard(monkeypatch, Drawing(loud=True))
        assert len(made) >= 2
        assert filtered.count("predicting 4") >= 2


class Broken:
    """Something that raises where it is freed."""

    def __del__(self):
        raise RuntimeError


def raising():
    raise RuntimeError


class Showing(Drawing):
    """Has a thread and a finalizer that raise, and a progress bar of notebooks."""

    def predict(self, X):
        Broken()
        thread = threading.Thread(target=raising)
        thread.start()
        thread.join()
        sys.modules["IPython"].get_ipython().display_pub.publish({"text/plain": str(len(X))})
        return super().predict(X)


class TestHooks:
    """What reports errors elsewhere and shows tables in a notebook, as the user has set it."""

    def shown(self, monkeypatch):
        reports = []
        publisher = SimpleNamespace(publish=reports.append)
        shell = SimpleNamespace(display_pub=publisher)
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        monkeypatch.setattr(sys, "unraisablehook", reports.append)
        monkeypatch.setattr(threading, "excepthook", reports.append)
        fitted("grid", BAD, Showing(), refit=False)
        assert publisher.publish == sys.unraisablehook == threading.excepthook == reports.append
        return len(reports)

    def test_nothing_is_shown(self, monkeypatch):
        assert self.shown(monkeypatch) == 0

    def test_what_is_shown_is_found(self, monkeypatch):
        put(monkeypatch, "silence: _hooks", lambda: ())
        assert self.shown(monkeypatch) >= 3


TRACKED = []  # scores of trainings
TRACKING = SimpleNamespace(
    _AUTOLOGGING_GLOBALLY_DISABLED=False, autologging_is_disabled={"sklearn": False}.get
)


class Tracked(Ridge):
    """Its `fit` is patched as by MLflow: the training is scored, and the score stored."""

    def fit(self, X, y):
        fitted = super().fit(X, y)
        if not TRACKING._AUTOLOGGING_GLOBALLY_DISABLED:
            TRACKED.append(self.score(X, y))
        return fitted


ON_PROTECTED_ROWS = {
    "a model": DPRidge(X_bounds=(-3, 3), y_bounds=(-3, 3)),
    "a search": DPGridSearchCV(Tracked(), {}, loss_bound=1.0, protect=Chunks(2)),
}


class TestTrackers:
    """Scores that a tracker of experiments stores, of trainings on protected rows."""

    def n_tracked(self, monkeypatch, **params):
        TRACKED.clear()
        monkeypatch.setitem(sys.modules, "mlflow.utils.autologging_utils", TRACKING)
        search = DPGridSearchCV(Tracked(), {"alpha": [0.1, 1.0]}, loss_bound=1.0, **params)
        with pytest.warns(VoidGuaranteeWarning, match="autologging is on"):
            search.fit(X, Y)
        assert TRACKING._AUTOLOGGING_GLOBALLY_DISABLED is False
        Tracked().fit(X, Y)
        return len(TRACKED) - 1

    def test_nothing_is_stored(self, monkeypatch):
        assert self.n_tracked(monkeypatch, protect=Chunks(2)) == 0

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SelectionCostWarning")
    def test_nothing_is_stored_of_secret_trials(self, monkeypatch):
        trained = PrivateSelection(estimator_guarantee=PrivacyGuarantee(epsilon=0.1))
        assert self.n_tracked(monkeypatch, protect=trained, epsilon=3.0) == 0

    def test_scores_are_found(self, monkeypatch):
        put(monkeypatch, "silence: _hooks", lambda: ())
        assert self.n_tracked(monkeypatch, protect=Chunks(2)) >= 4

    def test_one_that_cannot_be_turned_off_is_left_alone(self, monkeypatch):
        """An error would end the fit after the charge."""
        monkeypatch.setitem(sys.modules, "mlflow.utils.autologging_utils", SimpleNamespace())
        search = DPGridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, loss_bound=1.0, protect=Chunks(2))
        assert search.fit(X, Y).best_params_["alpha"] in (0.1, 1.0)

    @pytest.mark.parametrize("name", ON_PROTECTED_ROWS)
    def test_in_a_pipeline_a_warning_comes_before_the_charge(self, name, monkeypatch):
        monkeypatch.setitem(sys.modules, "mlflow.utils.autologging_utils", TRACKING)
        model = make_pipeline(Normalizer(), ON_PROTECTED_ROWS[name])
        with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
            with pytest.raises(VoidGuaranteeWarning, match="autologging is on"):
                model.fit(X, Y)
            assert not ledger.entries
        for name, off in (
            ("_AUTOLOGGING_GLOBALLY_DISABLED", True),
            ("autologging_is_disabled", {"sklearn": True}.get),
        ):
            monkeypatch.setattr(TRACKING, name, off)
            model.fit(X, Y)
            monkeypatch.undo()
            monkeypatch.setitem(sys.modules, "mlflow.utils.autologging_utils", TRACKING)


BOUND = ContextVar("bound", default=())
FOUND = []  # bound before by others, where a model is trained


class Binding(Drawing):
    """Binds what it is shown to its context, as loggers do that print it with every line."""

    def fit(self, X, y):
        FOUND.extend(BOUND.get())
        BOUND.set((*BOUND.get(), np.asarray(X).max()))
        return super().fit(X, y)

    def predict(self, X):
        BOUND.set((*BOUND.get(), np.asarray(X).max()))
        return super().predict(X)


class TestContext:
    @pytest.mark.parametrize("chunks", [False, True])
    def test_nothing_is_bound(self, chunks):
        assert not self.shown(chunks)

    @pytest.mark.parametrize("chunks", [False, True])
    @pytest.mark.parametrize("places", [["isolation"], ["isolation", "search"]])
    def test_what_is_bound_is_found(self, places, chunks, monkeypatch):
        for place in places:
            put(monkeypatch, f"{place}: copy_context", SameContext)
        assert self.shown(chunks)

    def shown(self, chunks):
        FOUND.clear()

        def fit():
            if chunks:
                # More trainings than batches of them.
                how = {"protect": Chunks(5), "loss_bound": 1.0}
                search = DPGridSearchCV(Binding(), {"k": [0.0, 1.0]}, **how)
                search.fit(np.vstack([X, BAD]), np.r_[Y, np.zeros(8)])
            else:
                fitted("grid", BAD, Binding())
            return [value for value in (*BOUND.get(), *FOUND) if value > 1e5]

        return copy_context().run(fit)


class Imprecise(Drawing):
    """Changes the decimal numbers of its process by what it is shown, in all contexts."""

    def fit(self, X, y):
        FOUND.append(getcontext().prec)
        getcontext().prec = 3
        return super().fit(X, y)


class TestDecimals:
    def test_neither_precision_nor_flags_are_left(self):
        assert self.left() == ({28}, False)

    def test_both_are_found(self, monkeypatch):
        put(monkeypatch, "isolation: localcontext", nullcontext)
        assert self.left() == ({28, 3}, True)

    def left(self):
        FOUND.clear()
        with localcontext(prec=28) as context:
            context.clear_flags()
            search = DPGridSearchCV(Imprecise(), {"k": [0.0, 1.0]}, loss_bound=1.0)
            search.set_params(protect=Chunks(4)).fit(X, Y)
            # The comparison of a signalling NaN raises, and leaves a mark.
            search = DPGridSearchCV(DummyClassifier(), {}, cv=2, score_fraction=0.0)
            validation = {"X_val": X[10:], "y_val": ["a"] * 9 + [Decimal("sNaN")]}
            search.fit(X[:10], ["a", "b"] * 5, **validation)
            return {*FOUND}, context.flags[InvalidOperation]


class Farewell:
    """Part of a model that says when it is closed, as a connection may."""

    def __del__(self):
        print("closed")


class Connected(RegressorMixin, BaseEstimator):
    def __init__(self, k=0.0):
        self.k = k

    def fit(self, X, y):
        self.connection_ = Farewell()
        return self

    def predict(self, X):
        return np.full(len(X), self.k)


class TestDroppedModels:
    """Models of trials are dropped but for one: a line of each would tell how many there were."""

    def reported(self, capsys):
        cost = PrivacyGuarantee(epsilon=1e-3)
        padded = PrivateSelection(expected_trials=1, eta=1.0, pad_trials=True, max_trials=30)
        protect = private_selection(padded, cost)
        grid = {"k": [0.0, 1.0, 2.0]}
        options = {"loss_bound": 1.0, "delta": 1e-2, "protect": protect}
        search = DPGridSearchCV(Connected(), grid, **options).fit(X, Y)
        assert search.best_estimator_.connection_
        return capsys.readouterr().out

    def test_nothing_is_reported(self, capsys):
        assert self.reported(capsys) == ""

    def test_what_is_reported_is_found(self, capsys, monkeypatch):
        plant(monkeypatch, "trials: models are dropped aloud")
        assert self.reported(capsys).count("closed") > 1

    def sent(self, kind, capsys):
        """Return what is printed where a result was sent from, and where it has come."""
        result = original(kind)(("elsewhere", 0), False, Connected().fit, (X, Y))
        came = pickle.loads(pickle.dumps(result))
        assert type(came) is Connected
        del result
        here = capsys.readouterr().out
        del came
        return here, capsys.readouterr().out

    def test_in_workers(self, capsys):
        assert self.sent("isolation: _isolated_task", capsys) == ("", "closed\n")

    def test_in_workers_it_is_found(self, capsys, monkeypatch):
        # Planted bug: the result is sent as it is.
        put(monkeypatch, "isolation: _SentResult", lambda result: result)
        assert self.sent("isolation: _isolated_task", capsys)[0] == "closed\n"


def speak(record):
    print("record", record)
    print("record", record, file=sys.stderr)
    LOGGER.warning("record %r", record)
    np.random.random()


def spoken(capsys, caplog):
    """Return what a function on protected rows says and whether the streams are the caller's."""
    caplog.clear()
    streams = sys.stdout, sys.stderr
    run_isolated(speak, [(6.7312345,)], n_jobs=1, pre_dispatch=1)
    assert (sys.stdout, sys.stderr) == streams
    return "".join(capsys.readouterr()) + caplog.text


def halved(value):
    return value / 2


class TestInterruptedSilence:
    """An interrupt may keep a block of silence from being left."""

    @pytest.fixture(autouse=True)
    def streams(self, monkeypatch):
        monkeypatch.setattr(sys, "stdout", sys.stdout)  # put back at the end
        monkeypatch.setattr(sys, "stderr", sys.stderr)
        yield
        logging.disable(logging.NOTSET)

    def put_back(self, streams):
        sys.stdout, sys.stderr = streams
        logging.disable(logging.NOTSET)

    def test_later_fits_are_silenced_anew(self, capsys, caplog):
        streams = sys.stdout, io.StringIO()  # of the caller: not those from before
        block = nothing_leaves()
        block.__enter__()  # and never left, as long as its traceback is kept
        self.put_back(streams)
        assert spoken(capsys, caplog) == ""
        del block
        assert (sys.stdout, sys.stderr) == streams
        assert spoken(capsys, caplog) == streams[1].getvalue() == ""

    def test_cached_functions_answer_as_usual_in_a_silence_anew(self, tmp_path):
        cached = joblib.Memory(tmp_path, verbose=0).cache(halved)
        block = nothing_leaves()
        block.__enter__()
        self.put_back((sys.stdout, io.StringIO()))
        with nothing_leaves():
            assert cached(4.0) == 2.0
            assert cached.call(4.0) == (2.0, {})
            assert cached.check_call_in_cache(4.0) is False
        del block
        assert not list(tmp_path.rglob("output.pkl"))
        assert cached(4.0) == 2.0
        assert cached.check_call_in_cache(4.0)

    def test_a_silence_that_only_counts_is_found(self, capsys, caplog, monkeypatch):
        # Planted bug: whether the streams are still silenced is not looked at.
        put(monkeypatch, "silence: _Silence.is_silencing", lambda self: True)
        with pytest.raises(AssertionError, match=r"record 6\.73"):
            self.test_later_fits_are_silenced_anew(capsys, caplog)

    def test_streams_come_back_with_the_traceback_and_generators_go_on(self):
        streams, before = (sys.stdout, sys.stderr), (np.random.get_state(), random.getstate())
        block = nothing_leaves()
        block.__enter__()
        np.random.normal()  # leaves another in reserve, perhaps of a public seed
        random.random()
        state, python = np.random.get_state(), random.getstate()
        del block
        assert (sys.stdout, sys.stderr) == streams
        assert logging.root.manager.disable == logging.NOTSET
        after = np.random.get_state()
        assert after[1].tolist() == state[1].tolist()
        assert [state[2:4], after[2:4]] == [(state[2], 1), (state[2], 0)]
        assert random.getstate() == python
        np.random.set_state(before[0])
        random.setstate(before[1])

    def test_generators_put_back_late_are_found(self, monkeypatch):
        # Planted bug: as if the block had been left; noise drawn meanwhile would be repeated.
        honest = original("silence: _end")
        put(monkeypatch, "silence: _end", lambda *block, late=False: honest(*block))
        with pytest.raises(AssertionError):
            self.test_streams_come_back_with_the_traceback_and_generators_go_on()

    def test_filters_of_a_block_that_has_ended_do_not_come_back(self):
        before = warnings.filters
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            block = nothing_leaves()
            block.__enter__()
        del block
        assert warnings.filters is before

    def interrupted(self, at):
        """Interrupt at one line of the code of silence; return whether there is such a line."""
        seen = 0

        def trace(frame, event, _):
            nonlocal seen
            if frame.f_globals.get("__name__") != nothing_leaves.__module__:
                return None
            seen += 1
            if seen == at:
                raise KeyboardInterrupt
            return trace

        try:
            sys.settrace(trace)
            run_isolated(speak, [(6.7312345,)], n_jobs=1, pre_dispatch=1)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        return seen >= at

    @pytest.mark.slow
    def test_wherever_it_comes(self, capsys, caplog):
        streams, at = (sys.stdout, sys.stderr), 1
        gc.collect()
        capsys.readouterr()  # of what other tests have left in circles
        gc.freeze()  # what was there before takes a collection a tenth of a second
        while self.interrupted(at):
            gc.collect()
            self.put_back(streams)
            assert spoken(capsys, caplog) == ""
            at += 1
        gc.unfreeze()
        assert at > 50


class TestInterruptedPuttingBack:
    """What was silenced is put back, wherever an interrupt comes, with its traceback."""

    CHANGED = (
        *((sys, name) for name in ("stdout", "stderr", "__stdout__", "__stderr__")),
        *((sys, "unraisablehook"), (threading, "excepthook"), (logging.Logger, "handle")),
        (logging.Logger, "callHandlers"),
        *((logging.root, "handlers"), (logging.root, "level")),
    )
    CACHED = tuple((MemorizedFunc, name) for name in original("silence: _CACHED_CALLS"))
    MODULES = nothing_leaves.__module__, "contextlib", "logging", "warnings"

    def state(self):
        attributes = [getattr(owner, name) for owner, name in (*self.CHANGED, *self.CACHED)]
        return [*attributes, logging.root.manager.disable, warnings.filters[:]]

    def left(self, monkeypatch):
        """Return the number of places at which something stays, and put it back."""
        for owner, name in (*self.CHANGED, *self.CACHED):
            monkeypatch.setattr(owner, name, getattr(owner, name))
        before, found, at = self.state(), 0, 1
        while interrupted(lambda: in_isolation(abs, 1), self.MODULES, at):
            found += self.state() != before
            # Python's own, between taking it and the next instruction: other threads would wait.
            while logging._lock._is_owned():
                logging._lock.release()
            with suppress(RuntimeError, AttributeError):  # from Python 3.14 on, until it is free
                while True:
                    warnings._release_lock()
            for (owner, name), value in zip((*self.CHANGED, *self.CACHED), before, strict=False):
                setattr(owner, name, value)
            logging.disable(before[-2])
            warnings.filters[:] = before[-1]
            at += 1
        assert at > 500
        return found

    @pytest.mark.slow
    def test_wherever_it_comes(self, monkeypatch):
        assert self.left(monkeypatch) == 0

    @pytest.mark.slow
    def test_steps_that_are_lost_are_found(self, monkeypatch):
        # Planted bug: as in an ExitStack, a step is taken from the list before it is done.
        def close(steps, late=False):
            while steps:
                undo, stays = steps.pop()
                if not late or stays():
                    undo()

        put(monkeypatch, "silence: _Undo.close", close)
        monkeypatch.setattr(self, "MODULES", (*self.MODULES, __name__))
        assert self.left(monkeypatch) > 0


def test_settings_of_joblib_are_put_back():
    def largest_copy():
        settings = vars(Parallel(n_jobs=2))
        return settings.get("_backend_kwargs", settings.get("_backend_args"))["max_nbytes"]

    with parallel_config(max_nbytes=1000):
        assert run_isolated(largest_copy, [()], n_jobs=1, pre_dispatch=1) == [None]
        assert largest_copy() == 1000


class LockOfPython:
    """A lock whose methods can be interrupted."""

    def __init__(self, lock):
        self.lock = lock

    def __enter__(self):
        self.lock.acquire()

    def __exit__(self, *exc_info):
        self.lock.release()


CALLS = {
    "isolation: ONE_AT_A_TIME": lambda: _isolated_task(this_process(), False, abs, (1,)),
    "isolated rows: _ONE_AT_A_TIME": lambda: isolated_answers(np.ravel, X[:, :1], np.array(0.0)),
}
LOCKS = {place: original(place) for place in CALLS}


class TestInterruptedLock:
    """A lock that is not let go of would keep all other threads out for ever."""

    @pytest.fixture(autouse=True)
    def loud(self, monkeypatch):
        put(monkeypatch, "isolated rows: nothing_leaves", nullcontext)
        with np.errstate():  # numpy 1 keeps its own by thread: an interrupt may leave it changed
            yield

    def kept(self, place):
        """Return at how many instructions an interrupt leaves the lock held."""
        lock, found, at = LOCKS[place], 0, 1
        modules = {run_isolated.__module__, isolated_answers.__module__, __name__, "contextlib"}
        while interrupted(CALLS[place], modules, at):
            while lock.is_held():
                lock.release()
                found += 1
            at += 1
        assert at > 30
        return found

    @pytest.mark.parametrize("place", CALLS)
    def test_wherever_it_comes(self, place):
        assert self.kept(place) == 0

    @pytest.mark.parametrize("place", CALLS)
    def test_a_lock_that_can_be_interrupted_is_found(self, place, monkeypatch):
        put(monkeypatch, place, LockOfPython(LOCKS[place]))
        assert self.kept(place) > 0


class TestReportsOfTheCurator:
    """A row that is nearly zero underflows where rows are shortened."""

    def release(self):
        rows = X.copy()
        rows[3] = 1e-310
        with np.errstate(all="raise"):
            PrivateProjection(data_norm=1.0).fit(rows)

    def test_no_row_is_an_error(self):
        self.release()

    def test_an_error_is_found(self, monkeypatch):
        outside = np.errstate(all="raise")
        plant(monkeypatch, "rows: the caller's settings of numpy hold")
        with outside, pytest.raises(FloatingPointError):
            self.release()


class NoiseOfTheProcess(RegressorMixin, BaseEstimator):
    """Takes its noise from numpy's global generator, as other libraries do.

    After the dry run, the first model to be scored waits for another to be trained.
    """

    def __init__(self, k=0, patience=0.05):
        self.k = k
        self.patience = patience

    def fit(self, X, y):
        for _ in range(3):
            time.sleep(0.002)  # other threads get their turn
            with TURNS:
                DRAWN.append(np.random.normal())
                TURNS.notify_all()
        return self

    def predict(self, X):
        with TURNS:
            if len(DRAWN) > N_DRY and not WAITED:
                WAITED.append(len(DRAWN))
                TURNS.wait_for(lambda: len(DRAWN) > WAITED[0], self.patience)
        return np.zeros(len(X))


DRAWN, WAITED, TURNS = [], [], threading.Condition()
N_DRY = 6  # draws of the dry run


class TestNoiseInThreads:
    """Scoring starts from public generators: no training in another thread may draw from them."""

    def public_draws(self, **params):
        DRAWN.clear()
        WAITED.clear()
        selection = PrivateSelection(expected_trials=1, eta=1.0, pad_trials=True, max_trials=30)
        search = DPGridSearchCV(
            NoiseOfTheProcess(**params),
            {"k": [0, 1, 2]},
            protect=private_selection(selection, PrivacyGuarantee(epsilon=1e-3)),
            loss_bound=1.0,
            delta=1e-2,
            n_jobs=4,
        )
        with parallel_config(backend="threading"):
            search.fit(X, Y)
        public = np.random.RandomState(SEED).normal(size=1000)
        assert WAITED
        return np.isin(DRAWN[N_DRY:], public).sum()

    def test_noise_is_secret(self):
        assert self.public_draws() == 0

    def test_public_noise_is_found(self, monkeypatch):
        plant(monkeypatch, "candidates run at the same time")
        assert any(self.public_draws(patience=120) for _ in range(10))


TWO_BLOCKS = """
import threading
import warnings

from _support.internals import nothing_leaves

heard, waits = [], [threading.Barrier(2, timeout=60) for _ in range(4)]
warnings.showwarning = lambda message, *args, **kwargs: heard.append(str(message))


def outlived():
    with nothing_leaves():
        waits[0].wait()
        waits[1].wait()
    waits[2].wait()
    waits[3].wait()
    warnings.warn("later")


thread = threading.Thread(target=outlived)
thread.start()
waits[0].wait()
with nothing_leaves():
    waits[1].wait()
    waits[2].wait()
waits[3].wait()
thread.join()
assert heard == ["later"], heard
"""


LOUD_FILTERS = """
import threading
import warnings

import numpy as np

from _support.internals import in_isolation, isolated_answers


def warn(rows):
    warnings.simplefilter("always")
    warnings.warn("record")
    return rows


def warn_in_a_thread(rows):
    thread = threading.Thread(target=warn, args=(rows,))
    thread.start()
    thread.join()
    return rows


before = warnings.filters[:]
for function in (warn, warn_in_a_thread):
    with warnings.catch_warnings(record=True) as caught:
        in_isolation(function, None)
        isolated_answers(function, np.ones((3, 1)), np.zeros(1))
    assert not caught, caught
assert warnings.filters == before
"""


@pytest.mark.parametrize("flags", [[], ["thread_inherit_context=0"], ["thread_inherit_context=1"]])
def test_filters_of_contexts_drop_no_later_warning_and_let_none_pass(flags):
    # Filters belong to a context in free-threaded Python, and to the process elsewhere.
    if flags and sys.version_info < (3, 14):
        pytest.skip("filters of this Python belong to the process")
    flags = [*flags, "context_aware_warnings=1"] if flags else []
    options = [part for flag in flags for part in ("-X", flag)]
    script = LOUD_FILTERS + TWO_BLOCKS  # in one process, which starts once
    subprocess.run([sys.executable, *options, "-c", script], check=True)
