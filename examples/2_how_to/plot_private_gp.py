"""
================================
A private curve with error bands
================================

5000 volunteers wore a heart-rate monitor, and each gave one reading: time and beats per minute. The
daily curve is to be published with error bands, without revealing any reading. The bands of
`DPSparseGPRegressor` include both the uncertainty of the data and the privacy noise.
"""

# %%
# Records
# -------
# The readings are synthetic, so that the true curve is known.

import math
import pickle

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skdpbo.exceptions import BudgetExceededError
from skdpbo.gaussian_process import DPSparseGPRegressor
from skdpbo.privacy import PrivacyLedger

rng = np.random.default_rng(0)


def truth(hour):
    awake = 1 / (1 + np.exp(-(hour - 7) / 0.8)) - 1 / (1 + np.exp(-(hour - 22.5) / 0.8))
    return 60 + 14 * awake + 9 * np.exp(-(((hour - 18) / 1.6) ** 2))


def readings(n):
    hours = 24 * rng.beta(2.0, 1.6, n)  # few at night
    return hours[:, None], truth(hours) + rng.normal(0, 8, n)


X, y = readings(5000)

# %%
# Public inputs
# -------------
# A private method must not read bounds from the records: a minimum and a maximum are values of two
# persons. They are given from general knowledge:
#
# - `y_bounds`: readings outside are clipped. The noise grows with their width; the centre is the
#   prediction without data.
# - `X_bounds` and `inducing_points`: the curve is represented by its values at this many points of
#   the box. About one a length-scale is enough.
# - the kernel: length-scale (2 hours) and standard deviation around the centre (15 beats per
#   minute).
#
# Missing bounds get data-independent defaults and a `DefaultBoundsWarning`.

kernel = 15**2 * RBF(2.0)
public = {"X_bounds": (0, 24), "inducing_points": 13, "y_bounds": (40, 120)}
gp = DPSparseGPRegressor(kernel, epsilon=1.0, delta=1e-6, **public)

# %%
# The guarantee is known before any record is read. Publish it with the curve.

print(gp.privacy_guarantee())

# %%
# Fit and predict
# ---------------
# The fit reads the records once, adds noise to sums over them, and computes everything else from
# the noisy sums.

with PrivacyLedger(epsilon=1.0, delta=1e-6) as ledger:
    gp.fit(X, y)

hours = np.array([[3.0], [8.0], [18.0]])
mean, std = gp.predict(hours, return_std=True)
for hour, m, s in zip(hours[:, 0], mean, std, strict=True):
    print(f"{hour:4.0f} h   {m:5.1f} +- {1.96 * s:.1f}   (truth {truth(hour):.1f})")

# %%
# `std` refers to the curve. For a single reading add the variance of the readings, which is
# estimated from the same noisy sums at no cost:

print(f"a reading scatters by {math.sqrt(gp.noise_variance_):.1f} (truth 8.0)")
for hour, m, s in zip(hours[:, 0], mean, np.sqrt(std**2 + gp.noise_variance_), strict=True):
    print(f"{hour:4.0f} h   95 % of readings in {m:.0f} +- {1.96 * s:.0f}")

# %%
# The fitted object holds noisy and public values only. It may be pickled and given away;
# predictions cost no privacy.

print(f"{len(pickle.dumps(gp))} bytes, whatever the number of records ({gp.n_records_})")

# %%
# A second fit exceeds the budget and is refused before a record is read:

try:
    with ledger:
        gp.fit(X, y)
except BudgetExceededError as error:
    print("refused:", error)

# %%
# Cost
# ----
# The band widens as epsilon decreases and still contains the truth almost everywhere. (Synthetic
# records may be fitted repeatedly; real ones spend budget in every fit.)

grid = np.linspace(0, 24, 241)[:, None]


def band_and_error(records, **parameters):
    gp = DPSparseGPRegressor(kernel, delta=1e-6, **{**public, **parameters}).fit(*records)
    mean, std = gp.predict(grid, return_std=True)
    error = mean - truth(grid[:, 0])
    inside = np.mean(np.abs(error) < 1.96 * std)
    rmse = np.sqrt(np.mean(error**2))
    return f"band +- {1.96 * std.mean():4.1f}   error {rmse:4.1f}   truth inside {inside:4.0%}"


for epsilon in [0.1, 0.3, 1.0, 3.0, 10.0]:
    print(f"epsilon {epsilon:4}    ", band_and_error((X, y), epsilon=epsilon))

# %%
# Ten times the records have about the effect of ten times the epsilon:

for n in [500, 5000, 50_000]:
    print(f"{n:6} readings   ", band_and_error(readings(n), epsilon=1.0))

# %%
# Wide bounds cost accuracy, too:

for bounds in [(40, 120), (0, 160), (-320, 480)]:
    print(f"{bounds!s:12}    ", band_and_error((X, y), epsilon=1.0, y_bounds=bounds))

# %%
# Do not publish `gp.score(X, y)` or anything else computed from the records again.
#
# Figure
# ------
# The shaded band contains the curve with probability 95 % at its outer edge.

try:
    import matplotlib.pyplot as plt
except ImportError:
    print("(no plot: matplotlib is not installed)")
else:
    epsilons = [0.1, 0.3, 1.0, 10.0]
    colours = plt.get_cmap("viridis")(np.linspace(0.15, 0.75, len(epsilons)))
    fig, axes = plt.subplots(2, 2, figsize=(9, 6), sharex=True, sharey=True, layout="constrained")
    for ax, epsilon, colour in zip(axes.flat, epsilons, colours, strict=True):
        # A new estimator: the first one is charged to its ledger for good.
        gp = DPSparseGPRegressor(kernel, epsilon=epsilon, delta=1e-6, **public).fit(X, y)
        mean, std = gp.predict(grid, return_std=True)
        ax.plot(X[::5], y[::5], ".", color="0.85", ms=2, zorder=0)
        for width in np.linspace(1.96, 0.2, 8):
            low, high = mean - width * std, mean + width * std
            ax.fill_between(grid[:, 0], low, high, color=colour, alpha=0.12, lw=0)
        ax.plot(grid, mean, color=colour, lw=2, label="private curve")
        ax.plot(grid, truth(grid), color="black", lw=1, ls="--", label="truth")
        ax.set(title=f"epsilon = {epsilon:g}", ylim=(40, 110), xlim=(0, 24), xticks=range(0, 25, 4))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False, loc="upper left")
    fig.supxlabel("hour of the day")
    fig.supylabel("beats per minute")
