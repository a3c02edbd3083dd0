"""Random parameters, spaces, containers and bad records: documented errors, and no leak.

Every protected record holds an unmistakable number or text. Whatever a fit does, nothing of them
is found in the searcher, its pickle, its texts, its warnings, its errors and their chains; and the
only errors are those that the documentation names. Examples are derandomised: they are the same
on every machine with the same version of hypothesis.
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import loguniform, randint, uniform
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from _support.hostile import NUMBER, TEXT, WHOLE, Hostile, one, settled
from _support.hostile import mostly as mostly_of
from _support.planted import plant
from skdpbo import (
    DPBayesSearchCV,
    DPGIBOSearchCV,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    make_per_record_scorer,
)
from skdpbo.audit import Secrets, Traces, leak_scan
from skdpbo.exceptions import BudgetExceededError
from skdpbo.model_selection import Chunks, GaussianTrajectory, Kusner2015, Kusner2015Lipschitz

pytestmark = pytest.mark.usefixtures("few_public_candidates")
SECRETS = Secrets([NUMBER, 1e6 * NUMBER, WHOLE, TEXT], digits=6)
DOCUMENTED = (ValueError, TypeError, BudgetExceededError)

RNG = np.random.RandomState(0)
N, M = 24, 6
X, X_VAL = RNG.normal(size=(N, 3)), RNG.normal(size=(M, 3))
LABELS, NUMBERS = (X[:, 0] > 0).astype(int), X[:, 0] - X[:, 1]


class Nasty(RegressorMixin, BaseEstimator):
    """Ridge that prints nothing, but warns of and fails on what it predicts, quoting it."""

    def __init__(self, alpha=1.0, degree=1):
        self.alpha = alpha
        self.degree = degree

    def fit(self, X, y):
        self.model_ = Ridge(alpha=self.alpha).fit(X, y)
        return self

    def predict(self, X):
        import warnings

        warnings.warn(f"predicting {X}", stacklevel=2)
        if (np.asarray(X, dtype=float) > 1e5).any():
            raise ValueError(f"cannot predict {X}")
        self.seen_ = X
        return self.model_.predict(X)


ESTIMATORS = {
    "ridge": (Ridge, "alpha", NUMBERS, "neg_mean_squared_error"),
    "nasty": (Nasty, "alpha", NUMBERS, "neg_mean_absolute_error"),
    "logistic": (LogisticRegression, "C", LABELS, "neg_log_loss"),
    "tree": (DecisionTreeClassifier, "min_samples_leaf", LABELS, "accuracy"),
    "pipeline": (
        lambda: make_pipeline(StandardScaler(), Ridge()),
        "ridge__alpha",
        NUMBERS,
        "neg_mean_squared_error",
    ),
}
RATIOS = {"logistic": ["f1", "roc_auc"], "tree": ["f1", "balanced_accuracy"], "ridge": ["r2"]}
SEARCHERS = {
    "grid": DPGridSearchCV,
    "randomized": DPRandomizedSearchCV,
    "bayes": DPBayesSearchCV,
    "gibo": DPGIBOSearchCV,
}

# Records: the planted values in every disguise
BAD_CELLS = [NUMBER, 1e6 * NUMBER, -NUMBER, WHOLE, TEXT, TEXT.encode(), [NUMBER], (TEXT,)]
BAD_CELLS += [
    {TEXT: NUMBER},
    Fraction(NUMBER),
    np.float32(NUMBER),
    np.array([NUMBER]),
    Hostile(ValueError),
]
EMPTY_CELLS = [math.nan, math.inf, -math.inf, None, pd.NA, pd.NaT, 1e308, 10**400, 1j, True, ""]


cells = one(BAD_CELLS * 2 + EMPTY_CELLS) | st.floats(-5, 5)
rows = st.lists(cells, min_size=3, max_size=3)
ragged = st.lists(cells, max_size=5) | one([None, TEXT, NUMBER, Hostile(ValueError), {}])
targets = one([0, 1, 0.5, NUMBER, WHOLE, TEXT, *EMPTY_CELLS, Hostile(ValueError), [NUMBER, 1]])


def as_objects(records, width=None):
    array = np.empty((len(records), width) if width else len(records), dtype=object)
    for i, record in enumerate(records):
        if width is None:
            array[i] = record
        else:
            for j in range(width):
                array[i, j] = record[j]
    return array


def as_frame(records):
    index = [TEXT, *range(len(records) - 1)] if len(records) > 1 else [TEXT]
    try:
        return pd.DataFrame(as_objects(records, 3), columns=["a", "b", "c"], index=index)
    except OverflowError:  # pandas 2.1, of an integer beyond the floats
        return records


CONTAINERS = ("list", "ragged", "array", "frame", "sparse", "objects", "wrong")


@st.composite
def protected_rows(draw, containers=CONTAINERS):
    """(container of the public rows, protected rows)."""
    kind = draw(st.sampled_from(containers))
    n = draw(st.sampled_from([M] * 6 + [1, 40]))
    if kind == "ragged":
        return X.tolist(), draw(st.lists(rows | ragged, min_size=n, max_size=n))
    table = draw(st.lists(rows, min_size=n, max_size=n))
    if kind == "list":
        return X.tolist(), table
    if kind == "frame":
        public = pd.DataFrame(X, columns=["a", "b", "c"], index=draw(odd_indices))
        return public, as_frame(table)
    if kind == "objects":
        return X, as_objects(table, 3)
    numbers = np.full((n, 3), draw(st.sampled_from([NUMBER, 1e6 * NUMBER, WHOLE, math.nan])))
    if kind == "sparse":
        make = draw(st.sampled_from([sparse.csr_matrix, sparse.csc_array, sparse.coo_array]))
        return sparse.csr_array(X), make(numbers)
    if kind == "array":
        dtype = draw(st.sampled_from([np.float64, np.float32, np.float16, np.int64, np.longdouble]))
        with np.errstate(all="ignore"):
            return X, np.nan_to_num(numbers).astype(dtype)
    return X, draw(one(wrong_shapes(numbers)))


odd_indices = st.sampled_from(
    [list(range(N)), [0] * N, [f"r{i}" for i in range(N)], pd.date_range("2020", periods=N)]
)


def wrong_shapes(numbers):
    return [
        numbers[:, :2],
        numbers[:0],
        numbers[0],
        numbers[None],
        TEXT,
        NUMBER,
        {TEXT: NUMBER},
        (),
    ]


# Parameters: mostly sensible, sometimes not
mostly = partial(mostly_of, weight=30)


NUMBERS_BAD = (0, -1.0, math.nan, math.inf, "1", None, True, [1], 1j)
common = {
    "epsilon": mostly(1.0, 0.1, Fraction(1, 3), np.float32(2), 1e-12, 1e3, bad=NUMBERS_BAD),
    "delta": mostly(1e-5, 0.5, bad=(0.0, 1.0, -1e-5, math.nan, "0", None)),
    "score_fraction": mostly(0.0, 0.1, 0.9, bad=(1.0, -0.1, math.nan, "a", None)),
    "loss_bound": mostly(None, 1.0, 9.0, 1e-9, 1e12, bad=(0, -1, math.inf, math.nan, "1")),
    "cv": mostly(2, 3, bad=(1, 0, 1000, "two", [([0], [1])], [])),
    "guide": mostly(False, False, True, bad=("yes", None, 2)),
    "refit": mostly(True, False, bad=(None, "accuracy", max, 3)),
    "verbose": st.sampled_from([0, 1, 3]),
    "error_score": mostly(np.nan, "raise", bad=("bad", None)),
    "validation_fraction": mostly(0.2, 0.5, bad=(0, 1, -1, math.nan, None)),
}
REFUSED = ["average_precision", "explained_variance", "max_error", "neg_median_absolute_error"]
FORBIDDEN = [None, *REFUSED, "nonsense", 3, ["accuracy"], max, {"a": "max_error"}]


def loss_that(returns):
    return make_per_record_scorer(returns, bound=1.0)


def quote(y, p):
    raise ValueError(f"loss of {y}")


USER_LOSSES = [
    loss_that(lambda y, p: (np.asarray(y) != np.asarray(p)) * 1.0),
    loss_that(lambda y, p: np.full(3, math.nan)),
    loss_that(lambda y, p: None),
    loss_that(lambda y, p: "text"),
    loss_that(lambda y, p: np.array([object()] * len(np.atleast_1d(y)))),
    loss_that(lambda y, p: -1e300),
    loss_that(lambda y, p: 1j),
    loss_that(lambda y, p: [[0.0]]),
    loss_that(quote),
]
MECHANISMS = {
    "grid": mostly("permute_and_flip", "exponential", bad=("gaussian", "laplace", None, 3)),
    "randomized": mostly("permute_and_flip", "exponential", bad=("none", Kusner2015())),
    "bayes": mostly(
        "permute_and_flip",
        "gaussian",
        GaussianTrajectory(n_private=2),
        Kusner2015(),
        Kusner2015(noise_variance=0),
        Kusner2015Lipschitz(lipschitz=1.0, lambda_name="alpha"),
        Kusner2015Lipschitz(lipschitz=1.0, lambda_name="alpha", trajectory="secret"),
        bad=("exponential?", Kusner2015, None),
    ),
}
SPACES = [
    lambda name: {name: [1, 2]},
    lambda name: {name: (1, 5)},
    lambda name: {name: (0.1, 10.0)},
    lambda name: {name: (0.01, 10.0, "log-uniform")},
    lambda name: {name: loguniform(0.1, 10)},
    lambda name: {name: uniform(0.1, 1)},
    lambda name: {name: randint(1, 4)},
    lambda name: [{name: [1]}, {name: (1, 3)}],
]
BAD_SPACES = [
    lambda name: {},
    lambda name: {name: []},
    lambda name: {name: (5, 1)},
    lambda name: {name: (0.0, 1.0, "log-uniform")},
    lambda name: {name: (math.nan, 1.0)},
    lambda name: {name: (1.0, math.inf)},
    lambda name: {name: "abc"},
    lambda name: {name: 3},
    lambda name: {name: None},
    lambda name: {name: ["a", None]},
    lambda name: {name: [[1], object()]},
    lambda name: {"nonsense": [1, 2]},
    lambda name: {3: [1]},
    lambda name: None,
    lambda name: [],
]
LISTS = [
    lambda name: {name: [1, 2]},
    lambda name: {name: np.array([1, 2])},
    lambda name: [{name: [1]}, {name: [2, 3]}],
    lambda name: {name: [1, 3, "nonsense"]},
]
spaces = {
    kind: one((LISTS if kind == "grid" else SPACES) * 20 + BAD_SPACES + SPACES)
    for kind in SEARCHERS
}


def scorings(model):
    """Return what a model may be scored by; the mean of its losses three times."""
    return [ESTIMATORS[model][3]] * 3 + RATIOS.get(model, [])


@st.composite
def searches(draw, kinds=tuple(SEARCHERS), containers=CONTAINERS, most=4):
    """(searcher, public rows, public targets, protected rows, protected targets)."""
    kind, model = draw(st.sampled_from(kinds)), draw(st.sampled_from(sorted(ESTIMATORS)))
    make, name, y, _ = ESTIMATORS[model]
    chosen = draw(st.sets(st.sampled_from(sorted(common)), max_size=most))
    params = {key: draw(common[key]) for key in sorted(chosen)}
    params["scoring"] = draw(one(scorings(model) * 10 + USER_LOSSES * 2 + FORBIDDEN))
    if kind == "gibo":
        params.pop("guide", None)
    else:
        params["mechanism"] = draw(MECHANISMS[kind])
        if isinstance(params["mechanism"], Kusner2015):
            params.setdefault("guide", False)
    if kind != "grid":
        params["n_iter"] = draw(mostly(2, 3, bad=(0, -1, 1.5, None, "2")))
    if kind == "bayes":  # what no candidate survives is tried with every one
        params["n_candidates"] = draw(mostly(12, 40, bad=(0, 1.5, None)))
    public, protected = draw(protected_rows(containers))
    n = getattr(protected, "shape", (len(protected) if isinstance(protected, list) else 0,))
    m = 5 if not n or draw(st.sampled_from(range(30))) == 13 else n[0]
    y_val = draw(st.lists(targets, min_size=m, max_size=m))
    return SEARCHERS[kind](make(), draw(spaces[kind])(name), **params), public, y, protected, y_val


def assert_no_leak(search, data, X_val, y_val):
    """Fit, and search everything that comes out for what was planted."""
    X, y = data
    with Traces() as traces:
        try:
            search.fit(X, y, X_val=X_val, y_val=y_val)
        except DOCUMENTED as error:
            failure = error
        else:
            failure = None
    assert not leak_scan(traces, SECRETS), traces.text()
    if failure is None:
        assert not leak_scan(search, SECRETS)
        assert search.privacy_.status in ("proved", "conditional")
        assert math.isfinite(getattr(search, "best_score_", 0.0))
    else:
        assert not leak_scan(failure, SECRETS), failure
        assert not [name for name in vars(search) if name.endswith("_") and name[0] != "_"]


@settled(12)
@given(searches())
def test_some(example):
    search, public, y, X_val, y_val = example
    assert_no_leak(search, (public, y), X_val, y_val)


@pytest.mark.slow
def test_a_quoting_message_is_caught(monkeypatch):
    plant(monkeypatch, "protected rows are read all at once")

    @settings(settled(200), phases=[Phase.generate], report_multiple_bugs=False)
    @given(searches(("grid",), ("list", "objects"), most=1))
    def run(example):
        search, public, y, X_val, y_val = example
        assert_no_leak(search, (public, y), X_val, y_val)

    with pytest.raises(AssertionError):
        run()


@pytest.mark.slow
@pytest.mark.parametrize("kind", SEARCHERS)
def test_many(kind):
    # What reads rows is the same in all searchers, and a descent takes six times as long.
    @settled(40 if kind == "gibo" else 100)
    @given(searches((kind,)))
    def run(example):
        search, public, y, X_val, y_val = example
        assert_no_leak(search, (public, y), X_val, y_val)

    run()


@st.composite
def searches_in_chunks(draw):
    """(searcher that protects every row, rows, targets)."""
    kind = draw(st.sampled_from(["grid", "randomized", "bayes"]))
    model = draw(st.sampled_from(sorted(ESTIMATORS)))
    make, name, _, _ = ESTIMATORS[model]
    chosen = draw(st.sets(st.sampled_from(["epsilon", "score_fraction", "loss_bound", "verbose"])))
    params = {key: draw(common[key]) for key in sorted(chosen)}
    params |= {"scoring": draw(one(scorings(model))), "guide": False, "refit": False}
    params["protect"] = draw(mostly("all", Chunks(2), Chunks(3), bad=(Chunks(1000), 2, "2", True)))
    if kind != "grid":
        params["n_iter"] = 2
    if kind == "bayes":
        params |= {"mechanism": "gaussian", "n_candidates": 12}
    _, rows_of_all = draw(protected_rows())
    n = getattr(rows_of_all, "shape", (len(rows_of_all) if isinstance(rows_of_all, list) else 0,))
    cell = draw(one([targets, one([0, 1]), one([0.0, 1.0, NUMBER])]))
    y = draw(st.lists(cell, min_size=n[0] if n else 5, max_size=n[0] if n else 5))
    return SEARCHERS[kind](make(), draw(spaces[kind])(name), **params), rows_of_all, y


def assert_no_leak_of_all(search, rows_of_all, y):
    with Traces() as traces:
        try:
            search.fit(rows_of_all, y)
        except DOCUMENTED as error:
            failure = error
        else:
            failure = None
    assert not leak_scan(traces, SECRETS), traces.text()
    assert not leak_scan(failure, SECRETS), failure
    assert not leak_scan(search, SECRETS)
    assert (failure is None) == hasattr(search, "privacy_")


@pytest.mark.slow
@settled(100)
@given(searches_in_chunks())
def test_many_in_chunks(example):
    assert_no_leak_of_all(*example)


def test_an_object_in_a_row_of_a_list():
    """Found by the above: numpy asks the objects in a list for their array."""
    rows_of_all = X.tolist()
    rows_of_all[3][1] = Hostile(ValueError)
    options = {"guide": False, "refit": False, "protect": Chunks(2), "loss_bound": 1.0}
    search = DPGridSearchCV(Ridge(), {"alpha": [1.0]}, scoring="neg_mean_squared_error", **options)
    assert search.fit(rows_of_all, NUMBERS).best_params_ == {"alpha": 1.0}


@pytest.mark.parametrize("rows", ["X_val", "y_val"])
@pytest.mark.parametrize("kind", [np.array, np.float64, float, Fraction])
def test_a_number_in_the_place_of_rows(rows, kind):
    """Found by the above: scikit-learn quotes a scalar that is given for an array."""
    given = {"X_val": X_VAL, "y_val": [0.0] * M, rows: kind(NUMBER)}
    search = DPGridSearchCV(Ridge(), {"alpha": [1.0]}, guide=False, loss_bound=1.0)
    with pytest.raises(TypeError, match="at least 1 dimension") as failure:
        search.fit(X, NUMBERS, **given)
    assert not leak_scan(failure.value, SECRETS)


@pytest.mark.parametrize("scoring", REFUSED)
def test_refused_metrics(scoring):
    model = DecisionTreeClassifier() if scoring == "average_precision" else Ridge()
    search = DPGridSearchCV(model, {"random_state": [0]}, scoring=scoring, guide=False)
    with pytest.raises(ValueError, match=r"cannot be used|must be a str among"):
        search.fit(X, NUMBERS, X_val=X_VAL, y_val=[0.0] * M)


@pytest.mark.parametrize("model", RATIOS)
def test_offered_ratios(model):
    make, name, y, _ = ESTIMATORS[model]
    bound = 1.0 if model == "ridge" else None
    for scoring in RATIOS[model]:
        search = DPGridSearchCV(make(), {name: [1, 2]}, scoring=scoring, cv=2, loss_bound=bound)
        search.fit(X, y, X_val=X_VAL, y_val=y[:M])
        assert search.privacy_.status == "proved"
