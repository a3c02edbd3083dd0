"""A pipeline of private steps inside a private search: the search sets the shares."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

from skdpbo import DPGridSearchCV
from skdpbo.exceptions import SeededNoiseWarning
from skdpbo.linear_model import DPLogisticRegression
from skdpbo.pipeline import pipeline_guarantee
from skdpbo.preprocessing import DPOneHotEncoder, DPSimpleImputer, DPStandardScaler


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SelectionCostWarning")
def test_search_splits_the_budget_of_a_trial_over_the_steps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    y = (X[:, 0] + rng.logistic(size=1000) > 0).astype(int)
    model = make_pipeline(
        DPStandardScaler(X_bounds=(-9, 9)), DPLogisticRegression(X_bounds=(-3, 3), classes=[0, 1])
    )
    space = {"dplogisticregression__C": [0.01, 1.0]}
    search = DPGridSearchCV(model, space, protect="all", epsilon=3.0, delta=1e-5).fit(X, y)
    scaler, classifier = (step for _, step in search.best_estimator_.steps)
    assert search.privacy_.status == "proved"
    assert search.privacy_.epsilon == 3.0
    assert scaler.epsilon == classifier.epsilon
    assert 0 < scaler.epsilon < 3.0


def raw_table():
    """Numbers with missing values beside categories, and a classifier of such rows."""
    rng = np.random.default_rng(0)
    age = rng.normal(50, 10, 2000)
    X = pd.DataFrame({"age": age, "town": rng.choice(["Rome", "Oslo"], 2000)})
    y = ((age - 50) / 10 + 2 * (X["town"] == "Rome") + rng.logistic(size=2000) > 1).astype(int)
    X.loc[::7, "age"] = np.nan
    numbers = make_pipeline(DPSimpleImputer(X_bounds=(0, 100)), DPStandardScaler(X_bounds=(0, 100)))
    columns = ColumnTransformer(
        [("numbers", numbers, ["age"]), ("categories", DPOneHotEncoder(), ["town"])]
    )
    return make_pipeline(columns, DPLogisticRegression(X_bounds=(-3, 3), classes=[0, 1])), X, y


def test_whole_pipeline_of_a_raw_table():
    model, X, y = raw_table()
    seeds = {name: 0 for name in model.get_params() if name.endswith("random_state")}
    with pytest.warns(SeededNoiseWarning):
        assert clone(model).set_params(**seeds).fit(X, y).score(X, y) > 0.65
    model.fit(X, y)
    assert pipeline_guarantee(model).status == "proved"
    steps = [model[0].named_transformers_["categories"], *model[0].named_transformers_["numbers"]]
    assert pipeline_guarantee(model).epsilon < 1.0 + sum(step.epsilon for step in steps)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SelectionCostWarning")
def test_search_sets_the_shares_of_imputer_and_encoder():
    model, X, y = raw_table()
    space = {"dplogisticregression__C": [0.01, 1.0]}
    search = DPGridSearchCV(model, space, protect="all", epsilon=8.0, delta=1e-5).fit(X, y)
    columns = search.best_estimator_[0].named_transformers_
    steps = [*columns["numbers"], columns["categories"], search.best_estimator_[1]]
    assert search.privacy_.epsilon == 8.0
    assert 0 < steps[0].epsilon < 8.0
    mus = [step.privacy_guarantee().mu for step in steps]
    assert max(mus) < 1.2 * min(mus)
    assert search.privacy_.status == "proved"
