"""One record changes no type: of rows, of targets, and of what the steps of a search are given."""

import io
import pickle
from datetime import date, timedelta
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.dummy import DummyRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from _support.hostile import Unseen
from _support.internals import (
    as_numbers,
    as_objects,
    from_public_values,
    group_codes,
    in_public_schema,
    isolated_outcomes,
    protected_positions,
    resolve_scorer,
    settled_public_rows,
    settled_public_targets,
    settled_rows,
    settled_targets,
)
from _support.planted import put
from skdpbo import DPGridSearchCV, DPSparseGPRegressor
from skdpbo.exceptions import PublicTrainingWarning
from skdpbo.model_selection import Chunks, PrivateSelection

NAN = float("nan")
N = 60
COLUMNS = {
    "integers": ([1, 2, 3], [NAN, 0.5]),
    "truth": ([True, False], [NAN]),
    "texts": (["red", "blue"], ["chartreuse-yellow", None]),
    "nullable": (pd.array([1, 2, 3], dtype="Int64"), [pd.NA]),
}


def with_cell(values, i, cell):
    """Return a column as a reader would type it, with another cell at one place."""
    column = pd.Series(np.resize(np.asarray(values, dtype=object), N))
    column[i] = cell
    dtype = getattr(values, "dtype", None)
    return column.infer_objects() if dtype is None else column.astype(dtype)


CASES = [(kind, cell) for kind, (_, cells) in COLUMNS.items() for cell in cells]


@pytest.mark.parametrize(("kind", "cell"), CASES, ids=[f"{k}-{c}" for k, c in CASES])
def test_of_frames(kind, cell):
    values, _ = COLUMNS[kind]
    usual, other = (
        pd.DataFrame({"a": with_cell(values, 7, c), "b": np.arange(N) / 2})
        for c in (values[1], cell)
    )
    for settle in (settled_rows, settled_public_rows):
        first, second = (settle(frame) for frame in (usual, other))
        assert first.dtypes.tolist() == second.dtypes.tolist()
        kept = np.arange(N) != 7
        assert first[kept].equals(second[kept])


@pytest.mark.parametrize("container", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize("cell", [NAN, 0.5])
@pytest.mark.parametrize("dtype", ["int64", "uint64", "bool"])
def test_of_arrays(dtype, cell, container):
    usual = np.ones((4, 2), dtype=dtype)
    other = usual.astype(float)
    other[1, 1] = cell
    assert settled_rows(container(usual)).dtype == settled_rows(container(other)).dtype == float


def test_of_nullable_columns():
    for integer, other in (("Int64", "Float64"), ("UInt64", "Float64")):
        frames = (pd.DataFrame({"a": pd.array([1, None, 2], dtype=d)}) for d in (integer, other))
        assert len({str(settled_rows(frame)["a"].dtype) for frame in frames}) == 1


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["frame", "array"])
def test_of_a_validation_part_of_chunks(kind):
    def seen(cell):
        X_val = np.arange(20.0) if cell else np.arange(20)
        X_val[3] = cell
        X_val = pd.DataFrame({"a": X_val}) if kind == "frame" else X_val[:, None]
        X = pd.DataFrame({"a": np.arange(N)}) if kind == "frame" else np.arange(N)[:, None]
        SEEN.clear()
        model = make_pipeline(Watching(), DecisionTreeClassifier())
        search = DPGridSearchCV(model, {}, protect=Chunks(2), score_fraction=0)
        search.fit(X, LABELS, X_val=X_val, y_val=LABELS[:20])
        return set(SEEN)

    assert seen(NAN) == seen(0)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "float64", object])
def test_declared_types_stay(dtype):
    rows = np.ones((3, 2)).astype(dtype)
    assert settled_rows(rows) is rows
    frame = pd.DataFrame({"a": pd.Series(rows[:, 0]), "b": pd.Categorical(["x", "y", "x"])})
    assert settled_rows(frame) is frame
    assert settled_rows([[1, 2]]) == [[1, 2]]


def test_categories_and_objects_of_public_rows():
    column = pd.Categorical(["x", "y", "x", "HIV-positive"])
    frame = pd.DataFrame({"a": column, "b": pd.Series([1, 2, 3, "unknown"], dtype=object)})
    public = settled_public_rows(frame.iloc[:3])
    assert public["a"].cat.categories.tolist() == ["x", "y"]
    assert public["b"].dtype == float
    y = pd.Series(column)
    assert settled_public_targets(y.iloc[:3], True).cat.categories.tolist() == ["x", "y"]


@pytest.mark.parametrize("odd", ["a text", 0.5, NAN, 10**30, (1, 2)])
@pytest.mark.parametrize("ordinary", [[2, 0, 1, 2], [0.5, 0.0, 2.0, 0.5], ["b", "a", "c", "b"]])
def test_one_protected_cell_does_not_type_public_categories(ordinary, odd):
    def settled(cell):
        column = pd.Series([*ordinary, cell]).astype("category").iloc[:4]
        frame = settled_public_rows(column.to_frame("a"))
        return frame["a"], settled_public_targets(column, True)

    for usual, other in zip(settled(ordinary[0]), settled(odd), strict=True):
        pd.testing.assert_index_equal(usual.cat.categories, other.cat.categories, exact=True)
        assert usual.cat.codes.tolist() == other.cat.codes.tolist()
        assert usual.tolist() == other.tolist() == ordinary


