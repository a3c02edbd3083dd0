"""Private selection: bounds by second methods, calibration on the private side, oracles."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from _support.internals import (
    ComposedProfile,
    GaussianProfile,
    StaircaseProfile,
    candidate_profiles,
    delta_from_mu,
    liu_talwar_max_trials,
    log_gaussian_delta,
    loss_of_rank,
    selection_bounds,
)
from _support.pure_candidates import candidate_epsilon
from skdpbo.privacy import (
    PrivacyGuarantee,
    TrialLaw,
    candidate_mu,
    compose,
    epsilon_from_mu,
    mu_from_epsilon,
    selection_guarantee,
)

ETAS = [-0.5, 0.0, 1.0, 3.0]
METHODS = ["profile", "papernot_steinke", "liu_talwar"]


def gaussian(mu, delta=1e-9, **fields):
    return PrivacyGuarantee(epsilon=epsilon_from_mu(mu, delta), delta=delta, mu=mu, **fields)


def applicable(method, eta):
    return method != "liu_talwar" or eta == 1


@pytest.mark.parametrize(
    ("mean", "eta", "delta_0", "delta"),
    [
        (61_000, -0.5, 9e-10, 0.05),
        (2897, -0.9, 1e-9, 1e-3),
        (30, 0.0, 1e-6, 1e-3),
        (30, 1.0, 1e-7, 1e-5),
    ],
)
def test_a_pair_costs_no_more_than_by_published_accounting(mean, eta, delta_0, delta):
    """A failure may be paid for by delta, as there: it need not move a rank."""
    trial, law = PrivacyGuarantee(epsilon=0.083, delta=delta_0), TrialLaw(mean, eta)
    published = selection_guarantee(trial, law, delta=delta, method="papernot_steinke")
    assert selection_guarantee(trial, law, delta=delta).epsilon <= published.epsilon * (1 + 1e-6)


class TestProfiles:
    @pytest.mark.parametrize("mu", [0.05, 0.3, 2.0])
    def test_gaussian_is_an_upper_bound(self, mu):
        x = np.linspace(-3, 5, 33)
        exact = np.array([log_gaussian_delta(mu, value) for value in x])
        bound = GaussianProfile(mu).log_delta(x)
        assert np.all(bound >= exact)
        assert bound == pytest.approx(exact, rel=1e-11, abs=1e-11)

    @pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (0.5, 1e-3), (3.0, 0.2)])
    def test_staircase_is_that_of_its_dominating_pair(self, epsilon, delta):
        p = 1 / (1 + math.exp(-epsilon))
        one = np.array([delta, (1 - delta) * p, (1 - delta) * (1 - p), 0])
        other = one[::-1]
        for x in np.linspace(-2 * epsilon, 2 * epsilon, 21):
            exact = np.maximum(one - math.exp(x) * other, 0).sum()
            bound = float(np.exp(StaircaseProfile(epsilon, delta).log_delta(np.array(x))))
            assert bound == pytest.approx(exact, rel=1e-12, abs=1e-15)

    def test_composed_profile_is_that_of_the_composition(self):
        atoms = (PrivacyGuarantee(epsilon=0.1), PrivacyGuarantee(epsilon=0.2, delta=1e-7))
        together = compose(gaussian(0.2), *atoms)
        (profile, _) = next(p for p in candidate_profiles(together) if len(p[0].__dict__) == 4)
        assert isinstance(profile, ComposedProfile)
        for delta in (1e-6, 1e-3):
            epsilon = compose(gaussian(0.2), *atoms, delta=delta).epsilon
            assert float(profile.log_delta(np.array(epsilon))) == pytest.approx(math.log(delta))

    @pytest.mark.parametrize("eta", ETAS)
    @pytest.mark.parametrize(
        "profile", [GaussianProfile(0.2), GaussianProfile(2.0), StaircaseProfile(0.5, 1e-4)]
    )
    def test_loss_of_rank_is_the_smallest(self, eta, profile):
        law = TrialLaw(30, eta)
        e1, odds = loss_of_rank(profile, law), law.gamma / (1 - law.gamma)

        def holds(x):
            return math.exp(profile.log_delta(np.array(x))) <= odds * math.expm1(x)

        assert holds(e1)
        assert not holds(e1 * (1 - 1e-9))

    @pytest.mark.parametrize("eta", ETAS)
    def test_loss_of_rank_of_a_pure_candidate(self, eta):
        law, e = TrialLaw(30, eta), math.exp(0.5)
        exact = math.log((e + law.gamma) / (1 + law.gamma * e))
        assert loss_of_rank(StaircaseProfile(0.5), law) == pytest.approx(exact, rel=1e-10)


class TestRefinedBound:
    @pytest.mark.quick_cases(3)
    @pytest.mark.parametrize("eta", ETAS)
    @pytest.mark.parametrize(("mu", "epsilon"), [(0.15, 1.0), (0.45, 3.0), (1.3, 10.0)])
    def test_equals_its_integral(self, eta, mu, epsilon):
        """Theorem 2 with the exact curve u' = Phi(Phi^-1(u) + mu), integrated over z."""
        law = TrialLaw(30, eta)
        gamma, power = law.gamma, eta + 1
        e1 = loss_of_rank(GaussianProfile(mu), law)

        def t(z):
            return gamma + (1 - gamma) * ndtr(z)

        def integrand(z):
            slope = -mu * z - mu**2 / 2  # log of the derivative of u'
            log_rho = slope - (power + 1) * math.log(t(z + mu) / t(z))
            density = law.mean * power * (1 - gamma) * norm.pdf(z) * gamma**power
            return delta_from_mu(mu, epsilon + log_rho) * density / t(z) ** (power + 1)

        last = -e1 / mu - mu / 2  # there the slope is t' / t = e^e1
        inside = quad(integrand, -20, last, limit=400, epsabs=0, epsrel=1e-7)[0]
        at_end = law.mean * (gamma / t(last)) ** power * delta_from_mu(mu, epsilon - power * e1)
        bound = math.exp(selection_bounds(GaussianProfile(mu), law)[1].log_delta(epsilon))
        assert bound == pytest.approx(inside + at_end, rel=1e-3)
        assert bound >= (inside + at_end) * (1 - 1e-5)

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("eta", ETAS)
    def test_equals_its_form_as_a_largest_value(self, eta):
        """E over the privacy loss L of max over u of W(u) (1 - e^(epsilon - kappa(u) - L))_+."""
        law, mu, epsilon = TrialLaw(30, eta), 0.2, 1.0
        z = np.linspace(-14, 6, 3000)
        t, t_prime = (law.gamma + (1 - law.gamma) * ndtr(z + shift) for shift in (0, mu))
        weight = law.mean * (law.gamma / t) ** (eta + 1)
        kappa = (eta + 1) * np.log(t_prime / t)
        nodes = np.linspace(-1, 9, 2001)  # standard deviations of L
        total = 0.0
        for node in nodes:
            loss = mu**2 / 2 + mu * node
            largest = np.max(weight * np.maximum(-np.expm1(epsilon - kappa - loss), 0))
            total += largest * norm.pdf(node) * (nodes[1] - nodes[0])
        bound = math.exp(selection_bounds(GaussianProfile(mu), law)[1].log_delta(epsilon))
        assert total <= bound * (1 + 1e-4)
        assert bound <= total * 1.01

    @pytest.mark.parametrize("eta", ETAS)
    @pytest.mark.parametrize("mu", [1e-4, 0.1, 1.0, 5.0])
    def test_is_never_worse_than_the_simple_bound(self, eta, mu):
        simple, refined = selection_bounds(GaussianProfile(mu), TrialLaw(50, eta))
        for factor in (2, 5, 10):
            epsilon = factor * mu
            assert refined.log_delta(epsilon) <= simple.log_delta(epsilon) + 1e-6

    def test_lines_touch_the_trade_off_curve(self):
        """Min over x of e^x u + delta(x) is Phi(Phi^-1(u) + mu)."""
        mu, x = 0.4, np.linspace(-3, 3, 20_001)
        delta = np.exp(GaussianProfile(mu).log_delta(x))
        for u in (1e-6, 0.01, 0.5, 0.99):
            assert np.min(np.exp(x) * u + delta) == pytest.approx(ndtr(ndtri(u) + mu), rel=1e-6)

    def test_more_lines_change_nothing(self, monkeypatch):
        law, profile = TrialLaw(30), GaussianProfile(0.2)
        coarse = selection_bounds(profile, law)[1].log_delta(1.0)
        monkeypatch.setattr("skdpbo.privacy.selection._selection_profile._N_LINES", 6000)
        selection_bounds.cache_clear()
        fine = selection_bounds(profile, law)[1].log_delta(1.0)
        selection_bounds.cache_clear()
        assert fine <= coarse + 1e-9
        assert fine == pytest.approx(coarse, abs=1e-4)


