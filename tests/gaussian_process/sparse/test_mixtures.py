"""Averages over kernels and amplitudes, against brute force."""

import numpy as np

from _support.internals import (
    AMPLITUDES,
    FittedWeights,
    amplitude_prior,
    averaged,
    mixture_moments,
)


def fit_with(log_evidence):
    return FittedWeights(
        np.zeros((2, 1)), np.eye(2)[None], np.ones(1), np.zeros(1), log_evidence=log_evidence
    )


def test_prior_is_log_normal_about_the_kernel():
    shares = amplitude_prior(AMPLITUDES)
    logs = np.log(AMPLITUDES)
    assert abs(shares.sum() - 1) < 1e-12
    assert AMPLITUDES[int(np.argmax(shares))] == 1.0
    np.testing.assert_allclose(shares[:8], shares[:8:-1])
    # one standard deviation is a factor of 8, three steps of the grid
    np.testing.assert_allclose(shares[11] / shares[8], np.exp(-0.5))
    assert abs(np.sqrt(shares @ logs**2) - np.log(8)) < 0.05


def test_evidence_decides():
    fits = [fit_with(100.0 * (k == 3)) for k in range(17)]
    assert abs(averaged(AMPLITUDES, fits).amplitude - AMPLITUDES[3]) < 1e-9
    prior_mean = amplitude_prior(AMPLITUDES) @ AMPLITUDES
    without = averaged(AMPLITUDES, [fit_with(-1e6)] * 17)
    np.testing.assert_allclose(without.amplitude, prior_mean)
    np.testing.assert_allclose(without.log_evidence, -1e6)  # the prior sums to 1


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
