"""Shares of a default family by a design: public, of sum 1, and better than fixed ones."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from _support.internals import (
    WhitenedFeatures,
    WhitenedMethod,
    WhitenedRelease,
    default_family,
    designed_shares,
    inducing_design,
    kernel_shares,
    recoverable_parts,
    support_design,
)
from _support.planted import put
from skdpbo.exceptions import SeededNoiseWarning
from skdpbo.gaussian_process import DPSparseGPRegressor


def default(p, n_records=2000, mu=0.25):
    Z = inducing_design(None, (np.full(p, -3.0), np.full(p, 3.0)), p)
    family = default_family(Z, np.full(1, 3.0))
    parts = [WhitenedFeatures(kernel, Z) for kernel in family.kernels]
    return Z, family, parts, WhitenedRelease(mu, (3.0,), n_records)


def dense_errors(Z, parts, shares, release, X):
    """Root mean square error under each kernel with a share, by dense formulas, records at X."""
    K_x = sum(
        p * part.kernel(X, Z) / part.signal_variance for p, part in zip(shares, parts, strict=True)
    )
    K_z = sum(
        p * part.kernel(Z) / part.signal_variance for p, part in zip(shares, parts, strict=True)
    )
    noise = (release.noise / np.sqrt(2) / release.beta[0]) ** 2
    weight, found = release.n_records / len(X), []
    for part, share in zip(parts, shares, strict=True):
        if share:
            phi = part(X)
            left = np.maximum(part.kernel.diag(X) - part.signal_variance * (phi**2).sum(1), 0)
            other = left.mean() + 0.1 * part.signal_variance
            C = weight * K_x.T @ phi
            S = other * weight * K_x.T @ K_x + noise * (K_z + 1e-6 * np.eye(len(Z)))
            precision = np.eye(len(Z)) / part.signal_variance + C.T @ np.linalg.solve(S, C)
            spread = np.einsum("ij,jk,ik->i", phi, np.linalg.inv(precision), phi)
            found.append(np.sqrt(np.mean(spread + left)))
    return np.array(found)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("p", "gain"), [(1, 0.97), (3, 0.96), (6, 0.98)])
def test_expected_errors_become_smaller(p, gain):
    Z, family, parts, release = default(p)
    fixed = kernel_shares(family, Z)
    shares = designed_shares(parts, fixed, release, family.many)
    assert shares.sum() == pytest.approx(1.0)
    assert (shares[:9] >= 0.25 * fixed[:9]).all()  # whatever the function is
    np.testing.assert_array_equal(shares[9:], 0)
    X = np.random.default_rng(0).uniform(-3, 3, (400, p))
    before, after = (dense_errors(Z, parts, one, release, X) for one in (fixed, shares))
    assert np.mean(after / before) < gain
    assert np.max(after / before) < 1.1


def test_gradient_is_that_of_the_error(monkeypatch):
    seen = []

    def kept(design, shares):
        seen.append((design, shares))
        return shares

    put(monkeypatch, "share design: _least", kept)
    Z, family, parts, release = default(2)
    designed_shares(parts, kernel_shares(family, Z), release)
    ((design, shares),) = seen
    value, slope = design.mean_error(shares)
    for k, one in enumerate(np.eye(len(shares))):
        step = 1e-5 * one
        moved = design.mean_error(shares + step)[0] - design.mean_error(shares - step)[0]
        assert moved / 2e-5 == pytest.approx(slope[k], abs=1e-4)
    assert value < 2


def test_the_parts_that_are_shown_are_those_of_dense_formulas():
    Z, family, parts, release = default(1)
    shares = designed_shares(parts, kernel_shares(family, Z), release)
    X = np.linspace(-3, 3, 400)[:, None]
    squares = dense_errors(Z, parts, shares, release, X) ** 2 / parts[0].signal_variance
    np.testing.assert_allclose(recoverable_parts(parts, shares, release), 1 - squares, atol=0.01)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", [25, 289])  # fewer and more than the support points
def test_errors_and_gradient_are_those_of_dense_formulas_at_the_support(size, monkeypatch):
    Z = inducing_design(size, (np.full(2, -3.0), np.full(2, 3.0)), 2)
    parts = [WhitenedFeatures(kernel, Z) for kernel in (RBF(0.6), 2.0 * RBF(3.0))]
    release, seen = WhitenedRelease(0.5, (3.0,), 5000), []
    put(monkeypatch, "share design: _least", lambda design, shares: seen.append(design) or shares)
    designed_shares(parts, np.array([0.7, 0.3]), release)
    X, shares = support_design(Z)[:256], np.array([0.3, 0.7])

    def relative(shares):
        return dense_errors(Z, parts, shares, release, X) / np.sqrt([1.0, 2.0])

    np.testing.assert_allclose(seen[0].errors(shares), relative(shares), rtol=1e-6)
    alone = [relative(np.maximum(one, 1e-12))[k] for k, one in enumerate(np.eye(2))]
    value, slope = seen[0].mean_error(shares)
    assert value == pytest.approx(np.mean(relative(shares) / alone), rel=1e-6)
    step = np.array([1e-5, -1e-5])
    moved = np.mean((relative(shares + step) - relative(shares - step)) / alone)
    assert slope @ step * 2 == pytest.approx(moved, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
def test_the_mean_of_one_column_leaves_out_what_the_noise_hides(p):
    X = np.random.default_rng(0).uniform(-3, 3, (500, p))
    gp = DPSparseGPRegressor(epsilon=0.3, X_bounds=(-3, 3), y_bounds=(-3, 3), random_state=0)
    with pytest.warns(SeededNoiseWarning):
        gp.fit(X, X[:, 0])
    mixture, taken = gp._predictor, gp.kernel_probabilities_ > 1e-9
    np.testing.assert_allclose(mixture.shares, gp.kernel_probabilities_[taken], rtol=1e-6)
    ratio = mixture.mean_shares / mixture.shares
    if p > 1:
        np.testing.assert_allclose(ratio, 1.0)
        return
    assert taken.all()
    # Of the noisy sums smooth functions can be learnt, rough ones not.
    assert ratio[4] > 5 * ratio[0]
    means = np.stack([part.mean(X) for part in mixture.parts])
    average = np.tensordot(mixture.mean_shares, means, 1)
    np.testing.assert_allclose(gp.predict(X), average[:, 0])
    # Bands are about that mean, and so wider than those of the mixture about its own.
    own = replace(mixture, mean_shares=None)
    wider = (average - own.mean(X)) ** 2
    np.testing.assert_allclose(mixture.moments(X)[1], own.moments(X)[1] + wider)


def test_more_noise_favours_the_linear_kernel():
    (Z, family, parts, release), noisy = default(3), default(3, mu=0.08)[3]
    fixed = kernel_shares(family, Z)
    much, little = (designed_shares(parts, fixed, one)[8] for one in (noisy, release))
    assert much > 1.5 * little
    assert much > 2 * fixed[8]


def test_shares_depend_on_public_values_alone():
    Z, family, _, _ = default(3)
    public = {"mu": 0.3, "half_width": np.full(1, 3.0), "shares": "design"}
    one, other = (WhitenedMethod(family, Z, n_records=500, **public) for _ in range(2))
    np.testing.assert_array_equal(one.features.kernel(Z), other.features.kernel(Z))
    assert np.diag(one.features.kernel(Z)).mean() == pytest.approx(1.0)
    check = WhitenedMethod(family, Z, n_records=1, **public)  # before a fit: without a search
    fixed = kernel_shares(family, Z)
    alone = sum(
        s * p.kernel(Z) / p.signal_variance for s, p in zip(fixed, check.parts, strict=True)
    )
    np.testing.assert_allclose(check.features.kernel(Z), alone)
    public["shares"] = "fixed"  # as in classification
    labels = WhitenedMethod(family, Z, n_records=500, **public)
    np.testing.assert_allclose(labels.features.kernel(Z), alone)
