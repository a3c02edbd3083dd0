"""Private trials that keep groups of records together: parts, labels, losses and statements."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import make_pipeline

from _support.internals import losses_of, resolve_scorer
from _support.numbers_shown import numbers_in
from _support.planted import original, plant, put
from skdpbo import DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.exceptions import UnboundedSensitivityError, VoidGuaranteeWarning
from skdpbo.linear_model import DPLogisticRegression
from skdpbo.model_selection import PrivateSelection
from skdpbo.preprocessing import DPStandardScaler
from skdpbo.privacy import PrivacyLedger

RNG = np.random.default_rng(4)
N_GROUPS = 300
LABELS = np.repeat(np.arange(N_GROUPS), RNG.integers(1, 9, N_GROUPS))
X = RNG.uniform(-1, 1, (len(LABELS), 2))
Y = (X[:, 0] > 0).astype(int)
MODEL = DPLogisticRegression(X_bounds=(-1, 1), classes=[0, 1])
ON_A_PART = PrivateSelection(tuning_fraction=0.3)
SELECTIONS = ["all", ON_A_PART, PrivateSelection(accounting="composition")]


def search_of(estimator=MODEL, protect="all", search=DPGridSearchCV, **parameters):
    space = {"C": [0.1, 1.0, 10.0]} if estimator is MODEL else {}
    given = {"epsilon": 30.0, "scoring": "accuracy"} | parameters
    # A copy: what is fitted inside the block of a ledger belongs to it, also in later tests.
    return search(clone(estimator), space, protect=protect, **given)


def parts_of_a_fit(monkeypatch, protect, **given):
    """Return the groups that train the trials, those that score, and those of the last fit."""
    seen = []

    def trials(plan, data, *args, **kwargs):
        seen.extend((data.fit_params["groups"], data.X, data.rows))
        return run(plan, data, *args, **kwargs)

    run = original("private models: best_of_trials")
    put(monkeypatch, "private models: best_of_trials", trials)
    search = search_of(protect=protect).fit(X, Y, **({"groups": LABELS} | given))
    trained, X_trained, (X_scored, _, scored) = seen
    return search, (X_trained, trained), (X_scored, scored)


def groups_of(rows):
    """Return the labels of rows of `X`, found by their values."""
    known = {row.tobytes(): label for row, label in zip(X, LABELS, strict=True)}
    return [known[row.tobytes()] for row in np.ascontiguousarray(rows)]


def assert_whole_groups(monkeypatch, protect):
    search, (X_trained, trained), (X_scored, scored) = parts_of_a_fit(monkeypatch, protect)
    labels = groups_of(X_trained), groups_of(X_scored)
    assert not set(labels[0]) & set(labels[1])
    for own, codes in zip(labels, (trained, scored), strict=True):
        assert len(own) == np.isin(LABELS, own).sum()  # every row of the group
        assert len(set(zip(own, codes.tolist(), strict=True))) == len(set(own)) == codes.max() + 1
    rest = N_GROUPS - sum(len(set(own)) for own in labels)
    assert search.best_estimator_.n_records_ == (rest or len(set(labels[0])))


@pytest.mark.slow
class TestParts:
    @pytest.mark.parametrize("protect", SELECTIONS[:2])
    def test_no_part_divides_a_group(self, monkeypatch, protect):
        assert_whole_groups(monkeypatch, protect)

    @pytest.mark.parametrize("protect", SELECTIONS[:2])
    def test_planted_parts_by_rows_are_found(self, monkeypatch, protect):
        plant(monkeypatch, "private models: parts divide groups")
        with pytest.raises(AssertionError):
            assert_whole_groups(monkeypatch, protect)

    def test_planted_labels_that_do_not_reach_the_fit_are_found(self, monkeypatch):
        plant(monkeypatch, "private models: labels stay outside")
        with pytest.raises((AssertionError, KeyError)):
            assert_whole_groups(monkeypatch, "all")

    def test_a_validation_part_of_its_own(self, monkeypatch):
        own = {"X_val": X[:40].copy(), "y_val": Y[:40], "groups_val": LABELS[:40]}
        search, (_, trained), (X_scored, scored) = parts_of_a_fit(monkeypatch, "all", **own)
        assert len(trained) == len(X)
        assert (X_scored == X[:40]).all()
        assert search.privacy_.n_protected == N_GROUPS + scored.max() + 1


class TestScore:
    """A replaced group of any size moves the total of a trial's score as one record does."""

    SIZE = 41
    MAJORITY = DummyClassifier(strategy="constant", constant=0).fit([[0.0]], [0])

    def total(self, label, size=SIZE):
        groups = np.append(np.repeat(0, size), [1, 2])
        y = np.append(np.repeat(label, size), [0, 0])
        rows = np.zeros((len(y), 1)), y, groups
        scorer = resolve_scorer("accuracy", self.MAJORITY).for_groups()
        losses = losses_of(self.MAJORITY, rows, scorer)
        return int(losses.sum()) / scorer.units, len(losses)

    def test_bound(self):
        assert self.total(1) == (1.0, 3)
        assert self.total(0) == (0.0, 3)

    @pytest.mark.parametrize("size", [1, 7, 300])
    def test_the_size_is_no_matter(self, size):
        assert self.total(1, size) == self.total(1)

    def test_planted_sum_over_records_is_found(self, monkeypatch):
        plant(monkeypatch, "trial score: losses of single records")
        assert self.total(1)[0] == self.SIZE