@pytest.mark.parametrize("kind", [pd.Categorical, pd.CategoricalIndex, pd.Index])
def test_targets_of_no_series_are_typed_by_public_ones_too(kind):
    usual, other = (
        settled_public_targets(kind([2, 0, 1, 2, cell])[:4], True) for cell in (2, "HIV-positive")
    )
    assert type(usual) is type(other)
    assert usual.dtype == other.dtype
    assert usual.tolist() == other.tolist() == [2, 0, 1, 2]
    assert b"HIV" not in pickle.dumps(other)
    dates = pd.DatetimeIndex(["2020-01-01"] * 4, tz="UTC")
    assert settled_public_targets(dates, True).dt.tz is not None


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [pd.Series, pd.Categorical, pd.CategoricalIndex])
@pytest.mark.parametrize("odd", ["a text", 0.5, 2**70])
def test_a_search_by_labels_that_are_categories_is_no_other_for_one_protected_label(odd, kind):
    X, labels = np.arange(40.0)[:, None], [0, 1] * 20
    (position,) = protected_positions(40, 0.02)

    def classes(cell):
        y = kind(pd.Categorical([*labels[:position], cell, *labels[position + 1 :]]))
        search = DPGridSearchCV(
            LogisticRegression(), {"C": [1.0]}, cv=2, validation_fraction=0.02, score_fraction=0.0
        )
        return search.fit(X, y).classes_

    assert classes(odd).dtype == classes(0).dtype
    assert classes(odd).tolist() == [0, 1]


def test_of_labels():
    usual, other = np.array([0, 1, 1]), np.array([0.0, 1.0, NAN])
    for y in (
        usual,
        other,
        pd.Series(other, index=[3, 4, 5], name="y"),
        pd.DataFrame({"y": other}),
    ):
        labels = settled_targets(y, True)
        assert type(labels) is type(y)
        assert np.asarray(labels).dtype == np.int64
        assert np.asarray(labels).ravel()[:2].tolist() == [0, 1]
        assert not hasattr(y, "index") or labels.index.equals(y.index)
    assert np.asarray(settled_targets(other, True))[2] == settled_targets(np.array([0.5]), True)[0]
    assert settled_public_targets(other[:2], True).dtype == np.int64
    # Public labels that are not whole are the user's mistake, which is shown.
    for y in (other, np.array([0.5, 1.0])):
        assert settled_public_targets(y, True) is y
    assert settled_targets(usual, False).dtype == settled_targets(other, False).dtype == float
    assert settled_targets(np.array(["a"]), True).dtype == object
    assert settled_targets(None, True) is None


def categories(values):
    return pd.Series(values).astype("category")


def array_of(values):
    """Return what numpy makes of numbers, and an array of objects where a text is among them."""
    texts = any(isinstance(value, str) for value in values)
    return np.array(values, dtype=object if texts else None)


ODD_CELLS = [
    (np.array, ["b", "a", "b"], None),
    (np.array, [b"b", b"a", b"b"], None),
    (np.array, [True, False, True], NAN),
    (np.array, [True, False, True], None),
    (np.array, [3, 0, 3], 2**63),
    (pd.Series, [3, 0, 3], 2**63),
    (categories, [3, 0, 3], 2**63),
    (categories, [3, 0, 3], 1j),
    (pd.Series, [1 + 0j, 0j, 1 + 0j], "a text"),
    (array_of, [1 + 0j, 0j, 1 + 0j], "a text"),
]


@pytest.mark.parametrize(("container", "public", "odd"), ODD_CELLS)
def test_one_protected_cell_decides_no_type_of_public_rows_and_targets(container, public, odd):
    def settled(cell):
        y = container([*public, cell])[:3]
        X = y[:, None] if isinstance(y, np.ndarray) else y.to_frame("a")
        targets = settled_public_targets(y, True), settled_public_targets(y, False)
        return settled_public_rows(X), *targets

    for usual, other in zip(settled(public[0]), settled(odd), strict=True):
        assert np.asarray(usual).tolist() == np.asarray(other).tolist()
        assert np.ravel(usual).tolist() == public
        assert types_of(usual) == types_of(other)


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        ([3.0, 1.0, 2.0], True),
        ([*"lmh"], True),
        ([True, 2, 3], False),
        ([Fraction(1, 2), Fraction(1, 3)], False),
        ([10**30, 5], False),
    ],
)
def test_public_categories_stay_in_a_declared_order(given, ordered):
    column = pd.Series(pd.Categorical(given, categories=given))
    settled = settled_public_rows(column.to_frame("a"))["a"]
    assert settled.tolist() == given
    assert not ordered or settled.cat.categories.tolist() == given


def test_a_missing_target_changes_no_type_of_another():
    usual, other = (pd.DataFrame({"a": [1, 2, cell], "b": [1, 2, 3]}) for cell in (3, NAN))
    assert types_of(settled_targets(usual, False)) == types_of(settled_targets(other, False))


def test_a_target_of_no_class_is_no_error():
    y = np.array([1.0, 2.0, None], dtype=object)
    y[2] = Unseen()
    assert settled_targets(y, False)[:2].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("container", [np.array, pd.Series, lambda y: pd.Series(y).to_frame()])
@pytest.mark.parametrize("missing", [None, NAN, pd.NA, 2**70], ids=["None", "NaN", "NA", "huge"])
@pytest.mark.parametrize("public", [[True, False], [1, 0]])
def test_a_missing_label_decides_no_type(container, missing, public):
    for labels in (True, False):
        usual, other = (
            np.asarray(settled_targets(container([*public, cell]), labels))
            for cell in (public[0], missing)
        )
        assert usual.dtype == other.dtype
        assert usual[:2].tolist() == other[:2].tolist()


@pytest.mark.filterwarnings("ignore")
def test_a_missing_label_fails_in_its_own_chunk_alone():
    y = pd.Series(np.arange(N) % 2 == 0)
    other = pd.Series([None, *y[1:]])
    search = DPGridSearchCV(DecisionTreeClassifier(), {}, protect=Chunks(5), epsilon=1e4)
    search.set_params(score_fraction=0.5)
    scores = [search.fit(y.to_frame() * 1.0, labels).best_score_ for labels in (y, other)]
    assert scores[0] > 0.99
    assert scores[1] > 0.7


