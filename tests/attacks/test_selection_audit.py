"""Releases of whole fits on two data sets: a lower bound on epsilon never exceeds the claim.

The worst pair of data sets for a choice among candidates: one record on which candidate 0 alone
errs, or on which all others err. Bounds hold with probability 1 - 1e-6 (false alarms), and the
same test catches each planted bug.
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from _support.bounds import epsilon_at_least
from _support.evaluators import public_training
from _support.internals import PrivateChoice, in_public_schema, resolve_scorer
from _support.planted import original, plant, put
from _support.repeated import RepeatedRelease
from skdpbo import DPBayesSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.mechanisms import PermuteAndFlip

FALSE_ALARM = 1e-6
X_PUBLIC, Y_PUBLIC = np.zeros((2, 1)), np.array([0, 1])
X_VAL = np.zeros((1, 1))
RELEASE = "public training: PublicTraining.release"
# The one protected record: candidate 0 predicts 0, the others predict 1.
FIRST_ERRS, OTHERS_ERR = [1], [0]


class Constant(ClassifierMixin, BaseEstimator):
    def __init__(self, k=0):
        self.k = k

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        return np.full(len(X), min(self.k, 1))


def totals_of_constants(training, candidates, **kwargs):
    """The exact totals of `Constant`, without training: a fit in a fraction of the time."""
    labels = training.records.y
    return [sum(min(params["k"], 1) != label for label in labels) for params in candidates]


def sums_of_constants(training, candidates, reduce, **how):
    return [(total,) for total in totals_of_constants(training, candidates)]


@pytest.fixture
def cheap(monkeypatch):
    put(monkeypatch, "public training: PublicTraining.losses", sums_of_constants)
    put(monkeypatch, "public training: PublicTraining._refuse_row_mixing", lambda *tried: None)
    return RepeatedRelease(monkeypatch, RELEASE)


def released(search, repeated, y_val, n):
    """Count the event "candidate 0, and the better half of the scores"."""
    search.fit(X_PUBLIC, Y_PUBLIC, X_val=X_VAL, y_val=y_val)
    made = (repeated.again() for _ in range(n))
    return sum(
        repeated.candidates[index]["k"] == 0 and (not score or score.value > 0.5)
        for index, score in made
    )


def audit(n, repeated, *, n_candidates=2, **params):
    """Lower bound on the epsilon of a fit, and what it claims."""
    space = {"k": list(range(n_candidates))}
    search = DPGridSearchCV(Constant(), space, guide=False, refit=False, **params)
    hits, misses = (released(search, repeated, y_val, n) for y_val in (OTHERS_ERR, FIRST_ERRS))
    return epsilon_at_least(hits, misses, n), search.privacy_.epsilon


def forget_the_factor_2(monkeypatch):
    """Planted bug: the choice is made with weights exp(-epsilon loss / B)."""
    doubled = {name: partial(twice, kind) for name, kind in PrivateChoice.SELECTIONS.items()}
    monkeypatch.setattr(PrivateChoice, "SELECTIONS", doubled)


def twice(kind, epsilon, sensitivity):
    return kind(2 * epsilon, sensitivity)


def do_not_deduct_the_score(monkeypatch):
    """Planted bug: the choice spends all of epsilon, and the score its share on top."""
    honest = PrivateChoice.__post_init__

    def everything(choice):
        honest(choice)
        object.__setattr__(choice, "epsilon_choice", Fraction(choice.epsilon))

    monkeypatch.setattr(PrivateChoice, "__post_init__", everything)


def release_without_noise(monkeypatch):
    plant(monkeypatch, "integers are released without noise")


def halve_the_noise(monkeypatch):
    plant(monkeypatch, "half of the noise of released integers")


def reuse_the_noise(monkeypatch):
    """Planted bug: every fit draws the same noise."""
    put(monkeypatch, "set-up: noise_source", lambda random_state: _base_noise_source(0))


def one_stream(monkeypatch):
    """One reproducible stream for all fits: a planted bug is caught always or never."""
    stream = np.random.RandomState(0)
    put(monkeypatch, "set-up: noise_source", lambda random_state: _base_noise_source(stream))


_base_noise_source = original("set-up: noise_source")

CHOICE = {"epsilon": 1.5, "score_fraction": 0.0, "n_candidates": 5}
BOTH = {"epsilon": 2.0, "score_fraction": 0.9, "n_candidates": 5}
WHOLE = {"epsilon": 3.0, "score_fraction": 0.5}
SCORE = {"epsilon": 1.5, "score_fraction": 0.9}


@pytest.mark.slow
class TestWorstPair:
    @pytest.mark.parametrize(
        ("mechanism", "power"), [("permute_and_flip", 0.3), ("exponential", 0.2)]
    )
    def test_choice(self, mechanism, power, cheap):
        # Both limits of power lie more than 6 standard errors below what the true law gives.
        bound, claim = audit(600, cheap, mechanism=mechanism, epsilon=3.0, score_fraction=0.0)
        assert power * claim < bound <= claim

    def test_choice_and_score(self, cheap):
        bound, claim = audit(600, cheap, epsilon=3.0, score_fraction=0.5)
        assert 0.3 * claim < bound <= claim

    @pytest.mark.parametrize(
        ("bug", "n", "params"),
        [
            (forget_the_factor_2, 700, CHOICE),
            (do_not_deduct_the_score, 900, BOTH),
            (release_without_noise, 400, SCORE),
            (halve_the_noise, 700, SCORE),
        ],
    )
    def test_bugs_are_caught(self, bug, n, params, cheap, monkeypatch):
        one_stream(monkeypatch)
        bug(monkeypatch)
        bound, claim = audit(n, cheap, **params)
        assert bound > claim

    @pytest.mark.usefixtures("cheap")
    def test_noise_is_fresh(self, monkeypatch):
        # The scale is 2000 of 5000 records: 20 equal scores have a probability below 1e-6.
        assert self.different_scores() > 1
        reuse_the_noise(monkeypatch)
        assert self.different_scores() == 1

    def different_scores(self):
        search = DPGridSearchCV(
            Constant(), {"k": [0]}, guide=False, refit=False, epsilon=1e-3, score_fraction=0.5
        )
        X_val, y_val = np.zeros((5000, 1)), np.arange(5000) % 2
        fits = (search.fit(X_PUBLIC, Y_PUBLIC, X_val=X_val, y_val=y_val) for _ in range(20))
        return len({fit.best_score_ for fit in fits})

    @pytest.mark.slow
    @pytest.mark.parametrize("epsilon", [1.0, 2.0])
    def test_twenty_candidates(self, epsilon, cheap):
        # With many candidates the choice comes close to using up its epsilon. The limit of power
        # lies 9 standard deviations below what the true law gives (with 5000 releases 2).
        bound, claim = audit(17_000, cheap, n_candidates=20, epsilon=epsilon, score_fraction=0.0)
        assert 0.2 * claim < bound <= claim

    @pytest.mark.slow
    def test_twenty_candidates_catch_the_factor_2(self, cheap, monkeypatch):
        one_stream(monkeypatch)
        forget_the_factor_2(monkeypatch)
        bound, claim = audit(5000, cheap, n_candidates=20, epsilon=1.0, score_fraction=0.0)
        assert bound > claim


SEARCHES = pytest.mark.parametrize(
    ("kind", "public"),
    [
        (DPGridSearchCV, {"guide": False}),
        (DPRandomizedSearchCV, {"guide": False, "n_iter": 2}),
        (DPBayesSearchCV, {"cv": 2, "n_iter": 2}),  # with its public prior
    ],
    ids=["grid", "randomized", "bayes"],
)
FOUR = np.zeros((4, 1)), np.array([0, 1, 0, 1])


@pytest.mark.slow
@SEARCHES
def test_models_are_trained_and_scored_for_each_release(kind, public, monkeypatch):
    """Nothing stubbed but the estimator: training, scoring, choice and score."""
    search = kind(Constant(), {"k": [0, 1]}, refit=False, **WHOLE, **public)
    repeated, counts, n = RepeatedRelease(monkeypatch, RELEASE), [], 600
    for y_val in (OTHERS_ERR, FIRST_ERRS):
        search.fit(*FOUR, X_val=X_VAL, y_val=y_val)
        made = (repeated.again() for _ in range(n))
        hits = (repeated.candidates[k]["k"] == 0 and score.value > 0.5 for k, score in made)
        counts.append(sum(hits))
    bound = epsilon_at_least(*counts, n)
    assert 0.3 * search.privacy_.epsilon < bound <= search.privacy_.epsilon


@pytest.mark.quick_cases(1)
@SEARCHES
def test_whole_fits_release_what_the_audited_ones_do(kind, public, monkeypatch):
    """The audits repeat releases: with the same coins, nothing differs if whole fits are made."""
    search = kind(Constant(), {"k": [0, 1]}, refit=False, **WHOLE, **public)
    whole, seeds = [], range(12)
    for seed in seeds:
        coins = np.random.RandomState(seed)
        put(monkeypatch, "set-up: noise_source", lambda _, coins=coins: _base_noise_source(coins))
        search.fit(*FOUR, X_val=X_VAL, y_val=OTHERS_ERR)
        whole.append((search.best_params_["k"], search.best_score_))
    assert len(set(whole)) > 1  # the coins matter
    repeated = RepeatedRelease(monkeypatch, RELEASE)
    search.fit(*FOUR, X_val=X_VAL, y_val=OTHERS_ERR)
    made = (repeated.again(_base_noise_source(np.random.RandomState(seed))) for seed in seeds)
    assert [(repeated.candidates[index]["k"], score.value) for index, score in made] == whole


def test_exact_law_of_the_audited_event():
    """The audit is worth its name: the event's likelihood ratio is close to the claim."""
    choice, score = (Fraction(3, 2),) * 2
    first = [PermuteAndFlip(choice, 1).probabilities(u)[0] for u in ([0, 1], [1, 0])]
    p = math.exp(-float(score))
    ratio = math.log(first[0] / first[1]) + math.log((1 / (1 + p)) / (p / (1 + p)))
    assert 0.85 * 3.0 < ratio <= 3.0


def test_the_stubbed_totals_are_the_real_ones():
    candidates = [{"k": k} for k in range(3)]
    for y_val in (FIRST_ERRS, OTHERS_ERR):
        protected = in_public_schema(X_VAL, y_val, X_PUBLIC, Y_PUBLIC)
        scorer = resolve_scorer("accuracy", Constant())
        training = public_training(Constant(), X_PUBLIC, Y_PUBLIC, protected, scorer)
        assert training.totals(candidates) == totals_of_constants(training, candidates)
