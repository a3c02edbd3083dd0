"""Fitted searchers, their messages and their traces hold no protected value.

Unmistakable numbers and texts are planted in the protected rows, and the exact totals of the
candidates are computed by themselves; then everything that leaves `fit` is searched for them.
"""

import io
import logging
import pickle
import re
import struct
import types
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge

from _support.internals import running_fit
from _support.noted import note_written_arrays
from _support.planted import module_of, original, plant, put
from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.model_selection import Kusner2015, Kusner2015Lipschitz

FLOATS = [0.7316520948315577, -3.1938847291045533, 8.417720663901247]
TEXT = "S3cr3tPatientName"
RNG = np.random.RandomState(0)
X, Y = RNG.normal(size=(30, 2)), RNG.normal(size=30)
X_VAL = RNG.normal(size=(9, 2)).tolist()
X_VAL[2][1], X_VAL[5] = FLOATS[0], [TEXT, FLOATS[1]]
Y_VAL = RNG.normal(size=9).tolist()
Y_VAL[3], Y_VAL[7] = FLOATS[2], TEXT
# The model warns about public rows too; what it warns of protected ones is recorded and searched.
pytestmark = [
    pytest.mark.usefixtures("few_public_candidates"),
    pytest.mark.filterwarnings("ignore:predicting", "ignore:Scoring failed"),
]
LOGGER = logging.getLogger("tests.attacks.leaks")


