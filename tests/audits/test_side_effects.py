"""What protected rows might move besides the result: generators, reports, output, shared objects.

A model may draw from the global generators, print, log or keep what it is shown. None of it may be
seen after `fit`, or reach what is trained afterwards: it would tell of single records, or how many
trials there were.
"""

import contextlib
import logging
import pickle
import random
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPSparseGPRegressor
from skdpbo.gaussian_process import PrivateProjection, _projection_base
from skdpbo.model_selection import (
    PrivateSelection,
    _chunk_losses,
    _chunked_fit,
    _evaluation,
    _opening,
    _roles,
    _selected_fit,
    _selected_trials,
)
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger

RNG = np.random.RandomState(0)
X, Y = RNG.normal(size=(20, 2)), RNG.normal(size=20)
GOOD = RNG.normal(size=(8, 2))
BAD = GOOD.copy()
BAD[3] = 1e9
LOGGER = logging.getLogger("tests.audits.side_effects")


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
            LOGGER.warning("predicting %d", len(X))
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
    "gibo": lambda e, **k: DPGIBOSearchCV(e, {"k": (0.0, 1.0)}, n_iter=2, **k),
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

    @pytest.mark.parametrize("kind", SEARCHES)
    def test_a_record_moves_nothing_that_is_trained_later(self, kind):
        assert self.after(kind, GOOD) == self.after(kind, BAD)

    def test_of_threads(self):
        with parallel_config(backend="threading"):
            first, second = (self.after("grid", rows, n_jobs=2) for rows in (GOOD, BAD))
        assert first == second

    def test_a_bad_record_moves_no_other_records_loss(self, monkeypatch):
        losses, honest = [], _evaluation._isolated_losses

        def recorded(*args):
            losses.append(honest(*args))
            return losses[-1]

        monkeypatch.setattr(_evaluation, "_isolated_losses", recorded)
        for rows in (GOOD, BAD):
            fitted("grid", rows)
        pairs = zip(losses[:2], losses[2:], strict=True)
        assert [np.flatnonzero(a != b).tolist() for a, b in pairs] == [[3], [3]]

    def test_generators_that_go_on_are_found(self, monkeypatch):
        # Planted bug: scoring leaves its traces in the generators.
        for name in ("nothing_leaves", "public_generators"):
            monkeypatch.setattr(_evaluation, name, lambda *args: contextlib.nullcontext())
        assert self.after("grid", GOOD) == self.after("grid", GOOD)
        assert self.after("grid", GOOD) != self.after("grid", BAD)

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
    @pytest.mark.parametrize("outer", ["grid", "chunks"])
    def test_threads_inside_do_not_wait_for_ever(self, outer):
        quick = {"guide": False, "loss_bound": 1.0, "score_fraction": 0.0}
        inner = DPGridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, n_jobs=2, **quick)
        search = DPGridSearchCV(inner, {"epsilon": [1.0, 2.0]}, **quick)
        rows = {"X_val": GOOD, "y_val": np.zeros(8)}
        if outer == "chunks":
            search.set_params(protect="all", n_chunks=2, refit=False)
            rows = {}
        with parallel_config(backend="threading"):
            assert search.fit(X, Y, **rows).best_params_["epsilon"] in (1.0, 2.0)


class Overflowing(Drawing):
    def predict(self, X):
        return np.asarray(X)[:, 0] * 1e300


class TestReports:
    """What numpy does about overflow is a choice of the process: print, call, raise."""

    def reports(self, capfd, X_val):
        told = []
        with np.errstate(over="call", call=lambda *args: told.append(args)):
            fitted("grid", X_val, Overflowing())
        with np.errstate(over="print"):
            fitted("grid", X_val, Overflowing())
        return told, "".join(capfd.readouterr())

    def test_nothing_is_reported(self, capfd):
        assert self.reports(capfd, BAD) == ([], "")

    def test_reports_are_found(self, capfd, monkeypatch):
        # Planted bug: the reports stay on.
        for name in ("nothing_leaves", "public_generators"):
            monkeypatch.setattr(_evaluation, name, lambda *args: contextlib.nullcontext())
        assert all(self.reports(capfd, BAD))


