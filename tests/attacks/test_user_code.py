"""User code that mixes rows, hides types or keeps copies: refused, or named by the guarantee."""

import functools
import io
import pickle
from itertools import product

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.decomposition import NMF
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, get_scorer, make_scorer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from _support.internals import PrivateChoice, PublicTraining, UserLoss, protected_positions
from _support.planted import put
from skdpbo import (
    DPGIBOSearchCV,
    DPGridSearchCV,
    DPSparseGPRegressor,
    make_per_record_scorer,
)
from skdpbo.exceptions import UnboundedSensitivityError
from skdpbo.linear_model import DPLogisticRegression
from skdpbo.model_selection import Chunks, PrivateSelection
from skdpbo.privacy import PrivacyGuarantee

RNG = np.random.RandomState(0)
X = RNG.normal(size=(120, 2))
Y = (X[:, 0] > 0).astype(int)
V, W = X + 0.01, Y.copy()
SPACE = {"logisticregression__C": [0.1, 1.0]}
pytestmark = [
    pytest.mark.usefixtures("few_public_candidates"),
    pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def values(rows):
    return np.asarray(rows, dtype=float)


def standardise(rows):
    return (values(rows) - values(rows).mean(axis=0)) / values(rows).std(axis=0)


def fill(rows):
    return pd.DataFrame(values(rows)).fillna(pd.DataFrame(values(rows)).mean()).to_numpy()


def fill_by_median(rows):
    return np.where(np.isnan(values(rows)), np.nanmedian(values(rows), axis=0), values(rows))


def rank(rows):
    return values(rows).argsort(axis=0).argsort(axis=0)


def fails(rows):
    raise ValueError("ages expected")


class Standardise(TransformerMixin, BaseEstimator):
    """A user's transformer that scales by its batch."""

    def __init__(self, mixes=True):
        self.mixes = mixes

    def fit(self, X, y=None):
        self.n_ = 1
        return self

    def transform(self, X):
        return standardise(X) if self.mixes else values(X)


STEPS = {
    "scaled": [FunctionTransformer(standardise)],
    "filled": [FunctionTransformer(fill)],
    "filled by the median": [FunctionTransformer(fill_by_median)],
    "ranked": [FunctionTransformer(rank)],
    "own class": [Standardise()],
    "own class in a pipeline": [make_pipeline(Standardise())],
}
CONTAINERS = {
    "array": np.asarray,
    "frame": lambda rows: pd.DataFrame(rows, columns=["a", "b"]),
    "list": lambda rows: rows.tolist(),
}


def validation(model, rows):
    return DPGridSearchCV(model, SPACE, cv=2).fit(rows(X), Y, X_val=rows(V), y_val=W)


def unguided(model, rows):
    return DPGridSearchCV(model, SPACE, guide=False).fit(rows(X), Y, X_val=rows(V), y_val=W)


def chunks(model, rows):
    return DPGridSearchCV(model, SPACE, protect=Chunks(4), refit=False).fit(rows(X), Y)


def local(model, rows, **start):
    space = {"logisticregression__C": (0.1, 1.0)}
    search = DPGIBOSearchCV(model, space, n_iter=2, cv=2, **start)
    return search.fit(rows(X), Y, X_val=rows(V), y_val=W)


MODES = {
    "validation": validation,
    "unguided": unguided,
    "chunks": chunks,
    "gibo": lambda model, rows: local(model, rows, init=None),
    "gibo from a public search": local,
}


# The descent trains as the choice does: of arrays alone. Every step is tried in every container
# and in every mode, and every mode in every container; the other combinations are slow.
COMBINATIONS = [
    *product(sorted(CONTAINERS), ["validation", "unguided", "chunks"], sorted(STEPS)),
    *product(["array"], ["gibo"], sorted(STEPS)),
    ("array", "gibo from a public search", "filled"),
]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("container", "mode", "steps"),
    [
        case
        if case[0] == "array" or case[1] == "validation" or case[2] == "filled"
        else pytest.param(*case, marks=pytest.mark.slow)
        for case in COMBINATIONS
    ],
)
def test_steps_that_mix_rows_are_refused(container, mode, steps):
    model = make_pipeline(*STEPS[steps], LogisticRegression())
    with pytest.raises(ValueError, match="looks at several rows"):
        MODES[mode](model, CONTAINERS[container])


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("steps", sorted(STEPS))
def test_before_private_models_too(steps):
    gp = DPSparseGPRegressor(X_bounds=(-1, 1), y_bounds=(-1, 1))
    space = {"dpsparsegpregressor__kernel": [RBF(0.3), RBF(0.6)]}
    search = DPGridSearchCV(
        make_pipeline(*STEPS[steps], gp), space, protect="all", epsilon=1.0, loss_bound=1.0
    )
    with pytest.raises(ValueError, match=r"looks at several rows|learns from the protected rows"):
        search.fit(X, X[:, 0])


