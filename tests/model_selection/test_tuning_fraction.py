"""Tuning on a part of the rows, and training of the winner on the others with the whole budget."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import RBF

from _support.internals import largest_cost, ranking_selection, tuning_share
from _support.planted import original, put
from skdpbo import DPGridSearchCV, DPSparseGPRegressor
from skdpbo.model_selection import PrivateSelection
from skdpbo.privacy import PrivacyGuarantee, epsilon_from_mu, mu_from_epsilon

ROWS = np.column_stack([np.arange(1, 201), np.linspace(-1, 1, 200)])
FITS = []  # (rows, epsilon) of every training


class Watched(RegressorMixin, BaseEstimator):
    """A private model that learns nothing; the first column numbers the rows."""

    def __init__(self, factor=1.0, epsilon=1.0):
        self.factor = factor
        self.epsilon = epsilon

    def privacy_guarantee(self, n_samples=None):
        return PrivacyGuarantee(epsilon=self.epsilon, protects="training records")

    def fit(self, X, y=None):
        FITS.append((frozenset(np.asarray(X)[:, 0].astype(int).tolist()), float(self.epsilon)))
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        return np.full(len(X), float(self.factor))


def search(**parameters):
    options = {"epsilon": 1.0, "loss_bound": 1.0, "scoring": "neg_mean_squared_error"}
    selection = {"expected_trials": 4, "tuning_fraction": 0.25} | parameters.pop("selection", {})
    return DPGridSearchCV(
        Watched(),
        {"factor": parameters.pop("factors", [0.0, 1.0, 2.0])},
        protect=PrivateSelection(**selection),
        **options | parameters,
    )


def trainings(monkeypatch=None, own_rows=False, **parameters):
    """Return the trainings on protected rows of one fit: all but those of the dry run."""
    given = {"X_val": -ROWS[:20], "y_val": np.zeros(20)} if own_rows else {}
    FITS.clear()
    model = search(**parameters).fit(ROWS, np.zeros(200), **given)
    synthetic = [rows for rows, _ in FITS if not rows <= set(range(1, 201)) or len(rows) < 20]
    return model, [(rows, epsilon) for rows, epsilon in FITS if rows not in synthetic]


def audit(**parameters):
    """No row trains both a trial and the winner, and only the winner has the whole budget."""
    model, fits = trainings(**parameters)
    *trials, (rest, epsilon) = fits
    assert epsilon == pytest.approx(1.0, rel=1e-6)
    assert trials
    assert epsilon <= 1.0
    for rows, spent in trials:
        assert spent < 0.6
        assert not rows & rest
    tuned = frozenset().union(*[rows for rows, _ in trials])
    assert len(rest) == 150
    assert len(tuned) == (50 if parameters.get("own_rows") else 30)
    return model


@pytest.mark.parametrize("own_rows", [False, True])
@pytest.mark.parametrize("selection", [{}, {"accounting": "composition", "expected_trials": None}])
def test_tuning_and_training_read_other_rows(own_rows, selection):
    model = audit(own_rows=own_rows, selection=selection)
    assert model.privacy_.epsilon == 1.0
    assert "then one training of the winner on other rows" in model.privacy_.mechanism
    assert model.best_estimator_.epsilon == pytest.approx(1.0, rel=1e-6)
    assert model.best_estimator_.factor == model.best_params_["factor"]
    assert model.privacy_guarantee(n_samples=200).epsilon == 1.0


def test_rows_of_the_tuning_in_the_final_training_are_found(monkeypatch):
    honest = original("private models: train_final")
    put(
        monkeypatch,
        "private models: train_final",
        lambda model, data, source: honest(model, replace(data, X=ROWS, y=np.zeros(200)), source),
    )
    with pytest.raises(AssertionError):
        audit()


def test_the_whole_budget_on_the_same_rows_is_found(monkeypatch):
    honest = original("private models: PrivateModelsProtection._positions")

    def same(self, n_samples, *, own_rows):
        trained, scored, _ = honest(self, n_samples, own_rows=own_rows)
        return trained, scored, trained

    put(monkeypatch, "private models: PrivateModelsProtection._positions", same)
    with pytest.raises(AssertionError):
        audit()


def test_trials_with_the_whole_budget_are_found(monkeypatch):
    honest = original("private models: plan_trials")

    def rich(*args, **known):
        plan = honest(*args, **known)
        for model in plan.models:
            model.set_params(epsilon=1.0)
        return plan

    put(monkeypatch, "private models: plan_trials", rich)
    with pytest.raises(AssertionError):
        audit()


def test_none_trains_once():
    model, fits = trainings(selection={"tuning_fraction": None})
    assert {len(rows) for rows, _ in fits} == {160}
    assert all(epsilon < 0.6 for _, epsilon in fits)
    assert "other rows" not in model.privacy_.mechanism


@pytest.mark.parametrize(
    ("n_samples", "n_candidates", "epsilon", "share"),
    [(4000, 3, 3.0, 0.25), (3999, 3, 3.0, None), (999, 3, 90.0, None), (4000, 1, 3.0, None)],
)
def test_auto_depends_on_public_numbers(n_samples, n_candidates, epsilon, share):
    assert tuning_share(PrivateSelection(), n_samples, n_candidates, epsilon) == share
    published = PrivateSelection(accounting="composition")
    assert tuning_share(published, n_samples, n_candidates, epsilon) is None


@pytest.mark.slow
def test_trials_that_only_rank_are_more():
    for n_candidates, (mean, eta) in {3: (9, 1.0), 4: (20, 2.0), 100: (50, 2.0)}.items():
        law = ranking_selection(PrivateSelection(), n_candidates).law(n_candidates)
        assert (law.mean, law.eta) == (mean, eta)
    for fraction, mean in ((0.25, 20), (None, 12)):
        selection = {"expected_trials": None, "tuning_fraction": fraction}
        model, _ = trainings(selection=selection, factors=[0.0, 1.0, 2.0, 3.0])
        assert model.expected_trials_ == mean


@pytest.mark.parametrize(
    "given",
    [{"expected_trials": 4}, {"eta": 1.0}, {"max_trials": 450}, {"accounting": "liu_talwar"}],
)
def test_given_laws_of_trials_stay(given):
    selection = PrivateSelection(**given)
    assert ranking_selection(selection, 10) == selection
    assert selection.law(10).eta == 1.0


def test_without_refit_all_rows_tune():
    _, fits = trainings(refit=False)
    assert {len(rows) for rows, _ in fits} == {160}


@pytest.mark.parametrize("fraction", [0.0, 1.0, True, "some", [0.2]])
def test_bad_fractions_are_refused(fraction):
    with pytest.raises(ValueError, match="tuning_fraction"):
        trainings(selection={"tuning_fraction": fraction})


def test_a_fraction_of_one_row_is_refused():
    with pytest.raises(ValueError, match="fewer than 2 rows to train and to score"):
        search(selection={"tuning_fraction": 0.1}).fit(ROWS[:10], np.zeros(10))


@pytest.mark.slow
def test_declared_costs_cannot_be_raised():
    declared = {"estimator_guarantee": PrivacyGuarantee(epsilon=0.01)}
    with pytest.raises(ValueError, match="states its guarantee"):
        trainings(selection=declared)
    model, _ = trainings(selection={"tuning_fraction": "auto", **declared}, epsilon=90.0)
    assert "other rows" not in model.privacy_.mechanism


@pytest.mark.slow
def test_gaussian_models_get_the_mu_of_the_whole():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (400, 1))
    gp = DPSparseGPRegressor(X_bounds=(-3, 3), y_bounds=(-1, 1), inducing_points=6)
    selection = PrivateSelection(expected_trials=5, tuning_fraction=0.3)
    search = DPGridSearchCV(
        gp,
        {"kernel": [RBF(0.3), RBF(0.5), RBF(1.0)]},
        protect=selection,
        delta=1e-5,
        loss_bound=2.0,
    ).fit(X, np.sin(X[:, 0]))
    assert search.best_estimator_.epsilon == pytest.approx(1.0, rel=1e-9)
    assert search.best_estimator_.n_records_ == 280
    assert search.privacy_.delta == 1e-5
    assert search.best_estimator_.privacy_ == search.privacy_
    assert search.privacy_.mu is None or search.privacy_.mu <= mu_from_epsilon(1.0, 1e-5)
    assert search.privacy_.status == "proved"
    assert str(search.privacy_).count("running time") == 1


def test_both_parts_together_cost_the_larger_epsilon_and_delta():
    tuning, final = PrivacyGuarantee(epsilon=1.0, delta=1e-6), PrivacyGuarantee(epsilon=2.0)
    small, large = (
        PrivacyGuarantee(epsilon=epsilon_from_mu(mu, 1e-5), delta=1e-5, mu=mu) for mu in (0.2, 0.5)
    )
    for first, second, mu in ((tuning, final, None), (small, large, 0.5), (tuning, small, None)):
        for one, other in ((first, second), (second, first)):
            total = largest_cost([other, one])
            assert total.epsilon == max(one.epsilon, other.epsilon)
            assert (total.delta, total.mu) == (max(one.delta, other.delta), mu)
