"""
==================================================
Public rows, protected rows, and how many you need
==================================================

Searches distinguish public rows, which may influence the result freely, and protected rows, which
the guarantee covers. This page shows the three ways to pass them, the number of protected rows
needed, and public rows from another population.
"""

# %%
# Passing public and protected rows
# ---------------------------------
# Synthetic patients of a hospital: two of four measurements predict the illness, the second one in
# waves, for which a tree needs some depth.

import warnings

import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.tree import DecisionTreeClassifier

from skdpbo import DPBayesSearchCV, DPGridSearchCV
from skdpbo.exceptions import PublicTrainingWarning
from skdpbo.mechanisms import PermuteAndFlip

rng = np.random.default_rng(0)


def patients(n, waves=3.0):
    X = rng.normal(size=(n, 4))
    risk = 2.5 * X[:, 0] + waves * np.sin(2 * X[:, 1])
    return X, (risk + rng.logistic(size=n) > 0).astype(int)


X_public, y_public = patients(600)
X_private, y_private = patients(2000)
depths = {"max_depth": list(range(1, 13))}
tree = DecisionTreeClassifier(random_state=0)  # of public trees: this seed is harmless

# %%
# With `X_val`, the rows of `X` are public and train; the rows of `X_val` are protected and judge.

search = DPGridSearchCV(tree, depths, epsilon=1.0)
search.fit(X_public, y_public, X_val=X_private, y_val=y_private)
print(search.best_params_, f"score {search.best_score_:.3f}")

# %%
# Without `X_val` the searcher protects a fifth of the rows, chosen by position. **The other four
# fifths are not protected**, and a warning is given:

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    search.fit(X_private, y_private)
print(*[f"{w.category.__name__}: {w.message}" for w in caught], sep="\n")

# %%
# If no row may be public, turn the warning into an error, so that a forgotten `X_val` is noticed:

with warnings.catch_warnings():
    warnings.simplefilter("error", PublicTrainingWarning)
    try:
        search.fit(X_private, y_private)
    except PublicTrainingWarning:
        print("stopped: no row was read")

# %%
# ``protect="all"`` protects all rows; see "Tuning when no row is public". The three calls:

try:
    import matplotlib.pyplot as plt
except ImportError:
    print("(no plot: matplotlib is not installed)")
else:
    PUBLIC, PRIVATE = "#0072B2", "#D55E00"
    calls = {
        "fit(X, y, X_val=..., y_val=...)": [
            ("X trains", 600, PUBLIC),
            ("X_val judges", 2000, PRIVATE),
        ],
        "fit(X, y)": [("four fifths train", 1600, PUBLIC), ("a fifth\njudges", 400, PRIVATE)],
        'fit(X, y) with protect="all"': [("X trains and judges", 2000, PRIVATE)],
    }
    fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
    for k, parts in enumerate(calls.values()):
        left = 0
        for label, width, colour in parts:
            ax.barh(k, width, left=left, height=0.62, color=colour, edgecolor="white", linewidth=3)
            ax.text(left + width / 2, k, label, ha="center", va="center", color="white")
            left += width
    ax.set_yticks(range(len(calls)), list(calls), family="monospace")
    ax.set(xlabel="rows", ylim=(2.5, -0.5))
    for colour, label in ((PUBLIC, "public"), (PRIVATE, "protected")):
        ax.bar(0, 0, color=colour, label=label)
    ax.legend(frameon=False, loc="lower right")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)

# %%
# Number of protected rows
# ------------------------
# A protected row has one vote on every candidate, and the noise has the size of a few votes for any
# number of rows. More rows therefore reduce its effect. With synthetic patients we can compute the
# exact accuracy of the released depth, on 50 000 further patients, against the number of protected
# rows.
#
# No search has to be run. `DPGridSearchCV` chooses by permute-and-flip, and `PermuteAndFlip`
# computes the probability with which each candidate is released.

X_more, y_more = patients(50_000)
models = [DecisionTreeClassifier(max_depth=d, random_state=0) for d in depths["max_depth"]]
wrong = np.array([m.fit(X_public, y_public).predict(X_more) != y_more for m in models])
exact = 1 - wrong.mean(axis=1)


def expected_score(n_rows, epsilon, repeats=60):
    """Mean exact score of the released candidate, over choices and draws of protected rows."""
    choice = PermuteAndFlip(0.9 * epsilon, sensitivity=1)  # a tenth pays for the score
    draw = np.random.default_rng(1).choice  # the same rows for every epsilon
    draws = (draw(wrong.shape[1], n_rows, replace=False) for _ in range(repeats))
    return np.mean([choice.probabilities(wrong[:, rows].sum(axis=1)) @ exact for rows in draws])


