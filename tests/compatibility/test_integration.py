"""The searchers inside the rest of scikit-learn."""

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification, make_regression
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import estimator_html_repr
from sklearn.utils.fixes import parse_version

from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.exceptions import DefaultBoundsWarning, PublicTrainingWarning
from skdpbo.privacy import PrivacyLedger

VERSION = parse_version(sklearn.__version__)
SEARCHERS = {
    "grid": DPGridSearchCV,
    "randomized": DPRandomizedSearchCV,
    "bayes": DPBayesSearchCV,
    "gibo": DPGIBOSearchCV,
}
SPACE = {"C": [0.01, 1.0]}

# Inside another estimator a searcher is given one X: the split by position is meant here.
pytestmark = [
    pytest.mark.usefixtures("few_public_candidates"),
    pytest.mark.filterwarnings(
        "ignore::skdpbo.exceptions.PublicTrainingWarning",
        "ignore::skdpbo.exceptions.NoisyGradientWarning",
    ),
]


def make_search(kind="grid", estimator=None, space=None, **parameters):
    if kind != "grid":
        parameters["n_iter"] = 2
    estimator = LogisticRegression() if estimator is None else estimator
    space = SPACE if space is None else space
    if kind == "gibo":  # lists of values become ranges; a public search of 32 takes long
        parameters.setdefault("init", None)
        space = {name: (min(values), max(values)) for name, values in space.items()}
    return SEARCHERS[kind](estimator, space, cv=2, **parameters)


def strings(y):
    return np.where(y == 1, "ill", "well")


@pytest.fixture(scope="module")
def data():
    return make_classification(n_samples=120, n_features=5, random_state=0)


@pytest.fixture(scope="module")
def frame():
    X, y = make_classification(n_samples=120, n_features=3, n_redundant=0, random_state=0)
    table = pd.DataFrame(X, columns=["age", "dose", "weight"])
    table["ward"] = np.where(X[:, 0] > 0, "north", "south")
    return table, pd.Series(strings(y))


