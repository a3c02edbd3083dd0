"""All records of a group protected together: losses, secret sizes, statements, refusals."""

import math
import pickle
import warnings
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold
from sklearn.tree import DecisionTreeClassifier

from _support.evaluators import public_training
from _support.internals import (
    group_codes,
    in_public_schema,
    isolated_outcomes,
    mean_losses,
    place_batches,
    protected_positions,
    resolve_scorer,
)
from _support.numbers_shown import numbers_in
from _support.planted import plant
from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.exceptions import (
    BudgetExceededError,
    NoisyGradientWarning,
    NoisyScoreWarning,
    PublicTrainingWarning,
    UnboundedSensitivityError,
)
from skdpbo.linear_model import DPLogisticRegression
from skdpbo.mechanisms import PermuteAndFlip
from skdpbo.model_selection import Chunks, Kusner2015, Kusner2015Lipschitz
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger, as_replace_one, compose

pytestmark = pytest.mark.usefixtures("few_public_candidates")

SIZES = {"one": 43, "another": 1, "a third": 7}  # no other number is that of the largest one
N_GROUPS, N_RECORDS = 31, 137
RNG = np.random.RandomState(0)
X, X_VAL = RNG.normal(size=(80, 2)), RNG.normal(size=(N_RECORDS, 2))
Y, Y_VAL = (X[:, 0] + 0.3 * X[:, 1] ** 2 > 0).astype(int), (X_VAL[:, 0] > 0).astype(int)
GROUPS = RNG.permutation(
    [*np.repeat(list(SIZES), list(SIZES.values()))]
    + [f"person {k % (N_GROUPS - 3)}" for k in range(N_RECORDS - sum(SIZES.values()))]
)
Y_VAL[GROUPS == "one"] ^= 1  # the mean over records is far from that over groups
DEPTHS = {"max_depth": [1, 2, 3]}
EPSILON = 0.8


def search_of(cls=DPGridSearchCV, **params):
    if cls is DPGIBOSearchCV:
        space = {"C": (1e-3, 10.0, "log-uniform")}
        return cls(LogisticRegression(), space, **{"n_iter": 2, "cv": 2} | params)
    if cls is DPRandomizedSearchCV:
        params["n_iter"] = 2
    if cls is DPBayesSearchCV:
        params = {"n_iter": 2, "n_initial_points": 1} | params
    return cls(DecisionTreeClassifier(random_state=0), DEPTHS, **{"cv": 2} | params)


def fitted(search, X_val=X_VAL, y_val=Y_VAL, groups=GROUPS):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoisyScoreWarning)
        warnings.simplefilter("ignore", NoisyGradientWarning)
        return search.fit(X, Y, X_val=X_val, y_val=y_val, groups_val=groups)


def places_of(groups):
    """Place of each record in its batch, and the size of the batches."""
    batches = place_batches(groups)
    held, places = batches >= 0, np.full(len(groups), -1)
    places[batches[held]] = np.nonzero(held)[1]
    assert np.count_nonzero(held) == len(groups)
    assert places.min() >= 0  # each record once
    return places, batches.shape[1]


