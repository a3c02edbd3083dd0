import pickle
import tracemalloc
import warnings
from decimal import Decimal
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from _support.internals import (
    UserLoss,
    check_schema,
    in_public_schema,
    isolated_outcomes,
    protected_positions,
    resolve_scorer,
    settled_public_rows,
    without_long_integers,
)
from skdpbo import DPGridSearchCV
from skdpbo.model_selection import Chunks


@pytest.mark.parametrize(
    "public",
    [
        pd.Series(["a", "b"], dtype="string"),
        pd.Series(["a", "b"]).astype("str"),
        pd.Series(["a", "b"], dtype="category"),
        pd.Series(pd.to_datetime(["2020-01-01", "2021-01-01"])),
    ],
    ids=["string", "str", "category", "dates"],
)
@pytest.mark.parametrize("surrogate", [[], ["\ud800"]])
def test_equal_texts_are_read_once_and_each_as_it_is_alone(public, surrogate):
    cells = ["a", "b", "a", "c", "", "2020-01-01", "1", None, np.nan, 1, 1.5, [1], np.str_("a")]
    column = pd.Series([*cells, *surrogate, "a", "c", "2020-01-01"], dtype=object)
    together = in_public_schema(column.to_frame(), None, public.to_frame(), None)
    for i in range(len(column)):
        alone = in_public_schema(column[i : i + 1].to_frame(), None, public.to_frame(), None)
        assert alone.X.dtypes.tolist() == together.X.dtypes.tolist()
        assert repr(alone.X.iloc[0, 0]) == repr(together.X.iloc[i, 0])
        assert alone.unreadable[0] == together.unreadable[i]


@pytest.mark.parametrize("n", [2, 3, 10, 569, 10_000])
@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.5, 0.99])
def test_positions_are_distinct_sorted_and_leave_row_0_public(n, fraction):
    positions = protected_positions(n, fraction)
    assert len(positions) == min(max(1, round(fraction * n)), n - 1)
    assert np.all(np.diff(positions) > 0)
    assert positions[0] >= 1
    assert positions[-1] < n


def test_positions_are_fixed_for_good():
    # The split is public knowledge: a change would be a change of the guarantee's meaning.
    np.testing.assert_array_equal(protected_positions(10, 0.3), [3, 4, 9])


def test_positions_of_sorted_data_hit_every_class():
    y = np.repeat([0, 1, 2], 50)
    assert set(y[protected_positions(150, 0.2)]) == {0, 1, 2}


X_PUBLIC = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize("bad", ["x", None, [1.0], [1.0, 2.0, 3.0], ["a", 1.0], [object(), 1.0]])
@pytest.mark.parametrize("as_list", [True, False])
def test_a_bad_row_in_a_list_changes_only_itself(bad, as_list):
    public = X_PUBLIC.tolist() if as_list else X_PUBLIC
    rows = in_public_schema([[1.0, 2.0], bad, [3, 4]], None, public, None)
    np.testing.assert_array_equal(rows.unreadable, [False, True, False])
    np.testing.assert_array_equal(rows.X[[0, 2]], [[1.0, 2.0], [3.0, 4.0]])
    assert rows.X.dtype == float


def test_nan_in_a_row_is_left_to_the_model():
    rows = in_public_schema([[np.nan, 2.0], [1.0, 2.0]], None, X_PUBLIC, None)
    assert not rows.unreadable.any()


def test_text_in_a_numeric_column_marks_its_record():
    public = pd.DataFrame({"age": [1.0, 2.0], "job": ["a", "b"]})
    private = pd.DataFrame({"age": [30, "unknown", 50], "job": ["a", "zzz", "b"]})
    rows = in_public_schema(private, None, public, None)
    np.testing.assert_array_equal(rows.unreadable, [False, True, False])
    assert rows.X["age"].dtype == float
    assert rows.X["age"].tolist() == [30.0, 0.0, 50.0]
    assert list(private["age"]) == [30, "unknown", 50]


SERIES = ["object", "category", "string", "str"]


@pytest.mark.parametrize("dtype", SERIES)
def test_a_series_of_texts_is_a_column_of_a_frame(dtype):
    public = pd.Series(["one", "two", "one"], dtype=dtype, name="text")
    private = pd.Series(["two", None, "three"], index=[7, 8, 9], dtype=dtype, name="text")
    rows = in_public_schema(private, None, public, None)
    of_frame = in_public_schema(private.to_frame(), None, public.to_frame(), None)
    pd.testing.assert_series_equal(rows.X, of_frame.X["text"])
    assert not rows.unreadable.any()


