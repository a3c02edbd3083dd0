"""
===================================
Public rows from another population
===================================

A search is guided by public rows, but the protected rows may come from another population.
Synthetic patients show what happens then, and what to set.
"""

# %%
# Two hospitals
# -------------
# Two of four measurements predict the illness in the public hospital, the second one in waves, for
# which a tree needs some depth.

import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.tree import DecisionTreeClassifier

from skdpbo import DPBayesSearchCV

PUBLIC, PRIVATE = "#0072B2", "#D55E00"
rng = np.random.default_rng(0)


def patients(n, waves=3.0):
    X = rng.normal(size=(n, 4))
    risk = 2.5 * X[:, 0] + waves * np.sin(2 * X[:, 1])
    return X, (risk + rng.logistic(size=n) > 0).astype(int)


X_public, y_public = patients(600)
depths = range(1, 13)
tree = DecisionTreeClassifier(random_state=0)  # of public trees: this seed is harmless
models = [
    DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X_public, y_public)
    for depth in depths
]

# %%
# In the protected hospital the second measurement has no effect. Trees deep enough to use it are
# worse there than shallow ones. Cross-validation on public rows cannot show this; the protected
# rows can.

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
    print("(no plot: matplotlib is not installed)")
else:
    fig, (top, bottom) = plt.subplots(
        2, 1, figsize=(7, 5), sharex=True, height_ratios=[2, 1], layout="constrained"
    )
    top.plot(depths, public_view, "o-", color=PUBLIC)
    top.plot(depths, truth, "o-", color=PRIVATE)
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
    bottom.set_xticks(depths)
    for ax in (top, bottom):
        ax.spines[["top", "right"]].set_visible(False)
    plt.show()
