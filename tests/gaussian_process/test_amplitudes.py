"""Averaging over the amplitude: against brute force."""

import numpy as np

from skdpbo.gaussian_process._amplitudes import (
    AMPLITUDES,
    amplitude_probabilities,
    mixture_moments,
)


def test_without_evidence_the_prior_is_log_normal_about_the_kernel():
    shares = amplitude_probabilities(AMPLITUDES, np.full(17, -1e6))
    logs = np.log(AMPLITUDES)
    assert abs(shares.sum() - 1) < 1e-12
    assert AMPLITUDES[int(np.argmax(shares))] == 1.0
    np.testing.assert_allclose(shares[:8], shares[:8:-1])
    # one standard deviation is a factor of 8, three steps of the grid
    np.testing.assert_allclose(shares[11] / shares[8], np.exp(-0.5))
    assert abs(np.sqrt(shares @ logs**2) - np.log(8)) < 0.05


def test_evidence_decides():
    evidence = np.zeros(17)
    evidence[3] = 100.0
    assert amplitude_probabilities(AMPLITUDES, evidence)[3] > 1 - 1e-12
    assert amplitude_probabilities((1.0,), [-1e9]) == [1.0]


def test_moments_of_a_mixture_agree_with_draws():
    generator = np.random.default_rng(0)
    shares, n = np.array([0.5, 0.3, 0.2]), 200_000
    roots = [np.tril(generator.normal(size=(2, 2))) for _ in shares]
    pairs = [(generator.normal(size=2) * 3, root @ root.T) for root in roots]
    which = generator.choice(3, n, p=shares)
    unit = generator.normal(size=(n, 2))
    draws = np.array([mean for mean, _ in pairs])[which]
    draws = draws + np.einsum("nij,nj->ni", np.array(roots)[which], unit)
    mean, covariance = mixture_moments(shares, pairs)
    # standard errors are about 4 / sqrt(n) = .01 and sqrt(2) 4^2 / sqrt(n) = .05
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=0.06)
    np.testing.assert_allclose(covariance, np.cov(draws.T), atol=0.3)