@pytest.mark.parametrize("container", [list, tuple, np.array, pd.Series])
@pytest.mark.parametrize("public", [list, tuple, np.array, pd.Series, pd.Index])
def test_texts_stay_texts_in_any_pair_of_containers(public, container):
    rows = in_public_schema(container(["two", "three"]), None, public(["one", "two"]), None)
    assert list(rows.X) == ["two", "three"]
    assert not rows.unreadable.any()


@pytest.mark.parametrize("dtype", SERIES)
def test_categories_of_protected_texts_alone_do_not_stay_in_a_public_series(dtype):
    public = settled_public_rows(pd.Series(["one", "two", "secret"], dtype=dtype)[:2])
    assert b"secret" not in pickle.dumps(public.dtype)
    assert public.tolist() == ["one", "two"]
    assert public.name is None


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("protect", ["validation", Chunks(n_chunks=4)])
@pytest.mark.parametrize("dtype", SERIES)
def test_a_search_takes_a_series_of_texts(dtype, protect):
    texts = pd.Series(np.resize(["good word", "bad thing"], 80), dtype=dtype)
    model = make_pipeline(CountVectorizer(), LogisticRegression())
    search = DPGridSearchCV(model, {"logisticregression__C": [1.0]}, epsilon=50, protect=protect)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.set_params(score_fraction=0.5).fit(texts, np.resize([1, 0], 80))
    assert search.best_score_ > 0.8


def test_texts_and_sparse_rows_pass_unchanged():
    texts = ["one", "two"]
    assert in_public_schema(texts, None, ["three"], None).X is texts
    X = sparse.coo_array(np.eye(2))
    assert in_public_schema(X, None, sparse.csr_array(X_PUBLIC), None).X.format == "csr"


def stored(X, how):
    """Return sparse rows of which the second alone is stored in a way of its own."""
    rows = [sparse.csr_array(row[None]) for row in X]
    if how == "long indices":
        rows[1].indices, rows[1].indptr = np.arange(2, dtype=np.int64), np.array([0, 2])
    elif how == "repeated":
        rows[1] = sparse.csr_array(([1.0, 1.0, 3.0], [0, 0, 1], [0, 3]), shape=(1, 2))
    elif how == "unsorted":
        rows[1] = sparse.csr_array(([3.0, 2.0], [1, 0], [0, 2]), shape=(1, 2))
    return sparse.vstack(rows, format="csr")


SPARSE = ["long indices", "repeated", "unsorted"]


@pytest.mark.parametrize("how", SPARSE)
@pytest.mark.parametrize("read", ["as public rows", "settled"])
def test_how_one_sparse_record_is_stored_does_not_show(how, read):
    X = stored(np.arange(1.0, 7.0).reshape(3, 2) - [[1, 1], [1, 1], [0, 0]], how)
    if read == "settled":
        X = settled_public_rows(X)
    else:
        X = in_public_schema(X, None, sparse.csr_array(X_PUBLIC), None).X
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert X.has_canonical_format
    np.testing.assert_array_equal(X.toarray(), [[0, 1], [2, 3], [5, 6]])


def test_one_sparse_record_with_long_indices_fails_no_other():
    # Support vector machines refuse such indices.
    X, y = np.random.RandomState(0).rand(60, 2), np.tile([0, 1], 30)
    X[:, 0] += y
    search = DPGridSearchCV(SVC(), {"C": [1.0, 2.0]}, epsilon=1e6, protect=Chunks(2))
    assert search.fit(stored(X, "long indices"), y).best_score_ > 0.9


@pytest.mark.parametrize(
    ("public", "odd"),
    [
        (np.arange(3), np.array([0, 2**63, 2], dtype=np.uint64)),
        (np.arange(3.0), np.array([0, np.longdouble(1) / 3, 2])),
        (np.array([False, True, True]), np.array([False, b"other", True])),
    ],
    ids=["unsigned", "long", "bytes"],
)
def test_a_type_that_one_target_has_given_to_all_does_not_show(public, odd):
    usual, rows = (in_public_schema(X_PUBLIC, y, X_PUBLIC, public) for y in (public, odd))
    for i in (0, 2):
        seen = [np.array([rows.y[i]]) for rows in (usual, rows)]
        assert seen[0].dtype == seen[1].dtype
        assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("X_val", "y_val", "y", "match"),
    [
        (np.ones((2, 3)), [0, 1], [0, 1, 1], "X_val must have as many columns"),
        (np.ones((0, 2)), [], [0, 1, 1], "X_val must hold at least one"),
        (np.ones((2, 2)), [0], [0, 1, 1], "same number of rows"),
        (np.ones((2, 2)), None, [0, 1, 1], "y_val"),
        (np.ones((2, 2)), [0, 1], None, "y_val"),
        (np.ones((2, 2)), np.ones((2, 2)), np.ones(3), "y_val must have as many outputs"),
        (np.ones((2, 2)), np.array([0, 1]), np.array(["a", "b", "a"]), "type of y, got numbers"),
    ],
)
def test_schema_errors_name_the_parameter(X_val, y_val, y, match):
    with pytest.raises(ValueError, match=match):
        check_schema(X_val, y_val, X_PUBLIC, y)