class TestLosses:
    def test_means_are_rounded_to_the_next_integer(self):
        rng = np.random.RandomState(1)
        for _ in range(300):
            units, n = rng.randint(1, 9), rng.randint(1, 15)
            groups = group_codes(rng.randint(0, 4, size=n), n)
            losses = rng.randint(0, units + 1, size=n)
            for k, mean in enumerate(mean_losses(losses, groups)):
                mine = losses[groups == k].tolist()
                assert abs(mean - Fraction(sum(mine), len(mine))) <= Fraction(1, 2)
                assert min(mine) <= mean <= max(mine)

    def test_long_groups_are_exact(self):
        n, units = 200_000, 2**20
        assert mean_losses(np.full(n, units), np.zeros(n, dtype=int)).tolist() == [units]

    def test_the_size_of_a_group_moves_no_record_of_another(self):
        rng = np.random.RandomState(2)
        for n_groups in (1, 5, 300, 700, 9000):
            groups = group_codes(rng.randint(0, n_groups, size=12_000), 12_000)
            # One group more often, among the others.
            added = np.sort(rng.randint(3000, 12_000, size=5000))
            longer, own = np.insert(groups, added, groups[0]), groups == groups[0]
            (places, width), (moved, same) = places_of(groups), places_of(longer)
            assert np.array_equal(places[~own], moved[longer != groups[0]])
            n = groups.max() + 1
            assert width == same == (max(256, n) if n <= 4096 else (n + 1) // 2)

    def test_long_groups_leave_few_places(self):
        rng = np.random.RandomState(3)
        for power in (1, 2, 8, 30):
            groups = group_codes((3000 * rng.uniform(size=50_000) ** power).astype(int), 50_000)
            assert place_batches(groups).size <= 2 * 50_000


class TestLabels:
    def test_numbers_in_order_of_appearance(self):
        assert group_codes(["b", "a", "b", "c"], 4).tolist() == [0, 1, 0, 2]
        assert group_codes(np.array([5, 5, -1]), 3).tolist() == [0, 0, 1]
        assert group_codes(pd.Series(["x", "y", "x"], dtype="category"), 3).tolist() == [0, 1, 0]
        assert group_codes([], 0).tolist() == []

    @pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "bool"])
    def test_arrays_of_numbers_are_numbered_as_lists(self, dtype):
        labels = np.random.RandomState(4).randint(0, 9, 300).astype(dtype)
        if dtype == "float32":
            labels[::7], labels[::11] = np.nan, -0.0
        expected = group_codes(labels.tolist(), 300)
        assert np.array_equal(group_codes(labels, 300), expected)
        assert np.array_equal(group_codes(pd.Series(labels), 300), expected)

    @pytest.mark.parametrize(
        "missing", [None, math.nan, pd.NA, pd.NaT, np.datetime64("NaT", "s"), [1], {}, np.ones(2)]
    )
    def test_a_missing_label_is_a_group_of_its_own(self, missing):
        labels = np.empty(5, dtype=object)
        labels[:] = ["a", missing, "a", "b", "a"]
        labels[3] = missing
        assert group_codes(labels, 5).tolist() == [0, 1, 0, 2, 0]

    def test_a_label_that_raises_is_a_group_of_its_own(self):
        class Hostile:
            def __hash__(self):
                raise RuntimeError("secret")

        assert group_codes([Hostile(), Hostile(), "a"], 3).tolist() == [0, 1, 2]

    def test_a_label_that_warns_is_not_heard(self):
        labels = [sparse.csr_array([[1.0, 0.0]]), "a", "a"]  # compared, it warns
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert group_codes(labels, 3).tolist() == [0, 1, 1]
        assert caught == []

    def test_shape(self):
        with pytest.raises(ValueError, match=r"groups_val must have one dimension"):
            group_codes(np.ones((3, 1)), 3)
        with pytest.raises(ValueError, match=r"groups_val must have one label for each row of X_"):
            group_codes(["a", "b"], 3)