@pytest.mark.quick_cases(4)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("container", [np.asarray, pd.Series])
@pytest.mark.parametrize("odd", ["a text", b"x", 1j, (1, 2)])
@pytest.mark.parametrize(
    ("tree", "scoring"),
    [(DecisionTreeClassifier(), None), (DecisionTreeRegressor(), "neg_mean_absolute_error")],
)
def test_a_label_of_another_type_fails_in_its_own_chunk_alone(tree, scoring, odd, container):
    X = np.resize([[0.0], [1.0]], (N, 1))
    y = np.fromiter([0, odd, *np.resize([0, 1], N - 2).tolist()], dtype=object, count=N)
    search = DPGridSearchCV(tree, {}, protect=Chunks(5), epsilon=1e4, score_fraction=0.5)
    search.set_params(scoring=scoring, loss_bound=None if scoring is None else 1.0)
    best = search.fit(X, container(y)).best_score_ + (scoring is not None)
    assert 0.7 < best < 0.9


def converted(cells):
    return pd.DataFrame({"a": cells}, dtype=object).convert_dtypes()


def sparse_frame(cells):
    return pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(np.array(cells)[:, None]))


EXTENSIONS = [
    *((converted, public, "a text") for public in ([3, 0, 3], [0.5, None, 1], [True, False, True])),
    (converted, ["b", "a", "b"], 5),
    (sparse_frame, [3, 0, 3], 0.5),
    (lambda cells: pd.DataFrame({"a": cells}), [pd.Interval(0, 1), pd.Interval(1, 2)], None),
]


@pytest.mark.parametrize(("frame", "public", "odd"), EXTENSIONS)
def test_one_protected_cell_decides_no_extension_type(frame, public, odd):
    tables = [frame([*public, cell]).iloc[: len(public)] for cell in (public[0], odd)]
    for settle in (settled_public_rows, settled_rows)[: 1 + (frame is not converted)]:
        first, second = (settle(table) for table in tables)
        assert first.dtypes.tolist() == second.dtypes.tolist()
        assert first.equals(second)
        assert first.iloc[:, 0].dropna().tolist() == [cell for cell in public if cell is not None]


def types_of(values):
    dtypes = list(values.dtypes) if hasattr(values, "columns") else [values.dtype]
    return [getattr(getattr(dtype, "categories", None), "dtype", dtype) for dtype in dtypes]


DAYS = pd.date_range("2020", periods=3).tolist()
INTERVALS = [pd.Interval(2, 3), pd.Interval(0, 1), pd.Interval(2, 3)]
NANOSECOND = pd.Timestamp("2020-01-01 00:00:00.000000001")
NANOSECONDS = pd.Timedelta(1)
ODD_CATEGORIES = [
    *((["b", 1, "a", 2.5], odd) for odd in (date(2020, 1, 1), b"x", 1j, (1, 2), NANOSECOND)),
    *((["b", "c", "a"], odd) for odd in (date(2020, 1, 1), b"x", 5)),
    *((INTERVALS, odd) for odd in (None, pd.Interval(0.5, 1), "a text")),
    *((DAYS, odd) for odd in (NANOSECOND, None, "a text")),
    ([1j, 2, 1], "a text"),
]
ODD_DATES = [(DAYS, NANOSECOND), (DAYS, "a text"), (DAYS, None)]
ODD_DATES += [([day - DAYS[0] for day in DAYS], odd) for odd in (NANOSECONDS, "a text", None)]


def test_labels_of_levels_beside_another_label_are_levels():
    labels = [("a", 0), ("b", 1), ("a", 2)]
    frames = [pd.DataFrame({"a": range(3)}, index=pd.Index(x)) for x in (labels, [*labels[:2], 5])]
    assert [frame.index.nlevels for frame in frames] == [2, 1]
    usual, other = (settled_public_rows(frame.iloc[:2]).index for frame in frames)
    pd.testing.assert_index_equal(usual, other, exact=True)


@pytest.mark.quick_cases(15)
@pytest.mark.parametrize("kind", ["column", "index"])
@pytest.mark.parametrize(
    ("dtype", "public", "odd"),
    [
        *(("category", *case) for case in ODD_CATEGORIES),
        *((None, *case) for case in ODD_DATES),
        (None, INTERVALS, None),
    ],
)
def test_a_frame_that_is_kept_shows_no_odd_protected_cell(dtype, public, odd, kind):
    def kept(cell):
        values = np.fromiter([cell, *public], dtype=object, count=len(public) + 1).tolist()
        cells = pd.Series(pd.Series(values), dtype=dtype)
        if kind == "index":
            return settled_public_rows(pd.DataFrame({"a": cells.index}, index=cells).iloc[1:])
        return settled_public_rows(pd.DataFrame({"a": cells}).iloc[1:])

    usual, other = kept(public[0]), kept(odd)
    assert pickle.dumps(usual) == pickle.dumps(other)
    assert [*(usual.index if kind == "index" else usual["a"])] == public


def test_complex_labels_are_objects_whatever_a_protected_label_is():
    public = [1j, 0, 1]
    for whole in (np.array([*public, 2]), np.array([*public, "a text"], dtype=object)):
        labels = settled_public_targets(whole[:3], True)
        assert (labels.dtype, labels.tolist()) == (np.dtype(object), public)


class Speechless(str):
    """A text that raises where it is made one of Python."""

    __slots__ = ()

    def __str__(self):
        raise RuntimeError


def test_a_text_that_raises_is_a_label_as_any_other():
    labels = np.array(["no", Speechless("yes")], dtype=object)
    assert list(map(type, settled_public_targets(labels, True))) == [str, Speechless]


def test_texts_are_as_wide_as_public_ones():
    wide = np.array([["red", "x"], ["chartreuse-yellow", "x"]])[:1]
    assert from_public_values(wide).dtype == "<U3"
    assert from_public_values(wide.astype(bytes)).dtype == "S3"
    assert from_public_values(wide).tolist() == wide.tolist()
    assert settled_public_targets(wide[:, 0], True).dtype == "<U3"


SEEN = []


