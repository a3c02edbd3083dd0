"""Audit of the release of a private GP classifier, and planted bugs that it must find."""

import warnings
from importlib import import_module

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from skdpbo.exceptions import SeededNoiseWarning
from skdpbo.gaussian_process import DPSparseGPClassifier
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.privacy import mu_from_epsilon

CLASSIFIER = import_module("skdpbo.gaussian_process.sparse._classifier")
FEATURES = import_module("skdpbo.gaussian_process.sparse._features")
GRAM = import_module("skdpbo._gram_release")


def releases(monkeypatch, X, y, n_classes, Z):
    """Return (integers without noise, standard deviation in the same units) of a fit."""
    seen = []
    original = GaussianMechanism.release

    def release(self, values, source=None):
        seen.append((np.array(values, dtype=float).ravel(), self.sigma))
        return original(self, values, source)

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        patch.setattr(GaussianMechanism, "release", release)
        DPSparseGPClassifier(
            RBF(1.0), inducing_points=Z, classes=range(n_classes), random_state=0
        ).fit(X, y)
    return seen


def largest_distance(monkeypatch, n_classes):
    """Distance between the releases of neighbours in units of the noise, over pairs of records."""
    # Features at 0 and z have the product 1 / (2 (K - 1)), the codes of two classes the opposite
    # of that by their scale: the records are orthogonal.
    z = np.sqrt(2 * np.log(2 * (n_classes - 1)))
    Z, unseen = np.array([[0.0], [z], [50.0]]), -5
    found = []
    for x, label in [(0.0, 0), (z, n_classes - 1), (50.0, 1), (50.0, unseen), (25.0, 0)]:
        X = np.vstack([[[x]], np.zeros((3, 1))])
        found.append(releases(monkeypatch, X, [label, 0, 0, 1], n_classes, Z))
    return max(
        np.sqrt(
            sum(
                np.sum(((a - b) / sigma) ** 2)
                for (a, sigma), (b, _) in zip(one, other, strict=True)
            )
        )
        for one in found
        for other in found
    )


def audit(monkeypatch, n_classes):
    budget = mu_from_epsilon(1.0, 1e-5)
    distance = largest_distance(monkeypatch, n_classes)
    assert distance <= budget * (1 + 1e-9)
    assert distance >= 0.98 * budget  # the bound is attained, so that the audit sees all of it


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("n_classes", [3, 2, 5])
def test_neighbours_differ_by_the_budget(monkeypatch, n_classes):
    audit(monkeypatch, n_classes)


def test_noise_that_ignores_the_labels_is_found(monkeypatch):
    original = GRAM.second_moment_sensitivity
    monkeypatch.setattr(GRAM, "second_moment_sensitivity", lambda W2: original(W2) * 2 / 3)
    with pytest.raises(AssertionError):
        audit(monkeypatch, 3)


@pytest.mark.slow
def test_longer_codes_without_shortening_are_found(monkeypatch):
    original = CLASSIFIER.label_codes
    monkeypatch.setattr(CLASSIFIER, "label_codes", lambda K: 1.5 * original(K))
    audit(monkeypatch, 3)  # shortened on the integers
    monkeypatch.setattr(FEATURES, "shorten_rows", lambda rows, radius: np.nan_to_num(rows))
    with pytest.raises(AssertionError):
        audit(monkeypatch, 3)
