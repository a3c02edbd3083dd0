"""scikit-learn's estimator checks: nothing fails that does not fail for `GridSearchCV` itself."""

import itertools
from functools import cache

import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _support.sklearn_checks import failed_checks
from skdpbo import (
    DPBayesSearchCV,
    DPGIBOSearchCV,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    DPSparseGPRegressor,
)
from skdpbo.model_selection import Chunks, Kusner2015

pytestmark = pytest.mark.usefixtures("few_public_candidates")
MODELS = {
    "LogisticRegression": (LogisticRegression(), {"C": [0.1, 1.0]}),
    "Ridge": (Ridge(), {"alpha": [0.1, 1.0]}),
    "Pipeline": (
        make_pipeline(StandardScaler(), LogisticRegression()),
        {"logisticregression__C": [0.1, 1.0]},
    ),
    "DPSparseGPRegressor": (
        DPSparseGPRegressor(RBF(1.0), X_bounds=(-3, 3), y_bounds=(-3, 3), inducing_points=4),
        {"noise_variance": [0.1, 1.0]},
    ),
}
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
    "gibo, no guide": (DPGIBOSearchCV, {"n_iter": 2, "guide": False}),
    "gibo, all": (DPGIBOSearchCV, {"n_iter": 2, "protect": "all"}),
    "grid, all": (DPGridSearchCV, {"protect": "all"}),
    "randomized, all": (DPRandomizedSearchCV, {"n_iter": 2, "protect": "all"}),
}
OF_PRIVATE_MODELS = {kind for kind in SEARCHERS if "all" in kind}
# What GridSearchCV(Ridge()) fails in scikit-learn 1.6 to 1.9.
KNOWN = {"check_supervised_y_2d", "check_requires_y_none"}


@cache
def grid_search_failures(model):
    estimator, space = MODELS[model]
    return set(failed_checks(GridSearchCV(estimator, space, cv=2), least=40))


def assert_no_failure_of_its_own(searcher, model):
    found = failed_checks(searcher, least=40)
    own = {name: repr(found[name]) for name in set(found) - grid_search_failures(model)}
    assert not own


def build(kind, model):
    searcher, parameters = SEARCHERS[kind]
    estimator, space = MODELS[model]
    if searcher is DPGIBOSearchCV:
        space = {name: (min(values), max(values)) for name, values in space.items()}
    public = {} if "protect" in parameters else {"cv": 2}
    return searcher(estimator, space, **(public | parameters))


def every_pair():
    """Yield each class with a regressor and a pipeline of a classifier, each setting with one.

    One pair is quick enough for every run. A descent meets a classifier without a guide: its public
    search would take most of the time, and is that of the other classes.
    """
    settings = {kind for kind in SEARCHERS if ", " in kind or kind in {"gaussian", "Kusner"}}
    pairs = [(kind, m) for kind in SEARCHERS for m in ("Ridge", "Pipeline") if kind not in settings]
    pairs.remove(("gibo", "Pipeline"))
    pairs.append(("gibo, no guide", "LogisticRegression"))
    alone = sorted(settings - OF_PRIVATE_MODELS - {"gibo, no guide"})
    pairs += zip(alone, itertools.cycle(["LogisticRegression", "Ridge"]))
    for kind, model in pairs:
        marks = () if (kind, model) == ("randomized", "Ridge") else pytest.mark.slow
        yield pytest.param(kind, model, marks=marks, id=f"{kind}-{model}")


@pytest.mark.parametrize(("kind", "model"), list(every_pair()))
def test_no_check_fails_that_grid_search_passes(kind, model):
    assert_no_failure_of_its_own(build(kind, model), model)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(OF_PRIVATE_MODELS))
def test_no_check_fails_with_every_record_protected(kind):
    assert_no_failure_of_its_own(build(kind, "DPSparseGPRegressor"), "DPSparseGPRegressor")


@pytest.mark.parametrize(
    "model", ["Ridge", pytest.param("LogisticRegression", marks=pytest.mark.slow)]
)
def test_what_grid_search_itself_fails(model):
    assert grid_search_failures(model) <= KNOWN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protect", "model"),
    [(Chunks(2), "LogisticRegression"), ("all", "Ridge")],
    ids=["chunks", "all"],
)
@pytest.mark.parametrize("kind", [DPGridSearchCV, DPRandomizedSearchCV, DPBayesSearchCV])
def test_no_check_fails_without_a_model(kind, protect, model):
    estimator, space = MODELS[model]
    design = {} if kind is DPGridSearchCV else {"n_iter": 2}
    assert not failed_checks(kind(estimator, space, protect=protect, **design), least=40)


@pytest.mark.slow
def test_a_check_that_fails_is_seen():
    class Broken(DPGridSearchCV):
        def predict(self, X):
            return None

    with pytest.raises(AssertionError):
        assert_no_failure_of_its_own(Broken(*MODELS["Ridge"], cv=2), "Ridge")
