"""Attacks on the accounting of private selection: exact totals against the certified bounds.

A candidate has finitely many outputs with known probabilities under two
neighbouring data sets, ranked in some order; the law of the best of K is then known exactly, and
with it the delta of the selection at every epsilon. No instance may exceed the bound; planted
mistakes in the bound are caught by the same instances. Only the last class draws: runs of the
selection must have that exact law (false-alarm rate 1e-6).
"""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import chisquare, norm

from _support.internals import GaussianProfile, StaircaseProfile, loss_of_rank, selection_bounds
from _support.pure_candidates import candidate_epsilon
from skdpbo.mechanisms import draw_trials, noise_source
from skdpbo.privacy import (
    PrivacyGuarantee,
    TrialLaw,
    candidate_mu,
    compose,
    epsilon_from_mu,
    mu_from_epsilon,
    selection_guarantee,
)

LAWS = [(30, -0.5), (5, -0.9), (30, 0.0), (10, 0.4), (30, 1.0), (3, 1.0), (12, 4.0)]


def best_of(law, probabilities, max_trials=None):
    """Law of the best of K outputs; `probabilities` in order of rank, the best first."""
    above = np.minimum(np.append(0.0, np.cumsum(probabilities)), 1.0)
    return -np.diff(none_reaches(law, above, max_trials))


def none_reaches(law, u, max_trials=None):
    """Probability that no trial has an output of probability u: E[(1 - u)^min(K, max_trials)]."""
    if max_trials is not None:
        terms = [law.pmf(k) * (1 - u) ** k for k in range(1, max_trials)]
        return np.sum(terms, axis=0) + law.survival(max_trials - 1) * (1 - u) ** max_trials
    a, whole = -np.log(law.gamma + (1 - law.gamma) * u), -math.log(law.gamma)
    return a / whole if law.eta == 0 else np.expm1(law.eta * a) / math.expm1(law.eta * whole)


def exact_delta(law, one, other, epsilon, max_trials=None):
    """Delta of the selection at epsilon between two laws of a candidate's output, both ways."""
    a, b = best_of(law, one, max_trials), best_of(law, other, max_trials)
    ratio = math.exp(epsilon)
    return max(np.maximum(a - ratio * b, 0).sum(), np.maximum(b - ratio * a, 0).sum())


def gaussian_cells(edges, mu, order):
    """Probabilities of cells of the line under N(0, 1) and N(mu, 1), in order of rank."""
    edges = np.concatenate([[-np.inf], edges, [np.inf]])
    # Differences on the side where they are small.
    left, right = norm.cdf(edges), norm.sf(edges)
    one = np.where(edges[1:] < 0, np.diff(left), -np.diff(right))
    left, right = norm.cdf(edges - mu), norm.sf(edges - mu)
    other = np.where(edges[1:] < mu, np.diff(left), -np.diff(right))
    return one[order], other[order]


def adversarial_order(law, mu, epsilon):
    """Largest delta of the order "z > a first, then upwards from minus infinity", exactly.

    The rank of a very negative z suffers most from the neighbouring data set, where z > a is more
    likely, and z itself speaks most clearly for the first data set.
    """
    best = 0.0
    ratio = math.exp(epsilon)
    for a in np.linspace(-1, 4, 126):
        u_a, v_a = norm.sf(a), norm.sf(a - mu)
        z = np.linspace(-8, a, 400)
        u, v = np.minimum(u_a + norm.cdf(z), 1), np.minimum(v_a + norm.cdf(z - mu), 1)
        one = none_reaches(law, u_a) - none_reaches(law, u)
        other = none_reaches(law, v_a) - none_reaches(law, v)
        best = max(best, float(np.max(one - ratio * other)))
    return best


def bound_of(profile, law, epsilon):
    """Each of the bounds by itself must hold, so take the smaller."""
    return min(math.exp(b.log_delta(epsilon)) for b in selection_bounds(profile, law))


