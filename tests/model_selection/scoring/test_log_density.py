"""The log predictive density as a bounded score of single records."""

import itertools
import math
import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _support.evaluators import score_of_trial, total_loss
from _support.internals import (
    concentrated_mu,
)
from skdpbo import DPGridSearchCV
from skdpbo.gaussian_process import DPSparseGPRegressor
from skdpbo.mechanisms import CoinPressMean
from skdpbo.model_selection import make_log_density_scorer
from skdpbo.privacy import PrivacyGuarantee, epsilon_from_mu, mu_from_epsilon

DELTA = 1e-5
VALUES = [-1e300, -1.0, 0.0, 0.2, 1e5, math.nan, math.inf]


class Column(BaseEstimator):
    """Predicts the first column, with the second as standard deviation."""

    def predict(self, X, return_std=False):
        return (X[:, 0], X[:, 1]) if return_std else X[:, 0]


def gaussian(mu):
    return PrivacyGuarantee(epsilon=epsilon_from_mu(mu, DELTA), delta=DELTA, mu=mu)


def rows(X, y):
    return np.asarray(X, float), np.asarray(y), None


@pytest.fixture
def line():
    generator = np.random.default_rng(1)
    X = generator.uniform(0, 1, (200, 1))
    return X, X[:, 0] + 0.2 * generator.normal(size=200)


@pytest.mark.parametrize(
    "model",
    [
        BayesianRidge(),
        GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.04), optimizer=None),
        make_pipeline(StandardScaler(), BayesianRidge()),
    ],
    ids=["BayesianRidge", "GaussianProcessRegressor", "Pipeline"],
)
def test_density_of_estimators_whose_deviation_counts_the_noise(model, line):
    X, y = line
    mean, std = model.fit(X, y).predict(X, return_std=True)
    exact = np.clip(stats.norm.logpdf(y, mean, std), -2.0, 0.8)
    scorer = make_log_density_scorer(lower=-2.0, upper=0.8)
    assert scorer(model, X, y) == pytest.approx(exact.mean(), rel=1e-12)
    total = total_loss(model, rows(X, y), scorer)
    assert scorer.score_from_units(total, len(y)) == pytest.approx(exact.mean(), abs=2e-6)


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_noise_of_the_private_gp_is_added(n_targets, in_pipeline, line):
    X, y = line
    y = np.column_stack([y, -y])[:, :n_targets]
    y = y[:, 0] if n_targets == 1 else y
    gp = DPSparseGPRegressor(RBF(0.5), epsilon=9.0, X_bounds=(0, 1), y_bounds=(-2, 2))
    model = (make_pipeline(gp) if in_pipeline else gp).fit(X, y)
    fitted = model[-1] if in_pipeline else model
    scorer = make_log_density_scorer(lower=-50.0, upper=50.0)
    assert scorer(model, X, y) == pytest.approx(fitted.log_predictive_density(X, y).mean())


def test_sensitivity_is_the_range():
    scorer = make_log_density_scorer(lower=-3.0, upper=1.0)
    records = [
        ([m, s], y) for m, s, y in itertools.product(VALUES, [0.0, 0.01, 1.0, 1e200], VALUES)
    ]
    with np.errstate(all="ignore"):
        totals = [total_loss(Column(), rows([[0.0, 1.0], X], [0.5, y]), scorer) for X, y in records]
    assert max(totals) - min(totals) == scorer.units
    assert scorer.bound == 4.0


def test_what_cannot_be_a_density_costs_the_worst():
    scorer = make_log_density_scorer(lower=-3.0, upper=1.0)
    X = [[0.0, 0.0], [math.nan, 1.0], [0.0, math.nan], [0.0, 1.0], [0.0, 1.0]]
    losses = scorer.record_losses(Column(), np.array(X), np.array([0.0, 0.0, 0.0, math.nan, 1e200]))
    assert (losses == scorer.units).all()


def test_a_regressor_without_deviation_is_refused_on_public_rows(line):
    X, y = line
    for model in (LinearRegression(), make_pipeline(LinearRegression())):
        with pytest.raises(TypeError, match="LinearRegression gives no standard deviations"):
            make_log_density_scorer(lower=-3.0, upper=1.0)(model.fit(X, y), X, y)