class TestCalibration:
    @pytest.mark.quick_cases(9)
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("eta", ETAS)
    @pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-7), (1.0, 1e-5), (8.0, 1e-9)])
    def test_round_trip_stays_private(self, method, eta, epsilon, delta):
        if not applicable(method, eta):
            return
        law = TrialLaw(30, eta)
        mu = candidate_mu(epsilon, delta, law, method=method)
        total = selection_guarantee(gaussian(mu), law, delta=delta, method=method)
        assert epsilon * (1 - 1e-7) < total.epsilon <= epsilon
        assert total.delta == delta

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("max_trials", [450, 1500])
    def test_round_trip_with_a_cap_and_a_distance(self, method, max_trials):
        law, distance = TrialLaw(30), 1e-9
        mu = candidate_mu(
            2.0, 1e-5, law, method=method, max_trials=max_trials, statistical_distance=distance
        )
        delta = 1e-9 + (1 + math.exp(epsilon_from_mu(mu, 1e-9))) * distance
        trial = PrivacyGuarantee(
            epsilon=epsilon_from_mu(mu, 1e-9), delta=delta, mu=mu, statistical_distance=distance
        )
        total = selection_guarantee(trial, law, delta=1e-5, method=method, max_trials=max_trials)
        assert 2.0 * (1 - 1e-6) < total.epsilon <= 2.0
        without = replace(trial, statistical_distance=0.0)
        cheaper = selection_guarantee(
            without, law, delta=1e-5, method=method, max_trials=max_trials
        )
        assert cheaper.epsilon < total.epsilon

    def test_a_budget_of_nearly_nothing(self):
        law = TrialLaw(30)
        assert 0 < candidate_mu(1e-12, 1e-5, law) < mu_from_epsilon(1e-12, 1e-5)
        with pytest.raises(ValueError, match="too small together"):
            candidate_mu(1e-12, 1e-12, law)

    def test_monotone(self):
        law = TrialLaw(30)
        by_epsilon = [candidate_mu(e, 1e-5, law) for e in (0.3, 1, 3, 10)]
        by_delta = [candidate_mu(1.0, d, law) for d in (1e-12, 1e-7, 1e-3)]
        by_mean = [candidate_mu(1.0, 1e-5, TrialLaw(m)) for m in (1000, 30, 3, 1)]
        for values in (by_epsilon, by_delta, by_mean):
            assert np.all(np.diff(values) > 0)

    @pytest.mark.parametrize("method", ["profile"])
    def test_one_trial_costs_one_candidate(self, method):
        found = candidate_mu(1.0, 1e-5, TrialLaw(1), method=method)
        assert found == pytest.approx(mu_from_epsilon(1.0, 1e-5), rel=1e-8)
        assert found <= mu_from_epsilon(1.0, 1e-5)

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("eta", ETAS)
    @pytest.mark.parametrize("epsilon", [1e-3, 1.0, 50.0])
    def test_pure_round_trip(self, method, eta, epsilon):
        if not applicable(method, eta):
            return
        law = TrialLaw(30, eta)
        e = candidate_epsilon(epsilon, law, method=method)
        total = selection_guarantee(PrivacyGuarantee(epsilon=e), law, delta=0.0, method=method)
        assert total.delta == 0
        assert epsilon * (1 - 1e-12) < total.epsilon <= epsilon
        assert e >= epsilon / (2 + eta) * (1 - 1e-13)

    def test_a_cap_that_costs_more_than_delta_is_refused(self):
        for method in METHODS:
            with pytest.raises(ValueError, match="max_trials=40 costs more than delta"):
                candidate_mu(1.0, 1e-5, TrialLaw(30), max_trials=40, method=method)
        with pytest.raises(ValueError, match="distance=1e-06 costs more than delta"):
            candidate_mu(1.0, 1e-5, TrialLaw(30), statistical_distance=1e-6)

    @pytest.mark.parametrize("mean", [30, 300])
    def test_caps_of_11_12_and_15_times_the_mean(self, mean):
        """As `PrivateSelection` and the theory page say."""
        law = TrialLaw(mean)
        with pytest.raises(ValueError, match="costs more than delta"):
            candidate_mu(1.0, 1e-5, law, max_trials=11 * mean)
        free = candidate_mu(1.0, 1e-5, law)
        for times, most in ((12, 1.03), (15, 1.001)):
            assert 1 < free / candidate_mu(1.0, 1e-5, law, max_trials=times * mean) < most

    def test_cap_far_away_costs_nothing(self):
        law = TrialLaw(30)
        far = candidate_mu(1.0, 1e-5, law, max_trials=5000)
        assert far == pytest.approx(candidate_mu(1.0, 1e-5, law), rel=1e-9)

    def test_results_are_remembered(self):
        before = candidate_mu.cache_info().hits
        first = candidate_mu(0.77, 1e-5, TrialLaw(30))
        assert candidate_mu(0.77, 1e-5, TrialLaw(30)) == first
        assert candidate_mu.cache_info().hits == before + 1


