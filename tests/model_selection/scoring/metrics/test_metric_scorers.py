"""Scorers of ratios and pairs: scikit-learn's values, bounded sums, refusals before any charge."""

import math
import pickle
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom
from sklearn import metrics
from sklearn.base import BaseEstimator
from sklearn.metrics import get_scorer, make_scorer

from _support.internals import (
    Matthews,
    MixedRowsError,
    NoisySums,
    PublicTargets,
    assign_metrics,
    laplace_std,
    make_per_record_scorer,
    public_counts,
    ratio_ends,
    resolve_scorer,
    score_std,
    try_scorer,
)
from _support.scorings import installed, scoring_of
from skdpbo.exceptions import UnboundedSensitivityError
from skdpbo.mechanisms import noise_source

LABELS = ["f1", "precision", "recall", "jaccard", "matthews_corrcoef", "balanced_accuracy"]
D2 = installed(["d2_log_loss_score", "d2_brier_score"])
BINARY = [*LABELS, "roc_auc", *D2]
AVERAGED = [
    f"{m}_{a}" for m in ("f1", "precision", "recall", "jaccard") for a in ("macro", "weighted")
]
RANKED = ["roc_auc_ovr", "roc_auc_ovo", "roc_auc_ovr_weighted", "roc_auc_ovo_weighted"]
MANY = [*AVERAGED, *RANKED, "balanced_accuracy", "matthews_corrcoef", *D2]
MANY += ["f1_micro", "jaccard_micro", "top_k_accuracy"]
REGRESSION = ["r2", "d2_absolute_error_score", "neg_root_mean_squared_error"]


class Table(BaseEstimator):
    """A fitted classifier whose answer for row i is row X[i, 0] of a table."""

    _estimator_type = "classifier"

    def __init__(self, probabilities, classes):
        self.probabilities, self.classes = probabilities, classes
        self.classes_ = np.asarray(classes)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        return tags

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return self.probabilities[np.asarray(X)[:, 0].astype(int)]

    def predict(self, X):
        return self.classes_[np.nan_to_num(self.predict_proba(X)).argmax(axis=1)]


class Line(BaseEstimator):
    _estimator_type = "regressor"

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return np.asarray(X)[:, 0]


def classification(n_classes, seed=0, n=300, classes=None):
    """Return (estimator, X, y): a classifier that is right more often than not."""
    rng = np.random.default_rng(seed)
    classes = np.arange(n_classes) if classes is None else np.asarray(classes)
    codes = rng.choice(
        n_classes, size=n, p=np.arange(1, n_classes + 1) / (n_classes**2 + n_classes) * 2
    )
    probabilities = (
        rng.dirichlet(np.ones(n_classes), size=n).round(2) + np.eye(n_classes)[codes] * 0.3
    )
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return Table(probabilities, classes), np.arange(n)[:, None], classes[codes]


def scorer_of(scoring, estimator, y, **how):
    how.setdefault("n_classes", len(np.unique(y)) if hasattr(estimator, "classes_") else None)
    return resolve_scorer(scoring, estimator, public=PublicTargets(y), **how)


def exact_value(scorer, sums, n):
    if hasattr(scorer, "value_of"):
        return scorer.value_of(np.array(sums[1:], float), n)
    return scorer.score_from_units(sums[0], n)