class Watching(TransformerMixin, BaseEstimator):
    """Notes the types that a fit, and a prediction, are given, and keeps those of the fit."""

    def fit(self, X, y=None):
        self.types_ = str(getattr(X, "dtypes", None)), str(getattr(X, "dtype", None))
        SEEN.append((self.types_, str(getattr(y, "dtype", None))))
        return self

    def transform(self, X):
        SEEN.append((str(getattr(X, "dtypes", None)), str(getattr(X, "dtype", None))))
        return np.zeros((len(X), 1))


class WatchingGP(DPSparseGPRegressor):
    """A private model that notes the types it is given."""

    def fit(self, X, y):
        types = str(getattr(X, "dtypes", None)), str(getattr(X, "dtype", None))
        SEEN.append((types, str(getattr(y, "dtype", None))))
        return super().fit(np.zeros((len(X), 1)), np.zeros(len(X)))

    def predict(self, X, **kwargs):
        SEEN.append((str(getattr(X, "dtypes", None)), str(getattr(X, "dtype", None))))
        return super().predict(np.zeros((len(X), 1)), **kwargs)


def types_seen(mode, X, y):
    """Types that the steps of one fit are given, once each, and what is released of them."""
    SEEN.clear()
    if mode == "private":
        model = WatchingGP(RBF(1.0), inducing_points=3, epsilon=0.5, noise_variance=0.1)
        once = PrivateSelection(accounting="composition")
        search = DPGridSearchCV(model, {}, protect=once, epsilon=8.0, loss_bound=1.0)
    else:
        tree = DecisionTreeRegressor() if mode.endswith("regression") else DecisionTreeClassifier()
        protect = Chunks(2) if mode.startswith("chunks") else "validation"
        options = {"protect": protect, "score_fraction": 0, "loss_bound": 1.0}
        options["cv"] = 2 if protect == "validation" else None
        search = DPGridSearchCV(make_pipeline(Watching(), tree), {}, **options)
    search.fit(X, y)
    released = vars(search).get("best_estimator_")
    kept = None if released is None or mode == "private" else pickle.dumps(released[0])
    return set(SEEN), kept


LABELS = np.arange(N) % 2
TABLES = {
    f"{kind}-{cell}": (pd.DataFrame({"a": with_cell(values, 7, values[1])}), cell)
    for kind, (values, cells) in COLUMNS.items()
    for cell in cells
}
TABLES |= {
    "array-missing": (np.ones((N, 1), dtype=int), NAN),
    "array-fraction": (np.ones((N, 1), dtype=int), 0.5),
    "array-text": (np.array([["red"], ["blue"]] * (N // 2)), "chartreuse-yellow"),
    "list": ([[1], [2]] * (N // 2), "a text"),
}


def neighbour(X, i, cell):
    if isinstance(X, list):
        return [*X[:i], [cell], *X[i + 1 :]]
    if isinstance(X, pd.DataFrame):
        return (
            pd.DataFrame({"a": with_cell(X["a"].array, i, cell)})
            if str(X["a"].dtype) == "Int64"
            else pd.DataFrame({"a": with_cell(X["a"].tolist(), i, cell)})
        )
    column = X[:, 0].tolist()
    column[i] = cell
    return np.array(column)[:, None]


WITH_MODES = [(mode, table) for table in sorted(TABLES) for mode in ("default split", "chunks")]
WITH_MODES += [("private", table) for table in ("integers-nan", "truth-nan", "array-text")]


@pytest.mark.quick_cases(4)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("mode", "table"), WITH_MODES)
def test_a_record_changes_no_type_that_a_step_sees(mode, table):
    X, cell = TABLES[table]
    i = protected_positions(N, 0.2)[2]
    usual = types_seen(mode, X, LABELS)
    assert usual[0]
    assert types_seen(mode, neighbour(X, i, cell), LABELS) == usual


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "mode",
    ["default split", "default split regression", "chunks", "chunks regression", "private"],
)
@pytest.mark.parametrize(("cell", "container"), [(NAN, np.array), (0.5, pd.Series)])
def test_a_target_changes_no_type_that_a_step_sees(mode, cell, container):
    X = np.arange(2.0 * N).reshape(N, 2)
    i = protected_positions(N, 0.2)[2]
    y = LABELS.astype(float)
    y[i] = cell
    assert types_seen(mode, X, container(y)) == types_seen(mode, X, container(LABELS))


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame])
def test_a_protected_text_among_numbers_changes_no_public_type(container):
    numbers = np.arange(N)[:, None] % 3
    with_text = numbers.astype(object)
    with_text[protected_positions(N, 0.2)[2]] = "a text"
    usual = types_seen("default split", container(numbers), LABELS)
    assert types_seen("default split", container(with_text), LABELS) == usual


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["default split", "default split regression"])
@pytest.mark.parametrize("container", [pd.Series, np.array, lambda y: pd.DataFrame({"y": y})])
def test_a_protected_text_among_targets_changes_no_public_type(mode, container):
    X, y = np.arange(2.0 * N).reshape(N, 2), LABELS.astype(object)
    usual = types_seen(mode, X, container(LABELS))
    y[protected_positions(N, 0.2)[2]] = "a text"
    assert types_seen(mode, X, container(y)) == usual


def public_pickle(table):
    """Return what a model that keeps its rows shows of a table whose rows 1 and 2 are protected."""
    return pickle.dumps(settled_public_rows(table.iloc[[0, 3, 4]]))


def test_a_kept_frame_shows_neither_protected_labels_nor_replaced_columns():
    table = pd.DataFrame({"a": [0.5] * 5, "b": [1.5] * 5})
    odd = table.astype({"a": object})
    odd.iloc[1, 0] = "a text"
    assert public_pickle(odd) == public_pickle(table)
    names = ["Ann", "Bob", "Cy", "Di", "Ed"]
    for index in (pd.MultiIndex.from_arrays([["x"] * 5, names]), pd.CategoricalIndex(names)):
        kept = public_pickle(table.set_axis(index))
        assert b"Ann" in kept
        assert b"Bob" not in kept
        assert b"Bob" in pickle.dumps(table.set_axis(index).iloc[[0, 3, 4]])  # else proves nothing