def test_another_failure_of_the_dry_run_does_not_hide_it():
    for steps in (
        [FunctionTransformer(standardise), FunctionTransformer(fails)],
        [Standardise(), FunctionTransformer(fails)],
    ):
        with pytest.raises(ValueError, match="looks at several rows"):
            chunks(make_pipeline(*steps, LogisticRegression()), np.asarray)


@pytest.mark.parametrize("guide", [False, True])
def test_one_among_the_candidates_is_found(guide):
    """The model that was tried first has another step."""
    model = Pipeline([("step", StandardScaler()), ("end", LogisticRegression())])
    grid = {"step": [StandardScaler(), FunctionTransformer(standardise)]}
    with pytest.raises(ValueError, match="looks at several rows"):
        DPGridSearchCV(model, grid, cv=2, guide=guide).fit(X, Y, X_val=V, y_val=W)


class OutOfSight(ClassifierMixin, BaseEstimator):
    """Keeps its step where no attribute leads to it, and gives labels that do not show it."""

    def __init__(self, step, cut=10.0):
        self.step, self.cut = step, cut

    def fit(self, X, y):
        step, cut = clone(self.step), self.cut
        step.fit_transform(X)
        self.classes_ = np.unique(y)
        self.labels_ = lambda rows: (step.transform(rows)[:, 0] > cut).astype(int)
        return self

    def predict(self, X):
        return self.labels_(X)


@pytest.mark.parametrize("mixes", [False, True])
def test_a_step_that_shows_in_training_alone_is_found(mixes):
    search = DPGridSearchCV(OutOfSight(Standardise(mixes)), {"cut": [10.0, 11.0]}, guide=False)
    if not mixes:
        search.fit(X, Y, X_val=V, y_val=W)
        return
    with pytest.raises(ValueError, match=r"Standardise .* looks at several rows"):
        search.fit(X, Y, X_val=V, y_val=W)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("mode", ["chunks", "gibo", "unguided", "validation"])
def test_unverified_steps_are_named(mode):
    model = make_pipeline(Standardise(mixes=False), LogisticRegression())
    guarantee = MODES[mode](model, np.asarray).privacy_
    assert guarantee.status == "conditional"
    assert "Standardise (step 'standardise')" in str(guarantee)
    guarantee = MODES[mode](make_pipeline(StandardScaler(), LogisticRegression()), np.asarray)
    assert guarantee.privacy_.status == "proved"


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("mode", ["chunks", "gibo", "unguided", "validation"])
def test_nothing_is_proved_of_a_later_scikit_learn(mode, monkeypatch):
    put(monkeypatch, "row-wise steps: LAST_READ", (1, 5))
    model = make_pipeline(StandardScaler(), LogisticRegression())
    guarantee = MODES[mode](model, np.asarray).privacy_
    assert guarantee.status == "conditional"
    assert "is later than 1.5): Pipeline, StandardScaler (step" in str(guarantee)


def test_a_promise_without_data_names_them_too():
    model = make_pipeline(NMF(2), LogisticRegression())
    guarantee = DPGridSearchCV(model, SPACE).privacy_guarantee()
    assert guarantee.status == "conditional"
    assert "NMF (step 'nmf')" in str(guarantee)
    swapped = {"standardscaler": [StandardScaler(), Standardise()], **SPACE}
    model = make_pipeline(StandardScaler(), LogisticRegression())
    assert DPGridSearchCV(model, swapped).privacy_guarantee().status == "conditional"
    assert DPGridSearchCV(model, SPACE).privacy_guarantee().status == "proved"


