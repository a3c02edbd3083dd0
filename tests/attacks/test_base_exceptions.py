"""Exceptions of any class that a protected record causes: its worst loss, and no word of it."""

import gc
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression

from _support.internals import UserLoss, as_numbers, as_objects, attempt, codes_among, zero_one
from _support.planted import original, put
from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, make_per_record_scorer
from skdpbo.model_selection import Chunks, PrivateSelection
from skdpbo.privacy import PrivacyGuarantee

pytestmark = pytest.mark.usefixtures("few_public_candidates")

SECRET = 6.7312345


class PanicException(BaseException):
    """As Rust extensions raise it: not an `Exception`."""


class Interruption(KeyboardInterrupt):
    """Not the caller's own."""


class LikeAll(type):
    """Class of a class that says that it is any other."""

    def __eq__(cls, other):
        return True

    __hash__ = type.__hash__


class ChameleonError(Exception, metaclass=LikeAll):
    """One that is taken for an interrupt where classes are compared by ``==``."""

    def __init__(self, *args):
        super().__init__(*args or (f"made anew by {SECRET}",))


class NestedError(Exception):
    """One in more groups than calls may be nested, each of which holds the one before twice."""

    def __new__(cls, *args):
        error = ValueError(*args)
        for _ in range(3000):
            error = ExceptionGroup(str(args), [error, error])
        return error


KINDS = [PanicException, SystemExit, Interruption, MemoryError, RecursionError, ChameleonError]
KINDS += [NestedError]
X, Y = np.linspace(0, 1, 40)[:, None], np.zeros(40)
X_VAL = np.append(np.linspace(0, 1, 9), SECRET)[:, None]


class Panicking(RegressorMixin, BaseEstimator):
    """Raises, with a text that quotes the secret, where it meets it."""

    def __init__(self, kind=PanicException, a=0.0, where="predict"):
        self.kind = kind
        self.a = a
        self.where = where

    def meet(self, X, where):
        if where == self.where and (np.asarray(X) == SECRET).any():
            raise self.kind(f"cannot read {SECRET}")

    def fit(self, X, y):
        self.meet(X, "fit")
        self.n_features_in_ = 1
        return self

    def predict(self, X):
        self.meet(X, "predict")
        return np.zeros(len(X))


def searches(estimator):
    rows = {"X_val": X_VAL, "y_val": np.zeros(10)}
    usual = {"loss_bound": 1.0, "score_fraction": 0.5, "epsilon": 1e6}
    grid = {"a": [0.0, 1.0]}
    yield DPGridSearchCV(estimator, grid, guide=False, **usual), (X, Y), rows
    yield DPGridSearchCV(estimator, grid, cv=2, **usual), (X, Y), rows
    bayes = {"n_iter": 3, "n_initial_points": 2, "cv": 2, "mechanism": "gaussian"}
    yield DPBayesSearchCV(estimator, {"a": (0.0, 1.0)}, **bayes, **usual), (X, Y), rows
    yield DPGIBOSearchCV(estimator, {"a": (0.0, 1.0)}, n_iter=2, **usual), (X, Y), rows


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyGradientWarning")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_record_that_cannot_be_predicted(kind):
    for search, public, protected in searches(Panicking(kind)):
        search.fit(*public, **protected)
        # One of ten records has the worst loss; the noise is far smaller than .01.
        assert search.best_score_ == pytest.approx(-0.1, abs=0.01)


DECLARED = PrivateSelection(estimator_guarantee=PrivacyGuarantee(epsilon=1e-3))


