"""
Tune a private trainer of your own by its whole privacy profile
================================================================

Stochastic gradient descent with clipped gradients and Gaussian noise (DP-SGD) is private. No single
pair (epsilon, delta) says how private: its guarantee is a curve delta(epsilon), the *privacy
profile*. Here a trainer and its profile are written in numpy, and the searcher chooses the learning
rate under ``protect=PrivateSelection(estimator_guarantee=profile)``, which uses all of the curve.

The accountants of dp-accounting, Opacus and OpenDP may take the place of the function
``delta_of_descent`` below.
"""

# %%
# The trainer
# -----------
# Every step draws each record with probability q, clips its gradient to length 1, and adds normal
# noise of standard deviation sigma to the sum. The two classes are public.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, ndtr
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification

from skdpbo.model_selection import DPRandomizedSearchCV, PrivateSelection
from skdpbo.privacy import PrivacyProfile, TrialLaw, as_replace_one, selection_guarantee

Q, SIGMA, STEPS = 0.02, 2.0, 200


class NoisyDescent(ClassifierMixin, BaseEstimator):
    def __init__(self, learning_rate=1.0):
        self.learning_rate = learning_rate

    def fit(self, X, y):
        rng, positive = np.random.default_rng(), np.asarray(y) == 1
        # No record may make the model NaN.
        X = np.clip(np.nan_to_num(np.asarray(X, dtype=float)), -1e6, 1e6)
        X = np.column_stack([X, np.ones(len(X))])
        weights = np.zeros(X.shape[1])
        for _ in range(STEPS):
            drawn = rng.random(len(X)) < Q
            slopes = expit(X[drawn] @ weights) - positive[drawn]
            gradients = slopes[:, None] * X[drawn]
            lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
            total = (gradients / np.maximum(lengths, 1)).sum(axis=0)
            noisy = total + SIGMA * rng.standard_normal(len(weights))
            weights -= self.learning_rate * noisy / (Q * len(X))
        self.weights_, self.classes_ = weights, np.array([0, 1])
        return self

    def predict(self, X):
        X = np.column_stack([np.asarray(X, dtype=float), np.ones(len(X))])
        return (X @ self.weights_ > 0).astype(int)


# %%
# Its profile
# -----------
# One step with a record more compares N(0, sigma^2) with the mixture
# (1 - q) N(0, sigma^2) + q N(1, sigma^2). The logarithm of the ratio of their densities is the
# privacy loss; losses of the steps add up, so that their law is a convolution power. Every loss is
# rounded up to a grid. What the grid does not cover, and what the Fourier transform may round
# away, is added to delta.


def losses_of_step(grid):
    """Probability that the loss is at most each grid point, for a record less and one more."""
    with np.errstate(divide="ignore", invalid="ignore"):
        place = SIGMA**2 * np.log(np.maximum(np.expm1(grid) + Q, 0) / Q) + 0.5
        mirrored = SIGMA**2 * np.log(np.maximum(np.expm1(-grid) + Q, 0) / Q) + 0.5
    less = (1 - Q) * ndtr(place / SIGMA) + Q * ndtr((place - 1) / SIGMA)
    return less, ndtr(-mirrored / SIGMA)


def delta_of_descent(step=1e-4, size=2**17):
    """The function delta(epsilon) of the whole training, for add-remove neighbours."""
    grid = step * (np.arange(size) - size // 2)
    tables = []
    for cdf in losses_of_step(grid):
        mass = np.diff(cdf, prepend=0.0)
        missing = STEPS * (1 - cdf[-1]) + 1e-10
        for rate in (-20.0, 20.0):  # Chernoff: the sum leaves the grid
            growth = np.sum(mass * np.exp(rate * grid))
            missing += np.exp(STEPS * np.log(growth) - abs(rate * grid[0]) + 20 * step)
        spectrum = np.fft.rfft(np.fft.ifftshift(mass)) ** STEPS
        total = np.maximum(np.fft.fftshift(np.fft.irfft(spectrum, size)), 0)
        above = np.append(np.cumsum(total[::-1])[::-1], 0)
        scaled = np.append(np.cumsum((total * np.exp(-grid))[::-1])[::-1], 0)
        tables.append((above, scaled, missing))

    def delta(epsilon):
        first = np.searchsorted(grid, epsilon, side="right")
        grown = np.exp(np.minimum(epsilon, -grid[0]))
        bounds = [m + np.maximum(a[first] - grown * s[first], 0) for a, s, m in tables]
        return np.minimum(np.max(bounds, axis=0), 1)

    return delta


profile = PrivacyProfile(
    delta_of_descent(), neighbours="add-remove", mechanism="DP-SGD", protects="training records"
)
print(profile)

# %%
# One point of the curve, or all of it
# ------------------------------------
# Private selection among 30 expected trials costs far less than the best single point says.

law, deltas = TrialLaw(30), 10.0 ** -np.arange(6.75, 9.1, 0.25)
points = [selection_guarantee(profile.guarantee(d), law, delta=1e-5).epsilon for d in deltas]
whole = selection_guarantee(profile, law, delta=1e-5).epsilon
print(f"best single point: epsilon {min(points):.2f}, whole profile: epsilon {whole:.2f}")

epsilons = np.linspace(0, 4, 200)
plt.semilogy(epsilons, profile.delta(epsilons), label="one training, add-remove")
plt.semilogy(epsilons, as_replace_one(profile).delta(epsilons), label="the same, replace-one")
plt.xlabel("epsilon")
plt.ylabel("delta")
plt.legend()

# %%
# The search
# ----------
# The number of rows is public, so a search protects against the replacement of a record, and the
# add-remove profile is converted: a record leaves, another comes. The noise of the scores is as
# small as the profile of the training and the budget allow.

X, y = make_classification(4000, n_features=5, n_informative=4, n_redundant=0, random_state=0)
search = DPRandomizedSearchCV(
    NoisyDescent(),
    {"learning_rate": np.logspace(-2, 1, 12)},
    n_iter=12,
    scoring="accuracy",
    protect=PrivateSelection(estimator_guarantee=profile),
    epsilon=3.0,
    delta=1e-5,
)
search.fit(X, y)
print(search.best_params_, round(search.best_score_, 3))
print(search.privacy_)

# %%
# The guarantee is conditional on the profile, which the searcher cannot check. numpy's normal
# noise is not exact; that of `skdpbo.mechanisms.GaussianMechanism` is.
