"""Protected rows train nothing, decide nothing but the choice, and are paid for before use."""

import os
import subprocess
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.dummy import DummyRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from _support.internals import protected_positions
from _support.noted import NotingRows
from _support.planted import plant
from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.exceptions import (
    BudgetExceededError,
    DefaultBoundsWarning,
    PublicTrainingWarning,
    SeededNoiseWarning,
)
from skdpbo.privacy import PrivacyLedger

RNG = np.random.RandomState(0)
SECRET = 777.0
X, Y = RNG.normal(size=(40, 2)), np.arange(40) % 2
X_VAL, Y_VAL = np.full((8, 2), SECRET), np.array([0, 1, 2, 3] * 2)  # classes 2, 3: protected only
SEEN = []


class Spy(TransformerMixin, BaseEstimator):
    """A transformer that writes down what it is fitted on, and with which targets."""

    def fit(self, X, y=None):
        SEEN.append((np.array(X, dtype=float), np.array(y)))
        return self

    def transform(self, X):
        return X


class SpyClassifier(ClassifierMixin, Spy):
    def __init__(self, k=0, noisy=False):
        self.k = k
        self.noisy = noisy

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return super().fit(X, y)

    def predict(self, X):
        if self.noisy and (np.asarray(X) == SECRET).any():
            for _ in range(200):
                warnings.warn(f"predicting {X[0]}", stacklevel=1)
        return np.full(len(X), self.k)


SEARCHES = {
    "grid": lambda e, name, **k: DPGridSearchCV(e, {name: [0, 1]}, **k),
    "grid without guide": lambda e, name, **k: DPGridSearchCV(
        e, {name: [0, 1]}, **{**k, "guide": False}
    ),
    "randomized": lambda e, name, **k: DPRandomizedSearchCV(e, {name: (0, 9)}, n_iter=2, **k),
    "bayes": lambda e, name, **k: DPBayesSearchCV(
        e, {name: (0, 9)}, n_iter=3, n_initial_points=2, **k
    ),
    "gibo": lambda e, name, **k: DPGIBOSearchCV(e, {name: (0, 9)}, n_iter=2, **{"cv": 2, **k}),
}
search_names = pytest.mark.parametrize("name", SEARCHES)
# Eight protected rows are few for a gradient, of which a warning is given.
pytestmark = [
    pytest.mark.usefixtures("few_public_candidates"),
    pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyGradientWarning"),
]


def trained_on_protected(search, *data, protected_rows, **rows):
    """Whether any `fit` inside the search saw a protected row or a protected label."""
    SEEN.clear()
    search.fit(*data, **rows)
    assert SEEN
    return any(
        (seen_X[:, None] == protected_rows).all(axis=2).any() or (seen_y > 1).any()
        for seen_X, seen_y in SEEN
    )


class TestTraining:
    @pytest.mark.quick_cases(1)
    @search_names
    def test_given_rows_train_nothing(self, name):
        model = make_pipeline(Spy(), StandardScaler(), Spy(), SpyClassifier())
        search = SEARCHES[name](model, "spyclassifier__k", cv=2)
        rows = {"X_val": X_VAL, "y_val": Y_VAL}
        assert not trained_on_protected(search, X, Y, protected_rows=X_VAL, **rows)
        assert search.classes_.tolist() == [0, 1]
        assert abs(search.best_estimator_[1].mean_).max() < 1

    @pytest.mark.quick_cases(1)
    @search_names
    def test_rows_set_apart_train_nothing(self, name):
        protected = protected_positions(40, 0.2)
        labels = Y.copy()
        labels[protected] = 2
        model = make_pipeline(Spy(), SpyClassifier())
        search = SEARCHES[name](model, "spyclassifier__k", cv=2)
        with pytest.warns(PublicTrainingWarning):
            assert not trained_on_protected(search, X, labels, protected_rows=X[protected])
        assert search.classes_.tolist() == [0, 1]

    def test_contamination_is_found(self):
        # Planted bug: protected rows among the public ones.
        search = SEARCHES["grid"](make_pipeline(Spy(), SpyClassifier()), "spyclassifier__k", cv=2)
        data = np.r_[X, X_VAL], np.r_[Y, Y_VAL % 2]
        rows = {"X_val": X_VAL, "y_val": Y_VAL}
        assert trained_on_protected(search, *data, protected_rows=X_VAL, **rows)

    def test_weights_go_with_their_rows(self):
        weights = np.arange(40.0)
        model = WeightSpy()
        search = DPGridSearchCV(model, {"strategy": ["mean"]}, cv=2, loss_bound=1.0)
        WEIGHTS.clear()
        with pytest.warns(PublicTrainingWarning):
            search.fit(X, Y, sample_weight=weights)
        assert WEIGHTS.isdisjoint(protected_positions(40, 0.2).tolist())
        assert len(WEIGHTS) == 32


WEIGHTS = set()


class WeightSpy(DummyRegressor):
    def fit(self, X, y, sample_weight=None):
        WEIGHTS.update(sample_weight.tolist())
        return super().fit(X, y, sample_weight)


class TestSplit:
    def test_depends_on_the_number_of_rows_only(self):
        seen = set()
        for data in (X, -X, X * np.nan, X[::-1]):
            SEEN.clear()
            search = SEARCHES["grid without guide"](SpyClassifier(), "k", refit=False)
            numbered = np.c_[np.arange(40), data]
            with pytest.warns(PublicTrainingWarning):
                search.fit(numbered, Y)
            seen.add(tuple(SEEN[0][0][:, 0]))
        assert len(seen) == 1
        assert seen == {tuple(np.setdiff1d(np.arange(40), protected_positions(40, 0.2)))}

    @pytest.mark.slow
    def test_is_the_same_in_every_process(self):
        code = (
            "from skdpbo.model_selection.rows._protected import protected_positions as p;"
            "print(p(50, 0.2).tolist())"
        )
        environment = {**os.environ, "PYTHONHASHSEED": "123"}
        run = [sys.executable, "-c", code]
        printed = subprocess.run(run, env=environment, check=True, capture_output=True, text=True)
        assert printed.stdout.strip() == str(protected_positions(50, 0.2).tolist())


