"""``protect="all"`` by private selection: what a fit does, charges, publishes and refuses."""

import math
import pickle
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from _support.bounds import gaussian_delta
from _support.internals import plan_trials
from _support.noted import NotingRows
from _support.planted import put
from _support.protections import private_selection, without_numbers
from skdpbo import DPGridSearchCV, DPRandomizedSearchCV, DPSparseGPRegressor
from skdpbo.exceptions import (
    BudgetExceededError,
    DefaultBoundsWarning,
    DryRunWarning,
    NoisyScoreWarning,
    SeededNoiseWarning,
    SelectionCostWarning,
    VoidGuaranteeWarning,
)
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.mechanisms import DiscreteLaplace, GaussianMechanism, noise_source
from skdpbo.model_selection import PrivateSelection
from skdpbo.preprocessing import DPStandardScaler
from skdpbo.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    PrivacyProfile,
    TrialLaw,
    candidate_mu,
    charge_active_ledger,
    epsilon_from_mu,
    mu_from_epsilon,
    selection_guarantee,
)

UNITS = 2**20


class DPMean(RegressorMixin, BaseEstimator):
    """Mean of targets in [-1, 1] with Gaussian noise, times a factor: a tiny private model."""

    def __init__(self, factor=1.0, epsilon=1.0, delta=1e-5, random_state=None):
        self.factor = factor
        self.epsilon = epsilon
        self.delta = delta
        self.random_state = random_state

    def privacy_guarantee(self, n_samples=None):
        guarantee = PrivacyGuarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            mu=mu_from_epsilon(self.epsilon, self.delta),
            protects="training records",
            mechanism="noisy mean",
        )
        return guarantee if self.random_state is None else guarantee.voided("seeded")

    def fit(self, X, y):
        guarantee = self.privacy_guarantee()
        charge_active_ledger(guarantee, "DPMean")
        X = np.asarray(X, dtype=float)
        total = int(np.rint(np.clip(np.asarray(y, dtype=float), -1, 1) * UNITS).sum())
        noise = GaussianMechanism(mu=guarantee.mu, sensitivity=2 * UNITS, lattice=1.0, n_draws=1)
        noisy = int(noise.release(total, source=noise_source(self.random_state)))
        self.mean_ = self.factor * noisy / UNITS / len(X)
        self.n_features_in_, self.privacy_ = X.shape[1], guarantee
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


class PureMean(DPMean):
    """The same with Laplace noise; it has no delta."""

    def __init__(self, factor=1.0, epsilon=1.0, random_state=None):
        self.factor = factor
        self.epsilon = epsilon
        self.random_state = random_state

    def privacy_guarantee(self, n_samples=None):
        return PrivacyGuarantee(epsilon=self.epsilon, protects="training records")

    def fit(self, X, y):
        total = int(np.rint(np.clip(np.asarray(y, dtype=float), -1, 1) * UNITS).sum())
        noisy = DiscreteLaplace(self.epsilon, 2 * UNITS).release(
            total, source=noise_source(self.random_state)
        )
        self.mean_, self.n_features_in_ = self.factor * int(noisy) / UNITS / len(X), np.shape(X)[1]
        return self


class Foreign(DPMean):
    """Private, but states nothing."""

    privacy_guarantee = None

    def fit(self, X, y):
        self.mean_ = self.factor * DPMean(epsilon=self.epsilon, delta=self.delta).fit(X, y).mean_
        self.n_features_in_ = np.shape(X)[1]
        return self


RNG = np.random.RandomState(0)
X, Y = RNG.normal(size=(400, 2)), np.clip(0.5 + 0.1 * RNG.normal(size=400), -1, 1)
GRID = {"factor": [-1.0, 0.0, 0.5, 1.0, 2.0]}
OPTIONS = {"protect": "all", "epsilon": 2.0, "loss_bound": 1.0}


def grid(estimator=None, space=None, **params):
    space = GRID if space is None else space
    names = {"selection", "estimator_guarantee"} & set(params)
    own = {name: params.pop(name) for name in names}
    if own:
        params["protect"] = private_selection(**own)
    return DPGridSearchCV(DPMean() if estimator is None else estimator, space, **OPTIONS | params)