class TestValues:
    """Without noise the released sums give scikit-learn's metric."""

    @pytest.mark.parametrize("name", BINARY + AVERAGED)
    def test_two_classes(self, name):
        estimator, X, y = classification(2)
        scorer = scorer_of(
            scoring_of(name), estimator, y, loss_bound=50.0 if "log" in name else None
        )
        sums = scorer.exact_sums(scorer.record_outcomes(estimator, X, y))
        expected = get_scorer(scoring_of(name))(estimator, X, y)
        assert exact_value(scorer, sums, len(y)) == pytest.approx(expected, abs=2e-5)
        assert scorer(estimator, X, y) == expected

    @pytest.mark.parametrize("name", MANY)
    def test_four_classes(self, name):
        estimator, X, y = classification(4, classes=list("abcd"))
        scorer = scorer_of(
            scoring_of(name), estimator, y, loss_bound=50.0 if "log" in name else None
        )
        sums = scorer.exact_sums(scorer.record_outcomes(estimator, X, y))
        expected = get_scorer(scoring_of(name))(estimator, X, y)
        assert exact_value(scorer, sums, len(y)) == pytest.approx(expected, abs=2e-5)

    @pytest.mark.parametrize(
        "scoring",
        [
            make_scorer(metrics.fbeta_score, beta=2),
            make_scorer(metrics.fbeta_score, beta=0.5, pos_label=0),
            make_scorer(metrics.f1_score, pos_label=0, zero_division=0),
            make_scorer(metrics.balanced_accuracy_score, adjusted=True),
            make_scorer(metrics.roc_auc_score, response_method="predict_proba"),
        ],
        ids=["f2", "f_half", "f1_other_class", "adjusted", "auc"],
    )
    def test_made_scorers(self, scoring):
        estimator, X, y = classification(2)
        scorer = scorer_of(scoring, estimator, y)
        sums = scorer.exact_sums(scorer.record_outcomes(estimator, X, y))
        expected = scoring(estimator, X, y)
        assert exact_value(scorer, sums, len(y)) == pytest.approx(expected, abs=1e-9)

    @pytest.mark.parametrize("name", REGRESSION)
    def test_regression(self, name):
        rng = np.random.default_rng(1)
        X = rng.normal(3.0, 1.0, size=(200, 1))
        y = X[:, 0] + 0.3 * rng.normal(size=200)
        scorer = scorer_of(scoring_of(name), Line(), y, loss_bound=30.0)
        sums = scorer.exact_sums(scorer.record_outcomes(Line(), X, y))
        expected = get_scorer(name)(Line(), X, y)
        assert exact_value(scorer, sums, 200) == pytest.approx(expected, abs=1e-4)


