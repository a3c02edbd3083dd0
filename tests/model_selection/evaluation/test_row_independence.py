"""Steps that look at several rows are found in every container, mode and place."""

import pickle
import random
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from _support.internals import MixedRowsError, mixes_rows, refuse_row_mixing, watched_steps
from _support.planted import put

RNG = np.random.RandomState(0)
X = RNG.uniform(size=(30, 3))
Y = (X[:, 0] > 0.5).astype(int)


def values(rows):
    return np.asarray(rows, dtype=float)


def where_missing(statistic):
    return lambda rows: np.where(np.isnan(values(rows)), statistic(values(rows)), values(rows))


def needs_large(rows):
    if values(rows).max() < 5:
        raise ValueError("ages expected")
    return values(rows)


MIXING = {
    "mean": lambda rows: values(rows) - values(rows).mean(axis=0),
    "median": lambda rows: values(rows) - np.median(values(rows), axis=0),
    "minimum": lambda rows: values(rows) - values(rows).min(axis=0),
    "maximum": lambda rows: values(rows) / values(rows).max(axis=0),
    "range": lambda rows: (values(rows) - values(rows).min()) / np.ptp(values(rows)),
    "rank": lambda rows: rankdata(values(rows), axis=0),
    "filled by the mean": where_missing(lambda rows: np.nanmean(rows, axis=0)),
    "filled by the median": where_missing(lambda rows: np.nanmedian(rows, axis=0)),
    "filled by the last": lambda rows: pd.DataFrame(values(rows)).ffill().to_numpy(),
    "only where some are missing": lambda rows: values(rows) + np.isnan(values(rows)).any(),
    "counts": lambda rows: np.array([[(values(rows) == row).all(1).sum()] for row in values(rows)]),
    "outliers": lambda rows: np.minimum(values(rows), np.quantile(values(rows), 0.9)),
    "order": lambda rows: np.sort(values(rows), axis=0),
    "the row before": lambda rows: np.roll(values(rows), 1, axis=0),
    "scale above a bound": lambda rows: values(rows) / max(values(rows).max(), 10.0),
    "raises by the batch": needs_large,
    "drops rows": lambda rows: values(rows)[:1],
    "labels by the mean": lambda rows: values(rows)[:, 0] > values(rows)[:, 0].mean(),
    "mean and noise": lambda rows: (
        values(rows) - values(rows).mean(axis=0) + np.random.uniform(size=np.shape(rows))
    ),
}
APART = {
    "nothing": lambda rows: rows,
    "logarithm": lambda rows: np.log(np.abs(values(rows))),
    "norm": lambda rows: values(rows) / np.linalg.norm(values(rows), axis=1, keepdims=True),
    "product": lambda rows: values(rows) @ np.arange(9.0).reshape(3, 3),
    "constant": where_missing(lambda rows: 0.0),
    "bounds": lambda rows: np.clip(values(rows), 0, 1),
    "own mean": lambda rows: values(rows).mean(axis=1, keepdims=True),
    "labels": lambda rows: np.where(values(rows)[:, 0] > 0.5, "a", "b"),
    "noise": lambda rows: values(rows) + np.random.uniform(size=np.shape(rows)),
    "two": lambda rows: (values(rows), values(rows).sum(axis=1)),
    "raises for missing": lambda rows: 1 / (not np.isnan(values(rows)).any()) * values(rows),
}
CONTAINERS = {
    "array": np.asarray,
    "float32": lambda rows: rows.astype(np.float32),
    "objects": lambda rows: rows.astype(object),
    "list": lambda rows: rows.tolist(),
    "tuples": lambda rows: [tuple(row) for row in rows.tolist()],
    "frame": lambda rows: pd.DataFrame(rows, columns=list("abc")),
    "few": lambda rows: rows[:3],
}


@pytest.mark.quick_cases(44)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("container", sorted(CONTAINERS))
@pytest.mark.parametrize("name", sorted(MIXING))
def test_statistics_of_a_batch_are_found(name, container):
    assert mixes_rows(MIXING[name], CONTAINERS[container](X))


@pytest.mark.quick_cases(30)
@pytest.mark.parametrize("container", sorted(CONTAINERS))
@pytest.mark.parametrize("name", sorted(APART))
def test_functions_of_single_rows_pass(name, container):
    assert not mixes_rows(APART[name], CONTAINERS[container](X))