class Sized(RegressorMixin, BaseEstimator):
    """Predicts the size of the batch, and the place in it."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return (len(X) + np.arange(len(X)) / 1000.0) / 2000.0


NEIGHBOURS = [  # records of the replaced group
    (np.array([[0.1, 0.2]]), [1]),
    (np.full((40, 2), 5.0), [0] * 40),
    (np.full((3, 2), math.nan), [1] * 3),
    (np.array([[1e300, -1e300], [0.0, 0.0]]), ["text", None]),
]


def with_group(label, rows, targets):
    """Records in which one group, that appears first, is replaced by records of another size."""
    order = np.argsort(label != GROUPS, kind="stable")
    others = order[(label == GROUPS).sum() :]
    X_val = np.vstack([rows, X_VAL[others]])
    return X_val, [*targets, *Y_VAL[others]], [label] * len(rows) + list(GROUPS[others])


# Two candidates, of which one alone is right of a record.
CONSTANTS = DummyClassifier(strategy="constant"), [{"constant": 0}, {"constant": 1}]


def totals(scoring, X_val, y_val, groups, model=None, candidates=None):
    model = DecisionTreeClassifier(random_state=0) if model is None else model
    candidates = [{"max_depth": d} for d in (1, 3, 6)] if candidates is None else candidates
    codes = group_codes(groups, len(X_val))
    rows = in_public_schema(X_val, y_val, X, Y, codes)
    scorer = resolve_scorer(scoring, model, 1.0).for_groups()
    training = public_training(model, X, Y, rows, scorer, n_losses=rows.n_losses)
    return training.totals(candidates), scorer


def largest_change(scoring="accuracy", labels=SIZES):
    """Largest change of a total, in bounds, when a group is replaced."""
    pairs = []
    for label in labels:
        own = label == GROUPS
        before, scorer = totals(scoring, *with_group(label, X_VAL[own], Y_VAL[own]))
        for rows, targets in NEIGHBOURS:
            after, _ = totals(scoring, *with_group(label, rows, targets))
            pairs += zip(before, after, strict=True)
    return max(abs(a - b) for a, b in pairs) / scorer.units


class TestSensitivity:
    @pytest.mark.slow
    @pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
    def test_a_group_moves_a_total_as_one_record_does(self, scoring):
        assert 0 < largest_change(scoring) <= 1

    @pytest.mark.parametrize(
        "name", ["groups: the losses of the records are summed", "groups: counted by rows"]
    )
    def test_planted_sums_over_records(self, name, monkeypatch):
        plant(monkeypatch, name)
        assert largest_change(labels=["one"]) > 2

    def laws(self):
        """Largest log-ratio of the law of the choice over replaced groups."""
        laws = []
        for rows, targets in NEIGHBOURS:
            data = with_group("one", rows, targets)
            losses, scorer = totals("accuracy", *data, *CONSTANTS)
            choice = PermuteAndFlip(EPSILON, scorer.units)
            laws.append(np.log(choice.probabilities(losses)))
        return max(np.abs(a - b).max() for a in laws for b in laws)

    def test_law_of_the_choice(self):
        assert 0.5 * EPSILON < self.laws() <= EPSILON * (1 + 1e-9)

    def test_planted_rows_in_the_law_of_the_choice(self, monkeypatch):
        plant(monkeypatch, "groups: counted by rows")
        assert self.laws() > 2 * EPSILON

    def losses_of_others(self):
        """Losses of all groups but one, for two sizes of that one."""
        scorer = resolve_scorer("neg_mean_squared_error", Ridge(), 1.0).for_groups()
        shown = []
        for n in (1, 40):
            X_val, y_val, groups = with_group("one", np.zeros((n, 2)), [0] * n)
            bad = np.zeros(len(X_val), dtype=bool)
            codes = group_codes(groups, len(X_val))
            rows = (X_val, np.asarray(y_val), bad, None)
            shown.append(isolated_outcomes(Sized(), scorer, *rows, codes)[1:].tolist())
        return shown

    def test_the_size_of_a_group_moves_no_other_loss(self):
        few, many = self.losses_of_others()
        assert few == many
        assert few.count(max(few)) < len(few)  # not all of them are lost

    def test_planted_batches_in_the_order_of_the_rows(self, monkeypatch):
        plant(monkeypatch, "groups: one batch of all records")
        few, many = self.losses_of_others()
        assert few != many


SEARCHES = {
    "grid": {"cls": DPGridSearchCV},
    "grid without guide": {"cls": DPGridSearchCV, "guide": False},
    "randomized": {"cls": DPRandomizedSearchCV, "mechanism": "exponential"},
    "bayes": {"cls": DPBayesSearchCV},
    "bayes, noisy scores": {"cls": DPBayesSearchCV, "mechanism": "gaussian"},
    "gibo": {"cls": DPGIBOSearchCV, "score_fraction": 0.3},
    "group more or less": {"cls": DPGridSearchCV, "neighbours": "add-remove"},
}


class TestFit:
    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("name", SEARCHES)
    def test_a_large_budget_finds_the_mean_over_groups(self, name):
        search = fitted(search_of(epsilon=1e5, **SEARCHES[name]))
        right = search.predict(X_VAL) == Y_VAL
        truth = np.mean([right[label == GROUPS].mean() for label in np.unique(GROUPS)])
        # more than 30 standard deviations, or scales, of the noise in a mean over groups
        assert search.best_score_ == pytest.approx(truth, abs=0.01)
        assert abs(right.mean() - truth) > 0.05  # the mean over records is another number

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("name", SEARCHES)
    def test_statement(self, name):
        with PrivacyLedger(5.0, 1e-4) as ledger:
            search = fitted(search_of(**SEARCHES[name]))
        counted = name != "group more or less"
        stated = search.privacy_
        relation = "one group replaced" if counted else "one group more or less"
        assert stated.neighbours == ledger.entries[0].guarantee.neighbours == relation
        assert stated.n_protected == (N_GROUPS if counted else None)
        assert stated.protects == "groups of validation records"
        assert stated.status == "proved"
        assert stated.to_dict()["unit"] == "all records of one group"
        assert PrivacyGuarantee.from_dict(stated.to_dict()) == stated
        assert "the numbers of rows" not in str(stated)
        assert relation in ledger.to_dict()["neighbours"]

    def test_a_bad_record_has_the_worst_loss_within_its_group(self):
        labels = ["a"] * 4 + ["b"]
        X_val = np.vstack([X[:3], [[math.nan, 0.0]], X[3:4]])
        search = search_of(epsilon=1e6, score_fraction=0.5)
        search.set_params(estimator=LogisticRegression(), param_grid={"C": [1e6]})
        model = LogisticRegression(C=1e6).fit(X, Y)
        y_val = model.predict(np.nan_to_num(X_val))
        assert fitted(search, X_val, y_val, labels).best_score_ == pytest.approx(0.875, abs=1e-4)

    def test_groups_of_one_record_are_records(self):
        alone = fitted(search_of(epsilon=1e4), groups=[None] * N_RECORDS)
        records = fitted(search_of(epsilon=1e4), groups=None)
        assert alone.best_score_ == pytest.approx(records.best_score_, abs=0.01)
        assert alone.privacy_.n_protected == records.privacy_.n_protected == N_RECORDS
        assert records.privacy_.neighbours == "replace-one"


def everything_shown(cls, capsys, **params):
    """Numbers in what a fit prints, warns and leaves on the searcher, its repr and its pickle."""
    with warnings.catch_warnings(record=True) as caught, PrivacyLedger(5.0, 1e-4) as ledger:
        warnings.simplefilter("always")
        # Gradients are published: with noise of less than 1 none has a secret integer part. Its
        # eight printed decimals are a secret number with a probability of 1e-7.
        epsilon = 1.0 if cls is DPGIBOSearchCV else 1e-3
        search = search_of(cls, verbose=3, epsilon=epsilon, **params)
        search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL, groups_val=GROUPS)
    printed = capsys.readouterr()
    shown = [search, repr(search), str(search.privacy_), search.privacy_.to_dict()]
    record = ledger.to_dict()
    for entry in record["entries"]:
        entry["charged_at"] = "now"  # the clock may show any number below 60
    shown += [pickle.loads(pickle.dumps(search)), printed.out, printed.err, str(record)]
    return numbers_in([*shown, *(str(warning.message) for warning in caught)])


class TestSecretSizes:
    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("cls", [DPGridSearchCV, DPBayesSearchCV, DPGIBOSearchCV])
    def test_nothing_shows_them_and_the_number_of_groups_is_public(self, cls, capsys, monkeypatch):
        monkeypatch.setattr("time.time", lambda: 0.0)  # a time that is printed may be any number
        monkeypatch.setattr("time.perf_counter", lambda: 0.0)
        shown = everything_shown(cls, capsys)
        assert not shown & {N_RECORDS, max(SIZES.values())}
        assert N_GROUPS in shown

    def test_planted_rows_are_shown(self, capsys, monkeypatch):
        plant(monkeypatch, "groups: counted by rows")
        assert N_RECORDS in everything_shown(DPGridSearchCV, capsys)

    def observed(self, data, capsys, epsilon=1e-9):
        search = search_of(epsilon=epsilon, random_state=7, verbose=3)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted(search, *data)
        texts = sorted(str(warning.message) for warning in caught)
        return (pickle.dumps(search), repr(search), *texts, capsys.readouterr())

    @pytest.mark.slow
    def test_no_budget_and_other_sizes(self, monkeypatch, capsys):
        monkeypatch.setattr("time.time", lambda: 0.0)
        monkeypatch.setattr("time.perf_counter", lambda: 0.0)
        data = [with_group("one", *neighbour) for neighbour in NEIGHBOURS]
        assert len({self.observed(records, capsys) for records in data}) == 1
        assert len({self.observed(records, capsys, 1e4) for records in data}) > 1

    @pytest.mark.parametrize("n_extra", [4, 5, 6])
    def test_entries_are_not_compared_with_the_number_of_records(self, n_extra):
        class WithEntry(LogisticRegression):
            def fit(self, X, y, extra=None):
                return super().fit(X, y)

        search = search_of().set_params(estimator=WithEntry(), param_grid={"C": [0.1, 1.0]})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoisyScoreWarning)
            rows = {"X_val": X_VAL[:5], "y_val": Y_VAL[:5], "groups_val": GROUPS[:5]}
            search.fit(X, Y, **rows, extra=[0.0] * n_extra)
        assert "no protected record is among what fit is given as extra" in str(search.privacy_)


class Keeper(DecisionTreeClassifier):
    """Keeps what its trainings on public rows are shown."""

    shown: ClassVar[list] = []

    def fit(self, X, y, sample_weight=None, check_input=True):
        self.shown.append((X.tolist(), y.tolist(), np.asarray(sample_weight).tolist()))
        return super().fit(X, y, sample_weight, check_input)


class TestSetApart:
    """Without X_val: a group is protected or public as a whole, by the order of first rows."""

    PROTECTED = protected_positions(N_GROUPS, 0.2)
    ORDER = list(dict.fromkeys(GROUPS.tolist()))

    def table(self, size):
        """Rows, targets, weights and groups with `size` records in a protected group."""
        chosen = self.ORDER[self.PROTECTED[0]]
        first = np.flatnonzero(chosen == GROUPS)[0]
        kept = np.flatnonzero((chosen != GROUPS) | (np.arange(N_RECORDS) == first))
        at = np.searchsorted(kept, first)
        rows = np.insert(kept, [at] * (size - 1), first)
        return X_VAL[rows], Y_VAL[rows], np.linspace(1, 2, N_RECORDS)[rows], GROUPS[rows]

    def fit(self, size=5, **params):
        X, y, weights, groups = self.table(size)
        search = search_of(**{"cv": GroupKFold(2)} | params).set_params(estimator=Keeper())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search.fit(X, y, sample_weight=weights, groups=groups)
        return search, [str(warning.message) for warning in caught]

    def test_public_rows_do_not_depend_on_the_size_of_a_protected_group(self, monkeypatch):
        def shown(size):
            monkeypatch.setattr(Keeper, "shown", [])
            self.fit(size)
            return Keeper.shown

        few, many = shown(1), shown(45)
        assert few == many
        public = {tuple(row) for rows, *_ in few for row in rows}
        for position, label in enumerate(self.ORDER):
            own = {tuple(row) for row in X_VAL[label == GROUPS]}
            assert not own & public if position in self.PROTECTED else own <= public

    def test_public_groups_with_long_numbers_stay_apart(self):
        """As floats, 2^60 and its neighbours are one number."""
        rows = np.arange(60.0)[:, None]
        search = search_of(cv=GroupKFold(8))
        with pytest.warns(PublicTrainingWarning):
            search.fit(rows, rows[:, 0] > 20, groups=2**60 + np.arange(60) // 3)
        assert search.n_splits_ == 8

    def test_planted_rows_set_apart_one_by_one(self, monkeypatch):
        plant(monkeypatch, "groups: rows are set apart one by one")
        monkeypatch.setattr(Keeper, "shown", [])
        self.fit(1)
        few, Keeper.shown = Keeper.shown, []
        self.fit(45)
        assert few != Keeper.shown

    def test_statement(self):
        search, messages = self.fit()
        stated = search.privacy_
        assert stated.neighbours == "one group replaced"
        assert stated.n_protected == len(self.PROTECTED)
        assert "the order in which the groups first appear in X is public" in stated.assumptions
        assert stated.status == "conditional"  # Keeper is no verified step
        (message,) = [text for text in messages if "X_val was not given" in text]
        assert f"{len(self.PROTECTED)} of the {N_GROUPS} groups" in message
        assert message.endswith('If none may be public, set protect="all".')

    def test_sizes_are_secret(self, monkeypatch):
        monkeypatch.setattr(Keeper, "shown", [])
        n = len(self.table(45)[0])
        n_protected = np.isin(self.table(45)[3], np.array(self.ORDER)[self.PROTECTED]).sum()
        search, messages = self.fit(45, epsilon=1e-3)
        shown = [search, repr(search), search.privacy_.to_dict(), str(search.privacy_), messages]
        assert not numbers_in(shown) & {n, int(n_protected), 45}

    @pytest.mark.parametrize(
        ("changes", "match"),
        [
            ({"cv": [(np.arange(50), np.arange(50, 80))]}, "cv must be a number or a splitter"),
            ({"scoring": "roc_auc"}, "not supported with groups"),
        ],
    )
    def test_refusals(self, changes, match):
        with PrivacyLedger(5.0) as ledger, pytest.raises(ValueError, match=match):
            self.fit(**changes)
        assert not ledger.entries

    def test_too_few_groups_or_labels(self):
        for groups, match in ((["a"] * 80, "1 group"), (["a"] * 79, "groups must have one label")):
            with pytest.raises(ValueError, match=match):
                search_of().fit(X, Y, groups=groups)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_assumptions_are_those_of_records_but_for_the_numbers_that_are_public(neighbours):
    of_rows, of_groups = (
        fitted(search_of(neighbours=neighbours), groups=groups).privacy_.assumptions
        for groups in (None, GROUPS)
    )
    numbers = "numbers of rows", "numbers of public rows and of groups of protected records"
    counted = neighbours == "replace-one"  # else the number of groups is secret, too
    assert sum(numbers[0] in text for text in of_rows) == counted
    assert of_groups == tuple(text.replace(*numbers) for text in of_rows)


class TestRefusals:
    """Each before any charge."""

    def refused(self, search, error, match, **data):
        with PrivacyLedger(5.0, 1e-4) as ledger, pytest.raises(error, match=match):
            fitted(search, **data)
        assert not ledger.entries

    @pytest.mark.parametrize("scoring", ["roc_auc", "f1", "balanced_accuracy"])
    def test_metrics(self, scoring):
        match = r"not supported with groups: it is no mean .*Use a mean, such as"
        self.refused(search_of(scoring=scoring), UnboundedSensitivityError, match)

    @pytest.mark.parametrize(
        "mechanism",
        [Kusner2015(), Kusner2015Lipschitz(lipschitz=1.0, lambda_name="max_depth")],
    )
    def test_assumptions_about_one_record(self, mechanism):
        guide = not isinstance(mechanism, Kusner2015)
        search = search_of(DPBayesSearchCV, mechanism=mechanism, guide=guide)
        self.refused(search, ValueError, "not supported with Kusner2015")

    def test_every_record(self):
        for entry in ({"groups_val": GROUPS}, {"groups": [0] * len(X)}):
            with pytest.raises(ValueError, match="groups must name the group of each row"):
                search_of(protect="all", cv=None).fit(X, Y, X_val=X_VAL, y_val=Y_VAL, **entry)

    def test_private_trials(self):
        search = DPGridSearchCV(DPLogisticRegression(), {"C": [1.0]}, protect="all")
        for entry in ({"groups_val": GROUPS}, {"groups": [0] * len(X)}):
            with pytest.raises(ValueError, match="groups must name the group of each row"):
                search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL, **entry)

    def test_schema(self):
        self.refused(search_of(), ValueError, r"each row of X_val\.$", groups=GROUPS[1:])
        self.refused(search_of(), ValueError, "one dimension", groups=GROUPS[:, None])
        self.refused(search_of(), TypeError, "groups_val must have at least 1", groups=3)
        match = "groups_val was given without X_val, .* Those of X are groups"
        self.refused(search_of(), ValueError, match, X_val=None, y_val=None)
        with pytest.raises(ValueError, match="The groups of X_val are groups_val"):
            search_of().fit(X, Y, X_val=X_VAL, y_val=Y_VAL, groups=GROUPS)
        empty = {"X_val": X_VAL[:0], "y_val": Y_VAL[:0], "groups": []}
        self.refused(search_of(), ValueError, "at least one group", **empty)

    def test_no_group_is_needed_where_their_number_is_secret(self):
        search = fitted(search_of(neighbours="add-remove"), X_VAL[:0], Y_VAL[:0], [])
        assert 0 <= search.best_score_ <= 1


class TestLabelsBeforeTheCharge:
    """A fit that the budget refuses has counted the groups, and tells nothing else of them."""

    class Hostile(str):
        __slots__ = ()

        def __hash__(self):
            raise ValueError(str(self))

    def refused(self, labels):
        with PrivacyLedger(1e-3) as ledger, pytest.raises(BudgetExceededError) as caught:
            fitted(search_of(), groups=labels)
        assert not ledger.entries
        return caught.getrepr(style="native", showlocals=False).__str__(), caught.value

    def test_all_labels_with_as_many_groups_end_alike(self):
        plain, _ = self.refused(list(range(N_RECORDS)))
        hostile, error = self.refused([self.Hostile(f"SECRET{k}") for k in range(N_RECORDS)])
        assert hostile == plain
        assert "SECRET" not in hostile
        assert error.__context__ is None


class TestRelations:
    """A total is about one relation, and says about which."""

    PURE = PrivacyGuarantee(epsilon=0.5, neighbours="one group replaced")
    ADDED = PrivacyGuarantee(epsilon=0.5, neighbours="one group more or less")
    ROWS = PrivacyGuarantee(epsilon=0.25)

    def test_they_do_not_compose(self):
        for others in ((self.PURE, self.ROWS), (self.PURE, self.ADDED), (self.ADDED, self.ROWS)):
            with pytest.raises(ValueError, match="do not compose"):
                compose(*others)
        both = compose(self.PURE, self.PURE)
        assert both.neighbours == "one group replaced"
        # A site of one release holds persons of another.
        assert both.assumptions == ("the groups are the same in all releases",)
        assert not compose(self.ROWS, self.ROWS).assumptions
        assert not compose(self.PURE).assumptions

    def test_a_record_that_stays_in_its_group(self):
        stated = as_replace_one(compose(self.PURE, self.PURE))
        assert (stated.neighbours, stated.epsilon) == ("replace-one", 1.0)
        assert "a replaced record stays in its group" in stated.assumptions
        assert {part.neighbours for part in stated.parts} <= {"replace-one"}
        assert as_replace_one(self.ADDED).epsilon == 1.0

    def test_ledger(self):
        ledger = PrivacyLedger(3.0)
        ledger.charge(self.PURE)
        assert ledger.to_dict()["neighbours"] == "one group replaced"
        ledger.charge(self.ADDED)
        converted = "one group replaced (one group more or less charges converted)"
        converted += ", if the groups are the same in all releases"
        assert ledger.to_dict()["neighbours"] == converted
        assert ledger.spent().epsilon == pytest.approx(1.5)
        ledger.charge(self.ROWS)
        rows = ledger.to_dict()["neighbours"]
        assert rows.startswith("replace-one (one group replaced and")
        assert "the same" not in rows  # a record is in one group of each release
        assert ledger.spent().epsilon == pytest.approx(1.75)


class TestEntriesOfFit:
    """No length of an entry of ``fit`` shows how many rows the groups have together."""

    LABELS = np.append(np.repeat(np.arange(30), 2), 0)
    ROWS, TARGETS = X[:61], Y[:61]

    class Stopping(LogisticRegression):
        def fit(self, X, y, eval_set=None):
            return super().fit(X, y)

    class Private(DPLogisticRegression):
        shown: ClassVar = set()

        def fit(self, X, y, *, groups=None, X_public=None, sample_weight=None):
            self.shown.add((len(X), getattr(X_public, "dtype", None)))
            return super().fit(X, y, groups=groups)

    def search(self, protect):
        if protect == "all":
            estimator = self.Private(X_bounds=(-3, 3), classes=[0, 1])
        else:
            estimator = self.Stopping()
        return DPGridSearchCV(estimator, {"C": [0.1, 1.0]}, protect=protect)

    def fit(self, protect, **entries):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search = self.search(protect).fit(
                self.ROWS, self.TARGETS, groups=self.LABELS, **entries
            )
        return str(search.privacy_), [str(warning.message) for warning in caught]

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("protect", ["validation", Chunks(3), "all"], ids=str)
    def test_none_is_compared_with_it(self, protect):
        entries = [
            {"X_public": X_VAL[:n]} if protect == "all" else {"eval_set": [(X_VAL[:n], Y_VAL[:n])]}
            for n in (60, 61)
        ]
        other, equal = (self.fit(protect, **entry) for entry in entries)
        assert equal == other
        assert "no protected record is among what fit is given as" in equal[0]

    @pytest.mark.slow
    def test_none_is_typed_as_if_it_went_with_the_rows_of_a_part(self, monkeypatch):
        monkeypatch.setattr(self.Private, "shown", set())
        self.fit("all", X_public=X_VAL[:20].astype(object))
        for n, _ in {*self.Private.shown}:
            self.fit("all", X_public=X_VAL[:n].astype(object))
        # None: where warnings of the estimator alone are looked for.
        assert {kind for _, kind in self.Private.shown} == {None, np.dtype(object)}

    def test_protected_rows_are_refused_as_before(self):
        for entry in (self.ROWS, [self.ROWS[:5]]):
            with pytest.raises(ValueError, match="X_public holds protected rows"):
                self.fit("all", X_public=entry)
        with pytest.raises(ValueError, match="sample_weight goes with the rows"):
            self.fit("all", sample_weight=np.ones(61))

    @pytest.mark.parametrize("protect", ["validation", Chunks(3), "all"], ids=str)
    def test_targets_of_another_number_do_not_tell_it(self, protect):
        with pytest.raises(ValueError, match=r"X and y must have the same number of rows\.$"):
            self.search(protect).fit(self.ROWS, self.TARGETS[:60], groups=self.LABELS)

    @pytest.mark.parametrize("empty", [np.zeros((61, 0)), [[]] * 61, np.zeros(61)], ids=type)
    def test_rows_without_columns_do_not_tell_it(self, empty):
        with pytest.raises(ValueError, match=r"0 feature|1D array") as caught:
            self.search(Chunks(3)).fit(empty, self.TARGETS, groups=self.LABELS)
        assert "61" not in str(caught.value)

    def test_weights_of_another_number_do_not_tell_it(self):
        with pytest.raises(ValueError, match="one value for each row of X") as caught:
            self.fit(Chunks(3), sample_weight=np.ones(7))
        assert "61" not in str(caught.value)