class TestChoice:
    @pytest.mark.parametrize("name", ["roc_auc", "recall", "neg_root_mean_squared_error"])
    def test_smallest_total_is_the_best_metric(self, name):
        if name.startswith("neg"):
            X = np.linspace(0, 1, 80)[:, None]
            y = np.sin(4 * X[:, 0])
            models, rows = [Line()] * 6, [X * k / 3 for k in range(6)]
            scorer = scorer_of(scoring_of(name), Line(), y, loss_bound=30.0)
        else:
            _, X, y = classification(2)
            models = [classification(2, seed)[0] for seed in range(12)]
            rows = [X] * 12
            scorer = scorer_of(scoring_of(name), models[0], y)
        totals, values = [], []
        for model, X in zip(models, rows, strict=True):
            totals.append(scorer.exact_sums(scorer.record_outcomes(model, X, y))[0])
            values.append(scorer(model, X, y))
        assert np.argmin(totals) == np.argmax(values)

    @pytest.mark.parametrize("name", ["f1", "jaccard", "balanced_accuracy", "recall_macro"])
    def test_informed_by_the_best_score_it_ranks_the_best_first(self, name):
        _, X, y = classification(2)
        models = [classification(2, seed)[0] for seed in range(12)]
        scorer = scorer_of(scoring_of(name), models[0], y)
        values = [scorer(model, X, y) for model in models]
        informed = scorer.informed_by(max(values))
        totals = [informed.exact_sums(informed.record_outcomes(m, X, y))[0] for m in models]
        assert np.argmin(totals) == np.argmax(values)

    @pytest.mark.parametrize("public_score", [0.0, 0.62, 1.0, math.nan])
    @pytest.mark.parametrize("n_classes", [2, 4])
    def test_an_expected_auc_changes_neither_the_auc_nor_the_choice(self, public_score, n_classes):
        estimator, X, y = classification(n_classes)
        name = "roc_auc" if n_classes == 2 else "roc_auc_ovr"
        scorer = scorer_of(name, estimator, y)
        informed = scorer.informed_by(public_score)
        outcomes = scorer.record_outcomes(estimator, X, y)
        sums = informed.exact_sums(outcomes)
        assert exact_value(informed, sums, len(y)) == pytest.approx(scorer(estimator, X, y))
        assert sums[0] == scorer.exact_sums(outcomes)[0]

    def test_wrong_pairs_count_by_the_number_of_pairs_of_their_classes(self):
        """The choice is by the average AUC: few pairs of a rare class are as much as many."""
        counts = np.array([30, 90, 180])
        estimator, *_ = classification(3)
        scorer = scorer_of("roc_auc_ovr", estimator, np.repeat(estimator.classes, counts))
        of_class = scorer.weights * counts * (counts.sum() - counts)
        assert np.ptp(of_class) <= 0.001 * of_class.mean()

    def test_an_expected_auc_spares_the_noise_of_a_rare_class(self):
        y = (np.arange(5000) % 12 == 0).astype(int)
        # Two fifths of the pairs are wrong, and the count of 417 positives is noisy.
        scorer = scorer_of("roc_auc", classification(2)[0], y).informed_by(0.6)
        pairs = int(y.sum() * (1 - y).sum())
        sums = (0, 8 * (pairs * 4 // 5) - 6 * pairs, int(y.sum()))
        stds = [
            scorer.release_score(sums, Fraction(1, 10), 5000, noise_source(seed)).std
            for seed in range(20)
        ]
        assert np.median(stds) < 0.055  # .085 if all of the wrong pairs are divided by the count

    @pytest.mark.parametrize(("epsilon", "level"), [(1e9, 0.8), (1e-9, 0.4)])
    def test_noise_lowers_the_level_of_f1_to_a_half(self, epsilon, level):
        estimator, _, y = classification(2)
        scorer = scorer_of("f1", estimator, y).informed_by(0.8)
        assert scorer.damped(epsilon, 20, 300).level == pytest.approx(level, rel=1e-6)
        assert scorer.damped(epsilon, 20, 300).choice_sensitivity(300) == scorer.units
        assert scorer.damped(epsilon, 1, 300).level == 0.8

    @pytest.mark.parametrize("name", ["recall", "precision", "roc_auc", "accuracy"])
    def test_noise_leaves_other_metrics_alone(self, name):
        estimator, _, y = classification(2)
        scorer = scorer_of(name, estimator, y)
        informed = scorer.informed_by(math.nan, (1e-9, 20, 300), [np.ones((2, 3))] * 20)
        assert all(vars(informed)[key] is value for key, value in vars(scorer).items())

    @pytest.mark.parametrize("name", ["f1", "jaccard"])
    def test_predicted_positives_are_rewarded_where_it_serves_the_metric(self, name):
        """10 found of 100, and 40 found: with much noise the second stands out by its number."""
        y = np.repeat([0, 1], [1900, 100])
        scorer = scorer_of(scoring_of(name), classification(2)[0], y).informed_by(0.3)
        more_is_better = [np.array([[1880, 20, 0], [90, 10, 0]])] * 9
        more_is_better += [np.array([[1790, 110, 0], [60, 40, 0]]), None]
        rewarded = scorer.damped(0.1, 11, 2000, more_is_better)
        assert rewarded.level < 0
        costs = rewarded.costs
        assert costs.max() == rewarded.choice_sensitivity(2000) == rewarded.units
        assert costs.min() == 0
        assert costs[0, 1] == 0 < costs[0, 0]
        assert scorer.damped(100.0, 11, 2000, more_is_better).level > 0
        more_is_worse = [np.array([[1880, 20, 0], [60, 40, 0]])] * 5
        more_is_worse += [np.array([[0, 1900, 0], [0, 100, 0]])] * 5
        assert scorer.damped(0.1, 10, 2000, more_is_worse).level > 0

    def test_counts_of_public_scores(self):
        estimator, X, y = classification(2)
        scorer = scorer_of("f1", estimator, y)
        folds = [scorer(estimator, X[part], y[part]) for part in (slice(0, 90), slice(90, None))]
        (counts, missing) = public_counts([*folds, folds[0], math.nan], 2)
        assert missing is None
        assert counts.sum() == len(y)
        assert (public_counts(pickle.loads(pickle.dumps(folds)), 2)[0] == counts).all()
        plain = scorer(estimator, X, y, sample_weight=np.ones(len(y)))
        assert plain == pytest.approx(scorer(estimator, X, y))
        assert public_counts([plain], 1) == [None]

    def test_unknown_public_score_keeps_the_level(self):
        estimator, _, y = classification(2)
        scorer = scorer_of("f1", estimator, y)
        assert (scorer.informed_by(math.nan).costs == scorer.costs).all()

    def test_total_is_that_of_the_losses(self):
        for name in (*LABELS, "d2_log_loss_score"):
            estimator, X, y = classification(2)
            scorer = scorer_of(scoring_of(name), estimator, y)
            outcomes = scorer.record_outcomes(estimator, X, y)
            losses = [scorer.exact_sums(outcomes[i : i + 1])[0] for i in range(len(y))]
            assert sum(losses) == scorer.exact_sums(outcomes)[0]
            assert min(losses) >= 0
            assert max(losses) <= scorer.units


BAD_LABELS = [None, "x", float("nan"), 7, (1, 2), b"1", True]


class TestNoiseBeyondTheRange:
    def test_more_predictions_than_records_have_no_correlation(self):
        true_positives, false_positives, false_negatives = np.array([[1, 0], [9, 9], [0, 1]])
        assert Matthews().score(true_positives, false_positives, false_negatives, "macro") == 0.0

    def test_negative_counts_have_the_deviation_of_none(self):
        # Around counts of -1000 noise of 70 would move nothing: a deviation of 0.
        estimator, _, y = classification(2)
        scorer = scorer_of("f1", estimator, y)
        sums, epsilon = [0, -1000, -1000, -1000], Fraction(1, 25)
        assert scorer.release_score(sums, epsilon, len(y), noise_source(0)).std > 0.1

    @pytest.mark.parametrize("far", [-1e9, 1e9])
    def test_sums_of_targets_reach_the_ends_that_noisy_ones_are_clipped_to(self, far):
        X = np.linspace(-1, 1, 30)[:, None]
        scorer = scorer_of("r2", Line(), X[:, 0], loss_bound=2.0)
        outcomes = scorer.record_outcomes(Line(), X, np.full(30, far))
        ends = [group.ends for group in scorer.sum_groups(30)]
        assert scorer.exact_sums(outcomes)[1:] == (ends[0][1], ends[1][1], ends[2][int(far > 0)])
        outcomes = scorer.record_outcomes(Line(), np.zeros((30, 1)), np.zeros(30))
        assert scorer.exact_sums(outcomes)[1:] == (ends[0][0], ends[1][0], sum(ends[2]))

    @pytest.mark.parametrize("name", D2)
    def test_sums_of_classes_reach_the_ends_that_noisy_ones_are_clipped_to(self, name):
        estimator, X, y = classification(3)
        scorer = scorer_of(scoring_of(name), estimator, y)
        for label in np.unique(y):
            outcomes = np.array(scorer.record_outcomes(estimator, X, np.full_like(y, label)))
            _, _, *counts = scorer.exact_sums(outcomes)
            assert {min(counts), max(counts)} == {*scorer.sum_groups(len(y))[1].ends}
        outcomes = scorer.record_outcomes(estimator, X, np.full(len(y), np.nan))
        assert scorer.exact_sums(outcomes)[1] == scorer.sum_groups(len(y))[0].ends[1]

    @pytest.mark.parametrize("name", ["roc_auc_ovr", "roc_auc_ovo"])
    def test_an_average_of_areas_is_unbiased(self, name):
        # Areas beyond 1 are not cut before they are averaged, so that errors cancel.
        estimator, X, y = classification(4)
        scorer = scorer_of(name, estimator, y)
        exact = np.array(scorer.exact_sums(scorer.record_outcomes(estimator, X, y))[1:], float)
        noise = np.zeros_like(exact)
        noise[0] = 4 * scorer.sum_groups(len(y))[0].sensitivity
        values = [scorer.value_of(sums, len(y)) for sums in (exact, exact + noise, exact - noise)]
        assert abs(values[1] - values[0]) > 0.02
        assert values[1] + values[2] == pytest.approx(2 * values[0])


class TestNeighbours:
    """A replaced record, however bad, moves sums by at most what is stated, and by no less."""

    @pytest.mark.quick_cases(4)
    @pytest.mark.parametrize("name", [*BINARY, *MANY])
    def test_bounded(self, name):
        n_classes = 2 if name in BINARY else 3
        estimator, X, y = classification(n_classes, n=40)
        scorer = scorer_of(scoring_of(name), estimator, y)
        n, rng = len(y), np.random.default_rng(5)
        most = {}  # share of what is stated, by release
        for trial in range(150):
            left, right = y.astype(object), y.astype(object)
            table = estimator.probabilities.copy()
            scored = [table, table.copy()]
            for labels, scores in ((left, scored[0]), (right, scored[1])):
                bad = rng.random() < 0.3
                labels[3] = BAD_LABELS[trial % 7] if bad else rng.choice(estimator.classes)
                scores[3] = np.nan if rng.random() < 0.2 else rng.dirichlet([0.3] * n_classes)
            sums = [
                self.sums(scorer, Table(scores, estimator.classes), X, labels)
                for labels, scores in ((left, scored[0]), (right, scored[1]))
            ]
            moved = {"choice": abs(sums[0][0] - sums[1][0]) / scorer.choice_sensitivity(n)}
            if hasattr(scorer, "sum_groups"):
                start = 1
                for group in scorer.sum_groups(n):
                    change = np.subtract(*(s[start : start + group.size] for s in sums))
                    moved[start] = np.abs(change).sum() / group.sensitivity
                    # That of Gaussian noise, but for the rounding of this norm.
                    assert np.linalg.norm(change) <= group.l2_sensitivity * (1 + 1e-12)
                    start += group.size
                assert start == len(sums[0])
                assert sum(group.share for group in scorer.sum_groups(n)) == 1
            assert max(moved.values()) <= 1
            most = {release: max(most.get(release, 0), moved[release]) for release in moved}
        # More than a record can do would be noise for nothing. Pairs are counted with a margin.
        assert "roc_auc" in name or min(most.values()) == 1

    @staticmethod
    def sums(scorer, estimator, X, y):
        return scorer.exact_sums(np.array(scorer.record_outcomes(estimator, X, y)))

    @pytest.mark.parametrize("name", REGRESSION[:2])
    def test_regression_bounded(self, name):
        X = np.linspace(-1, 1, 30)[:, None]
        scorer = scorer_of(scoring_of(name), Line(), X[:, 0], loss_bound=2.0)
        zoo = [math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0, 0.3, -1.0, None, "x"]
        all_sums = []
        for value in zoo:
            y = X[:, 0].astype(object)
            y[4] = value
            all_sums.append(np.array(self.sums(scorer, Line(), X, y)))
        for sums in all_sums:
            for other in all_sums:
                assert (np.abs(sums - other) <= scorer.units).all()

    @pytest.mark.parametrize("name", [*BINARY, *MANY, *REGRESSION])
    def test_worst_outcome_fits_among_the_others(self, name):
        if name in REGRESSION:
            X = np.linspace(-1, 1, 30)[:, None]
            estimator, y = Line(), X[:, 0]
            scorer = scorer_of(scoring_of(name), estimator, y, loss_bound=2.0)
        else:
            estimator, X, y = classification(2 if name in BINARY else 3, n=30)
            scorer = scorer_of(scoring_of(name), estimator, y)
        outcomes = np.array(scorer.record_outcomes(estimator, X, y))
        before = scorer.exact_sums(outcomes)
        outcomes[3] = scorer.worst_outcome
        after = scorer.exact_sums(outcomes)
        assert before[0] <= after[0] <= before[0] + scorer.choice_sensitivity(30)
        assert all(type(value) is int for value in after)


class TestScore:
    def test_law_of_the_noise(self):
        for epsilon, sensitivity in ((1.0, 1), (0.1, 3), (5.0, 1), (700.0, 1)):
            p = math.exp(-epsilon / sensitivity)
            expected = math.sqrt(2 * p) / (1 - p)
            assert laplace_std(epsilon, sensitivity) == pytest.approx(expected, rel=1e-9)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "name", ["f1", "roc_auc", "balanced_accuracy", "accuracy", "d2_log_loss_score"]
    )
    def test_stated_deviation_is_that_of_the_releases(self, name):
        """400 releases: their deviation is within 20 %, five standard errors, of the stated one."""
        estimator, X, y = classification(2, n=2000)
        scorer = scorer_of(scoring_of(name), estimator, y)
        sums = scorer.exact_sums(scorer.record_outcomes(estimator, X, y))
        source = noise_source(3)
        released = [scorer.release_score(sums, Fraction(1, 2), 2000, source) for _ in range(400)]
        deviation = np.std([score.value for score in released])
        assert np.median([score.std for score in released]) == pytest.approx(deviation, rel=0.2)

    @pytest.mark.quick_cases(7)
    @pytest.mark.parametrize("name", [*BINARY, *MANY])
    def test_stays_in_its_range_with_hardly_any_budget(self, name):
        estimator, X, y = classification(2 if name in BINARY else 3, n=50)
        scorer = scorer_of(scoring_of(name), estimator, y)
        sums = scorer.exact_sums(scorer.record_outcomes(estimator, X, y))
        # The squares of the noise of 1e-100 are no floats.
        for seed, epsilon in enumerate([Fraction(1, 1000)] * 20 + [Fraction(1, 10**100)] * 2):
            assert math.isfinite(scorer.expected_noise(epsilon, 50))
            score = scorer.release_score(sums, epsilon, 50, noise_source(seed))
            lowest = -1.0 if "matthews" in name or name.startswith("d2") else 0.0
            assert lowest <= score.value <= 1.0
            assert math.isfinite(score.std)
            assert score.std >= 0

    @pytest.mark.parametrize("epsilon", [Fraction(1, 5000), Fraction(1, 10**100)])
    @pytest.mark.parametrize("name", ["r2", *D2])
    def test_two_deviations_cover_where_all_is_noise(self, name, epsilon):
        """At least .95 of 200 releases; a share of .99 fails with a probability of 1e-6 at most.

        Around sums that no records have, fresh noise moves hardly any score: .8 of them.
        """
        estimator, X, y = classification(2, n=300)
        if name == "r2":
            y = np.sin(np.arange(300.0))
            estimator, X = Line(), y[:, None] + 0.3 * np.cos(5 * y)[:, None]
        scorer = scorer_of(scoring_of(name), estimator, y, loss_bound=4.0)
        sums = scorer.exact_sums(scorer.record_outcomes(estimator, X, y))
        exact, source = exact_value(scorer, sums, 300), noise_source(3)
        released = [scorer.release_score(sums, epsilon, 300, source) for _ in range(200)]
        near = [abs(score.value - exact) <= 2 * score.std for score in released]
        assert sum(near) >= binom.ppf(1e-6, 200, 0.99)

    def test_two_deviations_cover_a_spread_that_noise_enlarges(self):
        """At least .99 of 200 releases, as `test_two_deviations_cover_where_all_is_noise`.

        Planted: the deviation of fresh noise around the released sums.
        """
        y = np.sin(np.arange(1000.0))
        scorer = scorer_of("r2", Line(), y, loss_bound=1.5)
        sums = scorer.exact_sums(scorer.record_outcomes(Line(), np.zeros((1000, 1)), y))
        least, source, budget = binom.ppf(1e-6, 200, 0.99), noise_source(5), Fraction(1, 20)

        def covered():
            released = [scorer.release_score(sums, budget, 1000, source) for _ in range(200)]
            return sum(abs(score.value) <= 2 * score.std for score in released)

        assert abs(exact_value(scorer, sums, 1000)) < 1e-3
        assert covered() >= least
        scorer._released_std = lambda score, noisy, n: score_std(
            scorer._score_of(n, noisy.std), noisy
        )
        assert covered() < least

    def test_variance_of_the_noise_is_taken_off_squared_deviations(self):
        scorer = scorer_of("r2", Line(), np.sin(np.arange(1000.0)), loss_bound=1.5)
        n_units = 1000 * scorer.units
        std = np.array([0.0, 0.0, 0.05 * n_units])
        for deviations, left in ((0.13, 0.12), (-0.13, 0.12), (0.05, 0.0), (0.01, 0.0)):
            sums = np.array([0.1, 0.3, deviations]) * n_units
            expected = 1 - 0.1 / (0.3 - 4 * left**2)
            assert scorer._score_of(1000, std)(sums) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("numerator", "denominator", "expected"),
        [
            ((3.0, 0.0), (4.0, 0.0), (0.75, 0.75)),
            ((0.0, 0.0), (4.0, 1.0), (0.0, 0.0)),
            ((4.0, 1.0), (4.0, 0.0), (0.5, 1.5)),
            ((4.0, 0.0), (4.0, 1.0), (2 / 3, 2.0)),
            ((6.0, 1.0), (4.0, 1.0), (2 - 2 / math.sqrt(3), 2 + 2 / math.sqrt(3))),
            ((4.0, 0.0), (2.0, 1.0), (1.0, math.inf)),
            ((1.0, 1.0), (1.0, 1.0), (0.0, math.inf)),
        ],
    )
    def test_ends_of_a_ratio(self, numerator, denominator, expected):
        assert ratio_ends(numerator, denominator) == pytest.approx(expected)
        for q in expected:  # where finite and above 0: N - q D is two deviations away from 0
            if 0 < q < math.inf:
                difference = abs(numerator[0] - q * denominator[0])
                noise = math.hypot(numerator[1], q * denominator[1])
                assert difference == pytest.approx(2 * noise)

    def test_no_noise_no_deviation(self):
        noisy = NoisySums(np.array([3.0, 4.0]), np.zeros(2))
        assert score_std(lambda sums: sums[..., 0] / sums[..., 1], noisy) == 0.0


