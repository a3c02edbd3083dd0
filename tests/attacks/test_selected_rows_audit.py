"""Attacks on the rows of ``protect="all"`` with a private estimator: what one record decides.

A record may change what it trains, and its own loss: not how others are read, not a type that is
published, not whether there is a model, not who is charged. Each with a planted bug.
"""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from _support.internals import TrialData, _isolated_task, _trial, in_public_schema, this_process
from _support.planted import original, plant, put
from _support.protections import without_numbers
from skdpbo import DPGridSearchCV
from skdpbo.exceptions import BudgetExceededError
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger


class Steady(RegressorMixin, BaseEstimator):
    """A private model that learns nothing, so that it is private at every budget."""

    def __init__(self, factor=1.0, epsilon=1.0):
        self.factor = factor
        self.epsilon = epsilon

    def privacy_guarantee(self, n_samples=None):
        return PrivacyGuarantee(epsilon=self.epsilon, protects="training records")

    def fit(self, X, y=None):
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        return np.zeros(len(X))


def search(estimator=None, factors=(1.0, 2.0, 3.0), **params):
    estimator = Steady() if estimator is None else estimator
    name = "steady__factor" if hasattr(estimator, "steps") else "factor"
    options = {"protect": "all", "loss_bound": 1.0, "scoring": "neg_mean_squared_error"}
    return DPGridSearchCV(estimator, {name: list(factors)}, **options | params)


DIGITS = np.array([["0", "1"], ["1", "2"]] * 30, dtype=object)
Y = np.linspace(-1, 1, 60)


class TestValidationRows:
    def scored(self, X, monkeypatch):
        """Types of the cells of the validation rows as the trials get them."""
        seen = []
        honest = original("private models: best_of_trials")

        def look(plan, data, *args, **kwargs):
            seen.append(data.rows)
            return honest(plan, data, *args, **kwargs)

        put(monkeypatch, "private models: best_of_trials", look)
        search().fit(X, Y, X_val=DIGITS[:20].copy(), y_val=Y[:20])
        ((rows, _, _),) = seen
        return [type(cell) for cell in rows.ravel()]

    def neighbours(self):
        other = DIGITS.copy()
        other[7, 0] = "abc"
        return DIGITS, other

    def test_training_rows_do_not_type_them(self, monkeypatch):
        first, second = (self.scored(X, monkeypatch) for X in self.neighbours())
        assert first == second == [str] * 40

    def test_rows_typed_by_training_rows_are_found(self, monkeypatch):
        # Planted bug: as in protect="validation", where the training rows are public.
        training = []

        def typed(X, y, *, width, labels):
            if training:
                rows = in_public_schema(X, y, *training)
                training.clear()  # the next fit
                return rows.X, rows.y
            X = X.astype(float) if all(c.isdigit() for c in X.flat) else X
            training.extend((X, y))
            return X, y

        put(monkeypatch, "protected rows: _settled_part", typed)
        first, second = (self.scored(X, monkeypatch) for X in self.neighbours())
        assert first != second


class TestTypes:
    def types(self, record):
        rows = [[i % 3, i % 2] for i in range(60)]
        rows[3] = record  # trains
        encoder = OneHotEncoder(
            categories=[[0, 1, 2]] * 2, handle_unknown="ignore", sparse_output=False
        )
        found = search(make_pipeline(encoder, Steady()), epsilon=50.0).fit(rows, Y)
        fitted = found.best_estimator_[0]
        return [c.dtype for c in fitted.categories_], fitted.n_features_in_

    RECORDS = ([0, 1], [0.5, 1], ["text", None], [True, 10**400], [1.0], None, [[], {}])

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("record", RECORDS[1:], ids=repr)
    def test_one_record_does_not_change_them(self, record):
        assert self.types(record) == self.types(self.RECORDS[0])

    def test_types_of_numpy_are_found(self, monkeypatch):
        plant(monkeypatch, "trials: numpy gives all rows one type")
        assert self.types([0.5, 1]) != self.types([0, 1])


class Counting(pd.DataFrame):
    """Rows that count how often they are taken."""

    reads = 0

    def take(self, *args, **how):
        Counting.reads += 1
        return super().take(*args, **how)


def test_rows_are_cut_after_the_charge(monkeypatch):
    rows = Counting(np.zeros((60, 2)))

    def reads():
        Counting.reads = 0
        with PrivacyLedger(epsilon=0.1), pytest.raises(BudgetExceededError):
            search().fit(rows, Y)
        return Counting.reads

    assert reads() == 0
    plant(monkeypatch, "trials: the parts are cut before the charge")
    assert reads() > 0


@pytest.mark.parametrize("where", ["fit", "predict"])
def test_a_record_cannot_end_the_process(where):
    class Quitting(Steady):
        def fit(self, X, y):
            if where == "fit" and np.max(X) > 5:
                sys.exit(f"the record is {np.max(X)}")
            return super().fit(X, y)

        def predict(self, X):
            if where == "predict" and np.max(X) > 5:
                sys.exit(f"the record is {np.max(X)}")
            return super().predict(X)

    rows = np.zeros((60, 2))
    rows[3, 0] = 7.25  # trains
    model = search(Quitting())
    if where == "fit":
        with pytest.raises(ValueError, match="winning trial") as failure:
            model.fit(rows, Y)
        assert "7.25" not in str(failure.value)
        assert failure.value.__context__ is None
    else:
        model.fit(np.zeros((60, 2)), Y, X_val=rows, y_val=Y)
        assert -1 <= model.best_score_ <= 0


def test_a_worker_of_the_same_number_elsewhere_is_quiet(capsys):
    class Loud(Steady):
        def fit(self, X, y):
            print("fitting")
            return super().fit(X, y)

    here = this_process()
    rows = np.zeros((9, 2)), np.zeros(9), None
    printed = []
    for parent in (here, ("another machine", here[1])):
        data = TrialData(*rows[:2], {}, rows, None, None)
        sequence = np.random.SeedSequence(0)
        try:
            _isolated_task(parent, True, _trial, (Loud(), data, False, sequence))
        except AttributeError:
            pass  # it is not scored
        printed.append(capsys.readouterr().out)
    # In the parent's own process the caller has silenced all.
    assert printed == ["fitting\n", ""]


def test_the_same_rows_twice_are_refused():
    rows = np.arange(120.0).reshape(60, 2)
    with PrivacyLedger(epsilon=9.0, delta=1e-3) as ledger:
        for other in (rows, rows[30:]):
            with pytest.raises(ValueError, match="share rows"):
                search().fit(rows, Y, X_val=other, y_val=Y[-len(other) :])
        assert ledger.entries == ()
        found = search().fit(rows[:30], Y[:30], X_val=rows[30:], y_val=Y[30:])
    assert any("both in X and in X_val" in text for text in found.privacy_.assumptions)
    assert [entry.guarantee for entry in ledger.entries] == [found.privacy_]
    assert without_numbers(search().fit(rows, Y).privacy_) == search().privacy_guarantee()
