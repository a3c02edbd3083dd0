"""Choice of the protection by a searcher, before anything is fitted."""

import inspect
import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from skdpbo import (
    DPBayesSearchCV,
    DPGIBOSearchCV,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    DPSparseGPRegressor,
    make_per_record_scorer,
)
from skdpbo.exceptions import (
    BudgetExceededError,
    NoisyScoreWarning,
    PublicTrainingWarning,
)
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.model_selection import Chunks, PrivateSelection
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger, charge_active_ledger

pytestmark = pytest.mark.usefixtures("few_public_candidates")

SEARCHERS = [DPGridSearchCV, DPRandomizedSearchCV, DPBayesSearchCV]
METHODS = ["predict", "predict_proba", "predict_log_proba", "decision_function", "score"]
METHODS += ["score_samples", "transform", "inverse_transform"]


@pytest.mark.parametrize("searcher", SEARCHERS)
def test_a_misspelt_protection_is_refused(searcher):
    search = searcher(Ridge(), {"alpha": [0.1, 1.0]}, protect="everything")
    with pytest.raises(ValueError, match="protect"):
        search.fit([[0.0], [1.0]], [0.0, 1.0])


@pytest.mark.parametrize("protect", ["all", PrivateSelection()])
def test_bayes_tunes_no_private_estimators(protect):
    search = DPBayesSearchCV(DPSparseGPRegressor(), {"noise_variance": [0.1, 1.0]}, protect=protect)
    with pytest.raises(ValueError, match="DPRandomizedSearchCV"):
        search.fit([[0.0], [1.0]], [0.0, 1.0])


def test_who_has_which_parameter():
    names = {searcher: set(inspect.signature(searcher).parameters) for searcher in SEARCHERS}
    gone = {"n_chunks", "selection", "estimator_guarantee"}
    names[DPGIBOSearchCV] = set(inspect.signature(DPGIBOSearchCV).parameters)
    assert all("protect" in of_searcher for of_searcher in names.values())
    assert not any(gone & of_searcher for of_searcher in names.values())


class Charger(Ridge):
    """An estimator that charges for its own fit, as a private one does."""

    def fit(self, X, y):
        charge_active_ledger(PrivacyGuarantee(epsilon=5.0), "inner")
        return super().fit(X, y)


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
@pytest.mark.parametrize("searcher", [*SEARCHERS, DPGIBOSearchCV])
@pytest.mark.parametrize("cv", [2, None])
def test_private_estimators_inside_are_not_charged_again(searcher, cv):
    space = {"alpha": [0.1, 1.0]} if searcher is DPGridSearchCV else {"alpha": (0.1, 1.0)}
    options = {} if searcher is DPGridSearchCV else {"n_iter": 2}
    X = [[float(i)] for i in range(30)]
    y = [float(i % 3) for i in range(30)]
    search = searcher(Charger(), space, epsilon=1.0, cv=cv, **options)
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        search.fit(X, y, X_val=X[:5], y_val=y[:5])
    assert [entry.label for entry in ledger.entries] == [f"{searcher.__name__} of Charger"]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("guide", [True, False])
def test_noise_on_public_rows_is_reported(guide):
    X, y = [[float(i)] for i in range(30)], [i % 2 for i in range(30)]
    private = DPRidge(X_bounds=(0, 30), y_bounds=(0, 1))
    pipeline = Pipeline([("model", DummyRegressor())])
    for estimator, space in [(private, {}), (pipeline, {"model": [DummyRegressor(), private]})]:
        search = DPGridSearchCV(estimator, space, loss_bound=1.0, guide=guide)
        with pytest.warns(PublicTrainingWarning, match='protect="all" tunes private models'):
            search.fit(X, y, X_val=X[:5], y_val=y[:5])


