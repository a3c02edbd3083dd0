"""
===================================
Seeds void the guarantee: an attack
===================================

`random_state=0` makes a result reproducible. Reproducible privacy noise can be subtracted by
anybody, as this page shows.
"""

# %%
# A published run
# ---------------
# A clinic chooses the depth of a tree with 369 protected rows and publishes choice, score and
# script, with `random_state=0`. skdpbo gives a `SeededNoiseWarning` and states that the run has no
# guarantee.

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
    """Return what the clinic's script publishes, if the diagnoses of its patients were `y`."""
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
# A tenth of `epsilon=0.5` is spent on the score, and 369 rows are few. The noise of the score has
# standard deviation

sd = published.best_score_std_
print(f"{sd:.3f}; one patient moves the score by {1 / len(y_private):.4f}")

# %%
# so that one patient seems to be hidden.
#
# The attack
# ----------
# The attacker knows the other patients' rows and tries both diagnoses of patient 0 *with the
# published script*. The noise is the same each time, and one of the two runs agrees with the
# published score to the last digit.


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
# All patients
# ------------
# The same for 20 patients, with the published seed and with fresh noise (`random_state=None`, the
# default). The attacker names a diagnosis if exactly one guess agrees with the published score.


def attack(seed, patients):
    """Return how many diagnoses the attacker names rightly, and how many wrongly."""
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


patients = range(20)
for name, seed in {"random_state=0": 0, "random_state=None": None}.items():
    right, wrong = attack(seed, patients)
    print(f"{name:18} of {len(patients)} diagnoses {right} named rightly, {wrong} wrongly")

# %%
# With the seed every diagnosis is found. With fresh noise agreement is a coincidence, equally
# likely for the wrong diagnosis: the publishable scores form the same lattice of a few hundred
# values for any records.
#
# Figure
# ------
# Published scores for the two versions of the data. With the seed they differ in one visible way.
# Without it the distributions overlap as epsilon = 0.5 requires.

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
            runs = [publish(y, seed).best_score_ for _ in range(1 if seed == 0 else 60)]
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
    axes[1].set_ylabel("runs of 60")
    axes[1].legend()

# %%
# Recommendations
# ---------------
# - Leave `random_state=None` on searchers and private estimators. Candidates, splits and starts are
#   fixed and public anyway.
# - Seeds of *public* objects may stay, like that of the trees here.
# - To let others check a result, publish the code, the public data and `privacy_`.
# - Use a seed for tests on synthetic data.