def test_other_column_names_are_refused():
    public = pd.DataFrame({"a": [1.0], "b": [2.0]})
    with pytest.raises(ValueError, match=r"X_val must have the columns of X.* order\.$"):
        check_schema(public[["b", "a"]], None, public, None)
    with pytest.raises(ValueError, match=r"order; X alone has a; X_val alone has c, d\.$"):
        check_schema(public[["b"]].assign(c=1, d=2), None, public, None)
    with pytest.raises(ValueError, match="X_val must be a data frame"):
        check_schema(public.to_numpy(), None, public, None)


def test_texts_of_digits_stay_texts():
    # Read as numbers, they would be unknown to an encoder that was trained on texts.
    public, private = (np.array([["0", "1"]] * 3, dtype=object) for _ in range(2))
    rows = in_public_schema(private, None, public, None)
    assert rows.X is private
    assert not rows.unreadable.any()
    numbers = np.array([[1, None], [2.5, True]], dtype=object)
    assert in_public_schema(private, None, numbers, None).X.dtype == float


class TestTypesOfPublicValues:
    def test_one_missing_value_leaves_the_integers_of_the_others(self):
        public = pd.DataFrame({"zip": [94110, 10001], "n": pd.array([1, None], dtype="Int64")})
        whole = pd.DataFrame({"zip": [94110, 60601, 7], "n": pd.array([1, 2, 3], dtype="Int64")})
        for value in (np.nan, 0.5, np.inf, "x"):
            broken = whole.astype({"zip": object if value == "x" else float, "n": float})
            broken.isetitem(0, broken["zip"].where(np.arange(3) != 1, value))
            usual, rows = (in_public_schema(X, None, public, None) for X in (whole, broken))
            assert rows.X.dtypes.tolist() == usual.X.dtypes.tolist() == public.dtypes.tolist()
            assert rows.unreadable.tolist() == [False, True, False]
            assert rows.X.iloc[[0, 2]].equals(usual.X.iloc[[0, 2]])
            assert rows.X.astype(str).iloc[0].tolist() == ["94110", "1"]

    @pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, bool])
    def test_arrays_have_the_public_type(self, dtype):
        public = np.ones((3, 2), dtype=dtype)
        for bad in (np.nan, 0.5, np.inf, 1e300):
            private = np.array([[1.0, 0.0], [bad, 1.0], [0.0, 1.0]])
            rows = in_public_schema(private, None, public, None)
            assert rows.X.dtype == dtype
            assert rows.unreadable.tolist() == [False, True, False]
            assert rows.X[[0, 2]].tolist() == [[1, 0], [0, 1]]

    def test_public_floats_take_every_number(self):
        rows = in_public_schema(np.ones((2, 2), dtype=int), None, X_PUBLIC, None)
        assert rows.X.dtype == float
        assert not rows.unreadable.any()
        frame = pd.DataFrame({"a": [0.5, 1.0]})
        rows = in_public_schema(pd.DataFrame({"a": [1, 2]}), None, frame, None)
        assert rows.X["a"].dtype == float
        assert not rows.unreadable.any()

    def test_the_longest_text_does_not_show(self):
        public = np.array([["red", "x"]] * 3)
        for text in ("blue", "chartreuse-yellow"):
            private = np.array([["red", "x"], [text, "x"]])
            rows = in_public_schema(private, None, public, None)
            assert rows.X.dtype == object
            assert rows.X.tolist() == private.tolist()

    @pytest.mark.parametrize(
        ("X", "X_val"),
        [
            (pd.DataFrame({"zip": ["1", "2"]}), pd.DataFrame({"zip": [1, 2]})),
            (pd.DataFrame({"zip": ["1", "2"]}, dtype=object), pd.DataFrame({"zip": [1.0, 2.0]})),
            (pd.DataFrame({"zip": ["1", "2"]}, dtype="category"), pd.DataFrame({"zip": [1, 2]})),
            (
                pd.DataFrame({"zip": ["1", "2"]}, dtype="category"),
                pd.DataFrame({"zip": [1, 2]}, dtype="category"),
            ),
            (np.array([["1"], ["2"]], dtype=object), np.array([[1], [2]])),
            (np.array([["1"], ["2"]]), np.array([[1.0], [2.0]])),
            ([["1"], ["2"]], np.array([[1.0], [2.0]])),
        ],
        ids=["frame", "objects", "categories", "both", "array of objects", "array", "list"],
    )
    def test_types_that_cannot_match_are_refused(self, X, X_val):
        with pytest.raises(ValueError, match="no value could match"):
            check_schema(X_val, None, X, None)

    def test_of_targets_too(self):
        X = np.zeros((2, 1))
        texts, objects = np.array(["a", "b"]), np.array(["a", "b"], dtype=object)
        for y in (texts, objects, pd.Series(texts), pd.Series(texts, dtype="category"), ["a", "b"]):
            with pytest.raises(ValueError, match="must have the type of y"):
                check_schema(X, np.array([0, 1]), X, y)
            check_schema(X, objects, X, y)
        # Protected texts are not looked at, nor is a type that one of them gives to all.
        for y_val in (objects, texts):
            check_schema(X, y_val, X, np.array([0, 1]))
        with pytest.raises(ValueError, match="type of y, got texts and numbers"):
            check_schema(X, texts, X, np.array([0, 1]), public=False)


