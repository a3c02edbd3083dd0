"""Sample and aggregate: what one record moves, what is released, what is refused."""

import itertools
import logging
import random
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from _support.evaluators import chunk_training
from _support.internals import (
    ChunkedRows,
    PrivateChoice,
    chunk_positions,
    chunk_sensitivity,
    clipped_excess,
    excess_cap,
    excess_sensitivity,
    n_chunk_losses,
    resolve_scorer,
)
from _support.protections import without_numbers
from skdpbo import (
    DPBayesSearchCV,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    DPSparseGPRegressor,
    make_per_record_scorer,
)
from skdpbo.exceptions import (
    BudgetExceededError,
    DryRunWarning,
    SkdpboWarning,
    UnboundedSensitivityError,
)
from skdpbo.model_selection import Chunks, Kusner2015, Kusner2015Lipschitz
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger, charge_active_ledger

RNG = np.random.RandomState(0)
X = RNG.normal(size=(90, 3))
LABELS = (X[:, 0] + 0.3 * RNG.normal(size=90) > 0).astype(int)
EXACT = {"epsilon": 1e9, "score_fraction": 0.5}
ALL = {"protect": Chunks(4)}


class Parity(ClassifierMixin, BaseEstimator):
    """Predicts its column, or the contrary if the sum of what it was trained on is odd."""

    def __init__(self, k=0):
        self.k = k

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        self.odd_ = (int(np.asarray(X, dtype=float).sum()) + self.k) % 2
        return self

    def predict(self, X):
        return (np.asarray(X)[:, 0].astype(int) + self.odd_) % 2


class Writing(DummyClassifier):
    """Hides a parameter that is not given, as CatBoost does."""

    def __init__(self, allow_writing_files=None):
        super().__init__()
        self.allow_writing_files = allow_writing_files

    def get_params(self, deep=True):
        given = self.allow_writing_files
        return {} if given is None else {"allow_writing_files": given}


def losses_of(estimator, candidates, rows, scorer=None):
    scorer = resolve_scorer("accuracy", estimator) if scorer is None else scorer
    return chunk_training(estimator, rows, scorer).losses(candidates)


def total(estimator, rows, scorer=None):
    (losses,) = losses_of(estimator, [{}], rows, scorer)
    return sum(losses)


def rows_of(X, y, n_chunks, X_val=None, y_val=None):
    return ChunkedRows(X, y, X_val, y_val, chunks=chunk_positions(len(X), n_chunks))