class TestStatements:
    @pytest.mark.quick_cases(1)
    @search_names
    @pytest.mark.parametrize("random_state", [0, np.random.RandomState(0)])
    def test_a_seed_voids_the_guarantee(self, name, random_state):
        search = SEARCHES[name](SpyClassifier(), "k", cv=2, random_state=random_state)
        with pytest.warns(SeededNoiseWarning):
            search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
        assert search.privacy_.status == "void"
        assert search.privacy_guarantee().status == "void"

    @search_names
    def test_no_seed_is_conditional_on_the_estimator(self, name):
        search = SEARCHES[name](SpyClassifier(), "k", cv=2).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
        assert search.privacy_.status == "conditional"
        assert "SpyClassifier" in search.privacy_.assumptions[-1]

    def test_a_missing_bound_is_reported_and_not_read_from_data(self):
        for scale in (1.0, 1e9):
            search = DPGridSearchCV(DummyRegressor(), {"strategy": ["mean"]}, cv=2)
            with pytest.warns(DefaultBoundsWarning):
                search.fit(X, Y, X_val=X_VAL, y_val=scale * Y_VAL)
            assert search.best_score_ >= -1.0

    @search_names
    @pytest.mark.parametrize("score_fraction", [0.0, 0.3])
    def test_no_share_no_score(self, name, score_fraction):
        search = SEARCHES[name](SpyClassifier(), "k", cv=2, score_fraction=score_fraction)
        search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
        assert hasattr(search, "best_score_") == (score_fraction > 0)

    @pytest.mark.parametrize("score_fraction", [-0.5, 1.0, 1.5, np.nan])
    def test_shares_are_checked_even_without_validation(self, score_fraction):
        from sklearn import config_context

        search = SEARCHES["grid"](SpyClassifier(), "k", score_fraction=score_fraction)
        with config_context(skip_parameter_validation=True), pytest.raises(ValueError):
            search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)


class TestLedger:
    @search_names
    def test_charged_before_values_are_read(self, name):
        charged = []
        with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
            rows = NotingRows(X_VAL.tolist(), lambda: charged.append(len(ledger.entries)))
            targets = NotingRows(Y_VAL.tolist(), lambda: charged.append(len(ledger.entries)))
            SEARCHES[name](SpyClassifier(), "k", cv=2).fit(X, Y, X_val=rows, y_val=targets)
            assert set(charged) == {1}
            assert ledger.spent().epsilon == pytest.approx(1.0)

    def test_overdrawing_touches_nothing(self):
        touched = []
        SEEN.clear()
        rows = NotingRows(X_VAL.tolist(), lambda: touched.append(1))
        with PrivacyLedger(epsilon=0.5) as ledger, pytest.raises(BudgetExceededError):
            SEARCHES["grid"](SpyClassifier(), "k").fit(X, Y, X_val=rows, y_val=Y_VAL.tolist())
        assert not touched
        assert not SEEN
        assert not ledger.entries

    def test_a_fit_that_fails_on_public_rows_costs_nothing(self):
        class Failing(SpyClassifier):
            def fit(self, X, y):
                raise RuntimeError("no")

        search = SEARCHES["grid without guide"](Failing(), "k")
        with PrivacyLedger(epsilon=2.0) as ledger, pytest.raises(RuntimeError, match="no"):
            search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
        assert ledger.spent().epsilon == 0.0

    def test_every_fit_is_charged(self):
        search = SEARCHES["grid"](SpyClassifier(), "k", cv=2, epsilon=0.25)
        with PrivacyLedger(epsilon=1.0) as ledger:
            for _ in range(4):
                search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
            with pytest.raises(BudgetExceededError):
                search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
        assert len(ledger.entries) == 4


class TestThreads:
    """Filters of warnings are shared by threads: they must not let a message through."""

    SEARCH = DPGridSearchCV(
        SpyClassifier(noisy=True), {"k": list(range(12))}, guide=False, score_fraction=0, n_jobs=4
    )

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("action", ["always", "error"])
    def test_no_warning_about_a_record(self, action, capsys):
        with parallel_config(backend="threading"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(action)
            before = warnings.filters[:]
            for _ in range(3):
                self.SEARCH.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
            assert warnings.filters == before
        assert not [str(w.message) for w in caught]
        assert "predicting" not in "".join(capsys.readouterr())

    def test_a_warning_is_found(self, monkeypatch):
        plant(monkeypatch, "models' warnings and output come through")
        with parallel_config(backend="threading"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.SEARCH.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
        assert [w for w in caught if "predicting" in str(w.message)]

    @pytest.mark.parametrize("kind", [np.float32, np.float64, int, Fraction])
    def test_every_kind_of_number_is_a_budget(self, kind):
        search = SEARCHES["grid"](SpyClassifier(), "k", cv=2, epsilon=kind(1))
        assert search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL).privacy_.epsilon == 1.0


def test_the_winner_is_trained_on_the_public_rows():
    tree = DecisionTreeClassifier(random_state=0)
    search = DPGridSearchCV(tree, {"max_depth": [3]}, cv=2).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    expected = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(search.best_estimator_.tree_.threshold, expected.tree_.threshold)
