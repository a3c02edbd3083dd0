"""
=================================================
Why a seed takes the privacy away: an attack
=================================================

`random_state=0` is a good habit in scikit-learn: it makes a result reproducible. With private
noise it is the opposite of a good habit. What you can reproduce, everybody can reproduce, and noise
that can be reproduced can be subtracted. This page subtracts it.
"""

# %%
# The published run
# -----------------
# A clinic chooses the depth of a tree with 369 protected rows, and publishes the choice, the score
# and, for the sake of reproducibility, its script. The script has `random_state=0` in it. skdpbo
# warns (`SeededNoiseWarning`) and states that the run carries no guarantee; the clinic goes on.

import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from skdpbo import DPGridSearchCV
from skdpbo.exceptions import SeededNoiseWarning

data = load_breast_cancer()
X_public, X_private, y_public, y_private = train_test_split(
    data.data, data.target, train_size=200, stratify=data.target, random_state=0
)
tree = DecisionTreeClassifier(random_state=0)  # this seed is harmless: it only shapes public trees


def publish(y, seed):
    """What the clinic's script publishes, if the diagnoses of its patients were `y`."""
    search = DPGridSearchCV(
        tree, {"max_depth": [1, 2, 3, 4]}, epsilon=0.5, guide=False, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        search.fit(X_public, y_public, X_val=X_private, y_val=y)
    return search


published = publish(y_private, seed=0)
print(f"published: depth {published.best_params_['max_depth']}, score {published.best_score_:.4f}")
print(published.privacy_.status, "because", published.privacy_.assumptions[0])

# %%
# `epsilon=0.5` asks for much noise: a tenth of it pays for the score, and 369 rows are few. The
# noise on the score has a standard deviation of

sd = np.sqrt(2) / (published.score_fraction * published.epsilon) / len(y_private)
print(f"{sd:.3f}; one patient moves the score by {1 / len(y_private):.4f}")

# %%
# so that the published score says next to nothing about anybody. Or so it seems.
#
# The attack
# ----------
# An attacker knows the other patients' rows, as in every example of this documentation, and tries
# both diagnoses of patient 0 *with the published script*. The noise comes out the same each time;
# one of the two runs agrees with what was published, to the last digit.


def with_diagnosis(patient, diagnosis):
    y = y_private.copy()
    y[patient] = diagnosis
    return y


for diagnosis, name in enumerate(data.target_names):
    guess = publish(with_diagnosis(0, diagnosis), seed=0).best_score_
    print(
        f"if patient 0 is {name:9}  {guess!r}"
        f"{'  <- this is it' if guess == published.best_score_ else ''}"
    )

# %%
# For every patient
# -----------------
# The same for 40 patients, once with the published seed and once with fresh noise
# (`random_state=None`, the default). The attacker names a diagnosis when exactly one of the two
# guesses agrees with the published score, and otherwise says nothing.


def attack(seed, patients):
    """How many diagnoses the attacker names rightly, and how many wrongly."""
    score = publish(y_private, seed).best_score_
    right = wrong = 0
    for patient in patients:
        guesses = [publish(with_diagnosis(patient, d), seed).best_score_ for d in (0, 1)]
        agree = [guess == score for guess in guesses]
        if sum(agree) == 1:
            named = agree.index(True)
            right += named == y_private[patient]
            wrong += named != y_private[patient]
    return right, wrong


patients = range(40)
for name, seed in {"random_state=0": 0, "random_state=None": None}.items():
    right, wrong = attack(seed, patients)
    print(f"{name:18} of {len(patients)} diagnoses {right} named rightly, {wrong} wrongly")

# %%
# With the seed everybody is found and nobody is mistaken for another. With fresh noise an agreement
# is a coincidence, as likely for the wrong diagnosis as for the right one: the scores that can be
# published are the same few hundred, whatever the records are. (skdpbo draws its noise on such a
# lattice on purpose.)
#
# The picture
# -----------
# What the two versions of the clinic's data would publish, run after run. With the seed there are
# two bars, and which one is drawn is the diagnosis. Without it there are two heaps, nearly the
# same; that they overlap so much is what epsilon = 0.5 says.

try:
    import matplotlib.pyplot as plt
except ImportError:
    print("(no plot: matplotlib is not installed)")
else:
    fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharex=True)
    bins = np.linspace(0.5, 1.0, 21)
    for ax, (name, seed) in zip(
        axes, {"random_state=0": 0, "fresh noise": None}.items(), strict=True
    ):
        for diagnosis, colour in ((0, "#D55E00"), (1, "#0072B2")):
            y = with_diagnosis(0, diagnosis)
            runs = [publish(y, seed).best_score_ for _ in range(1 if seed == 0 else 150)]
            if seed == 0:
                ax.axvline(runs[0], color=colour, linewidth=2)
            else:
                ax.hist(
                    runs,
                    bins,
                    color=colour,
                    alpha=0.5,
                    label=f"patient 0 is {data.target_names[diagnosis]}",
                )
        ax.set(title=name, xlabel="published score")
    inset = axes[0].inset_axes([0.1, 0.35, 0.5, 0.5])
    for diagnosis, colour in ((0, "#D55E00"), (1, "#0072B2")):
        inset.axvline(publish(with_diagnosis(0, diagnosis), 0).best_score_, color=colour)
    ends = [line.get_xdata()[0] for line in inset.lines]
    inset.set(yticks=[], title="magnified", xlim=(min(ends) - 0.002, max(ends) + 0.002))
    inset.tick_params(axis="x", rotation=30, labelsize=7)
    axes[0].set_yticks([])
    axes[1].set_ylabel("runs of 150")
    axes[1].legend()

# %%
# What to do instead
# ------------------
# - Leave `random_state=None` on the searchers and the private regressors. Candidates, splits and
#   starting points are then fixed and public anyway; only the noise is fresh.
# - Seeds of *public* things may stay, like that of the trees here.
# - To let others check a result, publish the code, the public data and `privacy_`. Nobody needs
#   your noise for that.
# - For tests of your own code on made-up data a seed is fine: that is what it is for.
