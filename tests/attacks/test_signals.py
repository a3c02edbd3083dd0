"""Handlers of signals that raise, as of SIGTERM or of alarms: they end a fit, a record does not."""

import enum
import signal
import sys
import threading
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from _support.internals import attempt, mixes_rows
from skdpbo import DPGridSearchCV
from skdpbo.exceptions import SkdpboWarning
from skdpbo.model_selection import Chunks
from skdpbo.privacy import PrivacyLedger

SECRET = 6.7312345
X = np.append(np.linspace(0, 1, 49), SECRET)[:, None]
Y = np.zeros(50)


class Slow(RegressorMixin, BaseEstimator):
    """Is at work on the secret record when the signal comes."""

    def __init__(self, a=0.0, where="predict", kind=None):
        self.a = a
        self.where = where
        self.kind = kind

    def meet(self, X, where):
        if where == self.where and (np.asarray(X) == SECRET).any():
            if self.kind is not None:
                raise self.kind(f"cannot read {SECRET}")
            signal.raise_signal(signal.SIGTERM)

    def fit(self, X, y):
        self.meet(X, "fit")
        self.n_features_in_ = 1
        return self

    def predict(self, X):
        self.meet(X, "predict")
        return np.zeros(len(X))


def leave(signum, frame):
    sys.exit(128 + signum)


class Leaving:
    def leave(self, signum, frame):
        leave(signum, frame)

    def __call__(self, signum, frame):
        sys.exit(128 + signum)


HANDLERS = {
    "function": leave,
    "method": Leaving().leave,
    "partial": partial(leave),
    "callable": Leaving(),
}


@pytest.fixture(params=HANDLERS)
def handler(request):
    before = signal.signal(signal.SIGTERM, HANDLERS[request.param])
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("where", ["predict", "fit"])
def test_a_signal_ends_the_fit_with_the_words_of_its_handler(handler, where):
    protect = {"protect": Chunks(2), "guide": False} if where == "fit" else {}
    search = DPGridSearchCV(Slow(where=where), {"a": [0.0, 1.0]}, loss_bound=1.0, **protect)
    rows = {} if where == "fit" else {"X_val": X, "y_val": Y}
    n_public = 50 - 10 * len(rows)
    with PrivacyLedger(9.0) as ledger, pytest.raises(SystemExit) as caught:
        search.fit(X[:n_public], Y[:n_public], **rows)
    assert caught.value.code == 128 + signal.SIGTERM
    assert caught.value.__context__ is caught.value.__cause__ is None
    assert len(ledger.entries) == 1
    assert not hasattr(search, "best_params_")


class PanicException(BaseException):
    """As Rust extensions raise it."""


@pytest.mark.parametrize("kind", [SystemExit, PanicException, ValueError])
def test_an_error_of_a_record_does_not(handler, kind):
    _, error = attempt(Slow(kind=kind).predict, X)
    assert str(error) == f"cannot read {SECRET}"


def test_it_ends_calls_around_the_one_that_it_met(handler):
    with pytest.raises(SystemExit):
        attempt(attempt, Slow().predict, X)


def test_an_error_of_another_thread_does_not(handler):
    errors = []
    call = partial(attempt, leave, signal.SIGTERM, None)
    thread = threading.Thread(target=lambda: errors.append(call()[1]))
    thread.start()
    thread.join()
    assert errors[0].code == 128 + signal.SIGTERM


class Rows(list):
    """Public rows that are read when the signal comes."""

    def __len__(self):
        signal.raise_signal(signal.SIGTERM)
        return 3


def test_a_signal_ends_the_checks_of_public_rows(monkeypatch, handler):
    monkeypatch.setattr(sys, "exit", time_out)
    with pytest.raises(TimeoutError):
        mixes_rows(len, Rows([[0.0], [1.0], [2.0]]))


def time_out(code):
    raise TimeoutError


class Ward(enum.IntEnum):
    """Places that have a number."""

    SURGERY = 0
    MATERNITY = 1


def numbers_of_wards(X):
    return np.vectorize(lambda cell: Ward(cell) if cell in (0, 1, UNKNOWN) else 0)(X).astype(float)


UNKNOWN = 731652


def test_an_enum_that_has_no_such_value_is_no_handler():
    """That there is no handler is an enum as well: both are called by the class of all enums."""
    public = np.tile([[0], [1]], (20, 1))
    protected = public.copy()
    protected[3] = UNKNOWN
    model = make_pipeline(FunctionTransformer(numbers_of_wards), LogisticRegression())
    search = DPGridSearchCV(model, {"logisticregression__C": [1.0]}, guide=False, epsilon=1e6)
    rows = {"X_val": protected, "y_val": public[:, 0].copy()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkdpboWarning)
        search.fit(public, public[:, 0], **rows)
    assert search.best_score_ == pytest.approx(39 / 40, abs=1e-3)
