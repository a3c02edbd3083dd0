"""Which candidates `Kusner2015` visits depends on exact protected scores: nobody may see it.

Candidates are trained on public rows, but in an order that is protected. Listeners, callbacks and
caches would note it. Each attack has a planted bug that it finds.
"""

from types import SimpleNamespace

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpbo import DPBayesSearchCV
from skdpbo.model_selection import Kusner2015, _evaluation

RNG = np.random.RandomState(0)
X, Y = RNG.normal(size=(20, 2)), RNG.normal(size=20)


def doubled(X):
    return 2 * X


class TestHiddenTrajectory:
    def search(self, estimator, target, **entries):
        name = "ridge__alpha" if isinstance(estimator, Pipeline) else "alpha"
        search = DPBayesSearchCV(
            estimator,
            {name: (0.1, 9.0)},
            n_iter=8,
            n_initial_points=2,
            n_candidates=30,
            mechanism=Kusner2015(),
            guide=False,
            loss_bound=4.0,
            refit=False,
            score_fraction=0.0,
        )
        search.fit(X, Y, X_val=3 * X[:10], y_val=np.append(np.zeros(9), target), **entries)

    def heard(self, target):
        listener = SimpleNamespace(heard=[])
        self.search(NotingItsParameter(), target, listener=listener)
        return listener.heard

    def test_a_listener_hears_nothing(self):
        assert self.heard(0.0) == []

    def test_a_listener_that_hears_is_found(self, monkeypatch):
        # Planted bug: every training is given the caller's object.
        monkeypatch.setattr(_evaluation, "_copied", lambda thing: thing)
        assert len(self.heard(0.0)) >= 8

    def calls(self, estimator):
        estimator._skl_callbacks = [SimpleNamespace()]  # of scikit-learn's protocol, since 1.9
        CALLBACKS.clear()
        self.search(estimator, 0.0)
        return CALLBACKS

    def test_callbacks_are_not_called(self):
        assert not any(self.calls(NotingItsCallbacks()))

    def test_callbacks_that_are_called_are_found(self, monkeypatch):
        # Planted bug: clones keep the callbacks.
        monkeypatch.setattr(_evaluation, "without_callbacks", lambda estimator: estimator)
        monkeypatch.setattr(_evaluation, "clone", keeping_callbacks)
        assert any(self.calls(NotingItsCallbacks()))

    def cached(self, folder):
        estimator = make_pipeline(FunctionTransformer(doubled), Ridge(), memory=str(folder))
        self.search(estimator, 0.0)
        return list(folder.rglob("*.pkl"))

    def test_nothing_is_cached(self, tmp_path):
        assert not self.cached(tmp_path)

    def test_a_cache_is_found(self, tmp_path, monkeypatch):
        # Planted bug: pipelines keep their caches.
        monkeypatch.setattr(_evaluation, "_forget_caches", lambda estimator: None)
        assert self.cached(tmp_path)


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


def keeping_callbacks(estimator, **how):
    """As scikit-learn 1.9 clones."""
    copied = clone(estimator, **how)
    if hasattr(estimator, "_skl_callbacks"):
        copied._skl_callbacks = estimator._skl_callbacks
    return copied
