"""The warning that `best_score_` will tell little: from public numbers, and before any charge."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.exceptions import NoisyScoreWarning
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection._choice import PrivateChoice
from skdpbo.privacy import PrivacyLedger

X, Y = make_classification(240, n_features=4, random_state=0)
PUBLIC, FEW = {"X": X[:200], "y": Y[:200]}, {"X_val": X[200:], "y_val": Y[200:]}
VALUES, RANGE = {"C": [0.1, 1.0]}, {"C": (0.1, 1.0)}
GIBO = {"n_iter": 2, "delta": 1e-5, "scoring": "neg_log_loss"}
SEARCHES = {
    "grid": (DPGridSearchCV, VALUES, {}),
    "randomized": (DPRandomizedSearchCV, VALUES, {"n_iter": 2}),
    "bayes": (DPBayesSearchCV, VALUES, {"n_iter": 2}),
    "gibo": (DPGIBOSearchCV, RANGE, GIBO),
}


def fit(kind, rows=FEW, **parameters):
    """Return the texts of the warnings about the score."""
    search, space, usual = SEARCHES[kind]
    search = search(LogisticRegression(), space, **(usual | parameters))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", NoisyScoreWarning)
        search.fit(**PUBLIC, **rows)
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("kind", SEARCHES)
def test_few_records_are_told_by_their_number_alone(kind):
    worst = {"X_val": np.full((40, 4), np.inf), "y_val": np.zeros(40, dtype=int)}
    told = fit(kind, epsilon=0.1)
    assert len(told) == 1
    assert told == fit(kind, worst, epsilon=0.1)
    assert fit(kind, epsilon=100.0) == fit(kind, epsilon=0.1, score_fraction=0) == []


def test_mechanisms_without_a_score_of_their_own_say_nothing():
    assert fit("bayes", epsilon=0.1, delta=1e-5, mechanism="gaussian", score_fraction=0) == []


def test_chunks():
    search = DPGridSearchCV(
        LogisticRegression(), VALUES, protect="all", n_chunks=5, epsilon=0.5, refit=False
    )
    with pytest.warns(NoisyScoreWarning, match="best_score_"):
        search.fit(X, Y)


def test_as_an_error_it_leaves_the_budget_alone():
    with PrivacyLedger(epsilon=1.0) as ledger:
        search = DPGridSearchCV(LogisticRegression(), VALUES, epsilon=0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("error", NoisyScoreWarning)
            with pytest.raises(NoisyScoreWarning):
                search.fit(**PUBLIC, **FEW)
        assert ledger.spent().epsilon == 0
        search.fit(**PUBLIC, **FEW)
        assert ledger.spent().epsilon == pytest.approx(0.1)


def test_the_share_is_that_of_the_noise():
    choice = PrivateChoice("permute_and_flip", 2.0, 0.25)
    claimed = choice.score_noise(sensitivity=7, largest=7_000)
    source, largest = noise_source(0), 7_000
    draws = [
        choice.score(3_500, sensitivity=7, largest=largest, source=source) for _ in range(4_000)
    ]
    # The spread of 4000 Laplace draws is off by more than 15 % with a chance below 1e-6.
    assert np.std(draws) / largest == pytest.approx(claimed, rel=0.15)
