"""
===========================
Audit your own private code
===========================

A private mean is three lines of numpy, and errors in them are invisible: the numbers look equally
noisy. `skdpbo.audit` has the tools with which skdpbo attacks itself. Here they are applied to

- three means with a common error each, and one with a hidden error;
- an estimator and a loss.
"""

# %%
# Four private means
# ------------------
# Salaries of 256 people, in thousands, between 0 and 10. One person changes the mean by at most 10
# / 256, so that Laplace noise of scale 10 / (256 epsilon) gives epsilon-differential privacy. All
# four means claim this; three violate it.

import numpy as np

from skdpbo.audit import (
    last_digits,
    leak_scan,
    likelihood_ratio_audit,
    precision_audit,
    sensitivity_audit,
)
from skdpbo.mechanisms import DiscreteLaplace
from skdpbo.privacy import PrivacyGuarantee

rng = np.random.default_rng(0)  # seeded noise is for tests alone, and this is one
HIGH = 10.0


def forgot_to_clip(x, epsilon):
    return x.mean() + rng.laplace(scale=HIGH / (len(x) * epsilon))


def range_from_data(x, epsilon):
    return x.mean() + rng.laplace(scale=(x.max() - x.min()) / (len(x) * epsilon))


def half_the_noise(x, epsilon):  # "a person is at most 5 away from the middle"
    return x.clip(0, HIGH).mean() + rng.laplace(scale=HIGH / 2 / (len(x) * epsilon))


def textbook(x, epsilon):
    return x.clip(0, HIGH).mean() + rng.laplace(scale=HIGH / (len(x) * epsilon))


# %%
# Sensitivity
# -----------
# Without noise: replace every person by extreme ones and measure the change of the mean.

salaries = rng.uniform(2, 6, 256)
for name, mean in {"clipped": lambda x: x.clip(0, HIGH).mean(), "not clipped": np.mean}.items():
    found = sensitivity_audit(mean, salaries, [0.0, 10.0, 1000.0], sensitivity=HIGH / 256 + 1e-12)
    verdict = "REFUTED" if found.violated else "not refuted"
    print(f"{name:11} moves by {found.largest:.3f}, at most {HIGH / 256:.3f} claimed: {verdict}")

# %%
# (The 1e-12 covers the rounding of the sums; the comparison is exact.)
#
# Noise
# -----
# Choose two data sets that differ in one extreme person, and run the release on both thousands of
# times. The audit searches for an event that is likely on one and unlikely on the other, and
# returns a *proved* lower bound on epsilon, wrong with probability at most 1e-6.

poor = np.full(256, 3.0)
rich = poor.copy()
poor[0], rich[0] = 0.0, 25.0

claim = 1.0
for mean in (forgot_to_clip, range_from_data, half_the_noise, textbook):
    audit = likelihood_ratio_audit(lambda x, mean=mean: mean(x, claim), poor, rich, n_runs=5000)
    verdict = "REFUTED" if audit.violates(PrivacyGuarantee(epsilon=claim)) else "not refuted"
    print(f"{mean.__name__:16} epsilon >= {audit.epsilon:.2f}: {verdict}")

# %%
# "Not refuted" does not mean proved.
#
# Last digits
# -----------
# The textbook mean is right for real numbers. In floating point, the reachable values of ``mean +
# noise`` depend on the mean. `precision_audit` looks at the last binary digits only. The worst case
# is a mean of 0: all salaries are 0, or one is not.

nobody, somebody = np.zeros(256), np.zeros(256)
somebody[0] = HIGH


def on_lattice(x, epsilon):
    """Whole units of 2^-20, and whole noise: whatever can come out, always can."""
    units = np.rint(x.clip(0, HIGH) * 2**20).astype(int).sum()
    noise = DiscreteLaplace(epsilon, sensitivity=int(HIGH) * 2**20)
    return noise.release(int(units)) * 2.0**-20 / len(x)


for mean in (textbook, on_lattice):
    audit = precision_audit(lambda x, mean=mean: mean(x, claim), nobody, somebody, n_runs=3000)
    print(f"{mean.__name__:10} last digits alone: epsilon >= {audit.epsilon:.2f}")

# %%
# The textbook mean violates epsilon 1, too: a last digit that a mean of 0.04 cannot produce reveals
# that all salaries are 0. skdpbo therefore adds noise on a lattice; for means use
# `skdpbo.mechanisms.BoundedMean`.
#
# Leaks of the fitted object
# --------------------------
# Plant a salary with many digits, fit, and search everything reachable from the object, its pickle,
# its repr and its HTML:

from sklearn.base import BaseEstimator