def test_a_cast_to_the_public_type_says_nothing():
    huge = np.longdouble("1e4000")
    if not np.isfinite(huge):
        pytest.skip("long doubles are doubles here")
    public, wide = pd.DataFrame({"a": [0.5, 1.0]}), pd.DataFrame({"a": [huge, huge / huge]})
    with np.errstate(all="raise"):
        rows = in_public_schema(wide, None, public, None)
    assert rows.X["a"].tolist() == [np.inf, 1.0]


@pytest.mark.parametrize(
    "public",
    [pd.Series(pd.interval_range(0, 3)), pd.Series(pd.arrays.SparseArray([0, 1, 2]))],
    ids=["intervals of integers", "sparse integers"],
)
@pytest.mark.parametrize("odd", [np.nan, "text", 1e300])
def test_a_type_without_missing_values_takes_an_odd_cell(public, odd):
    odd_column = pd.Series([public[1], odd, public[2]], dtype=object).infer_objects()
    rows = in_public_schema(
        pd.DataFrame({"a": odd_column}), None, pd.DataFrame({"a": public}), None
    )
    assert rows.X["a"].dtype == public.dtype
    assert rows.X["a"].iloc[[0, 2]].tolist() == [public[1], public[2]]
    assert rows.unreadable.tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", ["int64", "float64", "Int64"])
def test_one_complex_cell_marks_its_record_alone(dtype):
    public = pd.DataFrame({"a": pd.Series([0, 1, 2], dtype=dtype)})
    rows = in_public_schema(pd.DataFrame({"a": [1, 1j, 2]}), None, public, None)
    assert rows.X["a"].iloc[[0, 2]].tolist() == [1, 2]
    assert rows.unreadable.tolist() == [False, True, False]


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.coo_array])
def test_one_complex_number_of_an_array_marks_its_record_alone(container):
    X_val = container(np.array([[1, 0], [1j, 4], [2, 3]]))
    rows = in_public_schema(X_val, None, np.zeros((3, 2)), None)
    assert rows.unreadable.tolist() == [False, True, False]
    values = rows.X.toarray() if sparse.issparse(rows.X) else rows.X
    assert values.dtype == np.float64
    assert values[[0, 2]].tolist() == [[1, 0], [2, 3]]


@pytest.mark.parametrize("container", [np.asarray, pd.Series, lambda y: pd.DataFrame({"a": y})])
def test_one_complex_target_is_the_one_without_a_loss(container):
    y_val = container(np.array([1, 1j, 2]))
    rows = in_public_schema(np.zeros((3, 1)), y_val, np.zeros((3, 1)), container(np.zeros(3)))
    np.testing.assert_array_equal(np.ravel(rows.y), [1, np.nan, 2])


@pytest.mark.parametrize(
    "targets",
    [
        lambda odd: [*np.array([1, odd, 2])],
        lambda odd: pd.Series([1, odd, 2]),
        lambda odd: pd.Series([1, odd, 2], dtype="category"),
        lambda odd: sparse.csr_array(np.array([[1, 1], [odd, 1], [2, 2]])),
        lambda odd: np.array([1, odd, 2]),
    ],
    ids=["list of scalars", "series", "categories", "sparse", "array"],
)
def test_one_target_gives_its_type_to_no_other(targets):
    y = sparse.csr_array(np.eye(3, 2, dtype=int)) if sparse.issparse(targets(0)) else np.arange(3)
    found = []
    for odd in (0, np.nan, 0.5, 1j):
        rows = in_public_schema(np.zeros((3, 1)), targets(odd), np.zeros((3, 1)), y)
        shown = []
        UserLoss(lambda y_true, _, shown=shown: shown.append(y_true)).isolated(rows.y, np.zeros(3))
        found.append(shown[::2])
    for others in found[1:]:
        for usual, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(usual, other)
            assert usual.dtype.kind == other.dtype.kind == "i"