class TestGuarantee:
    def test_says_what_is_promised(self):
        trial = gaussian(0.1, protects="all records", mechanism="m", assumptions=("a",))
        total = selection_guarantee(trial, TrialLaw(30), delta=1e-5, max_trials=600)
        assert (total.protects, total.neighbours, total.mu) == ("all records", "replace-one", None)
        assert total.assumptions == ("a", "the number of trials stays secret")
        assert total.status == "proved"
        assert "of m" in total.mechanism
        assert "at most 600" in total.mechanism

    @pytest.mark.parametrize("status", ["conditional", "void"])
    @pytest.mark.parametrize("method", METHODS)
    def test_status_is_the_candidates(self, status, method):
        trial = replace(gaussian(0.1), status=status, assumptions=("why",))
        total = selection_guarantee(trial, TrialLaw(30), delta=1e-5, method=method)
        assert total.status == status
        assert "why" in total.assumptions

    def test_approximate_candidate(self):
        law, trial = TrialLaw(30), PrivacyGuarantee(epsilon=0.3, delta=1e-9)
        total = selection_guarantee(trial, law, delta=1e-6)
        assert 0.8 < total.epsilon < 0.9 < 3 * 0.3 + 1e-3
        with pytest.raises(ValueError, match="No epsilon"):
            selection_guarantee(trial, law, delta=1e-8)  # below E[K] delta
        for method in ("papernot_steinke", "liu_talwar"):
            looser = replace(trial, delta=1e-18)
            found = selection_guarantee(looser, law, delta=1e-6, method=method)
            assert total.epsilon < found.epsilon < 0.91

    def test_delta_lowers_what_a_pure_candidate_costs(self):
        law, trial = TrialLaw(30), PrivacyGuarantee(epsilon=0.5)
        pure, approximate = (selection_guarantee(trial, law, delta=d) for d in (0.0, 1e-4))
        assert 1 < approximate.epsilon < pure.epsilon < 1.5
        assert (pure.delta, approximate.delta) == (0, 1e-4)

    def test_composed_candidate_uses_its_parts(self):
        law, train = TrialLaw(30), PrivacyGuarantee(epsilon=0.1)
        composed = compose(train, gaussian(0.12))
        pair = replace(composed)  # a copy forgets its parts
        total = selection_guarantee(composed, law, delta=1e-5)
        assert total.epsilon < 0.7 * selection_guarantee(pair, law, delta=1e-5).epsilon
        assert total.epsilon > selection_guarantee(gaussian(0.12), law, delta=1e-5).epsilon + 0.1

    def test_of_two_true_statements_the_better_counts(self):
        both = PrivacyGuarantee(epsilon=0.2, mu=0.05)
        gdp, pure = gaussian(0.05), PrivacyGuarantee(epsilon=0.2)
        law = TrialLaw(30)
        for delta in (1e-9, 1e-3):
            apart = [selection_guarantee(g, law, delta=delta).epsilon for g in (gdp, pure)]
            assert selection_guarantee(both, law, delta=delta).epsilon == min(apart)
        assert selection_guarantee(both, law, delta=0.0).epsilon < 0.6

    @pytest.mark.parametrize(
        ("change", "error", "match"),
        [
            ({"delta": 0.0}, ValueError, "No epsilon"),
            ({"delta": 1.0}, ValueError, "delta"),
            ({"method": "renyi"}, ValueError, "method"),
            ({"max_trials": 0}, ValueError, "max_trials"),
            ({"max_trials": 2.5}, TypeError, "max_trials must be an integer"),
            ({"law": 30}, TypeError, "TrialLaw"),
            ({"candidate": 0.1}, TypeError, "PrivacyGuarantee"),
            ({"max_trials": 20}, ValueError, "No epsilon"),
        ],
    )
    def test_bad_arguments_are_refused(self, change, error, match):
        arguments = {"candidate": gaussian(0.1), "law": TrialLaw(30), "delta": 1e-5} | change
        with pytest.raises(error, match=match):
            selection_guarantee(arguments.pop("candidate"), arguments.pop("law"), **arguments)