DAYS = pd.Series(pd.date_range("2020-01-01", periods=N, freq="D"))
TYPED = {
    "dates": (DAYS, "a text"),
    "dates of a zone": (DAYS.dt.tz_localize("UTC"), "a text"),
    "intervals of time": (DAYS - DAYS[0], "a text"),
    "dates and a nanosecond": (DAYS, pd.Timestamp("2020-01-01 00:00:00.000000001")),
    "intervals and a nanosecond": (DAYS - DAYS[0], pd.Timedelta(1, "ns")),
    "texts": (pd.Series(["red", "blue"] * (N // 2)), 5),
    "numbers": (pd.Series(np.arange(N) / 2), 1j),
}


def column_with(column, i, cell):
    """As pandas types the same values with another one among them."""
    return pd.DataFrame({"a": [*column[:i], cell, *column[i + 1 :]]})


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", sorted(TYPED))
def test_a_cell_of_another_kind_changes_no_public_type(kind):
    column, cell = TYPED[kind]
    usual = types_seen("default split", column.to_frame("a"), LABELS)
    with_cell = column_with(column, protected_positions(N, 0.2)[2], cell)
    assert types_seen("default split", with_cell, LABELS) == usual


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", sorted(kind for kind in TYPED if "nanosecond" in kind))
def test_a_nanosecond_changes_no_unit_in_chunks(kind):
    column, cell = TYPED[kind]
    with_cell = column_with(column, 7, cell)
    usual = types_seen("chunks", column_with(column, 7, column[7]), LABELS)
    assert types_seen("chunks", with_cell, LABELS) == usual


def test_public_nanoseconds_are_kept():
    dates = pd.Series([pd.Timestamp(1, unit="ns"), pd.NaT]).to_frame("a")
    assert settled_public_rows(dates).equals(dates)
    whole = pd.Series([pd.Timestamp(1000, unit="ns"), pd.NaT]).to_frame("a")
    usual = pd.Series([timedelta(1)]).dt.unit
    assert settled_public_rows(whole)["a"].dt.unit == usual
    assert (settled_public_rows(whole) == whole).iloc[0, 0]


@pytest.mark.parametrize("kind", ["M", "m"])
def test_an_array_of_dates_has_one_unit(kind):
    days = np.array([[18262], [18293], [18628]]).astype(f"{kind}8[D]")
    whole = np.vstack([days, days[:1].astype(f"{kind}8[ns]") + np.timedelta64(1, "ns")])
    for settle in (settled_rows, settled_public_rows):
        usual, beside = settle(days), settle(whole[:3])
        assert usual.dtype == beside.dtype == np.dtype(f"{kind}8[us]")
        np.testing.assert_array_equal(usual, beside)
        np.testing.assert_array_equal(usual, days)
    np.testing.assert_array_equal(settled_public_rows(whole), whole)  # public nanoseconds
    assert settled_rows(whole).dtype == np.dtype(f"{kind}8[us]")  # no value decides


@pytest.mark.filterwarnings("ignore")
def test_a_date_with_hours_does_not_show_in_a_released_scaler():
    days = (np.datetime64("2020-01-01") + np.arange(N)).reshape(-1, 1)
    hours = days.astype("M8[h]")
    hours[protected_positions(N, 0.2)[0]] += 1
    model = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=1))
    means = [
        DPGridSearchCV(model, {}, cv=2).fit(X, LABELS).best_estimator_[0].mean_
        for X in (days, hours)
    ]
    np.testing.assert_array_equal(*means)


def test_what_is_under_a_missing_nullable_cell_is_not_in_a_pickle():
    found = []
    for odd in ("2", "0.5"):
        text = io.StringIO(f"a,b\n1,1\n,2\n{odd},3\n")
        frame = pd.read_csv(text, dtype_backend="numpy_nullable")
        found.append(pickle.dumps(settled_public_rows(frame.iloc[:2])))
    assert found[0] == found[1]


@pytest.mark.parametrize("odd", [0.5, True, "text", 3])
def test_a_public_column_without_values_holds_floats(odd):
    for cells in ([None, None, odd], [np.nan, np.nan, odd]):
        for column in (pd.Series(cells), pd.Series(cells).convert_dtypes()):
            public = settled_public_rows(column.to_frame("a").iloc[:2])["a"]
            assert public.dtype == np.float64
            assert public.isna().all()


class TestArrow:
    """Columns of Arrow, whose readers take dates and times for what the finest one needs."""

    @pytest.fixture(autouse=True)
    def _installed(self):
        pytest.importorskip("pyarrow")

    @pytest.mark.parametrize("settle", [settled_rows, settled_public_rows])
    def test_days_and_seconds(self, settle):
        dates = pd.Series(pd.to_datetime(["2020-01-01", "2021-03-04", None]))
        kinds = ["date32[day]", "date64[ms]", "timestamp[s]", "timestamp[us]", "timestamp[ns]"]
        found = [settle(dates.astype(f"{kind}[pyarrow]").to_frame("a")) for kind in kinds]
        for other in found:
            pd.testing.assert_frame_equal(other, found[0])
            assert pickle.dumps(other["a"]) == pickle.dumps(found[0]["a"])

    @pytest.mark.parametrize("kind", ["timestamp[ns]", "timestamp[ns, tz=UTC]", "duration[ns]"])
    def test_a_nanosecond_is_not_quoted(self, kind):
        values = [12345678901234567, 1000, None]
        column = pd.Series(values, dtype="int64[pyarrow]").astype(f"{kind}[pyarrow]")
        usual = getattr(pd.Series(pd.to_timedelta(["1s"])).dt, "unit", "ns")  # of this pandas
        assert f"[{usual}" in str(settled_rows(column.to_frame("a"))["a"].dtype)
        assert settled_public_rows(column.to_frame("a"))["a"].dtype == column.dtype

    @pytest.mark.parametrize(
        ("public", "odd"),
        [*((cells, "a text") for cells in ([3, 0, 3], [0.5, 1, 2], [True, False])), ([*"aba"], 5)],
    )
    def test_one_protected_cell_decides_no_converted_type(self, public, odd):
        def settled(cell):
            column = pd.Series([*public, cell], dtype=object)
            cut = column.convert_dtypes(dtype_backend="pyarrow").iloc[: len(public)]
            return [settled_public_rows(cut.to_frame())[0], settled_public_targets(cut, True)]

        for usual, other in zip(settled(public[0]), settled(odd), strict=True):
            assert usual.dtype == other.dtype
            assert pickle.dumps(usual) == pickle.dumps(other)

    def test_values_of_a_dictionary(self):
        pa = pytest.importorskip("pyarrow")
        kind = pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))
        for settle in (settled_public_rows, lambda X: settled_public_targets(X["a"], True)):
            column = pd.Series(["a", "b", "secret"], dtype=kind)
            assert b"secret" not in pickle.dumps(settle(column.to_frame("a").iloc[:2]))


