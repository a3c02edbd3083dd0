"""The warning that `best_score_` will tell little: from public numbers, and before any charge."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from _support.internals import (
    ListChoice,
    PerRecordScorer,
    PrivateChoice,
    add_laplace,
    laplace_noise_std,
)
from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.exceptions import NoisyScoreWarning
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection import Chunks, Kusner2015, Kusner2015Lipschitz
from skdpbo.privacy import PrivacyLedger

pytestmark = pytest.mark.usefixtures("few_public_candidates")

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


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", SEARCHES)
def test_few_records_are_reported_by_their_number_alone(kind):
    worst = {"X_val": np.full((40, 4), np.inf), "y_val": np.zeros(40, dtype=int)}
    warned = fit(kind, epsilon=0.1)
    assert len(warned) == 1
    assert warned == fit(kind, worst, epsilon=0.1)
    assert fit(kind, epsilon=100.0) == fit(kind, epsilon=0.1, score_fraction=0) == []


ROWS_OF_LOSSES = {"X_val": np.tile(X[200:], (10, 1)), "y_val": np.tile(Y[200:], 10)}
LOG_LOSS = {"scoring": "neg_log_loss", "loss_bound": 6.9}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*SEARCHES, "gaussian"])
def test_noise_beside_the_public_loss_is_reported_once_and_by_public_values_alone(kind):
    usual = LOG_LOSS
    if kind == "gaussian":
        kind, usual = "bayes", usual | {"mechanism": "gaussian", "n_iter": 2}
    worst = {"X_val": np.full((400, 4), np.inf), "y_val": np.zeros(400, dtype=int)}
    # A loss of about .3, and noise of .1 to .2 of a range of 6.9.
    (text,) = fit(kind, ROWS_OF_LOSSES, **usual, epsilon=0.3)
    assert "the public score of the best candidate" in text
    assert [text] == fit(kind, worst, **usual, epsilon=0.3)
    assert fit(kind, ROWS_OF_LOSSES, **usual, epsilon=100.0) == []


def test_noise_beside_the_public_loss_is_reported_before_the_charge():
    search = DPGridSearchCV(LogisticRegression(), VALUES, **LOG_LOSS, epsilon=0.3)
    with PrivacyLedger(epsilon=1.0) as ledger, warnings.catch_warnings():
        warnings.simplefilter("error", NoisyScoreWarning)
        with pytest.raises(NoisyScoreWarning, match="public score"):
            search.fit(**PUBLIC, **ROWS_OF_LOSSES)
        assert not ledger.entries


def test_the_noise_that_is_reported_beside_a_root_is_that_of_the_root():
    X = np.zeros((400, 1))
    rows = {"X": X, "y": np.resize([-1.0, 1.0], 400), "X_val": X[1:], "y_val": np.ones(399)}
    model = DummyRegressor(strategy="constant", constant=0.0)  # each loss is 1
    usual = {"scoring": "neg_root_mean_squared_error", "loss_bound": 100.0, "score_fraction": 0.1}
    warned = {}
    for epsilon in (3.0, 30.0):  # noise of 1.2 and .12 of the mean loss, of about .6 and .06 of it
        search = DPGridSearchCV(model, {}, epsilon=epsilon, **usual)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NoisyScoreWarning)
            search.fit(**rows)
        warned[epsilon] = [str(w.message) for w in caught if w.category is NoisyScoreWarning]
    assert warned[30.0] == []
    assert "the public score of the best candidate -1." in warned[3.0][0]


@pytest.mark.parametrize(
    ("rows", "how"),
    [
        ({"X": X, "y": Y}, LOG_LOSS | {"protect": Chunks(5), "epsilon": 10.0}),  # no public losses
        (PUBLIC | ROWS_OF_LOSSES, {"epsilon": 0.3}),  # a range that scores use: accuracy
        (PUBLIC | ROWS_OF_LOSSES, LOG_LOSS | {"epsilon": 0.3, "score_fraction": 0}),
        (PUBLIC | ROWS_OF_LOSSES, LOG_LOSS | {"epsilon": 0.3, "guide": False, "n_iter": 2}),
        (PUBLIC | ROWS_OF_LOSSES, LOG_LOSS | {"epsilon": 0.3, "neighbours": "add-remove"}),
    ],
    ids=["chunks", "accuracy", "no score", "unguided", "secret number"],
)
def test_noise_is_not_reported_without_public_losses_or_where_the_range_says_it(rows, how):
    if how.get("guide", True):
        search = DPGridSearchCV(LogisticRegression(), VALUES, **how)
    else:
        how = how | {"mechanism": "gaussian", "score_fraction": 0}
        search = DPBayesSearchCV(LogisticRegression(), VALUES, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", NoisyScoreWarning)
        search.fit(**rows)


def test_a_ratio_is_compared_with_its_own_range_and_not_with_a_loss():
    y = X[:, 0]  # of which the losses are almost 0, so that any noise is more
    rows = {"X": X[:200], "y": y[:200], "X_val": np.tile(X[200:], (10, 1))}
    search = DPGridSearchCV(Ridge(), {}, scoring="r2", loss_bound=10.0, epsilon=20.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoisyScoreWarning)
        search.fit(**rows, y_val=np.tile(y[200:], 10))
    assert search.best_score_ > 0.9


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
    claimed = ListChoice(choice).score_noise(sensitivity=7, largest=7_000)
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

    @pytest.mark.slow
    def test_formula_of_the_lattice_release(self):
        """Standard error of the deviation of 4000 Laplace draws: 1.8 %; five of them are 9 %."""
        source = noise_source(0)
        noisy = [add_laplace(0.3, 0.2, 0.5, source) for _ in range(4000)]
        assert np.std(noisy) == pytest.approx(laplace_noise_std(0.2, 0.5), rel=0.09)


CHANCE = {"roc_auc": "0.5", "f1": "0", "balanced_accuracy": "0.5"}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("scoring", "chance"), CHANCE.items())
def test_noise_of_a_ratio_or_of_pairs_is_reported_beside_the_gain_over_chance(scoring, chance):
    rng = np.random.default_rng(0)
    weak = {"X": rng.normal(size=(600, 4)), "y": (np.arange(600) % 9 == 0).astype(int)}
    # A line that hardly depends on X, with some predicted positives.
    model = LogisticRegression(class_weight={0: 1, 1: 7.6})
    rows = {"X_val": np.full((2000, 4), np.inf), "y_val": np.zeros(2000, dtype=int)}
    search = DPGridSearchCV(model, VALUES, scoring=scoring, score_fraction=0.1, epsilon=0.7)
    with PrivacyLedger(epsilon=1.0) as ledger, warnings.catch_warnings():
        warnings.simplefilter("error", NoisyScoreWarning)
        with pytest.raises(NoisyScoreWarning, match=f"the public score .* chance has {chance}"):
            search.fit(**weak, **rows)
        assert not ledger.entries
    assert fit("grid", ROWS_OF_LOSSES, scoring=scoring, epsilon=5.0) == []


def test_a_ratio_that_turns_out_to_be_noise_is_reported_once_it_is_released():
    """Seven of ten releases turn out so: one of 20, except with a probability of 1e-10."""
    rng = np.random.default_rng(0)
    y = (np.arange(4000) % 10 == 0).astype(int)
    X = rng.normal(size=(4000, 4)) + 0.8 * y[:, None]
    # Nearly no row is predicted to be positive.
    model = LogisticRegression(class_weight={0: 9, 1: 1})
    how = {"X": X[:2000], "y": y[:2000], "X_val": X[2000:], "y_val": y[2000:]}
    search = DPGridSearchCV(model, VALUES, scoring="precision", epsilon=1.0, cv=2)

    def is_reported():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NoisyScoreWarning)
            search.fit(**how)
        warned = [str(w.message).startswith("best_score_ is mostly noise: it is") for w in caught]
        assert warned == [True] * (search.best_score_std_ > 0.25)
        return warned

    assert any(is_reported() for _ in range(20))
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoisyScoreWarning)
        search.set_params(scoring="roc_auc").fit(**how)