class TestOutput:
    """Prints and log records of a model: each batch that fails makes one more."""

    def said(self, capsys, caplog, kind="grid", **params):
        caplog.clear()
        fitted(kind, BAD, Drawing(loud=True), refit=False, **params)
        return "".join(capsys.readouterr()) + caplog.text

    @pytest.mark.parametrize("n_jobs", [None, 2])
    def test_nothing_is_said(self, n_jobs, capsys, caplog):
        with parallel_config(backend="threading"):
            assert self.said(capsys, caplog, n_jobs=n_jobs) == ""

    def test_what_is_said_is_found(self, capsys, caplog, monkeypatch):
        monkeypatch.setattr(_evaluation, "nothing_leaves", contextlib.nullcontext)
        said = self.said(capsys, caplog)
        assert said.count("predicting 4") >= 2


class Sampling(TransformerMixin, BaseEstimator):
    """Fills in missing values at random, by a generator that it keeps, as some imputers do."""

    def fit(self, X, y=None):
        self.random_state_ = np.random.RandomState(0)
        self.n_features_in_ = np.shape(X)[1]
        return self

    def transform(self, X):
        self.random_state_.normal(size=1 + int(np.isnan(X).sum()))
        return np.nan_to_num(X)


def private_regressor():
    return DPSparseGPRegressor(
        RBF(1.0), inducing_points=np.zeros((1, 2)), X_bounds=(-3, 3), y_bounds=(-1, 1)
    )


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.DryRunWarning")
class TestFrozenParts:
    """Cloning hands on what is frozen: the caller's own object would be shown protected rows."""

    MISSING = np.where(np.arange(40).reshape(20, 2) % 3, X, np.nan)

    def state(self, protect, rows, part=None):
        part = FrozenEstimator(Sampling().fit(X)) if part is None else part
        options = {"guide": False, "loss_bound": 1.0, "score_fraction": 0.0}
        options |= {"protect": protect, "refit": False}
        if protect == "validation":
            search = DPGridSearchCV(
                make_pipeline(part, Ridge()), {"ridge__alpha": [1.0]}, **options
            )
            search.fit(X, Y, X_val=rows, y_val=Y)
        elif protect == "chunks":
            options |= {"protect": "all", "n_chunks": 2}
            search = DPGridSearchCV(
                make_pipeline(part, Ridge()), {"ridge__alpha": [1.0]}, **options
            )
            search.fit(rows, Y)
        else:
            name = "dpsparsegpregressor__noise_variance"
            pipeline = make_pipeline(part, private_regressor())
            search = DPGridSearchCV(
                pipeline, {name: [0.1, 0.2, 0.3]}, **(options | {"refit": True})
            )
            search.fit(rows, Y)
            assert search.best_estimator_[0].estimator is part.estimator
        return pickle.dumps(part.estimator.random_state_.get_state())

    @pytest.mark.parametrize("protect", ["validation", "chunks"])
    def test_untouched(self, protect):
        assert self.state(protect, X) == self.state(protect, self.MISSING)

    def test_the_number_of_trials_is_not_counted(self):
        seen = {self.state("all", rows) for rows in (X, X, self.MISSING, self.MISSING)}
        assert len(seen) == 1

    @pytest.mark.parametrize("protect", ["validation", "chunks", "all"])
    def test_a_shared_part_is_found(self, protect, monkeypatch):
        # Planted bug: what is frozen is shared.
        for module in (_evaluation, _chunk_losses, _selected_trials):
            monkeypatch.setattr(module, "unshared", lambda model: (model, []))
        assert len({self.state(protect, rows) for rows in (X, X, self.MISSING)}) > 1


class Noting(Ridge):
    """Tells an object that it is given of every fit."""

    def fit(self, X, y, listener=None):
        listener.heard.append(np.asarray(y).sum())
        return super().fit(X, y)


