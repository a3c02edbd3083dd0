"""Whole profiles: certified between the points, of every source, refused where they are none."""

import math
import pickle
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtr

from _support.internals import ProfileTable, delta_from_mu, log_gaussian_delta, tabulate
from skdpbo.privacy import (
    PrivacyGuarantee,
    PrivacyProfile,
    TrialLaw,
    as_replace_one,
    compose,
    epsilon_from_mu,
    selection_guarantee,
)


def response(epsilon0, failure=0.0):
    """Exact profile of randomised response that fails with a probability."""

    def delta(epsilon):
        inside = np.maximum(np.exp(epsilon0) - np.exp(np.minimum(epsilon, epsilon0)), 0)
        return failure + (1 - failure) * inside / (np.exp(epsilon0) + 1)

    return delta


def laplace(scale):
    """Exact profile of Laplace noise at sensitivity 1, for epsilon >= 0."""
    return lambda epsilon: np.maximum(-np.expm1((epsilon - 1 / scale) / 2), 0)


def gaussian(mu):
    def delta(epsilon):
        return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)

    return delta


def mixture(epsilon):
    return 0.5 * response(0.3)(epsilon) + 0.5 * gaussian(1.0)(epsilon)


PROFILES = {
    "pure": response(1.0),
    "approximate": response(2.0, 1e-4),
    "laplace": laplace(0.7),
    "gaussian": gaussian(0.8),
    "small": gaussian(0.01),
    "mixture": mixture,
}
EPSILONS = np.concatenate([np.linspace(0, 4, 20011), np.logspace(-6, 0, 2003)])


def violation(table, exact):
    """Largest amount by which the truth exceeds the bound, relative to the truth."""
    truth = exact(EPSILONS)
    # Below it the cancellation of the textbook formula shows.
    seen = truth > 1e-9
    return np.max((truth - table.delta(EPSILONS))[seen] / truth[seen])


class InEpsilon(ProfileTable):
    """Planted: chords in epsilon, which are below a profile that is linear in e^epsilon."""

    def _chord(self, x):
        return np.interp(x, self.epsilons, self.deltas)


class FromBelow(ProfileTable):
    """Planted: the value at the next point instead of a chord."""

    def _chord(self, x):
        return self.deltas[np.minimum(np.searchsorted(self.epsilons, x), self.deltas.size - 1)]


class TestTable:
    @pytest.mark.parametrize("name", PROFILES)
    def test_is_never_below_the_truth(self, name):
        table = tabulate(PROFILES[name])
        # rounding of the textbook formula
        assert violation(table, PROFILES[name]) <= (1e-7 if name == "small" else 1e-11)
        truth = PROFILES[name](EPSILONS)
        assert np.all(table.delta(EPSILONS) <= 1.02 * truth + 1e-3)

    @pytest.mark.parametrize("planted", [InEpsilon, FromBelow])
    def test_planted_interpolation_is_below(self, planted):
        table = tabulate(PROFILES["pure"])
        assert violation(planted(table.epsilons, table.deltas), PROFILES["pure"]) > 1e-7

    def test_a_profile_that_is_linear_is_met(self):
        table = tabulate(response(1.0))
        inside = EPSILONS[EPSILONS < 0.98]
        assert table.delta(inside) == pytest.approx(response(1.0)(inside), rel=1e-11)

    def test_negative_epsilons_by_the_other_direction(self):
        table = tabulate(gaussian(0.8))
        for x in (-3.0, -0.7, -1e-4):
            exact = math.exp(log_gaussian_delta(0.8, x))
            assert exact <= table.delta(np.array(x)) <= exact * 1.001
        ends = np.array([-np.inf, np.inf])
        assert table.delta(ends).tolist() == [1.0, table.deltas[-1]]

    def test_gaussian_curve_far_out(self):
        table = tabulate(lambda x: np.array([delta_from_mu(0.5, float(e)) for e in x]))
        for x in np.linspace(0, 5, 37):
            log_delta = log_gaussian_delta(0.5, x)
            assert log_delta - 1e-12 <= table.log_delta(np.array(x)) <= log_delta + 2e-2

    def test_points_far_apart(self):
        table = ProfileTable(np.array([0.0, 2000.0]), np.array([1.0, 0.25]))
        bounds = table.delta(np.array([500.0, 1200.0, 2000.0 - math.log(2)]))
        assert bounds == pytest.approx([1.0, 1.0, 0.625], rel=1e-11)

    def test_beyond_the_last_point_and_at_zero(self):
        table = ProfileTable(np.array([0.0, 1.0]), np.array([0.5, 0.0]))
        assert table.delta(np.array([1.0, 2.0])).tolist() == [0.0, 0.0]
        assert table.delta(np.array(1 - 1e-9)) > 0
        assert table.epsilon(0.0) == 1.0


