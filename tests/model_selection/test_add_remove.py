"""One protected record more or less: rate of the choice, secret number of records, refusals."""

import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from _support.evaluators import public_training
from _support.internals import (
    PrivateChoice,
    ProtectedRows,
    ValidationProtection,
    centred_total,
    isolated_outcomes,
    random_batches,
    resolve_scorer,
    score_of_secret_count,
)
from _support.numbers_shown import numbers_in
from _support.planted import plant
from skdpbo import DPBayesSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.exceptions import NoisyScoreWarning, ScoreGapWarning, UnboundedSensitivityError
from skdpbo.mechanisms import RandomSource, noise_source
from skdpbo.model_selection import GaussianTrajectory, Kusner2015
from skdpbo.privacy import PrivacyLedger

SECRET = 137  # number of protected records; nothing else has it
RNG = np.random.RandomState(0)
X, Y = RNG.normal(size=(80, 2)), (RNG.normal(size=80) > 0).astype(int)
X_VAL, Y_VAL = RNG.normal(size=(SECRET, 2)), (RNG.normal(size=SECRET) > 0).astype(int)
SPACE = {"max_depth": [1, 2, 3]}
MECHANISMS = PrivateChoice.SELECTIONS


def tree_search(cls=DPGridSearchCV, **params):
    tree = DecisionTreeClassifier(random_state=0)
    if cls is DPRandomizedSearchCV:
        params["n_iter"] = 2
    if cls is DPBayesSearchCV:
        params = {"n_iter": 2, "n_initial_points": 1} | params
    return cls(tree, SPACE, **{"neighbours": "add-remove", "cv": 2} | params)


def fitted(search, X_val=X_VAL, y_val=Y_VAL):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoisyScoreWarning)
        return search.fit(X, Y, X_val=X_val, y_val=y_val)


class TestRate:
    """Exact laws of the choice on small data sets: the largest log-ratio of two neighbours."""

    EPSILON = 0.8

    def laws(self, mechanism, relation, monkeypatch, rate=None):
        """Log-ratios of the chosen candidate, over random neighbours under a relation."""
        requested = []

        class Recorded(MECHANISMS[mechanism]):
            def select(self, losses, source=None):
                requested.append(self.probabilities(losses))
                return 0

        selections = dict(PrivateChoice.SELECTIONS) | {mechanism: Recorded}
        monkeypatch.setattr(PrivateChoice, "SELECTIONS", selections)
        choice = PrivateChoice(mechanism, self.EPSILON, 0, relation)
        if rate is not None:
            object.__setattr__(choice, "rate", rate)
        rng, largest = np.random.RandomState(1), 0.0
        for _ in range(600):
            n, units = rng.randint(2, 5), rng.randint(1, 4)
            losses = rng.randint(0, units + 1, size=(rng.randint(0, 4), n))
            # extreme records come closest to the bound
            record, other = (units * rng.randint(0, 2, size=n) for _ in range(2))
            first = losses.sum(axis=0) + record
            second = losses.sum(axis=0) + (0 if relation == "add-remove" else other)
            requested.clear()
            for totals in (first, second):
                how = {"sensitivity": units, "score": None, "source": None}
                choice.release(totals.tolist(), [0] * n, **how)
            largest = max(largest, np.abs(np.log(requested[0]) - np.log(requested[1])).max())
        return largest

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
    def test_is_within_epsilon_and_comes_close(self, mechanism, relation, monkeypatch):
        largest = self.laws(mechanism, relation, monkeypatch)
        assert 0.7 * self.EPSILON < largest <= self.EPSILON * (1 + 1e-9)

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_planted_twice_the_rate_for_replaced_records(self, mechanism, monkeypatch):
        assert self.laws(mechanism, "replace-one", monkeypatch, rate=2) > 1.3 * self.EPSILON

    def test_budget_adds_up(self):
        choice = PrivateChoice("permute_and_flip", 0.7, 0.3, "add-remove")
        assert choice.epsilon_choice + choice.epsilon_score == Fraction(0.7)
        assert choice.guarantee.neighbours == "add-remove"
        assert choice.guarantee.epsilon == 0.7
        assert "score and count, half each" in choice.guarantee.mechanism
        with pytest.raises(ValueError, match="neighbours must be one of"):
            PrivateChoice("permute_and_flip", 0.7, 0.3, "bounded")