def nullable(frame):
    """Convert to nullable types; complex numbers have none, of which pandas before 2.2 warns."""
    return frame.apply(
        lambda column: column if column.dtype == complex else column.convert_dtypes()
    )


DAYS = pd.Series(pd.date_range("2020-01-01", periods=4))
BY_KIND = {
    "numbers": pd.Series([0.5, 1.5, 2.5, 3.5]),
    "dates": DAYS,
    "durations": DAYS - DAYS[0],
    "periods": DAYS.dt.to_period("D"),
    "intervals": pd.Series(pd.interval_range(0, 4)),
}
READABLE = {("dates", "numbers"), ("durations", "numbers"), ("periods", "dates")}


@pytest.mark.parametrize("kinds", [*product(BY_KIND, BY_KIND)], ids=" ".join)
@pytest.mark.parametrize("as_category", [False, True])
def test_types_of_which_no_value_can_be_read_are_refused(kinds, as_category):
    public, protected = (BY_KIND[kind] for kind in kinds)
    if as_category:
        protected = protected.astype("category")
    tables = protected.to_frame("when"), None, public.to_frame("when"), None
    zeros = np.zeros((4, 1))
    if kinds[0] == kinds[1] or kinds in READABLE:
        check_schema(*tables)
        assert not in_public_schema(*tables).unreadable.any()
    else:
        assert in_public_schema(*tables).unreadable.all()  # at the cost of a fit
        with pytest.raises(ValueError, match="column 'when' of X_val has the type of"):
            check_schema(*tables)
        with pytest.raises(ValueError, match="y_val must have the type of y"):
            check_schema(zeros, protected, zeros, public)


INTEGERS = np.array([[3, 4], [5, 6], [7, 8]])
TABLES = {
    "array": np.asarray,
    "frame": lambda X: pd.DataFrame(X).infer_objects(),
    "nullable frame": lambda X: nullable(pd.DataFrame(X)),
    "sparse": sparse.csr_array,
    "list": lambda X: [*X],
    "list of lists": lambda X: X.tolist(),
}


@pytest.mark.quick_cases(72)
@pytest.mark.parametrize("container", sorted(TABLES))
@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.float32, bool])
@pytest.mark.parametrize("public", [np.asarray, sparse.csr_array, lambda X: X.tolist()])
@pytest.mark.parametrize("odd", [np.nan, 0.5, 1j, "text"])
def test_one_cell_gives_its_type_to_no_other_in_any_pair_of_containers(
    public, container, dtype, odd
):
    if container == "sparse" and odd == "text":
        pytest.skip("holds no texts")
    changed = INTEGERS.astype(object if odd == "text" else np.result_type(type(odd), int))
    changed[1, 0] = odd
    X = public(np.array([[1, 0], [0, 1]]).astype(dtype))
    usual, rows = (
        in_public_schema(TABLES[container](v), None, X, None) for v in (INTEGERS, changed)
    )
    assert rows.X.dtype == usual.X.dtype
    assert rows.X.dtype == dtype or isinstance(X, list)
    assert sparse.issparse(rows.X) == (container == "sparse")
    others = (
        [r.toarray() if sparse.issparse(r) else r for r in v.X[[0, 2]]] for v in (usual, rows)
    )
    np.testing.assert_array_equal(*map(list, others))
    np.testing.assert_array_equal(rows.unreadable[[0, 2]], usual.unreadable[[0, 2]])
    assert rows.unreadable[1] or (dtype in (np.float64, np.float32) and odd in (0.5, np.nan))


@pytest.mark.parametrize("kind", ["M", "m"])
def test_one_date_gives_its_unit_to_no_other(kind):
    X = np.array([[18262], [18293]]).astype(f"{kind}8[D]")
    usual = X.copy()
    changed = X.astype(f"{kind}8[h]")
    changed[1] += np.timedelta64(1, "h")
    rows = in_public_schema(changed, None, X, None)
    assert rows.X.dtype == usual.dtype
    assert rows.X[0] == usual[0]
    assert rows.unreadable.tolist() == [False, True]
    objects = changed.astype(object)
    objects[1] = "text"
    rows = in_public_schema(objects, None, X, None)
    assert rows.X.dtype == usual.dtype
    assert rows.X[0] == usual[0]
    assert rows.unreadable.tolist() == [False, True]


