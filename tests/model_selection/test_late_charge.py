"""Public mistakes cost nothing: the charge comes right before the first protected value is read."""

import warnings
from functools import partial
from typing import ClassVar

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, PredefinedSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import ClassifierTags
from sklearn.utils.estimator_checks import check_estimator

from _support.noted import NotingRows, note_charges
from skdpbo import (
    DPBayesSearchCV,
    DPGIBOSearchCV,
    DPGridSearchCV,
    DPSparseGPClassifier,
    DPSparseGPRegressor,
    make_per_record_scorer,
)
from skdpbo.exceptions import BudgetExceededError, DryRunWarning
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.model_selection import Chunks, Descent, PerRecordScorer, PrivateSelection
from skdpbo.privacy import PrivacyLedger

pytestmark = pytest.mark.usefixtures("few_public_candidates")

RNG = np.random.RandomState(0)
X = RNG.normal(size=(90, 3))
LABELS = (X[:, 0] > 0).astype(int)
VALIDATION = {"X_val": X[:20], "y_val": LABELS[:20]}
MISSING = np.where(np.arange(270).reshape(90, 3) == 7, np.nan, X)


def raising(y, prediction):
    raise RuntimeError("a bad scorer")


def of_its_batch(y, prediction):
    return np.full(len(y), np.mean(y))


BAD_SCORER = make_per_record_scorer(raising, bound=1.0)
MIXING_SCORER = make_per_record_scorer(of_its_batch, bound=1.0)
MISTAKES = {
    "mixed losses": (LogisticRegression(), {"C": [1e-4, 1.0]}, {"scoring": MIXING_SCORER}, X),
    "response": (SVC(), {"C": [1.0, 2.0]}, {"scoring": "neg_log_loss"}, X),
    "value": (LogisticRegression(), {"C": [-1, "a"]}, {}, X),
    "name": (LogisticRegression(), {"c": [1.0]}, {}, X),
    "missing": (LogisticRegression(), {"C": [1.0]}, {}, MISSING),
    "scorer": (LogisticRegression(), {"C": [1.0]}, {"scoring": BAD_SCORER}, X),
}


SHAPES = {
    "three dimensions": (X[:, :, None], "of X are: ValueError: Found array with dim 3"),
    "objects of three": (X[:, :, None].astype(object), "of X are: ValueError: Found array with"),
    "list of three": (X[:, :, None].tolist(), "X must have at most two dimensions"),
    "list of numbers": (X[:, 0].tolist(), "Expected 2D array.*got 1D array instead"),
    "list of texts": (["a b"] * 90, "Expected 2D array.*got 1D array instead"),
    "list of dicts": ([{"a": 0.5}] * 90, "Expected 2D array.*got 1D array instead"),
    "no columns": (np.zeros((90, 0)), "Found array with 0 feature"),
    "list of no columns": ([[]] * 90, "Found array with 0 feature"),
}


MODEL = DPLogisticRegression(X_bounds=(-9, 9), classes=[0, 1])
ALL = {
    "chunks": DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, protect=Chunks(3)),
    "models": DPGridSearchCV(MODEL, {"C": [0.1, 1.0]}, protect="all", epsilon=5.0),
    "descent": DPGIBOSearchCV(MODEL, {"C": (0.1, 1.0)}, protect="all", epsilon=5.0),
}


@pytest.mark.quick_cases(7)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("search", ALL)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_a_shape_that_the_estimator_refuses_cost_nothing(shape, search):
    rows, error = SHAPES[shape]
    for y in (LABELS, LABELS.tolist()):
        with PrivacyLedger(5.0, 1e-3) as ledger, pytest.raises(ValueError, match=error) as caught:
            clone(ALL[search]).fit(rows, y)
        assert ledger.entries == ()
        assert "array=" not in str(caught.value)  # of synthetic rows


@pytest.mark.parametrize("search", ALL)
def test_a_truth_value_as_random_state_costs_nothing(search):
    # For scikit-learn it is an integer.
    with PrivacyLedger(5.0, 1e-3) as ledger, pytest.raises(TypeError, match=r"^random_state must"):
        clone(ALL[search]).set_params(random_state=True).fit(X, LABELS)
    assert ledger.entries == ()