class Own(np.ndarray):
    """A class of arrays of a user's."""


def of_own_class(values):
    return np.array(values).view(Own)


def of_other_bytes(values):
    """Return an array whose numbers have another order of bytes, as files of FITS have."""
    array = np.array(values)
    return array.astype(array.dtype.newbyteorder()) if array.dtype.kind in "iuf" else array


@pytest.mark.parametrize("container", [pd.Series, pd.Index, pd.array, of_own_class, of_other_bytes])
def test_one_protected_label_decides_no_container(container):
    truth = [True, False, True, False]
    numbers = [(public, odd) for public in ([0, 1, 0, 1], [0.5, 1.5, 2, 2]) for odd in (NAN, None)]
    for public, odd in (([*"abab"], 0.5), *numbers, (truth, None), (truth, 0.5)):
        cut = (container([*public, cell])[:4] for cell in (public[0], odd))
        usual, other = (settled_public_targets(y, True) for y in cut)
        assert usual.tolist() == other.tolist()
        assert pickle.dumps(usual) == pickle.dumps(other)


class ShownRows(DummyRegressor):
    """A regressor that notes the containers and types of its rows."""

    shown: ClassVar[list] = []

    def fit(self, X, y):
        return super().fit(self._noted(X), y)

    def predict(self, X):
        return super().predict(self._noted(X))

    def _noted(self, X):
        self.shown.append((type(X), str(X.dtype)))
        return X


DAY = date(2020, 1, 1)  # no text, of which old versions of pandas make texts of all numbers