class TestNotConvex:
    """Bounds above chords of others, as the smallest of several is: the best of K trials."""

    LAW, DELTA = TrialLaw(4), 2e-4
    X = np.array([0, 0.12, 0.125, 0.127, 0.478, 0.709])
    BOUNDS = np.array([1.76e-3, 1.11e-3, 4.9e-4, 3.68e-4, 8.97e-6, 4.21e-6])

    def exact_delta(self, epsilon):
        """Largest delta of the best of K trials that the bound admits, of some orders of ranks."""
        # The losses of a trial are those of points on the hull, 0 and infinite ones.
        hull = [0, 3, 4, 5]
        s, delta = np.exp(self.X[hull]), self.BOUNDS[hull]
        unlikely = np.diff(np.append(np.diff(delta) / np.diff(s), 0.0))[::-1]
        likely, tail = s[:0:-1] * unlikely, delta[-1]
        rest = 1 - tail - likely.sum() - unlikely.sum()
        best = 0.0
        for before in np.linspace(0, 0.02, 200):
            # Of rank: what the other data set makes likelier, up to a share, then the converse.
            ends = np.cumsum([0.0, *unlikely, rest]), np.cumsum([tail, *likely, rest])
            first = before, np.interp(before, *ends)
            one = first[0] + np.cumsum([0.0, tail, *likely])
            other = first[1] + np.cumsum([0.0, 0.0, *unlikely])
            at_least_one = [np.array([1 - self.LAW.pgf(1 - u) for u in us]) for us in (one, other)]
            won = [share - share[0] for share in at_least_one]
            best = max(best, float(np.max(won[0] - math.exp(epsilon) * won[1])))
        return best

    def epsilon(self):
        profile = PrivacyProfile(ProfileTable(self.X, self.BOUNDS).delta)
        return selection_guarantee(profile, self.LAW, delta=self.DELTA).epsilon

    def test_a_selection_is_within_its_bound(self):
        table = ProfileTable(self.X, self.BOUNDS).convex()
        assert table.epsilons.tolist() == [0, 0.127, 0.478, 0.709]
        assert ProfileTable(self.X[:2], self.BOUNDS[:2]).convex().epsilons.tolist() == [0, 0.12]
        assert 0.8 * self.DELTA < self.exact_delta(self.epsilon()) < self.DELTA

    def test_points_that_are_convex_stay(self):
        for name in ("gaussian", "mixture", "laplace"):
            table = tabulate(PROFILES[name])
            x = np.minimum(EPSILONS, table.epsilons[-1])
            assert table.convex().delta(x) == pytest.approx(table.delta(x), rel=1e-9, abs=1e-15)

    def test_planted_points_above_chords(self, monkeypatch):
        monkeypatch.setattr(ProfileTable, "convex", lambda self: self)
        assert self.exact_delta(self.epsilon()) > 1.2 * self.DELTA


class TestExactNumbers:
    """A number between two floats is read as the upper one."""

    FINE = Fraction(1, 3) + Fraction(1, 10**18)

    def test_epsilon_of_an_accountant(self):
        assert float(self.FINE) < self.FINE

        accountant = SimpleNamespace(get_epsilon=lambda delta: self.FINE)
        assert PrivacyProfile(accountant).epsilon(1e-15) >= self.FINE

    @pytest.mark.parametrize("kind", [Fraction, np.longdouble])
    def test_delta(self, kind):
        stated = self.FINE if kind is Fraction else kind(1) / 3 + kind(1e-18)
        profile = PrivacyProfile(lambda epsilon: stated)
        assert Fraction(profile.delta(0.0)) >= Fraction(*stated.as_integer_ratio())


