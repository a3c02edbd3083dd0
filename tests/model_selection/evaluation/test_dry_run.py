"""A public mistake shows on synthetic rows; the values of the rows that are given are not read."""

import random
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from _support.internals import dry_run, synthetic_rows
from _support.planted import put
from skdpbo import DPGridSearchCV, make_per_record_scorer
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.model_selection import PrivateSelection
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger, charge_active_ledger

NUMBERS = np.full((5, 3), np.nan)
LABELS = np.array(["yes", "no", "yes", "no", "maybe"])
FRAME = pd.DataFrame(
    {
        "age": [1, 2, 3, 4, 5],
        "income": [1.0, np.nan, 2.0, 3.0, 4.0],
        "town": ["x", "y", "z", "x", None],
        "sex": pd.Categorical(["f", "m", "f", "m", "f"]),
        "member": [True, False, True, True, False],
    }
)
ENCODED = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), ["town", "sex"]),
    ("passthrough", ["age", "income", "member"]),
)


@pytest.mark.parametrize(
    ("estimator", "X", "y"),
    [
        (Ridge(), NUMBERS, np.arange(5)),
        (PoissonRegressor(), sparse.csr_matrix(NUMBERS), np.arange(5.0)),
        (LogisticRegression(), NUMBERS.astype(np.float32), LABELS),
        (LogisticRegression(), NUMBERS, pd.Series(LABELS, dtype="category")),
        (LogisticRegression(), NUMBERS, [0, 1, 2, 0, 1]),
        (DecisionTreeClassifier(), NUMBERS, np.zeros((5, 2), dtype=int)),
        (MultinomialNB(), NUMBERS, LABELS.astype(object)),
        (make_pipeline(ENCODED, DecisionTreeClassifier()), FRAME, pd.Series(LABELS)),
        (make_pipeline(CountVectorizer(token_pattern="."), Ridge()), LABELS, np.arange(5.0)),
        (make_pipeline(TfidfVectorizer(stop_words="english"), Ridge()), LABELS, np.arange(5.0)),
        (Ridge(), [["anything"]] * 5, [None] * 5),
    ],
)
def test_what_works_is_passed_over_in_silence(estimator, X, y):
    assert dry_run(estimator, [{}], X, y) == []


@pytest.mark.parametrize("table", [np.array, pd.DataFrame])
def test_objects_alone_may_be_texts(table):
    """Their type does not tell, and their values are not looked at."""
    texts, numbers = (table(cells).astype(object) for cells in (LABELS[:, None], NUMBERS[:, :1]))
    (message,) = dry_run(Ridge(), [{}], texts, np.arange(5.0))
    assert "ValueError: could not convert string to float" in message
    assert "These are texts, as columns of objects may hold" in message
    assert dry_run(Ridge(), [{}], numbers, np.arange(5.0)) == [message]
    encoded = make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge())
    assert dry_run(encoded, [{}], texts, np.arange(5.0)) == []
    # Such a table is not refused: numbers would do.
    assert len(dry_run(DPRidge(X_bounds=(0, 1), y_bounds=(0, 1)), [{}], texts, np.arange(5.0))) == 1


def test_one_candidate_of_each_structure():
    candidates = [{"alpha": 1.0}, {"alpha": "x"}, {"alpha": -1.0, "solver": "svd"}]
    (message,) = dry_run(Ridge(), candidates, NUMBERS, np.arange(5.0))
    assert "Ridge with {'alpha': -1.0, 'solver': 'svd'}" in message
    assert "alpha" in message.split(":", 1)[1]


def test_a_wrong_column_is_reported():
    model = make_pipeline(make_column_transformer(("passthrough", ["height"])), Ridge())
    (message,) = dry_run(model, [{}], FRAME, np.arange(5.0))
    assert "column" in message.split(":", 1)[1]
    assert ". What fails on protected rows" in message


def test_objects_beside_numbers_are_taken_for_texts():
    frame = FRAME[["age", "town"]].astype({"town": object})
    (message,) = dry_run(Ridge(), [{}], frame, np.arange(5.0))
    assert "could not convert string" in message