def test_a_missing_nullable_cell_beside_a_text_stays_missing():
    public = pd.DataFrame({"a": pd.array([1, None], dtype="Int64")})
    for odd in ("4", "text"):
        texts = pd.DataFrame({"a": pd.array(["1", odd, None], dtype="string")})
        rows = in_public_schema(texts, None, public, None)
        assert rows.X["a"].isna().tolist() == [False, False, True]
        assert rows.unreadable.tolist() == [False, odd == "text", False]


class TestTextsOfOtherCells:
    """One protected text makes a reader give all cells of its column as texts."""

    @pytest.mark.parametrize("dtype", ["bool", "boolean", "object"])
    @pytest.mark.parametrize("words", [("True", "False"), ("true", "false"), ("TRUE", "FALSE")])
    def test_truth_values(self, dtype, words):
        missing = [None] * (dtype != "bool")
        public = pd.DataFrame({"a": pd.Series([True, False, *missing], dtype=dtype)})
        texts = pd.DataFrame({"a": [words[0], "maybe", words[1]]})
        rows = in_public_schema(texts, None, public, None)
        assert rows.X["a"].dtype == public["a"].dtype
        assert rows.X["a"].iloc[[0, 2]].tolist() == [True, False]
        assert rows.unreadable.tolist() == [False, dtype != "object", False]

    @pytest.mark.parametrize("dtype", [bool, float])
    @pytest.mark.parametrize("kind", ["U5", object])
    def test_truth_values_of_an_array(self, dtype, kind):
        texts = np.array([["True", "0.5"], ["maybe", "1"], ["False", "1"]]).astype(kind)
        rows = in_public_schema(texts, None, np.ones((2, 2), dtype=dtype), None)
        assert rows.X.dtype == dtype
        assert rows.X[2].tolist() == [0, 1]
        assert rows.unreadable.tolist() == [dtype is bool, True, False]

    def test_truth_values_that_are_texts_in_public_stay_texts(self):
        public = pd.DataFrame({"a": pd.Series(["True", True, "x"], dtype=object)})
        rows = in_public_schema(public, None, public, None)
        assert rows.X["a"].tolist() == ["True", True, "x"]

    @pytest.mark.parametrize("public", [[1, 2, 3], [0.5, 2.0, 3.0], [True, False, True], [3, 1, 2]])
    @pytest.mark.parametrize("as_categories", [True, False])
    def test_categories_that_are_numbers(self, public, as_categories):
        public = pd.Series(public).astype("category")
        for odd in ("unknown", None, 0.25, 1j):
            cells = [public[0], odd, public[1]]
            texts = pd.Series(list(map(str, cells)) if odd == "unknown" else cells, dtype=object)
            texts = texts.astype("category") if as_categories else texts
            rows = in_public_schema(texts.to_frame("a"), None, public.to_frame("a"), None)
            assert rows.X["a"].dtype == public.dtype
            assert rows.X["a"].tolist()[::2] == [public[0], public[1]]
            assert rows.X["a"].isna().tolist() == [False, True, False]
            assert not rows.unreadable.any()


LONG = [2**60 + 1, 2**60 + 3, 5]
BOTH_KINDS = pytest.mark.parametrize("frame", [True, False])


class TestIntegersThatFloatsRound:
    @staticmethod
    def rows(X_val, X, frame):
        X, X_val = (pd.DataFrame({"a": column}) for column in (X, X_val))
        X, X_val = (X, X_val) if frame else (X.to_numpy(), X_val.to_numpy())
        rows = in_public_schema(X_val, None, without_long_integers(X), None)
        return np.asarray(rows.X)[[0, 2], 0], rows.unreadable.tolist()

    @BOTH_KINDS
    @pytest.mark.parametrize("odd", [None, 0.5])
    @pytest.mark.parametrize("public", [LONG, [1, 2, 3], [0.5, 1.5, 2.5]])
    def test_one_cell_that_makes_them_floats_changes_no_other(self, public, odd, frame):
        (usual, fine), (other, bad) = (
            self.rows([LONG[0], cell, 7], public, frame) for cell in (4, odd)
        )
        assert usual.dtype == other.dtype
        assert fine == [public == [1, 2, 3], False, False]
        assert bad == [fine[0], fine[0], False]
        assert usual.tolist()[fine[0] :] == other.tolist()[fine[0] :]

    @pytest.mark.parametrize("dtype", ["int64", "Int64", "uint64", "float64"])
    def test_public_types_stay_without_them(self, dtype):
        short = pd.DataFrame({"a": pd.Series([1, 2**53 - 1], dtype=dtype), "b": ["x", "y"]})
        assert without_long_integers(short) is short
        array = short["a"].to_numpy()
        assert without_long_integers(array) is array
        assert without_long_integers(short["a"]).dtype == dtype

    @pytest.mark.parametrize(("lowest", "kept"), [(1 - 2**53, True), (-(2**53), False)])
    def test_negative_ones_are_long_from_the_same_size_on(self, lowest, kept):
        table = pd.DataFrame({"a": [lowest, 1]})
        assert (without_long_integers(table) is table) == kept

    def test_categories_are_missing_in_both_readings(self):
        public = pd.Series(LONG).astype("category").to_frame("a")
        for cell in (5, None):
            X_val = pd.Series([LONG[0], cell, 5]).astype("category").to_frame("a")
            rows = in_public_schema(X_val, None, public, None)
            assert rows.X["a"].isna().tolist() == [True, cell is None, False]

    @pytest.mark.filterwarnings("ignore")
    def test_a_search_is_given_floats(self):
        X, y = np.resize([[2**60], [2**61]], (40, 1)), np.resize([0, 1], 40)
        search = DPGridSearchCV(DecisionTreeClassifier(), {}, cv=2, epsilon=50)
        search.set_params(score_fraction=0.5).fit(X, y, X_val=X, y_val=y)
        assert search.best_score_ > 0.8  # read as integers, no record could be