class Talker(RegressorMixin, BaseEstimator):
    """Ridge that warns about what it predicts and fails on what is not a number, quoting it."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, X, y):
        self.model_ = Ridge(alpha=self.alpha).fit(X, y)
        return self

    def predict(self, X):
        warnings.warn(f"predicting {np.asarray(X).tolist()}", stacklevel=2)
        if not np.isfinite(np.asarray(X, dtype=float)).all():
            raise ValueError(f"cannot predict {X}")
        self.seen_ = X
        return self.model_.predict(X)


ALPHAS = [0.1, 1.0, 10.0]
SEARCHES = {
    "grid": lambda **k: DPGridSearchCV(Talker(), {"alpha": ALPHAS}, **k),
    "grid without guide": lambda **k: DPGridSearchCV(Talker(), {"alpha": ALPHAS}, guide=False, **k),
    "randomized": lambda **k: DPRandomizedSearchCV(Talker(), {"alpha": (0.1, 9.0)}, n_iter=3, **k),
    "bayes": lambda **k: bayes(**k),
    "gaussian": lambda **k: bayes(mechanism="gaussian", **k),
    "gaussian without guide": lambda **k: bayes(mechanism="gaussian", guide=False, **k),
    "Kusner 1": lambda **k: bayes(mechanism=Kusner2015(), guide=False, **k),
    "Kusner 2": lambda **k: bayes(mechanism=Kusner2015(noise_variance=0), guide=False, **k),
    "Kusner 3": lambda **k: bayes(
        mechanism=Kusner2015Lipschitz(lipschitz=1.0, lambda_name="alpha"), **k
    ),
    "Kusner 3, secret": lambda **k: bayes(
        mechanism=Kusner2015Lipschitz(lipschitz=1.0, lambda_name="alpha", trajectory="secret"),
        guide=False,
        **k,
    ),
    "gibo": lambda **k: DPGIBOSearchCV(Talker(), {"alpha": (0.1, 9.0)}, n_iter=3, **{"cv": 2, **k}),
}


def bayes(**params):
    design = {"n_iter": 4, "n_initial_points": 3, "n_candidates": 12}
    return DPBayesSearchCV(Talker(), {"alpha": (0.1, 9.0)}, **design, **params)


def exact_results(search):
    """Raw protected totals and scores of the candidates, from the definition of the loss."""
    bound, units = 9.0, 2**20
    values = []
    for params in search.cv_results_["params"]:
        model = Ridge(**params).fit(X, Y)
        total = 0
        for row, target in zip(X_VAL, Y_VAL, strict=True):
            if isinstance(row[0], str) or isinstance(target, str):
                total += units
                continue
            loss = min((model.predict([row])[0] - target) ** 2, bound)
            total += round(loss / bound * units)
        values += [total, -bound * total / (9 * units), bound * total / (9 * units), total / 9]
    return values


class Detector:
    """Searches objects, bytes and texts for the planted values and for exact results."""

    def __init__(self, exact=()):
        self.numbers = [*FLOATS, *exact]

    def in_text(self, text):
        found = re.findall(r"-?\d+\.?\d*(?:[eE][-+]?\d+)?", text)
        found = np.array([float(number) for number in found])
        short = {round(number, 3) for number in self.numbers}  # printed with fewer digits
        near = np.abs(found[:, np.newaxis] - self.numbers) < 1e-8
        rounded = any(a in short and len(f"{a}") > 4 for a in found)
        return TEXT in text or bool(near.any()) or rounded

    def in_bytes(self, data):
        floats = [float(number) for number in self.numbers]
        patterns = [
            TEXT.encode(),
            *(struct.pack(order, f) for f in floats for order in ("<d", ">d")),
        ]
        return any(pattern in data for pattern in patterns)

    def in_object(self, thing, seen=None):
        seen = {} if seen is None else seen
        if id(thing) in seen or isinstance(thing, (types.ModuleType, type)):
            return False
        seen[id(thing)] = thing  # kept alive: ids are not used twice
        if isinstance(thing, str):
            return self.in_text(thing)
        if isinstance(thing, bytes):
            return self.in_bytes(thing)
        if isinstance(thing, (bool, type(None))):
            return False
        if isinstance(thing, (int, float, np.number)):
            return any(abs(thing - number) < 1e-9 for number in self.numbers)
        return any(self.in_object(part, seen) for part in parts(thing))


def parts(thing):
    """Yield what an object holds: items, attributes, slots, closures, exception chains, frames."""
    if isinstance(thing, np.ndarray):
        yield from np.ma.getdata(thing).ravel().tolist()
        yield thing.base
    elif isinstance(thing, dict):
        yield from (*thing.keys(), *thing.values())
    elif isinstance(thing, (list, tuple, set, frozenset)):
        yield from thing
    elif isinstance(thing, types.FunctionType):
        yield from (cell.cell_contents for cell in thing.__closure__ or ())
        yield (thing.__defaults__, thing.__kwdefaults__)
    elif isinstance(thing, types.MethodType):
        yield from (thing.__self__, thing.__func__)
    if isinstance(thing, BaseException):
        yield (thing.args, str(thing), thing.__cause__, thing.__context__)
        yield getattr(thing, "__notes__", ())
    yield getattr(thing, "__dict__", None)
    for kind in type(thing).__mro__:
        slots = getattr(kind, "__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            yield getattr(thing, slot, None)


class Traces:
    """Everything a block of code writes: prints, warnings, log records."""

    def __enter__(self):
        self.stream, self.handler = io.StringIO(), logging.StreamHandler(io.StringIO())
        self.managers = [
            redirect_stdout(self.stream),
            redirect_stderr(self.stream),
            warnings.catch_warnings(record=True),
        ]
        *_, self.caught = [manager.__enter__() for manager in self.managers]
        warnings.simplefilter("always")
        self.level = logging.getLogger().level
        logging.getLogger().setLevel(0)
        logging.getLogger().addHandler(self.handler)
        return self

    def __exit__(self, *exc_info):
        logging.getLogger().removeHandler(self.handler)
        logging.getLogger().setLevel(self.level)
        for manager in reversed(self.managers):
            manager.__exit__(*exc_info)

    def text(self):
        messages = [str(caught.message) for caught in self.caught]
        return "\n".join([self.stream.getvalue(), self.handler.stream.getvalue(), *messages])


def leaks(search, **fit_params):
    """Names of the channels in which something protected is found after a fit."""
    with Traces() as traces:
        search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL, **fit_params)
    detector = Detector(exact_results(search))
    return {
        name
        for name, found in {
            "object": detector.in_object(search),
            "pickle": detector.in_bytes(pickle.dumps(search)),
            "repr": detector.in_text(repr(search) + repr(vars(search))),
            "html": detector.in_text(search._repr_html_()),
            "messages": detector.in_text(traces.text()),
            "guarantee": detector.in_text(f"{search.privacy_}{search.privacy_!r}"),
            "registry": TEXT in registries(),
            "session": original("set-up: RUNNING").get() is not None,
        }.items()
        if found
    }


def registries():
    """Texts that Python's warning machinery remembers."""
    ours = [module_of(stage) for stage in ("search", "train and score")]
    modules = [*ours, sklearn.base, __import__(__name__)]
    return "".join(str(getattr(module, "__warningregistry__", "")) for module in modules)