def test_rows_of_fields_are_tried_field_by_field():
    X = np.zeros(30, dtype=[("a", float), ("b", "U8"), ("c", "datetime64[D]"), ("d", int, 2)])
    numbers = FunctionTransformer(lambda X: np.column_stack([X["a"], X["d"], X["b"] == "alpha"]))
    assert not dry_run(make_pipeline(numbers, Ridge()), [{}], X, np.zeros(30))
    ((rows, _),) = synthetic_rows(Ridge(), X, np.zeros(30))
    assert [len(np.unique(rows[name])) > 1 for name in "abcd"] == [True, True, False, True]
    with pytest.raises(ValueError, match="Nothing was charged"):
        dry_run(Ridge(), [{}], X, np.zeros(30))


@pytest.mark.parametrize("town", [FRAME["town"], FRAME["town"].astype(object)])
def test_an_encoder_that_refuses_unseen_texts_is_reported(town):
    model = make_pipeline(OneHotEncoder(), Ridge())
    scorer = make_per_record_scorer(lambda y, p: np.abs(y - p), bound=1.0)
    (message,) = dry_run(model, [{}], town.to_frame(), np.arange(5.0), scorer)
    assert "Found unknown categories ['unseen text'] in column 0" in message


class OfTexts(DummyClassifier):
    def fit(self, X, y):
        return super().fit(X, [label.upper() for label in y])


def test_targets_of_a_list_may_be_texts():
    """Their type does not tell: what fails for numbers is not refused."""
    for y, failures in (([0, 1, 1, 0, 1], 1), (["a", "b"] * 2 + ["a"], 1)):
        assert len(dry_run(OfTexts(), [{}], NUMBERS, y)) == failures
    with pytest.raises(ValueError, match="Nothing was charged"):
        dry_run(OfTexts(), [{}], NUMBERS, np.array([0, 1, 1, 0, 1]))


class Global(BaseEstimator):
    """Draws from the global generators, and charges."""

    def fit(self, X, y=None):
        charge_active_ledger(PrivacyGuarantee(epsilon=1.0))
        random.random()
        np.random.rand()
        assert np.isfinite(X).all()  # NUMBERS holds NaN: these are other values
        return self


def test_no_value_is_read_and_nothing_global_changes():
    before = random.getstate(), np.random.get_state()[1].tolist()
    with PrivacyLedger(epsilon=0.1) as ledger:
        assert dry_run(Global(), [{}], NUMBERS, None) == []
    assert ledger.entries == ()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_the_message_does_not_depend_on_values():
    model = make_pipeline(OneHotEncoder(categories=[["a"]] * 3), Ridge())
    first = dry_run(model, [{}], NUMBERS, np.arange(5.0))
    second = dry_run(model, [{}], NUMBERS + 7.0, np.ones(5))
    assert first == second
    assert len(first) == 1
    messages = set()
    for values in (NUMBERS, NUMBERS + 7.0):
        with pytest.raises(ValueError, match="Nothing was charged") as refused:
            dry_run(Ridge(), [{"alpha": -1.0}], values, np.arange(5.0))
        messages.add(str(refused.value))
    assert len(messages) == 1


CATEGORIES = FRAME.assign(sex=pd.Categorical(["f", "m", "f", "m", "HIV-positive"]))


class Quoting(Ridge):
    """Refuses texts, and says which."""

    def fit(self, X, y):
        for values in (X, y):
            texts = [value for value in np.asarray(values).ravel() if isinstance(value, str)]
            if texts:
                raise ValueError(f"cannot read {sorted(set(texts))}")
        return super().fit(X, y)


@pytest.mark.parametrize(
    ("X", "y"), [(CATEGORIES[["sex"]], np.arange(5.0)), (NUMBERS, CATEGORIES["sex"])]
)
def test_names_of_categories_are_not_quoted(X, y, monkeypatch):
    (message,) = dry_run(Quoting(), [{}], X, y)
    assert "cannot read ['category 0'" in message
    assert "HIV" not in message
    # Planted bug: the text of the error is shown as it is.
    put(monkeypatch, "dry run: _text_of", lambda error, *args: f": {error}")
    (message,) = dry_run(Quoting(), [{}], X, y)
    assert "HIV" in message


def test_an_error_that_only_real_names_cause_has_no_text():
    encoder = OneHotEncoder(categories=[["category 0", "category 1", "category 2"]])
    model = make_pipeline(encoder, Ridge())
    (message,) = dry_run(model, [{}], CATEGORIES[["sex"]], np.arange(5.0))
    assert "ValueError. What fails" in message