class PrivateMean(BaseEstimator):
    def __init__(self, epsilon=1.0):
        self.epsilon = epsilon

    def fit(self, X, y=None):
        self.mean_ = on_lattice(X, self.epsilon)
        self.range_ = (X.min(), X.max())  # "handy for the plot"
        return self


planted = salaries.copy()
planted[17] = 9.731652094831557
model = PrivateMean().fit(planted)
print("leaks:", leak_scan(model, [planted[17]]))
del model.range_
print("without range_:", leak_scan(model, [planted[17]]))

# %%
# Losses
# ------
# The score of a search must be a mean of per-record losses. A loss scaled by the spread of all
# targets is not, even if it is clipped:

losses = {"plain": lambda y: (y - 4.0) ** 2 / 4, "scaled": lambda y: (y - 4.0) ** 2 / np.var(y)}
for name, loss in losses.items():
    found = sensitivity_audit(
        lambda y, loss=loss: loss(y).clip(0, 4).sum(), salaries, [0.0, 1e3], sensitivity=4 + 1e-9
    )
    print(f"{name:6} one record moves the sum by {found.largest:.1f}, the bound of a loss is 4")

# %%
# (`make_per_record_scorer` passes one protected record at a time, so that a loss cannot mix
# records. The scaled loss then divides by 0, every record costs the bound, and the choice is
# uniform.)
#
# Figure
# ------
# Left: measured against claimed epsilon; points above the diagonal are refuted. Right: position of
# the last binary digit on the two data sets. For the textbook mean some positions occur on one of
# them only.

claims = np.array([0.5, 1.0, 2.0, 3.0, 4.0])
means = (forgot_to_clip, range_from_data, half_the_noise, textbook, on_lattice)
measured = {
    mean.__name__.replace("_", " "): [
        likelihood_ratio_audit(lambda x, m=mean, e=e: m(x, e), poor, rich, n_runs=4000).epsilon
        for e in claims
    ]
    for mean in means
}
for name, bounds in measured.items():
    print(f"{name:16}", *(f"{bound:.2f}" for bound in bounds))


def digit_shares(mean, data, n_runs=3000):
    """Return how often the last binary digit is at each place after the point, from 0 to 79."""
    labels = last_digits([mean(data, claim) for _ in range(n_runs)])
    places = [-int(label.partition("^")[2]) for label in labels]
    return np.bincount(np.clip(places, 0, 79), minlength=80) / n_runs


try:
    import matplotlib.pyplot as plt
except ImportError:
    print("(no plot: matplotlib is not installed)")
else:
    fig = plt.figure(figsize=(10, 4.5), layout="constrained")
    grid = fig.add_gridspec(2, 2, width_ratios=[1.1, 1])
    left, top, bottom = (fig.add_subplot(cell) for cell in (grid[:, 0], grid[0, 1], grid[1, 1]))
    left.fill_between([0, 4.4], [0, 4.4], 5, color="#D55E00", alpha=0.1, lw=0)
    left.plot([0, 4.4], [0, 4.4], color="0.5", lw=1)
    left.text(0.15, 4.7, "claim refuted", color="#D55E00", weight="bold")
    colours = ["#D55E00", "#E69F00", "#CC79A7", "#56B4E9", "#0072B2"]
    for (name, bounds), colour, marker in zip(measured.items(), colours, "Xv^so", strict=True):
        left.plot(claims, bounds, marker=marker, ms=8, color=colour, label=name)
    left.set(xlim=(0, 4.4), ylim=(-0.05, 5))
    left.set(xlabel="claimed ε", ylabel="measured lower bound on ε")
    left.legend(frameon=False, loc="lower right")
    for ax, mean in ((top, textbook), (bottom, on_lattice)):
        for data, colour, shift in ((nobody, "#0072B2", -0.2), (somebody, "#E69F00", 0.2)):
            share = digit_shares(mean, data)
            label = "nobody earns anything" if data is nobody else "one person does"
            ax.bar(np.arange(80) + shift, share, 0.4, color=colour, label=label)
        ax.set(title=mean.__name__.replace("_", " "), yticks=[], ylabel="share of runs")
        ax.set_xlim(18, 68)
    top.legend(frameon=False, loc="upper left")
    bottom.set_xlabel("binary place of the last digit, after the point")
    for ax in (left, top, bottom):
        ax.spines[["top", "right"]].set_visible(False)
    plt.show()

# %%
# Limits of an audit
# ------------------
# - It bounds epsilon from below for the two data sets that you chose. Think of the extremes: empty,
#   constant, enormous, missing.
# - It needs runs: half of n choose the event, and with the others no epsilon above log(n / 30) or
#   so can be shown. Small mistakes at a small epsilon need many.
# - It belongs into your tests, together with a broken copy of the code that it must catch. Those of
#   skdpbo do so for every release.