class TestScore:
    def test_sensitivity_of_a_centred_total(self):
        units = 5
        moves = [
            abs(centred_total(3 + loss, 8, units) - centred_total(3, 7, units))
            for loss in range(units + 1)
        ]
        assert max(moves) == units

    @pytest.mark.parametrize("mean_loss", [0.1, 0.5])
    def test_error_is_stated(self, mean_loss):
        scorer = resolve_scorer("accuracy", DummyClassifier(), None)
        n, epsilon, source = 400, Fraction(1, 2), np.random.RandomState(0)
        total, errors, stated = int(mean_loss * n * scorer.units), [], []
        choice = PrivateChoice("permute_and_flip", 5.0, 0.1, "add-remove")
        seeded = noise_source(source)
        for _ in range(600):
            count = choice.release_count(n, seeded)
            how = {"epsilon": epsilon, "count": count, "source": seeded}
            released = score_of_secret_count(scorer, total, n, **how)
            errors.append(released.value - (1 - mean_loss))
            stated.append(released.std)
        rms = math.sqrt(np.mean(np.square(errors)))
        # relative standard error of the rms of a Laplace law: 4.6 %, six of them
        assert rms == pytest.approx(np.mean(stated), rel=0.28)
        assert abs(np.mean(errors)) < 6 * rms / math.sqrt(len(errors)) + 0.1 * rms

    def test_error_is_within_the_range(self):
        scorer = resolve_scorer("accuracy", DummyClassifier(), None)
        how = {"epsilon": Fraction(1, 1000), "count": 1}
        stated = [
            score_of_secret_count(scorer, 0, 9, source=noise_source(seed), **how).std
            for seed in range(20)
        ]
        assert stated == [1.0] * 20

    def test_count_is_at_least_one_and_needs_a_budget(self):
        choice = PrivateChoice("permute_and_flip", 0.01, 0.1, "add-remove")
        seeded = noise_source(np.random.RandomState(0))
        counts = {choice.release_count(0, seeded) for _ in range(30)}
        assert min(counts) == 1
        assert max(counts) > 10
        silent = PrivateChoice("permute_and_flip", 1.0, 0, "add-remove")
        assert silent.release_count(5, seeded) is None


def everything_shown(cls, capsys, **params):
    """Numbers in what a fit prints, warns and leaves on the searcher, its repr and its pickle."""
    with warnings.catch_warnings(record=True) as caught, PrivacyLedger(5.0) as ledger:
        warnings.simplefilter("always")
        search = tree_search(cls, verbose=3, epsilon=1e-3, **params)
        search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    printed = capsys.readouterr()
    shown = [search, repr(search), str(search.privacy_), search.privacy_.to_dict()]
    shown += [pickle.loads(pickle.dumps(search)), printed.out, printed.err, str(ledger.to_dict())]
    return numbers_in([*shown, *(str(warning.message) for warning in caught)])


