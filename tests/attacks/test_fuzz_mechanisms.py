"""Random parameters and values for every mechanism: documented errors, and nothing quoted.

A mechanism is given exact protected values, so its errors must not quote them; a release that is
made is of the right shape and finite. Parameters are public and may be quoted.
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _support.hostile import NUMBER, TEXT, WHOLE, one, settled
from _support.hostile import mostly as mostly_of
from skdpbo.audit import Secrets, Traces, leak_scan
from skdpbo.mechanisms import (
    BoundedMean,
    ClippedMean,
    ClipQuantile,
    CoinPressMean,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    GaussianMechanism,
    L2Laplace,
    PermuteAndFlip,
    to_lattice,
)
from skdpbo.privacy import PrivacyGuarantee

SECRETS = Secrets([NUMBER, 1e6 * NUMBER, WHOLE, 1e300 * NUMBER, TEXT], digits=6)
DOCUMENTED = (ValueError, TypeError, OverflowError)


mostly = partial(
    mostly_of, weight=15, bad=(0, -1.0, math.nan, math.inf, "1", None, True, 1j, 1e-320, 1e308)
)


epsilon = mostly(1.0, 1e-6, 50, Fraction(1, 3), np.float32(2))
delta = mostly(1e-5, 0.5, bad=(0, 1.0, -1, math.nan, "a", None))
mu = mostly(1.0, 0.01, 5.0)
sizes = mostly(1, 1.0, 0.1, 1000, 2.0**-20)
units = mostly(1, 5, 2**40, bad=(0, -1, 0.5, "1", None, True))
counts = mostly(1, 5, 100, bad=(0, -1, 2.5, None, "3", 10**30))
MECHANISMS = {
    PermuteAndFlip: (epsilon, units),
    ExponentialMechanism: (epsilon, units),
    DiscreteLaplace: (epsilon, units),
    DiscreteGaussian: (epsilon, delta, units),
    GaussianMechanism: {"mu": mu, "sensitivity": sizes},
    L2Laplace: (epsilon, sizes, mostly(1, 2, 3, bad=(0, -1, 2.5, None))),
    BoundedMean: {"mu": mu, "low": mostly(-1.0, 0.0), "high": mostly(1.0, 1e6)},
    CoinPressMean: {"mu": mu, "center": mostly(0.0, 5), "radius": sizes, "n_steps": counts},
    ClippedMean: {"clip": sizes, "n_records": mostly(6, 6, 6, bad=(0, -1, 2.5)), "mu": mu},
    ClipQuantile: {
        "quantile": mostly(0.5, 0.9, bad=(0, 1, -1, math.nan)),
        "learning_rate": mostly(0.2, bad=(0, -1, math.inf)),
        "n_records": mostly(6, bad=(0, -1, 2.5)),
        "mu": mu,
    },
}
CELLS = [NUMBER, -NUMBER, 1e6 * NUMBER, 1e300 * NUMBER, WHOLE, -WHOLE, 0, 1, 2, 2**62, 10**30]
BAD_CELLS = [TEXT, None, math.nan, math.inf, -math.inf, 1j, [NUMBER], {TEXT: 1}, object()]
good = one(CELLS) | st.floats(-1e3, 1e3)
whole = one([c for c in CELLS if isinstance(c, int)]) | st.integers(-(10**6), 10**6)


@st.composite
def values(draw):
    cell = draw(one([whole, good, good | one(BAD_CELLS)]))
    shape = draw(one([(), (3,), (6,), (6, 1), (6, 2), (6, 3), (0,), (2, 2, 2)]))
    cells = [draw(cell) for _ in range(math.prod(shape))]
    if shape == ():
        return cells[0]
    table = np.empty(shape, dtype=object)
    for place, content in zip(np.ndindex(shape), cells, strict=True):
        table[place] = content
    kind = draw(one(["objects", "list", "float", "integer"]))
    if kind == "list":
        return table.tolist()
    try:
        return table.astype({"objects": object, "float": float, "integer": np.int64}[kind])
    except (TypeError, ValueError, OverflowError):
        return table


@st.composite
def releases(draw):
    """(a function that makes a mechanism, and values for it)."""
    kind = draw(st.sampled_from(sorted(MECHANISMS, key=lambda kind: kind.__name__)))
    chosen = MECHANISMS[kind]
    if isinstance(chosen, dict):
        params = {name: draw(chosen[name]) for name in chosen}
        return lambda: kind(**params), draw(values())
    params = [draw(each) for each in chosen]
    return lambda: kind(*params), draw(values())


def assert_nothing_quoted(make, protected):
    try:
        mechanism = make()
        assert isinstance(mechanism.guarantee, PrivacyGuarantee)
    except DOCUMENTED:
        return "refused"
    draw = getattr(mechanism, "release", None) or mechanism.select
    failure = released = None
    with Traces() as traces:
        try:
            released = draw(protected)
        except DOCUMENTED as error:
            failure = error
    assert not leak_scan(failure, SECRETS), failure
    assert not leak_scan(traces, SECRETS), traces.text()
    assert not leak_scan(mechanism, SECRETS)
    if released is None:
        return "failed"
    numbers = np.ravel(np.asarray(released, dtype=object))
    # an integer is finite, also beyond the floats
    assert all(isinstance(number, int) or math.isfinite(number) for number in numbers)
    return "released"


@settled(60)
@given(releases())
def test_some(example):
    assert_nothing_quoted(*example)


@pytest.mark.slow
@settled(1500)
@given(releases())
def test_many(example):
    assert_nothing_quoted(*example)


def assert_on_the_lattice(numbers, step):
    """Rounded toward zero, in exact arithmetic: |q| step <= |x| < (|q| + 1) step."""
    failure = places = None
    with Traces() as traces:
        try:
            places = to_lattice(numbers, step)
        except DOCUMENTED as error:
            failure = error
    assert not leak_scan(traces, SECRETS)
    assert not leak_scan(failure, SECRETS), failure
    if failure is None:
        flat = np.ravel(np.asarray(numbers, dtype=object))
        reals = [Fraction(x if isinstance(x, int) else float(x)) for x in flat]
        for x, q in zip(reals, np.ravel(np.asarray(places, dtype=object)), strict=True):
            assert abs(int(q)) * Fraction(step) <= abs(x) < (abs(int(q)) + 1) * Fraction(step)


@settled(150)
@given(values(), one([2.0**-20, 0.1, 1.0, 3.0, 2.0**-1074, 1e300]))
def test_lattices(numbers, step):
    assert_on_the_lattice(numbers, step)


def test_a_quoting_message_is_caught(monkeypatch):
    # Planted bug: the values are read by float(), which says what it could not read.
    def release(self, values, source=None):
        return [float(value) for value in np.ravel(np.asarray(values, dtype=object))]

    monkeypatch.setattr(DiscreteLaplace, "release", release)
    with pytest.raises(AssertionError):
        assert_nothing_quoted(lambda: DiscreteLaplace(1.0, 1), [1, TEXT])
