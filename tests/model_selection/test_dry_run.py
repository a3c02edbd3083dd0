"""A public mistake shows on synthetic rows; the values of the rows that are given are not read."""

import random
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from skdpbo.exceptions import DryRunWarning
from skdpbo.model_selection._dry_run import dry_run
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger, charge_active_ledger

NUMBERS = np.full((5, 3), np.nan)
LABELS = np.array(["yes", "no", "yes", "no", "maybe"])
FRAME = pd.DataFrame(
    {
        "age": [1, 2, 3, 4, 5],
        "income": [1.0, np.nan, 2.0, 3.0, 4.0],
        "town": ["x", "y", "z", "x", None],
        "sex": pd.Categorical(["f", "m", "f", "m", "f"]),
        "member": [True, False, True, True, False],
    }
)
ENCODED = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), ["town", "sex"]),
    ("passthrough", ["age", "income", "member"]),
)


def warned(estimator, candidates, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dry_run(estimator, candidates, X, y)
    assert all(issubclass(w.category, DryRunWarning) for w in caught)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize(
    ("estimator", "X", "y"),
    [
        (Ridge(), NUMBERS, np.arange(5)),
        (Ridge(), NUMBERS.astype(object), np.zeros((5, 2))),
        (PoissonRegressor(), sparse.csr_matrix(NUMBERS), np.arange(5.0)),
        (LogisticRegression(), NUMBERS.astype(np.float32), LABELS),
        (LogisticRegression(), NUMBERS, pd.Series(LABELS, dtype="category")),
        (LogisticRegression(), NUMBERS, [0, 1, 2, 0, 1]),
        (DecisionTreeClassifier(), NUMBERS, np.zeros((5, 2), dtype=int)),
        (MultinomialNB(), NUMBERS, LABELS.astype(object)),
        (make_pipeline(ENCODED, DecisionTreeClassifier()), FRAME, pd.Series(LABELS)),
        (make_pipeline(CountVectorizer(token_pattern="."), Ridge()), LABELS, np.arange(5.0)),
        (Ridge(), [["anything"]] * 5, [None] * 5),
    ],
)
def test_what_works_is_passed_over_in_silence(estimator, X, y):
    assert warned(estimator, [{}], X, y) == []


def test_one_candidate_of_each_structure():
    candidates = [{"alpha": 1.0}, {"alpha": "x"}, {"alpha": -1.0, "solver": "svd"}]
    (message,) = warned(Ridge(), candidates, NUMBERS, np.arange(5.0))
    assert "Ridge with {'alpha': -1.0, 'solver': 'svd'}" in message
    assert "alpha" in message.split(":", 1)[1]


def test_a_wrong_column_is_reported():
    model = make_pipeline(make_column_transformer(("passthrough", ["height"])), Ridge())
    (message,) = warned(model, [{}], FRAME, np.arange(5.0))
    assert "column" in message.split(":", 1)[1]


class Global(BaseEstimator):
    """Draws from the global generators, and charges."""

    def fit(self, X, y=None):
        charge_active_ledger(PrivacyGuarantee(epsilon=1.0))
        random.random()
        np.random.rand()
        assert np.isfinite(X).all()  # NUMBERS holds NaN: these are other values
        return self


def test_no_value_is_read_and_nothing_global_changes():
    before = random.getstate(), np.random.get_state()[1].tolist()
    with PrivacyLedger(epsilon=0.1) as ledger:
        assert warned(Global(), [{}], NUMBERS, None) == []
    assert ledger.entries == ()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_the_message_does_not_depend_on_values():
    first = warned(Ridge(alpha=-1.0), [{}], NUMBERS, np.arange(5.0))
    second = warned(Ridge(alpha=-1.0), [{}], NUMBERS + 7.0, np.ones(5))
    assert first == second
    assert len(first) == 1