class TestFrozenModels:
    """A model that was released before: its threshold is tuned on other protected rows."""

    THRESHOLDS = [0.1, 0.5, 0.9]
    EARLIER = "what a FrozenEstimator holds was fitted on public rows, or released before"

    def model(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (400, 1))
        y = (rng.uniform(size=400) < (X[:, 0] + 1) / 2).astype(int)
        earlier = DPLogisticRegression(X_bounds=(-1, 1), classes=[0, 1], epsilon=3.0).fit(X, y)
        return FixedThresholdClassifier(FrozenEstimator(earlier)), X, y

    def search(self, model, **params):
        # A miss costs nine times a false alarm: the best threshold is low.
        cost = make_per_record_scorer(lambda y, p: 9.0 * (y > p) + (y < p), bound=9.0)
        space = {"threshold": self.THRESHOLDS}
        return DPGridSearchCV(model, space, scoring=cost, score_fraction=0, epsilon=10.0, **params)

    def test_no_row_is_public(self):
        model, X, y = self.model()
        search = self.search(model, protect="all").fit(X, y)
        assert "chunks" in search.privacy_.mechanism
        assert any(text.startswith(self.EARLIER) for text in search.privacy_.assumptions)
        assert search.best_params_ == {"threshold": 0.1}

    def test_no_noise_on_public_rows_is_reported(self):
        model, X, y = self.model()
        search = self.search(model, guide=False)  # warnings are errors
        search.fit(X[:20], y[:20], X_val=X[20:], y_val=y[20:])
        assert any(text.startswith(self.EARLIER) for text in search.privacy_.assumptions)
        assert search.best_params_ == {"threshold": 0.1}

    def test_nothing_is_assumed_of_other_estimators(self):
        _, X, y = self.model()
        search = DPGridSearchCV(DummyClassifier(), {"strategy": ["prior"]})
        search.fit(X[:100], y[:100], X_val=X[100:], y_val=y[100:])
        assert "Frozen" not in str(search.privacy_)


def test_rows_that_are_public_and_protected_are_reported():
    X, y = np.arange(30.0)[:, None], np.arange(30) % 2
    search = DPGridSearchCV(DummyRegressor(), {}, loss_bound=1.0)
    for X_val, y_val in [(X, y), (X[25:], y[25:])]:
        with pytest.warns(PublicTrainingWarning, match="X and X_val share rows"):
            search.fit(X, y, X_val=X_val, y_val=y_val)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PublicTrainingWarning)
        search.fit(X[:20], y[:20], X_val=X[20:], y_val=y[20:])


def test_a_charge_is_labelled_by_the_model_at_the_end_of_a_pipeline():
    X, y = [[float(i)] for i in range(30)], [i % 2 for i in range(30)]
    model = Pipeline([("a", StandardScaler()), ("b", make_pipeline(DummyRegressor()))])
    with PrivacyLedger(epsilon=1.0) as ledger:
        DPGridSearchCV(model, {}, loss_bound=1.0).fit(X, y, X_val=X[:5], y_val=y[:5])
    assert [entry.label for entry in ledger.entries] == ["DPGridSearchCV of DummyRegressor"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
@pytest.mark.parametrize("backend", ["loky", "threading"])
@pytest.mark.parametrize("guide", [True, False])
def test_nor_are_those_in_workers(backend, guide):
    X = [[float(i % 4)] for i in range(40)]
    y = [float(i % 3) / 3 for i in range(40)]
    search = DPGridSearchCV(
        DPSparseGPRegressor(inducing_points=3), {"noise_variance": [0.1, 1.0]}, n_jobs=2
    )
    search.set_params(guide=guide, cv=2 if guide else None, loss_bound=1.0)
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger, parallel_config(backend):
        search.fit(X, y, X_val=X[:5], y_val=y[:5])
    label = "DPGridSearchCV of DPSparseGPRegressor"
    assert [entry.label for entry in ledger.entries] == [label]


EVERY_RECORD = [PrivateSelection(accounting="composition"), Chunks(4)]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("protect", EVERY_RECORD, ids=["models", "chunks"])
def test_a_fit_that_is_refused_before_the_charge_leaves_an_earlier_release(protect):
    X = np.linspace(-1, 1, 60)[:, None]
    y = X[:, 0] ** 2
    search = DPGridSearchCV(
        DPSparseGPRegressor(X_bounds=(-1, 1), y_bounds=(0, 1), inducing_points=3),
        {"noise_variance": [0.1, 0.2]},
        scoring="neg_mean_squared_error",
        loss_bound=1.0,
        protect=protect,
        epsilon=100.0,
    ).fit(X, y)
    paid = search.best_params_
    with PrivacyLedger(epsilon=1.0, delta=1e-5), pytest.raises(BudgetExceededError):
        search.fit(X, y)
    assert search.best_params_ == paid
    assert search.privacy_.epsilon == 100.0


@pytest.mark.parametrize("protect", EVERY_RECORD, ids=["models", "chunks"])
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"cv": 3}, "cv must be None"),
        ({"return_train_score": True}, "return_train_score"),
        ({"error_score": "raise"}, "error_score"),
        ({"scoring": ["neg_mean_squared_error", "r2"]}, "several metrics"),
        ({"scoring": {"mse": "neg_mean_squared_error"}}, "several metrics"),
    ],
)
def test_options_that_need_public_rows_are_refused(options, match, protect):
    search = DPGridSearchCV(DPSparseGPRegressor(), {}, protect=protect)
    X = np.linspace(-1, 1, 60)[:, None]
    with PrivacyLedger(epsilon=9.0, delta=1e-3) as ledger, pytest.raises(ValueError, match=match):
        search.set_params(**options).fit(X, X[:, 0])
    assert ledger.entries == ()


