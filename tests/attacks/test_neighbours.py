"""One protected record, whatever it holds, moves every candidate's total by at most one bound."""

import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from _support.evaluators import public_training
from _support.hostile import Hostile
from _support.internals import in_public_schema, resolve_scorer
from _support.planted import original, plant, put
from skdpbo import DPBayesSearchCV, DPGridSearchCV, DPRandomizedSearchCV, make_per_record_scorer
from skdpbo.model_selection import Kusner2015

BAD_ROWS = [
    [math.nan] * 3,
    [math.inf, 0.0, 0.0],
    [1e300] * 3,
    [1e39, 0.0, 0.0],  # inf as a float32
    ["text", 0.0, 0.0],
    [None] * 3,
    [0.0] * 2,
    [0.0] * 4,
    [[0.0], 0.0, 0.0],
    [np.array([1.0]), 0.0, 0.0],
    np.array([1j, 0, 0]),
    [10**400] * 3,
    [],
    "abc",
    {0: 1.0},
    None,
    Hostile(),
]
BAD_TARGETS = [
    math.nan,
    -math.inf,
    1e300,
    "unseen",
    None,
    [1, 2],
    {"unhashable": []},
    1j,
    10**400,
    Hostile(),
]
RNG = np.random.RandomState(0)
X = RNG.normal(1.0, 2.0, (40, 3))
LABELS = (X[:, 0] + 0.5 * RNG.normal(size=40) > 1).astype(int)
NUMBERS = X[:, 0] + 0.5 * RNG.normal(size=40)
X_VAL = RNG.normal(1.0, 2.0, (12, 3))
LABELS_VAL = (X_VAL[:, 0] > 1).astype(int)
NUMBERS_VAL = X_VAL[:, 0] * 2


def chaos(y_true, y_pred):
    """A legal loss of single records that the last bit of a prediction turns upside down."""
    return (1.0 + np.sin(1e16 * np.asarray(y_pred, dtype=float))) / 2.0


CHAOS = make_per_record_scorer(chaos, bound=1.0)


def totals(estimator, X, y, X_val, y_val, scorer, candidates=({},), n_jobs=None):
    protected = in_public_schema(X_val, y_val, X, y)
    training = public_training(estimator, X, y, protected, scorer, n_jobs=n_jobs)
    return training.totals(list(candidates))


def largest_change(estimator, X, y, X_val, y_val, neighbours, scorer=None, candidates=({},)):
    """Largest change of a total, in bounds, over neighbouring (X_val, y_val)."""
    scorer = resolve_scorer("accuracy", estimator) if scorer is None else scorer
    before = totals(estimator, X, y, X_val, y_val, scorer, candidates)
    changes = [
        abs(now - then)
        for neighbour in neighbours
        for now, then in zip(
            totals(estimator, X, y, *neighbour, scorer, candidates), before, strict=True
        )
    ]
    # Where all outcomes are the worst, or none is computed, nothing moves whatever a record is.
    assert max(changes) > 0
    return max(changes) / scorer.units


def with_record(values, i, record):
    """A list with one record replaced."""
    values = list(values)
    values[i] = record
    return values


def unprotected_batches(monkeypatch):
    """Planted bug: the model is given the protected rows themselves, not a copy."""

    def take(values, rows):
        whole = len(rows) == len(LABELS_VAL) and (np.diff(rows) == 1).all()
        return values if whole else _evaluation_take(values, rows)

    _evaluation_take = original("train and score: take_rows")
    put(monkeypatch, "train and score: take_rows", take)


def one_failure_fails_all(monkeypatch):
    plant(monkeypatch, "one failing record fails all")


@pytest.fixture(params=[0, 7])
def i(request):
    return request.param