def test_item_sizes_do_not_show_the_longest_protected_text():
    n = 100
    y = np.array(["yes", "no"])[RNG.randint(2, size=n)].tolist()
    rows = np.array(["red", "blue"])[RNG.randint(2, size=(n, 1))].tolist()
    i = protected_positions(n, 0.2)[0]

    def released(label, text):
        labels, table = list(y), [list(row) for row in rows]
        labels[i], table[i] = label, [text]
        model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
        search = DPGridSearchCV(model, SPACE, epsilon=0.1, cv=2)
        best = search.fit(np.array(table), np.array(labels)).best_estimator_
        return best.classes_.dtype, best[0].categories_[0].dtype, len(pickle.dumps(best[0]))

    usual = released("yes", "red")
    assert usual[:2] == (np.dtype("<U3"), np.dtype(object))
    assert released("HIV-positive", "red") == usual
    assert released("yes", "chartreuse-yellow") == usual


@pytest.fixture
def protected_totals(monkeypatch):
    """Exact totals that the mechanism is given."""
    seen, original = [], PublicTraining.release

    def release(self, choice, candidates, **how):
        seen.append(self.totals(candidates))
        return original(self, choice, candidates, **how)

    monkeypatch.setattr(PublicTraining, "release", release)
    return seen


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("cell", ["NA", "0.5", "unknown"])
def test_one_cell_of_a_file_moves_one_loss(cell, protected_totals):
    zips = np.array([94110, 10001, 60601, 73301])[RNG.randint(4, size=200)]
    y = np.isin(zips, [94110, 10001]).astype(int)
    text = "zip\n" + "\n".join(map(str, zips[100:]))
    whole = pd.read_csv(io.StringIO(text))
    broken = pd.read_csv(io.StringIO(text.replace(str(zips[107]), cell, 1)))
    assert (broken["zip"].astype(str) != whole["zip"].astype(str)).sum() >= 1
    model = make_pipeline(
        FunctionTransformer(lambda frame: frame.astype(str)),
        OneHotEncoder(handle_unknown="ignore"),
        LogisticRegression(),
    )
    for rows in (whole, broken):
        search = DPGridSearchCV(model, SPACE, epsilon=1.0, cv=2)
        search.fit(pd.DataFrame({"zip": zips[:100]}), y[:100], X_val=rows, y_val=y[100:])
    first, second = protected_totals
    assert [*first, *second] == [0, 0, 1, 1]  # the changed cell alone is lost


def of_true_class(y_true, probabilities):
    return 1 - probabilities[np.arange(len(y_true)), y_true]


class ShareOfLargest:
    """Error as a share of the largest that it has been shown."""

    __name__ = "share"

    def __init__(self):
        self.largest = 1.0

    def __call__(self, y_true, probabilities):
        errors = np.abs(y_true - probabilities[:, 1])
        self.largest = max(self.largest, float(errors.max()))
        return errors / self.largest


def zero_one(y_true, scores):
    return ((scores > 0) != (y_true == 1)).astype(float)


def centred(model, rows):
    scores = model.decision_function(rows)
    return scores - scores.mean()


def plain(model, rows):
    return model.decision_function(rows)


SCORERS = {
    "label as a position": make_per_record_scorer(
        of_true_class, bound=1.0, response_method="predict_proba"
    ),
    "state": make_per_record_scorer(ShareOfLargest(), bound=1.0, response_method="predict_proba"),
    "function": make_per_record_scorer(zero_one, bound=1.0, response_method=plain),
}


LABELS = [np.nan, 1000.0, 0.5, 1j, "x"]
OF_LABELS = [np.asarray, pd.Series, lambda y: list(np.asarray(y))]


# Any two of scorer, label and container meet.
@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("name", "label", "container"),
    [
        (name, label, OF_LABELS[(i + k) % 3])
        for i, name in enumerate(sorted(SCORERS))
        for k, label in enumerate(LABELS)
    ],
)
def test_one_label_moves_one_loss_of_a_users(name, label, container, protected_totals):
    broken = [*W.tolist()]
    broken[5] = label
    for y_val in (W, np.array(broken, dtype=object) if label == "x" else np.array(broken)):
        search = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2)
        search.set_params(scoring=SCORERS[name]).fit(X, Y, X_val=V, y_val=container(y_val))
        assert search.privacy_.status == "conditional"
        assert f"the scorer {SCORERS[name].name!r}" in str(search.privacy_)
    first, second = protected_totals
    # Where all is lost, nothing moves.
    assert 0 < np.abs(np.subtract(first, second)).max() <= SCORERS[name].units


