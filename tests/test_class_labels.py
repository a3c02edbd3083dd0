"""Labels beside given classes: one record decides no other record's label, and is not quoted."""

import warnings
from collections import deque
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.gaussian_process.kernels import RBF
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from _support.hostile import TEXT, Hostile, Unseen
from _support.internals import (
    NO_LABEL,
    as_public_targets,
    checked_labels,
    group_codes,
    label_positions,
    separate_labels,
    settled_public_targets,
    settled_targets,
)
from skdpbo import DPBayesSearchCV, DPGridSearchCV
from skdpbo.gaussian_process import DPSparseGPClassifier
from skdpbo.linear_model import DPLogisticRegression
from skdpbo.model_selection import Chunks
from skdpbo.privacy import PrivacyLedger


class Unhashable(int):
    """A label that says whose it is."""

    def __hash__(self):
        raise RuntimeError("of patient 4711")


class Unreadable(int):
    """A number that raises where numpy reads it."""

    def __int__(self):
        raise RuntimeError("of patient 4711")

    __index__ = __float__ = __int__


CLASSES = np.array([0, 1])
LABELS = [0, 1] * 20
SETTINGS = {"classes": [0, 1], "X_bounds": (-3, 3)}
PRIVATE = [
    DPLogisticRegression(**SETTINGS),
    DPSparseGPClassifier(RBF(1.0), inducing_points=3, **SETTINGS),
]


UNUSUAL = [Decimal("sNaN"), Unhashable(1)]


@pytest.mark.parametrize(
    "cell", ["a text", None, 0.5, float("nan"), 10**400, 1j, [1, 0], {}, *UNUSUAL]
)
@pytest.mark.parametrize("sequence", [list, deque])
def test_one_label_in_a_list_changes_no_other(sequence, cell):
    usual = label_positions(checked_labels(sequence(LABELS), CLASSES), CLASSES)
    with_cell = label_positions(checked_labels(sequence([cell, *LABELS[1:]]), CLASSES), CLASSES)
    assert usual.tolist() == LABELS
    assert with_cell.tolist() == [-1, *LABELS[1:]]


LONG = [2**53, 2**53 + 1]  # one float
IN_FRAMES = {
    "categories": lambda y: pd.Series(pd.Categorical(y, categories=LONG)),
    "an index of categories": lambda y: pd.CategoricalIndex(y, categories=LONG),
    "a frame of categories": lambda y: pd.DataFrame({"y": pd.Categorical(y, categories=LONG)}),
    "objects": lambda y: pd.Series(y, dtype=object),
}


@pytest.mark.parametrize("kind", IN_FRAMES)
def test_a_missing_label_rounds_no_other(kind):
    def positions(cell):
        y = IN_FRAMES[kind]([*LONG, *LONG, cell])
        known = label_positions(checked_labels(y, np.array(LONG)), np.array(LONG))
        # Of the rows that are scored in a search, and of those that train its private models.
        scored = np.ravel(as_public_targets(y, np.array(LONG))).tolist()
        trained = np.ravel(settled_targets(y, True)).tolist()
        return known.tolist()[:4], scored[:4], trained[:4]

    assert positions(LONG[0]) == positions(None) == ([0, 1, 0, 1], LONG * 2, LONG * 2)


@pytest.mark.parametrize("missing", [[], [None]])
def test_long_nullable_labels_are_read_as_they_are(missing):
    labels = checked_labels(pd.Series([*LONG, *missing], dtype="Int64"), np.array(LONG))
    assert label_positions(labels, np.array(LONG)).tolist() == [0, 1, *(-1 for _ in missing)]


@pytest.mark.parametrize("missing", [[], [None]])
@pytest.mark.parametrize("dtype", ["Int64", "UInt64", "int64[pyarrow]"])
def test_long_nullable_labels_of_a_search_are_not_rounded(dtype, missing):
    if "arrow" in dtype:
        pytest.importorskip("pyarrow")
    y = pd.Series([*LONG, *missing], dtype=dtype)
    for labels in (y, y.to_frame()):
        settled = settled_targets(labels, True)
        assert np.ravel(settled).tolist() == [*LONG, *(NO_LABEL for _ in missing)]
        assert np.asarray(settled).dtype == np.int64