class TestChunks:
    @pytest.mark.parametrize(("n", "k"), [(10, 3), (7, 7), (100, 8), (2, 2)])
    def test_disjoint_and_even(self, n, k):
        chunks = chunk_positions(n, k)
        assert sorted(np.concatenate(chunks)) == list(range(n))
        assert {len(chunk) for chunk in chunks} <= {n // k, -(-n // k)}

    def test_fixed_by_the_numbers_alone(self):
        np.random.seed(1)
        assert [chunk.tolist() for chunk in chunk_positions(7, 3)] == [[0, 1, 6], [2, 4], [3, 5]]

    def test_sorted_rows_are_spread(self):
        assert all(20 < chunk.mean() < 80 for chunk in chunk_positions(101, 5))


def table_of_totals(n, k, m):
    """Total loss of `Parity` on every data set of n (+ m) records of two bits."""
    return {bits: total(Parity(), rows) for bits, rows in all_data_sets(n, k, m)}


def all_data_sets(n, k, m):
    for bits in itertools.product(range(4), repeat=n + (m or 0)):
        x, y = np.array(bits)[:, None] // 2, np.array(bits) % 2
        parts = (x, y) if m is None else (x[:n], y[:n])
        yield bits, rows_of(*parts, k, *((x[n:], y[n:]) if m else ()))


def largest_changes_of_excess(n, k, m):
    """Over all pairs of neighbours and two adversarial candidates, for each cap."""
    candidates = [{"k": 0}, {"k": 1}]
    losses = {b: losses_of(Parity(), candidates, rows) for b, rows in all_data_sets(n, k, m)}
    changes = {}
    for cap in range(1, (m or n) + 1):
        first, second = (
            {bits: clipped_excess(of_models, cap)[i] for bits, of_models in losses.items()}
            for i in (0, 1)
        )
        changes[cap] = max(largest_change(first), largest_change(second))
    return changes


def largest_change(totals):
    """Over all pairs of data sets that differ in one record."""
    return max(
        abs(totals[bits] - totals[(*bits[:i], other, *bits[i + 1 :])])
        for bits in totals
        for i in range(len(bits))
        for other in range(4)
    )


class TestSensitivity:
    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize(("n", "k", "m"), [(3, 2, None), (3, 3, None), (2, 2, 1)])
    def test_brute_force(self, n, k, m):
        assert largest_change(table_of_totals(n, k, m)) == chunk_sensitivity(1, k, n, m)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("n", "k", "m"),
        [(4, 4, None), (5, 2, None), (5, 3, None), (5, 4, None), (2, 2, 3), (4, 3, 1)],
    )
    def test_brute_force_slow(self, n, k, m):
        assert largest_change(table_of_totals(n, k, m)) == chunk_sensitivity(1, k, n, m)

    @pytest.mark.slow
    def test_planted_bug_scored_on_its_own_chunk(self, monkeypatch):
        everything = lambda rows, j: np.arange(rows.n_samples)  # noqa: E731
        monkeypatch.setattr(ChunkedRows, "outside", everything)
        assert largest_change(table_of_totals(4, 2, None)) > chunk_sensitivity(1, 2, 4)

    def test_planted_bug_chunks_that_overlap(self):
        rows = [
            ChunkedRows(x, np.zeros(4, int), chunks=[np.array([0, 1]), np.array([1, 2])])
            for x in (np.array([[0], [0], [0], [0]]), np.array([[0], [1], [0], [0]]))
        ]
        change = abs(total(Parity(), rows[0]) - total(Parity(), rows[1]))
        assert change > chunk_sensitivity(1, 2, 4)

    def test_planted_bug_one_loss(self):
        assert chunk_sensitivity(1, 2, 4) > 1
        assert largest_change(table_of_totals(3, 2, None)) > 1

    @pytest.mark.slow
    @pytest.mark.parametrize(("n", "k", "m"), [(3, 3, None), (2, 2, 2)])
    def test_brute_force_of_the_excess(self, n, k, m):
        changes = largest_changes_of_excess(n, k, m)
        for cap, change in changes.items():
            assert change <= excess_sensitivity(1, cap, k, m)
        # Attained where the cap is below the number of rows that score a model.
        assert changes[1] == excess_sensitivity(1, 1, k, m)
        assert changes[2] == excess_sensitivity(1, 2, k, m)

    @pytest.mark.slow
    @pytest.mark.parametrize(("n", "k", "m"), [(4, 2, None), (5, 3, None), (3, 2, 2), (3, 3, 2)])
    def test_brute_force_of_the_excess_slow(self, n, k, m):
        changes = largest_changes_of_excess(n, k, m)
        assert all(change <= excess_sensitivity(1, cap, k, m) for cap, change in changes.items())
        assert changes[1] == excess_sensitivity(1, 1, k, m)

    def test_planted_bug_the_best_is_taken_for_fixed(self):
        # R + (k - 1) B would do if a record could not move the best candidate of a chunk as well.
        assert largest_changes_of_excess(3, 3, None)[2] > 2 + 2 * 1

    def test_clipped_excess(self):
        losses = [[3, 9, 0], [5, 2, 0], [20, 2, 1]]
        assert clipped_excess(losses, 4) == [0 + 4 + 0, 2 + 0 + 0, 4 + 0 + 1]
        assert excess_cap(2**20, 0.05, 10, 1000) == int(0.05 * 2**20 * 900)
        assert excess_cap(1, 0.05, 3, 6) == 1
        assert excess_cap(10, 0.5, 3, 6, 4) == 20

    @pytest.mark.parametrize(
        ("arguments", "match"),
        [
            ((1,), "n_chunks"),
            ((2.0,), "n_chunks"),
            ((True,), "n_chunks"),
            ((5, 0.0), "excess_bound"),
            ((5, 1.5), "excess_bound"),
            ((5, float("nan")), "excess_bound"),
            ((5, "0.1"), "excess_bound"),
        ],
    )
    def test_bad_chunks(self, arguments, match):
        with pytest.raises((ValueError, TypeError), match=match):
            Chunks(*arguments)

    @pytest.mark.parametrize("units", [1, 2**20])
    @pytest.mark.parametrize(("n", "k"), [(1000, 10), (1003, 10), (50, 7)])
    def test_in_the_mean_it_is_the_bound_over_k_and_over_n(self, units, n, k):
        mean = chunk_sensitivity(units, k, n) / (units * n_chunk_losses(k, n))
        assert mean >= 1 / k + 1 / n - 1e-12
        assert mean <= (1 / k + 1 / n) * (1 + k / n)
        held_out = chunk_sensitivity(units, k, n, 30) / (units * n_chunk_losses(k, n, 30))
        assert held_out == pytest.approx(max(1 / k, 1 / 30))

    def test_unequal_chunks_count_the_smallest(self):
        # 7 = 3 + 2 + 2: the model of a chunk of 2 is scored on 5 rows; 2 models are not trained
        # on the record.
        assert chunk_sensitivity(1, 3, 7) == 5 + 2
        assert n_chunk_losses(3, 7) == 4 + 5 + 5

    @pytest.mark.quick_cases(7)
    @pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "neg_brier_score"])
    @pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300, "text", None, [1.0], 10**400])
    @pytest.mark.parametrize("where", ["X", "y"])
    def test_no_record_moves_more(self, scoring, bad, where):
        model = make_pipeline(StandardScaler(), LogisticRegression())
        scorer = resolve_scorer(scoring, model)
        part = slice(14, 44)  # of both classes in every chunk, so that each trains
        X_objects, y = X[part].astype(object), LABELS[part].astype(object)
        before = total(model, rows_of(X_objects, y.copy(), 5), scorer)
        if where == "X":
            X_objects[4, 1] = bad
        else:
            y[4] = bad
        after = total(model, rows_of(X_objects, y, 5), scorer)
        assert before < 0.5 * scorer.units * n_chunk_losses(5, 30)
        assert 0 < abs(after - before) <= chunk_sensitivity(scorer.units, 5, 30)

    def test_a_text_in_a_list_stays_in_its_record(self):
        search = DPGridSearchCV(Ridge(), {"alpha": [1.0]}, loss_bound=9.0, **ALL, **EXACT)
        table = X.tolist()
        first = search.fit(table, X[:, 0]).best_score_
        table[4][1] = "1.5"
        assert 0 < abs(search.fit(table, X[:, 0]).best_score_ - first) <= 9 * (1 / 4 + 1 / 90) * 1.1

    @pytest.mark.parametrize("row", [[1.0], None, [1.0, 2.0, 3.0, 4.0], "text", [{}, [], 1j]])
    def test_a_row_of_another_length_stays_in_its_record(self, row):
        search = DPGridSearchCV(Ridge(), {"alpha": [1.0]}, loss_bound=9.0, **ALL, **EXACT)
        table = X.tolist()
        first = search.fit(table, X[:, 0]).best_score_
        table[4] = row
        assert 0 < abs(search.fit(table, X[:, 0]).best_score_ - first) <= 9 * (1 / 4 + 1 / 90) * 1.1

    def test_rows_may_be_vectors(self):
        search = DPGridSearchCV(DecisionTreeClassifier(random_state=0), {}, **ALL, **EXACT)
        expected = search.fit(X, LABELS).best_score_
        assert expected > 0.7
        assert search.fit(list(X), LABELS).best_score_ == expected
        assert search.fit(tuple(map(tuple, X)), LABELS).best_score_ == expected

    def test_the_same_rows_twice_are_refused(self):
        search = DPGridSearchCV(DecisionTreeClassifier(), {}, **ALL)
        with PrivacyLedger(epsilon=9.0) as ledger, pytest.raises(ValueError, match="share rows"):
            search.fit(X, LABELS, X_val=X[10:40], y_val=LABELS[10:40])
        assert ledger.entries == ()
        search.fit(X[:60], LABELS[:60], X_val=X[60:], y_val=LABELS[60:])
        assert any("both in X and in X_val" in text for text in search.privacy_.assumptions)