class TestRefusals:
    @pytest.mark.parametrize(
        ("profile", "reason"),
        [
            (lambda epsilon: 0.1 + 0.0 * epsilon + 0.1 * (epsilon > 3), "must not increase"),
            (lambda epsilon: 1.1 * np.exp(-epsilon), "must not exceed 1"),
            (lambda epsilon: np.exp(-epsilon) - 0.5, "must not be negative"),
            (lambda epsilon: np.where(epsilon < 2, np.nan, 0.0), "must be finite: it is nan"),
            (lambda epsilon: np.inf * np.ones_like(epsilon), "must be finite: it is inf"),
        ],
        ids=["increasing", "above 1", "negative", "nan", "infinite"],
    )
    def test_values(self, profile, reason):
        with pytest.raises(ValueError, match=reason):
            PrivacyProfile(profile)

    @pytest.mark.parametrize(
        ("profile", "reason"),
        [
            (0.5, "got float"),
            ("gdp", "got str"),
            (lambda epsilon: "0.1", "real numbers, got str"),
            (lambda epsilon: True, "real numbers, got bool"),
            (lambda epsilon: PrivacyGuarantee(epsilon=1.0), "got PrivacyGuarantee"),
        ],
        ids=["number", "text", "gives text", "gives a bool", "gives a guarantee"],
    )
    def test_types(self, profile, reason):
        with pytest.raises(TypeError, match=reason):
            PrivacyProfile(profile)

    def test_a_value_below_zero_shows_the_rounding_of_the_others(self):
        profile = PrivacyProfile(lambda epsilon: np.where(epsilon < 1, 0.1, -1e-10))
        assert profile.delta(2.0) == 1e-10

    def test_no_point_is_low_enough(self):
        profile = PrivacyProfile(response(1.0, 1e-3))
        assert profile.epsilon(1e-4) == math.inf
        with pytest.raises(ValueError, match="No epsilon holds"):
            profile.guarantee(1e-4)


class TestSources:
    def test_a_function_of_a_number(self):
        def scalar(epsilon):
            return 0.2 if epsilon < 1 else 0.0

        profile = PrivacyProfile(scalar)
        assert profile.delta(0.5) >= 0.2
        assert profile.delta(1.01) == 0.0
        assert profile.status == "conditional"
        assert profile.neighbours == "replace-one"

    def test_a_function_that_treats_arrays_wrongly(self):
        def wrong(epsilon):  # the maximum of an array, not of each value
            return np.full(np.shape(epsilon), math.exp(-np.max(epsilon)))

        assert PrivacyProfile(wrong).delta(0.5) >= math.exp(-0.5)

    def test_guarantees(self):
        mu = 0.7
        gdp = PrivacyGuarantee(epsilon=epsilon_from_mu(mu, 1e-6), delta=1e-6, mu=mu)
        profile = PrivacyProfile(gdp)
        assert profile.status == "proved"
        exact = epsilon_from_mu(mu, 1e-8)
        assert exact <= profile.epsilon(1e-8) <= exact * 1.001
        pair = PrivacyProfile(PrivacyGuarantee(epsilon=0.5, delta=1e-4))
        assert 0.5 <= pair.epsilon(1e-4) <= 0.5 * 1.001

    @pytest.mark.parametrize("failure", [0.0, 1e-3])
    def test_a_pair_is_randomised_response_that_fails(self, failure):
        profile = PrivacyProfile(PrivacyGuarantee(epsilon=2.0, delta=failure))
        for epsilon in (0.0, 0.5, 1.5, 1.99):
            exact = response(2.0, failure)(epsilon)
            assert exact <= profile.delta(epsilon) <= exact * 1.001

    def test_another_profile_keeps_what_it_states(self):
        stated = PrivacyGuarantee(epsilon=1.0, assumptions=("a",), protects="rows", reference="r")
        first = PrivacyProfile(stated, mechanism="m").voided("seeded")
        again = PrivacyProfile(first, assumptions=("b",))
        assert (again.status, again.assumptions) == ("void", ("seeded", "a", "b"))
        assert (again.protects, again.mechanism, again.reference) == ("rows", "m", "r")
        assert again.epsilon(0.1) == first.epsilon(0.1)

    def test_losses_of_dp_accounting(self):
        pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
        losses = pld.from_gaussian_mechanism(2.0, value_discretization_interval=1e-3)
        profile = PrivacyProfile(losses)
        exact = losses.get_epsilon_for_delta(1e-5)
        assert exact - 1e-9 <= profile.epsilon(1e-5) <= exact * 1.002
        assert profile.neighbours == "not stated by the profile"

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_ONE"])
    def test_accountants_of_dp_accounting(self, relation):
        accounting = pytest.importorskip("dp_accounting")
        accountant = pytest.importorskip("dp_accounting.rdp").RdpAccountant(
            neighboring_relation=accounting.NeighboringRelation[relation]
        )
        accountant.compose(accounting.GaussianDpEvent(2.0), 4)
        names = {"ADD_OR_REMOVE_ONE": "add-remove", "REPLACE_ONE": "replace-one"}
        for source in (accountant, accountant.get_delta):
            profile = PrivacyProfile(source)
            assert profile.neighbours == names[relation]
            exact = accountant.get_epsilon(1e-5)
            assert 0.999 * exact <= profile.epsilon(1e-5) <= exact * 1.002
        with pytest.raises(ValueError, match="was computed for"):
            PrivacyProfile(accountant, neighbours="displacement")

    def test_profiles_of_opendp(self):
        dp = pytest.importorskip("opendp.prelude")
        dp.enable_features("contrib", "honest-but-curious")
        profile = PrivacyProfile(
            dp.new_privacy_profile(lambda epsilon: float(gaussian(1.0)(epsilon))),
            neighbours="add-remove",
        )
        exact = epsilon_from_mu(1.0, 1e-5)
        assert exact * (1 - 1e-9) <= profile.epsilon(1e-5) <= exact * 1.002

    @pytest.mark.parametrize("unknown", [math.nan, math.inf])
    def test_an_epsilon_that_is_no_number_is_not_taken_for_0(self, unknown):
        def get_epsilon(delta):
            return epsilon_from_mu(0.9, delta) if delta >= 1e-6 else unknown

        profile = PrivacyProfile(SimpleNamespace(get_epsilon=get_epsilon))
        for epsilon in (0.0, 1.0, 9.0):
            assert profile.delta(epsilon) >= delta_from_mu(0.9, epsilon)

    def test_accountants_that_know_epsilon_alone(self):
        class Accountant:
            def get_epsilon(self, delta):
                if delta < 1e-12:
                    raise ValueError("too small")
                return epsilon_from_mu(0.9, delta)

        Accountant.__module__ = "opacus.accountants.rdp"
        profile = PrivacyProfile(Accountant())
        assert profile.neighbours == "add-remove"
        exact = epsilon_from_mu(0.9, 1e-5)
        assert exact <= profile.epsilon(1e-5) <= exact * 1.005
        for epsilon in np.linspace(0.0, 8, 301):
            assert profile.delta(epsilon) >= delta_from_mu(0.9, epsilon)

    def test_pickles_without_the_source(self):
        profile = PrivacyProfile(lambda epsilon: np.exp(-epsilon) / 2)
        copy = pickle.loads(pickle.dumps(profile))
        assert copy.delta(0.3) == profile.delta(0.3)
        assert "delta=1e-05 at epsilon" in repr(copy)