@pytest.mark.quick_cases(3)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyScoreWarning")
@pytest.mark.parametrize("where", ["fit", "predict"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_record_that_trains(kind, where):
    rows = np.linspace(0, 1, 40)[:, None]
    rows[7] = SECRET
    search = DPGridSearchCV(
        Panicking(kind, where=where),
        {"a": [0.0, 1.0]},
        protect=Chunks(2),
        loss_bound=1.0,
    )
    assert search.fit(rows, Y).best_index_ in (0, 1)


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SelectionCostWarning")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_private_training(kind):
    rows = np.linspace(0, 1, 40)[:, None]
    rows[:] = SECRET
    search = DPGridSearchCV(
        Panicking(kind, where="fit"), {"a": [0.0, 1.0]}, protect=DECLARED, loss_bound=1.0
    )
    with pytest.raises(ValueError, match="there is no model") as caught:
        search.fit(rows, Y)
    chain = [caught.value, caught.value.__context__, caught.value.__cause__]
    assert not any(str(SECRET) in str(error) for error in chain)


def test_a_loss_that_panics():
    def loss(y, prediction):
        if (np.asarray(y) == SECRET).any():
            raise PanicException(f"cannot read {SECRET}")
        return np.zeros(len(y))

    scoring = make_per_record_scorer(loss, bound=1.0)
    search = DPGridSearchCV(
        Panicking(where="nowhere"), {"a": [0.0]}, guide=False, scoring=scoring, epsilon=1e6
    )
    targets = np.append(np.zeros(9), SECRET)
    search.fit(X, Y, X_val=X_VAL, y_val=targets)
    assert search.best_score_ == pytest.approx(-0.1, abs=0.01)


class Cell:
    """A value whose every use raises, with a text that quotes the secret."""

    def __init__(self, kind):
        self.kind = kind

    def __float__(self, *args, **kwargs):
        raise self.kind(f"cannot read {SECRET}")

    __array__ = __eq__ = __hash__ = __bool__ = __len__ = __reduce__ = __str__ = __float__


class Row(Cell):
    """A row whose shape cannot be read."""

    shape = property(Cell.__float__)


def read(table, cell):
    """Search with one cell of ten protected records in the place of a good one."""
    rows, targets = np.zeros((10, 1)).astype(object), np.zeros(10).astype(object)
    if table == "targets":
        targets[3] = cell
    else:
        rows[3, 0] = cell
    X_val = {"array": rows, "frame": pd.DataFrame(rows)}.get(table, rows.tolist())
    if table == "rows":
        X_val[3] = cell
    search = DPGridSearchCV(
        Panicking(where="nowhere"), {"a": [0.0]}, guide=False, loss_bound=1.0, epsilon=1e6
    )
    public = pd.DataFrame(X) if table == "frame" else X
    return search.fit(public, Y, X_val=X_val, y_val=targets).best_score_


TABLES = ["list", "array", "frame", "rows", "targets"]


def test_calls_as_deep_as_python_allows_end_with_a_result():
    def deeper():
        return attempt(deeper)

    assert isinstance(deeper(), tuple)  # the innermost call could not look into its own error


class TestCells:
    """A cell or label that cannot be read, of whatever class its exception is."""

    @pytest.mark.quick_cases(7)
    @pytest.mark.parametrize("table", TABLES)
    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
    def test_a_record_that_cannot_be_read(self, table, kind):
        cell = (Row if table == "rows" else Cell)(kind)
        assert read(table, cell) == pytest.approx(-0.1, abs=0.01)

    @pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "f1"])
    def test_a_label_that_cannot_be_compared(self, scoring):
        model, y = LogisticRegression(), np.tile([0, 1], 20)
        labels = np.append(np.tile([0, 1], 20), 0).astype(object)
        labels[-1] = Cell(PanicException)
        search = DPGridSearchCV(model, {"C": [1.0]}, guide=False, scoring=scoring, epsilon=1e6)
        search.fit(X, y, X_val=X[[*range(40), 0]], y_val=labels)
        assert search.best_index_ == 0

    @pytest.mark.parametrize("form", ["list", "array"])
    def test_a_target_that_holds_itself(self, form):
        """Reading it to its end ended the fit, after the charge."""
        own = []
        own.append(own)
        targets = [0.0] * 9 + [own]
        if form == "array":
            targets = np.fromiter(targets, object, len(targets))
        search = DPGridSearchCV(LinearRegression(), {"fit_intercept": [True]}, loss_bound=1.0, cv=2)
        search.set_params(epsilon=1e6, score_fraction=0.5)
        search.fit(X, Y, X_val=np.zeros((10, 1)), y_val=targets)
        assert search.best_score_ == pytest.approx(-0.1, abs=0.01)

    @pytest.mark.parametrize("width", [None, 1])
    def test_rows_of_objects(self, width):
        rows = [[0], [Cell(PanicException)], Row(PanicException), [1]]
        table = as_objects(rows, width)
        assert [table[0, 0], table[3, 0]] == [0, 1]
        assert np.isnan(table[1:3].astype(float)).all()

    @pytest.mark.parametrize("table", TABLES[:4])
    def test_a_panic_that_passes_is_found(self, monkeypatch, table):
        # Planted bug: errors are caught as Python programs usually do.
        put(monkeypatch, "public types: attempt", attempt_exceptions)
        put(monkeypatch, "object tables: attempt", attempt_exceptions)
        with pytest.raises(PanicException, match=str(SECRET)):
            read(table, (Row if table == "rows" else Cell)(PanicException))

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit])
    @pytest.mark.parametrize("table", TABLES[:4])
    def test_the_caller_may_interrupt_without_a_word(self, table, kind):
        with pytest.raises(kind) as caught:
            read(table, (Row if table == "rows" else Cell)(kind))
        assert [caught.value.args, caught.value.__context__] == [(), None]


def attempt_exceptions(function, *args, **kwargs):
    try:
        return function(*args, **kwargs), None
    except Exception as error:
        return None, error


