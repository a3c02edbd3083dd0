"""Cholesky with explicit jitter."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from _support.internals import cholesky_inverse, cholesky_solve, jittered_cholesky


def test_no_jitter_where_none_is_needed():
    A = RBF(0.2)(np.random.RandomState(0).rand(20, 2)) + 0.01 * np.eye(20)
    L, jitter = jittered_cholesky(A)
    assert jitter == 0.0
    np.testing.assert_allclose(L, np.linalg.cholesky(A), rtol=1e-12, atol=1e-14)
    b = np.arange(20.0)
    np.testing.assert_allclose(cholesky_solve(L, b), np.linalg.solve(A, b), rtol=1e-8)
    inverse = np.linalg.inv(A)
    np.testing.assert_allclose(cholesky_inverse(L), inverse, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_singular_matrices(scale):
    for A in (np.ones((5, 5)), RBF(3.0)(np.linspace(0, 1, 100)[:, None]), np.diag([1.0, 0.0])):
        L, jitter = jittered_cholesky(scale * A)
        assert 0.0 < jitter <= 1e-8 * scale
        residual = L @ L.T - scale * A - jitter * np.eye(len(A))
        assert np.abs(residual).max() <= 1e-13 * scale


def test_slightly_indefinite_matrix():
    A = np.diag([1.0, 1.0, -1e-7])
    L, jitter = jittered_cholesky(A)
    assert 1e-7 < jitter <= 1e-5
    assert np.isfinite(L).all()


def test_the_matrix_is_not_modified():
    A = np.ones((4, 4))
    jittered_cholesky(A)
    np.testing.assert_array_equal(A, 1.0)


@pytest.mark.parametrize(
    "A", [np.diag([1.0, -1.0]), np.array([[np.nan]]), np.array([[np.inf]]), np.zeros((2, 2))]
)
def test_refusals(A):
    with pytest.raises(np.linalg.LinAlgError):
        jittered_cholesky(A)
