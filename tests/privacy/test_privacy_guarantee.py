"""The guarantee object: what it accepts, says and refuses."""

import copy
import math
import pickle
import re
from dataclasses import FrozenInstanceError, fields, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from sklearn import config_context

from _support.internals import (
    check_count,
    check_delta,
    check_mu,
    check_positive,
    check_positive_delta,
    check_real,
    check_within,
    delta_from_mu,
)
from skdpbo import privacy
from skdpbo.privacy import PrivacyGuarantee, compose, compose_parallel, epsilon_from_mu


def check_mu_itself(value, _):
    return check_mu(value)


def name_in_error(check):
    return "mu" if check is check_mu_itself else "amount"


POSITIVE = [check_positive, check_mu_itself]
NON_NUMBERS = [True, False, np.bool_(True), "1", None, 1j, [1.0], np.array(1.0), Decimal(1)]


def check_unit(value, name):
    return check_within(value, name, "[0, 1)")


@pytest.mark.parametrize("check", [*POSITIVE, check_delta, check_real, check_unit])
@pytest.mark.parametrize("bad", NON_NUMBERS, ids=repr)
def test_checks_refuse_what_is_not_a_number(check, bad):
    with pytest.raises(TypeError, match=f"^{name_in_error(check)} must be a real number"):
        check(bad, "amount")


@pytest.mark.parametrize("check", POSITIVE)
@pytest.mark.parametrize("bad", [0, -0.0, -1, float("nan"), float("inf"), 10**400], ids=repr)
def test_checks_refuse_what_is_not_positive_and_finite(check, bad):
    with pytest.raises(ValueError, match=f"^{name_in_error(check)} must be"):
        check(bad, "amount")


@pytest.mark.parametrize("interval", ["[0, 1]", "[0, 1)", "(0, 1]", "(0, 1)", "(0, inf)"])
def test_an_interval_holds_the_ends_that_it_says(interval):
    cases = {-1e-300: False, 0: interval[0] == "[", 5e-324: True, Fraction(1, 2): True}
    cases |= {1: interval[-1] == "]" or "inf" in interval, 1 + 2**-52: "inf" in interval}
    for value, inside in cases.items():
        if inside:
            assert check_within(value, "share", interval) == value
        else:
            with pytest.raises(ValueError, match=rf"^share must lie in {re.escape(interval)}, got"):
                check_within(value, "share", interval)
    for bad in (math.nan, math.inf, 10**400):
        with pytest.raises(ValueError, match=r"^share must be finite"):
            check_within(bad, "share", interval)


def test_an_interval_holds_no_fraction_whose_float_is_outside():
    for value, interval in ((1 - Fraction(1, 10**30), "[0, 1)"), (Fraction(1, 10**400), "(0, 1]")):
        with pytest.raises(ValueError, match=rf"^share must lie in {re.escape(interval)}, got"):
            check_within(value, "share", interval)
    assert check_within(Fraction(1, 10**400), "share", "[0, 1]") == 0.0


@pytest.mark.parametrize("bad", [True, np.bool_(True), 1.0, "1", None, Fraction(1)], ids=repr)
def test_a_count_is_an_integer(bad):
    with pytest.raises(TypeError, match=r"^size must be an integer, got"):
        check_count(bad, "size")


def test_a_count_lies_in_its_range():
    assert type(check_count(np.int8(1), "size")) is int
    assert [check_count(n, "size", 0, 2) for n in (0, 2)] == [0, 2]
    for bad in (0, -1):
        with pytest.raises(ValueError, match=rf"^size must be at least 1, got {bad}"):
            check_count(bad, "size")
    for bad in (-1, 3, 10**400):
        with pytest.raises(ValueError, match=r"^size must lie in \[0, 2\], got"):
            check_count(bad, "size", 0, 2)


@pytest.mark.parametrize("bad", [-1e-300, 1, 1.0, 1.5, float("nan"), float("inf"), Fraction(1)])
def test_delta_lies_below_one(bad):
    with pytest.raises(ValueError, match="delta"):
        check_delta(bad)
    almost_one = 1 - Fraction(1, 10**30)
    with pytest.raises(ValueError, match="delta"):
        check_delta(almost_one)


