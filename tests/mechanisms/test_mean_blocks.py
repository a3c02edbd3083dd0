"""Means go through the records in blocks: the same sums, in memory that does not grow with them."""

import tracemalloc

import numpy as np
import pytest

from _support.internals import centred_blocks
from _support.planted import put
from skdpbo.mechanisms import BoundedMean, ClippedMean, CoinPressMean, noise_source

RNG = np.random.RandomState(0)
MEANS = [
    BoundedMean(mu=1.0, low=-1.0, high=1.0),
    CoinPressMean(mu=1.0, center=0.0, radius=5.0, n_steps=3),
    ClippedMean(clip=1.0, n_records=50, mu=1.0),
]


def release(mean, X):
    return mean.release(X, noise_source(0))


@pytest.mark.parametrize("mean", MEANS)
def test_the_size_of_blocks_does_not_matter(mean, monkeypatch):
    X = RNG.normal(size=(50, 3))
    X[7, 1] = np.nan
    X[9] = np.inf
    whole = release(mean, X)
    put(monkeypatch, "clipping: _BLOCK", 7)
    np.testing.assert_array_equal(release(mean, X), whole)


def test_blocks_are_the_rows_of_the_whole(monkeypatch):
    put(monkeypatch, "clipping: _BLOCK", 8)
    X = RNG.normal(size=(11, 2)) * [1.0, 1e300]
    X[3, 0] = np.nan
    center = np.array([0.5, -1.0])
    blocks = list(centred_blocks(X, center, 2.0))
    assert [len(block) for block in blocks] == [4, 4, 3]
    whole = X / 2.0 - center
    whole[3] = 0.0  # not finite
    np.testing.assert_array_equal(np.concatenate(blocks), np.clip(whole, -(2.0**500), 2.0**500))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("mean", MEANS[:2])
def test_memory_is_about_one_column(mean):
    X = RNG.uniform(-1, 1, size=(300_000, 4))
    mean.release(X[:10])
    tracemalloc.start()
    try:
        mean.release(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes
