"""Searches by metrics of pairs and ratios: scores, statements, refusals before any charge."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import fbeta_score, get_scorer, make_scorer
from sklearn.tree import DecisionTreeClassifier

from _support.internals import ConfusionScorer
from _support.scorings import scoring_of
from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.exceptions import NoisyScoreWarning, UnboundedSensitivityError
from skdpbo.privacy import PrivacyLedger

pytestmark = pytest.mark.usefixtures("few_public_candidates")

X, Y = make_classification(1600, n_informative=5, weights=[0.8], flip_y=0.05, random_state=0)
PUBLIC, PROTECTED = slice(0, 800), slice(800, 1600)
TREE = DecisionTreeClassifier(random_state=0)
DEPTHS = {"max_depth": [1, 2, 4, 8]}
C = {"C": (1e-3, 1e2, "log-uniform")}


def fitted(search, X=X, y=Y):
    return search.fit(X[PUBLIC], y[PUBLIC], X_val=X[PROTECTED], y_val=y[PROTECTED])


def value_of(search, name, y=Y):
    return get_scorer(scoring_of(name))(search.best_estimator_, X[PROTECTED], y[PROTECTED])


CLASSIFICATION = ["roc_auc", "f1", "balanced_accuracy", "precision", "recall", "jaccard"]
CLASSIFICATION += ["matthews_corrcoef", "f1_macro", "d2_log_loss_score"]


class TestScores:
    """With a large budget the released score is scikit-learn's metric of the protected rows."""

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("guide", [True, False])
    @pytest.mark.parametrize("name", CLASSIFICATION)
    def test_grid(self, name, guide):
        loss_bound = 40.0 if "log_loss" in name else None
        how = {"scoring": scoring_of(name), "loss_bound": loss_bound, "guide": guide}
        search = DPGridSearchCV(TREE, DEPTHS, epsilon=1e4, cv=2, **how)
        fitted(search)
        assert search.best_score_ == pytest.approx(value_of(search, name), abs=0.01)
        assert 0 <= search.best_score_std_ < 0.01
        assert search.privacy_.status == "proved" or search.privacy_.status == "conditional"

    @pytest.mark.parametrize("name", ["roc_auc", "f1"])
    def test_bayes(self, name):
        search = DPBayesSearchCV(
            TREE, {"max_depth": (1, 9)}, n_iter=5, scoring=name, epsilon=1e4, cv=2
        )
        fitted(search)
        assert search.best_score_ == pytest.approx(value_of(search, name), abs=0.01)

    @pytest.mark.parametrize(
        "name", ["r2", "neg_root_mean_squared_error", "d2_absolute_error_score"]
    )
    def test_regression(self, name):
        y = X[:, 0] + 0.3 * X[:, 1]
        search = DPRandomizedSearchCV(
            Ridge(),
            {"alpha": [0.1, 10.0, 1000.0]},
            n_iter=3,
            scoring=name,
            loss_bound=200.0,
            epsilon=1e6,
        )
        fitted(search, X[:, 1:], y)
        expected = get_scorer(name)(search.best_estimator_, X[PROTECTED, 1:], y[PROTECTED])
        assert search.best_score_ == pytest.approx(expected, abs=0.01)

    def test_f2(self):
        scoring = make_scorer(fbeta_score, beta=2, pos_label="sick")
        y = np.where(Y == 1, "sick", "well")
        search = fitted(DPGridSearchCV(TREE, DEPTHS, scoring=scoring, epsilon=1e4, cv=2), X, y)
        expected = scoring(search.best_estimator_, X[PROTECTED], y[PROTECTED])
        assert search.best_score_ == pytest.approx(expected, abs=0.01)

    @pytest.mark.slow
    def test_three_classes(self):
        X3, y3 = make_classification(1600, n_informative=5, n_classes=3, random_state=1)
        for name in ("roc_auc_ovr", "roc_auc_ovo_weighted", "f1_weighted", "balanced_accuracy"):
            search = DPGridSearchCV(TREE, DEPTHS, scoring=name, epsilon=1e4, cv=2)
            fitted(search, X3, y3)
            expected = get_scorer(name)(search.best_estimator_, X3[PROTECTED], y3[PROTECTED])
            assert search.best_score_ == pytest.approx(expected, abs=0.02)

    def test_the_best_by_the_metric_wins(self):
        """epsilon 1e6: the choice is the exact one."""
        for name in ("roc_auc", "balanced_accuracy"):
            search = fitted(DPGridSearchCV(TREE, DEPTHS, scoring=name, epsilon=1e6, guide=False))
            values = []
            for depth in DEPTHS["max_depth"]:
                model = TREE.set_params(max_depth=depth).fit(X[PUBLIC], Y[PUBLIC])
                values.append(get_scorer(name)(model, X[PROTECTED], Y[PROTECTED]))
            assert values[search.best_index_] == pytest.approx(max(values), abs=0.01)

    @pytest.mark.parametrize("scoring", ["f1", ["accuracy", "f1"]])
    def test_public_confusion_matrices_reach_the_choice(self, scoring, monkeypatch):
        seen, damped = [], ConfusionScorer.damped

        def watched(scorer, epsilon, n_candidates, n_records, counts=()):
            seen.extend(counts)
            return damped(scorer, epsilon, n_candidates, n_records, counts)

        monkeypatch.setattr(ConfusionScorer, "damped", watched)
        fitted(DPGridSearchCV(TREE, DEPTHS, scoring=scoring, refit="f1", epsilon=0.5, cv=2))
        assert len(seen) == 4
        assert all(
            counts.sum(axis=1).tolist() == np.bincount(Y[PUBLIC]).tolist() for counts in seen
        )

    def test_deviation_of_a_mean_loss_is_stated(self):
        search = fitted(DPGridSearchCV(TREE, DEPTHS, epsilon=1.0, cv=2))
        assert search.best_score_std_ == pytest.approx(math.sqrt(2) / (0.1 * 800), rel=0.01)

    def test_no_score_no_deviation(self):
        search = fitted(DPGridSearchCV(TREE, DEPTHS, scoring="f1", score_fraction=0.0, cv=2))
        assert not hasattr(search, "best_score_")
        assert not hasattr(search, "best_score_std_")

    def test_share_of_the_score_is_in_the_sentence(self):
        search = fitted(DPGridSearchCV(TREE, DEPTHS, scoring="f1", epsilon=2.0, cv=2))
        assert "score (epsilon" in search.privacy_.mechanism
        assert search.privacy_.epsilon == 2.0

    def test_a_score_of_noise_alone_is_not_released(self):
        search = DPGridSearchCV(TREE, DEPTHS, scoring="f1", epsilon=0.01, cv=2)
        with pytest.warns(NoisyScoreWarning, match="it is not released"):
            fitted(search)
        assert not hasattr(search, "best_score_")

    def test_a_score_of_noise_on_request_is_released_with_a_warning(self):
        search = DPGridSearchCV(TREE, DEPTHS, scoring="f1", epsilon=0.01, score_fraction=0.5, cv=2)
        with pytest.warns(NoisyScoreWarning, match="whole range of 'f1'"):
            fitted(search)
        assert 0.0 <= search.best_score_ <= 1.0