sizes = np.array([30, 100, 300, 1000, 3000, 10_000, 30_000])
epsilons = [0.01, 0.1, 1.0, 10.0]
curves = {epsilon: [expected_score(n, epsilon) for n in sizes] for epsilon in epsilons}
for epsilon, curve in curves.items():
    print(f"epsilon {epsilon:5}", *(f"{value:.3f}" for value in curve))
print(f"best depth {exact.max():.3f}, a depth at random {exact.mean():.3f}")

# %%
# Rows times epsilon matter: ten times the rows allow a tenth of the epsilon. Where the product is a
# few thousand, the choice is almost optimal. Epsilon 10 is hardly better than epsilon 1, where
# sampling error dominates the noise.

try:
    import matplotlib.pyplot as plt
except ImportError:
    pass
else:
    fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    ax.axhline(exact.max(), color=PUBLIC, ls="--", lw=1)
    ax.text(30, exact.max() + 0.0004, "best depth", color=PUBLIC, va="bottom")
    ax.axhline(exact.mean(), color="0.5", ls=":", lw=1)
    ax.text(sizes[-1], exact.mean(), "a depth at random", color="0.4", ha="right", va="bottom")
    shades = plt.get_cmap("Oranges")(np.linspace(0.35, 0.95, len(epsilons)))
    for (epsilon, curve), colour in zip(curves.items(), shades, strict=True):
        ax.semilogx(sizes, curve, "o-", color=colour, lw=2, label=f"ε = {epsilon:g}")
    ax.set(xlabel="protected rows", ylabel="exact accuracy of the released depth")
    ax.set_xticks(sizes, [f"{n:,}".replace(",", " ") for n in sizes])
    ax.set_xticks([], minor=True)
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 0.95))
    ax.spines[["top", "right"]].set_visible(False)

# %%
# Public rows from another population
# -----------------------------------
# Now the protected rows come from another hospital, where the second measurement has no effect.
# Trees deep enough to use it are worse there than shallow ones. Cross-validation on public rows
# cannot show this; the protected rows can.

X_other, y_other = patients(300, waves=0.0)
X_check, y_check = patients(20_000, waves=0.0)
public_view = np.array([cross_val_score(m, X_public, y_public).mean() for m in models])
truth = np.array([m.score(X_check, y_check) for m in models])
best_public, best_private = 1 + public_view.argmax(), 1 + truth.argmax()
print(f"best depth: {best_public} on public rows, {best_private} on protected ones")

# %%
# `DPBayesSearchCV` adds the public scores to the choice (`prior_weight="auto"`), because with few
# protected rows they are more informative. This costs no budget. If the public rows come from
# another population, use ``prior_weight=0``.

chosen = {}
for weight in ("auto", 0):
    guided = DPBayesSearchCV(
        tree, {"max_depth": (1, 12)}, n_iter=12, cv=3, prior_weight=weight, refit=False
    )
    runs = [
        guided.fit(X_public, y_public, X_val=X_other, y_val=y_other).best_params_["max_depth"]
        for _ in range(12)
    ]
    chosen[weight] = np.array(runs)
    score = truth[chosen[weight] - 1].mean()
    print(f"prior_weight={weight!r:6} mean exact score {score:.3f}, depths {sorted(runs)}")

# %%
# The guarantee is the same in all runs: a poor prior costs accuracy, not privacy.
# ``prior_weight=0`` corrects the *choice* only; the models are still trained on the public rows.

try:
    import matplotlib.pyplot as plt
except ImportError:
    pass
else:
    fig, (top, bottom) = plt.subplots(
        2, 1, figsize=(7, 5), sharex=True, height_ratios=[2, 1], layout="constrained"
    )
    top.plot(depths["max_depth"], public_view, "o-", color=PUBLIC)
    top.plot(depths["max_depth"], truth, "o-", color=PRIVATE)
    top.text(12.3, public_view[-1], "public rows say", color=PUBLIC, va="center")
    top.text(12.3, truth[-1], "the truth of the\nprotected hospital", color=PRIVATE, va="center")
    top.set(ylabel="accuracy", xlim=(0.5, 15.8))
    styles = zip(chosen.items(), (PUBLIC, PRIVATE), (1, -1), strict=True)
    for (weight, runs), colour, side in styles:
        for depth, count in zip(*np.unique(runs, return_counts=True), strict=True):
            heights = side * (np.arange(count) + 0.7)
            bottom.plot(np.full(count, depth), heights, "o", color=colour, ms=6, mec="white")
        name = f"prior_weight={weight!r}".replace("'", '"')
        bottom.text(12.3, 4 * side, name, color=colour, va="center")
    bottom.axhline(0, color="0.7", lw=0.8)
    bottom.set(xlabel="max_depth", ylabel="chosen in\n12 searches", yticks=[])
    bottom.set_xticks(depths["max_depth"])
    for ax in (top, bottom):
        ax.spines[["top", "right"]].set_visible(False)
    plt.show()
