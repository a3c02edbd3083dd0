"""Steps that put out frames of Python objects, whose columns pandas types by all rows."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from _support.internals import mixes_rows, unverified_steps
from skdpbo import DPGridSearchCV
from skdpbo.model_selection import Chunks
from skdpbo.privacy import PrivacyLedger

# Beside texts alone None becomes NaN, since pandas 3.
TYPES_TEXTS = pd.DataFrame(np.array([["a"]], dtype=object)).dtypes.iloc[0] != np.dtype(object)
SPACE = {"logisticregression__C": [0.1, 100.0]}
CELLS = np.array(["a", "b", "a", "b", "a", None] * 10, dtype=object)
Y = np.arange(60) % 2


def framed(how="pandas"):
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    steps = SimpleImputer(strategy="most_frequent"), encoder
    return make_pipeline(*steps, LogisticRegression()).set_output(transform=how)


def searched(X, model=None, **params):
    search = DPGridSearchCV(model or framed(), SPACE, score_fraction=0, **params)
    rows = {} if "protect" in params else {"X_val": X[:30], "y_val": Y[:30]}
    return search.fit(X[30 - 30 * (not rows) :], Y[30 - 30 * (not rows) :], **rows)


def of_objects(cells):
    return pd.DataFrame(cells, dtype=object)


@pytest.mark.parametrize("container", [of_objects, np.asarray])
def test_a_number_among_texts_that_moves_other_rows_is_refused_before_the_charge(container):
    X = container(CELLS[:, None])
    assert mixes_rows(framed().fit(X, Y).predict_proba, X) == TYPES_TEXTS
    refused = pytest.raises(ValueError, match="have a type by all rows") if TYPES_TEXTS else None
    with PrivacyLedger(1.0) as ledger, refused or nullcontext():
        searched(X)
    assert len(ledger.entries) == 1 - TYPES_TEXTS
    assert searched(X, framed("default")).privacy_.status == "proved"


def test_frames_of_objects_that_move_nothing_are_an_assumption():
    X = pd.DataFrame({"ward": pd.Series(CELLS, dtype=object).fillna("c")})
    for params in ({}, {"protect": Chunks(3), "guide": False}):
        guarantee = searched(X, **params).privacy_
        assert guarantee.status == "conditional"
        assert "frames of Python objects, as by set_output, of SimpleImputer" in str(guarantee)
        assert searched(X, framed("default"), **params).privacy_.status == "proved"
        for dtype in ("string", "category"):
            assert searched(X.astype(dtype), **params).privacy_.status == "proved"


def test_frames_of_numbers_are_proved():
    model = make_pipeline(StandardScaler(), LogisticRegression())
    with sklearn.config_context(transform_output="pandas"):
        X = pd.DataFrame(np.random.RandomState(0).uniform(size=(60, 2)), columns=list("ab"))
        assert searched(X, model).privacy_.status == "proved"


def test_steps_that_put_out_frames_are_named():
    model = make_pipeline(StandardScaler().set_output(transform="pandas"), OneHotEncoder())
    scaler = "frames of Python objects, as by set_output, of StandardScaler (step "
    assert unverified_steps(model) == ()
    assert unverified_steps(model, objects=True) == (f"{scaler}'standardscaler')",)
    model = FrozenEstimator(model[:1].fit([[0.0], [1.0]]))
    (name,) = unverified_steps(model, objects=True)
    assert name.startswith(f"{scaler}'estimator__")
    steps = [{"standardscaler": StandardScaler().set_output(transform="pandas")}]
    plain = make_pipeline(StandardScaler(), LogisticRegression())
    assert unverified_steps(plain, objects=True) == ()
    assert unverified_steps(plain, steps, objects=True) == (f"{scaler}'standardscaler')",)