# Older versions of pandas swallow the error.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_categories_that_raise_are_not_quoted():
    class Raising:
        quoted = False

        @property
        def __class__(self):
            if self.quoted:
                raise ValueError("HIV-positive")
            return Raising

    y = pd.Series(pd.Categorical([Raising(), *"abcd"]))
    Raising.quoted = True  # pandas itself has read it
    with pytest.raises(ValueError, match="InvalidParameterError: The 'C' parameter"):
        dry_run(LogisticRegression(), [{"C": -1.0}], NUMBERS, y)
    assert "HIV" not in str(dry_run(LogisticRegression(), [{}], y.to_frame("x"), np.arange(5)))


FRAMES = pd.DataFrame(np.ones((5, 2)), columns=["a", "b"])
MIXING = [
    lambda Z: Z - Z.mean(axis=0),
    lambda Z: np.sort(Z, axis=0),
    lambda Z: np.asarray(Z) / np.linalg.norm(Z),
    lambda Z: Z[::-1],
    lambda Z: np.asarray(Z)[[1, *range(1, len(Z))]],
]
APART = [
    np.log1p,
    lambda Z: np.asarray(Z) / np.linalg.norm(Z, axis=1, keepdims=True),
    lambda Z: np.asarray(Z) @ np.arange(6.0).reshape(-1, 3)[: np.shape(Z)[1]],
    lambda Z: Z + np.random.uniform(size=np.shape(Z)),
    sparse.csr_array,
]


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("X", [NUMBERS[:, :2], FRAMES], ids=["array", "frame"])
@pytest.mark.parametrize("where", ["pipeline", "columns", "candidate"])
@pytest.mark.parametrize("function", MIXING)
def test_functions_that_mix_rows_are_refused(function, where, X):
    step, candidates = FunctionTransformer(function), [{}]
    if where == "columns":
        step = make_column_transformer((step, [0]), remainder="passthrough")
    if where == "candidate":
        step, candidates = FunctionTransformer(), [{"a__func": np.log1p}, {"a__func": function}]
    model = Pipeline([("a", step), ("b", DummyRegressor())])
    with pytest.raises(ValueError, match="looks at several rows at once") as failure:
        dry_run(model, candidates, X, np.arange(5.0))
    assert type(failure.value) is ValueError
    assert model.get_params()["a"] is step
    assert where != "pipeline" or step.func is function


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("X", [NUMBERS[:, :2], FRAMES], ids=["array", "frame"])
@pytest.mark.parametrize("function", APART)
def test_functions_of_single_rows_are_not(function, X):
    model = make_pipeline(FunctionTransformer(function), DummyRegressor())
    assert dry_run(model, [{}], X, np.arange(5.0)) == []


def test_functions_of_targets_are_watched():
    def centred(y):
        return y - np.mean(y)

    for names in ({"func": centred, "inverse_func": np.exp}, {"func": np.log}):
        model = TransformedTargetRegressor(DummyRegressor(), inverse_func=centred, check_inverse=0)
        model.set_params(check_inverse=False, **names)
        scorer = make_per_record_scorer(lambda y, p: np.abs(y - p), bound=1.0)
        model.set_params(regressor=Ridge())
        with pytest.raises(ValueError, match=r"func of TransformedTarget.*several rows"):
            dry_run(model, [{}], NUMBERS, np.arange(5.0), scorer)
    model.set_params(func=np.log, inverse_func=np.exp)
    dry_run(model, [{}], NUMBERS, np.arange(5.0), scorer)


def test_what_is_frozen_is_left_alone():
    inner = FunctionTransformer(np.log1p).fit(np.ones((2, 3)))
    dry_run(make_pipeline(FrozenEstimator(inner), Ridge()), [{}], NUMBERS, np.arange(5.0))
    assert inner.func is np.log1p


def scaled(y, prediction):
    return np.square(y - prediction) / np.var(y)


SCALED = make_per_record_scorer(scaled, bound=1.0)


def test_losses_of_several_records_are_refused():
    with pytest.raises(ValueError, match="one record alone"):
        dry_run(Ridge(), [{}], NUMBERS, np.arange(5.0), SCALED)
    fair = make_per_record_scorer(lambda y, p: np.square(y - p), bound=1.0)
    dry_run(Ridge(), [{}], NUMBERS, np.arange(5.0), fair)


