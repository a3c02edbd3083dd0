"""Records that cannot be read or scored cost as few predictions as can be."""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor

from _support.internals import isolated_outcomes, resolve_scorer, train

X = np.arange(16.0)[:, None]


class Counting(DummyRegressor):
    def predict(self, X):
        self.sizes.append(len(X))
        if np.isinf(X).any():
            raise ValueError("infinite")
        return super().predict(X)


@pytest.mark.parametrize(("bad", "n_predictions"), [(X > 99, 1), (X == 3, 1), (X >= 0, 0)])
def test_unreadable_records_need_no_second_prediction(bad, n_predictions):
    model, bad = Counting().fit(X, np.zeros(16)), bad.ravel()
    model.sizes = []
    scorer = resolve_scorer("neg_mean_squared_error", model, 1.0)
    losses = isolated_outcomes(model, scorer, X, np.zeros(16), bad)
    assert model.sizes == [16] * n_predictions
    assert losses.tolist() == np.where(bad, scorer.units, 0).tolist()


def test_a_record_that_cannot_be_scored_is_found_by_halves():
    rows = np.where(X == 3, np.inf, X)
    model = Counting().fit(X, np.zeros(16))
    model.sizes = []
    scorer = resolve_scorer("neg_mean_squared_error", model, 1.0)
    losses = isolated_outcomes(model, scorer, rows, np.zeros(16))
    assert np.flatnonzero(losses).tolist() == [3]
    assert model.sizes[0] == model.sizes[-1] == 16


class InPlace(DummyRegressor):
    def fit(self, X, y):
        X[:], y[:] = 0, 0
        return super().fit(X, y)


@pytest.mark.parametrize("rows", [None, np.arange(16)])
def test_a_training_changes_no_rows_of_the_user(rows):
    inputs, targets = X + 1, np.ones(16)
    train(InPlace(), inputs, targets, {}, rows=rows)
    assert inputs.all()
    assert targets.all()