def assert_private(delta, bound):
    assert delta <= bound * (1 + 1e-9) + 1e-11  # what differences of probabilities lose


class TestBestOf:
    def test_against_running_through_the_number_of_trials(self):
        law, probabilities = TrialLaw(3, 0.5), np.array([0.05, 0.3, 0.15, 0.5])
        worse = 1 - np.append(0.0, np.cumsum(probabilities))
        for cap in (None, 1, 4):
            exact = np.zeros(4)
            for k in range(1, 400):
                n = k if cap is None else min(k, cap)
                exact += law.pmf(k) * (worse[:-1] ** n - worse[1:] ** n)
            assert best_of(law, probabilities, cap) == pytest.approx(exact, abs=1e-13)

    def test_ties_broken_at_random_are_one_output(self):
        """By running through all triples: equal scores, one of the tied trials at random."""
        probabilities, scores = [0.2, 0.5, 0.3], [2, 1, 1]
        k, exact = 3, np.zeros(3)
        for triple in np.ndindex(3, 3, 3):
            p = math.prod(probabilities[i] for i in triple)
            top = [i for i in triple if scores[i] == max(scores[j] for j in triple)]
            for i in top:
                exact[i] += p / len(top)
        assert exact[0] == pytest.approx(1 - 0.8**k)
        assert exact[1:].sum() == pytest.approx(0.8**k)
        assert exact[1] / exact[2] == pytest.approx(0.5 / 0.3)


class TestNoInstanceExceedsTheBound:
    @pytest.mark.quick_cases(6)
    @pytest.mark.parametrize(("mean", "eta"), LAWS)
    @pytest.mark.parametrize(("mu", "epsilon"), [(0.15, 0.8), (0.5, 2.0), (1.3, 3.0)])
    def test_random_outputs_of_a_gaussian(self, mean, eta, mu, epsilon):
        rng = np.random.default_rng(0)
        law = TrialLaw(mean, eta)
        bound = bound_of(GaussianProfile(mu), law, epsilon)
        for _ in range(40):
            edges = np.sort(rng.normal(0, 1.5, rng.integers(1, 30)))
            order = rng.permutation(len(edges) + 1)
            assert_private(exact_delta(law, *gaussian_cells(edges, mu, order), epsilon), bound)

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize(("mean", "eta"), LAWS)
    @pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
    def test_adversarial_order_of_a_gaussian(self, mean, eta, epsilon):
        law = TrialLaw(mean, eta)
        for mu in (0.15, 0.5):
            delta = adversarial_order(law, mu, epsilon)
            assert_private(delta, bound_of(GaussianProfile(mu), law, epsilon))

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize(("mean", "eta"), LAWS)
    @pytest.mark.parametrize("delta", [0.0, 1e-3])
    def test_random_outputs_of_a_staircase(self, mean, eta, delta):
        rng = np.random.default_rng(1)
        law, epsilon_0 = TrialLaw(mean, eta), 0.4
        profile, p = StaircaseProfile(epsilon_0, delta), expit(epsilon_0)
        for _ in range(40):
            n = rng.integers(2, 12)
            yes, no, fail_1, fail_2 = rng.dirichlet(np.full(n, 0.2), 4)
            order = rng.permutation(n)
            one = (delta * fail_1 + (1 - delta) * (p * yes + (1 - p) * no))[order]
            other = (delta * fail_2 + (1 - delta) * ((1 - p) * yes + p * no))[order]
            for epsilon in (0.1, 0.7, 1.1, 1.6):
                assert_private(
                    exact_delta(law, one, other, epsilon), bound_of(profile, law, epsilon)
                )

    @pytest.mark.parametrize(("mean", "eta"), LAWS)
    def test_failures_hidden_in_the_best_rank(self, mean, eta):
        """The worst staircase: with probability delta an output that tells all, and wins."""
        law, epsilon_0, delta = TrialLaw(mean, eta), 0.4, 1e-3
        p, share = expit(epsilon_0), 1e-9
        one = np.array([delta, 0.0, (1 - delta) * (1 - p), (1 - delta) * p * share, 1.0])
        other = np.array([0.0, delta, (1 - delta) * p, (1 - delta) * (1 - p) * share, 1.0])
        one[-1], other[-1] = 1 - one[:-1].sum(), 1 - other[:-1].sum()
        profile = StaircaseProfile(epsilon_0, delta)
        for epsilon in (0.2, 0.9, 1.5):
            found = exact_delta(law, one, other, epsilon)
            assert_private(found, bound_of(profile, law, epsilon))
        assert found > 0.9 * law.hit_probability(delta)

    @pytest.mark.parametrize("composed", [False, pytest.param(True, marks=pytest.mark.slow)])
    @pytest.mark.parametrize(("mean", "eta"), [*LAWS, (2000, -0.5)])
    def test_failures_that_are_charged_to_delta(self, mean, eta, composed):
        """A failure that tells all, and wins: the total allows for one in any of the trials."""
        law, epsilon_0, failure = TrialLaw(mean, eta), 0.05, 1e-8
        p = (1 - failure) * expit(epsilon_0)
        one, other = [failure, 0.0, 1 - failure - p, p], [0.0, failure, p, 1 - failure - p]
        trial, n_found = PrivacyGuarantee(epsilon=epsilon_0, delta=failure), 0
        if composed:  # with a release that hardly tells
            tiny = PrivacyGuarantee(epsilon=epsilon_from_mu(1e-3, 1e-9), delta=1e-9, mu=1e-3)
            trial = compose(trial, tiny, delta=2e-8)
        for delta in law.hit_probability(failure) * np.array([0.5, 0.9, 3.0, 30.0, 3000.0]):
            try:
                total = selection_guarantee(trial, law, delta=delta)
            except ValueError:  # no epsilon holds at so small a delta
                continue
            n_found += 1
            assert exact_delta(law, one, other, total.epsilon) <= delta * (1 + 1e-9) + 1e-15
        assert n_found >= 1