def type_of_label(y_true, scores):
    return np.full(len(y_true), float(y_true.dtype.kind == "f"))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("label", [np.nan, 0.5])
def test_one_label_decides_no_type_of_the_rows_that_score(label, monkeypatch):
    """A user's loss may read the type of labels; trials score all rows at once."""
    losses, isolated = [], UserLoss.isolated

    def noted(self, y, prediction):
        losses.append(isolated(self, y, prediction))
        return losses[-1]

    monkeypatch.setattr(UserLoss, "isolated", noted)
    scorer = make_per_record_scorer(type_of_label, bound=1.0, response_method="decision_function")
    model = DPLogisticRegression(classes=[0, 1], X_bounds=(-4, 4))
    search = DPGridSearchCV(model, {"fit_intercept": [True, False]}, scoring=scorer)
    search.set_params(protect=PrivateSelection(), random_state=0)
    broken = W.astype(float)
    broken[5] = label
    for y_val in (W, broken):
        search.fit(X, Y, X_val=V, y_val=y_val)
    protected = [each for each in losses if len(each) == len(V)]
    assert len(protected) >= 2
    assert max(each.sum() for each in protected) <= 1


@pytest.mark.parametrize("mode", ["validation", "chunks"])
def test_a_response_that_mixes_rows_is_refused(mode):
    scorer = make_per_record_scorer(zero_one, bound=1.0, response_method=centred)
    search = DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, scoring=scorer)
    rows = {"X_val": V, "y_val": W} if mode == "validation" else {}
    search.set_params(protect=Chunks(4) if mode == "chunks" else mode)
    with pytest.raises(ValueError, match="response_method of the scorer looks at several rows"):
        search.fit(X, Y, **rows)


def test_only_the_deciding_scorer_of_several_is_named():
    search = DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, refit="accuracy")
    search.set_params(scoring={"accuracy": "accuracy", "own": SCORERS["function"]})
    assert search.privacy_guarantee().status == "proved"
    assert search.set_params(refit="own").privacy_guarantee().status == "conditional"
    fitted = DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, scoring="neg_log_loss", cv=2)
    known = fitted.fit(X, Y, X_val=V, y_val=W).scorer_
    assert search.set_params(scoring=known, refit=True).privacy_guarantee().status == "proved"

    class Own(type(known)):
        """May do anything."""

    own = Own(known._loss, name="own", bound=1.0, units=1)
    assert search.set_params(scoring=own).privacy_guarantee().status == "conditional"


class Boost(ClassifierMixin, BaseEstimator):
    """A stand-in for boosted trees: keeps its score on the set for early stopping."""

    def __init__(self, k=1):
        self.k = k

    def fit(self, X, y, eval_set=None):
        self.classes_ = np.unique(y)
        if eval_set is not None:
            rows, labels = eval_set[0]
            self.score_ = float(np.mean((values(rows)[:, 0] > 0) == np.asarray(labels)))
        return self

    def predict(self, X):
        return (values(X)[:, 0] > 0).astype(int)


FRAME, LABELS = pd.DataFrame(V[:99], columns=["a", "b"]), pd.Series(W[:99])
SETS = {
    "itself": (FRAME, LABELS),
    "arrays": (FRAME.to_numpy(), LABELS.to_numpy()),
    "copies": (FRAME.copy(), LABELS.copy()),
    "columns": (FRAME[["a", "b"]], LABELS),
    "one column": (FRAME[["a"]], LABELS),
    "permuted": (FRAME.sample(frac=1, random_state=0), LABELS.sample(frac=1, random_state=0)),
}


@pytest.mark.parametrize("name", sorted(SETS))
def test_protected_rows_for_early_stopping_are_refused(name):
    search = DPGridSearchCV(Boost(), {"k": [1, 2]}, cv=2)
    table = pd.DataFrame(X, columns=["a", "b"])
    with pytest.raises(ValueError, match="eval_set holds protected rows"):
        search.fit(table, Y, X_val=FRAME, y_val=LABELS, eval_set=[SETS[name]])