@pytest.mark.parametrize("delta", [Fraction(1, 3), Fraction(1, 10)])
def test_a_fraction_as_the_delta_of_a_budget_is_rounded_down_and_of_a_statement_up(delta):
    assert Fraction(check_positive_delta(delta)) < delta < Fraction(check_delta(delta))


def test_checks_do_not_round_what_is_used_exactly():
    assert check_positive(Fraction(1, 3), "epsilon") == Fraction(1, 3)
    assert isinstance(check_positive(Fraction(1, 2), "epsilon"), Fraction)
    assert check_positive(2**60 + 1, "sensitivity") == 2**60 + 1
    assert type(check_positive(1, "epsilon")) is float
    assert type(check_positive(np.float32(0.1), "epsilon")) is float
    assert check_positive(np.float32(0.1), "epsilon") == float(np.float32(0.1))
    third = np.longdouble(1) / 3
    assert check_positive(third, "epsilon") == Fraction(*third.as_integer_ratio())
    assert check_delta(Fraction(1, 3)) >= Fraction(1, 3)


def test_the_privacy_checks_cannot_be_switched_off():
    with config_context(skip_parameter_validation=True), pytest.raises(ValueError, match="epsilon"):
        PrivacyGuarantee(epsilon=-1.0)


def test_fields_are_frozen_and_plain():
    guarantee = PrivacyGuarantee(
        epsilon=Fraction(1, 3), delta=np.float64(1e-5), mu=np.float32(0.01), assumptions=["a", "b"]
    )
    assert Fraction(guarantee.epsilon) >= Fraction(1, 3)  # rounded up, never down
    assert {type(guarantee.epsilon), type(guarantee.delta), type(guarantee.mu)} == {float}
    assert guarantee.assumptions == ("a", "b")
    with pytest.raises(FrozenInstanceError):
        guarantee.epsilon = 0.1
    with pytest.raises(TypeError):
        PrivacyGuarantee(1.0)
    assert hash(guarantee) == hash(replace(guarantee))


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        ({"epsilon": -0.5}, "epsilon"),
        ({"epsilon": 0.0, "delta": 0.1}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"mu": -1.0}, "mu"),
        ({"statistical_distance": 1.0}, "statistical_distance"),
        ({"status": "valid"}, "status"),
        ({"neighbours": ""}, "neighbours"),
    ],
)
def test_errors_name_the_field(bad, name):
    with pytest.raises(ValueError, match=name):
        PrivacyGuarantee(**{"epsilon": 1.0, **bad})


@pytest.mark.parametrize("bad", [{"protects": 3}, {"assumptions": "one"}, {"assumptions": (1,)}])
def test_texts_are_strings(bad):
    with pytest.raises(TypeError, match=next(iter(bad))):
        PrivacyGuarantee(epsilon=1.0, **bad)


def test_a_delta_below_the_gaussian_curve_is_refused():
    mu = 0.5
    PrivacyGuarantee(epsilon=1.0, delta=delta_from_mu(mu, 1.0), mu=mu)
    PrivacyGuarantee(epsilon=epsilon_from_mu(mu, 1e-5), delta=1e-5, mu=mu)
    with pytest.raises(ValueError, match="not implied"):
        PrivacyGuarantee(epsilon=1.0, delta=0.999 * delta_from_mu(mu, 1.0), mu=mu)
    for share in (0.9995, 1 - 1e-6):
        with pytest.raises(ValueError, match="not implied"):
            PrivacyGuarantee(epsilon=1.0, delta=share * delta_from_mu(mu, 1.0), mu=mu)
    with pytest.raises(ValueError, match="not implied"):
        PrivacyGuarantee(epsilon=1.0, statistical_distance=1e-12)
    # A void guarantee may repeat a claim that does not hold.
    assert PrivacyGuarantee(epsilon=1.0, delta=1e-9, mu=mu, status="void").mu == mu


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 2.0])
@pytest.mark.parametrize("mu", [None, 0.25])
def test_both_events_of_a_statistical_distance_count(epsilon, mu):
    # P' and Q' within d of P and Q: P'(S) <= P(S) + d <= e^epsilon (Q'(S) + d) + delta + d.
    distance = 1e-6
    curve = 0.0 if mu is None else delta_from_mu(mu, epsilon)
    given = {"epsilon": epsilon, "mu": mu, "statistical_distance": distance}
    needed = curve + (1 + math.exp(epsilon)) * distance
    PrivacyGuarantee(delta=needed * (1 + 1e-12), **given)
    for short in (curve + 1.01 * math.exp(epsilon) * distance, needed - 0.01 * distance):
        with pytest.raises(ValueError, match="not implied"):
            PrivacyGuarantee(delta=short, **given)