@pytest.mark.parametrize(("model", "scoring"), [(TREE, "roc_auc"), (TREE, "f1"), (Ridge(), "r2")])
def test_targets_that_are_missing_are_reported(model, scoring):
    with pytest.raises(ValueError, match=f"scoring='{scoring}' requires y to be passed"):
        DPGridSearchCV(model, {}, scoring=scoring).fit(X[:20], X_val=X[20:40])
    columns = np.column_stack([Y, Y])
    with pytest.raises(ValueError, match=r"one target for each row; y has the shape \(20, 2\)"):
        DPGridSearchCV(model, {}, scoring=scoring).fit(
            X[:20], columns[:20], X_val=X[20:40], y_val=columns[20:40]
        )


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame])
@pytest.mark.parametrize(
    ("model", "scoring", "y", "least"),
    [
        (TREE, "roc_auc", Y, 0.6),
        (TREE, "f1", Y, 0.4),
        (TREE, "f1_macro", Y, 0.6),
        (Ridge(), "r2", X.sum(axis=1) / 8, 0.9),
    ],
)
def test_one_column_of_targets_is_what_a_vector_is(model, scoring, y, least, container):
    def released(y):
        search = DPGridSearchCV(model, {}, scoring=scoring, epsilon=1e3, random_state=0)
        search.fit(X[:60], y[:60], X_val=X[60:], y_val=y[60:])
        return search.best_score_, search.cv_results_["mean_test_score"].tolist()

    of_column, of_vector = released(container(y[:, None])), released(y)
    assert of_column == of_vector
    assert of_vector[0] > least  # more than without the columns