def test_parts_of_them_are_named():
    search = DPGridSearchCV(Boost(), {"k": [1, 2]}, cv=2)
    table = pd.DataFrame(X, columns=["a", "b"])
    part = [(FRAME.iloc[:50].copy(), LABELS.iloc[:50].copy())]
    guarantee = search.fit(table, Y, X_val=FRAME, y_val=LABELS, eval_set=part).privacy_
    assert guarantee.status == "conditional"
    assert "given as eval_set" in str(guarantee)


SHOWN = []


@functools.wraps(f1_score)
def remembered(y_true, y_pred, **options):
    """A metric that keeps what it is shown, under scikit-learn's name."""
    SHOWN.append(y_true)
    return f1_score(y_true, y_pred, **options)


class OwnScorer(type(get_scorer("f1"))):
    """A scorer of scikit-learn's metric that may do anything."""


@pytest.mark.parametrize("how", ["wrapped", "cached", "own scorer"])
@pytest.mark.parametrize("protect", ["validation", Chunks(4)])
def test_a_metric_of_a_users_is_not_taken_for_one_of_scikit_learn(how, protect, tmp_path):
    cached = joblib.Memory(tmp_path, verbose=0).cache(f1_score)
    scoring = {
        "wrapped": make_scorer(remembered),
        "cached": make_scorer(cached),
        "own scorer": OwnScorer(f1_score, 1, {}),
    }[how]
    before = sorted(tmp_path.rglob("*"))
    search = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=scoring)
    with pytest.raises(UnboundedSensitivityError, match="is a callable"):
        search.set_params(protect=protect).fit(X, Y)
    assert not SHOWN
    assert sorted(tmp_path.rglob("*")) == before


@pytest.fixture
def released(monkeypatch):
    """Totals of losses before the noise, and the sensitivity that is stated, of each search."""
    honest, found = PrivateChoice.release, []

    def recorded(self, totals, offsets, **how):
        found.append((totals, how["sensitivity"]))
        return honest(self, totals, offsets, **how)

    monkeypatch.setattr(PrivateChoice, "release", recorded)
    return found


class Typed(ClassifierMixin, BaseEstimator):
    """Predicts by the type of an entry of ``fit``, of which a training sees its own rows."""

    def __init__(self, k=0):
        self.k = k

    def fit(self, X, y, entry):
        self.classes_ = np.array([0, 1])
        dtype = np.asarray(entry).dtype
        self.wrong_ = dtype.itemsize > 40 or dtype.kind in "fc"
        return self

    def predict(self, X):
        return (np.asarray(X)[:, 0] > 0) ^ self.wrong_


