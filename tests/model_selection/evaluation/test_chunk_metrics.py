"""Metrics of chunks: one record moves one bounded number; scikit-learn's values; bad records."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    cohen_kappa_score,
    f1_score,
    fbeta_score,
    get_scorer,
    make_scorer,
)
from sklearn.tree import DecisionTreeClassifier

from _support.internals import (
    ChunkedRows,
    ChunkMetricTraining,
    chunk_metric,
    chunk_parts,
    chunk_positions,
    clipped_excess,
    resolve_chunk_scorer,
    total_loss_sensitivity,
)
from _support.planted import plant
from skdpbo import DPBayesSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.exceptions import DefaultBoundsWarning, UnboundedSensitivityError
from skdpbo.model_selection import Chunks
from skdpbo.privacy import PrivacyLedger

RNG = np.random.RandomState(0)
X = RNG.normal(size=(90, 3))
Y = (X[:, 0] + 0.5 * RNG.normal(size=90) > 0.4).astype(int)
CLASSIFICATION = ["roc_auc", "f1", "balanced_accuracy", "matthews_corrcoef", "average_precision"]
REGRESSION = ["r2", "explained_variance", "neg_max_error", "neg_median_absolute_error"]


def training(estimator, scoring, X, y, k=5, **parts):
    rows = ChunkedRows(X, y, chunks=chunk_positions(len(X), k), **parts)
    scorer = resolve_chunk_scorer(scoring, estimator, 2.0)
    return ChunkMetricTraining(
        estimator=estimator,
        rows=rows,
        fit_params={},
        scorer=scorer,
        excess_bound=None,
        n_jobs=None,
        pre_dispatch="2*n_jobs",
    )


def estimator_of(scoring):
    return Ridge() if scoring in REGRESSION else LogisticRegression()


class Guessing(DummyClassifier):
    """Answers at random, after as many draws as its rows are long."""

    def predict(self, X):
        np.random.random(int(100 * np.abs(X).sum()))
        return np.random.random(len(X)) > 0.5


class TestParts:
    @pytest.mark.parametrize("held_out", [False, True])
    def test_a_record_is_in_one_part_of_one_chunk(self, held_out):
        parts = {"X_val": X[:31], "y_val": Y[:31]} if held_out else {}
        rows = ChunkedRows(X, Y, chunks=chunk_positions(90, 4), **parts)
        trained, scored = zip(*(chunk_parts(rows, j) for j in range(4)), strict=True)
        if held_out:
            assert sorted(np.concatenate(trained)) == list(range(90))
            assert sorted(np.concatenate(scored)) == list(range(31))
        else:
            assert sorted(np.concatenate([*trained, *scored])) == list(range(90))
            assert {len(part) for part in scored} == {7}


class TestSensitivity:
    def test_one_chunk_moves_at_will(self):
        """Brute force: all pairs of loss tables of two candidates that differ in one chunk."""
        cap = 2
        tables = list(itertools.product(range(4), repeat=4))  # candidates x chunks
        largest = largest_plain = 0
        for a, b, c, d in tables:
            for b2, d2 in itertools.product(range(4), repeat=2):
                one, other = [[a, b], [c, d]], [[a, b2], [c, d2]]
                for i in range(2):
                    change = clipped_excess(one, cap)[i] - clipped_excess(other, cap)[i]
                    largest = max(largest, abs(change))
                    largest_plain = max(largest_plain, abs(sum(one[i]) - sum(other[i])))
        assert largest == cap
        assert largest_plain == total_loss_sensitivity(3)
        clipped = training(Ridge(), "r2", X, X[:, 0])
        clipped.excess_bound = 0.05
        assert clipped._excess_cap() == (2**20 // 20, 2**20 // 20)
        clipped.scorer.units = 3
        assert clipped._excess_cap() == (1, 1)

    def changed_chunks(self, scoring, seed, **parts):
        """Return how many of the losses a replaced record moves, in each of 6 positions."""
        rng = np.random.default_rng(seed)
        model, y = estimator_of(scoring), X[:, 0] if scoring in REGRESSION else Y
        before = np.array(training(model, scoring, X, y, **parts).losses([{}])[0])
        for i in rng.permutation(90)[:6]:
            X2, y2 = X.copy(), y.copy()
            X2[i], y2[i] = rng.normal(size=3) * 5, y[rng.integers(90)]
            after = np.array(training(model, scoring, X2, y2, **parts).losses([{}])[0])
            yield (before != after).sum()

    @pytest.mark.parametrize("scoring", ["roc_auc", "f1", "r2"])
    def test_one_record_changes_one_number(self, scoring):
        changed = list(self.changed_chunks(scoring, 1))
        assert max(changed) == 1

    def test_random_answers_of_a_model_depend_on_no_other_chunk(self):
        trained = [training(Guessing(), "f1", rows, Y) for rows in (X, X.copy())]
        _, scored = chunk_parts(trained[1].rows, 0)
        trained[1].rows.X[scored[0]] = 5.0
        one, other = (np.array(each.losses([{}])[0]) for each in trained)
        assert np.flatnonzero(one != other).tolist() == [0]

    def test_planted_bug_scored_on_other_chunks(self, monkeypatch):
        plant(monkeypatch, "chunk training: a model is scored on other chunks")
        assert max(self.changed_chunks("roc_auc", 1)) > 1

    @pytest.mark.quick_cases(3)
    @pytest.mark.parametrize("scoring", ["roc_auc", "f1", "neg_max_error"])
    @pytest.mark.parametrize("bad", [np.nan, 1e300, "text", None, [1.0], 10**400])
    def test_a_bad_record_changes_one_number(self, scoring, bad):
        model, y = estimator_of(scoring), X[:, 0] if scoring in REGRESSION else Y
        before = np.array(training(model, scoring, X, y).losses([{}])[0])
        assert before[1] < 2**20  # the worst would not change
        trained, scored = chunk_parts(training(model, scoring, X, y).rows, 1)
        for i in (trained[0], scored[0]):
            X2 = X.astype(object)
            X2[i, 1] = bad
            after = np.array(training(model, scoring, X2, y).losses([{}])[0])
            assert np.flatnonzero(before != after).tolist() in ([1], [])
            assert after.max() <= 2**20

    @pytest.mark.quick_cases(5)
    @pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
    @pytest.mark.parametrize("scoring", REGRESSION)
    def test_a_bad_target_changes_one_number(self, scoring, bad):
        before = np.array(training(Ridge(), scoring, X, X[:, 0]).losses([{}])[0])
        trained, scored = chunk_parts(training(Ridge(), scoring, X, Y).rows, 1)
        for i in (trained[0], scored[0]):
            y = X[:, 0].copy()
            y[i] = bad
            after = np.array(training(Ridge(), scoring, X, y).losses([{}])[0])
            assert np.flatnonzero(before != after).tolist() == [1]


class TestValues:
    @pytest.mark.quick_cases(3)
    @pytest.mark.parametrize("scoring", [*CLASSIFICATION, *REGRESSION])
    def test_scikit_learns_metric_of_the_held_back_rows(self, scoring):
        model, y = estimator_of(scoring), X[:, 0] + X[:, 1] ** 2 if scoring in REGRESSION else Y
        evaluator = training(model, scoring, X, y)
        for j, loss in enumerate(evaluator.losses([{}])[0]):
            trained, scored = chunk_parts(evaluator.rows, j)
            model.fit(X[trained], y[trained])
            expected = get_scorer(scoring)(model, X[scored], y[scored])
            scorer = evaluator.scorer
            expected = np.clip(expected, scorer.lower, scorer.upper)
            assert scorer.score_from_units(loss, 1) == pytest.approx(expected, abs=4e-6)

    def test_one_class_alone_is_the_worst_and_no_error(self):
        evaluator = training(DummyClassifier(), "roc_auc", X, np.zeros(90, dtype=int))
        assert evaluator.losses([{}]) == [[2**20] * 5]

    @pytest.mark.parametrize("bad", ["row", "label"])
    def test_an_unreadable_record_costs_its_share(self, bad):
        """NaN or an unknown label in one of six rows that score: the others' metric, times 5/6."""
        labels = np.array(["no", "yes"], dtype=object)[Y]
        evaluator = training(LogisticRegression(), "roc_auc", X.copy(), labels.copy())
        trained, scored = chunk_parts(evaluator.rows, 2)
        i = scored[Y[scored] == 0][0]
        if bad == "row":
            evaluator.rows.X[i, 0] = np.nan
        else:
            evaluator.rows.y[i] = "unknown"
        loss = evaluator.losses([{}])[0][2]
        others = scored[scored != i]
        model = LogisticRegression().fit(X[trained], labels[trained])
        of_others = get_scorer("roc_auc")(model, X[others], labels[others])
        share = (len(scored) - 1) / len(scored)
        assert 1 - loss / 2**20 == pytest.approx(of_others * share, abs=2e-6)

    def test_a_target_that_is_missing_costs_its_share_of_a_regression(self):
        y = X[:, 0] + 0.1 * X[:, 1] ** 2
        evaluator = training(Ridge(), "r2", X, y.copy())
        trained, scored = chunk_parts(evaluator.rows, 2)
        evaluator.rows.y[scored[0]] = np.nan
        loss = evaluator.losses([{}])[0][2]
        of_others = Ridge().fit(X[trained], y[trained]).score(X[scored[1:]], y[scored[1:]])
        share = 1 - 1 / len(scored)
        # From the lower end of the range, -1.
        expected = -1 + (of_others + 1) * share
        assert evaluator.scorer.score_from_units(loss, 1) == pytest.approx(expected, abs=4e-6)

    @pytest.mark.parametrize(
        ("scoring", "lower", "upper"),
        [
            ("f1", 0.0, 1.0),
            (make_scorer(fbeta_score, beta=2, labels=[1]), 0.0, 1.0),
            (make_scorer(cohen_kappa_score), -1.0, 1.0),
            (make_scorer(balanced_accuracy_score, adjusted=True), -1.0, 1.0),
            ("r2", -1.0, 1.0),
            ("neg_max_error", -2.0, 0.0),
        ],
        ids=["f1", "f2", "kappa", "adjusted", "r2", "max_error"],
    )
    def test_ranges(self, scoring, lower, upper):
        metric = chunk_metric(scoring, 2.0)
        assert (metric.lower, metric.upper) == (lower, upper)
        assert metric.score_from_units(metric.loss_of(upper) * 3, 3) == upper
        assert metric.score_from_units(metric.loss_of(None) * 3, 3) == lower

    def test_an_error_without_an_end_needs_a_bound(self):
        with pytest.warns(DefaultBoundsWarning, match="clipped at 1"):
            chunk_metric("neg_max_error")

    @pytest.mark.parametrize("name", ["accuracy", "f1_micro", "recall_weighted", "neg_log_loss"])
    def test_means_of_losses_are_left_to_the_others(self, name):
        assert chunk_metric(name) is None