def test_arrays_of_three_dimensions_are_for_estimators_that_take_them():
    search = DPGridSearchCV(DummyClassifier(), {}, protect=Chunks(3), epsilon=5.0)
    assert search.fit(X[:, :, None], LABELS).privacy_.status == "proved"


@pytest.mark.quick_cases(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("guide", [True, False])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_budget_is_whole(mistake, guide):
    estimator, space, options, rows = MISTAKES[mistake]
    search = DPGridSearchCV(estimator, space, guide=guide, **options)
    with PrivacyLedger(epsilon=1.0) as ledger:
        with pytest.raises((ValueError, TypeError, AttributeError, RuntimeError)):
            search.fit(rows, LABELS, **VALIDATION)
        assert ledger.entries == ()
        repaired = DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, guide=guide)
        repaired.fit(X, LABELS, **VALIDATION)
    assert [entry.guarantee for entry in ledger.entries] == [repaired.privacy_]


class Silent(BaseEstimator):
    """A classifier without a method `score`."""

    def __init__(self, a=1):
        self.a = a

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"guide": False}, {"protect": "all"}])
def test_an_estimator_without_a_score_of_its_own_needs_scoring(options):
    search = DPGridSearchCV(Silent(), {"a": [1, 2]}, cv=None, **options)
    with PrivacyLedger(epsilon=2.0, delta=1e-3) as ledger:
        with pytest.raises(TypeError, match="'score' method"):
            search.fit(X, LABELS, **({} if "protect" in options else VALIDATION))
        assert ledger.entries == ()
        assert "best_params_" not in vars(search)
        search.set_params(scoring="accuracy").fit(X, LABELS)
        assert len(ledger.entries) == 1


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.int64, np.float64, bool, np.float32])
def test_sparse_targets_of_any_type_are_read_in_chunks(dtype):
    y = sparse.csr_array(np.column_stack([LABELS, 1 - LABELS]).astype(dtype))
    how = {"protect": Chunks(4), "epsilon": 200.0, "score_fraction": 0.5}
    model = OneVsRestClassifier(LogisticRegression())
    search = DPGridSearchCV(model, {"estimator__C": [1, 2]}, **how)
    assert search.fit(X, y, X_val=X[:20] + 0, y_val=y[:20]).best_score_ > 0.3  # 0 if all is lost


class Bare(PerRecordScorer):
    """A scorer of a user's with what a search asks for, and no function of losses."""

    clipped = None

    def __init__(self):
        self.name, self.response_method = "bare", "predict"
        self.bound = self.offset = 1.0
        self.units = self.worst_outcome = 1

    def __call__(self, estimator, X, y=None):
        return estimator.score(X, y)

    def record_losses(self, estimator, X, y=None):
        return (estimator.predict(X) != y).astype(int)


def test_a_scorer_needs_no_function_of_losses():
    how = {"scoring": Bare(), "epsilon": 100.0, "score_fraction": 0.5, "cv": 2}
    search = DPGridSearchCV(LogisticRegression(), {}, **how).fit(X, LABELS, **VALIDATION)
    assert search.best_score_ > 0.8


def cached_response(model, rows):
    return model.predict(rows)


@pytest.mark.parametrize("place", ["loss", "response", "partial", "one of several"])
def test_no_function_of_a_scorer_may_be_cached(place, tmp_path):
    cache = joblib.Memory(tmp_path, verbose=0).cache
    loss, method = misspelt if place == "response" else cache(misspelt), "predict"
    if place in ("response", "partial"):
        method = cache(cached_response)
    method = partial(method) if place == "partial" else method
    scorer = make_per_record_scorer(loss, bound=1.0, response_method=method, name="own")
    search = DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, scoring=scorer)
    if place == "one of several":
        search.set_params(scoring={"own": scorer, "accuracy": "accuracy"}, refit="own")
    with pytest.raises(ValueError, match=r"cached by joblib\.Memory"):
        search.fit(X, LABELS, **VALIDATION)