class TestAll:
    """``protect="all"`` picks by the estimator, with nothing else to set."""

    X = np.random.RandomState(0).normal(size=(2400, 2))
    LABELS = (X[:, 0] > 0).astype(int)

    def test_any_estimator_in_chunks(self):
        search = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, protect="all")
        search.fit(self.X, self.LABELS)
        # ten chunks for epsilon = 1, of at least 200 rows
        assert "aggregated over 10 chunks" in search.privacy_.mechanism
        assert search.privacy_.n_protected == 2400
        assert 0.7 < search.set_params(epsilon=20.0).fit(self.X, self.LABELS).best_score_ <= 1

    @pytest.mark.parametrize(
        ("n_samples", "epsilon", "k"),
        [
            (2400, 0.5, 12),
            (1200, 1.0, 6),
            (300, 1.0, 5),
            (2400, 9, 5),
            (None, 0.1, 100),
            (None, 1.5, 7),
        ],
    )
    def test_number_of_chunks(self, n_samples, epsilon, k):
        search = DPGridSearchCV(LogisticRegression(), {}, protect="all", epsilon=epsilon)
        assert f"over {k} chunks" in search.privacy_guarantee(n_samples).mechanism

    def test_a_score_that_would_be_mostly_noise_is_not_bought(self):
        search = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, protect="all", epsilon=0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            search.fit(self.X, self.LABELS)
        assert not hasattr(search, "best_score_")
        assert search.privacy_.mechanism.startswith("permute-and-flip choice (epsilon 0.5)")
        with pytest.warns(NoisyScoreWarning):
            search.set_params(score_fraction=0.1).fit(self.X, self.LABELS)
        assert hasattr(search, "best_score_")

    def test_a_missing_model_says_why(self):
        def refused(match):
            for name in ("best_estimator_", "classes_"):
                with pytest.raises(AttributeError, match=match):
                    getattr(search, name)

        search = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, protect="all")
        refused("not fitted")
        search.fit(self.X, self.LABELS)
        refused("a release of its own")
        validation = {"X_val": self.X[:500], "y_val": self.LABELS[:500]}
        search.set_params(protect="validation", refit=False).fit(self.X, self.LABELS, **validation)
        refused("initialized with refit=False")
        search.set_params(refit=True).fit(self.X, self.LABELS, **validation)
        assert list(search.classes_) == list(search.best_estimator_.classes_)

    @pytest.mark.parametrize("protect", [Chunks(2), "all"], ids=["chunks", "all"])
    @pytest.mark.parametrize("fitted", [False, True])
    def test_methods_of_a_missing_model_are_absent(self, protect, fitted):
        search = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, protect=protect)
        if fitted:
            search.fit(self.X, self.LABELS)
            assert search.n_features_in_ == self.X.shape[1]
        for name in METHODS:
            assert not hasattr(search, name)
            with pytest.raises(AttributeError, match=name) as error:
                getattr(search, name)
            assert "a release of its own" in str(error.value.__cause__)
        assert not is_classifier(search)
        search.set_params(protect="validation")
        assert hasattr(search, "predict_proba")
        assert not hasattr(search, "transform")
        assert is_classifier(search)

    @pytest.mark.slow
    @pytest.mark.parametrize("where", ["alone", "pipeline", "space"])
    def test_private_estimators_by_private_selection(self, where):
        model = DPSparseGPRegressor(RBF(1.0), X_bounds=(-1, 1), y_bounds=(-1, 1), inducing_points=3)
        space = {"noise_variance": [0.1, 0.2, 0.3]}
        if where == "pipeline":
            model = make_pipeline(Normalizer(), model)
            space = {"dpsparsegpregressor__noise_variance": [0.1, 0.2, 0.3]}
        elif where == "space":
            others = [clone(model).set_params(noise_variance=v) for v in (0.1, 0.2, 0.3)]
            model, space = Pipeline([("model", Ridge())]), {"model": others}
        search = DPGridSearchCV(model, space, loss_bound=1.0, protect="all")
        search.fit(self.X[:200], self.X[:200, 0])
        assert hasattr(search, "expected_trials_")
        assert search.predict(self.X[:2]).shape == (2,)
        assert is_regressor(search)


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
@pytest.mark.parametrize("groups", [{}, {"groups": [0, 1]}])
def test_two_rows_are_enough_to_set_one_apart(groups):
    search = DPGridSearchCV(DummyRegressor(), {}, guide=False, loss_bound=1.0, score_fraction=0)
    X, y = np.zeros((2, 1)), np.zeros(2)
    assert search.fit(X, y, **groups).best_params_ == {}
    one = {name: labels[:1] for name, labels in groups.items()}
    with pytest.raises(ValueError, match=r"at least 2 (rows|groups) are needed"):
        search.fit(X[:1], y[:1], **one)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