CONTAINERS = {
    "array": np.array,
    "series": pd.Series,
    "nullable": lambda y: pd.Series(y).convert_dtypes(),
    "frame": lambda y: pd.DataFrame({"a": y, "b": y}),
    "list": list,
}


ONE_OUTPUT = ["array", "series", "nullable"]
PAIRS = [*product([*ONE_OUTPUT, "list"], ONE_OUTPUT), ("frame", "frame")]


@pytest.mark.parametrize(("public", "container"), PAIRS)
@pytest.mark.parametrize("labels", [[0, 1, 2], [0.5, 1.5, 2.5], [True, False, True]])
@pytest.mark.parametrize("objects", [True, False])
def test_beside_one_text_targets_are_numbers_of_the_public_kind(public, container, labels, objects):
    y = CONTAINERS[public](labels)
    texts = CONTAINERS[container]([str(labels[0]), "unknown", str(labels[2])])
    texts = texts.astype(object) if objects else texts
    rows = in_public_schema(np.zeros((3, 1)), texts, np.zeros((3, 1)), y)
    for column in rows.y.astype(object).reshape(3, -1).T:
        np.testing.assert_array_equal(column.astype(float), [labels[0], np.nan, labels[2]])
        assert [*map(type, column)] == [type(labels[0]), float, type(labels[0])]
    assert not rows.unreadable.any()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
@pytest.mark.parametrize("dtype", [int, bool])
def test_losses_beside_one_text_among_labels_are_those_beside_a_missing_one(scoring, dtype):
    X = np.arange(20.0)[:, None]
    y = (X[:, 0] > 9).astype(dtype)
    model = LogisticRegression().fit(X, y)
    scorer = resolve_scorer(scoring, model, n_classes=2)
    losses = []
    for odd in ("unknown", np.nan):
        y_val = np.array([odd, *y.tolist()[1:]])
        rows = in_public_schema(X, y_val, X, y)
        losses.append(isolated_outcomes(model, scorer, rows.X, rows.y, rows.unreadable))
    np.testing.assert_array_equal(*losses)
    if scoring == "accuracy":
        assert np.flatnonzero(losses[0]).tolist() == [0]


def test_rows_of_several_targets_are_read_one_by_one():
    X, public = np.zeros((2, 1)), np.array([[1.0, 2.0]] * 2)
    y = in_public_schema(X, [[1, 2.0], ["x", 3.0]], X, public).y
    np.testing.assert_array_equal(y, [[1.0, 2.0], [np.nan, 3.0]])
    truth = pd.DataFrame({"a": [True, False], "b": [1, 2]})  # read as integers
    y = in_public_schema(X, [[True, 2], [0.0, 3]], X, truth).y
    assert [[type(cell) for cell in row] for row in y] == [[int, int]] * 2


def test_targets_that_are_numbers_or_beside_texts_stay():
    X = np.zeros((2, 1))
    texts = np.array(["1", "2"])
    assert in_public_schema(X, texts, X, np.array(["1", "2"])).y is texts
    y_val = pd.Series([1, 2], dtype="Int64")
    assert in_public_schema(X, y_val, X, np.array([1, 2])).y is y_val


class Untouchable:
    """A cell of which no method can be called."""

    def fail(self, *args, **kwargs):
        print("secret")
        raise SystemExit("secret")

    __array__ = __bool__ = __eq__ = __float__ = __hash__ = __len__ = __str__ = __repr__ = fail


