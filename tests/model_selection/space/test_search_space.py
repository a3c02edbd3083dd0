"""Search spaces: distinct public draws, Python integers, one encoding, clear errors."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from _support.internals import ContinuousSpace, SearchSpace
from skdpbo import DPRandomizedSearchCV

MIXED = {
    "depth": (1, 5),
    "C": (1e-3, 1e3, "log-uniform"),
    "step__leaf": (1, 100, "log-uniform"),
    "kind": ["a", None, (1, 2), [3], {"k": 4}],
    "gamma": stats.loguniform(1e-2, 1e2),
    "count": stats.randint(2, 9),
    "tail": stats.expon(scale=10),
}


def test_a_finite_space_is_the_grid_of_sklearn():
    grid = [{"b": [1, 2], "a": ["x", "y", "z"]}, {"a": ["x"], "c": [[0], [1]]}]
    space = SearchSpace(grid)
    assert space.size == len(ParameterGrid(grid)) == 8
    assert space.is_finite
    assert space.candidates(8) == space.sample(100) == list(ParameterGrid(grid))


def test_integer_ranges_hold_both_ends_as_python_ints():
    for ends in ((1, 4), (np.int64(1), np.int32(4)), (1, 4, "uniform"), (1, 4, "log-uniform")):
        values = [s["n"] for s in SearchSpace({"n": ends}).candidates(10)]
        assert values == [1, 2, 3, 4]
        assert all(type(value) is int for value in values)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ((1, 9), int),
        ((1, 9, "log-uniform"), int),
        (stats.randint(1, 9), int),
        (stats.poisson(3), int),
        (np.arange(5), int),
        ((1.0, 9), float),
        ((1, 9.0, "log-uniform"), float),
        (stats.uniform(0, 1), float),
        (stats.uniform, float),  # a family without parameters
        (np.linspace(0, 1, 5), float),
    ],
)
def test_values_are_python_numbers(values, kind):
    for setting in SearchSpace({"v": values}).sample(4, random_state=0):
        assert type(setting["v"]) is kind


def test_draws_are_distinct_and_reproducible():
    space = SearchSpace(MIXED)
    for draw in (space.sample, space.candidates):
        first = draw(64, random_state=3)
        assert len({repr(setting) for setting in first}) == len(first) == 64
        assert draw(64, random_state=3) == first
        assert draw(64, random_state=4) != first
    assert space.candidates(20) == space.candidates(20)


def test_finite_draws_are_without_replacement_and_not_in_order():
    space = SearchSpace({"a": (1, 100), "b": ["x", "y"]})
    drawn = space.sample(199, random_state=0)
    assert len({tuple(s.items()) for s in drawn}) == 199
    assert drawn != space.candidates(200)[:199]


def test_a_skewed_finite_space_is_filled_up():
    """The rare values of a binomial are found although draws hardly meet them."""
    space = SearchSpace({"n": stats.binom(30, 0.01)})
    assert space.size == 31
    assert len({s["n"] for s in space.sample(30, random_state=0)}) == 30


def test_a_huge_finite_space_is_drawn_without_listing_it():
    space = SearchSpace({f"p{i}": (0, 10**6) for i in range(12)})
    assert space.size == (10**6 + 1) ** 12
    assert len(space.sample(10, random_state=0)) == len(space.candidates(10)) == 10


def test_draws_follow_the_scale():
    rng = np.random.RandomState(0)
    drawn = SearchSpace({"v": (1e-4, 1e4, "log-uniform")}).sample(4000, rng)
    logs = np.log10([s["v"] for s in drawn])
    # Kolmogorov-Smirnov: false alarm < 1e-6 at 2.7 / sqrt(4000) = .0427
    assert stats.kstest(logs, stats.uniform(-4, 8).cdf).statistic < 0.0427
    # planted bug: the same draws taken as uniform on the natural scale
    assert stats.kstest(10**logs, stats.uniform(0, 1e4).cdf).statistic > 0.3


def test_ends_of_an_integer_range_are_as_likely_as_the_middle():
    counts = np.zeros(5)
    space = SearchSpace({"n": (0, 4), "u": (0.0, 1.0)})
    for setting in space.sample(5000, random_state=1):
        counts[setting["n"]] += 1
    # chi-square, 4 degrees of freedom: false alarm 1e-6 at 33.4
    assert ((counts - 1000) ** 2 / 1000).sum() < 33.4


@pytest.mark.parametrize("draw", [SearchSpace.sample, SearchSpace.candidates])
def test_dicts_are_equally_likely_and_so_are_categories(draw):
    space = SearchSpace([{"x": (0.0, 1.0), "kind": ["a", "b", "c"]}, {"y": (0.0, 1.0)}])
    kinds = [setting.get("kind") for setting in draw(space, 600, random_state=2)]
    counts = np.array([kinds.count(kind) for kind in ("a", "b", "c", None)])
    expected = np.array([100, 100, 100, 300])
    # chi-square, 3 degrees of freedom: false alarm 1e-6 at 30.7
    assert ((counts - expected) ** 2 / expected).sum() < 30.7


def test_encoding_lies_in_the_unit_cube_and_round_trips():
    space = SearchSpace(MIXED)
    drawn = space.candidates(64)
    encoded = space.encode(drawn)
    assert encoded.shape == (64, space.n_features) == (64, 11)
    assert encoded.min() >= 0.0
    assert encoded.max() <= 1.0
    for setting, back in zip(drawn, space.decode(encoded), strict=True):
        for key, value in setting.items():
            assert back[key] == (pytest.approx(value) if isinstance(value, float) else value)


def test_encoding_of_ranges():
    space = SearchSpace({"C": (1e-2, 1e2, "log-uniform"), "x": (-1.0, 3.0), "n": (1, 4)})
    encoded = space.encode([{"C": 1.0, "x": 0.0, "n": 1}, {"C": 100.0, "x": 3.0, "n": 4}])
    columns = dict(zip(sorted(("C", "n", "x")), encoded.T, strict=True))
    np.testing.assert_allclose(columns["C"], [0.5, 1.0])
    np.testing.assert_allclose(columns["n"], [0.125, 0.875])  # the middle of the quarter
    np.testing.assert_allclose(columns["x"], [0.25, 1.0])


def test_conditional_spaces_have_indicators_and_zeros():
    space = SearchSpace([{"kernel": ["rbf"], "C": (0.0, 1.0)}, {"kernel": ["linear", "none"]}])
    encoded = space.encode([{"kernel": "rbf", "C": 0.25}, {"kernel": "none"}])
    np.testing.assert_array_equal(encoded, [[1, 0, 0.25, 1, 0, 0], [0, 1, 0, 0, 0, 1]])
    assert space.decode(encoded) == [{"C": 0.25, "kernel": "rbf"}, {"kernel": "none"}]


def test_categories_may_be_anything():
    ridge, array = Ridge(), np.arange(2)
    values = [ridge, Ridge(), (0, 1), [0], {"a": 1}, array, None, 1, 1.0, True, math.nan]
    space = SearchSpace({"v": values})
    settings = space.candidates(20)
    assert settings[0]["v"] is ridge
    np.testing.assert_array_equal(space.encode(settings), np.eye(len(values)))


def test_settings_suit_a_pipeline():
    space = SearchSpace([{"m": [LogisticRegression()], "m__C": (0.1, 1.0)}, {"m": [Ridge()]}])
    pipeline = Pipeline([("m", Ridge())])
    for setting in space.sample(5, random_state=0):
        pipeline.set_params(**setting)


def test_a_setting_from_elsewhere_is_an_error():
    space = SearchSpace({"n": (1, 4), "x": (0.0, 1.0)})
    for setting in ({"n": 5, "x": 0.5}, {"n": 1}, {"n": True, "x": 0.5}, {"n": 1, "x": "0.5"}):
        with pytest.raises(ValueError, match="does not belong to search_spaces"):
            space.encode([setting])


@given(
    low=st.floats(-1e300, 1e300),
    width=st.floats(1e-3, 1e300),
    u=st.floats(0, 1),
)
@settings(max_examples=60, deadline=None)
def test_every_point_of_the_cube_is_in_the_range(low, width, u):
    high = low + width
    if not low < high:
        return
    space = SearchSpace({"x": (low, high)})
    (setting,) = space.decode([[u]])
    assert low <= setting["x"] <= high
    assert 0.0 <= space.encode([setting])[0, 0] <= 1.0


@given(low=st.integers(1, 10**6), width=st.integers(1, 10**6), u=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_integers_round_trip_on_both_scales(low, width, u):
    for scale in ("uniform", "log-uniform"):
        space = SearchSpace({"n": (low, low + width, scale)})
        (setting,) = space.decode([[u]])
        assert low <= setting["n"] <= low + width
        assert space.decode(space.encode([setting])) == [setting]


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([], ValueError, "is empty"),
        (np.array([]), ValueError, "is empty"),
        ((1, 1), ValueError, "is empty"),
        ((2, 1), ValueError, "reversed"),
        ((2.0, 1.0, "log-uniform"), ValueError, "reversed"),
        ((0, 1, "log-uniform"), ValueError, "0 < low"),
        ((-1.0, 1.0, "log-uniform"), ValueError, "0 < low"),
        ((0.0, math.inf), ValueError, "finite"),
        ((-math.inf, 0.0), ValueError, "finite"),
        ((0.0, math.nan), ValueError, "finite"),
        ((0, 1, "log"), ValueError, "scale of"),
        ((0, 1, 2), ValueError, "scale of"),
        ((0, 1, 2, 3), ValueError, "write categories as a list"),
        ((), ValueError, "write categories as a list"),
        (("a", "b"), TypeError, "write categories as a list"),
        ((False, True), TypeError, "write categories as a list"),
        (np.eye(2), ValueError, "one-dimensional"),
        ("rbf", TypeError, "list of one"),
        (3, TypeError, "list of one"),
        ({1, 2}, TypeError, "list of one"),
        (stats.uniform(0, -1), ValueError, "invalid"),
        (stats.loguniform, ValueError, "parameters first"),
    ],
)
def test_errors_name_the_parameter(values, error, message):
    with pytest.raises(error, match=message) as caught:
        SearchSpace({"ok": [1], "svc__C": values}, name="param_distributions")
    assert "param_distributions['svc__C']" in str(caught.value)


@pytest.mark.parametrize(
    ("space", "error", "message"),
    [
        ([], ValueError, "is empty"),
        (3, TypeError, "dict or a list"),
        ("C", TypeError, "dict or a list"),
        ([{"a": [1]}, 3], TypeError, "dicts only"),
        ({1: [1]}, TypeError, "keys of search_spaces"),
    ],
)
def test_errors_of_the_whole_space(space, error, message):
    with pytest.raises(error, match=message):
        SearchSpace(space)


def test_infinite_support_is_refused_where_the_unit_cube_is_needed():
    space = {"C": stats.expon(scale=100)}
    assert len(SearchSpace(space).sample(3, random_state=0)) == 3
    with pytest.raises(ValueError, match="infinite support"):
        SearchSpace(space, bounded=True)
    SearchSpace({"C": stats.loguniform(1, 10)}, bounded=True)


def test_a_continuous_space_is_not_finite():
    space = SearchSpace({"x": (0.0, 1.0)})
    assert not space.is_finite
    assert space.size == np.inf


def test_an_empty_dict_is_the_estimator_as_it_is():
    assert SearchSpace({}).candidates(3) == [{}]
    assert SearchSpace({}).encode([{}]).shape == (1, 0)


def test_the_space_pickles():
    space = pickle.loads(pickle.dumps(SearchSpace(MIXED)))
    assert space.candidates(5) == SearchSpace(MIXED).candidates(5)


class Real:
    """Stand-in with the public names of skopt.space.Real."""

    def __init__(self, low, high, prior="uniform", dtype=float):
        self.low, self.high, self.prior, self.dtype = low, high, prior, dtype
        self.base, self.name = 10, None

    def rvs(self, n_samples=1, random_state=None):
        raise AssertionError("draws are ours: public, and distinct")


class Integer(Real):
    """Of skopt 0.10; before 0.8 it had neither a prior of its own nor a dtype."""

    def __init__(self, low, high, prior="uniform", dtype=np.int64):
        super().__init__(low, high, prior, dtype)


class Categorical(Real):
    def __init__(self, categories, prior=None):
        self.categories, self.prior, self.name = tuple(categories), prior, None


def old_integer(low, high):
    dimension = Integer(low, high, prior=None)
    del dimension.dtype
    return dimension


def test_dimensions_of_scikit_optimize_are_ranges_and_categories():
    theirs = {
        "C": Real(1, 100, "log-uniform"),
        "rate": Real(0.5, 2, dtype="float32"),
        "depth": Integer(np.int64(2), np.int64(9)),
        "leaf": Integer(1, 50, "log-uniform", dtype="int"),
        "old": old_integer(1, 3),
        "kind": Categorical(["a", None, (1, 2)], prior=[1 / 3, 1 / 3, 1 / 3]),
    }
    ours = {
        "C": (1.0, 100.0, "log-uniform"),
        "rate": (0.5, 2.0),
        "depth": (2, 9),
        "leaf": (1, 50, "log-uniform"),
        "old": (1, 3),
        "kind": ["a", None, (1, 2)],
    }
    drawn = SearchSpace(theirs).candidates(32)
    assert drawn == SearchSpace(ours).candidates(32)
    assert {type(setting["depth"]) for setting in drawn} == {int}
    assert {type(setting["C"]) for setting in drawn} == {float}
    assert ContinuousSpace({"C": theirs["C"], "n": Categorical(["one"])}).n_dims == 1
    with pytest.raises(ValueError, match="DPBayesSearchCV"):
        ContinuousSpace(theirs)


def test_dimensions_of_scikit_optimize_that_cannot_be_drawn_are_refused():
    for dimension in (
        Categorical("ab", prior=[0.9, 0.1]),
        Real(2.0, 1.0),
        Real(0, 1, "log-uniform"),
    ):
        with pytest.raises(ValueError, match=r"search_spaces\['x'\]"):
            SearchSpace({"x": dimension})


def test_spaces_with_numbers_of_candidates():
    spaces = [({"C": (0.1, 1.0)}, 3), ({"C": [7, 8, 9]}, 2)]
    search = DPRandomizedSearchCV(LogisticRegression(), spaces)
    _, candidates = search._candidates()
    assert [params["C"] >= 1 for params in candidates] == [False] * 3 + [True] * 2
    twice = DPRandomizedSearchCV(LogisticRegression(), spaces[:1] * 2)
    for _ in range(2):  # the design is public and fixed
        values = [params["C"] for params in twice._candidates()[1]]
        assert values[:3] == [params["C"] for params in candidates[:3]]
        assert len(set(values)) == 6
    for bad in ([*spaces, {"C": [1]}], [({"C": [1]},)], [({"C": [1]}, 0)], [({"C": 1}, 2)]):
        with pytest.raises((TypeError, ValueError), match=r"param_distributions\[\d\]"):
            DPRandomizedSearchCV(LogisticRegression(), bad)._candidates()
    with pytest.raises(TypeError, match="DPRandomizedSearchCV"):
        SearchSpace(spaces)
