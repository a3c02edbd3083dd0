"""Private encoder: released names, the threshold, audits and scikit-learn's checks."""

import math
import tracemalloc
import warnings
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from _support.hostile import TEXT, Hostile, Unseen
from _support.internals import (
    category_counts,
    category_key,
    category_threshold,
    counts_sensitivity,
    key_positions,
    representatives,
)
from _support.sklearn_checks import failed_checks
from _support.transcripts import spent
from skdpbo import DPGridSearchCV
from skdpbo.exceptions import HiddenColumnsWarning, SeededNoiseWarning
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.preprocessing import DPOneHotEncoder
from skdpbo.privacy import PrivacyLedger, compose

COLUMNS = import_module("skdpbo.preprocessing._category_columns")
ENCODER = import_module("skdpbo.preprocessing._one_hot_encoder")
GUARANTEE = DPOneHotEncoder().privacy_guarantee()


def frame(n=2000):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "town": rng.choice(["Rome", "Oslo", None], n, p=[0.5, 0.3, 0.2]),
            "rooms": rng.choice([1, 2, 9], n, p=[0.6, 0.399, 0.001]),
        }
    )


def fitted(X, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return DPOneHotEncoder(**({"random_state": 0} | parameters)).fit(X)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("sparse", [False, True])
def test_check_estimator_has_no_failure_at_its_defaults(sparse):
    assert failed_checks(DPOneHotEncoder(sparse_output=sparse)) == {}


@pytest.mark.parametrize(
    ("rows", "size", "expected"),
    [("aba", 3, "a"), ("baa", 3, "a"), ("abc", 3, "c"), ("cba", 3, "c"), ("abcbac", 6, "c")],
)
def test_a_group_counts_once_with_its_most_frequent_category(rows, size, expected):
    """Among equally frequent ones with the last in order, wherever its rows stand."""
    groups = np.repeat(np.arange(400), size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        encoder = DPOneHotEncoder(random_state=0)
        encoder.fit(np.tile(list(rows), 400)[:, None], groups=groups)
    assert [category for category in encoder.categories_[0] if category] == [expected]


def test_frequent_categories_are_released_and_rare_ones_share_an_indicator():
    X = frame()
    encoder = fitted(X)
    assert [c.tolist()[-2:] for c in encoder.categories_] == [["Oslo", "Rome"], [1, 2]]
    assert np.isnan(encoder.categories_[0][0])
    assert encoder.get_feature_names_out().tolist() == [
        *("town_nan", "town_Oslo", "town_Rome", "town_infrequent_sklearn"),
        *("rooms_1", "rooms_2", "rooms_infrequent_sklearn"),
    ]
    out = encoder.transform(
        pd.DataFrame({"town": ["Rome", np.nan, "Bonn"], "rooms": [2.0, 9.0, np.nan]})
    )
    np.testing.assert_array_equal(
        out, [[0, 0, 1, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0, 1]]
    )
    sparse = fitted(X, sparse_output=True).transform(X)
    np.testing.assert_array_equal(sparse.toarray(), encoder.transform(X))


@pytest.mark.parametrize("sparse", [False, True])
def test_inverse_transform_returns_categories_as_scikit_learn_does(sparse):
    X = frame().fillna("none")
    X.loc[:4, "town"] = "Bonn"  # as rare as the 9 of rooms
    encoder = fitted(X, sparse_output=sparse)
    usual = OneHotEncoder(min_frequency=50, handle_unknown="infrequent_if_exist").fit(X)
    assert [*usual.get_feature_names_out()] == [*encoder.get_feature_names_out()]
    inverted = encoder.inverse_transform(encoder.transform(X))
    np.testing.assert_array_equal(inverted, usual.inverse_transform(usual.transform(X)))
    assert {*inverted[X["rooms"] == 9, 1]} == {*inverted[:5, 0]} == {"infrequent_sklearn"}
    probabilities = [[0.1, 0.2, 0.5, 0.2, 0.9, 0, 0], [0] * 7]
    assert encoder.inverse_transform(probabilities).tolist() == [
        ["none", 1],
        ["infrequent_sklearn", "infrequent_sklearn"],
    ]
    with pytest.raises(ValueError, match="X has 2 columns, but there are 7 indicators"):
        encoder.inverse_transform([[1, 0]])


def test_many_categories_are_inverted_in_little_memory():
    rows = np.random.default_rng(0).integers(0, 3000, (2000, 1))
    encoder = DPOneHotEncoder(categories=[np.arange(3000)], sparse_output=True).fit(rows)
    indicators = encoder.transform(rows)
    tracemalloc.start()
    inverted = encoder.inverse_transform(indicators)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (inverted == rows).all()
    assert peak < 0.2 * 8 * 2000 * 3000  # of all indicators together


def test_a_column_without_a_released_category_is_named():
    X = frame().assign(amount=lambda X: np.arange(len(X)) + 0.5)
    with pytest.warns(HiddenColumnsWarning, match="^No category of amount is released") as caught:
        encoder = fitted(X)
    assert [len(found) > 0 for found in encoder.categories_] == [True, True, False]
    assert len([w for w in caught if w.category is HiddenColumnsWarning]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(frame())
        DPOneHotEncoder(categories=[[], [], []]).fit(X)


@pytest.mark.parametrize("missing", [None, np.nan])
@pytest.mark.parametrize("rows", [["a", "b"], [1, 2]])
def test_a_missing_category_is_named_as_given(missing, rows):
    X = np.array(rows, dtype=object if rows == ["a", "b"] else int)[:, None]
    names = DPOneHotEncoder(categories=[[missing, rows[0]]]).fit(X).get_feature_names_out()
    if X.dtype == np.object_:
        scikit_learn = OneHotEncoder(categories=[[rows[0], missing]], handle_unknown="ignore")
        assert [*names[1::-1]] == [*scikit_learn.fit(X).get_feature_names_out()]
    else:
        assert names.tolist() == ["x0_nan", "x0_1.0", "x0_infrequent_sklearn"]


def test_no_warning_of_noise_where_categories_are_given():
    X, y = np.resize([["a"], ["b"]], (40, 1)), np.resize([0, 1], 40)
    for categories, warned in ([["a", "b"]], False), ("auto", True):
        model = make_pipeline(DPOneHotEncoder(categories=categories), LogisticRegression())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search = DPGridSearchCV(model, {}, cv=2, score_fraction=0.0)
            search.fit(X, y, X_val=X.copy(), y_val=y)
        assert any("privacy noise of its own" in str(w.message) for w in caught) == warned


def test_given_categories_read_nothing():
    encoder = fitted(frame(50), categories=[["Rome", "Bonn"], [1, 2]])
    assert [c.tolist() for c in encoder.categories_] == [["Bonn", "Rome"], [1, 2]]
    assert encoder.transform(frame(50)).shape == (50, 6)


@pytest.mark.parametrize(
    "parameters",
    [
        {"categories": "all"},
        {"categories": [["a"]]},
        {"categories": [["a", "a"], [1]]},
        {"categories": [["a", b"b"], [1]]},
        {"categories": ["ab", [1]]},
        {"categories": [[["a"], ["b"]], [1]]},
        {"categories": [["a"], [1]], "epsilon": -1.0},
        {"delta": 0.0},
    ],
    ids=["name", "length", "twice", "bytes", "text", "table", "unused", "delta"],
)
def test_bad_parameters(parameters):
    with pytest.raises(ValueError):
        fitted(frame(20), **parameters)


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool", "Int64", "category", "string", "U1"])
def test_given_categories_that_no_value_of_a_column_can_be(dtype):
    """Texts given for numbers would make all records one rare category, without a word."""
    column = pd.Series([0, 1, 1]).astype("string" if dtype == "U1" else dtype)
    X = column.to_numpy().astype(dtype)[:, None] if dtype == "U1" else column.to_frame()
    texts = dtype in ("string", "U1")
    for categories, kind in ([["0", "1"]], "numbers"), ([[0, 1]], "texts"):
        encoder = DPOneHotEncoder(categories=categories)
        if texts == (kind == "numbers"):
            assert encoder.fit_transform(X).argmax(axis=1).tolist() == [0, 1, 1]
        else:
            with pytest.raises(ValueError, match=f"^categories of column 0 must be {kind}"):
                encoder.fit(X)


@pytest.mark.parametrize("dtype", ["string", "category", "Int64", None])
@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_missing_value_is_a_category_of_every_type(dtype, missing):
    value = 1 if dtype == "Int64" else "x"
    X = pd.DataFrame({"a": pd.Series([value, None, value] * 40, dtype=dtype)})
    given = DPOneHotEncoder(categories=[[value, missing]])
    for encoder in given, DPOneHotEncoder(epsilon=5):
        assert encoder.fit_transform(X)[:2].argmax(axis=1).tolist() == [1, 0]


@pytest.mark.filterwarnings("error")
def test_long_doubles_are_numbers():
    values = [1.5, np.nan, np.longdouble("1e400")]  # the last is infinite as a float
    X = np.repeat(np.array(values, dtype=np.longdouble)[:, None], 300, axis=0)
    encoder = DPOneHotEncoder(epsilon=10.0)
    assert encoder.fit_transform(X).sum(axis=0).tolist() == [300.0, 300.0, 300.0, 0.0]
    missing, *numbers = np.asarray(encoder.categories_[0], dtype=float)
    assert math.isnan(missing)
    assert numbers == [1.5, math.inf]


def test_lists_beyond_the_columns_are_reported_by_their_number():
    X = pd.DataFrame({"a": ["x", "y"], "b": [1, 2]})
    with pytest.raises(ValueError, match="2 lists"):
        DPOneHotEncoder(categories=[["x"], [1], [5]]).fit(X)


@pytest.mark.parametrize(("category", "dtype"), [(0.5, int), (300, np.uint8), (2**63, np.int64)])
def test_a_category_that_the_type_of_a_column_does_not_have_is_shown_as_it_is(category, dtype):
    encoder = DPOneHotEncoder(categories=[[category]]).fit(np.array([[0], [1]], dtype=dtype))
    assert encoder.categories_[0].tolist() == [category]


def test_equal_values_of_other_types_cannot_choose_a_category_s_name():
    """One record with True among thousands with 1 would show in the name of the category."""
    ones, first = np.array([1] * 500, dtype=object), np.array([True] + [1] * 499, dtype=object)
    assert category_counts(ones) == category_counts(first) == {("number", 1.0): 500}
    assert category_key(-0.0) == category_key(0.0)
    assert str(category_key(-0.0)) == str(category_key(0.0))
    assert str([*category_counts(np.array([-0.0, 0.0]))]) == str([category_key(0.0)])
    assert [category_key(np.str_(text)) for text in ("a", "1.0")] == [("str", "a"), ("str", "1.0")]


def categories_of(column):
    """Released categories of one column, and their type."""
    (found,) = DPOneHotEncoder(epsilon=8.0).fit(pd.DataFrame({"a": column})).categories_
    return found.dtype, found.tolist()


WITH_CATEGORIES = pd.CategoricalDtype([0, 1])


@pytest.mark.parametrize("dtype", ["Int64", "boolean", WITH_CATEGORIES])
def test_one_missing_value_does_not_choose_the_type_of_the_categories(dtype, monkeypatch):
    full = pd.Series([0, 1] * 1000).astype(dtype)
    missing = full.copy()
    missing[7] = None
    assert categories_of(missing) == categories_of(full) == (np.object_, [0.0, 1.0])
    # Planted bug: pandas makes an array of a column by its missing values.
    monkeypatch.setattr(COLUMNS, "_cells", pd.Series.to_numpy)
    if dtype is WITH_CATEGORIES:  # of the others only newer versions of pandas do
        assert categories_of(missing)[0] != categories_of(full)[0]


def test_values_of_other_types_are_not_counted():
    class Loud(str):
        def __hash__(self):
            raise RuntimeError("read")

    class Posing(type):
        def __hash__(cls):
            return hash(int)

        def __eq__(cls, other):
            return other is int

    posing = Posing("Posed", (), {"__hash__": Loud.__hash__})()
    odd = [Loud("a"), [1], {"a": 1}, 1j, b"x", 10**400, object(), posing]
    column = np.empty(len(odd), dtype=object)
    column[:] = odd
    assert category_counts(column) == {}
    assert key_positions(column, [("number", 1.0)]).tolist() == [1] * len(odd)
    among_numbers = np.array([1, posing], dtype=object)
    assert category_counts(among_numbers) == {("number", 1.0): 1}
    assert key_positions(among_numbers, [("number", 1.0)]).tolist() == [0, 1]


@pytest.mark.parametrize(
    "column",
    [
        np.array(["a", "b", "a", None, np.nan, 1, 1.0, True, -0.0, [1], b"a"], dtype=object),
        np.array(["a", "bb", "", "a"]),
        np.array([1, 2**60, 2**60 + 1, 1, 0]),
        np.array([0.5, np.nan, -0.0, np.inf, 1, np.nan]),
        np.array([True, False, True]),
    ],
    ids=lambda column: str(column.dtype),
)
def test_values_are_counted_and_found_as_one_by_one(column):
    of_cells = [category_key(cell) for cell in column.tolist()]
    counts = {key: of_cells.count(key) for key in {*of_cells} - {None}}
    assert category_counts(column) == counts
    for keys in (sorted(counts), sorted(counts)[1:], []):
        expected = [keys.index(key) if key in keys else len(keys) for key in of_cells]
        assert key_positions(column, keys).tolist() == expected


def test_a_record_moves_two_counts_of_each_column():
    rng = np.random.default_rng(1)
    base = rng.choice(["a", "b", "c"], (30, 4)).astype(object)
    keys = [("str", c) for c in "abcz"]

    def counts(X):
        tallies = [category_counts(column) for column in X.T]
        return np.array([[tally[key] for key in keys] for tally in tallies])

    largest = 0.0
    for i in range(30):
        for value in ("a", "z", None):
            other = base.copy()
            other[i] = value
            largest = max(largest, np.linalg.norm(counts(base) - counts(other)))
    assert 0.999 * counts_sensitivity(4) < largest <= counts_sensitivity(4)


def failure(sigma, d):
    """Probability that a record that is alone in d categories shows one of them."""
    threshold = category_threshold(sigma, d, GUARANTEE.statistical_distance)
    return d * norm.sf((threshold - 1.5) / sigma)


def test_threshold_hides_a_category_of_one_record():
    for sigma in (0.01, 1.0, 15.4, 4000.0):
        for d in (1, 8, 300):
            assert failure(sigma, d) <= GUARANTEE.statistical_distance
    assert failure(4000.0, 8) > 0.9 * GUARANTEE.statistical_distance


def test_threshold_that_forgets_the_columns_is_found():
    threshold = category_threshold(15.4, 1, GUARANTEE.statistical_distance)
    assert 8 * norm.sf((threshold - 1.5) / 15.4) > GUARANTEE.statistical_distance


def shown_alone(monkeypatch, n_runs=120):
    """Share of runs that release a category of one record, and the distance that covers it."""
    monkeypatch.setattr(ENCODER, "_SHARE_OF_NAMES", 0.3)
    encoder = DPOneHotEncoder(epsilon=0.5, delta=0.9)
    X = np.array([["alone"]], dtype=object)
    shown = sum(len(encoder.fit(X).categories_[0]) for _ in range(n_runs)) / n_runs
    distance = encoder.privacy_guarantee().statistical_distance
    return shown, distance + 5.5 * math.sqrt(distance / n_runs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.HiddenColumnsWarning")
def test_share_of_runs_that_show_a_single_record(monkeypatch):
    """120 runs; false alarm below 1e-6: five and a half standard deviations."""
    shown, limit = shown_alone(monkeypatch)
    assert shown <= limit


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.HiddenColumnsWarning")
def test_threshold_without_the_record_s_own_count_is_found(monkeypatch):
    monkeypatch.setattr(ENCODER, "category_threshold", lambda sigma, d, failure: 1)
    shown, limit = shown_alone(monkeypatch)
    assert shown > limit


def audit(monkeypatch):
    X = np.array([["a", "u"]] * 300 + [["b", "v"]] * 300, dtype=object)
    other = X.copy()
    other[0] = ["b", "v"]
    total = spent(monkeypatch, fitted, (X,), (other,))
    assert GUARANTEE.mu**2 * 0.999 < total <= GUARANTEE.mu**2


def test_release_spends_the_budget(monkeypatch):
    audit(monkeypatch)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("counts_sensitivity", lambda d: math.sqrt(2)),
        (
            "GaussianMechanism",
            lambda **k: GaussianMechanism(**{**k, "sensitivity": k["sensitivity"] / 2}),
        ),
    ],
    ids=["columns are not composed", "half the noise"],
)
def test_planted_bug_is_found(monkeypatch, name, wrong):
    monkeypatch.setattr(ENCODER, name, wrong)
    with pytest.raises(AssertionError):
        audit(monkeypatch)


def test_guarantee_states_the_distance_and_composes():
    two = compose(GUARANTEE, GUARANTEE)
    assert two.mu is not None or two.delta > 0
    assert GUARANTEE.status == "proved"
    assert 0 < GUARANTEE.statistical_distance * (1 + math.e) <= 1e-11


@pytest.mark.parametrize("epsilon", [500.0, 720.0, 1e6])
def test_distance_holds_at_an_epsilon_beyond_the_floats(epsilon):
    stated = DPOneHotEncoder(epsilon=epsilon).privacy_guarantee()
    assert stated.epsilon == min(epsilon, 600.0)
    assert 0 < stated.statistical_distance * (1 + math.exp(stated.epsilon)) < stated.delta


def test_a_delta_that_no_count_meets_is_refused_before_the_charge():
    encoder = DPOneHotEncoder(epsilon=500.0, delta=1e-200)
    refused = pytest.raises(ValueError, match="delta is too small beside epsilon")
    with PrivacyLedger(epsilon=1e3, delta=1e-5) as ledger, refused:
        encoder.fit(frame())
    assert not ledger.entries


class Itemless(np.float64):
    """A number of numpy that quotes itself where it is made one of Python."""

    def item(self):
        raise RuntimeError(TEXT)


@pytest.mark.parametrize("kind", [Hostile, Unseen, Itemless])
@pytest.mark.parametrize("container", ["list", "array", "frame"])
def test_a_cell_whose_every_use_raises_is_no_category(kind, container):
    X = frame().to_numpy(dtype=object)
    usual = fitted(X).categories_
    X[7, 0] = kind()
    rows = {"list": list(map(list, X)), "array": X, "frame": pd.DataFrame(X)}[container]
    encoder = fitted(rows)
    for a, b in zip(usual, encoder.categories_, strict=True):
        assert a.tolist() == b.tolist()  # NaN is itself there
    assert encoder.transform(rows)[7, 3] == 1  # as any other value


@pytest.mark.parametrize("rows", [["ab", "cd"], [["a"], ["b", "c"]], [["a"], Hostile()]])
def test_rows_that_make_no_table_are_refused_without_a_quotation(rows):
    with pytest.raises(ValueError, match=r"Expected 2D array|rectangular") as error:
        DPOneHotEncoder().fit(rows)
    assert TEXT not in str(error.value)


def test_a_group_is_one_of_its_rows_with_its_most_frequent_category():
    other = object()  # a type without names
    column = np.array([other, "a", other, "b", "c", "c", other], dtype=object)
    rows = representatives(column, np.array([0, 0, 0, 1, 1, 1, 2]))
    assert rows.tolist() == [1, 4, 6]


def test_order_of_records_and_ledger():
    X = frame()
    first = fitted(X).categories_
    for a, b in zip(first, fitted(X[::-1]).categories_, strict=True):
        assert a.tolist() == b.tolist()  # NaN is itself there
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        encoder = DPOneHotEncoder().fit(X)
    assert len(ledger.entries) == 1
    assert encoder.privacy_.n_protected == 2000


@pytest.mark.parametrize(
    ("X", "match"),
    [
        (csr_array(np.eye(4)), "Sparse data was passed"),
        (np.empty((4, 0), dtype=object), r"0 feature\(s\)"),
        (np.empty((0, 2), dtype=object), r"0 sample\(s\)"),
        (["a", "b"], "Expected 2D array"),
    ],
    ids=["sparse", "no column", "no row", "vector"],
)
def test_tables_that_are_none_cost_nothing(X, match):
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        with pytest.raises((TypeError, ValueError), match=match):
            DPOneHotEncoder().fit(X)
        assert not ledger.entries
    encoder = DPOneHotEncoder(categories=[[0, 1]] * 4).fit(np.eye(4))
    with pytest.raises((TypeError, ValueError), match=match):
        encoder.transform(X)


@pytest.mark.parametrize("categories", ["all", None, 3, 2.5, [1]])
def test_categories_that_are_no_lists_are_named(categories):
    with pytest.raises(ValueError, match="categories must"):
        DPOneHotEncoder(categories=categories).fit([["a"], ["b"]])