WORDS = ["red", "blue", "green"]
TEXTS = {
    "most frequent": lambda frame: frame.fillna(frame.mode().iloc[0]),
    "counts": lambda frame: frame.assign(n=frame.groupby("word")["word"].transform("size")),
    "mean of a group": lambda frame: frame.assign(
        mean=frame.groupby("word", observed=True)["number"].transform("mean")
    ),
    "codes": lambda frame: frame.assign(code=frame["word"].astype("category").cat.codes),
    "types": lambda frame: frame.astype({"number": object}).infer_objects().astype(str),
}
FRAME = pd.DataFrame({"word": np.resize(WORDS, 30), "number": np.arange(30)})
TYPES = {
    "objects": lambda frame: frame.astype({"word": object}),
    "texts": lambda frame: frame.astype({"word": "string", "number": "Int64"}),
    "categories": lambda frame: frame.astype({"word": "category", "number": float}),
}


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("name", "types"),
    [
        *[(name, "objects") for name in TEXTS if name != "types"],
        ("most frequent", "texts"),
        ("mean of a group", "categories"),
        ("counts", "texts"),
    ],
)
def test_frames_of_texts(name, types):
    assert mixes_rows(TEXTS[name], TYPES[types](FRAME))
    assert not mixes_rows(lambda frame: frame.assign(n=frame["word"].str.len()), FRAME)


def test_rows_with_missing_cells_are_judged():
    """They are among the kept ones, and pandas.NA equals itself alone."""
    frame = TYPES["texts"](FRAME)
    frame.loc[20, "word"] = pd.NA
    assert mixes_rows(TEXTS["counts"], frame)
    assert not mixes_rows(lambda rows: rows, frame)


def test_sparse_rows_and_texts():
    S = sparse.csr_array(np.where(X > 0.5, X, 0))
    assert mixes_rows(lambda rows: rows - rows.mean(axis=0)[None, :], S)
    assert not mixes_rows(lambda rows: rows * 2, S)
    texts = [" ".join(WORDS[: 1 + i % 3]) for i in range(20)]
    assert mixes_rows(lambda rows: CountVectorizer().fit(texts).transform(sorted(rows)), texts)
    assert not mixes_rows(CountVectorizer().fit(texts).transform, texts)
    assert not mixes_rows(lambda rows: [len(text) for text in rows], np.array(texts))


class Standardise(TransformerMixin, BaseEstimator):
    """A user's transformer that fits nothing."""

    def __init__(self, mixes=True):
        self.mixes = mixes

    def fit(self, X, y=None):
        self.n_ = 1
        return self

    def transform(self, X):
        X = values(X)
        return (X - X.mean(axis=0)) / X.std(axis=0) if self.mixes else X


class Noting(Standardise):
    """Keeps what it is shown: each row is compared with all before."""

    def transform(self, X):
        answer = []
        for row in values(X):
            self.largest_ = max(getattr(self, "largest_", 0), row.max())
            answer.append(row / self.largest_)
        return np.array(answer)


