"""The results table of a search in rounds is scikit-learn's, made once."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

from _support.internals import BaseSearchCV, VisitingSearch
from skdpbo import DPBayesSearchCV

X, Y = make_classification(n_samples=120, random_state=0)
SPACE = {"max_depth": (1, 6), "min_samples_leaf": (1, 20)}
TREE = DecisionTreeClassifier(random_state=0)


class Fragile(ClassifierMixin, BaseEstimator):
    """Cannot be trained where `level` is above one half."""

    def __init__(self, level=0.0):
        self.level = level

    def fit(self, X, y):
        if self.level > 0.5:
            raise ValueError("too high")
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


def fitted(estimator=TREE, space=SPACE, **options):
    options = {"n_iter": 9, "scoring": "accuracy", "refit": False, "cv": 3} | options
    return DPBayesSearchCV(estimator, space, **options).fit(
        X[:60], Y[:60], X_val=X[60:], y_val=Y[60:]
    )


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("options", [{}, {"batch_size": 3}, {"mechanism": "gaussian"}])
@pytest.mark.parametrize("return_train_score", [False, True])
def test_the_table_is_that_of_scikit_learn(options, return_train_score):
    search = fitted(return_train_score=return_train_score, **options)
    listed = [{name: [v] for name, v in params.items()} for params in search.cv_results_["params"]]
    theirs = GridSearchCV(
        TREE, listed, cv=3, scoring="accuracy", refit=False, return_train_score=return_train_score
    ).fit(X[:60], Y[:60])
    columns = set(search.cv_results_) - {"private_validation_score"}
    assert columns == set(theirs.cv_results_)
    for name in columns:
        if "time" not in name:
            np.testing.assert_array_equal(search.cv_results_[name], theirs.cv_results_[name])
    assert search.n_splits_ == 3


def test_several_metrics():
    search = fitted(scoring=["accuracy", "neg_log_loss"], refit="neg_log_loss")
    results = search.cv_results_
    assert len(results["params"]) == len(results["rank_test_accuracy"]) == 9
    assert len(results["split2_test_neg_log_loss"]) == 9


def test_the_table_is_made_once(monkeypatch):
    made = []
    original = BaseSearchCV._format_results

    def counted(self, *arguments):
        made.append(len(arguments[0]))
        return original(self, *arguments)

    monkeypatch.setattr(BaseSearchCV, "_format_results", counted)
    fitted()
    assert made == [9]


@pytest.mark.filterwarnings("ignore")  # scikit-learn tells of fits that fail
def test_a_round_that_fails_is_not_listed():
    search = fitted(Fragile(), {"level": (0.0, 1.0)}, n_iter=12)
    levels = [params["level"] for params in search.cv_results_["params"]]
    alone = levels[5:]  # the first five come together
    assert len(search.cv_results_["mean_test_score"]) == len(levels)
    assert all(level <= 0.5 for level in alone)


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore")  # scikit-learn tells of fits that fail
@pytest.mark.parametrize("estimator", [TREE, Fragile()])
def test_scores_so_far_are_those_of_the_table(estimator, monkeypatch):
    space = SPACE if estimator is TREE else {"level": (0.0, 1.0)}
    propose, seen = VisitingSearch.propose, []

    def listening(search, public):
        seen.append({name: np.array(column) for name, column in (public or {}).items()})
        return propose(search, public)

    monkeypatch.setattr(VisitingSearch, "propose", listening)
    table = fitted(estimator, space).cv_results_
    first, *rounds = seen
    assert first == {}
    assert len(rounds) >= 4
    for results in rounds:
        assert {"params", "mean_test_score", "split1_test_score"} <= set(results)
        for name, column in results.items():
            np.testing.assert_array_equal(column, table[name][: len(column)])
