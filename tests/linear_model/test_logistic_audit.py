"""Audit of the releases of a private logistic regression, and planted bugs that it must find."""

import warnings
from importlib import import_module

import numpy as np
import pytest

from _support.transcripts import spent
from skdpbo.exceptions import SeededNoiseWarning
from skdpbo.linear_model import DPLogisticRegression
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.privacy import mu_from_epsilon

LOGISTIC = import_module("skdpbo.linear_model._logistic")
GRADIENT = import_module("skdpbo.linear_model._gradient_sum")
MOMENTS = import_module("skdpbo._column_moments")


def releases(monkeypatch, X, y):
    """Return (mu implied by the noise, integers without noise) of every release of one fit."""
    seen = []
    original = GaussianMechanism.release

    def release(self, values, source=None):
        seen.append((self.sigma / self.step, np.array(values, dtype=object).ravel()))
        return original(self, values, source)

    monkeypatch.setattr(GaussianMechanism, "release", release)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        DPLogisticRegression(X_bounds=(-1, 1), classes=[0, 1], random_state=0).fit(X, y)
    return seen


def audit(monkeypatch):
    """The change of histogram and moments between neighbours, in units of their noise, squared.

    These two releases do not depend on earlier noise, so their changes compose to what is spent.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 2))
    y = (X[:, 0] > 0).astype(int)
    other, other_y = X.copy(), y.copy()
    X[0], y[0] = [1.0, 1.0], 1
    other[0], other_y[0] = [-1.0, -1.0], 1
    with monkeypatch.context() as patch:
        first = releases(patch, X, y)
    with monkeypatch.context() as patch:
        second = releases(patch, other, other_y)
    assert len(first) == len(second) >= 22
    budget = mu_from_epsilon(1.0, 1e-5)
    spent = 0.0
    for (sigma, a), (_, b) in list(zip(first, second, strict=True))[:2]:
        change = (a - b).astype(float)
        spent += (np.linalg.norm(change) / sigma) ** 2
    assert spent <= budget**2 * 0.16 * (1 + 1e-9)
    assert spent >= budget**2 * 0.16 / 8  # the audit sees the change


def composed(monkeypatch, epsilon=1.0):
    """Squares of the budgets of all mechanisms of a fit; at most the square of the whole."""
    budgets = []
    original = GaussianMechanism.__post_init__

    def watch(self):
        original(self)
        budgets.append(self.mu)

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 2))
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        patch.setattr(GaussianMechanism, "__post_init__", watch)
        model = DPLogisticRegression(
            X_bounds=(-1, 1), classes=[0, 1], random_state=0, epsilon=epsilon
        )
        model.fit(X, (X[:, 0] > 0).astype(int))
    # Histogram, moments, the curvature's two mechanisms of one release, and one for all steps.
    histogram, moments, *curvature, step = budgets
    assert len(curvature) == (2 if epsilon > 1 else 0)
    total = histogram**2 + moments**2 + max(curvature, default=0) ** 2 + model.n_iter_ * step**2
    assert total <= mu_from_epsilon(epsilon, 1e-5) ** 2
    assert total >= 0.999 * mu_from_epsilon(epsilon, 1e-5) ** 2  # and nothing is wasted


def test_scales_spend_their_share(monkeypatch):
    audit(monkeypatch)


@pytest.mark.parametrize("epsilon", [1.0, 3000.0])
def test_steps_compose(monkeypatch, epsilon):
    composed(monkeypatch, epsilon)


def test_steps_that_are_not_composed_are_found(monkeypatch):
    monkeypatch.setattr(LOGISTIC, "step_budgets", lambda mu, n: np.full(n, mu))
    with pytest.raises(AssertionError):
        composed(monkeypatch)


def test_moments_outside_of_the_budget_are_found(monkeypatch):
    monkeypatch.setattr(MOMENTS, "split_budget", lambda mu, share: (mu, mu))
    with pytest.raises(AssertionError):
        composed(monkeypatch)


def test_moments_with_an_eighth_of_the_noise_are_found(monkeypatch):

    class LittleNoise(GaussianMechanism):
        def __post_init__(self):
            object.__setattr__(self, "sensitivity", self.sensitivity / 8)
            super().__post_init__()

    monkeypatch.setattr(
        import_module("skdpbo.mechanisms._clipping"), "GaussianMechanism", LittleNoise
    )
    with pytest.raises(AssertionError):
        audit(monkeypatch)


def bounded(n_classes=2):
    rng = np.random.default_rng(1)
    build = import_module("skdpbo._row_blocks").BoxedRows
    scales = import_module("skdpbo.linear_model._record_rows").ColumnScales(
        1.0, np.zeros(2), np.full(2, 3.0), 1.0, 0.3, 2.0
    )
    for _ in range(50):
        rows = build(rng.uniform(-1, 1, (1, 2)), np.full(2, -1.0), np.full(2, 1.0))
        one = GRADIENT.GradientRelease(
            rows, rng.integers(0, n_classes, 1), scales, np.ones(n_classes), 0.1, 0.5, 1
        )
        total = one.exact_total(rng.normal(size=(3, 1)) * 10)
        assert sum(int(v) ** 2 for v in total.ravel()) <= one.bound**2
    assert one.sigma >= 2 * 0.5 / 0.1 * (1 - 1e-6)


def test_gradients_are_bounded():
    bounded()


def test_forgotten_clipping_is_found(monkeypatch):
    monkeypatch.setattr(
        GRADIENT,
        "residuals_on_lattice",
        lambda residuals, norms, bound, bits: np.trunc(residuals * 2.0**bits),
    )
    with pytest.raises(AssertionError):
        bounded()


def test_half_the_noise_is_found(monkeypatch):
    monkeypatch.setattr(GRADIENT, "gradient_sensitivity", lambda bound: bound)
    with pytest.raises(AssertionError):
        bounded()


def unclipped_mean(self, w):
    """Planted: the sum of unclipped gradients is clipped after it is formed."""
    total = np.zeros(w.shape)
    for rows, z in self._rows.affine(self._factor, self._shift):
        grid = np.hstack([z, np.full((len(z), 1), self._constant)])
        codes = self._codes[rows]
        total += grid.T @ GRADIENT._residuals(grid @ (w * 2.0**-16), codes) * 2.0**self._bits
    n = len(self._codes)
    return np.trunc(total * min(1.0, n * self.bound / np.linalg.norm(total))).astype(np.int64)


def transcript(monkeypatch, epsilon, **parameters):
    """Neighbours with opposite gradients, on a replayed transcript.

    At opposite corners; with weights by class they differ in the label instead.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.2, 0.2, (400, 3))
    y = (X[:, 0] > 0).astype(int)
    other, other_y = X.copy(), y.copy()
    X[0], y[0], other[0], other_y[0] = 1.0, 0, -1.0, 0
    if parameters:
        other[0], other_y[0] = 1.0, 1

    def fit(X, y):
        model = DPLogisticRegression(
            X_bounds=(-1, 1), classes=[0, 1], random_state=0, epsilon=epsilon, **parameters
        )
        steps.append(model.fit(X, y).n_iter_)

    steps = []
    total = spent(monkeypatch, fit, (X, y), (other, other_y))
    budget = mu_from_epsilon(epsilon, 1e-5) ** 2
    assert budget / 8 < total <= budget
    return steps


