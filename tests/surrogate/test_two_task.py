import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from skdpbo.surrogate import CandidatePosterior, two_task_posterior

X = np.random.RandomState(0).uniform(size=(30, 2))
KERNEL = ConstantKernel(0.04) * Matern([0.3, 0.6], nu=2.5)
PUBLIC = [3, 7, 1, 20, 12, 29]
PRIVATE = [7, 3, 7, 25]


def dense(difference, public, private, public_noise, private_noise, prior_mean):
    """Posterior moments of both tasks from the joint covariance of all values, (4, 30)."""
    K, G = KERNEL(X), difference
    joint = np.block([[K, K], [K, K + G]])
    rows = np.r_[np.array(PUBLIC), 30 + np.array(PRIVATE)]
    noise = np.r_[public_noise, private_noise]
    inverse = np.linalg.inv(joint[np.ix_(rows, rows)] + np.diag(noise))
    gain = joint[:, rows] @ inverse
    mean = prior_mean + gain @ (np.r_[public, private] - prior_mean)
    std = np.sqrt(np.diag(joint) - np.einsum("ij,ij->i", gain, joint[:, rows]))
    return np.array([mean[:30], std[:30], mean[30:], std[30:]])


def moments(posterior):
    mean, std = posterior.mean, posterior.std
    return np.array([mean[:30], std[:30], mean[30:], std[30:]])


def private_of(indices):
    return 30 + np.array(indices)


def values(seed=1):
    rng = np.random.RandomState(seed)
    return rng.normal(0.7, 0.2, len(PUBLIC)), rng.normal(0.7, 0.3, len(PRIVATE))


@pytest.mark.parametrize("prior_mean", [0.0, 0.7])
def test_equals_the_dense_computation(prior_mean):
    public, private = values()
    posterior = two_task_posterior(
        KERNEL, X, disagreement=0.05, noise_variance=1e-4, prior_mean=prior_mean
    )
    posterior.extend(PUBLIC[:4], public[:4])
    posterior.extend(private_of([PRIVATE[0]]), [private[0]], 0.01)
    posterior.extend(PUBLIC[4:], public[4:], [1e-4, 2e-3])
    for i, value in zip(PRIVATE[1:3], private[1:3], strict=True):
        posterior.extend(private_of([i]), [value], 0.01)
    posterior.extend(private_of(PRIVATE[3:]), private[3:], [0.02])
    difference = 0.05**2 * KERNEL(X) / 0.04
    noises = [1e-4] * 5 + [2e-3], [0.01] * 3 + [0.02]
    expected = dense(difference, public, private, *noises, prior_mean)
    np.testing.assert_allclose(moments(posterior), expected, atol=1e-8, rtol=0)
    assert len(posterior) == 10


def test_equals_scikit_learn_given_public_values_only():
    public, _ = values()
    posterior = two_task_posterior(KERNEL, X, disagreement=0.1, noise_variance=1e-3)
    posterior.extend(PUBLIC, public)
    regressor = GaussianProcessRegressor(KERNEL, alpha=1e-3, optimizer=None)
    mean, std = regressor.fit(X[PUBLIC], public).predict(X, return_std=True)
    np.testing.assert_allclose(moments(posterior)[:2], [mean, std], atol=1e-8)
    # nothing is known of the difference yet
    np.testing.assert_allclose(posterior.mean[30:], mean, atol=1e-8)
    np.testing.assert_allclose(posterior.std[30:], np.hypot(std, 0.1), atol=1e-8)


def test_exact_public_values_and_a_small_difference_leave_little_to_learn():
    public, private = values()
    posterior = two_task_posterior(KERNEL, X, disagreement=1e-6, prior_mean=0.7)
    posterior.extend(PUBLIC, public)
    single = CandidatePosterior(KERNEL, X, noise_variance=0.0, prior_mean=0.7)
    single.extend(PUBLIC, public)
    posterior.extend(private_of(PRIVATE), private, 0.1)
    np.testing.assert_allclose(posterior.mean[private_of(PUBLIC)], public, atol=1e-5)
    assert np.abs(posterior.mean[:30] - single.mean).max() < 0.2


def test_a_very_noisy_private_value_changes_nothing():
    public, _ = values()
    posterior = two_task_posterior(KERNEL, X, disagreement=0.1)
    posterior.extend(PUBLIC, public)
    before = posterior.mean.copy()
    posterior.extend(private_of([0]), [1e3], 1e12)
    np.testing.assert_allclose(posterior.mean, before, atol=1e-6)


def test_copies_are_independent_and_moments_read_only():
    posterior = two_task_posterior(KERNEL, X, disagreement=0.1)
    posterior.extend([0], [1.0])
    before = posterior.mean.copy()
    imagined = posterior.copy()
    imagined.extend(private_of([5]), [-3.0], 0.0)
    assert np.array_equal(posterior.mean, before)
    assert not np.allclose(imagined.mean, before)
    assert len(posterior) == 1
    assert posterior.n_candidates == 60
    for name in ("mean", "std"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(posterior, name)[0] = 0.0


@pytest.mark.parametrize("tau", [0.0, -1.0, np.nan, np.inf])
def test_refuses_a_senseless_disagreement(tau):
    with pytest.raises(ValueError, match="disagreement"):
        two_task_posterior(KERNEL, X, disagreement=tau)


def test_refuses_other_bad_input():
    with pytest.raises(ValueError, match="shape"):
        two_task_posterior(KERNEL, X[0], disagreement=0.1)
    posterior = two_task_posterior(KERNEL, X, disagreement=0.1)
    with pytest.raises(TypeError, match="integer"):
        posterior.extend([0.5], [1.0])
    with pytest.raises(ValueError, match="finite"):
        posterior.extend(private_of([0]), [np.nan], 0.1)
    with pytest.raises(ValueError, match="noise_variance"):
        posterior.extend(private_of([0]), [1.0], -0.1)
    with pytest.raises(ValueError, match="WhiteKernel"):
        two_task_posterior(KERNEL + WhiteKernel(), X, disagreement=0.1)