class Constant(ClassifierMixin, BaseEstimator):
    """Answers with a constant, or NaN for chosen rows."""

    def __init__(self, answer=0, bad_above=math.inf):
        self.answer, self.bad_above = answer, bad_above

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.answer)

    def decision_function(self, X):
        return np.where(np.asarray(X)[:, 0] > self.bad_above, np.nan, 0.0)


class TestBadInput:
    @pytest.mark.parametrize("name", ["roc_auc", "f1", "balanced_accuracy"])
    def test_one_public_class_is_refused_before_any_charge(self, name):
        with PrivacyLedger(epsilon=10.0) as ledger, pytest.raises(ValueError, match="two classes"):
            DPGridSearchCV(TREE, DEPTHS, scoring=name).fit(
                X[PUBLIC], np.zeros(800, int), X_val=X[PROTECTED], y_val=Y[PROTECTED]
            )
        assert ledger.spent().epsilon == 0

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("name", ["roc_auc", "f1", "balanced_accuracy", "matthews_corrcoef"])
    def test_one_protected_class_shows_in_the_released_score_alone(self, name):
        search = DPGridSearchCV(TREE, DEPTHS, scoring=name, cv=2, score_fraction=0.1, epsilon=3.0)
        with warnings.catch_warnings(record=True) as usual:
            warnings.simplefilter("always")
            fitted(search)
        for value in (0, 1):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                search.fit(X[PUBLIC], Y[PUBLIC], X_val=X[PROTECTED], y_val=np.full(800, value))
            warned = [str(w.message) for w in seen]
            of_release = [text for text in warned if text.startswith("best_score_ is mostly noise")]
            assert warned == [str(w.message) for w in usual] + of_release
            width = 2 if name == "matthews_corrcoef" else 1
            assert len(of_release) == (search.best_score_std_ > width / 4)
            assert 0.0 <= search.best_score_ <= 1.0 or name == "matthews_corrcoef"

    @pytest.mark.filterwarnings("ignore")  # scikit-learn's, about the public rows
    @pytest.mark.parametrize("name", ["roc_auc", "f1", "precision", "balanced_accuracy"])
    def test_constant_predictions_and_scores(self, name):
        grid = {"answer": [0, 1], "bad_above": [math.inf, 1.0]}
        search = fitted(DPGridSearchCV(Constant(), grid, scoring=name, cv=2, epsilon=5.0))
        assert math.isfinite(search.best_score_)

    @pytest.mark.parametrize("name", ["roc_auc", "f1"])
    def test_hostile_labels(self, name):
        y = Y.astype(object)
        y[801:806] = [None, "x", (1, 2), math.nan, 17]
        search = DPGridSearchCV(TREE, DEPTHS, scoring=name, cv=2, epsilon=5.0)
        search.fit(X[PUBLIC], Y[PUBLIC], X_val=X[PROTECTED], y_val=y[PROTECTED])
        assert 0.0 <= search.best_score_ <= 1.0

    @pytest.mark.parametrize("name", ["roc_auc", "r2", "f1", "neg_root_mean_squared_error"])
    @pytest.mark.parametrize("searcher", ["gibo", "gaussian"])
    def test_searches_that_need_mean_losses_refuse(self, searcher, name):
        model = Ridge() if name in ("r2", "neg_root_mean_squared_error") else LogisticRegression()
        space = {"alpha": (0.1, 10.0)} if isinstance(model, Ridge) else C
        how = {"scoring": name, "loss_bound": 9.0 if isinstance(model, Ridge) else None}
        if searcher == "gibo":
            search = DPGIBOSearchCV(model, space, **how)
        else:
            search = DPBayesSearchCV(model, space, mechanism="gaussian", **how)
        with pytest.raises(UnboundedSensitivityError, match="no mean of losses"):
            fitted(search)