class TestSelection:
    @pytest.mark.parametrize("mu", [0.05, 0.15, 0.7])
    def test_agrees_with_the_gaussian_candidate(self, mu):
        gdp = PrivacyGuarantee(epsilon=epsilon_from_mu(mu, 1e-9), delta=1e-9, mu=mu)
        exact = selection_guarantee(gdp, TrialLaw(30), delta=1e-5).epsilon
        total = selection_guarantee(PrivacyProfile(gdp), TrialLaw(30), delta=1e-5)
        assert exact * (1 - 1e-9) <= total.epsilon <= exact * 1.001

    def test_agrees_with_the_pure_candidate(self):
        exact = selection_guarantee(PrivacyGuarantee(epsilon=1.0), TrialLaw(30), delta=0).epsilon
        total = selection_guarantee(response(1.0), TrialLaw(30), delta=1e-9)
        assert exact * (1 - 1e-3) <= total.epsilon <= exact * 1.01
        assert total.status == "conditional"
        assert "the stated privacy profile holds" in total.assumptions

    @pytest.mark.slow
    def test_gradient_descent_on_samples(self):
        pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
        losses = pld.from_gaussian_mechanism(
            1.0, sampling_prob=0.02, value_discretization_interval=1e-3
        ).self_compose(500)
        profile = PrivacyProfile(losses, neighbours="add-remove")
        total = selection_guarantee(profile, TrialLaw(30), delta=1e-5)
        assert total.epsilon < 4.75  # one point of the profile: 8.86
        assert total.neighbours == "add-remove"
        capped = selection_guarantee(profile, TrialLaw(30), delta=1e-5, max_trials=600)
        assert total.epsilon < capped.epsilon < 1.01 * total.epsilon

    @pytest.mark.parametrize("method", ["papernot_steinke", "liu_talwar"])
    def test_published_accountings_do_not_take_profiles(self, method):
        with pytest.raises(ValueError, match='needs method="profile"'):
            selection_guarantee(response(0.1), TrialLaw(3), delta=1e-5, method=method)