class TestIsolation:
    def test_a_chunk_of_one_class_costs_the_worst(self):
        # Logistic regression refuses one class: 4 rows in chunks of 1.
        scorer = resolve_scorer("accuracy", LogisticRegression())
        rows = rows_of(X[:4], LABELS[:4], 4)
        assert total(LogisticRegression(), rows, scorer) == n_chunk_losses(4, 4)

    @pytest.mark.parametrize("scoring", ["neg_log_loss", "neg_brier_score"])
    def test_a_class_unknown_to_a_model_costs_the_worst(self, scoring):
        scorer = resolve_scorer(scoring, DummyClassifier())
        y = np.array([0, 0, 2, 2])
        chunks = [np.array([0, 1]), np.array([2, 3])]
        rows = ChunkedRows(np.zeros((4, 1)), y, chunks=chunks)
        assert total(DummyClassifier(strategy="prior"), rows, scorer) == 4 * scorer.units
        known = ChunkedRows(np.zeros((4, 1)), np.array([0, 2, 0, 2]), chunks=chunks)
        assert total(DummyClassifier(strategy="prior"), known, scorer) < 4 * scorer.units

    def test_system_exit_is_a_failure(self):
        class Quits(Parity):
            def fit(self, X, y):
                sys.exit("S3cr3t")

        assert total(Quits(), rows_of(X[:6], LABELS[:6], 3)) == n_chunk_losses(3, 6)

    def test_global_generators_start_anew_and_are_put_back(self):
        class Global(DummyClassifier):
            """Draws as often as its rows say: what comes after would move."""

            def fit(self, X, y):
                for _ in range(int(X.sum()) + 1):
                    draw = np.random.rand() + random.random()
                self.draw = draw
                return super().fit(X, y)

        draws = []
        scorer = make_per_record_scorer(
            lambda y, p: np.zeros(len(p)),
            bound=1.0,
            response_method=lambda model, X: draws.append(model.draw) or np.zeros(len(X)),
        )
        state = np.random.get_state()[1].tolist(), random.getstate()
        X = np.zeros((4, 1))
        first = total(Global(), rows_of(X, [0] * 4, 2), scorer)
        X[chunk_positions(4, 2)[0][0]] = 3
        second = total(Global(), rows_of(X, [0] * 4, 2), scorer)
        assert first == second
        one, other = draws[:2], draws[2:]
        assert one[0] != other[0]
        assert one[1] == other[1]
        assert (np.random.get_state()[1].tolist(), random.getstate()) == state

    def test_nothing_is_printed_warned_or_logged(self, capfd, caplog):
        class Talker(DummyClassifier):
            def fit(self, X, y):
                print("S3cr3t")
                print("S3cr3t", file=sys.stderr)
                warnings.warn("S3cr3t", stacklevel=2)
                logging.getLogger("talker").critical("S3cr3t")
                return super().fit(X, y)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search = DPGridSearchCV(Talker(), {"strategy": ["prior"]}, score_fraction=0.0, **ALL)
            search.fit(X, LABELS)
        assert not caught
        assert "S3cr3t" not in "".join(capfd.readouterr())
        assert not caplog.records
        logging.getLogger("talker").critical("loud again")
        assert len(caplog.records) == 1

    def test_private_estimators_are_charged_once(self):
        class Charger(DummyClassifier):
            def fit(self, X, y):
                charge_active_ledger(PrivacyGuarantee(epsilon=1.0), "inner")
                return super().fit(X, y)

        search = DPGridSearchCV(Charger(), {"strategy": ["prior"]}, **ALL, epsilon=0.5)
        with PrivacyLedger(epsilon=0.5) as ledger:
            search.fit(X, LABELS)
        assert [entry.label for entry in ledger.entries] == ["DPGridSearchCV of Charger"]

    @pytest.mark.slow
    @pytest.mark.parametrize("n_jobs", [None, 2])
    def test_our_own_private_estimators_are_charged_once(self, n_jobs):
        search = DPGridSearchCV(
            DPSparseGPRegressor(inducing_points=4), {"noise_variance": [0.1, 1.0]}, n_jobs=n_jobs
        )
        search.set_params(**ALL, loss_bound=9.0)
        with PrivacyLedger(epsilon=1.0) as ledger, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # default bounds of the regressor
            search.fit(X, X[:, 0])
        label = "DPGridSearchCV of DPSparseGPRegressor"
        assert [entry.label for entry in ledger.entries] == [label]

    def test_paid_before_a_value_is_read(self):
        class Untouchable:
            """Rows of a public shape whose values must not be read."""

            shape = (40, 2)

            def __len__(self):
                return 40

            def __getitem__(self, item):
                raise AssertionError("read")

            __array__ = __iter__ = __getitem__

        search = DPGridSearchCV(DummyClassifier(), {"strategy": ["prior"]}, **ALL)
        with PrivacyLedger(epsilon=0.5), pytest.raises(BudgetExceededError):
            search.fit(Untouchable(), Untouchable())


