"""Who is protected: how the searchers dispatch, before anything is fitted."""

import inspect

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.linear_model import Ridge

from skdpbo import (
    DPBayesSearchCV,
    DPGIBOSearchCV,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    DPSparseGPRegressor,
)
from skdpbo.exceptions import BudgetExceededError
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger, charge_active_ledger

SEARCHERS = [DPGridSearchCV, DPRandomizedSearchCV, DPBayesSearchCV]


@pytest.mark.parametrize("searcher", SEARCHERS)
def test_chunks_protect_all_records_or_none(searcher):
    search = searcher(Ridge(), {"alpha": [0.1, 1.0]}, n_chunks=5)
    with pytest.raises(ValueError, match="n_chunks"):
        search.fit([[0.0], [1.0]], [0.0, 1.0])


@pytest.mark.parametrize("searcher", SEARCHERS)
@pytest.mark.parametrize("n_chunks", [1, 0, -3, 2.5, "all"])
def test_bad_numbers_of_chunks(searcher, n_chunks):
    search = searcher(Ridge(), {"alpha": [0.1, 1.0]}, protect="all", n_chunks=n_chunks)
    with pytest.raises((ValueError, TypeError), match="n_chunks"):
        search.fit([[0.0], [1.0]], [0.0, 1.0])


@pytest.mark.parametrize("searcher", SEARCHERS)
def test_a_misspelt_protection_is_refused(searcher):
    search = searcher(Ridge(), {"alpha": [0.1, 1.0]}, protect="everything")
    with pytest.raises(ValueError, match="protect"):
        search.fit([[0.0], [1.0]], [0.0, 1.0])


def test_bayes_tunes_no_private_estimators():
    search = DPBayesSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, protect="all")
    with pytest.raises(ValueError, match="n_chunks"):
        search.fit([[0.0], [1.0]], [0.0, 1.0])


def test_who_has_which_parameter():
    both = {"protect", "n_chunks"}
    private = {"selection", "estimator_guarantee"}
    names = {searcher: set(inspect.signature(searcher).parameters) for searcher in SEARCHERS}
    assert names[DPGridSearchCV] >= both | private
    assert names[DPRandomizedSearchCV] >= both | private
    assert names[DPBayesSearchCV] >= both
    assert not names[DPBayesSearchCV] & private
    assert not set(inspect.signature(DPGIBOSearchCV).parameters) & (both | private)
    assert DPGIBOSearchCV.protect == "validation"


class Charger(Ridge):
    """An estimator that charges for its own fit, as a private one does."""

    def fit(self, X, y):
        charge_active_ledger(PrivacyGuarantee(epsilon=5.0), "inner")
        return super().fit(X, y)


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
@pytest.mark.parametrize("searcher", [*SEARCHERS, DPGIBOSearchCV])
@pytest.mark.parametrize("cv", [2, None])
def test_private_estimators_inside_are_not_charged_again(searcher, cv):
    space = {"alpha": [0.1, 1.0]} if searcher is DPGridSearchCV else {"alpha": (0.1, 1.0)}
    options = {} if searcher is DPGridSearchCV else {"n_iter": 2}
    X = [[float(i)] for i in range(30)]
    y = [float(i % 3) for i in range(30)]
    search = searcher(Charger(), space, epsilon=1.0, cv=cv, **options)
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        search.fit(X, y, X_val=X[:5], y_val=y[:5])
    assert [entry.label for entry in ledger.entries] == [searcher.__name__]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
@pytest.mark.parametrize("backend", ["loky", "threading"])
@pytest.mark.parametrize("guide", [True, False])
def test_nor_are_those_in_workers(backend, guide):
    X = [[float(i % 4)] for i in range(40)]
    y = [float(i % 3) / 3 for i in range(40)]
    search = DPGridSearchCV(
        DPSparseGPRegressor(inducing_points=3), {"noise_variance": [0.1, 1.0]}, n_jobs=2
    )
    search.set_params(guide=guide, cv=2 if guide else None, loss_bound=1.0)
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger, parallel_config(backend):
        search.fit(X, y, X_val=X[:5], y_val=y[:5])
    assert [entry.label for entry in ledger.entries] == ["DPGridSearchCV"]