class TestSecretNumber:
    @pytest.mark.parametrize("cls", [DPGridSearchCV, DPRandomizedSearchCV, DPBayesSearchCV])
    def test_nothing_shows_it(self, cls, capsys):
        # An epsilon of 0.001 makes the noisy count differ; it is not kept in any case.
        assert SECRET not in everything_shown(cls, capsys)

    def test_planted_count_in_the_statement(self, capsys, monkeypatch):
        stated = ValidationProtection.stated

        def telling(self, guarantee, n_protected, *rest):
            return stated(self, guarantee, SECRET, *rest)

        monkeypatch.setattr(ValidationProtection, "stated", telling)
        assert SECRET in everything_shown(DPGridSearchCV, capsys)

    def test_replace_one_states_it(self, capsys):
        assert SECRET in everything_shown(DPGridSearchCV, capsys, neighbours="replace-one")

    @pytest.mark.parametrize("cls", [DPGridSearchCV, DPBayesSearchCV])
    def test_no_records_at_all(self, cls):
        search = fitted(tree_search(cls), X_VAL[:0], Y_VAL[:0])
        assert 0 <= search.best_score_ <= 1

    def test_messages_state_no_number(self):
        with pytest.raises(ValueError, match=r"same number of rows\.$"):
            fitted(tree_search(), X_VAL, Y_VAL[:-1])

    def test_records_are_predicted_in_batches_of_one_size(self):
        sizes = []

        class Counts(DummyClassifier):
            def predict(self, X):
                sizes.append(len(X))
                return np.full(len(X), len(X) % 2)

        model = Counts().fit(X, Y)
        scorer = resolve_scorer("accuracy", DummyClassifier(), None)
        batches = random_batches(SECRET, noise_source())
        expected = np.where(Y_VAL == 0, 0, scorer.units)  # 256 is even
        losses = isolated_outcomes(model, scorer, X_VAL, Y_VAL, batches=batches)
        assert losses.tolist() == expected.tolist()
        assert set(sizes) == {256}
        unreadable = np.zeros(SECRET, dtype=bool)
        unreadable[3] = True
        losses = isolated_outcomes(model, scorer, X_VAL, Y_VAL, unreadable, batches)
        expected[3] = scorer.units
        assert losses.tolist() == expected.tolist()

    @pytest.mark.slow
    def test_a_record_that_fails_alone_has_the_worst_loss(self):
        search = DPGridSearchCV(
            LogisticRegression(),
            {"C": [0.1, 1.0]},
            neighbours="add-remove",
            score_fraction=0.5,
            epsilon=1e6,
            cv=2,
        )
        broken = X_VAL.copy()
        broken[:] = np.nan
        with pytest.warns(ScoreGapWarning, match="missing or unreadable"):
            fitted(search, broken)
        assert search.best_score_ == pytest.approx(0.0, abs=1e-3)


