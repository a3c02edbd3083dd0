"""
=====================================
Tuning a model that is itself private
=====================================

The settings of a private model, such as a kernel or a noise level, must be tuned privately, because
every trial reads the records. `DPGridSearchCV` with ``protect="all"`` tries a secret random number
of candidates and publishes only the best. Training and validation records are protected. The cost
does not grow with the number of candidates.

A choice inside one fit, such as that of `DPSparseGPRegressor` among several kernels, costs nothing
more.
"""

# %%
# Records
# -------
# 4000 synthetic patients with age and blood pressure.

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skdpbo import DPGridSearchCV
from skdpbo.gaussian_process import DPSparseGPRegressor
from skdpbo.model_selection import make_log_density_scorer
from skdpbo.privacy import PrivacyLedger, compose

rng = np.random.default_rng(0)


def truth(age):
    return 112 + 0.35 * (age - 20) + 10 * np.exp(-(((age - 55) / 8) ** 2))


age = 20 + 60 * rng.beta(1.5, 1.5, 4000)
X, y = age[:, None], truth(age) + rng.normal(0, 9, 4000)

# %%
# The ranges and the candidates are public: length-scales of 3, 12 or 48 years, and standard
# deviations among patients of one age of 4, 9 or 18.

public = {"inducing_points": 20, "X_bounds": (20, 80), "y_bounds": (80, 180)}
kernels = [15**2 * RBF(years) for years in (3.0, 12.0, 48.0)]
candidates = {"kernel": kernels, "noise_variance": [4.0**2, 9.0**2, 18.0**2]}

# %%
# Cost of `GridSearchCV`
# ----------------------
# It fits every candidate on five folds, and each fit spends budget:

one_fit = DPSparseGPRegressor(epsilon=1.0, delta=1e-6, **public).privacy_guarantee()
print(f"nine candidates, five folds: epsilon {compose(*[one_fit] * 45, delta=1e-6).epsilon:.1f}")

# %%
# Private selection
# -----------------
# The score is the mean log density of the validation records, clipped to a public range: -8 at
# worst, and -2.3 at best, the density of a standard deviation of 4. The noise of a score grows with
# the width of the range.

scorer = make_log_density_scorer(lower=-8.0, upper=-2.3)


def new_search(epsilon):
    return DPGridSearchCV(
        DPSparseGPRegressor(delta=1e-6, **public),
        candidates,
        protect="all",
        epsilon=epsilon,
        delta=1e-6,
        scoring=scorer,
        score_fraction=0,
    )


with PrivacyLedger(epsilon=1.0, delta=1e-6) as ledger:
    search = new_search(1.0).fit(X, y)

print(search.best_params_)
print(search.privacy_)

# %%
# The ledger has one entry, which covers trials and scores. The winner is published as it was
# trained. The number of trials must stay secret for the proof.

print(f"{len(ledger.entries)} entry, epsilon left: {ledger.remaining().epsilon:g}")

# %%
# A fifth of the records only scored the candidates, and each trial had a fraction of the budget:
# this is the cost in accuracy.

# %%
# Choice inside the model
# -----------------------
# With a list of kernels `DPSparseGPRegressor` releases noisy sums once for all kernels and compares
# the kernels by these sums. It trains on all records with the whole budget and estimates the noise
# level as well.


def new_chooser(epsilon):
    return DPSparseGPRegressor(kernels, epsilon=epsilon, delta=1e-6, **public)


chooser = new_chooser(1.0).fit(X, y)
for kernel, probability in zip(kernels, chooser.kernel_probabilities_, strict=True):
    print(f"{kernel.k2.length_scale:4.0f} years: probability {probability:.2f}")
print(f"patients of one age differ by {np.sqrt(chooser.noise_variance_):.1f} (truth 9.0)")

# %%
# Use it to choose a kernel of this model. `DPGridSearchCV` tunes any parameter of any private
# estimator, also of other libraries.
#
# Figure
# ------
# Both curves, and their errors against epsilon.

grid = np.linspace(22, 78, 200)[:, None]
epsilons = [0.3, 1.0, 3.0]
new_models = {"DPGridSearchCV": new_search, "several kernels": new_chooser}


def error(new_model, epsilon, repeats=2):
    # New models each time: one that was fitted under the ledger is charged there for good.
    fits = (new_model(epsilon).fit(X, y).predict(grid) for _ in range(repeats))
    return np.mean([np.sqrt(np.mean((mean - truth(grid[:, 0])) ** 2)) for mean in fits])


drawn = {"DPGridSearchCV": search.predict(grid), "several kernels": chooser.predict(grid)}
_, std = chooser.predict(grid, return_std=True)
errors = {name: [error(new, e) for e in epsilons] for name, new in new_models.items()}
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
    mean = drawn["several kernels"]
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
