import pickle

import numpy as np
import pytest
from joblib import parallel_config
from scipy.stats import chi2
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.gaussian_process.kernels import RBF, DotProduct
from sklearn.linear_model import Ridge

from _support.internals import coarse_step, trajectory_sensitivity
from _support.protections import without_numbers
from skdpbo import DPBayesSearchCV
from skdpbo.model_selection import GaussianTrajectory, Kusner2015, Kusner2015Lipschitz
from skdpbo.privacy import PrivacyLedger, mu_from_epsilon

RNG = np.random.RandomState(0)
X, Y = RNG.normal(size=(60, 2)), RNG.uniform(size=60)
X_VAL, Y_VAL = RNG.normal(size=(400, 2)), np.zeros(400)
SPACE = {"level": (0.0, 1.0)}
DELTA = 1e-5


class Level(RegressorMixin, BaseEstimator):
    """Predicts |level - .6| for every row: with targets 0 that is each record's loss."""

    def __init__(self, level=0.0, fails_above=2.0):
        self.level = level
        self.fails_above = fails_above

    def fit(self, X, y):
        if self.level > self.fails_above:
            raise ValueError("cannot be trained")
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return np.full(len(X), abs(self.level - 0.6))


def search(mechanism="gaussian", **params):
    settings = {
        "n_iter": 12,
        "n_candidates": 40,
        "cv": 2,
        "scoring": "neg_mean_absolute_error",
        "loss_bound": 1.0,
        "mechanism": mechanism,
    }
    space = params.pop("space", SPACE)
    return DPBayesSearchCV(params.pop("estimator", Level()), space, **(settings | params))


def fitted(*args, **params):
    return search(*args, **params).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)


def scores_without_noise(fit):
    return np.array([-abs(params["level"] - 0.6) for params in fit.cv_results_["params"]])