class TestManyMetrics:
    def test_one_decides_the_others_are_public(self):
        scoring = ["roc_auc", "f1", "average_precision"]
        search = fitted(
            DPGridSearchCV(TREE, DEPTHS, scoring=scoring, refit="f1", epsilon=1e4, cv=2)
        )
        for name in scoring:
            assert np.isfinite(search.cv_results_[f"mean_test_{name}"]).all()
        assert search.best_score_ == pytest.approx(value_of(search, "f1"), abs=0.01)

    def test_a_bound_for_each(self):
        bounds = {"neg_mean_squared_error": 9.0, "neg_mean_absolute_error": 3.0}
        search = DPGridSearchCV(
            Ridge(),
            {"alpha": [0.1, 10.0]},
            scoring=list(bounds),
            loss_bound=bounds,
            refit="neg_mean_squared_error",
        )
        fitted(search, X[:, 1:], X[:, 0])
        assert search.scorer_["neg_mean_absolute_error"].bound == 3.0


class TestSeveralTargets:
    """A refused score names others, which work."""

    LABELS = make_multilabel_classification(1600, n_classes=3, random_state=0)
    NUMBERS = X, np.column_stack([X[:, 0], X[:, 1] + X[:, 2]])

    @pytest.mark.parametrize("name", ["f1_macro", "roc_auc", "balanced_accuracy", "top_k_accuracy"])
    def test_labels(self, name):
        refused = DPGridSearchCV(TREE, DEPTHS, scoring=name, epsilon=1e4, cv=2)
        with PrivacyLedger(epsilon=1e5) as ledger:
            with pytest.raises(ValueError, match="For several use 'accuracy', the share of rows"):
                fitted(refused, *self.LABELS)
            assert not ledger.entries
        offered = fitted(refused.set_params(scoring="accuracy"), *self.LABELS)
        rows, labels = (part[PROTECTED] for part in self.LABELS)
        right = (offered.predict(rows) == labels).all(axis=1).mean()
        assert offered.best_score_ == pytest.approx(right, abs=0.01)

    @pytest.mark.parametrize(
        ("name", "offer"),
        [
            ("r2", "neg_mean_squared_error"),
            ("neg_root_mean_squared_error", "neg_mean_squared_error"),
            ("d2_absolute_error_score", "neg_mean_absolute_error"),
        ],
    )
    def test_numbers(self, name, offer):
        how = {"scoring": name, "loss_bound": 50.0, "epsilon": 1e4, "cv": 2}
        refused = DPGridSearchCV(Ridge(), {"alpha": [1.0, 1e4]}, **how)
        with pytest.raises(ValueError, match=f"For several use '{offer}', over all of them"):
            fitted(refused, *self.NUMBERS)
        offered = fitted(refused.set_params(scoring=offer), *self.NUMBERS)
        assert offered.best_params_ == {"alpha": 1.0}
        rows, numbers = (part[PROTECTED] for part in self.NUMBERS)
        errors = np.abs(offered.predict(rows) - numbers)
        exact = np.mean(errors ** (1 if "absolute" in offer else 2))
        assert offered.best_score_ == pytest.approx(-exact, abs=0.02)


def test_scores_of_a_regressor_are_those_that_the_guide_names():
    """docs/migration.md: without scoring the choice is by the squared error, and score is R2."""
    X, y = TestSeveralTargets.NUMBERS
    how = {"loss_bound": 50.0, "epsilon": 1e4, "cv": 2}
    for scoring, of_choice in ((None, "neg_mean_squared_error"), ("r2", "r2")):
        search = fitted(
            DPGridSearchCV(Ridge(), {"alpha": [1e4]}, scoring=scoring, **how), X, y[:, 1]
        )
        assert search.best_score_ == pytest.approx(value_of(search, of_choice, y[:, 1]), abs=0.02)
        assert search.score(X[PROTECTED], y[PROTECTED, 1]) == value_of(search, "r2", y[:, 1])