def test_another_protection_leaves_nothing_of_the_last():
    X = np.linspace(-1, 1, 60)[:, None]
    model = DPSparseGPRegressor(RBF(1.0), X_bounds=(-1, 1), y_bounds=(-1, 1), inducing_points=3)
    search = DPGridSearchCV(model, {"noise_variance": [0.1, 0.2]}, loss_bound=1.0)
    own = {
        "validation": {"n_splits_", "refit_time_"},
        "all": {"expected_trials_", "hit_probability_"},
    }
    for protect, other in (("validation", "all"), ("all", "validation"), ("validation", "all")):
        search.set_params(protect=protect).fit(X, X[:, 0])
        assert own[protect] <= set(vars(search))
        assert not own[other] & set(vars(search))


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
def test_chunks_leave_nothing_of_the_last_and_no_public_score_is_the_score():
    X = np.arange(60.0)[:, None]
    search = DPGridSearchCV(Ridge(), {"alpha": [1.0]}, loss_bound=1.0, score_fraction=0, cv=2)
    search.fit(X, X[:, 0])
    assert hasattr(search, "n_splits_")
    assert not hasattr(search, "best_score_")
    search.set_params(protect=Chunks(2), cv=None).fit(X, X[:, 0])
    assert not {"n_splits_", "refit_time_", "best_estimator_"} & set(vars(search))


@pytest.mark.slow
def test_the_estimator_states_the_cost_of_the_part_that_trains():
    requested = set()

    class Requested(DPSparseGPRegressor):
        def privacy_guarantee(self, n_samples=None):
            requested.add(n_samples)
            return super().privacy_guarantee(n_samples)

    X = np.linspace(-1, 1, 60)[:, None]
    model = Requested(X_bounds=(-1, 1), y_bounds=(-1, 1), inducing_points=3)
    search = DPGridSearchCV(
        model, {"noise_variance": [0.1, 0.2, 0.3]}, loss_bound=1.0, protect="all"
    )
    search.privacy_guarantee(60)
    assert requested == {48}
    requested.clear()
    search.fit(X, X[:, 0])
    assert 48 in requested
    assert 60 not in requested