class TestListeners:
    """An object that is given to `fit`, such as a list of callbacks, hears of every training."""

    def heard(self, **options):
        listener = SimpleNamespace(heard=[])
        declared = {"estimator_guarantee": PrivacyGuarantee(epsilon=1e-3)}
        alphas = {"alpha": [1.0, 2.0, 3.0]}
        search = DPGridSearchCV(
            Noting(), alphas, protect="all", loss_bound=1.0, **(options or declared)
        )
        search.fit(X, Y, listener=listener)
        return listener.heard

    CHUNKS = {"n_chunks": 2, "score_fraction": 0.0, "refit": False, "guide": False}

    @pytest.mark.parametrize("options", [{}, CHUNKS])
    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.DryRunWarning")
    def test_nothing_is_heard(self, options):
        assert self.heard(**options) == []

    @pytest.mark.parametrize("options", [{}, CHUNKS])
    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.DryRunWarning")
    def test_a_listener_is_found(self, options, monkeypatch):
        # Planted bug: all trainings are given the caller's object.
        as_it_is = SimpleNamespace(deepcopy=lambda thing: thing)
        for module in (_chunk_losses, _selected_trials):
            monkeypatch.setattr(module, "copy", as_it_is)
        assert self.heard(**options)


class Stopping(Ridge):
    """Stops early by rows that it is given, as gradient boosting does."""

    def fit(self, X, y, eval_set=None):
        super().fit(X, y)
        if eval_set is not None:
            SHOWN.append(np.shape(eval_set[0][0]))
        return self


SHOWN = []


class TestRowsAmongEntries:
    """``eval_set=[(X, y)]`` shows all rows to every training."""

    def fit(self, mode, eval_set):
        options = {"loss_bound": 1.0, "score_fraction": 0.0, "guide": False}
        rows = {}
        if mode == "chunks":
            options |= {"protect": "all", "n_chunks": 2, "refit": False}
        elif mode == "trials":
            options = {"protect": "all", "loss_bound": 1.0}
            options |= {"estimator_guarantee": PrivacyGuarantee(epsilon=1e-3)}
        elif mode == "validation":
            rows = {"X_val": GOOD, "y_val": Y[:8].copy()}
        SHOWN.clear()
        search = DPGridSearchCV(Stopping(), {"alpha": [1.0, 2.0, 3.0]}, **options)
        search.fit(X, Y, **rows, eval_set=eval_set)

    MODES = ("split", "validation", "chunks", "trials")

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
    @pytest.mark.parametrize("mode", MODES)
    def test_protected_rows_are_refused(self, mode):
        X_val = GOOD if mode == "validation" else X
        for eval_set in ([(X_val, Y[:8])], {0: (X_val[2:7], 0)}, [[X_val.view()]]):
            with PrivacyLedger(epsilon=9.0) as ledger, pytest.raises(ValueError, match="eval_set"):
                self.fit(mode, eval_set)
            assert not ledger.entries
        assert not SHOWN

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.DryRunWarning")
    @pytest.mark.parametrize("mode", MODES)
    def test_public_rows_are_not(self, mode):
        self.fit(mode, [(np.zeros((5, 2)), np.zeros(5))])
        assert set(SHOWN) == {(5, 2)}

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.DryRunWarning")
    def test_rows_that_are_shown_are_found(self, monkeypatch):
        # Planted bug: nobody looks.
        for module in (_opening, _chunked_fit, _selected_fit):
            monkeypatch.setattr(module, "refuse_rows_among_entries", lambda *args: None)
        for mode in self.MODES:
            self.fit(mode, [(X, Y)])
            assert X.shape in SHOWN


class Codes(RegressorMixin, BaseEstimator):
    """Predicts the codes of a column of categories, as some boosting libraries do."""

    def __init__(self, k=0):
        self.k = k

    def fit(self, X, y):
        self.n_features_in_ = 1
        return self

    def predict(self, X):
        return X["c"].cat.codes.to_numpy().astype(float)