class TestRelease:
    def test_the_score_is_the_mean_over_models_and_rows(self):
        search = DPGridSearchCV(DecisionTreeClassifier(max_depth=2), {}, **ALL, **EXACT)
        search.fit(X, LABELS)
        hits = 0.0
        for chunk in chunk_positions(90, 4):
            model = DecisionTreeClassifier(max_depth=2).fit(X[chunk], LABELS[chunk])
            outside = np.setdiff1d(np.arange(90), chunk)
            hits += accuracy_score(LABELS[outside], model.predict(X[outside]), normalize=False)
        assert search.best_score_ == pytest.approx(hits / 270, abs=1e-9)

    def test_a_validation_part_of_its_own(self):
        search = DPGridSearchCV(DecisionTreeClassifier(max_depth=2), {}, **ALL, **EXACT)
        search.fit(X[:70], LABELS[:70], X_val=X[70:], y_val=LABELS[70:])
        scores = [
            DecisionTreeClassifier(max_depth=2)
            .fit(X[chunk], LABELS[chunk])
            .score(X[70:], LABELS[70:])
            for chunk in chunk_positions(70, 4)
        ]
        assert search.best_score_ == pytest.approx(np.mean(scores), abs=1e-9)

    @pytest.mark.parametrize("kind", [DPGridSearchCV, DPRandomizedSearchCV, DPBayesSearchCV])
    @pytest.mark.parametrize("mechanism", PrivateChoice.SELECTIONS)
    def test_the_better_wins_and_nothing_else_is_set(self, kind, mechanism):
        space = {"strategy": ["prior", "stratified", "uniform"]}
        constant = DummyClassifier(random_state=0)
        search = kind(constant, space, mechanism=mechanism, **ALL, **EXACT)
        search.fit(X, np.arange(90) % 10 > 0)
        assert {name for name in vars(search) if name.endswith("_")} == {
            "best_index_",
            "best_params_",
            "best_score_",
            "best_score_std_",
            "cv_results_",
            "multimetric_",
            "n_features_in_",
            "privacy_",
            "scorer_",
        }
        assert set(search.cv_results_) == {"params", "param_strategy"}
        assert search.best_params_ == search.cv_results_["params"][search.best_index_]
        assert search.best_params_["strategy"] == "prior"
        assert search.best_score_ == pytest.approx(0.9, abs=1e-6)
        for name in ("best_estimator_", "classes_", "feature_names_in_"):
            assert not hasattr(search, name)
        with pytest.raises(AttributeError):
            search.predict(X)

    @pytest.mark.parametrize("excess_bound", [None, 1.0, 0.05])
    def test_the_score_is_not_clipped(self, excess_bound):
        space = {"strategy": ["prior", "stratified", "uniform"]}
        options = {**ALL, **EXACT, "protect": Chunks(4, excess_bound=excess_bound)}
        search = DPGridSearchCV(DummyClassifier(random_state=0), space, **options)
        search.fit(X, np.arange(90) % 10 > 0)
        assert search.best_params_["strategy"] == "prior"
        assert search.best_score_ == pytest.approx(0.9, abs=1e-6)

    def test_no_score(self):
        search = DPGridSearchCV(DummyClassifier(), {}, **ALL, score_fraction=0).fit(X, LABELS)
        assert not hasattr(search, "best_score_")

    def test_gaussian_follows_its_own_scores(self):
        search = DPBayesSearchCV(
            DecisionTreeClassifier(random_state=0),
            {"max_depth": (1, 30)},
            mechanism="gaussian",
            n_iter=6,
            epsilon=1e5,
            **ALL,
        ).fit(X, LABELS)
        assert len(search.cv_results_["params"]) == 6
        scores = search.cv_results_["private_validation_score"]
        assert ((scores > 0.6) & (scores <= 1.0)).all()
        assert search.privacy_.protects == "training and validation records"
        assert search.privacy_.mu is not None

    def test_blind_bayes_spreads_n_iter_candidates(self):
        search = DPBayesSearchCV(Ridge(), {"alpha": (0.0, 1.0)}, n_iter=8, loss_bound=9.0, **ALL)
        search.fit(X, X[:, 0])
        alphas = np.sort([params["alpha"] for params in search.cv_results_["params"]])
        assert len(alphas) == 8
        assert np.diff(alphas).max() < 0.35

    def test_guarantee(self):
        search = DPGridSearchCV(DummyClassifier(), {}, **ALL, epsilon=0.7)
        promise = search.privacy_guarantee(90)
        assert without_numbers(search.fit(X, LABELS).privacy_) == promise
        assert search.privacy_.n_protected == 90
        assert (promise.epsilon, promise.delta, promise.status) == (0.7, 0.0, "proved")
        assert promise.protects == "training and validation records"
        assert "4 chunks" in promise.mechanism
        assert not any("public rows" in text for text in promise.assumptions)

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SeededNoiseWarning")
    def test_seeds_are_void_and_workers_change_nothing(self):
        space = {"max_depth": [1, 2, 3]}
        search = DPGridSearchCV(
            DecisionTreeClassifier(), space, random_state=3, score_fraction=0.1, **ALL
        )
        alone = search.fit(X, LABELS).best_score_
        assert search.privacy_.status == "void"
        assert search.set_params(n_jobs=2).fit(X, LABELS).best_score_ == alone

    @pytest.mark.parametrize("container", [pd.DataFrame, sparse.csr_matrix, np.ndarray.tolist])
    def test_containers(self, container):
        search = DPGridSearchCV(DecisionTreeClassifier(random_state=0), {}, **ALL, **EXACT)
        expected = search.fit(X, LABELS).best_score_
        assert expected > 0.7
        assert search.fit(container(X), LABELS.tolist()).best_score_ == expected

    def test_without_targets(self):
        scorer = make_per_record_scorer(
            lambda y, p: np.square(p).ravel(), bound=9.0, response_method="transform"
        )
        search = DPGridSearchCV(StandardScaler(), {"with_std": [True, False]}, scoring=scorer)
        search.set_params(**ALL, **EXACT).fit(X[:, :1])
        assert search.best_score_ > -3  # -9 where no chunk trains

    def test_weights_go_with_their_rows(self):
        y = np.array([0.0, 1.0] * 20)
        search = DPGridSearchCV(DummyRegressor(), {}, loss_bound=1.0, **ALL, **EXACT)
        half = search.fit(X[:40], y).best_score_
        # All weight on the zeros: every model answers 0 and loses 1 on each of the ones.
        only_zeros = search.fit(X[:40], y, sample_weight=1.0 - y + 1e-12).best_score_
        assert half == pytest.approx(-0.25, abs=0.05)
        assert only_zeros == pytest.approx(-0.5, abs=1e-6)

    def test_entries_that_do_not_go_with_the_rows_stay_as_they_are(self):
        class Noting(DummyRegressor):
            noted = []

            def fit(self, X, y, levels=None):
                self.noted.append(levels)
                return super().fit(X, y)

        search = DPGridSearchCV(Noting(), {}, loss_bound=1.0, **ALL)
        search.fit(X[:40], np.arange(40.0), levels=np.array([1.0, 2.0]))
        assert len(Noting.noted) >= 4
        assert {levels.dtype for levels in Noting.noted} == {np.dtype(np.float64)}

    def test_weights_of_another_length_cost_nothing(self):
        search = DPGridSearchCV(DummyRegressor(), {}, loss_bound=1.0, **ALL)
        refused = pytest.raises(ValueError, match=r"sample_weight must have one value .* 40 rows")
        with PrivacyLedger(epsilon=99.0, delta=0.1) as ledger, refused:
            search.fit(X[:40], np.arange(40.0), sample_weight=np.ones(39))
        assert not ledger.entries

    def test_weights_with_metadata_routing(self):
        y = np.array([0.0, 1.0] * 20)
        with config_context(enable_metadata_routing=True):
            model = DummyRegressor().set_fit_request(sample_weight=True)
            model.set_score_request(sample_weight=False)
            search = DPGridSearchCV(model, {}, loss_bound=1.0, **ALL, **EXACT)
            score = search.fit(X[:40], y, sample_weight=1.0 - y + 1e-12).best_score_
        assert score == pytest.approx(-0.5, abs=1e-6)

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
    def test_what_an_earlier_fit_has_set_is_gone(self):
        search = DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2).fit(X, LABELS)
        assert hasattr(search, "best_estimator_")
        search.set_params(cv=None, **ALL).fit(X, LABELS)
        assert not hasattr(search, "best_estimator_")
        assert not hasattr(search, "n_splits_")