@pytest.mark.quick_cases(10)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
@pytest.mark.parametrize("own_rows", [False, True])
@pytest.mark.parametrize(
    "container",
    [
        pd.Index,
        pd.array,
        pd.Categorical,
        lambda cells: of_own_class(cells)[:, None],
        lambda cells: of_other_bytes(cells)[:, None],
    ],
)
@pytest.mark.parametrize(
    ("public", "odd"), [(2, DAY), (2, 0.5), (2, None), (0.5, DAY), ("a", 5), ("a", None)]
)
def test_one_protected_cell_decides_no_container_of_rows(container, public, odd, own_rows):
    y, place = np.arange(N) / N, protected_positions(N, 0.2)[0]
    known = [public, public * 3] * (N // 2)
    search = DPGridSearchCV(ShownRows(), {}, loss_bound=1.0, cv=2)

    def shown(cell):
        ShownRows.shown.clear()
        cells = [cell if i == place else other for i, other in enumerate(known)]
        if own_rows:
            search.fit(container(known), y, X_val=container(cells), y_val=y)
        else:
            search.fit(container(cells), y)
        return set(ShownRows.shown)

    assert shown(known[place]) == shown(odd)


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
@pytest.mark.parametrize("container", [pd.Index, pd.array])
def test_texts_in_containers_without_rows(container):
    X, y = np.arange(N)[:, None] % 2, np.resize(["a", "b"], N)
    texts = container(y.tolist())
    search = DPGridSearchCV(DecisionTreeClassifier(), {}, epsilon=1e3, score_fraction=0.5, cv=2)
    assert search.fit(X, y, X_val=X, y_val=texts).best_score_ > 0.9
    assert search.fit(X, texts).best_score_ > 0.9
    assert search.fit(X, container(y == "a"), X_val=X, y_val=y == "a").best_score_ > 0.9
    persons = container([f"person {i // 2}" for i in range(N)])
    search.set_params(cv=GroupKFold(2))
    assert search.fit(X, y, groups=persons).best_score_ > 0.9


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_public_numbers_are_real_beside_a_complex_one(container):
    cells = np.array([[1.0, 0.0], [2.0, 3.0]])
    table = container(cells.astype(complex))
    real = settled_public_rows(table)
    assert "complex" not in str(getattr(real, "dtypes", getattr(real, "dtype", None)))
    np.testing.assert_array_equal(real.toarray() if sparse.issparse(real) else real, cells)
    # As those of a real table, by whose places in the memory a sum is taken.
    assert container is pd.DataFrame or memoryview(real.data).contiguous
    with_part = container(cells + 1j)
    kept = settled_public_rows(with_part)
    kept = kept.toarray() if sparse.issparse(kept) else np.asarray(kept)
    np.testing.assert_array_equal(kept, cells + 1j)


@pytest.mark.parametrize("container", [np.asarray, pd.Series, lambda y: pd.DataFrame({"y": y})])
def test_public_targets_are_real_beside_a_complex_one(container):
    y = container(np.array([1, 0, 2], dtype=complex))
    real = settled_public_targets(y, False)
    assert np.asarray(real).dtype == np.float64
    np.testing.assert_array_equal(np.ravel(real), [1, 0, 2])


@pytest.mark.parametrize("wide", [np.longdouble, np.clongdouble])
def test_a_protected_long_double_gives_no_other_record_its_type(wide):
    """numpy gives it to a whole array."""
    for values in (np.array([1.0, 0.5, 2.0]), np.array([1, 0, 2])):
        for settle in (settled_public_rows, partial(settled_public_targets, labels=False)):
            assert settle(values.astype(wide)).dtype == np.float64
        usual = complex if wide is np.clongdouble else float
        labels, known = (settled_public_targets(values.astype(t), True) for t in (wide, usual))
        assert labels.dtype == known.dtype
        assert labels.tolist() == known.tolist()


@pytest.mark.parametrize("protect", ["all", Chunks(3)])
@pytest.mark.parametrize("name", ["X", "y"])
@pytest.mark.parametrize("kind", [None, "category"])
def test_complex_types_are_refused_where_no_row_is_public(kind, name, protect):
    rows = {"X": pd.DataFrame({"a": np.arange(60.0)}), "y": pd.Series(LABELS)}
    rows[name] = rows[name].astype(complex).astype(kind or complex)
    search = DPGridSearchCV(DecisionTreeClassifier(), {}, protect=protect)
    with pytest.raises(ValueError, match=f"Complex data not supported: {name} must be real"):
        search.fit(rows["X"], rows["y"])


class Unanswered(complex):
    """A complex number whose parts are errors."""

    @property
    def imag(self):
        raise ValueError("no part")


def test_a_complex_number_that_answers_nothing_spoils_its_own_record():
    y = np.array([1.0, Unanswered(2), 2 + 0j, 1j], dtype=object)
    np.testing.assert_array_equal(as_numbers(y, 1), [[1.0], [np.nan], [2.0], [np.nan]])


@pytest.mark.parametrize("container", [np.array, pd.Series])
@pytest.mark.parametrize("text", [0.0, "a text"])
@pytest.mark.parametrize("bad", [1j, Unanswered(2)])
def test_complex_targets_beside_a_text_are_bad_one_by_one(container, text, bad):
    """One complex number has made complex ones of all, and a text objects of these."""
    scores = []
    for dtype in (float, complex):
        y = container(np.zeros(60, dtype=dtype)).astype(object)
        y[7], y[8] = text, bad
        search = DPGridSearchCV(DummyRegressor(), {}, protect=Chunks(4), loss_bound=1.0)
        search.set_params(epsilon=1e6, score_fraction=0.5).fit(np.zeros((60, 1)), y)
        scores.append(search.best_score_)
    assert scores == pytest.approx([scores[0]] * 2, abs=1e-3)
    assert scores[0] > -0.6  # of four models two, at most, and two records


def day(X):
    """Day of each date of a frame."""
    return X.assign(a=X["a"].dt.day)


def days_losses(cell=None):
    """Losses of protected dates of which a model needs the type, one replaced by `cell`."""
    X, y = DAYS.to_frame("a"), (DAYS.dt.day > 15).to_numpy()
    model = make_pipeline(FunctionTransformer(day), DecisionTreeClassifier()).fit(X, y)
    X_val = X if cell is None else column_with(DAYS, 3, cell)
    rows = in_public_schema(X_val, y, X, y)
    scorer = resolve_scorer("accuracy", model, n_classes=2)
    return isolated_outcomes(model, scorer, rows.X, rows.y, rows.unreadable) / scorer.units


def test_one_text_among_dates_has_the_worst_loss_and_moves_no_other():
    assert not days_losses().any()
    assert np.flatnonzero(days_losses("a text")).tolist() == [3]


def test_dates_that_stay_objects_are_found(monkeypatch):
    # Planted bug: the type that the reader inferred from all protected cells is kept.
    put(monkeypatch, "public types: _cells_as", lambda column, *_: (column.to_numpy(), False))
    assert days_losses("a text").all()


def test_dates_of_another_unit_are_cast_and_one_out_of_reach_is_bad():
    public, far = DAYS.astype("datetime64[ns]").to_frame("a"), DAYS.astype("datetime64[s]")
    y = np.zeros(N)
    fine = in_public_schema(far.to_frame("a"), y, public, y)
    far[3] = pd.Timestamp("8237-01-01").as_unit("s")
    rows = in_public_schema(far.to_frame("a"), y, public, y)
    assert fine.X.dtypes.equals(public.dtypes)
    assert np.flatnonzero(rows.unreadable).tolist() == [3]
    assert rows.X.drop(3).equals(fine.X.drop(3))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("public", "protected", "bad"),
    [
        (DAYS.dt.tz_localize("UTC"), [DAYS[0], "a text"], [False, True]),
        (pd.Series(["a", "b"], dtype="category"), ["b", "new"], [False, False]),
        (pd.Series(["a", "b"], dtype="string"), ["b", None], [False, False]),
    ],
)
def test_cells_take_the_public_type(public, protected, bad):
    X_val = pd.Series(protected, dtype=object, index=[7, 8]).to_frame("a")
    y = np.zeros(len(public)), np.zeros(2)
    rows = in_public_schema(X_val, y[1], public.to_frame("a"), y[0])
    assert rows.X["a"].dtype == public.dtype
    assert rows.X.index.tolist() == [7, 8]
    assert rows.unreadable.tolist() == bad


def test_a_cell_beside_lists_of_arrow_is_bad_alone():
    arrow = pytest.importorskip("pyarrow")
    public = pd.Series([[1], [2]], dtype=pd.ArrowDtype(arrow.list_(arrow.int64()))).to_frame("a")
    X_val = pd.Series([[1], [2], "a text"], dtype=object).to_frame("a")
    rows = in_public_schema(X_val, np.zeros(3), public, np.zeros(2))
    assert rows.unreadable.tolist() == [False, False, True]


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["default split", "chunks"])
def test_rows_as_they_were_read_are_seen(mode, monkeypatch):
    # Planted bug: the types that the reader inferred are kept.
    for name in ("set-up: settled_public_rows", "protected rows: settled_rows"):
        put(monkeypatch, name, lambda rows: rows)
    X, cell = TABLES["integers-nan"]
    i = protected_positions(N, 0.2)[2]
    assert types_seen(mode, neighbour(X, i, cell), LABELS) != types_seen(mode, X, LABELS)


