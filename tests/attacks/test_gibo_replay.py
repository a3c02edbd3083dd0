"""A descent is a function of its releases: replayed with other protected rows.

Start, points, weights, scales, steps, candidates and parameters of the choices, end and score are
the same bit for bit where the releases are. Each planted bug lets protected targets decide one.
"""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet

from _support.planted import plant
from _support.replayed_releases import replayed
from skdpbo import DPGIBOSearchCV
from skdpbo.exceptions import NoisyGradientWarning, NoisyScoreWarning
from skdpbo.model_selection import Descent, GradientSurrogate

SPACE = {"alpha": (0.001, 1.0, "log-uniform"), "l1_ratio": (0.0, 1.0)}
RNG = np.random.RandomState(0)
X = RNG.normal(size=(160, 3))
Y = X @ [1.0, 0.5, 0.0] + 0.5 * RNG.normal(size=160) + 0.3
PUBLIC, PROTECTED = (X[:60], Y[:60]), (X[60:], Y[60:])
OPPOSITE = (X[60:], -2.0 * Y[60:])
UNREADABLE = (np.full((100, 3), np.inf), np.full(100, np.nan))
STEERED = {  # all that releases and public rows can decide
    "descent": Descent(adaptive_clip=True, tol=0.5, optimizer="adam", patience=2),
    "surrogate": GradientSurrogate(fit_length_scale=True),
}
GUESSING = {"init": "public", "epsilon": 200.0}  # precise enough for candidates of the surrogate


def fit(X_val, y_val, **params):
    """Fit, and return all that can be seen."""
    how = {"n_iter": 2, "epsilon": 5.0, "loss_bound": 4.0, "cv": 2, "init": [0.6, 0.4]} | params
    search = DPGIBOSearchCV(ElasticNet(), SPACE, **how)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", (NoisyGradientWarning, NoisyScoreWarning))
        search.fit(*PUBLIC, X_val=X_val, y_val=y_val)
    seen = {f"descent_.{name}": value for name, value in vars(search.descent_).items()}
    seen |= {name: search.cv_results_[name] for name in search.cv_results_ if "time" not in name}
    names = ["best_params_", "best_index_", "best_score_", "privacy_"]
    seen |= {name: getattr(search, name) for name in names}
    seen |= {
        "coefficients": search.best_estimator_.coef_,
        "warnings": [str(w.message) for w in caught],
    }
    exact = {name: np.asarray(value).tolist() for name, value in seen.items()}
    return {name: repr(value) for name, value in exact.items()}


def both(monkeypatch, other=OPPOSITE, **params):
    return replayed(monkeypatch, lambda *rows: fit(*rows, **params), PROTECTED, other)


SLOW = [
    pytest.param(params, marks=pytest.mark.slow)
    for params in ({"guide": False}, {"init": "public"}, GUESSING)
]


@pytest.mark.parametrize("params", [STEERED, *SLOW])
def test_same_releases_same_fit(params, monkeypatch):
    first, second = both(monkeypatch, **params)
    assert len(first) > 8
    for one, two in zip(first, second, strict=True):
        assert one == two


@pytest.mark.slow
@pytest.mark.parametrize("params", [STEERED, {"init": "public"}])
def test_unreadable_rows(params, monkeypatch):
    first, second = both(monkeypatch, UNREADABLE, **params)
    assert first == second


@pytest.mark.slow
def test_other_releases_another_fit():
    """The same comparison without the replay tells the rows apart."""
    first, second = (fit(*rows, epsilon=200.0) for rows in (PROTECTED, OPPOSITE))
    assert first["descent_.trajectory"] != second["descent_.trajectory"]


BUGS = {
    "gibo: protected rows decide the weight of the public gradient": {},
    "gibo: protected rows decide the trust in a coordinate": {},
    "gibo: protected rows decide the chance that the steps have followed": {},
    "gibo: protected rows decide the clipping norm": {},
    "gibo: protected rows decide the number of steps": {"end_fraction": 0.0},
    "gibo: protected rows decide the early end": {"descent": Descent(patience=1)},
    "gibo: the end is the best on the protected rows": {},
}
MORE_BUGS = {
    "gibo: protected rows decide the rate": {},
    "gibo: protected rows decide the points of a step": {},
    "gibo: protected rows decide the length-scale": {"n_iter": 4, **STEERED},
    "gibo: protected rows decide the mean of the last points": {},
    "gibo: protected rows decide the candidates of the end": {},
    "gibo: protected rows decide what counts as a change at the end": {},
    "gibo: protected rows decide the public integers of the end": {},
    "gibo: the start is the best on the protected rows": {"init": "public"},
    "gibo: protected rows decide the guesses of the start": GUESSING,
    "gibo: protected rows decide the public integers of the guesses": GUESSING,
}


def assert_caught(monkeypatch, bug, **params):
    plant(monkeypatch, bug)
    first, second = both(monkeypatch, **params)
    assert first != second


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("bug", BUGS)
def test_bugs_are_caught(bug, monkeypatch):
    assert_caught(monkeypatch, bug, **BUGS[bug])


@pytest.mark.slow
@pytest.mark.parametrize("bug", MORE_BUGS)
def test_more_bugs_are_caught(bug, monkeypatch):
    assert_caught(monkeypatch, bug, **MORE_BUGS[bug])