@pytest.mark.filterwarnings("ignore")
def test_rows_that_are_set_apart_are_paid_for():
    # What is trained inside a fit is covered by it; the fit itself is not.
    with PrivacyLedger(epsilon=1.0) as ledger:
        search = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}).fit(X, LABELS)
    assert [entry.guarantee for entry in ledger.entries] == [search.privacy_]


class Noted(LogisticRegression):
    """Notes that it is trained."""

    fits: ClassVar[list] = []

    def fit(self, X, y):
        self.fits.append(len(X))
        return super().fit(X, y)


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("protect", ["validation", Chunks(5)])
def test_a_budget_that_cannot_pay_ends_a_fit_before_any_training(protect):
    Noted.fits.clear()
    with PrivacyLedger(epsilon=0.1) as ledger, pytest.raises(BudgetExceededError):
        DPGridSearchCV(Noted(), {"C": [0.1, 1.0]}, protect=protect).fit(X, LABELS)
    assert ledger.entries == ()
    assert Noted.fits == []
    DPGridSearchCV(Noted(), {"C": [0.1, 1.0]}, protect=protect).fit(X, LABELS)
    assert Noted.fits  # in this process, where they are seen


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["X", "y", "X_val", "y_val"])
def test_chunks_are_charged_before_anything_is_read(name, monkeypatch):
    seen = []
    note_charges(monkeypatch, "protection: charge_active_ledger", seen)
    rows = {"X": X[20:], "y": LABELS[20:], **VALIDATION}
    rows[name] = NotingRows(rows[name].tolist(), lambda: seen.append("read"))
    search = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, protect=Chunks(5))
    search.fit(rows.pop("X"), rows.pop("y"), **rows)
    assert seen[0] == "charge"
    assert seen.count("charge") == 1
    assert "read" in seen


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["bayes", "gaussian", "gibo"])
def test_of_every_search(kind):
    options = {"scoring": "neg_log_loss", "delta": 1e-5}
    if kind == "gibo":
        search = DPGIBOSearchCV(SVC(), {"C": (0.1, 1.0)}, n_iter=2, cv=2, **options)
    else:
        mechanism = "gaussian" if kind == "gaussian" else "permute_and_flip"
        options |= {"mechanism": mechanism, "n_iter": 3, "n_candidates": 20}
        search = DPBayesSearchCV(SVC(), {"C": (0.1, 1.0)}, **options)
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5)
    with ledger, pytest.raises((ValueError, AttributeError)):
        search.fit(X, LABELS, **VALIDATION)
    assert ledger.entries == ()


def misspelt(y, prediction):
    return np.absolut(y - prediction)


def of_one_argument(y):
    return y


def score_of(loss):
    return {"scoring": make_per_record_scorer(loss, bound=1.0)}


LOGISTIC, GOOD = LogisticRegression(), {"C": [0.1, 1.0]}
# Mistakes that no value of a row is to blame for: estimator, space, options, rows.
OF_THE_SCHEMA = {
    "a bad value": (LOGISTIC, {"C": [-1.0]}, {}, {}),
    "bad values": (LOGISTIC, {"C": [-1, "a"]}, {}, {}),
    "bad values of two spaces": (LOGISTIC, [{"C": [-1]}, {"C": [1], "tol": [-1]}], {}, {}),
    "a bad value of a step": (
        make_pipeline(StandardScaler(), LOGISTIC),
        {"logisticregression__C": [-1]},
        {},
        {},
    ),
    "a bad option": (LogisticRegression(solver="newton"), GOOD, {}, {}),
    "a misspelt name": (LOGISTIC, {"c": [1.0]}, {}, {}),
    "no probabilities": (SVC(), GOOD, {"scoring": "neg_log_loss"}, {}),
    "no probabilities in lists": (SVC(), GOOD, {"scoring": "neg_log_loss"}, {"X": X.tolist()}),
    "a scorer that raises": (LOGISTIC, GOOD, {"scoring": BAD_SCORER}, {}),
    "a scorer with a misspelt name": (LOGISTIC, GOOD, score_of(misspelt), {}),
    "a scorer of one argument": (LOGISTIC, GOOD, score_of(of_one_argument), {}),
    "an unknown scorer": (LOGISTIC, GOOD, {"scoring": "acuracy"}, {}),
    "an unknown entry of fit": (LOGISTIC, GOOD, {}, {"shoe_size": 43}),
    "no job": (LOGISTIC, GOOD, {"n_jobs": 0}, {}),
    "folds": (LOGISTIC, GOOD, {"cv": 3}, {}),
    "no targets": (LOGISTIC, GOOD, {}, {"y": None}),
    "an empty grid": (LOGISTIC, {"C": []}, {}, {}),
}