class TestRefusals:
    @pytest.mark.parametrize("name", ["roc_auc", "f1", "balanced_accuracy", "d2_log_loss_score"])
    def test_one_public_class(self, name):
        estimator, _, y = classification(2)
        with pytest.raises(ValueError, match="at least two classes among the public rows, found 1"):
            scorer_of(scoring_of(name), estimator, np.zeros_like(y))

    @pytest.mark.parametrize(("name", "instead"), [("roc_auc", "roc_auc_ovr"), ("f1", "f1_macro")])
    def test_three_classes_with_a_binary_metric(self, name, instead):
        estimator, _, y = classification(3)
        with pytest.raises(ValueError, match=f"for two classes.*{instead}"):
            scorer_of(scoring_of(name), estimator, y)

    def test_positive_label_that_is_not_there(self):
        estimator, _, y = classification(2, classes=["no", "yes"])
        with pytest.raises(ValueError, match="pos_label=1 is not a class of the public targets"):
            scorer_of("f1", estimator, y)

    @pytest.mark.parametrize(
        ("scoring", "message"),
        [
            (make_scorer(metrics.f1_score, labels=[1]), "labels of 'f1_score' is not supported"),
            (make_scorer(metrics.roc_auc_score, max_fpr=0.1), "max_fpr of 'roc_auc_score'"),
            (make_scorer(metrics.f1_score, greater_is_better=False), "greater is better"),
            ("f1_samples", "average=.samples. is not supported. Use make_per_record_scorer"),
            (make_scorer(metrics.f1_score, average="x"), "average='x' is .* Use 'macro'"),
        ],
        ids=["labels", "max_fpr", "sign", "samples", "average"],
    )
    def test_options(self, scoring, message):
        estimator, _, y = classification(2)
        with pytest.raises(UnboundedSensitivityError, match=message):
            scorer_of(scoring, estimator, y)

    @pytest.mark.parametrize(
        "name", ["roc_auc", "f1", "balanced_accuracy", "r2", "d2_log_loss_score"]
    )
    def test_without_public_rows(self, name):
        with pytest.raises(UnboundedSensitivityError, match="needs public rows"):
            resolve_scorer(scoring_of(name), None, 1.0)

    @pytest.mark.parametrize(
        ("name", "bound"),
        [("neg_root_mean_squared_error", 1.0), ("f1_micro", None), ("top_k_accuracy", None)],
    )
    def test_without_public_rows_where_none_is_needed(self, name, bound):
        scorer = resolve_scorer(name, None, bound)
        assert scorer.exact_sums(np.array([1, 2])) == (3,)  # of losses of records

    @pytest.mark.parametrize("name", ["f1", "roc_auc", "balanced_accuracy", "f1_micro"])
    def test_bound_of_a_fixed_range(self, name):
        estimator, _, y = classification(2)
        with pytest.raises(ValueError, match="loss_bound does not apply to"):
            scorer_of(name, estimator, y, loss_bound=1.0)

    @pytest.mark.parametrize(
        ("name", "instead"),
        [
            ("average_precision", "'roc_auc'"),
            ("explained_variance", "'r2'"),
            ("neg_median_absolute_error", "neg_mean_absolute_error"),
            ("neg_max_error", "neg_mean_squared_error"),
            ("positive_likelihood_ratio", "balanced_accuracy"),
        ],
    )
    def test_reasons_name_the_nearest_metric(self, name, instead):
        estimator, _, y = classification(2)
        with pytest.raises(UnboundedSensitivityError, match=instead):
            scorer_of(scoring_of(name), estimator, y)

    @pytest.mark.parametrize("name", ["roc_auc", "f1"])
    def test_records_have_no_losses(self, name):
        estimator, X, y = classification(2)
        scorer = scorer_of(name, estimator, y)
        with pytest.raises(UnboundedSensitivityError, match=f"'{name}' is no mean of losses"):
            scorer.record_losses(estimator, X, y)


