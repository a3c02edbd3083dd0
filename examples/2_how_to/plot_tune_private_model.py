"""
=====================================================
Tuning a model that is itself private
=====================================================

A private model has settings, too: a kernel, a noise level. Trying them out on the records costs
privacy, since every trial is one more look. `DPGridSearchCV` with ``protect="all"`` tries a secret
random number of candidates and publishes only the best: training and validation records are both
protected, at a price that does not grow with the number of candidates. And where the model can
choose for itself inside one fit, as `DPSparseGPRegressorCV` does, the choice is free.
"""

# %%
# The records
# -----------
# 4000 patients, each with an age and a blood pressure. They are made up, so that we know the truth.

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skdpbo import DPGridSearchCV
from skdpbo.gaussian_process import DPSparseGPRegressor, DPSparseGPRegressorCV
from skdpbo.model_selection import make_log_density_scorer
from skdpbo.privacy import PrivacyLedger, compose

rng = np.random.default_rng(0)


def truth(age):
    return 112 + 0.35 * (age - 20) + 10 * np.exp(-(((age - 55) / 8) ** 2))


age = 20 + 60 * rng.beta(1.5, 1.5, 4000)
X, y = age[:, None], truth(age) + rng.normal(0, 9, 4000)

# %%
# What is public: the ranges, and the candidates. How fast does the curve bend, over 3, 12 or 48
# years? How much do patients of one age differ: by 4, 9 or 18?

public = {"inducing_points": 20, "X_bounds": (20, 80), "y_bounds": (80, 180)}
gp = DPSparseGPRegressor(delta=1e-6, **public)
kernels = [15**2 * RBF(years) for years in (3.0, 12.0, 48.0)]
candidates = {"kernel": kernels, "noise_variance": [4.0**2, 9.0**2, 18.0**2]}

# %%
# Why not `GridSearchCV`?
# -----------------------
# It would fit every candidate on five folds, and each fit would pay on its own:

one_fit = gp.set_params(epsilon=1.0).privacy_guarantee()
print(f"nine candidates, five folds: epsilon {compose(*[one_fit] * 45, delta=1e-6).epsilon:.1f}")

# %%
# Private selection
# -----------------
# The score is the mean log density of the validation records. The range to which a record's log
# density is clipped is public, too: a patient whom the model surprises counts -8 at worst, and no
# model scores above -2.3, which is a standard deviation of 4. The noise of a score grows with the
# width of the range.

scorer = make_log_density_scorer(lower=-8.0, upper=-2.3)
search = DPGridSearchCV(
    gp,
    candidates,
    protect="all",
    epsilon=1.0,
    delta=1e-6,
    scoring=scorer,
    score_fraction=0,
)

with PrivacyLedger(epsilon=1.0, delta=1e-6) as ledger:
    search.fit(X, y)

print(search.best_params_)
print(search.privacy_)

# %%
# The ledger has one entry: trials and scores are paid for together. The winner is published as it
# was trained; how many trials there were is not, since the proof needs it to be secret.

print(f"{len(ledger.entries)} entry, epsilon left: {ledger.remaining().epsilon:g}")

# %%
# A fifth of the records only scored the candidates, and every trial had to make do with a fraction
# of the budget. That is what the search costs in accuracy.

# %%
# A model that chooses for itself
# -------------------------------
# `DPSparseGPRegressorCV` releases noisy sums once, for all its kernels together, and compares the
# kernels by these sums. It trains on all records with the whole budget, and estimates the noise
# level as well.

chooser = DPSparseGPRegressorCV(kernels, epsilon=1.0, delta=1e-6, **public).fit(X, y)
for kernel, probability in zip(kernels, chooser.kernel_probabilities_, strict=True):
    print(f"{kernel.k2.length_scale:4.0f} years: probability {probability:.2f}")
print(f"patients of one age differ by {np.sqrt(chooser.noise_variance_):.1f} (truth 9.0)")

# %%
# Use it when the question is a kernel of this model. `DPGridSearchCV` tunes any private estimator,
# also of other libraries, and any of its parameters.
#
# The picture
# -----------
# Both curves, and the errors of both against epsilon. (Our records are made up, so that we may fit
# as often as we like.)

grid = np.linspace(22, 78, 200)[:, None]
epsilons = [0.3, 1.0, 3.0]
models = {"DPGridSearchCV": search, "DPSparseGPRegressorCV": chooser}


def error(model, epsilon, repeats=4):
    model.set_params(epsilon=epsilon)
    fits = (model.fit(X, y).predict(grid) - truth(grid[:, 0]) for _ in range(repeats))
    return np.mean([np.sqrt(np.mean(difference**2)) for difference in fits])


drawn = {name: model.predict(grid) for name, model in models.items()}
_, std = chooser.predict(grid, return_std=True)
errors = {name: [error(model, e) for e in epsilons] for name, model in models.items()}
for name, row in errors.items():
    print(
        f"{name:22}", "  ".join(f"epsilon {e}: {r:.1f}" for e, r in zip(epsilons, row, strict=True))
    )

try:
    import matplotlib.pyplot as plt
except ImportError:
    print("(no plot: matplotlib is not installed)")
else:
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.plot(X[::8], y[::8], ".", color="0.85", ms=3, zorder=0)
    mean = drawn["DPSparseGPRegressorCV"]
    band = (mean - 1.96 * std, mean + 1.96 * std)
    left.fill_between(grid[:, 0], *band, color="C1", alpha=0.2, lw=0)
    for (name, curve), colour in zip(drawn.items(), ("C0", "C1"), strict=True):
        left.plot(grid, curve, color=colour, lw=2, label=name)
        right.loglog(epsilons, errors[name], "o-", color=colour, label=name)
    left.plot(grid, truth(grid[:, 0]), "k--", lw=1, label="truth")
    left.set(xlabel="age (years)", ylabel="blood pressure (mmHg)", ylim=(95, 155))
    left.set_title("epsilon = 1, all records protected")
    left.legend(frameon=False, loc="upper left")
    right.set(xlabel="epsilon", ylabel="error of the curve (mmHg)")
    right.set_xticks(epsilons, [str(epsilon) for epsilon in epsilons])
    right.set_xticks([], minor=True)
    right.set_yticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
    right.set_yticks([], minor=True)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
