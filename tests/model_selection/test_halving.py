"""Successive halving on public rows: many candidates cost little, and protected rows no part."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit

from _support.internals import number_of_rounds
from _support.planted import plant
from skdpbo import DPBayesSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.exceptions import PublicTrainingWarning
from skdpbo.model_selection import Chunks
from skdpbo.privacy import PrivacyLedger

RNG = np.random.default_rng(0)
X, X_VAL = RNG.normal(size=(270, 1)), RNG.normal(size=(40, 1))
Y, Y_VAL = X[:, 0] + 0.1 * RNG.normal(size=270), X_VAL[:, 0]


class Slope(RegressorMixin, BaseEstimator):
    """Predicts a x; counts the rows that it is trained on."""

    n_trained = 0

    def __init__(self, a=0.0):
        self.a = a

    def fit(self, X, y, sample_weight=None):
        type(self).n_trained += len(X)
        if self.a == "fails":
            raise ValueError("a public error")
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        if isinstance(self.a, str):
            raise ValueError("a public error")
        return self.a * np.asarray(X)[:, 0]


GRID = {"a": list(np.linspace(-2, 2, 27))}


def make(kind=DPGridSearchCV, space=GRID, **params):
    usual = {"halving": 3, "cv": 3, "loss_bound": 4.0, "refit": False}
    return kind(Slope(), space, **usual | params)


def fitted(search, rows=(X_VAL, Y_VAL), **params):
    return search.fit(X, Y, X_val=rows[0], y_val=rows[1], **params)


def rounds_of(search):
    return np.bincount(search.halving_results_["iter"]).tolist()


class TestHalving:
    def test_rows_trained_on(self):
        counts = []
        for halving in (3, None):
            Slope.n_trained = 0
            search = fitted(make(halving=halving))
            counts.append(Slope.n_trained)
        assert not hasattr(search, "halving_results_")
        # Folds of the last candidates, of the best one (for its largest losses), 100 rows of a test
        # of row-wise predictions, and all rows for each candidate that is scored.
        assert counts[0] == 3 * (27 * 20 + 9 * 60 + 3 * 180) + 3 * 180 + 100 + 3 * 270
        assert counts[1] == 3 * 27 * 180 + 3 * 180 + 100 + 27 * 270

    def test_rows_grow_and_the_best_are_left(self):
        search = fitted(make(epsilon=1e6))
        assert rounds_of(search) == [27, 9]
        resources = search.halving_results_["n_resources"]
        assert np.unique(resources).tolist() == [30, 90]
        left = [params["a"] for params in search.cv_results_["params"]]
        assert left == sorted(left)
        assert len(left) == 3
        assert all(abs(a - 1) < 0.25 for a in left)
        assert abs(search.best_params_["a"] - 1) < 0.1
        assert search.privacy_.epsilon == 1e6

    def test_nothing_to_drop(self):
        search = fitted(make(halving=27))
        assert len(search.cv_results_["params"]) == 27
        assert not hasattr(search, "halving_results_")

    def test_too_few_rows(self):
        with pytest.warns(UserWarning, match="at least 450 public rows .* got 270: all 4 cand"):
            search = fitted(make(space={"a": [0.0, 1.0, 2.0, 3.0]}, cv=30))
        assert len(search.cv_results_["params"]) == 4

    def test_failures_are_dropped(self):
        with pytest.warns(UserWarning, match="2 of 5 candidates have no finite score"):
            search = fitted(make(space={"a": ["fails", 0.9, "fails", 1.0, 0.0]}, halving=2))
        assert [params["a"] for params in search.cv_results_["params"]] == [0.9, 1.0]
        with pytest.raises(ValueError, match="a public error"):
            fitted(make(space={"a": ["fails", 0.9, 1.0]}, halving=2, error_score="raise"))

    @pytest.mark.filterwarnings("ignore")
    def test_where_all_fail_the_reason_is_reported_and_nothing_is_charged(self):
        refused = pytest.raises(ValueError, match="a public error")
        with PrivacyLedger(epsilon=5.0) as ledger, refused:
            fitted(make(space={"a": [f"cannot predict {i}" for i in range(9)]}, halving=2))
        assert not ledger.entries

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(
        ("params", "fit"),
        [
            ({"cv": KFold(3).split(X)}, {}),
            ({"cv": GroupKFold(3)}, {"groups": np.arange(270) // 2}),
            ({"scoring": ["neg_mean_absolute_error", "r2"], "refit": "r2"}, {}),
            ({"verbose": 3}, {"sample_weight": np.ones(270)}),
            ({"neighbours": "add-remove", "random_state": None}, {}),
            ({"kind": DPRandomizedSearchCV, "space": {"a": (-2.0, 2.0)}, "n_iter": 27}, {}),
        ],
    )
    def test_with(self, params, fit):
        search = fitted(make(**params), **fit)
        assert rounds_of(search) == [27, 9]
        assert len(search.cv_results_["params"]) == 3

    def test_rows_that_are_set_apart(self):
        with pytest.warns(PublicTrainingWarning):
            search = make(validation_fraction=0.5).fit(X, Y)
        assert np.unique(search.halving_results_["n_resources"]).tolist() == [15, 45]

    @pytest.mark.parametrize(
        ("params", "match"),
        [
            ({"halving": 1}, "halving"),
            ({"halving": 2.5}, "halving"),
            ({"guide": False}, "halving needs guide=True"),
            ({"protect": "all", "cv": None}, "halving is for"),
            ({"protect": Chunks(4), "cv": None}, "halving is for"),
            ({"cv": ShuffleSplit(3)}, "cv parameter must yield consistent folds"),
        ],
    )
    def test_refused_before_any_charge(self, params, match):
        with PrivacyLedger(epsilon=1.0) as ledger, pytest.raises(ValueError, match=match):
            fitted(make(**params))
        assert not ledger.entries

    def test_bayesian_search_has_none(self):
        with pytest.raises(TypeError, match="halving"):
            DPBayesSearchCV(Slope(), {"a": (0.0, 1.0)}, halving=3)


def test_number_of_rounds():
    # The last round is on a third of the rows, and as many rounds as the first one has rows for.
    assert number_of_rounds(243, 9, 10_000, 10) == 3
    assert number_of_rounds(244, 9, 10_000, 10) == 4
    assert number_of_rounds(10, 9, 10_000, 10) == 1
    assert number_of_rounds(10**6, 2, 90, 10) == 2
    assert number_of_rounds(10**6, 2, 29, 10) == 0


class TestProtectedRows:
    """All that is fitted before the release is the same whatever the protected rows are."""

    OTHERS = ((X_VAL, Y_VAL), (np.full((40, 1), np.nan), np.full(40, 1e9)), (-X_VAL, Y_VAL))

    def observed(self, rows, capsys):
        search = fitted(make(epsilon=1e-9, random_state=7, verbose=1), rows)
        tables = search.halving_results_, search.cv_results_
        shown = [
            {name: str(column) for name, column in table.items() if "time" not in name}
            for table in tables
        ]
        return repr((sorted(vars(search)), shown, capsys.readouterr()))

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
    def test_equal(self, capsys):
        assert len({self.observed(rows, capsys) for rows in self.OTHERS}) == 1

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore")
    def test_a_planted_bug_is_found(self, capsys, monkeypatch):
        plant(monkeypatch, "halving sees protected rows")
        assert len({self.observed(rows, capsys) for rows in self.OTHERS[::2]}) == 2