class TestTightness:
    """Distance of a certified mu from the best possible one, at E[K] = 30 and delta 1e-5."""

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(
        ("epsilon", "eta", "violates_from"), [(1, 0.0, 0.1695), (1, 1.0, 0.1551), (3, 1.0, 0.4367)]
    )
    def test_order_violates_only_above_the_certified_mu(self, epsilon, eta, violates_from):
        law = TrialLaw(30, eta)
        certified = candidate_mu(epsilon, 1e-5, law)
        assert adversarial_order(law, certified, epsilon) < 1e-5
        assert adversarial_order(law, violates_from - 4e-4, epsilon) < 1e-5
        assert adversarial_order(law, violates_from + 4e-4, epsilon) > 1e-5
        assert 0.99 * violates_from < certified < violates_from

    @pytest.mark.parametrize(("mean", "eta"), [law for law in LAWS if law[0] > 3])
    @pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
    def test_pure_selection_is_attained(self, mean, eta, epsilon):
        """Randomised response whose rarer answer ranks best: the loss of the next rank is exact."""
        law = TrialLaw(mean, eta)
        e = candidate_epsilon(epsilon, law)
        share = 1e-7  # of the likelier answer, that comes next in the order
        one = [1 - expit(e), expit(e) * share, expit(e) * (1 - share)]
        other = [expit(e), (1 - expit(e)) * share, (1 - expit(e)) * (1 - share)]
        found = math.log(best_of(law, one)[1] / best_of(law, other)[1])
        assert found == pytest.approx(epsilon, rel=2e-5)

    def test_likelihood_order_is_not_the_worst(self):
        law, edges = TrialLaw(30, 1.0), np.linspace(-6, 6, 1500)
        cells = gaussian_cells(edges, 0.2, np.arange(len(edges) + 1)[::-1])
        assert exact_delta(law, *cells, 1.0) < 1e-5 < adversarial_order(law, 0.2, 1.0)


