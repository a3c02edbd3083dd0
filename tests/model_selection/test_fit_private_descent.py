"""``DPGIBOSearchCV(protect="all")``: what a fit pays, publishes and refuses."""

import math
import pickle
import random
import struct
import warnings
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _support.internals import plan_descent
from _support.planted import plant
from _support.private_mean import SEEN, PrivateMean
from skdpbo import DPGIBOSearchCV
from skdpbo.exceptions import BudgetExceededError, NoisyGradientWarning, NoisyScoreWarning
from skdpbo.linear_model import DPRidge
from skdpbo.model_selection import Descent
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger, mu_from_epsilon

RNG = np.random.RandomState(0)
X, Y = RNG.normal(size=(300, 2)), np.clip(0.5 + 0.1 * RNG.normal(size=300), -1, 1)
SPACE = {"factor": (0.0, 2.0), "shift": (-1.0, 1.0)}
OPTIONS = {"protect": "all", "epsilon": 2.0, "loss_bound": 1.0, "n_iter": 3}
RIDGE = {"space": {"dpridge__alpha": (0.1, 1.0)}}
N_TRAININGS = 9  # of 3 points in each of 3 steps

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::skdpbo.exceptions.{warning.__name__}")
    for warning in (NoisyGradientWarning, NoisyScoreWarning)
]


class Talking(PrivateMean):
    """States how talkative it is."""

    def __init__(self, factor=0.5, shift=0.0, epsilon=1.0, delta=1e-5, verbose=0):
        super().__init__(factor, shift, epsilon, delta)
        self.verbose = verbose


def search(estimator=None, space=SPACE, **params):
    return DPGIBOSearchCV(estimator or PrivateMean(), space, **(OPTIONS | params))


def trainings(fit):
    """Return what the trainings of a fit were given; those of the dry run have no row of `X`."""
    del SEEN[:]
    fit()
    return [seen for seen in SEEN if np.isin(seen[1], X).all()]


def squares(mus):
    return sum(Fraction(mu) ** 2 for mu in mus)


def stated(epsilon=2.0, delta=1e-5):
    mu = mu_from_epsilon(epsilon, delta)
    return PrivacyGuarantee(epsilon=epsilon, delta=delta, mu=mu, mechanism="gradients")


def plan(estimator=None, n_trainings=9, releases_model=True, **budget):
    how = {"n_trainings": n_trainings, "releases_model": releases_model, "n_samples": None}
    start = {"factor": 1.0} if estimator is None else {}
    return plan_descent(estimator or PrivateMean(), start, release=stated(**budget), **how)


