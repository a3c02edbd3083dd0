"""The incremental posterior is scikit-learn's, and stays finite where scikit-learn's does not."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skdpbo.surrogate import CandidatePosterior

KERNELS = {
    "rbf": RBF(0.3),
    "rbf-ard": RBF([0.2, 0.9]),
    "matern32": Matern(0.4, nu=1.5),
    "matern52-scaled": ConstantKernel(2.5) * Matern([0.3, 0.5], nu=2.5),
    "sum": ConstantKernel(0.7) * RBF(0.2) + Matern(1.0, nu=0.5),
    "product": RBF(0.5) * Matern(0.8, nu=2.5) + ConstantKernel(0.3),
}


@pytest.fixture
def problem():
    rng = np.random.RandomState(0)
    X = rng.rand(120, 2)
    index = rng.randint(0, 40, 45)  # some candidates several times, most never
    assert len(set(index.tolist())) < 45
    return X, index, rng.randn(45), rng.uniform(1e-3, 0.2, 45)


def sklearn_posterior(kernel, X, index, y, noise_variances):
    oracle = GaussianProcessRegressor(kernel, alpha=noise_variances, optimizer=None)
    oracle.fit(X[index], y)
    return oracle.predict(X, return_std=True)


def assert_same_posterior(a, b, atol=1e-8):
    np.testing.assert_allclose(a.mean, b.mean, rtol=0, atol=atol)
    np.testing.assert_allclose(a.std, b.std, rtol=0, atol=atol)


@pytest.mark.parametrize("how", ["append", "extend", "both"])
@pytest.mark.parametrize("name", KERNELS)
def test_equal_to_scikit_learn(problem, name, how):
    X, index, y, s2 = problem
    surrogate = CandidatePosterior(KERNELS[name], X, noise_variance=0.5)
    split = {"append": 0, "extend": 45, "both": 20}[how]
    surrogate.extend(index[:split], y[:split], s2[:split])
    for row in zip(index[split:], y[split:], s2[split:], strict=True):
        surrogate.append(*row)
    mean, std = sklearn_posterior(KERNELS[name], X, index, y, s2)
    np.testing.assert_allclose(surrogate.mean, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(surrogate.std, std, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(surrogate.observed, index)
    np.testing.assert_array_equal(surrogate.values, y)
    assert len(surrogate) == 45


def test_prior_mean_per_candidate(problem):
    X, index, y, _ = problem
    m = np.cos(3 * X[:, 0])
    surrogate = CandidatePosterior(RBF(0.3), X, noise_variance=0.01, prior_mean=m)
    np.testing.assert_array_equal(surrogate.mean, m)
    surrogate.extend(index, y)
    mean, std = sklearn_posterior(RBF(0.3), X, index, y - m[index], np.full(45, 0.01))
    np.testing.assert_allclose(surrogate.mean, m + mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(surrogate.std, std, rtol=0, atol=1e-8)


def test_covariance_matrix_as_kernel(problem):
    X, index, y, s2 = problem
    by_kernel = CandidatePosterior(RBF(0.3), X, noise_variance=0.1)
    by_matrix = CandidatePosterior(RBF(0.3)(X), X, noise_variance=0.1)
    for surrogate in (by_kernel, by_matrix):
        surrogate.extend(index[:20], y[:20], s2[:20])
        surrogate.append(3, 0.5)
    assert_same_posterior(by_kernel, by_matrix, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**16), n=st.integers(1, 12), T=st.integers(1, 15))
def test_order_does_not_matter(seed, n, T):
    rng = np.random.RandomState(seed)
    X, y, s2 = rng.rand(n, 3), rng.randn(T), rng.uniform(1e-4, 1, T)
    index, order = rng.randint(0, n, T), rng.permutation(T)
    one, two = (CandidatePosterior(Matern(0.5, nu=2.5), X, noise_variance=0.0) for _ in "ab")
    one.extend(index, y, s2)
    for t in order:
        two.append(index[t], y[t], s2[t])
    assert_same_posterior(one, two)


def test_growth_beyond_the_first_buffer():
    X = np.linspace(0, 1, 30)[:, None]
    surrogate = CandidatePosterior(RBF(0.1), X, noise_variance=0.1)
    y = np.sin(np.arange(100.0))
    for t in range(100):
        surrogate.append(t % 30, y[t])
    mean, std = sklearn_posterior(RBF(0.1), X, np.arange(100) % 30, y, np.full(100, 0.1))
    np.testing.assert_allclose(surrogate.mean, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(surrogate.std, std, rtol=0, atol=1e-8)


def test_noise_free_posterior_interpolates(problem):
    X = problem[0]
    surrogate = CandidatePosterior(Matern(0.5, nu=2.5), X, noise_variance=0.0)
    y = np.sin(4 * X[:60, 0])
    for i in range(60):
        surrogate.append(i, y[i])
    np.testing.assert_allclose(surrogate.mean[:60], y, atol=1e-6)
    assert surrogate.std[:60].max() < 1.1e-5


@pytest.mark.parametrize("how", ["append", "extend"])
@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-8, 1e-5, 1e-3])
def test_near_duplicates_without_noise(gap, how):
    """40 candidates within a few gaps of each other, and 5 apart: nothing breaks."""
    X = np.concatenate([0.5 + gap * np.arange(40), [0.0, 0.2, 0.7, 0.9, 1.0]])[:, None]
    f = np.sin(3 * X[:, 0])
    surrogate = CandidatePosterior(RBF(0.3), X, noise_variance=0.0)
    if how == "extend":
        surrogate.extend(range(45), f)
    else:
        for i in range(45):
            surrogate.append(i, f[i])
    assert np.isfinite(surrogate.mean).all()
    assert np.isfinite(surrogate.std).all()
    np.testing.assert_allclose(surrogate.mean, f, atol=1e-4)
    assert surrogate.std.max() < 1e-3


def test_contradictory_repeats_without_noise():
    """Averaged at the point, without upsetting its neighbours."""
    X = np.linspace(0, 1, 51)[:, None]
    surrogate = CandidatePosterior(RBF(0.2), X, noise_variance=0.0)
    surrogate.append(10, 1.0)
    surrogate.append(10, -1.0)
    surrogate.append(40, 1.0)
    assert surrogate.mean[10] == pytest.approx(0.0, abs=1e-4)
    assert surrogate.mean[40] == pytest.approx(1.0, abs=1e-4)
    assert np.abs(surrogate.mean).max() < 1.1


def test_smooth_kernel_exhausts_the_rank():
    """200 noise-free points, numerical rank about 10: the order of the values is forgotten."""
    X = np.linspace(0, 1, 200)[:, None]
    f = np.sin(3 * X[:, 0])
    mean, std = sklearn_posterior(RBF(2.0), X, np.arange(200), f, 1e-10)
    one_by_one, at_once = (CandidatePosterior(RBF(2.0), X, noise_variance=0.0) for _ in "ab")
    for i in np.random.RandomState(0).permutation(200):
        one_by_one.append(i, f[i])
    at_once.extend(np.arange(200), f)
    for surrogate in (one_by_one, at_once):
        np.testing.assert_allclose(surrogate.mean, mean, rtol=0, atol=1e-6)
        np.testing.assert_allclose(surrogate.std, std, rtol=0, atol=1e-6)
        np.testing.assert_allclose(surrogate.mean, f, atol=1e-3)


def test_snapshots_are_read_only_and_stay(problem):
    X, index, y, s2 = problem
    surrogate = CandidatePosterior(RBF(0.3), X, noise_variance=0.1)
    mean, std = surrogate.mean, surrogate.std
    surrogate.extend(index, y, s2)
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_array_equal(std, 1.0)
    with pytest.raises(ValueError, match="read-only"):
        surrogate.mean[0] = 1.0


def test_copy_and_pickle_are_independent(problem):
    X, index, y, s2 = problem
    surrogate = CandidatePosterior(RBF(0.3), X, noise_variance=0.1)
    surrogate.extend(index[:30], y[:30], s2[:30])
    mean = surrogate.mean
    for other in (surrogate.copy(), pickle.loads(pickle.dumps(surrogate))):
        assert_same_posterior(other, surrogate, atol=0.0)
        other.extend(index[30:], y[30:], s2[30:])
        reference = CandidatePosterior(RBF(0.3), X, noise_variance=0.1)
        reference.extend(index, y, s2)
        assert_same_posterior(other, reference, atol=1e-10)
        np.testing.assert_array_equal(surrogate.mean, mean)
        assert len(surrogate) == 30


def test_kernel_is_cloned():
    kernel = RBF(0.3)
    surrogate = CandidatePosterior(kernel, [[0.0], [1.0]], noise_variance=0.1)
    kernel.length_scale = 100.0
    surrogate.append(0, 1.0)
    assert surrogate.mean[1] < 0.01


@pytest.mark.parametrize(
    "arguments",
    [
        {"noise_variance": -1.0},
        {"noise_variance": np.nan},
        {"noise_variance": np.inf},
        {"X_candidates": [[np.nan]]},
        {"X_candidates": [0.0, 1.0]},
        {"X_candidates": np.empty((0, 2))},
        {"prior_mean": np.inf},
        {"prior_mean": [0.0, 1.0, 2.0]},
        {"kernel": RBF() + WhiteKernel()},
        {"kernel": ConstantKernel(2.0) * (RBF() + WhiteKernel())},
        {"kernel": WhiteKernel()},
        {"kernel": np.eye(3)},
        {"kernel": np.zeros((2, 2))},
    ],
)
def test_bad_construction(arguments):
    good = {"kernel": RBF(), "X_candidates": [[0.0], [1.0]], "noise_variance": 0.1}
    with pytest.raises(ValueError):
        CandidatePosterior(**{**good, **arguments})


@pytest.mark.parametrize(
    ("observation", "error"),
    [
        ((2, 0.0), IndexError),
        ((-1, 0.0), IndexError),
        ((0.5, 0.0), TypeError),
        ((0, np.nan), ValueError),
        ((0, np.inf), ValueError),
        ((0, 123.456, -1.0), ValueError),
    ],
)
def test_bad_observation_changes_nothing(observation, error):
    surrogate = CandidatePosterior(RBF(), [[0.0], [1.0]], noise_variance=0.1)
    with pytest.raises(error) as caught:
        surrogate.append(*observation)
    assert "123" not in str(caught.value)
    with pytest.raises(error):
        surrogate.extend([0, observation[0]], [0.1, observation[1]], [0.1, *observation[2:], 1][:2])
    assert len(surrogate) == 0
    np.testing.assert_array_equal(surrogate.mean, 0.0)


def test_extend_checks_lengths_and_accepts_nothing():
    surrogate = CandidatePosterior(RBF(), [[0.0], [1.0]], noise_variance=0.1)
    with pytest.raises(ValueError, match="length"):
        surrogate.extend([0, 1], [0.0])
    surrogate.extend([], [])
    assert len(surrogate) == 0
