"""
==============================================
Kusner et al. (2015): an almost uniform choice
==============================================

Kusner, Gardner, Garnett and Weinberger made Bayesian optimisation differentially private first.
skdpbo has their three algorithms with corrected constants. This page compares Algorithm 1 at
epsilon = 1 with skdpbo's default mechanism, on synthetic scores.
"""

# %%
# A search space of 100 candidates
# --------------------------------
# 100 values of `C` with the accuracy of each on 1000 protected records: a smooth curve with a clear
# best value and a cliff.

import math

import numpy as np

from skdpbo.mechanisms import PermuteAndFlip, noise_source
from skdpbo.model_selection import Kusner2015

n_candidates, n_records = 100, 1000
places = np.linspace(0, 1, n_candidates)
scores = 0.9 - 0.35 * (places - 0.6) ** 2 / 0.36 - 0.2 / (1 + np.exp(-(places - 0.85) / 0.01))
print(f"accuracy: best {scores.max():.3f}, mean {scores.mean():.3f}, worst {scores.min():.3f}")

# %%
# Sensitivity
# -----------
# One of 1000 records changes every accuracy by at most 1/1000 for any data. Permute-and-flip needs
# no more.
#
# Algorithm 1 protects a posterior mean and bounds the distance of two posterior means under a
# Gaussian-process prior of variance 1: twice the width of the confidence band, plus c for the
# change of the scores. (T = 50 evaluations, delta = 1e-5, correlation .99 between the scores of
# neighbouring data sets.)

n_iter, delta, correlation = 50, 1e-5, 0.99
beta = 2 * math.log(n_candidates * (n_iter + 1) ** 2 * math.pi**2 / (3 * delta))
c = 2 * math.sqrt((1 - correlation) * math.log(3 * n_candidates / delta))
sensitivity = 2 * math.sqrt(beta) + c
print(f"sensitivity: permute-and-flip {1 / n_records}, Algorithm 1 {sensitivity:.1f}")

# %%
# With scores between 0 and 1 and a sensitivity of 15, weights exp(epsilon * score / (2 *
# sensitivity)) differ by at most a factor of

print(f"a factor of at most {math.exp(1 / (2 * sensitivity)):.3f} at epsilon = 1")

# %%
# The number of records does not enter: more data do not help.
#
# Choice
# ------
# The probabilities of both mechanisms can be computed. For Algorithm 1 the surrogate is assumed to
# know the scores exactly.


def algorithm_1(epsilon):
    weights = np.exp(epsilon * scores / (2 * sensitivity))
    return weights / weights.sum()


def permute_and_flip(epsilon):
    losses = np.rint((1 - scores) * n_records).astype(int)
    return PermuteAndFlip(epsilon, sensitivity=1).probabilities(losses)


for name, law in (("Algorithm 1", algorithm_1), ("permute-and-flip", permute_and_flip)):
    p = law(1.0)
    print(
        f"{name:16}  best candidate {n_candidates * p[scores.argmax()]:6.3f} times as likely as by "
        f"a blind draw, mean accuracy of the choice {p @ scores:.3f}"
    )

# %%
# The first mean accuracy equals the mean over all candidates, as for a uniform draw. The same from
# runs of the algorithm itself:

mechanism = Kusner2015(noise_variance=0.01, dataset_correlation=correlation)
budget = {"epsilon": 1.0, "delta": delta, "score_fraction": 0.0}
runs = [
    mechanism.search(
        places[:, None],
        lambda k: scores[k],
        n_iter=n_iter,
        source=noise_source(),
        **budget,
    )[0]
    for _ in range(100)
]
error = scores.std() / math.sqrt(len(runs))
print(f"mean accuracy of {len(runs)} choices: {scores[runs].mean():.3f} +- {error:.3f}")

# %%
# Five released values of `best_score_`, with half of the budget for the choice and half for the
# score. They are useless as accuracies.

budget = {"epsilon": 2.0, "delta": 2 * delta, "score_fraction": 0.5}
for _ in range(5):
    _, score = mechanism.search(
        places[:, None], lambda k: scores[k], n_iter=n_iter, source=noise_source(), **budget
    )
    print(f"{score:8.2f}")

# %%
# Guarantee
# ---------
# The guarantee is weaker, too. The probability delta is over the draw of the scores from the prior;
# for two given data sets there is no guarantee. Hence the status "conditional".

print(mechanism.guarantee(**budget))

# %%
# Use the default of `DPBayesSearchCV`: permute-and-flip over the visited candidates, proved without
# a prior, and better with every record. For several noisy scores use `mechanism="gaussian"`.

try:
    import matplotlib.pyplot as plt
except ImportError:
    print("(no plot: matplotlib is not installed)")
else:
    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    epsilons = np.geomspace(0.01, 1000, 26)
    for name, law in (("Algorithm 1", algorithm_1), ("permute-and-flip", permute_and_flip)):
        left.semilogy(places, np.maximum(n_candidates * law(1.0), 1e-6), label=name)
        regret = [scores.max() - law(epsilon) @ scores for epsilon in epsilons]
        right.loglog(epsilons, np.maximum(regret, 1e-4), label=name)
    left.axhline(1, color="grey", lw=0.8, ls=":")
    left.set(
        xlabel="candidate",
        ylabel="probability / blind draw",
        title="what is chosen at epsilon = 1",
        ylim=(1e-5, 100),
    )
    right.axhline(scores.max() - scores.mean(), color="grey", lw=0.8, ls=":", label="blind draw")
    right.set(xlabel="epsilon", ylabel="expected loss of accuracy", title="1000 records")
    right.legend()
