"""Composition against closed forms, brute force and dp-accounting."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from _support.internals import delta_from_mu, mu_beside, mu_from_pure_epsilon
from skdpbo.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    as_replace_one,
    compose,
    compose_parallel,
    epsilon_from_mu,
)

mp = pytest.importorskip("mpmath").mp
mp.dps = 60


def pure(epsilon, **others):
    return PrivacyGuarantee(epsilon=epsilon, **others)


def gaussian(mu, delta=1e-5, **others):
    epsilon = max(epsilon_from_mu(mu, delta), 1e-9)  # it is 0 where delta alone suffices
    return PrivacyGuarantee(epsilon=epsilon, delta=delta, mu=mu, **others)


def profile(mu, epsilon):
    """Delta of mu-GDP at any real epsilon, in 60 digits; mu = 0: nothing is released."""
    epsilon = mp.mpf(epsilon)
    if mu == 0:
        return max(mp.mpf(0), 1 - mp.exp(epsilon))
    mu = mp.mpf(mu)
    return mp.ncdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2)


def brute_force_delta(epsilon, pure_epsilons, mu):
    """Sum over every outcome of the randomised responses."""
    total = mp.mpf(0)
    for signs in itertools.product((1, -1), repeat=len(pure_epsilons)):
        weight, loss = mp.mpf(1), mp.mpf(0)
        for sign, part in zip(signs, pure_epsilons, strict=True):
            weight /= 1 + mp.exp(-sign * mp.mpf(part))
            loss += sign * mp.mpf(part)
        total += weight * profile(mu, mp.mpf(epsilon) - loss)
    return total


@pytest.mark.parametrize("mu", [1e-300, 1e-170, 1e-160])
def test_releases_whose_squares_are_below_the_floats(mu):
    """A search for their root that starts at 0 has no end."""
    tiny = PrivacyGuarantee(epsilon=5e-324, delta=1e-6, mu=mu)
    together = compose(tiny, tiny)
    assert math.sqrt(2) * mu <= together.mu <= math.sqrt(2) * mu * (1 + 1e-15)
    ledger = PrivacyLedger(1.0, 1e-5)
    for release in (tiny, tiny, pure(0.5)):
        ledger.charge(release)
    assert not ledger.affords(pure(0.9))


def test_a_delta_that_leaves_nothing_says_nothing():
    certain = PrivacyGuarantee(epsilon=1.0, delta=1 - 2**-53)
    with pytest.raises(ValueError, match="No epsilon holds"):
        compose(certain, certain, delta=0.5)
    ledger = PrivacyLedger(1e6, 1 - 2**-53)
    ledger.charge(certain)
    assert not ledger.affords(certain)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 8.0])
@pytest.mark.parametrize("shares", [[0.1], [0.2, 0.2], [0.01, 0.3, 0.6]])
def test_mu_beside_pure_releases(epsilon, shares):
    """The largest by the sum over all outcomes, and its composition keeps to the budget."""
    pures = [share * epsilon for share in shares]
    mu = mu_beside(pures, epsilon, 1e-5)
    assert brute_force_delta(epsilon, pures, mu) <= 1e-5
    assert brute_force_delta(epsilon, pures, mu * (1 + 1e-7)) > 1e-5
    assert compose(gaussian(mu), *map(pure, pures), delta=1e-5).epsilon <= epsilon


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize(
    ("pure_epsilons", "mu"),
    [
        ([0.1], 0.268),
        ([0.1] * 8, 0.268),
        ([0.1, 0.3, 0.7, 1.9], 0.5),
        ([3.0, 0.001], 2.0),
        ([50.0], 40.0),
        ([0.2, 0.2, 0.5, 0.9, 1.3], 0.0),
        ([1e-3, 2e-3], 1e-3),
    ],
)
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 1e-2])
def test_pure_and_gaussian_against_brute_force(pure_epsilons, mu, delta):
    parts = [pure(e) for e in pure_epsilons] + ([gaussian(mu, delta)] if mu else [])
    epsilon = compose(*parts, delta=delta).epsilon
    assert brute_force_delta(epsilon, pure_epsilons, mu) <= mp.mpf(delta)
    if epsilon > 1e-300:
        assert brute_force_delta(epsilon * (1 - 1e-7), pure_epsilons, mu) > mp.mpf(delta)


def test_single_randomised_response_is_exact():
    p = 1 / (1 + math.exp(-1.0))
    delta = 1e-3
    expected = math.log((p - delta) / (1 - p))
    assert compose(pure(1.0), delta=delta).epsilon == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_many_distinct_epsilons_are_rounded_to_the_private_side_only():
    epsilons = [0.1 + 0.003 * i for i in range(40)]
    together = compose(*map(pure, epsilons), delta=1e-6).epsilon
    # Exact by convolution on the integer grid of 1/1000: all values are multiples of it.
    law = {0: mp.mpf(1)}
    for e in epsilons:
        step, p = round(e * 1000), 1 / (1 + mp.exp(-mp.mpf(e)))
        new = {}
        for value, weight in law.items():
            new[value + step] = new.get(value + step, 0) + weight * p
            new[value - step] = new.get(value - step, 0) + weight * (1 - p)
        law = new

    def delta(epsilon):
        return mp.fsum(w * profile(0, mp.mpf(epsilon) - mp.mpf(v) / 1000) for v, w in law.items())

    assert delta(together) <= mp.mpf(1e-6)
    assert delta(together * 0.9999) > mp.mpf(1e-6)  # the grid costs less than 0.01 %


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_the_grid_dominates_what_it_stands_for_and_costs_little(mu):
    """14 + 3 distinct releases: the 131072 losses of all of them are compared with a grid."""
    epsilons = [0.05 + 0.01 * i + 1e-3 * math.sin(i) for i in range(17)]
    parts = [*map(pure, epsilons), *([gaussian(mu)] if mu else [])]
    values, weights = np.zeros(1), np.ones(1)
    for epsilon in epsilons:
        p = 1 / (1 + math.exp(-epsilon))
        values = np.concatenate([values + epsilon, values - epsilon])
        weights = np.concatenate([weights * p, weights * (1 - p)])

    def delta(epsilon):
        shifted = epsilon - values
        if not mu:
            return float(weights @ -np.expm1(np.minimum(shifted, 0)))
        return float(
            weights
            @ (norm.cdf(mu / 2 - shifted / mu) - np.exp(shifted) * norm.cdf(-mu / 2 - shifted / mu))
        )

    for target in (1e-2, 1e-5, 1e-8):
        together = compose(*parts, delta=target).epsilon
        assert delta(together) <= target * (1 + 1e-9)
        assert delta(together * (1 - 1e-4)) > target


def test_planted_bug_losses_rounded_down_are_caught(monkeypatch):
    def rounded_down(losses, log_weights):
        step = (losses.max() - losses.min()) / 8192
        cell = np.floor(losses / step).astype(int)
        sums = np.bincount(cell - cell.min(), weights=np.exp(log_weights))
        kept = np.flatnonzero(sums)
        return (kept + cell.min()) * step, np.log(sums[kept])

    monkeypatch.setattr("skdpbo.privacy._composed_losses._on_a_grid", rounded_down)
    with pytest.raises(AssertionError):
        test_the_grid_dominates_what_it_stands_for_and_costs_little(0.0)


@pytest.mark.parametrize("count", [2, 50])
def test_approximate_guarantees_compose_as_kairouz_oh_and_viswanath(count):
    epsilon0, delta0, delta = 0.2, 1e-8, 1e-5
    together = compose(*[PrivacyGuarantee(epsilon=epsilon0, delta=delta0)] * count, delta=delta)

    def exact(epsilon):
        inner = mp.fsum(
            mp.binomial(count, i)
            * mp.exp(mp.mpf(epsilon0) * i)
            / (1 + mp.exp(mp.mpf(epsilon0))) ** count
            * profile(0, mp.mpf(epsilon) - (2 * i - count) * mp.mpf(epsilon0))
            for i in range(count + 1)
        )
        return 1 - (1 - mp.mpf(delta0)) ** count * (1 - inner)

    assert exact(together.epsilon) <= mp.mpf(delta)
    assert exact(together.epsilon * (1 - 1e-7)) > mp.mpf(delta)


def test_composition_against_dp_accounting():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    common = pytest.importorskip("dp_accounting.pld.common")
    step = 1e-4
    responses = pld.from_privacy_parameters(
        common.DifferentialPrivacyParameters(0.1, 0), value_discretization_interval=step
    )
    noise = pld.from_gaussian_mechanism(1 / 0.268, value_discretization_interval=step)
    oracle = responses.self_compose(20).compose(noise).get_epsilon_for_delta(1e-5)
    ours = compose(*[pure(0.1)] * 20, gaussian(0.268)).epsilon
    assert oracle * (1 - 2e-3) <= ours <= oracle * (1 + 1e-9)  # the oracle rounds losses up


def test_gaussians_add_in_squares():
    together = compose(*[gaussian(0.1, 1e-6)] * 50, delta=1e-6)
    assert together.mu == pytest.approx(0.1 * math.sqrt(50), rel=1e-14)
    assert together.epsilon == pytest.approx(epsilon_from_mu(together.mu, 1e-6), rel=1e-9)
    assert together.delta == 1e-6


def test_pure_parts_add_when_delta_is_zero():
    together = compose(pure(0.5), pure(0.25), pure(0.125))
    assert (together.epsilon, together.delta, together.mu) == (0.875, 0.0, None)


@given(
    st.lists(st.floats(0.01, 3), max_size=4),
    st.lists(st.floats(0.01, 2), max_size=3),
    st.lists(st.tuples(st.floats(0.01, 2), st.floats(1e-9, 1e-3)), max_size=3),
)
@settings(max_examples=30, deadline=None)
def test_never_worse_than_adding_and_never_better_than_a_part(pures, mus, approximates):
    parts = [pure(e) for e in pures] + [gaussian(m) for m in mus]
    parts += [PrivacyGuarantee(epsilon=e, delta=d) for e, d in approximates]
    if not parts:
        return
    together = compose(*parts)
    assert together.epsilon <= math.fsum(p.epsilon for p in parts) * (1 + 1e-15)
    assert together.delta == pytest.approx(math.fsum(p.delta for p in parts), rel=1e-12)
    for part in parts:
        alone = compose(part, delta=together.delta).epsilon
        assert together.epsilon >= alone * (1 - 1e-8)


def test_composing_in_steps_loses_nothing():
    parts = [pure(0.1)] * 20 + [gaussian(0.268)]
    at_once = compose(*parts)
    in_steps = compose(compose(*parts[:7]), compose(compose(*parts[7:20]), parts[20]))
    assert in_steps.epsilon == at_once.epsilon


def test_a_replaced_copy_counts_what_it_states():
    together = compose(*[pure(0.1)] * 20)
    louder = replace(together, epsilon=5.0)
    assert louder.parts == ()
    assert compose(louder, pure(1.0)).epsilon == 6.0


def test_statistical_distance_is_charged():
    delta = 1e-5
    clean = [gaussian(0.2, delta)] * 4
    epsilon = clean[0].epsilon * 1.001
    noisy = [PrivacyGuarantee(epsilon=epsilon, delta=delta, mu=0.2, statistical_distance=1e-9)] * 4
    together = compose(*noisy, delta=delta)
    assert together.epsilon > compose(*clean, delta=delta).epsilon
    needed = delta_from_mu(0.4, together.epsilon) + (1 + math.exp(together.epsilon)) * 4e-9
    assert needed <= delta * (1 + 1e-9)


def test_distance_too_large_for_the_curve_falls_back_to_adding():
    part = PrivacyGuarantee(epsilon=6.0, delta=1e-5, mu=1.0, statistical_distance=1e-9)
    together = compose(*[part] * 30)
    assert together.epsilon <= 180.0
    assert together.status == "proved"


def test_where_distances_use_up_delta_the_stated_pairs_are_composed():
    delta = 1e-6
    epsilon = epsilon_from_mu(0.05, delta / 2)
    part = PrivacyGuarantee(
        epsilon=epsilon,
        delta=delta,
        mu=0.05,
        statistical_distance=delta / 2 / (1 + math.exp(epsilon)),
    )
    together = compose(*[part] * 60, delta=6.1e-5)
    stated = compose(*[PrivacyGuarantee(epsilon=epsilon, delta=delta)] * 60, delta=6.1e-5)
    assert together.epsilon == pytest.approx(stated.epsilon, rel=1e-9)
    assert together.epsilon < 0.95 * 60 * epsilon


def test_void_and_conditional_spread():
    good, shaky = pure(1.0), pure(1.0, status="conditional", assumptions=("GP prior",))
    void = good.voided("seeded noise")
    assert compose(good, good).status == "proved"
    assert compose(good, shaky).status == "conditional"
    assert compose(good, shaky).assumptions == ("GP prior",)
    for order in itertools.permutations([good, shaky, void]):
        assert compose(*order).status == "void"
        assert compose_parallel(*order).status == "void"
    assert "seeded noise" in compose(good, void).assumptions
    assert compose(good, void).epsilon == 2.0
    # Voided after composition: void again when composed further.
    assert compose(compose(good, good).voided("leak"), good).status == "void"


def test_parallel_is_the_largest():
    assert compose_parallel(pure(0.5), pure(2.0), pure(1.0)).epsilon == 2.0
    both = compose_parallel(gaussian(0.2), gaussian(0.7))
    assert both.mu == 0.7
    assert both.delta == 1e-5
    assert both.epsilon == pytest.approx(epsilon_from_mu(0.7, 1e-5), rel=1e-9)
    mixed = compose_parallel(pure(0.3), gaussian(0.5))
    assert mixed.epsilon == pytest.approx(epsilon_from_mu(0.5, 1e-5), rel=1e-9)
    assert any("one part" in a for a in mixed.assumptions)
    epsilon = epsilon_from_mu(0.7, 1e-5) * 1.001
    near = PrivacyGuarantee(epsilon=epsilon, delta=1e-5, mu=0.7, statistical_distance=1e-9)
    for parts in ((near, gaussian(0.7)), (gaussian(0.7), near)):
        assert compose_parallel(*parts).statistical_distance == 1e-9


@pytest.mark.parametrize(
    ("neighbours", "grouped", "moves"),
    [
        ("replace-one", False, False),
        ("add-remove", False, True),
        ("one group replaced", True, False),
        ("one group more or less", True, True),
    ],
)
def test_parts_are_those_that_one_change_leaves_alone_but_for_one(neighbours, grouped, moves):
    """A group in two parts pays for both; so do those after a removed record, by position."""
    stated = pure(1.0, neighbours=neighbours)
    (assumption,) = compose_parallel(stated, stated).assumptions
    assert ("all records of each group belong to one part" in assumption) == grouped
    assert ("not by position" in assumption) == moves


def test_descriptions_are_merged():
    a = pure(0.5, protects="validation records", mechanism="permute-and-flip", reference="A")
    b = pure(0.5, protects="training records", mechanism="Laplace")
    together = compose(a, a, b)
    assert together.protects == "validation records and training records"
    assert together.mechanism == "2 x permute-and-flip + Laplace"
    assert together.neighbours == "replace-one"


@pytest.mark.parametrize("pair", [(0.5, 1e-9), (690, 1e-305), (720, 1e-320), (750, 1e-310)])
def test_delta_of_a_replaced_record_is_never_understated(pair):
    epsilon, delta = pair
    stated = PrivacyGuarantee(epsilon=epsilon, delta=delta, neighbours="add-remove")
    if epsilon > 709:  # e^epsilon is no float
        with pytest.raises(ValueError, match="says nothing for replace-one"):
            as_replace_one(stated)
        return
    exact = (1 + mp.exp(epsilon)) * mp.mpf(delta)
    assert exact <= as_replace_one(stated).delta <= exact * (1 + 1e-12)


def test_relations_are_not_mixed():
    replaced, added = pure(0.5), pure(0.5, neighbours="add-remove")
    moved = pure(0.5, neighbours="one row of X moved by at most 1 (l2 norm)")
    answered = pure(0.5, neighbours="the y of one record replaced, within [0, 1]")
    for pair in ((replaced, added), (added, moved), (moved, replaced)):
        for composition in (compose, compose_parallel):
            with pytest.raises(ValueError, match="different neighbours do not compose"):
                composition(*pair)
    assert compose(replaced, as_replace_one(added)).epsilon == 1.5
    assert compose(added, added).neighbours == "add-remove"
    # Of two inputs one each: stated by both names.
    both = compose(moved, answered)
    assert both.neighbours == f"{moved.neighbours} and {answered.neighbours}"
    assert any("each in one of the inputs" in text for text in both.assumptions)


def test_what_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        compose()
    with pytest.raises(TypeError, match="PrivacyGuarantee"):
        compose(1.0)
    with pytest.raises(ValueError, match="No epsilon holds"):
        compose(gaussian(1.0), delta=0.0)
    with pytest.raises(ValueError, match="No epsilon holds"):
        compose(PrivacyGuarantee(epsilon=1.0, delta=1e-3), pure(1.0), delta=1e-4)
    with pytest.raises(ValueError, match="No epsilon holds"):
        compose(*[PrivacyGuarantee(epsilon=1.0, delta=0.6)] * 2)


def test_exact_mixture_beats_the_detour_over_gaussians():
    mu = math.hypot(0.268, math.sqrt(20) * mu_from_pure_epsilon(0.1))
    detour = epsilon_from_mu(mu, 1e-5)
    assert compose(*[pure(0.1)] * 20, gaussian(0.268)).epsilon < 0.9 * detour


def test_planted_bug_forgetting_the_unlikely_branch_is_caught():
    """Dropping the branch of negative loss understates delta; the brute force notices."""
    epsilon0, mu, delta = 0.5, 0.3, 1e-2
    p = 1 / (1 + math.exp(-epsilon0))
    low, high = 0.0, 5.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if p * profile(mu, middle - epsilon0) > delta else (low, middle)
    assert brute_force_delta(high, [epsilon0], mu) > mp.mpf(delta) * (1 + mp.mpf(1e-6))


def test_what_is_public_composes_at_no_cost():
    public = PrivacyGuarantee(epsilon=0, assumptions=("the bounds are public",))
    paid = PrivacyGuarantee(epsilon=epsilon_from_mu(0.3, 1e-5), delta=1e-5, mu=0.3)
    both = compose(public, paid, public)
    assert (both.epsilon, both.delta, both.mu) == (paid.epsilon, paid.delta, paid.mu)
    assert "the bounds are public" in both.assumptions
    assert compose(public, public).epsilon == compose_parallel(public, public).epsilon == 0
    for bad in ({"delta": 1e-5}, {"mu": 1.0}):
        with pytest.raises(ValueError, match="epsilon"):
            PrivacyGuarantee(epsilon=0, **bad)


def test_a_list_of_guarantees_is_to_be_unpacked():
    with pytest.raises(TypeError, match=r"got list\. Unpack it: \*guarantees"):
        compose([PrivacyGuarantee(epsilon=1.0)])