class TestBudget:
    @pytest.mark.parametrize("epsilon", [0.1, 2.0, 20.0])
    @pytest.mark.parametrize("n_trainings", [1, 7, 300])
    def test_squares_add_up_to_the_whole(self, epsilon, n_trainings):
        mu = mu_from_epsilon(epsilon, 1e-5)
        found = plan(n_trainings=n_trainings, epsilon=epsilon)
        spent = n_trainings * squares([found.budget.mu]) + squares([found.last.mu])
        assert Fraction(mu) ** 2 * (1 - Fraction(1, 10**8)) < spent <= Fraction(mu) ** 2
        assert found.guarantee.epsilon == epsilon
        assert found.guarantee.mu <= mu

    def test_without_a_last_model_the_steps_have_all(self):
        found = plan(releases_model=False)
        assert found.last is None
        assert 9 * found.budget.mu**2 == pytest.approx(mu_from_epsilon(2.0, 1e-5) ** 2)

    def test_pure_trainings_by_brute_force(self):
        """The binomial law of the privacy loss of n randomised responses."""

        class Pure(PrivateMean):
            def privacy_guarantee(self, n_samples=None):
                return PrivacyGuarantee(epsilon=self.epsilon, protects="training records")

        found = plan(Pure(), n_trainings=200)
        each, last = (model.epsilon for model in found.models)
        kept, delta = stats.binom(200, 1 / (1 + math.exp(-each))), 0.0
        for yes, sign in ((1 / (1 + math.exp(-last)), 1), (1 / (1 + math.exp(last)), -1)):
            for k in range(201):
                loss = (2 * k - 200) * each + sign * last
                delta += yes * kept.pmf(k) * max(0.0, -math.expm1(2.0 - loss))
        assert 0 < delta <= 1e-5

    def test_every_training_gets_its_budget(self):
        spent = trainings(lambda: search().fit(X, Y))
        mus = [mu for mu, *_ in spent]
        assert len(mus) == N_TRAININGS + 1
        assert squares(mus) <= Fraction(mu_from_epsilon(2.0, 1e-5)) ** 2

    def test_a_descent_that_pays_once_is_caught(self, monkeypatch):
        plant(monkeypatch, "private descent: one training pays for all")
        spent = trainings(lambda: search().fit(X, Y))
        assert squares(mu for mu, *_ in spent) > 4 * Fraction(mu_from_epsilon(2.0, 1e-5)) ** 2

    def test_more_trainings_than_paid_for_are_refused(self, monkeypatch):
        plant(monkeypatch, "private descent: a step is forgotten in the count")
        with pytest.raises(RuntimeError, match="paid for"):
            search().fit(X, Y)

    @pytest.mark.parametrize("steps", [{"tol": 0.9}, {"batch_size": 2, "patience": 1}])
    def test_what_steps_may_save_is_not_given_to_others(self, steps):
        spent = trainings(lambda: search(descent=Descent(**steps)).fit(X, Y))
        batch = steps.get("batch_size", 3)
        assert spent[0][0] == pytest.approx(plan(n_trainings=3 * batch).budget.mu)

    def test_a_tolerance_that_needs_no_training_is_refused_before_the_charge(self):
        with PrivacyLedger(9.0, 1e-4) as ledger:
            with pytest.raises(ValueError, match="tol must be below"):
                search(descent=Descent(tol=1e30)).fit(X, Y)
            assert not ledger.entries

    def test_an_epsilon_without_a_curve_is_refused(self):
        class Approximate(PrivateMean):
            def privacy_guarantee(self, n_samples=None):
                return PrivacyGuarantee(
                    epsilon=self.epsilon, delta=self.delta, protects="training records"
                )

        with pytest.raises(ValueError, match="mu-GDP or pure"):
            search(Approximate()).fit(X, Y)

    def test_a_point_that_states_something_else_is_not_trained(self):
        class Doubtful(PrivateMean):
            def privacy_guarantee(self, n_samples=None):
                stated = super().privacy_guarantee()
                if self.factor > 1.8:
                    return stated.voided("a large factor")
                return stated if self.factor < 1.5 else stated.assuming("no gross errors")

        found = plan(Doubtful())
        assert found.model({"factor": 1.0}, found.budget) is not None
        assert found.model({"factor": 1.6}, found.budget) is None
        assert found.model({"factor": 1.9}, found.budget) is None

    def test_the_last_training_is_held_to_its_own_statement(self):
        class Assuming(PrivateMean):
            def privacy_guarantee(self, n_samples=None):
                stated = super().privacy_guarantee()
                return stated if self.epsilon < 0.5 else stated.assuming("a large budget")

        found = plan(Assuming())
        assert found.model({"factor": 1.2}, found.last) is not None
        assert "a large budget" in found.guarantee.assumptions

    @pytest.mark.parametrize("planted", [False, True])
    def test_a_point_that_costs_a_group_more_is_not_trained(self, planted, monkeypatch):
        if planted:
            plant(monkeypatch, "private descent: the cost of a group is not read at each point")
        trained = []

        class Dear(PrivateMean):
            def privacy_guarantee(self, n_samples=None, *, groups=False):
                stated = super().privacy_guarantee(groups=groups)
                dear = groups and self.factor != 0.5
                return replace(stated, epsilon=2 * stated.epsilon, mu=None) if dear else stated

            def fit(self, X, y, groups=None):
                trained.append(self.factor)
                return super().fit(X, y)

        fitted = search(Dear()).fit(X, Y, groups=np.arange(300) // 3)
        assert (set(trained) == {0.5}) is not planted
        assert (fitted.best_params_["factor"] == 0.5) is not planted

    def test_the_end_is_the_last_point_whose_cost_is_known(self):
        of_a_step = plan(epsilon=50.0).budget.epsilon

        class Doubtful(PrivateMean):
            def privacy_guarantee(self, n_samples=None, *, groups=False):
                stated = super().privacy_guarantee(groups=groups)
                known = self.factor <= 0.5 or self.epsilon <= of_a_step
                return stated if known else stated.assuming("no gross errors")

        fitted = search(Doubtful(), epsilon=50.0).fit(X, Y)
        known = [params["factor"] <= 0.5 for params in fitted.cv_results_["params"]]
        assert fitted.best_index_ == np.flatnonzero(known)[-1]
        assert not all(known)
        assert fitted.best_estimator_.factor == fitted.best_params_["factor"]
        assert "no gross errors" not in fitted.privacy_.assumptions


class TestFit:
    def test_what_is_published(self):
        fitted = search().fit(X, Y)
        assert fitted.privacy_ == fitted.best_estimator_.privacy_
        assert fitted.privacy_.protects == "training and validation records"
        assert (fitted.privacy_.epsilon, fitted.privacy_.n_protected) == (2.0, 300)
        assert fitted.privacy_guarantee(300).mu == fitted.privacy_.mu
        assert set(fitted.cv_results_) == {"params", "param_factor", "param_shift"}
        assert len(fitted.cv_results_["params"]) == len(fitted.descent_.trajectory) + 1
        assert fitted.descent_.public_weights is None
        assert fitted.best_params_["factor"] == fitted.best_estimator_.factor
        assert -1.0 <= fitted.best_score_ <= 0.0
        public = "public rows"
        assert not any(public in text for text in fitted.privacy_.assumptions)

    def test_it_descends(self):
        """Targets are .5; the factor starts at .5, where the model says .25."""
        fitted = search(n_iter=8, epsilon=50.0, score_fraction=0.0).fit(X, Y)
        assert fitted.best_estimator_.mean_ == pytest.approx(0.5, abs=0.15)
        assert not hasattr(fitted, "best_score_")

    def test_own_validation_rows(self):
        spent = trainings(lambda: search().fit(X[:200], Y[:200], X_val=X[200:], y_val=Y[200:]))
        assert {len(rows) for _, rows, _ in spent} == {200}
        with pytest.raises(ValueError, match="share rows"):
            search().fit(X, Y, X_val=X[:20], y_val=Y[:20])

    def test_only_parameters(self):
        spent = trainings(lambda: search(refit=False, score_fraction=0.0).fit(X, Y))
        assert len(spent) == N_TRAININGS
        assert squares(mu for mu, *_ in spent) <= Fraction(mu_from_epsilon(2.0, 1e-5)) ** 2
        assert not hasattr(search(refit=False).fit(X, Y), "best_estimator_")

    def test_groups(self):
        groups = np.arange(300) // 3
        fitted = search().fit(X, Y, groups=groups)
        assert "group" in fitted.privacy_.neighbours
        assert fitted.privacy_.n_protected == 100
        # A record by itself in one part is not enough: its group is.
        assert not [text for text in fitted.privacy_.assumptions if "each record" in text]

    def test_bad_records_are_not_mentioned(self, capfd, recwarn):
        bad_X, bad_Y = X.copy(), Y.copy()
        bad_X[7], bad_Y[290] = np.inf, np.nan
        fitted = search(verbose=2).fit(bad_X, bad_Y)
        printed = capfd.readouterr().out
        assert search(verbose=2).fit(X, Y).best_params_ is not None
        assert printed == capfd.readouterr().out
        assert fitted.privacy_.n_protected == 300
        assert not [w for w in recwarn if "inf" in str(w.message).lower()]

    @pytest.mark.parametrize("seed", [None, 3])
    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SeededNoiseWarning")
    def test_no_two_trainings_share_noise(self, seed):
        drawn = []

        class Drawing(PrivateMean):
            def fit(self, X, y, groups=None):
                drawn.append((np.random.random(), random.random()))
                return super().fit(X, y, groups)

        spent = trainings(lambda: search(Drawing(), random_state=seed).fit(X, Y))
        assert len(set(drawn[-len(spent) :])) == N_TRAININGS + 1

    def test_nothing_of_the_rows_is_held(self):
        marker = struct.pack("<d", 0.3671928514)
        marked = np.where(np.arange(300)[:, None] % 2, X, 0.3671928514)
        assert marker in pickle.dumps(marked)
        assert marker not in pickle.dumps(search().fit(marked, marked[:, 0]))

    @pytest.mark.slow
    def test_workers(self):
        with pytest.warns(UserWarning, match="random_state"):
            one, two = (search(random_state=3, n_jobs=jobs).fit(X, Y) for jobs in (None, 2))
        assert one.best_estimator_.mean_ == two.best_estimator_.mean_

    def test_a_last_training_that_fails(self):
        class Failing(PrivateMean):
            def fit(self, X, y, groups=None):
                if np.isin(X, RARE).any():
                    raise ValueError(f"saw {X}")
                return super().fit(X, y, groups)

        RARE = X[0, 0]
        with pytest.raises(ValueError, match="there is no model") as caught:
            search(Failing()).fit(X, Y)
        assert "saw" not in str(caught.value)

    def test_a_last_training_that_fails_for_a_public_reason_names_it(self):
        class AtTheDefault(PrivateMean):
            def fit(self, X, y, groups=None):
                if self.factor != 0.5:  # which alone is tried before the charge
                    raise ValueError("factor must be a half")
                return super().fit(X, y, groups)

        with pytest.raises(ValueError, match=r"there is no model.*factor must be a half"):
            search(AtTheDefault()).fit(X, Y)


class TestDefaults:
    @pytest.mark.parametrize(
        ("n_dims", "params", "stated"),
        [
            (2, {}, "30 trainings"),
            (7, {}, "60 trainings"),
            (7, {"n_iter": 4}, "24 trainings"),
            (7, {"descent": Descent(batch_size=9)}, "90 trainings"),
        ],
    )
    def test_few_trainings_share_the_budget(self, n_dims, params, stated):
        class Wide(PrivateMean):
            def __init__(self, a=0, b=0, c=0, d=0, e=0, factor=0.5, shift=0, epsilon=1, delta=1e-5):
                super().__init__(factor, shift, epsilon, delta)
                self.a, self.b, self.c, self.d, self.e = a, b, c, d, e

        space = dict.fromkeys(["factor", "shift", *"abcde"][:n_dims], (0.0, 1.0))
        found = search(Wide(), space, **({"n_iter": None} | params)).privacy_guarantee(1000)
        assert found.mechanism.startswith(stated)

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(
        ("n_samples", "epsilon", "few"),
        [(25_000, 3.0, False), (25_000, 1.0, False), (5000, 3.0, False), (5000, 1.0, True)],
    )
    def test_too_few_rows_are_reported_before_the_charge(self, n_samples, epsilon, few):
        """The cells that have been measured, with the trainings of ten parameters."""
        rows = np.resize(X, (n_samples, 2)), np.resize(Y, n_samples)
        sought = search(epsilon=epsilon, n_iter=10, descent=Descent(batch_size=6))
        refused = pytest.raises(
            NoisyGradientWarning, match=r"DPRandomizedSearchCV\(protect=\"all\""
        )
        with PrivacyLedger(epsilon=4.0, delta=1e-5) as ledger, warnings.catch_warnings():
            warnings.simplefilter("error", NoisyGradientWarning)
            with refused if few else nullcontext():
                sought.fit(*rows)
        assert len(ledger.entries) == (not few)

    def test_a_score_of_noise_is_reported_once(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NoisyScoreWarning)
            search(epsilon=0.5, score_fraction=0.01).fit(X, Y)
        texts = [str(w.message) for w in caught if w.category is NoisyScoreWarning]
        assert len(texts) == 1
        assert "will be mostly noise" in texts[0]


class TestLedger:
    def test_one_charge(self):
        with PrivacyLedger(epsilon=2.0, delta=1e-5) as ledger:
            fitted = search().fit(X, Y)
        assert len(ledger.entries) == 1
        assert fitted.privacy_.epsilon == 2.0

    def test_nothing_is_read_before_the_charge(self):
        del SEEN[:]
        with PrivacyLedger(epsilon=1.9, delta=1e-5), pytest.raises(BudgetExceededError):
            search().fit(X, Y)
        assert not SEEN

    @pytest.mark.parametrize(
        ("estimator", "params", "match"),
        [
            (Ridge(), {}, "DPRandomizedSearchCV"),
            (make_pipeline(StandardScaler(), DPRidge()), {}, "StandardScaler"),
            (make_pipeline(DPRidge(), verbose=True), RIDGE, "verbose must be 0"),
            (make_pipeline(DPRidge(), memory="."), RIDGE, "memory must be None"),
            (Talking(), {"space": {"verbose": (0, 3)}}, "verbose must be 0"),
            (None, {"space": {"epsilon": (0.1, 1.0)}}, "cannot be tuned"),
            (None, {"space": {"random_state": (0, 5)}, "cv": 3}, "cv must be None"),
            (None, {"return_train_score": True}, "return_train_score"),
            (None, {"score_fraction": 1e-30}, "score_fraction"),
            (None, {"epsilon": 1e-13, "delta": 1e-13}, "score_fraction"),
            (None, {"error_score": "raise"}, "error_score"),
            (None, {"scoring": "neg_root_mean_squared_error"}, "no mean of losses"),
            (None, {"scoring": ["neg_mean_squared_error"]}, "several metrics"),
            (None, {"protect": "everything"}, "protect"),
        ],
    )
    def test_refusals_cost_nothing(self, estimator, params, match):
        with PrivacyLedger(epsilon=5.0, delta=1e-4) as ledger:
            with pytest.raises(ValueError, match=match):
                search(
                    estimator, **({"space": {"alpha": (0.1, 1.0)}} if estimator else {}) | params
                ).fit(X, Y)
            assert not ledger.entries

    @pytest.mark.parametrize("params", [{"n_iter": 0}, {"protect": "everything"}])
    def test_a_guarantee_without_data_names_the_parameter(self, params):
        with pytest.raises(ValueError, match=f"'{next(iter(params))}' parameter"):
            search(**params).privacy_guarantee(300)

    def test_a_seed_voids_it(self):
        with pytest.warns(UserWarning, match="random_state"):
            one, two = (search(random_state=3).fit(X, Y) for _ in range(2))
        assert one.privacy_.status == "void"
        assert one.best_params_ == two.best_params_
        assert one.best_estimator_.mean_ == two.best_estimator_.mean_
