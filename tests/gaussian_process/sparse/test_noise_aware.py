"""The noise-aware posterior against exact linear algebra and against its own model."""

import math

import numpy as np
import pytest
from scipy import stats

from _support.internals import MomentModel, lifted, released_noise_variance

RNG = np.random.default_rng(0)
D, N, SF2, SIGMA2 = 6, 400, 2.0, 0.09
PHI = RNG.normal(size=(N, D)) * np.array([0.5, 0.3, 0.2, 0.1, 0.03, 0.01])
V = RNG.normal(size=D) * math.sqrt(SF2)
Y = PHI @ V + math.sqrt(SIGMA2) * RNG.normal(size=N)


def make_model(sb=1e-9, sa=1e-9, syy=1e-9, E=0.0, e=0.0, yy_noise=0.0):
    return MomentModel(
        lifted(PHI.T @ PHI + E, sb, N),
        PHI.T @ Y + e,
        Y @ Y + yy_noise,
        sb=sb,
        sa=sa,
        syy=syy,
        n_records=N,
        signal_variance=SF2,
    )


def test_without_noise_it_is_bayesian_linear_regression():
    posterior = make_model().posterior(SIGMA2)
    precision = PHI.T @ PHI / SIGMA2 + np.eye(D) / SF2
    np.testing.assert_allclose(posterior.covariance, np.linalg.inv(precision), rtol=1e-6)
    np.testing.assert_allclose(
        posterior.mean, np.linalg.solve(precision, PHI.T @ Y / SIGMA2), rtol=1e-6
    )
    assert posterior.tau2 < 1e-12


def test_formula_of_the_posterior_in_full_matrices():
    sb, sa = 3.0, 2.0
    E = RNG.normal(size=(D, D)) * sb
    model = make_model(sb, sa, 5.0, E=(E + E.T) / 2, e=RNG.normal(size=D) * sa)
    posterior = model.posterior(SIGMA2)
    Bp = (model.T * model.b) @ model.T.T
    assert model.b.max() <= N
    A = model.T @ model.a
    C = np.linalg.inv(SIGMA2 * Bp + posterior.tau2 * np.eye(D))
    P = np.linalg.inv(np.eye(D) / SF2 + Bp @ C @ Bp)
    v = P @ Bp @ C @ A
    # tau2 has converged to the fixed point, far closer than it matters
    fixed = sa**2 + sb**2 / 2 * (1 + 1 / D) * (v @ v + np.trace(P))
    assert posterior.tau2 == pytest.approx(fixed, rel=1e-2)
    np.testing.assert_allclose(posterior.covariance, P, rtol=2e-2, atol=1e-6)
    np.testing.assert_allclose(posterior.mean, v, rtol=5e-2, atol=1e-3)


def test_directions_that_the_records_leave_out_change_no_formula():
    rng = np.random.default_rng(1)
    d, s2, sa = 8, 0.3, 0.5
    half = rng.normal(size=(d, 3))
    B, T, A = half @ half.T, rng.normal(size=(d, d)), rng.normal(size=d)
    noise = {"sb": 1e-9, "sa": sa, "syy": 1.0}
    models = [
        MomentModel(B, A, 9.0, **noise, n_records=50, signal_variance=SF2, features=T, eigen=known)
        for known in (None, np.linalg.eigh(B))
    ]
    covariance = SF2 * B @ T.T @ T @ B + s2 * B + sa**2 * np.eye(d)
    log_density = stats.multivariate_normal(cov=covariance).logpdf(A)
    C = np.linalg.inv(s2 * B + sa**2 * np.eye(d))
    P = np.linalg.inv(np.eye(d) / SF2 + T @ B @ C @ B @ T.T)
    for model in models:
        assert (model.b > 0).sum() == 3
        constant = d / 2 * math.log(2 * math.pi)
        assert model.log_evidence(s2) - constant == pytest.approx(log_density)
        square = A @ np.linalg.solve(covariance, A)
        assert model.dispersion(s2) == pytest.approx(max(1.0, square / d))
        np.testing.assert_allclose(model.posterior(s2).covariance, P, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.posterior(s2).mean, P @ T @ B @ C @ A, rtol=1e-6)