class Ranked(ClassifierMixin, BaseEstimator):
    """Predicts by the rank in the batch."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[(rankdata(values(X)[:, 0]) > len(X) / 2).astype(int)]


class Filled(Ridge):
    """Missing values alone are taken from the batch."""

    def predict(self, X):
        X = values(X)
        mean = np.nanmean(X, axis=0) if np.isfinite(X).any(axis=0).all() else 0.0
        return super().predict(np.where(np.isnan(X), mean, X))


class Deviations(Ridge):
    """The mean is its own, the deviation that of the batch."""

    def predict(self, X, return_std=False):
        mean = super().predict(X)
        return (mean, np.full(len(mean), np.std(mean))) if return_std else mean


def places(step):
    return {
        "pipeline": make_pipeline(step, LogisticRegression()),
        "before trees": make_pipeline(clone(step), DecisionTreeClassifier(max_depth=1)),
        "columns": make_pipeline(make_column_transformer((step, [0, 1])), LogisticRegression()),
        "bagging": BaggingClassifier(make_pipeline(step, LogisticRegression()), n_estimators=2),
        "two deep": make_pipeline(
            make_pipeline(step), FunctionTransformer(), DecisionTreeClassifier()
        ),
    }


@pytest.mark.parametrize("step", [Standardise(), Noting(), FunctionTransformer(MIXING["rank"])])
@pytest.mark.parametrize("place", sorted(places(Standardise())))
def test_the_step_is_named(place, step):
    model = places(step)[place].fit(X, Y)
    before = [*map(repr, model.get_params().values())]
    kind = f"{type(step).__name__} \\(step '.*{type(step).__name__.lower()}'\\)"
    with pytest.raises(MixedRowsError, match=kind):
        refuse_row_mixing(model, X)
    assert [*map(repr, model.get_params().values())] == before
    assert "transform" not in str(vars(step))


@pytest.mark.parametrize("place", ["bagging", "columns", "two deep"])
def test_the_step_is_named_within_others_that_are_not_verified(place, monkeypatch):
    put(monkeypatch, "row-wise steps: LAST_READ", (1, 5))
    with pytest.raises(MixedRowsError, match=r"Noting \(step '.*noting'\)"):
        refuse_row_mixing(places(Noting())[place].fit(X, Y), X)


class HandedOn(FrozenEstimator):
    """Has no method of rows itself: it hands calls on."""


def test_a_copy_of_a_step_that_hands_calls_on_is_compared():
    steps = [HandedOn(Standardise(mixes).fit(X)) for mixes in (False, True, False)]
    model = make_pipeline(*steps, LogisticRegression()).fit(X, Y)
    with pytest.raises(MixedRowsError, match="handedon-2"), watched_steps(model):
        answer = deepcopy(model).predict_proba(X)
    np.testing.assert_array_equal(answer, model.predict_proba(X))


class InPredictions(Standardise):
    """Mixes rows in predictions alone."""

    def fit_transform(self, X, y=None):
        before = self.set_params(mixes=False).fit(X).transform(X)
        self.set_params(mixes=True)
        return before


def test_a_step_that_mixes_rows_in_predictions_alone_is_found():
    model = make_pipeline(InPredictions(), LogisticRegression())
    with pytest.raises(MixedRowsError, match="InPredictions"), watched_steps(model):
        model.fit(X, Y).predict(X)


def test_rows_that_cannot_be_taken_are_not_judged():
    assert not mixes_rows(MIXING["mean"], iter(X))
    refuse_row_mixing(LogisticRegression().fit(X, Y), iter(X))


@pytest.mark.parametrize("place", sorted(places(Standardise())))
def test_the_same_without_mixing_passes(place):
    refuse_row_mixing(places(Standardise(mixes=False))[place].fit(X, Y), X)


@pytest.mark.parametrize("model", [Ranked(), Deviations(), Filled(), make_pipeline(Ranked())])
def test_models_are_tested_themselves(model):
    with pytest.raises(MixedRowsError, match=r"Ranked|Deviations|Filled"):
        refuse_row_mixing(model.fit(X, Y), X)


class CalledByName(ClassifierMixin, BaseEstimator):
    """Calls its own method with names, as LightGBM does."""

    def __init__(self, mixes=False):
        self.mixes = mixes

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[self.predict_proba(scaled=True, X=X)[:, 1].round().astype(int)]

    def predict_proba(self, X, scaled=False):
        X = values(X) if scaled else values(X) + 1
        high = (X[:, 0] > (X[:, 0].mean() if self.mixes else 0)).astype(float)
        return np.column_stack([1 - high, high])


class CalledWithout(CalledByName):
    """Calls itself without naming rows, then as a function of any arguments."""

    def predict(self, X):
        self.rows_ = X
        return self.classes_[self.decision_function().round().astype(int)]

    def decision_function(self, **kwargs):
        return self.predict_proba(X=self.rows_)[:, 1]


class WithoutSignature(CalledWithout):
    """Calls a method of which no signature is known, as some compiled ones."""

    def decision_function(self, **kwargs):
        return self.predict_proba(X=self.rows_)[:, 1]

    decision_function.__signature__ = "none"


@pytest.mark.parametrize("model", [CalledByName(), CalledWithout(), WithoutSignature()])
def test_methods_called_by_name(model):
    model.fit(X, Y)
    with watched_steps(model):
        answer = model.predict(X)
    np.testing.assert_array_equal(answer, model.predict(X))
    model.set_params(mixes=True)
    with pytest.raises(MixedRowsError, match=type(model).__name__), watched_steps(model):
        model.predict_proba(X=X)


def raises(rows):
    raise ValueError("ages expected")


def test_another_failure_does_not_hide_it():
    failing = FunctionTransformer(raises)
    model = make_pipeline(Standardise(), failing, LogisticRegression())
    with pytest.raises(MixedRowsError, match="Standardise"), watched_steps(model):
        model.fit(X, Y)
    assert "transform" not in vars(model[0])
    model = make_pipeline(Standardise(mixes=False), failing, LogisticRegression())
    with pytest.raises(ValueError, match="ages expected"), watched_steps(model):
        model.fit(X, Y)


def generators_around_a_refusal():
    """Return the states of numpy's and Python's generators before and after."""
    model = make_pipeline(Standardise(mixes=False), LogisticRegression()).fit(X, Y)
    states = []
    for look in (lambda *_: None, refuse_row_mixing):
        look(model, X)
        states.append(pickle.dumps((np.random.get_state(), random.getstate())))
    return states


@pytest.mark.slow
def test_nothing_global_changes():
    # In a process of its own: the generators would move with a thread that an earlier test left.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        before, after = alone.submit(generators_around_a_refusal).result()
    assert after == before


def n_large(column):
    return np.sum(column > 1e5)


def n_small(column):
    return np.sum(column < -1e5)


@pytest.mark.parametrize("statistic", [np.mean, np.median, np.max, np.min, len, n_large, n_small])
def test_a_verified_class_that_mixes_is_found(statistic, monkeypatch):
    model = LogisticRegression().fit(X, Y)
    refuse_row_mixing(model, X)
    original = LogisticRegression.predict_proba

    def mixing(self, rows):
        return original(self, rows - statistic(rows[:, 0]))

    # Planted bug in a class of the verified list.
    monkeypatch.setattr(LogisticRegression, "predict_proba", mixing)
    with pytest.raises(MixedRowsError, match="LogisticRegression"):
        refuse_row_mixing(model, X)