@pytest.mark.parametrize("kind", SEARCHERS)
class TestEverySearcher:
    @pytest.mark.quick_cases(1)
    def test_in_a_pipeline(self, kind, data):
        model = make_pipeline(StandardScaler(), make_search(kind)).fit(*data)
        assert model.score(*data) > 0.7
        assert model[-1].privacy_.status == "proved"

    @pytest.mark.quick_cases(1)
    def test_around_a_column_transformer_pipeline(self, kind, frame, **options):
        columns = make_column_transformer(
            (StandardScaler(), ["age", "dose", "weight"]), (OneHotEncoder(), ["ward"])
        )
        pipeline = make_pipeline(columns, LogisticRegression())
        search = make_search(kind, pipeline, {"logisticregression__C": [0.01, 1.0]}, **options)
        search.fit(*frame)
        assert list(search.feature_names_in_) == ["age", "dose", "weight", "ward"]
        assert set(search.predict(frame[0])) <= {"ill", "well"}

    @pytest.mark.quick_cases(1)
    def test_an_unseen_category_in_a_protected_row_counts_as_one_record(self, kind, frame):
        table, y = frame
        columns = make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough")
        pipeline = make_pipeline(columns, LogisticRegression())
        protected = table.iloc[80:].copy()
        protected.iloc[3, 3] = "east"
        search = make_search(kind, pipeline, {"logisticregression__C": [0.01, 1.0]}, epsilon=1e6)
        search.fit(table.iloc[:80], y.iloc[:80], X_val=protected, y_val=y.iloc[80:])
        assert 0.5 < search.best_score_ <= 39 / 40 + 1e-9

    @pytest.mark.quick_cases(1)
    def test_cross_val_score(self, kind, data):
        scores = cross_val_score(make_search(kind), *data, cv=3)
        assert scores.shape == (3,)
        assert scores.mean() > 0.7

    @pytest.mark.quick_cases(1)
    def test_voting(self, kind, data):
        vote = VotingClassifier([("private", make_search(kind)), ("other", LogisticRegression())])
        assert vote.fit(*data).score(*data) > 0.7
        assert vote.named_estimators_["private"].score(*data) > 0.7

    @pytest.mark.quick_cases(1)
    def test_calibration(self, kind, data):
        model = CalibratedClassifierCV(make_search(kind), cv=2).fit(*data)
        np.testing.assert_allclose(model.predict_proba(data[0]).sum(axis=1), 1.0)
        assert model.score(*data) > 0.7

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
    def test_sparse(self, kind, data, container):
        X, y = data
        search = make_search(kind, epsilon=1e6, score_fraction=0.5).fit(container(X), y)
        assert search.best_score_ > 0.5  # of protected rows: 0 where none can be read
        assert search.predict(container(X)).shape == y.shape
        search.fit(container(X[:80]), y[:80], X_val=container(X[80:]), y_val=y[80:])
        assert search.score(container(X), y) > 0.7

    @pytest.mark.quick_cases(1)
    def test_string_labels(self, kind, data):
        X, y = data
        search = make_search(kind, epsilon=1e6, score_fraction=0.5)
        search.fit(X[:80], strings(y[:80]), X_val=X[80:], y_val=strings(y[80:]))
        assert list(search.classes_) == ["ill", "well"]
        assert search.best_score_ > 0.7  # of protected rows
        assert search.score(X, strings(y)) > 0.7

    @pytest.mark.quick_cases(1)
    def test_lists(self, kind, data):
        X, y = data
        search = make_search(kind, epsilon=1e6, score_fraction=0.5)
        assert search.fit(X.tolist(), strings(y).tolist()).best_score_ > 0.5
        assert search.n_features_in_ == 5

    @pytest.mark.slow
    def test_two_jobs_do_what_one_does(self, kind, data):
        X, y = data
        fits = [
            make_search(kind, n_jobs=n_jobs, epsilon=1e6).fit(
                X[:80], y[:80], X_val=X[80:], y_val=y[80:]
            )
            for n_jobs in (1, 2)
        ]
        one, two = (fit.cv_results_["mean_test_score"] for fit in fits)
        np.testing.assert_array_equal(one, two)

    @pytest.mark.quick_cases(1)
    def test_pickle_and_clone(self, kind, data):
        search = make_search(kind).fit(*data)
        again = pickle.loads(pickle.dumps(search))
        np.testing.assert_array_equal(again.predict(data[0]), search.predict(data[0]))
        assert again.privacy_ == search.privacy_
        assert not hasattr(clone(search), "best_params_")
        assert clone(search).get_params()["epsilon"] == search.epsilon

    @pytest.mark.quick_cases(1)
    def test_html(self, kind, data):
        search = make_search(kind)
        for state in (search, search.fit(*data)):
            page = estimator_html_repr(state)
            assert type(search).__name__ in page
            assert "LogisticRegression" in page

    @pytest.mark.quick_cases(1)
    def test_regression(self, kind):
        X, y = make_regression(n_samples=60, n_features=3, random_state=0)
        search = make_search(kind, Ridge(), {"alpha": [0.1, 1.0]}, loss_bound=1e4, epsilon=1e6)
        search.fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert search.score(X, y) == pytest.approx(search.best_estimator_.score(X, y))
        assert search.score(X, y) > 0.9
        # Of protected rows, whose targets have a variance of 3900; the noise is 3 at most.
        assert search.best_score_ > -1000
        with pytest.warns(DefaultBoundsWarning):
            make_search(kind, Ridge(), {"alpha": [0.1, 1.0]}).fit(X, y)

    @pytest.mark.quick_cases(1)
    def test_set_output(self, kind, frame):
        table, y = frame
        numbers = table.drop(columns="ward")
        model = make_pipeline(StandardScaler(), LinearDiscriminantAnalysis())
        space = {"lineardiscriminantanalysis__tol": [1e-4, 1e-3]}
        search = make_search(kind, model.set_output(transform="pandas"), space).fit(numbers, y)
        transformed = search.transform(numbers)
        assert isinstance(transformed, pd.DataFrame)
        assert transformed.index.equals(numbers.index)

    @pytest.mark.quick_cases(1)
    def test_routes_weights_and_groups_to_the_public_part(self, kind, data):
        X, y = data
        public = {"sample_weight": np.linspace(0.1, 3, 80), "groups": np.arange(80) % 4}
        with sklearn.config_context(enable_metadata_routing=True):
            model = LogisticRegression().set_fit_request(sample_weight=True)
            model.set_score_request(sample_weight=True)
            search = make_search(kind, model).set_params(cv=GroupKFold(2))
            with pytest.warns(UserWarning, match="sample_weight, requested for scores"):
                search.fit(X[:80], y[:80], X_val=X[80:], y_val=y[80:], **public)
            with PrivacyLedger(100, 0.01) as ledger, warnings.catch_warnings():
                warnings.filterwarnings("error", "sample_weight, requested for scores")
                with pytest.raises(UserWarning):
                    clone(search).fit(X[:80], y[:80], X_val=X[80:], y_val=y[80:], **public)
            assert ledger.entries == ()
            alone = clone(model).set_params(**search.best_params_)
            alone.fit(X[:80], y[:80], sample_weight=public["sample_weight"])
            np.testing.assert_allclose(search.best_estimator_.coef_, alone.coef_)
            with pytest.raises(ValueError, match="groups"):
                search.fit(X[:80], y[:80], X_val=X[80:], y_val=y[80:])

    @pytest.mark.quick_cases(1)
    def test_fitted_attributes_are_documented(self, kind, data):
        search = make_search(kind).fit(*data)
        attributes = [name for name in vars(search) if name.endswith("_")]
        assert "best_score_std_" in attributes
        assert [name for name in attributes if f"\n{name} :" not in inspect.getdoc(search)] == []

    @pytest.mark.quick_cases(1)
    @pytest.mark.filterwarnings("ignore:sample_weight, requested for scores:UserWarning")
    @pytest.mark.skipif(parse_version("1.9") > VERSION, reason="Pipeline.score routes nothing")
    @pytest.mark.parametrize("requested", [True, False, None])
    def test_a_pipeline_is_scored_with_weights_where_it_requests_them(self, kind, data, requested):
        X, y = data
        weights = np.linspace(0.1, 3, 80)
        rows = {"X": X[:80], "y": y[:80], "X_val": X[80:], "y_val": y[80:]}
        with sklearn.config_context(enable_metadata_routing=True):
            last = LogisticRegression().set_fit_request(sample_weight=True)
            last.set_score_request(sample_weight=requested)
            scaler = StandardScaler().set_fit_request(sample_weight=False)
            model, space = make_pipeline(scaler, last), {"logisticregression__C": [0.01, 1.0]}
            search = make_search(kind, model, space).set_params(cv=[(range(40), range(40, 80))])
            if requested is None:
                with pytest.raises(UnsetMetadataPassedError):
                    search.fit(**rows, sample_weight=weights)
                return
            search.fit(**rows, sample_weight=weights)
        alone = clone(model).set_params(**search.best_params_)
        alone.fit(X[:40], y[:40], logisticregression__sample_weight=weights[:40])
        score = alone.score(X[40:80], y[40:80], weights[40:] if requested else None)
        found = search.cv_results_["mean_test_score"][search.best_index_]
        assert found == pytest.approx(score)

    @pytest.mark.quick_cases(1)
    def test_routes_protected_rows_through_a_pipeline(self, kind, data):
        X, y = data
        with sklearn.config_context(enable_metadata_routing=True):
            search = make_search(kind, epsilon=1e6).set_fit_request(X_val=True, y_val=True)
            model = make_pipeline(StandardScaler(), search, transform_input=["X_val"])
            model.fit(X[:80], y[:80], X_val=X[80:], y_val=y[80:])
        # The score is that of the 40 protected rows, scaled as the public ones were.
        assert model[-1].best_score_ == pytest.approx(model.score(X[80:], y[80:]), abs=1e-3)

    @pytest.mark.quick_cases(1)
    @pytest.mark.skipif(parse_version("1.9") > VERSION, reason="scikit-learn has no callbacks")
    def test_progress_bar(self, kind, data, capsys):
        pytest.importorskip("rich")
        from sklearn.callback import ProgressBar

        search = make_search(kind).set_callbacks(ProgressBar()).fit(*data)
        assert type(search).__name__ in capsys.readouterr().out


@pytest.mark.slow
def test_a_public_search_around_a_column_transformer_pipeline(frame):
    TestEverySearcher().test_around_a_column_transformer_pipeline("gibo", frame, init="public")


@pytest.mark.parametrize("kind", SEARCHERS)
def test_public_training_is_reported(kind, data):
    with pytest.warns(PublicTrainingWarning):
        make_search(kind).fit(*data)


class ShorterFit(DecisionTreeClassifier):
    """A user's subclass whose requests scikit-learn cannot read: `fit` lacks a parameter."""

    def fit(self, X, y):
        return super().fit(X, y)


@pytest.mark.skipif(parse_version("1.8") > VERSION, reason="GridSearchCV reads them, too")
def test_a_subclass_whose_requests_cannot_be_read():
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = (X[:, 0] > 0).astype(int)
    for search in (GridSearchCV, DPGridSearchCV):
        how = {} if search is GridSearchCV else {"epsilon": 99.0, "score_fraction": 0.5}
        searcher = search(ShorterFit(random_state=0), {"max_depth": [1, 2]}, cv=3, **how)
        rows = {} if search is GridSearchCV else {"X_val": X[50:], "y_val": y[50:]}
        assert searcher.fit(X[:50], y[:50], **rows).best_score_ > 0.7