class TestRefusals:
    @pytest.mark.parametrize(
        ("params", "match"),
        [
            ({"cv": 5}, "cv must be None"),
            ({"return_train_score": True}, "return_train_score"),
            ({"error_score": "raise"}, "error_score"),
            ({"protect": Chunks(91)}, "n_samples=90.*n_chunks=91"),
            ({"scoring": ["accuracy"]}, "several"),
            ({"scoring": "positive_likelihood_ratio"}, "balanced_accuracy"),
        ],
    )
    def test_options(self, params, match):
        search = DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, **{**ALL, **params})
        with (
            PrivacyLedger(epsilon=9.0) as ledger,
            pytest.raises((ValueError, UnboundedSensitivityError), match=match),
        ):
            search.fit(X, LABELS)
        assert not ledger.entries

    def test_groups(self):
        search = DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, **ALL)
        with pytest.raises(ValueError, match="at least one row, or group of rows, for each chunk"):
            search.fit(X, LABELS, groups=LABELS)  # two groups

    @pytest.mark.parametrize(
        ("estimator", "space", "match"),
        [
            (make_pipeline(StandardScaler(), Ridge(), memory="/nowhere"), {}, "memory"),
            (LogisticRegression(verbose=1), {}, "verbose"),
            (LogisticRegression(), {"verbose": [0, 1]}, "verbose"),
            (Writing(), {}, "allow_writing_files must be False"),
            (make_pipeline(Writing(False)), {"writing": [Writing(True)]}, "allow_writing_files"),
            (SVC(kernel="precomputed"), {}, "precomputed"),
            (SVC(), {"kernel": ["rbf", "precomputed"]}, "precomputed"),
        ],
    )
    def test_parts(self, estimator, space, match):
        with pytest.raises(ValueError, match=match):
            DPGridSearchCV(estimator, space, scoring="accuracy", **ALL).fit(X, LABELS)

    def test_a_part_that_writes_no_files(self):
        DPGridSearchCV(Writing(False), {}, scoring="accuracy", **ALL).fit(X, LABELS)

    @pytest.mark.parametrize(
        "mechanism", [Kusner2015(), Kusner2015Lipschitz(lipschitz=1.0, lambda_name="C")]
    )
    def test_kusner(self, mechanism):
        search = DPBayesSearchCV(
            LogisticRegression(), {"C": (0.1, 1.0)}, mechanism=mechanism, **ALL
        )
        with pytest.raises(ValueError, match="Kusner et al"):
            search.privacy_guarantee()
        with pytest.raises(ValueError, match="Kusner et al"):
            search.fit(X, LABELS)

    @pytest.mark.parametrize(
        ("rows", "match"),
        [
            ({"X": X, "y": None}, "requires y"),
            ({"X": X[:, 0], "y": LABELS}, "2D"),
            ({"X": X[:, :0], "y": LABELS}, "0 feature"),
            ({"X": X.astype(complex), "y": LABELS}, "Complex"),
            ({"X": X, "y": LABELS, "y_val": LABELS}, "X_val"),
            ({"X": X, "y": LABELS, "X_val": X[:, :1], "y_val": LABELS}, "columns"),
        ],
    )
    def test_schema(self, rows, match):
        with pytest.raises(ValueError, match=match):
            DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, **ALL).fit(**rows)

    @pytest.mark.parametrize("groups", [None, np.arange(90)])
    def test_chunks_of_few_rows_are_warned_of_before_the_charge(self, groups):
        params = {} if groups is None else {"groups": groups}
        search = DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, protect=Chunks(19))
        with PrivacyLedger(epsilon=9.0, delta=1e-5) as ledger, warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(SkdpboWarning, match=r"n_chunks=19 cuts 90 .* into chunks of 4"):
                search.fit(X, LABELS, **params)
            assert not ledger.entries
            search.set_params(protect=Chunks(18), scoring="accuracy").fit(X, LABELS, **params)

    def test_some_bad_values_cost_the_worst_score(self):
        search = DPGridSearchCV(LogisticRegression(), {"C": [-1.0, 1.0]}, **ALL, **EXACT)
        with pytest.warns(DryRunWarning, match="'C'"):
            search.fit(X, LABELS)
        assert search.best_params_ == {"C": 1.0}


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SeededNoiseWarning")
def test_a_search_inside_a_search():
    inner = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2]}, cv=2)
    search = DPGridSearchCV(inner, {"estimator__min_samples_leaf": [1, 3]}, **ALL, **EXACT)
    assert search.fit(X, LABELS).best_score_ > 0.7