class TestPapernotSteinke:
    """Oracle: RepeatAndSelectDpEvent of dp-accounting, on a fine grid of orders."""

    ORDERS = list(1 + np.logspace(-3, 5, 700))

    def oracle(self, kind, parameters, mean, eta, delta, orders=None):
        events = pytest.importorskip("dp_accounting.dp_event")
        neighbours = pytest.importorskip("dp_accounting").NeighboringRelation.REPLACE_ONE
        accountant = pytest.importorskip("dp_accounting.rdp").RdpAccountant(orders, neighbours)
        event = getattr(events, kind)(*parameters)
        accountant.compose(events.RepeatAndSelectDpEvent(event, mean, eta))
        return accountant.get_epsilon(delta)

    def ours(self, candidate, mean, eta, delta, method="papernot_steinke"):
        law = TrialLaw(mean, eta)
        return selection_guarantee(candidate, law, delta=delta, method=method).epsilon

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("eta", [0, 0.5, 1, 2])
    # The rank of the last two is of the least order, 1.
    @pytest.mark.parametrize(
        ("mu", "mean", "delta"),
        [(0.2, 10, 1e-5), (0.05, 200, 1e-8), (1.4, 2, 1e-5), (4.0, 3, 1e-5)],
    )
    def test_gaussian(self, eta, mu, mean, delta):
        expected = self.oracle("GaussianDpEvent", (1 / mu,), mean, eta, delta, self.ORDERS)
        found = self.ours(gaussian(mu), mean, eta, delta)
        assert expected * (1 - 1e-3) < found <= expected

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("eta", [0, 0.5, 1, 2])
    def test_pure(self, eta):
        response = 2 / (1 + math.exp(0.5)), 2
        expected = self.oracle("RandomizedResponseDpEvent", response, 20, eta, 1e-6, self.ORDERS)
        found = self.ours(PrivacyGuarantee(epsilon=0.5), 20, eta, 1e-6)
        assert expected * (1 - 1e-3) < found <= expected

    @pytest.mark.parametrize(
        ("multiplier", "eta", "mean", "delta", "epsilon"),
        [
            (5, 1, 10, 1e-5, 1.71833),
            (2, 1, 10, 1e-6, 4.5477),
            *[(8, 0, m, 1e-6, e) for m, e in [(5, 0.869), (20, 0.991), (100, 1.103)]],
            *[(8, 1, m, 1e-6, e) for m, e in [(5, 1.021), (20, 1.219), (100, 1.404)]],
        ],
    )
    def test_reference_values(self, multiplier, eta, mean, delta, epsilon):
        found = self.ours(gaussian(1 / multiplier), mean, eta, delta)
        # The values come from the default orders; the best order gives a little less.
        assert epsilon * (1 - 1e-3) < found < epsilon * (1 + 6e-4)
        assert self.ours(gaussian(1 / multiplier), mean, eta, delta, "profile") < found

    @pytest.mark.parametrize("eta", [0, 1])
    @pytest.mark.parametrize("mean", [5, 20, 100])
    def test_pure_reference_values_without_an_end_of_orders(self, eta, mean):
        """1.008 to 1.015 and 1.507 to 1.516 with orders up to 1024; the rule has no such end."""
        found = self.ours(PrivacyGuarantee(epsilon=0.5), mean, eta, 1e-6)
        assert 0.999 * (2 + eta) / 2 < found <= (2 + eta) / 2

    def test_profile_is_tighter(self):
        for eta in ETAS:
            for epsilon, delta in [(0.1, 1e-9), (1, 1e-5), (10, 1e-3)]:
                ours, theirs = (
                    candidate_mu(epsilon, delta, TrialLaw(30, eta), method=method)
                    for method in ("profile", "papernot_steinke")
                )
                assert ours > theirs