@pytest.mark.quick_cases(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mistake", sorted(OF_THE_SCHEMA))
def test_with_chunks(mistake):
    estimator, space, options, rows = OF_THE_SCHEMA[mistake]
    search = DPGridSearchCV(estimator, space, protect=Chunks(2), **options)
    with PrivacyLedger(epsilon=1.0) as ledger:
        with pytest.raises((ValueError, TypeError)):
            search.fit(**{"X": X, "y": LABELS} | rows)
        assert ledger.entries == ()
        DPGridSearchCV(LOGISTIC, GOOD, protect=Chunks(2)).fit(X, LABELS)
    assert len(ledger.entries) == 1


GP = DPSparseGPRegressor(inducing_points=3, epsilon=0.5, noise_variance=0.1)
OF_PRIVATE = {
    "a bad value": (GP, {"noise_variance": [-1.0]}, {}, {}),
    "a bad option": (clone(GP).set_params(posterior="sharp"), {}, {}, {}),
    "a misspelt name": (GP, {"noise": [0.1]}, {}, {}),
    "a scorer that raises": (GP, {}, {"scoring": BAD_SCORER}, {}),
    "no probabilities": (GP, {}, {"scoring": "neg_log_loss"}, {}),
    "an unknown entry of fit": (GP, {}, {}, {"shoe_size": 43}),
    "no job": (GP, {}, {"n_jobs": 0}, {}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mistake", sorted(OF_PRIVATE))
def test_with_private_models(mistake):
    estimator, space, options, rows = OF_PRIVATE[mistake]
    once = PrivateSelection(accounting="composition")
    model = clone(estimator)  # of this ledger alone
    search = DPGridSearchCV(model, space, protect=once, loss_bound=1.0, epsilon=8.0, **options)
    with PrivacyLedger(epsilon=9.0, delta=1e-4) as ledger:
        with pytest.raises((ValueError, TypeError)):
            search.fit(X, X[:, 0], **rows)
        assert ledger.entries == ()


BOXES = {"X_bounds": (-4, 4), "y_bounds": (-1, 1)}
GAUSSIAN = {
    "ridge": lambda **budget: DPRidge(**BOXES, **budget),
    "logistic": lambda **budget: DPLogisticRegression(
        X_bounds=(-4, 4), class_weight="balanced", **budget
    ),
    "process": lambda **budget: DPSparseGPRegressor(
        X_bounds="private", y_bounds="private", prior_mean="private", **budget
    ),
    "classifier": lambda **budget: DPSparseGPClassifier(X_bounds=(-4, 4), **budget),
    "trials": lambda **budget: DPGridSearchCV(
        DPRidge(**BOXES), {"alpha": [1.0]}, protect="all", loss_bound=1.0, **budget
    ),
}


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", GAUSSIAN)
def test_noise_beyond_64_bits_is_refused_before_the_charge(name):
    make = GAUSSIAN[name]
    for tiny in (1e-9, 1e-13):
        with PrivacyLedger(epsilon=1.0, delta=0.1) as ledger:
            with pytest.raises(ValueError, match="epsilon and delta are too small together"):
                make(epsilon=tiny, delta=tiny).fit(X, LABELS)
            assert ledger.entries == ()
    least = 1e-6 if name == "trials" else 2e-8  # a trial has a part of both
    with PrivacyLedger(epsilon=1.0, delta=0.1) as ledger:
        make(epsilon=least, delta=least).fit(X, LABELS)
    assert len(ledger.entries) == 1


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in GAUSSIAN if name != "trials"])
def test_no_noise_at_all_is_refused_before_the_charge(name):
    with PrivacyLedger(epsilon=1e20, delta=0.1) as ledger:
        with pytest.raises(ValueError, match="epsilon is too large"):
            GAUSSIAN[name](epsilon=1e17).fit(X, LABELS)
        assert ledger.entries == ()
        GAUSSIAN[name](epsilon=1e12).fit(X, LABELS)
    assert len(ledger.entries) == 1


TRAJECTORIES = {
    "chunks": (DPBayesSearchCV, {"mechanism": "gaussian", "protect": Chunks(9)}, 1e-8),
    "descent": (DPGIBOSearchCV, {"descent": Descent(adaptive_clip=True)}, 1e-12),
}


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TRAJECTORIES)
def test_noise_of_a_trajectory_beyond_64_bits_is_refused_before_the_charge(name):
    make, options, least = TRAJECTORIES[name]
    search = make(Ridge(), {"alpha": (1.0, 2.0)}, n_iter=2, guide=False, loss_bound=1.0, **options)
    search.set_params(score_fraction=0.0)
    with PrivacyLedger(epsilon=1.0, delta=0.1) as ledger:
        with pytest.raises(ValueError, match="64 bits"):
            search.set_params(epsilon=1e-15, delta=1e-15).fit(X, X[:, 0], X_val=-X, y_val=X[:, 0])
        assert ledger.entries == ()
        search.set_params(epsilon=least, delta=least).fit(X, X[:, 0], X_val=-X, y_val=X[:, 0])
        assert len(ledger.entries) == 1