class TestBruteForce:
    def test_rows_of_lists(self, i):
        rows = X_VAL.tolist()
        neighbours = [(with_record(rows, i, bad), LABELS_VAL) for bad in BAD_ROWS]
        for estimator in (LogisticRegression(), DecisionTreeClassifier(random_state=0)):
            assert largest_change(estimator, X, LABELS, rows, LABELS_VAL, neighbours) <= 1

    def test_targets(self, i):
        for bad in BAD_TARGETS:
            y_val = LABELS_VAL.tolist()
            neighbours = [(X_VAL, with_record(y_val, i, bad))]
            assert largest_change(LogisticRegression(), X, LABELS, X_VAL, y_val, neighbours) <= 1

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("scoring", ["neg_log_loss", "neg_brier_score"])
    def test_probabilities(self, scoring, i):
        y_val = LABELS_VAL.tolist()
        neighbours = [(X_VAL, with_record(y_val, i, bad)) for bad in (*BAD_TARGETS, 1 - y_val[i])]
        neighbours += [(with_record(X_VAL.tolist(), i, bad), y_val) for bad in BAD_ROWS]
        tree = DecisionTreeClassifier(random_state=0)
        scorer = resolve_scorer(scoring, tree, n_classes=2)
        assert largest_change(tree, X, LABELS, X_VAL, y_val, neighbours, scorer) <= 1

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("scoring", ["neg_mean_squared_error", "neg_mean_absolute_error"])
    @pytest.mark.parametrize("bound", [1.0, 1e6])
    def test_errors_of_regressors(self, scoring, bound, i):
        y_val = NUMBERS_VAL.tolist()
        neighbours = [(X_VAL, with_record(y_val, i, bad)) for bad in (*BAD_TARGETS, -y_val[i])]
        neighbours += [(with_record(X_VAL.tolist(), i, bad), y_val) for bad in BAD_ROWS]
        scorer = resolve_scorer(scoring, Ridge(), bound)
        candidates = [{"alpha": alpha} for alpha in (1e-3, 1.0, 1e3)]
        change = largest_change(Ridge(), X, NUMBERS, X_VAL, y_val, neighbours, scorer, candidates)
        assert change <= 1

    def test_opposite_targets_use_the_whole_bound(self):
        # y' = -y with a bound that both losses exceed on one side only: the change is the bound.
        y_val = np.full(12, 50.0)
        scorer = resolve_scorer("neg_mean_absolute_error", Ridge(), 1.0)
        near = [(X_VAL, np.r_[LinearRegression().fit(X, NUMBERS).predict(X_VAL[:1]), y_val[1:]])]
        change = largest_change(LinearRegression(), X, NUMBERS, X_VAL, y_val, near, scorer)
        assert change == pytest.approx(1, abs=1e-6)

    def test_unclipped_losses_are_caught(self, monkeypatch):
        y_val = NUMBERS_VAL.tolist()
        neighbours = [(X_VAL, with_record(y_val, 3, 1e6))]
        scorer = resolve_scorer("neg_mean_squared_error", Ridge(), 1.0)
        scorer.bound, scorer.units = 1e9, 10**9  # what a loss that is not clipped would do
        honest = resolve_scorer("neg_mean_squared_error", Ridge(), 1.0)
        unclipped = largest_change(Ridge(), X, NUMBERS, X_VAL, y_val, neighbours, scorer)
        clipped = largest_change(Ridge(), X, NUMBERS, X_VAL, y_val, neighbours, honest)
        assert clipped <= 1 < unclipped * scorer.bound