def test_voided_keeps_the_claim_and_adds_the_reason():
    proved = PrivacyGuarantee(epsilon=1.0, assumptions=("bounded losses",))
    void = proved.voided("the noise was seeded")
    assert (void.status, void.epsilon) == ("void", 1.0)
    assert void.assumptions == ("the noise was seeded", "bounded losses")
    assert proved.status == "proved"
    with pytest.raises(ValueError, match="reason"):
        proved.voided("")


def test_assuming_appends_each_assumption_once_and_only_weakens_the_status():
    proved = PrivacyGuarantee(epsilon=1.0, assumptions=("a", "b"))
    more = proved.assuming("b", "c", "c")
    assert (more.assumptions, more.status, more.epsilon) == (("a", "b", "c"), "proved", 1.0)
    conditional = more.assuming(status="conditional")
    assert (conditional.status, conditional.assumptions) == ("conditional", more.assumptions)
    assert conditional.assuming("d", status="proved").status == "conditional"
    assert proved.voided("leak").assuming("d", status="conditional").status == "void"
    assert proved.assuming(status="void").status == "void"
    with pytest.raises(ValueError, match="status"):
        proved.assuming("d", status="better")
    with pytest.raises(TypeError, match="assumptions"):
        proved.assuming(3)


@pytest.mark.parametrize("seed", [0, np.int64(0), np.random.RandomState(0), False])
def test_a_guarantee_of_seeded_noise_is_void(seed):
    proved = PrivacyGuarantee(epsilon=1.0, assumptions=("bounded losses",))
    assert proved.voided_if_seeded(None) is proved
    void = proved.voided_if_seeded(seed)
    assert void.status == "void"
    assert "random_state" in void.assumptions[0]


def test_numbers_of_protected_and_public_records():
    stated = PrivacyGuarantee(
        epsilon=1.0, protects="validation records", n_protected=369, n_public=np.int64(200)
    )
    assert "369 validation records; the 200 public rows are not protected" in str(stated)
    assert "public rows" not in str(replace(stated, n_public=None))
    assert "369" not in str(replace(stated, n_protected=None))
    assert "not protected" not in str(replace(stated, n_public=0))
    for name in ("n_protected", "n_public"):
        with pytest.raises(TypeError, match=name):
            replace(stated, **{name: True})
        with pytest.raises(TypeError, match=name):
            replace(stated, **{name: 2.0})
        with pytest.raises(ValueError, match=name):
            replace(stated, **{name: -1})


def test_compositions_keep_the_numbers_of_records_where_they_agree():
    stated = PrivacyGuarantee(epsilon=1.0, protects="rows", n_protected=30, n_public=5)
    assert (compose(stated, stated).n_protected, compose(stated, stated).n_public) == (30, 5)
    for changed in ({"n_protected": 31}, {"n_protected": None}, {"protects": "columns"}):
        assert compose(stated, replace(stated, **changed)).n_protected is None
    assert compose(stated, replace(stated, n_public=6)).n_public is None
    disjoint = compose_parallel(stated, replace(stated, n_protected=12))
    assert (disjoint.n_protected, disjoint.n_public) == (42, 5)
    assert compose_parallel(stated, replace(stated, n_protected=None)).n_protected is None


