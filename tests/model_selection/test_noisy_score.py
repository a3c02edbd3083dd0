"""The warning that `best_score_` will tell little: from public numbers, and before any charge."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from _support.internals import PerRecordScorer, PrivateChoice, add_laplace, laplace_noise_std
from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.exceptions import NoisyScoreWarning
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection import Chunks, Kusner2015, Kusner2015Lipschitz
from skdpbo.privacy import PrivacyLedger

X, Y = make_classification(240, n_features=4, random_state=0)
PUBLIC, FEW = {"X": X[:200], "y": Y[:200]}, {"X_val": X[200:], "y_val": Y[200:]}
VALUES, RANGE = {"C": [0.1, 1.0]}, {"C": (0.1, 1.0)}
GIBO = {"init": None, "n_iter": 2, "cv": 2, "delta": 1e-5, "scoring": "neg_log_loss"}
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
        LogisticRegression(), VALUES, protect=Chunks(5), epsilon=0.5, score_fraction=0.1
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
    source, scorer = noise_source(0), PerRecordScorer(None, name="loss", bound=1.0, units=7)
    released = [
        scorer.release_score((3_500,), choice.epsilon_score, 1_000, source) for _ in range(4_000)
    ]
    # The spread of 4000 Laplace draws is off by more than 15 % with a chance below 1e-6.
    assert np.std([score.value for score in released]) == pytest.approx(claimed, rel=0.15)
    assert released[0].std == pytest.approx(claimed, rel=0.01)


def inverse_of_C(C):
    return 1 / (200 * C)


LIPSCHITZ = Kusner2015Lipschitz(lipschitz=0.25, lambda_name="C", transform=inverse_of_C)


class TestStandardDeviation:
    """Every mechanism that releases a score states the deviation of its noise."""

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyScoreWarning")
    @pytest.mark.parametrize(
        ("mechanism", "how"),
        [
            ("permute_and_flip", {}),
            ("gaussian", {}),
            (Kusner2015(), {"guide": False}),
            (LIPSCHITZ, {"scoring": "neg_log_loss"}),
        ],
        ids=["permute_and_flip", "gaussian", "kusner", "lipschitz"],
    )
    def test_bayes(self, mechanism, how):
        how = {"n_iter": 3, "score_fraction": 0.5, "epsilon": 5.0, "cv": 2, **how}
        if how.get("guide") is False:
            how.pop("cv")
        search = DPBayesSearchCV(LogisticRegression(), RANGE, mechanism=mechanism, **how)
        search.fit(**PUBLIC, **FEW)
        assert 0 < search.best_score_std_ < np.inf

    @pytest.mark.parametrize("epsilon", [1.0, 10.0])
    def test_of_the_surrogate_is_about_that_of_one_measurement(self, epsilon):
        """Three scores were released, each with sensitivity 1 / 40; the winner's is kept to."""
        how = {"mechanism": "gaussian", "n_iter": 3, "guide": False, "epsilon": epsilon}
        search = DPBayesSearchCV(LogisticRegression(), RANGE, **how).fit(**PUBLIC, **FEW)
        noise = np.sqrt(3) / 40 / search.privacy_.mu
        assert noise <= search.best_score_std_ <= 1.05 * np.sqrt(2) * noise
        (own,) = search.cv_results_["private_validation_score"][[search.best_index_]]
        assert abs(search.best_score_ - own) <= 1.05 * noise or search.best_score_ in (0.0, 1.0)

    def test_formula_of_the_lattice_release(self):
        """Standard error of the deviation of 4000 Laplace draws: 1.8 %; five of them are 9 %."""
        source = noise_source(0)
        noisy = [add_laplace(0.3, 0.2, 0.5, source) for _ in range(4000)]
        assert np.std(noisy) == pytest.approx(laplace_noise_std(0.2, 0.5), rel=0.09)