@pytest.mark.parametrize(
    "change",
    [
        {"lower": 2.0},
        {"upper": math.inf},
        {"lower": math.nan},
        {"mean": "median"},
        {"mean": None},
        {"accounting": "rdp"},
        {"n_steps": 0},
        {"scale": -1.0},
    ],
)
def test_bad_parameters(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        make_log_density_scorer(**{"lower": -1.0, "upper": 2.0, **change})


def test_numbers_are_required():
    with pytest.raises(TypeError, match="lower"):
        make_log_density_scorer(lower="0", upper=1.0)


def test_scorer_is_cloned_and_pickled():
    scorer = make_log_density_scorer(lower=-1.0, upper=2.0, mean="coinpress")
    for copy in (clone(scorer, safe=False), pickle.loads(pickle.dumps(scorer))):
        assert {**vars(copy)}.keys() == vars(scorer).keys()
        assert copy.mean == "coinpress"


def test_a_search_that_protects_validation_rows(line):
    X, y = line
    search = DPGridSearchCV(
        BayesianRidge(),
        {"lambda_init": [1.0, 1e3]},
        scoring=make_log_density_scorer(lower=-2.0, upper=1.0),
        epsilon=1.0,
    )
    search.fit(X[:100], y[:100], X_val=X[100:], y_val=y[100:])
    assert -2.0 <= search.best_score_ <= 1.0


class TestCoinPress:
    DATA = rows(np.tile([0.0, 1.0], (1000, 1)), stats.norm.ppf((np.arange(1000) + 0.5) / 1000))
    EXACT = stats.norm.logpdf(DATA[1]).mean()

    def scores(self, n, budget, **options):
        options = {"lower": -50.0, "upper": 50.0, "mean": "coinpress", **options}
        scorer = make_log_density_scorer(**options)
        return np.array(
            [
                score_of_trial(Column(), self.DATA, scorer, budget=budget, source=None)
                for _ in range(n)
            ]
        )

    @pytest.mark.slow
    def test_noise_is_that_of_the_mechanism(self):
        sd = CoinPressMean(mu=1.0, center=0.0, radius=50.0).noise_sd(1000)
        scores = self.scores(200, gaussian(1.0))
        # False alarms below 1e-6: 5.1 standard errors; clipping biases by less than a deviation.
        assert abs(scores.mean() - self.EXACT) < sd + 5.1 * sd / math.sqrt(200)
        assert abs(scores.var() / sd**2 - 1) < 5.1 * math.sqrt(2 / 200)
        assert sd < 100 / 1000 / 5  # of the clipped mean

    def test_budget_of_eq_22_is_smaller(self):
        epsilon, mu = epsilon_from_mu(1.0, DELTA), 1.0
        rho = (math.sqrt(epsilon + math.log(1e5)) - math.sqrt(math.log(1e5))) ** 2
        assert concentrated_mu(epsilon, DELTA) == pytest.approx(math.sqrt(2 * rho), rel=1e-9)
        scorer = make_log_density_scorer(lower=-1.0, upper=1.0, mean="coinpress", accounting="zcdp")
        assert scorer.private_mean(gaussian(mu), mu).mu == concentrated_mu(epsilon, DELTA) < mu

    @pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 10.0, 100.0])
    @pytest.mark.parametrize("delta", [1e-14, 1e-5, 1e-2])
    def test_eq_22_is_within_the_gaussian_budget(self, epsilon, delta):
        assert concentrated_mu(epsilon, delta) <= mu_from_epsilon(epsilon, delta)

    def test_pure_budget_takes_the_noisy_total(self):
        scores = self.scores(200, PrivacyGuarantee(epsilon=1.0))
        assert abs(scores.std() / (math.sqrt(2) * 100 / 1000) - 1) < 5.1 * math.sqrt(5 / 800)

    def test_scores_stay_in_the_range(self):
        scores = self.scores(40, gaussian(1e-3), lower=-1.0, upper=1.0)
        assert set(scores) >= {-1.0, 1.0}
        assert np.abs(scores).max() == 1.0
