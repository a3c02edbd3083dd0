"""Rounding to the lattice: toward zero, exactly, without wrapping around."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _support.internals import add_integers
from skdpbo.mechanisms import from_lattice, to_lattice

REALS = st.floats(allow_nan=False, allow_infinity=False)
STEPS = st.floats(min_value=1e-12, max_value=1e6) | st.integers(-40, 20).map(lambda k: 2.0**k)


@given(st.lists(REALS, max_size=5), STEPS)
def test_to_lattice_is_exact_truncation(values, step):
    units = to_lattice(np.array(values), step)
    exact = [int(Fraction(value) / Fraction(step)) for value in values]
    assert units.tolist() == exact


@pytest.mark.parametrize("multiple", [3, 7, 10, 49, 1000])
def test_quotients_that_round_up_do_not_overshoot(multiple):
    step = 0.1
    value = np.nextafter(multiple * step, 0)
    for real in (value, -value, np.float32(multiple * 0.1)):
        units = to_lattice(np.array([real]), step)
        assert abs(int(units[0])) * Fraction(step) <= abs(Fraction(float(real)))


def test_norms_never_grow():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 7))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    units = to_lattice(rows, 2.0**-12)
    exact_norm = [sum(Fraction(v) ** 2 for v in row) for row in rows.tolist()]
    assert all(
        sum(q * q for q in row) <= norm * 2**24
        for row, norm in zip(units.tolist(), exact_norm, strict=True)
    )


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([1.0, 2.0], np.int64), ([2**70, -1], object), ([1e300], object), ([2**63, -1], object)],
)
def test_dtypes_and_large_integers(values, dtype):
    units = to_lattice(values, 1.0)
    assert units.dtype == dtype
    assert units.tolist() == [int(value) for value in values]


def test_integers_that_floats_cannot_hold():
    assert to_lattice([2**53 + 1, -(2**53) - 1], 1.0).tolist() == [2**53 + 1, -(2**53) - 1]
    assert to_lattice(np.array([2**62 + 1]), 0.5).tolist() == [2**63 + 2]
    assert to_lattice(np.longdouble(1) / 3, 2.0**-60) == int(
        Fraction(*(np.longdouble(1) / 3).as_integer_ratio()) * 2**60
    )


def test_scalars_and_shapes():
    assert type(to_lattice(0.75, 0.5)) is int
    assert to_lattice(np.zeros((2, 0, 3)), 0.5).shape == (2, 0, 3)
    assert type(from_lattice(3, 0.5)) is float
    assert from_lattice(np.array([[3]]), 0.5).tolist() == [[1.5]]
    assert from_lattice(2**5000, 1.0) == np.inf


@pytest.mark.parametrize("bad", [[np.nan, 1234567.0], [np.inf], np.array([-np.inf], dtype=object)])
def test_non_finite_values_are_refused(bad):
    with pytest.raises(ValueError, match=r"^values must be finite\.$"):
        to_lattice(bad, 1.0)


@pytest.mark.parametrize("bad", [["secret"], [True], [1j], [None]])
def test_other_types_are_refused(bad):
    with pytest.raises(TypeError, match=r"^values must be real numbers\.$"):
        to_lattice(bad, 1.0)


@pytest.mark.parametrize("step", [0.0, -1.0, np.nan, np.inf, Fraction(1, 3)])
def test_refused_steps(step):
    with pytest.raises(ValueError, match="step"):
        to_lattice([1.0], step)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4), st.data())
def test_addition_does_not_wrap_around(values, data):
    noise = data.draw(
        st.lists(st.integers(-(2**62), 2**62), min_size=len(values), max_size=len(values))
    )
    total = add_integers(np.array(values, dtype=np.int64), np.array(noise, dtype=np.int64))
    assert total.tolist() == [a + b for a, b in zip(values, noise, strict=True)]


def test_one_number_is_rounded_toward_zero_as_an_array_is():
    # 7316520948309.9996 steps, which the quotient of floats rounds to 7316520948310.
    value, step = 731652094831.0, 0.1
    assert to_lattice([value], step).tolist() == [7316520948309]
    assert to_lattice(value, step) == 7316520948309
    assert isinstance(to_lattice(value, step), int)
