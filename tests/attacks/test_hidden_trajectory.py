"""Visits of a search of Kusner et al. depend on exact protected scores: nobody may see them.

Candidates are trained on public rows, but in an order that is protected. Listeners, callbacks and
caches would note it. Each attack has a planted bug that it finds.
"""

import copy
from collections import deque
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from _support.internals import parts_inside
from _support.planted import plant, put
from skdpbo import DPBayesSearchCV, DPGridSearchCV
from skdpbo.model_selection import Chunks, Kusner2015, Kusner2015Lipschitz, PrivateSelection

RNG = np.random.RandomState(0)
X, Y = RNG.normal(size=(20, 2)), RNG.normal(size=20)


def doubled(X):
    return 2 * X


class Holding(RegressorMixin, BaseEstimator):
    """Holds a model in a list, which `get_params` does not look into."""

    def __init__(self, models, alpha=1.0):
        self.models = models
        self.alpha = alpha

    def fit(self, X, y):
        model = copy.deepcopy(self.models[0])
        if isinstance(model, Pipeline):
            model.set_params(ridge__alpha=self.alpha)
        self.model_ = model.fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


def searched(mechanism, estimator, target, **entries):
    """Fit a search whose last protected target is given."""
    name = "ridge__alpha" if isinstance(estimator, Pipeline) else "alpha"
    search = DPBayesSearchCV(
        estimator,
        {name: (0.1, 9.0)},
        n_iter=8,
        n_initial_points=2,
        n_candidates=30,
        mechanism=mechanism,
        guide=False,
        loss_bound=4.0,
        refit=False,
        score_fraction=0.5,
    )
    return search.fit(X, Y, X_val=3 * X[:10], y_val=np.append(np.zeros(9), target), **entries)


def heard_from(mechanism, target):
    """Return what a listener hears of the trainings."""
    listener = SimpleNamespace(heard=[])
    searched(mechanism, NotingItsParameter(), target, listener=listener)
    return listener.heard


class TestHiddenTrajectory:
    def search(self, estimator, target):
        searched(Kusner2015(), estimator, target)

    def heard(self, target):
        return heard_from(Kusner2015(), target)

    def test_a_listener_hears_nothing(self):
        assert self.heard(0.0) == []

    def test_a_listener_that_hears_is_found(self, monkeypatch):
        plant(monkeypatch, "the caller's objects are used")
        assert len(self.heard(0.0)) >= 8

    def calls(self, estimator):
        estimator._skl_callbacks = [SimpleNamespace()]  # of scikit-learn's protocol, since 1.9
        CALLBACKS.clear()
        self.search(estimator, 0.0)
        return CALLBACKS

    def test_callbacks_are_not_called(self):
        assert not any(self.calls(NotingItsCallbacks()))

    def test_callbacks_that_are_called_are_found(self, monkeypatch):
        plant(monkeypatch, "clones keep their callbacks")
        assert any(self.calls(NotingItsCallbacks()))

    def cached(self, folder, held):
        pipeline = make_pipeline(FunctionTransformer(doubled), Ridge(), memory=str(folder))
        self.search(Holding([pipeline]) if held else pipeline, 0.0)
        return list(folder.rglob("*.pkl"))

    @pytest.mark.parametrize("held", [False, True])
    def test_nothing_is_cached(self, held, tmp_path):
        assert not self.cached(tmp_path, held)

    @pytest.mark.parametrize("held", [False, True])
    def test_a_cache_is_found(self, held, tmp_path, monkeypatch):
        plant(monkeypatch, "pipelines keep their caches")
        assert self.cached(tmp_path, held)


class TestSecretScores:
    """Algorithm 3: every candidate is trained, in an order that is public."""

    MECHANISM = Kusner2015Lipschitz(lipschitz=1.0, lambda_name="alpha", trajectory="secret")

    def candidates(self):
        found = searched(self.MECHANISM, Ridge(), 0.0)
        assert sorted(found.cv_results_) == ["param_alpha", "params"]
        return [params["alpha"] for params in found.cv_results_["params"]]

    def trained(self, monkeypatch, target):
        plant(monkeypatch, "the caller's objects are used")
        return heard_from(self.MECHANISM, target)[-30:]

    def test_trainings_do_not_follow_the_visits(self, monkeypatch):
        expected = self.candidates()
        assert len(expected) == 30
        assert self.trained(monkeypatch, 0.0) == self.trained(monkeypatch, 90.0) == expected

    def test_trainings_of_the_visited_alone_are_found(self, monkeypatch):
        plant(monkeypatch, "the visited alone are trained")
        assert self.trained(monkeypatch, 0.0) != self.candidates()