class Leaky(DPGridSearchCV):
    """A searcher with one planted bug."""

    def __init__(self, bug=None, estimator=None, param_grid=None, **params):
        super().__init__(Talker(), {"alpha": ALPHAS}, cv=2, loss_bound=9.0)
        self.bug = bug

    def _select_best_index(self, *args):
        best = super()._select_best_index(*args)
        self.bug(self, running_fit(self))
        return best

    def __sklearn_clone__(self):
        return Leaky(self.bug)


def keep_total(search, session):
    search.deep_ = {"totals": [(exact_results_of(session)[0],)]}


def keep_score_in_slots(search, session):
    search._cache = types.SimpleNamespace(score=exact_results_of(session)[1])


def keep_rows(search, session):
    search.rows_ = np.array([[0.0], [FLOATS[1]]])


def keep_a_closure(search, session):
    value = session.evaluator.records.y
    search.hook_ = lambda: value


def say_it(search, session):
    print(f"best so far {exact_results_of(session)[1]:.3f}")


def warn_of_it(search, session):
    warnings.warn(f"bad label {session.evaluator.records.y[3]}", stacklevel=2)


def log_it(search, session):
    LOGGER.debug("row %s", session.evaluator.records.X)


def exact_results_of(session):
    holder = types.SimpleNamespace(cv_results_={"params": [{"alpha": a} for a in ALPHAS]})
    return exact_results(holder)


class TestFittedObject:
    def test_exact_results_are_the_ones_to_protect(self, monkeypatch):
        totals = []
        honest = original("public training: _totals")
        put(
            monkeypatch,
            "public training: _totals",
            lambda *a, **k: totals.extend(honest(*a, **k)) or totals,
        )
        search = SEARCHES["grid"](cv=2, loss_bound=9.0).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
        assert totals
        assert totals == exact_results(search)[::4]

    @pytest.mark.quick_cases(4)
    @pytest.mark.parametrize("name", SEARCHES)
    @pytest.mark.parametrize("score_fraction", [0.0, 0.1])
    def test_nothing_protected(self, name, score_fraction):
        search = SEARCHES[name](
            cv=2, loss_bound=9.0, verbose=3, score_fraction=score_fraction, return_train_score=True
        )
        assert leaks(search) == set()
        assert hasattr(search, "best_score_") == (score_fraction > 0 or "gaussian" in name)

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize(
        ("bug", "channel"),
        [
            (keep_total, "object"),
            (keep_score_in_slots, "object"),
            (keep_rows, "pickle"),
            (say_it, "messages"),
            (warn_of_it, "messages"),
            (log_it, "messages"),
        ],
    )
    def test_planted_bugs_are_found(self, bug, channel):
        assert channel in leaks(Leaky(bug))

    def test_closures_are_searched(self):
        search = Leaky(keep_a_closure).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
        assert Detector().in_object(search)

    def test_the_public_score_is_not_sold_as_private(self):
        search = SEARCHES["grid"](cv=2, loss_bound=9.0, score_fraction=0.5, epsilon=0.1)
        search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
        assert search.best_score_ != search.cv_results_["mean_test_score"][search.best_index_]
        search.set_params(score_fraction=0.0).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
        assert not hasattr(search, "best_score_")


class Unfit(Talker):
    """Trains on folds, but not on all public rows, that is after the private choice."""

    calls = 0

    def fit(self, X, y):
        Unfit.calls += 1
        if Unfit.calls > 1:
            raise RuntimeError("refit failed")
        return super().fit(X, y)


def failures():
    """Fits that fail, before and after protected rows are read."""
    matrix = np.array([[row[1]] * 2 for row in X_VAL])
    yield Talker(), {"alpha": [1.0]}, {"X_val": matrix[:, :1], "y_val": Y_VAL}
    yield Talker(), {"alpha": [1.0]}, {"X_val": X_VAL, "y_val": Y_VAL[:-1]}
    yield Talker(), {"alpha": [1.0]}, {"X_val": X_VAL}
    yield Talker(), {"alpha": [1.0]}, {"y_val": Y_VAL}
    yield Talker(), {"alpha": ["text"]}, {"X_val": X_VAL, "y_val": Y_VAL}
    yield Talker(), {"gamma": [1.0]}, {"X_val": X_VAL, "y_val": Y_VAL}
    yield Unfit(), {"alpha": [1.0]}, {"X_val": X_VAL, "y_val": Y_VAL}


def failing_fit(search, **rows):
    with Traces() as traces, pytest.raises(Exception) as failure:
        search.fit(X, Y, **rows)
    return failure.value, traces.text()


