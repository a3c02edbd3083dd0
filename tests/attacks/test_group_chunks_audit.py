"""Chunks that keep groups of records together: what a replaced group moves."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.tree import DecisionTreeClassifier

from _support.internals import (
    ChunkedRows,
    ChunkTraining,
    chunk_positions,
    chunk_sensitivity,
    resolve_scorer,
    rows_of_units,
)
from _support.numbers_shown import numbers_in
from _support.planted import plant
from skdpbo import DPBayesSearchCV, DPGridSearchCV
from skdpbo.model_selection import Chunks

K, N_GROUPS, SIZE = 4, 24, 41
GROUPS = np.append(np.repeat(0, SIZE), np.arange(1, N_GROUPS))
MAJORITY = DummyClassifier(strategy="most_frequent")


def training(label, size=SIZE, **parts):
    """Evaluate models that predict the most frequent label; group 0 has one label, all others 0."""
    groups = GROUPS[SIZE - size :]
    y = np.where(groups == 0, label, 0)
    chunks = chunk_positions(N_GROUPS, K)
    return ChunkTraining(
        estimator=MAJORITY,
        rows=ChunkedRows(np.zeros((len(y), 1)), y, chunks=chunks, groups=groups, **parts),
        fit_params={},
        scorer=resolve_scorer("accuracy", MAJORITY).for_groups(),
        excess_bound=None,
        n_jobs=None,
        pre_dispatch="2*n_jobs",
    )


def moved_total():
    (one,), (other,) = (training(label).totals([{}]) for label in (0, 1))
    return abs(one - other) / training(0).scorer.units


class TestSensitivity:
    def test_a_group_moves_a_total_as_one_record_does(self):
        """The bound for one record is attained: its model, and one loss of each other model."""
        assert moved_total() == chunk_sensitivity(1, K, N_GROUPS) == training(0).sensitivity / 2**20

    def test_planted_groups_split_over_chunks_move_more(self, monkeypatch):
        plant(monkeypatch, "chunks: a group is split over chunks")
        assert moved_total() > 3 * chunk_sensitivity(1, K, N_GROUPS)

    @pytest.mark.parametrize("size", [7, 20])
    def test_a_size_that_changes_no_model_is_no_matter(self, size):
        usual = training(1)
        (total,) = usual.totals([{}])
        assert training(1, size).totals([{}]) == [total]
        assert total < sum(usual.worst_losses)

    def test_a_validation_part_of_its_own(self):
        y_val = np.append(np.zeros(SIZE, dtype=int), [0, 1])
        parts = {"X_val": np.zeros((SIZE + 2, 1)), "y_val": y_val}
        groups_val = np.append(np.zeros(SIZE, dtype=int), [1, 2])
        one = training(0, groups_val=groups_val, **parts)
        assert one.rows.size == (K, N_GROUPS, 3)
        assert one.totals([{}]) == [K * one.scorer.units]  # each model loses on the last group

    def test_no_group_is_divided(self):
        rows = training(0).rows
        for j, chunk in enumerate(rows.chunks):
            inside = rows_of_units(rows.groups, chunk)
            outside = rows_of_units(rows.groups, rows.outside(j))
            assert not set(GROUPS[inside]) & set(GROUPS[outside])
            assert len(inside) + len(outside) == len(GROUPS)


class TestFit:
    RNG = np.random.default_rng(3)
    LABELS = np.repeat(np.arange(300), RNG.integers(1, 9, 300))
    X = RNG.normal(size=(len(LABELS), 2))
    Y = (X[:, 0] > 0).astype(int)

    def fitted(self, search=DPGridSearchCV, scoring="accuracy", **parts):
        space = {"max_depth": [1, 2, 3]}
        model = search(DecisionTreeClassifier(random_state=0), space, scoring=scoring)
        model.set_params(protect=Chunks(5), epsilon=1e5)
        return model.fit(self.X, self.Y, groups=self.LABELS, **parts)

    @pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
    def test_statement(self, scoring):
        search = self.fitted(scoring=scoring)
        stated = search.privacy_
        assert stated.neighbours == "one group replaced"
        assert stated.protects == "groups of training and validation records"
        assert stated.n_protected == 300
        assert len(self.LABELS) not in numbers_in(str(stated))
        assert search.best_score_ > 0.9  # of .96 or more; the noise has scale 2e-5

    def test_a_validation_part(self):
        search = self.fitted(X_val=self.X.copy(), y_val=self.Y, groups_val=self.LABELS + 300)
        assert search.privacy_.n_protected == 600
        assert search.best_score_ > 0.9
        assert "no group is both in X and in X_val" in search.privacy_.assumptions

    def test_bayes_with_noisy_scores(self):
        search = DPBayesSearchCV(
            DecisionTreeClassifier(), {"max_depth": (1, 8)}, n_iter=4, mechanism="gaussian"
        )
        search.set_params(protect=Chunks(5), epsilon=1e5, guide=False, scoring="accuracy")
        search.fit(self.X, self.Y, groups=self.LABELS)
        assert search.privacy_.neighbours == "one group replaced"
        assert search.best_score_ > 0.9

    def test_few_groups_are_refused(self):
        with pytest.raises(ValueError, match="n_samples=3 while n_chunks=5"):
            DPGridSearchCV(MAJORITY, {"constant": [0]}, protect=Chunks(5), cv=None).fit(
                self.X[:9], self.Y[:9], groups=[0, 1, 2] * 3
            )


class TestPromise:
    """`privacy_guarantee` before a fit, for groups."""

    @pytest.mark.parametrize("protect", ["validation", Chunks(5)])
    def test_it_is_that_of_the_fit(self, protect):
        search = DPGridSearchCV(MAJORITY, {"constant": [0, 1]}, protect=protect)
        promised, of_records = (search.privacy_guarantee(300, groups=g) for g in (True, False))
        assert promised.neighbours == "one group replaced"
        assert promised.epsilon == of_records.epsilon
        assert promised.protects == f"groups of {of_records.protects}"