class Placed(RegressorMixin, BaseEstimator):
    """Predicts by the size of the batch and the place in it; fails for a batch with a 7."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        if (X[:, 0] == 7).any():
            raise ValueError("a seven")
        return (len(X) + np.arange(len(X)) / 10 + X[:, 0] / 1000) / 1000


class TestPlaces:
    """The losses of the other records, bit for bit, with one record more or less."""

    N = 700

    def losses_of_others(self, added, bad=False):
        """Losses of 700 records, before and after another is put before number 300."""
        rng = np.random.RandomState(3)
        X_val, y_val, places = rng.uniform(size=self.N), rng.uniform(size=self.N), rng.bytes(self.N)
        unreadable = rng.uniform(size=self.N) < 0.01
        scorer = resolve_scorer("neg_mean_squared_error", Ridge(), 1.0)
        shown = []
        for new in ([], [300]):
            rows = np.insert(X_val, new, added)[:, None], np.insert(y_val, new, 0.5)
            protected = ProtectedRows(*rows, np.insert(unreadable, new, bad))
            drawn = np.insert(np.frombuffer(places, np.uint8), new, 17).tobytes()
            source = RandomSource(lambda n, drawn=drawn: drawn[:n], seeded=False)
            how = {"n_losses": None, "source": source}
            training = public_training(Placed(), X, Y, protected, scorer, **how)
            (losses,) = training.losses([{}])
            shown.append(np.delete(losses, new))
        return shown

    @pytest.mark.parametrize(
        ("added", "bad"), [(0.3, False), (7, False), (0.3, True), (1e300, False)]
    )
    def test_a_record_moves_no_other_loss(self, added, bad):
        without, with_it = self.losses_of_others(added, bad)
        assert len({*without.tolist()}) > 600
        assert without.tolist() == with_it.tolist()

    def test_planted_places_in_the_order_of_the_records(self, monkeypatch):
        plant(monkeypatch, "secret number: places in the order of the records")
        without, with_it = self.losses_of_others(0.3)
        assert (without[:250] == with_it[:250]).all()
        assert (without[300:] != with_it[300:]).mean() > 0.9

    @pytest.mark.parametrize("n_records", [0, 1, 300, 3000])
    def test_batches_have_one_size_and_hold_each_record_once(self, n_records):
        batches = random_batches(n_records, noise_source())
        assert batches.shape[1] == 256
        assert sorted(batches[batches >= 0]) == list(range(n_records))
        # more than 6 standard deviations above the mean of the fullest of 256 places
        assert len(batches) <= 4 + n_records / 256 + 10 * math.sqrt(n_records / 256)

    def test_places_are_the_bytes_of_the_source(self):
        places = np.random.RandomState(0).permutation(256).astype(np.uint8)
        (batch,) = random_batches(256, RandomSource(lambda n: places.tobytes(), seeded=False))
        assert (places[batch] == np.arange(256)).all()


class TestChoice:
    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @pytest.mark.parametrize("cls", [DPGridSearchCV, DPRandomizedSearchCV, DPBayesSearchCV])
    def test_a_large_budget_finds_the_truth(self, cls, mechanism):
        search = fitted(tree_search(cls, epsilon=1e5, mechanism=mechanism))
        truth = search.best_estimator_.score(X_VAL, Y_VAL)
        assert search.best_score_ == pytest.approx(truth, abs=1e-3)
        assert search.best_score_std_ < 1e-3
        assert search.privacy_.neighbours == "add-remove"
        assert search.privacy_.status == "proved"
        assert search.privacy_.n_protected is None

    def test_the_ledger_is_charged_with_the_relation(self):
        with PrivacyLedger(3.0) as ledger:
            fitted(tree_search(epsilon=1.0))
        assert ledger.entries[0].guarantee.neighbours == "add-remove"
        assert "neighbours: add-remove" in str(ledger)
        with ledger:
            fitted(tree_search(epsilon=0.5, neighbours="replace-one"))
        # one added record costs 1; a replaced one 2 + 0.5
        assert ledger.spent().epsilon == pytest.approx(2.5)
        assert "add-remove charges converted" in str(ledger)

    def test_public_scores_weigh_by_the_noisy_count(self, monkeypatch):
        requested = []

        def released(self, n_records, source):
            requested.append(n_records)
            return 50

        monkeypatch.setattr(PrivateChoice, "release_count", released)
        fitted(tree_search(DPBayesSearchCV, prior_weight=1.0))
        assert requested == [SECRET]  # once, for both the weight and the score


class TestRefusals:
    @pytest.mark.parametrize("scoring", ["roc_auc", "f1", "balanced_accuracy"])
    def test_metrics(self, scoring):
        with pytest.raises(UnboundedSensitivityError, match="no mean of losses"):
            fitted(tree_search(scoring=scoring))

    @pytest.mark.parametrize("mechanism", ["gaussian", GaussianTrajectory(), Kusner2015()])
    def test_mechanisms(self, mechanism):
        guide = not isinstance(mechanism, Kusner2015)
        with pytest.raises(ValueError, match="needs a mechanism of"):
            fitted(tree_search(DPBayesSearchCV, mechanism=mechanism, guide=guide))

    def test_weights_without_a_count(self):
        with pytest.raises(ValueError, match="prior_weight=0"):
            fitted(tree_search(DPBayesSearchCV, score_fraction=0))
        search = fitted(tree_search(DPBayesSearchCV, score_fraction=0, prior_weight=0))
        assert not hasattr(search, "best_score_")

    def test_every_record(self):
        with pytest.raises(ValueError, match='is for protect="validation"'):
            fitted(tree_search(protect="all"))

    def test_a_split_of_the_rows(self):
        with pytest.raises(ValueError, match="needs the protected rows as X_val"):
            tree_search().fit(X, Y)

    def test_another_relation(self):
        with pytest.raises(ValueError, match="neighbours"):
            fitted(tree_search(neighbours="one group"))


class WithEntry(LogisticRegression):
    def fit(self, X, y, extra=None):
        return super().fit(X, y)


@pytest.mark.parametrize("n_records", [4, 5, 6])
def test_the_length_of_an_entry_is_not_compared_with_the_secret_number(n_records):
    # Refused where it is as long as the protected part, one record more would show.
    search = DPGridSearchCV(WithEntry(), {"C": [0.1, 1.0]}, cv=2, neighbours="add-remove")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoisyScoreWarning)
        search.fit(X, Y, X_val=X_VAL[:n_records], y_val=Y_VAL[:n_records], extra=[0.0] * 5)
    assert "no protected record is among what fit is given as extra" in str(search.privacy_)


def test_the_protected_rows_themselves_are_refused_as_an_entry():
    search = DPGridSearchCV(WithEntry(), {"C": [0.1, 1.0]}, cv=2, neighbours="add-remove")
    with pytest.raises(ValueError, match="extra holds protected rows"):
        search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL, extra=X_VAL)