def zero_one(y_true, y_pred):
    return (y_true != y_pred).astype(float)


class TestClassWeight:
    def test_scaled_so_that_the_largest_is_one(self):
        estimator, X, y = classification(3)
        scorer = make_per_record_scorer(zero_one, bound=1.0, class_weight={0: 6, 1: 3, 2: 1.5})
        wrong = estimator.predict(X) != y
        expected = wrong * np.array([1.0, 0.5, 0.25])[y]
        assert scorer(estimator, X, y) == pytest.approx(-expected.mean())
        losses = scorer.record_losses(estimator, X, y)
        assert losses.tolist() == np.rint(expected * scorer.units).tolist()

    def test_labels_that_are_not_listed_have_the_largest_weight(self):
        estimator, X, y = classification(2, classes=["a", "b"])
        scorer = make_per_record_scorer(zero_one, bound=1.0, class_weight={"a": 0.5})
        expected = (estimator.predict(X) != y) * np.array([1.0, 1.0])[(y == "a").astype(int)]
        assert scorer(estimator, X, y) == pytest.approx(-expected.mean())
        odd = y.astype(object)
        odd[3] = None
        assert scorer.record_losses(estimator, X, odd)[3] in (0, scorer.units)

    @pytest.mark.parametrize("weights", ["balanced", [1, 2], {}])
    def test_only_a_dict(self, weights):
        with pytest.raises(TypeError, match="class_weight must be a dict of public weights"):
            make_per_record_scorer(zero_one, bound=1.0, class_weight=weights)

    @pytest.mark.parametrize("weight", [0, -1.0, math.nan, math.inf])
    def test_only_positive_weights(self, weight):
        with pytest.raises(ValueError, match="class_weight must be positive"):
            make_per_record_scorer(zero_one, bound=1.0, class_weight={0: 1.0, 1: weight})