@pytest.mark.parametrize("status", ["proved", "conditional", "void"])
def test_str_is_one_plain_sentence(status):
    text = str(
        PrivacyGuarantee(
            epsilon=1.0,
            delta=1e-5,
            protects="validation records",
            mechanism="permute-and-flip",
            assumptions=("losses lie in [0, 1]",),
            status=status,
        )
    )
    assert text.endswith(".")
    assert text.count(". ") == 0
    assert "\n" not in text
    assert "epsilon=1," in text
    assert "validation records" in text
    assert ("no privacy guarantee" in text) == (status == "void")


def test_str_states_mu_and_why_nothing_is_promised():
    stated = PrivacyGuarantee(epsilon=9.0, delta=1e-5, mu=1.25)
    assert "(epsilon=9, delta=1e-05)-differentially private and 1.25-GDP" in str(stated)
    assert "(no reason was given)" in str(PrivacyGuarantee(epsilon=1.0, status="void"))
    assert "(leak)" in str(stated.voided("leak"))


def test_pickle_and_deepcopy_keep_the_parts():
    together = compose(PrivacyGuarantee(epsilon=0.5), PrivacyGuarantee(epsilon=0.25))
    for twin in (pickle.loads(pickle.dumps(together)), copy.deepcopy(together)):
        assert twin == together
        assert twin.parts == together.parts
        assert len(twin.parts) == 2
    assert together.voided("leak").parts == together.parts
    assert together.assuming("more").parts == together.parts


@pytest.mark.parametrize(
    ("neighbours", "unit"),
    [
        ("replace-one", "one record"),
        ("add-remove", "one record"),
        ("one group", "all records of one group"),
        ("one row of X moved by at most 1 (l2 norm)", "one row, moved"),
        ("the y of one record replaced, within [0, 1]", "one record"),
    ],
)
def test_dictionary_states_unit_and_composition(neighbours, unit):
    one = PrivacyGuarantee(epsilon=0.1, neighbours=neighbours, n_protected=7)
    state = compose(one, one).to_dict()
    assert (state["unit"], state["composition"]) == (unit, "sequential, of 2 releases")
    assert state["parts"][0]["composition"] == "one release"
    assert PrivacyGuarantee.from_dict(state) == compose(one, one)
    assert PrivacyGuarantee.from_dict(state).to_dict() == state
    without = {name: value for name, value in state.items() if name not in ("unit", "composition")}
    assert PrivacyGuarantee.from_dict(without) == compose(one, one)
    for name in ("unit", "composition"):
        with pytest.raises(ValueError, match="does not follow"):
            PrivacyGuarantee.from_dict(state | {name: "one household"})
    with pytest.raises(ValueError, match="version 2 is not supported"):
        PrivacyGuarantee.from_dict(state | {"version": 2})
    with pytest.raises(TypeError):
        PrivacyGuarantee.from_dict(state | {"further": 1})


def test_every_public_name_is_documented():
    for name in privacy.__all__:
        assert getattr(privacy, name).__doc__
    documented = PrivacyGuarantee.__doc__
    assert all(field.name in documented for field in fields(PrivacyGuarantee))


def test_a_delta_of_no_consequence_is_stated_as_a_bound():
    text = str(PrivacyGuarantee(epsilon=1.0, delta=7.95e-50, statistical_distance=1e-50))
    assert "(epsilon=1, delta<1e-30)-differentially private" in text
    assert "delta=1e-30)" in str(PrivacyGuarantee(epsilon=1.0, delta=1e-30))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("assumptions", lambda: PrivacyGuarantee(epsilon=1.0, assumptions=None)),
        ("state", lambda: PrivacyGuarantee.from_dict(3)),
        ("record", lambda: privacy.charge_active_ledger(PrivacyGuarantee(epsilon=1.0), record=0)),
        ("own_rows", lambda: privacy.charge_active_ledger(PrivacyGuarantee(epsilon=1), own_rows=1)),
        ("guarantee", lambda: privacy.PrivacyLedger(1.0).affords(0.5)),
        ("epsilon", lambda: privacy.candidate_mu(1e30, 1e-5, privacy.TrialLaw(3))),
    ],
)
def test_other_values_are_refused_by_name(name, call):
    with pytest.raises((TypeError, ValueError), match=name):
        call()