class TestRelease:
    @pytest.mark.parametrize("selection", ["profile", "papernot_steinke", "liu_talwar"])
    def test_what_is_published(self, selection):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SelectionCostWarning)
            search = grid(selection=selection, epsilon=20.0).fit(X, Y)
        public = {"cv_results_", "multimetric_", "scorer_", "expected_trials_", "hit_probability_"}
        released = {"best_index_", "best_params_", "best_score_", "best_estimator_", "privacy_"}
        released |= {"best_score_std_"}
        assert {name for name in vars(search) if name.endswith("_")} == public | released
        assert set(search.cv_results_) == {"params", "param_factor"}
        assert search.cv_results_["params"] == [{"factor": value} for value in GRID["factor"]]
        assert search.best_params_ == search.cv_results_["params"][search.best_index_]
        assert search.best_estimator_.factor == search.best_params_["factor"]
        assert -1 <= search.best_score_ <= 0
        assert search.predict(X[:2]).tolist() == [search.best_estimator_.mean_] * 2
        assert np.isfinite(search.score(X, Y))

    def test_the_model_states_the_cost_of_the_search(self):
        search = grid().fit(X, Y)
        assert search.best_estimator_.privacy_ is search.privacy_
        assert search.privacy_.epsilon == 2.0
        assert search.privacy_.delta == 1e-5
        assert search.privacy_.protects == "training and validation records"
        assert search.privacy_.status == "conditional"  # DPMean is not on the list
        assert any("number of trials" in text for text in search.privacy_.assumptions)
        assert without_numbers(search.privacy_) == search.privacy_guarantee()

    def test_without_refit_no_model_is_kept(self):
        search = grid(refit=False).fit(X, Y)
        assert not hasattr(search, "best_estimator_")
        assert search.best_params_ in search.cv_results_["params"]

    def test_validation_rows_of_their_own(self):
        # The models predict about 1 from X; the validation rows say -1.
        space = {"factor": [-1.0, 1.0]}
        search = grid(space=space, epsilon=20.0, selection="composition").fit(
            X, np.ones(400), X_val=X[:300].copy(), y_val=-np.ones(300)
        )
        assert search.best_params_ == {"factor": -1.0}
        assert search.privacy_.n_protected == 700

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.DryRunWarning")
    def test_a_fit_that_fails_leaves_nothing_of_an_earlier_one(self):
        class Broken(DPMean):
            def fit(self, X, y):
                raise ValueError("cannot be fitted")

        search = grid().fit(X, Y).set_params(estimator=Broken())
        with pytest.raises(ValueError, match=r"cannot be fitted|no model"):
            search.fit(X, Y)
        assert not [name for name in vars(search) if name.endswith("_")]

    def test_training_and_validation_rows_are_disjoint(self, monkeypatch):
        seen = {"train": [], "score": []}

        class Spy(DPMean):
            def fit(self, X, y):
                if len(X) > 100:  # not the dry run
                    seen["train"].append(frozenset(np.asarray(X)[:, 0].tolist()))
                return super().fit(X, y)

            def predict(self, X):
                if len(X) > 61:  # not the dry run
                    seen["score"].append(frozenset(np.asarray(X)[:, 0].tolist()))
                return super().predict(X)

        rows = np.arange(800.0).reshape(400, 2)
        grid(Spy()).fit(rows, Y)
        (train,), (score,) = set(seen["train"]), set(seen["score"])
        assert not train & score
        assert train | score == set(rows[:, 0].tolist())

    @pytest.mark.slow
    def test_randomized_search_tunes_the_sparse_process(self):
        gp = DPSparseGPRegressor(X_bounds=(-3, 3), y_bounds=(-1, 1), inducing_points=6)
        search = DPRandomizedSearchCV(
            gp, {"kernel": [RBF(length) for length in (0.3, 1.0, 3.0)]}, n_iter=3, **OPTIONS
        )
        search.fit(X[:, :1], np.sin(X[:, 0]))
        assert isinstance(search.best_estimator_, DPSparseGPRegressor)
        assert search.best_estimator_.privacy_ is search.privacy_
        mean, std = search.best_estimator_.predict(X[:3, :1], return_std=True)
        assert mean.shape == std.shape == (3,)

    def test_frames(self):
        frame = pd.DataFrame(X, columns=["a", "b"])
        search = grid(make_pipeline(Normalizer(), DPMean()), {"dpmean__factor": [0.5, 1.0, 2.0]})
        search.fit(frame, pd.Series(Y))
        assert search.feature_names_in_.tolist() == ["a", "b"]
        assert search.best_estimator_[-1].privacy_ is search.privacy_

    def test_classes_are_not_learned_from_the_targets(self):
        class DPMajority(ClassifierMixin, DPMean):
            def fit(self, X, y):
                super().fit(X, np.where(np.asarray(y) == "yes", 1.0, -1.0))
                self.classes_ = np.array(["no", "yes"])
                return self

            def predict(self, X):
                return np.repeat(self.classes_[int(self.mean_ > 0)], len(X))

        y = np.where(np.arange(400) % 4 > 0, "yes", "no")
        space = {"factor": [-1.0, 1.0, 3.0]}
        search = grid(DPMajority(), space, loss_bound=None, selection="composition", epsilon=9.0)
        assert search.fit(X, y).best_params_["factor"] > 0
        assert search.best_score_ == pytest.approx(0.75, abs=0.25)
        assert search.score(X, y) == 0.75

    def test_pickled_and_cloned(self):
        search = grid().fit(X, Y)
        copy = pickle.loads(pickle.dumps(search))
        assert copy.best_params_ == search.best_params_
        assert copy.privacy_ == search.privacy_
        assert not hasattr(clone(search), "best_params_")

    @pytest.mark.slow
    def test_many_trials_find_the_best(self, monkeypatch):
        # 5 candidates: 100 trials miss one with probability 2e-10.
        put(monkeypatch, "trials: draw_trials", lambda *a, **k: 100)
        search = grid(epsilon=100.0).fit(X, Y)
        assert search.best_params_ == {"factor": 1.0}
        assert search.best_score_ == pytest.approx(-0.01, abs=0.05)