def test_labels_and_groups_of_arrow_are_those_of_a_list():
    arrow = pytest.importorskip("pyarrow")
    for y in (arrow.array([*LONG, None, None]), arrow.chunked_array([LONG, [None, None]])):
        labels = checked_labels(y, np.array(LONG))
        assert label_positions(labels, np.array(LONG)).tolist() == [0, 1, -1, -1]
        assert group_codes(y, 4).tolist() == [0, 1, 2, 3]  # a missing one is a group of its own
    table = arrow.table({"y": [*LONG, None]})
    for y in (table, table.to_batches()[0]):
        labels = checked_labels(y, np.array(LONG))
        assert label_positions(labels, np.array(LONG)).tolist() == [0, 1, -1]


def test_a_text_among_labels_rounds_no_other():
    for label in (LONG[0], "a text"):
        y = settled_targets(np.array([*LONG, label], dtype=object), True)
        assert y[:2].tolist() == LONG


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cell", UNUSUAL, ids=["decimal", "own class"])
@pytest.mark.parametrize("model", PRIVATE, ids=["logistic", "gp"])
def test_a_label_whose_hash_raises_does_not_end_the_fit(model, cell):
    fitted = clone(model).fit(np.zeros((len(LABELS), 2)), [cell, *LABELS[1:]])
    assert fitted.n_records_ == len(LABELS)


@pytest.mark.parametrize("kind", [Hostile, Unseen])
@pytest.mark.parametrize("container", [list, tuple, deque, lambda y: np.fromiter(y, dtype=object)])
def test_a_label_whose_every_use_raises_is_of_no_class(kind, container):
    y = container([kind(), *LABELS[1:]])
    found = label_positions(checked_labels(y, CLASSES), CLASSES)
    assert found.tolist() == [-1, *LABELS[1:]]
    # What numpy does with such a list: an error that quotes the label.
    with pytest.raises(RuntimeError, match=TEXT):
        np.asarray([kind(), *LABELS[1:]], dtype=object)


@pytest.mark.quick_cases(2)
@pytest.mark.filterwarnings("ignore:y is of the type of objects")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of scikit-learn
@pytest.mark.parametrize("dtype", ["float64", "object", "category", "Int64"])
@pytest.mark.parametrize("model", PRIVATE, ids=["logistic", "gp"])
def test_a_missing_label_in_a_column_is_of_no_class_and_no_error(model, dtype):
    """The type of the column does not decide whether one record ends the fit."""
    y = pd.Series([np.nan, *LABELS[1:]]).astype(dtype)
    found = label_positions(checked_labels(y, CLASSES), CLASSES)
    assert found.tolist() == [-1, *LABELS[1:]]
    assert clone(model).fit(np.zeros((len(LABELS), 2)), y).n_records_ == len(LABELS)
    with pytest.raises(ValueError, match="NaN"):  # where the labels that occur are public
        clone(model).set_params(classes=None).fit(np.zeros((len(LABELS), 2)), y.astype(float))


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore:y is of the type of objects")
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SelectionCostWarning")
@pytest.mark.parametrize("row", range(5))  # rows that train, and some that score
@pytest.mark.parametrize("kind", ["missing", "raises", "complex", "complex in an array"])
def test_one_label_of_the_records_of_private_trials_does_not_end_the_search(kind, row):
    known = ["no", "yes"] if kind == "raises" else [0, 1]
    y = np.array(known * 20, dtype=object)
    y[row] = {"missing": None, "raises": Unseen()}.get(kind, 1j)
    y = y if kind == "complex in an array" else pd.Series(y, dtype=object)
    y = y.astype("category") if kind == "missing" else y
    model = DPLogisticRegression(**SETTINGS | {"classes": known})
    search = DPGridSearchCV(model, {"C": [0.1, 1.0]}, protect="all", epsilon=5.0)
    assert search.fit(np.zeros((len(y), 2)), y).best_estimator_.classes_.tolist() == known


def of_trial(y):
    """Codes of the labels that the model of a private trial is given."""
    return label_positions(checked_labels(settled_targets(y, True), CLASSES), CLASSES).tolist()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")  # of one column
@pytest.mark.parametrize("cell", [np.timedelta64(1, "s"), Unreadable(1), 1 + 2j, "a text"])
@pytest.mark.parametrize("form", [separate_labels, lambda y: pd.DataFrame({"y": y}, dtype=object)])
def test_one_label_of_a_trial_changes_no_other(form, cell):
    """A duration made durations of all, and one that raises ended every training."""
    with_cell = settled_public_targets(form([cell, *LABELS[1:]]), True)
    assert of_trial(with_cell)[1:] == LABELS[1:] == of_trial(form(LABELS))[1:]


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
@pytest.mark.parametrize("odd", [[], ["a text"]])
def test_fractional_classes_of_a_search_are_refused_before_the_charge(odd):
    """Trainings had none of these labels, and all of them beside one text."""
    model = DPLogisticRegression(X_bounds=(-3, 3), classes=[0.5, 1.5])
    y = [*odd, *np.resize([0.5, 1.5], 40 - len(odd)).tolist()]
    search = DPGridSearchCV(model, {"C": [0.1, 1.0]}, protect="all")
    refused = pytest.raises(ValueError, match="classes must be texts or whole numbers")
    with PrivacyLedger(epsilon=9.0, delta=1e-3) as ledger, refused:
        search.fit(np.zeros((40, 2)), y)
    assert ledger.entries == ()
    assert clone(model).fit(np.zeros((40, 2)), y).classes_.tolist() == [0.5, 1.5]