class TestLiuTalwar:
    @pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-5), (3, 1e-4), (10, 1e-3)])
    @pytest.mark.parametrize("mean", [5, 30, 100])
    def test_is_equations_36_and_37_of_honkela_and_melkas(self, epsilon, delta, mean):
        law = TrialLaw(mean)
        # t (1 - log t) = delta by bisection; T is not a whole number in the paper.
        low, high = 1e-300, delta
        for _ in range(200):
            t = math.sqrt(low * high)
            low, high = (t, high) if t * (1 - math.log(t)) < delta else (low, t)
        delta_1 = (law.gamma * t) ** 2 / 2
        mu = mu_from_epsilon(epsilon / 3 - math.sqrt(2 * delta_1), delta_1)
        assert candidate_mu(epsilon, delta, law, method="liu_talwar") == pytest.approx(mu, rel=1e-5)
        assert abs(liu_talwar_max_trials(law, delta) - math.log(1 / t) / law.gamma) <= 1

    def test_total_of_the_theorem(self):
        law, epsilon, delta = TrialLaw(30), 1.0, 1e-5
        cap = liu_talwar_max_trials(law, delta)
        root = (delta - math.exp(-cap / 30)) / cap
        mu = candidate_mu(epsilon, delta, law, method="liu_talwar")
        trial = gaussian(mu)
        total = selection_guarantee(trial, law, delta=delta, method="liu_talwar")
        assert 3 * epsilon_from_mu(mu, root**2 / 2) + 3 * root == pytest.approx(total.epsilon)
        assert f"at most {cap}" in total.mechanism

    def test_total_of_a_pair(self):
        """The root of its own delta is paid for, not that of the largest delta_1."""
        trial = PrivacyGuarantee(epsilon=0.1, delta=1e-14)
        total = selection_guarantee(trial, TrialLaw(30), delta=1e-3, method="liu_talwar")
        assert total.epsilon == pytest.approx(3 * (0.1 + math.sqrt(2e-14)), rel=1e-12)

    @pytest.mark.parametrize(("delta", "cap"), [(1e-14, None), (0.0, 3)])
    def test_a_pair_whose_delta_is_too_large_has_no_total(self, delta, cap):
        """The largest delta_1 is 2.15e-15; a cap of 3 costs more than the total delta."""
        accounting = {"delta": 1e-5, "method": "liu_talwar"}
        trial = PrivacyGuarantee(epsilon=1.0, delta=delta)
        with pytest.raises(ValueError, match="No epsilon holds"):
            selection_guarantee(trial, TrialLaw(10), max_trials=cap, **accounting)
        small = replace(trial, delta=1e-16)
        assert selection_guarantee(small, TrialLaw(10), **accounting).epsilon > 3

    @pytest.mark.parametrize("method", ["profile", "papernot_steinke"])
    def test_a_cap_that_costs_more_than_epsilon_is_named(self, method):
        cap = {"delta": 0.2, "law": TrialLaw(30), "max_trials": 60, "method": method}
        assert candidate_mu(0.5, **cap) > 0
        with pytest.raises(ValueError, match="a cap of max_trials=60 costs more"):
            candidate_mu(0.49, **cap)  # it costs 0.498

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
    @pytest.mark.parametrize("mean", [3, 30, 300])
    def test_is_implied_by_our_theorems(self, epsilon, mean):
        """Same candidate, same cap: Theorems 2 and 3 promise more, so this claim is proved too."""
        law = TrialLaw(mean)
        cap = liu_talwar_max_trials(law, 1e-5)
        trial = gaussian(candidate_mu(epsilon, 1e-5, law, method="liu_talwar"))
        ours = selection_guarantee(trial, law, delta=1e-5, max_trials=cap)
        assert ours.epsilon < 0.6 * epsilon

    @pytest.mark.parametrize("law", [TrialLaw(30, 0.0), TrialLaw(1)])
    def test_other_laws_are_refused(self, law):
        for call in (
            lambda: candidate_mu(1.0, 1e-5, law, method="liu_talwar"),
            lambda: selection_guarantee(
                PrivacyGuarantee(epsilon=0.1), law, delta=0.0, method="liu_talwar"
            ),
            lambda: liu_talwar_max_trials(law, 1e-5),
        ):
            with pytest.raises(ValueError, match="geometric"):
                call()