class DearGroups(DPLogisticRegression):
    """Costs a group more than a record, and says so."""

    def privacy_guarantee(self, n_samples=None, *, groups=False):
        stated = super().privacy_guarantee(groups=groups)
        dearer = replace(stated, mu=1.01 * stated.mu, delta=10 * stated.delta)
        return dearer if groups else stated


class UnsureOfGroups(DPLogisticRegression):
    """Rests on more where it keeps groups together."""

    def privacy_guarantee(self, n_samples=None, *, groups=False):
        stated = super().privacy_guarantee(groups=groups)
        return stated.assuming("groups are small", status="void") if groups else stated


class TestStatement:
    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("protect", SELECTIONS)
    @pytest.mark.parametrize("search", [DPGridSearchCV, DPRandomizedSearchCV])
    def test_fit(self, protect, search):
        options = {"n_iter": 3} if search is DPRandomizedSearchCV else {}
        search = search_of(protect=protect, search=search, **options).fit(X, Y, groups=LABELS)
        stated = search.privacy_
        assert stated.neighbours == "one group replaced"
        assert stated.protects == "groups of training and validation records"
        assert stated.n_protected == N_GROUPS
        assert stated.status == "proved"
        assert len(LABELS) not in numbers_in(str(stated))
        assert search.best_estimator_.privacy_ == stated
        promised = search.privacy_guarantee(N_GROUPS, groups=True)
        assert (promised.epsilon, promised.assumptions) == (stated.epsilon, stated.assumptions)

    @pytest.mark.slow
    def test_ledger(self):
        with PrivacyLedger(epsilon=30.0, delta=1e-5) as ledger:
            search_of().fit(X, Y, groups=LABELS)
            assert [entry.guarantee.neighbours for entry in ledger.entries] == [
                "one group replaced"
            ]

    @pytest.mark.parametrize("scoring", ["f1", "roc_auc"])
    def test_metrics_that_are_no_mean_are_refused(self, scoring):
        advice = "with groups: .*such as 'accuracy' or 'neg_log_loss', or keep one row of each"
        self.refused(UnboundedSensitivityError, advice, search_of(scoring=scoring))

    def test_what_knows_no_groups_is_refused(self):
        pipeline = make_pipeline(DPStandardScaler(X_bounds=(-1, 1)), MODEL)
        for search in (
            search_of(pipeline),
            search_of(protect=PrivateSelection(estimator_guarantee=MODEL.privacy_guarantee())),
        ):
            self.refused(ValueError, "groups are not supported with .* keep one row", search)
            with pytest.raises(ValueError, match="groups are not supported with"):
                search.privacy_guarantee(N_GROUPS, groups=True)

    def test_what_costs_a_group_more_is_refused(self):
        dear = DearGroups(X_bounds=(-1, 1), classes=[0, 1])
        self.refused(ValueError, "groups=True. is larger", search_of(dear))

    def test_assumptions_on_groups_are_stated(self):
        composed = PrivateSelection(accounting="composition")
        unsure = UnsureOfGroups(X_bounds=(-1, 1), classes=[0, 1])
        search = search_of(unsure, protect=composed)
        promised = search.privacy_guarantee(N_GROUPS, groups=True)
        message = r"no privacy guarantee for groups, .* carries none: groups are small\."
        with pytest.warns(VoidGuaranteeWarning, match=message):
            stated = search.fit(X, Y, groups=LABELS).privacy_
        search.fit(X, Y)  # without groups there is nothing to warn of
        for guarantee in (promised, stated):
            assert guarantee.status == "void"
            assert "groups are small" in guarantee.assumptions
        assert search.privacy_guarantee(N_GROUPS).status != "void"

    def test_both_parts_need_labels(self):
        own = {"X_val": X[:40].copy(), "y_val": Y[:40]}
        self.refused(ValueError, "groups must name the group of each row", search_of(), **own)

    def refused(self, error, message, search, **given):
        with PrivacyLedger(epsilon=100.0, delta=1e-2) as ledger:
            with pytest.raises(error, match=message):
                search.fit(X, Y, groups=LABELS, **given)
            assert not ledger.entries