class Particular(LogisticRegression):
    """Fails for the synthetic rows, as a model of particular values does."""

    def fit(self, X, y):
        if len(X) == 60:
            raise self.error("not among the known places")
        return super().fit(X, y)


@pytest.mark.parametrize("error", [ValueError, KeyError, RuntimeError, ZeroDivisionError, OSError])
def test_what_only_synthetic_values_may_fail_is_a_warning(error):
    class Own(Particular):
        pass

    Own.error = error
    search = DPGridSearchCV(Own(), GOOD, protect=Chunks(2))
    with PrivacyLedger(epsilon=1.0) as ledger, pytest.warns(DryRunWarning, match=error.__name__):
        search.fit(X, LABELS)
    assert len(ledger.entries) == 1


@pytest.mark.parametrize(("kind", "refused"), [(float, True), (object, False)])
def test_types_of_objects_are_guessed(kind, refused):
    class Own(Particular):
        error = TypeError

    search = DPGridSearchCV(Own(), GOOD, protect=Chunks(2))
    outcome = (
        pytest.raises(ValueError, match="Nothing was charged")
        if refused
        else pytest.warns(DryRunWarning)
    )
    with outcome:
        search.fit(X.astype(kind), LABELS)


def test_weights_are_not_those_of_the_records():
    seen = []

    class Own(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            seen.append((len(X), set(np.asarray(sample_weight))))
            return super().fit(X, y, sample_weight)

    search = DPGridSearchCV(Own(), {"C": [1.0]}, protect=Chunks(2))
    search.fit(X, LABELS, sample_weight=np.full(90, 7.5))
    assert {weights.pop() for n, weights in seen if n == 60} == {1.0}
    assert {weights.pop() for n, weights in seen if n == 45} == {7.5}


def test_types_of_lists_are_guessed():
    class Own(Particular):
        error = TypeError

    search = DPGridSearchCV(Own(), GOOD, protect=Chunks(2))
    with pytest.warns(DryRunWarning):
        search.fit(X, LABELS.tolist())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.fit(X.tolist(), LABELS)


EXTRA = [{}, {"tol": [0.1]}, {"max_iter": [50]}]


@pytest.mark.parametrize("good", [0, 1, 2])
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.DryRunWarning")
def test_one_good_candidate_is_enough(good):
    values = [-1.0, -2.0, -3.0]
    values[good] = 1.0
    DPGridSearchCV(LOGISTIC, {"C": values}, protect=Chunks(2)).fit(X, LABELS)
    of_each = [{"C": [value], **extra} for value, extra in zip(values, EXTRA, strict=True)]
    DPGridSearchCV(LOGISTIC, of_each, protect=Chunks(2)).fit(X, LABELS)


@pytest.mark.parametrize("guide", [True, False])
def test_charged_before_a_protected_row_is_read(guide, monkeypatch):
    seen = []
    note_charges(monkeypatch, "protection: charge_active_ledger", seen)
    rows = NotingRows(X[:20].tolist(), lambda: seen.append("read"))
    search = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, guide=guide)
    search.fit(X, LABELS, X_val=rows, y_val=LABELS[:20])
    assert seen[0] == "charge"
    assert seen.count("charge") == 1
    assert "read" in seen


