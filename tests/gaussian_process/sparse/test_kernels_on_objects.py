"""A kernel on strings by public landmarks, as the theory page describes it; noise is seeded."""

import itertools

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct

from skdpbo.gaussian_process import DPSparseGPRegressor

LETTERS = "acgt"
PAIRS = ["".join(pair) for pair in itertools.product(LETTERS, repeat=2)]
LINEAR = DotProduct(1e-3, "fixed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SeededNoiseWarning"),
    # features of objects do not fill the box of those of the landmarks
    pytest.mark.filterwarnings("ignore::skdpbo.exceptions.UnreachedRowsWarning"),
]


def spectrum(words):
    """Counts of pairs of letters, of length 1: their products are a kernel on strings."""
    counts = np.array([[word.count(pair) for pair in PAIRS] for word in words], dtype=float)
    return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)


def landmark_features(kernel, landmarks):
    """Return the map of objects to whitened features, and those of the landmarks."""
    L = np.linalg.cholesky(kernel(landmarks, landmarks) + 1e-6 * np.eye(len(landmarks)))
    return lambda objects: np.linalg.solve(L, kernel(landmarks, objects)).T, L


def words(n, rng):
    return ["".join(rng.choice(list(LETTERS), 12, p=p)) for p in rng.dirichlet(np.ones(4), n)]


@pytest.mark.slow
def test_a_function_of_strings_is_found():
    rng = np.random.default_rng(0)
    public, records, new = words(12, rng), words(4000, rng), words(300, rng)

    def share_of_g(strings):
        return np.array([word.count("g") / 6 - 0.5 for word in strings])

    phi, L = landmark_features(lambda a, b: spectrum(a) @ spectrum(b).T, public)
    assert np.linalg.norm(phi(records), axis=1).max() <= 1 + 1e-9
    gp = DPSparseGPRegressor(
        LINEAR, inducing_points=L, y_bounds=(-2, 2), epsilon=3.0, random_state=0
    )
    gp.fit(phi(records), share_of_g(records) + 0.1 * rng.normal(size=4000))
    mean, std = gp.predict(phi(new), return_std=True)
    f = share_of_g(new)
    assert np.sqrt(np.mean((mean - f) ** 2)) < 0.4 * np.std(f)
    assert (std > 0).all()


def test_features_give_the_release_of_the_kernel():
    rng = np.random.default_rng(1)
    X, Z = rng.uniform(-3, 3, (2000, 1)), np.linspace(-3, 3, 9)[:, None]
    y = np.sin(X[:, 0])
    phi, L = landmark_features(RBF(1.0), Z)
    common = {"y_bounds": (-2, 2), "epsilon": 1e6, "delta": 0.5, "random_state": 0}
    direct = DPSparseGPRegressor(RBF(1.0), inducing_points=Z, **common).fit(X, y)
    by_features = DPSparseGPRegressor(LINEAR, inducing_points=L, **common).fit(phi(X), y)
    np.testing.assert_allclose(by_features.predict(phi(Z)), direct.predict(Z), atol=2e-3)
    np.testing.assert_allclose(by_features.noise_variance_, direct.noise_variance_, atol=1e-3)