@pytest.mark.parametrize("n_chunks", [None, 4])
def test_a_fit_that_is_refused_before_the_charge_leaves_an_earlier_release(n_chunks):
    X = np.linspace(-1, 1, 60)[:, None]
    y = X[:, 0] ** 2
    search = DPGridSearchCV(
        DPSparseGPRegressor(X_bounds=(-1, 1), y_bounds=(0, 1), inducing_points=3),
        {"noise_variance": [0.1, 0.2]},
        scoring="neg_mean_squared_error",
        loss_bound=1.0,
        protect="all",
        n_chunks=n_chunks,
        selection="composition",
        epsilon=100.0,
        refit=n_chunks is None,
    ).fit(X, y)
    paid = search.best_params_
    with PrivacyLedger(epsilon=1.0, delta=1e-5), pytest.raises(BudgetExceededError):
        search.fit(X, y)
    assert search.best_params_ == paid
    assert search.privacy_.epsilon == 100.0


@pytest.mark.parametrize("n_chunks", [None, 4])
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"cv": 3}, "cv must be None"),
        ({"return_train_score": True}, "return_train_score"),
        ({"error_score": "raise"}, "error_score"),
        ({"scoring": ["neg_mean_squared_error", "r2"]}, "several metrics"),
        ({"scoring": {"mse": "neg_mean_squared_error"}}, "several metrics"),
    ],
)
def test_options_that_need_public_rows_are_refused(options, match, n_chunks):
    search = DPGridSearchCV(
        DPSparseGPRegressor(), {}, protect="all", n_chunks=n_chunks, refit=n_chunks is None
    )
    X = np.linspace(-1, 1, 60)[:, None]
    with PrivacyLedger(epsilon=9.0, delta=1e-3) as ledger, pytest.raises(ValueError, match=match):
        search.set_params(**options).fit(X, X[:, 0])
    assert ledger.entries == ()


@pytest.mark.parametrize("options", [{}, {"protect": "all", "n_chunks": 4, "refit": False}])
def test_a_declared_cost_needs_private_models(options):
    cost = PrivacyGuarantee(epsilon=0.1)
    search = DPGridSearchCV(Ridge(), {}, estimator_guarantee=cost, **options)
    with pytest.raises(ValueError, match="estimator_guarantee needs"):
        search.fit([[0.0], [1.0]], [0.0, 1.0])


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
def test_another_protection_leaves_nothing_of_the_last():
    X = np.linspace(-1, 1, 60)[:, None]
    model = DPSparseGPRegressor(X_bounds=(-1, 1), y_bounds=(-1, 1), inducing_points=3)
    search = DPGridSearchCV(model, {"noise_variance": [0.1, 0.2]}, loss_bound=1.0)
    own = {
        "validation": {"n_splits_", "refit_time_"},
        "all": {"expected_trials_", "hit_probability_"},
    }
    for protect, other in (("validation", "all"), ("all", "validation"), ("validation", "all")):
        search.set_params(protect=protect).fit(X, X[:, 0])
        assert own[protect] <= set(vars(search))
        assert not own[other] & set(vars(search))


def test_the_estimator_is_asked_for_the_part_that_trains():
    asked = set()

    class Asked(DPSparseGPRegressor):
        def privacy_guarantee(self, n_samples=None):
            asked.add(n_samples)
            return super().privacy_guarantee(n_samples)

    X = np.linspace(-1, 1, 60)[:, None]
    model = Asked(X_bounds=(-1, 1), y_bounds=(-1, 1), inducing_points=3)
    search = DPGridSearchCV(
        model, {"noise_variance": [0.1, 0.2, 0.3]}, loss_bound=1.0, protect="all"
    )
    search.privacy_guarantee(60)
    assert asked == {48}
    asked.clear()
    search.fit(X, X[:, 0])
    assert 48 in asked
    assert 60 not in asked