def test_more_noise_gives_the_prior():
    posterior = make_model(sb=1e6, sa=1e6).posterior(SIGMA2)
    np.testing.assert_allclose(posterior.covariance, SF2 * np.eye(D), rtol=1e-3, atol=1e-9)
    assert np.abs(posterior.mean).max() < 1e-3


def test_residual_sum_without_noise():
    model = make_model()
    posterior = model.posterior(SIGMA2)
    expected = np.sum((Y - PHI @ posterior.mean) ** 2)
    expected += np.trace(PHI.T @ PHI @ posterior.covariance)
    assert model.residual_sum(SIGMA2) == pytest.approx(expected, rel=1e-6)


def test_noise_variance_without_noise_is_about_the_truth():
    # n sigma^2 / variance is about chi-square(n - d); 5 standard errors
    estimate = released_noise_variance(make_model(), 1.0)
    assert abs(estimate / SIGMA2 - 1) < 5 * math.sqrt(2 / N)


def test_noise_variance_is_positive_and_bounded_whatever_was_released():
    for noise in (-1e4, -500.0, -50.0, 0.0, 1e4):
        estimate = released_noise_variance(make_model(1.0, 1.0, 100.0, yy_noise=noise), 4.0)
        assert 0 < estimate <= 4.0
    hidden = released_noise_variance(make_model(1.0, 1.0, 1e3, yy_noise=-1e4), 4.0)
    assert hidden > SIGMA2  # nothing is known, and the answer is wide rather than 0


def test_elbo_is_the_evidence_of_the_projected_model():
    model = make_model()
    # at the exact posterior the bound is tight: log N(y | 0, sf2 Phi Phi' + s2 I) - trace term
    covariance = SF2 * PHI @ PHI.T + SIGMA2 * np.eye(N)
    evidence = stats.multivariate_normal.logpdf(Y, np.zeros(N), covariance)
    trace = SF2 * (N - np.sum(PHI**2))
    assert model.elbo(SIGMA2) == pytest.approx(evidence - trace / (2 * SIGMA2), rel=1e-6)


def test_intervals_cover_under_the_model():
    # 400 draws of function and noise; each weight's squared z-score has mean at most about 1
    sb, sa, scores, generator = 3.0, 2.0, [], np.random.default_rng(1)
    for _ in range(400):
        v = generator.normal(size=D) * math.sqrt(SF2)
        E = np.triu(generator.normal(size=(D, D)), 1) * sb / math.sqrt(2)
        E = E + E.T + np.diag(generator.normal(size=D) * sb)
        y = PHI @ v + math.sqrt(SIGMA2) * generator.normal(size=N)
        A = PHI.T @ y + generator.normal(size=D) * sa
        model = MomentModel(
            lifted(PHI.T @ PHI + E, sb, N), A, y @ y,
            sb=sb, sa=sa, syy=1.0, n_records=N, signal_variance=SF2,
        )  # fmt: skip
        posterior = model.posterior(SIGMA2)
        scores.append(
            (PHI[:20] @ (v - posterior.mean)) ** 2
            / np.einsum("ij,jk,ik->i", PHI[:20], posterior.covariance, PHI[:20])
        )
    assert np.mean(np.array(scores) < 1.96**2) > 0.95


def test_evidence_is_the_density_of_the_released_sum():
    model = make_model(sb=3.0, sa=2.0)
    for factor in (0.25, 1.0, 4.0):
        scaled = model.scaled(factor)
        Bp = (model.T * model.b) @ model.T.T
        covariance = factor * SF2 * Bp @ Bp + SIGMA2 * Bp + 2.0**2 * np.eye(D)
        A = model.T @ model.a
        expected = stats.multivariate_normal.logpdf(A, np.zeros(D), covariance)
        constant = -0.5 * D * math.log(2 * math.pi)
        assert scaled.log_evidence(SIGMA2) == pytest.approx(expected - constant)
    assert model.sf2 == SF2