def test_a_protected_number_in_a_public_integer_column_is_no_error():
    X = pd.DataFrame({"a": np.arange(N), "b": np.arange(N) % 5})
    X.loc[protected_positions(N, 0.2)[2], "b"] = NAN
    search = DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2)
    with pytest.warns(PublicTrainingWarning):
        best = search.fit(X, LABELS).best_estimator_
    assert best.classes_.dtype == np.int64
    assert as_objects(X) is X


def nullable_labels(values, container):
    """As a reader of nullable types gives them."""
    fraction = any(value != int(value) for value in values)
    return container(pd.array(values, dtype="Float64" if fraction else "Int64"))


LABEL_CONTAINERS = {
    "array": lambda labels: labels,
    "series": pd.Series,
    "frame": lambda labels: pd.DataFrame({"y": labels}),
}


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize("container", LABEL_CONTAINERS)
def test_a_fraction_among_nullable_labels_does_not_show(container):
    labels, protected = (np.arange(N) % 2).tolist(), protected_positions(N, 0.2)[1]
    classes = []
    for label in (1, 0.5):
        labels[protected] = label
        y = nullable_labels(labels, LABEL_CONTAINERS[container])
        search = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2)
        classes.append(search.fit(np.arange(2.0 * N).reshape(N, 2), y).best_estimator_.classes_)
    assert {found.dtype for found in classes} == {np.dtype(int)}


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("container", LABEL_CONTAINERS)
def test_nullable_targets_become_plain(container, labels):
    types = set()
    for last in (3, 0.5, pd.NA):
        values = [0, 1, last]
        typed = "Float64" if isinstance(last, float) else "Int64"
        y = LABEL_CONTAINERS[container](pd.array(values, dtype=typed))
        types.add(np.asarray(settled_targets(y, labels)).dtype)
    assert types == {np.dtype("int64" if labels else "float64")}


def test_arrow_integers_are_settled():
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": pd.array([1, 2], dtype="int64[pyarrow]")})
    assert str(settled_rows(frame).dtypes["a"]) == "double[pyarrow]"


class Foreign:
    """A frame of another library, as polars."""

    columns, dtypes, shape = ["a"], ["Int64"], (N, 1)

    def __len__(self):
        return N

    def __getitem__(self, rows):
        raise AssertionError("read")


@pytest.mark.parametrize("name", ["X", "y", "X_val", "y_val"])
@pytest.mark.parametrize("protect", ["validation", "all", Chunks(3)])
def test_containers_that_type_themselves_are_refused(name, protect):
    given = {"X": np.zeros((N, 1)), "y": np.arange(N) % 2}
    given |= {f"{key}_val": rows for key, rows in given.items()} | {name: Foreign()}
    guide = {"guide": False} if isinstance(protect, Chunks) else {}
    estimator = DPSparseGPRegressor(RBF()) if protect == "all" else LogisticRegression()
    space = {"C": [0.1, 1.0]} if protect != "all" else {"epsilon": [1.0]}
    search = DPGridSearchCV(estimator, space, protect=protect, **guide)
    with pytest.raises(TypeError, match=f"^{name} is neither a numpy array"):
        search.fit(**given)


@pytest.mark.parametrize("huge", [2**53 + 1, -(2**63), 2**62 + 1])
@pytest.mark.parametrize("missing", [[], [None]])
def test_a_long_integer_of_arrow_ends_no_search_and_is_not_quoted(huge, missing):
    pytest.importorskip("pyarrow")
    column = pd.Series([1, 2, huge, *missing], dtype="int64[pyarrow]")
    settled = settled_rows(column.to_frame("a"))["a"]
    assert str(settled.dtype) == "double[pyarrow]"
    assert settled[:3].tolist() == [1.0, 2.0, float(huge)]
    assert settled[3:].isna().all()


def test_a_long_integer_of_arrow_is_read_in_chunks():
    pytest.importorskip("pyarrow")
    X = pd.DataFrame({"a": pd.Series([*range(39), 2**62 + 1], dtype="int64[pyarrow]")})
    search = DPGridSearchCV(DummyRegressor(), {"quantile": [0.1, 0.2]}, protect=Chunks(4))
    assert search.set_params(loss_bound=4.0).fit(X, np.zeros(40)).best_params_


FAR_DATES = [("date32", 2**31 - 1), ("timestamp[s]", 2**62), ("timestamp[s, tz=UTC]", 2**44)]


@pytest.mark.parametrize(("kind", "far"), FAR_DATES)
@pytest.mark.parametrize(
    "public", [["a", "b"], pd.to_datetime(["2020", "2021"]), [date(2020, 1, 1), 1]]
)
def test_a_date_beyond_those_of_python_ends_no_search(kind, far, public):
    pytest.importorskip("pyarrow")
    near, odd = (arrow_dates([1, 2, day], kind).to_frame("a") for day in (3, far))
    X_public = pd.DataFrame({"a": public})
    fitting, found = (in_public_schema(X, None, X_public, None) for X in (near, odd))
    pd.testing.assert_frame_equal(found.X[:2], fitting.X[:2])
    assert found.unreadable[:2].tolist() == fitting.unreadable[:2].tolist()


@pytest.mark.parametrize(("kind", "far"), FAR_DATES)
@pytest.mark.parametrize(
    "container", [pd.Series, pd.Index, lambda labels: labels.__arrow_array__()]
)
def test_a_group_named_by_a_date_beyond_those_of_python_is_one_of_its_own(kind, far, container):
    pytest.importorskip("pyarrow")
    labels = container(arrow_dates([1, far, 1, 2], kind).array)
    assert group_codes(labels, 4).tolist() == [0, 1, 0, 2]


def arrow_dates(values, kind):
    import pyarrow as pa

    zone = "UTC" if "tz" in kind else None
    of_kind = pa.date32() if kind == "date32" else pa.timestamp("s", zone)
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.array(values, type=of_kind)))