class TestSingleLosses:
    """Each record of a batch by itself: the others keep their losses without bisection."""

    def found(self, label):
        labels, numbers = np.empty((2, 3), dtype=object)
        for i, (own, number) in enumerate([(0, 0.0), (label, NotReal(1, 2)), (1, 1.0)]):
            labels[i], numbers[i] = own, number
        return [
            zero_one(None, labels, np.array([0, 1, 1])).tolist(),
            codes_among(np.array([0, 1]), labels).tolist(),
            as_numbers(numbers, 1)[:, 0].tolist(),
            UserLoss(panicking_loss).isolated(np.array([0.0, SECRET, 1.0]), np.zeros(3)).tolist(),
        ]

    def test_the_others_keep_theirs(self):
        nan = pytest.approx(math.nan, nan_ok=True)
        rest = [[0.0, nan, 1.0], [0.0, nan, 0.0]]
        assert self.found(Label(itself=False)) == [[0.0, 1.0, 0.0], [0, -1, 1], *rest]
        assert self.found(Label(itself=True)) == [[0.0, nan, 0.0], [0, -2, 1], *rest]

    @pytest.mark.parametrize("stage", ["losses", "parsing"])
    def test_a_panic_that_passes_is_found(self, monkeypatch, stage):
        put(monkeypatch, f"{stage}: attempt", attempt_exceptions)
        with pytest.raises(PanicException, match=str(SECRET)):
            self.found(Label(itself=False))


class Label:
    """A label that cannot be compared with others, or not even with itself."""

    def __init__(self, itself):
        self.itself = itself

    def __eq__(self, other):
        if other is self and not self.itself:
            return True
        raise PanicException(f"cannot read {SECRET}")

    def __hash__(self):
        raise PanicException(f"cannot read {SECRET}")


class NotReal(Fraction):
    """A number that cannot be made a float."""

    def __float__(self):
        raise PanicException(f"cannot read {SECRET}")


def panicking_loss(y, prediction):
    if y[0] == SECRET:
        raise PanicException(f"cannot read {SECRET}")
    return np.zeros(1)


class TestInterrupts:
    def caught(self, kind):
        search, public, protected = next(searches(Panicking(kind)))
        with pytest.raises(kind) as caught:
            search.fit(*public, **protected)
        return caught.value

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit])
    def test_the_caller_may_interrupt_without_a_word(self, kind):
        error = self.caught(kind)
        assert error.args == ()
        assert error.__context__ is None
        assert error.__cause__ is None

    def test_an_interrupt_that_quotes_is_found(self, monkeypatch):
        # Planted bug: it is raised as it was.
        for stage in ("row answers", "parallel"):
            put(monkeypatch, f"{stage}: attempt", lambda call, *args: (call(*args), None))
        assert str(SECRET) in str(self.caught(KeyboardInterrupt))


@pytest.mark.slow
def test_nothing_of_an_error_is_kept():
    search, public, protected = next(searches(Panicking()))
    search.fit(*public, **protected)
    gc.collect()
    assert not [thing for thing in gc.get_objects() if type(thing) is PanicException]


class Reporting:
    """Says that it ends, as an open file or connection does; a frame of an error owns it."""

    def __del__(self):
        print(f"not closed: {SECRET}")


class Opening(Panicking):
    def meet(self, X, where):
        mine = (np.asarray(X) == SECRET).any() and Reporting()  # noqa: F841
        super().meet(X, where)


class OpeningAgain(Opening):
    """Its error has led to another one, in a group."""

    def meet(self, X, where):
        try:
            super().meet(X, where)
        except BaseException as error:
            raise BaseExceptionGroup("", [error]) from error


class TestWhatAnErrorOwns:
    """It ends with the error, in silence, not whenever a circle of frames is collected."""

    def reported(self, estimator, capsys, **params):
        usual = {"loss_bound": 1.0, "epsilon": 1e6, **params}
        rows = (X_VAL, np.zeros(10)) if params else (X, Y, X_VAL, np.zeros(10))
        names = ("X", "y", "X_val", "y_val")
        gc.collect()  # what other tests have left, which speaks as it ends
        capsys.readouterr()
        gc.disable()
        try:
            search = DPGridSearchCV(estimator, {"a": [0.0, 1.0]}, **usual)
            search.fit(**dict(zip(names, rows, strict=False)))
        finally:
            gc.enable()
        gc.collect()
        return capsys.readouterr().out

    CASES = ({"protect": Chunks(2), "score_fraction": 0.5}, {})

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("params", CASES, ids=["chunks", "validation"])
    @pytest.mark.parametrize("kind", [Opening, OpeningAgain])
    @pytest.mark.parametrize("where", ["fit", "predict"])
    def test_nothing_is_reported(self, kind, where, params, capsys):
        assert self.reported(kind(where=where), capsys, **params) == ""

    @pytest.mark.slow
    def test_kept_frames_are_found(self, capsys, monkeypatch):
        put(monkeypatch, "attempt: _drop_frames", lambda error: None)
        assert str(SECRET) in self.reported(Opening(where="fit"), capsys, **self.CASES[0])


STAGES = [
    "train and score",
    "row answers",
    "parallel",
    "chunk training",
    "trials",
    "public types",
    "object tables",
]
STAGES += ["losses", "parsing", "kusner release"]


@pytest.mark.parametrize("stage", STAGES)
def test_there_is_one_except(stage):
    assert original(f"{stage}: attempt") is attempt