class TestContainers:
    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("convert", [sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix])
    def test_sparse(self, convert, i):
        neighbours = []
        for value in (math.nan, math.inf, 1e300, -1e300):
            changed = X_VAL.copy()
            changed[i] = value
            neighbours.append((convert(changed), LABELS_VAL))
        args = (sparse.csr_matrix(X), LABELS, convert(X_VAL), LABELS_VAL, neighbours)
        assert largest_change(LogisticRegression(), *args) <= 1

    def test_the_only_number_of_sparse_rows(self, i):
        rng = np.random.RandomState(5)
        public = sparse.csr_matrix(rng.randint(0, 3, size=(400, 4)).astype(float))
        labels, empty = rng.randint(2, size=400), sparse.csr_matrix((12, 4))
        changed = empty.tolil()
        changed[i, 0] = 1.0
        stored = sparse.csr_matrix(([0.0], ([i], [0])), shape=empty.shape)  # a zero, written down
        neighbours = [(changed.tocsr(), LABELS_VAL), (stored, LABELS_VAL)]
        model = KNeighborsClassifier(metric="manhattan")  # many training rows are equally near
        candidates = [{"n_neighbors": k} for k in (1, 3, 5, 7, 9, 11)]
        args = (public, labels, empty, LABELS_VAL, neighbours, None, candidates)
        assert largest_change(model, *args) <= 1

    def test_text(self, i):
        documents = ["good fine", "bad poor", "good", "poor"] * 3
        labels = np.array([1, 0, 1, 0] * 3)
        neighbours = [
            (with_record(documents, i, bad), labels)
            for bad in (None, math.nan, b"\xff\xfe", ["good"], 3, "", "unseen words", Hostile())
        ]
        model = make_pipeline(CountVectorizer(), LogisticRegression())
        args = (documents, labels, documents, labels, neighbours)
        assert largest_change(model, *args) <= 1

    def check_mixed_frames(self, i, *models):
        frame, frame_val = mixed_frame(40), mixed_frame(12)
        y, y_val = (frame.a > 0).to_numpy(int), (frame_val.a > 0).to_numpy(int)
        neighbours = []
        for column in frame_val.columns:
            for bad in ("text", None, math.inf, 10**400, 2.5, Hostile()):
                changed = frame_val.copy()
                values = with_record(changed[column].tolist(), i, bad)
                cells = np.empty(12, dtype=object)
                for k, value in enumerate(values):
                    cells[k] = value
                changed[column] = pd.Series(cells, dtype=object)
                neighbours.append((changed, y_val))
        for model in models:
            assert largest_change(model, frame, y, frame_val, y_val, neighbours) <= 1

    @pytest.mark.slow
    def test_mixed_frame(self, i):
        self.check_mixed_frames(i, by_type() if i == 0 else as_text())

    @pytest.mark.slow
    def test_mixed_frame_in_both_ways(self, i):
        self.check_mixed_frames(i, by_type(), as_text())

    def test_column_type_of_one_record_is_caught(self, monkeypatch):
        # Planted bug: the other records of a column with a text are read as floats, not integers.
        frame, frame_val = mixed_frame(40), mixed_frame(12)
        y, y_val = (frame.a > 0).to_numpy(int), (frame_val.a > 0).to_numpy(int)
        changed = frame_val.astype({"a": object})
        changed.loc[3, "a"] = "text"
        args = (as_text(), frame, y, frame_val, y_val, [(changed, y_val)])
        assert largest_change(*args) <= 1
        put(monkeypatch, "public types: _frame_as_public", frame_as_floats)
        assert largest_change(*args) > 1

    def test_equal_row_labels(self, monkeypatch):
        # A model that joins by row label fails on a batch with equal labels: not on its records.
        def double(X):
            return X.join(X[["b"]].rename(columns={"b": "c"}).reindex(X.index))

        model = make_pipeline(FunctionTransformer(double), LogisticRegression())
        frame = pd.DataFrame(X, columns=["a", "b", "d"])
        frame_val = pd.DataFrame(X_VAL, columns=["a", "b", "d"])
        labels, missing = frame_val.copy(), frame_val.copy()
        labels.index = [0, 0, *range(2, 12)]
        missing.iloc[4, 0] = math.nan
        neighbours = [(labels, LABELS_VAL), (missing, LABELS_VAL)]
        args = (model, frame, LABELS, frame_val, LABELS_VAL, neighbours)
        assert largest_change(*args) <= 1
        one_failure_fails_all(monkeypatch)
        assert largest_change(*args) > 1


def frame_as_floats(X_val, X_public, unreadable):
    if "a" not in X_val or X_val.a.dtype != object:  # the index labels, or no text in the column
        return X_val, unreadable
    values, bad = original("public types: _rows_as_numbers")([[value] for value in X_val.a], 1)
    return X_val.assign(a=values[:, 0]), bad


def mixed_frame(n):
    rng = np.random.RandomState(n)
    return pd.DataFrame(
        {
            "a": rng.randint(-2, 3, n),
            "b": rng.normal(size=n),
            "c": rng.choice(["u", "v"], n).astype(object),
            "d": pd.array(rng.randint(0, 5, n), dtype="Int64"),
        }
    )


def by_type():
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b", "d"]),
        (OneHotEncoder(handle_unknown="ignore"), ["c"]),
    )
    return make_pipeline(columns, LogisticRegression())


def text_of(X):
    return X.astype(str)