ENTRIES = {
    "a long text": lambda cell: np.array(["a", cell * 20] + ["b"] * 118),
    "a long text in a record": lambda cell: np.rec.fromarrays(
        [["a", cell * 20] + ["b"] * 118, range(120)]
    ),
    "a missing value": lambda cell: np.array([1, np.nan if cell == "x" else 1] + [1] * 118),
    "a complex number": lambda cell: np.array([1, 1j if cell == "x" else 1] + [1] * 118),
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("excess_bound", [None, 0.05])
def test_an_entry_of_one_record_types_those_of_its_own_chunk(name, excess_bound, released):
    for cell in ("", "x"):
        search = DPGridSearchCV(Typed(), {}, protect=Chunks(6, excess_bound=excess_bound))
        search.fit(X, Y, entry=ENTRIES[name](cell))
    (before, sensitivity), (after, _) = released
    assert before == [0]  # where all is lost, nothing moves
    assert abs(after[0] - before[0]) <= sensitivity


class Watching(ClassifierMixin, BaseEstimator):
    """Predicts by types, labels and layout of what ``fit`` is given, as a neighbour's fit knows."""

    known = []

    def __init__(self, first=False, epsilon=0.1, delta=0.0):
        self.first, self.epsilon, self.delta = first, epsilon, delta

    def privacy_guarantee(self, n_samples=None):
        return PrivacyGuarantee(epsilon=self.epsilon)

    def fit(self, X, y, entry=None):
        self.classes_ = np.array(["a", "b"] if "a" in list(y) else [0, 1])
        shown = [self._of(table) for table in (X, y, entry) if hasattr(table, "index")]
        rows = {*np.asarray(X)[:, 0]}
        if self.first and rows <= OTHERS:
            self.known.append(shown)
        self.wrong_ = rows <= OTHERS and shown not in self.known
        return self

    def _of(self, table):
        columns = [table[name] for name in table] if hasattr(table, "columns") else [table]
        labels = table.index.levels if hasattr(table.index, "levels") else [table.index[:0]]
        parts = [column.dtype for column in columns], [(level.dtype, *level) for level in labels]
        return str((parts, len(table._mgr.blocks)))

    def predict(self, X):
        return self.classes_[((np.asarray(X)[:, 0] > 0) ^ self.wrong_).astype(int)]


PLACE = protected_positions(120, 0.2)[0]
OTHERS = {*np.delete(X[:, 0], PLACE)}


def with_cell(cell, other, n=120):
    return [other if i != PLACE else cell for i in range(n)]


def tables(kind, changed):
    """Return X, y and an entry of ``fit`` in which one record has another cell, or label."""
    numbers = {"a": X[:, 0], "b": with_cell(0.5 if changed and kind == "layout" else 1, 1)}
    table, labels = pd.DataFrame(numbers), pd.Series(Y)
    index = pd.Index(with_cell("x" if changed else 1, 1))
    if kind == "levels":
        index = pd.MultiIndex.from_arrays([with_cell("x" if changed else "y", "y"), range(120)])
    table.index = index if kind in ("labels of X", "levels") else table.index
    labels.index = index if kind == "labels of y" else labels.index
    if kind == "texts":
        labels = labels.map({0: "a", 1: "b"})
        labels = pd.Series([*labels[:PLACE], 1 if changed else "b", *labels[PLACE + 1 :]])
    cells = with_cell(0.5 if changed and kind == "column" else 1, 1)
    return table, labels, pd.DataFrame({"a": cells, "b": 0.5})


KINDS = ["labels of X", "labels of y", "levels", "layout", "texts", "column"]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", KINDS)
def test_what_one_record_types_moves_the_model_of_its_own_chunk(kind, released, monkeypatch):
    monkeypatch.setattr(Watching, "known", [])
    for first in (True, False):
        table, labels, entry = tables(kind, changed=not first)
        DPGridSearchCV(Watching(first), {}, protect=Chunks(6)).fit(table, labels, entry=entry)
    (before, sensitivity), (after, _) = released
    assert before == [0]  # where all is lost, nothing moves
    assert abs(after[0] - before[0]) <= sensitivity


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("kind", KINDS[:-1])
@pytest.mark.parametrize("tuning_fraction", [None, 0.8])
def test_what_one_record_types_moves_the_training_of_its_own_part(
    kind, tuning_fraction, monkeypatch
):
    """The record scores, or trains at the end: the training of the trial sees nothing of it."""
    monkeypatch.setattr(Watching, "known", [])
    selection = PrivateSelection(accounting="composition", tuning_fraction=tuning_fraction)
    for first in (True, False):
        table, labels, _ = tables(kind, changed=not first)
        search = DPGridSearchCV(Watching(True), {}, protect=selection)
        search.fit(table, labels)
    n_shown = len(Watching.known) // 2
    assert n_shown > 0
    assert Watching.known[:n_shown] == Watching.known[n_shown:]


class ByLabels(ClassifierMixin, BaseEstimator):
    """Predicts by the type of the index of what it is shown."""

    def __init__(self, k=0):
        self.k = k

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        kind = getattr(X.index.dtype, "kind", "O")
        return (np.asarray(X)[:, 0] > 0) ^ (kind not in "iM")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("protect", ["validation", Chunks(6)])
@pytest.mark.parametrize("label", [0.5, np.nan, "x", None, (1, 2)])
@pytest.mark.parametrize("dates", [False, True])
def test_a_label_of_one_row_types_those_of_no_other(protect, label, dates, released):
    public = {} if protect != "validation" else {"X_val": None, "y_val": Y}
    for own in (False, True):
        labels = [*pd.date_range("2026", periods=120)] if dates else [*range(120)]
        table = pd.DataFrame(X, index=labels)
        labels[PLACE] = label if own else labels[PLACE]
        changed = pd.DataFrame(X, index=pd.Index(labels, tupleize_cols=False))
        given = {name: changed if name == "X_val" else y for name, y in public.items()}
        search = DPGridSearchCV(ByLabels(), {}, protect=protect)
        search.fit(table if public else changed, Y, **given)
    (before, sensitivity), (after, _) = released
    assert before == [0]  # where all is lost, nothing moves
    assert abs(after[0] - before[0]) <= sensitivity