class TestFolds:
    """Default folds, and splits of all rows without `X_val`."""

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
    @pytest.mark.parametrize("kind", ["predefined", "list", "generator", "splitter"])
    def test_splits_of_all_rows(self, kind):
        cv = {
            "predefined": PredefinedSplit(np.arange(90) % 3),
            "list": list(KFold(3).split(X)),
            "generator": KFold(3).split(X),
            "splitter": KFold(3),
        }[kind]
        search = DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=cv).fit(X, LABELS)
        assert search.n_splits_ == 3
        assert search.cv is cv

    @pytest.mark.parametrize(("smaller", "folds"), [(1, 2), (2, 2), (3, 3), (40, 5)])
    @pytest.mark.filterwarnings("ignore")
    def test_default(self, smaller, folds):
        labels = np.zeros(90, dtype=int)
        labels[:smaller] = 1
        rows = X + 9 * labels[:, None]
        search = DPGridSearchCV(LogisticRegression(), {"C": [1.0]})
        search.fit(rows, labels, X_val=rows[:20], y_val=labels[:20])
        assert search.n_splits_ == folds

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")
    def test_check_estimator_with_every_default(self):
        search = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]})
        failures = [
            check["check_name"]
            for check in check_estimator(search, on_fail=None)
            if check["status"] == "failed"
        ]
        assert failures == []