class TestPlantedBugs:
    """Wrong bounds, calibrated as the right one is, are broken by the adversarial order."""

    def calibrated(self, log_bound):
        root = brentq(lambda log_mu: log_bound(math.exp(log_mu)) - math.log(1e-5), -4, 0)
        return math.exp(root)

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("eta", [-0.5, 0.0, 1.0])
    @pytest.mark.parametrize(
        "planted",
        [
            "right",
            "exponent eta",
            "mean of K forgotten",
            "loss of the rank forgotten",
            "gamma squared",
            "best of one",
        ],
    )
    def test_bug_is_caught(self, planted, eta):
        law = TrialLaw(30, eta)

        def log_bound(mu):
            profile = GaussianProfile(mu)
            e1 = loss_of_rank(profile, law)
            power = {"exponent eta": eta, "loss of the rank forgotten": 0}.get(planted, eta + 1)
            mean = 1 if planted in ("mean of K forgotten", "best of one") else law.mean
            if planted == "gamma squared":
                e1 /= 2
            if planted == "best of one":
                power = 0
            return math.log(mean) + float(profile.log_delta(np.array(1 - power * e1)))

        delta = adversarial_order(law, self.calibrated(log_bound), 1.0)
        assert (delta > 1e-5) == (planted != "right")

    @pytest.mark.parametrize("eta", [0.0, 1.0])
    def test_refined_bound_with_shorter_shifts_is_caught(self, eta):
        """Power eta + .8 of t'/t instead of eta + 1."""
        law = TrialLaw(30, eta)

        def log_bound(mu):
            profile = GaussianProfile(mu)
            refined = selection_bounds(profile, law)[-1]
            shifts = refined.shifts * (law.eta + 0.8) / (law.eta + 1)
            return float(np.logaddexp.reduce(refined.log_weights + profile.log_delta(1.0 + shifts)))

        assert adversarial_order(law, self.calibrated(log_bound), 1.0) > 1e-5


class TestSecrecyOfTheNumberOfTrials:
    """K known: what the guarantee would have to be, at a mu certified for epsilon 1."""

    def epsilon_given(self, k, mu):
        """Epsilon at delta 1e-5 of the best of exactly k, scores in the order of likelihood."""
        z = np.linspace(-8, 8, 4001)

        def excess(epsilon):
            up, down = norm.cdf(z) ** k, norm.cdf(z - mu) ** k
            ratio = math.exp(epsilon)
            return max(np.max(up - ratio * down), np.max(1 - down - ratio * (1 - up))) - 1e-5

        return brentq(excess, 0, 20, xtol=1e-6)

    @pytest.mark.parametrize(("k", "epsilon"), [(10, 1.17), (100, 2.34), (1000, 3.66)])
    def test_a_known_number_breaks_the_claim(self, k, epsilon):
        # mu of Theorem 1 at (1, 1e-5), E[K] = 100, geometric.
        assert self.epsilon_given(k, 0.12549) == pytest.approx(epsilon, abs=6e-3)
        assert self.epsilon_given(k, candidate_mu(1.0, 1e-5, TrialLaw(100))) > 1.2

    @pytest.mark.parametrize(("k", "epsilon"), [(10, 1.33), (100, 2.66), (1000, 4.11)])
    def test_worse_in_the_adversarial_order(self, k, epsilon):
        mu, a = candidate_mu(1.0, 1e-5, TrialLaw(100)), np.linspace(-1, 5, 241)[:, None]
        z = np.linspace(-8, 5, 1501)
        u, v = norm.sf(a) + norm.cdf(z), norm.sf(a - mu) + norm.cdf(z - mu)
        first, second = (
            np.where(z < a, 1 - u, norm.cdf(a)),
            np.where(z < a, 1 - v, norm.cdf(a - mu)),
        )
        one = norm.cdf(a) ** k - first.clip(0) ** k
        other = norm.cdf(a - mu) ** k - second.clip(0) ** k
        root = brentq(lambda e: np.max(one - math.exp(e) * other) - 1e-5, 0, 20, xtol=1e-4)
        assert root == pytest.approx(epsilon, abs=0.01)

    def test_all_released_needs_composition(self):
        """Exactly K, all released: mu / sqrt(K), the last column of the documented table."""
        multipliers = [math.sqrt(k) / mu_from_epsilon(e, 1e-5) for e, k in [(1, 30), (10, 30)]]
        assert multipliers == pytest.approx([20.4, 2.7], abs=0.05)


