"""DPGIBOSearchCV without a guide: results, options, promises and refusals."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.gaussian_process.kernels import DotProduct
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _support.bounds import gaussian_delta
from _support.internals import TrajectoryRelease
from skdpbo import DPGIBOSearchCV
from skdpbo.exceptions import (
    BudgetExceededError,
    NoisyGradientWarning,
    PublicTrainingWarning,
    SeededNoiseWarning,
)
from skdpbo.model_selection import Descent, GradientSurrogate
from skdpbo.privacy import PrivacyLedger

pytestmark = pytest.mark.usefixtures("few_public_candidates")

RNG = np.random.RandomState(0)
X, X_VAL = np.zeros((6, 1)), np.zeros((2000, 1))
Y, Y_VAL = np.zeros(6), RNG.normal(scale=0.05, size=2000)
SPACE = {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (1e-2, 1e2, "log-uniform")}
BEST = {"a": 0.8, "b": 0.3, "c": 1.0}


class Bowl(RegressorMixin, BaseEstimator):
    """Predicts the distance of its parameters from the best ones."""

    def __init__(self, a=0.0, b=0.0, c=1.0, fails=False):
        self.a = a
        self.b = b
        self.c = c
        self.fails = fails

    def fit(self, X, y):
        if self.fails or (self.fails is None and self.a < 0.5):
            raise RuntimeError("a public error")
        self.n_features_in_ = np.shape(X)[1]
        return self

    def predict(self, X):
        distance = [self.a - BEST["a"], self.b - BEST["b"], np.log10(self.c / BEST["c"]) / 4]
        return np.full(len(X), np.linalg.norm(distance))


def make(estimator=None, space=None, **params):
    usual = {"n_iter": 4, "loss_bound": 1.0, "epsilon": 20.0, "guide": False, "init": None}
    params = usual | params
    search = DPGIBOSearchCV(
        Bowl() if estimator is None else estimator, SPACE if space is None else space
    )
    return search.set_params(**params)


def fit(search, X_val=X_VAL, y_val=Y_VAL, **params):
    return search.fit(X, Y, X_val=X_val, y_val=y_val, **params)


class TestResults:
    def test_finds_the_best(self):
        search = fit(make(n_iter=20, descent__learning_rate=0.3))
        assert search.best_params_["a"] == pytest.approx(BEST["a"], abs=0.1)
        assert search.best_params_["b"] == pytest.approx(BEST["b"], abs=0.1)
        assert np.log10(search.best_params_["c"]) == pytest.approx(0.0, abs=0.4)
        assert search.best_score_ == pytest.approx(0.0, abs=0.05)
        assert search.best_estimator_.get_params()["a"] == search.best_params_["a"]

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("averaging", [0.0, 0.5])
    @pytest.mark.parametrize("guide", [False, True])
    def test_attributes(self, averaging, guide):
        search = fit(make(descent=Descent(averaging=averaging), guide=guide, cv=2))
        params = search.cv_results_["params"]
        assert len(params) == 5 + bool(averaging)
        assert search.best_params_ == params[search.best_index_]
        assert params[0] == {"a": 0.5, "b": 0.5, "c": pytest.approx(1.0)}
        assert ("mean_test_score" in search.cv_results_) == guide
        assert hasattr(search, "n_splits_") == guide
        assert search.descent_.trajectory.shape == (5, 3)
        assert search.descent_.batch_sizes.tolist() == [4] * 4
        np.testing.assert_allclose(params[-1]["a"], search.descent_.final[0])
        for column, values in search.cv_results_.items():
            assert len(values) == len(params), column

    def test_several_metrics(self):
        scoring = ["neg_mean_squared_error", "r2"]
        search = make(scoring=scoring, refit="neg_mean_squared_error", guide=True, cv=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # R2 of constant targets
            fit(search)
        assert {"mean_test_neg_mean_squared_error", "mean_test_r2"} <= set(search.cv_results_)

    def test_integers_are_rounded_after_the_noise(self):
        space = {"a": (0.0, 1.0), "b": (0, 3)}
        search = fit(make(space=space))
        values = [params["b"] for params in search.cv_results_["params"]]
        assert {type(value) for value in values} == {int}
        points = search.descent_.trajectory[:, 1]
        assert not np.isin(points[1:], [0.125, 0.375, 0.625, 0.875]).any()

    def test_constants_and_distributions(self):
        search = fit(make(space={"a": stats.uniform(0.2, 0.4), "b": (0.0, 1.0), "c": [7.0]}))
        assert search.best_params_["c"] == 7.0
        assert 0.2 <= search.best_params_["a"] <= 0.6

    def test_start(self):
        for init in ({"a": 0.25, "b": 0.75, "c": 10.0}, [0.25, 0.75, 0.75]):
            search = fit(make(init=init))
            start = search.cv_results_["params"][0]
            assert start == {"a": 0.25, "b": 0.75, "c": pytest.approx(10.0)}

    def test_no_refit_no_score(self):
        search = fit(make(refit=False, score_fraction=0.0))
        assert not hasattr(search, "best_estimator_")
        assert not hasattr(search, "best_score_")
        assert not [part for part in search.privacy_.parts if "score" in part.mechanism]

    def test_the_score_is_one_release(self):
        # 2000 records and mu_score = .84 (epsilon 20): sd 1 / (2000 * .84) = .0006.
        search = fit(make(score_fraction=0.05))
        exact = -np.mean(np.square(search.best_estimator_.predict(X_VAL) - Y_VAL))
        assert search.best_score_ == pytest.approx(exact, abs=0.005)
        assert search.best_score_ != exact

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(
        "options",
        [
            {"descent": Descent(adaptive_clip=True)},
            {"descent__budget_schedule": "geometric", "descent__contraction": 0.8},
            {"surrogate__kernel": "matern52", "surrogate__length_scale": [0.5, 0.5, 1.0]},
            {"descent__optimizer": "adam"},
            {"descent__optimizer": "sgd", "surrogate__noise_variance": 0.01},
            {"surrogate__cache_size": 5},
            {"descent__tol": 0.5},
            {"descent__batch_size": 2},
            {"surrogate__fit_length_scale": True},
            {
                "surrogate": GradientSurrogate(
                    fit_length_scale=True, kernel="matern52", cache_size=5
                )
            },
            {"descent": Descent.paper(), "surrogate": GradientSurrogate.paper()},
            {"surrogate": GradientSurrogate.paper(kernel=DotProduct(1.0) ** 2)},
        ],
    )
    def test_options(self, options):
        search = fit(make(**options))
        assert search.descent_.trajectory.shape == (5, 3)
        assert search.privacy_.status == "conditional"  # the estimator is not on the list

    def test_progress(self, capsys):
        fit(make(verbose=1))
        assert capsys.readouterr().out.splitlines()[-1] == "step 4 of 4: 4 models"

    @pytest.mark.slow
    def test_pipeline_and_probabilities(self):
        rng = np.random.RandomState(1)
        rows = rng.normal(size=(2300, 3))
        labels = (rows[:, 0] + rng.normal(size=2300) > 0).astype(int)
        model = make_pipeline(StandardScaler(), LogisticRegression())
        search = DPGIBOSearchCV(
            model,
            {"logisticregression__C": (1e-4, 1e2, "log-uniform")},
            n_iter=3,
            epsilon=5.0,
            scoring="neg_log_loss",
        )
        search.fit(rows[:300], labels[:300], X_val=rows[300:], y_val=labels[300:])
        assert search.predict(rows).shape == (2300,)
        assert search.score(rows, labels) < 0
        assert list(search.classes_) == [0, 1]

    @pytest.mark.slow
    def test_two_jobs_do_what_one_does(self):
        with pytest.warns(SeededNoiseWarning):
            one, two = (fit(make(n_jobs=n, random_state=0)) for n in (1, 2))
        np.testing.assert_array_equal(one.descent_.trajectory, two.descent_.trajectory)


class TestFailures:
    def test_points_that_cannot_be_trained_count_with_the_worst_loss(self):
        start = {"a": 0.52, "b": 0.5, "c": 1.0}
        search = fit(make(Bowl(fails=None), init=start, n_iter=8, refit=False))
        assert search.best_params_["a"] > 0.5

    def test_a_final_point_that_cannot_be_trained(self):
        search = make(Bowl(fails=None), init=[0.501, 0.5, 0.5], n_iter=1, refit=False)
        space = {"a": (0.0, 1.0)}
        search.set_params(search_spaces=space, init=[0.501], surrogate__length_scale=0.05)
        fit(search)
        assert -1.0 <= search.best_score_ <= 0.0

    def test_all_points_fail(self):
        search = make(Bowl(fails=True))
        with PrivacyLedger(100.0, 1e-5) as ledger, pytest.raises(RuntimeError, match="public"):
            fit(search)
        assert ledger.entries == ()
        assert not hasattr(search, "privacy_")
        assert not hasattr(search, "descent_")

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("bad", [np.nan, np.inf, "text", None, 1e300])
    def test_bad_records(self, bad):
        targets = Y_VAL.tolist()
        targets[5] = bad
        search = fit(make(), y_val=targets)
        assert np.isfinite(search.descent_.trajectory).all()
        assert np.isfinite(search.best_score_)

    @pytest.mark.parametrize(
        ("params", "match"),
        [
            ({"search_spaces": {"a": [0.1, 0.2]}}, "DPBayesSearchCV"),
            ({"search_spaces": {"a": (0.0, 1.0), "zzz": (0.0, 1.0)}}, "zzz"),
            ({"surrogate__length_scale": [1.0, 2.0]}, "length_scale"),
            ({"surrogate__length_scale": [1.0, 2.0, np.nan]}, "length_scale"),
            (
                {"surrogate__length_scale": [1.0] * 3, "surrogate__fit_length_scale": True},
                "length_scale",
            ),
            ({"init": [0.5]}, "init"),
            ({"init": {"a": 5.0, "b": 0.1, "c": 1.0}}, "outside"),
            ({"delta": 0.0}, "delta"),
            ({"epsilon": 0.0}, "epsilon"),
            ({"descent__clip": 0.0}, "clip"),
            ({"n_iter": 0}, "n_iter"),
            ({"descent__optimizer": "newton"}, "optimizer"),
            ({"surrogate__kernel": "linear"}, "kernel"),
            ({"descent__averaging": 1.5}, "averaging"),
            ({"descent__contraction": 0.0}, "contraction"),
            ({"descent__batch_size": 0}, "batch_size"),
            ({"descent__tol": 1e30}, "tol must be below"),
            ({"descent__tol": 1e30, "init": None}, "tol must be below"),
            ({"descent__tol": 1e30, "guide": False}, "tol must be below"),
            ({"n_iter": 10**30}, "n_iter"),
            ({"score_fraction": 1.0}, "score_fraction"),
            ({"refit": lambda results: 0}, "refit"),
            ({"scoring": "r2"}, "r2"),
        ],
    )
    def test_refused_before_anything_is_spent(self, params, match):
        search = make().set_params(**params)
        with PrivacyLedger(100.0, 1e-5) as ledger, pytest.raises(ValueError, match=match):
            fit(search)
        assert ledger.entries == ()

    @pytest.mark.parametrize(
        "params",
        [{"epsilon": -1.0}, {"delta": 0.0}, {"score_fraction": 1.5}, {"descent__clip": -1.0}],
    )
    def test_privacy_is_checked_even_without_validation(self, params):
        search = make().set_params(**params)
        with config_context(skip_parameter_validation=True), pytest.raises(ValueError):
            fit(search)


class TestPromises:
    def test_mu_and_epsilon_agree(self):
        for epsilon in (0.1, 1.0, 5.0):
            search = make(epsilon=epsilon, delta=1e-6, end_fraction=0.0)
            guarantee = search.privacy_guarantee()
            assert (guarantee.epsilon, guarantee.delta) == (epsilon, 1e-6)
            assert gaussian_delta(guarantee.mu, epsilon) <= 1e-6
            assert gaussian_delta(guarantee.mu * (1 + 1e-6), epsilon) > 1e-6

    @pytest.mark.parametrize("fraction", [0.0, 0.1, 0.9])
    def test_the_parts_compose_to_the_whole(self, fraction):
        release = TrajectoryRelease(1.0, 1e-5, fraction)
        parts = release.mu_trajectory**2 + release.mu_score**2
        assert parts == pytest.approx(release.mu**2, rel=1e-12)
        assert release.mu_score**2 == pytest.approx(fraction * release.mu**2, rel=1e-9)

    def test_noise_scales_spend_the_trajectorys_share(self):
        for steps in (Descent(), Descent(budget_schedule="uniform"), Descent(adaptive_clip=True)):
            search = fit(make(descent=steps))
            mus = 2 * search.descent_.clips / (2000 * search.descent_.noise_scales)
            if steps.adaptive_clip:
                mus = mus / np.sqrt(0.9)
            release = TrajectoryRelease(20.0, 1e-5, 0.1, search.end_fraction)
            assert np.sqrt(np.sum(mus**2)) == pytest.approx(release.mu_trajectory, rel=1e-6)

    @pytest.mark.parametrize(
        ("epsilon", "delta"), [(1e-9, 1e-300), (1e-9, 0.5), (100.0, 1e-5), (1e6, 1e-5)]
    )
    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyGradientWarning")
    def test_any_budget(self, epsilon, delta):
        search = fit(
            make(epsilon=epsilon, delta=delta, n_iter=2, descent=Descent(adaptive_clip=True))
        )
        assert -1.0 <= search.best_score_ <= 0.0

    def test_a_seed_voids(self):
        with pytest.warns(SeededNoiseWarning):
            one = fit(make(random_state=3))
        with pytest.warns(SeededNoiseWarning):
            two = fit(make(random_state=3))
        assert one.privacy_.status == "void"
        np.testing.assert_array_equal(one.descent_.gradients, two.descent_.gradients)
        assert one.best_score_ == two.best_score_

    def test_ledger(self):
        search = make(epsilon=1.0, n_iter=2, descent=Descent(clip=0.1))
        with PrivacyLedger(1.0, 1e-5) as ledger:
            fit(search)
            assert ledger.spent().epsilon == pytest.approx(1.0)
            with pytest.raises(BudgetExceededError):
                fit(search)

    def test_rows_set_apart(self):
        with pytest.warns((PublicTrainingWarning, NoisyGradientWarning)):
            make().fit(np.zeros((60, 1)), np.zeros(60))

    def test_clone_and_pickle(self):
        search = fit(make())
        again = pickle.loads(pickle.dumps(search))
        np.testing.assert_array_equal(again.descent_.gradients, search.descent_.gradients)
        assert not hasattr(clone(search), "descent_")


class TestNoiseGuard:
    def test_warns_from_public_numbers(self):
        # 2 sqrt(T d) / (n mu), mu of epsilon 1 without a score .268: .129 at n = 200.
        search = make(epsilon=1.0, n_iter=1, space={"a": (0.0, 1.0)})
        search.set_params(score_fraction=0.0, end_fraction=0.0)
        messages = set()
        for scale in (0.0, 1.0, np.nan):
            with pytest.warns(NoisyGradientWarning, match=r"0.075|0.15") as caught:
                fit(search, X_VAL[:50], scale * Y_VAL[:50])
            messages.add(str(caught[0].message))
        assert len(messages) == 1

    def test_silent_with_enough_records(self):
        fit(make(epsilon=1.0, n_iter=1, space={"a": (0.0, 1.0)}))


@pytest.mark.slow
def test_ridge_in_ten_dimensions_is_searched_in_one_call():
    names = [f"w{j}" for j in range(10)]
    estimator = Scaled(**dict.fromkeys(names, 0.5))
    rng = np.random.RandomState(2)
    rows = rng.normal(size=(2600, 10))
    y = rows[:, 0] + rows[:, 1] + 0.1 * rng.normal(size=2600)
    search = DPGIBOSearchCV(
        estimator, dict.fromkeys(names, (0.0, 1.0)), n_iter=3, epsilon=10.0, loss_bound=4.0
    )
    search.fit(rows[:100], y[:100], X_val=rows[100:], y_val=y[100:])
    assert search.descent_.batch_sizes.tolist() == [11] * 3


class Scaled(RegressorMixin, BaseEstimator):
    """Ridge on columns that are weighted by parameters."""

    def __init__(self, w0=1, w1=1, w2=1, w3=1, w4=1, w5=1, w6=1, w7=1, w8=1, w9=1):
        for j, w in enumerate((w0, w1, w2, w3, w4, w5, w6, w7, w8, w9)):
            setattr(self, f"w{j}", w)

    def _weighted(self, X):
        return np.asarray(X) * [getattr(self, f"w{j}") for j in range(10)]

    def fit(self, X, y):
        self.model_ = Ridge(alpha=10.0).fit(self._weighted(X), y)
        return self

    def predict(self, X):
        return self.model_.predict(self._weighted(X))


@pytest.mark.parametrize("guide", [True, False])
def test_an_epsilon_that_leaves_no_noise_is_refused_before_the_charge(guide):
    search = DPGIBOSearchCV(LogisticRegression(), {"C": (0.1, 1.0)}, epsilon=1e100, guide=guide)
    X, y = np.arange(40.0)[:, None], np.resize([0, 1], 40)
    with PrivacyLedger(epsilon=1e101, delta=0.1) as ledger:
        with pytest.raises(ValueError, match="epsilon is too large"):
            search.fit(X[:20], y[:20], X_val=X[20:], y_val=y[20:])
        assert not ledger.entries