class TestBudget:
    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
    @pytest.mark.parametrize("eta", [0.0, 1.0])
    def test_candidates_get_what_the_total_allows(self, epsilon, eta):
        selection = PrivateSelection(expected_trials=20, eta=eta)
        search = grid(epsilon=epsilon, selection=selection).fit(X, Y)
        law = TrialLaw(20, eta)
        stated = search.best_estimator_.privacy_guarantee()
        assert stated.mu <= candidate_mu(epsilon, 1e-5, law)
        assert stated.mu == pytest.approx(candidate_mu(epsilon, 1e-5, law), rel=1e-6)
        assert selection_guarantee(stated, law, delta=1e-5).epsilon <= epsilon
        assert search.expected_trials_ == 20
        assert search.hit_probability_ == law.hit_probability(1 / 5)

    def test_default_number_of_trials(self):
        assert PrivateSelection().law(4).mean == 12
        assert PrivateSelection().law(1000).mean == 30
        assert TrialLaw(3 * 50).hit_probability(1 / 50) == pytest.approx(0.75, abs=0.01)
        assert TrialLaw(30).hit_probability(0.1) == pytest.approx(0.77, abs=0.005)

    @pytest.mark.parametrize("delta", [0.0, 1e-5])
    def test_pure_estimators(self, delta):
        search = grid(PureMean(), epsilon=1.0, delta=delta).fit(X, Y)
        law = TrialLaw(15)
        stated = search.best_estimator_.privacy_guarantee()
        assert stated.delta == 0
        assert 1 / 3 < stated.epsilon < 1
        total = selection_guarantee(stated, law, delta=delta)
        assert 1 - 1e-6 < total.epsilon <= 1
        assert search.privacy_.delta == delta

    def test_composition(self):
        search = grid(selection="composition", epsilon=50.0).fit(X, Y)
        scores = search.cv_results_["private_validation_score"]
        assert scores.shape == (5,)
        assert search.best_score_ == scores.max()
        assert search.best_index_ == scores.argmax() == 3
        assert search.best_estimator_.privacy_guarantee().mu == pytest.approx(
            mu_from_epsilon(50.0, 1e-5) / math.sqrt(5), rel=1e-6
        )
        assert search.privacy_.mu == pytest.approx(mu_from_epsilon(50.0, 1e-5), rel=1e-6)
        assert search.privacy_.epsilon == 50.0
        assert search.expected_trials_ == 5

    @pytest.mark.slow
    @pytest.mark.parametrize("estimator", [DPMean(), PureMean()])
    def test_composition_of_few_is_advised(self, estimator):
        with pytest.warns(SelectionCostWarning, match="2 candidate"):
            grid(estimator, {"factor": [0.5, 1.0]}).fit(X, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", NoisyScoreWarning)  # as the noise falls
            grid(estimator, {"factor": [0.5, 1.0]}, selection="composition").fit(X, Y)
            grid(estimator, {"factor": np.linspace(0, 1, 30)}).fit(X, Y)

    def test_several_private_steps_compose(self):
        class DPShift(DPMean):
            def fit(self, X, y):
                return super().fit(X, X[:, 0])

            def transform(self, X):
                return X - self.mean_

        model = make_pipeline(DPShift(), PureMean())
        search = grid(model, {"puremean__factor": [0.5, 1.0, 2.0]}).fit(X, Y)
        law = TrialLaw(9)
        shift, mean = (step.privacy_guarantee() for step in search.best_estimator_)
        share = candidate_mu(2.0, 1e-5, law) / math.sqrt(2)
        assert shift.mu == pytest.approx(share, rel=1e-6)
        p = 1 / (1 + math.exp(-mean.epsilon))
        from scipy.special import ndtri

        assert 2 * ndtri(p) == pytest.approx(share, rel=1e-6)
        assert all(step.privacy_ is search.privacy_ for step in search.best_estimator_[:1])

    def test_the_sentence_names_all_steps_of_a_candidate(self):
        bounds = {"X_bounds": (-3, 3)}
        steps = [DPStandardScaler(**bounds), DPRidge(y_bounds=(-3, 3), **bounds)]
        stated = grid(make_pipeline(*steps), {"dpridge__alpha": [1.0]}).privacy_guarantee(400)
        names = [step.privacy_guarantee().mechanism for step in steps]
        assert f"each {' + '.join(names)}" in stated.mechanism

    def test_a_cap_is_charged(self):
        free = grid().fit(X, Y).best_estimator_.privacy_guarantee().mu
        selection = PrivateSelection(max_trials=195)
        capped = grid(selection=selection).fit(X, Y).best_estimator_.privacy_guarantee().mu
        assert 0.98 * free < capped < 0.9999 * free
        with pytest.raises(ValueError, match="cap"):
            grid(selection=PrivateSelection(max_trials=150)).fit(X, Y)


class TestDeclared:
    def test_a_fixed_cost_that_fits(self):
        mu = 0.9 * candidate_mu(2.0, 1e-5, TrialLaw(15))
        epsilon = epsilon_from_mu(mu, 1e-6)
        cost = PrivacyGuarantee(epsilon=epsilon, delta=1e-6, mu=mu)
        search = grid(Foreign(epsilon=epsilon, delta=1e-6), estimator_guarantee=cost).fit(X, Y)
        assert search.best_estimator_.epsilon == epsilon
        assert search.privacy_.status == "conditional"
        assert search.privacy_.epsilon == 2.0
        assert "estimator_guarantee" in str(search.privacy_)

    def test_one_that_does_not_fit_says_what_would(self):
        cost = PrivacyGuarantee(epsilon=2.0, delta=1e-6, mu=0.3)
        with pytest.raises(ValueError, match=r"at most mu=0\.\d+ \(epsilon=.*raise epsilon"):
            grid(Foreign(), estimator_guarantee=cost, epsilon=1.0).fit(X, Y)

    @pytest.mark.slow
    def test_without_a_curve(self):
        cost = PrivacyGuarantee(epsilon=0.3, delta=1e-7)
        search = grid(Foreign(epsilon=0.3, delta=1e-7), estimator_guarantee=cost).fit(X, Y)
        assert search.privacy_.epsilon == 2.0
        with pytest.raises(ValueError, match="delta"):
            grid(Foreign(), estimator_guarantee=PrivacyGuarantee(epsilon=0.3, delta=1e-5)).fit(X, Y)

    def test_a_callable_is_called_for_each_candidate(self):
        requested = []

        def cost(estimator, n_samples):
            requested.append((estimator.epsilon, n_samples))
            return PrivacyGuarantee(epsilon=estimator.epsilon)

        search = grid(Foreign(), {"epsilon": [0.1, 0.5, 0.2]}, estimator_guarantee=cost).fit(X, Y)
        assert requested == [(0.1, 320), (0.5, 320), (0.2, 320)]
        assert search.privacy_.epsilon == 2.0
        with pytest.raises(ValueError, match="at most"):
            grid(Foreign(), {"epsilon": [0.1, 1.5, 0.2]}, estimator_guarantee=cost).fit(X, Y)

    def test_costs_of_different_deltas(self):
        def cost(estimator, n_samples):
            return PrivacyGuarantee(epsilon=0.1, delta=1e-8 * estimator.epsilon)

        search = grid(Foreign(), {"epsilon": [0.1, 0.5, 0.2]}, estimator_guarantee=cost)
        assert search.privacy_guarantee(400).delta == 1e-5

    def test_one_guarantee_cannot_stand_for_tuned_budgets(self):
        cost = PrivacyGuarantee(epsilon=0.1)
        with pytest.raises(ValueError, match=r"epsilon.*callable"):
            grid(Foreign(), {"epsilon": [0.1, 0.2]}, estimator_guarantee=cost).fit(X, Y)

    def test_a_seed_voids_it(self):
        cost = PrivacyGuarantee(epsilon=0.1)
        with pytest.warns(VoidGuaranteeWarning, match="random_state"):
            search = grid(Foreign(random_state=3), estimator_guarantee=cost).fit(X, Y)
        assert search.privacy_.status == "void"

    @pytest.mark.parametrize(
        "kind", ["profile", *(pytest.param(k, marks=pytest.mark.slow) for k in ("delta", "call"))]
    )
    def test_a_whole_profile(self, kind):
        mu = 0.9 * candidate_mu(2.0, 1e-5, TrialLaw(15))
        cost = PrivacyGuarantee(epsilon=epsilon_from_mu(mu, 1e-6), delta=1e-6, mu=mu)
        profile = PrivacyProfile(cost)

        def delta(epsilon):
            return profile.delta(epsilon)

        declared = {"profile": profile, "delta": delta, "call": lambda estimator, n_samples: delta}
        search = grid(Foreign(), estimator_guarantee=declared[kind]).fit(X, Y)
        assert (search.privacy_.epsilon, search.privacy_.delta) == (2.0, 1e-5)
        assert search.privacy_.status == "conditional"
        assert "estimator_guarantee" in str(search.privacy_)

    def test_a_number_of_samples_with_a_default(self):
        def stated(estimator, n_samples=None):  # as `privacy_guarantee` of an estimator
            return PrivacyGuarantee(epsilon=0.1 * n_samples / 60)

        assert self.planned(stated).guarantee.status == "conditional"

    def planned(self, stated):
        return plan_trials(
            Foreign(),
            [{}] * 5,
            PrivateSelection(estimator_guarantee=stated),
            epsilon=2.0,
            delta=1e-5,
            n_samples=60,
        )

    def test_a_profile_that_was_given_its_number_of_samples(self):
        def delta(epsilon, n_samples):
            bound = 6 / n_samples
            return np.maximum(np.exp(bound) - np.exp(epsilon), 0) / (np.exp(bound) + 1)

        known = self.planned(lambda epsilon: delta(epsilon, 60)).guarantee
        assert self.planned(partial(delta, n_samples=60)).guarantee == known

    def test_a_profile_that_does_not_state_the_total(self):
        mu = 0.45 * candidate_mu(2.0, 1e-5, TrialLaw(15))
        half = PrivacyProfile(
            PrivacyGuarantee(epsilon=epsilon_from_mu(mu, 1e-6), delta=1e-6, mu=mu)
        )
        unstated = SimpleNamespace(get_delta=half.delta)
        with pytest.raises(ValueError, match="not stated by the profile"):
            grid(Foreign(), estimator_guarantee=unstated).fit(X, Y)

    @pytest.mark.parametrize("share", [0.5, pytest.param(0.99, marks=pytest.mark.slow)])
    def test_the_score_gets_what_the_profile_leaves(self, share):
        mu = candidate_mu(2.0, 1e-5, TrialLaw(15))
        stated = PrivacyProfile(lambda epsilon: gaussian_delta(share * mu, float(epsilon)))
        selection = PrivateSelection(estimator_guarantee=stated)
        made = plan_trials(Foreign(), [{}] * 5, selection, epsilon=2.0, delta=1e-5, n_samples=80)
        # A trial costs the larger of training and score, not their sum.
        assert 0.999 * mu < made.budget.mu <= mu
        assert made.guarantee.epsilon == 2.0

    def test_a_profile_that_does_not_fit(self):
        def gdp(epsilon):
            return gaussian_delta(0.5, float(epsilon)) if np.ndim(epsilon) == 0 else None

        with pytest.raises(ValueError, match=r"expected trials of the declared profile cost eps"):
            grid(Foreign(), estimator_guarantee=gdp).fit(X, Y)
        add_remove = PrivacyProfile(lambda e: gdp(4 * e), neighbours="add-remove")
        with pytest.raises(ValueError, match=r"at delta=1e-05: train with less"):
            grid(Foreign(), estimator_guarantee=add_remove, epsilon=0.3).fit(X, Y)
        with pytest.raises(ValueError, match="delta must be positive"):
            grid(Foreign(), estimator_guarantee=gdp, delta=0.0).fit(X, Y)
        composed = {"selection": "composition", "estimator_guarantee": gdp}
        with pytest.raises(ValueError, match=r'needs accounting="profile"'):
            grid(Foreign(), **composed).fit(X, Y)
        with pytest.raises(ValueError, match=r"estimator_guarantee gives no guarantee.*exceed 1"):
            grid(Foreign(), estimator_guarantee=lambda e: 2.0).fit(X, Y)

    @pytest.mark.parametrize(
        "wrong", [0.5, "gdp", {"epsilon": 1}, lambda estimator, n_samples: 1.0]
    )
    def test_type(self, wrong):
        with pytest.raises(TypeError, match="estimator_guarantee"):
            grid(Foreign(), estimator_guarantee=wrong).fit(X, Y)


class TestLedger:
    @pytest.mark.parametrize("n_jobs", [None, pytest.param(2, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("selection", ["profile", "composition"])
    def test_one_charge_for_the_total(self, n_jobs, selection):
        with PrivacyLedger(epsilon=2.0, delta=1e-5) as ledger:
            search = grid(n_jobs=n_jobs, selection=selection).fit(X, Y)
        assert [entry.guarantee for entry in ledger.entries] == [search.privacy_]
        assert ledger.entries[0].label == "DPGridSearchCV of DPMean"

    def test_nothing_is_touched_that_cannot_be_paid(self):
        touched, search = [], grid()

        def noting(rows):
            return NotingRows(rows.tolist(), lambda: touched.append(1))

        with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
            with pytest.raises(BudgetExceededError):
                search.fit(X, Y, X_val=noting(X[:9]), y_val=noting(Y[:9]))
            with pytest.raises(BudgetExceededError):
                search.fit(noting(X), noting(Y), X_val=X[:9], y_val=Y[:9])
        assert touched == []
        assert ledger.entries == ()
        assert not hasattr(search, "privacy_")

    @pytest.mark.slow
    @pytest.mark.parametrize("backend", ["threading", "loky"])
    def test_workers_and_pickles_belong_to_no_ledger(self, backend):
        gp = DPSparseGPRegressor(RBF(1.0), X_bounds=(-3, 3), y_bounds=(-1, 1), inducing_points=4)
        search = DPGridSearchCV(gp, {"noise_variance": [0.1, 0.2, 0.3]}, n_jobs=2, **OPTIONS)
        with PrivacyLedger(epsilon=2.0, delta=1e-5) as ledger, parallel_config(backend=backend):
            search.fit(X, Y)
            pickle.loads(pickle.dumps(search.best_estimator_))
        assert [entry.guarantee for entry in ledger.entries] == [search.privacy_]

    def test_mistakes_are_not_charged(self):
        cases = [
            (grid(Ridge(), {"alpha": [1.0]}, selection="profile"), r"Chunks\(\)"),
            (grid(make_pipeline(StandardScaler(), DPMean()), {}), "standardscaler"),
            (grid(space={"epsilon": [1.0, 2.0]}), "budget"),
            (grid(space={"gamma": [1.0]}), "gamma"),
            (grid(epsilon=-1.0), "epsilon"),
            (grid(delta=0.0), "delta"),
            (grid(selection="best"), "accounting"),
            (grid(selection=PrivateSelection(accounting="renyi")), "accounting"),
            (grid(selection=PrivateSelection(pad_trials=True)), "max_trials"),
            (grid(selection=PrivateSelection(eta=-1.5)), "eta"),
            (grid(selection=PrivateSelection(expected_trials=0.5)), "expected_trials"),
            (grid(selection=PrivateSelection(expected_trials=1e30)), "expected_trials"),
            (grid(selection=PrivateSelection(max_trials=10**30)), "max_trials"),
            (grid(scoring="f1"), "f1"),
        ]
        with PrivacyLedger(epsilon=100.0, delta=1e-3) as ledger:
            for search, message in cases:
                with pytest.raises((ValueError, TypeError), match=message):
                    search.fit(X, Y)
            with pytest.raises(ValueError, match="weights"):
                grid().fit(X, Y, weights=np.ones(400))
            with pytest.raises(ValueError, match="weights"):
                grid().fit(X, Y, weights=np.ones(320))  # as long as the part that trains
            with pytest.raises(ValueError, match="weights"):
                grid().fit(X, Y, weights={"of": np.ones(400)})
            with pytest.raises(ValueError, match="columns"):
                grid().fit(X, Y, X_val=X[:, :1], y_val=Y)
        assert ledger.entries == ()

    def test_a_failure_stays_charged(self):
        class Failing(DPMean):
            def fit(self, X, y):
                raise ValueError(f"cannot fit {y}")

        ledger = PrivacyLedger(epsilon=9.0, delta=1e-3)
        with ledger, pytest.warns(DryRunWarning), pytest.raises(ValueError, match="winning trial"):
            grid(Failing()).fit(X, Y)
        assert len(ledger.entries) == 1


class TestFailures:
    def test_a_candidate_that_fails_loses(self, monkeypatch):
        class Sometimes(DPMean):
            def fit(self, X, y):
                if self.factor < 0 and len(X) > 100:
                    raise RuntimeError("no")
                return super().fit(X, y)

        # 100 trials are all of the two that fail with probability 2e-18.
        put(monkeypatch, "trials: draw_trials", lambda *a, **k: 100)
        assert grid(Sometimes(), {"factor": [-1.0, -2.0, 1.0]}).fit(X, -Y).best_index_ == 2
        search = grid(Sometimes(), {"factor": [-1.0, -2.0, 1.0]}, selection="composition")
        scores = search.fit(X, -Y).cv_results_["private_validation_score"]
        assert np.isnan(scores).tolist() == [True, True, False]

    @pytest.mark.slow
    def test_a_winner_that_fails_for_any_rows_is_named_and_charged(self, monkeypatch):
        put(monkeypatch, "trials: draw_trials", lambda *a, **k: 1)  # of the first: 1e-3
        ridge = DPRidge(X_bounds=(-3, 3), y_bounds=(-1, 1))
        search = grid(ridge, {"alpha": [1.0, *-np.arange(1.0, 1000.0)]})
        ledger, spent = PrivacyLedger(epsilon=9.0, delta=1e-3), r"budget is spent.* alpha must lie"
        with ledger, pytest.raises(ValueError, match=spent) as failure:
            search.fit(X, Y)
        assert len(ledger.entries) == 1
        assert "Nothing was charged" not in str(failure.value)

    @pytest.mark.parametrize("refit", [True, False])
    def test_the_error_says_nothing_of_the_records(self, refit):
        class Failing(DPMean):
            def fit(self, X, y):
                if len(X) > 100:
                    raise RuntimeError(f"cannot fit {y}")
                return super().fit(X, y)

        messages = set()
        for targets in (Y, -Y):
            with pytest.raises(ValueError, match="winning trial failed") as failure:
                grid(Failing(), refit=refit).fit(X, targets)
            assert failure.value.__context__ is failure.value.__cause__ is None
            messages.add(str(failure.value))
        assert len(messages) == 1

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("y", [np.zeros(400), X[:, 0]], ids=["one class", "fractions"])
    def test_labels_that_are_no_classes_are_a_reason_without_classes_alone(self, y):
        model = DPLogisticRegression(X_bounds=(-3, 3))
        with pytest.raises(ValueError, match="labels of y that are all alike, or fractions"):
            grid(model, {"C": [0.1, 1.0, 10.0]}).fit(X, y)
        model.set_params(classes=[0, 1])  # records of no class lose
        assert grid(model, {"C": [0.1, 1.0, 10.0]}).fit(X, y).classes_.tolist() == [0, 1]

    def test_public_mistakes_cost_nothing(self):
        gp = DPSparseGPRegressor(
            RBF(1.0), X_bounds=(-3, 3), y_bounds=(-1, 1), posterior="sharp", inducing_points=4
        )
        search = DPGridSearchCV(gp, {"noise_variance": [0.1, 0.2, 0.3]}, **OPTIONS)
        ledger = PrivacyLedger(epsilon=9.0, delta=1e-3)
        with ledger, pytest.raises(ValueError, match="sharp"):
            search.fit(X, Y)
        assert ledger.entries == ()

    def test_warnings_of_trials_are_silent(self):
        class Talker(DPMean):
            def fit(self, X, y):
                warnings.warn(f"mean {np.mean(y)}", stacklevel=2)
                return super().fit(X, y)

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", NoisyScoreWarning)  # as the noise falls
            grid(Talker()).fit(X, Y)

    def test_a_missing_bound_is_still_reported(self):
        with pytest.warns(DefaultBoundsWarning):
            grid(loss_bound=None).fit(X, Y)

    def test_bounds_of_the_estimator_that_are_missing_are_reported(self):
        search = DPGridSearchCV(
            DPSparseGPRegressor(RBF(1.0), inducing_points=[[0.0, 0.0]], y_bounds=(-1, 1)),
            {"noise_variance": [0.1, 0.2, 0.3]},
            **OPTIONS,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", NoisyScoreWarning)  # as the noise falls
            search.fit(X, Y)
        search.set_params(estimator__y_bounds=None, epsilon=0.2)
        with pytest.warns(DefaultBoundsWarning, match="y_bounds.* 320 rows can show no") as warned:
            search.fit(X, Y)
        assert [w.category for w in warned].count(DefaultBoundsWarning) == 1
        search.set_params(epsilon=2.0)  # as many rows as train can, sixty cannot
        with warnings.catch_warnings():
            warnings.simplefilter("error", DefaultBoundsWarning)
            warnings.simplefilter("ignore", NoisyScoreWarning)
            search.fit(X, Y)

    def test_of_groups_it_is_told_what_the_counts_of_synthetic_ones_show(self):
        """Ranges are released whatever the number of groups: no warning says that none can be."""
        model = DPSparseGPRegressor(RBF(1.0), inducing_points=[[0.0, 0.0]])
        search = DPGridSearchCV(
            model, {"noise_variance": [0.1, 0.2, 0.3]}, **(OPTIONS | {"epsilon": 0.2})
        )
        with pytest.warns(DefaultBoundsWarning) as warned:
            search.fit(X, Y, groups=np.arange(len(X)))
        (text,) = (str(w.message) for w in warned if w.category is DefaultBoundsWarning)
        assert text.startswith("y_bounds of DPSparseGPRegressor: some released counts show no")
        assert search.best_estimator_.y_bounds_[1] == 3

    def test_bounds_are_missed_behind_a_step_that_takes_no_texts(self):
        model = make_pipeline(DPStandardScaler(X_bounds=(-1, 1)), DPRidge(y_bounds=(-1, 1)))
        search = DPGridSearchCV(model, {"dpridge__alpha": [0.1, 0.2, 0.3]}, **OPTIONS)
        with (
            pytest.warns(DryRunWarning, match="These are texts"),
            pytest.warns(DefaultBoundsWarning, match="X_bounds of DPRidge"),
        ):
            search.fit(pd.DataFrame(X).astype(object), Y)

    def test_one_row(self):
        with pytest.raises(ValueError, match="n_samples=1"):
            grid().fit(X[:1], Y[:1])


class TestSeeds:
    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
    @pytest.mark.parametrize("selection", ["profile", "composition"])
    def test_reproducible_and_void(self, selection, backend):
        results = []
        for n_jobs in (None, 2):
            search = grid(random_state=5, selection=selection, n_jobs=n_jobs)
            with parallel_config(backend=backend), pytest.warns(SeededNoiseWarning):
                search.fit(X, Y)
            results.append((search.best_index_, search.best_score_, search.best_estimator_.mean_))
            assert search.privacy_.status == "void"
            assert without_numbers(search.privacy_) == search.privacy_guarantee()
            assert search.best_estimator_.privacy_.status == "void"
        assert len(set(results)) == 1
        with pytest.warns(SeededNoiseWarning):
            other = grid(random_state=6, selection=selection).fit(X, Y)
        assert other.best_estimator_.mean_ != search.best_estimator_.mean_

    def test_a_seeded_estimator_voids_the_total(self):
        with pytest.warns(VoidGuaranteeWarning, match="seeded"):
            search = grid(DPMean(random_state=1)).fit(X, Y)
        assert search.privacy_.status == "void"
        assert search.random_state is None

    def test_fresh_noise_by_default(self):
        means = {grid().fit(X, Y).best_estimator_.mean_ for _ in range(4)}
        assert len(means) == 4