@pytest.mark.parametrize("row", [[Hostile()], [Unseen()], [0, 1], [], Hostile()])
@pytest.mark.parametrize("form", [list, tuple, np.array])
def test_one_row_of_a_list_of_columns_changes_no_other(row, form):
    rows = [form([label]) for label in LABELS]
    for y in (rows, [row, *rows[1:]]):
        found = label_positions(checked_labels(y, CLASSES), CLASSES)
        assert found.tolist()[1:] == LABELS[1:]
    assert found[0] == -1


def test_labels_in_the_type_that_numpy_gives_a_list_are_found():
    # Planted bug: numpy makes texts of all labels for one of them.
    inferred = checked_labels(np.asarray(["a text", *LABELS[1:]]), CLASSES)
    assert label_positions(inferred, CLASSES).tolist() == [-1] * len(LABELS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", PRIVATE, ids=["logistic", "gp"])
def test_complex_labels_are_refused_and_not_quoted(model):
    secret = 10.0 * np.array(LABELS) + 7.625j
    with pytest.raises(ValueError, match="Complex data not supported: y must be real") as caught:
        model.fit(np.zeros((len(LABELS), 2)), secret)
    assert "7.625" not in str(caught.value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("classes", [[0, 1], None])
@pytest.mark.parametrize("model", PRIVATE, ids=["logistic", "gp"])
def test_complex_labels_are_not_quoted_where_the_classes_are_those_that_occur(model, classes):
    secret = 10.0 * np.array(LABELS) + 7.625j
    with pytest.raises(ValueError, match="Complex data not supported: y must be real") as caught:
        clone(model).set_params(classes=classes).fit(np.zeros((len(LABELS), 2)), secret)
    assert "7.625" not in str(caught.value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("classes", [[0, 1], None])
@pytest.mark.parametrize(
    ("container", "shape"),
    [
        *((kind, shape) for kind in (np.asarray, pd.DataFrame) for shape in ((40, 2), (40, 0))),
        (np.asarray, (40, 1, 1)),
        (lambda y: y.astype(object), (40, 2)),
    ],
)
@pytest.mark.parametrize("model", PRIVATE, ids=["logistic", "gp"])
def test_columns_of_labels_are_refused_before_the_charge(model, container, shape, classes):
    y = container(np.resize(LABELS, shape))
    refused = pytest.raises(ValueError, match="y should be a 1d array")
    with PrivacyLedger(epsilon=5.0, delta=1e-4) as ledger, refused:
        clone(model).set_params(classes=classes).fit(np.zeros((40, 2)), y)
    assert not ledger.entries


@pytest.mark.filterwarnings("ignore")
def test_columns_of_labels_in_lists_tell_no_number_of_rows():
    with pytest.raises(ValueError, match="y should be a 1d array") as caught:
        clone(PRIVATE[0]).fit(np.zeros((40, 2)), [[0, 1]] * 40, groups=list(range(20)) * 2)
    assert "40" not in str(caught.value)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("dtype", ["string", "category"])
@pytest.mark.parametrize("model", PRIVATE, ids=["logistic", "gp"])
def test_columns_of_texts_beside_classes_that_are_numbers_are_refused(model, dtype):
    y = pd.Series(["no", "yes"] * 20, dtype="string").astype(dtype)
    refused = pytest.raises(ValueError, match="classes and y must both be texts")
    with PrivacyLedger(epsilon=5.0, delta=1e-4) as ledger, refused:
        clone(model).fit(np.zeros((40, 2)), y)
    assert not ledger.entries
    texts = clone(model).set_params(classes=["no", "yes"]).fit(np.zeros((40, 2)), y)
    assert set(texts.predict(np.zeros((2, 2)))) <= {"no", "yes"}


ROWS = np.random.RandomState(0).randn(40, 2)  # of no meaning
WORDS = ["no", "yes"] * 20


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore:y is of the type of objects")
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SelectionCostWarning")
@pytest.mark.parametrize("y", [np.array(WORDS), pd.Series(WORDS, dtype="string")])
@pytest.mark.parametrize("protect", ["all", Chunks(4)])
def test_every_search_refuses_labels_of_the_type_of_texts_beside_numbers(protect, y):
    search = DPGridSearchCV(DPLogisticRegression(**SETTINGS), {"C": [0.1, 1.0]}, protect=protect)
    with PrivacyLedger(epsilon=5.0, delta=1e-4) as ledger:
        with pytest.raises(ValueError, match="classes and y must both be texts"):
            search.fit(ROWS, y)
        assert not ledger.entries
        search.fit(ROWS, np.array(WORDS, dtype=object))  # of this type no record need be a text


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore:y is of the type of objects")
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
@pytest.mark.parametrize("container", [list, lambda y: np.array(y, dtype=object), pd.Series])
@pytest.mark.parametrize("kind", [DPGridSearchCV, DPBayesSearchCV])
def test_classes_of_which_no_public_row_is_one_are_refused(kind, container):
    pipeline = make_pipeline(FunctionTransformer(), DPLogisticRegression(**SETTINGS))
    search = kind(pipeline, {"dplogisticregression__C": [0.1, 1.0]}, cv=2)
    search.set_params(n_iter=2) if kind is DPBayesSearchCV else None
    known = {"X_val": ROWS[:20], "y_val": container(WORDS[:20])}
    with PrivacyLedger(epsilon=5.0, delta=1e-4) as ledger:
        with pytest.raises(ValueError, match="classes must hold labels of y"):
            search.fit(ROWS[20:], container(WORDS[20:]), **known)
        assert not ledger.entries
        known["y_val"] = container([2] * 20)  # protected labels may be of no class
        search.fit(ROWS[20:], container([0, 1] * 10), **known)


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
@pytest.mark.parametrize("classes", [5, "ab", [0], [None, 1], [[0], [1, 2]], [[0, 1]], [0, np.nan]])
@pytest.mark.parametrize("protect", [None, "validation", "all", Chunks(4)])
def test_classes_that_are_no_vector_of_labels_are_named(classes, protect):
    model = DPLogisticRegression(**SETTINGS | {"classes": classes})
    search = DPGridSearchCV(model, {"C": [0.1, 1.0]}, protect=protect, cv=None)
    refused = pytest.raises(ValueError, match="classes must be a vector")
    with PrivacyLedger(epsilon=5.0, delta=1e-4) as ledger, refused:
        (model if protect is None else search).fit(ROWS, np.array(LABELS))
    assert not ledger.entries


TEXTS = np.array(["a", "b"] * 20, dtype=object)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
@pytest.mark.parametrize("model", PRIVATE, ids=["logistic", "gp"])
def test_a_missing_text_is_of_no_class_where_the_classes_are_those_that_occur(model, missing):
    y = np.where(np.arange(40) == 7, missing, TEXTS)
    fitted = clone(model).set_params(classes=None).fit(np.zeros((40, 2)), y)
    assert fitted.classes_.tolist() == ["a", "b"]


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SelectionCostWarning")
@pytest.mark.parametrize("dtype", [float, object, "Int64"])
def test_a_missing_label_becomes_no_class_of_a_trial(dtype):
    y = pd.Series(LABELS, dtype="Int64").where(np.arange(40) % 9 > 0).astype(dtype)
    model = DPLogisticRegression(X_bounds=(-3, 3))
    search = DPGridSearchCV(model, {"C": [1.0]}, protect="all").fit(np.zeros((40, 2)), y)
    assert search.best_estimator_.classes_.tolist() == [0, 1]


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SelectionCostWarning")
@pytest.mark.parametrize("container", [list, tuple])
@pytest.mark.parametrize("odd", [None, np.nan, 0.5])
def test_a_missing_label_in_a_list_ends_no_trial(odd, container):
    y = container([odd if k % 9 == 0 else label for k, label in enumerate(LABELS)])
    model = DPLogisticRegression(X_bounds=(-3, 3))
    search = DPGridSearchCV(model, {"C": [1.0]}, protect="all").fit(np.zeros((40, 2)), y)
    assert search.best_estimator_.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("model", PRIVATE)
def test_a_column_of_labels_is_warned_of_before_the_charge(model):
    y = np.array(LABELS)[:, None]
    with PrivacyLedger(epsilon=1.0, delta=1e-3) as ledger:
        with pytest.raises(DataConversionWarning), warnings.catch_warnings(action="error"):
            clone(model).fit(np.zeros((40, 2)), y)
        assert not ledger.entries