class TestCap:
    """Theorem 3: the number of trials cut at max_trials."""

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(("mean", "eta"), [(5, 0.0), (5, 1.0), (3, 2.5)])
    @pytest.mark.parametrize("cap", [3, 8, 25])
    def test_both_prices_hold(self, mean, eta, cap):
        rng = np.random.default_rng(2)
        law, mu = TrialLaw(mean, eta), 0.6
        tail, share = law.survival(cap), law.size_biased_survival(cap)
        edges = np.sort(rng.normal(0, 1.5, 15))
        for _ in range(15):
            cells = gaussian_cells(edges, mu, rng.permutation(16))
            for epsilon in (0.8, 2.0):
                found = exact_delta(law, *cells, epsilon, cap)
                bound = bound_of(GaussianProfile(mu), law, epsilon)
                assert_private(found, bound + (1 + math.exp(epsilon)) * tail)
                shifted = epsilon + math.log1p(-share)
                if shifted > 0:
                    bound = bound_of(GaussianProfile(mu), law, shifted)
                    assert_private(found, bound + tail)

    def test_forgotten_price_is_caught(self):
        """A fixed number of trials, in effect: cut where almost every run is cut."""
        law, cap = TrialLaw(1e6, 1.0), 1000
        mu = candidate_mu(1.0, 1e-5, law)
        edges = np.linspace(-5, 5, 400)
        cells = gaussian_cells(edges, mu, np.arange(401))
        assert exact_delta(law, *cells, 1.0, cap) > 5e-4
        assert exact_delta(law, *cells, 1.0) < 1e-5
        with pytest.raises(ValueError, match="costs more than delta"):
            candidate_mu(1.0, 1e-5, law, max_trials=cap)


class TestRunsHaveTheExactLaw:
    """Best of `draw_trials` many normal deviates, ranked "z > 1 first, then upwards"."""

    EDGES = np.array([-1.5, -0.5, 0.0, 0.5, 1.0])

    def runs(self, law, size, number_of_trials):
        rng, source = np.random.default_rng(0), noise_source()
        numbers = [number_of_trials(source) for _ in range(size)]
        z = rng.normal(size=sum(numbers))
        score = np.where(z > 1, 10 + z, -z)
        starts = np.cumsum([0, *numbers[:-1]])
        best = np.maximum.reduceat(score, starts)
        cell = np.searchsorted(self.EDGES, np.where(best > 10, 2.0, -best))
        return np.bincount(cell, minlength=6)

    def p_value(self, law, counts):
        order = [5, 0, 1, 2, 3, 4]
        one, _ = gaussian_cells(self.EDGES, 0.1, order)
        return chisquare(counts[order], best_of(law, one) * counts.sum()).pvalue

    @pytest.mark.slow
    @pytest.mark.parametrize("eta", [0.0, 1.0])
    def test_law(self, eta):
        law = TrialLaw(4, eta)
        counts = self.runs(law, 5000, lambda source: draw_trials(law, source=source))
        assert self.p_value(law, counts) > 1e-6

    def test_fixed_number_is_caught(self):
        law = TrialLaw(4, 1.0)
        assert self.p_value(law, self.runs(law, 5000, lambda source: 4)) < 1e-6