class TestReplaceOne:
    def test_pure_and_gaussian_double(self):
        pure = as_replace_one(PrivacyGuarantee(epsilon=0.3, neighbours="add-remove"))
        assert (pure.epsilon, pure.delta, pure.neighbours) == (0.6, 0.0, "replace-one")
        gdp = PrivacyGuarantee(
            epsilon=epsilon_from_mu(0.5, 1e-6), delta=1e-6, mu=0.5, neighbours="add-remove"
        )
        converted = as_replace_one(gdp)
        assert (converted.mu, converted.delta) == (1.0, 1e-6)
        assert converted.epsilon == epsilon_from_mu(1.0, 1e-6)

    @pytest.mark.parametrize("epsilon", [0.1, 2.0])
    def test_pairs_are_attained_by_randomised_response(self, epsilon):
        stated = PrivacyGuarantee(epsilon=epsilon, delta=1e-3, neighbours="add-remove")
        converted = as_replace_one(stated)
        assert converted.epsilon == 2 * epsilon
        assert converted.delta == pytest.approx(1e-3 * (1 + math.exp(epsilon)), rel=1e-12)
        # two steps: laws (delta, 1 - delta) -> each moves by the most that the pair allows
        p = [0.0]
        for _ in range(2):
            p.append(p[-1] * math.exp(epsilon) + 1e-3)
        assert p[2] - math.exp(2 * epsilon) * p[0] == pytest.approx(converted.delta, rel=1e-12)

    def test_parts_are_converted(self):
        steps = [PrivacyGuarantee(epsilon=0.1, neighbours="add-remove")] * 5
        converted = as_replace_one(compose(*steps))
        assert converted.epsilon == pytest.approx(1.0)
        assert [part.neighbours for part in converted.parts] == ["replace-one"] * 5
        at_delta = as_replace_one(compose(*steps, delta=1e-3))
        doubled = [PrivacyGuarantee(epsilon=0.2)] * 5
        assert at_delta.epsilon == compose(*doubled, delta=1e-3).epsilon

    def test_parts_of_a_replaced_group_compose_as_those_of_a_record(self):
        group, record = (
            [PrivacyGuarantee(epsilon=0.1, neighbours=relation)] * 5
            for relation in ("one group replaced", "replace-one")
        )
        converted = as_replace_one(compose(*group, delta=1e-3))
        assert [part.neighbours for part in converted.parts] == ["replace-one"] * 5
        further, total = PrivacyGuarantee(epsilon=0.1), compose(*record, *record[:1], delta=1e-2)
        assert compose(converted, further, delta=1e-2).epsilon == total.epsilon

    @pytest.mark.parametrize("mu", [0.2, 1.0])
    def test_profiles(self, mu):
        profile = as_replace_one(PrivacyProfile(gaussian(mu), neighbours="add-remove"))
        for epsilon in np.linspace(0, 3 * mu, 13):
            exact = delta_from_mu(2 * mu, epsilon)
            assert exact * (1 - 1e-9) <= profile.delta(epsilon) <= 1.2 * exact + 1e-9

    def test_status_and_assumptions_stay(self):
        stated = PrivacyGuarantee(epsilon=1.0, neighbours="add-remove").voided("seeded")
        assert as_replace_one(stated).status == "void"
        assert as_replace_one(stated).assumptions == ("seeded",)

    def test_replace_one_is_returned(self):
        stated = PrivacyGuarantee(epsilon=1.0)
        assert as_replace_one(stated) is stated

    @pytest.mark.parametrize("relation", ["one row of X moved by at most 1 (l2 norm)", "one group"])
    def test_others_are_refused(self, relation):
        with pytest.raises(ValueError, match="does not imply one for replace-one"):
            as_replace_one(PrivacyGuarantee(epsilon=1.0, neighbours=relation))

    def test_a_delta_of_one_is_refused(self):
        stated = PrivacyGuarantee(epsilon=5.0, delta=0.1, neighbours="add-remove")
        with pytest.raises(ValueError, match="says nothing for replace-one"):
            as_replace_one(stated)
        with pytest.raises(TypeError, match="got float"):
            as_replace_one(1.0)


@pytest.mark.parametrize("name", ["protects", "mechanism", "reference", "assumptions"])
@pytest.mark.parametrize("value", [None, 0, 1.5])
def test_what_a_profile_states_is_text(name, value):
    with pytest.raises(TypeError, match=name):
        PrivacyProfile(lambda epsilon: np.exp(-epsilon), **{name: value})


def test_one_text_is_no_list_of_assumptions():
    with pytest.raises(TypeError, match="assumptions"):
        PrivacyProfile(lambda epsilon: np.exp(-epsilon), assumptions="one")