@pytest.mark.parametrize("epsilon", [1.0, 3000.0])
def test_all_releases_together_spend_the_budget(monkeypatch, epsilon):
    steps = transcript(monkeypatch, epsilon)
    assert (steps == [8, 8]) == (epsilon > 1)  # with and without a release of the curvature


@pytest.mark.parametrize("epsilon", [1.0, 3000.0])
def test_balanced_classes_spend_the_budget(monkeypatch, epsilon):
    transcript(monkeypatch, epsilon, class_weight="balanced")


def test_class_counts_outside_of_the_budget_are_found(monkeypatch):
    """Planted: the counts are released with the budget of the whole, in exchange for nothing."""
    honest = LOGISTIC.release_balance
    budget = mu_from_epsilon(1.0, 1e-5)
    monkeypatch.setattr(
        LOGISTIC,
        "release_balance",
        lambda codes, n, mu, *how: honest(codes, n, 2 * budget, *how),
    )
    with pytest.raises(AssertionError):
        transcript(monkeypatch, 1.0, class_weight="balanced")


def test_clipping_after_the_mean_is_found(monkeypatch):
    monkeypatch.setattr(GRADIENT.GradientRelease, "exact_total", unclipped_mean)
    with pytest.raises(AssertionError):
        transcript(monkeypatch, 3000.0)


def test_curvature_that_is_free_is_found(monkeypatch):
    monkeypatch.setattr(LOGISTIC, "_SHARE_OF_CURVATURE", 1e-9)
    monkeypatch.setattr(LOGISTIC, "split_budget", lambda mu, share: (mu, mu))
    with pytest.raises(AssertionError):
        composed(monkeypatch, 3000.0)


def curvature_change():
    """Largest change of the second moments over pairs of rows, in units of the sensitivity."""
    curvature = import_module("skdpbo.linear_model._noisy_descent")
    limit = import_module("skdpbo._gram_release").second_moment_sensitivity(2**20 * 2**20)
    build = import_module("skdpbo._row_blocks").BoxedRows
    scales = import_module("skdpbo.linear_model._record_rows").ColumnScales(
        1.0, np.full(3, 0.1), np.full(3, 2.0), 1.3, 0.1, 3.0
    )
    rng = np.random.default_rng(2)
    moments = []
    for _ in range(40):
        X = rng.choice([-1.0, 0.0, 1.0, 50.0], (1, 3)) * 10.0 ** rng.integers(-2, 3)
        rows = build(X, np.full(3, -1.0), np.full(3, 1.0))
        total = curvature.exact_second_moments(rows, scales, np.ones(1), 2.0**-20, 2**20)
        moments.append(total.astype(float))
    return max(np.linalg.norm(a - b) for a in moments for b in moments) / limit


def test_second_moments_change_by_their_sensitivity_at_most():
    assert 0.9 < curvature_change() <= 1.0


def test_second_moments_of_rows_that_are_not_cut_are_found(monkeypatch):
    curvature = import_module("skdpbo.linear_model._noisy_descent")
    monkeypatch.setattr(
        curvature, "rows_on_lattice", lambda rows, step, radius: np.trunc(2 * rows / step)
    )
    assert curvature_change() > 1.0