class TestGaussian:
    @pytest.mark.parametrize("guide", [True, False])
    def test_much_budget_finds_the_best_and_tells_its_score(self, guide):
        fit = fitted(epsilon=1e6, guide=guide)
        exact, noisy = scores_without_noise(fit), fit.cv_results_["private_validation_score"]
        assert len(exact) == 12
        measured = np.isfinite(noisy)
        assert np.allclose(noisy[measured], exact[measured], atol=1e-3)
        assert exact[fit.best_index_] == pytest.approx(exact[measured].max(), abs=1e-3)
        assert fit.best_score_ == pytest.approx(exact[fit.best_index_], abs=5e-3)
        assert measured.all() or guide

    def test_the_private_scores_lead_away_from_what_the_public_ones_say(self):
        # Public targets are uniform, so the public scores favour another level than .6 + 0.
        fit = fitted(epsilon=1e6)
        assert fit.best_params_["level"] == pytest.approx(0.6, abs=0.05)

    def test_guarantee_is_known_before_and_holds_all_of_the_budget(self):
        before = search(epsilon=2.0).privacy_guarantee()
        after = fitted(epsilon=2.0).privacy_
        assert before == without_numbers(after)
        assert (after.n_protected, after.n_public) == (400, 60)
        assert (after.epsilon, after.delta, after.status) == (
            2.0,
            DELTA,
            "conditional",
        )  # steps of its own
        assert after.mu == pytest.approx(mu_from_epsilon(2.0, DELTA), rel=1e-8)

    @pytest.mark.parametrize(
        ("n_private", "guide", "q"),
        [pytest.param(1, True, 1, marks=pytest.mark.slow), ("auto", False, 12)],
    )
    def test_noise_has_the_stated_variance(self, n_private, guide, q):
        noise = []
        while len(noise) < 24:
            fit = fitted(GaussianTrajectory(n_private=n_private), guide=guide, n_iter=12)
            errors = fit.cv_results_["private_validation_score"] - scores_without_noise(fit)
            noise += errors[np.isfinite(errors)].tolist()
        sd = np.sqrt(q) / (400 * mu_from_epsilon(1.0, DELTA))
        p_value = chi2.sf(np.sum(np.square(noise)) / sd**2, len(noise))
        assert 5e-7 < p_value < 1 - 5e-7  # false alarm 1e-6

    def test_n_private_bounds_the_number_of_private_scores(self):
        for n_private in (1, 4, 100):
            fit = fitted(GaussianTrajectory(n_private=n_private))
            measured = np.isfinite(fit.cv_results_["private_validation_score"])
            assert 1 <= measured.sum() <= min(n_private, 12)

    def test_batches_in_parallel(self):
        with parallel_config(backend="threading"):
            fit = fitted(epsilon=1e6, batch_size=3, n_jobs=2)
        assert len(fit.cv_results_["params"]) == 12
        assert fit.best_params_["level"] == pytest.approx(0.6, abs=0.05)

    @pytest.mark.parametrize("guide", [True, False])
    @pytest.mark.filterwarnings(
        "ignore:One or more of the test scores", "ignore::sklearn.exceptions.FitFailedWarning"
    )
    def test_candidates_that_cannot_be_trained_do_not_win(self, guide):
        fit = fitted(estimator=Level(fails_above=0.4), epsilon=1e6, guide=guide)
        assert fit.best_params_["level"] <= 0.4
        failed = np.array([params["level"] > 0.4 for params in fit.cv_results_["params"]])
        noisy = fit.cv_results_["private_validation_score"]
        assert np.isnan(noisy[failed]).all()
        assert np.nanmin(noisy) < np.nanmax(noisy) - 0.1  # the others are scored
        assert noisy[fit.best_index_] == pytest.approx(np.nanmax(noisy), abs=1e-3)

    @pytest.mark.parametrize("guide", [True, False])
    def test_the_public_error_is_raised_when_no_candidate_can_be_trained(self, guide):
        with pytest.raises(ValueError, match="cannot be trained"):
            fitted(estimator=Level(fails_above=-1.0), guide=guide)

    def test_score_stays_in_its_range(self):
        for _ in range(5):
            assert -1.0 <= fitted(epsilon=1e-3, guide=False).best_score_ <= 0.0

    def test_delta_must_be_positive(self):
        with pytest.raises(ValueError, match="delta must be positive"):
            fitted(delta=0.0)

    def test_sensitivity_against_brute_force(self):
        units = 7
        for q in (1, 2, 3, 50):
            largest = np.linalg.norm(np.full(q, units))  # one record, all q losses from 0 to B
            assert largest <= trajectory_sensitivity(units, q) <= largest * (1 + 1e-14)

    @pytest.mark.parametrize("moved", [1, 2**20, 2**21 - 1, 2**21, 2**22 + 5, 3 * 2**40 + 7])
    def test_a_coarse_total_moves_no_more_than_stated(self, moved):
        step, coarse = coarse_step(moved)
        starts = [*range(min(step, 5)), *range(max(step - 5, 0), step)]
        largest = max((start + moved) // step - start // step for start in starts)
        assert largest <= coarse <= largest * (1 + 2**-19)
        assert step == 1 or coarse * step <= moved * (1 + 2**-19)
        assert coarse < 2**21


class TestParameters:
    @pytest.mark.parametrize(
        ("parameters", "error", "match"),
        [
            ({"n_private": 0}, ValueError, "n_private"),
            ({"n_private": 2.5}, TypeError, "n_private"),
            ({"n_private": True}, TypeError, "n_private"),
            ({"n_private": "all"}, TypeError, "n_private"),
            ({"disagreement": 0.0}, ValueError, "disagreement"),
            ({"disagreement": np.nan}, ValueError, "disagreement"),
            ({"disagreement": "none"}, TypeError, "disagreement"),
            ({"disagreement": 1e308}, ValueError, "disagreement"),
        ],
    )
    def test_bad_ones_are_refused_by_name_before_anything_is_charged(
        self, parameters, error, match
    ):
        with PrivacyLedger(epsilon=9.0, delta=1e-3) as ledger:
            with pytest.raises(error, match=match):
                fitted(GaussianTrajectory(**parameters))
            assert not ledger.entries

    @pytest.mark.parametrize(
        ("name", "value"),
        [("information_gain", 0.1), ("kernel", DotProduct()), ("kernel", RBF(np.nan))],
    )
    def test_public_mistakes_about_the_prior_are_refused_before_the_charge(self, name, value):
        with PrivacyLedger(epsilon=9.0, delta=1e-3) as ledger:
            with pytest.raises(ValueError, match=name):
                fitted(Kusner2015(**{name: value}), guide=False)
            assert not ledger.entries

    @pytest.mark.parametrize("A", [np.float32(0.5), 1e100])
    def test_numbers_of_any_type_bound_the_regret(self, A):
        assert fitted(Kusner2015(noise_variance=0, A=A), guide=False).best_score_std_ > 0

    @pytest.mark.parametrize(
        ("mechanism", "guide"),
        [
            ("permute_and_flip", False),
            ("exponential", False),
            (Kusner2015(), True),
            (Kusner2015Lipschitz(lipschitz=1.0, lambda_name="level"), False),
        ],
    )
    def test_a_mechanism_says_when_it_needs_or_refuses_guidance(self, mechanism, guide):
        with pytest.raises(ValueError, match=f"guide must be {not guide}"):
            fitted(mechanism, guide=guide)

    @pytest.mark.parametrize("mechanism", [GaussianTrajectory(n_private=3), Kusner2015()])
    def test_mechanism_objects_survive_clone_and_pickle(self, mechanism):
        original = search(mechanism, guide=False)
        for copy in (clone(original), pickle.loads(pickle.dumps(original))):
            assert copy.mechanism == mechanism
        pickle.loads(pickle.dumps(fitted(mechanism, guide=False))).predict(X)

    def test_bad_lambdas_are_refused_before_anything_is_charged(self):
        mechanism = Kusner2015Lipschitz(lipschitz=1.0, lambda_name="alpha")
        with PrivacyLedger(epsilon=9.0) as ledger:
            with pytest.raises(ValueError, match="lambda_name"):
                fitted(mechanism)
            assert not ledger.entries


class TestKusner:
    def test_the_whole_candidate_set_is_listed_and_nothing_of_the_trajectory(self):
        fit = fitted(Kusner2015(), guide=False)
        assert len(fit.cv_results_["params"]) == 40
        assert set(fit.cv_results_) == {"params", "param_level"}
        assert -1.0 <= fit.best_score_ <= 0.0
        assert fit.privacy_.status == "conditional"
        assert (fit.privacy_.epsilon, fit.privacy_.delta) == (1.0, DELTA)

    def test_no_score_without_its_share(self):
        assert not hasattr(fitted(Kusner2015(), guide=False, score_fraction=0), "best_score_")

    def test_much_budget_finds_the_best(self):
        fit = fitted(Kusner2015(noise_variance=1e-6), guide=False, epsilon=1e9)
        assert fit.best_params_["level"] == pytest.approx(0.6, abs=0.05)

    def test_lipschitz_score_and_proved_choice(self):
        ridge = search(
            Kusner2015Lipschitz(lipschitz=0.25, lambda_name="alpha"),
            estimator=Ridge(),
            space={"alpha": (1.0, 2.0)},
            epsilon=1e8,
        ).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
        models = [Ridge(**p).fit(X, Y) for p in ridge.cv_results_["params"]]
        best = max(-np.abs(model.predict(X_VAL)).clip(0, 1).mean() for model in models)
        assert ridge.best_score_ == pytest.approx(best, abs=1e-3)
        assert ridge.privacy_.status == "conditional"
        assert "mean_test_score" in ridge.cv_results_


class TestAcquisition:
    def test_expected_improvement_of_public_scores(self):
        """Other candidates than GP-UCB, of which the public best is found."""
        public = {
            name: fitted("permute_and_flip", acquisition=name, epsilon=1e6, cv=4)
            for name in ("ucb", "ei")
        }
        first, second = ([p["level"] for p in fit.cv_results_["params"]] for fit in public.values())
        assert first[:5] == second[:5]
        assert set(first) != set(second)
        tops = [fit.cv_results_["mean_test_score"].max() for fit in public.values()]
        assert tops[0] == pytest.approx(tops[1], abs=0.01)
        assert public["ei"].privacy_ == public["ucb"].privacy_

    def test_algorithm_3_with_expected_improvement(self):
        """Unseeded noise of scale 2e-6: a false alarm has a probability below 1e-100."""
        mechanism = Kusner2015Lipschitz(lipschitz=1.0, lambda_name="level")
        settings = {"space": {"level": (0.1, 1.0)}, "epsilon": 1e6, "score_fraction": 0.5}
        fit = fitted(mechanism, acquisition="ei", **settings)
        visited = scores_without_noise(fit)
        assert fit.best_score_ == pytest.approx(visited.max(), abs=1e-3)
        assert fit.privacy_.status == "conditional"

    @pytest.mark.parametrize("acquisition", ["ucb", "ei"])
    def test_algorithm_3_with_a_secret_trajectory(self, acquisition):
        """Unseeded noise as above. The best of few visits is better than a candidate on average."""
        mechanism = Kusner2015Lipschitz(lipschitz=1.0, lambda_name="level", trajectory="secret")
        settings = {"space": {"level": (0.1, 1.0)}, "epsilon": 1e6, "score_fraction": 0.5}
        fit = fitted(mechanism, acquisition=acquisition, guide=False, **settings)
        exact = scores_without_noise(fit)
        assert len(exact) == 40
        assert set(fit.cv_results_) == {"params", "param_level"}
        assert exact[fit.best_index_] == exact.max()
        assert np.mean(exact) < fit.best_score_ <= exact.max() + 1e-3
        assert np.abs(exact - fit.best_score_).min() < 1e-3
        assert fit.privacy_.status == "conditional"
        assert "trajectory secret" in fit.privacy_.mechanism

    def test_a_secret_trajectory_needs_no_public_scores(self):
        mechanism = Kusner2015Lipschitz(lipschitz=1.0, lambda_name="level", trajectory="secret")
        with PrivacyLedger(epsilon=9.0) as ledger:
            with pytest.raises(ValueError, match="guide must be False"):
                fitted(mechanism, space={"level": (0.1, 1.0)})
            assert not ledger.entries

    def test_a_secret_trajectory_needs_a_space_of_lambda_alone(self):
        mechanism = Kusner2015Lipschitz(lipschitz=1.0, lambda_name="level", trajectory="secret")
        space = {"level": (0.1, 1.0), "fails_above": [2.0, 3.0]}
        with PrivacyLedger(epsilon=9.0) as ledger:
            with pytest.raises(ValueError, match="only parameter of the search, got fails_above"):
                fitted(mechanism, space=space, guide=False)
            assert not ledger.entries
        public = Kusner2015Lipschitz(lipschitz=1.0, lambda_name="level")
        assert fitted(public, space=space).privacy_.status == "conditional"

    @pytest.mark.parametrize("mechanism", ["gaussian", GaussianTrajectory(), Kusner2015()])
    def test_is_refused_where_the_bound_is_meant(self, mechanism):
        ledger = PrivacyLedger(epsilon=9.0, delta=0.1)
        guide = not isinstance(mechanism, Kusner2015)
        with ledger, pytest.raises(ValueError, match='acquisition="ei" needs'):
            fitted(mechanism, acquisition="ei", guide=guide)
        assert ledger.remaining().epsilon == 9.0
        with pytest.raises(ValueError, match="acquisition"):
            fitted("permute_and_flip", acquisition="poi")
