"""Errors of the evaluators' own code are noted, and those of cells and of others are not."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from _support.hostile import Hostile
from _support.internals import attempt, in_public_schema, isolated_outcomes, resolve_scorer
from _support.own_errors import NOTED
from _support.planted import put

X = np.arange(6.0)[:, None]
MODEL = Ridge().fit(X, X[:, 0])


@pytest.fixture
def noted():
    yield NOTED
    NOTED.clear()  # or the test would fail


def losses(rows=X):
    return isolated_outcomes(MODEL, resolve_scorer("neg_mean_squared_error", MODEL, 1.0), rows, X)


def test_a_name_that_is_no_longer_callable(noted, monkeypatch):
    put(monkeypatch, "train and score: take_rows", None)
    assert len(set(losses())) == 1  # in silence
    assert noted[0].startswith("TypeError in _outcomes_together (_train_and_score.py")


def test_a_call_with_other_arguments(noted):
    attempt(isolated_outcomes, X)
    assert noted[0].startswith("TypeError in isolated_outcomes")


def test_cells_and_other_code_are_not_noted():
    assert len(set(losses(X[:, [0, 0]]))) == 1  # scikit-learn refuses another width
    in_public_schema([[0.0], ["text"]], [Hostile(), None], X, X[:, 0])
    assert attempt(float, "text")[0] is None
    assert NOTED == []
