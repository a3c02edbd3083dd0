"""Values of protected records with code of their own, which says something where it is read."""

import logging
import warnings

import numpy as np
import pandas as pd
import pytest

from _support.planted import put
from _support.private_estimators import (
    BOXES,
    classifiers,
    every_private_estimator,
    of_rows,
    transformers,
)
from skdpbo import DPGridSearchCV
from skdpbo.audit import Traces
from skdpbo.linear_model import DPRidge
from skdpbo.model_selection import Chunks

TEXT = "S3cr3t"
RNG = np.random.RandomState(0)
X, Y = RNG.uniform(-1, 1, (40, 2)), RNG.uniform(-1, 1, 40)
LABELS, GROUPS = (Y > 0).astype(int), np.arange(40) // 2


def say():
    print(TEXT)
    logging.getLogger(__name__).error(TEXT)
    warnings.warn(TEXT, stacklevel=2)


class SpeakingClass(type):
    """A class that speaks where it is compared with others, or looked for among them."""

    def __eq__(cls, other):
        say()
        return super().__eq__(other)

    def __hash__(cls):
        say()
        return super().__hash__()


class Speaking(metaclass=SpeakingClass):
    """A number that prints, logs and warns of itself wherever it is used."""

    def __float__(self, *args, **kwargs):
        say()
        return 0.5

    def __hash__(self):
        return hash(float(self))

    def __eq__(self, other):
        return float(self) == other

    def __array__(self, *args, **kwargs):
        return np.asarray(float(self))


class SpeakingRow(list, metaclass=SpeakingClass):
    """A row that prints, logs and warns where its length is read."""

    def __len__(self):
        say()
        return super().__len__()


def speaking(values, form):
    cells = values.astype(object)
    cells[(3, 0) if values.ndim == 2 else 3] = Speaking()
    if form == "list":
        first, *others = cells.tolist()
        return [SpeakingRow(first) if values.ndim == 2 else first, *others]
    return cells if form == "array" else (pd.DataFrame if values.ndim == 2 else pd.Series)(cells)


PRIVATE = every_private_estimator()


def heard(fit, *args, **kwargs):
    with Traces() as traces:
        fit(*args, **kwargs)
    return TEXT in traces.text()


def of_private(name, form):
    """Return for cells of X, for targets and for groups whether they are heard."""
    model, y = PRIVATE[name], LABELS if name in classifiers() else Y
    targets = () if name in transformers() or name == "projection" else (y,)
    # A pipeline hands the rows on: they are read once more.
    fit = getattr(model, "fit_transform", model.fit)
    found = {"X": heard(fit, speaking(X, form), *targets)}
    if targets:
        found["y"] = heard(model.fit, X, speaking(y, form))
    if name not in of_rows():
        found["groups"] = heard(model.fit, X, *targets, groups=speaking(GROUPS, form))
    return found


@pytest.mark.quick_cases(7)
@pytest.mark.parametrize("form", ["array", "list", "frame"])
@pytest.mark.parametrize("name", PRIVATE)
def test_cells_and_groups_of_private_models(name, form):
    assert not any(of_private(name, form).values())


def search(**options):
    estimator = DPRidge(**BOXES)
    return DPGridSearchCV(estimator, {"alpha": [1.0]}, guide=False, loss_bound=1.0, **options)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("form", ["array", "list", "frame"])
def test_groups_of_searches(form):
    groups = speaking(GROUPS, form)
    assert not heard(search().fit, X, Y, X_val=X + 1, y_val=Y, groups_val=groups)
    for protect in ("all", Chunks(4)):
        assert not heard(search(protect=protect).fit, X, Y, groups=groups)


def test_they_are_heard_without_isolation(monkeypatch):
    for place in ("private estimator", "class labels", "set-up"):
        put(monkeypatch, f"{place}: in_isolation", lambda function, *args: function(*args))
    assert of_private("ridge", "list") == dict.fromkeys(["X", "y", "groups"], True)
    assert of_private("logistic", "list")["y"]
    groups = speaking(GROUPS, "list")
    assert heard(search().fit, X, Y, X_val=X + 1, y_val=Y, groups_val=groups)