def as_text():
    encoder = make_pipeline(FunctionTransformer(text_of), OneHotEncoder(handle_unknown="ignore"))
    return make_pipeline(make_column_transformer((encoder, ["a"])), LogisticRegression())


class TestIsolation:
    """Traps in which one record reached the others' losses, or could have."""

    def test_models_that_write_into_their_input(self, monkeypatch):
        model = make_pipeline(StandardScaler(copy=False), LogisticRegression())
        bad = X_VAL + 5.0
        before = bad.copy()
        bad[5, 1] = math.nan
        args = (model, X + 5.0, LABELS, X_VAL + 5.0, LABELS_VAL, [(bad, LABELS_VAL)])
        candidates = ({"logisticregression__C": 1.0}, {"logisticregression__C": 2.0})
        assert largest_change(*args, candidates=candidates) <= 1
        np.testing.assert_array_equal(np.delete(bad, 5, 0), np.delete(before, 5, 0))
        unprotected_batches(monkeypatch)
        assert largest_change(*args, candidates=candidates) > 1

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("convert", [np.asarray, np.asfortranarray, pd.DataFrame])
    def test_rounding_of_the_others(self, convert):
        assert self.rounding_change(convert) <= 1

    def test_rounding_is_caught(self, monkeypatch):
        unprotected_batches(monkeypatch)
        assert self.rounding_change(np.asfortranarray) > 1

    def rounding_change(self, convert):
        rng = np.random.RandomState(1)
        wide, wide_val = rng.normal(size=(60, 33)), rng.normal(size=(12, 33))
        targets = rng.normal(size=60)
        bad = wide_val.copy()
        bad[5, 0] = math.nan
        return largest_change(
            Ridge(),
            convert(wide),
            targets,
            convert(wide_val),
            np.zeros(12),
            [(convert(bad), np.zeros(12))],
            CHAOS,
            [{"alpha": alpha} for alpha in np.geomspace(1e-3, 1e3, 30)],
        )

    @pytest.mark.slow
    def test_of_a_frame_that_refuses_equal_labels(self, monkeypatch):
        """Another row takes the place of a bad one: such a frame was then predicted in parts."""

        def convert(rows):
            return pd.DataFrame(rows).set_flags(allows_duplicate_labels=False)

        assert self.rounding_change(convert) <= 1
        put(monkeypatch, "protected rows: _repeatable", lambda values: values)
        assert self.rounding_change(convert) > 1

    def test_exceptions_from_predict(self, i, monkeypatch):
        bad = X_VAL.copy()
        bad[i] = 99.0
        args = (Thrower(), X, LABELS, X_VAL, LABELS_VAL, [(bad, LABELS_VAL)])
        assert largest_change(*args) <= 1
        one_failure_fails_all(monkeypatch)
        assert largest_change(*args) > 1

    def test_predictions_that_lose_a_row(self, i):
        bad = X_VAL.copy()
        bad[i] = 99.0
        args = (RowDropper(), X, LABELS, X_VAL, LABELS_VAL, [(bad, LABELS_VAL)])
        assert largest_change(*args) <= 1

    @pytest.mark.parametrize("n_jobs", [2, pytest.param(-2, marks=pytest.mark.slow)])
    def test_a_record_that_cannot_be_sent_to_a_worker(self, n_jobs):
        from joblib import parallel_config

        y_val = with_record(LABELS_VAL.tolist(), 4, Hostile())
        scorer = resolve_scorer("accuracy", LogisticRegression())
        candidates = [{"C": 1.0}, {"C": 2.0}]
        here = totals(LogisticRegression(), X, LABELS, X_VAL, y_val, scorer, candidates)
        with parallel_config(backend="threading" if n_jobs > 0 else "loky"):
            there = totals(
                LogisticRegression(), X, LABELS, X_VAL, y_val, scorer, candidates, abs(n_jobs)
            )
        assert here == there
        assert max(here) < 6 * scorer.units

    def test_all_bad_is_the_worst_loss(self):
        scorer = resolve_scorer("accuracy", LogisticRegression())
        args = (LogisticRegression(), X, LABELS, X_VAL * math.nan, LABELS_VAL, scorer)
        assert totals(*args) == [12 * scorer.units]