class TestFailures:
    @pytest.mark.parametrize("case", range(7))
    @pytest.mark.parametrize("error_score", ["raise", np.nan])
    def test_messages_and_chains(self, case, error_score):
        estimator, grid, rows = list(failures())[case]
        Unfit.calls = 0
        search = DPGridSearchCV(
            estimator, grid, guide=False, loss_bound=9.0, verbose=3, error_score=error_score
        )
        error, text = failing_fit(search, **rows)
        detector = Detector()
        assert not detector.in_object(error)
        assert not detector.in_text(text)
        assert not detector.in_object(search)
        assert original("set-up: RUNNING").get() is None
        assert not hasattr(search, "privacy_")

    def test_a_chain_is_found(self, monkeypatch):
        # Planted bug: the error of the records is the context of the one that is raised.
        def losses_apart(losses_of, unreadable):
            try:
                raise ValueError(f"cannot read {Y_VAL[7]}")
            except ValueError:
                raise RuntimeError("a record cannot be read")  # noqa: B904

        put(monkeypatch, "row answers: _failing_rows", losses_apart)
        search = DPGridSearchCV(Talker(), {"alpha": [1.0]}, guide=False, loss_bound=9.0)
        rows = [[np.nan, 0.0], *X_VAL[1:]]  # the model fails on the first
        error, _ = failing_fit(search, X_val=rows, y_val=Y_VAL)
        assert Detector().in_object(error)
        assert not Detector().in_text(str(error))

    def test_an_open_session_is_found(self, monkeypatch):
        search = SEARCHES["grid"](cv=2, loss_bound=9.0)
        assert "session" not in leaks(search)
        put(monkeypatch, "set-up: RUNNING", Sticky())
        assert "session" in leaks(search)


class Sticky:
    """Planted bug: a context variable that nobody resets."""

    value = None

    def get(self):
        return self.value

    def set(self, value):
        self.value = self.value or value


@pytest.mark.skipif(
    not hasattr(DPGridSearchCV, "set_callbacks"), reason="callbacks came with scikit-learn 1.9"
)
class TestCallbacks:
    def test_public_arguments_only(self):
        heard = Listener()
        search = DPGridSearchCV(Talker(), {"alpha": ALPHAS}, cv=2, loss_bound=9.0)
        search.set_callbacks(heard).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
        assert heard.arguments
        assert not Detector(exact_results(search)).in_object(heard.arguments)

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
    @pytest.mark.parametrize("params", [{"protect": "all"}, {"guide": False}])
    def test_nothing_is_heard_without_public_folds(self, params):
        search = DPGridSearchCV(Ridge(), {"alpha": ALPHAS}, loss_bound=9.0, **params)
        heard = Listener()
        with pytest.warns(UserWarning, match="callbacks of this DPGridSearchCV are not called"):
            search.set_callbacks(heard).fit(X, Y)
        assert not heard.arguments

    def test_a_leak_is_heard(self):
        heard = Listener()
        search = Leaky(keep_rows).set_callbacks(heard)
        search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
        assert Detector().in_object(heard.arguments)


class Listener:
    """Keeps a picture of whatever the callback protocol hands out."""

    def __init__(self):
        self.arguments = []

    def setup(self, estimator, context):
        self.on_fit_task_begin(estimator, context)

    def teardown(self, estimator, context):
        self.on_fit_task_begin(estimator, context)

    def on_fit_task_begin(self, estimator, context, **kwargs):
        attributes = {k: v for k, v in vars(estimator).items() if "callback" not in k}
        self.arguments.append((attributes, kwargs))

    def on_fit_task_end(self, estimator, context, **kwargs):
        self.on_fit_task_begin(estimator, context, **kwargs)


@pytest.mark.slow
class TestTemporaryFiles:
    """joblib writes large arrays to disk for its workers, but none of a private search."""

    def arrays_on_disk(self, monkeypatch):
        written = note_written_arrays(monkeypatch)
        X_val = np.full((200_000, 2), 0.5)
        X_val[17] = FLOATS[0]
        search = DPGridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=2, loss_bound=9.0, n_jobs=2)
        X_large = np.tile(X, (5000, 1))
        search.fit(X_large, np.tile(Y, 5000), X_val=X_val, y_val=X_val[:, 0])
        return written

    def test_nothing_is_written(self, monkeypatch):
        assert self.arrays_on_disk(monkeypatch) == []

    def test_they_are_found(self, monkeypatch):
        plant(monkeypatch, "joblib writes arrays to disk")
        written = self.arrays_on_disk(monkeypatch)
        assert any((array == FLOATS[0]).any() for array in written)