class TestAdvice:
    def law_with_hits(self, share, wanted):
        # Geometric: 1 - E[(1 - a)^K] = a / (a + gamma (1 - a)).
        gamma = share * (1 - wanted) / (wanted * (1 - share))
        return TrialLaw(max(1.0, 1 / gamma))

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(
        ("epsilon", "delta", "last"),
        [(0.1, 1e-5, 3), (1.0, 1e-5, 2), (3.0, 1e-5, 2), (10.0, 1e-5, 1), (1.0, 1e-8, 1)],
    )
    def test_composition_wins_with_two_candidates_or_so(self, epsilon, delta, last):
        for n in (*range(1, 7), 30):
            law = self.law_with_hits(1 / n, 0.9) if n > 1 else TrialLaw(1)
            assert n == 1 or law.hit_probability(1 / n) == pytest.approx(0.9)
            composed = mu_from_epsilon(epsilon, delta) / math.sqrt(n)
            assert (composed >= candidate_mu(epsilon, delta, law)) == (n <= last)


@pytest.mark.parametrize("of_one", [PrivacyGuarantee(epsilon=0.123), gaussian(0.0123)])
def test_what_underflows_is_no_error(of_one):
    with np.errstate(all="raise"):
        guarantee = selection_guarantee(of_one, TrialLaw(50), delta=1e-6)
    assert guarantee.epsilon > of_one.epsilon
