"""Posterior of the rows behind a release, against the truth of simulated rows."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from _support.internals import (
    NoisyInputRBF,
    denoised_variances,
    is_isotropic,
    normal_rows,
)
from skdpbo.gaussian_process import ProjectedGP, ProjectionRelease
from skdpbo.gaussian_process.outsourced import Ball
from skdpbo.privacy import PrivacyGuarantee

RNG = np.random.default_rng(0)  # public randomness


def release_of(Z, noise_std, domain=None):
    return ProjectionRelease(
        Z=Z,
        noise_std=noise_std,
        domain=domain,
        projection=None,
        mechanism="gaussian",
        guarantee=PrivacyGuarantee(epsilon=1.0),
        displacement=1.0,
        data_norm=5.0,
    )


def normal_sample(n, scales, noise_std, rotation=None):
    X = RNG.normal(size=(n, len(scales))) * scales + 3.0
    X = X if rotation is None else X @ rotation.T
    return X, X + noise_std * RNG.normal(size=X.shape)


@pytest.mark.parametrize("isotropic", [False, True])
def test_the_normal_prior_gives_the_posterior_of_normal_rows(isotropic):
    scales, s, n = np.array([3.0, 1.0, 0.6]), 1.0, 20_000
    rotation = np.linalg.qr(RNG.normal(size=(3, 3)))[0] if isotropic else None
    X, Z = normal_sample(n, scales, s, rotation)
    believed = normal_rows(release_of(Z, s), isotropic)
    errors = believed.place(X) - believed.rows
    np.testing.assert_allclose(errors.std(axis=0), believed.noise_std, rtol=0.05, atol=0.02)
    expected = s * np.sqrt(scales**2 / (scales**2 + s**2))
    np.testing.assert_allclose(np.sort(believed.noise_std), np.sort(expected), rtol=0.1)
    # what is left of the error says nothing about where the row is believed to be
    correlation = np.corrcoef(errors.T, believed.rows.T)[:3, 3:]
    assert np.abs(correlation).max() < 0.05


def test_the_flat_prior_moves_rows_into_the_domain_only():
    X, y = RNG.normal(size=(50, 2)), RNG.normal(size=50)
    gp = ProjectedGP(data_norm=2.0, epsilon=1.0, noise_variance=0.1, row_prior="flat").fit(X, y)
    believed, Z = gp._predictor.believed, gp.release_.Z
    np.testing.assert_array_equal(believed.rows, Ball(2.0).project(Z))
    np.testing.assert_array_equal(believed.place(Z), Z)
    assert believed.noise_std == gp.release_.noise_std


@pytest.mark.parametrize(("n", "r"), [(400, 100), (100, 300)])
def test_principal_variances_lose_their_noise(n, r):
    s, true = 1.5, np.array([60.0, 25.0])
    found = []
    for _ in range(20):
        Z = s * RNG.normal(size=(n, r))
        Z[:, :2] += RNG.normal(size=(n, 2)) * np.sqrt(true)
        values = np.sort(np.linalg.svd(Z, compute_uv=False) ** 2 / n)[::-1]
        padded = np.concatenate([values, np.zeros(r - len(values))])
        found.append(denoised_variances(padded, s, n))
    mean = np.mean(found, axis=0)
    np.testing.assert_allclose(mean[:2], true, rtol=0.15)
    assert np.median(np.array(found)[:, 2:].max(axis=1)) < 1.5 * s**2
    assert np.mean(mean[2:] > 0) < 0.1


def test_axes_are_turned_for_isotropic_kernels_only():
    assert is_isotropic(2.0 * RBF(1.0) + ConstantKernel(0.3))
    assert not is_isotropic(2.0 * RBF([1.0, 2.0]))
    assert not is_isotropic(0.5 * RBF(1.0) + RBF([1.0, 2.0]))


def test_noise_may_differ_between_coordinates():
    Z, s = RNG.normal(size=(4, 2)), np.array([0.3, 1.1])
    mixed = NoisyInputRBF([1.3, 0.7], noise_std=s, n_noisy=1)(Z[:2], Z[2:])
    apart = [
        NoisyInputRBF(scale, noise_std=float(std), n_noisy=1)(Z[:2, [j]], Z[2:, [j]])
        for j, (scale, std) in enumerate(zip([1.3, 0.7], s, strict=True))
    ]
    np.testing.assert_allclose(mixed, apart[0] * apart[1])


def low_rank_problem(rng, n=250, d=40):
    axes = np.linalg.qr(rng.normal(size=(d, 2)))[0]
    rows = rng.uniform(-15, 15, (n + 50, 2))
    f = np.sin(rows[:, 0] / 6) + np.cos(rows[:, 1] / 6)
    X = rows @ axes.T
    return X[:n], f[:n], X[n:], f[n:]


def test_many_dimensions_need_the_normal_prior():
    rng = np.random.default_rng(1)  # public randomness
    X, y, T, f = low_rank_problem(rng)
    settings = {"mechanism": "gaussian", "epsilon": 2.0, "data_norm": 25.0}
    fixed = {"kernel": RBF(9.0), "noise_variance": 1e-3, "optimizer": None}
    errors, likelihoods = {}, {}
    for prior in ("flat", "normal", "auto"):
        gp = ProjectedGP(row_prior=prior, **settings, **fixed).fit(X, y)
        errors[prior] = np.sqrt(np.mean((gp.predict(T) - f) ** 2))
        likelihoods[prior] = gp.log_marginal_likelihood_value_
    assert errors["normal"] < 0.5 * errors["flat"]
    assert errors["auto"] < 0.6 * errors["flat"]
    assert likelihoods["normal"] > likelihoods["flat"]


def test_the_prior_is_chosen_by_what_it_says_of_y(monkeypatch):
    rng = np.random.default_rng(2)  # public randomness
    X, y, _, _ = low_rank_problem(rng, n=60, d=3)
    fitted = {}
    Z = X + rng.normal(size=X.shape)
    release = release_of(Z, 1.0, Ball(25.0))
    for prior in ("flat", "normal", "auto"):
        gp = ProjectedGP(row_prior=prior, kernel=RBF(9.0), noise_variance=0.01, optimizer=None)
        gp._map = None
        monkeypatch.setattr(gp, "_map", type("Map", (), {"exact": staticmethod(lambda X: X)}))
        gp._fit_released(release, y[:, None], RBF(9.0), [0.01])
        fitted[prior] = gp._predictor.log_marginal_likelihood
    assert fitted["auto"] == max(fitted["flat"], fitted["normal"])


def test_one_row_has_no_spread():
    gp = ProjectedGP(data_norm=1.0, row_prior="normal", kernel=RBF(), noise_variance=1.0)
    assert gp.set_params(optimizer=None).fit([[0.5]], [2.0]).predict([[0.5]]) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="row_prior"):
        ProjectedGP(data_norm=1.0, row_prior="uniform").fit([[0.5]], [2.0])
