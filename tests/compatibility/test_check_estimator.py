"""scikit-learn's estimator checks: nothing fails that does not fail for `GridSearchCV` itself."""

import warnings
from functools import cache

import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from skdpbo import (
    DPBayesSearchCV,
    DPGIBOSearchCV,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    DPSparseGPRegressor,
)
from skdpbo.model_selection import Kusner2015

MODELS = {
    "LogisticRegression": (LogisticRegression(), {"C": [0.1, 1.0]}),
    "Ridge": (Ridge(), {"alpha": [0.1, 1.0]}),
    "Pipeline": (
        make_pipeline(StandardScaler(), LogisticRegression()),
        {"logisticregression__C": [0.1, 1.0]},
    ),
    "DPSparseGPRegressor": (
        DPSparseGPRegressor(X_bounds=(-3, 3), y_bounds=(-3, 3), inducing_points=4),
        {"noise_variance": [0.1, 1.0]},
    ),
}
NOT_PRIVATE = sorted(set(MODELS) - {"DPSparseGPRegressor"})
# n_iter=2 visits the whole space; the default of 32 would only say the same more slowly.
SEARCHERS = {
    "grid": (DPGridSearchCV, {}),
    "grid, no guide": (DPGridSearchCV, {"guide": False}),
    "randomized": (DPRandomizedSearchCV, {"n_iter": 2}),
    "bayes": (DPBayesSearchCV, {"n_iter": 2}),
    "gaussian": (DPBayesSearchCV, {"n_iter": 2, "mechanism": "gaussian"}),
    "gaussian, no guide": (DPBayesSearchCV, {"n_iter": 2, "mechanism": "gaussian", "guide": False}),
    "Kusner": (DPBayesSearchCV, {"n_iter": 2, "mechanism": Kusner2015(), "guide": False}),
    "gibo": (DPGIBOSearchCV, {"n_iter": 2}),
    "gibo, no guide": (DPGIBOSearchCV, {"n_iter": 2, "cv": None}),
    "grid, all": (DPGridSearchCV, {"protect": "all"}),
    "grid, all, composition": (DPGridSearchCV, {"protect": "all", "selection": "composition"}),
    "randomized, all": (DPRandomizedSearchCV, {"n_iter": 2, "protect": "all"}),
}
OF_PRIVATE_MODELS = {kind for kind in SEARCHERS if "all" in kind}
SLOW = sorted(set(SEARCHERS) - {"grid", "randomized"} - OF_PRIVATE_MODELS)
# What GridSearchCV(Ridge()) fails in scikit-learn 1.6 to 1.9.
KNOWN = {"check_supervised_y_2d", "check_requires_y_none"}


def failures(searcher):
    """Names of the checks that fail, with the reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(searcher, on_skip=None, on_fail=None)
    assert len(results) > 40
    assert not any(result["status"] == "xfail" for result in results)
    return {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}


@cache
def grid_search_failures(model):
    estimator, space = MODELS[model]
    return set(failures(GridSearchCV(estimator, space, cv=2)))


def assert_no_failure_of_its_own(searcher, model):
    found = failures(searcher)
    own = {name: repr(found[name]) for name in set(found) - grid_search_failures(model)}
    assert not own


def build(kind, model):
    searcher, parameters = SEARCHERS[kind]
    estimator, space = MODELS[model]
    if searcher is DPGIBOSearchCV:
        space = {name: (min(values), max(values)) for name, values in space.items()}
    public = {} if parameters.get("protect") == "all" else {"cv": 2}
    return searcher(estimator, space, **(public | parameters))


@pytest.mark.parametrize("model", ["LogisticRegression", "Ridge"])
@pytest.mark.parametrize("kind", ["grid", "randomized"])
def test_no_check_fails_that_grid_search_passes(kind, model):
    assert_no_failure_of_its_own(build(kind, model), model)


@pytest.mark.slow
@pytest.mark.parametrize("model", NOT_PRIVATE)
@pytest.mark.parametrize(
    "kind", sorted(set(SEARCHERS) - {"grid", "randomized"} - OF_PRIVATE_MODELS)
)
def test_no_check_fails_that_grid_search_passes_slow(kind, model):
    assert_no_failure_of_its_own(build(kind, model), model)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(OF_PRIVATE_MODELS))
def test_no_check_fails_with_every_record_protected(kind):
    assert_no_failure_of_its_own(build(kind, "DPSparseGPRegressor"), "DPSparseGPRegressor")


@pytest.mark.parametrize("model", ["LogisticRegression", "Ridge"])
def test_what_grid_search_itself_fails(model):
    assert grid_search_failures(model) <= KNOWN


# With chunks no row is public: an error that depends on values, here of the targets, cannot be
# raised, and no model is there to predict.
NOT_TOLD = {
    "check_classifiers_one_label",
    "check_classifiers_regression_target",
    "check_supervised_y_no_nan",
}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["LogisticRegression", "Ridge"])
@pytest.mark.parametrize("kind", [DPGridSearchCV, DPRandomizedSearchCV, DPBayesSearchCV])
def test_no_check_fails_with_chunks(kind, model):
    estimator, space = MODELS[model]
    design = {} if kind is DPGridSearchCV else {"n_iter": 2}
    search = kind(estimator, space, protect="all", n_chunks=2, refit=False, **design)
    found = failures(search)
    of_grid_search = set(failures(GridSearchCV(estimator, space, cv=2, refit=False)))
    own = {name: repr(found[name]) for name in set(found) - of_grid_search - NOT_TOLD}
    assert not own


def test_a_check_that_fails_is_seen():
    class Broken(DPGridSearchCV):
        def predict(self, X):
            return None

    with pytest.raises(AssertionError):
        assert_no_failure_of_its_own(Broken(*MODELS["Ridge"], cv=2), "Ridge")