@pytest.mark.parametrize("guide", [True, False])
def test_they_are_refused_on_public_rows_too(guide):
    X = np.arange(40.0)[:, None]
    search = DPGridSearchCV(Ridge(), {"alpha": [1.0]}, scoring=SCALED, guide=guide, cv=None)
    with pytest.raises(ValueError, match="one record alone"):
        search.fit(X, X[:, 0], X_val=X + 0.5, y_val=X[:, 0])


def test_a_quitting_estimator_is_reported():
    class Quitting(Ridge):
        def fit(self, X, y):
            sys.exit("enough")

    (message,) = dry_run(Quitting(), [{}], NUMBERS, np.arange(5.0))
    assert "SystemExit: enough" in message


DAYS = pd.Series(pd.date_range("2020-01-01", periods=300))
NO_NUMBERS = {
    "dates": DAYS,
    "local dates": DAYS.dt.tz_localize("Asia/Tokyo"),
    "durations": DAYS - DAYS[0],
    "periods": DAYS.dt.to_period("D"),
    "intervals": pd.Series(pd.interval_range(0, 300)),
    "intervals of dates": pd.Series(pd.interval_range(DAYS[0], periods=300, closed="left")),
}


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.DefaultBoundsWarning")
@pytest.mark.parametrize("model", [DPRidge(), DPLogisticRegression(classes=[0, 1])], ids=repr)
@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_types_that_a_private_model_refuses_cost_nothing(model, kind):
    X, y = np.zeros((300, 2)), np.arange(300) % 2
    frame = pd.DataFrame({"known": y, "other": NO_NUMBERS[kind]})
    every_trial = PrivateSelection(accounting="composition")
    search = DPGridSearchCV(model, {"fit_intercept": [True, False]}, protect=every_trial)
    for rows, targets in ((frame, y), (X, NO_NUMBERS[kind]), (X, NO_NUMBERS[kind].to_numpy())):
        if targets is not y and not hasattr(targets, "iloc") and targets.dtype == object:
            continue  # the type says nothing
        of_labels = targets is not y and "classes" in model.get_params()
        of_all = "cannot be trained and scored with any candidate"
        text = "classes and y must both be texts or both be numbers" if of_labels else of_all
        with PrivacyLedger(9.0, 1e-3) as ledger, pytest.raises(ValueError, match=text):
            search.fit(rows, targets)
        assert not ledger.entries


def test_labels_of_lists_and_frames_and_columns_of_lists_are_not_refused():
    X, box = [[0.5, 0.5, 0.5]] * 40, (np.zeros(3), np.ones(3))
    classifier = DPLogisticRegression(X_bounds=box, classes=["no", "yes"])
    assert dry_run(classifier, [{}], X, ["no", "yes"] * 20) == []
    labels = pd.Series(["no", "yes"] * 20)
    for y in (labels.tolist(), labels.to_frame(), labels.astype("category").to_frame()):
        assert dry_run(classifier, [{}], np.array(X), y) == []
    for rows in (X, [np.array(row) for row in X]):  # of arrays the shape is unknown
        assert dry_run(DPRidge(X_bounds=box, y_bounds=(0, 1)), [{}], rows, [0.5] * 40) == []
    wrong = classifier.set_params(delta=7.0)
    for model, rows in ((wrong, X), (make_pipeline(CountVectorizer(), wrong), ["a text"] * 40)):
        with pytest.raises(ValueError, match="delta must lie"):
            dry_run(model, [{}], rows, ["no", "yes"] * 20)


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.coo_matrix])
def test_sparse_targets_are_sparse_there(form):
    y = form(np.eye(5, 2, dtype=int))
    dry_run(OneVsRestClassifier(LogisticRegression()), [{}], NUMBERS, y)
    with pytest.raises(ValueError, match="Sparse data was passed for y"):
        dry_run(DecisionTreeClassifier(), [{}], NUMBERS, y)


def test_types_that_are_not_known_here_are_not_tried():
    pa = pytest.importorskip("pyarrow")
    lists = pd.Series([[1]] * 300, dtype=pd.ArrowDtype(pa.list_(pa.int64())))
    X, y = np.zeros((300, 2)), np.arange(300) % 2
    assert dry_run(LogisticRegression(), [{"C": 1.0}], lists.to_frame("parts"), y) == []
    assert dry_run(LogisticRegression(), [{"C": 1.0}], X, lists) == []