class Thrower(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        if (X == 99.0).any():
            raise RuntimeError(f"cannot predict {X}")
        return (X[:, 0] > 1).astype(int)


class RowDropper(Thrower):
    def predict(self, X):
        return (X[(X != 99.0).all(axis=1), 0] > 1).astype(int)


class Warner(RegressorMixin, BaseEstimator):
    def __init__(self, depth=1):
        self.depth = depth

    def fit(self, X, y):
        self.tree_ = DecisionTreeRegressor(max_depth=self.depth, random_state=0).fit(X, y)
        return self

    def predict(self, X):
        warnings.warn(f"largest row {np.max(X)}", stacklevel=2)
        return self.tree_.predict(X)


def protected_sets():
    """Protected data of one schema: 12 rows (a list) and 12 targets (a list)."""
    yield X_VAL.tolist(), NUMBERS_VAL.tolist()
    yield (-1e6 * X_VAL).tolist(), (1e6 * NUMBERS_VAL).tolist()
    yield BAD_ROWS[:12], ["text"] * 12
    yield X_VAL.tolist(), (BAD_TARGETS * 2)[:12]
    yield [Hostile() for _ in range(12)], [Hostile() for _ in range(12)]


SEARCHES = {
    "grid": lambda e, **k: DPGridSearchCV(e, {"depth": [1, 2, 3]}, **k),
    "grid without guide": lambda e, **k: DPGridSearchCV(e, {"depth": [1, 2]}, guide=False, **k),
    "randomized": lambda e, **k: DPRandomizedSearchCV(e, {"depth": (1, 6)}, n_iter=3, **k),
    "bayes": lambda e, **k: DPBayesSearchCV(
        e, {"depth": (1, 6)}, n_iter=4, n_initial_points=3, prior_weight=0, **k
    ),
    "bayes with a public prior": lambda e, **k: DPBayesSearchCV(
        e, {"depth": (1, 6)}, n_iter=4, n_initial_points=3, **k
    ),
    "bayes with a given prior": lambda e, **k: DPBayesSearchCV(
        e, {"depth": (1, 6)}, n_iter=4, n_initial_points=3, prior_weight=2.0, **k
    ),
    "Kusner 1": lambda e, **k: DPBayesSearchCV(
        e, {"depth": (1, 6)}, n_iter=4, mechanism=Kusner2015(), guide=False, score_fraction=0, **k
    ),
}


class TestVanishingBudget:
    """Fixed noise and no budget: everything that can be observed is equal."""

    @pytest.mark.slow
    @pytest.mark.parametrize("name", SEARCHES)
    def test_equal(self, name, monkeypatch, capsys):
        monkeypatch.setattr("time.time", lambda: 0.0)
        monkeypatch.setattr("time.perf_counter", lambda: 0.0)
        seen = {observe(name, data, capsys) for data in protected_sets()}
        assert len(seen) == 1

    def test_a_budget_is_distinguished(self, monkeypatch, capsys):
        # The same test with a budget sees the data: it is not blind.
        monkeypatch.setattr("time.time", lambda: 0.0)
        monkeypatch.setattr("time.perf_counter", lambda: 0.0)
        seen = {observe("grid", data, capsys, epsilon=1e3) for data in protected_sets()}
        assert len(seen) > 1

    def test_a_warning_is_distinguished(self, monkeypatch, capsys):
        monkeypatch.setattr("time.time", lambda: 0.0)
        monkeypatch.setattr("time.perf_counter", lambda: 0.0)
        plant(monkeypatch, "models' warnings and output come through")
        data = list(protected_sets())[:2]
        seen = {observe("grid without guide", d, capsys) for d in data}
        assert len(seen) > 1


def observe(name, data, capsys, epsilon=1e-9):
    """Everything that comes out of a fit with seeded noise."""
    search = SEARCHES[name](
        Warner(), epsilon=epsilon, loss_bound=9.0, cv=2, verbose=3, random_state=7
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, NUMBERS, X_val=data[0], y_val=data[1])
    texts = sorted(f"{type(w.message)} {w.message}" for w in caught)
    return (
        pickle.dumps(search),
        repr(search),
        search._repr_html_()[-9:],
        *texts,
        capsys.readouterr(),
    )