ODD = {
    "signalling": Decimal("sNaN"),
    "tuple": (1, 2),
    "list": [1],
    "empty": [],
    "range": range(3),
    "vector": np.array([1, 2]),
    "table": np.array([[1, 2]]),
    "frame": pd.DataFrame({"a": [1]}),
    "untouchable": Untouchable(),
    "interval": pd.Interval(0.0, 0.5),
    "missing": None,
}
OF_ONE_TYPE = {
    "complex": [1j, 2, 3j],
    "integers": [1, 2, 3],
    "dates": pd.date_range("2020", periods=3),
    "durations": pd.to_timedelta([1, 2, 3], unit="D"),
    "intervals": pd.interval_range(0, 3),
    "days": pd.Series(pd.date_range("2020", periods=3)).dt.date,
    "truth": pd.Series([True, False, None], dtype=object),
    "texts": ["a", "b", "c"],
    "categories": pd.Categorical(["a", 1, 0.5]),
    "categories of intervals": pd.Categorical(pd.interval_range(0, 3)),
}


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of pandas 2.1
@pytest.mark.parametrize("public", OF_ONE_TYPE)
def test_no_odd_cell_is_an_error_or_changes_another(public):
    X = without_long_integers(pd.DataFrame({"a": OF_ONE_TYPE[public]}))
    others = []
    for odd in ODD.values():
        column = np.empty(3, dtype=object)
        column[:] = X["a"].iloc[0], None, X["a"].iloc[2]
        column[1] = odd
        rows = in_public_schema(pd.DataFrame({"a": column}), None, X, None)
        others.append((rows.X.iloc[[0, 2]], rows.unreadable[[0, 2]].tolist()))
    for other, unreadable in others:
        pd.testing.assert_frame_equal(other, others[0][0])
        assert unreadable == [False, False]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of pandas 2.1
def test_a_number_that_makes_pandas_raise_moves_no_other():
    private = pd.DataFrame({"a": pd.Series([Decimal("sNaN"), 2.0, None], dtype=object)})
    rows = in_public_schema(private, None, pd.DataFrame({"a": [1.0, 2.0]}), None)
    assert (rows.X["a"].isna() | rows.unreadable).tolist() == [True, False, True]
    assert rows.X["a"][1] == 2.0


@pytest.mark.parametrize("container", [pd.Series, np.asarray, lambda y: np.c_[y, y], list])
@pytest.mark.parametrize("public", [[0.0, 1.0, 2.0], [0, 1, 2]])
@pytest.mark.parametrize("odd", ODD)
def test_no_odd_target_is_an_error_or_changes_another(container, public, odd):
    cells = np.empty(3, dtype=object)
    cells[:] = public[0], None, public[2]
    cells[1] = ODD[odd]
    X, y_val = np.zeros((3, 1)), container(cells)
    rows = in_public_schema(X, y_val, X, np.resize(public, np.shape(container(public))))
    others = [record for i, record in enumerate(rows.y) if i != 1]
    for column in np.array(others, dtype=object).reshape(2, -1).T.tolist():
        assert column == [public[0], public[2]]
        assert all(isinstance(number, type(public[0])) for number in column)


@pytest.mark.parametrize("odd", [1.5, None])
def test_protected_categories_are_read_in_a_public_type_of_another_kind(odd):
    public = pd.DataFrame({"a": pd.interval_range(0, 3)})
    cells = [public["a"][0], odd, public["a"][2]]
    private = pd.DataFrame({"a": pd.Categorical(pd.Series(cells, dtype=object))})
    rows = in_public_schema(private, None, public, None)
    assert rows.X["a"].dtype == public["a"].dtype
    assert rows.X["a"].iloc[[0, 2]].tolist() == cells[::2]
    assert rows.unreadable.tolist() == [False, True, False]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("protect", ["validation", Chunks(2)])
def test_reading_a_cell_prints_nothing(protect, capsys):
    X = np.arange(40.0)[:, None].astype(object)
    X[protected_positions(40, 0.2)[0], 0] = Untouchable()
    search = DPGridSearchCV(LogisticRegression(), {}, protect=protect, score_fraction=0.0)
    search.fit(X, np.resize([0, 1], 40))
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_distances_to_many_training_rows_take_little_memory():
    X = np.random.RandomState(0).normal(size=(20_000, 2))
    y = (X[:, 0] > 0).astype(int)
    model = KNeighborsClassifier(algorithm="brute").fit(X, y)
    scorer = resolve_scorer("accuracy", model, n_classes=2)
    tracemalloc.start()
    losses = isolated_outcomes(model, scorer, X[:2000], y[:2000])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert losses.mean() < 0.02 * scorer.units
    assert peak < 250e6  # all distances at once are 320 MB, and their order as much again