class TestCategories:
    """Categories that are collected from protected rows: one record may add one."""

    PUBLIC = pd.DataFrame({"c": pd.Categorical([*"bcde"] * 5)})

    def losses(self, first, monkeypatch, ordered=False):
        seen, honest = [], _evaluation._isolated_losses

        def recorded(*args):
            seen.append(honest(*args))
            return seen[-1]

        monkeypatch.setattr(_evaluation, "_isolated_losses", recorded)
        rows = pd.DataFrame({"c": pd.Categorical([first, *"bcdebcd"], ordered=ordered)})
        search = DPGridSearchCV(Codes(), {}, loss_bound=9.0, guide=False, score_fraction=0.0)
        search.fit(self.PUBLIC, np.zeros(20), X_val=rows, y_val=np.zeros(8))
        monkeypatch.setattr(_evaluation, "_isolated_losses", honest)
        return seen[0]

    @pytest.mark.parametrize("ordered", [False, True])
    def test_a_record_moves_its_own_code_alone(self, ordered, monkeypatch):
        first, second = (self.losses(category, monkeypatch, ordered) for category in "ba")
        assert np.flatnonzero(first != second).tolist() == [0]

    def test_the_order_of_the_categories_is_the_public_one(self, monkeypatch):
        usual = self.losses("b", monkeypatch)
        other = pd.Categorical([*"bcde"] * 5, categories=[*"edcb"])
        monkeypatch.setattr(TestCategories, "PUBLIC", pd.DataFrame({"c": other}))
        turned = self.losses("b", monkeypatch)
        assert [usual[0], usual[4]] == [0, 2**20]
        assert [turned[0], turned[4]] == [2**20, 0]

    def test_codes_that_move_are_found(self, monkeypatch):
        # Planted bug: categories are taken as they are.
        monkeypatch.setattr(_roles, "_with_public_categories", lambda column, dtype: column)
        first, second = (self.losses(category, monkeypatch) for category in "ba")
        assert (first != second)[1:].any()


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
        # Planted bug: the caller's settings hold.
        outside = np.errstate(all="raise")
        silent = SimpleNamespace(**{**vars(np), "errstate": lambda **how: contextlib.nullcontext()})
        monkeypatch.setattr(_projection_base, "np", silent)
        with outside, pytest.raises(FloatingPointError):
            self.release()


class NoiseOfTheProcess(RegressorMixin, BaseEstimator):
    """Takes its noise from numpy's global generator, as other libraries do; slowly."""

    def __init__(self, k=0):
        self.k = k

    def fit(self, X, y):
        for _ in range(3):
            time.sleep(0.002)  # other threads get their turn
            DRAWN.append(np.random.normal())
        return self

    def predict(self, X):
        time.sleep(0.002)
        return np.zeros(len(X))


DRAWN = []


class TestNoiseInThreads:
    """Scoring starts from public generators: no training in another thread may draw from them."""

    def public_draws(self):
        DRAWN.clear()
        selection = PrivateSelection(expected_trials=1, eta=1.0, pad_trials=True, max_trials=30)
        search = DPGridSearchCV(
            NoiseOfTheProcess(),
            {"k": [0, 1, 2]},
            protect="all",
            loss_bound=1.0,
            delta=1e-2,
            n_jobs=4,
            selection=selection,
            estimator_guarantee=PrivacyGuarantee(epsilon=1e-3),
        )
        with parallel_config(backend="threading"):
            search.fit(X, Y)
        public = np.random.RandomState(_evaluation._SEED).normal(size=1000)
        return np.isin(DRAWN[6:], public).sum()  # the first are those of the dry run

    def test_noise_is_secret(self):
        assert self.public_draws() == 0

    def test_public_noise_is_found(self, monkeypatch):
        # Planted bug: threads share the generators.
        monkeypatch.setattr(_selected_trials, "ONE_AT_A_TIME", contextlib.nullcontext())
        assert any(self.public_draws() for _ in range(10))