CALLBACKS = []


class NotingItsParameter(Ridge):
    """Tells a listener which candidate is trained."""

    def fit(self, X, y, listener=None):
        if listener is not None:
            listener.heard.append(self.alpha)
        return super().fit(X, y)


class NotingItsCallbacks(Ridge):
    """Notes whether it has callbacks when it is trained."""

    def fit(self, X, y):
        CALLBACKS.append(bool(getattr(self, "_skl_callbacks", None)))
        return super().fit(X, y)


class KeepingItsCallbacks(NotingItsCallbacks):
    """Its clones keep its callbacks, with scikit-learn older than 1.9 too."""

    def __sklearn_clone__(self):
        return with_callbacks()


def with_callbacks():
    model = KeepingItsCallbacks()
    model._skl_callbacks = [SimpleNamespace()]
    return model


def in_an_array(parts):
    array = np.empty((1, len(parts)), dtype=object)
    array[0] = parts
    return array


def deeply(parts):
    held = deque([[[[parts]]]])
    held.append(held)
    return held


@pytest.mark.parametrize("times", [1, 2])
def test_parts_of_containers_are_found_once_however_they_are_held(times):
    held = model = with_callbacks()
    for _ in range(2000):  # 2^2000 ways lead to the model
        held = [held] * times
    assert sum(part is model for part in parts_inside(held)) == 1


CHUNKS = {"protect": Chunks(2), "score_fraction": 0.0}


class TestCallbacksOfCandidates:
    """A value of the space may be an estimator that has callbacks: copies of it keep them."""

    SPACES: ClassVar = [
        {"ridge": [with_callbacks(), Ridge()]},
        {"ridge": [Holding([with_callbacks()]), Ridge()]},
    ]

    def calls(self, space):
        CALLBACKS.clear()
        model = make_pipeline(FunctionTransformer(np.negative), Ridge())
        search = DPGridSearchCV(model, space, guide=False, loss_bound=4.0, refit=False)
        search.fit(X, Y, X_val=X[:10], y_val=Y[:10])
        return CALLBACKS

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("space", SPACES)
    def test_they_are_not_called(self, space):
        assert self.calls(space)
        assert not any(CALLBACKS)

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("space", SPACES)
    def test_they_are_found_if_trainings_keep_them(self, space, monkeypatch):
        put(monkeypatch, "train and score: without_callbacks", lambda model: model)
        assert any(self.calls(space))

    @pytest.mark.parametrize("space", SPACES)
    @pytest.mark.parametrize("protect", [Chunks(2), PrivateSelection()], ids=["chunks", "models"])
    def test_where_they_are_shown_protected_rows_they_are_refused(self, protect, space):
        model = make_pipeline(FunctionTransformer(np.negative), Ridge())
        with pytest.raises(ValueError, match="Callbacks of the estimator"):
            DPGridSearchCV(model, space, protect=protect, loss_bound=4.0).fit(X, Y)

    @pytest.mark.parametrize("hold", [list, set, frozenset, deque, in_an_array, deeply])
    def test_whatever_container_holds_the_part(self, hold):
        """Their calls would give the secret number of trials."""
        for protect in (Chunks(2), PrivateSelection()):
            search = DPGridSearchCV(Ridge(), {"alpha": [1.0]}, protect=protect, loss_bound=4.0)
            search.set_params(estimator=Holding(hold([with_callbacks()])))
            with pytest.raises(ValueError, match="Callbacks of the estimator"):
                search.fit(X, Y)

    def test_so_are_caches_of_parts_in_lists(self, tmp_path):
        pipeline = make_pipeline(FunctionTransformer(doubled), Ridge(), memory=str(tmp_path))
        inner = GridSearchCV(Pipeline([("model", Ridge())]), {"model": [pipeline]}, cv=2)
        for model, space in [(Holding([pipeline]), {"alpha": [1.0]}), (inner, {"cv": [2, 3]})]:
            with pytest.raises(ValueError, match="memory must be None"):
                DPGridSearchCV(model, space, protect=Chunks(2), loss_bound=4.0).fit(X, Y)
        assert not list(tmp_path.rglob("*.pkl"))
