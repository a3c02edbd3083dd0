"""Mechanisms compute with float64 or exact integers, whatever type their input has."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from skdpbo.mechanisms import (
    BoundedMean,
    ClippedMean,
    ClipQuantile,
    CoinPressMean,
    DiscreteLaplace,
    GaussianMechanism,
    L2Laplace,
    PermuteAndFlip,
    RandomSource,
    from_lattice,
    noise_source,
    split_budget,
    to_lattice,
)

N = 101
REALS = [np.float16, np.float32, np.float64, np.longdouble]
INTEGERS = [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64]
NAMES = [np.dtype(t).name for t in REALS + INTEGERS]
MEANS = {
    "clipped": ClippedMean(clip=64.0, n_records=N, mu=1.0),
    "bounded": BoundedMean(mu=1.0, low=0.0, high=100.0),
    "coinpress": CoinPressMean(mu=1.0, center=0.0, radius=200.0, scale=1.0),
}


def rows(dtype):
    return np.resize([[0, 1], [100, 7], [64, 0], [127, 127]], (N, 2)).astype(dtype)


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("dtype", REALS + INTEGERS, ids=NAMES)
@pytest.mark.parametrize("name", sorted(MEANS))
def test_means_do_not_depend_on_the_type(name, dtype):
    expected, got = (MEANS[name].release(rows(t), noise_source(0)) for t in (np.float64, dtype))
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == np.float64


@pytest.mark.parametrize("clip", [0.5, 64.0, 100.0, 1000.0, 1e6])
@pytest.mark.parametrize("dtype", [*REALS, np.int8, np.uint8, bool])
def test_one_record_moves_a_sum_by_its_sensitivity(clip, dtype):
    mechanism = ClippedMean(clip=clip, n_records=N, mu=1.0)
    extremes = [np.finfo(dtype).max, -np.finfo(dtype).max] if dtype in REALS else [1, 0]
    rng, base = np.random.RandomState(0), np.zeros((N, 3), dtype=dtype)
    total = mechanism.exact_total(base)[0]
    replaced = [*extremes, clip / 2, clip, -clip, 2 * clip, 2048, 65504, np.inf, np.nan]
    for value in [v for v in replaced if dtype in REALS or 0 <= v <= 1]:
        with np.errstate(over="ignore"):
            row = np.array(value * np.sign(rng.normal(size=3)) if value > 0 else [value] * 3)
            other = base.copy()
            other[0] = row.astype(dtype)
        moved = (mechanism.exact_total(other)[0] - total).astype(object)
        assert sum(m**2 for m in moved) * Fraction(mechanism.step) ** 2 <= Fraction(clip) ** 2


@pytest.mark.parametrize("dtype", [*REALS, *INTEGERS], ids=NAMES)
def test_lattices_do_not_depend_on_the_type(dtype):
    values = np.array([0, 1, 100, 127]).astype(dtype)
    expected = [0, 2**20, 100 * 2**20, 127 * 2**20]
    assert to_lattice(values, 2.0**-20).tolist() == expected
    for mechanism in (GaussianMechanism(mu=1.0, sensitivity=1.0), L2Laplace(1.0, 1.0, 1)):
        column = values[:, None]
        got, usual = (mechanism.release(v, noise_source(0)) for v in (column, column.astype(float)))
        np.testing.assert_array_equal(got, usual)


def test_integers_do_not_wrap():
    values = np.array([-128, 127, 0], dtype=np.int8)
    released = DiscreteLaplace(epsilon=0.01, sensitivity=1).release(values, noise_source(0))
    assert released.dtype == np.int64
    assert np.abs(released - values.astype(int)).max() > 128
    large = [2**63 - 1, 2**64, 0]
    assert PermuteAndFlip(epsilon=1.0, sensitivity=1).select(large, noise_source(0)) == 2
    apart = np.array([-(2**62), 2**62, 2**63 - 1])
    assert PermuteAndFlip(epsilon=1.0, sensitivity=1).select(apart, noise_source(0)) == 0


class Secret:
    def __float__(self):
        raise ValueError("diagnosis: HIV")

    __repr__ = __str__ = lambda self: "diagnosis: HIV"


@pytest.mark.parametrize(
    "values",
    [
        np.array([["HIV", "x"]] * N),
        np.array([[Secret(), 1.0]] * N, dtype=object),
        np.array([[Fraction(1, 3), 1.0]] * N, dtype=object),
        np.ones((N, 2), dtype=complex),
        sparse.csr_array(np.ones((N, 2))),
        np.full((N, 2), np.datetime64("2020-01-01")),
    ],
    ids=["text", "object", "fraction", "complex", "sparse", "date"],
)
@pytest.mark.parametrize("name", sorted(MEANS))
def test_other_types_are_refused_by_the_type(name, values):
    with pytest.raises((TypeError, ValueError), match=r"real numbers|shape|two-dim") as failure:
        MEANS[name].release([values] if name == "clipped" else values)
    assert "HIV" not in str(failure.value)


class Nullable:
    """A series of numbers of which one is missing, as pandas 2 has it: an array of objects."""

    dtype = SimpleNamespace(numpy_dtype=np.dtype("int64"))

    def __len__(self):
        return 3

    def __array__(self, dtype=None, copy=None):
        return np.array([1, None, 2], dtype=object)


@pytest.mark.parametrize(
    "mean", [BoundedMean(low=0, high=3, mu=1), CoinPressMean(center=1, radius=3, mu=1)]
)
def test_a_missing_value_of_a_nullable_series_is_no_error(mean):
    expected = mean.release([1.0, np.nan, 2.0], noise_source(0))
    assert np.ravel(mean.release(Nullable(), noise_source(0))) == expected


def test_masked_values_are_values():
    masked = np.ma.masked_array(rows(float), mask=np.eye(N, 2, dtype=bool))
    got, usual = (MEANS["clipped"].release(v, noise_source(0)) for v in (masked, rows(float)))
    np.testing.assert_array_equal(got, usual)
    assert type(got) is np.ndarray


@pytest.mark.parametrize(
    "release",
    [
        MEANS["bounded"].release,
        MEANS["coinpress"].release,
        GaussianMechanism(mu=1.0, sensitivity=1.0).release,
        GaussianMechanism(mu=1.0, sensitivity=1.0, lattice=1.0).release,
        L2Laplace(1.0, 1.0, 2).release,
        DiscreteLaplace(epsilon=1.0, sensitivity=1).release,
        PermuteAndFlip(epsilon=1.0, sensitivity=1).select,
    ],
    ids=["bounded", "coinpress", "gaussian", "lattice", "rows", "integers", "selection"],
)
def test_hidden_values_are_not_released(release):
    hidden = np.ma.masked_array(rows(int), mask=np.eye(N, 2, dtype=bool))
    with pytest.raises(TypeError, match=r"^(values|losses) is a masked array"):
        release(hidden)


QUANTILE = ClipQuantile(n_records=9, mu=1.0)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("rate", lambda: ClipQuantile(n_records=9, mu=1.0, rate=1e30)),
        ("clip", lambda: QUANTILE.next_clip(-1.0, 0.5)),
        ("share", lambda: QUANTILE.next_clip(1.0, np.nan)),
        ("n_features", lambda: MEANS["bounded"].noise_sd(9, 1.5)),
        ("n_steps", lambda: CoinPressMean(mu=1.0, center=0.0, radius=2.0, n_steps=10**9)),
        ("shares", lambda: CoinPressMean(mu=1.0, center=0.0, radius=2.0, shares=0.5)),
        ("step", lambda: from_lattice(3, 0)),
        ("step", lambda: from_lattice([3], "1")),
        ("mu", lambda: split_budget(5e-324, 0.5)),
        ("read", lambda: RandomSource(3, seeded=False)),
        ("seeded", lambda: RandomSource(bytes, seeded=0)),
    ],
)
def test_other_values_are_refused_by_name(name, call):
    with pytest.raises((TypeError, ValueError), match=name):
        call()