class NoRows(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        self.n_features_in_ = 3
        return self

    def predict(self, X):
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("guide", [True, False])
def test_predictions_without_rows_are_a_clear_error(guide):
    search = DPGridSearchCV(NoRows(), {}, guide=guide, loss_bound=1.0)
    with pytest.raises((ValueError, TypeError), match="one prediction for each row"):
        search.fit(X, X[:, 0], X_val=X[:20], y_val=X[:20, 0])


def test_steps_that_are_not_verified_are_named():
    class Own(Ridge):
        pass

    search = DPGridSearchCV(Own(), {}, loss_bound=1.0, guide=False)
    search.fit(X, X[:, 0], X_val=X[:20], y_val=X[:20, 0])
    assert search.privacy_.status == "conditional"
    assert "Own" in str(search.privacy_)
    assert search.set_params(estimator=Ridge()).privacy_guarantee().status == "proved"


def test_candidates_that_are_not_visited_are_not_tried():
    fitted = []

    class Failing(Ridge):
        def fit(self, X, y):
            fitted.append(self.alpha)
            if len(fitted) <= 4:
                raise ValueError("a public error")
            return super().fit(X, y)

    space = {"alpha": (0.1, 10.0)}
    search = DPBayesSearchCV(Failing(), space, mechanism="gaussian", n_iter=4, guide=False)
    with PrivacyLedger(epsilon=1.0, delta=0.1) as ledger:
        with pytest.raises(ValueError, match="a public error"):
            search.set_params(loss_bound=1.0).fit(X, X[:, 0], X_val=X[:20], y_val=X[:20, 0])
        assert ledger.entries == ()
    assert len(set(fitted)) == 4


def test_a_step_that_mixes_rows_is_refused_before_the_charge():
    class Mixing(Ridge):
        def predict(self, X):
            answer = super().predict(X)
            return answer - answer.mean()

    search = DPGridSearchCV(Mixing(), {}, loss_bound=1.0, guide=False)
    ledger = PrivacyLedger(epsilon=1.0)
    with ledger, pytest.raises(ValueError, match="several rows at once"):
        search.fit(X, X[:, 0], X_val=X[:20], y_val=X[:20, 0])
    assert ledger.entries == ()


def negated(y, prediction):
    return -np.abs(y - prediction)


def share_of_errors(y, prediction):
    return np.mean(y != prediction)


OF_ALL = make_per_record_scorer(share_of_errors, bound=1.0)
NEGATED = make_per_record_scorer(negated, bound=10.0)
PROTECTIONS = ({}, {"guide": False}, {"protect": Chunks(4)}, {"protect": "all"})


def refused(search, match, y):
    with PrivacyLedger(epsilon=9.0, delta=1e-3) as ledger, pytest.raises(ValueError, match=match):
        search.fit(X, y)
    assert not ledger.entries


@pytest.mark.parametrize("options", PROTECTIONS)
@pytest.mark.parametrize("scoring", ["accuracy", "f1_macro", "neg_log_loss", "roc_auc"])
def test_a_metric_of_labels_is_refused_for_a_regressor(scoring, options):
    scoring = scoring if "protect" in options else [scoring, "r2"]
    model = DPRidge(X_bounds=(-3, 3), y_bounds=(-3, 3))
    search = DPGridSearchCV(model, {"alpha": [1.0]}, scoring=scoring, refit="r2", **options)
    refused(search, "scoring='[a-z1_]+' needs a classifier, got DPRidge", X[:, 0])


@pytest.mark.parametrize("options", PROTECTIONS[:3])
@pytest.mark.parametrize("scoring", ["accuracy", "neg_mean_squared_error", "f1", "neg_log_loss"])
def test_a_metric_of_targets_is_refused_without_any(scoring, options):
    """Of detectors and mixtures, which `fit` takes without y: "'NoneType' is not iterable"."""
    search = DPGridSearchCV(IsolationForest(), {"n_estimators": [2]}, scoring=scoring, **options)
    refused(search, f"scoring='{scoring}' requires y to be passed", None)


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
@pytest.mark.parametrize("decides", [True, False])
def test_several_metrics_need_one_that_decides(decides):
    scoring = ["accuracy", "f1"]
    search = DPGridSearchCV(LogisticRegression(), {"C": [1]}, scoring=scoring, refit=decides)
    refused(search, r"refit must be set .* one of \['accuracy', 'f1'\]; .* part of epsilon", LABELS)


@pytest.mark.parametrize("options", PROTECTIONS)
@pytest.mark.parametrize(
    "scoring", ["neg_log_loss", "neg_brier_score", "f1_micro", "jaccard_micro"]
)
def test_a_score_of_one_target_is_refused_for_several(scoring, options):
    # The classes of a network of several targets are their numbers: every record would have the
    # worst loss. Micro averages count single labels, not rows of which all are right.
    search = DPGridSearchCV(MLPClassifier(), {"alpha": [1.0]}, scoring=scoring, **options)
    match = f"scoring='{scoring}' needs one target for each row; y has {X.shape[1]} .*'accuracy'"
    labels = (X > 0).astype(int)
    for y in (labels, labels.tolist()):
        refused(search, match, y)


@pytest.mark.parametrize("options", PROTECTIONS)
def test_a_root_is_refused_for_several_targets(options):
    # scikit-learn's is the mean of their roots.
    model = DPRidge(X_bounds=(-3, 3), y_bounds=(-3, 3))
    scoring = "neg_root_mean_squared_error"
    search = DPGridSearchCV(model, {"alpha": [1.0]}, scoring=scoring, loss_bound=1.0, **options)
    match = f"scoring='{scoring}' needs one target for each row; .*'neg_mean_squared_error', over"
    refused(search, match, X[:, :2])


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
@pytest.mark.filterwarnings("ignore:2 of 2 candidates")
@pytest.mark.parametrize("options", PROTECTIONS)
def test_a_loss_that_is_no_number_of_each_record_is_refused_by_name(options):
    model = DPLogisticRegression(X_bounds=(-3, 3), classes=[0, 1])
    search = DPGridSearchCV(model, {"C": [1.0, 2.0]}, scoring=OF_ALL, **options)
    with PrivacyLedger(epsilon=9.0, delta=1e-3) as ledger:
        match = r"scoring: the loss share_of_errors must .* shape \(n,\); it .* of shape \(\)"
        with pytest.raises((TypeError, ValueError), match=match):
            search.fit(X, LABELS)
    assert not ledger.entries


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SelectionCostWarning")
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.DefaultBoundsWarning")
@pytest.mark.parametrize("options", PROTECTIONS)
@pytest.mark.parametrize("dtype", ["U1", "category"])
def test_a_metric_of_numbers_is_refused_for_texts(dtype, options):
    y = pd.Series(np.array(["a", "b"])[LABELS]).astype("category")
    y = y if dtype == "category" else y.to_numpy(dtype)
    model = DPLogisticRegression(X_bounds=(-3, 3))
    search = DPGridSearchCV(model, {"C": [1.0]}, scoring="neg_mean_absolute_error", **options)
    refused(search, "scoring='neg_mean_absolute_error' needs targets that are numbers", y)
    search.fit(X, LABELS)  # numbered grades may be scored by their distance


@pytest.mark.quick_cases(2)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyGradientWarning")
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
@pytest.mark.parametrize("guide", [True, False])
@pytest.mark.parametrize("kind", [DPGridSearchCV, DPBayesSearchCV, DPGIBOSearchCV])
def test_a_negated_loss_is_refused(kind, guide):
    search = kind(Ridge(), {"alpha": [1.0]}, scoring=NEGATED, guide=guide)
    if kind is not DPGridSearchCV:
        search = kind(Ridge(), {"alpha": (0.1, 1.0)}, n_iter=2, scoring=NEGATED, guide=guide)
    if kind is DPBayesSearchCV and not guide:
        search.set_params(mechanism="gaussian")
    refused(search, "scoring: no loss of .* is above 0", X[:, 0])


def negated_for_large_targets(y, prediction):
    return np.where(y > 9, -np.abs(y - prediction), 0.0)


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
def test_a_negated_loss_that_public_folds_alone_show_is_refused():
    """Where nothing is lost on the few rows that a scorer is tried on."""
    y = np.where(np.arange(len(X)) < len(X) // 2, 0.0, 10.0)
    scorer = make_per_record_scorer(negated_for_large_targets, bound=10.0)
    refused(DPGridSearchCV(Ridge(), {"alpha": [1.0]}, scoring=scorer), "no loss of .* above 0", y)


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.DefaultBoundsWarning")
def test_a_negated_loss_is_warned_of_where_no_row_is_public():
    search = DPGridSearchCV(Ridge(), {"alpha": [1.0]}, scoring=NEGATED, protect=Chunks(4))
    with pytest.warns(DryRunWarning, match="no loss of .* is above 0"):
        search.fit(X, X[:, 0])


class OfAllRows(LogisticRegression):
    """A model that warns where it is trained on all public rows."""

    def fit(self, X, y):
        if len(X) == 90:
            warnings.warn("not converged", ConvergenceWarning, stacklevel=2)
        return super().fit(X, y)


SEARCHES = {
    "guided": partial(DPGridSearchCV, param_grid={"C": [0.1, 1.0]}),
    "unguided": partial(DPGridSearchCV, param_grid={"C": [0.1, 1.0]}, guide=False),
    "noisy scores": partial(
        DPBayesSearchCV,
        search_spaces={"C": (0.1, 1.0)},
        mechanism="gaussian",
        n_iter=2,
        n_initial_points=2,
        n_candidates=4,
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_warning_that_is_an_error_does_not_end_the_last_training(name):
    search = SEARCHES[name](OfAllRows())
    with (
        PrivacyLedger(epsilon=1.0, delta=1e-3) as ledger,
        warnings.catch_warnings(record=True) as seen,
    ):
        warnings.simplefilter("error", ConvergenceWarning)
        search.fit(X, LABELS, **VALIDATION)
        with pytest.raises(ConvergenceWarning):  # the caller's filters are as they were
            warnings.warn("not converged", ConvergenceWarning, stacklevel=1)
    assert [shown.category for shown in seen] == [ConvergenceWarning]
    assert [entry.guarantee for entry in ledger.entries] == [search.privacy_]
    assert hasattr(search, "best_estimator_")