TREE = DecisionTreeClassifier(random_state=0)
BIG_X = RNG.normal(size=(1200, 3))
BIG_Y = (BIG_X[:, 0] + 0.3 * RNG.normal(size=1200) > 0.8).astype(int)


class TestSearchers:
    def test_labels_of_synthetic_rows_are_no_reason_for_a_warning(self):
        # They are of two classes, of which a model has one score alone.
        how = {"scoring": "top_k_accuracy", "protect": Chunks(2), "score_fraction": 0.5}
        search = DPGridSearchCV(LogisticRegression(), {}, epsilon=1e6, **how)
        labels = np.digitize(BIG_X[:200, 0], [-0.5, 0.5])
        assert search.fit(BIG_X[:200], labels).best_score_ > 0.9

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("excess_bound", [None, 0.05])
    @pytest.mark.parametrize("scoring", ["roc_auc", "average_precision", "f1"])
    def test_grid(self, scoring, excess_bound):
        chunks = Chunks(4, excess_bound=excess_bound)
        how = {"scoring": scoring, "epsilon": 1e6, "score_fraction": 0.5, "protect": chunks}
        search = DPGridSearchCV(TREE, {"max_depth": [1, 3], "max_features": [None]}, **how)
        search.fit(BIG_X, BIG_Y)
        assert 0.7 < search.best_score_ <= 1.0
        assert 0 < search.best_score_std_ < 1e-3
        assert not hasattr(search, "best_estimator_")

    def test_validation_part(self):
        how = {"scoring": "roc_auc", "epsilon": 1e6, "protect": Chunks(4), "score_fraction": 0.5}
        search = DPGridSearchCV(TREE, {"max_depth": [1, 3]}, **how)
        search.fit(BIG_X[:800], BIG_Y[:800], X_val=BIG_X[800:], y_val=BIG_Y[800:])
        assert 0.7 < search.best_score_ <= 1.0

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("mechanism", ["permute_and_flip", "gaussian"])
    def test_bayes(self, mechanism):
        how = {"scoring": "f1", "epsilon": 1e3, "mechanism": mechanism, "protect": Chunks(4)}
        search = DPBayesSearchCV(TREE, {"max_depth": (1, 4)}, n_iter=3, guide=False, **how)
        search.fit(BIG_X, BIG_Y)
        assert 0.5 < search.best_score_ <= 1.0

    def test_randomized(self):
        how = {"scoring": "roc_auc", "epsilon": 1e3, "protect": "all"}
        search = DPRandomizedSearchCV(TREE, {"max_depth": [1, 3]}, n_iter=2, **how)
        assert 0.5 < search.fit(BIG_X, BIG_Y).best_score_ <= 1.0

    def test_promise_is_what_the_fit_states(self):
        search = DPGridSearchCV(TREE, {"max_depth": [1, 3]}, scoring="f1", protect=Chunks(6))
        promised = search.privacy_guarantee(n_samples=1200)
        stated = search.fit(BIG_X, BIG_Y).privacy_
        assert (promised.epsilon, promised.mechanism) == (stated.epsilon, stated.mechanism)

    def test_standard_deviation_is_that_of_the_noise(self):
        how = {"scoring": "f1", "epsilon": 2.0, "score_fraction": 0.5, "protect": Chunks(10)}
        search = DPGridSearchCV(TREE, {"max_depth": [2]}, **how).fit(BIG_X, BIG_Y)
        assert search.best_score_std_ == pytest.approx(np.sqrt(2) / 10, rel=1e-3)

    @pytest.mark.parametrize(("n", "n_val"), [(11, None), (40, 3)])
    def test_too_few_rows_are_refused_before_any_charge(self, n, n_val):
        search = DPGridSearchCV(TREE, {"max_depth": [1]}, scoring="f1", protect=Chunks(4))
        part = {} if n_val is None else {"X_val": BIG_X[-n_val:], "y_val": BIG_Y[-n_val:]}
        match = f"n_samples={n_val or n} .* needs at least"
        with PrivacyLedger(epsilon=9.0) as ledger, pytest.raises(ValueError, match=match):
            search.fit(BIG_X[:n], BIG_Y[:n], **part)
        assert ledger.entries == ()

    def test_a_metric_of_the_user_has_no_range(self):
        scoring = make_scorer(lambda y_true, y_pred: 1e9)
        search = DPGridSearchCV(TREE, {"max_depth": [1]}, scoring=scoring, protect=Chunks(4))
        with pytest.raises(UnboundedSensitivityError, match="may depend on its records in any way"):
            search.fit(BIG_X, BIG_Y)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "labels", [np.array(["no", "yes"]), np.array([3.0, 7.0]), np.array([0, 1])]
)
@pytest.mark.parametrize("metric", [f1_score, average_precision_score])
def test_a_given_positive_label_is_one_of_the_dry_run(metric, labels):
    how = {"response_method": "predict_proba"} if metric is average_precision_score else {}
    scoring = make_scorer(metric, pos_label=labels[1], **how)
    how = {"scoring": scoring, "protect": Chunks(n_chunks=3), "epsilon": 200.0}
    search = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, score_fraction=0.5, **how)
    for y in (labels[Y], labels[Y].tolist()):  # without a warning
        assert search.fit(X, y).best_score_ > 0.5  # 0 where no chunk is scored


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("scoring", "y"),
    [
        ("f1", np.array(["no", "yes"])[Y]),
        ("precision", pd.Series(np.array(["no", "yes"])[Y], dtype="category")),
        (make_scorer(f1_score, pos_label="yes"), Y),
    ],
)
def test_a_positive_label_of_another_type_is_refused_before_the_charge(scoring, y):
    model = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=scoring)
    model.set_params(protect=Chunks(n_chunks=3))
    refused = pytest.raises(ValueError, match=r"pos_label=.* is no label of y, which holds")
    with PrivacyLedger(epsilon=9.0) as ledger, refused:
        model.fit(X, y)
    assert not ledger.entries
    model.set_params(scoring="f1_macro", epsilon=9.0).fit(X, y)  # has no positive label
