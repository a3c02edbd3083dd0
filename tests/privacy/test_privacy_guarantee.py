"""The guarantee object: what it accepts, says and refuses."""

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from sklearn import config_context

from skdpbo import privacy
from skdpbo.privacy import (
    PrivacyGuarantee,
    check_delta,
    check_epsilon,
    check_mu,
    check_rho,
    check_sensitivity,
    compose,
    delta_from_mu,
    epsilon_from_mu,
)

POSITIVE = [check_epsilon, check_mu, check_rho, check_sensitivity]
NON_NUMBERS = [True, False, np.bool_(True), "1", None, 1j, [1.0], np.array(1.0), Decimal(1)]


@pytest.mark.parametrize("check", [*POSITIVE, check_delta])
@pytest.mark.parametrize("bad", NON_NUMBERS, ids=repr)
def test_checks_refuse_what_is_not_a_number(check, bad):
    with pytest.raises(TypeError, match=r"^amount must be a real number"):
        check(bad, "amount")


@pytest.mark.parametrize("check", POSITIVE)
@pytest.mark.parametrize("bad", [0, -0.0, -1, float("nan"), float("inf"), 10**400], ids=repr)
def test_checks_refuse_what_is_not_positive_and_finite(check, bad):
    with pytest.raises(ValueError, match=r"^amount must be"):
        check(bad, "amount")


@pytest.mark.parametrize("bad", [-1e-300, 1, 1.0, 1.5, float("nan"), float("inf"), Fraction(1)])
def test_delta_lies_below_one(bad):
    with pytest.raises(ValueError, match="delta"):
        check_delta(bad)
    almost_one = 1 - Fraction(1, 10**30)
    with pytest.raises(ValueError, match="delta"):
        check_delta(almost_one)


def test_checks_do_not_round_what_is_used_exactly():
    assert check_epsilon(Fraction(1, 3)) == Fraction(1, 3)
    assert isinstance(check_epsilon(Fraction(1, 2)), Fraction)
    assert check_sensitivity(2**60 + 1) == 2**60 + 1
    assert type(check_epsilon(1)) is float
    assert type(check_epsilon(np.float32(0.1))) is float
    assert check_epsilon(np.float32(0.1)) == float(np.float32(0.1))
    third = np.longdouble(1) / 3
    assert check_epsilon(third) == Fraction(*third.as_integer_ratio())
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
        ({"epsilon": 0.0}, "epsilon"),
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
    with pytest.raises(ValueError, match="not implied"):
        PrivacyGuarantee(epsilon=1.0, statistical_distance=1e-12)
    # A void guarantee may repeat a claim that does not hold.
    assert PrivacyGuarantee(epsilon=1.0, delta=1e-9, mu=mu, status="void").mu == mu


def test_voided_keeps_the_claim_and_adds_the_reason():
    proved = PrivacyGuarantee(epsilon=1.0, assumptions=("bounded losses",))
    void = proved.voided("the noise was seeded")
    assert (void.status, void.epsilon) == ("void", 1.0)
    assert void.assumptions == ("the noise was seeded", "bounded losses")
    assert proved.status == "proved"
    with pytest.raises(ValueError, match="reason"):
        proved.voided("")


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


def test_pickle_and_deepcopy_keep_the_parts():
    together = compose(PrivacyGuarantee(epsilon=0.5), PrivacyGuarantee(epsilon=0.25))
    for twin in (pickle.loads(pickle.dumps(together)), copy.deepcopy(together)):
        assert twin == together
        assert twin.parts == together.parts
        assert len(twin.parts) == 2
    assert together.voided("leak").parts == together.parts


def test_every_public_name_is_documented():
    for name in privacy.__all__:
        assert getattr(privacy, name).__doc__
    documented = PrivacyGuarantee.__doc__
    assert all(field.name in documented for field in fields(PrivacyGuarantee))