def counts_classes(y_true, y_pred):
    """A loss that looks at other records: weights from the class counts of its batch."""
    return zero_one(y_true, y_pred) / np.bincount(y_true)[y_true]


class TestMixedLosses:
    def test_a_loss_that_counts_classes_is_refused_on_public_rows(self):
        estimator, X, y = classification(2)
        scorer = make_per_record_scorer(counts_classes, bound=1.0)
        with pytest.raises(MixedRowsError, match="another for a record by itself"):
            try_scorer(estimator, scorer, X[:40], y[:40])

    def test_a_loss_of_single_records_is_not(self):
        estimator, X, y = classification(2)
        try_scorer(estimator, make_per_record_scorer(zero_one, bound=1.0), X[:40], y[:40])


class TestLossBounds:
    """One bound for each metric, in a dict."""

    def searcher(self, **how):
        how = {"scoring": ["neg_mean_squared_error", "neg_mean_absolute_error"], **how}
        defaults = {"refit": "neg_mean_squared_error", "error_score": 0.0}
        return SimpleNamespace(estimator=Line(), **{**defaults, **how})

    def assigned(self, searcher):
        known = SimpleNamespace(_scorers=dict.fromkeys(searcher.scoring))
        return assign_metrics(searcher, np.arange(5.0), lambda: (known, None))

    def test_each_its_own(self):
        bounds = {"neg_mean_squared_error": 4.0, "neg_mean_absolute_error": 2.0}
        scorer, public, metric = self.assigned(self.searcher(loss_bound=bounds))
        assert (scorer.bound, metric) == (4.0, "neg_mean_squared_error")
        assert public._scorers["neg_mean_absolute_error"].bound == 2.0

    def test_unknown_metric(self):
        with pytest.raises(ValueError, match="loss_bound must have metrics as keys"):
            self.assigned(self.searcher(loss_bound={"r2": 4.0}))

    def test_single_metric(self):
        bounds = {"neg_mean_squared_error": 4.0}
        assert resolve_scorer("neg_mean_squared_error", Line(), bounds).bound == 4.0
        for scoring in ("neg_mean_absolute_error", "r2", None):
            with pytest.raises(ValueError, match="loss_bound must have metrics as keys"):
                resolve_scorer(scoring, Line(), bounds)
