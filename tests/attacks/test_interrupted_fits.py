"""Control-C at any place of a fit: no released value stands without its guarantee.

An estimator is as it was or complete, a searcher empty or complete.
"""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor

from _support.interrupts import interrupted
from _support.planted import LOUD_NUMPY, SameContext, put
from _support.private_estimators import BOXES, every_private_estimator
from skdpbo import DPGridSearchCV
from skdpbo.linear_model import DPRidge
from skdpbo.model_selection import Chunks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyScoreWarning"),
    pytest.mark.filterwarnings("ignore::skdpbo.exceptions.HiddenColumnsWarning"),
    # Hundreds of fits of 30 records: noise alone announces a wide box in some.
    pytest.mark.filterwarnings("ignore::skdpbo.exceptions.WideBoundsWarning"),
]
RNG = np.random.RandomState(0)
X, Y = RNG.uniform(-1, 1, (30, 2)), RNG.uniform(-1, 1, 30)
LABELS = (Y > 0).astype(int)
PARTS = ("_protection", "_validation", "_chunked", "_private_models")
PROTECTION = {f"skdpbo.model_selection.protection.{part}" for part in PARTS}
SEARCHES = [
    DPGridSearchCV(DummyRegressor(), {"strategy": ["mean"]}, loss_bound=1.0, guide=guide, **more)
    for guide, more in ((True, {"cv": 2}), (False, {}), (False, {"protect": Chunks(2)}))
]


def fitted(estimator):
    return {n: v for n, v in vars(estimator).items() if n.endswith("_") and n[0] != "_"}


def half_made(estimator, fit, modules):
    """Return names that one of many interrupts has left without their guarantee."""
    found, at, before = set(), 1, {}

    def noted():
        nonlocal before
        before = fitted(estimator)  # just before: later Pythons need a whole fit first
        fit()

    fit()
    names = {*fitted(estimator)}
    while not found and interrupted(noted, modules, at):
        after = fitted(estimator)
        is_new = "privacy_" in after and after["privacy_"] is not before.get("privacy_")
        if is_new and {*after} != names:
            found |= names ^ {*after}
        elif not is_new:
            found |= {name for name in after if after[name] is not before.get(name)}
        at += 7
    assert found or at > 50
    return found


def modules_of(estimator):
    return {kind.__module__ for kind in type(estimator).__mro__ if "skdpbo" in kind.__module__}


def fit_of(search):
    if search.protect == "validation":
        return lambda: search.fit(X, Y, X_val=X + 1, y_val=Y + 1)
    return lambda: search.fit(X, Y)


@pytest.mark.parametrize(
    "estimator", every_private_estimator().values(), ids=lambda estimator: type(estimator).__name__
)
class TestEstimators:
    def test_complete_or_unchanged(self, estimator):
        modules = modules_of(estimator)
        assert half_made(estimator, lambda: estimator.fit(X, LABELS), modules) == set()

    def test_half_made_fits_are_found(self, estimator):
        # Planted bug: what was set before the interrupt stays.
        bare, modules = type(estimator).fit.__wrapped__, modules_of(estimator)
        assert half_made(estimator, lambda: bare(estimator, X, LABELS), modules)


@pytest.mark.parametrize("search", SEARCHES, ids=["guided", "unguided", "chunks"])
class TestSearchers:
    def test_complete_or_empty(self, search):
        assert half_made(search, fit_of(search), PROTECTION) == set()

    def test_half_made_searches_are_found(self, search, monkeypatch):
        put(monkeypatch, "protection: Protection.forget", lambda self: None)
        assert half_made(search, fit_of(search), PROTECTION)


REPORTS = {np.errstate.__enter__.__globals__["__name__"]}
FITS = {
    "private estimator": lambda: DPRidge(**BOXES).fit(X, LABELS),
    "search": fit_of(SEARCHES[1]),
}


@pytest.mark.parametrize("name", FITS)
class TestReportsOfNumpy:
    """What numpy does on an overflow is what the caller has set, wherever the interrupt comes."""

    def test_they_are_put_back(self, name):
        with np.errstate(over="raise"):
            before, at = np.geterr(), 1
            while interrupted(FITS[name], REPORTS, at):
                assert np.geterr() == before
                at += 5
        assert at > 50

    def test_others_are_found(self, name, monkeypatch):
        put(monkeypatch, f"{name}: copy_context", SameContext)
        if name == "private estimator":  # a block around the fit would put them back
            put(monkeypatch, f"{name}: np", LOUD_NUMPY)
        with pytest.raises(AssertionError):
            self.test_they_are_put_back(name)
